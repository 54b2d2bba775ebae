"""RLlib: an offline evaluation runner that values the policy in training by a log, and logs as RLlib reads them."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any, ClassVar

import numpy as np
from gymnasium.spaces import Box, Discrete
from scipy.special import softmax

from ope_vpm.arrays import Array, Floats
from ope_vpm.logged import LoggedDataset, load_dataset
from ope_vpm.optional import library
from ope_vpm.outside import write_whole
from ope_vpm.plugins.valuation import Choices, Valuation, as_numbers
from ope_vpm.policy import TargetPolicy, as_policy

Base: Any = library("ray.rllib.offline.offline_evaluation_runner", "rllib").OfflineEvaluationRunner


class OPERunner(Base):  # type: ignore[misc]  # the library is imported when this module is
    """The value of the policy in training, for `config.evaluation(offline_eval_runner_class=OPERunner)`.

    It reports `ope/value`, `ope/lower`, `ope/upper` and `ope/verdict` (0 reliable, 1 caution, 2 unreliable) below
    `evaluation/offline_eval_runners`, by the files that `config.offline_data` names and the discount of the
    configuration; `OPERunner.by` takes others. The policy is the stochastic one, with discrete actions.
    """

    log: ClassVar[Any] = None
    choices: ClassVar[Choices] = Choices()
    gamma: ClassVar[float | None] = None
    _valuation: Valuation | None = None

    @classmethod
    def by(cls, log: Any = None, *, gamma: float | None = None, **choices: Any) -> type[OPERunner]:
        """A runner with another log, or other choices.

        Args:
            log: the log, or where it is; what `config.offline_data` reads if not given.
            gamma: the discount; the configuration's if not given.
            choices: `estimator`, `seed`, `on_end`, `time_limit`, `ignore`, `behaviour`, as in `ov.evaluate`.
        """
        made = Choices(**choices)
        made.check(gamma)  # a misspelt name is answered before training begins
        return type(cls.__name__, (cls,), {"log": log, "choices": made, "gamma": gamma})

    def run(self, **_: Any) -> Any:
        """Value the present policy, and return the metrics."""
        if self._valuation is None:
            log = load_dataset(self.config.input_ if self.log is None else self.log)
            gamma = float(self.config.gamma) if self.gamma is None else self.gamma
            self._valuation = Valuation.of(log, replace(self.choices, gamma=gamma))
        for name, number in as_numbers(*self._valuation.answered(self._policy())).items():
            self.metrics.log_value(("ope", name), number, window=1)
        return self.metrics.reduce()

    def get_loss_for_module_fn(self) -> Callable[..., None]:
        """No loss: not every algorithm has one that its parent finds."""
        return lambda *_, **__: None

    def _policy(self) -> TargetPolicy:
        """The present module as a function from observations to probabilities."""
        torch, module = library("torch", "rllib"), self.module["default_policy"]
        if not isinstance(module.action_space, Discrete) or not isinstance(module.observation_space, Box):
            spaces = f"{module.observation_space} and {module.action_space}"
            raise TypeError(f"OPERunner takes Box observations and Discrete actions: got {spaces}")

        def probabilities(states: Array) -> Floats:
            with torch.no_grad():
                seen = torch.as_tensor(np.asarray(states, dtype=np.float32))
                logits = module.forward_inference({"obs": seen})["action_dist_inputs"]
            return np.asarray(softmax(logits.double().numpy(), axis=1))

        return as_policy(probabilities)


def to_rllib(data: LoggedDataset, path: str | Path) -> None:
    """Write a log as the Parquet table that `config.offline_data(input_=[path])` reads, and `ov.load_dataset` too."""
    arrow, parquet = library("pyarrow", "rllib"), library("pyarrow.parquet", "rllib")
    columns = {"obs": data.observations, "new_obs": data.next_observations, "actions": data.actions}
    columns |= {"rewards": data.rewards, "terminateds": data.terminated, "truncateds": data.truncated}
    rows = {name: list(column) if column.ndim > 1 else column for name, column in columns.items()}
    table = arrow.table(rows | {"eps_id": data.episode.astype(str)})
    write_whole(path, lambda temporary: parquet.write_table(table, temporary))
