"""The wild tasks, by gymnasium id."""

from collections.abc import Mapping

from ope_vpm.envs.wild.networks import NetworkTask
from ope_vpm.envs.wild.tables import FiniteTask
from ope_vpm.envs.wild.tasks import HALVES, Half, WildTask
from ope_vpm.suggestions import unknown

_NETWORKS: tuple[tuple[str, Half, int, int, str, str], ...] = (
    ("Pendulum-v1", "tuning", 150, 200, "step-0160000", "step-0040000"),
    ("Acrobot-v1", "tuning", 150, 500, "step-0250000", "step-0040000"),
    ("CartPole-v1", "tuning", 300, 500, "step-0012000", "step-0008000"),
    ("Hopper-v5", "tuning", 200, 1000, "step-0600000", "step-0300000"),
    ("HopperBulletEnv-v0", "tuning", 200, 1000, "step-0700000", "step-0200000"),
    ("Reacher-v5", "reporting", 50, 50, "step-0400000", "step-0100000"),
    ("MountainCarContinuous-v0", "reporting", 300, 999, "step-0020000", "step-0010000"),
    ("InvertedDoublePendulum-v5", "reporting", 200, 1000, "step-0300000", "step-0100000"),
    ("Walker2DBulletEnv-v0", "reporting", 200, 1000, "step-0400000", "step-0200000"),
)
"""The gymnasium id, the half, the limit of a cut log and the environment's own, and the checkpoints of the target and
of the older policy."""
_FINITE: tuple[tuple[str, Half, int, int, int, int | None, float, dict[str, float]], ...] = (
    ("FrozenLake8x8-v1", "tuning", 150, 200, 1000, 20, 0.003, {}),
    ("CliffWalking-v0", "reporting", 150, 1000, 100, 8, 0.5, {"random_share": 0.05}),
    ("Taxi-v3", "reporting", 150, 200, 200, 10, 0.5, {}),
    ("Sepsis/ICU-Sepsis-v2", "reporting", 500, 500, 500, None, 0.005, {"discount": 1.0}),
)
"""The id, the half and the limits; the sweeps of value iteration of the target and of the older policy, the temperature
of the softmax, and further settings of `FiniteTask`.

CartPole's target is an early checkpoint: the later ones never fall. CliffWalking has no time limit of its own: whole
logs stop after 1000 steps; its target acts at random in one step of twenty, for it would never fall otherwise. The
limit of 50 steps of Reacher and the episodes of ten steps of ICU-Sepsis leave nothing to cut."""

_TASKS: tuple[WildTask, ...] = (
    *(
        NetworkTask(id=name, half=half, limit=cut, own_limit=own, target_name=target, older_name=older)
        for name, half, cut, own, target, older in _NETWORKS
    ),
    *(
        FiniteTask(
            id=name, half=half, limit=cut, own_limit=own, sweeps=sweeps, older_sweeps=older, temperature=heat, **more
        )
        for name, half, cut, own, sweeps, older, heat, more in _FINITE
    ),
)


def wild_tasks(half: str | None = None) -> Mapping[str, WildTask]:
    """The wild tasks by gymnasium id, of one half or all."""
    if half not in (None, *HALVES):
        raise ValueError(f"the halves are {' and '.join(HALVES)}: got {half!r}")
    return {task.id: task for task in _TASKS if half in (None, task.half)}


def wild_task(name: str) -> WildTask:
    """One task by its gymnasium id; an unknown one is answered with the nearest."""
    known = wild_tasks()
    if name not in known:
        raise ValueError(unknown("wild task", name, known))
    return known[name]
