"""Tasks of other people, by their gymnasium ids, with policies trained for minutes and known truths.

`wild_tasks()` names them, `collect_log` logs them by seed, and `task.truth(gamma, per)` is what their target is worth.
"""

from ope_vpm.envs.wild.catalogue import wild_task, wild_tasks
from ope_vpm.envs.wild.tasks import BEHAVIOURS, HALVES, WildTask, collect_log

__all__ = ["BEHAVIOURS", "HALVES", "WildTask", "collect_log", "wild_task", "wild_tasks"]
