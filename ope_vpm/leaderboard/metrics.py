"""The leaderboard's numbers: every metric of every estimator and setting, with standard errors and significance."""

from collections import defaultdict
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace

import numpy as np

from ope_vpm.arrays import Floats
from ope_vpm.leaderboard import scores
from ope_vpm.leaderboard.records import Answers, Block, Board

Number = tuple[float | None, float | None]
"""A metric and its standard error; None where it is not defined."""


@dataclass(frozen=True)
class Metric:
    """A column of the tables."""

    title: str
    score: Callable[[Answers], scores.Score]
    """From the answers of whole runs about the policies that the metric can be told of."""
    known: str = "truth"
    """What must be known of a policy: "", "truth" or "floor"."""
    policies: int = 1
    """The fewest policies."""


METRICS = {
    "ratio": Metric("RMSE ÷ on-policy", lambda one: scores.floor_ratio(one.scaled), "floor"),
    "confidently_wrong": Metric(
        "confidently wrong",
        lambda one: scores.confidently_wrong(one.scaled, *one.wide, one.known.truth, one.verdict),
        "floor",
    ),
    "reliable_and_covered": Metric(
        "reliable and covered", lambda one: scores.reliable_and_covered(*one.wide, one.known.truth, one.verdict)
    ),
    "log_mse": Metric("log₁₀ MSE", lambda one: scores.log_mse(one.error)),
    "absolute_error": Metric("|error|", lambda one: scores.absolute_error(one.error)),
    "bias": Metric("bias", lambda one: scores.mean(one.error)),
    "rank_correlation": Metric(
        "rank correlation", lambda one: scores.rank_correlation(one.value, one.known.truth), policies=2
    ),
    "regret_1": Metric("regret@1", lambda one: scores.regret(one.value, one.known.truth, 1), policies=2),
    "regret_3": Metric("regret@3", lambda one: scores.regret(one.value, one.known.truth, 3), policies=4),
    "coverage": Metric("coverage", lambda one: scores.coverage(*one.wide, one.known.truth)),
    "width": Metric("width", lambda one: scores.width(one.low, one.high), ""),
    "verdicts_right": Metric("verdicts right", lambda one: scores.verdicts_right(one.scaled, one.verdict), "floor"),
    "seconds": Metric("seconds", lambda one: scores.mean(one.seconds), ""),
}
HEADLINES = ("confidently_wrong", "reliable_and_covered")
"""Shown by every table, also where nobody has them; over all settings they are pooled, not averaged, since a setting
may have one "reliable" answer or a thousand."""
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
    reliable: dict[str, int] = field(default_factory=dict)
    """For each of `HEADLINES`, how many "reliable" answers it is about."""
    p_value: float | None = None
    """The p-value of its being no worse than the best; None for the best itself, or where none can be had."""
    against_best: float | None = None
    """Over all settings: its error ÷ that of the best on the settings that both have, by which it is ranked."""
    best: bool = False
    """The lowest error; alone at the top only if nobody is level with it."""
    errors: tuple[Floats, ...] = field(default=(), repr=False, compare=False)
    """error / floor, setting by setting, of whole runs."""
    standing: dict[int, float] = field(default_factory=dict, repr=False, compare=False)
    """By setting, the number that it is ranked by there: the logarithm of its ratio, or half its log MSE."""

    @property
    def level(self) -> bool:
        """Whether it is the best or cannot be told from it."""
        return self.best or (self.p_value is not None and self.p_value >= SIGNIFICANT)


def lines(board: Board) -> list[Line]:
    """Every estimator on every setting, best first within a setting."""
    found: list[Line] = []
    for number in range(len(board.suite.settings)):
        blocks = board.blocks[number]
        scored = [_scores(block.answers) for block in blocks.values()]
        numbers = _with_errors(scored)
        measured = [_line(number, *each) for each in zip(blocks.values(), scored, numbers, strict=True)]
        found += compared(measured, blocks)
    return found


def overall(board: Board, found: Sequence[Line]) -> list[Line]:
    """Every estimator over all settings: geometric means of ratios, pooled headlines, means of everything else."""
    own: dict[str, list[Line]] = {entry.label: [] for entry in board.suite.entries}
    for line in found:
        own[line.estimator].append(line)
    whole = [_joined(label, lines_of) for label, lines_of in own.items() if lines_of]
    settings = max((len(line.errors) for line in whole), default=0)
    full = _against_best([line for line in whole if len(line.errors) == settings and not line.failed])
    rest = [line for line in whole if len(line.errors) != settings or line.failed]
    if not full or not full[0].best:
        return full + sorted(rest, key=_order)
    some = [line for line in rest if line.errors and not line.failed and set(line.standing) <= set(full[0].standing)]
    others = [line for line in rest if line not in some]
    best, measured = full[0], full[1:] + [_beside(full[0], line) for line in some]
    ranked = [replace(line, against_best=float(10 ** behind(best, line))) for line in (best, *measured)]
    # The best comes first: who is ahead of it on a few settings has not shown more than being level there.
    return [ranked[0], *sorted(ranked[1:], key=lambda line: line.against_best or 0.0), *sorted(others, key=_order)]


def behind(best: Line, line: Line) -> float:
    """How far a line is behind the best on the settings that both have; negative where it is ahead.

    An estimator that ran on the easy settings only is so not ranked by how easy they were.
    """
    common = [number for number in line.standing if number in best.standing]
    return float(np.mean([line.standing[number] - best.standing[number] for number in common]))


def _beside(best: Line, line: Line) -> Line:
    """A line of some settings with its p-value against the best on these."""
    errors = dict(zip(best.standing, best.errors, strict=True))
    (p_value,) = scores.p_values([errors[number] for number in line.standing], [line.errors])
    return replace(line, p_value=p_value)


def _scores(answers: Answers) -> dict[str, scores.Score]:
    """Every metric that answers have, over their whole runs."""
    if not answers.whole.any():
        return {}
    whole, known = answers.within(answers.whole), answers.known
    about = {"": whole, "truth": whole.within(policies=known.told), "floor": whole.within(policies=known.floored)}
    return {
        name: metric.score(about[metric.known])
        for name, metric in METRICS.items()
        if about[metric.known].value.shape[1] >= metric.policies
    }


def _with_errors(scored: Sequence[dict[str, scores.Score]]) -> list[dict[str, Number]]:
    """Every metric with its standard error; scores of as many runs are taken together, which is much faster."""
    numbers: list[dict[str, Number]] = [dict.fromkeys(METRICS, ALONE) for _ in scored]
    alike: defaultdict[int, list[tuple[int, str]]] = defaultdict(list)
    for place, own in enumerate(scored):
        for name, score in own.items():
            alike[len(score.numerators)].append((place, name))
    for these in alike.values():
        found = scores.with_errors([scored[place][name] for place, name in these])
        for (place, name), number in zip(these, found, strict=True):
            numbers[place][name] = _finite(number)
    return numbers


def _line(number: int, block: Block, scored: dict[str, scores.Score], numbers: dict[str, Number]) -> Line:
    whole, known = block.answers.within(block.answers.whole), block.answers.known
    runs, errors = len(whole.value), tuple[Floats, ...]()
    if runs and known.told.any():
        errors = (whole.scaled[:, known.floored] if known.floored.any() else whole.error[:, known.told],)
    reliable = {name: scored[name].count if name in scored else 0 for name in HEADLINES}
    line = Line(block.entry.label, number, numbers, runs, block.failed, block.missing, 1, reliable, errors=errors)
    return replace(line, standing={number: _order(line)[1]} if errors else {})


def compared(measured: list[Line], blocks: Mapping[str, Block]) -> list[Line]:
    """The lines of one setting, best first, each beside the best on the runs that all have."""
    full = [line for line in measured if not line.failed and line.errors]
    rest = [line for line in measured if line.failed or not line.errors]
    if full:
        whole = {line.estimator: blocks[line.estimator].answers.whole for line in full}
        common = np.logical_and.reduce(list(whole.values()))
        full = [replace(line, errors=(line.errors[0][common[whole[line.estimator]]],)) for line in full]
    return _against_best(full) + sorted(rest, key=_order)


def _against_best(full: list[Line]) -> list[Line]:
    """Best first, each with its p-value against the best."""
    ordered = sorted(full, key=_order)
    if not ordered or not ordered[0].errors or not all(len(errors) for errors in ordered[0].errors):
        return ordered
    best = ordered[0]
    found = scores.p_values(best.errors, [line.errors for line in ordered[1:]])
    others = [replace(line, p_value=p_value) for line, p_value in zip(ordered[1:], found, strict=True)]
    return [replace(best, best=True), *others]


def _joined(label: str, found: list[Line]) -> Line:
    """One estimator over the settings on which it ran."""
    defined = {name: [line for line in found if line.numbers[name][0] is not None] for name in METRICS}
    return Line(
        label,
        None,
        {name: _over_settings(name, known) if known else ALONE for name, known in defined.items()},
        min((line.runs for line in found), default=0),
        sum(line.failed for line in found),
        sum(line.missing for line in found),
        len(found),
        {name: sum(line.reliable[name] for line in found) for name in HEADLINES},
        errors=tuple(errors for line in found for errors in line.errors),
        standing={number: place for line in found for number, place in line.standing.items()},
    )


def _over_settings(name: str, known: Sequence[Line]) -> Number:
    numbers = [line.numbers[name] for line in known]
    if name == "ratio":
        return _geometric(numbers)
    return _mean(numbers, [line.reliable[name] if name in HEADLINES else 1 for line in known])


def _mean(numbers: Sequence[Number], weights: Sequence[float]) -> Number:
    """The weighted mean over settings, whose runs are independent of each other."""
    share = np.asarray(weights) / np.sum(weights)
    values = [value for value, _ in numbers if value is not None]
    errors = [error for _, error in numbers if error is not None]
    together = float(np.sqrt(np.sum(np.square(share * errors)))) if len(errors) == len(values) else None
    return float(share @ values), together


def _geometric(numbers: Sequence[Number]) -> Number:
    logs = [
        (float(np.log(value)), None if error is None else error / value)
        for value, error in numbers
        if value is not None and value > 0
    ]
    mean, error = _mean(logs, [1] * len(logs)) if logs else ALONE
    if mean is None:
        return ALONE
    return float(np.exp(mean)), None if error is None else float(np.exp(mean) * error)


def _order(line: Line) -> tuple[bool, float]:
    """The sort key of a line: log₁₀ of its ratio to the floor, or half its log MSE; lines without either come last."""
    ratio, log_mse = line.numbers["ratio"][0], line.numbers["log_mse"][0]
    number = np.log10(ratio) if ratio else log_mse / 2 if log_mse is not None else None
    return number is None, 0.0 if number is None else float(number)


def _finite(number: Number) -> Number:
    value, error = number
    known = value is not None and np.isfinite(value)
    return (value if known else None, error if known and error is not None and np.isfinite(error) else None)


def agreement(board: Board, number: int) -> tuple[list[str], Floats]:
    """How alike estimators rank the policies of a setting: Spearman's correlation of their mean estimates."""
    answers = {label: block.answers for label, block in board.blocks[number].items()}
    known = {label: each.value[each.whole] for label, each in answers.items() if each.whole.any()}
    means = np.array([value.mean(axis=0) for value in known.values()])
    return list(known), scores.spearman(means, means) if known else np.zeros((0, 0))
