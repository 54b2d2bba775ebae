"""Every claim that the paper shows by a figure, counted on stored runs: the table of docs/reproducing.md.

A claim compares a method with others in cells, such as the sizes of a log. "Ours" is the default of the study, "recipe"
the paper's own settings.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np

from ope_vpm.studies.control_report import cells_of, errors, informative, rmse
from ope_vpm.studies.convergence import slope
from ope_vpm.studies.runner import read_rows
from ope_vpm.studies.study import Results, Rows

Counted = Iterator[tuple[bool, float]]
"""For each cell, whether a method is below the others, and by how much."""
OURS, RECIPE = "VPM", "VPM (paper)"
YES, NO = 0.9, 0.5
"""Shares of the cells from which on a claim is agreed with, and up to which it is not: one cell in ten may differ by
noise, and half of them do where two methods are alike."""
ROBOTS = {"reacher": "Reacher", "halfcheetah": "HalfCheetah", "ant": "Ant"}
HEAD = ("claim", "figure", "ours", "the paper's recipe", "`ope-vpm reproduce`")


@dataclass(frozen=True)
class Claim:
    """A claim, counted on the runs of a folder."""

    said: str
    figure: str
    """Its label in the paper."""
    study: str
    others: tuple[str, ...]
    """The methods that VPM is compared with."""
    column: str = "log_mmd"
    """The score, which is lower where a method is nearer to the truth."""
    axes: tuple[str, ...] = ()
    """The columns that make a cell."""
    only: tuple[tuple[str, Any], ...] = ()
    """Columns with a fixed value."""
    unit: str = "nats"
    methods: tuple[str, ...] = (OURS, RECIPE)


POTENTIAL: dict[str, Any] = {"study": "mcmc", "axes": ("potential", "mcmc_step")}
QUEUE: dict[str, Any] = {"study": "queue", "column": "log_kl_true_estimate", "axes": ("samples", "finish")}
PATH: dict[str, Any] = {"others": ("EM",), "axes": ("setting", "em_steps")}
TAXI: dict[str, Any] = {
    "study": "taxi", "column": "squared_error", "axes": ("trajectories", "length", "alpha"), "unit": "log₁₀ MSE"
}  # fmt: skip
ROBOT: dict[str, Any] = {
    "others": ("wist", "wiss", "model", "naive"), "unit": "log₁₀ RMSE", "methods": ("vpm", "vpm (paper)")
}  # fmt: skip
LIU, CLONED = "Liu et al., behaviour known", "Liu et al., cloned"
BASELINES = ("WIST, cloned", "WISS, cloned", CLONED, "model-based (paper)")
SIMULATED, EXACT = ("model-based (paper)",), ("model-based (exact)",)
CLAIMS = (
    Claim("damping keeps sampling errors from adding up", "sec. 2.4", "convergence", ("undamped",), "residual",
          ("samples_a_step",), (("step", 10_000),), "powers of ten", ("damped",)),
    Claim("queues: nearer to the truth than a simulated model", "fig:queue", others=SIMULATED, **QUEUE),
    Claim("the same model solved exactly (not in the paper)", "fig:queue", others=EXACT, **QUEUE),
    Claim("SDEs: nearer than Euler–Maruyama throughout", "fig:OUP a–c", "sde", **PATH),
    Claim("phylogeny: the same", "fig:OUP d", "phylogeny", **PATH),
    Claim("MCMC: nearer than a learned model", "fig:toy_mcmc", others=("model-based",), only=(("mcmc_step", 1),),
          **POTENTIAL),
    Claim("weights reduce MMD after each MCMC step", "fig:mcmc_mmd", others=("MCMC",), **POTENTIAL),
    Claim("150 power steps are nearer than 10", "fig:mcmc_evolve", "mcmc-evolution", (), axes=("potential",)),
    Claim("Taxi: below all baselines", "fig:OPE", others=BASELINES, **TAXI),
    Claim("Liu et al., told the behaviour (not in the paper)", "fig:OPE", others=(LIU,), **TAXI),
    Claim("Liu et al. suffer from not knowing the behaviour", "fig:OPE", others=(CLONED,), methods=(LIU,), **TAXI),
    *(Claim(f"{name}: below all baselines", "fig:OPE", task, only=(("gamma", 1.0),), **ROBOT)
      for task, name in ROBOTS.items()),
    *(Claim(f"{name}: the same at γ = 0.99", "app. C", task, only=(("gamma", 0.99),), **ROBOT)
      for task, name in ROBOTS.items()),
)  # fmt: skip
"""In the paper's order."""


@cache
def stored(folder: Path, study: str) -> Rows:
    """The stored runs of a study."""
    return read_rows(folder / f"{study}.csv")


def counted(claim: Claim, method: str, folder: Path) -> Counted:
    """In each cell, whether a method is below all others, and by how much below the lowest of them."""
    some = stored(folder, claim.study).where(**dict(claim.only))
    if claim.study in ROBOTS:
        yield from _robot(claim, method, Results(some))
        return
    for cell in some.where(method=method).cells(*claim.axes):
        here = some.where(**cell)
        if claim.study == "mcmc-evolution":
            least, own = (_score(here, claim, method, power_steps=steps) for steps in (10, 150))
        elif cell.get("samples_a_step") == 0:
            continue  # without sampling there is nothing to damp
        else:
            own, least = _score(here, claim, method), min(_score(here, claim, other) for other in claim.others)
        yield own < least, least - own


def _score(rows: Rows, claim: Claim, method: str, **wanted: Any) -> float:
    """The mean over runs; its decimal logarithm where the score is not one already."""
    found = rows.where(method=method, **wanted).mean_and_error(claim.column)[0]
    return found if claim.column.startswith("log") else float(np.log10(found))


def _robot(claim: Claim, method: str, results: Results) -> Counted:
    """The claim about one robot, on the logs whose mean reward is not already near the truth."""
    for cell in cells_of(results):
        own = errors(results, claim.study, cell, method)
        if own and informative(results, claim.study, cell):
            least = min(rmse(errors(results, claim.study, cell, other)) for other in claim.others)
            yield rmse(own) < least, float(np.log10(least / rmse(own)))


def in_words(found: Iterable[tuple[bool, float]], unit: str) -> str:
    """Yes, partly or no, in how many cells, and the mean amount."""
    cells = list(found)
    share = sum(held for held, _ in cells) / len(cells)
    word = "yes" if share >= YES else "partly" if share > NO else "no"
    return f"{word}: {sum(held for held, _ in cells)} of {len(cells)}, {np.mean([by for _, by in cells]):+.2f} {unit}"


def table(folder: Path) -> str:
    """The table in Markdown, of the cells whose runs were all made by the code as it is."""
    repeated = json.loads((folder / "repeated.json").read_text(encoding="utf-8"))
    rate = [slope(Results(stored(folder, "convergence")), samples) for samples in (100, 1000, 10_000)]
    powers = " to ".join(f"t<sup>−{abs(power):.2f}</sup>" for power in (max(rate), min(rate)))  # a hyphen would break
    first = f"no: {powers} up to 10 000 steps; the bound itself holds"
    lines = [
        [
            "the residual of the damped iteration falls like t<sup>−0.5</sup>",
            "thm:convergence",
            first,
            "",
            "convergence",
        ]
    ]
    for claim in CLAIMS:
        made = repeated.get(claim.study, {})
        cells = [
            in_words(counted(claim, method, folder), claim.unit) if _made_again(made, (method, *claim.others)) else ""
            for method in claim.methods
        ]
        if any(cells):
            lines.append([claim.said, claim.figure, *cells, *[""] * (2 - len(cells)), claim.study])
    head, *rest = (f"| {' | '.join(line)} |" for line in (HEAD, *lines))
    versions = sorted({each["version"] for made in repeated.values() for each in made.values() if each["all"]})
    told = (
        f"Runs are of ope-vpm {', '.join(versions)}; [older ones](notes/037-run-again-or-taken-off.md) are not counted."
    )
    return "\n".join([head, "|---" * len(HEAD) + "|", *rest]) + f"\n\n{told}\n"


def _made_again(made: dict[str, dict[str, Any]], methods: Iterable[str]) -> bool:
    """Whether every stored run of some methods was made again by the code as it is."""
    return all(made.get(name, {}).get("all") for name in methods)
