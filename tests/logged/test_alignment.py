"""Rows whose action belongs to another row: the doctor's thresholds, on steps whose explained shares are known."""

import numpy as np
import pytest
from gymnasium import spaces

from ope_vpm import LoggedDataset, inspect
from ope_vpm.envs.wild import collect_log, wild_task
from ope_vpm.logged.order import _explained


def findings(data):
    return [each.code for each in inspect(data).findings if each.code == "one-row-off"]


def steps(own, following, rows=2000, discrete=False, coordinates=1):
    """One episode whose steps owe these shares of their variance to the row's own action and to the next row's."""
    rng = np.random.default_rng(0)
    kinds = rng.integers(2, size=rows + 1)
    actions = (2.0 * kinds - 1)[:, None] if discrete else rng.standard_normal((rows + 1, 1))
    noise = rng.standard_normal((rows, coordinates))
    step = np.sqrt(own) * actions[:-1] + np.sqrt(following) * actions[1:] + np.sqrt(1 - own - following) * noise
    states = np.vstack([np.zeros((1, coordinates)), np.cumsum(step, axis=0)])
    given = kinds if discrete else actions
    last = np.arange(rows) == rows - 1
    space = {"action_space": spaces.Discrete(2)} if discrete else {}
    return LoggedDataset.from_arrays(states[:-1], given[:-1], noise[:, 0], states[1:], truncated=last, **space)


@pytest.mark.parametrize("discrete", [False, True])
@pytest.mark.parametrize(
    ("own", "following", "off"),
    [
        (0.0, 0.9, True),  # all of it is the next row's
        (0.0, 0.3, True),  # enough of it
        (0.025, 0.5, True),  # what a correlation of the actions may leave for its own
        (0.09, 0.5, False),  # its own action says something
        (0.9, 0.0, False),  # as it should be
        (0.0, 0.14, False),  # neither says much
        (0.0, 0.0, False),  # noise
    ],
)
def test_a_shift_is_what_the_next_action_explains_and_the_own_does_not(own, following, off, discrete):
    assert bool(findings(steps(own, following, discrete=discrete))) is off


def controlled(noise, shift, controller=lambda states: -0.5 * states, kick=0, rows=2000):
    """A controller with noise that drives s' = 0.9 s + 0.2 a + w; with a shift states are one row late.

    Every sixtieth state is far away if there is a kick.
    """
    rng = np.random.default_rng(0)
    states, actions = np.zeros((rows + 2, 2)), np.zeros((rows + 1, 2))
    for t in range(rows + 1):
        states[t] += kick * (t % 60 == 0) * rng.standard_normal(2)
        actions[t] = controller(states[t]) + noise * rng.standard_normal(2)
        states[t + 1] = 0.9 * states[t] + 0.2 * actions[t] + 0.1 * rng.standard_normal(2)
    states, last = states[shift:], np.arange(rows) == rows - 1
    rewards = rng.standard_normal(rows)
    return LoggedDataset.from_arrays(
        states[:rows],
        actions[:rows],
        rewards,
        states[1 : rows + 1],
        truncated=last,
        action_space=spaces.Box(-9, 9, (2,)),
    )


@pytest.mark.parametrize(
    ("noise", "shift", "off"),
    [
        (0.0, 0, False),  # a linear controller: its next action is the next state, and its own says nothing more
        (0.01, 0, False),
        (0.3, 0, False),
        (0.3, 1, True),
        (1.0, 1, True),
        (0.0, 1, True),  # here its next action is this state, which the next state does not foresee
    ],
)
def test_a_controller_without_noise_is_no_shift(noise, shift, off):
    assert bool(findings(controlled(noise, shift))) is off


@pytest.mark.parametrize("gain", [0.5, 1.5, 5.0, 20.0])
@pytest.mark.parametrize("kick", [0, 1, 3])
def test_a_controller_that_saturates_is_no_shift(gain, kick):
    def saturating(states):
        return np.tanh(-gain * states)

    assert findings(controlled(0.0, 0, saturating, kick)) == []
    assert findings(controlled(0.3, 0, saturating, kick)) == []
    if gain < 5:  # beyond, the direction of the step is the whole action, and the states tell it
        assert findings(controlled(0.3, 1, saturating)) == ["one-row-off"]


def test_a_shift_in_one_of_several_coordinates_is_enough():
    data = steps(0.0, 0.8, coordinates=3)
    observations, after = data.observations.copy(), data.next_observations.copy()
    rng = np.random.default_rng(1)
    walk = np.cumsum(rng.standard_normal((len(data) + 1, 2)), axis=0)
    observations[:, 1:], after[:, 1:] = walk[:-1], walk[1:]
    other = LoggedDataset.from_arrays(observations, data.actions, data.rewards, after, truncated=data.truncated)
    assert findings(other) == ["one-row-off"]


@pytest.mark.parametrize(("rows", "off"), [(78, False), (83, True)])
def test_a_shift_is_looked_for_from_twenty_rows_a_coefficient(rows, off):
    """One state and one action have four coefficients: constant, s, a and s·a; two rows have no row after the next."""
    assert bool(findings(steps(0.0, 0.9, rows=rows))) is off


def drifting(episodes, late, length=30, size=0.01):
    """Episodes that begin at 0 or 1 in turn and hardly move; their resets are laid `late` rows into episode k."""
    rng = np.random.default_rng(0)
    number = np.repeat(np.arange(episodes), length)
    level = np.zeros(episodes * length)
    jumps = [k * length + late(k) for k in range(1, episodes)]
    level[jumps] = 1.0
    states = (np.cumsum(level) % 2 + size * rng.standard_normal(len(level)))[:, None]
    actions = rng.standard_normal((len(level), 1))
    return LoggedDataset.from_arrays(states, actions, rng.standard_normal(len(level)), episode=number)


def test_drift_is_a_jump_k_rows_inside_episode_k():
    assert findings(drifting(8, late=lambda k: k)) == ["one-row-off"]
    assert findings(drifting(8, late=lambda k: 0)) == []
    assert findings(drifting(8, late=lambda k: 3)) == []


@pytest.mark.parametrize(("episodes", "off"), [(4, False), (5, True)])
def test_drift_needs_four_seams(episodes, off):
    assert bool(findings(drifting(episodes, late=lambda k: k))) is off


def test_drift_of_short_episodes_is_seen_in_those_that_are_long_enough():
    """Episode k of 6 rows has its jump inside only for k < 6."""
    assert findings(drifting(20, late=lambda k: min(k, 5), length=6)) == ["one-row-off"]


@pytest.mark.parametrize("unit", [1e-6, 1e6])
def test_a_shift_does_not_depend_on_the_unit_of_states(unit):
    data = steps(0.0, 0.9)
    scaled = LoggedDataset.from_arrays(
        unit * data.observations, data.actions, data.rewards, unit * data.next_observations, truncated=data.truncated
    )
    assert findings(scaled) == ["one-row-off"]


def test_what_noise_explains_is_subtracted():
    """Actions that say nothing explain about 2 of 100 parts with two coefficients; that is taken off, on average."""
    rng = np.random.default_rng(0)
    found = [_explained(*rng.standard_normal((3, 100, 1))) for _ in range(300)]
    assert np.mean(found) == pytest.approx(0, abs=4 * np.std(found) / np.sqrt(300))
    states, actions = rng.standard_normal((2, 4000, 1))
    exact = _explained(states, actions, np.sqrt(0.3) * actions + np.sqrt(0.7) * rng.standard_normal((4000, 1)))
    assert exact == pytest.approx(0.3, abs=0.03)


def test_resets_at_the_seams_are_no_drift_whatever_happens_later():
    """Jumps of 1 at every seam and of a tenth k rows inside episode k: both stand out, but the seams do more."""
    data = drifting(8, late=lambda k: 0)
    states = np.array(data.observations)
    for k in range(1, 8):
        states[30 * k + k :] += 0.1
    other = LoggedDataset.from_arrays(states, data.actions, data.rewards, episode=data.episode)
    steps_of = np.abs(np.diff(states[:, 0]))
    inside = [steps_of[30 * k + k - 1] for k in range(1, 8)]
    assert np.median(inside) > np.quantile(steps_of, 0.9)
    assert findings(other) == []


def test_a_policy_that_bends_with_the_state_is_not_a_shift():
    """A car in a valley: gravity moves it more than the action does, and the policy follows its speed, not linearly."""
    task = wild_task("MountainCarContinuous-v0")
    assert not findings(collect_log(task, "older", 50, 4, cut=True))
