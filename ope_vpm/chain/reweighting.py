"""Weights that make short runs from anywhere a sample of the stationary distribution; the names are deeptime's."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from ope_vpm.arrays import Array, Floats
from ope_vpm.chain.estimate import Expectation, StationaryEstimate
from ope_vpm.chain.states import as_paths
from ope_vpm.chain.transitions import Transitions
from ope_vpm.chain.vpm import VPM
from ope_vpm.threads import cached_property

Trajectories = npt.ArrayLike | Sequence[npt.ArrayLike]


@dataclass(frozen=True, eq=False)
class FrameWeights:
    """The weight τ(x) = μ(x)/p(x) of each frame of trajectories, with mean 1 over those that begin a pair.

    deeptime takes it wherever it takes a `KoopmanWeightingModel`, as in `TICA(lagtime=5).fit(data, weights=found)`.
    """

    trajectories: list[Array]
    estimate: StationaryEstimate
    """The fit behind the weights, with its diagnostics."""

    @cached_property
    def frames(self) -> list[Floats]:
        """One array of shape (T,) for each trajectory."""
        return [self.weights(path) for path in self.trajectories]

    @property
    def pareto_k(self) -> float:
        """The shape k̂ of the weights' upper tail: above 0.7 a few frames may decide every weighted mean."""
        return self.estimate.diagnostics.pareto_k

    def expectation(self, f: Callable[[Array], npt.ArrayLike]) -> Expectation:
        """Return Σ τ f / Σ τ over the pairs' first frames, with a standard error that knows that τ is estimated."""
        return self.estimate.expectation(f)

    def weights(self, X: npt.ArrayLike) -> Floats:
        """Return the weights of any frames, of shape (T,)."""
        return self.estimate.ratio(X)

    __call__ = transform = weights


def weights(trajectories: Trajectories, lag: int, *, seed: int = 0, **options: Any) -> FrameWeights:
    """Weight the frames of runs that have not reached equilibrium, so that they are distributed as it is.

    Args:
        trajectories: an array of shape (T,) or (T, d), or a list of them; whole numbers are finite states.
        lag: the number of frames between the two states of a pair; states must be Markov over so many.
        seed: makes everything random repeatable.
        options: further settings of `VPM`.

    ```python
    import numpy as np
    import ope_vpm as ov

    runs = [np.array([0, 1, 0, 1]), np.array([0, 0, 1, 0])]  # 0 goes to 1 in three of four steps, 1 always goes back
    found = ov.chain.weights(runs, lag=1)
    share = found.expectation(lambda x: x == 1)  # 3/7 of the time, where the log has two of six
    assert abs(share - 3 / 7) < 1e-12 and share.standard_error > 0
    print(found.frames, found.pareto_k)
    ```
    """
    paths = as_paths(trajectories)
    return FrameWeights(paths, VPM(seed=seed, **options).fit(Transitions.from_paths(paths, lag)))


class WeightingEstimator:
    """A drop-in for deeptime's `KoopmanWeightingEstimator`, whose weights are never negative and have errors.

    Frames are given as they are: features of them are the solver's own. `partial_fit` keeps its pairs in memory.

    Args:
        lagtime: the number of frames between the two states of a pair.
        seed: makes everything random repeatable.
        options: further settings of `VPM`.
    """

    def __init__(self, lagtime: int, *, seed: int = 0, **options: Any) -> None:
        self.lagtime, self.seed, self.options = lagtime, seed, options
        self._pairs: list[tuple[Array, Array]] = []
        self._model: FrameWeights | None = None

    def fit(self, data: Trajectories, lagtime: int | None = None, **_: Any) -> WeightingEstimator:
        """Find the weights of trajectories; as in deeptime, other keywords are ignored."""
        self._pairs = []
        self._model = weights(data, lagtime or self.lagtime, seed=self.seed, **self.options)
        return self

    def partial_fit(self, data: tuple[npt.ArrayLike, npt.ArrayLike]) -> WeightingEstimator:
        """Add pairs: frames, and as many frames one lag later."""
        x, y = map(np.asarray, data)
        self._pairs.append((x, y))
        self._model = None
        return self

    @property
    def has_model(self) -> bool:
        """Whether there is anything to fetch."""
        return self._model is not None or bool(self._pairs)

    def fetch_model(self) -> FrameWeights | None:
        """Return the weights; None before anything was fitted."""
        if self._model is None and self._pairs:
            x, y = (np.concatenate(side) for side in zip(*self._pairs, strict=True))
            estimate = VPM(seed=self.seed, **self.options).fit(Transitions(x, y))
            self._model = FrameWeights([each for each, _ in self._pairs], estimate)
        return self._model

    def fit_fetch(self, data: Trajectories, **options: Any) -> FrameWeights:
        """Fit, and return the weights."""
        return weights(data, options.pop("lagtime", None) or self.lagtime, seed=self.seed, **self.options)

    def transform(self, data: npt.ArrayLike, **_: Any) -> Floats:
        """Return the weights of any frames by the fitted model."""
        model = self.fetch_model()
        if model is None:
            raise ValueError("there are no weights yet: fit the estimator first")
        return model.weights(data)
