"""Figure `fig:OPE`, continuous control: Reacher, HalfCheetah and Ant from logs of other policies.

A run collects 200 trajectories of 100 or 150 steps by one behaviour; smaller logs are the first trajectories of these,
or their first steps. Errors are relative to the stored true value of `ope_vpm.envs.truth`, and to the true value given
the logged initial states, for which the target is run from the same resets.
"""

from collections.abc import Sequence
from functools import partial
from typing import Any

import numpy as np

from ope_vpm.arrays import Floats
from ope_vpm.envs import bullet
from ope_vpm.envs.collect import collect
from ope_vpm.envs.truth import GAMMA, Episodes
from ope_vpm.logged import LoggedDataset
from ope_vpm.ope import Problem
from ope_vpm.ope.adapter.ends import TimeLimit
from ope_vpm.ope.estimator import ProblemEstimator, make
from ope_vpm.studies.control_report import draw, table
from ope_vpm.studies.study import Cell, Outcome, Row, Study, answer, timed

TRAJECTORIES, TRAJECTORY_SWEEP = 200, (50, 100, 200)
"""The largest log, and the numbers of trajectories compared. Chosen for what a log costs: 3 to 20 s of one core."""
SHORTER = {"reacher": (25, 50), "halfcheetah": (50, 100), "ant": (50, 100)}
"""The trajectory lengths besides the longest, `LOGGED`: a quarter and a half of it, or a third and two thirds."""
LENGTH_BEHAVIOUR = 1.0
"""The α at which lengths are compared: the middle one."""
BEHAVIOURS: tuple[bullet.Behaviour, ...] = (0.5, 1.0, 3.0, bullet.MIX)
"""The paper has α up to 1; 3 and the mixture of two policies are harder: the log overlaps less with the target."""
GAMMAS = (1.0, GAMMA)
"""The paper's figure has γ = 1; the discounted value is the common one in continuous control."""
TARGET = "target"
"""Takes the place of a behaviour in the cell with the target's own runs from the same resets."""

METHODS: dict[str, dict[str, dict[str, Any]]] = {
    "quick": {"vpm": {}, "naive": {}, "onestep": {}, "auto": {}, "dr": {}, "fqe (linear)": {"solver": "linear"}},
    "networks": {"wist": {}, "wiss": {}, "model": {}, "liu": {}},
    "paper": {"vpm (paper)": {"preset": "paper"}},
}
"""Estimators and their settings, in groups; the estimators of a group share what they compute from a log."""
RUNS = {"quick": 1000, "networks": 10, "paper": 10}
"""The largest number of runs of each group: the paper's ten; 1000 stands for no limit."""
SIZES = {"quick": TRAJECTORY_SWEEP, "networks": TRAJECTORY_SWEEP, "paper": (200,)}
"""The numbers of trajectories of each group; the paper's preset is the slowest and has the largest log only."""
LENGTHS = ("quick", "networks")
"""The groups that are run on shorter trajectories, too, for the same reason."""
REPEATS = {"reacher": 5, "halfcheetah": 1, "ant": 1}
"""How often the target runs from each logged initial state. Reacher's initial states differ by their goals, which
dominate the variance; those of the others differ little, so that one run, the on-policy mean, is enough."""
TUNING_SEEDS = "100-105"
"""The seeds on which the defaults of these tasks were chosen; reported runs have seeds from 0 up."""
ACTION_SEED = 5_000_000
"""Added to a run's seed for the target's own actions, so that they are independent of the logged ones."""


def study(task: str, quick: bool) -> Study:
    """Return the study of one task.

    Args:
        task: reacher, halfcheetah or ant.
        quick: two behaviours, small logs and the quick methods, instead of all.
    """
    behaviours = (1.0, bullet.MIX) if quick else BEHAVIOURS
    groups = ["quick"] if quick else list(METHODS)
    cells: list[Cell] = [{"behaviour": behaviour, "methods": group} for group in groups for behaviour in behaviours]
    cells.insert(len(behaviours), {"behaviour": TARGET, "methods": "truth"})
    trajectories = 20 if quick else TRAJECTORIES
    settings = {
        "task": task,
        "policy": bullet.checkpoints(task)[-1].stem,
        "older": bullet.checkpoints(task)[bullet.OLDER].stem,
        "trajectories": trajectories,
        "length": bullet.LOGGED[task],
        "methods": {name: METHODS[name] for name in groups},
        "most_runs": {name: RUNS[name] for name in groups},
        "repeats": REPEATS[task],
    }
    title = f"{task}, off-policy evaluation (fig:OPE)"
    fill = partial(run, task, trajectories)
    return Study(task, title, settings, cells, fill, partial(table, task), partial(draw, task), TUNING_SEEDS)


def run(task: str, trajectories: int, cell: Cell, seed: int) -> Outcome:
    """Run one cell: collect a log and evaluate it by a group of methods, or run the target itself.

    Args:
        task: the name of the task.
        trajectories: the number of trajectories of the largest log.
        cell: a behaviour and a group of methods.
        seed: of the run.
    """
    if cell["behaviour"] == TARGET:
        return Outcome(target_rows(task, trajectories, seed))
    group = str(cell["methods"])
    if seed >= RUNS[group]:
        return Outcome([])
    data = bullet.dataset(task, cell["behaviour"], trajectories, bullet.LOGGED[task], seed)
    sizes = [(min(size, trajectories), bullet.LOGGED[task]) for size in SIZES[group]]
    if group in LENGTHS and cell["behaviour"] == LENGTH_BEHAVIOUR:
        sizes += [(trajectories, length) for length in SHORTER[task]]
    rows = []
    for size, length in dict.fromkeys(sizes):
        log = shortened(data.select(slice(0, size)), length)
        rows += estimates(task, log, METHODS[group], {"trajectories": size, "length": length})
    return Outcome(rows)


def estimates(task: str, log: LoggedDataset, methods: dict[str, dict[str, Any]], size: dict[str, int]) -> list[Row]:
    """Return the rows of every method at both discounts; what methods share is computed once.

    Args:
        task: the name of the task.
        log: the logged trajectories.
        methods: the settings of each method, by its name.
        size: the columns that identify the log.
    """
    problem = Problem.pose(log, bullet.target(task), gamma=1.0, time_limit="restart")
    rows = []
    for gamma in GAMMAS:
        limit: TimeLimit = "restart" if gamma == 1 else "continue"
        problem = problem.with_gamma(gamma, time_limit=limit)
        for name, options in methods.items():
            estimator = make(name.partition(" ")[0], options)
            assert isinstance(estimator, ProblemEstimator)
            rows.append({"method": name, **size, "gamma": gamma, **answer(estimator, problem)})
    return rows


def target_rows(task: str, trajectories: int, seed: int) -> list[Row]:
    """Return rows with the on-policy mean of as many trajectories, and the true value given their initial states."""
    tail = bullet.stored_truth(task).tail or 0.0

    def own(number: int) -> LoggedDataset:
        actions = ACTION_SEED + 1000 * number + seed
        environment, policy = bullet.environment_id(task), bullet.target(task)
        return collect(environment, policy, trajectories, bullet.LOGGED[task], seed, action_seed=actions)

    repeats, seconds = timed(lambda: [own(number) for number in range(REPEATS[task])])
    rows = []
    sizes = [(size, bullet.LOGGED[task]) for size in TRAJECTORY_SWEEP]
    sizes += [(trajectories, length) for length in SHORTER[task]]
    for size, length in dict.fromkeys((min(size, trajectories), length) for size, length in sizes):
        for gamma in GAMMAS:
            for name, runs in {"on-policy": repeats[:1], "conditional truth": repeats}.items():
                value, error = mean_of(runs, size, length, gamma, tail)
                rows.append(
                    {"method": name, "trajectories": size, "length": length, "gamma": gamma, "value": value}
                    | {"low": value - 1.96 * error, "high": value + 1.96 * error, "verdict": "", "seconds": seconds}
                )
    return rows


def mean_of(repeats: Sequence[LoggedDataset], size: int, length: int, gamma: float, tail: float) -> tuple[float, float]:
    """Return the mean value over the first `size` initial states, and its standard error given these.

    Args:
        repeats: the target's runs, each with one trajectory per initial state.
        size: the number of initial states.
        length: the number of steps that count at γ = 1.
        gamma: the discount γ.
        tail: the discounted value after the last step of a trajectory.
    """
    chosen = [Episodes.of(each.select(slice(0, size))) for each in repeats]
    if gamma == 1:
        parts = [each.sums(length) for each in chosen]
        sums, steps = np.stack([part[0] for part in parts]), np.stack([part[1] for part in parts])
        value = float(sums.sum() / steps.sum())
        return value, _given_states((sums - value * steps) / steps.mean())
    returns = np.stack([each.discounted(gamma, tail) for each in chosen])
    return float(returns.mean()), _given_states(returns)


def _given_states(values: Floats) -> float:
    """Return the standard error of the mean of values of shape (repeats, states), given the states.

    With a single repeat the variance given a state is unknown, and the states are taken as drawn at random.
    """
    if len(values) == 1:
        return float(values.std(ddof=1) / np.sqrt(values.size))
    return float(np.sqrt(values.var(axis=0, ddof=1).mean() / values.size))


def shortened(data: LoggedDataset, length: int) -> LoggedDataset:
    """Return the log with every trajectory truncated after `length` steps."""
    keep = data.time < length
    cut = keep & (data.time == length - 1) & ~data.terminated
    return LoggedDataset.from_arrays(
        data.observations[keep],
        data.actions[keep],
        data.rewards[keep],
        data.next_observations[keep],
        data.terminated[keep],
        (data.truncated | cut)[keep],
        episode=data.episode[keep],
        observation_space=data.observation_space,
        action_space=data.action_space,
    )
