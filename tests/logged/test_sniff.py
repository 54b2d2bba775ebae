"""Which format a file is of, by its first bytes."""

import pytest

from ope_vpm.logged.formats import check_name, sniff


@pytest.mark.parametrize(
    ("head", "found"),
    [
        (b"a,b\n1,2\n", "csv"),
        ("é,b\n1,2\n".encode(), "csv"),
        (b"PAR1....", "parquet"),
        (b"\x80\x04abc", "sb3"),
        (b"\x80\x02abc", "sb3"),
        (b"a" * 4094 + ",é".encode(), "csv"),  # the head ends within a letter
    ],
)
def test_formats_by_their_first_bytes(tmp_path, head, found):
    path = tmp_path / "log"
    path.write_bytes(head)
    assert sniff(path) == found


@pytest.mark.parametrize(
    "head",
    [
        b"no comma in the first line\n1,2\n",
        b"\xff\xfe,binary,\x01",  # a comma, and no text
        b"a,b\x00c",
        b"a\x00b",
        b"\x80\x09abc",
        b"\xff\xfeno comma",
        b"a" * 4080 + b",\xff\xff\xffabcde",
        b"a,b\n\xf0(\x8c(",  # four bytes at the end that are no letter, rather than a part of one
    ],
)
def test_other_bytes_are_refused(tmp_path, head):
    path = tmp_path / "log"
    path.write_bytes(head)
    with pytest.raises(ValueError, match="of no format we know"):
        sniff(path)


def test_empty_files_are_refused(tmp_path):
    (tmp_path / "log").write_bytes(b"")
    with pytest.raises(ValueError, match="is empty"):
        sniff(tmp_path / "log")


@pytest.mark.parametrize(
    ("name", "found", "fits"), [("a.csv", "csv", 1), ("a.CSV", "npz", 0), ("a.h5", "d4rl", 1), ("a.x", "npz", 1)]
)
def test_names_must_keep_what_they_promise(tmp_path, name, found, fits):
    (tmp_path / name).write_bytes(b"x")
    if fits:
        check_name(tmp_path / name, found)
    else:
        with pytest.raises(ValueError, match="not what its name says"):
            check_name(tmp_path / name, found)
    check_name(tmp_path / "missing.csv", "npz")  # nothing is there that could be something else
