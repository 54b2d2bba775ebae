"""Doubts about steps of the target of which the log holds nothing."""

from ope_vpm.ope.behaviour.action_ratio import held_actions, known_overlap
from ope_vpm.ope.inference.doubts import SUPPORT, Doubts, joined
from ope_vpm.ope.inference.estimate import reward_range
from ope_vpm.ope.problem import Problem

OVERLAP = "the log does not hold {:.0%} of what the target does"
UNLIKE = "{:.0%} of the target's actions are unlike logged ones: what they lead to was not logged"
NO_DATA = "{:.0%} of the target's steps lead where there are no data"
UNCERTAIN = 0.05
"""The share of steps up to which a doubt adds nothing to the error: shares are estimated with such errors, and what so
few steps pay is hardly ever extreme."""


def unsupported(problem: Problem, share: float | None, sentence: str = NO_DATA, factor: float = 1.0) -> Doubts:
    """The doubt about a share of the target's steps without data, which may pay anything that the rewards allow.

    Args:
        problem: the question.
        share: of the steps; None where it is not known.
        sentence: that says so, with the share in place of "{}".
        factor: of the value's unit, such as the mean length of an episode for a return.
    """
    if share is None:
        return ()
    allowed = reward_range(problem, unlogged_ends=True)
    bias = factor * max(share - UNCERTAIN, 0.0) * (allowed.high - allowed.low)
    return SUPPORT.of(max(share, 0.0), bias=bias, sentence=sentence)


def doubts_of_actions(problem: Problem, factor: float = 1.0) -> Doubts:
    """How much of what the target does was not logged; arguments as in `unsupported`."""
    overlap, held = known_overlap(problem), held_actions(problem)
    return joined(
        unsupported(problem, None if overlap is None else 1 - overlap, OVERLAP, factor),
        unsupported(problem, None if held is None else 1 - held, UNLIKE, factor),
    )
