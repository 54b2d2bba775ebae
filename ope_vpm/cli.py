"""The command line: `ope-vpm COMMAND`."""

from __future__ import annotations

import sys
import warnings
from pathlib import Path
from typing import Annotated, Any

import typer

from ope_vpm import __version__
from ope_vpm.plugins import command as given
from ope_vpm.plugins.command import compare, gate, mcp, select
from ope_vpm.terminal import (
    Command,
    Group,
    columns_of,
    one_printable_line,
    print_estimators,
    print_normalization,
    print_values,
    print_warning,
    with_help,
)

app = typer.Typer(no_args_is_help=True, cls=Group)


def _version(asked: bool) -> None:
    if asked:
        typer.echo(f"ope-vpm {__version__}")
        raise typer.Exit


@app.callback()
def _root(
    version: Annotated[
        bool, typer.Option("--version", callback=_version, is_eager=True, help="Show the version and exit.")
    ] = False,
) -> None:
    """What is a policy worth, from logged data?"""


@app.command(cls=Command)
def inspect(
    dataset: given.Dataset,
    format_name: given.Format = None,
    report: Annotated[Path | None, typer.Option(help="Write a page with histograms to this .html file.")] = None,
    columns: given.Columns = None,
    as_json: given.AsJson = False,
    trust: given.Trust = False,
) -> None:
    """Look logged data over: counts, ranges, and what looks wrong; exit code 1 if it has errors."""
    from ope_vpm.logged.page import SAMPLE_ROWS, looked_over, write_page
    from ope_vpm.logged.scan import open_dataset
    from ope_vpm.outside import check_page, json_text
    from ope_vpm.progress import rates

    if report is not None:
        check_page(report)
    given = {"columns": columns_of(columns), "trust": trust}
    looked, shown = looked_over(open_dataset(dataset, SAMPLE_ROWS, format_name, "local", rates, **given))
    if report is not None:
        write_page(shown, looked, report, title=Path(dataset).name)
    typer.echo(json_text(looked.as_dict()) if as_json else str(looked))
    if looked.errors:
        raise typer.Exit(1)


@app.command(cls=Command)
@given.with_options
def evaluate(
    dataset: given.Dataset,
    policy: given.Target,
    options: given.QuestionOptions,
    estimator: Annotated[
        list[str] | None, typer.Option(help="auto (default), vpm, naive, …, or all; may be repeated.")
    ] = None,
    activation: given.Activation = None,
    report: Annotated[
        Path | None,
        typer.Option(help="Write a page for people to this .html file: the values, and where the weight sits."),
    ] = None,
) -> None:
    """What is a policy worth, from logged data? Value, 95 % interval, and a verdict with its reasons."""
    from ope_vpm.logged import LoggedDataset
    from ope_vpm.ope.evaluate import ALL
    from ope_vpm.ope.evaluate import evaluate as answer
    from ope_vpm.ope.reporting import report as write_report
    from ope_vpm.outside import json_text
    from ope_vpm.progress import working

    names = list(estimator or ["auto"])
    asked: Any = ALL if names == [ALL] else names
    given.check_first(() if asked == ALL else names, report)
    with working(f"reading {dataset}"):
        data = options.log(dataset)
        target = options.policy(policy, activation=activation)
    choices = options.choices
    with given.waiting(data, f"evaluating by {', '.join(names)}"):
        values = answer(data, target, asked, **choices)
    if report is not None:
        shown = data if isinstance(data, LoggedDataset) else None  # rows that are read in parts have no weights to show
        write_report(values, report, shown, f"{Path(policy).name} on {Path(dataset).name}")
    if options.as_json:
        typer.echo(json_text([value.as_dict() for value in values.values()]))
    else:
        typer.echo(str(values)) if asked == ALL else print_values(values.values())
        print_normalization([target])


@app.command(cls=Command)
def estimators() -> None:
    """List the estimators, ours and those of other packages, with one line each."""
    from ope_vpm.ope import estimators as known

    print_estimators({name: (kind.__doc__ or "").strip().partition("\n")[0] for name, kind in known().items()})


@app.command("train-policy", cls=Command)
def train_policy(
    task: Annotated[str, typer.Argument(help="reacher, halfcheetah, ant, taxi, or a wild task such as Pendulum-v1.")],
    seed: Annotated[int, typer.Option(help="Of environments, networks and draws.")] = 0,
    steps: Annotated[int | None, typer.Option(min=1, help="Fewer or more than the recipe's environment steps.")] = None,
    output: Annotated[Path | None, typer.Option(help="The folder for checkpoints; policies/TASK if not given.")] = None,
) -> None:
    """Train a task's target policy and checkpoints of lesser skill, each with a JSON about it beside it."""
    from ope_vpm.envs.train_command import train_task

    for path in train_task(task, output or Path("policies") / task, seed, steps):
        typer.echo(str(path))


@app.command(cls=Command)
def collect(
    environment: Annotated[str, typer.Argument(help="reacher, halfcheetah, ant, taxi, or a gymnasium id.")],
    output: Annotated[str, typer.Option(help="A file .npz, .parquet or .h5 (d3rlpy), or a new Minari id.")],
    policy: Annotated[
        str | None, typer.Option(help="A file, or a shipped one: target (default), step-0320000, near, older, mix, …")
    ] = None,
    trajectories: Annotated[int, typer.Option("--trajectories", "--episodes", min=1, help="How many.")] = 100,
    length: Annotated[int, typer.Option(min=1, help="Steps of each, at most.")] = 100,
    alpha: Annotated[
        float | None, typer.Option(help="Gaussian policies: 1 + α times the variance. Taxi: the target's share.")
    ] = None,
    seed: Annotated[int, typer.Option(help="Makes everything random repeatable.")] = 0,
) -> None:
    """Log trajectories of a policy in an environment, to any format we write."""
    from ope_vpm.envs.by_name import log
    from ope_vpm.logged.formats import check_output, save_as
    from ope_vpm.progress import counting

    check_output(output)
    with counting(f"collecting {environment}", trajectories) as progress:
        data = log(environment, policy, trajectories, length, alpha=alpha, seed=seed, progress=progress)
    save_as(data, output)
    typer.echo(f"{data.describe()}\n{output}")


@app.command(cls=Command)
def reproduce(
    figure: Annotated[str, typer.Argument(help="queue, sde, phylogeny, mcmc, mcmc-evolution, convergence, reacher, …")],
    quick: Annotated[bool, typer.Option("--quick", help="A few settings and runs, within a minute.")] = False,
    output: Annotated[Path, typer.Option(help="The folder for CSV, JSON, PNG and SVG.")] = Path("results"),
    runs: Annotated[
        int | None, typer.Option(help="Runs of each setting: 10 as in the paper, 2 if quick; 0 only draws again.")
    ] = None,
    processes: Annotated[int | None, typer.Option(min=1, help="Processes at once; all cores if not given.")] = None,
    data: Annotated[Path | None, typer.Option(help="The file with a paper's own log, where it is not shipped.")] = None,
) -> None:
    """Run one of the paper's studies again, or another paper's: a picture, every run as CSV, a table; stop at will.

    "papers" writes one page of the papers that are in the folder, beside it.
    """
    from ope_vpm.studies.papers.page import write_page
    from ope_vpm.studies.runner import find_study, print_table
    from ope_vpm.studies.runner import reproduce as run_study
    from ope_vpm.studies.study import QUICK_RUNS, RUNS

    if figure == "papers":
        return typer.echo(write_page(output))
    study = find_study(figure, quick, data)
    results = run_study(study, runs if runs is not None else QUICK_RUNS if quick else RUNS, output, processes)
    print_table(study, results)
    typer.echo(f"{output / study.name}.png, .svg, .csv, .json")


@app.command(cls=Command)
def stationary(
    file: Annotated[Path, typer.Argument(help="A CSV file with a header.")],
    column: Annotated[str, typer.Option(help="The column with the logged quantity.")],
    by: Annotated[str | None, typer.Option(help="A column that tells trajectories apart.")] = None,
    lag: Annotated[int, typer.Option(help="How many rows apart the two ends of a pair are.")] = 1,
    report: Annotated[
        Path | None, typer.Option(help="Draw the distribution to this picture; FILE-stationary.png if not given.")
    ] = None,
    seed: Annotated[int, typer.Option(help="Makes everything random repeatable.")] = 0,
) -> None:
    """Where is it heading? A logged quantity's stationary distribution: mean, quantiles, probabilities, a picture."""
    from ope_vpm.chain.finite.solve import StationaryWarning
    from ope_vpm.paths.picture import check_picture, draw_distribution, write_picture
    from ope_vpm.paths.stationary import read_paths
    from ope_vpm.paths.stationary import stationary as estimate

    target = report if report is not None else Path(f"{file.stem}-stationary.png")
    check_picture(target)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", StationaryWarning)  # the distribution prints them
        distribution = estimate(read_paths(file, column, by), lag=lag, seed=seed)
    write_picture(draw_distribution(distribution, column), target)
    typer.echo(str(distribution))
    typer.echo(f"picture: {target}")


@app.command(cls=Command)
def leaderboard(
    suite: Annotated[str, typer.Option(help="quick, taxi, continuous, paper, or your own FILE.toml.")] = "quick",
    backend: Annotated[str, typer.Option(help="loky: processes of this machine; ray: a cluster.")] = "loky",
    ray_address: Annotated[str | None, typer.Option(help="Of the Ray cluster; auto for the one at hand.")] = None,
    jobs: Annotated[int | None, typer.Option(help="Cells at once; all cores if not given.")] = None,
    output: Annotated[Path, typer.Option(help="The folder for the page, the tables and the store.")] = Path(
        "leaderboard"
    ),
    resume: Annotated[bool, typer.Option("--resume", help="Run only the cells that the folder does not hold.")] = False,
    trust: Annotated[
        bool, typer.Option("--trust", help="Let a suite that says trust = true read files that run code.")
    ] = False,
) -> None:
    """Every estimator against every policy of a suite: a table, and a page with the figures."""
    import signal

    from rich.console import Console

    from ope_vpm.leaderboard.output import PAGE, write_board
    from ope_vpm.leaderboard.runner import checked_suite, run_suite
    from ope_vpm.leaderboard.suite_files import SuiteError
    from ope_vpm.leaderboard.tables import terminal

    try:
        checked = checked_suite(suite, trust=trust)
    except SuiteError as error:
        typer.echo(f"ope-vpm: {error}", err=True)
        raise typer.Exit(2) from error
    signal.signal(signal.SIGTERM, signal.default_int_handler)  # as Ctrl-C: what is finished is kept and shown
    done = run_suite(checked, output, backend=backend, workers=jobs, address=ray_address, resume=resume)
    made = write_board(done.board, output, f"ope-vpm leaderboard --suite {Path(suite).name}")
    for table in terminal(made):
        Console().print(table)
    typer.echo(f"{done.computed} cells run; {output / PAGE}")
    if done.interrupted:
        typer.echo("interrupted: --resume goes on from here", err=True)
        raise typer.Exit(130)


for command in (select, compare, gate, mcp):
    app.command(cls=Command)(command)


def main() -> None:
    """Run the command line; a user's mistake ends with one sentence and exit code 2."""
    # Newer typers carry their own copy of click; the class of usage errors is the parent of this public one.
    usage_error: Any = typer.BadParameter.__base__
    try:
        with warnings.catch_warnings():
            warnings.showwarning = print_warning
            sys.exit(app(prog_name="ope-vpm", standalone_mode=False))
    except usage_error as error:
        message = with_help(error)
    except typer.Abort:
        sys.exit(130)
    except (ValueError, TypeError, OSError, ImportError, ArithmeticError, MemoryError) as error:
        message = str(error) or type(error).__name__
    if message:  # empty where the help has been shown instead
        print(f"ope-vpm: {one_printable_line(message)}", file=sys.stderr)
    sys.exit(2)
