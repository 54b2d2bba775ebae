"""Returns of episodes and the values beside them, from estimates that are written down here rather than found."""

from dataclasses import replace

import numpy as np
import pytest

import ope_vpm as ov
from ope_vpm.ope import Problem
from ope_vpm.ope.estimator import NEVER_REACHED, NO_VALUE, NOTHING_ENDS, SAYS_NOTHING, policy_value
from ope_vpm.ope.inference.doubts import COEFFICIENTS, DISAGREEMENT, FEW, SUPPORT, judge, remarks_among
from ope_vpm.ope.inference.estimate import RawEstimate
from ope_vpm.ope.inference.returns import (
    LONGER,
    NO_ENDS,
    ONE_EPISODE,
    SAME_RETURN,
    UNKNOWN,
    fixed_length,
    return_estimate,
    share_limits,
    with_counted_ends,
    with_ratio_return,
    with_return,
    with_weighted_return,
)
from ope_vpm.ope.inference.uncertainty import NOTHING, Bootstrap, Derived, EpisodeSums
from ope_vpm.ope.inference.value import NOT_TOLD

QUIET = ("constant-columns", "flags-confused", "duplicated-episodes", "one-row-off")


def log(rewards, lengths, ended=True):
    """One state and one action; episodes of these lengths that end, or are cut."""
    last = np.zeros(len(rewards), dtype=bool)
    last[np.cumsum(lengths) - 1] = True
    terminated = last & np.repeat(np.broadcast_to(ended, len(lengths)), lengths)
    zeros = np.zeros(len(rewards), dtype=int)
    return ov.LoggedDataset.from_arrays(zeros, zeros, np.array(rewards, float), zeros, terminated, last & ~terminated)


def pose(rewards, lengths, ended=True, **choices):
    return Problem.pose(log(rewards, lengths, ended), [[1.0]], ignore=QUIET, **choices)


def bootstrap(value, influence):
    return Bootstrap(episodes=EpisodeSums.of_influence(value, np.array(influence)))


def bias_of(found):
    """What is suspected of a disagreement, before its coefficient."""
    return found.suspected_bias / COEFFICIENTS["disagreement"]


# -- The return of an estimator that does not know it


def test_a_length_is_fixed_only_where_a_time_limit_alone_ends_episodes():
    rewards = [0.0, 1, 0, 1]
    assert fixed_length(pose(rewards, [2, 2], ended=False, time_limit="restart")) == 2
    assert fixed_length(pose(rewards, [2, 2], ended=[True, False], time_limit="restart")) is None
    assert fixed_length(pose(rewards, [2, 2], ended=False)) is None


def test_a_fixed_length_multiplies_value_error_and_bias():
    """Two steps: a value of 3 ± ½ with bias ¼ is a return of 6 ± 1 with bias ½; what is known of ends is not asked."""
    problem = pose([0.0, 6, 0, 6], [2, 2], ended=False, time_limit="restart")
    found = RawEstimate(value=3.0, uncertainty=bootstrap(3.0, [0.5, -0.5]), doubts=DISAGREEMENT.suspects(0.25))
    both = with_return(problem, found, lambda _: pytest.fail("nothing has to be asked"))
    assert both.value == 3
    assert both.per_episode.value == 6
    assert bias_of(both.per_episode) == pytest.approx(0.5)
    assert both.per_episode.per_episode is None
    np.testing.assert_allclose(both.per_episode.sums.influence, [1, -1])
    alone = with_return(problem, RawEstimate(value=3.0), lambda _: pytest.fail("nothing has to be asked"))
    assert alone.per_episode.value == 6
    assert alone.per_episode.uncertainty is None


def test_a_return_that_is_known_is_kept():
    problem = pose([0.0, 6, 0], [2, 1])
    known = RawEstimate(value=2.0, per_episode=RawEstimate(value=9.0))
    assert with_return(problem, known, lambda _: pytest.fail("it is known")) is known


def weighted(problem, weights, influence=(0.3, -0.3)):
    """An estimator that is linear in the rewards: Σ w r / Σ w."""
    value = float(weights @ problem.data.rewards / weights.sum())
    evidence = FEW.of(5000.0)
    return RawEstimate(value=value, uncertainty=bootstrap(value, influence), weights=weights, doubts=evidence)


def test_the_return_by_two_further_questions():
    """Rewards 1, 2 and an end that pays 5, weights 1, 1, 2, so 13/4 a step and half an end: the return is 13/2.

    What is charged, r - 6.5·1[end], has the value 0, and influences ±0.3 per step are ±0.6 per episode.
    """
    problem, weights, asked = pose([1.0, 2, 5, 1, 2, 5], [3, 3]), np.array([1.0, 1, 2] * 2), []

    def find(question):
        asked.append(question.data.rewards.tolist())
        return weighted(question, weights)

    found = with_return(problem, weighted(problem, weights), find)
    assert asked == [[0, 0, 1] * 2, [1, 2, 5 - 6.5] * 2]
    assert found.per_episode.value == pytest.approx(6.5)
    np.testing.assert_allclose(found.per_episode.sums.influence, [0.6, -0.6])
    assert found.per_episode.size(FEW) == pytest.approx(0.25 / 0.18)  # ends, as the rate is known to √0.18/½


def test_one_step_of_newton_where_the_estimator_is_not_linear():
    """Charged rewards are found to be worth 0.1 too much: at a rate of ½ that is 0.2 of the return."""
    problem, weights = pose([1.0, 2, 5, 1, 2, 5], [3, 3]), np.array([1.0, 1, 2] * 2)

    def find(question):
        found = weighted(question, weights)
        return replace(found, value=found.value + (0.1 if question.data.rewards.min() < 0 else 0.0))

    assert with_return(problem, weighted(problem, weights), find).per_episode.value == pytest.approx(6.7)


def test_without_an_end_or_a_value_there_is_no_return():
    problem, weights = pose([1.0, 2, 5, 1, 2, 5], [3, 3]), np.array([1.0, 1, 0] * 2)
    found = with_return(problem, weighted(problem, weights), lambda question: weighted(question, weights))
    assert found.per_episode is UNKNOWN
    nothing = RawEstimate(value=float("nan"))
    full = np.ones(6)
    assert with_return(problem, nothing, lambda question: weighted(question, full)).per_episode is UNKNOWN


# -- Ends that were counted


def counted(problem, value, weights, rate, found=None, doubts=()):
    of_return = RawEstimate(
        value=value,
        uncertainty=bootstrap(value, np.zeros(problem.data.n_episodes)),
        weights=np.array(weights),
        doubts=doubts,
    )
    return with_counted_ends(problem, found or RawEstimate(value=value * rate), rate, of_return)


def test_where_only_ends_pay_the_interval_holds_the_limits_of_their_share():
    """Ends pay 2, 2, 6, 2 with weights 1, 1, 1, 1: a return of 3 is half of the way from 0 to 6, so that of 2 in 4."""
    problem = pose([0.0, 2, 0, 2, 0, 6, 0, 2], [2, 2, 2, 2])
    found = counted(problem, 3.0, np.ones(8), 0.5)
    low, high = share_limits(2.0, 4.0)
    assert found.uncertainty.limits == pytest.approx((6 * low, 6 * high))
    assert found.uncertainty.sums is found.uncertainty.of.sums
    assert found.size(FEW) == 4


def test_ends_that_may_cost_as_well_as_pay():
    """Ends pay -1 and 3: a return of 2 is ¾ of the way; weights 3, 1 and (for a negative one) 0 are worth 1.6 ends."""
    problem = pose([0.0, -1, 0, 3, 0, 3], [2, 2, 2])
    found = counted(problem, 2.0, [1.0, 3, 1, 1, 1, -1], 0.5)
    low, high = share_limits(0.75 * 1.6, 1.6)
    assert found.uncertainty.limits == pytest.approx((-1 + 4 * low, -1 + 4 * high))
    assert found.size(FEW) == pytest.approx(1.6)
    beyond = counted(problem, 9.0, [1.0, 3, 1, 1, 1, -1], 0.5)  # cut at the largest pay
    assert beyond.uncertainty.limits[1] == pytest.approx(3)


def test_a_return_reaches_as_far_as_its_value_where_steps_pay():
    """A value of 2 that may lie between 1.5 and 4, a quarter of the steps being ends: a return of 8 - 2 to 8 + 8."""
    problem = pose([1.0, 2, 1, 6], [2, 2])
    value = Derived(of=Bootstrap(episodes=EpisodeSums.of_influence(2.0, np.zeros(2))), limits=(1.5, 4.0))
    found = counted(problem, 8.0, np.ones(4), 0.25, RawEstimate(value=2.0, uncertainty=value))
    assert found.uncertainty.limits == (6, 16)
    unknown = counted(problem, 8.0, np.ones(4), 0.25, RawEstimate(value=2.0, uncertainty=bootstrap(2.0, [0.0, 0.0])))
    assert unknown.uncertainty.limits == NOTHING
    assert unknown.size(FEW) == 2


def test_what_holds_something_is_never_shorter():
    of = Derived(of=bootstrap(0.0, [0.1, -0.1]), at=0.0)
    log_of = pose([0.0, 1, 0, 1], [2, 2]).log
    _, (low, high) = of.interval(0.0, log_of, 0)
    assert Derived(of=of, limits=(-9.0, high / 2)).interval(0.0, log_of, 0)[1] == (-9, high)
    assert Derived(of=of, limits=(low / 2, 9.0)).interval(0.0, log_of, 0)[1] == (low, 9)


def test_a_doubt_about_a_return_is_the_worse_of_two():
    problem = pose([1.0, 2, 1, 6], [2, 2])
    for of_value, of_return, worse in ((7.0, 1.5, 1.5), (1.0, 3.0, 1.0), (7.0, 9.0, 2.0)):  # two ends were logged
        value = RawEstimate(value=2.0, doubts=FEW.of(of_value))
        assert counted(problem, 4.0, np.ones(4), 0.5, value, FEW.of(of_return)).size(FEW) == worse


def test_episodes_longer_than_any_logged_one_are_a_reason_for_caution():
    problem = pose([1.0, 2, 1, 6], [2, 2])
    assert judge(counted(problem, 4.0, np.ones(4), 0.49).doubts)[1][-1] == LONGER.format(1 / 0.49)
    assert remarks_among(counted(problem, 4.0, np.ones(4), 0.5).doubts) == ()


def test_without_weights_nothing_is_counted():
    problem = pose([1.0, 2, 1, 6], [2, 2])
    of_return = RawEstimate(value=4.0, uncertainty=bootstrap(4.0, [0.0, 0.0]))
    assert with_counted_ends(problem, RawEstimate(value=2.0), 0.4, of_return) is of_return
    unsure = RawEstimate(value=4.0, weights=np.ones(4))
    assert with_counted_ends(problem, RawEstimate(value=2.0), 0.4, unsure) is unsure


# -- Returns that come with their values


def test_a_return_from_influences():
    value = RawEstimate(value=1.0, doubts=DISAGREEMENT.suspects(0.05))
    found = return_estimate(value, 5.0, EpisodeSums.of_influence(5.0, np.array([0.5, -0.5])), 0.2, rate_error=0.31)
    assert found.value == 5
    assert bias_of(found) == pytest.approx(0.25)
    np.testing.assert_allclose(found.sums.influence, [0.5, -0.5])
    assert found.size(FEW) == pytest.approx(1 / 0.31**2)
    assert (
        return_estimate(RawEstimate(value=1.0), 5.0, EpisodeSums.of_influence(5.0, np.zeros(2)), 0.2).size(FEW) is None
    )


def test_a_ratio_of_two_linear_estimates():
    """2 a step over half an end: 4. Influences (0.1, -0.1) less 4·(0.02, -0.02), over ½: ±0.04."""
    problem = pose([1.0, 2, 1, 6], [2, 2])
    found = RawEstimate(value=2.0, uncertainty=bootstrap(2.0, [0.1, -0.1]))
    rate = EpisodeSums.of_influence(0.5, np.array([0.02, -0.02]))
    of_return = with_ratio_return(problem, found, rate).per_episode
    assert of_return.value == 4
    np.testing.assert_allclose(of_return.sums.influence, [0.04, -0.04])
    assert of_return.size(FEW) == pytest.approx((0.5 / (np.sqrt(2) * 0.02)) ** 2)
    never = EpisodeSums.of_influence(0.0, np.array([0.02, -0.02]))
    assert with_ratio_return(problem, found, never).per_episode is UNKNOWN
    assert with_ratio_return(problem, RawEstimate(value=2.0), rate).per_episode is UNKNOWN


def test_a_weighted_return():
    """Weights 1, 2 and 1, 4: Σ w r = 5 + 25 over Σ w·1[end] = 2 + 4; by episodes 5/2 and 25/4 with weights 2 and 4."""
    problem = pose([1.0, 2, 1, 6], [2, 2])
    found = with_weighted_return(problem, RawEstimate(value=1.0, weights=np.array([1.0, 2, 1, 4]))).per_episode
    assert found.value == 5
    np.testing.assert_allclose(found.sums.influence, [(5 - 2 * 5) / 6, (25 - 4 * 5) / 6])
    plain = RawEstimate(value=1.0)
    assert with_weighted_return(problem, plain) is plain


# -- From an estimate to an answer


def valued(problem, value, influence, **more):
    raw = RawEstimate(value=value, uncertainty=bootstrap(value, influence), **more)
    return policy_value(problem, "mine", raw)


def test_the_interval_of_an_unreliable_return_is_that_of_a_reliable_one():
    problem = pose([1.0, 2] * 12, [2] * 12, ended=False, time_limit="restart")
    spread = np.tile([0.01, -0.01], 6)
    sure = RawEstimate(value=3.0, uncertainty=bootstrap(3.0, spread))
    found = valued(problem, 1.5, spread, per_episode=sure)
    low, high = found.return_interval
    assert 2.9 < low < 3 < high < 3.1
    assert found.episode_return.standard_error == pytest.approx(0.01 * np.sqrt(12 * 12 / 11), rel=0.15)
    doubted = replace(sure, doubts=SUPPORT.of(0.9))
    found = valued(problem, 1.5, spread, per_episode=doubted)
    assert found.return_verdict == "unreliable"
    assert found.return_interval == (low, high)
    assert found.verdict == "reliable"
    assert found.interval[1] - found.interval[0] < 0.2


def test_a_return_that_nothing_allows_is_moved():
    problem = pose([1.0, 2] * 12, [2] * 12, ended=False, time_limit="restart")
    spread = np.tile([0.01, -0.01], 6)
    far = RawEstimate(value=7.0, uncertainty=bootstrap(7.0, spread))
    found = valued(problem, 1.5, spread, per_episode=far).episode_return
    assert found.value == 4
    assert found.interval == (1, 4)
    assert found.reasons[0].startswith("the return 7 lies outside of what the rewards allow, [1, 4]")
    near = RawEstimate(value=4.01, uncertainty=bootstrap(4.01, spread))  # its interval holds 4
    found = valued(problem, 1.5, spread, per_episode=near).episode_return
    assert (found.value, found.verdict) == (4, "reliable")


def test_one_episode_has_no_interval_and_says_so():
    problem = pose([1.0, 2, 3, 4], [4])
    found = valued(problem, 2.5, [0.1], per_episode=RawEstimate(value=10.0))
    assert found.interval is None is found.standard_error
    assert found.return_interval is None
    assert ONE_EPISODE in found.reasons
    assert ONE_EPISODE in found.episode_return.reasons


def test_equal_pay_says_nothing():
    """Every end pays 0; or every step pays 1 and a time limit alone ends episodes."""
    spread = np.tile([0.01, -0.01], 6)
    same = pose([0.0, 0] * 12, [2] * 12)
    nothing = RawEstimate(value=0.0, uncertainty=bootstrap(0.0, spread))
    assert valued(same, 0.0, spread, per_episode=nothing).episode_return.reasons[0] == SAME_RETURN
    limited = pose([1.0, 1] * 12, [2] * 12, ended=False, time_limit="restart")
    two = RawEstimate(value=2.0, uncertainty=bootstrap(2.0, spread))
    found = valued(limited, 1.0, spread, per_episode=two)
    assert found.episode_return.reasons[0] == NO_ENDS
    assert found.return_interval == (1, 2)
    assert valued(limited, 1.0, spread).reasons[0] == SAYS_NOTHING
    ending = pose([1.0, 1] * 12, [2] * 12)
    assert NO_ENDS not in valued(ending, 1.0, spread, per_episode=two).episode_return.reasons


def test_a_value_that_cannot_be_says_so_before_everything_else():
    problem = pose([1.0, 2] * 12, [2] * 12)
    spread = np.tile([0.01, -0.01], 6)
    found = valued(problem, 5.0, spread, doubts=SUPPORT.of(0.9))
    assert found.reasons[0].startswith("the estimate 5 lies outside")
    assert len(found.reasons) == 2
    assert (found.value, found.interval, found.verdict) == (2, (1, 2), "unreliable")
    nothing = policy_value(problem, "mine", RawEstimate(value=float("nan")))
    assert nothing.reasons[0] == NO_VALUE
    assert nothing.interval is None


def test_why_there_is_no_return():
    spread = np.tile([0.01, -0.01], 6)
    ending, going_on = pose([1.0, 2] * 12, [2] * 12), pose([1.0, 2] * 12, [2] * 12, ended=False)
    discounted = pose([1.0, 2] * 12, [2] * 12, gamma=0.5)
    assert valued(discounted, 1.5, spread).no_return == ""
    assert valued(going_on, 1.5, spread).no_return == NOTHING_ENDS
    assert valued(ending, 1.5, spread).no_return == NOT_TOLD.format("mine")
    assert valued(ending, 1.5, spread, per_episode=UNKNOWN).no_return == NEVER_REACHED
    assert valued(ending, 1.5, spread, per_episode=RawEstimate(value=3.0)).no_return == ""
    assert policy_value(ending, "mine", RawEstimate(value=float("nan"))).no_return == NO_VALUE


def test_how_many_rows_an_estimate_without_weights_is_worth():
    problem = pose([1.0, 2] * 12, [2] * 12)
    known = RawEstimate(value=1.5, rows_worth=7.0)
    assert policy_value(problem, "mine", known).effective_sample_size == 7
    weights = np.array([1.0, 3] * 12)
    found = policy_value(problem, "mine", replace(known, rows_worth=None, weights=weights))
    assert found.effective_sample_size == pytest.approx(48**2 / 120)
    np.testing.assert_allclose(found.weights, weights / 2)
    np.testing.assert_array_equal(policy_value(problem, "mine", replace(known, weights=-weights)).weights, 0)


def test_an_uncertainty_of_a_sample_is_about_its_episodes():
    """The sample has three episodes and the log twelve, whose order would draw others."""
    sample, whole = pose([1.0, 2] * 3, [2] * 3).log, pose([1.0, 2] * 12, [2] * 12).log
    of = bootstrap(1.0, [0.3, -0.1, -0.2])
    found = Derived(of=of, log=sample)
    assert found.interval(1.0, whole, 3, 0.5) == of.interval(1.0, sample, 3, 0.5)
    assert found.sums is of.sums


def test_what_is_printed():
    spread = np.tile([0.01, -0.01], 6)
    problem = pose([1.0, 2] * 12, [2] * 12, gamma=0.5)
    found = valued(problem, 1.5, spread)
    assert found.as_return() == 3
    assert found.return_interval == pytest.approx((2 * found.interval[0], 2 * found.interval[1]))
    assert "  return 3  [" in str(found)
    assert found.as_dict()["return"] == 3
    assert found.as_dict()["return_interval"] == pytest.approx(list(found.return_interval))
    assert found.return_verdict == found.verdict
    nothing = policy_value(problem, "mine", RawEstimate(value=float("nan")))
    assert "return" not in str(nothing).split("\n", 1)[1].replace("returns", "")
    assert nothing.as_dict()["return"] is None
    assert nothing.return_interval is None
    average = valued(pose([1.0, 2] * 12, [2] * 12), 1.5, spread)
    assert average.as_dict()["return"] is None
    assert average.as_dict()["return_reasons"] == []
    with pytest.raises(ValueError, match="mine does not tell the return"):
        average.as_return()
    told = policy_value(
        problem, "mine", RawEstimate(value=1.5, diagnostics={"a": np.array([1.0, np.nan]), "b": {2: 3}})
    )
    assert told.as_dict()["diagnostics"]["a"] == [1, None]
    assert told.as_dict()["diagnostics"]["b"] == {"2": 3}
    assert told.diagnostics["rows"] == 24
    assert told.diagnostics["suspected_bias"] == 0
