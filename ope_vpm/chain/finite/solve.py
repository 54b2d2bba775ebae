"""Sparse linear algebra of finite Markov chains: closed classes, periods, and the linear systems of `FiniteChain`.

There are two ways to solve a system: a factorisation where its fill stays small (few states, or a narrow band after
reordering, as for queues), otherwise GMRES, which is fast just where factorisations fill up: well-connected chains mix
quickly. The matrix of transition probabilities is called 𝒯 throughout, 𝒯[i, j] being the probability to move from i
to j.
"""

import warnings
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, cast

import numpy as np
from scipy import sparse
from scipy.sparse import csgraph
from scipy.sparse import linalg as splinalg

from ope_vpm.arrays import Bools, Floats, Integers
from ope_vpm.threads import cached_property

SparseMatrix = Any

DENSE_STATES = 500
"""Up to so many states the stationary distribution is found by elimination without subtractions, which is exact however
slowly the chain mixes; beyond it a dense matrix and its n³ operations cost more than the alternatives."""
FEW_STATES = 1000
"""Up to so many states a factorisation is always cheap: even if it fills in completely it has 10⁶ entries."""
MANY_STATES = 20_000
"""Beyond so many states a factorisation that fills in (n² entries, 3 GB) would not fit in memory: GMRES has the last
word."""
DISTANCE_FROM_SINGULAR = 1e-12
"""I - 𝒯 is singular, so I - (1 - 10⁻¹²)𝒯 is factorised instead: as near as double precision allows."""
BAND_ENTRIES = 50_000_000
"""How many entries a banded factorisation may fill: 400 MB."""
GMRES_TOLERANCE = 1e-13
"""The residual of GMRES relative to the right-hand side: near machine precision, so that its answers can be called
exact."""
GMRES_RESTART, GMRES_ROUNDS = 60, 20
"""GMRES keeps 60 vectors at a time and gives up after 20 rounds of them."""
REFINEMENTS = 4
"""Rounds in which Poisson's equation is solved again for what is left of its right-hand side; each costs one triangular
solve."""


class StationaryWarning(UserWarning):
    """The answer stands, but not on the ground one would expect."""


def closed_classes(kernel: SparseMatrix) -> list[Integers]:
    """The sets of states that the chain never leaves and moves about in, each sorted, the largest first."""
    count, label = csgraph.connected_components(kernel, directed=True, connection="strong")
    edges = kernel.tocoo()
    leaves = label[edges.row] != label[edges.col]
    is_closed = np.ones(count, dtype=bool)
    is_closed[label[edges.row[leaves]]] = False
    members = np.argsort(label, kind="stable")
    groups = np.split(members, np.cumsum(np.bincount(label, minlength=count))[:-1])
    return sorted((group for group, keep in zip(groups, is_closed, strict=True) if keep), key=len, reverse=True)


def period(kernel: SparseMatrix, instantaneous: Bools) -> int:
    """The period of an irreducible chain: the greatest common divisor of the lengths of its cycles.

    Args:
        kernel: the transition probabilities.
        instantaneous: the states that are passed through in no time: leaving them does not make a cycle longer.
    """
    if kernel.diagonal().any():
        return 1
    time = 1 - instantaneous.astype(np.int64)
    order, parent = csgraph.breadth_first_order(kernel, 0)
    depth = np.zeros(kernel.shape[0], dtype=np.int64)
    for state in order[1:]:
        depth[state] = depth[parent[state]] + time[parent[state]]
    edges = kernel.tocoo()
    return int(np.gcd.reduce(depth[edges.row] + time[edges.row] - depth[edges.col]))


def stationary_distribution(kernel: SparseMatrix, start: Floats) -> Floats:
    """The μ with μ = μ𝒯 of an irreducible chain; `start` is the distribution from which iterations begin."""
    if kernel.shape[0] <= DENSE_STATES:
        return _by_elimination(kernel.toarray())
    mu = _by_inverse_iteration(kernel, start) if factorises(kernel) else None
    if mu is None:
        flow = kernel.T.tocsr()
        mu = gmres(lambda v: v - flow @ v + start * v.sum(), start, start)
    if mu is None and kernel.shape[0] <= MANY_STATES:
        mu = _by_inverse_iteration(kernel, start)
    if mu is None:
        mu = _not_converged(start)
    mu = np.maximum(mu, 0)
    return mu / mu.sum()


def poisson(kernel: SparseMatrix, mu: Floats, centred: Floats) -> Floats:
    """The h with h - 𝒯h = `centred` of an irreducible chain, up to a constant.

    Args:
        kernel: the transition probabilities.
        mu: the chain's stationary distribution.
        centred: rewards with mean 0 under `mu`.
    """
    value = _by_refinement(kernel, mu, centred) if factorises(kernel) else None
    if value is None:
        value = gmres(lambda v: cast(Floats, v - kernel @ v + mu @ v), centred, np.zeros(len(mu)))
    return _not_converged(centred) if value is None else value


def resolvent(discounted: SparseMatrix, rhs: Floats, transposed: bool) -> Floats:
    """The y with (I - M)y = rhs, or with (I - Mᵀ)y = rhs, for a matrix M = γ𝒯 whose powers vanish."""
    return Resolvent(discounted)(rhs, transposed)


@dataclass(frozen=True, eq=False)
class Resolvent:
    """(I - M)⁻¹ for a matrix M = γ𝒯 whose powers vanish; where it is factorised, that is done once."""

    discounted: SparseMatrix

    def __call__(self, rhs: Floats, transposed: bool) -> Floats:
        """The y with (I - M)y = rhs, or with (I - Mᵀ)y = rhs."""
        if not factorises(self.discounted):
            operator = self.discounted.T.tocsr() if transposed else self.discounted
            answer = gmres(lambda v: v - operator @ v, rhs, rhs)
            if answer is not None:
                return answer
        return self._factors.solve(rhs, "T" if transposed else "N")

    @cached_property
    def _factors(self) -> Any:
        return splinalg.splu(sparse.identity(self.discounted.shape[0], format="csc") - self.discounted.tocsc())


def shares_of_classes(kernel: SparseMatrix, start: Floats, classes: list[Integers]) -> Floats:
    """How much of the mass `start` ends in each of the closed classes, summing to 1."""
    if len(classes) == 1:
        return np.ones(1)
    inflow = start + passes_before_classes(kernel, start, classes) @ kernel
    total = np.array([inflow[members].sum() for members in classes])
    return total / total.sum()


def passes_before_classes(kernel: SparseMatrix, start: Floats, classes: list[Integers]) -> Floats:
    """The expected number of visits to each transient state before a closed class is reached; 0 within the classes."""
    transient, passes = _transient(kernel.shape[0], classes), np.zeros(kernel.shape[0])
    if transient.size:
        among = kernel[transient][:, transient]
        passes[transient] = resolvent(among, start[transient], True)
    return passes


def extended_to_transient(kernel: SparseMatrix, values: Floats, classes: list[Integers]) -> Floats:
    """The g with g = 𝒯g in transient states and g = `values` within closed classes."""
    transient, whole = _transient(kernel.shape[0], classes), np.array(values)
    if transient.size:
        whole[transient] = 0
        leaving = kernel[transient]
        whole[transient] = resolvent(leaving[:, transient], leaving @ whole, False)
    return whole


def _transient(size: int, classes: list[Integers]) -> Integers:
    """The states in no closed class."""
    in_class = np.zeros(size, dtype=bool)
    in_class[np.concatenate(classes)] = True
    return np.flatnonzero(~in_class)


def factorises(kernel: SparseMatrix) -> bool:
    """Whether I - 𝒯 can be factorised without filling memory."""
    size = kernel.shape[0]
    if size <= FEW_STATES:
        return True
    order = np.empty(size, dtype=np.intp)
    order[csgraph.reverse_cuthill_mckee(kernel)] = np.arange(size)
    edges = kernel.tocoo()
    band = int(np.abs(order[edges.row] - order[edges.col]).max(initial=0))
    return bool(band * size <= BAND_ENTRIES)


def gmres(product: Callable[[Floats], Floats], rhs: Floats, guess: Floats) -> Floats | None:
    """The y with product(y) = rhs to near machine precision, or None where the iteration does not reach it."""
    size = len(rhs)
    operator = splinalg.LinearOperator((size, size), matvec=product, dtype=np.float64)
    limits = {"rtol": GMRES_TOLERANCE, "atol": 0, "restart": GMRES_RESTART, "maxiter": GMRES_ROUNDS}
    answer, failed = splinalg.gmres(operator, rhs, x0=guess, **limits)
    return None if failed else answer


def factors(system: SparseMatrix) -> Any:
    """The sparse LU factors of a square system."""
    return splinalg.splu(system.tocsc())


def _nearly_singular(kernel: SparseMatrix) -> Any:
    """The factors of I - (1 - 10⁻¹²)𝒯: as good as I - 𝒯 for all but its null space, which the callers take out."""
    system = sparse.identity(kernel.shape[0], format="csc") - (1 - DISTANCE_FROM_SINGULAR) * kernel.tocsc()
    return splinalg.splu(system.tocsc())


def _by_inverse_iteration(kernel: SparseMatrix, start: Floats) -> Floats:
    """Each solve shrinks what is not stationary by 10⁻¹² times the chain's mixing time, wherever its mass may be."""
    factor, mu = _nearly_singular(kernel), start.copy()
    for _ in range(100):
        last, mu = mu, np.maximum(factor.solve(mu, trans="T"), 0)
        mu /= mu.sum()
        if np.abs(mu - last).sum() < 1e-13:
            return mu
    return _not_converged(mu)


def _by_elimination(kernel: Floats) -> Floats:
    """Grassmann, Taksar and Heyman: censor the chain state by state; no subtraction, so no digit is lost."""
    size = len(kernel)
    for last in range(size - 1, 0, -1):
        kernel[:last, last] /= kernel[last, :last].sum()
        kernel[:last, :last] += np.outer(kernel[:last, last], kernel[last, :last])
    mu = np.ones(size)
    for state in range(1, size):
        mu[state] = mu[:state] @ kernel[:state, state]
        mu /= mu.max()
    return mu / mu.sum()


def _by_refinement(kernel: SparseMatrix, mu: Floats, centred: Floats) -> Floats:
    """Poisson's equation: solve nearly, then solve for what is left."""
    factor, value = _nearly_singular(kernel), np.zeros(len(mu))
    for _ in range(REFINEMENTS):
        rest = centred - (value - kernel @ value)
        value = value + factor.solve(rest - mu @ rest)
    return value


def _not_converged(fallback: Floats) -> Floats:
    warnings.warn(
        "the exact solve did not converge (the chain is large and mixes slowly): use steps=T, "
        "and read the convergence in the diagnostics",
        StationaryWarning,
        stacklevel=2,
    )
    return fallback
