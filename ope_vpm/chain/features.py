"""Feature maps for the kernel solver: a constant, then functions that span a ball of an RKHS."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
from scipy.linalg import eigh
from scipy.spatial.distance import cdist, pdist

from ope_vpm.chain.transitions import Array, Floats, Transitions

SAMPLE = 2000
"""Rows that stand for the data where a scale is estimated."""


@dataclass(frozen=True)
class FourierFeatures:
    """[1, √2 cos ωᵀz, √2 sin ωᵀz] of the standardised z, ω ~ N(0, I/bandwidth²): the Gaussian kernel."""

    kind = "fourier"

    centre: Floats
    scale: Floats
    frequencies: Floats
    """One column per ω, shape (d, D/2)."""

    @classmethod
    def draw(cls, sample: Floats, number: int, bandwidth: float, rng: np.random.Generator) -> FourierFeatures:
        """Draw frequencies for data that looks like `sample`."""
        centre, scale = standardisation(sample)
        return cls(centre, scale, rng.standard_normal((sample.shape[1], number // 2)) / bandwidth)

    def __call__(self, x: Array) -> Floats:
        """Shape (n, 1 + D); torch takes cosines several times faster than numpy."""
        angle = torch.from_numpy((x - self.centre) / self.scale @ self.frequencies)
        half = angle.shape[1]
        out = torch.empty((len(x), 1 + 2 * half), dtype=torch.float64)
        out[:, 0] = 1
        torch.cos(angle, out=out[:, 1 : half + 1])
        torch.sin(angle, out=out[:, half + 1 :])
        out[:, 1:] *= np.sqrt(2)
        return out.numpy()

    def arrays(self) -> dict[str, Any]:
        """Everything, for saving."""
        return {"centre": self.centre, "scale": self.scale, "frequencies": self.frequencies}


@dataclass(frozen=True)
class NystromFeatures:
    """[1, K(z, landmarks) K(landmarks, landmarks)^{-1/2}] with the Gaussian kernel K of the standardised z."""

    kind = "nystrom"

    centre: Floats
    scale: Floats
    landmarks: Floats
    """Standardised, shape (D, d)."""
    whitening: Floats
    bandwidth: float

    @classmethod
    def draw(cls, sample: Floats, number: int, bandwidth: float, rng: np.random.Generator) -> NystromFeatures:
        """Take landmarks from `sample`."""
        centre, scale = standardisation(sample)
        chosen = rng.choice(len(sample), size=min(number, len(sample)), replace=False)
        landmarks = (sample[chosen] - centre) / scale
        value, vector = eigh(_gaussian(landmarks, landmarks, bandwidth))
        kept = value > 1e-10 * value[-1]
        whitening = vector[:, kept] / np.sqrt(value[kept])
        return cls(centre, scale, landmarks, whitening, bandwidth)

    def __call__(self, x: Array) -> Floats:
        """Shape (n, 1 + D)."""
        closeness = _gaussian((x - self.centre) / self.scale, self.landmarks, self.bandwidth)
        return np.hstack([np.ones((len(x), 1)), closeness @ self.whitening])

    def arrays(self) -> dict[str, Any]:
        """Everything, for saving."""
        names = ("centre", "scale", "landmarks", "whitening", "bandwidth")
        return {name: np.asarray(getattr(self, name)) for name in names}


Features = FourierFeatures | NystromFeatures
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


def standardisation(sample: Floats) -> tuple[Floats, Floats]:
    """Centre and scale of each coordinate; a constant one keeps scale 1."""
    deviation = sample.std(axis=0)
    return sample.mean(axis=0), np.where(deviation > 1e-12 * (1 + np.abs(sample).max(axis=0)), deviation, 1.0)


def median_bandwidth(sample: Floats) -> float:
    """The median distance between standardised points."""
    centre, scale = standardisation(sample)
    median = float(np.median(pdist(((sample - centre) / scale)[:1000])))
    return median if median > 0 else 1.0


def _gaussian(a: Floats, b: Floats, bandwidth: float) -> Floats:
    kernel: Floats = np.exp(cdist(a, b, "sqeuclidean") / (-2 * bandwidth**2))
    return kernel
