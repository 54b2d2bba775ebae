"""Unseen pairs of finite states: who represents them, what is predicted, and what stays as it was."""

import numpy as np
import pytest
from gymnasium import spaces

import ope_vpm as ov
from ope_vpm.envs import taxi
from ope_vpm.envs.random_mdp import RandomMDP
from ope_vpm.ope.finite.problem import finite_problem
from ope_vpm.ope.finite.rare_pairs import (
    _about_the_targets_distribution,
    behaviour_probabilities,
    centred_log_probabilities,
    concentration,
    missed_odds,
)
from ope_vpm.ope.finite.regression import predicted_pairs
from ope_vpm.ope.problem import Problem
from ope_vpm.ope.vpm.estimator import VPMEstimator

TARGET = taxi.shipped(1000)
DATA = taxi.simulate(taxi.shipped(950), 60, 100, seed=3000)
MDP = RandomMDP.draw(150, 5, seed=0)
WANTED, LOGGED = MDP.policy(1), MDP.policy(2)


def relabelled(data, **changes):
    columns = {
        name: getattr(data, name)
        for name in ("observations", "actions", "rewards", "next_observations", "terminated", "truncated")
    }
    spaces = {"observation_space": data.observation_space, "action_space": data.action_space}
    return ov.LoggedDataset.from_arrays(**(columns | changes), **spaces)


@pytest.mark.parametrize(("gamma", "first"), [(0.5, 2 / 3), (0.8, 5 / 9)])
def test_where_the_target_goes_is_discounted(gamma, first):
    """From 0 to 1 and back, beginning in 0: d₀ = 1 - γ + γd₁, so d₀ = 1/(1 + γ). Action 1 of the target is unseen."""
    states = np.tile([0, 1], 10)
    data = ov.LoggedDataset.from_arrays(
        states, 0 * states, 1.0 * states, 1 - states, truncated=np.arange(20) % 4 == 3, action_space=spaces.Discrete(2)
    )
    quiet = ("constant-columns", "duplicated-episodes")
    problem = finite_problem(Problem.pose(data, [[0.5, 0.5]] * 2, gamma=gamma, ignore=quiet))
    np.testing.assert_allclose(_about_the_targets_distribution(problem), [first, 1 - first], rtol=1e-6)


def test_odds_of_a_binomial():
    """With κ → ∞: (1-p)²/(2p(1-p) + p²) of two draws; (1-p)⁴ over the probabilities of 1 to 3 of four."""
    p = np.array([0.1, 0.5, 0.1])
    expected = [0.81 / 0.19, 1 / 3, 0.9**4 / (1 - 0.9**4 - 0.1**4)]
    np.testing.assert_allclose(missed_odds(np.array([2.0, 2.0, 4.0]), p, 1e9), expected, rtol=1e-5)


def test_odds_of_a_uniform_probability():
    """Beta(1, 1): every number of times is equally likely."""
    np.testing.assert_allclose(missed_odds(np.array([3.0, 10.0, 50.0, 1.0]), np.full(4, 0.5), 2.0), [1 / 3] * 3 + [1])


def test_behaviour_meets_its_likelihood_equations():
    """Totals by action, and the total of ℓ, are those expected."""
    rng = np.random.default_rng(0)
    preference = centred_log_probabilities(rng.dirichlet(np.ones(4), size=300))
    score = 0.7 * preference + [0.5, 0.0, -0.5, 0.0]
    truth = np.exp(score) / np.exp(score).sum(axis=1, keepdims=True)
    counts = np.stack([rng.multinomial(200, row) for row in truth]).astype(float)
    fitted = behaviour_probabilities(counts, preference)
    np.testing.assert_allclose((200 * fitted).sum(axis=0), counts.sum(axis=0), rtol=1e-4)
    assert (200 * fitted * preference).sum() == pytest.approx((counts * preference).sum(), rel=1e-4)
    assert np.abs(fitted - truth).max() < 0.02


def test_concentration_of_dirichlet_counts():
    rng = np.random.default_rng(1)
    probability = rng.dirichlet(np.full(4, 5.0), size=2000)
    counts = np.stack([rng.multinomial(30, rng.dirichlet(20 * row)) for row in probability]).astype(float)
    assert concentration(counts, probability) == pytest.approx(20, rel=0.15)
    plain = np.stack([rng.multinomial(30, row) for row in probability]).astype(float)
    assert concentration(plain, probability) > 300


@pytest.fixture(scope="module")
def model():
    return predicted_pairs(finite_problem(Problem.pose(DATA, TARGET)))


@pytest.mark.parametrize("beta", [0.0, 0.6, 1.0])
def test_values_keep_constants_and_mass_is_their_transpose(model, beta):
    rng = np.random.default_rng(0)
    pairs, states = model.problem.counts.pairs, model.problem.counts.states
    assert model.never_left.any()
    np.testing.assert_allclose(model.values(np.full(pairs, 3.0), beta), 3.0, rtol=1e-10)
    y, distribution = rng.standard_normal(pairs), rng.dirichlet(np.ones(states))
    assert model.mass(distribution, beta) @ y == pytest.approx(distribution @ model.values(y, beta), abs=1e-12)


def test_the_solution_is_a_fixed_point_and_a_weighted_mean(model):
    counts, found = model.problem.counts, model.solve()
    h = found.values
    np.testing.assert_allclose(found.q, counts.reward - found.value + counts.transitions @ h, atol=1e-10)
    np.testing.assert_allclose(model.values(found.q, found.coefficient), h, atol=1e-8)
    np.testing.assert_allclose(found.mass @ counts.transitions, found.distribution, atol=1e-10)
    assert found.mass.sum() == pytest.approx(1)
    assert found.mass @ counts.reward == pytest.approx(found.value, abs=1e-10)


def test_a_mean_of_others_that_says_all_has_coefficient_one(model):
    """Where y depends on the state only, the other actions' mean is y itself."""
    counts = model.problem.counts
    of_state = np.random.default_rng(0).standard_normal(counts.states)
    y = of_state[counts.state_of_pair]
    assert model.coefficient(y) == pytest.approx(1, abs=1e-9)
    np.testing.assert_allclose(model.residuals(y, 1.0), 0, atol=1e-9)


@pytest.mark.parametrize("gamma", [1.0, 0.99])
class TestInvariance:
    def test_reward_shift_and_scale(self, gamma):
        value = ov.evaluate(DATA, TARGET, "vpm", gamma=gamma).value
        for scale, shift in ((3.0, 5.0), (-2.0, 1.0)):
            other = ov.evaluate(relabelled(DATA, rewards=scale * DATA.rewards + shift), TARGET, "vpm", gamma=gamma)
            assert other.value == pytest.approx(scale * value + shift, abs=1e-6)

    def test_order_of_episodes(self, gamma):
        first = ov.evaluate(DATA, TARGET, "vpm", gamma=gamma)
        second = ov.evaluate(DATA.select(np.arange(60)[::-1]), TARGET, "vpm", gamma=gamma)
        assert second.value == pytest.approx(first.value, abs=1e-10)
        assert second.interval == pytest.approx(first.interval, abs=1e-10)

    def test_a_log_given_twice(self, gamma):
        first = ov.evaluate(DATA, TARGET, "vpm", gamma=gamma)
        twice = ov.evaluate(ov.LoggedDataset.concatenate([DATA, DATA]), TARGET, "vpm", gamma=gamma)
        assert first.diagnostics["unseen"] == twice.diagnostics["unseen"] == "regression"
        assert twice.value == pytest.approx(first.value, abs=1e-8)


def test_weights_are_a_ratio_and_give_the_value():
    found = ov.evaluate(DATA, TARGET, "vpm")
    assert (found.weights >= 0).all()
    assert found.weights.mean() == pytest.approx(1)
    assert found.diagnostics["negative_mass"] < 0.01
    assert found.weights @ DATA.rewards / len(DATA) == pytest.approx(found.value, abs=0.01)


def test_taxi_error_is_far_below_that_of_a_restart():
    """A behaviour trained half as long as the target: lost mass is worth more than the log's average."""
    truth, errors = taxi.exact_value(TARGET), {"auto": [], "restart": []}
    for seed in range(3000, 3010):
        problem = Problem.pose(taxi.simulate(taxi.shipped(550), 100, 200, seed), TARGET)
        pairs = problem.pairs()
        weights = ov.VPM(steps=100, unseen="restart").fit(pairs.transitions).weights
        errors["restart"].append(weights @ pairs.rewards / weights.sum() - truth)
        errors["auto"].append(VPMEstimator().find(problem).value - truth)
    rms = {name: np.sqrt(np.mean(np.square(found))) for name, found in errors.items()}
    assert rms["auto"] < rms["restart"] / 2


@pytest.mark.parametrize("gamma", [1.0, 0.9])
def test_random_mdps_with_unseen_pairs(gamma):
    """Policies that have nothing to do with the rewards: still within the interval's reach."""
    truth, scores = MDP.value(WANTED, gamma), []
    for seed in range(10):
        found = ov.evaluate(MDP.dataset(60, 40, LOGGED, seed), WANTED, "vpm", gamma=gamma, unseen="regression")
        assert found.diagnostics["explained"] < 0.1
        scores.append((found.value - truth) / found.standard_error)
    assert np.abs(scores).max() < 4


def test_predictions_are_used_where_the_log_says_that_they_are_good():
    """Taxi's policies prefer good actions; random ones on a random MDP tell nothing."""
    assert ov.evaluate(DATA, TARGET, "vpm").diagnostics["explained"] > 0.4
    found = ov.evaluate(MDP.dataset(60, 40, LOGGED, 0), WANTED, "vpm")
    assert found.diagnostics["unseen"] == "preference"
    assert found.diagnostics["unseen_mass"] > 0.01


def test_ended_episodes_below_gamma_one():
    """Ending with probability q at each step: (1-γ)Σ(γ(1-q))^t r = (1-γ)/(1-γ(1-q)) of the value at γ(1-q)."""
    gamma, q, scores = 0.9, 0.1, []
    inner = gamma * (1 - q)
    truth = (1 - gamma) / (1 - inner) * MDP.value(WANTED, inner)
    for seed in range(10):
        whole = MDP.dataset(200, 40, LOGGED, seed)
        rng = np.random.default_rng(seed)
        ends = rng.random(len(whole)) < q
        before = np.cumsum(ends.reshape(200, 40), axis=1).ravel() - ends
        kept = before == 0
        data = ov.LoggedDataset.from_arrays(
            whole.observations[kept],
            whole.actions[kept],
            whole.rewards[kept],
            whole.next_observations[kept],
            ends[kept],
            (whole.truncated & ~ends)[kept],
            observation_space=whole.observation_space,
            action_space=whole.action_space,
        )
        found = ov.evaluate(data, WANTED, "vpm", gamma=gamma, unseen="regression")
        scores.append((found.value - truth) / found.standard_error)
    assert np.abs(scores).max() < 4


def test_where_everything_was_seen_nothing_is_predicted():
    small = RandomMDP.draw(6, 2, seed=0)
    data = small.dataset(30, 40, small.policy(1), seed=2)
    found = ov.evaluate(data, small.policy(3), "vpm")
    assert found.diagnostics["unseen"] != "regression"
    assert found.value == pytest.approx(ov.evaluate(data, small.policy(3), "model").value, abs=1e-8)


def test_what_is_refused():
    small = RandomMDP.draw(6, 2, seed=0)
    few = small.dataset(30, 40, small.policy(1), seed=2)
    with pytest.raises(ValueError, match="there are too few"):
        ov.evaluate(few, small.policy(3), "vpm", unseen="regression")
    with pytest.raises(ValueError, match="takes no 'steps'"):
        ov.evaluate(DATA, TARGET, "vpm", unseen="regression", steps=10)
    with pytest.raises(ValueError, match="takes no 'lam'"):
        ov.evaluate(DATA, TARGET, "vpm", unseen="smooth", lam=2.0)
    for name in ("vpm", "model", "fqe"):
        with pytest.raises(
            ValueError, match="unknown treatment of unseen pairs 'regresion': did you mean 'regression'"
        ):
            ov.evaluate(DATA, TARGET, name, unseen="regresion")
    with pytest.raises(ValueError, match="simulate another"):
        ov.evaluate(DATA, TARGET, "model", method="simulate", unseen="regression")
    assert ov.evaluate(DATA, TARGET, "vpm", unseen="restart").diagnostics["unseen"] == "restart"
    assert ov.evaluate(DATA, TARGET, "vpm", preset="paper").diagnostics["unseen"] == "restart"


@pytest.mark.parametrize("seed", range(20))
def test_no_state_is_visited_less_than_never(seed):
    """Half of all steps lead to state 0, none to 3, 4 and 5: rounding errors of the whole are no mass of theirs."""
    rng = np.random.default_rng(seed)
    states, last = np.arange(240) % 6, np.arange(240) % 10 == 9
    following = np.where(rng.random(240) < 0.5, 0, rng.integers(0, 3, 240))
    data = ov.LoggedDataset.from_arrays(states, rng.integers(0, 2, 240), rng.random(240), following, truncated=last)
    quiet = ("broken-chain", "one-row-off", "flags-confused")
    problem = finite_problem(Problem.pose(data, np.full((6, 2), 0.5), ignore=quiet))
    visited = _about_the_targets_distribution(problem)
    assert visited.min() >= 0
    assert visited.sum() == pytest.approx(1)
