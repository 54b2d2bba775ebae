"""Where the returns of a distribution come from: draws, weighted episodes, verdicts, on numbers worked out by hand."""

from dataclasses import replace
from types import SimpleNamespace

import numpy as np
import pytest
from scipy import stats

import ope_vpm as ov
from ope_vpm.ope.problem import Problem
from ope_vpm.ope.questions import returns
from ope_vpm.ope.questions.distribution import Sample
from ope_vpm.ope.questions.returns import (
    _Drawn,
    _Followed,
    _horizon,
    _mean_and_error,
    _verdict,
    _Weighted,
    ending_counts,
)

IGNORE = ("duplicated-episodes", "constant-columns", "flags-confused", "one-row-off", "broken-chain")


def asked(gamma=1.0, limit=None, lengths=(3, 7)):
    return SimpleNamespace(gamma=gamma, limit=limit, data=SimpleNamespace(lengths=np.array(lengths)), on_end="absorb")


def test_how_long_episodes_are_followed():
    """To the time limit; else until 0.9ᵗ is below a thousandth, 66 steps; else for twenty of the longest episodes."""
    assert _horizon(asked(0.9, limit=5)) == 5
    assert (_horizon(asked(0.9)), _horizon(asked(0.5)), _horizon(asked(0.0))) == (66, 10, 1)
    assert _horizon(asked()) == 140


def test_entries_of_a_group_are_drawn_by_their_weights():
    """Group 0 has two entries with weights 1 and 3, group 1 none with any weight, group 2 one."""
    drawn = _Drawn.of(np.array([0, 0, 1, 2]), np.array([1.0, 3.0, 0.0, 5.0]), 3)
    np.testing.assert_array_equal(drawn.known, [True, False, True])
    found = drawn(np.repeat([0, 2], 10_000), np.random.default_rng(0))
    assert set(found[10_000:]) == {3}
    assert set(found[:10_000]) == {0, 1}
    assert found[:10_000].mean() == pytest.approx(0.75, abs=4 * np.sqrt(0.75 * 0.25 / 10_000))


def test_probabilities_of_seen_actions_are_scaled_up():
    """State 0 saw actions 0 and 1 of three, state 1 action 1, state 2 both that the target never takes there."""
    states, actions = np.array([0, 0, 1, 2, 2] * 2), np.array([0, 1, 1, 0, 1] * 2)
    ends = np.ones(10, dtype=bool)
    data = ov.LoggedDataset.from_arrays(states, actions, np.arange(10.0), states, terminated=ends)
    table = [[0.2, 0.3, 0.5], [0.1, 0.2, 0.7], [0.0, 0.0, 1.0]]
    _, counts, probability = ending_counts(Problem.pose(data, table, ignore=IGNORE))
    np.testing.assert_array_equal(counts.state_of_pair, [0, 0, 1, 2, 2])
    np.testing.assert_allclose(probability, [0.4, 0.6, 1, 0.5, 0.5])


def logged_episodes(lengths, ended, seed=0):
    """Rewards 1, 2, 3 … within an episode; the log's actions are N(0, 1), with their densities."""
    rng = np.random.default_rng(seed)
    rows = sum(lengths)
    states, actions = rng.standard_normal((rows, 2)), rng.standard_normal((rows, 1))
    rewards = np.concatenate([np.arange(1.0, length + 1) for length in lengths])
    last = np.zeros(rows, dtype=bool)
    last[np.cumsum(lengths) - 1] = True
    over = np.repeat(ended, lengths)
    return ov.LoggedDataset.from_arrays(
        states,
        actions,
        rewards,
        rng.standard_normal((rows, 2)),
        terminated=last & over,
        truncated=last & ~over,
        behaviour_log_prob=stats.norm.logpdf(actions[:, 0]),
    )


SHIFTED = ov.policy.GaussianPolicy(lambda seen: (np.full((len(seen), 1), 0.2), 1.0), action_dimension=1)


def test_weighted_episodes_by_hand(monkeypatch):
    """Three steps that end pay 1 + 2γ + 3γ²; two that are cut go on with the mean of their last rewards, 1.5."""
    data = logged_episodes([3, 2] * 40, np.array([True, False] * 40))
    problem = Problem.pose(data, SHIFTED, gamma=0.5, ignore=IGNORE)
    found = _Weighted.of(problem)
    np.testing.assert_array_equal(found.episodes, np.arange(80))
    np.testing.assert_allclose(found.returns[:2], [1 + 1 + 0.75, 1 + 1 + 0.25 / 0.5 * 1.5])
    whole = stats.norm.logpdf(data.actions[:, 0], 0.2) - stats.norm.logpdf(data.actions[:, 0])
    ratio = np.exp(np.add.reduceat(whole, data.starts))
    np.testing.assert_allclose(found.ratio / found.ratio[0], ratio / ratio[0])
    assert found.stretch == 1
    plain = _Weighted.of(problem.with_gamma(1.0))
    np.testing.assert_array_equal(plain.episodes, np.arange(0, 80, 2))  # at γ = 1 those that ended
    np.testing.assert_allclose(plain.returns, 6)
    monkeypatch.setattr(returns, "LAST_STEPS", 1)
    assert _Weighted.of(problem).returns[1] == pytest.approx(1 + 1 + 0.25 / 0.5 * 2)


def test_intervals_of_a_cloned_behaviour_are_stretched():
    data = replace(logged_episodes([1] * 60, np.ones(60, dtype=bool)), behaviour_log_prob=None)
    assert _Weighted.of(Problem.pose(data, SHIFTED, gamma=0.5, ignore=IGNORE)).stretch == 1.6


@pytest.mark.parametrize(("worth", "refused"), [(19.9, True), (20.0, False)])
def test_twenty_effective_episodes_are_the_least(monkeypatch, worth, refused):
    problem = Problem.pose(logged_episodes([1] * 30, np.ones(30, dtype=bool)), SHIFTED, gamma=0.5, ignore=IGNORE)
    monkeypatch.setattr(returns, "effective_sample_size", lambda weights: worth)
    if refused:
        with pytest.raises(ValueError, match=r"worth only 19\.9"):
            _Weighted.of(problem)
    else:
        assert len(_Weighted.of(problem).returns) == 30


@pytest.mark.parametrize(("unended", "refused"), [(0.007, False), (0.014, True)])
def test_one_episode_in_a_hundred_may_go_on(unended, refused):
    """The target ends an episode in each step with q, (1 - q)²⁰ being the share that has not ended after 20 steps."""
    actions, states = np.tile([0, 1], 150), np.zeros(300, dtype=int)
    data = ov.LoggedDataset.from_arrays(
        states, actions, np.arange(300.0), states, terminated=actions == 1, truncated=actions == 0
    )
    stays = unended ** (1 / 20)
    followed = _Followed.of(Problem.pose(data, [[stays, 1 - stays]], ignore=IGNORE))
    drawn = np.ones(300), 40_000, np.random.default_rng(0)
    if refused:
        with pytest.raises(ValueError, match=r"1% of the episodes that were followed do not end within 20 steps"):
            followed.sample(*drawn)
    else:
        assert len(followed.sample(*drawn).returns) == 40_000


@pytest.mark.parametrize(
    ("apart", "verdict"), [(1.9, "reliable"), (-1.9, "reliable"), (2.1, "caution"), (-2.1, "caution")]
)
def test_returns_that_lie_two_errors_from_the_value_ask_for_caution(apart, verdict):
    lead = SimpleNamespace(verdict="reliable", reasons=("why",))
    level, reasons = _verdict(SimpleNamespace(lead=lead), apart, 1.0, "counted model")
    assert (level, reasons[0]) == (verdict, "why")
    worse = SimpleNamespace(verdict="unreliable", reasons=())
    assert _verdict(SimpleNamespace(lead=worse), apart, 1.0, "counted model")[0] == "unreliable"


def test_the_error_of_a_discounted_return_is_that_of_the_value_over_one_minus_gamma():
    value = SimpleNamespace(as_return=lambda: 8.0, standard_error=0.5, lead=SimpleNamespace(standard_error=3.0))
    assert _mean_and_error(asked(0.75), value) == (8.0, 2.0)
    assert _mean_and_error(asked(), value) == (8.0, 3.0)
    with pytest.raises(ValueError, match="two episodes or more"):
        _mean_and_error(asked(), SimpleNamespace(as_return=lambda: 8.0, lead=SimpleNamespace(standard_error=None)))


@pytest.mark.parametrize("unit", [1e-15, 1.0, 1e15])
def test_the_worst_tenth_by_hand(monkeypatch, unit):
    """Two draws whose worst tenths are 1 and 3, stretched by 1.6: deviations ∓1.6 over √2."""
    draws = [Sample.of(unit * np.array([worst, 10.0]), np.array([0.1, 0.9])) for worst in (1.0, 3.0)]
    found = SimpleNamespace(
        draws=draws,
        stretch=1.6,
        interval=lambda function: (0, 1),
        cvar=lambda level: 2.0,
        verdict="caution",
        reasons=(),
    )
    monkeypatch.setattr(returns, "distribution", lambda problem, value: found)
    worst = returns.worst_tenth(None, None)
    np.testing.assert_allclose(worst.influence, unit * np.array([-1.6, 1.6]) / np.sqrt(2))


@pytest.mark.parametrize("unit", [1e-15, 1.0, 1e15])
def test_returns_of_any_unit_are_tilted(unit):
    assert Sample.of(unit * np.array([0.0, 10.0])).tilted(3 * unit).weights == pytest.approx([0.7, 0.3])
    alone = Sample.of(unit * np.full(2, 4.0))
    assert alone.tilted(unit).weights == pytest.approx([0.5, 0.5])
