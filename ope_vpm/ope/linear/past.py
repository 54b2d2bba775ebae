"""Does the past predict the Bellman residuals δ of an estimate that is linear in features?

Estimates take observations for states: what follows depends on the past through (s, a) alone, so that nothing of the
past predicts the next Bellman residual. Where a speed is not observed, residuals of successive steps go together.
Where observations come a step late they do not, for the errors of one step are over when the next begins, but the
action before, which has not shown yet, predicts them. Where doing the same again is paid, or a change of the action
has a price, the action before predicts them together with the present one, and alone it may say nothing. Where an
action works two steps later, as an advertisement does, those before the last predict them. None of this is mended by
any feature of (s, a): see `History`.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from ope_vpm.arrays import ROUNDING, Array, Bools, Floats, Integers
from ope_vpm.linear.features import Standardiser
from ope_vpm.linear.system import Halves
from ope_vpm.logged import LoggedDataset
from ope_vpm.ope.adapter.pair_features import PairFeatures
from ope_vpm.ope.linear.equations import PairEquations
from ope_vpm.ope.memory import remembered

UNCORRELATED = 0.2
"""|ρ| of residuals up to which states may be complete: Pendulum, Acrobot, CartPole and Hopper have up to 0.21."""
SURE = 2.5
"""How many standard errors the action before must gain on held-out episodes to count. Pendulum, Acrobot, CartPole,
Hopper and HopperBullet (seeds 100 and 101, three behaviours, 30 logs) have at most 2.4, most of them less than 0, for
a useless regressor loses on held-out episodes; Pendulum and Acrobot observed a step late 2.8 to 6 where answers were
wrong. The actions before the last gain 2.1 at most (38 logs of ten tasks), and 7 to 10 where they pay (note 033)."""
JOINT_SURE = 3.0
"""Standard errors for the action before together with the present one. Pendulum, Acrobot, CartPole and Hopper (seeds
100 and 101, three behaviours, 24 logs) have at most 2.6, ten logs of the linear-Gaussian system 0.9; rewards for doing
the same again and prices on changing an action 5.3 to 7 in logs of 50 episodes, where √50 is the most that there can
be."""
FADES, OLDEST = 0.7, 8
"""By how much less each earlier action counts than the one after it, and the oldest that counts."""
MOST_PRODUCTS = 72
"""Products of the action before and the present one, those of eight continuous or discrete actions: of more actions
only whether, and how far, each is as before is asked."""
MOST_COORDINATES, MOST_COLUMNS = 100, 400
"""Coordinates of an observation: with more of them, as of an image, nothing is asked about the action before. And of
both regressions: beyond it actions are not multiplied with the state."""
MOST_NUMBERS = 4_000_000
"""Regressors of all steps that are asked, 32 MB: steps of a part of the episodes where there are more. They are 10 000
steps at least, which know a share of 2 % to a tenth of it."""
RIDGE = 1e-6
"""In units of each regressor's mean square: keeps repeated ones solvable."""
FARTHEST = 5.0
"""Standard deviations beyond which coordinates are not told apart, as in the features."""


@dataclass(frozen=True)
class History:
    """The shares of the Bellman residuals that the past predicts."""

    correlation: float
    """ρ of the residuals of successive steps."""
    alone: float
    """The share of their variance that the action before predicts beyond state and action; 0 where noise alone may be
    the reason."""
    jointly: float = 0.0
    """That share by the action before together with the present one."""
    earlier: float = 0.0
    """That share by the actions before the last."""
    noise: float = 0.0
    """The standard error of ρ where it is 0: 1/√n over n pairs of successive steps."""

    @property
    def predicted(self) -> float:
        """The largest of the three shares."""
        return max(self.alone, self.jointly, self.earlier)

    @property
    def share(self) -> float:
        """The share of the residuals' variance that the past predicts, by its action or by its residual."""
        return self.predicted + max(abs(self.correlation) - max(UNCORRELATED, SURE * self.noise), 0.0) ** 2

    def bias(self, bound: float) -> float:
        """How far a value may be off by that; `bound` is B."""
        return bound * float(np.sqrt(self.share))


def history(equations: PairEquations, residual: Floats) -> History:
    """The shares of the residuals of a log in memory that the past predicts."""
    size = equations.problem.data.reward_facts.size
    together, past = _together(equations), _past_steps(equations)
    correlation, noise = residual_correlation(together, residual, size), 1 / np.sqrt(max(int(together.sum()), 1))
    alone, jointly, earlier = (0.0, 0.0, 0.0) if past is None else past.predicted(residual, size)
    return History(correlation, alone, jointly, earlier, float(noise))


def _together(equations: PairEquations) -> Bools:
    """(n - 1,): whether each row but the first is the step after the row before it."""
    rows = equations.rows.rows
    return (np.diff(rows) == 1) & (np.diff(equations.problem.data.episode[rows]) == 0)


@remembered
def _past_steps(equations: PairEquations) -> PastSteps | None:
    """The steps that have one before them; None where there are none, or states are numbers or too large."""
    sample, pairs, together = equations.problem.log, equations.rows, _together(equations)
    data, rows, encoder = sample.data, pairs.rows, pairs.states.features.encoder
    vectors = encoder.shape is None and encoder.size <= MOST_COORDINATES
    if not vectors or not together.any():
        return None
    (kinds, actions), plain = _kinds(data, pairs), _plain_actions(data)
    one = encoder.states(data.observations[:1]), kinds[:1], kinds[:1, :actions]
    columns = sum(part.shape[1] for part in (*regressors(*one), joint_actions(plain[:1], plain[:1], data.n_actions)))
    every = -(-len(rows) * (columns + actions) // MOST_NUMBERS)
    asked = sample.content // 2 % every == 0  # folds are odd and even numbers
    later = np.flatnonzero(together & asked[data.episode[rows[1:]]]) + 1
    now, last = kinds[rows[later]], kinds[rows[later - 1], :actions]
    known = regressors(encoder.states(data.observations[rows[later]]), now, last)
    joint = joint_actions(plain[rows[later]], plain[rows[later - 1]], data.n_actions)
    earlier = earlier_actions(kinds[:, :actions], together)[later]
    episode = data.episode[rows[later]]
    return PastSteps.of(later, [*known, joint, earlier], episode, sample.folds(2)[episode])


def _kinds(data: LoggedDataset, pairs: PairFeatures) -> tuple[Array, int]:
    """The centred actions, and their squares where they are continuous; and how many columns the first ones are."""
    number = pairs.centred.shape[1] if data.discrete_actions else data.actions.shape[1]
    return pairs.centred[:, : number if data.discrete_actions else 2 * number], number


def _plain_actions(data: LoggedDataset) -> Array:
    """The numbers of discrete actions, (n,), or continuous ones in their own deviations, (n, k)."""
    if data.discrete_actions:
        return data.actions
    return np.clip(Standardiser.fit(data.actions)(data.actions), -FARTHEST, FARTHEST)


def residual_correlation(together: Bools, residual: Floats, size: float) -> float:
    """ρ = E[δ(t)·δ(t+1)] / E[δ²], δ less its mean, over successive steps of the same episode.

    Args:
        together: (n - 1,): whether each row but the first is the step after the row before it.
        residual: δ.
        size: that of the rewards; residuals that are nothing but rounding errors beside it count as uncorrelated.
    """
    left = residual - residual.mean()
    square = float(np.mean(left**2))
    if not together.any() or np.sqrt(square) <= ROUNDING * size:
        return 0.0
    return float(np.clip(np.mean((left[:-1] * left[1:])[together]) / square, -1, 1))


@dataclass(frozen=True, eq=False)
class PastSteps:
    """Steps that have one before them, and regressions of whatever is left of them, without and with that one.

    Each half of the episodes is predicted by what the other half says, so that a useless regressor makes it worse.
    """

    place: Integers
    """The place of each step among the rows."""
    halves: Halves
    """Functions of the present, of the action before, of both actions together, and of those before."""
    columns: list[Integers]
    """The columns of these four."""
    episode: Integers

    @classmethod
    def of(cls, place: Integers, parts: list[Floats], episode: Integers, fold: Integers) -> PastSteps:
        """From the functions of the present, of the action before, of both, and of those before, (n, columns) each."""
        x, ends = np.hstack(parts), np.cumsum([part.shape[1] for part in parts])
        return cls(place, Halves(x, fold), np.split(np.arange(x.shape[1]), ends[:-1]), episode)

    def predicted(self, residual: Floats, size: float) -> list[float]:
        """The shares of the squared residuals by which the past improves their prediction.

        By the action before, by it together with the present one, and by those before the last: three questions, for
        regressors of the one would drown the others.

        Args:
            residual: δ of all rows.
            size: as in `residual_correlation`.
        """
        values = residual[self.place]
        if np.sqrt(np.mean(values**2)) <= ROUNDING * size:
            return [0.0, 0.0, 0.0]
        known, *more = self.columns
        asked = [known, *(np.concatenate([known, each]) for each in more)]
        predicted = self.halves.each_predicted(self.halves.products(values), [(RIDGE, each) for each in asked])
        left = np.square(values[:, None] - predicted)
        return [
            self._gain(left[:, 0], left[:, place], len(asked[place]), sure)
            for place, sure in ((1, SURE), (2, JOINT_SURE), (3, SURE))
        ]

    def _gain(self, plain: Floats, better: Floats, columns: int, sure: float) -> float:
        """The share of squared residuals by which more regressors make them smaller.

        0 where noise alone may be the reason, or there are too few steps to tell.

        Args:
            plain: (n,): the squares that are left without them.
            better: (n,): those that are left with them.
            columns: how many regressors there are with them.
            sure: how many standard errors the gain must have.
        """
        if min(np.bincount(self.halves.fold, minlength=2)) <= 2 * columns:
            return 0.0
        by_episode = np.bincount(self.episode, plain - better)
        gained, noise = float(by_episode.sum()), float(np.sqrt(np.sum(by_episode**2)))
        return gained / float(plain.sum()) if gained > sure * noise else 0.0


def regressors(z: Floats, now: Floats, last: Floats) -> tuple[Floats, Floats]:
    """Functions of the present, and of the action before: [1, z, z², u⊗(1, z)] and a'⊗(1, z).

    What a missing action changes depends on the state: at the top of a swing it helps, on the way down it does not.

    Args:
        z: (n, d): standardised observations.
        now: (n, k): functions u of the action.
        last: (n, m): those of the action before.
    """
    near = np.clip(z, -FARTHEST, FARTHEST)
    base = np.hstack([np.ones((len(z), 1)), near])
    if (now.shape[1] + last.shape[1]) * base.shape[1] > MOST_COLUMNS:
        return np.hstack([base, near**2, now]), last
    acting, before = ((u[:, :, None] * base[:, None, :]).reshape(len(u), -1) for u in (now, last))
    return np.hstack([base, near**2, acting]), before


def earlier_actions(actions: Floats, together: Bools) -> Floats:
    """Σₖ 0.7^(k-2)·a(t - k) over k from 2 on, as far as the steps before follow one another.

    Args:
        actions: (n, m): functions of the action of each row.
        together: (n - 1,): whether each row but the first is the step after the row before it.
    """
    starts = np.append(0, np.flatnonzero(~together) + 1)
    steps = np.arange(len(actions)) - np.repeat(starts, np.diff(np.append(starts, len(actions))))
    found = np.zeros_like(actions, dtype=np.float64)
    for lag in range(2, OLDEST + 1):
        later = np.flatnonzero(steps >= lag)
        found[later] += FADES ** (lag - 2) * actions[later - lag]
    return found


def joint_actions(now: Array, last: Array, number: int | None) -> Floats:
    """Functions of an action and of the one before it together, with which a sum of functions of each is not enough.

    Of discrete actions 1[a = j]·1[a' = k]; of continuous ones a_j·a'_k and a'_k², for a price on the change is
    (a - a')² = a² - 2aa' + a'², or goes with it. Where that is more than `MOST_PRODUCTS` columns, 1[a = a'], or
    a_j·a'_j and a'_j².

    Args:
        now: (n,): numbers of discrete actions, or (n, k): standardised continuous ones.
        last: the same of the actions before.
        number: of discrete actions; None where they are continuous.
    """
    if number is not None:
        if number**2 > MOST_PRODUCTS:
            return (now == last)[:, None].astype(np.float64)
        return np.eye(number**2)[now * number + last]
    size = now.shape[1]
    products = now[:, :, None] * last[:, None, :] if size * (size + 1) <= MOST_PRODUCTS else now * last
    return np.hstack([products.reshape(len(now), -1), last**2])
