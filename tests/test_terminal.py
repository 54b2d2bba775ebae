"""What people see in a terminal: help, tables, names of shipped policies, progress, and what objects print."""

from __future__ import annotations

import io
import pickle
import sys
from dataclasses import replace
from types import SimpleNamespace

import numpy as np
import pytest
import torch
from rich.console import Console
from stable_baselines3 import DQN

import ope_vpm as ov
from ope_vpm.cli import main
from ope_vpm.envs import taxi
from ope_vpm.envs.by_name import shipped_policy
from ope_vpm.envs.linear_gaussian import TARGET
from ope_vpm.leaderboard.tables import _scored
from ope_vpm.plugins import select
from ope_vpm.policy import GaussianPolicy
from ope_vpm.progress import counting, lines
from ope_vpm.terminal import values_table


@pytest.fixture
def run(monkeypatch, capsys, tmp_path):
    monkeypatch.chdir(tmp_path)

    def call(*arguments):
        monkeypatch.setattr(sys, "argv", ["ope-vpm", *arguments])
        with pytest.raises(SystemExit) as ended:
            main()
        printed = capsys.readouterr()
        return SimpleNamespace(returncode=ended.value.code or 0, stdout=printed.out, stderr=printed.err)

    return call


@pytest.mark.parametrize("command", [[], ["evaluate"], ["inspect"], ["leaderboard"], ["reproduce"]])
def test_flags_have_no_type_in_the_help(run, command):
    done = run(*command, "--help")
    assert done.returncode == 0
    assert "--help" in done.stdout
    assert "bool" not in done.stdout.lower()


def test_the_version(run):
    assert run("--version").stdout == f"ope-vpm {ov.__version__}\n"


def test_completion_can_be_installed(run):
    assert "--install-completion" in run("--help").stdout


def test_estimators_are_listed_with_a_line_each(run):
    rows = [line.split(maxsplit=1) for line in run("estimators").stdout.splitlines()]
    assert [name for name, _ in rows] == list(ov.estimators())
    assert all(len(line) > 10 for _, line in rows)


@pytest.mark.parametrize(
    ("given", "said"),
    [
        (["evaluate"], "Missing argument 'dataset' (see ope-vpm evaluate --help)"),
        (["select", "log.npz"], "Missing option '--policies' (see ope-vpm select --help)"),
        (["frobnicate"], "No such command 'frobnicate' (see ope-vpm --help)"),
    ],
)
def test_a_wrong_command_line_is_answered_in_one_sentence_that_names_the_help(run, given, said):
    failed = run(*given)
    assert (failed.returncode, failed.stdout, failed.stderr) == (2, "", f"ope-vpm: {said}\n")


def test_a_shipped_policy_is_named_with_its_task(run, tmp_path):
    data = taxi.simulate(taxi.shipped(950), 20, 30, seed=0)
    data.save(tmp_path / "log.npz")
    done = run("evaluate", "log.npz", "--policy", "taxi:target", "--estimator", "naive")
    assert done.stdout == f"{ov.evaluate(data, taxi.shipped(1000), 'naive')}\n"
    for policy, answer in (
        ("taxi:mix", "mix is two policies in turn"),
        ("taxi:best", "known are target, behaviour and iteration-0050"),
        ("taxxi:target", "did you mean 'taxi'"),
        ("target", "named with its task: reacher:target"),
    ):
        failed = run("evaluate", "log.npz", "--policy", policy)
        assert failed.returncode == 2
        assert answer in failed.stderr


def test_shipped_policies_of_every_kind_of_task():
    assert shipped_policy("reacher", "target").action_dimension == 2
    assert shipped_policy("CartPole-v1", "near").n_actions == 2


def test_deterministic_is_the_greedy_policy(run, tmp_path):
    torch.manual_seed(0)
    DQN("MlpPolicy", "CartPole-v1", device="cpu", buffer_size=10).save(tmp_path / "dqn.zip")
    rng = np.random.default_rng(0)
    data = ov.LoggedDataset.from_arrays(
        rng.standard_normal((60, 4)), rng.integers(2, size=60), rng.random(60), truncated=np.arange(60) % 10 == 9
    )
    data.save(tmp_path / "log.npz")
    options = ("--estimator", "naive", "--json")
    assert run("evaluate", "log.npz", "--policy", "dqn.zip", "--deterministic", *options).returncode == 0
    np.save(tmp_path / "table.npy", np.full((4, 2), 0.5))
    refused = run("evaluate", "log.npz", "--policy", "table.npy", "--deterministic", *options)
    assert refused.returncode == 2
    assert "deterministic is for policies of stable-baselines3 and d3rlpy" in refused.stderr


def test_columns_of_a_table_by_name(run, tmp_path):
    (tmp_path / "log.csv").write_text("x,y,move,score,over\n0.1,0.2,0,1.0,0\n0.3,0.1,1,0.5,1\n0.2,0.2,1,2.0,1\n")
    named = ("observations=x,y", "actions=move", "rewards=score", "terminated=over")
    done = run("inspect", "log.csv", "--json", *(part for name in named for part in ("--columns", name)))
    assert '"episodes": 2' in done.stdout
    assert '"largest": 2.0' in done.stdout
    assert "OUR_NAME=THEIR_NAME" in run("inspect", "log.csv", "--columns", "score").stderr


def test_values_in_a_table():
    values = [
        ov.PolicyValue("[red]vpm", 1.23797, 0.9, 0.005, (1.22848, 1.24761), 90.0, "reliable", ()),
        ov.PolicyValue("naive", 0.9, 0.9, None, None, None, "caution", ("one episode",)),
    ]
    console = Console(file=io.StringIO(), width=100)
    console.print(values_table(values))
    cells = [line.split() for line in console.file.getvalue().splitlines() if line.strip()]
    assert cells[2] == ["[red]vpm", "1.238", "[1.228,", "1.248]", "12.38", "reliable"]
    assert cells[3] == ["naive", "0.9", "no", "interval", "9", "caution"]
    assert " ".join(cells[4]) == "values: reward per step, discounted by γ = 0.9"


def test_progress_in_a_file_is_a_line_now_and_then(capsys):
    tell = lines("collecting", 5, period=0.0)
    tell(3)
    tell(7)
    assert capsys.readouterr().err == "collecting: 3 of 5, 0 s\ncollecting: 5 of 5, 0 s\n"
    with counting("collecting", 5) as quick:
        quick(5)
    assert capsys.readouterr().err == ""


def test_policies_and_data_say_what_they_are():
    assert repr(TARGET.policy()) == "GaussianPolicy(1-dimensional actions, 2-dimensional observations)"
    assert repr(ov.as_policy(np.full((4, 3, 2), 0.5))) == "TablePolicy(4 × 3 states, 2 actions)"
    function = ov.as_policy(lambda seen: np.full((len(seen), 2), 0.5), output="probabilities", n_actions=2)
    assert repr(function).startswith(("FunctionPolicy(", "CategoricalPolicy(2 actions"))
    squashed = GaussianPolicy(lambda seen: (seen, 1.0), squash=True, bounds=(-1, 1), action_dimension=2)
    assert repr(squashed) == "GaussianPolicy(2-dimensional actions, squashed by tanh)"
    model = DQN("MlpPolicy", "CartPole-v1", device="cpu", buffer_size=10)
    assert repr(ov.as_policy(model)) == "CategoricalPolicy(2 actions, 4-dimensional observations)"
    data = ov.LoggedDataset.from_arrays([0, 1], [0, 1], [0.0, 1.0])
    assert repr(data) == "LoggedDataset(2 steps, 1 episodes, finite states, 2 actions)"


HOSTILE = "a\x1b[31m\x9b2J\u202eb\nc"


def test_names_do_not_command_the_terminal(tmp_path):
    """Labels of estimators, names of policies and titles: no escape sequence, no turned text, no line of their own."""
    rng = np.random.default_rng(0)
    data = ov.LoggedDataset.from_arrays(
        rng.integers(0, 3, 60), rng.integers(0, 2, 60), rng.normal(size=60), terminated=np.arange(60) % 6 == 5
    )
    table = np.full((3, 2), 0.5)
    value = replace(ov.evaluate(data, table, "naive"), estimator=HOSTILE)
    values = ov.evaluate(data, {HOSTILE: table, "sound": table}, ["naive", "model"])
    chosen = select(data, {HOSTILE: table, "sound": table}, "naive")
    screen = io.StringIO()
    Console(file=screen, width=200).print(values_table([value]))
    suite = {"title": HOSTILE, "overall": [], "missing": 0, "finished": 0, "note": HOSTILE}
    for shown in (str(value), str(values), str(chosen), screen.getvalue(), _title_and_caption(suite)):
        assert "a?[31m?2J?b c" in shown
        assert all(letter.isprintable() or letter == "\n" for letter in shown)


def _title_and_caption(made):
    screen = io.StringIO()
    Console(file=screen, width=200).print(_scored(made))
    return screen.getvalue()


def test_a_controller_can_be_pickled():
    policy = TARGET.policy()
    again = pickle.loads(pickle.dumps(policy))
    states, actions = np.array([[1.0, 2.0], [0.0, -1.0]]), np.array([[0.1], [0.2]])
    assert np.array_equal(again.log_prob(states, actions), policy.log_prob(states, actions))
    squares = ((actions - [[0.3], [0.2]]) / 0.3)[:, 0] ** 2  # means -0.2·1 + 0.1·2 + 0.3 and -0.1 + 0.3
    assert again.log_prob(states, actions) == pytest.approx(-squares / 2 - np.log(0.3 * np.sqrt(2 * np.pi)))


@pytest.mark.parametrize("command", ["inspect", "select", "evaluate", "stationary"])
def test_a_page_has_one_option_in_all_commands(command):
    from typer.testing import CliRunner

    from ope_vpm.cli import app

    shown = CliRunner().invoke(app, [command, "--help"]).output
    assert "--report" in shown
    assert "--page" not in shown
    assert "--picture" not in shown
