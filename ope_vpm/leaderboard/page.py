"""The page: one HTML file with everything in it, nothing to fetch."""

from __future__ import annotations

from functools import partial
from html import escape
from string import Template
from typing import Any

from ope_vpm.leaderboard.payload import payload
from ope_vpm.pages import framed_page, static

SCRIPTS = ("base.js", "tables.js", "figures.js", "main.js")


def page(made: dict[str, Any]) -> str:
    """The leaderboard as HTML; whatever came from outside enters as escaped text or as JSON."""
    read = partial(static, "ope_vpm.leaderboard")
    words = {name: escape(str(made[name])) for name in ("title", "trusted", "description", "made", "command")}
    script = "\n".join(map(read, SCRIPTS))
    body = Template(read("template.html")).substitute(**words, script=script, data=in_script(payload(made)))
    return framed_page(str(made["title"]), read("page.css"), body, scripts=True)


def in_script(text: str) -> str:
    """JSON that no HTML parser mistakes for the end of its script."""
    for character in "<>&\u2028\u2029":
        text = text.replace(character, f"\\u{ord(character):04x}")
    return text
