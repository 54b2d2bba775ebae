"""One page of all papers that were run: tables, pictures and conclusions, as Markdown."""

import json
from pathlib import Path

from ope_vpm.outside import write_text
from ope_vpm.studies.catalogue import PAPERS
from ope_vpm.studies.papers.paper import Paper, read, table
from ope_vpm.studies.runner import read_rows
from ope_vpm.studies.study import Results, Row, Rows, Table

INTRODUCTION = """# Other papers' figures, and ours

Papers on off-policy evaluation, run again: their logs, or logs of the same kind and size; the figures that they
published, ours of the same method, and what `auto` makes of it. An estimator that both have by one definition must
agree; the others show who is nearer. The lowest error of a setting is in bold, and an interval holds where the truth is
in it. Numbers are returns of an episode unless a section says otherwise.

This page is made by `ope-vpm reproduce NAME --output docs/papers` for each paper, and then
`ope-vpm reproduce papers --output docs/papers`. Every run is in `docs/papers/NAME.csv`.

Not here: COBS (Voloshin, Le, Jiang, Yue 2021), whose figures are tables of the paper's appendix and not of its
repository, so that ours would stand beside none.
"""


def write_page(folder: Path) -> Path:
    """Write the page of the papers whose runs are in a folder beside it, and return its path."""
    path = folder.with_suffix(".md")
    found = {name: read_rows(folder / f"{name}.csv") for name in PAPERS}
    if not any(found.values()):
        raise ValueError(f"no paper was run in {folder}: run `ope-vpm reproduce NAME --output {folder}` first")
    sections = [_section(name, read(name), rows, folder) for name, rows in found.items() if rows]
    write_text(path, "\n".join([INTRODUCTION, *sections]))
    return path


def _section(name: str, paper: Paper, rows: list[Row], folder: Path) -> str:
    seconds = sum(float(row["seconds"]) for row in rows)
    when = json.loads((folder / f"{name}.json").read_text(encoding="utf-8"))["finished"][:10]
    first = [*paper.data_cells, *paper.cells][: paper.shown]
    shown = Rows(row for row in rows if any(cell.items() <= row.items() for cell in first))
    data = f" --data {paper.data}" if paper.data else ""
    return "\n".join(
        [
            f"## {paper.title}\n",
            f"{paper.reference}. Published figures: {paper.source}.\n",
            f"{paper.protocol} Runs: {paper.runs}.\n",
            _markdown(table(paper, Results(shown))),
            f"\n![{name}]({folder.name}/{name}.png)\n",
            *(f"- {sentence}" for sentence in paper.conclusions),
            f"\nNot reproduced: {paper.missing}\n",
            f"`ope-vpm reproduce {name}{data}`: {seconds / 60:.1f} minutes in estimators, beside other work, {when}.\n",
        ]
    )


def _markdown(found: Table) -> str:
    lines = [list(found.columns), ["---"] * len(found.columns), *map(list, found.rows)]
    return "\n".join(f"| {' | '.join(line)} |" for line in lines)
