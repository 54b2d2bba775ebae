"""D4RL-style HDF5, and d3rlpy's version 1, which has the same columns and `episode_terminals`."""

from pathlib import Path

from ope_vpm.arrays import Array
from ope_vpm.logged.columns import flag_column, whole_numbers
from ope_vpm.logged.dataset import LoggedDataset
from ope_vpm.logged.formats.files import Options, require
from ope_vpm.logged.formats.hdf5 import Members, opened

REQUIRED = ("observations", "actions", "rewards", "terminals")
LOG_PROB = "infos/action_log_probs"


def read(path: Path, options: Options) -> LoggedDataset:
    """Columns `observations`, `actions`, `rewards`, `terminals`; `timeouts`, `next_observations` if there."""
    with opened(path, options.trust) as file:
        require(path, REQUIRED, file)
        actions = file.numbers("actions")
        if "discrete_action" in file and file.flag("discrete_action"):
            actions = whole_numbers("actions", actions)
        observations = file.numbers("observations")
        terminated = flag_column("terminals", file.numbers("terminals"), len(observations))
        return LoggedDataset.from_arrays(
            observations,
            actions,
            file.numbers("rewards"),
            file.numbers("next_observations") if "next_observations" in file else None,
            terminated,
            _truncated(file, terminated),
            behaviour_log_prob=file.numbers(LOG_PROB) if LOG_PROB in file else None,
            **options.spaces(),
        )


def _truncated(file: Members, terminated: Array) -> Array | None:
    if "timeouts" in file:
        return flag_column("timeouts", file.numbers("timeouts"), len(terminated))
    if "episode_terminals" in file:
        return flag_column("episode_terminals", file.numbers("episode_terminals"), len(terminated)) & ~terminated
    return None
