"""Tasks drawn by seed: the same again, of every kind, and truths that logs of the target itself confirm."""

from dataclasses import replace

import numpy as np

from benchmarks._generated import KINDS, Motion, generated


def test_a_seed_is_a_task():
    one, same = generated(3).log(), generated(3).log()
    np.testing.assert_array_equal(one.observations, same.observations)
    np.testing.assert_array_equal(one.rewards, same.rewards)


def test_tasks_are_of_every_kind():
    tasks = [generated(seed, most_rows=400) for seed in range(60)]
    assert {task.kind for task in tasks} == set(KINDS)
    assert {task.time_limit for task in tasks} == {"continue", "restart"}
    assert 0.5 < np.mean([isinstance(task.system, Motion) for task in tasks]) < 0.9
    assert all(len(task.log()) <= 4000 for task in tasks[:20])


def test_the_target_s_own_episodes_are_worth_the_truth():
    """Mean rewards of episodes up to a time limit, ten tasks: within four standard errors of log and simulation."""
    for seed in range(10):
        task = generated(seed, most_rows=400)
        task = replace(task, behaviours=(task.target,), gamma=1.0, time_limit="restart", length=10, episodes=200)
        truth = task.truth()
        error = np.hypot(truth.error, truth.floor)
        assert abs(task.log().rewards.mean() - truth.value) <= 4 * error + 1e-9 * abs(truth.value)
