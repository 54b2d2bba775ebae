"""Functions of actions with mean 0 under the target, and what the target does as coordinates of a state."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any
from weakref import ReferenceType, ref

import numpy as np

from ope_vpm.arrays import ROUNDING, Array, Floats, Integers, chunks
from ope_vpm.linear.features import Standardiser
from ope_vpm.ope.adapter.given import state_encoder
from ope_vpm.ope.log import Log
from ope_vpm.ope.memory import remembered
from ope_vpm.ope.problem import Problem
from ope_vpm.policy import TargetPolicy
from ope_vpm.policy.target import DRAWS

MOST_ACTION_COORDINATES = 16
"""Numbers of the target's mean action that become coordinates of a state: of a policy with more discrete actions than
that, their probabilities would be most of what tells two states apart."""
NEAR = (0.5, 0.25)
"""Widths h of what counts as near to the target's action, in units of the usual distance of a logged one. With Fourier
features alone a response that falls off within half that distance is followed to 0.064 of 0.8, with nearness as well to
0.010 (root mean squared errors, tests/ope/test_missed.py); 4 of 25 reliable answers on tasks A missed, then 0 of 18."""
ACTION_FREQUENCIES = (1.5, 3.0)
"""Frequencies of the Fourier features of an action, in radians for each standard deviation of the logged actions. Root
mean squared errors of LSTD-Q for deterministic targets (note 015, tasks A, seed 100) with none, the first, both and 4.5
as well: bids 0.033, 0.009, 0.007, 0.010; peak 0.33, 0.24, 0.09, 0.04; thresholds 0.084, 0.037, 0.023, 0.024; linear
0.026, 0.031, 0.037, 0.044."""
FOURIER, ACTION_COLUMNS = 40, 400
"""Waves that functions of the action are multiplied with, and columns that all these products may have. Functions that
are linear in the state are too few where the effect of an action changes its sign (a pole that leans to the left or to
the right): on Pendulum, Acrobot, CartPole and Hopper (seeds 100 and 101) errors fall by another tenth. Columns cost
time by their square."""
ROWS_PER_COLUMN = 10
"""Rows for each of these columns at least: with fewer, methods that choose no ridge would fit noise."""
SCALE_ROWS = 10_000
"""Logged states from which the size of the target's mean action is taken: its deviation is then known to 1 %."""


@remembered
def functions_of_action(log: Log, policy: TargetPolicy, rich: bool) -> ActionFunctions:
    """Scales from the log's sample; rich ones as far as there is room for them beside the coordinates of states."""
    data = log.sample.data
    if data.discrete_actions:
        return ActionFunctions(None)
    scale, size = Standardiser.fit(data.actions), data.actions.shape[1]
    linear = 1 + state_encoder(log).size + size
    room = min(ACTION_COLUMNS, len(log.data) // ROWS_PER_COLUMN) // linear - len(NEAR)
    if not rich or room < 2 * size:
        return ActionFunctions(scale)
    rows = log.sample.rows[:: max(1, len(log.sample.rows) // SCALE_ROWS)]
    usual = policy.action_moments(data.observations[rows], np.random.default_rng(0))[0]
    apart = np.sqrt(np.mean(np.square(scale(policy.clipping.clip(data.actions[rows])) - scale(usual)), axis=0))
    fourier = (room // size - 2) // 2
    return ActionFunctions(scale, np.where(apart > 0, apart, 1.0), ACTION_FREQUENCIES[:fourier])


def action_functions(problem: Problem, rich: bool = False) -> ActionFunctions:
    """The functions of the action that a problem's features have."""
    return functions_of_action(problem.log, problem.policy, rich)


def centred_features(problem: Problem, draws: int = DRAWS, rich: bool = False) -> Array:
    """The functions u of the action at each logged step, (n, k): see `ActionFunctions`.

    Args:
        problem: the question.
        draws: target actions per state where the policy's moments have no closed form.
        rich: as in `any_pairs`.
    """
    return _centred_features(problem.log, problem.policy, draws, problem.seed, rich)


@remembered
def _centred_features(log: Log, policy: TargetPolicy, draws: int, seed: int, rich: bool) -> Array:
    """The functions u at each logged step, in the precision of the features.

    Policies that draw do so in the log's canonical order.

    Those of long logs draw in the order of the log, which may be read in parts.
    """
    data, rng, out = log.data, np.random.default_rng(seed), np.empty((0, 0), log.precision)
    functions = functions_of_action(log, policy, rich)
    for part in chunks(len(data)):
        rows = log.rows[part] if log.sample is log else part
        values = functions(data.observations[rows], data.actions[rows], policy, rng, draws)
        if part.start == 0:
            out = np.empty((len(data), values.shape[1]), log.precision)
        out[rows] = values
    return out


@dataclass(frozen=True, eq=False)
class ActionFunctions:
    """Functions u(s, a) of the action with E_π[u(s, ·)] = 0 in every state.

    Discrete actions: 1[a = j] - π(j|s) for each action j, which is all that a function of the action can be.
    Continuous ones: a and a² of each coordinate, standardised, less their means under the target. Rich ones also have
    how near an action is to the target's own, exp(-|a - E_π[a]|²/2h²), and Fourier features of each coordinate.
    """

    scale: Standardiser | None
    """The scale of continuous actions; None for discrete ones."""
    spread: Floats | None = None
    """For rich functions, the root mean squared distance of logged actions from the target's, in units of `scale`."""
    frequencies: tuple[float, ...] = ()
    """Frequencies of Fourier features of the action, a cosine and a sine each, in radians per standard deviation."""

    def __call__(
        self, observations: Array, actions: Array, policy: TargetPolicy, rng: np.random.Generator, draws: int
    ) -> Floats:
        """U at each row, (n, k).

        Args:
            observations: the states.
            actions: one in each.
            policy: the target.
            rng: for policies whose means are not known otherwise.
            draws: how many actions these draw in each state.
        """
        if self.scale is None:
            probabilities = policy.probabilities(observations)
            return np.asarray(np.eye(probabilities.shape[1])[actions] - probabilities)
        first, second = policy.action_moments(observations, rng, draws)
        if first.shape != actions.shape:
            raise ValueError(
                f"the policy's actions have shape {first.shape}, the data's {actions.shape}: they do not fit"
            )
        z, usual = self.standardised(actions, policy), self.scale(first)
        square = (second - 2 * self.scale.mean * first + self.scale.mean**2) / self.scale.std**2
        centred = [z - usual, z**2 - square]
        if self.spread is not None:

            def others(chosen: Floats) -> Floats:
                return self._others(self.standardised(chosen, policy), usual)

            centred.append(self._others(z, usual) - policy.expected(others, observations, rng, draws))
        return np.hstack(centred)

    def standardised(self, actions: Array, policy: TargetPolicy) -> Floats:
        """Continuous actions as the environment takes them where they lie beyond the bounds, standardised."""
        assert self.scale is not None
        return self.scale(policy.clipping.clip(actions))

    def number(self, policy: TargetPolicy, observations: Array, actions: Array) -> int:
        """How many functions there are, k; a state and an action are given to find out."""
        if self.scale is None:
            return int(policy.probabilities(observations).shape[1])
        near = 0 if self.spread is None else len(NEAR)
        return int(actions.shape[1]) * (2 + 2 * len(self.frequencies)) + near

    def _others(self, z: Floats, usual: Floats) -> Floats:
        """Nearness to the target's mean actions, and Fourier features, of standardised actions."""
        assert self.spread is not None
        fourier = [function(each * z) for each in self.frequencies for function in (np.cos, np.sin)]
        return np.hstack([nearness((z - usual) / self.spread), *fourier])


def nearness(apart: Floats) -> Floats:
    """exp(-d²/2h²) for each width h, (n, widths), d being the root mean square of some distances.

    Args:
        apart: (n, coordinates): how far apart two actions are, in units of what is usual.
    """
    square = np.mean(np.square(apart), axis=1)
    return np.exp(np.multiply.outer(square, -0.5 / np.square(NEAR)))


@dataclass(frozen=True, eq=False)
class ActionCoordinates:
    """The target's mean action in a state, standardised, as further coordinates of that state.

    Two states in which the target acts alike have like values, and the policy may change within a distance at which
    smooth features of the state alone do not: with these coordinates errors on Pendulum, Acrobot, CartPole and Hopper
    (seeds 100 and 101) are 0.80 times those without.
    """

    policy: ReferenceType[TargetPolicy]
    """Weak: what is remembered for a policy must not keep that policy alive."""
    columns: Integers
    """The entries of the target's mean action that vary."""
    scale: Standardiser

    def __reduce__(self) -> tuple[Any, ...]:
        """Sent to another machine with the policy, which the caller keeps alive there."""
        return _coordinates, (self.policy(), self.columns, self.scale)

    @classmethod
    def of(cls, policy: TargetPolicy, sample: Array, actions: Array) -> ActionCoordinates | None:
        """Scaled by what it does in a sample of states; None where that is not known, never varies, or is too much.

        Args:
            policy: the target.
            sample: of the states.
            actions: some logged ones, whose size says what is rounding; that of probabilities is 1.
        """
        usual = policy.mean_action(sample)
        if usual is None:
            return None
        size = np.abs(actions).max(axis=0) if actions.dtype.kind == "f" else np.ones(1)
        columns = np.flatnonzero(np.ptp(usual, axis=0) > ROUNDING * (size + np.abs(usual).max(axis=0)))
        known = 0 < len(columns) <= MOST_ACTION_COORDINATES
        return cls(ref(policy), columns, Standardiser.fit(usual[:, columns])) if known else None

    @property
    def size(self) -> int:
        """The number of coordinates."""
        return self.scale.mean.size

    def __call__(self, observations: Array) -> Floats:
        """The coordinates of each state, shape (n, size)."""
        policy = self.policy()
        usual = None if policy is None else policy.mean_action(observations)
        if usual is None:
            raise TypeError("the policy is gone, or no longer tells its mean action")
        return self.scale(usual[:, self.columns])


def _coordinates(policy: TargetPolicy, columns: Integers, scale: Standardiser) -> ActionCoordinates:
    return ActionCoordinates(ref(policy), columns, scale)
