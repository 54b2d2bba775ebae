"""A real Ray cluster: a node, a worker or the parent dies in the middle; nothing is lost and nothing is left behind."""

from __future__ import annotations

import os
import signal
from pathlib import Path

import pytest

from ope_vpm.leaderboard.backends import DIED, run
from ope_vpm.leaderboard.jobs import grouped, plan
from ope_vpm.leaderboard.metrics import lines
from ope_vpm.leaderboard.records import Board
from ope_vpm.leaderboard.suites import read_suite
from tests.leaderboard.conftest import computed
from tests.leaderboard.processes import descendants, end, kill, lives, start, until

SUITE = """
runs = 7
estimators = ["naive", "vpm", { name = "constant", settings = { seconds = 0.4 } }]
[[tasks]]
name = "mdp"
kind = "random_mdp"
policies = 2
trajectories = 5
length = 10
"""


@pytest.fixture
def cluster(trouble):
    """A head and a second node, each with one core."""
    pytest.importorskip("ray")
    from ray.cluster_utils import Cluster

    made = Cluster(initialize_head=True, head_node_args={"num_cpus": 1, "include_dashboard": False})
    yield made
    made.shutdown()


def table(suite, jobs, results):
    """Every number of the table but the seconds."""
    found = lines(Board(suite, jobs, results))
    return [(line.estimator, line.p_value, line.numbers | {"seconds": None, "width": None}) for line in found]


def ran_under(folder):
    """The parents of the processes that ran the made-up estimator: on Ray, each node's own."""
    return {parent for parent, *_ in computed(folder)}


@pytest.mark.slow
@pytest.mark.filterwarnings("ignore")
def test_a_node_that_dies_loses_nothing(cluster, trouble, tmp_path):
    (tmp_path / "own.toml").write_text(SUITE)
    suite = read_suite(str(tmp_path / "own.toml"))
    jobs = plan(suite)
    second = cluster.add_node(num_cpus=1)
    (raylet,) = second.all_processes["raylet"]
    on_ray, finished_before = {}, None
    for job, result in run(grouped(jobs, 3), backend="ray", address=cluster.address):
        on_ray[job.key] = result
        if finished_before is None and raylet.process.pid in ran_under(trouble):
            cluster.remove_node(second, allow_graceful=False)
            finished_before = len(on_ray)
    assert finished_before is not None, "the second node did nothing"
    assert finished_before < len(jobs) - 4
    assert raylet.process.poll() is not None
    assert set(on_ray) == {job.key for job in jobs}
    assert not any(result.error for result in on_ray.values())
    on_loky = {job.key: result for job, result in run(grouped(jobs, 3), backend="loky", workers=2)}
    assert {key: result.outcome for key, result in on_ray.items()} == {
        key: result.outcome for key, result in on_loky.items()
    }
    assert table(suite, jobs, on_ray) == table(suite, jobs, on_loky)


@pytest.mark.slow
@pytest.mark.filterwarnings("ignore")
def test_a_worker_that_dies_loses_nothing(trouble, tmp_path):
    """One is killed from outside, once; an estimator kills its own at every try and is found out alone."""
    pytest.importorskip("ray")
    estimators = 'estimators = ["naive", "kills", { name = "constant", settings = { seconds = 0.5 } }]'
    few = SUITE.replace("runs = 7", "runs = 3").replace("policies = 2", "policies = 1")
    (tmp_path / "own.toml").write_text(few.replace(SUITE.splitlines()[2], estimators))
    jobs = plan(read_suite(str(tmp_path / "own.toml")))
    found, killed = {}, None
    for job, result in run(grouped(jobs, 100), backend="ray", workers=2):
        found[job.key] = result
        running = [worker for _, worker, name, _ in computed(trouble) if name == "constant" and lives(worker)]
        if killed is None and running:
            killed = running[-1]
            os.kill(killed, signal.SIGKILL)
    assert killed is not None
    failed = [(job.entry.name, job.seed) for job in jobs if found[job.key].error]
    assert failed == [("kills", 1)]
    assert {result.error for result in found.values()} == {None, DIED}


@pytest.mark.slow
def test_a_killed_run_leaves_no_worker_on_ray(trouble, tmp_path):
    """Two agents of Ray's own, which compute nothing, outlive their node for a while; everything else is gone."""
    pytest.importorskip("ray")
    (tmp_path / "own.toml").write_text(SUITE.replace("0.4", "1000"))
    process = start(tmp_path / "own.toml", tmp_path / "out", "--backend", "ray", jobs=2)
    until(lambda: len({worker for _, worker, *_ in computed(trouble)}) == 2, seconds=120)
    started = descendants(process.pid)
    working = {pid for pid in started if b"Agent" not in Path(f"/proc/{pid}/cmdline").read_bytes()}
    assert working >= {worker for _, worker, *_ in computed(trouble)}
    kill(process)
    try:
        until(lambda: not any(map(lives, working)), seconds=10)
    finally:
        end(started)
