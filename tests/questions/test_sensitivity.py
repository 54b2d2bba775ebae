"""What if the log hides something? Bounds by hand, by linear programs, and where a hidden coin decides."""

from dataclasses import replace

import numpy as np
import pytest
from scipy.optimize import linprog
from scipy.stats import norm

import ope_vpm as ov
from ope_vpm.envs.random_mdp import RandomMDP

IGNORE = ("duplicated-episodes", "constant-columns")


def one_step(actions, rewards):
    states = np.zeros(len(actions), dtype=int)
    ended = np.ones(len(actions), dtype=bool)
    return ov.LoggedDataset.from_arrays(states, np.array(actions), np.array(rewards), states, terminated=ended)


def test_a_coin_by_hand():
    """b = ½, outcomes 0 and 1 equally likely. Λ = 2: α = ½ + ¼, and the worst third of outcomes is 0: 0.75·0.5."""
    data = one_step([0, 0, 1, 1] * 25, [0.0, 1.0, 0.0, 1.0] * 25)
    value = ov.evaluate(data, [[0.0, 1.0]], "vpm", ignore=IGNORE)
    found = value.sensitivity([2.0])
    assert found.grid.tolist() == [1, 2]
    assert found.lower == pytest.approx([0.5, 0.375])
    assert found.upper == pytest.approx([0.5, 0.625])
    assert found.at(1.5) == pytest.approx((0.4375, 0.5625))
    assert found.tipping(0.4) == pytest.approx(1.8)
    assert found.tipping(0.6) == pytest.approx(1.8)
    assert found.tipping(0.3) is None
    assert found.tipping(0.5) == 1
    assert "multiplies the odds of an action by two, the return of an episode may be as low as 0.375" in found.sentence
    assert found.as_dict()["odds"] == [1, 2]
    assert found.plot().get_xlabel() == "odds ratio of hidden causes"


@pytest.mark.parametrize("seed", range(4))
@pytest.mark.parametrize("odds", [1.3, 4.0])
def test_one_step_is_tans_linear_program(seed, odds):
    """Where a was not taken, its outcomes are p·r with 1/Λ ≤ r ≤ Λ and Σ p·r = 1; the bounds b·E + (1 - b)·Σ p·r·y."""
    rng = np.random.default_rng(seed)
    actions, rewards = rng.integers(0, 3, 60), np.round(rng.normal(size=60), 1)
    data = one_step(actions, rewards)
    value = ov.evaluate(data, [[0.0, 1.0, 0.0]], "vpm", ignore=IGNORE)
    found = value.sensitivity([odds])
    own, share = rewards[actions == 1], np.mean(actions == 1)
    p = np.full(len(own), 1 / len(own))
    ends = []
    for sign in (1, -1):
        solved = linprog(sign * p * own, A_eq=p[None], b_eq=[1], bounds=[(1 / odds, odds)] * len(own))
        ends.append(share * own.mean() + (1 - share) * sign * solved.fun)
    assert (found.lower[1], found.upper[1]) == pytest.approx(ends)


@pytest.mark.parametrize("gamma", [0.9, 1.0])
def test_bounds_widen_from_the_value_and_mirror_the_rewards(gamma):
    task = RandomMDP.draw(6, 3, 0)
    data = task.dataset(60, 20, task.policy(1), 0)
    value = ov.evaluate(data, task.policy(2), "vpm", gamma=gamma)
    found = value.sensitivity()
    assert found.lower[0] == found.upper[0] == value.value
    assert (np.diff(found.lower) < 0).all()
    assert (np.diff(found.upper) > 0).all()
    mirrored = replace(data, rewards=-data.rewards)
    other = ov.evaluate(mirrored, task.policy(2), "vpm", gamma=gamma).sensitivity()
    assert other.lower == pytest.approx(-found.upper, rel=1e-6)


def test_two_steps_by_hand():
    """State 0 leads to state 1 or ends, both equally often; state 1 pays 1 and ends; one action of two is asked about.

    Λ = 3, b = ½: α = ½ + ⅙ = ⅔, the worst quarter of outcomes is the end: V(0) = γ·⅔·½·V(1), V(1) = 1.
    """
    states, actions, rewards, after, ended = [], [], [], [], []
    for number in range(80):
        action, goes_on = number % 2, number // 2 % 2
        states, actions, rewards, after = [*states, 0], [*actions, action], [*rewards, 0.0], [*after, 1]
        ended = [*ended, not goes_on]
        if goes_on:
            second = number // 4 % 2
            states, actions, rewards, after = [*states, 1], [*actions, second], [*rewards, 1.0], [*after, 0]
            ended = [*ended, True]
    data = ov.LoggedDataset.from_arrays(*map(np.array, (states, actions, rewards, after)), terminated=np.array(ended))
    value = ov.evaluate(data, [[0.0, 1.0], [0.0, 1.0]], "vpm", gamma=0.8, ignore=IGNORE)
    found = value.sensitivity([3.0])
    assert value.as_return() == pytest.approx(0.8 * 0.5)
    assert found.lower[1] / 0.2 == pytest.approx(0.8 * (2 / 3) * 0.5)
    assert found.upper[1] / 0.2 == pytest.approx(0.8 * ((2 / 3) * 0.5 + 1 / 3))


def test_wrong_questions_are_refused():
    data = one_step([0, 1] * 20, [0.0, 1.0] * 20)
    value = ov.evaluate(data, [[0.5, 0.5]], "vpm", ignore=IGNORE)
    for grid in ([0.5, 2.0], [np.nan], [np.inf], [], ["two"]):
        with pytest.raises(ValueError, match="odds ratios must be finite numbers of at least 1"):
            value.sensitivity(grid)
    found = value.sensitivity([2.0])
    with pytest.raises(ValueError, match="odds must lie within the grid, 1 to 2: got 3"):
        found.at(3)
    for threshold in (np.nan, "none"):
        with pytest.raises(ValueError, match="a threshold must be a finite number: got"):
            found.tipping(threshold)
    with pytest.raises(ValueError, match=r"the data are gone: value.sensitivity\(data=data, policy=policy\)"):
        ov.evaluate(one_step([0, 1] * 20, [0.0, 1.0] * 20), [[0.5, 0.5]], "vpm", ignore=IGNORE).sensitivity()


def test_the_sentence_is_about_odds_that_were_bounded():
    """The worst outcome alone, 0, at odds without end: nothing is said of odds of two by a line drawn from one."""
    data = one_step([0, 1] * 20, [0.0, 1.0, 1.0, 0.0] * 10)
    value = ov.evaluate(data, [[0.0, 1.0]], "vpm", ignore=IGNORE)
    assert "an action by two, the" in value.sensitivity().sentence
    sentence = value.sensitivity([1e9]).sentence
    assert "an action by 1e+09, the return of an episode may be as low as 0.25 or as high as 0.75" in sentence


def confounded(seed, episodes=4000):
    """A hidden coin multiplies the odds of action 1 by 2 or by ½, and adds 1 to the reward of either action."""
    rng = np.random.default_rng(seed)
    hidden = rng.random(episodes) < 0.5
    actions = (rng.random(episodes) < np.where(hidden, 2 / 3, 1 / 3)).astype(int)  # odds 2 and 1/2 around 1: Λ = 2
    return one_step(actions, hidden.astype(float))


def test_the_truth_is_inside_from_the_odds_that_the_log_used():
    """Both actions are worth ½; where action 1 was taken the hidden coin paid ⅔. Λ = 2 reaches ½, 1.5 does not."""
    held = {2.0: 0, 1.5: 0}
    for seed in range(4):
        data = confounded(seed)
        found = ov.evaluate(data, [[0.0, 1.0]], "vpm", ignore=IGNORE).sensitivity([1.5, 2.0])
        for odds in held:
            low, high = found.at(odds)
            held[odds] += low - 0.03 <= 0.5 <= high + 0.03  # of noise: four standard errors of 2000 coins
    assert held == {2.0: 4, 1.5: 0}


def linear_log(seed, episodes=60, length=40):
    """s' = 0.6s + 0.4a + 0.3ε, r = s + 0.5a + 0.3η; the log's actions are 0.2s + 0.5ζ."""
    rng, rows = np.random.default_rng(seed), []
    state = 0.5 * rng.standard_normal((episodes, 1))
    for _ in range(length):
        action = 0.2 * state + 0.5 * rng.standard_normal(state.shape)
        after = 0.6 * state + 0.4 * action + 0.3 * rng.standard_normal(state.shape)
        rows.append([state, action, state + 0.5 * action + 0.3 * rng.standard_normal(state.shape), after])
        state = after
    state, action, reward, after = (np.stack(each, axis=1).reshape(-1, 1) for each in zip(*rows, strict=True))
    last = np.tile(np.arange(length) == length - 1, episodes)
    return ov.LoggedDataset.from_arrays(state, action, reward[:, 0], after, truncated=last)


@pytest.mark.parametrize("gamma", [0.9, 1.0])
def test_continuous_states_have_the_bounds_of_a_linear_system(gamma):
    """V has the slope k = 1.15/(1 - 0.72γ) under a = 0.3s + 0.2 + 0.3ζ, so y is normal with σ² = 0.3² + (0.3γk)², and
    every step may be worse by (1 - 1/Λ)·σ·φ(z_τ)/τ, the distance of the mean of its worst share from its mean.
    """
    policy = ov.policy.GaussianPolicy(lambda s: (0.3 * s + 0.2, np.full((len(s), 1), 0.3)), action_dimension=1)
    sigma, odds = np.hypot(0.3, 0.3 * gamma * 1.15 / (1 - 0.72 * gamma)), np.array([1.5, 3.0])
    reach = (1 - 1 / odds) * sigma * norm.pdf(norm.ppf(1 / (1 + odds))) * (1 + odds)
    logs = [linear_log(seed) for seed in range(6)]
    values = [ov.evaluate(data, policy, "vpm", gamma=gamma, n_features=20) for data in logs]
    found = [value.sensitivity(odds) for value in values]
    below = np.mean([each.value - each.lower[1:] for each in found], axis=0)
    above = np.mean([each.upper[1:] - each.value for each in found], axis=0)
    assert found[0].lower[0] == found[0].upper[0] == values[0].value
    assert values[0].sensitivity([1e9], logs[0]).at(1e9) == values[0].possible  # no value is beyond all rewards
    assert below == pytest.approx(reach, rel=0.1)
    assert above == pytest.approx(reach, rel=0.1)


def test_a_hidden_coin_beside_continuous_states_has_the_bounds_of_the_coin_alone():
    """The states say nothing: E[y] of action 1 is p, and the worst third of outcomes 0, so that Λ = 2 leaves 0.75p."""
    found = []
    for seed in range(2):
        coin, states = confounded(seed, 3000), np.random.default_rng(seed).standard_normal((3000, 2))
        data = ov.LoggedDataset.from_arrays(states, coin.actions, coin.rewards, states, terminated=coin.terminated)
        policy = ov.as_policy(lambda seen: np.tile([0.0, 1.0], (len(seen), 1)), n_actions=2)
        bounds = ov.evaluate(data, policy, "vpm", n_features=20).sensitivity([2.0])
        own = coin.rewards[coin.actions == 1].mean()
        found.append([bounds.lower[1] / own, (1 - bounds.upper[1]) / (1 - own)])
    assert np.mean(found, axis=0) == pytest.approx([0.75, 0.75], abs=0.02)


def test_pairs_that_were_logged_once_or_never_have_no_other_outcome():
    """The target takes actions 0 to 3 with 0.3, 0.3, 0.2 and 0.2; they were logged 20 times, once, once and never."""
    data = one_step([0] * 20 + [1, 2], [0.0, 1.0] * 11)
    value = ov.evaluate(data, [[0.3, 0.3, 0.2, 0.2]], "vpm", ignore=IGNORE)
    found = value.sensitivity([2.0])
    assert found.unknown == pytest.approx(0.7)
    assert " 70% of the target's steps were logged once or never" in found.sentence
    assert (value.lead.verdict, found.verdict) == ("unreliable", "unreliable")  # an action in five was never logged
    assert found.sentence.endswith(" The value itself is unreliable.")
    assert ov.evaluate(data, [[1.0, 0.0, 0.0, 0.0]], "vpm", ignore=IGNORE).sensitivity([2.0]).unknown == 0


@pytest.mark.parametrize("gamma", [0.9, 1.0])
def test_what_small_odds_allow_large_ones_do_as_well(gamma):
    """Even of a target that mostly takes actions which nobody logged, whose equations have no good solution."""
    rng = np.random.default_rng(0)
    states, actions = rng.normal(size=(200, 2)), rng.integers(0, 3, 200)
    after = 0.8 * states + 0.3 * (actions[:, None] - 1) + 0.3 * rng.normal(size=(200, 2))
    data = ov.LoggedDataset.from_arrays(states, actions, states[:, 0], after, truncated=np.ones(200))

    def beyond(seen):
        raised = np.exp(0.5 * np.maximum(seen[:, :1], -2) * np.arange(6))
        return raised / raised.sum(axis=1, keepdims=True)

    found = ov.evaluate(data, ov.as_policy(beyond, n_actions=6), "vpm", gamma=gamma, n_features=30).sensitivity()
    assert (np.diff(found.lower) <= 0).all()
    assert (np.diff(found.upper) >= 0).all()
    assert found.lower[0] == found.upper[0] == found.value
