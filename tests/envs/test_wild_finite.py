"""Finite models: closed forms, values by a recursion over gymnasium's table, and gymnasium's own episodes."""

import gymnasium as gym
import numpy as np
import pytest

from ope_vpm.envs.wild import collect_log, wild_tasks
from ope_vpm.envs.wild.finite import FiniteModel, from_gymnasium
from ope_vpm.envs.wild.tables import FiniteTask
from ope_vpm.policy import TablePolicy

STOP, GAMMA = 0.2, 0.9
TOYS = ["FrozenLake8x8-v1", "CliffWalking-v0", "Taxi-v3"]
FINITE = {name: task for name, task in wild_tasks().items() if isinstance(task, FiniteTask)}


@pytest.fixture(scope="module")
def coin():
    """One state, one action: pays 1 and ends with probability 0.2."""
    pair = np.zeros(2, dtype=np.int64)
    return FiniteModel(1, 1, np.ones(1), pair, pair, np.array([STOP, 1 - STOP]), np.ones(2), np.array([True, False]))


def test_discounted_value_and_deviation_of_a_geometric_episode(coin):
    """With length L geometric, Σ γ^t = (1 - γ^L) / (1 - γ), and E[z^L] = z p / (1 - z (1 - p))."""

    def generating(z):
        return z * STOP / (1 - z * (1 - STOP))

    value = coin.value(TablePolicy([[1.0]]), GAMMA)
    assert value.value == pytest.approx(1 - generating(GAMMA))
    assert value.deviation == pytest.approx(np.sqrt(generating(GAMMA**2) - generating(GAMMA) ** 2))
    assert value.standard_error == 0


def test_returns_of_at_most_two_steps(coin):
    """One step with probability 0.2, else two."""
    policy = TablePolicy([[1.0]])
    worth = coin.episode_return(policy, 2)
    assert worth.value == pytest.approx(1.8)
    assert worth.deviation == pytest.approx(0.4)
    assert coin.episode_length(policy, 2) == worth
    assert coin.per_step(policy, 2).value == pytest.approx(1)
    assert coin.per_step(policy, 2).deviation == pytest.approx(0, abs=1e-7)


def test_the_deviation_per_step_is_that_of_many_on_policy_ratios():
    """Over 400 logs of 100 episodes, Σ r / Σ steps has the stated mean and deviation within four standard errors."""
    task = FINITE["FrozenLake8x8-v1"]
    truth, episodes = task.truth(1.0), 100
    ratios = []
    for seed in range(400):
        data = collect_log(task, "target", episodes, seed)
        ratios.append(data.rewards.sum() / len(data))
    floor = task.floor(episodes, 1.0)
    assert abs(np.mean(ratios) - truth.value) < 4 * floor / 20
    assert np.std(ratios, ddof=1) == pytest.approx(floor, rel=4 / np.sqrt(2 * 400))


@pytest.mark.parametrize("name", TOYS)
def test_values_by_a_recursion_over_the_environments_own_table(name):
    """Bellman's equation, state by state in plain Python, until nothing moves; and without discount for 30 steps."""
    task, env = FINITE[name], gym.make(name).unwrapped
    table = task.target.table

    def backup(values, gamma):
        new = np.zeros(len(values))
        for state, choices in env.P.items():
            for action, outcomes in choices.items():
                for probability, following, reward, ends in outcomes:
                    later = 0.0 if ends else values[following]
                    new[state] += table[state, action] * probability * (reward + gamma * later)
        return new

    values = np.zeros(len(table))
    for _ in range(1500 if name == "FrozenLake8x8-v1" else 400):
        values = backup(values, 0.99)
    residual = np.abs(backup(values, 0.99) - values).max() / 0.01
    expected = 0.01 * env.initial_state_distrib @ values
    assert abs(task.truth(0.99).value - expected) <= 0.01 * residual + 1e-12
    values = np.zeros(len(table))
    for _ in range(30):
        values = backup(values, 1.0)
    worth = task.model.episode_return(task.target, 30).value
    assert worth == pytest.approx(env.initial_state_distrib @ values, abs=1e-9)


def test_value_iteration_by_hand(coin):
    """Q after k sweeps of the coin is Σ_{t<k} (γ·0.8)^t."""
    for sweeps in (1, 2, 5):
        expected = sum((GAMMA * (1 - STOP)) ** t for t in range(sweeps))
        assert coin.action_values(GAMMA, sweeps) == pytest.approx(np.array([[expected]]))


@pytest.mark.parametrize("name", [*TOYS, "Sepsis/ICU-Sepsis-v2"])
def test_the_gymnasium_environment_agrees_with_the_exact_return(name):
    """200 episodes in the environment itself, within four standard errors of the exact mean."""
    task = FINITE[name]
    if name.startswith("Sepsis"):
        pytest.importorskip("icu_sepsis")
    env, rng, returns = gym.make(name, max_episode_steps=task.limit), np.random.default_rng(5), []
    for seed in range(200):
        state, _ = env.reset(seed=seed)
        total, going = 0.0, True
        while going:
            action = int(task.target.sample(np.array([state]), rng)[0])
            state, reward, terminated, truncated, _ = env.step(action)
            total, going = total + reward, not (terminated or truncated)
        returns.append(total)
    truth = task.truth(1, "episode")
    assert abs(np.mean(returns) - truth.value) < 4 * truth.deviation / np.sqrt(200)


@pytest.mark.parametrize("name", TOYS)
def test_logged_steps_are_outcomes_of_the_table(name):
    """Every logged step is possible, and pays and ends as gymnasium says."""
    task, table = FINITE[name], gym.make(name).unwrapped.P
    data = collect_log(task, "mix", 6, 1)
    for row in range(len(data)):
        outcomes = table[int(data.observations[row])][int(data.actions[row])]
        seen = int(data.next_observations[row]), data.rewards[row], bool(data.terminated[row])
        assert seen in {(following, reward, ends) for _, following, reward, ends in outcomes}
    assert (data.truncated[data.ends] != data.terminated[data.ends]).all()
    assert data.lengths[data.truncated[data.ends]].tolist() == [task.limit] * int(data.truncated.sum())


def test_outcomes_sum_to_one_and_are_sorted():
    model = from_gymnasium("FrozenLake8x8-v1")
    assert np.bincount(model.pair, model.probability) == pytest.approx(np.ones(64 * 4))
    assert (np.diff(model.pair) >= 0).all()
