"""Parquet as LeRobot 3.0 writes it: lists of floats, `episode_index` and `frame_index`, tables about it in `meta`."""

import json

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import ope_vpm as ov

LENGTH, EPISODES = 5, 4
STATE, ACTION = pa.list_(pa.float32(), 2), pa.list_(pa.float32(), 1)


def written(folder, order=None, **changed):
    """A dataset of two files, and its states and rewards; `order` shuffles the rows of the first one."""
    rng = np.random.default_rng(0)
    n = LENGTH * EPISODES
    states, rewards = rng.normal(size=(n, 2)).astype(np.float32), rng.normal(size=n).astype(np.float32)
    columns = {
        "observation.state": pa.array(states.tolist(), STATE),
        "action": pa.array(rng.normal(size=(n, 1)).tolist(), ACTION),
        "next.reward": rewards,
        "next.done": np.tile(np.arange(LENGTH) == LENGTH - 1, EPISODES),
        "timestamp": np.tile(np.arange(LENGTH) / 10, EPISODES).astype(np.float32),
        "frame_index": np.tile(np.arange(LENGTH), EPISODES),
        "episode_index": np.repeat(np.arange(EPISODES), LENGTH),
        "index": np.arange(n),
        "task_index": np.zeros(n, dtype=np.int64),
    } | changed
    table = pa.table({name: column for name, column in columns.items() if column is not None})
    for number, rows in enumerate(np.split(np.arange(n), 2)):
        file = folder / "data" / "chunk-000" / f"file-{number:03d}.parquet"
        file.parent.mkdir(parents=True, exist_ok=True)
        pq.write_table(table.take(rows if order is None or number else rows[order]), file)
    (folder / "meta" / "episodes").mkdir(parents=True)
    (folder / "meta" / "info.json").write_text(json.dumps({"codebase_version": "v3.0", "fps": 10}))
    pq.write_table(pa.table({"task_index": [0]}), folder / "meta" / "tasks.parquet")
    pq.write_table(pa.table({"episode_index": [0], "length": [LENGTH]}), folder / "meta" / "episodes" / "file.parquet")
    return states, rewards


def test_states_rewards_and_episodes_are_recognised(tmp_path):
    states, rewards = written(tmp_path)
    data = ov.load_dataset(tmp_path)
    np.testing.assert_array_equal(data.observations, states)
    np.testing.assert_array_equal(data.rewards, rewards)
    assert data.actions.shape == (20, 1)
    assert data.n_episodes == EPISODES
    last = np.arange(20) % LENGTH == LENGTH - 1
    np.testing.assert_array_equal(data.terminated, last)
    np.testing.assert_array_equal(data.next_observations[~last], states[1:][~last[:-1]])
    value = ov.evaluate(data, lambda x: 0 * x[:, :1], "vpm", gamma=0.9)
    assert np.isfinite(value.value)


def test_without_done_the_state_after_a_last_frame_is_unknown(tmp_path):
    written(tmp_path, **{"next.done": None})
    data = ov.load_dataset(tmp_path)
    assert not data.terminated.any()
    np.testing.assert_array_equal(np.flatnonzero(~data.next_known), [4, 9, 14, 19])


def test_success_may_be_the_end_that_counts(tmp_path):
    written(tmp_path, **{"next.success": np.arange(20) == 9})
    data = ov.load_dataset(tmp_path, columns={"terminated": "next.success"})
    np.testing.assert_array_equal(np.flatnonzero(data.terminated), [9])
    assert data.n_episodes == EPISODES


def test_frames_out_of_order_are_refused(tmp_path):
    written(tmp_path, order=[0, 2, 1, 3, 4, 5, 6, 7, 8, 9])
    with pytest.raises(ValueError, match="2 is followed by 1 in one episode"):
        ov.load_dataset(tmp_path)


def test_a_table_takes_the_same_columns(tmp_path):
    """Here rows are sorted by the frame."""
    states, _ = written(tmp_path, order=[0, 2, 1, 3, 4, 5, 6, 7, 8, 9])
    file = tmp_path / "data" / "chunk-000" / "file-000.parquet"
    data = ov.from_table(file, state="observation.state", verbose=False)
    np.testing.assert_array_equal(data.observations, states[:10])
    assert data.encoding.action == ("action[0]",)
    assert data.n_episodes == 2
