"""What every registered estimator must do, on finite pairs and on points."""

import json

import numpy as np
import pytest

import ope_vpm as ov
from ope_vpm.envs.linear_gaussian import BEHAVIOUR, TARGET, LinearGaussian
from ope_vpm.envs.random_mdp import RandomMDP

NAMES = tuple(name for name in ov.estimators() if name != "d3rlpy_fqe")  # takes d3rlpy's policies only
FAST = {
    "vpm": {"n_features": 100},
    "model": {"training_steps": 100, "rollouts": 20, "members": 2},
    "wist": {"behaviour": BEHAVIOUR.policy()},  # clones are networks here: one test below has them
    "wiss": {"behaviour": BEHAVIOUR.policy()},
    "liu": {"behaviour": BEHAVIOUR.policy(), "training_steps": 30},
    "fqe": {"training_steps": 50, "n_features": 50},
    "dr": {"n_features": 50},
    "auto": {"n_features": 50},
    "wdr": {"behaviour": BEHAVIOUR.policy(), "n_features": 40},
    "magic": {"behaviour": BEHAVIOUR.policy(), "n_features": 40},
    **{name: {"n_features": 40} for name in ("dualdice", "gendice", "gradientdice", "bestdice", "mwl", "mql")},
}
MDP = RandomMDP.draw(6, 2, seed=0)
FINITE = (MDP.dataset(30, 40, MDP.policy(1), seed=2), ov.as_policy(MDP.policy(3)))
POINTS = (LinearGaussian().dataset(15, 30, BEHAVIOUR, seed=0), TARGET.policy())
CASES = {"finite": FINITE, "points": POINTS}


def options(name, case):
    return FAST.get(name, {}) if case == "points" else {}


def evaluate(name, case, data=None, **choices):
    logged, policy = CASES[case]
    return ov.evaluate(data if data is not None else logged, policy, name, **options(name, case), **choices)


def rebuilt(data, rewards=None, order=None):
    """The same steps with other rewards, or the episodes in another order."""
    chosen = data if order is None else data.select(order)
    return ov.LoggedDataset.from_arrays(
        chosen.observations,
        chosen.actions,
        chosen.rewards if rewards is None else rewards,
        chosen.next_observations,
        chosen.terminated,
        chosen.truncated,
        observation_space=chosen.observation_space,
        action_space=chosen.action_space,
    )


@pytest.fixture(scope="module")
def answers():
    """Each estimator on each kind of data, made when first asked for."""
    made = {}

    def answer(name, case, gamma):
        key = (name, case, gamma)
        if key not in made:
            made[key] = evaluate(name, case, gamma=gamma)
        return made[key]

    return answer


@pytest.mark.parametrize("gamma", [1.0, 0.9])
@pytest.mark.parametrize("case", CASES)
@pytest.mark.parametrize("name", NAMES)
class TestEveryEstimator:
    def test_value_lies_between_the_rewards_and_in_its_interval(self, answers, name, case, gamma):
        found, rewards = answers(name, case, gamma), CASES[case][0].rewards
        assert found.estimator == name
        assert rewards.min() < found.value < rewards.max()
        assert found.interval[0] < found.interval[1]
        assert found.interval[0] <= found.value <= found.interval[1]
        assert found.standard_error > 0
        assert found.verdict in ("reliable", "caution", "unreliable")
        assert (found.verdict == "reliable") == (not found.reasons)

    def test_same_seed_same_answer(self, answers, name, case, gamma):
        first, second = answers(name, case, gamma), evaluate(name, case, gamma=gamma)
        assert first.as_dict() == second.as_dict()

    def test_order_of_episodes_changes_nothing(self, answers, name, case, gamma):
        data = CASES[case][0]
        order = np.random.default_rng(0).permutation(data.n_episodes)
        first, second = answers(name, case, gamma), evaluate(name, case, rebuilt(data, order=order), gamma=gamma)
        assert second.value == pytest.approx(first.value, abs=1e-9)
        assert second.interval == pytest.approx(first.interval, abs=1e-9)
        if first.weights is not None:
            rows = np.concatenate([np.flatnonzero(data.episode == episode) for episode in order])
            np.testing.assert_allclose(second.weights, first.weights[rows], atol=1e-7)

    def test_reward_shift_and_scale_carry_through(self, answers, name, case, gamma):
        data = CASES[case][0]
        first = answers(name, case, gamma)
        second = evaluate(name, case, rebuilt(data, rewards=3 * data.rewards + 5), gamma=gamma)
        # Float32 networks see standardised rewards that differ in their last bits.
        exact = name not in ("model", "fqe") or case == "finite"
        assert second.value == pytest.approx(3 * first.value + 5, abs=1e-6 if exact else 1e-3)

    def test_weights_are_a_ratio(self, answers, name, case, gamma):
        weights = answers(name, case, gamma).weights
        if weights is not None:
            assert weights.shape == (len(CASES[case][0]),)
            assert (weights >= 0).all()
            assert weights.mean() == pytest.approx(1)
            assert not weights.flags.writeable

    def test_json_ready(self, answers, name, case, gamma):
        json.dumps(answers(name, case, gamma).as_dict(), allow_nan=False)


def test_cloned_behaviour_does_not_depend_on_the_order_of_episodes():
    data, policy = POINTS
    names = ["wist", "wiss"]
    first = ov.evaluate(data, policy, names)
    second = ov.evaluate(rebuilt(data, order=np.arange(data.n_episodes)[::-1]), policy, names)
    assert [first[name].value for name in names] == pytest.approx([second[name].value for name in names], rel=1e-12)


@pytest.mark.parametrize("case", CASES)
@pytest.mark.parametrize("name", NAMES)
def test_gamma_zero_and_near_one(name, case):
    for gamma in (0.0, 0.999):
        assert np.isfinite(evaluate(name, case, gamma=gamma).value)


@pytest.mark.parametrize("name", NAMES)
def test_nan_is_refused(name):
    data = POINTS[0]
    rewards = data.rewards.copy()
    rewards[7] = np.nan
    with pytest.raises(ValueError, match="the data look wrong"):
        evaluate(name, "points", rebuilt(data, rewards=rewards))


@pytest.mark.parametrize("name", NAMES)
def test_one_episode_has_a_value_and_no_interval(name):
    found = evaluate(name, "finite", FINITE[0].select([0]))
    assert np.isfinite(found.value)
    assert found.interval is None
    assert found.standard_error is None
    assert "one episode gives no interval" in found.reasons[0]
    assert found.verdict == "unreliable"


@pytest.mark.parametrize("name", NAMES)
def test_equal_rewards_give_that_reward(name):
    data = FINITE[0]
    found = evaluate(name, "finite", rebuilt(data, rewards=np.full(len(data), 2.5)))
    assert found.value == pytest.approx(2.5, abs=1e-9)


@pytest.mark.parametrize("name", NAMES)
@pytest.mark.parametrize("gamma", [1.0, 0.9])
def test_copies_are_counted_once_and_where_they_are_not_change_the_interval_alone(name, gamma):
    data = FINITE[0]
    first = evaluate(name, "finite", gamma=gamma)
    twice = ov.LoggedDataset.concatenate([data, data])
    once = evaluate(name, "finite", twice, gamma=gamma)  # copies are counted once
    assert (once.value, once.interval, once.verdict) == (first.value, first.interval, first.verdict)
    second = evaluate(name, "finite", twice, gamma=gamma, ignore=["duplicated-episodes"])
    # Smoothed counts of the clone do notice: they move by a few per cent. So does auto, which shrinks by the error.
    smoothed = name in ("onestep", "wist", "wiss", "liu", "wdr", "magic", "auto")
    assert second.value == pytest.approx(first.value, abs=first.standard_error if smoothed else 1e-8)
    if name not in ("wiss", "wdr", "magic"):  # that products of ratios are missing is surer with more of them
        assert second.standard_error < first.standard_error


@pytest.mark.parametrize("name", NAMES)
def test_ended_episodes_both_ways(name):
    """Two states, 0 → 1 → end, rewards 0 then 1: (1-γ)γ with γ = 0.5, and 1/2 on average with restarts."""
    episodes = 20
    data = ov.LoggedDataset.from_arrays(
        np.tile([0, 1], episodes),
        np.tile([0, 0], episodes),
        np.tile([0.0, 1.0], episodes),
        np.tile([1, 0], episodes),
        terminated=np.tile([False, True], episodes),
    )
    ignore = ("duplicated-episodes", "constant-columns", "flags-confused")
    assert ov.evaluate(data, [[1.0], [1.0]], name, gamma=0.5, ignore=ignore).value == pytest.approx(0.25)
    assert ov.evaluate(data, [[1.0], [1.0]], name, gamma=1.0, ignore=ignore).value == pytest.approx(0.5)
    restarted = ov.evaluate(data, [[1.0], [1.0]], name, gamma=0.5, on_end="restart", ignore=ignore)
    assert restarted.value == pytest.approx(0.25 / 0.75)
