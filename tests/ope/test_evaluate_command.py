"""`ope-vpm evaluate` on files, as a user runs it."""

import json
import sys
from dataclasses import replace
from types import SimpleNamespace

import numpy as np
import onnx
import pytest
import torch

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


def test_parquet_files_by_a_pattern(run, files):
    for number, episodes in enumerate((slice(0, 7), slice(7, 20))):
        DATA.select(episodes).save(files / f"log-{number}.parquet")
    done = run("log-*.parquet", "--policy", "policy.npy", "--json")
    (found,) = json.loads(done.stdout)
    assert done.returncode == 0
    assert found["value"] == pytest.approx(ov.evaluate(DATA, MDP.policy(3), "auto").value, rel=1e-12)
    done = run("nothing-*.parquet", "--policy", "policy.npy")
    assert done.returncode == 2
    assert "no file fits" in done.stderr


def test_text_has_value_interval_and_verdict(run):
    done = run("log.npz", "--policy", "policy.npy", "--gamma", "0.9", "--seed", "3")
    assert done.returncode == 0
    assert done.stdout == f"{ov.evaluate(DATA, MDP.policy(3), 'auto', gamma=0.9, seed=3)}\n"
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
    "seed": (["log.npz", "--policy", "policy.npy", "--seed", "-1"], "seed must be a whole number, 0 or more: got -1"),
    "a report nowhere": (
        ["none.npz", "--policy", "policy.npy", "--report", "no/r.html"],
        "folder of no/r.html does not",
    ),
    "a report of another kind": (
        ["none.npz", "--policy", "policy.npy", "--report", "report.txt"],
        "a page is HTML, and its name must end with .html or .htm: got report.txt",
    ),
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


# Rewards near the largest number overflow on purpose.
@pytest.mark.filterwarnings("ignore::RuntimeWarning")
def test_a_value_that_is_not_finite_is_null_in_json(run, files):
    huge = np.where(np.arange(len(DATA)) % 2 == 0, 1e308, 1.7e308)
    replace(DATA, rewards=huge).save(files / "huge.npz")
    asked = ("huge.npz", "--policy", "policy.npy", "--estimator", "naive", "--json")
    refused = run(*asked)
    assert refused.returncode == 2
    assert "numbers beyond 1e+75" in refused.stderr
    done = run(*asked, "--ignore", "not-finite")
    assert done.returncode == 0
    (value,) = json.loads(done.stdout, parse_constant=pytest.fail)
    assert value["value"] is None
    assert value["verdict"] == "unreliable"


def test_a_file_of_another_observation_size_ends_with_one_sentence(run, files):
    rng = np.random.default_rng(0)
    points = ov.LoggedDataset.from_arrays(rng.normal(size=(40, 3)), rng.normal(size=(40, 2)), rng.normal(size=40))
    points.save(files / "points.npz")
    network = torch.nn.Sequential(torch.nn.Linear(5, 4), torch.nn.Tanh(), torch.nn.Linear(4, 2))
    torch.save(network.state_dict(), files / "weights.pt")
    sum_of_five = [[1.0] * 2] * 5
    graph = onnx.helper.make_graph(
        [onnx.helper.make_node("MatMul", ["x", "w"], ["y"])],
        "policy",
        [onnx.helper.make_tensor_value_info("x", onnx.TensorProto.FLOAT, None)],
        [onnx.helper.make_tensor_value_info("y", onnx.TensorProto.FLOAT, None)],
        [onnx.numpy_helper.from_array(np.array(sum_of_five, np.float32), "w")],
    )
    opset = [onnx.helper.make_opsetid("", 17)]
    onnx.save(onnx.helper.make_model(graph, opset_imports=opset, ir_version=9), files / "policy.onnx")
    for policy, options in (("weights.pt", ["--activation", "tanh"]), ("policy.onnx", [])):
        done = run("points.npz", "--policy", policy, *options)
        assert done.returncode == 2
        assert done.stderr.count("\n") == 1
        assert "observations" in done.stderr


def test_names_in_files_do_not_command_the_terminal(run, files):
    (files / "escape.csv").write_text("observation,\x1b]0;owned\x07\n1,2\n")
    done = run("escape.csv", "--policy", "policy.npy")
    assert done.returncode == 2
    assert "\x1b" not in done.stderr
    assert "?]0;owned?" in done.stderr


def test_torchscript_needs_the_flag(run, files):
    (files / "network.pt").write_bytes(b"\x80\x02}q\x00.")
    done = run("log.npz", "--policy", "network.pt")
    assert done.returncode == 2
    assert "pass trust=True" in done.stderr
