"""Which format a file is of, by its content."""

from __future__ import annotations

import zipfile
from pathlib import Path

from ope_vpm.logged.formats import open_bandit, parts
from ope_vpm.optional import library
from ope_vpm.outside import reading

SUFFIXES = {
    ".npz": {"npz"},
    ".parquet": {"parquet"},
    ".csv": {"csv", "open-bandit"},
    ".h5": {"d3rlpy", "d4rl", "minari"},
    ".hdf5": {"d3rlpy", "d4rl", "minari"},
    ".pkl": {"sb3"},
    ".pickle": {"sb3"},
}
"""The formats that a name promises; other names promise nothing."""

KNOWN = "npz, Parquet, CSV, HDF5 of d3rlpy, D4RL or Minari, or a pickled replay buffer"


def sniff(path: Path) -> str:
    """The format's name, from the first bytes and, for containers, the names inside."""
    if path.is_dir():
        return _folder(path)
    with path.open("rb") as file:
        head = file.read(4096)
    if not head:
        raise ValueError(f"{path} is empty: it must be {KNOWN}")
    if head.startswith(b"\x89HDF\r\n\x1a\n"):
        return _hdf5(path)
    if head.startswith(b"PK\x03\x04"):
        return _zip(path)
    if head.startswith(b"PAR1"):
        return "parquet"
    if head[0] == 0x80 and head[1:2] in {b"\x02", b"\x03", b"\x04", b"\x05"}:
        return "sb3"
    if _is_text(head) and b"," in head.splitlines()[0]:
        return "open-bandit" if open_bandit.matches(path) else "csv"
    raise ValueError(f"{path} is of no format we know: it must be {KNOWN}")


def check_name(path: Path, found: str) -> None:
    """Refuse a file whose name promises another format than it holds."""
    promised = SUFFIXES.get(path.suffix.lower())
    if path.is_file() and promised is not None and found not in promised:
        raise ValueError(
            f"{path} is not what its name says: it holds {found} (rename it, or pass format={found!r} if that is right)"
        )


def _folder(path: Path) -> str:
    if any((path / name).is_file() for name in ("data/main_data.hdf5", "main_data.hdf5", "data/metadata.json")):
        return "minari"
    if parts.matches(path):
        return "parts"
    if open_bandit.matches(path):
        return "open-bandit"
    if any(each.is_file() for each in path.rglob("*.parquet")):
        return "parquet"
    raise ValueError(
        f"{path} is a folder, and not one of a Minari dataset, an Open Bandit campaign or Parquet files: give a file"
    )


def _hdf5(path: Path) -> str:
    with reading(path, "HDF5"), library("h5py", "d3rlpy").File(path, "r") as file:
        links = file.id.links  # asked of the links: h5py's own `in` would follow them into other files
        if links.exists(b"num_episodes") or links.exists(b"episode_terminals"):
            return "d3rlpy"
        return "minari" if any(name.startswith("episode_") for name in file) else "d4rl"


def _zip(path: Path) -> str:
    with reading(path, "an archive"), zipfile.ZipFile(path) as archive:
        names = archive.namelist()
    if any(name.endswith(".npy") for name in names):
        return "npz"
    if "policy.pth" in names:
        raise ValueError(f"{path} is a policy, not logged data: load it with load_policy")
    raise ValueError(f"{path} is an archive without arrays: it must be {KNOWN}")


def _is_text(head: bytes) -> bool:
    try:
        head.decode("utf-8")
    except UnicodeDecodeError as error:
        return error.start > len(head) - 4 and b"\x00" not in head
    return b"\x00" not in head
