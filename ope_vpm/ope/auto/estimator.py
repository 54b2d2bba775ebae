"""The estimator that chooses: from the data and the policy alone, with its reasons in the diagnostics.

Finite states and actions: vpm, whose fixed point is the exact solution of the counted model and which predicts the
values of unseen pairs, shrunk towards the one-step ratio as far as the log cannot tell the two apart. Continuous
states: the weighted mean of vpm and LSTD-Q (`ope_vpm.ope.linear.resting`), LSTD-Q alone for a policy without densities,
or networks where the log holds too little of what the target does. Where a model of one step explains nearly all of
what follows, as it does for smooth dynamics, the target is followed in that model instead, if that leaves less doubt.
Walks of the target in a model of the log are a second opinion, always: how far they lie from the value is a doubt.
"""

from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any, ClassVar

import numpy as np

from ope_vpm.ope.behaviour.action_ratio import ratio_model
from ope_vpm.ope.dynamics.estimate import find_followed
from ope_vpm.ope.dynamics.state_shift import state_shift
from ope_vpm.ope.dynamics.walked import Walked, walked_value
from ope_vpm.ope.estimator import ProblemEstimator
from ope_vpm.ope.inference.doubts import DISAGREEMENT
from ope_vpm.ope.inference.estimate import RawEstimate, found_on_sample, unsupported
from ope_vpm.ope.inference.returns import with_return
from ope_vpm.ope.linear.estimate import LinearEstimate
from ope_vpm.ope.linear.resting import mixture
from ope_vpm.ope.problem import Problem
from ope_vpm.ope.q.fitted import Networks, fitted_q
from ope_vpm.ope.q.linear import doubted_lstd, find_lstd
from ope_vpm.ope.vpm.estimator import POWER, VPMEstimator, solve_factored
from ope_vpm.optional import has_torch
from ope_vpm.threads import at_once

NO_NETWORKS = "networks might fit better and need torch: pip install 'ope-vpm[torch]'"
LEAST_OVERLAP = 0.3
"""The share of the target's actions among logged ones below which networks without ratios are the first choice."""
DRAWS = 8
"""Target actions per state where the policy's mean action is not known otherwise."""


@dataclass(frozen=True)
class Candidate:
    """One of the estimators to choose from."""

    name: str
    find: Callable[[Problem], RawEstimate]


@dataclass(frozen=True, kw_only=True)
class Auto(ProblemEstimator):
    """Choose by the kind of data and the overlap, and by how well a model of one step predicts."""

    name: ClassVar[str] = "auto"
    streams: ClassVar[bool] = True
    counts_parts: ClassVar[bool] = True

    combine: bool = True
    """On continuous states, whether a learned model may take the place of the first choice."""
    training_steps: int = 2000
    """Gradient steps of each network, for continuous states without overlap."""
    n_features: int | None = None
    """Random features of the state, for continuous states; None: 4·√rows (`features_for`)."""

    def find(self, problem: Problem) -> RawEstimate:
        """Choose, solve, and look whether a model leaves less doubt."""
        first, reason = self.choose(problem)
        found = first.find(problem)
        notes: dict[str, Any] = {**found.diagnostics, "chosen": first.name, "why": (reason,)}
        found = replace(found, diagnostics=notes)
        if problem.finite:
            from ope_vpm.ope.finite.shrinkage import shrunk  # imported here: continuous states need no counts

            return shrunk(problem, with_return(problem, found, first.find) if problem.episodic else found)
        if not self.combine:
            return found
        try:
            left, walked = state_shift(problem.on_sample), walked_value(problem.on_sample)
            followed = found_on_sample(problem, lambda sample: find_followed(sample, self.n_features, DRAWS))
        except Exception as error:  # the model asks the policy, foreign code, about states that the log does not hold
            reason = f"no model: the policy cannot be asked about states beyond the log ({type(error).__name__})"
            return replace(found, diagnostics={**notes, "why": (*notes["why"], reason)})
        chosen = found if followed is None else _less_doubtful(found, followed)
        return _with_walk(_with_state_shift(problem, chosen, left), walked)

    def choose(self, problem: Problem) -> tuple[Candidate, str]:
        """The estimator to begin with, and why."""
        if problem.finite:
            return Candidate("vpm", VPMEstimator().find), "finite states and actions: counted and solved exactly"
        if not problem.policy.has_log_prob:
            return self._doubted_lstd, "continuous states, and a policy without densities: Q in closed form, no ratios"
        overlap = min(ratio_model(problem).overlap, 1.0)  # a mean of ratios, which by its noise may exceed 1
        if overlap < LEAST_OVERLAP and not has_torch():
            reason = (
                f"continuous states with little overlap ({overlap:.0%}): Q in closed form, no ratios ({NO_NETWORKS})"
            )
            return self._doubted_lstd, reason
        if overlap < LEAST_OVERLAP:
            networks = Networks(training_steps=self.training_steps, n_features=self.n_features)
            reason = f"continuous states with little overlap ({overlap:.0%}): Q by networks, no ratios"
            return Candidate("fqe", lambda question: _networks(question, networks)), reason
        reason = f"continuous states with overlap ({overlap:.0%}): vpm and LSTD-Q, each by what is known of its error"
        return Candidate("mixture", self._mixture), reason

    def _mixture(self, problem: Problem) -> RawEstimate:
        """The weighted mean of vpm and LSTD-Q."""
        parts: list[Callable[[], LinearEstimate]] = [
            lambda: solve_factored(problem, self.n_features, None, POWER, DRAWS),
            lambda: find_lstd(problem, self.n_features, None, DRAWS),
        ]
        return mixture(list(at_once(lambda part: part(), parts, len(problem.data), 1, problem.streamed)))

    @property
    def _doubted_lstd(self) -> Candidate:
        """LSTD-Q as the first choice, which has to speak for its features itself."""

        def find(problem: Problem) -> RawEstimate:
            return doubted_lstd(problem, self.n_features, None, DRAWS)

        return Candidate("lstd-q", find)


def _networks(problem: Problem, networks: Networks) -> RawEstimate:
    """Q by networks; of a log that is read in parts, on its sample."""
    if not problem.streamed:
        return fitted_q(problem, networks)
    found = found_on_sample(problem, lambda sample: fitted_q(sample, networks))
    assert found is not None
    notes = {**found.diagnostics, "sample_rows": len(problem.log.sample.data)}
    return replace(found, weights=None, diagnostics=notes)


def _less_doubtful(found: RawEstimate, followed: RawEstimate) -> RawEstimate:
    """The estimate whose own error, suspected bias included, is smaller; of the return of an episode likewise.

    The weights of the first one stay with the second, which has none: they say which rows tell about the target.
    """
    per_episode = found.per_episode
    if per_episode and followed.per_episode and followed.per_episode.error < per_episode.error:
        per_episode = _followed(followed.per_episode, found)
    values = {found.diagnostics["chosen"]: found.value, "model": followed.value}
    if not followed.error < found.error:
        notes = {**found.diagnostics, "candidates": values}
        return replace(found, per_episode=per_episode, diagnostics=notes)
    explained = followed.diagnostics["model_explained"]
    reason = f"a model of one step explains {explained:.3%} of what follows: the target is followed in it"
    notes = {**followed.diagnostics, "chosen": "model", "why": (reason,), "candidates": values}
    return replace(_followed(followed, found), per_episode=per_episode, diagnostics=notes)


def _followed(estimate: RawEstimate, found: RawEstimate) -> RawEstimate:
    """The model's estimate, with the first choice's weights."""
    return replace(estimate, weights=found.weights, per_episode=None)


LEAVES = "the target leaves the logged states: in a model of the log, {:.0%} of its steps lie far from all of them"


def _with_state_shift(problem: Problem, found: RawEstimate, share: float | None) -> RawEstimate:
    """The estimate, and its return, with how far the target leaves the logged states among the doubts."""
    per_episode = found.per_episode
    if per_episode is not None:
        length = abs(per_episode.value / found.value) if found.value else 1.0
        per_episode = per_episode.doubted(unsupported(problem, share, LEAVES, length))
    return replace(found.doubted(unsupported(problem, share, LEAVES)), per_episode=per_episode)


PAYS = "followed in a model of the log, the target is worth something else"
WALKED = 0.3
"""How much of the distance from walks counts as disagreement: 0.64 of it with the coefficient of that doubt, as a fit
to generated tasks has it (note 030). Of the distance of vpm and LSTD-Q, which err together, a half does."""
FARTHEST = 5.0
"""In errors of the answer, the distance that counts at most. Beyond it one of the two is simply wrong, mostly the
walks: of eight generated tasks with larger ones (seeds 9000 to 9170) walks were farther off in six, and answers by up
to 5 errors; on HalfCheetah with 50 episodes walks are 37 errors off, and the answer 0.6."""


def _with_walk(found: RawEstimate, walked: Walked | None) -> RawEstimate:
    """The estimate, and its return, with its distance from what the target's walks in a model pay among the doubts."""
    if walked is None or not np.isfinite(found.value):
        return found
    per_episode, bias = found.per_episode, WALKED * min(walked.distance(found.value), FARTHEST * found.error)
    doubts = DISAGREEMENT.suspects(bias, PAYS)
    if per_episode is not None:
        length = abs(per_episode.value / found.value) if found.value else 1.0
        per_episode = per_episode.doubted(DISAGREEMENT.suspects(length * bias, PAYS))
    notes = {**found.diagnostics, "walked": walked.value, "walked_error": walked.error}
    return replace(found.doubted(doubts), per_episode=per_episode, diagnostics=notes)
