"""The doctor's hardest question: do the observations belong to the actions beside them?

Two ways of being one row off are told apart from the data alone, for continuous observations:

- *drift*: T + 1 observations an episode were laid against T actions, so that episode k begins k rows early.
  Its first k rows then belong to the episode before, and the jump of a reset lies k rows inside it.
- *shift*: every observation is the one after its action. Then the action beside an observation says nothing
  about the step that follows it, while the next row's action does. Only what the next row's own observation does not
  predict of that action counts: where a controller is a function of the state, its next action repeats the next state
  and so explains the step to it, in a log as it should be. Nor is it a shift where the next row's observation predicts
  the action better than the one before it does.
"""

from __future__ import annotations

import numpy as np

from ope_vpm.arrays import Array, Floats, Integers, chunks, mean_and_deviation, usable
from ope_vpm.logged.dataset import LoggedDataset
from ope_vpm.logged.doctor import Finding, finding

SAMPLE = 5000
"""Rows looked at for a shift."""
WAVES, ROWS_PER_WAVE = 100, 20
"""Random cosines that predict a row's action from an observation, and rows for each of them at least."""
LEAST_FORESEEN = 0.9
"""The share of the actions' variance that the observation beside them predicts, where a controller has little noise.
The state that an action leads to predicts it, too: 0.75 on a CartPole log that is one row off."""


def one_row_off(data: LoggedDataset) -> Finding | None:
    """Observations that belong to other rows' actions, by drift or by shift."""
    if data.finite or not usable(data.observations).all():
        return None
    return _drift(data) or _shift(data)


def _drift(data: LoggedDataset) -> Finding | None:
    """Do resets lie k rows inside episode k rather than at the seams?"""
    number = np.arange(1, data.n_episodes)
    number = number[number < data.lengths[1:]]
    if len(number) < 4:
        return None
    rank = _jump_ranks(data.observations)
    seams = rank[data.starts[number] - 1]
    inside = rank[data.starts[number] + number - 1]
    # On ten clean environments the inner steps rank near 0.5 and the seams, which are resets, above 0.97.
    if np.median(inside) < 0.9 or np.median(inside) <= np.median(seams):
        return None
    message = (
        "episode k seems to begin k rows early: T + 1 observations an episode were laid against T actions "
        "(drop each episode's last observation before joining them)"
    )
    return finding("one-row-off", "error", message, data.starts[number])


def _jump_ranks(states: Array) -> Floats:
    """How large the step from each row to the next is, from 0 (smallest) to 1 (largest)."""
    _, scale = mean_and_deviation(states)
    size = np.empty(len(states) - 1)
    for rows in chunks(len(size), of=[states]):
        steps = np.diff(states[rows.start : rows.stop + 1], axis=0) / np.where(scale > 0, scale, 1.0)
        size[rows] = np.square(steps).sum(axis=1)
    order: Integers = np.argsort(np.argsort(size, kind="stable"), kind="stable")
    ranks: Floats = order / max(len(order) - 1, 1)
    return ranks


def _shift(data: LoggedDataset) -> Finding | None:
    """Does the next row's action explain a step to which the row's own action adds nothing?"""
    inside = np.flatnonzero(data.episode[:-2] == data.episode[2:])[:SAMPLE]
    kinds = len(np.unique(data.actions)) - 1 if data.discrete_actions else data.actions.shape[1]
    width = data.observations.shape[1] * (1 + kinds) + kinds + 1
    if len(inside) < 20 * width or not usable(data.actions).all():
        return None
    actions = _as_vectors(data)
    states, reached = (data.observations[rows].astype(np.float64) for rows in (inside, inside + 1))
    # Clean data measured 0.59 to 0.997 for a row's own action, shifted data 0.001 to 0.03.
    if _explained(states, actions[inside].astype(np.float64), reached - states) > 0.05:
        return None
    following = actions[inside + 1].astype(np.float64)
    if _explained(states, _unforeseen(reached, following), reached - states) < 0.2:
        return None
    if _foreseen(reached, following) > max(_foreseen(states, following), LEAST_FORESEEN):
        return None  # the controller acts by the observation beside its action, as it should
    message = (
        "each observation seems to be the one after its action: the step that follows depends on the next "
        "row's action and not on its own (store the state before the step)"
    )
    return finding("one-row-off", "error", message, inside)


def _explained(states: Floats, actions: Floats, steps: Floats) -> float:
    """The largest share, over coordinates, of what states leave unexplained that actions explain.

    Linear in the actions, with slopes linear in the states; shares are corrected for what noise would explain.
    """
    products = (states[:, :, None] * actions[:, None, :]).reshape(len(states), -1)
    alone = _residual(states, steps)
    together = _residual(np.hstack([states, actions, products]), steps)
    scale = np.maximum(np.square(steps - steps.mean(axis=0)).sum(axis=0), 1e-300)
    share = np.where(alone > 1e-9 * scale, 1 - together / np.maximum(alone, 1e-300), 0.0)
    by_noise = (actions.shape[1] + products.shape[1]) / len(states)
    return float(share.max() - by_noise)


def _unforeseen(states: Floats, actions: Floats) -> Floats:
    """What a linear function of the states does not predict of the actions; 0 where that is rounding."""
    left = _left(states, actions)
    size = np.square(actions - actions.mean(axis=0)).sum(axis=0)
    return np.where(np.square(left).sum(axis=0) > 1e-9 * size, left, 0.0)


def _foreseen(states: Floats, actions: Floats) -> float:
    """The share of the actions' variance that smooth functions of the states predict."""
    mean, deviation = mean_and_deviation(states)
    z = (states - mean) / np.where(deviation > 0, deviation, 1.0)
    rng, number = np.random.default_rng(0), min(WAVES, len(z) // ROWS_PER_WAVE)
    waves = np.cos(z @ rng.standard_normal((z.shape[1], number)) + rng.uniform(0, 2 * np.pi, number))
    size = np.square(actions - actions.mean(axis=0)).sum(axis=0)
    left = _residual(np.hstack([z, waves]), actions) / np.where(size > 0, size, 1.0)
    return 1 - float(left.mean())


def _residual(features: Floats, targets: Floats) -> Floats:
    residual: Floats = np.square(_left(features, targets)).sum(axis=0)
    return residual


def _left(features: Floats, targets: Floats) -> Floats:
    """What a linear regression leaves of the targets."""
    design = np.hstack([np.ones((len(features), 1)), features])
    left: Floats = targets - design @ np.linalg.lstsq(design, targets, rcond=None)[0]
    return left


def _as_vectors(data: LoggedDataset) -> Floats:
    """Actions as columns of numbers; discrete ones as dummies of those that occur, all but the first."""
    if not data.discrete_actions:
        return data.actions
    seen, number = np.unique(data.actions, return_inverse=True)
    return np.eye(len(seen))[number][:, 1:]
