"""Wild tasks with finite states: softmax tables of value iteration, simulated logs, exact truths."""

from dataclasses import dataclass
from functools import cache, cached_property
from typing import Any

import numpy as np
from scipy.special import softmax

from ope_vpm.arrays import Floats
from ope_vpm.envs.truth import GAMMA, Value
from ope_vpm.envs.wild.finite import FiniteModel, from_gymnasium, icu_parameters, icu_sepsis
from ope_vpm.envs.wild.tasks import NEAR, Per, WildTask, check_gamma
from ope_vpm.logged import LoggedDataset
from ope_vpm.policy import TablePolicy, TargetPolicy


@dataclass(frozen=True, kw_only=True)
class FiniteTask(WildTask):
    """A task whose outcomes are known exactly; its policies are softmax tables of value iteration."""

    sweeps: int
    """Sweeps of value iteration behind the target."""
    older_sweeps: int | None
    """Sweeps behind the older policy; None for the clinicians' policy of ICU-Sepsis."""
    temperature: float
    """The temperature of the softmax over Q, in units of reward."""
    random_share: float = 0.0
    """The share of uniformly random actions in the target."""
    discount: float = GAMMA
    """The discount of value iteration."""

    @cached_property
    def model(self) -> FiniteModel:
        """The outcomes."""
        return _model(self.id)

    @property
    def target(self) -> TablePolicy:
        """The policy to evaluate, a table of probabilities."""
        return self.softmax_of(self.sweeps)

    def near(self) -> TablePolicy:
        """Twice the temperature and the share of random actions."""
        return self.softmax_of(self.sweeps, NEAR)

    def older(self) -> TablePolicy:
        """The policy after fewer sweeps, or the clinicians'."""
        return clinicians() if self.older_sweeps is None else self.softmax_of(self.older_sweeps)

    def poor(self) -> TablePolicy:
        """The uniform policy."""
        return TablePolicy(np.full((self.model.states, self.model.actions), 1 / self.model.actions))

    def softmax_of(self, sweeps: int, factor: float = 1.0) -> TablePolicy:
        """The policy after some sweeps, with a multiple of the target's temperature and random share."""
        return _softmax_of(self, sweeps, factor)

    def run(self, policies: list[TargetPolicy], episodes: int, limit: int, seed: int) -> LoggedDataset:
        """Simulate by drawing from the known outcomes: gymnasium's own environments draw from the same table."""
        tables = [TablePolicy(policy.probabilities(np.arange(self.model.states))) for policy in policies]
        return self.model.simulate(tables, episodes, limit, seed)

    def content(self) -> bytes:
        """The bytes of the tables of the target and the older policy."""
        return self.target.table.tobytes() + self.older().table.tobytes()

    def truth(self, gamma: float, per: Per = "step", *, cut: bool = True) -> Value:
        """The exact value of the target."""
        if gamma != 1:
            check_gamma(gamma, per)
        return _solved(self, gamma, per, self.steps(cut))


@cache
def _model(environment: str) -> FiniteModel:
    return icu_sepsis(_icu()) if environment.startswith("Sepsis/") else from_gymnasium(environment)


@cache
def _icu() -> Any:
    return icu_parameters()


@cache
def clinicians() -> TablePolicy:
    """The clinicians' policy; terminal states, where nobody acts, have a uniform row."""
    table = np.asarray(_icu().expert_policy, dtype=np.float64)
    return TablePolicy(np.where(table.sum(axis=1, keepdims=True) > 0, table, 1 / table.shape[1]))


def patient_features() -> Floats:
    """(states, 47): the centre of each state's patients in ICU-Sepsis, as the package stores them."""
    return np.asarray(_icu().state_cluster_centers, dtype=np.float64)


@cache
def _softmax_of(task: FiniteTask, sweeps: int, factor: float) -> TablePolicy:
    values = task.model.action_values(task.discount, sweeps)
    share = factor * task.random_share
    return TablePolicy((1 - share) * softmax(values / (factor * task.temperature), axis=1) + share / values.shape[1])


@cache
def _solved(task: FiniteTask, gamma: float, per: Per, limit: int) -> Value:
    if gamma < 1:
        return task.model.value(task.target, gamma)
    return (task.model.per_step if per == "step" else task.model.episode_return)(task.target, limit)
