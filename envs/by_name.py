"""Environments and policies as the command line names them: tasks, gymnasium ids, shipped policies, files."""

from __future__ import annotations

from collections.abc import Callable
from difflib import get_close_matches
from pathlib import Path

import numpy as np
import numpy.typing as npt

from ope_vpm.envs import bullet
from ope_vpm.envs.collect import collect
from ope_vpm.envs.training import TASKS
from ope_vpm.logged import LoggedDataset
from ope_vpm.policy import TablePolicy, TargetPolicy, load_policy, with_variance

TAXI = "taxi"
TAXI_TARGET, TAXI_BEHAVIOUR = 1000, 950


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
    """Trajectories of a task or of any gymnasium id.

    Args:
        environment: reacher, halfcheetah, ant, taxi, or an id.
        policy: a file, or the name of a shipped policy; the task's target if not given. For the PyBullet tasks
            also "mix".
        trajectories: how many.
        length: steps of each, at most.
        alpha: Gaussian policies: 1 + α times the variance. Taxi: the share of the policy, the rest being the
            table after 950 iterations.
        seed: of everything random.
        progress: called with the number of trajectories done.
    """
    if environment == TAXI:
        return _taxi(policy, trajectories, length, alpha, seed)
    if environment not in TASKS:
        if policy is None:
            near = get_close_matches(environment, [*TASKS, TAXI], n=1)
            hint = f"did you mean {near[0]}?" if near else "give a file by --policy"
            raise ValueError(f"{environment} has no shipped policies: {hint}")
        return collect(environment, _widened(_file(policy), alpha), trajectories, length, seed, progress=progress)
    acting: list[TargetPolicy]
    if policy == bullet.MIX:
        if alpha is not None:
            raise ValueError("the mixture has an α of its own: leave --alpha out")
        acting = bullet.behaviour(environment, bullet.MIX)
    else:
        known = policy is None or not Path(policy).is_file()
        chosen = bullet.policy(environment, policy or "target") if known else _file(str(policy))
        acting = [_widened(chosen, alpha)]
    return collect(bullet.environment_id(environment), acting, trajectories, length, seed, progress=progress)


def _file(policy: str) -> TargetPolicy:
    return load_policy(policy)


def _widened(policy: TargetPolicy, alpha: float | None) -> TargetPolicy:
    """The policy with 1 + α times its variance."""
    if alpha is None:
        return policy
    if not alpha > -1:
        raise ValueError(f"alpha must be above -1: got {alpha}")
    return with_variance(policy, 1 + alpha)


def _taxi(policy: str | None, trajectories: int, length: int, alpha: float | None, seed: int) -> LoggedDataset:
    from ope_vpm.envs import taxi

    names = {"target": TAXI_TARGET, "behaviour": TAXI_BEHAVIOUR}
    if policy is not None and Path(policy).is_file():
        given = load_policy(policy)
        acting: npt.ArrayLike | TablePolicy = given.probabilities(np.arange(taxi.STATES))
    else:
        name = policy or "target"
        number = name.removeprefix("iteration-")
        if name not in names and not number.isdigit():
            raise ValueError(f"taxi has no policy {name!r}: known are target, behaviour and iteration-0050 … 1000")
        acting = taxi.shipped(names[name] if name in names else int(number))
    if alpha is not None:
        acting = taxi.mixed(acting, taxi.shipped(TAXI_BEHAVIOUR), alpha)
    return taxi.simulate(acting, trajectories, length, seed)
