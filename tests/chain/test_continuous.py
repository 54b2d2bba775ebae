"""Continuous states: kernel and neural solvers against distributions known in closed form."""

from __future__ import annotations

import numpy as np
import pytest

import ope_vpm as ov
from ope_vpm.chain.batches import TransitionBatches
from ope_vpm.chain.solvers.kernel import KernelRatio
from ope_vpm.chain.solvers.network import NeuralRatio
from ope_vpm.chain.solvers.neural import with_preset
from ope_vpm.envs.diffusions import OrnsteinUhlenbeck
from ope_vpm.envs.linear_gaussian import TARGET, LinearGaussian
from ope_vpm.linear.features import FEATURES
from ope_vpm.linear.moments import accumulate, accumulate_where_positive

FAST = {
    "kernel": dict(solver="kernel", n_features=100),
    "neural": dict(solver="neural", steps=100, inner_steps=10, batch_size=500, hidden=(32, 32)),
}


def gaussian_walk(n: int, seed: int, **options: object) -> ov.Transitions:
    """x' = x/2 + N(0, 3/4), whose stationary distribution is N(0, 1), seen from Unif[-4, 4]."""
    rng = np.random.default_rng(seed)
    x = rng.uniform(-4, 4, size=n)
    return ov.Transitions(x, x / 2 + np.sqrt(0.75) * rng.standard_normal(n), **options)


@pytest.mark.parametrize("solver", sorted(FAST))
def test_moments_are_within_four_standard_errors(solver):
    errors = []
    for seed in range(10):
        estimate = ov.VPM(seed=seed, **FAST[solver]).fit(gaussian_walk(2000, seed))
        x = estimate.transitions.x[:, 0]
        errors.append([estimate.expectation(x), estimate.expectation(x**2) - 1])
    mean, error = np.mean(errors, axis=0), np.std(errors, axis=0, ddof=1) / np.sqrt(10)
    assert np.all(np.abs(mean) < 4 * error + (0 if solver == "kernel" else 0.02))
    assert np.all(error < 0.05)


def test_kernel_standard_errors_are_honest():
    """(estimate - truth) / standard error, over 40 data sets, looks like N(0, 1)."""
    scores = []
    for seed in range(40):
        value = ov.VPM(solver="kernel", n_features=60, bandwidth=0.5, ridge=1e-4).fit(gaussian_walk(2000, seed))
        mean = value.expectation(lambda x: x[:, 0])
        scores.append(mean / mean.standard_error)
    assert abs(np.mean(scores)) < 4 / np.sqrt(40)
    assert 0.6 < np.std(scores) < 1.5


@pytest.mark.parametrize("solver", sorted(FAST))
def test_discounted_distribution_of_a_deterministic_shift(solver):
    """x' = x + 1 from 0: the discounted distribution puts (1-γ)γ^t on t, smeared here by noise of 0.2; mean γ/(1-γ)."""
    rng = np.random.default_rng(0)
    x = rng.uniform(-1, 12, size=6000)
    pairs = ov.Transitions(x, x + 1 + 0.2 * rng.standard_normal(6000), x_initial=0.2 * rng.standard_normal(500))
    estimate = ov.VPM(gamma=0.6, **FAST[solver]).fit(pairs)
    # a softplus network of 32 units cannot draw the comb of narrow peaks: it gets the mean only roughly
    assert estimate.expectation(lambda x: x[:, 0]) == pytest.approx(1.5, abs=0.04 if solver == "kernel" else 0.25)


def test_next_states_outside_all_data_do_not_blow_the_ratio_up():
    """Half of all initial states and many successors lie where no x is."""
    rng = np.random.default_rng(0)
    x = rng.uniform(0, 12, size=4000)
    pairs = ov.Transitions(x, x + 1 + rng.standard_normal(4000), x_initial=rng.standard_normal(500))
    estimate = ov.VPM(gamma=0.6, n_features=100).fit(pairs)
    assert 1 < estimate.expectation(lambda x: x[:, 0]) < 2.5  # 1.5, were all of it in the data
    assert estimate.diagnostics.unseen_mass > 0


def test_kernel_reaches_the_floor_on_the_linear_gaussian_chain():
    """Five seeds of the benchmark in benchmarks/accuracy.py, where the logged mean is off by 0.35."""
    system = LinearGaussian()
    truth = system.average_reward(TARGET)
    errors = []
    for seed in range(5):
        pairs, reward = system.transitions(20_000, seed)
        estimate = ov.VPM(n_features=256, bandwidth=1.0, ridge=1e-2, seed=seed).fit(pairs)
        errors.append(estimate.expectation(reward) - truth)
        assert abs(reward.mean() - truth) > 0.3
    assert np.sqrt(np.mean(np.square(errors))) < 0.008


def test_linear_gaussian_moments_agree_with_simulation():
    system, rng = LinearGaussian(), np.random.default_rng(0)
    states = np.zeros((200_000, 2))
    for _ in range(60):
        actions = TARGET.sample(states, rng)
        states = system.step(states, actions, rng)
    actions = TARGET.sample(states, rng)
    reward = system.reward(states, actions)
    assert reward.mean() == pytest.approx(system.average_reward(TARGET), abs=4 * reward.std() / np.sqrt(200_000))


def test_setting_negative_values_to_zero_afterwards_is_biased_and_ours_is_not():
    process, errors = OrnsteinUhlenbeck(), {"cut": [], "ours": []}
    for seed in range(10):
        rng = np.random.default_rng(seed)
        x = rng.uniform(-4, 8, 5000)
        pairs = ov.Transitions(x, process.after(x, 0.1, rng))
        settings = dict(n_features=120, bandwidth=0.8, ridge=1e-3, seed=seed)
        linear = ov.VPM(nonnegative=False, steps=None, **settings).fit(pairs)
        cut = np.maximum(linear.weights, 0)
        errors["cut"].append(cut @ (x - 2) ** 2 / cut.sum() - 1)
        errors["ours"].append(ov.VPM(**settings).fit(pairs).expectation((x - 2) ** 2) - 1)
    ours = np.array(errors["ours"])
    assert abs(ours.mean()) < 4 * ours.std(ddof=1) / np.sqrt(10)
    assert np.mean(errors["cut"]) > 5 * abs(ours.mean())


@pytest.mark.parametrize("features", sorted(FEATURES))
def test_the_linear_fixed_point_satisfies_its_equation(features):
    pairs = gaussian_walk(3000, 1)
    estimate = ov.VPM(features=features, n_features=40, bandwidth=1.0, ridge=1e-6, nonnegative=False, steps=None).fit(
        pairs
    )
    phi = FEATURES[features].draw(pairs.x, 40, 1.0, np.random.default_rng(5))(pairs.x)
    tau = estimate.ratio(pairs.x)
    assert tau.mean() == pytest.approx(1)
    same_class = estimate._ratio.features
    gap = np.mean(tau[:, None] * (same_class(pairs.x_next) - same_class(pairs.x)), axis=0)
    penalty = estimate._ratio.penalty * estimate._ratio.beta
    np.testing.assert_allclose(gap, penalty, atol=1e-8)
    assert phi.shape[0] == 3000


def test_moments_of_transitions_by_hand():
    class Line:
        def __call__(self, x):
            return np.hstack([np.ones((len(x), 1)), np.asarray(x, dtype=float)])

    pairs = ov.Transitions(
        [[1.0], [3.0]], [[[2.0], [4.0]], [[0.0], [1.0]]], weight=[1, 3], next_weight=[[0.5, 0.5], [0.2, 0.8]],
        x_initial=[[5.0], [9.0]], initial_weight=[3.0, 1.0],
    )  # fmt: skip
    batches = TransitionBatches(pairs, Line())
    means = accumulate(batches).means()
    np.testing.assert_allclose(means.gram, [[1, 10 / 4], [10 / 4, 28 / 4]])  # E[1], E[x], E[x²] with weights 1, 3
    np.testing.assert_allclose(means.cross, [[1, (3 + 2.4) / 4], [10 / 4, (3 + 3 * 3 * 0.8) / 4]])
    np.testing.assert_allclose(means.initial, [1, 6])
    only_above_two = accumulate_where_positive(batches, np.array([-2.0, 1.0])).means()
    np.testing.assert_allclose(only_above_two.gram, np.array([[3, 9], [9, 27]]) / 4)


def test_batches_do_not_change_the_moments():
    rng = np.random.default_rng(0)
    pairs = ov.Transitions(rng.normal(size=(9000, 2)), rng.normal(size=(9000, 2)), weight=rng.uniform(size=9000))
    features = FEATURES["fourier"].draw(pairs.x, 20, 1.0, rng)
    whole = features(pairs.x) * pairs.row_weights[:, None]
    found = accumulate(TransitionBatches(pairs, features)).means().cross
    np.testing.assert_allclose(found, whole.T @ features(pairs.x_next) / 9000, atol=1e-12)


# -- neural


def test_the_papers_preset_is_algorithm_1():
    paper = with_preset("paper")
    assert (paper.steps, paper.inner_steps, paper.batch_size, paper.learning_rate) == (200, 10, 1000, 3e-4)
    assert (paper.lam, paper.damping, paper.hidden, paper.exact_dual) == (1.0, "sqrt", (64, 64), False)
    assert (paper.average, paper.patience, paper.refit) == (0.0, None, False)
    assert with_preset("paper", steps=50, batch_size=2000).batch_size == 2000  # given, though it is our default


def test_the_last_layer_is_solved_exactly():
    data = gaussian_walk(4000, 0)
    ratio = ov.VPM(**FAST["neural"]).fit(data)._ratio
    assert isinstance(ratio, KernelRatio)
    here, there = ratio.features(data.x), ratio.features(data.x_next)
    tau = ratio(data.x)
    # Stationary on every direction of the layer, but for the ridge: E[φ(x)τ] + penalty·β = E[φ(x')τ].
    left = (here * tau[:, None]).mean(axis=0) + ratio.penalty * ratio.beta
    assert left == pytest.approx((there * tau[:, None]).mean(axis=0), abs=1e-4)
    assert here.mean(axis=0)[1:] == pytest.approx(0, abs=0.1)
    assert np.cov(here[:, 1:].T) == pytest.approx(np.eye(here.shape[1] - 1), abs=0.2)


@pytest.mark.parametrize("name", ["quadratic", "kl", "power"])
def test_every_divergence_trains_a_network(name):
    estimate = ov.VPM(divergence=name, refit=False, **FAST["neural"]).fit(gaussian_walk(4000, 0))
    assert estimate.expectation(lambda x: x[:, 0] ** 2) == pytest.approx(1, abs=0.5)  # Unif[-4, 4] has 5.3


def test_double_precision_and_repeatability():
    pairs = gaussian_walk(500, 0)
    options = dict(solver="neural", steps=5, batch_size=100, dtype="float64")
    first, again, other = (ov.VPM(seed=seed, **options).fit(pairs).weights for seed in (1, 1, 2))
    np.testing.assert_array_equal(first, again)
    assert not np.array_equal(first, other)


def test_the_network_starts_at_one_and_is_never_negative():
    options = dict(steps=1, inner_steps=1, learning_rate=1e-9, refit=False)
    estimate = ov.VPM(solver="neural", **options).fit(gaussian_walk(200, 0))
    np.testing.assert_allclose(estimate.ratio(np.linspace(-50, 50, 101)), 1, atol=1e-5)
    assert isinstance(estimate._ratio, NeuralRatio)


@pytest.mark.parametrize(
    ("options", "message"),
    [
        (dict(solver="kernel", features="wavelet"), "known are fourier, nystrom"),
        (dict(solver="kernel", steps="many"), "steps must be"),
        (dict(solver="kernel", ridge=-1.0), "ridge must be positive"),
        (dict(solver="kernel", n_features=1), "n_features must be at least 2"),
        (dict(solver="kernel", damping=0.5), "damping needs nonnegative=False"),
        (dict(solver="neural", preset="best"), "known are default, paper"),
        (dict(solver="neural", batch_size=0), "batch_size must be positive"),
        (dict(solver="neural", dtype="int8"), "dtype must be"),
    ],
)
def test_bad_settings(options, message):
    with pytest.raises(ValueError, match=message):
        ov.VPM(**options)
