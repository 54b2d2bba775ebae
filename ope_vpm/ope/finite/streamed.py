"""What the rows of a log that is read in parts say of an exact solution on its counts: one more pass over them."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property

import numpy as np

from ope_vpm.arrays import Floats, Integers, group_sums
from ope_vpm.linear.moments import WeightSums, added
from ope_vpm.logged.streamed import Part
from ope_vpm.ope.finite.counts import PairCounts
from ope_vpm.ope.finite.influence import MORE_THAN_ONCE, RowEvidence, leverage, ratio_of_pairs, widening_of
from ope_vpm.ope.finite.limits import limits_of_rewards
from ope_vpm.ope.finite.mixture import Mixture
from ope_vpm.ope.finite.part_steps import PartSteps, StepPlan
from ope_vpm.ope.finite.problem import finite_problem
from ope_vpm.ope.finite.solve import FiniteSolution
from ope_vpm.ope.finite.tally import planned
from ope_vpm.ope.inference.uncertainty import EpisodeSums, initial_sums
from ope_vpm.ope.log import StreamedLog
from ope_vpm.ope.problem import Problem


@dataclass(frozen=True, eq=False)
class SolvedSteps:
    """A solution as functions of a step: what is looked up for each row."""

    plan: StepPlan
    labels: Integers
    """The code of each state number, rising."""
    codes: Integers
    """The code of each pair number, rising."""
    gamma: float
    total: float
    """The weight of all steps."""
    ratio: Floats
    """(pairs,): τ."""
    mean: Floats
    """(pairs,): the mean outcome r + γV(s')."""
    stretch: Floats
    """(pairs,): by how much residuals around that mean are too small."""
    known: Floats
    """(pairs,): 1 where the pair was seen more than once, otherwise 0."""
    values: Floats
    """(states,): V, and 0 for the state after the last one, which nothing follows."""
    commonest: float
    """Of the rewards."""
    mixture: Mixture | None

    @classmethod
    def of(cls, problem: Problem, plan: StepPlan, solution: FiniteSolution, commonest: float) -> SolvedSteps:
        """Look everything up that the rows do not change."""
        counts = finite_problem(problem).counts
        return cls(
            plan,
            counts.labels,
            counts.labels[counts.state_of_pair] * plan.actions + counts.action_of_pair,
            problem.gamma,
            float(counts.weight.sum()),
            ratio_of_pairs(problem, solution),
            counts.outcomes(solution.values, problem.gamma)[0],
            leverage(counts.times),
            (counts.times > MORE_THAN_ONCE).astype(np.float64),
            np.append(solution.values, 0.0),
            commonest,
            solution.mixture,
        )

    def after(self, steps: PartSteps) -> Integers:
        """The number of the state after each step; the number of states where nothing follows."""
        return np.where(steps.after >= 0, np.searchsorted(self.labels, steps.after), len(self.labels))

    @cached_property
    def gain(self) -> Floats:
        """(states,): of the mixture, 0 for the state after the last one."""
        assert self.mixture is not None
        return np.append(self.mixture.gain, 0.0)


@dataclass(frozen=True, eq=False)
class PartSums:
    """Sums over the steps of some parts."""

    first: int
    """The number of the first episode."""
    episodes: Floats
    """(episodes, 7), by episode: mass·residual, mass, share, Σ max(τ, 0), whether other rewards than the commonest are
    paid, and what these add to the value, gains and losses apart."""
    mixture: Floats
    """(episodes,): share·ψ, see `mixture`; zeros where there is one closed class."""
    squares: Floats
    """Σ mass² over all steps, and over those whose pair was seen more than once."""
    ends: Floats
    """Over ending rows: their mass, Σ max(τ, 0), its squares, that of truncated ones, and the mass of passes."""

    def merge(self, other: PartSums) -> PartSums:
        """Of two parts, one after another; an episode may have rows in both."""
        mine = slice(0, len(self.mixture))
        theirs = slice(other.first - self.first, other.first - self.first + len(other.mixture))
        return PartSums(
            self.first,
            added(self.episodes, other.episodes, mine, theirs),
            added(self.mixture, other.mixture, mine, theirs),
            self.squares + other.squares,
            self.ends + other.ends,
        )


def sums_of_part(part: Part, solved: SolvedSteps) -> PartSums:
    """Go through the rows of one part."""
    code = solved.plan.pairs(part)
    found = np.minimum(np.searchsorted(solved.codes, code), len(solved.codes) - 1)  # rows that are not used have none
    episode, count = part.episode, part.n_episodes
    other = np.zeros(len(part)) if np.isnan(solved.commonest) else part.rewards - solved.commonest
    columns, mixed = np.zeros((count, 7)), np.zeros(count)
    squares, ends = np.zeros(2), np.zeros(5)
    for steps in solved.plan.steps(part):
        pair, rows, after = found[steps.rows], steps.rows, solved.after(steps)
        share, ratio = steps.weight / solved.total, solved.ratio[pair]
        mass, positive = share * ratio, steps.weight * np.maximum(ratio, 0)
        outcome = part.rewards[rows] + solved.gamma * solved.values[after]
        residual = solved.stretch[pair] * (outcome - solved.mean[pair])
        gains = mass * other[rows]
        for k, each in enumerate((mass * residual, mass, share, positive)):
            columns[:, k] += group_sums(episode[rows], each, count)
        columns[:, 5] += group_sums(episode[rows], np.maximum(gains, 0), count)
        columns[:, 6] += group_sums(episode[rows], np.maximum(-gains, 0), count)
        squares += (mass @ mass, mass @ (mass * solved.known[pair]))
        if steps.end:
            alone = positive * np.maximum(ratio, 0)  # the copies of a row have its square together
            ends[:4] += (mass.sum(), positive.sum(), alone.sum(), positive @ part.truncated[rows])
        if solved.mixture is not None:
            psi, passes = _mixed(solved, solved.mixture, pair, after)
            mixed += group_sums(episode[rows], share * psi, count)
            ends[4] += float(share @ passes) if steps.end else 0.0
    columns[:, 4] = group_sums(episode, (other != 0).astype(np.float64), count)
    return PartSums(part.first_episode, columns, mixed, squares, ends)


def _mixed(solved: SolvedSteps, mixture: Mixture, pair: Integers, after: Integers) -> tuple[Floats, Floats]:
    """ψ of each step, see `mixture`, and the ratio of passes through its pair."""
    state = np.searchsorted(solved.labels, solved.codes[pair] // solved.plan.actions)
    begins = after if mixture.begins_after else state
    led = solved.gain[after] - mixture.gain_after[pair]
    psi = solved.gain[begins] - mixture.value + mixture.ratio[pair] * solved.stretch[pair] * led
    return psi, mixture.ratio[pair]


def evidence_of_parts(problem: Problem, log: StreamedLog, solution: FiniteSolution, widened: bool) -> RowEvidence:
    """From a pass over the parts; arguments as in `finite_influence`."""
    plan = log.shared(planned, problem.on_end, problem.time_limit, problem.seed)
    counts, commonest = finite_problem(problem).counts, log.stream.facts.finite.rewards.commonest
    sums = log.total(sums_of_part, SolvedSteps.of(problem, plan, solution, commonest))
    by_episode, positive = sums.episodes, sums.episodes[:, 3]
    ratio = ratio_of_pairs(problem, solution)
    weights = WeightSums(
        positive.sum(), counts.times @ np.maximum(ratio, 0) ** 2, counts.times @ np.abs(ratio), positive
    )
    _, ending, squares, cut, _ = sums.ends.tolist()
    return RowEvidence(
        _influence(problem, solution, sums, counts, widened),
        None,
        weights,
        limits_of_rewards(by_episode[:, 4] > 0, by_episode[:, 5], by_episode[:, 6]),
        cut / ending if ending > 0 else 1.0,
        ending**2 / squares if squares > 0 else 0.0,
    )


def _influence(
    problem: Problem, solution: FiniteSolution, sums: PartSums, counts: PairCounts, widened: bool
) -> EpisodeSums:
    """As `finite_influence`, from sums."""
    residual, mass, share = sums.episodes[:, 0], sums.episodes[:, 1], sums.episodes[:, 2]
    residual = residual * widening_of(*sums.squares.tolist()) if widened else residual
    above, below = (residual, share) if problem.gamma < 1 else (residual + solution.value * mass, mass)
    restarts = problem.gamma if problem.on_end == "restart" else 0.0
    rate, passes = sums.ends[0].item(), sums.ends[4].item()
    first = initial_sums(problem, 1 - problem.gamma + restarts * rate, solution.values[counts.initial_states])
    found = EpisodeSums(above[:, None], below[:, None]).beside(first)
    if solution.mixture is None:
        return found
    gain = solution.mixture.gain[counts.initial_states]
    mixed = EpisodeSums(sums.mixture[:, None], share[:, None])
    return found.beside(mixed.beside(initial_sums(problem, restarts * passes, gain)))
