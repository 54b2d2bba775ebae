"""The wild tasks, by gymnasium id."""

from __future__ import annotations

from collections.abc import Mapping

from ope_vpm.envs.wild.networks import NetworkTask
from ope_vpm.envs.wild.tables import FiniteTask
from ope_vpm.envs.wild.tasks import HALVES, WildTask
from ope_vpm.suggestions import suggestion

_TASKS: tuple[WildTask, ...] = (
    NetworkTask(
        id="Pendulum-v1",
        half="tuning",
        limit=150,
        own_limit=200,
        target_name="step-0160000",
        older_name="step-0040000",
    ),
    NetworkTask(
        id="Acrobot-v1",
        half="tuning",
        limit=150,
        own_limit=500,
        target_name="step-0250000",
        older_name="step-0040000",
    ),
    NetworkTask(
        id="CartPole-v1",
        half="tuning",
        limit=300,
        own_limit=500,
        target_name="step-0012000",
        older_name="step-0008000",
    ),
    NetworkTask(
        id="Hopper-v5",
        half="tuning",
        limit=200,
        own_limit=1000,
        target_name="step-0600000",
        older_name="step-0300000",
    ),
    NetworkTask(
        id="HopperBulletEnv-v0",
        half="tuning",
        limit=200,
        own_limit=1000,
        target_name="step-0700000",
        older_name="step-0200000",
    ),
    FiniteTask(
        id="FrozenLake8x8-v1",
        half="tuning",
        limit=150,
        own_limit=200,
        sweeps=1000,
        older_sweeps=20,
        temperature=0.003,
    ),
    NetworkTask(
        id="Reacher-v5",
        half="reporting",
        limit=50,
        own_limit=50,
        target_name="step-0400000",
        older_name="step-0100000",
    ),
    NetworkTask(
        id="MountainCarContinuous-v0",
        half="reporting",
        limit=300,
        own_limit=999,
        target_name="step-0020000",
        older_name="step-0010000",
    ),
    NetworkTask(
        id="InvertedDoublePendulum-v5",
        half="reporting",
        limit=200,
        own_limit=1000,
        target_name="step-0300000",
        older_name="step-0100000",
    ),
    NetworkTask(
        id="Walker2DBulletEnv-v0",
        half="reporting",
        limit=200,
        own_limit=1000,
        target_name="step-0400000",
        older_name="step-0200000",
    ),
    FiniteTask(
        id="CliffWalking-v0",
        half="reporting",
        limit=150,
        own_limit=1000,
        sweeps=100,
        older_sweeps=8,
        temperature=0.5,
        random_share=0.05,
    ),
    FiniteTask(
        id="Taxi-v3",
        half="reporting",
        limit=150,
        own_limit=200,
        sweeps=200,
        older_sweeps=10,
        temperature=0.5,
    ),
    FiniteTask(
        id="Sepsis/ICU-Sepsis-v2",
        half="reporting",
        limit=500,
        own_limit=500,
        sweeps=500,
        older_sweeps=None,
        temperature=0.005,
        discount=1.0,
    ),
)
"""CartPole's target is an early checkpoint: the later ones never fall. CliffWalking has no time limit of its own: whole
logs stop after 1000 steps; its target acts at random in one step of twenty, for it would never fall otherwise. The
limit of 50 steps of Reacher and the episodes of ten steps of ICU-Sepsis leave nothing to cut."""


def wild_tasks(half: str | None = None) -> Mapping[str, WildTask]:
    """The wild tasks by gymnasium id, of one half or all."""
    if half not in (None, *HALVES):
        raise ValueError(f"the halves are {' and '.join(HALVES)}: got {half!r}")
    return {task.id: task for task in _TASKS if half in (None, task.half)}


def wild_task(name: str) -> WildTask:
    """One task by its gymnasium id; an unknown one is answered with the nearest."""
    known = wild_tasks()
    if name not in known:
        raise ValueError(f"there is no wild task {name!r}: {suggestion(name, known)}")
    return known[name]
