"""One flipped bit in the rows of a file that we wrote ourselves is noticed, wherever it is."""

import sys

import d3rlpy
import h5py
import numpy as np
import pyarrow.parquet as pq
import pytest

from ope_vpm import LoggedDataset, load_dataset, scan_dataset
from ope_vpm.cli import main


@pytest.fixture
def log():
    rng = np.random.default_rng(0)
    ended = np.arange(40) % 10 == 9
    return LoggedDataset.from_arrays(
        rng.normal(size=(40, 2)), rng.normal(size=(40, 1)), rng.normal(size=40), None, ended
    )


def flipped(path, places):
    """Files each with one bit flipped, at each of some places."""
    sound = path.read_bytes()
    for place in places:
        damaged = bytearray(sound)
        damaged[place] ^= 1 << place % 8
        path.write_bytes(damaged)
        yield place


def same(data, log):
    return all(
        np.array_equal(getattr(data, name), getattr(log, name))
        for name in ("observations", "actions", "rewards", "terminated")
    )


def test_pages_of_parquet(log, tmp_path):
    log.save(path := tmp_path / "log.parquet")
    column = pq.ParquetFile(path).metadata.row_group(0).column(0)
    first = column.dictionary_page_offset  # 40 numbers of 8 bytes, after a header of some 20
    for _ in flipped(path, range(first + 50, first + 320, 29)):
        with pytest.raises(ValueError, match="CRC checksum verification failed"):
            load_dataset(path)
        with pytest.raises(ValueError, match="CRC checksum verification failed"):
            scan_dataset(path).read()


def test_data_sets_of_hdf5(log, tmp_path):
    """A damaged file is refused, or what is read is as it was: bytes that nobody uses are without a checksum."""
    log.save(path := tmp_path / "log.h5")
    with h5py.File(path) as file:
        assert file["observations_0"].fletcher32
    refused = 0
    for place in flipped(path, range(0, path.stat().st_size, 31)):
        try:
            data = load_dataset(path)
        except ValueError:
            refused += 1
        else:
            assert same(data, log), place
    assert refused > 50


def test_d3rlpy_reads_what_has_checksums(log, tmp_path):
    log.save(tmp_path / "log.h5")
    with (tmp_path / "log.h5").open("rb") as file:
        buffer = d3rlpy.dataset.ReplayBuffer.load(file, d3rlpy.dataset.InfiniteBuffer())
    assert len(buffer.episodes) == 4
    assert np.array_equal(np.concatenate([episode.rewards for episode in buffer.episodes])[:, 0], log.rewards)
    assert [episode.terminated for episode in buffer.episodes] == [True] * 4


@pytest.mark.parametrize("suffix", ["parquet", "h5"])
def test_the_command_line_says_so_in_one_sentence(log, tmp_path, monkeypatch, capsys, suffix):
    log.save(path := tmp_path / f"log.{suffix}")
    numbers = log.rewards[:10].tobytes() if suffix == "h5" else log.rewards.tobytes()  # those of the first episode
    next(flipped(path, [path.read_bytes().index(numbers) + 7]))
    monkeypatch.setattr(sys, "argv", ["ope-vpm", "inspect", str(path)])
    with pytest.raises(SystemExit) as ended:
        main()
    assert ended.value.code == 2
    said = capsys.readouterr().err.strip().splitlines()[-1]
    assert str(path) in said
    assert "checksum" in said
