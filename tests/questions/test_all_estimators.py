"""Which estimator can I trust here? All that fit, which solve the same equations, and which disagree."""

from dataclasses import replace

import numpy as np
import pytest
from typer.testing import CliRunner

import ope_vpm as ov
from ope_vpm.cli import app
from ope_vpm.envs.random_mdp import RandomMDP
from ope_vpm.ope.inference.doubts import PLACEBO
from ope_vpm.ope.inference.value import PolicyValue
from ope_vpm.ope.questions.agreement import AllValues


def made(number, error=1.0):
    return PolicyValue("made-up", number, 1.0, error, (number - 2, number + 2), None, "reliable", ())


def test_groups_and_distances_by_hand():
    """5 and 5 solve the same equations; 8 lies 3/√2 errors away, 100 with an error of 1000 nowhere far."""
    found = AllValues({"a": made(5.0), "b": made(5.0 + 1e-9), "c": made(8.0), "d": made(100.0, 1000.0)}, {"e": "no"})
    assert found.groups == [("a", "b"), ("c",), ("d",)]
    assert found.disagreements == pytest.approx({("a", "c"): 3 / np.sqrt(2)})
    said = str(found)
    assert "the same equations: a, b" in said
    assert "a and c lie 2.1 errors apart" in said
    assert "left out: e (no)" in said
    assert "the placebo" not in said  # at γ = 1


def test_the_page_says_what_estimators_say_of_each_other(tmp_path):
    found = {name: replace(made(number), gamma=0.9) for name, number in (("a", 5.0), ("b", 5.0), ("c", 8.0))}
    found["c"] = replace(found["c"], doubts=PLACEBO.suspects(0.3))
    AllValues(found, {"e": "no <such> thing"}).report(tmp_path / "page.html")
    page = (tmp_path / "page.html").read_text(encoding="utf-8")
    for said in (
        "the same equations: a, b",
        "a and c lie 2.1 errors apart",
        "the placebo, the log&#x27;s own policy, speaks against c",
        "left out: e (no &lt;such&gt; thing)",
    ):
        assert f"<li>{said}</li>" in page


@pytest.fixture(scope="module")
def log():
    task = RandomMDP.draw(3, 2, 0)
    return task.dataset(30, 10, task.policy(1, 0.5), 0), task.policy(2)


def test_exact_solutions_of_counts_are_one_group(log):
    data, policy = log
    found = ov.evaluate(data, policy, "all", gamma=0.9)
    assert set(found) | set(found.left_out) == set(ov.estimators())
    group = next(group for group in found.groups if "vpm" in group)
    assert {"vpm", "model", "fqe", "mwl", "mql"} <= set(group)
    assert "naive" not in group
    frame = found.to_frame()
    numbers = dict(zip(frame["estimator"], frame["equations"], strict=True))
    assert numbers["vpm"] == numbers["fqe"] != numbers["naive"]
    assert found["vpm"].value == ov.evaluate(data, policy, "vpm", gamma=0.9).value
    with pytest.raises(TypeError, match="go with one estimator by name, not with all"):
        ov.evaluate(data, policy, "all", gamma=0.9, solver="kernel")


def test_the_command(log, tmp_path):
    data, policy = log
    data.save(tmp_path / "log.npz")
    np.save(tmp_path / "policy.npy", policy)
    found = CliRunner().invoke(
        app,
        ["evaluate", str(tmp_path / "log.npz"), "--policy", str(tmp_path / "policy.npy"), "--estimator", "all"],
        catch_exceptions=False,
    )
    assert "the same equations: " in found.stdout
    reasons = [line for line in found.stdout.splitlines() if "the logged mean is the behaviour's value" in line]
    assert reasons == ["  - the logged mean is the behaviour's value, whatever the target does"]
