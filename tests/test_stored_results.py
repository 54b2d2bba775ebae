"""Stored runs beside those made again, and claims counted on them, by hand."""

from __future__ import annotations

import json

import pytest

from benchmarks import _claims
from benchmarks.repeat import chosen, merged
from benchmarks.tables import scale
from ope_vpm.studies.runner import write_rows
from ope_vpm.studies.study import Rows

STORED = Rows(
    {"method": method, "x": x, "seed": seed, "log_mmd": -1.0 * x, "seconds": 1.0, "tuning_seeds": "1"}
    for method in ("VPM", "EM")
    for x in (1, 2)
    for seed in (0, 1)
)


def test_a_method_that_was_made_again_and_moved_is_replaced():
    again = [row | {"log_mmd": row["log_mmd"] - 0.5, "seconds": 2.0, "tuning_seeds": "2"} for row in STORED[:4]]
    rows, told = merged(STORED, Rows(again))
    assert rows == [*again, *STORED[4:]]
    assert told["VPM"] == {
        "runs": 2, "all": True, "rows": 4, "replaced": True, "largest_move": 0.5, "median_move": 0.5
    }  # fmt: skip


def test_numbers_that_repeat_and_methods_that_were_begun_stay_as_they_are():
    same = [row | {"seconds": 2.0} for row in STORED[:4]]
    first = [row | {"log_mmd": 0.0} for row in STORED[4:] if row["seed"] == 0]
    rows, told = merged(STORED, Rows([*same, *first]))
    assert rows == STORED
    assert (told["VPM"]["all"], told["VPM"]["largest_move"]) == (True, 0.0)
    assert (told["EM"]["all"], told["EM"]["runs"], told["EM"]["largest_move"]) == (False, 1, 2.0)


def test_cells_by_their_columns():
    cells = [{"method": "VPM", "x": 1}, {"method": "VPM", "x": 2}, {"method": "EM", "x": 1}]
    assert chosen(cells, ["method=VPM", "x=1"]) == cells[:1]
    assert chosen(cells, ["x=1", "x=2"]) == cells


def test_a_claim_is_counted_by_cells(tmp_path):
    rows = [row | {"log_mmd": row["log_mmd"] - (row["method"] == "VPM") * (3 - 2 * row["x"])} for row in STORED]
    write_rows(tmp_path / "sde.csv", Rows(rows))
    claim = _claims.Claim("nearer", "fig", "sde", ("EM",), axes=("x",))
    assert list(_claims.counted(claim, "VPM", tmp_path)) == [(True, 1.0), (False, -1.0)]


def test_claims_rest_on_runs_of_which_all_were_made_again():
    made = {"VPM": {"all": True}, "EM": {"all": True}, "VPM (paper)": {"all": False}}
    assert _claims._made_again(made, ("VPM", "EM"))
    assert not _claims._made_again(made, ("VPM (paper)", "EM"))
    assert not _claims._made_again(made, ("VPM", "model"))


def test_rows_of_scale_without_a_version_are_left_out(tmp_path):
    rows = {"policies": {"auto": {"ratio": 0.5, "version": "0.2.0"}}, "discounts": {"auto": {"ratio": 0.25}}}
    (tmp_path / "scale.json").write_text(json.dumps({**rows, "ratios": {}}))
    assert scale(tmp_path).splitlines()[2:] == ["| a further policy on the same log | 0.50 of the first one's time |"]


@pytest.mark.parametrize(("held", "word"), [(9, "yes: 9 of 10"), (6, "partly: 6 of 10"), (5, "no: 5 of 10")])
def test_words_of_a_claim(held, word):
    cells = [(n < held, 1.0) for n in range(10)]
    assert _claims.in_words(cells, "nats") == f"{word}, +1.00 nats"
