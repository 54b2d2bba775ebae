"""stable-baselines3 replay buffers of real training runs, against what the environment returned."""

import gymnasium as gym
import numpy as np
import pytest
from gymnasium import spaces
from stable_baselines3 import DQN, SAC
from stable_baselines3.common.buffers import DictReplayBuffer, ReplayBuffer
from stable_baselines3.common.vec_env import DummyVecEnv

from ope_vpm import inspect, load_dataset


def sac_on_pendulum(env, steps, **options):
    model = SAC(
        "MlpPolicy",
        env,
        learning_starts=60,
        train_freq=25,
        gradient_steps=2,
        policy_kwargs={"net_arch": [8]},
        seed=0,
        device="cpu",
        **options,
    )
    return model.learn(steps)


def check_rows(data, recorded):
    """Row by row what the environment returned, actions up to their trip through float32 and [-1, 1]."""
    observations, actions, rewards, following, terminated, truncated = recorded.columns()
    np.testing.assert_array_equal(data.observations, observations)
    np.testing.assert_allclose(data.actions, actions, atol=1e-6)
    np.testing.assert_allclose(data.rewards, rewards, rtol=1e-6)
    np.testing.assert_array_equal(data.next_observations, following)
    np.testing.assert_array_equal(data.terminated, terminated)
    # A limit reached on the very step that terminates counts as a termination there.
    np.testing.assert_array_equal(data.truncated, truncated & ~terminated)


def test_a_sac_run_on_pendulum(record):
    env = record(gym.make("Pendulum-v1"))
    model = sac_on_pendulum(env, 450)
    data = load_dataset(model.replay_buffer)
    check_rows(data, env)
    assert np.abs(data.actions).max() > 1.5  # [-2, 2], not the buffer's [-1, 1]
    assert data.lengths.tolist() == [200, 200, 50]
    assert data.truncated.sum() == 2
    assert data.from_reset.all()
    assert inspect(data).findings == ()


def test_a_ring_that_went_round_has_no_initial_state_at_its_seam(record):
    env = record(gym.make("Pendulum-v1"))
    model = sac_on_pendulum(env, 450, buffer_size=280)
    assert model.replay_buffer.pos == 170  # not half of the ring, where it does not matter which way it is turned
    data = load_dataset(model.replay_buffer)
    env.rows = env.rows[-280:]
    check_rows(data, env)
    assert data.lengths.tolist() == [30, 200, 50]
    assert data.from_reset.tolist() == [False, True, True]


def test_several_environments_are_laid_end_to_end(record):
    made = []

    def make():
        made.append(record(gym.make("Pendulum-v1")))
        return made[-1]

    env = DummyVecEnv([make, make])
    data = load_dataset(sac_on_pendulum(env, 500).replay_buffer)
    assert len(data) == 500
    for number, recorded in enumerate(made):
        check_rows(data.select(slice(2 * number, 2 * number + 2)), recorded)


def test_terminations_and_time_limits_are_told_apart(record):
    env = record(gym.make("CartPole-v1", max_episode_steps=15))
    model = DQN("MlpPolicy", env, learning_starts=10_000, exploration_fraction=1.0, seed=0, device="cpu")
    data = load_dataset(model.learn(300).replay_buffer)
    check_rows(data, env)
    assert data.terminated.any()
    assert data.truncated.any()
    assert data.action_space == spaces.Discrete(2)


def test_pickled_buffers_need_trust(record, same, tmp_path):
    model = sac_on_pendulum(record(gym.make("Pendulum-v1")), 250)
    model.save_replay_buffer(tmp_path / "buffer.pkl")
    with pytest.raises(PermissionError, match="pass trust=True"):
        load_dataset(tmp_path / "buffer.pkl")
    same(load_dataset(tmp_path / "buffer.pkl", trust=True), load_dataset(model.replay_buffer))


def test_dictionary_observations_are_laid_side_by_side():
    space = spaces.Dict({"b": spaces.Box(-1, 1, (2,)), "a": spaces.Box(-1, 1, (1,))})
    buffer = DictReplayBuffer(10, space, spaces.Discrete(2), device="cpu")
    for step in range(3):
        now = {"a": np.array([[step]]), "b": np.array([[10 + step, 20 + step]])}
        buffer.add(now, now, np.array([[1]]), np.array([0.0]), np.array([step == 1]), [{}])
    data = load_dataset(buffer)
    assert data.observations.tolist() == [[0, 10, 20], [1, 11, 21], [2, 12, 22]]
    assert data.terminated.tolist() == [False, True, False]
    assert data.actions.tolist() == [1, 1, 1]


def test_a_buffer_without_next_states_leaves_ends_unknown():
    buffer = ReplayBuffer(
        10,
        spaces.Box(-9, 9, (1,)),
        spaces.Discrete(2),
        device="cpu",
        optimize_memory_usage=True,
        handle_timeout_termination=False,
    )
    for step in range(4):
        now = np.array([[float(step)]])
        buffer.add(now, now + 1, np.array([[0]]), np.array([0.0]), np.array([step == 1]), [{}])
    data = load_dataset(buffer)
    assert data.next_known.tolist() == [True, False, True, False]


def test_an_empty_buffer_is_refused():
    buffer = ReplayBuffer(10, spaces.Box(-1, 1, (1,)), spaces.Discrete(2), device="cpu")
    with pytest.raises(ValueError, match="replay buffer is empty"):
        load_dataset(buffer)
