"""From solutions of counts to estimates, and which treatment is chosen: by hand."""

from itertools import permutations
from types import SimpleNamespace

import numpy as np
import pytest

import ope_vpm as ov
from ope_vpm.envs.random_mdp import RandomMDP
from ope_vpm.ope import Problem
from ope_vpm.ope.finite.doubts import RareRewards, history, limits_of_rewards, products_by_past
from ope_vpm.ope.finite.estimate import _clock, reach, unseen_doubts, untried_share, without_data
from ope_vpm.ope.finite.influence import evidence_of_rows, ratio_of_pairs, widening
from ope_vpm.ope.finite.problem import finite_problem
from ope_vpm.ope.finite.treatments import Restrict, treatment
from ope_vpm.ope.inference.doubts import SUPPORT, UNSEEN
from ope_vpm.ope.inference.estimate import NO_DATA

QUIET = ("constant-columns", "flags-confused", "duplicated-episodes", "one-row-off", "broken-chain")


def pose(states, actions, rewards, following, target, length=1, ended=False, **choices):
    """Episodes of one length, which end or are cut."""
    last = np.arange(len(states)) % length == length - 1
    data = ov.LoggedDataset.from_arrays(
        states, actions, np.array(rewards, float), following, last & ended, last & (not ended)
    )
    return Problem.pose(data, target, ignore=QUIET, **choices)


# -- Weights, influences and intervals


def test_the_ratio_of_a_bandit():
    """Action 0 twice, action 1 six times; the target takes both equally often: ratios 2 and ⅔."""
    problem = pose([0] * 8, [0, 0, 1, 1, 1, 1, 1, 1], np.arange(8.0), [0] * 8, [[0.5, 0.5]])
    solution = Restrict().solved(finite_problem(problem))
    np.testing.assert_allclose(ratio_of_pairs(problem, solution), [2, 2 / 3])
    np.testing.assert_allclose(evidence_of_rows(problem, solution).weights, [2, 2] + [2 / 3] * 6)


def test_the_share_of_ends_that_a_time_limit_makes():
    """Action 0 ends the task in both of its rows, action 1 at the limit; π = (¼, ¾), so 6 of 8 ends are the limit's."""
    last = np.array([True, True, False, False, False, False])
    data = ov.LoggedDataset.from_arrays(
        [0] * 6, [0, 0, 1, 1, 1, 1], np.arange(6.0), [0] * 6, terminated=last, truncated=~last
    )
    problem = Problem.pose(data, [[0.25, 0.75]], ignore=QUIET, time_limit="restart")
    assert evidence_of_rows(problem, Restrict().solved(finite_problem(problem))).cut == pytest.approx(0.75)


def test_pairs_seen_once_are_spoken_for_by_the_others():
    """Masses ½ and ¼ with known residuals, ¼ without: Σ m² is 6/16 of which 5/16 is known; at most tenfold."""
    mass = np.array([0.5, 0.25, 0.25])
    assert widening(mass, np.array([True, True, False])) == pytest.approx(np.sqrt(6 / 5))
    assert widening(mass, np.array([False, False, False])) == 10
    assert widening(np.array([1.0, 0.01]), np.array([False, True])) == 10
    assert widening(mass, np.ones(3, dtype=bool)) == 1


def test_influences_of_a_bandit():
    """Action 0 pays 1 and 3, action 1 pays 5 once; π = (½, ½), single steps.

    τ is ¾ and 3/2 of three rows, so masses ¼, ¼, ½. Residuals ∓1 are too small by √2; those of the pair seen once are
    0, and known squares are 1/8 of 3/8. The value is 3.5, self-normalised.
    """
    problem = pose([0] * 3, [0, 0, 1], [1.0, 3.0, 5.0], [0] * 3, [[0.5, 0.5]])
    solution = Restrict().solved(finite_problem(problem))
    assert solution.value == pytest.approx(3.5)
    factor = np.sqrt(2) * np.sqrt(3)
    expected = np.array([-factor / 4, factor / 4, 0])
    np.testing.assert_allclose(evidence_of_rows(problem, solution).sums.influence, expected, atol=1e-12)


def test_a_time_limit_is_remarked_on_where_it_ends_a_tenth():
    """Two episodes of three steps, the first ends and the second is cut: its share of the target's ends decides."""
    data = ov.LoggedDataset.from_arrays(
        [0, 1, 2] * 2, [0] * 6, np.arange(6.0), [1, 2, 0] * 2, [0, 0, 1, 0, 0, 0], [0, 0, 0, 0, 0, 1]
    )
    problem = Problem.pose(data, [[1.0]] * 3, time_limit="restart", ignore=QUIET)
    assert _clock(problem, 0.09) == ()
    assert len(_clock(problem, 0.11)) == 1
    unlimited = Problem.pose(data, [[1.0]] * 3, ignore=QUIET)
    assert _clock(unlimited, 0.11) == ()


def test_what_an_interval_reaches_at_least():
    """Unseen pairs -1 and +2 around 5, rare rewards -3 and +1; a quarter of the steps may pay 1 to 9."""
    problem = pose([0, 1] * 6, [0] * 12, [1.0, 9.0] * 6, [1, 0] * 6, [[1.0, 0.0]] * 2)
    solution = SimpleNamespace(value=5.0, unseen_range=(-1.0, 2.0))
    assert reach(problem, solution, None, 0.0) == (4, 7)
    assert reach(problem, solution, RareRewards(4.0, 3.0, 1.0), 0.0) == (2, 7)
    assert reach(problem, solution, RareRewards(4.0, 0.5, 2.5), 0.0) == (4, 7.5)
    assert reach(problem, SimpleNamespace(value=5.0, unseen_range=(0.0, 0.0)), None, 0.25) == (4, 6)


def test_pairs_without_data_may_pay_anything_where_they_are_many():
    """Untried actions always may, here in 0.15 of the steps; others where nothing predicts them and they are many."""
    problem = pose([0, 1] * 6, [0] * 12, [1.0, 9.0] * 6, [1, 0] * 6, [[0.8, 0.2], [1.0, 0.0]])
    for mass, foreseen, expected in ((0.19, False, 0.15), (0.21, False, 0.21), (0.21, True, 0.15)):
        time = SimpleNamespace(distribution=np.array([0.75, 0.25]), unseen_mass=mass, beyond=0.1)
        assert without_data(problem, time, foreseen) == pytest.approx(expected)


def test_steps_with_actions_that_nobody_took_may_pay_anything():
    """Rewards are between 1 and 9, and a fifth of the target's steps are with an action that no state was left by."""
    table = [[0.8, 0.2], [1.0, 0.0]]
    problem = pose([0, 1] * 6, [0] * 12, [1.0, 9.0] * 6, [1, 0] * 6, table)
    time = SimpleNamespace(
        value=4.0, unseen_range=(0.0, 0.0), distribution=np.array([0.75, 0.25]), unseen_mass=0.7, error=0.5, beyond=0.0
    )
    assert untried_share(problem, time) == pytest.approx(0.15)
    assert reach(problem, time, None, 0.15) == pytest.approx((4 - 0.15 * 3, 4 + 0.15 * 5))
    untried, predicted = unseen_doubts(problem, time, True)
    assert (untried.code, untried.size, untried.bias) == ("support", pytest.approx(0.15), None)
    assert (predicted.code, predicted.size, predicted.bias) == ("unseen", 0.7, 0.5)
    assert unseen_doubts(problem, time, False) == (*SUPPORT.of(0.7, sentence=NO_DATA), *UNSEEN.of(0.0, bias=0.5))


@pytest.mark.parametrize(("share", "verdict"), [(0.04, "reliable"), (0.25, "caution"), (0.5, "unreliable")])
@pytest.mark.parametrize("estimator", ["auto", "vpm", "model", "mwl"])
def test_an_action_that_was_never_logged_is_no_matter_of_prediction(share, verdict, estimator):
    """Two actions that pay alike say nothing of a third one, in however many states both were taken."""
    rng = np.random.default_rng(0)
    states, actions = rng.integers(5, size=400), rng.integers(2, size=400)
    data = ov.LoggedDataset.from_arrays(states, actions, rng.random(400), truncated=np.arange(400) % 10 == 9)
    table = np.tile([0.5 - share / 2, 0.5 - share / 2, share], (5, 1))
    assert ov.evaluate(data, table, estimator).verdict == verdict


def rare_rewards(problem):
    """What the rows of a log say of its rare rewards, every ratio being 1."""
    return limits_of_rewards(*evidence_of_rows(problem, Restrict().solved(finite_problem(problem))).paid)


def test_rare_gains_and_losses_are_limited_apart():
    """Of 20 single steps one pays 5 more than the usual 1 and one 2 less, each with ratio 1: 5/20 and 2/20."""
    rewards = np.ones(20)
    rewards[3], rewards[7] = 6, -1
    found = rare_rewards(pose([0] * 20, [0] * 20, rewards, [0] * 20, [[1.0]]))
    assert found.episodes == pytest.approx(49 / 29)  # amounts 5 and 2
    low, high = 20 * 0.001265, 20 * 0.248733  # exact limits of one in twenty
    gain = 5 / 20 * (1 - low), 5 / 20 * (high - 1)
    loss = 2 / 20 * (1 - low), 2 / 20 * (high - 1)
    assert found.below == pytest.approx(max(gain[0], loss[1]), rel=1e-3)
    assert found.above == pytest.approx(max(gain[1], loss[0]), rel=1e-3)
    common = np.where(np.arange(20) < 11, 2.0, 1.0)
    assert rare_rewards(pose([0] * 20, [0] * 20, 3 - common, [0] * 20, [[1.0]])) is not None
    half = np.where(np.arange(20) < 10, 2.0, 1.0)
    assert rare_rewards(pose([0] * 20, [0] * 20, half, [0] * 20, [[1.0]])).episodes == pytest.approx(10)


def test_a_simulation_of_what_was_never_seen():
    """The target takes the unseen action: `smooth` pays the mean 3 of the seen pairs, wherever it goes."""
    problem = pose([0, 1] * 3, [0, 0] * 3, [1.0, 5.0] * 3, [1, 0] * 3, [[0.0, 1.0]] * 2, gamma=0.5)
    model = treatment("smooth").complete(finite_problem(problem))
    assert model.rollout(7, seed=0) == pytest.approx(3)
    half = pose([0, 1] * 3, [0, 0] * 3, [1.0, 5.0] * 3, [1, 0] * 3, [[1.0, 0.0]] * 2, gamma=0.5)
    model = treatment("smooth").complete(finite_problem(half))
    assert model.rollout(3, seed=0) in (pytest.approx((1 + 2.5 + 0.25) / 1.75), pytest.approx((5 + 0.5 + 1.25) / 1.75))


# -- Are the states states?


def products(residual, pair, before):
    """`products_by_past` of single residuals."""
    powers = np.asarray(residual, dtype=float) ** np.arange(5)[:, None]
    return products_by_past(np.asarray(pair), np.asarray(before), powers)


def test_products_of_residuals_with_the_same_past_by_hand():
    """Residuals 3, 1 after state 0 and -1, -3 after state 1: s² = 20/3, products 3·1 and -1·-3 twice each, and 4/4."""
    residual, before = np.array([3.0, 1, -1, -3]), np.array([0, 0, 1, 1])
    found, noise, number = products(10 + residual, np.zeros(4, dtype=int), before)
    assert number == 4
    assert found == pytest.approx((3 + 3 + 3 + 3) / (20 / 3) + 1)
    mean_product = (20**2 - (81 + 1 + 1 + 81)) / 12  # of e²e'² over two different residuals
    assert noise == pytest.approx(np.sqrt(2 * 4 * mean_product / (20 / 3) ** 2))


def test_products_are_zero_on_average_where_the_past_does_not_matter():
    """Over all orders of five residuals; a pair that never varies, and one with a single past, say nothing."""
    before = np.array([0, 0, 0, 1, 1])
    sums = [products(order, np.zeros(5, dtype=int), before)[0] for order in permutations([4.0, 1.0, 0.5, -2.0, 0.0])]
    assert np.std(sums) > 0.5
    assert np.mean(sums) == pytest.approx(0, abs=1e-12)
    alone = products([1.0, -1, 5, 5, 5], [0, 0, 1, 1, 1], [0, 0, 0, 1, 1])
    assert alone[:2] == pytest.approx((0, 0))


def test_the_past_of_rewards_of_any_unit():
    """Squares of 1e-160 are not held by floats; what the step before tells of an outcome has no unit."""
    data, found = spring(0, np.linspace(-1.5, 1.5, 8)), []
    for unit in (2.0**-532, 1.0):  # 7e-161
        scaled = ov.LoggedDataset.from_arrays(
            data.observations, data.actions, unit * data.rewards, data.next_observations, truncated=data.truncated
        )
        problem = Problem.pose(scaled, np.tile([0.6, 0.3, 0.1], (9, 1)), gamma=0.9)
        past = history(problem, treatment("smooth").solved(finite_problem(problem)))
        found.append((past.share, past.bias / unit))
    assert found[0] == pytest.approx(found[1], rel=1e-9)
    assert found[0][0] > 0


def spring(seed, bins, episodes=60, steps=60):
    """A mass on a spring that is pushed at random, its place in bins, its speed not observed."""
    rng = np.random.default_rng(seed)
    place, speed = rng.standard_normal((2, episodes))
    seen, done, paid = [np.digitize(place, bins)], [], []
    for _ in range(steps):
        done.append(rng.integers(3, size=episodes))
        paid.append(-(place**2))
        speed = 0.95 * speed - 0.1 * place + 0.2 * (done[-1] - 1) + 0.1 * rng.standard_normal(episodes)
        place = place + 0.3 * speed
        seen.append(np.digitize(place, bins))
    states = np.stack(seen, axis=1)
    last = np.tile(np.arange(1, steps + 1) == steps, episodes)
    return ov.LoggedDataset.from_arrays(
        states[:, :-1].reshape(-1), np.stack(done, axis=1).reshape(-1), np.stack(paid, axis=1).reshape(-1),
        states[:, 1:].reshape(-1), truncated=last,
    )  # fmt: skip


@pytest.mark.parametrize("seed", range(3))
def test_bins_of_a_continuous_state_are_no_states(seed):
    data = spring(seed, np.linspace(-1.5, 1.5, 8))
    table = np.tile([0.6, 0.3, 0.1], (9, 1))
    for gamma in (0.9, 1.0):
        found = ov.evaluate(data, table, "auto", gamma=gamma)
        assert found.verdict != "reliable"
        assert any("what went before" in reason for reason in found.reasons)
        assert any("finer bins" in advice for advice in found.advice)


@pytest.mark.parametrize("seed", range(10))
def test_states_of_a_decision_process_are_states(seed):
    mdp = RandomMDP.draw(8, 3, seed=seed)
    data = mdp.dataset(60, 40, mdp.policy(1), seed=seed)
    for gamma in (0.9, 1.0):
        found = ov.evaluate(data, mdp.policy(3), "auto", gamma=gamma)
        assert not any("what went before" in reason for reason in found.reasons)


@pytest.mark.parametrize("states", [1, 3])
@pytest.mark.parametrize("seed", range(3))
def test_rewards_for_doing_the_same_again_need_the_action_before(states, seed):
    """A uniform behaviour repeats an action half of the time; a target that takes one in 0.9 of the steps, in 0.82."""
    rng = np.random.default_rng(seed)
    state, action = rng.integers(states, size=2000), rng.integers(2, size=2000)
    again, last = np.append(rng.integers(2), action[:-1]) == action, np.arange(2000) % 20 == 19
    data = ov.LoggedDataset.from_arrays(state, action, again.astype(float), np.roll(state, -1), truncated=last)
    found = ov.evaluate(data, np.tile([0.1, 0.9], (states, 1)), "auto")
    assert found.verdict != "reliable"
    assert found.interval[0] <= 0.82 <= found.interval[1]
    assert any("what went before" in reason for reason in found.reasons)
