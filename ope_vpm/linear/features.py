"""Feature maps φ: a constant, then functions whose span is close to the functions of a Gaussian kernel."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any, Protocol

import numpy as np
import numpy.typing as npt
from scipy.linalg import eigh

from ope_vpm.arrays import ROUNDING, Array, Floats, Integers, chunks, mean_and_deviation

BATCH_ROWS = 4096
"""Rows whose features are held at once: enough for fast matrix products, few enough for the processor's cache."""
CONSTANT = 1e-12
"""A coordinate whose standard deviation is below this share of its size is constant: what varies is rounding."""
TAIL = 0.001
"""The share of the data on each side that a standardiser limited to the data's range cuts off. A plain minimum and
maximum would be set by one outlier."""
CACHED = 1 << 14
"""Numbers whose cosines are taken together, so that what is in between stays in the processor's cache."""
BANDWIDTH_ROWS = 1000
"""Rows of which all pairwise distances are taken: half a million distances settle a median to a few per mille."""
SMALLEST_EIGENVALUE = 1e-10
"""Relative to the largest eigenvalue of the landmarks' kernel matrix: smaller ones are rounding errors."""


@dataclass(frozen=True)
class Standardiser:
    """x → z = (x - mean)/std, each coordinate of z kept within [low, high].

    The limits matter for states outside the data. They say nothing about the function that is fitted; left where they
    are, they let a smooth function grow without bound in a region where no data hold it down.
    """

    mean: Floats
    std: Floats
    """Where a coordinate is constant its size, or 1: in that unit the rounding of its mean is nothing."""
    low: Floats
    """The least z; -inf where there is no limit."""
    high: Floats

    @classmethod
    def fit(cls, sample: npt.ArrayLike) -> Standardiser:
        """The mean and standard deviation of each coordinate of a sample, without limits; of a constant its size."""
        values = np.asarray(sample)
        mean, deviation = mean_and_deviation(values)
        largest = np.maximum(values.max(axis=0).astype(np.float64), -values.min(axis=0).astype(np.float64))
        std = np.where(deviation > CONSTANT * largest, deviation, np.where(largest > 0, largest, 1.0))
        unlimited = np.full_like(std, np.inf)
        return cls(mean, std, -unlimited, unlimited)

    def of_columns(self, columns: Integers) -> Standardiser:
        """The scaling of some of the coordinates."""
        return Standardiser(self.mean[columns], self.std[columns], self.low[columns], self.high[columns])

    @classmethod
    def unit(cls, dimension: int) -> Standardiser:
        """The identity, for coordinates that are standardised already."""
        unlimited = np.full(dimension, np.inf)
        return cls(np.zeros(dimension), np.ones(dimension), -unlimited, unlimited)

    def within(self, limit: float) -> Standardiser:
        """A standardiser that keeps z within `limit` standard deviations of the mean."""
        return replace(self, low=np.full_like(self.std, -limit), high=np.full_like(self.std, limit))

    def within_range(self, sample: Floats) -> Standardiser:
        """A standardiser that keeps z where all of a sample's coordinates but 1 in 500 lie."""
        low, high = (np.quantile(sample, [TAIL, 1 - TAIL], axis=0) - self.mean) / self.std
        return replace(self, low=low, high=high)

    def __call__(self, x: Array) -> Floats:
        """The standardised coordinates as float64, in the shape of x."""
        z: Floats = x - self.mean
        z /= self.std
        return np.clip(z, self.low, self.high, out=z)

    @classmethod
    def from_arrays(cls, arrays: dict[str, Any]) -> Standardiser:
        """Read what `arrays` wrote, possibly among other arrays."""
        return cls(arrays["centre"], arrays["scale"], arrays["low"], arrays["high"])

    def arrays(self) -> dict[str, Any]:
        """All numbers, for saving; mean and std have the names that they have in saved files."""
        return {"centre": self.mean, "scale": self.std, "low": self.low, "high": self.high}


@dataclass(frozen=True)
class DistinctColumns:
    """x → z: the columns of x that vary, standardised, each once, in an order that is not that of x.

    A constant column, a column that is there twice (perhaps in other units), the order of the columns and their units
    say nothing about the states, and so they must not move a feature, a kernel's bandwidth or a random draw.
    """

    whole: Standardiser
    """The standardiser of all columns of x."""
    columns: Integers
    """Those of x that z has, in the order of z; one that is constant where all are."""
    source: Integers
    """(columns of x,): the column of z that tells what is in it; -1 where it is constant."""

    @classmethod
    def fit(cls, sample: Array, time: Integers) -> DistinctColumns:
        """Scales and order from a sample.

        Columns are ordered by their third and fourth moments and their trend in time, in units of their deviation:
        numbers that depend neither on units nor on the order of the rows or the columns.

        Args:
            sample: (n, columns).
            time: (n,): the time of each row in its episode.
        """
        whole, rest = Standardiser.fit(sample), np.zeros((2, sample.shape[1]))
        when = Standardiser.fit(time[:, None])
        for part in chunks(len(sample), of=[sample]):
            z = whole(sample[part])
            square = z * z
            rest += square.sum(axis=0), (square * z + square * square / 3 + when(time[part][:, None]) * z).sum(axis=0)
        key = np.round(rest[1] / max(len(sample), 1), 6)  # ties stay in the order of the columns
        columns: list[int] = []
        source = np.full(sample.shape[1], -1)
        for column in np.argsort(key, kind="stable"):
            if rest[0, column] <= len(sample) / 2:  # z² of a column that varies has mean 1
                continue
            if not columns or key[columns[-1]] != key[column] or not _same(whole, sample, columns[-1], int(column)):
                columns.append(int(column))
            source[column] = len(columns) - 1
        return cls(whole, np.array(columns or [0], dtype=np.int64), source)

    @property
    def size(self) -> int:
        """The number of columns of z."""
        return len(self.columns)

    def __call__(self, x: Array) -> Floats:
        """Z of each row, shape (n, size)."""
        return self.whole.of_columns(self.columns)(x[:, self.columns])

    def restored(self, z: Floats) -> Floats:
        """All columns of x again, shape (n, columns of x)."""
        full: Floats = np.where(self.source >= 0, z[:, self.source], 0.0)
        return full * self.whole.std + self.whole.mean


def _same(whole: Standardiser, sample: Array, one: int, other: int) -> bool:
    """Whether two columns are the same but for their units and rounding."""
    z = [whole.of_columns(np.array([column]))(sample[:, [column]]) for column in (one, other)]
    return bool(np.abs(z[0] - z[1]).max() <= ROUNDING * np.abs(z[0]).max())


class Features(Protocol):
    """A map from states to a constant and some functions of them."""

    kind: str

    def __call__(self, x: Array) -> Floats:
        """Shape (n, D), the first column 1."""

    def arrays(self) -> dict[str, Any]:
        """All numbers, for saving."""


@dataclass(frozen=True)
class FourierFeatures:
    """[1, cos ωᵀz, sin ωᵀz] of the standardised z, with ω ~ N(0, I/bandwidth²).

    Their inner products approximate the Gaussian kernel, up to a factor (Rahimi and Recht 2007). With `linear` the
    coordinates of z are features, too, after the constant.
    """

    kind = "fourier"

    standardise: Standardiser
    frequencies: Floats
    """One ω per column, shape (d, number of frequencies)."""
    linear: bool = False

    @classmethod
    def draw(cls, sample: Floats, number: int, bandwidth: float, rng: np.random.Generator) -> FourierFeatures:
        """Draw `number` features for data like `sample`, z being limited to the sample's range."""
        standardise = Standardiser.fit(sample).within_range(sample)
        return cls(standardise, draw_frequencies(sample.shape[1], number, bandwidth, rng))

    @property
    def size(self) -> int:
        """The number of features D."""
        dimension, number = self.frequencies.shape
        return int(1 + self.linear * dimension + 2 * number)

    def __call__(self, x: Array) -> Floats:
        """Shape (n, D)."""
        out = np.empty((len(x), self.size))
        self.fill(x, out)
        return out

    def fill(self, x: Array, out: Array) -> None:
        """Write the features of x into `out`, shape (n, D), in its precision, double or single."""
        z = self.standardise(x).astype(out.dtype, copy=False)
        angle = z @ self.frequencies.astype(out.dtype, copy=False)
        out[:, 0] = 1
        if self.linear:
            out[:, 1 : 1 + z.shape[1]] = z
        first, half = self.size - 2 * angle.shape[1], angle.shape[1]
        cosines(angle, out[:, first : first + half], out[:, first + half :])

    def arrays(self) -> dict[str, Any]:
        """All numbers, for saving."""
        return {**self.standardise.arrays(), "frequencies": self.frequencies, "linear": np.asarray(self.linear)}


@dataclass(frozen=True)
class NystromFeatures:
    """[1, K(z, landmarks) K(landmarks, landmarks)^{-1/2}] with the Gaussian kernel K of the standardised z."""

    kind = "nystrom"

    standardise: Standardiser
    landmarks: Floats
    """Standardised, shape (landmarks, d)."""
    whitening: Floats
    """K(landmarks, landmarks)^{-1/2}, without the directions whose eigenvalue is rounding."""
    bandwidth: float

    @classmethod
    def draw(cls, sample: Floats, number: int, bandwidth: float, rng: np.random.Generator) -> NystromFeatures:
        """Take `number` landmarks from `sample`, z being limited to the sample's range."""
        standardise = Standardiser.fit(sample).within_range(sample)
        chosen = rng.choice(len(sample), size=min(number, len(sample)), replace=False)
        landmarks = standardise(sample[chosen])
        value, vector = eigh(_gaussian(landmarks, landmarks, bandwidth))
        kept = value > SMALLEST_EIGENVALUE * value[-1]
        whitening = vector[:, kept] / np.sqrt(value[kept])
        return cls(standardise, landmarks, whitening, bandwidth)

    def __call__(self, x: Array) -> Floats:
        """Shape (n, 1 + kept directions)."""
        closeness = _gaussian(self.standardise(x), self.landmarks, self.bandwidth)
        return np.hstack([np.ones((len(x), 1)), closeness @ self.whitening])

    def arrays(self) -> dict[str, Any]:
        """All numbers, for saving."""
        names = ("landmarks", "whitening", "bandwidth")
        return self.standardise.arrays() | {name: np.asarray(getattr(self, name)) for name in names}


FEATURES: dict[str, type[FourierFeatures] | type[NystromFeatures]] = {
    "fourier": FourierFeatures,
    "nystrom": NystromFeatures,
}
"""The feature maps that can be chosen by name."""


def cosines(angle: Array, cosine: Array, sine: Array | None = None) -> None:
    """Write the cosines, and the sines if they are wanted, of angles of shape (n, k) into arrays of that shape.

    In double precision by t = tan(angle/2): cos = (1 - t²)/(1 + t²) and sin = 2t/(1 + t²), to 2e-16. One tangent takes
    a quarter of the time of NumPy's cosine and sine, which are only fast in single precision.
    """
    for rows in chunks(len(angle), max(1, CACHED // max(angle.shape[1], 1))):
        if angle.dtype == np.float32:
            cosine[rows] = np.cos(angle[rows])
            if sine is not None:
                sine[rows] = np.sin(angle[rows])
            continue
        t = np.tan(angle[rows] / 2)
        square = t * t
        below = 1 + square
        np.divide(1 - square, below, out=cosine[rows])
        if sine is not None:
            np.divide(t + t, below, out=sine[rows])


def draw_frequencies(dimension: int, number: int, bandwidth: float, rng: np.random.Generator) -> Floats:
    """Frequencies for `number` Fourier features, a cosine and a sine each: shape (dimension, number // 2)."""
    return rng.standard_normal((dimension, number // 2)) / bandwidth


def combination(features: Features, x: Array, coefficients: Floats) -> Floats:
    """The function φ(x)ᵀcoefficients at some states; the features of a few thousand of them are held at once."""
    out = np.empty(len(x))
    for rows in chunks(len(x), BATCH_ROWS, of=[x]):
        out[rows] = features(x[rows]) @ coefficients
    return out


def median_bandwidth(sample: Floats) -> float:
    """The median distance between standardised states; 1 where it is 0."""
    from scipy.spatial.distance import pdist  # imported here: it takes long, and few need it

    standardise = Standardiser.fit(sample).within_range(sample)
    median = float(np.median(pdist(standardise(sample[:: max(1, len(sample) // BANDWIDTH_ROWS)]))))
    return median if median > 0 else 1.0


def _gaussian(a: Floats, b: Floats, bandwidth: float) -> Floats:
    from scipy.spatial.distance import cdist  # imported here: it takes long, and few need it

    return np.exp(cdist(a, b, "sqeuclidean") / (-2 * bandwidth**2))
