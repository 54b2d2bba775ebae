"""Weights that make short runs from anywhere a sample of the stationary distribution, as deeptime takes them."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

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
