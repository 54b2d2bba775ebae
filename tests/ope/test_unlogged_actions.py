"""Targets whose actions nobody logged: without densities, on logs of controllers without noise, by strong ridges."""

import numpy as np
import pytest
from scipy import stats

import ope_vpm as ov
from ope_vpm.ope import Problem
from ope_vpm.ope.behaviour.action_ratio import held_actions, known_overlap
from ope_vpm.ope.dynamics.state_shift import unfamiliar
from ope_vpm.ope.inference.estimate import unsupported
from ope_vpm.policy import GaussianPolicy

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


def noisy(data, variance):
    """The logged controller with a density, and so many times its variance."""
    policy = GaussianPolicy(lambda seen: (-0.5 * seen, np.full(2, 0.3 * np.sqrt(variance))), action_dimension=2)
    return Problem.pose(data, policy, gamma=0.9, ignore=QUIET)


@pytest.mark.parametrize("variance", [0.5, 1.0, 2.0, 4.0])
def test_a_target_with_more_noise_takes_actions_that_nobody_logged(variance):
    """99 % of squared distances, of two degrees of freedom, are below 9.2; those of the target are larger."""
    expected = stats.chi2(2).cdf(stats.chi2(2).ppf(0.99) / variance)
    problem = noisy(controlled(-0.5, 0.3, episodes=100), variance)
    assert held_actions(problem) == pytest.approx(expected, abs=0.015)
    assert known_overlap(problem) > 0.9  # a mean over logged actions, which knows no others


def test_targets_without_densities_have_no_second_overlap():
    assert held_actions(pose(controlled(-0.5, 0.3), -0.5)) is None


@pytest.mark.parametrize(("logged", "held"), [((0, 1, 2, 3), 1.0), ((0, 1), 0.55), ((1, 3), 0.65)])
def test_discrete_actions_that_nobody_took_are_not_held(logged, held):
    """The target takes four actions with 0.25, 0.3, 0.1 and 0.35, whatever the state."""
    states, rng = np.linspace(0, 1, 200)[:, None], np.random.default_rng(0)
    data = ov.LoggedDataset.from_arrays(states, rng.choice(logged, size=200), states[:, 0], np.roll(states, -1))
    policy = ov.as_policy(lambda seen: np.tile([0.25, 0.3, 0.1, 0.35], (len(seen), 1)), n_actions=4)
    assert held_actions(Problem.pose(data, policy, gamma=0.9, ignore=(*QUIET, "flags-confused"))) == pytest.approx(held)


def test_actions_beyond_the_log_may_pay_anything_that_the_rewards_allow():
    """Beyond a twentieth of them; rewards between -3 and 1, and 0 after an end at γ < 1, are four apart."""
    states = np.arange(6.0)[:, None]
    data = ov.LoggedDataset.from_arrays(states, states, [-3.0, 1, 0, 0, 0, 0], states + 1)
    problem = Problem.pose(data, lambda seen: seen, gamma=0.9, ignore=(*QUIET, "flags-confused"))
    (doubt,) = unsupported(problem, 0.25, factor=3.0)
    assert (doubt.size, doubt.bias) == (0.25, pytest.approx(0.2 * 4 * 3))
    assert "25% of the target's steps" in doubt.sentence
    assert unsupported(problem, None) == ()
    assert [each.bias for each in unsupported(problem, 0.04)] == [0]


def test_a_target_with_three_times_the_variance_asks_for_caution_and_a_wide_interval():
    """A fifth of its actions lie beyond the log; the logged controller itself has a narrow interval."""
    problem = noisy(controlled(-0.5, 0.3, episodes=100), 3.0)
    found = ov.evaluate(problem.data, problem.policy, "vpm", gamma=0.9, ignore=QUIET)
    assert found.verdict == "caution"
    assert any(
        reason.endswith("of the target's actions are unlike logged ones: what they lead to was not logged")
        for reason in found.reasons
    )
    own = noisy(problem.data, 1.0)
    same = ov.evaluate(own.data, own.policy, "vpm", gamma=0.9, ignore=QUIET)
    assert np.ptp(found.interval) > 2 * np.ptp(same.interval)
