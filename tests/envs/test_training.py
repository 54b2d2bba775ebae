"""A tiny training run, and the commands."""

import json
from dataclasses import replace

import numpy as np
import pytest
from typer.testing import CliRunner

import ope_vpm as ov
from ope_vpm.cli import app
from ope_vpm.envs.collect import collect
from ope_vpm.envs.train_command import add_return, train_task
from ope_vpm.envs.training import TASKS, scaled, train

TINY = replace(
    TASKS["reacher"],
    steps=512,
    checkpoints=(256, 512),
    settings={**TASKS["reacher"].settings, "n_steps": 16, "batch_size": 64, "n_epochs": 1},
)


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    output = tmp_path_factory.mktemp("policies")
    told = []
    files = train(TINY, output, seed=1, progress=lambda done, mean: told.append(done))
    for file in files:
        add_return(file, episodes=3, seed=2)
    return output, files, told


def test_checkpoints_with_their_settings(folder):
    output, files, told = folder
    assert [file.name for file in files] == ["step-0000256.npz", "step-0000512.npz"]
    assert told[-1] == 512
    about = json.loads((output / "step-0000512.json").read_text())
    assert about["seed"] == 1
    assert about["algorithm"] == "PPO"
    assert about["settings"]["learning_rate"] == 6e-4
    first, second = (ov.load_policy(file) for file in files)
    assert np.abs(first.layers.weights[0] - second.layers.weights[0]).max() > 0
    assert (first.layers.observation_std != second.layers.observation_std).any()


def test_returns_are_sums_over_whole_episodes(folder):
    _, files, _ = folder
    about = json.loads(files[1].with_suffix(".json").read_text())["return"]
    returns = collect("ReacherBulletEnv-v0", ov.load_policy(files[1]), 3, 150, seed=2).returns
    assert about["episodes"] == 3
    assert about["mean"] == pytest.approx(returns.mean(), abs=1e-3)
    assert about["standard_error"] == pytest.approx(returns.std(ddof=1) / np.sqrt(3), abs=1e-3)


def test_the_same_seed_trains_the_same_policy(folder, tmp_path):
    _, files, _ = folder
    again = train(TINY, tmp_path, seed=1)
    np.testing.assert_array_equal(
        ov.load_policy(files[1]).layers.weights[0], ov.load_policy(again[1]).layers.weights[0]
    )


def test_other_numbers_of_steps_move_the_checkpoints():
    assert scaled(TASKS["reacher"], 8000).checkpoints == (400, 800, 1600, 3200, 5600, 8000)
    assert scaled(TASKS["reacher"], 2).checkpoints == (1, 2)


def test_train_policy_command(tmp_path):
    files = train_task("reacher", tmp_path / "new", 0, 200, episodes=2)
    assert files
    assert all(file.with_suffix(".json").exists() for file in files)


def invoke(*words):
    return CliRunner().invoke(app, [str(word) for word in words])


def test_train_policy_knows_its_tasks():
    result = invoke("train-policy", "reachr")
    assert "did you mean 'reacher'" in str(result.exception)


@pytest.mark.parametrize("ending", ["npz", "parquet", "h5"])
def test_collect_writes_what_load_dataset_reads(ending, tmp_path):
    path = tmp_path / f"log.{ending}"
    result = invoke("collect", "reacher", "--output", path, "--episodes", 3, "--length", 7, "--alpha", 1)
    assert result.exit_code == 0, result.exception
    data = ov.load_dataset(path)
    assert data.lengths.tolist() == [7, 7, 7]
    assert data.truncated[data.ends].all()
    assert data.next_known[data.ends].all() == (ending != "h5")  # d3rlpy keeps no state after the last step


def test_collect_from_a_file_in_any_environment(folder, tmp_path):
    _, files, _ = folder
    path = tmp_path / "log.npz"
    assert (
        invoke("collect", "ReacherBulletEnv-v0", "--policy", files[0], "--output", path, "--length", 3).exit_code == 0
    )
    named = tmp_path / "named.npz"
    assert invoke("collect", "reacher", "--policy", files[0], "--output", named, "--length", 3).exit_code == 0
    np.testing.assert_array_equal(ov.load_dataset(path).actions, ov.load_dataset(named).actions)


MISTAKES = {
    "an ending we do not write": (("reacher", "--output", "log.txt"), "the output must end in"),
    "a folder that is not there": (("reacher", "--output", "nowhere/log.npz"), "does not exist"),
    "no policy": (("MountainCar-v0", "--output", "log.npz"), "give a file by --policy"),
    "a misspelt task": (("reachr", "--output", "log.npz"), "did you mean reacher"),
    "a missing file": (("reacher", "--policy", "best.zip", "--output", "log.npz"), "there is no file best.zip"),
    "an unknown policy": (("reacher", "--policy", "best", "--output", "log.npz"), "has no policy 'best'"),
    "mix with alpha": (("reacher", "--policy", "mix", "--alpha", "1", "--output", "log.npz"), "leave --alpha out"),
    "a wrong alpha": (("reacher", "--alpha", "-2", "--output", "log.npz"), "must be above -1"),
}


@pytest.mark.parametrize("name", MISTAKES)
def test_mistakes_end_in_one_sentence(name):
    words, message = MISTAKES[name]
    result = invoke("collect", *words)
    assert result.exit_code != 0
    assert message in str(result.exception)
