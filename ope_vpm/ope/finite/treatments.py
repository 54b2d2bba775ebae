"""What to put in the place of pairs that the target takes and the log does not hold, by name.

| name | an unseen pair is |
|---|---|
| `auto` | worth what a mixed model of seen pairs predicts: see `mixed` |
| `pooled` | the same without what policies prefer and avoid: a mean of its state and of all |
| `restart` | replaced by a pair drawn from the log: the closed form of the paper's penalty on lost mass |
| `good-turing` | replaced by a pair that was seen once, drawn uniformly |
| `restrict` | not taken: the target's probabilities are scaled up over the actions seen in the state |
| `smooth` | taken, pays the mean reward, and leads to any state with equal probability |

Where every pair that the target takes was seen, the counts are a complete model, and all of them have its exact
solution.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from dataclasses import replace
from typing import ClassVar

import numpy as np

from ope_vpm.arrays import Floats
from ope_vpm.ope.finite.behaviour import BehaviourModel
from ope_vpm.ope.finite.fit import ANEW, Fit, fitted
from ope_vpm.ope.finite.mixed import MixedModel, Variances, Weights
from ope_vpm.ope.finite.model import CompletedModel, FiniteSolution
from ope_vpm.ope.finite.problem import FiniteProblem
from ope_vpm.suggestions import suggestion

DEFAULT = "auto"
"""The treatment of all estimators on counts (vpm, model, fqe, the DICE family, mwl, mql, and Q in dr and wdr) unless
their user asks for another one."""


class Treatment(ABC):
    """What to put in the place of pairs that the target takes and the log does not hold."""

    name: ClassVar[str]

    @abstractmethod
    def complete(self, problem: FiniteProblem) -> CompletedModel:
        """The model with something in the place of the unseen pairs."""

    def solved(self, problem: FiniteProblem) -> FiniteSolution:
        """The exact solution, with the error that the treatment brings."""
        return self.judged(problem, self.complete(problem).solve())

    def judged(self, problem: FiniteProblem, solution: FiniteSolution) -> FiniteSolution:
        """The solution with the error that the treatment brings.

        By default an unseen pair may be as far from what was put in its place as seen pairs are from their mean.
        """
        return replace(solution, error=solution.unseen_mass * solution.spread if solution.unseen_mass > 0 else 0.0)


class _Replaced(Treatment):
    """Unseen pairs are replaced by seen ones, drawn from some distribution.

    No such distribution is best everywhere, so the difference that another one makes is what is known about the error.
    """

    def complete(self, problem: FiniteProblem) -> CompletedModel:
        """The substitute does what the seen pairs do on average."""
        counts, drawn = problem.counts, self.drawn_from(problem)
        return CompletedModel(
            problem=problem,
            probability=problem.probability,
            substitute=problem.unseen[:, None],
            substitute_reward=np.array([drawn @ counts.reward]),
            substitute_next=(drawn @ counts.transitions)[None],
            represented_by=drawn[None],
            begins_after=True,
        )

    @abstractmethod
    def drawn_from(self, problem: FiniteProblem) -> Floats:
        """(pairs,): the distribution over seen pairs; where it sums to less than 1, the rest leads to the end."""

    @abstractmethod
    def other(self) -> Treatment:
        """The treatment to compare with."""

    def judged(self, problem: FiniteProblem, solution: FiniteSolution) -> FiniteSolution:
        """The error is the distance to the value by the other treatment."""
        other = solution.value
        if solution.unseen_mass > 0:
            other = self.other().complete(problem).solve().value
        return replace(solution, error=abs(solution.value - other), alternative=other)


class Restart(_Replaced):
    """An unseen pair is replaced by one drawn from the log, the time after the ends of its episodes included."""

    name = "restart"

    def drawn_from(self, problem: FiniteProblem) -> Floats:
        """Every step of the log with equal probability, less the share of time after the ends of episodes."""
        times = problem.counts.times
        share: Floats = (1 - problem.absorbed) * times / times.sum()
        return share

    def other(self) -> Treatment:
        """Good and Turing's."""
        return GoodTuring()


class GoodTuring(_Replaced):
    """An unseen pair is replaced by one of the pairs that were seen once, which are most like those never seen."""

    name = "good-turing"

    def drawn_from(self, problem: FiniteProblem) -> Floats:
        """Every pair seen once (or, where none is, seen least often) with equal probability.

        Where episodes end for good, the end is one of them.
        """
        steps, end = problem.counts.steps_of_pair, problem.absorbed > 0
        rare = steps == (1 if end else steps.min())
        uniform: Floats = rare / (rare.sum() + end)
        return uniform

    def other(self) -> Treatment:
        """Restarting from the log."""
        return Restart()


class Restrict(Treatment):
    """Unseen pairs are not taken: the target's probabilities are scaled up over the actions that were seen.

    Where the target takes none of the seen actions, they are equally likely. A state without any seen action pays
    nothing and leads to the distribution of the logged states.
    """

    name = "restrict"

    def complete(self, problem: FiniteProblem) -> CompletedModel:
        """Scale the target's probabilities."""
        counts = problem.counts
        seen, equal = problem.seen[counts.state_of_pair], 1 / counts.actions_seen[counts.state_of_pair]
        return CompletedModel(
            problem=problem,
            probability=np.divide(problem.probability, seen, out=equal, where=seen > 0),
            substitute=(counts.actions_seen == 0).astype(np.float64)[:, None],
            substitute_reward=np.zeros(1),
            substitute_next=counts.logged_states[None],
            represented_by=np.zeros((1, counts.pairs)),
            begins_after=False,
        )


class Smooth(Treatment):
    """Unseen pairs pay the mean reward of the seen ones and lead to every state that was left with equal probability.

    This is the model of Liu et al. (2018, "Breaking the Curse of Horizon"), whose counts are smoothed so. An unseen
    pair ends the episode for good as often as a logged step does.
    """

    name = "smooth"

    def complete(self, problem: FiniteProblem) -> CompletedModel:
        """The substitute does what is known about pairs in general."""
        counts = problem.counts
        left = counts.actions_seen > 0
        goes_on = float(counts.weight[counts.next_state >= 0].sum() / counts.weight.sum())
        return CompletedModel(
            problem=problem,
            probability=problem.probability,
            substitute=problem.unseen[:, None],
            substitute_reward=np.array([counts.reward.mean()]),
            substitute_next=(goes_on * left / left.sum())[None],
            represented_by=np.zeros((1, counts.pairs)),
            begins_after=False,
        )


class Mixed(Treatment):
    """Unseen pairs are worth what a mixed model of the seen ones predicts."""

    name = DEFAULT
    slopes: ClassVar[bool] = True

    def complete(self, problem: FiniteProblem) -> CompletedModel:
        """The map that the model makes."""
        return exact_model(problem) if problem.all_seen else self.fit(problem).completed

    def solved(self, problem: FiniteProblem) -> FiniteSolution:
        """The fixed point, with the error of the predictions."""
        if problem.all_seen:
            return exact_model(problem).solve()
        fit = self.fit(problem)
        solution = fit.completed.solve()
        time, after, counts = solution.distribution, solution.values, problem.counts
        start = counts.initial if problem.gamma < 1 else counts.logged_states
        held = fit.held.distribution(start, min(problem.gamma, 1 - ANEW))
        return replace(
            solution,
            error=fit.error(problem, time, after),
            beyond=fit.beyond(problem, time, held),
            unseen_range=fit.reach(problem, time, after),
            predicted=True,
            details=fit.details(problem, after),
        )

    def fit(self, problem: FiniteProblem) -> Fit:
        """The model at its fixed point; without slopes where several closed classes would be mixed by them."""
        slopes = self.slopes and (problem.gamma < 1 or len(plain_model(problem).chain.closed_classes) == 1)
        return fitted(problem, lambda completed: completed.balance, slopes)


class Pooled(Mixed):
    """Unseen pairs are worth a mean of their state and of all, which says where they lead, too."""

    name = "pooled"
    slopes = False


def exact_model(problem: FiniteProblem) -> CompletedModel:
    """The counted model of a target that takes no unseen pair; what rounding leaves is drawn from the log."""
    counts = problem.counts
    drawn = counts.times[None] / counts.times.sum()
    return CompletedModel(
        problem=problem,
        probability=problem.probability,
        substitute=problem.unseen[:, None],
        substitute_reward=drawn @ counts.reward,
        substitute_next=drawn @ counts.transitions,
        represented_by=drawn,
        begins_after=True,
    )


def plain_model(problem: FiniteProblem) -> CompletedModel:
    """The map of a mixed model without slopes and with equal variances, which has the closed classes of any other."""
    counts, equal = problem.counts, Variances(0.0, 1.0, 1.0)
    weights = Weights(np.ones(counts.pairs), np.ones(counts.states))
    return MixedModel.of(problem, BehaviourModel.of(problem), equal, weights).completed(slopes=False)


TREATMENTS: dict[str, type[Treatment]] = {
    kind.name: kind for kind in (Mixed, Pooled, Restart, GoodTuring, Restrict, Smooth)
}


def treatment(name: str) -> Treatment:
    """The treatment of that name; an unknown one is answered with the nearest."""
    if name not in TREATMENTS:
        raise ValueError(f"unknown treatment of unseen pairs {name!r}: {suggestion(name, list(TREATMENTS))}")
    return TREATMENTS[name]()
