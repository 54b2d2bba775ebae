"""Policy values of other packages side by side with ours, on survival in ICU-Sepsis: scope-rl.

scope-rl brings many packages and has pins of its own, so that it gets an environment of its own, made on first use;
`_scope_rl.py` runs there.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
import tempfile
import time
import venv
from pathlib import Path

import numpy as np

import ope_vpm as ov
from ope_vpm.arrays import Floats
from ope_vpm.envs.wild.finite import icu_parameters
from ope_vpm.envs.wild.tables import clinicians
from ope_vpm.ope.behaviour.clone import counted_clone
from ope_vpm.outside import write_text
from ope_vpm.studies import sepsis

SCOPE_RL = "scope-rl==0.2.1"
ENVIRONMENT = Path("results/peers/scope-rl")
"""Where scope-rl is installed: 1.4 GB with a torch for CPUs, 5.9 GB with the one for GPUs."""
EPISODES = 200
"""One of the study's four sizes."""
ANSWERS = Path("results/peers/survival")
"""Where scope-rl's answers are kept: one log takes it two minutes of a core, for 10 000 steps of each network, and a
run that was stopped goes on with the next log."""
OVER = -1
"""A terminal state of the task, the last one, in which episodes are filled up."""
OURS = ("auto", "dr", "wdr", "wist", "onestep", "naive")
Scores = dict[str, list[tuple[float, float]]]
"""For each method, error and CPU seconds, one of each run."""


def survival(runs: int) -> None:
    """Print RMSE, bias and CPU seconds of every method on the study's logs with seeds 0, 1, …."""
    python = scope_rl_python()
    ANSWERS.mkdir(parents=True, exist_ok=True)
    print("\n| survival, target | method | runs | RMSE | bias | CPU seconds |\n|---|---|---|---|---|---|")
    for target in sepsis.TARGETS:
        scores: Scores = {}
        for seed in range(runs):
            _one(scores, target, seed, python)
        _print(target, scores)


def _one(scores: Scores, target: str, seed: int, python: Path | None) -> None:
    data = sepsis.task().run([clinicians()], EPISODES, sepsis.task().own_limit, seed)
    truth, _ = sepsis.truth(target)
    for name in OURS:
        start = time.process_time()
        found = ov.evaluate(data, sepsis.target(target), name, gamma=1.0, seed=seed).episode_return
        seconds = time.process_time() - start
        if found is not None:
            scores.setdefault(f"ours, {name}", []).append((found.value - truth, seconds))
    file = ANSWERS / f"{target}-{EPISODES}-{seed}.json"
    if not file.exists() and python is not None:
        write_text(file, json.dumps(scope_rl(python, data, settled(sepsis.target(target).table), seed)))
    answers = json.loads(file.read_text()) if file.exists() else {}
    for name, answer in answers.items():
        if isinstance(answer["value"], float) and np.isfinite(answer["value"]):
            scores.setdefault(f"scope-rl, {name}", []).append((answer["value"] - truth, answer["seconds"]))


def _print(label: str, scores: Scores) -> None:
    for name, found in scores.items():
        errors, seconds = np.array(found).T
        rmse = np.sqrt(np.mean(errors**2))
        line = f"{len(errors)} | {rmse:.3f} | {errors.mean():+.3f} | {np.median(seconds):.1f}"
        print(f"| {label} | {name} | {line} |", flush=True)


def scope_rl_python() -> Path | None:
    """The Python of scope-rl's environment, which is made if it is not there; None, with a line, where that fails."""
    python = ENVIRONMENT / "bin" / "python"
    if not python.exists():
        venv.create(ENVIRONMENT, with_pip=True)
    pip = [str(python), "-m", "pip", "install", "--quiet", SCOPE_RL, "--constraint", "constraints.txt"]
    made = subprocess.run(pip, capture_output=True, text=True, check=False)
    if made.returncode:
        reason = (made.stderr.strip().splitlines() or ["no reason given"])[-1]
        print(f"scope-rl: skipped, {SCOPE_RL} did not install: {reason}")
        return None
    return python


def scope_rl(python: Path, data: ov.LoggedDataset, table: Floats, seed: int) -> dict[str, dict[str, float]]:
    """The values and CPU seconds of scope-rl's estimators; nothing where it fails."""
    with tempfile.TemporaryDirectory() as folder:
        file = Path(folder) / "log.npz"
        np.savez(file, **padded(data, table), table=table, features=features(), gamma=1.0, seed=seed)
        command = [str(python.absolute()), str(Path(__file__).with_name("_scope_rl.py")), str(file)]
        ran = subprocess.run(command, capture_output=True, text=True, check=False, env=_alone(), cwd=folder)
    if ran.returncode:
        print(f"scope-rl failed: {(ran.stderr.strip().splitlines() or ['?'])[-1]}", file=sys.stderr)
        return {}
    found: dict[str, dict[str, float]] = json.loads(ran.stdout.strip().splitlines()[-1])
    for name, answer in found.items():
        if isinstance(answer["value"], str):
            print(f"scope-rl, {name}: {answer['value']}", file=sys.stderr)
    return found


def _alone() -> dict[str, str]:
    """The environment variables without our own import path, with one thread."""
    return {name: value for name, value in os.environ.items() if name != "PYTHONPATH"} | {"OMP_NUM_THREADS": "1"}


def features() -> Floats:
    """The standardised cluster centres of the states, as the package ships them: scope-rl knows states by features."""
    centres = np.asarray(icu_parameters().state_cluster_centers, dtype=np.float64)
    deviation = centres.std(axis=0)
    return (centres - centres.mean(axis=0)) / np.where(deviation > 0, deviation, 1.0)


def settled(table: Floats) -> Floats:
    """The target with one action where an episode is over.

    What it does there changes nothing, but scope-rl adds up V(s) - Q(s, a) over the steps that fill episodes up, and
    with a stochastic target that is not 0: its doubly robust method was off by 10 on a probability.
    """
    last = table.copy()
    last[OVER] = np.eye(table.shape[1])[table[OVER].argmax()]
    return last


def padded(data: ov.LoggedDataset, table: Floats) -> dict[str, Floats | int]:
    """The log as scope-rl wants it: episodes of one length, filled up with steps that are over and pay nothing.

    Propensities are those of the counted clone that our own estimators use; 1 where an episode is over, with an action
    that the target takes there, so that no ratio changes after the end.
    """
    states, actions = np.asarray(data.observations).ravel(), np.asarray(data.actions).ravel()
    ends = np.flatnonzero(data.terminated | data.truncated)
    starts = np.append(0, ends[:-1] + 1)
    lengths = ends - starts + 1
    steps = int(lengths.max())
    row = np.concatenate([np.arange(length) + number * steps for number, length in enumerate(lengths)])
    size = steps * len(lengths)
    known = features()
    filled = {
        "state": np.tile(known[OVER], (size, 1)),
        "action": np.full(size, int(table[OVER].argmax())),
        "reward": np.zeros(size),
        "pscore": np.full(size, float(table[OVER].max())),
        "done": np.ones(size),
    }
    clone = counted_clone(states, actions, table.shape[1])
    logged = (known[states], actions, data.rewards, np.exp(clone.log_prob), data.terminated | data.truncated)
    for column, values in zip(filled.values(), logged, strict=True):
        column[row] = values
    return filled | {"terminal": np.tile(np.arange(steps) == steps - 1, len(lengths)).astype(float), "steps": steps}
