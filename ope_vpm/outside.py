"""Files: a damaged or hostile one ends in one sentence; one that is written is whole or not there."""

from __future__ import annotations

import os
import pickle
import tempfile
import zipfile
import zlib
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

DAMAGED = (
    OSError,
    EOFError,
    LookupError,
    RuntimeError,
    MemoryError,
    OverflowError,
    AssertionError,
    UnicodeDecodeError,
    pickle.UnpicklingError,
    zipfile.BadZipFile,
    zlib.error,
)
"""What the readers of zip, HDF5, torch and pickle raise on broken files (found by flipping random bytes)."""


@contextmanager
def reading(path: Path, kind: str) -> Iterator[None]:
    """Turn what a broken file makes a reader raise into a `ValueError` that names the file."""
    try:
        yield
    except (PermissionError, FileNotFoundError):
        raise
    except DAMAGED as error:
        reason = (str(error) or type(error).__name__).splitlines()[0]
        raise ValueError(f"{path} cannot be read as {kind}: {reason}") from error


def write_whole(path: str | Path, write: Callable[[Path], None]) -> None:
    """Call `write` on a temporary neighbour and rename it, so that no half-written file is left."""
    target = Path(path)
    if not target.parent.is_dir():
        raise FileNotFoundError(f"the folder of {target} does not exist: create it first")
    if target.is_dir():
        raise IsADirectoryError(f"{target} is a folder: give the name of a file")
    handle, name = tempfile.mkstemp(suffix=target.suffix, prefix=f".{target.stem}.", dir=target.parent)
    os.close(handle)
    temporary = Path(name)
    try:
        write(temporary)
        # mkstemp files are private; a saved dataset gets the permissions any new file would.
        mask = os.umask(0)
        os.umask(mask)
        temporary.chmod(0o666 & ~mask)
        temporary.replace(target)
    finally:
        temporary.unlink(missing_ok=True)


def write_text(path: str | Path, text: str) -> None:
    """Write a text file, whole or not at all."""

    def write(temporary: Path) -> None:
        temporary.write_text(text, encoding="utf-8")

    write_whole(path, write)
