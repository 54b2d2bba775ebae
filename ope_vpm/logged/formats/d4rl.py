"""D4RL-style HDF5, and d3rlpy's version 1, which has the same columns and `episode_terminals`."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np

from ope_vpm.arrays import Array
from ope_vpm.logged.columns import flag_column
from ope_vpm.logged.dataset import LoggedDataset
from ope_vpm.logged.formats.files import Options, require
from ope_vpm.optional import library

REQUIRED = ("observations", "actions", "rewards", "terminals")
LOG_PROB = "infos/action_log_probs"


def read(path: Path, options: Options) -> LoggedDataset:
    """Columns `observations`, `actions`, `rewards`, `terminals`; `timeouts`, `next_observations` if there."""
    with library("h5py", "d3rlpy").File(path, "r") as file:
        require(path, REQUIRED, file)
        actions = file["actions"][()]
        if "discrete_action" in file and bool(file["discrete_action"][()]):
            actions = actions.astype(np.int64)
        terminated = flag_column("terminals", file["terminals"][()], len(actions))
        return LoggedDataset.from_arrays(
            file["observations"][()],
            actions,
            file["rewards"][()],
            file["next_observations"][()] if "next_observations" in file else None,
            terminated,
            _truncated(file, terminated),
            behaviour_log_prob=file[LOG_PROB][()] if LOG_PROB in file else None,
            observation_space=options.observation_space,
            action_space=options.action_space,
        )


def _truncated(file: Any, terminated: Array) -> Array | None:
    if "timeouts" in file:
        return flag_column("timeouts", file["timeouts"][()], len(terminated))
    if "episode_terminals" in file:
        return flag_column("episode_terminals", file["episode_terminals"][()], len(terminated)) & ~terminated
    return None
