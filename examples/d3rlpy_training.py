"""TD3+BC on logged Pendulum data: the estimated value of every epoch, and the checkpoint that it picks.

The script collects the log, trains with `OPEEvaluator` among d3rlpy's evaluators, picks a checkpoint by the lower end
of the interval, and only then asks the environment what every checkpoint is really worth. It writes a picture and a
CSV, and says whether the picked checkpoint is within 10 % of the best.

    python examples/d3rlpy_training.py --output docs/results
"""

from __future__ import annotations

import argparse
import csv
import tempfile
from dataclasses import astuple, dataclass, fields
from functools import partial
from pathlib import Path

import d3rlpy
import gymnasium as gym
import numpy as np
from d3rlpy.logging import FileAdapterFactory
from matplotlib.figure import Figure

import ope_vpm as ov
from ope_vpm.envs.collect import collect
from ope_vpm.envs.wild.networks import POLICIES
from ope_vpm.plugins import OPEEvaluator, best_epoch

GAMMA = 0.97
"""A horizon of about 33 steps: the pendulum is up, or known not to come up, within two of them."""
STEPS = 100
"""Gradient steps of an epoch: short enough to see the policy get better."""
TRUTH_STEPS = 300
"""After which γ^t is 1e-4: what follows does not show in the picture."""
TRUTH_EPISODES = 200
"""Episodes of each checkpoint, from the same initial states, so that their differences are better known than their
values."""


@dataclass(frozen=True)
class Epoch:
    """One line of the CSV."""

    epoch: int
    estimate: float
    lower: float
    upper: float
    verdict: float
    truth: float
    truth_error: float


def collect_log(episodes: int, seed: int) -> ov.LoggedDataset:
    """Episodes of three half-trained policies in turn, each with twice its own variance."""
    names = ("step-0020000", "step-0040000", "step-0060000")
    policies = [ov.load_policy(POLICIES / "Pendulum-v1" / f"{name}.npz").more_random(2.0) for name in names]
    return collect("Pendulum-v1", policies, episodes, 200, seed=seed)


def train(data: ov.LoggedDataset, folder: Path, epochs: int, seed: int) -> Path:
    """Train TD3+BC, evaluating every epoch; the folder with d3rlpy's metrics and checkpoints."""
    d3rlpy.seed(seed)
    evaluator = OPEEvaluator("auto", gamma=GAMMA)
    scaler = d3rlpy.preprocessing.MinMaxActionScaler(minimum=np.array([-2.0]), maximum=np.array([2.0]))
    algo = d3rlpy.algos.TD3PlusBCConfig(gamma=GAMMA, action_scaler=scaler).create()
    algo.fit(
        data.to_d3rlpy(),
        n_steps=STEPS * epochs,
        n_steps_per_epoch=STEPS,
        logger_adapter=FileAdapterFactory(str(folder)),
        experiment_name="td3bc",
        with_timestamp=False,
        show_progress=False,
        evaluators=evaluator.metrics(),
    )
    return folder / "td3bc"


def true_value(checkpoint: Path, seed: int) -> tuple[float, float]:
    """(1 - γ)·E[Σ γ^t r_t] of a checkpoint in the environment itself, with its standard error."""
    policy = ov.load_policy(checkpoint)
    made = partial(gym.make, "Pendulum-v1", max_episode_steps=TRUTH_STEPS)
    log = collect(made, policy, TRUTH_EPISODES, TRUTH_STEPS, seed=seed)
    totals = (1 - GAMMA) * np.add.reduceat(GAMMA**log.time * log.rewards, log.starts)
    return float(totals.mean()), float(totals.std(ddof=1) / np.sqrt(len(totals)))


def read_epochs(run: Path, seed: int) -> list[Epoch]:
    """What d3rlpy logged of every epoch, and what is true."""
    columns = {
        name: np.loadtxt(run / f"value{name}.csv", delimiter=",", ndmin=2)
        for name in ("", "_lower", "_upper", "_verdict")
    }
    found = []
    for row, (epoch, step, estimate) in enumerate(columns[""]):
        rest = [float(columns[name][row, 2]) for name in ("_lower", "_upper", "_verdict")]
        found.append(Epoch(int(epoch), float(estimate), *rest, *true_value(run / f"model_{int(step)}.d3", seed)))
    return found


def draw(epochs: list[Epoch], picked: int, path: Path) -> None:
    """Estimates with their intervals over the true values."""
    figure = Figure(figsize=(7.2, 4.2), layout="constrained")
    axes = figure.subplots()
    at = [each.epoch for each in epochs]
    axes.fill_between(at, [e.lower for e in epochs], [e.upper for e in epochs], color="C3", alpha=0.2, lw=0)
    axes.plot(at, [e.estimate for e in epochs], color="C3", marker="o", ms=3, label="estimate, 95 % interval")
    errors = [1.96 * e.truth_error for e in epochs]
    axes.errorbar(at, [e.truth for e in epochs], yerr=errors, color="C7", marker="x", capsize=2, label="true value")
    axes.axvline(picked, color="C0", ls=":", label=f"picked: epoch {picked}")
    axes.set(xlabel="epoch", ylabel=f"value per step, γ = {GAMMA}", title="TD3+BC on Pendulum, evaluated from its log")
    axes.legend(frameon=False)
    axes.spines[["top", "right"]].set_visible(False)
    figure.savefig(path, dpi=150)


def main() -> None:
    """Collect, train, pick, and compare with the truth."""
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--output", type=Path, default=Path("results"), help="the folder for the picture and the CSV")
    parser.add_argument("--epochs", type=int, default=20, help=f"of {STEPS} gradient steps")
    parser.add_argument("--episodes", type=int, default=60, help="in the log, of 200 steps each")
    parser.add_argument("--seed", type=int, default=0, help="of the log and the training")
    given = parser.parse_args()
    given.output.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory() as folder:
        run = train(collect_log(given.episodes, given.seed), Path(folder), given.epochs, given.seed)
        picked = best_epoch(run)
        epochs = read_epochs(run, seed=given.seed + 1)
    with (given.output / "d3rlpy_training.csv").open("w", newline="") as file:
        writer = csv.writer(file)
        writer.writerow([field.name for field in fields(Epoch)])
        writer.writerows(astuple(each) for each in epochs)
    draw(epochs, picked.epoch, given.output / "d3rlpy_training.png")
    best = max(epochs, key=lambda each: each.truth)
    mine = next(each for each in epochs if each.epoch == picked.epoch)
    behind = (best.truth - mine.truth) / abs(best.truth)
    covered = np.mean([each.lower <= each.truth <= each.upper for each in epochs])
    print(f"picked epoch {mine.epoch}: true value {mine.truth:.4f}; best epoch {best.epoch}: {best.truth:.4f}")
    print(f"{behind:.1%} behind the best: {'within' if behind <= 0.1 else 'NOT within'} 10 %")
    print(f"intervals hold the true value in {covered:.0%} of the epochs")


if __name__ == "__main__":
    main()
