"""The step number: found where outcomes depend on it beyond state and action, and then a coordinate of the state."""

import numpy as np
import pytest

import ope_vpm as ov
from ope_vpm.logged.step_number import MOST_BINS, StepColumn, step_effect, with_step_number
from ope_vpm.policy.discrete import TablePolicy
from ope_vpm.policy.function import WithoutLast


def log_of(lengths, pays, states=None, seed=0, finite=True):
    """Episodes of given lengths that terminate, a random state and action at each step, rewards by step."""
    rng, n = np.random.default_rng(seed), int(np.sum(lengths))
    time = np.concatenate([np.arange(length) for length in lengths])
    state = rng.integers(3, size=n) if states is None else states
    last = np.append(time[1:] == 0, True)
    observations = state if finite else np.column_stack([state + rng.normal(size=n), rng.normal(size=n)])
    rewards = pays(time, state) + 0.1 * rng.normal(size=n)
    episode = np.repeat(np.arange(len(lengths)), lengths)
    return ov.LoggedDataset.from_arrays(
        observations, rng.integers(2, size=n), rewards, terminated=last, episode=episode
    )


def by_state(time, state):
    return 1.0 * state


@pytest.mark.parametrize("finite", [True, False])
def test_found_only_where_it_matters(finite):
    """Geometric ends depend on nothing, in all of ten logs; drawn lengths, rewards by step and limits do, in all."""
    for seed in range(10):
        rng = np.random.default_rng(seed)
        geometric, drawn = rng.geometric(0.1, 150), rng.integers(3, 25, 150)
        assert step_effect(log_of(geometric, by_state, seed=seed, finite=finite)) == 0
        assert step_effect(log_of(drawn, by_state, seed=seed, finite=finite)) > 0.01
        assert step_effect(log_of(np.full(150, 12), by_state, seed=seed, finite=finite)) > 0.1
        falling = log_of(geometric, lambda time, state: state - 0.2 * time, seed=seed, finite=finite)
        assert step_effect(falling) > 0.01
        assert step_effect(with_step_number(falling)) < 0.02  # late steps share a value


def test_units_and_order_do_not_matter():
    log = log_of(np.random.default_rng(1).integers(3, 25, 150), by_state, finite=False)
    scaled = ov.LoggedDataset.from_arrays(
        log.observations[:, ::-1] * 1e3, log.actions, log.rewards / 7, terminated=log.terminated
    )
    assert step_effect(scaled) == pytest.approx(step_effect(log), rel=1e-6)
    assert step_effect(log.select(np.random.default_rng(2).permutation(150))) == pytest.approx(
        step_effect(log), rel=1e-6
    )


def test_little_is_not_asked():
    assert step_effect(log_of([3] * 19, by_state)) == 0
    assert step_effect(log_of([1] * 500, by_state)) == 0


def test_the_column():
    log = log_of([2, 3], by_state, states=np.array([0, 1, 2, 1, 0]))
    timed = with_step_number(log)
    np.testing.assert_array_equal(timed.observations, [[0, 0], [1, 1], [2, 0], [1, 1], [0, 2]])
    np.testing.assert_array_equal(timed.next_observations, [[1, 1], [-1, -1], [1, 1], [0, 2], [-1, -1]])
    np.testing.assert_array_equal(timed.next_known, log.next_known)


def test_late_steps_of_finite_states_share_a_value():
    log = log_of(np.random.default_rng(0).geometric(0.02, 200), by_state)
    step = StepColumn.of(log).added(log.observations, log.time)[:, -1]
    assert step.max() < MOST_BINS
    assert (np.diff(step)[np.diff(log.time) > 0] >= 0).all()
    assert np.bincount(step)[:-1].min() >= len(log) / MOST_BINS
    np.testing.assert_array_equal(step[log.time == 0], 0)


def test_the_policy_does_not_see_it():
    table = TablePolicy([[0.2, 0.8], [0.5, 0.5]])
    policy = WithoutLast(table, ())
    np.testing.assert_array_equal(policy.probabilities(np.array([[1, 7], [0, 3]])), [[0.5, 0.5], [0.2, 0.8]])
    assert policy == WithoutLast(table, ())
    assert hash(policy) == hash(WithoutLast(table, ()))
    assert policy != WithoutLast(TablePolicy([[0.2, 0.8], [0.5, 0.5]]), ())
    assert policy.has_probabilities
    assert policy.n_actions == 2


def test_value_of_episodes_of_two_lengths():
    """One state, reward 1, half of the episodes with 2 and half with 4 steps: (1 - γ)E[Σ γ^t] = 1 - E[γ^T].

    Ends by the state alone have the probability 200/600, and (1 - γ)/(1 - γ·2/3) = 0.75 at γ = 0.5.
    """
    lengths = np.tile([2, 4], 100)
    n = int(lengths.sum())
    last = np.zeros(n, dtype=bool)
    last[np.cumsum(lengths) - 1] = True
    log = ov.LoggedDataset.from_arrays(np.zeros(n, dtype=int), np.zeros(n, dtype=int), np.ones(n), terminated=last)
    assert ov.evaluate(log, [[1.0]], "vpm", gamma=0.5).value == pytest.approx(1 - (0.5**2 + 0.5**4) / 2)
    ignored = ["step-number", "duplicated-episodes", "constant-columns"]
    assert ov.evaluate(log, [[1.0]], "vpm", gamma=0.5, ignore=ignored).value == pytest.approx(0.75)


def test_doctor_and_diagnostics_say_so():
    log = log_of(np.random.default_rng(3).integers(3, 25, 150), by_state)
    (found,) = (each for each in ov.inspect(log).findings if each.code == "step-number")
    assert found.level == "note"
    assert "one more coordinate" in found.message
    value = ov.evaluate(log, [[0.5, 0.5]] * 3, gamma=0.9)
    assert "step_number" in value.diagnostics
    assert "step_number" not in ov.evaluate(log, [[0.5, 0.5]] * 3, "naive", gamma=0.9).diagnostics
