"""Finite states: the power step in closed form on counted transitions."""

from collections.abc import Callable
from dataclasses import dataclass, replace

import numpy as np

from ope_vpm.arrays import Floats, Integers, group_sums
from ope_vpm.chain.divergence import Divergence, divergence
from ope_vpm.chain.finite.chain import named_states, periodicity, reducibility
from ope_vpm.chain.finite.counts import CountedChain, LargestClass, count, largest_class, least_seen
from ope_vpm.chain.monitor import Callback, Damping, Monitor, schedule
from ope_vpm.chain.objective import damped_power_ratio, discounted_power, power_ratio, regularized_minimiser
from ope_vpm.chain.solvers.solution import Solution
from ope_vpm.chain.solvers.tabular_ratio import TabularRatio, counts_by
from ope_vpm.chain.transitions import Transitions

UNSEEN = ("auto", "restart", "good-turing", "restrict")
CLASSES = ("largest", "all")
FEW_STATES = 200
"""Up to so many states power steps take a dense matrix: its product takes less than the 0.2 ms that SciPy spends before
a sparse one."""
MORE_THAN_ONCE_SEEN = 3
"""How many times the share of rows seen once the unseen share may be before states seen once say nothing about it: in
the table of note 003 "good-turing" is still the better treatment at a quotient of 2.1."""
DOUBTFUL_INITIAL = 0.05
"""A share of unseen initial states from which the answer is doubtful: the share of steps to unseen states from which
verdicts on policies ask for caution. The discounted distribution then starts elsewhere with this probability."""
INSTEAD = {
    "restart": ("among the x of the data", "the chain starts from a row of the data instead"),
    "good-turing": ("among the x of the data", "the chain starts from a state seen least often instead"),
    "restrict": ("among the x of the data", "they are left out, and the others count for more"),
    "reversible": ("in the data", "the chain starts from a row of the data instead"),
    "pooled": ("in the range of the data", "the chain starts from the end of the range instead"),
}
"""Where initial states are looked for, and what becomes of those that are not there; by treatment of unseen states."""


@dataclass(frozen=True, kw_only=True)
class Tabular:
    """Counts transitions and finds their stationary distribution.

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
    """Ordered states (queue lengths): shrink each state's distribution of x' - x towards the one of all states. True:
    as far as the data's likelihood says; a number: as if each state had so many more observations. The answer then
    has mass also on states in between where no row is: `probabilities()` shows it, weights cannot."""
    reversible: bool = False
    """Whether the chain satisfies detailed balance, as diffusions in a potential, Metropolis samplers and birth-death
    queues do: the most likely such chain is taken. States that were reached and never left then have a probability, so
    that `unseen` has nothing to do. Standard errors are those of any chain, and wider than need be."""
    classes: str = "largest"
    """What is kept of a counted chain that falls apart, at γ = 1: "largest" keeps the states that lead to one another
    with the most transitions, see `finite.largest`; "all" gives all probability to the states that are never left,
    however few rows they have, and mixes them as the data fall into them. Pooled increments, and successors that are
    given with their probabilities, are always "all"."""

    def __post_init__(self) -> None:
        if self.unseen not in UNSEEN:
            raise ValueError(f"unknown treatment of unseen states {self.unseen!r}: known are {', '.join(UNSEEN)}")
        if self.classes not in CLASSES:
            raise ValueError(f"unknown choice of classes {self.classes!r}: known are {', '.join(CLASSES)}")
        if self.steps is not None and self.steps < 1:
            raise ValueError(f"steps must be at least 1, or None for the fixed point: got {self.steps}")
        if not self.lam > 0:
            raise ValueError(f"lam must be positive: got {self.lam}")
        if not isinstance(self.pool_increments, bool) and not 0 < self.pool_increments < np.inf:
            raise ValueError(f"pool_increments must be True, False or a positive number: got {self.pool_increments}")
        if self.reversible and self.pool_increments is not False:
            raise ValueError("reversible and pool_increments are two models of one chain: choose one of them")
        schedule(self.damping)
        divergence(self.divergence)

    def fit(self, transitions: Transitions, gamma: float, seed: int, callback: Callback | None) -> Solution:
        """Find the ratio; `seed` is not used: nothing here is random."""
        counted, unseen = self._counted(transitions)
        largest = self._largest(transitions, counted, unseen, gamma)
        if largest is not None:
            counted = counts_by(transitions.select(largest.rows), unseen)
        mu, changes, stopped = self._distribution(counted, unseen, gamma, callback)
        mean_ratio = float(mu.sum())
        mu = mu / mean_ratio
        if gamma == 1:
            lost, (doubts, notices) = 0.0, _remarks(counted, self.steps is None, largest)
        else:
            treated = unseen if self.pool_increments is False else "pooled"
            lost, doubts, notices = _initial_remarks(counted, transitions, treated)
        return Solution(
            ratio=self._ratio(transitions, counted, unseen, mu, largest is not None),
            mean_ratio=mean_ratio,
            convergence=changes,
            unseen_mass=float(mu @ counted.unseen),
            unseen_initial=lost,
            notes=["stopped by the user"] if stopped else [],
            warnings=doubts,
            notices=notices,
            settings={"unseen": unseen, "states": len(mu)}
            | ({} if largest is None else {"left out": 1 - largest.share}),
        )

    def ratio(self, transitions: Transitions, gamma: float) -> TabularRatio:
        """The ratio of `fit` with all classes, without remarks on the chain: these may need its exact solution."""
        counted, unseen = self._counted(transitions)
        mu, _, _ = self._distribution(counted, unseen, gamma, None)
        return self._ratio(transitions, counted, unseen, mu / mu.sum(), False)

    def _largest(
        self, transitions: Transitions, counted: CountedChain, unseen: str, gamma: float
    ) -> LargestClass | None:
        """The communicating class that is kept of a reducible chain; None where all states are kept."""
        whole = self.classes == "all" or gamma < 1 or self.pool_increments is not False
        if whole or transitions.next_weight is not None:
            return None
        return largest_class(transitions, counted, unseen)

    def _ratio(
        self, transitions: Transitions, counted: CountedChain, unseen: str, mu: Floats, largest: bool
    ) -> TabularRatio:
        p = counted.p
        if largest:  # rows that leave the class have its weights, too
            row, weight = counted.index(transitions.x), transitions.row_weights
            p = group_sums(row[row >= 0], weight[row >= 0], len(p)) / weight.sum()
        return TabularRatio(counted.index.states, p, mu, unseen, self.pool_increments, self.reversible, largest)

    def _distribution(
        self, counted: CountedChain, unseen: str, gamma: float, callback: Callback | None
    ) -> tuple[Floats, Floats, bool]:
        """μ = pτ by power steps or as their limit; see `_power_steps`."""
        if self.steps is None:
            return counted.distribution(gamma), np.zeros(0), False
        return self._power_steps(counted, gamma, self.steps, unseen == "restart", callback)

    def _counted(self, transitions: Transitions) -> tuple[CountedChain, str]:
        """The counts, and the treatment of unseen states that they were given."""
        pools = self.pool_increments is not False
        chosen = "reversible" if self.reversible else "restart" if pools else self.unseen
        if chosen != "auto":
            return counts_by(transitions, chosen, self.pool_increments), chosen
        counted = count(transitions, "restart")
        unseen = choose_unseen(counted.p, counted.unseen, counted.times)
        return (replace(counted, restart=least_seen(counted.times)) if unseen == "good-turing" else counted), unseen

    def _power_steps(
        self, counted: CountedChain, gamma: float, steps: int, penalised: bool, callback: Callback | None
    ) -> tuple[Floats, Floats, bool]:
        """Damped power iteration from the data's own distribution.

        Returns:
            The last μ = pτ, how much each step changed it, and whether the user stopped the iteration.
        """
        alpha = schedule(self.damping)
        # Pooling gives mass to states without rows, where τ = μ/p does not exist. It loses none, and where none is lost
        # p cancels from every step: any other distribution that is positive everywhere gives the same μ.
        p = counted.p if counted.p.all() else np.full(len(counted.p), 1 / len(counted.p))
        update = self._update(counted, p, gamma, penalised)
        tau = counted.p / p
        with Monitor("power steps", steps, callback) as monitor:
            for step in range(1, steps + 1):
                moved = damped_power_ratio(tau, update(tau), alpha(step))
                change, tau = float(p @ np.abs(moved - tau)), moved
                monitor.report(step, {"change": change})
        changes = np.array([info["change"] for info in monitor.history])
        return p * tau, changes, monitor.interrupted

    def _update(self, counted: CountedChain, p: Floats, gamma: float, penalised: bool) -> Callable[[Floats], Floats]:
        """One undamped power step on τ.

        Lost mass comes back by the counted chain itself; where it is `penalised`, by the minimum of the regularised
        objective instead, whose penalty λ(E_p[τ] - 1)² asks for the mass that the step without it has lost.
        """
        phi = divergence(self.divergence)
        few = len(p) <= FEW_STATES  # then a dense product is faster than what precedes a sparse one
        kernel = (counted.kernel.toarray() if few else counted.kernel) if penalised else counted.chain

        def update(tau: Floats) -> Floats:
            if gamma < 1:
                moved = discounted_power(tau, p, kernel, counted.initial, gamma)
            else:
                moved = power_ratio(tau, p, kernel)
            return regularized_minimiser(moved, p, self.lam, phi) if penalised and counted.lost.any() else moved

        return update


def choose_unseen(p: Floats, unseen: Floats, times: Floats | Integers) -> str:
    """Choose the treatment of unseen states that unseen="auto" stands for.

    States seen once can stand for unseen ones if the rows' x' are drawn much as their x are. Then the share of
    x' that is unseen is about the share of rows whose x occurs once (Good and Turing). Where far more is
    unseen than that (three times), the chain leads away from the data, and once-seen states say nothing about
    where to. No rule that sees transitions only wins everywhere: note 003 has what was measured.

    Args:
        p: the share of the rows that start in each state.
        unseen: the share of each state's successors that were never seen as x.
        times: how many rows start in each state.
    """
    lost = float(p @ unseen)
    once = float((times == 1).sum() / times.sum())
    return "good-turing" if 0 < lost <= MORE_THAN_ONCE_SEEN * once else "restart"


def _remarks(counted: CountedChain, exact: bool, largest: LargestClass | None) -> tuple[list[str], list[str]]:
    """Warnings about the answer (a reducible chain), and notices (a periodic one, rows left out)."""
    chain = counted.chain

    def share(members: Integers) -> float:
        return float(counted.p[members[members < chain.size]].sum())

    def name(members: Integers) -> str:
        return named_states(counted.index.states[members])

    doubts, notices = [reducibility(chain, share, name)], [periodicity(chain, name, exact)]
    if largest is not None:
        (doubts if largest.doubtful else notices).append(str(largest))
    return [doubt for doubt in doubts if doubt], [notice for notice in notices if notice]


def _initial_remarks(
    counted: CountedChain, transitions: Transitions, treatment: str
) -> tuple[float, list[str], list[str]]:
    """The share of initial states that the counts do not know, what makes the answer doubtful, and what to notice."""
    if transitions.x_initial is None:
        return 0.0, [], []
    unknown = counted.index(transitions.x_initial) < 0
    weight = transitions.initial_weights
    share = float(weight[unknown].sum() / weight.sum())
    if share == 0:
        return 0.0, [], []
    if treatment == "restrict" and share == 1:
        treatment = "restart"  # there are no others
    where, instead = INSTEAD[treatment]
    states = named_states(np.unique(transitions.x_initial[unknown & (weight > 0)]))
    text = f"{share:.1%} of the initial states do not occur {where}, {states}: {instead}"
    return (share, [text], []) if share >= DOUBTFUL_INITIAL else (share, [], [text])
