"""Several values are a dict, which prints all of them and writes one page."""

import json

import numpy as np
import pytest

import ope_vpm as ov


@pytest.fixture(scope="module")
def data():
    """Coins: action 1 pays 1, action 0 nothing."""
    actions = np.tile([0, 1], 50)
    ends = np.arange(100) % 10 == 9
    states = np.zeros(100, dtype=int)
    return ov.LoggedDataset.from_arrays(states, actions, actions.astype(float), states, truncated=ends)


HEADS = [[0.25, 0.75]]


def evaluated(data, policy, *given, **settings):
    return ov.evaluate(data, policy, *given, ignore=("constant-columns", "duplicated-episodes"), **settings)


def test_estimators_by_name(data, tmp_path):
    values = evaluated(data, HEADS, ["vpm", "naive"])
    assert isinstance(values, dict)
    assert values["vpm"].value == pytest.approx(0.75)
    assert [line.split(":")[0] for line in str(values).splitlines() if not line.startswith(" ")] == ["vpm", "naive"]
    assert json.loads(json.dumps({name: value.as_dict() for name, value in values.items()})).keys() == {"vpm", "naive"}
    values.report(tmp_path / "report.html", data, "Coins")
    page = (tmp_path / "report.html").read_text()
    assert "<h1>Coins</h1>" in page
    assert "naive" in page


def test_policies_and_discounts_are_nested(data, tmp_path):
    values = evaluated(data, {"heads <1>": HEADS, "tails": [[1.0, 0.0]]}, ["vpm"], gamma=[0.9, 1.0])
    assert values["tails"][1.0]["vpm"].value == pytest.approx(0)
    assert str(values).splitlines()[0] == "heads <1>:"
    assert "  0.9:" in str(values)
    values.report(tmp_path / "report.html")
    assert "heads &lt;1&gt;, γ = 0.9, vpm" in (tmp_path / "report.html").read_text()


def test_one_estimator_for_several_policies_has_the_policys_name_before_its_value(data):
    values = evaluated(data, {"heads": HEADS}, "vpm")
    assert str(values).startswith("heads, vpm: 0.75")


def test_a_notebook_shows_a_card_for_each(data):
    shown = evaluated(data, HEADS, ["vpm", "naive"])._repr_html_()
    assert shown.count("<div") == 2
    assert "<b>vpm</b>" in shown


def test_a_discount_near_one_is_not_printed_as_one(data):
    printed = str(evaluated(data, HEADS, "naive", gamma=0.9999999))
    assert "per step at γ = 0.9999999 " in printed
