"""A model of points: an ensemble of networks for the next state, the reward and the end, rolled out in batches.

Each network is trained on its own draw of the episodes, so that the spread of their values is a standard error.
States and rewards of rollouts are kept within what was logged, so that nothing can explode.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
from scipy.special import expit
from torch import Tensor

from ope_vpm.arrays import Floats
from ope_vpm.ope.adapter.encoding import Standardisation
from ope_vpm.ope.adapter.state_features import StateFeatures
from ope_vpm.ope.adapter.steps import rows_of
from ope_vpm.ope.inference.estimate import RawEstimate
from ope_vpm.ope.inference.uncertainty import Spread
from ope_vpm.ope.inference.verdict import Evidence
from ope_vpm.ope.log import Log
from ope_vpm.ope.problem import Problem
from ope_vpm.ope.q.training import Ensemble

BATCH, LEARNING_RATE = 256, 2e-3
SHORTEST, LONGEST = 100, 1000
"""Steps of a rollout."""
MARGIN = 0.1
"""How far beyond the logged range a rollout's state may go, in ranges."""


@dataclass(frozen=True)
class Model:
    """The fitted ensemble with the scales of its inputs and outputs."""

    network: Ensemble
    features: StateFeatures
    action_scale: Standardisation | int
    """Or the number of discrete actions."""
    change_scale: Standardisation
    reward_scale: Standardisation
    noise: Floats
    """(members, d): deviations of what the networks leave unexplained, in scaled changes."""
    bounds: tuple[Floats, Floats]
    """Of standardised states."""
    reward_bounds: tuple[float, float]
    ends: bool
    """Whether some logged episode ended."""

    def inputs(self, points: Floats, actions: np.ndarray) -> Tensor:
        """Standardised states beside scaled (or one-hot) actions."""
        moves = np.eye(self.action_scale)[actions] if isinstance(self.action_scale, int) else self.action_scale(actions)
        return torch.from_numpy(np.concatenate([points, moves], axis=-1)).float()

    @torch.no_grad()
    def step(self, points: Floats, actions: np.ndarray, rng: np.random.Generator) -> tuple[Floats, Floats, Any]:
        """Next points, rewards and ends of (members, n) states."""
        out = self.network(self.inputs(points, actions)).double().numpy()
        size = points.shape[-1]
        change = out[..., :size] + self.noise[:, None] * rng.standard_normal(points.shape)
        moved = points + change * self.change_scale.std + self.change_scale.mean
        if self.features.encoder.shape is not None:
            moved = np.eye(size)[moved.argmax(axis=-1)]
        reward = out[..., size] * self.reward_scale.std + self.reward_scale.mean
        ended = (rng.random(reward.shape) < expit(out[..., size + 1])) & self.ends
        return np.clip(moved, *self.bounds), np.clip(reward, *self.reward_bounds), ended


def fit(log: Log, members: int, steps: int, seed: int) -> Model:
    """Train every member on its own draw of the episodes."""
    data = log.data
    features = StateFeatures.draw(data, 0, seed)
    points = features.points(data.observations)
    ending = data.terminated
    known = data.next_known
    following = np.array(data.next_observations)
    following[~known] = data.observations[~known]
    change = features.points(following) - points
    change_scale, reward_scale = Standardisation.fit(change[known]), Standardisation.fit(data.rewards)
    action_scale = data.n_actions or Standardisation.fit(data.actions)
    network = Ensemble(members, _width(points, data.actions, action_scale), points.shape[1] + 2, seed)
    low, high = points.min(axis=0), points.max(axis=0)
    margin = MARGIN * (high - low)
    model = Model(
        network,
        features,
        action_scale,
        change_scale,
        reward_scale,
        np.zeros((members, points.shape[1])),
        (low - margin, high + margin),
        (float(data.rewards.min()), float(data.rewards.max())),
        bool(ending.any()),
    )
    targets = np.column_stack([change_scale(change), reward_scale(data.rewards), ending])
    x, y = model.inputs(points, data.actions), torch.from_numpy(targets).float()
    usable = torch.from_numpy(np.array(known)).float()
    rows = _drawn_rows(log, members, seed)
    _train(network, x, y, usable, rows, steps, seed)
    with torch.no_grad():
        left = (network(x.expand(members, *x.shape))[..., : points.shape[1]] - y[:, : points.shape[1]]).double().numpy()
    noise = np.sqrt(np.mean(left[:, known] ** 2, axis=1))
    return Model(**{**vars(model), "noise": noise})


def find_neural(
    problem: Problem, *, members: int, training_steps: int, rollouts: int, horizon: int | None
) -> RawEstimate:
    """The mean of the members' values; their spread is the standard error."""
    model = problem.log.shared(fit, members, training_steps, problem.seed)
    steps = horizon or rollout_length(problem)
    values, outside = rolled_out(problem, model, members, rollouts, steps)
    evidence = Evidence(unseen_mass=outside)
    diagnostics = {"solver": "ensemble", "horizon": steps, "member_values": values, "dropped": problem.steps.dropped}
    return RawEstimate(
        value=float(values.mean()),
        uncertainty=Spread(members=values),
        evidence=evidence,
        diagnostics=diagnostics,
    )


def rollout_length(problem: Problem) -> int:
    """Until γ^t < 0.001; at γ = 1 twice the longest episode, or as long as the task's own limit."""
    longest = int(problem.data.lengths.max())
    if problem.time_limit == "restart" and problem.data.truncated.any():
        return min(longest, LONGEST)
    if problem.gamma < 1:
        needed = np.log(1e-3) / np.log(max(problem.gamma, 1e-3))
        return int(np.clip(np.ceil(needed), 1, LONGEST))
    return int(np.clip(2 * longest, SHORTEST, LONGEST))


def rolled_out(problem: Problem, model: Model, members: int, rollouts: int, steps: int) -> tuple[Floats, float]:
    """The value by each member, and the share of steps on the edge of the logged range.

    Episodes that end give E[Σ γ^t r_t]/E[Σ γ^t] over their steps (a restart renews them), or over all time
    where reward 0 follows for ever. At γ = 1 without ends the first half of each rollout is left out.
    """
    rng = np.random.default_rng(problem.seed)
    gamma, data = problem.gamma, problem.data
    first = problem.log.initial_observations if data.from_reset.any() else data.observations[problem.log.rows]
    points = model.features.points(first)[rng.integers(len(first), size=(members, rollouts))]
    alive = np.ones((members, rollouts))
    above, below, edge = np.zeros(members), np.zeros(members), 0.0
    skip = steps // 2 if gamma == 1 and not model.ends and not problem.ends.any() else 0
    for time in range(steps):
        flat = points.reshape(-1, points.shape[-1])
        actions = problem.policy.sample(_raw(model, flat), rng)
        points, rewards, ended = model.step(points, actions.reshape(members, rollouts, *actions.shape[1:]), rng)
        if time >= skip:
            above += gamma**time * (alive * rewards).sum(axis=1)
            below += gamma**time * (alive if problem.on_end == "restart" else np.ones_like(alive)).sum(axis=1)
        alive = alive * ~ended
        at_edge = (points <= model.bounds[0]) | (points >= model.bounds[1])
        edge += float((at_edge & (model.bounds[1] > model.bounds[0])).any(axis=-1).mean()) / steps
    return above / np.maximum(below, 1e-300), edge


def _raw(model: Model, points: Floats) -> np.ndarray:
    """Points back in the units of the observations."""
    if model.features.encoder.shape is not None:
        numbers = points.argmax(axis=1)
        return np.stack(np.unravel_index(numbers, model.features.encoder.shape), axis=1).squeeze(axis=1)
    scale = model.features.encoder.observation_scale
    raw: Floats = points * scale.std + scale.mean
    return raw


def _width(points: Floats, actions: np.ndarray, scale: Standardisation | int) -> int:
    return int(points.shape[1]) + (scale if isinstance(scale, int) else actions.shape[1])


def _drawn_rows(log: Log, members: int, seed: int) -> list[np.ndarray]:
    """For each member the rows of as many episodes as there are, drawn with replacement."""
    rng, count = np.random.default_rng(seed), log.data.n_episodes
    return [rows_of(log.data, log.episodes[rng.integers(count, size=count)]) for _ in range(members)]


def _train(
    network: Ensemble, x: Tensor, y: Tensor, known: Tensor, rows: list[np.ndarray], steps: int, seed: int
) -> None:
    """Squared error on changes (where the next state is known) and rewards, cross-entropy on ends."""
    rng = np.random.default_rng(seed)
    optimiser = torch.optim.Adam(network.parameters(), LEARNING_RATE, fused=True)
    decay = torch.optim.lr_scheduler.CosineAnnealingLR(optimiser, steps)
    size = y.shape[1] - 2
    for _ in range(steps):
        batch = torch.from_numpy(np.stack([rng.choice(each, size=BATCH) for each in rows]))
        out, wanted, here = network(x[batch]), y[batch], known[batch]
        change = ((out[..., :size] - wanted[..., :size]) ** 2).mean(dim=-1) * here
        reward = (out[..., size] - wanted[..., size]) ** 2
        end = torch.nn.functional.binary_cross_entropy_with_logits(out[..., -1], wanted[..., -1], reduction="none")
        optimiser.zero_grad()
        (change + reward + end).mean(dim=1).sum().backward()
        optimiser.step()
        decay.step()
