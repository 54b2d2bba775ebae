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


def test_auto_is_the_default(data):
    assert evaluated(data, HEADS).estimator == "auto"


def test_a_frame_has_a_row_for_each_value(data):
    values = evaluated(data, {"heads": HEADS, "tails": [[1.0, 0.0]]}, ["vpm", "naive"], gamma=[0.9, 1.0])
    frame = values.to_frame()
    assert frame.columns.tolist() == [
        "estimator",
        "policy",
        "gamma",
        "value",
        "low",
        "high",
        "per",
        "verdict",
        "reasons",
    ]
    assert len(frame) == 8
    row = frame[(frame["policy"] == "heads") & (frame["gamma"] == 1) & (frame["estimator"] == "vpm")].iloc[0]
    one = values["heads"][1.0]["vpm"]
    assert [row["value"], row["low"], row["high"], row["verdict"]] == [one.value, *one.interval, one.verdict]


def test_latex_has_the_columns_that_differ(data):
    lines = evaluated(data, {"heads & <1>": HEADS, "tails_2": [[1.0, 0.0]]}, "naive").to_latex().splitlines()
    assert lines[0] == r"\begin{tabular}{lrrll}"
    assert lines[2] == r"policy & value & 95\,\% interval & per & verdict \\"
    assert lines[4].startswith(r"heads \& <1> & 0.5")
    assert lines[5].startswith(r"tails\_2 & 0.5")
    assert lines[-1] == r"\end{tabular}"


def test_a_plot_has_a_line_for_each_and_the_logged_mean(data):
    values = evaluated(data, HEADS, ["vpm", "naive"])
    axes = values.plot(data)
    assert [label.get_text() for label in axes.get_yticklabels()] == ["vpm", "naive"]
    dots = [line.get_xdata()[0] for line in axes.lines if line.get_marker() == "o"]
    assert dots == [values["vpm"].value, values["naive"].value]
    assert axes.lines[-1].get_xdata()[0] == pytest.approx(0.5)  # every other action pays 1
    assert values["vpm"].plot(ax=axes) is axes


def test_the_return_leads_where_episodes_end():
    """Two steps per episode, action 1 pays 1: the target takes it three times in four, so an episode pays 1.5."""
    actions = np.tile([0, 1, 1, 0, 0, 0, 1, 1], 25)
    states = np.zeros(200, dtype=int)
    ends = np.arange(200) % 2 == 1
    data = ov.LoggedDataset.from_arrays(states, actions, actions.astype(float), states, terminated=ends)
    value = evaluated(data, HEADS, "vpm")
    assert value.per == "episode"
    assert str(value).startswith(f"vpm: return {value.as_return():.6g}  [")
    assert "per episode at γ = 1" in str(value).splitlines()[0]
    assert any(line.startswith(f"  {value.value:.6g}  [") and "per step" in line for line in str(value).splitlines())
    assert value.as_dict()["headline"]["value"] == value.as_return() == pytest.approx(1.5, abs=0.2)
    assert value.as_dict()["headline"]["per"] == "episode"
    frame = evaluated(data, HEADS, ["vpm"]).to_frame()
    assert frame["value"].tolist() == [value.as_return()]
    assert frame["per"].tolist() == ["episode"]
    axes = value.plot(data)
    assert axes.get_xlabel() == "return of an episode"
    assert axes.lines[-1].get_xdata()[0] == actions.sum() / 100  # 100 logged episodes
    same = ov.LoggedDataset.from_arrays(states, actions, np.ones(200), states, terminated=ends)
    printed = str(evaluated(same, HEADS, "vpm"))
    assert "return 2" in printed
    assert "per step  " not in printed
    discounted = evaluated(data, HEADS, "vpm", gamma=0.9)
    assert discounted.per == "step"
    assert discounted.as_dict()["headline"]["value"] == discounted.value


def test_one_value_is_a_table_of_one_row(data):
    value = ov.evaluate(data, HEADS, "vpm")
    frame = value.to_frame()
    assert frame["estimator"].tolist() == ["vpm"]
    assert frame["value"].tolist() == [value.lead.value]
    assert value.to_latex().count("vpm &") == 1
