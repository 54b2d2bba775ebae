"""FQE with networks: Q(s, a) = V(s) + Σ_j p_j(s)·u_j(s, a), u centred, so that E_π[Q(s', ·)] = V(s') needs no draws.

The regression target is r - ℓ + γV̄(s'), V̄ a moving average of the network and ℓ the mean of V over the batch:
relative value iteration, in which the constant that discounting would carry over 1/(1-γ) sweeps settles at once, and
which is the differential form at γ = 1. Where ends absorb, V of the end is 0 and so is ℓ.

The networks learn what LSTD-Q leaves: its Bellman residuals take the place of the rewards, and both Q are summed. The
slow modes are then solved already, and a network that learns nothing is LSTD-Q.
"""

import copy
from dataclasses import dataclass

import numpy as np

from ope_vpm.arrays import ROUNDING, Array, Floats, Integers
from ope_vpm.ope.adapter.action_functions import centred_features
from ope_vpm.ope.adapter.ends import clock_of, times
from ope_vpm.ope.adapter.states import StateFeatures
from ope_vpm.ope.problem import Problem
from ope_vpm.ope.q.linear import LinearQ, QValues
from ope_vpm.ope.q.training import Ensemble
from ope_vpm.optional import torch

BATCH = 512
"""Steps in each gradient."""
LEARNING_RATE = 1e-3
"""Adam's step size at the beginning; it falls to 0 along a cosine."""
AVERAGING = 0.1
"""How much of the network enters the average V̄ at each step. These three, with 2 x 64 units, were found on Reacher and
HalfCheetah."""


@dataclass(frozen=True)
class Inputs:
    """Inputs of the networks, and the rewards in units of their standard deviation."""

    here: torch.Tensor
    """The state of each step of the plan."""
    there: torch.Tensor
    """The state after it."""
    first: torch.Tensor
    """Initial states."""
    centred: torch.Tensor
    """u of each step."""
    reward: torch.Tensor
    alive: torch.Tensor
    """0 where nothing follows, else 1."""


def inputs(problem: Problem, draws: int) -> Inputs:
    """Standardised states, with the time as one more coordinate where the task has a clock."""
    data, plan = problem.data, problem.steps
    clock, time = clock_of(data, problem.time_limit), times(data, problem.time_limit)[plan.rows]
    features = StateFeatures.draw(data, 0, problem.seed, clock)
    here = features.limited_coordinates(data.observations[plan.rows], time)
    there = features.limited_coordinates(problem.following, np.where(problem.ending[plan.rows], 0, time + 1))
    start = problem.log.initial_observations
    first = features.limited_coordinates(start, np.zeros(len(start), dtype=np.int64)) if len(start) else here[:1]
    rewards, _, _ = standardised(data.rewards[plan.rows], bool(plan.absorbed.any()), data.reward_facts.size)
    return Inputs(
        here=_tensor(here),
        there=_tensor(there),
        first=_tensor(first),
        centred=_tensor(centred_features(problem, draws)[plan.rows]),
        reward=_tensor(rewards),
        alive=_tensor(~plan.absorbed),
    )


def fit_networks(
    problem: Problem, folds: Integers, members: int, steps: int, draws: int, base: LinearQ, weight: Floats | None = None
) -> QValues:
    """Train `members` networks for each fold on the episodes of the others, and ask them about that fold.

    Args:
        problem: the question.
        folds: the fold of each episode; all equal: the networks are asked about what they were trained on.
        members: networks a fold, whose answers are averaged.
        steps: of Adam.
        draws: target actions a state where the policy's mean action is not known otherwise.
        base: the Q to begin from.
        weight: of each step in the regression, where it is not 1.
    """
    seen, plan = inputs(problem, draws), problem.steps
    fold = folds[problem.data.episode[plan.rows]]
    count = int(folds.max()) + 1
    rewards, shift, scale = standardised(base.residual, bool(plan.absorbed.any()), problem.data.reward_facts.size)
    usable = [np.flatnonzero((fold != k) | (count == 1)) for k in range(count) for _ in range(members)]
    network = Ensemble(count * members, seen.here.shape[1], 1 + seen.centred.shape[1], problem.seed)
    with torch.no_grad():
        network.weights[-1].zero_()  # begin at Q = 0, the mean reward: equal rewards give exactly that reward
    counts = plan.weight if weight is None else plan.weight * weight
    each = torch.from_numpy(np.repeat(rewards, members, axis=0)).float()
    average = train(network, seen, each, usable, counts, steps, problem.gamma, problem.seed)
    learnt = ask(problem, average, seen, each, folds, members, counts)
    own = np.arange(len(fold))
    level = base.level[fold] + shift + scale * learnt.level
    q = problem.data.rewards[plan.rows] - base.level[fold] - base.residual[fold, own] + scale * learnt.q
    first = scale * learnt.first
    if problem.data.from_reset.any():
        first = first + base.first[folds[problem.log.initial_episodes], np.arange(len(first))]
    return QValues(q, scale * learnt.after, first, level)


def standardised(residual: Floats, absorbs: bool, size: float = 0.0) -> tuple[Floats, float, float]:
    """Numbers of deviation 1 and, unless ends absorb, mean 0; and the shift and scale that undo it.

    Args:
        residual: the numbers, in units of the rewards.
        absorbs: whether nothing follows some steps.
        size: of the rewards: what is left of equal ones is rounding, of which there is nothing to learn.
    """
    shift, scale = 0.0 if absorbs else float(residual.mean()), float(residual.std())
    if scale <= ROUNDING * max(size, float(np.abs(residual).max())):
        return np.zeros_like(residual), shift, 0.0
    return (residual - shift) / scale, shift, scale


def train(
    network: Ensemble,
    seen: Inputs,
    rewards: torch.Tensor,
    usable: list[Integers],
    counts: Floats,
    steps: int,
    gamma: float,
    seed: int,
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
            target = rewards.gather(1, batch) - level + gamma * seen.alive[batch] * average(seen.there[batch])[..., 0]
        loss = (value + (moves * seen.centred[batch]).sum(dim=-1) - target).square().mean(dim=1).sum()
        optimiser.zero_grad()
        loss.backward()
        optimiser.step()
        decay.step()
        for slow, fast in zip(average.parameters(), network.parameters(), strict=True):
            slow.lerp_(fast, AVERAGING)
    return average


@torch.no_grad()
def ask(
    problem: Problem,
    network: Ensemble,
    seen: Inputs,
    rewards: torch.Tensor,
    folds: Integers,
    members: int,
    counts: Floats,
) -> QValues:
    """Q, V and ℓ of every step by the networks that were not trained on it, averaged over members.

    ℓ is the mean Bellman residual of the steps that they were trained on, counted as there.
    """
    size = len(network.weights[0])
    of_network = (np.arange(size) // members)[:, None]  # the fold that each of them was not trained on
    fold = folds[problem.data.episode[problem.steps.rows]]
    first_fold = folds[problem.log.initial_episodes] if problem.data.from_reset.any() else folds[:1]
    here, there, first = (network(part.expand(size, -1, -1)).double() for part in (seen.here, seen.there, seen.first))
    q = (here[..., 0] + (here[..., 1:] * seen.centred).sum(dim=-1)).numpy()
    after = (seen.alive.double() * there[..., 0]).numpy()
    used = counts * ((fold != of_network) | (size == members))
    residual = rewards.double().numpy() + problem.gamma * after - q
    level = np.zeros(size) if (seen.alive == 0).any() else np.sum(used * residual, axis=1) / used.sum(axis=1)
    held, held_first = (fold == of_network) / members, (first_fold == of_network) / members
    means = [np.sum(held * each, axis=0) for each in (q, after, level[:, None])]
    return QValues(means[0], means[1], np.sum(held_first * first[..., 0].numpy(), axis=0), means[2])


def _tensor(column: Array) -> torch.Tensor:
    return torch.from_numpy(np.asarray(column, dtype=np.float32))
