"""Policies from Python functions and torch modules, told apart by what they return.

Actions, probabilities and `torch.distributions` objects are understood. A function that returns a Gaussian, squashed
by tanh or not, becomes the same policy as a `GaussianPolicy` with its mean and standard deviation.
"""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Callable
from typing import Any, Literal

import numpy as np
from scipy.special import softmax

from ope_vpm.arrays import Array, Floats
from ope_vpm.optional import is_distribution, torch
from ope_vpm.policy.calls import Call, as_array, running
from ope_vpm.policy.continuous import DeterministicPolicy
from ope_vpm.policy.discrete import CategoricalPolicy, one_hot
from ope_vpm.policy.target import DRAWS, Clipping, Generator, TargetPolicy


def _answered(name: str) -> Any:
    """A method of that name that asks the other policy, with the observations as that one takes them."""

    def method(self: RelayedPolicy, observations: Array, *rest: Any, **named: Any) -> Any:
        policy, seen = self.asked(observations)
        return getattr(policy, name)(seen, *rest, **named)

    method.__doc__ = getattr(TargetPolicy, name).__doc__
    return method


class RelayedPolicy(TargetPolicy):
    """A policy that answers as another one does."""

    @property
    @abstractmethod
    def known(self) -> TargetPolicy:
        """The other policy."""

    @abstractmethod
    def asked(self, observations: Array) -> tuple[TargetPolicy, Array]:
        """The policy that answers, and the observations as it takes them."""

    @property
    def has_log_prob(self) -> bool:
        """The answer of the other policy."""
        return self.known.has_log_prob

    @property
    def has_probabilities(self) -> bool:
        """The answer of the other policy."""
        return self.known.has_probabilities

    @property
    def clipping(self) -> Clipping:
        """The answer of the other policy."""
        return self.known.clipping

    sample = _answered("sample")
    probabilities = _answered("probabilities")
    log_prob = _answered("log_prob")
    log_likelihood = _answered("log_likelihood")
    action_moments = _answered("action_moments")
    mean_action = _answered("mean_action")
    score = _answered("score")

    def expected(
        self, function: Callable[[Floats], Floats], observations: Array, rng: Generator, draws: int = DRAWS
    ) -> Floats:
        """E_π[f(a)] in each state."""
        policy, seen = self.asked(observations)
        return policy.expected(function, seen, rng, draws)


class WithoutLast(RelayedPolicy):
    """The policy of observations that have one more coordinate, the last one, which it does not look at.

    Two of one policy are equal, so that what is remembered for one is found for the other.

    Args:
        policy: the other policy.
        shape: of one of its observations.
    """

    def __init__(self, policy: TargetPolicy, shape: tuple[int, ...]) -> None:
        self._policy, self._shape = policy, shape
        self.n_actions, self.action_dimension = policy.n_actions, policy.action_dimension
        self.normalized_by = policy.normalized_by
        self.observation_size = None if policy.observation_size is None else policy.observation_size + 1

    def __eq__(self, other: object) -> bool:
        return isinstance(other, WithoutLast) and other._policy is self._policy

    def __hash__(self) -> int:
        return hash((WithoutLast, id(self._policy)))

    def __repr__(self) -> str:
        return repr(self._policy)

    @property
    def known(self) -> TargetPolicy:
        """The policy of observations without the last coordinate."""
        return self._policy

    def asked(self, observations: Array) -> tuple[TargetPolicy, Array]:
        """The other policy, and the observations without their last coordinate."""
        return self._policy, observations[:, :-1].reshape(len(observations), *self._shape)

    def alike(self, policy: TargetPolicy) -> TargetPolicy:
        """Another policy that looks at the same coordinates as this one."""
        return WithoutLast(policy, self._shape)


Output = Literal["action", "probabilities", "logits", "distribution"]
OUTPUTS = ("action", "probabilities", "logits", "distribution")


def from_function(
    function: Callable[[Any], Any], *, n_actions: int | None = None, output: Output | None = None, batched: bool = True
) -> TargetPolicy:
    """A policy from what a function returns.

    Args:
        function: takes a batch of observations (n,) or (n, d).
        n_actions: how many discrete actions there are; None for continuous ones, or where a `Categorical` tells.
        output: what it returns. Without it, a torch distribution is itself; with `n_actions`, or on data with discrete
            actions, integers are actions and a matrix holds probabilities; elsewhere floats are continuous actions.
        batched: False if the function takes one observation at a time.
    """
    if output is not None and output not in OUTPUTS:
        raise ValueError(f"output must be one of {', '.join(OUTPUTS)}: got {output!r}")
    call = Call(function, batched)
    if n_actions is not None or output in ("probabilities", "logits"):
        return CategoricalPolicy(call.reading(lambda seen, _: _as_probabilities(seen, n_actions, output)), n_actions)
    if output == "action":
        return DeterministicPolicy(call.reading(_as_actions))
    return FunctionPolicy(lambda seen, count: _recognise(call, seen, output, count))


def from_module(module: torch.nn.Module, **options: Any) -> TargetPolicy:
    """A policy from a torch module that takes a float tensor (n, d), or int64 (n,) for finite states."""
    return from_function(lambda seen: _forward(module, seen), **options)


class FunctionPolicy(RelayedPolicy):
    """A policy whose kind is seen at the first call; every question goes to the policy of that kind.

    Args:
        recognise: makes that policy, from a few observations and the number of discrete actions, where it is known.
    """

    def __init__(self, recognise: Callable[[Array, int | None], TargetPolicy]) -> None:
        self._recognise = recognise
        self._known: TargetPolicy | None = None

    def recognised(self, observations: Array, n_actions: int | None = None) -> TargetPolicy:
        """The policy of the kind that the function returns."""
        if self._known is None:
            known = self._recognise(observations, n_actions)
            known.observation_size = known.observation_size or self.observation_size
            self.n_actions, self.action_dimension = known.n_actions, known.action_dimension
            self._known = known
        return self._known

    def described(self) -> list[str]:
        """The policy that was recognised."""
        return ["not called yet" if self._known is None else repr(self._known)]

    @property
    def known(self) -> TargetPolicy:
        """The recognised policy after the first call; before it, an error."""
        if self._known is None:
            raise RuntimeError(
                "what the function returns is not known before it is called: call recognised(observations) first"
            )
        return self._known

    def asked(self, observations: Array) -> tuple[TargetPolicy, Array]:
        """The policy that was recognised, and the observations as they are."""
        return self.recognised(observations), observations


def _recognise(call: Call, observations: Array, output: Output | None, n_actions: int | None) -> TargetPolicy:
    """The policy of the kind that a function returns for the first observations."""
    returned, rows = call.probe(observations)
    if is_distribution(returned):
        from ope_vpm.policy.distributions import of_distributions  # which needs torch

        return of_distributions(call, returned, rows)
    if output == "distribution":
        raise TypeError(f"output='distribution' needs a torch distribution: got a {type(returned).__name__}")
    if n_actions is None:
        return DeterministicPolicy(call.reading(_as_actions))
    shape = np.shape(as_array(returned))
    count = shape[1] if len(shape) == 2 and shape[1] > 1 else n_actions  # columns of probabilities
    return CategoricalPolicy(call.reading(lambda seen, _: _as_probabilities(seen, count, output)), count)


def _forward(module: torch.nn.Module, observations: Array) -> Any:
    kind = torch.int64 if np.asarray(observations).dtype.kind in "iu" else torch.float32
    with running(observations):
        return module(torch.as_tensor(np.array(observations)).to(kind))


def _as_probabilities(returned: Any, n_actions: int | None, output: Output | None) -> Array:
    if is_distribution(returned):
        from ope_vpm.policy.distributions import categorical_probabilities

        return categorical_probabilities(returned)
    values = as_array(returned)
    if output == "logits":
        return softmax(values, axis=1)
    if output == "probabilities" or n_actions is None:
        return values
    if values.dtype.kind in "iub" and values.size == len(values):
        return one_hot(values.reshape(-1), n_actions)
    if output == "action" or values.dtype.kind in "iub":
        raise TypeError(f"discrete actions must be integers, one per row: got {values.dtype} {values.shape}")
    return values


def _as_actions(returned: Any, _: int) -> Array:
    if is_distribution(returned):
        raise TypeError("the function returns distributions, not actions: leave output='action' out")
    values = as_array(returned)
    if values.dtype.kind in "iub":
        raise TypeError(
            "the function returns integers: return floats if actions are continuous, or pass n_actions, the number of "
            "discrete ones"
        )
    if values.dtype.kind != "f":
        raise TypeError(
            f"a function must return actions, probabilities or a torch distribution: got a {type(returned).__name__}"
        )
    return values
