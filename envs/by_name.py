"""Collecting logs by the names that the command line uses: tasks, gymnasium ids, shipped policies, policy files."""

from collections.abc import Callable
from difflib import get_close_matches
from pathlib import Path

import numpy as np
import numpy.typing as npt

from ope_vpm.envs import bullet
from ope_vpm.envs.collect import collect
from ope_vpm.envs.training import TASKS
from ope_vpm.envs.wild import wild_tasks
from ope_vpm.logged import LoggedDataset
from ope_vpm.policy import TablePolicy, TargetPolicy, load_policy, with_variance
from ope_vpm.suggestions import unknown

TAXI = "taxi"
"""The name of the task that is not simulated by PyBullet."""
TAXI_TARGET, TAXI_BEHAVIOUR = 1000, 950
"""The Q-learning iterations after which the paper takes its target policy and its behaviour policy."""


def log(
    environment: str,
    policy: str | None,
    trajectories: int,
    length: int,
    *,
    alpha: float | None = None,
    seed: int = 0,
    progress: Callable[[int], None] | None = None,
) -> LoggedDataset:
    """Collect trajectories of a task or of any gymnasium environment.

    Args:
        environment: reacher, halfcheetah, ant, taxi, or a gymnasium id.
        policy: a file, or the name of a shipped policy; the task's target if not given. For the PyBullet tasks
            also "mix", for the wild tasks "target", "near", "older", "mix" or "poor".
        trajectories: the number of trajectories.
        length: the largest number of steps of a trajectory.
        alpha: for Gaussian policies, acts with 1 + α times the variance. For Taxi, acts by the policy with
            probability α and by the policy after 950 iterations otherwise.
        seed: of everything random.
        progress: called with the number of trajectories finished.
    """
    if policy is not None and Path(policy).suffix and not Path(policy).is_file():
        raise FileNotFoundError(f"there is no file {policy}: give one, or the name of a shipped policy such as target")
    if environment == TAXI:
        return _taxi(policy, trajectories, length, alpha, seed)
    if environment not in TASKS:
        wild = wild_tasks().get(environment)
        if wild is not None and (policy is None or not Path(policy).is_file()):
            if alpha is not None:
                raise ValueError(f"{environment} has behaviours of its own, such as near: leave --alpha out")
            return wild.run(wild.behaviour(policy or "target"), trajectories, length, seed)
        if policy is None:
            near = get_close_matches(environment, [*TASKS, TAXI], n=1)
            hint = f"did you mean {near[0]}?" if near else "give a file by --policy"
            raise ValueError(f"{environment} has no shipped policies: {hint}")
        return collect(environment, _widened(load_policy(policy), alpha), trajectories, length, seed, progress=progress)
    acting: list[TargetPolicy]
    if policy == bullet.MIX:
        if alpha is not None:
            raise ValueError("the mixture has an α of its own: leave --alpha out")
        acting = bullet.behaviour(environment, bullet.MIX)
    else:
        known = policy is None or not Path(policy).is_file()
        chosen = bullet.policy(environment, policy or "target") if known else load_policy(str(policy))
        acting = [_widened(chosen, alpha)]
    return collect(bullet.environment_id(environment), acting, trajectories, length, seed, progress=progress)


def shipped_policy(task: str, name: str) -> TargetPolicy:
    """Load a shipped policy of a task by name; mixtures of two policies are behaviours, not policies.

    Args:
        task: reacher, halfcheetah, ant, taxi, or a wild task such as Pendulum-v1.
        name: such as target, older, near or poor, a checkpoint of a PyBullet task, or an iteration of Taxi.
    """
    if name == bullet.MIX:
        raise ValueError("mix is two policies in turn, which log data: to evaluate, name one of them, such as target")
    if task == TAXI:
        return _taxi_policy(name)
    if task in TASKS:
        return bullet.policy(task, name)
    wild = wild_tasks()
    if task not in wild:
        raise ValueError(unknown("task", task, [*TASKS, TAXI, *wild]))
    return wild[task].behaviour(name)[0]


def _widened(policy: TargetPolicy, alpha: float | None) -> TargetPolicy:
    """Return the policy with 1 + α times its variance; None leaves it as it is."""
    if alpha is None:
        return policy
    if not alpha > -1:
        raise ValueError(f"alpha must be above -1: got {alpha}")
    return with_variance(policy, 1 + alpha)


def _taxi(policy: str | None, trajectories: int, length: int, alpha: float | None, seed: int) -> LoggedDataset:
    from ope_vpm.envs import taxi

    if policy is not None and Path(policy).is_file():
        given = load_policy(policy)
        acting: npt.ArrayLike | TablePolicy = given.probabilities(np.arange(taxi.STATES))
    else:
        acting = _taxi_policy(policy or "target")
    if alpha is not None:
        acting = taxi.mixed(acting, taxi.shipped(TAXI_BEHAVIOUR), alpha)
    return taxi.simulate(acting, trajectories, length, seed)


def _taxi_policy(name: str) -> TablePolicy:
    from ope_vpm.envs import taxi

    names = {"target": TAXI_TARGET, "behaviour": TAXI_BEHAVIOUR}
    number = name.removeprefix("iteration-")
    if name not in names and not number.isdigit():
        raise ValueError(f"taxi has no policy {name!r}: known are target, behaviour and iteration-0050 … 1000")
    return taxi.shipped(names[name] if name in names else int(number))
