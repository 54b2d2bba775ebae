"""What half of a log says, and what that says of the whole."""

from dataclasses import replace

import numpy as np
import pytest

import ope_vpm as ov
from benchmarks._made import made_tasks
from ope_vpm.envs import taxi
from ope_vpm.envs.random_mdp import RandomMDP
from ope_vpm.logged.episode import take
from ope_vpm.ope import Problem
from ope_vpm.ope.finite.choice import Chosen
from ope_vpm.ope.finite.halves import bias_left, by_halves, with_halves
from ope_vpm.ope.finite.problem import finite_problem
from ope_vpm.ope.finite.solve import solve
from ope_vpm.ope.log import Log

QUIET = ("constant-columns", "flags-confused", "duplicated-episodes", "broken-chain")
MDP = RandomMDP.draw(12, 6, seed=3)
TARGET = MDP.policy(2)


def log(episodes=9, length=7, seed=0):
    """Too few steps for 72 pairs, so that some are never seen."""
    return MDP.dataset(episodes, length, MDP.policy(1), seed)


def half_logs(data):
    """The two halves as logs of their own."""
    folds = Log.check(data, QUIET).folds(2)
    return [take(data, np.flatnonzero(folds == k), len(data)) for k in (0, 1)]


@pytest.mark.parametrize("gamma", [1.0, 0.9])
def test_the_values_of_halves_are_those_of_logs_that_hold_no_more(gamma):
    """At γ < 1 all initial states are known to both halves: here every episode begins in the same state."""
    data = log()
    first = np.array(data.observations)
    first[data.starts] = 0
    data = replace(data, observations=first)
    value = ov.evaluate(data, TARGET, "vpm", gamma=gamma, ignore=QUIET)
    of_logs = [ov.evaluate(half, TARGET, "vpm", gamma=gamma, ignore=QUIET).value for half in half_logs(data)]
    assert value.diagnostics["unseen_mass"] > 0.05
    mean = np.average(of_logs, weights=[len(half) for half in half_logs(data)])
    assert value.diagnostics["value_by_half"] == pytest.approx(mean, abs=1e-9)
    assert value.value != pytest.approx(mean, abs=1e-4)


def test_what_is_left_of_a_bias():
    """It moved by 0.3 while the unseen mass fell from 0.3 to 0.1, so that half of that is left."""
    assert bias_left(-0.3, 0.1, 0.3) == pytest.approx(0.15)
    assert bias_left(0.3, 0.0, 0.3) == 0
    assert bias_left(0.3, 0.2, 0.21) == pytest.approx(0.6)
    assert bias_left(0.3, 0.2, 0.2) == bias_left(0.3, 0.2, 0.1) == pytest.approx(0.6)


def test_what_is_left_is_one_more_error():
    finite = finite_problem(Problem.pose(log(), TARGET, gamma=1.0, ignore=QUIET))
    plain = solve(finite, Chosen())
    found = with_halves(finite, plain, Chosen())
    assert found.value == plain.value
    assert found.half is not None
    left = bias_left(plain.value - found.half.value, plain.unseen_mass, found.half.unseen_mass)
    assert left > 0
    assert found.error == pytest.approx(np.hypot(plain.error, left))


@pytest.mark.parametrize("lengths", [(7,) * 9, (40, 3, 3, 5, 2, 9)])
def test_what_is_linear_in_the_steps_does_not_move(lengths):
    """A mean of rewards is that of halves, weighted by their steps, however long episodes are."""
    parts = [log(1, length, seed) for seed, length in enumerate(lengths)]
    names = ("observations", "actions", "rewards", "next_observations", "terminated", "truncated")
    data = ov.LoggedDataset.from_arrays(*(np.concatenate([getattr(part, name) for part in parts]) for name in names))
    finite = finite_problem(Problem.pose(data, TARGET, gamma=1.0, ignore=QUIET))
    found = by_halves(finite, lambda half: np.array([half.counts.rewards.mean()]))
    np.testing.assert_allclose(found, finite.counts.rewards.mean())


def test_nothing_is_said_where_all_is_seen_or_there_is_one_episode():
    whole = finite_problem(Problem.pose(log(200, 30), TARGET, gamma=1.0, ignore=QUIET))
    alone = finite_problem(Problem.pose(log(1, 30), TARGET, gamma=1.0, ignore=QUIET))
    assert whole.all_seen
    assert not alone.all_seen
    for finite in (whole, alone):
        assert by_halves(finite, lambda half: np.zeros(2)) is None
        assert with_halves(finite, solve(finite, Chosen()), Chosen()).half is None


def test_a_half_without_a_value_says_nothing():
    finite = finite_problem(Problem.pose(log(), TARGET, gamma=1.0, ignore=QUIET))
    assert by_halves(finite, lambda half: np.array([np.nan, 1.5])) is None


def test_a_treatment_that_half_of_the_log_is_too_little_for():
    """60 rare pairs are enough for a regression, 30 of them in each half are not always."""
    mdp = RandomMDP.draw(15, 5, seed=0)
    data = mdp.dataset(10, 7, mdp.policy(1), 0)
    value = ov.evaluate(data, mdp.policy(2), "vpm", gamma=1.0, unseen="regression", ignore=QUIET)
    assert value.diagnostics["unseen"] == "regression"
    assert "value_by_half" not in value.diagnostics


def test_the_copies_of_an_episode_are_in_one_half():
    """So that a log given twice does not look as if half of it were enough."""
    data = log()
    columns = [data.observations, data.actions, data.rewards, data.next_observations, data.terminated, data.truncated]
    twice = ov.LoggedDataset.from_arrays(*(np.concatenate([column, column]) for column in columns))
    once, again = (finite_problem(Problem.pose(each, TARGET, gamma=1.0, ignore=QUIET)) for each in (data, twice))
    for half, copied in zip(once.counts.halves(), again.counts.halves(), strict=True):
        np.testing.assert_array_equal(2 * half.times, copied.times)


def test_targets_worse_than_the_behaviour_are_covered_on_taxi():
    """950 to 850 iterations, where values are too high: at most 2 of 24 miss."""
    target, truth = taxi.shipped(850), taxi.exact_value(taxi.shipped(850), 1.0)
    covered = 0
    for seed in range(24):
        data = taxi.simulate(taxi.shipped(950), trajectories=100, length=200, seed=seed)
        low, high = ov.evaluate(data, target, "vpm", gamma=1.0).interval
        covered += low <= truth <= high
    assert covered >= 22


def test_returns_of_the_best_treatments_from_few_patients():
    """Of 24 logs none is without a return, and errors are about those of the logged mean.

    When a preference of the target for long stays was believed, they were 1.7 times as large.
    """
    task = made_tasks()["Made/Ward-stays"]
    best = np.eye(25)[task.model.action_values(1.0, 300).argmax(axis=1)]
    policy = ov.as_policy(best)
    truth, errors, logged = task.model.episode_return(policy, 3000).value, [], []
    for seed in range(200, 224):
        data = task.model.simulate([task.older()], 50, 3000, seed)
        value = ov.evaluate(data, policy, "vpm", gamma=1.0)
        errors.append(value.as_return() - truth)
        logged.append(data.returns.mean() - truth)
    assert np.sqrt(np.mean(np.square(errors))) <= 1.2 * np.sqrt(np.mean(np.square(logged)))


@pytest.mark.parametrize("seed", range(4))
def test_returns_of_a_target_that_ends_sooner_than_the_behaviour(seed):
    """Action 0 ends with probability 0.9 and is logged one time in twenty, the others with 0.03; the target takes it.

    A step pays 1 or 2, and an episode has 1/(0.85·0.9 + 0.15·0.03) steps on average: its return is 1.949.
    """
    rng = np.random.default_rng(seed)
    rows = []
    for _ in range(60):
        state, ended = int(rng.integers(60)), False
        while not ended:
            action = 0 if rng.random() < 0.05 else int(rng.integers(1, 4))
            ended = bool(rng.random() < (0.9 if action == 0 else 0.03))
            following = int(rng.integers(60))
            rows.append((state, action, float(rng.integers(1, 3)), following, ended))
            state = following
    states, actions, rewards, after, ends = (np.array(column) for column in zip(*rows, strict=True))
    data = ov.LoggedDataset.from_arrays(states, actions, rewards, after, ends, np.zeros(len(ends), dtype=bool))
    value = ov.evaluate(data, np.tile([0.85, 0.05, 0.05, 0.05], (60, 1)), "vpm", gamma=1.0, ignore=QUIET)
    truth = 1.5 / (0.85 * 0.9 + 0.15 * 0.03)
    assert truth == pytest.approx(1.949, abs=1e-3)
    assert value.as_return() == pytest.approx(truth, abs=0.5)
    low, high = value.return_interval
    assert low <= truth <= high


def test_one_logged_action_says_nothing_of_others():
    rng = np.random.default_rng(0)
    states, rewards = rng.integers(3, size=400), (rng.random(400) < 0.5).astype(float)
    data = ov.LoggedDataset.from_arrays(
        states, np.zeros(400, dtype=int), rewards, rng.integers(3, size=400), truncated=np.arange(400) % 20 == 19
    )
    for limit in ("continue", "restart"):
        value = ov.evaluate(data, np.full((3, 2), 0.5), "vpm", gamma=1.0, time_limit=limit, ignore=QUIET)
        assert value.verdict == "unreliable"
        assert value.possible == (0, 1)
        assert value.interval == pytest.approx((value.value / 2, (value.value + 1) / 2))  # half of the steps pay 0 to 1
