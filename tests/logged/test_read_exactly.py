"""What a reader could get silently wrong: precision, names, lengths, missing labels."""

import h5py
import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from gymnasium import spaces

from ope_vpm import LoggedDataset, load_dataset
from ope_vpm.envs.linear_gaussian import BEHAVIOUR, LinearGaussian

FAR = 1e7


def far_away(kind):
    """The columns of a linear-Gaussian log whose states lie at 1e7, in another type of number."""
    data = LinearGaussian().dataset(40, 30, BEHAVIOUR, seed=0)
    columns = {name: getattr(data, name) for name in ("actions", "rewards", "truncated", "terminated")}
    states, following = (column + FAR for column in (data.observations, data.next_observations))
    return columns | {"observations": states.astype(kind), "next_observations": following.astype(kind)}


@pytest.mark.parametrize("kind", [">f8", np.longdouble, "<f8"])
def test_no_precision_is_lost(kind, tmp_path):
    columns = far_away(kind)
    np.savez(tmp_path / "log.npz", **columns)
    read = [load_dataset(tmp_path / "log.npz"), LoggedDataset.from_arrays(**columns)]
    with h5py.File(tmp_path / "log.h5", "w") as file:
        for name, column in columns.items():
            file[{"terminated": "terminals", "truncated": "timeouts"}.get(name, name)] = column
    read.append(load_dataset(tmp_path / "log.h5"))
    expected = far_away(np.float64)
    for data in read:
        assert data.observations.dtype == np.float64
        assert data.observations.dtype.isnative
        np.testing.assert_array_equal(data.observations, expected["observations"])
        np.testing.assert_array_equal(data.next_observations, expected["next_observations"])


def test_half_and_single_precision_stay_single():
    for kind in (np.float16, np.float32, ">f4"):
        data = LoggedDataset.from_arrays(np.array([[0.5], [1.25]], kind), [[0.0], [1.0]], [1.0, 2.0])
        assert data.observations.dtype == np.float32
        np.testing.assert_array_equal(data.observations, [[0.5], [1.25]])


def test_the_more_precise_of_two_columns_decides():
    states, following = np.array([[1.0], [2.0]], np.float32), np.array([[1 + 1e-12], [3 + 1e-12]])
    data = LoggedDataset.from_arrays(states, [[0.0], [1.0]], [1.0, 2.0], following)
    assert data.observations.dtype == data.next_observations.dtype == np.float64
    np.testing.assert_array_equal(data.next_observations, following)


def test_large_integers_in_images_are_kept():
    pixels = np.array([[[2**24 + 1, 0]], [[3, 1]]])
    data = LoggedDataset.from_arrays(pixels, [0, 1], [1.0, 2.0])
    np.testing.assert_array_equal(data.observations, [[2**24 + 1, 0], [3, 1]])


def test_bounds_of_spaces_are_kept(tmp_path):
    low, high = np.array([FAR + 0.1]), np.array([FAR + 0.2])
    box = spaces.Box(low, high, dtype=np.float64)
    data = LoggedDataset.from_arrays([[FAR + 0.1], [FAR + 0.2]], [0, 1], [1.0, 2.0], observation_space=box)
    data.save(tmp_path / "log.npz")
    for one in (data, load_dataset(tmp_path / "log.npz")):
        assert one.observation_space.low == low
        assert one.observation_space.high == high


def test_columns_of_one_name_are_refused(tmp_path):
    (tmp_path / "log.csv").write_text("observation,action,reward,reward,episode\n1,0,2,3,0\n2,1,2,3,0\n")
    with pytest.raises(ValueError, match="must have different names: 'reward' comes twice"):
        load_dataset(tmp_path / "log.csv")
    columns = [pa.array([0.5, 1.5]), pa.array([0, 1]), pa.array([1.0, 2.0]), pa.array([3.0, 4.0]), pa.array([0, 0])]
    names = ["observation", "action", "reward", "reward", "episode"]
    pq.write_table(pa.Table.from_arrays(columns, names), tmp_path / "log.parquet")
    with pytest.raises(ValueError, match="must have different names: 'reward' comes twice"):
        load_dataset(tmp_path / "log.parquet")


CSV = "observation,action,reward,episode\n1,0,2,{}\n2,1,2,{}\n3,1,2,{}\n"


@pytest.mark.parametrize("cells", [("0", "nan", "1"), ("a", "", "b"), ("0", "", "1")])
def test_a_missing_episode_is_refused(cells, tmp_path):
    (tmp_path / "log.csv").write_text(CSV.format(*cells))
    with pytest.raises(ValueError, match="episode must be given in every row: row 1 has none"):
        load_dataset(tmp_path / "log.csv")


def test_a_missing_episode_in_parquet_is_refused(tmp_path):
    columns = {"observation": [0.5, 1.5], "action": [0, 1], "reward": [1.0, 2.0]}
    for episode, message in ((["a", None], "must have a value in every row"), ([0, None], "row 1 has none")):
        pq.write_table(pa.table(columns | {"episode": episode}), tmp_path / "log.parquet")
        with pytest.raises(ValueError, match=message):
            load_dataset(tmp_path / "log.parquet")


def test_long_labels_of_episodes_are_told_apart(tmp_path):
    """As floats, the two largest would be one number."""
    (tmp_path / "log.csv").write_text(CSV.format(2**64 + 1, 2**64 + 2, 2**64 + 2))
    assert load_dataset(tmp_path / "log.csv").starts.tolist() == [0, 1]


def d3rlpy_file(path, rewards, actions=(3, 3)):
    with h5py.File(path, "w") as file:
        file["version"], file["num_episodes"] = "2.1", len(actions)
        file["columns"] = ["observations", "actions", "rewards", "terminated"]
        for number, length in enumerate(actions):
            file[f"observations_{number}"] = np.arange(2.0 * length).reshape(length, 2)
            file[f"actions_{number}"] = np.zeros((length, 1))
            file[f"rewards_{number}"] = np.ones((rewards[number], 1))
            file[f"terminated_{number}"] = True
    return path


def test_rewards_that_fit_in_total_only_are_refused(tmp_path):
    assert len(load_dataset(d3rlpy_file(tmp_path / "good.h5", (3, 3)))) == 6
    with pytest.raises(ValueError, match=r"episode 0 of .* is ragged: 2 rewards against 3 actions"):
        load_dataset(d3rlpy_file(tmp_path / "bad.h5", (2, 4)))


def test_discrete_actions_must_be_whole(tmp_path):
    with h5py.File(tmp_path / "log.h5", "w") as file:
        file["observations"], file["rewards"] = np.arange(6.0).reshape(3, 2), np.ones(3)
        file["terminals"], file["discrete_action"] = np.array([0, 0, 1]), True
        file["actions"] = np.array([0.0, 1.5, 1.0])
    with pytest.raises(ValueError, match="actions must be whole numbers"):
        load_dataset(tmp_path / "log.h5")
