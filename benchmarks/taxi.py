"""Taxi: `python -m benchmarks taxi`, or `python -m benchmarks.taxi [time|accuracy|grid|coverage|auto]... [--runs N]`.

* time: a vpm fit at 200×400, relative to counting its transitions with numpy;
* accuracy: log10 of the mean squared error at 200×400 for behaviours after 950, 850 and 550 iterations, 50 runs;
* grid: the same for default, paper's preset and bound over numbers and lengths of trajectories;
* coverage: how often 95 % intervals of vpm and dr contain the exact value, 100 runs;
* auto: how far auto is from the best of all estimators in each cell of the grid, 10 runs.

Seeds 0 and up; constants were chosen on seeds from 100.
"""

from __future__ import annotations

import argparse
from collections.abc import Callable
from functools import partial

import numpy as np

from benchmarks._timing import fastest
from ope_vpm.chain import VPM
from ope_vpm.envs import taxi
from ope_vpm.envs.taxi_bound import cramer_rao_bound
from ope_vpm.logged import LoggedDataset
from ope_vpm.ope.estimator import ProblemEstimator, make
from ope_vpm.ope.problem import Problem
from ope_vpm.ope.vpm.estimator import PAPER, VPMEstimator
from ope_vpm.ope.vpm.pairs import fit_quietly, weighted_mean

TARGET = taxi.shipped(1000)
"""The paper's target policy."""
NUMBERS, LENGTHS = (50, 100, 200, 400), (100, 200, 400, 800)
"""Trajectories and steps of each: the sweeps of the Taxi study, in all combinations."""
RIVALS = ("auto", "model", "dr", "liu", "wist", "wiss", "onestep", "naive")
"""The estimators that differ on finite states."""
MOST_TIMES = 3.0
"""The aim for a fit's time as a multiple of counting the transitions."""
ASKED = {950: -3.9, 850: -3.8, 550: -2.8}
"""The aims for log10 of the default's mean squared error, by the behaviour's iterations; set before it was measured."""
ASKED_OF_PAPER = -3.5
"""The aim for the paper's preset, which it misses: note 006 says why."""
Values = Callable[[Problem], float]
"""An estimator as a function from a problem to a value."""


def default_value(problem: Problem) -> float:
    return VPMEstimator().find(problem).value


def paper_value(problem: Problem) -> float:
    """Return the value of preset="paper", without computing its interval."""
    pairs = problem.pairs()
    return weighted_mean(fit_quietly(VPM(gamma=problem.gamma, **PAPER["tabular"]), pairs.transitions), pairs)


def errors(function: Values, behaviour: int, shape: tuple[int, int], runs: int, gamma: float = 1.0) -> np.ndarray:
    truth = taxi.exact_value(TARGET, gamma)
    logs = (taxi.simulate(taxi.shipped(behaviour), *shape, seed) for seed in range(runs))
    return np.array([function(Problem.pose(log, TARGET, gamma=gamma)) - truth for log in logs])


def log_mse(found: np.ndarray) -> float:
    return float(np.log10(np.mean(found**2)))


def bound(behaviour: int, shape: tuple[int, int], gamma: float = 1.0) -> float:
    return float(np.log10(cramer_rao_bound(TARGET, taxi.shipped(behaviour), *shape, gamma)))


def count_with_numpy(data: LoggedDataset) -> np.ndarray:
    """Return the summed weight of every (s, a) → (s', a'), each row weighted by the target's probability of a'."""
    pair, after = data.observations * taxi.ACTIONS + data.actions, data.next_observations
    code = (pair * taxi.STATES + after)[:, None] * taxi.ACTIONS + np.arange(taxi.ACTIONS)
    _, place = np.unique(code, return_inverse=True)
    return np.bincount(place.ravel(), weights=TARGET.table[after].ravel())


def times() -> list[str]:
    data = taxi.simulate(taxi.shipped(950), 200, 400, seed=0)
    counting = fastest(lambda: count_with_numpy(data))
    fitting = fastest(lambda: default_value(Problem.pose(data, TARGET)))
    ratio = fitting / counting
    print(f"fit {fitting * 1000:.0f} ms, counting {counting * 1000:.0f} ms: {ratio:.2f} times (asked: {MOST_TIMES})")
    return [f"a fit takes {ratio:.1f} times as long as counting"] if ratio > MOST_TIMES else []


def accuracy(runs: int) -> list[str]:
    print("| behaviour after | γ | default | bias | paper's preset | bias | bound |\n|---|---|---|---|---|---|---|")
    missed = []
    for behaviour, gamma in ((950, 1.0), (850, 1.0), (550, 1.0), (950, 0.99)):
        own = errors(default_value, behaviour, (200, 400), runs, gamma)
        paper = errors(paper_value, behaviour, (200, 400), runs, gamma)
        print(
            f"| {behaviour} | {gamma} | {log_mse(own):.2f} | {own.mean():+.4f} | {log_mse(paper):.2f} | "
            f"{paper.mean():+.4f} | {bound(behaviour, (200, 400), gamma):.2f} |",
            flush=True,
        )
        if gamma == 1 and log_mse(own) > ASKED[behaviour]:
            missed.append(f"default after {behaviour}: {log_mse(own):.2f} > {ASKED[behaviour]}")
        if (behaviour, gamma) == (950, 1.0) and abs(own.mean()) > 0.003:
            missed.append(f"bias {own.mean():+.4f}")
        if (behaviour, gamma) == (950, 1.0) and log_mse(paper) > ASKED_OF_PAPER:
            missed.append(f"paper's preset: {log_mse(paper):.2f} > {ASKED_OF_PAPER}")
    return missed


def grid(runs: int) -> list[str]:
    print("| trajectories x length | default | paper's preset | bound |\n|---|---|---|---|")
    missed, near = [], 0
    for shape in ((number, length) for number in NUMBERS for length in LENGTHS):
        own, paper = (log_mse(errors(each, 950, shape, runs)) for each in (default_value, paper_value))
        floor = bound(950, shape)
        near += own <= floor + 0.3
        print(f"| {shape[0]}x{shape[1]} | {own:.2f} | {paper:.2f} | {floor:.2f} |", flush=True)
        if own > paper + 0.1:
            missed.append(f"{shape[0]}x{shape[1]}: {own:.2f} against the paper's {paper:.2f}")
    print(f"within 0.3 of the bound in {near} of {len(NUMBERS) * len(LENGTHS)} cells")
    return missed


def against_all(runs: int) -> list[str]:
    """Compare auto with every estimator that differs from it here; fqe and the DICE family equal the counted model."""
    print(f"| trajectories x length | {' | '.join(RIVALS)} | auto behind the best |\n|---|{'---|' * (len(RIVALS) + 1)}")
    missed = []
    for shape in ((number, length) for number in NUMBERS for length in LENGTHS):
        found = {name: log_mse(errors(partial(value_of, name), 950, shape, runs)) for name in RIVALS}
        behind = found["auto"] - min(found.values())
        shown = " | ".join(f"{each:.2f}" for each in found.values())
        print(f"| {shape[0]}x{shape[1]} | {shown} | {behind:.2f} |", flush=True)
        if behind > 0.15:
            missed.append(f"{shape[0]}x{shape[1]}: auto {behind:.2f} behind the best")
    return missed


def value_of(name: str, problem: Problem) -> float:
    estimator = make(name, {})
    assert isinstance(estimator, ProblemEstimator)
    return estimator.find(problem).value


def coverage(runs: int) -> None:
    for name in ("vpm", "dr"):
        for behaviour, gamma in ((950, 1.0), (950, 0.99), (850, 1.0), (550, 1.0)):
            truth = taxi.exact_value(TARGET, gamma)
            logs = (taxi.simulate(taxi.shipped(behaviour), 200, 400, seed) for seed in range(runs))
            found = [make(name, {}).estimate(log, TARGET, gamma=gamma) for log in logs]
            held = np.mean([each.interval[0] <= truth <= each.interval[1] for each in found if each.interval])
            spread = np.mean([each.standard_error for each in found])
            rms = np.sqrt(np.mean([(each.value - truth) ** 2 for each in found]))
            levels = {level: sum(each.verdict == level for each in found) for level in ("reliable", "caution")}
            print(
                f"{name}, behaviour after {behaviour}, γ = {gamma}: {held:.0%} of {runs}, mean error {spread:.4f}, "
                f"RMSE {rms:.4f}, verdicts {levels}",
                flush=True,
            )


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("parts", nargs="*", default=["time", "accuracy", "grid", "coverage", "auto"])
    parser.add_argument("--runs", type=int)
    given = parser.parse_args()
    missed: list[str] = []
    if "time" in given.parts:
        missed += times()
    if "accuracy" in given.parts:
        missed += accuracy(given.runs or 50)
    if "grid" in given.parts:
        missed += grid(given.runs or 50)
    if "coverage" in given.parts:
        coverage(given.runs or 100)
    if "auto" in given.parts:
        missed += against_all(given.runs or 10)
    if missed:
        raise SystemExit(f"taxi: {'; '.join(missed)}")


if __name__ == "__main__":
    main()
