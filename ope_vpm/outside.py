"""Files from outside may be cut, damaged or hostile: whatever a reader trips over becomes one sentence."""

from __future__ import annotations

import pickle
import zipfile
import zlib
from collections.abc import Iterator
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
