"""Doubly robust estimators against numbers worked out by hand, closed forms, and their own double robustness."""

from dataclasses import replace

import numpy as np
import pytest

import ope_vpm as ov
from ope_vpm.baselines.doubly_robust import corrected
from ope_vpm.baselines.importance_sampling import step_weights
from ope_vpm.baselines.wdr import Terms, least_on_simplex
from ope_vpm.envs.linear_gaussian import BEHAVIOUR, TARGET, LinearGaussian
from ope_vpm.envs.random_mdp import RandomMDP
from ope_vpm.ope import Problem
from ope_vpm.ope.finite.cross_fit import counted_fit
from ope_vpm.ope.inference.uncertainty import EpisodeSums
from ope_vpm.ope.q.linear import QValues
from ope_vpm.policy import GaussianPolicy

QUIET = ("constant-columns", "flags-confused", "duplicated-episodes")


def pose(seed, gamma, episodes=400):
    mdp = RandomMDP.draw(6, 2, seed)
    target = mdp.policy(seed + 1)
    data = mdp.dataset(episodes, 50, mdp.policy(seed + 2, spread=0.5), seed)
    return Problem.pose(data, target, gamma=gamma), mdp.value(target, gamma)


@pytest.mark.parametrize("gamma", [1.0, 0.9])
@pytest.mark.parametrize("broken", ["q", "ratio"])
def test_either_nuisance_may_be_wrong(gamma, broken):
    """With a wrong Q, or a ratio of 1, and the other one right, the mean error over ten MDPs is within noise."""
    errors, spread = [], []
    for seed in range(10):
        problem, truth = pose(seed, gamma)
        fit = counted_fit(problem)
        q, tau = fit.q, fit.tau
        if broken == "q":
            wrong, data = np.random.default_rng(seed).standard_normal(6), problem.data
            here, there = data.observations[problem.steps.rows], problem.following
            q = QValues(wrong[here], wrong[there], wrong[problem.log.initial_observations], q.level)
        else:
            tau = np.ones_like(tau)
        found = corrected(problem, replace(fit, q=q, tau=tau), {})
        errors.append(found.value - truth)
        spread.append(found.sums.standard_error)
    assert np.sqrt(np.mean(np.square(errors))) < 2 * np.sqrt(np.mean(np.square(spread)))
    assert np.abs(errors).max() < 0.1


def test_folds_keep_equal_episodes_together():
    problem, _ = pose(0, 1.0, episodes=11)
    data = problem.data
    twice = Problem.pose(ov.LoggedDataset.concatenate([data, data]), problem.policy, ignore=QUIET)
    folds = twice.log.folds(2)
    assert sorted(np.bincount(folds).tolist()) == [10, 12]
    for episode in range(twice.data.n_episodes):
        rows = twice.data.episode == episode
        same = [
            other
            for other in range(twice.data.n_episodes)
            if np.array_equal(twice.data.observations[rows], twice.data.observations[twice.data.episode == other])
        ]
        assert len(same) == 2
        assert len(set(folds[same])) == 1


@pytest.mark.parametrize("gamma", [1.0, 0.9])
def test_networks_as_q(gamma):
    """Two folds of 300 steps each: within 0.05 of the truth, and inside the interval."""
    env, truth = LinearGaussian(), LinearGaussian().value(TARGET, gamma)
    options = {"q": "neural", "folds": 2, "training_steps": 300, "n_features": 40}
    found = ov.evaluate(env.dataset(40, 50, BEHAVIOUR, 0), TARGET.policy(), "dr", gamma=gamma, **options)
    assert abs(found.value - truth) < 0.05
    assert found.interval[0] < truth < found.interval[1]


@pytest.mark.parametrize("gamma", [1.0, 0.95])
def test_linear_gaussian_intervals_have_the_right_size(gamma):
    env, truth = LinearGaussian(), LinearGaussian().value(TARGET, gamma)
    found = [
        ov.evaluate(env.dataset(40, 50, BEHAVIOUR, seed), TARGET.policy(), "dr", gamma=gamma, q="linear", n_features=60)
        for seed in range(10)
    ]
    errors = np.array([each.value for each in found]) - truth
    assert abs(errors.mean()) < 4 * errors.std(ddof=1) / np.sqrt(10)
    assert 0.4 < np.sqrt(np.mean(errors**2)) / np.mean([each.standard_error for each in found]) < 2


def test_wdr_by_hand():
    """One state, γ = 1, uniform behaviour, target (¼, ¾); episodes of actions (0, 1) and (1, 1), rewards 0, 3, 2, 2.

    Action 1 has mean reward 7/3, so Q's own value is ¾·7/3 = 1.75. Ratios of the first step ½ and 1½, products ¾ and
    2¼: the episodes weigh ¼ and ¾ both times. Residuals r - mean: 0 and -1/3, then 2/3 and -1/3. Weighted: -1/4, then
    1/6 - 1/4 = -1/12; their mean is -1/6.
    """
    data = ov.LoggedDataset.from_arrays(
        [0, 0, 0, 0], [0, 1, 1, 1], [0.0, 3.0, 2.0, 2.0], [0, 0, 0, 0], truncated=[False, True, False, True]
    )
    found = ov.evaluate(data, [[0.25, 0.75]], "wdr", behaviour=ov.as_policy([[0.5, 0.5]]), ignore=QUIET)
    assert found.diagnostics["fqe_value"] == pytest.approx(1.75)
    assert found.value == pytest.approx(1.75 - 1 / 6)


def test_wdr_by_hand_below_one():
    """The same episodes at γ = ½: Q's own value and the weighted residuals are the same, -1/4 and then -1/12.

    Discounted they are -1/4 - 1/24 = -7/24, over Σ_t γ^t = 2, in which the time after the log's end counts, too.
    """
    data = ov.LoggedDataset.from_arrays(
        [0, 0, 0, 0], [0, 1, 1, 1], [0.0, 3.0, 2.0, 2.0], [0, 0, 0, 0], truncated=[False, True, False, True]
    )
    found = ov.evaluate(data, [[0.25, 0.75]], "wdr", gamma=0.5, behaviour=ov.as_policy([[0.5, 0.5]]), ignore=QUIET)
    assert found.diagnostics["fqe_value"] == pytest.approx(1.75)
    assert found.value == pytest.approx(1.75 - 7 / 48)


@pytest.mark.parametrize("gamma", [1.0, 0.9])
def test_wdr_and_magic_on_short_episodes_of_random_mdps(gamma):
    """Ten MDPs with episodes of 5 steps: below half the error of the logged mean, and MAGIC not far above WDR."""
    errors = []
    for seed in range(10):
        mdp = RandomMDP.draw(5, 2, seed)
        target = mdp.policy(seed + 1)
        data = mdp.dataset(300, 5, mdp.policy(seed + 2), seed)
        found = ov.evaluate(data, target, ["naive", "wdr", "magic"], gamma=gamma)
        errors.append([each.value - mdp.value(target, gamma) for each in found.values()])
    naive, wdr, magic = np.sqrt(np.mean(np.square(errors), axis=0))
    assert wdr < naive / 2
    assert magic < 1.2 * wdr


@pytest.mark.parametrize("name", ["wdr", "magic"])
def test_unseen_pairs_are_reported_with_their_error(name):
    """State 0 pays 1 and leads to 1, which pays 0 and leads back; in state 0 the target takes an unseen action half the
    time, so in a quarter of all steps or a little more: what is put in its place leads to 0 again at times.
    """
    states = np.tile([0, 1], 200)
    data = ov.LoggedDataset.from_arrays(
        states, np.zeros(400, dtype=int), 1.0 - states, 1 - states, truncated=np.arange(1, 401) % 20 == 0
    )
    found = ov.evaluate(data, [[0.5, 0.5], [1.0, 0.0]], estimator=name, ignore=QUIET)
    assert 0.25 <= found.diagnostics["support"] < 0.35
    assert found.diagnostics["suspected_bias"] > 0.01
    assert found.verdict != "reliable"
    assert any("of the target's steps lead where there are no data" in reason for reason in found.reasons)


@pytest.mark.parametrize(
    ("gamma", "flag", "expected"),
    [
        (1.0, "truncated", [1, 1 / 2, 0]),
        (0.5, "truncated", [1, 1 / 2, 1 / 4]),
        (1.0, "terminated", [1, 1 / 4, 0]),
        (0.5, "terminated", [1, 1 / 2, 1 / 4]),
    ],
)
def test_shares_of_time_beyond_each_horizon(gamma, flag, expected):
    """Episodes of two steps and of one, products of ratios ½, ¾ and 3/2.

    At γ = ½ the times 0, 1 and beyond have 1, ½ and ½ of Σ γ^t = 2, also where ends absorb. Where ends restart, γ = 1,
    a share ¾ / (¾ + 3/2) = ⅓ of the weight is alive at time 1: one of 4/3 steps is that of time 0.
    """
    last = np.array([False, True, True])
    lengths = {"terminated": last} if flag == "terminated" else {"truncated": last}
    zeros = [0, 0, 0]
    data = ov.LoggedDataset.from_arrays(zeros, [0, 1, 1], [1.0, 2.0, 4.0], zeros, **lengths)
    problem = Problem.pose(data, [[0.25, 0.75]], gamma=gamma, ignore=QUIET)
    alive, weight = step_weights(problem, np.log(np.where(problem.data.actions == 0, 0.5, 1.5)))
    fit = counted_fit(problem)
    terms = Terms.of(problem, fit.q, fit.tau, alive, weight)
    np.testing.assert_allclose(terms.share_beyond, expected, atol=1e-12)
    np.testing.assert_allclose(terms.horizons, [0, 1, 2])
    alive_share = 1 / 3 if flag == "terminated" else 1.0
    total = 1 + alive_share if gamma == 1 else 2.0
    np.testing.assert_allclose(terms.weights.sum(axis=0), [1 / total, gamma * alive_share / total])


def test_shares_of_time_where_ends_restart_below_gamma_one():
    """As above at γ = ½: a third of the weight is alive at time 1 and after: 1 + ⅙ and beyond ½²·⅓/½ = ⅙, of 4/3."""
    data = ov.LoggedDataset.from_arrays(
        [0, 0, 0], [0, 1, 1], [1.0, 2.0, 4.0], [0, 0, 0], terminated=[False, True, True]
    )
    problem = Problem.pose(data, [[0.25, 0.75]], gamma=0.5, on_end="restart", ignore=QUIET)
    alive, weight = step_weights(problem, np.log(np.where(problem.data.actions == 0, 0.5, 1.5)))
    fit = counted_fit(problem)
    terms = Terms.of(problem, fit.q, fit.tau, alive, weight)
    np.testing.assert_allclose(terms.share_beyond, [1, 1 / 4, 1 / 8], atol=1e-12)
    np.testing.assert_allclose(terms.weights.sum(axis=0), [3 / 4, 1 / 8])


def some_terms():
    """Two episodes of two times with products 1: residuals 1, 0 and 3, 2, so corrections 2 and then 1."""
    return Terms(
        q_value=5.0,
        residuals=np.array([[1.0, 0.0], [3.0, 2.0]]),
        products=np.ones((2, 2)),
        weights=np.ones((2, 2)) / 4,
        q_influence=np.array([0.4, -0.4]),
        initial=EpisodeSums(np.array([[0.1], [-0.1]]), np.full((2, 1), 0.5)),
        share_beyond=np.array([1.0, 0.5, 0.0]),
        horizons=np.array([0.0, 1.0, 2.0]),
    )


def test_covariance_of_horizons_by_hand():
    """Without the first episode the mean of the first time moves by 3 - 2, so -1 is what it adds; of the second also.

    Of the horizons 0, 1 and 2, with Q's and the initial state's parts: 0.4 + 0.1, -1 + 0.2 + 0.1, -2 + 0.1.
    """
    terms = some_terms()
    np.testing.assert_allclose(terms.corrections, [0, 2, 3])
    first = np.array([0.5, -0.7, -1.9])
    np.testing.assert_allclose(terms.covariance(), 2 * np.outer(first, first))


def test_a_horizon_at_which_one_episode_outweighs_all_others_is_not_sure():
    """Products 999 and 1, residuals 5 and 0: the mean 4.995 moves by 4.995 without the first, 0.005 without the other.

    Its usual influences are ±0.004995. Where the other has no product at all, nothing is left without the first.
    """
    terms = replace(some_terms(), q_influence=np.zeros(2), initial=EpisodeSums(np.zeros((2, 1)), np.full((2, 1), 0.5)))
    unequal = replace(terms, residuals=np.array([[5 * 999.0, 0], [0, 0]]), products=np.array([[999.0, 1], [1, 1]]))
    assert unequal.covariance()[1, 1] == pytest.approx(4.995**2 + 0.005**2)
    alone = replace(terms, residuals=np.array([[5.0, 0], [0, 0]]), products=np.array([[1.0, 1], [0, 1]]))
    assert alone.covariance()[1, 1] == pytest.approx(25)


def test_bias_of_horizons_by_hand():
    """The longest has the standard error 1.9√2; distances of -3, -1 and 0 are looked at beyond 0.6745 of those."""
    half = 0.6745 * 1.9 * np.sqrt(2)
    np.testing.assert_allclose(some_terms().bias(), [-(3 - half), 0, 0])


@pytest.mark.parametrize(("blend", "away"), [((1, 0, 0), 0), ((0, 1, 0), 1), ((0, 0, 1), 0), ((0.75, 0.25, 0), 0.5)])
def test_how_far_a_blend_is_from_both_of_its_ends(blend, away):
    """Corrections are 0, 2 and 3: 2 is 1 below the longest, ½ is that far from Q's own."""
    assert some_terms().undecided(np.array(blend, dtype=float)) == pytest.approx(away)


def test_episode_sums_of_a_blend_by_hand():
    """All of the first time, half of the second and a quarter of Q alone: 2 + ½, and Q's own part is 0 on average."""
    sums = some_terms().episode_sums(np.array([1.0, 0.5]), 0.25)
    np.testing.assert_allclose(sums.ratios, [2, 0.5, 0, 0], atol=1e-12)
    np.testing.assert_allclose(sums.influence, [-0.5 - 0.25 + 0.1 + 0.1, 0.5 + 0.25 - 0.1 - 0.1])


def test_shares_of_times_by_hand():
    """A quarter stops at 0, a quarter at 1, half at 2: the first time counts ¾, the second ½."""
    np.testing.assert_allclose(some_terms().share_of_times(np.array([0.25, 0.25, 0.5])), [0.75, 0.5])


def test_least_variance_on_the_simplex_by_hand():
    """Variances 1 and 3 without covariance: shares ¾ and ¼. Where nothing varies, all on the last."""
    np.testing.assert_allclose(least_on_simplex(np.diag([1.0, 3.0])), [0.75, 0.25], rtol=1e-6)
    assert least_on_simplex(np.zeros((3, 3))).tolist() == [0, 0, 1]


@pytest.mark.parametrize("name", ["wdr", "magic"])
def test_actions_that_nobody_took_are_unreliable(name):
    """Six standard deviations from the logged actions Q extrapolates, whatever the products of ratios add to it."""
    data = LinearGaussian().dataset(50, 20, BEHAVIOUR, seed=0)
    beyond = data.actions.mean() + 6 * data.actions.std()
    far = GaussianPolicy(lambda seen: (np.full((len(seen), 1), beyond), np.full((len(seen), 1), data.actions.std())))
    value = ov.evaluate(data, far, name, gamma=0.9)
    assert value.verdict == "unreliable"
    assert any("what the target does" in reason or "not logged" in reason for reason in value.reasons)


@pytest.mark.parametrize("gamma", [1.0, 0.5])
def test_a_q_of_ones_own_for_a_bandit_by_hand(gamma):
    """Fair coins, π takes action 1, π/b = 2: q + (r - q)·π/b is 2, 2 + 2·(1 - 2), 2 and 2 + 2·(6 - 2), 3.5 on average.

    Nothing follows: that is the return for every discount.
    """
    data = ov.LoggedDataset.from_arrays([0] * 4, [0, 1, 0, 1], [9.0, 1.0, 9.0, 6.0], terminated=[True] * 4)
    value = ov.evaluate(data, [[0.0, 1.0]], "dr", gamma=gamma, q=lambda seen: np.full((4, 2), 2.0), ignore=QUIET)
    assert value.as_return() == pytest.approx((2 + 0 + 2 + 10) / 4)
    assert value.per == ("episode" if gamma == 1 else "step")


def test_folds_are_judged_by_the_q_of_the_others():
    data = LinearGaussian().dataset(10, 20, BEHAVIOUR, 0)
    one, two = (ov.evaluate(data, TARGET.policy(), "dr", gamma=0.9, n_features=40, folds=n).value for n in (1, 2))
    assert one != two
