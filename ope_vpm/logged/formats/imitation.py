"""Trajectories of `imitation`, by their attributes: `obs`, `acts`, `rews`, `terminal`, `infos`.

The library itself is not needed; it does not install beside the others.
"""

from collections.abc import Sequence
from typing import Any

from ope_vpm.logged.dataset import LoggedDataset
from ope_vpm.logged.episode import Episode
from ope_vpm.logged.formats.files import Options


def matches(source: object) -> bool:
    """Whether this is a list or tuple of trajectories."""
    return (
        isinstance(source, Sequence)
        and not isinstance(source, str | bytes)
        and len(source) > 0
        and all(hasattr(source[0], name) for name in ("obs", "acts", "terminal"))
    )


def read(source: Any, options: Options) -> LoggedDataset:
    """Each trajectory is an episode; a cut one (`terminal` is False) ends without a flag."""
    return LoggedDataset.from_episodes(
        [_episode(index, trajectory) for index, trajectory in enumerate(source)], **options.spaces()
    )


def _episode(index: int, trajectory: Any) -> Episode:
    if not hasattr(trajectory, "rews"):
        raise ValueError(
            f"trajectory {index} has no rewards: collect with rewards (TrajectoryWithRew), a value needs them"
        )
    infos = getattr(trajectory, "infos", None)
    last = infos[-1] if infos is not None and len(infos) else {}
    limited = bool(last.get("TimeLimit.truncated", False))
    return Episode(
        trajectory.obs,
        trajectory.acts,
        trajectory.rews,
        terminated=bool(trajectory.terminal) and not limited,
        truncated=limited,
    )
