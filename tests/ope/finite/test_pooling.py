"""Pooling of rarely seen pairs, predictions from the target's preferences, and limits of rare rewards."""

import numpy as np
import pytest

import ope_vpm as ov
from ope_vpm.envs.random_mdp import RandomMDP
from ope_vpm.ope.finite.influence import evidence_of_rows
from ope_vpm.ope.finite.limits import binomial_limits
from ope_vpm.ope.finite.pooling import FROM_THE_LOG, components, from_state_mean, pooled_model
from ope_vpm.ope.finite.preference import Preference, PreferredSolution
from ope_vpm.ope.finite.problem import finite_problem
from ope_vpm.ope.finite.solve import solve
from ope_vpm.ope.finite.treatments import treatment
from ope_vpm.ope.problem import Problem

QUIET = ("constant-columns", "flags-confused", "duplicated-episodes")
MDP = RandomMDP.draw(40, 8, seed=3)
LOGGED, WANTED = MDP.policy(1), MDP.policy(2)


def pose(data, target, gamma=1.0, **settings):
    return Problem.pose(data, target, gamma=gamma, ignore=QUIET, **settings)


def ending_log(seed, episodes=30, length=10):
    """Episodes of a random MDP that end with their last step, of different lengths."""
    rng = np.random.default_rng(seed)
    whole = MDP.dataset(episodes, length, LOGGED, seed)
    keep = np.arange(len(whole)) % length < np.repeat(rng.integers(2, length + 1, episodes), length)
    last = np.append(np.diff(np.flatnonzero(keep)) != 1, True) | (np.flatnonzero(keep) % length == length - 1)
    return ov.LoggedDataset.from_arrays(
        whole.observations[keep],
        whole.actions[keep],
        whole.rewards[keep],
        whole.next_observations[keep],
        terminated=last,
        observation_space=whole.observation_space,
        action_space=whole.action_space,
    )


def test_where_nothing_of_the_target_was_seen_the_value_is_the_logged_mean():
    """The model is then that of the behaviour, whose restarted chain the log itself balances."""
    data = ending_log(0)
    data = ov.LoggedDataset.from_arrays(
        data.observations,
        data.actions % 4,
        data.rewards,
        data.next_observations,
        terminated=data.terminated,
        observation_space=data.observation_space,
        action_space=data.action_space,
    )
    other = np.zeros((40, 8))
    other[:, 7] = 1  # an action that nobody took
    finite = finite_problem(pose(data, other))
    found = pooled_model(finite).solve()
    assert found.unseen_mass == pytest.approx(1)
    assert found.value == pytest.approx(data.rewards.mean(), abs=FROM_THE_LOG * data.rewards.std())


@pytest.mark.parametrize("actions", [1, 8])
def test_unseen_pairs_end_nothing_by_themselves(actions):
    """Every episode pays 1 with its only step: so does an unseen action, discounted or not."""
    steps = np.zeros(20, dtype=int)
    data = ov.LoggedDataset.from_arrays(steps, steps, np.ones(20), steps, terminated=np.ones(20, dtype=bool))
    target = np.zeros((1, actions + 1))
    target[0, actions] = 1
    found = pooled_model(finite_problem(pose(data, target, 0.99))).solve()
    assert found.unseen_mass == pytest.approx(1)
    assert found.value == pytest.approx(0.01)


def test_an_unseen_pair_has_its_states_mean():
    """State 0 has actions 0 (once, pays 1) and 1 (three times, pays 2); the target takes action 2 there."""
    actions, rewards = [0, 1, 1, 1], [1.0, 2.0, 2.0, 2.0]
    data = ov.LoggedDataset.from_arrays([0] * 4, actions, rewards, [0] * 4, truncated=[True] * 4)
    finite = finite_problem(pose(data, [[0.0, 0.0, 1.0]]))
    model = pooled_model(finite)
    share = 2 / (2 + FROM_THE_LOG)
    np.testing.assert_allclose(model.probability, [share / 4, share * 3 / 4])
    np.testing.assert_allclose(model.substitute, [1 - share])
    assert model.solve().value == pytest.approx(1.75)  # of the state and of the log alike


def test_components_of_variance_by_hand():
    """Two actions in one state, outcomes 0, 2 and 5, 7: σ² = 2; between: Σn(ȳ - 3.5)² = 25, less σ², over 4 - 8/4."""
    data = ov.LoggedDataset.from_arrays([0] * 4, [0, 0, 1, 1], [0.0, 2.0, 5.0, 7.0], [0] * 4, truncated=[True] * 4)
    found = components(finite_problem(pose(data, [[0.5, 0.5]])), np.zeros(1))
    assert found.within == pytest.approx(2)
    assert found.between == pytest.approx((25 - 2) / 2)


@pytest.mark.parametrize("gamma", [0.9, 1.0])
def test_the_mass_of_pairs_gives_the_value(gamma):
    """Σ mass·r is the value, and mass is how the value moves with the reward of each pair."""
    data = MDP.dataset(20, 15, LOGGED, 5)
    finite = finite_problem(pose(data, WANTED, gamma))
    completion = Preference().complete(finite)
    found = completion.solve()
    assert isinstance(found, PreferredSolution)
    assert found.unseen_mass > 0.05
    assert abs(found.coefficient) > 1e-3
    assert found.mass @ finite.counts.reward == pytest.approx(found.value)
    assert found.mass.sum() == pytest.approx(1)


def test_preferences_recover_what_the_target_knows():
    """Rewards are c·log π without noise: every unseen pair is predicted exactly, and so is the value."""
    rng = np.random.default_rng(0)
    target = MDP.policy(2)
    log = np.log(target)
    reward = 0.3 * (log - log.mean(axis=1, keepdims=True))
    mdp = RandomMDP(np.broadcast_to(MDP.transition[:, :1], MDP.transition.shape), reward, MDP.initial, noise=0.0)
    data = mdp.dataset(400, 10, np.full((40, 8), 1 / 8), 1)
    kept = rng.random((40, 8)) < 0.7
    kept[np.arange(40), rng.integers(8, size=40)] = True
    rows = kept[data.observations, data.actions]
    part = ov.LoggedDataset.from_arrays(
        data.observations[rows],
        data.actions[rows],
        data.rewards[rows],
        data.next_observations[rows],
        truncated=np.ones(rows.sum(), dtype=bool),
        observation_space=data.observation_space,
        action_space=data.action_space,
    )
    found = ov.evaluate(part, target, "vpm", unseen="preference", ignore=QUIET)
    pooled = ov.evaluate(part, target, "vpm", unseen="pooled", ignore=QUIET)
    truth = mdp.value(target, 1.0)
    assert found.diagnostics["preference"] == pytest.approx(0.3, abs=0.05)
    assert abs(found.value - truth) < 0.2 * abs(pooled.value - truth)
    assert found.diagnostics["unseen_mass"] > 0.1


def test_limits_of_rare_rewards_are_clopper_and_pearsons():
    """3 of 10 have exact limits 0.0667 and 0.6525 (tables), 24 of 60 have 0.2756 and 0.5346; amounts scale along."""
    below, above = binomial_limits(np.repeat([2.0, 0.0], [3, 7]))
    assert (6 - below, 6 + above) == pytest.approx((20 * 0.0667, 20 * 0.6525), abs=0.01)
    below, above = binomial_limits(np.repeat([1.0, 0.0], [24, 36]))
    assert (24 - below, 24 + above) == pytest.approx((60 * 0.2756, 60 * 0.5346), abs=0.05)
    assert binomial_limits(np.zeros(5)) == (0.0, 0.0)


def test_few_events_in_many_episodes_have_garwoods_limits():
    """3 Poisson events: between 0.6187 and 8.7673."""
    below, above = binomial_limits(np.repeat([1.0, 0.0], [3, 99_997]))
    assert (3 - below, 3 + above) == pytest.approx((0.6187, 8.7673), abs=1e-3)


def rare_log(penalised, episodes=40):
    """One state, one action, five steps per episode that pay -1; a penalty of -100 in some episodes."""
    rewards = np.full((episodes, 5), -1.0)
    rewards[:penalised, 2] = -100
    steps = np.zeros(rewards.size, dtype=int)
    return ov.LoggedDataset.from_arrays(
        steps, steps, rewards.ravel(), steps, truncated=np.tile(np.arange(5) == 4, episodes)
    )


def rare_rewards(problem):
    return evidence_of_rows(problem, solve(finite_problem(problem), treatment("auto")), widened=False).rare


def test_intervals_reach_as_far_as_rare_penalties_may():
    """4 of 40 episodes have -99 more than usual, in 200 steps: the exact limits of 4 in 40 are 1.117 and 9.465."""
    data = rare_log(4)
    problem = pose(data, [[1.0]])
    found = rare_rewards(problem)
    assert found is not None
    assert found.episodes == pytest.approx(4)
    assert found.below == pytest.approx(99 * (9.465 - 4) / 200, rel=1e-3)
    assert found.above == pytest.approx(99 * (4 - 1.117) / 200, rel=1e-3)
    value = ov.evaluate(data, [[1.0]], "vpm", ignore=QUIET)
    assert value.interval[0] == pytest.approx(value.value - found.below)
    assert value.verdict == "caution"
    assert ov.evaluate(rare_log(2), [[1.0]], "vpm", ignore=QUIET).verdict == "unreliable"
    assert rare_rewards(pose(rare_log(30), [[1.0]])) is None


def test_nothing_is_shrunk_where_everything_was_seen():
    """Noise between the actions of a state asks for shrinkage, but the counts are a complete model."""
    mdp = RandomMDP.draw(5, 3, seed=1)
    data = mdp.dataset(100, 40, mdp.policy(1), 0)
    finite = finite_problem(pose(data, mdp.policy(2)))
    assert finite.all_seen
    assert solve(finite, Preference()).value == pytest.approx(ov.evaluate(data, mdp.policy(2), "model").value)


def test_distances_from_the_mean_of_a_state():
    """One state: three steps pay 1 and one pays 5, so their mean is 2."""
    data = ov.LoggedDataset.from_arrays(
        [0] * 4, [0, 0, 1, 0], [1.0, 1.0, 5.0, 1.0], [0] * 4, truncated=[False, True] * 2
    )
    counts = finite_problem(pose(data, [[0.5, 0.5]])).counts
    np.testing.assert_allclose(from_state_mean(counts, counts.reward), [-1, 3])
