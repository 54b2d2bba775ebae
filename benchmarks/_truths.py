"""The values of a policy from its own episodes, and the files in which they are stored: see `ope_vpm.envs.truth`."""

import json
from collections.abc import Collection, Mapping
from dataclasses import asdict
from pathlib import Path

from ope_vpm.arrays import Floats
from ope_vpm.envs.truth import GAMMA, Episodes, Truth, Value, read_truths
from ope_vpm.outside import write_text

LAST = 100
"""The steps whose mean reward continues an episode that was cut at the horizon. A round number."""
SEED = 1_000_000
"""The seed of the episodes behind the truth, far from those of any log."""


def truth_of(episodes: Episodes, limits: Collection[int], seed: int = SEED, logged: int | None = None) -> Truth:
    """Compute the values of a policy from its own episodes.

    Args:
        episodes: of the policy.
        limits: the limits of the episodes whose values at γ = 1 are asked for.
        seed: of the episodes, for the record.
        logged: the step at which the tail begins; None: no tail.
    """
    sums = {limit: episodes.sums(limit) for limit in sorted(limits)}
    beyond, tail = last_reward(episodes), None
    if logged is not None:
        later = episodes.discounted(GAMMA, beyond, logged)[episodes.lengths > logged]
        tail = float(later.mean()) if len(later) else 0.0
    return Truth(
        per_step={limit: ratio_value(*part) for limit, part in sums.items()},
        per_episode={limit: mean_value(part[0]) for limit, part in sums.items()},
        discounted=mean_value(episodes.discounted(GAMMA, beyond)),
        horizon=episodes.rewards.shape[1],
        episodes=len(episodes.rewards),
        seed=seed,
        tail=tail,
    )


def mean_value(values: Floats) -> Value:
    """The mean of one number per episode."""
    spread = float(values.std(ddof=1))
    return Value(float(values.mean()), spread / len(values) ** 0.5, spread)


def ratio_value(sums: Floats, steps: Floats) -> Value:
    """Return Σ rewards / Σ steps, with its standard error by the delta method."""
    value = float(sums.sum() / steps.sum())
    around = mean_value((sums - value * steps) / steps.mean())
    return Value(value, around.standard_error, around.deviation)


def last_reward(episodes: Episodes) -> float:
    """The mean reward of the last steps of the episodes that reached the horizon; 0 where none did."""
    cut = ~episodes.ended
    return float(episodes.rewards[cut, -LAST:].mean()) if cut.any() else 0.0


def write_truths(file: Path, name: str, truths: Mapping[str, Truth]) -> None:
    """Write truths by policy as JSON, with the command that measures those of the task `name`."""
    policies = {policy: asdict(truth) for policy, truth in sorted(truths.items())}
    write_text(
        file, json.dumps({"command": f"python -m benchmarks._measure {name}", "policies": policies}, indent=2) + "\n"
    )
    read_truths.cache_clear()
