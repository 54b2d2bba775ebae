"""Intervals and verdicts, on numbers worked out by hand."""

import numpy as np
import pytest
from scipy import stats

from ope_vpm.ope.inference.uncertainty import EpisodeSums, percentile_interval, replicates
from ope_vpm.ope.inference.verdict import RULES, Evidence, judge


def test_sums_of_rows_by_episode():
    sums = EpisodeSums.of_rows(np.array([0, 0, 1]), 2, np.array([1.0, 2.0, 5.0]), np.array([1.0, 1.0, 2.0]))
    assert sums.numerator.tolist() == [[3.0], [5.0]]
    assert sums.denominator.tolist() == [[2.0], [2.0]]
    assert sums.ratios.tolist() == [2.0]
    assert sums.beside(sums).ratios.tolist() == [2.0, 2.0]


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
    assert judge(Evidence(effective_rows=500, rows=1000, overlap=1.0, unseen_mass=0.0), 50, ()) == ("reliable", ())


def test_reasons_come_worst_first_with_their_numbers():
    level, reasons = judge(Evidence(effective_rows=20, rows=100, unseen_mass=0.1, remarks=("odd",)), 50, ("warned",))
    assert level == "unreliable"
    assert reasons == (
        "the weighted log is worth 20 rows of equal weight",
        "10% of the target's steps lead where there are no data",
        "odd",
        "warned",
    )


@pytest.mark.parametrize("rule", RULES, ids=lambda rule: rule.name)
def test_each_rule_has_three_levels(rule):
    between = (rule.caution + rule.unreliable) / 2
    beyond = rule.unreliable * (0.5 if rule.low_is_bad else 2)
    fine = rule.caution * (2 if rule.low_is_bad else 0.5)
    assert [rule.judge(number) for number in (fine, between, beyond)] == [0, 1, 2]
    assert rule.judge(float("nan")) == 2


def test_residuals_within_chance_are_no_reason():
    assert judge(Evidence(residual=0.3, residual_noise=0.1), 50, ())[0] == "reliable"
    assert judge(Evidence(residual=0.4, residual_noise=0.1), 50, ())[0] == "caution"
    assert judge(Evidence(mean_ratio=0.4), 50, ())[0] == "unreliable"
    assert judge(Evidence(), 2, ())[0] == "unreliable"
