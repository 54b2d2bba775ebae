"""The tables of figures in user pages, written again from stored results: `python -m benchmarks tables --page scale`.

A table stands in its page between `<!-- table NAME -->` and `<!-- end -->`. A test compares pages and results.
"""

from __future__ import annotations

import argparse
import json
import re
from collections.abc import Callable
from pathlib import Path

from benchmarks import _claims

DOCS = Path(__file__).parents[1] / "docs"
MARKED = re.compile(r"(?<=^<!-- table )(?P<name>[\w-]+) -->\n.*?(?=^<!-- end -->$)", re.DOTALL | re.MULTILINE)


def scale(results: Path) -> str:
    """What `python -m benchmarks scale` measured, in sentences that a user asks for."""
    found = json.loads((results / "scale.json").read_text(encoding="utf-8"))
    ratios, most = found["ratios"], max(found["streams"], key=lambda rows: int(rows) if rows.isdigit() else 0)
    part, raced, parts = found["streams"][most], found["twenty"]["1 at once"], found["twenty_in_parts"]["120000"]
    longer = parts["all_seconds"] / parts["one_seconds"]
    return markdown(
        [
            ["", "measured"],
            [
                f"memory beside the program's own, {int(most) / 1e6:.0f} million rows in parts",
                f"{part['added_megabytes']} MB",
            ],
            ["rows per second of one core", f"{part['rows_per_second']}"],
            ["Parquet against a log in memory", f"{ratios['parquet ÷ in memory']} times the time"],
            ["two Ray workers against one", f"{ratios['one Ray worker ÷ two']} times as fast"],
            ["a further policy on the same log", f"{found['policies']['auto']['ratio']:.2f} of the first one's time"],
            ["twenty policies by `select`, 10 000 rows", f"{raced['raced in calls']:.1f} times the time of one"],
            ["the same with `race=False`", f"{raced['all in calls']:.1f} times the time of one"],
            [
                "twenty policies on a log in parts",
                f"{parts['all_passes']:.0f} passes, as for one; {longer:.0f} times the time of one",
            ],
            ["a further discount of one policy", f"{found['discounts']['auto']['ratio']:.2f} of the first one's time"],
        ]
    )


def markdown(lines: list[list[str]]) -> str:
    """A table, its head first."""
    head, *rest = (f"| {' | '.join(line)} |" for line in lines)
    return "\n".join([head, "|---" * len(lines[0]) + "|", *rest]) + "\n"


def verdicts(results: Path) -> str:
    """What `python -m benchmarks calibrate --report --store` said of tasks that nothing was fitted on."""
    found = json.loads((results / "verdicts.json").read_text(encoding="utf-8"))
    lines = [["", "tasks", "interval holds the truth", "wrong"]]
    for name in ("reliable", "caution", "unreliable", "all"):
        each = found[name]
        lines.append([name, f"{each['tasks']}", f"{100 * each['covered']:.1f} %", f"{100 * each['wrong']:.1f} %"])
    first, last = found["seeds"]
    told = f"ope-vpm {found['version']}, {found['date']}, generated tasks with seeds {first} to {last}. "
    good = f"Of the answers within 1.5 on-policy errors {100 * found['good']['reliable']:.0f} % are called reliable."
    return f"{markdown(lines)}\n{told}{good}\n"


TABLES: dict[str, Callable[[Path], str]] = {"claims": _claims.table, "scale": scale, "verdicts": verdicts}
"""By the name in the mark."""


def rewritten(page: Path) -> str:
    """A page with its tables as the stored results have them."""
    return MARKED.sub(
        lambda found: f"{found['name']} -->\n{TABLES[found['name']](DOCS / 'results')}",
        page.read_text(encoding="utf-8"),
    )


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--page", help="such as reproducing; all of them if not given")
    asked = parser.parse_args().page
    for page in sorted(DOCS.glob("*.md") if asked is None else [DOCS / f"{asked}.md"]):
        text = rewritten(page)
        if text != page.read_text(encoding="utf-8"):
            page.write_text(text, encoding="utf-8")
            print(f"{page.name} written again")


if __name__ == "__main__":
    main()
