"""More data of one kind never make a verdict worse, and the error falls."""

from dataclasses import replace

import numpy as np
import pytest

import ope_vpm as ov
from ope_vpm.envs.linear_gaussian import BEHAVIOUR, TARGET, LinearGaussian
from ope_vpm.ope.inference.doubts import LEVELS
from ope_vpm.ope.inference.estimate import RawEstimate, disagreement
from ope_vpm.ope.inference.logged_mean import relative_error
from ope_vpm.ope.inference.uncertainty import Bootstrap, EpisodeSums

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


@pytest.mark.parametrize("episodes", [50, 200, 20_000])
def test_the_unit_of_errors_does_not_vanish(episodes):
    """Of n episodes that pay -1 and 1 the mean has the error 1/√n; a bias of 0.4 is 0.4·√50 of that in 50 of them."""
    pays = np.resize([1.0, -1.0], episodes)
    logged = RawEstimate(value=0.0, uncertainty=Bootstrap(episodes=EpisodeSums.of_influence(0.0, pays / episodes)))
    assert relative_error(logged, 0.0, 0.4) == pytest.approx(0.4 * np.sqrt(50))
    data = ov.LoggedDataset.from_arrays(np.zeros(episodes, int), np.zeros(episodes, int), pays, terminated=pays < 2)
    apart = disagreement(data, 0.4, 1 / np.sqrt(episodes))
    assert apart == pytest.approx(0.4 / np.hypot(1 / np.sqrt(50), 0.001))
