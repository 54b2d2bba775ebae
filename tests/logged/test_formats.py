"""Files of our own, tables, D4RL, imitation; and files that are not what they should be."""

import pickle
import sys
from dataclasses import dataclass, replace
from types import SimpleNamespace

import h5py
import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from gymnasium import spaces

from ope_vpm import LoggedDataset, inspect, load_dataset
from ope_vpm.logged.formats import _is_text


@pytest.mark.parametrize("suffix", [".npz", ".parquet"])
def test_round_trip(cartpole, same, tmp_path, suffix):
    data = replace(cartpole, behaviour_log_prob=np.full(len(cartpole), -0.7)).with_resets(
        np.arange(cartpole.n_episodes) > 0
    )
    data.save(tmp_path / f"log{suffix}")
    again = load_dataset(tmp_path / f"log{suffix}")
    same(data, again)
    assert again.observations.dtype == data.observations.dtype
    assert again.action_space == data.action_space
    assert again.observation_space == data.observation_space
    np.testing.assert_array_equal(again.behaviour_log_prob, data.behaviour_log_prob)
    assert [file.name for file in tmp_path.iterdir()] == [f"log{suffix}"]


def test_truncations_alone_say_where_episodes_end(tmp_path):
    (tmp_path / "a.csv").write_text("observation,action,reward,truncated\n1,0,2,0\n0,1,2,1\n1,1,3,1\n")
    np.savez(tmp_path / "a.npz", observations=[1, 0, 1], actions=[0, 1, 1], rewards=[2, 2, 3], truncated=[0, 1, 1])
    for file in ("a.csv", "a.npz"):
        data = load_dataset(tmp_path / file)
        assert data.lengths.tolist() == [2, 1]
        assert not data.terminated.any()


@pytest.mark.parametrize("suffix", [".npz", ".parquet"])
def test_round_trip_of_finite_states(same, tmp_path, suffix):
    data = LoggedDataset.from_arrays(
        [[0, 1], [1, 1], [1, 0]],
        [[0.5], [0.1], [0.2]],
        [1, 2, 3],
        truncated=[0, 1, 0],
        observation_space=spaces.MultiDiscrete([2, 2]),
        action_space=spaces.Box(-np.inf, 1, (1,)),
    )
    data.save(tmp_path / f"log{suffix}")
    again = load_dataset(tmp_path / f"log{suffix}")
    same(data, again)
    assert again.action_space == data.action_space
    assert again.observation_space == data.observation_space


def test_npz_can_be_memory_mapped(cartpole, same, tmp_path):
    cartpole.save(tmp_path / "log.npz")
    mapped = load_dataset(tmp_path / "log.npz", mmap=True)
    same(cartpole, mapped)
    assert isinstance(mapped.observations.base, np.memmap)


def test_failed_save_leaves_nothing(cartpole, tmp_path):
    broken = replace(cartpole)
    object.__setattr__(broken, "rewards", np.array([object()]))
    with pytest.raises(ValueError, match=r"[Oo]bject"):
        broken.save(tmp_path / "log.npz")
    assert list(tmp_path.iterdir()) == []
    with pytest.raises(FileNotFoundError, match=r"the folder of .* does not exist"):
        cartpole.save(tmp_path / "nowhere" / "log.npz")
    with pytest.raises(ValueError, match=r"must end in .npz, .parquet or .h5: got 'log.txt'"):
        cartpole.save(tmp_path / "log.txt")


CSV = """episode,x,y,action,reward,terminated
0,0.0,1.0,1,0.5,False
0,1.0,2.0,0,0.5,True
1,5.0,6.0,1,1.5,False
"""


def test_csv_by_mapping_and_by_convention(tmp_path):
    (tmp_path / "log.csv").write_text(CSV)
    data = load_dataset(tmp_path / "log.csv", columns={"observations": ["x", "y"]})
    assert data.observations.tolist() == [[0, 1], [1, 2], [5, 6]]
    assert data.actions.tolist() == [1, 0, 1]
    assert data.terminated.tolist() == [False, True, False]
    assert data.n_episodes == 2
    (tmp_path / "log.csv").write_text(CSV.replace(",x,y,", ",observation_0,observation_1,"))
    assert load_dataset(tmp_path / "log.csv").observations.tolist() == data.observations.tolist()


def test_numbered_columns_are_in_numeric_order(tmp_path):
    names = [f"observation_{index}" for index in range(12)]
    table = {name: [float(index)] * 2 for index, name in reversed(list(enumerate(names)))}
    pq.write_table(
        pa.table(table | {"action": [0, 1], "reward": [0.0, 1.0], "terminal": [False, True]}), tmp_path / "a"
    )
    assert load_dataset(tmp_path / "a").observations[0].tolist() == list(range(12))


def test_parquet_lists_are_vectors(tmp_path):
    table = pa.table({"obs": [[0.0, 1.0], [2.0, 3.0]], "action": [0, 1], "reward": [0.0, 1.0], "terminal": [0, 1]})
    pq.write_table(table, tmp_path / "log.parquet")
    assert load_dataset(tmp_path / "log.parquet").observations.tolist() == [[0, 1], [2, 3]]


def write_h5(path, **columns):
    with h5py.File(path, "w") as file:
        for name, values in columns.items():
            file[name] = values
    return path


D4RL = {
    "observations": np.arange(8, dtype=np.float32).reshape(4, 2),
    "actions": np.ones((4, 1), np.float32),
    "rewards": np.arange(4, dtype=np.float32),
    "terminals": np.array([False, True, False, False]),
}


def test_d4rl_names_the_column_that_is_too_short(tmp_path):
    with pytest.raises(ValueError, match="observations and actions must have the same length: 4 != 3"):
        load_dataset(write_h5(tmp_path / "a.hdf5", **D4RL | {"actions": D4RL["actions"][:3]}))


def test_d4rl_with_and_without_next_observations(tmp_path):
    timeouts = np.array([False, False, False, True])
    data = load_dataset(write_h5(tmp_path / "a.hdf5", **D4RL, timeouts=timeouts))
    assert data.next_known.tolist() == [True, False, True, False]
    assert data.truncated.tolist() == timeouts.tolist()
    following = D4RL["observations"] + 2
    file = write_h5(
        tmp_path / "b.hdf5",
        **D4RL,
        timeouts=timeouts,
        next_observations=following,
        **{"infos/action_log_probs": np.full(4, -1.0)},
    )
    data = load_dataset(file)
    assert data.next_known.all()
    np.testing.assert_array_equal(data.next_observations, following)
    assert data.behaviour_log_prob.tolist() == [-1.0] * 4


def test_d3rlpy_version_1(tmp_path):
    columns = D4RL | {"actions": np.array([0, 1, 1, 0]), "discrete_action": True}
    file = write_h5(tmp_path / "v1.h5", **columns, episode_terminals=np.array([0, 1, 0, 1]), version="1.0")
    data = load_dataset(file)
    assert data.terminated.tolist() == [False, True, False, False]
    assert data.truncated.tolist() == [False, False, False, True]
    assert data.actions.tolist() == [0, 1, 1, 0]


@dataclass
class Trajectory:
    """The attributes of imitation's TrajectoryWithRew."""

    obs: np.ndarray
    acts: np.ndarray
    rews: np.ndarray
    terminal: bool
    infos: list | None = None


def test_imitation_trajectories():
    states = np.arange(6.0).reshape(3, 2)
    cut = [{}, {"TimeLimit.truncated": True}]
    data = load_dataset(
        [
            Trajectory(states, np.array([0, 1]), np.array([1.0, 2.0]), True),
            Trajectory(states + 9, np.array([0, 1]), np.array([1.0, 2.0]), True, cut),
            Trajectory(states + 20, np.array([0, 1]), np.array([1.0, 2.0]), False),
        ]
    )
    assert data.n_episodes == 3
    assert data.terminated.tolist() == [False, True, False, False, False, False]
    assert data.truncated.tolist() == [False, False, False, True, False, False]
    assert data.next_known.all()
    assert data.next_observations[3].tolist() == [13, 14]
    bare = SimpleNamespace(obs=states, acts=np.array([0, 1]), terminal=True)
    with pytest.raises(ValueError, match="trajectory 0 has no rewards"):
        load_dataset([bare])


def test_missing_columns_are_listed(tmp_path):
    file = write_h5(tmp_path / "a.h5", observations=np.zeros((2, 2)), rewards=np.zeros(2))
    with pytest.raises(ValueError, match="lacks the columns actions, terminals: it has observations, rewards"):
        load_dataset(file)
    np.savez(tmp_path / "a.npz", observations=np.zeros((2, 2)))
    with pytest.raises(ValueError, match="lacks the columns actions, rewards"):
        load_dataset(tmp_path / "a.npz")
    (tmp_path / "a.csv").write_text("x,reward\n1,2\n")
    with pytest.raises(ValueError, match=r"lacks the columns observations, actions: it has reward, x \(map"):
        load_dataset(tmp_path / "a.csv")
    (tmp_path / "a.csv").write_text("observation,action,reward\n1,0,2\n")
    with pytest.raises(ValueError, match=r"lacks the columns terminated: .*or give an episode column or truncated"):
        load_dataset(tmp_path / "a.csv")
    with pytest.raises(ValueError, match=r"lacks the columns place: .*maps observations to them"):
        load_dataset(tmp_path / "a.csv", columns={"observations": "place"})
    with pytest.raises(ValueError, match="columns maps obs, but only observations"):
        load_dataset(tmp_path / "a.csv", columns={"obs": "place"})


def test_arrays_of_an_npz_by_usual_names_and_by_mapping(tmp_path):
    columns = {"actions": [0, 1, 1], "rewards": [2.0, 2.0, 3.0]}
    np.savez(tmp_path / "usual.npz", obs=[1, 0, 1], terminals=[0, 0, 1], timeouts=[0, 1, 0], **columns)
    data = load_dataset(tmp_path / "usual.npz")
    assert data.observations.tolist() == [1, 0, 1]
    assert data.terminated.tolist() == [False, False, True]
    assert data.truncated.tolist() == [False, True, False]
    np.savez(tmp_path / "own.npz", place=[1, 0, 1], over=[0, 1, 1], **columns)
    data = load_dataset(tmp_path / "own.npz", columns={"observations": "place", "terminated": "over"})
    assert data.observations.tolist() == [1, 0, 1]
    assert data.lengths.tolist() == [2, 1]
    with pytest.raises(ValueError, match=r"lacks the columns observations: .*\(map your names with columns="):
        load_dataset(tmp_path / "own.npz")
    with pytest.raises(ValueError, match=r"lacks the columns end: .*\(columns maps terminated to it\)"):
        load_dataset(tmp_path / "own.npz", columns={"observations": "place", "terminated": "end"})
    with pytest.raises(ValueError, match="is one array: columns maps observations to x, y"):
        load_dataset(tmp_path / "own.npz", columns={"observations": ["x", "y"]})


def test_columns_of_a_format_with_fixed_names_cannot_be_mapped(tmp_path):
    file = write_h5(tmp_path / "a.h5", observations=np.zeros((2, 2)), actions=np.zeros(2), rewards=np.zeros(2))
    with pytest.raises(ValueError, match=r"columns= is for files of npz, .*a\.h5 is of d4rl, whose names are fixed"):
        load_dataset(file, columns={"terminated": "dones"})


class Bomb:
    """Unpickling it would raise; it must not get that far."""

    def __reduce__(self):
        return (pytest.fail, ("the pickle was loaded",))


@pytest.mark.parametrize("protocol", [2, 3, 4, 5])
def test_a_pickle_is_not_loaded_without_trust(tmp_path, protocol):
    (tmp_path / "buffer.pkl").write_bytes(pickle.dumps(Bomb(), protocol))
    with pytest.raises(PermissionError, match="pass trust=True"):
        load_dataset(tmp_path / "buffer.pkl")


def test_pickled_arrays_inside_npz_are_not_loaded(tmp_path):
    np.savez(tmp_path / "a.npz", observations=np.array([Bomb()], object), actions=[0], rewards=[0], terminated=[0])
    for mmap in (False, True):
        with pytest.raises(ValueError, match=r"[Oo]bject"):
            load_dataset(tmp_path / "a.npz", mmap=mmap)


BAD = {
    "empty.h5": (b"", "is empty"),
    "noise.h5": (bytes(range(256)), "is of no format we know"),
    "cut.h5": (b"\x89HDF\r\n\x1a\n" + bytes(90), "cut.h5 cannot be read as HDF5"),
    "cut.npz": (b"PK\x03\x04" + bytes(40), "cut.npz cannot be read as an archive"),
    "text.h5": (CSV.encode(), "is not what its name says: it holds csv"),
    "cut.parquet": (b"PAR1" + bytes(40), "cannot be read as Parquet"),
    "ragged.csv": (b"observation,action,reward,episode\n1,0,2,0\n1,0\n", "line 3 .* 2 != 4"),
    "words.csv": (
        b"observation,action,reward,episode\n1,left,2,0\n",
        "column 'action' of .* must hold numbers: row 0 is 'left'",
    ),
    "header.csv": (b"observation,action,reward,episode\n", "at least one row"),
    "latin.csv": (
        b"observation,action,reward,episode\n" + b"1,0,2,0\n" * 600 + b"\xff,0,2,0\n",
        "cannot be read as csv",
    ),
    "fake.pkl": (b"\x80\x04not a pickle", "fake.pkl cannot be unpickled"),
}


@pytest.mark.parametrize("name", BAD)
def test_files_that_are_not_what_they_say(tmp_path, name):
    content, message = BAD[name]
    (tmp_path / name).write_bytes(content)
    with pytest.raises(ValueError, match=message):
        load_dataset(tmp_path / name, trust=True)


def test_other_sources_are_refused(tmp_path):
    with pytest.raises(FileNotFoundError, match="there is no file"):
        load_dataset(tmp_path / "nothing.npz")
    with pytest.raises(ValueError, match="is a folder"):
        load_dataset(tmp_path)
    with pytest.raises(TypeError, match="a dict is not a dataset we know"):
        load_dataset({})
    with pytest.raises(ValueError, match="format must be one of npz"):
        load_dataset(tmp_path, format="xls")
    with pytest.raises(TypeError, match="not a dataset we know"):
        load_dataset([1, 2], format="csv")


def test_format_by_hand_overrules_the_name(tmp_path):
    (tmp_path / "log.h5").write_text(CSV)
    assert len(load_dataset(tmp_path / "log.h5", format="csv", columns={"observations": ["x", "y"]})) == 3


@pytest.mark.parametrize(("module", "extra"), [("pyarrow", "parquet"), ("h5py", "d3rlpy"), ("minari", "minari")])
def test_a_missing_library_is_named_with_its_extra(module, extra, cartpole, tmp_path, monkeypatch):
    cartpole.save(tmp_path / "log.parquet")
    sources = {
        "pyarrow": tmp_path / "log.parquet",
        "h5py": write_h5(tmp_path / "log.h5", **D4RL),
        "minari": "cartpole-v0",
    }
    monkeypatch.setitem(sys.modules, module, None)  # what an uninstalled library looks like to import
    with pytest.raises(ImportError, match=rf"pip install 'ope-vpm\[{extra}\]'"):
        load_dataset(sources[module])


@pytest.mark.parametrize(
    ("head", "expected"),
    [
        (b"a,b\n", True),
        (b"a\x00b", False),
        (b"\xc3\xa9" * 2048, True),
        (b"x" * 4095 + b"\xc3", True),
        (b"\xc3abcde", False),
    ],
)
def test_text_is_what_decodes_but_for_a_letter_that_was_cut(head, expected):
    """The first 4096 bytes may end within a letter of two bytes; elsewhere half a letter is no text, nor is a zero."""
    assert _is_text(head) == expected
    assert not _is_text(b"\x00" + b"x" * 100 + b"\xc3")


def test_empty_cells_of_a_csv(tmp_path):
    """After last steps they are states that were not logged; elsewhere the doctor or the door names the row."""
    path = tmp_path / "log.csv"
    path.write_text("episode,state,action,reward,next_state\n0,3,1,0.5,4\n0,4,0,1,\n1,2,1,2,\n")
    data = load_dataset(path)
    assert data.next_observations.tolist() == [4, -1, -1]
    assert data.next_known.tolist() == [True, False, False]
    path.write_text("episode,state,action,reward\n0,3,1,0.5\n0,4,0,\n1,2,1,2\n")
    (found,) = [each for each in inspect(load_dataset(path)).findings if each.code == "not-finite"]
    assert found.rows == (1,)
    path.write_text("episode,state,action,reward\n0,3,1,0.5\n,4,0,1\n1,2,1,2\n")
    with pytest.raises(ValueError, match="episode must be given in every row: row 1 has none"):
        load_dataset(path)
