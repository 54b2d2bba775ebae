"""The commands `ope-vpm select`, `compare` and `gate`."""

from __future__ import annotations

import re
from contextlib import nullcontext
from glob import glob
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from ope_vpm.plugins.options import (
    AsJson,
    Backend,
    BehaviourOption,
    Columns,
    Dataset,
    Deterministic,
    Format,
    Gamma,
    Ignore,
    OneEstimator,
    OnEnd,
    RankBy,
    Seed,
    TimeLimit,
    Trust,
    read_behaviour,
    read_log,
    read_policy,
    shown,
    waiting,
)

if TYPE_CHECKING:
    from ope_vpm.ope.questions.compare import Comparison
    from ope_vpm.policy import TargetPolicy

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
