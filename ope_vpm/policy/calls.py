"""Functions of observations as users write them: for a whole batch or for one observation, with arrays or tensors.

Whether a policy is a function of one observation is asked of it about a few logged ones, in several ways.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from threading import RLock
from typing import Any

import numpy as np

from ope_vpm.arrays import Array, Floats
from ope_vpm.optional import is_distribution, is_tensor, torch
from ope_vpm.outside import one_line
from ope_vpm.policy.target import TargetPolicy

ONE_AT_A_TIME = RLock()
"""Held while somebody's own function or network is asked: models of stable-baselines3 keep the distribution of the last
observations they were asked about, and another thread would read it."""
PROBED = 2
"""Observations for which a function is called to see what it returns: with one, some functions drop the row's axis."""
Read = Callable[[Any, int], Array]
"""From what a function returned, and the number of observations it was asked about, to one entry per row."""


@dataclass(frozen=True)
class Call:
    """A function of observations, asked about all of them at once or about one at a time."""

    function: Callable[[Any], Any]
    batched: bool

    def __call__(self, read: Callable[..., Array], observations: Array, *columns: Array) -> Array:
        """The function's answers, read by `read(returned, rows, *columns)`, one entry per row."""
        with ONE_AT_A_TIME:
            if self.batched:
                return read(_of_rows(self.function(observations), len(observations)), len(observations), *columns)
            rows = [(row, [column[i : i + 1] for column in columns]) for i, row in enumerate(observations)]
            return np.concatenate([read(as_row(self.function(row)), 1, *parts) for row, parts in rows])

    def reading(self, read: Read) -> Callable[[Array], Array]:
        """The function of observations whose answers are read."""
        return lambda observations: self(read, observations)

    def probe(self, observations: Array) -> tuple[Any, int]:
        """The function's answer for the first observations, and their number."""
        if self.batched:
            first = np.array(observations[:PROBED])  # a copy, which the function may edit
            return _of_rows(self.function(first), len(first)), len(first)
        return as_row(self.function(np.array(observations[0]))), 1


def _of_rows(returned: Any, rows: int) -> Any:
    """Refuse distributions for other rows; the shape of arrays is checked by readers."""
    if is_distribution(returned) and rows != 1:
        shape = (*returned.batch_shape, *returned.event_shape)
        if shape[:1] != (rows,):
            raise ValueError(f"a distribution must have one row for each of the {rows} observations: got shape {shape}")
    return returned


@contextmanager
def running(observations: Array) -> Iterator[None]:
    """Without gradients, and with one sentence where a network of a library cannot take the observations."""
    try:
        with ONE_AT_A_TIME, torch.no_grad():
            yield
    except (RuntimeError, IndexError, AssertionError, torch.jit.Error) as error:  # what libraries raise on other shapes
        reason = one_line(error)
        if "TorchScript" in reason:  # the cause comes last, after the program's own traceback
            reason = str(error).strip().splitlines()[-1]
        shape = np.shape(observations)
        raise ValueError(f"the network cannot be run on observations of shape {shape}: {reason}") from error


def as_array(values: Any) -> Array:
    """A tensor, or whatever numpy takes, as an array."""
    return values.detach().cpu().numpy() if is_tensor(values) else np.asarray(values)


def as_row(returned: Any) -> Any:
    """The answer for one observation as a batch of one; distributions are read row by row as they are."""
    return returned if is_distribution(returned) else as_array(returned)[None]


ASKED = 16
"""Observations about which a policy is asked when it is first met: a function that answers one row of ten at random is
found out with probability 0.97, and the calls take less than a hundredth of an evaluation of 5000 rows."""
SPREAD, SIZE = 1e-2, 1e-5
"""Rounding of an answer, in its standard deviations over observations and in its largest size: float32 sums
depend on the number of rows. Normalising by a batch moves answers by about one standard deviation."""
TIES = 1 / 8
"""The share of rows in which batches may differ by more: rounding decides where two actions are equally good."""


def check_function(policy: TargetPolicy, observations: Array) -> None:
    """Refuse a policy whose answer to an observation depends on anything else: draws, other rows, or their order.

    Policies of which nothing is known but their draws are not asked.

    Args:
        policy: of a known kind.
        observations: logged ones.
    """
    seen = _a_few(observations)
    drawn, every = np.asarray(policy.sample(seen, np.random.default_rng(0))), np.arange(len(seen))
    if policy.mean_action(seen) is None and not policy.has_log_prob:
        return

    def answers(rows: Array) -> Floats:
        usual = policy.mean_action(seen[rows])
        return policy.log_prob(seen[rows], drawn[rows])[:, None] if usual is None else usual

    first = answers(every)
    _refuse_others(first, answers(every), 0.0, AT_RANDOM)
    _refuse_others(first, answers(every[::-1])[::-1], TIES, BY_ORDER)
    try:
        with np.errstate(all="ignore"):  # a single row has a deviation of 0, by which some divide
            pairs = [answers(np.array([row, row])) for row in every]  # some functions drop the axis of a single row
    except (ArithmeticError, ValueError, RuntimeError):  # such as the refusal of the NaN that follows
        pairs = [np.full((2, 1), np.nan)] * len(every)
    _refuse_others(first, np.stack([pair[0] for pair in pairs]), TIES, BY_BATCH)


AT_RANDOM = (
    "twice: it draws at random or remembers earlier calls; return probabilities or a torch distribution, and call "
    ".eval() on a module with dropout"
)
BY_ORDER = "in the reverse order: the rows around an observation enter its answer; use that observation alone"
BY_BATCH = (
    "one at a time: the other rows of a batch enter its answer; normalise by constants of the training, and call "
    ".eval() on a module with batch normalisation"
)


def _a_few(observations: Array) -> Array:
    """At most `ASKED` different observations, from all over the log."""
    some = observations[np.linspace(0, len(observations) - 1, 4 * ASKED).astype(np.int64)]  # more: some are equal
    first = np.sort(np.unique(some.reshape(len(some), -1), axis=0, return_index=True)[1])
    return some[first[np.linspace(0, len(first) - 1, min(ASKED, len(first))).astype(np.int64)]]


def _refuse_others(first: Floats, other: Floats, share: float, how: str) -> None:
    """Refuse answers of which more than a share of the rows differ from the first ones by more than rounding."""
    known = np.where(np.isfinite(first), first, 0.0)
    with np.errstate(invalid="ignore"):  # log-probabilities may be infinite, twice the same
        tolerance = SPREAD * known.std(axis=0) + SIZE * np.abs(known).max(axis=0)
        differ = ~((first == other) | (np.abs(first - other) <= tolerance)).all(axis=1)
    if differ.mean() > share:
        told = f"its answers to {differ.sum()} of {len(differ)} logged observations differ if it is asked {how}"
        raise ValueError(f"a policy must be a function of one observation: {told}")
