"""The commands `ope-vpm select`, `compare`, `gate` and `mcp`."""

from __future__ import annotations

import re
from collections.abc import Iterable
from contextlib import nullcontext
from glob import glob
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from ope_vpm.terminal import columns_of

if TYPE_CHECKING:
    from ope_vpm.ope.questions.compare import Comparison
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


POLICY = ".zip, .d3, .pt, .onnx, a table (.npy, .csv), or a shipped one as TASK:NAME"


def select(
    dataset: Dataset,
    policies: Annotated[
        list[str], typer.Option(help="Files of policies, as a pattern such as 'checkpoints/*.zip'; may be repeated.")
    ],
    estimator: OneEstimator = "auto",
    gamma: Gamma = 1.0,
    rank_by: RankBy = "lower",
    seed: Seed = 0,
    on_end: OnEnd = None,
    time_limit: TimeLimit = "continue",
    behaviour: BehaviourOption = "cloned",
    ignore: Ignore = None,
    format_name: Format = None,
    columns: Columns = None,
    backend: Backend = "local",
    deterministic: Deterministic = False,
    report: Annotated[Path | None, typer.Option(help="Write a page with the intervals to this .html file.")] = None,
    as_json: AsJson = False,
    trust: Trust = False,
) -> None:
    """Which of these policies? Values with intervals on one log, and which differences are more than noise."""
    from ope_vpm.logged import LoggedDataset
    from ope_vpm.plugins.selection import select as choose
    from ope_vpm.policy import load_policy
    from ope_vpm.progress import counting

    _check_first(estimator, report)
    files = found_files(policies)
    loaded = {name: load_policy(file, trust=trust, deterministic=deterministic) for name, file in files.items()}
    data = read_log(dataset, format_name, backend, columns, trust)
    choices: dict[str, Any] = {"rank_by": rank_by, "on_end": on_end, "time_limit": time_limit, "ignore": ignore or ()}
    choices["behaviour"] = read_behaviour(behaviour, trust)
    whole = isinstance(data, LoggedDataset)  # passes over rows that are read in parts have a bar of their own
    with counting("evaluating", len(loaded)) if whole else nullcontext() as progress:
        found = choose(data, loaded, estimator, gamma, seed=seed, progress=progress, **choices)
    if report is not None:
        found.page(report)
    shown(found, as_json, loaded.values())


def compare(
    dataset: Dataset,
    policy: Annotated[str, typer.Option(help=f"The new policy: {POLICY}.")],
    baseline: Annotated[str, typer.Option(help="What to compare with: logged, or another policy.")] = "logged",
    estimator: OneEstimator = "auto",
    gamma: Gamma = 1.0,
    seed: Seed = 0,
    on_end: OnEnd = None,
    time_limit: TimeLimit = "continue",
    behaviour: BehaviourOption = "cloned",
    ignore: Ignore = None,
    format_name: Format = None,
    columns: Columns = None,
    backend: Backend = "local",
    deterministic: Deterministic = False,
    as_json: AsJson = False,
    trust: Trust = False,
) -> None:
    """Is a policy better than another, or than the log? The difference, its 95 % interval, and a probability."""
    reading: dict[str, Any] = {"format_name": format_name, "backend": backend, "columns": columns, "trust": trust}
    asked: dict[str, Any] = {"gamma": gamma, "seed": seed, "on_end": on_end, "time_limit": time_limit}
    asked["behaviour"] = read_behaviour(behaviour, trust)
    found, policies = _compared(dataset, policy, baseline, estimator, deterministic, ignore, reading, asked)
    shown(found, as_json, policies)


def gate(
    dataset: Dataset,
    candidate: Annotated[str, typer.Option(help=f"The policy that may be deployed: {POLICY}.")],
    baseline: Annotated[str, typer.Option(help="What it has to beat: logged, or another policy.")] = "logged",
    min_gain: Annotated[float, typer.Option(help="By how much, in units of the value that leads.")] = 0.0,
    anytime: Annotated[
        bool, typer.Option("--anytime", help="The log grows and is looked at again: the promise holds at all looks.")
    ] = False,
    estimator: OneEstimator = "auto",
    gamma: Gamma = 1.0,
    seed: Seed = 0,
    on_end: OnEnd = None,
    time_limit: TimeLimit = "continue",
    behaviour: BehaviourOption = "cloned",
    ignore: Ignore = None,
    format_name: Format = None,
    columns: Columns = None,
    backend: Backend = "local",
    deterministic: Deterministic = False,
    as_json: AsJson = False,
    trust: Trust = False,
) -> None:
    """May the candidate be deployed? Exit code 0: better; 3: worse; 4: not decided; 2: wrong input."""
    from ope_vpm.ope.questions.gate import check_gain

    check_gain(min_gain)  # before a large file is read
    reading: dict[str, Any] = {"format_name": format_name, "backend": backend, "columns": columns, "trust": trust}
    asked: dict[str, Any] = {"gamma": gamma, "seed": seed, "on_end": on_end, "time_limit": time_limit}
    asked["behaviour"] = read_behaviour(behaviour, trust)
    found, policies = _compared(dataset, candidate, baseline, estimator, deterministic, ignore, reading, asked)
    decided = found.gate(min_gain, anytime=anytime)
    shown(decided, as_json, policies)
    raise typer.Exit(decided.exit_code)


def _check_first(estimator: str, report: Path | None = None) -> None:
    """Refuse a misspelt name, or a page that cannot be written, before a large file is read."""
    from ope_vpm.ope.estimator import estimator_class
    from ope_vpm.outside import check_page

    if report is not None:
        check_page(report)
    estimator_class(estimator)


def mcp(
    folder: Annotated[Path, typer.Argument(exists=True, file_okay=False, help="The only folder that is read.")],
) -> None:
    """Serve inspect, evaluate, compare and select to an assistant (Model Context Protocol, on standard input)."""
    from ope_vpm.plugins.mcp import server

    server(folder).run()


def _compared(
    dataset: str,
    new: str,
    old: str,
    estimator: str,
    deterministic: bool,
    ignore: list[str] | None,
    reading: dict[str, Any],
    asked: dict[str, Any],
) -> tuple[Comparison, list[TargetPolicy]]:
    """The comparison that a command asks for, and the policies in it."""
    from ope_vpm.ope.questions.compare import LOGGED, compare

    _check_first(estimator)
    named = [new] if old == LOGGED else [new, old]
    policies = [read_policy(each, trust=reading["trust"], deterministic=deterministic) for each in named]
    data = read_log(dataset, **reading)
    with waiting(data, f"comparing by {estimator}"):
        baseline = LOGGED if old == LOGGED else policies[1]
        return compare(data, policies[0], baseline, estimator, ignore=ignore or (), **asked), policies


def found_files(patterns: list[str]) -> dict[str, Path]:
    """The files of some patterns by their shortest telling name, numbers inside in the order of their size."""
    files: list[Path] = []
    for pattern in patterns:
        path = Path(pattern).expanduser()
        matched = (
            [path]
            if path.is_file()
            else [file for file in map(Path, glob(str(path), recursive=True)) if file.is_file()]
        )
        if not matched:
            here = f"'{pattern}/*'" if path.is_dir() else "'checkpoints/*.zip'"
            raise FileNotFoundError(f"there is no file {pattern}: --policies takes files, or a pattern such as {here}")
        files += sorted(matched, key=natural)
    unique = list(dict.fromkeys(files))
    names = [file.name for file in unique]
    return dict(zip(names if len(set(names)) == len(names) else map(str, unique), unique, strict=True))


def natural(file: Path) -> list[tuple[int, int, str]]:
    """A key by which `step_2` comes before `step_10`."""
    words = re.split(r"(\d+)", str(file))
    return [(1, int(word), "") if word.isdecimal() else (0, 0, word) for word in words]
