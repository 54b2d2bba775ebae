"""The ratio by networks against the exact one of two states."""

import numpy as np
import pytest

import ope_vpm as ov
from ope_vpm.policy import GaussianPolicy


@pytest.mark.parametrize(("name", "gamma", "first"), [("dualdice", 0.5, 4 / 3), ("gendice", 0.2, 5 / 3)])
def test_the_ratio_by_networks_is_discounted(name, gamma, first):
    """From -1 to 1 and back, beginning in -1: d(-1) = 1 - γ + γ·d(1), so 2/(1 + γ) and 2γ/(1 + γ) times as often."""
    episodes, length = 20, 4
    states = np.tile([[-1.0], [1.0]], (episodes * length // 2, 1))
    actions = np.random.default_rng(0).standard_normal((len(states), 1))
    last = np.arange(len(states)) % length == length - 1
    data = ov.LoggedDataset.from_arrays(states, actions, states[:, 0], -states, truncated=last)
    policy = GaussianPolicy(lambda s: (0 * s, 1.0))
    options = {"solver": "neural", "training_steps": 150, "n_features": 10}
    found = ov.evaluate(data, policy, name, gamma=gamma, ignore=("one-row-off", "duplicated-episodes"), **options)
    assert found.weights[::2].mean() == pytest.approx(first, abs=0.08)
    assert found.weights[1::2].mean() == pytest.approx(2 - first, abs=0.08)
    assert found.value == pytest.approx(1 - first, abs=0.08)
