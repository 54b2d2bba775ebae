"""The coefficients of doubts, fitted on generated tasks: `python -m benchmarks calibrate --tasks 600 --seed 1000`.

Every task is a line of a JSONL file as soon as it is finished, and is not run again. `--fit` writes
`ope_vpm/ope/inference/coefficients.json` from the lines that are there; `--report` prints how well the intervals and
verdicts of those lines did, which says something about other tasks only if none of them was fitted.

The fit: |v - truth| is taken for a Student variable with 4 degrees of freedom and the scale S² = se² + Σ(c·b)², whose
likelihood is maximised over c ≥ 0; a factor on all c then makes v ± t·S hold 95 of 100 truths. What the doubts are
worth is the interval score of tasks that were left out.
"""

from __future__ import annotations

import argparse
import json
import time
from collections.abc import Sequence
from dataclasses import asdict, dataclass, field
from datetime import date
from importlib.metadata import version
from pathlib import Path
from typing import Any

import numpy as np
from scipy import optimize, stats

from benchmarks._generated import Task, generated
from ope_vpm.arrays import Floats
from ope_vpm.ope.auto.estimator import Auto
from ope_vpm.ope.inference import doubts
from ope_vpm.ope.inference.estimate import RawEstimate, noise_of
from ope_vpm.ope.problem import Problem

FILE = Path(doubts.__file__).with_name("coefficients.json")
HEAVY = 4.0
"""Degrees of freedom of the errors: their tails are as heavy as those of a log that now and then misleads."""
FOLDS, LEVEL, PENALTY = 5, 0.95, 40.0
"""Parts of the tasks that are left out in turn; the interval score is width + 40·(how far the truth lies outside)."""
CODES = tuple(rule.code for rule in doubts.RULES)
LEAST_RAISED = 20
"""Tasks on which a bias must have been suspected for its coefficient to be fitted."""
ENOUGH = 0.9
"""The share of unreliable answers whose intervals are to hold the truth."""
GOOD, WRONG = 1.5, 3.0
"""Floors within which an answer is good, and beyond which a reliable one is confidently wrong."""


@dataclass(frozen=True)
class Line:
    """One task: the answer, the truth, and what was suspected."""

    seed: int
    kind: str
    finite: bool
    episodes: int
    rows: int
    gamma: float
    truth: float
    truth_error: float
    floor: float
    value: float = float("nan")
    noise: float = float("nan")
    """The standard error by noise alone."""
    low: float = float("nan")
    high: float = float("nan")
    verdict: str = ""
    biases: dict[str, float] = field(default_factory=dict)
    sizes: dict[str, float] = field(default_factory=dict)
    numbers: dict[str, Any] = field(default_factory=dict)
    reasons: tuple[str, ...] = ()
    seconds: float = 0.0
    error: str = ""

    @property
    def usable(self) -> bool:
        """Whether there is something to fit."""
        return not self.error and self.floor > 0 and bool(np.isfinite([self.value, self.noise]).all())


def answer(task: Task) -> Line:
    """Draw the log of a task, ask `auto`, and keep what it suspects."""
    truth, log = task.truth(), task.log()
    about = Line(
        task.seed, task.kind, log.finite, log.n_episodes, len(log), task.gamma, truth.value, truth.error, truth.floor
    )
    start = time.perf_counter()
    try:
        policy, limit = task.target.policy(), task.time_limit
        problem = Problem.pose(log, policy, gamma=task.gamma, seed=task.seed, time_limit=limit)
        found, raw = Auto().answered(problem)
    except Exception as error:  # a refusal is a result: one task must not end the others' runs
        return Line(**{**asdict(about), "error": f"{type(error).__name__}: {error}"})
    noise = noise_of(problem, raw, found.standard_error)
    low, high = found.interval or (float("nan"), float("nan"))
    known = {
        "value": found.value,
        "noise": float("nan") if noise is None else noise.error,
        "low": low,
        "high": high,
        "verdict": found.verdict,
        "reasons": found.reasons,
        "seconds": time.perf_counter() - start,
        **evidence(raw),
        "numbers": {name: one for name, one in found.diagnostics.items() if isinstance(one, int | float | str)},
    }
    return Line(**{**asdict(about), **known})


def evidence(raw: RawEstimate) -> dict[str, dict[str, float]]:
    """The biases that are suspected, and the numbers that are judged, by the codes of the doubts."""
    return {
        "biases": {each.code: each.bias for each in raw.doubts if each.rule is not None and each.bias is not None},
        "sizes": {each.code: each.size for each in raw.doubts if each.rule is not None},
    }


@dataclass(frozen=True)
class Fitting:
    """The errors of many tasks in floors, and what was suspected of them."""

    miss: Floats
    noise: Floats
    truth_error: Floats
    biases: Floats
    """(tasks, doubts)."""
    quantile: Floats
    """Student's, by the number of episodes."""

    @classmethod
    def of(cls, lines: Sequence[Line], codes: Sequence[str]) -> Fitting:
        """From usable lines."""
        floor = np.array([line.floor for line in lines])
        per_line = np.array([[line.value - line.truth, line.noise, line.truth_error] for line in lines])
        biases = np.array([[line.biases.get(code, 0.0) for code in codes] for line in lines])
        quantile = stats.t.ppf((1 + LEVEL) / 2, np.maximum([line.episodes - 1 for line in lines], 1))
        miss, noise, truth_error = (per_line / floor[:, None]).T
        return cls(np.abs(miss), noise, truth_error, biases / floor[:, None], quantile)

    def take(self, rows: Floats) -> Fitting:
        """Some of the tasks."""
        return Fitting(*(getattr(self, name)[rows] for name in ("miss", "noise", "truth_error", "biases", "quantile")))

    def scale(self, coefficients: Floats) -> Floats:
        """S."""
        square: Floats = self.noise**2 + (self.biases**2) @ (coefficients**2)
        return np.sqrt(square)

    def fitted(self) -> Floats:
        """The coefficients of most likelihood, stretched until LEVEL of the truths is held."""
        size = self.biases.shape[1]

        def loss(logs: Floats) -> float:
            scale = np.hypot(self.scale(np.exp(logs)), self.truth_error) + 1e-12
            return float(-np.sum(stats.t.logpdf(self.miss / scale, HEAVY) - np.log(scale)))

        starts = [np.full(size, np.log(start)) for start in (0.1, 0.5)]
        best = min(
            (optimize.minimize(loss, start, method="L-BFGS-B", bounds=[(-7, 1)] * size) for start in starts),
            key=lambda found: float(found.fun),
        )
        found: Floats = np.exp(best.x) * (best.x > -6)
        factors = np.geomspace(0.3, 10, 200)
        held = np.array([self.covered(factor * found).mean() for factor in factors])
        enough = np.flatnonzero(held >= LEVEL)
        return found * (factors[enough[0]] if len(enough) else factors[-1])

    def covered(self, coefficients: Floats) -> Floats:
        """Whether v ± t·S holds the truth, whose own error is allowed for."""
        return self.miss <= self.quantile * self.scale(coefficients) + 1.96 * self.truth_error

    def scores(self, coefficients: Floats) -> Floats:
        """Interval scores in floors."""
        half = self.quantile * self.scale(coefficients)
        beyond: Floats = np.maximum(self.miss - half - 1.96 * self.truth_error, 0.0)
        return 2 * half + PENALTY * beyond


def left_out(fitting: Fitting) -> tuple[float, float, float]:
    """Coverage, mean and geometric mean interval score of tasks that did not choose the coefficients."""
    fold = np.arange(len(fitting.miss)) % FOLDS
    covered, scores = np.empty(len(fold)), np.empty(len(fold))
    for number in range(FOLDS):
        others, mine = fitting.take(fold != number), fitting.take(fold == number)
        coefficients = others.fitted()
        covered[fold == number], scores[fold == number] = mine.covered(coefficients), mine.scores(coefficients)
    return float(covered.mean()), float(scores.mean()), float(np.exp(np.mean(np.log(scores + 1e-9))))


def fit(lines: Sequence[Line], command: str) -> None:
    """Fit the coefficients, print what each doubt is worth on tasks left out, and write the file.

    Tasks that are called unreliable choose nothing but the coefficient of missing support: how wrong those answers are
    is known to nobody. Doubts that are hardly ever raised on such tasks keep the coefficient 1.
    """
    told = [line for line in lines if line.verdict != "unreliable"]
    raised = {code: sum(line.biases.get(code, 0.0) > 0 for line in told) for code in CODES}  # on how many tasks
    codes = [code for code in CODES if raised[code] >= LEAST_RAISED and code != doubts.SUPPORT.code]
    print(f"{len(told)} tasks that are not unreliable; with {codes}: {_told(left_out(Fitting.of(told, codes)))}")
    for code in codes:
        rest = [each for each in codes if each != code]
        print(f"  without {code}: {_told(left_out(Fitting.of(told, rest)))}")
    fitted = Fitting.of(told, codes).fitted()
    chosen = {code: 1.0 for code in CODES if any(code in line.biases for line in lines)}
    chosen |= {code: float(f"{one:.3g}") for code, one in zip(codes, fitted, strict=True)}
    chosen[doubts.SUPPORT.code] = support([line for line in lines if line.verdict == "unreliable"], chosen)
    print(chosen)
    about = {"made": command, "tasks": len(lines), "raised": raised, "date": date.today().isoformat()}
    made = {**about, "coefficients": chosen}
    FILE.write_text(json.dumps(made, indent=2) + "\n", encoding="utf-8")


def support(lines: Sequence[Line], chosen: dict[str, float]) -> float:
    """The least coefficient of missing support with which intervals hold enough of the truths of unreliable answers."""
    fitting, grid = Fitting.of(lines, CODES), (0.0, 0.01, 0.02, 0.03, 0.05, 0.1, 0.15, 0.2, 0.3, 0.5)
    for one in grid:
        other = chosen | {doubts.SUPPORT.code: one}
        if fitting.covered(np.array([other.get(code, 0.0) for code in CODES])).mean() >= ENOUGH:
            return one
    return grid[-1]


def _told(numbers: tuple[float, float, float]) -> str:
    return "coverage {:.1%}, interval score {:.1f} floors, geometric {:.2f}".format(*numbers)


def summary(lines: Sequence[Line]) -> dict[str, dict[str, float]]:
    """How the answers did, by verdict, over all, of good ones and of the log's own policy."""
    floors = np.array([abs(line.value - line.truth) / line.floor for line in lines])
    width = np.array([(line.high - line.low) / line.floor for line in lines])
    outside = [max(line.low - line.truth, line.truth - line.high) - 1.96 * line.truth_error for line in lines]
    beyond = np.maximum(outside, 0.0) / np.array([line.floor for line in lines])
    verdict, own = np.array([line.verdict for line in lines]), np.array([line.kind == "same" for line in lines])
    score, held, good = width + PENALTY * beyond, beyond == 0, floors <= GOOD
    groups = {level: verdict == level for level in doubts.LEVELS} | {"all": held | ~held, "good": good, "own": own}
    return {
        name: {
            "tasks": int(mine.sum()),
            "covered": float(held[mine].mean()),
            "wrong": float(np.mean((floors > WRONG) & ~held & mine) / np.mean(mine)),
            "reliable": float(np.mean(verdict[mine] == "reliable")),
            "score": float(score[mine].mean()),
            "geometric": float(np.exp(np.mean(np.log(score[mine] + 1e-9)))),
        }
        for name, mine in groups.items()
        if mine.any()
    }


def report(found: dict[str, dict[str, float]]) -> None:
    """Coverage and interval scores by verdict, as they were printed to users."""
    print("| verdict | tasks | covered | wrong | mean score | geometric |\n|---|---|---|---|---|---|")
    for name, each in found.items():
        numbers = "{tasks} | {covered:.1%} | {wrong:.1%} | {score:.1f} | {geometric:.2f}".format(**each)
        print(f"| {name} | {numbers} |")
    if "good" in found:
        print(f"within {GOOD} floors and called reliable: {found['good']['reliable']:.0%} of {found['good']['tasks']}")


def read(file: Path) -> list[Line]:
    """The lines of a file; none where there is no file."""
    if not file.exists():
        return []
    return [Line(**json.loads(text)) for text in file.read_text(encoding="utf-8").splitlines()]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--tasks", type=int, default=600)
    parser.add_argument("--seed", type=int, default=1000, help="of the first task; 1000 and up were fitted")
    parser.add_argument("--output", type=Path, default=Path("results/calibrate.jsonl"))
    parser.add_argument("--fit", action="store_true", help="write coefficients.json")
    parser.add_argument("--report", action="store_true", help="print how the answers did, and run nothing")
    parser.add_argument("--store", type=Path, help="a file for how they did, such as docs/results/verdicts.json")
    options = parser.parse_args()
    seeds = range(options.seed, options.seed + options.tasks)
    done = {line.seed for line in read(options.output)}
    options.output.parent.mkdir(parents=True, exist_ok=True)
    for seed in () if options.report or options.fit else (seed for seed in seeds if seed not in done):
        with options.output.open("a", encoding="utf-8") as stream:
            stream.write(json.dumps(asdict(answer(generated(seed)))) + "\n")
    lines = [line for line in read(options.output) if line.seed in seeds and line.usable]
    if options.fit:
        fit(lines, f"python -m benchmarks calibrate --tasks {options.tasks} --seed {options.seed}, then --fit")
    found = summary(lines)
    report(found)
    if options.store is not None:
        made = {"version": version("ope-vpm"), "date": str(date.today()), "seeds": [seeds[0], seeds[-1]], **found}
        options.store.write_text(json.dumps(made, indent=1) + "\n", encoding="utf-8")


if __name__ == "__main__":
    main()
