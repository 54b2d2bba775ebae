"""Treatments of pairs that the target takes and the log does not hold, by name.

| name | an unseen pair is |
|---|---|
| `restart` | replaced by a pair drawn from the log: the closed form of the paper's penalty on lost mass |
| `good-turing` | replaced by a pair that was seen once, drawn uniformly |
| `restrict` | not taken: the target's probabilities are scaled up over the actions seen in the state |
| `smooth` | taken, pays the mean reward, and leads to any state with equal probability |
| `pooled` | worth what its state is on average, as rarely seen pairs partly are: see `pooling` |
| `preference` | the same, and what the target's preference for its action predicts: see `preference` |
| `regression` | taken, and worth what rarely seen pairs predict: see `regression` |
"""

from __future__ import annotations

from abc import abstractmethod
from dataclasses import replace

import numpy as np

from ope_vpm.arrays import Floats
from ope_vpm.ope.finite.choice import Chosen
from ope_vpm.ope.finite.model import CompletedModel
from ope_vpm.ope.finite.pooling import Pooled
from ope_vpm.ope.finite.preference import Preference
from ope_vpm.ope.finite.problem import FiniteProblem
from ope_vpm.ope.finite.regression import Regression
from ope_vpm.ope.finite.solve import FiniteSolution, Treatment
from ope_vpm.suggestions import suggestion

DEFAULT = "auto"
"""The treatment of all estimators on counts (vpm, model, fqe, the DICE family, mwl, mql, and Q in dr and wdr) unless
their user asks for another one: see `Chosen`."""


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
            substitute=problem.unseen,
            substitute_reward=np.full(counts.states, drawn @ counts.reward),
            substitute_next=drawn @ counts.transitions,
            represented_by=drawn,
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
            substitute=(counts.actions_seen == 0).astype(np.float64),
            substitute_reward=np.zeros(counts.states),
            substitute_next=counts.logged_states,
            represented_by=np.zeros(counts.pairs),
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
            substitute=problem.unseen,
            substitute_reward=np.full(counts.states, counts.reward.mean()),
            substitute_next=goes_on * left / left.sum(),
            represented_by=np.zeros(counts.pairs),
            begins_after=False,
        )


TREATMENTS: dict[str, type[Treatment]] = {
    kind.name: kind for kind in (Restart, GoodTuring, Restrict, Regression, Smooth, Pooled, Preference, Chosen)
}


def treatment(name: str) -> Treatment:
    """The treatment of that name; an unknown one is answered with the nearest."""
    if name not in TREATMENTS:
        raise ValueError(f"unknown treatment of unseen pairs {name!r}: {suggestion(name, list(TREATMENTS))}")
    return TREATMENTS[name]()
