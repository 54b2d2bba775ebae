"""d3rlpy's own FQE beside ours, on a greedy d3rlpy policy."""

import d3rlpy
import numpy as np
import pytest

import ope_vpm as ov
from ope_vpm.baselines.d3rlpy_fqe import D3rlpyFQE
from ope_vpm.ope import Problem


def chain(episodes=60, length=20):
    """One number, s' = 0.5·s + 0.5·a, reward s + a; actions are uniform on [-1, 1]."""
    rng = np.random.default_rng(0)
    states = [rng.uniform(-1, 1, episodes)]
    actions = [rng.uniform(-1, 1, episodes) for _ in range(length)]
    for action in actions:
        states.append(0.5 * states[-1] + 0.5 * action)
    here, there = (np.stack(part, axis=1).reshape(-1, 1) for part in (states[:-1], states[1:]))
    taken = np.stack(actions, axis=1).reshape(-1, 1)
    last = np.tile(np.arange(length) == length - 1, episodes)
    return ov.LoggedDataset.from_arrays(here, taken, (here + taken)[:, 0], there, truncated=last)


def greedy(data):
    """An untrained algorithm: its greedy action is some function of the state."""
    algo = d3rlpy.algos.DDPGConfig().create(device="cpu:0")
    algo.build_with_dataset(ov.logged.formats.d3rlpy.to_d3rlpy(data))
    return algo


@pytest.fixture(scope="module")
def case():
    data = chain()
    algo = greedy(data)
    return data, algo, ov.as_policy(algo, deterministic=True)


def simulated(data, algo, gamma, steps=100):
    states, total = data.initial_observations[:, 0].astype(float), 0.0
    for time in range(steps):
        actions = algo.predict(states[:, None].astype(np.float32))[:, 0]
        total += gamma**time * (states + actions).mean()
        states = 0.5 * states + 0.5 * actions
    return (1 - gamma) * total


def test_ours_comes_nearer_the_simulated_truth_than_a_tenth_of_a_deviation(case):
    data, algo, policy = case
    truth = simulated(data, algo, 0.9)
    ours = ov.evaluate(data, policy, "fqe", gamma=0.9, solver="linear")
    assert abs(ours.value - truth) < 0.05
    assert ours.interval[0] < truth < ours.interval[1]


def test_theirs_is_the_same_quantity(case):
    data, algo, policy = case
    theirs = ov.evaluate(data, policy, "d3rlpy_fqe", gamma=0.5, training_steps=1500, learning_rate=1e-3)
    assert theirs.value == pytest.approx(simulated(data, algo, 0.5), abs=0.1)


def test_the_global_generators_are_put_back(case):
    data, _, policy = case
    np.random.seed(3)  # noqa: NPY002
    expected = np.random.RandomState(3).uniform()
    ov.evaluate(data, policy, "d3rlpy_fqe", gamma=0.5, training_steps=2)
    assert np.random.uniform() == expected  # noqa: NPY002


def test_other_policies_and_questions_are_refused(case):
    data, _, policy = case
    with pytest.raises(ValueError, match="needs the greedy policy of a d3rlpy algorithm"):
        ov.evaluate(data, ov.as_policy(lambda states: 0 * states), "d3rlpy_fqe", gamma=0.9)
    with pytest.raises(ValueError, match="no average reward"):
        ov.evaluate(data, policy, "d3rlpy_fqe")
    with pytest.raises(ValueError, match="use fqe for restarts"):
        ov.evaluate(data, policy, "d3rlpy_fqe", gamma=0.9, time_limit="restart")


def test_the_value_is_one_minus_gamma_times_their_mean_q(case):
    """At γ = ½ half of the mean, at γ = ¾ a quarter; one training step is allowed, none is not."""
    data, _, policy = case
    estimator = D3rlpyFQE(training_steps=1)
    for gamma, share in ((0.5, 0.5), (0.75, 0.25)):
        problem = Problem.pose(data, policy, gamma=gamma)
        theirs = estimator._initial_values(problem)
        assert estimator.find(problem).value == pytest.approx(share * theirs.mean(), rel=1e-6)
    with pytest.raises(ValueError, match="training_steps must be at least 1: got 0"):
        D3rlpyFQE(training_steps=0)
    with pytest.raises(ValueError, match="batch_size must be at least 1: got 0"):
        D3rlpyFQE(training_steps=1, batch_size=0)
