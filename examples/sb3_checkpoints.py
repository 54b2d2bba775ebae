"""Which of a run's checkpoints? PPO on CartPole, judged from one log of one of them.

The script trains stable-baselines3's PPO and saves a checkpoint every two thousand steps. The one half way logs some
episodes. From that log alone, all checkpoints are evaluated and ranked; then the environment tells the truth.

    python examples/sb3_checkpoints.py --output docs/results
"""

from __future__ import annotations

import argparse
import tempfile
from functools import partial
from pathlib import Path

import gymnasium as gym
import numpy as np
from matplotlib.figure import Figure
from stable_baselines3 import PPO
from stable_baselines3.common.callbacks import CheckpointCallback

import ope_vpm as ov
from ope_vpm.envs.collect import collect
from ope_vpm.plugins import Selection, log_to_dataset, select

GAMMA = 0.99
CHECKPOINTS, EVERY = 6, 2_000
LOGGED = 100
"""Episodes in the log."""
TRUTH_EPISODES, TRUTH_STEPS = 300, 600
"""Episodes of each checkpoint in the environment; after 600 steps γ^t is 0.002."""


def train(folder: Path, every: int, seed: int) -> list[Path]:
    """Checkpoints in the order of training, one after every so many steps."""
    model = PPO("MlpPolicy", "CartPole-v1", n_steps=500, batch_size=100, gamma=GAMMA, seed=seed, device="cpu")
    model.learn(CHECKPOINTS * every, CheckpointCallback(every, str(folder), "ppo"))
    return [folder / f"ppo_{number * every}_steps.zip" for number in range(1, CHECKPOINTS + 1)]


def true_value(file: Path, episodes: int, seed: int) -> float:
    """(1 - γ)·E[Σ γ^t r_t] in the environment itself."""
    made = partial(gym.make, "CartPole-v1", max_episode_steps=TRUTH_STEPS)
    log = collect(made, ov.load_policy(file), episodes, TRUTH_STEPS, seed=seed)
    return float((1 - GAMMA) * np.sum(GAMMA**log.time * log.rewards) / log.n_episodes)


def draw(chosen: Selection, truths: dict[str, float], path: Path) -> None:
    """Intervals of all checkpoints, best first, and what they are worth."""
    figure = Figure(figsize=(7.2, 3.4), layout="constrained")
    axes = figure.subplots()
    for place, each in enumerate(reversed(chosen.candidates)):
        low, high = each.value.interval or (np.nan, np.nan)
        axes.plot([low, high], [place, place], color="C3", lw=3, alpha=0.4)
        axes.plot(each.value.value, place, color="C3", marker="o", ls="")
        axes.plot(truths[each.name], place, color="k", marker="x", ms=8, mew=2, ls="")
    axes.plot([], [], color="C3", marker="o", lw=3, label="estimate, 95 % interval")
    axes.plot([], [], color="k", marker="x", ls="", label="true value")
    axes.set_yticks(range(len(truths)), [each.name for each in reversed(chosen.candidates)])
    axes.set(xlabel=f"value per step, γ = {GAMMA}", title=f"PPO's checkpoints, from {LOGGED} episodes of one of them")
    axes.legend(frameon=False)
    axes.spines[["top", "right"]].set_visible(False)
    figure.savefig(path, dpi=150)


def main() -> None:
    """Train, log, choose, and ask the environment."""
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--output", type=Path, default=Path("results"), help="the folder for the page and the picture")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--quick", action="store_true", help="a fifth of everything, to see whether it runs")
    given = parser.parse_args()
    part = 5 if given.quick else 1
    given.output.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory() as folder:
        files = train(Path(folder), EVERY // part, given.seed)
        half_way = files[len(files) // 2 - 1]
        logger = PPO.load(half_way, device="cpu")
        data = log_to_dataset(logger, gym.make("CartPole-v1"), LOGGED // part, seed=given.seed)
        chosen = select(data, {file.stem: ov.load_policy(file) for file in files}, "auto", GAMMA)
        truths = {file.stem: true_value(file, TRUTH_EPISODES // part, given.seed + 1) for file in files}
    print(f"{len(data)} steps, logged by {half_way.stem}")
    print(chosen)
    print("true values:", ", ".join(f"{name} {value:.3f}" for name, value in truths.items()))
    picked, best = truths[chosen.best.name], max(truths.values())
    print(f"the chosen one is {(best - picked) / best:.1%} behind the best")
    chosen.page(given.output / "sb3_checkpoints.html")
    draw(chosen, truths, given.output / "sb3_checkpoints.png")


if __name__ == "__main__":
    main()
