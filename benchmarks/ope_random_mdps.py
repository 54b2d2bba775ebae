"""Convergence of the estimators to the exact value on 50 random finite MDPs, from 10³ to 10⁵ logged steps."""

from __future__ import annotations

import numpy as np

import ope_vpm as ov
from ope_vpm.envs.random_mdp import RandomMDP

MDPS, LENGTH = 50, 50
"""The number of MDPs, and the steps of an episode. An RMSE over 50 has a standard error of about 10 %."""
SIZES = (1_000, 10_000, 100_000)
"""Logged steps: a factor of 100, over which an error that falls like n^-½ falls by 10."""
CONSISTENT = (
    "vpm",
    "model",
    "liu",
    "fqe",
    "dr",
    "dualdice",
    "gendice",
    "gradientdice",
    "bestdice",
    "mwl",
    "mql",
    "auto",
)
"""The estimators whose error must vanish with the number of steps."""
NAMES = (*CONSISTENT, "wdr", "magic", "naive", "onestep")
"""The others carry products of 50 ratios, or are the two controls, which do not converge."""
SLOWEST = -0.4
"""The largest exponent of n that passes for a consistent estimator: -0.5 is expected, and 50 MDPs leave some noise."""


def main() -> None:
    print("| γ | estimator | " + " | ".join(f"RMSE at {size:,}" for size in SIZES) + " | exponent |")
    print("|---|---|" + "---|" * (len(SIZES) + 1))
    slow = [f"{name} at γ = {gamma}" for gamma in (1.0, 0.95) for name in table(gamma)]
    if slow:
        raise SystemExit(f"ope_random_mdps: slower than n^{SLOWEST}: {', '.join(slow)}")


def table(gamma: float) -> list[str]:
    """Print the rows of one γ, and return the names of consistent estimators that converge too slowly."""
    errors: dict[str, list[list[float]]] = {name: [] for name in NAMES}
    for size in SIZES:
        found = [one(seed, size, gamma) for seed in range(MDPS)]
        for name in NAMES:
            errors[name].append([each[name] for each in found])
    slow = []
    for name in NAMES:
        rmse = [float(np.sqrt(np.mean(np.square(each)))) for each in errors[name]]
        exponent = float(np.polyfit(np.log(SIZES), np.log(rmse), 1)[0])
        print(
            f"| {gamma} | {name} | " + " | ".join(f"{each:.4f}" for each in rmse) + f" | {exponent:.2f} |", flush=True
        )
        if name in CONSISTENT and exponent > SLOWEST:
            slow.append(name)
    return slow


def one(seed: int, size: int, gamma: float) -> dict[str, float]:
    """Return the errors of all estimators on one MDP."""
    rng = np.random.default_rng(seed)
    mdp = RandomMDP.draw(int(rng.integers(5, 41)), int(rng.integers(2, 5)), seed)
    target = mdp.policy(seed + 1000)
    data = mdp.dataset(size // LENGTH, LENGTH, mdp.policy(seed + 2000), seed)
    truth = mdp.value(target, gamma)
    return {name: found.value - truth for name, found in ov.evaluate(data, target, NAMES, gamma=gamma).items()}


if __name__ == "__main__":
    main()
