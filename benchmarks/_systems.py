"""Motions and tables, and policies that act in them: the pieces of which `benchmarks._generated` composes tasks."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Protocol

import numpy as np
from scipy.special import softmax

from ope_vpm.arrays import Array, Bools, Floats, Integers
from ope_vpm.policy import CategoricalPolicy, DeterministicPolicy, GaussianPolicy, TablePolicy, TargetPolicy

BOUND = 6.0
"""Coordinates of a state stay within ±6, as a robot stays within its room; unstable motions saturate there."""


class System(Protocol):
    """A Markov decision process, vectorised over episodes."""

    def first(self, count: int, rng: np.random.Generator) -> Array:
        """Draw initial states."""

    def step(self, state: Array, action: Array, rng: np.random.Generator) -> tuple[Array, Floats, Bools]:
        """Draw the next states, the rewards, and whether the task ends."""

    def seen(self, state: Array) -> Array:
        """What is logged of states."""


class Acting(Protocol):
    """A policy with parameters: who logs, or who is asked about."""

    @property
    def informed(self) -> bool:
        """Whether it acts on the whole state, not on what is logged of it."""

    def policy(self) -> TargetPolicy:
        """A policy that can be evaluated."""


@dataclass(frozen=True, eq=False)
class Motion:
    """The next state is clip(Ax + Bu + C·tanh(Dx) + noise), which contact may bend.

    The columns of a state are x, x and u of the step before, and a countdown.
    """

    drift: Floats
    push: Floats
    bend: Floats
    inner: Floats
    noise: float
    effects: Floats | None
    """The u of each discrete action; None where u is the action."""
    contact: float
    """Where x₀ falls below it, the body bounces: x₀ is mirrored and x loses half of its speed. -∞: nowhere."""
    fall: float
    """The task ends where x·1/√d exceeds it."""
    hazard: float
    """The probability that it ends at any step."""
    lifetimes: tuple[int, int]
    """The task ends after a number of steps drawn between these at the beginning."""
    pay: Pay
    kept: Integers
    """The coordinates that are logged."""
    late: bool
    """Whether the coordinates logged are those of the step before."""
    bins: int
    """Into how many parts the first logged coordinate is cut, where that alone is logged; 0: it is not."""

    def first(self, count: int, rng: np.random.Generator) -> Array:
        """Around 0, the step before being the same, without an action."""
        x = 0.5 * rng.standard_normal((count, len(self.drift)))
        return np.hstack([x, x, np.zeros((count, len(self.push))), rng.integers(*self.lifetimes, size=(count, 1))])

    def step(self, state: Array, action: Array, rng: np.random.Generator) -> tuple[Array, Floats, Bools]:
        """One step."""
        d = len(self.drift)
        x, before, left = state[:, :d], state[:, 2 * d : -1], state[:, -1:] - 1
        u = np.clip(action, -3, 3) if self.effects is None else self.effects[action]
        moved = x @ self.drift + u @ self.push + np.tanh(x @ self.inner) @ self.bend
        moved = np.clip(moved + self.noise * rng.standard_normal(x.shape), -BOUND, BOUND)
        hit = moved[:, 0] < self.contact
        moved[hit] *= 0.5
        moved[hit, 0] = 2 * self.contact - moved[hit, 0]
        fell = moved.sum(axis=1) / np.sqrt(d) > self.fall
        ended = fell | (rng.random(len(x)) < self.hazard) | (left[:, 0] <= 0)
        return np.hstack([moved, x, u, left]), self.pay(x, u, before, fell, rng), ended

    def seen(self, state: Array) -> Array:
        """Some coordinates, those of the step before, or the number of a bin."""
        seen = state[:, self.kept + len(self.drift) * self.late]
        return self.bin(seen) if self.bins else seen

    def bin(self, seen: Array) -> Integers:
        """The number of the bin of the first coordinate, between -2 and 2."""
        return np.clip((seen[:, 0] + 2) / 4 * self.bins, 0, self.bins - 1).astype(np.int64)


@dataclass(frozen=True, eq=False)
class Pay:
    """r = unit·(w·x - q|x|²/d + k|w·x| + t·1[w·x > 1/2] + narrow - c|u|² - s|u - u'|² - f·1[fell] + rare + noise).

    narrow = b·exp(-|u - tanh(xG)|²/(2·width²)) rewards one action in each state; u' is the action before; rare pays
    10 with a small probability, which doubles with each half unit of w·x.
    """

    direction: Floats
    square: float
    kink: float
    threshold: float
    cost: float
    fell: float
    noise: float
    unit: float
    narrow: float
    width: float
    best: Floats
    """G."""
    switching: float
    rare: float
    """The probability where w·x = 0."""

    def __call__(self, x: Floats, u: Floats, before: Floats, fell: Bools, rng: np.random.Generator) -> Floats:
        """(n,)."""
        along = x @ self.direction
        smooth = along - self.square * np.mean(x**2, axis=1) - self.cost * np.sum(u**2, axis=1)
        broken = self.kink * np.abs(along) + self.threshold * (along > 0.5) - self.fell * fell
        apart = np.mean((u - np.tanh(x @ self.best)) ** 2, axis=1)
        broken += self.narrow * np.exp(-apart / (2 * self.width**2))
        broken -= self.switching * np.mean((u - before) ** 2, axis=1)
        if self.rare > 0:
            broken += 10.0 * (rng.random(len(x)) < np.minimum(self.rare * 4**along, 1))
        return self.unit * (smooth + broken + self.noise * rng.standard_normal(len(x)))


@dataclass(frozen=True, eq=False)
class Linear:
    """A policy that is linear in what it sees: a mean with noise, or the logits of discrete actions."""

    gain: Floats
    shift: Floats
    spread: float
    """The deviation of continuous actions, or the temperature of the softmax; 0: no noise."""
    discrete: bool
    informed: bool = False
    """Whether it acts on the whole state."""

    def level(self, seen: Array) -> Floats:
        """Means, or logits."""
        found: Floats = np.asarray(seen, dtype=np.float64) @ self.gain + self.shift
        return found if self.discrete else np.asarray(np.tanh(found))

    def probabilities(self, seen: Array) -> Floats:
        """The probabilities of discrete actions."""
        level = self.level(seen)
        if self.spread == 0:
            return np.eye(level.shape[1])[level.argmax(axis=1)]
        return softmax(level / self.spread, axis=1)

    def policy(self) -> TargetPolicy:
        """As a categorical, Gaussian or deterministic policy."""
        seen, actions = self.gain.shape
        if self.discrete:
            return CategoricalPolicy(self.probabilities, actions, seen)
        if self.spread == 0:
            return DeterministicPolicy(self.level, actions, seen)
        return GaussianPolicy(
            lambda rows: (self.level(rows), np.full((len(rows), actions), self.spread)), action_dimension=actions
        )

    def changed(self, share: float, other: Linear, spread: float, shift: float = 0.0) -> Linear:
        """A share of the way to another one, with other noise, and shifted."""
        gain, at = (1 - share) * self.gain + share * other.gain, (1 - share) * self.shift + share * other.shift
        return Linear(gain, at + shift * np.arange(len(at)) - shift / 2, spread, self.discrete)


@dataclass(frozen=True, eq=False)
class Tabular:
    """A finite process: each pair leads to one of a few states, rarely to any; states end the task at random."""

    following: Integers
    """(states, actions, branches): where a pair leads with equal probability."""
    reward: Floats
    end: Floats
    noise: float

    def first(self, count: int, rng: np.random.Generator) -> Array:
        """Among the first quarter of the states."""
        return rng.integers(max(len(self.end) // 4, 1), size=count)

    def step(self, state: Array, action: Array, rng: np.random.Generator) -> tuple[Array, Floats, Bools]:
        """One step."""
        states, _, branches = self.following.shape
        following = self.following[state, action, rng.integers(branches, size=len(state))]
        following = np.where(rng.random(len(state)) < 0.02, rng.integers(states, size=len(state)), following)
        paid = self.reward[state, action] + self.noise * rng.standard_normal(len(state))
        return following, paid, rng.random(len(state)) < self.end[following]

    def seen(self, state: Array) -> Array:
        """The state."""
        return state


@dataclass(frozen=True, eq=False)
class Table:
    """A policy by a table of probabilities."""

    table: Floats
    informed: bool = False
    """Tables see all there is."""

    def policy(self) -> TargetPolicy:
        """As a table policy."""
        return TablePolicy(self.table)

    def changed(self, share: float, other: Table, spread: float, shift: float = 0.0) -> Table:
        """A share of the way to another one, made uniform by the share `spread`, and without one action if shifted."""
        mixed = (1 - spread) * ((1 - share) * self.table + share * other.table) + spread / self.table.shape[1]
        mixed[:, -1] *= shift == 0
        return Table(mixed / mixed.sum(axis=1, keepdims=True))
