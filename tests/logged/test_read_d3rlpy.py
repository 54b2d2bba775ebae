"""d3rlpy buffers and files of a real run, against what the environment returned; and the way back."""

from dataclasses import replace

import d3rlpy
import gymnasium as gym
import h5py
import numpy as np
import pytest

from ope_vpm import inspect, load_dataset


@pytest.fixture
def run(record):
    """A short online DQN run on CartPole, and the rows that the environment returned."""
    env = record(gym.make("CartPole-v1", max_episode_steps=20))
    d3rlpy.seed(0)
    d3rlpy.envs.seed_env(env, 0)
    algo = d3rlpy.algos.DQNConfig(batch_size=8).create(device="cpu:0")
    buffer = d3rlpy.dataset.create_fifo_replay_buffer(limit=1000, env=env)
    explorer = d3rlpy.algos.ConstantEpsilonGreedy(0.8)
    algo.fit_online(
        env,
        buffer,
        explorer,
        n_steps=300,
        n_steps_per_epoch=300,
        update_interval=50,
        show_progress=False,
        logger_adapter=d3rlpy.logging.NoopAdapterFactory(),
    )
    return buffer, env


def check_rows(data, recorded):
    """Row by row what the environment returned; d3rlpy keeps no state after an episode's last step."""
    observations, actions, rewards, following, terminated, truncated = (
        column[: len(data)] for column in recorded.columns()
    )
    # d3rlpy knows "terminated" or not, and closes the episode under way when the run stops.
    truncated &= ~terminated
    truncated[-1] |= not terminated[-1]
    np.testing.assert_array_equal(data.observations, observations)
    np.testing.assert_array_equal(data.actions, actions)
    np.testing.assert_array_equal(data.rewards, rewards)
    np.testing.assert_array_equal(data.terminated, terminated)
    np.testing.assert_array_equal(data.truncated, truncated)
    np.testing.assert_array_equal(data.next_known, ~(terminated | truncated))
    np.testing.assert_array_equal(data.next_observations[data.next_known], following[data.next_known])
    assert terminated.any()
    assert truncated.any()


def test_a_run_as_object_and_as_file(run, same, tmp_path):
    buffer, env = run
    data = load_dataset(buffer)
    assert len(data) > 250
    check_rows(data, env)
    assert data.action_space == gym.spaces.Discrete(2)
    assert inspect(data).findings == ()
    with (tmp_path / "run.h5").open("w+b") as file:
        buffer.dump(file)
    same(load_dataset(tmp_path / "run.h5"), data)


def test_an_mdp_dataset_gives_back_its_columns():
    rng = np.random.default_rng(0)
    states = rng.normal(size=(40, 3)).astype(np.float32)
    actions = rng.normal(size=(40, 2)).astype(np.float32)
    terminals = (np.arange(40) % 10 == 9).astype(np.float32)
    dataset = d3rlpy.dataset.MDPDataset(states, actions, np.arange(40.0), terminals)
    data = load_dataset(dataset)
    np.testing.assert_array_equal(data.observations, states)
    np.testing.assert_array_equal(data.actions, actions)
    assert data.terminated.tolist() == terminals.astype(bool).tolist()
    # d3rlpy's own transition there goes to zeros, which are no state.
    assert not data.next_known[9]


def test_round_trip(run, same):
    data = load_dataset(run[0])
    same(load_dataset(data.to_d3rlpy()), data)


def test_round_trip_of_continuous_actions(same, rollout):
    data = rollout("Pendulum-v1", 400)
    known = np.arange(400) % 200 != 199
    same(load_dataset(data.to_d3rlpy()), replace(data, next_known=known))


def test_a_round_trip_trains(rollout):
    """d3rlpy itself accepts what we hand it."""
    buffer = rollout("CartPole-v1", 200).to_d3rlpy()
    algo = d3rlpy.algos.DQNConfig(batch_size=8).create(device="cpu:0")
    algo.build_with_dataset(buffer)
    assert algo.action_size == 2
    assert np.isfinite(algo.update(buffer.sample_transition_batch(8))["loss"])


def test_tuple_observations(tmp_path):
    episodes = [
        d3rlpy.dataset.Episode(
            [np.full((4, 2), number, np.float32), np.full((4, 1), 10 + number, np.float32)],
            np.zeros((4, 1), np.int32),
            np.zeros((4, 1), np.float32),
            True,
        )
        for number in range(2)
    ]
    buffer = d3rlpy.dataset.create_infinite_replay_buffer(episodes)
    with (tmp_path / "tuple.h5").open("w+b") as file:
        buffer.dump(file)
    for data in (load_dataset(buffer), load_dataset(tmp_path / "tuple.h5")):
        assert data.observations[4].tolist() == [1, 1, 11]
        assert data.n_episodes == 2


def damaged(run, path, change):
    with path.open("w+b") as file:
        run[0].dump(file)
    with h5py.File(path, "a") as file:
        change(file)
    return path


def test_damaged_files_are_refused(run, tmp_path):
    def shorten(file):
        cut = file["observations_1"][:-1]
        del file["observations_1"]
        file["observations_1"] = cut

    with pytest.raises(ValueError, match=r"episode 1 of .* is ragged"):
        load_dataset(damaged(run, tmp_path / "ragged.h5", shorten))

    def drop(file):
        del file["rewards_3"]

    with pytest.raises(ValueError, match="lacks the columns rewards_3"):
        load_dataset(damaged(run, tmp_path / "missing.h5", drop))

    def age(file):
        del file["version"]
        file["version"] = "2.0"

    with pytest.raises(ValueError, match=r"format 2.0: only 2.1 and 1 are known"):
        load_dataset(damaged(run, tmp_path / "old.h5", age))


@pytest.mark.parametrize(
    ("name", "value", "message"),
    [
        ("num_episodes", 0, "must hold at least one episode: it claims 0"),
        ("num_episodes", 2.0, "must be one whole number"),
        ("num_episodes", [2], "must be one whole number"),
        ("terminated_0", 2, "must be one truth value"),
        ("terminated_0", [0, 1], "must be one truth value"),
    ],
)
def test_numbers_of_the_wrong_kind_are_refused(name, value, message, run, tmp_path):
    def change(file):
        del file[name]
        file[name] = value

    with pytest.raises(ValueError, match=message):
        load_dataset(damaged(run, tmp_path / "log.h5", change))


def buffer_of(*episodes):
    """A buffer of episodes with these actions, whose kind d3rlpy is to find."""
    made = [
        d3rlpy.dataset.Episode(np.zeros((len(acts), 2)), np.array(acts)[:, None], np.ones((len(acts), 1)), True)
        for acts in episodes
    ]
    return d3rlpy.dataset.ReplayBuffer(d3rlpy.dataset.InfiniteBuffer(), episodes=made)


def test_discrete_actions_that_are_stored_as_floats(tmp_path):
    buffer = buffer_of([0.0, 2.0], [1.0])
    with (tmp_path / "log.h5").open("w+b") as file:
        buffer.dump(file)
    for data in (load_dataset(buffer), load_dataset(tmp_path / "log.h5")):
        assert data.discrete_actions
        assert data.actions.tolist() == [0, 2, 1]
    box = gym.spaces.Box(0, 2, (1,))
    assert not load_dataset(tmp_path / "log.h5", action_space=box).discrete_actions


def test_continuous_actions_that_begin_with_whole_numbers_are_not_cut_off(tmp_path):
    """d3rlpy looks at the first episode alone, and takes these for discrete."""
    buffer = buffer_of([1.0, 0.0], [0.25, 0.75])
    assert buffer.dataset_info.action_space.name == "DISCRETE"
    with (tmp_path / "log.h5").open("w+b") as file:
        buffer.dump(file)
    for data in (load_dataset(buffer), load_dataset(tmp_path / "log.h5")):
        assert data.actions[:, 0].tolist() == [1.0, 0.0, 0.25, 0.75]
