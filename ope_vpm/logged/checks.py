"""The doctor's checks of values: each takes a dataset and returns a finding or None."""

from __future__ import annotations

import numpy as np
from gymnasium import spaces

from ope_vpm.arrays import CHUNK, LARGEST, Array, Bools, Floats, Integers, chunks, usable
from ope_vpm.logged.dataset import LoggedDataset
from ope_vpm.logged.doctor import SHOWN, Check, Finding, Level, finding
from ope_vpm.logged.fingerprint import beginnings
from ope_vpm.logged.order import one_row_off, rows_shuffled
from ope_vpm.logged.step_number import step_effect


def not_finite(data: LoggedDataset) -> Finding | None:
    """NaN, infinity or numbers as good as infinite in a column; unknown next states do not count."""
    bad = ~_finite_rows(data.rewards)
    for column in (data.observations, data.actions):
        bad = bad | ~_finite_rows(column)
    bad |= ~_finite_rows(data.next_observations) & data.next_known
    if data.behaviour_log_prob is not None:
        bad |= ~np.isfinite(data.behaviour_log_prob)
    message = f"NaN, infinity or numbers beyond {LARGEST:g} in these rows: remove or repair them"
    return finding("not-finite", "error", message, bad)


def zero_next_states(data: LoggedDataset) -> Finding | None:
    """Vectors of zeros after last steps, where no other state is one: a filler, not a state."""
    if data.finite or data.observations.shape[1] < 2:
        return None
    ends = data.ends[data.next_known[data.ends]]
    zero = ends[(data.next_observations[ends] == 0).all(axis=1)]
    if 2 * len(zero) < len(ends) or (data.observations == 0).all(axis=1).any():
        return None
    level: Level = "error" if (~data.terminated[zero]).any() else "warning"
    message = "the next state is all zeros at episode ends: a filler (mark those rows next_known=False)"
    return finding("zero-next-states", level, message, zero)


def broken_chain(data: LoggedDataset) -> Finding | None:
    """A next state that is not the following row's state, inside an episode."""
    inside = np.ones(len(data), dtype=np.bool_)
    inside[data.ends] = False
    broken = inside & data.next_known
    for part in chunks(len(data) - 1, of=(data.observations, data.next_observations)):
        after, here = data.next_observations[part], data.observations[part.start + 1 : part.stop + 1]
        # Twice through float32 leaves a rounding of about 1e-7 of the value.
        same = after == here
        if not data.finite:
            size = np.fmax.reduce(np.abs(here), axis=0)  # of each coordinate: none is measured in another's units
            same = np.isclose(after, here, rtol=1e-5, atol=1e-6 * size, equal_nan=True)
        broken[part] &= ~same.all(axis=tuple(range(1, same.ndim)))
    message = (
        "the next state is not the following row's state inside an episode: "
        "put rows in the order of time and mark every episode's end"
    )
    return finding("broken-chain", "error", message, broken)


def actions_outside(data: LoggedDataset) -> Finding | None:
    """Actions that the space does not have."""
    if isinstance(data.action_space, spaces.Discrete):
        message = f"actions are outside {data.action_space}: is it the right space?"
        return finding("actions-outside", "error", message, np.flatnonzero(data.actions >= data.action_space.n))
    if not isinstance(data.action_space, spaces.Box):
        return None
    low, high = data.action_space.low, data.action_space.high
    slack = 1e-5 * np.where(np.isfinite(high - low), high - low, np.abs(data.actions).max(axis=0))
    outside = ((data.actions < low - slack) | (data.actions > high + slack)).any(axis=1)
    rows = np.flatnonzero(outside)
    message = (
        "actions are outside the action space: if the environment clipped them, "
        "log what it did, or clip them with np.clip"
    )
    return finding("actions-outside", "warning", message, rows)


def actions_scaled(data: LoggedDataset) -> Finding | None:
    """Actions that fill [-1, 1] exactly where the space is wider: a training buffer's scaled copy."""
    if not isinstance(data.action_space, spaces.Box) or len(data) < 50:
        return None
    wide = (data.action_space.high > 1.5) & (data.action_space.low < -1.5)
    if not wide.any():
        return None
    largest = np.abs(data.actions[:, wide]).max(axis=0)
    if not ((largest > 0.95) & (largest <= 1 + 1e-6)).all():
        return None
    message = (
        f"actions fill [-1, 1] but the space reaches from {data.action_space.low.min():g} to "
        f"{data.action_space.high.max():g}: they look scaled by the training library (unscale them)"
    )
    return finding("actions-scaled", "error", message, np.arange(len(data)))


def flags_confused(data: LoggedDataset) -> Finding | None:
    """Time limits marked as terminations, or the other way round."""
    lengths, longest = data.lengths, int(data.lengths.max())
    at_limit = lengths == longest
    near = (lengths >= 0.9 * longest) & ~at_limit
    terminal = data.table.terminated
    cut = data.table.truncated & ~terminal
    piled_up = at_limit.sum() >= max(3, 2 * near.sum()) and longest >= 20
    if piled_up and terminal[at_limit].all() and not cut.any():
        message = (
            f"{int(at_limit.sum())} episodes of exactly {longest} steps, the longest, are all marked "
            "terminated: that looks like a time limit (mark it truncated)"
        )
        return finding("flags-confused", "warning", message, data.ends[at_limit])
    if cut.sum() >= 5 and not terminal.any() and np.bincount(lengths[cut]).max() <= 0.5 * cut.sum():
        message = (
            "episodes of different lengths are all marked truncated and none terminated: "
            "a time limit cuts at one length (did the task end there?)"
        )
        return finding("flags-confused", "warning", message, data.ends[cut])
    return None


def constant_columns(data: LoggedDataset) -> Finding | None:
    """Columns of observations or actions that never change; of observations they do no harm, and are only noted."""
    if len(data) < 2:
        return None
    constant = []
    for column in (data.observations, data.actions):
        table = column.reshape(len(column), -1)
        equal = (table[:CHUNK] == table[:1]).all(axis=0)
        constant.append((table == table[:1]).all(axis=0) if equal.any() else equal)
    return constant_finding(constant[0], constant[1], data.finite)


def constant_finding(observations: Bools, actions: Bools, finite: bool) -> Finding | None:
    """The finding that some columns of observations and actions are constant.

    Args:
        observations: which ones are.
        actions: which ones are.
        finite: whether states are finite: a bandit has one of them, and nothing is missing.
    """
    both = (("observation", observations), ("action", actions))
    names = [f"{name} {index}" for name, constant in both for index in np.flatnonzero(constant)]
    if not names:
        return None
    more = f" and {len(names) - SHOWN} more" if len(names) > SHOWN else ""
    message = f"columns that never change: {', '.join(names[:SHOWN])}{more}"
    blind = bool(observations.all()) and not finite
    if blind:
        message += ". Nothing tells one state from another: if the states did differ, log what they were"
    level: Level = "warning" if blind or any(name.startswith("action") for name in names) else "note"
    return Finding("constant-columns", level, message, (), len(names))


DUPLICATED = "duplicated-episodes"
"""The code of the finding of which episodes are left out: `ignore` counts them again."""
NATURAL = 2
"""Occurrences of each episode on average beyond which they repeat by nature, as single steps of a bandit do."""
ACCIDENT = 1e-3
"""The probability with which numbers of occurrences may all be divisible by one number by accident."""


def duplicated_episodes(data: LoggedDataset) -> Finding | None:
    """Episodes that are copies of earlier ones."""
    message = "episodes that are copies of earlier ones, exact or in single precision: each is counted once"
    return finding(DUPLICATED, "note", message, data.starts[copied_episodes(data)])


def copied_episodes(data: LoggedDataset) -> Bools:
    """(episodes,): which are copies of earlier ones, rather than equal to them by nature.

    Episodes are equal by nature where few different ones are possible. Different ones then begin alike for long: with N
    of them two are alike for about 2·log N/h steps, h the entropy of a step, and hardly ever for twice as long.
    """
    prefix, ends = beginnings(data), data.ends
    number = np.unique(np.column_stack([prefix[ends], data.lengths.astype(np.uint64)]), axis=0, return_inverse=True)[1]
    order = np.lexsort((number.reshape(-1)[data.episode], prefix))
    alike = prefix[order][1:] == prefix[order][:-1]
    alike &= np.diff(number.reshape(-1)[data.episode[order]]) != 0
    shared = int((data.time[order[1:]][alike] + 1).max(initial=0))
    return copies(number.reshape(-1), data.lengths, shared)


def copies(number: Integers, lengths: Integers, shared: int) -> Bools:
    """Which episodes are copies of earlier ones.

    All repeated ones are, where a whole log was: then all of them occur a multiple of k times, which K different
    episodes do by accident with probability k^(1-K). Otherwise those that are too long to be equal by nature.

    Args:
        number: of each episode's content.
        lengths: of the episodes.
        shared: the most steps that two different ones begin with.
    """
    _, first, times = np.unique(number, return_index=True, return_counts=True)
    again = np.ones(len(number), dtype=np.bool_)
    again[first] = False
    if int(np.gcd.reduce(times)) ** (1.0 - len(times)) < ACCIDENT:
        return again & (lengths > 1)
    return again & (lengths > 2 * shared + 1) & (len(number) <= NATURAL * len(times))


def rewards_out_of_line(data: LoggedDataset) -> Finding | None:
    """A few rewards far beyond all others: a sentinel or a glitch."""
    if _spread_out(data.rewards):
        return None
    finite = data.rewards[np.isfinite(data.rewards)]
    if len(finite) == 0:
        return None
    middle = np.median(finite)
    distance = np.abs(data.rewards - middle)
    largest = float(distance.max())
    if np.count_nonzero(distance >= largest / 20) > max(0.01 * len(data), 1):
        return None  # one in a hundred is so far off that the quantile below is, too: none is beyond 20 times that
    # Rare but regular rewards, such as a goal's, are above this quantile and set the scale themselves.
    scale = np.quantile(np.abs(finite - middle), 0.995) or abs(middle)
    far = (distance > 20 * scale) & np.isfinite(distance)
    if scale == 0 or far.sum() > max(1, len(data) // 1000):
        return None
    message = f"rewards more than 20 times as far from the median as 99.5 % of them ({middle:.4g} ± {scale:.4g})"
    return finding("rewards-out-of-line", "warning", message, far)


def _spread_out(rewards: Floats) -> bool:
    """Whether more than one row in a hundred is surely a twentieth of the range or more away from the median.

    None is out of line then, which is known without the median, whose partial sorting is most of this check's time. It
    lies between two numbers if at most half of the rewards are below the one, and at most half above the other.
    """
    some = rewards[:: max(1, len(rewards) // 1000)]
    some = some[usable(some)]
    if len(some) == 0:
        return False
    low, high = np.quantile(some, [0.25, 0.75])
    half = len(rewards) / 2
    if not (np.count_nonzero(rewards < low) < half and np.count_nonzero(rewards > high) < half):
        return False
    far = max(float(rewards.max()) - low, high - float(rewards.min())) / 20
    beyond = np.count_nonzero(rewards <= low - far) + np.count_nonzero(rewards >= high + far)
    return bool(np.isfinite(far) and beyond > max(0.01 * len(rewards), 1))


STEP_NUMBER = "step-number"
"""The code of the finding by which the step number becomes a coordinate of the state."""


def step_number_matters(data: LoggedDataset) -> Finding | None:
    """Rewards, ends or next states that the step number explains beyond state and action."""
    share = step_effect(data)
    if share == 0:
        return None
    message = (
        f"the step number explains {share:.1%} of how rewards, ends or next states vary beyond state and action: it is "
        "taken as one more coordinate of the state"
    )
    return Finding(STEP_NUMBER, "note", message, (), len(data))


def _finite_rows(column: Array) -> Bools:
    if column.dtype.kind in "iub":
        return np.ones(len(column), dtype=np.bool_)
    finite = np.empty(len(column), dtype=np.bool_)
    for rows in chunks(len(column), of=[column]):
        values = column[rows].reshape(rows.stop - rows.start, -1)
        finite[rows] = usable(values).all(axis=1)
    return finite


CHECKS: dict[str, Check] = {
    "not-finite": not_finite,
    "one-row-off": one_row_off,
    "zero-next-states": zero_next_states,
    "broken-chain": broken_chain,
    "rows-shuffled": rows_shuffled,
    "actions-outside": actions_outside,
    "actions-scaled": actions_scaled,
    "flags-confused": flags_confused,
    "constant-columns": constant_columns,
    DUPLICATED: duplicated_episodes,
    "rewards-out-of-line": rewards_out_of_line,
    STEP_NUMBER: step_number_matters,
}
"""Every check by the code of its finding."""
