"""The boundary to the outside: what a stranger's file may do, and files of ours that are whole or not there.

A file from outside may be damaged or hostile. Nothing in it is run, it is read only if it is a regular file, it
unpacks to a bounded size, and whatever a library raises while reading it ends as one sentence in a `ValueError`.
"""

import json
import math
import os
import stat
import tempfile
import warnings
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from html import escape
from pathlib import Path
from typing import Any

UNPACKED = 256 << 20
"""Bytes that any file may unpack to: a compressed log of usual size stays far below."""
RATIO = 20
"""Larger files may unpack to this many times their size: floats compress 1.1 to 3 times, flags and small integers
up to about 20 times; deflate's limit, which attacks use, is 1032 times."""
LARGEST_JSON = 16 << 20
"""Bytes of a JSON text that is parsed: nested brackets take forty times their size in memory."""
PAGES = (".html", ".htm")
"""How the names of HTML files end: a browser shows others as text, or not at all."""
LONGEST = 300
"""Characters of a library's message that are shown: some quote whole files."""


@contextmanager
def reading(path: Path, kind: str) -> Iterator[None]:
    """Turn whatever is raised while a file is read into a `ValueError` of one sentence that names the file.

    Missing permissions, missing files and missing libraries keep their own exceptions.
    """
    try:
        yield
    except (PermissionError, FileNotFoundError, ImportError):
        raise
    except Exception as error:
        # The parsers of zip, HDF5, Parquet, CSV, JSON, ONNX and torch have no common exception: mutated files made
        # them raise KeyError, struct.error, tokenize.TokenError, RecursionError and some thirty others.
        message = one_line(error)
        if str(path) not in message:
            message = f"{path} cannot be read as {kind}: {message}"
        raise ValueError(message) from error


@contextmanager
def about(name: str) -> Iterator[None]:
    """Put a name in front of the sentence by which something is refused, where one of many is."""
    try:
        yield
    except (TypeError, ValueError) as error:
        kind = ValueError if isinstance(error, ValueError) else TypeError
        raise kind(f"{name}: {error}") from error


class Shown:
    """A result that prints as text, in notebooks as well."""

    def _repr_html_(self) -> str:
        return f"<pre>{escape(str(self))}</pre>"


def printable(text: str) -> str:
    """A text without control characters: names from outside may hold commands to the terminal, or ends of lines."""
    return "".join(each if each.isprintable() else " " if each.isspace() else "?" for each in text)


def one_line(error: BaseException) -> str:
    """The first line of an exception's message, or its type where it has none."""
    lines = str(error).strip().splitlines()
    first = lines[0] if lines else type(error).__name__
    return first if len(first) <= LONGEST else first[:LONGEST] + "…"


def check_regular(path: Path) -> None:
    """Refuse folders, pipes and devices before they are opened: a pipe without a writer blocks for ever."""
    if not path.exists():
        raise FileNotFoundError(f"there is no file {path}")
    if not stat.S_ISREG(path.stat().st_mode):
        raise ValueError(f"{path} must be a regular file: it is a folder, a pipe or a device")


def parse_number(text: str) -> float:
    """The number that a text of ASCII characters states; Python's `float` takes `1_0` and digits of any script, too."""
    if "_" in text or not text.isascii():
        raise ValueError(f"{text!r} is no number")
    return float(text)


def warn_if_cut(path: Path) -> None:
    """Warn about a file of lines whose last line has no end: a number there may have lost digits unnoticed."""
    with path.open("rb") as file:
        if file.seek(0, os.SEEK_END) and file.seek(-1, os.SEEK_END) and file.read(1) not in b"\r\n":
            warnings.warn(
                f"{path} does not end with a newline: it may have been cut in the middle of its last row (if it is "
                "whole, end its last line)",
                stacklevel=3,
            )


def check_unpacked(path: object, packed: int, unpacked: int, trust: bool) -> None:
    """Refuse a file that claims to unpack to far more than it holds, unless it is trusted."""
    most = max(UNPACKED, RATIO * packed)
    if unpacked > most and not trust:
        raise PermissionError(
            f"{path} has {packed} bytes and unpacks to {unpacked}, more than {most}: "
            "pass trust=True if you know where it comes from"
        )


def check_place(path: str | Path) -> None:
    """Refuse the name of a file that could not be written, before the work whose result it is to hold."""
    target = Path(path).expanduser()
    if not target.parent.is_dir():
        raise FileNotFoundError(f"the folder of {target} does not exist: create it first")
    if target.is_dir():
        raise IsADirectoryError(f"{target} is a folder: give the name of a file")
    try:
        with tempfile.TemporaryFile(dir=target.parent):
            pass
    except OSError as error:
        raise PermissionError(f"{target} cannot be written ({error.strerror}): give another folder") from error


def check_page(path: str | Path) -> None:
    """Refuse the name of a page that is not one of HTML, or that could not be written."""
    if Path(path).suffix.lower() not in PAGES:
        raise ValueError(f"a page is HTML, and its name must end with {' or '.join(PAGES)}: got {path}")
    check_place(path)


def write_whole(path: str | Path, write: Callable[[Path], None]) -> None:
    """Call `write` on a temporary neighbour and rename it, so that no half-written file is left."""
    target = Path(path).expanduser()
    check_place(target)
    handle, name = tempfile.mkstemp(suffix=target.suffix, prefix=f".{target.stem}.", dir=target.parent)
    os.close(handle)
    temporary = Path(name)
    try:
        try:
            write(temporary)
        except OSError as error:
            reason = getattr(error, "strerror", None) or one_line(error)
            raise OSError(f"{target} cannot be written, and nothing of it is left: {reason}") from error
        # mkstemp files are private; a saved dataset gets the permissions any new file would.
        mask = os.umask(0)
        os.umask(mask)
        temporary.chmod(0o666 & ~mask)
        temporary.replace(target)
    finally:
        temporary.unlink(missing_ok=True)


def parse_json(text: str | bytes) -> Any:
    """The value of a JSON text of bounded size."""
    if len(text) > LARGEST_JSON:
        raise ValueError(f"settings must be at most {LARGEST_JSON} bytes of JSON: got {len(text)}")
    return json.loads(text)


def json_text(value: Any) -> str:
    """JSON of plain values, lists and dictionaries; numbers that are not finite, which JSON lacks, become null."""
    return json.dumps(_finite(value), indent=2, allow_nan=False)


def _finite(value: Any) -> Any:
    if isinstance(value, dict):
        return {key: _finite(item) for key, item in value.items()}
    if isinstance(value, list | tuple):
        return [_finite(item) for item in value]
    return None if isinstance(value, float) and not math.isfinite(value) else value


def write_text(path: str | Path, text: str) -> None:
    """Write a text file, whole or not at all."""

    def write(temporary: Path) -> None:
        temporary.write_text(text, encoding="utf-8")

    write_whole(path, write)
