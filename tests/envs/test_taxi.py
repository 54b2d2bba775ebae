"""Taxi: its distributions against numbers worked out by hand, its exact values against a million simulated steps."""

import json

import gymnasium
import numpy as np
import pytest
from gymnasium.utils.env_checker import check_env
from scipy import stats

import ope_vpm as ov
import ope_vpm.envs
from ope_vpm.envs import taxi, taxi_training
from ope_vpm.envs.taxi_bound import cramer_rao_bound, value_function, visits

UNIFORM = np.full((2000, 6), 1 / 6)
SHIPPED = (50, 300, 550, 700, 850, 950, 1000)


def successors(x, y, passengers, loaded, action):
    """{(x, y, passengers, taxi): probability} after one action."""
    row = taxi.transition_probabilities()[[6 * int(taxi.encode(x, y, passengers, loaded)) + action]].tocoo()
    return {
        tuple(int(part) for part in taxi.decode(state)): probability
        for state, probability in zip(row.col, row.data, strict=True)
    }


def reward(x, y, passengers, loaded, action):
    return taxi.expected_rewards()[taxi.encode(x, y, passengers, loaded), action]


def test_the_number_of_a_state_and_back():
    assert taxi.encode(3, 2, 0b1010, 4) == 4 + 5 * (10 + 16 * (5 * 3 + 2))
    assert (taxi.encode(*taxi.decode(np.arange(2000))) == np.arange(2000)).all()


def test_moves_stop_at_walls_and_corners_fill_by_themselves():
    still = 0.7 * 0.95 * 0.9 * 0.8  # nobody comes: 1 minus 0.3, 0.05, 0.1, 0.2
    assert successors(2, 2, 0, 4, 0)[(3, 2, 0, 4)] == pytest.approx(still)
    assert successors(2, 2, 0, 4, 1)[(2, 3, 0, 4)] == pytest.approx(still)
    assert successors(0, 2, 0, 1, 2)[(0, 2, 0, 1)] == pytest.approx(still)
    assert successors(2, 0, 0, 1, 3)[(2, 0, 0, 1)] == pytest.approx(still)
    assert successors(2, 2, 0, 4, 0)[(3, 2, 0b1001, 4)] == pytest.approx(0.3 * 0.95 * 0.9 * 0.2)
    assert successors(2, 2, 0b1111, 4, 0)[(3, 2, 0b1001, 4)] == pytest.approx(0.95 * 0.1 * 0.1 * 0.95)


def test_picking_up_draws_one_of_the_other_corners_also_when_loaded():
    for loaded in (4, 0):
        after = successors(0, 4, 0b0010, loaded, 4)
        gone = 0.7 * 0.95 * 0.9 * 0.8  # the corner just cleared may fill again, with 0.05
        assert {state[3] for state in after} == {0, 2, 3}
        for destination in (0, 2, 3):
            assert after[(0, 4, 0, destination)] == pytest.approx(gone / 3)
    assert {state[3] for state in successors(0, 4, 0b1101, 4, 4)} == {4}
    assert reward(0, 4, 0b0010, 4, 4) == -1


def test_dropping_off_empties_the_taxi_and_pays_at_the_right_corner():
    assert {state[3] for state in successors(1, 3, 0, 2, 5)} == {4}
    assert reward(4, 0, 0, 2, 5) == 20
    assert reward(4, 4, 0, 2, 5) == -1
    assert reward(4, 0, 0, 4, 5) == -1
    assert (taxi.expected_rewards() == 20).sum() == 4 * 16


def test_rows_are_distributions():
    kernel = taxi.transition_probabilities()
    assert kernel.shape == (12000, 2000)
    np.testing.assert_allclose(kernel.sum(axis=1), 1, atol=1e-12)
    assert (kernel.data > 0).all()
    assert taxi.initial_distribution().sum() == pytest.approx(1)


def test_simulated_steps_follow_the_exact_probabilities():
    rng = np.random.default_rng(3000)
    for state, action in ((taxi.encode(0, 4, 0b0110, 4), 4), (taxi.encode(4, 4, 0b0001, 3), 5)):
        n = 40_000
        drawn = np.bincount(taxi.step(np.full(n, state), np.full(n, action), rng), minlength=2000)
        expected = taxi.transition_probabilities()[[6 * int(state) + action]].toarray()[0] * n
        assert drawn[expected == 0].sum() == 0
        often = expected > 5
        statistic = ((drawn - expected)[often] ** 2 / expected[often]).sum()
        assert stats.chi2.sf(statistic, often.sum() - 1) > 1e-4


def test_a_log_is_whole():
    data = taxi.simulate(taxi.shipped(950), 30, 40, seed=0)
    assert (len(data), data.n_episodes, data.terminated.any()) == (1200, 30, False)
    assert data.truncated.sum() == 30
    assert data.next_known.all()
    assert (taxi.decode(data.initial_observations)[3] == 4).all()
    inner = ~data.truncated
    assert (data.next_observations[inner] == data.observations[np.flatnonzero(inner) + 1]).all()
    assert (data.rewards == taxi.expected_rewards()[data.observations, data.actions]).all()
    again = taxi.simulate(taxi.shipped(950).table, 30, 40, seed=0)
    assert (again.observations == data.observations).all()


@pytest.mark.parametrize("iteration", [300, 1000])
def test_exact_values_agree_with_a_million_steps(iteration):
    policy = taxi.shipped(iteration)
    data = taxi.simulate(policy, 1400, 1500, seed=iteration)
    by_time = data.rewards.reshape(1400, 1500)
    answers = {1.0: by_time[:, 700:].mean(axis=1), 0.99: by_time @ (0.01 * 0.99 ** np.arange(1500))}
    for gamma, means in answers.items():
        error = means.std(ddof=1) / np.sqrt(1400)
        assert abs(means.mean() - taxi.exact_value(policy, gamma)) < 4 * error


def test_exact_values_of_policies_that_never_deliver_or_are_rounded():
    waiting = np.eye(6)[np.full(2000, 5)]
    for gamma in (1.0, 0.99, 0.0):
        assert taxi.exact_value(waiting, gamma) == pytest.approx(-1)
    table = taxi.shipped(1000).table
    rounded = table.astype(np.float32).astype(np.float64)
    assert taxi.exact_value(rounded) == pytest.approx(taxi.exact_value(table), abs=1e-5)


def dense_value(kernel, table, gamma):
    """By numpy alone."""
    moved = (table[:, :, None] * kernel.toarray().reshape(2000, 6, 2000)).sum(axis=1)
    pay = (table * taxi.expected_rewards()).sum(axis=1)
    if gamma < 1:
        return (1 - gamma) * np.linalg.solve(np.eye(2000) - gamma * moved, pay) @ taxi.initial_distribution()
    return np.linalg.solve(np.eye(2000) - moved.T + 1 / 2000, np.full(2000, 1 / 2000)) @ pay


@pytest.mark.parametrize("gamma", [1.0, 0.99])
def test_exact_value_against_a_dense_solve(gamma):
    table = taxi.shipped(850).table
    expected = dense_value(taxi.transition_probabilities(), table, gamma)
    assert taxi.exact_value(table, gamma) == pytest.approx(expected, abs=1e-10)


def test_tables_of_other_tasks_and_wrong_numbers_are_refused():
    with pytest.raises(ValueError, match=r"shape \(2000, 6\): got \(500, 6\)"):
        taxi.exact_value(np.full((500, 6), 1 / 6))
    with pytest.raises(ValueError, match="sum to 1"):
        taxi.exact_value(np.full((2000, 6), 0.2))
    with pytest.raises(ValueError, match="gamma must be between 0 and 1"):
        taxi.exact_value(UNIFORM, 1.5)
    with pytest.raises(ValueError, match="at least 1"):
        taxi.simulate(UNIFORM, 0, 10, seed=0)
    with pytest.raises(ValueError, match="no policy of iteration 7 is shipped"):
        taxi.shipped(7)


def test_gymnasium_knows_it():
    env = gymnasium.make("ope_vpm/Taxi-v0")
    check_env(env.unwrapped, skip_render_check=True)
    first, _ = env.reset(seed=3)
    again, _ = env.reset(seed=3)
    assert first == again
    state, total = first, 0
    for step in range(200):
        following, pay, terminated, truncated, _ = env.step(step % 6)
        assert taxi.transition_probabilities()[6 * state + step % 6, following] > 0
        assert pay == taxi.expected_rewards()[state, step % 6]
        state, total = following, total + (terminated or truncated)
    assert total == 0
    with pytest.raises(ValueError, match="action must be"):
        env.unwrapped.step(6)
    assert gymnasium.make("ope_vpm.envs:ope_vpm/Taxi-v0").spec.id == "ope_vpm/Taxi-v0"
    assert ope_vpm.envs.__name__ == "ope_vpm.envs"


def test_shipped_policies_are_what_their_json_says_and_grow_in_skill():
    folder = taxi.files("ope_vpm.envs") / "policies" / "taxi"
    values = []
    for iteration in SHIPPED:
        about = json.loads((folder / f"iteration-{iteration:04d}.json").read_text())
        values.append(taxi.exact_value(taxi.shipped(iteration)))
        assert about["average_reward"] == pytest.approx(values[-1], abs=1e-9)
        assert (about["iteration"], about["temperature"], about["steps_an_iteration"]) == (iteration, 2.0, 5000)
    assert (np.diff(values) > 0).all()
    loaded = ov.load_policy(folder / "iteration-1000.npy")
    np.testing.assert_allclose(loaded.probabilities(np.arange(2000)), taxi.shipped().table, rtol=1e-12)


def test_training_makes_the_shipped_table(tmp_path):
    told = []
    (path,) = taxi_training.train(tmp_path / "new", seed=0, iterations=50, progress=lambda *news: told.append(news))
    np.testing.assert_allclose(np.load(path), taxi.shipped(50).table, atol=1e-6)
    assert told == [(50, json.loads(path.with_suffix(".json").read_text())["average_reward"])]


def test_mixtures():
    target, behaviour = taxi.shipped(1000), taxi.shipped(950)
    half = taxi.mixed(target, behaviour, 0.25)
    np.testing.assert_allclose(half.table, 0.25 * target.table + 0.75 * behaviour.table)
    with pytest.raises(ValueError, match="alpha"):
        taxi.mixed(target, behaviour, 2)


def test_visits_are_those_of_simulated_trajectories():
    behaviour, n = taxi.shipped(950), 4000
    data = taxi.simulate(behaviour, n, 60, seed=3001)
    loaded = taxi.decode(np.arange(2000))[3] != 4
    seen = loaded[data.observations].reshape(n, 60).sum(axis=1)
    assert visits(behaviour, 60).sum() == pytest.approx(60)
    assert abs(visits(behaviour, 60)[loaded].sum() - seen.mean()) < 4 * seen.std() / np.sqrt(n)


@pytest.mark.parametrize("gamma", [1.0, 0.9])
def test_the_bound_s_value_function_is_the_derivative_of_the_value(gamma):
    """Tilting one row of 𝒯 by ε·u moves the value by ε·γ·d(s)π(a|s)·Cov(u, V)."""
    table, kernel = taxi.shipped(1000).table, taxi.transition_probabilities()
    distribution, values = taxi.exact_distribution(table, gamma), value_function(table, gamma)
    row = 6 * int(np.argmax(distribution)) + 4
    probability = kernel[[row]].toarray()[0]
    tilt = np.where(probability > 0, values - probability @ values, 0.0)
    size, moved = 1e-4, kernel.tolil()
    moved[row] = probability * (1 + size * tilt)
    slope = (dense_value(moved, table, gamma) - taxi.exact_value(table, gamma)) / size
    expected = gamma * distribution[row // 6] * table[row // 6, 4] * (probability @ tilt**2)
    assert slope == pytest.approx(expected, rel=1e-3)


def test_the_bound_falls_with_the_data_and_is_below_the_on_policy_mean():
    target, behaviour = taxi.shipped(1000), taxi.shipped(950)
    bound = cramer_rao_bound(target, behaviour, 200, 400)
    assert cramer_rao_bound(target, behaviour, 400, 400) == pytest.approx(bound / 2)
    assert cramer_rao_bound(target, taxi.shipped(550), 200, 400) > 2 * bound
    means = taxi.simulate(target, 2000, 400, seed=3002).rewards.reshape(2000, 400).mean(axis=1)
    assert cramer_rao_bound(target, target, 2000, 400) < means.var() / 2000
