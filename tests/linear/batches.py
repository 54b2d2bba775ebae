"""Batches of given features, for tests."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np

from ope_vpm.arrays import Floats
from ope_vpm.linear.moments import Batch, Moments


@dataclass(frozen=True)
class Given:
    """Features that are there already, cut into batches at some rows."""

    phi: Floats
    phi_next: Floats
    weight: Floats | None = None
    reward: Floats | None = None
    first: Floats | None = None
    """φ of initial states."""
    cuts: tuple[int, ...] = ()

    def __len__(self) -> int:
        return len(self.phi)

    @property
    def size(self) -> int:
        return self.phi.shape[1]

    @property
    def next_size(self) -> int:
        return self.phi_next.shape[1]

    def __iter__(self) -> Iterator[Batch]:
        whole = Batch(np.arange(len(self)), self.phi, self.phi_next, self.weight, self.reward)
        for rows in np.split(np.arange(len(self)), self.cuts):
            yield whole.select(rows)

    def initial(self) -> Iterator[tuple[Floats, None]]:
        if self.first is not None:
            yield self.first, None


def by_hand(**options: object) -> Given:
    """Three rows of φ = (1, s): s = 1 → 3, 2 → 1, and 3 → the end; rewards 1, 2, 3; one initial state, s = 1."""
    return Given(
        np.array([[1.0, 1.0], [1.0, 2.0], [1.0, 3.0]]),
        np.array([[1.0, 3.0], [1.0, 1.0], [0.0, 0.0]]),
        reward=np.array([1.0, 2.0, 3.0]),
        first=np.array([[1.0, 1.0]]),
        **options,
    )


def random_rows(n: int, size: int, next_size: int, seed: int = 0) -> Given:
    """Random features after a constant, with random weights and rewards."""
    rng = np.random.default_rng(seed)
    phi, phi_next = rng.standard_normal((n, size)), rng.standard_normal((n, next_size))
    phi[:, 0] = phi_next[:, 0] = 1
    weight = rng.uniform(size=n) * (rng.uniform(size=n) > 0.2)
    return Given(phi, phi_next, weight, rng.standard_normal(n), rng.standard_normal((5, next_size)))


def same(one: Moments, other: Moments) -> None:
    """Assert that two sums over rows are equal."""
    for name, value in vars(one).items():
        np.testing.assert_allclose(value, getattr(other, name), rtol=1e-12, atol=1e-12, err_msg=name)
