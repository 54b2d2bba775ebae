"""Breaking the Curse of Horizon (Liu, Li, Tang, Zhou 2018): a ratio w(s) of state distributions, times ρ = π/b.

The ratio balances the flow into every state: E[w(s)(γρf(s') - f(s))] + (1-γ)E₀[f] = 0 for all functions f. With f the
indicators of finite states this is a linear system; with f in the unit ball of an RKHS it is a loss for a network.

Differences from the paper:
1. The flow into states is balanced against the log's own distribution of s, E[w(s)(ρf(s') - f(s))] = 0, rather than of
   s'; the two agree for a log in its long run, and ours needs no such assumption.
2. Below γ = 1 the same with the initial distribution, γE[w(s)ρf(s')] + (1-γ)E₀[f] = E[w(s)f(s)].
3. On finite states with a cloned behaviour ρ is π over a frequency, and what the target does that was never logged has
   no flow at all. It begins again at the logged states, as do 0.3 further steps of each state where this happens: a
   prior, without which small logs give worse answers than their mean reward.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

import numpy as np
from scipy import sparse
from scipy.sparse.linalg import splu

from ope_vpm.arrays import ROUNDING, Floats, Integers, group_sums
from ope_vpm.baselines.importance_sampling import ActionRatios, ratio_of_sums
from ope_vpm.linear.features import median_bandwidth
from ope_vpm.ope.adapter.ends import clock_remarks
from ope_vpm.ope.adapter.states import StateFeatures
from ope_vpm.ope.authoring import EpisodeSums, Problem, RawEstimate, remarks
from ope_vpm.ope.behaviour.action_ratio import ActionRatio
from ope_vpm.ope.behaviour.clone import asked_behaviour, behaviour_log_prob, logged_frequencies
from ope_vpm.ope.finite.counts import number_states
from ope_vpm.ope.inference.estimate import OVERLAP, unsupported
from ope_vpm.ope.inference.returns import with_weighted_return
from ope_vpm.optional import torch

PRIOR = 0.3
"""Further steps that begin again at the logged states, of each finite state in which the target does something that was
never logged, with a cloned behaviour.
Taxi, behaviours after 550 to 950 iterations at 50×100 to 200×400, seeds 100 to 105: the mean log10 MSE over seven cells
is -1.89, -1.91, -1.92, -1.83 and -1.74 with 0.1, 0.2, 0.3, 0.5 and 1, and with 0.1 one cell is worse than the mean
reward of the log."""
NEARLY_ONE = 1e-12
"""1 minus the largest γ of a linear system: where nothing is lost, that of γ = 1 has no unique solution."""
RIDGE = 1e-10
"""On w, relative to the mean of the normal equations' diagonal: only there so that a unique solution exists."""
BATCH, LEARNING_RATE = 200, 3e-3
"""Rows per gradient step, whose kernel matrix has (3 × 200)² entries, and Adam's step size."""
BANDWIDTH_ROWS = 1000
"""Rows whose median distance is the kernel's bandwidth."""


@dataclass(frozen=True, kw_only=True)
class Liu2018(ActionRatios):
    """Finite states: the kernelised mini-max loss in closed form. Continuous ones: a network, by its kernel loss."""

    name: ClassVar[str] = "liu"

    training_steps: int = 1000
    """Gradient steps of the network."""
    cap: float = 50.0
    """The largest action ratio, once it is scaled to mean 1."""

    def find(self, problem: Problem) -> RawEstimate:
        """Find w, then weigh rewards by w·ρ."""
        clone = behaviour_log_prob(problem, self.behaviour)
        # A clone that is smoothed for products of ratios shrinks every ratio of a rare action. The state ratio only
        # needs their sums: log10 MSE on Taxi is -3.08 with plain frequencies, -2.50 with one more observation a state.
        counted = problem.finite and bool(asked_behaviour(problem, self.behaviour) == "cloned")
        log_ratio = problem.target_log_prob - (logged_frequencies(problem.log) if counted else clone.log_prob)
        action = ActionRatio.of_logs(log_ratio, clone.held_out_log_likelihood, self.cap)
        steps, rho = problem.steps, action.ratio[problem.steps.rows]
        if counted:
            state_ratio = finite_state_ratio(problem, np.exp(log_ratio)[steps.rows], PRIOR)
        elif problem.data.finite:
            state_ratio = finite_state_ratio(problem, rho, None)
        else:
            state_ratio = network_state_ratio(problem, rho, self.training_steps)
        weights = group_sums(steps.rows, steps.weight * state_ratio * rho, len(problem.data))
        clock = clock_remarks(problem.data, problem.time_limit, known=False)
        doubts = (
            *unsupported(problem, 1 - action.overlap, OVERLAP),
            *remarks(["the interval takes the state ratio as known", *clock]),
        )
        fit = {"behaviour_held_out_log_likelihood": clone.held_out_log_likelihood}
        diagnostics = {**fit, "dropped": steps.dropped, "ended": steps.ended}
        found = ratio_of_sums(problem, _reward_sums(problem, weights), weights, doubts, diagnostics)
        return with_weighted_return(problem, found) if problem.episodic else found


def _reward_sums(problem: Problem, weights: Floats) -> EpisodeSums:
    """Σ wρr over Σ wρ and the mass of ended episodes, γ/(1-γ)·wρ of their last rows, whose reward is 0."""
    data = problem.data
    below = weights
    if problem.on_end == "absorb" and problem.gamma < 1:
        below = weights * (1 + problem.ending * problem.gamma / (1 - problem.gamma))
    return EpisodeSums.of_rows(data.episode, data.n_episodes, weights * data.rewards, below)


# -- Finite states: the loss with the kernel 1[s = s'], in closed form


def finite_state_ratio(problem: Problem, rho: Floats, prior: float | None) -> Floats:
    """(steps,): w(s) of each step, not negative; only states that were left have one.

    Args:
        problem: the question.
        rho: π/b of each step.
        prior: further steps of each state that begin again at the logged ones, with all that the target does and the
            log does not, for a ρ of logged frequencies; None for any other.
    """
    numbered = number_states(problem.log, problem.steps)
    left, state = np.unique(numbered.state, return_inverse=True)
    place = np.full(len(numbered.labels) + 1, -1)  # the last entry is that of "nothing follows", number -1
    place[left] = np.arange(len(left))
    initial = place[numbered.initial_states]
    start = np.bincount(initial[initial >= 0], minlength=len(left)) / max(len(initial), 1)
    weight, following = problem.steps.weight, place[numbered.next_state]
    if prior is None:
        return balanced_ratio(state, following, weight, rho, start, problem.gamma)[state]
    return restarting_ratio(state, following, weight, rho, start, problem.gamma, prior)[state]


def balanced_ratio(
    state: Integers, next_state: Integers, weight: Floats, rho: Floats, initial: Floats, gamma: float
) -> Floats:
    """The w ≥ 0 with least squared imbalance of flow, Σ_s' (γE[wρ; s'] + (1-γ)d₀(s') - E[w; s = s'])².

    Args:
        state: the number of each step's state.
        next_state: the number of the state after it; -1 where there is none.
        weight: how much each step counts.
        rho: π/b of each step.
        initial: the distribution of initial states.
        gamma: at 1, E[w] = 1 takes the place of the initial distribution.
    """
    size = len(initial)
    p = group_sums(state, weight, size) / weight.sum()
    known = next_state >= 0
    share = (weight * rho / weight.sum())[known]
    flow = sparse.csc_array((gamma * share, (next_state[known], state[known])), shape=(size, size))
    # In terms of μ = w·p the columns are of one size, which keeps the normal equations well conditioned.
    matrix = (sparse.identity(size, format="csc") - flow @ sparse.diags_array(1 / p)).tocsc()
    normal = (matrix.T @ matrix).tocsc()
    size_of_normal = float(normal.diagonal().mean()) or 1.0  # 0 where every state leads to itself alone
    system = normal + RIDGE * size_of_normal * sparse.identity(size, format="csc")
    source = np.ones(size) if gamma == 1 else matrix.T @ ((1 - gamma) * initial)
    mass = np.maximum(splu(system.tocsc()).solve(source), 0)
    if gamma == 1:
        mass = mass / mass.sum()
    return mass / p


def restarting_ratio(
    state: Integers, next_state: Integers, weight: Floats, rho: Floats, initial: Floats, gamma: float, prior: float
) -> Floats:
    """The w = μ/p of the chain μ = γ(μP + Lp) + (1-γ)d₀, L being the probability that P loses.

    P(s'|s) = Σ ρ/(n(s) + c) over the steps from s to s', with c the prior, and p is the log's own distribution of
    states: what the target does in s and the log does not, and c further steps of such states, begin again from p. The
    arguments are those of `balanced_ratio`.
    """
    size = len(initial)
    times = group_sums(state, weight, size)
    p, done = times / weight.sum(), group_sums(state, weight * rho, size)
    partly = done < (1 - ROUNDING) * times  # the target does something in them that was never logged
    seen = times + prior * float(weight.mean()) * partly
    known = next_state >= 0
    chain = sparse.csc_array(((weight * rho / seen[state])[known], (next_state[known], state[known])), (size, size))
    lost = np.maximum(1 - done / seen, 0)
    factor = splu((sparse.identity(size, format="csc") - min(gamma, 1 - NEARLY_ONE) * chain).tocsc())
    again = factor.solve(gamma * p)
    if gamma == 1:
        mass = again / again.sum()
    else:
        begun = factor.solve((1 - gamma) * initial)
        mass = begun + again * float(lost @ begun) / (1 - float(lost @ again))
    return np.maximum(mass, 0) / p


# -- Continuous states: a softplus network that balances the flow for every function of an RKHS ball


def network_state_ratio(problem: Problem, rho: Floats, training_steps: int) -> Floats:
    """(steps,): w(s) of each step."""
    from ope_vpm.ope.q.training import mlp  # which needs torch

    data, steps, gamma = problem.data, problem.steps, problem.gamma
    features = StateFeatures.draw(data, 0, problem.seed)
    here, there = features.coordinates(data.observations[steps.rows]), features.coordinates(problem.following)
    first = features.coordinates(problem.log.initial_observations) if data.from_reset.any() else here[:1]
    flowing = np.where(steps.absorbed, 0.0, rho)
    network = mlp(here.shape[1], 1, problem.seed)
    s, s_next, s_first, ratio = (_tensor(part) for part in (here, there, first, flowing))
    rng = np.random.default_rng(problem.seed)
    bandwidth = median_bandwidth(here[rng.integers(len(here), size=BANDWIDTH_ROWS)])
    optimiser = torch.optim.Adam(network.parameters(), LEARNING_RATE, fused=True)
    equal = bool((steps.weight == steps.weight[0]).all())
    probability = None if equal else steps.weight / steps.weight.sum()
    for _ in range(training_steps):
        rows = torch.from_numpy(rng.choice(len(here), size=BATCH, p=probability))
        starts = torch.from_numpy(rng.integers(len(first), size=BATCH))
        optimiser.zero_grad()
        w = torch.nn.functional.softplus(network(s[rows])[:, 0])
        if gamma == 1:
            w = w / w.mean()
        loss = imbalance(w, ratio[rows], s[rows], s_next[rows], s_first[starts], gamma, bandwidth)
        loss.backward()  # type: ignore[no-untyped-call]
        optimiser.step()
    with torch.no_grad():
        return torch.nn.functional.softplus(network(s)[:, 0]).double().numpy()


def imbalance(
    w: torch.Tensor,
    rho: torch.Tensor,
    here: torch.Tensor,
    there: torch.Tensor,
    first: torch.Tensor,
    gamma: float,
    bandwidth: float,
) -> torch.Tensor:
    """‖γE[wρk(s', ·)] + (1-γ)E₀[k(s₀, ·)] - E[wk(s, ·)]‖² in the RKHS of a Gaussian kernel, without its diagonal.

    Args:
        w: the ratio at each row.
        rho: π/b; 0 where nothing follows.
        here: s.
        there: s'.
        first: as many initial states as there are rows.
        gamma: the discount.
        bandwidth: of the kernel.
    """
    parts = [(gamma * w * rho, there), (-w, here)]
    if gamma < 1:
        parts.append((torch.full_like(w, 1 - gamma), first))
    signs, points = (torch.cat(column) for column in zip(*parts, strict=True))
    kernel = torch.exp(torch.cdist(points, points).square() / (-2 * bandwidth**2))
    n = len(w)
    kernel.view(len(parts), n, len(parts), n).diagonal(dim1=1, dim2=3).zero_()  # a row meets itself in every block
    return signs @ kernel @ signs / (n * (n - 1))


def _tensor(values: Floats) -> torch.Tensor:
    return torch.from_numpy(np.asarray(values, dtype=np.float32))
