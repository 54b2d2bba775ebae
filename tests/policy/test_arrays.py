"""Network policies as arrays: round trips, damaged files, and stable-baselines3's own outputs."""

import gymnasium as gym
import numpy as np
import pytest
import torch
from scipy.stats import multivariate_normal
from stable_baselines3 import A2C
from stable_baselines3.common.vec_env import DummyVecEnv, VecNormalize

import ope_vpm as ov
from ope_vpm.envs.training import _policy
from ope_vpm.policy.arrays import Layers, LogitLayers, NetworkPolicy, SoftmaxNetwork, save_arrays

RNG = np.random.default_rng(0)


def layers(**changes):
    """One observation, two hidden units, one action: worked out by hand in the tests."""
    plain = {
        "weights": [np.array([[1.0], [0.0]]), np.array([[2.0, 1.0]])],
        "biases": [np.array([0.0, 0.0]), np.array([0.5])],
        "observation_mean": np.array([1.0]),
        "observation_std": np.array([2.0]),
        "observation_clip": np.array(3.0),
        "log_std": np.array([np.log(0.5)]),
        "low": np.array([-1.0]),
        "high": np.array([1.0]),
    }
    return Layers(**{**plain, **changes})


def test_the_mean_by_hand():
    """(5 - 1)/2 = 2; beyond the clip, (101 - 1)/2 is held at 3."""
    mean, std = NetworkPolicy(layers()).moments(np.array([[5.0], [101.0]]))
    np.testing.assert_allclose(mean[:, 0], [2 * np.tanh(2) + 0.5, 2 * np.tanh(3) + 0.5])
    np.testing.assert_allclose(std, 0.5)


def test_more_variance_leaves_the_mean_and_draws_are_clipped():
    policy = NetworkPolicy(layers())
    wide = policy.more_random(4.0)
    seen = np.full((4000, 1), 0.5)
    np.testing.assert_allclose(wide.moments(seen)[0], policy.moments(seen)[0])
    np.testing.assert_allclose(wide.moments(seen)[1], 1.0)
    np.testing.assert_allclose(wide.more_random(1.0).moments(seen)[1], 0.5)
    draws = wide.sample(seen, np.random.default_rng(1))
    assert draws.min() == -1
    assert draws.max() == 1


def test_round_trip(tmp_path):
    policy = NetworkPolicy(layers(log_std=RNG.normal(size=1)))
    save_arrays(tmp_path / "policy.npz", policy)
    loaded = ov.load_policy(tmp_path / "policy.npz")
    seen = RNG.normal(size=(50, 1))
    for part, again in zip(policy.moments(seen), loaded.moments(seen), strict=True):
        np.testing.assert_allclose(part, again, rtol=1e-6)
    assert loaded.observation_size == 1
    assert loaded.action_dimension == 1
    assert (tmp_path / "policy.npz").stat().st_size < 1_000_000


def logits():
    """The network above with two outputs, whose logits differ by 1 + 2·tanh of the standardised observation."""
    plain = vars(layers()) | {
        "weights": [np.array([[1.0], [0.0]]), np.array([[2.0, 1.0], [0.0, 0.0]])],
        "biases": [np.array([0.0, 0.0]), np.array([0.5, -0.5])],
    }
    return LogitLayers(**{name: value for name, value in plain.items() if name not in ("log_std", "low", "high")})


def test_softmax_probabilities_by_hand():
    """(5 - 1)/2 = 2 standardised; twice the temperature halves the logarithm of the odds."""
    seen = np.array([[5.0]])
    odds = 1 + 2 * np.tanh(2.0)
    policy = SoftmaxNetwork(logits())
    assert policy.probabilities(seen)[0, 0] == pytest.approx(1 / (1 + np.exp(-odds)))
    assert policy.more_random(2.0).probabilities(seen)[0, 0] == pytest.approx(1 / (1 + np.exp(-odds / 2)))
    assert NetworkPolicy(layers()).more_random(2.0).moments(seen)[1] == pytest.approx(0.5 * np.sqrt(2))


def test_a_softmax_network_is_read_as_it_was_written(tmp_path):
    save_arrays(tmp_path / "policy.npz", SoftmaxNetwork(logits()))
    loaded = ov.load_policy(tmp_path / "policy.npz")
    assert (loaded.n_actions, loaded.observation_size) == (2, 1)
    seen = RNG.normal(size=(50, 1))
    np.testing.assert_allclose(loaded.probabilities(seen), SoftmaxNetwork(logits()).probabilities(seen), rtol=1e-6)


def stored(tmp_path, **changes):
    save_arrays(tmp_path / "good.npz", NetworkPolicy(layers()))
    with np.load(tmp_path / "good.npz") as archive:
        arrays = dict(archive) | changes
    np.savez(tmp_path / "bad.npz", **{name: value for name, value in arrays.items() if value is not None})
    return tmp_path / "bad.npz"


BAD = {
    "a missing array": ({"log_std": None}, "log_std is missing"),
    "a missing layer": ({"bias_1": None}, "bias_1 is missing"),
    "not a number": ({"weight_0": np.full((2, 1), np.nan)}, "weight_0 .* finite"),
    "whole numbers": ({"weight_0": np.ones((2, 1), dtype=int)}, "weight_0 .* finite"),
    "another width": ({"weight_1": np.ones((1, 3))}, r"weight_1 .* shape \(1, 2\)"),
    "no deviation": ({"observation_std": np.zeros(1)}, "observation_std .* positive"),
    "bounds of another size": ({"high": np.ones(2)}, r"high .* shape \(1,\)"),
    "a single bound": ({"low": np.array(1.0)}, r"low .* shape \(1,\)"),
    "statistics without an axis": ({"observation_mean": np.array(0.0)}, "observation_mean"),
    "a bias without an axis": ({"bias_1": np.array(0.0)}, "bias_1"),
    "several clips": ({"observation_clip": np.ones(3)}, "observation_clip"),
    "a negative clip": ({"observation_clip": np.array(-1.0)}, "observation_clip"),
    "bounds the wrong way round": ({"low": np.array([2.0])}, "low"),
}


@pytest.mark.parametrize("name", BAD)
def test_damaged_files_end_in_one_sentence(name, tmp_path):
    changes, message = BAD[name]
    with pytest.raises(ValueError, match=message):
        ov.load_policy(stored(tmp_path, **changes))


def test_python_objects_are_not_loaded(tmp_path):
    with pytest.raises(ValueError, match="pickle"):
        ov.load_policy(stored(tmp_path, low=np.array([{"a": 1}], dtype=object)))


@pytest.fixture(scope="module")
def trained():
    """A little training, so that the statistics and the deviation have moved."""
    envs = VecNormalize(DummyVecEnv([lambda: gym.make("Pendulum-v1")]), clip_obs=1.5)
    networks = {"net_arch": [64, 64], "activation_fn": torch.nn.Tanh, "log_std_init": -0.5}
    model = A2C("MlpPolicy", envs, policy_kwargs=networks, seed=0, device="cpu").learn(200)
    return model, envs


def test_agreement_with_stable_baselines3_behind_its_normalisation(trained, tmp_path):
    model, envs = trained
    save_arrays(tmp_path / "policy.npz", _policy(model, envs))
    policy = ov.load_policy(tmp_path / "policy.npz")
    seen = RNG.normal(size=(300, 3)).astype(np.float32) * [1, 1, 6]
    normalised = torch.as_tensor(envs.normalize_obs(seen), dtype=torch.float32)
    assert (normalised.abs() == 1.5).any()  # the clip plays a part
    with torch.no_grad():
        law = model.policy.get_distribution(normalised).distribution
    mean, std = policy.moments(seen)
    np.testing.assert_allclose(mean, law.mean.numpy(), atol=1e-5)
    np.testing.assert_allclose(std, law.stddev.numpy(), rtol=1e-5)
    actions = RNG.uniform(-2, 2, size=(300, 1))
    np.testing.assert_allclose(
        policy.log_prob(seen, actions), law.log_prob(torch.as_tensor(actions)).sum(dim=1).numpy(), atol=1e-4
    )
    np.testing.assert_array_equal(policy.layers.low, [-2.0])


def test_log_prob_is_scipy_s():
    policy = NetworkPolicy(layers())
    mean = policy.moments(np.array([[0.0]]))[0][0]
    expected = multivariate_normal(mean, 0.25).logpdf(0.3)
    assert policy.log_prob(np.array([[0.0]]), np.array([[0.3]]))[0] == pytest.approx(expected)
