"""Parameters of `torch.distributions` objects: probabilities, or the mean and standard deviation of a Gaussian.

A Gaussian is recognised as `Normal`, as `MultivariateNormal` with a diagonal covariance, behind `Independent`, and
behind tanh and affine transforms.
"""

from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import torch
from torch import distributions as td
from torch.distributions import Distribution
from torch.distributions import transforms as tt

from ope_vpm.arrays import Array, Floats
from ope_vpm.optional import own_generator
from ope_vpm.policy.calls import Call, as_array
from ope_vpm.policy.continuous import GaussianPolicy
from ope_vpm.policy.discrete import CategoricalPolicy
from ope_vpm.policy.target import DRAWS, Generator, TargetPolicy, in_batches


@dataclass(frozen=True, eq=False)
class Normal:
    """Normal coordinates, independent of each other, whose draws may be squashed by tanh."""

    mean: Floats
    """(n, m), before squashing."""
    std: Floats
    """(n, m), before squashing."""
    centre: Floats | None = None
    """(n, m): where tanh is 0 in the units of the actions; None where nothing is squashed."""
    half: Floats | None = None
    """(n, m): what tanh is multiplied by, positive; None where nothing is squashed."""

    @property
    def bounds(self) -> tuple[Floats, Floats] | None:
        """Low and high of squashed actions, (m,); None where nothing is squashed."""
        if self.centre is None or self.half is None:
            return None
        return (self.centre - self.half)[0], (self.centre + self.half)[0]

    @property
    def one_range(self) -> bool:
        """Whether squashed actions fill the same range in every row."""
        sides = [side for side in (self.centre, self.half) if side is not None]
        return all(bool((side == side[:1]).all()) for side in sides)


def probabilities_of(distribution: td.Distribution) -> Array | None:
    """The probabilities of a `Categorical` or `OneHotCategorical`; None for other distributions."""
    base, transforms = _taken_apart(distribution)
    if transforms or not isinstance(base, td.Categorical | td.OneHotCategorical):
        return None
    return as_array(base.probs)


def normal_of(distribution: td.Distribution, rows: int) -> Normal | None:
    """The Gaussian with independent coordinates that a distribution is; None where it is another one.

    Args:
        distribution: with one row per observation; for one observation the row may be missing from its shape.
        rows: the number of observations.
    """
    base, transforms = _taken_apart(distribution)
    if isinstance(base, td.Normal):
        mean, std = base.loc, base.scale
    elif isinstance(base, td.MultivariateNormal) and _diagonal(base.scale_tril):
        mean, std = base.loc, base.scale_tril.diagonal(dim1=-2, dim2=-1)
    else:
        return None
    shape = tuple(mean.shape)
    found: Normal | None = Normal(_in_rows(mean, shape, rows), _in_rows(std, shape, rows))
    for transform in transforms:
        found = None if found is None else _transformed(found, transform, shape)
    return found


def correlated_normal_of(distribution: td.Distribution) -> Any | None:
    """The normal distribution, with `loc` and `scale_tril`, that a distribution is; None where it is another one."""
    base, transforms = _taken_apart(distribution)
    known = isinstance(base, td.MultivariateNormal | td.LowRankMultivariateNormal) and not transforms
    return base if known else None


def is_discrete(distribution: td.Distribution) -> bool:
    """Whether its draws are integers, as far as it tells."""
    try:
        return bool(distribution.support is not None and distribution.support.is_discrete)
    except NotImplementedError:
        return False


def _taken_apart(distribution: td.Distribution) -> tuple[td.Distribution, list[tt.Transform]]:
    """The distribution behind `Independent` and transforms, and the transforms in the order of their application."""
    transforms: list[tt.Transform] = []
    while isinstance(distribution, td.Independent | td.TransformedDistribution):
        if isinstance(distribution, td.TransformedDistribution):
            transforms = [*_single(distribution.transforms), *transforms]
        distribution = distribution.base_dist
    return distribution, transforms


def _single(transforms: Iterable[tt.Transform]) -> Iterator[tt.Transform]:
    """Compositions and transforms of independent coordinates, one by one."""
    for transform in transforms:
        if isinstance(transform, tt.ComposeTransform):
            yield from _single(transform.parts)
        elif isinstance(transform, tt.IndependentTransform):
            yield from _single([transform.base_transform])
        else:
            yield transform


def _transformed(normal: Normal, transform: tt.Transform, shape: tuple[int, ...]) -> Normal | None:
    """A Gaussian after tanh or an affine transform; None for other transforms."""
    rows = len(normal.mean)
    if isinstance(transform, tt.TanhTransform):
        nothing = np.zeros_like(normal.mean)
        return replace(normal, centre=nothing, half=nothing + 1.0) if normal.centre is None else None
    if not isinstance(transform, tt.AffineTransform):
        return None
    loc, scale = (_in_rows(part, shape, rows) for part in (transform.loc, transform.scale))
    if normal.centre is None or normal.half is None:
        return replace(normal, mean=loc + scale * normal.mean, std=np.abs(scale) * normal.std)
    # tanh is odd: a negative stretch after it is a positive one of the mirrored Gaussian
    mirrored = np.sign(scale) * normal.mean
    return replace(normal, mean=mirrored, centre=loc + scale * normal.centre, half=np.abs(scale) * normal.half)


def _in_rows(values: Any, shape: tuple[int, ...], rows: int) -> Floats:
    """Parameters of a distribution, which broadcast to its shape, as (rows, m)."""
    if rows != 1 and shape[:1] != (rows,):
        raise ValueError(
            f"a distribution must have one row for each of the {rows} observations: its shape is {shape} "
            "(pass batched=False if the function takes one observation at a time)"
        )
    return np.broadcast_to(as_array(values).astype(np.float64), shape).reshape(rows, -1)


def _diagonal(factor: torch.Tensor) -> bool:
    return not bool(torch.tril(factor, diagonal=-1).any())


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

        with own_generator(int(rng.integers(2**63))), torch.no_grad():
            return in_batches(self._call.reading(draw), observations)

    def log_prob(self, observations: Array, actions: Array) -> Floats:
        """The log-density of the distribution, summed over coordinates where it keeps them apart."""

        def density(distribution: Distribution, rows: int, chosen: Array) -> Array:
            shape = (*distribution.batch_shape, *distribution.event_shape)
            logs = distribution.log_prob(torch.as_tensor(chosen).reshape(shape))
            return as_array(logs).astype(np.float64).reshape(rows, -1).sum(axis=1)

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
