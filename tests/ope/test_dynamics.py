"""A model learned in closed form, and values by following the target in it, against exact solutions."""

import numpy as np
import pytest

import ope_vpm as ov
from ope_vpm.linear.features import BATCH_ROWS
from ope_vpm.ope import Problem
from ope_vpm.ope.adapter.pair_features import pair_features
from ope_vpm.ope.auto.estimator import Auto, _with_state_shift
from ope_vpm.ope.dynamics import state_shift as state_shifts
from ope_vpm.ope.dynamics.ahead import Charge, Simulator
from ope_vpm.ope.dynamics.estimate import find_followed
from ope_vpm.ope.dynamics.regression import RIDGES, Regression
from ope_vpm.ope.dynamics.state_shift import Points, Walks, state_shift
from ope_vpm.ope.dynamics.world import fit_world, with_products, world_of
from ope_vpm.ope.inference.doubts import SUPPORT
from ope_vpm.ope.inference.estimate import RawEstimate
from ope_vpm.policy import CategoricalPolicy, GaussianPolicy

TURN = 0.9 * np.array([[np.cos(0.5), -np.sin(0.5)], [np.sin(0.5), np.cos(0.5)]])
PUSH = np.array([0.0, 1.0])
TARGET_GAIN, BEHAVIOUR_GAIN, NOISE = np.array([-0.2, -0.4]), np.array([0.1, 0.0]), 0.3
GAMMA = 0.9


def controller(gain, noise=NOISE):
    return GaussianPolicy(lambda s: (s @ gain[:, None], np.full((len(s), 1), noise)), action_dimension=1)


def log_of(gain, episodes=40, length=30, seed=0, start=1.0):
    """s' = TURN s + PUSH a without noise, r = -|s|²; the actions are those of a linear controller with noise."""
    rng = np.random.default_rng(seed)
    state = start * rng.standard_normal((episodes, 2))
    rows = []
    for _ in range(length):
        action = state @ gain + NOISE * rng.standard_normal(episodes)
        after = state @ TURN.T + action[:, None] * PUSH
        rows.append((state, action[:, None], -np.sum(state**2, axis=1), after))
        state = after
    columns = [np.stack(column, axis=1).reshape(episodes * length, -1) for column in zip(*rows, strict=True)]
    last = np.tile(np.arange(length) == length - 1, episodes)
    return ov.LoggedDataset.from_arrays(columns[0], columns[1], columns[2][:, 0], columns[3], truncated=last)


def exact_value(initial, gamma=GAMMA):
    """V(s) = sᵀPs + c with P = -I + γMᵀPM, M = TURN + PUSH gainᵀ; the action's noise adds γσ²·PUSHᵀP PUSH each step."""
    closed = TURN + np.outer(PUSH, TARGET_GAIN)
    p = -np.eye(2)
    for _ in range(500):
        p = -np.eye(2) + gamma * closed.T @ p @ closed
    constant = gamma * NOISE**2 * PUSH @ p @ PUSH / (1 - gamma)
    return (1 - gamma) * (np.mean(np.einsum("ni,ij,nj->n", initial, p, initial)) + constant)


def posed(data, gamma=GAMMA, **choices):
    return Problem.pose(data, controller(TARGET_GAIN), gamma=gamma, **choices)


def test_regression_of_an_exact_function_explains_all():
    rng = np.random.default_rng(0)
    x = with_products(rng.standard_normal((500, 2)))
    found = Regression.fit(x, x @ np.arange(6.0)[:, None], np.arange(500) % 5 == 0)
    assert found.explained[0] == pytest.approx(1, abs=1e-6)
    np.testing.assert_allclose(found(x)[:, 0], x @ np.arange(6.0), atol=1e-4)


def test_a_column_that_varies_in_the_fitted_rows_alone_is_not_explained():
    x = np.random.default_rng(0).standard_normal((100, 1))
    held_out = np.arange(100) % 5 == 0
    y = np.where(held_out, 0.0, np.arange(100.0) % 2)[:, None]
    y[held_out] = y[~held_out].mean()
    assert Regression.fit(x, y, held_out).explained[0] < 0


def test_coefficients_are_drawn_with_their_standard_errors():
    """One feature of mean square 1 and noise σ: the slope's standard error is σ/√n."""
    rng = np.random.default_rng(1)
    x, sigma = rng.standard_normal((4000, 1)), 2.0
    y = 3 * x + sigma * rng.standard_normal((4000, 1))
    found = Regression.fit(x, y, np.arange(4000) % 4 == 0)
    slopes = [float(found.drawn(rng)(np.ones((1, 1)))[0, 0]) for _ in range(400)]
    assert np.std(slopes) == pytest.approx(sigma / np.sqrt(3000), rel=0.15)


def test_products_of_three_coordinates():
    np.testing.assert_array_equal(with_products(np.array([[2.0, 3.0]])), [[1, 2, 3, 4, 6, 9]])


def test_smooth_dynamics_are_learned_and_noisy_ones_are_not_trusted():
    smooth = posed(log_of(BEHAVIOUR_GAIN))
    assert fit_world(smooth.log, smooth.policy.clipping, smooth.policy.n_actions, 0).explained > 0.99999
    rng = np.random.default_rng(0)
    data = log_of(BEHAVIOUR_GAIN)
    noisy = data.next_observations + 0.1 * rng.standard_normal(data.next_observations.shape)
    shaken = ov.LoggedDataset.from_arrays(
        data.observations, data.actions, data.rewards, noisy, truncated=data.truncated
    )
    doubtful = posed(shaken, ignore=("one-row-off", "broken-chain"))
    assert fit_world(doubtful.log, doubtful.policy.clipping, doubtful.policy.n_actions, 0).explained < 0.99
    assert find_followed(doubtful, 60, 8) is None


def test_logged_actions_lead_where_they_led():
    problem = posed(log_of(BEHAVIOUR_GAIN))
    world = fit_world(problem.log, problem.policy.clipping, problem.policy.n_actions, 0)
    simulator = Simulator(problem, world, pair_features(problem, 40, 8).states.features)
    rows = np.arange(0, 300, 30)
    modelled, logged = simulator.of_log(rows, 10)
    np.testing.assert_allclose(modelled.features, logged.features, atol=1e-2)
    np.testing.assert_allclose(modelled.reward, logged.reward, rtol=1e-2)
    rewards = problem.data.rewards.reshape(-1, 30)[:10, :10]
    np.testing.assert_allclose(logged.reward, rewards @ GAMMA ** np.arange(10))
    np.testing.assert_allclose(logged.time, (1 - GAMMA**10) / (1 - GAMMA))


@pytest.mark.parametrize("seed", range(3))
def test_the_discounted_value_is_that_of_the_closed_form(seed):
    """The behaviour hardly steers; the logged mean is off by ten times as much."""
    data = log_of(BEHAVIOUR_GAIN, seed=seed)
    found = find_followed(posed(data), 100, 8)
    exact = exact_value(data.observations[data.starts])
    error = np.hypot(found.sums.standard_error, found.suspected_bias)
    assert abs(found.value - exact) < 3 * error
    logged = ov.evaluate(data, controller(TARGET_GAIN), "naive", gamma=GAMMA).value
    assert abs(found.value - exact) < 0.1 * abs(logged - exact)


def test_the_average_reward_of_a_chain_that_goes_on():
    """At γ = 1 the covariance C = MCMᵀ + σ²·PUSH PUSHᵀ gives -trace C, and nothing ends."""
    closed, c = TURN + np.outer(PUSH, TARGET_GAIN), np.zeros((2, 2))
    for _ in range(500):
        c = closed @ c @ closed.T + NOISE**2 * np.outer(PUSH, PUSH)
    found = find_followed(posed(log_of(BEHAVIOUR_GAIN), gamma=1.0), 100, 8)
    assert found.value == pytest.approx(-np.trace(c), rel=0.1)


def climbing(gamma):
    """s' = s + 1/2 ends beyond 3 and pays 1 a step: from s₀ the task ends after ⌈2(3 - s₀)⌉ steps, whatever is done."""
    rng = np.random.default_rng(0)
    rows, ended, reset = [], [], []
    for _ in range(60):
        s, first = rng.uniform(-1, 1), True
        while first or s <= 3:
            rows.append((s, s + 0.5))
            reset.append(first)
            s, first = s + 0.5, False
            ended.append(s > 3)
    states, after = (np.array(column)[:, None] for column in zip(*rows, strict=True))
    actions = rng.standard_normal((len(states), 1))
    data = ov.LoggedDataset.from_arrays(states, actions, np.ones(len(states)), after, terminated=np.array(ended))
    policy = GaussianPolicy(lambda s: (np.zeros((len(s), 1)), np.ones((len(s), 1))), action_dimension=1)
    return Problem.pose(data, policy, gamma=gamma, ignore=("constant-columns", "flags-confused"))


def test_ends_are_learned_and_stop_the_rewards():
    problem = climbing(GAMMA)
    world = world_of(problem)
    near = world.states(np.array([[2.0], [2.8], [3.2], [3.4]]))
    np.testing.assert_allclose(world.end_probability(near), [0, 0, 1, 1], atol=0.05)
    found = find_followed(problem, 60, 8)
    assert found.value == pytest.approx(float(np.mean(1 - GAMMA**problem.data.lengths)), abs=0.02)


def test_the_return_of_an_episode_is_its_length_where_each_step_pays_one():
    problem = climbing(1.0)
    lengths = problem.data.lengths
    found = find_followed(problem, 60, 8)
    assert found.value == pytest.approx(1, abs=1e-9)
    assert found.per_episode.value == pytest.approx(lengths.mean(), rel=0.02)
    error = lengths.std() / np.sqrt(len(lengths))  # what the initial states leave unknown
    assert found.per_episode.sums.standard_error == pytest.approx(error, rel=0.3)
    assert find_followed(climbing(GAMMA), 60, 8).per_episode is None


def test_a_charge_by_hand():
    """3·(r - 2·1[end])."""
    charged = Charge(2.0, 3.0).of(np.array([1.0, 5.0]), np.array([0.0, 0.5]))
    np.testing.assert_allclose(charged, [3, 12])


def test_auto_follows_the_target_where_the_model_is_good_and_says_so(monkeypatch):
    """A target near the behaviour: the model has no doubt about support that would make its error the larger one."""
    near = np.array([0.06, -0.18])
    monkeypatch.setattr(f"{__name__}.TARGET_GAIN", near)  # that of the exact value
    data = log_of(BEHAVIOUR_GAIN, length=10)
    found = ov.evaluate(data, controller(near), "auto", gamma=GAMMA, n_features=100)
    assert found.diagnostics["chosen"] == "model"
    assert "explains" in found.diagnostics["why"][0]
    low, high = found.interval
    assert low < exact_value(data.observations[data.starts]) < high
    alone = ov.evaluate(data, controller(near), "auto", gamma=GAMMA, n_features=100, combine=False)
    assert alone.diagnostics["chosen"] == "mixture"


def test_auto_keeps_its_first_choice_where_that_has_the_smaller_error():
    """In more than a fifth of the logged states the model guesses what the target's action leads to: S is larger."""
    data = log_of(BEHAVIOUR_GAIN, length=10)
    followed, first = find_followed(posed(data), 100, 8), Auto(n_features=100, combine=False).find(posed(data))
    assert followed.size(SUPPORT) > 0.2
    assert followed.sums.standard_error < first.sums.standard_error
    assert followed.error > first.error
    found = ov.evaluate(data, controller(TARGET_GAIN), "auto", gamma=GAMMA, n_features=100)
    assert found.diagnostics["chosen"] == "mixture"
    assert found.diagnostics["candidates"]["model"] == pytest.approx(followed.value)
    low, high = found.interval
    assert low < exact_value(data.observations[data.starts]) < high


def test_a_target_that_leaves_the_log_is_not_followed():
    """Pushing by 3 in every state takes s₂ beyond 3, where no logged state is."""
    data = log_of(BEHAVIOUR_GAIN)
    assert np.abs(data.observations).max() < 4
    far = pushing(3.0)
    problem = Problem.pose(data, far, gamma=GAMMA)
    assert fit_world(problem.log, far.clipping, far.n_actions, 0).explained > 0.9999
    assert find_followed(problem, 60, 8) is None


def pushing(strength):
    return GaussianPolicy(lambda s: (np.full((len(s), 1), strength), np.full((len(s), 1), NOISE)), action_dimension=1)


def test_walks_by_hand():
    """Of the mass 1 + 1 + 1/2 the share 4/5 lies within 2, and only the last step beyond it."""
    walks = Walks(np.array([[1.0], [2.0], [7.0]]), np.array([[1.0], [1.0], [0.5]]), np.zeros((3, 1)))
    assert walks.quantile(0.8) == 2
    assert walks.quantile(0.81) == 7
    assert walks.beyond(2) == pytest.approx(0.2)
    assert walks.beyond(0.5) == 1


def test_nearest_states_by_hand(monkeypatch):
    """Squared distances 9, 16, 73 and 117, 34, 1; of six points in three parts each row has one of every part."""
    z, logged = np.array([[3.0, 0.0], [6.0, 9.0]]), np.array([[0.0, 0.0], [3.0, 4.0], [6.0, 8.0]])
    points = Points.of(logged)
    compared = points.compared(z)
    np.testing.assert_allclose(compared + np.array([[9.0], [117.0]]), [[9, 16, 73], [117, 34, 1]])
    np.testing.assert_allclose(points.distance(z, compared), [3, 1])
    np.testing.assert_array_equal(points.nearest(z), [[0, 1, 2]] * 2)  # fewer points than parts: each is one
    monkeypatch.setattr(state_shifts, "FIFTHS", 1)
    np.testing.assert_array_equal(points.nearest(z), [[0], [2]])
    monkeypatch.setattr(state_shifts, "FIFTHS", 3)
    np.testing.assert_array_equal(Points.of(np.vstack([logged, logged[::-1]])).nearest(z), [[0, 2, 5], [1, 2, 4]])


@pytest.mark.parametrize("seed", range(3))
def test_a_target_that_leaves_the_logged_states_is_noticed_and_the_behaviour_is_not(seed):
    """Pushing by 2 takes s₂ to 2·(I - TURN)⁻¹ of it, which no logged state comes near; 99 % is the behaviour's own."""
    data = log_of(BEHAVIOUR_GAIN, seed=seed)
    assert state_shift(Problem.pose(data, pushing(2.0), gamma=GAMMA)) > 0.8
    same = Problem.pose(data, controller(BEHAVIOUR_GAIN), gamma=GAMMA)
    assert state_shift(same) < 0.05
    assert state_shift(posed(data)) < 0.05  # the target steers to the middle of the log


@pytest.mark.parametrize("seed", range(3))
def test_ends_by_an_action_carry_the_target_no_farther_than_the_log(seed):
    """Action 0 ends the task where it is, action 1 adds 1 to 5 points: ends say nothing of the state they are in."""
    rng = np.random.default_rng(seed)
    drawn = []
    for _ in range(600):
        points, ended = rng.integers(4, 12), False
        while not ended:
            action = int(rng.random() < (0.8 if points < 15 else 0.2))
            after = points + action * rng.integers(1, 6)
            ended = action == 0 or after > 21
            drawn.append((points, action, float(ended and after <= 21), after, ended))
            points = after
    now, action, reward, after, ended = (np.array(column) for column in zip(*drawn, strict=True))
    data = ov.LoggedDataset.from_arrays(now[:, None] * 1.0, action, reward, after[:, None] * 1.0, ended)

    def bolder(observations):
        again = np.where(observations[:, 0] < 17, 0.9, 0.1)
        return np.column_stack([1 - again, again])

    assert state_shift(Problem.pose(data, ov.as_policy(bolder), gamma=1.0)) < 0.05


def test_auto_does_not_trust_a_value_beyond_the_logged_states():
    data = log_of(BEHAVIOUR_GAIN)
    value = ov.evaluate(data, pushing(2.0), "auto", gamma=GAMMA, n_features=60)
    assert value.verdict == "unreliable"
    assert "100% of the target's actions are unlike logged ones" in value.reasons[0]  # worse than what departs
    assert value.interval[0] == data.rewards.min()


def test_the_doubt_of_departure_by_hand():
    """What leaves, beyond 5 %, may pay anything between the least reward and 0, of a task that ended."""
    problem = Problem.pose(log_of(BEHAVIOUR_GAIN), pushing(2.0), gamma=GAMMA)
    (doubt,) = _with_state_shift(problem, RawEstimate(value=-5.0), 0.85).doubts
    assert "leaves the logged states" in doubt.sentence
    assert "85%" in doubt.sentence
    assert doubt.bias == pytest.approx(-0.8 * problem.data.rewards.min())


@pytest.mark.parametrize("seed", range(3))
def test_noise_hides_no_target_that_leaves_the_logged_states(seed):
    """Steps of 0.1·a and noise, of which a model explains little: a target that goes up by 0.15 each leaves the log."""
    rng = np.random.default_rng(seed)
    steps, episodes = 40, 30
    actions = 0.5 * rng.standard_normal((episodes, steps, 1))
    moved = 0.1 * actions + 0.1 * rng.standard_normal(actions.shape)
    places = np.concatenate([np.zeros((episodes, 1, 1)), np.cumsum(moved, axis=1)], axis=1)
    now, after = (part.reshape(-1, 1) for part in (places[:, :-1], places[:, 1:]))
    last = np.tile(np.arange(1, steps + 1) == steps, episodes)
    data = ov.LoggedDataset.from_arrays(now, actions.reshape(-1, 1), -now[:, 0], after, truncated=last)
    assert world_of(Problem.pose(data, pushing(0.0), gamma=GAMMA)).explained < 0.5
    assert state_shift(Problem.pose(data, pushing(0.0), gamma=GAMMA)) < 0.05
    assert state_shift(Problem.pose(data, pushing(1.5), gamma=0.99)) > 0.3  # at 6 in the end, the log at 0 ± 0.7


def test_a_policy_that_fails_beyond_the_log_leaves_the_first_choice():
    """The model visits states that the log does not hold, and a policy need not know them."""
    data = log_of(BEHAVIOUR_GAIN, length=10)
    known = {row.tobytes() for row in np.vstack([data.observations, data.next_observations])}

    def moments(s):
        if any(row.tobytes() not in known for row in s):
            raise LookupError("never seen")
        return s @ TARGET_GAIN[:, None], np.full((len(s), 1), NOISE)

    picky = GaussianPolicy(moments, action_dimension=1)
    found = ov.evaluate(data, picky, "auto", gamma=GAMMA, n_features=100)
    alone = ov.evaluate(data, picky, "auto", gamma=GAMMA, n_features=100, combine=False)
    assert found.diagnostics["chosen"] == "mixture"
    assert found.value == alone.value
    assert "LookupError" in found.diagnostics["why"][-1]


def test_no_model_is_fitted_with_thousands_of_features():
    """Sixty actions with 1 + 2 + 3 + 20 features each are 1560, a hundred are 2600."""
    rng, worlds = np.random.default_rng(0), {}
    states = rng.standard_normal((2001, 2))
    for actions in (60, 100):
        drawn = rng.integers(actions, size=2000)
        data = ov.LoggedDataset.from_arrays(
            states[:-1], drawn, states[:-1, 0], states[1:], truncated=np.arange(2000) % 40 == 39
        )
        uniform = CategoricalPolicy(lambda s, n=actions: np.full((len(s), n), 1 / n), actions)
        problem = Problem.pose(data, uniform, ignore=("one-row-off",))
        worlds[actions] = fit_world(problem.log, uniform.clipping, uniform.n_actions, 0)
    assert worlds[60].size == 1560
    assert worlds[100] is None


def test_the_order_of_episodes_does_not_matter():
    data = log_of(BEHAVIOUR_GAIN, episodes=20)
    turned = data.select(np.arange(20)[::-1])
    first, second = (find_followed(posed(each), 40, 8) for each in (data, turned))
    assert first.value == pytest.approx(second.value, rel=1e-6)  # ridges down to 1e-9


def test_policies_share_one_model_and_are_answered_as_if_alone():
    data, other = log_of(BEHAVIOUR_GAIN, episodes=30), controller(np.array([-0.1, -0.3]))
    first = posed(data)
    shared, alone = first.with_policy(other), Problem.pose(data, other, gamma=GAMMA)
    find_followed(first, 40, 8)
    found, expected = find_followed(shared, 40, 8), find_followed(alone, 40, 8)
    world = [fit_world(each.log, other.clipping, other.n_actions, 0) for each in (first, shared, alone)]
    assert world[0] is world[1]
    assert world[0] is not world[2]
    assert found.value == expected.value
    assert found.suspected_bias == expected.suspected_bias
    assert found.diagnostics == expected.diagnostics


@pytest.mark.parametrize("ends", [False, True])
def test_the_model_fitted_in_parts_is_the_regression_on_all_features(ends):
    """More rows than one batch; where tasks end, the reward is that of the steps which do not end them."""
    data = log_of(BEHAVIOUR_GAIN, episodes=200)
    blurred = data.actions + np.random.default_rng(0).standard_normal(data.actions.shape)  # so that noise is left
    kind = "terminated" if ends else "truncated"
    columns = data.observations, blurred, data.rewards, data.next_observations
    data = ov.LoggedDataset.from_arrays(*columns, **{kind: data.truncated})
    log = posed(data, ignore=("flags-confused",)).log
    world, rows = fit_world(log, controller(TARGET_GAIN).clipping, None, 0), log.rows
    z, after = (world.states(each[rows]) for each in (data.observations, data.next_observations))
    x, held_out = world.features(z, world.to_actions(data.actions[rows])), log.held_out[rows]
    on = ~np.asarray(data.terminated)[rows]
    assert len(rows) > BATCH_ROWS
    assert on.all() != ends
    change = Regression.fit(x, after - z, held_out)
    reward = Regression.fit(x[on], data.rewards[rows][on, None], held_out[on])
    rounding = np.finfo(float).eps / RIDGES[0] * np.linalg.norm(x, axis=1).max()  # × condition × length of a row
    for found, whole in ((world.change, change), (world.reward, reward)):
        np.testing.assert_allclose(found(x), whole(x), atol=rounding)
        np.testing.assert_allclose(found.explained, whole.explained, rtol=1e-8)
        np.testing.assert_allclose(found.spread, whole.spread, rtol=1e-3)  # a form in the inverse
