"""The pages of the docs in parts: what is set up, blocks of code, and what stands below them as their output."""

from __future__ import annotations

import re
import shlex
import sys
from collections.abc import Iterator
from pathlib import Path
from unittest.mock import patch

from ope_vpm.cli import main as command_line

ROOT = Path(__file__).parents[1]
DOCS = ROOT / "docs"
PART = re.compile(
    r"^<!-- setup\n(?P<setup>.*?)^-->$"
    r"|^```(?P<kind>python|bash)\n(?P<code>.*?)^```$(?:\n\n^```text\n(?P<shown>.*?)^```$)?",
    re.DOTALL | re.MULTILINE,
)


def parts_of(page: Path) -> Iterator[tuple[str, str, str | None]]:
    """The blocks of a page in order: their kind, their code at the line where it stands, and what they print.

    What a page takes for granted, such as the reader's own log, stands in a comment `<!-- setup … -->`.
    """
    text = page.read_text(encoding="utf-8")
    for found in PART.finditer(text):
        group = "setup" if found["setup"] is not None else "code"
        line = text[: found.start(group)].count("\n")
        yield found["kind"] or "python", "\n" * line + found[group], found["shown"]


def run_command(line: str) -> None:
    """Run a line of our own command; an error where it fails."""
    words = shlex.split(line, comments=True)
    if not words:
        return
    if words[0] != "ope-vpm":
        raise ValueError(f"only our own commands are run: {line}")
    with patch.object(sys, "argv", words):
        try:
            command_line()
        except SystemExit as ended:
            if ended.code:
                raise ValueError(f"ends with {ended.code}: {line}") from ended
