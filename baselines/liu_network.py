"""The kernel loss for points: a softplus network w(s) that balances the flow for every function of an RKHS ball."""

from __future__ import annotations

import numpy as np
import torch
from torch import Tensor

from ope_vpm.arrays import Floats
from ope_vpm.linear.features import median_bandwidth
from ope_vpm.ope.adapter.state_features import StateFeatures
from ope_vpm.ope.problem import Problem
from ope_vpm.ope.q.training import mlp

BATCH, LEARNING_RATE = 200, 3e-3


def network_ratio(problem: Problem, ratio: Floats, steps: int) -> Floats:
    """w(s) at each step of the plan."""
    data, plan = problem.data, problem.steps
    features = StateFeatures.draw(problem.data, 0, problem.seed)
    here, there = features.points(data.observations[plan.rows]), features.points(problem.following)
    first = features.points(problem.log.initial_observations) if data.from_reset.any() else here[:1]
    rho = np.where(plan.absorbed, 0.0, ratio[plan.rows])
    network = mlp(here.shape[1], 1, problem.seed)
    columns = [torch.from_numpy(np.asarray(part, dtype=np.float32)) for part in (here, there, first, rho)]
    chance = plan.weight / plan.weight.sum()
    rng = np.random.default_rng(problem.seed)
    bandwidth = median_bandwidth(here[rng.integers(len(here), size=1000)])
    optimiser = torch.optim.Adam(network.parameters(), LEARNING_RATE, fused=True)
    uniform = bool((plan.weight == plan.weight[0]).all())
    for _ in range(steps):
        rows = torch.from_numpy(rng.choice(len(here), size=BATCH, p=None if uniform else chance))
        starts = torch.from_numpy(rng.integers(len(first), size=BATCH))
        optimiser.zero_grad()
        w = torch.nn.functional.softplus(network(columns[0][rows])[:, 0])
        if problem.gamma == 1:
            w = w / w.mean()
        loss = imbalance(
            w, columns[3][rows], columns[0][rows], columns[1][rows], columns[2][starts], problem.gamma, bandwidth
        )
        loss.backward()  # type: ignore[no-untyped-call]
        optimiser.step()
    with torch.no_grad():
        w = torch.nn.functional.softplus(network(columns[0])[:, 0])
    return w.double().numpy()


def imbalance(
    w: Tensor, rho: Tensor, here: Tensor, there: Tensor, first: Tensor, gamma: float, bandwidth: float
) -> Tensor:
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
    signs = torch.cat([gamma * w * rho, torch.full_like(w, 1 - gamma), -w])
    points = torch.cat([there, first, here])
    kernel = torch.exp(-torch.cdist(points, points).square() / (2 * bandwidth**2))
    n = len(w)
    row = torch.arange(n).repeat(3)
    different = (row[:, None] != row[None]).to(kernel.dtype)
    return signs @ (kernel * different) @ signs / (n * (n - 1))
