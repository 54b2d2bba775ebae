"""Good–Turing regression: the value of pairs never seen, predicted from pairs seen rarely.

On finite states VPM is power iteration on the counted chain, and what error is left comes from mass that reaches pairs
(s, a) no row begins with. Here such a pair has the value that a regression predicts: of the values y = r̂ + γP̂V of
rarely seen pairs (`stand_ins` says which, and how much each counts) on the action, on ℓ = log π(a|s) centred in its
state, and on the mean y of the other seen actions there. A state that was never left takes the mean V of the states
left once. Given the last coefficient all this is linear in y and reproduces constants, so there still is a law over the
seen pairs that one step under the target leaves as it is, and the value is Σ τ r / Σ τ under it, with a ratio that may
be negative on some of the pairs that stand for others.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from ope_vpm.arrays import Bools, Floats, Integers, group_sums
from ope_vpm.chain.finite import solve as linear
from ope_vpm.ope.finite.counts import CountedPairs
from ope_vpm.ope.finite.rare_pairs import RARE, behaviour, centred_log, concentration, missed_odds

LEAST_EXPLAINED = 0.2
"""Stand-ins that are predicted worse say that neither the target's choices nor the other actions tell what an unseen
pair is worth: 0.5 to 0.8 on Taxi, below 0.03 where policies are drawn at random. No truth is needed to notice."""
FEWEST_STAND_INS = 30
"""With fewer rarely seen pairs there is nothing to regress on."""
EFFECTIVE_STAND_INS = 300
"""The target's own mass weighs the stand-ins as far as this many, in Kish's sense, are left."""
RIDGE = 10.0
"""On the coefficients of actions and ℓ, as if so many more stand-ins had shown 0."""
SWEEPS = 60
"""Value sweeps in which the coefficient of the other actions' mean settles."""
LAW_STEPS = 100
"""Power steps to the law that weighs the stand-ins."""
LEAST_COVERED = 0.5
"""For that law the target's choices are scaled up at most by the inverse; what is lost restarts from the log. Without
this a state with one seen action that leads nowhere else would swallow the law."""


@dataclass(frozen=True)
class Regression:
    """Predicts the y of unseen pairs: β·(mean y in the state) + features·coefficients(y - β·mean of the others)."""

    counted: CountedPairs
    rare: Integers
    """The pairs that stand for unseen ones."""
    weight: Floats
    """What each counts, summing to 1."""
    centred: Floats
    """(rare pairs, features): features less their weighted means."""
    solve: Floats
    """(features + 1, rare pairs): from their y to the coefficients, the weighted mean last."""
    unseen: Floats
    """(states, features + 1): the features of a state's unseen pairs, summed with the target's probabilities."""
    seen_actions: Floats
    """How many different actions were seen in each state."""
    never_left: Bools
    """The states from which there is no row."""
    left_once: Floats
    """The uniform law over the states left once, which stand for those."""

    def values(self, y: Floats, beta: float) -> Floats:
        """V over all states from the y of seen pairs: 𝔼_π of seen and predicted ones."""
        counted = self.counted
        mean = group_sums(counted.state_of_pair, y, counted.states) / np.maximum(self.seen_actions, 1)
        coefficients = self.solve @ (y[self.rare] - beta * self.mean_of_others(y))
        direct = group_sums(counted.state_of_pair, counted.chance * y, counted.states)
        known = direct + beta * self.unseen[:, -1] * mean + self.unseen @ coefficients
        whole: Floats = known + self.never_left * (self.left_once @ known)
        return whole

    def spread(self, law: Floats) -> Floats:
        """A law over states with the states never left replaced by their stand-ins."""
        known: Floats = ~self.never_left * law + self.left_once * law[self.never_left].sum()
        return known

    def on_stand_ins(self, law: Floats) -> Floats:
        """How much the y of each rare pair counts by way of the coefficients; the transpose in `values`."""
        through: Floats = (self.spread(law) @ self.unseen) @ self.solve
        return through

    def mass(self, law: Floats, beta: float) -> Floats:
        """How much each seen pair counts under a law over states: the transpose of `values`."""
        counted, known = self.counted, self.spread(law)
        share = beta * self.unseen[:, -1] * known / np.maximum(self.seen_actions, 1)
        direct = counted.chance * known[counted.state_of_pair] + share[counted.state_of_pair]
        through = np.zeros_like(direct)
        through[self.rare] = self.on_stand_ins(law)
        from_others = np.zeros_like(direct)
        from_others[self.rare] = through[self.rare] / self.others
        whole = group_sums(counted.state_of_pair, from_others, counted.states)[counted.state_of_pair]
        return direct + through - beta * (whole - from_others)

    @property
    def others(self) -> Floats:
        """How many other actions were seen in the state of each rare pair."""
        return self.seen_actions[self.counted.state_of_pair[self.rare]] - 1

    def mean_of_others(self, y: Floats) -> Floats:
        """The mean y of the other seen actions in the state of each rare pair."""
        total = group_sums(self.counted.state_of_pair, y, self.counted.states)
        return (total[self.counted.state_of_pair[self.rare]] - y[self.rare]) / self.others

    def coefficient(self, y: Floats) -> float:
        """β: of the mean of the others, given the features; within [0, 1]."""
        own, others = self._unexplained(y[self.rare]), self._unexplained(self.mean_of_others(y))
        below = float(self.weight @ others**2)
        return min(max(float(self.weight @ (own * others)) / below, 0.0), 1.0) if below > 0 else 0.0

    def residuals(self, y: Floats, beta: float) -> Floats:
        """How far the y of each rare pair lies from its prediction."""
        return self._unexplained(y[self.rare] - beta * self.mean_of_others(y))

    def _unexplained(self, y: Floats) -> Floats:
        answer = self.solve @ y
        left: Floats = y - self.centred @ answer[:-1] - answer[-1]
        return left


def regression(counted: CountedPairs, gamma: float, use_target: bool = True) -> Regression | None:
    """Choose and weigh the stand-ins; None where there are too few of them.

    Args:
        counted: the log.
        gamma: the discount.
        use_target: whether ℓ is among the features.
    """
    state, action = counted.state_of_pair, counted.action_of_pair
    times = np.rint(counted.times).astype(np.int64)
    unit = int(np.gcd.reduce(times))  # a log given twice over is no more than the log
    seen_actions = np.bincount(state, minlength=counted.states).astype(np.float64)
    rare = np.flatnonzero((times <= RARE * unit) & (seen_actions[state] > 1))
    if len(rare) < FEWEST_STAND_INS:
        return None
    liking = centred_log(counted.target)
    weight = _weights(counted, gamma, rare, liking, unit)
    features = np.eye(counted.target.shape[1])[:, None] + np.zeros((1, counted.states, 1))
    features = np.concatenate([features, liking.T[..., None]], axis=2) if use_target else features
    middle = weight @ features[action[rare], state[rare]]
    centred = features[action[rare], state[rare]] - middle
    effective = 1 / float(weight @ weight)
    square = centred.T @ (weight[:, None] * centred) + RIDGE / effective * np.eye(len(middle))
    solve = np.vstack([np.linalg.solve(square, centred.T * weight), weight])
    missing = np.array(counted.target)
    missing[state, action] = 0
    never_left = counted.visits == 0
    missing[never_left] = 0
    unseen = np.einsum("sa,ask->sk", missing, features - middle)
    once = np.rint(counted.visits) == unit
    once = once if once.any() else ~never_left
    return Regression(
        counted=counted,
        rare=rare,
        weight=weight,
        centred=centred,
        solve=solve,
        unseen=np.column_stack([unseen, missing.sum(axis=1)]),
        seen_actions=seen_actions,
        never_left=never_left,
        left_once=once / once.sum(),
    )


def _weights(counted: CountedPairs, gamma: float, rare: Integers, liking: Floats, unit: int) -> Floats:
    """The odds of having been missed, times the target's mass to the highest power that leaves enough stand-ins."""
    state, action = counted.state_of_pair, counted.action_of_pair
    left = counted.visits > 0
    counts = np.zeros_like(counted.target)
    counts[state, action] = counted.times / unit
    chance = np.zeros_like(counts)
    chance[left] = behaviour(counts[left], liking[left])
    kappa = concentration(counts[left], chance[left])
    odds = missed_odds(counted.visits[state[rare]] / unit, chance[state[rare], action[rare]], kappa)
    mass = _target_law(counted, gamma)[state[rare]] * counted.chance[rare]
    relative = mass / mass.max() if mass.max() > 0 else np.ones_like(mass)
    for tenths in range(10, -1, -1):
        weight: Floats = odds * relative ** (tenths / 10)
        if weight.sum() ** 2 >= EFFECTIVE_STAND_INS * (weight @ weight):
            break
    weight /= weight.sum()
    return weight


def _target_law(counted: CountedPairs, gamma: float) -> Floats:
    """About where the target spends its time: power steps with its choices scaled up over seen actions."""
    logged = counted.visits / counted.visits.sum()
    covered = np.maximum(counted.covered, LEAST_COVERED)[counted.state_of_pair]
    chance, back = counted.chance / covered, counted.transitions.T.tocsr()
    law: Floats = logged
    for _ in range(LAW_STEPS):
        moved = back @ (law[counted.state_of_pair] * chance)
        law = moved + (1 - moved.sum()) * logged
        if gamma < 1:
            law = gamma * law + (1 - gamma) * counted.initial
    return law


@dataclass(frozen=True)
class Completed:
    """The solution on seen pairs with the unseen ones predicted."""

    value: float
    mass: Floats
    """Of each seen pair; at γ = 1 it sums to 1."""
    law: Floats
    """Over states."""
    values: Floats
    """V over states; at γ = 1 up to a constant."""
    beta: float
    misfit: float
    """The standard error of the value that the predictions bring: of their coefficients, and of each single one."""
    explained: float
    """How much better each stand-in is predicted by the others than by the log's mean: 1 perfectly, 0 not at all."""


def solve(model: Regression, gamma: float) -> Completed | None:
    """The fixed point; None where there is none within the range of the rewards."""
    counted = model.counted
    beta = _settled_coefficient(model, gamma)
    logged = counted.visits / counted.visits.sum()
    pay, size = model.values(counted.reward, beta), counted.states
    forward, back = counted.transitions, counted.transitions.T.tocsr()
    # At γ = 1 a rank-one term takes the place of what I - 𝒯 lacks; what it adds is the average reward.
    share = logged if gamma == 1 else np.zeros(size)
    start = logged if gamma == 1 else (1 - gamma) * counted.initial
    values = linear.gmres(lambda v: v - gamma * model.values(forward @ v, beta) + share @ v, pay, np.zeros(size))
    law = linear.gmres(lambda d: d - gamma * (back @ model.mass(d, beta)) + share * d.sum(), start, start)
    if values is None or law is None:
        return None
    value = float(share @ values) if gamma == 1 else float((1 - gamma) * counted.initial @ values)
    y = counted.reward + gamma * (forward @ values) - share @ values
    lowest, highest = min(counted.reward.min(), 0.0 if gamma < 1 else np.inf), counted.reward.max()
    if not lowest - 1e-9 <= value <= max(highest, 0.0 if gamma < 1 else -np.inf) + 1e-9:
        return None
    misfit, explained = _misfit(model, law, y, beta), _explained(model, y, beta)
    return Completed(value, model.mass(law, beta), law, values, beta, misfit, explained)


def _settled_coefficient(model: Regression, gamma: float) -> float:
    """β after a number of value sweeps, each with the coefficient that the last one's y ask for."""
    counted, beta = model.counted, 0.5
    y = counted.reward
    for _ in range(SWEEPS):
        values = model.values(y, beta)
        y = counted.reward + gamma * (counted.transitions @ values)
        y = y - y.mean() if gamma == 1 else y
        beta = model.coefficient(y)
    return beta


def _misfit(model: Regression, law: Floats, y: Floats, beta: float) -> float:
    """√(Σ (c·e)² + σ²·Σ m²): c what each stand-in counts, e its residual, m the mass of each unseen pair."""
    counted = model.counted
    residual = model.residuals(y, beta)
    missing = np.array(counted.target)
    missing[counted.state_of_pair, counted.action_of_pair] = 0
    single = float(model.weight @ residual**2) * float(model.spread(law) ** 2 @ (missing**2).sum(axis=1))
    return float(np.sqrt(np.sum((model.on_stand_ins(law) * residual) ** 2) + single))


def _explained(model: Regression, y: Floats, beta: float) -> float:
    """1 - Σ w·(left-out residual)² / Σ w·(y - the log's mean)² over the stand-ins."""
    leverage = np.sum(model.centred * model.solve[:-1].T, axis=1) + model.weight
    left_out = model.residuals(y, beta) / np.maximum(1 - leverage, 0.1)
    times = model.counted.times
    around = float(model.weight @ (y[model.rare] - times @ y / times.sum()) ** 2)
    return 1 - float(model.weight @ left_out**2) / around if around > 0 else 0.0
