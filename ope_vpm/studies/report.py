"""Printing of a study's table."""

from __future__ import annotations

from rich.console import Console
from rich.table import Table as RichTable

from ope_vpm.studies.study import Results, Study


def print_table(study: Study, results: Results) -> None:
    """Print a study's table to the terminal."""
    table = study.table(results)
    shown = RichTable(title=f"{study.title}: {table.caption}")
    for number, column in enumerate(table.columns):
        shown.add_column(column, justify="left" if number == 0 else "right")
    for row in table.rows:
        shown.add_row(*row)
    console = Console()
    if not console.is_terminal:  # files and pipes have no width to fit into
        console = Console(width=200)
    console.print(shown)
