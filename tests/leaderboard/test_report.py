"""What is made of a finished board: linear in its cells, small enough to open, with the headline columns everywhere."""

from __future__ import annotations

import csv
import io
import json
import re
import sys

import pytest

from ope_vpm.leaderboard import document, output
from ope_vpm.leaderboard.output import write_board
from ope_vpm.leaderboard.records import Board
from ope_vpm.leaderboard.tables import terminal
from tests.leaderboard.boards import drawn_board, with_error

HEADLINES = ("confidently_wrong", "reliable_and_covered")


def page_data(folder):
    text = (folder / "index.html").read_text()
    return json.loads(re.search(r'<script type="application/json" id="data">(.*?)</script>', text, re.DOTALL).group(1))


def calls(function):
    """How many functions, of Python and of C, a call calls."""
    count = 0

    def one(frame, event, argument):
        nonlocal count
        count += event in ("call", "c_call")

    sys.setprofile(one)
    try:
        function()
    finally:
        sys.setprofile(None)
    return count


def test_the_work_is_linear_in_runs(tmp_path):
    boards = {runs: drawn_board(runs, settings=1, estimators=2) for runs in (10, 100, 200)}
    write_board(boards[10], tmp_path, "x")  # imports and caches
    hundred, two_hundred = (calls(lambda runs=runs: write_board(boards[runs], tmp_path, "x")) for runs in (100, 200))
    assert two_hundred < 2.1 * hundred


def test_the_work_is_linear_in_settings(tmp_path):
    boards = {settings: drawn_board(2, settings=settings, policies=2, estimators=2) for settings in (2, 20, 40)}
    write_board(boards[2], tmp_path, "x")
    twenty, forty = (calls(lambda size=size: write_board(boards[size], tmp_path, "x")) for size in (20, 40))
    assert forty < 2.1 * twenty


def test_the_page_holds_the_numbers_of_the_json(tmp_path):
    board = with_error(drawn_board(3, estimators=2), 4, "ValueError: <b>no</b>")
    made = write_board(board, tmp_path, "x")
    assert json.loads((tmp_path / "leaderboard.json").read_text()) == json.loads(json.dumps(made))
    data = page_data(tmp_path)
    assert data["note"] == ""
    found = {}
    for block in data["cells"]:
        for place, run in enumerate(block["run"]):
            found[block["key"][place]] = (block, place, run)
    assert len(found) == len(made["cells"]) == 3 * 2 * 5 * 2
    for cell in made["cells"]:
        block, place, run = found[cell["key"]]
        assert (block["setting"], block["policy"], block["estimator"]) == tuple(
            cell[name] for name in ("setting", "policy", "estimator")
        )
        assert run == cell["run"] == cell["seed"] - made["first_seed"]  # how the page finds the seed
        for name in ("value", "low", "high", "standard_error", "effective_sample_size", "seconds"):
            assert block[name][place] == (None if cell[name] is None else pytest.approx(cell[name], rel=1e-5))
        assert block["verdict"][place] == (cell["verdict"] or "")[:1]
        assert block["error"].get(str(place)) == cell["error"]
        assert block["reasons"].get(str(place), []) == cell["reasons"]
        diagnostics = {
            name: column[place] for name, column in block["diagnostics"].items() if column[place] is not None
        }
        assert diagnostics == {
            name: value if isinstance(value, str | list) else pytest.approx(value, rel=1e-5)
            for name, value in cell["diagnostics"].items()
        }
    lines = [dict(zip(data["lines"]["names"], row, strict=True)) for row in data["lines"]["rows"]]
    assert [line["bias"] for line in lines] == [pytest.approx(line["bias"], rel=1e-5) for line in made["lines"]]


def test_a_cell_takes_less_than_150_bytes_of_a_large_page(tmp_path, monkeypatch):
    """100 000 cells are to stay under 15 MB: with a limit in proportion, 2000 cells stay under 0.3 MB."""
    monkeypatch.setattr(output, "LIMIT", output.LIMIT // 50)
    empty = drawn_board(20)
    write_board(Board(empty.suite, empty.jobs, {}), tmp_path, "x")
    before = (tmp_path / "index.html").stat().st_size
    made = write_board(drawn_board(20), tmp_path, "x")
    assert ((tmp_path / "index.html").stat().st_size - before) / len(made["cells"]) < 150
    data = page_data(tmp_path)
    assert data["note"].startswith("This board has 2,000 cells: the page has their values")
    assert sum(len(block["value"]) for block in data["cells"]) == 2000
    assert "diagnostics" not in data["cells"][0]


def test_a_board_of_too_many_cells_is_summarised(tmp_path, monkeypatch):
    """Tables over runs stay what they are; single cells are in the CSV alone."""
    board = drawn_board(4)
    whole = write_board(board, tmp_path, "x")
    rows = (tmp_path / "cells.csv").read_text()
    monkeypatch.setattr(document, "MOST_CELLS", 399)
    made = write_board(board, tmp_path, "x")
    assert made["lines"] == whole["lines"]
    assert made["cells"] == page_data(tmp_path)["cells"] == []
    assert (tmp_path / "cells.csv").read_text() == rows
    sentence = "This board has 400 cells, more than 399: they are in cells.csv and the store, and not listed here."
    assert sentence in (tmp_path / "leaderboard.md").read_text()
    assert page_data(tmp_path)["note"].startswith(sentence)


def test_a_large_board_leaves_details_to_the_store(tmp_path, monkeypatch):
    board = drawn_board(4)
    whole = write_board(board, tmp_path, "x")
    monkeypatch.setattr(document, "DETAILED", 399)
    made = write_board(board, tmp_path, "x")
    details = ("reasons", "warnings", "diagnostics")
    assert made["cells"] == [{k: v for k, v in cell.items() if k not in details} for cell in whole["cells"]]
    data = page_data(tmp_path)
    assert data["note"] == made["note"]
    assert made["note"].startswith("This board has 400 cells, more than 399: their reasons")
    assert sum(len(block["value"]) for block in data["cells"]) == 400


def test_a_page_over_its_limit_leaves_the_cells_out(tmp_path, monkeypatch):
    monkeypatch.setattr(output, "LIMIT", 1000)
    made = write_board(drawn_board(4), tmp_path, "x")
    assert len(made["cells"]) == 400  # the JSON has them
    data = page_data(tmp_path)
    assert data["cells"] == []
    assert data["note"].startswith("This board has 400 cells, too many for a page")


def test_headlines_are_columns_of_every_table(tmp_path):
    """Also where no floor is known, where they say –."""
    board = drawn_board(5, settings=1, estimators=2)
    references = {job.key: job for job in board.jobs if job.entry is None}
    for known in ({"truth": 0.0, "truth_error": 0.0, "floor": 0.5}, {"truth": 0.0, "truth_error": 0.0}):
        results = {
            key: result if key not in references else type(result)(key, known) for key, result in board.results.items()
        }
        made = write_board(Board(board.suite, board.jobs, results), tmp_path, "x")
        rows = list(csv.DictReader(io.StringIO((tmp_path / "leaderboard.csv").read_text())))
        heads = next(
            line
            for line in (tmp_path / "leaderboard.md").read_text().splitlines()
            if line.startswith("| |") or "| estimator |" in line
        )
        assert "| confidently wrong | reliable and covered |" in heads
        assert "wrong" in [column.header for table in terminal(made) for column in table.columns]
        assert page_data(tmp_path)["metrics"].keys() >= set(HEADLINES)
        for line, row in zip(made["lines"], rows, strict=True):
            cells = [cell for cell in made["cells"] if cell["estimator"] == line["estimator"]]
            sure = [cell for cell in cells if cell["verdict"] == "reliable"]
            outside = [cell for cell in sure if not cell["low"] <= 0 <= cell["high"]]
            wrong = [cell for cell in outside if abs(cell["value"]) > 3 * 0.5]
            assert line["reliable"] == len(sure) > 0
            assert row["reliable_and_covered"] == str(line["reliable_and_covered"][0])
            assert line["reliable_and_covered"][0] == pytest.approx(1 - len(outside) / len(sure))
            if "floor" in known:
                assert line["confidently_wrong"][0] == pytest.approx(len(wrong) / len(sure))
            else:
                assert line["confidently_wrong"] == [None, None]
                assert row["confidently_wrong"] == ""
    assert "| – |" in (tmp_path / "leaderboard.md").read_text()


def test_headlines_over_all_settings_are_pooled(tmp_path):
    """Nine of ten "reliable" answers of one setting and none of the single one of another: nine of eleven."""
    board = drawn_board(10, settings=2, policies=1, estimators=1)
    results = dict(board.results)
    for job in board.jobs:
        if job.entry is not None:
            first = job.setting.name == "mdp-0"
            low = 1.0 if job.run == 0 else -1.0
            verdict = "reliable" if first or job.run == 0 else "caution"
            outcome = {"value": 2.0, "interval": [low, 3.0], "verdict": verdict}
            results[job.key] = type(results[job.key])(job.key, outcome)
    made = write_board(Board(board.suite, board.jobs, results), tmp_path, "x")
    (line,) = made["overall"]
    assert line["reliable"] == 11
    assert line["reliable_and_covered"][0] == pytest.approx(9 / 11)
    assert line["confidently_wrong"][0] == pytest.approx(2 / 11)  # 2.0 is four floors off
