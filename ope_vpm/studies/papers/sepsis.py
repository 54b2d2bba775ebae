"""Oberst and Sontag (2019): a policy learnt from a log that hides what the physician saw."""

from functools import cache

import numpy as np

from ope_vpm.arrays import Floats, Integers
from ope_vpm.envs import sepsis
from ope_vpm.envs.wild.finite import FiniteModel
from ope_vpm.logged import LoggedDataset
from ope_vpm.policy import TablePolicy
from ope_vpm.studies.papers.paper import answers, number
from ope_vpm.studies.study import Cell, Row, timed

GAMMA = 0.99
"""Policies are learnt with it."""
EPSILON = 0.05
"""The probability with which the physician of Oberst and Sontag takes another action than the best."""
SWEEPS = 500
"""Sweeps of value iteration at 0.99 on episodes of some ten steps: changes are then below 1e-10."""
TRAIN = 50_000
"""Added to a run's seed, for another log: the one that policies are learnt from, or a fresh one."""


def oberst_sontag(cell: Cell, seed: int, path: str | None) -> list[Row]:
    """Episodes of a physician who sees all; the policy that is best in a counted model is asked about."""
    partly = cell["seen"] != "everything"
    size = sepsis.SHOWN if partly else sepsis.STATES
    learnt, fresh = (_physicians_log(cell["episodes"], start + seed, partly) for start in (0, TRAIN))
    counted = counted_model(learnt, size)
    best = greedy(counted.action_values(GAMMA, SWEEPS))
    whole = TablePolicy(best)
    truth = sepsis.model().episode_return(sepsis.informed(whole) if partly else whole, sepsis.LIMIT).value
    data = learnt if cell["log"] == "the one learnt from" else fresh
    predicted, seconds = timed(lambda: counted_model(data, size).episode_return(whole, sepsis.LIMIT).value)
    wis = ("wist", {"behaviour": TablePolicy(counted_policy(data.observations, data.actions, size))})
    methods = {"WIS": wis, "auto": "auto", "wdr": "wdr"}
    rows = answers(data, {"learnt": best}, {"learnt": truth}, methods, gamma=1.0, time_limit="restart")
    return [number("model, unseen pairs die", "learnt", truth, predicted, seconds), *rows]


def _physicians_log(episodes: int, seed: int, partly: bool) -> LoggedDataset:
    log = sepsis.model().simulate([physician()], episodes, sepsis.LIMIT, seed)
    return sepsis.hidden(log) if partly else log


@cache
def physician() -> TablePolicy:
    """The best policy of all states at γ = 0.99, with some probability of every other action."""
    return TablePolicy(softened(best_policy()))


@cache
def best_policy() -> Floats:
    """The best policy of all states at γ = 0.99."""
    return greedy(sepsis.model().action_values(GAMMA, SWEEPS))


def softened(table: Floats) -> Floats:
    """The policy that takes another action than a table's with a small probability."""
    soft: Floats = table * (1 - EPSILON) + (1 - table) * EPSILON / (sepsis.ACTIONS - 1)
    return soft


def greedy(values: Floats) -> Floats:
    """The policy that takes the action of the highest value, the first of several."""
    table: Floats = np.eye(values.shape[1])[values.argmax(axis=1)]
    return table


def counted_model(data: LoggedDataset, states: int) -> FiniteModel:
    """The counted model in which a pair that was never seen is followed by death, as both papers have it."""
    pair = data.observations * sepsis.ACTIONS + data.actions
    outcomes = np.stack([pair, data.next_observations, data.rewards, data.terminated])
    (seen, following, reward, ends), count = np.unique(outcomes, axis=1, return_counts=True)
    total = np.bincount(pair, minlength=states * sepsis.ACTIONS)
    unseen = np.flatnonzero(total == 0)
    columns = [
        np.concatenate([seen.astype(np.int64), unseen]),
        np.concatenate([following.astype(np.int64), unseen // sepsis.ACTIONS]),
        np.concatenate([count / total[seen.astype(np.int64)], np.ones(len(unseen))]),
        np.concatenate([reward, np.full(len(unseen), -1.0)]),
        np.concatenate([ends > 0, np.ones(len(unseen), dtype=bool)]),
    ]
    order = np.argsort(columns[0], kind="stable")
    initial = np.bincount(data.observations[data.starts], minlength=states) / data.n_episodes
    return FiniteModel(states, sepsis.ACTIONS, initial, *(column[order] for column in columns))


def counted_policy(states: Integers, actions: Integers, size: int) -> Floats:
    """How often each action was taken in each state; uniform where nobody was."""
    count = np.bincount(states * sepsis.ACTIONS + actions, minlength=size * sepsis.ACTIONS).reshape(size, -1)
    count[count.sum(axis=1) == 0] = 1
    shares: Floats = count / count.sum(axis=1, keepdims=True)
    return shares
