"""Minari datasets collected by its DataCollector, against what the environment returned; and the way back."""

import gymnasium as gym
import minari
import numpy as np
import pytest
from minari import DataCollector

from ope_vpm import LoggedDataset, inspect, load_dataset

# Minari asks for authors, links and versions, which a test's dataset has not; each warning says "None".
pytestmark = [
    pytest.mark.filterwarnings("ignore:`[a-z_]+` is set to None:UserWarning"),
    pytest.mark.filterwarnings("ignore:env_spec is None:UserWarning"),
    # Its collector leaves its temporary folder to the garbage collector.
    pytest.mark.filterwarnings("ignore:Implicitly cleaning up:ResourceWarning"),
]


@pytest.fixture(autouse=True)
def own_folder(tmp_path, monkeypatch):
    monkeypatch.setenv("MINARI_DATASETS_PATH", str(tmp_path))
    return tmp_path


def collect(recorded, steps=150, dataset_id="cartpole/random-v0"):
    env = DataCollector(recorded)
    env.action_space.seed(0)
    env.reset(seed=0)
    for _ in range(steps):
        _, _, terminated, truncated, _ = env.step(env.action_space.sample())
        if terminated or truncated:
            env.reset()
    dataset = env.create_dataset(dataset_id)
    env.close()
    return dataset


def check_rows(data, recorded):
    rows = recorded.columns()
    rows[-1][-1] = True  # the collector stopped there, and says so
    for name, column in zip(
        ("observations", "actions", "rewards", "next_observations", "terminated", "truncated"), rows, strict=True
    ):
        np.testing.assert_array_equal(getattr(data, name), column[: len(data)], err_msg=name)
    assert data.next_known.all()


def test_a_collected_dataset_by_object_id_and_folder(record, same, own_folder):
    env = record(gym.make("CartPole-v1", max_episode_steps=20))
    dataset = collect(env)
    data = load_dataset(dataset)
    assert data.terminated.any()
    assert data.truncated.any()
    check_rows(data, env)
    assert data.action_space == gym.spaces.Discrete(2)
    assert inspect(data).findings == ()
    same(load_dataset("cartpole/random-v0"), data)
    same(load_dataset(own_folder / "cartpole" / "random-v0"), data)
    file = next((own_folder / "cartpole" / "random-v0").rglob("*.hdf5"))
    same(load_dataset(file), data)


def test_round_trip(same, rollout):
    data = rollout("Pendulum-v1", 450)
    written = data.to_minari("pendulum/random-v0")
    assert written.total_episodes == 3
    same(load_dataset("pendulum/random-v0"), data)
    assert minari.load_dataset("pendulum/random-v0").action_space.shape == (1,)


def test_what_minari_cannot_hold_is_refused(rollout):
    data = rollout("CartPole-v1", 50)
    with pytest.raises(ValueError, match="ends with its version"):
        data.to_minari("cartpole")
    with pytest.raises(ValueError, match="Minari needs both spaces"):
        LoggedDataset.from_arrays([[0.0]], [0], [0], [[1.0]], [True]).to_minari("a-v0")
    with pytest.raises(ValueError, match="that of row 0 is unknown"):
        LoggedDataset.from_arrays([[0.0]], [0], [0]).to_minari("a-v0")


def test_an_unknown_id_is_refused():
    with pytest.raises(FileNotFoundError, match="neither a file nor a local Minari dataset called 'no/such-v0'"):
        load_dataset("no/such-v0")
