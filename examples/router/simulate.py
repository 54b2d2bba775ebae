"""Sessions of a router among three language models, as JSON lines, with a new router whose true gain is known.

A session is one task. Each turn the router picks a model; an answer that solves the task ends the session and earns 1,
each answer costs its model's price, and a user whom an answer has failed may leave. Answers are the likelier to be
right the larger the model and the easier the task, so that a router of single turns undervalues large models.

    python examples/router/simulate.py --output router
    ope-vpm gate router/sessions.npz --candidate router/new.npz --behaviour logged
"""

from __future__ import annotations

import argparse
import json
from pathlib import Path
from typing import Any

import numpy as np

import ope_vpm as ov

MODELS = ("large", "medium", "small")
"""In the order of the alphabet, which numbers the actions of a table."""
COST, SKILL = np.array([0.3, 0.08, 0.02]), np.array([5.0, 2.0, 0.5])
LEAVES = 0.25
"""The probability that a user leaves after an answer that failed."""
LOGGED = np.array([[0.0, 0.0, 0.0], [0.0, 0.0, 0.4], [0.2, 0.6, 1.0]])
"""Logits of the logged router, (features and 1, models): mostly small models, whatever the task."""
NEW = np.array([[8.0, 4.0, 0.0], [1.0, 0.5, 0.0], [-4.0, 0.0, 1.0]])
"""Those of the new one: larger models for harder tasks, and after failures."""


def shares(logits: np.ndarray, features: np.ndarray) -> np.ndarray:
    """The probability of each model, (rows, models)."""
    odds = np.exp(features @ logits[:-1] + logits[-1])
    return odds / odds.sum(axis=1, keepdims=True)


def sessions(logits: np.ndarray, count: int, seed: int) -> list[dict[str, Any]]:
    """Sessions of a router, one record a turn."""
    rng = np.random.default_rng(seed)
    difficulty, here, turn, records = rng.random(count), np.arange(count), 0, []
    while len(here):
        features = np.column_stack([difficulty[here], np.full(len(here), float(turn))])
        p = shares(logits, features)
        model = (rng.random((len(here), 1)) > p.cumsum(axis=1)[:, :-1]).sum(axis=1)
        solved = rng.random(len(here)) < 1 / (1 + np.exp(5 * features[:, 0] - SKILL[model]))
        gone = solved | (rng.random(len(here)) < LEAVES)
        for row, (session, k) in enumerate(zip(here.tolist(), model.tolist(), strict=True)):
            records.append({
                "session": session, "features": features[row].tolist(), "model": MODELS[k], "cost": float(COST[k]),
                "reward": float(solved[row] - COST[k]), "propensity": float(p[row, k]),
            })  # fmt: skip
        here, turn = here[~gone], turn + 1
    return records


def value(logits: np.ndarray, count: int = 100_000, seed: int = 1) -> float:
    """What a router earns in a session, by simulating it."""
    return sum(each["reward"] for each in sessions(logits, count, seed)) / count


def main() -> None:
    """Write the log, as JSON lines and as ours, and the new router as a network of one layer."""
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--output", type=Path, default=Path("router"), help="the folder for the log and the router")
    parser.add_argument("--sessions", type=int, default=1000)
    parser.add_argument("--seed", type=int, default=0)
    given = parser.parse_args()
    given.output.mkdir(parents=True, exist_ok=True)
    log = given.output / "sessions.jsonl"
    log.write_text("".join(f"{json.dumps(each)}\n" for each in sessions(LOGGED, given.sessions, given.seed)))
    ov.from_table(log, drop="cost").save(given.output / "sessions.npz")
    plain = {"observation_mean": np.zeros(2), "observation_std": np.ones(2), "observation_clip": np.array(1e3)}
    np.savez(given.output / "new.npz", weight_0=NEW[:-1].T, bias_0=NEW[-1], **plain)
    print(f"true gain of a session  {value(NEW) - value(LOGGED):.4f}")


if __name__ == "__main__":
    main()
