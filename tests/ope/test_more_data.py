"""More data of one kind never make a verdict worse, and the error falls."""

from dataclasses import replace

import numpy as np

import ope_vpm as ov
from ope_vpm.envs.linear_gaussian import BEHAVIOUR, TARGET, LinearGaussian
from ope_vpm.ope.inference.doubts import LEVELS

FARTHER = replace(TARGET, shift=0.8)
"""A target at 1.3 deviations of the behaviour's actions: what 20 features may miss of it does not vanish with n."""


def test_a_linear_task():
    """Logs of 20, 200 and 2000 episodes by five seeds; 200 and more were unreliable by a bias of 0.06 beside 0.01."""
    errors = np.empty((5, 3))
    for seed in range(5):
        logs = [LinearGaussian().dataset(episodes, 30, BEHAVIOUR, seed=seed) for episodes in (20, 200, 2000)]
        found = [ov.evaluate(log, FARTHER.policy(), "vpm", gamma=0.9, n_features=20) for log in logs]
        errors[seed] = [each.standard_error for each in found]
        levels = [LEVELS.index(each.verdict) for each in found]
        assert levels == sorted(levels, reverse=True)
        assert levels[-1] < LEVELS.index("unreliable")
    assert (np.diff(errors.mean(axis=0)) < 0).all()
