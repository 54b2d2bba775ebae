"""Everything a leaderboard leaves in its folder."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from ope_vpm.leaderboard.document import cells, document
from ope_vpm.leaderboard.metrics import lines, overall
from ope_vpm.leaderboard.page import page
from ope_vpm.leaderboard.records import Board
from ope_vpm.leaderboard.store import without_collection
from ope_vpm.leaderboard.tables import as_json, lines_csv, markdown, write_cells
from ope_vpm.outside import write_text, write_whole

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
