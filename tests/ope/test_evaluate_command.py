"""`ope-vpm evaluate` on files, as a user runs it."""

import json
import sys
from types import SimpleNamespace

import numpy as np
import pytest

import ope_vpm as ov
from ope_vpm.cli import main
from ope_vpm.envs.random_mdp import RandomMDP

MDP = RandomMDP.draw(5, 2, seed=0)
DATA = MDP.dataset(20, 30, MDP.policy(1), seed=2)


@pytest.fixture(scope="module")
def files(tmp_path_factory):
    folder = tmp_path_factory.mktemp("evaluate")
    DATA.save(folder / "log.npz")
    np.save(folder / "policy.npy", MDP.policy(3))
    np.save(folder / "other.npy", np.full((5, 3), 1 / 3))
    (folder / "broken.npz").write_bytes(b"PK nothing")
    return folder


@pytest.fixture
def run(monkeypatch, capsys, files):
    """Run the command in this process, which saves importing torch once a case."""

    def call(*arguments):
        monkeypatch.chdir(files)
        monkeypatch.setattr(sys, "argv", ["ope-vpm", "evaluate", *arguments])
        with pytest.raises(SystemExit) as ended:
            main()
        printed = capsys.readouterr()
        return SimpleNamespace(returncode=ended.value.code or 0, stdout=printed.out, stderr=printed.err)

    return call


def test_json_is_clean_and_equals_the_call(run):
    done = run("log.npz", "--policy", "policy.npy", "--estimator", "vpm", "--estimator", "wiss", "--json")
    assert done.returncode == 0
    assert done.stderr == ""
    expected = ov.evaluate(DATA, MDP.policy(3), ["vpm", "wiss"])
    assert json.loads(done.stdout) == json.loads(json.dumps([value.as_dict() for value in expected.values()]))


def test_text_has_value_interval_and_verdict(run):
    done = run("log.npz", "--policy", "policy.npy", "--gamma", "0.9", "--seed", "3")
    assert done.returncode == 0
    assert done.stdout == f"{ov.evaluate(DATA, MDP.policy(3), gamma=0.9, seed=3)}\n"
    assert "[" in done.stdout
    assert "reliable" in done.stdout


MISTAKES = {
    "misspelt estimator": (["log.npz", "--policy", "policy.npy", "--estimator", "vmp"], "did you mean 'vpm'?"),
    "no policy": (["log.npz"], "--policy"),
    "no such file": (["none.npz", "--policy", "policy.npy"], "none.npz"),
    "broken file": (["broken.npz", "--policy", "policy.npy"], "broken.npz"),
    "another policy": (["log.npz", "--policy", "other.npy"], "they do not fit"),
    "gamma": (["log.npz", "--policy", "policy.npy", "--gamma", "2"], "gamma must be between 0 and 1: got 2.0"),
    "on_end": (["log.npz", "--policy", "policy.npy", "--on-end", "stop"], "on_end must be"),
    "ignore": (["log.npz", "--policy", "policy.npy", "--ignore", "all"], "ignore must name findings"),
}


@pytest.mark.parametrize("case", MISTAKES)
def test_a_mistake_ends_with_one_sentence_and_code_two(run, case):
    arguments, expected = MISTAKES[case]
    done = run(*arguments)
    assert done.returncode == 2
    assert done.stdout == ""
    assert expected in done.stderr
    assert done.stderr.startswith("ope-vpm: ")
    assert done.stderr.count("\n") == 1
