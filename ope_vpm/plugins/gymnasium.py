"""gymnasium: a wrapper that logs every transition to a file, for one environment or for several side by side.

env = LogTransitions(gym.make("CartPole-v1"), "log.npz")
...
env.close()
data = ov.load_dataset("log.npz")
"""

import shutil
import weakref
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import gymnasium as gym
import numpy as np
from gymnasium import spaces
from gymnasium.vector import VectorEnv, VectorWrapper

from ope_vpm.arrays import Bools
from ope_vpm.logged.columns import numbered_actions, observation_column
from ope_vpm.logged.formats import parts, save
from ope_vpm.logged.formats.files import Options
from ope_vpm.logged.spaces import numbered_space, simple_space
from ope_vpm.outside import check_place


def copied(observation: Any) -> Any:
    """An observation of one's own: some environments write the next one to the same memory."""
    if isinstance(observation, dict):
        return {name: copied(part) for name, part in observation.items()}
    return tuple(copied(part) for part in observation) if isinstance(observation, tuple) else np.array(observation)


def row(values: Any, place: int) -> Any:
    """A copy of the part that belongs to one of several environments."""
    if isinstance(values, dict):
        return {name: row(part, place) for name, part in values.items()}
    return tuple(row(part, place) for part in values) if isinstance(values, tuple) else np.array(values[place])


def batched(observations: Sequence[Any]) -> Any:
    """Observations one below the other; of dictionaries and tuples, each part."""
    first = observations[0]
    if isinstance(first, dict):
        return {name: batched([each[name] for each in observations]) for name in first}
    if isinstance(first, tuple):
        return tuple(batched(part) for part in zip(*observations, strict=True))
    return np.stack(observations)


FLUSH_EVERY = 1000
"""Steps after which a part is written: what a killed process loses at most. Writing one takes milliseconds."""


class LogTransitions(gym.Wrapper[Any, Any, Any, Any]):
    """Log every transition of an environment; `ov.load_dataset(path)` reads it back.

    The file is written when the environment is closed, or at the latest when the program ends, with an error or not.
    Until then the rows go to numbered files in the folder `<path>.parts`, which `ov.load_dataset(path)` reads just as
    well after a crash. Given a vectorised environment, this makes a `LogVectorTransitions`.

    Args:
        env: the environment.
        path: the file, ending in .npz, .parquet or .h5.
        flush_every: steps after which rows are written to the disk.
        overwrite: remove a log of that name at once; without it such a name is refused.
    """

    def __new__(cls, env: Any, path: str | Path, flush_every: int = FLUSH_EVERY, *, overwrite: bool = False) -> Any:
        """Choose the wrapper that fits the environment."""
        if isinstance(env, VectorEnv):
            return LogVectorTransitions(env, path, flush_every, overwrite=overwrite)
        return super().__new__(cls)

    def __init__(self, env: Any, path: str | Path, flush_every: int = FLUSH_EVERY, *, overwrite: bool = False) -> None:
        super().__init__(env)
        self._journal = Journal(Path(path), env.observation_space, env.action_space, flush_every, overwrite)
        self._finish = weakref.finalize(self, self._journal.close)
        self._seen: Any = None

    def reset(self, *, seed: int | None = None, options: dict[str, Any] | None = None) -> tuple[Any, dict[str, Any]]:
        """Reset the environment; an episode that was going on ends here, neither terminated nor truncated."""
        observation, info = self.env.reset(seed=seed, options=options)
        self._seen = copied(observation)
        self._journal.begin(0)
        return observation, info

    def step(self, action: Any) -> tuple[Any, Any, bool, bool, dict[str, Any]]:
        """Step the environment and log the transition."""
        observation, reward, terminated, truncated, info = self.env.step(action)
        following = copied(observation)
        self._journal.add(0, self._seen, action, float(reward), following, bool(terminated), bool(truncated))
        self._seen = following
        return observation, reward, terminated, truncated, info

    def close(self) -> None:
        """Write the file and close the environment."""
        self._finish()
        self.env.close()  # type: ignore[no-untyped-call]


class LogVectorTransitions(VectorWrapper):
    """Log every transition of environments side by side; every way in which gymnasium resets them is understood.

    By default an ended environment is reset by the next step, whose action is ignored: such a step is not logged. With
    `AutoresetMode.SAME_STEP` the last state comes in the infos, and with `DISABLED` from `reset` with a mask.
    """

    def __init__(
        self,
        env: VectorEnv[Any, Any, Any],
        path: str | Path,
        flush_every: int = FLUSH_EVERY,
        *,
        overwrite: bool = False,
    ) -> None:
        spaces_of_one = env.single_observation_space, env.single_action_space
        self._journal = Journal(Path(path), *spaces_of_one, flush_every, overwrite)
        super().__init__(env)  # after what may be refused: gymnasium closes an object that has come this far
        self._finish = weakref.finalize(self, self._journal.close)
        self._seen: list[Any] = [None] * env.num_envs
        self._ended: Bools = np.zeros(env.num_envs, dtype=np.bool_)
        mode = (env.metadata or {}).get("autoreset_mode")  # gymnasium 1.0 has no modes, and resets by the next step
        self._mode = str(getattr(mode, "value", mode or "NextStep"))

    def reset(self, *, seed: Any = None, options: dict[str, Any] | None = None) -> tuple[Any, dict[str, Any]]:
        """Reset all environments, or those of `options["reset_mask"]`."""
        mask = np.ones(self.num_envs, dtype=np.bool_) if not options else options.get("reset_mask")
        chosen = np.ones(self.num_envs, dtype=np.bool_) if mask is None else np.array(mask)
        observations, infos = self.env.reset(seed=seed, options=options)
        for place in np.flatnonzero(chosen):
            self._begin(int(place), row(observations, int(place)))
        return observations, infos

    def step(self, actions: Any) -> tuple[Any, Any, Any, Any, dict[str, Any]]:
        """Step all environments and log the transition of each that did not spend the step on a reset."""
        observations, rewards, terminated, truncated, infos = self.env.step(actions)
        for place in range(self.num_envs):
            following = row(observations, place)
            if self._ended[place] and self._mode == "NextStep":
                self._begin(place, following)
                continue
            ended = bool(terminated[place] or truncated[place])
            start = following
            if ended and self._mode == "SameStep":
                following = _final(infos, place)
            flags = bool(terminated[place]), bool(truncated[place])
            self._journal.add(place, self._seen[place], row(actions, place), float(rewards[place]), following, *flags)
            self._seen[place], self._ended[place] = following, ended
            if ended and self._mode == "SameStep":
                self._begin(place, start)
        return observations, rewards, terminated, truncated, infos

    def close(self, **kwargs: Any) -> None:
        """Write the file and close the environments."""
        self._finish()
        super().close(**kwargs)

    def _begin(self, place: int, start: Any) -> None:
        self._seen[place], self._ended[place] = start, False
        self._journal.begin(place)


class Journal:
    """Rows on their way to a file: kept in memory for a while, then as parts, at the end as one file."""

    def __init__(
        self, path: Path, observation_space: Any, action_space: Any, flush_every: int, overwrite: bool
    ) -> None:
        self._path, self._folder, self._flush_every = path.expanduser(), parts.folder_of(path.expanduser()), flush_every
        if flush_every < 1:
            raise ValueError(f"flush_every must be at least 1: got {flush_every}")
        if self._path.suffix not in (".npz", ".parquet", ".h5"):
            raise ValueError(f"the name must end in .npz, .parquet or .h5: got {self._path.name!r}")
        check_place(self._path)
        check_new(self._path, overwrite)
        if not isinstance(action_space, spaces.Discrete | spaces.Box | spaces.MultiDiscrete | spaces.MultiBinary):
            raise TypeError(f"actions must be Discrete, Box, MultiDiscrete or MultiBinary: got {action_space}")
        simple_space(numbered_space(action_space))  # what could not be written at the end is refused now
        self._observation_space, self._action_space = simple_space(observation_space), action_space
        # Both at once: while this log is being written, its name must not read as the old one.
        self._path.unlink(missing_ok=True)
        shutil.rmtree(self._folder, ignore_errors=True)
        self._rows: list[tuple[Any, ...]] = []
        self._episode: dict[int, int] = {}
        self._next_episode, self._part, self._closed = 0, 0, False

    def begin(self, place: int) -> None:
        """A new episode of one of the environments."""
        self._episode[place] = self._next_episode
        self._next_episode += 1

    def add(self, place: int, seen: Any, action: Any, reward: float, following: Any, *flags: bool) -> None:
        """One transition of the episode that is going on there."""
        if self._closed:
            raise ValueError(
                f"{self._path} was written when the environment was closed: steps after that are not logged"
            )
        self._rows.append((seen, np.array(action), reward, following, *flags, self._episode[place]))
        if len(self._rows) >= self._flush_every:
            self.flush()

    def flush(self) -> None:
        """Write the rows that are in memory as a part."""
        if not self._rows:
            return
        seen, actions, rewards, following, terminated, truncated, episode = zip(*self._rows, strict=True)
        numbers, space = numbered_actions(np.stack(actions), self._action_space)
        columns = {
            "observations": observation_column("observations", batched(seen)),
            "actions": numbers if isinstance(space, spaces.Discrete) else numbers.reshape(len(numbers), -1),
            "rewards": np.array(rewards),
            "next_observations": observation_column("next_observations", batched(following)),
            "terminated": np.array(terminated),
            "truncated": np.array(truncated),
            "episode": np.array(episode),
        }
        self._folder.mkdir(exist_ok=True)
        parts.write(self._folder, self._part, columns, self._observation_space, simple_space(space))
        self._part += 1
        self._rows = []

    def close(self) -> None:
        """Write the file from the parts, and only then remove them."""
        self._closed = True
        self.flush()
        if self._part:
            save(parts.read(self._folder, Options(trust=True)), self._path)
            shutil.rmtree(self._folder)


def check_new(path: Path, overwrite: bool) -> None:
    """Refuse the name of a log that is there, finished or in parts, unless it may be overwritten."""
    for taken in (path, parts.folder_of(path)):
        if taken.exists() and not overwrite:
            raise FileExistsError(
                f"{taken} exists already: give another name, or overwrite=True to lose the log that is there"
            )


def _final(infos: dict[str, Any], place: int) -> Any:
    """The last state of an episode whose environment was reset in the same step."""
    for name in ("final_obs", "final_observation"):  # gymnasium 1.1 and later, and before 1.0
        if name in infos:
            return copied(infos[name][place])
    raise KeyError("an environment that resets in the same step must give final_obs in its infos")
