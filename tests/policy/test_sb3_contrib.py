"""sb3-contrib's own models and files, statistics of observations beside them, and what is refused."""

import json
import pickle
import sys

import gymnasium as gym
import numpy as np
import pytest
import torch
from sb3_contrib import ARS, QRDQN, TQC, TRPO, CrossQ, MaskablePPO, RecurrentPPO
from stable_baselines3 import PPO
from stable_baselines3.common.vec_env import DummyVecEnv, VecNormalize

import ope_vpm as ov
from ope_vpm import as_policy, load_policy
from ope_vpm.cli import main

RNG = np.random.default_rng(0)
PENDULUM = RNG.normal(size=(60, 3)).astype(np.float32)
CART = RNG.normal(size=(60, 4)).astype(np.float32)


def small():
    """Settings of a small model; the library writes into `policy_kwargs`."""
    return {"policy_kwargs": {"net_arch": [8, 6]}, "seed": 0, "device": "cpu"}


@pytest.mark.parametrize(
    ("algorithm", "env", "options"),
    [
        (TRPO, "CartPole-v1", {}),
        (TRPO, "Pendulum-v1", {"use_sde": True}),
        (TQC, "Pendulum-v1", {}),
        (TQC, "Pendulum-v1", {"use_sde": True}),
        (QRDQN, "CartPole-v1", {}),
    ],
)
def test_files_and_models_act_as_the_library_does(algorithm, env, options, tmp_path):
    model = algorithm("MlpPolicy", env, **options, **small())
    model.save(tmp_path / "model.zip")
    seen = PENDULUM if env == "Pendulum-v1" else CART
    expected = model.predict(seen, deterministic=True)[0].reshape(60, -1)
    for policy in (load_policy(tmp_path / "model.zip", deterministic=True), as_policy(model, deterministic=True)):
        np.testing.assert_allclose(np.reshape(policy.sample(seen, RNG), (60, -1)), expected, atol=1e-5)
    read, made = load_policy(tmp_path / "model.zip"), as_policy(model)
    actions = RNG.integers(0, 2, 60) if env == "CartPole-v1" else RNG.uniform(-1.9, 1.9, (60, 1))
    np.testing.assert_allclose(read.log_prob(seen, actions), made.log_prob(seen, actions), atol=1e-4)


@pytest.mark.parametrize("kind", ["MlpPolicy", "LinearPolicy"])
@pytest.mark.parametrize("env", ["CartPole-v1", "Pendulum-v1"])
@pytest.mark.parametrize("options", [{}, {"squash_output": True, "with_bias": True}])
def test_ars_acts_as_the_library_does(kind, env, options, tmp_path):
    """Its linear policy has neither bias nor tanh unless it is asked for them."""
    model = ARS(kind, env, seed=0, device="cpu", policy_kwargs=dict(options))
    for parameter in model.policy.parameters():
        torch.nn.init.normal_(parameter, std=2.0, generator=torch.Generator().manual_seed(0))
    model.save(tmp_path / "model.zip")
    seen = PENDULUM if env == "Pendulum-v1" else CART
    expected = model.predict(seen)[0].reshape(60, -1)
    for policy in (load_policy(tmp_path / "model.zip"), as_policy(model)):
        np.testing.assert_allclose(np.reshape(policy.sample(seen, RNG), (60, -1)), expected, atol=1e-4)


def test_crossq_as_a_model():
    model = CrossQ("MlpPolicy", "Pendulum-v1", seed=0, device="cpu")
    policy = as_policy(model, deterministic=True)
    np.testing.assert_allclose(policy.sample(PENDULUM, RNG), model.predict(PENDULUM, deterministic=True)[0], atol=1e-5)


def test_what_is_not_known_is_named(tmp_path):
    recurrent = RecurrentPPO("MlpLstmPolicy", "CartPole-v1", seed=0, device="cpu")
    with pytest.raises(TypeError, match="RecurrentActorCriticPolicy remembers earlier observations"):
        as_policy(recurrent)
    recurrent.save(tmp_path / "recurrent.zip")
    with pytest.raises(PermissionError, match=r"its policy class is of the module 'sb3_contrib\.common\.recurrent"):
        load_policy(tmp_path / "recurrent.zip")
    with pytest.raises(TypeError, match="MaskableActorCriticPolicy is not a policy we know: those of PPO"):
        as_policy(MaskablePPO("MlpPolicy", "CartPole-v1", seed=0, device="cpu"))


@pytest.fixture(scope="module")
def trained(tmp_path_factory):
    """A model in the zoo's layout: `Pendulum-v1.zip`, and `Pendulum-v1/vecnormalize.pkl`."""
    folder = tmp_path_factory.mktemp("zoo")
    env = VecNormalize(DummyVecEnv([lambda: gym.make("Pendulum-v1")]), clip_obs=0.7)
    model = PPO("MlpPolicy", env, n_steps=64, batch_size=32, **small())
    model.learn(64)
    model.save(folder / "Pendulum-v1.zip")
    (folder / "Pendulum-v1").mkdir()
    env.save(folder / "Pendulum-v1" / "vecnormalize.pkl")
    return folder / "Pendulum-v1.zip", model, env


def test_the_zoos_layout(trained):
    path, model, env = trained
    seen = env.normalize_obs(PENDULUM)
    assert np.abs(seen).max() == np.float32(0.7)
    with torch.no_grad():
        expected = model.policy.get_distribution(torch.as_tensor(seen)).distribution.mean.numpy()
    policy = load_policy(path, deterministic=True)
    np.testing.assert_allclose(policy.sample(PENDULUM, RNG), np.clip(expected, -2, 2), atol=1e-5)


def test_statistics_that_were_found_are_named(trained, tmp_path, monkeypatch, capsys):
    path, _, env = trained
    used = str(path.with_suffix("") / "vecnormalize.pkl")
    policy = load_policy(path)
    assert policy.normalized_by == used
    assert f"observations normalised by {used}" in repr(policy)
    for given in (False, env):
        assert load_policy(path, normalize=given).normalized_by is None
    rewards_only = VecNormalize(DummyVecEnv([lambda: gym.make("Pendulum-v1")]), norm_obs=False)
    rewards_only.save(tmp_path / "rewards_only.pkl")
    assert load_policy(path, normalize=tmp_path / "rewards_only.pkl").normalized_by is None
    actions = RNG.uniform(-2, 2, size=(len(PENDULUM), 1))
    flags = np.arange(len(PENDULUM)) % 10 == 9
    ov.LoggedDataset.from_arrays(PENDULUM, actions, RNG.normal(size=len(PENDULUM)), truncated=flags).save(
        tmp_path / "log.npz"
    )

    def printed(command, option, *more):
        words = ["ope-vpm", command, str(tmp_path / "log.npz"), option, str(path), "--estimator", "naive", *more]
        monkeypatch.setattr(sys, "argv", words)
        with pytest.raises(SystemExit) as ended:
            main()
        assert not ended.value.code
        return capsys.readouterr().out

    for command, option in (("evaluate", "--policy"), ("select", "--policies")):
        assert f"note: observations are normalised by {used} before" in printed(command, option)
    (answer,) = json.loads(printed("evaluate", "--policy", "--json"))
    assert used in answer["policy"]


@pytest.mark.parametrize("protocol", [3, 4])
def test_statistics_of_every_age(trained, protocol, tmp_path):
    """Python 3.7 and before wrote protocol 3, later ones 4."""
    path, _, env = trained
    other = tmp_path / "other.pkl"
    other.write_bytes(pickle.dumps(env, protocol))
    read, expected = (load_policy(path, normalize=given, deterministic=True) for given in (other, env))
    np.testing.assert_allclose(read.sample(PENDULUM, RNG), expected.sample(PENDULUM, RNG), atol=1e-6)


class Trap:
    def __reduce__(self):
        return (exec, ("raise SystemExit('it ran')",))


def test_statistics_that_are_something_else_are_refused_and_not_run(trained, tmp_path):
    path = trained[0]
    for wrong in (Trap(), {"obs_rms": Trap()}, [1, 2], "text"):
        (tmp_path / "wrong.pkl").write_bytes(pickle.dumps(wrong))
        with pytest.raises(PermissionError, match=r"wrong\.pkl is not read without trust: .*VecNormalize"):
            load_policy(path, normalize=tmp_path / "wrong.pkl")
    env = VecNormalize(DummyVecEnv([lambda: gym.make("Pendulum-v1")]), norm_obs=False)
    env.save(tmp_path / "rewards_only.pkl")
    plain = load_policy(path, normalize=False, deterministic=True).sample(PENDULUM, RNG)
    rewards_only = load_policy(path, normalize=tmp_path / "rewards_only.pkl", deterministic=True)
    np.testing.assert_array_equal(rewards_only.sample(PENDULUM, RNG), plain)
