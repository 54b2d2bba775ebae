"""Parts of finite estimates on numbers that were worked out by hand."""

from dataclasses import replace
from types import SimpleNamespace

import numpy as np
import pytest
from scipy.stats import beta, t

import ope_vpm as ov
from ope_vpm.envs.random_mdp import RandomMDP
from ope_vpm.ope.finite import doubts as histories
from ope_vpm.ope.finite import episodes as clocked
from ope_vpm.ope.finite import fit as fits
from ope_vpm.ope.finite import likelihood, tally
from ope_vpm.ope.finite.behaviour import BehaviourModel, centred_log_probabilities, concentration
from ope_vpm.ope.finite.doubts import Pasts, history, limits_of_rewards, rare_rewards
from ope_vpm.ope.finite.episodes import Course, charged_problem, limited_steps, ongoing, total, unseen_weight
from ope_vpm.ope.finite.episodes import course_of as course_with_fit
from ope_vpm.ope.finite.estimate import counted_estimate, counted_solution
from ope_vpm.ope.finite.fit import Fit, fitted
from ope_vpm.ope.finite.influence import commonest_reward, leverage, widening_of
from ope_vpm.ope.finite.mixed import MixedModel, Variances, Weights, _relative
from ope_vpm.ope.finite.problem import finite_problem
from ope_vpm.ope.finite.tally import Tally
from ope_vpm.ope.finite.treatments import Pooled, Restrict
from ope_vpm.ope.problem import Problem

QUIET = ("constant-columns", "flags-confused", "duplicated-episodes", "one-row-off", "broken-chain")
MDP = RandomMDP.draw(12, 4, seed=3)


def pose(states, actions, rewards, following, target, gamma=1.0, **choices):
    """Episodes of one step each, which are cut."""
    cut = np.ones(len(states), dtype=bool)
    data = ov.LoggedDataset.from_arrays(states, actions, np.array(rewards, float), following, truncated=cut)
    return Problem.pose(data, target, gamma=gamma, ignore=QUIET, **choices)


def posed(gamma=1.0):
    return finite_problem(Problem.pose(MDP.dataset(6, 8, MDP.policy(1), 0), MDP.policy(2), gamma=gamma, ignore=QUIET))


# -- The behaviour


def test_the_bounds_of_how_alike_states_are():
    """States with one action each ask for κ = 0, counts without any noise for κ = ∞: e⁻³ and e¹² are taken."""
    equal = np.full((4, 4), 0.25)
    assert np.log(concentration(5 * np.eye(4), equal)) == pytest.approx(-3, abs=0.02)
    assert np.log(concentration(np.full((4, 4), 50.0), equal)) == pytest.approx(12, abs=0.02)


def test_an_action_never_taken_counts_as_one_step_among_all_actions():
    """Where each of four states has one action of its own, κ is the number of actions."""
    states = np.tile(np.arange(4), 5)
    finite = finite_problem(pose(states, states, np.arange(20.0), states, np.full((4, 4), 0.25)))
    assert BehaviourModel.of(finite).concentration == 4


def test_preferences_are_centred_in_each_state():
    log = np.log([0.5, 0.25, 0.25])
    np.testing.assert_allclose(centred_log_probabilities(np.array([[0.5, 0.25, 0.25]])), [log - log.mean()])


# -- Counts


@pytest.mark.parametrize(
    ("times", "distinct"), [([2.0, 4.0], [1, 2]), ([3.0, 4.0], [3, 4]), ([2.5, 5.0], [2.5, 5]), ([0.5, 2.0], [0.5, 2])]
)
def test_a_log_given_twice_is_counted_once(times, distinct):
    counts = posed().counts
    some = replace(counts, pair=np.arange(2), weight=np.array(times), state_of_pair=np.arange(2))
    np.testing.assert_array_equal(some.distinct_times, distinct)


def test_outcomes_by_hand():
    """One pair pays 1 and 3 and leads to V = 10 once, once to nothing: at γ = ½ the outcomes are 6 and 3."""
    counts = replace(
        posed().counts,
        pair=np.zeros(2, dtype=int),
        next_state=np.array([0, -1]),
        weight=np.ones(2),
        rewards=np.array([1.0, 3.0]),
        state_of_pair=np.zeros(1, dtype=int),
    )
    values = np.full(counts.states, 10.0)
    mean, apart = counts.outcomes(values, 0.5)
    assert (mean.tolist(), apart) == ([4.5], 4.5)
    assert replace(counts, spread=np.array([1.0, 0.25])).outcomes(values, 0.5)[1] == 5.75


def test_tallies_wait_until_twice_as_many_entries_are_there(monkeypatch):
    """Two codes and a spare of one: five entries wait, the sixth has all of them added up."""
    monkeypatch.setattr(tally, "SPARE", 1)

    def some(number):
        ones = np.ones(number)
        return Tally(np.arange(number) % 2, ones, ones, np.arange(number, dtype=float), 0 * ones, 2)

    assert len(some(2).merge(some(3)).code) == 5
    both = some(2).merge(some(4))
    np.testing.assert_array_equal(both.code, [0, 1])
    np.testing.assert_allclose(both.weight, [3, 3])
    np.testing.assert_allclose(both.reward, [2 / 3, 5 / 3])  # 0, 0, 2 and 1, 1, 3
    np.testing.assert_allclose(both.spread, [8 / 3, 8 / 3])


# -- Episodes that a clock ends


def test_how_much_is_followed(monkeypatch):
    """Steps times transitions and states: thirty millions at most."""
    transitions = SimpleNamespace(nnz=2_000_000, shape=(9, 1_000_000))
    counted = SimpleNamespace(counts=SimpleNamespace(transitions=transitions))
    monkeypatch.setattr(clocked, "ongoing", lambda problem: problem)
    monkeypatch.setattr(clocked, "finite_problem", lambda problem: counted)
    assert limited_steps(SimpleNamespace(limit=10)) == 10
    assert limited_steps(SimpleNamespace(limit=11)) is None


def course_of(states, gamma=1.0, **more):
    return Course(SimpleNamespace(gamma=gamma, **more), None, np.array(states, dtype=float))


def test_a_course_by_hand():
    """One episode begins in state 0, half of it is left after a step, in state 1, where half of the actions are new."""
    course = course_of([[1, 0], [0, 0.5]], unseen=np.array([0.0, 0.5]))
    assert course.length == 1.5
    np.testing.assert_array_equal(course.visits, [1, 0.5])
    assert course.unseen_share == pytest.approx(0.25 / 1.5)
    np.testing.assert_array_equal(unseen_weight(course, course.problem), [0, 0.25])
    np.testing.assert_array_equal(unseen_weight(course, SimpleNamespace(unseen=np.zeros(2))), [1, 0.5])
    values = np.array([[9.0, 9.0], [1.0, 2.0], [4.0, 8.0]])  # of the states before each step, and after the last
    np.testing.assert_allclose(course.after(values, np.array([3.0, 1.0])), [(3 + 4) / 4, (6 + 8) / 4])
    np.testing.assert_array_equal(course.after(values, np.zeros(2)), [1, 2])


def test_what_is_held_by_hand():
    """From state 0 half of each step moves on to state 1, at γ = ½: visits 1, ¼ and 1/16 of state 0 in three steps."""
    course = course_of(np.ones((3, 2)), 0.5, counts=SimpleNamespace(initial=np.array([1.0, 0.0])))
    chain = np.array([[0.5, 0.5], [0.0, 1.0]])
    np.testing.assert_allclose(course.held(SimpleNamespace(held=chain)), [1 + 1 / 4 + 1 / 16, 1 / 4 + 3 / 16])


def test_rewards_are_charged_their_mean_per_step():
    finite = posed()
    pairs = finite.counts.pairs
    course = SimpleNamespace(passes=np.full(pairs, 2.0), length=2.0 * pairs)
    charged = charged_problem(finite, course).counts.rewards
    np.testing.assert_allclose(charged, finite.counts.rewards - finite.counts.reward.mean())
    equal = replace(finite, counts=replace(finite.counts, rewards=np.full(len(finite.counts.rewards), 7.0)))
    assert set(charged_problem(equal, course).counts.rewards) == {1.0}


# -- Fits of unseen pairs


class Held(Fit):
    """A fit whose predictions of held-out pairs are 0.3 off on average."""

    def hidden_error(self, problem, time, after):
        return 0.3


def test_the_error_of_unseen_pairs_by_hand():
    """Two states with half of the time each, of which the target's unseen actions take 0.4 and 0.

    Single pairs: τ_u² = 4 times (½²·0.4² + 0.1² + 0.3²); through m₀ the seen pairs count 0.2·½ and 0.6·½; the fits of c
    are 2·0.5·3 apart; held-out pairs 0.3·0.2; all together 0.2·2·0.2; V is 3 and 1 around 2, beyond it 0.3·0.2·1.
    """
    problem = SimpleNamespace(q=lambda after, level: np.array([3.0, 0.0]), unseen=np.array([0.4, 0.0]))
    model = SimpleNamespace(problem=SimpleNamespace(missing=np.array([[0.4], [0.0]])), apart=np.array([[2.0, 9.0]]))
    mean = SimpleNamespace(substitute=np.array([[1.0], [0.0]]), represented_by=np.array([[0.2, 0.6]]))
    both = SimpleNamespace(
        substitute=np.array([[1.0, 1.0], [0.0, 0.0]]), represented_by=np.array([[0.2, 0.6], [0.0, 0.0]])
    )
    time, after, variances = np.array([0.5, 0.5]), np.array([3.0, 1.0]), Variances(1.0, 4.0, 1.0)
    single = 4 * (0.25 * 0.16 + 0.01 + 0.09)
    others = (0.3 * 0.2) ** 2 + (0.2 * 2 * 0.2) ** 2 + (0.3 * 0.2 * 1) ** 2
    plain = Held(model, mean, None, variances, None).error(problem, time, after)
    assert plain == pytest.approx(np.sqrt(single + others))
    sloped = Held(model, both, None, variances, None).error(problem, time, after)
    assert sloped == pytest.approx(np.sqrt(single + 3.0**2 + others))


def test_the_reach_of_unseen_pairs_is_that_of_seen_ones_by_hand():
    """One of ten pairs is 2 above its prediction, none below; a quarter of the time is unseen.

    The exact limit of 1 in 10 is a share of 0.445, so that the sum may be 4.45 times 0.2.
    """
    counts = SimpleNamespace(state_of_pair=np.arange(10), action_of_pair=np.zeros(10, dtype=int))
    problem = SimpleNamespace(q=lambda after, level: np.r_[2.0, np.zeros(9)], unseen=np.full(10, 0.25), counts=counts)
    model = SimpleNamespace(predicted=lambda y: np.zeros((10, 1)))
    below, above = Fit(model, None, None, None, None).reach(problem, np.full(10, 0.1), np.zeros(10))
    limit = beta.ppf(0.975, 2, 9)
    assert (below, above) == (0, pytest.approx(0.25 * 0.2 * (limit / 0.1 - 1)))


@pytest.mark.parametrize(("share", "kept"), [(0.29, 1.0), (0.6, 0.25)])
def test_slopes_of_a_target_that_is_mostly_unseen_keep_a_quarter(monkeypatch, share, kept):
    """Up to 0.3 of the time on unseen pairs slopes are taken as they are; at 0.6 they keep (0.3/0.6)²."""
    finite = posed(0.9)
    order = np.argsort(finite.unseen)
    low, high = order[0], order[-1]
    part = (share - finite.unseen[low]) / (finite.unseen[high] - finite.unseen[low])
    time = np.zeros(finite.counts.states)
    time[[low, high]] = 1 - part, part
    plain = []
    shrunk = MixedModel.shrunk
    monkeypatch.setattr(MixedModel, "shrunk", lambda self, y: plain.append(shrunk(self, y)) or plain[-1])
    found = fitted(finite, lambda completed: (np.zeros(finite.counts.states), time))
    assert found.model.share == pytest.approx(kept * plain[-1].share)


@pytest.mark.parametrize(("negative", "rounds"), [(0.09, 1), (0.11, 9)])
def test_slopes_are_damped_by_eighths_while_a_tenth_of_the_time_is_negative(negative, rounds):
    finite, asked = posed(0.9), []
    time = np.zeros(finite.counts.states)
    time[:2] = 1 - negative, -negative
    fitted(finite, lambda completed: asked.append(0) or (np.zeros(finite.counts.states), time))
    assert len(asked) == fits.ROUNDS * rounds


def test_variances_are_at_least_a_thousandth():
    """Two states whose pairs differ by noise alone, and whose means are equal: nothing is left for pairs and states."""
    states, actions = np.r_[np.tile([0, 0, 1, 1], 4), 0], np.r_[np.tile([0, 1], 8), 0]
    rewards = np.r_[np.where(np.arange(16) < 8, 1.0, -1.0), 0.025]
    rewards[:4] += [0.1, -0.1, 0.1, -0.1]  # pair means are ±0.025, far less than the noise
    counts = finite_problem(pose(states, actions, rewards, states, np.full((2, 2), 0.5))).counts
    found = Variances.of(counts, np.zeros(2), 0.0, np.zeros((counts.pairs, 1)))
    whole = np.var(counts.reward)
    assert (found.pair, found.state) == pytest.approx((1e-3 * whole, 1e-3 * whole))


def test_weights_by_hand():
    np.testing.assert_allclose(_relative(np.array([1.0, 4.0])), [0.25, 1])
    assert _relative(np.zeros(2)).tolist() == _relative(np.array([0.0, 0.5]))[[0, 0]].tolist()
    assert _relative(np.array([0.0, 1.0]))[0] == pytest.approx(1e-15, rel=1e-6)


def test_evidence_and_the_mean_of_two_fits_by_hand():
    """W = c'Σ⁻¹c with Σ by the squared residuals of pairs; fits are weighted by theirs, and W/(W + 4) is kept."""
    finite = posed()
    counts, rng = finite.counts, np.random.default_rng(0)
    equal = Weights(np.ones(counts.pairs), np.ones(counts.states))
    model = MixedModel.of(finite, BehaviourModel.of(finite), Variances(0.4, 1.3, 0.7), equal)
    y = rng.standard_normal(counts.pairs) + model.seen @ [0.5, -0.3]

    def evidence(one):
        c = one.slopes @ y
        rest = y - one.predicted(y)[counts.state_of_pair, counts.action_of_pair]
        return c @ np.linalg.pinv(one.slopes @ np.diag(rest**2) @ one.slopes.T) @ c

    both, alone = evidence(replace(model, weight=1.0)), evidence(replace(model, weight=0.0))
    found = model.shrunk(y)
    assert found.weight == pytest.approx(both / (both + alone))
    mean = evidence(replace(model, weight=found.weight))
    assert found.share == pytest.approx(mean / (mean + 4))
    spread = np.sqrt(
        found.weight * (model.both - found.slopes / found.share) ** 2
        + (1 - found.weight) * (model.alone - found.slopes / found.share) ** 2
    )
    np.testing.assert_allclose(np.abs(found.apart), found.share * spread, atol=1e-12)


def test_what_is_held_stays_and_nothing_is_lost():
    """Of what a state does that was never seen 0.02 go on as others do in a step, and 0.98 stay where they are."""
    fit = Pooled().fit(posed(0.9))
    moving, held = fit.model.completed(slopes=False, taken=0.02).chain, fit.held
    stays = held.kernel.toarray() - moving.kernel.toarray()
    np.testing.assert_allclose(stays, np.diag(0.98 * fit.model.problem.own_missing.sum(axis=1)), atol=1e-12)
    whole = held.kernel.toarray() + held.enter.toarray() @ held.leave.toarray()
    np.testing.assert_allclose(whole.sum(axis=1), 1)


def test_one_half_of_one_episode_predicts_nothing():
    data = MDP.dataset(1, 30, MDP.policy(1), 0)
    finite = finite_problem(Problem.pose(data, MDP.policy(2), gamma=0.9, ignore=QUIET))
    fit = Pooled().fit(finite)
    assert len(set(finite.counts.second)) == 1
    assert fit.hidden_error(finite, np.ones(finite.counts.states), np.zeros(finite.counts.states)) == 0


def test_two_replacements_of_unseen_pairs_are_apart_by_their_difference():
    """The doubt of one is how far the other's value lies from its own."""
    problem = Problem.pose(MDP.dataset(6, 8, MDP.policy(1), 0), MDP.policy(2), gamma=0.9, ignore=QUIET)
    one, other = (counted_solution(problem, name).value for name in ("restart", "good-turing"))
    doubts = {each.code: each for each in counted_estimate(problem, "restart").doubts}
    assert doubts["disagreement"].size == pytest.approx(abs(one - other))


def test_a_return_within_a_limit_reaches_below_and_above():
    """What unseen pairs do at worst and at best lies around what an episode pays."""
    data = MDP.dataset(6, 8, MDP.policy(1), 0)
    problem = Problem.pose(data, MDP.policy(2), time_limit="restart", ignore=QUIET)
    low, high = counted_estimate(problem).per_episode.uncertainty.of.limits
    finite = finite_problem(ongoing(problem))
    course, fit = course_with_fit(finite, 8)
    pays = total(finite, course, fit, course.values(finite.counts.reward[:, None])[..., 0])
    assert pays.reach[0] < 0 < pays.reach[1]
    assert (low, high) == pytest.approx((pays.value + pays.reach[0], pays.value + pays.reach[1]))


# -- Influences, limits, the past


def test_residuals_of_few_steps_are_stretched():
    """√(n/(n-1)) for two and three steps; a step that is alone, or half of one, has no residual."""
    np.testing.assert_allclose(leverage(np.array([0.5, 1.0, 2.0, 3.0])), [1, 1, np.sqrt(2), np.sqrt(1.5)])
    assert (widening_of(4.0, 1.0), widening_of(1.0, 0.0), widening_of(1.0, 1e-6)) == (2, 10, 10)


def test_rewards_are_rare_where_half_of_the_episodes_pay_one():
    def log(*rows):
        rewards = np.array(rows, dtype=float)
        zeros = np.zeros(rewards.size, dtype=int)
        cut = np.tile(np.arange(rewards.shape[1]) == rewards.shape[1] - 1, len(rows))
        return ov.LoggedDataset.from_arrays(zeros, zeros, rewards.ravel(), zeros, truncated=cut)

    half, quarter = log([0, 0], [0, 0], [0, 5], [0, -1]), log([0, 0], [0, 5], [0, 5], [5, 0])
    assert commonest_reward(half) == 0
    assert commonest_reward(quarter) is None
    rare = rare_rewards(half, np.full(8, 1 / 8))
    assert rare.episodes == pytest.approx((5 + 1) ** 2 / (25 + 1))
    none = np.zeros(4)
    assert limits_of_rewards(np.array([True, True, False, False]), none, none) is not None
    assert limits_of_rewards(np.array([True, True, True, False]), none, none) is None
    assert limits_of_rewards(np.zeros(4, dtype=bool), none, none) is None


def test_the_radius_of_the_ball_is_half_of_a_squared_quantile(monkeypatch):
    asked = []
    monkeypatch.setattr(
        likelihood, "extreme", lambda problem, treatment, radius, sign: asked.append((radius, sign)) or sign
    )
    problem = SimpleNamespace(data=SimpleNamespace(n_episodes=7))
    assert likelihood.likelihood_interval(problem, Restrict()) == (-1, 1)
    assert asked == [(pytest.approx(t.ppf(0.975, 6) ** 2 / 14), sign) for sign in (-1, 1)]


@pytest.mark.parametrize(("found", "share"), [(4.1, 0.41), (3.9, 0.0), (-5.0, 0.0)])
def test_the_past_counts_from_four_errors_on(monkeypatch, found, share):
    monkeypatch.setattr(histories, "products_by_past", lambda pair, before, moments: (found, 1.0, 10.0))
    none = Pasts(1, 1, np.zeros(1, dtype=int), np.zeros((5, 1)), ())
    assert none.predicted(np.zeros(1, dtype=int)) == pytest.approx(share)


def test_the_bias_of_the_past_by_hand(monkeypatch):
    """Action 0 pays 1 and 3 by turns, action 1 always 0, and π = (¾, ¼): τ is 3/2 and ½, its square 5/4 on average.

    Of the 19 steps with one before them 9 have residuals ±1; a share of 0.16 leaves √(5/4)·0.4·√(9/19).
    """
    monkeypatch.setattr(Pasts, "predicted", lambda self, kind: 0.16)
    actions = np.tile([0, 0, 1, 1], 5)
    rewards = np.tile([1.0, 3.0, 0.0, 0.0], 5)
    zeros = np.zeros(20, dtype=int)
    data = ov.LoggedDataset.from_arrays(zeros, actions, rewards, zeros, truncated=np.arange(20) == 19)
    problem = Problem.pose(data, [[0.75, 0.25]], ignore=QUIET)
    found = history(problem, Restrict().solved(finite_problem(problem)))
    assert (found.share, found.bias) == pytest.approx((0.16, np.sqrt(1.25) * 0.4 * np.sqrt(9 / 19)))
