"""Pareto k̂ against ArviZ's, and weights in the form that ArviZ takes."""

from __future__ import annotations

import numpy as np
import pytest

import ope_vpm as ov
from ope_vpm.chain.diagnostics import _shape, pareto_k
from tests.arviz_shape import shape_of_arviz


@pytest.mark.parametrize("spread", [0.1, 1.0, 3.0])
@pytest.mark.parametrize("count", [100, 4000])
def test_the_shape_is_that_of_arviz(spread, count):
    weights = np.exp(spread * np.random.default_rng(count).standard_normal(count))
    assert pareto_k(weights) == pytest.approx(shape_of_arviz(np.log(weights)), abs=1e-9)


def test_the_shape_of_a_pareto_tail_is_found():
    for shape in (0.3, 0.9):
        found = [pareto_k(np.random.default_rng(seed).random(50_000) ** -shape) for seed in range(10)]
        assert abs(np.mean(found) - shape) < 0.05


def test_equal_weights_have_no_tail_and_few_cannot_tell():
    assert pareto_k(np.ones(1000)) == 0
    assert np.isnan(pareto_k(np.arange(1.0, 10.0)))
    assert np.isnan(pareto_k(np.zeros(100)))


def test_it_does_not_depend_on_the_scale():
    weights = np.random.default_rng(0).random(500) ** -0.6
    assert pareto_k(weights) == pytest.approx(pareto_k(1e-9 * weights))


@pytest.fixture(scope="module")
def estimate():
    rng = np.random.default_rng(0)
    x = rng.normal(1.0, 1.0, size=(2000, 1))
    return ov.VPM(n_features=50).fit(ov.Transitions(x, 0.7 * x + rng.normal(size=x.shape) * np.sqrt(0.51)))


def test_a_fit_tells_its_tail(estimate, tmp_path):
    found = estimate.diagnostics.pareto_k
    assert found == pareto_k(np.maximum(estimate.weights, 0))
    assert "Pareto k̂" in str(estimate.diagnostics)
    estimate.save(tmp_path / "estimate.npz")
    assert ov.StationaryEstimate.load(tmp_path / "estimate.npz").diagnostics.pareto_k == found


def test_logarithms_of_weights_are_normalised(estimate):
    assert np.exp(estimate.log_weights).sum() == pytest.approx(1)
    assert np.exp(estimate.log_weights) @ estimate.transitions.x[:, 0] == pytest.approx(
        float(estimate.expectation(lambda x: x[:, 0]))
    )


def test_the_likelihood_has_its_limit_where_a_rate_on_the_grid_is_zero():
    """16 values whose largest is three times their quartile: the ninth b is 1/3 - 1/3, and nothing jumps there."""
    values = np.array([0.7, 0.8, 0.9, 1.0, *np.linspace(1.1, 2.0, 11), 3.0])
    grid = 34  # 30 and the root of 16
    assert 1 / values[-1] + (1 - np.sqrt(grid / 8.5)) / (3 * values[3]) == 0
    nearly = np.append(values[:-1], 3 * (1 + 1e-9))
    assert _shape(values) == pytest.approx(_shape(nearly), abs=1e-7)
