"""Wild tasks with network policies: shipped checkpoints, logs from the environment itself, stored truths."""

from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
from gymnasium import spaces

from ope_vpm.arrays import Array, Floats
from ope_vpm.envs.collect import MakeEnvironment, collect, copies, without_limit
from ope_vpm.envs.truth import Truth, Value, find_truth
from ope_vpm.envs.wild.tasks import NEAR, Per, WildTask, check_gamma
from ope_vpm.logged import LoggedDataset
from ope_vpm.policy import CategoricalPolicy, TargetPolicy
from ope_vpm.policy.arrays import ArrayPolicy, load_arrays

POLICIES = Path(__file__).parent.parent / "policies"


@dataclass(frozen=True, kw_only=True)
class NetworkTask(WildTask):
    """A task with network policies in `policies/ID`; its truth is that of 4000 episodes or more."""

    target_name: str
    """The checkpoint to evaluate, such as "step-0060000"."""
    older_name: str

    @property
    def target(self) -> ArrayPolicy:
        """A Gaussian policy, or a softmax over discrete actions."""
        return self.policy(self.target_name)

    @property
    def folder(self) -> Path:
        """Where checkpoints and truth are kept."""
        return POLICIES / self.id

    def stored_truth(self) -> Truth:
        """The stored values of the target."""
        return find_truth(self.folder / "truth.json", self.target_name)

    def policy(self, name: str) -> ArrayPolicy:
        """A checkpoint by its name."""
        return _network(self.folder / f"{name}.npz")

    def checkpoints(self) -> list[str]:
        """The names of the shipped policies, in the order of training."""
        return sorted(file.stem for file in self.folder.glob("step-*.npz"))

    def near(self) -> TargetPolicy:
        """Twice the variance of continuous actions, twice the temperature of discrete ones."""
        return self.target.more_random(NEAR)

    def older(self) -> TargetPolicy:
        """An earlier checkpoint."""
        return self.policy(self.older_name)

    def poor(self) -> TargetPolicy:
        """Uniform over the action space."""
        with copies(self._make(), 1) as made:
            return uniform_over(made[0].action_space)

    def run(self, policies: list[TargetPolicy], episodes: int, limit: int, seed: int) -> LoggedDataset:
        """Run the policies in the environment."""
        return collect(self._make(), policies, episodes, limit, seed)

    def content(self) -> bytes:
        """The bytes of the files of the target and the older policy."""
        return b"".join((self.folder / f"{name}.npz").read_bytes() for name in (self.target_name, self.older_name))

    def _make(self) -> MakeEnvironment:
        return without_limit(self.id, self.own_limit)

    def truth(self, gamma: float, per: Per = "step", *, cut: bool = True) -> Value:
        """The stored value of the target."""
        stored = self.stored_truth()
        if gamma == 1:
            return (stored.per_step if per == "step" else stored.per_episode)[self.steps(cut)]
        check_gamma(gamma, per)
        return stored.discounted


@cache
def _network(file: Path) -> ArrayPolicy:
    return load_arrays(file)


class UniformPolicy(TargetPolicy):
    """Continuous actions, uniform between two bounds whatever is observed."""

    def __init__(self, low: npt.ArrayLike, high: npt.ArrayLike) -> None:
        self.low = np.asarray(low, dtype=np.float64)
        self.high = np.asarray(high, dtype=np.float64)
        self.action_dimension = len(self.low)

    def sample(self, observations: Array, rng: np.random.Generator) -> Array:
        """One draw per row."""
        return rng.uniform(self.low, self.high, (len(observations), len(self.low)))

    def log_prob(self, observations: Array, actions: Array) -> Floats:
        """The log-density, which is equal everywhere between the bounds."""
        return np.full(len(observations), -np.log(self.high - self.low).sum())


def uniform_over(space: spaces.Space[Any]) -> TargetPolicy:
    """The policy that draws uniformly from a space of discrete actions or a box."""
    if isinstance(space, spaces.Discrete):
        actions = int(space.n)
        return CategoricalPolicy(lambda seen: np.full((len(seen), actions), 1 / actions), actions)
    if isinstance(space, spaces.Box):
        return UniformPolicy(space.low.reshape(-1), space.high.reshape(-1))
    raise TypeError(f"actions must be a Box or Discrete: got {space}")
