"""stable-baselines3 files of other ages and makers, rebuilt from readable texts and arrays.

The real library is the reference: its own policy acts, and a file is written as older libraries wrote it.
"""

import io
import json
import sys
import zipfile

import gymnasium as gym
import numpy as np
import pytest
import torch
from stable_baselines3 import A2C, DQN, PPO, SAC, TD3

from ope_vpm import as_policy, load_policy

RNG = np.random.default_rng(0)
PENDULUM = RNG.normal(size=(100, 3)).astype(np.float32)
CART = RNG.normal(size=(100, 4)).astype(np.float32)


def saved(model, path):
    """A saved model, its settings and its weights."""
    model.save(path)
    with zipfile.ZipFile(path) as archive:
        settings = json.loads(archive.read("data"))
        weights = torch.load(io.BytesIO(archive.read("policy.pth")), weights_only=True)
    return settings, weights


def written(path, settings, weights):
    """A file with these settings and weights."""
    with zipfile.ZipFile(path, "w") as archive:
        archive.writestr("data", json.dumps(settings))
        stream = io.BytesIO()
        torch.save(weights, stream)
        archive.writestr("policy.pth", stream.getvalue())
    return path


def as_in_old_gym(settings):
    """The spaces as gym 0.17 to 0.21 had them: other modules, other names, pickles that nobody can load any more."""
    old = dict(settings)
    for name in ("observation_space", "action_space"):
        fields = dict(old[name])
        fields[":type:"] = fields[":type:"].replace("gymnasium.", "gym.")
        fields[":serialized:"] = "gASVHgAAAAAAAACMDmd5bS5zcGFjZXMuYm94lIwDQm94lJOUKYGULg=="
        fields["shape"] = fields.pop("_shape")
        for key in ("low_repr", "high_repr", "_np_random", "start"):
            fields.pop(key, None)
        if "n" in fields:
            fields["n"] = int(fields["n"])
        old[name] = fields
    return old


def made(algorithm, env, **options):
    keywords = {"net_arch": [8, 6]} | options.pop("policy_kwargs", {})
    return algorithm("MlpPolicy", env, policy_kwargs=keywords, seed=0, device="cpu", **options)


@pytest.mark.parametrize(("algorithm", "env"), [(PPO, "CartPole-v1"), (A2C, "Pendulum-v1"), (SAC, "Pendulum-v1")])
@pytest.mark.parametrize("use_sde", [False, True])
def test_old_gym_spaces(algorithm, env, use_sde, tmp_path):
    if use_sde and env == "CartPole-v1":
        pytest.skip("gSDE is for continuous actions")
    model = made(algorithm, env, policy_kwargs={"activation_fn": torch.nn.ELU}, use_sde=use_sde)
    settings, weights = saved(model, tmp_path / "new.zip")
    policy = load_policy(written(tmp_path / "old.zip", as_in_old_gym(settings), weights))
    seen = CART if env == "CartPole-v1" else PENDULUM
    actions = RNG.integers(0, 2, 100) if env == "CartPole-v1" else RNG.uniform(-1.9, 1.9, (100, 1)).astype(np.float32)
    expected = as_policy(model).log_prob(seen, actions)
    np.testing.assert_allclose(policy.log_prob(seen, actions), expected, atol=1e-5, rtol=1e-5)


def test_nothing_of_the_library_is_imported(tmp_path, monkeypatch):
    model = made(PPO, "CartPole-v1")
    model.save(tmp_path / "model.zip")
    expected = as_policy(model).probabilities(CART)
    monkeypatch.setitem(sys.modules, "stable_baselines3", None)  # what an uninstalled library looks like to import
    np.testing.assert_allclose(load_policy(tmp_path / "model.zip").probabilities(CART), expected, atol=1e-6)


def test_shared_layers_of_version_1(tmp_path):
    """Version 1 had layers before the two networks; put there, the first hidden layer does the same."""
    model = made(PPO, "CartPole-v1")
    settings, weights = saved(model, tmp_path / "new.zip")
    renamed = {
        key.replace("policy_net.0", "shared_net.0").replace("policy_net.2", "policy_net.0"): value
        for key, value in weights.items()
    }
    policy = load_policy(written(tmp_path / "old.zip", settings, renamed))
    np.testing.assert_allclose(policy.probabilities(CART), as_policy(model).probabilities(CART), atol=1e-6)


def test_tqc_of_sb3_contrib(tmp_path):
    """Its actor is SAC's; only the module of the policy's class tells them apart."""
    model = made(SAC, "Pendulum-v1", policy_kwargs={"log_std_init": -1.0})
    settings, weights = saved(model, tmp_path / "sac.zip")
    settings["policy_class"]["__module__"] = "sb3_contrib.tqc.policies"
    settings["policy_kwargs"] |= {"n_quantiles": 25, "n_critics": 2}
    policy = load_policy(written(tmp_path / "tqc.zip", settings, weights), deterministic=True)
    np.testing.assert_allclose(policy.sample(PENDULUM, RNG), model.predict(PENDULUM, deterministic=True)[0], atol=1e-5)


def test_qrdqn_of_sb3_contrib(tmp_path):
    """Five quantiles for each of two actions: the action with the larger mean of its quantiles."""
    settings, _ = saved(made(DQN, "CartPole-v1"), tmp_path / "dqn.zip")
    settings["policy_class"]["__module__"] = "sb3_contrib.qrdqn.policies"
    network = torch.nn.Sequential(torch.nn.Linear(4, 7), torch.nn.ReLU(), torch.nn.Linear(7, 10))
    prefixes = ("quantile_net.quantile_net.", "quantile_net_target.quantile_net.")
    weights = {prefix + key: value for prefix in prefixes for key, value in network.state_dict().items()}
    policy = load_policy(written(tmp_path / "qrdqn.zip", settings, weights))
    with torch.no_grad():
        quantiles = network(torch.as_tensor(CART)).reshape(100, 5, 2)
    assert (policy.probabilities(CART).argmax(axis=1) == quantiles.mean(dim=1).argmax(dim=1).numpy()).all()


class Pixels(gym.Env):
    """Random images, as small as the library's convolutions allow."""

    observation_space = gym.spaces.Box(0, 255, (36, 36, 3), np.uint8)
    action_space = gym.spaces.Discrete(3)

    def reset(self, *, seed=None, options=None):
        super().reset(seed=seed)
        return np.zeros((36, 36, 3), np.uint8), {}

    def step(self, action):
        return np.zeros((36, 36, 3), np.uint8), 0.0, False, False, {}


@pytest.mark.parametrize("algorithm", [PPO, DQN])
def test_images(algorithm, tmp_path):
    options = {"buffer_size": 10} if algorithm is DQN else {"n_steps": 8, "batch_size": 8}
    model = algorithm("CnnPolicy", Pixels(), device="cpu", seed=0, **options)
    model.save(tmp_path / "model.zip")
    seen = RNG.integers(0, 256, (5, 3 * 36 * 36)).astype(np.uint8)  # channels first, as the model's own space
    policy = load_policy(tmp_path / "model.zip")
    np.testing.assert_allclose(policy.probabilities(seen), as_policy(model).probabilities(seen), atol=1e-6)


class Numbered(gym.Env):
    """Multi-discrete or binary observations."""

    action_space = gym.spaces.Discrete(2)

    def __init__(self, space):
        self.observation_space = space

    def reset(self, *, seed=None, options=None):
        super().reset(seed=seed)
        return self.observation_space.sample(), {}


@pytest.mark.parametrize("space", [gym.spaces.MultiDiscrete([3, 4]), gym.spaces.MultiBinary(5)])
def test_integer_observations(space, tmp_path):
    model = made(PPO, Numbered(space), n_steps=8, batch_size=8)
    model.save(tmp_path / "model.zip")
    seen = np.stack([space.sample() for _ in range(50)])
    expected = model.policy.get_distribution(torch.as_tensor(seen)).distribution.probs.detach().numpy()
    np.testing.assert_allclose(load_policy(tmp_path / "model.zip").probabilities(seen), expected, atol=1e-6)


def test_uneven_bounds_are_read(tmp_path):
    low, high = np.array([-0.4, -2.0, -1e-3], np.float32), np.array([0.4, 5.0, 7.25e-4], np.float32)

    class Uneven(Numbered):
        action_space = gym.spaces.Box(low, high)

    model = made(TD3, Uneven(gym.spaces.Box(-1, 1, (3,))))
    model.save(tmp_path / "model.zip")
    policy = load_policy(tmp_path / "model.zip")
    np.testing.assert_allclose(policy.sample(PENDULUM, RNG), model.predict(PENDULUM)[0], atol=1e-6)


UNKNOWN = {
    "a class of one's own": (
        lambda s: s["policy_class"].update(__module__="__main__"),
        r"its policy class is of .*main",
    ),
    "an extractor of one's own": (
        lambda s: s["policy_kwargs"].update(features_extractor_class="<class 'mine.Extractor'>"),
        "its extractor of features is .*mine.Extractor",
    ),
    "an activation of one's own": (
        lambda s: s["policy_kwargs"].update(activation_fn="<class 'mine.Wave'>"),
        "its activation function is .*mine.Wave",
    ),
    "an unknown choice": (
        lambda s: s["policy_kwargs"].update(lstm_hidden_size=3),
        "its policy_kwargs hold 'lstm_hidden",
    ),
}


@pytest.mark.parametrize("what", UNKNOWN)
def test_unknown_parts_are_named(what, tmp_path):
    change, message = UNKNOWN[what]
    settings, weights = saved(made(PPO, "CartPole-v1"), tmp_path / "model.zip")
    change(settings)
    with pytest.raises(PermissionError, match=f"is not read without trust: {message}"):
        load_policy(written(tmp_path / "other.zip", settings, weights))


def test_arrays_of_no_known_network_are_named(tmp_path):
    settings, weights = saved(made(PPO, "CartPole-v1"), tmp_path / "model.zip")
    with pytest.raises(PermissionError, match=r"its weights hold lstm_actor\.weight, a part of no network we know"):
        load_policy(written(tmp_path / "other.zip", settings, weights | {"lstm_actor.weight": torch.zeros(2, 2)}))


def test_spaces_of_newer_gymnasium_that_were_never_printed(tmp_path):
    """From some version on a Box makes its texts when it is first printed: until then they are null in the file."""
    model = made(SAC, "Pendulum-v1")
    settings, weights = saved(model, tmp_path / "model.zip")
    for name in ("observation_space", "action_space"):
        settings[name] |= {"low_repr": None, "high_repr": None}
    policy = load_policy(written(tmp_path / "newer.zip", settings, weights))
    seen = PENDULUM[:5]
    np.testing.assert_array_equal(policy.log_prob(seen, seen[:, :1]), as_policy(model).log_prob(seen, seen[:, :1]))
