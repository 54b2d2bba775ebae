"""Small parts of the baselines, each on numbers worked out by hand."""

from dataclasses import replace

import numpy as np
import pytest
import torch

import ope_vpm as ov
from ope_vpm.baselines.d3rlpy_fqe import D3rlpyFQE
from ope_vpm.baselines.doubly_robust import DoublyRobust, corrected
from ope_vpm.baselines.fqe import FQE, vpm_weights
from ope_vpm.baselines.importance_sampling import StepWise, TrajectoryWise, _largest, step_weights, step_wise
from ope_vpm.baselines.liu import Liu2018, balanced_ratio, finite_state_ratio, network_state_ratio
from ope_vpm.baselines.model import ModelBased, _drawn_rows, _observations, _train, fit, liu_rollout, rollout_length
from ope_vpm.baselines.onestep import Capped, OneStep
from ope_vpm.baselines.wdr import Magic, Terms, WeightedDoublyRobust, least_on_simplex
from ope_vpm.envs.linear_gaussian import TARGET, GaussianController, LinearGaussian
from ope_vpm.ope import Problem
from ope_vpm.ope.finite.cross_fit import CrossFit, counted_fit
from ope_vpm.ope.inference.doubts import COEFFICIENTS, DISAGREEMENT, SUPPORT, judge, remarks_among
from ope_vpm.ope.inference.uncertainty import EpisodeSums
from ope_vpm.ope.q.linear import QValues
from ope_vpm.ope.q.training import Ensemble
from ope_vpm.policy import CategoricalPolicy, GaussianPolicy

QUIET = ("constant-columns", "flags-confused", "duplicated-episodes", "one-row-off", "broken-chain")
UNIFORM, TILTED = ov.as_policy([[0.5, 0.5]]), [[0.25, 0.75]]


def bandit(actions, rewards, lengths, ended=False):
    last = np.zeros(len(actions), dtype=bool)
    last[np.cumsum(lengths) - 1] = True
    terminated = last & np.repeat(np.broadcast_to(ended, len(lengths)), lengths)
    zeros = np.zeros(len(actions), dtype=int)
    return ov.LoggedDataset.from_arrays(zeros, actions, np.array(rewards, float), zeros, terminated, last & ~terminated)


def posed(actions, rewards, lengths, ended=False, target=TILTED, **choices):
    return Problem.pose(bandit(actions, rewards, lengths, ended), target, ignore=QUIET, **choices)


# -- Importance sampling: ratios ½ for action 0 and 3/2 for action 1


def test_products_of_ratios_by_hand():
    """Products ½, ¾ and 3/2, each over the largest of its time; what has ended keeps its last one."""
    logs = np.log([0.5, 1.5, 1.5])
    alive, weight = step_weights(posed([0, 1, 1], [1, 2, 4], [2, 1]), logs)
    assert alive.tolist() == [[True, True], [True, False]]
    np.testing.assert_allclose(weight, [[1 / 3, 1], [1, 0]])
    _, weight = step_weights(posed([0, 1, 1], [1, 2, 4], [2, 1], ended=True), logs)
    np.testing.assert_allclose(weight, [[1 / 3, 0.5], [1, 1]])


def test_below_gamma_one_only_episodes_from_a_reset_count():
    data = bandit([0, 1, 1], [1, 2, 4], [2, 1]).with_resets(np.array([True, False]))
    problem = Problem.pose(data, TILTED, gamma=0.5, ignore=QUIET)
    alive, _ = step_weights(problem, np.log([0.5, 1.5, 1.5]))
    assert alive.tolist() == [[True, True], [False, False]]
    average = Problem.pose(data, TILTED, gamma=1.0, ignore=QUIET)
    assert step_weights(average, np.log([0.5, 1.5, 1.5]))[0].tolist() == [[True, True], [True, False]]


@pytest.mark.parametrize(
    ("ended", "gamma", "norm", "unlogged"),
    [
        (False, 1.0, 2.0, 0.0),
        (False, 0.5, 1.5, 0.25),  # γ² of all time
        (True, 1.0, 1 + 1 / 3, 0.0),  # of products ½ and 1 at time 1 the first is alive
        (True, 0.5, 2.0, 0.0),  # ends absorb: all of time counts
        ([True, False], 0.5, 2.0, 0.0),
        ([False, True], 0.5, 1 + 0.5 + 0.5 * 2 / 3, 0.25 / 3),  # of products ½ and 1 the first goes on
    ],
)
def test_the_whole_time_of_step_wise_weights(ended, gamma, norm, unlogged):
    problem = posed([0, 1, 1], [1, 2, 4], [2, 1], ended=ended, gamma=gamma)
    _, weights, found, beyond = step_wise(problem, np.log([0.5, 1.5, 1.5]), problem.data.rewards)
    assert found == pytest.approx(norm)
    assert beyond == pytest.approx(unlogged)
    first = np.array([1 / 3, 1]) / (4 / 3) / norm
    np.testing.assert_allclose(weights[[0, 2]], first)


@pytest.mark.parametrize(
    ("ended", "unlogged"),
    [(False, (0.5 * 0.25 + 1 * 0.5) / 1.5), ([True, False], 0.5 / 1.5), ([False, True], 0.125 / 1.5), (True, 0.0)],
)
def test_what_lies_beyond_cut_trajectories(ended, unlogged):
    """Weights ½ and 1, γ² and γ of their time after the log at γ = ½; it may pay 0 to 4."""
    found = TrajectoryWise(behaviour=UNIFORM).find(posed([0, 1, 1], [1, 2, 4], [2, 1], ended=ended, gamma=0.5))
    assert found.size(SUPPORT) == pytest.approx(unlogged)
    assert found.suspected_bias == pytest.approx(COEFFICIENTS["support"] * 4 * max(unlogged - 0.05, 0))


@pytest.mark.parametrize("estimator", [TrajectoryWise, StepWise])
def test_a_mean_over_cut_episodes_is_no_long_run(estimator):
    """Episodes pay 1, then 3: 2 on average, 3 in their later half. Ends of the task leave nothing to say."""
    cut, ended = (
        estimator(behaviour=UNIFORM).find(posed([0, 1] * 4, [1, 3] * 4, [2] * 4, ended=flag)) for flag in (False, True)
    )
    assert cut.value == ended.value == pytest.approx(2)
    assert cut.size(DISAGREEMENT) == pytest.approx(1)
    assert any("long run" in remark for remark in judge(cut.doubts)[1])
    assert (ended.size(DISAGREEMENT), remarks_among(ended.doubts)) == (None, ())


@pytest.mark.parametrize("name", ["wist", "wiss"])
@pytest.mark.parametrize("gamma", [0.9, 1.0])
def test_products_of_ratios_are_not_sure_of_what_was_not_logged(name, gamma):
    """Episodes of 5 steps leave 0.59 of the weight out at γ = 0.9, of 20 steps 0.12, of 60 steps 0.002."""
    task, near = LinearGaussian(), GaussianController(gain=(-0.17, 0.1), shift=0.28, deviation=0.31)
    held = {5: 0, 20: 0, 60: 0}
    for length in held:
        for seed in range(10):
            data = task.dataset(100, length, near, seed)
            found = ov.evaluate(data, TARGET.policy(), name, gamma=gamma, behaviour=near.policy(), ignore=QUIET)
            held[length] += found.interval[0] <= task.value(TARGET, gamma) <= found.interval[1]
            if gamma == 1:
                assert found.verdict != "reliable"
            else:
                assert found.verdict == ("unreliable" if length == 5 else "reliable")
    assert min(held.values()) >= 8  # 9.5 are meant


def sparse(penalised, continuous, episodes=40):
    """One action, five steps per episode that pay -1, and -100 at the third in some episodes; the task ends."""
    rewards = np.full((episodes, 5), -1.0)
    rewards[:penalised, 2] = -100
    last, action = np.tile(np.arange(5) == 4, episodes), np.zeros(5 * episodes, dtype=int)
    states = np.random.default_rng(0).standard_normal((5 * episodes, 1)) if continuous else action
    return ov.LoggedDataset.from_arrays(states, action, rewards.ravel(), states, terminated=last)


ONLY = ov.as_policy(lambda states: np.ones((len(states), 1)), n_actions=1)


@pytest.mark.parametrize("continuous", [False, True])
@pytest.mark.parametrize("name", ["wist", "wiss"])
def test_rare_rewards_have_exact_limits_whatever_weighs_them(name, continuous):
    """4 of 40 episodes have -99 more than usual, in 200 steps: the exact limits of 4 in 40 are 1.117 and 9.465."""
    found, few, many = (ov.evaluate(sparse(k, continuous), ONLY, name, ignore=QUIET) for k in (4, 2, 30))
    assert found.diagnostics["few"] == pytest.approx(4)
    assert found.value == pytest.approx(-1 - 99 * 4 / 200)
    assert found.interval[0] == pytest.approx(-1 - 99 * 9.465 / 200, abs=1e-3)
    assert found.interval[1] >= -1 - 99 * 1.117 / 200 - 1e-3
    assert found.verdict == "caution"
    assert found.episode_return.interval[0] == pytest.approx(5 * (-1 - 99 * 9.465 / 200), abs=1e-2)
    assert few.verdict == "unreliable"
    assert many.diagnostics["few"] > 10


@pytest.mark.parametrize("continuous", [False, True])
@pytest.mark.parametrize("name", ["wdr", "magic"])
def test_doubly_robust_values_of_rare_rewards_ask_for_caution(name, continuous):
    """However they are weighted, four episodes are worth four at most, and two less than the three that are needed."""
    found, few, many = (ov.evaluate(sparse(k, continuous), ONLY, name, ignore=QUIET) for k in (4, 2, 30))
    assert found.diagnostics["few"] <= 4 + 1e-9
    assert found.verdict != "reliable"
    assert found.interval[0] <= -1 - 99 * 4 / 200 <= found.interval[1]
    assert few.verdict == "unreliable"
    assert many.diagnostics["few"] > 10


def test_returns_by_steps_are_values_times_their_time():
    """The weights ½ and 3/2, then ¾ and 3/2, pay 3¼ and ⅔ in a time of 4/3; the value's error knows that of the time.

    The first episode moves the return by (½ - ½·3¼)/2 + (3/2 - ¾·⅔)/2¼ = -9/16 + 4/9. With v = 47/16 taken from each
    reward it moves 4/3 of the value by -9/16 - 5/24.
    """
    data = bandit([0, 1, 1], [1, 2, 4], [2, 1], ended=True)
    found = StepWise(behaviour=UNIFORM).find(Problem.pose(data, TILTED, ignore=QUIET))
    assert found.value == pytest.approx((3.25 + 2 / 3) / (4 / 3))
    assert found.per_episode.value == pytest.approx(3.25 + 2 / 3)
    of_return, of_value = -9 / 16 + 4 / 9, 3 / 4 * (-9 / 16 - 5 / 24)
    np.testing.assert_allclose(found.per_episode.sums.influence, [of_return, -of_return])
    np.testing.assert_allclose(found.sums.influence, [of_value, -of_value])
    assert StepWise(behaviour=UNIFORM).find(posed([0, 1, 1], [1, 2, 4], [2, 1])).per_episode is None


def test_whole_trajectories_below_gamma_one_and_where_ends_absorb():
    """Weights ½ and 1 of two episodes; at γ = ½ they pay 2 and 4 over 2 each, the time after ends included."""
    found = TrajectoryWise(behaviour=UNIFORM).find(posed([0, 1, 1], [1, 2, 4], [2, 1], ended=True, gamma=0.5))
    assert found.value == pytest.approx((0.5 * 2 + 1 * 4) / (0.5 * 2 + 1 * 2))
    np.testing.assert_allclose(found.weights, [0.5, 0.25, 1])


def test_the_largest_logarithm_where_there_is_one():
    assert _largest(np.array([-np.inf, -3.0])) == -3
    assert _largest(np.array([-np.inf])) == 0
    assert _largest(np.zeros(0)) == 0


def test_caps_of_one_step():
    """Ratios ½, 3/2, 3/2 have the mean 7/6; a cap of 1 leaves 3/7, 1 and 1."""
    problem = posed([0, 1, 1], [1, 2, 4], [2, 1])
    found = OneStep(behaviour=UNIFORM, cap=1.0).find(problem)
    np.testing.assert_allclose(found.weights, [3 / 7, 1, 1])
    assert found.value == pytest.approx((3 / 7 + 2 + 4) / (17 / 7))
    assert found.size(SUPPORT) == 0

    class Model:
        def ratio(self, data, policy, cap):
            return np.full(len(data), cap)

    assert Capped(Model(), 3.0)(problem.data, problem.policy).tolist() == [3, 3, 3]


# -- Weighted doubly robust


def test_weights_of_a_value_that_rests_on_q_beyond_the_episodes():
    """At γ = ½ episodes of actions (0, 1) and (1, 1), of equal weights ¼ and ¾ at both times.

    Of all time, 2, the first step has ½ and the second ¼; the quarter beyond rests on Q, whose ratio is 1 for action 0
    (one in four rows, a quarter of the target) and 1 for action 1.
    """
    problem = posed([0, 1, 1, 1], [0, 3, 2, 2], [2, 2], gamma=0.5)
    found = WeightedDoublyRobust(behaviour=UNIFORM).find(problem)
    own = np.array([0.5 * 0.25, 0.25 * 0.25, 0.5 * 0.75, 0.25 * 0.75])
    np.testing.assert_allclose(found.weights, own + 0.25 * np.ones(4) / 4)
    assert found.weights.sum() == pytest.approx(1)
    assert found.diagnostics["mean_horizon"] == 2


def test_weights_beyond_the_episodes_follow_the_ratio_of_the_target():
    """Three of four rows are of action 1, which the target takes half of the time: ratios 2 and ⅔."""
    problem = posed([0, 1, 1, 1], [0, 3, 2, 2], [2, 2], gamma=0.5, target=[[0.5, 0.5]])
    found = WeightedDoublyRobust(behaviour=UNIFORM).find(problem)
    own = np.array([0.5, 0.25, 0.5, 0.25]) / 2
    np.testing.assert_allclose(found.weights, own + 0.25 * np.array([2, 2 / 3, 2 / 3, 2 / 3]) / 4)


def terms(residuals, q_influence, horizons=(0.0, 1.0, 2.0)):
    episodes = len(residuals)
    return Terms(
        q_value=5.0,
        residuals=np.array(residuals, float),
        products=np.ones((episodes, 2)),
        weights=np.ones((episodes, 2)) / 4,
        q_influence=np.array(q_influence, float),
        initial=EpisodeSums(np.zeros((episodes, 1)), np.full((episodes, 1), 1 / episodes)),
        share_beyond=np.array([1.0, 0.5, 0.0]),
        horizons=np.array(horizons),
    )


def test_the_longest_horizon_alone_and_magics_blend():
    """Residuals that only vary in the second time: the first one alone is certain, and Q's own value is 3 too low.

    The longest has the standard error 2√2, each episode moving it by 2: beyond 0.6745 of that Q's own counts as biased.
    """
    certain = terms([[3.0, 2.0], [3.0, -2.0]], [0.0, 0.0])
    assert WeightedDoublyRobust()._blend(certain).tolist() == [0, 0, 1]
    np.testing.assert_allclose(certain.bias(), [-(3 - 0.6745 * 2 * np.sqrt(2)), 0, 0])
    blend = Magic()._blend(certain)
    assert blend.sum() == pytest.approx(1)
    assert blend[1] == pytest.approx(1, abs=1e-6)


def test_least_variance_with_a_negative_covariance_and_a_share_that_stays_zero():
    """Var 1 and 1, covariance -½: halves. Var 1 and 9, covariance 2: all on the first."""
    np.testing.assert_allclose(least_on_simplex(np.array([[1.0, -0.5], [-0.5, 1.0]])), [0.5, 0.5], rtol=1e-6)
    np.testing.assert_allclose(least_on_simplex(np.array([[1.0, 2.0], [2.0, 9.0]])), [1, 0], atol=1e-6)
    assert least_on_simplex(np.zeros((2, 2)), otherwise=0).tolist() == [1, 0]


# -- Doubly robust


def test_the_correction_of_a_wrong_q():
    """Q = 0 at γ = ½: the value is the weighted mean of rewards, here (2·1 + 0·3 + 1·5)/3."""
    problem = posed([0, 1, 1], [1, 3, 5], [2, 1], gamma=0.5)
    zero = np.zeros(3)
    order = problem.steps.rows
    fit_of = CrossFit(QValues(zero, zero, np.zeros(2), zero), np.array([2.0, 0, 1])[order], 0.25, 0.125)
    found = corrected(problem, fit_of, {"solver": "mine"})
    assert found.value == pytest.approx(7 / 3)
    assert found.suspected_bias == pytest.approx(0.125 * COEFFICIENTS["unseen"])
    assert found.diagnostics["fqe_value"] == 0
    assert found.diagnostics["correction"] == pytest.approx(7 / 3)
    assert found.diagnostics["standard_errors_apart"] == pytest.approx(7 / 3 / found.sums.standard_error)
    np.testing.assert_allclose(found.weights, [2, 0, 1])
    assert found.size(SUPPORT) == 0.25
    mixed = replace(fit_of, mixture=EpisodeSums(np.array([[0.5], [0.0]]), np.array([[0.5], [0.5]])))
    assert corrected(problem, mixed, {}).value == pytest.approx(7 / 3 + 0.5)


def test_on_counts_the_correction_is_nothing():
    """Mean rewards 1 and 4 with probabilities ¼ and ¾; Q and the ratio of the same counts leave no residual."""
    problem = posed([0, 1, 1, 0], [1, 3, 5, 1], [1, 1, 1, 1])
    found = DoublyRobust().find(problem)
    assert found.value == pytest.approx(0.25 * 1 + 0.75 * 4)
    whole = counted_fit(problem)
    assert found.value == pytest.approx(corrected(problem, whole, {}).value)


# -- Fitted Q evaluation


def test_likelihood_intervals_need_no_restart_but_take_ends_that_absorb():
    ending = posed([0, 1, 1, 0], [1, 3, 5, 1], [1, 1, 1, 1], ended=True)
    with pytest.raises(ValueError, match="without restarts"):
        FQE(interval="likelihood").check(ending)
    FQE(interval="likelihood").check(ending.with_gamma(0.5))
    FQE(interval="likelihood").check(posed([0, 1, 1, 0], [1, 3, 5, 1], [1, 1, 1, 1]))
    states = np.arange(8.0)[:, None] % 3
    data = ov.LoggedDataset.from_arrays(states, np.arange(8) % 2, states[:, 0], truncated=np.arange(8) % 4 == 3)
    continuous = Problem.pose(data, CategoricalPolicy(lambda s: np.full((len(s), 2), 0.5), 2), ignore=QUIET)
    for option in ({"interval": "likelihood"}, {"solver": "tabular"}):
        with pytest.raises(ValueError, match="finite"):
            FQE(**option).check(continuous)


def test_weights_of_the_regression_are_vpms_and_not_negative():
    problem = posed([0, 0, 0, 1], [1, 1, 2, 5], [1, 1, 1, 1])
    np.testing.assert_allclose(vpm_weights(problem, 10), [1 / 3] * 3 + [3])


# -- Liu et al. 2018


@pytest.mark.parametrize("ended", [False, True])
def test_the_return_of_an_episode_by_liu(ended):
    """One state: the ratios are ½, 3/2 and 3/2; Σρr = 9.5 over the ρ of the ends, 3."""
    found = Liu2018(behaviour=UNIFORM).find(posed([0, 1, 1], [1, 2, 4], [2, 1], ended=ended))
    assert found.value == pytest.approx(9.5 / 3.5)
    if ended:
        assert found.per_episode.value == pytest.approx(9.5 / 3)
    else:
        assert found.per_episode is None


def test_a_cap_on_ratios_of_mean_one():
    """Ratios ½, 3/2, 3/2 over their mean 7/6, capped at 1: 3/7, 1, 1."""
    found = Liu2018(behaviour=UNIFORM, cap=1.0).find(posed([0, 1, 1], [1, 2, 4], [2, 1]))
    assert found.value == pytest.approx((3 / 7 + 2 + 4) / (17 / 7))


def test_plain_frequencies_where_the_behaviour_is_cloned():
    """Actions 0, 1, 1 in one state: b = (⅓, ⅔), so ratios ¾ and 9/8, not those of smoothed counts."""
    found = Liu2018().find(posed([0, 1, 1], [1, 2, 4], [2, 1]))
    assert found.value == pytest.approx((0.75 * 1 + 1.125 * 2 + 1.125 * 4) / 3)


def test_states_that_were_never_left_have_no_ratio():
    """0 → 1 → 5, cut: state 5 is never left. At γ = ½ from 0: μ₀ = ½ and μ₁ = ¼, each over a share ½ of the log."""
    data = ov.LoggedDataset.from_arrays([0, 1], [0, 0], [1.0, 2.0], [1, 5], truncated=[False, True])
    problem = Problem.pose(data, [[1.0]] * 6, gamma=0.5, ignore=QUIET)
    np.testing.assert_allclose(finite_state_ratio(problem, np.ones(2), None), [1, 0.5], rtol=1e-6)


def test_every_state_that_leads_to_itself_keeps_its_share():
    w = balanced_ratio(np.array([0, 1]), np.array([0, 1]), np.ones(2), np.ones(2), np.array([0.5, 0.5]), 1.0)
    np.testing.assert_allclose(w, [1, 1])


def test_the_network_s_ratio_falls_where_the_target_leaves():
    """From -1 to 1 for ever: at γ = ½ beginning in -1, half of the time in each; 4 of 5 logged rows are in 1."""
    states = np.tile([[-1.0], [1.0], [1.0], [1.0], [1.0]], (20, 1))
    after = np.ones_like(states)
    data = ov.LoggedDataset.from_arrays(
        states,
        np.random.default_rng(0).standard_normal((100, 1)),
        states[:, 0],
        after,
        truncated=np.arange(100) % 5 == 4,
    )
    problem = Problem.pose(data, GaussianPolicy(lambda s: (0 * s, 1.0)), gamma=0.5, ignore=QUIET)
    found = network_state_ratio(problem, np.ones(100), 80)[np.argsort(problem.steps.rows)]
    assert found[0] == pytest.approx(2.5, abs=0.4)
    assert found[1] == pytest.approx(0.625, abs=0.2)


@pytest.mark.parametrize(("setting", "fine"), [({"training_steps": 1}, True), ({"training_steps": 0}, False)])
def test_settings_of_liu(setting, fine):
    if fine:
        assert Liu2018(**setting).training_steps == 1
        return
    with pytest.raises(ValueError, match="must be at least 1"):
        Liu2018(**setting)


# -- Models


def test_a_rollout_of_liu_et_al_is_discounted_and_held_after_fifty_steps():
    """Two states in turn that pay 0 and 1. At γ = ½ over three steps: ½ of 7/4. After 50 steps it stays where it is."""
    data = ov.LoggedDataset.from_arrays([0, 1] * 4, [0] * 8, [0.0, 1.0] * 4, [1, 0] * 4, truncated=[False, True] * 4)
    problem = Problem.pose(data, [[1.0]] * 2, gamma=0.5, ignore=QUIET)
    assert liu_rollout(problem, 3, "smooth") == pytest.approx(0.5 / 1.75)
    average = Problem.pose(data, [[1.0]] * 2, ignore=QUIET)
    assert liu_rollout(average, 60, "smooth") == pytest.approx(
        25 / 60
    )  # times 1, 3, … 49 of the first 50; then it is in 0


def test_lengths_of_rollouts_where_a_limit_is_part_of_the_task():
    def limited(length, **choices):
        states = np.arange(length * 2.0)[:, None]
        last = np.arange(length * 2) % length == length - 1
        data = ov.LoggedDataset.from_arrays(states, states, states[:, 0], states + 1, truncated=last)
        return Problem.pose(data, GaussianPolicy(lambda s: (0 * s, 1.0)), ignore=QUIET, **choices)

    assert rollout_length(limited(7, time_limit="restart")) == 7
    assert rollout_length(limited(1200, time_limit="restart")) == 1000
    assert rollout_length(limited(7)) == 100
    assert rollout_length(limited(700)) == 1000
    assert rollout_length(limited(7, gamma=0.0)) == 1
    assert rollout_length(limited(7, gamma=0.9999)) == 1000


def test_members_are_trained_on_draws_of_whole_episodes():
    problem = posed([0, 1, 1, 0, 1], [1, 2, 3, 4, 5], [2, 1, 2])
    drawn = _drawn_rows(problem.log, 4, 0)
    assert len(drawn) == 4
    for rows in drawn:
        episodes = problem.data.episode[rows]
        kept = [np.sum(episodes == episode) % length for episode, length in enumerate([2, 1, 2])]
        assert kept == [0, 0, 0]
        counts = [np.sum(episodes == episode) // length for episode, length in enumerate([2, 1, 2])]
        assert sum(counts) == 3
    assert any(len(each) != 5 for each in drawn)  # with replacement


def test_training_learns_changes_rewards_and_ends():
    """Targets without an input: change ½ (unknown in half of the rows, where it is absurd), reward -1, and an end."""
    network = Ensemble(2, 1, 3, 0)
    x = torch.zeros(40, 1)
    known = (torch.arange(40) % 2 == 0).float()
    y = torch.stack([torch.where(known > 0, 0.5, 1e3), torch.full((40,), -1.0), torch.ones(40)], dim=1)
    _train(network, x, y, known, [np.arange(40)] * 2, 200, 0)
    with torch.no_grad():
        out = network(torch.zeros(2, 1, 1))[:, 0]
    np.testing.assert_allclose(out[:, 0], 0.5, atol=0.02)
    np.testing.assert_allclose(out[:, 1], -1, atol=0.02)
    assert (out[:, 2] > 1).all()


def test_what_a_model_leaves_unexplained_is_its_noise():
    """Changes of ±1 that nothing explains: after one step of training they are left in units of their deviation."""
    rng = np.random.default_rng(0)
    states = np.cumsum(rng.choice([-1.0, 1.0], size=201))[:, None]
    data = ov.LoggedDataset.from_arrays(
        states[:-1], rng.standard_normal((200, 1)), states[:-1, 0], states[1:], truncated=np.arange(200) % 20 == 19
    )
    problem = Problem.pose(data, GaussianPolicy(lambda s: (0 * s, 1.0)), ignore=QUIET)
    model = fit(problem.log, members=3, steps=1, seed=0)
    change = np.diff(states[:, 0])
    with torch.no_grad():
        out = model.network(
            model.inputs(model.features.coordinates(data.observations), data.actions).expand(3, 200, -1)
        )
    scaled = model.change_scale((change / data.observations.std())[:, None])[:, 0]
    expected = np.sqrt(np.mean((out[..., 0].double().numpy() - scaled) ** 2, axis=1))
    np.testing.assert_allclose(model.noise[:, 0], expected, rtol=1e-5)
    assert not model.ends
    assert model.n_actions == 0


def test_finite_states_of_a_model_are_numbers_again():
    """One-hot states of 2 × 3 values, in the order of the numbers."""
    data = ov.LoggedDataset.from_arrays(
        np.array([[0, 0], [0, 2], [1, 1], [1, 2]]), np.zeros((4, 1)) + np.arange(4.0)[:, None], np.arange(4.0),
        truncated=[False, True, False, True],
    )  # fmt: skip
    problem = Problem.pose(data, GaussianPolicy(lambda s: (np.zeros((len(s), 1)), 1.0)), ignore=QUIET)
    model = fit(problem.log, members=2, steps=1, seed=0)
    assert model.features.encoder.shape == (2, 3)
    assert np.asarray(model.features.coordinates(data.observations)).shape == (4, 6)


@pytest.mark.parametrize("method", ["rollout", "simulate"])
def test_only_finite_pairs_are_rolled_out(method):
    states = np.arange(8.0)[:, None] % 3
    data = ov.LoggedDataset.from_arrays(states, states, states[:, 0], truncated=np.arange(8) % 4 == 3)
    problem = Problem.pose(data, GaussianPolicy(lambda s: (0 * s, 1.0)), ignore=QUIET)
    with pytest.raises(ValueError, match="rolls out counts"):
        ModelBased(method=method).check(problem)
    ModelBased().check(problem)
    ModelBased(method=method).check(posed([0, 1], [1, 2], [1, 1]))


def test_what_d3rlpy_s_estimator_refuses():
    problem = posed([0, 1], [1, 2], [1, 1], gamma=0.5)
    with pytest.raises(ValueError, match="needs the greedy policy"):
        D3rlpyFQE().check(problem)


def test_states_in_their_own_units_again():
    states = np.array([[1.0], [3.0], [5.0], [7.0]])
    data = ov.LoggedDataset.from_arrays(states, states, states[:, 0], truncated=[False, True] * 2)
    problem = Problem.pose(data, GaussianPolicy(lambda s: (0 * s, 1.0)), ignore=QUIET)
    model = fit(problem.log, members=2, steps=1, seed=0)
    np.testing.assert_allclose(_observations(model, np.array([[0.0], [1.0]])), [[4], [4 + np.sqrt(5)]])


@pytest.mark.parametrize(("length", "expected"), [(40, np.arange(0, 41, 2)), (10, np.arange(11)), (1, [0, 1])])
def test_twenty_horizons_are_evenly_spaced(length, expected):
    """Besides 0, as many as there are times where these are fewer."""
    size = 2 * length
    problem = posed(np.arange(size) % 2, np.arange(float(size)), [length, length])
    alive, weight = step_weights(problem, np.zeros(size))
    fit_of = counted_fit(problem)
    found = Terms.of(problem, fit_of.q, fit_of.tau, alive, weight)
    np.testing.assert_array_equal(found.horizons, expected)
    np.testing.assert_allclose(found.share_beyond, 1 - np.array(expected) / length, atol=1e-12)
