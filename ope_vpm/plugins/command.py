"""The commands `ope-vpm select`, `compare`, `gate` and `mcp`."""

from __future__ import annotations

import inspect
import re
from collections.abc import Callable, Iterable
from contextlib import nullcontext
from dataclasses import dataclass
from functools import wraps
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
POLICY = ".zip, .d3, .pt, .onnx, a table (.npy, .csv), or a shipped one as TASK:NAME"
Target = Annotated[str, typer.Option(help=f"The target policy: {POLICY}, such as reacher:target or Pendulum-v1:near.")]
Activation = Annotated[
    str | None, typer.Option(help="What follows the hidden layers of a .pt that holds weights only: tanh, relu, …")
]
OneEstimator = Annotated[str, typer.Option("--estimator", help="auto, vpm, fqe, …")]
Format = Annotated[str | None, typer.Option("--format", help="The dataset's format.")]
Columns = Annotated[
    list[str] | None,
    typer.Option(
        help="Names of columns of a table or .npz, such as observations=x,y or rewards=score; may be repeated."
    ),
]
AsJson = Annotated[bool, typer.Option("--json", help="Print JSON instead of text.")]
Trust = Annotated[
    bool, typer.Option("--trust", help="Allow pickles and TorchScript, which run whatever code they hold.")
]
LOGGED = "logged"
"""Stands for the policy that logged the data, as in `ope_vpm.ope.questions.paired`, which is slow to import."""


@dataclass(frozen=True, kw_only=True)
class QuestionOptions:
    """The options of every command that asks about policies: see `with_options`."""

    gamma: Annotated[float, typer.Option(help="1: average reward; below: discounted.")] = 1.0
    seed: Annotated[int, typer.Option(help="Makes everything random repeatable.")] = 0
    on_end: Annotated[str | None, typer.Option(help="After a termination: restart or absorb.")] = None
    time_limit: Annotated[str, typer.Option(help="After a truncation: continue or restart.")] = "continue"
    behaviour: Annotated[
        str, typer.Option(help="Who logged it: cloned from the log, logged (its propensities), or a policy's file.")
    ] = "cloned"
    ignore: Annotated[list[str] | None, typer.Option(help="A finding of `inspect` to pass over.")] = None
    format_name: Format = None
    columns: Columns = None
    backend: Annotated[
        str, typer.Option(help="For Parquet files that are read in parts: local, or ray for a cluster.")
    ] = "local"
    deterministic: Annotated[
        bool, typer.Option("--deterministic", help="Greedy actions, for stable-baselines3 and d3rlpy.")
    ] = False
    as_json: AsJson = False
    trust: Trust = False

    def log(self, dataset: str) -> Any:
        """The log, in memory or to be read in parts."""
        return read_log(dataset, self.format_name, self.backend, self.columns, self.trust)

    def policy(self, given: str, **options: Any) -> TargetPolicy:
        """The policy of a file, or a shipped one: see `read_policy`."""
        return read_policy(given, trust=self.trust, deterministic=self.deterministic, **options)

    @property
    def choices(self) -> dict[str, Any]:
        """What `ov.evaluate` takes beside the log, the policy and the estimator."""
        choices: dict[str, Any] = {"gamma": self.gamma, "seed": self.seed, "ignore": self.ignore or ()}
        known = self.behaviour in ("cloned", LOGGED)
        choices["behaviour"] = self.behaviour if known else read_policy(self.behaviour, trust=self.trust)
        return choices | {"on_end": self.on_end, "time_limit": self.time_limit}

    def show(self, found: Any, policies: Iterable[TargetPolicy]) -> None:
        """Print an answer for people, with what normalises observations of the policies, or as JSON."""
        from ope_vpm.outside import json_text
        from ope_vpm.terminal import print_normalization

        typer.echo(json_text(found.as_dict()) if self.as_json else str(found))
        if not self.as_json:
            print_normalization(policies)


def with_options(command: Callable[..., None]) -> Callable[..., None]:
    """The command with every field of `QuestionOptions` as a parameter of its own, in place of `options`."""
    own = inspect.signature(command, eval_str=True).parameters
    shared = inspect.signature(QuestionOptions, eval_str=True).parameters

    @wraps(command)
    def run(**given: Any) -> None:
        options = QuestionOptions(**{name: given.pop(name) for name in shared})
        command(**given, options=options)

    taken = [
        each.replace(kind=each.KEYWORD_ONLY) for each in (*own.values(), *shared.values()) if each.name != "options"
    ]
    run.__signature__ = inspect.Signature(taken)  # type: ignore[attr-defined]  # typer reads it
    run.__annotations__ = {each.name: each.annotation for each in taken}
    return run


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


def waiting(data: Any, title: str) -> Any:
    """Something that moves while a log in memory is worked on; passes over rows have a bar of their own."""
    from ope_vpm.logged import LoggedDataset
    from ope_vpm.progress import working

    return working(title) if isinstance(data, LoggedDataset) else nullcontext()


@with_options
def select(
    dataset: Dataset,
    policies: Annotated[
        list[str], typer.Option(help="Files of policies, as a pattern such as 'checkpoints/*.zip'; may be repeated.")
    ],
    options: QuestionOptions,
    estimator: OneEstimator = "auto",
    rank_by: Annotated[
        str, typer.Option(help="lower: end of the interval; value; cvar: the worst tenth of returns.")
    ] = "lower",
    report: Annotated[Path | None, typer.Option(help="Write a page with the intervals to this .html file.")] = None,
) -> None:
    """Which of these policies? Values with intervals on one log, and which differences are more than noise."""
    from ope_vpm.logged import LoggedDataset
    from ope_vpm.plugins.selection import select as choose
    from ope_vpm.policy import load_policy
    from ope_vpm.progress import counting

    check_first([estimator], report)
    files = found_files(policies)
    reading: dict[str, Any] = {"trust": options.trust, "deterministic": options.deterministic}
    loaded = {name: load_policy(file, **reading) for name, file in files.items()}
    data, choices = options.log(dataset), {**options.choices, "rank_by": rank_by}
    whole = isinstance(data, LoggedDataset)  # passes over rows that are read in parts have a bar of their own
    with counting("evaluating", len(loaded)) if whole else nullcontext() as progress:
        found = choose(data, loaded, estimator, progress=progress, **choices)
    if report is not None:
        found.page(report)
    options.show(found, loaded.values())


@with_options
def compare(
    dataset: Dataset,
    policy: Annotated[str, typer.Option(help=f"The new policy: {POLICY}.")],
    options: QuestionOptions,
    baseline: Annotated[str, typer.Option(help="What to compare with: logged, or another policy.")] = LOGGED,
    estimator: OneEstimator = "auto",
) -> None:
    """Is a policy better than another, or than the log? The difference, its 95 % interval, and a probability."""
    found, policies = _compared(dataset, policy, baseline, estimator, options)
    options.show(found, policies)


@with_options
def gate(
    dataset: Dataset,
    candidate: Annotated[str, typer.Option(help=f"The policy that may be deployed: {POLICY}.")],
    options: QuestionOptions,
    baseline: Annotated[str, typer.Option(help="What it has to beat: logged, or another policy.")] = LOGGED,
    min_gain: Annotated[float, typer.Option(help="By how much, in units of the value that leads.")] = 0.0,
    anytime: Annotated[
        bool, typer.Option("--anytime", help="The log grows and is looked at again: the promise holds at all looks.")
    ] = False,
    estimator: OneEstimator = "auto",
) -> None:
    """May the candidate be deployed? Exit code 0: better; 3: worse; 4: not decided; 2: wrong input."""
    from ope_vpm.ope.questions.gate import check_gain

    check_gain(min_gain)  # before a large file is read
    found, policies = _compared(dataset, candidate, baseline, estimator, options)
    decided = found.gate(min_gain, anytime=anytime)
    options.show(decided, policies)
    raise typer.Exit(decided.exit_code)


def mcp(
    folder: Annotated[Path, typer.Argument(exists=True, file_okay=False, help="The only folder that is read.")],
) -> None:
    """Serve inspect, evaluate, compare and select to an assistant (Model Context Protocol, on standard input)."""
    from ope_vpm.plugins.mcp import server

    server(folder).run()


def check_first(estimators: Iterable[str], report: Path | None = None) -> None:
    """Refuse a misspelt name, or a page that cannot be written, before a large file is read."""
    from ope_vpm.ope.estimator import estimator_class
    from ope_vpm.outside import check_page

    if report is not None:
        check_page(report)
    for name in estimators:
        estimator_class(name)


def _compared(
    dataset: str, new: str, old: str, estimator: str, options: QuestionOptions
) -> tuple[Comparison, list[TargetPolicy]]:
    """The comparison that a command asks for, and the policies in it."""
    from ope_vpm.ope.questions.compare import compare

    check_first([estimator])
    policies = [options.policy(each) for each in ([new] if old == LOGGED else [new, old])]
    data = options.log(dataset)
    with waiting(data, f"comparing by {estimator}"):
        baseline = LOGGED if old == LOGGED else policies[1]
        return compare(data, policies[0], baseline, estimator, **options.choices), policies


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
