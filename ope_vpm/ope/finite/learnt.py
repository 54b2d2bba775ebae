"""Was the target learnt from this log? Then its actions are those that had good luck in it, and its value is too high.

In a state, let z be the mean outcome r + γV(s') of the target's action less that of another one, in standard errors.
Of a target that never saw the log z is normal around some δ. Whatever δ is,

    P(0 < z < ½) ≤ P(z < 0) + P(z > 2)/20 + 1/100:

where differences are often barely positive, others are negative. A target that takes the best action of the counted
model has no negative ones. So a pair of actions counts 1 where 0 < z < ½, -1 where z < 0 and -1/20 where z > 2, and the
sum over pairs, divided by the root of the sum of squares by states, is far above 0 for such targets alone (note 035).

Outcomes need not be normal: what differences would be by chance is told by dealing the outcomes of both actions anew,
and a negative one counts more where it was less likely than ½, a positive one less where it was likelier. Where one
sign has less than ¼, as where a rare outcome decides, the pair is left out: many such pairs may have the same sign.
"""

from __future__ import annotations

import numpy as np
from scipy import sparse
from scipy.sparse.linalg import spsolve
from scipy.special import ndtri

from ope_vpm.arrays import ROUNDING, Floats, group_sums
from ope_vpm.ope.finite.problem import FiniteProblem, finite_problem
from ope_vpm.ope.inference.doubts import LEARNT, Doubts
from ope_vpm.ope.memory import remembered
from ope_vpm.ope.problem import Problem

BARELY, CLEARLY = 0.383, 0.954
"""The shares of positive z that lie below ½ and below 2, where z is standard normal."""
AGAINST = 1 / 20
"""What clear differences count against the target. With 1/12 the inequality needs no hundredth, and four of ten targets
that were learnt from logs of 200 states are found in place of nine."""
MAIN = 0.5
"""The probability from which an action is the target's own in a state."""
LEAST_OUTCOMES = 7
"""Of both actions together: fewer can hardly be dealt in different ways."""
MANY = 10
"""Outcomes of each action from which their means are taken for normal."""
LEAST_CHANCE = 0.25
"""The probability that either sign has by chance at least. Without it the log's own policy was at 1.3 to 3.0 errors on
four logs of Taxi where rare passengers decide, and is at -0.1 to 1.4 (note 035)."""
DEALS = 200
"""By which chances are known to three hundredths."""
MOST_PAIRS, MOST_OUTCOMES = 300, 200
"""Pairs of actions, and outcomes of each, that are looked at: with 300 pairs of an Oberst and Sontag log the sum was
3 to 5 errors above 0, and a pair takes a tenth of a millisecond."""
LONGEST = 0.99
"""The largest discount by which V is found: without one it need not exist."""


def learnt_doubts(problem: Problem) -> Doubts:
    """The doubt that a target on finite states was learnt from the log."""
    return LEARNT.of(learnt_from_log(problem.on_sample))


@remembered
def learnt_from_log(problem: Problem) -> float:
    """How many errors the sum of all pairs of actions lies above 0; 0 where there are none."""
    finite = finite_problem(problem.with_gamma(min(problem.gamma, LONGEST), "absorb", "continue"))
    counts, rng = finite.counts, np.random.default_rng(problem.seed)
    outcome = counts.rewards + finite.gamma * counts.value_after(_values(finite))
    order = np.lexsort((outcome, counts.pair))
    of_pair = np.split(outcome[order], np.cumsum(np.bincount(counts.pair, minlength=counts.pairs))[:-1])
    own = np.full(counts.states, -1)
    main = np.flatnonzero(finite.probability > MAIN)
    own[counts.state_of_pair[main]] = main
    mine, size = own[counts.state_of_pair], np.array([len(each) for each in of_pair])
    rivals = np.flatnonzero((mine >= 0) & (mine != np.arange(counts.pairs)) & (size + size[mine] >= LEAST_OUTCOMES))
    if len(rivals) > MOST_PAIRS:
        rivals = np.sort(rng.choice(rivals, MOST_PAIRS, replace=False))
    equal = ROUNDING * float(np.abs(outcome).max())
    scores = np.array([score(of_pair[mine[rival]], of_pair[rival], equal, rng) for rival in rivals])
    by_state = group_sums(counts.state_of_pair[rivals], scores, counts.states)
    spread = float(np.linalg.norm(by_state))
    return float(by_state.sum()) / spread if spread > 0 else 0.0


def _values(finite: FiniteProblem) -> Floats:
    """(states,): V in the counted model of seen pairs; where the target takes none of them, the least reward."""
    counts, taken = finite.counts, finite.seen[finite.counts.state_of_pair]
    share = np.divide(finite.probability, taken, out=np.zeros(counts.pairs), where=taken > ROUNDING)
    policy = sparse.csr_array((share, (counts.state_of_pair, np.arange(counts.pairs))), (counts.states, counts.pairs))
    paid = np.where(finite.seen > ROUNDING, policy @ counts.reward, counts.rewards.min())
    stays = sparse.eye_array(counts.states) - finite.gamma * (policy @ counts.transitions)
    values: Floats = spsolve(sparse.csc_array(stays), paid)
    return values


def score(taken: Floats, other: Floats, equal: float, rng: np.random.Generator) -> float:
    """What two actions of a state count: see above; 0 where that is not known.

    Args:
        taken: the outcomes of the target's action, in rising order.
        other: those of another one.
        equal: smaller differences are rounding errors.
        rng: of the deals.
    """
    gap = float(taken.mean() - other.mean())
    if abs(gap) <= equal:
        return 0.0
    dealt = _dealt(taken, other, rng)
    level = np.abs(dealt) <= equal
    negative = (np.sum((dealt < 0) & ~level) + 0.5 * np.sum(level) + 0.5) / (DEALS + 1)
    if not LEAST_CHANCE <= negative <= 1 - LEAST_CHANCE:
        return 0.0
    if gap < 0:
        return -max(1.0, 0.5 / negative)
    above = dealt[(dealt > 0) & ~level]
    place = np.mean(above <= gap + equal) if len(above) else 1.0
    return min(1.0, 0.5 / (1 - negative)) * (float(place < BARELY) - AGAINST * float(place > CLEARLY))


def _dealt(taken: Floats, other: Floats, rng: np.random.Generator) -> Floats:
    """Differences of means where the outcomes of both actions are dealt to them by chance."""
    few, many = sorted((taken, other), key=len)
    if len(few) >= MANY:
        error = np.sqrt(taken.var() / len(taken) + other.var() / len(other))
        return np.asarray(error * ndtri((np.arange(DEALS) + 0.5) / DEALS))
    kept = many if len(many) <= MOST_OUTCOMES else many[np.linspace(0, len(many) - 1, MOST_OUTCOMES).astype(int)]
    both = np.concatenate([few, kept])
    drawn = both[np.argsort(rng.random((DEALS, len(both))), axis=1)[:, : len(few)]].sum(axis=1)
    gaps: Floats = drawn / len(few) - (both.sum() - drawn) / len(kept)
    return gaps if few is taken else -gaps
