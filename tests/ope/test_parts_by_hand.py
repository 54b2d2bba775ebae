"""Parts of linear estimates, ratios, networks and adapters, each against its definition written out."""

from dataclasses import replace
from types import SimpleNamespace

import numpy as np
import pytest
from gymnasium import spaces

import ope_vpm as ov
from ope_vpm.baselines import dice
from ope_vpm.baselines.minimax import scaled_least_squares
from ope_vpm.linear.features import Standardiser
from ope_vpm.linear.passes import Coefficients, GroupSums
from ope_vpm.linear.system import RIDGES
from ope_vpm.logged.facts import fitting
from ope_vpm.ope import Problem
from ope_vpm.ope import log as logs
from ope_vpm.ope.adapter import given
from ope_vpm.ope.adapter.action_functions import ActionCoordinates, ActionFunctions
from ope_vpm.ope.adapter.ends import absorbed_share, check_choices, clock_remarks, plan_steps, rows_of, times
from ope_vpm.ope.adapter.given import Encoder
from ope_vpm.ope.adapter.pair_features import PairSums, on_sample, pair_features
from ope_vpm.ope.adapter.states import StateFeatures
from ope_vpm.ope.behaviour.action_ratio import RatioWeighting, action_ratio, ratio_model, weighted_pairs
from ope_vpm.ope.inference.doubts import (
    DISAGREEMENT,
    FITTED,
    RIDGE,
    SUPPORT,
    among,
    joined,
    judge,
    scaled,
    suspected_bias,
)
from ope_vpm.ope.inference.uncertainty import EpisodeSums
from ope_vpm.ope.linear.doubts import row_doubt, sample_rows
from ope_vpm.ope.linear.equations import Influences, RidgePath, _return_path, ridge_path
from ope_vpm.ope.linear.estimate import (
    FEW_ENDS,
    LinearEstimate,
    _estimate,
    _few_ends,
    charged_residual,
    leverage,
    leverage_factor,
    linear_estimate,
    rows_at,
)
from ope_vpm.ope.log import Log, precision_for
from ope_vpm.ope.q import networks
from ope_vpm.ope.q.linear import find_lstd, linear_qs, lstd_equations
from ope_vpm.ope.q.networks import fit_networks
from ope_vpm.ope.ratio.estimator import end_mass, ratio_estimate
from ope_vpm.ope.ratio.lagrangian import Regularisation, lagrangian_means, linear_ratio
from ope_vpm.ope.vpm.estimator import VPMEstimator, find_factored
from ope_vpm.ope.vpm.pairs import find_by_solver, weighted_mean
from ope_vpm.policy import CategoricalPolicy, DeterministicPolicy, GaussianPolicy

QUIET = ("flags-confused", "one-row-off", "constant-columns", "duplicated-episodes", "broken-chain", "rows-shuffled")
TILTED = CategoricalPolicy(lambda s: np.tile([0.25, 0.75], (len(s), 1)), 2)


def pose(episodes=12, length=5, ended=True, gamma=1.0, known=True, policy=TILTED, **choices):
    """Episodes of states on a line with two actions, which end or are cut."""
    rng = np.random.default_rng(0)
    size = episodes * length
    states = rng.standard_normal((size + 1, 1))
    last = np.arange(size) % length == length - 1
    terminated = last & np.repeat(np.broadcast_to(ended, episodes), length)
    actions = rng.integers(2, size=size)
    data = ov.LoggedDataset.from_arrays(
        states[:-1], actions, actions + states[:-1, 0] + 0.3 * rng.standard_normal(size),
        states[1:] if known else None, terminated, last & ~terminated,
    )  # fmt: skip
    return Problem.pose(data, policy, gamma=gamma, ignore=QUIET, **choices)


# -- Linear estimates


@pytest.mark.parametrize(("gamma", "on_end"), [(1.0, None), (0.8, "restart"), (0.8, "absorb")])
def test_influences_of_a_pass_without_rows_are_those_of_the_rows(gamma, on_end):
    problem = pose(gamma=gamma, on_end=on_end)
    equations = lstd_equations(problem, 4, 1)
    theta, beta = equations.system.solve(0.05)
    tau, residual = equations.apply(beta, theta)
    direct = equations.influence(tau, residual, theta)
    both = np.column_stack([beta, 2 * beta]), np.column_stack([theta, theta])
    (sums,) = equations.pairs.sums([Coefficients(*both, gamma, equations.after_end)], weights=False)
    summed, twice = Influences(problem, sums, range(2))
    np.testing.assert_allclose(summed.influence, direct.influence, atol=1e-12)
    part = direct.numerator[:, 0] - direct.denominator[:, 0] * direct.numerator[:, 0].sum()
    np.testing.assert_allclose(twice.numerator[:, 0], 2 * direct.numerator[:, 0], atol=1e-12)
    assert part.sum() == pytest.approx(0, abs=1e-12)


def test_a_ridge_that_cannot_be_chosen_has_a_value_and_nothing_else():
    """The value at the larger ridges, by which bias is suspected, is that of their own solution."""
    equations = lstd_equations(pose(), 4, 1)
    path = ridge_path(equations, None)
    assert (len(path.ridges), len(path.sums), path.beta.shape[1]) == (len(RIDGES) + 2, len(RIDGES), len(RIDGES))
    for ridge, value in zip(path.ridges, path.values, strict=True):
        assert value == pytest.approx(float(equations.system.source @ equations.system.solve(ridge)[0]), rel=1e-10)
    larger = ridge_path(equations, path.ridges[-1])
    assert larger.values[0] == pytest.approx(path.values[-1], rel=1e-10)


def test_the_return_of_every_ridge_is_a_ratio_of_two_values():
    """R = v/e, its influence (ψ_r - R·ψ_e)/e and its Q that of (r - R·1[end])/e."""
    problem = pose()
    equations = lstd_equations(problem, 4, 1)
    path = ridge_path(equations, 0.05)
    of_return = path.per_episode
    ends = problem.with_rewards(problem.ending.astype(float))
    rate = ridge_path(lstd_equations(ends, 4, 1), 0.05)
    np.testing.assert_allclose(of_return.values, path.values / rate.values, rtol=1e-9)
    assert of_return.steps == pytest.approx(1 / rate.values[0])
    e, value = rate.values[0], of_return.values[0]
    expected = (path.sums[0].influence - value * rate.sums[0].influence) / e
    np.testing.assert_allclose(of_return.sums[0].influence, expected, atol=1e-10)
    assert of_return.rate_error == pytest.approx(rate.sums[0].standard_error / e)
    np.testing.assert_allclose(of_return.theta[:, 0], (path.theta[:, 0] - value * rate.theta[:, 0]) / e, rtol=1e-8)
    charged = problem.with_rewards((problem.data.rewards - value * problem.ending) / e)
    theta = of_return.theta[:, 0]
    _, residual = lstd_equations(charged, 4, 1).apply(theta, theta)
    np.testing.assert_allclose(rows_at(equations, of_return)[1], residual, atol=1e-9)
    assert path.ridges == pytest.approx((0.05, 0.05 * np.sqrt(10), 0.5))


@pytest.mark.parametrize(("rates", "known"), [([-1, -1, 0.1, 0.1], False), ([0.1, -1, 0.1, 0.1], True)])
def test_larger_ridges_alone_say_nothing_of_the_return(rates, known):
    """The last two are there to compare with, not to be chosen: where they alone reach ends there is no return."""
    system = SimpleNamespace(source=np.array([1.0]))
    sums = [EpisodeSums.of_influence(0.0, np.array([0.1, -0.1]))] * 2
    path = RidgePath((1.0, 2.0, 3.0, 4.0), 0, np.zeros((1, 4)), np.zeros((1, 2)), np.ones(4), sums)
    found = _return_path(SimpleNamespace(problem=pose(), system=system), path, None, np.array([rates]), sums)
    assert (found is not None) is known
    if known:
        assert found.values[found.chosen] == pytest.approx(1 / 0.1)


def test_charged_residuals_by_hand():
    """r = 2 and 5, the second an end; residuals 0.5 and 0.1 become 0.5 - 2 + 4·2 and 0.1 - 5 + 4·(5 - 3)."""
    pairs = SimpleNamespace(rewards=np.array([2.0, 5.0]), states=SimpleNamespace(ended=np.array([False, True])))
    np.testing.assert_allclose(charged_residual(pairs, np.array([0.5, 0.1]), 4.0, 3.0), [6.5, 3.1])


@pytest.mark.parametrize(
    ("ended", "gamma", "on_end", "said"),
    [
        ([True] * (FEW_ENDS - 1) + [False] * 3, 0.8, None, True),
        ([True] * FEW_ENDS + [False] * 2, 0.8, None, False),
        ([True] + [False] * 11, 0.8, None, True),
        (False, 0.8, None, False),
        ([True] * 9 + [False] * 3, 0.8, "restart", False),
        ([True] * 9 + [False] * 3, 1.0, None, False),
    ],
)
def test_few_ends_are_remarked_on_where_they_decide(ended, gamma, on_end, said):
    remarks = _few_ends(pose(ended=ended, gamma=gamma, on_end=on_end))
    assert bool(remarks) is said
    if said:
        assert remarks[0].startswith(f"only {int(np.sum(ended))} of 12 episodes ended")


def test_a_bias_that_is_not_known_is_as_large_as_the_value():
    problem = pose()
    equations = lstd_equations(problem, 4, 1)
    path = ridge_path(equations, 0.05)
    known = _estimate(equations, path)
    (of_ridge,) = (doubt for doubt in known.doubts if doubt.code == "ridge")
    assert of_ridge.bias == pytest.approx(abs(path.values[2] - path.values[0]))
    free = equations.system.degrees_of_freedom(0.05) / 60
    (of_fit,) = (doubt for doubt in known.doubts if doubt.code == "fitted")
    values = [half.source @ half.solve(0.05)[0] for half in equations.system.halves()]
    assert of_fit.bias == pytest.approx(np.sqrt(free * np.mean((values - path.values[0]) ** 2)))
    blind = replace(path, values=np.array([path.values[0], np.nan, np.nan]))
    (of_ridge,) = (doubt for doubt in _estimate(equations, blind).doubts if doubt.code == "ridge")
    assert of_ridge.bias == pytest.approx(abs(path.values[0]))
    widened = known.sums.standard_error / path.sums[0].standard_error
    assert widened == pytest.approx(1 / (1 - min(free, 0.5)))


def test_leverage_widens_at_most_twofold():
    """Six rows and more features than that, hardly penalised: half of the leverage counts."""
    problem = pose(episodes=2, length=3)
    equations = lstd_equations(problem, 4, 1)
    assert equations.system.degrees_of_freedom(1e-6) / 6 > 0.6
    found, path = linear_estimate(equations, 1e-6, "linear"), ridge_path(equations, 1e-6)
    assert found.sums.standard_error == pytest.approx(2 * path.sums[0].standard_error)
    assert found.diagnostics["ended"] == 2
    assert found.diagnostics["return_ridge"] == 1e-6


@pytest.mark.parametrize("gamma", [1.0, 0.8])
def test_a_cross_fitted_q_is_that_of_the_other_folds(gamma):
    """Each step by the Q of the equations without its fold; for several ridges one after another."""
    problem = pose(gamma=gamma)
    equations, folds = lstd_equations(problem, 4, 1), np.arange(12) % 3
    fits, fold = linear_qs(equations, folds, [0.05, 0.5]), folds[problem.data.episode[problem.steps.rows]]
    for ridge, fit in zip([0.05, 0.5], fits, strict=True):
        q = fit.cross_fitted(problem, folds)
        for k, system in enumerate(equations.without_each(folds)):
            theta, _ = system.solve(ridge)
            residual = equations.rows.by_logged_row(equations.apply(theta, theta)[1])[problem.steps.rows]
            np.testing.assert_allclose(fit.residual[k], residual, atol=1e-10)
            np.testing.assert_allclose(q.residual(problem)[fold == k], residual[fold == k], atol=1e-10)
            first = equations.rows.initial_values(theta)
            here = folds[problem.log.initial_episodes] == k
            np.testing.assert_allclose(q.first[here], first[here], atol=1e-10)
            np.testing.assert_allclose(q.level[fold == k], theta[0] if gamma == 1 else 0, atol=1e-10)


# -- How far the features matter


def test_rows_of_a_sample_have_the_solution_of_the_whole(monkeypatch):
    """With a sample of 20 rows of 60: τ and residuals there are those of the whole solution."""
    whole = pose()
    plain = find_lstd(whole, 4, 0.05, 1)
    equations = lstd_equations(whole, 4, 1)
    bound = row_doubt(equations, *sample_rows(plain)).bound
    monkeypatch.setattr(logs, "SAMPLE_ROWS", 20)
    problem = pose()
    assert len(problem.log.sample.data) == 20
    assert len(problem.log.sample_rows) == 20
    equations = lstd_equations(problem, 4, 1)
    found = linear_estimate(equations, 0.05, "linear")
    for estimate in (found, found.per_episode):
        tau, residual = sample_rows(estimate)
        rows = problem.log.sample_rows
        np.testing.assert_allclose(np.sort(tau), np.sort(estimate.weights[rows]), atol=1e-9)
        np.testing.assert_allclose(np.sort(residual), np.sort(estimate.residual[rows]), atol=1e-9)
    tau, residual = plain.weights, plain.residual
    usual = np.quantile(np.abs(residual - np.median(residual)), 0.68)
    assert bound == pytest.approx(tau.std() / abs(tau.mean()) * usual)


@pytest.mark.parametrize("together", [(), ((0.9, "absorb"), (1.0, "restart"))])
def test_rows_at_the_chosen_ridge_of_each_discount(together):
    equations = lstd_equations(replace(pose(), together=together), 4, 1)
    path = ridge_path(equations, None)
    expected = equations.apply(path.beta[:, path.chosen], path.theta[:, path.chosen])
    np.testing.assert_allclose(equations.at_rows(path), expected, rtol=1e-10, atol=1e-12)


# -- Samples and folds


def test_a_sample_is_of_whole_episodes(monkeypatch):
    monkeypatch.setattr(logs, "SAMPLE_ROWS", 12)
    assert fitting(np.array([5, 5, 5]), 12) == 2
    assert fitting(np.array([5, 7, 5]), 12) == 2
    assert fitting(np.array([5, 8, 5]), 12) == 1
    assert fitting(np.array([50, 8]), 12) == 1
    log = pose(episodes=5).log
    assert len(log.sample.data) == 10
    assert log.sample_rows.tolist() == rows_of(log.data, log.episodes[:2]).tolist()
    one = pose(episodes=1, length=30).log
    assert len(one.sample.data) == len(one.sample_rows) == 12


def test_features_of_many_rows_are_in_single_precision():
    assert precision_for(99_999) is np.float64
    assert precision_for(100_000) is np.float32


def test_every_fifth_episode_is_held_out():
    log = pose(episodes=11).log
    held = np.unique(log.data.episode[log.held_out])
    assert held.tolist() == sorted(log.episodes[[4, 9]].tolist())


def test_folds_of_episodes_that_repeat_each_other():
    """Two kinds, two of each: copies, which share a fold; three of each: repetitions, which are dealt out."""

    def folds(times):
        states = np.tile([0, 1], times)
        data = ov.LoggedDataset.from_arrays(
            states, 0 * states, np.arange(2.0 * times), truncated=np.ones(2 * times, bool)
        )
        return states, Log.check(data, QUIET).folds(2)

    states, found = folds(2)
    assert len(set(found[states == 0])) == 1
    states, found = folds(3)
    assert sorted(found.tolist()) == [0, 0, 0, 1, 1, 1]
    assert set(found[states == 0]) == {0, 1}


# -- What follows each step


@pytest.mark.parametrize(("ends", "copies"), [(2, 3), (4, 3), (6, 2), (12, 1)])
def test_ends_are_spread_over_as_many_restarts_as_rows_allow(ends, copies):
    """Twelve rows in three, four, six or twelve episodes, of which the first three begin at a reset."""
    length = 12 // ends
    last = np.arange(12) % length == length - 1
    data = ov.LoggedDataset.from_arrays(np.arange(12), np.zeros(12, int), np.zeros(12), np.arange(12), terminated=last)
    resets = np.arange(ends) < 3
    plan = plan_steps(data.with_resets(resets), "restart", "continue", 0, np.arange(ends))
    counts = np.bincount(plan.rows)[data.ends]
    assert (counts == min(copies, int(resets.sum()))).all()
    assert plan.weight.sum() == pytest.approx(12)
    assert (plan.ended, plan.dropped) == (ends, 0)


def test_what_is_said_of_clocks():
    limited = pose(ended=False, time_limit="restart")
    assert clock_remarks(limited.data, "restart", known=True) == ()
    assert len(clock_remarks(limited.data, "restart", known=False)) == 1
    assert clock_remarks(limited.data, "continue", known=False) == ()
    assert clock_remarks(pose(ended=True).data, "restart", known=False) == ()
    assert times(limited.data, "continue") is limited.data.time
    assert check_choices(0.5, None, "continue") == "absorb"
    assert check_choices(1.0, None, "continue") == "restart"
    assert check_choices(0.0, None, "continue") == "absorb"
    for wrong in (-0.1, 1.1):
        with pytest.raises(ValueError, match="gamma must be between"):
            check_choices(wrong, None, "continue")


def test_the_share_of_time_after_ends():
    """γ = ½ and ends at times 0 and 2 of two episodes: (½ + ⅛)/2; kept between 1 % and 99 %."""
    data = ov.LoggedDataset.from_arrays([0] * 4, [0] * 4, np.zeros(4), [0] * 4, terminated=[1, 0, 0, 1])
    ended = data.table.terminated
    assert absorbed_share(data, ended, 0.5) == pytest.approx(0.3125)
    assert absorbed_share(data, ended, 0.0) == 0.01
    assert absorbed_share(data, ended, 0.9999) == 0.99
    cut = ov.LoggedDataset.from_arrays([0] * 2, [0] * 2, np.zeros(2), [0] * 2, truncated=[0, 1])
    assert absorbed_share(cut, cut.table.terminated, 0.5) == 0


# -- Encoders and features


def test_states_of_too_large_a_space_are_numbered_as_they_were_seen(monkeypatch):
    rows = np.array([[0, 5], [3, 1], [0, 5]])
    data = ov.LoggedDataset.from_arrays(
        rows, [0, 1, 1], np.zeros(3), observation_space=spaces.MultiDiscrete([4, 6]), truncated=[0, 0, 1]
    )
    plain = Encoder.fit(data, 2, absorbs=False)
    assert plain.states(rows).tolist() == [5, 19, 5]
    monkeypatch.setattr(given, "MOST_STATES", 24)
    assert Encoder.fit(data, 2, absorbs=False).labels is None
    monkeypatch.setattr(given, "MOST_STATES", 23)
    seen = Encoder.fit(data, 2, absorbs=True)
    unseen = seen.states(np.array([[1, 1]]))[0]
    numbers = seen.states(rows).tolist()
    assert numbers[0] == numbers[2] != numbers[1]
    assert unseen == len(seen.labels)
    assert seen.absorbing().tolist() == [2 * (len(seen.labels) + 1)]
    with pytest.raises(ValueError, match="inside their space"):
        Encoder.fit(replace(data, observation_space=spaces.MultiDiscrete([4, 5])), 2, absorbs=False)


@pytest.mark.parametrize(("states", "fine"), [(4096, True), (4097, False)])
def test_finite_states_with_continuous_actions_have_a_coordinate_each(states, fine):
    data = ov.LoggedDataset.from_arrays(
        [0, 1], np.zeros((2, 1)), np.zeros(2), [1, 0], observation_space=spaces.Discrete(states), truncated=[0, 1]
    )
    if fine:
        assert Encoder.fit(data, None, absorbs=False).shape == (4096,)
        return
    with pytest.raises(ValueError, match="too many to tell apart"):
        Encoder.fit(data, None, absorbs=False)


@pytest.mark.parametrize(("columns", "known"), [(1, True), (16, True), (17, False)])
def test_what_the_target_usually_does_has_at_most_sixteen_numbers(columns, known):
    sample = np.random.default_rng(0).standard_normal((50, 1))
    policy = DeterministicPolicy(lambda s: np.hstack([s * (k + 1) for k in range(columns)] + [0 * s + 3]))
    found = ActionCoordinates.of(policy, sample, policy.action(sample))
    assert (found is not None) is known
    if known:
        assert found.columns.tolist() == list(range(columns))  # the last one never varies
        np.testing.assert_allclose(found(sample).std(axis=0), 1)
    still = DeterministicPolicy(lambda s: 0 * s)
    assert ActionCoordinates.of(still, sample, sample) is None


def test_features_reach_five_deviations():
    data = pose().data
    features = StateFeatures.draw(data, 3, 0)
    far = np.array([[1e6], [-1e6]])
    np.testing.assert_allclose(features.limited_coordinates(far), [[5], [-5]])
    assert features.linear == 1
    assert features.size == 1 + 1 + 2 * (3 // 2)
    clocked = StateFeatures.draw(data, 0, 0, clock=lambda time: time / 10)
    np.testing.assert_allclose(clocked.coordinates(data.observations[:2], np.array([0, 5]))[:, 1], [0, 0.5])
    with pytest.raises(ValueError, match="need the time"):
        clocked.coordinates(data.observations[:2])


def test_centred_actions_by_hand():
    """Mean 1 and deviation 2, a target of mean 3 and second moment 13: (a - 1)/2 - 1 and its square - 2."""
    policy = GaussianPolicy(lambda s: (0 * s + 3, 2.0))
    scale = replace(Standardiser.unit(1), mean=np.array([1.0]), std=np.array([2.0]))
    states, actions, rng = np.zeros((2, 1)), np.array([[5.0], [1.0]]), np.random.default_rng(0)
    found = ActionFunctions(scale)(states, actions, policy, rng, 1)
    np.testing.assert_allclose(found, [[2 - 1, 4 - 2], [0 - 1, 0 - 2]])


def test_sums_of_two_parts_of_a_log():
    def part(place, rows, level):
        count = len(rows)
        groups = GroupSums(np.full((count, 1), level), np.array([level]), None)
        return PairSums(place, groups, np.array(rows), np.full((count, 1), 10 * level))

    both = part(3, [2, 4], 1.0).merge(part(4, [1, 5], 2.0))
    assert both.place == 3
    assert both.rows.tolist() == [2, 5, 5]
    assert both.first[:, 0].tolist() == [10, 30, 20]
    assert both.groups.influence[:, 0].tolist() == [1, 3, 2]
    assert both.groups.ended.tolist() == [3]
    other = part(4, [1, 5], 2.0).merge(part(3, [2, 4], 1.0))
    assert other.rows.tolist() == [2, 5, 5]


def test_weights_of_pairs_have_mean_one_and_are_those_of_the_model(monkeypatch):
    problem = pose(ended=False)
    ratio = action_ratio(problem).ratio
    pairs = weighted_pairs(problem, pair_features(problem, 4, 1), 0.5)
    np.testing.assert_allclose(pairs.weight, ratio**0.5 / np.mean(ratio**0.5))
    np.testing.assert_allclose(ratio_model(problem).ratio(problem.data, problem.policy), ratio, rtol=1e-9)
    model = SimpleNamespace(ratio=lambda data, policy: np.array([4.0, 16.0]))
    assert RatioWeighting(model, 0.5, 2.0)(problem.data, problem.policy).tolist() == [1, 2]
    monkeypatch.setattr(logs, "SAMPLE_ROWS", 20)
    long = pose(ended=False)
    weighted = weighted_pairs(long, pair_features(long, 4, 1), 0.5)
    sampled = action_ratio(long.on_sample).ratio
    whole = ratio_model(long).ratio(long.data, long.policy)
    np.testing.assert_allclose(weighted.weight, whole**0.5 / np.mean(sampled**0.5))
    there = on_sample(long, weighted)
    np.testing.assert_allclose(np.sort(there.weight), np.sort(weighted.weight[long.log.sample_rows]))
    assert len(there) <= 20
    assert on_sample(long, weighted).moments is there.moments


# -- Networks that learn nothing leave the linear Q


@pytest.mark.parametrize(("gamma", "absorbs"), [(1.0, False), (0.8, False), (0.8, True)])
def test_networks_that_learn_nothing_are_the_linear_q(monkeypatch, gamma, absorbs):
    """Their Q is 0, so that only the mean of what the linear Q leaves is added, as a level, unless ends absorb."""
    problem = pose(gamma=gamma, on_end="absorb" if absorbs else "restart")
    monkeypatch.setattr(networks, "train", lambda network, *_: network)
    equations, folds = lstd_equations(problem, 4, 1), np.arange(12) % 2
    (base,) = linear_qs(equations, folds, [0.05])
    found = fit_networks(problem, folds, 2, 1, 1, base=base)
    fold = folds[problem.data.episode[problem.steps.rows]]
    own = base.residual[fold, np.arange(len(fold))]
    weight = problem.steps.weight * (fold != np.arange(2)[:, None])  # each fold's networks know the other one
    level = 0 if absorbs else ((weight * base.residual).sum(axis=1) / weight.sum(axis=1))[fold]
    np.testing.assert_allclose(found.residual(problem), own - level, atol=1e-5)
    np.testing.assert_allclose(found.first, base.first[folds[problem.log.initial_episodes], np.arange(12)], atol=1e-5)
    np.testing.assert_allclose(found.after, 0, atol=1e-6)


# -- Ratios


def test_the_time_that_an_absorbed_end_stands_for():
    """γ/(1-γ) more than its own row: 5 rows at γ = 0.8."""
    absorbed = lstd_equations(pose(gamma=0.8), 4, 1, fourier=0)
    ended = absorbed.rows.states.ended
    np.testing.assert_allclose(end_mass(absorbed), np.where(ended, 5, 1))
    np.testing.assert_array_equal(end_mass(lstd_equations(pose(), 4, 1, fourier=0)), 1)


def test_the_value_of_a_ratio_with_ends_that_absorb():
    """Σ ζr / Σ ζ·time with ζ rising over the rows; its distance from LSTD-Q's value is part of the suspected bias."""
    problem = pose(gamma=0.8)
    equations, lstd = lstd_equations(problem, 4, 1, fourier=0), find_lstd(problem, 4, 0.05, 1, fourier=0)
    zeta = np.linspace(0.5, 1.5, 60)
    found = ratio_estimate(lstd, zeta)
    total = zeta @ end_mass(equations)
    assert found.value == pytest.approx(zeta @ problem.data.rewards / total)
    assert found.diagnostics["mean_ratio"] == pytest.approx(total / 60)
    _, residual = equations.apply(lstd.theta, lstd.theta)
    own = (
        *DISAGREEMENT.suspects(abs(found.value - lstd.value)),
        *row_doubt(equations, 60 * zeta / total, residual).doubts,
    )
    assert found.suspected_bias == pytest.approx(suspected_bias((*own, *among(lstd.doubts, FITTED, RIDGE, SUPPORT))))
    expected = equations.influence(60 * zeta / total, residual, lstd.theta)
    factor = leverage_factor(leverage(equations, 0.05))
    assert factor == pytest.approx(1 / (1 - equations.system.degrees_of_freedom(0.05) / 60))
    np.testing.assert_allclose(found.sums.influence, expected.stretched(factor).influence)
    np.testing.assert_array_equal(found.weights, zeta)
    nothing_left = ratio_estimate(lstd, np.zeros(60))
    assert np.isnan(nothing_left.value)


def test_the_return_of_a_ratio():
    """R = value over rate; the interval takes LSTD-Q's residual of its return."""
    problem = pose()
    equations, lstd = lstd_equations(problem, 4, 1, fourier=0), find_lstd(problem, 4, 0.05, 1, fourier=0)
    zeta = np.linspace(0.5, 1.5, 60)
    found = ratio_estimate(lstd, zeta)
    rate = zeta @ problem.ending / zeta.sum()
    assert found.per_episode.value == pytest.approx(found.value / rate)
    known = lstd.per_episode
    own = DISAGREEMENT.suspects(abs(found.per_episode.value - known.value)), row_doubt(equations, zeta, known.residual)
    of_value = scaled(DISAGREEMENT.suspects(abs(found.value - lstd.value)), 1 / rate)
    parts = joined(own[0], of_value, own[1].doubts, among(known.doubts, FITTED, RIDGE, SUPPORT))
    assert found.per_episode.suspected_bias == pytest.approx(suspected_bias(parts))
    expected = equations.influence(60 * zeta / zeta.sum(), known.residual, known.theta)
    stretched = leverage_factor(leverage(equations, 0.05)) * (expected.influence - expected.influence.mean())
    np.testing.assert_allclose(found.per_episode.sums.influence, stretched)


@pytest.mark.parametrize("gamma", [1.0, 0.8])
def test_means_of_the_lagrangian_over_active_rows(gamma):
    """E[φ(φ - γφ')ᵀ] and E[φr] over some rows, r standardised by all; E[φ] counts the time after ends."""
    problem = pose(gamma=gamma)
    equations = lstd_equations(problem, 4, 1, fourier=0)
    (batch,) = equations.rows
    phi, after = np.array(batch.phi), np.zeros_like(batch.phi)
    after[:, : batch.phi_next.shape[1]] = batch.phi_next
    ended = equations.rows.states.ended
    if gamma == 1:
        after[ended] = np.pad(equations.rows.states.initial.mean(axis=0), (0, phi.shape[1] - batch.phi_next.shape[1]))
    active = np.arange(60) % 3 > 0
    found = lagrangian_means(equations, 0.05, active)
    kept = phi * active[:, None]
    np.testing.assert_allclose(found.flow, kept.T @ (phi - gamma * after) / 60, atol=1e-10)
    np.testing.assert_allclose(found.gram, kept.T @ phi / 60, atol=1e-10)
    np.testing.assert_allclose(found.whole_gram, phi.T @ phi / 60, atol=1e-10)
    rewards = equations.rows.rewards
    scaled = (rewards - rewards.mean()) / rewards.std()
    np.testing.assert_allclose(found.reward, kept.T @ scaled / 60, atol=1e-10)
    time = np.ones(60) if gamma == 1 else np.where(ended, 1 / (1 - gamma), 1.0)
    np.testing.assert_allclose(found.mean, kept.T @ time / 60, atol=1e-10)
    start = np.zeros(phi.shape[1])
    if gamma < 1:
        start[: batch.phi_next.shape[1]] = (1 - gamma) * equations.rows.states.initial.mean(axis=0)
    np.testing.assert_allclose(found.initial, start, atol=1e-12)
    np.testing.assert_allclose(found.penalty, 0.05 * np.maximum(equations.system.scale, 1e-4))


def test_a_ratio_that_must_not_be_negative_settles_on_its_rows():
    problem = pose(gamma=0.8)
    equations = lstd_equations(problem, 4, 1, fourier=0)
    terms = Regularisation(primal=1.0, dual=1.0, reward=False, normalised=True, positive=False)
    free, unsettled = linear_ratio(equations, 0.01, terms)
    assert unsettled == 0
    kept, unsettled = linear_ratio(equations, 0.01, replace(terms, positive=True))
    assert (kept >= 0).all()
    assert 0 <= unsettled <= 1
    if (free >= 0).all():
        np.testing.assert_allclose(kept, free, atol=1e-9)


def test_scaled_least_squares_is_what_it_minimises():
    rng = np.random.default_rng(0)
    matrix, right, scale = rng.standard_normal((3, 3)), rng.standard_normal(3), np.array([0.0, 4.0, 9.0])
    found = scaled_least_squares(matrix, right, scale, 0.3)
    root = np.sqrt([1.0, 4.0, 9.0])

    def loss(x):
        return np.sum(((right - matrix @ x) / root) ** 2) + np.sum((np.array([1e-8, 0.3, 0.3]) * root * x) ** 2)

    for direction in np.eye(3):
        for size in (-1e-3, 1e-3):
            assert loss(found + size * direction) > loss(found)


# -- VPM


def test_half_of_the_action_ratio_is_the_default():
    problem = pose(ended=False, gamma=0.8)
    plain, half = find_factored(problem, 4), find_factored(problem, 4, power=0.5)
    assert plain.value == half.value != find_factored(problem, 4, power=1.0).value


@pytest.mark.parametrize(("unsettled", "said"), [(0.009, False), (0.011, True)])
def test_a_ratio_that_does_not_settle_says_so(monkeypatch, unsettled, said):
    monkeypatch.setattr(dice, "linear_ratio", lambda equations, *_: (np.ones(len(equations.pairs)), unsettled))
    found = ov.estimators()["gendice"](n_features=4, ridge=0.05).find(pose(ended=False, gamma=0.8))
    assert any("did not settle" in remark for remark in judge(found.doubts)[1]) is said


@pytest.mark.parametrize("options", [{"power": 0.0}, {"power": 1.0}, {"n_features": 1}, {"ridge": 1e-9}])
def test_settings_at_their_limits_are_taken(options):
    VPMEstimator(**options).check(pose())


@pytest.mark.parametrize(
    ("given", "message"),
    [
        ({"draws": 0}, "draws must be at least 1"),
        ({"solver": "magic"}, "unknown solver"),
        ({"preset": "best"}, "unknown preset"),
        ({"preset": "paper", "draws": 2}, "fixes every setting"),
        ({"preset": "paper", "solver": "factored"}, "fixes every setting"),
    ],
)
def test_settings_that_vpm_refuses(given, message):
    with pytest.raises(ValueError, match=message):
        VPMEstimator(**given)


def unseen_log():
    """From 0 to 1 and back, and from 1 to an end in every third episode; action 1 was never taken in 0."""
    states, actions, rewards, after, ended, cut = [], [], [], [], [], []
    for episode in range(12):
        for s, a, r, t in ((0, 0, 1.0, 1), (1, episode % 2, 3.0, 0)):
            states.append(s)
            actions.append(a)
            rewards.append(r + 0.1 * episode)
            after.append(t)
            ended.append(s == 1 and episode % 3 == 0)
            cut.append(s == 1 and episode % 3 != 0)
    data = ov.LoggedDataset.from_arrays(states, actions, rewards, after, ended, cut)
    return Problem.pose(data, [[0.7, 0.3], [0.5, 0.5]], ignore=QUIET)


def test_another_treatment_of_unseen_pairs_is_the_bias_of_value_and_return():
    problem = unseen_log()
    first = find_by_solver(problem, ov.VPM(solver="tabular", unseen="restart", steps=300), 1)
    other = find_by_solver(problem, ov.VPM(solver="tabular", unseen="good-turing", steps=300), 1)
    apart, of_return = (abs(a.value - b.value) for a, b in ((first, other), (first.per_episode, other.per_episode)))
    assert apart > 1e-3
    rate = first.weights @ problem.ending / first.weights.sum()
    assert first.size(DISAGREEMENT) == pytest.approx(apart, rel=1e-6)
    (doubt,) = among(first.per_episode.doubts, DISAGREEMENT)
    assert doubt.bias == pytest.approx(max(of_return, apart / rate), rel=1e-6)
    assert first.per_episode.value == pytest.approx(first.value / rate)


def test_the_weighted_mean_counts_the_absorbing_row():
    estimate = SimpleNamespace(weights=np.array([1.0, 2.0, 5.0]))
    assert weighted_mean(estimate, SimpleNamespace(rewards=np.array([4.0, 2.0, 0.0]))) == 1


def test_a_linear_estimate_without_kept_weights_says_so():
    found = find_lstd(pose(), 4, 0.05, 1)
    assert isinstance(found, LinearEstimate)
    with pytest.raises(TypeError, match="not kept"):
        _ = replace(found, weights=None).ratio
