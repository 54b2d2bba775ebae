"""The command `ope-vpm select`."""

from __future__ import annotations

import re
from contextlib import nullcontext
from glob import glob
from pathlib import Path
from typing import Annotated, Any

import typer

from ope_vpm.terminal import columns_of, print_normalization


def select(
    dataset: Annotated[
        str, typer.Argument(help="The log: a file, a Minari folder or id; or a folder or pattern of Parquet files.")
    ],
    policies: Annotated[
        list[str], typer.Option(help="Files of policies, as a pattern such as 'checkpoints/*.zip'; may be repeated.")
    ],
    estimator: Annotated[str, typer.Option(help="auto, vpm, fqe, …")] = "auto",
    gamma: Annotated[float, typer.Option(help="1: average reward; below: discounted.")] = 1.0,
    rank_by: Annotated[str, typer.Option(help="lower: the lower end of the interval; value.")] = "lower",
    seed: Annotated[int, typer.Option(help="Makes everything random repeatable.")] = 0,
    on_end: Annotated[str | None, typer.Option(help="After a termination: restart or absorb.")] = None,
    time_limit: Annotated[str, typer.Option(help="After a truncation: continue or restart.")] = "continue",
    ignore: Annotated[list[str] | None, typer.Option(help="A finding of `inspect` to pass over.")] = None,
    format_name: Annotated[str | None, typer.Option("--format", help="The dataset's format.")] = None,
    columns: Annotated[
        list[str] | None,
        typer.Option(
            help="Names of columns of a table or .npz, such as observations=x,y or rewards=score; may be repeated."
        ),
    ] = None,
    backend: Annotated[
        str, typer.Option(help="For Parquet files that are read in parts: local, or ray for a cluster.")
    ] = "local",
    deterministic: Annotated[
        bool, typer.Option("--deterministic", help="Greedy actions, for stable-baselines3 and d3rlpy.")
    ] = False,
    page: Annotated[Path | None, typer.Option(help="Write a page with the intervals to this .html file.")] = None,
    as_json: Annotated[bool, typer.Option("--json", help="Print JSON instead of text.")] = False,
    trust: Annotated[
        bool, typer.Option("--trust", help="Allow pickles and TorchScript, which run whatever code they hold.")
    ] = False,
) -> None:
    """Which of these policies? Values with intervals on one log, and which differences are more than noise."""
    from ope_vpm.logged import LoggedDataset
    from ope_vpm.logged.scan import open_dataset
    from ope_vpm.ope.estimator import estimator_class
    from ope_vpm.ope.log import SAMPLE_ROWS
    from ope_vpm.outside import check_page, json_text
    from ope_vpm.plugins.selection import select as choose
    from ope_vpm.policy import load_policy
    from ope_vpm.progress import counting, rates

    if page is not None:
        check_page(page)
    estimator_class(estimator)  # a misspelt name is answered before a large file is read
    files = found_files(policies)
    loaded = {name: load_policy(file, trust=trust, deterministic=deterministic) for name, file in files.items()}
    data = open_dataset(dataset, SAMPLE_ROWS, format_name, backend, rates, columns=columns_of(columns), trust=trust)
    choices: dict[str, Any] = {"rank_by": rank_by, "on_end": on_end, "time_limit": time_limit, "ignore": ignore or ()}
    whole = isinstance(data, LoggedDataset)  # passes over rows that are read in parts have a bar of their own
    with counting("evaluating", len(loaded)) if whole else nullcontext() as progress:
        found = choose(data, loaded, estimator, gamma, seed=seed, progress=progress, **choices)
    if page is not None:
        found.page(page)
    if as_json:
        typer.echo(json_text(found.as_dict()))
    else:
        typer.echo(str(found))
        print_normalization(loaded.values())


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
