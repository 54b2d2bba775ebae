"""The behaviour policy, cloned from the log: counts for finite states, small networks for points."""

from __future__ import annotations

from dataclasses import dataclass
from typing import cast

import numpy as np
import torch
from torch import Tensor

from ope_vpm.arrays import Floats, Integers
from ope_vpm.ope.adapter.encoding import Standardisation
from ope_vpm.ope.adapter.state_features import StateFeatures
from ope_vpm.ope.log import Log
from ope_vpm.ope.problem import Problem
from ope_vpm.ope.q.training import mlp, train
from ope_vpm.policy import GaussianPolicy, TargetPolicy
from ope_vpm.policy.target import at_bounds

Behaviour = str | TargetPolicy
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
    # Where the target clips its draws, the logged actions were clipped, too.
    bounds = problem.policy.bounds if isinstance(problem.policy, GaussianPolicy) else None
    clips = isinstance(problem.policy, GaussianPolicy) and not problem.policy.squash and bounds is not None
    clipping = tuple(tuple(np.atleast_1d(bound).tolist()) for bound in bounds or ()) if clips else ()
    return problem.log.shared(clone, clipping, problem.seed)


Clipping = tuple[tuple[float, ...], ...]
"""The lower and the upper bounds to which actions were clipped; empty where they were not."""


def clone(log: Log, clipping: Clipping, seed: int) -> Clone:
    """The behaviour policy, fitted to the log: counted where states and actions are finite, else a network."""
    data = log.data
    if log.finite:
        features = StateFeatures.draw(data, 0, seed)
        return counted_clone(features.encoder.states(data.observations), data.actions, data.n_actions or 1)
    return network_clone(log, clipping, seed)


def counted_clone(states: Integers, actions: Integers, n_actions: int, smoothing: float = SMOOTHING) -> Clone:
    """(n(s, a) + c/A)/(n(s) + c), c the smoothing; judged by leaving each row out of its own counts."""
    _, state = np.unique(states, return_inverse=True)
    _, pair = np.unique(state * n_actions + actions, return_inverse=True)
    of_state, of_pair = np.bincount(state)[state], np.bincount(pair)[pair]
    log_prob = np.log((of_pair + smoothing / n_actions) / (of_state + smoothing))
    left_out = np.log((of_pair - 1 + smoothing / n_actions) / (of_state - 1 + smoothing))
    return Clone(log_prob, float(left_out.mean()))


def network_clone(log: Log, clipping: Clipping, seed: int) -> Clone:
    """A Gaussian or categorical network, early-stopped on held-out episodes."""
    data, held = log.data, log.held_out
    x = torch.from_numpy(StateFeatures.draw(data, 0, seed).points(data.observations)).float()
    if data.discrete_actions:
        network = mlp(x.shape[1], data.n_actions or 1, seed)
        chosen, shift = torch.from_numpy(np.array(data.actions)), np.zeros(len(data))

        def log_prob(rows: Tensor) -> Tensor:
            return torch.log_softmax(network(x[rows]), dim=1).gather(1, chosen[rows, None])[:, 0]
    else:
        scale = Standardisation.fit(data.actions)
        actions = torch.from_numpy(scale(data.actions)).float()
        below, above = at_bounds(data.actions, clipping)
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
        log.rows[~held[log.rows]],
        log.rows[held[log.rows]],
        steps=STEPS,
        learning_rate=LEARNING_RATE,
        patience=PATIENCE,
        seed=seed,
    )
    with torch.no_grad():
        fitted = log_prob(torch.arange(len(data))).double().numpy() - shift
    return Clone(fitted, -lowest - float(shift[held].mean() if held.any() else shift.mean()))
