"""The Variational Power Method as an estimator of policy values.

Finite states and actions: where every x' was also seen as x, the paper's power iteration is one on the counted chain,
and its fixed point is the exact solution of the counted model, with a treatment of unseen pairs. Continuous ones:
τ = w(s, a)·(π/b̂)^κ with w linear in features of the pair; for policies without densities a solver of the chain.
"""

from dataclasses import dataclass, fields, replace
from numbers import Integral
from typing import Any, ClassVar

import numpy as np

from ope_vpm.linear.passes import WeightSums
from ope_vpm.ope.adapter.pair_features import any_pairs
from ope_vpm.ope.behaviour.action_ratio import ratio_model, weighted_pairs
from ope_vpm.ope.estimator import ProblemEstimator, check_ridge, needs_rows
from ope_vpm.ope.inference.estimate import OVERLAP, RawEstimate, doubts_of_sums, unsupported
from ope_vpm.ope.linear.doubts import with_feature_doubt
from ope_vpm.ope.linear.equations import PairEquations
from ope_vpm.ope.linear.estimate import LinearEstimate, linear_estimate
from ope_vpm.ope.memory import remembered
from ope_vpm.ope.problem import Problem
from ope_vpm.suggestions import suggestion

POWER = 0.5
"""κ. On the tasks of note 005 errors are 1.54 times those of on-policy means, against 1.67 at κ = 0, whose value
depends on features that fit Q, and 1.78 at κ = 1, whose weights vary most."""
DRAWS = 8
"""Target actions a state for the factored form, where the policy's mean action is not known otherwise."""


@dataclass(frozen=True)
class Factored:
    """Settings of the factored form."""

    n_features: int | None = None
    """Random Fourier features of the state; None: 4·√rows (`features_for`)."""
    ridge: float | None = None
    """In units of the features' mean squares; None: chosen from the data."""
    power: float = POWER
    """κ."""

    def __post_init__(self) -> None:
        check_ridge(self.ridge)
        if not 0 <= self.power <= 1:
            raise ValueError(f"power must be between 0 (no action ratio) and 1 (all of it): got {self.power}")
        number = self.n_features
        if number is not None and (not isinstance(number, Integral) or int(number) < 1):
            raise ValueError(f"n_features must be a whole number, at least 1: got {number!r}")


SOLVERS = ("auto", "tabular", "factored", "kernel", "neural")
EXACT_TREATMENTS = ("auto", "restart", "good-turing", "smooth", "pooled")
"""The treatments of unseen pairs whose fixed point is solved for. "restrict", and everything that takes power steps, is
left to the chain's own solver: "restrict" scales up the known successors of each row there."""
PAPER: dict[str, dict[str, Any]] = {
    "tabular": {"solver": "tabular", "steps": 100, "damping": "sqrt", "unseen": "restart", "lam": 1.0},
    "neural": {"solver": "neural", "preset": "paper"},
}
"""The paper's Taxi: closed-form steps, T = 100, α = 1/√t, λ = 1. Its continuous tasks: Algorithm 1 with T = 200,
M = 10, B = 1000, learning rate 3e-4, one target action a row."""


class VPMEstimator(ProblemEstimator):
    """The ratio of the target's long-run distribution to the log's, found by VPM; the value is Σ τ r / Σ τ.

    Args:
        solver: "tabular" (finite states and actions: the exact fixed point on counted pairs, with the whole
            target distribution), "factored" (policies with densities: τ = w·(π/b̂)^κ, see `factored`), "kernel" or
            "neural" (pairs as vectors), or "auto": the first of these that fits.
        preset: "default", or "paper" for the paper's own settings.
        draws: target actions per row where pairs are vectors; 1 is the paper's. "factored" takes at least 8, and only
            where the policy's mean action is not known otherwise.
        options: everything that `ope_vpm.VPM` takes for the solver; "factored" takes `n_features` and
            `ridge` (both None: chosen from the data) and `power` (κ, 0.5). On finite states `unseen` has three
            more choices at the exact fixed point, "auto", "pooled" and "smooth": see `ope_vpm.ope.finite.treatments`.
    """

    name: ClassVar[str] = "vpm"
    streams: ClassVar[bool] = True
    counts_parts: ClassVar[bool] = True

    def __init__(self, *, solver: str = "auto", preset: str = "default", draws: int = 1, **options: Any) -> None:
        if solver not in SOLVERS:
            raise ValueError(f"unknown solver {solver!r}: known are {', '.join(SOLVERS)}")
        if preset not in ("default", "paper"):
            raise ValueError(f"unknown preset {preset!r}: known are default, paper")
        if preset == "paper" and (solver == "factored" or options or draws != 1):
            raise ValueError("preset='paper' fixes every setting: give no others beside it")
        if draws < 1:
            raise ValueError(f"draws must be at least 1: got {draws}")
        self.solver, self.preset, self.draws, self.options = solver, preset, draws, options
        self._check_options(*(SOLVERS[1:] if solver == "auto" else [solver]))

    def __repr__(self) -> str:
        given = "".join(f", {name}={value!r}" for name, value in self.options.items())
        return f"VPMEstimator(solver={self.solver!r}, preset={self.preset!r}, draws={self.draws}{given})"

    def check(self, problem: Problem) -> None:
        """Refuse a solver that does not fit the data or the policy."""
        finite, solver, streamed = problem.finite, self._solver(problem), problem.streamed
        if streamed and not finite and not problem.policy.has_log_prob:
            raise ValueError(
                "vpm reads rows in parts for policies with densities, and this one gives actions without them: add a "
                "density with with_noise(policy, std=...), use auto or fqe with solver='linear', or read all rows into "
                "memory with load_dataset"
            )
        if streamed and not (self._exact(solver) if finite else solver == "factored"):
            steps = " with power steps or unseen='restrict'" if solver == "tabular" else ""
            raise ValueError(f"vpm by solver {solver!r}{steps} {needs_rows(problem)}")
        if (solver == "tabular") != finite:
            kind, fitting = ("finite", "tabular") if finite else ("continuous", "factored, kernel or neural")
            raise ValueError(f"solver {solver!r} does not fit {kind} pairs: use {fitting}")
        if solver == "factored" and not problem.policy.has_log_prob:
            raise ValueError("solver 'factored' needs a policy with densities: use solver='kernel'")
        self._check_options(solver)

    def find(self, problem: Problem) -> RawEstimate:
        """By the solver that fits."""
        solver = self._solver(problem)
        if solver == "factored":
            return find_factored(problem, **self.options, draws=max(self.draws, DRAWS))
        if self._exact(solver):
            return find_finite(problem, self.options.get("unseen", "auto"))
        options = PAPER[solver] if self.preset == "paper" else {"solver": solver, **self.options}

        from ope_vpm.chain import VPM  # imported here: other solvers need no chains
        from ope_vpm.ope.vpm.pairs import find_by_solver

        if solver == "tabular":  # a task that ends in few states is worth what these are worth
            options = {"classes": "all"} | options
        return find_by_solver(problem, VPM(gamma=problem.gamma, seed=problem.seed, **options), self.draws)

    def _solver(self, problem: Problem) -> str:
        if self.solver != "auto" or problem.finite:
            return "tabular" if self.solver == "auto" else self.solver
        if self.preset == "paper":
            return "neural"
        return "factored" if problem.policy.has_log_prob else "kernel"

    def _exact(self, solver: str) -> bool:
        """Whether the fixed point on counted pairs is solved for."""
        known = set(self.options) <= {"unseen"} and self.options.get("unseen", "auto") in EXACT_TREATMENTS
        return solver == "tabular" and self.preset == "default" and known

    def _check_options(self, *solvers: str) -> None:
        """Refuse options that none of these solvers takes, whatever the data will be."""
        if not self.options:
            return
        from ope_vpm.chain.vpm import SOLVERS as OF_CHAINS  # imported here: few give options

        settings: dict[str, Any] = {**OF_CHAINS, "factored": Factored}
        names = {solver: {field.name for field in fields(settings[solver])} for solver in solvers}
        known = sorted(set().union(*names.values()))
        for option in self.options:
            if option not in known:
                solver = "" if len(solvers) > 1 else f" by solver {solvers[0]!r}"
                raise TypeError(f"the estimator 'vpm'{solver} has no option {option!r}: {suggestion(option, known)}")
        fitting, refused = [solver for solver in solvers if names[solver].issuperset(self.options)], []
        for solver in fitting:
            try:
                return self._check_values(solver)
            except (ValueError, TypeError) as error:  # such as a text for a number
                refused.append(error)
        raise (
            refused[0]
            if refused
            else TypeError(f"no solver of vpm takes {', '.join(self.options)} together: see VPMEstimator")
        )

    def _check_values(self, solver: str) -> None:
        """Refuse values of options that a solver does not take."""
        from ope_vpm.chain import VPM  # imported here: few give options
        from ope_vpm.ope.finite.treatments import Pooled, Smooth, treatment

        unseen, others = self.options.get("unseen"), [name for name in self.options if name != "unseen"]
        if unseen is not None:
            treatment(unseen)  # it knows the names of all of them, also of those that the chain does not
        if unseen not in (Smooth.name, Pooled.name):
            _ = Factored(**self.options) if solver == "factored" else VPM(solver=solver, **self.options)
        elif others:  # the chain knows of transitions alone: of no rewards and no prior for them
            raise ValueError(f"unseen={unseen!r} is solved exactly and takes no {others[0]!r}: leave it out")


def find_finite(problem: Problem, unseen: str) -> RawEstimate:
    """The value at the exact fixed point on finite states and actions.

    Args:
        problem: the question.
        unseen: one of `EXACT_TREATMENTS`; "auto", the default of all estimators on counts, is `Mixed`.
    """
    from ope_vpm.ope.finite.estimate import counted_estimate  # imported here: continuous states need no counts
    from ope_vpm.ope.finite.problem import finite_problem

    found, visits = counted_estimate(problem, unseen), finite_problem(problem).counts.visits
    about = {"solver": "tabular", "states": int((visits > 0).sum())}
    return replace(found, diagnostics={**found.diagnostics, **about})


@remembered
def find_factored(
    problem: Problem, n_features: int | None = None, ridge: float | None = None, power: float = POWER, draws: int = 8
) -> LinearEstimate:
    """The value by the factored ratio, shared by the estimators that use it.

    Args:
        problem: the question, of a policy with densities.
        n_features: random Fourier features of the state; None: `features_for` the rows of the log.
        ridge: in units of the features' mean squares; None: chosen from the data.
        power: κ.
        draws: target actions drawn for each state where the policy's mean action is not known otherwise.
    """
    if not ratio_model(problem).overlap > 0:
        return nothing_in_common(PairEquations(problem, any_pairs(problem, n_features, draws)))
    return with_feature_doubt(solve_factored(problem, n_features, ridge, power, draws))


def solve_factored(
    problem: Problem, n_features: int | None, ridge: float | None, power: float, draws: int
) -> LinearEstimate:
    """The solution by the factored ratio before its features are doubted; arguments as above."""
    pairs = weighted_pairs(problem, any_pairs(problem, n_features, draws), power)
    fit = {"power": power, "behaviour_held_out_log_likelihood": ratio_model(problem).held_out_log_likelihood}
    return linear_estimate(PairEquations(problem, pairs), ridge, "factored", fit)


def nothing_in_common(equations: PairEquations) -> LinearEstimate:
    """No value: no logged action is one of the target's."""
    problem = equations.problem
    nothing = WeightSums(np.zeros(()), np.zeros(()), np.zeros(problem.data.n_episodes))
    return LinearEstimate(
        value=float("nan"),
        weights=None if problem.streamed else np.zeros(len(problem.data)),
        doubts=(*doubts_of_sums(problem.data, nothing), *unsupported(problem, 1.0, OVERLAP)),
        equations=equations,
        ridge=float("nan"),
        theta=np.zeros(0),
        beta=np.zeros(0),
        residual=np.zeros(0),
    )
