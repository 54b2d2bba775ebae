"""FQE with networks: Q(s, a) = V(s) + Σ_j p_j(s)·u_j(s, a), u centred, so that E_π[Q(s', ·)] = V(s') needs no draws.

The regression target is r - ℓ + γV̄(s'), V̄ a moving average of the network and ℓ the mean of V over the batch:
relative value iteration, in which the constant that discounting would carry over 1/(1-γ) sweeps settles at once, and
which is the differential form at γ = 1. Where ends absorb, V of the end is 0 and so is ℓ.
"""

from __future__ import annotations

import copy
from dataclasses import dataclass

import numpy as np
import torch
from torch import Tensor

from ope_vpm.baselines.action_features import centred_features
from ope_vpm.baselines.model_neural import Ensemble
from ope_vpm.baselines.q_values import QValues
from ope_vpm.logged.columns import Array, Floats, Integers
from ope_vpm.ope.features import StateFeatures
from ope_vpm.ope.problem import Problem

BATCH, LEARNING_RATE, AVERAGING = 512, 1e-3, 0.1


@dataclass(frozen=True)
class Inputs:
    """What the networks see, and the rewards in units of their deviation."""

    here: Tensor
    """The state of each step of the plan."""
    there: Tensor
    """The state after it."""
    first: Tensor
    """Initial states."""
    centred: Tensor
    """u of each step."""
    reward: Tensor
    alive: Tensor
    """0 where nothing follows, else 1."""
    shift: float
    scale: float
    """A reward is shift + scale·(the number in `reward`)."""


def inputs(problem: Problem, draws: int) -> Inputs:
    """Standardised states, with the time as one more coordinate where the task has a clock."""
    data, plan = problem.data, problem.steps
    features = StateFeatures.draw(problem, 0)
    here, there = features.near_points(data.observations[plan.rows]), features.near_points(problem.following)
    first = features.near_points(data.initial_observations) if data.from_reset.any() else here[:1]
    clock = clock_of(problem)
    if clock is not None:
        restarted = problem.ending[plan.rows]
        here = np.column_stack([here, clock(data.time[plan.rows])])
        there = np.column_stack([there, clock(np.where(restarted, 0, data.time[plan.rows] + 1))])
        first = np.column_stack([first, clock(np.zeros(len(first)))])
    rewards = data.rewards[plan.rows]
    scale = float(rewards.std()) or 1.0
    shift = 0.0 if plan.absorbed.any() else float(rewards.mean())
    return Inputs(
        here=_tensor(here),
        there=_tensor(there),
        first=_tensor(first),
        centred=_tensor(centred_features(problem, draws)[plan.rows]),
        reward=_tensor((rewards - shift) / scale),
        alive=_tensor(~plan.absorbed),
        shift=shift,
        scale=scale,
    )


class Clock:
    """Time within an episode of fixed length, scaled to deviation 1."""

    def __init__(self, length: int) -> None:
        self.length = length

    def __call__(self, time: Floats | Integers) -> Floats:
        """One number a step."""
        scaled: Floats = (time / self.length - 0.5) * np.sqrt(12)
        return scaled


def clock_of(problem: Problem) -> Clock | None:
    """The task's clock, where a time limit of one length ends its episodes: what is left then depends on the time."""
    data = problem.data
    cut = data.lengths[data.truncated[data.ends]]
    if problem.time_limit != "restart" or len(cut) == 0 or (cut != cut[0]).any():
        return None
    return Clock(int(cut[0]))


def fit_networks(
    problem: Problem, folds: Integers, members: int, steps: int, draws: int, weight: Floats | None = None
) -> QValues:
    """Train `members` networks for each fold on the episodes of the others, and ask them about that fold.

    Args:
        problem: the question.
        folds: the fold of each episode; all equal: the networks are asked about what they were trained on.
        members: networks a fold, whose answers are averaged.
        steps: of Adam.
        draws: target actions a state where the policy's mean action is not known otherwise.
        weight: of each step in the regression, where it is not 1.
    """
    seen, plan = inputs(problem, draws), problem.steps
    fold = folds[problem.data.episode[plan.rows]]
    count = int(folds.max()) + 1
    usable = [np.flatnonzero((fold != k) | (count == 1)) for k in range(count) for _ in range(members)]
    network = Ensemble(count * members, seen.here.shape[1], 1 + seen.centred.shape[1], problem.seed)
    with torch.no_grad():
        network.weights[-1].zero_()  # begin at Q = 0, the mean reward: equal rewards give exactly that reward
    counts = plan.weight if weight is None else plan.weight * weight
    average = train(network, seen, usable, counts, steps, problem.gamma, problem.seed)
    return ask(problem, average, seen, folds, members, counts)


def train(
    network: Ensemble, seen: Inputs, usable: list[Integers], counts: Floats, steps: int, gamma: float, seed: int
) -> Ensemble:
    """The moving average of the networks, each trained on its own steps, drawn as often as they count."""
    rng = np.random.default_rng(seed)
    average = copy.deepcopy(network).requires_grad_(False)
    optimiser = torch.optim.Adam(network.parameters(), LEARNING_RATE, fused=True)
    decay = torch.optim.lr_scheduler.CosineAnnealingLR(optimiser, steps)
    absorbs = bool((seen.alive == 0).any())
    totals = [np.cumsum(counts[rows]) for rows in usable]
    for _ in range(steps):
        drawn = [np.searchsorted(total, rng.random(BATCH) * total[-1]) for total in totals]
        batch = torch.from_numpy(np.stack([rows[places] for rows, places in zip(usable, drawn, strict=True)]))
        out = network(seen.here[batch])
        value, moves = out[..., 0], out[..., 1:]
        level = torch.zeros(1) if absorbs else value.detach().mean(dim=1, keepdim=True)
        with torch.no_grad():
            target = seen.reward[batch] - level + gamma * seen.alive[batch] * average(seen.there[batch])[..., 0]
        loss = (value + (moves * seen.centred[batch]).sum(dim=-1) - target).square().mean(dim=1).sum()
        optimiser.zero_grad()
        loss.backward()
        optimiser.step()
        decay.step()
        for slow, fast in zip(average.parameters(), network.parameters(), strict=True):
            slow.lerp_(fast, AVERAGING)
    return average


@torch.no_grad()
def ask(problem: Problem, network: Ensemble, seen: Inputs, folds: Integers, members: int, counts: Floats) -> QValues:
    """Q, V and ℓ of every step by the networks that were not trained on it, averaged over members.

    ℓ is the mean Bellman residual of the steps that they were trained on, counted as there.
    """
    gamma, data = problem.gamma, problem.data
    fold = folds[data.episode[problem.steps.rows]]
    first_fold = folds[data.from_reset] if data.from_reset.any() else folds[:1]
    q, after, level = (np.zeros(len(fold)) for _ in range(3))
    first = np.zeros(len(seen.first))
    size = len(network.weights[0])
    for number in range(size):
        k = number // members
        one = _only(network, number)
        here = one(seen.here[None])[0].double()
        mine = here[:, 0] + (here[:, 1:] * seen.centred).sum(dim=1)
        next_value = seen.alive.double() * one(seen.there[None])[0, :, 0].double()
        start = one(seen.first[None])[0, :, 0].double().numpy()
        trained = (fold != k) | (size == members)
        used = counts * trained
        residual = seen.reward.double() + gamma * next_value - mine
        offset = 0.0 if (seen.alive == 0).any() else float(used @ residual.numpy() / used.sum())
        held, held_first = fold == k, first_fold == k
        q[held] += mine.numpy()[held] / members
        after[held] += next_value.numpy()[held] / members
        level[held] += offset / members
        first[held_first] += start[held_first] / members
    # Back to rewards: Q may be given on any scale, ℓ takes the shift.
    scale = seen.scale
    return QValues(q * scale, after * scale, first * scale, level * scale + seen.shift)


def _only(network: Ensemble, number: int) -> Ensemble:
    """One of the networks."""
    one = copy.deepcopy(network)
    for parameters in (one.weights, one.biases):
        for place, parameter in enumerate(parameters):
            parameters[place] = torch.nn.Parameter(parameter[number : number + 1])
    return one


def _tensor(column: Array) -> Tensor:
    return torch.from_numpy(np.asarray(column, dtype=np.float32))
