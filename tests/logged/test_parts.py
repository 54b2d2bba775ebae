"""Logs that were being written, empty sources, and outputs that cannot be written to."""

from types import SimpleNamespace

import numpy as np
import pytest
from gymnasium import spaces

import ope_vpm as ov
from ope_vpm.logged.formats import check_output, imitation, parts, save_as

STATES, ACTIONS = spaces.Box(-9.0, 9.0, (1,), dtype=np.float32), spaces.Discrete(3)


def columns(episode, first):
    size = len(episode)
    states = first + np.arange(float(size))[:, None]
    return {
        "observations": states,
        "actions": np.arange(size) % 2,
        "rewards": states[:, 0],
        "next_observations": states + 1,
        "terminated": np.zeros(size, dtype=bool),
        "truncated": np.zeros(size, dtype=bool),
        "episode": np.array(episode),
    }


def test_parts_are_joined_episode_by_episode(tmp_path):
    """Two environments side by side: the rows of episode 0 come first, in their order."""
    parts.write(tmp_path, 0, columns([0, 1, 0], 0.0), STATES, ACTIONS)
    parts.write(tmp_path, 1, columns([1, 0], 10.0), STATES, ACTIONS)
    data = ov.load_dataset(tmp_path)
    assert data.rewards.tolist() == [0, 2, 11, 1, 10]
    assert data.lengths.tolist() == [3, 2]
    assert data.action_space == ACTIONS
    assert data.observation_space == STATES


def test_spaces_that_are_given_take_the_place_of_those_in_the_parts(tmp_path):
    parts.write(tmp_path, 0, columns([0, 0], 0.0), STATES, ACTIONS)
    given = ov.load_dataset(tmp_path, action_space=spaces.Discrete(5))
    assert given.action_space == spaces.Discrete(5)
    assert given.observation_space == STATES


def test_a_folder_without_parts_is_no_log(tmp_path):
    assert not parts.matches(tmp_path)
    with pytest.raises(ValueError, match="holds no parts of a log"):
        ov.load_dataset(tmp_path, format="parts")


def test_an_empty_list_is_no_list_of_trajectories():
    one = SimpleNamespace(obs=np.zeros((3, 1)), acts=np.zeros((2, 1)), rews=np.zeros(2), terminal=True)
    assert imitation.matches([one])
    assert not imitation.matches([])
    assert not imitation.matches("")
    with pytest.raises((TypeError, ValueError)):
        ov.load_dataset([])


@pytest.mark.parametrize(("name", "error"), [("log.xlsx", ValueError), ("nowhere/log.npz", FileNotFoundError)])
def test_outputs_are_refused_before_any_work(tmp_path, name, error):
    with pytest.raises(error):
        check_output(str(tmp_path / name))


def test_outputs_by_their_ending(tmp_path):
    data = ov.LoggedDataset.from_arrays(np.zeros((2, 1)), np.zeros((2, 1)), np.arange(2.0), np.ones((2, 1)))
    check_output(str(tmp_path / "log.npz"))
    check_output("some/name-v0")
    save_as(data, str(tmp_path / "log.npz"))
    assert ov.load_dataset(tmp_path / "log.npz").rewards.tolist() == [0, 1]
