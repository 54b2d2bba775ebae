"""Targets whose actions nobody logged: without densities, on logs of controllers without noise, by strong ridges."""

import numpy as np
import pytest

import ope_vpm as ov
from ope_vpm.ope import Problem
from ope_vpm.ope.behaviour.action_ratio import known_overlap
from ope_vpm.ope.dynamics.departure import unfamiliar
from ope_vpm.ope.inference.verdict import Evidence, judge
from ope_vpm.ope.q.linear import find_lstd

QUIET = ("constant-columns", "one-row-off")


def controlled(gain, noise, episodes=30, steps=40, unit=1.0):
    """Logs of a = gain·s + noise in s' = 0.9 s + 0.2 a + w, which starts at standard normal states."""
    rng = np.random.default_rng(0)
    states, actions = np.zeros((episodes, steps + 1, 2)), np.zeros((episodes, steps, 2))
    states[:, 0] = rng.standard_normal((episodes, 2))
    for t in range(steps):
        actions[:, t] = gain * states[:, t] + noise * rng.standard_normal((episodes, 2))
        states[:, t + 1] = 0.9 * states[:, t] + 0.2 * actions[:, t] + 0.3 * rng.standard_normal((episodes, 2))
    here, there = (each.reshape(-1, 2) for each in (states[:, :-1], states[:, 1:]))
    last = np.arange(len(here)) % steps == steps - 1
    taken = unit * actions.reshape(-1, 2)
    return ov.LoggedDataset.from_arrays(here, taken, -np.square(here).sum(axis=1), there, truncated=last)


def pose(data, gain, shift=0.0, unit=1.0):
    """A target that does a = gain·s + shift, without a density."""
    return Problem.pose(data, lambda seen: unit * (gain * seen + shift), gamma=0.9, ignore=QUIET)


@pytest.mark.parametrize("unit", [1e-6, 1.0, 1e6])
@pytest.mark.parametrize(
    ("shift", "held"),
    [
        (0.0, 1.0),  # the mean of what was logged
        (0.3, 1.0),  # one deviation away in both coordinates: the square of the distance is 2
        (0.8, 0.0),  # 2.7 deviations: 14, where 99 % of the squares, of two degrees of freedom, are below 9.2
    ],
)
def test_actions_that_are_less_likely_than_nearly_all_logged_ones_are_not_held(shift, held, unit):
    data = controlled(-0.5, 0.3, unit=unit)
    assert known_overlap(pose(data, -0.5, shift, unit)) == pytest.approx(held, abs=0.02)


def test_a_controller_without_noise_holds_its_own_actions_and_no_others():
    data = controlled(-0.5, 0.0)
    assert known_overlap(pose(data, -0.5)) == 1
    assert known_overlap(pose(data, -0.4)) < 0.1
    found = ov.evaluate(data, lambda seen: -0.4 * seen, "auto", gamma=0.9, ignore=QUIET)
    assert found.verdict == "unreliable"
    assert ov.evaluate(data, lambda seen: -0.5 * seen, "auto", gamma=0.9, ignore=QUIET).verdict == "reliable"


def test_a_model_is_not_certain_about_actions_that_a_controller_never_took():
    """Its log explains every step as well by the states alone; with noise in the log the same target is no stranger."""
    assert unfamiliar(pose(controlled(-0.5, 0.0), -0.2)) > 0.3  # which is called unreliable
    assert unfamiliar(pose(controlled(-0.5, 0.0), -0.5)) == pytest.approx(0.01, abs=0.002)
    assert unfamiliar(pose(controlled(-0.5, 0.3), -0.2)) < 0.1


def test_a_strong_ridge_is_unreliable_unless_it_was_given():
    assert judge(Evidence(ridge=0.01), 20, ())[0] == "reliable"
    level, reasons = judge(Evidence(ridge=10**-1.5), 20, ())
    assert level == "unreliable"
    assert reasons[0].startswith("only a strong ridge (0.032 of")
    problem = pose(controlled(-0.5, 0.3), -0.5)
    chosen = find_lstd(problem, 20, None, 4)
    assert chosen.evidence.ridge == chosen.ridge
    assert find_lstd(problem, 20, 0.1, 4).evidence.ridge is None
