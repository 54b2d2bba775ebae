"""The behaviour policy, cloned from the log: counts for finite states, small networks for points."""

from __future__ import annotations

from dataclasses import dataclass
from typing import cast

import numpy as np
import torch
from torch import Tensor

from ope_vpm.arrays import Bools, Floats, Integers
from ope_vpm.ope.adapter.encoding import Standardisation
from ope_vpm.ope.adapter.state_features import StateFeatures
from ope_vpm.ope.problem import Problem
from ope_vpm.ope.q.training import mlp, train
from ope_vpm.policy import GaussianPolicy, TargetPolicy

Behaviour = str | TargetPolicy
HELD_OUT = 5
"""Every fifth episode."""
SMOOTHING = 1.0
"""Observations added to each state, spread evenly over the actions."""
STEPS, LEARNING_RATE, PATIENCE = 2000, 3e-3, 3


@dataclass(frozen=True)
class Clone:
    """Log-probabilities (or densities) of the logged actions, and how well they were fitted."""

    log_prob: Floats
    held_out_log_likelihood: float
    """Per action; NaN where nothing was fitted."""


def check_behaviour(name: str, problem: Problem, behaviour: Behaviour) -> None:
    """Refuse, before any work, a target without densities or logged probabilities that are not there."""
    if not problem.policy.has_log_prob:
        raise ValueError(f"{name} needs a target policy with densities: use vpm or model, which do not")
    if isinstance(behaviour, TargetPolicy):
        if not behaviour.has_log_prob:
            raise ValueError(f"{name} needs a behaviour policy with densities: use behaviour='cloned'")
    elif behaviour == "logged":
        if problem.data.behaviour_log_prob is None:
            raise ValueError("behaviour='logged' needs behaviour_log_prob in the data: use behaviour='cloned'")
    elif behaviour != "cloned":
        raise ValueError(f"behaviour must be 'cloned', 'logged' or a policy: got {behaviour!r}")


def behaviour_log_prob(problem: Problem, behaviour: Behaviour) -> Clone:
    """Log b of each logged action; a clone is made once and shared."""
    if isinstance(behaviour, TargetPolicy):
        return Clone(behaviour.log_chance(problem.data.observations, problem.data.actions), float("nan"))
    if behaviour == "logged":
        return Clone(cast(Floats, problem.data.behaviour_log_prob), float("nan"))
    bounds = problem.policy.bounds if isinstance(problem.policy, GaussianPolicy) else None
    clips = [np.asarray(bound).tolist() for bound in bounds or ()]  # where the target clips, so does the clone
    return problem.once(f"clone {clips}", lambda: clone(problem), of_data=True)


def clone(problem: Problem) -> Clone:
    """By the kind of data."""
    data = problem.data
    if data.finite and data.discrete_actions:
        features = StateFeatures.draw(problem, 0)
        actions = data.n_actions or 1
        return counted_clone(features.encoder.states(data.observations), data.actions, actions)
    return network_clone(problem)


def counted_clone(states: Integers, actions: Integers, n_actions: int, smoothing: float = SMOOTHING) -> Clone:
    """(n(s, a) + c/A)/(n(s) + c), c the smoothing; judged by leaving each row out of its own counts."""
    _, state = np.unique(states, return_inverse=True)
    _, pair = np.unique(state * n_actions + actions, return_inverse=True)
    of_state, of_pair = np.bincount(state)[state], np.bincount(pair)[pair]
    log_prob = np.log((of_pair + smoothing / n_actions) / (of_state + smoothing))
    left_out = np.log((of_pair - 1 + smoothing / n_actions) / (of_state - 1 + smoothing))
    return Clone(log_prob, float(left_out.mean()))


def _clipped(problem: Problem) -> tuple[Bools, Bools]:
    """Where actions lie at the target's bounds, if it clips: the log's are then clipped there too."""
    policy, shape = problem.policy, np.shape(problem.data.actions)
    if isinstance(policy, GaussianPolicy):
        return policy.clipped(problem.data.actions)
    return np.zeros(shape, dtype=np.bool_), np.zeros(shape, dtype=np.bool_)


def network_clone(problem: Problem) -> Clone:
    """A Gaussian or categorical network, early-stopped on held-out episodes."""
    data = problem.data
    x = torch.from_numpy(StateFeatures.draw(problem, 0).points(data.observations)).float()
    held = data.episode % HELD_OUT == HELD_OUT - 1
    seed = problem.seed
    if data.discrete_actions:
        network = mlp(x.shape[1], data.n_actions or 1, seed)
        chosen, shift = torch.from_numpy(np.array(data.actions)), np.zeros(len(data))

        def log_prob(rows: Tensor) -> Tensor:
            return torch.log_softmax(network(x[rows]), dim=1).gather(1, chosen[rows, None])[:, 0]
    else:
        scale = Standardisation.fit(data.actions)
        actions = torch.from_numpy(scale(data.actions)).float()
        below, above = _clipped(problem)
        shift = np.where(below | above, 0.0, np.log(scale.std)).sum(axis=1)
        side = torch.from_numpy(1.0 * below - 1.0 * above).float()  # the tail is Φ(side·score)
        network = mlp(x.shape[1], 2 * actions.shape[1], seed)

        def log_prob(rows: Tensor) -> Tensor:
            mean, log_std = network(x[rows]).chunk(2, dim=1)
            log_std = log_std.clamp(-5, 2)
            score = (actions[rows] - mean) / log_std.exp()
            terms: Tensor = 0.5 * score**2 + log_std + 0.5 * np.log(2 * np.pi)
            tails = -torch.special.log_ndtr(side[rows] * score)
            return -torch.where(side[rows] != 0, tails, terms).sum(dim=1)

    lowest = train(
        network,
        lambda rows: -log_prob(rows).mean(),
        np.flatnonzero(~held),
        np.flatnonzero(held),
        steps=STEPS,
        learning_rate=LEARNING_RATE,
        patience=PATIENCE,
        seed=seed,
    )
    with torch.no_grad():
        fitted = log_prob(torch.arange(len(data))).double().numpy() - shift
    return Clone(fitted, -lowest - float(shift[held].mean() if held.any() else shift.mean()))
