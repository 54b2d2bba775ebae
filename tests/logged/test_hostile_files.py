"""Datasets made to run code, to read other files, to block, or to fill the memory."""

import json
import os
import subprocess
import sys
import zipfile
import zlib

import gymnasium as gym
import h5py
import minari
import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from test_read_exactly import d3rlpy_file

from ope_vpm import inspect, load_dataset

D4RL = {
    "observations": np.arange(8.0).reshape(4, 2),
    "actions": np.zeros((4, 1)),
    "rewards": np.ones(4),
    "terminals": np.array([0, 1, 0, 1]),
}


def d4rl_file(path, **changes):
    with h5py.File(path, "w") as file:
        for name, column in D4RL.items():
            if name not in changes:
                file[name] = column
        for name, change in changes.items():
            change(file, name)
    return path


def secret(path):
    """Another file, with columns that must not be read through a dataset."""
    with h5py.File(path, "w") as file:
        file["observations"] = np.full((4, 2), 42.0)
    return path


def test_hdf5_links_to_other_files(tmp_path):
    other = secret(tmp_path / "secret.h5")

    def external(file, name):
        file[name] = h5py.ExternalLink(str(other), "/observations")

    def soft(file, name):
        file["elsewhere"] = h5py.ExternalLink(str(other), "/")
        file[name] = h5py.SoftLink("/elsewhere/observations")

    for link in (external, soft):
        with pytest.raises(ValueError, match="is a link, which may lead to another file"):
            load_dataset(d4rl_file(tmp_path / "log.h5", observations=link))


def test_hdf5_storage_in_other_files(tmp_path):
    np.full((4, 2), 42.0).tofile(tmp_path / "secret.bin")
    other = secret(tmp_path / "secret.h5")

    def raw(file, name, target="secret.bin"):
        where = [(str(tmp_path / target), 0, h5py.h5f.UNLIMITED)]
        file.create_dataset(name, (4, 2), "f8", external=where)

    def missing(file, name):  # which HDF5 reads as zeros
        raw(file, name, "nowhere.bin")

    def virtual(file, name):
        layout = h5py.VirtualLayout((4, 2), "f8")
        layout[:] = h5py.VirtualSource(str(other), "observations", (4, 2))
        file.create_virtual_dataset(name, layout)

    for storage in (raw, missing, virtual):
        with pytest.raises(ValueError, match="keeps its numbers in another file"):
            load_dataset(d4rl_file(tmp_path / "log.h5", observations=storage))


def test_hdf5_claims_beyond_the_file(tmp_path):
    def contiguous(file, name):  # late allocation: nothing is written
        file.create_dataset(name, (10**9, 2), "f8")

    def chunked(file, name):
        file.create_dataset(name, (10**9, 2), "f8", chunks=(1000, 2))

    def partly(file, name):
        file.create_dataset(name, (4, 2), "f8", chunks=(2, 2))[:2] = 1.0

    for claim, message in ((contiguous, "of which 0 were written"), (chunked, "of which 0"), (partly, "of which 1")):
        with pytest.raises(ValueError, match=message):
            load_dataset(d4rl_file(tmp_path / "log.h5", observations=claim))


def test_hdf5_chunks_that_unpack_to_more_than_they_claim(tmp_path):
    """400 MB of zeros in a chunk of 32 bytes: HDF5 itself would unpack them all."""

    def bomb(file, name):
        made = file.create_dataset(name, (4, 2), "f8", chunks=(4, 2), compression="gzip")
        made.id.write_direct_chunk((0, 0), zlib.compress(bytes(400 << 20), 9))

    with pytest.raises(ValueError, match="holds a chunk that unpacks beyond the 64 bytes it claims"):
        load_dataset(d4rl_file(tmp_path / "log.h5", observations=bomb))


def test_compressed_hdf5_is_read(tmp_path):
    def packed(file, name):
        file.create_dataset(name, data=D4RL[name], chunks=(2, 2), compression="gzip", shuffle=True, fletcher32=True)

    def quick(file, name):
        file.create_dataset(name, data=D4RL[name], chunks=(3, 2), compression="lzf")

    for pack in (packed, quick):
        data = load_dataset(d4rl_file(tmp_path / "log.h5", observations=pack))
        np.testing.assert_array_equal(data.observations, D4RL["observations"])


def test_a_billion_episodes_are_not_believed(tmp_path):
    path = d3rlpy_file(tmp_path / "log.h5", (3, 3))
    with h5py.File(path, "r+") as file:
        del file["num_episodes"]
        file["num_episodes"] = 10**9
    with pytest.raises(ValueError, match="lacks the columns actions_2"):
        load_dataset(path)


def test_an_npz_that_unpacks_to_a_gigabyte(tmp_path):
    with zipfile.ZipFile(tmp_path / "log.npz", "w", zipfile.ZIP_DEFLATED) as archive:
        with archive.open("observations.npy", "w", force_zip64=True) as member:
            np.lib.format.write_array_header_1_0(
                member, {"descr": "<f8", "fortran_order": False, "shape": (1 << 26, 2)}
            )
            for _ in range(64):
                member.write(bytes(1 << 24))
        for name in ("actions", "rewards", "terminated"):
            with archive.open(f"{name}.npy", "w") as member:
                np.lib.format.write_array(member, np.zeros(4))
    assert (tmp_path / "log.npz").stat().st_size < 2_000_000
    with pytest.raises(PermissionError, match=r"unpacks to 1073.*pass trust=True"):
        load_dataset(tmp_path / "log.npz")


def test_compressed_npz_is_read(cartpole, same, tmp_path):
    cartpole.save(tmp_path / "plain.npz")
    with np.load(tmp_path / "plain.npz") as archive:
        np.savez_compressed(tmp_path / "packed.npz", **dict(archive))
    same(load_dataset(tmp_path / "packed.npz"), cartpole)


@pytest.mark.parametrize("mmap", [False, True])
def test_npy_headers_that_claim_other_sizes(mmap, cartpole, tmp_path):
    cartpole.save(tmp_path / "log.npz")
    with zipfile.ZipFile(tmp_path / "log.npz") as old, zipfile.ZipFile(tmp_path / "bad.npz", "w") as new:
        for name in old.namelist():
            new.writestr(name, old.read(name).replace(b"(400, 4)", b"(399, 4)"))
    with pytest.raises(ValueError, match="claims 6384 bytes of numbers and holds 6400"):
        load_dataset(tmp_path / "bad.npz", mmap=mmap)


def test_a_parquet_file_of_one_repeated_value(tmp_path):
    rows = 40_000_000
    column = pa.chunked_array([pa.array(np.zeros(1_000_000))] * (rows // 1_000_000))
    with pq.ParquetWriter(tmp_path / "log.parquet", pa.schema([("observation", pa.float64())])) as writer:
        writer.write_table(pa.table({"observation": column}), row_group_size=rows)
    assert (tmp_path / "log.parquet").stat().st_size < 1_000_000
    with pytest.raises(PermissionError, match=r"unpacks to 320000000.*pass trust=True"):
        load_dataset(tmp_path / "log.parquet")


FLIPPER = """
import sys
from ope_vpm import load_dataset, scan_dataset
path, sound = sys.argv[1], open(sys.argv[1], 'rb').read()
footer = len(sound) - 8 - int.from_bytes(sound[-8:-4], 'little')
for bit in range(8 * 100):
    damaged = bytearray(sound)
    damaged[footer + bit // 8] ^= 1 << bit % 8
    open(path, 'wb').write(damaged)
    for read in (load_dataset, scan_dataset):
        try:
            read(path)
        except (ValueError, PermissionError) as error:
            print(error)
"""


def test_flipped_bits_in_a_parquet_footer_do_not_end_the_process(tmp_path):
    """A column that became required has a histogram of two levels instead of one, about which Arrow's C++ throws."""
    pq.write_table(pa.table(LABELLED | {"episode": [0, 0, 1]}), tmp_path / "log.parquet")
    command = [sys.executable, "-c", FLIPPER, str(tmp_path / "log.parquet")]
    environment = os.environ | {"PYTHONPATH": os.pathsep.join(sys.path)}
    done = subprocess.run(command, capture_output=True, text=True, env=environment, check=False)
    assert done.returncode == 0, done.stderr[-300:]
    assert "cannot be read as Parquet: Definition level histogram size mismatch" in done.stdout


def test_a_parquet_column_whose_name_has_a_dot_counts(tmp_path):
    """Its path reads like that of a part of another column."""
    rows = 12_000_000
    schema = pa.schema([("x.y", pa.int8()), ("action", pa.int8()), ("reward", pa.int8())])
    with pq.ParquetWriter(tmp_path / "log.parquet", schema) as writer:
        writer.write_table(pa.table([pa.array(np.zeros(rows, np.int8))] * 3, schema), row_group_size=rows)
    with pytest.raises(PermissionError, match=r"unpacks to 288000000.*pass trust=True"):
        load_dataset(tmp_path / "log.parquet", columns={"observations": "x.y"})


@pytest.mark.parametrize("kind", ["pipe", "device"])
def test_only_regular_files_are_opened(kind, tmp_path):
    path = tmp_path / "log.csv"
    if kind == "pipe":
        os.mkfifo(path)
    else:
        path.symlink_to("/dev/zero")
    with pytest.raises(ValueError, match="must be a regular file"):
        load_dataset(path)
    with pytest.raises(ValueError, match="must be a regular file"):
        load_dataset(path, format="csv")


@pytest.fixture
def folder(tmp_path, monkeypatch):
    """A real Minari dataset of three short episodes."""
    monkeypatch.setenv("MINARI_DATASETS_PATH", str(tmp_path))
    env = minari.DataCollector(gym.make("CartPole-v1", max_episode_steps=5))
    for seed in range(3):
        env.reset(seed=seed)
        env.action_space.seed(seed)
        ended = False
        while not ended:
            _, _, terminated, truncated, _ = env.step(env.action_space.sample())
            ended = terminated or truncated
    env.create_dataset("cartpole/short-v0")
    return tmp_path / "cartpole" / "short-v0" / "data"


# Minari comments on what its metadata lacks.
@pytest.mark.filterwarnings("ignore::UserWarning")
def test_a_minari_folder_runs_nothing(folder, tmp_path):
    """Without spaces, Minari calls whatever function its metadata name as environment."""
    notes = json.loads((folder / "metadata.json").read_text())
    assert load_dataset(folder).n_episodes == 3
    command = {"id": "Bomb-v0", "entry_point": "os:mkdir", "kwargs": {"path": str(tmp_path / "stolen")}}
    spec = json.loads(notes["env_spec"]) | command
    bad = {name: value for name, value in notes.items() if name != "observation_space"} | {"env_spec": json.dumps(spec)}
    (folder / "metadata.json").write_text(json.dumps(bad))
    for source in (folder, folder.parent, "cartpole/short-v0"):
        with pytest.raises(PermissionError, match="lacks observation_space, and Minari then runs what it names"):
            load_dataset(source)
    assert not (tmp_path / "stolen").exists()


@pytest.mark.filterwarnings("ignore::UserWarning")
def test_a_minari_folder_claims_only_what_it_holds(folder):
    notes = json.loads((folder / "metadata.json").read_text())
    (folder / "metadata.json").write_text(json.dumps(notes | {"total_episodes": 10**9}))
    with pytest.raises(ValueError, match="claims 1000000000 episodes: there are 3"):
        load_dataset(folder)
    (folder / "metadata.json").write_text(json.dumps(notes))
    with h5py.File(folder / "main_data.hdf5", "r+") as file:
        del file["episode_1"]["rewards"]
        file["episode_1"]["rewards"] = h5py.ExternalLink("secret.h5", "/observations")
    with pytest.raises(ValueError, match=r"rewards in .* is a link, which may lead to another file"):
        load_dataset(folder)
    os.unlink(folder / "metadata.json")
    os.mkfifo(folder / "metadata.json")
    with pytest.raises(ValueError, match="must be a regular file"):
        load_dataset(folder)


@pytest.mark.filterwarnings("ignore::UserWarning")
@pytest.mark.parametrize("trust", [False, True])
def test_a_pipe_beside_the_files_of_minari_is_left_alone(folder, trust):
    os.mkfifo(folder / "pipe")
    os.mkfifo(folder.parent / "pipe.csv")
    assert load_dataset(folder, trust=trust).n_episodes == 3
    assert load_dataset(folder.parent, trust=trust).n_episodes == 3
    assert load_dataset(folder / "main_data.hdf5", trust=trust).n_episodes == 3
    os.unlink(folder / "main_data.hdf5")
    os.mkfifo(folder / "main_data.hdf5")
    with pytest.raises(ValueError, match=r"main_data\.hdf5 must be a regular file"):
        load_dataset(folder, format="minari", trust=trust)


SENTENCES = {
    "long.csv": (b"observation,action\n" + b"1" * 200_000 + b",2\n", "field larger than field limit"),
    "quotes.csv": (b'observation,action\n"1"2,3\n', "cannot be read as csv"),
    "header.npz": (None, "EOF in multi-line statement|cannot be read as npz"),
}


@pytest.mark.parametrize("name", SENTENCES)
def test_what_parsers_raise_becomes_one_sentence(name, cartpole, tmp_path):
    content, message = SENTENCES[name]
    path = tmp_path / name
    if content is None:
        cartpole.save(path)
        with zipfile.ZipFile(path) as archive:
            members = {member: archive.read(member) for member in archive.namelist()}
        with zipfile.ZipFile(path, "w") as archive:
            for member, data in members.items():
                # An open bracket: numpy's reader raises tokenize.TokenError here.
                archive.writestr(member, data.replace(b"'shape': (400, 4)", b"'shape': ((((400"))
    else:
        path.write_bytes(content)
    with pytest.raises(ValueError, match=message) as caught:
        load_dataset(path)
    assert "\n" not in str(caught.value)
    assert str(path) in str(caught.value)


def test_a_text_of_two_gigabytes_that_was_never_written(tmp_path):
    path = d3rlpy_file(tmp_path / "log.h5", (3, 3))
    with h5py.File(path, "r+") as file:
        del file["version"]
        file.create_dataset("version", (), dtype=h5py.string_dtype("ascii", 2_000_000_000))
    with pytest.raises(ValueError, match=r"version in .* claims 2000000000 bytes, of which 0 were written"):
        load_dataset(path)


def test_a_link_on_the_way_to_a_column_is_not_followed(tmp_path):
    os.mkfifo(tmp_path / "pipe")
    path = d4rl_file(tmp_path / "log.h5")
    with h5py.File(path, "r+") as file:
        file["infos"] = h5py.ExternalLink(str(tmp_path / "pipe"), "/")
    with pytest.raises(ValueError, match=r"infos in .* is a link"):
        load_dataset(path)


LABELLED = {"observation": [0.5, 1.5, 2.5], "action": [0, 1, 0], "reward": [1.0, 2.0, 3.0]}


def test_parquet_texts_are_held_once(tmp_path):
    pq.write_table(pa.table(LABELLED | {"episode": ["a", "b", "b"]}), tmp_path / "log.parquet")
    assert load_dataset(tmp_path / "log.parquet").starts.tolist() == [0, 1]
    rows = 2000  # each with the same text of 100 KB, which the file holds once
    columns = {name: np.resize(column, rows) for name, column in LABELLED.items()}
    long = pa.DictionaryArray.from_arrays(np.zeros(rows, np.int32), ["x" * 100_000]).cast(pa.string())
    pq.write_table(pa.table(columns | {"episode": long, "note": long}), tmp_path / "log.parquet")
    assert (tmp_path / "log.parquet").stat().st_size < 2_000_000
    with pytest.raises(ValueError, match="a text must have at most 1000 characters: one has 100000"):
        load_dataset(tmp_path / "log.parquet")
    pq.write_table(pa.table(columns | {"episode": np.zeros(rows), "note": long}), tmp_path / "log.parquet")
    assert len(load_dataset(tmp_path / "log.parquet")) == rows  # other columns are not read


def test_a_parquet_row_with_a_hundred_million_numbers(tmp_path):
    states = pa.ListArray.from_arrays([0, 100_000_000, 100_000_001, 100_000_002], np.zeros(100_000_002, np.int8))
    pq.write_table(pa.table(LABELLED | {"observation": states, "episode": [0, 0, 0]}), tmp_path / "log.parquet")
    assert (tmp_path / "log.parquet").stat().st_size < 1_000_000
    with pytest.raises(PermissionError, match=r"unpacks to 8000000.*pass trust=True"):
        load_dataset(tmp_path / "log.parquet")


def test_csv_cells_and_lines(tmp_path):
    """As an array of text, one cell of 100 KB would take 100 KB in every row."""
    rows = "1,0,2,a\n" * 20_000
    for line, message in (("1,0,2," + "a" * 100_000 + "\n", "a cell of 100000 characters"), ("\n", "0 != 4")):
        (tmp_path / "log.csv").write_text(f"observation,action,reward,episode\n{rows}{line}{rows}")
        with pytest.raises(ValueError, match=f"line 20002 of .* {message}"):
            load_dataset(tmp_path / "log.csv")


def test_a_single_large_action_does_not_fill_the_memory(tmp_path):
    rng = np.random.default_rng(0)
    rows = [f"{rng.normal()},{10**12 if row == 7 else row % 2},1,{row // 50}" for row in range(500)]
    (tmp_path / "log.csv").write_text("\n".join(["observation,action,reward,episode", *rows, ""]))
    data = load_dataset(tmp_path / "log.csv")
    assert data.n_actions == 10**12 + 1
    inspect(data)


def test_notes_on_spaces_are_bounded(cartpole, tmp_path):
    cartpole.save(tmp_path / "log.npz")
    with np.load(tmp_path / "log.npz") as archive:
        columns = dict(archive) | {"spaces": np.array("[" * (17 << 20))}
    np.savez_compressed(tmp_path / "log.npz", **columns)
    with pytest.raises(ValueError, match="settings must be at most 16777216 bytes of JSON"):
        load_dataset(tmp_path / "log.npz")


# zipfile warns of what the test wants.
@pytest.mark.filterwarnings("ignore:Duplicate name")
def test_members_that_are_there_twice(cartpole, tmp_path):
    cartpole.save(tmp_path / "log.npz")
    with zipfile.ZipFile(tmp_path / "log.npz", "a") as archive, archive.open("rewards.npy", "w") as member:
        np.lib.format.write_array(member, np.zeros(400))
    with pytest.raises(ValueError, match="must hold every member once"):
        load_dataset(tmp_path / "log.npz")


@pytest.mark.filterwarnings("ignore::UserWarning")
def test_a_damaged_minari_dataset_by_its_id(folder):
    (folder / "metadata.json").write_text("{")
    with pytest.raises(ValueError, match="short-v0 cannot be read as a Minari dataset: Expecting property name"):
        load_dataset("cartpole/short-v0")


def test_resets_must_be_flags(tmp_path):
    (tmp_path / "log.csv").write_text("observation,action,reward,episode,from_reset\n1,0,2,0,nan\n2,1,2,0,0\n")
    with pytest.raises(ValueError, match="from_reset must hold only true or false"):
        load_dataset(tmp_path / "log.csv")


@pytest.mark.parametrize("size", [2**64 - 16, 2**64 - 1, 2**40, 5000])
def test_damaged_heaps_of_texts(size, tmp_path):
    """HDF5 2.0 reads some of them for ever."""
    path = d3rlpy_file(tmp_path / "log.h5", (3, 3))
    content = path.read_bytes()
    at = content.index(b"GCOL") + 16 + 8  # the heap's head, then the first object's index, count and size
    path.write_bytes(content[:at] + size.to_bytes(8, "little") + content[at + 8 :])
    with pytest.raises(ValueError, match=r"a heap of texts in .* must be whole"):
        load_dataset(path)


def test_texts_beyond_their_heap(tmp_path):
    path = d3rlpy_file(tmp_path / "log.h5", (3, 3))
    content = path.read_bytes()
    with h5py.File(path, "r") as file:
        at = file["version"].id.get_offset()
    length, address = (10**6).to_bytes(4, "little"), (2**62).to_bytes(8, "little")
    for place, value, message in ((at, length, "must be in its heap"), (at + 4, address, "ends before byte")):
        path.write_bytes(content[:place] + value + content[place + len(value) :])
        with pytest.raises(ValueError, match=message):
            load_dataset(path)


def test_heaps_beyond_the_end_of_the_file(tmp_path):
    path = d3rlpy_file(tmp_path / "log.h5", (3, 3))
    content = path.read_bytes()
    at = content.index(b"GCOL") + 8  # the heap's signature and version, then its size
    path.write_bytes(content[:at] + len(content).to_bytes(8, "little") + content[at + 8 :])
    with pytest.raises(ValueError, match="must hold the texts that it refers to: it ends before byte"):
        load_dataset(path)


def test_one_episode_is_enough(tmp_path):
    assert load_dataset(d3rlpy_file(tmp_path / "log.h5", (3,), (3,))).n_episodes == 1
