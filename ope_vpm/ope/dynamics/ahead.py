"""Some steps ahead in a learned model: of the target from logged states, or of logged actions, which can be checked.

In the target's first step the model only says what its action changes: the logged next state, reward and end are
corrected by the difference of two predictions, so that what the model leaves unexplained is kept.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np

from ope_vpm.arrays import Array, Bools, Floats, Integers
from ope_vpm.ope.adapter.ends import TimeLimit, times
from ope_vpm.ope.adapter.states import StateFeatures
from ope_vpm.ope.dynamics.world import World
from ope_vpm.ope.log import Log
from ope_vpm.ope.memory import Same, remembered
from ope_vpm.ope.problem import Problem


@dataclass(frozen=True)
class Charge:
    """Other rewards, made of what was paid and of ends: scale·(r - per_end·1[the task ends here]).

    With the return R of an episode and the rate e of ends per step, the value of (r - R·1[end])/e is 0, and episodes
    move it as they move R (`ope_vpm.ope.inference.returns`).
    """

    per_end: float
    scale: float

    def of(self, reward: Floats, ended: Floats) -> Floats:
        """The rewards of some rows, from what was paid on the way and the probability of an end."""
        return self.scale * (reward - self.per_end * ended)


NO_CHARGE = Charge(0.0, 1.0)


@dataclass(frozen=True)
class Ahead:
    """States, rewards and ends after some steps from each of some rows."""

    features: Floats
    """V of the state that is reached, times the probability that the task has not ended, shape (n, D)."""
    reward: Floats
    """Σ γ^j r_j up to an end."""
    time: Floats
    """Σ γ^j up to an end."""
    ended: Floats
    """The probability of an end on the way."""
    beyond: Floats
    """The probability of being where the model had to be held at the limits of the log."""

    def charged(self, charge: Charge) -> Ahead:
        """These steps with other rewards."""
        return replace(self, reward=charge.of(self.reward, self.ended))

    def value(self, theta: Floats, gamma: float, steps: int, first: float) -> Floats:
        """Rewards and what follows, less the average reward for the time taken at γ = 1.

        Args:
            theta: coefficients of V; at γ = 1 the first one is the average reward.
            gamma: the discount.
            steps: how many steps lie between.
            first: V of an initial state, where ends restart; otherwise 0.
        """
        if gamma < 1:
            return self.reward + gamma**steps * (self.features @ theta)
        return self.reward - theta[0] * self.time + self.features[:, 1:] @ theta[1:] + self.ended * first


@dataclass
class Walk:
    """A walk of many rows at once, and what it has collected so far."""

    z: Floats
    clock: Integers
    reward: Floats
    time: Floats
    alive: Floats
    """The probability that the task has not ended."""


def take_step(world: World, walk: Walk, actions: Array, discount: float, on: Bools, length: int | None) -> None:
    """Take one step of a walk.

    Args:
        world: the model.
        walk: is changed.
        actions: of each row, as the model takes them.
        discount: γ to the number of steps before.
        on: rows that are not on stay where they are.
        length: of an episode, where a time limit ends it.
    """
    after, reward, ending = world.step(walk.z, actions)
    counts = on * walk.alive * discount
    walk.reward, walk.time, walk.clock = walk.reward + counts * reward, walk.time + counts, walk.clock + on
    walk.alive = np.where(on, walk.alive * (1 - by_clock(walk.clock, ending, length)), walk.alive)
    walk.z = np.where(on[:, None], after, walk.z)


def by_clock(clock: Integers, ending: Floats, length: int | None) -> Floats:
    """The probability of an end: 1 where the time limit is reached."""
    return ending if length is None else np.where(clock >= length, 1.0, ending)


@remembered
def _walk_of_log(
    log: Log, world: World, rows: Same, steps: int, gamma: float, time_limit: TimeLimit, length: int | None
) -> tuple[Walk, Floats, Floats]:
    """Where the model takes the logged actions of some rows; and Σ γ^j r_j and Σ γ^j as they were logged."""
    data, first, n = log.data, rows.array, len(rows.array)
    last = data.ends[data.episode[first]]
    start, clock = world.states(data.observations[first]), times(data, time_limit)[first]
    walk = Walk(start, clock, np.zeros(n), np.zeros(n), np.ones(n))
    reward, time = np.zeros((2, n))
    for j in range(steps):
        place, on = np.minimum(first + j, last), first + j <= last
        take_step(world, walk, world.to_actions(data.actions[place]), gamma**j, on, length)
        counts = on * gamma**j
        reward, time = reward + counts * data.rewards[place], time + counts
    return walk, reward, time


class Simulator:
    """A model with the problem's ends, clock and features."""

    def __init__(self, problem: Problem, world: World, features: StateFeatures) -> None:
        self.problem, self.world, self.features = problem, world, features
        self.times = times(problem.data, problem.time_limit)
        self.length = None if features.clock is None else features.clock.length

    def of_target(self, rows: Integers, marks: Sequence[int], rng: np.random.Generator) -> list[Ahead]:
        """The target from the logged states of some rows, after each of some rising numbers of steps."""
        data, world, policy = self.problem.data, self.world, self.problem.policy
        z, logged = world.states(data.observations[rows]), world.to_actions(data.actions[rows])
        chosen = world.to_actions(policy.sample(data.observations[rows], rng))
        there, ended, reward = world.states(data.next_observations[rows]), data.terminated[rows], data.rewards[rows]
        here, mine = world.features(z, logged), world.features(z, chosen)
        after = world.inside(there + world.change(mine) - world.change(here))
        ending = np.clip(ended + world.end_probability(after) - world.end_probability(there), 0, 1)
        left = np.where(ended, 0.0, reward - world.reward(here)[:, 0])
        going_on = np.clip(world.reward(mine)[:, 0] + left, *world.rewards)
        first = (1 - ending) * going_on + ending * np.where(ended, reward, world.end_reward)
        walk = Walk(after, self.times[rows] + 1, first, np.ones(len(rows)), np.ones(len(rows)))
        walk.alive = 1 - by_clock(walk.clock, ending, self.length)
        found = []
        for j in range(1, marks[-1] + 1):
            if j in marks:
                found.append(self._ahead(walk))
            if j < marks[-1]:
                actions = policy.sample(self._observations(walk.z), rng)
                discount, everywhere = self.problem.gamma**j, np.ones(len(rows), dtype=np.bool_)
                take_step(world, walk, world.to_actions(actions), discount, everywhere, self.length)
        return found

    def of_log(self, rows: Integers, steps: int) -> tuple[Ahead, Ahead]:
        """The logged actions from the logged states of some rows, as the model has them and as they were logged.

        Every row must have so many steps after it, or its episode an end. The walk itself has no policy in it: all
        policies share that of one model, one array of rows and one discount.
        """
        data, problem = self.problem.data, self.problem
        walk, reward, time = _walk_of_log(
            problem.log, self.world, Same(rows), steps, problem.gamma, problem.time_limit, self.length
        )
        place = np.minimum(rows + steps - 1, data.ends[data.episode[rows]])
        ended = problem.ending[place]
        reached = self.features(data.next_observations[place], self._clock(self.times[place] + 1))
        logged = Ahead(reached * ~ended[:, None], reward, time, ended.astype(np.float64), np.zeros(len(rows)))
        return self._ahead(walk), logged

    def _ahead(self, walk: Walk) -> Ahead:
        reached = self.features(self._observations(walk.z), self._clock(walk.clock))
        held = walk.alive * self.world.at_limits(walk.z)
        return Ahead(walk.alive[:, None] * reached, walk.reward, walk.time, 1 - walk.alive, held)

    def _observations(self, z: Floats) -> Array:
        return self.world.observations(z, self.problem.data.observations)

    def _clock(self, time: Integers) -> Integers:
        return time if self.length is None else np.minimum(time, self.length)
