"""The state after each logged step, the meaning of an episode's end, and the clock of tasks with a time limit."""

from dataclasses import dataclass
from typing import Literal

import numpy as np

from ope_vpm.arrays import Array, Bools, Floats, Integers, is_number, ones
from ope_vpm.logged import LoggedDataset

OnEnd = Literal["restart", "absorb"]
TimeLimit = Literal["continue", "restart"]
NO_INITIAL_STATES = "no episode begins at a reset, so a restart has nowhere to go: log whole episodes"
NOTHING_FOLLOWS = (
    "no logged row has a next state, so nothing can be learnt (log the state after steps, "
    "or set terminated where a step ends the task, as every step of a bandit does)"
)


@dataclass(frozen=True, eq=False)
class Steps:
    """Logged steps, each with the observation that follows it in the chain to be evaluated."""

    rows: Integers
    """The logged row of each step; an ending row appears once for each restart it is spread over."""
    weight: Floats
    """How much each step counts; the copies of one row count 1 together."""
    data: LoggedDataset
    restart: Integers | None
    """The row of the initial observation that follows each step, -1 where none does; None where nothing restarts."""
    absorbed: Bools
    """Where nothing follows, ever."""
    dropped: int
    """Logged rows left out because the state after them is unknown."""
    ended: int
    """Logged rows that end an episode, by restart or absorption."""
    as_logged: bool = False
    """Whether these steps are known to be the log's rows, in their order."""

    def of_rows(self, column: Array) -> Array:
        """A column of the log at each step; itself where the steps are the log's rows."""
        return column if self.as_logged else column[self.rows]

    @property
    def next_observations(self) -> Array:
        """The observation after each step; an initial one after a restart. Meaningless where `absorbed`."""
        following: Array = self.data.next_observations[self.rows]
        if self.restart is not None:
            again = self.restart >= 0
            following[again] = self.data.observations[self.restart[again]]
        return following


def plan_steps(
    data: LoggedDataset, on_end: OnEnd, time_limit: TimeLimit, seed: int, episodes: Integers, as_logged: bool = False
) -> Steps:
    """Say what follows each logged step.

    A restart leads to the empirical distribution of initial states. Each ending row is spread over as many of them,
    dealt in one shuffled round, as keeps the copies below the number of logged rows: over all of them where
    that is possible, which leaves no sampling noise, and otherwise so that every initial state is used
    equally often.

    Args:
        data: the log.
        on_end: what follows a termination: a fresh initial state ("restart", the default at gamma = 1) or
            reward 0 for ever ("absorb", the default below).
        time_limit: whether a truncated row goes on to its next state ("continue") or ends like a
            terminated one ("restart"); see `ending_rows`.
        seed: of the order in which initial states are dealt out.
        episodes: the episodes' numbers in the order in which to go through them.
        as_logged: whether steps are rather left in the order of the log where nothing restarts, as those of long logs:
            then no column has to be put into another order.
    """
    ending = ending_rows(data, time_limit)
    leads_on, ended = ending | data.next_known, int(np.count_nonzero(ending))
    restarts = on_end == "restart" and ended > 0
    ordered = np.arange(len(data)) if as_logged and not restarts else rows_of(data, episodes)
    kept = ordered if leads_on.all() else ordered[leads_on[ordered]]
    if len(kept) == 0:
        raise ValueError(NOTHING_FOLLOWS)
    dropped = len(data) - len(kept)
    if not restarts:
        whole = as_logged and len(kept) == len(data)
        return Steps(kept, ones(len(kept)), data, None, ending[kept], dropped, ended, whole)
    ends, inner = kept[ending[kept]], kept[~ending[kept]]
    starts = _restarts(data, len(ends), seed, episodes)
    rows = np.concatenate([inner, np.repeat(ends, starts.shape[1])])
    weight = np.ones(len(rows))
    weight[len(inner) :] = 1 / starts.shape[1]
    restart = np.concatenate([np.full(len(inner), -1), starts.reshape(-1)])
    place = np.empty(len(data), dtype=np.int64)
    place[ordered] = np.arange(len(data))
    order = np.argsort(place[rows], kind="stable")
    absorbed = np.zeros(len(rows), dtype=np.bool_)
    return Steps(rows[order], weight[order], data, restart[order], absorbed, dropped, ended)


def rows_of(data: LoggedDataset, episodes: Integers) -> Integers:
    """The numbers of the rows of some episodes, one episode after another."""
    lengths = data.lengths[episodes]
    before = np.cumsum(lengths) - lengths
    return np.repeat(data.starts[episodes] - before, lengths) + np.arange(lengths.sum())


def ended_episodes(data: LoggedDataset, time_limit: TimeLimit) -> Bools:
    """(episodes,): whether the task ended with the episode, rather than its log; see `ending_rows`."""
    return data.table.ended(time_limit, data.limit)


def ending_rows(data: LoggedDataset, time_limit: TimeLimit) -> Bools:
    """The rows with which the task ended, rather than its log.

    With `time_limit="restart"` truncated ones too, but for those that come before the limit of all others: there the
    log stopped, and the task went on.
    """
    if time_limit == "continue":
        return data.terminated
    ending = np.zeros(len(data), dtype=np.bool_)
    ending[data.ends] = ended_episodes(data, time_limit) & data.ends_here
    return ending


def check_choices(gamma: float, on_end: OnEnd | None, time_limit: TimeLimit) -> OnEnd:
    """Refuse wrong words and numbers; fill in the default of `on_end`."""
    if not is_number(gamma) or not 0 <= gamma <= 1:
        raise ValueError(f"gamma must be between 0 and 1: got {gamma}")
    if on_end not in (None, "restart", "absorb"):
        raise ValueError(f"on_end must be 'restart' or 'absorb': got {on_end!r}")
    if time_limit not in ("continue", "restart"):
        raise ValueError(f"time_limit must be 'continue' or 'restart': got {time_limit!r}")
    if on_end == "absorb" and gamma == 1:
        raise ValueError("at gamma = 1 an absorbing end takes all the mass, and every value is 0: use on_end='restart'")
    return on_end or ("restart" if gamma == 1 else "absorb")


def _restarts(data: LoggedDataset, ends: int, seed: int, episodes: Integers) -> Integers:
    """Rows of initial states for each ending row, (ends, copies)."""
    first = data.starts[episodes[data.from_reset[episodes]]]
    if len(first) == 0:
        raise ValueError(NO_INITIAL_STATES)
    shuffled = np.random.default_rng(seed).permutation(first)
    copies = min(len(first), max(1, len(data) // ends))
    return np.resize(shuffled, (ends, copies))


@dataclass(frozen=True)
class Clock:
    """Time within an episode of at most `length` steps, scaled to standard deviation 1."""

    length: int

    def __call__(self, time: Floats | Integers) -> Floats:
        """The scaled time of each step."""
        return (time / self.length - 0.5) * np.sqrt(12)


def clock_of(data: LoggedDataset, time_limit: TimeLimit) -> Clock | None:
    """The task's clock, where a time limit ends its episodes: what is left then depends on the time."""
    return Clock(data.limit) if time_limit == "restart" and data.limit is not None else None


def times(data: LoggedDataset, time_limit: TimeLimit) -> Integers:
    """The time of each row. An episode whose beginning was not logged is counted back from the limit it ended at."""
    clock = clock_of(data, time_limit)
    if clock is None:
        return data.time
    table = data.table
    missed: Integers = np.where(~table.from_reset & table.truncated, np.maximum(clock.length - table.lengths, 0), 0)
    return data.time + missed[data.episode]


def clock_remarks(data: LoggedDataset, time_limit: TimeLimit, known: bool) -> tuple[str, ...]:
    """The remarks where a time limit restarts the task and the estimator does not know the time.

    Args:
        data: the log.
        time_limit: whether a truncation ends the task.
        known: whether the estimator takes the clock into account, where there is one.
    """
    if time_limit == "continue" or not data.table.truncated.any():
        return ()
    if clock_of(data, time_limit) is None:
        return ("truncated episodes have several lengths: restarts are taken to depend on the state alone",)
    return () if known else ("a time limit restarts the task, and states do not hold the time: add it to them",)


def absorbed_share(data: LoggedDataset, ended: Bools, gamma: float) -> float:
    """The share of the log's discounted time that lies after the end of an episode; 0 where nothing is absorbed.

    It is how much the absorbing state counts among the log's states. Any share between 0 and 1 gives the same
    stationary distribution; this one makes the ratio there 1 for on-policy data. It is kept away from both ends so that
    neither the absorbing state nor the others vanish.

    Args:
        data: the log.
        ended: (episodes,): whether the task ended with the episode.
        gamma: the discount.
    """
    if not ended.any():
        return 0.0
    mass = float(np.sum(gamma ** data.lengths[ended].astype(np.float64))) / data.n_episodes
    return min(max(mass, 0.01), 0.99)
