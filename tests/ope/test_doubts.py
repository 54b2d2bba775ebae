"""What makes an estimate doubtful: its features, its remarks, its distance from another solution; by hand."""

from types import SimpleNamespace

import numpy as np
import pytest
import torch

import ope_vpm as ov
from ope_vpm.baselines.d3rlpy_fqe import D3rlpyFQE
from ope_vpm.baselines.fqe import FQE
from ope_vpm.baselines.model import ModelBased
from ope_vpm.envs.linear_gaussian import BEHAVIOUR, TARGET, LinearGaussian
from ope_vpm.ope import Problem
from ope_vpm.ope.inference.doubts import COEFFICIENTS, UNSEEN
from ope_vpm.ope.inference.uncertainty import Bootstrap, Likelihood
from ope_vpm.ope.linear.doubts import RowDoubt
from ope_vpm.ope.linear.estimate import Missed
from ope_vpm.ope.linear.past import History, PastSteps, earlier_actions, joint_actions, regressors, residual_correlation
from ope_vpm.ope.q.linear import find_lstd, lstd_equations
from ope_vpm.ope.q.networks import inputs, train
from ope_vpm.ope.q.training import Ensemble
from ope_vpm.policy import GaussianPolicy

QUIET = ("constant-columns", "flags-confused", "duplicated-episodes", "one-row-off")


def path(value, chosen=0):
    return SimpleNamespace(values=np.array([value, value + 100]), chosen=chosen)


def test_what_is_suspected_of_residuals_by_hand():
    """B·√((|ρ| - 0.2)² + h) with B = 9, ρ = -0.6 and h = 0.09; √(5² - 1.4²) of what is missed."""
    doubt = RowDoubt(bound=9.0, history=History(-0.6, 0.09, 0.04), missed=Missed(5.0, 1.4))
    assert {each.code: each.bias for each in doubt.doubts} == pytest.approx({"past": 4.5, "missed": 4.8})
    assert History(0.0, 0.04, 0.16).bias(10.0) == pytest.approx(4)  # the largest share
    assert History(0.0, 0.04, 0.16, 0.25).bias(10.0) == pytest.approx(5)
    assert History(0.2, 0.0).share == 0
    assert History(0.5, 0.0, noise=0.16).share == pytest.approx(0.1**2)  # 39 pairs: 0.4 may be noise


def test_residuals_are_compared_with_those_of_the_next_step_of_the_episode():
    """Of 3, 1 | -1, -3 | 2, -2 three products are those of successive steps; the squares' mean is 28/6."""
    together = np.array([True, False, True, False, True])
    residual = np.array([3.0, 1, -1, -3, 2, -2])
    products = np.array([3 * 1, -1 * -3, 2 * -2])
    assert residual_correlation(together, residual, 1.0) == pytest.approx(products.mean() / (28 / 6))
    assert residual_correlation(together, residual * 1e-12, 1.0) == 0  # rounding errors
    assert residual_correlation(np.array([False]), residual[:2], 1.0) == 0  # no step follows another


def test_regressors_of_the_past_by_hand():
    """[1, z, z², u⊗(1, z)] and a'⊗(1, z), z within five deviations; without products where there are too many."""
    z, now, last = np.array([[2.0], [-9.0]]), np.array([[3.0, 1.0], [0.5, 1.0]]), np.array([[10.0], [1.0]])
    present, before = regressors(z, now, last)
    np.testing.assert_array_equal(present, [[1, 2, 4, 3, 6, 1, 2], [1, -5, 25, 0.5, -2.5, 1, -5]])
    np.testing.assert_array_equal(before, [[10, 20], [1, -5]])
    many = np.ones((2, 198))
    present, before = regressors(z, many, last)
    assert (present.shape, before.shape) == ((2, 3 + 2 * 198), (2, 2))  # 199·2 = 398 columns
    present, before = regressors(z, np.ones((2, 200)), last)
    assert (present.shape, before.shape) == ((2, 3 + 200), (2, 1))


def test_the_share_that_the_action_before_foretells():
    """δ = 2a' + noise of variance 4, a' of variance 1: half of it; nothing where a' is not in it, or all is rounded."""
    rng = np.random.default_rng(0)
    episode = np.repeat(np.arange(200), 20)
    before, nothing = rng.standard_normal((4000, 1)), np.zeros((4000, 1))
    noise = 2 * rng.standard_normal(4000)

    def foretold(residual, rows=slice(None)):
        place = np.arange(4000)[rows]
        still, number = nothing[rows], episode[rows]
        steps = PastSteps.of(place, [*regressors(still, still, before[rows]), still, still], number, number % 2)
        alone, jointly, earlier = steps.predicted(residual, 1.0)
        assert jointly == earlier == 0
        return alone

    assert foretold(2 * before[:, 0] + noise) == pytest.approx(0.5, abs=4 * np.sqrt(2 / 4000))
    assert foretold(noise) == 0
    assert foretold(1e-13 * before[:, 0]) == 0
    mixed = np.where(episode % 4 < 2, 2.0, -2.0) * before[:, 0]  # in eight episodes, half of them gain nothing
    assert foretold(mixed, slice(0, 160)) == 0
    assert foretold(2 * before[:, 0], slice(0, 20)) == 0  # one half has no episode


def test_halves_are_predicted_by_each_other():
    """Of δ = a'·(1 + 2z), fitted exactly by both halves, nothing is left; the present alone leaves all of it."""
    rng = np.random.default_rng(1)
    episode = np.repeat(np.arange(40), 30)
    z, now, last = (rng.standard_normal((1200, 1)) for _ in range(3))
    residual = np.append(99.0, last[:, 0] * (1 + 2 * z[:, 0]))  # the first row is not among the steps
    nothing = [np.zeros((1200, 1))] * 2
    steps = PastSteps.of(np.arange(1, 1201), [*regressors(z, now, last), *nothing], episode, episode % 2)
    assert steps.predicted(residual, 1.0) == [pytest.approx(1, abs=1e-6), 0, 0]
    assert steps.predicted(residual, 1.0) == steps.predicted(residual, 1.0)  # by what was remembered


def test_functions_of_two_successive_actions_by_hand():
    """1[a = j]·1[a' = k] in the order (0, 0), (0, 1), ...; a_j·a'_k and a'_k²; of many actions what is as before."""
    found = joint_actions(np.array([0, 1, 1]), np.array([1, 0, 1]), 2)
    np.testing.assert_array_equal(found, [[0, 1, 0, 0], [0, 0, 1, 0], [0, 0, 0, 1]])
    np.testing.assert_array_equal(joint_actions(np.array([0, 9]), np.array([8, 9]), 10), [[0], [1]])
    found = joint_actions(np.array([[2.0, 3.0]]), np.array([[5.0, -7.0]]), None)
    np.testing.assert_array_equal(found, [[10, -14, 15, -21, 25, 49]])
    assert joint_actions(np.ones((4, 8)), np.ones((4, 8)), None).shape == (4, 72)
    found = joint_actions(np.full((1, 9), 2.0), np.full((1, 9), 3.0), None)
    np.testing.assert_array_equal(found, [[6.0] * 9 + [9.0] * 9])


def test_the_share_that_both_actions_foretell_together():
    """δ = ±1 where two fair actions are equal or not, and noise of variance 3: a quarter of it, and neither alone."""
    rng = np.random.default_rng(0)
    episode, nothing = np.repeat(np.arange(200), 20), np.zeros((4000, 1))
    now, last = rng.integers(2, size=(2, 4000))
    noise = np.sqrt(3) * rng.standard_normal(4000)

    def foretold(residual, joint):
        parts = [*regressors(nothing, now[:, None], last[:, None]), joint, nothing]
        steps = PastSteps.of(np.arange(4000), parts, episode, episode % 2)
        alone, jointly, earlier = steps.predicted(residual, 1.0)
        assert alone == earlier == 0
        return jointly

    paid = np.where(now == last, 1.0, -1.0) + noise
    both = joint_actions(now, last, 2)
    assert foretold(paid, both) == pytest.approx(0.25, abs=4 * 0.25 * np.sqrt(4 / 4000 * 3))
    assert foretold(paid, nothing) == 0
    assert foretold(noise, both) == 0


def test_earlier_actions_by_hand():
    """Two steps before counts 1, three 0.7; a row that does not follow the one before it begins again."""
    actions = np.array([[1.0], [10.0], [100.0], [1000.0], [5.0], [7.0], [9.0]])
    together = np.array([True, True, True, False, True, True])
    found = earlier_actions(actions, together)
    np.testing.assert_allclose(found[:, 0], [0, 0, 1, 10 + 0.7, 0, 0, 5])


def shown_later(seed, lag, discrete, finite, episodes=100, steps=12):
    """An advertisement that nobody sees before some steps have gone by; what pays is what was shown then."""
    rng = np.random.default_rng(seed)
    shown = rng.random((episodes, steps)) < 0.3 if discrete else rng.standard_normal((episodes, steps))
    seen = np.concatenate([np.zeros((episodes, lag)), shown[:, : steps - lag]], axis=1)
    rewards = seen + 0.3 * rng.standard_normal((episodes, steps))
    states = rng.integers(3, size=(episodes, steps)) if finite else rng.standard_normal((episodes, steps))
    last = np.tile(np.arange(steps) == steps - 1, episodes)
    taken = shown.astype(int).reshape(-1) if discrete else shown.reshape(-1, 1)
    return ov.LoggedDataset.from_arrays(states.reshape(-1), taken, rewards.reshape(-1), terminated=last)


@pytest.mark.parametrize(("lag", "noticed"), [(0, False), (2, True), (3, True)])
@pytest.mark.parametrize("discrete", [True, False])
def test_actions_that_work_later_are_noticed_on_continuous_states(discrete, lag, noticed):
    policy = ov.as_policy(lambda seen: np.ones(len(seen), dtype=int), n_actions=2)
    if not discrete:
        policy = GaussianPolicy(lambda seen: (np.ones((len(seen), 1)), np.full((len(seen), 1), 0.5)))
    for seed in range(3):
        found = ov.evaluate(shown_later(seed, lag, discrete, finite=False), policy, "vpm", gamma=0.9, n_features=40)
        assert any("what went before" in reason for reason in found.reasons) == noticed
        assert found.verdict != "reliable" or not noticed


@pytest.mark.parametrize(("lag", "noticed"), [(0, False), (1, True), (2, True)])
def test_actions_that_work_later_are_noticed_on_finite_states(lag, noticed):
    for seed in range(3):
        found = ov.evaluate(shown_later(seed, lag, discrete=True, finite=True), [[0.0, 1.0]] * 3, gamma=0.9)
        assert any("what went before" in reason for reason in found.reasons) == noticed
        assert found.verdict != "reliable" or not noticed


class Habit:
    """A wandering state, pushed a little by one of two actions or by a number; doing as before pays."""

    def __init__(self, price):
        self.price = price
        """What a change of the action costs."""

    def log(self, seed, discrete, episodes=50, steps=40):
        rng = np.random.default_rng(seed)
        shape = (episodes, steps)
        action = rng.integers(2, size=shape) if discrete else rng.standard_normal(shape)
        change = np.abs(np.diff(action, axis=1, prepend=action[:, :1])).astype(float)
        state = np.zeros((episodes, steps + 1))
        state[:, 0] = rng.standard_normal(episodes)
        for t in range(steps):
            state[:, t + 1] = 0.8 * state[:, t] + 0.1 * action[:, t] + 0.5 * rng.standard_normal(episodes)
        reward = (state[:, :-1] - self.price * change).reshape(-1)
        last = np.tile(np.arange(steps) == steps - 1, episodes)
        here, there = state[:, :-1].reshape(-1, 1), state[:, 1:].reshape(-1, 1)
        taken = action.reshape(-1) if discrete else action.reshape(-1, 1)
        return ov.LoggedDataset.from_arrays(here, taken, reward, there, truncated=last)


@pytest.mark.parametrize("discrete", [True, False])
def test_a_price_on_changing_the_action_is_noticed_on_continuous_states(discrete):
    """The target's coin of 0.9 changes in 0.18 of the steps; two N(0, σ²) have the distance 2σ/√π on average.

    In five logs; in one of them it may hide in noise.
    """
    if discrete:
        policy = ov.as_policy(lambda seen: np.tile([0.1, 0.9], (len(seen), 1)), n_actions=2)
    else:
        policy = GaussianPolicy(lambda seen: (np.zeros((len(seen), 1)), np.full((len(seen), 1), 0.5)))
    truth = 0.1 * 0.9 / 0.2 - 0.18 if discrete else -0.5 * 2 / np.sqrt(np.pi)
    noticed = held = 0
    for seed in range(5):
        logs = (Habit(price).log(seed, discrete) for price in (0.0, 1.0))
        free, priced = (ov.evaluate(log, policy, "auto", gamma=1.0) for log in logs)
        assert not any("what went before" in reason for reason in free.reasons)
        if any("what went before" in reason for reason in priced.reasons):
            noticed += 1
            assert priced.verdict != "reliable"
            held += priced.interval[0] <= truth <= priced.interval[1]
    assert noticed >= 4
    assert held >= noticed - 1


class Spring:
    """A mass on a spring, p' = p + 0.3·v' with v' = 0.95·v - 0.1·p + 0.3·a + noise; the target pulls it back."""

    def log(self, seed, episodes=40, steps=50, sees_speed=False, late=False):
        rng = np.random.default_rng(seed)
        p, v = rng.standard_normal((2, episodes))
        seen, done = [np.stack([p, v], axis=1)], []
        for _ in range(steps):
            done.append(-0.3 * p + 0.4 * rng.standard_normal(episodes))
            v = 0.95 * v - 0.1 * p + 0.3 * done[-1] + 0.1 * rng.standard_normal(episodes)
            p = p + 0.3 * v
            seen.append(np.stack([p, v], axis=1))
        states = np.stack([seen[0], *seen[:-1]] if late else seen, axis=1)[
            ..., : 1 + sees_speed
        ]  # (episodes, steps + 1, d)
        now, after = (part.reshape(-1, states.shape[2]) for part in (states[:, :-1], states[:, 1:]))
        last = np.tile(np.arange(1, steps + 1) == steps, episodes)
        return ov.LoggedDataset.from_arrays(
            now, np.stack(done, axis=1).reshape(-1, 1), -(now[:, 0] ** 2), after, truncated=last
        )


@pytest.mark.parametrize("seed", range(3))
def test_a_speed_that_is_not_observed_is_noticed(seed):
    """Residuals of successive steps are uncorrelated where the state is complete, and not where the speed is hidden."""
    policy = GaussianPolicy(lambda seen: (-0.3 * seen[:, :1], np.full((len(seen), 1), 0.2)))
    hidden = ov.evaluate(Spring().log(seed), policy, "vpm", gamma=0.99, n_features=50)
    seen = ov.evaluate(Spring().log(seed, sees_speed=True), policy, "vpm", gamma=0.99, n_features=50)
    assert hidden.diagnostics["residual_correlation"] > 0.5
    assert hidden.verdict != "reliable"
    assert any("what went before" in reason for reason in hidden.reasons)
    assert any("previous observation" in advice for advice in hidden.advice)
    assert abs(seen.diagnostics["residual_correlation"]) < 0.2
    assert not any("what went before" in reason for reason in seen.reasons)


@pytest.mark.parametrize("seed", range(3))
def test_observations_that_come_a_step_late_are_noticed(seed):
    """What was done last has not shown yet: residuals do not go together, but the action before foretells them."""
    policy = GaussianPolicy(lambda seen: (0.2 - 0.3 * seen[:, :1], np.full((len(seen), 1), 0.3)))
    in_time, late = (
        ov.evaluate(Spring().log(seed, sees_speed=True, late=late), policy, "vpm", gamma=0.9, n_features=50)
        for late in (False, True)
    )
    assert in_time.diagnostics["predicted_by_action"] == 0
    assert late.diagnostics["predicted_by_action"] > 0.1
    assert late.verdict != "reliable"
    assert any("what went before" in reason for reason in late.reasons)
    assert not any("what went before" in reason for reason in in_time.reasons)


def test_a_linear_estimate_is_as_doubtful_as_its_features():
    data = LinearGaussian().dataset(12, 20, BEHAVIOUR, seed=0)
    problem = Problem.pose(data, TARGET.policy(), gamma=0.9, ignore=QUIET)
    found = ov.evaluate(data, TARGET.policy(), "fqe", solver="linear", n_features=20, gamma=0.9, ignore=QUIET)
    plain = find_lstd(problem, 20, None, 8)
    bound = found.diagnostics["ratio_error_bound"]
    tau = plain.weights[lstd_equations(problem, 20, 8).pairs.rows]
    usual = np.quantile(np.abs(plain.residual - np.median(plain.residual)), 0.68)
    assert bound == pytest.approx(tau.std() / tau.mean() * usual)
    assert abs(found.diagnostics["residual_correlation"]) < 0.2
    assert found.diagnostics["predicted_by_action"] == 0
    missed = max(found.diagnostics["missed"] ** 2 - found.diagnostics["missed_error"] ** 2, 0) ** 0.5
    assert found.diagnostics["suspected_bias"] == pytest.approx(
        np.hypot(plain.suspected_bias, COEFFICIENTS["missed"] * missed)
    )


@pytest.mark.parametrize(
    ("name", "gamma", "said"), [("dualdice", 0.8, False), ("dualdice", 1.0, True), ("gendice", 1.0, False)]
)
def test_dualdice_says_that_it_is_for_discounted_values(name, gamma, said):
    data = LinearGaussian().dataset(12, 10, BEHAVIOUR, seed=0)
    found = ov.evaluate(data, TARGET.policy(), name, gamma=gamma, n_features=10, ignore=QUIET)
    assert any("is for γ < 1" in reason for reason in found.reasons) is said
    if name == "dualdice" and gamma < 1:  # nothing asks for a mean of 1, so that it shows how good the ratio is
        assert found.diagnostics["mean_ratio"] != pytest.approx(1, abs=1e-9)


def two_states():
    states, actions = np.array([0, 0, 1, 1, 1, 0, 1, 1]), np.array([0, 1, 0, 1, 1, 1, 0, 1])
    following = np.where(actions == 1, 1 - states, states)
    last = np.arange(8) % 4 == 3
    return ov.LoggedDataset.from_arrays(states, actions, 1.0 + states, following, truncated=last)


@pytest.mark.parametrize("method", ["rollout", "simulate"])
def test_a_rolled_out_model_suspects_its_distance_from_the_exact_one(method):
    problem = Problem.pose(two_states(), [[0.8, 0.2], [0.4, 0.6]], ignore=QUIET)
    exact = ModelBased().find(problem)
    found = ModelBased(method=method, horizon=3).find(problem)
    assert abs(found.value - exact.value) > 0.01
    apart = COEFFICIENTS["disagreement"] * abs(found.value - exact.value)
    assert found.suspected_bias == pytest.approx(max(exact.suspected_bias, np.hypot(apart, exact.suspected_bias)))
    assert found.diagnostics["exact_value"] == exact.value


@pytest.mark.parametrize(("episodes", "kind"), [(2, Likelihood), (1, Bootstrap)])
def test_two_episodes_are_enough_for_a_likelihood(episodes, kind):
    data = two_states().select(np.arange(episodes))
    problem = Problem.pose(data, [[0.8, 0.2], [0.4, 0.6]], gamma=0.5, ignore=QUIET)
    found = FQE(interval="likelihood").find(problem)
    assert type(found.uncertainty.of) is kind
    if (
        kind is Likelihood
    ):  # state 0 with action 0 occurs in one of the two, which an extreme tilt leaves next to nothing
        low, high = found.uncertainty.of.ends
        assert 1 <= low < found.value < high <= 2


def test_the_error_of_d3rlpy_s_value_is_that_of_a_mean_over_initial_states(monkeypatch):
    """Values 2, 4 and 9 of three episodes at γ = ¾, times ¼: influences (v - 5)/12."""
    monkeypatch.setattr(D3rlpyFQE, "_initial_values", lambda *_: np.array([2.0, 4.0, 9.0]))
    data = ov.LoggedDataset.from_arrays([0, 1, 2], [0] * 3, [0.0, 1, 2], [0, 1, 2], truncated=[1, 1, 1])
    found = D3rlpyFQE().find(Problem.pose(data, [[1.0]] * 3, gamma=0.75, ignore=QUIET))
    assert found.value == pytest.approx(1.25)
    np.testing.assert_allclose(np.sort(found.sums.influence), np.array([-3, -1, 4]) / 12)


def test_networks_learn_what_the_action_adds():
    """γ = 0 and r = 2a: Q = 2a, so that the coefficient of the centred action is 2 deviations."""
    rng = np.random.default_rng(0)
    states, actions = rng.standard_normal((301, 1)), rng.standard_normal((300, 1))
    data = ov.LoggedDataset.from_arrays(
        states[:-1], actions, 2 * actions[:, 0], states[1:], truncated=np.arange(300) % 10 == 9
    )
    problem = Problem.pose(data, GaussianPolicy(lambda s: (0 * s, 1.0)), gamma=0.0, ignore=QUIET)
    seen = inputs(problem, 1)
    rewards = torch.from_numpy(problem.data.rewards[problem.steps.rows])[None].float()
    network = Ensemble(1, seen.here.shape[1], 1 + seen.centred.shape[1], 0)
    trained = train(network, seen, rewards, [np.arange(300)], np.ones(300), 150, 0.0, 0)
    with torch.no_grad():
        out = trained(seen.here[None])[0]
        q = out[:, 0] + (out[:, 1:] * seen.centred).sum(dim=1)
    assert np.corrcoef(q.numpy(), rewards[0].numpy())[0, 1] > 0.9
    slope = np.polyfit(problem.data.actions[problem.steps.rows][:, 0], q.numpy(), 1)[0]
    assert slope == pytest.approx(2, abs=0.7)


def test_pairs_never_logged_ask_for_caution_and_more():
    assert [UNSEEN.judge(share) for share in (0.29, 0.31, 0.96, 0.98)] == [0, 1, 1, 2]


def test_small_logs_raise_no_alarm_by_their_noise():
    """45 pairs of successive steps whose residuals have nothing to do with each other: ρ has an error of 0.15."""
    alarms = 0
    for seed in range(20):
        rng = np.random.default_rng(seed)
        states, last = rng.standard_normal((60, 2)), np.tile([False, False, False, True], 15)
        data = ov.LoggedDataset.from_arrays(states, rng.integers(2, size=60), rng.standard_normal(60), terminated=last)
        found = ov.evaluate(data, lambda seen: np.full((len(seen), 2), 0.5), "vpm", gamma=0.9)
        alarms += any("what went before" in reason for reason in found.reasons)
    assert alarms <= 2
