"""Runs that are killed, shared or sabotaged: nothing is left behind, nothing is done twice, nothing is lost."""

from __future__ import annotations

import csv
import json
import os
import socket
import time
from collections import Counter

import pytest

from ope_vpm.leaderboard.compute import compute, compute_group
from ope_vpm.leaderboard.jobs import Result, grouped, plan
from ope_vpm.leaderboard.output import write_board
from ope_vpm.leaderboard.runner import run_suite
from ope_vpm.leaderboard.store import LEASE, Claims, Store
from ope_vpm.leaderboard.suites import read_suite
from tests.leaderboard.boards import drawn_suite
from tests.leaderboard.conftest import computed, open_gate
from tests.leaderboard.processes import descendants, end, finish, kill, lives, start, stored, until

TASK = '[[tasks]]\nname = "mdp"\nkind = "random_mdp"\ntrajectories = 5\nlength = 10\n'


def write(path, estimators, runs, policies=1):
    (path / "own.toml").write_text(f"runs = {runs}\nestimators = {estimators}\n{TASK}policies = {policies}\n")
    return path / "own.toml"


@pytest.mark.slow
@pytest.mark.parametrize("name", ["busy", "constant"])
def test_a_killed_run_leaves_no_process_behind(trouble, tmp_path, name):
    """Neither one that sleeps nor one that is deep in C code; ten seconds later all are gone."""
    settings = "{}" if name == "busy" else "{ seconds = 1000 }"
    process = start(
        write(tmp_path, f'[{{ name = "{name}", settings = {settings} }}]', runs=4), tmp_path / "out", jobs=2
    )
    until(lambda: len({worker for _, worker, *_ in computed(trouble)}) == 2)
    started = descendants(process.pid)
    assert started >= {worker for _, worker, *_ in computed(trouble)}
    kill(process)
    try:
        until(lambda: not any(map(lives, started)), seconds=10)
    finally:
        end(started)


def test_an_estimator_that_misbehaves_is_a_failed_cell(trouble, tmp_path):
    suite = read_suite(str(write(tmp_path, '["naive", "rude"]', runs=15)))
    done = run_suite(suite, tmp_path / "out", workers=1)
    assert not done.interrupted
    assert done.computed == len(plan(suite))
    found = {job.seed: done.board.results[job.key] for job in done.board.jobs if job.entry and job.entry.name == "rude"}
    starts = {
        0: "SystemExit: that is all",
        1: "KeyboardInterrupt: me too",
        2: "GeneratorExit: and me",
        3: "ValueError: lone ? surrogate",
        4: "Speechless: (it has no text)",
        5: "ValueError: " + "x" * 2000,
        6: "AttributeError: ",
        7: "TypeError: an estimator's value must be a number or None: got 'high'",
        8: "OverflowError: ",
        9: "TypeError: an estimator's interval must be a pair of numbers or None: got [1.0, 2.0, 3.0]",
        10: "TypeError: an estimator's interval must be ",
        11: "TypeError: an estimator's verdict must be one of reliable, caution, unreliable: got 'splendid'",
        12: "TypeError: an estimator's standard_error must be a number or None: got [1.0]",
    }
    errors = {seed: result.error for seed, result in found.items() if result.error is not None}
    assert errors.keys() == starts.keys()
    assert all(errors[seed].startswith(text) for seed, text in starts.items())
    assert max(map(len, errors.values())) < 2100
    assert found[13].outcome["reasons"] == ["lone ? surrogate"]
    assert found[13].outcome["warnings"] == found[14].outcome["warnings"] == ["lone ? surrogate"]
    made = write_board(done.board, tmp_path / "out", "x")
    (line,) = [line for line in made["lines"] if line["estimator"] == "rude"]
    assert line["failed"] == 13


@pytest.mark.slow
def test_two_processes_share_the_work(trouble, tmp_path):
    """Without --resume, as somebody would start them in two terminals: each cell is computed once, both see all."""
    suite = write(tmp_path, '["gated"]', runs=24)
    first, second = start(suite, tmp_path / "out"), start(suite, tmp_path / "out")
    until(lambda: len({parent for parent, *_ in computed(trouble)}) == 2)  # both are at work on a cell
    open_gate(trouble)
    printed = [finish(first), finish(second)]
    assert Counter(seed for *_, seed in computed(trouble)) == dict.fromkeys(map(str, range(24)), 1)
    counts = [int(text.rpartition(" cells run")[0].split()[-1]) for text in printed]
    assert sum(counts) == 25  # with the reference
    assert min(counts) >= 1
    assert json.loads((tmp_path / "out" / "leaderboard.json").read_text())["missing"] == 0
    # Later, and alone, everything runs anew.
    assert "25 cells run" in finish(start(suite, tmp_path / "out", jobs=2))


@pytest.mark.slow
def test_the_work_of_a_process_that_is_killed_is_taken_over(trouble, tmp_path):
    suite = write(tmp_path, '["gated"]', runs=16)
    first, second = start(suite, tmp_path / "out"), start(suite, tmp_path / "out")
    until(lambda: len({parent for parent, *_ in computed(trouble)}) == 2)
    kill(first)
    open_gate(trouble)
    finish(second)
    made = json.loads((tmp_path / "out" / "leaderboard.json").read_text())
    assert (made["missing"], len(made["cells"])) == (0, 16)


def test_claims_end_with_their_owner(tmp_path):
    jobs = plan(drawn_suite(2, settings=1, policies=1, estimators=2))
    store, other = Store(tmp_path / "cells.sqlite"), Store(tmp_path / "cells.sqlite")
    with Claims(store, resume=True) as ours:
        assert ours.take(jobs[:2]) == jobs[:2]
        with Claims(other, resume=True) as theirs:
            assert theirs.take(jobs) == jobs[2:]
            store.save(jobs[0], Result(jobs[0].key, {"value": 1.0}))
            assert theirs.unfinished(jobs) == jobs[1:]
            assert theirs.take(jobs) == []
        assert ours.take(jobs) == jobs[2:]  # what they have left
    entry = "insert into owners values (?, ?, ?, ?)"
    claims = "insert or replace into claims values (?, ?, 0)"
    for host, pid, age, free in [
        (socket.gethostname(), os.getpid(), 0, False),
        (socket.gethostname(), 2**22 + 1, 0, True),  # beyond the largest process number
        ("elsewhere", 1, LEASE / 2, False),
        ("elsewhere", 1, LEASE + 1, True),
    ]:
        with store.writing() as connection:
            connection.execute("delete from owners")
            connection.execute(entry, ("somebody", host, pid, time.time() - age))
            connection.execute(claims, (jobs[1].key, "somebody"))
        with Claims(other, resume=True) as claims_now:
            assert claims_now.take(jobs[1:2]) == (jobs[1:2] if free else [])


@pytest.mark.slow
def test_five_kills_change_nothing(trouble, tmp_path):
    suite = write(tmp_path, '["naive", "vpm", { name = "constant", settings = { seconds = 0.25 } }, "fails"]', runs=10)
    finish(start(suite, tmp_path / "whole"))
    total = stored(tmp_path / "whole")
    for number in range(1, 6):
        process = start(suite, tmp_path / "killed", "--resume")
        until(lambda number=number: stored(tmp_path / "killed") >= number * 4)
        kill(process)
    assert stored(tmp_path / "killed") < total
    assert f"{total} cells run" not in finish(start(suite, tmp_path / "killed", "--resume"))
    assert _untimed(tmp_path / "whole") == _untimed(tmp_path / "killed")


def _untimed(folder):
    """Every file of a board as text, with what tells of time taken out."""
    made = json.loads((folder / "leaderboard.json").read_text())
    for entry in (*made["lines"], *made["overall"], *made["cells"]):
        entry["seconds"] = None
    made["made"] = None
    tables = {}
    for name in ("cells.csv", "leaderboard.csv"):
        with (folder / name).open(newline="") as stream:
            rows = list(csv.reader(stream))
        timed = {place for place, head in enumerate(rows[0]) if head.startswith("seconds")}
        tables[name] = [[entry for place, entry in enumerate(row) if place not in timed] for row in rows]
    return json.dumps(made), tables


def test_a_group_is_computed_as_its_jobs_are_singly(tmp_path, monkeypatch):
    """One log for all estimators of a run, made once; the answers are those of a log of one's own."""
    suite = read_suite(str(write(tmp_path, '["naive", "vpm", "wist", "fqe"]', runs=2, policies=2)))
    jobs = plan(suite)
    groups = list(grouped(jobs, 100))
    assert [len(group) for group in groups] == [1, 1, 4, 4, 4, 4]
    assert [len(group) for group in grouped(jobs, 3)] == [1, 1, 3, 1, 3, 1, 3, 1, 3, 1]
    made = []
    task = type(suite.settings[0].task)
    original = task.dataset
    monkeypatch.setattr(task, "dataset", lambda self, seed: made.append(seed) or original(self, seed))
    together = {result.key: result.outcome for group in groups for result in compute_group(group)}
    assert made == [0, 0, 1, 1]  # of two policies and two runs
    assert together == {job.key: compute(job).outcome for job in jobs}


def test_a_long_group_hands_in_what_it_has(tmp_path, monkeypatch):
    """So that a kill loses seconds of work, not a group's; the rest is computed later."""
    suite = read_suite(str(write(tmp_path, '["naive", "vpm", "wist"]', runs=1)))
    (group,) = [group for group in grouped(plan(suite), 100) if len(group) > 1]
    monkeypatch.setattr("ope_vpm.leaderboard.compute.PATIENCE", -1.0)
    assert [result.key for result in compute_group(group)] == [group[0].key]


def test_a_log_that_cannot_be_made_fails_every_cell_of_its_group(tmp_path, monkeypatch):
    suite = read_suite(str(write(tmp_path, '["naive", "vpm"]', runs=1)))
    (group,) = [group for group in grouped(plan(suite), 100) if len(group) > 1]
    monkeypatch.setattr(type(suite.settings[0].task), "dataset", lambda self, seed: 1 / 0)
    assert [result.error for result in compute_group(group)] == ["ZeroDivisionError: division by zero"] * 2


def test_a_suite_of_too_many_cells_is_refused(tmp_path):
    suite = drawn_suite(10**12, settings=2, policies=5, estimators=10)
    with pytest.raises(ValueError, match="at most 2,000,000 cells: drawn has 100,000,000,000,000"):
        run_suite(suite, tmp_path / "out")
    assert not (tmp_path / "out").exists()
