"""Features of pairs by hand, and what they share between policies and discounts."""

import dataclasses

import numpy as np
import pytest

import ope_vpm as ov
from ope_vpm.envs.linear_gaussian import BEHAVIOUR, LinearGaussian
from ope_vpm.linear.moments import accumulate
from ope_vpm.ope import Problem
from ope_vpm.ope.adapter.pair_features import pair_features
from ope_vpm.ope.adapter.states import features_for
from ope_vpm.ope.linear.equations import PairEquations
from ope_vpm.ope.q.linear import find_lstd, lstd_equations
from ope_vpm.policy import CategoricalPolicy

IGNORE = ("duplicated-episodes", "flags-confused", "one-row-off")


def coin(first):
    """Action 0 with this probability in every state."""
    return CategoricalPolicy(lambda s: np.tile([first, 1 - first], (len(s), 1)), 2)


def log():
    """0 → 1 → 2 → end with actions 0, 1, 1 and rewards 1, 2, 4; then 0 → 2, cut, its next state unknown at the cut."""
    return ov.LoggedDataset.from_arrays(
        np.array([[0.0], [1.0], [2.0], [0.0], [2.0]]),
        np.array([0, 1, 1, 1, 0]),
        np.array([1.0, 2.0, 4.0, 8.0, 16.0]),
        terminated=np.array([False, False, True, False, False]),
        truncated=np.array([False, False, False, False, True]),
    )


def test_batches_by_hand():
    """States have mean 1 and deviation √(4/5); u is 1[a = j] - π(j) for π = (¼, ¾)."""
    data = log()
    pairs = pair_features(Problem.pose(data, coin(0.25), gamma=0.9, ignore=IGNORE), 0, draws=1)
    assert pairs.rows.tolist() == [0, 1, 2, 3]  # nothing is known after the last row
    assert (pairs.size, pairs.next_size) == (2 + 2 * 2, 2)
    (batch,) = pairs
    unit = 1 / np.sqrt(4 / 5)
    state = np.array([[1, -unit], [1, 0], [1, unit], [1, -unit]])
    np.testing.assert_allclose(batch.phi[:, :2], state, atol=1e-12)
    zero, one = np.array([0.75, -0.75]), np.array([-0.25, 0.25])
    centred = np.stack([zero, one, one, one])
    np.testing.assert_allclose(batch.phi[:, 2:], np.einsum("nk,nj->nkj", centred, state).reshape(4, 4), atol=1e-12)
    np.testing.assert_allclose(batch.phi_next, [[1, 0], [1, unit], [0, 0], [1, unit]], atol=1e-12)
    assert batch.reward.tolist() == [1, 2, 4, 8]
    assert batch.weight is None
    np.testing.assert_allclose(pairs.states.initial, [[1, -unit], [1, -unit]])
    (weighted,) = pairs.weighted(np.array([1.0, 2.0, 3.0, 4.0, 5.0]))
    assert weighted.weight.tolist() == [1, 2, 3, 4]
    assert pairs.by_logged_row(np.array([1.0, 2.0, 3.0, 4.0])).tolist() == [1, 2, 3, 4, 0]


def test_state_features_are_shared_by_discounts_and_belong_to_a_policy():
    problem = Problem.pose(log(), coin(0.25), gamma=0.9, ignore=IGNORE)
    here = pair_features(problem, 4, draws=1)
    assert here.states is pair_features(problem.with_gamma(1.0), 4, draws=1).states
    there = pair_features(problem.with_policy(coin(0.5)), 4, draws=1)
    assert here.states is not there.states
    assert not np.array_equal(here.centred, there.centred)
    assert pair_features(problem, 6, draws=1).states is not here.states


def test_what_the_target_usually_does_is_a_coordinate_where_it_varies():
    """π(0|s) = ¼, ½, ½ at s = 0, 1, 2: mean 0.4 and deviation 0.12247 over the logged states 0, 1, 2, 0, 2."""
    policy = CategoricalPolicy(lambda s: np.hstack([0.25 + 0.25 * (s > 0.5), 0.75 - 0.25 * (s > 0.5)]), 2)
    pairs = pair_features(Problem.pose(log(), policy, gamma=0.9, ignore=IGNORE), 0, draws=1)
    assert (pairs.size, pairs.next_size) == (3 + 2 * 3, 3)
    (batch,) = pairs
    low, high = -0.15 / np.sqrt(0.015), 0.1 / np.sqrt(0.015)
    np.testing.assert_allclose(batch.phi[:, 2], [low, high, high, low])


def test_all_feature_maps_of_a_policy_ask_for_its_mean_action_once():
    """The coordinates of states are made once; features of them are those that are made of the states themselves."""
    asked = []

    def probabilities(s):
        asked.append(len(s))
        return np.hstack([0.25 + 0.25 * (s > 0.5), 0.75 - 0.25 * (s > 0.5)])

    data = LinearGaussian().dataset(20, 30, BEHAVIOUR, seed=0)
    data = ov.LoggedDataset.from_arrays(
        data.observations[:, :1], np.arange(len(data)) % 2, data.rewards, truncated=data.truncated
    )
    problem = Problem.pose(data, CategoricalPolicy(probabilities, 2), gamma=0.9, ignore=(*IGNORE, "broken-chain"))
    pairs = [pair_features(problem, number, 1) for number in (6, 4)]
    first, second = ([batch.phi.copy() for batch in each] for each in pairs)
    assert pairs[0].states.coordinates is pairs[1].states.coordinates
    before = sum(asked)
    again = pair_features(problem, 8, 1)
    assert len(list(again)) == 1
    assert sum(asked) - before < 2 * len(data)  # the scale of the coordinates, and next states that no row begins with
    for found, each in zip((first, second), pairs, strict=True):
        alone = dataclasses.replace(each, states=dataclasses.replace(each.states, coordinates=None))
        for mine, batch in zip(found, alone, strict=True):
            np.testing.assert_array_equal(mine, batch.phi)


def test_one_pass_serves_absorbed_and_restarted_ends():
    """The moments of γ < 1, where ends absorb, are those of γ = 1, where an initial state follows."""
    problem = Problem.pose(log(), coin(0.25), gamma=0.9, ignore=IGNORE)
    absorbed, restarted = (
        PairEquations(each, pair_features(each, 0, draws=1)) for each in (problem, problem.with_gamma(1.0))
    )
    assert np.array_equal(absorbed.means.change, restarted.means.change)
    (batch,) = restarted.pairs
    following = np.hstack([batch.phi_next, np.zeros((4, 4))])
    following[2, :2] = restarted.pairs.states.initial.mean(axis=0)
    expected = batch.phi.T @ (batch.phi - following) / 4
    expected[:, 0] = batch.phi.mean(axis=0)
    np.testing.assert_allclose(restarted.system.matrix, expected, atol=1e-14)


def test_moments_of_two_halves_of_a_log_merge_to_those_of_the_whole():
    rng = np.random.default_rng(0)
    states = rng.standard_normal((401, 2))
    data = ov.LoggedDataset.from_arrays(
        states[:-1], rng.integers(2, size=400), rng.standard_normal(400), states[1:],
        truncated=np.arange(400) % 20 == 19,
    )  # fmt: skip
    problem = Problem.pose(data, coin(0.4))
    pairs = pair_features(problem, 20, draws=1)
    early = (np.arange(400) < 200).astype(float)
    whole = accumulate(pairs)
    one, other = accumulate(pairs.weighted(early)), accumulate(pairs.weighted(1 - early))
    for name in ("gram", "change", "reward", "weight"):
        np.testing.assert_allclose(getattr(one.merge(other), name), getattr(whole, name), rtol=1e-12, atol=1e-12)


@pytest.mark.parametrize("gamma", [0.9, 1.0])
def test_an_estimate_says_its_ridge_and_its_coefficients(gamma):
    rng = np.random.default_rng(0)
    states = rng.standard_normal((401, 1))
    actions = rng.integers(2, size=400)
    data = ov.LoggedDataset.from_arrays(
        states[:-1], actions, actions + states[:-1, 0], states[1:], truncated=np.arange(400) % 20 == 19
    )
    problem = Problem.pose(data, coin(0.4), gamma=gamma)
    found, equations = find_lstd(problem, 10, None, 1), lstd_equations(problem, 10, 1)
    theta, beta = equations.system.solve(found.ridge)
    np.testing.assert_allclose(found.theta, theta)
    assert found.value == pytest.approx(equations.system.source @ theta)
    tau, _ = equations.apply(beta, theta)
    np.testing.assert_allclose(found.weights, equations.pairs.by_logged_row(tau))
    assert found.diagnostics["ridge"] == found.ridge


def walk(episodes=30, length=20, seed=0):
    """Episodes of a random walk in two dimensions, some ended, some cut, of one and of several steps."""
    rng = np.random.default_rng(seed)
    lengths = np.where(np.arange(episodes) % 4 == 3, 1, length)
    last = np.cumsum(lengths) - 1
    states = [rng.standard_normal((n + 1, 2)).cumsum(axis=0) / 5 for n in lengths]
    ends = np.isin(np.arange(lengths.sum()), last)
    ended = np.isin(np.arange(lengths.sum()), last[::2])
    return ov.LoggedDataset.from_arrays(
        np.concatenate([path[:-1] for path in states]),
        rng.integers(2, size=lengths.sum()),
        rng.standard_normal(lengths.sum()),
        np.concatenate([path[1:] for path in states]),
        ended,
        ends & ~ended,
    )


@pytest.mark.parametrize("time_limit", ["continue", "restart"])
@pytest.mark.parametrize("nudged", [False, True])
def test_features_after_a_step_are_those_of_the_next_row_or_its_own(monkeypatch, time_limit, nudged):
    """Also where the logged next state is not quite the next row's, and across batches of any size."""
    data = walk()
    if nudged:
        following = np.array(data.next_observations)
        following[5] += 1e-7
        data = dataclasses.replace(data, next_observations=following)
    problem = Problem.pose(data, coin(0.5), gamma=0.9, time_limit=time_limit, ignore=IGNORE)
    for module in ("states", "pair_features"):
        monkeypatch.setattr(f"ope_vpm.ope.adapter.{module}.BATCH_ROWS", 7)
    for kept in (0, 1 << 15):
        monkeypatch.setattr("ope_vpm.ope.adapter.states.KEPT_ROWS", kept)
        pairs = pair_features(problem, 6, draws=1)
        states = pairs.states
        expected = states.features(data.next_observations[states.rows], states.time + 1)
        expected[states.ended] = 0
        np.testing.assert_allclose(np.concatenate([batch.phi_next.copy() for batch in pairs]), expected, atol=1e-14)


def test_single_precision_moves_a_value_by_far_less_than_its_error(monkeypatch):
    """Even at the smallest ridge, 10⁻⁶, which is nearest to the rounding of single precision."""
    data, values = walk(200, 30), {}
    for rows in (0, 1 << 40):
        monkeypatch.setattr("ope_vpm.ope.log.SINGLE_PRECISION_ROWS", rows)
        values[rows] = ov.evaluate(data, coin(0.3), "vpm", gamma=0.9, n_features=40, ignore=IGNORE)
    single, double = values.values()
    assert single.value != double.value
    assert abs(single.value - double.value) < 1e-2 * double.standard_error
    assert single.standard_error == pytest.approx(double.standard_error, rel=0.02)
    assert np.abs(single.weights - double.weights).mean() < 2e-2


def test_moments_are_shared_by_discounts_and_by_those_who_weigh_alike():
    problem = Problem.pose(log(), coin(0.25), gamma=0.9, ignore=IGNORE)
    one, other = (pair_features(each, 0, draws=1) for each in (problem, problem.with_gamma(1.0)))
    weight = np.array([1.0, 2.0, 3.0, 4.0, 5.0])
    assert one.moments is other.moments
    assert one.weighted(weight).moments is other.weighted(weight).moments
    assert one.weighted(weight).moments is not one.weighted(weight.copy()).moments
    assert one.moments is not pair_features(problem.with_policy(coin(0.5)), 0, draws=1).moments


def test_the_number_of_features_follows_the_rows():
    """4·√n between 40 and 600; an estimator that is given no number has that many."""
    assert [features_for(rows) for rows in (1, 99, 100, 2500, 10**4, 10**7)] == [40, 40, 40, 200, 400, 600]
    data = LinearGaussian().dataset(20, 20, BEHAVIOUR, seed=0)
    problem = Problem.pose(data, BEHAVIOUR.policy(), gamma=0.9)
    linear = pair_features(problem, 0, draws=1).next_size
    assert pair_features(problem, None, draws=1).next_size == linear + features_for(400) == linear + 80
    values = [ov.evaluate(data, BEHAVIOUR.policy(), "vpm", gamma=0.9, n_features=number).value for number in (None, 80)]
    assert values[0] == values[1] == ov.evaluate(data, BEHAVIOUR.policy(), "vpm", gamma=0.9).value
