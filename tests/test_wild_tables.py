"""The tables of `benchmarks.wild` on rows whose answers are counted by hand."""

from dataclasses import replace

import pytest

from benchmarks._wild_tables import LEAST, Run, by_cell, geometric_mean, print_tables, rmse, summary, worse_than_plain
from benchmarks.wild import append_runs, read_runs

RUN = Run(
    task="Pendulum-v1",
    behaviour="near",
    episodes=50,
    cut=True,
    seed=0,
    gamma=1.0,
    per="step",
    estimator="auto",
    finite=False,
    truth=1.0,
    truth_error=0.0,
    floor=0.1,
    value=1.1,
    low=0.9,
    high=1.3,
    verdict="reliable",
)


def runs(*values, **fields):
    return [replace(RUN, seed=seed, value=value, **fields) for seed, value in enumerate(values)]


def test_errors_in_floors():
    assert rmse(runs(1.1, 0.9)) == pytest.approx(1)
    assert rmse(runs(1.3, 0.6)) == pytest.approx((12.5) ** 0.5)
    assert rmse(runs(1.2, 1.2, truth_error=0.1)) == pytest.approx(3**0.5)
    assert rmse(runs(1.05, truth_error=0.1)) == LEAST
    cells = [*runs(1.1), *runs(1.4, behaviour="mix")]
    assert len(by_cell(cells)) == 2
    assert geometric_mean(cells) == pytest.approx(2)


def test_coverage_allows_for_the_truths_own_error():
    assert RUN.covered
    outside = replace(RUN, low=1.1, high=1.3)
    assert not outside.covered
    assert replace(outside, truth_error=0.06).covered
    assert not replace(RUN, low=None, high=None).covered
    far = replace(outside, value=1.35)
    assert far.confidently_wrong
    assert not replace(far, verdict="caution").confidently_wrong
    assert not replace(far, value=1.25).confidently_wrong


def test_worse_than_the_better_plain_estimator():
    others = [*runs(1.1, estimator="naive"), *runs(1.2, estimator="onestep")]
    assert worse_than_plain(runs(1.12), others) == (0, 1)
    assert worse_than_plain(runs(1.14), others) == (1, 1)
    assert worse_than_plain(runs(1.14, verdict="unreliable"), others) == (0, 1)
    assert worse_than_plain(runs(1.14, behaviour="mix"), others) == (0, 0)


def test_the_summary_counts_runs_by_verdict():
    rows = [
        *runs(1.1, 1.0),
        *runs(1.4, behaviour="older", low=1.3, high=1.5),
        *runs(2.0, behaviour="poor", verdict="unreliable"),
        *runs(1.1, behaviour="mix", verdict="caution"),
        *runs(1.1, per="episode"),
    ]
    lines = summary(rows, rows)
    assert lines["near and mix, floors"] == f"{(0.5**0.5) ** 0.5:.2f}"
    assert lines["near, mix and older, floors"] == f"{(0.5**0.5 * 4) ** (1 / 3):.2f}"
    assert lines["reliable: covered"] == "67 % of 3"
    assert lines["reliable: confidently wrong"] == "33 % of 3"
    assert lines["caution: covered"] == "100 % of 1"
    assert lines["within 1.5 floors and called reliable"] == "67 % of 3"
    assert lines["poor logs called unreliable, continuous states"] == "100 % of 1"
    assert lines["return per episode: covered"] == "100 % of 1"


def test_rows_survive_the_file(tmp_path, capsys):
    failed = replace(RUN, value=None, low=None, high=None, verdict="", error="ValueError: no")
    append_runs(tmp_path / "runs.csv", [RUN])
    append_runs(tmp_path / "runs.csv", [failed])
    assert read_runs(tmp_path / "runs.csv") == [RUN, failed]
    print_tables([RUN, failed, replace(RUN, floor=0.0)])
    printed = capsys.readouterr().out
    assert "| Pendulum-v1, 50 cut | 1 | 1.0 / – / – / – |" in printed
    assert "without a value: auto (step): ValueError: no" in printed
