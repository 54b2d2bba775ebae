"""The stationary distribution of a logged quantity: queue lengths, prices, positions."""

import csv
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from ope_vpm.arrays import Array, Floats
from ope_vpm.chain import VPM, Expectation, StationaryEstimate, Transitions
from ope_vpm.chain.states import as_paths
from ope_vpm.outside import Shown, check_regular, parse_number, warn_if_cut


def read_paths(path: Path, column: str, by: str | None = None) -> list[Floats]:
    """Read a column of a CSV file as one or several trajectories, in the order of the file.

    Args:
        path: of a CSV file with a header.
        column: the name of the column with the values.
        by: the name of a column whose value identifies the trajectory of a row; None: all rows are one trajectory.
    """
    check_regular(path)
    warn_if_cut(path)
    paths: dict[str, list[float]] = {}
    with path.open(newline="", encoding="utf-8-sig") as file:
        reader = csv.reader(file)
        try:
            header = [name.strip() for name in next(reader, [])]
            at = _find(header, column, path)
            key = None if by is None else _find(header, by, path)
            for cells in reader:
                if cells:
                    whose = "" if key is None or key >= len(cells) else cells[key]
                    paths.setdefault(whose, []).append(_number(cells, at, column, reader.line_num))
        except (UnicodeDecodeError, csv.Error) as error:
            raise ValueError(f"{path} cannot be read as CSV: {error}") from error
    if not paths:
        raise ValueError(f"{path} has a header and no rows")
    return [np.array(values) for values in paths.values()]


def _find(header: list[str], column: str, path: Path) -> int:
    if not header:
        raise ValueError(f"{path} is empty: a header with column names is needed")
    if column not in header:
        raise ValueError(f"{path} has no column {column!r}: its columns are {', '.join(header)[:200]}")
    if header.count(column) > 1:
        raise ValueError(f"{path} has {header.count(column)} columns called {column!r}: names must differ")
    return header.index(column)


def _number(cells: list[str], at: int, column: str, row: int) -> float:
    text = cells[at].strip() if at < len(cells) else ""
    try:
        value = parse_number(text)
    except ValueError:
        raise ValueError(f"column {column!r} must hold numbers: row {row} is {text!r}") from None
    if not np.isfinite(value):
        raise ValueError(f"column {column!r} must hold finite numbers: row {row} is {text!r}")
    return value


LARGEST = 2**53
"""Whole numbers beyond it are treated as continuous: floats do not hold all of them, and 64-bit integers end soon."""
MOST_STATES = 10_000
"""Whole numbers over a wider range than this are treated as continuous: few of them would be seen twice, and pooling
increments needs one row of a matrix for each. A round number."""
BINS = 20
"""Bins of the histogram that is printed for continuous quantities, so that it fits a terminal. A round number."""
QUANTILES = (0.05, 0.25, 0.5, 0.75, 0.95)
"""The quantiles that are printed: the median, the quartiles and the ends of a 90 % range."""


BEYOND_NOISE = 2.0
"""A residual above this multiple of its sampling noise is no accident: as in the verdicts on MCMC draws."""
ROUNDING = 1e-9
"""Residuals below it are rounding errors, where a deterministic chain leaves no noise to compare them with."""


@dataclass(frozen=True, eq=False)
class StationaryDistribution(Shown):
    """The estimated stationary distribution of one logged quantity."""

    estimate: StationaryEstimate
    """The underlying estimate: weights of the logged rows, and diagnostics."""
    mean: Expectation
    """The long-run mean, with a `standard_error`."""
    logged_mean: float
    """The unweighted mean of the logged values."""
    values: Floats
    """The support: whole numbers, or the centres of bins."""
    probabilities: Floats
    """The probability of each of `values`; they sum to 1."""

    @property
    def counts(self) -> bool:
        """Whether the quantity is a whole number."""
        return self.estimate.transitions.finite

    def quantile(self, q: float) -> float:
        """Return the smallest value x with P(X ≤ x) ≥ q."""
        if not 0 <= q <= 1:
            raise ValueError(f"a quantile's probability must be in [0, 1]: got {q}")
        if self.counts:
            values, weights = self.values, self.probabilities
        else:
            order = np.argsort(self.estimate.transitions.x[:, 0])
            values, weights = self.estimate.transitions.x[order, 0], self.estimate.weights[order]
        cumulative = np.cumsum(weights) / weights.sum()
        # the tolerance is for the rounding errors of the cumulative sum
        return float(values[min(int(np.searchsorted(cumulative, q - 1e-12)), len(values) - 1)])

    def plot(self, name: str = "logged quantity") -> Any:
        """The distribution over a histogram of what was logged, on axes of matplotlib, which are returned."""
        from ope_vpm.paths.picture import draw_distribution

        return draw_distribution(self, name).axes[0]

    def __str__(self) -> str:
        quantiles = "   ".join(f"{q:.0%}: {self.quantile(q):.4g}" for q in QUANTILES)
        return "\n".join(
            [
                f"long-run mean  {self.mean!r}",
                f"logged mean    {self.logged_mean:.5g}",
                f"quantiles      {quantiles}",
                *_bars(self.values, self.probabilities),
                *(f"note: {doubt}" for doubt in self.estimate.diagnostics.doubts),
                *self._residual_in_words(),
            ]
        )

    def _residual_in_words(self) -> list[str]:
        """A line where the weighted states are not stationary."""
        found = self.estimate.diagnostics
        residual, noise = found.stationarity_residual, found.stationarity_noise
        if residual <= max(BEYOND_NOISE * noise, ROUNDING):
            return []
        return [
            f"note: one more step changes the distribution (stationarity residual {residual:.2g}, noise {noise:.2g})"
        ]


def stationary(
    paths: npt.ArrayLike | Sequence[npt.ArrayLike], *, lag: int = 1, seed: int = 0, **options: Any
) -> StationaryDistribution:
    """Estimate the stationary distribution of a quantity from trajectories, even if they have not reached it.

    Args:
        paths: one trajectory of shape (T,), or a list of several of any lengths. Whole numbers from 0 up are states of
            a finite chain whose increments x' - x are pooled over states, as fits the length of a queue; other numbers
            are continuous states, for the kernel solver.
        lag: the number of steps between the two states of a pair (x, x'). Where one step changes little (a finely
            sampled diffusion), take more than 1.
        seed: makes everything random repeatable.
        options: further settings of `VPM`.

    Returns:
        The mean with its standard error, probabilities and quantiles, and the weights of the logged rows.

    ```python
    import ope_vpm as ov

    found = ov.stationary([0, 1, 0, 0, 1, 0, 1, 0], pool_increments=False)  # 0 goes to 1 in 3 of 4 steps, 1 always back
    assert abs(found.mean - 3 / 7) < 1e-9 and found.logged_mean == 3 / 8
    ```
    """
    arrays = _as_list(paths)
    joined = np.concatenate(arrays)
    if _are_counts(joined):
        data = Transitions.from_paths([array.astype(np.int64) for array in arrays], lag=lag)
        options = {"pool_increments": not options.get("reversible", False)} | options
    else:
        data = Transitions.from_paths([array.astype(np.float64) for array in arrays], lag=lag)
    estimate = VPM(seed=seed, **options).fit(data)
    x = np.asarray(data.x, dtype=np.float64).reshape(len(data))
    values, probabilities = _support(estimate, x)
    mean = _mean(estimate, x, values, probabilities)
    return StationaryDistribution(estimate, mean, float(joined.mean()), values, probabilities)


def _as_list(paths: Any) -> list[Array]:
    arrays = as_paths(paths)
    for number, array in enumerate(arrays):
        if array.ndim != 1 or array.dtype.kind not in "iuf":
            raise ValueError(
                f"a path must be numbers of shape (T,): path {number} has shape {array.shape}, dtype {array.dtype} "
                "(several coordinates: Transitions.from_paths and VPM)"
            )
        if not np.isfinite(array).all():
            raise ValueError(f"a path must be finite: path {number}, step {int(np.argmin(np.isfinite(array)))} is not")
    return arrays


def _are_counts(values: npt.NDArray[Any]) -> bool:
    whole = values.dtype.kind in "iu" or bool((values == np.rint(values)).all())
    if not whole or values.size == 0 or values.min() < 0 or values.max() > LARGEST:
        return False
    return bool(values.max() - values.min() < MOST_STATES)


def _support(estimate: StationaryEstimate, x: Floats) -> tuple[Floats, Floats]:
    """Return values and their probabilities: every whole number in the range, or the bins of a weighted histogram."""
    if estimate.transitions.finite:
        successors = estimate.transitions.x_next
        states = np.arange(int(min(x.min(), successors.min())), int(max(x.max(), successors.max())) + 1)
        return states.astype(np.float64), estimate.probabilities(states)
    mass, edges = np.histogram(x, bins=BINS, weights=np.maximum(estimate.weights, 0))
    return (edges[1:] + edges[:-1]) / 2, mass / mass.sum()


def _mean(estimate: StationaryEstimate, x: Floats, values: Floats, probabilities: Floats) -> Expectation:
    """Return the mean of the distribution itself for whole numbers, and of the weighted rows otherwise.

    With pooled increments, states that no row begins with can have positive probability; weighted rows would miss them.
    """
    weighted = estimate.expectation(x)
    if not estimate.transitions.finite:
        return weighted
    return Expectation(float(values @ probabilities / probabilities.sum()), weighted.standard_error)


def _bars(values: Floats, probabilities: Floats, most: int = 24, width: int = 40) -> list[str]:
    """Draw the distribution as lines of text, with one line for all probability beyond the first `most` values."""
    largest = max(float(probabilities.max()), 1e-12)  # the least keeps an empty histogram from dividing by 0
    lines = [
        f"{value:>10.4g}  {probability:6.2%}  {'█' * round(width * probability / largest)}"
        for value, probability in zip(values[:most], probabilities[:most], strict=True)
    ]
    if len(values) > most:
        lines.append(f"{'beyond':>10}  {probabilities[most:].sum():6.2%}")
    return lines
