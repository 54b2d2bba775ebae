"""Every estimator against a policy whose value is known in closed form."""

from __future__ import annotations

import time

import numpy as np
from rich.console import Console
from rich.progress import track
from rich.table import Table

from ope_vpm.envs.linear_gaussian import BEHAVIOUR, TARGET, LinearGaussian
from ope_vpm.ope import PolicyValue, estimators, evaluate

EPISODES, LENGTH = 50, 50


def run(runs: int, console: Console) -> Table:
    """Evaluate the linear-Gaussian target from another controller's log, by every estimator there is."""
    system = LinearGaussian()
    truth = system.value(TARGET, 1.0)
    logs = [system.dataset(EPISODES, LENGTH, BEHAVIOUR, seed) for seed in range(runs)]
    title = f"Linear-Gaussian policy worth {truth:.3f}, {EPISODES} x {LENGTH} logged steps, {runs} runs"
    table = Table("estimator", "RMSE", "bias", "95 % interval of run 0", "verdict of run 0", "seconds", title=title)
    for name in track(sorted(estimators()), description="estimators", console=console, transient=True):
        start = time.perf_counter()
        values = [evaluate(log, TARGET.policy(), name, gamma=1.0, seed=seed) for seed, log in enumerate(logs)]
        seconds = (time.perf_counter() - start) / runs
        error = np.array([value.value for value in values]) - truth
        rmse = float(np.sqrt(np.mean(error**2)))
        row = (f"{rmse:.4f}", f"{error.mean():+.4f}", _interval(values[0]), values[0].verdict, f"{seconds:.2f}")
        table.add_row(name, *row)
    return table


def _interval(value: PolicyValue) -> str:
    return "none" if value.interval is None else f"{value.interval[0]:.3f} to {value.interval[1]:.3f}"
