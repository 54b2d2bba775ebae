"""Everything a leaderboard leaves in its folder."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from ope_vpm.leaderboard.document import document
from ope_vpm.leaderboard.metrics import lines, overall
from ope_vpm.leaderboard.page import page
from ope_vpm.leaderboard.records import Board
from ope_vpm.leaderboard.tables import as_json, cells_csv, lines_csv, markdown
from ope_vpm.outside import write_text

PAGE = "index.html"


def write_board(board: Board, folder: Path, command: str) -> dict[str, Any]:
    """Write the page and the tables as CSV, JSON and Markdown; returns what the JSON holds."""
    found = lines(board)
    made = document(board, found, overall(board, found), command)
    texts = {
        PAGE: page(made),
        "leaderboard.csv": lines_csv(made),
        "cells.csv": cells_csv(made),
        "leaderboard.json": as_json(made),
        "leaderboard.md": markdown(made),
    }
    for name, text in texts.items():
        write_text(folder / name, text)
    return made
