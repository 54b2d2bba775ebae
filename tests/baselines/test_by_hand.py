"""The baselines on a few steps, against numbers worked out by hand."""

import numpy as np
import pytest
import torch

import ope_vpm as ov
from ope_vpm.baselines.liu import balanced_ratio, finite_state_ratio, imbalance, restarting_ratio
from ope_vpm.baselines.model import fit, rolled_out
from ope_vpm.envs.linear_gaussian import BEHAVIOUR, TARGET, LinearGaussian
from ope_vpm.ope import Problem
from ope_vpm.ope.behaviour.clone import counted_clone, network_clone
from ope_vpm.ope.finite.problem import finite_problem
from ope_vpm.ope.finite.treatments import Restrict
from ope_vpm.policy import CategoricalPolicy, GaussianPolicy
from ope_vpm.policy.target import Clipping

UNIFORM = [[0.5, 0.5]]
BANDIT_TARGET = [[0.25, 0.75]]
QUIET = ("constant-columns", "flags-confused", "duplicated-episodes")


def bandit(actions, rewards, lengths, **flags):
    """One state; episodes of the given lengths, cut by the log unless flags say otherwise."""
    last = np.zeros(len(actions), dtype=bool)
    last[np.cumsum(lengths) - 1] = True
    zeros = np.zeros(len(actions), dtype=int)
    ends = {"terminated": last} if flags.get("ended") else {"truncated": last}
    return ov.LoggedDataset.from_arrays(zeros, actions, rewards, zeros, **ends)


def evaluate(data, name, **choices):
    return ov.evaluate(data, BANDIT_TARGET, name, behaviour=ov.as_policy(UNIFORM), ignore=QUIET, **choices)


# Ratios π/b: 0.5 for action 0, 1.5 for action 1.
TWO = bandit([0, 1, 1], [1.0, 2.0, 4.0], [2, 1])


def test_naive_is_the_mean_and_discounts_by_time():
    assert ov.evaluate(TWO, BANDIT_TARGET, "naive", ignore=QUIET).value == pytest.approx(7 / 3)


def test_naive_goes_on_beyond_a_truncation_as_the_last_steps_paid():
    """γ = ½. Two steps pay 1 and 2: Σγ^t r = 2, then γ²·2·mean(1, 2) = 0.75; one pays 4: 4, then γ·2·4 = 4."""
    discounted = ov.evaluate(TWO, BANDIT_TARGET, "naive", gamma=0.5, ignore=QUIET)
    assert discounted.value == pytest.approx((2 + 0.75 + 4 + 4) / 4)


def test_naive_goes_on_with_the_last_thirty_steps_only():
    """A reward of 1 that falls to 0 in the last 30 of 50 steps: nothing is added after them, 1 - γ^20 is what was."""
    rewards = np.repeat([1.0, 0.0], [20, 30])
    data = bandit(np.tile([0, 1], 50), np.tile(rewards, 2), [50, 50])
    value = ov.evaluate(data, BANDIT_TARGET, "naive", gamma=0.9, ignore=QUIET).value
    assert value == pytest.approx(1 - 0.9**20)


def test_naive_counts_the_time_after_an_end():
    """Lengths 2 and 1 with γ = ½: Σγ^t r = 2 and 4; all of time weighs 2 each."""
    ended = bandit([0, 1, 1], [1.0, 2.0, 4.0], [2, 1], ended=True)
    assert ov.evaluate(ended, BANDIT_TARGET, "naive", gamma=0.5, ignore=QUIET).value == pytest.approx(6 / 4)


def test_onestep_weighs_by_the_action_ratio():
    assert evaluate(TWO, "onestep").value == pytest.approx((0.5 * 1 + 1.5 * 2 + 1.5 * 4) / 3.5)


def test_wist_weighs_episodes_by_the_whole_product():
    """Products 0.75 and 1.5; sums of rewards 3 and 4 over 2 and 1 steps."""
    assert evaluate(TWO, "wist").value == pytest.approx((0.75 * 3 + 1.5 * 4) / (0.75 * 2 + 1.5))


def test_wiss_weighs_each_time_by_the_product_so_far():
    """t = 0: (0.5·1 + 1.5·4)/2 = 3.25; t = 1: only the first episode is left, 2."""
    assert evaluate(TWO, "wiss").value == pytest.approx((3.25 + 2) / 2)


def test_wiss_does_not_take_the_length_of_episodes_for_known():
    """On-policy, where ends restart, it is the ratio of all rewards to all steps, and so is its error, by a bootstrap.

    Where every episode pays 1, what varies is the length alone: with a known length the error would be a tenth.
    """
    rng = np.random.default_rng(0)
    lengths = rng.geometric(0.2, size=50)
    last = np.zeros(lengths.sum())
    last[np.cumsum(lengths) - 1] = 1
    for paid in (last, last + 7.0):
        data = bandit(np.arange(len(last)) % 2, paid, lengths, ended=True)
        found = ov.evaluate(data, UNIFORM, "wiss", behaviour=ov.as_policy(UNIFORM), ignore=QUIET)
        mean = ov.evaluate(data, UNIFORM, "naive", ignore=QUIET)
        assert found.value == pytest.approx(mean.value)
        assert found.standard_error == pytest.approx(mean.standard_error, rel=0.05)
        assert found.as_return() == pytest.approx(mean.as_return())


def test_wiss_keeps_ended_episodes_in_the_denominator():
    """t = 1: the second episode has ended with weight 1.5, the first is alive with 0.75: 0.75·2/2.25 = 2/3.

    With restarts a share 1/3 is alive at t = 1: (3.25 + 2/3)/(1 + 1/3). Absorbed at γ = ½: (3.25 + ⅓)/2.
    """
    ended = bandit([0, 1, 1], [1.0, 2.0, 4.0], [2, 1], ended=True)
    assert evaluate(ended, "wiss").value == pytest.approx((3.25 + 2 / 3) / (4 / 3))
    assert evaluate(ended, "wiss", gamma=0.5).value == pytest.approx((3.25 + 1 / 3) / 2)


def test_products_of_a_thousand_ratios_do_not_overflow():
    rng = np.random.default_rng(0)
    data = bandit(rng.integers(2, size=3000), rng.standard_normal(3000), [1500, 1500])
    for name in ("wist", "wiss"):
        assert np.isfinite(evaluate(data, name).value)


def test_no_common_action_has_no_value_and_says_so():
    data = bandit([0, 0, 0, 0], [1.0, 2.0, 3.0, 4.0], [2, 2])
    for name in ("onestep", "wist", "wiss"):
        found = ov.evaluate(data, [[0.0, 1.0]], name, behaviour=ov.as_policy(UNIFORM), ignore=QUIET)
        assert np.isnan(found.value)
        assert found.verdict == "unreliable"
        assert found.reasons[0].startswith("no value: every weight is zero")


def test_counted_clone_is_smoothed():
    """State 0: actions 0, 0, 1 of 2 with one observation added: (2 + ½)/4 and (1 + ½)/4."""
    clone = counted_clone(np.zeros(3, dtype=int), np.array([0, 0, 1]), 2)
    np.testing.assert_allclose(np.exp(clone.log_prob), [2.5 / 4, 2.5 / 4, 1.5 / 4])
    left_out = np.log([1.5 / 3, 1.5 / 3, 0.5 / 3])
    assert clone.held_out_log_likelihood == pytest.approx(left_out.mean())


def test_gaussian_network_clone_comes_near_the_behaviour():
    data = LinearGaussian().dataset(40, 50, BEHAVIOUR, seed=0)
    problem = Problem.pose(data, TARGET.policy())
    exact = BEHAVIOUR.policy().log_prob(problem.data.observations, problem.data.actions)
    clone = network_clone(problem.log, Clipping(), 0)
    assert np.abs(clone.log_prob - exact).mean() < 0.1
    assert clone.held_out_log_likelihood == pytest.approx(exact.mean(), abs=0.1)


def test_categorical_network_clone_comes_near_the_behaviour():
    rng = np.random.default_rng(0)
    states = rng.standard_normal((3001, 1))
    chance = 1 / (1 + np.exp(-2 * states[:-1, 0]))
    actions = (rng.random(3000) < chance).astype(int)
    data = ov.LoggedDataset.from_arrays(
        states[:-1], actions, np.zeros(3000), states[1:], truncated=np.arange(3000) % 30 == 29
    )
    policy = CategoricalPolicy(lambda s: np.full((len(s), 2), 0.5), 2)
    problem = Problem.pose(data, policy, ignore=("one-row-off",))  # the states are independent draws
    exact = np.log(1 / (1 + np.exp(-2 * np.where(problem.data.actions, 1, -1) * problem.data.observations[:, 0])))
    assert np.abs(network_clone(problem.log, Clipping(), 0).log_prob - exact).mean() < 0.1


def two_state_log():
    """Action 0 stays, action 1 switches, both seen in both states; reward is the state."""
    states, actions = np.array([0, 0, 1, 1, 0, 1, 0]), np.array([0, 1, 0, 1, 1, 1, 0])
    following = np.where(actions == 1, 1 - states, states)
    return ov.LoggedDataset.from_arrays(
        states, actions, states.astype(float), following, truncated=np.array([0, 0, 0, 0, 0, 0, 1], dtype=bool)
    )


@pytest.mark.parametrize("name", ["vpm", "model", "liu", "fqe"])
def test_two_state_chain(name):
    """P(0→1) = 0.2, P(1→0) = 0.6: the long-run share of state 1 is 0.25; γ = ½ from state 0: V = 1/14."""
    policy = [[0.8, 0.2], [0.4, 0.6]]
    options = {"behaviour": ov.as_policy([[0.5, 0.5]] * 2)} if name == "liu" else {}
    data = two_state_log()
    if name == "liu":  # its ratios need equal counts of both actions
        data = data.select([0])
        data = ov.LoggedDataset.from_arrays([0, 0, 1, 1], [0, 1, 0, 1], [0.0, 0.0, 1.0, 1.0], [0, 1, 1, 0])
    assert ov.evaluate(data, policy, name, **options).value == pytest.approx(0.25, abs=1e-7)
    # h₁ = 1 + ½(0.4h₁ + 0.6h₀), h₀ = ½(0.8h₀ + 0.2h₁): h₀ = h₁/6, h₁ = 4/3, value = ½·h₀ = 1/9.
    assert ov.evaluate(data, policy, name, gamma=0.5, **options).value == pytest.approx(1 / 9, abs=1e-7)


def test_counted_model_scales_the_target_over_seen_actions():
    data = ov.LoggedDataset.from_arrays([0, 1, 0], [0, 0, 0], [1.0, 2.0, 1.0], [1, 0, 1])
    problem = Problem.pose(data, [[0.5, 0.5], [0.5, 0.5]], ignore=QUIET)
    finite = finite_problem(problem)
    assert Restrict().complete(finite).probability.tolist() == [1.0, 1.0]
    assert finite.unseen.tolist() == [0.5, 0.5]
    solution = Restrict().solved(finite)
    assert solution.value == pytest.approx(1.5)
    assert solution.distribution.tolist() == pytest.approx([0.5, 0.5])


def test_simulated_model_comes_near_the_exact_one():
    policy = [[0.8, 0.2], [0.4, 0.6]]
    found = ov.evaluate(two_state_log(), policy, "model", method="simulate", horizon=20_000)
    assert found.value == pytest.approx(0.25, abs=0.02)
    assert found.diagnostics["exact_value"] == pytest.approx(0.25)


def test_balance_of_two_states():
    """All flow from 0 to 1 and back: w·p must be equal in both, whatever p is."""
    w = balanced_ratio(np.array([0, 0, 1]), np.array([1, 1, 0]), np.ones(3), np.ones(3), np.array([1.0, 0.0]), 1.0)
    np.testing.assert_allclose(w, [0.75, 1.5], rtol=1e-6)


@pytest.mark.parametrize(("initial", "expected"), [([1.0, 0.0], [2.0, 2 / 3]), ([0.75, 0.25], [1.5, 2.5 / 3])])
def test_discounted_balance_of_two_states(initial, expected):
    """γ = ½, a quarter of the log in state 0, which leads to 1, and 1 to itself, so μ₀ = ½d₀ and μ₁ = μ₀ + d₁.

    From state 0: μ = (½, ½), over p = (¼, ¾). From it three times in four: μ = (⅜, ⅝).
    """
    weight = np.array([1.0, 3.0])
    w = balanced_ratio(np.array([0, 1]), np.array([1, 1]), weight, np.ones(2), np.array(initial), 0.5)
    np.testing.assert_allclose(w, expected, rtol=1e-6)


def test_balance_where_the_target_ends_half_of_the_steps():
    """γ = ½, one state; half of the steps end with ρ = ½, the others lead back with ρ = 3/2: μ = ½ + ½·¾·μ = 4/5."""
    w = balanced_ratio(np.array([0, 0]), np.array([0, -1]), np.ones(2), np.array([1.5, 0.5]), np.ones(1), 0.5)
    np.testing.assert_allclose(w, [0.8], rtol=1e-6)


def test_the_state_ratio_of_one_state_is_one():
    problem = Problem.pose(TWO, UNIFORM, gamma=0.5, ignore=QUIET)
    for prior in (None, 0.3):
        np.testing.assert_allclose(finite_state_ratio(problem, np.ones(3), prior), 1, rtol=1e-6)


def test_a_prior_begins_again_from_the_logged_states():
    """Two steps from 0 to 1 with half of the target, and one back with all of it; one more of state 0 begins again.

    p = (⅔, ⅓); a third of state 0 leads to 1, and L = ⅔μ₀ begins again: μ₀ = μ₁ + ⅔L, so that μ = (9, 5)/14.
    """
    state, following, ones = np.array([0, 0, 1]), np.array([1, 1, 0]), np.ones(3)
    w = restarting_ratio(state, following, ones, np.array([0.5, 0.5, 1.0]), np.array([1.0, 0.0]), 1.0, prior=1.0)
    np.testing.assert_allclose(w, [27 / 28, 15 / 14], rtol=1e-9)
    all_seen = restarting_ratio(state, following, ones, ones, np.array([1.0, 0.0]), 1.0, prior=1.0)
    np.testing.assert_allclose(all_seen, [0.75, 1.5], rtol=1e-6)


def test_what_the_target_does_and_the_log_does_not_begins_again_from_the_logged_states():
    """γ = ½, from state 0. It leads to 1 with ρ = ½, and half of the target is lost; 1 leads to itself.

    μ₀ = ½·½·L + ½ with L = ½μ₀, so that μ = (4, 3)/7, over p = (½, ½).
    """
    w = restarting_ratio(
        np.array([0, 1]), np.array([1, 1]), np.ones(2), np.array([0.5, 1.0]), np.array([1.0, 0.0]), 0.5, prior=0.0
    )
    np.testing.assert_allclose(w, [8 / 7, 6 / 7], rtol=1e-9)


def test_liu_counts_the_time_after_an_end():
    """One state, so the state ratio cancels; ρ = ½, 3/2, 3/2. Σρr = 9.5.

    Cut by the log: over Σρ = 3.5. At γ = ½ both last rows, of ρ = 3/2, stand for one step more: over 6.5.
    """
    ended = bandit([0, 1, 1], [1.0, 2.0, 4.0], [2, 1], ended=True)
    assert evaluate(TWO, "liu", gamma=0.5).value == pytest.approx(9.5 / 3.5)
    assert evaluate(ended, "liu", gamma=0.5).value == pytest.approx(9.5 / 6.5)
    assert evaluate(ended, "liu").value == pytest.approx(9.5 / 3.5)


@pytest.mark.parametrize("bandwidth", [1.0, 2.0])
def test_discounted_imbalance_by_hand(bandwidth):
    """γ = ½ and w = ρ = 1 in equal rows: ½ at s' = 1, ½ at s₀ = 2 and -1 at s = 0, in the norm of the kernel.

    ¼ + ¼ + 1 + 2(¼k(1) - ½k(1) - ½k(2)), where k(d) = exp(-d²/2h²).
    """
    one, near, far = torch.ones(5, 1), np.exp(-0.5 / bandwidth**2), np.exp(-2 / bandwidth**2)
    found = imbalance(torch.ones(5), torch.ones(5), 0 * one, one, 2 * one, 0.5, bandwidth)
    assert float(found) == pytest.approx(1.5 - 0.5 * near - far, rel=1e-5)


def test_imbalance_leaves_out_a_rows_product_with_itself():
    """A kernel that is 1 everywhere, γ = ½: rows of ½·2·½ + ½ - 2 = -1 and ½·1·3 + ½ - 1 = 1 have the product -1."""
    w, rho, points = torch.tensor([2.0, 1.0]), torch.tensor([0.5, 3.0]), torch.tensor([[0.0], [1.0]])
    assert float(imbalance(w, rho, points, points, points, 0.5, 1e4)) == pytest.approx(-1, rel=1e-5)


def test_imbalance_is_zero_in_balance_and_positive_out_of_it():
    """Two points swapped by each step: equal weights balance; w = (1.5, 0.5) leaves ‖½(k₁ - k₀)‖² = ½(1 - e^-½)."""
    here = torch.tensor([[0.0], [1.0]]).repeat(50, 1)
    there = 1 - here
    even, uneven = torch.ones(100), torch.tensor([1.5, 0.5]).repeat(50)
    settings = {"rho": torch.ones(100), "here": here, "there": there, "first": here, "gamma": 1.0, "bandwidth": 1.0}
    assert float(imbalance(even, **settings)) == pytest.approx(0, abs=0.02)
    assert float(imbalance(uneven, **settings)) == pytest.approx(0.5 * (1 - np.exp(-0.5)), abs=0.02)


def test_rollouts_stay_within_what_was_logged():
    data = LinearGaussian().dataset(10, 20, BEHAVIOUR, seed=0)
    problem = Problem.pose(data, ov.as_policy(lambda states: 1e6 * np.ones((len(states), 1))))
    model = fit(problem.log, members=2, steps=20, seed=0)
    rolled = rolled_out(problem, model, 2, 10, 50)
    assert (rolled.values >= data.rewards.min()).all()
    assert (rolled.values <= data.rewards.max()).all()
    assert rolled.at_edge > 0.5


@pytest.mark.parametrize("name", ["wdr", "magic"])
def test_restarts_count_in_the_error_of_wdr(name):
    """A state drawn once an episode that never moves, r = s, a restart after three steps: the error of 50 draws."""
    rng = np.random.default_rng(0)
    start = rng.standard_normal(50)
    states = np.repeat(start, 3)[:, None]
    policy = GaussianPolicy(lambda s: (0 * s, 1.0))
    data = ov.LoggedDataset.from_arrays(
        states, rng.standard_normal((150, 1)), states[:, 0], states, truncated=np.arange(150) % 3 == 2
    )
    found = ov.evaluate(data, policy, name, time_limit="restart", n_features=20, ignore=("one-row-off",))
    assert found.standard_error == pytest.approx(start.std(ddof=1) / np.sqrt(50), rel=0.3)


def test_policies_with_other_bounds_have_clones_of_their_own():
    env = LinearGaussian()
    data = env.dataset(20, 20, BEHAVIOUR, seed=0)
    free = GaussianPolicy(lambda s: (0.2 * s[:, :1], 0.5))
    bounds = float(data.actions.min()), float(data.actions.max())
    clips = GaussianPolicy(lambda s: (0.2 * s[:, :1], 0.5), bounds=bounds)
    together = ov.evaluate(data, {"free": free, "clips": clips}, "wiss")
    assert together["clips"].value == ov.evaluate(data, clips, "wiss").value
