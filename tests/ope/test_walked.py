"""The second opinion: what walks of the target in a model of the log pay."""

from types import SimpleNamespace

import numpy as np
import pytest

import ope_vpm as ov
from ope_vpm.envs.linear_gaussian import BEHAVIOUR, TARGET, LinearGaussian
from ope_vpm.ope.auto.estimator import PAYS, WALKED, _with_walk
from ope_vpm.ope.dynamics import walked as walking
from ope_vpm.ope.dynamics.state_shift import Paths, Walks
from ope_vpm.ope.dynamics.walked import Walked, missed_by_own, walked_value, weights_of
from ope_vpm.ope.inference.doubts import DISAGREEMENT
from ope_vpm.ope.inference.estimate import RawEstimate
from ope_vpm.ope.problem import Problem


def walks(alive, paid):
    """Two copies that do the same."""
    columns = (
        np.repeat(np.asarray(each, dtype=float)[:, None], 2, axis=1) for each in (0 * np.array(paid), alive, paid)
    )
    return Walks(*columns)


def test_the_weights_of_steps_by_hand():
    """What follows the last step at γ = ½ weighs as much as that step; what goes on for ever loses its first third."""
    three = walks([1, 0.5, 0.25], [0, 0, 0])
    assert weights_of(three, 0.5, ends=False)[:, 0].tolist() == [1, 0.5, 0.5]
    assert weights_of(three, 0.5, ends=True)[:, 0].tolist() == [1, 0.5, 0.25]
    assert weights_of(walks([1, 1, 1], [0, 0, 0]), 1.0, ends=False)[:, 0].tolist() == [0, 1, 1]
    assert weights_of(walks([1, 1, 1], [0, 0, 0]), 1.0, ends=True)[:, 0].tolist() == [1, 1, 1]
    assert weights_of(three, 1.0, ends=False)[:, 0].tolist() == [1, 0.5, 0.25]  # most have ended


@pytest.mark.parametrize(("gamma", "value"), [(0.5, 0.5 * (4 + 0.5 * 2 + 0.5 * 6)), (1.0, (4 + 1 + 1.5) / 1.75)])
def test_the_value_of_walks_by_hand(monkeypatch, gamma, value):
    """Walks that pay 4, 2 and 6; without a discount half of them end after each step."""
    paths = Paths(walks([1, 0.5, 0.25], [4, 2, 6]), walks([1, 1], [0, 0]), 1.0)
    monkeypatch.setattr(walking, "paths_of", lambda _: paths)
    monkeypatch.setattr(walking, "steps_of", lambda _: 3)
    monkeypatch.setattr(walking, "limit_of", lambda _: None)
    monkeypatch.setattr(walking, "missed_by_own", lambda *_: 0.6)
    asked = SimpleNamespace(gamma=gamma, on_end="restart" if gamma == 1 else "absorb", log=None)
    found = walked_value(asked)
    assert found.value == pytest.approx(value)
    assert found.error == pytest.approx(0.3)  # both copies are one, so that half of what is missed is all
    asked.on_end = "absorb" if gamma == 1 else "restart"
    assert walked_value(asked) is None


def test_what_walks_of_the_behaviour_miss_by_hand():
    """Logged 1, 2 and 3, walked 2 and 4: with γ = ½ the first two steps are 4/3 and 8/3."""
    data = ov.LoggedDataset.from_arrays(
        np.zeros((3, 1)), np.zeros((3, 1)), np.arange(1.0, 4.0), np.zeros((3, 1)), truncated=[0, 0, 1]
    )
    log = SimpleNamespace(data=data)
    assert missed_by_own(log, walks([1, 1], [2, 4]), 0.5) == pytest.approx(4 / 3)
    assert missed_by_own(log, walks([1, 1], [2, 4]), 1.0) == pytest.approx(1.5)


def test_distances_by_hand():
    """Up to two errors are none, and of more the error is taken off: 10² - 3² = 91."""
    found = Walked(value=2.0, error=3.0)
    assert found.distance(7.0) == 0
    assert found.distance(-8.0) == pytest.approx(91**0.5)


def test_a_walk_that_says_something_else_is_a_doubt():
    found = _with_walk(RawEstimate(value=7.0, per_episode=RawEstimate(value=21.0)), Walked(value=2.0, error=0.0))
    (doubt,), (of_return,) = found.doubts, found.per_episode.doubts
    assert (doubt.code, doubt.bias, doubt.sentence) == (DISAGREEMENT.code, pytest.approx(5 * WALKED), PAYS)
    assert of_return.bias == pytest.approx(15 * WALKED)
    assert _with_walk(found, None) is found


@pytest.mark.parametrize("gamma", [0.9, 1.0])
def test_walks_find_the_value_of_a_linear_system(gamma):
    """Within four standard errors of the closed form over ten logs."""
    env, target = LinearGaussian(), TARGET
    found = []
    for seed in range(10):
        problem = Problem.pose(env.dataset(20, 40, BEHAVIOUR, seed=seed), target.policy(), gamma=gamma)
        found.append(walked_value(problem.on_sample).value)
    truth = env.value(target, gamma)
    assert abs(np.mean(found) - truth) < 4 * np.std(found, ddof=1) / 10**0.5
