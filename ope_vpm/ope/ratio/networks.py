"""The regularised Lagrangian with networks, as published: ν and λ go down, ζ goes up, by Adam on batches.

ν(s, a) = V(s) + Σ_j p_j(s)·u_j(s, a) with centred u, so that E_π[ν(s', ·)] = V(s') needs no draws; ζ sees s and u, and
is a softplus where it must not be negative.
"""

import numpy as np

from ope_vpm.arrays import Floats
from ope_vpm.ope.problem import Problem
from ope_vpm.ope.q.networks import Inputs, inputs
from ope_vpm.ope.q.training import mlp
from ope_vpm.ope.ratio.lagrangian import Regularisation
from ope_vpm.optional import torch

BATCH = 512
"""Steps in each gradient, as for Q by networks."""
LEARNING_RATE = 1e-3
"""Adam's step size at the beginning; it falls to 0 along a cosine, so that the last steps settle."""
BETAS = (0.0, 0.99)
"""Adam's β. Without momentum the players meet: on the linear-Gaussian MDP all four methods are then within 0.022 after
1000 steps, with the usual 0.9 two of them are off by 0.3 to 2.8."""
ONE = 0.5413
"""Where softplus is 1."""


def neural_ratio(problem: Problem, terms: Regularisation, steps: int, draws: int) -> Floats:
    """The ratio ζ at each step of the plan.

    Args:
        problem: the question, on continuous states.
        terms: of the Lagrangian.
        steps: gradient steps.
        draws: target actions drawn for each state where the policy's mean action is not known otherwise.
    """
    seen, plan, gamma = inputs(problem, draws), problem.steps, problem.gamma
    value = mlp(seen.here.shape[1], 1 + seen.centred.shape[1], problem.seed)
    ratio = mlp(seen.here.shape[1] + seen.centred.shape[1], 1, problem.seed + 1)
    multiplier = torch.zeros(1, requires_grad=True)
    players = [
        torch.optim.Adam([*value.parameters(), multiplier], LEARNING_RATE, BETAS),
        torch.optim.Adam(ratio.parameters(), LEARNING_RATE, BETAS, maximize=True),
    ]
    decays = [torch.optim.lr_scheduler.CosineAnnealingLR(player, steps) for player in players]
    mass = torch.where(seen.alive > 0, 1.0, 1 / max(1 - gamma, 1e-12))
    rng, total = np.random.default_rng(problem.seed), np.cumsum(plan.weight)
    for _ in range(steps):
        batch = torch.from_numpy(np.searchsorted(total, rng.random(BATCH) * total[-1]))
        starts = torch.from_numpy(rng.integers(len(seen.first), size=BATCH))
        here = value(seen.here[batch])
        nu = here[:, 0] + (here[:, 1:] * seen.centred[batch]).sum(dim=1)
        after = seen.alive[batch] * value(seen.there[batch])[:, 0]
        zeta = ratio_of(ratio, seen, batch, terms.positive)
        flow = zeta * (terms.reward * seen.reward[batch] + gamma * after - nu)
        lagrangian = (1 - gamma) * value(seen.first[starts])[:, 0].mean() + flow.mean()
        lagrangian = lagrangian + terms.primal / 2 * nu.square().mean() - terms.dual / 2 * zeta.square().mean()
        if terms.normalised:
            lagrangian = lagrangian + multiplier[0] * (1 - (zeta * mass[batch]).mean())
        for player in players:
            player.zero_grad()
        lagrangian.backward()
        for player, decay in zip(players, decays, strict=True):
            player.step()
            decay.step()
    with torch.no_grad():
        return ratio_of(ratio, seen, torch.arange(len(seen.here)), terms.positive).double().numpy()


def ratio_of(network: torch.nn.Module, seen: Inputs, rows: torch.Tensor, positive: bool) -> torch.Tensor:
    """The ratio ζ of some steps; before training it is near 1."""
    out: torch.Tensor = network(torch.cat([seen.here[rows], seen.centred[rows]], dim=1))[:, 0]
    return torch.nn.functional.softplus(out + ONE) if positive else 1 + out
