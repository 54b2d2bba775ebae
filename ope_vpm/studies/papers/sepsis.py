"""The papers on the sepsis simulator: logs, policies learnt from them, and estimates by the papers' definitions."""

from functools import cache, partial
from typing import Any

import numpy as np
from gymnasium import spaces

from ope_vpm.arrays import Floats, Integers
from ope_vpm.envs import sepsis
from ope_vpm.envs.wild.finite import FiniteModel
from ope_vpm.logged import LoggedDataset
from ope_vpm.policy import TablePolicy
from ope_vpm.studies.papers.paper import answers, number
from ope_vpm.studies.study import Cell, Row, select, timed

GAMMA = 0.99
"""Tang and Wiens discount by it; Oberst and Sontag only learn policies with it."""
SOFTENED = 0.01
"""The probability that Tang and Wiens's WIS gives to other actions than the target's."""
EPSILON = 0.05
"""The probability with which the physician of Oberst and Sontag takes another action than the best."""
SWEEPS = 500
"""Of value iteration at 0.99 on episodes of some ten steps: changes are then below 1e-10."""
EPOCHS = range(0, 101, 5)
"""Of the 101 epochs of fitted Q iteration, those whose policies are asked about on simulated logs."""
EPISODES = 10_000
"""Training and validation episodes of a run of Tang and Wiens."""
TRAIN = 50_000
"""Added to a run's seed, for the log on which its policies are learnt."""


def tang_wiens(cell: Cell, seed: int, path: str | None) -> list[Row]:
    """Their log (run 9, seed 0 only) or a simulated one, with policies of fitted Q iteration and exact truths."""
    if cell["log"] == "simulated":
        data, which = _uniform_log(seed), fitted_policies(_uniform_log(seed + TRAIN))
    elif seed == 0 and path is not None:
        with np.load(path) as stored:
            data = _stored_log(stored)
            which = {f"epoch {k}": stored["policies"][row][: sepsis.STATES] for k, row in enumerate(stored["which"])}
    else:
        return []
    earliest = {actions.tobytes(): epoch for epoch, actions in reversed(which.items())}
    policies = {epoch: np.eye(sepsis.ACTIONS)[which[epoch]] for epoch in earliest.values()}
    truths = {epoch: _discounted(_true_model(), table) for epoch, table in policies.items()}
    found = by_policy(data, policies, truths)
    return [
        row | {"policy": epoch, "seconds": row["seconds"] * (row["policy"] == epoch)}
        for epoch, actions in which.items()
        for row in select(found, policy=earliest[actions.tobytes()])
    ]


def by_policy(data: LoggedDataset, policies: dict[str, Floats], truths: dict[str, float]) -> list[Row]:
    """Theirs, for which an episode that was cut pays nothing more, and ours."""
    ended = _without_cuts(data)
    soft = {name: table * (1 - SOFTENED) + (1 - table) * SOFTENED / 7 for name, table in policies.items()}
    behaviour = TablePolicy(counted_policy(data.observations, data.actions, sepsis.STATES))
    wis = ("wist", {"data": ended, "policies": soft, "behaviour": behaviour})
    counted, rows = counted_model(ended, sepsis.STATES), []
    for name, table in policies.items():
        value, seconds = timed(partial(counted.value, TablePolicy(table), GAMMA))
        rows.append(number("model, unseen pairs die", name, truths[name], value.value / (1 - GAMMA), seconds))
    return rows + answers(data, policies, truths, {"WIS": wis, "WDR": "wdr", "auto": "auto"}, gamma=GAMMA)


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
    table = greedy(sepsis.model().action_values(GAMMA, SWEEPS))
    return TablePolicy(table * (1 - EPSILON) + (1 - table) * EPSILON / (sepsis.ACTIONS - 1))


def greedy(values: Floats) -> Floats:
    """The policy that takes the action of the highest value, the first of several."""
    table: Floats = np.eye(values.shape[1])[values.argmax(axis=1)]
    return table


def fitted_policies(data: LoggedDataset) -> dict[str, Integers]:
    """The greedy actions after epochs of tabular fitted Q iteration, where pairs that were never seen are worth -1.

    Rewards come with the step after an end, so that epoch k knows those of k - 1 sweeps; until then no seen action is
    better than another.
    """
    counted = counted_model(_without_cuts(data), sepsis.STATES)
    seen = np.bincount(data.observations * sepsis.ACTIONS + data.actions, minlength=sepsis.STATES * sepsis.ACTIONS) > 0
    start = np.where(seen, 0.0, -1.0).reshape(sepsis.STATES, -1)
    values = {epoch: counted.action_values(GAMMA, epoch - 1) if epoch > 1 else start for epoch in EPOCHS}
    return {f"epoch {epoch}": table.argmax(axis=1) for epoch, table in values.items()}


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


def _discounted(model: FiniteModel, table: Floats) -> float:
    """Their return: the pay of an end comes with the step after it."""
    return GAMMA * model.value(TablePolicy(table), GAMMA).value / (1 - GAMMA)


@cache
def _true_model() -> FiniteModel:
    return sepsis.model(mended=True, uniform=True)


def _uniform_log(seed: int) -> LoggedDataset:
    """Episodes of uniformly random treatment, in their way of paying, with the last state of a cut one unknown."""
    table = TablePolicy(np.full((sepsis.STATES, sepsis.ACTIONS), 1 / sepsis.ACTIONS))
    data = _true_model().simulate([table], EPISODES, sepsis.LIMIT, seed)
    return _log(data, GAMMA * data.rewards, data.terminated, ~data.truncated)


def _stored_log(stored: Any) -> LoggedDataset:
    columns = ("observations", "actions", "rewards", "next_observations", "terminated", "truncated", "episode")
    given = {name: stored[name] for name in (*columns, "next_known")}
    given |= {name: given[name].astype(np.int64) for name in ("observations", "actions", "next_observations")}
    return LoggedDataset.from_arrays(**given | {"rewards": given["rewards"].astype(np.float64)}, **_spaces())


def _without_cuts(data: LoggedDataset) -> LoggedDataset:
    """A log in which episodes that were cut end there with nothing more to come."""
    return _log(data, data.rewards, data.terminated | data.truncated, np.ones(len(data), dtype=bool))


def _log(data: LoggedDataset, rewards: Floats, terminated: Any, next_known: Any) -> LoggedDataset:
    return LoggedDataset.from_arrays(
        data.observations,
        data.actions,
        rewards,
        data.next_observations,
        terminated,
        data.truncated & ~terminated,
        next_known=next_known,
        **_spaces(),
    )


def _spaces() -> dict[str, Any]:
    return {"observation_space": spaces.Discrete(sepsis.STATES), "action_space": spaces.Discrete(sepsis.ACTIONS)}
