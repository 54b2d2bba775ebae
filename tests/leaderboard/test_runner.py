"""Cells are stored one by one: failures are rows, what is finished is not run again, nothing is lost."""

from __future__ import annotations

import json
import os
import signal
import sqlite3
import subprocess
import sys

import numpy as np
import pytest

from ope_vpm.leaderboard.backends import DIED, run
from ope_vpm.leaderboard.compute import compute
from ope_vpm.leaderboard.jobs import Result, plan
from ope_vpm.leaderboard.metrics import lines, overall
from ope_vpm.leaderboard.output import write_board
from ope_vpm.leaderboard.records import Board
from ope_vpm.leaderboard.runner import STORE, run_suite
from ope_vpm.leaderboard.store import Store
from ope_vpm.leaderboard.suites import read_suite
from ope_vpm.leaderboard.tasks import on_policy_mean
from tests.leaderboard.processes import start, stored, until

TASK = '[[tasks]]\nname = "mdp"\nkind = "random_mdp"\ntrajectories = 5\nlength = 10\n'


@pytest.fixture
def suite(tmp_path):
    def write(estimators, runs=3, policies=1):
        file = tmp_path / "own.toml"
        file.write_text(f"runs = {runs}\nestimators = {estimators}\n{TASK}policies = {policies}\n")
        return read_suite(str(file))

    return write


def numbers(board):
    """Every cell's value, which does not depend on who computed it."""
    return {key: result.outcome.get("value") for key, result in board.results.items()}


def test_only_what_is_missing_runs_and_a_failing_cell_is_a_row(suite, trouble, tmp_path):
    before = plan(suite('["naive", "vpm"]', runs=2))
    (tmp_path / "out").mkdir()
    store = Store(tmp_path / "out" / STORE)
    for job in before:
        store.save(job, compute(job))
    found = suite('["naive", "fails", "kills", "vpm"]')
    done = run_suite(found, tmp_path / "out", workers=1, resume=True)
    assert done.computed == len(plan(found)) - len(before)
    errors = [(job.entry.label, job.seed, done.board.results[job.key].error) for job in done.board.jobs if job.entry]
    assert [row for row in errors if row[2]] == [("fails", 1, "KeyError: '<b>seed one</b>'"), ("kills", 1, DIED)]
    honest = [job for job in done.board.jobs if job.entry is None or job.entry.label in ("naive", "vpm")]
    assert all(done.board.results[job.key].outcome == compute(job).outcome for job in honest)  # wherever it ran
    by_name = {line.estimator: line for line in lines(done.board)}
    assert (by_name["fails"].failed, by_name["fails"].runs, by_name["fails"].best) == (1, 2, False)
    assert sum(line.best for line in by_name.values()) == 1
    # Resuming once more finds nothing to do; the failures stay what they are.
    again = run_suite(found, tmp_path / "out", workers=1, resume=True)
    assert again.computed == 0
    assert numbers(again.board) == numbers(done.board)
    made = write_board(again.board, tmp_path / "out", "x")
    assert sum(cell["error"] is not None for cell in made["cells"]) == 2


def test_ctrl_c_keeps_what_is_finished(trouble, suite, tmp_path):
    found = suite('["naive", { name = "constant", settings = { seconds = 0.6 } }]', runs=6)
    process = start(tmp_path / "own.toml", tmp_path / "out")
    until(lambda: stored(tmp_path / "out") >= 5)
    os.killpg(process.pid, signal.SIGINT)  # as a terminal does it: the workers get it too
    out, error = process.communicate(timeout=60)
    assert process.returncode == 130, error
    assert "Traceback" not in error
    assert "interrupted: --resume goes on from here" in error
    assert "naive" in out
    made = json.loads((tmp_path / "out" / "leaderboard.json").read_text())
    kept = stored(tmp_path / "out")
    assert 5 <= kept < len(plan(found))
    assert len(made["cells"]) == kept - 1  # one of them is the reference


WRITER = """
import sys
from ope_vpm.leaderboard.jobs import Result, plan
from ope_vpm.leaderboard.store import Store
from ope_vpm.leaderboard.suites import read_suite
from ope_vpm.leaderboard.tasks import on_policy_mean
jobs = plan(read_suite(sys.argv[1]))
store = Store(sys.argv[2])
for _ in range(10):
    for job in jobs:
        store.save(job, Result(job.key, {"value": job.seed}))
"""


def test_two_processes_write_one_store(suite, tmp_path):
    jobs = plan(suite('["naive", "vpm"]', runs=10))
    arguments = [str(tmp_path / "own.toml"), str(tmp_path / "both.sqlite")]
    writers = [subprocess.Popen([sys.executable, "-c", WRITER, *arguments]) for _ in range(2)]
    assert [writer.wait(timeout=100) for writer in writers] == [0, 0]
    with sqlite3.connect(tmp_path / "both.sqlite") as connection:
        assert connection.execute("pragma integrity_check").fetchone() == ("ok",)
    found = Store(tmp_path / "both.sqlite").load(job.key for job in jobs)
    assert {job.key: job.seed for job in jobs} == {key: result.outcome["value"] for key, result in found.items()}


def test_a_store_that_is_none_is_told(tmp_path):
    (tmp_path / "broken.sqlite").write_bytes(b"not a database, but long enough to look like a file" * 20)
    with pytest.raises(OSError, match=r"broken\.sqlite: file is not a database"):
        Store(tmp_path / "broken.sqlite")
    with sqlite3.connect(tmp_path / "other.sqlite") as connection:
        connection.execute("pragma user_version = 99")
    with pytest.raises(ValueError, match="another version"):
        Store(tmp_path / "other.sqlite")


def test_a_full_disk_ends_with_a_sentence(suite, tmp_path):
    store = Store(tmp_path / "full.sqlite")
    store._connection.execute("pragma max_page_count = 8")
    jobs = plan(suite('["naive"]', runs=200))

    def save_all():
        for job in jobs:
            store.save(job, Result(job.key, {"value": "x" * 200}))

    with pytest.raises(OSError, match=r"database or disk is full .*--resume"):
        save_all()
    assert 0 < len(store.load(job.key for job in jobs)) < len(jobs)


def test_backends_are_known_by_name():
    with pytest.raises(ValueError, match="did you mean 'loky'"):
        run([], backend="lokky")
    with pytest.raises(ValueError, match="at least one job"):
        run([], workers=0)


def test_the_table_of_a_board_with_known_answers(suite, trouble):
    """The made-up estimator says 7, 8, 9: its numbers follow by hand."""
    found = suite('["naive", "constant"]', policies=4)
    jobs = plan(found)
    board = Board(found, jobs, {job.key: compute(job) for job in jobs})
    known = board.known(found.settings[0])
    truth, floor = known.truth, known.floor
    line = next(line for line in lines(board) if line.estimator == "constant")
    error = np.array([7.0, 8.0, 9.0])[:, None] - truth
    assert line.numbers["bias"] == pytest.approx((error.mean(), 1 / np.sqrt(3)))
    assert line.numbers["ratio"][0] == pytest.approx(np.prod(np.sqrt((error**2).mean(axis=0)) / floor) ** (1 / 4))
    assert line.numbers["coverage"] == (((truth >= 0) & (truth <= 100)).mean(), 0.0)
    assert line.numbers["width"] == (100.0, 0.0)
    assert line.numbers["rank_correlation"][0] == 0
    # Taking one of four at random, and the best of a random three.
    low, _, third, best = np.sort(truth)
    assert line.numbers["regret_1"][0] == pytest.approx((best - truth.mean()) / (best - low))
    assert line.numbers["regret_3"][0] == pytest.approx((best - third) / 4 / (best - low))
    assert line.numbers["verdicts_right"] == (None, None)  # it always says "caution"
    assert line.p_value == 2**-3
    winner, other = overall(board, lines(board))
    assert (winner.estimator, winner.best, other.level) == ("naive", True, True)
    assert other.numbers["ratio"] == pytest.approx(line.numbers["ratio"])


def test_truth_and_floor_of_a_reference(suite):
    task = suite('["naive"]').settings[0].task
    found = task.reference("target-1", 1.0)
    assert found.truth == task.truth("target-1", 1.0)
    errors = [on_policy_mean(task.on_policy("target-1", seed), 1.0) - found.truth for seed in range(400)]
    assert found.floor == pytest.approx(np.sqrt(np.mean(np.square(errors))), rel=0.2)
