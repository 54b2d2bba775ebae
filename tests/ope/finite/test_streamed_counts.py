"""Finite states counted part by part: the answer of the same log in memory, whatever the ends, states and rewards."""

from __future__ import annotations

import numpy as np
import pytest
from gymnasium import spaces

import ope_vpm as ov
from ope_vpm.logged import streamed, sums
from ope_vpm.logged.sums import RewardCounts
from ope_vpm.ope import log as logs
from ope_vpm.ope.finite import tally
from ope_vpm.ope.finite.doubts import history
from ope_vpm.ope.finite.estimate import counted_solution
from ope_vpm.ope.finite.problem import finite_problem
from ope_vpm.ope.problem import Problem
from tests.ope.finite.test_estimate import spring
from tests.ope.test_streams import agree, write

ALL = ("flags-confused", "one-row-off", "duplicated-episodes", "rewards-out-of-line", "constant-columns", "step-number")


@pytest.fixture(autouse=True)
def short_parts(monkeypatch):
    """Parts, samples and pieces so short that a log of some thousand rows has many, and entries wait to be summed."""
    monkeypatch.setattr(streamed, "PART_ROWS", 512)
    monkeypatch.setattr(tally, "PART_ROWS", 512)
    monkeypatch.setattr(tally, "SPARE", 300)
    monkeypatch.setattr(logs, "SAMPLE_ROWS", 400)


def logged(episodes=120, states=30, actions=3, seed=0, noise=1.0, long=40, islands=1, ending=0.03, rewards=None):
    """Episodes in a random MDP; some end, others are cut, and half of those without the state after the last step.

    Args:
        episodes: their number.
        states: in each island.
        actions: of which the first is taken most often.
        seed: of everything.
        noise: standard deviation of the rewards.
        long: the time limit.
        islands: parts of the state space that are never left.
        ending: the probability that a step ends the task.
        rewards: a function of states that pays instead.
    """
    rng = np.random.default_rng(seed)
    after = rng.integers(states, size=(states, actions, 4))
    here, acts, paid, there, term, trunc, known = ([] for _ in range(7))
    for number in range(episodes):
        state, home = int(rng.integers(states // 2)), states * (number % islands)
        for t in range(long):
            action = int(rng.choice(actions, p=[0.6, 0.3, 0.1]))
            following = int(after[state, action, rng.integers(4)])
            last = rng.random() < ending
            here.append(home + state)
            acts.append(action)
            there.append(home + following)
            paid.append(state % 5 + action + noise * rng.standard_normal() if rewards is None else rewards(state))
            term.append(last)
            trunc.append(not last and t == long - 1)
            known.append(not (trunc[-1] and number % 2))
            state = following
            if last:
                break
    return ov.LoggedDataset.from_arrays(
        np.array(here), np.array(acts), np.array(paid), np.array(there), term, trunc, next_known=known
    )


def target(data, seed=5):
    rng = np.random.default_rng(seed)
    return rng.dirichlet(np.ones(3), size=int(data.observations.max()) + 1)


def both(folder, data, policy, name, **options):
    write(data, folder, [1, 700, 701, 1500], row_group=300)
    assert Problem.pose(ov.scan_dataset(folder), policy, gamma=0.9, ignore=ALL).streamed
    found = [ov.evaluate(each, policy, name, ignore=ALL, **options) for each in (folder, data)]
    assert found[0].weights is None
    return found


@pytest.mark.parametrize("name", ["naive", "vpm", "auto", "model", "fqe", "dualdice", "mwl"])
@pytest.mark.parametrize("choices", [{"gamma": 0.9}, {"gamma": 1.0}, {"gamma": 0.9, "on_end": "restart"}])
def test_the_answer_is_that_of_the_log_in_memory(tmp_path, name, choices):
    data = logged()
    agree(*both(tmp_path, data, target(data), name, **choices))


@pytest.mark.parametrize("gamma", [0.95, 1.0])
@pytest.mark.parametrize(
    "kind",
    [
        {"episodes": 60, "states": 400},  # much is unseen
        {"islands": 2, "ending": 0.0},  # several closed classes
        {"rewards": lambda state: float(state == 3), "states": 200, "episodes": 60},  # rare rewards
        {"rewards": lambda state: 1.0},  # equal ones
        {"long": 3, "episodes": 500, "ending": 0.3},  # many ends
    ],
)
def test_logs_of_many_kinds(tmp_path, gamma, kind):
    data = logged(**kind)
    agree(*both(tmp_path, data, target(data), "vpm", gamma=gamma))


@pytest.mark.parametrize("unseen", ["restart", "good-turing", "smooth", "pooled", "auto"])
def test_every_treatment_of_unseen_pairs(tmp_path, unseen):
    data = logged(episodes=60, states=400, noise=0.0)
    agree(*both(tmp_path, data, target(data), "vpm", gamma=0.9, unseen=unseen))


@pytest.mark.parametrize("gamma", [0.95, 1.0])
def test_a_time_limit_that_ends_the_task(tmp_path, gamma):
    data = logged()
    agree(*both(tmp_path, data, target(data), "vpm", gamma=gamma, time_limit="restart"))


def test_states_of_several_numbers(tmp_path):
    data = logged()
    pairs = np.stack(np.divmod(data.observations, 7), axis=1), np.stack(np.divmod(data.next_observations, 7), axis=1)
    data = ov.LoggedDataset.from_arrays(
        pairs[0], data.actions, data.rewards, pairs[1], data.terminated, data.truncated, next_known=data.next_known
    )
    policy = ov.as_policy(lambda s: np.tile([0.5, 0.2, 0.3], (len(s), 1)), n_actions=3)
    write(data, tmp_path, [900])
    space = spaces.MultiDiscrete([9, 7])
    scanned = ov.scan_dataset(tmp_path, observation_space=space)
    found, expected = (ov.evaluate(each, policy, "vpm", gamma=0.9, ignore=ALL) for each in (scanned, data))
    agree(found, expected)
    problem = Problem.pose(scanned, policy, gamma=0.9, ignore=ALL)
    np.testing.assert_array_equal(
        finite_problem(problem).counts.observations, np.unique(pairs[0][data.next_known | data.terminated], axis=0)
    )


def test_counts_by_hand(tmp_path, monkeypatch):
    """Pair (0, 1) leads to 1 twice and ends once; (1, 0) leads to 0 with rewards 1 and 3, and to 1."""
    monkeypatch.setattr(logs, "SAMPLE_ROWS", 2)
    monkeypatch.setattr(streamed, "PART_ROWS", 2)
    states, actions = np.array([0, 1, 0, 1, 1, 0]), np.array([1, 0, 1, 0, 0, 1])
    rewards, after = np.array([5.0, 1.0, 6.0, 9.0, 3.0, 7.0]), np.array([1, 0, 1, 1, 0, 0])
    ends = np.arange(6) == 5
    data = ov.LoggedDataset.from_arrays(states, actions, rewards, after, ends, episode=np.zeros(6, dtype=int))
    write(data, tmp_path, [3])
    problem = Problem.pose(ov.scan_dataset(tmp_path), np.full((2, 2), 0.5), gamma=0.9, ignore=ALL)
    counts = finite_problem(problem).counts
    np.testing.assert_array_equal(counts.state_of_pair, [0, 1])
    np.testing.assert_array_equal(counts.action_of_pair, [1, 0])
    np.testing.assert_array_equal(counts.times, [3, 3])
    np.testing.assert_allclose(counts.reward, [6, 13 / 3])
    np.testing.assert_allclose(counts.transitions.toarray(), [[0, 2 / 3], [2 / 3, 1 / 3]])
    np.testing.assert_array_equal(counts.steps_of_pair, [3, 3])
    entry = (counts.pair == 1) & (counts.next_state == 0)
    np.testing.assert_allclose([counts.rewards[entry][0], counts.spread[entry][0]], [2.0, 2.0])


def test_what_cannot_be_counted_in_parts_says_so(tmp_path):
    data = logged()
    write(data, tmp_path, [])
    policy = target(data)
    for name, options in (("dr", {}), ("wist", {}), ("liu", {}), ("fqe", {"interval": "likelihood"})):
        with pytest.raises(ValueError, match=f"{name} .*read in parts: use vpm, auto, model, fqe or naive"):
            ov.evaluate(tmp_path, policy, name, gamma=0.9, ignore=ALL, **options)
    with pytest.raises(ValueError, match="vpm by solver 'tabular' with power steps"):
        ov.evaluate(tmp_path, policy, "vpm", gamma=0.9, ignore=ALL, steps=10)


def test_the_commonest_reward_of_more_than_can_be_counted(monkeypatch):
    monkeypatch.setattr(sums, "MOST_REWARDS", 10)
    rng = np.random.default_rng(0)
    counts = RewardCounts.of(np.array([2.0]))
    for _ in range(20):
        counts = counts.merge(RewardCounts.of(np.concatenate([rng.standard_normal(20), np.full(15, 4.0)])))
        assert len(counts.rewards) <= 10
    assert counts.commonest == 4.0


def test_states_without_numbers_are_read_into_memory(tmp_path):
    """2^40 · 3 · 2^40 transitions have no numbers of 64 bits."""
    data = logged(episodes=40)
    write(data, tmp_path, [300])
    scanned = ov.scan_dataset(tmp_path, observation_space=spaces.Discrete(1 << 40))
    policy = ov.as_policy(lambda s: np.tile([0.5, 0.2, 0.3], (len(s), 1)), n_actions=3)
    problem = Problem.pose(scanned, policy, gamma=0.9, ignore=ALL)
    assert not problem.streamed
    assert len(problem.data) == len(data)


def test_steps_of_long_logs_stay_in_their_order(monkeypatch):
    """The same answer as in the canonical order, to rounding."""
    data = logged()
    policy = target(data)
    long = ov.evaluate(data, policy, "vpm", gamma=0.9, ignore=ALL)
    monkeypatch.setattr(logs, "SAMPLE_ROWS", len(data))
    problem = Problem.pose(data, policy, gamma=0.9, ignore=ALL)
    assert not (np.diff(problem.steps.rows) > 0).all()
    short = ov.evaluate(data, policy, "vpm", gamma=0.9, ignore=ALL)
    assert long.value == pytest.approx(short.value, rel=1e-12)
    np.testing.assert_allclose(long.weights, short.weights, rtol=1e-9)


def test_parts_know_what_the_past_predicts(tmp_path):
    """Bins of a place whose speed is not logged: episodes of 60 steps reach over parts of 512 rows."""
    data, policy = spring(0, np.linspace(-1.5, 1.5, 8)), np.tile([0.6, 0.3, 0.1], (9, 1))
    write(data, tmp_path, [1, 700, 701, 1500], row_group=300)
    found = [
        Problem.pose(each, policy, gamma=0.9, ignore=ALL, time_limit=limit)
        for each in (ov.scan_dataset(tmp_path), data)
        for limit in ("continue", "restart")
    ]
    assert [problem.streamed for problem in found] == [True, True, False, False]
    pasts = [history(problem, counted_solution(problem)) for problem in found]
    for part, memory in zip(pasts[:2], pasts[2:], strict=True):
        assert part.share == pytest.approx(memory.share, rel=1e-9)
        assert part.bias == pytest.approx(memory.bias, rel=1e-9)
        assert part.share > 0.01
    verdicts = {ov.evaluate(each, policy, gamma=0.9, ignore=ALL).verdict for each in (ov.scan_dataset(tmp_path), data)}
    assert len(verdicts) == 1
    assert verdicts != {"reliable"}
