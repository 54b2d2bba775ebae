"""The counted model of a finite MDP under the target, solved exactly over states."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from scipy import sparse

from ope_vpm.chain import linear
from ope_vpm.chain.diagnostics import effective_sample_size
from ope_vpm.logged.columns import Floats, Integers
from ope_vpm.ope.conclude import Found, episode_effective_size
from ope_vpm.ope.features import StateFeatures
from ope_vpm.ope.influence import entry_rate, initial_sums
from ope_vpm.ope.intervals import EpisodeSums
from ope_vpm.ope.problem import Problem
from ope_vpm.ope.sums import summed
from ope_vpm.ope.verdict import Evidence


@dataclass(frozen=True)
class CountedModel:
    """Counts of one log and the target on them.

    Where the target takes actions never seen in a state, its probabilities are scaled up over the seen ones;
    a state in which none was seen restarts from the logged states.
    """

    pair: Integers
    """The number of each step's (s, a) among the seen pairs."""
    following: Integers
    """The number of the state after each step; -1 where nothing follows."""
    weight: Floats
    """How much each step counts."""
    state_of_pair: Integers
    chance: Floats
    """The target's probability of each seen pair's action in its state, scaled up."""
    unseen: Floats
    """The target's probability of unseen actions, by state."""
    starts: Integers
    """The number of each initial state."""
    reward: Floats
    """The mean reward of each seen pair."""
    step_reward: Floats
    """The reward of each step."""

    @property
    def initial(self) -> Floats:
        """The law of initial states; zeros where none is known."""
        return np.bincount(self.starts, minlength=len(self.unseen)) / max(len(self.starts), 1)

    @property
    def times(self) -> Floats:
        """How often each pair was seen."""
        return summed(self.pair, self.weight)

    def transitions(self) -> Any:
        """P̂(s'|s, a), sparse (pairs, states); rows of ended episodes sum to less than 1."""
        known = self.following >= 0
        share = self.weight / self.times[self.pair]
        shape = (len(self.state_of_pair), len(self.unseen))
        return sparse.csr_array((share[known], (self.pair[known], self.following[known])), shape=shape)

    def policy(self) -> Any:
        """The target over seen pairs, sparse (states, pairs)."""
        shape = (len(self.unseen), len(self.state_of_pair))
        return sparse.csr_array((self.chance, (self.state_of_pair, np.arange(shape[1]))), shape=shape)

    def kernel(self) -> Any:
        """States to states under the target; empty states restart."""
        moved = (self.policy() @ self.transitions()).tocsr()
        empty = np.flatnonzero(np.bincount(self.state_of_pair, minlength=len(self.unseen)) == 0)
        logged = summed(self.state_of_pair, self.times, len(self.unseen))
        leave = sparse.csr_array((np.ones(len(empty)), (empty, np.zeros(len(empty), dtype=int))), (len(logged), 1))
        return (moved + leave @ sparse.csr_array(logged[None] / logged.sum())).tocsr()


def counted_model(problem: Problem) -> CountedModel:
    """Count the steps."""
    data, plan = problem.data, problem.steps
    encoder = StateFeatures.draw(problem, 0).encoder
    seen = np.concatenate([data.observations[plan.rows], problem.following, data.initial_observations])
    _, first, number = np.unique(encoder.states(seen), return_index=True, return_inverse=True)
    n = len(plan.rows)
    probabilities = problem.policy.probabilities(seen[first])
    actions = probabilities.shape[1]
    code, pair = np.unique(number[:n] * actions + data.actions[plan.rows], return_inverse=True)
    state_of_pair = code // actions
    chance = probabilities[state_of_pair, code % actions]
    covered = summed(state_of_pair, chance, len(first))
    times = summed(pair, plan.weight)
    uniform = 1 / np.bincount(state_of_pair, minlength=len(first))[state_of_pair]
    scaled = np.divide(chance, covered[state_of_pair], out=uniform, where=covered[state_of_pair] > 0)
    return CountedModel(
        pair=pair,
        following=np.where(plan.absorbed, -1, number[n : 2 * n]),
        weight=plan.weight,
        state_of_pair=state_of_pair,
        chance=scaled,
        unseen=1 - covered,
        starts=number[2 * n :],
        reward=summed(pair, plan.weight * data.rewards[plan.rows]) / times,
        step_reward=data.rewards[plan.rows],
    )


def solve(model: CountedModel, gamma: float) -> tuple[float, Floats, Floats]:
    """The value, the law over states and the value function over states, all exact."""
    kernel = model.kernel()
    reward = model.policy() @ model.reward
    if gamma < 1:
        values = linear.resolvent(kernel, reward, gamma, transposed=False)
        law = linear.resolvent(kernel, (1 - gamma) * model.initial, gamma, transposed=True)
        return float((1 - gamma) * model.initial @ values), law, values
    start = summed(model.state_of_pair, model.times, len(reward))
    law = linear.limit_law(kernel, start / start.sum(), linear.closed_classes(kernel))
    return float(law @ reward), law, linear.poisson(kernel, law, reward)


def find_tabular(problem: Problem, simulate: int | None) -> Found:
    """Solve the counted model; `simulate`: as many steps of one rollout instead, as in the paper."""
    model = counted_model(problem)
    value, law, values = solve(model, problem.gamma)
    sums, tau = influence(problem, model, value, law, values)
    weights = summed(problem.steps.rows, tau * model.weight, len(problem.data))
    unseen = float(law @ np.maximum(model.unseen, 0) / law.sum())
    after = model.reward + problem.gamma * (model.transitions() @ values)
    mass = law[model.state_of_pair] * model.chance
    spread = float(np.sqrt(np.cov(after, aweights=mass))) if len(after) > 1 and unseen > 0 else 0.0
    evidence = Evidence(
        effective_rows=effective_sample_size(weights),
        rows=len(problem.data),
        effective_episodes=episode_effective_size(problem, weights),
        unseen_mass=unseen,
    )
    diagnostics = {"solver": "counts", "exact_value": value, "dropped": problem.steps.dropped}
    answer = value if simulate is None else rollout(model, problem.gamma, simulate, problem.seed)
    return Found(
        value=answer,
        sums=sums,
        weights=weights,
        bias=max(unseen * spread, abs(answer - value)),
        evidence=evidence,
        diagnostics=diagnostics,
    )


def influence(
    problem: Problem, model: CountedModel, value: float, law: Floats, values: Floats
) -> tuple[EpisodeSums, Floats]:
    """Per-episode sums that bootstrap the exact solution to first order, and each step's ratio.

    A step contributes τ·(r + γV(s') - Q(s, a)), τ = d(s)π(a|s)/p̂(s, a); pairs seen n times have residuals
    that are too small by √((n-1)/n).
    """
    data, plan, gamma = problem.data, problem.steps, problem.gamma
    share = model.weight / model.weight.sum()
    times = model.times
    tau = (law[model.state_of_pair] * model.chance / (times / model.weight.sum()))[model.pair]
    after = np.where(model.following >= 0, values[model.following], 0.0)
    target = data.rewards[plan.rows] + gamma * after
    mean = summed(model.pair, model.weight * target) / times
    often = times > 1.5
    factor = np.sqrt(np.divide(times, times - 1, out=np.ones_like(times), where=often))[model.pair]
    residual = factor * (target - mean[model.pair])
    offset = value if gamma == 1 else 0.0
    denominator = share * tau if gamma == 1 else share
    episode = data.episode[plan.rows]
    sums = EpisodeSums.of_rows(episode, data.n_episodes, share * tau * (residual + offset), denominator)
    rate = entry_rate(problem, plan.rows, share * tau)
    return sums.beside(initial_sums(problem, rate, values[model.starts])), tau


def rollout(model: CountedModel, gamma: float, horizon: int, seed: int) -> float:
    """The mean reward along one simulated trajectory, weighted by γ^t."""
    rng = np.random.default_rng(seed)
    policy, transitions, kernel = model.policy(), model.transitions(), model.kernel()
    initial = model.initial if model.initial.any() else np.full(len(model.unseen), 1 / len(model.unseen))
    state, total, mass = int(rng.choice(len(initial), p=initial)), 0.0, 0.0
    for time in range(horizon):
        pair = _draw(policy, state, rng)
        total += gamma**time * (0.0 if pair is None else model.reward[pair])
        mass += gamma**time
        following = _draw(kernel, state, rng) if pair is None else _draw(transitions, pair, rng)
        if following is None:
            mass += gamma ** (time + 1) / (1 - gamma)
            break
        state = following
    return total / mass


def _draw(matrix: Any, row: int, rng: np.random.Generator) -> int | None:
    """A column of a sparse row, by its probabilities; None for what is missing to 1."""
    part = slice(matrix.indptr[row], matrix.indptr[row + 1])
    place = int(np.searchsorted(np.cumsum(matrix.data[part]), rng.random() * (1 - 1e-12)))
    return int(matrix.indices[part][place]) if place < part.stop - part.start else None
