"""Real data: the click rate of one policy of a fashion shop, from the log of another (the Open Bandit data)."""

from collections.abc import Sequence
from functools import cache, partial
from math import sqrt

import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure

from ope_vpm.arrays import Floats
from ope_vpm.baselines.doubly_robust import DoublyRobust
from ope_vpm.baselines.naive import Naive
from ope_vpm.baselines.onestep import OneStep
from ope_vpm.logged import LoggedDataset, load_dataset
from ope_vpm.ope.auto.estimator import Auto
from ope_vpm.ope.estimator import ProblemEstimator
from ope_vpm.ope.problem import Problem
from ope_vpm.ope.vpm.estimator import VPMEstimator
from ope_vpm.policy import TablePolicy
from ope_vpm.studies import obp_estimators
from ope_vpm.studies.obp_estimators import POSITIONS, Feedback
from ope_vpm.studies.study import Cell, Outcome, Results, Row, Study, Table, answer, panels, select, timed

CAMPAIGNS = ("all", "men", "women")
"""The three campaigns: all items, men's and women's, with 80, 34 and 46 of them."""
DIRECTIONS = {
    "random to Thompson, start": ("random", "bts"),
    "random to Thompson, week": ("random", "bts"),
    "Thompson to random": ("bts", "random"),
}
"""The policy that logged and the one that is asked for. Thompson sampling learnt while it was logged: as a target it is
either what it was at the start, by its published prior, or what it did over the week, by how often items were shown."""
METHODS: dict[str, ProblemEstimator] = {
    "vpm": VPMEstimator(),
    "auto": Auto(),
    "dr": DoublyRobust(),
    "onestep, cloned": OneStep(),
    "onestep, known": OneStep(behaviour="logged"),
    "logged mean": Naive(),
}
"""Ours, and the logged mean as the control; the context is the position alone."""
NAMES = (*METHODS, *obp_estimators.NAMES)
"""In the order of the table and of the figure."""
TWO_SIDED = 1.96
"""Standard errors to each side of a 95 % interval."""


def study(quick: bool) -> Study:
    """Return the study of three campaigns and three questions; the quick one has the smallest campaign only."""
    cells = [{"campaign": name, "direction": way} for name in (CAMPAIGNS, ("men",))[quick] for way in DIRECTIONS]
    settings = {
        "context": "position",
        "draws": obp_estimators.DRAWS,
        "folds": obp_estimators.FOLDS,
        "bootstraps": obp_estimators.BOOTSTRAPS,
        "runs": "seed 0 is the log itself, others draw its rows with replacement",
    }
    title = "Click rates from another policy's log (Open Bandit)"
    return Study("open-bandit", title, settings, cells, run, table, draw, tuning_seeds="none")


def run(cell: Cell, seed: int) -> Outcome:
    """Run all methods on the log itself (seed 0), or on rows drawn from it with replacement."""
    logger, target = DIRECTIONS[cell["direction"]]
    data, other = log(logger, cell["campaign"]), log(target, cell["campaign"])
    rows = resampled(len(data), seed)
    policy = target_table(cell["direction"], cell["campaign"], other)
    positions = only_positions(data.select(rows))
    rate = float(other.rewards.mean())
    truth = {"rate": rate, "rate_error": sqrt(rate * (1 - rate) / len(other))}
    question = partial(Problem.pose, positions, TablePolicy(policy))
    lines = [_row(name, answer(method, question()), truth) for name, method in METHODS.items()]
    items = obp_estimators.item_features(obp_estimators.folder(logger, cell["campaign"]))
    found, seconds = timed(lambda: obp_estimators.estimates(feedback(data.select(rows)), policy, items))
    for name in obp_estimators.NAMES:
        value, (low, high) = found.get(name, (np.nan, (np.nan, np.nan)))
        verdict = "none" if name in found else "failed"
        answered = {"value": value, "low": low, "high": high, "verdict": verdict, "seconds": seconds / len(found)}
        lines.append(_row(name, answered, truth))
    return Outcome(lines)


@cache
def log(policy: str, campaign: str) -> LoggedDataset:
    """One of the six logs, with position and user as context."""
    return load_dataset(obp_estimators.folder(policy, campaign))


def only_positions(data: LoggedDataset) -> LoggedDataset:
    """Return the log with the position alone as its state: neither policy looks at the user."""
    return LoggedDataset.from_arrays(
        data.observations[:, 0],
        data.actions,
        data.rewards,
        terminated=data.terminated,
        behaviour_log_prob=data.behaviour_log_prob,
        action_space=data.action_space,
    )


def resampled(count: int, seed: int) -> np.ndarray[tuple[int], np.dtype[np.int64]]:
    """All rows for seed 0, otherwise as many rows drawn with replacement, as in obp's own benchmark."""
    return np.arange(count) if seed == 0 else np.random.default_rng(seed).integers(count, size=count)


def target_table(direction: str, campaign: str, other: LoggedDataset) -> Floats:
    """The probability of each item at each position under the policy that is asked for; (positions, items).

    Args:
        direction: one of `DIRECTIONS`.
        campaign: one of `CAMPAIGNS`.
        other: the target's own log, of which only positions and items are used.
    """
    items = other.n_actions or 0
    if direction == "Thompson to random":
        return np.full((POSITIONS, items), 1 / items)
    if direction == "random to Thompson, start":
        return obp_estimators.thompson_at_start(campaign, items)
    shown = np.zeros((POSITIONS, items))
    np.add.at(shown, (other.observations[:, 0], other.actions), 1)
    return shown / shown.sum(axis=1, keepdims=True)


def feedback(data: LoggedDataset) -> Feedback:
    """A log as obp takes it."""
    assert data.behaviour_log_prob is not None  # the format always reads propensities
    return Feedback(
        context=obp_estimators.one_hot(data.observations[:, 1:]),
        position=data.observations[:, 0],
        action=data.actions,
        reward=data.rewards,
        pscore=np.exp(data.behaviour_log_prob),
    )


def _row(name: str, found: Row, truth: dict[str, float]) -> Row:
    """An answer beside the truth."""
    judged = {
        "relative_error": found["value"] / truth["rate"] - 1,
        "covered": int(found["low"] <= truth["rate"] <= found["high"]),
    }
    return {"method": name, **found, **truth, **judged, "seconds": round(found["seconds"], 4)}


def table(results: Results) -> Table:
    """Make the table of relative errors, and of how many intervals of the logs themselves hold the on-policy rate."""
    lines = []
    for name in NAMES:
        line = [name]
        for direction in DIRECTIONS:
            rows = select(results.rows, method=name, direction=direction)
            whole = select(rows, seed=0)
            line += [_mean_size(whole), _mean_size(rows), f"{sum(row['covered'] for row in whole)} of {len(whole)}"]
        lines.append(line)
    columns = [f"{way}: {part}" for way in DIRECTIONS for part in ("log", "drawn", "held")]
    caption = "mean |relative error| on the logs and on all runs, and intervals that hold the on-policy rate"
    return Table(["method", *columns], lines, caption)


def _mean_size(rows: Sequence[Row]) -> str:
    sizes = np.array([abs(row["relative_error"]) for row in rows if row["verdict"] != "failed"])
    failed = f" ({len(rows) - len(sizes)} failed)" if len(sizes) < len(rows) else ""
    return f"{sizes.mean():.0%}{failed}" if len(sizes) else failed


def draw(results: Results) -> Figure:
    """Draw the estimates on the logs themselves with their intervals, beside the on-policy rate with its own."""
    campaigns = list(dict.fromkeys(row["campaign"] for row in results.rows))
    figure, axes = panels(len(DIRECTIONS), len(campaigns), height=2.6)
    places = [(way, campaign) for way in DIRECTIONS for campaign in campaigns]
    for axis, (way, campaign) in zip(axes, places, strict=True):
        _panel(axis, select(results.rows, direction=way, campaign=campaign, seed=0))
        axis.set_title(f"{campaign}: {way}", fontsize="small")
    for axis in axes[-len(campaigns) :]:
        axis.set_xlabel("clicks per 1000 shown items")
    return figure


def _panel(axis: Axes, rows: Sequence[Row]) -> None:
    for place, name in enumerate(NAMES):
        for row in select(rows, method=name):
            ends = np.array([[row["value"] - row["low"]], [row["high"] - row["value"]]])
            colour = "C0" if name.startswith("obp") else "C3" if name != "logged mean" else "C7"
            axis.errorbar(1000 * row["value"], -place, xerr=1000 * np.maximum(ends, 0), fmt="o", color=colour, ms=3)
    rate, error = 1000 * rows[0]["rate"], 1000 * rows[0]["rate_error"]
    axis.axvline(rate, color="black", linewidth=1)
    axis.axvspan(rate - TWO_SIDED * error, rate + TWO_SIDED * error, color="black", alpha=0.1)
    axis.set_yticks([-place for place in range(len(NAMES))], NAMES, fontsize=6)
    axis.set_xlim(0, 4 * rate)
