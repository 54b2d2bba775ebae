"""Treatments of unseen pairs against numbers worked out by hand, dense matrices, and the chain's own solver."""

import warnings

import numpy as np
import pytest

import ope_vpm as ov
from ope_vpm.envs.random_mdp import RandomMDP
from ope_vpm.ope import Problem
from ope_vpm.ope.finite.problem import finite_problem
from ope_vpm.ope.finite.treatments import TREATMENTS, GoodTuring, Restart, Restrict, Smooth, treatment

QUIET = ("constant-columns", "flags-confused", "duplicated-episodes", "one-row-off", "broken-chain")

# 0 -0-> 1 -0-> 2 -0-> 0 -0-> 1 -0-> 2 -1-> 1: action 1 was never seen in states 0 and 1.
LOOP = ov.LoggedDataset.from_arrays(
    [0, 1, 2, 0, 1, 2],
    [0, 0, 0, 0, 0, 1],
    [1.0, 2.0, 3.0, 1.0, 2.0, 6.0],
    [1, 2, 0, 1, 2, 1],
    truncated=[False, False, False, False, False, True],
)
LOOP_TARGET = [[0.5, 0.5], [1.0, 0.0], [1.0, 0.0]]


def pose(data, target, gamma=1.0, **choices):
    return Problem.pose(data, target, gamma=gamma, ignore=QUIET, **choices)


def short_log(seed, ends=False):
    """60 steps of an MDP with 40 pairs: some are never seen, and some states never left."""
    mdp = RandomMDP.draw(10, 4, seed)
    whole = mdp.dataset(12, 5, mdp.policy(seed + 1), seed)
    terminated = np.zeros(60, dtype=bool)
    terminated[[14, 29, 59]] = ends
    columns = (whole.observations, whole.actions, whole.rewards, whole.next_observations)
    data = ov.LoggedDataset.from_arrays(*columns, terminated, whole.truncated & ~terminated)
    return data, np.asarray(mdp.policy(seed + 2))


class TestSmooth:
    """The four seen pairs have mean reward 3, so state 0 pays ½·1 + ½·3 = 2 and moves by (1/6, 2/3, 1/6)."""

    def test_average_reward_by_hand(self):
        """μ₁ = ⅔μ₀ and μ₂ = μ₀/6 + μ₁ = 5/6·μ₀, so μ = (6, 4, 5)/15; rewards (2, 2, 3): the value is 35/15."""
        solution = Smooth().solved(finite_problem(pose(LOOP, LOOP_TARGET)))
        np.testing.assert_allclose(solution.distribution, np.array([6, 4, 5]) / 15)
        assert solution.value == pytest.approx(7 / 3)
        assert solution.unseen_mass == pytest.approx(0.2)
        np.testing.assert_allclose(solution.mass, [1 / 5, 4 / 15, 1 / 3, 0])

    def test_discounted_by_hand(self):
        """V₁ = 2 + ½V₂, V₂ = 3 + ½V₀, V₀ = 2 + ½(V₀/6 + ⅔V₁ + V₂/6): 19/24·V₀ = 41/12, and the value is ½V₀."""
        solution = Smooth().solved(finite_problem(pose(LOOP, LOOP_TARGET, 0.5)))
        assert solution.values[0] == pytest.approx(82 / 19)
        assert solution.value == pytest.approx(41 / 19)

    def test_its_error_by_hand(self):
        """h₀ = 0: h₂ = 3 - 7/3 = ⅔, h₁ = 2 - 7/3 + h₂ = ⅓; Q of the pairs taken is 1 - 7/3 + ⅓ = -1, ⅓ and ⅔.

        Their mean with mass (3, 4, 5)/15 is (-3 + 4/3 + 10/3)/12 = 5/36, and the mean square (3 + 4/9 + 20/9)/12.
        """
        solution = Smooth().solved(finite_problem(pose(LOOP, LOOP_TARGET)))
        spread = np.sqrt((3 + 24 / 9) / 12 - (5 / 36) ** 2)
        assert solution.error == pytest.approx(0.2 * spread)

    def test_a_pair_never_seen_may_end_as_logged_steps_do(self):
        """0 → 1 → end with rewards 2 and 0; the target does what was never seen in 0, γ = ½.

        Half of the steps end, so V₀ = 1 + ½·½·(½V₀ + ½V₁) with V₁ = 0: V₀ = 8/7.
        """
        data = ov.LoggedDataset.from_arrays([0, 1], [0, 0], [2.0, 0.0], [1, 0], terminated=[False, True])
        solution = Smooth().solved(finite_problem(pose(data, [[0.0, 1.0], [1.0, 0.0]], 0.5)))
        assert solution.value == pytest.approx(4 / 7)

    def test_a_state_never_left_is_all_unseen(self):
        """0 → 1, where nothing was seen: it pays the mean reward 2 and leads to 0, the only state that was left."""
        data = ov.LoggedDataset.from_arrays([0, 0], [0, 0], [1.0, 3.0], [1, 1], truncated=[True, True])
        solution = Smooth().solved(finite_problem(pose(data, [[1.0], [1.0]])))
        np.testing.assert_allclose(solution.distribution, [0.5, 0.5])
        assert solution.value == pytest.approx(2)
        assert solution.unseen_mass == pytest.approx(0.5)

    @pytest.mark.parametrize("name", ["model", "fqe", "vpm"])
    def test_estimators_take_it(self, name):
        for gamma, truth in ((1.0, 7 / 3), (0.5, 41 / 19)):
            found = ov.evaluate(LOOP, LOOP_TARGET, name, gamma=gamma, unseen="smooth", ignore=QUIET)
            assert found.value == pytest.approx(truth)
            assert found.diagnostics["unseen"] == "smooth"

    def test_simulation_comes_near_the_solution(self):
        found = ov.evaluate(
            LOOP, LOOP_TARGET, "model", unseen="smooth", method="simulate", horizon=20_000, ignore=QUIET
        )
        assert found.diagnostics["exact_value"] == pytest.approx(7 / 3)
        assert found.value == pytest.approx(7 / 3, abs=0.05)  # rewards vary by less than 2, in 20,000 steps


def test_restrict_by_hand():
    """Without the unseen actions the target goes round: rewards 1, 2, 3 in turn."""
    solution = Restrict().solved(finite_problem(pose(LOOP, LOOP_TARGET)))
    np.testing.assert_allclose(solution.distribution, 1 / 3)
    assert solution.value == pytest.approx(2)
    assert solution.unseen_mass == pytest.approx(1 / 6)


def test_restart_and_good_turing_by_hand():
    """Half of the time state 0 does what the log does: in six steps (0, 0) and (1, 0) twice, (2, 0) and (2, 1) once.

    Restart: that pays 15/6 and leads to states (1, 3, 2)/6, so 0 moves by (1/12, 3/4, 1/6): μ₁ = ¾μ₀, μ₂ = 11/12·μ₀,
    μ = (12, 9, 11)/32, rewards (7/4, 2, 3). Good–Turing: it pays (3 + 6)/2 and leads to 0 or 1, so 0 moves by
    (¼, ¾, 0): μ = (4, 3, 3)/10, rewards (11/4, 2, 3).
    """
    finite = finite_problem(pose(LOOP, LOOP_TARGET))
    restart, rare = Restart().solved(finite), GoodTuring().solved(finite)
    assert restart.value == pytest.approx((12 * 7 / 4 + 18 + 33) / 32)
    assert rare.value == pytest.approx((11 + 6 + 9) / 10)
    assert restart.error == rare.error == pytest.approx(rare.value - restart.value)
    np.testing.assert_allclose(restart.mass, [6 / 32 + 2 / 32, 9 / 32 + 2 / 32, 11 / 32 + 1 / 32, 1 / 32])
    assert restart.mass @ finite.counts.reward == pytest.approx(restart.value)


@pytest.mark.parametrize("ends", [False, True])
@pytest.mark.parametrize("gamma", [1.0, 0.9, 0.0])
@pytest.mark.parametrize("name", ["restart", "good-turing"])
def test_replacing_unseen_pairs_is_what_the_chains_solver_does(name, gamma, ends):
    """Over pairs as states of a chain, the absorbing end included: value and ratio are the same."""
    for seed in range(5):
        data, target = short_log(seed, ends)
        problem = pose(data, target, gamma)
        pairs = problem.pairs()
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", ov.StationaryWarning)
            estimate = ov.VPM(gamma=gamma, unseen=name).fit(pairs.transitions)
        solution = treatment(name).solved(finite_problem(problem))
        assert solution.value == pytest.approx(float(estimate.weights @ pairs.rewards / estimate.weights.sum()))
        counts, logged = finite_problem(problem).counts, pairs.rows >= 0
        share = np.bincount(counts.pair, weights=(estimate.weights / estimate.weights.sum())[logged])
        np.testing.assert_allclose(solution.mass, share, atol=1e-12)


@pytest.mark.parametrize("gamma", [1.0, 0.9])
@pytest.mark.parametrize("name", ["restrict", "smooth"])
def test_dense_models_give_the_same(name, gamma):
    """The completed model written out pair by pair, and solved as a dense system."""
    for seed in range(5):
        data, target = short_log(seed)
        finite = finite_problem(pose(data, target, gamma))
        counts, size = finite.counts, finite.counts.states
        reward, kernel = np.zeros(size), np.zeros((size, size))
        left = counts.visits > 0
        for state in range(size):
            seen = {int(a): i for i, a in enumerate(counts.action_of_pair) if counts.state_of_pair[i] == state}
            total = sum(finite.target[state, a] for a in seen)
            for action in range(4):
                probability = finite.target[state, action]
                if action in seen:
                    scale = total if name == "restrict" else 1.0
                    reward[state] += probability / scale * counts.reward[seen[action]]
                    kernel[state] += probability / scale * counts.transitions.toarray()[seen[action]]
                elif name == "smooth":
                    reward[state] += probability * counts.reward.mean()
                    kernel[state] += probability * left / left.sum()
            if name == "restrict" and not seen:
                kernel[state] = counts.visits / counts.visits.sum()
        solution = treatment(name).solved(finite)
        if gamma < 1:
            values = np.linalg.solve(np.eye(size) - gamma * kernel, reward)
            np.testing.assert_allclose(solution.values, values)
            assert solution.value == pytest.approx((1 - gamma) * counts.initial @ values)
        else:
            mu = solution.distribution
            np.testing.assert_allclose(mu @ kernel, mu, atol=1e-12)
            assert mu.sum() == pytest.approx(1)
            assert solution.value == pytest.approx(mu @ reward)


@pytest.mark.parametrize("gamma", [1.0, 0.9])
@pytest.mark.parametrize("name", TREATMENTS)
def test_where_everything_was_seen_treatments_agree(name, gamma):
    mdp = RandomMDP.draw(5, 2, seed=0)
    data = mdp.dataset(30, 40, mdp.policy(1), seed=2)
    finite = finite_problem(pose(data, mdp.policy(3), gamma))
    assert finite.all_seen
    solution = treatment(name).solved(finite)
    assert solution.value == pytest.approx(Restrict().solved(finite).value)
    assert solution.unseen_mass == 0
    assert solution.error == 0


@pytest.mark.parametrize("name", TREATMENTS)
def test_solutions_are_consistent(name):
    """Q is the mean of r - v + V(s'), and the distribution is what the completed model keeps."""
    data, target = short_log(3)
    finite = finite_problem(pose(data, target))
    completed = treatment(name).complete(finite)
    solution = completed.solve()
    counts = finite.counts
    np.testing.assert_allclose(solution.q, counts.reward - solution.value + counts.transitions @ solution.values)
    np.testing.assert_allclose(solution.distribution @ completed.chain, solution.distribution, atol=1e-12)


def test_mass_on_unseen_first_actions_counts_as_unseen():
    """The target's first action was never seen, everything after it was; γ = ½: half of the time lies on it."""
    steps = [0, 1, 1] * 5, [0, 0, 0] * 5, [0.0, 1.0, 1.0] * 5, [1, 1, 1] * 5
    data = ov.LoggedDataset.from_arrays(*steps, truncated=[False, False, True] * 5)
    found = ov.evaluate(data, [[0.0, 1.0], [1.0, 0.0]], "vpm", gamma=0.5, unseen="restart", ignore=QUIET)
    assert found.diagnostics["unseen_mass"] == pytest.approx(0.5)
    assert found.verdict == "unreliable"


def test_a_reducible_chain_is_a_reason_for_caution_and_a_periodic_one_is_not():
    apart = ov.LoggedDataset.from_arrays(
        [0, 0, 1, 1], [0] * 4, [1.0, 2.0, 3.0, 4.0], [0, 0, 1, 1], truncated=[False, True] * 2
    )
    reasons = ov.evaluate(apart, [[1.0], [1.0]], "vpm", ignore=QUIET).reasons
    assert any("reducible: 2 closed classes, 1 state {0}; 1 state {1}" in reason for reason in reasons)
    around = ov.LoggedDataset.from_arrays([0, 1] * 4, [0] * 8, [1.0, 2.0] * 4, [1, 0] * 4)
    for options in ({}, {"steps": 10, "damping": 0.5}):
        reasons = ov.evaluate(around, [[1.0], [1.0]], "vpm", ignore=QUIET, **options).reasons
        assert not any("periodic" in reason or "reducible" in reason for reason in reasons)


def test_unknown_treatments_are_refused():
    with pytest.raises(ValueError, match="known are auto, pooled, restart, good-turing, restrict, smooth"):
        treatment("nothing")
