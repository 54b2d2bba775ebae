"""How each logged step moves an evaluation that follows the clock, summed by episode."""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np

from ope_vpm.arrays import Floats, Integers, group_sums
from ope_vpm.linear.passes import added
from ope_vpm.ope.finite.episodes import Course
from ope_vpm.ope.finite.influence import leverage
from ope_vpm.ope.finite.streamed import LoggedSteps


@dataclass(frozen=True, eq=False)
class TimedSteps:
    """How a logged step moves what an episode pays, and how long it lasts: what is looked up for each step."""

    states: int
    passes: Floats
    """(pairs,): how often an episode counts each pair."""
    scale: Floats
    """(pairs,): 1/n, and by how much residuals around the mean of n steps are too small."""
    ratio: Floats
    """(pairs,): how often an episode counts each of its logged steps."""
    transition: Integers
    """(transitions,): pair · states + state after it, rising."""
    after: Floats
    """(transitions, 2): γ·Σ_t m_t(s, a)·V_{t+1}(s'), of rewards and of steps."""
    mean: Floats
    """(pairs, 2): of outcomes over the steps of each pair."""

    @classmethod
    def of(cls, course: Course, values: Floats) -> TimedSteps:
        """Look everything up; V is that of the rewards and of steps, (steps + 1, states, 2)."""
        counts, gamma = course.problem.counts, course.problem.gamma
        goes_on = counts.next_state >= 0
        transition = np.unique(counts.pair[goes_on] * counts.states + counts.next_state[goes_on])
        pair, following = np.divmod(transition, counts.states)
        after = np.zeros((len(transition), values.shape[2]))
        for mu, later in zip(course.states, values[1:], strict=True):
            after += course.target.mass(mu)[pair, None] * later[following]
        scale = leverage(counts.times) / counts.times
        ratio, none = course.passes / counts.times, np.zeros((counts.pairs, 2))
        found = cls(counts.states, course.passes, scale, ratio, transition, gamma * after, none)
        outcome = counts.weight[:, None] * found.outcomes(counts.pair, counts.next_state, counts.rewards)
        sums = [group_sums(counts.pair, column, counts.pairs) for column in outcome.T]
        return replace(found, mean=np.stack(sums, axis=1) / counts.times[:, None])

    def outcomes(self, pair: Integers, after: Integers, rewards: Floats) -> Floats:
        """(steps, 2): Σ_t m_t(s, a)·(r + γV_{t+1}(s')) of each logged step, of rewards and of steps."""
        outcome = self.passes[pair, None] * np.stack([rewards, np.ones_like(rewards)], axis=1)
        goes_on = after >= 0
        place = np.searchsorted(self.transition, pair[goes_on] * self.states + after[goes_on])
        outcome[goes_on] += self.after[place]
        return outcome

    def influence(self, pair: Integers, after: Integers, weight: Floats, rewards: Floats) -> Floats:
        """(steps, 2): how each logged step moves both totals."""
        residual = self.outcomes(pair, after, rewards) - self.mean[pair]
        moved: Floats = (weight * self.scale[pair])[:, None] * residual
        return moved


@dataclass(frozen=True, eq=False)
class TimedSums:
    """Sums over steps; those of parts are merged."""

    first: int
    """The number of the first episode."""
    moved: Floats
    """(episodes, 2): how each moves what an episode pays, and how long it lasts."""
    ends: Floats
    """Over the rows with which the task ended: how often an episode counts them (not negative), and its square."""

    @classmethod
    def of(cls, logged: LoggedSteps, timed: TimedSteps) -> TimedSums:
        """How each logged episode moves both totals by its steps, and how many ends the weighted log is worth."""
        moved, ends = np.zeros((logged.data.n_episodes, 2)), np.zeros(2)
        for some in logged.pieces:
            influence = timed.influence(some.pair, some.after, some.weight, some.rewards)
            moved += np.stack([group_sums(some.episode, column, len(moved)) for column in influence.T], axis=1)
            counted = np.maximum(timed.ratio[some.pair[some.end]], 0)
            ends += counted.sum(), counted @ counted
        return cls(logged.first, moved, ends)

    def merge(self, other: TimedSums) -> TimedSums:
        """The sums of two parts, one after another; an episode may have rows in both."""
        mine = slice(0, len(self.moved))
        theirs = slice(other.first - self.first, other.first - self.first + len(other.moved))
        return TimedSums(self.first, added(self.moved, other.moved, mine, theirs), self.ends + other.ends)

    @property
    def ends_worth(self) -> float:
        """Kish's effective number of ends."""
        whole, squares = self.ends.tolist()
        return float(whole**2 / squares) if squares > 0 else 0.0
