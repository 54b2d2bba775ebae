"""FQE for finite pairs: the counted Bellman equation Q = r̂ + γP̂ΠQ, solved exactly.

Its value is that of the counted model; what is added is Q. Pairs never seen have the mean value of their state's
seen pairs, weighted by the target.
"""

from __future__ import annotations

from ope_vpm.baselines.model_tabular import counted_model, find_tabular, solve
from ope_vpm.logged.columns import Floats
from ope_vpm.ope.conclude import Found
from ope_vpm.ope.problem import Problem


def find_counted(problem: Problem) -> Found:
    """The exact solution, with its influence function."""
    return find_tabular(problem, None)


def counted_q(problem: Problem) -> tuple[Floats, Floats]:
    """Q of each step's pair and V of the state after it, 0 where nothing follows."""
    model = counted_model(problem)
    value, _, values = solve(model, problem.gamma)
    offset = value if problem.gamma == 1 else 0.0
    q = model.reward - offset + problem.gamma * (model.transitions() @ values)
    after = values[model.following]
    after[model.following < 0] = 0.0
    return q[model.pair], after
