"""Distances against numbers worked out by hand, and the opponents against exact distributions."""

from __future__ import annotations

import math

import numpy as np
import pytest

from ope_vpm.chain import Transitions
from ope_vpm.envs.geo_queue import GeoQueue
from ope_vpm.studies.distance import histogram, log_kl_both_ways, log_mmd, median_distance_of_draws
from ope_vpm.studies.queue import counted_matrix, propagated_distribution, simulated_distribution


def test_log_kl_both_ways_by_hand():
    truth, estimate = np.array([0.5, 0.5]), np.array([1.0, 0.0])
    forward, backward = log_kl_both_ways(truth, estimate)
    mixed = np.array([0.9995, 0.0005])
    assert forward == pytest.approx(math.log(0.5 * math.log(0.5 / mixed[0]) + 0.5 * math.log(0.5 / mixed[1])))
    assert backward == pytest.approx(math.log(math.log(2)))


def test_mmd_of_two_single_values_by_hand():
    centres = np.linspace(0, 10, 101)
    first, second = (histogram(np.array([at]), None, centres) for at in (2.0, 5.0))
    expected = math.sqrt(2 - 2 * math.exp(-9 / (2 * 1.5**2)))
    assert log_mmd(first, second, centres, 1.5) == pytest.approx(math.log(expected))


def test_mmd_on_the_square_equals_the_double_sum_over_pairs():
    rng = np.random.default_rng(0)
    centres = np.linspace(-3, 3, 61)
    a, b = (centres[rng.integers(61, size=(20, 2))] for _ in range(2))
    weights = rng.uniform(size=20)

    def kernel(x, y):
        return np.exp(-((x[:, None] - y) ** 2).sum(axis=2) / 2)

    w, u = weights / weights.sum(), np.full(20, 1 / 20)
    square = w @ kernel(a, a) @ w + u @ kernel(b, b) @ u - 2 * w @ kernel(a, b) @ u
    found = log_mmd(histogram(a, weights, centres), histogram(b, None, centres), centres, 1.0)
    assert found == pytest.approx(math.log(square) / 2)


def test_median_distance_of_a_gaussian():
    centres = np.linspace(-6, 6, 1201)
    distribution = np.exp(-(centres**2) / 2)
    assert median_distance_of_draws(centres, distribution / distribution.sum()) == pytest.approx(
        0.6745 * math.sqrt(2), abs=0.01
    )


def test_exact_propagation_finds_the_stationary_distribution_of_the_counted_chain():
    data = GeoQueue().transitions(2000, seed=3)
    matrix = counted_matrix(data, 19)
    distribution = propagated_distribution(data, 19)
    assert np.abs(distribution @ matrix - distribution).max() < 1e-10
    assert distribution.sum() == pytest.approx(1)


def test_a_state_never_left_restarts_from_the_data():
    matrix = counted_matrix(Transitions(np.array([0, 0, 1]), np.array([1, 2, 0])), 3)
    assert matrix[2] == pytest.approx([2 / 3, 1 / 3, 0])


def test_a_long_simulation_agrees_with_exact_propagation():
    data = GeoQueue(0.8, 0.96).transitions(500, seed=1)
    size = GeoQueue(0.8, 0.96).bound + 1
    runs = np.array([simulated_distribution(data, size, 2000, seed) for seed in range(10)])
    error = runs.std(axis=0, ddof=1) / math.sqrt(10)
    assert (np.abs(runs.mean(axis=0) - propagated_distribution(data, size)) <= 4 * error + 0.02).all()
