"""What the targets of the wild tasks are worth, by running them; finite tasks are solved exactly instead.

`python -m ope_vpm.envs.wild.measure Hopper-v5` writes `policies/Hopper-v5/truth.json`: 4000 episodes by the target,
each for 600 steps or the environment's own limit, whichever is longer, unless the task ends before. Out of these come

- γ = 0.99: (1 - γ)·E[Σ γ^t r_t] of the task going on for ever, an ended one receiving 0, which is what an evaluation
  with `time_limit="continue"` asks for wherever the log was cut. Steps beyond the last are taken at the mean reward
  of the last 100 steps of the episodes that got so far;
- γ = 1 per step: E[Σ r] / E[length] of episodes of at most the log's limit, asked for by `time_limit="restart"`;
- per episode: the undiscounted return of such episodes.
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import gymnasium as gym
import numpy as np

from ope_vpm.arrays import Bools, Floats, Integers
from ope_vpm.envs.collect import copies, register, reset_seeds
from ope_vpm.envs.truth import mean_value, ratio_value
from ope_vpm.envs.wild.catalogue import wild_tasks
from ope_vpm.envs.wild.networks import NetworkTask
from ope_vpm.envs.wild.truth import GAMMA, Truth
from ope_vpm.policy import TargetPolicy

EPISODES, LAST = 4000, 100
HORIZON = 600
"""Steps of an episode where the environment's own limit is shorter: at γ = 0.99, 0.2 % of the mass lies beyond."""
SEED = 1_000_000
"""Of the episodes behind the truth: far from those of any log."""
PART = 1000
"""Episodes after which the values so far are written."""
COPIES = 100
"""Environments stepped side by side: one call of the policy serves them all."""


@dataclass(frozen=True)
class Episodes:
    """The rewards of on-policy episodes."""

    rewards: Floats
    """(episodes, horizon), 0 after an episode's last step."""
    lengths: Integers
    ended: Bools
    """Whether the task ended, rather than the horizon."""

    def returns(self, limit: int) -> Floats:
        """The undiscounted return of each episode's first `limit` steps."""
        total: Floats = self.rewards[:, :limit].sum(axis=1)
        return total

    def discounted(self, gamma: float) -> Floats:
        """(1 - γ)·Σ γ^t r_t of each episode; one that reached the horizon goes on at the mean of the last rewards."""
        horizon = self.rewards.shape[1]
        cut = ~self.ended
        beyond = float(self.rewards[cut, -LAST:].mean()) if cut.any() else 0.0
        total: Floats = (1 - gamma) * (self.rewards @ gamma ** np.arange(horizon)) + cut * gamma**horizon * beyond
        return total


def truth_of(episodes: Episodes, limits: set[int], policy: str, seed: int) -> Truth:
    """The values that on-policy episodes have, for episodes cut at each of the limits."""
    parts = {limit: (episodes.returns(limit), episodes.lengths.clip(max=limit) * 1.0) for limit in sorted(limits)}
    return Truth(
        policy=policy,
        discounted=mean_value(episodes.discounted(GAMMA)),
        per_step={limit: ratio_value(*part) for limit, part in parts.items()},
        per_episode={limit: mean_value(part[0]) for limit, part in parts.items()},
        horizon=episodes.rewards.shape[1],
        episodes=len(episodes.rewards),
        seed=seed,
    )


def run(
    environment: str,
    policy: TargetPolicy,
    number: int,
    horizon: int,
    seed: int,
) -> Episodes:
    """Episodes by a policy without the environment's own time limit; only rewards are kept.

    An environment that is done starts the next episode at once, so that the policy is always asked for many actions.

    Args:
        environment: a gymnasium id.
        policy: who acts.
        number: of episodes.
        horizon: steps of each, at most.
        seed: of resets and actions.
    """
    rewards, ended = np.zeros((number, horizon)), np.zeros(number, dtype=np.bool_)
    lengths = np.zeros(number, dtype=np.int64)
    seeds, rng = reset_seeds(seed, number), np.random.default_rng(seed)
    with copies(_without_limit(environment, horizon), min(COPIES, number)) as made:
        waiting = iter(range(number))
        running = [(env, next(waiting)) for env in made]
        seen = [np.asarray(env.reset(seed=seeds[episode])[0]) for env, episode in running]
        while running:
            actions = policy.sample(np.stack(seen), rng)
            for place, (env, episode) in reversed(list(enumerate(running))):
                state, reward, terminated, truncated, _ = env.step(_action(env, actions[place]))
                rewards[episode, lengths[episode]] = reward
                lengths[episode] += 1
                seen[place] = np.asarray(state)
                if not (terminated or truncated):
                    continue
                ended[episode] = terminated
                following = next(waiting, None)
                if following is None:
                    del running[place], seen[place]
                else:
                    running[place] = (env, following)
                    seen[place] = np.asarray(env.reset(seed=seeds[following])[0])
    return Episodes(rewards, lengths, ended)


def measure(task: NetworkTask, number: int) -> None:
    """Run a task's target and write its truth, a first one after each thousand episodes."""
    parts: list[Episodes] = []
    for first in range(0, number, PART):
        size = min(PART, number - first)
        parts.append(run(task.id, task.target, size, max(task.own_limit, HORIZON), SEED + first))
        columns = zip(*((part.rewards, part.lengths, part.ended) for part in parts), strict=True)
        episodes = Episodes(*map(np.concatenate, columns))
        limits = {task.steps(cut) for cut in (True, False)}
        truth_of(episodes, limits, task.target_name, SEED).write(task.truth_file, task.id)
        print(f"{task.id}: {first + size} episodes", file=sys.stderr, flush=True)


def _without_limit(environment: str, horizon: int) -> Callable[[], gym.Env[Any, Any]]:
    register(environment)
    return lambda: gym.make(environment, disable_env_checker=True, max_episode_steps=horizon)


def _action(env: gym.Env[Any, Any], drawn: Any) -> Any:
    space = env.action_space
    if isinstance(space, gym.spaces.Discrete):
        return int(drawn)
    return np.asarray(drawn, dtype=space.dtype).reshape(space.shape or ())


def main() -> None:
    """Run the targets of the tasks named on the command line; a truth of the same policy is not measured again."""
    known = {name: task for name, task in wild_tasks().items() if isinstance(task, NetworkTask)}
    parser = argparse.ArgumentParser(
        description="Run the targets of the wild tasks and write down what they are worth."
    )
    parser.add_argument("tasks", nargs="*", help="gymnasium ids; all if none is given")
    parser.add_argument("--episodes", type=int, default=EPISODES)
    chosen = parser.parse_args()
    unknown = [name for name in chosen.tasks if name not in known]
    if unknown:
        parser.error(f"{unknown[0]} has no policies to run: known are {', '.join(known)}")
    for name in chosen.tasks or known:
        task = known[name]
        known_truth = Truth.read(task.truth_file) if task.truth_file.exists() else None
        if known_truth is None or (known_truth.policy, known_truth.episodes) != (task.target_name, chosen.episodes):
            measure(task, chosen.episodes)


if __name__ == "__main__":
    main()
