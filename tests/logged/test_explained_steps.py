"""How much of a step the actions explain, where the answer is known."""

import numpy as np
import pytest

from ope_vpm.logged.order import _explained


def test_steps_far_from_zero_are_explained_as_well():
    """A step of a million and the action: the state explains nothing of it, the action all, less 2 columns in 200."""
    rng = np.random.default_rng(0)
    states, actions = rng.standard_normal((2, 200, 1))
    assert _explained(states, actions, 1e6 + actions) == pytest.approx(1 - 2 / 200, abs=1e-6)
    assert _explained(states, actions, 1e6 + states) == pytest.approx(-2 / 200, abs=1e-6)
