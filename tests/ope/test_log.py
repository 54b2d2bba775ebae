"""The log that all policies share: an order of its own without a copy, and results that no policy can leak into."""

import numpy as np
import pytest

import ope_vpm as ov
from ope_vpm.logged import LoggedDataset
from ope_vpm.ope.log import Log
from ope_vpm.ope.memory import Same, remembered
from ope_vpm.ope.problem import Problem
from ope_vpm.policy import GaussianPolicy

LENGTHS = [3, 5, 2, 4, 6, 1]


def walk(seed=0):
    rng = np.random.default_rng(seed)
    steps = sum(LENGTHS)
    truncated = np.zeros(steps, dtype=bool)
    truncated[np.cumsum(LENGTHS) - 1] = True
    states = rng.standard_normal((steps, 2))
    return LoggedDataset.from_arrays(
        states, rng.standard_normal((steps, 1)), rng.random(steps), states + 0.1, truncated=truncated
    )


QUIET = ("broken-chain", "one-row-off")


def test_no_column_is_copied_whatever_the_order():
    data = walk()
    for order in (np.arange(6), np.arange(6)[::-1]):
        given = data.select(order)
        log = Log.check(given, QUIET)
        assert (log.episodes != np.arange(6)).any()  # the canonical order differs, so that a copy would have been made
        for name in ("observations", "actions", "rewards", "next_observations"):
            assert np.shares_memory(getattr(log.data, name), getattr(given, name))


def test_a_memory_map_stays_one(tmp_path):
    data = walk()
    np.save(tmp_path / "states.npy", data.observations)
    mapped = np.load(tmp_path / "states.npy", mmap_mode="r")
    given = LoggedDataset.from_arrays(
        mapped, data.actions, data.rewards, data.next_observations, truncated=data.truncated
    )
    assert isinstance(Log.check(given, QUIET).data.observations, np.memmap)


def test_the_canonical_order_does_not_depend_on_the_given_one():
    data = walk()
    first = Log.check(data, QUIET)
    order = np.array([4, 2, 0, 5, 1, 3])
    second = Log.check(data.select(order), QUIET)
    assert (order[second.episodes] == first.episodes).all()
    assert (first.data.observations[first.rows] == second.data.observations[second.rows]).all()
    assert (first.initial_observations == second.initial_observations).all()
    assert (first.held_out[first.rows] == second.held_out[second.rows]).all()
    assert (first.folds(3)[order] == second.folds(3)).all()


def test_equal_episodes_share_a_fold():
    data = walk()
    twice = Log.check(LoggedDataset.concatenate([data, data]), (*QUIET, "duplicated-episodes"))
    folds = twice.folds(3)
    assert (folds[:6] == folds[6:]).all()
    assert set(folds) == {0, 1, 2}


def test_single_steps_that_repeat_each_other_are_dealt_over_all_folds_whatever_their_order():
    rng = np.random.default_rng(0)
    actions, rewards = rng.integers(3, size=60), rng.integers(2, size=60)

    def shares(order):
        bandit = LoggedDataset.from_arrays(
            np.zeros(60, int), actions[order], rewards[order], terminated=np.ones(60, bool)
        )
        log = Log.check(bandit, (*QUIET, "duplicated-episodes"))
        cells = actions[order] * 2 + rewards[order]
        return np.array([np.bincount(cells[log.folds(5) == fold], minlength=6) for fold in range(5)])

    held = shares(np.arange(60))
    assert (held.sum(axis=0) // 5 <= held).all()
    assert (held == shares(rng.permutation(60))).all()


def test_results_are_computed_once_for_a_function_and_its_settings():
    log, calls = Log.check(walk(), QUIET), []

    @remembered
    def longest(log, factor):
        calls.append(factor)
        return factor * int(log.data.lengths.max())

    assert [longest(log, factor) for factor in (1, 2, 1)] == [6, 12, 6]
    assert calls == [1, 2]


def test_results_of_a_policy_are_its_own_and_hold_for_every_discount():
    data = walk()
    one, other = (GaussianPolicy(lambda seen, shift=shift: (seen[:, :1] + shift, 1.0)) for shift in (0.0, 1.0))
    problem = Problem.pose(data, one, gamma=0.9, ignore=QUIET)
    assert problem.with_gamma(1.0).target_log_prob is problem.target_log_prob
    assert problem.with_policy(other).target_log_prob == pytest.approx(other.log_prob(data.observations, data.actions))
    assert problem.target_log_prob == pytest.approx(one.log_prob(data.observations, data.actions))


def test_ignored_findings_reach_estimators_of_other_packages():
    class Third:
        name = "third"

        def estimate(self, data, policy, *, gamma=1.0, seed=0, **choices):
            seen.append(choices)
            return ov.evaluate(data, policy, "naive", gamma=gamma, seed=seed, **choices)

    seen = []
    policy = GaussianPolicy(lambda states: (states[:, :1], 1.0))
    ov.evaluate(walk(), policy, Third(), ignore=QUIET)
    assert seen[0]["ignore"] == QUIET


def test_an_array_is_remembered_as_itself_and_no_other():
    array = np.zeros(3)
    assert Same(array) == Same(array)
    assert Same(array) != Same(array.copy())
    assert Same(array) != array.tolist()
    assert hash(Same(array)) == hash(Same(array))


@pytest.mark.parametrize("gamma", [1.0, 0.9])
@pytest.mark.parametrize("length", [1, 3])
def test_episodes_with_equal_states_and_actions_may_come_in_any_order(length, gamma):
    """Forty of two states and actions, most of them more than once, which pay and lead on by chance."""
    rng = np.random.default_rng(length)
    rows, last = 40 * length, np.arange(40 * length) % length == length - 1
    states = np.repeat(rng.integers(2, size=40), length)  # they change in the last step alone
    actions, rewards = rng.integers(2, size=rows), rng.random(rows)
    following = np.where(last, rng.integers(2, size=rows), states)
    data = ov.LoggedDataset.from_arrays(states, actions, rewards, following, truncated=last)
    found = set()
    for seed in range(4):
        order = np.random.default_rng(seed).permutation(40)
        value = ov.evaluate(data.select(order), [[0.3, 0.7], [0.6, 0.4]], "onestep", gamma=gamma)
        found.add(tuple(f"{number:.10g}" for number in (value.value, *value.interval)))
    assert len(found) == 1
