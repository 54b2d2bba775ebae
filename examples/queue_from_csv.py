"""How long is the queue in the long run? From a CSV that was logged each morning, before the queue had built up.

The script writes such a CSV (a queue that starts empty, so that the truth is known), reads it back as a stranger would,
and compares what was logged with the estimated stationary distribution.

    python examples/queue_from_csv.py --output docs/results
"""

from __future__ import annotations

import argparse
import csv
from pathlib import Path

import numpy as np
from matplotlib.figure import Figure

import ope_vpm as ov
from ope_vpm.envs.geo_queue import GeoQueue
from ope_vpm.paths.stationary import StationaryDistribution

ARRIVE, SERVE = 0.4, 0.5
"""Probabilities of an arrival and of a service within a minute: the queue builds up for hours."""
MORNINGS, MINUTES = 60, 120


def write_csv(path: Path, seed: int) -> GeoQueue:
    """Log the queue's length once a minute, each morning from an empty room on."""
    queue = GeoQueue(ARRIVE, SERVE)
    rng = np.random.default_rng(seed)
    with path.open("w", newline="") as file:
        writer = csv.writer(file)
        writer.writerow(["morning", "minute", "length"])
        for morning in range(MORNINGS):
            length = 0
            for minute in range(MINUTES):
                writer.writerow([morning, minute, length])
                length = int(queue.step(np.array([length]), rng)[0])
    return queue


def read_paths(path: Path) -> list[np.ndarray]:
    """The lengths of each morning, in the order of time."""
    with path.open() as file:
        rows = [(int(row["morning"]), int(row["length"])) for row in csv.DictReader(file)]
    table = np.array(rows)
    return [table[table[:, 0] == morning, 1] for morning in np.unique(table[:, 0])]


def draw(found: StationaryDistribution, logged: np.ndarray, queue: GeoQueue, path: Path) -> None:
    """What was logged, what is estimated, and what is true."""
    figure = Figure(figsize=(7.2, 3.8), layout="constrained")
    axes = figure.subplots()
    shown = np.arange(16)
    share = np.bincount(logged, minlength=16)[:16] / len(logged)
    axes.bar(shown - 0.2, share, 0.4, color="C7", alpha=0.6, label="logged")
    estimate = np.interp(shown, found.values, found.probabilities, right=0.0)
    axes.bar(shown + 0.2, estimate, 0.4, color="C3", label="estimated, long run")
    axes.plot(
        shown, queue.stationary_distribution(16), color="k", marker="_", ms=14, mew=2, ls="", label="true, long run"
    )
    axes.set(xlabel="people in the queue", ylabel="probability", title="A queue that was logged before it had built up")
    axes.legend(frameon=False)
    axes.spines[["top", "right"]].set_visible(False)
    figure.savefig(path, dpi=150)


def main() -> None:
    """Write, read, estimate and compare."""
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--output", type=Path, default=Path("results"), help="the folder for the CSV and the picture")
    parser.add_argument("--seed", type=int, default=0)
    given = parser.parse_args()
    given.output.mkdir(parents=True, exist_ok=True)
    log = given.output / "queue_from_csv.csv"
    queue = write_csv(log, given.seed)
    paths = read_paths(log)
    # Increments are usually pooled over all lengths; here most of the log is an empty room, where nobody can leave.
    found = ov.stationary(paths, pool_increments=False)
    logged = np.concatenate(paths)
    draw(found, logged, queue, given.output / "queue_from_csv.png")
    truth = float(queue.stationary_distribution(1000) @ np.arange(1000))
    print(f"{len(paths)} mornings of {len(paths[0])} minutes")
    print(f"logged mean           {logged.mean():.2f}")
    print(f"estimated long run    {found.mean:.2f} ± {1.96 * found.mean.standard_error:.2f} (95 %)")
    print(f"true long run         {truth:.2f}")
    print(f"longer than 10, logged {np.mean(logged > 10):.1%}, ", end="")
    print(f"estimated {found.probabilities[found.values > 10].sum():.1%}, ", end="")
    print(f"true {queue.stationary_distribution(1000)[11:].sum():.1%}")


if __name__ == "__main__":
    main()
