"""The page: one HTML file with everything in it, nothing to fetch."""

from __future__ import annotations

from html import escape
from importlib.resources import files
from string import Template
from typing import Any

from ope_vpm.leaderboard.payload import payload

SCRIPTS = ("base.js", "tables.js", "figures.js", "main.js")


def page(made: dict[str, Any]) -> str:
    """The leaderboard as HTML; whatever came from outside enters as escaped text or as JSON."""
    folder = files("ope_vpm.leaderboard") / "static"

    def read(name: str) -> str:
        return (folder / name).read_text(encoding="utf-8")

    words = {name: escape(str(made[name])) for name in ("title", "trusted", "description", "made", "command")}
    return Template(read("template.html")).substitute(
        **words, style=read("page.css"), script="\n".join(map(read, SCRIPTS)), data=in_script(payload(made))
    )


def in_script(text: str) -> str:
    """JSON that no HTML parser mistakes for the end of its script."""
    for character in "<>&\u2028\u2029":
        text = text.replace(character, f"\\u{ord(character):04x}")
    return text
