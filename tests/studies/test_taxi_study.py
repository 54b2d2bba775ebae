"""The Taxi study: its cells, its figures of merit, and its claim on seeds that are neither reported nor tuned on."""

from __future__ import annotations

import math

import numpy as np
import pytest

from ope_vpm.envs import taxi as task
from ope_vpm.envs.taxi_bound import cramer_rao_bound
from ope_vpm.studies import taxi
from ope_vpm.studies.study import Results, Rows

CELL = {"trajectories": 50, "length": 100, "alpha": 0.5}


@pytest.fixture(scope="module")
def rows():
    return Rows(CELL | {"seed": seed} | row for seed in range(3000, 3010) for row in taxi.run(CELL, seed).rows)


def test_every_method_answers_every_log(rows):
    assert [row["method"] for row in rows] == list(taxi.NAMES) * 10
    assert all(math.isfinite(row["error"]) for row in rows)
    assert all(row["squared_error"] == row["error"] ** 2 for row in rows if row["method"] != taxi.BOUND)


def test_vpm_is_far_nearer_than_the_paper_s_preset_and_the_logged_mean(rows):
    found = {name: taxi.log_mse(rows.where(method=name))[0] for name in taxi.NAMES}
    assert found["VPM"] < found["VPM (paper)"] - 0.5
    assert found["VPM"] < found["logged mean"]
    assert found["VPM"] < found[taxi.BOUND] + 0.7


def test_the_bound_is_of_the_mixture(rows):
    target, behaviour = task.shipped(1000), task.shipped(950)
    half = 0.5 * target.table + 0.5 * behaviour.table
    (floor,) = {row["squared_error"] for row in rows if row["method"] == taxi.BOUND}
    assert floor == pytest.approx(cramer_rao_bound(target, half, 50, 100))


def test_log_mse_by_hand():
    """Squares 1 and 3: mean 2; its standard error √2/√2 = 1, relative ½."""
    middle, error = taxi.log_mse([{"squared_error": 1.0}, {"squared_error": 3.0}])
    assert middle == pytest.approx(np.log10(2))
    assert error == pytest.approx(0.5 / np.log(10))


def test_sweeps_cross_in_one_cell():
    cells = taxi.study(quick=False).cells
    assert len(cells) == 4 + 3 + 4
    assert cells.count({"trajectories": 200, "length": 400, "alpha": 0.0}) == 1


def test_table_and_picture(rows):
    results = Results(rows)
    assert taxi.table(results).rows[0][:2] == ["50x100", "0.5"]
    assert len(taxi.draw(results).axes) == 3
