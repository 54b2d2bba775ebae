"""Does the target leave the states that were logged? The overlap of actions cannot tell.

The target is followed in a learned model from the logged initial states, and beside it, in the same model, the log's
own behaviour: in each state it takes an action that was logged in a state nearby. What the model misses of a step is
added to each, drawn from held-out rows, so that noise carries both as far as it carried the log. A model that is wrong
leads both astray; a target that goes where nobody logged goes there alone. So the share of the target's steps that lie
farther from any logged state than nearly all steps of the behaviour is evidence against an estimate, however little the
model explains. It is followed for as long as the question asks, which may be longer than any logged episode: where the
log was cut before its states had spread, what comes later was not logged.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np

from ope_vpm.arrays import Array, Floats, Integers
from ope_vpm.ope.dynamics.world import World, fit_world, world_of
from ope_vpm.ope.log import Log
from ope_vpm.ope.memory import remembered
from ope_vpm.ope.problem import Problem
from ope_vpm.policy import TargetPolicy

COPIES = 100
"""Walks of each policy: shares of steps are then known to about five per cent."""
LOGGED_STATES = 1000
"""Logged states, drawn at random, that stand for all of them: distances are compared between walks, not with 0."""
LONGEST = 300
"""Steps of a walk at most, half a second's work."""
REMAINDER = 0.05
"""The discounted weight after the last step of the target's walks: with γ = 0.99 they have 299 steps, with 0.9 29."""
NEIGHBOURS = 5
"""The nearest logged states: the behaviour takes the action that was logged in one of them, and so is as random as the
log."""
USUAL = 0.99
"""The share of the behaviour's steps that lies nearer to the logged states than what is called far."""


@dataclass(frozen=True)
class Walks:
    """Distances from the nearest logged state, and how much each step counts: (steps, copies)."""

    distance: Floats
    """Infinite at the limits of the model, a tenth of the log's range beyond it."""
    alive: Floats
    """The probability that the task has not ended, discounted."""

    def quantile(self, share: float) -> float:
        """The distance within which that share of the steps inside the model's limits lies."""
        order = np.argsort(self.distance, axis=None)
        mass = np.cumsum((self.alive * np.isfinite(self.distance)).ravel()[order])
        place = min(int(np.searchsorted(mass, share * mass[-1])), len(mass) - 1)
        return float(self.distance.ravel()[order][place])

    def beyond(self, distance: float) -> float:
        """The share of steps that lie farther away."""
        return float(np.sum(self.alive * (self.distance > distance)) / np.sum(self.alive))


@dataclass(frozen=True, eq=False)
class Surroundings:
    """Logged states with what was done there, in the units of a model."""

    states: Floats
    actions: Array
    missed: Floats
    """What the model misses of the state that follows, on held-out rows."""

    @classmethod
    def of(cls, log: Log, world: World, rng: np.random.Generator) -> Surroundings:
        """Drawn in the canonical order of the log."""
        data = log.data
        rows = some_of(log.rows, LOGGED_STATES, rng)
        judging = log.rows[log.held_out[log.rows] & np.asarray(data.next_known)[log.rows]]
        judging = some_of(judging, LOGGED_STATES, rng)
        states, actions = world.states(data.observations[judging]), world.to_actions(data.actions[judging])
        missed = world.states(data.next_observations[judging]) - world.step(states, actions)[0]
        return cls(world.states(data.observations[rows]), world.to_actions(data.actions[rows]), missed)

    def squared_distances(self, z: Floats) -> Floats:
        """(n, logged states): the squared distance of each state from each logged one."""
        square: Floats = np.sum(self.states**2, axis=1) + np.sum(z**2, axis=1)[:, None] - 2 * z @ self.states.T
        return np.maximum(square, 0.0)


def nearest(square: Floats, count: int) -> Integers:
    """The numbers of the nearest logged states, in no order, from the squared distances."""
    if count >= square.shape[1]:
        return np.tile(np.arange(square.shape[1]), (len(square), 1))
    return np.argpartition(square, count - 1, axis=1)[:, :count]


def state_shift(problem: Problem) -> float | None:
    """The share of the target's steps that lie farther from the logged states than 99 % of the behaviour's own do.

    Steps count as much as the question makes them, and the behaviour's share is taken off: about 0 where the target
    stays within the log. None where there is no model, or no episode begins at a reset.
    """
    limit = problem.data.limit if problem.time_limit == "restart" else None
    weighty = LONGEST if problem.gamma == 1 else int(np.ceil(np.log(REMAINDER) / np.log(problem.gamma)))
    steps = min(weighty, LONGEST, limit or LONGEST)
    return _state_shift(problem.log, problem.policy, problem.seed, problem.gamma, steps)


@remembered
def _state_shift(log: Log, policy: TargetPolicy, seed: int, gamma: float, steps: int) -> float | None:
    """`state_shift`, computed once for all questions with this discount and number of steps."""
    world = fit_world(log, policy.clipping, policy.n_actions, seed)
    if world is None or not len(log.initial_episodes):
        return None
    around, usual, own = _of_behaviour(log, world, seed)
    rng = np.random.default_rng([seed, 1])  # other draws than the behaviour's

    def of_target(z: Floats, square: Floats) -> Array:
        return world.to_actions(policy.sample(world.observations(z, log.data.observations), rng))

    return max(_walks(log, world, around, of_target, rng, steps, gamma).beyond(usual) - own, 0.0)


def unfamiliar(problem: Problem) -> float | None:
    """The share of logged states in which the model is less certain about the target's action than about logged ones.

    Where a controller without noise logged, states alone predict what follows: the model explains all of it and knows
    nothing of other actions, which shows in the variance of its predictions alone. About 1 % where the target does what
    the log does; None where there is no model.
    """
    world, log = world_of(problem), problem.log
    if world is None:
        return None
    rng = np.random.default_rng([problem.seed, 2])
    rows = log.rows if len(log.rows) <= LOGGED_STATES else rng.choice(log.rows, LOGGED_STATES, replace=False)
    seen = problem.data.observations[rows]
    z, chosen = world.states(seen), world.to_actions(problem.policy.sample(seen, rng))
    logged = world.change.variance(world.features(z, world.to_actions(problem.data.actions[rows])))
    size = np.maximum(logged.mean(axis=0), np.finfo(np.float64).tiny)
    usual = np.quantile(np.mean(logged / size, axis=1), USUAL)
    return float(np.mean(np.mean(world.change.variance(world.features(z, chosen)) / size, axis=1) > usual))


def some_of(rows: Integers, number: int, rng: np.random.Generator) -> Integers:
    """At most so many of the rows, drawn at random, in their order."""
    return rows if len(rows) <= number else rows[np.sort(rng.choice(len(rows), number, replace=False))]


@remembered
def _of_behaviour(log: Log, world: World, seed: int) -> tuple[Surroundings, float, float]:
    """The logged states, how far from them 99 % of the behaviour's steps stay, and the share of the others.

    That is more than 1 % where the behaviour itself leaves the model's limits, as it does in many coordinates.
    """
    rng = np.random.default_rng(seed)
    around = Surroundings.of(log, world, rng)

    def of_log(z: Floats, square: Floats) -> Array:
        near = nearest(square, NEIGHBOURS)
        return around.actions[near[np.arange(len(z)), rng.integers(near.shape[1], size=len(z))]]

    usual = int(min(np.median(log.data.lengths), LONGEST))
    walks = _walks(log, world, around, of_log, rng, usual)
    far = walks.quantile(USUAL)
    return around, far, walks.beyond(far)


Acting = Callable[[Floats, Floats], Array]
"""From states, and their squared distances from the logged ones, to actions as the model takes them."""


def _walks(
    log: Log,
    world: World,
    around: Surroundings,
    acting: Acting,
    rng: np.random.Generator,
    steps: int,
    gamma: float = 1.0,
) -> Walks:
    """Walks from logged initial states, some steps long, the step at time t counting γᵗ."""
    first = world.states(log.initial_observations)
    z, alive = first[rng.integers(len(first), size=COPIES)], np.ones(COPIES)
    distances, going_on = [], []
    for _ in range(steps):
        square = around.squared_distances(z)
        distances.append(np.where(world.at_limits(z), np.inf, np.sqrt(square.min(axis=1))))
        going_on.append(alive)
        missed = around.missed[rng.integers(len(around.missed), size=COPIES)]
        z = world.inside(world.step(z, acting(z, square))[0] + missed)
        alive = gamma * alive * (1 - world.end_probability(z))
    return Walks(np.array(distances), np.array(going_on))
