"""Thresholds of verdicts, what rewards allow, and kinds of intervals, on numbers worked out by hand."""

import re
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace

import numpy as np
import pytest
from scipy import stats

import ope_vpm as ov
from ope_vpm.ope import Problem
from ope_vpm.ope.estimator import policy_value
from ope_vpm.ope.inference.doubts import DEPARTURE, EFFECTIVE_EPISODES, OVERLAP, RULES, joined, judge, remarks
from ope_vpm.ope.inference.estimate import Hull, RawEstimate, doubts_of_weights, return_hull, rewards_hull
from ope_vpm.ope.inference.uncertainty import (
    Bootstrap,
    Derived,
    EpisodeSums,
    Likelihood,
    Spread,
    entry_rate_of_ends,
    influence_sums,
    initial_sums,
    percentile_interval,
)
from ope_vpm.ope.vpm.pairs import _fit_doubts

ROOT = Path(__file__).parents[2]
QUIET = ("constant-columns", "flags-confused", "duplicated-episodes")


def test_the_table_of_verdicts_has_the_thresholds_of_every_rule():
    table = (ROOT / "docs" / "evaluation.md").read_text().partition("\n## Verdicts")[2].partition("\n## ")[0]
    bounds = re.findall(r"\| ([<>]) ([\d.]+)( %)? \| [<>] ([\d.]+)(?: %)? \|$", table, re.MULTILINE)
    written = sorted(
        (sign, float(caution) / scale, float(unreliable) / scale)
        for sign, caution, percent, unreliable in bounds
        for scale in [100 if percent else 1]
    )
    assert written == sorted(("<" if rule.low_is_bad else ">", rule.caution, rule.unreliable) for rule in RULES)


@pytest.mark.parametrize(
    ("residual", "noise", "mean", "expected"),
    [
        (0.34, 0.1, 1.09, "reliable"),
        (0.34, 0.1, 0.89, "caution"),
        (0.34, 0.1, 1.51, "unreliable"),
        (0.36, 0.1, 1.0, "caution"),
        (0.51, 0.1, 1.0, "unreliable"),
        (0.06, None, None, "caution"),
        (None, None, None, "reliable"),
    ],
)
def test_what_a_chain_reports_is_judged_beyond_its_noise(residual, noise, mean, expected):
    """A residual counts beyond three times its noise, a mean ratio by its distance from 1."""
    report = SimpleNamespace(stationarity_residual=residual, stationarity_noise=noise, mean_ratio=mean, unseen_mass=0.0)
    assert judge(_fit_doubts(report))[0] == expected


def test_a_remark_asks_for_caution():
    assert judge(remarks(["odd"])) == ("caution", ("odd",))


def test_of_two_doubts_with_one_code_the_worse_is_kept():
    """Low overlap is worse, high departure is; remarks are one where they say the same; the larger bias stays."""
    one = (*OVERLAP.of(0.5, bias=0.25), *DEPARTURE.of(0.5), *remarks(["odd"]))
    other = (*DEPARTURE.of(0.2, bias=2.0), *OVERLAP.of(0.4, bias=0.125), *remarks(["odd", "even"]))
    for groups in ((one, other), (other, one)):
        kept = {doubt.code: doubt for doubt in joined(*groups)}
        assert {code: doubt.size for code, doubt in kept.items()} == {
            "overlap": 0.4,
            "departure": 0.5,
            "odd": 1,
            "even": 1,
        }
        assert (kept["overlap"].bias, kept["departure"].bias, kept["odd"].bias) == (0.25, 2, None)
        assert "40%" in kept["overlap"].sentence


def test_doubts_of_weights_by_hand():
    """Rows 2, 2, 0, 0 and -1 in episodes of 1, 1 and 3 rows: 16/8 rows; episodes 2, 2, 0 are worth 2 of 3.

    Equal rows would make the episodes' sums 1, 1 and 3, worth 25/11 of 3: so 2·3/(25/11).
    """
    data = ov.LoggedDataset.from_arrays(np.zeros(5, int), np.zeros(5, int), np.zeros(5), terminated=[1, 1, 0, 0, 1])
    weights = np.array([2.0, 2, 0, 0, -1])
    sizes = {doubt.code: doubt.size for doubt in doubts_of_weights(data, weights)}
    episodes = 2 * 3 / (25 / 11)
    assert sizes == pytest.approx(
        {"effective_rows": 2, "effective_share": 0.4, "negative_mass": 0.2, "effective_episodes": episodes}
    )
    assert RawEstimate(value=0.0, doubts=doubts_of_weights(data, np.ones(5))).size(EFFECTIVE_EPISODES) == pytest.approx(
        3
    )


def test_what_is_possible():
    hull = Hull(-1.0, 2.0)
    assert hull.rounding == pytest.approx(2e-9)
    assert [hull.nearest(value) for value in (-3.0, 0.5, 7.0)] == [-1, 0.5, 2]
    assert np.isnan(hull.nearest(float("nan")))
    assert hull.cut((-2.0, 1.0)) == (-1, 1)
    assert hull.cut((0.0, 3.0)) == (0, 2)
    assert hull.cut((3.0, 4.0)) == (-1, 2) == hull.cut((-4.0, -3.0))
    assert Hull(1.0, np.inf).cut((-1.0, 0.5)) == (1, 3)  # at most 2 below 1, so at most 2 above
    assert Hull(-np.inf, 1.0).cut((1.5, 4.0)) == (-2, 1)
    assert [hull.beyond(each) for each in ((2.0, 3.0), (2.1, 3.0), (-2.0, -1.0), (-2.0, -1.1))] == [0, 1, 0, 1]
    assert not hull.single
    assert Hull(1.0, 1.0 + 1e-10).single
    assert not Hull(1.0, 1.0 + 1e-8).single
    assert Hull(-np.inf, 3.0).rounding == pytest.approx(3e-9)
    assert Hull(-np.inf, np.inf).rounding == 0


def episodes_of(rewards, terminated=True, **options):
    """Episodes of three steps in one state that pay these rewards."""
    size = len(rewards)
    last = np.arange(size) % 3 == 2
    data = ov.LoggedDataset.from_arrays(
        np.zeros(size, int), np.zeros(size, int), np.array(rewards, float), np.zeros(size, int),
        last & terminated, last & (not terminated),
    )  # fmt: skip
    return Problem.pose(data, [[1.0]], ignore=QUIET, **options)


def test_what_rewards_allow_per_step_and_per_episode():
    paid = [1.0, 2, 3, 1, 2, 3]
    assert rewards_hull(episodes_of(paid)) == Hull(1, 3)
    assert rewards_hull(episodes_of(paid, gamma=0.5)) == Hull(0, 3)
    assert rewards_hull(episodes_of(paid, terminated=False, gamma=0.5)) == Hull(1, 3)
    assert return_hull(episodes_of(paid)) == Hull(1, np.inf)  # one step of the least reward, any number of the largest
    assert return_hull(episodes_of([-1.0, 2, -3] * 2)) == Hull(-np.inf, np.inf)
    assert return_hull(episodes_of([-1.0, -2, -3] * 2)) == Hull(-np.inf, -1)
    assert return_hull(episodes_of([0.0, 0, 1, 0, 0, 3])) == Hull(0, 3)  # only ends pay
    assert return_hull(episodes_of([0.0, 0, -1, 0, 0, -3])) == Hull(-3, 0)
    limited = episodes_of(paid * 4, terminated=False, time_limit="restart")
    assert return_hull(limited) == Hull(1, 9)


def log_of(episodes):
    return episodes_of([0.0, 1, 2] * episodes).log


def test_a_likelihood_interval_is_stretched_by_suspected_bias():
    """Replicates of deviation s and a bias of √3·s make the error twice as large, and so the interval."""
    log = log_of(6)
    sums = EpisodeSums.of_influence(2.0, np.array([1.0, -1, 2, -2, 0.5, -0.5]))
    error, ends = Likelihood(episodes=sums, ends=(1.0, 5.0)).interval(2.0, log, 0)
    assert ends == pytest.approx((1, 5))
    bias = np.sqrt(3) * error
    twice, ends = Likelihood(episodes=sums, ends=(1.0, 5.0), suspected_bias=bias).interval(2.0, log, 0)
    assert twice == pytest.approx(2 * error)
    assert ends == pytest.approx((0, 8))
    still = EpisodeSums.of_influence(2.0, np.zeros(6))
    assert Likelihood(episodes=still, ends=(1.0, 5.0)).interval(2.0, log, 0) == (0, (1, 5))


def test_an_interval_that_reaches_as_far_as_is_known():
    sums = EpisodeSums.of_influence(2.0, np.array([1.0, -1, 2, -2, 0.5, -0.5]))
    log = log_of(6)
    _, (low, high) = Bootstrap(episodes=sums).interval(2.0, log, 0)
    assert low < 0 < 4 < high
    assert Derived(of=Bootstrap(episodes=sums), limits=(1.0, 29.0)).interval(2.0, log, 0)[1] == (low, 29)
    assert Derived(of=Bootstrap(episodes=sums), limits=(-29.0, 3.0)).interval(2.0, log, 0)[1] == (-29, high)
    assert Derived(of=Bootstrap(episodes=sums), limits=(2.0, 2.0)).interval(2.0, log, 0)[1] == (low, high)


def test_a_scaled_uncertainty_moves_with_its_value():
    """The uncertainty of 7 + 3·v for v = 2, a Bootstrap's with bias ½: 3 times the error and the sums."""
    log = log_of(6)
    sums = EpisodeSums.of_influence(2.0, np.array([1.0, -1, 2, -2, 0.5, -0.5]))
    of = Bootstrap(episodes=sums, suspected_bias=0.5)
    error, (low, high) = of.interval(2.0, log, 0)
    scaled = Derived(of=of, at=2.0, shift=7.0, factor=3.0)
    assert scaled.suspected_bias == 1.5
    np.testing.assert_allclose(scaled.sums.influence, 3 * sums.influence)
    found, ends = scaled.interval(13.0, log, 0)
    assert found == pytest.approx(3 * error)
    assert ends == pytest.approx((7 + 3 * low, 7 + 3 * high))
    assert Derived(of=Spread(members=np.zeros(2)), factor=3.0).sums is None


def test_models_spread_by_students_quantiles():
    """Two models: one degree of freedom, so quantiles of a Cauchy variable; a bias adds to the squared error."""
    log = log_of(6)
    spread, quantile = np.sqrt(2), stats.t.ppf(0.975, 5)
    error, (low, high) = Spread(members=np.array([0.0, 2.0]), suspected_bias=1.0).interval(5.0, log, 0)
    assert error == pytest.approx(np.sqrt(3))
    drawn = 5 + spread * stats.cauchy.ppf((np.arange(200) + 0.5) / 200)
    assert (low, high) == pytest.approx(percentile_interval(drawn, 5.0, 6, 1.0))
    assert high - 5 == pytest.approx(5 - low)
    assert high - 5 > quantile * spread


def test_replicates_that_are_equal_but_for_rounding_have_the_width_of_the_bias():
    quantile = stats.t.ppf(0.975, 9)
    drawn = np.full(200, 3.0) + 1e-12 * np.arange(200)
    assert percentile_interval(drawn, 3.0, 10, 0.5) == pytest.approx((3 - quantile / 2, 3 + quantile / 2))
    assert percentile_interval(drawn, 3.0, 10, 0.0) == pytest.approx((3.0, 3.0))
    wide = percentile_interval(3 + np.linspace(-1, 1, 200), 3.0, 10, 0.0)
    assert wide[0] == pytest.approx(2.0, abs=0.1)
    assert wide[1] == pytest.approx(4.0, abs=0.1)


def test_sums_of_influence_by_hand():
    """Two episodes of three steps, mass on the last steps 0.2 and 0.4; restarts at γ = ½ enter with rate ½ + ½·0.6."""
    problem = episodes_of([0.0] * 6, gamma=0.5, on_end="restart")
    mass = np.array([0.1, 0.1, 0.2, 0.1, 0.1, 0.4])
    rows, share, residual = np.arange(6), np.full(6, 1 / 6), np.arange(6.0)
    assert entry_rate_of_ends(problem, rows, mass) == pytest.approx(0.3)
    first = np.array([1.0, 3.0])
    start = initial_sums(problem, 0.8, first)
    np.testing.assert_allclose(start.influence, [-0.4, 0.4])
    assert start.ratios == pytest.approx([0.0])
    found = influence_sums(problem, rows, share, mass, residual, first)
    of_steps = np.array([0.1 + 0.4, 0.3 + 0.4 + 2.0])
    np.testing.assert_allclose(found.influence, of_steps - of_steps.sum() / 2 + [-0.4, 0.4])
    levelled = influence_sums(problem, rows, share, mass, residual - 3.2, first, level=2.0)
    np.testing.assert_allclose(levelled.ratios, [2.0, 0.0])
    above = np.array([0.5 - 0.4 * 3.2, 2.7 - 0.6 * 3.2])
    np.testing.assert_allclose(levelled.influence, above + np.array([-0.4, 0.4]), atol=1e-12)
    assert initial_sums(problem, 0.0, first).standard_error == 0


def test_values_and_returns_of_one_estimate():
    """Nine episodes of three steps, bounded by the rewards' hull and moved into it."""
    problem = episodes_of([1.0, 2, 3] * 12)
    sums = EpisodeSums.of_influence(2.0, np.tile([0.01, -0.01], 6))
    inner = RawEstimate(value=6.0, uncertainty=Bootstrap(episodes=sums.scaled(3.0)))
    raw = RawEstimate(value=2.0, uncertainty=Bootstrap(episodes=sums), weights=np.r_[-1.0, np.ones(35)])
    found = policy_value(problem, "mine", replace(raw, per_episode=inner))
    assert found.value == 2
    assert found.as_return() == 6
    assert found.verdict == found.return_verdict == "reliable"
    assert found.weights[0] == 0
    assert found.weights.mean() == pytest.approx(1)
    assert found.effective_sample_size == pytest.approx(35)
    assert found.return_interval[0] < 6 < found.return_interval[1]
    low, high = found.interval
    assert found.standard_error == pytest.approx(np.sqrt(12 / 11 * 12) * 0.01, rel=0.15)
    assert high - low == pytest.approx(2 * 2.2 * found.standard_error, rel=0.25)
    outside = policy_value(problem, "mine", replace(raw, per_episode=replace(inner, value=-5.0)))
    assert outside.return_verdict == "unreliable"
    assert outside.as_return() == 1  # an episode has one step at least, which pays 1 at least
    unknown = policy_value(problem, "mine", replace(raw, per_episode=RawEstimate(value=float("nan"))))
    assert unknown.episode_return is None
    assert "reaches no end" in unknown.no_return
