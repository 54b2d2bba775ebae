"""The simulated router: its log is what it says, and the gate's answers against the simulated truth."""

import importlib.util
from pathlib import Path

import numpy as np
import pytest

import ope_vpm as ov

FILE = Path(__file__).parents[2] / "examples" / "router" / "simulate.py"
spec = importlib.util.spec_from_file_location("simulate", FILE)
router = importlib.util.module_from_spec(spec)
spec.loader.exec_module(router)


def test_a_session_earns_what_is_worked_out_by_hand():
    """Always the large model: it solves a task of difficulty d with q(d) = 1/(1 + exp(5d - 5)); else a quarter leaves.

    V(d) = q - c + (1 - q)·¾·V(d), so V = (q - c)/(1 - ¾(1 - q)), averaged over d from 0 to 1.
    """
    d = (np.arange(100_000) + 0.5) / 100_000
    q = 1 / (1 + np.exp(5 * d - router.SKILL[0]))
    by_hand = np.mean((q - router.COST[0]) / (1 - 0.75 * (1 - q)))
    always_large = np.array([[0.0] * 3, [0.0] * 3, [50.0, 0.0, 0.0]])
    assert router.value(always_large, 20_000) == pytest.approx(by_hand, abs=4 * 0.7 / np.sqrt(20_000))


def test_the_gate_opens_for_the_better_router_and_not_for_the_worse():
    """Five logs of 600 sessions: the true gain is in at least four intervals of 95 %, and no gate errs."""
    gain = router.value(router.NEW, 30_000) - router.value(router.LOGGED, 30_000)
    small = np.array([[0.0] * 3, [0.0] * 3, [0.0, 0.0, 4.0]])
    held = []
    for seed in range(5):
        data = ov.from_table(router.sessions(router.LOGGED, 600, seed), drop="cost", verbose=False)
        new = ov.compare(data, ov.as_policy(lambda x: router.shares(router.NEW, x)), behaviour="logged")
        held.append(new.interval[0] < gain < new.interval[1])
        assert new.gate().decision != "worse"
    assert sum(held) >= 4
    worse = ov.compare(data, ov.as_policy(lambda x: router.shares(small, x)), behaviour="logged")
    assert worse.gate().decision != "better"


@pytest.mark.parametrize("seed", range(10))
def test_states_that_move_in_constant_steps_are_not_one_row_off(seed):
    """A difficulty stays and turns rise by one: regressions leave rounding of their steps (seed 1 was refused)."""
    data = ov.from_table(router.sessions(router.LOGGED, 1000, seed), drop="cost", verbose=False)
    assert not ov.inspect(data).errors
