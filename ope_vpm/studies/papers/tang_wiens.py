"""Tang and Wiens (2021): which of the policies along fitted Q iteration is best, on the sepsis simulator."""

from dataclasses import dataclass
from functools import cache, partial
from typing import Any, Self

import numpy as np
from gymnasium import spaces
from scipy.sparse import csr_array, eye_array
from scipy.sparse.linalg import spsolve

from ope_vpm.arrays import Bools, Floats, Integers, group_sums
from ope_vpm.envs import sepsis
from ope_vpm.envs.wild.finite import FiniteModel
from ope_vpm.logged import LoggedDataset
from ope_vpm.policy import TablePolicy
from ope_vpm.studies.papers.paper import answers, number
from ope_vpm.studies.papers.sepsis import GAMMA, TRAIN, counted_model, counted_policy
from ope_vpm.studies.study import Cell, Row, Rows, timed

SOFTENED = 0.01
"""The probability that their WIS and WDR give to other actions than the target's."""
EPOCHS = range(0, 101, 5)
"""Epochs, of the 101 of fitted Q iteration, those whose policies are asked about on simulated logs."""
EPISODES = 10_000
"""Training and validation episodes of a run."""
FQE_SWEEPS = 50
"""After which their fitted Q evaluation stops."""


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
        for row in found.where(policy=earliest[actions.tobytes()])
    ]


def by_policy(data: LoggedDataset, policies: dict[str, Floats], truths: dict[str, float]) -> Rows:
    """Their four estimators by their definitions, for which an episode that was cut pays nothing more, and ours."""
    ended = _without_cuts(data)
    soft = {name: table * (1 - SOFTENED) + (1 - table) * SOFTENED / 7 for name, table in policies.items()}
    pairs, behaviour = (data.observations, data.actions), counted_policy(data.observations, data.actions, sepsis.STATES)
    wis = ("wist", {"data": ended, "policies": soft, "behaviour": TablePolicy(behaviour)})
    solve, rows = Counted.of(ended), []
    for name, table in policies.items():
        found, seconds = timed(partial(solve.estimates, table, soft[name][pairs] / behaviour[pairs]))
        rows += [number(method, name, truths[name], value, seconds / len(found)) for method, value in found.items()]
    asked = {"WIS": wis, "wdr": "wdr", "auto": "auto"}
    return Rows([*rows, *answers(data, policies, truths, asked, gamma=GAMMA)])


@dataclass(frozen=True, eq=False)
class Counted:
    """A log with its counted model, in which a pair that was never seen pays -1 and ends."""

    data: LoggedDataset
    model: FiniteModel
    going: csr_array
    """(pairs, states): the probability of each next state, where the episode goes on."""
    paid: Floats
    """(pairs,): the mean reward."""
    unseen: Bools
    """(pairs,): whether a pair was never seen."""

    @classmethod
    def of(cls, data: LoggedDataset) -> Self:
        """Count a log."""
        model, pairs = counted_model(data, sepsis.STATES), sepsis.STATES * sepsis.ACTIONS
        kept = csr_array((model.probability * ~model.ends, (model.pair, model.following)), (pairs, sepsis.STATES))
        paid = group_sums(model.pair, model.probability * model.reward, pairs)
        seen = np.bincount(data.observations * sepsis.ACTIONS + data.actions, minlength=pairs) > 0
        return cls(data, model, kept, paid, ~seen)

    def estimates(self, table: Floats, ratio: Floats) -> dict[str, float]:
        """The counted model's value, fitted Q evaluation stopped early, and WDR with the model's Q.

        Args:
            table: (states, actions): a greedy target.
            ratio: (n,): the softened target over the counted behaviour, at each step.
        """
        taken = np.arange(sepsis.STATES) * sepsis.ACTIONS + table.argmax(axis=1)
        value = spsolve((eye_array(sepsis.STATES) - GAMMA * self.going[taken]).tocsc(), self.paid[taken])
        q = (self.paid + GAMMA * (self.going @ value)).reshape(table.shape)
        return {
            "model, unseen pairs die": float(self.model.initial @ value),
            "FQE, 50 sweeps": float(self.model.initial @ self.fitted(taken)),
            "WDR, Q of the model": self.weighted(ratio, value, q),
        }

    def fitted(self, taken: Integers) -> Floats:
        """The values after 50 sweeps from 0; an end pays one step later, and so from the second sweep on."""
        q = np.where(self.unseen, -1.0, 0.0)
        for sweep in range(FQE_SWEEPS):
            q = np.where(self.unseen, -1.0, GAMMA * (self.going @ q[taken]) + self.paid * (sweep > 0))
        return q[taken]

    def weighted(self, ratio: Floats, value: Floats, q: Floats) -> float:
        """E[Σ γ^t (w_{t-1} V(s_t) + w_t (r_t - Q(s_t, a_t)))], w the cumulative ratios over their mean at each time."""
        data = self.data
        state, action, at = data.observations, data.actions, (data.episode, data.time)
        steps = np.ones((data.n_episodes, sepsis.LIMIT))
        steps[at] = ratio
        weight = steps.cumprod(axis=1)
        weight /= weight.mean(axis=0)
        before = np.hstack([np.ones((data.n_episodes, 1)), weight[:, :-1]])
        terms = before[at] * value[state] + weight[at] * (data.rewards - q[state, action])
        return float((GAMMA**data.time * terms).sum() / data.n_episodes)


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
