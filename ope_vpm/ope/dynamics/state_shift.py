"""Does the target leave the states that were logged? The overlap of actions cannot tell.

The target is followed in a learned model from the logged initial states, and beside it, in the same model, the log's
own behaviour: in each state it takes an action that was logged in a state nearby. What the model misses of a step is
added to each, drawn from a held-out row with a state and an action like its own, and the task ends as often as on
logged rows that arrived alike, so that noise and ends carry both as far as they carried the log. A model that is wrong
leads both astray; a target that goes where nobody logged goes there alone. So the share of the target's steps that lie
farther from any logged state than nearly all steps of the behaviour is evidence against an estimate, however little the
model explains. It is followed for as long as the question asks, which may be longer than any logged episode: where the
log was cut before its states had spread, what comes later was not logged.

What these walks pay is a second opinion of the value: see `ope_vpm.ope.dynamics.walked`.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np

from ope_vpm.arrays import Array, Bools, Floats, Integers
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
FIFTHS = 5
"""Parts of the logged rows, each with a nearest row: the behaviour takes the action of one of these five, and so
is as random as the log; what the model misses, and how often the task ends, is what came of them. They are found in a
fifth of the time of the five nearest of all rows, and are rows of different episodes."""
OTHER_ACTION = 100.0
"""The distance between two discrete actions, in deviations of the state: farther than logged states are apart, so that
rows of another action tell of a step only where that action was never held out."""
USUAL = 0.99
"""The share of the behaviour's steps that lies nearer to the logged states than what is called far; nothing is far that
lies nearer than they are apart."""


@dataclass(frozen=True)
class Walks:
    """Distances from the nearest logged state, and how much each step counts: (steps, copies)."""

    distance: Floats
    """Infinite at the limits of the model, a tenth of the log's range beyond it."""
    alive: Floats
    """The probability that the task has not ended, discounted."""
    paid: Floats
    """The reward of each step."""

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
class Paths:
    """The walks of both policies in the model of a log."""

    target: Walks
    own: Walks
    """Those of the log's own behaviour, for as long as its episodes are and without a discount."""
    far: float
    """The distance from logged states within which 99 % of its steps stay."""


@dataclass(frozen=True, eq=False)
class Points:
    """Rows among which nearest ones are looked for, at every step of the walks."""

    coordinates: Floats
    """(n, coordinates)."""
    products: Floats
    """(coordinates + 1, n): what (z, 1) is multiplied by for the squared distances from the points, less |z|²."""

    @classmethod
    def of(cls, points: Floats) -> Points:
        """From (n, coordinates)."""
        return cls(points, np.vstack([-2 * points.T, np.sum(points**2, axis=1)]))

    def compared(self, z: Floats) -> Floats:
        """(rows of z, n): the squared distances of each row from the points, less |z|², which is the same for all."""
        return np.hstack([z, np.ones((len(z), 1))]) @ self.products

    def nearest(self, z: Floats) -> Integers:
        """(rows of z, at most FIFTHS): the number of the nearest point of each fifth of the points."""
        return self.nearest_by(self.compared(z))

    def nearest_by(self, compared: Floats) -> Integers:
        """`nearest` from what `compared` returned."""
        parts = min(FIFTHS, compared.shape[1])
        size = compared.shape[1] // parts  # the last points are passed over where they do not fill a part
        among: Integers = compared[:, : parts * size].reshape(len(compared), parts, size).argmin(axis=2)
        return among + size * np.arange(parts)

    def distance(self, z: Floats, compared: Floats) -> Floats:
        """How far each row is from the nearest point, from what `compared` returned."""
        return np.sqrt(np.maximum(compared.min(axis=1) + np.sum(z**2, axis=1), 0.0))


@dataclass(frozen=True, eq=False)
class Surroundings:
    """Logged states with what was done there, and what came of it, in the units of a model."""

    world: World
    states: Points
    actions: Array
    arrivals: Points
    """Of the rows whose next state is known, that state beside the action: what tells whether a task ends."""
    ended: Bools
    """Whether it ended on them."""
    held_out: Points
    """Of rows that the model was not fitted to, the state beside the action."""
    missed: Floats
    """What the model misses of the state that follows, on those rows."""
    unpaid: Floats
    """What it misses of the reward."""

    @classmethod
    def of(cls, log: Log, world: World, rng: np.random.Generator) -> Surroundings:
        """Drawn in the canonical order of the log."""
        data, known = log.data, np.asarray(log.data.next_known)[log.rows]
        rows = some_of(log.rows, LOGGED_STATES, rng)
        judging = some_of(log.rows[log.held_out[log.rows] & known], LOGGED_STATES, rng)
        arrived = some_of(log.rows[known], LOGGED_STATES, rng)

        def of(seen: Array, rows: Integers) -> tuple[Floats, Array]:
            return world.states(seen[rows]), world.to_actions(data.actions[rows])

        held_out, arrivals = of(data.observations, judging), of(data.next_observations, arrived)
        after, paid, _ = world.step(*held_out)
        missed = world.states(data.next_observations[judging]) - after
        unpaid, ended = data.rewards[judging] - paid, np.asarray(data.terminated)[arrived]
        logged = of(data.observations, rows)
        arrived_at, judged_at = Points.of(_pairs(world, *arrivals)), Points.of(_pairs(world, *held_out))
        return cls(world, Points.of(logged[0]), logged[1], arrived_at, ended, judged_at, missed, unpaid)

    def step(self, z: Floats, actions: Array, rng: np.random.Generator) -> tuple[Floats, Floats, Floats]:
        """Next states and rewards, with what the model missed on rows like each, and shares of such rows that ended."""
        like = one_of_each(self.held_out.nearest(_pairs(self.world, z, actions)), rng)
        after, paid, _ = self.world.step(z, actions)
        after, paid = self.world.inside(after + self.missed[like]), paid + self.unpaid[like]
        if not self.ended.any():
            return after, paid, np.zeros(len(after))
        near = self.arrivals.nearest(_pairs(self.world, after, actions))
        return after, paid, self.ended[near].mean(axis=1)


def _pairs(world: World, z: Floats, actions: Array) -> Floats:
    """(n, coordinates): states beside actions, where distances tell how much alike two steps are."""
    if world.n_actions is None:
        return np.hstack([z, actions])
    return np.hstack([z, OTHER_ACTION * np.eye(world.n_actions)[actions]])


def one_of_each(near: Integers, rng: np.random.Generator) -> Integers:
    """One of each row's numbers, drawn at random."""
    return near[np.arange(len(near)), rng.integers(near.shape[1], size=len(near))]


def state_shift(problem: Problem) -> float | None:
    """The share of the target's steps that lie farther from the logged states than 99 % of the behaviour's own do.

    Steps count as much as the question makes them, and the behaviour's share is taken off: about 0 where the target
    stays within the log. None where there is no model, or no episode begins at a reset.
    """
    paths = paths_of(problem)
    return None if paths is None else max(paths.target.beyond(paths.far) - paths.own.beyond(paths.far), 0.0)


def paths_of(problem: Problem) -> Paths | None:
    """The walks of the target, for as long as the question asks, and of the behaviour; None as in `state_shift`."""
    return _paths(problem.log, problem.policy, problem.seed, problem.gamma, steps_of(problem))


def limit_of(problem: Problem) -> int | None:
    """The time limit, where it is part of the task."""
    return problem.data.limit if problem.time_limit == "restart" else None


def steps_of(problem: Problem) -> int:
    """For how many steps the target is followed."""
    weighty = LONGEST if problem.gamma == 1 else int(np.ceil(np.log(REMAINDER) / np.log(problem.gamma)))
    return min(weighty, LONGEST, limit_of(problem) or LONGEST)


@remembered
def _paths(log: Log, policy: TargetPolicy, seed: int, gamma: float, steps: int) -> Paths | None:
    """`paths_of`, computed once for all questions with this discount and number of steps."""
    world = fit_world(log, policy.clipping, policy.n_actions, seed)
    if world is None or not len(log.initial_episodes):
        return None
    around, own, far = _of_behaviour(log, world, seed)
    rng = np.random.default_rng([seed, 1])  # other draws than the behaviour's

    def of_target(z: Floats, compared: Floats) -> Array:
        return world.to_actions(policy.sample(world.observations(z, log.data.observations), rng))

    return Paths(_walks(log, around, of_target, rng, steps, gamma), own, far)


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
def _of_behaviour(log: Log, world: World, seed: int) -> tuple[Surroundings, Walks, float]:
    """The logged states, the behaviour's walks, and how far from logged states 99 % of their steps stay.

    More than 1 % lie beyond where the behaviour itself leaves the model's limits, as it does in many coordinates.
    """
    rng = np.random.default_rng(seed)
    around = Surroundings.of(log, world, rng)

    def of_log(z: Floats, compared: Floats) -> Array:
        return around.actions[one_of_each(around.states.nearest_by(compared), rng)]

    lengths = log.data.lengths
    usual = min(np.median(np.repeat(lengths, lengths)), LONGEST)  # of the episode that a row is of: short ones have few
    walks = _walks(log, around, of_log, rng, int(usual))
    far = max(walks.quantile(USUAL), _spacing(around.states.coordinates))
    return around, walks, far


def _spacing(states: Floats) -> float:
    """How far different logged states lie apart: where states are counts, walks come back to them exactly or nearly."""
    points = Points.of(np.unique(states, axis=0))
    square = points.compared(points.coordinates) + np.sum(points.coordinates**2, axis=1)[:, None]
    np.fill_diagonal(square, np.inf)
    return float(np.sqrt(max(np.median(square.min(axis=1)), 0.0))) if len(square) > 1 else 0.0


Acting = Callable[[Floats, Floats], Array]
"""From states, compared with the logged ones, to actions as the model takes them."""


def _walks(
    log: Log, around: Surroundings, acting: Acting, rng: np.random.Generator, steps: int, gamma: float = 1.0
) -> Walks:
    """Walks from logged initial states, some steps long, the step at time t counting γᵗ."""
    world = around.world
    first = world.states(log.initial_observations)
    z, alive = first[rng.integers(len(first), size=COPIES)], np.ones(COPIES)
    distances, going_on, rewards = [], [], []
    for _ in range(steps):
        compared = around.states.compared(z)
        distances.append(np.where(world.at_limits(z), np.inf, around.states.distance(z, compared)))
        going_on.append(alive)
        z, paid, ending = around.step(z, acting(z, compared), rng)
        rewards.append(paid)
        if not alive.any():
            break
        alive = gamma * alive * (1 - ending)
    return Walks(np.array(distances), np.array(going_on), np.array(rewards))
