"""From which rate of ends on a target is said to reach some."""

import numpy as np
import pytest

import ope_vpm as ov
from ope_vpm.ope.inference.returns import ends_under, reaches_ends
from ope_vpm.ope.problem import Problem


def posed():
    """Ten episodes of ten steps, nine of which end."""
    last = np.arange(100) % 10 == 9
    ended = last & (np.arange(100) < 90)
    state = np.zeros(100, dtype=int)
    data = ov.LoggedDataset.from_arrays(
        state, state, np.arange(100.0), state, terminated=ended, truncated=last & ~ended
    )
    return Problem.pose(data, [[1.0]], ignore=("constant-columns", "one-row-off"))


@pytest.mark.parametrize(("rate", "reached"), [(0.1, True), (1e-10, True), (8e-11, False), (0.0, False), (-0.1, False)])
def test_a_rate_of_a_billionth_of_the_logs_is_what_rounding_leaves(rate, reached):
    """The log's own rate is 0.09."""
    assert reaches_ends(posed(), rate) is reached
    assert reaches_ends(posed(), np.nan) is False


def test_the_rate_of_ends_by_weights():
    """The last rows of nine episodes, at weight 3 where all others have 1: 27 of 100 + 18."""
    problem = posed()
    weights = np.where(problem.ending, 3.0, 1.0)
    assert ends_under(problem, weights) == pytest.approx(27 / 118)
    assert ends_under(problem, np.zeros(100)) == 0
