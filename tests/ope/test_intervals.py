"""Intervals and verdicts, on numbers worked out by hand."""

import numpy as np
import pytest
from scipy import stats

import ope_vpm as ov
from ope_vpm.ope import Problem
from ope_vpm.ope.estimator import SAYS_NOTHING, policy_value
from ope_vpm.ope.inference.doubts import FEW, SUPPORT, judge, remarks
from ope_vpm.ope.inference.estimate import NO_DATA, RawEstimate
from ope_vpm.ope.inference.uncertainty import Bootstrap, EpisodeSums, Spread, percentile_interval, replicates

QUIET = ("constant-columns", "flags-confused", "duplicated-episodes")


def test_sums_of_rows_by_episode():
    sums = EpisodeSums.of_rows(np.array([0, 0, 1]), 2, np.array([1.0, 2.0, 5.0]), np.array([1.0, 1.0, 2.0]))
    assert sums.numerator.tolist() == [[3.0], [5.0]]
    assert sums.denominator.tolist() == [[2.0], [2.0]]
    assert sums.ratios.tolist() == [2.0]
    assert sums.beside(sums).ratios.tolist() == [2.0, 2.0]


def test_a_value_and_influences_as_sums():
    """A value of 3 that two episodes move by ½ and -½, scaled by 2 and with deviations three times as large."""
    sums = EpisodeSums.of_influence(3.0, np.array([0.5, -0.5]))
    assert (sums.ratios.tolist(), sums.influence.tolist()) == ([3], [0.5, -0.5])
    assert (sums.scaled(2).ratios.tolist(), sums.scaled(2).influence.tolist()) == ([6], [1, -1])
    assert (sums.stretched(3).ratios.tolist(), sums.stretched(3).influence.tolist()) == ([3], [1.5, -1.5])


def test_two_episodes_have_three_equally_spaced_replicates():
    """Drawn (0, 0), one of each, or (1, 1): means 0, 1 and 2 with chances ¼, ½, ¼."""
    sums = EpisodeSums(np.array([[0.0], [2.0]]), np.array([[1.0], [1.0]]))
    values, times = np.unique(replicates(sums, seed=0, number=40_000), return_counts=True)
    assert values.tolist() == [0.0, 1.0, 2.0]
    np.testing.assert_allclose(times / 40_000, [0.25, 0.5, 0.25], atol=0.01)


def test_a_draw_without_denominator_takes_the_whole_ratio():
    sums = EpisodeSums(np.array([[0.0], [3.0]]), np.array([[0.0], [1.0]]))
    assert set(replicates(sums, seed=1)) == {3.0}


def test_replicates_have_the_deviation_of_a_mean():
    values = np.random.default_rng(0).standard_normal((50, 1))
    sums = EpisodeSums(values, np.ones((50, 1)))
    drawn = replicates(sums, seed=0, number=20_000)
    assert drawn.std() == pytest.approx(values.std() / np.sqrt(50), rel=0.02)


def test_percentiles_are_students():
    """Exact normal quantiles as replicates give value ± t·√(E/(E-1)) standard deviations."""
    drawn = stats.norm.ppf((np.arange(100_000) + 0.5) / 100_000)
    low, high = percentile_interval(drawn, 0.0, episodes=8, bias=0.0)
    expected = stats.t.ppf(0.975, 7) * np.sqrt(8 / 7)
    assert (low, high) == pytest.approx((-expected, expected), rel=1e-3)


def test_a_suspected_bias_widens_like_one_more_standard_error():
    drawn = stats.norm.ppf((np.arange(2000) + 0.5) / 2000)
    plain = np.diff(percentile_interval(drawn, 0.0, 1000, bias=0.0))
    wider = np.diff(percentile_interval(drawn, 0.0, 1000, bias=float(drawn.std()) * np.sqrt(3)))
    assert wider == pytest.approx(2 * plain)
    assert np.diff(percentile_interval(np.zeros(200), 0.0, 1000, bias=1.0)) == pytest.approx(2 * 1.9623, rel=1e-3)


def test_nothing_wrong_is_reliable():
    assert judge((*FEW.of(500.0), *SUPPORT.of(0.0))) == ("reliable", ())


def test_reasons_come_worst_first_with_their_numbers():
    level, reasons = judge((*remarks(["odd", "warned"]), *SUPPORT.of(0.3, sentence=NO_DATA), *FEW.of(2.0)))
    assert level == "unreliable"
    assert reasons == (
        "the value rests on few episodes, worth 2.0: their spread is hardly known",
        "30% of the target's steps lead where there are no data",
        "odd",
        "warned",
    )


def log_of(rewards, ended=False):
    """Twelve episodes of four steps that pay these rewards in turn, in two states."""
    states, last = np.tile([0, 1], 24), np.arange(1, 49) % 4 == 0
    return ov.LoggedDataset.from_arrays(
        states, np.zeros(48, dtype=int), np.resize(np.array(rewards, dtype=float), 48), 1 - states, last & ended,
        last & (not ended),
    )  # fmt: skip


def judged(rewards, value, members=(0.0, 0.0), gamma=1.0, ended=False, doubts=()):
    """What becomes of an estimate whose models differ by `members` from it."""
    quiet = ("constant-columns", "flags-confused", "duplicated-episodes")
    problem = Problem.pose(log_of(rewards, ended), [[1.0]] * 2, gamma=gamma, ignore=quiet)
    spread = Spread(members=value + np.array(members))
    raw = RawEstimate(value=value, uncertainty=spread, doubts=doubts)
    return policy_value(problem, "mine", raw)


def test_values_that_the_rewards_do_not_allow_are_moved_and_unreliable():
    found = judged([0, 1], 1.25)
    assert found.value == 1
    assert found.verdict == "unreliable"
    assert found.reasons[0] == (
        "the estimate 1.25 lies outside of what the rewards allow, [0, 1], and was moved to the nearest end"
    )
    assert found.interval == (0, 1)  # nothing of [1.25, 1.25] is possible, so everything possible is left
    assert judged([-3, -2], -3.5).value == -3


def test_intervals_end_where_the_rewards_do():
    found = judged([0, 1], 0.9, members=(-0.1, 0.0, 0.1))
    assert found.value == 0.9
    assert found.verdict == "reliable"
    assert 0 < found.interval[0] < 0.9
    assert found.interval[1] == 1


def test_rounding_errors_are_not_outside():
    found = judged([0, 1], 1 + 1e-12)
    assert found.verdict == "reliable"
    assert found.value == 1


def test_the_time_after_an_end_pays_nothing():
    """Below γ = 1 an end absorbs: rewards of 1 and 2 then allow 0, too; otherwise they do not."""
    assert judged([1, 2], 0.5, gamma=0.9, ended=True).value == 0.5
    assert judged([1, 2], 0.5, gamma=0.9).value == 1
    assert judged([1, 2], 0.5, ended=True).value == 1


def test_equal_rewards_say_nothing_about_the_value_per_step():
    for gamma, ended in ((1.0, False), (1.0, True), (0.9, False)):
        found = judged([0.1], 0.1, gamma=gamma, ended=ended)
        assert found.verdict == "unreliable"
        assert SAYS_NOTHING in found.reasons
    assert judged([0.1], 0.05, gamma=0.9, ended=True).verdict == "reliable"


def test_a_discounted_value_may_be_that_of_an_end_that_was_never_logged():
    """Every logged step pays -1 and none ends: a target that reaches a goal at once is worth 0, not -1."""
    assert judged([-1], -1, gamma=0.9).interval == (-1, 0)
    assert judged([1, 2], 1.5, gamma=0.9).possible == (0, 2)
    assert judged([1, 2], 1.5).possible == (1, 2)  # at γ = 1 an end restarts
    assert judged([1, 2], 1.5).as_dict()["possible"] == [1, 2]


def test_an_interval_does_not_depend_on_the_verdict():
    sure, doubted = (judged([1, 2], 1.5, (-0.01, 0.0, 0.01), doubts=SUPPORT.of(each)) for each in (0.0, 0.9))
    assert (sure.verdict, doubted.verdict) == ("reliable", "unreliable")
    assert 1 < sure.interval[0] < 1.5 < sure.interval[1] < 2
    assert doubted.interval == sure.interval
    low, high = judged([1, 2], 1.5, members=(-0.1, 0.0, 0.1), gamma=0.9, doubts=SUPPORT.of(0.2)).interval
    assert 1 <= low < high <= 2  # of a cautious answer what was logged


def test_treatments_that_hardly_differ_do_not_disagree():
    """A deterministic cycle has rounding errors as standard error, and unseen mass of 10⁻⁵ hardly moves its value."""
    states = np.resize([0, 1, 2, 3, 4, 5, 6], 400)
    rewards = np.sin(1.0 + states)
    data = ov.LoggedDataset.from_arrays(
        states, np.zeros(400, dtype=int), rewards, (states + 1) % 7, truncated=np.arange(1, 401) % 20 == 0
    )
    quiet = ("constant-columns", "flags-confused", "duplicated-episodes")
    found = ov.evaluate(data, [[1 - 1e-5, 1e-5]] * 7, "vpm", ignore=quiet)
    assert found.verdict == "reliable"
    replaced = ov.evaluate(data, [[1 - 1e-5, 1e-5]] * 7, "vpm", unseen="restart", ignore=quiet)
    assert replaced.verdict == "reliable"


def test_standard_errors_count_one_episode_less():
    """Three episodes: √(3/2) times the deviation of the replicates; two models: their deviation with n - 1 below."""
    log = Problem.pose(log_of([0, 1]).select(slice(0, 3)), [[1.0]] * 2, ignore=QUIET).log
    sums = EpisodeSums(np.array([[0.0], [1.0], [5.0]]), np.ones((3, 1)))
    error, _ = Bootstrap(episodes=sums).interval(2.0, log, 0)
    assert error == pytest.approx(np.sqrt(7 / 3), rel=0.1)  # variance (4 + 1 + 9)/2, over three episodes
    error, _ = Spread(members=np.array([0.0, 2.0])).interval(1.0, log, 0)
    assert error == pytest.approx(np.sqrt(2))
