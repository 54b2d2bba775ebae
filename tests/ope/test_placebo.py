"""The placebo: is the value of the log's own policy found again?"""

import numpy as np
import pytest

import ope_vpm as ov
from ope_vpm.ope.inference.doubts import COEFFICIENTS
from ope_vpm.ope.inference.placebo import SURE, placebo
from ope_vpm.ope.log import Log


def two_lengths(episodes=100):
    """One state, reward 1, half of the episodes with 2 and half with 4 steps."""
    lengths = np.tile([2, 4], episodes)
    n = int(lengths.sum())
    last = np.zeros(n, dtype=bool)
    last[np.cumsum(lengths) - 1] = True
    zeros = np.zeros(n, dtype=int)
    return ov.LoggedDataset.from_arrays(zeros, zeros, np.ones(n), terminated=last)


IGNORED = ["step-number", "duplicated-episodes", "constant-columns"]


def test_one_state_by_hand():
    """γ = 0.5: the log's value is 1 - (0.25 + 0.0625)/2 = 0.84375, that of ends by state 0.75.

    V = 1.5, so that residuals are -1/2 at an end and 1/4 elsewhere. The constant feature knows E[Δw]/E[Δ] of weights
    w = (1 - γ)γᵗ: (1 - γ)/(3(1 - γ·2/3)), 3 being the mean length and 2/3 the share of steps that go on.
    """
    log = Log.check(two_lengths(), IGNORED)
    found = placebo(log, 0.5, "absorb", "continue")
    assert found.distance == pytest.approx(0.84375 - 0.75, abs=1e-6)
    moved = []
    for length in (2, 4):
        residual = np.full(length, 1 - 1.5 + 0.5 * 1.5)
        residual[-1] = 1 - 1.5
        known = 0.5 / (3 * (1 - 0.5 * 2 / 3))
        moved.append(residual @ (0.5 * 0.5 ** np.arange(length) - known))
    assert found.error == pytest.approx(np.std(moved) / np.sqrt(200), rel=1e-6)
    assert found.bias == pytest.approx(np.sqrt(found.distance**2 - found.error**2))


def test_the_bias_is_in_the_error_and_the_verdict():
    log = two_lengths()
    value = ov.evaluate(log, [[1.0]], "vpm", gamma=0.5, ignore=IGNORED)
    assert value.diagnostics["placebo"] == pytest.approx(0.84375 - 0.75, rel=0.1)
    assert value.verdict == "caution"
    assert any("log's own policy" in reason for reason in value.reasons)
    assert value.standard_error >= COEFFICIENTS["placebo"] * value.diagnostics["placebo"]
    assert "placebo" not in ov.evaluate(log, [[1.0]], "vpm", gamma=1.0, ignore=IGNORED).diagnostics


def markov(seed, finite, episodes=150):
    """Two states that follow one another at random, ends with probability 0.1 in the first and 0.3 in the second."""
    rng = np.random.default_rng(seed)
    states, rewards, last, following = [], [], [], []
    for _ in range(episodes):
        state, ended = int(rng.integers(2)), False
        while not ended:
            ended, after = rng.random() < (0.1, 0.3)[state], int(rng.integers(2))
            states.append(state)
            following.append(after)
            rewards.append(state + rng.normal())
            last.append(ended)
            state = after
    seen, after = np.array(states), np.array(following)
    if not finite:
        seen, after = (np.column_stack([each, each**2 - 1.0]) + 0.0 for each in (seen, after))
    return ov.LoggedDataset.from_arrays(
        seen, rng.integers(2, size=len(seen)), np.array(rewards), after, terminated=np.array(last)
    )


@pytest.mark.parametrize("finite", [True, False])
def test_quiet_where_states_are_states(finite):
    """Over 60 logs distance/error is standard normal: no alarm is expected, and three would be one in 10⁴."""
    found = [placebo(Log.check(markov(seed, finite)), 0.9, "absorb", "continue") for seed in range(60)]
    scores = np.array([each.distance / each.error for each in found])
    assert 0.7 < np.sqrt(np.mean(scores**2)) < 1.3
    assert (np.abs(scores) > SURE).sum() < 3


def test_units_and_order_do_not_matter():
    data = markov(3, finite=False)
    found = placebo(Log.check(data), 0.9, "absorb", "continue")
    shuffled = data.select(np.random.default_rng(0).permutation(data.n_episodes))
    other = placebo(Log.check(shuffled), 0.9, "absorb", "continue")
    assert (other.distance, other.error) == pytest.approx((found.distance, found.error), rel=1e-6)
    paid = ov.LoggedDataset.from_arrays(
        data.observations * 10, data.actions, 1e-6 * data.rewards, data.next_observations * 10, data.terminated
    )
    other = placebo(Log.check(paid), 0.9, "absorb", "continue")
    assert (other.distance, other.error) == pytest.approx((1e-6 * found.distance, 1e-6 * found.error), rel=1e-4)


def test_nothing_is_asked_of_few_episodes():
    found = placebo(Log.check(two_lengths(9), IGNORED), 0.5, "absorb", "continue")
    assert found == type(found)(0.0, 0.0, 0.0)
