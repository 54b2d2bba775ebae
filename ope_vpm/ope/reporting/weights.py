"""Where the weight sits: over rows, episodes, time and states, and which rows and episodes have most of it."""

import numpy as np

from ope_vpm.arrays import Array, Floats, Integers, group_sums
from ope_vpm.logged import LoggedDataset
from ope_vpm.ope.reporting.words import number
from ope_vpm.pages import svg
from ope_vpm.pages.html import Html, table

EDGES = (0.0, 0.01, 0.03, 0.1, 0.3, 1.0, 3.0, 10.0, 30.0, 100.0, np.inf)
"""Edges of the histogram: two bins per factor of ten, as weights spread over several of them."""
DRAWN = 500
"""Rows drawn as dots of each colour: more hide each other on a phone."""
SAMPLED = 1000
"""Rows that the main directions are found from: they move little with more, and images have many columns."""
PERIODS = 50
"""Bins of time: about as many as a narrow figure can show."""
LISTED = 8
"""Rows, episodes and states that are listed."""
SHOWN = 4
"""Coordinates of a state or an action that a table shows."""


def histogram(weights: Floats) -> Html:
    """The share of rows, and of the whole weight, by how large the weights are."""
    place = np.clip(np.searchsorted(EDGES, weights, side="right") - 1, 0, len(EDGES) - 2)
    size = len(EDGES) - 1
    rows = group_sums(place, np.ones(len(weights)), size) / len(weights)
    mass = group_sums(place, weights, size) / max(float(weights.sum()), 1e-300)
    first, last = int(np.flatnonzero(rows)[0]), int(np.flatnonzero(rows)[-1])
    kept = range(first, last + 1)
    labels = [f"{EDGES[at + 1]:g}" if np.isfinite(EDGES[at + 1]) else "" for at in kept]
    y = svg.upward(0, max(float(rows.max()), float(mass.max())) * 1.05)
    ticks = [svg.text(svg.LEFT - 5, y(tick) + 4, f"{tick:.0%}", "end") for tick in y.ticks()]
    drawn = svg.bars([(float(rows[at]), float(mass[at])) for at in kept], labels, ("log", "target"), y, between=True)
    return svg.framed(
        "How large the weights are",
        [*drawn, *ticks, *svg.axis_names(("weight of a row (1 on average)", "share"))],
        "Grey: share of the rows. Blue: share of the weight that these rows have.",
    )


def over_episodes(data: LoggedDataset, weights: Floats) -> Html:
    """How few episodes have how much of the weight."""
    shares = np.sort(_episode_shares(data, weights))[::-1]
    together = np.concatenate([[0.0], np.cumsum(shares)]) * 100
    episodes = np.linspace(0, 100, len(together))
    few = int(np.searchsorted(together, 50.0) if together[-1] >= 50 else len(shares))
    kept = np.unique(np.linspace(0, len(together) - 1, min(len(together), 200)).astype(int))
    x, y = svg.across(0, 100), svg.upward(0, 102)
    curve = svg.line(np.column_stack([episodes, together])[kept], x, y, "curve")
    even = svg.line([(0, 0), (100, 100)], x, y, "even")
    note = f"Half of the weight lies on {few} of {len(shares)} episodes. Dashed: all episodes alike."
    return svg.figure(
        "Over the episodes", x, y, ("% of the episodes, heaviest first", "% of the weight"), [even, curve], note
    )


def over_time(data: LoggedDataset, weights: Floats) -> Html:
    """The mean weight of the rows at each time of their episode."""
    last = int(data.time.max()) + 1
    period = -(-last // PERIODS)
    place = data.time // period
    counts = group_sums(place, np.ones(len(place)))
    mean = group_sums(place, weights) / np.maximum(counts, 1)
    times = (np.arange(len(mean)) + 0.5) * period - 0.5
    x, y = svg.across(0, max(last - 1, 1)), svg.upward(*svg.spanning([*mean.tolist(), 1.0], zero=True))
    even = svg.line([(0, 1), (max(last - 1, 1), 1)], x, y, "even")
    points = np.column_stack([times, mean])
    marks = [even, svg.line(points, x, y, "curve"), *(svg.dots(points, x, y, "target") if len(points) < 3 else [])]
    note = "Mean weight of the rows at each time. Dashed: 1, where the target is as often as the log."
    return svg.figure("Over time", x, y, ("step of the episode", "mean weight"), marks, note)


def over_states(data: LoggedDataset, weights: Floats) -> Html | None:
    """States of the log beside states drawn by weight; None where states do not differ."""
    if data.finite and data.observations.ndim == 1:
        return _over_finite_states(data, weights)
    rng = np.random.default_rng(0)  # of what is drawn on the page, so that it can be made again
    total = float(weights.sum())
    if total <= 0:
        return None
    logged = rng.integers(len(data), size=SAMPLED)
    visited = np.searchsorted(np.cumsum(weights), rng.random(SAMPLED) * total).clip(0, len(data) - 1)
    found = main_directions(data.observations[logged], data.observations[visited])
    if found is None:
        return None
    grey, blue, names = found
    both = np.concatenate([grey, blue])
    x, y = svg.across(*svg.spanning(both[:, 0])), svg.upward(*svg.spanning(both[:, 1]))
    marks = [*svg.dots(grey[:DRAWN], x, y, "log"), *svg.dots(blue[:DRAWN], x, y, "target")]
    note = "Grey: states of the log. Blue: states drawn by their weight, where the target would be."
    return svg.figure("Over the states", x, y, names, marks, note)


def main_directions(logged: Array, visited: Array) -> tuple[Floats, Floats, tuple[str, str]] | None:
    """Two sets of states in the two directions along which states vary most, and what these directions are.

    Columns are scaled to standard deviation 1 first; constant ones and rows with numbers that are not finite are left
    out. None where every state is the same.
    """
    one, two = (states.reshape(len(states), -1).astype(np.float64) for states in (logged, visited))
    one, two = one[np.isfinite(one).all(axis=1)], two[np.isfinite(two).all(axis=1)]
    if len(one) == 0 or len(two) == 0:
        return None
    both = np.concatenate([one, two])
    mean, deviation = both.mean(axis=0), both.std(axis=0)
    columns = np.flatnonzero(deviation > 1e-12 * np.maximum(np.abs(mean), 1e-300))
    if len(columns) == 0:
        return None
    one, two = one[:, columns], two[:, columns]
    if len(columns) <= 2:
        names = [f"coordinate {column} of the state" for column in columns]
        flat = len(columns) == 1
        spread = np.random.default_rng(1).random  # one coordinate leaves the height free
        grey = np.column_stack([one, spread(len(one))]) if flat else one
        blue = np.column_stack([two, spread(len(two))]) if flat else two
        return grey, blue, (names[0], "at random" if flat else names[1])
    centre, scale = mean[columns], deviation[columns]
    _, strength, directions = np.linalg.svd((both[:, columns] - centre) / scale, full_matrices=False)
    shares = strength**2 / (strength**2).sum()
    axes = directions[:2].T / scale[:, None]
    words = [f"{_direction(directions[at], columns)}: {shares[at]:.0%} of variance" for at in (0, 1)]
    return (one - centre) @ axes, (two - centre) @ axes, (words[0], words[1])


def heaviest_rows(data: LoggedDataset, weights: Floats) -> Html:
    """The rows with the largest weights; states and actions by name where the dataset came from a table."""
    rows, names = _largest(weights), data.encoding
    head = ("row", "episode", "step", "weight", "reward", "action", "state")
    cells = [
        (
            str(row),
            str(data.episode[row]),
            str(data.time[row]),
            number(float(weights[row])),
            number(float(data.rewards[row])),
            _entry(data.actions[row]) if names is None else names.action_said(data.actions[row]),
            _entry(data.observations[row]) if names is None else names.state_said(data.observations[row]),
        )
        for row in rows.tolist()
    ]
    return table(head, cells, text_columns=(5, 6))


def heaviest_episodes(data: LoggedDataset, weights: Floats) -> Html:
    """The episodes with the largest summed weights."""
    shares, returns = _episode_shares(data, weights), data.returns
    head = ("episode", "first row", "steps", "return", "share of the weight", "share of the rows")
    cells = [
        (
            str(episode),
            str(data.starts[episode]),
            str(data.lengths[episode]),
            number(float(returns[episode])),
            f"{shares[episode]:.1%}",
            f"{data.lengths[episode] / len(data):.1%}",
        )
        for episode in _largest(shares).tolist()
    ]
    return table(head, cells, text_columns=())


def _over_finite_states(data: LoggedDataset, weights: Floats) -> Html:
    states, names = data.observations, data.encoding
    kinds, place = np.unique(states, return_inverse=True)
    logged = group_sums(place, np.ones(len(states))) / len(states)
    target = group_sums(place, weights) / max(float(weights.sum()), 1e-300)
    chosen = np.sort(_largest(np.maximum(logged, target)))
    y = svg.upward(0, float(max(logged[chosen].max(), target[chosen].max())) * 1.05)
    ticks = [svg.text(svg.LEFT - 5, y(tick) + 4, f"{100 * tick:.3g}%", "end") for tick in y.ticks()]
    groups = [(float(logged[at]), float(target[at])) for at in chosen]
    drawn = svg.bars(
        groups,
        [str(kinds[at]) if names is None else names.state_name(kinds[at]) for at in chosen],
        ("log", "target"),
        y,
    )
    note = (
        f"Grey: share of the log. Blue: share of the target's time. The {len(chosen)} commonest of {len(kinds)} states."
    )
    return svg.framed("Over the states", [*drawn, *ticks, *svg.axis_names(("state", "share"))], note)


def _episode_shares(data: LoggedDataset, weights: Floats) -> Floats:
    return group_sums(data.episode, weights, data.n_episodes) / max(float(weights.sum()), 1e-300)


def _largest(values: Floats) -> Integers:
    """The places of the largest values, the largest first."""
    most = min(LISTED, len(values))
    found: Integers = np.argpartition(values, len(values) - most)[len(values) - most :]
    return found[np.argsort(-values[found], kind="stable")]


def _direction(direction: Floats, columns: Integers) -> str:
    """The coordinates that a direction is mostly made of."""
    largest = np.argsort(-np.abs(direction))[:2]
    return "coordinates " + ", ".join(str(columns[at]) for at in largest)


def _entry(value: Array) -> str:
    """A state or an action of one row, its first coordinates."""
    entries = np.atleast_1d(value)
    shown = ", ".join(f"{entry:.4g}" for entry in entries[:SHOWN].tolist())
    return f"{shown}, … ({len(entries)} in all)" if len(entries) > SHOWN else shown
