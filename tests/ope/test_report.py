"""The report page: its sentences, its numbers, what strangers' texts can do to it, and how a browser shows it."""

from __future__ import annotations

import re
import sys
from html.parser import HTMLParser

import numpy as np
import pytest

import ope_vpm as ov
from ope_vpm.cli import main
from ope_vpm.envs.linear_gaussian import BEHAVIOUR, TARGET, LinearGaussian
from ope_vpm.envs.random_mdp import RandomMDP
from ope_vpm.ope.inference.doubts import FEW, SUPPORT, advise, remarks
from ope_vpm.ope.inference.value import EpisodeReturn
from ope_vpm.ope.reporting import words
from ope_vpm.ope.reporting.page import side_by_side
from ope_vpm.ope.reporting.weights import histogram, main_directions, over_episodes
from ope_vpm.ope.reporting.words import by_name, logged_mean
from ope_vpm.pages.html import element
from ope_vpm.pages.svg import Axis, nice_step, spanning
from tests.leaderboard.browser import browser, missing

MDP = RandomMDP.draw(6, 2, seed=0)
DATA = MDP.dataset(20, 30, MDP.policy(1), seed=2)
HOSTILE = "<script>alert(1)</script>\"'&"


def value_of(verdict="reliable", **changed):
    given = {
        "estimator": "auto",
        "value": 1.23797,
        "gamma": 1.0,
        "standard_error": 0.0049,
        "interval": (1.22848, 1.24761),
        "effective_sample_size": 100.0,
        "verdict": verdict,
        "reasons": (),
    }
    return ov.PolicyValue(**(given | changed))


class Texts(HTMLParser):
    """The text of a page, its tags, and every address in it."""

    def __init__(self, page):
        super().__init__()
        self.text, self.tags, self.open, self.addresses = [], [], [], []
        self.feed(page)

    def handle_starttag(self, tag, attributes):
        self.tags.append(tag)
        self.addresses += [value for name, value in attributes if name in ("src", "href", "xlink:href", "action")]
        if tag not in ("meta", "link"):
            self.open.append(tag)

    def handle_endtag(self, tag):
        assert self.open.pop() == tag

    def handle_data(self, data):
        self.text.append(data)


def read(path):
    return Texts(path.read_text())


def test_the_sentence_on_top():
    assert words.headline("auto", value_of()) == (
        "auto puts the value at 1.238, between 1.228 and 1.248; nothing speaks against it."
    )
    doubtful = value_of("caution", reasons=("few episodes (5) say little",), advice=("log more episodes",))
    assert words.headline("auto", doubtful).endswith("take it with caution: few episodes (5) say little.")
    assert words.would_help(doubtful) == "What would help: log more episodes."
    bad = words.headline("wist", value_of("unreliable", reasons=("no overlap",)))
    assert bad.startswith("Do not rely on this: no overlap. wist puts the value at 1.238")
    found = EpisodeReturn(296.0, 4.0, (286.0, 300.0), "reliable", ())
    same = value_of(value=1.0, interval=(1.0, 1.0), episode_return=found)
    assert words.headline("auto", same) == (
        "auto puts the return of an episode at 296, between 286 and 300; nothing speaks against it."
    )
    assert words.compared(same, 250.0) == (
        "The logged data themselves average 250: the target looks better than what was logged."
    )
    nothing = value_of("unreliable", value=float("nan"), interval=None, reasons=("every weight is zero",))
    assert words.headline("wist", nothing) == "wist found no value: every weight is zero."


@pytest.mark.parametrize(
    ("value", "spread", "expected"),
    [
        (1.23797, 0.0095, "1.238"),
        (-0.1141, 0.2, "-0.11"),
        (2034.4, 51.0, "2034"),
        (0.0, 1e-5, "0"),
        (1.5e9, 2e8, "1.5e+09"),
        (0.123456, None, "0.1235"),
        (float("nan"), 0.1, "none"),
    ],
)
def test_numbers_have_the_digits_their_uncertainty_leaves(value, spread, expected):
    assert words.number(value, spread) == expected


def test_the_unit_says_whether_rewards_are_discounted():
    assert words.unit(1.0) == "average reward per step"
    assert words.unit(0.9) == "reward per step, discounted by γ = 0.9"


@pytest.mark.parametrize(
    ("values", "zero", "expected"),
    [([1, 3], False, (0.92, 3.08)), ([2, 2], False, (1.8, 2.2)), ([0, 0], False, (-1, 1)), ([1, 5], True, (0, 5.2))],
)
def test_axes_reach_a_little_beyond_their_values(values, zero, expected):
    """By 4 % of the range; by a tenth of the value where there is no range, by one where that is 0."""
    assert spanning(values, zero) == pytest.approx(expected)


def test_ticks_are_round_and_within_the_axis():
    """A fifth of the range, rounded up to 1, 2 or 5 times a power of ten; both ends are marked where they are round."""
    assert Axis(0.0, 1.0, 0, 100).ticks() == pytest.approx([0, 0.2, 0.4, 0.6, 0.8, 1])
    assert Axis(-1.5, 8.0, 0, 100).ticks() == [0, 2, 4, 6, 8]
    assert [nice_step(rough) for rough in (1, 1.1, 3, 6, 0.04)] == pytest.approx([1, 2, 5, 10, 0.05])
    assert Axis(1.0, 3.0, 10, 110)(1.5) == 35


def test_advice_follows_the_rules_that_were_broken_worst_first():
    doubts = (*FEW.of(5.0, 5), *SUPPORT.of(0.5), *remarks(["odd"]))
    assert advise(doubts) == (
        "log episodes of the target, or of a policy nearer to it",
        "log 5 more episodes of this kind",
    )
    assert advise(()) == ()
    assert advise(remarks(["odd"], "look")) == ("look",)


@pytest.mark.parametrize("gamma", [1.0, 0.9])
def test_the_logged_mean_is_that_of_naive(gamma):
    value = ov.evaluate(DATA, MDP.policy(3), "naive", gamma=gamma)
    assert logged_mean(value, DATA) == pytest.approx(value.value, abs=1e-12)
    assert logged_mean(value, None) is None


def test_weights_in_figures():
    data = ov.LoggedDataset.from_arrays(np.zeros((4, 1)), [0] * 4, [0.0] * 4, terminated=[True] * 4)
    page = over_episodes(data, np.array([0.0, 3.0, 1.0, 0.0]))
    assert "Half of the weight lies on 1 of 4 episodes" in page
    bins = histogram(np.array([0.0, 0.5, 0.5, 3.5]))
    heights = np.array([float(height) for height in re.findall(r' height="([\d.]+)"', bins)]).reshape(-1, 2)
    shares = heights / heights.max() * 3.5 / 4.5  # the highest bar is that of the heaviest row's weight
    assert shares[:, 0] == pytest.approx([0.25, 0, 0, 0, 0.5, 0, 0.25], abs=1e-4)
    assert shares[:, 1] == pytest.approx([0, 0, 0, 0, 1 / 4.5, 0, 3.5 / 4.5], abs=1e-4)
    assert [label in bins for label in (">0.01<", ">10<", ">30<")] == [True, True, False]


def test_the_two_main_directions_of_a_state():
    rng = np.random.default_rng(0)
    common = rng.standard_normal(500)
    states = np.column_stack([common, rng.standard_normal(500), common * 100, np.full(500, 7.0)])
    states[3, 0] = np.nan
    grey, blue, names = main_directions(states, states[:10])
    assert len(grey) == 499
    assert len(blue) == 9
    assert names[0].startswith("coordinates 0, 2: 67% of") or names[0].startswith("coordinates 2, 0")
    assert names[1].startswith("coordinates 1")
    assert main_directions(np.ones((5, 2)), np.ones((5, 2))) is None


def test_texts_are_escaped_wherever_they_come_from(tmp_path):
    hostile = value_of("unreliable", estimator=HOSTILE, reasons=(HOSTILE,) * 2, diagnostics={HOSTILE: [HOSTILE]})
    ov.report({HOSTILE: hostile, "two": hostile}, tmp_path / "page.html", title=HOSTILE)
    page = read(tmp_path / "page.html")
    assert "script" not in page.tags
    assert "".join(page.text).count(HOSTILE) >= 6
    assert page.addresses == ["data:,"]
    assert page.open == []
    assert "<script>" not in hostile._repr_html_()
    assert element("p", HOSTILE, title=HOSTILE).count("<") == 2


def test_diagnostics_are_written_as_people_write_them(tmp_path):
    told = {"why": ("smooth", "little noise"), "candidates": {"vpm": 0.123456789, "model": 2}}
    ov.report(value_of(diagnostics=told), tmp_path / "page.html")
    text = read(tmp_path / "page.html").text
    assert "smooth, little noise" in text
    assert "vpm: 0.123457, model: 2" in text


def test_the_page_holds_what_was_asked_for(tmp_path):
    values = ov.evaluate(DATA, MDP.policy(3), ["vpm", "auto", "naive"], gamma=0.9)
    ov.report(values, tmp_path / "page.html", DATA, title="new on log.npz")
    page = " ".join(read(tmp_path / "page.html").text)
    heaviest = int(np.argmax(values["auto"].weights))
    for expected in (
        "new on log.npz",
        words.headline("auto", values["auto"]),
        "discounted by γ = 0.9",
        "effective sample size",
        words.number(values["auto"].as_return(), words.half_width(words.the_return(values["auto"])[1])),
        "Where an episode was truncated (20 of 20 episodes), only the logging stopped",
        "Nothing looks wrong",
        f" {heaviest} ",
        repr(DATA),
        ov.__version__,
    ):
        assert expected in f" {page} ", expected


def test_without_data_and_for_several_policies(tmp_path):
    values = ov.evaluate(DATA, {"old": MDP.policy(1), "new": MDP.policy(3)}, "vpm")
    ov.report(values, tmp_path / "page.html")
    best = max(values, key=lambda name: values[name].value)
    assert f"Of 2 policies, {best} has the highest value" in " ".join(read(tmp_path / "page.html").text)
    values["new"].report(tmp_path / "one.html")
    assert "With the data" in (tmp_path / "one.html").read_text()
    nested = ov.evaluate(DATA, [MDP.policy(1), MDP.policy(3)], ["vpm", "naive"])
    assert words.subject("policy 0, naive", nested[0]["naive"]) == "For policy 0, naive"
    assert list(by_name(nested)) == ["policy 0, vpm", "policy 0, naive", "policy 1, vpm", "policy 1, naive"]


def test_the_sentence_says_what_the_value_is_of(tmp_path):
    """Values of policies and of discounts have names that are no estimator's."""

    def told(values):
        ov.report(values, tmp_path / "page.html")
        return " ".join(read(tmp_path / "page.html").text)

    assert "For old, vpm puts the value at" in told(
        ov.evaluate(DATA, {"old": MDP.policy(1), "new": MDP.policy(3)}, "vpm")
    )
    discounted = told(ov.evaluate(DATA, MDP.policy(1), "vpm", gamma=[0.9, 1.0]))
    assert "For γ = 0.9, vpm puts the value at" in discounted
    assert "policies" not in discounted  # one policy, whose values at two discounts are no contest
    twice = told(ov.evaluate(DATA, MDP.policy(1), ["vpm", "vpm"]))
    assert "vpm puts the value at" in twice
    assert "has the highest value" not in twice


def test_other_data_are_refused(tmp_path):
    value = ov.evaluate(DATA, MDP.policy(3), "vpm")
    with pytest.raises(ValueError, match="the log that was evaluated: vpm has 600 weights, and the data have 30 rows"):
        value.report(tmp_path / "page.html", DATA.select(0))
    with pytest.raises(ValueError, match="at least one"):
        ov.report({}, tmp_path / "page.html")


def test_unreliable_intervals_do_not_stretch_the_axis():
    """Values 2 and 4 and the interval [1, 3] span 1 to 4; the bar of the other goes from one end to the other."""
    good, bad = value_of(value=2.0, interval=(1.0, 3.0)), value_of("unreliable", value=4.0, interval=(-100.0, 100.0))
    low, high = spanning([1.0, 2.0, 3.0, 4.0])
    page = str(side_by_side({"a": good, "b": bad}))
    bars = re.findall(r'class="bar" style="left:([\d.]+)%;width:([\d.]+)%"', page)
    assert [float(part) for part in bars[0]] == pytest.approx(
        [100 * (1 - low) / (high - low), 100 * 2 / (high - low)], abs=0.01
    )
    assert bars[1] == ("0.00", "100.00")
    assert "go on beyond it" in page
    alone = str(side_by_side({"b": bad}))
    assert "go on beyond it" not in alone
    assert "go on beyond it" not in str(side_by_side({"a": good}))


def test_the_command_writes_the_page(tmp_path, monkeypatch, capsys):
    DATA.save(tmp_path / "log.npz")
    np.save(tmp_path / "new.npy", MDP.policy(3))
    monkeypatch.chdir(tmp_path)
    options = ["--policy", "new.npy", "--json", "--report", "page.html"]
    monkeypatch.setattr(sys, "argv", ["ope-vpm", "evaluate", "log.npz", *options])
    with pytest.raises(SystemExit) as ended:
        main()
    assert not ended.value.code
    assert capsys.readouterr().err == ""
    assert "new.npy on log.npz" in (tmp_path / "page.html").read_text()


@pytest.mark.skipif(missing() is not None, reason=missing() or "")
def test_the_page_fits_in_a_browser(tmp_path):
    system = LinearGaussian()
    data = system.dataset(30, 40, BEHAVIOUR, seed=0)
    values = ov.evaluate(data, TARGET.policy(), ["vpm", "wist", "naive"], gamma=0.95)
    ov.report(values, tmp_path / "page.html", data, title="a name without any spaces " + "x" * 200)
    with browser(tmp_path) as opened:
        colours = set()
        for width, dark in ((1280, False), (768, True), (390, False), (390, True)):
            opened.screen(width, dark)
            opened.open(tmp_path / "page.html")
            assert opened.script("return document.documentElement.scrollWidth") <= width
            heights = "[...document.querySelectorAll('svg text')].map(text => text.getBoundingClientRect().height)"
            assert opened.script(f"return Math.min(...{heights})") >= 9  # pixels
            colours.add(opened.script("return getComputedStyle(document.body).backgroundColor"))
            assert opened.console() == []
            ends = "[...document.querySelectorAll('td span')].map(verdict => verdict.getBoundingClientRect().right)"
            assert 0 < opened.script(f"return Math.max(...{ends})") <= width  # the verdicts are not cut
        assert len(colours) == 2
