"""scope-rl's estimators on one logged file: run by `benchmarks.peers` with the Python of scope-rl's own environment.

`python _scope_rl.py LOG.npz`: reads the arrays that `benchmarks._peers_policies.padded` made, prints a JSON object with
the value and the CPU seconds of each estimator. It imports nothing of ope_vpm, which is not installed there.
"""

from __future__ import annotations

import json
import os
import sys
import tempfile
import time
from dataclasses import dataclass
from types import SimpleNamespace
from typing import Any

import numpy as np
import torch
from scipy.spatial import cKDTree
from scope_rl.ope import CreateOPEInput, OffPolicyEvaluation
from scope_rl.ope import discrete as estimators
from scope_rl.policy import BaseHead

BASIC = ("SelfNormalizedTIS", "SelfNormalizedPDIS")
"""They need propensities alone."""
FITTED = (
    "DirectMethod",
    "SelfNormalizedDR",
    "StateMarginalSNIS",
    "StateActionMarginalSNIS",
    "DoubleReinforcementLearning",
)
"""They need a Q function, ratios of states or pairs, or both. All by scope-rl's defaults: d3rlpy's FQE (one layer of
100, learning rate 1e-4), its augmented Lagrangian (`w_function_method="dice"`), 10 000 steps of each."""


@dataclass
class TableHead(BaseHead):  # type: ignore[misc]
    """A table of probabilities as a policy of scope-rl: a state is known by its features."""

    tree: cKDTree
    table: Any
    random: Any
    name: str = "target"
    action_type: str = "discrete"

    def calc_action_choice_probability(self, x: Any) -> Any:
        """The probabilities of all actions, one row per state."""
        return self.table[self.tree.query(np.asarray(x, dtype=np.float64))[1]]

    def calc_pscore_given_action(self, x: Any, action: Any) -> Any:
        """The probability of one action per state."""
        return self.calc_action_choice_probability(x)[np.arange(len(x)), np.asarray(action, dtype=int).ravel()]

    def sample_action(self, x: Any) -> Any:
        """One action per state."""
        cumulative = self.calc_action_choice_probability(x).cumsum(axis=1)
        return (self.random.random((len(x), 1)) > cumulative[:, :-1]).sum(axis=1)

    def predict(self, x: Any) -> Any:
        """A drawn action: d3rlpy's FQE follows one action a state, which would be the greedy one of a d3rlpy policy."""
        return self.sample_action(x)

    def sample_action_and_output_pscore(self, x: Any) -> Any:
        """One action per state and its probability."""
        action = self.sample_action(x)
        return action, self.calc_pscore_given_action(x, action)

    @property
    def impl(self) -> Any:
        """What d3rlpy's FQE asks for next actions."""
        return SimpleNamespace(predict_best_action=lambda x: torch.as_tensor(self.sample_action(x.numpy())))

    @property
    def observation_scaler(self) -> None:
        """States are given as they are."""
        return None

    @property
    def action_size(self) -> int:
        """The number of actions."""
        return int(self.table.shape[1])


def main() -> None:
    file = np.load(sys.argv[1])
    os.chdir(tempfile.mkdtemp())  # d3rlpy writes its training logs to the current folder
    seed = int(file["seed"])
    np.random.seed(seed)  # noqa: NPY002
    torch.manual_seed(seed)
    torch.set_num_threads(1)
    found = {}
    for names, fitted in ((BASIC, False), (FITTED, True)):
        start = time.process_time()
        try:
            values = estimate(file, names, fitted)
        except Exception as error:
            values = dict.fromkeys(names, f"{type(error).__name__}: {error}"[:200])
        seconds = time.process_time() - start
        found |= {name: {"value": value, "seconds": seconds} for name, value in values.items()}
    print("\n" + json.dumps(found))


def estimate(file: Any, names: tuple[str, ...], fitted: bool) -> dict[str, float]:
    """The values of some estimators, which share the functions that are fitted for them."""
    head = TableHead(cKDTree(file["features"]), file["table"], np.random.default_rng(int(file["seed"])))
    log = {key: file[key] for key in ("state", "action", "reward", "pscore", "done", "terminal")}
    rows, steps = len(log["state"]), int(file["steps"])
    log |= {"n_trajectories": rows // steps, "step_per_trajectory": steps, "size": rows, "action_type": "discrete"}
    log |= {"n_actions": head.action_size, "action_dim": None, "state_dim": log["state"].shape[1]}
    log |= {"behavior_policy": "logged", "dataset_id": 0}
    inputs = CreateOPEInput(gamma=float(file["gamma"])).obtain_whole_inputs(
        log, [head], require_value_prediction=fitted, require_weight_prediction=fitted, random_state=int(file["seed"])
    )
    chosen = [getattr(estimators, name)() for name in names]
    # rewards after the end are 0 in the log; with the default, scope-rl would drop the reward of the last step as well
    evaluation = OffPolicyEvaluation(log, chosen, disable_reward_after_done=False)
    answer = evaluation.estimate_policy_value(inputs)["target"]
    return {name: float(answer[each.estimator_name]) for name, each in zip(names, chosen, strict=True)}


if __name__ == "__main__":
    main()
