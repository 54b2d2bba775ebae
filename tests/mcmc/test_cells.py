"""VPM on random cells, against stationary distributions that are known."""

from __future__ import annotations

import numpy as np
import pytest

from ope_vpm.chain import Transitions
from ope_vpm.envs.ornstein_uhlenbeck import OrnsteinUhlenbeck
from ope_vpm.mcmc import cell_ratio

PROCESS = OrnsteinUhlenbeck(0.5, 1.0, 1.0)


def ou_pairs(seed, rejected=0.0):
    """Uniform states and their successors half a unit of time later; a share of them is rejected and stays."""
    rng = np.random.default_rng(seed)
    x = rng.uniform(-3, 4, size=5000)
    stays = rng.uniform(size=x.size) < rejected
    return Transitions(x, np.where(stays, x, PROCESS.after(x, 0.5, rng)))


@pytest.mark.parametrize("rejected", [0.0, 0.6])
def test_moments_of_a_gaussian_stationary_distribution_with_and_without_rejections(rejected):
    estimates = []
    for seed in range(10):
        data = ou_pairs(seed, rejected)
        weights, x = cell_ratio(data, seed=seed), data.x[:, 0]
        estimates.append([np.average(x, weights=weights), np.average((x - 0.5) ** 2, weights=weights)])
    error = np.std(estimates, axis=0, ddof=1) / np.sqrt(10)
    cell = 7 / (5000 / 30)  # a cell's width: what counting in cells may add
    assert (np.abs(np.mean(estimates, axis=0) - [0.5, PROCESS.variance]) < 4 * error + cell).all()


def test_the_ratio_is_repeatable_not_negative_and_has_mean_one():
    first, second = (cell_ratio(ou_pairs(3), seed=1) for _ in range(2))
    assert (first == second).all()
    assert first.min() >= 0
    assert first.mean() == pytest.approx(1)


def test_states_that_never_move_get_no_weight():
    rng = np.random.default_rng(0)
    x = rng.uniform(-3, 8, size=6000)
    moved = np.clip(PROCESS.after(x, 0.5, rng), -3, 4.5)
    data = Transitions(x, np.where(x > 5, x, moved))
    weights = cell_ratio(data)
    assert weights[data.x[:, 0] > 5.5].sum() == 0


def test_a_chain_that_never_moves_is_refused():
    with pytest.raises(ValueError, match="never moves"):
        cell_ratio(Transitions(np.zeros(10), np.zeros(10)))


def test_finite_states_are_refused():
    with pytest.raises(ValueError, match="needs continuous states"):
        cell_ratio(Transitions(np.array([0, 1]), np.array([1, 0])))
