"""Logs of gymnasium environments: every column is what the environment did, also after a crash."""

import subprocess
import sys
from pathlib import Path

import gymnasium as gym
import numpy as np
import pytest
from gymnasium.vector import SyncVectorEnv, VectorEnv
from gymnasium.vector.utils import batch_space

import ope_vpm as ov
from ope_vpm.plugins import LogTransitions, LogVectorTransitions


class Counting(gym.Env):
    """State and reward count the steps; the task ends after `length` of them."""

    observation_space = gym.spaces.Box(0, 100, (1,), np.float32)
    action_space = gym.spaces.Discrete(3)

    def __init__(self, length=3):
        self.length = length
        self.state = np.zeros(1, np.float32)  # returned itself, so that a log without copies would be overwritten

    def reset(self, *, seed=None, options=None):
        super().reset(seed=seed)
        self.state[:] = 0
        return self.state, {}

    def step(self, action):
        self.state += 1
        return self.state, float(self.state[0]), bool(self.state[0] == self.length), False, {}


def played(env, steps, actions=(0, 1, 2)):
    env.reset(seed=0)
    for number in range(steps):
        _, _, terminated, truncated, _ = env.step(actions[number % len(actions)])
        if terminated or truncated:
            env.reset()


@pytest.mark.parametrize("ending", ["npz", "parquet"])
def test_every_column(ending, tmp_path):
    path = tmp_path / f"log.{ending}"
    with LogTransitions(gym.wrappers.TimeLimit(Counting(), 10), path, flush_every=2) as env:
        played(env, 8)
    data = ov.load_dataset(path)
    assert data.lengths.tolist() == [3, 3, 2]
    assert data.observations[:, 0].tolist() == [0, 1, 2, 0, 1, 2, 0, 1]
    assert data.next_observations[:, 0].tolist() == [1, 2, 3, 1, 2, 3, 1, 2]
    assert data.rewards.tolist() == [1, 2, 3, 1, 2, 3, 1, 2]
    assert data.actions.tolist() == [0, 1, 2, 0, 1, 2, 0, 1]
    assert data.terminated.tolist() == [False, False, True] * 2 + [False] * 2
    assert not data.truncated.any()
    assert data.n_actions == 3
    assert [file.name for file in tmp_path.iterdir()] == [path.name]


def test_time_limits_and_early_resets(tmp_path):
    env = LogTransitions(gym.wrappers.TimeLimit(Counting(), 2), tmp_path / "log.npz")
    played(env, 3)
    env.reset()  # in the middle of an episode
    env.step(1)
    env.close()
    data = ov.load_dataset(tmp_path / "log.npz")
    assert data.lengths.tolist() == [2, 1, 1]
    assert data.truncated.tolist() == [False, True, False, False]
    env.close()  # a second time does nothing
    with pytest.raises(FileExistsError, match="exists already: give another name"):
        LogTransitions(Counting(), tmp_path / "log.npz")


CRASH = """
import os, sys
import gymnasium as gym
from ope_vpm.plugins import LogTransitions
env = LogTransitions(gym.make("CartPole-v1"), sys.argv[1], flush_every=10)
env.reset(seed=0)
env.action_space.seed(0)
for step in range(25):
    _, _, terminated, truncated, _ = env.step(env.action_space.sample())
    if terminated or truncated:
        env.reset()
if sys.argv[2] == "killed":
    os._exit(9)
raise RuntimeError("a mistake in somebody's loop")
"""


@pytest.mark.parametrize(("how", "rows"), [("error", 25), ("killed", 20)])
def test_after_a_crash_the_same_call_reads_what_was_logged(how, rows, tmp_path):
    path = tmp_path / "log.npz"
    result = subprocess.run([sys.executable, "-c", CRASH, str(path), how], capture_output=True, text=True, check=False)
    assert result.returncode == (9 if how == "killed" else 1), result.stderr
    assert path.exists() == (how == "error")
    data = ov.load_dataset(path)
    assert len(data) == rows
    same = data.next_observations[:-1][~data.terminated[:-1]]
    np.testing.assert_array_equal(same, data.observations[1:][~data.terminated[:-1]])


def test_vectorised_environments_skip_the_steps_that_reset(tmp_path):
    envs = SyncVectorEnv([lambda: Counting(3), lambda: Counting(2)])
    env = LogTransitions(envs, tmp_path / "log.npz", flush_every=3)
    assert isinstance(env, LogVectorTransitions)
    env.reset(seed=0)
    for number in range(6):
        env.step(np.array([number % 3, 2]))
    env.close()
    data = ov.load_dataset(tmp_path / "log.npz")
    # The first environment ends at step 3, spends step 4 on the reset, and takes 2 more; the second ends at 2 and 5.
    assert sorted(data.lengths.tolist()) == [2, 2, 2, 3]
    for number in range(data.n_episodes):
        episode = data.select(number)
        assert episode.observations[:, 0].tolist() == list(range(len(episode)))
        assert episode.next_observations[:, 0].tolist() == list(range(1, len(episode) + 1))
        if (episode.actions != 2).any():
            first = [0, 1, 2] if len(episode) == 3 else [1, 2]  # step 4, whose action was 0, was ignored
            assert episode.actions.tolist() == first


class SameStep(VectorEnv):
    """Two counting environments that are reset in the step that ends them, as gymnasium 1.1 describes it."""

    metadata = {"autoreset_mode": "SameStep"}  # noqa: RUF012
    num_envs = 2
    single_observation_space = Counting.observation_space
    single_action_space = Counting.action_space
    observation_space = batch_space(Counting.observation_space, 2)
    action_space = batch_space(Counting.action_space, 2)

    def reset(self, *, seed=None, options=None):
        self.count = np.zeros((2, 1), np.float32)
        return self.count, {}

    def step(self, actions):
        self.count += 1
        reward, ended, infos = self.count[:, 0].copy(), self.count[:, 0] >= [3, 2], {}
        if ended.any():
            final = np.array([None, None], dtype=object)
            for place in np.flatnonzero(ended):
                final[place] = self.count[place].copy()
            infos = {"final_obs": final, "_final_obs": ended}
            self.count[ended] = 0
        return self.count, reward, ended, np.zeros(2, bool), infos


def test_resets_in_the_same_step_take_the_last_state_from_the_infos(tmp_path):
    env = LogTransitions(SameStep(), tmp_path / "log.npz")
    env.reset()
    for _ in range(6):
        env.step(np.array([0, 1]))
    env.close()
    data = ov.load_dataset(tmp_path / "log.npz")
    assert sorted(data.lengths.tolist()) == [2, 2, 2, 3, 3]
    assert data.terminated[data.ends].all()
    np.testing.assert_array_equal(data.next_observations, data.observations + 1)
    np.testing.assert_array_equal(data.rewards, data.next_observations[:, 0])


class Strange(gym.Env):
    """A dictionary of an image and a number, and pairs of discrete actions."""

    observation_space = gym.spaces.Dict(
        {"picture": gym.spaces.Box(0, 255, (2, 2), np.uint8), "charge": gym.spaces.Box(0, 1, (1,))}
    )
    action_space = gym.spaces.MultiDiscrete([2, 3])

    def reset(self, *, seed=None, options=None):
        super().reset(seed=seed)
        return {"picture": np.full((2, 2), 7, np.uint8), "charge": np.ones(1, np.float32)}, {}

    def step(self, action):
        return {"picture": np.full((2, 2), 9, np.uint8), "charge": np.zeros(1, np.float32)}, 1.0, False, True, {}


def test_dictionaries_images_and_pairs_of_actions(tmp_path):
    env = LogTransitions(Strange(), tmp_path / "log.npz")
    env.reset()
    env.step(np.array([1, 2]))
    env.close()
    data = ov.load_dataset(tmp_path / "log.npz")
    assert data.observations.tolist() == [[1, 7, 7, 7, 7]]  # in the order of the sorted keys
    assert data.next_observations.tolist() == [[0, 9, 9, 9, 9]]
    assert data.actions.tolist() == [1 * 3 + 2]
    assert data.n_actions == 6


def test_steps_after_the_end_of_the_log_are_not_lost_in_silence(tmp_path):
    env = LogTransitions(Counting(), tmp_path / "log.npz")
    env.reset()
    env.step(0)
    env.close()
    with pytest.raises(ValueError, match=r"log\.npz was written when the environment was closed"):
        env.step(0)
    assert len(ov.load_dataset(tmp_path / "log.npz")) == 1


def test_names_that_cannot_be_written_are_refused_at_once(tmp_path):
    with pytest.raises(ValueError, match=r"must end in \.npz"):
        LogTransitions(Counting(), tmp_path / "log.txt")
    with pytest.raises(FileNotFoundError, match=r"the folder of .* does not exist"):
        LogTransitions(Counting(), tmp_path / "nowhere" / "log.npz")
    with pytest.raises(ValueError, match="at least 1: got 0"):
        LogTransitions(Counting(), tmp_path / "log.npz", flush_every=0)
    if Path("/proc/self").exists():  # a folder where nobody, not even root, creates a file
        with pytest.raises(PermissionError, match=r"/proc/log\.npz cannot be written .*: give another folder"):
            LogTransitions(Counting(), "/proc/log.npz")
    assert not list(tmp_path.iterdir())


@pytest.mark.parametrize(
    ("space", "message"),
    [
        (gym.spaces.Discrete(2, start=1), "must start at 0"),
        (gym.spaces.MultiBinary(20), "1048576 combinations of actions"),
        (gym.spaces.Dict(a=gym.spaces.Discrete(2)), "actions must be Discrete, Box"),
    ],
)
def test_actions_that_cannot_be_written_are_refused_before_the_first_step(space, message, tmp_path):
    env = Counting()
    env.action_space = space
    with pytest.raises((ValueError, TypeError), match=message):
        LogTransitions(env, tmp_path / "log.npz")
    assert not list(tmp_path.iterdir())


def test_whole_actions_of_a_box_are_floats(tmp_path):
    env = Counting()
    env.action_space = gym.spaces.Box(0, 5, (1,), np.int64)
    with LogTransitions(env, tmp_path / "log.npz") as log:
        log.reset()
        log.step(np.array([4]))
    assert ov.load_dataset(tmp_path / "log.npz").actions.tolist() == [[4.0]]


@pytest.mark.parametrize("vectorised", [False, True])
def test_a_log_is_overwritten_only_if_asked_to(vectorised, tmp_path):
    def logged(steps, close=True, **options):
        env = SyncVectorEnv([Counting]) if vectorised else Counting()
        with_log = LogTransitions(env, path, flush_every=1, **options)
        with_log.reset(seed=0)
        for _ in range(steps):
            with_log.step(np.zeros(1, int) if vectorised else 0)
        if close:
            with_log.close()
        return with_log

    path = tmp_path / "log.npz"
    logged(2)
    with pytest.raises(FileExistsError, match=r"log\.npz exists already: give another name, or overwrite=True"):
        logged(1)
    assert len(ov.load_dataset(path)) == 2
    unfinished = logged(1, close=False, overwrite=True)
    assert len(ov.load_dataset(path)) == 1  # the new one's first part, not the old log
    with pytest.raises(FileExistsError, match=r"log\.npz\.parts exists already"):
        logged(1)
    unfinished.close()
    logged(3, overwrite=True)
    assert len(ov.load_dataset(path)) == 3
    assert [file.name for file in tmp_path.iterdir()] == ["log.npz"]
