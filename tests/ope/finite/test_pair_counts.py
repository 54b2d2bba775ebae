"""Counted logs against counts made by hand."""

import numpy as np
import pytest

import ope_vpm as ov
from ope_vpm.arrays import number_codes
from ope_vpm.envs.random_mdp import RandomMDP
from ope_vpm.ope import Problem
from ope_vpm.ope.finite.counts import count_pairs, number_states
from ope_vpm.ope.finite.problem import finite_problem

QUIET = ("constant-columns", "flags-confused", "duplicated-episodes")
# 5 -0-> 7 -1-> 5 (cut), then 5 -0-> 9 -0-> end; rewards 1 to 4
DATA = ov.LoggedDataset.from_arrays(
    [5, 7, 5, 9],
    [0, 1, 0, 0],
    [1.0, 2.0, 3.0, 4.0],
    [7, 5, 9, 0],
    terminated=[False, False, False, True],
    truncated=[False, True, False, False],
)
TARGET = np.full((10, 3), 1 / 3)


def pose(gamma=0.5, **choices):
    return Problem.pose(DATA, TARGET, gamma=gamma, ignore=QUIET, **choices)


def test_states_are_numbered_by_their_labels():
    problem = pose()
    numbered = number_states(problem.log, problem.steps)
    assert numbered.labels.tolist() == [5, 7, 9]  # what follows the end is no state
    assert numbered.observations.tolist() == [5, 7, 9]
    order = np.argsort(problem.steps.rows)
    assert numbered.state[order].tolist() == [0, 1, 0, 2]
    assert numbered.next_state[order].tolist() == [1, 0, 2, -1]
    assert numbered.initial_states.tolist() == [0, 0]


def test_pairs_by_hand():
    """Seen are (5, 0) twice, with rewards 1 and 3 and next states 7 and 9, (7, 1) and (9, 0) once."""
    problem = pose()
    counts = count_pairs(problem.log, problem.steps)
    assert list(zip(counts.state_of_pair, counts.action_of_pair, strict=True)) == [(0, 0), (1, 1), (2, 0)]
    assert counts.times.tolist() == [2, 1, 1]
    assert counts.visits.tolist() == [2, 1, 1]
    assert counts.actions_seen.tolist() == [1, 1, 1]
    assert counts.reward.tolist() == [2, 2, 4]
    np.testing.assert_array_equal(counts.transitions.toarray(), [[0, 0.5, 0.5], [1, 0, 0], [0, 0, 0]])
    assert counts.initial.tolist() == [1, 0, 0]
    values = np.array([10.0, 20.0, 30.0])
    assert counts.value_after(values)[np.argsort(problem.steps.rows)].tolist() == [20, 10, 30, 0]


def test_the_target_on_the_counts():
    """A third of the target's actions was seen in each state; the first end comes after 2 of discounted time 2.

    Absorbed is γ^(t+1) at the end's t = 1, over two episodes: ¼/2.
    """
    finite = finite_problem(pose())
    np.testing.assert_allclose(finite.seen, 1 / 3)
    np.testing.assert_allclose(finite.unseen, 2 / 3)
    np.testing.assert_allclose(finite.missing[0], [0, 1 / 3, 1 / 3])
    assert not finite.all_seen
    assert finite.absorbed == pytest.approx(1 / 8)
    assert finite_problem(pose(gamma=1.0)).absorbed == 0


def test_a_restart_spreads_the_end_over_the_initial_states():
    counts = finite_problem(pose(gamma=1.0)).counts
    np.testing.assert_allclose(counts.transitions.toarray()[2], [1, 0, 0])
    np.testing.assert_allclose(counts.times, [2, 1, 1])


def test_a_part_of_the_steps():
    problem = pose()
    counts = count_pairs(problem.log, problem.steps)
    part, kept = counts.part(np.isin(problem.steps.rows, [1, 2]))
    assert kept.tolist() == [0, 1]
    assert part.reward.tolist() == [3, 2]
    np.testing.assert_array_equal(part.transitions.toarray(), [[0, 0, 1], [1, 0, 0]])
    assert part.states == 3


def test_weights_of_steps_and_initial_states():
    problem = pose()
    counts = count_pairs(problem.log, problem.steps)
    triple = np.where(problem.steps.rows == 2, 3.0, 1.0)
    weighted = counts.reweighted(triple, np.array([1.0, 3.0]))
    assert weighted.reward.tolist() == [2.5, 2, 4]
    np.testing.assert_array_equal(weighted.transitions.toarray()[0], [0, 0.25, 0.75])
    assert weighted.initial.tolist() == [1, 0, 0]


def test_the_log_is_counted_once_for_all_policies_and_estimators():
    mdp = RandomMDP.draw(6, 2, seed=0)
    problem = Problem.pose(mdp.dataset(10, 20, mdp.policy(1), seed=2), mdp.policy(3))
    other = problem.with_policy(mdp.policy(4))
    assert finite_problem(problem).counts is finite_problem(other).counts
    assert finite_problem(problem) is finite_problem(problem)


@pytest.mark.parametrize("largest", [9, 10**12])
def test_codes_are_numbered_as_numpy_does_it(largest):
    """By marks where the codes are small, by sorting where they are not."""
    codes = np.random.default_rng(0).integers(largest, size=200)
    labels, number = number_codes(codes)
    expected = np.unique(codes, return_inverse=True)
    assert labels.tolist() == expected[0].tolist()
    assert number.tolist() == expected[1].tolist()
