"""A linear system under a noisy linear controller: an MDP whose every value is known in closed form."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import cast

import numpy as np
import numpy.typing as npt
from scipy.linalg import solve_discrete_lyapunov

from ope_vpm.chain import Transitions
from ope_vpm.chain.transitions import Floats


@dataclass(frozen=True)
class GaussianController:
    """a ~ N(gain·s + shift, deviation²)."""

    gain: tuple[float, float]
    shift: float
    deviation: float

    def sample(self, states: Floats, rng: np.random.Generator) -> Floats:
        """One action for each state, shape (n, 1)."""
        mean = states @ np.array(self.gain)[:, None] + self.shift
        return cast(Floats, mean + self.deviation * rng.standard_normal(mean.shape))


TARGET = GaussianController(gain=(-0.2, 0.1), shift=0.3, deviation=0.3)
BEHAVIOUR = GaussianController(gain=(0.1, -0.1), shift=0.0, deviation=0.6)


@dataclass(frozen=True)
class LinearGaussian:
    """s' = As + Ba + N(0, noise²I) with s in two dimensions, a in one; reward = 1 + 0.7(s₁ + a/2 - |s|²/2 + s₂a)."""

    a: Floats = field(default_factory=lambda: np.array([[0.6, 0.2], [-0.1, 0.5]]))
    b: Floats = field(default_factory=lambda: np.array([[0.3], [0.5]]))
    noise: float = 0.2

    def step(self, states: Floats, actions: Floats, rng: np.random.Generator) -> Floats:
        """The next states, shape (n, 2)."""
        mean = states @ self.a.T + actions @ self.b.T
        return mean + self.noise * rng.standard_normal(states.shape)

    def reward(self, states: Floats, actions: Floats) -> Floats:
        """The reward of each state and action, shape (n,)."""
        action = actions[:, 0]
        curvature = (states**2).sum(axis=1) / 2
        return cast(Floats, 1 + 0.7 * (states[:, 0] + action / 2 - curvature + states[:, 1] * action))

    def stationary_moments(self, controller: GaussianController) -> tuple[Floats, Floats]:
        """The mean and covariance of (s, a) in the long run."""
        gain = np.array(controller.gain)[None]
        closed = self.a + self.b @ gain
        mean = np.linalg.solve(np.eye(2) - closed, self.b[:, 0] * controller.shift)
        shock = self.noise**2 * np.eye(2) + controller.deviation**2 * self.b @ self.b.T
        spread = solve_discrete_lyapunov(closed, shock)
        lift = np.vstack([np.eye(2), gain])
        covariance = lift @ spread @ lift.T
        covariance[2, 2] += controller.deviation**2
        return lift @ mean + [0, 0, controller.shift], covariance

    def average_reward(self, controller: GaussianController) -> float:
        """The long-run average reward, exactly."""
        mean, covariance = self.stationary_moments(controller)
        second = covariance + np.outer(mean, mean)
        return float(1 + 0.7 * (mean[0] + mean[2] / 2 - (second[0, 0] + second[1, 1]) / 2 + second[1, 2]))

    def transitions(
        self,
        n: int,
        seed: int,
        behaviour: GaussianController = BEHAVIOUR,
        target: GaussianController = TARGET,
    ) -> tuple[Transitions, Floats]:
        """Pairs of (s, a), a by the behaviour in its own long run, and (s', a'), a' by the target; and rewards."""
        rng = np.random.default_rng(seed)
        mean, covariance = self.stationary_moments(behaviour)
        pairs: npt.NDArray[np.float64] = rng.multivariate_normal(mean, covariance, size=n)
        states, actions = pairs[:, :2], pairs[:, 2:]
        next_states = self.step(states, actions, rng)
        next_pairs = np.hstack([next_states, target.sample(next_states, rng)])
        return Transitions(pairs, next_pairs), self.reward(states, actions)
