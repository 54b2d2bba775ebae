"""Where action ratios take the behaviour's probabilities from, for every estimator."""

import numpy as np

from ope_vpm.arrays import Floats
from ope_vpm.logged import LoggedDataset
from ope_vpm.ope.adapter.choices import Behaviour, checked_behaviour
from ope_vpm.ope.behaviour.clone import Clone, clone
from ope_vpm.ope.problem import Problem


def known_log_prob(data: LoggedDataset, behaviour: Behaviour) -> Floats | None:
    """Log b of each logged action, as it was logged or by the policy that acted; None where it has to be cloned.

    Args:
        data: the log.
        behaviour: as `checked_behaviour` returns it. A logged action that a policy never takes shows that another one
            acted, and is refused.
    """
    if isinstance(behaviour, str):
        return data.behaviour_log_prob if behaviour == "logged" else None
    found: Floats = behaviour.log_likelihood(data.observations, data.actions)
    if not np.isfinite(found).all():
        row = int(np.argmin(np.isfinite(found)))
        raise ValueError(
            f"a behaviour policy must be able to take every logged action: that of row {row} has probability 0 "
            "(is it the policy that logged the data?)"
        )
    return found


def asked_behaviour(problem: Problem, own: Behaviour = None) -> Behaviour:
    """The estimator's own choice, checked; where it has none, that of the question."""
    return problem.behaviour if own is None else checked_behaviour(problem.data, problem.policy, own)


def check_behaviour(name: str, problem: Problem, own: Behaviour = None) -> None:
    """Refuse, before any work, a target without densities or a behaviour that cannot be had.

    Args:
        name: the estimator's, for the error.
        problem: the question.
        own: the estimator's option; None: as the question says.
    """
    if not problem.policy.has_log_prob:
        raise ValueError(f"{name} needs a target policy with densities: use vpm or model, which do not")
    asked_behaviour(problem, own)


def behaviour_log_prob(problem: Problem, own: Behaviour = None) -> Clone:
    """Log b of each logged action; a clone is shared by all targets with the same bounds; arguments as above."""
    known = known_log_prob(problem.data, asked_behaviour(problem, own))
    if known is None:  # where the target clips, the log was clipped too
        return clone(problem.log, problem.policy.clipping, problem.seed)
    return Clone(known, float("nan"))
