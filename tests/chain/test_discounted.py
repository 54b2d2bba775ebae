"""Below γ = 1: standard errors, value functions, the choice of features and diagnostics against closed forms."""

import warnings

import numpy as np
import pytest

import ope_vpm as ov
from ope_vpm.chain.diagnostics import StationarityTest
from ope_vpm.chain.solvers.kernel import KernelRatio
from ope_vpm.chain.solvers.solution import select
from ope_vpm.linear.features import FourierFeatures, Standardiser

X = np.array([0, 0, 0, 0, 1, 1, 1, 2, 2, 2])
X_NEXT = np.array([1, 1, 2, 0, 0, 2, 2, 1, 0, 0])
F = np.array([1.0, -2.0, 5.0])


def line(low: float, high: float) -> FourierFeatures:
    """The features (1, z), z being x scaled to mean 0 and deviation 1 if it is uniform on an interval."""
    mean, deviation = (low + high) / 2, (high - low) / np.sqrt(12)
    standardise = Standardiser(np.array([mean]), np.array([deviation]), np.array([-np.inf]), np.array([np.inf]))
    return FourierFeatures(standardise, np.zeros((1, 0)), linear=True)


def expected(gamma, weight, initial_weight):
    """E_μ[f] of the weighted counts, by dense algebra."""
    kernel = np.zeros((3, 3))
    np.add.at(kernel, (X, X_NEXT), weight)
    kernel /= kernel.sum(axis=1, keepdims=True)
    if gamma < 1:
        start = initial_weight / initial_weight.sum()
        return (1 - gamma) * start @ np.linalg.solve(np.eye(3) - gamma * kernel, F)
    system = np.vstack([np.eye(3) - kernel.T, np.ones(3)])
    return np.linalg.lstsq(system, np.array([0.0, 0, 0, 1]), rcond=None)[0] @ F


@pytest.mark.parametrize("gamma", [1.0, 0.7, 0.2])
def test_the_standard_error_is_the_infinitesimal_jackknifes(gamma):
    """√Σ(∂v/∂w)² over the weights w = 1 of rows and initial states, each derivative taken numerically.

    Where the successors' probabilities are given, nothing is added for small counts.
    """
    pairs = ov.Transitions(X, X_NEXT[:, None], x_initial=np.arange(3), next_weight=np.ones((10, 1)))
    value = ov.VPM(gamma=gamma).fit(pairs).expectation(F[X])
    assert value == pytest.approx(expected(gamma, np.ones(10), np.ones(3)))
    square, step = 0.0, 1e-5
    for place in range(13):
        more, less = np.ones(13), np.ones(13)
        more[place], less[place] = 1 + step, 1 - step
        change = expected(gamma, more[:10], more[10:]) - expected(gamma, less[:10], less[10:])
        square += (change / (2 * step)) ** 2
    assert value.standard_error == pytest.approx(np.sqrt(square), rel=1e-6)


@pytest.mark.parametrize("nonnegative", [True, False])
def test_the_kernels_value_function_of_a_contraction(nonnegative):
    """x' = x/2 and f = x + 3: h = f + γh' has h(x) = x/(1 - γ/2) + 3/(1 - γ), exactly."""
    x = np.random.default_rng(0).uniform(-1, 1, (200, 1))
    pairs = ov.Transitions(x, x / 2, x_initial=x[:5])
    ratio = KernelRatio(line(-1, 1), np.array([1.0, 0.0]), np.zeros(2), nonnegative)
    h = ratio.value_function(pairs, x[:, 0] + 3, 0.8)
    np.testing.assert_allclose(h(x), x[:, 0] / 0.6 + 3 / 0.2, rtol=1e-8)


def test_the_networks_value_function_of_a_constant():
    """f = 3: h = f + γh' has h = 3/(1-γ) everywhere, which the constant among the hidden features gives exactly."""
    x = np.random.default_rng(0).uniform(-1, 1, (300, 1))
    pairs = ov.Transitions(x, x / 2, x_initial=x[:50])
    tiny = {"hidden": (8,), "steps": 3, "inner_steps": 5, "batch_size": 50}
    estimate = ov.VPM(gamma=0.8, solver="neural", **tiny).fit(pairs)
    np.testing.assert_allclose(estimate.value_function(np.full(300, 3.0))(x), 15, rtol=0.01)


@pytest.mark.parametrize("settings", [{"steps": 60}, {"steps": None}, {"steps": None, "nonnegative": False}])
def test_kernels_find_the_discounted_mean_of_an_autoregression(settings):
    """x' = x/2 + N(0, ¼) from x = 2: E_μ[x] = (1-γ)·2/(1 - γ/2), which is 4/3 at γ = ½ where the data's mean is 0."""
    rng = np.random.default_rng(0)
    x = rng.uniform(-4, 4, 5000)
    pairs = ov.Transitions(x, x / 2 + rng.standard_normal(5000) / 2, x_initial=2 + rng.standard_normal(2000) / 2)
    estimate = ov.VPM(gamma=0.5, solver="kernel", n_features=40, bandwidth=0.5, ridge=1e-4, **settings).fit(pairs)
    value = estimate.expectation(lambda x: x[:, 0])
    assert value == pytest.approx(4 / 3, abs=0.05)
    # A row's influence is τ·γ·noise/(1 - γ/2), so that 5000 of them with E_p[τ²] near 2 have the error 0.0067; that of
    # the 2000 initial states is (1-γ)·½/(1 - γ/2)/√2000 = 0.0075. Together 0.010.
    assert 0.007 < value.standard_error < 0.02


@pytest.mark.parametrize("gamma", [0.4, 1.0])
def test_the_choice_of_features_is_by_the_held_out_objective_at_that_discount(gamma):
    """The objective ½E[τ²] - γE[τ_t(x)τ(x')] - (1-γ)E₀[τ] of the features (1, z), written out."""
    x = np.random.default_rng(0).uniform(0, 1, (40, 1))
    pairs = ov.Transitions(x, x / 2 + 0.2, x_initial=np.array([[0.8], [0.6]]))
    ridge, features = 0.05, line(0, 1)
    chosen = select(pairs, [features], ridge, gamma, np.random.default_rng(0))

    here, there, start = features(x), features(x / 2 + 0.2), features(pairs.x_initial)

    def fitted(rows, tau, strength):
        gram = here[rows].T @ here[rows] / len(rows)
        pull = gamma * there[rows].T @ tau[rows] / len(rows) + (1 - gamma) * start.mean(axis=0)
        return np.linalg.solve(gram + np.diag([0, strength * gram[1, 1]]), pull)

    tau, everything = np.ones(40), np.arange(40)
    for _ in range(60):  # the reference ratio: power steps with a ridge of 10⁻³
        tau = here @ fitted(everything, tau, 1e-3)
    scores = []
    for fold in range(4):
        held, others = everything[everything % 4 == fold], everything[everything % 4 != fold]
        beta = fitted(others, tau, ridge)
        own = here[held] @ beta
        after, first = np.clip(there[held] @ beta, 0, own.max()), np.clip(start @ beta, 0, own.max())
        scores.append(np.mean(own**2) / 2 - gamma * np.mean(tau[held] * after) - (1 - gamma) * first.mean())
    assert tau.min() > 0
    assert chosen.objective == pytest.approx(np.mean(scores), rel=1e-3)


@pytest.mark.parametrize("gamma", [1.0, 0.6])
def test_exact_ratios_leave_no_stationarity_residual(gamma):
    """E_μ[γg(x') - g(x)] + (1-γ)E₀[g] is 0 for every g where μ solves the counted chain, and not for another μ."""
    pairs = ov.Transitions(X, X_NEXT, x_initial=np.array([0, 0, 1]))
    estimate = ov.VPM(gamma=gamma).fit(pairs)
    assert estimate.diagnostics.stationarity_residual == pytest.approx(0, abs=1e-12)
    test = StationarityTest.draw(pairs, gamma, np.random.default_rng(0))
    assert test.residual(lambda x: np.where(x == 2, 2.0, 0.5)) > 0.05


def test_initial_states_without_data_are_named_with_their_share():
    """Two states that change places. Half of the starts are state 9: they start from either state instead.

    So μ₀ = (3/4, 1/4), and at γ = 1/2 μ(0) = 3/8 + μ(1)/2, μ(1) = 1/8 + μ(0)/2: 7/12 and 5/12.
    """
    pairs = ov.Transitions([0, 1], [1, 0], x_initial=[0, 9])
    with pytest.warns(ov.StationaryWarning, match=r"50.0% of the initial states do not occur among the x of the data"):
        estimate = ov.VPM(gamma=0.5).fit(pairs)
    np.testing.assert_allclose(estimate.probabilities([0, 1]), [7 / 12, 5 / 12])
    found = estimate.diagnostics
    assert found.unseen_initial == 0.5
    assert found.doubts == found.notes
    assert "1 state {9}: the chain starts from a row of the data instead" in found.doubts[0]
    assert "unseen initial states" in str(found)


@pytest.mark.parametrize(
    ("options", "initial", "weight", "share", "said"),
    [
        ({"unseen": "restrict"}, [0, 9], [3, 1], 0.25, "they are left out, and the others count for more"),
        ({"unseen": "restrict"}, [8, 9], [3, 1], 1.0, "2 states {8, 9}: the chain starts from a row of the data"),
        ({"unseen": "good-turing"}, [0, 9], [3, 1], 0.25, "a state seen least often"),
        ({"reversible": True}, [0, 9], [3, 1], 0.25, "do not occur in the data, 1 state {9}: the chain starts from"),
        (
            {"pool_increments": 1.0},
            [0, 9],
            [3, 1],
            0.25,
            "in the range of the data, 1 state {9}: the chain starts from the",
        ),
        ({"steps": 5}, [0, 9], [0, 1], 1.0, "a row of the data"),
    ],
)
def test_each_treatment_says_what_becomes_of_initial_states_without_data(options, initial, weight, share, said):
    pairs = ov.Transitions([0, 1, 1], [1, 0, 1], x_initial=initial, initial_weight=weight)
    with pytest.warns(ov.StationaryWarning, match=f"{share:.1%} of the initial states"):
        found = ov.VPM(gamma=0.5, **options).fit(pairs).diagnostics
    assert found.unseen_initial == pytest.approx(share)
    assert said in found.doubts[0]


def test_few_initial_states_without_data_are_noticed_and_no_doubt():
    """1 in 25 is below 5 %, 1 in 20 is not."""
    for others, doubtful in ((24, False), (19, True)):
        pairs = ov.Transitions([0, 1], [1, 0], x_initial=[0] * others + [9])
        with pytest.warns(ov.StationaryWarning, match="of the initial states"):
            found = ov.VPM(gamma=0.5).fit(pairs).diagnostics
        assert len(found.notes) == 1
        assert bool(found.doubts) == doubtful


def test_nothing_is_said_of_initial_states_that_are_known_or_not_asked_for(tmp_path):
    known = ov.Transitions([0, 1, 1], [1, 0, 1], x_initial=[0, 9], initial_weight=[1, 0])
    unknown = ov.Transitions([0, 1, 1], [1, 0, 1], x_initial=[9])
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        estimates = [ov.VPM(gamma=0.5).fit(known), ov.VPM().fit(unknown)]
    assert [each.diagnostics.unseen_initial for each in estimates] == [0, 0]
    with pytest.warns(ov.StationaryWarning):
        estimate = ov.VPM(gamma=0.5).fit(unknown)
    estimate.save(tmp_path / "estimate.npz")
    assert ov.StationaryEstimate.load(tmp_path / "estimate.npz").diagnostics.unseen_initial == 1
