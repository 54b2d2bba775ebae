"""A function that returns a distribution is worth what the same policy is worth in any other form."""

import gymnasium as gym
import numpy as np
import pytest
import torch
from torch import distributions as td

import ope_vpm as ov
from ope_vpm.policy import CategoricalPolicy, GaussianPolicy

FAST = {
    "liu": {"training_steps": 30},
    "fqe": {"training_steps": 30, "members": 1},
    "model": {"training_steps": 30, "members": 2, "rollouts": 10},
}


def linear_gaussian(episodes, length, seed):
    """s' = 0.9s + a + 0.1ε, a = -0.2s + 0.7ε, r = -s² - 0.1a², from the long run of the behaviour."""
    rng = np.random.default_rng(seed)
    s = np.sqrt(0.5 / (1 - 0.7**2)) * rng.standard_normal((episodes, 1))
    rows = []
    for _ in range(length):
        a = -0.2 * s + 0.7 * rng.standard_normal(s.shape)
        after = 0.9 * s + a + 0.1 * rng.standard_normal(s.shape)
        rows.append((s, a, after))
        s = after
    s, a, after = (np.stack(column, axis=1).reshape(-1, 1) for column in zip(*rows, strict=True))
    last = np.tile(np.arange(length) == length - 1, episodes)
    return ov.LoggedDataset.from_arrays(s, a, (-(s**2) - 0.1 * a**2)[:, 0], after, truncated=last)


GAUSSIAN = GaussianPolicy(lambda s: (-0.3 * s, 0.5))
VARIANCE = (0.1**2 + 0.5**2) / (1 - 0.6**2)
TRUTH = -VARIANCE - 0.1 * (0.3**2 * VARIANCE + 0.5**2)
"""E[-s² - 0.1a²] in the long run of a = -0.3s + 0.5ε, where s' = 0.6s + 0.5ε + 0.1ε'."""


def normal(s):
    return td.Independent(td.Normal(torch.as_tensor(-0.3 * s), 0.5), 1)


@pytest.mark.parametrize(
    ("name", "gamma"),
    [
        ("vpm", 0.95),
        ("vpm", 1.0),
        ("auto", 0.95),
        ("onestep", 1.0),
        ("wist", 0.95),
        ("liu", 1.0),
        ("dr", 0.95),
        ("fqe", 0.95),
        ("model", 1.0),
        ("bestdice", 1.0),
    ],
)
def test_a_normal_distribution_is_worth_what_the_gaussian_policy_is(name, gamma):
    data = linear_gaussian(20, 30, seed=0)
    by_function, by_moments = (
        ov.evaluate(data, policy, name, gamma=gamma, **FAST.get(name, {})) for policy in (normal, GAUSSIAN)
    )
    assert by_function.value == pytest.approx(by_moments.value, abs=1e-9)
    assert by_function.interval == pytest.approx(by_moments.interval, abs=1e-9)
    assert by_function.verdict == by_moments.verdict


def test_a_function_in_float32_too():
    data = linear_gaussian(20, 30, seed=0)
    value = ov.evaluate(data, lambda s: td.Normal(torch.as_tensor(-0.3 * s, dtype=torch.float32), 0.5), "vpm").value
    assert value == pytest.approx(ov.evaluate(data, GAUSSIAN, "vpm").value, abs=1e-5)


def test_the_long_run_of_a_linear_gaussian_mdp():
    """Ten logs of 100 × 100: the mean error within four standard errors, and no interval far from the truth."""
    found = [ov.evaluate(linear_gaussian(100, 100, seed), normal, "vpm") for seed in range(10)]
    errors = np.array([value.value - TRUTH for value in found])
    assert abs(errors.mean()) < 4 * errors.std(ddof=1) / np.sqrt(10)
    assert sum(value.interval[0] <= TRUTH <= value.interval[1] for value in found) >= 7


def test_tanh_of_a_normal_distribution():
    rng = np.random.default_rng(0)
    logged = linear_gaussian(20, 30, seed=0)
    actions = np.tanh(-0.2 * logged.observations + 0.7 * rng.standard_normal((600, 1)))
    data = ov.LoggedDataset.from_arrays(
        logged.observations, actions, actions[:, 0], logged.next_observations, truncated=logged.truncated
    )
    squashed = GaussianPolicy(lambda s: (-0.3 * s, 0.5), squash=True)
    function = lambda s: td.TransformedDistribution(normal(s), [td.TanhTransform()])  # noqa: E731
    assert ov.evaluate(data, function, "vpm").value == pytest.approx(ov.evaluate(data, squashed, "vpm").value, abs=1e-9)


def test_a_categorical_distribution():
    rng = np.random.default_rng(0)
    states, actions = rng.standard_normal((601, 1)), rng.integers(2, size=600)
    data = ov.LoggedDataset.from_arrays(
        states[:-1], actions, actions * states[:-1, 0], states[1:], truncated=np.arange(600) % 30 == 29
    )
    logits = lambda s: torch.as_tensor(np.hstack([s, -s]))  # noqa: E731
    known = CategoricalPolicy(lambda s: torch.softmax(logits(s), dim=1).numpy(), 2)
    found = ov.evaluate(data, lambda s: td.Categorical(logits=logits(s)), "vpm")
    assert found.value == pytest.approx(ov.evaluate(data, known, "vpm").value, abs=1e-9)


def test_no_policy_is_given_the_clone_of_another():
    """One clips at the bounds to which the other is stretched: at ±0.8 the first has tails, the second densities."""
    rng = np.random.default_rng(0)
    logged = linear_gaussian(20, 30, seed=0)
    actions = np.clip(-0.2 * logged.observations + 0.7 * rng.standard_normal((600, 1)), -0.8, 0.8)
    data = ov.LoggedDataset.from_arrays(
        logged.observations, actions, logged.rewards, logged.next_observations, truncated=logged.truncated
    )
    clipped, squashed = (
        GaussianPolicy(lambda s: (-0.3 * s, 0.5), bounds=(-0.8, 0.8), squash=squash) for squash in (False, True)
    )
    together = ov.evaluate(data, [clipped, squashed], "liu", training_steps=30)
    for value, policy in zip(together, (clipped, squashed), strict=True):
        assert value.value == ov.evaluate(data, policy, "liu", training_steps=30).value


def test_a_known_behaviour_may_be_a_function_or_a_table():
    data = linear_gaussian(20, 30, seed=0)
    by_function = ov.evaluate(data, GAUSSIAN, "onestep", behaviour=lambda s: td.Normal(torch.as_tensor(-0.2 * s), 0.7))
    known = GaussianPolicy(lambda s: (-0.2 * s, 0.7))
    assert by_function.value == ov.evaluate(data, GAUSSIAN, "onestep", behaviour=known).value
    with pytest.raises(ValueError, match="a behaviour policy needs densities, and this one has none"):
        ov.evaluate(data, GAUSSIAN, "onestep", behaviour=lambda s: -0.2 * s)
    with pytest.raises(ValueError, match="the policy has discrete actions, the data continuous ones"):
        ov.evaluate(data, GAUSSIAN, "onestep", behaviour=[[0.5, 0.5]])


def test_a_list_of_models_is_several_policies():
    sb3 = pytest.importorskip("stable_baselines3")
    env = gym.make("CartPole-v1")
    models = [sb3.PPO("MlpPolicy", env, n_steps=8, batch_size=8, device="cpu", seed=seed) for seed in range(2)]
    rng = np.random.default_rng(0)
    states = rng.standard_normal((301, 4))
    data = ov.LoggedDataset.from_arrays(
        states[:-1], rng.integers(2, size=300), states[1:, 0], states[1:], truncated=np.arange(300) % 30 == 29
    )
    values = ov.evaluate(data, models, "onestep")
    assert [value.value for value in values] == [ov.evaluate(data, model, "onestep").value for model in models]


def three_arms():
    """States and actions at random: what a function returns is all that matters."""
    rng = np.random.default_rng(0)
    states, actions = rng.normal(size=(200, 2)), rng.integers(3, size=200)
    following = np.vstack([states[1:], states[:1]])
    return ov.LoggedDataset.from_arrays(
        states, actions, states[:, 0] + actions, following, truncated=np.arange(200) % 20 == 19
    )


@pytest.mark.parametrize(
    "function",
    [lambda seen: np.tile([0.2, 0.3, 0.5], (len(seen), 1)), lambda seen: (seen[:, 0] > 0).astype(int)],
    ids=["probabilities", "actions"],
)
def test_on_discrete_actions_a_function_needs_no_further_word(function):
    """The data know how many actions there are."""
    data = three_arms()
    plain = ov.evaluate(data, function, "fqe", gamma=0.5, solver="linear")
    named = ov.evaluate(data, ov.as_policy(function, n_actions=3), "fqe", gamma=0.5, solver="linear")
    assert plain.value == named.value
    noisy = ov.evaluate(data, ov.with_noise(ov.as_policy(function), epsilon=0.1), "fqe", gamma=0.5, solver="linear")
    other = ov.with_noise(ov.as_policy(function, n_actions=3), epsilon=0.1)
    assert noisy.value == ov.evaluate(data, other, "fqe", gamma=0.5, solver="linear").value


def test_a_function_for_fewer_actions_is_refused():
    with pytest.raises(ValueError, match="the policy chooses from 2 actions, the data have 3"):
        ov.evaluate(three_arms(), lambda seen: np.full((len(seen), 2), 0.5), "fqe")
