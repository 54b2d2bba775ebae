"""Made-up finite tasks on which rules for counts are chosen, so that other people's tasks stay unseen.

* Garnet tasks (Bhatnagar et al. 2009): every pair leads to a few random states; few pairs pay, or only ends do.
* Grids with a goal and pits, on ice: actions go aside in one step of five.
* Wards: patients with a severity and a condition, 25 treatments of which some are in use in each state, and a reward of
  1 for survival at the end, in the manner of sepsis cohorts; the behaviour "older" is that of noisy clinicians.

Policies are softmax tables of value iteration, as in the wild tasks, and truths are exact.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import cache, partial
from typing import Any

import numpy as np
from scipy.special import expit, softmax

from ope_vpm.arrays import Bools, Floats
from ope_vpm.envs.wild.finite import FiniteModel
from ope_vpm.envs.wild.tables import FiniteTask
from ope_vpm.policy import TablePolicy


@dataclass(frozen=True, kw_only=True)
class MadeTask(FiniteTask):
    """A made-up task; a function draws its outcomes."""

    make: Callable[[], FiniteModel]
    noise: float | None = None
    """The deviation of noise on Q, in units of the spread of Q within states, in the softmax of a noisy older policy;
    None for one of fewer sweeps."""

    @property
    def model(self) -> FiniteModel:
        """The outcomes."""
        return _made(self.make)

    def older(self) -> TablePolicy:
        """A policy of fewer sweeps, or a softmax of noisy Q."""
        return super().older() if self.noise is None else _noisy(self, self.noise)


@cache
def _made(make: Callable[[], FiniteModel]) -> FiniteModel:
    return make()


@cache
def _noisy(task: MadeTask, noise: float) -> TablePolicy:
    values = task.model.action_values(task.discount, task.sweeps)
    spread = values.std(axis=1, keepdims=True)
    blurred = values + noise * spread * np.random.default_rng(0).standard_normal(values.shape)
    return TablePolicy(softmax(blurred / np.maximum(spread, 1e-12), axis=1))


def from_arrays(transition: Floats, reward: Floats, ends: Bools, initial: Floats) -> FiniteModel:
    """A model from arrays.

    Args:
        transition: (states, actions, states): P(s'|s, a).
        reward: the same shape: what each outcome pays.
        ends: (states,): the states in which the task ends.
        initial: (states,): the distribution of the first state.
    """
    states, actions, _ = transition.shape
    state, action, following = np.nonzero(transition)
    place = state, action, following
    pair = state * actions + action
    return FiniteModel(
        states, actions, initial, pair, following, transition[place], reward[place], np.asarray(ends[following])
    )


def garnet(states: int, actions: int, branches: int, ending: float, paying: float, seed: int) -> FiniteModel:
    """A random task in which few pairs pay.

    Args:
        states: without the one in which episodes end.
        actions: in each state.
        branches: to how many states each pair leads.
        ending: the mean probability that a pair ends the episode.
        paying: the share of pairs that pay 1; 0: only ends pay, and whether they do depends on the state.
        seed: of the draw.
    """
    rng = np.random.default_rng(seed)
    transition = np.zeros((states + 1, actions, states + 1))
    for pair in np.ndindex(states, actions):
        stop = ending * rng.gamma(1.0)
        transition[pair][rng.choice(states, branches, replace=False)] = rng.dirichlet(np.ones(branches))
        transition[pair] *= 1 - min(stop, 1.0)
        transition[pair][-1] = min(stop, 1.0)
    transition[-1, :, -1] = 1
    reward = np.zeros_like(transition)
    if paying > 0:
        reward[:-1] += (rng.random((states, actions)) < paying)[:, :, None]
    else:
        reward[:-1, :, -1] = rng.random((states, 1)) < 0.5  # half of the states are good places to end
    return from_arrays(
        transition, reward, np.arange(states + 1) == states, np.append(rng.dirichlet(np.ones(states)), 0)
    )


def pits(side: int, share: float, cost: float, seed: int) -> FiniteModel:
    """A square of ice with a goal that pays 1 in one corner and pits that cost something.

    Args:
        side: cells along each side.
        share: of cells with pits.
        cost: of falling into one, where the episode ends.
        seed: of where the pits are.
    """
    rng, cells = np.random.default_rng(seed), side * side
    pit = rng.random(cells) < share
    start, goal = 0, cells - 1
    pit[[start, 1, side, goal, goal - 1, goal - side]] = False
    moves = np.array([(-1, 0), (0, 1), (1, 0), (0, -1)])
    place = np.stack(np.divmod(np.arange(cells), side), axis=1)
    after = np.clip(place[:, None] + moves, 0, side - 1) @ [side, 1]
    transition = np.zeros((cells, 4, cells))
    for cell, action in np.ndindex(cells, 4):
        for turn, probability in ((0, 0.8), (1, 0.1), (3, 0.1)):  # one step of five goes aside
            transition[cell, action, after[cell, (action + turn) % 4]] += probability
    reward = np.zeros_like(transition)
    reward[..., goal], reward[..., pit] = 1.0, -cost
    ends = pit.copy()
    ends[goal] = True
    reward[ends] = 0
    return from_arrays(transition, reward, ends, (np.arange(cells) == start).astype(float))


def ward(states: int, used: int, effect: float, seed: int, stay: float = 0.0) -> FiniteModel:
    """Patients: a severity that treatments move a little, and survival that depends on it.

    Args:
        states: without death and survival.
        used: how many of the 25 treatments are in use in a state; the others do what these do on average.
        effect: by how many logits of severity treatments differ.
        seed: of the draw.
        stay: the mean share of patients whose state a treatment leaves as it is.
    """
    rng, actions, reached = np.random.default_rng(seed), 25, 12
    severity = np.sort(rng.normal(size=states))
    transition = np.zeros((states + 2, actions, states + 2))
    for state in range(states):
        for action in range(actions):
            drift = effect * rng.standard_normal()
            near = np.exp(-2 * (severity - severity[state] - drift) ** 2)
            reach = rng.choice(states, reached, replace=False, p=near / near.sum())
            leave = expit(-2.2 + 0.5 * abs(severity[state]))  # episodes of about ten steps
            dies = expit(1.2 * (severity[state] + drift) - 1.5)
            transition[state, action, reach] = (1 - leave) * rng.dirichlet(np.ones(reached))
            transition[state, action, -2:] = leave * np.array([dies, 1 - dies])
            same = rng.beta(2 * stay, 2 * (1 - stay)) if stay > 0 else 0.0
            transition[state, action] *= 1 - same
            transition[state, action, state] += same
        others = rng.permutation(actions)[used:]
        transition[state, others] = np.delete(transition[state], others, axis=0).mean(axis=0)
    transition[-2, :, -2] = transition[-1, :, -1] = 1
    reward = np.zeros_like(transition)
    reward[:-2, :, -1] = 1
    initial = np.append(rng.dirichlet(np.full(states, 0.3)), [0, 0])
    return from_arrays(transition, reward, np.arange(states + 2) >= states, initial)


def to_tune_on(name: str, limit: int, make: Callable[[], FiniteModel], **settings: Any) -> MadeTask:
    """A task to tune on, whose episodes are cut at its own limit; 300 sweeps are enough for all of them to settle."""
    return MadeTask(
        id=f"Made/{name}", half="tuning", limit=limit, own_limit=limit, sweeps=300, make=make,
        **{"older_sweeps": None} | settings,
    )  # fmt: skip


def patients(noise: float = 1.0) -> dict[str, float]:
    """The settings of wards: their older policy is a noisy one, and a patient is worth as much later."""
    return {"noise": noise, "discount": 1.0}


_TASKS = (
    to_tune_on("Garnet-rare", 100, partial(garnet, 100, 5, 4, 0.02, 0.02, 1), older_sweeps=3, temperature=0.3),
    to_tune_on("Garnet-ends", 60, partial(garnet, 300, 8, 3, 0.06, 0.0, 2), older_sweeps=2, temperature=0.01),
    to_tune_on("Garnet-wide", 50, partial(garnet, 1000, 10, 5, 0.04, 0.05, 3), noise=1.0, temperature=0.3),
    to_tune_on("Pits-small", 100, partial(pits, 7, 0.15, 1.0, 4), older_sweeps=12, temperature=0.02),
    to_tune_on("Pits-deep", 150, partial(pits, 10, 0.12, 10.0, 5), older_sweeps=15, temperature=0.2, random_share=0.05),
    to_tune_on("Ward-400", 200, partial(ward, 400, 8, 0.3, 6), temperature=0.002, **patients(2.0)),
    to_tune_on("Ward-800", 200, partial(ward, 800, 15, 0.15, 7), temperature=0.01, **patients()),
    to_tune_on("Ward-strong", 200, partial(ward, 200, 5, 0.8, 8), temperature=0.02, **patients()),
    to_tune_on("Ward-stays", 300, partial(ward, 500, 8, 0.3, 9, 0.4), temperature=0.005, **patients()),
)


def made_tasks() -> Mapping[str, MadeTask]:
    """The made-up tasks by name."""
    return {task.id: task for task in _TASKS}
