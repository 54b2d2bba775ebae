"""The collector on environments small enough to know every number of, and on PyBullet."""

import json
from typing import ClassVar

import gymnasium as gym
import numpy as np
import pytest
from gymnasium import spaces
from scipy.stats import norm

import ope_vpm as ov
from ope_vpm.envs import bullet
from ope_vpm.envs.collect import COPIES, collect, reset_seeds
from ope_vpm.policy import DeterministicPolicy, GaussianPolicy, TablePolicy

SHIPPED = ["reacher", "halfcheetah", "ant"]


class Counter(gym.Env):
    """Adds the action to the state; ends above a limit; starts where the reset's seed says."""

    observation_space = spaces.Box(-np.inf, np.inf, (1,))
    action_space = spaces.Box(-5.0, 5.0, (1,))
    made: ClassVar[list[int]] = []

    def reset(self, *, seed=None, options=None):
        super().reset(seed=seed)
        self.state = self.np_random.uniform(size=1).astype(np.float32)
        return self.state.copy(), {}

    def step(self, action):
        self.state = self.state + np.float32(action)
        return self.state.copy(), float(action[0]) ** 2, bool(self.state[0] > 4), False, {}


def move(amount):
    return DeterministicPolicy(lambda seen: np.full((len(seen), 1), amount), 1, 1)


NOISY = GaussianPolicy(lambda seen: (0.1 * seen, 0.5), action_dimension=1, observation_size=1)


def test_episodes_end_by_the_task_or_by_their_length():
    data = collect(Counter, [move(1.0), move(0.25)], 4, 6, seed=3)
    starts = data.initial_observations[:, 0]
    expected = [np.random.default_rng(s) for s in reset_seeds(3, 4)]
    np.testing.assert_allclose(starts, [rng.uniform() for rng in expected], rtol=1e-6)
    assert data.lengths.tolist() == [4, 6, 4, 6]
    assert data.terminated[data.ends].tolist() == [True, False, True, False]
    assert data.truncated[data.ends].tolist() == [False, True, False, True]
    assert data.next_known.all()
    np.testing.assert_allclose(data.next_observations[data.ends][:, 0], starts + np.array([4, 1.5, 4, 1.5]), rtol=1e-6)
    np.testing.assert_allclose(data.returns, [4.0, 6 / 16, 4.0, 6 / 16])


def test_fewer_trajectories_are_the_first_of_more():
    many = collect(Counter, NOISY, COPIES + 7, 15, seed=1)
    for number in (3, COPIES, COPIES + 2):
        few = collect(Counter, NOISY, number, 15, seed=1)
        part = many.select(slice(0, number))
        np.testing.assert_array_equal(few.observations, part.observations)
        np.testing.assert_array_equal(few.actions, part.actions)


def test_another_action_seed_starts_in_the_same_states():
    first, second = (collect(Counter, NOISY, 30, 5, seed=1, action_seed=seed) for seed in (None, 9))
    np.testing.assert_array_equal(first.initial_observations, second.initial_observations)
    assert (first.actions != second.actions).all()
    other = collect(Counter, NOISY, 30, 5, seed=2)
    assert (first.initial_observations != other.initial_observations).all()


def test_actions_have_the_policy_s_distribution():
    data = collect(Counter, NOISY, 400, 5, seed=0)
    score = (data.actions - 0.1 * data.observations)[:, 0] / 0.5
    assert abs(score.mean()) < 4 / np.sqrt(len(score))
    assert abs(score.var() - 1) < 4 * np.sqrt(2 / len(score))


def test_log_probabilities_are_those_of_who_acted():
    other = GaussianPolicy(lambda seen: (seen, 0.1), action_dimension=1, observation_size=1)
    data = collect(Counter, [NOISY, other], 4, 3, seed=0)
    for number, policy in enumerate([NOISY, other, NOISY, other]):
        part = data.select([number])
        expected = norm.logpdf(part.actions[:, 0], *(side[:, 0] for side in policy.moments(part.observations)))
        np.testing.assert_allclose(part.behaviour_log_prob, expected, rtol=1e-4)
    assert collect(Counter, [NOISY, move(1.0)], 4, 3).behaviour_log_prob is None


def test_finite_states_and_actions():
    """Frozen lake without slipping: right, right, down leads from 0 over 1, 2 to 6."""
    table = np.zeros((16, 4))
    table[:, 2], table[2] = 1.0, [0, 1, 0, 0]
    lake = lambda: gym.make("FrozenLake-v1", is_slippery=False)  # noqa: E731
    data = collect(lake, TablePolicy(table), 2, 3)
    assert data.observations.tolist() == [0, 1, 2] * 2
    assert data.next_observations.tolist() == [1, 2, 6] * 2
    assert data.n_actions == 4
    assert data.finite


WRONG = {
    "too wide a policy": (lambda: collect(Counter, bullet.target("reacher"), 1, 1), "sees 9 numbers"),
    "no policy": (lambda: collect(Counter, [], 1, 1), "at least one policy"),
    "no steps": (lambda: collect(Counter, NOISY, 1, 0), "must be positive"),
    "an unknown id": (lambda: collect("Nothing-v0", NOISY, 1, 1), "cannot make 'Nothing-v0'"),
    "an unknown task": (lambda: bullet.environment_id("reachr"), "did you mean 'reacher'"),
    "an unknown policy": (lambda: bullet.policy("reacher", "best"), "known are step-0040000"),
    "an unknown behaviour": (lambda: bullet.behaviour("reacher", "mixed"), "'mix' or a number"),
}


@pytest.mark.parametrize("name", WRONG)
def test_mistakes_end_in_one_sentence(name):
    call, message = WRONG[name]
    with pytest.raises(ValueError, match=message):
        call()


def test_dictionaries_of_observations_are_refused():
    class Odd(Counter):
        observation_space = spaces.Dict({"a": spaces.Discrete(2)})

    with pytest.raises(TypeError, match="observations must be a Box"):
        collect(Odd, NOISY, 1, 1)


@pytest.mark.parametrize("task", SHIPPED)
def test_pybullet_is_repeatable_and_says_nothing(task, capfd):
    first = bullet.dataset(task, 1.0, COPIES + 2, 4, seed=5)
    again = bullet.dataset(task, 1.0, COPIES + 2, 4, seed=5)
    np.testing.assert_array_equal(first.next_observations, again.next_observations)
    assert np.abs(first.actions).max() <= 1
    assert len(np.unique(first.initial_observations, axis=0)) == COPIES + 2
    assert "argv" not in capfd.readouterr().out


def test_mixtures_take_turns():
    data = bullet.dataset("reacher", "mix", 4, 50, seed=0)
    wide, older = bullet.behaviour("reacher", "mix")
    for policy, mine, other in ((wide, [0, 2], [1, 3]), (older, [1, 3], [0, 2])):
        fit = {
            who: policy.log_prob(part.observations, part.actions).mean()
            for who, part in (("mine", data.select(mine)), ("other", data.select(other)))
        }
        assert fit["mine"] > fit["other"]


@pytest.mark.parametrize("task", SHIPPED)
def test_shipped_policies_are_small_and_grow_in_skill(task):
    files = bullet.checkpoints(task)
    notes = [json.loads(file.with_suffix(".json").read_text()) for file in files]
    assert 5 <= len(files) <= 6
    assert all(file.stat().st_size < 1_000_000 for file in files)
    assert [note["steps_done"] for note in notes] == sorted(note["steps_done"] for note in notes)
    assert all(note["seed"] == 0 for note in notes)
    assert notes[-1]["training_return"] > 1.5 * notes[0]["training_return"]


def test_the_stated_return_is_the_measured_one():
    stated = json.loads(bullet.checkpoints("reacher")[-1].with_suffix(".json").read_text())["return"]
    returns = collect("ReacherBulletEnv-v0", bullet.target("reacher"), 40, 150, seed=77).returns
    error = np.hypot(stated["standard_error"], returns.std(ddof=1) / np.sqrt(40))
    assert abs(returns.mean() - stated["mean"]) < 4 * error


def test_the_target_evaluates_itself():
    data = bullet.dataset("reacher", 0.0, 40, 50, seed=3)
    value = ov.evaluate(data, bullet.target("reacher"), "vpm", time_limit="restart")
    assert value.value == pytest.approx(data.rewards.mean(), abs=4 * value.standard_error)
