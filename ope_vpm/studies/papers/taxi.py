"""The Taxi of Liu et al. (2018), with their estimators and ours."""

from typing import Any

from ope_vpm.envs import taxi
from ope_vpm.studies.papers.paper import answers
from ope_vpm.studies.study import Cell, Row

TARGET, LENGTH = 1000, 400
"""Their target, by iterations of Q-learning, and the steps of a trajectory."""
KNOWN: dict[str, Any] = {"behaviour": "logged"}
METHODS: dict[str, Any] = {
    "density ratio": ("liu", KNOWN),
    "model": ("model", {"method": "rollout", "unseen": "smooth"}),
    "WIS, step-wise": ("wiss", KNOWN),
    "WIS, trajectory-wise": ("wist", KNOWN),
    "naive average": "naive",
    "density ratio, cloned": "liu",
    "auto": "auto",
}
"""Their five by their own definitions, with the behaviour known as in their code, and ours without it."""


def liu(cell: Cell, seed: int, path: str | None) -> list[Row]:
    """Trajectories of an earlier policy; the average or discounted reward of the last one is asked for."""
    data = taxi.simulate(taxi.shipped(cell["behaviour"]), cell["trajectories"], LENGTH, seed)
    target, gamma = taxi.shipped(TARGET), float(cell["gamma"])
    truth = taxi.exact_value(target, gamma)
    return answers(data, {"target": target}, {"target": truth}, METHODS, gamma=gamma, per_step=True)
