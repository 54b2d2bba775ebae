"""How answers look in a terminal: tables of values and of estimators, and help without types of flags."""

from __future__ import annotations

import sys
from collections.abc import Iterable
from typing import TYPE_CHECKING, Any

from typer.core import TyperCommand, TyperGroup

from ope_vpm.outside import printable

if TYPE_CHECKING:
    from rich.table import Table

    from ope_vpm.ope import PolicyValue
    from ope_vpm.policy import TargetPolicy

COLOURS = {"reliable": "green", "caution": "yellow", "unreliable": "red"}
"""The colours of the verdicts."""


def print_values(values: Iterable[PolicyValue]) -> None:
    """Print a table where somebody is looking, and plain lines where a program reads them."""
    from rich.console import Console

    console = Console()
    if not console.is_terminal:
        print("\n".join(str(value) for value in values))
        return
    listed = list(values)
    console.print(values_table(listed))
    for value in listed:
        for reason in value.reasons:
            console.print(printable(f"{value.estimator}: {reason}"), markup=False, highlight=False, style="dim")
        if value.advice and value.verdict != "reliable":
            console.print(
                printable(f"{value.estimator}: what would help: {'; '.join(value.advice)}"),
                markup=False,
                highlight=False,
            )


def values_table(values: Iterable[PolicyValue]) -> Table:
    """Estimators, values, intervals, returns and verdicts, and below them what the values are measured in."""
    from rich.box import SIMPLE_HEAD
    from rich.table import Table
    from rich.text import Text

    from ope_vpm.ope.reporting.words import between, half_width, number, the_return, unit

    table = Table(box=SIMPLE_HEAD)
    for name in ("estimator", "value", "95 % interval", "return", "verdict"):
        table.add_column(name, justify="left" if name in ("estimator", "verdict") else "right", no_wrap=name == "value")
    listed = list(values)
    discounts = {value.gamma for value in listed}
    table.caption = f"values: {'; '.join(map(unit, sorted(discounts)))}"
    table.caption_justify = "left"
    for value in listed:
        found = the_return(value)
        total = "–" if found is None else number(found[0], half_width(found[1]))
        table.add_row(
            Text(printable(value.estimator)),
            number(value.value, half_width(value.interval)),
            between(value.interval),
            total,
            Text(value.verdict, style=COLOURS[value.verdict]),
        )
    return table


def print_normalization(policies: Iterable[TargetPolicy]) -> None:
    """Say which files normalise the observations of policies: nobody has named them where they were found."""
    files = {policy.normalized_by: None for policy in policies if policy.normalized_by is not None}
    for file in files:
        print(
            f"note: observations are normalised by {printable(str(file))} before the policy sees them (if it belongs "
            "to another policy, move it away)"
        )


def print_estimators(lines: dict[str, str]) -> None:
    """Print names and what they stand for, one below the other."""
    from rich.console import Console
    from rich.table import Table

    console = Console()
    if not console.is_terminal:
        width = max(map(len, lines))
        print("\n".join(f"{name:{width}}  {line}" for name, line in lines.items()))
        return
    table = Table(box=None, show_header=False)
    for name, line in lines.items():
        table.add_row(f"[bold]{name}[/bold]", line)
    console.print(table)


OLD_NAMES = ("--page", "--picture")
"""What `--report` was called in some commands; still understood, and not shown."""


class Command(TyperCommand):
    """A command whose flags are shown without a type: `--json`, not `--json <bool>`."""

    def parse_args(self, ctx: Any, args: list[str]) -> list[str]:
        """Read the arguments, options by the names that they once had as well."""
        parts = (arg.partition("=") for arg in args)
        renamed = ["".join(("--report" if name in OLD_NAMES else name, *rest)) for name, *rest in parts]
        return super().parse_args(ctx, renamed)

    def get_params(self, ctx: Any) -> list[Any]:
        """Its parameters, flags without a type."""
        return _plain_flags(super().get_params(ctx))


class Group(TyperGroup):
    """A group of commands whose help is shown as theirs is."""

    def get_params(self, ctx: Any) -> list[Any]:
        """Its parameters, flags without a type."""
        return _plain_flags(super().get_params(ctx))


def _plain_flags(parameters: list[Any]) -> list[Any]:
    for parameter in parameters:
        if getattr(parameter, "is_flag", False) and parameter.metavar is None:
            parameter.metavar = ""
    return parameters


def columns_of(given: list[str] | None) -> dict[str, str | list[str]] | None:
    """What `--columns` was given, OUR_NAME=THEIR_NAME or OUR_NAME=FIRST,SECOND, as a mapping."""
    if not given:
        return None
    pairs = [one.partition("=") for one in given]
    if not all(ours and sign and theirs for ours, sign, theirs in pairs):
        raise ValueError(f"columns are given as OUR_NAME=THEIR_NAME, such as rewards=score: got {', '.join(given)}")
    return {ours: theirs.split(",") if "," in theirs else theirs for ours, _, theirs in pairs}


def print_warning(message: Warning | str, *_: Any, **__: Any) -> None:
    """A warning as one line, without the place in the code that Python would add."""
    print(f"ope-vpm: warning: {one_printable_line(str(message))}", file=sys.stderr)


def with_help(error: Any) -> str:
    """The message of a usage error with a pointer to the help; empty where the help has been shown instead."""
    message, context = error.format_message(), error.ctx
    where = "ope-vpm" if context is None else context.command_path
    return f"{message.rstrip('.')} (see {where} --help)" if message else ""


def one_printable_line(message: str) -> str:
    """One line without control characters."""
    return printable(" ".join(message.split()))
