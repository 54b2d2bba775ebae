"""The estimator that chooses, on estimates that are written down here; and parts that it is made of."""

from types import SimpleNamespace

import numpy as np
import pytest

import ope_vpm as ov
from ope_vpm.ope import Problem
from ope_vpm.ope.auto import estimator as auto
from ope_vpm.ope.auto.estimator import WALKED, Auto, _less_doubtful, _networks, _with_state_shift, _with_walk
from ope_vpm.ope.dynamics.walked import Walked
from ope_vpm.ope.inference import logged_mean as means
from ope_vpm.ope.inference.doubts import COEFFICIENTS, DISAGREEMENT, SUPPORT
from ope_vpm.ope.inference.estimate import RawEstimate, found_on_sample
from ope_vpm.ope.inference.logged_mean import RewardSums, reward_sums, weighted_estimate
from ope_vpm.ope.inference.uncertainty import Bootstrap, EpisodeSums, percentile_interval
from ope_vpm.ope.q.fitted import Networks
from ope_vpm.policy import GaussianPolicy

QUIET = ("flags-confused", "one-row-off", "constant-columns", "duplicated-episodes", "broken-chain")


def pose(episodes=12, length=4, ended=True, gamma=1.0, **choices):
    rng = np.random.default_rng(0)
    states = rng.standard_normal((episodes * length, 1))
    last = np.arange(len(states)) % length == length - 1
    data = ov.LoggedDataset.from_arrays(
        states, rng.standard_normal((len(states), 1)), states[:, 0] + np.arange(len(states)), states,
        last & ended, last & (not ended),
    )  # fmt: skip
    return Problem.pose(data, GaussianPolicy(lambda s: (0 * s, 1.0)), gamma=gamma, ignore=QUIET, **choices)


def raw(value, error, bias=0.0, doubts=(), **more):
    influence = np.append(np.array([error, -error]) / np.sqrt(2), np.zeros(10))
    uncertainty = Bootstrap(episodes=EpisodeSums.of_influence(value, influence))
    known = DISAGREEMENT.suspects(bias / COEFFICIENTS["disagreement"])
    return RawEstimate(value=value, uncertainty=uncertainty, doubts=(*known, *doubts), **more)


NOTES = {"chosen": "vpm", "why": ("overlap",)}
MODEL = {"model_explained": 0.99987}


def test_walks_that_are_far_off_count_up_to_five_errors():
    """An error of 0.5: 1 away is 1, and 100 away is 2.5."""
    near, far = (_with_walk(raw(3.0, 0.5), Walked(value=value, error=0.0)).suspected_bias for value in (4.0, 103.0))
    assert far == pytest.approx(2.5 * near)
    assert near == pytest.approx(COEFFICIENTS["disagreement"] * WALKED)


def test_errors_are_those_of_noise_and_of_suspected_bias():
    assert raw(1.0, 3.0, 4.0).error == pytest.approx(5)
    assert RawEstimate(value=1.0).error == np.inf
    assert raw(float("nan"), 3.0).error == np.inf


def test_a_model_that_is_more_certain_takes_the_place_of_the_first_choice():
    """3 ± 0.5 by vpm, 4 ± 0.4 by the model; the weights stay vpm's, and the evidence is the model's own."""
    weights = np.arange(48.0)
    found = raw(3.0, 0.5, weights=weights, diagnostics=NOTES, doubts=SUPPORT.of(0.2))
    chosen = _less_doubtful(found, raw(4.0, 0.4, diagnostics=MODEL))
    assert chosen.value == 4
    assert chosen.weights is weights
    assert chosen.size(SUPPORT) is None
    assert chosen.diagnostics["chosen"] == "model"
    assert chosen.diagnostics["candidates"] == {"vpm": 3.0, "model": 4.0}
    assert chosen.diagnostics["why"] == (
        "a model of one step explains 99.987% of what follows: the target is followed in it",
    )
    for error, bias in ((0.51, 0.0), (0.4, 0.4)):
        kept = _less_doubtful(found, raw(4.0, error, bias, diagnostics=MODEL))
        assert kept.value == 3
        assert kept.size(SUPPORT) == 0.2
        assert kept.diagnostics == NOTES | {"candidates": {"vpm": 3.0, "model": 4.0}}


def test_the_return_is_chosen_by_itself():
    """The model's value is less certain and its return more, or the other way round."""
    found = raw(3.0, 0.5, diagnostics=NOTES, per_episode=raw(12.0, 2.0))
    chosen = _less_doubtful(found, raw(4.0, 0.6, diagnostics=MODEL, per_episode=raw(16.0, 1.0, 0.5)))
    assert (chosen.value, chosen.per_episode.value) == (3, 16)
    chosen = _less_doubtful(found, raw(4.0, 0.4, diagnostics=MODEL, per_episode=raw(16.0, 3.0)))
    assert (chosen.value, chosen.per_episode.value) == (4, 12)
    chosen = _less_doubtful(found, raw(4.0, 0.4, diagnostics=MODEL))
    assert (chosen.value, chosen.per_episode.value) == (4, 12)
    alone = raw(3.0, 0.5, diagnostics=NOTES)
    chosen = _less_doubtful(alone, raw(4.0, 0.4, diagnostics=MODEL, per_episode=raw(16.0, 1.0)))
    assert chosen.per_episode is None


def test_how_far_the_target_leaves_the_log_speaks_against_both():
    """A quarter of the steps, a twentieth of them forgiven; the return is three times the value, and so is its bias."""
    problem = pose()
    width = float(np.ptp(problem.data.rewards))
    found = _with_state_shift(problem, raw(3.0, 0.5, per_episode=raw(9.0, 1.0)), 0.25)
    for each, steps in ((found, 1), (found.per_episode, 3)):
        (doubt,) = (doubt for doubt in each.doubts if doubt.code == "support")
        assert (doubt.size, doubt.bias) == (0.25, pytest.approx(0.2 * steps * width))
    assert _with_state_shift(problem, raw(3.0, 0.5), None).size(SUPPORT) is None


@pytest.mark.parametrize(("overlap", "name"), [(0.29, "fqe"), (0.31, "mixture"), (1.7, "mixture")])
def test_networks_are_asked_where_less_than_three_tenths_overlap(monkeypatch, overlap, name):
    monkeypatch.setattr(auto, "ratio_model", lambda _: SimpleNamespace(overlap=overlap))
    first, reason = Auto().choose(pose())
    assert first.name == name
    assert f"({min(overlap, 1.0):.0%})" in reason


@pytest.mark.parametrize("setting", ["training_steps", "n_features"])
def test_the_least_that_settings_may_be(setting):
    assert getattr(Auto(**{setting: 1}), setting) == 1
    with pytest.raises(ValueError, match="must be at least 1"):
        Auto(**{setting: 0})


def test_networks_of_a_log_that_is_read_in_parts_learn_from_its_sample(monkeypatch):
    """What is found on the sample has its uncertainty, no weights, and says how many rows it is from."""
    whole, sample = pose(episodes=24), pose(episodes=12)
    found = raw(3.0, 0.5, 0.25, weights=np.ones(48), diagnostics={"a": 1}, per_episode=raw(9.0, 1.0, 0.125))
    asked = []

    def fitted(problem, settings):
        asked.append((problem, settings))
        return found

    monkeypatch.setattr(auto, "fitted_q", fitted)
    settings = Networks()
    assert _networks(sample, settings) is found
    assert asked == [(sample, settings)]
    log = SimpleNamespace(sample=sample.log)
    streamed = SimpleNamespace(streamed=True, on_sample=sample, log=log)
    answer = _networks(streamed, settings)
    assert asked[1] == (sample, settings)
    assert answer.weights is None
    assert answer.diagnostics == {"a": 1, "sample_rows": 48}
    for each, bias in ((answer, 0.25), (answer.per_episode, 0.125)):
        assert each.uncertainty.log is sample.log
        assert each.suspected_bias == pytest.approx(bias)
    assert answer.uncertainty.interval(3.0, whole.log, 0) == found.uncertainty.interval(3.0, sample.log, 0)
    assert found_on_sample(sample, lambda _: found) is found
    assert found_on_sample(streamed, lambda _: None) is None
    plain = RawEstimate(value=1.0)
    assert found_on_sample(streamed, lambda _: plain) is plain


# -- The logged mean


def sums(first, reward, squares):
    return RewardSums(first, *(np.array(reward, float) * factor for factor in (1, 10, 100, 1000)), squares)


def test_sums_of_two_parts_that_share_an_episode():
    """Episodes 3 and 4 in the first part, 4 and 5 in the second."""
    both = sums(3, [1.0, 2.0], 5.0).merge(sums(4, [4.0, 8.0], 7.0))
    assert both.first == 3
    for factor, name in ((1, "reward"), (10, "weight"), (100, "tail"), (1000, "ended")):
        np.testing.assert_allclose(getattr(both, name), factor * np.array([1.0, 6.0, 8.0]))
    assert both.squares == 12


def test_sums_of_rewards_by_hand():
    """Weights 1, 2, 3, 4 in episodes of two steps that end: what they are worth, and their ends."""
    data = ov.LoggedDataset.from_arrays([0] * 4, [0] * 4, [1.0, 2, 3, 4], [0] * 4, terminated=[0, 1, 0, 1])
    problem = Problem.pose(data, [[1.0]], ignore=QUIET)
    found = reward_sums(problem.data, np.array([1.0, 2, 3, 4]), np.array([1.0, 0]), "continue", first=7)
    assert (found.first, found.reward.tolist(), found.weight.tolist()) == (7, [5, 25], [3, 7])
    assert (found.ended.tolist(), found.tail.tolist(), found.squares) == ([2, 4], [1, 0], 30)
    assert found.rows_worth == pytest.approx(100 / 30)
    np.testing.assert_allclose(found.sums.denominator[:, 0], [4, 7])
    assert float(found.of_weights.positive) == 10
    estimate = weighted_estimate(problem, found, None)
    assert estimate.value == pytest.approx(30 / 11)
    assert estimate.rows_worth == pytest.approx(100 / 30)
    assert estimate.per_episode.value == pytest.approx(30 / 6)
    kept = weighted_estimate(problem, found, np.array([1.0, 2, 3, 4]))
    assert kept.rows_worth is None
    nothing = reward_sums(problem.data, np.zeros(4), np.zeros(2), "continue")
    assert nothing.rows_worth == 0


def test_the_logged_mean_below_gamma_one_goes_on_for_thirty_steps(monkeypatch):
    """With two last steps instead of thirty: episodes of three steps, γ = ½; the mass ¼ after them goes to two."""
    monkeypatch.setattr(means, "LAST_STEPS", 2)
    data = ov.LoggedDataset.from_arrays([0] * 3, [0] * 3, [1.0, 2, 4], [0] * 3, truncated=[0, 0, 1])
    weights, tail = means.time_weights(Problem.pose(data, [[1.0]], gamma=0.5, ignore=QUIET))
    np.testing.assert_allclose(weights, [1, 0.5 + 0.125, 0.25 + 0.125])
    assert tail.tolist() == [0]


# -- Intervals


def test_what_is_equal_but_for_rounding_is_judged_by_value_and_bias_together():
    """Spread 1.5·10⁻⁹ around a value of 1 with bias 1: rounding, so ± a quantile of the bias exactly."""
    drawn = 1 + 1.5e-9 * np.sqrt(3) * np.linspace(-1, 1, 2001)
    low, high = percentile_interval(drawn, 1.0, 3, 1.0)
    quantile = 4.302653
    assert (low, high) == pytest.approx((1 - quantile, 1 + quantile), rel=1e-6)


def test_replicates_of_many_episodes_are_drawn_in_parts(monkeypatch):
    """Two draws at a time instead of all: other draws of the same distribution."""
    from ope_vpm.ope.inference import uncertainty

    found = EpisodeSums(np.arange(50.0)[:, None], np.ones((50, 1)))
    monkeypatch.setattr(uncertainty, "LARGEST_DRAW", 100)
    drawn = uncertainty.replicates(found, seed=0, number=2000)
    assert drawn.mean() == pytest.approx(24.5, abs=0.3)
    assert drawn.std() == pytest.approx(np.arange(50.0).std() / np.sqrt(50), rel=0.1)
