"""CVaR of the return beside scope-rl's estimators, on its own `BasicGym`: `python -m benchmarks risk`.

scope-rl 0.2.1 and what it needs must be installed in an environment of their own, with ope-vpm beside it: see note 024.
"""

from __future__ import annotations

import argparse
from collections.abc import Callable
from typing import Any

import numpy as np

import ope_vpm as ov
from ope_vpm.arrays import Array, Floats
from ope_vpm.logged import LoggedDataset
from ope_vpm.ope.questions.distribution import Sample

STEPS, EPISODES, ACTIONS, WORST = 10, 500, 5, 0.1
Softmax = Callable[[Floats], Floats]


def softmax(weights: Floats) -> Softmax:
    """A policy with linear logits."""

    def probabilities(states: Floats) -> Floats:
        logits = states @ weights.T
        scaled = np.exp(logits - logits.max(axis=1, keepdims=True))
        return scaled / scaled.sum(axis=1, keepdims=True)

    return probabilities


def play(env: Any, policy: Softmax, episodes: int, seed: int) -> tuple[Floats, Array, Floats, Floats]:
    """States, actions, rewards and the probabilities of the actions of whole episodes."""
    rng, rows = np.random.default_rng(seed), []
    for _ in range(episodes):
        state = env.reset()[0]
        for _ in range(STEPS):
            probabilities = policy(state[None])[0]
            action = rng.choice(ACTIONS, p=probabilities)
            after, reward, *_ = env.step(action)
            rows.append((state, action, reward, probabilities[action]))
            state = after
    states, actions, rewards, likely = (np.array(each) for each in zip(*rows, strict=True))
    return states, actions, rewards.astype(np.float64), likely


def theirs(log: tuple[Floats, Array, Floats, Floats], target: Softmax, kind: Any) -> tuple[float, float]:
    """Mean and CVaR by one of scope-rl's estimators, with the true propensities."""
    states, actions, rewards, likely = log
    returns = rewards.reshape(-1, STEPS).sum(axis=1)
    given = {"step_per_trajectory": STEPS, "action": actions, "reward": rewards, "pscore": likely}
    given |= {"evaluation_policy_action_dist": target(states), "gamma": 1.0}
    given |= {"reward_scale": np.linspace(returns.min(), returns.max(), 200)}
    cvar = kind().estimate_conditional_value_at_risk(**given, alphas=np.array([WORST]))
    return float(kind().estimate_mean(**given)), float(np.squeeze(cvar))


def ours(log: tuple[Floats, Array, Floats, Floats], target: Softmax, known: bool) -> tuple[float, float, float, float]:
    """Mean, CVaR and its interval; the step is a coordinate of the state, for the task ends after ten of them."""
    states, actions, rewards, likely = log
    step = np.arange(len(states)) % STEPS
    seen = np.column_stack([states, step])
    ended, logged = step == STEPS - 1, np.log(likely) if known else None
    data = LoggedDataset.from_arrays(
        seen, actions, rewards, np.roll(seen, -1, axis=0), terminated=ended, behaviour_log_prob=logged
    )
    policy = ov.as_policy(lambda rows: target(rows[:, :-1]), n_actions=ACTIONS)
    found = ov.evaluate(data, policy).distribution()
    return found.mean, found.cvar(WORST), *found.interval(lambda each: each.cvar(WORST))


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--runs", type=int, default=8)
    runs = parser.parse_args().runs
    from basicgym import BasicEnv
    from scope_rl.ope.discrete import CumulativeDistributionSNTIS, CumulativeDistributionTIS

    env = BasicEnv(action_type="discrete", n_actions=ACTIONS, step_per_episode=STEPS, random_state=12345)
    rng = np.random.default_rng(0)
    weights = rng.normal(size=(ACTIONS, 5))
    behaviour, target = softmax(weights), softmax(weights + 0.7 * rng.normal(size=(ACTIONS, 5)))
    truth = Sample.of(play(env, target, 3000, 1)[2].reshape(-1, STEPS).sum(axis=1))
    wanted, found = (truth.mean, truth.cvar(WORST)), dict[str, list[Any]]()
    for seed in range(100, 100 + runs):
        log = play(env, behaviour, EPISODES, seed)
        for name, kind in (("SNTIS", CumulativeDistributionSNTIS), ("TIS", CumulativeDistributionTIS)):
            found.setdefault(f"scope-rl {name}", []).append(theirs(log, target, kind))
        for name, known in (("logged propensities", True), ("cloned", False)):
            found.setdefault(f"ours, {name}", []).append(ours(log, target, known))
    for name, rows in found.items():
        answers = np.array(rows)
        errors = np.sqrt(np.mean((answers[:, :2] - wanted) ** 2, axis=0))
        held = np.mean((answers[:, 2] <= wanted[1]) & (wanted[1] <= answers[:, 3])) if answers.shape[1] == 4 else np.nan
        print(f"{name}: RMSE of the mean {errors[0]:.3f}, of CVaR {errors[1]:.3f}; interval held {held:.2f}")


if __name__ == "__main__":
    main()
