"""What if the log hides something? Bounds of the value when its policy acted by causes that were not logged.

Where what was not observed multiplies the odds of an action by no more than Λ and divides them by no more (the marginal
sensitivity model of Tan, 2006), the next reward and state after action a may be distributed otherwise than logged where
another action was taken, and the least that Q(s, a) can be is, with y = r + γV(s'),

    Q = α·E[y] + (1 - α)·CVaR_τ[y],   α = b + (1 - b)/Λ,   τ = 1/(1 + Λ),

b the log's own probability of a in s and CVaR_τ the mean of the worst share τ of outcomes (Bruns-Smith and Zhou, 2023,
arXiv 2302.00662); the most is the same with the best share. V is the target's mean of Q, so that the bounds hold for
causes that are drawn anew at each step. They are fixed points of counts, reached by policy iteration of an adversary
who chooses the outcomes; with a time limit, by going backwards from it. Continuous states: see `adversary`.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from scipy import sparse
from scipy.sparse.linalg import spsolve

from ope_vpm.arrays import Floats, Integers, group_sums, is_number, number_codes
from ope_vpm.ope.finite.counts import PairCounts
from ope_vpm.ope.finite.problem import finite_problem
from ope_vpm.ope.inference.doubts import Level
from ope_vpm.ope.inference.logged_mean import logged_mean
from ope_vpm.ope.inference.value import PolicyValue
from ope_vpm.ope.problem import Problem
from ope_vpm.ope.questions.adversary import LinearOutcomes
from ope_vpm.ope.questions.returns import ending_counts
from ope_vpm.outside import Shown, printable

GRID = (1.0, 1.25, 1.5, 2.0, 3.0, 5.0)
"""Odds ratios: 1.25 to 2 are those of moderate causes in medicine, 5 is larger than any single measured one there."""
ROUNDS = 100
"""Rounds of policy iteration, which needs four to eight."""
UNKNOWN = 0.05
"""The share of steps with unknown outcomes from which it is told: as large as a reader would round to none."""
SAME = 1e-10
"""Relative change of the value at which it has converged."""


@dataclass(frozen=True, eq=False)
class Sensitivity(Shown):
    """Bounds of the return of an episode or of the value, by how much hidden causes may matter."""

    grid: Floats
    """Odds ratios Λ, rising; at 1 nothing is hidden, and both bounds are the value."""
    lower: Floats
    upper: Floats
    noise: tuple[float, float]
    """How far the interval of the value reaches below and above it, for noise alone: add it to the bounds."""
    logged: float
    """What the log's own policy is worth; hidden causes do not move it."""
    per: str
    unknown: float = 0.0
    """The share of the target's steps with pairs that were logged once or never: nobody saw what else may follow them,
    and the bounds take their outcome as it is."""
    verdict: Level = "reliable"
    """The verdict of the value that the bounds are around."""

    @property
    def value(self) -> float:
        """The estimated value if nothing is hidden."""
        return float(self.lower[0])

    def tipping(self, threshold: float | None = None) -> float | None:
        """The odds ratio from which on the value may lie on the other side of a threshold.

        Args:
            threshold: a number, or what the log's own policy is worth.

        Returns:
            Λ between two of the grid by straight lines; None where none on the grid is large enough.
        """
        threshold = self.logged if threshold is None else threshold
        if not is_number(threshold):
            raise ValueError(f"a threshold must be a finite number: got {threshold!r}")
        room = self.lower - threshold if self.value >= threshold else threshold - self.upper
        if not (room <= 0).any():
            return None
        first = int(np.argmax(room <= 0))
        if first == 0:
            return 1.0
        share = room[first - 1] / (room[first - 1] - room[first])
        return float(self.grid[first - 1] + share * (self.grid[first] - self.grid[first - 1]))

    def at(self, odds: float) -> tuple[float, float]:
        """Both bounds at an odds ratio within the grid."""
        if not self.grid[0] <= odds <= self.grid[-1]:
            raise ValueError(f"odds must lie within the grid, 1 to {self.grid[-1]:g}: got {odds}")
        return float(np.interp(odds, self.grid, self.lower)), float(np.interp(odds, self.grid, self.upper))

    @property
    def sentence(self) -> str:
        """A summary in one sentence."""
        odds = float(self.grid[np.argmin(np.abs(np.log(self.grid[1:] / 2))) + 1]) if len(self.grid) > 1 else 1.0
        low, high = self.at(odds)
        times = "two" if odds == 2 else f"{odds:g}"
        said = (
            f"If the log's policy knew something that multiplies the odds of an action by {times}, the "
            f"{'return of an episode' if self.per == 'episode' else 'value'} may be as low as {low:.4g} or as high as "
            f"{high:.4g} in place of {self.value:.4g}"
        )
        tips, own = self.tipping(), f"the log's own {self.logged:.4g}"
        side = "above" if self.value >= self.logged else "below"
        if tips is None:
            said += f"; it stays {side} {own} up to odds of {self.grid[-1]:g}."
        else:
            said += f"; from odds of {tips:.3g} on it need not be {side} {own}." if tips > 1 else f"; that is {own}."
        if self.unknown > UNKNOWN:
            said += (
                f" {self.unknown:.0%} of the target's steps were logged once or never: what causes hide there is open."
            )
        return said + (" The value itself is unreliable." if self.verdict == "unreliable" else "")

    def as_dict(self) -> dict[str, Any]:
        """Plain values, ready for JSON."""
        return {
            "value": self.value,
            "per": self.per,
            "odds": self.grid.tolist(),
            "lower": self.lower.tolist(),
            "upper": self.upper.tolist(),
            "logged": self.logged,
            "tipping": self.tipping(),
            "unknown": self.unknown,
            "verdict": self.verdict,
            "sentence": self.sentence,
        }

    def plot(self, ax: Any = None) -> Any:
        """Both bounds by the odds ratio, beside the log's own mean, on axes of matplotlib, which are returned."""
        from ope_vpm.ope.reporting.plots import plot_bounds

        return plot_bounds(self, ax)

    def __str__(self) -> str:
        bounds = zip(self.grid, self.lower, self.upper, strict=True)
        rows = [f"  {odds:6.4g}  [{low:.6g}, {high:.6g}]" for odds, low, high in bounds]
        return "\n".join(map(printable, [self.sentence, "  odds    bounds, before noise", *rows]))


def check_grid(grid: Sequence[float] | Floats) -> Floats:
    """Rising odds ratios from 1 on, 1 among them; refused where one is below 1 or no number."""
    given = np.asarray(grid)
    if given.dtype.kind not in "iuf" or given.size == 0 or not np.isfinite(given).all() or given.min() < 1:
        raise ValueError(f"odds ratios must be finite numbers of at least 1, such as [1, 1.5, 2]: got {grid!r}")
    return np.unique(np.append(1.0, given.astype(np.float64)))


def sensitivity(problem: Problem, value: PolicyValue, odds: Floats) -> Sensitivity:
    """The bounds around a value.

    Args:
        problem: the question.
        value: its answer.
        odds: odds ratios, rising from 1.
    """
    lead = value.lead
    if problem.streamed:
        raise ValueError("sensitivity needs all rows at once: read them into memory with load_dataset")
    if problem.gamma < 1 and problem.on_end == "restart":
        raise ValueError("sensitivity needs on_end='absorb' below gamma = 1")
    model = _Model.of(problem) if problem.finite else LinearOutcomes.of(problem)
    plain = model.bound(1.0, 1.0)
    below, above = ([sign * model.bound(each, sign) - plain for each in odds] for sign in (1.0, -1.0))
    lower = lead.value + np.minimum.accumulate([0.0, *below])[1:]  # what smaller odds allow larger ones do
    upper = lead.value + np.maximum.accumulate([0.0, *above])[1:]
    if lead is value and value.possible is not None:
        lower, upper = (np.clip(each, *value.possible) for each in (lower, upper))
    low, high = lead.interval or (-np.inf, np.inf)
    logged = logged_mean(problem)
    own = logged.per_episode if value.per == "episode" and logged.per_episode is not None else logged
    noise = min(low - lead.value, 0.0), max(high - lead.value, 0.0)
    unknown = _unknown(problem) if problem.finite else 0.0
    return Sensitivity(odds, lower, upper, noise, own.value, value.per, unknown, lead.verdict)


def _unknown(problem: Problem) -> float:
    """The probability of pairs that were logged once or never under the target, in logged states."""
    ending, counts, _ = ending_counts(problem)
    often = np.where(counts.times > 1, finite_problem(ending).probability, 0.0)
    return float(1 - counts.logged_states @ group_sums(counts.state_of_pair, often, counts.states))


@dataclass(frozen=True, eq=False)
class _Model:
    """Distinct outcomes of seen pairs, and the target on them."""

    counts: PairCounts
    pair: Integers
    """(outcomes,): rising."""
    reward: Floats
    after: Integers
    """(outcomes,): the next state; that beyond the last stands for the end."""
    share: Floats
    """(outcomes,): the probability of each in its pair."""
    logged: Floats
    """(pairs,): b(a|s), how often the log took each pair's action in its state."""
    policy: sparse.csr_array
    """(states + 1, pairs): π(a|s) scaled up over seen actions; the logged mixture where nothing was seen."""
    gamma: float
    limit: int | None
    episodic: bool

    @classmethod
    def of(cls, problem: Problem) -> _Model:
        """Count a problem on finite states and actions."""
        _, counts, probability = ending_counts(problem)
        states = counts.states
        rows, columns = counts.state_of_pair, np.arange(counts.pairs)
        lost = np.flatnonzero(counts.actions_seen == 0)
        everywhere = np.repeat(lost, counts.pairs), np.tile(columns, len(lost))
        mixture = np.tile(counts.times / counts.times.sum(), len(lost))
        entries = np.append(probability, mixture), (np.append(rows, everywhere[0]), np.append(columns, everywhere[1]))
        policy = sparse.csr_array(entries, shape=(states + 1, counts.pairs))
        after = np.where(counts.next_state >= 0, counts.next_state, states)
        _, paid = np.unique(counts.rewards, return_inverse=True)
        kinds, outcome = number_codes((counts.pair * (states + 1) + after) * (paid.max() + 1) + paid)
        first = np.full(len(kinds), -1)
        first[outcome[::-1]] = np.arange(len(outcome))[::-1]
        weight = group_sums(outcome, counts.weight, len(kinds))
        pair = counts.pair[first]
        return cls(
            counts=counts,
            pair=pair,
            reward=counts.rewards[first],
            after=after[first],
            share=weight / counts.times[pair],
            logged=counts.times / counts.visits[counts.state_of_pair],
            policy=policy,
            gamma=problem.gamma,
            limit=problem.limit,
            episodic=problem.gamma < 1 or problem.episodic,
        )

    def bound(self, odds: float, sign: float) -> float:
        """The least value of sign·reward that hidden causes of these odds allow."""
        reward = sign * self.reward
        values, found = np.zeros(self.counts.states + 1), np.inf
        for _ in range(ROUNDS if self.limit is None else self.limit):
            outcome = reward + self.gamma * values[self.after]
            weights = self.weights(outcome, odds)
            if self.limit is not None:
                values = self.policy @ group_sums(self.pair, weights * outcome, self.counts.pairs)
                continue
            before, (values, found) = found, self.solve(weights, reward)
            if abs(found - before) <= SAME * (abs(found) + SAME):
                break
        return found if self.limit is None else (1 - self.gamma or 1.0) * float(self.counts.initial @ values[:-1])

    def weights(self, outcome: Floats, odds: float) -> Floats:
        """The distribution of the outcomes of each pair by which the adversary makes their mean least."""
        order = np.lexsort((outcome, self.pair))
        share, pair = self.share[order], self.pair[order]
        starts = np.searchsorted(pair, np.arange(self.counts.pairs))
        summed = np.cumsum(share)
        before = summed - share - np.append(0.0, summed)[starts][pair]
        tail = 1 / (1 + odds)
        worst = np.empty_like(share)
        worst[order] = np.clip(tail - before, 0.0, share) / tail
        kept = (self.logged + (1 - self.logged) / odds)[self.pair]
        found: Floats = kept * self.share + (1 - kept) * worst
        return found

    def solve(self, weights: Floats, reward: Floats) -> tuple[Floats, float]:
        """The values of states under such outcomes, and that of the target."""
        states, pairs = self.counts.states, self.counts.pairs
        moves = sparse.csr_array((weights, (self.pair, self.after)), shape=(pairs, states + 1))
        kernel = (self.policy @ moves)[:states, :states]
        paid = (self.policy @ group_sums(self.pair, weights * reward, pairs))[:states]
        identity = sparse.eye_array(states, format="csr")
        if self.episodic:
            values = spsolve((identity - self.gamma * kernel).tocsc(), paid)
            return np.append(values, 0.0), (1 - self.gamma or 1.0) * float(self.counts.initial @ values)
        ones, mean = sparse.csr_array(np.ones((states, 1))), sparse.csr_array(self.counts.logged_states[None])
        system = sparse.block_array([[identity - kernel, ones], [mean, None]], format="csc")
        solved = spsolve(system, np.append(paid, 0.0))
        return np.append(solved[:-1], 0.0), float(solved[-1])
