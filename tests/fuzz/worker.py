"""A process that reads mutants of some readers' files and writes down what each did.

`python -m tests.fuzz.worker FOLDER READER:FIRST:LAST …` prints one line of JSON per mutant; the parent notices a
process that ends early, which is a crash of the mutant after the last line.
"""

from __future__ import annotations

import faulthandler
import json
import os
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
RUNS_SOMETHING = {"os.system", "os.exec", "os.posix_spawn", "os.fork", "os.spawn", "subprocess.Popen", "socket.connect"}
RUNS_SOMETHING |= {"pickle.find_class", "ctypes.dlopen"}
"""Events of Python's audit hooks that no reader has a reason to raise."""
HOME = Path(__file__).parent.parent.parent
OWN = tuple(str(Path(place).resolve()) for place in (sys.prefix, sys.base_prefix, HOME, "/proc/self", "/dev/null"))
"""Where Python itself and its libraries read, which is not the mutant's doing."""


class Watch:
    """Writes down what a mutant makes Python run, and which files it makes Python open elsewhere than beside it."""

    def __init__(self) -> None:
        self.place: Path | None = None
        self.seen: list[str] = []
        sys.addaudithook(self._event)

    def _event(self, event: str, arguments: tuple[Any, ...]) -> None:
        if self.place is None:
            return
        if event in RUNS_SOMETHING:
            self.seen.append(f"{event} {arguments!r}")
        elif event == "open" and isinstance(arguments[0], str | bytes):
            file = os.path.realpath(os.fsdecode(arguments[0]))
            if not file.startswith((str(self.place.resolve()), *OWN)):
                self.seen.append(f"open {file}")


def main(folder: Path, jobs: list[str]) -> None:
    """Read the mutants of every job; sound files lie in `folder` / the reader's name / sound."""
    warnings.simplefilter("ignore")
    watch = Watch()
    parts = [job.rsplit(":", 2) for job in jobs]
    for name, *_ in parts:  # what is imported now is not growth
        READERS[name].use(READERS[name].read(folder / name / "sound"))
    used = int(Path("/proc/self/statm").read_text().split()[0]) * resource.getpagesize()
    resource.setrlimit(resource.RLIMIT_AS, (used + PROTECTION,) * 2)
    for name, first, last in parts:
        for number in range(int(first), int(last)):
            result = _result(READERS[name], _written(READERS[name], folder / name, number), watch)
            print(json.dumps({"reader": name, "number": number, **result}), flush=True)


def _written(reader: Reader, folder: Path, number: int) -> Path:
    """A copy of the sound files of which one is changed."""
    place = folder / "mutant"
    shutil.rmtree(place, ignore_errors=True)
    shutil.copytree(folder / "sound", place)
    file = reader.files[number % len(reader.files)]
    (place / file).write_bytes(mutant((folder / "sound" / file).read_bytes(), number))
    return place


def _result(reader: Reader, place: Path, watch: Watch) -> dict[str, Any]:
    before, start = _memory("VmRSS"), time.monotonic()
    Path("/proc/self/clear_refs").write_text("5")  # the peak is measured anew
    faulthandler.dump_traceback_later(SECONDS, exit=True)  # ends the process even inside a loop of a C library
    watch.place, watch.seen = place, []
    outcome, message = _read(reader, place)
    watch.place = None
    if watch.seen:
        outcome, message = "outside", "; ".join(watch.seen)
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
