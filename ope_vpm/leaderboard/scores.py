"""How good an estimator is, one function per metric.

Arrays have one row per run and one column per policy. Runs are independent data sets that all policies share, so
every standard error is a jackknife over runs. Each metric is a function of sums over runs (`Score`): leaving a run out
changes the sums and nothing else, so that the jackknife costs as much as the metric itself.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt
from scipy.special import comb

from ope_vpm.arrays import Floats, mean_ranks

Mask = npt.NDArray[np.bool_]
REPLICATES = 2000
"""Bootstrap draws: the standard error of a p-value of 0.05 is then 0.005."""
BATCHES = 1000
"""More runs than this are drawn in groups of neighbours, as in batch means: 1000 are enough for the bootstrap's
spread (its relative error is 1/√2000), and ten times as many would cost ten times as much."""
SMALLEST = 1e-300
"""Takes the place of a squared error of 0 in a logarithm."""
ROUNDING = 1e-12
"""A standard error below this share of its metric is the floating point's."""
GOOD = 3.0
"""An estimate within so many on-policy errors of the truth counts as good, for the verdicts."""
RELIABLE = 1.0
"""How the verdict "reliable" is coded; "caution" is 0 and "unreliable" -1."""


def _only(ratio: Floats) -> Floats:
    """The metric of a score with one column: the ratio itself."""
    return ratio[..., 0]


def _log_mean(mean_square: Floats) -> Floats:
    """log₁₀ of each policy's mean squared error, averaged over policies."""
    return np.asarray(np.log10(np.maximum(mean_square, SMALLEST)).mean(axis=-1))


def _root_ratio(mean_square: Floats) -> Floats:
    """The geometric mean over policies of √(mean squared error)."""
    return np.asarray(10 ** (_log_mean(mean_square) / 2))


@dataclass(frozen=True)
class Score:
    """A metric as a function of sums over runs: finish(Σ numerators ÷ Σ denominators)."""

    numerators: Floats
    """(runs, columns)."""
    denominators: Floats
    """(runs, 1): how many entries each run contributes."""
    finish: Callable[[Floats], Floats] = _only
    """From ratios (..., columns) to metrics (...)."""

    @property
    def count(self) -> int:
        """The number of entries that the metric is about."""
        return int(self.denominators.sum())

    @property
    def value(self) -> float:
        """The metric over all runs; NaN where it is about nothing."""
        with np.errstate(invalid="ignore", divide="ignore"):
            return float(self.finish(self.numerators.sum(axis=0) / self.denominators.sum(axis=0)))


def with_errors(found: Sequence[Score]) -> list[tuple[float, float | None]]:
    """Scores of the same runs, each with its jackknife standard error √((n-1)/n · Σ (θ₋ᵢ - mean)²).

    All are taken together: numpy takes as long for one column as for twenty.
    """
    widths = [one.numerators.shape[1] for one in found]
    numerators = np.hstack([one.numerators for one in found])
    denominators = np.hstack([one.denominators for one in found])
    which = np.repeat(np.arange(len(found)), widths)
    with np.errstate(invalid="ignore", divide="ignore"):
        ratios = numerators.sum(axis=0) / denominators.sum(axis=0)[which]
        left_out = _without_each(numerators) / _without_each(denominators)[:, which]
    ends = np.cumsum(widths).tolist()
    both = np.vstack([ratios, left_out])  # most metrics are a ratio itself, their last column here
    finished = both[:, np.array(ends) - 1]
    for place, (one, end, width) in enumerate(zip(found, ends, widths, strict=True)):
        if one.finish is not _only:
            finished[:, place] = one.finish(both[:, end - width : end])
    values, spread = finished[0].tolist(), _spread(finished[1:].T)
    return [
        (value, None if np.isnan(error) else error if error > ROUNDING * abs(value) else 0.0)
        for value, error in zip(values, spread.tolist(), strict=True)
    ]


def _spread(left_out: Floats) -> Floats:
    """√((n-1)/n · Σ (θ₋ᵢ - mean)²) for each row, over its finite entries; NaN where there are fewer than two."""
    finite = np.isfinite(left_out)
    many = finite.sum(axis=1)
    with np.errstate(invalid="ignore", divide="ignore"):
        mean = np.where(finite, left_out, 0.0).sum(axis=1) / many
        variance = np.where(finite, (left_out - mean[:, None]) ** 2, 0.0).sum(axis=1) / many
    return np.where(many > 1, np.sqrt((many - 1) * variance), np.nan)


def _without_each(terms: Floats) -> Floats:
    """For each row the sum of all other rows.

    The rows before and the rows after are added: subtracting a row from the total would lose the digits of the
    others where one run's error is much larger than all of theirs.
    """
    sums = np.zeros_like(terms, dtype=float)
    sums[1:] += np.cumsum(terms[:-1], axis=0)
    sums[:-1] += np.cumsum(terms[:0:-1], axis=0)[::-1]
    return sums


def _mean(per_run: Floats) -> Score:
    """The mean over runs of one number per run."""
    return Score(per_run[:, None], np.ones((len(per_run), 1)))


def _share(counted: Floats | Mask, among: Mask) -> Score:
    """The mean of `counted` over the entries where `among` is true, both (runs, policies)."""
    entries = np.where(among, counted, 0.0).sum(axis=1, keepdims=True)
    return Score(entries, among.sum(axis=1, keepdims=True).astype(float))


def log_mse(error: Floats) -> Score:
    """log₁₀ of the mean squared error over runs, averaged over policies: the paper's measure."""
    return Score(error**2, np.ones((len(error), 1)), _log_mean)


def floor_ratio(scaled: Floats) -> Score:
    """RMSE over runs as a multiple of the on-policy mean's, geometric mean over policies; of error / floor."""
    return Score(scaled**2, np.ones((len(scaled), 1)), _root_ratio)


def absolute_error(error: Floats) -> Score:
    """The mean of |error|."""
    return mean(np.abs(error))


def mean(values: Floats) -> Score:
    """The mean over runs and policies: the bias, of errors; the seconds of an estimate."""
    return _mean(values.sum(axis=1) / values.shape[1])


def rank_correlation(value: Floats, truth: Floats) -> Score:
    """Spearman's correlation of estimates and truths over policies, averaged over runs; 0 for equal estimates."""
    return _mean(spearman(value, truth[None])[:, 0])


def spearman(first: Floats, second: Floats) -> Floats:
    """The correlation of ranks of each row of `first` with each of `second`; 0 where a row's entries are all equal."""
    a, b = (np.apply_along_axis(mean_ranks, 1, values) - (values.shape[1] + 1) / 2 for values in (first, second))
    scale = np.sqrt(np.outer((a**2).sum(axis=1), (b**2).sum(axis=1)))
    return np.asarray(np.divide(a @ b.T, scale, out=np.zeros_like(scale), where=scale > 0))


def regret(value: Floats, truth: Floats, k: int) -> Score:
    """What is lost by running the k policies that look best and keeping the best of them, averaged over runs.

    As a share of the distance from the best policy to the worst; where estimates are equal, the expectation over
    the order in which they might be taken.
    """
    span = truth.max() - truth.min()
    if span == 0:
        return _mean(np.zeros(len(value)))
    return _mean((truth.max() - _expected_best(value, truth, min(k, len(truth)))) / span)


def _expected_best(value: Floats, truth: Floats, k: int) -> Floats:
    """(runs,): the best truth among the k highest values, ties broken evenly."""
    order = np.argsort(truth)
    value, truth = value[:, order], truth[order]
    last = np.sort(value, axis=1)[:, [-k]]
    sure, tied = value > last, value == last
    drawn, many = k - sure.sum(axis=1, keepdims=True), tied.sum(axis=1, keepdims=True)
    best_sure = np.where(sure, truth, -np.inf).max(axis=1, keepdims=True)
    # The largest of `drawn` out of `many` is the i-th smallest in C(i, drawn-1) of C(many, drawn) cases.
    probability = comb(tied.cumsum(axis=1) - 1, drawn - 1) / comb(many, drawn)
    return np.asarray(np.where(tied, probability * np.maximum(truth, best_sure), 0.0).sum(axis=1))


def coverage(low: Floats, high: Floats, truth: Floats) -> Score:
    """The share of intervals that hold the truth."""
    return _share(_holds(low, high, truth), _given(low, high))


def width(low: Floats, high: Floats) -> Score:
    """The mean width of the intervals."""
    return _share(high - low, _given(low, high))


def verdicts_right(scaled: Floats, verdict: Floats) -> Score:
    """The share of "reliable" that were within `GOOD` on-policy errors and of "unreliable" that were not.

    Of error / floor; "caution" claims nothing and is not counted.
    """
    good = np.abs(scaled) <= GOOD
    return _share(good == (verdict > 0), verdict != 0)


def reliable_and_covered(low: Floats, high: Floats, truth: Floats, verdict: Floats) -> Score:
    """The share of "reliable" answers whose interval holds the truth; one without an interval does not."""
    return _share(_holds(low, high, truth), verdict == RELIABLE)


def confidently_wrong(scaled: Floats, low: Floats, high: Floats, truth: Floats, verdict: Floats) -> Score:
    """The share of "reliable" answers more than `GOOD` on-policy errors off whose interval does not hold the truth."""
    wrong = (np.abs(scaled) > GOOD) & ~_holds(low, high, truth)
    return _share(wrong, verdict == RELIABLE)


def _given(low: Floats, high: Floats) -> Mask:
    return np.isfinite(low) & np.isfinite(high)


def _holds(low: Floats, high: Floats, truth: Floats) -> Mask:
    """Whether an interval is there and holds the truth."""
    return np.asarray((low <= truth) & (truth <= high))


def allowing(low: Floats, high: Floats, value: Floats, truth_error: Floats) -> tuple[Floats, Floats]:
    """The ends of intervals, moved out so that they also allow for the standard error of the truth.

    The two errors are independent: the distance d of an end from the value becomes √(d² + (1.96 · truth_error)²).
    """
    beyond = 1.96 * truth_error
    further = [np.hypot(end - value, beyond) - np.abs(end - value) for end in (low, high)]
    return low - further[0], high + further[1]


def p_values(
    best: Sequence[Floats], others: Sequence[Sequence[Floats]], seed: int = 0, replicates: int = REPLICATES
) -> list[float]:
    """One-sided p-values of the others' being worse than the best, by a bootstrap over runs, paired.

    Compared is the mean over settings and policies of the log MSE. Everybody is given setting by setting as errors of
    the same runs and policies, and the same runs are drawn for all. With n runs of a setting no p-value is below
    2⁻ⁿ, that of n signs alike: four runs prove nothing, of however many settings.
    """
    rng = np.random.default_rng(seed)
    differences = np.zeros((replicates, len(others)))
    for ours, *theirs in zip(best, *others, strict=True):
        sizes, squares = _batched(np.stack([ours, *theirs], axis=1) ** 2)
        times = _times_drawn(rng, len(sizes), replicates)
        drawn = (times @ squares.reshape(len(sizes), -1)) / (times @ sizes)[:, None]
        logs = _log_mean(drawn.reshape(replicates, *squares.shape[1:]))
        differences += logs[:, 1:] - logs[:, :1]
    least = 2.0 ** -min(len(errors) for errors in best)
    return [max(float(share), least) for share in (1 + (differences <= 0).sum(axis=0)) / (replicates + 1)]


def _times_drawn(rng: np.random.Generator, many: int, replicates: int) -> Floats:
    """(replicates, many): how often each of `many` is drawn in `many` draws with replacement."""
    drawn = rng.integers(many, size=(replicates, many)) + many * np.arange(replicates)[:, None]
    return np.bincount(drawn.ravel(), minlength=replicates * many).reshape(replicates, many).astype(float)


def _batched(squares: Floats) -> tuple[Floats, Floats]:
    """How many runs are in each batch and the sums over them; batches of one while there are at most `BATCHES`."""
    runs = len(squares)
    starts = np.linspace(0, runs, min(runs, BATCHES), endpoint=False).astype(int)
    return np.diff(starts, append=runs).astype(float), np.add.reduceat(squares, starts, axis=0)
