"""Q-learning on Taxi as in Liu et al. (2018): one endless trajectory with softmax exploration.

The temperature is 2 while learning and in the stored policies, an iteration has 5000 steps, the discount is 0.99, and
Q starts at 0. The learning rate is 0.01: at the 0.005 of published code around this Taxi, the policy after 1000
iterations still delivers hardly anybody (average reward -0.95), while at 0.01 its value is about -0.1 and improving.
"""

import json
from bisect import bisect_right
from collections.abc import Callable, Iterator
from functools import cache, partial
from math import exp
from pathlib import Path

import numpy as np

from ope_vpm.arrays import Floats
from ope_vpm.envs.taxi import (
    ACTIONS,
    CORNERS,
    EMPTY,
    MASKS,
    SIDE,
    STATES,
    exact_value,
    expected_rewards,
    outcomes,
    passenger_kernel,
)
from ope_vpm.outside import write_text, write_whole

LEARNING_RATE, DISCOUNT, TEMPERATURE = 0.01, 0.99, 2.0
"""The learning rate is ours, for the reason above; the others are those of published code around this Taxi."""
STEPS_PER_ITERATION, ITERATIONS, BETWEEN_CHECKPOINTS = 5000, 1000, 50
"""The paper's behaviour and target are the policies after 950 and 1000 iterations; a checkpoint every 50 gives both."""
SETTINGS: dict[str, object] = {
    "environment": "ope_vpm/Taxi-v0",
    "algorithm": "Q-learning on one trajectory without resets, Q = 0 at the start",
    "learning_rate": LEARNING_RATE,
    "discount": DISCOUNT,
    "temperature": TEMPERATURE,
    "steps_an_iteration": STEPS_PER_ITERATION,
}
"""What the JSON file beside a checkpoint says of its training; the keys are those of the shipped files."""


def train(
    output: Path, *, seed: int = 0, progress: Callable[[int, float], None] | None = None, iterations: int = ITERATIONS
) -> list[Path]:
    """Train, and write the policy of every 50th iteration as `iteration-NNNN.npy` with a JSON file beside it.

    Args:
        output: the folder for the tables; it is created where it does not exist.
        seed: of the trajectory.
        progress: called after each checkpoint with the iterations done and the policy's exact average reward.
        iterations: the number of iterations.
    """
    output.mkdir(parents=True, exist_ok=True)
    written = []
    for iteration, table in checkpoints(seed, iterations):
        stored = table.astype(np.float32)
        path = output / f"iteration-{iteration:04d}.npy"
        write_whole(path, partial(np.save, arr=stored, allow_pickle=False))
        value = exact_value(stored)
        about = {**SETTINGS, "seed": seed, "iteration": iteration, "average_reward": value}
        about["discounted_reward_at_0.99"] = exact_value(stored, 0.99)
        write_text(path.with_suffix(".json"), json.dumps(about, indent=2) + "\n")
        written.append(path)
        if progress is not None:
            progress(iteration, value)
    return written


def checkpoints(seed: int, iterations: int) -> Iterator[tuple[int, Floats]]:
    """Yield every 50th iteration with its softmax policy, shape (2000, 6)."""
    values = [[0.0] * ACTIONS for _ in range(STATES)]
    preferences = [[1.0] * ACTIONS for _ in range(STATES)]
    rng = np.random.default_rng(seed)
    state = EMPTY + (CORNERS + 1) * int(rng.integers(SIDE * SIDE * MASKS))
    for iteration in range(1, iterations + 1):
        state = _iterate(values, preferences, state, rng)
        if iteration % BETWEEN_CHECKPOINTS == 0:
            table = np.array(preferences)
            yield iteration, table / table.sum(axis=1, keepdims=True)


def _iterate(values: list[list[float]], preferences: list[list[float]], state: int, rng: np.random.Generator) -> int:
    """Run one iteration of Q-learning, which changes `values` in place, and return the state that it ends in.

    Args:
        values: Q, by state and action.
        preferences: e^{Q/temperature}, the unnormalised probabilities of the softmax policy, kept up to date. Lists
            and one exponential per step are faster here than small numpy arrays.
        state: where the iteration begins.
        rng: of everything random.
    """
    rewards, after, masks = _as_lists()
    for choice, fate, arrivals in rng.random((STEPS_PER_ITERATION, 3)).tolist():
        own = preferences[state]
        left, action = choice * sum(own), 0
        while action < ACTIONS - 1 and left >= own[action]:
            left -= own[action]
            action += 1
        before, mask = after[state][action][int(3 * fate)]
        following = before + (CORNERS + 1) * bisect_right(masks[mask], arrivals)
        here = values[state]
        here[action] += LEARNING_RATE * (rewards[state][action] + DISCOUNT * max(values[following]) - here[action])
        own[action] = exp(here[action] / TEMPERATURE)
        state = following
    return state


@cache
def _as_lists() -> tuple[list[list[float]], list[list[list[list[int]]]], list[list[float]]]:
    """Return the task as nested lists, for fast access to single entries.

    These are the rewards by state and action; for each of the three outcomes of an action, the state with no passenger
    waiting and the mask of those that wait; and for each mask the cumulative probabilities of the next one.
    """
    mask = outcomes() // (CORNERS + 1) % MASKS
    bare = outcomes() - (CORNERS + 1) * mask
    cumulative = passenger_kernel().cumsum(axis=1)[:, :-1]
    return expected_rewards().tolist(), np.stack([bare, mask], axis=-1).tolist(), cumulative.tolist()
