"""The wild tasks: policies that load, logs by seed, and truths that an independent simulation confirms."""

import json
from pathlib import Path

import numpy as np
import pytest

from benchmarks._measure import run
from ope_vpm.envs.wild import BEHAVIOURS, collect_log, wild_task, wild_tasks
from ope_vpm.envs.wild.networks import POLICIES, NetworkTask, UniformPolicy
from ope_vpm.envs.wild.recipes import RECIPES

TASKS = wild_tasks()
NETWORKS = {name: task for name, task in TASKS.items() if isinstance(task, NetworkTask)}
CHECKED = 60
"""Episodes of the independent simulation."""


def needs(name):
    if name.endswith("-v5"):
        pytest.importorskip("mujoco")
    if name.startswith("Sepsis/"):
        pytest.importorskip("icu_sepsis")


def test_two_halves_that_share_nothing():
    halves = [set(wild_tasks(half)) for half in ("tuning", "reporting")]
    assert halves[0].isdisjoint(halves[1])
    assert halves[0] | halves[1] == set(TASKS)
    assert set(RECIPES) >= set(NETWORKS)  # a recipe may come before its policies
    with pytest.raises(ValueError, match="did you mean 'Pendulum-v1'"):
        wild_task("Pendulum")
    with pytest.raises(ValueError, match="tuning and reporting"):
        wild_tasks("both")


@pytest.mark.parametrize("name", NETWORKS)
def test_checkpoints_load_and_fit_their_environment(name):
    needs(name)
    task = NETWORKS[name]
    names = task.checkpoints()
    assert 3 <= len(names) <= 6
    assert {task.target_name, task.older_name} <= set(names)
    data = collect_log(task, "target", 1, 0)
    for each in names:
        actions = task.policy(each).sample(data.observations, np.random.default_rng(0))
        assert actions.shape == data.actions.shape
        assert np.isfinite(actions).all()
        about = json.loads((task.folder / f"{each}.json").read_text())
        assert about["environment"] == name
        assert np.isfinite(about["return"]["mean"])


def test_policies_are_small():
    files = [file for name in NETWORKS for file in (POLICIES / name).iterdir()]
    assert sum(file.stat().st_size for file in files) < 5_000_000


@pytest.mark.parametrize("name", NETWORKS)
def test_stored_truths_are_those_of_the_target_and_of_enough_episodes(name):
    task = NETWORKS[name]
    stored = task.stored_truth()
    assert stored.episodes >= 4000
    assert set(stored.per_step) == set(stored.per_episode) == {task.limit, task.own_limit}
    for value in (stored.discounted, *stored.per_step.values(), *stored.per_episode.values()):
        assert value.standard_error == pytest.approx(value.deviation / np.sqrt(stored.episodes))
    assert task.floor(50, 0.99) == stored.discounted.deviation / np.sqrt(50)


def test_the_table_of_the_docs_has_every_task_with_its_stored_truths():
    lines = (Path(__file__).parents[2] / "docs" / "notes" / "008-wild-tasks.md").read_text().splitlines()
    cells = [[cell.strip() for cell in line.split("|")[1:-1]] for line in lines if line.startswith("| ")]
    rows = {row[0]: row for row in cells if len(row) == 8 and row[0] in TASKS}
    assert set(rows) == set(TASKS)
    for name, task in TASKS.items():
        assert rows[name][1:3] == [task.half, f"{task.limit}, {task.own_limit}"]
    for name, task in NETWORKS.items():
        stored = task.stored_truth()
        of_episodes = stored.per_episode
        truths = stored.discounted, stored.per_step[task.limit], of_episodes[task.limit], of_episodes[task.own_limit]
        written = [float(cell.partition("±")[0]) for cell in rows[name][4:]]
        assert written == pytest.approx([truth.value for truth in truths], rel=1e-3)


@pytest.mark.slow
@pytest.mark.parametrize("name", TASKS)
def test_on_policy_logs_have_the_stated_values(name):
    """Sixty episodes by the target, in logs as users collect them, within four standard errors of both truths."""
    needs(name)
    task = TASKS[name]
    data = collect_log(task, "target", CHECKED, 7)
    episode, step = task.truth(1, "episode"), task.truth(1)
    error = np.hypot(episode.standard_error, episode.deviation / np.sqrt(CHECKED))
    assert abs(data.returns.mean() - episode.value) <= 4 * error
    error = np.hypot(step.standard_error, step.deviation / np.sqrt(CHECKED))
    assert abs(data.returns.sum() / len(data) - step.value) <= 4 * error + 1e-12


@pytest.mark.slow
@pytest.mark.parametrize("name", ["Pendulum-v1", "CartPole-v1", "Reacher-v5", "FrozenLake8x8-v1"])
def test_discounted_truths_are_those_of_long_episodes(name):
    """Σ γ^t r over episodes of 600 steps without the environment's limit; what comes later weighs 0.2 %."""
    needs(name)
    task, truth = TASKS[name], TASKS[name].truth(0.99)
    if isinstance(task, NetworkTask):
        rewards = run(name, task.target, CHECKED, 600, seed=3).rewards
        sums = 0.01 * rewards @ 0.99 ** np.arange(600)
    else:
        data = task.run([task.target], CHECKED, 600, 3)
        sums = 0.01 * np.bincount(data.episode, 0.99**data.time * data.rewards)
    error = np.hypot(truth.standard_error, truth.deviation / np.sqrt(CHECKED))
    assert abs(sums.mean() - truth.value) < 4 * error + 0.99**600 * np.abs(data_scale(task))


def data_scale(task):
    return np.abs(collect_log(task, "target", 2, 0).rewards).max()


@pytest.mark.parametrize("name", ["Pendulum-v1", "CartPole-v1", "FrozenLake8x8-v1"])
@pytest.mark.parametrize("behaviour", BEHAVIOURS)
def test_logs_are_repeatable_by_seed(name, behaviour):
    task = TASKS[name]
    first, again, other = (collect_log(task, behaviour, 3, seed) for seed in (4, 4, 5))
    np.testing.assert_array_equal(first.observations, again.observations)
    np.testing.assert_array_equal(first.actions, again.actions)
    np.testing.assert_array_equal(first.behaviour_log_prob, again.behaviour_log_prob)
    assert not np.array_equal(first.actions[:20], other.actions[:20])
    more = collect_log(task, behaviour, 6, 4)
    np.testing.assert_array_equal(more.actions[: len(first)], first.actions)


def test_mix_is_near_and_older_in_turn():
    task = NETWORKS["CartPole-v1"]
    data = collect_log(task, "mix", 4, 0)
    for episode, policy in enumerate([task.near(), task.older()] * 2):
        mine = data.episode == episode
        expected = policy.log_prob(data.observations[mine], data.actions[mine])
        np.testing.assert_allclose(data.behaviour_log_prob[mine], expected)


def test_cut_logs_are_truncated_and_whole_ones_have_the_environments_limit():
    task = NETWORKS["Pendulum-v1"]
    cut, whole = (collect_log(task, "near", 2, 0, cut=each) for each in (True, False))
    assert cut.lengths.tolist() == [150, 150]
    assert whole.lengths.tolist() == [200, 200]
    for data in (cut, whole):
        assert data.truncated[data.ends].all()
        assert not data.terminated.any()
    np.testing.assert_array_equal(whole.observations[:150], cut.observations[:150])


def test_near_has_twice_the_variance_or_temperature():
    gaussian = NETWORKS["Pendulum-v1"]
    seen = collect_log(gaussian, "target", 1, 0).observations
    (mean, std), (near_mean, near_std) = gaussian.target.moments(seen), gaussian.near().moments(seen)
    np.testing.assert_array_equal(mean, near_mean)
    np.testing.assert_allclose(near_std**2, 2 * std**2)
    softmax = NETWORKS["CartPole-v1"]
    seen = collect_log(softmax, "target", 1, 0).observations
    odds, near_odds = (np.diff(np.log(policy.probabilities(seen))) for policy in (softmax.target, softmax.near()))
    np.testing.assert_allclose(near_odds, odds / 2, rtol=1e-9)


def test_poor_is_uniform():
    pole = NETWORKS["CartPole-v1"].poor()
    np.testing.assert_array_equal(pole.probabilities(np.zeros((3, 4))), np.full((3, 2), 0.5))
    box = UniformPolicy([-2.0, 0.0], [2.0, 1.0])
    drawn = box.sample(np.zeros((40_000, 1)), np.random.default_rng(0))
    np.testing.assert_allclose(drawn.mean(axis=0), [0, 0.5], atol=4 * 4 / np.sqrt(12 * 40_000))
    assert (drawn.min(axis=0) > [-2, 0]).all()
    assert (drawn.max(axis=0) < [2, 1]).all()
    np.testing.assert_allclose(box.log_prob(np.zeros((2, 1)), drawn[:2]), -np.log(4))


def test_what_has_no_truth_is_refused():
    for name in ("Pendulum-v1", "FrozenLake8x8-v1"):
        with pytest.raises(ValueError, match=r"gamma 1 and 0\.99"):
            TASKS[name].truth(0.9)
        with pytest.raises(ValueError, match="undiscounted"):
            TASKS[name].truth(0.99, "episode")
        with pytest.raises(ValueError, match="near, older, mix, poor"):
            collect_log(TASKS[name], "far", 2, 0)


def test_runs_end_with_the_task_or_the_horizon():
    """CartPole under uniform actions falls within 400 steps; every step before pays 1."""
    episodes = run("CartPole-v1", NETWORKS["CartPole-v1"].poor(), 150, 400, seed=1)
    assert episodes.ended.all()
    np.testing.assert_array_equal(episodes.rewards.sum(axis=1), episodes.lengths)
    again = run("CartPole-v1", NETWORKS["CartPole-v1"].poor(), 150, 400, seed=1)
    np.testing.assert_array_equal(episodes.lengths, again.lengths)
    short = run("Pendulum-v1", NETWORKS["Pendulum-v1"].target, 3, 250, seed=1)
    assert short.lengths.tolist() == [250] * 3  # beyond the environment's own 200
    assert not short.ended.any()
