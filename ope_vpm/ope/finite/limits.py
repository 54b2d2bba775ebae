"""What an influence function does not know about counts: rewards that were hardly seen, and pairs that never were.

A standard error from a handful of rare events is itself hardly known, and one from none is 0. Where the rewards other
than the commonest one occur in at most half of the episodes, their share of the episodes is a binomial one, which has
exact limits. Where the target goes to pairs that were never seen, its rewards there are only known to lie within the
range of all rewards.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np
from scipy.special import betaincinv

from ope_vpm.arrays import Bools, Floats, effective_sample_size, group_sums
from ope_vpm.logged import LoggedDataset
from ope_vpm.ope.inference.doubts import FEW, Doubts
from ope_vpm.ope.inference.estimate import RawEstimate
from ope_vpm.ope.inference.uncertainty import LEVEL, Derived

RARE_SHARE = 0.5
"""A share of the episodes: rewards that more of them hold are not rare, and their mean is near normal."""


@dataclass(frozen=True)
class RareRewards:
    """How much rests on rewards that few episodes hold."""

    episodes: float
    """Kish's effective number of episodes with such rewards, by what each adds to the value."""
    below: float
    """How far the value may lie below the estimate, by the exact limits of a binomial share."""
    above: float
    """How far it may lie above."""


def commonest_reward(data: LoggedDataset) -> float | None:
    """The reward that most rows pay, the least of several; None where others are not rare.

    Others are rare where at least half of the episodes pay nothing else. Whether so many pay one reward all along is
    known without counting rewards, which takes long where there are many.
    """
    least, largest = (extreme.reduceat(data.rewards, data.starts) for extreme in (np.minimum, np.maximum))
    if np.mean(least == largest) < 1 - RARE_SHARE:
        return None
    known, times = np.unique(data.rewards, return_counts=True)
    return float(known[np.argmax(times)])


def limits_of_rewards(holding: Bools, gains: Floats, losses: Floats) -> RareRewards | None:
    """Limits of a value that rests on rare rewards; None where there are no others than one, or they are not rare.

    Args:
        holding: (episodes,): whether they hold other rewards than the commonest.
        gains: (episodes,): what those above it add to the value.
        losses: (episodes,): what those below it take from it.
    """
    if not holding.any() or holding.mean() > RARE_SHARE:
        return None
    (fewer_gains, more_gains), (fewer_losses, more_losses) = binomial_limits(gains), binomial_limits(losses)
    below, above = max(fewer_gains, more_losses), max(more_gains, fewer_losses)
    return RareRewards(effective_sample_size(gains + losses), below, above)


def rare_rewards(data: LoggedDataset, share: Floats) -> RareRewards | None:
    """How much of the value Σ share·r rests on rewards that few episodes hold; None where they are not rare.

    Args:
        data: the log, on states of any kind.
        share: (n,): how much each row counts in the value.
    """
    commonest = commonest_reward(data)
    if commonest is None:
        return None
    above = share * (data.rewards - commonest)
    columns = (data.rewards != commonest).astype(np.float64), np.maximum(above, 0), np.maximum(-above, 0)
    others, gains, losses = (group_sums(data.episode, column, data.n_episodes) for column in columns)
    return limits_of_rewards(others > 0, gains, losses)


RARE = "the rewards that make the difference occur in few episodes, worth {:.1f}"


def few_rewards(data: LoggedDataset, rare: RareRewards | None) -> Doubts:
    """The doubt about rewards that few episodes hold."""
    return FEW.of(None if rare is None else rare.episodes, data.n_episodes, sentence=RARE)


def with_rare_rewards(data: LoggedDataset, found: RawEstimate, share: Floats) -> RawEstimate:
    """An estimate whose interval and verdict know from how few episodes its rare rewards are.

    Args:
        data: the log, on states of any kind.
        found: the estimate, with an influence function.
        share: (n,): how much the reward of each row counts in its value.
    """
    rare = rare_rewards(data, share)
    if rare is None or found.uncertainty is None:
        return found
    reach = found.value - rare.below, found.value + rare.above
    uncertainty = Derived(of=found.uncertainty, limits=reach)
    return replace(found, uncertainty=uncertainty).doubted(few_rewards(data, rare))


def binomial_limits(amounts: Floats) -> tuple[float, float]:
    """How far below and above the sum of rare amounts its expectation may lie, as if all of them were equal.

    With K effective events in as many effective episodes as have the same share of them, the exact limits of that
    share are quantiles of Beta(K, n - K + 1) and Beta(K + 1, n - K) (Clopper and Pearson 1934); for few events in many
    episodes these are the limits of a Poisson number.

    Args:
        amounts: (episodes,): what each episode adds, not negative.
    """
    total, events = float(amounts.sum()), effective_sample_size(amounts)
    if total <= 0 or not events > 0:
        return 0.0, 0.0
    share, tail = float(np.mean(amounts > 0)), (1 - LEVEL) / 2
    others = events / share - events
    low = float(betaincinv(events, others + 1, tail))
    high = float(betaincinv(events + 1, others, 1 - tail)) if others > 0 else 1.0
    return total * (1 - low / share), total * (high / share - 1)
