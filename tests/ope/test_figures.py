"""What the report's figures, tables and sentences show, read back from the page."""

import xml.etree.ElementTree as ElementTree
from dataclasses import replace

import numpy as np
import pytest

import ope_vpm as ov
from ope_vpm.ope.inference.doubts import Doubt
from ope_vpm.ope.inference.value import EpisodeReturn
from ope_vpm.ope.problem import Question
from ope_vpm.ope.reporting import weights, words
from ope_vpm.ope.reporting.page import card, report
from ope_vpm.pages import svg

BOTTOM, RIGHT = svg.HEIGHT - svg.BOTTOM, svg.WIDTH - svg.RIGHT


def parts(drawn, tag, kind=None):
    """The elements of a picture: their numbers by name, and their text."""
    found = [each for each in ElementTree.fromstring(str(drawn)).iter() if each.tag == tag]
    return [each for each in found if kind is None or each.get("class") == kind]


def numbers(elements, *names):
    return np.array([[float(each.get(name)) for name in names] for each in elements])


def curve(drawn, x, y, kind="curve"):
    """The points of a line in the units of the axes (low, high) that it was drawn in."""
    (one,) = parts(drawn, "polyline", kind)
    places = np.array([[float(part) for part in pair.split(",")] for pair in one.get("points").split()])
    across = x[0] + (places[:, 0] - svg.LEFT) / (RIGHT - svg.LEFT) * (x[1] - x[0])
    up = y[0] + (BOTTOM - places[:, 1]) / (BOTTOM - svg.TOP) * (y[1] - y[0])
    return np.column_stack([across, up])


def log(lengths, rewards=None, states=None, **changed):
    rows = sum(lengths)
    states = np.arange(rows) % 5 if states is None else states
    actions = np.zeros(rows, dtype=int)
    rewards = np.zeros(rows) if rewards is None else rewards
    ends = np.zeros(rows, dtype=bool)
    ends[np.cumsum(lengths) - 1] = True
    return ov.LoggedDataset.from_arrays(states, actions, rewards, **({"terminated": ends} | changed))


def test_axes_fill_the_frame():
    across, upward = svg.across(2, 4), svg.upward(-1, 1)
    assert [across(2), across(4), across(3)] == [svg.LEFT, RIGHT, (svg.LEFT + RIGHT) / 2]
    assert [upward(-1), upward(1)] == [BOTTOM, svg.TOP]
    assert svg.TOP < BOTTOM < svg.HEIGHT
    assert 0 < svg.LEFT < RIGHT < svg.WIDTH


def test_labels_stand_outside_of_the_frame_beside_their_ticks():
    drawn = svg.figure("title", svg.across(0, 10), svg.upward(0, 1), ("steps", "share"), [], "a note")
    grid = numbers(parts(drawn, "line", "grid"), "x1", "x2", "y1", "y2")
    np.testing.assert_allclose(grid[:, :2], [[svg.LEFT, RIGHT]] * 6)
    np.testing.assert_allclose(grid[:, 2], BOTTOM - np.linspace(0, 1, 6) * (BOTTOM - svg.TOP))
    np.testing.assert_allclose(grid[:, 3], grid[:, 2])
    labels = parts(drawn, "text", "label")
    left = [each for each in labels if each.get("text-anchor") == "end"]
    below = [each for each in labels if each.get("text-anchor") == "middle"]
    assert [each.text for each in left] == ["0", "0.2", "0.4", "0.6", "0.8", "1"]
    assert [each.text for each in below] == ["0", "2", "4", "6", "8", "10"]
    places = numbers(left, "x", "y")
    assert (places[:, 0] < svg.LEFT).all()
    assert (places[:, 0] > svg.LEFT - 10).all()
    np.testing.assert_allclose(places[:, 1] - grid[:, 2], 4)  # a little below: half of a letter's height
    places = numbers(below, "x", "y")
    np.testing.assert_allclose(places[:, 0], svg.LEFT + np.linspace(0, 1, 6) * (RIGHT - svg.LEFT))
    names = {each.text: numbers([each], "x", "y")[0] for each in parts(drawn, "text", "faint")}
    assert names["steps"][0] == (svg.LEFT + RIGHT) / 2
    assert BOTTOM + 10 < places[0, 1] < names["steps"][1] - 10  # the labels, and below them the name of the axis
    assert names["steps"][1] < svg.HEIGHT
    assert names["share"][1] == (svg.TOP + BOTTOM) / 2
    turned = next(each for each in parts(drawn, "text") if each.text == "share").get("transform")
    angle, *centre = (float(part) for part in turned.removeprefix("rotate(").removesuffix(")").split())
    assert angle == -90
    np.testing.assert_allclose(centre, names["share"])  # turned around itself
    assert [each.text for each in parts(drawn, "p")] == ["a note"]
    assert parts(svg.framed("title", []), "p") == []


@pytest.mark.parametrize("between", [False, True])
def test_bars_stand_side_by_side_on_the_axis(between):
    """Three groups of two bars fill four fifths of a third of the frame; labels are below the middle or the right."""
    y = svg.upward(0, 2)
    made = svg.bars([(1.0, 2.0), (0.0, 0.5), (1.5, 1.0)], ["a", "b", "c"], ("log", "target"), y, between)
    drawn = f"<svg>{''.join(made)}</svg>"
    boxes = numbers(parts(drawn, "rect"), "x", "y", "width", "height").reshape(3, 2, 4)
    third = (RIGHT - svg.LEFT) / 3
    np.testing.assert_allclose(boxes[..., 2], 0.4 * third, rtol=1e-4)
    np.testing.assert_allclose(boxes[:, 0, 0], svg.LEFT + third * (np.arange(3) + 0.1), rtol=1e-4)
    np.testing.assert_allclose(boxes[:, 1, 0], boxes[:, 0, 0] + 0.4 * third, rtol=1e-4)
    np.testing.assert_allclose(boxes[..., 1] + boxes[..., 3], BOTTOM, rtol=1e-4)
    np.testing.assert_allclose(boxes[..., 3] / (BOTTOM - svg.TOP), [[0.5, 1], [0, 0.25], [0.75, 0.5]], rtol=1e-4)
    assert [each.get("class") for each in parts(drawn, "rect")] == ["log", "target"] * 3
    labels = numbers(parts(drawn, "text"), "x", "y")
    np.testing.assert_allclose(labels[:, 0], svg.LEFT + third * (np.arange(3) + (1.0 if between else 0.5)), rtol=1e-4)
    assert (labels[:, 1] > BOTTOM).all()
    assert (labels[:, 1] < svg.HEIGHT - 10).all()


def test_dots_and_lines_are_where_their_numbers_are():
    x, y = svg.across(0, 4), svg.upward(0, 2)
    drawn = f"<svg>{''.join(svg.dots([(1, 2), (4, 0)], x, y, 'log'))}{svg.line([(0, 0), (4, 1)], x, y, 'curve')}</svg>"
    quarter = svg.LEFT + (RIGHT - svg.LEFT) / 4
    np.testing.assert_allclose(numbers(parts(drawn, "circle"), "cx", "cy"), [[quarter, svg.TOP], [RIGHT, BOTTOM]])
    np.testing.assert_allclose(curve(drawn, (0, 4), (0, 2)), [[0, 0], [4, 1]], atol=0.01)


def test_the_weight_over_episodes_adds_up_from_the_heaviest():
    data = log([1, 2, 1, 4])
    drawn = weights.over_episodes(data, np.array([0.0, 2, 1, 5, 0.5, 0.5, 0.5, 0.5]))  # by episode 0, 3, 5 and 2
    points = curve(drawn, (0, 100), (0, 102))
    np.testing.assert_allclose(points, [[0, 0], [25, 50], [50, 80], [75, 100], [100, 100]], atol=0.3)
    assert "Half of the weight lies on 1 of 4 episodes" in drawn
    drawn = weights.over_episodes(data, np.array([2.0, 1, 1, 1, 1, 0, 0, 0]))  # 2, 2, 1 and 1
    assert "Half of the weight lies on 2 of 4 episodes" in drawn
    np.testing.assert_allclose(curve(drawn, (0, 100), (0, 102), "even"), [[0, 0], [100, 100]], atol=0.3)


def test_a_curve_over_many_episodes_has_two_hundred_points():
    points = curve(weights.over_episodes(log([1] * 1000), np.ones(1000)), (0, 100), (0, 102))
    assert len(points) == 200
    np.testing.assert_allclose(points[:, 0], points[:, 1], atol=0.3)
    np.testing.assert_allclose(points[[0, -1]], [[0, 0], [100, 100]], atol=0.3)


def test_the_weight_over_time_is_a_mean_at_each_step():
    """Three steps: means 1.5, 0.5 and 2 of the rows there; the axis reaches from 0 to 2 and 4 % more."""
    drawn = weights.over_time(log([3, 2]), np.array([1.0, 0.5, 2.0, 2.0, 0.5]))
    np.testing.assert_allclose(curve(drawn, (0, 2), (0, 2.08)), [[0, 1.5], [1, 0.5], [2, 2]], atol=0.01)
    np.testing.assert_allclose(curve(drawn, (0, 2), (0, 2.08), "even"), [[0, 1], [2, 1]], atol=0.01)
    assert parts(drawn, "circle") == []
    assert len(parts(weights.over_time(log([2, 2]), np.ones(4)), "circle")) == 2  # a line of two points hides them


def test_long_episodes_are_shown_in_fifty_periods():
    """101 to 150 steps in periods of three, each shown at its middle."""
    drawn = weights.over_time(log([120]), np.repeat([0.0, 2.0], 60))
    points = curve(drawn, (0, 119), (0, 2.08))
    np.testing.assert_allclose(points[:, 0], 1 + 3 * np.arange(40), atol=0.25)
    np.testing.assert_allclose(points[:, 1], np.repeat([0.0, 2.0], 20), atol=0.02)


def test_finite_states_are_shown_by_their_share_of_the_log_and_of_the_target():
    data = log([4], states=np.array([7, 7, 7, 3]))
    drawn = weights.over_states(data, np.array([0.5, 0.5, 1.0, 2.0]))
    heights = numbers(parts(drawn, "rect"), "height")[:, 0].reshape(2, 2) / (BOTTOM - svg.TOP) * 0.75 * 1.05
    np.testing.assert_allclose(heights, [[0.25, 0.5], [0.75, 0.5]], atol=1e-3)
    assert [each.text for each in parts(drawn, "text") if each.text in ("3", "7")] == ["3", "7"]
    assert "The 2 commonest of 2 states" in drawn
    many = log([12], states=np.arange(12))
    drawn = weights.over_states(many, np.arange(12.0))
    shown = [each.text for each in parts(drawn, "text", "label") if not each.text.endswith("%")]
    assert shown == ["4", "5", "6", "7", "8", "9", "10", "11"]
    assert "The 8 commonest of 12 states" in drawn


def test_states_on_a_plane_are_drawn_as_often_as_their_weight():
    rng = np.random.default_rng(0)
    states = np.column_stack([np.repeat([0.0, 1.0], 50), rng.random(100)])
    data = log([100], states=states)
    drawn = weights.over_states(data, np.repeat([0.2, 1.8], 50))
    places = {kind: numbers(parts(drawn, "circle", kind), "cx")[:, 0] for kind in ("log", "target")}
    middle = (svg.LEFT + RIGHT) / 2
    assert [len(each) for each in places.values()] == [weights.DRAWN] * 2
    assert np.mean(places["log"] > middle) == pytest.approx(0.5, abs=0.09)
    assert np.mean(places["target"] > middle) == pytest.approx(0.9, abs=0.06)
    assert weights.over_states(data, np.zeros(100)) is None
    assert weights.over_states(log([3], states=np.ones((3, 2))), np.ones(3)) is None


def test_one_coordinate_leaves_the_height_free():
    states = np.arange(40.0)[:, None]
    grey, blue, names = weights.main_directions(
        np.hstack([states, 0 * states]), np.hstack([states[:5], 0 * states[:5]])
    )
    np.testing.assert_array_equal(grey[:, 0], np.arange(40))
    np.testing.assert_array_equal(blue[:, 0], np.arange(5))
    assert len(np.unique(grey[:, 1])) == 40
    assert names == ("coordinate 0 of the state", "at random")
    two, _, names = weights.main_directions(np.hstack([0 * states, states, -states]), np.zeros((1, 3)))
    np.testing.assert_array_equal(two, np.hstack([states, -states]))
    assert names == ("coordinate 1 of the state", "coordinate 2 of the state")
    assert weights.main_directions(np.full((3, 1), np.nan), np.ones((3, 1))) is None
    assert weights.main_directions(np.ones((3, 1)), np.full((3, 1), np.nan)) is None


def cells(drawn):
    return [["".join(cell.itertext()) for cell in row] for row in ElementTree.fromstring(str(drawn)).iter("tr")]


def test_the_heaviest_rows_and_episodes_are_listed():
    data = log([2, 3], rewards=np.array([1.0, 2, 3, 4, 5]), states=np.arange(30.0).reshape(5, 6))
    given = np.array([0.5, 1.0, 0.0, 2.5, 1.0])
    head, *rows = cells(weights.heaviest_rows(data, given))
    assert head == ["row", "episode", "step", "weight", "reward", "action", "state"]
    assert rows[0] == ["3", "1", "1", "2.5", "4", "0", "18, 19, 20, 21, … (6 in all)"]
    assert [row[0] for row in rows] == ["3", "1", "4", "0", "2"]
    head, *rows = cells(weights.heaviest_episodes(data, given))
    assert rows == [["1", "2", "3", "12", "70.0%", "60.0%"], ["0", "0", "2", "3", "30.0%", "40.0%"]]
    _, *rows = cells(weights.heaviest_rows(log([20]), np.arange(20.0)))
    assert [row[0] for row in rows] == [str(19 - place) for place in range(weights.LISTED)]
    four = weights.heaviest_rows(log([1], states=np.arange(4.0)[None]), np.ones(1))
    assert cells(four)[1][-1] == "0, 1, 2, 3"


def value_of(value=1.0, interval=(0.9, 1.2), verdict="reliable", **changed):
    given = {"estimator": "auto", "gamma": 1.0, "standard_error": 0.1, "effective_sample_size": 9.0, "reasons": ()}
    return ov.PolicyValue(value=value, interval=interval, verdict=verdict, **(given | changed))


@pytest.mark.parametrize(
    ("value", "spread", "expected"),
    [
        (12.3456, 3.0, "12"),  # a third of the spread is 1: no decimals
        (12.3456, 2.9, "12.3"),
        (9999999.0, 1.0, "9999999.0"),
        (1e7, 1.0, "1e+07"),
        (1.23456e-4, 1e-6, "0.0001235"),
        (0.9e-4, 1e-5, "9e-05"),
        (1.0, 1e-12, "1.000000000"),
        (1.23456, 0.0, "1.235"),
        (1.23456, float("inf"), "1.235"),
    ],
)
def test_digits_at_the_limits(value, spread, expected):
    assert words.number(value, spread) == expected


def test_the_target_is_compared_with_what_was_logged():
    assert words.compared(value_of(), 1.1).endswith("the target may be no better and no worse than what was logged.")
    assert words.compared(value_of(), 0.5).endswith("the target looks better than what was logged.")
    assert words.compared(value_of(), 1.5).startswith("The logged data themselves average 1.50: the target looks worse")
    assert words.compared(value_of(), 0.9).startswith("The logged data themselves average 0.90, which lies within")
    assert words.compared(value_of(verdict="unreliable"), 0.5) == ""
    assert words.compared(value_of(interval=None), 0.5) == ""
    assert words.compared(value_of(), None) == ""


def test_policies_whose_intervals_overlap_with_the_best_are_named():
    named = {
        "low": value_of(0.1, (0.0, 0.2)),
        "near": value_of(0.8, (0.7, 0.9)),
        "best": value_of(1.0, (0.9, 1.1)),
        "none": value_of(float("nan"), None),
    }
    assert words.ranked(named) == "Of 4 policies, best has the highest value; its interval overlaps with that of near."
    assert words.ranked({"low": named["low"], "best": named["best"]}) == "Of 2 policies, best has the highest value."


def test_returns_below_gamma_one_are_divided_by_the_rest():
    total, interval = words.the_return(value_of(gamma=0.75))
    assert total == pytest.approx(4.0)
    assert interval == pytest.approx((3.6, 4.8))
    assert words.the_return(value_of()) is None
    assert "As a discounted return, value / (1 - 0.75): 4.0, 95 % interval [3.6, 4.8]" in card(value_of(gamma=0.75))
    assert words.half_width((1.0, 4.0)) == 1.5


def test_what_was_assumed_is_said_with_its_counts():
    data = log([2, 3, 2], terminated=[0, 1, 0, 0, 0, 0, 0], truncated=[0, 0, 0, 0, 1, 0, 1])
    asked = Question(gamma=0.75, on_end="absorb", time_limit="continue", policy="a table", data="a log", seed=0)
    said = words.assumed(asked, data)
    assert "it looks about 4 steps ahead" in said[0]
    assert said[1] == "Where an episode terminated (1 of 3 episodes), the reward is 0 from then on."
    assert said[2].startswith("Where an episode was truncated (2 of 3 episodes), only the logging stopped")
    assert said[3].startswith("2 rows whose next state was not logged")
    again = words.assumed(replace(asked, gamma=1.0, on_end="restart", time_limit="restart"), data)
    assert again[0] == "γ = 1: the value is the long-run average reward per step."
    assert again[1].endswith("the task starts again from a logged initial state.")
    assert "the time limit is part of the task" in again[2]
    ended = words.assumed(asked, log([2, 2]))
    assert ended[2:] == ["No episode was truncated."]
    cut = log([2, 2], terminated=None, truncated=[0, 1, 0, 1])
    assert words.assumed(asked, cut)[1] == "No episode terminated: the task does not end by itself in this log."


def test_estimates_side_by_side_share_an_axis(tmp_path):
    """From 0 to 3 and 4 % more on both sides: 100/3.24 per cent of the width for each unit."""
    named = {"one": value_of(1.0, (0.0, 2.0)), "two": value_of(2.5, (2.0, 3.0)), "none": value_of(float("nan"), None)}
    report(named, tmp_path / "page.html")
    page = (tmp_path / "page.html").read_text()
    unit = 100 / 3.24
    for start, width, dot in ((0.0, 2.0, 1.0), (2.0, 1.0, 2.5)):
        assert f'class="bar" style="left:{(start + 0.12) * unit:.2f}%;width:{width * unit:.2f}%"' in page
        assert f'class="dot" style="left:{(dot + 0.12) * unit:.2f}%"' in page
    assert page.count('class="dot"') == 2
    assert page.count('class="bar"') == 2


def test_where_every_step_pays_the_same_returns_are_side_by_side(tmp_path):
    """Returns from 4 to 8, and one without an upper end, which goes on to that of the axis, 4 % beyond."""
    known = EpisodeReturn(6.0, 1.0, (4.0, 8.0), "reliable", ())
    endless = EpisodeReturn(5.0, 1.0, (4.0, float("inf")), "unreliable", ())
    named = {
        "one": value_of(1.0, (1.0, 1.0), episode_return=known),
        "two": value_of(1.0, (1.0, 1.0), episode_return=endless),
    }
    report(named, tmp_path / "page.html")
    page = (tmp_path / "page.html").read_text()
    unit = 100 / 4.32
    assert "Returns of an episode" in page
    assert f'class="bar" style="left:{0.16 * unit:.2f}%;width:{4 * unit:.2f}%"' in page
    assert f'class="bar" style="left:{0.16 * unit:.2f}%;width:{4.16 * unit:.2f}%"' in page
    assert f'class="dot" style="left:{2.16 * unit:.2f}%"' in page


def test_long_diagnostics_are_cut(tmp_path):
    report(value_of(diagnostics={"text": "x" * 401, "short": "y" * 400, "digits": 1 / 3}), tmp_path / "page.html")
    page = (tmp_path / "page.html").read_text()
    assert "x" * 400 + "…" in page
    assert "x" * 401 not in page
    assert "y" * 400 + "<" in page
    assert "0.333333<" in page


def test_weights_are_sorted_into_two_bins_per_factor_of_ten():
    """One row in each bin; each label is the upper end, and the last bin has none."""
    given = np.array([0.005, 0.02, 0.05, 0.2, 0.5, 2, 5, 20, 50, 200])
    drawn = weights.histogram(given)
    labels = [each.text for each in parts(drawn, "text", "label") if each.get("text-anchor") == "middle"]
    assert [label or "" for label in labels] == ["0.01", "0.03", "0.1", "0.3", "1", "3", "10", "30", "100", ""]
    heights = numbers(parts(drawn, "rect"), "height")[:, 0].reshape(-1, 2) / (BOTTOM - svg.TOP)
    np.testing.assert_allclose(heights[:, 0] / heights[-1, 1], 0.1 / (200 / given.sum()), rtol=1e-3)
    for edge in (0.01, 0.03, 0.1, 0.3, 1.0, 3.0, 10.0, 30.0, 100.0):  # an edge belongs to the bin above it
        both = weights.histogram(np.array([0.999 * edge, edge]))
        assert len(parts(both, "rect")) == 4


def test_what_was_tested_of_each_assumption_is_said():
    """Few episodes are told, what is harmless is not, and nothing was asked of hidden causes."""
    doubts = (Doubt("few", 3.5, None, "only 3 episodes", ""), Doubt("past", 0.0, None, "the past says something", ""))
    overlap, states, hidden, learnt = words.tested(replace(value_of(), doubts=doubts))
    assert overlap == "Overlap: the log holds what the target does. Tested, and doubtful: only 3 episodes."
    assert states.endswith("Tested: nothing speaks against it.")
    assert hidden.endswith("Not tested here.")
    assert learnt.endswith("Not tested here.")
