"""Policies that choose from discrete actions: by a function, or by a table of probabilities."""

from collections.abc import Callable

import numpy as np
import numpy.typing as npt

from ope_vpm.arrays import Array, Floats
from ope_vpm.policy.target import Generator, TargetPolicy, in_batches


class CategoricalPolicy(TargetPolicy):
    """Discrete actions, by a function from observations to probabilities (n, n_actions)."""

    def __init__(
        self,
        probabilities: Callable[[Array], npt.ArrayLike],
        n_actions: int | None = None,
        observation_size: int | None = None,
    ) -> None:
        self._function = probabilities
        self.n_actions = n_actions
        self.observation_size = observation_size

    def probabilities(self, observations: Array) -> Floats:
        """The probability of every action, checked."""
        values = in_batches(lambda part: np.asarray(self._function(part), dtype=np.float64), observations)
        return checked_probabilities(values, len(observations), self.n_actions)

    def sample(self, observations: Array, rng: Generator) -> Array:
        """Draw by one uniform number per row."""
        cumulative = self.probabilities(observations).cumsum(axis=1)
        uniform = rng.random((len(observations), 1)) * cumulative[:, -1:]
        return (uniform >= cumulative[:, :-1]).sum(axis=1)

    def log_prob(self, observations: Array, actions: Array) -> Floats:
        """Minus infinity where the policy never takes the action."""
        chosen = np.take_along_axis(self.probabilities(observations), np.asarray(actions)[:, None], axis=1)
        with np.errstate(divide="ignore"):
            values: Floats = np.log(chosen[:, 0])
        return values


class TablePolicy(CategoricalPolicy):
    """Finite states, by a table: (states, actions), or (n₁, …, n_k, actions) for multi-discrete states."""

    def __init__(self, table: npt.ArrayLike) -> None:
        values = np.array(table, dtype=np.float64)
        if values.ndim < 2:
            raise ValueError(f"a table must have shape (states, actions): got {values.shape}")
        flat = checked_probabilities(values.reshape(-1, values.shape[-1]), values[..., 0].size, None)
        self.table = flat.reshape(values.shape)
        self.table.flags.writeable = False
        super().__init__(self._look_up, values.shape[-1], values.ndim - 1)

    def described(self) -> list[str]:
        """States and actions."""
        return [f"{' × '.join(map(str, self.table.shape[:-1]))} states", f"{self.n_actions} actions"]

    def _look_up(self, observations: Array) -> Floats:
        index = np.asarray(observations)
        if index.dtype.kind not in "iu":
            raise TypeError(
                f"a table needs integer observations: got dtype {index.dtype} (save their numbers as integers)"
            )
        index = index.reshape(len(index), -1)
        sizes = np.array(self.table.shape[:-1])
        if index.shape[1] != len(sizes) or (index < 0).any() or (index >= sizes).any():
            raise ValueError(
                f"the table knows states below {tuple(sizes.tolist())}: got observations of shape "
                f"{np.shape(observations)} up to {index.max(axis=0).tolist()} (is it a policy for another task?)"
            )
        return self.table[tuple(index.T)]


def table_of(policy: npt.ArrayLike | TablePolicy) -> Floats:
    """The probabilities of a table policy, or of an array after it was checked."""
    known = policy if isinstance(policy, TablePolicy) else TablePolicy(policy)
    return known.table


def one_hot(actions: Array, n_actions: int) -> Floats:
    """Probability 1 on one action per row."""
    if actions.size and not (actions.min() >= 0 and actions.max() < n_actions):
        raise ValueError(f"the policy returned action {int(actions.max())}: there are {n_actions}, counted from 0")
    return np.eye(n_actions)[actions.astype(np.int64)]


def checked_probabilities(values: Array, rows: int, n_actions: int | None) -> Floats:
    """Probabilities, (rows, n_actions), whose rows sum to 1; float32 rounding is smoothed away."""
    if values.ndim != 2 or len(values) != rows or (n_actions is not None and values.shape[1] != n_actions):
        raise ValueError(f"probabilities must have shape ({rows}, {n_actions or 'actions'}): got {values.shape}")
    total = values.sum(axis=1, keepdims=True)
    # 1e-4 is far above what float32 sums to and far below what logits or counts do.
    wrong = ~(np.abs(total[:, 0] - 1) <= 1e-4) | (values < -1e-9).any(axis=1)
    if wrong.any():
        row = int(np.argmax(wrong))
        raise ValueError(
            f"probabilities must not be negative and sum to 1: row {row} is {values[row]} "
            "(if these are logits, pass output='logits')"
        )
    return np.clip(values, 0.0, None) / total
