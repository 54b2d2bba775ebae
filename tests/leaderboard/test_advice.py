"""Which estimator to trust, ranking on common settings, and estimators that agree by construction."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from ope_vpm.leaderboard.document import alike, document, trusted
from ope_vpm.leaderboard.jobs import Result, plan
from ope_vpm.leaderboard.metrics import METRICS, Line, behind, lines, overall
from ope_vpm.leaderboard.output import write_board
from ope_vpm.leaderboard.records import Board
from ope_vpm.leaderboard.suite_files import SuiteError
from ope_vpm.leaderboard.suites import read_suite
from ope_vpm.leaderboard.tables import markdown
from tests.leaderboard import browser as chromium
from tests.leaderboard.boards import drawn_suite

RUNS = 12


def line(name, ratio, wrong, reliable=40, **changed):
    numbers = dict.fromkeys(METRICS, (None, None)) | {
        "ratio": (ratio, 0.1),
        "log_mse": (-2.0, 0.1),
        "confidently_wrong": (wrong, 0.0),
    }
    counts = {"confidently_wrong": reliable, "reliable_and_covered": reliable}
    return replace(Line(name, None, numbers, 5, settings=3, reliable=counts), **changed)


def test_the_sentence_names_the_safest_of_those_that_are_level():
    total = [line("dr", 1.1, 0.2, best=True), line("vpm", 1.2, 0.0, p_value=0.3), line("naive", 9.0, 0.0, p_value=0.01)]
    assert trusted(total, 3) == (
        "Here, trust vpm: its error is 1.2 times that of an on-policy mean of as many episodes, over all 3 settings, "
        "and none of its 40 answers called reliable was confidently wrong. "
        "dr has the lowest error, but 20.0% of its 40 answers called reliable were confidently wrong."
    )
    risky = trusted([line("dr", 1.1, 0.2, best=True)], 1)
    assert risky.endswith("episodes, but 20.0% of its 40 answers called reliable were confidently wrong.")
    assert "called none of its answers reliable" in trusted([line("dr", 1.1, None, 0, best=True)], 1)


def test_of_equally_safe_ones_the_sentence_names_who_ran_everywhere():
    total = [
        line("fqe", 0.9, 0.0, p_value=0.5, settings=1),
        line("vpm", 1.2, 0.0, best=True),
        line("dr", 1.3, 0.0, p_value=0.4),
    ]
    assert trusted(total, 3).startswith("Here, trust vpm: its error is 1.2 times")
    assert trusted(total, 3).endswith(" fqe and dr are not significantly worse where they ran.")
    total[1] = line("vpm", 1.2, 0.2, best=True)
    assert trusted(total, 3).startswith("Here, trust dr:")


def test_few_runs_can_tell_nobody_apart():
    total = [line("vpm", 1.2, 0.0, best=True, runs=4), line("naive", 9.0, 0.0, p_value=0.0625, runs=4)]
    assert trusted(total, 3) == (
        "Here, vpm comes nearest: its error is 1.2 times that of an on-policy mean of as many episodes, over all 3 "
        "settings, and none of its 40 answers called reliable was confidently wrong. 4 runs can tell nobody apart, "
        "5 or more might."
    )


def test_the_sentence_where_nothing_is_known():
    unknown = Line("vpm", None, dict.fromkeys(METRICS, (None, None)), 1)
    assert trusted([unknown], 1).startswith("No truth is known here")
    assert trusted([line("vpm", 1.0, 0.0)], 1) == "Too little is finished to say which estimator to trust."


def board_of(errors, tasks=None):
    """A board on two settings whose estimators are off by `scale × noise`; the second setting is 100 times harder."""
    suite = drawn_suite(RUNS, settings=2, policies=2, estimators=1)
    entries = tuple(
        replace(suite.entries[0], label=label, settings={"seed": number}, tasks=(tasks or {}).get(label, ()))
        for number, label in enumerate(errors)
    )
    suite = replace(suite, entries=entries)
    jobs, results = plan(suite), {}
    for job in jobs:
        hard = 100.0 if job.setting.name == "mdp-1" else 1.0
        rng = np.random.default_rng([job.run, len(job.policy), int(hard)])
        noise = rng.standard_normal()
        outcome = {"truth": 0.0, "truth_error": 0.0, "floor": 0.5}
        if job.entry is not None:
            value = float(errors[job.entry.label] * hard * noise)
            outcome = {"value": value, "interval": [value - 1, value + 1], "verdict": "reliable"}
        results[job.key] = Result(job.key, outcome)
    return Board(suite, jobs, results)


def test_who_ran_on_some_settings_is_ranked_on_these():
    board = board_of({"best": 1.0, "worst": 30.0, "some": 2.0}, {"some": ("mdp-1",)})
    ranked = overall(board, lines(board))
    assert [one.estimator for one in ranked] == ["best", "some", "worst"]
    best, some, worst = ranked
    assert some.numbers["ratio"][0] > 10 * best.numbers["ratio"][0]  # it only ran where it is hard
    assert behind(best, some) == pytest.approx(np.log10(2))
    assert behind(best, worst) == pytest.approx(np.log10(30))
    assert (some.settings, some.level, some.p_value < 0.05) == (1, False, True)


def test_the_first_row_is_the_one_that_the_sentence_names():
    """An estimator that is ahead on a few settings comes after it, with the number by which it is ranked."""
    board = board_of({"some": 0.99, "best": 1.0, "worst": 30.0}, {"some": ("mdp-1",)})
    ranked = overall(board, lines(board))
    assert [one.estimator for one in ranked] == ["best", "some", "worst"]
    assert [one.against_best for one in ranked] == pytest.approx([1, 0.99, 30])
    assert trusted(ranked, 2).startswith("Here, trust best:")
    table = markdown(document(board, lines(board), ranked, "made for a test"))
    rows = [[cell.strip() for cell in row.split("|")[1:4]] for row in table.splitlines() if row.startswith("|")]
    first, _, *found = rows[:5]
    assert first == ["", "estimator", "error ÷ ★"]
    assert [row[1:] for row in found] == [["best", "1"], ["some (1 of 2 settings)", "0.99"], ["worst", "30"]]


def test_estimators_that_agree_in_every_cell_are_a_group():
    board = board_of({"one": 1.0, "two": 1.0 + 1e-9, "three": 1.001})
    assert alike(board, [0, 1]) == [["one", "two"]]
    apart = board_of({"one": 1.0, "two": 1.0, "three": 1.0}, {"two": ("mdp-0",)})
    assert alike(apart, [0]) == [["one", "two", "three"]]
    assert alike(apart, [0, 1]) == [["one", "three"]]


def test_missing_files_are_told_beside_other_mistakes(tmp_path):
    (tmp_path / "bad.toml").write_text(
        'estimators = ["vpm"]\n[[tasks]]\nname = "own"\nkind = "files"\ndataset = "gone.npz"\nlenght = 3\n'
        'policies = { a = "missing.npy" }\n'
    )
    with pytest.raises(SuiteError) as raised:
        read_suite(str(tmp_path / "bad.toml"))
    assert len(raised.value.problems) == 3
    assert [name in str(raised.value) for name in ("lenght", "gone.npz", "missing.npy")] == [True] * 3


@pytest.mark.slow
@pytest.mark.skipif(chromium.missing() is not None, reason=str(chromium.missing()))
def test_the_page_says_it_in_chromium(tmp_path):
    names = ["one", "two-by-another-longer-name", *(f"other-{number}" for number in range(10))]
    errors = dict.fromkeys(names[:2], 1.0) | {name: 2.0 + number for number, name in enumerate(names[2:])}
    board = board_of(errors)
    write_board(board, tmp_path, "made for a test")
    with chromium.browser(tmp_path / "profile") as page:
        page.screen(390)
        page.open(tmp_path / "index.html")
        assert "Here, trust one:" in page.script("return document.querySelector('.trusted').innerText")
        assert page.script("return document.querySelector('.trusted').getBoundingClientRect().top") < 300
        # The line about those that agree stays in its cell, and does not cover its neighbour's number.
        assert page.script("const line = document.querySelector('.alike'); return line.scrollWidth <= line.clientWidth")
        # What the columns mean can be read without a pointer that hovers.
        meant = page.script("return document.querySelector('#meanings dl').textContent")
        assert "Share of 95 % intervals that hold the truth" in meant
        # Eight colours at most, the others grey until chosen.
        swatches = (
            "[...document.querySelectorAll('#ranking .swatch')].map(one => getComputedStyle(one).backgroundColor)"
        )
        before = page.script(f"return {swatches}")
        assert len(before) == len(names) - 1  # the two that agree are one row
        grey = max(before, key=before.count)
        assert len(set(before) - {grey}) == 8
        page.click("#ranking tbody tr:last-child .swatch")
        after = page.script(f"return {swatches}")
        assert after[-1] != grey
        assert len(set(after) - {grey}) == 8
        page.click(".alike")
        assert len(page.script(f"return {swatches}")) == len(names)
        # A page on a desk fits its width, and a button brings the other columns.
        page.screen(1280)
        page.open(tmp_path / "index.html")
        assert page.script(
            "const t = document.querySelector('#ranking'); return t.offsetWidth <= t.parentElement.clientWidth"
        )
        heads = "return document.querySelectorAll('#ranking th').length"
        few = page.script(heads)
        page.click("#columns")
        assert page.script(heads) > few
        assert page.console() == []


@pytest.mark.slow
@pytest.mark.skipif(chromium.missing() is not None, reason=str(chromium.missing()))
def test_a_given_truth_is_a_truth_also_without_a_floor(tmp_path):
    board = board_of({"one": 1.0, "two": 2.0, "three": 3.0})
    for job in board.jobs:
        if job.entry is None:
            board.results[job.key].outcome["floor"] = None
    made = write_board(board, tmp_path, "made for a test")
    assert made["trusted"].startswith("Here, trust one: its errors are the smallest")
    with chromium.browser(tmp_path / "profile") as page:
        page.open(tmp_path / "index.html")
        assert "No truth" not in page.script("return document.getElementById('explanation').innerText")
        assert "log₁₀ MSE" in page.script("return document.getElementById('ranking').innerText")
