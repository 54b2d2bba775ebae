"""A model of one step of the environment: ridge regressions on products and Fourier features of state and action.

Smooth dynamics, such as those of a pole or an arm, are learned almost exactly from a few thousand rows, and then tell
what the target's own actions lead to, which no reweighting of other actions does as well. Contacts and collisions are
not; `World.explained` says which case it is, on episodes that were not fitted.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import cache

import numpy as np
from scipy.special import expit

from ope_vpm.arrays import Array, Bools, Floats, Integers, chunks
from ope_vpm.linear.features import BATCH_ROWS, DistinctColumns, Standardiser
from ope_vpm.ope.dynamics.regression import Columns, Regression, sums_over
from ope_vpm.ope.log import Log
from ope_vpm.ope.memory import remembered
from ope_vpm.ope.problem import Problem
from ope_vpm.policy.target import Clipping

FOURIER = 400
"""Cosines of state and action in each regression, divided among discrete actions: as many as vpm has of the state."""
LEAST_FOURIER = 20
"""For each discrete action, however many there are."""
MOST_PRODUCTS = 40
"""Coordinates up to which all their products are features: 40 have 820, which is what a second of fitting allows."""
MOST_FEATURES = 2000
"""Features of all actions together: time grows with their cube, and 2000 take a few seconds."""
MOST_ROWS = 30_000
"""Rows that are fitted: what a smooth model can learn is learned from fewer, and the time stays bounded."""
BEYOND = 0.1
"""As a share of the logged range of each coordinate, how far beyond it the model's states may go."""
END_PENALTY = 1e-6
"""Times the squared coefficients in the log-likelihood of ends, in units of their frequency: where ends are separable,
as angles beyond a threshold are, the coefficients would otherwise grow without bound."""
END_OPTIONS = {"maxiter": 500, "maxfun": 1000, "ftol": 1e-12, "gtol": 1e-9}
"""Options of L-BFGS: ends are one row in hundreds, so that its usual tolerances would stop before they are told
apart."""


@dataclass(frozen=True, eq=False)
class Inputs:
    """Features of states and actions for a model of one step."""

    states: DistinctColumns
    to_actions: Callable[[Array], Array]
    """From actions to what the features take: numbers of discrete actions, or standardised, clipped vectors."""
    n_actions: int | None
    frequencies: Floats
    phases: Floats

    @property
    def size(self) -> int:
        """The number of features."""
        coordinates, fourier = int(self.frequencies.shape[0]), int(self.frequencies.shape[1])
        products = coordinates * (coordinates + 1) // 2 if coordinates <= MOST_PRODUCTS else coordinates
        return (1 + coordinates + products + fourier) * (self.n_actions or 1)

    def features(self, z: Floats, actions: Array) -> Floats:
        """[1, x, products of x, cos(ωᵀx + b)] with x = (z, a); for discrete actions x = z, once for each action."""
        if len(z) > BATCH_ROWS:  # parts of the features would be as large again
            whole = np.empty((len(z), self.size))
            for part in chunks(len(z), BATCH_ROWS):
                whole[part] = self.features(z[part], actions[part])
            return whole
        x = z if self.n_actions is not None else np.hstack([z, actions])
        angle = (x @ self.frequencies + self.phases).astype(np.float32)  # ten times as fast, and exact to 1e-6
        base = np.concatenate([with_products(x), np.cos(angle, out=angle)], axis=1)
        if self.n_actions is None:
            return base
        blocks = np.zeros((len(z), self.n_actions, base.shape[1]))
        blocks[np.arange(len(z)), actions] = base
        return blocks.reshape(len(z), -1)


@dataclass(frozen=True, eq=False)
class World(Inputs):
    """A model of one step: the change of the standardised state z, the reward, and the probability of an end."""

    change: Regression
    reward: Regression
    """The change of z, fitted to steps that do not end the task."""
    end_reward: float
    """The mean reward of steps that do."""
    ends: Floats | None
    """Coefficients of the log-odds of an end in the next state; None where nothing ends."""
    low: Floats
    high: Floats
    """The states that the model may reach."""
    rewards: tuple[float, float]
    """The least and the largest reward."""
    explained: float
    """The least share of variance explained, on held-out rows, over all coordinates of the state and the reward."""
    ends_explained: float
    """The share of the variance of ends that is explained; 1 where nothing ends."""

    def observations(self, z: Floats, like: Array) -> Array:
        """States of the model as a policy is asked about them, in the type of the logged ones."""
        return self.states.restored(z).astype(like.dtype)

    def inside(self, z: Floats) -> Floats:
        """The nearest states that the model may reach."""
        return np.clip(z, self.low, self.high)

    def at_limits(self, z: Floats) -> Bools:
        """(n,): which states `inside` has moved, or would, for at least one coordinate."""
        return np.asarray(((z <= self.low) | (z >= self.high)).any(axis=1))

    def end_probability(self, z: Floats) -> Floats:
        """The probability that the task ends on arriving in each state."""
        return np.zeros(len(z)) if self.ends is None else np.asarray(expit(with_products(z) @ self.ends))

    def step(self, z: Floats, actions: Array) -> tuple[Floats, Floats, Floats]:
        """Next states, expected rewards and probabilities of an end."""
        x = self.features(z, actions)
        after = self.inside(z + self.change(x))
        ending = self.end_probability(after)
        going_on = np.clip(self.reward(x)[:, 0], *self.rewards)
        return after, (1 - ending) * going_on + ending * self.end_reward, ending

    def drawn(self, rng: np.random.Generator) -> World:
        """A model that the data allow as well: coefficients from their posterior distribution."""
        return replace(self, change=self.change.drawn(rng), reward=self.reward.drawn(rng))


def with_products(x: Floats) -> Floats:
    """[1, x, products of coordinates of x]; squares only where there are too many coordinates."""
    rows, columns = _multiplied(x.shape[1])
    return np.concatenate([np.ones((len(x), 1)), x, x.take(rows, axis=1) * x.take(columns, axis=1)], axis=1)


@cache
def _multiplied(size: int) -> tuple[Integers, Integers]:
    """The coordinates that are multiplied with one another, as two columns of their numbers."""
    rows, columns = np.triu_indices(size) if size <= MOST_PRODUCTS else (np.arange(size),) * 2
    return rows, columns


def world_of(problem: Problem) -> World | None:
    """The model of a problem's log, which all policies with actions of one kind share."""
    return fit_world(problem.log, problem.policy.clipping, problem.policy.n_actions, problem.seed)


@remembered
def fit_world(log: Log, clipping: Clipping, n_actions: int | None, seed: int) -> World | None:
    """Learn the model of a log; None where its states are no vectors or too little is known to judge it.

    Of the policy that will act in it only the kind of its actions enters, so that policies of one kind share a model.

    Args:
        log: the rows.
        clipping: the bounds to which continuous actions are clipped.
        n_actions: how many discrete actions there are; None where only the log tells.
        seed: of the Fourier features.
    """
    data = log.data
    terminated, known = np.asarray(data.terminated), np.asarray(data.next_known)
    if data.finite or data.observations.ndim != 2 or (terminated & ~known).any():
        return None
    usable = log.rows[known[log.rows]]
    usable = usable[:: len(usable) // MOST_ROWS + 1] if len(usable) else usable
    held_out, going_on = log.held_out[usable], ~terminated[usable]
    if min((going_on & held_out).sum(), (going_on & ~held_out).sum()) < LEAST_FOURIER:
        return None
    states = DistinctColumns.fit(data.observations, data.time)
    z, after = states(data.observations[usable]), states(data.next_observations[usable])
    inputs = _inputs(log, states, z, clipping, n_actions, seed)
    if inputs.size > MOST_FEATURES:
        return None
    actions, rewards, ended = inputs.to_actions(data.actions[usable]), data.rewards[usable], ~going_on

    def features(rows: Integers) -> Floats:
        return inputs.features(z[rows], actions[rows])

    judged = features(np.flatnonzero(held_out))
    change, reward = _fitted(features, after - z, rewards, held_out, going_on, judged)
    end_reward = float(rewards[ended].mean()) if ended.any() else 0.0
    predicted = np.where(ended[held_out], end_reward, reward(judged)[:, 0])
    least = min(float(change.explained.min()), _explained(predicted, rewards[held_out]))
    ends = _end_coefficients(after, ended) if ended.any() else None
    low, high = np.minimum(z.min(axis=0), after.min(axis=0)), np.maximum(z.max(axis=0), after.max(axis=0))
    margin, paid = BEYOND * (high - low), (float(data.rewards.min()), float(data.rewards.max()))
    seen = inputs.states, inputs.to_actions, inputs.n_actions, inputs.frequencies, inputs.phases
    world = World(*seen, change, reward, end_reward, ends, low - margin, high + margin, paid, least, 1.0)
    return replace(world, ends_explained=_explained(world.end_probability(after), ended.astype(np.float64)))


def _fitted(
    features: Callable[[Integers], Floats],
    change: Floats,
    rewards: Floats,
    held_out: Bools,
    going_on: Bools,
    judged: Floats,
) -> tuple[Regression, Regression]:
    """The regressions of the change of the state, on all rows, and of the reward, on those that do not end the task.

    Features are made in one pass over the rows that are fitted, for all of them would be the largest thing in memory.

    Args:
        features: from the numbers of some rows to their features.
        change: (n, coordinates).
        rewards: (n,).
        held_out: (n,): the rows that judge.
        going_on: (n,): the rows that do not end the task.
        judged: the features of the rows that judge.
    """
    train, width = ~held_out, change.shape[1]
    of_change, of_reward = slice(0, width), slice(width, None)
    columns = Columns.of(change, train, held_out, size=1.0)  # of standardised states
    size = float(np.abs(rewards).max(initial=0.0))
    columns = columns.beside(Columns.of(rewards[:, None], train & going_on, held_out & going_on, size))
    scaled = columns.scaled[held_out]
    on, last = sums_over(features, columns.scaled, [train & going_on, train & ~going_on])
    change_of_state = Regression.of_sums(on.merge(last), columns, judged, scaled)
    if going_on.all():  # both are on the same rows, and share a factorisation
        return change_of_state.part(of_change), change_of_state.part(of_reward)
    chosen, reward = going_on[held_out], columns.part(of_reward)
    of_rest = Regression.of_sums(on.part(of_reward), reward, judged[chosen], scaled[chosen, of_reward])
    return change_of_state.part(of_change), of_rest


def _inputs(
    log: Log, states: DistinctColumns, z: Floats, clipping: Clipping, n_actions: int | None, seed: int
) -> Inputs:
    """The features of a model; z are standardised states, other arguments as in `fit_world`."""
    data, rng, size, number = log.data, np.random.default_rng(seed), z.shape[1], FOURIER
    if data.discrete_actions:
        n_actions = n_actions or int(data.actions.max()) + 1
        number, to_actions = max(FOURIER // n_actions, LEAST_FOURIER), _numbers
    else:
        scale, clip = Standardiser.fit(data.actions), clipping.clip
        n_actions, size = None, size + data.actions.shape[1]

        def to_actions(actions: Array) -> Array:
            return scale(clip(actions))

    frequencies = rng.standard_normal((size, number)) / np.sqrt(size)
    return Inputs(states, to_actions, n_actions, frequencies, rng.uniform(0, 2 * np.pi, number))


def _numbers(actions: Array) -> Array:
    return np.asarray(actions, dtype=np.int64)


def _explained(predicted: Floats, actual: Floats) -> float:
    """The share of variance explained; 1 for what does not vary."""
    variance = float(actual.var())
    return 1 - float(np.mean((predicted - actual) ** 2)) / variance if variance > 0 else 1.0


def _end_coefficients(after: Floats, ended: Bools) -> Floats:
    """Logistic regression of ends on the next state and its products, started at their frequency."""
    x, y = with_products(after), ended.astype(np.float64)
    rate = float(np.clip(y.mean(), 1e-6, 1 - 1e-6))  # log-odds stay finite where every row ends
    start = np.zeros(x.shape[1])
    start[0] = np.log(rate / (1 - rate))
    penalty = END_PENALTY * min(rate, 1 - rate) * (np.arange(len(start)) > 0)

    def loss(w: Floats) -> tuple[float, Floats]:
        odds = x @ w
        value = np.mean(np.logaddexp(0, odds) - y * odds) + penalty @ w**2
        return float(value), x.T @ (expit(odds) - y) / len(y) + 2 * penalty * w

    from scipy.optimize import minimize  # imported here: it takes long, and few need it

    return minimize(loss, start, jac=True, method="L-BFGS-B", options=END_OPTIONS).x
