"""How bad can it get? Numbers of samples by hand, returns with known distributions, what is kept of a log."""

import copy
import gc
import pickle
import weakref

import numpy as np
import pytest
from scipy import stats

import ope_vpm as ov
from ope_vpm.envs.linear_gaussian import BEHAVIOUR, TARGET, LinearGaussian
from ope_vpm.envs.random_mdp import RandomMDP
from ope_vpm.ope.questions.distribution import Sample


def test_numbers_of_a_sample_by_hand():
    """Returns 1, 2, 4 with probabilities 0.2, 0.3, 0.5: mean 2.8, variance 0.2·1 + 0.3·4 + 0.5·16 - 2.8² = 1.56."""
    sample = Sample.of(np.array([4.0, 1.0, 2.0]), np.array([5.0, 2.0, 3.0]))
    assert (sample.mean, sample.variance) == pytest.approx((2.8, 1.56))
    assert sample.cdf([0.5, 1, 3, 4]) == pytest.approx([0, 0.2, 0.5, 1])
    assert sample.probability_below(2) == pytest.approx(0.2)
    assert [sample.quantile(level) for level in (0.1, 0.2, 0.3, 0.5, 0.51, 1)] == [1, 1, 2, 2, 4, 4]
    assert sample.cvar(0.4) == pytest.approx((0.2 * 1 + 0.2 * 2) / 0.4)
    assert sample.cvar(1) == pytest.approx(sample.mean)
    for wrong in (0, 1.1, np.nan):
        with pytest.raises(ValueError, match="a probability above 0 and at most 1"):
            sample.cvar(wrong)


def test_tilting_two_returns_moves_their_weights_to_the_mean():
    sample = Sample.of(np.array([0.0, 10.0]))
    assert sample.tilted(3).weights == pytest.approx([0.7, 0.3])
    assert sample.tilted(50).weights == pytest.approx([0, 1])  # the nearest possible


def test_tilting_a_normal_sample_shifts_it():
    """The distribution nearest to N(0, 1) in relative entropy with mean 0.5 is N(0.5, 1)."""
    sample = Sample.of(stats.norm.ppf((np.arange(20_000) + 0.5) / 20_000)).tilted(0.5)
    assert sample.variance == pytest.approx(1, abs=0.01)
    assert sample.quantile(0.1) == pytest.approx(stats.norm.ppf(0.1, 0.5), abs=0.01)


def coins(seed, episodes=150, go_on=0.5):
    """Action 1 pays 1 and goes on; action 0 pays nothing and ends: the return counts how often it went on."""
    rng = np.random.default_rng(seed)
    lengths = rng.geometric(1 - go_on, episodes)
    actions = np.ones(lengths.sum(), dtype=int)
    ends = np.cumsum(lengths) - 1
    actions[ends] = 0
    ended = actions == 0
    states = np.zeros(len(actions), dtype=int)
    # The actions are known; what varies is a reward of 1 with probability 0.8.
    rewards = actions * (rng.random(len(actions)) < 0.8)
    return ov.LoggedDataset.from_arrays(states, actions, rewards.astype(float), states, terminated=ended)


IGNORE = ("duplicated-episodes", "constant-columns")


def test_a_return_whose_distribution_is_known():
    """Going on with probability 0.6, each time paid with 0.8, the return is geometric: P(R ≥ k) = (0.48/0.88)^k."""
    at = np.arange(12)
    truth = 1 - (0.48 / 0.88) ** (at + 1.0)
    held, of_cvar = [], []
    exact = Sample.of(np.arange(200.0), (0.48 / 0.88) ** np.arange(200.0))
    for seed in range(12):
        data = coins(seed)
        found = ov.evaluate(data, [[0.4, 0.6]], "vpm", ignore=IGNORE).distribution()
        low, high = found.band(at)
        held.append(bool(np.all((low <= truth) & (truth <= high))))
        start, end = found.interval(lambda each: each.probability_below(1))
        of_cvar.append(start <= exact.probability_below(1) <= end)
        assert found.source == "counted model"
        assert found.half_width < 0.15
    assert np.mean(held) >= 0.8  # 12 bands that hold 95 %
    assert np.mean(of_cvar) >= 0.8


def test_its_mean_is_the_value():
    data = coins(0)
    value = ov.evaluate(data, [[0.4, 0.6]], ignore=IGNORE)
    found = value.distribution()
    assert found.mean == pytest.approx(value.as_return(), rel=1e-9)
    low, high = found.interval(lambda each: each.mean)
    assert (high - low) / 2 == pytest.approx(1.96 * value.lead.standard_error, rel=0.35)  # of 60 draws
    assert found.next_episode()[1] > value.lead.interval[1]
    assert found.quantile(0.5) in (0.0, 1.0)
    assert found.as_dict()["source"] == "counted model"
    assert "not the value's interval" in str(found)
    assert found.plot().get_xlabel() == "return of an episode"


def test_weighted_episodes_of_one_step():
    """The target's actions are N(0.3, 1), the log's N(0, 1) with logged densities, and the reward is the action."""
    at, held = np.linspace(-2, 2, 41), []
    for seed in range(6):
        rng = np.random.default_rng(seed)
        states, actions = rng.standard_normal((200, 2)), rng.standard_normal((200, 1))
        ends, logged = np.ones(200, dtype=bool), stats.norm.logpdf(actions[:, 0])
        data = ov.LoggedDataset.from_arrays(
            states, actions, actions[:, 0], states, terminated=ends, behaviour_log_prob=logged
        )
        policy = ov.policy.GaussianPolicy(lambda seen: (np.full((len(seen), 1), 0.3), 1.0), action_dimension=1)
        found = ov.evaluate(data, policy, "vpm", gamma=0.5, n_features=20).distribution()
        low, high = found.band(at)
        truth = stats.norm.cdf(at, 0.3)
        held.append(bool(np.all((low <= truth) & (truth <= high))))
        assert found.source == "weighted episodes"
        assert found.half_width < 0.25
    assert np.mean(held) >= 0.8


def test_what_cannot_be_told_is_refused():
    data, never = LinearGaussian().dataset(20, 20, BEHAVIOUR, 0), coins(0)
    value = ov.evaluate(data, TARGET.policy(), "vpm", gamma=0.9, n_features=20)
    with pytest.raises(ValueError, match=r"are worth only .* of the target's, and a distribution needs 20"):
        value.distribution()
    with pytest.raises(ValueError, match="no logged episode ends: use gamma < 1"):
        ov.evaluate(data, TARGET.policy(), "vpm", n_features=20).distribution()
    again = ov.evaluate(never, [[0.4, 0.6]], gamma=0.9, on_end="restart", ignore=IGNORE)
    with pytest.raises(ValueError, match="a return goes on for ever where episodes restart"):
        again.distribution()
    found = ov.evaluate(never, [[0.4, 0.6]], "vpm", ignore=IGNORE).distribution()
    for threshold in (np.nan, "low"):
        with pytest.raises(ValueError, match="a threshold must be a finite number: got"):
            found.probability_below(threshold)
    for level in (95, "all"):
        with pytest.raises(ValueError, match="level must be a probability"):
            found.next_episode(level)
        with pytest.raises(ValueError, match="cvar takes a probability above 0 and at most 1"):
            found.cvar(level)


def test_a_value_keeps_no_log_alive():
    data = coins(0)
    value, alive = ov.evaluate(data, [[0.4, 0.6]], ignore=IGNORE), weakref.ref(data)
    values = [value, pickle.loads(pickle.dumps(value)), copy.copy(value)]
    first = value.distribution().mean
    del data
    gc.collect()
    assert alive() is None
    for each in values:
        with pytest.raises(ValueError, match=r"are gone: value.distribution\(data=data, policy=policy\)"):
            each.distribution()
        assert each.distribution(coins(0), [[0.4, 0.6]]).mean == first


@pytest.mark.parametrize(("stays", "refused"), [(0.5, False), (0.9999, True)])
def test_episodes_that_hardly_end_have_no_return(stays, refused):
    """Half of the target's steps end an episode, or one in 10 000 does."""
    rng = np.random.default_rng(0)
    actions = rng.integers(0, 2, 400)
    rewards = rng.random(400)
    states = np.zeros(400, dtype=int)
    data = ov.LoggedDataset.from_arrays(states, actions, rewards, states, terminated=actions == 1)
    value = ov.evaluate(data, [[stays, 1 - stays]], "vpm", ignore=IGNORE)
    if refused:
        with pytest.raises(ValueError, match=r"of the episodes that were followed do not end within"):
            value.distribution()
    else:
        assert value.distribution().mean == pytest.approx(value.as_return(), rel=1e-6)


def test_what_is_left_after_the_last_step_that_is_followed_is_paid():
    """Every step pays 1 and nothing ends: all returns are 1/(1 - 0.9), and nothing is reweighted."""
    task = RandomMDP.draw(5, 2, 0)
    data = task.dataset(30, 20, task.policy(0), 0)
    paid = ov.LoggedDataset.from_arrays(
        data.observations, data.actions, np.ones(len(data)), data.next_observations, truncated=data.truncated
    )
    found = ov.evaluate(paid, task.policy(1), gamma=0.9).distribution()
    np.testing.assert_allclose(found.sample.returns, 10)
    assert not any("reweighted" in reason for reason in found.reasons)
