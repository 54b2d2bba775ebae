"""Pickles from outside: read only if everything they name is on a list of harmless things.

Unpickling calls whatever the file names. An unpickler that finds only these names can build spaces, arrays
and references to library classes, and nothing else.
"""

from __future__ import annotations

import io
import pickle
from typing import Any

_SPACES = {
    "box": "Box",
    "discrete": "Discrete",
    "multi_discrete": "MultiDiscrete",
    "multi_binary": "MultiBinary",
}
_ACTIVATIONS = ("ReLU", "Tanh", "ELU", "SELU", "LeakyReLU", "GELU", "SiLU", "Sigmoid", "Softplus", "Mish")

_SEEDS = (
    ("numpy.random.bit_generator", "SeedSequence"),
    ("numpy.random.bit_generator", "__pyx_unpickle_SeedSequence"),
)

HARMLESS: frozenset[tuple[str, str]] = frozenset(
    {("numpy", "dtype"), ("numpy", "ndarray"), ("collections", "OrderedDict")}
    | {(f"numpy.{core}.multiarray", name) for core in ("core", "_core") for name in ("_reconstruct", "scalar")}
    | {(f"numpy.{core}.numeric", "_frombuffer") for core in ("core", "_core")}
    | {("numpy.random._pickle", name) for name in ("__generator_ctor", "__bit_generator_ctor")}
    | {("numpy.random._pcg64", "PCG64"), *_SEEDS}
    | {(f"gymnasium.spaces.{module}", name) for module, name in _SPACES.items()}
    | {("torch.nn.modules.activation", name) for name in _ACTIVATIONS}
    | {("torch.optim.adam", "Adam"), ("torch.optim.rmsprop", "RMSprop")}
    | {("stable_baselines3.common.sb2_compat.rmsprop_tf_like", "RMSpropTFLike")}
    | {("stable_baselines3.common.policies", f"ActorCritic{kind}Policy") for kind in ("", "Cnn")}
    | {
        (f"stable_baselines3.{algorithm}.policies", name)
        for algorithm, names in {
            "sac": ("SACPolicy", "CnnPolicy"),
            "td3": ("TD3Policy", "CnnPolicy"),
            "dqn": ("DQNPolicy", "CnnPolicy"),
        }.items()
        for name in names
    }
    | {("stable_baselines3.common.torch_layers", name) for name in ("FlattenExtractor", "NatureCNN")}
)


class _Unpickler(pickle.Unpickler):
    """Finds harmless names only."""

    def find_class(self, module: str, name: str) -> Any:
        if (module, name) not in HARMLESS:
            raise PermissionError(
                f"it names {module}.{name}, which could run code (pass trust=True if you know where it comes from)"
            )
        return super().find_class(module, name)


def safe_loads(data: bytes, trust: bool = False) -> Any:
    """Unpickle, everything with `trust`, else harmless things only."""
    try:
        return pickle.loads(data) if trust else _Unpickler(io.BytesIO(data)).load()
    except (pickle.UnpicklingError, EOFError, AttributeError, ImportError, IndexError, ValueError) as error:
        raise ValueError(f"it cannot be unpickled: {error}") from error
