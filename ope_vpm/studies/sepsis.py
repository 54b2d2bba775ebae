"""Survival in ICU-Sepsis: what better treatment policies would be worth, from logs of the clinicians.

The task was built from MIMIC-III by other people (Choudhary et al. 2024, package icu-sepsis): 716 states, 25
treatments, and an episode ends with death or survival. The clinicians log; the targets are the optimal policy and a
half-way mixture of both. What is asked is the probability of survival, the undiscounted return of an episode, which is
known exactly.
"""

from functools import cache

import numpy as np
from matplotlib.figure import Figure

from ope_vpm.envs.wild import wild_task
from ope_vpm.envs.wild.tables import FiniteTask, clinicians, patient_features
from ope_vpm.logged import LoggedDataset
from ope_vpm.ope.adapter.given import Choices
from ope_vpm.ope.evaluate import evaluate
from ope_vpm.policy import TablePolicy
from ope_vpm.studies.study import Cell, Outcome, Results, Row, Rows, Study, Table, curve, legend_below, panels, timed

EPISODES = (50, 200, 1000, 5000)
TARGETS = ("optimal", "half-way")
SIMILAR = "auto, similar states"
"""`auto` with the centres of the package's clusters of patients as `state_features`."""
METHODS = ("auto", SIMILAR, "model", "dr", "wdr", "wist", "onestep", "naive")
"""The estimators that tell the return of an episode on finite states, `auto` being `vpm` there."""
TUNING_SEEDS = "100-103 of made-up wards"
"""No setting but one was chosen on this task: see note 007."""
SWEEPS = 500
"""Sweeps of value iteration at γ = 1; episodes have about ten steps."""


def study(quick: bool) -> Study:
    """Two targets at four sizes of the log; the quick one has the two smallest."""
    sizes = EPISODES[:2] if quick else EPISODES
    cells: list[Cell] = [{"target": target, "episodes": size} for target in TARGETS for size in sizes]
    settings = {"methods": list(METHODS), "sweeps": SWEEPS, "gamma": 1.0}
    return Study("sepsis", "Survival in ICU-Sepsis", settings, cells, run, table, draw, TUNING_SEEDS)


@cache
def task() -> FiniteTask:
    """ICU-Sepsis as a wild task, with its exact outcomes."""
    found = wild_task("Sepsis/ICU-Sepsis-v2")
    assert isinstance(found, FiniteTask)
    return found


@cache
def target(name: str) -> TablePolicy:
    """The optimal policy by value iteration, or the mixture of it and the clinicians in equal parts."""
    values = task().model.action_values(1.0, SWEEPS)
    best = np.eye(values.shape[1])[values.argmax(axis=1)]
    return TablePolicy(best if name == "optimal" else 0.5 * best + 0.5 * clinicians().table)


@cache
def truth(name: str) -> tuple[float, float]:
    """The probability of survival under a target, and its deviation per episode."""
    found = task().model.episode_return(target(name), task().own_limit)
    return found.value, found.deviation


def run(cell: Cell, seed: int) -> Outcome:
    """Run all methods on one log."""
    data = task().run([clinicians()], cell["episodes"], task().own_limit, seed)
    return Outcome([_row(name, data, cell["target"], seed) for name in METHODS])


def _row(method: str, data: LoggedDataset, name: str, seed: int) -> Row:
    features = patient_features() if method == SIMILAR else None
    known: Choices = {"seed": seed, "state_features": features}
    found, seconds = timed(lambda: evaluate(data, target(name), method.split(",")[0], **known))
    exact, _ = truth(name)
    row: Row = {"method": method, "error": float("nan"), "covered": "", "verdict": "", "seconds": seconds}
    if (survival := found.episode_return) is not None:
        low, high = survival.interval or (np.nan, np.nan)
        row |= {"error": survival.value - exact, "covered": int(low <= exact <= high), "verdict": survival.verdict}
    return row


def rms(rows: Rows) -> float:
    """The root mean squared error over the runs with an answer: by some logs a target reaches no end."""
    errors = np.array([row["error"] for row in rows], dtype=float)
    known = errors[np.isfinite(errors)]
    return float(np.sqrt(np.mean(known**2))) if len(known) else float("nan")


def table(results: Results) -> Table:
    """Root mean squared errors of the survival probability, and how often auto's intervals hold it."""
    lines = []
    for cell in results.rows.cells("target", "episodes"):
        rows, (_, deviation) = results.rows.where(**cell), truth(cell["target"])
        own = rows.where(method="auto")
        errors = [_error(rows.where(method=name)) for name in METHODS]
        floor = deviation / np.sqrt(cell["episodes"])
        covered = sum(int(row["covered"] or 0) for row in own)
        reliable = sum(row["verdict"] == "reliable" for row in own)
        lines.append(
            [*map(str, cell.values()), *errors, f"{floor:.3f}", f"{covered} of {len(own)}", f"{reliable} of {len(own)}"]
        )
    head = ["target", "episodes", *METHODS, "on-policy", "auto covered", "auto reliable"]
    return Table(head, lines, "root mean squared error of the survival probability")


def _error(rows: Rows) -> str:
    """The error as text, with the number of answers where some are missing."""
    known = sum(bool(np.isfinite(row["error"])) for row in rows)
    if known == 0:
        return "none"
    return f"{rms(rows):.3f}" + (f" ({known} of {len(rows)})" if known < len(rows) else "")


def draw(results: Results) -> Figure:
    """Error against the number of episodes, one panel for each target."""
    figure, axes = panels(1, len(TARGETS), height=4.2)
    for axis, name in zip(axes, TARGETS, strict=True):
        for number, method in enumerate(METHODS):
            style = {"color": f"C{number}", "marker": "."}
            curve(axis, results.rows.where(target=name), method, "episodes", lambda rows: (rms(rows), 0.0), **style)
        sizes = sorted({row["episodes"] for row in results.rows})
        floor = [truth(name)[1] / np.sqrt(size) for size in sizes]
        axis.plot(sizes, floor, color="black", linestyle=":", label="on-policy")
        axis.set(xscale="log", yscale="log", xlabel="episodes of the clinicians")
        axis.set_title(f"{name}: {truth(name)[0]:.3f}")
    axes[0].set_ylabel("rms error of the survival probability")
    legend_below(figure)
    return figure
