"""Does the step number explain what state and action do not? If so, it belongs to the state.

Where customers leave after a number of contacts that was settled in advance, or a reward falls from step to step, the
logged state is not all that the future depends on. Outcomes (rewards, ends of the task, next states) are regressed on
functions of state and action, and so are functions of the step number; where what is left of the two goes together,
the step number explains more. This is the score test of added variables, with sums over episodes as independent terms.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace

import numpy as np
from scipy.special import chdtrc

from ope_vpm.arrays import ROUNDING, Array, Floats, Integers, group_sums, usable
from ope_vpm.linear.features import DistinctColumns, FourierFeatures, Standardiser, draw_frequencies
from ope_vpm.linear.system import gram_penalty, solve_gram
from ope_vpm.logged.dataset import LoggedDataset

PROBABILITY = 1e-3
"""How often noise alone may look like an effect of the step number, all outcomes together."""
LEAST_SHARE = 0.005
"""A share of an outcome's variance. Ends after a drawn number of steps have 0.03 and more, hazards and rewards that
depend on the step 0.01 and more (66 generated logs); where nothing depends on it, and on Pendulum, Acrobot and
CartPole, whose outcomes the regression does not catch altogether, at most 0.001."""
LEAST_EPISODES = 20
"""Sums over fewer do not tell an effect from noise."""
COSINES = 3
"""Functions of the step number: cos(πkF(t)), with F(t) the share of logged steps that are not later than t."""
FOURIER, RIDGE = 300, 1e-3
"""Random Fourier features of continuous states, and the ridge in units of their mean squares. Of what features miss the
step number seems to explain a part, as states change in an episode: with 100 that is 1.4 % on Reacher, where nothing
depends on it, and with 300 less than 0.4 % on Reacher, HalfCheetah and Ant with 100 and 500 episodes (note 034)."""
MOST_COORDINATES, MOST_COLUMNS = 50, 100
"""Coordinates of an observation or action, beyond which nothing is asked; products of actions and coordinates of the
state, beyond which actions enter alone."""
MOST_ROWS = 25_000
"""Rows that are looked at, in whole episodes: enough for shares of `LEAST_SHARE`."""
MOST_BINS = 32
"""Values of the step number as a coordinate of finite states: later steps are counted together, so that each value has
its share of the rows."""
AHEAD, SWEEPS = 0.95, 60
"""The discount of the values by which finite next states are told apart, and sweeps for them: 0.95^60 is 0.05."""


def step_effect(data: LoggedDataset) -> float:
    """The largest share of an outcome's variance that the step number explains, given state and action.

    0 where noise may be the reason, where the share is too small to matter, and where nothing can be asked.
    """
    longest = int(data.lengths.max(initial=0))
    if data.n_episodes < LEAST_EPISODES or longest < 2 or not _can_be_asked(data):
        return 0.0
    data = data if len(data) <= MOST_ROWS else data.select(slice(None, None, -(-len(data) // MOST_ROWS)))
    outcomes, left = _finite(data) if data.finite else _continuous(data)
    outcomes = outcomes / np.maximum(np.abs(outcomes).max(axis=0), np.finfo(float).tiny)  # whatever their units
    late = np.cumsum(np.bincount(data.time)) / len(data)
    steps = np.cos(np.pi * np.multiply.outer(late[data.time], np.arange(1, COSINES + 1)))
    beyond = left(np.hstack([outcomes, steps]))
    unexplained, steps = beyond[:, : outcomes.shape[1]], beyond[:, outcomes.shape[1] :]
    found = [_explained(each, steps, data) for each in unexplained.T]
    shares = [
        share / whole
        for (share, by_accident), whole in zip(found, outcomes.var(axis=0), strict=True)
        if by_accident < PROBABILITY / len(found) and whole > ROUNDING**2  # constants vary by rounding errors
    ]
    largest = max(shares, default=0.0)
    return largest if largest >= LEAST_SHARE else 0.0


def _can_be_asked(data: LoggedDataset) -> bool:
    """Whether outcomes can be regressed on these states and actions."""
    if data.finite:
        return data.discrete_actions and bool(usable(data.rewards).all())
    columns = data.observations, data.actions, data.rewards, data.next_observations[data.next_known]
    small = all(np.prod(each.shape[1:]) <= MOST_COORDINATES for each in columns)
    return small and all(bool(usable(each).all()) for each in columns)


def _explained(outcome: Floats, steps: Floats, data: LoggedDataset) -> tuple[float, float]:
    """The variance that functions of the step number explain beyond noise, and the probability of that by accident.

    Args:
        outcome: (n,): what state and action leave of it.
        steps: (n, k): what they leave of the functions.
        data: the log.
    """
    sums = np.add.reduceat(outcome[:, None] * steps, data.starts, axis=0)
    sizes, axes = np.linalg.eigh(sums.T @ sums)
    kept = sizes > 1e-9 * max(float(sizes[-1]), 1e-300)
    if not sizes[-1] > 0:
        return 0.0, 1.0
    score = float(np.sum((sums.sum(axis=0) @ axes[:, kept]) ** 2 / sizes[kept]))
    predicted = steps @ np.linalg.lstsq(steps, outcome, rcond=None)[0]
    noise = steps.shape[1] * float(np.mean(outcome**2)) / len(data)
    return float(np.mean(predicted**2)) - noise, float(chdtrc(int(np.count_nonzero(kept)), score))


Residuals = Callable[[Floats], Floats]
"""From columns to what state and action leave of them."""


def _finite(data: LoggedDataset) -> tuple[Floats, Residuals]:
    """Outcomes less their means by pair; a next state is told by its value."""
    rows = [each.reshape(len(data), -1) for each in (data.observations, data.next_observations)]
    state, after = np.split(np.unique(np.concatenate(rows), axis=0, return_inverse=True)[1].reshape(-1), 2)
    pair = np.unique(state * (data.n_actions or 1) + data.actions, return_inverse=True)[1]
    times = np.bincount(pair)
    value = _values(data, state, after)

    def left(columns: Floats) -> Floats:
        means = np.stack([group_sums(pair, each, len(times)) / times for each in columns.T], axis=1)
        return columns - means[pair]

    return np.column_stack([data.rewards, data.terminated, data.rewards + AHEAD * value]), left


def _continuous(data: LoggedDataset) -> tuple[Floats, Residuals]:
    """Outcomes less ridge regressions on features of the state, its coordinates times the action, and a²."""
    scale = DistinctColumns.fit(data.observations, data.time)
    z, number = scale(data.observations), min(FOURIER, len(data) // 10)
    frequencies = draw_frequencies(scale.size, number, float(np.sqrt(scale.size)), np.random.default_rng(0))
    features = FourierFeatures(Standardiser.unit(scale.size).within(5.0), frequencies, linear=True)(z)
    if data.discrete_actions:
        acts, squares = np.eye(data.n_actions or 1)[data.actions][:, 1:], np.empty((len(data), 0))
    else:
        acts = Standardiser.fit(data.actions)(data.actions)
        squares = acts**2
    with_state = acts.shape[1] * z.shape[1] <= min(MOST_COLUMNS, len(data) // 10)
    products = (acts[:, :, None] * z[:, None, :]).reshape(len(z), -1) if with_state else np.empty((len(z), 0))
    x = np.hstack([features, acts, squares, products])
    gram = x.T @ x
    after = np.where(data.next_known[:, None], data.next_observations, data.observations)

    def left(columns: Floats) -> Floats:
        return columns - x @ solve_gram(gram, gram_penalty(gram, RIDGE), x.T @ columns)

    return np.column_stack([data.rewards, data.terminated, scale(after)]), left


def _values(data: LoggedDataset, state: Integers, after: Integers) -> Floats:
    """(n,): the discounted value V(s') of what follows each row, by sweeps V(s) <- mean of r + γV(s').

    Where the state after a row was never left, or is not known, the row's own state takes its place.
    """
    visits = np.bincount(state, minlength=int(max(state.max(), after.max())) + 1)
    following = np.where(data.next_known & (visits[after] > 0), after, state)
    value, ahead = np.zeros(len(visits)), np.zeros(len(data))
    for _ in range(SWEEPS):
        value = np.bincount(state, data.rewards + AHEAD * ahead, len(visits)) / np.maximum(visits, 1)
        ahead = np.where(data.terminated, 0.0, value[following])
    return ahead


@dataclass(frozen=True, eq=False)
class StepColumn:
    """The step number as one more coordinate of observations: the last one."""

    edges: Integers | None
    """The first steps of the bins for finite states; None where states are continuous, and the number is as it is."""

    @classmethod
    def of(cls, data: LoggedDataset) -> StepColumn:
        """For finite states, single steps as long as they have their share of the rows, and then several together."""
        if not data.finite:
            return cls(None)
        share = np.cumsum(np.bincount(data.time)) * MOST_BINS / len(data)
        edges, reached = [0], 0.0
        for step, until in enumerate(share[:-1]):
            if until >= reached + 1:
                edges.append(step + 1)
                reached = float(until)
        return cls(np.array(edges))

    def added(self, observations: Array, time: Integers) -> Array:
        """Observations with the column, (n, k + 1)."""
        step = time if self.edges is None else np.searchsorted(self.edges, time, side="right") - 1
        rows = observations.reshape(len(observations), -1)
        return np.column_stack([rows, step.astype(rows.dtype)])


def with_step_number(data: LoggedDataset) -> LoggedDataset:
    """The log with the step number as the last coordinate of every observation."""
    column = StepColumn.of(data)
    following = column.added(data.next_observations, data.time + 1)
    following[~data.next_known] = -1 if data.finite else np.nan
    return replace(
        data,
        observations=column.added(data.observations, data.time),
        next_observations=following,
        observation_space=None,
        encoding=None,
    )
