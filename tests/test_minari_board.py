"""Reference values of Minari datasets: the dataset is Minari's own, the value the stored one of the target."""

import json

import minari
import numpy as np
import pytest

from benchmarks import tables
from benchmarks.minari import record, row
from ope_vpm import load_dataset
from ope_vpm.envs.wild.catalogue import wild_task
from ope_vpm.envs.wild.networks import POLICIES

pytestmark = [
    pytest.mark.filterwarnings("ignore:`[a-z_]+` is set to None:UserWarning"),
    pytest.mark.filterwarnings("ignore:Implicitly cleaning up:ResourceWarning"),
]


@pytest.fixture(autouse=True)
def own_folder(tmp_path, monkeypatch):
    monkeypatch.setenv("MINARI_DATASETS_PATH", str(tmp_path))


def test_a_recorded_dataset_is_read_by_minari_and_begins_where_the_task_does():
    task = wild_task("Pendulum-v1")
    name = record(task, 4, seed=0)
    read, data = minari.load_dataset(name), load_dataset(name)
    assert (name, read.total_episodes, read.total_steps) == ("Pendulum-v1/mix-v0", 4, 4 * task.limit)
    assert read.recover_environment().unwrapped.spec.id == "Pendulum-v1"
    again = task.run(task.behaviour("mix"), 4, task.limit, seed=0)
    first = np.arange(0, len(data), task.limit)
    np.testing.assert_array_equal(data.observations[first], again.observations[first])  # the same resets
    assert set(np.unique(data.truncated[first + task.limit - 1])) == {True}


def test_a_row_holds_the_simulated_value(tmp_path):
    found = row("CartPole-v1", 10, seed=0)
    stored = json.loads((POLICIES / "CartPole-v1" / "truth.json").read_text())
    assert found["truth"] == stored["policies"]["step-0012000"]["discounted"]["value"]
    assert found["interval"][0] <= found["auto"] <= found["interval"][1] <= 1
    (tmp_path / "minari.json").write_text(json.dumps({"CartPole-v1": found}))
    (line,) = tables.minari(tmp_path).splitlines()[2:-2]
    assert line.startswith(f"| `CartPole-v1/mix-v0` | {found['rows']} | {found['truth']:.4g}±")
