"""Random finite MDPs with exact values: what every estimator that claims consistency has to get right."""

from __future__ import annotations

from dataclasses import dataclass
from typing import cast

import numpy as np
from gymnasium import spaces

from ope_vpm.arrays import Floats
from ope_vpm.logged import LoggedDataset


@dataclass(frozen=True)
class RandomMDP:
    """A continuing MDP: transitions and rewards of each (s, a), and where episodes begin."""

    transition: Floats
    """(states, actions, states)."""
    reward: Floats
    """(states, actions): the mean; each logged reward has N(0, noise²) added."""
    initial: Floats
    noise: float = 0.5

    @classmethod
    def draw(cls, states: int, actions: int, seed: int) -> RandomMDP:
        """Dirichlet transitions with a little of everything (so ergodic), normal rewards."""
        rng = np.random.default_rng(seed)
        transition = rng.dirichlet(np.full(states, 0.3), size=(states, actions))
        transition = 0.95 * transition + 0.05 / states
        return cls(transition, rng.standard_normal((states, actions)), rng.dirichlet(np.ones(states)))

    def policy(self, seed: int, spread: float = 1.0) -> Floats:
        """A random softmax policy, (states, actions)."""
        logits = spread * np.random.default_rng(seed).standard_normal(self.reward.shape)
        chance = np.exp(logits - logits.max(axis=1, keepdims=True))
        return cast(Floats, chance / chance.sum(axis=1, keepdims=True))

    def value(self, policy: Floats, gamma: float) -> float:
        """The average reward, or (1-γ)·E[Σ γ^t r_t], by a linear solve."""
        kernel = np.einsum("sa,sat->st", policy, self.transition)
        reward = (policy * self.reward).sum(axis=1)
        size = len(kernel)
        if gamma < 1:
            law = np.linalg.solve(np.eye(size) - gamma * kernel.T, (1 - gamma) * self.initial)
        else:
            law = np.linalg.solve(np.eye(size) - kernel.T + 1 / size, np.full(size, 1 / size))
        return float(law @ reward)

    def dataset(self, episodes: int, length: int, policy: Floats, seed: int) -> LoggedDataset:
        """Episodes of one length, cut by the log and not by the task."""
        rng = np.random.default_rng(seed)
        size, count = self.reward.shape
        cumulative = self.transition.cumsum(axis=2)
        state = rng.choice(size, size=episodes, p=self.initial)
        columns: list[list[np.ndarray]] = [[], [], []]
        for _ in range(length):
            action = _drawn(policy.cumsum(axis=1)[state], rng)
            following = _drawn(cumulative[state, action], rng)
            for column, part in zip(columns, (state, action, following), strict=True):
                column.append(part)
            state = following
        here, taken, there = (np.stack(column, axis=1).reshape(-1) for column in columns)
        rewards = self.reward[here, taken] + self.noise * rng.standard_normal(here.shape)
        last = np.tile(np.arange(length) == length - 1, episodes)
        return LoggedDataset.from_arrays(
            here,
            taken,
            rewards,
            there,
            truncated=last,
            observation_space=spaces.Discrete(size),
            action_space=spaces.Discrete(count),
        )


def _drawn(cumulative: Floats, rng: np.random.Generator) -> np.ndarray:
    chance = rng.random((len(cumulative), 1)) * cumulative[:, -1:]
    return cast(np.ndarray, (chance >= cumulative[:, :-1]).sum(axis=1))
