"""Small functions of arrays, against numbers worked out by hand."""

from __future__ import annotations

import numpy as np
import pytest

from ope_vpm.arrays import effective_sample_size


@pytest.mark.parametrize("scale", [1.0, 1e-200, 1e200])
def test_kish_effective_size_does_not_depend_on_the_scale_of_the_weights(scale):
    """(1 + 2 + 3)²/(1 + 4 + 9) = 36/14, also where the squares are not numbers."""
    assert effective_sample_size(scale * np.array([1.0, 2.0, 3.0])) == pytest.approx(36 / 14)


def test_weights_that_say_nothing_are_worth_no_row():
    assert effective_sample_size(np.zeros(3)) == 0
    assert effective_sample_size(np.array([1.0, np.inf])) == 0
    assert effective_sample_size(np.array([])) == 0
