"""Formats and policies of another package, found by the entry points of examples/json_files."""

import importlib
import json
import shutil
import sys
import tomllib
from pathlib import Path

import numpy as np
import pytest

import ope_vpm as ov
from ope_vpm import others

EXAMPLE = Path(__file__).parents[1] / "examples" / "json_files"


@pytest.fixture
def installed(tmp_path, monkeypatch):
    """The example, laid out as an installer would."""
    shutil.copy(EXAMPLE / "json_files.py", tmp_path)
    folder = tmp_path / "json_files-0.1.0.dist-info"
    folder.mkdir()
    (folder / "METADATA").write_text("Metadata-Version: 2.1\nName: json-files\nVersion: 0.1.0\n")
    groups = tomllib.loads((EXAMPLE / "pyproject.toml").read_text())["project"]["entry-points"]
    lines = [
        f"[{group}]\n" + "".join(f"{key} = {value}\n" for key, value in names.items())
        for group, names in groups.items()
    ]
    (folder / "entry_points.txt").write_text("\n".join(lines))
    monkeypatch.syspath_prepend(tmp_path)
    importlib.invalidate_caches()
    others.points.cache_clear()
    yield tmp_path
    others.points.cache_clear()
    sys.modules.pop("json_files", None)


def written(folder):
    lines = [
        {"observations": [[0.0], [1.0], [2.0]], "actions": [[0.5], [0.25]], "rewards": [1.0, 2.0], "terminated": True},
        {"observations": [[3.0], [4.0]], "actions": [[0.75]], "rewards": [3.0], "truncated": True},
    ]
    (folder / "log.jsonl").write_text("\n".join(map(json.dumps, lines)))
    return folder / "log.jsonl"


def test_a_format_of_another_package(installed):
    for data in (ov.load_dataset(written(installed)), ov.load_dataset(written(installed), format="jsonl")):
        assert data.observations[:, 0].tolist() == [0, 1, 3]
        assert data.next_observations[:, 0].tolist() == [1, 2, 4]
        assert data.terminated.tolist() == [False, True, False]
    with pytest.raises(ValueError, match=r"format must be one of npz, .*parts, jsonl: got 'jsonn'"):
        ov.load_dataset(written(installed), format="jsonn")
    (installed / "log.jsonl").write_text("{}")
    with pytest.raises(ValueError, match=r"log\.jsonl cannot be read as jsonl"):
        ov.load_dataset(installed / "log.jsonl")


def test_a_kind_of_policies_of_another_package(installed):
    (installed / "controller.json").write_text(json.dumps({"gain": [[2.0]], "std": 0.5}))
    policy = ov.load_policy(installed / "controller.json", deterministic=True)
    assert policy.sample(np.array([[1.5]]), np.random.default_rng(0)).tolist() == [[3.0]]
    drawn = ov.load_policy(installed / "controller.json")
    assert drawn.log_prob(np.array([[1.5]]), np.array([[3.0]])) == pytest.approx(-np.log(0.5 * np.sqrt(2 * np.pi)))


def test_without_it_nobody_knows_them(tmp_path):
    (tmp_path / "controller.json").write_text("{}")
    with pytest.raises(ValueError, match="is not a policy we know"):
        ov.load_policy(tmp_path / "controller.json")
