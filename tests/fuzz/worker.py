"""A process that reads mutants of some readers' files and writes down what each did.

`python -m tests.fuzz.worker FOLDER READER:FIRST:LAST …` prints one line of JSON per mutant; the parent notices a
process that ends early, which is a crash of the mutant after the last line.
"""

from __future__ import annotations

import faulthandler
import json
import resource
import shutil
import sys
import time
import warnings
from pathlib import Path
from typing import Any

from tests.fuzz.mutants import mutant
from tests.fuzz.readers import READERS, Reader

SECONDS = 10
PROTECTION = 8 << 30
"""Bytes of address space beyond those in use: protects the machine; growth is measured, not limited."""
REFUSED = (ValueError, PermissionError)
USED = (ValueError, TypeError)


def main(folder: Path, jobs: list[str]) -> None:
    """Read the mutants of every job; sound files lie in `folder` / the reader's name / sound."""
    warnings.simplefilter("ignore")
    parts = [job.rsplit(":", 2) for job in jobs]
    for name, *_ in parts:  # what is imported now is not growth
        READERS[name].use(READERS[name].read(folder / name / "sound"))
    used = int(Path("/proc/self/statm").read_text().split()[0]) * resource.getpagesize()
    resource.setrlimit(resource.RLIMIT_AS, (used + PROTECTION,) * 2)
    for name, first, last in parts:
        for number in range(int(first), int(last)):
            result = _result(READERS[name], _written(READERS[name], folder / name, number))
            print(json.dumps({"reader": name, "number": number, **result}), flush=True)


def _written(reader: Reader, folder: Path, number: int) -> Path:
    """A copy of the sound files of which one is changed."""
    place = folder / "mutant"
    shutil.rmtree(place, ignore_errors=True)
    shutil.copytree(folder / "sound", place)
    file = reader.files[number % len(reader.files)]
    (place / file).write_bytes(mutant((folder / "sound" / file).read_bytes(), number))
    return place


def _result(reader: Reader, place: Path) -> dict[str, Any]:
    before, start = _memory("VmRSS"), time.monotonic()
    Path("/proc/self/clear_refs").write_text("5")  # the peak is measured anew
    faulthandler.dump_traceback_later(SECONDS, exit=True)  # ends the process even inside a loop of a C library
    outcome, message = _read(reader, place)
    faulthandler.cancel_dump_traceback_later()
    return {
        "outcome": outcome,
        "message": message[:500],
        "seconds": round(time.monotonic() - start, 3),
        "megabytes": (_memory("VmHWM") - before) // 1024,
    }


def _read(reader: Reader, place: Path) -> tuple[str, str]:
    try:
        thing = reader.read(place)
    except REFUSED as error:
        return "refused", str(error)
    except Exception as error:
        return "exception", f"{type(error).__name__}: {error}"
    try:
        reader.use(thing)
    except USED as error:
        return "refused in use", str(error)
    except Exception as error:
        return "exception in use", f"{type(error).__name__}: {error}"
    return "read", ""


def _memory(name: str) -> int:
    """Kilobytes of the process, now (VmRSS) or at most since it was last cleared (VmHWM)."""
    lines = Path("/proc/self/status").read_text().splitlines()
    return next(int(line.split()[1]) for line in lines if line.startswith(name))


if __name__ == "__main__":
    main(Path(sys.argv[1]), sys.argv[2:])
