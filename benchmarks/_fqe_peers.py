"""Fitted Q evaluation by networks, as it is usually done, beside ours: error and CPU seconds on 10⁵ rows.

The task is the linear-Gaussian MDP, whose values are known: for a Gaussian policy in closed form, for a greedy d3rlpy
policy by simulation. The networks are d3rlpy's FQE with its defaults, and a plain one in torch (two layers of 256,
30 000 steps of Adam), which is what a user would write.
"""

from __future__ import annotations

import logging
import time
from collections.abc import Callable
from typing import Any

import numpy as np
import torch

import ope_vpm as ov
from benchmarks.against_d3rlpy import GAMMA, simulated, trained
from ope_vpm.envs.linear_gaussian import BEHAVIOUR, TARGET, LinearGaussian
from ope_vpm.policy import TargetPolicy

EPISODES, LENGTH, SEED = 1000, 100, 61_000
"""10⁵ rows, with a seed that no other benchmark uses."""
STEPS, BATCH, WIDTH, RATE, AVERAGE = 30_000, 256, 256, 1e-3, 0.005
"""Training of the plain network: enough for its value to have settled, with the usual settings."""


def against_d3rlpy() -> dict[str, Any]:
    """d3rlpy's FQE on its own greedy policy, and what ours take in its units."""
    logging.disable(logging.INFO)
    env = LinearGaussian()
    policy = ov.as_policy(trained(env), deterministic=True)
    estimators: dict[str, tuple[str, dict[str, Any]]] = {
        "d3rlpy": ("d3rlpy_fqe", {}),
        "linear": ("fqe", {"solver": "linear"}),
        "networks": ("fqe", {}),
        "model": ("model", {}),
    }
    return _compared(
        env, simulated(env, policy), "d3rlpy", {name: _ours(policy, *each) for name, each in estimators.items()}
    )


def against_torch() -> dict[str, Any]:
    """A plain network on a stochastic target, and what vpm takes in its units."""
    env, policy = LinearGaussian(), TARGET.policy()
    found = {"torch": lambda data: (plain_fqe(data, policy), None), "vpm": _ours(policy, "vpm", {})}
    return _compared(env, env.value(TARGET, GAMMA), "torch", found)


Found = Callable[[ov.LoggedDataset], tuple[float, float | None]]


def _ours(policy: TargetPolicy, name: str, options: dict[str, Any]) -> Found:
    def found(data: ov.LoggedDataset) -> tuple[float, float | None]:
        value = ov.evaluate(data, policy, name, gamma=GAMMA, **options)
        return value.value, value.standard_error

    return found


def _compared(env: LinearGaussian, truth: float, unit: str, estimators: dict[str, Found]) -> dict[str, Any]:
    """Errors and CPU seconds, and how many times faster than one of them the others are."""
    data, few = env.dataset(EPISODES, LENGTH, BEHAVIOUR, SEED), env.dataset(20, 20, BEHAVIOUR, SEED)
    measured: dict[str, Any] = {"truth": truth, "rows": len(data)}
    for name, estimator in estimators.items():
        if name != unit:
            estimator(few)  # loads what is lazy
        start = time.process_time()
        value, error = estimator(data)
        seconds = time.process_time() - start
        measured[name] = {"seconds": round(seconds, 2), "error": value - truth, "standard_error": error}
    for name in estimators:
        measured[name]["times_faster"] = round(measured[unit]["seconds"] / measured[name]["seconds"], 1)
    return measured


def plain_fqe(data: ov.LoggedDataset, policy: TargetPolicy) -> float:
    """Q by regression on r + γQ̄(s', a'), a' drawn from the target; the value at the logged initial states."""
    torch.manual_seed(0)
    rng = np.random.default_rng(0)
    network, slow = (_network(data) for _ in range(2))
    slow.load_state_dict(network.state_dict())
    optimiser = torch.optim.Adam(network.parameters(), lr=RATE)
    rows = np.flatnonzero(data.next_known | data.terminated)
    for _ in range(STEPS):
        some = rng.choice(rows, BATCH)
        after = data.next_observations[some]
        with torch.no_grad():
            following = slow(_pairs(after, policy.sample(after, rng)))[:, 0]
            goal = _tensor(data.rewards[some]) + GAMMA * _tensor(~data.terminated[some]) * following
        loss = torch.mean((network(_pairs(data.observations[some], data.actions[some]))[:, 0] - goal) ** 2)
        optimiser.zero_grad()
        loss.backward()
        optimiser.step()
        with torch.no_grad():
            for average, weight in zip(slow.parameters(), network.parameters(), strict=True):
                average.lerp_(weight, AVERAGE)
    first = data.initial_observations
    with torch.no_grad():
        values = [network(_pairs(first, policy.sample(first, rng))).mean().item() for _ in range(100)]
    return (1 - GAMMA) * float(np.mean(values))


def _network(data: ov.LoggedDataset) -> torch.nn.Sequential:
    size = data.observations.shape[1] + data.actions.shape[1]
    layers = [torch.nn.Linear(size, WIDTH), torch.nn.ReLU(), torch.nn.Linear(WIDTH, WIDTH), torch.nn.ReLU()]
    return torch.nn.Sequential(*layers, torch.nn.Linear(WIDTH, 1))


def _pairs(states: Any, actions: Any) -> torch.Tensor:
    return _tensor(np.hstack([states, actions]))


def _tensor(values: Any) -> torch.Tensor:
    return torch.as_tensor(np.asarray(values), dtype=torch.float32)
