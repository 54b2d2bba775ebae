"""How many columns features of pairs have, and from which rows a model is checked."""

import numpy as np
import pytest

import ope_vpm as ov
from ope_vpm.ope import Problem
from ope_vpm.ope.adapter.pair_features import pair_features
from ope_vpm.ope.dynamics.estimate import _checked_rows, _Equations
from ope_vpm.policy import CategoricalPolicy, DeterministicPolicy

QUIET = ("flags-confused", "one-row-off", "constant-columns", "duplicated-episodes")


def pose(rows, actions, n_actions=None, length=10, gamma=0.9, known=True, ended=()):
    """Episodes of one length of two coordinates; those in `ended` end, the others are cut."""
    states = np.random.default_rng(0).standard_normal((rows + 1, 2))
    last = np.arange(rows) % length == length - 1
    terminated = last & np.isin(np.arange(rows) // length, ended)
    data = ov.LoggedDataset.from_arrays(
        states[:-1], actions, states[:-1, 0], states[1:] if known else None, terminated, last & ~terminated
    )
    if n_actions is None:
        policy = DeterministicPolicy(lambda s: 0 * s[:, :1])
    else:
        policy = CategoricalPolicy(lambda s: np.full((len(s), n_actions), 1 / n_actions), n_actions)
    return Problem.pose(data, policy, gamma=gamma, ignore=QUIET)


@pytest.mark.parametrize(
    ("rows", "fourier", "expected"),
    [
        (300, 40, 10),  # 300 rows for 30 columns: 10 for each of 3 actions
        (300, 5, 3 + 5),  # 1, two coordinates, and no more Fourier features than asked for
        (90, 40, 3),  # 9 columns: none is left for Fourier features
        (60, 40, 3),  # what is linear is there in any case
        (6000, 200, 21),  # the state itself has no more
        (6000, 40, 21),
    ],
)
def test_as_many_waves_as_the_rows_allow(rows, fourier, expected):
    problem = pose(rows, np.arange(rows) % 3, 3)
    pairs = pair_features(problem, 18, draws=1, fourier=fourier)
    assert pairs.next_size == 1 + 2 + 18
    assert pairs.recipe.action_base == expected
    assert pairs.size == 21 + 3 * expected


def test_there_are_at_most_400_columns():
    """10,000 rows would allow 1000; three actions have 133 columns each."""
    pairs = pair_features(pose(10_000, np.arange(10_000) % 3, 3), 300, draws=1, fourier=300)
    assert pairs.recipe.action_base == 133


def test_rows_with_enough_steps_after_them():
    """Episodes of 10 steps: those that end are followed to their end, from the others 3 steps must be known.

    Nothing is known after the last row of any: where it is a cut, the row 6 leads to row 9 by three steps, and row 7
    to nowhere.
    """
    problem = pose(200, np.zeros((200, 1)), known=False, ended=range(0, 20, 2))
    log = problem.log
    held = np.unique(problem.data.episode[log.held_out])
    found = _checked_rows(log, 3)
    for episode in held:
        within = found[problem.data.episode[found] == episode] - 10 * episode
        assert within.tolist() == list(range(9 if episode % 2 == 0 else 7))
    assert set(problem.data.episode[found]) == set(held)
    assert {0, 1} == {int(episode % 2) for episode in held}


def test_initial_states_count_by_the_rate_of_restarts():
    """τ = 2 and an end in half of the rows: at γ = 1 episodes begin at the rate E[τ·ended] = 1; below it at 1 - γ.

    Initial states of 5 and 7 lie 1 from their mean; they come in the order of the log's initial episodes.
    """
    for gamma, rate in ((1.0, 1.0), (0.75, 0.25)):
        problem = pose(20, np.zeros((20, 1)), gamma=gamma, ended=(0, 1))
        order = problem.log.initial_episodes
        assert sorted(order) == [0, 1]
        ones, half = np.ones((20, 1)), np.arange(20) % 2
        equations = _Equations(
            1, problem.data.episode, ones, ones, np.full(20, 3.0), half.astype(float), 0 * half, np.ones(1)
        )
        sums = equations.influence(problem, np.array([1.0]), np.array([2.0]), np.array([[5.0], [7.0]])[order])
        np.testing.assert_allclose(sums.numerator[:, 0] / sums.denominator[:, 0], 2 * (3 - 1))
        np.testing.assert_allclose(sums.numerator[:, 1] / sums.denominator[:, 1], [-rate, rate])
