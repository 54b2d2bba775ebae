"""Files with cut ends and flipped bytes: read, or refused in one sentence, and nothing else."""

import h5py
import numpy as np
import pytest
from stable_baselines3 import PPO

from ope_vpm import load_dataset, load_policy

CSV = "observation,action,reward,episode\n" + "".join(f"{row},{row % 2},{row / 2},0\n" for row in range(20))


def damaged(content, count, seed=0):
    """Variants of a file: cut short, one byte changed, thirty bytes changed."""
    rng = np.random.default_rng(seed)
    for number in range(count):
        if number % 3 == 0:
            yield content[: rng.integers(1, len(content))]
            continue
        changed = np.frombuffer(content, np.uint8).copy()
        places = rng.integers(len(content), size=1 if number % 3 == 1 else 30)
        changed[places] = rng.integers(256, size=len(places))
        yield changed.tobytes()


def check(load, content, path, count=60):
    """Every variant is read or refused; returns how many were refused."""
    refused = 0
    for variant in damaged(content, count):
        path.write_bytes(variant)
        try:
            load(path)
        except (ValueError, PermissionError):
            refused += 1
    return refused


@pytest.mark.parametrize("suffix", [".npz", ".parquet", ".h5", ".csv"])
# A flipped byte may make a huge number of a small one.
@pytest.mark.filterwarnings("ignore:.*encountered in:RuntimeWarning")
def test_damaged_datasets(suffix, cartpole, tmp_path):
    path = tmp_path / f"log{suffix}"
    if suffix == ".csv":
        path.write_text(CSV)
    elif suffix == ".h5":
        with h5py.File(path, "w") as file:
            file.update({"observations": cartpole.observations, "actions": cartpole.actions})
            file.update({"rewards": cartpole.rewards, "terminals": cartpole.terminated})
    else:
        cartpole.select(slice(0, 5)).save(path)
    assert check(load_dataset, path.read_bytes(), path) >= 10


def test_damaged_policies(tmp_path):
    path = tmp_path / "model.zip"
    PPO("MlpPolicy", "CartPole-v1", policy_kwargs={"net_arch": [4]}, device="cpu").save(path)
    assert check(load_policy, path.read_bytes(), path) >= 10
