"""A suite: which tasks, policies and estimators compete. A small TOML file; docs/leaderboard.md explains it."""

from collections.abc import Iterator
from dataclasses import dataclass, field
from math import prod
from pathlib import Path
from typing import Any, get_type_hints

from ope_vpm.leaderboard.suite_files import (
    SuiteError,
    build,
    fits,
    misfits,
    missing_files,
    read_table,
    shipped,
    with_paths,
)
from ope_vpm.leaderboard.tasks import AXES, Task, task_class
from ope_vpm.ope.estimator import Estimator, estimators, make
from ope_vpm.suggestions import unknown

__all__ = ["Entry", "Head", "Setting", "Suite", "parse_suite", "read_suite", "shipped"]

READ_HERE = ("name", "kind", "gamma", "vary", "runs", "dataset")
"""Fields of a task that are read here, not by its kind."""
MOST_PARTS = 1000
"""Tasks of a suite, and estimators."""
MOST_SETTINGS = 10_000
"""Settings that the lists of one task may make."""
MOST_STEPS = 1_000_000_000
"""Steps of one log."""
MOST_CELLS = 1_000_000
"""Cells of a board: a page of more could not be read."""


@dataclass(frozen=True, kw_only=True)
class Entry:
    """An estimator that competes."""

    name: str
    label: str = ""
    """How tables call it; its name, if not given."""
    settings: dict[str, Any] = field(default_factory=dict)
    tasks: tuple[str, ...] = ()
    """Where it runs; everywhere, if not given."""
    optional: bool = False
    """Left out where it cannot do what is asked, instead of being a mistake; "all" enters everybody so."""

    def make(self) -> Estimator:
        """Make the estimator."""
        return make(self.name, self.settings)

    def enters(self, task: str) -> bool:
        """Whether it runs on the task."""
        return not self.tasks or task in self.tasks


@dataclass(frozen=True)
class Setting:
    """A task with one choice of sizes and γ."""

    name: str
    task: Task
    gamma: float
    runs: int | None = None
    """Where it is not the suite's number."""

    @property
    def label(self) -> str:
        """The task's name with the sizes and the discount that vary."""
        axes = {name: value for name, value in self.task.axes().items() if value is not None}
        short = {"trajectories": "n", "length": "T", "alpha": "α"}
        sizes = [f"{short[name]}={value:g}" for name, value in axes.items()]
        return ", ".join([self.name, *sizes, "per episode" if self.task.per == "episode" else f"γ={self.gamma:g}"])


@dataclass(frozen=True)
class Suite:
    """Everything a leaderboard runs."""

    name: str
    title: str
    description: str
    runs: int
    first_seed: int
    settings: tuple[Setting, ...]
    entries: tuple[Entry, ...]
    left_out: dict[tuple[str, str, float], str] = field(default_factory=dict)
    """Why an optional estimator does not run, by its label, the task and γ."""

    def seeds(self, setting: Setting) -> range:
        """One seed a run; a log that is taken whole is one run."""
        whole = getattr(setting.task, "trajectories", None) is None
        return range(self.first_seed, self.first_seed + (1 if whole else setting.runs or self.runs))

    def competitors(self, setting: Setting) -> list[Entry]:
        """The estimators that run on a setting."""
        return [
            entry
            for entry in self.entries
            if entry.enters(setting.name) and (entry.label, setting.name, setting.gamma) not in self.left_out
        ]


@dataclass(frozen=True, kw_only=True)
class Head:
    """The top of a suite's file."""

    title: str = ""
    description: str = ""
    runs: int = 10
    first_seed: int = 0


def read_suite(name: str) -> Suite:
    """A suite by its name or file; raises `SuiteError` with every problem of its structure."""
    suite, problems = parse_suite(name)
    if problems:
        raise SuiteError(suite.name, problems)
    return suite


def parse_suite(name: str, trust: bool = False) -> tuple[Suite, list[str]]:
    """Parse a suite as far as possible, and list its problems; `trust` allows tasks that trust their files."""
    table, folder = read_table(name, trust)
    problems = misfits(Head, table, ("tasks", "estimators"))
    hints = get_type_hints(Head)
    head = build(Head, {key: value for key, value in table.items() if key in hints and fits(value, hints[key])})
    if head.runs < 1 or head.first_seed < 0:
        problems.append(f"runs must be at least 1, first_seed 0: got {head.runs} and {head.first_seed}")
    settings = _settings(table.get("tasks", []), folder, problems)
    entries = _entries(table.get("estimators", []), _names(table.get("tasks", [])), problems)
    stem = Path(name).stem
    suite = Suite(stem, head.title or stem, head.description, head.runs, head.first_seed, settings, entries)
    cells = sum(len(suite.seeds(setting)) * len(suite.competitors(setting)) for setting in settings)
    if cells > MOST_CELLS:
        problems.append(f"a suite must have at most {MOST_CELLS} cells of setting, run and estimator: got {cells}")
    return suite, problems


def _names(tables: Any) -> list[str]:
    known = [table for table in tables if isinstance(table, dict)] if isinstance(tables, list) else []
    return [table["name"] for table in known if isinstance(table.get("name"), str)]


def _settings(tables: Any, folder: Path, problems: list[str]) -> tuple[Setting, ...]:
    if not isinstance(tables, list) or not tables or not all(isinstance(table, dict) for table in tables):
        problems.append("a suite needs at least one [[tasks]] table")
        return ()
    if len(tables) > MOST_PARTS:
        problems.append(f"a suite must have at most {MOST_PARTS} tasks: got {len(tables)}")
        return ()
    settings: list[Setting] = []
    for number, table in enumerate(tables, 1):
        found = list(_task(table, folder, problems, f"task {table.get('name', number)!r}"))
        if any(setting.name in {other.name for other in settings} for setting in found[:1]):
            problems.append(f"task {table['name']!r} is there twice: names must differ")
        settings += found
    return tuple(settings)


def _task(table: dict[str, Any], folder: Path, problems: list[str], where: str) -> Iterator[Setting]:
    """The settings of one [[tasks]] table."""
    found = _head_problems(table)
    try:
        cls = task_class(str(table.get("kind")))
    except ValueError as error:
        problems += [f"{where}: {problem}" for problem in [*found, str(error)]]
        return
    given = {name: value for name, value in with_paths(table, folder).items() if name not in READ_HERE}
    lists = {name: given.pop(name) for name in AXES if isinstance(given.get(name), list)}
    first = {name: values[0] for name, values in lists.items() if values}
    found += misfits(cls, given | first, READ_HERE)
    found += [f"{name} must not be an empty list" for name, values in lists.items() if not values]
    count = prod(map(len, lists.values())) if table.get("vary") == "all" else sum(map(len, lists.values()))
    if count > MOST_SETTINGS:
        found.append(f"its lists make {count} settings: at most {MOST_SETTINGS} are allowed")
    found += missing_files(given) if found else []  # a task that can be made says this itself
    made: list[Task] = []
    for varied in [] if found else _variants(lists, table.get("vary", "each")):
        wrong = misfits(cls, given | varied, READ_HERE)
        found += wrong
        if not wrong:
            made.append(build(cls, given | varied))
            found += made[-1].problems()
            found += _unfit(made[-1], table.get("gamma", 1.0))
    problems += [f"{where}: {problem.replace('dataset_file', 'dataset')}" for problem in dict.fromkeys(found)]
    if not found:
        gammas = table.get("gamma", 1.0)
        for gamma in gammas if isinstance(gammas, list) else [gammas]:
            yield from (Setting(table["name"], task, float(gamma), table.get("runs")) for task in made)


def _unfit(task: Task, gamma: Any) -> list[str]:
    """Why a task cannot be run: logs too large, or a unit whose truth is not known, as of returns below γ = 1."""
    sizes = [value for name in ("trajectories", "length") if isinstance(value := getattr(task, name, None), int)]
    if prod(sizes) > MOST_STEPS:
        return [f"trajectories times length must be at most {MOST_STEPS}: got {prod(sizes)}"]
    if task.per not in task.units:
        return [f"per must be one of {', '.join(task.units)} for the kind {task.kind!r}: got {task.per!r}"]
    if task.per == "episode" and gamma not in (1, [1]):
        return [f"per = 'episode' is the undiscounted return, so that gamma must be 1: got {gamma!r}"]
    return []


def _head_problems(table: dict[str, Any]) -> list[str]:
    found = [f"{name} is missing" for name in ("name", "kind") if not isinstance(table.get(name), str)]
    gammas = table.get("gamma", 1.0)
    if gammas == []:
        found.append("gamma must not be an empty list")
    for gamma in gammas if isinstance(gammas, list) else [gammas]:
        if not fits(gamma, float) or not 0 <= gamma <= 1:
            found.append(f"gamma must be a number between 0 and 1: got {gamma!r}")
    if not fits(table.get("runs", 1), int) or table.get("runs", 1) < 1:
        found.append(f"runs must be a whole number, at least 1: got {table['runs']!r}")
    if table.get("vary", "each") not in ("each", "all"):
        found.append(f"vary must be 'each' or 'all': got {table['vary']!r}")
    return found


def _variants(lists: dict[str, list[Any]], vary: str) -> Iterator[dict[str, Any]]:
    """Every combination, or the first values with one of them changed at a time."""
    if vary == "all":
        combined: list[dict[str, Any]] = [{}]
        for name, values in lists.items():
            combined = [{**before, name: value} for before in combined for value in dict.fromkeys(values)]
        yield from combined
        return
    base = {name: values[0] for name, values in lists.items()}
    yield base
    for name, values in lists.items():
        yield from ({**base, name: value} for value in dict.fromkeys(values[1:]) if value != base[name])


def _entries(given: Any, tasks: list[str], problems: list[str]) -> tuple[Entry, ...]:
    if not isinstance(given, list) or not given:
        problems.append('a suite needs at least one estimator: estimators = ["vpm", ...], or "all" in the list')
        return ()
    if len(given) > MOST_PARTS:
        problems.append(f"a suite must have at most {MOST_PARTS} estimators: got {len(given)}")
        return ()
    entries: list[Entry] = []
    tables = [{"name": item} if isinstance(item, str) else item for item in given]
    for table in tables:
        if not isinstance(table, dict):
            problems.append(f"an estimator is a name or a table: got {table!r}")
            continue
        wrong = misfits(Entry, table | {"settings": {}})
        if not isinstance(table.get("settings", {}), dict):
            wrong.append(f"settings must be a table: got {table['settings']!r}")
        where = f"estimator {table.get('label') or table.get('name')!r}"
        if not wrong:
            wrong = [unknown("task", task, tasks) for task in table.get("tasks", []) if task not in tasks]
        if wrong:
            problems += [f"{where}: {problem}" for problem in wrong]
            continue
        made = Entry(**{**table, "label": table.get("label") or table["name"], "tasks": tuple(table.get("tasks", ()))})
        entries += _everybody(tables, made.tasks) if made.name == "all" else [made]
    return _made(entries, problems)


def _everybody(tables: list[Any], tasks: tuple[str, ...]) -> list[Entry]:
    """All estimators that the list does not name itself."""
    named = [table.get("label", table.get("name")) for table in tables if isinstance(table, dict)]
    return [Entry(name=name, label=name, tasks=tasks, optional=True) for name in estimators() if name not in named]


def _made(entries: list[Entry], problems: list[str]) -> tuple[Entry, ...]:
    """The entries whose estimator exists and accepts its settings; the others become problems."""
    good: list[Entry] = []
    for entry in entries:
        try:
            entry.make()
        except (ValueError, TypeError, ImportError) as error:
            problems.append(f"estimator {entry.label!r}: {error}" if str(error) else f"estimator {entry.label!r}")
            continue
        if entry.label in {other.label for other in good}:
            problems.append(f"estimator {entry.label!r} is there twice: give each its own label")
        good.append(entry)
    return tuple(good)
