"""The page in a real Chromium: it sorts, filters, opens cells, fits a phone, and lets nothing from outside run."""

from __future__ import annotations

import csv
import io
import json
import re

import numpy as np
import pytest

from ope_vpm.envs.random_mdp import RandomMDP
from ope_vpm.leaderboard.compute import compute
from ope_vpm.leaderboard.jobs import plan
from ope_vpm.leaderboard.output import dumps, in_script, write_board
from ope_vpm.leaderboard.records import Board
from ope_vpm.leaderboard.suites import read_suite
from ope_vpm.leaderboard.tables import rankings
from tests.leaderboard import browser as chromium
from tests.leaderboard.conftest import trouble_in

HOSTILE = "</script><script>window.broken=1</script><img src=x onerror=window.broken=1>|=1+1"
SUITE = f"""
title = '{HOSTILE}'
description = '{HOSTILE}'
runs = 2
estimators = ["naive", "vpm", "wiss", "fails", {{ name = "constant", label = '={HOSTILE}' }}]
[[tasks]]
name = '{HOSTILE}'
kind = "random_mdp"
policies = 4
trajectories = [5, 10]
length = 10
[[tasks]]
name = "second"
kind = "random_mdp"
mdp_seed = 1
policies = 3
trajectories = 6
length = 10
gamma = 0.9
[[tasks]]
name = "own"
kind = "files"
dataset = "log.npz"
policies = {{ '{HOSTILE}' = "old.npy", new = "new.npy" }}
"""


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    """Where the page is, with its tables."""
    path = tmp_path_factory.mktemp("page")
    mdp = RandomMDP.draw(5, 2, seed=0)
    mdp.dataset(20, 30, mdp.policy(1), seed=2).save(path / "log.npz")
    np.save(path / "old.npy", mdp.policy(3))
    np.save(path / "new.npy", mdp.policy(4))
    (path / "own.toml").write_text(SUITE)
    with trouble_in(path):
        suite = read_suite(str(path / "own.toml"))
        jobs = plan(suite)
        board = Board(suite, jobs, {job.key: compute(job) for job in jobs})
    write_board(board, path, f"ope-vpm leaderboard {HOSTILE}")
    return path


@pytest.fixture(scope="module")
def made(folder):
    return json.loads((folder / "leaderboard.json").read_text())


ROWS = "return [...document.querySelectorAll('#ranking tbody tr')].map(row => row.cells[{0}].innerText.split('\\n')[0])"
HEADS = "return [...document.querySelectorAll('#ranking thead th')].map(head => head.innerText.trim())"


@pytest.mark.slow
@pytest.mark.skipif(chromium.missing() is not None, reason=str(chromium.missing()))
def test_the_page_in_chromium(made, folder, tmp_path):
    with chromium.browser(tmp_path) as page:
        page.screen(1280)
        page.open(folder / "index.html")
        assert page.console() == []
        labels = [one["label"] for one in made["estimators"]]
        expected = [line["estimator"] for line in made["overall"]]
        assert sorted(page.script(ROWS.format(0))) == sorted(labels)
        # The ranking: by the ratio, then by seconds, then downwards.
        column = page.script(HEADS).index("seconds")
        for down in (False, True):
            page.click(f"#ranking thead th:nth-child({column + 1}) button")
            shown = page.script(ROWS.format(0))
            known = [line for line in made["overall"] if line["seconds"][0] is not None]
            known.sort(key=lambda line: line["seconds"][0], reverse=down)
            assert shown[: len(known)] == [line["estimator"] for line in known]
        assert set(expected) == set(shown)
        # A chip takes an estimator away, from the table and from every figure, and brings it back.
        dots = "return document.querySelectorAll('svg circle').length"
        before = page.script(dots)
        page.click("#chips button[data-estimator=vpm]")
        assert "vpm" not in page.script(ROWS.format(0))
        assert 0 < page.script(dots) < before
        page.click("#chips button[data-estimator=vpm]")
        assert page.script(dots) == before
        # The filter by task.
        page.script("const s = document.getElementById('task'); s.value = 'second'; s.onchange()")
        assert set(page.script(ROWS.format(2))) == {"second, n=6, T=10, α=0, γ=0.9"}
        # A cell opens to what made it.
        page.click("#cells tbody tr")
        opened = page.script("return document.querySelector('td.details').innerText")
        cell = next(cell for cell in made["cells"] if made["settings"][cell["setting"]]["task"] == "second")
        assert cell["key"] in opened
        assert "seed" in opened
        # Without truth: policies with intervals and agreement, and it says why nothing is ranked.
        page.script("const s = document.getElementById('task'); s.value = 'own'; s.onchange()")
        assert "No truth is known" in page.script("return document.getElementById('explanation').innerText")
        assert page.script("return document.querySelectorAll('#agreement tbody tr').length") >= 4
        assert page.script("return document.querySelectorAll('#close circle').length") > 4
        # Nothing from outside ran, nothing was fetched, nothing complained.
        assert page.script("return [window.broken, document.querySelectorAll('img').length]") == [None, 0]
        assert page.script("return performance.getEntriesByType('resource').length") == 0
        assert page.console() == []


@pytest.mark.slow
@pytest.mark.skipif(chromium.missing() is not None, reason=str(chromium.missing()))
def test_phone_and_dark(folder, tmp_path):
    with chromium.browser(tmp_path) as page:
        colours = {}
        for dark in (False, True):
            page.screen(390, dark)
            page.open(folder / "index.html")
            assert page.script("return document.documentElement.scrollWidth <= innerWidth")  # only tables scroll
            assert page.script(
                "return [...document.querySelectorAll('figure')].every(f => f.offsetWidth <= innerWidth)"
            )
            style = "const s = getComputedStyle(document.body); return [s.backgroundColor, s.color]"
            back, ink = (sum(map(int, re.findall(r"\d+", text)[:3])) / 3 for text in page.script(style))
            colours[dark] = (back, ink)
        assert colours[False][0] > 230 > 60 > colours[False][1]
        assert colours[True][0] < 60 < 200 < colours[True][1]
        assert page.console() == []


def test_what_comes_from_outside_is_escaped(made, folder):
    text = (folder / "index.html").read_text()
    assert "<script>window" not in text
    assert "<img" not in text
    assert text.count("</script>") == 2
    data = re.search(r'<script type="application/json" id="data">(.*?)</script>', text, re.DOTALL).group(1)
    assert json.loads(data)["title"] == HOSTILE
    assert json.loads(in_script(dumps({"x": "\u2028<&>"}))) == {"x": "\u2028<&>"}
    assert not re.search(r"(?:src|href)\s*=\s*[\"']?(?:https?:)?//", text)
    markdown = re.sub("`[^`]*`", "", (folder / "leaderboard.md").read_text())  # code spans hold no HTML
    assert "<script" not in markdown.replace("\\<", "")
    for table in re.findall(r"(?:^\|.*\n)+", markdown, re.MULTILINE):
        assert len({len(re.findall(r"(?<!\\)\|", row)) for row in table.splitlines()}) == 1  # no name adds a column
    rows = list(csv.DictReader(io.StringIO((folder / "cells.csv").read_text())))
    assert {row["estimator"] for row in rows} >= {"vpm", f"'={HOSTILE}"}  # a spreadsheet sees text, not a formula
    assert len(rows) == len(made["cells"])


def test_without_truth_policies_are_ranked_with_their_intervals(made, folder):
    ((label, heads, rows),) = rankings(made)
    assert label == "own, γ=1"
    cells = [cell for cell in made["cells"] if made["settings"][cell["setting"]]["task"] == "own"]
    mean = {name: np.mean([cell["value"] for cell in cells if cell["policy"] == name]) for name in (HOSTILE, "new")}
    assert heads == ["estimator", *sorted(mean, key=mean.get, reverse=True)]
    (vpm,) = [cell for cell in cells if cell["estimator"] == "vpm" and cell["policy"] == heads[1]]
    text = f"{vpm['value']:.4g} [{vpm['low']:.4g}, {vpm['high']:.4g}] {vpm['verdict']}"
    assert text in next(row for row in rows if row[0] == "vpm")
    assert text.partition(" ")[0] in (folder / "leaderboard.md").read_text()


def test_csv_holds_the_same_numbers(made, folder):
    rows = list(csv.DictReader(io.StringIO((folder / "leaderboard.csv").read_text())))
    assert len(rows) == len(made["lines"]) == 4 * 5
    for row, line in zip(rows, made["lines"], strict=True):
        assert row["bias"] == ("" if line["bias"][0] is None else str(line["bias"][0]))
        assert row["failed"] == str(line["failed"])
