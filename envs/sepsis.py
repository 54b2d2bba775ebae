"""The sepsis simulator of Oberst and Sontag (ICML 2019) with its 1440 states, as exact probabilities.

A state is (diabetes, heart rate, blood pressure, oxygen, glucose, antibiotics, vasopressors, ventilation), of 2, 3, 3,
2, 5, 2, 2, 2 values, the last one counting fastest; an action gives or withholds antibiotics (4), ventilation (2) and
vasopressors (1). Three abnormal vitals are death, -1; none without treatment is discharge, +1. The probabilities are
those of their simulator (github.com/clinicalml/gumbel-max-scm, sepsisSimDiabetes/MDP.py). Given diabetes and
treatments, vitals change independently of one another, so that the outcomes are products of four small tables.
"""

from functools import cache, reduce
from typing import Any

import numpy as np
from gymnasium import spaces

from ope_vpm.arrays import Bools, Floats, Integers
from ope_vpm.envs.wild.finite import FiniteModel
from ope_vpm.logged import LoggedDataset
from ope_vpm.policy import TablePolicy

SHAPE = (2, 3, 3, 2, 5, 2, 2, 2)
"""The numbers of values of what makes a state."""
STATES, ACTIONS = 1440, 8
SHOWN = 144
"""States that are left where diabetes and glucose are hidden."""
LIMIT = 20
"""The most steps of an episode, as in their experiments."""
DIABETES = 0.2
"""The share of diabetics."""
GLUCOSE = ((0.05, 0.15, 0.6, 0.15, 0.05), (0.01, 0.05, 0.15, 0.6, 0.19))
"""The first glucose without and with diabetes."""
NORMAL = np.array([1, 1, 1, 2])
"""The normal values of heart rate, blood pressure, oxygen and glucose."""


def parts() -> Integers:
    """The variables of each state, shape (8, 1440)."""
    return np.stack(np.unravel_index(np.arange(STATES), SHAPE))


def pays() -> Integers:
    """The reward for reaching each state: -1 for death, 1 for discharge, 0 where the episode goes on."""
    state = parts()
    abnormal = (state[1:5] != NORMAL[:, None]).sum(axis=0)
    well = (abnormal == 0) & ~state[5:].any(axis=0)
    return np.where(abnormal >= 3, -1, well.astype(np.int64))


def shown(states: Integers) -> Integers:
    """The numbers of states without diabetes and glucose, 0 to 143."""
    kept = np.unravel_index(states, SHAPE)
    return np.ravel_multi_index((*kept[1:4], *kept[5:]), SHAPE[1:4] + SHAPE[5:])


def first_states(uniform: bool) -> Floats:
    """The distribution of first states: untreated patients, or as Tang and Wiens have it.

    Args:
        uniform: whether all states in which an episode goes on are equally likely given diabetes, treated ones too.
    """
    state, going = parts(), pays() == 0
    if not uniform:
        vitals = np.array([0.25, 0.5, 0.25])
        likely = vitals[state[1]] * vitals[state[2]] * np.array([0.2, 0.8])[state[3]]
        likely = likely * np.array(GLUCOSE)[state[0], state[4]] * ~state[5:].any(axis=0)
        # a patient who would begin dead or well is drawn again, with the same diabetes
    weight = going * (1.0 if uniform else likely)
    totals = np.bincount(state[0], weight)
    found: Floats = np.array([1 - DIABETES, DIABETES])[state[0]] * weight / totals[state[0]]
    return found


def _walk(down: Floats | float, up: Floats | float, size: int) -> Floats:
    """A table that moves one value down or up with these probabilities, stopping at the ends."""
    move = np.eye(size, k=-1) * down + np.eye(size, k=1) * up
    table: Floats = move + np.diag(1 - move.sum(axis=1))
    return table


def _vitals(diabetes: int, before: Bools, after: Bools, mended: bool) -> list[Floats]:
    """The tables of the four vitals, given who is treated how before and after; treatments work one after another."""
    gains, loses = after, before & ~after  # begun or kept, and withdrawn: antibiotics, vasopressors, ventilation
    drifts = ~(before | after)
    cure, relapse = _walk(np.array([[0], [0], [0.5]]), 0.0, 3), _walk(0.0, np.array([[0], [0.1], [0]]), 3)
    sober, drift, still = _walk(0.1, 0.1, 3), _walk(0.1, 0.1, 2), np.eye(3)
    antibiotic = cure if gains[0] else relapse if loses[0] else still
    raised = np.array([[0.1, 0.5, 0.4], [0, 0.1, 0.9], [0, 0, 1]]) if diabetes else _walk(0.0, 0.7, 3)
    pressor = raised if gains[1] else _walk(0.05 if diabetes else 0.1, 0.0, 3) if loses[1] else still
    pressure = antibiotic @ pressor @ (sober if drifts[0] and drifts[1] else still)
    oxygen = np.array([[0.3, 0.7], [0, 1]]) if gains[2] else np.array([[1, 0], [0.1, 0.9]]) if loses[2] else drift
    size = 0.3 if diabetes else 0.1
    glucose = _walk(size, size, 5)
    if not mended and not diabetes:  # the published code caps a rise at 1, so that it brings higher ones down to 1
        glucose = _walk(size, 0.0, 5) - size * np.eye(5)
        glucose[:, 1] += size
    if gains[1]:
        glucose = _walk(0.0, 0.5, 5) if diabetes else np.eye(5)
    return [antibiotic @ (sober if drifts[0] else still), pressure, oxygen, glucose]


@cache
def model(*, mended: bool = False, uniform: bool = False) -> FiniteModel:
    """Every outcome of the simulator.

    Args:
        mended: version 2 of the simulator, in which the glucose of patients without diabetes may rise above 1. Tang
            and Wiens use it, Oberst and Sontag the first one.
        uniform: see `first_states`.

    Example:
        `model().episode_return(policy, LIMIT).value` is the exact probability of discharge minus that of death.
    """
    rows = []
    for diabetes, *before in np.ndindex(2, 2, 2, 2):
        for action in range(ACTIONS):
            after = np.array([action // 4, action % 2, action // 2 % 2])
            tables: list[Any] = _vitals(diabetes, np.array(before, dtype=bool), after.astype(bool), mended)
            table: Any = reduce(np.kron, tables)
            here, there = np.nonzero(table)
            numbers = [
                np.ravel_multi_index((diabetes, *np.unravel_index(vital, SHAPE[1:5]), *treated), SHAPE)
                for vital, treated in ((here, before), (there, after))
            ]
            rows.append((numbers[0] * ACTIONS + action, numbers[1], table[here, there]))
    pair, following, probability = (np.concatenate(column) for column in zip(*rows, strict=True))
    order, reward = np.lexsort((following, pair)), pays()
    pair, following, probability = pair[order], following[order], probability[order]
    paid = reward[following].astype(np.float64)
    return FiniteModel(STATES, ACTIONS, first_states(uniform), pair, following, probability, paid, paid != 0)


def hidden(data: LoggedDataset) -> LoggedDataset:
    """A log without diabetes and glucose, which the policy that logged it knew."""
    return LoggedDataset.from_arrays(
        shown(data.observations),
        data.actions,
        data.rewards,
        shown(data.next_observations),
        data.terminated,
        data.truncated,
        observation_space=spaces.Discrete(SHOWN),
        action_space=data.action_space,
    )


def informed(policy: TablePolicy) -> TablePolicy:
    """A policy of the 144 states that are shown as one of all 1440."""
    return TablePolicy(policy.table[shown(np.arange(STATES))])
