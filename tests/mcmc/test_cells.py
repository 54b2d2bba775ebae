"""VPM on random cells, against stationary distributions that are known."""

from __future__ import annotations

import numpy as np
import pytest

from ope_vpm.chain import Transitions
from ope_vpm.envs.diffusions import OrnsteinUhlenbeck
from ope_vpm.mcmc import cell_ratio

PROCESS = OrnsteinUhlenbeck(0.5, 1.0, 1.0)


def ou_pairs(seed, rejected=0.0):
    """Uniform states and their successors half a unit of time later; a share of them is rejected and stays."""
    rng = np.random.default_rng(seed)
    x = rng.uniform(-3, 4, size=5000)
    stays = rng.uniform(size=x.size) < rejected
    return Transitions(x, np.where(stays, x, PROCESS.after(x, 0.5, rng)))


@pytest.mark.parametrize("steps", [150, None])
@pytest.mark.parametrize("rejected", [0.0, 0.6])
def test_moments_of_a_gaussian_stationary_distribution_with_and_without_rejections(rejected, steps):
    estimates = []
    for seed in range(10):
        data = ou_pairs(seed, rejected)
        weights, x = cell_ratio(data, seed=seed, steps=steps), data.x[:, 0]
        estimates.append([np.average(x, weights=weights), np.average((x - 0.5) ** 2, weights=weights)])
    error = np.std(estimates, axis=0, ddof=1) / np.sqrt(10)
    cell = 7 / (5000 / 30)  # a cell's width: what counting in cells may add
    assert (np.abs(np.mean(estimates, axis=0) - [0.5, PROCESS.variance]) < 4 * error + cell).all()


def test_moments_of_a_gaussian_stationary_distribution_in_the_plane():
    estimates = []
    for seed in range(10):
        rng = np.random.default_rng(seed)
        x = rng.uniform(-3, 4, size=(5000, 2))
        x_next = np.stack([PROCESS.after(column, 0.5, rng) for column in x.T], axis=1)
        weights = cell_ratio(Transitions(x, x_next), seed=seed)
        estimates.append(np.average(x, axis=0, weights=weights))
    error = np.std(estimates, axis=0, ddof=1) / np.sqrt(10)
    cell = 7 / np.sqrt(5000 / 30)  # a cell's width
    assert (np.abs(np.mean(estimates, axis=0) - 0.5) < 4 * error + cell).all()


def test_the_fixed_point_is_the_limit_of_power_steps():
    data = ou_pairs(4, rejected=0.3)
    limit, after_many = (cell_ratio(data, seed=2, partitions=1, steps=steps) for steps in (None, 1000))
    np.testing.assert_allclose(limit, after_many, rtol=1e-5, atol=1e-8)


def test_cells_of_a_line_have_equally_many_rows():
    """Within a cell the ratio is constant: 5000 rows in cells of 500 make nine whole cells and two parts of one."""
    data = ou_pairs(0)
    ratio = cell_ratio(data, rows_per_cell=500, partitions=1, steps=None, seed=3)[np.argsort(data.x[:, 0])]
    edges = np.flatnonzero(np.diff(ratio)) + 1
    lengths = np.diff(np.concatenate([[0], edges, [5000]]))
    assert len(lengths) == 11
    assert (np.abs(lengths[1:-1] - 500) <= 1).all()
    assert lengths[0] + lengths[-1] == pytest.approx(500, abs=2)


def test_cells_that_lead_to_cells_without_moves_begin_again_from_the_data():
    """Only rows below 0 move, and all of them to a cell that never does: what is left of τ is constant on them."""
    x = np.concatenate([np.linspace(-2, -1, 300), np.linspace(1, 2, 300)])
    x_next = np.where(x < 0, 1.5, x)
    ratio = cell_ratio(Transitions(x, x_next), steps=None, partitions=1, rows_per_cell=30)
    assert (ratio[x > 1.2] == 0).all()
    np.testing.assert_allclose(ratio[x < -1.2], 2.0, rtol=0.1)


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
