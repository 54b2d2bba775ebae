"""Namkoong and others (2020): one hidden cause of the first treatment, and bounds of what it can do."""

from functools import cache

import numpy as np
from gymnasium import spaces

from ope_vpm.arrays import Array, Floats, Integers
from ope_vpm.envs import sepsis
from ope_vpm.logged import LoggedDataset
from ope_vpm.ope.evaluate import evaluate
from ope_vpm.policy import TablePolicy
from ope_vpm.studies.papers.paper import answers, number
from ope_vpm.studies.papers.sepsis import GAMMA, SWEEPS, best_policy, counted_policy, softened
from ope_vpm.studies.study import Cell, Row, timed

STATES, STEPS, EPISODES = 720, 5, 10_000
"""Their states are those without diabetes; ours are these by step, since episodes end with the fifth."""
THRESHOLD = 0.5 + 0.75 / STEPS**0.5
"""The hidden number above which a patient, who will do well, is more likely to be given antibiotics first."""
SHARE = 0.85
"""The share of the best policy in what acts after the first step; the rest has its vasopressors exchanged."""
ON_POLICY = 200_000
"""Episodes of a target in the same world behind its truth, whose standard error is then 0.002."""
TRUTH_SEED = 1_000_000
EXPECTILE_ROUNDS = 60
"""Rounds of the fixed point of expectiles, which contracts by at least (Γ - 1)/Γ, a half at Γ = 2."""


@cache
def policies() -> dict[str, Floats]:
    """The first step with or without antibiotics, or as is best, and the best policy after it; softened, (3600, 8)."""
    best = softened(best_policy()[:STATES])
    moved = best[:, :4] + best[:, 4:]
    nothing = np.zeros_like(moved)
    first = {"with": np.hstack([nothing, moved]), "without": np.hstack([moved, nothing]), "best": best}
    return {name: np.vstack([table] + [best] * (STEPS - 1)) for name, table in first.items()}


@cache
def _outcomes() -> tuple[Integers, Floats, Integers]:
    """Next states of each pair from the worst to the best, and cumulative probabilities raised by the pair's number."""
    model, pays = sepsis.model(), sepsis.pays()
    worth = np.where(pays == 0, model.action_values(GAMMA, SWEEPS).max(axis=1), pays)
    rows = np.flatnonzero(model.pair < STATES * sepsis.ACTIONS)
    rows = rows[np.lexsort((worth[model.following[rows]], model.pair[rows]))]
    pair, total = model.pair[rows], np.cumsum(model.probability[rows])
    start = np.append(0.0, total)[np.searchsorted(pair, pair)]
    return model.following[rows], pair + np.minimum(total - start, 1.0), pair


def simulate(first: Floats, likely: Floats | float, later: Floats, episodes: int, seed: int) -> LoggedDataset:
    """Episodes in which a hidden number of the patient is the quantile of every next state.

    Args:
        first: (2, 720, 8): two policies of the first step.
        likely: the probability of the first of them, as a function of the hidden number: below and above THRESHOLD.
        later: (720, 8): the policy after it.
        episodes: their number.
        seed: of everything random.
    """
    rng = np.random.default_rng(seed)
    hidden, state = rng.random(episodes), rng.choice(STATES, episodes, p=_first_states())
    share = np.broadcast_to(np.asarray(likely), 2)[(hidden > THRESHOLD).astype(np.int64)]
    table = first[(rng.random(episodes) >= share).astype(np.int64), state]
    following, ladder, pair = _outcomes()
    going, columns = np.arange(episodes), []
    for step in range(STEPS):
        action = (rng.random((len(going), 1)) >= table.cumsum(axis=1)[:, :-1]).sum(axis=1)
        asked = state * sepsis.ACTIONS + action
        row = np.searchsorted(ladder, asked + hidden[going], side="right")
        after = following[np.minimum(row, np.searchsorted(pair, asked, side="right") - 1)]
        paid = sepsis.pays()[after].astype(np.float64)
        columns.append((going, state + STATES * step, action, paid, after + STATES * min(step + 1, STEPS - 1)))
        going, state = going[paid == 0], after[paid == 0]
        table = later[state]
    return _log([np.concatenate(column) for column in zip(*columns, strict=True)])


def _log(columns: list[Array]) -> LoggedDataset:
    order = np.argsort(columns[0], kind="stable")
    episode, state, action, paid, after = (column[order] for column in columns)
    kinds = {"observation_space": spaces.Discrete(STEPS * STATES), "action_space": spaces.Discrete(sepsis.ACTIONS)}
    return LoggedDataset.from_arrays(state, action, paid, after, np.append(np.diff(episode) != 0, True), **kinds)


def _first_states() -> Floats:
    """Untreated patients of both kinds who are neither well nor dying, by what is left when diabetes is dropped."""
    state = sepsis.parts()[:, :STATES]
    vitals, glucose = np.array([0.25, 0.5, 0.25]), (1 - sepsis.DIABETES, sepsis.DIABETES) @ np.array(sepsis.GLUCOSE)
    likely = vitals[state[1]] * vitals[state[2]] * np.array([0.2, 0.8])[state[3]] * glucose[state[4]]
    likely = likely * ~state[5:].any(axis=0) * (sepsis.pays()[:STATES] == 0)
    shares: Floats = likely / likely.sum()
    return shares


def discounted(data: LoggedDataset) -> Floats:
    """The discounted return of each episode."""
    returns: Floats = np.add.reduceat(data.rewards * GAMMA**data.time, data.starts)
    return returns


@cache
def truth(target: str) -> float:
    """The mean return of the target's own episodes in the same world."""
    table = policies()[target]
    own = simulate(np.stack([table[:STATES]] * 2), 0.5, table[STATES : 2 * STATES], ON_POLICY, TRUTH_SEED)
    return float(discounted(own).mean())


def bounds(data: LoggedDataset, target: Floats, odds: float) -> tuple[float, float, float]:
    """Importance sampling, the paper's lower bound for a hidden cause of the first step, and its naive one.

    With w the ratio of the steps after the first and G the return, the bound is
    E[π(a|s) w G + Σ_a π(a|s)(1 - b(a|s)) κ(s, a)] at the first step, κ(s, a) being the expectile of w G given the first
    state and action at which what lies below weighs Γ times what lies above (their loss, solved exactly).
    """
    kind = data.observations % STATES + STATES * (data.time > 0)  # theirs: the first step and all others
    behaviour = counted_policy(kind, data.actions, 2 * STATES)
    ratio = target[data.observations, data.actions] / behaviour[kind, data.actions]
    start, returns = data.starts, discounted(data)
    state, action = data.observations[start], data.actions[start]
    whole = np.multiply.reduceat(ratio, start) * returns
    later = np.multiply.reduceat(np.where(data.time == 0, 1.0, ratio), start) * returns
    cell = state * sepsis.ACTIONS + action
    low = np.zeros(STATES * sepsis.ACTIONS)
    for _ in range(EXPECTILE_ROUNDS):
        weight = np.where(later < low[cell], odds, 1.0)
        total = np.bincount(cell, weight, len(low))
        low = np.bincount(cell, weight * later, len(low)) / np.maximum(total, 1e-300)
    missing = (target[:STATES] * (1 - behaviour[:STATES]) * low.reshape(STATES, -1)).sum(axis=1)
    bound = float(np.mean(target[state, action] * later + missing[state]))
    return float(whole.mean()), bound, float(np.mean(np.where(whole >= 0, whole / odds, whole * odds)))


def first_treatment(cell: Cell, seed: int, path: str | None) -> list[Row]:
    """One log, and what is said of a target: estimates as if nothing were hidden, and lower bounds."""
    tables, odds, target = policies(), float(cell["odds"]), cell["target"]
    likely = odds**0.5 / (1 + odds**0.5)
    exchanged = tables["best"][:STATES, np.arange(sepsis.ACTIONS) ^ 1]
    later = SHARE * tables["best"][:STATES] + (1 - SHARE) * exchanged
    first = np.stack([tables["with"][:STATES], tables["without"][:STATES]])
    data = simulate(first, np.array([1 - likely, likely]), later, EPISODES, seed)
    known = truth(target)
    found, seconds = timed(lambda: bounds(data, tables[target], odds))
    names = ("importance sampling", "lower bound", "naive lower bound")
    rows = [number(name, target, known, value, seconds / 3) for name, value in zip(names, found, strict=True)]
    policy = TablePolicy(tables[target])
    low, seconds = timed(lambda: evaluate(data, policy, "auto", gamma=GAMMA).sensitivity([odds]).at(odds)[0])
    rows.append(number("sensitivity, lower bound", target, known, low / (1 - GAMMA), seconds))
    rows = [row | {"low": row["value"], "high": np.inf} if "bound" in row["method"] else row for row in rows]
    return rows + answers(data, {target: tables[target]}, {target: known}, {"auto": "auto"}, gamma=GAMMA)
