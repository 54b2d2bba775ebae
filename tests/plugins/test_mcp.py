"""The server for assistants, spoken to with the official SDK's client, and what it refuses to read."""

import asyncio
import json
import os
import re
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

import ope_vpm as ov
from ope_vpm.envs.random_mdp import RandomMDP
from ope_vpm.outside import json_text
from ope_vpm.plugins.mcp import Tools

sdk = pytest.importorskip("mcp")
PAGE = Path(__file__).parents[2] / "docs" / "plugins.md"
MAIN = "from ope_vpm.cli import main; main()"


@pytest.fixture(scope="module")
def served(tmp_path_factory):
    """A folder with a log and two policies, and beside it a file that is nobody's business."""
    outer = tmp_path_factory.mktemp("outer")
    folder = outer / "logs"
    (folder / "policies").mkdir(parents=True)
    mdp = RandomMDP.draw(6, 2, seed=0)
    mdp.dataset(20, 30, mdp.policy(1), 2).save(folder / "log.npz")
    for number in (3, 4):
        np.save(folder / "policies" / f"{number}.npy", mdp.policy(number))
    np.save(outer / "secret.npy", mdp.policy(5))
    return folder


def asked(folder, *calls):
    """The tools of the page's server, and its answers to some calls: whether they failed, and texts."""
    from mcp.client.stdio import stdio_client

    said = json.loads(re.search(r"```json\n(.*?)```", PAGE.read_text(), re.DOTALL)[1])["mcpServers"]["ope-vpm"]
    assert said == {"command": "ope-vpm", "args": ["mcp", folder.name]}
    command = sdk.StdioServerParameters(
        command=sys.executable,
        args=["-c", MAIN, *said["args"]],
        cwd=folder.parent,
        env={**os.environ, "PYTHONPATH": str(PAGE.parents[1])},
    )

    async def talk():
        async with sdk.Client(stdio_client(command)) as client:
            tools = (await client.list_tools()).tools
            return tools, [await client.call_tool(name, given) for name, given in calls]

    tools, results = asyncio.run(talk())
    return tools, [(each.is_error, each.content[0].text) for each in results]


def test_an_assistant_gets_the_answers_of_the_package(served):
    log, first, second = {"log": "log.npz"}, "policies/3.npy", "policies/4.npy"
    tools, answers = asked(
        served,
        ("inspect", log),
        ("evaluate", {**log, "policy": first, "estimator": "vpm", "gamma": 0.9}),
        ("compare", {**log, "policy": first}),
        ("select", {**log, "policies": [first, second]}),
        ("evaluate", {**log, "policy": "../secret.npy"}),
        ("evaluate", {**log, "policy": first, "estimator": "vmp"}),
    )
    assert [tool.name for tool in tools] == ["inspect", "evaluate", "compare", "select"]
    assert all(tool.annotations.read_only_hint and tool.description for tool in tools)
    data = ov.load_dataset(served / "log.npz")
    policies = {name: ov.load_policy(served / name) for name in (first, second)}
    expected = [
        ov.inspect(data),
        ov.evaluate(data, policies[first], "vpm", 0.9),
        ov.compare(data, policies[first]),
        ov.select(data, policies),
    ]
    for (failed, text), answer in zip(answers, expected, strict=False):
        assert not failed
        assert json.loads(text) == json.loads(json.dumps(answer.as_dict()))
    assert {"verdict", "reasons", "advice"} <= json.loads(answers[1][1]).keys()
    assert all(failed for failed, _ in answers[4:])
    assert "below the served folder" in answers[4][1]
    assert "did you mean 'vpm'" in answers[5][1]


@pytest.mark.parametrize("name", ["../secret.npy", "policies/../../secret.npy", "/etc/passwd", "a/../b", ".."])
def test_names_that_leave_the_folder_are_refused(served, name):
    with pytest.raises(PermissionError, match="below the served folder"):
        Tools(served).below(name)


@pytest.mark.parametrize("name", ["nothing.npz", "*.h5", "user/minari-id-v0", "reacher:target"])
def test_only_files_that_are_there_are_read(served, name):
    with pytest.raises(FileNotFoundError, match="in the served folder"):
        Tools(served).below(name)


@pytest.mark.parametrize(
    ("link", "name"),
    [
        ("policy.npy", "policy.npy"),  # to a file outside
        ("folder", "folder/secret.npy"),  # to a folder outside
        ("logs/part.parquet", "logs"),  # below a folder that is read whole
        ("logs/part.parquet", "logs/*.parquet"),
        ("zips/vecnormalize.pkl", "zips/ppo.zip"),  # beside a file, where a reader looks
    ],
)
def test_symbolic_links_are_refused(tmp_path, link, name):
    outside, folder = tmp_path / "outside", tmp_path / "served"
    for each in (outside, folder / "logs", folder / "zips"):
        each.mkdir(parents=True)
    (outside / "secret.npy").touch()
    (folder / "zips" / "ppo.zip").touch()
    (folder / link).symlink_to(outside if link == "folder" else outside / "secret.npy")
    with pytest.raises(PermissionError, match="must not be a symbolic link"):
        Tools(folder).below(name)


def test_a_link_within_the_folder_keeps_nobody_from_the_files_beside_it(tmp_path):
    """As `latest.zip` beside the checkpoints of a run; it is not read itself."""
    np.save(tmp_path / "policy.npy", np.eye(2))
    (tmp_path / "latest.npy").symlink_to(tmp_path / "policy.npy")
    assert Tools(tmp_path).below("policy.npy") == str(tmp_path / "policy.npy")
    with pytest.raises(PermissionError, match="must not be a symbolic link: links are not read"):
        Tools(tmp_path).below("latest.npy")


@pytest.mark.parametrize("name", ["a" * 5000, "log.npz\0.h5", "~/log.npz"])
def test_names_that_no_file_has_are_refused(served, name):
    with pytest.raises(FileNotFoundError, match="in the served folder"):
        Tools(served).below(name)


def test_all_estimators_are_answered_together(served):
    found = json.loads(json_text(Tools(served).evaluate("log.npz", "policies/3.npy", "all", 0.9).as_dict()))
    assert [each["estimator"] for each in found["values"]][:2] == ["vpm", "naive"]
    assert "vpm" in found["groups"][0]
    assert found.keys() == {"values", "groups", "disagreements", "left_out"}


def test_files_and_patterns_below_the_folder_are_read(served):
    assert Tools(served).below("log.npz") == str(served / "log.npz")
    assert Tools(served).below("policies/*.npy") == str(served / "policies" / "*.npy")


def test_a_pickle_is_not_run(served, tmp_path):
    np.save(tmp_path / "policy.npy", np.array([print], dtype=object), allow_pickle=True)
    with pytest.raises(ValueError, match="pickle"):
        Tools(tmp_path)._policy("policy.npy")


def test_the_error_names_the_extra(served):
    blocked = f"import sys; sys.modules['mcp'] = None; sys.argv = ['ope-vpm', 'mcp', {str(served)!r}]; {MAIN}"
    done = subprocess.run([sys.executable, "-c", blocked], capture_output=True, text=True, check=False)
    assert done.returncode == 2
    assert "pip install 'ope-vpm[mcp]'" in done.stderr
