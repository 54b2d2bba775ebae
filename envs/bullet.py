"""The PyBullet tasks Reacher, HalfCheetah and Ant: their environments, shipped policies and behaviour policies.

Policies are stored as `policies/TASK/step-NNNNNNN.npz`, trained by `ope-vpm train-policy TASK`, each with a JSON file
of its settings, its seed and its return over 20 episodes; 100 episodes for the last one, which is the target.
"""

from functools import cache
from pathlib import Path

from ope_vpm.envs.collect import collect
from ope_vpm.envs.training import TASKS
from ope_vpm.envs.truth import Truth, find_truth
from ope_vpm.logged import LoggedDataset
from ope_vpm.policy import TargetPolicy
from ope_vpm.policy.arrays import ArrayPolicy, load_arrays
from ope_vpm.suggestions import unknown

POLICIES = Path(__file__).parent / "policies"
"""The folder of the shipped policies."""
LENGTHS = (25, 50, 100, 150)
"""The lengths of logged trajectories in the studies, for which true values are stored."""
LOGGED = {"reacher": 100, "halfcheetah": 150, "ant": 150}
"""The longest trajectories of the studies: Ant still gains speed after 100 steps."""
OLDER = -3
"""The index of the checkpoint that is the other half of "mix": the third from the end, less skilled than the target."""
MIX_ALPHA = 0.5
"""The α of the first half of "mix": the smallest of the study, so that this half is near the target."""
MIX = "mix"
"""The name of the behaviour in which two policies take turns."""

Behaviour = float | str
"""A behaviour of the study: the paper's α, or "mix"."""


def environment_id(task: str) -> str:
    """Return the gymnasium id of a task; an unknown task is refused, naming the nearest known one."""
    if task not in TASKS:
        raise ValueError(unknown("task", task, TASKS))
    return TASKS[task].environment


def checkpoints(task: str) -> list[Path]:
    """Return the files of the shipped policies, in the order of training."""
    environment_id(task)
    found = sorted((POLICIES / task).glob("step-*.npz"))
    if not found:
        raise FileNotFoundError(f"no policies are shipped for {task}: train some by `ope-vpm train-policy {task}`")
    return found


@cache
def policy(task: str, name: str = "target") -> ArrayPolicy:
    """Load a shipped policy: "target", "older" (of the mixture), or a checkpoint such as "step-0800000"."""
    files = checkpoints(task)
    by_name = {file.stem: file for file in files}
    by_name |= {"target": files[-1], "older": files[max(OLDER, -len(files))]}
    if name not in by_name:
        raise ValueError(f"{task} has no policy {name!r}: known are {', '.join(by_name)}")
    return load_arrays(by_name[name])


def target(task: str) -> ArrayPolicy:
    """Load the task's target policy, the one to evaluate: its last checkpoint."""
    return policy(task, "target")


def behaviour(task: str, kind: Behaviour) -> list[TargetPolicy]:
    """Return the policies of a behaviour, which collect trajectories in turn.

    Args:
        task: the name of the task.
        kind: α for the target's mean with 1 + α times its covariance, as in the paper; or "mix", where trajectories are
            collected in turn by α = 0.5 and by an older checkpoint.
    """
    if kind == MIX:
        return [target(task).more_random(1 + MIX_ALPHA), policy(task, "older")]
    if isinstance(kind, str) or not kind > -1:
        raise ValueError(f"a behaviour is {MIX!r} or a number α above -1: got {kind!r}")
    return [target(task).more_random(1 + kind)]


def dataset(task: str, kind: Behaviour, trajectories: int, length: int, seed: int) -> LoggedDataset:
    """Collect trajectories of a task by a behaviour.

    Args:
        task: the name of the task.
        kind: the behaviour, as in `behaviour`.
        trajectories: the number of trajectories.
        length: the largest number of steps of a trajectory.
        seed: of everything random.
    """
    return collect(environment_id(task), behaviour(task, kind), trajectories, length, seed)


def stored_truth(task: str, name: str = "target") -> Truth:
    """Return the stored values of a shipped policy, "target" or a checkpoint's name."""
    return find_truth(POLICIES / task / "truth.json", checkpoints(task)[-1].stem if name == "target" else name)
