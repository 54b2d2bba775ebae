"""`ope-vpm leaderboard`: mistakes end with code 2 before anything runs; an estimator of another package competes."""

from __future__ import annotations

import shutil
import subprocess
import sys
from pathlib import Path
from types import SimpleNamespace

import pytest

from ope_vpm.cli import main
from tests.leaderboard.conftest import new_path

EXAMPLE = Path(__file__).parents[2] / "examples" / "median_estimator"
SUITE = """
runs = 2
estimators = ["naive", "median", { name = "median", label = "few replicates", settings = { replicates = 20 } }]
[[tasks]]
name = "mdp"
kind = "random_mdp"
policies = 2
trajectories = 5
length = 10
"""


@pytest.fixture
def run(monkeypatch, capsys, tmp_path):
    def call(*arguments):
        monkeypatch.chdir(tmp_path)
        monkeypatch.setattr(sys, "argv", ["ope-vpm", "leaderboard", *arguments])
        with pytest.raises(SystemExit) as ended:
            main()
        printed = capsys.readouterr()
        return SimpleNamespace(code=ended.value.code or 0, out=printed.out, error=printed.err)

    return call


@pytest.mark.slow
def test_an_installed_package_enters_by_its_entry_point(run, tmp_path):
    source = tmp_path / "source"
    shutil.copytree(EXAMPLE, source)  # a copy: building leaves files behind
    pip = [sys.executable, "-m", "pip", "--quiet", "install", "--no-deps", "--no-build-isolation"]
    subprocess.run([*pip, "--target", str(tmp_path / "site"), str(source)], check=True)
    (tmp_path / "own.toml").write_text(SUITE)
    with new_path(tmp_path / "site"):
        done = run("--suite", "own.toml", "--jobs", "1", "--output", "out")
    assert done.code == 0, done.error
    assert "few replicates" in done.out
    assert "14 cells run; out/index.html" in done.out
    text = (tmp_path / "out" / "leaderboard.md").read_text()
    assert text.count("| median |") == 2  # over all settings, and in the one there is
    sys.modules.pop("median_estimator", None)


def test_all_problems_are_printed_with_code_two(run, tmp_path):
    (tmp_path / "own.toml").write_text(SUITE.replace("random_mdp", "random_mpd"))
    done = run("--suite", "own.toml")
    assert done.code == 2
    assert done.out == ""
    lines = done.error.splitlines()
    assert lines[0] == "ope-vpm: own has 3 problems:"
    assert lines[1].endswith("there is no kind of task 'random_mpd': did you mean 'random_mdp'?")
    assert "there is no estimator 'median'" in lines[2]
    assert not (tmp_path / "leaderboard").exists()


@pytest.mark.parametrize(
    ("arguments", "expected"),
    [
        (["--suite", "quik"], "there is no suite 'quik': did you mean 'quick'?"),
        (["--suite", "none.toml"], "there is no file none.toml"),
        (["--backend", "rey"], "there is no backend 'rey': did you mean 'ray'?"),
        (["--jobs", "0"], "there must be at least one job at a time: got 0"),
        (["--jobs", "two"], "--jobs"),
        (["--output", "taken"], "taken"),
    ],
)
def test_a_mistake_ends_with_one_sentence(run, tmp_path, arguments, expected):
    (tmp_path / "taken").write_text("a file")
    done = run(*arguments)
    assert done.code == 2
    assert expected in done.error
    assert done.error.count("\n") == 1
    assert not (tmp_path / "leaderboard").exists()
