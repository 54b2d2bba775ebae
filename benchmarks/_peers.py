"""Other packages' ways from transitions to weights or stationary distributions, called as their documentation says."""

from __future__ import annotations

from typing import Any

import numpy as np
from scipy.spatial import cKDTree
from scipy.spatial.distance import cdist

from ope_vpm.arrays import Array, Floats
from ope_vpm.chain import Transitions

LINE_CENTRES, PLANE_CENTRES = 20, 300
"""Gaussian bumps of the Koopman basis. On a line they are evenly spaced, as wide as they are apart: on tuning seeds 100
to 104 of the diffusions 10, 20 and 40 had a mean log MMD of -2.46, -2.41 and -2.52 over the runs that did not fail (3,
1 and 2 of 30 failed). On the plane they are at rows drawn at random; with 50, 100 and 300, 10, 9 and 7 of 12 failed."""
KOOPMAN_CELLS = (100, 400)
"""Indicators of cells with equally many rows, the other basis on a line. On five other diffusions
(`python -m benchmarks cells`) 30, 100, 200 and 400 had a mean log MMD of -2.60, -2.80, -2.91 and -2.97 and took 0.02,
0.04, 0.11 and 0.34 s: one that is about as fast as ours, and the best."""
LINE_CELLS, PLANE_CELLS = 100, 800
"""States of the MSM. On tuning seeds 25, 50 and 100 on a line had a mean of -1.99, -2.24 and -2.25; 200, 400 and 800 on
the plane -1.94, -2.27 and -2.47."""
SAMPLES = 100
"""Samples of a Bayesian MSM: its default."""


def koopman_weights(data: Transitions, seed: int) -> Floats:
    """The Koopman reweighting of deeptime on Gaussian bumps; an error where it finds no positive weights."""
    x = np.asarray(data.x)
    scale = x.std(axis=0)
    if x.shape[1] == 1:
        centres = np.linspace(x.min() / scale, x.max() / scale, LINE_CENTRES)
    else:
        centres = _drawn(x / scale, PLANE_CENTRES, seed)
    width = np.median(np.sort(cdist(centres, centres), axis=1)[:, 1])

    def bumps(states: Floats) -> Floats:
        return np.exp(-cdist(states / scale, centres, "sqeuclidean") / (2 * width**2))

    return _koopman(bumps(x), bumps(np.asarray(data.x_next)))


def koopman_cell_weights(data: Transitions, cells: int) -> Floats:
    """Koopman weights on indicators of cells along a line; the first is left out, since deeptime adds a constant."""
    edges = np.quantile(data.x, np.linspace(0, 1, cells + 1))[1:-1]

    def indicators(states: Floats) -> Floats:
        return np.eye(cells)[np.searchsorted(edges, states[:, 0])][:, 1:]

    return _koopman(indicators(np.asarray(data.x)), indicators(np.asarray(data.x_next)))


def _koopman(features: Floats, features_next: Floats) -> Floats:
    from deeptime.covariance import KoopmanWeightingEstimator

    model = KoopmanWeightingEstimator(lagtime=1).partial_fit((features, features_next)).fetch_model()
    weights = np.asarray(model.weights(features)).ravel()
    positive = np.maximum(weights * np.sign(weights.sum()), 0)
    if not np.isfinite(positive).all() or not positive.sum() > 0:
        raise ArithmeticError("no finite weights")
    return positive


def msm_weights(data: Transitions, seed: int, bayesian: bool) -> Floats:
    """The stationary distribution of deeptime's reversible MSM on cells, as weights of the rows."""
    x, x_next = np.asarray(data.x), np.asarray(data.x_next)
    scale = x.std(axis=0)
    tree = cKDTree(_drawn(x / scale, LINE_CELLS if x.shape[1] == 1 else PLANE_CELLS, seed))
    here, there = tree.query(x / scale)[1], tree.query(x_next / scale)[1]
    probability = msm_distribution(here, there, tree.n, bayesian)
    share = np.bincount(here, minlength=tree.n)
    return (probability / np.maximum(share, 1))[here]


def msm_distribution(here: Array, there: Array, size: int, bayesian: bool) -> Floats:
    """The stationary distribution over states of a reversible MSM: the most likely one, or the posterior's mean."""
    from deeptime.markov import TransitionCountModel
    from deeptime.markov.msm import BayesianMSM, MaximumLikelihoodMSM

    counts = np.zeros((size, size))
    np.add.at(counts, (here, there), 1.0)
    model = TransitionCountModel(counts).submodel_largest(connectivity_threshold=0.0)
    if bayesian:
        posterior: Any = BayesianMSM(n_samples=SAMPLES).fit_fetch(model)
        found = np.mean([each.stationary_distribution for each in posterior.samples], axis=0)
    else:
        found = MaximumLikelihoodMSM().fit_fetch(model).stationary_distribution
    probability = np.zeros(size)
    probability[model.state_symbols] = found
    return probability


def thinned(sample: Floats, gradient: Floats, number: int) -> Floats:
    """Stein thinning: the draws that together look most like the density with this gradient of its logarithm."""
    from stein_thinning.thinning import thin

    return sample[thin(sample, gradient, number)]


def smoothed(log_weights: Floats) -> Floats:
    """Pareto-smoothed importance weights, by ArviZ."""
    from arviz import psislw

    return np.exp(np.asarray(psislw(log_weights)[0]))


def _drawn(points: Floats, number: int, seed: int) -> Floats:
    return points[np.random.default_rng(seed).choice(len(points), size=min(number, len(points)), replace=False)]
