"""The Variational Power Method: from transitions to the stationary distribution of their Markov chain."""

import warnings
from dataclasses import fields
from numbers import Integral, Real
from typing import Any

import numpy as np

from ope_vpm.arrays import Floats, effective_sample_size
from ope_vpm.chain.diagnostics import Diagnostics, StationarityTest, far_from_data, pareto_k
from ope_vpm.chain.estimate import StationaryEstimate
from ope_vpm.chain.finite.solve import StationaryWarning
from ope_vpm.chain.monitor import Callback
from ope_vpm.chain.solvers.kernel import Kernel
from ope_vpm.chain.solvers.neural import Neural, with_preset
from ope_vpm.chain.solvers.solution import Solution, Solver
from ope_vpm.chain.solvers.tabular import Tabular
from ope_vpm.chain.transitions import Transitions
from ope_vpm.suggestions import suggestion

SOLVERS: dict[str, type[Tabular] | type[Kernel] | type[Neural]] = {
    "tabular": Tabular,
    "kernel": Kernel,
    "neural": Neural,
}
"""The solvers by name."""
MOST_KERNEL_DIMENSIONS = 64
"""States of a higher dimension go to the network: a few hundred random features do not cover such a space. Where the
network becomes better was not measured; a round number."""


class VPM:
    """Estimates the stationary distribution of a Markov chain from transitions alone.

    With x drawn from any distribution p and x' from the chain's kernel 𝒯(·|x), the ratio τ = μ/p to the stationary
    distribution μ is the fixed point of the power step on ratios, τ ← 𝒯(pτ)/p. Neither p nor 𝒯 has to be known: each
    step minimises ½E_p[τ'²] - E_p[τ(x) τ'(x')] over functions τ', with a penalty λ(E_p[τ'] - 1)².

    ```python
    import numpy as np
    import ope_vpm as ov

    rng = np.random.default_rng(0)
    x = rng.uniform(-3, 3, size=(5000, 1))  # anywhere, not where the chain would be
    x_next = 1 + 0.5 * (x - 1) + 0.5 * rng.standard_normal(x.shape)  # a chain around 1
    estimate = ov.VPM(seed=0).fit(ov.Transitions(x, x_next))
    mean = estimate.expectation(lambda x: x[:, 0])  # 1, with a standard error
    assert abs(mean - 1) < 4 * mean.standard_error
    ```

    Args:
        gamma: 1 for the stationary distribution; below 1 for the discounted distribution from the initial states.
        solver: "tabular" (finite states), "kernel", "neural", or "auto": tabular for integers, kernel for continuous
            states of up to 64 dimensions, neural beyond, where random features no longer cover the space.
        seed: makes everything random repeatable.
        callback: called as callback(step, info) after each power step.
        options: the chosen solver's own settings: see `Tabular`, `Kernel`, `Neural`.
    """

    def __init__(
        self,
        *,
        gamma: float = 1.0,
        solver: str = "auto",
        seed: int = 0,
        callback: Callback | None = None,
        **options: Any,
    ) -> None:
        _check_numbers(gamma, seed)
        if solver not in ("auto", *SOLVERS):
            raise ValueError(f"unknown solver {solver!r}: known are auto, {', '.join(SOLVERS)}")
        if solver != "auto":
            _settings(solver, options)
        self.gamma, self.solver, self.seed, self.callback, self.options = (gamma, solver, seed, callback, options)

    def __repr__(self) -> str:
        given = "".join(f", {name}={value!r}" for name, value in self.options.items())
        return f"VPM(gamma={self.gamma}, solver={self.solver!r}, seed={self.seed}{given})"

    def fit(self, transitions: Transitions) -> StationaryEstimate:
        """Estimate the ratio τ = μ/p. Ctrl-C ends the iteration and returns the best estimate so far.

        Args:
            transitions: the data; with `x_initial` where gamma is below 1.

        Returns:
            The weights of the rows, τ at any states, expectations under μ, and diagnostics.

        Raises:
            ArithmeticError: if no stationary distribution was found, as in a log that only drifts one way.
        """
        if not isinstance(transitions, Transitions):
            raise TypeError(f"fit takes Transitions(x, x_next): got {type(transitions).__name__}")
        solver = self._solver(transitions)
        if self.gamma < 1 and transitions.x_initial is None:
            raise ValueError(f"gamma={self.gamma} needs initial states: Transitions(..., x_initial=...)")
        counted = transitions.with_weight()
        solution = solver.fit(counted, self.gamma, self.seed, self.callback)
        for text in (*solution.warnings, *solution.notices):
            warnings.warn(text, StationaryWarning, stacklevel=2)
        weights = _weights(transitions, solution)
        used = weights if counted is transitions else _weights(counted, solution)
        diagnostics = self._diagnostics(solver.name, counted, solution, used)
        weights.flags.writeable = False
        return StationaryEstimate(transitions, self.gamma, weights, diagnostics, solution.ratio)

    def _solver(self, transitions: Transitions) -> Solver:
        name = self.solver
        if name == "auto":
            continuous = "kernel" if transitions.dimension <= MOST_KERNEL_DIMENSIONS else "neural"
            name = "tabular" if transitions.finite else continuous
        if (name == "tabular") != transitions.finite:
            kind = "integers" if transitions.finite else "floats"
            fitting = "tabular" if transitions.finite else "kernel or neural"
            raise ValueError(f"solver {name!r} does not fit x of {kind}: use {fitting}")
        return _settings(name, self.options)

    def _diagnostics(self, name: str, transitions: Transitions, solution: Solution, weights: Floats) -> Diagnostics:
        rng = np.random.default_rng(self.seed + 1)  # other functions than those the solver drew
        test = StationarityTest.draw(transitions, self.gamma, rng)
        unseen = solution.unseen_mass
        return Diagnostics(
            solver=name,
            rows=len(transitions),
            mean_ratio=solution.mean_ratio,
            effective_sample_size=effective_sample_size(weights),
            stationarity_residual=test.residual(solution.ratio),
            stationarity_noise=test.noise(solution.ratio),
            unseen_mass=far_from_data(transitions, weights, rng) if unseen is None else unseen,
            convergence=solution.convergence,
            notes=(*solution.warnings, *solution.notices, *solution.notes),
            doubts=(*solution.warnings, *solution.notes),
            settings=solution.settings,
            pareto_k=pareto_k(np.maximum(weights, 0.0)),
            unseen_initial=solution.unseen_initial,
        )


def _check_numbers(gamma: object, seed: object) -> None:
    if not isinstance(gamma, Real) or not 0 <= float(gamma) <= 1:
        raise ValueError(f"gamma must be a number in [0, 1]: got {gamma!r}")
    if not isinstance(seed, Integral) or int(seed) < 0:
        raise ValueError(f"seed must be a whole number, 0 or more: got {seed!r}")


def _settings(name: str, options: dict[str, Any]) -> Solver:
    """Return the solver with some options; an unknown option is refused, naming the nearest known one."""
    kind = SOLVERS[name]
    known = [field.name for field in fields(kind)]
    for option in options:
        if option not in known:
            raise TypeError(f"the {name} solver has no option {option!r}: {suggestion(option, known)}")
    return with_preset(**options) if name == "neural" else kind(**options)


def _weights(transitions: Transitions, solution: Solution) -> Floats:
    """Return τ at the rows times the rows' weights, scaled to sum to the number of rows."""
    weights = solution.ratio(transitions.x)
    if transitions.weight is not None:
        weights *= transitions.weight
    total = weights.sum()
    if total == 0:
        raise ArithmeticError(
            "no stationary distribution was found: all probability goes to states that no row begins with (a log that "
            "drifts one way has none; log it for longer)"
        )
    if not total > 0 or not np.isfinite(total):
        raise ArithmeticError("no stationary distribution was found: the estimated ratio is negative or infinite")
    weights *= len(weights) / total
    return weights
