"""Episodes that a time limit ends: the completed model followed from the first step to the last.

Where an episode has at most L steps, what is left of it depends on the time, which finite states do not hold. Counting
by time would leave hardly anything to count. But only the limit depends on the time: where a pair leads, and what it
pays, does not. So all steps are counted together, the task going on after a truncation, and the counted model is
followed for L steps:

    μ_{t+1} = γP̂'m_t,  m_t = Mμ_t,        V_t = M'(r̂ + γP̂V_{t+1}),  V_L = 0,

M being the map of the completed model: how much each seen pair counts in each state. An episode
pays R = Σ_t m_t·r̂ and lasts ℓ = Σ_t |μ_t| steps, discounted both, so that the value per step is R/ℓ where the next
episode follows, and (1 - γ)·R where nothing does. A logged step moves R by

    1/n(s, a) · Σ_t m_t(s, a)·(r + γV_{t+1}(s') - mean of the same over the steps of its pair).
"""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np

from ope_vpm.arrays import Floats, Integers, group_sums
from ope_vpm.linear.passes import added
from ope_vpm.ope.finite.counts import LoggedSteps
from ope_vpm.ope.finite.fit import Fit, fitted
from ope_vpm.ope.finite.influence import leverage
from ope_vpm.ope.finite.model import CompletedModel
from ope_vpm.ope.finite.problem import FiniteProblem, finite_problem
from ope_vpm.ope.finite.treatments import exact_model
from ope_vpm.ope.memory import Memory, remembered
from ope_vpm.ope.problem import Problem
from ope_vpm.threads import cached_property

NOBODY_LEFT = 1e-12
"""The share of episodes still going on below which the rest of the time is not followed."""
MOST_PRODUCTS = 3e7
"""Steps times different transitions (s, a, s') and states that are followed: a second, and at most 0.4 GB for V and μ
at all times. Beyond it the limit is taken for an end that may come in any state, and the estimate says so."""


@dataclass(frozen=True, eq=False)
class Course:
    """The target's episodes, step by step."""

    problem: FiniteProblem
    target: CompletedModel
    """M."""
    states: Floats
    """(steps, states): μ_t, where episodes that still go on are, times γ^t."""

    @classmethod
    def follow(cls, problem: FiniteProblem, target: CompletedModel, steps: int) -> Course:
        """From the logged initial states, for at most that many steps."""
        back, mu, states = problem.gamma * problem.counts.transitions.T.tocsr(), problem.counts.initial, []
        for _ in range(steps):
            states.append(mu)
            mu = back @ target.mass(mu)
            if np.abs(mu).sum() < NOBODY_LEFT:
                break
        return cls(problem, target, np.array(states))

    def held(self, fit: Fit) -> Floats:
        """(states,): how often an episode would visit each if unseen pairs held it: see `Fit.held`."""
        chain, mu = fit.held, self.problem.counts.initial
        total = np.zeros(len(mu))
        for _ in self.states:
            total, mu = total + mu, self.problem.gamma * (mu @ chain)
        return total

    @property
    def visits(self) -> Floats:
        """(states,): how often an episode visits each state."""
        total: Floats = self.states.sum(axis=0)
        return total

    @property
    def length(self) -> float:
        """ℓ, the steps of an episode on average."""
        return float(self.states.sum())

    @property
    def unseen_share(self) -> float:
        """The share of its steps with pairs that were never seen."""
        return float(self.visits @ self.problem.unseen) / self.length

    def values(self, reward: Floats) -> Floats:
        """(steps + 1, states, k): V_t of rewards (pairs, k), 0 after the last step."""
        steps, states = self.states.shape
        values, forward = (
            np.zeros((steps + 1, states, reward.shape[1])),
            self.problem.gamma * self.problem.counts.transitions,
        )
        for time in range(steps - 1, -1, -1):
            values[time] = self.target.values(reward + forward @ values[time + 1])
        return values

    def after(self, values: Floats, weight: Floats) -> Floats:
        """(states,): V of the state after a step, averaged over the time with some weight."""
        total = float(weight.sum())
        mean: Floats = weight @ values[1:] / total if total > 0 else values[1]
        return mean

    @cached_property
    def passes(self) -> Floats:
        """(pairs,): how often an episode counts each seen pair."""
        return self.target.mass(self.visits)


def limited_steps(problem: Problem) -> int | None:
    """The most steps of an episode, where a time limit is part of the task and the log shows it; None elsewhere."""
    limit = problem.limit
    if limit is None:
        return None
    transitions = finite_problem(ongoing(problem)).counts.transitions
    return limit if limit * (transitions.nnz + transitions.shape[1]) <= MOST_PRODUCTS else None


@remembered
def ongoing(problem: Problem) -> Problem:
    """The question whose steps go on after a truncation, and nowhere after a termination."""
    return replace(problem, on_end="absorb", time_limit="continue", memory=Memory())


def course_of(finite: FiniteProblem, steps: int) -> tuple[Course, Fit | None]:
    """The target's episodes of at most so many steps, and the mixed model of unseen pairs, where there are any.

    Args:
        finite: the counts of steps that go on after a truncation: see `ongoing`.
        steps: the most of an episode.
    """
    if finite.all_seen:
        return Course.follow(finite, exact_model(finite), steps), None

    def follow(completed: CompletedModel) -> tuple[Floats, Floats]:
        course = Course.follow(finite, completed, steps)
        values = course.values(charged_problem(finite, course).counts.reward[:, None])[..., 0]
        return course.after(values, unseen_weight(course, finite)), course.visits / course.length

    fit = fitted(finite, follow)
    return Course.follow(finite, fit.completed, steps), fit


def charged_problem(finite: FiniteProblem, course: Course) -> FiniteProblem:
    """Every step charged the value per step, so that what is left does not depend on the length of the episodes.

    Where all rewards are equal nothing would be left: then the length itself is the question.
    """
    rewards = finite.counts.rewards
    if np.ptp(rewards) == 0:
        return with_rewards(finite, np.ones_like(rewards))
    return with_rewards(finite, rewards - float(course.passes @ finite.counts.reward) / course.length)


def with_rewards(finite: FiniteProblem, rewards: Floats) -> FiniteProblem:
    """These counts with other rewards of the logged steps."""
    return replace(finite, counts=replace(finite.counts, rewards=rewards))


def unseen_weight(course: Course, finite: FiniteProblem) -> Floats:
    """(steps,): how much of each time is spent on unseen pairs; on any where all are seen."""
    unseen = np.maximum(course.states @ finite.unseen, 0)
    return unseen if unseen.sum() > 0 else np.maximum(course.states.sum(axis=1), 0)


@dataclass(frozen=True, eq=False)
class Total:
    """What an episode's rewards sum up to, and how far that may be off because of unseen pairs."""

    value: float
    first: Floats
    """(states,): V_0."""
    error: float
    reach: tuple[float, float]


def total(finite: FiniteProblem, course: Course, fit: Fit | None, values: Floats) -> Total:
    """The total of the rewards of a finite problem, whose V (steps + 1, states) is given."""
    error, reach = 0.0, (0.0, 0.0)
    if fit is not None:
        after = course.after(values, unseen_weight(course, finite))
        error, reach = fit.error(finite, course.visits, after), fit.reach(finite, course.visits, after)
    return Total(float(finite.counts.initial @ values[0]), values[0], error, reach)


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
