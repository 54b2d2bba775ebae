"""d3rlpy: Q-learning algorithms, as objects or .d3 files, with their scalers.

Networks are built by a stranger's settings only within a limit on how many numbers the library may make tensors of.
"""

from __future__ import annotations

import pickle
from collections.abc import Callable, Iterable
from contextlib import nullcontext
from math import prod
from pathlib import Path
from typing import Any

import numpy as np

from ope_vpm.arrays import Array
from ope_vpm.optional import library, own_generator, torch
from ope_vpm.outside import parse_json
from ope_vpm.policy.calls import running
from ope_vpm.policy.continuous import DeterministicPolicy, GaussianPolicy
from ope_vpm.policy.described import describe
from ope_vpm.policy.discrete import CategoricalPolicy, one_hot
from ope_vpm.policy.networks import as_torch, only_tensors, read_tensors
from ope_vpm.policy.target import TargetPolicy, checked_actions

MAKERS: tuple[Callable[..., Any], ...] = (torch.empty, torch.zeros, torch.ones, torch.full, torch.rand, torch.randn)
"""The functions that make a tensor of a size that is given."""


LEAST = 1000
"""The least that a tensor counts for: a loop that makes a billion small ones must end too."""


class Budget(torch.overrides.TorchFunctionMode):
    """Within it, torch makes tensors of at most `most` numbers together, and refuses before it takes the memory."""

    def __init__(self, most: int) -> None:
        super().__init__()
        self._left = most

    def __torch_function__(
        self, func: Any, types: Any, args: tuple[Any, ...] = (), kwargs: dict[str, Any] | None = None
    ) -> Any:
        if func in MAKERS:
            sizes = args[0] if args and isinstance(args[0], Iterable) else args
            self._spend(prod(size for size in sizes if isinstance(size, int)))
        elif func is torch.conv2d:  # an encoder of images tries itself on one: channels × height × width come out
            self._spend(args[1].shape[0] * prod(args[0].shape[-2:]))
        return func(*args, **(kwargs or {}))

    def _spend(self, numbers: int) -> None:
        self._left -= max(numbers, LEAST)
        if self._left < 0:
            raise ValueError("its settings claim networks far larger than the weights that it holds")


SQUASHED = ("SAC", "CQL", "CalQL", "BEAR")
"""Algorithms that draw tanh of a Gaussian."""
GAUSSIAN = ("IQL", "AWAC", "CRR")
"""Algorithms that draw around the squashed mean and clip."""
DRAWING = ("BCQ", "BEAR", "CRR")
"""Algorithms whose `predict` draws actions and takes the best of them, another one at each call."""
LEAST_BUDGET = 10_000_000
"""Numbers that the networks of any file may have: 40 MB."""


def from_d3rlpy(algo: Any, *, deterministic: bool = False) -> TargetPolicy:
    """A target policy from an algorithm.

    Args:
        algo: a Q-learning algorithm whose networks are built.
        deterministic: take `predict`'s greedy action instead of drawing as `sample_action` does.
    """
    name = type(algo).__name__
    if hasattr(algo, "as_stateful_wrapper"):  # decision transformers
        raise TypeError(f"{name} remembers earlier observations: policies must act by the present one")
    if name in ("RandomPolicy", "DiscreteRandomPolicy"):
        raise TypeError(f"{name} has no networks that could be asked: give what it does as a function or a table")
    if getattr(algo, "impl", None) is None:
        raise ValueError("the algorithm has no networks yet: fit it, or call build_with_dataset first")
    if any(not isinstance(side, int) for side in algo.observation_shape):
        raise TypeError(f"observations of d3rlpy must be single arrays: got a tuple of shapes {algo.observation_shape}")
    size = int(np.prod(algo.observation_shape))
    greedy = _greedy(algo)
    if algo.get_action_type().name == "DISCRETE":
        count = int(algo.action_size)
        if name == "DiscreteSAC" and not deterministic:
            return CategoricalPolicy(_probabilities(algo), count, size)
        return _greedy_of(algo, CategoricalPolicy(lambda seen: one_hot(greedy(seen), count), count, size))
    sizes: dict[str, Any] = {"action_dimension": int(algo.action_size), "observation_size": size}
    bounds = _bounds(algo)
    if name in SQUASHED and not deterministic:
        return GaussianPolicy(lambda seen: _moments(algo, seen, "mu"), squash=True, bounds=bounds, **sizes)
    if name in GAUSSIAN and not deterministic:
        return GaussianPolicy(lambda seen: _stretched(algo, seen, bounds), bounds=bounds, **sizes)
    kind = BestOfDraws if name in DRAWING else DeterministicPolicy
    return _greedy_of(algo, kind(greedy, **sizes))


class BestOfDraws(TargetPolicy):
    """Continuous actions, the best of some that the library draws: nothing but its own draws is known of it."""

    def __init__(self, best: Callable[..., Array], action_dimension: int, observation_size: int) -> None:
        self._best = best
        self.action_dimension = action_dimension
        self.observation_size = observation_size

    def sample(self, observations: Array, rng: np.random.Generator) -> Array:
        """Draw with torch, its global generator put back as it was."""
        seed = int(rng.integers(2**63))
        return checked_actions(self._best(observations, seed), self.action_dimension)


def load_d3rlpy(path: Path, *, trust: bool, deterministic: bool = False) -> TargetPolicy:
    """A target policy from a .d3 file: a pickle of two texts and of bytes, which hold tensors saved by torch."""
    base = library("d3rlpy.base", "d3rlpy")
    config, weights = _contents(path, trust)
    parse_json(config)  # refuses a text that is too large, before the library parses it
    states = read_tensors(weights, trust)
    # The settings claim sizes, the file holds numbers: networks may be built as large as the file is, with some room
    # for parts that are not saved, and no larger.
    with nullcontext() if trust else Budget(max(LEAST_BUDGET, 4 * len(weights))):
        algo = base.LearnableConfigWithShape.deserialize(config).create(False)
    for name, module in vars(algo.impl.modules).items():
        if isinstance(module, torch.nn.Module):
            arrays = only_tensors(states[name])
            module.load_state_dict({key: as_torch(array) for key, array in arrays.items()})
    return from_d3rlpy(algo, deterministic=deterministic)


def _contents(path: Path, trust: bool) -> tuple[str, bytes]:
    """The settings and the weights."""
    stored = describe(path.read_bytes())
    if not isinstance(stored, dict):
        if not trust:
            raise PermissionError(
                f"{path} is not read without trust: it is a pickle that runs code, which d3rlpy's save does not write "
                "(pass trust=True if you know where it comes from)"
            )
        stored = pickle.loads(path.read_bytes())
    config, weights = stored.get("config"), stored.get("torch")
    if not isinstance(config, str) or not isinstance(weights, bytes):
        raise TypeError(f"{path} must be a file of d3rlpy's save: it lacks a text 'config' or bytes 'torch'")
    return config, weights


def _greedy_of(algo: Any, policy: TargetPolicy) -> TargetPolicy:
    policy.made_from = algo
    return policy


def _greedy(algo: Any) -> Callable[[Array], Array]:
    def action(observations: Array, seed: int = 0) -> Array:
        with running(observations), own_generator():
            _seed(seed)
            actions: Array = algo.predict(_shaped(algo, observations))
        return actions

    return action


def _seed(seed: int) -> None:
    """Seed torch, on the CPU alone while CUDA is not in use.

    `torch.manual_seed` notes a stack trace for CUDA at every call until then, which takes longer than the network does.
    """
    if torch.cuda.is_initialized():  # type: ignore[no-untyped-call]
        torch.manual_seed(seed)
    else:
        torch.default_generator.manual_seed(seed)


def _probabilities(algo: Any) -> Callable[[Array], Array]:
    def probabilities(observations: Array) -> Array:
        with running(observations):
            values: Array = algo.impl.policy(_tensor(algo, observations)).probs.cpu().numpy()
        return values

    return probabilities


def _moments(algo: Any, observations: Array, mean: str) -> tuple[Array, Array]:
    """Mean and standard deviation in the network's own units, where actions fill [-1, 1]."""
    with running(observations):
        output = algo.impl.policy(_tensor(algo, observations))
    return getattr(output, mean).cpu().numpy(), output.logstd.exp().cpu().numpy()


def _stretched(algo: Any, observations: Array, bounds: tuple[Array, Array]) -> tuple[Array, Array]:
    mean, std = _moments(algo, observations, "squashed_mu")
    centre, half = (bounds[0] + bounds[1]) / 2, (bounds[1] - bounds[0]) / 2
    return centre + half * mean, half * std


def _bounds(algo: Any) -> tuple[Array, Array]:
    """The range of actions that [-1, 1] stands for: the action scaler's, if there is one."""
    scaler = algo.action_scaler
    if scaler is None:
        one = np.ones(int(algo.action_size))
        return -one, one
    return np.asarray(scaler.minimum, dtype=np.float64), np.asarray(scaler.maximum, dtype=np.float64)


def _shaped(algo: Any, observations: Array) -> Array:
    batch = np.asarray(observations, dtype=np.float32)
    return batch.reshape(len(batch), *algo.observation_shape)


def _tensor(algo: Any, observations: Array) -> Any:
    tensor = torch.as_tensor(_shaped(algo, observations), device=algo._device)
    return tensor if algo.observation_scaler is None else algo.observation_scaler.transform(tensor)
