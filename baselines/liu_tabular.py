"""The kernelised mini-max loss for finite states, with the kernel 1[s = s'], in closed form."""

from __future__ import annotations

from typing import cast

import numpy as np
from scipy import sparse
from scipy.sparse.linalg import splu

from ope_vpm.arrays import Floats, Integers
from ope_vpm.ope.adapter.state_features import StateFeatures
from ope_vpm.ope.problem import Problem

RIDGE = 1e-10
"""On w, relative to the mean diagonal: only there so that a unique solution exists."""


def tabular_ratio(problem: Problem, ratio: Floats) -> Floats:
    """w(s) at each step of the plan, not negative."""
    data, plan = problem.data, problem.steps
    encoder = StateFeatures.draw(problem.data, 0, problem.seed).encoder
    labels, here = np.unique(encoder.states(data.observations[plan.rows]), return_inverse=True)
    there = np.where(plan.absorbed, -1, _numbers(labels, encoder.states(problem.following)))
    first = _numbers(labels, encoder.states(problem.log.initial_observations))
    initial = np.bincount(first[first >= 0], minlength=len(labels)) / max(len(first), 1)
    w = balance(here, there, plan.weight, ratio[plan.rows], initial, problem.gamma)
    return w[here]


def balance(here: Integers, there: Integers, weight: Floats, ratio: Floats, initial: Floats, gamma: float) -> Floats:
    """The w ≥ 0 with least squared imbalance of flow, Σ_s' (γE[wρ; s'] + (1-γ)d₀(s') - E[w; s = s'])².

    Args:
        here: the state of each step, by number.
        there: the state after it; -1 where there is none.
        weight: how much each step counts.
        ratio: π/b of each step.
        initial: the law of initial states.
        gamma: at 1, E[w] = 1 takes the place of the initial law.
    """
    size = len(initial)
    p = np.bincount(here, weights=weight, minlength=size) / weight.sum()
    known = there >= 0
    share = (weight * ratio / weight.sum())[known]
    flow = sparse.csc_array((gamma * share, (there[known], here[known])), shape=(size, size))
    # In terms of μ = w·p the columns are of one size, which keeps the normal equations well conditioned.
    matrix = (sparse.identity(size, format="csc") - flow @ sparse.diags_array(1 / p)).tocsc()
    normal = (matrix.T @ matrix).tocsc()
    system = normal + RIDGE * float(normal.diagonal().mean()) * sparse.identity(size, format="csc")
    source = np.ones(size) if gamma == 1 else matrix.T @ ((1 - gamma) * initial)
    mass = np.maximum(splu(system.tocsc()).solve(source), 0)
    if gamma == 1:
        mass = mass / mass.sum()
    return cast(Floats, mass / p)


def _numbers(labels: Integers, states: Integers) -> Integers:
    """The place of each state among the labels, -1 where it is none of them."""
    place = np.minimum(np.searchsorted(labels, states), len(labels) - 1)
    return np.where(labels[place] == states, place, -1)
