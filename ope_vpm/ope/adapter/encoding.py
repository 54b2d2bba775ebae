"""How a pair (s, a) becomes one state x of the chain, and what absorbs an ended episode."""

from __future__ import annotations

from dataclasses import dataclass
from math import prod, sqrt
from typing import Any
from weakref import ReferenceType, ref

import numpy as np

from ope_vpm.arrays import ROUNDING, Array, Floats, Integers
from ope_vpm.linear.features import DistinctColumns, FourierFeatures, Standardiser, draw_frequencies
from ope_vpm.logged import LoggedDataset
from ope_vpm.logged.columns import are_numbers
from ope_vpm.logged.spaces import state_sizes
from ope_vpm.ope.adapter.ends import Clock
from ope_vpm.policy import TargetPolicy

MOST_STATES = 1 << 40
"""Multi-discrete states beyond this many are numbered as they were seen: a product of counts would overflow. With
continuous actions they are treated as vectors."""
MOST_ONE_HOT = 4096
"""Finite states that go with continuous actions have a coordinate each; matrices of more columns would be too large."""
FAR = 4.0
"""How far the absorbing state lies from the others, in units of √d, a kernel's usual bandwidth: at four bandwidths a
Gaussian kernel is e⁻⁸, so that smooth functions can have any value there."""
FARTHEST = 5.0
"""Standard deviations from the mean up to which features tell states apart: a flag that is seldom set would be hundreds
of them away, and its row would decide every regression."""


@dataclass(frozen=True)
class Encoder:
    """From observations and actions to x, the same for logged, target and new pairs.

    Finite states and actions: x = s · n_actions + a. Otherwise a vector: standardised observations (or a
    one-hot finite state), then standardised actions (or a one-hot discrete action).

    With `absorbs`, one more state stands for "ended": the next free number, or a vector
    with zeros everywhere and `FAR`·√d in a coordinate of its own, which is zero in all other vectors.
    """

    shape: tuple[int, ...] | None
    """The number of values of each coordinate of a finite state; None for continuous states."""
    n_actions: int | None
    """None for continuous actions."""
    observation_scale: DistinctColumns | None
    """None where states are finite."""
    action_scale: Standardiser
    """Used unless actions are discrete."""
    absorbs: bool = False
    labels: dict[bytes, int] | None = None
    """Numbers of the states that were seen, where their space is too large; all others share the next number."""

    @classmethod
    def fit(cls, data: LoggedDataset, n_actions: int | None, absorbs: bool) -> Encoder:
        """Sizes and scales from the data; `n_actions` from the policy, which may know more than were seen."""
        shape, labels = _state_shape(data), None
        if shape is not None and prod(shape) > MOST_STATES:
            labels = None if n_actions is None else _labels(data)
            shape = None if labels is None else (len(labels) + 1,)
        if shape is not None and n_actions is None and prod(shape) > MOST_ONE_HOT:
            raise ValueError(
                f"{prod(shape)} finite states with continuous actions are too many to tell apart "
                f"(at most {MOST_ONE_HOT}): give the observations as floats"
            )
        if shape is not None and n_actions is not None:  # numbers are not scaled
            return cls(shape, n_actions, None, Standardiser.unit(1), absorbs, labels)
        columns = DistinctColumns.fit(data.observations, data.time) if shape is None else None
        return cls(shape, n_actions, columns, Standardiser.fit(data.actions), absorbs, labels)

    @classmethod
    def of_states(cls, data: LoggedDataset) -> Encoder:
        """Sizes and scales of the states, whatever the actions are."""
        return cls.fit(data, None if not data.discrete_actions else 1, absorbs=False)

    @property
    def size(self) -> int:
        """Coordinates of a state as a vector: standardised observations, or one for each finite state."""
        return prod(self.shape or ()) if self.observation_scale is None else self.observation_scale.size

    def states(self, observations: Array) -> Array:
        """Observations alone: state numbers, or standardised vectors."""
        if self.shape is None or self.observation_scale is not None:
            assert self.observation_scale is not None
            return self.observation_scale(observations)
        if self.labels is not None:
            return np.array([self.labels.get(key, len(self.labels)) for key in _keys(observations)], dtype=np.int64)
        columns = np.asarray(observations).reshape(len(observations), len(self.shape))
        if len(self.shape) == 1 and len(columns) and columns.min() >= 0 and columns.max() < self.shape[0]:
            return columns[:, 0].astype(np.int64, copy=False)  # numbers already
        numbers: Array = np.ravel_multi_index(tuple(columns.T), self.shape)
        return numbers.astype(np.int64)

    def observations(self, states: Integers, like: Array) -> Array | None:
        """The observation that each state number means, as a log writes observations; None where numbers are labels."""
        if self.shape is None or self.labels is not None:
            return None
        columns = np.stack(np.unravel_index(states, self.shape), axis=1)
        return columns.reshape(len(states), *like.shape[1:]).astype(like.dtype)

    def __call__(self, observations: Array, actions: Array) -> Array:
        """The x of each row."""
        states = self.states(observations)
        if self.shape is not None and self.n_actions is not None:
            return states * self.n_actions + np.asarray(actions)
        if self.shape is not None:
            states = np.eye(prod(self.shape))[states]
        moves = self.action_scale(actions) if self.n_actions is None else np.eye(self.n_actions)[actions]
        ended = np.zeros((len(states), int(self.absorbs)))
        return np.hstack([states, moves, ended])

    def absorbing(self) -> Array:
        """The absorbing state as an array of one row."""
        if self.shape is not None and self.n_actions is not None:
            return np.array([prod(self.shape) * self.n_actions])
        width = self.size + (self.n_actions or self.action_scale.mean.size)
        point = np.zeros((1, width + 1))
        point[0, -1] = FAR * sqrt(width)
        return point


def _state_shape(data: LoggedDataset) -> tuple[int, ...] | None:
    """How many values each coordinate of the state takes, by the space or by the data."""
    return state_sizes(data.observation_space, data.states_seen) if data.finite else None


def _labels(data: LoggedDataset) -> dict[bytes, int]:
    """A number for each state that was seen, whatever the order of the rows."""
    seen = {*_keys(data.observations), *_keys(data.next_observations)}
    return {key: number for number, key in enumerate(sorted(seen))}


def _keys(observations: Array) -> list[bytes]:
    """The bytes of each row."""
    rows = np.ascontiguousarray(observations, dtype=np.int64).reshape(len(observations), -1)
    return rows.view(f"V{rows.itemsize * rows.shape[1]}")[:, 0].tolist()


MOST_ACTION_COORDINATES = 16
"""Numbers of the target's usual action that become coordinates of a state: of a policy with more discrete actions than
that, their probabilities would be most of what tells two states apart."""


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
    """Those numbers of its usual action that vary."""
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
        usual = policy.usual_action(sample)
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
        usual = None if policy is None else policy.usual_action(observations)
        if usual is None:
            raise TypeError("the policy is gone, or no longer tells what it usually does")
        return self.scale(usual[:, self.columns])


def _coordinates(policy: TargetPolicy, columns: Integers, scale: Standardiser) -> ActionCoordinates:
    return ActionCoordinates(ref(policy), columns, scale)


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
        if self.scale is None:
            raise TypeError("discrete actions have no scale")
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
        waves = [wave(each * z) for each in self.frequencies for wave in (np.cos, np.sin)]
        return np.hstack([nearness((z - usual) / self.spread), *waves])


NEAR = (0.5, 0.25)
"""Widths h of what counts as near to the target's action, in units of the usual distance of a logged one. With waves
alone a response that falls off within half that distance is followed to 0.064 of 0.8, with nearness as well to 0.010
(root mean squared errors, tests/ope/test_missed.py); 4 of 25 reliable answers on tasks A missed, then 0 of 18."""


def nearness(apart: Floats) -> Floats:
    """exp(-d²/2h²) for each width h, (n, widths), d being the root mean square of some distances.

    Args:
        apart: (n, coordinates): how far apart two actions are, in units of what is usual.
    """
    square = np.mean(np.square(apart), axis=1)
    return np.exp(np.multiply.outer(square, -0.5 / np.square(NEAR)))


@dataclass(frozen=True, eq=False)
class StateFeatures:
    """[1, z, cos ωᵀz, sin ωᵀz] with z the standardised (or one-hot) state and ω ~ N(0, I/d).

    With a clock, the time is one more coordinate of z; with a target policy, so is what it usually does.
    """

    encoder: Encoder
    """From observations to standardised or one-hot coordinates."""
    fourier: FourierFeatures
    """Random Fourier features of these coordinates."""
    clock: Clock | None = None
    usual: ActionCoordinates | None = None

    @classmethod
    def draw(
        cls,
        data: LoggedDataset,
        number: int,
        seed: int,
        clock: Clock | None = None,
        usual: ActionCoordinates | None = None,
        encoder: Encoder | None = None,
    ) -> StateFeatures:
        """Draw `number` Fourier features with the bandwidth √d, the usual distance of two states.

        Args:
            data: the log.
            number: of the features.
            seed: of the draw.
            clock: the task's, where a time limit ends its episodes.
            usual: what the target usually does, as further coordinates.
            encoder: what `Encoder.of_states` found, where it is known already: it looks at all data.
        """
        encoder = Encoder.of_states(data) if encoder is None else encoder
        size = encoder.size + (clock is not None) + (0 if usual is None else usual.size)
        frequencies = draw_frequencies(size, number, float(np.sqrt(size)), np.random.default_rng(seed))
        fourier = FourierFeatures(Standardiser.unit(size).within(FARTHEST), frequencies, linear=True)
        return cls(encoder, fourier, clock, usual)

    @property
    def size(self) -> int:
        """The number of features."""
        return self.fourier.size

    @property
    def linear(self) -> int:
        """The number of coordinates z, which are features themselves, after the constant."""
        return len(self.fourier.frequencies)

    def coordinates(self, observations: Array, time: Integers | None = None) -> Floats:
        """The coordinates z of each state, shape (n, d), without limits; `time` is for the clock, if there is one."""
        states = self.encoder.states(observations)
        z = states if self.encoder.shape is None else np.eye(prod(self.encoder.shape))[states]
        parts = [z] if self.usual is None else [z, self.usual(observations)]
        if self.clock is not None:
            if time is None:
                raise ValueError("these features have a clock: they need the time of each state")
            parts.append(self.clock(time)[:, None])
        return parts[0] if len(parts) == 1 else np.hstack(parts)

    def limited_coordinates(self, observations: Array, time: Integers | None = None) -> Floats:
        """The coordinates of states, none farther than `FARTHEST` from the mean."""
        return self.fourier.standardise(self.coordinates(observations, time))

    def __call__(self, observations: Array, time: Integers | None = None) -> Floats:
        """The features of each state, shape (n, size)."""
        return self.fourier(self.coordinates(observations, time))

    def fill(self, observations: Array, time: Integers | None, out: Array) -> None:
        """Write the features of each state into `out`, shape (n, size), in its precision, double or single."""
        self.fourier.fill(self.coordinates(observations, time), out)


def target_of(data: Any, policy: Any) -> TargetPolicy:
    """Whatever was given as a policy; in the words of a table, where the dataset came from one."""
    if isinstance(policy, TargetPolicy) or getattr(data, "encoding", None) is None:
        return TargetPolicy.of(policy)
    from ope_vpm.ope.adapter.named import named_policy  # for logs with names alone

    return named_policy(data.encoding, policy)


def check_match(data: LoggedDataset, policy: TargetPolicy) -> TargetPolicy:
    """The policy, once its kind is known; one for another observation or action space than the data's is refused."""
    size = int(np.prod(data.head.observations.shape[1:]))
    if policy.observation_size is not None and policy.observation_size != size:
        raise ValueError(
            f"the policy takes observations of {policy.observation_size} numbers, the data have {size} "
            "(is it a policy for another task?)"
        )
    policy = policy.recognised(data.head.observations, data.n_actions if data.discrete_actions else None)
    if data.discrete_actions:
        _check_discrete(data, policy)
    elif policy.has_probabilities:
        save = ", although all are whole: save them as integers" if are_numbers(data.head.actions) else ""
        raise ValueError(f"the policy has discrete actions, the data continuous ones (floats{save}): they do not fit")
    elif policy.action_dimension not in (None, data.head.actions.shape[1]):
        raise ValueError(
            f"the policy's actions have {policy.action_dimension} coordinates, "
            f"the data's {data.head.actions.shape[1]}: they do not fit"
        )
    return policy


def _check_discrete(data: LoggedDataset, policy: TargetPolicy) -> None:
    if policy.action_dimension is not None:
        raise ValueError(
            "the policy has continuous actions, the data discrete ones (integers): they do not fit (save floats)"
        )
    logged, known = data.n_actions or 0, data.action_space is not None
    if policy.n_actions is not None and (logged > policy.n_actions or (known and logged != policy.n_actions)):
        raise ValueError(f"the policy chooses from {policy.n_actions} actions, the data have {logged}: they do not fit")
