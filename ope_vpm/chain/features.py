"""Feature maps for the kernel solver: a constant, then functions that span a ball of an RKHS."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Protocol

import numpy as np
import torch
from scipy.linalg import eigh
from scipy.spatial.distance import cdist, pdist

from ope_vpm.arrays import Array, Floats
from ope_vpm.chain.transitions import Transitions

SAMPLE = 2000
"""Rows that stand for the data where a scale is estimated."""


@dataclass(frozen=True)
class Standardiser:
    """x → z = (x - centre)/scale, held within the data's own range.

    A next state far outside all data says nothing about the ratio there; left where it is, it lets a smooth ratio
    grow without bound on a region that no data holds down.
    """

    centre: Floats
    scale: Floats
    low: Floats
    high: Floats

    @classmethod
    def of(cls, sample: Floats) -> Standardiser:
        """Mean and deviation of each coordinate (1 where it is constant), and where all but 1 in 500 lie."""
        centre, deviation = sample.mean(axis=0), sample.std(axis=0)
        scale = np.where(deviation > 1e-12 * (1 + np.abs(sample).max(axis=0)), deviation, 1.0)
        low, high = (np.quantile(sample, [0.001, 0.999], axis=0) - centre) / scale
        return cls(centre, scale, low, high)

    def __call__(self, x: Array) -> Floats:
        """Shape (n, d), float64."""
        z: Floats = (x - self.centre) / self.scale
        return np.clip(z, self.low, self.high, out=z)

    @classmethod
    def from_arrays(cls, arrays: dict[str, Any]) -> Standardiser:
        """What `arrays` gave, found among others."""
        return cls(**{name: arrays[name] for name in ("centre", "scale", "low", "high")})

    def arrays(self) -> dict[str, Any]:
        """Everything, for saving."""
        return {name: getattr(self, name) for name in ("centre", "scale", "low", "high")}


@dataclass(frozen=True)
class FourierFeatures:
    """[1, cos ωᵀz, sin ωᵀz] of the standardised z, ω ~ N(0, I/bandwidth²): the Gaussian kernel, but for a factor."""

    kind = "fourier"

    standardise: Standardiser
    frequencies: Floats
    """One column per ω, shape (d, D/2)."""

    @classmethod
    def draw(cls, sample: Floats, number: int, bandwidth: float, rng: np.random.Generator) -> FourierFeatures:
        """Draw frequencies for data that looks like `sample`."""
        return cls(Standardiser.of(sample), rng.standard_normal((sample.shape[1], number // 2)) / bandwidth)

    def __call__(self, x: Array) -> Floats:
        """Shape (n, 1 + D); torch takes cosines several times faster than numpy."""
        angle = torch.from_numpy(self.standardise(x) @ self.frequencies)
        half = angle.shape[1]
        out = torch.empty((len(x), 1 + 2 * half), dtype=torch.float64)
        out[:, 0] = 1
        torch.cos(angle, out=out[:, 1 : half + 1])
        torch.sin(angle, out=out[:, half + 1 :])
        return out.numpy()

    def arrays(self) -> dict[str, Any]:
        """Everything, for saving."""
        return {**self.standardise.arrays(), "frequencies": self.frequencies}


@dataclass(frozen=True)
class NystromFeatures:
    """[1, K(z, landmarks) K(landmarks, landmarks)^{-1/2}] with the Gaussian kernel K of the standardised z."""

    kind = "nystrom"

    standardise: Standardiser
    landmarks: Floats
    """Standardised, shape (D, d)."""
    whitening: Floats
    bandwidth: float

    @classmethod
    def draw(cls, sample: Floats, number: int, bandwidth: float, rng: np.random.Generator) -> NystromFeatures:
        """Take landmarks from `sample`."""
        standardise = Standardiser.of(sample)
        chosen = rng.choice(len(sample), size=min(number, len(sample)), replace=False)
        landmarks = standardise(sample[chosen])
        value, vector = eigh(_gaussian(landmarks, landmarks, bandwidth))
        kept = value > 1e-10 * value[-1]
        whitening = vector[:, kept] / np.sqrt(value[kept])
        return cls(standardise, landmarks, whitening, bandwidth)

    def __call__(self, x: Array) -> Floats:
        """Shape (n, 1 + D)."""
        closeness = _gaussian(self.standardise(x), self.landmarks, self.bandwidth)
        return np.hstack([np.ones((len(x), 1)), closeness @ self.whitening])

    def arrays(self) -> dict[str, Any]:
        """Everything, for saving."""
        names = ("landmarks", "whitening", "bandwidth")
        return self.standardise.arrays() | {name: np.asarray(getattr(self, name)) for name in names}


class Features(Protocol):
    """A map from points to a constant and some functions of them."""

    kind: str

    def __call__(self, x: Array) -> Floats:
        """Shape (n, 1 + D), the first column 1."""

    def arrays(self) -> dict[str, Any]:
        """Everything, for saving."""


FEATURES: dict[str, type[FourierFeatures] | type[NystromFeatures]] = {
    "fourier": FourierFeatures,
    "nystrom": NystromFeatures,
}


def sample_rows(transitions: Transitions, rng: np.random.Generator) -> Floats:
    """Some of the rows' x, drawn by weight, as float64."""
    weight = None if transitions.weight is None else transitions.weight / transitions.weight.sum()
    n = len(transitions)
    rows = rng.choice(n, size=SAMPLE, p=weight) if n > SAMPLE or weight is not None else np.arange(n)
    return np.asarray(transitions.x[np.sort(rows)], dtype=np.float64)


def median_bandwidth(sample: Floats) -> float:
    """The median distance between standardised points."""
    median = float(np.median(pdist(Standardiser.of(sample)(sample[:: max(1, len(sample) // 1000)]))))
    return median if median > 0 else 1.0


def _gaussian(a: Floats, b: Floats, bandwidth: float) -> Floats:
    kernel: Floats = np.exp(cdist(a, b, "sqeuclidean") / (-2 * bandwidth**2))
    return kernel
