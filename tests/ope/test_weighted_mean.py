"""Linear estimates as one estimate: shares, errors and doubts by hand, and errors over many logs."""

from dataclasses import replace

import numpy as np
import pytest

import ope_vpm as ov
from ope_vpm.envs.linear_gaussian import BEHAVIOUR, TARGET, LinearGaussian
from ope_vpm.ope.inference.doubts import COEFFICIENTS, DISAGREEMENT, RIDGE, SUPPORT, among
from ope_vpm.ope.inference.uncertainty import Bootstrap, EpisodeSums
from ope_vpm.ope.linear.estimate import LinearEstimate
from ope_vpm.ope.linear.resting import mixed, shares_of

NOTHING = np.zeros(0)


def linear(value, error, bias=0.0, ridge=1e-4, doubts=(), **more):
    """An estimate that the first episode moves up and the second down."""
    influence = np.append(np.array([error, -error]) / np.sqrt(2), np.zeros(10))
    return LinearEstimate(
        value=value, uncertainty=Bootstrap(episodes=EpisodeSums.of_influence(value, influence)),
        doubts=(*RIDGE.suspects(bias), *doubts),
        equations=None, ridge=ridge, theta=NOTHING, beta=NOTHING, residual=None, **more,
    )  # fmt: skip


def test_shares_by_hand():
    """Squared errors 1² and 1.2² + 1.6² = 2²: four fifths and one fifth; of equal ones a half, also where all are 0."""
    np.testing.assert_allclose(shares_of([linear(0.0, 1.0), linear(9.0, 1.2, 1.6)]), [0.8, 0.2])
    np.testing.assert_allclose(shares_of([linear(0.0, 0.0), linear(1.0, 0.0)]), [0.5, 0.5])
    np.testing.assert_allclose(shares_of([linear(0.0, 1e-150), linear(0.0, 2e-150)]), [0.8, 0.2])
    assert shares_of([linear(0.0, 1.0), linear(1.0, np.nan)]).tolist() == pytest.approx([1, 0], abs=1e-9)


def test_a_mean_by_hand():
    """10 and 20 with shares 4/5 and 1/5: 12, off by 10/2 = 5 and by the mean of what the parts suspect, 0.4."""
    rows = np.array([1.0, 2.0, 3.0])
    one = linear(10.0, 1.0, weights=rows, ridge=1e-5, doubts=SUPPORT.of(0.1))
    other = linear(20.0, 0.0, 2.0, weights=2 * rows, ridge=1.0, doubts=SUPPORT.of(0.5))
    found = mixed([one, other])
    assert found.value == pytest.approx(12)
    assert [each.bias for each in among(found.doubts, RIDGE, DISAGREEMENT)] == pytest.approx([0.4, 5])
    parts = 0.4 * COEFFICIENTS["ridge"], 5 * COEFFICIENTS["disagreement"]
    assert found.suspected_bias == pytest.approx(np.hypot(*parts))
    np.testing.assert_allclose(found.sums.influence, 0.8 * one.sums.influence, atol=1e-12)
    np.testing.assert_allclose(found.weights, 1.2 * rows)
    assert found.size(SUPPORT) == 0.5
    assert found.per_episode is None
    assert mixed([one, replace(other, weights=None)]).weights is None


def test_the_return_has_shares_of_its_own():
    one = linear(1.0, 1.0, per_episode=linear(10.0, 4.0))
    other = linear(2.0, 1.0, per_episode=linear(20.0, 2.0))
    found = mixed([one, other])
    assert (found.value, found.per_episode.value) == pytest.approx((1.5, 18))
    assert mixed([one, replace(other, per_episode=None)]).per_episode is None


@pytest.mark.parametrize("gamma", [0.95, 1.0])
def test_auto_is_not_behind_its_parts(gamma):
    """On twenty logs: at most a quarter more error than the better of vpm and LSTD-Q, and eighteen are covered."""
    env, errors, held = LinearGaussian(), [], 0
    truth = env.value(TARGET, gamma)
    for seed in range(20):
        data = env.dataset(20, 20, BEHAVIOUR, seed)
        asked = {"auto": {"combine": False}, "vpm": {}, "fqe": {"solver": "linear"}}
        values = [
            ov.evaluate(data, TARGET.policy(), name, gamma=gamma, n_features=60, **more) for name, more in asked.items()
        ]
        errors.append([value.value - truth for value in values])
        held += values[0].interval[0] <= truth <= values[0].interval[1]
    auto, vpm, lstd = np.sqrt(np.mean(np.square(errors), axis=0))
    assert auto <= 1.25 * min(vpm, lstd)
    assert held >= 18
