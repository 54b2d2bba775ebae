"""Every reader of files with a sound file of its kind, and how the file is used."""

from __future__ import annotations

import os
import sys
import warnings
from collections.abc import Callable
from contextlib import redirect_stderr, redirect_stdout
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

STATES = np.random.default_rng(1).normal(size=(5, 3))


@dataclass(frozen=True)
class Reader:
    """How to make a sound file, which of its files is changed, and how it is read and used."""

    make: Callable[[Path], None]
    """Writes into an empty folder."""
    files: tuple[str, ...]
    """Changed in turn."""
    read: Callable[[Path], Any]
    """Reads from that folder."""
    use: Callable[[Any], object] = repr


def log(kind: str = "continuous") -> Any:
    """A small log with two episodes."""
    from ope_vpm import LoggedDataset

    rng = np.random.default_rng(0)
    states = rng.normal(size=(12, 3)) if kind == "continuous" else rng.integers(0, 4, 12)
    actions = rng.normal(size=(12, 2)) if kind == "continuous" else rng.integers(0, 2, 12)
    return LoggedDataset.from_arrays(states, actions, rng.normal(size=12), terminated=np.arange(12) % 6 == 5)


def load_log(name: str, **options: Any) -> Callable[[Path], Any]:
    def read(folder: Path) -> Any:
        from ope_vpm import load_dataset

        return load_dataset(folder / name if name else folder, **options)

    return read


def load_policy(name: str, **options: Any) -> Callable[[Path], Any]:
    def read(folder: Path) -> Any:
        from ope_vpm import load_policy

        return load_policy(folder / name, **options)

    return read


def scan_log(folder: Path) -> Any:
    from ope_vpm import scan_dataset

    return scan_dataset(folder / "log.parquet")


def inspected(data: Any) -> object:
    from ope_vpm import inspect

    return str(inspect(data))


def acted(policy: Any) -> object:
    return policy.sample(STATES, np.random.default_rng(0))


def acted_on_states(policy: Any) -> object:
    return policy.sample(np.array([0, 1, 1]), np.random.default_rng(0))


def write_csv(folder: Path) -> None:
    rows = [f"{row % 4},{row % 2},{row / 3},{row // 6},true" for row in range(12)]
    (folder / "log.csv").write_text("\n".join(["observation,action,reward,episode,next_known", *rows]) + "\n")


def write_open_bandit(folder: Path) -> None:
    rows = [
        f"{k},2019-11-24 00:00:{k:02d}+00:00,{k % 3},{1 + k % 2},{k % 5 == 0:d},0.25,{'ab'[k % 2]}" for k in range(20)
    ]
    header = ",timestamp,item_id,position,click,propensity_score,user_feature_0"
    (folder / "shop.csv").write_text("\n".join([header, *rows]) + "\n")


def write_d4rl(folder: Path) -> None:
    import h5py

    data = log()
    with h5py.File(folder / "log.h5", "w") as file:
        file["observations"], file["actions"] = data.observations, data.actions
        file["rewards"], file["terminals"] = data.rewards, data.terminated
        file.create_dataset("timeouts", data=data.truncated, chunks=(4,), compression="gzip", shuffle=True)


def write_minari(folder: Path) -> None:
    from gymnasium import spaces

    from ope_vpm import LoggedDataset

    os.environ["MINARI_DATASETS_PATH"] = str(folder)
    data, box = log(), spaces.Box(-9, 9, (3,))
    whole = LoggedDataset.from_arrays(
        data.observations,
        data.actions,
        data.rewards,
        np.roll(data.observations, -1, axis=0),
        data.terminated,
        observation_space=box,
        action_space=spaces.Box(-9, 9, (2,)),
    )
    with redirect_stdout(sys.stderr), warnings.catch_warnings():
        warnings.simplefilter("ignore")  # Minari would like to know an author
        whole.to_minari("fuzz/log-v0")


def write_sb3(folder: Path) -> None:
    from stable_baselines3 import PPO

    keywords: dict[str, Any] = {"net_arch": [4, 4], "activation_fn": __import__("torch").nn.ReLU}
    PPO("MlpPolicy", "Pendulum-v1", policy_kwargs=keywords, use_sde=True, device="cpu").save(folder / "model.zip")


def write_d3(folder: Path) -> None:
    import d3rlpy

    encoder = d3rlpy.models.VectorEncoderFactory([4, 4])
    config = d3rlpy.algos.SACConfig(actor_encoder_factory=encoder, critic_encoder_factory=encoder)
    algo = config.create(device="cpu:0")
    algo.create_impl((3,), 2)
    algo.save(str(folder / "algo.d3"))


def write_weights(folder: Path) -> None:
    import torch

    network = torch.nn.Sequential(torch.nn.Linear(3, 4), torch.nn.Tanh(), torch.nn.Linear(4, 2))
    for number, weights in enumerate(network.parameters(), 1):  # the same file every time
        torch.nn.init.constant_(weights, number / 10)
    torch.save(network.state_dict(), folder / "weights.pt")


def write_onnx(folder: Path) -> None:
    import onnx
    from onnx import TensorProto, helper, numpy_helper

    x, y = (helper.make_tensor_value_info(name, TensorProto.FLOAT, [None, size]) for name, size in (("x", 3), ("y", 2)))
    rng = np.random.default_rng(0)
    weights = [
        numpy_helper.from_array(rng.normal(size=shape).astype(np.float32), name)
        for name, shape in (("a", (3, 4)), ("b", (4,)), ("c", (4, 2)))
    ]
    nodes = [
        helper.make_node("Gemm", ["x", "a", "b"], ["h"]),
        helper.make_node("Tanh", ["h"], ["t"]),
        helper.make_node("MatMul", ["t", "c"], ["y"]),
    ]
    graph = helper.make_graph(nodes, "policy", [x], [y], weights)
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=9)
    onnx.save(model, folder / "policy.onnx")


def write_arrays(folder: Path) -> None:
    from ope_vpm.policy.arrays import Layers, NetworkPolicy, save_arrays

    rng = np.random.default_rng(0)
    weights, biases = [rng.normal(size=(4, 3)), rng.normal(size=(2, 4))], [np.zeros(4), np.zeros(2)]
    clip, bound = np.array(10.0), np.ones(2)
    layers = Layers(weights, biases, np.zeros(3), np.ones(3), clip, np.zeros(2), -bound, bound)
    save_arrays(folder / "network.npz", NetworkPolicy(layers))


def write_logits(folder: Path) -> None:
    from ope_vpm.policy.arrays import LogitLayers, SoftmaxNetwork, save_arrays

    rng = np.random.default_rng(0)
    weights, biases = [rng.normal(size=(4, 3)), rng.normal(size=(2, 4))], [np.zeros(4), np.zeros(2)]
    layers = LogitLayers(weights, biases, np.zeros(3), np.ones(3), np.array(10.0))
    save_arrays(folder / "network.npz", SoftmaxNetwork(layers))


def write_suite(folder: Path) -> None:
    log("discrete").save(folder / "log.npz")
    np.save(folder / "table.npy", np.full((4, 2), 0.5))
    text = """
    title = "fuzz"
    runs = 2
    estimators = ["naive", { name = "vpm", label = "two", settings = { draws = 2 } }]
    [[tasks]]
    name = "own"
    kind = "files"
    dataset = "log.npz"
    policies = { half = "table.npy" }
    gamma = [1.0, 0.9]
    [[tasks]]
    name = "mdp"
    kind = "random_mdp"
    trajectories = [5, 6]
    length = 4
    """
    (folder / "suite.toml").write_text(text)


def read_suite(folder: Path) -> Any:
    from ope_vpm.leaderboard.runner import checked_suite

    with redirect_stderr(sys.stdout):
        return checked_suite(str(folder / "suite.toml"))


def read_paths(folder: Path) -> Any:
    from ope_vpm.paths.stationary import read_paths

    return read_paths(folder / "log.csv", "reward", "episode")


MINARI = "fuzz/log-v0/data"
READERS: dict[str, Reader] = {
    "npz": Reader(lambda f: log().save(f / "log.npz"), ("log.npz",), load_log("log.npz"), inspected),
    "npz, mapped": Reader(lambda f: log().save(f / "log.npz"), ("log.npz",), load_log("log.npz", mmap=True), inspected),
    "csv": Reader(write_csv, ("log.csv",), load_log("log.csv"), inspected),
    "open-bandit": Reader(write_open_bandit, ("shop.csv",), load_log("shop.csv"), inspected),
    "parquet": Reader(lambda f: log().save(f / "log.parquet"), ("log.parquet",), load_log("log.parquet"), inspected),
    "parquet, streamed": Reader(lambda f: log().save(f / "log.parquet"), ("log.parquet",), scan_log, inspected),
    "d3rlpy": Reader(lambda f: log().save(f / "log.h5"), ("log.h5",), load_log("log.h5"), inspected),
    "d4rl": Reader(write_d4rl, ("log.h5",), load_log("log.h5"), inspected),
    "minari": Reader(
        write_minari, (f"{MINARI}/main_data.hdf5", f"{MINARI}/metadata.json"), load_log(MINARI), inspected
    ),
    "policy .zip": Reader(write_sb3, ("model.zip",), load_policy("model.zip"), acted),
    "policy .d3": Reader(write_d3, ("algo.d3",), load_policy("algo.d3"), acted),
    "policy .pt": Reader(write_weights, ("weights.pt",), load_policy("weights.pt", activation="tanh"), acted),
    "policy .onnx": Reader(write_onnx, ("policy.onnx",), load_policy("policy.onnx"), acted),
    "policy .npz": Reader(write_arrays, ("network.npz",), load_policy("network.npz"), acted),
    "policy .npz, discrete": Reader(write_logits, ("network.npz",), load_policy("network.npz"), acted),
    "policy .npy": Reader(
        lambda f: np.save(f / "table.npy", np.full((4, 2), 0.5)),
        ("table.npy",),
        load_policy("table.npy"),
        acted_on_states,
    ),
    "policy .csv": Reader(
        lambda f: np.savetxt(f / "table.csv", np.full((4, 2), 0.5), delimiter=","),
        ("table.csv",),
        load_policy("table.csv"),
        acted_on_states,
    ),
    "suite .toml": Reader(write_suite, ("suite.toml",), read_suite),
    "paths .csv": Reader(write_csv, ("log.csv",), read_paths),
}
"""By name."""
GROUPS = {
    "datasets": [
        "npz",
        "npz, mapped",
        "csv",
        "open-bandit",
        "parquet",
        "parquet, streamed",
        "d3rlpy",
        "d4rl",
        "minari",
    ],
    "policies": [name for name in READERS if name.startswith("policy")],
    "texts": ["suite .toml", "paths .csv"],
}
"""Readers that share a process, most of whose time goes into imports."""
