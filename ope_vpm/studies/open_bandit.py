"""Real data: the click rate of one policy of a fashion shop, from the log of another (the Open Bandit data)."""

from functools import cache, partial

import numpy as np

from ope_vpm.arrays import Floats
from ope_vpm.baselines.doubly_robust import DoublyRobust
from ope_vpm.baselines.naive import Naive
from ope_vpm.baselines.onestep import OneStep
from ope_vpm.logged import LoggedDataset, load_dataset
from ope_vpm.ope.auto.estimator import Auto
from ope_vpm.ope.estimator import ProblemEstimator
from ope_vpm.ope.problem import Problem
from ope_vpm.ope.vpm.estimator import VPMEstimator
from ope_vpm.policy import TablePolicy
from ope_vpm.studies import obp_estimators
from ope_vpm.studies.obp_estimators import POSITIONS, Feedback
from ope_vpm.studies.study import Cell, Row, answer, timed

DIRECTIONS = {
    "random to Thompson, start": ("random", "bts"),
    "random to Thompson, week": ("random", "bts"),
    "Thompson to random": ("bts", "random"),
}
"""The policy that logged and the one that is asked for. Thompson sampling learnt while it was logged: as a target it is
either what it was at the start, by its published prior, or what it did over the week, by how often items were shown."""
METHODS: dict[str, ProblemEstimator] = {
    "vpm": VPMEstimator(),
    "auto": Auto(),
    "dr": DoublyRobust(),
    "onestep, cloned": OneStep(),
    "onestep, known": OneStep(behaviour="logged"),
    "logged mean": Naive(),
}
"""Ours, and the logged mean as the control; the context is the position alone."""
NAMES = (*METHODS, *obp_estimators.NAMES)
"""In the order of the table and of the figure."""


def campaign(cell: Cell, seed: int, path: str | None) -> list[Row]:
    """Run all methods on the log itself, which is seed 0, or on rows drawn from it with replacement, other seeds."""
    if (cell["log"] == "itself") != (seed == 0):
        return []
    logger, target = DIRECTIONS[cell["direction"]]
    data, other = log(logger, cell["campaign"]), log(target, cell["campaign"])
    rows = resampled(len(data), seed)
    policy = target_table(cell["direction"], cell["campaign"], other)
    positions, rate = only_positions(data.select(rows)), float(other.rewards.mean())
    question = partial(Problem.pose, positions, TablePolicy(policy))
    lines = [_row(name, answer(method, question()), rate) for name, method in METHODS.items()]
    items = obp_estimators.item_features(obp_estimators.folder(logger, cell["campaign"]))
    found, seconds = timed(lambda: obp_estimators.estimates(feedback(data.select(rows)), policy, items))
    for name in obp_estimators.NAMES:
        value, (low, high) = found.get(name, (np.nan, (np.nan, np.nan)))
        answered = {"value": value, "low": low, "high": high, "verdict": "none", "seconds": seconds / len(found)}
        lines.append(_row(name, answered, rate))
    return lines


@cache
def log(policy: str, campaign: str) -> LoggedDataset:
    """One of the six logs, with position and user as context."""
    return load_dataset(obp_estimators.folder(policy, campaign))


def only_positions(data: LoggedDataset) -> LoggedDataset:
    """Return the log with the position alone as its state: neither policy looks at the user."""
    return LoggedDataset.from_arrays(
        data.observations[:, 0],
        data.actions,
        data.rewards,
        terminated=data.terminated,
        behaviour_log_prob=data.behaviour_log_prob,
        action_space=data.action_space,
    )


def resampled(count: int, seed: int) -> np.ndarray[tuple[int], np.dtype[np.int64]]:
    """All rows for seed 0, otherwise as many rows drawn with replacement, as in obp's own benchmark."""
    return np.arange(count) if seed == 0 else np.random.default_rng(seed).integers(count, size=count)


def target_table(direction: str, campaign: str, other: LoggedDataset) -> Floats:
    """The probability of each item at each position under the policy that is asked for; (positions, items).

    Args:
        direction: one of `DIRECTIONS`.
        campaign: one of `CAMPAIGNS`.
        other: the target's own log, of which only positions and items are used.
    """
    items = other.n_actions or 0
    if direction == "Thompson to random":
        return np.full((POSITIONS, items), 1 / items)
    if direction == "random to Thompson, start":
        return obp_estimators.thompson_at_start(campaign, items)
    shown = np.zeros((POSITIONS, items))
    np.add.at(shown, (other.observations[:, 0], other.actions), 1)
    return shown / shown.sum(axis=1, keepdims=True)


def feedback(data: LoggedDataset) -> Feedback:
    """A log as obp takes it."""
    assert data.behaviour_log_prob is not None  # the format always reads propensities
    return Feedback(
        context=obp_estimators.one_hot(data.observations[:, 1:]),
        position=data.observations[:, 0],
        action=data.actions,
        reward=data.rewards,
        pscore=np.exp(data.behaviour_log_prob),
    )


def _row(name: str, found: Row, rate: float) -> Row:
    """An answer beside the rate of the policy's own log."""
    return {"method": name, "policy": "", "truth": rate, **found, "seconds": round(found["seconds"], 4)}
