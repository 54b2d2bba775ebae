"""Other people's packages side by side with ours, on the problems of our studies: error, seconds and failures.

`python -m benchmarks peers [--runs N] [--parts diffusions queues …]`. What is not installed is left out, with a line
that says so; scope-rl is installed into an environment of its own.
"""

from __future__ import annotations

import argparse
import time
import warnings
from collections.abc import Callable
from functools import partial
from importlib.util import find_spec

import numpy as np
import torch

from benchmarks import _peers, against_d3rlpy
from benchmarks._peers_policies import survival
from ope_vpm.arrays import Floats
from ope_vpm.chain import StationaryWarning, Transitions
from ope_vpm.envs.geo_queue import GeoQueue
from ope_vpm.envs.potentials import POTENTIALS
from ope_vpm.mcmc.cells import cell_ratio
from ope_vpm.studies import queue, sde
from ope_vpm.studies.distance import Truth, histogram, hmc_path, log_kl_both_ways, log_mmd

SETTINGS = ("μ=2 σ=2 θ=2", "double well")
"""The paper's default diffusion, and the one with two wells."""
EM_STEPS = (100, 300, 1000)
QUEUE_ROWS = (100, 1000, 5000)
POINTS, THINNED = 20_000, 500
"""Rows of the MCMC problems, fewer than in the study so that Stein thinning ends in seconds; draws it keeps."""
PACKAGES = {
    "deeptime": "deeptime",
    "stein-thinning": "stein_thinning",
    "PSIS (ArviZ)": "arviz",
    "icu-sepsis": "icu_sepsis",
    "d3rlpy": "d3rlpy",
}
PARTS = ("diffusions", "queues", "samplers", "survival", "fqe")
"""The last two are about policies: scope-rl on ICU-Sepsis, d3rlpy's FQE on a policy of d3rlpy."""
Method = Callable[[], float]


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("--runs", type=int, default=10)
    parser.add_argument("--parts", nargs="+", choices=PARTS, default=PARTS)
    chosen = parser.parse_args()
    runs, parts = chosen.runs, chosen.parts
    warnings.simplefilter("ignore", StationaryWarning)
    warnings.simplefilter("ignore", UserWarning)
    missing = {name for name, module in PACKAGES.items() if find_spec(module) is None}
    for name in sorted(missing):
        print(f"{name}: skipped, it is not installed (pip install 'ope-vpm[peers,arviz,d3rlpy,sepsis]')")
    if "diffusions" in parts and "deeptime" not in missing:
        diffusions(runs)
    if "queues" in parts and "deeptime" not in missing:
        queues(runs)
    if "samplers" in parts:
        samplers(runs)
    if "survival" in parts and "icu-sepsis" not in missing:
        survival(runs)
    if "fqe" in parts and "d3rlpy" not in missing:
        print("\nd3rlpy's FQE")
        against_d3rlpy.main()


def compared(label: str, runs: int, methods: Callable[[int], dict[str, Method]]) -> None:
    """Print a line for each method: mean and standard error over runs, the worst, median CPU seconds, failures."""
    scores: dict[str, list[float]] = {}
    seconds: dict[str, list[float]] = {}
    failed: dict[str, int] = {}
    for seed in range(runs):
        for name, method in methods(seed).items():
            start = time.process_time()
            try:
                score = method()
            except (ArithmeticError, ValueError, RuntimeError, np.linalg.LinAlgError):
                failed[name] = failed.get(name, 0) + 1
                continue
            seconds.setdefault(name, []).append(time.process_time() - start)
            scores.setdefault(name, []).append(score)
    for name, found in scores.items():
        error = np.std(found, ddof=1) / np.sqrt(len(found)) if len(found) > 1 else 0.0
        lost = failed.get(name, 0)
        line = f"{np.mean(found):.2f} ± {error:.2f} | {max(found):.2f} | {np.median(seconds[name]):.3f} | {lost}"
        print(f"| {label} | {name} | {line} |", flush=True)
    for name in failed.keys() - scores.keys():
        print(f"| {label} | {name} | | | | {failed[name]} |", flush=True)


def heading(problem: str, score: str) -> None:
    print(f"\n| {problem} | method | {score} | worst | CPU seconds | failures |\n|---|---|---|---|---|---|")


def diffusions(runs: int) -> None:
    heading("diffusion, EM steps", "log MMD")
    for name in SETTINGS:
        for steps in EM_STEPS:
            compared(f"{name}, {steps}", runs, lambda seed, name=name, steps=steps: _diffusion(name, steps, seed))


def _diffusion(name: str, steps: int, seed: int) -> dict[str, Method]:
    path = sde.SETTINGS[name].path(steps, seed)
    centres, probabilities, width = sde._truth(name)
    data = sde.lagged_pairs(path)

    def distance(weights: Callable[[], Floats]) -> Method:
        return lambda: log_mmd(histogram(data.x[:, 0], weights(), centres), probabilities, centres, width)

    return {
        "ours": distance(lambda: sde.lagged(path, seed)[1]),
        "deeptime, Koopman, bumps": distance(lambda: _peers.koopman_weights(data, seed)),
        **{
            f"deeptime, Koopman, {cells} cells": distance(partial(_peers.koopman_cell_weights, data, cells))
            for cells in _peers.KOOPMAN_CELLS
        },
        "deeptime, Bayesian MSM": distance(lambda: _peers.msm_weights(data, seed, bayesian=True)),
    }


def queues(runs: int) -> None:
    heading("queue, rows", "log KL(true ‖ estimate)")
    for rows in QUEUE_ROWS:
        compared(str(rows), runs, lambda seed, rows=rows: _queue(rows, seed))


def _queue(rows: int, seed: int) -> dict[str, Method]:
    problem = GeoQueue(queue.ARRIVAL, queue.FINISH)
    data = problem.transitions(rows, seed)
    truth, size = problem.stationary_distribution(), problem.bound + 1

    def divergence(estimate: Callable[[], Floats]) -> Method:
        def score() -> float:
            found = estimate()[: problem.bound]
            return log_kl_both_ways(truth, found / found.sum())[0]

        return score

    return {
        "ours": divergence(lambda: queue.vpm_distribution(data, size, queue.OUR_VPM)),
        "ours, reversible": divergence(lambda: queue.vpm_distribution(data, size, {"reversible": True})),
        "deeptime, MSM": divergence(lambda: _peers.msm_distribution(data.x, data.x_next, size, bayesian=False)),
        "deeptime, Bayesian MSM": divergence(lambda: _peers.msm_distribution(data.x, data.x_next, size, bayesian=True)),
    }


def samplers(runs: int) -> None:
    heading("potential", "log MMD")
    for name in POTENTIALS:
        compared(name, runs, lambda seed, name=name: _sampler(name, seed))


def _sampler(name: str, seed: int) -> dict[str, Method]:
    before, after = hmc_path(name, POINTS, 1, seed)
    data, truth = Transitions(before, after), Truth.draw(name, seed)
    _, gradient = _energy(name, after)
    methods: dict[str, Method] = {
        "unweighted": lambda: truth.log_mmd(after),
        "ours": lambda: truth.log_mmd(before, cell_ratio(data, seed=seed)),
    }
    if find_spec("deeptime"):
        methods["deeptime, Koopman"] = lambda: truth.log_mmd(before, _peers.koopman_weights(data, seed))
        methods["deeptime, MSM"] = lambda: truth.log_mmd(before, _peers.msm_weights(data, seed, bayesian=False))
    if find_spec("stein_thinning"):
        methods["Stein thinning (knows ∇U)"] = lambda: truth.log_mmd(_peers.thinned(after, -gradient, THINNED))
    if find_spec("arviz"):
        at_start, _ = _energy(name, before)
        methods["PSIS (knows U and the start)"] = lambda: truth.log_mmd(before, _peers.smoothed(-at_start))
    return methods


def _energy(name: str, x: Floats) -> tuple[Floats, Floats]:
    """U and its gradient."""
    z = torch.tensor(x, requires_grad=True)
    energy = POTENTIALS[name](z)
    (gradient,) = torch.autograd.grad(energy.sum(), z)
    return energy.detach().numpy(), gradient.numpy()


if __name__ == "__main__":
    main()
