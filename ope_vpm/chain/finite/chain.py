"""A finite Markov chain and its exact answers: where it spends its time, and what each of its states is worth."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
from scipy import sparse

from ope_vpm.arrays import Floats, Integers
from ope_vpm.chain.finite import solve
from ope_vpm.chain.finite.solve import SparseMatrix
from ope_vpm.threads import cached_property

MOST_NAMED_CLASSES = 5
"""How many closed classes a sentence names before it becomes too long to read."""
NEARLY_ALL = 0.95
"""A single closed class with this share of the rows needs no warning: a few transient states are nothing unusual."""


@dataclass(frozen=True)
class ClosedClass:
    """States that the chain never leaves once it is among them."""

    members: Integers
    """The numbers of the states, instantaneous ones included."""
    visits: Floats
    """How often each is passed in the long run, summing to 1."""


@dataclass(frozen=True, eq=False)
class FiniteChain:
    """A Markov chain on the states 0 … n-1, some of whose steps lead through instantaneous states.

    A step from i goes straight to j with probability `kernel[i, j]`, and by way of the instantaneous state k with
    probability `enter[i, k]·leave[k, j]`. Passing through takes no time: both moves together are one step. So the
    transition matrix is 𝒯 = kernel + enter·leave, whose second part has a low rank and would not be sparse. Rows that
    sum to less than 1 belong to chains that may end, which only discounting can deal with.
    """

    kernel: SparseMatrix
    """(n, n), sparse."""
    enter: SparseMatrix
    """(n, m), sparse."""
    leave: SparseMatrix
    """(m, n), sparse."""

    __array_ufunc__ = None  # so that numpy leaves mu @ chain to the chain

    @classmethod
    def plain(cls, kernel: SparseMatrix) -> FiniteChain:
        """A chain without instantaneous states."""
        size = kernel.shape[0]
        return cls(kernel, sparse.csr_array((size, 0)), sparse.csr_array((0, size)))

    @property
    def transposed(self) -> FiniteChain:
        """The chain whose `mean_after` is a step of this one, for solvers that take products from one side."""
        return FiniteChain(self.kernel.T.tocsr(), self.leave.T.tocsr(), self.enter.T.tocsr())

    @property
    def size(self) -> int:
        """How many states there are, instantaneous ones left out."""
        return int(self.kernel.shape[0])

    def __rmatmul__(self, mu: Floats) -> Floats:
        """One step: `mu @ chain` is the distribution after it."""
        return mu @ self.kernel + (mu @ self.enter) @ self.leave

    def distribution(self, start: Floats, gamma: float) -> Floats:
        """The discounted distribution μ = (1-γ)·start + γμ𝒯; at γ = 1 the long-run share of time in each state.

        Args:
            start: the distribution of the first state. At γ = 1 it decides only how much of the time several closed
                classes get.
            gamma: the discount.
        """
        if gamma < 1:
            return self._resolvent(gamma)(self._padded((1 - gamma) * start), True)[: self.size]
        mu = np.zeros(self._extended.shape[0])
        classes = self.closed_classes
        shares = solve.shares_of_classes(self._extended, self._padded(start), [each.members for each in classes])
        for each, share in zip(classes, shares, strict=True):
            time = each.visits * (each.members < self.size)
            mu[each.members] = share * time / time.sum()
        return mu[: self.size]

    def value_function(self, reward: Floats, gamma: float) -> Floats:
        """The h with h = reward + γ𝒯h; at γ = 1 with h = reward - average + 𝒯h.

        At γ = 1 the average is each closed class's own, h has mean 0 in the long run of each of them, and states that
        the chain leaves for ever have h = 0.
        """
        if gamma < 1:
            return self._resolvent(gamma)(self._padded(reward), False)[: self.size]
        value, padded = np.zeros(self._extended.shape[0]), self._padded(reward)
        for each in self.closed_classes:
            takes_time = each.members < self.size
            time = each.visits * takes_time
            average = time @ padded[each.members] / time.sum()
            centred = np.where(takes_time, padded[each.members] - average, 0.0)
            within = self._extended[each.members][:, each.members]
            h = solve.poisson(within, each.visits, centred)
            value[each.members] = h - time @ h / time.sum()  # the solver leaves a constant that is rounding error
        return value[: self.size]

    def signed(self, reward: Floats, start: Floats) -> tuple[Floats, Floats]:
        """H and μ at γ = 1 where moves through instantaneous states may count negatively, as regressions do.

        h + average = reward + 𝒯h with `start`·h = 0, and μ = μ𝒯 with mass 1, from one bordered system

            [I - 𝒯  1; start 0] [h; average] = [reward; 0].

        Args:
            reward: one number per state.
            start: a distribution over states, from which the solution is reached.

        Returns:
            h and μ.
        """
        size = self._extended.shape[0]
        if not solve.factorises(self._extended):
            h = solve.gmres(lambda v: v - self.mean_after(v) + start @ v, reward, np.zeros(self.size))
            flow = self.transposed
            mu = solve.gmres(lambda m: m - flow.mean_after(m) + start * m.sum(), start, start)
            if h is not None and mu is not None:
                return h - start @ h, mu / mu.sum()
        one, end = self._padded(np.ones(self.size)), np.append(np.zeros(size), 1.0)
        border = sparse.csc_array(one[:, None]), sparse.csc_array(self._padded(start)[None])
        balance = sparse.identity(size, format="csc") - self._extended
        factor = solve.factors(sparse.block_array([[balance, border[0]], [border[1], None]], format="csc"))
        h, mu = factor.solve(np.append(self._padded(reward), 0.0)), factor.solve(end, "T")
        return h[: self.size], mu[: self.size]

    def restarted(self, start: Floats, reward: Floats, share: float) -> tuple[Floats, Floats] | None:
        """The stationary distribution of the chain that begins anew with a probability in each step, and its h.

        That is μ = (1 - share)·μ𝒯 + share·start, the discounted distribution, and with γ = 1 - share the
        h = reward - E_μ[reward] + γ𝒯h, which has mean 0 under `start`. None where the chain is large, mixes slowly and
        cannot be factorised.

        Args:
            start: the distribution of the state in which it begins anew.
            reward: one number per state.
            share: the probability of that, small.
        """
        gamma = 1 - share
        if solve.factorises(self._extended):
            mu = self.distribution(start, gamma)
            return mu, self.value_function(reward - mu @ reward, gamma)
        # With γ·start added for all mass the system has no eigenvalue next to 0, and the same solutions: μ has mass 1,
        # and h mean 0 under `start`.
        flow = self.transposed
        found = solve.gmres(lambda v: v - gamma * flow.mean_after(v) + gamma * start * v.sum(), start, start)
        if found is None:
            return None
        centred = reward - found @ reward
        h = solve.gmres(lambda v: v - gamma * self.mean_after(v) + gamma * (start @ v), centred, np.zeros(self.size))
        return None if h is None else (found, h)

    def mean_after(self, h: Floats) -> Floats:
        """The mean of h after one step from each state, 𝒯h."""
        return self.kernel @ h + self.enter @ (self.leave @ h)

    def gain(self, reward: Floats) -> Floats:
        """The average reward in the long run from each state, which differs where there are several closed classes."""
        gain, padded = np.zeros(self._extended.shape[0]), self._padded(reward)
        for each in self.closed_classes:
            time = each.visits * (each.members < self.size)
            gain[each.members] = time @ padded[each.members] / time.sum()
        members = [each.members for each in self.closed_classes]
        return solve.extended_to_transient(self._extended, gain, members)[: self.size]

    def passes(self, start: Floats) -> Floats:
        """The expected number of visits to each transient state on the way from `start`; 0 within closed classes."""
        members = [each.members for each in self.closed_classes]
        return solve.passes_before_classes(self._extended, self._padded(start), members)[: self.size]

    @cached_property
    def closed_classes(self) -> list[ClosedClass]:
        """The closed classes, the largest first."""
        classes = []
        for members in solve.closed_classes(self._extended):
            within = self._extended[members][:, members]
            even = np.full(len(members), 1 / len(members))
            classes.append(ClosedClass(members, solve.stationary_distribution(within, even)))
        return classes

    @property
    def period(self) -> int:
        """The largest period among the closed classes."""
        members = [each.members for each in self.closed_classes]
        return max(solve.period(self._extended[some][:, some], some >= self.size) for some in members)

    @cached_property
    def _extended(self) -> SparseMatrix:
        """The transition matrix with the instantaneous states as states of their own, numbered after the others."""
        return self._blocks(1.0)

    def _resolvent(self, gamma: float) -> solve.Resolvent:
        """The solver of (I - γ𝒯)y = b, cached by discount."""
        if gamma not in self._resolvents:
            self._resolvents[gamma] = solve.Resolvent(self._blocks(gamma))
        return self._resolvents[gamma]

    @cached_property
    def _resolvents(self) -> dict[float, solve.Resolvent]:
        return {}

    def _blocks(self, gamma: float) -> SparseMatrix:
        """γ times the extended matrix, but for the moves into instantaneous states: a step is discounted once."""
        if not self.enter.nnz:
            return gamma * self.kernel
        return sparse.block_array([[gamma * self.kernel, self.enter], [gamma * self.leave, None]], format="csr")

    def _padded(self, values: Floats) -> Floats:
        """Numbers for the states, and 0 for the instantaneous ones."""
        return np.append(values, np.zeros(self._extended.shape[0] - self.size))


def reducibility(chain: FiniteChain, share: Callable[[Integers], float], name: Callable[[Integers], str]) -> str | None:
    """A warning where there is no single stationary distribution, or one on a small part of the data; else None.

    Args:
        chain: the chain.
        share: the share of the data's rows in the states of a closed class.
        name: words for these states.
    """
    classes = chain.closed_classes
    named = names_of_classes(chain, name)
    if len(classes) > 1:
        return (
            f"the counted chain is reducible: {len(classes)} closed classes, {named}; the answer mixes them by "
            "where the data's own mass ends"
        )
    only = share(classes[0].members)
    if only < NEARLY_ALL:
        return f"the counted chain is reducible: all mass ends in a closed class with {only:.0%} of the rows, {named}"
    return None


def periodicity(chain: FiniteChain, name: Callable[[Integers], str], exact: bool) -> str | None:
    """A warning about a periodic chain, on which a power iteration oscillates for ever; else None."""
    period = chain.period
    if period == 1:
        return None
    settles = (
        "its stationary distribution is the average over time"
        if exact
        else "power steps may not settle: use damping=0.5"
    )
    return f"the counted chain is periodic (period {period}), {names_of_classes(chain, name)}: {settles}"


def names_of_classes(chain: FiniteChain, name: Callable[[Integers], str]) -> str:
    """The closed classes in words, as many as one can read."""
    members = [each.members[each.members < chain.size] for each in chain.closed_classes]
    more = "; …" if len(members) > MOST_NAMED_CLASSES else ""
    return "; ".join(name(each) for each in members[:MOST_NAMED_CLASSES]) + more


def named_states(labels: Any) -> str:
    """Some states by number, such as "3 states {4, 7, 9}"."""
    listed = ", ".join(map(str, labels[:8])) + (", …" if len(labels) > 8 else "")
    return f"{len(labels)} state{'s' if len(labels) != 1 else ''} {{{listed}}}"
