"""The tables of `benchmarks.wild`: errors in floors, and whether verdicts and intervals keep their word.

A floor is the standard deviation of an on-policy mean of as many episodes. The truth's own error is allowed for: its
square is subtracted from mean squared errors, and an interval covers the truth if it comes within 1.96 of its standard
errors. Cells whose floor is 0, where every step pays the same, are left out.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import MISSING, dataclass, fields
from itertools import groupby
from typing import Any

import numpy as np

LEAST = 0.05
"""Floors: the least error a cell counts with in a geometric mean, where nothing is left without the truth's error."""
WRONG, GOOD = 3.0, 1.5
"""Floors beyond which a confident answer is wrong, and within which an answer is good."""
WORSE = 1.3
"""Times the better of the two plain estimators that an answer may be off without being called unreliable."""
PLAIN = ("naive", "onestep")
ALLOWED = ("naive", "wist", "wdr")
"""Whose best an answer on ICU-Sepsis is compared with."""


@dataclass(frozen=True, kw_only=True)
class Run:
    """One row: an estimate on one log."""

    task: str
    behaviour: str
    episodes: int
    cut: bool
    seed: int
    gamma: float
    per: str
    estimator: str
    finite: bool
    truth: float
    truth_error: float
    floor: float
    value: float | None = None
    low: float | None = None
    high: float | None = None
    verdict: str = ""
    seconds: float = 0.0
    error: str = ""

    @classmethod
    def read(cls, row: dict[str, str]) -> Run:
        """From the texts of a CSV; columns of other versions are passed over."""
        return cls(**{field.name: _parsed(str(field.type), row[field.name], field.default) for field in fields(cls)})

    @property
    def cell(self) -> tuple[Any, ...]:
        """What runs of several seeds have in common."""
        return self.task, self.behaviour, self.episodes, self.cut, self.gamma, self.per

    @property
    def floors(self) -> float:
        """The error in floors."""
        return abs((self.value or 0.0) - self.truth) / self.floor

    @property
    def covered(self) -> bool:
        """Whether the interval holds the truth; none holds nothing."""
        if self.low is None or self.high is None:
            return False
        slack = 1.96 * self.truth_error
        return self.low - slack <= self.truth <= self.high + slack

    @property
    def confidently_wrong(self) -> bool:
        """Called reliable, far off, and the truth outside of the interval."""
        return self.verdict == "reliable" and self.floors > WRONG and not self.covered


def _parsed(kind: str, text: str, default: Any) -> Any:
    if text == "" and default is not MISSING:
        return default
    if kind == "bool":
        return text == "True"
    return int(text) if kind == "int" else float(text) if kind.startswith("float") else text


def rmse(runs: Sequence[Run]) -> float:
    """The root mean squared error of one cell in floors, the truth's own error subtracted."""
    squared = np.mean([run.floors**2 for run in runs]) - (runs[0].truth_error / runs[0].floor) ** 2
    return float(max(float(squared), LEAST**2) ** 0.5)


def by_cell(runs: Iterable[Run]) -> dict[tuple[Any, ...], list[Run]]:
    """The runs of each cell."""
    ordered = sorted(runs, key=lambda run: run.cell)
    return {cell: list(group) for cell, group in groupby(ordered, key=lambda run: run.cell)}


def geometric_mean(runs: Iterable[Run]) -> float:
    """The geometric mean of the cells' errors in floors."""
    errors = [rmse(group) for group in by_cell(runs).values()]
    return float(np.exp(np.mean(np.log(errors)))) if errors else float("nan")


def share(runs: Sequence[Run], holds: Callable[[Run], bool]) -> str:
    """A share of runs as text, with their number."""
    return f"{100 * np.mean([holds(run) for run in runs]):.0f} % of {len(runs)}" if runs else "none"


def worse_than_plain(runs: Sequence[Run], others: Sequence[Run]) -> tuple[int, int]:
    """Cells in which the answers not called unreliable are off by more than 1.3 times the better plain estimator.

    Returns:
        How many, and out of how many cells that have plain estimators.
    """
    plain = [by_cell(run for run in others if run.estimator == name) for name in PLAIN]
    worse = total = 0
    for cell, group in by_cell(runs).items():
        rivals = [rmse(cells[cell]) for cells in plain if cell in cells]
        kept = [run for run in group if run.verdict != "unreliable"]
        total += bool(rivals)
        worse += bool(rivals and kept) and rmse(kept) > WORSE * min(rivals)
    return worse, total


def summary(runs: Sequence[Run], others: Sequence[Run]) -> dict[str, str]:
    """The lines about one estimator; `others` holds the runs of all."""
    step = [run for run in runs if run.per == "step"]
    episode = [run for run in runs if run.per == "episode"]
    by_verdict = {level: [run for run in step if run.verdict == level] for level in ("reliable", "caution")}
    worse, total = worse_than_plain(step, [run for run in others if run.per == "step"])
    sepsis = [run for run in step if "Sepsis" in run.task]
    return {
        "near and mix, floors": f"{geometric_mean(_logged_by(step, 'near', 'mix')):.2f}",
        "near, mix and older, floors": f"{geometric_mean(_logged_by(step, 'near', 'mix', 'older')):.2f}",
        "all behaviours, floors": f"{geometric_mean(step):.2f}",
        "finite tasks, floors": f"{geometric_mean(run for run in step if run.finite):.2f}",
        "ICU-Sepsis, cells worse than the best of naive, wist, wdr": _beaten(sepsis, others),
        "reliable: covered": share(by_verdict["reliable"], lambda run: run.covered),
        "reliable: confidently wrong": share(by_verdict["reliable"], lambda run: run.confidently_wrong),
        "caution: covered": share(by_verdict["caution"], lambda run: run.covered),
        "within 1.5 floors and called reliable": share(
            [run for run in step if run.floors <= GOOD], lambda run: run.verdict == "reliable"
        ),
        "poor logs called unreliable, continuous states": share(
            [run for run in _logged_by(step, "poor") if not run.finite], lambda run: run.verdict == "unreliable"
        ),
        "worse than 1.3 × the better of naive and onestep, not unreliable": f"{worse} of {total} cells",
        "return per episode, near and mix, floors": f"{geometric_mean(_logged_by(episode, 'near', 'mix')):.2f}",
        "return per episode: reliable and covered": share(
            [run for run in episode if run.verdict == "reliable"], lambda run: run.covered
        ),
        "return per episode: covered": share(episode, lambda run: run.covered),
        "seconds": f"{np.mean([run.seconds for run in step]):.2f}" if step else "",
    }


def _logged_by(runs: Iterable[Run], *behaviours: str) -> list[Run]:
    return [run for run in runs if run.behaviour in behaviours]


def _beaten(runs: Sequence[Run], others: Sequence[Run]) -> str:
    rivals = [by_cell(run for run in others if run.estimator == name) for name in ALLOWED]
    worse = [
        rmse(group) > min((rmse(cells[cell]) for cells in rivals if cell in cells), default=np.inf)
        for cell, group in by_cell(runs).items()
    ]
    return f"{sum(worse)} of {len(worse)}"


def print_tables(runs: Sequence[Run]) -> None:
    """Errors in floors by task, then the summary, one column per estimator, as Markdown."""
    failed = [run for run in runs if run.value is None]
    scored = [run for run in runs if run.value is not None and run.floor > 0]
    names = list(dict.fromkeys(run.estimator for run in scored))
    print("\nRMSE in floors: near / older / mix / poor\n")
    _print(["task", "γ", *names], _task_rows(scored, names))
    lines = {name: summary([run for run in scored if run.estimator == name], scored) for name in names}
    print()
    _print(
        ["", *names], [[line, *(lines[name][line] for name in names)] for line in (lines[names[0]] if names else ())]
    )
    for message in sorted({f"{run.estimator} ({run.per}): {run.error}" for run in failed}):
        print(f"without a value: {message}")


def _task_rows(runs: Sequence[Run], names: Sequence[str]) -> Iterable[list[str]]:
    for kind in sorted({_row_of(run) for run in runs}):
        mine = [run for run in runs if _row_of(run) == kind]
        task, gamma, per, episodes, cut = kind
        label = f"{task}, {episodes} {'cut' if cut else 'whole'}"
        quantity = f"{gamma:g}" if per == "step" else "episode"
        yield [label, quantity, *(_behaviour_errors([run for run in mine if run.estimator == name]) for name in names)]


def _row_of(run: Run) -> tuple[Any, ...]:
    """What a row of the table by task has in common."""
    return run.task, run.gamma, run.per, run.episodes, run.cut


def _behaviour_errors(runs: Sequence[Run]) -> str:
    groups = [_logged_by(runs, behaviour) for behaviour in ("near", "older", "mix", "poor")]
    return " / ".join(f"{rmse(group):.1f}" if group else "–" for group in groups)


def _print(head: Sequence[str], rows: Iterable[Sequence[str]]) -> None:
    print("| " + " | ".join(head) + " |")
    print("|" + "---|" * len(head))
    for row in rows:
        print("| " + " | ".join(row) + " |")
