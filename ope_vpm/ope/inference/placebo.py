"""The placebo: the value of the policy that logged the data is known from the log, so a method must find it again.

V of the behaviour is fitted to the logged steps with features as answers have them, on finite states by counts. Where
states are states and the features suffice, its residuals δ = r + γV(s') - V(s) have mean 0 at every step, and so has
(1 - γ)Σγᵗδ_t, the distance between the logged mean and the value that V gives, with the time after a cut left to V. A
fit makes residuals orthogonal to the features φ, so that γᵗ is judged less what they know of it: its error is that of
the paired difference.

At γ = 1 a mean that is found again proves nothing, for residuals add up to 0 over an episode. Residuals by step number
are not 0 there either where time is missing in the state, but say nothing of a mean reward per step: in 43 of 44 such
logs its error beyond noise was 0 to 0.11 of them.
"""

from dataclasses import dataclass
from typing import Any

import numpy as np
import scipy  # its sparse matrices are loaded when they are used: continuous states need none
from scipy.linalg import lu_factor, lu_solve

from ope_vpm.arrays import ROUNDING, Bools, Floats, Integers, group_sums
from ope_vpm.logged import LoggedDataset
from ope_vpm.ope.adapter.ends import OnEnd, TimeLimit, clock_of, ended_episodes, ending_rows, times
from ope_vpm.ope.adapter.states import StateFeatures
from ope_vpm.ope.inference.doubts import PLACEBO
from ope_vpm.ope.inference.estimate import RawEstimate
from ope_vpm.ope.inference.logged_mean import LAST_STEPS, last_rows
from ope_vpm.ope.log import Log
from ope_vpm.ope.memory import remembered
from ope_vpm.ope.problem import Problem

ROWS = 10_000
"""Rows that are looked at, in whole episodes: a fit to more would take a tenth of the time of an answer."""
FEATURES, RIDGE = 200, 1e-5
"""Random Fourier features of continuous states, and the ridge in units of their mean squares: the least that keeps V
steady. With 1e-3, Acrobot and Hopper are 0.7 to 3.3 on-policy errors off in 6 of 8 logs, with 1e-5 0.6 and 1.2 in 2."""
SURE = 2.6
"""Errors beyond which a distance is no noise; that has one in a hundred more."""
SMALL = 0.05
"""A share of the deviation of rewards up to which what is missing does no harm: 4 % more of the good answers are then
called reliable, and as many of the reliable ones are right (266 generated tasks, note 030)."""
LEAST_ROWS, LEAST_EPISODES = 50, 20
"""With fewer an effect of time does not stand out from noise."""
SMALLEST = 1e-9
"""Ridge that keeps a system of counts solvable: where all values may move together, and states that were never left."""


@dataclass(frozen=True)
class Placebo:
    """How far a method is from finding the value of the policy that logged the data."""

    distance: float
    """In units of the value."""
    error: float
    """Its standard error."""
    bias: float
    """The distance beyond its noise; 0 where noise may be the reason."""


def placebo(log: Log, gamma: float, on_end: OnEnd, time_limit: TimeLimit) -> Placebo:
    """Fit V of the behaviour to some thousand rows, and look at the mean of its residuals by time.

    Args:
        log: in memory.
        gamma: the discount.
        on_end: what follows a termination.
        time_limit: what follows a truncation.
    """
    fit = _solved(log, gamma, on_end, time_limit)
    if fit is None:
        return NOTHING
    data, steps, residual = fit.data, fit.steps, fit.residual
    moved = group_sums(data.episode[steps.rows], residual * (fit.weight - fit.known), data.n_episodes)
    distance, error = float(residual @ fit.weight), float(np.sqrt(len(moved)) * moved.std())
    if not np.isfinite(distance) or not error > ROUNDING * data.reward_facts.size:
        return NOTHING
    found = abs(distance) > SURE * error
    return Placebo(distance, error, float(np.sqrt(distance**2 - error**2)) if found else 0.0)


def after_cuts(log: Log, gamma: float, on_end: OnEnd, time_limit: TimeLimit) -> float:
    """By how much episodes would have gone on paying more than their last steps, judged by the state they were cut in.

    The mean over episodes of γᴸ·((1 - γ)·V(s_L) - the mean reward of the last steps): by so much the logged mean is off
    where V is right. 0 where V is not known. Arguments as in `placebo`.
    """
    fit = _solved(log, gamma, on_end, time_limit) if gamma < 1 and on_end == "absorb" else None
    if fit is None:
        return 0.0
    data, steps = fit.data, fit.steps
    cut = np.flatnonzero(data.from_reset & ~ended_episodes(data, time_limit) & np.isin(data.ends, steps.rows))
    goes_on = steps.after[np.searchsorted(steps.rows, data.ends[cut])] @ fit.theta
    episode, rows = last_rows(data)
    guessed = group_sums(episode, data.rewards[rows], data.n_episodes) / np.minimum(data.lengths, LAST_STEPS)
    more = gamma ** data.lengths[cut].astype(np.float64) * ((1 - gamma) * goes_on - guessed[cut])
    found = float(more.sum() / max(int(data.from_reset.sum()), 1))
    return found if np.isfinite(found) else 0.0


def with_placebo(problem: Problem, found: RawEstimate) -> RawEstimate:
    """The estimate of a discounted value, with the placebo's bias in its error."""
    log = problem.log.sample
    if problem.gamma == 1 or found.sums is None or found.uncertainty is None:
        return found
    seen = placebo(log, problem.gamma, problem.on_end, problem.time_limit)
    matters = seen.bias > SMALL * log.data.reward_facts.deviation
    return found.doubted(PLACEBO.suspects(seen.bias)) if matters else found


@dataclass(frozen=True, eq=False)
class _Steps:
    """Logged steps as features of states, dense or sparse; the first column is constant."""

    rows: Integers
    """The logged row of each step."""
    here: Any
    """(n, k): φ(s)."""
    after: Any
    """(n, k): φ(s'), 0 after an end."""
    first: Floats
    """(k,): the mean of φ over initial states."""
    ended: Floats
    """(n,): 1 where the task ends."""
    ridge: float


@dataclass(frozen=True, eq=False)
class _Solved:
    """V of the behaviour on some thousand rows, and what it leaves of their rewards."""

    data: LoggedDataset
    steps: _Steps
    theta: Floats
    """V = φᵀθ."""
    weight: Floats
    """(n,): of each step in the discounted mean of the log."""
    residual: Floats
    known: Floats
    """(n,): what φ knows of the weights."""


@remembered
def _solved(log: Log, gamma: float, on_end: OnEnd, time_limit: TimeLimit) -> _Solved | None:
    """Fit V of the behaviour; None where there are too few steps. Arguments as in `placebo`."""
    data = log.beginning(ROWS).data
    ending = ending_rows(data, time_limit)
    rows = np.flatnonzero(ending | data.next_known)
    if len(rows) < LEAST_ROWS or data.n_episodes < LEAST_EPISODES:
        return None
    steps = _finite_steps(data, rows, ending) if data.finite else _vector_steps(data, rows, ending, time_limit)
    if steps is None:
        return None
    begun, time = data.from_reset[data.episode[steps.rows]], data.time[steps.rows]
    weight = (1 - gamma) * np.power(gamma, time, dtype=np.float64) * begun / int(data.from_reset.sum())
    fit = _fitted(data.rewards[steps.rows], steps, weight, gamma, on_end == "restart")
    return _Solved(data, steps, fit[0], weight, *fit[1:])


def _fitted(
    rewards: Floats, steps: _Steps, weight: Floats, gamma: float, restarts: bool
) -> tuple[Floats, Floats, Floats]:
    """θ from E[φ(r - Δᵀθ)] = 0 with Δ = φ(s) - γφ(s'), the residuals, and what φ knows of the weights of steps."""
    here, n = steps.here, len(steps.rows)
    delta = here - gamma * steps.after
    if restarts:
        delta = delta - gamma * _outer(steps.ended, steps.first, here)
    dense = isinstance(here, np.ndarray)
    squares = np.asarray((here**2 if dense else here.multiply(here)).mean(axis=0)).reshape(-1)
    squares[0] *= SMALLEST
    source = delta.T @ weight
    if dense:
        lu = lu_factor(here.T @ delta / n + np.diag(steps.ridge * squares))
        theta, beta = lu_solve(lu, here.T @ rewards / n), lu_solve(lu, source, trans=1)
    else:
        matrix = here.T @ delta / n + scipy.sparse.diags_array(steps.ridge * squares)
        factor = scipy.sparse.linalg.splu(matrix.tocsc())
        theta, beta = factor.solve(here.T @ rewards / n), factor.solve(source, trans="T")
    return theta, rewards - delta @ theta, here @ beta / n


def _outer(column: Floats, row: Floats, like: Any) -> Any:
    """The product of a column and a row, sparse where another matrix is."""
    if isinstance(like, np.ndarray):
        return np.outer(column, row)
    sparse = scipy.sparse
    return sparse.csr_array(column[:, None]) @ sparse.csr_array(row[None, :])


def _vector_steps(data: LoggedDataset, rows: Integers, ending: Bools, time_limit: TimeLimit) -> _Steps | None:
    """Continuous states, with the clock where a time limit is part of the task."""
    clock, time = clock_of(data, time_limit), times(data, time_limit)
    features = StateFeatures.draw(data, min(FEATURES, len(rows) // 10), 0, clock)
    here = features(data.observations[rows], time[rows])
    after, ended = np.zeros_like(here), ending[rows]
    after[~ended] = features(data.next_observations[rows[~ended]], time[rows[~ended]] + 1)
    starts = data.starts[data.from_reset]
    first = features(data.observations[starts], np.zeros(len(starts), dtype=np.int64)).mean(axis=0)
    return _Steps(rows, here, after, first, ended.astype(np.float64), RIDGE)


def _finite_steps(data: LoggedDataset, rows: Integers, ending: Bools) -> _Steps | None:
    """A coordinate for each state; steps to states that were never left are left out."""
    both = [each[rows].reshape(len(rows), -1) for each in (data.observations, data.next_observations)]
    state, after = np.split(np.unique(np.concatenate(both), axis=0, return_inverse=True)[1].reshape(-1), 2)
    kept = np.zeros(len(rows), dtype=np.bool_)
    while not kept.all():  # with a step its state may go, too
        kept = np.isin(after, state) | ending[rows]
        rows, state, after = rows[kept], state[kept], after[kept]
    if len(rows) < LEAST_ROWS:
        return None
    labels, state = np.unique(state, return_inverse=True)
    ended, n, size = ending[rows], len(rows), len(labels) + 1
    after = np.searchsorted(labels, after[~ended])
    goes_on = np.flatnonzero(~ended)
    here, following = _one_hot(np.arange(n), state, (n, size)), _one_hot(goes_on, after, (n, size))
    begins = np.isin(rows, data.starts[data.from_reset])
    first = np.bincount(state[begins] + 1, minlength=size) / max(int(begins.sum()), 1)
    first[0] = 1
    return _Steps(rows, here, following, first, ended.astype(np.float64), SMALLEST)


def _one_hot(rows: Integers, state: Integers, shape: tuple[int, int]) -> Any:
    """A constant and one coordinate for each state, in some of the rows."""
    places = np.concatenate([rows, rows]), np.concatenate([np.zeros_like(state), state + 1])
    return scipy.sparse.csr_array((np.ones(2 * len(rows)), places), shape=shape)


NOTHING = Placebo(0.0, 0.0, 0.0)
"""Where nothing can be asked."""
