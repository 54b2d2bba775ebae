"""The equations of following the target in a model, and what chooses among them, on numbers worked out by hand."""

from dataclasses import replace
from types import SimpleNamespace

import numpy as np
import pytest
from scipy.special import expit

import ope_vpm as ov
from ope_vpm.ope import Problem
from ope_vpm.ope.dynamics import estimate as following
from ope_vpm.ope.dynamics import state_shift as state_shifts
from ope_vpm.ope.dynamics.ahead import NO_CHARGE, Ahead, Charge
from ope_vpm.ope.dynamics.estimate import Followed, find_followed
from ope_vpm.ope.dynamics.regression import Regression
from ope_vpm.ope.dynamics.state_shift import Points, Surroundings, Walks, some_of, state_shift
from ope_vpm.ope.dynamics.world import _end_coefficients, _explained, fit_world, with_products
from ope_vpm.ope.inference.uncertainty import EpisodeSums
from ope_vpm.policy import CategoricalPolicy, GaussianPolicy

QUIET = ("flags-confused", "one-row-off", "constant-columns", "duplicated-episodes", "broken-chain")


def pose(episodes, length=4, gamma=0.5, terminated=False, **choices):
    """Episodes of random states; those that end do so with their last step."""
    rng = np.random.default_rng(0)
    states = rng.standard_normal((episodes * length + 1, 1))
    last = np.arange(episodes * length) % length == length - 1
    ended = last & np.repeat(np.broadcast_to(terminated, episodes), length)
    after = np.where(last[:, None], rng.standard_normal(states[1:].shape), states[1:])
    data = ov.LoggedDataset.from_arrays(states[:-1], states[:-1], states[:-1, 0], after, ended, last & ~ended)
    policy = GaussianPolicy(lambda s: (0 * s, 1.0), action_dimension=1)
    return Problem.pose(data, policy, gamma=gamma, ignore=QUIET, **choices)


# -- What speaks against a number of steps


def followed(value, error=0.0, missed=0.0, steps=3, **more):
    sums = EpisodeSums.of_influence(value, np.array([error, -error]) / np.sqrt(2))
    known = {"spread": 0.0, "beyond": 0.0, "at_stake": 0.0} | more
    return Followed(steps=steps, value=value, sums=sums, missed=missed, **known)


def test_the_bias_of_a_number_of_steps_is_a_root_of_squares():
    """Bias 1² + 2² + (0.1·20)² + (7 - 3)² = 25."""
    found = followed(7.0, 12.0, 1.0, spread=2.0, beyond=0.1, at_stake=20.0)
    assert found.bias(3.0) == pytest.approx(5)


def chosen(*found):
    return following._chosen(list(found), SimpleNamespace(explained=0.9999), ())


def test_the_most_steps_are_taken_whose_error_is_at_most_twice_the_least():
    """The errors are 1, 1.9 and 2.1 where all values agree."""
    three = followed(5.0, 1.0), followed(5.0, 1.9, steps=10), followed(5.0, 2.1, steps=30)
    found = chosen(*three)
    assert found.diagnostics == {"model_steps": 10, "model_explained": 0.9999, "model_missed": 0.0}
    assert chosen(three[0], three[1], replace(three[2], sums=three[1].sums)).diagnostics["model_steps"] == 30


def test_values_are_compared_with_those_of_fewer_steps_and_the_first_with_the_next():
    """Values 5, 5.5 and 9 without other errors: the first two are ½ apart, the third 3.5 from the second."""
    found = chosen(followed(5.0), followed(5.5, steps=10), followed(9.0, steps=30))
    assert found.value == 5.5
    assert found.doubts[-1].bias == pytest.approx(0.5)
    first = chosen(followed(5.0), followed(5.5, 3.0, steps=10), followed(9.0, steps=30))
    assert first.value == 5
    assert first.doubts[-1].bias == pytest.approx(0.5)


def test_where_nothing_is_known_about_any_error_nothing_is_chosen():
    infinite = followed(5.0, missed=float("inf"))
    assert chosen(infinite, infinite, infinite) is None
    known = chosen(infinite, followed(5.0, 1.0, steps=10), infinite)
    assert known.diagnostics["model_steps"] == 10


# -- The equations


def ahead(features, reward, time, ended):
    return Ahead(np.array(features), np.array(reward), np.array(time), np.array(ended), np.zeros(len(reward)))


PHI = np.array([[1.0, 2.0], [1.0, 4.0], [1.0, 0.0]])
INITIAL = np.array([[1.0, 10.0], [1.0, 20.0]])
EPISODE = np.array([0, 0, 1])


def equations(gamma, **choices):
    """Two steps ahead; the second row ends with probability ¼."""
    ended = np.array([0.0, 0.25, 0.0])
    there = (1 - ended)[:, None] * np.array([[1.0, 6.0], [1.0, 8.0], [1.0, 5.0]])
    problem = pose(2, gamma=gamma, terminated=True, **choices)
    found = ahead(there, [1.0, 2.0, 3.0], [2.0, 1.75, 2.0], ended)
    return problem, following._Equations.of(problem, EPISODE, PHI, 2, found, INITIAL)


def test_discounted_equations_by_hand():
    """Φ - γ²Φ₂ at γ = ½, and a source of ½·E₀[Φ]."""
    _, found = equations(0.5)
    np.testing.assert_allclose(found.change, [[0.75, 0.5], [1 - 0.25 * 0.75, 4 - 0.25 * 6], [0.75, -1.25]])
    np.testing.assert_allclose(found.source, [0.5, 7.5])
    assert found.steps == 2


def test_equations_of_averages_by_hand():
    """At γ = 1 a restart leads to E₀[Φ] = (1, 15), and the first column is the time that the steps take."""
    _, found = equations(1.0)
    np.testing.assert_allclose(found.change, [[2, 2 - 6], [1.75, 4 - 6 - 0.25 * 15], [2, 0 - 5]])
    np.testing.assert_allclose(found.source, [1, 0])


def test_the_system_of_the_equations():
    _, found = equations(0.5)
    np.testing.assert_allclose(found.system.matrix, PHI.T @ found.change / 3)
    np.testing.assert_allclose(found.system.reward, PHI.T @ [1, 2, 3] / 3)
    np.testing.assert_allclose(found.system.source, found.source)
    np.testing.assert_allclose(found.system.scale[1:], np.mean(PHI[:, 1] ** 2))


def test_residuals_and_what_they_move():
    """Without coefficients the residuals are the rewards 1, 2, 3; τ = φᵀβ with β = (0, 1) is 2, 4, 0."""
    _, found = equations(0.5)
    theta, beta = np.array([1.0, 2.0]), np.array([0.0, 1.0])
    np.testing.assert_allclose(found.residual(np.zeros(2)), [1, 2, 3])
    np.testing.assert_allclose(found.residual(theta), np.array([1, 2, 3]) - found.change @ theta)
    assert found.moved(np.zeros(2), beta) == pytest.approx((2 * 1 + 4 * 2) / 3)


@pytest.mark.parametrize(("gamma", "rate"), [(0.5, 0.5), (1.0, 4 * 0.25 / 3)])
def test_how_each_episode_moves_the_value(gamma, rate):
    """τ·residual is 2, 8 and 0 of three rows, less each episode's share of the mean; V = 3·φ₁ at initial states.

    They are entered with probability 1 - γ, or with the mean of τ times the probability of an end.
    """
    problem, found = equations(gamma)
    theta = np.array([0.0, 0.0])
    own = found.influence(problem, theta, np.array([0.0, 1.0]), INITIAL).influence
    np.testing.assert_allclose(own, np.array([10 / 3, 0]) - np.array([2, 1]) / 3 * 10 / 3)
    theta = np.array([0.0, 3.0])
    left = found.residual(theta) * [2, 4, 0] / 3
    by_episode = np.array([left[0] + left[1], left[2]])
    start = np.empty(2)
    start[problem.log.initial_episodes] = rate * (np.array([30.0, 60.0]) - 45) / 2
    moved = found.influence(problem, theta, np.array([0.0, 1.0]), INITIAL).influence
    np.testing.assert_allclose(moved, by_episode - np.array([2, 1]) / 3 * left.sum() + start)


def test_equations_of_several_models_together_and_with_other_rewards():
    _, one = equations(0.5)
    both = following._Equations.joined([one, replace(one, reward=one.reward + 1)])
    assert len(both.phi) == len(both.episode) == len(both.ended) == len(both.beyond) == len(both.change) == 6
    np.testing.assert_allclose(both.reward, [1, 2, 3, 2, 3, 4])
    charged = one.charged(Charge(4.0, 2.0))
    np.testing.assert_allclose(charged.reward, [2, 2 * (2 - 1), 6])


# -- How far the model misses


class Missing:
    """A simulator whose model lacks ½ of every reward; τ = φᵀβ is the number of the row."""

    def __init__(self, problem, ended=0.0):
        self.times, self.ended = problem.data.time, ended
        self.rows = len(problem.data)

    def features(self, observations, times):
        assert len(observations) == len(times)
        return np.column_stack([np.ones(len(times)), np.arange(len(times)) + 1.0])

    def of_log(self, rows, steps):
        n = len(rows)
        logged = ahead(np.ones((n, 2)), np.full(n, 3.0), np.full(n, 2.0), np.full(n, self.ended))
        return replace(logged, reward=logged.reward - 0.5), logged


@pytest.mark.parametrize(("gamma", "mean"), [(0.5, 1.0), (1.0, 0.5)])
def test_what_a_model_misses_is_weighed_as_the_value_weighs_it(gamma, mean):
    """Each gap is -½ and τ rises from 1 with the checked rows; at γ = 1 it is scaled to E[τ·time] = 1, time being 2."""
    problem = pose(20, length=6, gamma=gamma)
    rows = following._checked_rows.__wrapped__(problem.log, 2)
    assert len(rows) == 4 * 5  # of every fifth episode the rows with one after them
    args = problem, Missing(problem), 2, np.zeros(2), np.array([0.0, 1.0]), INITIAL
    tau = np.arange(20) + 1.0
    tau = tau if gamma < 1 else tau / np.mean(2 * tau)
    by_episode = np.bincount(problem.data.episode[rows], -0.5 * tau) / 20
    expected = np.hypot(0.5 * tau.mean(), np.sqrt(np.sum(by_episode**2)))
    assert tau.mean() == pytest.approx(10.5 if gamma < 1 else mean)
    assert following._missed(*args, NO_CHARGE) == pytest.approx(expected)
    assert following._missed(*args, Charge(0.0, 4.0)) == pytest.approx(4 * expected)


def test_too_few_rows_say_nothing_about_what_is_missed():
    problem = pose(10, length=5)  # two episodes are held out, ten rows: with two steps eight are left
    args = Missing(problem), np.zeros(2), np.array([0.0, 1.0]), INITIAL, NO_CHARGE
    simulator, theta, beta, initial, charge = args
    assert np.isfinite(following._missed(problem, simulator, 1, theta, beta, initial, charge))
    assert following._missed(problem, simulator, 2, theta, beta, initial, charge) == np.inf


def test_rows_that_are_checked_have_their_steps_or_an_end():
    cut, ended = pose(15, length=6), pose(15, length=6, terminated=True)
    place = cut.data.time
    assert (place[following._checked_rows.__wrapped__(cut.log, 3)] <= 3).all()
    assert len(following._checked_rows.__wrapped__(cut.log, 3)) == 3 * 4
    assert len(following._checked_rows.__wrapped__(cut.log, 6)) == 3
    assert len(following._checked_rows.__wrapped__(ended.log, 3)) == 3 * 6


def test_of_many_rows_a_part_is_checked(monkeypatch):
    """18 rows with three steps each are 54 states; of 30 that leaves one row in 54 // 30 = 1, of 20 one in two."""
    log = pose(15, length=6, terminated=True).log
    monkeypatch.setattr(following, "CHECKED", 30)
    assert len(following._checked_rows.__wrapped__(log, 3)) == 18
    monkeypatch.setattr(following, "CHECKED", 20)
    assert len(following._checked_rows.__wrapped__(log, 3)) == 9


# -- When the model is not asked


def test_walks_start_at_all_rows_or_at_a_thousand():
    rng = np.random.default_rng(0)
    small, large = pose(10, length=100), pose(11, length=100)
    assert np.array_equal(some_of(small.log.rows, 1000, rng), small.log.rows)
    chosen_rows = some_of(large.log.rows, 1000, rng)
    assert len(np.unique(chosen_rows)) == 1000


def asked(monkeypatch, problem, world=None):
    """What `find_followed` answers where the model would find 3 or 4 for every number of steps."""
    world = world or SimpleNamespace(explained=0.9996, ends_explained=0.71)
    monkeypatch.setattr(following, "world_of", lambda _: world)
    known = [followed(3.0, 1.0, per_episode=followed(4.0, 1.0)), followed(3.0, 1.0, per_episode=followed(4.0, 1.0))]
    monkeypatch.setattr(following, "_followed", lambda *_: known)
    return find_followed(problem, 10, 1)


def test_the_model_is_asked_only_where_enough_is_known(monkeypatch):
    assert asked(monkeypatch, pose(10)).value == 3
    assert asked(monkeypatch, pose(10)).per_episode.value == 4
    assert asked(monkeypatch, pose(9)) is None
    ten = [True] * 10 + [False] * 10
    assert asked(monkeypatch, pose(20, terminated=ten)).value == 3
    nine = [True] * 9 + [False] * 11
    assert asked(monkeypatch, pose(20, terminated=nine)) is None
    assert asked(monkeypatch, pose(20, gamma=0.5, on_end="restart")) is None
    assert asked(monkeypatch, pose(20, gamma=1.0)).value == 3


@pytest.mark.parametrize(
    ("explained", "ends", "good"), [(0.9996, 0.71, True), (0.9994, 0.9, False), (1.0, 0.69, False)]
)
def test_the_model_must_explain_nearly_all(monkeypatch, explained, ends, good):
    found = asked(monkeypatch, pose(10), SimpleNamespace(explained=explained, ends_explained=ends))
    assert (found is not None) is good


@pytest.mark.parametrize(("share", "left"), [(0.014, False), (0.016, True)])
def test_a_target_that_is_held_at_the_limits_too_often_is_not_followed(monkeypatch, share, left):
    """Of its states 1.5 % may be held, for every number of steps."""
    problem = pose(10)
    states = SimpleNamespace(initial=INITIAL, features=None)
    monkeypatch.setattr(following, "pair_features", lambda *_: SimpleNamespace(states=states))

    class Walks:
        times = problem.data.time

        def __init__(self, *_):
            pass

        def features(self, observations, times):
            return np.ones((len(times), 2))

        def of_target(self, rows, marks, rng):
            assert marks == (3, 10, 30)
            n = len(rows)
            one = ahead(np.ones((n, 2)), np.zeros(n), np.ones(n), np.zeros(n))
            return [one, replace(one, beyond=np.full(n, share)), one]

    monkeypatch.setattr(following, "Simulator", Walks)
    monkeypatch.setattr(following, "_solved", lambda problem, parts, *_: len(parts))
    found = following._followed(problem, SimpleNamespace(drawn=lambda rng: None), 4, 1)
    assert found == (None if left else [3, 3, 3])


def test_the_spread_over_models_is_a_standard_error(monkeypatch):
    """Two models move the value apart by 2d: the error of their mean is d. A charge is added to the value."""
    problem, one = equations(0.5)
    other = replace(one, reward=one.reward + 1)
    monkeypatch.setattr(following, "_missed", lambda *_: 0.25)
    whole = following._Equations.joined([one, other])
    charge = Charge(2.0, 5.0)
    theta, beta = whole.charged(charge).system.solve(0.1)
    moved = [part.charged(charge).moved(theta, beta) for part in (one, other)]
    found = following._at_ridge(problem, whole, [one, other], None, INITIAL, 0.1, charge)
    assert found.spread == pytest.approx(abs(moved[1] - moved[0]) / 2)
    assert found.value == pytest.approx(2 + whole.system.source @ theta)
    rewards = problem.data.rewards
    assert found.at_stake == pytest.approx(5 * (max(rewards.max(), 0) - min(rewards.min(), 0)))
    assert (found.missed, found.steps, found.beyond) == (0.25, 2, 0)


def test_equations_for_other_rewards_have_the_same_matrix():
    """Both before and after it was made; the rewards alone differ."""
    _, one = equations(0.5)
    early, other = one.paid(one.reward + 1), np.mean(one.phi, axis=0)
    system, late = one.system, one.paid(one.reward + 1)
    np.testing.assert_allclose(system.matrix, one.phi.T @ one.change / len(one.phi))
    for each in (early, late):
        np.testing.assert_allclose(each.system.matrix, system.matrix)
        np.testing.assert_allclose(each.system.reward, system.reward + other)
    assert late.matrices is one.matrices


def test_a_return_needs_every_number_of_steps(monkeypatch):
    monkeypatch.setattr(following, "world_of", lambda _: SimpleNamespace(explained=1.0, ends_explained=1.0))
    some = [followed(3.0, 1.0, per_episode=followed(4.0)), followed(3.0, 1.0)]
    monkeypatch.setattr(following, "_followed", lambda *_: some)
    assert find_followed(pose(10), 10, 1).per_episode is None
    monkeypatch.setattr(following, "_followed", lambda *_: None)
    assert find_followed(pose(10), 10, 1) is None


# -- The parts of a model


def test_shares_of_variance_by_hand():
    """Of 0, 2, 4, with variance 8/3, errors of 1, 0 and 1 leave ¾."""
    assert _explained(np.array([1.0, 2.0, 3.0]), np.array([0.0, 2.0, 4.0])) == pytest.approx(0.75)
    assert _explained(np.array([1.0, 2.0]), np.array([3.0, 3.0])) == 1


def test_a_ridge_regression_in_its_own_units():
    """One column that alternates with its regressor, in rows that are not held out as in those that are.

    x = ±1 and y = 5 + 3x: mean 5, deviation 3, coefficient 1/(1 + 10⁻⁹) for the least ridge, which predicts best.
    """
    x = np.tile([1.0, -1.0], 20)[:, None]
    found = Regression.fit(x, 5 + 3 * x, np.arange(40) >= 30)
    assert (found.mean[0], found.deviation[0]) == pytest.approx((5, 3))
    assert found.coefficients[0, 0] == pytest.approx(1 / (1 + 1e-9), abs=1e-14)
    np.testing.assert_allclose(found(np.array([[2.0]])), 11, rtol=1e-8)


def test_the_largest_ridge_is_a_tenth_of_the_mean_eigenvalue():
    """A slope of 0.1 in the fitted rows and of -0.1 in the others: the less of it, the better.

    x = ±2 has the square 4, so that 1/1.1 of the slope is left; its variance is what is left in the others, over 32
    rows and 4·1.1.
    """
    x = np.tile([2.0, -2.0], 20)[:, None]
    held = np.arange(40) % 20 < 4
    y = np.tile([1.0, 1.0, -1.0, -1.0], 10)[:, None] + np.where(held, -0.1, 0.1)[:, None] * x
    found = Regression.fit(x, y, held)
    deviation = float(y[~held].std())
    assert found.coefficients[0, 0] == pytest.approx(0.1 / 1.1 / deviation)
    left = np.mean(((y - found(x))[held] / deviation) ** 2)
    assert found.spread[0, 0] == pytest.approx(np.sqrt(left / (32 * 4 * 1.1)))
    assert found.explained[0] == pytest.approx(1 - left / np.mean((y[held] / deviation) ** 2))


def test_a_column_that_does_not_vary_is_explained():
    x = np.random.default_rng(0).standard_normal((40, 1))
    found = Regression.fit(x, np.full((40, 1), 7.0), np.arange(40) % 4 == 0)
    assert found.explained[0] == 1
    np.testing.assert_allclose(found(x), 7)
    assert Regression.fit(x, 7 + 1e-6 * x**2, np.arange(40) % 4 == 0).explained[0] < 0.9  # that is no rounding


def test_ends_meet_their_likelihood_equations():
    """Σ φ(p - y)/n + 2·penalty·w = 0, the penalty 10⁻⁶ of the rarer outcome's frequency, none on the constant."""
    rng = np.random.default_rng(0)
    after = rng.standard_normal((400, 1))
    ended = rng.random(400) < expit(2 * after[:, 0] - 1)
    w, x = _end_coefficients(after, ended), with_products(after)
    pull = x.T @ (expit(x @ w) - ended) / 400
    np.testing.assert_allclose(pull, 0, atol=2e-6)
    assert w[1] == pytest.approx(2, abs=0.6)


@pytest.mark.parametrize("rare", [0.1, 0.9])
def test_ends_that_can_be_told_apart_have_bounded_coefficients(rare):
    """Beyond a threshold every row ends: only the penalty keeps the coefficients from growing for ever."""
    after = np.linspace(-1, 1, 201)[:, None]
    ended = after[:, 0] > np.quantile(after, 1 - rare)
    w, x = _end_coefficients(after, ended), with_products(after)
    pull = x.T @ (expit(x @ w) - ended) / 201
    rate = min(ended.mean(), 1 - ended.mean())
    np.testing.assert_allclose(pull[1:], -2e-6 * rate * w[1:], atol=3e-7)
    assert abs(pull[0]) < 3e-7
    assert np.array_equal(expit(x @ w) > 0.5, ended)


def test_no_model_of_states_that_are_numbers_or_of_too_few_rows():
    policy = CategoricalPolicy(lambda s: np.full((len(s), 2), 0.5), 2)
    finite = ov.LoggedDataset.from_arrays(
        [0, 1] * 100, [0, 1] * 100, np.arange(200.0), truncated=np.arange(200) % 4 == 3
    )
    problem = Problem.pose(finite, [[0.5, 0.5]] * 2, ignore=QUIET)
    assert fit_world(problem.log, policy.clipping, 2, 0) is None
    held = [pose(episodes, length=20) for episodes in (4, 5)]  # 20 rows are held out of the second, none of the first
    worlds = [fit_world(each.log, each.policy.clipping, None, 0) for each in held]
    assert worlds[0] is None
    assert worlds[1] is not None


# -- Does the target leave the log?


class Line:
    """A world on a line that moves by the action; everything in its own units."""

    n_actions = None

    @staticmethod
    def states(observations):
        return np.asarray(observations, dtype=float)

    @staticmethod
    def to_actions(actions):
        return np.asarray(actions)

    @staticmethod
    def observations(z, like):
        return z

    @staticmethod
    def inside(z):
        return np.minimum(z, 100.0)

    @staticmethod
    def at_limits(z):
        return z[:, 0] >= 100

    @staticmethod
    def step(z, actions):
        return z + actions, np.zeros(len(z)), np.zeros(len(z))


NEAR_WALKS = Walks(np.full((1, 1), 0.25), np.ones((1, 1)), np.zeros((1, 1)))


def test_walks_by_hand(monkeypatch):
    """Four steps from 0 by 1 each: at 0, 1, 2 and 3, and the task ends where it did on arriving there."""
    data = ov.LoggedDataset.from_arrays(
        np.zeros((8, 1)), np.ones((8, 1)), np.arange(8.0), np.zeros((8, 1)), truncated=np.arange(8) % 4 == 3
    )
    log = Problem.pose(data, GaussianPolicy(lambda s: (0 * s, 1.0), action_dimension=1), ignore=QUIET).log
    near, pairs = np.array([[0.0], [1.0]]), np.column_stack([np.arange(4.0), np.ones(4)])
    monkeypatch.setattr(state_shifts, "FIFTHS", 1)

    def walked(missed, ended, gamma=1.0):
        held_out = arrivals = Points.of(pairs)
        found = arrivals, np.array(ended, dtype=bool), held_out, np.array(missed)[:, None], np.arange(4.0)
        around = Surroundings(Line(), Points.of(near), np.ones((2, 1)), *found)
        acting, rng = (lambda z, compared: np.ones((len(z), 1))), np.random.default_rng(0)
        return state_shifts._walks(log, around, acting, rng, 4, gamma)

    walks = walked([0.0] * 4, [0, 0, 0, 1])
    assert walks.distance.shape == (4, state_shifts.COPIES)
    np.testing.assert_allclose(walks.distance[:, 0], [0, 0, 1, 2])
    np.testing.assert_allclose(walks.alive[:, 0], [1, 1, 1, 0])
    np.testing.assert_allclose(walks.paid[:3, 0], [0, 1, 2])  # what the nearest row was paid and the model missed
    assert walks.beyond(0.5) == pytest.approx(1 / 3)
    assert len(walked([0.0] * 4, [0, 0, 1, 0]).alive) == 3  # nobody is left to be followed
    shifted = walked([0.75, 0.0, -0.5, 0.0], [0] * 4, 0.5)  # at 0, 1.75 (like 2), 2.25 (like 2) and 2.75
    np.testing.assert_allclose(shifted.distance[:, 0], [0, 0.75, 1.25, 1.75])
    np.testing.assert_allclose(shifted.alive[:, 0], [1, 0.5, 0.25, 0.125])
    far = walked([0.0, 0.0, 200.0, 0.0], [0] * 4)  # beyond the model's limits, wherever that is
    assert far.distance[3, 0] == np.inf
    assert far.quantile(0.99) == 1
    assert far.beyond(1e9) == pytest.approx(1 / 4)


def test_of_neighbours_that_arrive_alike_the_share_ends(monkeypatch):
    """Of the nearest arrivals of two parts one ended: half of each walk does."""
    monkeypatch.setattr(state_shifts, "FIFTHS", 2)
    arrivals, ended = Points.of(np.array([[1.0, 1.0], [1.5, 1.0], [9.0, 1.0]])), np.array([True, False, True])
    around = Surroundings(
        Line(), Points.of(np.zeros((1, 1))), np.ones((1, 1)), arrivals, ended, arrivals, np.zeros((3, 1)), np.zeros(3)
    )
    assert around.step(np.zeros((1, 1)), np.ones((1, 1)), np.random.default_rng(0))[2].tolist() == [0.5]


def test_rows_of_another_action_tell_of_a_step_where_no_row_has_its_own(monkeypatch):
    """Held out: action 0 from 0, which ended there, and action 1 from 50, which missed 7 and ended nothing."""
    monkeypatch.setattr(state_shifts, "FIFTHS", 1)
    world = SimpleNamespace(n_actions=3, step=lambda z, actions: (z, 0.0, 0.0), inside=lambda z: z)
    pairs = Points.of(state_shifts._pairs(world, np.array([[0.0], [50.0]]), np.array([0, 1])))
    ended, missed = np.array([True, False]), np.array([[0.0], [7.0]])
    states, unpaid = Points.of(np.zeros((1, 1))), np.array([1.0, 3.0])
    around = Surroundings(world, states, np.zeros(1), pairs, ended, pairs, missed, unpaid)
    after, paid, ending = around.step(np.zeros((3, 1)), np.array([0, 1, 2]), np.random.default_rng(0))
    assert after.ravel().tolist() == [0, 7, 0]  # of action 2 the nearest state tells
    assert paid.tolist() == [1, 3, 1]
    assert ending.tolist() == [1, 0, 1]


@pytest.mark.parametrize(
    ("gamma", "limit", "steps"), [(1.0, "continue", 300), (0.99, "continue", 299), (0.9, "restart", 4)]
)
def test_the_target_is_followed_as_long_as_the_question_asks(monkeypatch, gamma, limit, steps):
    """Until 5 % of the discounted weight is left, or to the time limit of the task."""
    asked = []
    monkeypatch.setattr(state_shifts, "fit_world", lambda *_: Line())
    monkeypatch.setattr(state_shifts, "_of_behaviour", lambda *_: (None, NEAR_WALKS, 0.5))
    monkeypatch.setattr(state_shifts, "_walks", lambda *given: asked.append(given[-2:]) or NEAR_WALKS)
    state_shift(pose(10).with_gamma(gamma, time_limit=limit))
    assert asked == [(steps, gamma)]


def test_what_the_model_misses_is_what_held_out_rows_say():
    """On rows that move by nothing, a world that moves by the action misses what was done."""
    log = pose(10).log
    around = Surroundings.of(log, Line(), np.random.default_rng(0))
    rows = log.rows[log.held_out[log.rows]]
    data = log.data
    expected = data.next_observations[rows] - data.observations[rows] - data.actions[rows]
    np.testing.assert_allclose(np.sort(around.missed, axis=0), np.sort(expected, axis=0))


def test_without_a_model_nothing_is_said(monkeypatch):
    monkeypatch.setattr(state_shifts, "fit_world", lambda *_: Line())
    assert state_shift(pose(10)) is not None
    monkeypatch.setattr(state_shifts, "fit_world", lambda *_: None)
    assert state_shift(pose(10)) is None


def test_the_walks_of_a_target_are_taken_once_for_a_discount(monkeypatch):
    taken = []
    monkeypatch.setattr(state_shifts, "fit_world", lambda *_: Line())
    monkeypatch.setattr(state_shifts, "_of_behaviour", lambda *_: (None, NEAR_WALKS, 0.5))
    monkeypatch.setattr(state_shifts, "_walks", lambda *_: taken.append(1) or SimpleNamespace(beyond=lambda _: 0.25))
    problem = pose(10)
    assert [state_shift(problem), state_shift(problem)] == [0.25, 0.25]
    assert len(taken) == 1
    assert state_shift(problem.with_policy(pose(10).policy)) == 0.25
    assert len(taken) == 2


def test_of_many_states_a_thousand_stand_for_all():
    rng = np.random.default_rng(0)
    few, many = (Surroundings.of(pose(each, length=100).log, Line(), rng) for each in (10, 11))
    assert len(few.states.coordinates) == len(many.states.coordinates) == len(many.actions) == 1000
    assert len(np.unique(many.states.coordinates)) == 1000
