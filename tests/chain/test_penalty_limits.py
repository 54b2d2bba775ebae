"""The exact minimiser of the regularised objective without a penalty, and with one that allows nothing else."""

import numpy as np
import pytest

from ope_vpm.chain.divergence import DIVERGENCES
from ope_vpm.chain.objective import regularized_minimiser

P = np.array([0.25, 0.75])
TARGET = np.array([2.0, 1.0])  # of mean 5/4


@pytest.mark.parametrize("name", DIVERGENCES)
def test_without_a_penalty_the_power_step_is_the_minimiser(name):
    np.testing.assert_array_equal(regularized_minimiser(TARGET, P, 0.0, DIVERGENCES[name]), TARGET)


@pytest.mark.parametrize("name", DIVERGENCES)
def test_a_ratio_of_mean_one_is_left_as_it_is(name):
    np.testing.assert_array_equal(
        regularized_minimiser(np.array([1.75, 0.75]), P, 3.0, DIVERGENCES[name]), [1.75, 0.75]
    )


def test_a_quadratic_penalty_by_hand():
    """Every state loses (1/4)/(1 + 1/(2λ)): 1/8 for λ = ½, and the whole gap for λ = ∞."""
    np.testing.assert_allclose(regularized_minimiser(TARGET, P, 0.5), TARGET - 1 / 8)
    np.testing.assert_allclose(regularized_minimiser(TARGET, P, np.inf), TARGET - 1 / 4)
