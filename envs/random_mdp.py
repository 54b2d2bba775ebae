"""Random finite MDPs with exact values, on which every consistent estimator has to converge."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from gymnasium import spaces
from scipy.special import softmax

from ope_vpm.arrays import Floats
from ope_vpm.logged import LoggedDataset


@dataclass(frozen=True)
class RandomMDP:
    """A continuing finite MDP: its transition probabilities, rewards and initial distribution."""

    transition: Floats
    """𝒯(s'|s, a), shape (states, actions, states)."""
    reward: Floats
    """The mean reward, shape (states, actions); each logged reward has noise N(0, noise²) added."""
    initial: Floats
    """The distribution of the first state of an episode, shape (states,)."""
    noise: float = 0.5
    """The standard deviation of a reward around its mean: half that of the mean rewards. A round number."""

    @classmethod
    def draw(cls, states: int, actions: int, seed: int) -> RandomMDP:
        """Draw an MDP: rows of 𝒯 from a Dirichlet distribution, mean rewards from N(0, 1).

        The Dirichlet parameter of 0.3 makes a few successors of each pair likely; 5 % of each row is uniform, so that
        the chain of every policy is ergodic.
        """
        rng = np.random.default_rng(seed)
        transition = rng.dirichlet(np.full(states, 0.3), size=(states, actions))
        transition = 0.95 * transition + 0.05 / states
        return cls(transition, rng.standard_normal((states, actions)), rng.dirichlet(np.ones(states)))

    def policy(self, seed: int, spread: float = 1.0) -> Floats:
        """Draw a softmax policy with logits from N(0, spread²), shape (states, actions)."""
        logits = spread * np.random.default_rng(seed).standard_normal(self.reward.shape)
        return softmax(logits, axis=1)

    def value(self, policy: Floats, gamma: float) -> float:
        """Return the exact value of a policy: the average reward, or (1-γ)·E[Σ γ^t r_t], by a linear solve."""
        kernel = np.einsum("sa,sat->st", policy, self.transition)
        reward = (policy * self.reward).sum(axis=1)
        size = len(kernel)
        if gamma < 1:
            distribution = np.linalg.solve(np.eye(size) - gamma * kernel.T, (1 - gamma) * self.initial)
        else:
            # adding 1/size to every entry adds the equation Σμ = 1 to μ(I - 𝒯) = 0, and makes the matrix regular
            distribution = np.linalg.solve(np.eye(size) - kernel.T + 1 / size, np.full(size, 1 / size))
        return float(distribution @ reward)

    def dataset(self, episodes: int, length: int, policy: Floats, seed: int) -> LoggedDataset:
        """Simulate episodes under a policy, all truncated after `length` steps.

        Args:
            episodes: the number of episodes.
            length: the number of steps of each.
            policy: probabilities of shape (states, actions).
            seed: of everything random.
        """
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
    """Draw one index per row from cumulative probabilities."""
    uniform = rng.random((len(cumulative), 1)) * cumulative[:, -1:]
    return (uniform >= cumulative[:, :-1]).sum(axis=1)
