"""The kinds of task, one file each, imported when asked for."""

from __future__ import annotations

from importlib import import_module
from typing import cast

from ope_vpm.leaderboard.tasks.base import AXES, Reference, Task
from ope_vpm.leaderboard.words import unknown

__all__ = ["AXES", "KINDS", "Reference", "Task", "task_class"]

KINDS = {
    "random_mdp": "ope_vpm.leaderboard.tasks.random_mdp:RandomMDPTask",
    "linear_gaussian": "ope_vpm.leaderboard.tasks.linear_gaussian:LinearGaussianTask",
    "taxi": "ope_vpm.leaderboard.tasks.taxi:TaxiTask",
    "wild": "ope_vpm.leaderboard.tasks.wild:WildLeaderboardTask",
    "bullet": "ope_vpm.leaderboard.tasks.bullet:BulletTask",
    "files": "ope_vpm.leaderboard.tasks.files:FilesTask",
}


def task_class(kind: str) -> type[Task]:
    """The kind of task of that name; an unknown one is answered with the nearest."""
    if kind not in KINDS:
        raise ValueError(unknown("kind of task", kind, KINDS))
    module, _, name = KINDS[kind].partition(":")
    return cast(type[Task], getattr(import_module(module), name))
