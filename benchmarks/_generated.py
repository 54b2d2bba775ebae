"""Tasks drawn by seed: motions or tables, who acts, what is seen, and how much is logged.

A task is composed of pieces that are drawn independently of one another: how the state moves, what is paid (smooth,
broken, narrow around one action, rare, or dear where actions change), when episodes end, what of the state is logged
(all, some, late, or bins of it), a target policy, the policies that log, and the size of the log. So a seed is
a task, and thousands of them are a population on which intervals and verdicts can be calibrated
(`python -m benchmarks calibrate`). Truths are simulated, with their standard errors.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from typing import Any, Literal, NamedTuple

import numpy as np
from gymnasium import spaces
from scipy.special import softmax

from benchmarks._systems import Acting, Linear, Motion, Pay, System, Table, Tabular
from ope_vpm.arrays import Array
from ope_vpm.logged import LoggedDataset

POOL = 6
"""Policies among which a target is chosen by what they are worth."""
LEAST_SIMULATED, MOST_SIMULATED = 1000, 4000
"""Episodes of which a truth is the mean: four times as many as the log has, within these limits."""
SWEEPS = 40
"""Sweeps of value iteration at 0.95, by which policies know what is good: 13 % of the horizon is left."""
HORIZON, BURN_IN = 600, 200
"""Steps of a chain that are simulated, and those by which it has forgotten where it began."""
REMAINDER = 0.002
"""The discounted weight that is left after the last step that is simulated, 618 of them with γ = 0.99."""


class Truth(NamedTuple):
    """A value by simulation, its standard error, and the deviation of an on-policy mean of as many episodes."""

    value: float
    error: float
    floor: float


@dataclass(frozen=True, eq=False)
class Task:
    """A log to be drawn, and a question about it."""

    seed: int
    system: Motion | Tabular
    target: Acting
    behaviours: tuple[Acting, ...]
    kind: str
    """How the behaviours were chosen."""
    episodes: int
    length: int
    gamma: float
    time_limit: Literal["continue", "restart"]

    def log(self) -> LoggedDataset:
        """Draw the log; the behaviours share the episodes."""
        rng, shares = np.random.default_rng([self.seed, 1]), len(self.behaviours)
        sizes = [(k + 1) * self.episodes // shares - k * self.episodes // shares for k in range(shares)]
        parts = [list(walk(self.system, *each, self.length, rng)) for each in zip(self.behaviours, sizes, strict=True)]
        columns = [[np.stack(column, axis=1) for column in zip(*part, strict=True)] for part in parts]
        seen, action, reward, following, ended, alive = (
            np.concatenate(column) for column in zip(*columns, strict=True)
        )
        stopped = ~ended & (np.arange(self.length) == self.length - 1)
        rows = (column[alive] for column in (seen, action, reward, following, ended, stopped))
        numbers = self.target.table.shape if isinstance(self.target, Table) else ()
        names = ("observation_space", "action_space")
        known = {name: spaces.Discrete(size) for name, size in zip(names, numbers, strict=False)}
        return LoggedDataset.from_arrays(*rows, **known)

    def truth(self) -> Truth:
        """What the target is worth: exact up to the standard error of the simulation."""
        count = int(np.clip(4 * self.episodes, LEAST_SIMULATED, MOST_SIMULATED))
        return worth(self, self.target, count, np.random.default_rng([self.seed, 2]))


def walk(
    system: System, acting: Acting, count: int, steps: int, rng: np.random.Generator, restart: bool = False
) -> Iterator[tuple[Array, ...]]:
    """Episodes side by side, step by step: seen, action, reward, seen next, ended here, and whether it is still going.

    With `restart` another episode follows an end.
    """
    state, policy, alive = system.first(count, rng), acting.policy(), np.ones(count, dtype=np.bool_)
    for _ in range(steps):
        seen = system.seen(state)
        action = policy.sample(state if acting.informed else seen, rng)
        following, paid, ended = system.step(state, action, rng)
        yield seen, action, paid, system.seen(following), ended & alive, alive
        if restart and ended.any():
            following[ended] = system.first(int(ended.sum()), rng)
        alive = alive if restart else alive & ~ended
        state = following


def worth(task: Task, acting: Acting, count: int, rng: np.random.Generator) -> Truth:
    """What a policy is worth under the question of a task, by simulation.

    Below γ = 1 the discounted sum of an episode times 1 - γ; at γ = 1 with a time limit the rewards of episodes over
    their lengths, and without one the mean of a chain of episodes after it has forgotten its beginning.
    """
    paid, time = np.zeros(count), np.zeros(count)
    endless = task.gamma == 1 and task.time_limit == "continue"
    discounted = int(np.log(REMAINDER) / np.log(task.gamma)) if task.gamma < 1 else task.length
    steps, window = HORIZON if endless else discounted, np.zeros(count)
    for t, (_, _, reward, _, _, alive) in enumerate(walk(task.system, acting, count, steps, rng, endless)):
        if not alive.any():
            break
        weight = task.gamma**t * alive * (not endless or t >= BURN_IN)
        if task.gamma < 1 and t == steps - 1:  # later steps pay what this one does
            weight = weight / (1 - task.gamma)
        paid += weight * reward
        time += weight
        window += reward * (BURN_IN <= t < BURN_IN + task.length)
    if task.gamma < 1:
        time = np.full(count, 1 / (1 - task.gamma))
    value = float(paid.sum() / time.sum())
    one = float(((paid - value * time) / time.mean()).std(ddof=1))
    spread = float(window.std(ddof=1) / min(task.length, HORIZON - BURN_IN)) if endless else one
    return Truth(value, one / count**0.5, spread / task.episodes**0.5)


def generated(seed: int, most_rows: int = 4000) -> Task:
    """The task of a seed.

    Args:
        seed: of everything that is drawn.
        most_rows: the log has at most so many rows, and one in ten at most ten times as many.
    """
    rng = np.random.default_rng([seed, 0])
    rows, length = most_rows * (10 if rng.random() < 0.1 else 1), int(5 * 60 ** rng.random())
    length = 1 if rng.random() < 0.05 else length
    episodes = max(int(20 * (rows / length / 20) ** rng.random()), 2)
    gamma = float(rng.choice([0.9, 0.97, 0.99, 1.0], p=[0.2, 0.2, 0.3, 0.3]))
    limit: Literal["continue", "restart"] = "restart" if gamma == 1 and rng.random() < 0.7 else "continue"
    finite = bool(rng.random() < 0.3)
    system, pool = _table(rng) if finite else _motion(rng, length)
    task = Task(seed, system, pool[0], (pool[0],), "", episodes, length, gamma, limit)
    plain = replace(task, gamma=0.9, time_limit="continue")
    ranked = sorted(pool, key=lambda acting: worth(plain, acting, 60, rng).value)
    target = ranked[rng.choice([-1, len(pool) // 2, 0], p=[0.5, 0.2, 0.3])]
    kind = str(rng.choice(list(KINDS), p=[0.25, 0.2, 0.2, 0.15, 0.1, 0.1]))
    others = [acting for acting in pool if acting is not target]
    chosen = KINDS[kind](target, others[rng.integers(len(others))], rng)
    if isinstance(target, Linear) and isinstance(system, Motion) and rng.random() < 0.3:
        chosen = tuple(_informed(each, system, rng) for each in chosen)
    return replace(task, target=target, behaviours=chosen, kind=kind)


Choose = Callable[[Any, Any, np.random.Generator], tuple[Any, ...]]
KINDS: dict[str, Choose] = {
    "near": lambda target, other, rng: (target.changed(0.15, other, _noise(target, rng)),),
    "older": lambda target, other, rng: (target.changed(rng.uniform(0.3, 0.7), other, _noise(target, rng)),),
    "mix": lambda target, other, rng: tuple(target.changed(share, other, _noise(target, rng)) for share in (0.1, 0.6)),
    "poor": lambda target, other, rng: (other.changed(0.0, other, _noise(target, rng)),),
    "support": lambda target, other, rng: (target.changed(0.2, other, _noise(target, rng), 1.0),),
    "same": lambda target, other, rng: (target,),
}
"""Behaviours by what they have in common with the target."""


def _noise(target: Linear | Table, rng: np.random.Generator) -> float:
    return float(
        10 ** rng.uniform(-1.3, 0) if isinstance(target, Table) or not target.discrete else rng.uniform(0.3, 1)
    )


def _informed(acting: Linear, system: Motion, rng: np.random.Generator) -> Linear:
    """This policy acting on the coordinates that are not logged, too."""
    d, gain = len(system.drift), np.zeros((system.first(1, rng).shape[1], acting.gain.shape[1]))
    gain[system.kept + d * system.late] = acting.gain
    hidden = np.setdiff1d(np.arange(d), system.kept)
    gain[hidden] = rng.standard_normal((len(hidden), gain.shape[1]))
    return replace(acting, gain=gain, informed=True)


def _motion(rng: np.random.Generator, length: int) -> tuple[Motion, list[Linear] | list[Table]]:
    """A motion, and policies for it."""

    def often(share: float, value: float, otherwise: float = 0.0) -> float:
        return value if rng.random() < share else otherwise

    d, discrete = int(often(0.92, 12 ** rng.random(), float(rng.integers(20, 60))) + 0.5), bool(rng.random() < 0.5)
    m = int(rng.integers(1, 4))
    drift = rng.standard_normal((d, d)) / d**0.5
    drift *= rng.choice([0.5, 0.8, 0.95, 1.05]) / np.abs(np.linalg.eigvals(drift)).max()
    hides = rng.random()
    kept = (
        np.sort(rng.choice(d, max(d - int(rng.integers(1, d)), 1), replace=False))
        if hides < 0.15 and d > 1
        else np.arange(d)
    )
    pay = Pay(
        direction=rng.standard_normal(d) / d**0.5,
        square=often(0.5, rng.uniform(0, 1)),
        kink=often(0.25, rng.uniform(-1, 1)),
        threshold=often(0.3, rng.uniform(0.5, 2)),
        cost=often(0.5, 0.3 * rng.random()),
        fell=often(0.5, 10 * rng.random()),
        noise=often(0.7, 10 ** rng.uniform(-2, 0.5)),
        unit=10 ** rng.uniform(-3, 3),
        narrow=often(0.15, rng.uniform(0.5, 3)),
        width=rng.uniform(0.15, 0.6),
        best=rng.standard_normal((d, m)) / d**0.5,
        switching=often(0.1, rng.uniform(0.2, 1)),
        rare=often(0.08, 10 ** rng.uniform(-3, -1.5)),
    )
    lifetimes = (1, 2) if length == 1 else (10**6, 10**6 + 1)
    if length > 1 and rng.random() < 0.1:
        lifetimes = max(length // 4, 2), length + 1
    motion = Motion(
        drift=drift,
        push=rng.uniform(0.1, 0.6) * rng.standard_normal((m, d)),
        bend=often(0.5, rng.uniform(0.2, 0.8)) * rng.standard_normal((d, d)) / d**0.5,
        inner=rng.uniform(0.5, 2) * rng.standard_normal((d, d)) / d**0.5,
        noise=10 ** rng.uniform(-2.5, -0.3),
        effects=rng.standard_normal((int(rng.integers(2, 6)), m)) if discrete else None,
        contact=often(0.25, rng.uniform(-1.5, -0.3), -np.inf),
        fall=often(0.35, rng.uniform(0.8, 2.5), np.inf),
        hazard=often(0.15, rng.uniform(0.2, 2) / length),
        lifetimes=lifetimes,
        pay=pay,
        kept=kept,
        late=bool(hides > 0.93),
        bins=int(rng.integers(4, 30)) if discrete and rng.random() < 0.1 else 0,
    )
    actions = m if motion.effects is None else len(motion.effects)
    noise = float(rng.choice([0.0, 0.3])) if motion.effects is None else float(rng.choice([0.0, 0.1, 0.5]))
    size = rng.uniform(0.3, 1.5) / len(kept) ** 0.5
    draw = rng.standard_normal
    pool = [Linear(size * draw((len(kept), actions)), 0.5 * draw(actions), noise, discrete) for _ in range(POOL)]
    if not motion.bins:
        return motion, pool
    centres = np.zeros((motion.bins, len(kept)))
    centres[:, 0] = (np.arange(motion.bins) + 0.5) / motion.bins * 4 - 2
    return motion, [Table(replace(each, spread=each.spread + 0.1).probabilities(centres)) for each in pool]


def _table(rng: np.random.Generator) -> tuple[Tabular, list[Table]]:
    """A finite process whose pairs lead anywhere, near by, or over a grid, and policies from good to bad."""
    states, actions, branches = int(4 * 60 ** rng.random()), int(rng.integers(2, 8)), int(rng.integers(1, 5))
    following, shape = rng.integers(states, size=(states, actions, branches)), rng.random()
    if shape < 0.3:  # a corridor: next states are near by
        steps = rng.integers(-2, 3, size=following.shape)
        following = np.clip(np.arange(states)[:, None, None] + steps, 0, states - 1)
    elif shape < 0.6:  # a grid: each action is a step, and now and then another one
        side, moves = int(states**0.5) + 1, rng.integers(-1, 2, size=(actions, 2))
        states = side**2
        slips = rng.random((states, actions, branches)) < 0.15
        taken = np.where(slips, rng.integers(actions, size=slips.shape), np.arange(actions)[:, None])
        place = np.stack(np.divmod(np.arange(states), side), axis=1)[:, None, None] + moves[taken]
        following = np.clip(place, 0, side - 1) @ np.array([side, 1])
    reward = rng.standard_normal((states, actions)) * (rng.random((states, actions)) < rng.choice([0.1, 1.0]))
    ends = (rng.random(states) < 0.1) * rng.random(states) if rng.random() < 0.6 else np.zeros(states)
    unit, noise = 10 ** rng.uniform(-3, 3), rng.choice([0.0, 0.1, 1.0])
    ahead = reward
    for _ in range(SWEEPS):
        ahead = reward + 0.95 * (ahead.max(axis=1) * (1 - ends))[following].mean(axis=2)
    ahead = (ahead - ahead.mean(axis=1, keepdims=True)) / max(float(ahead.std(axis=1).mean()), 1e-9)
    heat, liking = rng.choice([0.2, 0.5, 1.0]), rng.uniform(0, 1)
    tastes = [rng.uniform(-0.7, 1) * ahead + liking * rng.standard_normal(ahead.shape) for _ in range(POOL)]
    pool = [Table(softmax(taste / heat, axis=1)) for taste in tastes]
    return Tabular(following, unit * reward, ends, unit * noise), pool
