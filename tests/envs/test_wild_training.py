"""Wild tasks are trained again by the same command, and what is kept acts as stable-baselines3's own policy does."""

import json

import numpy as np
import pytest

import ope_vpm as ov
from ope_vpm.envs.by_name import log
from ope_vpm.envs.train_command import train_task
from ope_vpm.envs.training import _policy
from ope_vpm.envs.wild import wild_task
from ope_vpm.policy.arrays import SoftmaxNetwork

torch = pytest.importorskip("torch")
pytest.importorskip("stable_baselines3")


def model_of(environment, **settings):
    """A PPO model after one rollout, and its normalised environments."""
    from stable_baselines3 import PPO
    from stable_baselines3.common.env_util import make_vec_env
    from stable_baselines3.common.vec_env import VecNormalize

    envs = VecNormalize(make_vec_env(environment, 2, seed=0), clip_obs=10.0)
    shape = {"net_arch": [64, 64], "activation_fn": torch.nn.Tanh, "ortho_init": False}
    model = PPO("MlpPolicy", envs, n_steps=64, n_epochs=1, policy_kwargs=shape, seed=0, device="cpu", **settings)
    return model.learn(128), envs


def observations(model, envs):
    """Those of the rollout, as the environment gave them."""
    return envs.unnormalize_obs(model.rollout_buffer.observations.reshape(128, -1))


def their_distribution(model, envs, seen):
    with torch.no_grad():
        return model.policy.get_distribution(
            torch.as_tensor(envs.normalize_obs(seen), dtype=torch.float32)
        ).distribution


def test_probabilities_are_those_of_stable_baselines3():
    model, envs = model_of("CartPole-v1")
    ours, seen = _policy(model, envs), observations(model, envs)
    assert isinstance(ours, SoftmaxNetwork)
    np.testing.assert_allclose(
        ours.probabilities(seen), their_distribution(model, envs, seen).probs.numpy(), rtol=1e-4, atol=1e-6
    )


def test_state_dependent_noise_keeps_the_mean_and_the_average_variance():
    model, envs = model_of("MountainCarContinuous-v0", use_sde=True)
    ours, seen = _policy(model, envs), observations(model, envs)
    theirs = their_distribution(model, envs, seen)
    mean, std = ours.moments(seen)
    np.testing.assert_allclose(mean, theirs.mean.numpy(), rtol=1e-3, atol=1e-4)
    standard = np.random.default_rng(9).standard_normal((20_000, 2))
    noise = their_distribution(model, envs, envs.unnormalize_obs(standard)).variance.numpy()
    np.testing.assert_allclose(std[0] ** 2, noise.mean(axis=0), rtol=4 * noise.std() / noise.mean() / 1000**0.5)


def test_a_network_task_trains_by_its_id(tmp_path):
    files = train_task("CartPole-v1", tmp_path, 0, 600, episodes=2)
    assert len(files) == 6
    about = json.loads(files[-1].with_suffix(".json").read_text())
    assert about["environment"] == "CartPole-v1"
    assert about["return"]["episodes"] == 2


def test_a_finite_task_writes_its_tables(tmp_path):
    files = train_task("FrozenLake8x8-v1", tmp_path, 0, None)
    assert [file.name for file in files] == ["older.npy", "near.npy", "target.npy"]
    np.testing.assert_array_equal(np.load(files[-1]), wild_task("FrozenLake8x8-v1").target.table)
    policy = ov.load_policy(files[-1])
    np.testing.assert_allclose(policy.probabilities(np.arange(64)).sum(axis=1), 1)
    returns = [json.loads(file.with_suffix(".json").read_text())["return"]["mean"] for file in files]
    assert returns == sorted(returns)
    with pytest.raises(ValueError, match="leave --steps out"):
        train_task("FrozenLake8x8-v1", tmp_path, 0, 100)


def test_unknown_tasks_are_answered_with_the_nearest(tmp_path):
    with pytest.raises(ValueError, match="did you mean 'Acrobot-v1'"):
        train_task("Acrobat-v1", tmp_path, 0, None)


def test_wild_behaviours_by_name():
    data = log("CartPole-v1", "older", 2, 30, seed=3)
    task = wild_task("CartPole-v1")
    np.testing.assert_array_equal(data.actions, task.run([task.older()], 2, 30, 3).actions)
    assert (log("CartPole-v1", None, 2, 30).lengths <= 30).all()
    with pytest.raises(ValueError, match="leave --alpha out"):
        log("CartPole-v1", "near", 2, 30, alpha=1.0)
