"""Real runs of the command in processes of their own, and what becomes of the processes they start."""

from __future__ import annotations

import os
import signal
import sqlite3
import subprocess
import sys
import time
from collections.abc import Iterable
from pathlib import Path

from ope_vpm.leaderboard.runner import STORE


def start(suite: Path, output: Path, *arguments: str, jobs: int = 1) -> subprocess.Popen:
    """`ope-vpm leaderboard` on a suite, in a session of its own as a terminal would give it."""
    command = [
        "ope-vpm",
        "leaderboard",
        "--suite",
        str(suite),
        "--output",
        str(output),
        "--jobs",
        str(jobs),
        *arguments,
    ]
    code = f"""
import signal, sys
signal.signal(signal.SIGINT, signal.default_int_handler)  # as in a terminal; tests in the background inherit SIG_IGN
sys.argv = {command!r}
from ope_vpm.cli import main
main()
"""
    return subprocess.Popen(
        [sys.executable, "-c", code], stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, start_new_session=True
    )


def finish(process: subprocess.Popen, seconds: float = 120) -> str:
    """What it printed, once it has ended well."""
    out, error = process.communicate(timeout=seconds)
    assert process.returncode == 0, error
    assert "Traceback" not in error
    return out


def kill(process: subprocess.Popen) -> None:
    """As the kernel does it where memory runs out."""
    os.kill(process.pid, signal.SIGKILL)
    process.communicate(timeout=20)


def stored(output: Path) -> int:
    """How many cells the store in a folder holds."""
    file = output / STORE
    if not file.exists():
        return 0
    try:
        with sqlite3.connect(f"file:{file}?mode=ro", uri=True, timeout=10) as connection:
            return connection.execute("select count(*) from cells").fetchone()[0]
    except sqlite3.OperationalError:  # not made yet
        return 0


def until(true, seconds: float = 120) -> None:
    """Wait for something to become true."""
    end = time.monotonic() + seconds
    while not true():
        assert time.monotonic() < end
        time.sleep(0.05)


def descendants(pid: int) -> set[int]:
    """The processes that a process has started, and those that they have."""
    parents = {int(entry.name): _parent(entry) for entry in Path("/proc").iterdir() if entry.name.isdigit()}
    found, new = set(), {pid}
    while new:
        new = {child for child, parent in parents.items() if parent in new} - found
        found |= new
    return found


def lives(pid: int) -> bool:
    """Whether a process is there and not merely waiting to be counted."""
    fields = _fields(Path("/proc") / str(pid))
    return fields is not None and fields[0] != "Z"


def end(pids: Iterable[int]) -> None:
    """Kill what a failed test has left."""
    for pid in filter(lives, pids):
        os.kill(pid, signal.SIGKILL)


def _parent(entry: Path) -> int | None:
    fields = _fields(entry)
    return None if fields is None else int(fields[1])


def _fields(entry: Path) -> list[str] | None:
    """State, parent and more; the name before them may hold anything."""
    try:
        return (entry / "stat").read_text().rpartition(")")[2].split()
    except (OSError, UnicodeDecodeError):
        return None
