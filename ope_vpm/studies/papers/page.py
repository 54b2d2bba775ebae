"""One page of all papers that were run: tables, pictures and conclusions, as Markdown."""

import json
from dataclasses import replace
from pathlib import Path

from ope_vpm.outside import write_text
from ope_vpm.studies.papers.paper import Paper, read, table
from ope_vpm.studies.runner import PAPERS, read_rows
from ope_vpm.studies.study import Results, Row, Rows, Table

INTRODUCTION = """# Other papers' figures, and ours

Papers on off-policy evaluation, run again: their logs, or logs of the same kind and size; the published figures, ours
of the same method, and what `auto` makes of it. The lowest error is in bold. "Held" counts the intervals with the truth
in them, "verdicts" the answers that are called reliable/caution/unreliable.

This page is made by `ope-vpm reproduce NAME --output docs/papers` for each paper, and then
`ope-vpm reproduce papers --output docs/papers`; `--runs 0` prints all methods and settings of a paper. Every run is in
`docs/papers/NAME.csv`.

Not here: COBS (Voloshin and others 2021), whose repository has no figures to stand beside ours.
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
    report = json.loads((folder / f"{name}.json").read_text(encoding="utf-8"))
    made = f"ope-vpm {report['versions']['ope-vpm']}, {report['finished'][:10]}"
    minutes = sum(float(row["seconds"]) for row in rows) / 60
    data = f" --data {paper.data}" if paper.data else ""
    return "\n".join(
        [
            f"## {paper.title}\n",
            f"*{paper.reference.partition(': ')[2]}*. Published figures: {paper.source}.\n",
            f"{paper.protocol} Runs: {paper.runs}.\n",
            _markdown(_compact(paper, rows)),
            f"\n![{name}]({folder.name}/{name}.png)\n",
            *(f"- {sentence}" for sentence in paper.conclusions),
            f"\nNot reproduced: {paper.missing} `ope-vpm reproduce {name}{data}`: {made}, {minutes:.1f} minutes.\n",
        ]
    )


def _compact(paper: Paper, rows: list[Row]) -> Table:
    """The rows and columns of a paper's table that its page shows."""
    shown, cells = paper.page, paper.page.get("cells", [{}])
    kept_rows = Rows(
        row for row in rows if row["method"] in shown["methods"] and any(cell.items() <= row.items() for cell in cells)
    )
    whole = table(replace(paper, measures=shown["measures"]), Results(kept_rows))
    named = list(paper.cells[0])
    kept = [n for n, column in enumerate(whole.columns) if n >= len(named) or column in shown["by"]]
    lines = [line for line in whole.rows if line[len(named)] in shown["methods"]]
    heads = [*whole.columns[:-2], "held", "verdicts"]
    return Table([heads[n] for n in kept], [[line[n] for n in kept] for line in lines])


def _markdown(found: Table) -> str:
    head, *lines = (f"| {' | '.join(line)} |" for line in (found.columns, *found.rows))
    text = "\n".join([head, "|---" * len(found.columns) + "|", *lines])
    return text.replace(" ± ", "±").replace(" / ", "/")
