"""Thresholds of verdicts, what rewards allow, and kinds of intervals, on numbers worked out by hand."""

from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from scipy import stats

import ope_vpm as ov
from ope_vpm.ope import Problem
from ope_vpm.ope.estimator import policy_value
from ope_vpm.ope.inference.doubts import (
    COEFFICIENTS,
    DISAGREEMENT,
    FEW,
    HIDDEN_CAUSES,
    MISSED,
    PAST,
    RULES,
    SUPPORT,
    Noise,
    advise,
    joined,
    judge,
    remarks,
    scaled,
    suspected_bias,
)
from ope_vpm.ope.inference.estimate import RawEstimate, RewardRange, doubts_of_weights, return_range, reward_range
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

ROOT = Path(__file__).parents[2]
QUIET = ("constant-columns", "flags-confused", "duplicated-episodes")


def test_a_remark_asks_for_caution():
    assert judge(remarks(["odd"])) == ("caution", ("odd",))


def test_of_two_doubts_with_one_code_the_worse_is_kept():
    """Few episodes are worse, many steps without data are; remarks are one where they say the same."""
    one = (*FEW.of(5.0), *SUPPORT.of(0.5, bias=0.25), *remarks(["odd"]))
    other = (*SUPPORT.of(0.2, bias=2.0), *FEW.of(4.0), *remarks(["odd", "even"]))
    for groups in ((one, other), (other, one)):
        kept = {doubt.code: doubt for doubt in joined(*groups)}
        assert {code: doubt.size for code, doubt in kept.items()} == {"few": 4, "support": 0.5, "odd": 1, "even": 1}
        assert (kept["few"].bias, kept["support"].bias, kept["odd"].bias) == (None, 2, None)  # the larger bias stays
        assert "50%" in kept["support"].sentence


def test_doubts_of_a_multiple_of_the_value():
    doubts = (*SUPPORT.of(0.5, bias=0.25), *FEW.of(4.0))
    assert [(each.size, each.bias) for each in scaled(doubts, 4.0)] == [(0.5, 1), (4, None)]


def test_biases_add_up_as_errors_do():
    doubts = (*DISAGREEMENT.suspects(3.0), *MISSED.suspects(4.0), *FEW.of(50.0))
    assert suspected_bias(doubts) == pytest.approx(
        np.hypot(3 * COEFFICIENTS["disagreement"], 4 * COEFFICIENTS["missed"])
    )
    assert suspected_bias(()) == 0


@pytest.mark.parametrize(("bias", "level"), [(9.9, "reliable"), (10.0, "caution"), (1000.0, "caution")])
def test_a_bias_asks_for_caution_where_it_is_most_of_the_error(bias, level):
    """Bias² is 0.99 of S² where it is √99 = 9.95 times the noise. However large it is, and whatever the unit."""
    for unit in (1e-6, 1.0, 1e6):
        doubts = MISSED.suspects(unit * bias / COEFFICIENTS["missed"])
        assert judge(doubts, Noise(unit)) == (level, () if level == "reliable" else (MISSED.sentence,))
        assert judge(doubts, Noise(unit, unit * bias * 1.01)) == ("reliable", ())  # it is negligible
    assert judge(MISSED.suspects(bias)) == ("reliable", ())  # where no error is known, nothing can be compared


def test_the_largest_bias_is_named():
    doubts = (*DISAGREEMENT.suspects(1 / COEFFICIENTS["disagreement"]), *MISSED.suspects(90 / COEFFICIENTS["missed"]))
    assert judge(doubts, Noise(1.0)) == ("caution", (MISSED.sentence,))
    assert advise(doubts, Noise(1.0)) == (MISSED.advice,)


@pytest.mark.parametrize(
    ("doubts", "level"),
    [
        (SUPPORT.of(0.19), "reliable"), (SUPPORT.of(0.21), "caution"), (SUPPORT.of(0.41), "unreliable"),
        (FEW.of(11.0), "reliable"), (FEW.of(9.0), "caution"), (FEW.of(2.9), "unreliable"),
        (PAST.of(0.009), "reliable"), (PAST.of(0.9), "caution"),
        (HIDDEN_CAUSES.of(0.02), "unreliable"), (SUPPORT.of(float("nan")), "unreliable"),
    ],
)  # fmt: skip
def test_what_the_log_does_not_hold_is_judged_by_its_share(doubts, level):
    assert judge(doubts, Noise(1.0))[0] == level


def test_there_are_at_most_eleven_doubts_with_a_coefficient_each():
    assert len(RULES) <= 11
    assert set(COEFFICIENTS) <= {rule.code for rule in RULES}
    assert min(COEFFICIENTS.values()) >= 0


def test_doubts_of_weights_by_hand():
    """Rows 2, 2, 0, 0 and -1 in episodes of 1, 1 and 3 rows: episodes 2, 2, 0 are worth 2 of 3.

    Equal rows would make the episodes' sums 1, 1 and 3, worth 25/11 of 3: so 2·3/(25/11).
    """
    data = ov.LoggedDataset.from_arrays(np.zeros(5, int), np.zeros(5, int), np.zeros(5), terminated=[1, 1, 0, 0, 1])
    weights = np.array([2.0, 2, 0, 0, -1])
    sizes = {doubt.code: doubt.size for doubt in doubts_of_weights(data, weights)}
    episodes = 2 * 3 / (25 / 11)
    assert sizes == pytest.approx({"few": episodes})
    assert RawEstimate(value=0.0, doubts=doubts_of_weights(data, np.ones(5))).size(FEW) == pytest.approx(3)


def test_what_is_possible():
    allowed = RewardRange(-1.0, 2.0)
    assert allowed.rounding == pytest.approx(2e-9)
    assert [allowed.nearest(value) for value in (-3.0, 0.5, 7.0)] == [-1, 0.5, 2]
    assert np.isnan(allowed.nearest(float("nan")))
    assert allowed.cut((-2.0, 1.0)) == (-1, 1)
    assert allowed.cut((0.0, 3.0)) == (0, 2)
    assert allowed.cut((3.0, 4.0)) == (-1, 2) == allowed.cut((-4.0, -3.0))
    assert RewardRange(1.0, np.inf).cut((-1.0, 0.5)) == (1, 3)  # at most 2 below 1, so at most 2 above
    assert RewardRange(-np.inf, 1.0).cut((1.5, 4.0)) == (-2, 1)
    assert [allowed.beyond(each) for each in ((2.0, 3.0), (2.1, 3.0), (-2.0, -1.0), (-2.0, -1.1))] == [0, 1, 0, 1]
    assert not allowed.single
    assert RewardRange(1.0, 1.0 + 1e-10).single
    assert not RewardRange(1.0, 1.0 + 1e-8).single
    assert RewardRange(-np.inf, 3.0).rounding == pytest.approx(3e-9)
    assert RewardRange(-np.inf, np.inf).rounding == 0


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
    assert reward_range(episodes_of(paid)) == RewardRange(1, 3)
    assert reward_range(episodes_of(paid, gamma=0.5)) == RewardRange(0, 3)
    assert reward_range(episodes_of(paid, terminated=False, gamma=0.5)) == RewardRange(1, 3)
    assert return_range(episodes_of(paid)) == RewardRange(
        1, np.inf
    )  # one step of the least reward, any number of the largest
    assert return_range(episodes_of([-1.0, 2, -3] * 2)) == RewardRange(-np.inf, np.inf)
    assert return_range(episodes_of([-1.0, -2, -3] * 2)) == RewardRange(-np.inf, -1)
    assert return_range(episodes_of([0.0, 0, 1, 0, 0, 3])) == RewardRange(0, 3)  # only ends pay
    assert return_range(episodes_of([0.0, 0, -1, 0, 0, -3])) == RewardRange(-3, 0)
    limited = episodes_of(paid * 4, terminated=False, time_limit="restart")
    assert return_range(limited) == RewardRange(1, 9)


def log_of(episodes):
    return episodes_of([0.0, 1, 2] * episodes).log


def test_a_likelihood_interval_is_stretched_by_suspected_bias():
    """Replicates of deviation s and a bias of √3·s make the error twice as large, and so the interval."""
    log = log_of(6)
    sums = EpisodeSums.of_influence(2.0, np.array([1.0, -1, 2, -2, 0.5, -0.5]))
    error, ends = Likelihood(episodes=sums, ends=(1.0, 5.0)).interval(2.0, log, 0)
    assert ends == pytest.approx((1, 5))
    bias = np.sqrt(3) * error
    twice, ends = Likelihood(episodes=sums, ends=(1.0, 5.0)).interval(2.0, log, 0, bias)
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
    """The uncertainty of 7 + 3·v for v = 2, a Bootstrap's; a bias of 3/2 is one of ½ of v."""
    log = log_of(6)
    sums = EpisodeSums.of_influence(2.0, np.array([1.0, -1, 2, -2, 0.5, -0.5]))
    of = Bootstrap(episodes=sums)
    error, (low, high) = of.interval(2.0, log, 0, 0.5)
    moved = Derived(of=of, at=2.0, shift=7.0, factor=3.0)
    np.testing.assert_allclose(moved.sums.influence, 3 * sums.influence)
    found, ends = moved.interval(13.0, log, 0, 1.5)
    assert found == pytest.approx(3 * error)
    assert ends == pytest.approx((7 + 3 * low, 7 + 3 * high))
    assert Derived(of=Spread(members=np.zeros(2)), factor=3.0).sums is None


def test_models_spread_by_students_quantiles():
    """Two models: one degree of freedom, so quantiles of a Cauchy variable; a bias adds to the squared error."""
    log = log_of(6)
    spread, quantile = np.sqrt(2), stats.t.ppf(0.975, 5)
    error, (low, high) = Spread(members=np.array([0.0, 2.0])).interval(5.0, log, 0, 1.0)
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
    """Nine episodes of three steps, bounded by the rewards' allowed and moved into it."""
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
