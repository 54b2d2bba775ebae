"""The doctor's questions about time: are the rows of an episode in order, and do observations belong to their actions?

Where the log holds no next states, a shuffled episode still looks like one, and every transition in it is wrong. Its
rows betray themselves by facts that hold together only then:

- *rows know their episode*: states of one episode are more alike than those of different ones, as they are wherever a
  state depends on the one before it, and episodes differ in their spread too, not only in a level of their own;
- *rows do not know their place in it*: no statistic of time (the distance and the correlations of neighbours, the
  trend, what follows an action) differs from its values after further shuffling.

Independent states, constant ones, jumps without memory, and noise around a level that is drawn at a reset fail the
first; every process in which something depends on what came before passes it and fails the second. Honest data in
which both hold can be made up (noise without memory whose level and spread are drawn at a reset), so the finding is a
warning. Measured: of 100 shuffled logs of the linear-Gaussian MDP with 50 × 50 rows 97 are found, with 200 × 100 all,
and of those in order none; of independent, heavy-tailed, constant, chaotic, alternating and teleporting states in
order none; of noise around a level of each episode's own 7 % with 20 × 20 rows and 3 % with 50 × 50.

*One row off*: two ways of it are told apart from the data alone, for continuous observations:

- *drift*: T + 1 observations an episode were laid against T actions, so that episode k begins k rows early.
  Its first k rows then belong to the episode before, and the jump of a reset lies k rows inside it.
- *shift*: every observation is the one after its action. Then the action beside an observation says nothing
  about the step that follows it, while the next row's action does. Only what the next row's own observation does not
  predict of that action counts: where a controller is a function of the state, its next action repeats the next state
  and so explains the step to it, in a log as it should be. Nor is it a shift where the next row's observation predicts
  the action better than the one before it does.
"""

from __future__ import annotations

import numpy as np
from scipy.special import fdtrc

from ope_vpm.arrays import Array, Floats, Integers, chunks, mean_and_deviation, mean_ranks, usable
from ope_vpm.logged.dataset import LoggedDataset
from ope_vpm.logged.doctor import Finding, finding

ROWS = 10_000
"""Rows looked at for shuffled episodes; the first episodes that fit."""
SAMPLE = 5000
"""Rows looked at for a shift."""
LEAST_ROWS, LEAST_EPISODES, LEAST_LENGTH = 200, 5, 3
"""Fewer say too little for the tests."""
WAVES, ROWS_PER_WAVE = 100, 20
"""Random cosines that predict a row's action from an observation, and rows for each of them at least."""
LEAST_FORESEEN = 0.9
"""The share of the actions' variance that the observation beside them predicts, where a controller has little noise.
The state that an action leads to predicts it, too: 0.75 on a CartPole log that is one row off."""
DIRECTIONS = 8
"""Coordinates that are tested; states and actions of more are projected on as many random directions."""
FALSE_ALARM = 1e-6
"""How often episodes that do not differ seem to, whatever their order."""
DEALT = 99
"""Random deals of rows to episodes with which the spread of episodes is compared."""
BEYOND = 98
"""How many of these the episodes must exceed: about 2 % of logs whose episodes differ only in level do so."""
SHUFFLES = 40
"""Further shuffles from which each statistic of time gets its mean and deviation."""
ORDERED = 4.5
"""Deviations at which one statistic of time shows that there is an order. With forty shuffles and at most 200
statistics, 3 % of shuffled logs exceed it by their noise and pass unnoticed."""


def rows_shuffled(data: LoggedDataset) -> Finding | None:
    """Episodes whose rows are alike but in no order, in a log without next states to check it by."""
    if data.finite or data.next_known[data.ends].any() or not usable(data.observations).all():
        return None  # known next states are compared with the rows that follow, which is exact
    episode = data.episode[: _enough(data)]
    raw = np.asarray(data.observations[: len(episode)][:, _varying(data, len(episode))], dtype=np.float64)
    states = _directions(raw)
    lengths = np.bincount(episode) if len(episode) else np.zeros(1, dtype=np.int64)
    if len(episode) < LEAST_ROWS or len(lengths) < LEAST_EPISODES or np.median(lengths) < LEAST_LENGTH:
        return None
    if states.shape[1] == 0 or not (_differ_in_level(states, episode) and _differ_in_spread(raw, episode)):
        return None
    actions = data.actions[: len(episode)].reshape(len(episode), -1).astype(np.float64)
    if not usable(actions).all() or _know_their_place(states, _directions(actions), episode):
        return None
    message = (
        "states within an episode are alike, and yet in no order: the rows look shuffled "
        "(put them in the order of time; where states have no memory, pass over this finding)"
    )
    return finding("rows-shuffled", "warning", message, np.arange(len(data)))


def _enough(data: LoggedDataset) -> int:
    """The last row of the last episode that fits into the sample, plus one."""
    fitting = data.ends[data.ends < ROWS]
    return int(fitting[-1]) + 1 if len(fitting) else 0


def _varying(data: LoggedDataset, rows: int) -> Array:
    """The columns that change within episodes: a goal that is drawn at a reset says nothing about order."""
    states, inside = data.observations[:rows], data.episode[1:rows] == data.episode[: max(rows - 1, 0)]
    return (states[1:] != states[:-1])[inside].any(axis=0)


def _directions(columns: Floats) -> Floats:
    """Ranks of the columns, so that outliers do not count, or a few random directions of many of them."""
    if columns.size == 0:
        return columns
    ranks: Floats = np.apply_along_axis(mean_ranks, 0, columns) / len(columns) - 0.5
    if ranks.shape[1] <= DIRECTIONS:
        return ranks
    mixing = np.random.default_rng(0).standard_normal((ranks.shape[1], DIRECTIONS))
    return ranks @ mixing


def _differ_in_level(states: Floats, episode: Integers) -> bool:
    """Whether episodes' means differ by more than noise: an F test of each direction, at `FALSE_ALARM` together."""
    count = int(episode[-1]) + 1
    lengths = np.bincount(episode, minlength=count)[:, None]
    means = _sums(states, episode, count) / lengths
    between = (lengths * np.square(means - states.mean(axis=0))).sum(axis=0) / (count - 1)
    within = np.square(states - means[episode]).sum(axis=0) / max(len(states) - count, 1)
    tail = fdtrc(count - 1, len(states) - count, between / np.maximum(within, 1e-300))
    return bool((tail * states.shape[1] < FALSE_ALARM).any())


def _differ_in_spread(states: Floats, episode: Integers) -> bool:
    """Whether squares and products within episodes vary more over episodes than if rows were dealt out at random."""
    count = int(episode[-1]) + 1
    lengths = np.bincount(episode, minlength=count)[:, None]
    residuals = _directions(states - (_sums(states, episode, count) / lengths)[episode])
    left, right = np.triu_indices(residuals.shape[1])

    def variation(rows: Floats) -> Floats:
        products = _sums(rows[:, left] * rows[:, right], episode, count) / lengths
        return np.asarray(products.var(axis=0))

    rng = np.random.default_rng(0)
    dealt = np.array([variation(rng.permutation(residuals)) for _ in range(DEALT)])
    scale = np.maximum(dealt.mean(axis=0), 1e-300)
    beyond = (variation(residuals) / scale).sum() > (dealt / scale).sum(axis=1)
    return bool(beyond.sum() >= BEYOND)


def _know_their_place(states: Floats, actions: Floats, episode: Integers) -> bool:
    """Whether some statistic of time differs from its values after shuffling within episodes."""
    rng = np.random.default_rng(0)
    seen = _of_time(states, actions, episode)
    shuffled = []
    for _ in range(SHUFFLES):
        order = np.lexsort((rng.random(len(episode)), episode))
        shuffled.append(_of_time(states[order], actions[order], episode))
    spread = np.std(shuffled, axis=0, ddof=1)
    score = np.abs(seen - np.mean(shuffled, axis=0)) / np.where(spread > 1e-12, spread, np.inf)
    return bool((score > ORDERED).any())


def _of_time(states: Floats, actions: Floats, episode: Integers) -> Floats:
    """Distances and products of neighbours, and products with time."""
    count = int(episode[-1]) + 1
    lengths = np.bincount(episode, minlength=count)[:, None]
    centred = states - (_sums(states, episode, count) / lengths)[episode]
    here = np.flatnonzero(episode[1:] == episode[:-1])
    before = np.hstack([centred, np.square(centred), actions - actions.mean(axis=0)])[here]
    after = centred[here + 1]
    apart = np.square(after - centred[here]).sum(axis=1, keepdims=True)
    first = np.concatenate([[0], np.flatnonzero(np.diff(episode)) + 1])
    time = np.arange(len(episode)) - first[episode]
    place = time / np.maximum(lengths[episode, 0] - 1, 1) - 0.5
    products: Floats = (before.T @ after).reshape(-1)
    return np.concatenate([products, apart.sum(axis=0), place @ centred])


def _sums(values: Floats, episode: Integers, count: int) -> Floats:
    """Sums over the rows of each episode, which follow one another."""
    first = np.searchsorted(episode, np.arange(count))
    return np.add.reduceat(values, first, axis=0)


def one_row_off(data: LoggedDataset) -> Finding | None:
    """Observations that belong to other rows' actions, by drift or by shift."""
    if data.finite or not usable(data.observations).all():
        return None
    return _drift(data) or _shift(data)


def _drift(data: LoggedDataset) -> Finding | None:
    """Do resets lie k rows inside episode k rather than at the seams?"""
    number = np.arange(1, data.n_episodes)
    number = number[number < data.lengths[1:]]
    if len(number) < 4:
        return None
    rank = _jump_ranks(data.observations)
    seams = rank[data.starts[number] - 1]
    inside = rank[data.starts[number] + number - 1]
    # On ten clean environments the inner steps rank near 0.5 and the seams, which are resets, above 0.97.
    if np.median(inside) < 0.9 or np.median(inside) <= np.median(seams):
        return None
    message = (
        "episode k seems to begin k rows early: T + 1 observations an episode were laid against T actions "
        "(drop each episode's last observation before joining them)"
    )
    return finding("one-row-off", "error", message, data.starts[number])


def _jump_ranks(states: Array) -> Floats:
    """How large the step from each row to the next is, from 0 (smallest) to 1 (largest)."""
    _, scale = mean_and_deviation(states)
    size = np.empty(len(states) - 1)
    for rows in chunks(len(size), of=[states]):
        steps = np.diff(states[rows.start : rows.stop + 1], axis=0) / np.where(scale > 0, scale, 1.0)
        size[rows] = np.square(steps).sum(axis=1)
    order: Integers = np.argsort(np.argsort(size, kind="stable"), kind="stable")
    return order / max(len(order) - 1, 1)


def _shift(data: LoggedDataset) -> Finding | None:
    """Does the next row's action explain a step to which the row's own action adds nothing?"""
    inside = np.flatnonzero(data.episode[:-2] == data.episode[2:])[:SAMPLE]
    kinds = len(np.unique(data.actions)) - 1 if data.discrete_actions else data.actions.shape[1]
    width = data.observations.shape[1] * (1 + kinds) + kinds + 1
    if len(inside) < 20 * width or not usable(data.actions).all():
        return None
    actions = _as_vectors(data)
    states, reached = (data.observations[rows].astype(np.float64) for rows in (inside, inside + 1))
    # Clean data measured 0.59 to 0.997 for a row's own action, shifted data 0.001 to 0.03.
    if _explained(states, actions[inside].astype(np.float64), reached - states) > 0.05:
        return None
    following = actions[inside + 1].astype(np.float64)
    if _explained(states, _unforeseen(reached, following), reached - states) < 0.2:
        return None
    early = _foreseen(states, following)
    if _explained(states, following, reached - states) < 0.2 and early < LEAST_FORESEEN:
        return None  # the next action explains nothing by itself, nor does a controller act by the observation before
    if _foreseen(reached, following) > max(early, LEAST_FORESEEN):
        return None  # the controller acts by the observation beside its action, as it should
    message = (
        "each observation seems to be the one after its action: the step that follows depends on the next "
        "row's action and not on its own (store the state before the step)"
    )
    return finding("one-row-off", "error", message, inside)


def _explained(states: Floats, actions: Floats, steps: Floats) -> float:
    """The largest share, over coordinates, of what states leave unexplained that actions explain.

    Linear in the actions, with slopes linear in the states; shares are corrected for what noise would explain.
    """
    products = (states[:, :, None] * actions[:, None, :]).reshape(len(states), -1)
    alone = _residual(states, steps)
    together = _residual(np.hstack([states, actions, products]), steps)
    rounding = 1e-11 * np.square(steps).sum(axis=0)  # all that regressions leave of constant steps
    scale = np.maximum(np.square(steps - steps.mean(axis=0)).sum(axis=0), np.maximum(rounding, 1e-300))
    share = np.where(alone > 1e-9 * scale, 1 - together / np.maximum(alone, 1e-300), 0.0)
    by_noise = (actions.shape[1] + products.shape[1]) / len(states)
    return float(share.max() - by_noise)


def _unforeseen(states: Floats, actions: Floats) -> Floats:
    """The residual of the actions after a linear regression on the states; 0 where it is rounding."""
    left = _left(states, actions)
    size = np.square(actions - actions.mean(axis=0)).sum(axis=0)
    return np.where(np.square(left).sum(axis=0) > 1e-9 * size, left, 0.0)


def _foreseen(states: Floats, actions: Floats) -> float:
    """The share of the actions' variance that smooth functions of the states predict."""
    mean, deviation = mean_and_deviation(states)
    z = (states - mean) / np.where(deviation > 0, deviation, 1.0)
    rng, number = np.random.default_rng(0), min(WAVES, len(z) // ROWS_PER_WAVE)
    waves = np.cos(z @ rng.standard_normal((z.shape[1], number)) + rng.uniform(0, 2 * np.pi, number))
    size = np.square(actions - actions.mean(axis=0)).sum(axis=0)
    left = _residual(np.hstack([z, waves]), actions) / np.where(size > 0, size, 1.0)
    return 1 - float(left.mean())


def _residual(features: Floats, targets: Floats) -> Floats:
    return np.square(_left(features, targets)).sum(axis=0)


def _left(features: Floats, targets: Floats) -> Floats:
    """The residual of a linear regression of the targets on the features."""
    design = np.hstack([np.ones((len(features), 1)), features])
    return targets - design @ np.linalg.lstsq(design, targets, rcond=None)[0]


def _as_vectors(data: LoggedDataset) -> Floats:
    """Actions as columns of numbers; discrete ones as dummies of those that occur, all but the first."""
    if not data.discrete_actions:
        return data.actions
    seen, number = np.unique(data.actions, return_inverse=True)
    return np.eye(len(seen))[number][:, 1:]
