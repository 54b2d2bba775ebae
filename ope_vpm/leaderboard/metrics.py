"""The leaderboard's numbers: every metric of every estimator and setting, with standard errors and significance."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field, replace

import numpy as np

from ope_vpm.arrays import Floats
from ope_vpm.leaderboard import scores
from ope_vpm.leaderboard.records import Block, Board

Number = tuple[float | None, float | None]
"""A metric and its standard error; None where it is not defined."""
METRICS = {
    "ratio": "RMSE ÷ on-policy",
    "log_mse": "log₁₀ MSE",
    "absolute_error": "|error|",
    "bias": "bias",
    "rank_correlation": "rank correlation",
    "regret_1": "regret@1",
    "regret_3": "regret@3",
    "coverage": "coverage",
    "width": "width",
    "verdicts_right": "verdicts right",
    "seconds": "seconds",
}
SIGNIFICANT = 0.05
ALONE: Number = (None, None)


@dataclass(frozen=True)
class Line:
    """An estimator on one setting, or over all of them."""

    estimator: str
    setting: int | None
    """The number of the setting; None: over all."""
    numbers: dict[str, Number]
    runs: int
    """Runs in which every policy has a value."""
    failed: int = 0
    missing: int = 0
    settings: int = 1
    """How many settings it ran on."""
    chance: float | None = None
    """A p-value of its being no worse than the best; None for the best itself, or where none can be had."""
    best: bool = False
    """The lowest error; alone at the top only if nobody is level with it."""
    errors: tuple[Floats, ...] = field(default=(), repr=False, compare=False)
    """error / floor, setting by setting, of whole runs."""

    @property
    def level(self) -> bool:
        """Whether it is the best or cannot be told from it."""
        return self.best or (self.chance is not None and self.chance >= SIGNIFICANT)


def lines(board: Board) -> list[Line]:
    """Every estimator on every setting, best first within a setting."""
    found: list[Line] = []
    for number, setting in enumerate(board.suite.settings):
        truth, floor = board.truth(setting), board.floor(setting)
        blocks = [board.block(number, entry) for entry in board.suite.competitors(setting)]
        measured = [_line(number, block, truth, floor) for block in blocks]
        found += compared(measured, {line.estimator: block for line, block in zip(measured, blocks, strict=True)})
    return found


def overall(board: Board, found: Sequence[Line]) -> list[Line]:
    """Every estimator over all settings: geometric means of ratios, means of everything else."""
    own = {entry.label: [line for line in found if line.estimator == entry.label] for entry in board.suite.entries}
    whole = [_joined(label, lines_of) for label, lines_of in own.items() if lines_of]
    settings = max((len(line.errors) for line in whole), default=0)
    full = [line for line in whole if len(line.errors) == settings and not line.failed]
    rest = [line for line in whole if line not in full]
    return _against_best(full) + sorted(rest, key=_order)


def _line(number: int, block: Block, truth: Floats, floor: Floats) -> Line:
    whole = block.whole
    runs = int(whole.sum())
    numbers: dict[str, Number] = dict.fromkeys(METRICS, ALONE)
    errors: tuple[Floats, ...] = ()
    if runs:
        value, low, high = block.value[whole], block.low[whole], block.high[whole]
        numbers["seconds"] = scores.jackknife(lambda seconds: float(seconds.mean()), block.seconds[whole])
        numbers["width"] = scores.jackknife(scores.width, low, high)
        known = np.isfinite(truth)
        if known.any():
            numbers |= _against_truth(value[:, known], low[:, known], high[:, known], truth[known])
            floored = known & np.isfinite(floor) & (floor > 0)
            if floored.any():
                scaled = (value - truth)[:, floored] / floor[floored]
                verdict = block.verdict[whole][:, floored]
                numbers["ratio"] = scores.jackknife(scores.floor_ratio, scaled)
                numbers["verdicts_right"] = scores.jackknife(scores.verdicts_right, scaled, verdict)
                errors = (scaled,)
            else:
                errors = ((value - truth)[:, known],)
    numbers = {name: _finite(number) for name, number in numbers.items()}
    return Line(block.entry.label, number, numbers, runs, block.failed, block.missing, errors=errors)


def _against_truth(value: Floats, low: Floats, high: Floats, truth: Floats) -> dict[str, Number]:
    error = value - truth
    numbers: dict[str, Number] = {
        "log_mse": scores.jackknife(scores.log_mse, error),
        "absolute_error": scores.jackknife(scores.absolute_error, error),
        "bias": scores.jackknife(scores.bias, error),
        "coverage": scores.jackknife(lambda lows, highs: scores.coverage(lows, highs, truth), low, high),
    }
    if len(truth) > 1:
        numbers["rank_correlation"] = scores.jackknife(lambda values: scores.rank_correlation(values, truth), value)
        numbers["regret_1"] = scores.jackknife(lambda values: scores.regret(values, truth, 1), value)
    if len(truth) > 3:
        numbers["regret_3"] = scores.jackknife(lambda values: scores.regret(values, truth, 3), value)
    return numbers


def compared(measured: list[Line], blocks: dict[str, Block]) -> list[Line]:
    """The lines of one setting, best first, each beside the best."""
    full = [line for line in measured if not line.failed and line.errors]
    rest = [line for line in measured if line not in full]
    if full:
        common = np.logical_and.reduce([blocks[line.estimator].whole for line in full])
        full = [_of_runs(line, blocks[line.estimator], common) for line in full]
    return _against_best(full) + sorted(rest, key=_order)


def _of_runs(line: Line, block: Block, common: Floats) -> Line:
    """The same with the errors of the runs that all have."""
    return replace(line, errors=(line.errors[0][common[block.whole]],))


def _against_best(full: list[Line]) -> list[Line]:
    """Best first, each with its p-value against the best."""
    ordered = sorted(full, key=_order)
    if not ordered or not ordered[0].errors or not all(len(errors) for errors in ordered[0].errors):
        return ordered
    best = ordered[0]
    others = [replace(line, chance=scores.chance_of_no_worse(best.errors, line.errors)) for line in ordered[1:]]
    return [replace(best, best=True), *others]


def _joined(label: str, found: list[Line]) -> Line:
    numbers: dict[str, Number] = {}
    for name in METRICS:
        known = [line.numbers[name] for line in found if line.numbers[name][0] is not None]
        numbers[name] = (_geometric(known) if name == "ratio" else _mean(known)) if known else ALONE
    return Line(
        label,
        None,
        numbers,
        min((line.runs for line in found), default=0),
        sum(line.failed for line in found),
        sum(line.missing for line in found),
        len(found),
        errors=tuple(errors for line in found for errors in line.errors),
    )


def _mean(numbers: Sequence[Number]) -> Number:
    """The mean over settings, whose runs are independent of each other."""
    values = [value for value, _ in numbers if value is not None]
    errors = [error for _, error in numbers if error is not None]
    together = float(np.sqrt(np.sum(np.square(errors))) / len(values)) if len(errors) == len(values) else None
    return float(np.mean(values)), together


def _geometric(numbers: Sequence[Number]) -> Number:
    logs = [
        (float(np.log(value)), None if error is None else error / value)
        for value, error in numbers
        if value is not None and value > 0
    ]
    mean, error = _mean(logs) if logs else ALONE
    if mean is None:
        return ALONE
    return float(np.exp(mean)), None if error is None else float(np.exp(mean) * error)


def _order(line: Line) -> tuple[bool, float]:
    """By the ratio to the floor, or by log MSE where there is none; those without either last."""
    ratio, log_mse = line.numbers["ratio"][0], line.numbers["log_mse"][0]
    number = np.log10(ratio) if ratio else log_mse / 2 if log_mse is not None else None
    return number is None, 0.0 if number is None else float(number)


def _finite(number: Number) -> Number:
    value, error = number
    known = value is not None and np.isfinite(value)
    return (value if known else None, error if known and error is not None and np.isfinite(error) else None)


def agreement(board: Board, number: int) -> tuple[list[str], Floats]:
    """How alike estimators rank the policies of a setting: Spearman's correlation of their mean estimates."""
    setting = board.suite.settings[number]
    blocks = [board.block(number, entry) for entry in board.suite.competitors(setting)]
    known = [block for block in blocks if block.whole.any()]
    means = [block.value[block.whole].mean(axis=0) for block in known]
    matrix = np.array([[scores.spearman(first, second) for second in means] for first in means])
    return [block.entry.label for block in known], matrix
