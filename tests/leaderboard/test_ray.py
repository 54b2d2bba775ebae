"""A real Ray cluster of two nodes, one of which dies in the middle: nothing is lost, the table is loky's."""

from __future__ import annotations

import pytest

from ope_vpm.leaderboard.backends import run
from ope_vpm.leaderboard.jobs import grouped, plan
from ope_vpm.leaderboard.metrics import lines
from ope_vpm.leaderboard.records import Board
from ope_vpm.leaderboard.suites import read_suite
from tests.leaderboard.conftest import computed

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
