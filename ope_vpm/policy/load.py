"""`as_policy` and `load_policy`: any policy, from an object or a file.

Other packages add kinds of policies by entry points in the group `ope_vpm.policies`: objects with `matches(source)` and
`read(source, *, trust, deterministic) -> TargetPolicy`, where the source is an object or a path.
"""

from __future__ import annotations

import warnings
from pathlib import Path
from typing import Any

import numpy as np

from ope_vpm import others
from ope_vpm.archives import opened, read_npy
from ope_vpm.optional import is_from, is_network, is_tensor, own_generator
from ope_vpm.outside import check_regular, one_line, reading
from ope_vpm.policy.arrays import load_arrays
from ope_vpm.policy.discrete import TablePolicy
from ope_vpm.policy.function import Output, from_function, from_module
from ope_vpm.policy.target import TargetPolicy

KINDS = ".zip of stable-baselines3, .d3 of d3rlpy, .pt of torch, .onnx, a network in .npz, or a table in .npy or .csv"

SUFFIXES = frozenset({".zip", ".d3", ".pt", ".pth", ".onnx", ".npz", ".npy", ".csv"})
"""Names that promise a kind of ours; files of other names are shown to other packages first."""


def as_policy(
    policy: Any,
    *,
    deterministic: bool = False,
    normalize: Any = None,
    n_actions: int | None = None,
    output: Output | None = None,
    batched: bool = True,
) -> TargetPolicy:
    """A target policy from what you have.

    Args:
        policy: a stable-baselines3 model, a d3rlpy algorithm, a table of probabilities (states, actions), a
            function or a torch module; a `TargetPolicy` is returned as it is.
        deterministic: for stable-baselines3 and d3rlpy, the greedy action instead of a draw.
        normalize: for stable-baselines3, the `VecNormalize` that the policy was trained behind.
        n_actions: for functions and modules, how many discrete actions there are.
        output: for functions and modules, what they return; see `ope_vpm.policy.function.from_function`.
        batched: for functions, False if they take one observation at a time.

    Returns:
        A policy that can be asked for actions, and for what else can be told of it: see `TargetPolicy`.

    ```python
    import numpy as np
    import ope_vpm as ov

    policy = ov.as_policy(lambda x: -0.5 * x)  # of a batch of observations (n, d)
    actions = policy.sample(np.ones((2, 1)), np.random.default_rng(0))
    assert actions.tolist() == [[-0.5], [-0.5]]
    ```
    """
    if isinstance(policy, TargetPolicy):
        return policy
    if is_from(policy, "stable_baselines3"):  # sb3-contrib's classes inherit from the library's
        from ope_vpm.policy.sb3 import from_sb3

        return from_sb3(policy, deterministic=deterministic, normalize=normalize)
    if is_from(policy, "d3rlpy"):
        from ope_vpm.policy.d3rlpy import from_d3rlpy

        return from_d3rlpy(policy, deterministic=deterministic)
    if is_network(policy):
        return from_module(policy, n_actions=n_actions, output=output, batched=batched)
    if isinstance(policy, np.ndarray | list | tuple) or is_tensor(policy):
        return TablePolicy(np.asarray(policy))
    foreign = others.found(others.POLICIES, policy)
    if foreign is not None:
        return _checked(foreign[1].read(policy, trust=False, deterministic=deterministic), foreign[0])
    if callable(policy):
        return from_function(policy, n_actions=n_actions, output=output, batched=batched)
    raise TypeError(
        f"a {type(policy).__name__} is not a policy we know: give a stable-baselines3 or d3rlpy object, "
        "a table, a function or a torch module (files: load_policy)"
    )


def load_policy(
    path: str | Path,
    *,
    trust: bool = False,
    deterministic: bool = False,
    normalize: Any = None,
    n_actions: int | None = None,
    output: Output | None = None,
    activation: str | None = None,
) -> TargetPolicy:
    """A target policy from a file, its kind found by content.

    Args:
        path: a .zip of stable-baselines3, a .d3 of d3rlpy, .pt of torch, .onnx, a network as arrays
            in .npz, or a table of probabilities in .npy or .csv.
        trust: allow loading that runs code from the file, as TorchScript and pickles need, and sizes far beyond
            that of the file.
        deterministic: for stable-baselines3 and d3rlpy, the greedy action instead of a draw.
        normalize: for stable-baselines3, a `VecNormalize` or its pickled file, which is read without running it. If
            not given, a `vecnormalize.pkl` beside the file, or in a folder of its name, is used; False for none.
        n_actions: for .pt and .onnx, how many discrete actions there are.
        output: for .pt and .onnx, what they return; see `ope_vpm.policy.function.from_function`.
        activation: for a .pt that holds the weights of a perceptron, what follows its hidden layers, such as "tanh".
    """
    file = Path(path).expanduser()
    check_regular(file)
    with reading(file, "a policy"):
        return _load(file, trust, deterministic, normalize, activation, n_actions=n_actions, output=output)


def _load(
    file: Path, trust: bool, deterministic: bool, normalize: Any, activation: str | None, **options: Any
) -> TargetPolicy:
    foreign = None if file.suffix.lower() in SUFFIXES else others.found(others.POLICIES, file)
    if foreign is not None:
        return _checked(foreign[1].read(file, trust=trust, deterministic=deterministic), foreign[0])
    kind = _kind(file)
    if deterministic and kind not in ("sb3", "d3rlpy"):
        raise ValueError(
            f"deterministic is for policies of stable-baselines3 and d3rlpy: {file} is of another kind (leave it out)"
        )
    if kind in ("sb3", "d3rlpy", "torch"):
        # Libraries draw random weights before they read the stored ones: the global generator is put back.
        with own_generator():
            if kind == "sb3":
                from ope_vpm.policy.sb3_files import load_sb3

                return load_sb3(file, trust=trust, deterministic=deterministic, normalize=normalize)
            if kind == "d3rlpy":
                from ope_vpm.policy.d3rlpy import load_d3rlpy

                return load_d3rlpy(file, trust=trust, deterministic=deterministic)
            from ope_vpm.policy.torch_files import load_torch

            return load_torch(file, trust=trust, activation=activation, **options)
    if kind == "onnx":
        from ope_vpm.policy.onnx import load_onnx

        return load_onnx(file, trust=trust, **options)
    if kind == "arrays":
        return load_arrays(file, trust=trust)
    return TablePolicy(_table(file))


def _checked(policy: Any, name: str) -> TargetPolicy:
    if not isinstance(policy, TargetPolicy):
        raise TypeError(f"the policies {name!r} must be read as a TargetPolicy: it returned a {type(policy).__name__}")
    return policy


def _kind(path: Path) -> str:
    """The kind of a policy's file, by its content where that tells, otherwise by its name."""
    with path.open("rb") as file:
        head = file.read(8)
    if head.startswith(b"PK\x03\x04"):
        return _archive_kind(path)
    if head.startswith(b"\x93NUMPY"):
        return "table"
    if head[:1] == b"\x80":
        return "d3rlpy" if path.suffix == ".d3" else "torch"
    if path.suffix in (".onnx", ".csv"):
        return {".onnx": "onnx", ".csv": "table"}[path.suffix]
    raise ValueError(f"{path} is not a policy we know: it must be a {KINDS}")


def _archive_kind(path: Path) -> str:
    with opened(path, trust=True) as archive:  # only names are read
        names = archive.names
    if {"data", "policy.pth"} <= set(names):
        return "sb3"
    if any(name.endswith("data.pkl") for name in names):
        return "torch"
    if "weight_0.npy" in names:
        return "arrays"
    raise ValueError(f"{path} is an archive without a policy: it must be a {KINDS}")


def _table(path: Path) -> Any:
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", UserWarning)  # NumPy's about a file without data, which is refused below
            table = np.loadtxt(path, delimiter=",", ndmin=2) if path.suffix == ".csv" else read_npy(path)
    except ValueError as error:
        raise ValueError(f"{path} must hold a table of probabilities, numbers only: {one_line(error)}") from error
    if table.dtype.kind not in "fiub":
        raise ValueError(f"{path} must hold a table of probabilities, numbers only: its type is {table.dtype}")
    if table.size == 0:
        raise ValueError(f"{path} must hold a table of probabilities: it is empty")
    return table
