"""Collecting trajectories in any gymnasium environment, by one policy or by several in turn.

Trajectory i depends on the seed and on i alone, not on how many are collected: the first 50 of 200 are those of a
call for 50. Its reset has a seed of its own, so that other policies can be started in the same states.
"""

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from typing import Any

import gymnasium as gym
import numpy as np
import numpy.typing as npt
from gymnasium import spaces

from ope_vpm.logged import LoggedDataset
from ope_vpm.logged.episode import Episode
from ope_vpm.optional import library, quiet
from ope_vpm.policy import TargetPolicy

COPIES = 20
"""Environments stepped side by side, so that a policy computes as many actions at once; more of them take more memory.
A round number. Actions are drawn per block of this many, so changing it changes what a seed gives."""
WARM_UP_SEED = 0
"""The seed of the reset that every environment gets before the first trajectory; any number would do."""

MakeEnvironment = Callable[[], gym.Env[Any, Any]]
Observation = npt.NDArray[Any]


def collect(
    environment: str | MakeEnvironment,
    policy: TargetPolicy | Sequence[TargetPolicy],
    trajectories: int,
    length: int,
    seed: int = 0,
    *,
    action_seed: int | None = None,
    progress: Callable[[int], None] | None = None,
) -> LoggedDataset:
    """Collect trajectories, each one episode of at most `length` steps.

    An episode that the environment has not ended after `length` steps is marked as truncated, with the next state
    known. Actions are logged as the environment receives them, clipped where the policy clips. Their log-probabilities
    are logged where every policy has them: log-densities, and for an action at a bound the log-probability of being
    clipped to it.

    Args:
        environment: a gymnasium id, or a function that makes the environment.
        policy: the policy that acts; of several, trajectory i is by number i modulo their number.
        trajectories: the number of trajectories.
        length: the largest number of steps of a trajectory.
        seed: of the resets.
        action_seed: of the actions; `seed` if not given. Another one gives other trajectories from the same states.
        progress: called with the number of trajectories finished.
    """
    if trajectories < 1 or length < 1:
        raise ValueError(f"trajectories and length must be positive: got {trajectories} and {length}")
    policies = list(policy) if isinstance(policy, Sequence) else [policy]
    if not policies:
        raise ValueError("at least one policy must act: got none")
    resets = reset_seeds(seed, trajectories)
    episodes: list[Episode] = []
    with copies(environment, min(COPIES, trajectories)) as made:
        first = made[0]
        _check(first, policies)
        for block, start in enumerate(range(0, trajectories, COPIES)):
            chosen = resets[start : start + COPIES]
            rng = np.random.default_rng([seed if action_seed is None else action_seed, block])
            actors = [policies[(start + i) % len(policies)] for i in range(COPIES)]
            episodes += _block(made[: len(chosen)], actors, chosen, length, rng)
            if progress is not None:
                progress(len(episodes))
        observed, acted = first.observation_space, first.action_space
    return LoggedDataset.from_episodes(episodes, observation_space=observed, action_space=acted)


def reset_seeds(seed: int, trajectories: int) -> list[int]:
    """Return a seed for the reset of each trajectory; those of fewer trajectories are the first of these."""
    return [int(number) for number in np.random.SeedSequence(seed).generate_state(trajectories)]


@contextmanager
def copies(environment: str | MakeEnvironment, number: int) -> Iterator[list[gym.Env[Any, Any]]]:
    """Make environments and reset each once: PyBullet's first reset differs from later ones in the last digits."""
    made: list[gym.Env[Any, Any]] = []
    try:
        with quiet(1):
            for _ in range(number):
                made.append(make(environment))
                made[-1].reset(seed=WARM_UP_SEED)
        yield made
    finally:
        for each in made:
            each.close()  # type: ignore[no-untyped-call]


def make(environment: str | MakeEnvironment) -> gym.Env[Any, Any]:
    """Make one environment from a gymnasium id or by the given function."""
    if not isinstance(environment, str):
        return environment()
    register(environment)
    try:
        return gym.make(environment, disable_env_checker=True)
    except gym.error.Error as error:
        raise ValueError(f"gymnasium cannot make {environment!r}: {error}") from error


def register(environment: str) -> None:
    """Import the library that registers a gymnasium id, where gymnasium itself does not know it."""
    if "Bullet" in environment:
        library("pybullet_envs_gymnasium", "sb3")
    if environment.startswith("Sepsis/"):
        library("icu_sepsis", "sepsis")


def without_limit(environment: str, length: int) -> MakeEnvironment:
    """Return a function that makes an environment with a time limit of `length` steps instead of its own."""
    register(environment)
    return lambda: gym.make(environment, disable_env_checker=True, max_episode_steps=length)


def time_limit(environment: str) -> int:
    """Return the environment's own time limit; 1000 steps where it has none."""
    register(environment)
    return gym.spec(environment).max_episode_steps or 1000


def _check(environment: gym.Env[Any, Any], policies: Sequence[TargetPolicy]) -> None:
    observed, acted = environment.observation_space, environment.action_space
    if not isinstance(observed, spaces.Box | spaces.Discrete | spaces.MultiDiscrete):
        raise TypeError(f"observations must be a Box, Discrete or MultiDiscrete: this environment has {observed}")
    if not isinstance(acted, spaces.Box | spaces.Discrete):
        raise TypeError(f"actions must be a Box or Discrete: this environment has {acted}")
    for policy in policies:
        size = int(np.prod(observed.shape)) if isinstance(observed, spaces.Box | spaces.MultiDiscrete) else 1
        if policy.observation_size not in (None, size):
            raise ValueError(f"the policy sees {policy.observation_size} numbers, the environment shows {size}")
        if policy.action_dimension is not None and (policy.action_dimension,) != acted.shape:
            raise ValueError(f"the policy's actions have {policy.action_dimension} numbers, the environment's {acted}")


def _block(
    environments: Sequence[gym.Env[Any, Any]],
    actors: Sequence[TargetPolicy],
    seeds: Sequence[int],
    length: int,
    rng: np.random.Generator,
) -> list[Episode]:
    """Collect one trajectory in each environment.

    Actions are drawn for a whole block of `COPIES`, however many environments there are, so that a trajectory does not
    depend on the number of trajectories.
    """
    starts = [np.asarray(env.reset(seed=seed)[0]) for env, seed in zip(environments, seeds, strict=True)]
    logs = [_Log(start) for start in starts]
    for _ in range(length):
        going = [i for i, log in enumerate(logs) if not log.ended]
        if not going:
            break
        seen = [logs[i].observations[-1] if i < len(logs) else starts[0] for i in range(len(actors))]
        actions = _actions(actors, np.stack(seen), rng)
        for i in going:
            logs[i].add(environments[i], actions[i])
    known = all(actor.has_log_prob for actor in actors)  # functions are told apart by their first call
    return [log.episode(actor if known else None) for log, actor in zip(logs, actors, strict=False)]


def _actions(actors: Sequence[TargetPolicy], seen: Observation, rng: np.random.Generator) -> list[Any]:
    """Draw one action per observation, policy by policy."""
    rows = seen if seen.ndim == 1 else seen.reshape(len(seen), -1)
    drawn: list[Any] = [None] * len(actors)
    for policy in dict.fromkeys(actors):
        mine = [i for i, actor in enumerate(actors) if actor is policy]
        for i, action in zip(mine, policy.sample(rows[mine], rng), strict=True):
            drawn[i] = action
    return drawn


class _Log:
    """A trajectory while it is being collected."""

    def __init__(self, start: Observation) -> None:
        self.observations: list[Observation] = [start]
        self.actions: list[Any] = []
        self.rewards: list[float] = []
        self.terminated = False
        self.truncated = False

    @property
    def ended(self) -> bool:
        return self.terminated or self.truncated

    def add(self, environment: gym.Env[Any, Any], action: Any) -> None:
        space = environment.action_space
        if isinstance(space, spaces.Discrete):
            action = int(action)
        else:
            action = np.asarray(action, dtype=space.dtype).reshape(space.shape or ())
        seen, reward, self.terminated, self.truncated, _ = environment.step(action)
        self.observations.append(np.asarray(seen))
        self.actions.append(action)
        self.rewards.append(float(reward))

    def episode(self, actor: TargetPolicy | None) -> Episode:
        seen, actions = np.stack(self.observations), np.stack(self.actions)
        rows = seen[:-1] if seen.ndim == 1 else seen[:-1].reshape(len(actions), -1)
        log_prob = None if actor is None else actor.log_likelihood(rows, actions)
        cut = self.truncated or not self.terminated
        return Episode(seen, actions, np.array(self.rewards), self.terminated, cut, log_prob)
