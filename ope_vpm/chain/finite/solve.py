"""Exact answers for a finite chain given as a sparse matrix: stationary laws, discounted laws, Poisson's equation.

Two ways to solve: a factorisation where its fill stays small (few states, or a band after reordering: queues),
else GMRES, which is fast just where factorisations fill up (well-connected chains mix quickly).
"""

from __future__ import annotations

import warnings
from collections.abc import Callable
from typing import Any, cast

import numpy as np
import numpy.typing as npt
from scipy import sparse
from scipy.sparse import csgraph
from scipy.sparse import linalg as splinalg

from ope_vpm.arrays import Floats

SparseMatrix = Any
Indices = npt.NDArray[np.intp]

DENSE_STATES = 500
"""Up to here the law comes by elimination without subtractions, exact however slowly the chain mixes."""
FEW_STATES = 1000
"""Up to here a factorisation is always cheap."""
MANY_STATES = 20_000
"""Beyond this a filled-in factorisation would not fit in memory: GMRES has the last word."""
NEAR = 1e-12
"""How far from singular a factorised I - 𝒯 is kept."""
BAND_ENTRIES = 50_000_000
"""How many entries a banded factorisation may fill."""


class StationaryWarning(UserWarning):
    """The answer stands, but not on the ground one would expect."""


def closed_classes(kernel: SparseMatrix) -> list[Indices]:
    """The sets of states that the chain never leaves, each sorted, largest first."""
    count, label = csgraph.connected_components(kernel, directed=True, connection="strong")
    edges = kernel.tocoo()
    leaves = label[edges.row] != label[edges.col]
    is_closed = np.ones(count, dtype=bool)
    is_closed[label[edges.row[leaves]]] = False
    members = np.argsort(label, kind="stable")
    groups = np.split(members, np.cumsum(np.bincount(label, minlength=count))[:-1])
    return sorted((group for group, keep in zip(groups, is_closed, strict=True) if keep), key=len, reverse=True)


def period(kernel: SparseMatrix, relay: int | None = None) -> int:
    """The period of an irreducible chain: the greatest common divisor of its cycle lengths.

    The way on from the state `relay` takes no time.
    """
    if kernel.diagonal().any():
        return 1
    order, parent = csgraph.breadth_first_order(kernel, 0)
    depth = np.zeros(kernel.shape[0], dtype=np.int64)
    for state in order[1:]:
        depth[state] = depth[parent[state]] + (parent[state] != relay)
    edges = kernel.tocoo()
    return int(np.gcd.reduce(depth[edges.row] + (edges.row != relay) - depth[edges.col]))


def stationary_law(kernel: SparseMatrix, start: Floats) -> Floats:
    """The law that an irreducible chain keeps; `start` is where an iterative solution begins."""
    if kernel.shape[0] <= DENSE_STATES:
        return _by_elimination(kernel.toarray())
    law = _by_inverse_iteration(kernel, start) if factorises(kernel) else None
    if law is None:
        flow = kernel.T.tocsr()
        law = gmres(lambda v: v - flow @ v + start * v.sum(), start, start)
    if law is None and kernel.shape[0] <= MANY_STATES:
        law = _by_inverse_iteration(kernel, start)
    if law is None:
        law = _not_converged(start)
    law = np.maximum(law, 0)
    return cast(Floats, law / law.sum())


def limit_law(kernel: SparseMatrix, start: Floats, classes: list[Indices], relay: int | None = None) -> Floats:
    """Where the chain from `start` spends its time in the long run; with several closed classes, their mixture.

    Time spent in the state `relay` does not count.
    """
    law = np.zeros(kernel.shape[0])
    shares = _absorbed(kernel, start, classes) if len(classes) > 1 else [1.0]
    for members, share in zip(classes, shares, strict=True):
        within = kernel[members][:, members]
        begin = start[members] if start[members].sum() > 0 else np.ones(len(members))
        own = stationary_law(within, begin / begin.sum()) * (members != relay)
        law[members] = share * own / own.sum()
    return law


def poisson(kernel: SparseMatrix, law: Floats, reward: Floats) -> Floats:
    """The h with h - 𝒯h = reward - E_law[reward] on the states that `law` visits, 0 elsewhere."""
    answer = np.zeros(len(law))
    for members in closed_classes(kernel):
        share = law[members] / max(law[members].sum(), 1e-300)
        within = kernel[members][:, members]
        centred = reward[members] - share @ reward[members]
        value = _by_refinement(within, share, centred) if factorises(within) else None
        if value is None:
            value = gmres(_poisson_product(within, share), centred, np.zeros(len(members)))
        answer[members] = _not_converged(centred) if value is None else value
    return answer


def resolvent(kernel: SparseMatrix, rhs: Floats, gamma: float, transposed: bool) -> Floats:
    """Solve (I - γ𝒯)y = rhs, or its transpose, for γ < 1."""
    operator = kernel.T.tocsr() if transposed else kernel
    if not factorises(kernel):
        answer = gmres(lambda v: v - gamma * (operator @ v), rhs, rhs)
        if answer is not None:
            return answer
    system = sparse.identity(kernel.shape[0], format="csc") - gamma * operator.tocsc()
    return cast(Floats, splinalg.splu(system).solve(rhs))


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
    """Solve product(y) = rhs to near machine precision, or give None."""
    size = len(rhs)
    operator = splinalg.LinearOperator((size, size), matvec=product, dtype=np.float64)
    answer, failed = splinalg.gmres(operator, rhs, x0=guess, rtol=1e-13, atol=0, restart=60, maxiter=20)
    return None if failed else answer


def _poisson_product(kernel: SparseMatrix, law: Floats) -> Callable[[Floats], Floats]:
    return lambda v: cast(Floats, v - kernel @ v + law @ v)


def _nearly_singular(kernel: SparseMatrix) -> Any:
    """The factors of I - (1 - 10⁻¹²)𝒯: as good as I - 𝒯 for all but its null space, which the callers take out."""
    system = sparse.identity(kernel.shape[0], format="csc") - (1 - NEAR) * kernel.tocsc()
    return splinalg.splu(system.tocsc())


def _by_inverse_iteration(kernel: SparseMatrix, start: Floats) -> Floats:
    """Each solve shrinks what is not the law by 10⁻¹² times the chain's mixing time, wherever its mass may be."""
    factor, law = _nearly_singular(kernel), start.copy()
    for _ in range(100):
        last, law = law, np.maximum(factor.solve(law, trans="T"), 0)
        law /= law.sum()
        if np.abs(law - last).sum() < 1e-13:
            return cast(Floats, law)
    return _not_converged(law)


def _by_elimination(kernel: Floats) -> Floats:
    """Grassmann, Taksar and Heyman: censor the chain state by state; no subtraction, so no digit is lost."""
    size = len(kernel)
    for last in range(size - 1, 0, -1):
        kernel[:last, last] /= kernel[last, :last].sum()
        kernel[:last, :last] += np.outer(kernel[:last, last], kernel[last, :last])
    law = np.ones(size)
    for state in range(1, size):
        law[state] = law[:state] @ kernel[:state, state]
        law /= law[: state + 1].max()
    return cast(Floats, law / law.sum())


def _by_refinement(kernel: SparseMatrix, law: Floats, centred: Floats) -> Floats:
    """Poisson's equation: solve nearly, then solve for what is left."""
    factor, value = _nearly_singular(kernel), np.zeros(len(law))
    for _ in range(4):
        rest = centred - (value - kernel @ value)
        value = value + factor.solve(rest - law @ rest)
    return value


def _absorbed(kernel: SparseMatrix, start: Floats, classes: list[Indices]) -> list[float]:
    """How much of `start` ends in each closed class."""
    in_class = np.zeros(kernel.shape[0], dtype=bool)
    in_class[np.concatenate(classes)] = True
    passing = np.flatnonzero(~in_class)
    inflow = start.copy()
    if passing.size:
        among = kernel[passing][:, passing]
        system = sparse.identity(passing.size, format="csc") - among.T.tocsc()
        inflow = inflow + splinalg.splu(system.tocsc()).solve(start[passing]) @ kernel[passing]
    total = np.array([inflow[members].sum() for members in classes])
    return list(total / total.sum())


def _not_converged(fallback: Floats) -> Floats:
    warnings.warn(
        "the exact solve did not converge (the chain is large and mixes slowly): use steps=T, "
        "and read the convergence in the diagnostics",
        StationaryWarning,
        stacklevel=2,
    )
    return fallback
