"""Finite states: the power step in closed form on counted transitions."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from ope_vpm.arrays import Array, Floats
from ope_vpm.chain.divergence import Divergence, divergence
from ope_vpm.chain.finite import solve as linear
from ope_vpm.chain.finite.counts import CountedChain, StateIndex, count, least_seen
from ope_vpm.chain.finite.pooling import pooled
from ope_vpm.chain.monitor import Callback, Monitor
from ope_vpm.chain.objective import regularized_minimiser
from ope_vpm.chain.schedule import Damping, schedule
from ope_vpm.chain.solvers.solution import Solution, ValueFunction
from ope_vpm.chain.transitions import Transitions

UNSEEN = ("auto", "restart", "good-turing", "restrict")


@dataclass(frozen=True, kw_only=True)
class Tabular:
    """Counts transitions and finds the law they keep.

    With every x' also seen as x, p cancels and this is power iteration on the counted chain. What to do with
    mass that reaches an x' never seen as x decides the rest:

    * "restart" starts it again from the data: the closed form of the penalty λ(E_p[τ] - 1)²;
    * "good-turing" starts it again from the states seen exactly once, which are most like the unseen ones;
    * "restrict" scales each row's known successors up;
    * "auto" takes "good-turing" where rarely seen states can stand for unseen ones, else "restart"
      (see `choose_unseen`).
    """

    name = "tabular"

    steps: int | None = None
    """Power steps; None: the exact fixed point."""
    damping: Damping = 1.0
    """α of a power step. The paper's 1/√t makes 1000 steps worth 62: too few on slow chains."""
    lam: float = 1.0
    """λ, for "restart" with a number of steps; at γ = 1 their limit is the same for all λ > 0."""
    divergence: str | Divergence = "quadratic"
    """φ, for "restart" with a number of steps: it decides how lost mass comes back."""
    unseen: str = "auto"
    pool_increments: bool | float = False
    """Ordered states (queue lengths): shrink each state's law of x' - x towards the one of all states. True:
    as far as the data's likelihood says; a number: as if each state had so many more observations. The law then
    has mass also on states in between where no row is: `probabilities()` shows it, weights cannot."""

    def __post_init__(self) -> None:
        if self.unseen not in UNSEEN:
            raise ValueError(f"unknown treatment of unseen states {self.unseen!r}: known are {', '.join(UNSEEN)}")
        if self.steps is not None and self.steps < 1:
            raise ValueError(f"steps must be at least 1, or None for the fixed point: got {self.steps}")
        if not self.lam > 0:
            raise ValueError(f"lam must be positive: got {self.lam}")
        if not isinstance(self.pool_increments, bool) and not 0 < self.pool_increments < np.inf:
            raise ValueError(f"pool_increments must be True, False or a positive number: got {self.pool_increments}")
        schedule(self.damping)
        divergence(self.divergence)

    def fit(self, transitions: Transitions, gamma: float, seed: int, callback: Callback | None) -> Solution:
        """Find the ratio; `seed` is not used: nothing here is random."""
        chain, unseen = self._chain(transitions)
        classes = linear.closed_classes(chain.with_relay()) if gamma == 1 else []
        if self.steps is None:
            mu, history, stopped = fixed_point(chain, gamma, classes), np.zeros(0), False
        else:
            mu, history, stopped = self._power_steps(chain, gamma, unseen, callback)
        mean_ratio = float(mu.sum())
        mu = mu / mean_ratio
        ratio = TabularRatio(chain.index.states, chain.p, mu, unseen, self.pool_increments)
        return Solution(
            ratio=ratio,
            mean_ratio=mean_ratio,
            convergence=history,
            unseen_mass=float(mu @ chain.unseen),
            notes=["stopped by the user"] if stopped else [],
            warnings=_class_warnings(chain, classes, oscillates=self.steps is not None),
            settings={"unseen": unseen, "states": len(mu)},
        )

    def _chain(self, transitions: Transitions) -> tuple[CountedChain, str]:
        if self.pool_increments is not False:
            return pooled(transitions, self.pool_increments), "restart"
        if self.unseen != "auto":
            return count(transitions, self.unseen), self.unseen
        chain = count(transitions, "restart")
        unseen = choose_unseen(chain)
        return (replace(chain, restart=least_seen(chain.times)) if unseen == "good-turing" else chain), unseen

    def _power_steps(
        self, chain: CountedChain, gamma: float, unseen: str, callback: Callback | None
    ) -> tuple[Floats, Floats, bool]:
        """Damped power iteration from τ = 1: the law, its changes, and whether the user stopped it."""
        assert self.steps is not None
        alpha, phi = schedule(self.damping), divergence(self.divergence)
        mu = chain.p
        with Monitor("power steps", self.steps, callback) as monitor:
            for step in range(1, self.steps + 1):
                target = _step(chain, mu, gamma, phi, self.lam, penalised=unseen == "restart")
                moved = (1 - alpha(step)) * mu + alpha(step) * target
                change, mu = float(np.abs(moved - mu).sum()), moved
                monitor.report(step, {"change": change})
        history = np.array([info["change"] for info in monitor.history])
        return mu, history, monitor.interrupted


@dataclass(frozen=True)
class TabularRatio:
    """τ = μ/p over finite states."""

    kind = "tabular"

    states: Any
    """The labels of the states, sorted."""
    p: Floats
    mu: Floats
    unseen: str
    pool_increments: bool | float

    def __call__(self, x: Array) -> Floats:
        """τ(x); 0 for a state never seen, where there is no data to weigh."""
        number = StateIndex.of(self.states)(x)
        tau = np.divide(self.mu, self.p, out=np.zeros_like(self.mu), where=self.p > 0)
        return np.where(number >= 0, tau[number], 0.0)

    def probabilities(self, states: Array) -> Floats:
        """The stationary probability of each of some states."""
        number = StateIndex.of(self.states)(states)
        return np.where(number >= 0, self.mu[number], 0.0)

    def value_function(self, transitions: Transitions, values: Floats, gamma: float) -> ValueFunction:
        """H with h = values - E_μ[values] + 𝒯h (γ = 1), or h = values + γ𝒯h."""
        pool = self.pool_increments
        chain = count(transitions, self.unseen) if pool is False else pooled(transitions, pool)
        row = chain.index(transitions.x)
        total = np.bincount(np.maximum(row, 0), weights=transitions.row_weights * values, minlength=len(chain.p))
        times = chain.p * len(transitions)
        reward = np.divide(total, times, out=np.zeros_like(total), where=times > 0)
        value = _value(chain, reward, gamma)

        def evaluate(x: Array) -> Floats:
            number = chain.index(x)
            return np.where(number >= 0, value[number], chain.restart @ value)

        return evaluate

    def arrays(self) -> dict[str, Any]:
        """Everything, for saving."""
        return {"states": self.states, "p": self.p, "mu": self.mu}

    def settings(self) -> dict[str, Any]:
        """Everything that is not an array, for saving."""
        return {"unseen": self.unseen, "pool_increments": self.pool_increments}


def fixed_point(chain: CountedChain, gamma: float, classes: list[linear.Indices]) -> Floats:
    """The law that the chain keeps (γ = 1, over its closed classes), or its discounted law from the initial states."""
    kernel, size = chain.with_relay(), len(chain.p)
    relay = kernel.shape[0] > size
    if gamma < 1:
        if relay:  # passing through the relay takes no time, so it is not discounted
            kernel = kernel.copy()
            kernel.data[kernel.indices == size] /= gamma if gamma > 0 else 1.0
        return linear.resolvent(kernel, (1 - gamma) * np.append(chain.initial, [0.0] * relay), gamma, True)[:size]
    start = np.append(chain.p, [0.0] * relay)
    return linear.limit_law(kernel, start, classes, relay=size)[:size]


def choose_unseen(chain: CountedChain) -> str:
    """The rule behind unseen="auto".

    States seen once can stand for unseen ones if the rows' x' are drawn much as their x are. Then the share of
    x' that is unseen is about the share of rows whose x occurs once (Good and Turing). Where far more is
    unseen than that (three times), the chain leads away from the data, and once-seen states say nothing about
    where to. No rule that sees transitions only wins everywhere: docs/solvers.md has what was measured.
    """
    lost = float(chain.p @ chain.unseen)
    once = float((chain.times == 1).sum() / chain.times.sum())
    return "good-turing" if 0 < lost <= 3 * once else "restart"


def _step(chain: CountedChain, mu: Floats, gamma: float, phi: Divergence, lam: float, penalised: bool) -> Floats:
    """One undamped power step: eq:discounted_power, with the unseen mass where it belongs."""
    moved = mu @ chain.kernel if penalised else chain.step(mu)
    if gamma < 1:
        moved = gamma * moved + (1 - gamma) * chain.initial
    if not penalised or not chain.leak.any():
        return np.asarray(moved)
    return chain.p * regularized_minimiser(moved / chain.p, chain.p, lam, phi)


def _value(chain: CountedChain, reward: Floats, gamma: float) -> Floats:
    """H over the chain's states: Poisson's equation, or the discounted value."""
    kernel, size = chain.with_relay(), len(chain.p)
    relay = kernel.shape[0] > size
    padded = np.append(reward, [0.0] * relay)
    if gamma < 1:
        if relay:
            kernel = kernel.copy()
            kernel.data[kernel.indices == size] /= gamma if gamma > 0 else 1.0
        return linear.resolvent(kernel, padded, gamma, False)[:size]
    classes = linear.closed_classes(kernel)
    law = linear.limit_law(kernel, np.append(chain.p, [0.0] * relay), classes)
    for members in classes if relay else ():
        if members[-1] == size:  # the relay takes no time: with its class's own average it adds nothing
            padded[-1] = law[members[:-1]] @ reward[members[:-1]] / law[members[:-1]].sum()
    return linear.poisson(kernel, law, padded)[:size]


def _class_warnings(chain: CountedChain, classes: list[linear.Indices], oscillates: bool) -> list[str]:
    """What to say where the chain has no single law, or a power iteration on it does not settle."""
    if not classes:
        return []
    kernel, size = chain.with_relay(), len(chain.p)
    share = [float(chain.p[members[members < size]].sum()) for members in classes]
    names = "; ".join(_describe(chain, members[members < size]) for members in classes[:5]) + (
        "; …" if len(classes) > 5 else ""
    )
    notes = []
    if len(classes) > 1:
        notes.append(
            f"the counted chain is reducible: {len(classes)} closed classes, {names}; the answer mixes them by "
            "where the data's own mass ends"
        )
    elif share[0] < 0.95:
        notes.append(
            f"the counted chain is reducible: all mass ends in a closed class with {share[0]:.0%} of the rows, {names}"
        )
    periods = [_period(kernel, members, relay=size) for members in classes]
    if max(periods) > 1:
        settles = "power steps may not settle: use damping=0.5" if oscillates else "its law is the average over time"
        notes.append(f"the counted chain is periodic (period {max(periods)}), {names}: {settles}")
    return notes


def _period(kernel: Any, members: linear.Indices, relay: int) -> int:
    inside = np.flatnonzero(members == relay)
    return linear.period(kernel[members][:, members], int(inside[0]) if inside.size else None)


def _describe(chain: CountedChain, members: Any) -> str:
    labels = chain.index.states[members]
    listed = ", ".join(map(str, labels[:8])) + (", …" if len(labels) > 8 else "")
    return f"{len(labels)} state{'s' if len(labels) != 1 else ''} {{{listed}}}"
