"""Mutants of sound files: read, or refused in one sentence; no other exception, crash, hang or growth.

Fifty mutants of every reader are tried with the other tests; `make slow` tries 1000 others.
"""

import json
import os
import subprocess
import sys
from collections import Counter

import pytest

from tests.fuzz.readers import GROUPS, READERS

MOST_SECONDS = 10
MOST_MEGABYTES = 1000


def results(names, folder, first, last):
    """What every mutant did; where a process ends early, the next mutant killed it, and another process goes on."""
    left = [(name, number) for name in names for number in range(first, last)]
    done = []
    while left:
        jobs = [f"{name}:{min(n for m, n in left if m == name)}:{last}" for name in dict(left)]
        environment = os.environ | {"PYTHONPATH": os.pathsep.join(sys.path), "OMP_NUM_THREADS": "1"}
        command = [sys.executable, "-m", "tests.fuzz.worker", str(folder), *jobs]
        process = subprocess.run(command, capture_output=True, text=True, env=environment, check=False)
        lines = [json.loads(line) for line in process.stdout.splitlines()]  # nobody else writes to stdout
        done, left = done + lines, left[len(lines) :]
        if left:
            assert done, process.stderr[-2000:]
            outcome = "hang" if "Timeout (" in process.stderr else "crash"
            message = f"exit code {process.returncode}: {process.stderr[-300:]}"
            ended = {"outcome": outcome, "message": message, "seconds": 0.0, "megabytes": 0}
            done.append({"reader": left[0][0], "number": left[0][1], **ended})
            left = left[1:]
    return done


def check(group, folder, first, last):
    """Try the mutants of a group of readers; returns a count of outcomes for each."""
    for name in GROUPS[group]:
        (folder / name / "sound").mkdir(parents=True)
        READERS[name].make(folder / name / "sound")
    done = results(GROUPS[group], folder, first, last)
    return {name: _check([one for one in done if one["reader"] == name], name) for name in GROUPS[group]}


def _check(done, name):
    counts = Counter(result["outcome"] for result in done)
    slowest = max(result["seconds"] for result in done)
    largest = max(result["megabytes"] for result in done)
    print(f"{name}: {dict(counts)}, slowest {slowest} s, growth at most {largest} MB")
    allowed = {"read", "refused", "refused in use"}
    wrong = [result for result in done if result["outcome"] not in allowed]
    assert not wrong, wrong[:5]
    assert all("\n" not in result["message"] for result in done if name != "suite .toml"), "a message of many lines"
    assert slowest < MOST_SECONDS
    assert largest < MOST_MEGABYTES
    return counts


def test_a_reader_that_opens_other_files_or_runs_something_is_noticed(tmp_path):
    code = (
        "import os, sys; from pathlib import Path;"
        "from tests.fuzz.readers import Reader; from tests.fuzz import worker;"
        "place = Path(sys.argv[1]); watch = worker.Watch();"
        "reads = [lambda p: open(p / 'own').read(), lambda p: open('/etc/passwd').read(), lambda p: os.system('true')];"
        "print([worker._result(Reader(None, (), read), place, watch)['outcome'] for read in reads])"
    )
    (tmp_path / "own").write_text("mine")
    environment = os.environ | {"PYTHONPATH": os.pathsep.join(sys.path)}
    command = [sys.executable, "-c", code, str(tmp_path)]
    printed = subprocess.run(command, capture_output=True, text=True, env=environment, check=True).stdout
    assert printed.strip() == "['read', 'outside', 'outside']"


@pytest.mark.parametrize("group", GROUPS)
def test_fifty_mutants(group, tmp_path):
    for name, counts in check(group, tmp_path, 0, 50).items():
        assert sum(counts.values()) == 50
        assert counts["refused"] >= 5, f"the mutants must damage the file of {name}"


@pytest.mark.long
@pytest.mark.parametrize("group", GROUPS)
def test_a_thousand_mutants(group, tmp_path):
    for counts in check(group, tmp_path, 50, 1050).values():
        assert sum(counts.values()) == 1000
