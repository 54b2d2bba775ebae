"""Everything a leaderboard leaves in its folder.

The page is one HTML file with everything in it and nothing to fetch. It carries the same as the JSON file, packed so
that a cell takes tens of bytes: cells that differ only by their run become one block of columns, lines become one
table, and `static/base.js` unpacks both.
"""

import json
from collections.abc import Iterable, Iterator, Sequence
from functools import partial
from html import escape
from itertools import groupby
from operator import itemgetter
from pathlib import Path
from string import Template
from typing import Any

from ope_vpm.leaderboard.document import cells, document
from ope_vpm.leaderboard.metrics import lines, overall
from ope_vpm.leaderboard.records import Board
from ope_vpm.leaderboard.store import without_collection
from ope_vpm.leaderboard.tables import as_json, lines_csv, markdown, write_cells
from ope_vpm.outside import write_text, write_whole
from ope_vpm.pages import framed_page, static

LIMIT = 11_000_000
"""Characters of all cells together: with everything else the page stays under 15 MB, which a phone still opens."""
DIGITS = 6
"""Significant digits of every number: more than anybody reads; the JSON file and the store have them all."""
NUMBERS = ("value", "low", "high", "standard_error", "effective_sample_size", "seconds")
LARGE = (list, dict)
TEXTS = ("reasons", "warnings")
SHORT = (
    "This board has {:,} cells: the page has their values, intervals, verdicts and seconds; "
    "their reasons, warnings and diagnostics are in leaderboard.json."
)
NONE = "This board has {:,} cells, too many for a page: they are in cells.csv and the store, one by one."


def payload(made: dict[str, Any]) -> str:
    """The page's data as JSON; cells lose their details, then drop out, where they would be over the limit."""
    blocks, note = _within_limit(made["cells"])
    rest = {name: value for name, value in made.items() if name != "cells"}
    packed = rest | {"note": note or made["note"], "lines": _table(made["lines"])}
    return f'{dumps(packed)[:-1]},"cells":[{",".join(blocks)}]}}'


dumps = json.JSONEncoder(ensure_ascii=False, allow_nan=False, separators=(",", ":")).encode
"""A value as JSON without spaces."""


def _within_limit(cells: Sequence[dict[str, Any]]) -> tuple[list[str], str]:
    """The blocks as JSON, and a sentence on what had to be left out."""
    there = bool(cells) and "diagnostics" in cells[0]
    for detailed, note in ([(True, "")] if there else []) + [(False, SHORT.format(len(cells)) if there else "")]:
        texts = _until_limit(map(dumps, _blocks(cells, detailed)))
        if texts is not None:
            return texts, note
    return [], NONE.format(len(cells))


def _until_limit(texts: Iterable[str]) -> list[str] | None:
    """All texts, or None as soon as they are over the limit."""
    kept, size = [], 0
    for text in texts:
        kept.append(text)
        size += len(text)
        if size > LIMIT:
            return None
    return kept


def _blocks(cells: Sequence[dict[str, Any]], detailed: bool) -> Iterator[dict[str, Any]]:
    """One block for each setting, policy and estimator, whose cells are neighbours."""
    for (setting, policy, estimator), group in groupby(cells, key=itemgetter("setting", "policy", "estimator")):
        own = list(group)
        block = {"setting": setting, "policy": policy, "estimator": estimator, "run": [one["run"] for one in own]}
        block |= {name: rounded([one[name] for one in own]) for name in NUMBERS}
        block["verdict"] = [(one["verdict"] or "")[:1] for one in own]
        block["error"] = {place: one["error"] for place, one in enumerate(own) if one["error"] is not None}
        yield block | (_details(own) if detailed else {})


def _details(own: Sequence[dict[str, Any]]) -> dict[str, Any]:
    """Keys and diagnostics as columns; reasons and warnings by the place of the cells that have any."""
    names = dict.fromkeys(name for one in own for name in one["diagnostics"])
    return {
        "key": [one["key"] for one in own],
        **{name: {place: one[name] for place, one in enumerate(own) if one[name]} for name in TEXTS},
        "diagnostics": {name: rounded([one["diagnostics"].get(name) for one in own]) for name in names},
    }


def _table(entries: Sequence[dict[str, Any]]) -> dict[str, Any]:
    """Dictionaries with the same names as a head and rows."""
    return {"names": list(entries[0]) if entries else [], "rows": [rounded(list(entry.values())) for entry in entries]}


def rounded(value: Any) -> Any:
    """The value with `DIGITS` significant digits of every float in it."""
    if isinstance(value, float):
        return float(f"{value:.{DIGITS}g}")
    if isinstance(value, dict):
        return dict(zip(value, rounded(list(value.values())), strict=True))
    if isinstance(value, list):  # a call for each of a hundred thousand floats would take most of the time
        return [
            float(f"{one:.{DIGITS}g}") if isinstance(one, float) else rounded(one) if isinstance(one, LARGE) else one
            for one in value
        ]
    return value


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


PAGE = "index.html"


@without_collection()
def write_board(board: Board, folder: Path, command: str) -> dict[str, Any]:
    """Write the page and the tables as CSV, JSON and Markdown; returns what the JSON holds."""
    found = lines(board)
    made = document(board, found, overall(board, found), command)
    texts = {
        PAGE: page(made),
        "leaderboard.csv": lines_csv(made),
        "leaderboard.json": as_json(made),
        "leaderboard.md": markdown(made),
    }
    for name, text in texts.items():
        write_text(folder / name, text)

    def rows(path: Path) -> None:
        with path.open("w", encoding="utf-8", newline="") as stream:
            write_cells(stream, made, made["cells"] or cells(board))

    write_whole(folder / "cells.csv", rows)
    return made
