"""The tables of figures in user pages, written again from stored results: `python -m benchmarks tables --page scale`.

A table stands in its page between `<!-- table NAME -->` and `<!-- end -->`. A test compares pages and results.
"""

from __future__ import annotations

import argparse
import json
import re
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from typing import Any

from benchmarks import _claims
from benchmarks.scale import ratios

DOCS = Path(__file__).parents[1] / "docs"
MARKED = re.compile(r"(?<=^<!-- table )(?P<name>[\w-]+) -->\n.*?(?=^<!-- end -->$)", re.DOTALL | re.MULTILINE)

Rows = dict[str, dict[str, Any]]
"""Of a section: figures by the name of a row."""


def _longest(streams: Rows) -> str:
    """The name of the row with the longest log that was read in parts."""
    return max((row for row in streams if row.isdigit()), key=int)


SCALE: tuple[Callable[[dict[str, Rows]], tuple[str, str]], ...] = (
    lambda found: (
        f"memory beside the program's own, {int(_longest(found['streams'])) / 1e6:.0f} million rows in parts",
        f"{found['streams'][_longest(found['streams'])]['added_megabytes']:.0f} MB",
    ),
    lambda found: (
        "rows per second of one core",
        f"{found['streams'][_longest(found['streams'])]['rows_per_second']:.0f}",
    ),
    lambda found: ("Parquet against a log in memory", f"{ratios(found)['parquet ÷ in memory']} times the time"),
    lambda found: ("two Ray workers against one", f"{ratios(found)['one Ray worker ÷ two']} times as fast"),
    lambda found: (
        "a further policy on the same log",
        f"{found['policies']['auto']['ratio']:.2f} of the first one's time",
    ),
    lambda found: (
        "twenty policies by `select`, 10 000 rows",
        f"{found['twenty']['1 at once']['raced in calls']:.1f} times the time of one",
    ),
    lambda found: (
        "the same with `race=False`",
        f"{found['twenty']['1 at once']['all in calls']:.1f} times the time of one",
    ),
    lambda found: ("twenty policies on a log in parts", _passes(found["twenty_in_parts"]["120000"])),
    lambda found: (
        "a further discount of one policy",
        f"{found['discounts']['auto']['ratio']:.2f} of the first one's time",
    ),
)
"""What docs/scale.md says, from rows by section and name."""


def _passes(row: dict[str, Any]) -> str:
    """Passes of twenty policies over a log, and their time in that of one."""
    longer = row["all_seconds"] / row["one_seconds"]
    return f"{row['all_passes']:.0f} passes, {longer:.0f} times the time of one"


def scale(results: Path) -> str:
    """What `python -m benchmarks scale` measured; rows of older versions, which have none, are left out."""
    stored = json.loads((results / "scale.json").read_text(encoding="utf-8"))
    del stored["ratios"]
    found = {name: {row: each for row, each in rows.items() if "version" in each} for name, rows in stored.items()}
    lines = [["", "measured"]]
    for said in SCALE:
        with suppress(KeyError, ValueError):  # not measured
            lines.append([*said(found)])
    return markdown(lines)


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


def minari(results: Path) -> str:
    """What `python -m benchmarks minari` measured: a simulated value beside the answers from a Minari dataset."""
    found = json.loads((results / "minari.json").read_text(encoding="utf-8")).values()
    lines = [["dataset", "steps", "the target's value", "`auto`", "interval", "verdict", "`naive`"]]
    for each in found:
        low, high = each["interval"]
        simulated = f"{each['truth']:.4g}±{each['error']:.1g}"
        answer = [f"{each['auto']:.4g}", f"[{low:.4g}, {high:.4g}]", each["verdict"], f"{each['naive']:.4g}"]
        lines.append([f"`{each['id']}`", f"{each['rows']}", simulated, *answer])
    made = {f"ope-vpm {each['version']}, {each['date']}" for each in found}
    return f"{markdown(lines)}\n{'; '.join(sorted(made))}.\n"


TABLES: dict[str, Callable[[Path], str]] = {
    "claims": _claims.table, "minari": minari, "scale": scale, "verdicts": verdicts
}  # fmt: skip
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
