"""Text files of numbers: what is no number, a last line without its end, and very many columns."""

import cProfile
import pstats
import sys
import warnings

import pytest

from ope_vpm import load_dataset
from ope_vpm.cli import main
from ope_vpm.paths.stationary import read_paths

HEADER = "observation_0,observation_1,action,reward,episode\n"


@pytest.mark.parametrize("text", ["1_0", "\uff11\uff10", "\u0661\u0660", "1\u0660"])  # full-width, Arabic, mixed
def test_what_only_python_takes_for_a_number(tmp_path, text):
    assert float(text) == 10
    path = tmp_path / "log.csv"
    path.write_text(f"{HEADER}0.5,0.5,0,1.0,0\n0.5,{text},0,1.0,0\n", encoding="utf-8")
    with pytest.raises(ValueError, match=f"column 'observation_1' of .*log.csv must hold numbers: row 1 is '{text}'"):
        load_dataset(path)
    path.write_text(f"{HEADER}0.5,0.5,0,{text},0\n", encoding="utf-8")
    with pytest.raises(ValueError, match=f"column 'reward' of .*log.csv must hold numbers: row 0 is '{text}'"):
        load_dataset(path)
    with pytest.raises(ValueError, match=f"column 'reward' must hold numbers: row 2 is '{text}'"):
        read_paths(path, "reward")


def test_labels_of_episodes_keep_their_underscores(tmp_path):
    (tmp_path / "log.csv").write_text(f"{HEADER}0.5,0.5,0,1.0,1_0\n0.5,0.5,0,1.0,10\n")
    assert load_dataset(tmp_path / "log.csv").n_episodes == 2


def test_a_last_line_without_its_end(tmp_path):
    """A file cut after any byte of its last number is read, with a warning; the whole file has none."""
    whole = f"{HEADER}0.5,0.5,0,1.0,0\n0.5,0.5,0,2.75,0\n"
    path = tmp_path / "log.csv"
    path.write_text(whole)
    assert len(load_dataset(path)) == 2
    path.write_text(whole.rstrip("\n"))
    with pytest.warns(UserWarning, match="log.csv does not end with a newline: it may have been cut in the middle"):
        assert len(load_dataset(path)) == 2
    with pytest.warns(UserWarning, match="does not end with a newline"):
        read_paths(path, "reward")
    path.write_text(whole.replace("\n", "\r\n"), newline="")
    assert len(load_dataset(path)) == 2


def test_the_command_line_warns_in_one_line(tmp_path, monkeypatch, capsys):
    (tmp_path / "a\x1b[31m.csv").write_text(f"{HEADER}0.5,0.5,0,1.0,0\n0.5,0.5,0,2.75,0")
    monkeypatch.setattr(sys, "argv", ["ope-vpm", "inspect", str(tmp_path / "a\x1b[31m.csv")])
    with warnings.catch_warnings(action="always"), pytest.raises(SystemExit):
        main()
    (line,) = capsys.readouterr().err.splitlines()
    assert line.startswith("ope-vpm: warning: ")
    assert "a?[31m.csv does not end with a newline" in line


def test_columns_are_found_in_one_pass(tmp_path):
    """Calls of functions grow by fewer than 30 with each column: looking for every name in turn took 79."""
    calls = []
    for columns in (1000, 2000):
        names = ",".join(f"observation_{column}" for column in range(columns))
        path = tmp_path / f"{columns}.csv"
        path.write_text(f"{names},action,reward,terminated\n" + f"{'0.5,' * columns}0,1.0,1\n" * 3)
        with cProfile.Profile() as profile:
            assert load_dataset(path).observations.shape == (3, columns)
        calls.append(pstats.Stats(profile).total_calls)
    assert calls[1] - calls[0] < 30 * 1000
