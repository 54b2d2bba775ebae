"""The DICE family and the minimax methods: saddle points against exact ratios and closed forms."""

import numpy as np
import pytest

import ope_vpm as ov
from ope_vpm.baselines.dice import BestDice, DualDice, GenDice, GradientDice
from ope_vpm.baselines.minimax import scaled_least_squares
from ope_vpm.envs.linear_gaussian import BEHAVIOUR, TARGET, LinearGaussian
from ope_vpm.envs.random_mdp import RandomMDP
from ope_vpm.linear.system import LinearSystem
from ope_vpm.ope.ratio.lagrangian import LagrangianMeans, saddle_point

FAMILY = ("dualdice", "gendice", "gradientdice", "bestdice", "mwl", "mql")

DICE = (DualDice, GenDice, GradientDice, BestDice)


def exact(seed, gamma):
    """A random MDP over pairs: its moments with one feature a pair, its exact ratio, Q, and value."""
    mdp = RandomMDP.draw(6, 2, seed)
    rng, size = np.random.default_rng(seed), 12
    policy, p = mdp.policy(seed + 1), rng.dirichlet(np.full(12, 5.0))
    kernel = (mdp.transition[:, :, :, None] * policy).reshape(size, size)
    initial = (mdp.initial[:, None] * policy).reshape(size)
    reward = mdp.reward.reshape(size)
    if gamma == 1:
        law = np.linalg.solve(np.eye(size) - kernel.T + 1 / size, np.full(size, 1 / size))
    else:
        law = np.linalg.solve(np.eye(size) - gamma * kernel.T, (1 - gamma) * initial)
    gram = np.diag(p)
    flow = gram @ (np.eye(size) - gamma * kernel)
    source = np.zeros(size) if gamma == 1 else (1 - gamma) * initial
    moments = LagrangianMeans(flow, gram, gram, p, p * reward, source, np.full(size, 1e-13))
    return moments, law / p, reward, mdp.value(policy, gamma)


@pytest.mark.parametrize(("method", "gamma"), [(each, 0.9) for each in DICE] + [(each, 1.0) for each in DICE[1:]])
def test_every_saddle_point_has_the_exact_ratio(method, gamma):
    for seed in range(5):
        moments, ratio, reward, value = exact(seed, gamma)
        zeta, _, _ = saddle_point(moments, method.terms)
        np.testing.assert_allclose(zeta, ratio, rtol=1e-6)
        assert zeta @ (moments.mean * reward) == pytest.approx(value, abs=1e-7)


def test_without_a_source_or_normalisation_the_ratio_is_zero():
    """Why DualDICE needs E[ζ] = 1 added at γ = 1."""
    moments, _, _, _ = exact(0, 1.0)
    zeta, _, _ = saddle_point(moments, DualDice.terms)
    np.testing.assert_allclose(zeta, 0, atol=1e-9)


def test_minimax_solutions_are_the_exact_ratio_and_q():
    moments, ratio, reward, value = exact(3, 0.9)
    system = LinearSystem(moments.flow, moments.reward, moments.initial, np.diag(moments.gram))
    beta = scaled_least_squares(system.matrix.T, system.source, system.scale, 1e-9)
    np.testing.assert_allclose(beta, ratio, rtol=1e-5)
    theta = scaled_least_squares(system.matrix, system.reward, system.scale, 1e-9)
    assert moments.initial @ theta == pytest.approx(value, abs=1e-6)
    assert ratio @ (moments.mean * reward) == pytest.approx(value)


@pytest.mark.parametrize("gamma", [1.0, 0.9])
def test_points_find_the_closed_form(gamma):
    """Five datasets: mean errors within 4 of their standard errors, or a hundredth of a reward's deviation."""
    env, truth = LinearGaussian(), LinearGaussian().value(TARGET, gamma)
    errors = []
    for seed in range(5):
        chosen = [ov.estimators()[name](n_features=30) for name in FAMILY]
        found = ov.evaluate(env.dataset(40, 40, BEHAVIOUR, seed), TARGET.policy(), chosen, gamma=gamma)
        errors.append([each.value - truth for each in found.values()])
    mean, error = np.mean(errors, axis=0), np.std(errors, axis=0, ddof=1) / np.sqrt(len(errors))
    assert (np.abs(mean) < np.maximum(4 * error, 0.01)).all(), dict(zip(FAMILY, mean, strict=True))


def test_ended_episodes_of_points():
    """As in the contract's two states, given as floats: 0 → 1 → end with rewards 0 and 1, (1-γ)γ = 0.25 at γ = ½."""
    episodes = 30
    states = np.tile([[0.0], [1.0]], (episodes, 1))
    actions = np.random.default_rng(0).integers(2, size=2 * episodes)
    data = ov.LoggedDataset.from_arrays(
        states,
        actions,
        states[:, 0],
        np.tile([[1.0], [0.0]], (episodes, 1)),
        terminated=np.tile([False, True], episodes),
    )
    policy = ov.policy.CategoricalPolicy(lambda s: np.tile([0.3, 0.7], (len(s), 1)), 2)
    chosen = [ov.estimators()[name](ridge=1e-6) for name in FAMILY]
    chosen.append(ov.estimators()["fqe"](solver="linear", ridge=1e-6))
    ignore = ("duplicated-episodes", "flags-confused", "one-row-off")
    for gamma, wanted in ((0.5, 0.25), (1.0, 0.5)):
        for name, found in ov.evaluate(data, policy, chosen, gamma=gamma, ignore=ignore).items():
            assert found.value == pytest.approx(wanted, abs=0.01), (name, gamma)


@pytest.mark.parametrize(("name", "gamma"), [("gendice", 1.0), ("bestdice", 0.9)])
def test_networks_come_near_the_closed_form(name, gamma):
    """After 400 steps nearer to the truth than a quarter of the logged mean's error."""
    env, truth = LinearGaussian(), LinearGaussian().value(TARGET, gamma)
    data = env.dataset(40, 50, BEHAVIOUR, 0)
    options = {"solver": "neural", "training_steps": 400, "n_features": 40}
    found = ov.evaluate(data, TARGET.policy(), name, gamma=gamma, **options)
    naive = ov.evaluate(data, TARGET.policy(), "naive", gamma=gamma)
    assert abs(found.value - truth) < abs(naive.value - truth) / 4
