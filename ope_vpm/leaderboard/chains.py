"""Every solver against chains whose answer is known in closed form."""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
from rich.console import Console
from rich.progress import track
from rich.table import Table

from ope_vpm.chain import VPM, Transitions
from ope_vpm.chain.transitions import Floats
from ope_vpm.envs.geo_queue import GeoQueue
from ope_vpm.envs.linear_gaussian import TARGET, LinearGaussian
from ope_vpm.envs.ornstein_uhlenbeck import OrnsteinUhlenbeck


@dataclass(frozen=True)
class Task:
    """Data by seed, a number to estimate, its true value, and the settings that compete."""

    name: str
    data: Callable[[int], tuple[Transitions, Floats]]
    """seed → transitions, and the values whose mean under the stationary law is asked for."""
    truth: float
    settings: dict[str, dict[str, Any]]


POINTS: dict[str, dict[str, Any]] = {
    "kernel": {"solver": "kernel", "n_features": 200},
    "neural": {"solver": "neural", "steps": 100},
    "neural, as in the paper": {"solver": "neural", "preset": "paper"},
}
STATES: dict[str, dict[str, Any]] = {
    "tabular": {"solver": "tabular"},
    "tabular, increments pooled": {"solver": "tabular", "pool_increments": True},
    "tabular, as in the paper": {"solver": "tabular", "steps": 1000, "damping": "sqrt", "unseen": "restart"},
}


def tasks() -> list[Task]:
    """A queue, a diffusion, and a controlled linear system."""
    queue, system, process = GeoQueue(), LinearGaussian(), OrnsteinUhlenbeck()

    def lengths(seed: int) -> tuple[Transitions, Floats]:
        pairs = queue.transitions(500, seed)
        return pairs, pairs.x.astype(np.float64)

    def diffusion(seed: int) -> tuple[Transitions, Floats]:
        rng = np.random.default_rng(seed)
        x = rng.uniform(-4, 8, size=5000)
        return Transitions(x, process.after(x, 0.1, rng)), x**2

    return [
        Task("queue: mean length", lengths, float(queue.law() @ np.arange(queue.bound)), STATES),
        Task("diffusion: second moment", diffusion, process.mu**2 + process.variance, POINTS),
        Task(
            "linear system: reward", lambda seed: system.transitions(5000, seed), system.average_reward(TARGET), POINTS
        ),
    ]


def run(runs: int, console: Console) -> Table:
    """Fit every setting to every task, and tabulate the errors."""
    table = Table("task", "solver", "truth", "RMSE", "bias", "seconds", title=f"Known chains, {runs} runs each")
    jobs = [(task, name) for task in tasks() for name in ("logged mean", *task.settings)]
    for task, name in track(jobs, description="leaderboard", console=console, transient=True):
        start = time.perf_counter()
        error = np.array([_estimate(task, name, seed) for seed in range(runs)]) - task.truth
        seconds = (time.perf_counter() - start) / runs
        rmse = float(np.sqrt(np.mean(error**2)))
        table.add_row(task.name, name, f"{task.truth:.3f}", f"{rmse:.4f}", f"{error.mean():+.4f}", f"{seconds:.2f}")
    return table


def _estimate(task: Task, name: str, seed: int) -> float:
    pairs, values = task.data(seed)
    if name == "logged mean":
        return float(values.mean())
    weights = VPM(seed=seed, **task.settings[name]).fit(pairs).weights
    return float(weights @ values / weights.sum())
