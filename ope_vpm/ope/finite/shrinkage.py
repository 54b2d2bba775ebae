"""A value of counts drawn towards the logged mean, where most of what the target does was never seen.

Where hundreds of states and dozens of actions meet a few dozen episodes, a solution of counts rests on what was put in
the place of unseen pairs, and the logged mean, whose bias is that of another policy, is often nearer. Both have an
influence function over episodes, and the first says how far its unseen pairs may be off. The share of the logged mean
is the one with the least variance plus squared bias; its squared bias is what its squared distance exceeds the expected
one by.
"""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from ope_vpm.ope.inference.logged_mean import logged_mean
from ope_vpm.ope.inference.uncertainty import EpisodeSums, Reaching
from ope_vpm.ope.inference.value import RawEstimate
from ope_vpm.ope.problem import Problem

MOSTLY_UNSEEN = 0.2
"""The share of the target's steps with unseen pairs from which the logged mean joins, and verdicts are "unreliable":
nearer to the log it only adds its bias."""


def towards_logged_mean(problem: Problem, found: RawEstimate) -> tuple[RawEstimate, float]:
    """The estimate with a share of the logged mean, and that share; 0 where little is unseen."""
    unseen, plain = found.evidence.unseen_mass, logged_mean(problem)
    if unseen is None or unseen <= MOSTLY_UNSEEN or found.sums is None or plain.sums is None:
        return found, 0.0
    share = logged_share(found, plain.value, plain.sums)
    value = found.value + share * (plain.value - found.value)
    one, other = found.sums.scaled(1 - share), plain.sums.scaled(share)
    sums = EpisodeSums(np.hstack([one.numerator, other.numerator]), np.hstack([one.denominator, other.denominator]))
    bias = float(np.hypot(found.suspected_bias, value - found.value))
    reach = found.uncertainty.reach if isinstance(found.uncertainty, Reaching) else (value, value)
    return replace(found, value=value, uncertainty=Reaching(episodes=sums, suspected_bias=bias, reach=reach)), share


def logged_share(found: RawEstimate, value: float, sums: EpisodeSums) -> float:
    """The w in [0, 1] with the least expected square of (1 - w)·(error of counts) + w·(error of the logged mean)."""
    if found.sums is None:
        return 0.0
    one, other = found.sums.influence, sums.influence
    doubt, apart = found.suspected_bias**2, float(np.sum((one - other) ** 2))
    excess = max((value - found.value) ** 2 - apart - doubt, 0.0)
    whole = apart + doubt + excess
    return float(np.clip((float(one @ (one - other)) + doubt) / whole, 0.0, 1.0)) if whole > 0 else 0.0
