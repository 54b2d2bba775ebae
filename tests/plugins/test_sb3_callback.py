"""The callback in stable-baselines3's own training, and logs of its models."""

import gymnasium as gym
import numpy as np
import pytest
from stable_baselines3 import A2C, PPO, SAC
from stable_baselines3.common.vec_env import DummyVecEnv, VecNormalize
from tensorboard.backend.event_processing.event_accumulator import EventAccumulator

import ope_vpm as ov
from ope_vpm.envs.collect import collect
from ope_vpm.plugins import OPECallback, log_to_dataset
from ope_vpm.policy import CategoricalPolicy

pytestmark = pytest.mark.filterwarnings("ignore::DeprecationWarning")
SETTINGS = {"n_features": 40}


@pytest.fixture(scope="module")
def cart(tmp_path_factory):
    """A file with episodes of random pushes."""
    pushes = CategoricalPolicy(lambda seen: np.full((len(seen), 2), 0.5), 2)
    path = tmp_path_factory.mktemp("log") / "cart.npz"
    collect("CartPole-v1", pushes, 40, 100, seed=0).save(path)
    return path


def test_tensorboard_holds_what_a_direct_evaluation_answers(cart, tmp_path):
    model = PPO("MlpPolicy", "CartPole-v1", n_steps=64, batch_size=64, seed=0, tensorboard_log=str(tmp_path))
    direct = {}

    class Direct(OPECallback):
        def _evaluate(self):
            super()._evaluate()
            policy = ov.as_policy(self.model)
            value = ov.evaluate(ov.load_dataset(cart), policy, "auto", gamma=0.99, **SETTINGS)
            direct[self.num_timesteps] = value

    callback = Direct(cart, "auto", every=100, best_model=tmp_path / "best.zip", **SETTINGS)
    model.learn(192, callback=callback)
    assert list(direct) == [100, 192]
    events = EventAccumulator(str(next(tmp_path.rglob("events*")).parent))
    events.Reload()
    for name, number in {
        "value": lambda value: value.value,
        "lower": lambda value: value.interval[0],
        "upper": lambda value: value.interval[1],
        "verdict": lambda value: ("reliable", "caution", "unreliable").index(value.verdict),
    }.items():
        written = {event.step: event.value for event in events.Scalars(f"ope/{name}")}
        assert written == pytest.approx({step: number(value) for step, value in direct.items()}, rel=1e-5)
    assert callback.last.value == direct[192].value
    usable = [value.interval[0] for value in direct.values() if value.verdict != "unreliable"]
    assert (tmp_path / "best.zip").exists() == bool(usable)
    assert callback.best_lower == max(usable, default=-np.inf)


def test_the_last_value_is_that_of_the_trained_model(cart):
    """PPO learns once more after the last step, at which a regular evaluation is due as well."""
    model = PPO("MlpPolicy", "CartPole-v1", n_steps=64, batch_size=64, seed=0)
    callback = OPECallback(cart, "auto", every=64, **SETTINGS)
    model.learn(128, callback=callback)
    direct = ov.evaluate(ov.load_dataset(cart), model, "auto", gamma=0.99, **SETTINGS)
    assert callback.last.value == pytest.approx(direct.value)


def test_the_statistics_of_the_training_environment_are_used():
    env = VecNormalize(DummyVecEnv([lambda: gym.make("Pendulum-v1")]))
    model = A2C("MlpPolicy", env, seed=0)
    data = log_to_dataset(model, env, 4)
    found = []

    class Direct(OPECallback):
        def _evaluate(self):
            super()._evaluate()
            policies = ov.as_policy(model.policy, normalize=env), ov.as_policy(model.policy)
            direct, raw = ov.evaluate(data, policies, "vpm", gamma=0.9, n_features=40)
            found.append((self.last.value, direct.value, raw.value))

    model.learn(100, callback=Direct(data, "vpm", every=50, gamma=0.9, n_features=40))
    assert len(found) == 3  # after 50 steps, after 100, and when the model has learnt from the last of them
    for logged, direct, raw in found:
        assert logged == pytest.approx(direct, rel=1e-9)
        assert logged != pytest.approx(raw, rel=1e-9)


def test_wrong_choices_are_answered_before_training(cart):
    with pytest.raises(ValueError, match="did you mean 'vpm'"):
        OPECallback(cart, "vpn")
    with pytest.raises(TypeError, match=r"no option 'n_featurs': did you mean 'n_features'\?"):
        OPECallback(cart, "vpm", n_featurs=5)
    with pytest.raises(ValueError, match="a whole number, at least 1 environment step: got 0"):
        OPECallback(cart, every=0)
    with pytest.raises(FileNotFoundError, match="there is no file"):
        OPECallback("nowhere.npz")
    with pytest.raises(ValueError, match="gamma must be between 0 and 1: got 2"):
        OPECallback(cart, gamma=2)
    with pytest.raises(ValueError, match="baseline must be 'logged' or a policy: got 'loged'"):
        OPECallback(cart, baseline="loged")


class Counting(gym.Env):
    """Counts its steps; it ends after three, and a wrapper may cut it before."""

    observation_space = gym.spaces.Box(0, 10, (1,), np.float32)
    action_space = gym.spaces.Discrete(2)

    def reset(self, *, seed=None, options=None):
        super().reset(seed=seed)
        self.count = 0
        return np.zeros(1, np.float32), {}

    def step(self, action):
        self.count += 1
        return np.full(1, self.count, np.float32), float(self.count), self.count == 3, False, {}


@pytest.mark.parametrize("limit", [2, 5])
@pytest.mark.parametrize("copies", [1, 2])
def test_every_column_of_a_log_is_what_the_environment_did(limit, copies, tmp_path):
    def made():
        return gym.wrappers.TimeLimit(Counting(), limit)

    model = PPO("MlpPolicy", Counting(), seed=0)
    env = made() if copies == 1 else DummyVecEnv([made] * copies)
    data = log_to_dataset(model, env, 3, tmp_path / "log.npz", seed=4)
    steps = min(limit, 3)
    assert data.lengths.tolist() == [steps] * 3
    assert data.observations[:, 0].tolist() == list(range(steps)) * 3
    assert data.next_observations[:, 0].tolist() == list(range(1, steps + 1)) * 3
    assert data.rewards.tolist() == list(range(1, steps + 1)) * 3
    assert data.terminated[data.ends].all() == (limit == 5)
    assert data.truncated[data.ends].all() == (limit == 2)
    chosen = ov.as_policy(model).log_prob(data.observations, data.actions)
    np.testing.assert_allclose(data.behaviour_log_prob, chosen, atol=1e-6)
    again = ov.load_dataset(tmp_path / "log.npz")
    assert again.actions.tolist() == data.actions.tolist()
    assert log_to_dataset(model, env, 3, seed=4).actions.tolist() == data.actions.tolist()


def test_raw_observations_are_logged_behind_a_normalisation():
    env = VecNormalize(DummyVecEnv([lambda: gym.make("Pendulum-v1")]))
    model = SAC("MlpPolicy", env, seed=0, learning_starts=10)
    model.learn(50)
    before = env.obs_rms.count
    data = log_to_dataset(model, env, 2)
    np.testing.assert_allclose(np.linalg.norm(data.observations[:, :2], axis=1), 1, atol=1e-5)  # cosine and sine
    assert env.obs_rms.count == before
    assert np.abs(data.actions).max() > 1  # torques up to 2, not the network's [-1, 1]
    policy = ov.as_policy(model)
    np.testing.assert_allclose(
        policy.log_likelihood(data.observations, data.actions), data.behaviour_log_prob, atol=1e-3
    )


def test_what_cannot_be_logged_is_refused_before_a_step(tmp_path):
    model = PPO("MlpPolicy", "CartPole-v1")
    with pytest.raises(ValueError, match="episodes must be a whole number, at least 1: got 0"):
        log_to_dataset(model, gym.make("CartPole-v1"), 0)
    with pytest.raises(ValueError, match=r"must end in \.npz"):
        log_to_dataset(model, gym.make("CartPole-v1"), 1, tmp_path / "log.txt")
    with pytest.raises(TypeError, match="must be a gymnasium environment or a VecEnv: got str"):
        log_to_dataset(model, "CartPole-v1", 1)
    with pytest.raises(TypeError, match="model must be an algorithm of stable-baselines3: got str"):
        log_to_dataset("ppo.zip", gym.make("CartPole-v1"), 1)


def test_a_log_is_overwritten_only_if_asked_to(tmp_path):
    model, path = PPO("MlpPolicy", "CartPole-v1"), tmp_path / "log.npz"
    log_to_dataset(model, gym.make("CartPole-v1"), 2, path)
    with pytest.raises(FileExistsError, match=r"log\.npz exists already: give another name, or overwrite=True"):
        log_to_dataset(model, gym.make("CartPole-v1"), 3, path)
    assert ov.load_dataset(path).n_episodes == 2
    log_to_dataset(model, gym.make("CartPole-v1"), 3, path, overwrite=True)
    assert ov.load_dataset(path).n_episodes == 3


def test_with_a_baseline_a_model_is_saved_only_where_it_is_better(cart, tmp_path):
    """The gate is that of a comparison; against a gain that nothing reaches no model passes."""
    model = PPO("MlpPolicy", "CartPole-v1", n_steps=64, batch_size=64, seed=0)
    data = ov.load_dataset(cart)
    for least, decision in ((-100.0, "better"), (100.0, "worse")):
        best = tmp_path / f"{decision}.zip"
        callback = OPECallback(
            data, "vpm", every=64, gamma=0.9, best_model=best, baseline="logged", min_gain=least, **SETTINGS
        )
        model.learn(64, callback=callback)
        found = ov.compare(data, ov.as_policy(model), "logged", "vpm", gamma=0.9, **SETTINGS)
        assert callback.gate.decision == found.gate(least, anytime=True).decision == decision
        assert callback.gate.interval == pytest.approx(found.anytime_interval)
        assert best.exists() == (decision == "better")
    with pytest.raises(ValueError, match="min_gain must be a finite number"):
        OPECallback(data, baseline="logged", min_gain=np.nan)
