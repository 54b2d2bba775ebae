"""Policies by functions that return `torch.distributions` objects."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import torch
from torch.distributions import Distribution

from ope_vpm.arrays import Array, Floats
from ope_vpm.policy.calls import Call, as_array
from ope_vpm.policy.continuous import GaussianPolicy
from ope_vpm.policy.discrete import CategoricalPolicy
from ope_vpm.policy.distributions import Normal, correlated_normal_of, is_discrete, normal_of, probabilities_of
from ope_vpm.policy.target import DRAWS, Generator, TargetPolicy, in_batches

ANOTHER_KIND = "the function must return the same kind of distribution for all observations: the first was {}"


def of_distributions(call: Call, first: Distribution, rows: int) -> TargetPolicy:
    """The policy that a function is, by the first distributions that it returned.

    Args:
        call: the function.
        first: what it returned for the first observations.
        rows: how many these were.
    """
    probabilities = probabilities_of(first)
    if probabilities is not None or is_discrete(first):
        count = categorical_probabilities(first).shape[1]
        return CategoricalPolicy(call.reading(lambda returned, _: categorical_probabilities(returned)), count)
    normal = normal_of(first, rows)
    if normal is not None and normal.one_range:
        squash, size = normal.bounds is not None, normal.mean.shape[1]
        return GaussianPolicy(_moments(call, normal), squash=squash, bounds=normal.bounds, action_dimension=size)
    return DistributionPolicy(call) if correlated_normal_of(first) is None else CorrelatedGaussianPolicy(call)


def categorical_probabilities(returned: Any) -> Array:
    """The probabilities, (n, n_actions), of a categorical distribution; others are refused."""
    known = probabilities_of(returned)
    if known is None:
        raise TypeError(f"discrete actions need a Categorical distribution: got {type(returned).__name__}")
    return known.reshape(-1, known.shape[-1])


def _moments(call: Call, first: Normal) -> Callable[[Array], tuple[Floats, Floats]]:
    """Mean and standard deviation by a function that returns Gaussians, squashed as the first of them was or not."""

    def read(returned: Any, rows: int) -> Array:
        normal = normal_of(returned, rows)
        if normal is None or not normal.one_range or not np.array_equal(_sides(normal), _sides(first)):
            raise TypeError(ANOTHER_KIND.format(f"a Gaussian with independent coordinates, range {first.bounds}"))
        return np.stack([normal.mean, normal.std], axis=1)

    def moments(observations: Array) -> tuple[Floats, Floats]:
        both = call(read, observations)
        return both[:, 0], both[:, 1]

    return moments


def _sides(normal: Normal) -> Floats:
    return np.array(() if normal.bounds is None else normal.bounds)


class DistributionPolicy(TargetPolicy):
    """Continuous actions, by a function that returns `torch.distributions` objects of any kind."""

    def __init__(self, call: Call) -> None:
        self._call = call

    def sample(self, observations: Array, rng: Generator) -> Array:
        """Draw with torch, its global generator put back as it was."""

        def draw(distribution: Distribution, rows: int) -> Array:
            return as_array(distribution.sample()).reshape(rows, -1)

        with torch.random.fork_rng(devices=[]), torch.no_grad():
            torch.manual_seed(int(rng.integers(2**63)))
            return in_batches(self._call.reading(draw), observations)

    def log_prob(self, observations: Array, actions: Array) -> Floats:
        """The log-density of the distribution, summed over coordinates where it keeps them apart."""

        def density(distribution: Distribution, rows: int, chosen: Array) -> Array:
            shape = (*distribution.batch_shape, *distribution.event_shape)
            logs = distribution.log_prob(torch.as_tensor(chosen).reshape(shape))
            total: Floats = as_array(logs).astype(np.float64).reshape(rows, -1).sum(axis=1)
            return total

        with torch.no_grad():
            return self._paired(density, observations, actions)

    def action_moments(self, observations: Array, rng: Generator, draws: int = DRAWS) -> tuple[Floats, Floats]:
        """The distribution's own moments, or those of draws where it has none."""

        def moments(distribution: Distribution, rows: int) -> Array:
            mean, variance = (as_array(part).astype(np.float64) for part in (distribution.mean, distribution.variance))
            return np.stack([mean.reshape(rows, -1), (variance + mean**2).reshape(rows, -1)], axis=1)

        try:
            both = in_batches(self._call.reading(moments), observations)
        except NotImplementedError:  # torch knows no mean of most transformed distributions
            return super().action_moments(observations, rng, draws)
        if not np.isfinite(both).all():  # heavy tails
            return super().action_moments(observations, rng, draws)
        return both[:, 0], both[:, 1]

    def _paired(self, read: Callable[..., Any], observations: Array, actions: Array) -> Array:
        """`read` of the distributions and of the actions that go with them, a batch at a time."""
        chosen = np.asarray(actions)
        return in_batches(lambda rows: self._call(read, observations[rows], chosen[rows]), np.arange(len(chosen)))


class CorrelatedGaussianPolicy(DistributionPolicy):
    """Continuous actions, by a function that returns normal distributions with correlated coordinates."""

    def score(self, observations: Array, actions: Array) -> Floats:
        """L⁻¹(a - mean), with covariance L·Lᵀ: its coordinates are independent and standard normal where π acted."""

        def whiten(returned: Any, rows: int, chosen: Array) -> Array:
            normal = correlated_normal_of(returned)
            if normal is None:
                raise TypeError(ANOTHER_KIND.format("a normal distribution"))
            mean, factor = normal.loc.double(), normal.scale_tril.double()
            away = torch.as_tensor(chosen.astype(np.float64)).reshape(mean.shape) - mean
            solved = torch.linalg.solve_triangular(factor, away[..., None], upper=False)
            return as_array(solved).reshape(rows, -1)

        return self._paired(whiten, observations, actions)
