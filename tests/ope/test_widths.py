"""The widths of intervals against closed forms and numerical derivatives, at γ = 1 and below."""

import numpy as np
import pytest

import ope_vpm as ov
from ope_vpm.envs.linear_gaussian import BEHAVIOUR, TARGET, LinearGaussian
from ope_vpm.ope import Problem
from ope_vpm.ope.finite.influence import evidence_of_rows, leverage
from ope_vpm.ope.finite.problem import finite_problem
from ope_vpm.ope.finite.treatments import treatment
from ope_vpm.ope.inference.uncertainty import entry_rate
from ope_vpm.ope.linear.equations import ridge_path
from ope_vpm.ope.linear.estimate import linear_estimate
from ope_vpm.ope.q.linear import lstd_equations
from ope_vpm.policy import GaussianPolicy

QUIET = ("one-row-off", "constant-columns", "flags-confused", "duplicated-episodes")
NO_TIME = (*QUIET, "step-number")
"""Episodes that all have three steps and end tell the time; these tests are about states that do not know it."""
EPISODES, LENGTH = 60, 3


def standing(start, ended):
    """Episodes whose state is drawn once and never moves, and pays itself at every step: all that varies is s₀."""
    states = np.repeat(start, LENGTH)
    last = np.arange(len(states)) % LENGTH == LENGTH - 1
    actions = np.random.default_rng(1).standard_normal((len(states), 1))
    if states.dtype.kind == "f":
        return ov.LoggedDataset.from_arrays(
            states[:, None], actions, states, states[:, None], last & ended, last & (not ended)
        )
    return ov.LoggedDataset.from_arrays(
        states, np.zeros(len(states), dtype=int), states.astype(float), states, last & ended, last & (not ended)
    )


def time_before_ends(gamma, ended):
    return (1 - gamma) / (1 - gamma * 2 / 3) if gamma < 1 and ended else 1.0


def dealt(gamma, ended):
    """By how much finite counts widen the error: a restart leads to as many initial states as there are rows an end.

    These three are dealt, and count as draws: V(s₀) varies by ⅓ of its variance more, beside the initial state's own.
    """
    return np.sqrt(1 + 1 / LENGTH) if gamma == 1 and ended else 1.0


def sampling_error(found):
    """Of a value whose placebo rightly notices that states miss the time: S² = se² + (c·b)²."""
    return np.sqrt(found.standard_error**2 - found.diagnostics["suspected_bias"] ** 2)


@pytest.mark.parametrize(("gamma", "ended"), [(1.0, True), (0.8, False), (0.8, True)])
@pytest.mark.parametrize("name", ["fqe", "vpm", "dr", "mwl", "mql", "gendice", "bestdice"])
def test_where_only_the_start_varies_the_error_is_that_of_its_mean(name, gamma, ended):
    """The value is E[s₀], and its standard error that of the mean of 60 draws: κ·V(s₀) is s₀ at any γ.

    Below γ = 1 an end absorbs. To a state that does not know the time it comes with probability ⅓ at each step, which
    leaves Σ (1-γ)(⅔γ)^t of both.
    """
    start = np.random.default_rng(0).standard_normal(EPISODES)
    policy = GaussianPolicy(lambda s: (0 * s, 1.0))
    linear = {"fqe": {"solver": "linear"}, "dr": {"q": "linear"}}.get(name, {})
    found = ov.evaluate(standing(start, ended), policy, name, gamma=gamma, n_features=20, ignore=NO_TIME, **linear)
    share = time_before_ends(gamma, ended)
    assert found.value == pytest.approx(share * start.mean(), abs=0.05)
    assert sampling_error(found) == pytest.approx(share * start.std(ddof=1) / np.sqrt(EPISODES), rel=0.3)


@pytest.mark.parametrize(("gamma", "ended"), [(1.0, True), (0.8, False), (0.8, True)])
@pytest.mark.parametrize("name", ["fqe", "vpm", "model", "mwl", "gendice"])
def test_where_only_a_finite_start_varies_the_error_is_binomial(name, gamma, ended):
    """As above with 24 of 60 episodes in state 1 and the others in state 0; 200 replicates are good to a tenth."""
    start = (np.arange(EPISODES) % 5 < 2).astype(int)
    found = ov.evaluate(standing(start, ended), [[1.0]] * 2, name, gamma=gamma, ignore=NO_TIME)
    share = time_before_ends(gamma, ended)
    assert found.value == pytest.approx(share * 0.4)
    expected = share * dealt(gamma, ended) * np.sqrt(0.4 * 0.6 / (EPISODES - 1))
    assert sampling_error(found) == pytest.approx(expected, rel=0.15)
    assert np.diff(found.interval) == pytest.approx(2 * 2.00 * found.standard_error, rel=0.2)


def wandering(seed):
    """Six episodes of seven steps among three states with two actions; every pair occurs."""
    rng = np.random.default_rng(seed)
    states, last = rng.integers(3, size=42), np.arange(42) % 7 == 6
    following = np.roll(states, -1)
    following[last] = rng.integers(3, size=6)
    return ov.LoggedDataset.from_arrays(
        states, rng.integers(2, size=42), rng.standard_normal(42), following, truncated=last
    )


def value_of(data, target, gamma, weight, initial_weight):
    """The value of the weighted counts by dense algebra: pairs (s, a) numbered 2s + a."""
    pair = 2 * data.observations + data.actions
    times = np.bincount(pair, weight, 6)
    reward = np.bincount(pair, weight * data.rewards, 6) / times
    to_state = np.zeros((6, 3))
    np.add.at(to_state, (pair, data.next_observations), weight)
    to_state /= times[:, None]
    policy = np.zeros((3, 6))
    policy[np.repeat(np.arange(3), 2), np.arange(6)] = target.ravel()
    kernel, pay = policy @ to_state, policy @ reward
    if gamma < 1:
        start = np.bincount(data.observations[data.starts], initial_weight, 3) / initial_weight.sum()
        return (1 - gamma) * start @ np.linalg.solve(np.eye(3) - gamma * kernel, pay)
    system = np.vstack([np.eye(3) - kernel.T, np.ones(3)])
    return np.linalg.lstsq(system, np.array([0.0, 0, 0, 1]), rcond=None)[0] @ pay


@pytest.mark.parametrize("gamma", [1.0, 0.7])
def test_finite_influence_is_the_derivative_with_honest_residuals(gamma):
    """∂v/∂w of each row times √(n/(n-1)) for its pair's n rows, and ∂v/∂w₀ of the initial state, by episode."""
    data, target = wandering(0), np.array([[0.2, 0.8], [0.5, 0.5], [0.9, 0.1]])
    problem = Problem.pose(data, target, gamma=gamma, ignore=QUIET)
    solution = treatment("restrict").solved(finite_problem(problem))
    sums = evidence_of_rows(problem, solution).sums

    assert solution.value == pytest.approx(value_of(data, target, gamma, np.ones(42), np.ones(6)))
    pair = 2 * data.observations + data.actions
    times = np.bincount(pair, minlength=6)
    assert times.min() > 1
    honest, step, psi = np.sqrt(times / (times - 1))[pair], 1e-5, np.zeros(6)
    for place in range(48):
        weights = [np.ones(48), np.ones(48)]
        weights[0][place], weights[1][place] = 1 + step, 1 - step
        more, less = (value_of(data, target, gamma, each[:42], each[42:]) for each in weights)
        factor, episode = (honest[place], data.episode[place]) if place < 42 else (1.0, place - 42)
        psi[episode] += factor * (more - less) / (2 * step)
    np.testing.assert_allclose(sums.influence - sums.influence.mean(), psi - psi.mean(), atol=2e-3 * np.abs(psi).max())
    assert sums.standard_error == pytest.approx(np.sqrt(np.sum(psi**2)), rel=0.02)


def test_leverage_of_pairs_seen_once_and_more():
    np.testing.assert_allclose(leverage(np.array([1.0, 2.0, 5.0])), [1.0, np.sqrt(2.0), np.sqrt(1.25)])


def test_the_rate_of_entering_initial_states_by_hand():
    """1-γ; with restarts γ times the target's mass on ends more: γ = ½ and mass 0.3 on the last rows give 0.65."""
    data = standing(np.array([0, 1]), ended=True)
    mass = np.array([0.2, 0.3, 0.1, 0.1, 0.1, 0.2])
    for gamma, on_end, expected in ((0.5, "restart", 0.65), (0.5, "absorb", 0.5), (1.0, "restart", 0.3)):
        problem = Problem.pose(data, [[1.0]] * 2, gamma=gamma, on_end=on_end, ignore=QUIET)
        assert entry_rate(problem, np.arange(6), mass) == pytest.approx(expected)


@pytest.mark.parametrize(("gamma", "ended"), [(1.0, True), (0.8, False)])
def test_where_only_the_start_varies_ratios_by_a_chain_solver_know_it_too(gamma, ended):
    """As above, for the ratios that `ov.VPM` finds on pairs: by power steps on counts and by random features."""
    start = (np.arange(EPISODES) % 5 < 2).astype(int)
    options = {"gamma": gamma, "ignore": NO_TIME}
    found = ov.evaluate(standing(start, ended), [[1.0]] * 2, "vpm", solver="tabular", steps=100, **options)
    assert found.value == pytest.approx(0.4)
    expected = dealt(gamma, ended) * np.sqrt(0.4 * 0.6 / (EPISODES - 1))
    assert sampling_error(found) == pytest.approx(expected, rel=0.15)
    drawn = np.random.default_rng(0).standard_normal(EPISODES)
    policy = GaussianPolicy(lambda s: (0 * s, 1.0))
    kernel = {"solver": "kernel", "n_features": 20, "bandwidth": 2.0, "ridge": 1e-4}
    found = ov.evaluate(standing(drawn, ended), policy, "vpm", **kernel, **options)
    assert found.value == pytest.approx(drawn.mean(), abs=0.05)
    assert sampling_error(found) == pytest.approx(drawn.std(ddof=1) / np.sqrt(EPISODES), rel=0.3)


@pytest.mark.parametrize("gamma", [1.0, 0.8])
def test_linear_intervals_are_wider_by_the_leverage(gamma):
    """Fitted residuals are too small: 1/(1 - d/n) undoes it, d the trace of (A + ridge·Λ)⁻¹A and n the rows."""
    data = LinearGaussian().dataset(6, 10, BEHAVIOUR, seed=0)
    problem = Problem.pose(data, TARGET.policy(), gamma=gamma, ignore=QUIET)
    equations = lstd_equations(problem, 10, 8)
    found, ridge = linear_estimate(equations, 0.01, "linear"), 0.01
    path = ridge_path(equations, ridge)
    system = equations.system
    free = np.trace(np.linalg.solve(system.matrix + ridge * np.diag(system.scale), system.matrix))
    assert 2 < free < 30
    widened = found.uncertainty.sums.standard_error / path.sums[0].standard_error
    assert widened == pytest.approx(1 / (1 - free / 60))
