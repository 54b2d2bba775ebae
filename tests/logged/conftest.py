"""What the environments returned at the time, and small datasets that nothing is wrong with."""

import gymnasium as gym
import numpy as np
import pytest

from ope_vpm import LoggedDataset


class Recorder(gym.Wrapper):
    """Keeps every row as the environment gave it."""

    def __init__(self, env):
        super().__init__(env)
        self.rows = []
        self.seen = None

    def reset(self, **keywords):
        self.seen, info = self.env.reset(**keywords)
        return self.seen, info

    def step(self, action):
        following, reward, terminated, truncated, info = self.env.step(action)
        self.rows.append((self.seen, action, reward, following, terminated, truncated))
        self.seen = following
        return following, reward, terminated, truncated, info

    def columns(self):
        return [np.array(column) for column in zip(*self.rows, strict=True)]


@pytest.fixture
def record():
    return Recorder


def rollout(env_id, steps, seed=0, act=None, **options):
    """A clean dataset of a random (or given) policy in a gymnasium environment."""
    env = Recorder(gym.make(env_id, **options))
    env.action_space.seed(seed)
    seen, _ = env.reset(seed=seed)
    for _ in range(steps):
        seen, _, terminated, truncated, _ = env.step(act(seen) if act else env.action_space.sample())
        if terminated or truncated:
            seen, _ = env.reset()
    return LoggedDataset.from_arrays(
        *env.columns(), observation_space=env.observation_space, action_space=env.action_space
    )


@pytest.fixture
def cartpole():
    return rollout("CartPole-v1", 400)


def same(first, second):
    """Two datasets are equal, column by column."""
    for name in ("observations", "actions", "rewards", "terminated", "truncated", "next_known", "starts"):
        np.testing.assert_array_equal(getattr(first, name), getattr(second, name), err_msg=name)
    known = first.next_known
    np.testing.assert_array_equal(first.next_observations[known], second.next_observations[known])
    np.testing.assert_array_equal(first.from_reset, second.from_reset)


@pytest.fixture(name="same")
def same_fixture():
    return same


@pytest.fixture(name="rollout")
def rollout_fixture():
    return rollout
