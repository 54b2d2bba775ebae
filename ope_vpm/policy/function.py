"""Policies from Python functions and torch modules: `obs -> action` or `obs -> distribution`."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Literal

import numpy as np
import torch

from ope_vpm.arrays import Array, Floats
from ope_vpm.policy.target import CategoricalPolicy, DeterministicPolicy, Generator, TargetPolicy, in_batches

Output = Literal["action", "probabilities", "logits", "distribution"]
OUTPUTS = ("action", "probabilities", "logits", "distribution")


def from_function(
    function: Callable[[Any], Any],
    *,
    n_actions: int | None = None,
    output: Output | None = None,
    batched: bool = True,
) -> TargetPolicy:
    """A policy from what a function returns.

    Args:
        function: takes a batch of observations (n,) or (n, d).
        n_actions: how many discrete actions there are; None for continuous ones.
        output: what it returns. Without it, and with `n_actions`, integers are actions, a matrix is
            probabilities and a `Categorical` is itself; without both, floats are continuous actions.
        batched: False if the function takes one observation at a time.
    """
    if output is not None and output not in OUTPUTS:
        raise ValueError(f"output must be one of {', '.join(OUTPUTS)}: got {output!r}")
    call = function if batched else _one_by_one(function)
    if output == "distribution":
        return DistributionPolicy(call, n_actions)
    if n_actions is not None:
        return CategoricalPolicy(lambda seen: _as_probabilities(call(seen), n_actions, output), n_actions)
    if output in ("probabilities", "logits"):
        return CategoricalPolicy(lambda seen: _as_probabilities(call(seen), None, output))
    return DeterministicPolicy(lambda seen: _as_actions(call(seen)))


def from_module(module: torch.nn.Module, **options: Any) -> TargetPolicy:
    """A policy from a torch module that takes a float tensor (n, d), or int64 (n,) for finite states."""
    return from_function(lambda seen: _forward(module, seen), **options)


class DistributionPolicy(TargetPolicy):
    """A function from observations to a `torch.distributions` object with one event a row."""

    def __init__(self, function: Callable[[Any], Any], n_actions: int | None = None) -> None:
        self._function = function
        self.n_actions = n_actions

    def probabilities(self, observations: Array) -> Floats:
        """The probabilities of a categorical distribution."""
        return in_batches(lambda part: _categorical(self._function(part)), observations)

    @property
    def has_probabilities(self) -> bool:
        """Only where it was said how many actions there are; the function is not called to find out."""
        return self.n_actions is not None

    def sample(self, observations: Array, rng: Generator) -> Array:
        """Draw with torch, its global generator put back as it was."""
        with torch.random.fork_rng(devices=[]), torch.no_grad():
            torch.manual_seed(int(rng.integers(2**63)))
            return in_batches(lambda part: _numpy(self._function(part).sample()), observations)

    def log_prob(self, observations: Array, actions: Array) -> Floats:
        """As the distribution has it, summed over coordinates where it keeps them apart."""
        with torch.no_grad():
            distribution = self._function(observations)
            values = distribution.log_prob(torch.as_tensor(np.asarray(actions)))
        rows: Floats = _numpy(values).astype(np.float64).reshape(len(actions), -1).sum(axis=1)
        return rows


def _forward(module: torch.nn.Module, observations: Array) -> Any:
    kind = torch.int64 if np.asarray(observations).dtype.kind in "iu" else torch.float32
    with torch.no_grad():
        return module(torch.as_tensor(np.array(observations)).to(kind))


def _one_by_one(function: Callable[[Any], Any]) -> Callable[[Any], Any]:
    return lambda seen: np.stack([_numpy(function(row)) for row in seen])


def _as_probabilities(returned: Any, n_actions: int | None, output: Output | None) -> Array:
    if isinstance(returned, torch.distributions.Distribution):
        return _categorical(returned)
    values = _numpy(returned)
    if output == "logits":
        shifted = values - values.max(axis=1, keepdims=True)
        softmax: Array = np.exp(shifted) / np.exp(shifted).sum(axis=1, keepdims=True)
        return softmax
    if output == "probabilities" or n_actions is None:
        return values
    if values.dtype.kind in "iub" and values.size == len(values):
        return one_hot(values.reshape(-1), n_actions)
    if output == "action" or values.dtype.kind in "iub":
        raise TypeError(f"discrete actions must be integers, one a row: got {values.dtype} {values.shape}")
    return values


def one_hot(actions: Array, n_actions: int) -> Floats:
    """Probability 1 on one action a row."""
    if actions.size and not (actions.min() >= 0 and actions.max() < n_actions):
        raise ValueError(f"the policy returned action {int(actions.max())}: there are {n_actions}, counted from 0")
    hot: Floats = np.eye(n_actions)[actions.astype(np.int64)]
    return hot


def _as_actions(returned: Any) -> Array:
    if isinstance(returned, torch.distributions.Distribution):
        raise TypeError("the function returns distributions: pass output='distribution'")
    values = _numpy(returned)
    if values.dtype.kind != "f":
        raise TypeError("the function returns integers: pass n_actions, the number of discrete actions")
    return values


def _categorical(distribution: Any) -> Array:
    probabilities = getattr(distribution, "probs", None)
    if probabilities is None or not isinstance(distribution, torch.distributions.Categorical):
        raise TypeError(f"discrete actions need a Categorical distribution: got {type(distribution).__name__}")
    return _numpy(probabilities)


def _numpy(values: Any) -> Array:
    return values.detach().cpu().numpy() if isinstance(values, torch.Tensor) else np.asarray(values)
