"""Passes over a log in parts on a real Ray cluster, one of whose two nodes dies in the middle."""

from __future__ import annotations

import os
import threading
import time

import numpy as np
import pytest

import ope_vpm as ov
from ope_vpm.logged import streamed
from ope_vpm.logged.scan import TASKS_PER_CORE
from ope_vpm.ope import log as logs
from ope_vpm.policy import GaussianPolicy
from tests.ope.finite import test_streamed_counts as finite
from tests.ope.test_streams import IGNORED, agree, logged, write

pytestmark = [pytest.mark.slow, pytest.mark.filterwarnings("ignore")]


@pytest.fixture(autouse=True)
def short_parts(monkeypatch):
    monkeypatch.setattr(streamed, "PART_ROWS", 4096)
    monkeypatch.setattr(logs, "SAMPLE_ROWS", 2500)


@pytest.fixture
def cluster():
    """A head and a second node, each with one core."""
    ray = pytest.importorskip("ray")
    from ray.cluster_utils import Cluster

    made = Cluster(initialize_head=True, head_node_args={"num_cpus": 1, "include_dashboard": False})
    threads = dict.fromkeys(("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS"), "1")
    runtime = {"env_vars": {**threads, "PYTHONPATH": os.pathsep.join([os.getcwd(), os.environ.get("PYTHONPATH", "")])}}
    ray.init(address=made.address, runtime_env=runtime, log_to_driver=False)
    yield made
    ray.shutdown()
    made.shutdown()


TOGETHER = 60
"""Seconds that a worker waits for one of the other node: starting the first process of a node takes up to ten."""


def waiting_target(note, doomed):
    """A policy that never answers on the doomed node, and elsewhere not before that node has asked.

    Args:
        note: a file that is made when the doomed node asks.
        doomed: the process number of its raylet, the parent of its workers.
    """
    home = os.getpid()

    def mean(states):
        if os.getppid() == doomed:
            note.touch()
            time.sleep(TOGETHER)
        elif os.getpid() != home:
            latest = time.monotonic() + TOGETHER
            while not note.exists() and time.monotonic() < latest:
                time.sleep(0.02)
        return 0.2 * states[:, :2] + 0.1, 0.5

    return GaussianPolicy(mean, action_dimension=2)


def test_a_node_that_dies_changes_nothing(cluster, tmp_path):
    data = logged()
    folder, note = write(data, tmp_path / "logs", [1, 3999, 4000, 4100, 9000]), tmp_path / "asked"
    second = cluster.add_node(num_cpus=1)
    (raylet,) = second.all_processes["raylet"]

    def kill():
        while not note.exists():
            time.sleep(0.02)
        cluster.remove_node(second, allow_graceful=False)

    killer = threading.Thread(target=kill, daemon=True)
    killer.start()
    policy = waiting_target(note, raylet.process.pid)
    found = ov.evaluate(ov.scan_dataset(folder, backend="ray"), policy, "vpm", gamma=0.97, ignore=IGNORED)
    assert note.exists(), "the second node did nothing"
    killer.join(timeout=TOGETHER)
    assert raylet.process.poll() is not None
    agree(found, ov.evaluate(data, policy, "vpm", gamma=0.97, ignore=IGNORED))


def test_a_dataset_of_ray(cluster, tmp_path):
    import ray

    data = logged()
    folder = write(data, tmp_path / "logs", [4000, 9000])
    files = [str(folder / f"part-{number}.parquet") for number in range(3)]
    policy = GaussianPolicy(lambda s: (0.2 * s[:, :2] + 0.1, 0.5), action_dimension=2)
    for name in ("naive", "onestep"):
        found = ov.evaluate(ray.data.read_parquet(files), policy, name, gamma=0.9, ignore=IGNORED)
        agree(found, ov.evaluate(data, policy, name, gamma=0.9, ignore=IGNORED))
    scaled = ray.data.read_parquet(files).map_batches(lambda rows: rows | {"reward": 2 * rows["reward"]})
    twice = ov.evaluate(scaled, policy, "naive", gamma=0.9, ignore=IGNORED)
    assert twice.value == pytest.approx(2 * ov.evaluate(data, policy, "naive", gamma=0.9, ignore=IGNORED).value)
    assert np.isfinite(twice.value)


def test_counts_of_finite_states_are_merged_in_a_tree(cluster, tmp_path, monkeypatch):
    """More parts than the tasks of a core: neighbours are merged, then what these gave."""
    monkeypatch.setattr(streamed, "PART_ROWS", 256)
    monkeypatch.setattr(logs, "SAMPLE_ROWS", 400)
    data = finite.logged()
    folder, policy = write(data, tmp_path / "logs", [1, 700]), finite.target(data)
    scanned = ov.scan_dataset(folder, backend="ray")
    assert scanned.count > TASKS_PER_CORE
    np.testing.assert_array_equal(scanned.table.lengths, data.lengths)
    np.testing.assert_array_equal(scanned.table.terminated, data.table.terminated)
    for gamma in (1.0, 0.9):
        found = ov.evaluate(scanned, policy, "vpm", gamma=gamma, ignore=finite.ALL)
        agree(found, ov.evaluate(data, policy, "vpm", gamma=gamma, ignore=finite.ALL))
