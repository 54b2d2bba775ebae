"""The runner on a study small enough to know every number of."""

from __future__ import annotations

import json

import pytest
from matplotlib.figure import Figure

from ope_vpm.outside import write_whole
from ope_vpm.studies.runner import MODULES, find_study, read_rows, reproduce
from ope_vpm.studies.study import Outcome, Rows, Study, Table

CALLS: list[tuple[str, int]] = []


def run(cell, seed):
    CALLS.append((cell["name"], seed))
    return Outcome([{"method": "sum", "value": len(cell["name"]) + seed / 10, "seconds": 0.5}])


def table(results):
    return Table(["value"], [[str(row["value"])] for row in results.rows])


def draw(results):
    figure = Figure()
    figure.subplots().plot([row["value"] for row in results.rows])
    return figure


def small_study(settings=None):
    cells = [{"name": "a"}, {"name": "bb"}]
    return Study("small", "Small", settings or {"size": 1}, cells, run, table, draw)


@pytest.fixture(autouse=True)
def _no_calls():
    CALLS.clear()


def test_it_writes_rows_settings_and_pictures(tmp_path):
    results = reproduce(small_study(), 2, tmp_path, processes=1)
    assert [row["value"] for row in results.rows] == [1.0, 1.1, 2.0, 2.1]
    assert read_rows(tmp_path / "small.csv") == results.rows
    report = json.loads((tmp_path / "small.json").read_text())
    assert report["settings"] == {"size": 1}
    assert report["seeds"] == {"name=a": [0, 1], "name=bb": [0, 1]}
    assert report["mean_seconds_of_a_fit"] == {"sum": 0.5}
    assert {"python", "numpy", "torch"} <= set(report["versions"])
    assert (tmp_path / "small.png").read_bytes().startswith(b"\x89PNG")
    assert "<svg" in (tmp_path / "small.svg").read_text()
    assert sorted(path.name for path in tmp_path.iterdir()) == ["small.csv", "small.json", "small.png", "small.svg"]


def test_it_states_the_tuning_seeds_in_every_row_and_they_are_not_reported_ones(tmp_path):
    rows = reproduce(small_study(), 3, tmp_path, processes=1).rows
    first = int(rows[0]["tuning_seeds"].split("-")[0])
    assert all(row["seed"] < first for row in rows)


def test_it_resumes_where_it_stopped(tmp_path):
    reproduce(small_study(), 1, tmp_path, processes=1)
    CALLS.clear()
    results = reproduce(small_study(), 3, tmp_path, processes=1)
    assert CALLS == [("a", 1), ("a", 2), ("bb", 1), ("bb", 2)]
    assert len(results.rows) == 6


def test_it_refuses_to_continue_runs_made_with_other_settings(tmp_path):
    reproduce(small_study(), 1, tmp_path, processes=1)
    with pytest.raises(ValueError, match="other settings"):
        reproduce(small_study({"size": 2}), 1, tmp_path, processes=1)


def test_a_file_is_replaced_whole_or_not_at_all(tmp_path):
    path = tmp_path / "file.txt"
    path.write_text("before")

    def half(temporary):
        with temporary.open("wb") as file:
            file.writelines([b"half", "not bytes"])

    with pytest.raises(TypeError):
        write_whole(path, half)
    assert path.read_text() == "before"
    assert list(tmp_path.iterdir()) == [path]


def test_mean_and_standard_error_by_hand():
    assert Rows([{"v": 1.0}, {"v": 3.0}]).mean_and_error("v") == pytest.approx((2.0, 1.0))


@pytest.mark.parametrize("name", MODULES)
def test_every_figure_has_a_full_and_a_quick_study(name):
    full, quick = find_study(name, quick=False), find_study(name, quick=True)
    assert full.name == name
    assert quick.name == f"{name}-quick"
    assert len(quick.cells) <= len(full.cells)
    json.dumps(full.settings)


def test_an_unknown_figure_is_answered_with_the_nearest():
    with pytest.raises(ValueError, match="did you mean 'mcmc-evolution'"):
        find_study("mcmc-evolve", quick=False)
