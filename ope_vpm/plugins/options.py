"""Options that several commands share, each written once."""

from __future__ import annotations

from collections.abc import Iterable
from contextlib import nullcontext
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from ope_vpm.terminal import columns_of

if TYPE_CHECKING:
    from ope_vpm.policy import TargetPolicy

Dataset = Annotated[
    str, typer.Argument(help="The log: a file, a Minari folder or id; or a folder or pattern of Parquet files.")
]
OneEstimator = Annotated[str, typer.Option("--estimator", help="auto, vpm, fqe, …")]
Gamma = Annotated[float, typer.Option(help="1: average reward; below: discounted.")]
Seed = Annotated[int, typer.Option(help="Makes everything random repeatable.")]
OnEnd = Annotated[str | None, typer.Option(help="After a termination: restart or absorb.")]
TimeLimit = Annotated[str, typer.Option(help="After a truncation: continue or restart.")]
BehaviourOption = Annotated[
    str,
    typer.Option(
        "--behaviour", help="Who logged it: cloned from the log, logged (its propensities), or a policy's file."
    ),
]
RankBy = Annotated[str, typer.Option(help="lower: end of the interval; value; cvar: the worst tenth of returns.")]
Ignore = Annotated[list[str] | None, typer.Option(help="A finding of `inspect` to pass over.")]
Format = Annotated[str | None, typer.Option("--format", help="The dataset's format.")]
Columns = Annotated[
    list[str] | None,
    typer.Option(
        help="Names of columns of a table or .npz, such as observations=x,y or rewards=score; may be repeated."
    ),
]
Backend = Annotated[str, typer.Option(help="For Parquet files that are read in parts: local, or ray for a cluster.")]
Deterministic = Annotated[
    bool, typer.Option("--deterministic", help="Greedy actions, for stable-baselines3 and d3rlpy.")
]
AsJson = Annotated[bool, typer.Option("--json", help="Print JSON instead of text.")]
Trust = Annotated[
    bool, typer.Option("--trust", help="Allow pickles and TorchScript, which run whatever code they hold.")
]


def read_log(dataset: str, format_name: str | None, backend: str, columns: list[str] | None, trust: bool) -> Any:
    """The log of a command, in memory or to be read in parts."""
    from ope_vpm.logged.scan import open_dataset
    from ope_vpm.ope.log import SAMPLE_ROWS
    from ope_vpm.progress import rates

    return open_dataset(dataset, SAMPLE_ROWS, format_name, backend, rates, columns=columns_of(columns), trust=trust)


def read_policy(given: str, **options: Any) -> TargetPolicy:
    """A policy from a file, or a shipped one as TASK:NAME; a file of that name comes first."""
    from ope_vpm.policy import load_policy

    task, colon, name = given.partition(":")
    if Path(given).expanduser().exists():
        return load_policy(given, **options)
    if colon:
        from ope_vpm.envs.by_name import shipped_policy

        return shipped_policy(task, name)
    raise FileNotFoundError(f"there is no file {given} (a shipped policy is named with its task: reacher:target)")


def read_behaviour(given: str, trust: bool) -> Any:
    """What `behaviour=` takes: "cloned", "logged", or the policy of a file."""
    return given if given in ("cloned", "logged") else read_policy(given, trust=trust)


def waiting(data: Any, title: str) -> Any:
    """Something that moves while a log in memory is worked on; passes over rows have a bar of their own."""
    from ope_vpm.logged import LoggedDataset
    from ope_vpm.progress import working

    return working(title) if isinstance(data, LoggedDataset) else nullcontext()


def shown(found: Any, as_json: bool, policies: Iterable[TargetPolicy]) -> None:
    """Print an answer for people, with what normalises observations of the policies, or as JSON."""
    from ope_vpm.outside import json_text
    from ope_vpm.terminal import print_normalization

    typer.echo(json_text(found.as_dict()) if as_json else str(found))
    if not as_json:
        print_normalization(policies)
