"""The control studies' arithmetic on made-up runs, and one tiny real run."""

import re

import numpy as np
import pytest

import ope_vpm as ov
from ope_vpm.envs.bullet import stored_truth
from ope_vpm.studies import control
from ope_vpm.studies.control_report import (
    beats,
    conditional_errors,
    draw,
    errors,
    floor,
    informative,
    summary,
    table,
    tied_lowest,
)
from ope_vpm.studies.study import Results, Rows

CELL = {"behaviour": 1.0, "trajectories": 100, "length": 100, "gamma": 1.0}
TRUTH = stored_truth("reacher").at(1.0, 100)


def row(method, error, seed=0, methods="quick", **changes):
    """A run that is off the truth by some floors."""
    value = TRUTH.value + error * TRUTH.deviation / 10
    numbers = {"value": value, "low": value, "high": value, "verdict": "", "seconds": 0.0}
    return {**CELL, "methods": methods, "seed": seed, "method": method, **numbers, **changes}


def made_up(*rows):
    return Results(Rows(rows))


def test_errors_in_floors():
    results = made_up(row("vpm", 3.0), row("vpm", -4.0, seed=1), row("naive", 2.0))
    assert floor("reacher", CELL) == pytest.approx(TRUTH.deviation / 10)
    found = np.array(errors(results, "reacher", CELL, "vpm")) / floor("reacher", CELL)
    assert found == pytest.approx([3.0, -4.0])
    found = summary(results, "reacher", "vpm")
    assert found["geometric_mean"] == pytest.approx(np.sqrt(12.5))
    assert found["worst_of_naive"] == pytest.approx(np.sqrt(12.5) / 2)
    assert found["below_naive"] == 0


def test_cells_near_the_floor_are_not_informative():
    assert not informative(made_up(row("naive", 1.2), row("vpm", 0.1)), "reacher", CELL)
    assert informative(made_up(row("naive", 1.4), row("vpm", 0.1)), "reacher", CELL)


def test_opponents_are_met_on_their_own_runs():
    rows = [row("naive", 9.0), row("vpm", 1.0), row("vpm", 5.0, seed=1), row("model", 2.0, methods="networks")]
    assert beats(made_up(*rows), "reacher", CELL, "vpm")
    assert not beats(made_up(*rows, row("liu", 0.5, methods="networks")), "reacher", CELL, "vpm")
    assert not beats(
        made_up(*rows, row("wist", 2.0, methods="networks"), row("wist", 2.0, seed=1, methods="networks")),
        "reacher",
        CELL,
        "vpm",
    )


def test_a_run_without_a_value_counts_as_lost():
    rows = [row("naive", 9.0), row("vpm", 1.0), row("wist", float("nan"), methods="networks")]
    assert beats(made_up(*rows), "reacher", CELL, "vpm")


def test_tied_with_the_lowest_means_within_two_standard_errors_run_by_run():
    """Squared errors 1, 1, 1, 9 against 1 each: on average 2 ± 2 more, so tied; some 4 each against 1: not."""
    own = [row("auto", error, seed=seed) for seed, error in enumerate((1.0, 1.0, 1.0, 3.0))]
    near = [row("vpm", 1.0, seed=seed) for seed in range(4)]
    assert tied_lowest(made_up(*own, *near), "reacher", CELL, "auto")
    assert tied_lowest(made_up(*own, *near), "reacher", CELL, "vpm")
    far = [row("auto", 2.0 + seed / 100, seed=seed) for seed in range(4)]
    assert not tied_lowest(made_up(*far, *near), "reacher", CELL, "auto")


def test_conditional_truth_is_that_of_the_same_seed():
    own = {"behaviour": "target", "methods": "truth"}
    rows = [row("vpm", 1.0), row("vpm", 2.0, seed=1)]
    rows += [row("conditional truth", 0.5, **own), row("conditional truth", 4.0, seed=1, **own)]
    found = np.array(conditional_errors(made_up(*rows), CELL, "vpm")) / floor("reacher", CELL)
    assert found == pytest.approx([0.5, -2.0])


def test_shortened_trajectories_are_cut_with_a_known_next_state():
    states = np.arange(9.0)[:, None]
    data = ov.LoggedDataset.from_arrays(
        states[:-1], states[:-1], np.ones(8), states[1:], terminated=np.arange(8) == 2, truncated=np.arange(8) == 7
    )
    cut = control.shortened(data, 3)
    assert cut.lengths.tolist() == [3, 3]
    assert cut.terminated.tolist() == [False, False, True, False, False, False]
    assert cut.truncated.tolist() == [False, False, False, False, False, True]
    assert cut.next_observations[-1] == 6
    assert cut.next_known.all()


def test_mean_and_error_given_the_initial_states():
    """Two repeats of two states, rewards 1 and 3 in one, 5 and 5 in the other: variances 2 and 0 of four runs."""
    states = np.zeros((2, 1))
    repeats = [
        ov.LoggedDataset.from_arrays(states, states, rewards, states, truncated=[True, True])
        for rewards in ([1.0, 5.0], [3.0, 5.0])
    ]
    value, error = control.mean_of(repeats, 2, 1, 1.0, tail=0.0)
    assert value == 3.5
    assert error == pytest.approx(np.sqrt(1 / 4))
    value, _ = control.mean_of(repeats, 2, 1, 0.5, tail=2.0)
    assert value == 3.5 / 2 + 1


def test_a_tiny_run_from_collecting_to_picture(monkeypatch):
    monkeypatch.setitem(control.REPEATS, "reacher", 1)
    monkeypatch.setitem(control.METHODS, "quick", {"vpm": {}, "naive": {}})
    rows = []
    for cell in ({"behaviour": control.TARGET, "methods": "truth"}, {"behaviour": "mix", "methods": "quick"}):
        rows += [{**cell, "seed": 3, **found} for found in control.run("reacher", 10, cell, 3).rows]
    results = made_up(*rows)
    by_method = {row["method"]: row for row in rows if row["gamma"] == 1 and row["length"] == 100}
    assert set(by_method) == {"on-policy", "conditional truth", "vpm", "naive"}
    assert by_method["on-policy"]["value"] == by_method["conditional truth"]["value"]
    shown = table("reacher", results)
    assert len(shown.rows) == 2
    marked = [row[-1] for row in shown.rows]
    told = r"vpm: \d\.\d\d floors over \d informative" if "" in marked else r"vpm: in none of 2 cells"
    assert re.search(told, shown.caption)
    assert len(draw("reacher", results).axes) == 6


def test_slow_methods_stop_after_their_runs():
    assert control.run("reacher", 10, {"behaviour": 1.0, "methods": "networks"}, control.RUNS["networks"]).rows == []
