"""The result of a fit: the stationary distribution, as weights on the rows of the data."""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from ope_vpm.arrays import Array, Floats, chunks
from ope_vpm.chain.batches import sum_of_products
from ope_vpm.chain.diagnostics import Diagnostics
from ope_vpm.chain.solvers.kernel import KernelRatio
from ope_vpm.chain.solvers.network import HiddenFeatures, NeuralRatio
from ope_vpm.chain.solvers.solution import Ratio, ValueFunction
from ope_vpm.chain.solvers.tabular_ratio import TabularRatio
from ope_vpm.chain.states import as_states
from ope_vpm.chain.transitions import Transitions
from ope_vpm.linear.features import Features, FourierFeatures, NystromFeatures, Standardiser
from ope_vpm.outside import reading, write_whole

MOST_STATES = 100_000_000
"""`probabilities()` without states refuses more than this: its answer, one number per state, would take 0.8 GB."""


TWO_SIDED = 1.96
"""Standard errors to each side of a 95 % interval: the normal distribution's."""


class Expectation(float):
    """An estimated expectation: a float with the attribute `standard_error`, printed with its 95 % interval."""

    standard_error: float

    def __new__(cls, value: float, standard_error: float) -> Expectation:
        """Make a float with the attribute `standard_error`."""
        number = super().__new__(cls, value)
        number.standard_error = standard_error
        return number

    def __repr__(self) -> str:
        return f"{float(self):.6g} ± {TWO_SIDED * self.standard_error:.2g} (95 %)"


@dataclass(frozen=True, eq=False, repr=False)
class StationaryEstimate:
    """The estimated stationary distribution μ = p·τ of a Markov chain, or at γ < 1 its discounted distribution.

    The rows of the data with `weights` are a weighted sample of μ: E_μ[f] = Σ w f(x) / Σ w.

    ```python
    import ope_vpm as ov

    estimate = ov.VPM().fit(ov.Transitions([0, 0, 0, 1, 1, 1], [0, 1, 1, 0, 0, 0]))
    p = estimate.probabilities()  # 0 goes to 1 in two of three steps, 1 always goes back: 3/5 and 2/5
    assert abs(p[0] - 0.6) < 1e-12
    assert abs(estimate.expectation(lambda x: x) - 0.4) < 1e-12
    ```
    """

    transitions: Transitions
    """The data that it was estimated from."""
    gamma: float
    """The discount γ; 1 for the stationary distribution."""
    weights: Floats
    """τ at each row times the row's own weight, scaled to sum to the number of rows."""
    diagnostics: Diagnostics
    """How far the estimate can be trusted."""
    _ratio: Ratio

    def __repr__(self) -> str:
        return f"StationaryEstimate of {self.transitions!r}\n{self.diagnostics}"

    @property
    def log_weights(self) -> Floats:
        """The logarithms of the weights scaled to sum to 1, as ArviZ takes them (`arviz.psislw`); -∞ for weight 0."""
        with np.errstate(divide="ignore"):
            logs: Floats = np.log(np.maximum(self.weights, 0.0) / np.maximum(self.weights, 0.0).sum())
        return logs

    def ratio(self, x: npt.ArrayLike) -> Floats:
        """Return the ratio τ = μ/p at any states, with E_p[τ] = 1 over the data.

        Args:
            x: states of the same kind and dimension as those of the data.
        """
        return self._ratio(as_states("x", x, self.transitions.finite, self.transitions.dimension))

    def expectation(self, f: Callable[[Array], npt.ArrayLike] | npt.ArrayLike) -> Expectation:
        """Estimate E_μ[f], the expectation of f under the stationary distribution, with a `standard_error`.

        Args:
            f: a function that takes states and returns one number per state; or its values at the rows' x.

        Returns:
            A float, Σ w f(x) / Σ w, whose standard error includes that the weights are estimated.
        """
        values = np.asarray(f(self.transitions.x) if callable(f) else f, dtype=np.float64)
        if values.shape != (len(self.transitions),):
            raise ValueError(f"f must give one number per row: shape {values.shape} != ({len(self.transitions)},)")
        if not np.isfinite(values).all():
            raise ValueError(f"f must be finite: row {int(np.argmin(np.isfinite(values)))} is not")
        mean = float(self.weights @ values / self.weights.sum())
        _, exponent = np.frexp(np.abs(values).max())
        unit = float(np.ldexp(1.0, int(exponent) - 1))  # squares of 1e200 are no numbers; powers of 2 cost no digit
        return Expectation(mean, unit * self._standard_error(values / unit, mean / unit))

    def value_function(self, values: Floats) -> ValueFunction:
        """Return h with h = values - E_μ[values] + 𝒯h (γ = 1) or h = values + γ𝒯h, as a function of states.

        It gives the influence of each transition on the estimate of E_μ[values]: τ(x)·(values + γh(x') - h(x)), minus
        the estimate itself at γ = 1.

        Args:
            values: one number per row of the transitions.
        """
        return self._ratio.value_function(self.transitions, values, self.gamma)

    def _standard_error(self, values: Floats, mean: float) -> float:
        """Return the standard error of E_μ[f], which includes that τ is estimated too.

        Counted chains have one of their own, which knows how few rows states have: see `small_counts`. It is at most
        half of the range of f, which no standard deviation of a number in that range exceeds (Popoviciu 1935).
        """
        counted = None
        if isinstance(self._ratio, TabularRatio):
            counted = self._ratio.sampling_variance(self.transitions, values, mean, self.gamma)
        if counted is None:
            h = self.value_function(values)
            return float(np.sqrt(self._influence_variance(values, mean, h) + self._initial_variance(h)))
        variance, h = counted
        return min(float(np.sqrt(variance + self._initial_variance(h))), float(np.ptp(values)) / 2)

    def _influence_variance(self, values: Floats, mean: float, h: ValueFunction) -> float:
        """Return the variance of E_μ[f] by its influence function, without that of the initial states.

        A row's influence is ψ = τ(x)·(f(x) - E_μ f + γh(x') - h(x)), where h is the chain's value function for f. Along
        a trajectory these are martingale differences, so rows need not be independent; pairs that overlap in time are
        correlated, see `sum_of_products`.
        """
        data, gamma = self.transitions, self.gamma
        centre = mean if gamma == 1 else 0.0
        psi = np.zeros(len(data))
        for rows in chunks(len(data)):
            successors = data.successors[rows]
            share = np.ones(successors.shape[:2]) if data.next_weight is None else data.next_weight[rows]
            after = sum(share[:, k] * h(successors[:, k]) for k in range(successors.shape[1]))
            residual = values[rows] - centre + gamma * after - h(data.x[rows])
            psi[rows] = self.weights[rows] * residual
        return sum_of_products(psi, data.time, data.lag) / float(self.weights.sum()) ** 2

    def _initial_variance(self, h: ValueFunction) -> float:
        """Return what the sample of initial states adds to the variance, (1-γ)²·Var(h)/n; 0 at γ = 1."""
        data = self.transitions
        if self.gamma == 1 or data.x_initial is None:
            return 0.0
        start, weight = h(data.x_initial), data.initial_weights
        spread = start - np.average(start, weights=weight)
        return float((1 - self.gamma) ** 2 * np.sum((weight * spread) ** 2) / weight.sum() ** 2)

    def resample(self, n: int, seed: int = 0) -> Array:
        """Draw an approximate sample from μ: rows' x with replacement, with probability proportional to the weights.

        Args:
            n: the number of states to draw.
            seed: of the draw.
        """
        weights = np.maximum(self.weights, 0)
        rows = np.random.default_rng(seed).choice(len(weights), size=n, p=weights / weights.sum())
        return self.transitions.x[rows]

    def probabilities(self, states: npt.ArrayLike | None = None) -> Floats:
        """Return the stationary probability of each of some finite states.

        Args:
            states: the states; None: 0, 1, … up to the largest in the data.
        """
        if not isinstance(self._ratio, TabularRatio):
            raise TypeError(
                "probabilities() needs finite states (integer x): continuous states have a density, see ratio()"
            )
        if states is None:
            largest = int(max(self.transitions.x.max(), self.transitions.x_next.max()))
            if largest >= MOST_STATES:
                raise ValueError(f"states reach up to {largest}: say which ones, probabilities(states)")
            states = np.arange(largest + 1)
        return self._ratio.probabilities(as_states("states", states, True, 1))

    def save(self, path: str | Path) -> None:
        """Write the estimate with its data to one .npz file without pickles; a failed write leaves no partial file."""
        header = {
            "format": "ope-vpm estimate 1",
            "gamma": self.gamma,
            "kind": self._ratio.kind,
            "ratio": self._ratio.settings(),
            "diagnostics": self.diagnostics.as_dict(),
        }
        arrays = {f"ratio.{name}": value for name, value in self._ratio.arrays().items()}
        names = ("x", "x_next", "weight", "x_initial", "next_weight", "initial_weight")
        data = {f"data.{name}": getattr(self.transitions, name) for name in names}
        if self.transitions.time is not None:
            data |= {"data.time": self.transitions.time, "data.lag": np.array(self.transitions.lag)}
        arrays |= {name: value for name, value in data.items() if value is not None}

        def write(temporary: Path) -> None:
            with temporary.open("wb") as file:  # np.savez would add an ending to a name
                np.savez(file, header=np.array(json.dumps(header, default=float)), weights=self.weights, **arrays)

        write_whole(path, write)

    @classmethod
    def load(cls, path: str | Path) -> StationaryEstimate:
        """Read an estimate that `save` wrote."""
        try:
            with (
                reading(Path(path), "a saved estimate"),
                Path(path).open("rb") as handle,
                np.load(handle, allow_pickle=False) as file,
            ):
                content = {name: file[name] for name in file.files}
                header = json.loads(str(content["header"]))
                known = header["format"] == "ope-vpm estimate 1"
        except (ValueError, TypeError) as error:
            raise ValueError(f"{path} is not a saved estimate: {error}") from error
        content["weights"].flags.writeable = False
        if not known:
            raise ValueError(f"{path} holds {header['format']!r}: this version reads 'ope-vpm estimate 1'")
        part = {kind: _part(content, kind) for kind in ("data.", "ratio.")}
        report = header["diagnostics"]
        report |= {"convergence": np.array(report["convergence"]), "notes": tuple(report["notes"])}
        report["doubts"] = tuple(report.get("doubts", ()))  # files written by earlier versions have none
        if report.get("pareto_k") is None:
            report["pareto_k"] = float("nan")
        ratio = _RATIOS[header["kind"]](part["ratio."], header["ratio"])
        return cls(Transitions(**part["data."]), header["gamma"], content["weights"], Diagnostics(**report), ratio)


def _part(content: dict[str, Any], prefix: str) -> dict[str, Any]:
    return {name.removeprefix(prefix): value for name, value in content.items() if name.startswith(prefix)}


_FEATURES: dict[str, Callable[[dict[str, Any]], Features]] = {
    "fourier": lambda arrays: FourierFeatures(
        Standardiser.from_arrays(arrays),
        arrays["frequencies"],
        bool(arrays.get("linear", False)),  # files of earlier versions do not have it
    ),
    "nystrom": lambda arrays: NystromFeatures(
        Standardiser.from_arrays(arrays), arrays["landmarks"], arrays["whitening"], float(arrays["bandwidth"])
    ),
    "hidden": lambda arrays: HiddenFeatures(NeuralRatio.from_arrays(arrays), arrays["mean"], arrays["whitening"]),
}
"""How each kind of features is rebuilt from its saved arrays."""
_RATIOS: dict[str, Callable[[dict[str, Any], dict[str, Any]], Ratio]] = {
    "tabular": lambda arrays, settings: TabularRatio(**arrays, **settings),
    "kernel": lambda arrays, settings: KernelRatio(
        _FEATURES[settings["features"]](arrays), arrays["beta"], arrays["penalty"], settings["nonnegative"]
    ),
    "neural": lambda arrays, _: NeuralRatio.from_arrays(arrays),
}
"""How each solver's ratio is rebuilt from its saved arrays and settings."""
