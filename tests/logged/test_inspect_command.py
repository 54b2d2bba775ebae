"""`ope-vpm inspect`: what it prints, and one sentence with exit code 2 for every mistake."""

import json
import pickle
import subprocess
import sys
from types import SimpleNamespace

import numpy as np
import pytest

from ope_vpm.cli import main


@pytest.fixture
def run(monkeypatch, capsys):
    """Run the command in this process, which saves importing torch once a case."""

    def call(*arguments):
        monkeypatch.setattr(sys, "argv", ["ope-vpm", "inspect", *map(str, arguments)])
        with pytest.raises(SystemExit) as ended:
            main()
        printed = capsys.readouterr()
        return SimpleNamespace(returncode=ended.value.code or 0, stdout=printed.out, stderr=printed.err)

    return call


def test_a_clean_file(run, cartpole, tmp_path):
    cartpole.save(tmp_path / "log.npz")
    done = run(tmp_path / "log.npz", "--page", tmp_path / "page.html")
    assert done.returncode == 0
    assert done.stderr == ""
    assert "400 steps" in done.stdout
    assert "nothing looks wrong" in done.stdout
    assert "<h1>log.npz</h1>" in (tmp_path / "page.html").read_text()


def test_errors_end_with_code_one(run, tmp_path):
    states = np.arange(20.0).reshape(10, 2)
    rewards = np.full(10, np.nan)
    np.savez(tmp_path / "log.npz", observations=states, actions=np.arange(10) % 2, rewards=rewards, episode=[0] * 10)
    done = run(tmp_path / "log.npz", "--json")
    assert done.returncode == 1
    assert json.loads(done.stdout)["findings"][0]["code"] == "not-finite"


MISTAKES = {
    "missing.npz": (None, "there is no file"),
    "text.h5": (b"hello, world\n1,2\n", "is not what its name says: it holds csv"),
    "noise.bin": (bytes(range(256)), "is of no format we know"),
    "cut.parquet": (b"PAR1" + bytes(40), "cannot be read as Parquet"),
    "cut.npz": (b"PK\x03\x04" + bytes(40), "cannot be read as an archive"),
    "buffer.pkl": (pickle.dumps({"a": 1}), "pass trust=True"),
    "columns.csv": (b"x,y\n1,2\n", "lacks the columns observations, actions, rewards"),
}


@pytest.mark.parametrize("name", MISTAKES)
def test_a_mistake_ends_with_one_sentence_and_code_two(run, name, tmp_path):
    content, message = MISTAKES[name]
    if content is not None:
        (tmp_path / name).write_bytes(content)
    done = run(tmp_path / name, "--page", tmp_path / "page.html")
    assert done.returncode == 2
    assert done.stdout == ""
    assert message in done.stderr
    assert len(done.stderr.splitlines()) == 1
    assert not (tmp_path / "page.html").exists()


@pytest.mark.parametrize(
    ("arguments", "message"), [((), "dataset"), (("log.npz", "--jsn"), "--jsn"), (("a", "b"), "unexpected")]
)
def test_wrong_arguments_end_with_one_sentence_and_code_two(run, arguments, message):
    done = run(*arguments)
    assert done.returncode == 2
    assert message in done.stderr
    assert len(done.stderr.splitlines()) == 1


def test_the_installed_command(tmp_path):
    command = [sys.executable, "-c", "from ope_vpm.cli import main; main()", "inspect", str(tmp_path / "no.npz")]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert done.returncode == 2
    assert done.stderr == f"ope-vpm: there is no file {tmp_path / 'no.npz'} (nor does it read like a Minari id)\n"
