"""stable-baselines3 policies: their own probabilities and actions, from objects and from files."""

import base64
import json
import pickle
import zipfile

import gymnasium as gym
import numpy as np
import pytest
import torch
from stable_baselines3 import A2C, DDPG, DQN, PPO, SAC, TD3
from stable_baselines3.common.vec_env import DummyVecEnv, VecNormalize

from ope_vpm import as_policy, load_policy

RNG = np.random.default_rng(0)
CART = RNG.normal(size=(200, 4)).astype(np.float32)
PENDULUM = RNG.normal(size=(200, 3)).astype(np.float32)


def made(algorithm, env_id, **options):
    keywords = {"net_arch": [8]} | options.pop("policy_kwargs", {})
    return algorithm("MlpPolicy", env_id, policy_kwargs=keywords, seed=0, device="cpu", **options)


def both_ways(model, tmp_path, **options):
    """The policy of the object and the policy of its file."""
    model.save(tmp_path / "model.zip")
    return as_policy(model, **options), load_policy(tmp_path / "model.zip", **options)


@pytest.mark.parametrize("algorithm", [PPO, A2C])
def test_on_policy_discrete(algorithm, tmp_path):
    model = made(algorithm, "CartPole-v1", policy_kwargs={"activation_fn": torch.nn.ReLU})
    actions = RNG.integers(0, 2, 200)
    with torch.no_grad():
        _, expected, _ = model.policy.evaluate_actions(torch.as_tensor(CART), torch.as_tensor(actions))
    for policy in both_ways(model, tmp_path):
        assert policy.n_actions == 2
        assert policy.observation_size == 4
        np.testing.assert_allclose(policy.log_prob(CART, actions), expected.numpy(), atol=1e-5)
        np.testing.assert_allclose(policy.probabilities(CART).sum(axis=1), 1)
        wide = policy.probabilities(CART.astype(np.float64))  # as CSV files have them
        np.testing.assert_allclose(wide, policy.probabilities(CART), atol=1e-7)
    for policy in both_ways(model, tmp_path, deterministic=True):
        greedy = model.predict(CART, deterministic=True)[0]
        assert (policy.sample(CART, RNG) == greedy).all()


@pytest.mark.parametrize("algorithm", [PPO, A2C])
@pytest.mark.parametrize("use_sde", [False, True])
def test_on_policy_continuous(algorithm, use_sde, tmp_path):
    model = made(algorithm, "Pendulum-v1", use_sde=use_sde)
    actions = RNG.normal(size=(200, 1)).astype(np.float32)
    with torch.no_grad():
        _, expected, _ = model.policy.evaluate_actions(torch.as_tensor(PENDULUM), torch.as_tensor(actions))
    for policy in both_ways(model, tmp_path):
        np.testing.assert_allclose(policy.log_prob(PENDULUM, actions), expected.numpy(), atol=1e-5)
        assert np.abs(policy.sample(PENDULUM, RNG)).max() <= 2
        assert policy.action_dimension == 1
    for policy in both_ways(model, tmp_path, deterministic=True):
        expected = model.predict(PENDULUM, deterministic=True)[0]
        np.testing.assert_allclose(policy.sample(PENDULUM, RNG), expected, atol=1e-6)


@pytest.mark.parametrize("use_sde", [False, True])
def test_sac(use_sde, tmp_path):
    model = made(SAC, "Pendulum-v1", use_sde=use_sde)
    scaled = as_policy(model).sample(PENDULUM, RNG).astype(np.float32) / 2
    scaled = np.clip(scaled, -0.95, 0.95)
    with torch.no_grad():
        mean, log_std, keywords = model.actor.get_action_dist_params(torch.as_tensor(PENDULUM))
        distribution = model.actor.action_dist.proba_distribution(mean, log_std, **keywords)
        library = distribution.log_prob(torch.as_tensor(scaled)).numpy()
    # The library's density is that of the action scaled to [-1, 1]; ours is that of the action taken, in
    # [-2, 2], where the same mass is spread twice as wide.
    for policy in both_ways(model, tmp_path):
        np.testing.assert_allclose(policy.log_prob(PENDULUM, 2 * scaled), library - np.log(2), atol=1e-5)
    for policy in both_ways(model, tmp_path, deterministic=True):
        expected = model.predict(PENDULUM, deterministic=True)[0]
        np.testing.assert_allclose(policy.sample(PENDULUM, RNG), expected, atol=1e-5)


def test_sac_where_the_space_is_the_unit_box(tmp_path):
    env = gym.wrappers.RescaleAction(gym.make("Pendulum-v1"), np.float32(-1), np.float32(1))
    model = made(SAC, env)
    actions = np.tanh(RNG.normal(size=(200, 1))).astype(np.float32)
    with torch.no_grad():
        mean, log_std, _ = model.actor.get_action_dist_params(torch.as_tensor(PENDULUM))
        library = model.actor.action_dist.proba_distribution(mean, log_std).log_prob(torch.as_tensor(actions))
    for policy in both_ways(model, tmp_path):
        np.testing.assert_allclose(policy.log_prob(PENDULUM, actions), library.numpy(), atol=1e-5)


@pytest.mark.parametrize("algorithm", [TD3, DDPG])
def test_deterministic_algorithms(algorithm, tmp_path):
    model = made(algorithm, "Pendulum-v1")
    for policy in both_ways(model, tmp_path):
        drawn = policy.sample(PENDULUM.astype(np.float64), RNG)
        np.testing.assert_allclose(drawn, model.predict(PENDULUM)[0], atol=1e-6)
        assert not policy.has_log_prob


def test_dqn_and_discrete_observations(tmp_path):
    model = made(DQN, "CartPole-v1")
    for policy in both_ways(model, tmp_path):
        greedy = model.predict(CART, deterministic=True)[0]
        assert (policy.probabilities(CART).argmax(axis=1) == greedy).all()
    taxi = made(PPO, "Taxi-v3")
    states = np.arange(500)
    for policy in both_ways(taxi, tmp_path):
        with torch.no_grad():
            expected = taxi.policy.get_distribution(torch.as_tensor(states)).distribution.probs.numpy()
        np.testing.assert_allclose(policy.probabilities(states), expected, atol=1e-6)


def test_vec_normalize_statistics(tmp_path):
    env = VecNormalize(DummyVecEnv([lambda: gym.make("Pendulum-v1")]))
    model = made(PPO, env, n_steps=64, batch_size=32)
    model.learn(128)
    model.save(tmp_path / "model.zip")
    env.save(tmp_path / "statistics.pkl")
    env.training = False
    actions = RNG.normal(size=(200, 1)).astype(np.float32)
    with torch.no_grad():
        seen = torch.as_tensor(env.normalize_obs(PENDULUM))
        _, expected, _ = model.policy.evaluate_actions(seen, torch.as_tensor(actions))
    policies = (
        as_policy(model),  # it still has its environment
        load_policy(tmp_path / "model.zip", normalize=env),
        load_policy(tmp_path / "model.zip", normalize=tmp_path / "statistics.pkl"),  # nothing of it is run
    )
    for policy in policies:
        np.testing.assert_allclose(policy.log_prob(PENDULUM, actions), expected.numpy(), atol=1e-5)
    (tmp_path / "statistics.pkl").rename(tmp_path / "vecnormalize.pkl")
    beside = load_policy(tmp_path / "model.zip")
    np.testing.assert_allclose(beside.log_prob(PENDULUM, actions), expected.numpy(), atol=1e-5)
    without = load_policy(tmp_path / "model.zip", normalize=False)
    assert np.abs(without.log_prob(PENDULUM, actions) - expected.numpy()).max() > 1e-3
    made(PPO, "CartPole-v1").save(tmp_path / "cart.zip")
    with pytest.raises(ValueError, match=r"of shape \(3,\), the policy takes \(4,\): move vecnormalize\.pkl away"):
        load_policy(tmp_path / "cart.zip")


class Bomb:
    """Unpickling it would fail the test; it must not get that far."""

    def __reduce__(self):
        return (pytest.fail, ("the pickle was loaded",))


def repacked(source, target, **members):
    """A copy of an archive with some members replaced."""
    with zipfile.ZipFile(source) as old, zipfile.ZipFile(target, "w") as new:
        for name in old.namelist():
            new.writestr(name, members.get(name, old.read(name)))
    return target


def test_no_pickle_in_a_zip_is_loaded_without_trust(tmp_path):
    made(PPO, "CartPole-v1").save(tmp_path / "model.zip")
    with zipfile.ZipFile(tmp_path / "model.zip") as archive:
        settings = json.loads(archive.read("data"))
    for name in ("policy_class", "observation_space", "action_space", "policy_kwargs"):
        bomb = {":serialized:": base64.b64encode(pickle.dumps(Bomb())).decode()}
        changed = json.dumps(settings | {name: bomb})
        with pytest.raises(PermissionError, match=r"is not read without trust: its .*pass trust=True"):
            load_policy(repacked(tmp_path / "model.zip", tmp_path / "bomb.zip", data=changed))
    # Settings that are not needed are not even looked at.
    bomb = {":serialized:": base64.b64encode(pickle.dumps(Bomb())).decode()}
    changed = json.dumps(settings | {"lr_schedule": bomb})
    load_policy(repacked(tmp_path / "model.zip", tmp_path / "bomb.zip", data=changed))
    for name in ("observation_space", "action_space", "policy_class"):  # beside a readable text neither
        changed = json.dumps(settings | {name: settings[name] | bomb})
        load_policy(repacked(tmp_path / "model.zip", tmp_path / "bomb.zip", data=changed))
    weights = repacked(tmp_path / "model.zip", tmp_path / "bomb.zip", **{"policy.pth": pickle.dumps(Bomb(), 2)})
    with pytest.raises(ValueError, match=r"bomb.zip cannot be read as a policy"):
        load_policy(weights)


class Wide(torch.nn.Tanh):
    """An activation of the user's own."""


def test_settings_of_your_own_need_trust(tmp_path):
    model = made(PPO, "CartPole-v1", policy_kwargs={"activation_fn": Wide})
    model.save(tmp_path / "model.zip")
    with pytest.raises(PermissionError, match="pass trust=True"):
        load_policy(tmp_path / "model.zip")
    trusted = load_policy(tmp_path / "model.zip", trust=True)
    np.testing.assert_allclose(trusted.probabilities(CART), as_policy(model).probabilities(CART), atol=1e-6)


def test_a_seeded_space_is_read(tmp_path):
    env = gym.make("Pendulum-v1")
    env.action_space.seed(3)
    env.observation_space.seed(3)
    env.action_space.sample()
    made(SAC, env).save(tmp_path / "model.zip")
    assert load_policy(tmp_path / "model.zip").action_dimension == 1


def test_damaged_archives_are_refused(tmp_path):
    made(PPO, "CartPole-v1").save(tmp_path / "model.zip")
    other = tmp_path / "other.zip"
    with pytest.raises(ValueError, match=r"settings in .* are damaged"):
        load_policy(repacked(tmp_path / "model.zip", other, data="{"))
    with pytest.raises(ValueError, match=r"settings in .* are damaged"):
        load_policy(repacked(tmp_path / "model.zip", other, data="[]"))
    with zipfile.ZipFile(tmp_path / "model.zip") as archive:
        settings = json.loads(archive.read("data"))
    smaller = json.dumps(settings | {"action_space": settings["action_space"] | {"n": "3"}})
    with pytest.raises(ValueError, match="weights do not fit its settings: 2 outputs for"):
        load_policy(repacked(tmp_path / "model.zip", other, data=smaller))


def test_too_many_combinations_of_actions_are_refused():
    env = gym.wrappers.TransformAction(
        gym.make("CartPole-v1"), lambda action: int(action[0]), gym.spaces.MultiBinary(13)
    )
    with pytest.raises(ValueError, match="8192 combinations of actions: at most 4096"):
        as_policy(made(PPO, env))
