"""Did the policy that logged the data know more than the log holds? A test without the truth.

The surprise of a step is its action less what the state predicts of it, 1[a = j] - b̂(j|s), or a - E[a|s]. Where
actions depend on the past through the logged state alone, earlier surprises of an episode predict nothing of the
present action. A cause that is not logged, such as what a physician saw, makes them do so. So do a log of several
policies and noise that persists, which do no harm: there earlier surprises predict nothing of the reward and of the
next state given state and action. A hidden cause that biases values does both, and that is what is asked for.

The second question is one of no correlation between two residuals, each cross-fitted (Robinson 1988; Chernozhukov and
others 2018): the outcome less E[outcome|s, a], and the predicted surprise p less E[p|s, a]. A cause that makes an
action good in some episodes and bad in others shows in p·(a - b̂) alone, which is asked as well.
"""

from collections.abc import Callable
from dataclasses import dataclass
from functools import partial

import numpy as np
from scipy.special import chdtrc

from ope_vpm.arrays import Array, Bools, Floats, Integers, group_sums
from ope_vpm.linear.features import Standardiser
from ope_vpm.linear.system import Halves
from ope_vpm.logged import LoggedDataset
from ope_vpm.ope.adapter.given import Encoder
from ope_vpm.ope.adapter.states import StateFeatures, features_for
from ope_vpm.ope.log import Log
from ope_vpm.ope.memory import remembered

LEAST_EPISODES = 30
"""Fewer cannot show a gain of `SURE` standard errors, which is at most the root of their number, with any power."""
SURE = 4.0
"""Standard errors over episodes by which earlier surprises must improve the prediction of held-out actions: a useless
regressor makes it worse, so that noise has far less."""
LEAST_SHARE = 0.005
"""The share of the variance of surprises that is worth a doubt. Oberst and Sontag's sepsis simulator has 0.008 to 0.009
with diabetes hidden and 0.014 to 0.021 with glucose hidden as well, and less than 0 with nothing hidden."""
P_VALUE = 1e-3
"""The probability, all outcomes together, with which earlier surprises would go with outcomes by accident. With the
first question that is enough: of 74 ordinary logs none is called confounded. The simulator has 1e-6 to 1e-15 from 5000
episodes on, and with 2000 of them 2e-4 with both hidden, but 0.02 with diabetes alone, which is not found then."""
MOST_COORDINATES = 50
"""Coordinates of an observation or an action; with more, as of an image, there is no test."""
MOST_ROWS, P_VALUE_BESIDE_MISFIT = 10_000, 1e-5
"""On continuous states, rows that are looked at, in whole episodes, and what `P_VALUE` is there. What features miss of
a network's actions and of rewards lasts from step to step as a cause does, and with enough rows it is no accident
either: on Reacher, HalfCheetah and Ant, where nothing is hidden, outcomes have 1e-25 with 60 000 rows and 100
features, and 0.003 to 0.08 with up to 15 000 rows and 300. Causes as large as actions and rewards vary have 1e-9 with
3000 rows (note 034)."""
RIDGE = 1e-3
"""In units of each regressor's mean square; random Fourier features of few rows would otherwise fit noise."""
AHEAD = 0.99
"""The discount of the rewards by which finite next states are told apart: some hundred steps."""

Regression = Callable[[Floats], Floats]
"""From numbers of each row, (n, k), to their cross-fitted predictions."""


@remembered
def hidden_causes(log: Log) -> float:
    """The share of the variance of actions, given the state, that a hidden cause of rewards explains.

    0 where the state explains all that is there, and where nothing can be said: of few episodes, single steps, images.
    """
    log, least = (log, P_VALUE) if log.data.finite else (log.beginning(MOST_ROWS), P_VALUE_BESIDE_MISFIT)
    steps = _steps(log) if len(log.content) >= LEAST_EPISODES else None
    if steps is None or not steps.later.any():
        return 0.0
    predicted = steps.predicted()
    share, sure = steps.action_gain(predicted)
    if share < LEAST_SHARE or sure < SURE:
        return 0.0
    return share if steps.outcome_probability(predicted) < least else 0.0


@dataclass(frozen=True, eq=False)
class SurpriseSteps:
    """Logged steps with what was surprising before them."""

    episode: Integers
    fold: Integers
    """0 or 1 for each step, the same within an episode."""
    surprise: Floats
    """(n, k): of the action, given the state."""
    past: Floats
    """(n, 2k): the last surprise, and the sum of all earlier ones over the root of their number."""
    later: Bools
    """The steps that have any."""
    outcomes: Floats
    """(n, m): rewards and functions of the next state."""
    by_state: Regression
    by_pair: Regression

    def predicted(self) -> Floats:
        """(n, k): the present surprise as earlier ones predict it, each half of the episodes by the other; 0 first."""
        past, predicted, rows = self.past - self.by_state(self.past), np.zeros_like(self.surprise), self.later
        predicted[rows] = Halves(past[rows], self.fold[rows]).predicted(self.surprise[rows], RIDGE)
        return predicted

    def action_gain(self, predicted: Floats) -> tuple[float, float]:
        """The share of the squared surprises that earlier ones predict on held-out episodes, and in standard errors."""
        plain, better = (each[self.later] ** 2 for each in (self.surprise, self.surprise - predicted))
        gain = np.bincount(self.episode[self.later], (plain - better).sum(axis=1))
        noise, whole = float(np.sqrt(gain @ gain)), float(plain.sum())
        return (float(gain.sum()) / whole, float(gain.sum()) / noise) if noise > 0 else (0.0, 0.0)

    def outcome_probability(self, predicted: Floats) -> float:
        """The probability that noise makes predicted surprises and outcomes go together as much as they do."""
        asked = np.column_stack([predicted, np.sum(predicted * self.surprise, axis=1)])
        asked, left = asked - self.by_pair(asked), self.outcomes - self.by_pair(self.outcomes)
        least = min(self._score(asked, each) for each in left.T)
        return float(least * left.shape[1])  # Bonferroni

    def _score(self, past: Floats, outcome: Floats) -> float:
        """The p-value of E[outcome·past] = 0, from sums over episodes, which are independent."""
        products = np.where(self.later, outcome, 0.0)[:, None] * past
        sums = np.stack([np.bincount(self.episode, each) for each in products.T], axis=1)
        sizes, axes = np.linalg.eigh(sums.T @ sums)
        kept = sizes > 1e-6 * sizes[-1]  # surprises of all actions sum to 0
        if not sizes[-1] > 0:
            return 1.0
        return float(chdtrc(np.count_nonzero(kept), np.sum((sums.sum(axis=0) @ axes[:, kept]) ** 2 / sizes[kept])))


def _steps(log: Log) -> SurpriseSteps | None:
    """The steps of a log in memory; None where nothing can be said of it."""
    data, fold = log.data, log.folds(2)[log.data.episode]
    if int(fold.min()) == int(fold.max()) or (data.finite and not data.discrete_actions):
        return None
    if data.finite:
        return _finite_steps(data, fold)
    if data.observations.shape[1] > MOST_COORDINATES or _actions(data).shape[1] > MOST_COORDINATES:
        return None
    return _continuous_steps(data, fold)


def _finite_steps(data: LoggedDataset, fold: Integers) -> SurpriseSteps:
    """Predictions are means by state, and by pair.

    Two surprises in one state share the error of its mean, which makes them alike. So earlier ones in the same state do
    not count.
    """
    encoder, taken = Encoder.of_states(data), _actions(data)
    seen, state = np.unique(encoder.states(data.observations), return_inverse=True)
    pair = np.unique(state * taken.shape[1] + data.actions, return_inverse=True)[1]
    by_state, by_pair = partial(cell_means, state, fold), partial(cell_means, pair, fold)
    surprise = taken - by_state(taken)
    past, number = earlier_surprises(surprise, data.episode, state)
    value = np.bincount(state, _ahead(data)) / np.bincount(state)
    after = encoder.states(
        np.where(data.next_known[:, None], _columns(data.next_observations), _columns(data.observations))
    )
    place = np.minimum(np.searchsorted(seen, after), len(seen) - 1)
    following = np.where(seen[place] == after, value[place], value[state]) * ~data.terminated
    outcomes = np.stack([data.rewards, data.rewards + AHEAD * following], axis=1)
    return SurpriseSteps(data.episode, fold, surprise, past, number > 0, outcomes, by_state, by_pair)


def _continuous_steps(data: LoggedDataset, fold: Integers) -> SurpriseSteps:
    """Predictions are ridge regressions on features of the state, and on those times the action."""
    features, taken = StateFeatures.draw(data, features_for(len(data)), 0), _actions(data)
    x, z = features(data.observations), features.limited_coordinates(data.observations)
    acting = (taken[:, :, None] * np.hstack([np.ones((len(z), 1)), z])[:, None, :]).reshape(len(z), -1)
    both = np.hstack([x, acting] if data.discrete_actions else [x, acting, taken**2])
    by_state, by_pair = (partial(Halves(each, fold).predicted, ridge=RIDGE) for each in (x, both))
    surprise = taken - by_state(taken)
    past, number = earlier_surprises(surprise, data.episode)
    after = np.where(data.next_known[:, None], data.next_observations, data.observations)
    outcomes = np.column_stack([data.rewards, data.terminated, features.limited_coordinates(after)])
    outcomes = Standardiser.fit(outcomes)(outcomes)
    return SurpriseSteps(data.episode, fold, surprise, past, number > 0, outcomes, by_state, by_pair)


def _columns(observations: Array) -> Array:
    """Finite states as (n, coordinates)."""
    return observations.reshape(len(observations), -1)


def _actions(data: LoggedDataset) -> Floats:
    """(n, k): one column for each discrete action, or standardised continuous ones."""
    if data.discrete_actions:
        return np.eye(data.n_actions or 1)[data.actions]
    return Standardiser.fit(data.actions)(data.actions)


def _ahead(data: LoggedDataset) -> Floats:
    """(n,): the discounted rewards from each row to the end of its episode."""
    ahead = np.array(data.rewards, dtype=np.float64)
    for time in range(int(data.lengths.max()) - 2, -1, -1):
        rows = data.starts[data.lengths > time + 1] + time
        ahead[rows] += AHEAD * ahead[rows + 1]
    return ahead


def earlier_surprises(values: Floats, episode: Integers, state: Integers | None = None) -> tuple[Floats, Integers]:
    """The last value and `earlier_sums`, side by side, and the number of the latter; arguments as there."""
    same = np.diff(episode, prepend=-1) == 0
    if state is not None:
        same &= np.diff(state, prepend=-1) != 0
    last = np.where(same[:, None], np.roll(values, 1, axis=0), 0.0)
    sums, number = earlier_sums(values, episode, state)
    return np.hstack([last, sums]), number


def earlier_sums(values: Floats, episode: Integers, state: Integers | None = None) -> tuple[Floats, Integers]:
    """Σ of the values of earlier rows of the episode in other states, over the root of their number; and that number.

    Args:
        values: (n, k): of rows in the order of time, episode after episode.
        episode: the number of each row's episode.
        state: the number of each row's state; None where all states differ.
    """
    total, number = _before(values, episode)
    if state is not None:
        order = np.lexsort((episode, state))  # stable: rows of one episode and state stay in the order of time
        groups = np.cumsum((np.diff(episode[order], prepend=-1) != 0) | (np.diff(state[order], prepend=-1) != 0))
        same, times = _before(values[order], groups)
        total[order] -= same
        number[order] -= times
    return total / np.sqrt(np.maximum(number, 1))[:, None], number


def _before(values: Floats, group: Integers) -> tuple[Floats, Integers]:
    """Sums of the values, and the number, of the rows before each in its group; groups are contiguous."""
    first = np.maximum.accumulate(np.where(np.diff(group, prepend=-1) != 0, np.arange(len(group)), 0))
    sums = np.cumsum(values, axis=0) - values
    return sums - sums[first], np.arange(len(group)) - first


def cell_means(cell: Integers, fold: Integers, values: Floats) -> Floats:
    """(n, k): means of the other half's values in each row's cell, with one observation of the overall mean."""
    predicted, cells = np.empty_like(values), int(cell.max()) + 1
    for number in range(2):
        others, mine = fold != number, fold == number
        times = np.bincount(cell[others], minlength=cells) + 1.0
        for column in range(values.shape[1]):
            sums = group_sums(cell[others], values[others, column], cells) + values[others, column].mean()
            predicted[mine, column] = (sums / times)[cell[mine]]
    return predicted
