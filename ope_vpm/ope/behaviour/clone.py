"""Log-probabilities of the logged actions under the behaviour policy: as logged, of a known policy, or of a clone.

A clone is fitted to the log alone: counts for finite states and actions, otherwise a small network.
No target policy enters, except for the bounds to which actions were clipped, so that all targets share one clone.
"""

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np

from ope_vpm.arrays import Floats, Integers
from ope_vpm.linear.features import Standardiser
from ope_vpm.ope.adapter.given import Behaviour, Encoder, checked_behaviour
from ope_vpm.ope.adapter.states import StateFeatures
from ope_vpm.ope.behaviour.action_ratio import known_log_prob
from ope_vpm.ope.log import Log
from ope_vpm.ope.memory import remembered
from ope_vpm.ope.problem import Problem
from ope_vpm.optional import torch
from ope_vpm.policy.continuous import LOG_ROOT_TWO_PI
from ope_vpm.policy.target import Clipping

SMOOTHING = 1.0
"""Observations added to each state, spread evenly over the actions: no logged ratio is then infinite, and a state that
was visited often keeps its frequencies."""
STEPS, LEARNING_RATE, PATIENCE = 2000, 3e-3, 3
"""Adam steps at most, their size, and checks on held-out episodes without improvement before training stops: on the
linear-Gaussian MDP with 2000 rows it stops after 400 to 700 steps, within 0.1 of the exact log-densities."""
LOG_STD_RANGE = (-5.0, 2.0)
"""Bounds of the log standard deviations of the network, in those of the logged actions: a constant action must not have
an infinite density, and nothing is wider than e² times the log."""


@dataclass(frozen=True)
class Clone:
    """Log-probabilities of the logged actions by a clone, and how well it was fitted."""

    log_prob: Floats
    """(n,): the log-probability, or log-density, of each logged action."""
    held_out_log_likelihood: float
    """The mean of `log_prob` over rows that were not fitted; NaN where nothing was fitted or held out."""


@remembered
def clone(log: Log, clipping: Clipping, seed: int) -> Clone:
    """The behaviour policy, fitted to the log.

    Args:
        log: whose actions are fitted.
        clipping: the bounds to which its actions were clipped.
        seed: of a network's weights and batches.
    """
    if not log.finite:
        return network_clone(log, clipping, seed)
    states = Encoder.of_states(log.data).states(log.data.observations)
    return counted_clone(states, log.data.actions, log.data.n_actions or 1)


def counted_clone(states: Integers, actions: Integers, n_actions: int, smoothing: float = SMOOTHING) -> Clone:
    """(n(s, a) + c/A)/(n(s) + c), with c the smoothing and A the number of actions.

    Its likelihood is that of each row under the counts of all others.
    """
    of_state, of_pair = _times(states, actions, n_actions)
    log_prob = np.log((of_pair + smoothing / n_actions) / (of_state + smoothing))
    left_out = np.log((of_pair - 1 + smoothing / n_actions) / (of_state - 1 + smoothing))
    return Clone(log_prob, float(left_out.mean()))


@remembered
def logged_frequencies(log: Log) -> Floats:
    """(n,): log n(s, a)/n(s) of each logged action on finite states, as it is: no logged action has frequency 0."""
    states = Encoder.of_states(log.data).states(log.data.observations)
    of_state, of_pair = _times(states, log.data.actions, log.data.n_actions or 1)
    return np.log(of_pair / of_state)


def _times(states: Integers, actions: Integers, n_actions: int) -> tuple[Integers, Integers]:
    """(n,) each: how often the state of each row, and its pair, occur."""
    _, state = np.unique(states, return_inverse=True)
    _, pair = np.unique(state * n_actions + actions, return_inverse=True)
    return np.bincount(state)[state], np.bincount(pair)[pair]


def network_clone(log: Log, clipping: Clipping, seed: int) -> Clone:
    """A network that gives log-probabilities of discrete actions, or mean and deviation of continuous ones.

    Training stops early by the likelihood of held-out episodes.
    """
    from ope_vpm.ope.q.training import mlp, train  # which needs torch

    held = log.held_out
    x = torch.from_numpy(StateFeatures.draw(log.data, 0, seed).coordinates(log.data.observations)).float()
    outputs, log_prob, units = _categorical(log) if log.data.discrete_actions else _gaussian(log, clipping)
    network = mlp(x.shape[1], outputs, seed)
    lowest = train(
        network,
        lambda rows: -log_prob(network(x[rows]), rows).mean(),
        log.rows[~held[log.rows]],
        log.rows[held[log.rows]],
        steps=STEPS,
        learning_rate=LEARNING_RATE,
        patience=PATIENCE,
        seed=seed,
    )
    with torch.no_grad():
        fitted = log_prob(network(x), torch.arange(len(x))).double().numpy() - units
    return Clone(fitted, -lowest - float(units[held].mean()) if held.any() else float("nan"))


LogProb = Callable[["torch.Tensor", "torch.Tensor"], "torch.Tensor"]
"""From a network's output and the rows' numbers to the log-probability of their logged actions."""


def _categorical(log: Log) -> tuple[int, LogProb, Floats]:
    """The number of outputs, the log-probability by them, and 0 for the units of discrete actions."""
    chosen = torch.from_numpy(np.array(log.data.actions))

    def log_prob(output: torch.Tensor, rows: torch.Tensor) -> torch.Tensor:
        return torch.log_softmax(output, dim=1).gather(1, chosen[rows, None])[:, 0]

    return log.data.n_actions or 1, log_prob, np.zeros(len(log.data))


def _gaussian(log: Log, clipping: Clipping) -> tuple[int, LogProb, Floats]:
    """The number of outputs, the log-density of standardised actions by them, and the log of their units per row."""
    scale = Standardiser.fit(log.data.actions)
    actions = torch.from_numpy(scale(log.data.actions)).float()
    below, above = clipping.at_bounds(log.data.actions)
    side = torch.from_numpy(1.0 * below - 1.0 * above).float()

    def log_prob(output: torch.Tensor, rows: torch.Tensor) -> torch.Tensor:
        mean, log_std = output.chunk(2, dim=1)
        log_std = log_std.clamp(*LOG_STD_RANGE)
        score = (actions[rows] - mean) / log_std.exp()
        inside: torch.Tensor = -0.5 * score**2 - log_std - LOG_ROOT_TWO_PI
        beyond = torch.special.log_ndtr(side[rows] * score)  # the probability of the tail that was clipped
        return torch.where(side[rows] != 0, beyond, inside).sum(dim=1)

    # a density is in the units of the actions, a probability at a bound has none
    units = np.where(below | above, 0.0, np.log(scale.std)).sum(axis=1)
    return 2 * actions.shape[1], log_prob, units


def asked_behaviour(problem: Problem, own: Behaviour = None) -> Behaviour:
    """The estimator's own choice, checked; where it has none, that of the question."""
    return problem.behaviour if own is None else checked_behaviour(problem.data, problem.policy, own)


def check_behaviour(name: str, problem: Problem, own: Behaviour = None) -> None:
    """Refuse, before any work, a target without densities or a behaviour that cannot be had.

    Args:
        name: the estimator's, for the error.
        problem: the question.
        own: the estimator's option; None: as the question says.
    """
    if not problem.policy.has_log_prob:
        raise ValueError(f"{name} needs a target policy with densities: use vpm or model, which do not")
    asked_behaviour(problem, own)


def behaviour_log_prob(problem: Problem, own: Behaviour = None) -> Clone:
    """Log b of each logged action; a clone is shared by all targets with the same bounds; arguments as above."""
    known = known_log_prob(problem.data, asked_behaviour(problem, own))
    if known is None:  # where the target clips, the log was clipped too
        return clone(problem.log, problem.policy.clipping, problem.seed)
    return Clone(known, float("nan"))
