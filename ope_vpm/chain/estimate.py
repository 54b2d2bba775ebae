"""What a fit gives its user: the stationary law, as weights on the data."""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from ope_vpm.arrays import Array, Floats, chunks
from ope_vpm.chain.diagnostics import Diagnostics
from ope_vpm.chain.solvers.kernel import KernelRatio
from ope_vpm.chain.solvers.network import HiddenFeatures, NeuralRatio
from ope_vpm.chain.solvers.solution import Ratio
from ope_vpm.chain.solvers.tabular import TabularRatio
from ope_vpm.chain.transitions import Transitions, as_states
from ope_vpm.linear.features import Features, FourierFeatures, NystromFeatures, Standardiser
from ope_vpm.outside import reading, write_whole

MOST_STATES = 100_000_000


class Expectation(float):
    """A number that carries its `standard_error`."""

    standard_error: float

    def __new__(cls, value: float, standard_error: float) -> Expectation:
        """A float with one attribute more."""
        number = super().__new__(cls, value)
        number.standard_error = standard_error
        return number

    def __repr__(self) -> str:
        return f"{float(self):.6g} ± {self.standard_error:.2g}"


@dataclass(frozen=True, eq=False, repr=False)
class StationaryEstimate:
    """The stationary law μ = p·τ of the chain that made some transitions."""

    transitions: Transitions
    gamma: float
    weights: Floats
    """τ at each row times the row's own weight; scaled to sum to the number of rows."""
    diagnostics: Diagnostics
    _ratio: Ratio

    def __repr__(self) -> str:
        return f"StationaryEstimate of {self.transitions!r}\n{self.diagnostics}"

    def ratio(self, x: npt.ArrayLike) -> Floats:
        """τ at any states; E_p[τ] = 1."""
        return self._ratio(as_states("x", x, self.transitions.finite, self.transitions.dimension))

    def expectation(self, f: Callable[[Array], npt.ArrayLike] | npt.ArrayLike) -> Expectation:
        """E_μ[f], a float with a `standard_error`.

        Args:
            f: a function of states that returns one number each, or its values at the rows.
        """
        values = np.asarray(f(self.transitions.x) if callable(f) else f, dtype=np.float64)
        if values.shape != (len(self.transitions),):
            raise ValueError(f"f must give one number a row: shape {values.shape} != ({len(self.transitions)},)")
        if not np.isfinite(values).all():
            raise ValueError(f"f must be finite: row {int(np.argmin(np.isfinite(values)))} is not")
        mean = float(self.weights @ values / self.weights.sum())
        return Expectation(mean, self._standard_error(values, mean))

    def _standard_error(self, values: Floats, mean: float) -> float:
        """By the influence function: how each transition moves the estimate, τ being estimated with it.

        ψ = τ(x)·(f(x) - E_μ f + γh(x') - h(x)), h the chain's value function for f; along a trajectory these
        are martingale differences, so rows need not be independent.
        """
        h = self._ratio.value_function(self.transitions, values, self.gamma)
        data, gamma = self.transitions, self.gamma
        centre = mean if gamma == 1 else 0.0
        square = 0.0
        for rows in chunks(len(data)):
            successors = data.successors[rows]
            share = np.ones(successors.shape[:2]) if data.next_weight is None else data.next_weight[rows]
            after = sum(share[:, k] * h(successors[:, k]) for k in range(successors.shape[1]))
            residual = values[rows] - centre + gamma * after - h(data.x[rows])
            square += float(np.sum((self.weights[rows] * residual) ** 2))
        variance = square / self.weights.sum() ** 2
        if gamma < 1 and data.x_initial is not None:
            start, weight = h(data.x_initial), data.initial_weights
            spread = start - np.average(start, weights=weight)
            variance += float((1 - gamma) ** 2 * np.sum((weight * spread) ** 2) / weight.sum() ** 2)
        return float(np.sqrt(variance))

    def resample(self, n: int, seed: int = 0) -> Array:
        """Rows' x drawn by weight, with replacement: an approximate sample from μ."""
        chance = np.maximum(self.weights, 0)
        rows = np.random.default_rng(seed).choice(len(chance), size=n, p=chance / chance.sum())
        return self.transitions.x[rows]

    def probabilities(self, states: npt.ArrayLike | None = None) -> Floats:
        """Finite states: the stationary probability of each of `states`; default 0, 1, … up to the largest seen."""
        if not isinstance(self._ratio, TabularRatio):
            raise TypeError("probabilities() needs finite states (integer x): points have a density, see ratio()")
        if states is None:
            largest = int(max(self.transitions.x.max(), self.transitions.x_next.max()))
            if largest >= MOST_STATES:
                raise ValueError(f"states reach up to {largest}: say which ones, probabilities(states)")
            states = np.arange(largest + 1)
        return self._ratio.probabilities(as_states("states", states, True, 1))

    def save(self, path: str | Path) -> None:
        """Write everything, data included, to one .npz file without pickles; all of it or nothing."""
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
        arrays |= {name: value for name, value in data.items() if value is not None}

        def write(temporary: Path) -> None:
            with temporary.open("wb") as file:  # np.savez would add an ending to a name
                np.savez(file, header=np.array(json.dumps(header, default=float)), weights=self.weights, **arrays)

        write_whole(path, write)

    @classmethod
    def load(cls, path: str | Path) -> StationaryEstimate:
        """Read what `save` wrote."""
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
        ratio = _RATIOS[header["kind"]](part["ratio."], header["ratio"])
        return cls(Transitions(**part["data."]), header["gamma"], content["weights"], Diagnostics(**report), ratio)


def _part(content: dict[str, Any], prefix: str) -> dict[str, Any]:
    return {name.removeprefix(prefix): value for name, value in content.items() if name.startswith(prefix)}


def _tabular(arrays: dict[str, Any], settings: dict[str, Any]) -> Ratio:
    return TabularRatio(**arrays, **settings)


def _kernel(arrays: dict[str, Any], settings: dict[str, Any]) -> Ratio:
    features = _FEATURES[settings["features"]](arrays)
    return KernelRatio(features, arrays["beta"], arrays["penalty"], settings["nonnegative"])


def _fourier(arrays: dict[str, Any]) -> Features:
    linear = bool(arrays.get("linear", False))  # files of earlier versions do not have it
    return FourierFeatures(Standardiser.from_arrays(arrays), arrays["frequencies"], linear)


def _nystrom(arrays: dict[str, Any]) -> Features:
    bandwidth = float(arrays["bandwidth"])
    return NystromFeatures(Standardiser.from_arrays(arrays), arrays["landmarks"], arrays["whitening"], bandwidth)


def _hidden(arrays: dict[str, Any]) -> Features:
    return HiddenFeatures(NeuralRatio.from_arrays(arrays), arrays["mean"], arrays["whitening"])


def _neural(arrays: dict[str, Any], _: dict[str, Any]) -> Ratio:
    return NeuralRatio.from_arrays(arrays)


_FEATURES: dict[str, Callable[[dict[str, Any]], Features]] = {
    "fourier": _fourier,
    "nystrom": _nystrom,
    "hidden": _hidden,
}
_RATIOS: dict[str, Callable[[dict[str, Any], dict[str, Any]], Ratio]] = {
    "tabular": _tabular,
    "kernel": _kernel,
    "neural": _neural,
}
