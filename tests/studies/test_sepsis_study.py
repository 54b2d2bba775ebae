"""The sepsis study: exact truths of its targets, and rows of every method."""

import numpy as np
import pytest

pytest.importorskip("icu_sepsis")

from ope_vpm.envs.wild.tables import clinicians
from ope_vpm.studies import sepsis
from ope_vpm.studies.study import Results, Rows


def test_the_optimal_policy_saves_most_and_the_mixture_lies_between():
    exact = {name: sepsis.truth(name)[0] for name in sepsis.TARGETS}
    logged = sepsis.task().model.episode_return(clinicians(), 500).value
    assert logged < exact["half-way"] < exact["optimal"]
    assert exact["optimal"] == pytest.approx(0.875, abs=0.005)  # what the package's authors report
    best = sepsis.target("optimal").table
    np.testing.assert_array_equal(np.sort(np.unique(best)), [0, 1])


def test_every_method_answers_within_what_is_possible():
    cell = {"target": "half-way", "episodes": 50}
    rows = Rows(cell | {"seed": 3000} | row for row in sepsis.run(cell, 3000).rows)
    exact, _ = sepsis.truth("half-way")
    assert [row["method"] for row in rows] == list(sepsis.METHODS)
    assert all(0 <= exact + row["error"] <= 1 for row in rows)
    (line,) = sepsis.table(Results(rows)).rows
    assert line[:2] == ["half-way", "50"]
    assert line[2] == f"{abs(rows.where(method='auto')[0]['error']):.3f}"
    assert len(sepsis.draw(Results(rows)).axes) == 2
