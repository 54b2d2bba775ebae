"""Texts and images that are packed: what of them is refused before HDF5, Minari or Pillow unpack it."""

from types import SimpleNamespace

import h5py
import numpy as np
import PIL.Image
import pytest
from gymnasium import spaces

from ope_vpm.logged.formats.hdf5 import opened
from ope_vpm.logged.formats.minari import _check_groups, _images_as_claimed

TEXT = h5py.string_dtype()


def written(path, **settings):
    with h5py.File(path, "w", **settings) as file:
        file.create_dataset("plain", data=["a", "bc"], dtype=TEXT)
        file.create_dataset("chunked", data=["a", "bc"], dtype=TEXT, chunks=(1,))
        file.create_dataset("packed", data=["a", "bc"], dtype=TEXT, chunks=(2,), compression="gzip")
    return path


def test_texts_in_chunks_are_read_and_compressed_ones_refused(tmp_path):
    with opened(written(tmp_path / "log.h5")) as members:
        assert members.texts("plain") == ["a", "bc"]
        assert members.texts("chunked") == ["a", "bc"]
        with pytest.raises(ValueError, match="must not be compressed: pass trust=True"):
            members.texts("packed")


def test_texts_after_a_block_of_somebody_else_are_refused(tmp_path):
    """Their addresses do not count from the file's begin."""
    path, message = written(tmp_path / "log.h5", userblock_size=512), "addressed by eight bytes from the file's begin"
    with opened(path) as members, pytest.raises(ValueError, match=message):
        members.texts("plain")


def test_texts_addressed_by_four_bytes_are_refused(tmp_path):
    path, settings = tmp_path / "log.h5", h5py.h5p.create(h5py.h5p.FILE_CREATE)
    settings.set_sizes(4, 4)
    h5py.h5f.create(str(path).encode(), fcpl=settings).close()
    with h5py.File(path, "r+") as file:
        file.create_dataset("plain", data=["a"], dtype=TEXT)
    with opened(path) as members, pytest.raises(ValueError, match=r"got \(4, 4\)"):
        members.texts("plain")


def test_rows_that_could_be_packed_images(tmp_path):
    """Texts and rows of bytes could be images: 2 + 5 + 3 rows; numbers and single bytes could not."""
    path = tmp_path / "log.h5"
    with h5py.File(path, "w") as file:
        file.create_dataset("episode_0/texts", data=["a", "b"], dtype=TEXT)
        file["episode_0/bytes"] = np.zeros((5, 7), dtype=np.uint8)
        file["episode_1/inner/bytes"] = np.zeros((3, 2), dtype=np.uint8)
        file["episode_1/numbers"] = np.zeros((11, 2))
        file["episode_1/flags"] = np.zeros(13, dtype=np.uint8)
        file["episode_1/frames"] = np.zeros((17, 2, 2), dtype=np.uint8)
    with opened(path) as members:
        assert _check_groups(path, members) == (2, 10)


def test_images_unpack_to_no_more_than_the_space_has():
    """Only while an untrusted dataset is read."""
    box = spaces.Box(0, 255, (4, 5, 3), np.uint8)
    dataset = SimpleNamespace(observation_space=box, action_space=spaces.Discrete(2))
    before = PIL.Image.MAX_IMAGE_PIXELS
    with _images_as_claimed(dataset, trust=False):
        assert PIL.Image.MAX_IMAGE_PIXELS == 60
    with _images_as_claimed(dataset, trust=True):
        assert before == PIL.Image.MAX_IMAGE_PIXELS
    assert before == PIL.Image.MAX_IMAGE_PIXELS
