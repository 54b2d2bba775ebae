"""Every kind of task: repeatable logs, policies that fit them, and truths that running the policies confirms."""

from __future__ import annotations

import numpy as np
import pytest

from ope_vpm.envs.wild import wild_task
from ope_vpm.leaderboard.compute import compute
from ope_vpm.leaderboard.jobs import plan
from ope_vpm.leaderboard.suites import Entry, Setting, Suite
from ope_vpm.leaderboard.tasks import KINDS, Simulated, on_policy_mean, task_class
from ope_vpm.leaderboard.tasks.exact import LinearGaussianTask, RandomMDPTask, TaxiTask
from ope_vpm.leaderboard.tasks.files import FilesTask
from ope_vpm.leaderboard.tasks.stored import BulletTask, WildLeaderboardTask
from ope_vpm.logged import LoggedDataset
from ope_vpm.ope import Problem

TASKS = {
    "random_mdp": RandomMDPTask(trajectories=20, length=200, policies=3),
    "linear_gaussian": LinearGaussianTask(trajectories=20, length=200),
    "taxi": TaxiTask(trajectories=20, length=800),
    "bullet": BulletTask(robot="reacher", trajectories=2, length=5),
    "wild": WildLeaderboardTask(environment="CartPole-v1", behaviour="mix"),
}


def test_every_kind_is_tried_here_or_has_files():
    assert set(TASKS) | {"files"} == set(KINDS)
    for kind, task in TASKS.items():
        assert task_class(kind) is type(task)
        assert task.kind == kind


@pytest.mark.parametrize("kind", TASKS)
def test_logs_are_repeatable_and_the_policies_fit(kind):
    task = TASKS[kind].small()
    first, again, other = task.dataset(3), task.dataset(3), task.dataset(4)
    np.testing.assert_array_equal(first.rewards, again.rewards)
    np.testing.assert_array_equal(first.observations, again.observations)
    assert not np.array_equal(first.observations, other.observations)
    assert list(task.targets()) == task.names()
    for gamma in (1.0, 0.99):
        for target in task.targets().values():
            Problem.pose(first, target, gamma=gamma, **task.choices(gamma))


@pytest.mark.parametrize("kind", [kind for kind, task in TASKS.items() if isinstance(task, Simulated)])
def test_truths_are_what_running_the_target_gives(kind):
    """Long episodes by the target itself: their mean reward, within four standard errors and what the start adds."""
    task = TASKS[kind]
    for policy in task.names():
        truth = task.truth(policy, 1.0)
        means = [on_policy_mean(task.on_policy(policy, seed), 1.0) for seed in range(30)]
        error = np.std(means, ddof=1) / np.sqrt(30)
        assert abs(np.mean(means) - truth) < 4 * error + 5 / task.length * np.std(task.on_policy(policy, 0).rewards)


def test_alpha_moves_the_behaviour_towards_the_target():
    """At α = 1 the logged mean is the target's value; for several targets it is that of their mean."""
    own, near = (TaxiTask(trajectories=100, length=400, alpha=alpha).dataset(0).rewards.mean() for alpha in (0, 1))
    truth = TaxiTask().truth("iteration-1000", 1.0)
    assert abs(near - truth) < abs(own - truth) / 3
    wide, narrow = (LinearGaussianTask(trajectories=200, alpha=alpha).dataset(0).actions for alpha in (3, 0))
    assert wide.std() / narrow.std() == pytest.approx(2, rel=0.1)


def test_what_is_wrong_is_said():
    assert "no policy of iteration 975 is shipped" in TaxiTask(policies=(975,)).problems()[0]
    assert BulletTask(robot="reecher").problems() == ["there is no robot 'reecher': did you mean 'reacher'?"]
    assert "length must be one of 25, 50, 100, 150: got 30" in BulletTask(robot="reacher", length=30).problems()
    assert "has no policy 'step-1'" in " ".join(BulletTask(robot="reacher", policies=("step-1",)).problems())
    assert BulletTask(robot="reacher").refusals(0.9) == ["the truth is stored for gamma 1 and 0.99: got 0.9"]
    assert "did you mean 'CartPole-v1'" in WildLeaderboardTask(environment="Cartpole-v1").problems()[0]
    assert "no behaviour 'nearer'" in WildLeaderboardTask(environment="CartPole-v1", behaviour="nearer").problems()[0]
    assert RandomMDPTask(states=1).problems() == ["states must be at least 2: got 1"]


def test_references_of_wild_tasks():
    """FrozenLake per step: a floor that falls by √4 with four times the episodes; CartPole pays the same each step."""
    few, many = (
        WildLeaderboardTask(environment="FrozenLake8x8-v1", trajectories=size).reference("target", 1.0)
        for size in (50, 200)
    )
    assert few.truth == many.truth
    assert few.floor == pytest.approx(2 * many.floor)
    assert WildLeaderboardTask(environment="CartPole-v1").reference("target", 1.0).floor is None
    whole = WildLeaderboardTask(environment="FrozenLake8x8-v1", whole=True)
    assert whole.reference("target", 1.0).truth != few.truth
    assert whole.axes()["length"] == 200
    assert whole.identity(None) != WildLeaderboardTask(environment="FrozenLake8x8-v1").identity(None)


def test_returns_of_episodes_have_their_own_truth():
    """CartPole's steps all pay 1: only the return has a floor, and it is that of the stored truth."""
    task = WildLeaderboardTask(environment="CartPole-v1", per="episode")
    known, stored = task.reference("target", 1.0), wild_task("CartPole-v1").truth(1, "episode")
    assert known.truth == stored.value > 1
    assert known.floor == pytest.approx(stored.deviation / np.sqrt(50))
    assert task.identity(None) != WildLeaderboardTask(environment="CartPole-v1").identity(None)


def test_cells_per_episode_hold_the_return(tmp_path):
    """Action 0 pays 1 and ends, action 1 pays 2: a target that stops with probability ¼ gets 7 in 4 steps."""
    actions = np.array([0, 1, 0, 1, 1, 0] * 40)  # fewer would be unreliable, and the interval without an end
    zeros, ends = np.zeros(len(actions), dtype=int), actions == 0
    LoggedDataset.from_arrays(zeros, actions, np.where(ends, 1.0, 2.0), zeros, terminated=ends).save(
        tmp_path / "log.npz"
    )
    np.save(tmp_path / "stop.npy", [[0.25, 0.75]])
    found = {}
    for per in ("step", "episode"):
        task = FilesTask(
            dataset_file=str(tmp_path / "log.npz"),
            policies={"stop": str(tmp_path / "stop.npy")},
            truth={"stop": 7.0},
            ignore=("constant-columns", "duplicated-episodes"),
            per=per,
        )
        suite = Suite("own", "", "", 1, 0, (Setting("gamble", task, 1.0),), (Entry(name="vpm", label="vpm"),))
        reference, job = plan(suite)
        found[per] = compute(job).outcome
        assert compute(reference).outcome["truth"] == 7
    assert found["step"]["value"] == pytest.approx(7 / 4)
    assert (found["step"]["per"], found["episode"]["per"]) == ("step", "episode")
    assert found["episode"]["value"] == pytest.approx(7)
    assert found["episode"]["interval"] == pytest.approx(found["step"]["return_interval"])
