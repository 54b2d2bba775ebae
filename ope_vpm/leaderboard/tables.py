"""The leaderboard as text: a table for the terminal, Markdown, CSV and JSON."""

import csv
import io
import json
from collections import defaultdict
from collections.abc import Iterable, Iterator, Sequence
from typing import Any, TextIO

from rich.box import SIMPLE_HEAD
from rich.markup import escape
from rich.table import Table

from ope_vpm.leaderboard.metrics import HEADLINES, METRICS, Number
from ope_vpm.outside import printable

SHORT = {
    "ratio": ("RMSE÷floor", ""),
    "confidently_wrong": ("wrong", ".2f"),
    "reliable_and_covered": ("rel&cov", ".2f"),
    "log_mse": ("logMSE", ".2f"),
    "rank_correlation": ("rank", ".2f"),
    "coverage": ("cover", ".2f"),
    "seconds": ("sec", ".1g"),
}
"""What a terminal has room for."""
ABSENT = "–"
"""For a metric that is not defined: no truth, no floor, or no answer that it is about."""
RISKY = ("=", "+", "-", "@", "\t", "\r")
"""What makes a spreadsheet take text for a formula."""


def as_json(made: dict[str, Any]) -> str:
    """Everything as JSON, one line for each entry of a list: the json module indents at a tenth of that speed."""
    parts = [f"{_dumps(name)}: {_listed(value)}" for name, value in made.items()]
    return "{\n" + ",\n".join(parts) + "\n}\n"


def _listed(value: Any) -> str:
    if not isinstance(value, list) or not value:
        return _dumps(value)
    return "[\n " + ",\n ".join(map(_dumps, value)) + "\n]"


_dumps = json.JSONEncoder(ensure_ascii=False, allow_nan=False).encode


def lines_csv(made: dict[str, Any]) -> str:
    """One row for each estimator and setting: every metric and its standard error."""
    stream = io.StringIO()
    names = [column for name in METRICS for column in (name, f"{name}_se")]
    _write_csv(stream, [*OF_SETTING, *OF_LINE, *names], (_line_row(made, line) for line in made["lines"]))
    return stream.getvalue()


def _line_row(made: dict[str, Any], line: dict[str, Any]) -> list[Any]:
    setting = made["settings"][line["setting"]]
    numbers = [number for name in METRICS for number in line[name]]
    return [*(setting[name] for name in OF_SETTING), *(line[name] for name in OF_LINE), *numbers]


OF_SETTING = ("task", "trajectories", "length", "alpha", "gamma", "per")
OF_LINE = ("estimator", "runs", "failed", "reliable", "p_value")
OF_POLICY = ("name", "truth", "floor")
OF_CELL = (
    *("estimator", "run", "seed", "value", "low", "high"),
    *("standard_error", "verdict", "seconds", "error", "key"),
)


def write_cells(stream: TextIO, made: dict[str, Any], cells: Iterable[dict[str, Any]]) -> None:
    """Write one row of CSV for each cell."""
    starts = {
        (number, policy["name"]): [*(setting[name] for name in OF_SETTING), *(policy[name] for name in OF_POLICY)]
        for number, setting in enumerate(made["settings"])
        for policy in setting["policies"]
    }
    rows = (starts[one["setting"], one["policy"]] + [one[name] for name in OF_CELL] for one in cells)
    _write_csv(stream, (*OF_SETTING, "policy", "truth", "floor", *OF_CELL), rows)


def _write_csv(stream: TextIO, columns: Sequence[str], rows: Iterable[Sequence[Any]]) -> None:
    writer = csv.writer(stream, lineterminator="\n")
    writer.writerow(columns)
    for row in rows:
        risky = (isinstance(value, str) and value.startswith(RISKY) for value in row)
        writer.writerow([f"'{value}" if risk else value for value, risk in zip(row, risky, strict=True)])


def markdown(made: dict[str, Any]) -> str:
    """The tables, for a README or a report."""
    parts = [
        f"# {_md(made['title'])}",
        _md(made["description"]),
        f"`{made['command'].replace('`', '')}`, {made['made']}",
    ]
    parts += [f"**{_md(made['trusted'])}**", _sentence(made), _md_table(*_text(made["overall"]))]
    own = _by_setting(made["lines"])
    for number, setting in enumerate(made["settings"]):
        parts += [f"## {_md(setting['label'])}", _md_table(*_text(own[number]))]
    for label, heads, rows in rankings(made):
        parts += [f"## {_md(label)}: policies, best first by mean estimate", _md_table(heads, rows)]
    return "\n\n".join(part for part in parts if part) + "\n"


def _by_setting(entries: Iterable[dict[str, Any]]) -> defaultdict[int, list[dict[str, Any]]]:
    """Lines or cells by the number of their setting."""
    grouped: defaultdict[int, list[dict[str, Any]]] = defaultdict(list)
    for entry in entries:
        grouped[entry["setting"]].append(entry)
    return grouped


def _sentence(made: dict[str, Any]) -> str:
    whole = made["missing"] + made["finished"]
    missing = f"Not finished: {made['missing']} of {whole} cells are missing." if made["missing"] else ""
    return " ".join(part for part in (SENTENCE, missing, made["note"]) if part)


SENTENCE = (
    "Best first; ★ the best, ☆ not significantly worse than the best (paired bootstrap over runs, 5 %). "
    'Confidently wrong: the share of "reliable" answers that are more than 3 on-policy errors off with the truth '
    "outside of their interval; reliable and covered: the share whose interval holds the truth. Who ran on some "
    "settings only is ranked after ★ by how it did there beside it."
)


def terminal(made: dict[str, Any]) -> Iterator[Table]:
    """For a terminal: the table over all settings, and the ranking of policies where no truth is known."""
    if any(line["log_mse"][0] is not None for line in made["overall"]):
        yield _scored(made)
    for label, heads, rows in rankings(made):
        table = Table(
            *map(_cell, heads), title=_cell(f"{label}: policies, best first by mean estimate"), box=SIMPLE_HEAD
        )
        for row in rows:
            table.add_row(*map(_cell, row))
        yield table


def _cell(text: str) -> str:
    """Text from outside as it is, neither Rich's markup nor commands to the terminal."""
    return escape(printable(text))


def _scored(made: dict[str, Any]) -> Table:
    """The table of scores for a terminal of 80 columns."""
    shown = _shown(made["overall"], SHORT)
    table = Table(title=_cell(made["title"]), caption=_cell(_sentence(made)), box=SIMPLE_HEAD, padding=(0, 1, 0, 0))
    table.add_column("  estimator", no_wrap=True)
    for name in shown:
        table.add_column(SHORT[name][0], justify="right", no_wrap=True)
    settings = max((line["settings"] for line in made["overall"]), default=0)
    for line in made["overall"]:
        label = line["estimator"] + (f" ({line['failed']} failed)" if line["failed"] else "")
        label += f" ({line['settings']}/{settings})" if line["settings"] < settings else ""
        table.add_row(_cell(f"{mark(line) or ' '} {label}"), *(_short(line[name], SHORT[name][1]) for name in shown))
    return table


def rankings(made: dict[str, Any]) -> Iterator[tuple[str, list[str], list[list[str]]]]:
    """Settings without truth: their label, the policies from best to worst by mean estimate, and every estimate."""
    own = _by_setting(made["cells"])
    for number, setting in enumerate(made["settings"]):
        if any(policy["truth"] is not None for policy in setting["policies"]) or number not in own:
            continue
        cells = {(one["policy"], one["estimator"]): one for one in own[number]}
        values = defaultdict(list)
        for (name, _), one in cells.items():
            values[name].append(one["value"])
        mean = {policy["name"]: _mean(values[policy["name"]]) for policy in setting["policies"]}
        policies = sorted(mean, key=lambda name: -mean[name])
        labels = dict.fromkeys(label for _, label in cells)
        rows = [[label, *(_estimate(cells.get((policy, label))) for policy in policies)] for label in labels]
        yield setting["label"], ["estimator", *policies], rows


def _mean(values: Sequence[float | None]) -> float:
    known = [value for value in values if value is not None]
    return sum(known) / len(known) if known else float("-inf")


def _estimate(cell: dict[str, Any] | None) -> str:
    if cell is None or cell["value"] is None:
        return "" if cell is None else "failed"
    between = "" if cell["low"] is None else f" [{cell['low']:.4g}, {cell['high']:.4g}]"
    return f"{cell['value']:.4g}{between} {cell['verdict']}"


def _short(number: Sequence[float | None], form: str) -> str:
    return with_error(number) if not form else ABSENT if number[0] is None else f"{number[0]:{form}}"


def _text(found: Sequence[dict[str, Any]]) -> tuple[list[str], list[list[str]]]:
    """Heads and rows, without the metrics that nobody has."""
    shown = _shown(found, METRICS)
    most = max((line["settings"] for line in found), default=0)
    some = any(line["settings"] < most for line in found)  # then rows are about different settings
    heads = ["", "estimator", *["error ÷ ★"] * some, *(METRICS[name].title for name in shown), '"reliable"', "failed"]
    rows = [
        [
            mark(line),
            line["estimator"] + (f" ({line['settings']} of {most} settings)" if line["settings"] < most else ""),
            *[with_error((line["against_best"], None))] * some,
            *(with_error(line[name]) for name in shown),
            str(line["reliable"]),
            str(line["failed"] or ""),
        ]
        for line in found
    ]
    return heads, rows


def _shown(found: Sequence[dict[str, Any]], names: Iterable[str]) -> list[str]:
    """The metrics that somebody has, and the headlines, which every table shows."""
    return [name for name in names if name in HEADLINES or any(line[name][0] is not None for line in found)]


def mark(line: dict[str, Any]) -> str:
    """A full star for the best, an empty one for who is level with it."""
    return "★" if line["best"] else "☆" if line["level"] else ""


def with_error(number: Number | Sequence[float | None]) -> str:
    """A number ± its standard error, with as many digits as that leaves."""
    value, error = number
    if value is None:
        return ABSENT
    if not error:
        return f"{value:.2g}" if abs(value) < 1 else f"{value:.3g}"
    digits = min(6, max(0, 1 - int(f"{error:e}".partition("e")[2])))  # the place of its first digit, and one more
    return f"{value:.{digits}f} ± {error:.{digits}f}"


ESCAPED = str.maketrans({character: f"\\{character}" for character in "\\`*_[]<>|"})
"""What Markdown would take for a mark, and how to write it."""


def _md(text: str) -> str:
    return " ".join(text.translate(ESCAPED).split())


def _md_table(heads: Sequence[str], rows: Iterable[Sequence[str]]) -> str:
    lines = [[_md(head) for head in heads], ["---"] * len(heads), *([_md(cell) for cell in row] for row in rows)]
    return "\n".join(f"| {' | '.join(line)} |" for line in lines)
