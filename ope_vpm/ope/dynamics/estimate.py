"""The value by following the target for some steps in a learned model from every logged state.

    V(s) = E[Σ_{j<k} γ^j r_j + γ^k V(s_k)],   s_0 = s, actions from the target, states from the model,

is solved for a V that is linear in features of the state, as LSTD does with k = 1 and logged steps. The more steps, the
less depends on V, whose features may be too few, and the more on the model. Four things speak against a number of
steps, and choose it: the standard error; how far the model misses the logged outcome of as many logged actions, on
held-out episodes; how far models differ that the data allow as well; and how far the value lies from that of fewer.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np

from ope_vpm.arrays import Floats, Integers
from ope_vpm.linear.system import RIDGES, LinearSystem, choose_ridge, penalty_scale
from ope_vpm.ope.adapter.pair_features import pair_features
from ope_vpm.ope.dynamics.ahead import NO_CHARGE, Ahead, Charge, Simulator
from ope_vpm.ope.dynamics.state_shift import some_of, unfamiliar
from ope_vpm.ope.dynamics.world import World, world_of
from ope_vpm.ope.inference.doubts import DISAGREEMENT, Doubts, scaled
from ope_vpm.ope.inference.estimate import RawEstimate, reward_range, unsupported
from ope_vpm.ope.inference.returns import reaches_ends
from ope_vpm.ope.inference.uncertainty import Bootstrap, EpisodeSums, initial_sums
from ope_vpm.ope.log import Log
from ope_vpm.ope.memory import remembered
from ope_vpm.ope.problem import Problem
from ope_vpm.threads import cached_property

LEAST_EXPLAINED = 0.9995
"""The explained share of the variance of every coordinate's change and of the reward: below it errors grow faster over
steps than they are noticed (Acrobot, with 0.993 to 0.998: off by 46 on-policy errors after ten steps, with 3 foreseen).
Pendulum and CartPole have 0.9997 and more."""
LEAST_ENDS_EXPLAINED = 0.7
"""The explained share of the variance of ends: CartPole has 0.84 to 1 where it works."""
LEAST_EPISODES = 10
"""Two of them are then held out, and judge the model."""
UNFAMILIAR = (
    "in {:.0%} of the logged states the target does what the log hardly did there, and a model of the log guesses"
)
MOST_BEYOND = 0.015
"""A share of the target's states: where more of them leave what was logged by a tenth of its range, nothing says that
the model still holds. Fewer are part of the error, as if the rewards there were the worst or the best of all: on
CartPole logs by an older policy one state in a hundred is a pole that falls, and the model is better than vpm."""
STEPS = (3, 10, 30)
"""How many steps are tried: each about three times as many as the one before."""
DRAWS = 3
"""Models from the posterior distribution, each with its own rows: their spread is part of the uncertainty."""
STARTS = 1000
"""Rows that each model starts from: with 30 steps and three models that is about the time of vpm itself."""
LEAST_ENDED = 10
"""Episodes that ended, where any did: what fewer say about when the task ends is not enough to extrapolate."""
CHECKED = 10_000
"""States visited by the logged actions, from held-out rows."""
LEAST_CHECKED = 10
"""Held-out rows below which nothing is known about how far the model misses."""
SMALLEST = 1e-9
"""Keeps weights finite where they cancel."""
SLACK = 2.0
"""The most steps whose error is at most so many times the least are taken: fewer lean on features of V, whose bias
shows only in part. On Pendulum and CartPole (seeds 100 and 101) errors are then within 1.6 of the foreseen ones."""


@dataclass(frozen=True)
class Followed:
    """The value for one number of steps, with what speaks against it."""

    steps: int
    value: float
    sums: EpisodeSums
    missed: float
    """How far the model misses the logged outcomes, weighted as the value weighs states, the noise of that included."""
    spread: float
    """The standard error over models that the data allow."""
    beyond: float
    """The share of the target's states in which the model had to be held at the limits of the log."""
    at_stake: float
    """How far apart values can be by what the rewards allow there."""
    per_episode: Followed | None = None
    """The estimate of the return of an episode; None where nothing ends."""

    def bias(self, other: float) -> float:
        """The part of it that more episodes of the same kind would not show."""
        held = self.beyond * self.at_stake
        return float(np.sqrt(self.missed**2 + self.spread**2 + held**2 + (self.value - other) ** 2))


def find_followed(problem: Problem, n_features: int | None, draws: int) -> RawEstimate | None:
    """The value by a learned model; None where the model is not good enough to be asked.

    Args:
        problem: the question, on continuous states.
        n_features: random Fourier features of V.
        draws: as in `pair_features`.
    """
    ended = int(np.sum(problem.data.terminated))
    usual = problem.on_end == ("restart" if problem.gamma == 1 else "absorb") and (ended == 0 or ended >= LEAST_ENDED)
    if not usual or problem.data.n_episodes < LEAST_EPISODES or not len(problem.log.initial_episodes):
        return None
    world = world_of(problem)
    if world is None or world.explained < LEAST_EXPLAINED or world.ends_explained < LEAST_ENDS_EXPLAINED:
        return None
    found = _followed(problem, world, n_features, draws)
    if found is None:
        return None
    doubts = unsupported(problem, unfamiliar(problem), UNFAMILIAR)
    chosen = _chosen(found, world, doubts)
    returns = [each.per_episode for each in found if each.per_episode is not None]
    if chosen is None or len(returns) < len(found):
        return chosen
    length = abs(returns[0].value / found[0].value) if found[0].value else 1.0
    return replace(chosen, per_episode=_chosen(returns, world, scaled(doubts, length)))


def _chosen(found: list[Followed], world: World, doubts: Doubts) -> RawEstimate | None:
    """The estimate for one of the numbers of steps; None where nothing is known about the error of any."""
    others = [found[1].value, *(each.value for each in found[:-1])]
    biases = np.array([each.bias(other) for each, other in zip(found, others, strict=True)])
    errors = np.hypot([each.sums.standard_error for each in found], biases)
    if not np.isfinite(errors).any():
        return None
    best = int(np.flatnonzero(errors <= SLACK * np.nanmin(errors))[-1])
    chosen, bias = found[best], float(biases[best])
    return RawEstimate(
        value=chosen.value,
        uncertainty=Bootstrap(episodes=chosen.sums),
        doubts=(*doubts, *DISAGREEMENT.suspects(bias)),
        diagnostics={"model_steps": chosen.steps, "model_explained": world.explained, "model_missed": chosen.missed},
    )


def _followed(problem: Problem, world: World, n_features: int | None, draws: int) -> list[Followed] | None:
    """The value for each number of steps; None where the target leaves what was logged."""
    states, rng = pair_features(problem, n_features, draws).states, np.random.default_rng(problem.seed)
    initial, known = states.initial, problem.log.rows[np.asarray(problem.data.next_known)[problem.log.rows]]
    drawn = []
    for _ in range(DRAWS):
        simulator = Simulator(problem, world.drawn(rng), states.features)
        rows = some_of(known, STARTS, rng)  # in the log's canonical order
        phi = simulator.features(problem.data.observations[rows], simulator.times[rows])
        aheads = simulator.of_target(rows, STEPS, rng)
        episode = problem.data.episode[rows]
        drawn.append([_Equations.of(problem, episode, phi, *each, initial) for each in zip(STEPS, aheads, strict=True)])
    of_steps = [list(parts) for parts in zip(*drawn, strict=True)]
    if max(float(np.mean(np.concatenate([part.beyond for part in parts]))) for parts in of_steps) > MOST_BEYOND:
        return None
    simulator = Simulator(problem, world, states.features)
    return [_solved(problem, parts, simulator, initial) for parts in of_steps]


def _solved(problem: Problem, parts: list[_Equations], simulator: Simulator, initial: Floats) -> Followed:
    """The value for one number of steps, from the equations of each model, and the return of an episode."""
    whole = _Equations.joined(parts)
    system = whole.system
    solved = [system.solve(ridge) for ridge in RIDGES]
    sums = [whole.influence(problem, theta, beta, initial) for theta, beta in solved]
    ridge = RIDGES[choose_ridge(np.array([each.standard_error for each in sums]))]
    found = _at_ridge(problem, whole, parts, simulator, initial, ridge, NO_CHARGE)
    if not problem.episodic:
        return found
    rate = float(whole.source @ whole.paid(whole.ended).system.solve(ridge)[0])
    if not reaches_ends(problem, rate):
        return found
    charge = Charge(found.value / rate, 1 / rate)
    return replace(found, per_episode=_at_ridge(problem, whole, parts, simulator, initial, ridge, charge))


def _at_ridge(
    problem: Problem,
    whole: _Equations,
    parts: list[_Equations],
    simulator: Simulator,
    initial: Floats,
    ridge: float,
    charge: Charge,
) -> Followed:
    """The value of the charged rewards plus the charge itself; `whole` has the rows of all parts."""
    whole, allowed = whole.charged(charge), reward_range(problem)
    theta, beta = whole.system.solve(ridge)
    moved = [part.charged(charge).moved(theta, beta) for part in parts]
    value = charge.per_end + float(whole.system.source @ theta)
    sums = whole.influence(problem, theta, beta, initial)
    return Followed(
        steps=whole.steps,
        value=value,
        sums=EpisodeSums.of_influence(value, sums.influence),
        missed=_missed(problem, simulator, whole.steps, theta, beta, initial, charge),
        spread=float(np.std(moved, ddof=1) / np.sqrt(len(moved))),
        beyond=float(np.mean(whole.beyond)),
        at_stake=charge.scale * (allowed.high - allowed.low),
    )


@dataclass(frozen=True)
class _Equations:
    """The equations of V at some rows: φ, what k steps take from it, and the rewards on the way."""

    steps: int
    episode: Integers
    phi: Floats
    change: Floats
    """φ - γ^k φ_k, with E₀[φ] after a restart; at γ = 1 its first entry is the time that the steps take."""
    reward: Floats
    """Σ γ^j r_j."""
    ended: Floats
    """The probability of an end on the way."""
    beyond: Floats
    """As in `Ahead`."""
    source: Floats

    @classmethod
    def of(
        cls, problem: Problem, episode: Integers, phi: Floats, steps: int, ahead: Ahead, initial: Floats
    ) -> _Equations:
        mean, gamma = initial.mean(axis=0), problem.gamma
        if gamma < 1:
            change, source = phi - gamma**steps * ahead.features, (1 - gamma) * mean
        else:
            change, source = phi - ahead.features - np.multiply.outer(ahead.ended, mean), np.eye(len(mean))[0]
            change[:, 0] = ahead.time
        return cls(steps, episode, phi, change, ahead.reward, ahead.ended, ahead.beyond, source)

    @classmethod
    def joined(cls, parts: list[_Equations]) -> _Equations:
        """The equations of all parts together."""
        names = ("episode", "phi", "change", "reward", "ended", "beyond")
        rows = {name: np.concatenate([getattr(part, name) for part in parts]) for name in names}
        return replace(parts[0], **rows)  # type: ignore[arg-type]

    def charged(self, charge: Charge) -> _Equations:
        """These equations for the rewards less a charge."""
        return self.paid(charge.of(self.reward, self.ended))

    def paid(self, reward: Floats) -> _Equations:
        """These equations for other rewards; the matrices, if they are there, stay."""
        other, known = replace(self, reward=reward), vars(self).get("matrices")
        if known is not None:
            vars(other)["matrices"] = known
        return other

    @cached_property
    def matrices(self) -> tuple[Floats, Floats]:
        """E[φΔᵀ], and the units of its ridges: the features' mean squares."""
        return self.phi.T @ self.change / len(self.phi), penalty_scale(np.mean(self.phi**2, axis=0))

    @property
    def system(self) -> LinearSystem:
        """E[φΔᵀ]θ = E[φR]."""
        matrix, scale = self.matrices
        return LinearSystem(matrix, self.phi.T @ self.reward / len(self.phi), self.source, scale)

    def residual(self, theta: Floats) -> Floats:
        """The residual of the equations at each row."""
        return self.reward - self.change @ theta

    def moved(self, theta: Floats, beta: Floats) -> float:
        """How far these rows alone would move the value of a solution, to first order."""
        return float(np.mean((self.phi @ beta) * self.residual(theta)))

    def influence(self, problem: Problem, theta: Floats, beta: Floats, initial: Floats) -> EpisodeSums:
        """How each episode moves the value: τ = φᵀβ times the residual, and the initial states."""
        n, tau = len(self.phi), self.phi @ beta
        rate = 1 - problem.gamma if problem.gamma < 1 else float(np.mean(tau * self.ended))
        share = np.full(n, 1 / n)
        sums = EpisodeSums.of_rows(self.episode, problem.data.n_episodes, tau * self.residual(theta) / n, share)
        return sums.beside(initial_sums(problem, rate, initial @ theta))


def _missed(
    problem: Problem, simulator: Simulator, steps: int, theta: Floats, beta: Floats, initial: Floats, charge: Charge
) -> float:
    """How far the model misses what as many logged actions led to, as it moves the value; its noise included.

    Held-out rows with so many steps after them, or an end: infinite where there are too few to tell.
    """
    data, gamma, rows = problem.data, problem.gamma, _checked_rows(problem.log, steps)
    if len(rows) < LEAST_CHECKED:
        return float("inf")
    modelled, logged = (each.charged(charge) for each in simulator.of_log(rows, steps))
    first = float(initial.mean(axis=0)[1:] @ theta[1:]) if gamma == 1 else 0.0
    gap = modelled.value(theta, gamma, steps, first) - logged.value(theta, gamma, steps, first)
    tau = simulator.features(data.observations[rows], simulator.times[rows]) @ beta
    if gamma == 1:  # E[τ · time] = 1 on the target's own steps
        tau = tau / max(float(np.mean(tau * logged.time)), SMALLEST)
    by_episode = np.bincount(data.episode[rows], tau * gap, data.n_episodes) / len(rows)
    return float(np.hypot(np.mean(tau * gap), np.sqrt(np.sum(by_episode**2))))


@remembered
def _checked_rows(log: Log, steps: int) -> Integers:
    """Held-out rows with so many steps after them, or an end: all of them where they are too few, otherwise a part."""
    data, known = log.data, np.asarray(log.data.next_known)
    rows = log.rows[log.held_out[log.rows] & known[log.rows]]
    last = data.ends[data.episode[rows]]
    far, ended = rows + steps - 1 <= last, np.asarray(data.terminated)[last]
    rows = rows[(far & known[np.minimum(rows + steps - 1, last)]) | ended]
    return rows if len(rows) < LEAST_CHECKED else rows[:: max(1, len(rows) * steps // CHECKED)]
