"""Doubly robust evaluation with stationary ratios (double reinforcement learning, Kallus and Uehara 2020).

v = ℓ + (1-γ)E₀[V] + E_p[τ(r - ℓ + γV(s') - Q(s, a))]: right if either Q or τ is, and its error is the product of
theirs; the terms of the mean are the influence function, and their spread over episodes is the standard error.

Difference from the paper: Q and τ are fitted on all episodes. Both are linear in the same features, or counts, so that
their complexity is bounded by the ridge, and from a part of the episodes both are worse: on the public log of Tang and
Wiens cross-fitting moved an answer from 0.04 to 0.12 off. `folds` cross-fits Q, which networks may need. On finite
states Q and τ of the counted model solve the same equations: the correction is 0, and what is left is the answer of
the counts.
"""

from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any, ClassVar

import numpy as np

from ope_vpm.arrays import Array, Floats, Integers, group_sums
from ope_vpm.linear.system import RIDGES
from ope_vpm.ope.adapter.ends import clock_remarks
from ope_vpm.ope.authoring import Bootstrap, EpisodeSums, Problem, RawEstimate, doubts_of_weights, remarks
from ope_vpm.ope.behaviour.clone import behaviour_log_prob
from ope_vpm.ope.estimator import FeatureEstimator
from ope_vpm.ope.finite.cross_fit import CrossFit
from ope_vpm.ope.finite.estimate import counted_estimate
from ope_vpm.ope.inference.doubts import SUPPORT, UNSEEN, Doubts, scaled
from ope_vpm.ope.inference.estimate import NO_DATA
from ope_vpm.ope.inference.returns import ends_under, reaches_ends, uncharged
from ope_vpm.ope.linear.estimate import LinearEstimate, leverage, leverage_factor
from ope_vpm.ope.q.linear import QValues, doubted_lstd, influence, linear_qs, lstd_equations
from ope_vpm.ope.vpm.estimator import POWER, find_factored


@dataclass(frozen=True, kw_only=True)
class DoublyRobust(FeatureEstimator):
    """Q, and its Bellman residuals weighted by vpm's ratio."""

    name: ClassVar[str] = "dr"
    words: ClassVar[dict[str, tuple[str, ...]]] = {"q": ("neural", "linear")}

    folds: int = 1
    """Folds of episodes, each judged by the Q of the others, on continuous states; 1: no cross-fitting."""
    q: str | Callable[[Array], Array] = "linear"
    """On continuous states: "linear" (LSTD-Q) or "neural" (networks on top of it). Finite pairs are counted. Of bandits
    also a function that gives the expected reward of every action, (n, actions), from observations."""
    members: int = 1
    """Networks a fold."""
    training_steps: int = 2000
    """Gradient steps of each network."""

    def find(self, problem: Problem) -> RawEstimate:
        """On finite pairs by counts, otherwise by Q and the ratio of vpm."""
        if callable(self.q):
            return _of_bandit(problem, self.q)
        if problem.finite:
            return counted_estimate(problem)
        folds = problem.log.folds(self.folds)
        ratio = self._ratio(problem)
        if not ratio.ratio.any():
            return ratio
        if len(np.unique(folds[problem.data.episode[problem.steps.rows]])) == 1:
            folds = np.zeros_like(folds)  # no other fold has a step to learn from
        found = self._corrected(problem, folds, ratio, ratio.doubts)
        guess = ratio.per_episode
        rate = 0.0 if guess is None else ends_under(problem, guess.ratio)
        if guess is None or not reaches_ends(problem, rate):
            return found
        charged = problem.with_rewards(problem.data.rewards - guess.value * problem.ending)
        left = self._corrected(charged, folds, guess, scaled(guess.doubts, rate))
        return replace(found, per_episode=uncharged(guess.value, rate, left))

    def _corrected(self, problem: Problem, folds: Integers, ratio: LinearEstimate, known: Doubts) -> RawEstimate:
        """The value with a given ratio, about which there are doubts."""
        tau = ratio.ratio[problem.steps.rows]
        q, ridge = self._q(problem, folds, tau)
        notes = {"solver": self.q, "ridge": ratio.ridge, "q_ridge": ridge, "clock": problem.limit}
        fit = CrossFit(q, tau, unseen_mass=None, error=0.0)
        found = corrected(problem, fit, notes).doubted(known)
        if not folds.any() and found.sums is not None:  # residuals of what was fitted to them are too small
            equations = lstd_equations(problem, self.n_features, self.draws)
            sums = found.sums.stretched(leverage_factor(leverage(equations, ratio.ridge)))
            found = replace(found, uncertainty=Bootstrap(episodes=sums))
        return found

    def _ratio(self, problem: Problem) -> LinearEstimate:
        """The ratio of vpm; without densities, the one that LSTD-Q implies."""
        if problem.policy.has_log_prob:
            return find_factored(problem, self.n_features, self.ridge, POWER, self.draws)
        return doubted_lstd(problem, self.n_features, self.ridge, self.draws)

    def _q(self, problem: Problem, folds: Integers, tau: Floats) -> tuple[QValues, float]:
        """Q of each step by the other folds, and the ridge of its linear part."""
        equations = lstd_equations(problem, self.n_features, self.draws)
        ridges = RIDGES if self.ridge is None else (self.ridge,)
        fits = linear_qs(equations, folds, ridges)
        fitted = [fit.cross_fitted(problem, folds) for fit in fits]
        errors = [influence(problem, tau, q.residual(problem), q.first).standard_error for q in fitted]
        index = int(np.argmin(np.where(np.isfinite(errors), errors, np.inf)))
        if self.q == "linear":
            return fitted[index], ridges[index]
        from ope_vpm.ope.q.networks import fit_networks  # which needs torch

        settings = self.members, self.training_steps, self.draws
        return fit_networks(problem, folds, *settings, base=fits[index]), ridges[index]


def _of_bandit(problem: Problem, model: Callable[[Array], Array]) -> RawEstimate:
    """The mean of Σ_a π(a|x)·q(x, a) + (r - q(x, a))·π/b over logs of one decision each (Dudík and others, 2011)."""
    data, number = problem.data, problem.policy.n_actions
    if number is None or data.n_episodes < len(data) or not problem.ends.all():
        raise ValueError("q= takes a function for bandits alone: discrete actions, every episode one step that ends")
    q = np.asarray(model(data.observations), dtype=np.float64)
    if q.shape != (len(data), number):
        raise ValueError(f"q must give every action's reward, shape {(len(data), number)}: got {q.shape}")
    ratio = np.exp(problem.target_log_prob - behaviour_log_prob(problem).log_prob)
    expected = np.sum(problem.policy.probabilities(data.observations) * q, axis=1)
    each = expected + ratio * (data.rewards - q[np.arange(len(data)), data.actions])
    if problem.gamma < 1 and problem.on_end == "absorb":
        each *= 1 - problem.gamma  # nothing is paid after the one step
    sums = EpisodeSums(each[:, None], np.ones((len(data), 1)))
    doubts = doubts_of_weights(data, ratio)
    found = RawEstimate(value=float(each.mean()), uncertainty=Bootstrap(episodes=sums), weights=ratio, doubts=doubts)
    return replace(found, per_episode=found if problem.episodic else None)


def corrected(problem: Problem, fit: CrossFit, notes: dict[str, Any]) -> RawEstimate:
    """The value of Q and what the weighted residuals add to it."""
    plan, q, tau = problem.steps, fit.q, fit.tau
    residual = q.residual(problem)
    share = plan.weight / plan.weight.sum()
    plain = q.value(problem)
    correction = float(share @ (tau * residual))
    sums = influence(problem, tau, residual, q.first)
    if fit.mixture is not None:
        correction += float(fit.mixture.ratios.sum())
        sums = sums.beside(fit.mixture)
    error = sums.standard_error
    weights = group_sums(plan.rows, plan.weight * tau, len(problem.data))
    return RawEstimate(
        value=plain + correction,
        uncertainty=Bootstrap(episodes=sums),
        weights=weights,
        doubts=(
            *doubts_of_weights(problem.data, weights),
            *SUPPORT.of(fit.unseen_mass, sentence=NO_DATA),
            *UNSEEN.of(0.0, bias=fit.error),
            *remarks((*fit.doubts, *clock_remarks(problem.data, problem.time_limit, known=not problem.finite))),
        ),
        diagnostics={
            **notes,
            "fqe_value": plain,
            "correction": correction,
            "standard_errors_apart": correction / error if error > 0 else 0.0,
            "dropped": plan.dropped,
            "ended": plan.ended,
        },
    )
