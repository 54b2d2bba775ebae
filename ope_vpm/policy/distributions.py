"""Parameters of `torch.distributions` objects: probabilities, or the mean and standard deviation of a Gaussian.

A Gaussian is recognised as `Normal`, as `MultivariateNormal` with a diagonal covariance, behind `Independent`, and
behind tanh and affine transforms.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import torch
from torch import distributions as td
from torch.distributions import transforms as tt

from ope_vpm.arrays import Array, Floats
from ope_vpm.policy.calls import as_array


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
