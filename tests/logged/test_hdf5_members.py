"""Data sets of an HDF5 file by what they must be: one whole number, one truth value, texts."""

import h5py
import numpy as np
import pytest

from ope_vpm.logged.formats.hdf5 import opened


@pytest.fixture
def members(tmp_path):
    path = tmp_path / "log.h5"
    with h5py.File(path, "w") as file:
        file["whole"], file["unsigned"] = np.int64(7), np.uint8(3)
        file["real"], file["several"] = np.float64(7.0), np.array([7])
        file["yes"], file["one"], file["two"], file["pair"] = np.bool_(True), np.array([1.0]), 2, np.array([1, 0])
        file["group/inner"] = np.arange(3)
        file["text"] = "word"
    with opened(path) as found:
        yield found


def test_whole_numbers(members):
    assert members.whole_number("whole") == 7
    assert members.whole_number("unsigned") == 3
    for name in ("real", "several"):
        with pytest.raises(ValueError, match="must be one whole number"):
            members.whole_number(name)


def test_truth_values(members):
    assert members.flag("yes") is True
    assert members.flag("one") is True
    for name in ("two", "pair"):
        with pytest.raises(ValueError, match="must be one truth value"):
            members.flag(name)


def test_names_and_kinds(members):
    assert "group/inner" in members
    assert "group/other" not in members
    assert "nowhere/inner" not in members
    assert members.numbers("group/inner").tolist() == [0, 1, 2]
    assert members.texts("text") == ["word"]
    with pytest.raises(ValueError, match="must hold numbers"):
        members.numbers("text")
    with pytest.raises(ValueError, match="must hold text"):
        members.texts("whole")
    with pytest.raises(TypeError, match="must be a data set"):
        members.numbers("group")
