"""The adapter, against numbers worked out by hand and laws solved from the matrix."""

import numpy as np
import pytest
from gymnasium import spaces

from ope_vpm import LoggedDataset, as_policy
from ope_vpm.ope.adapter.ends import check_choices, plan_steps
from ope_vpm.ope.adapter.given import check_match
from ope_vpm.ope.adapter.pairs import pairs_of
from ope_vpm.policy import DeterministicPolicy, GaussianPolicy

UNIFORM = as_policy([[0.5, 0.5]] * 3)


def steps(data, gamma=1.0, on_end=None, time_limit="continue", seed=0):
    """The steps in the order of the log."""
    return plan_steps(data, check_choices(gamma, on_end, time_limit), time_limit, seed, np.arange(data.n_episodes))


def pairs(data, policy, gamma=1.0, seed=0, draws=1, **ends):
    """The transitions over pairs in the order of the log."""
    policy, plan = check_match(data, policy), steps(data, gamma, seed=seed, **ends)
    return pairs_of(data, policy, plan, data.initial_observations, gamma, seed, draws)


def counted_law(built, gamma):
    """The law that the counted transitions imply, by a linear solve over the x that were seen."""
    tr = built.transitions
    size = int(max(tr.x.max(), tr.successors.max(), tr.x_initial.max())) + 1
    chance = np.ones((len(tr), 1)) if tr.next_weight is None else tr.next_weight
    matrix = np.zeros((size, size))
    for row, weight in enumerate(tr.row_weights):
        np.add.at(matrix[tr.x[row]], tr.successors[row], weight * chance[row])
    seen = matrix.sum(axis=1) > 0
    matrix[seen] /= matrix[seen].sum(axis=1, keepdims=True)
    start = np.bincount(tr.x_initial, weights=tr.initial_weights, minlength=size)
    start /= start.sum()
    if gamma < 1:
        return np.linalg.solve(np.eye(size) - gamma * matrix.T, (1 - gamma) * start)
    law = start
    for _ in range(20_000):
        law = 0.5 * law + 0.5 * (law @ matrix)
    return law


def value(built, gamma):
    law = counted_law(built, gamma)
    reward = np.zeros(len(law))
    for x, r in zip(built.transitions.x, built.rewards, strict=True):
        reward[x] = r
    return law @ reward / law.sum()


def corridor(**flags):
    """States 0 → 1 → end; action 1 moves on, action 0 stays; reward 1 for the last step, 0 before."""
    observations = [0, 0, 1, 1, 0, 1]
    actions = [0, 1, 0, 1, 1, 1]
    rewards = [0.0, 0.0, 0.0, 1.0, 0.0, 1.0]
    following = [0, 1, 1, 2, 1, 2]
    ends = [False, False, False, True, False, True]
    return LoggedDataset.from_arrays(observations, actions, rewards, following, **({"terminated": ends} | flags))


def test_finite_pairs_are_numbered_and_carry_the_whole_distribution():
    policy = as_policy([[0.25, 0.75], [0.1, 0.9], [0.5, 0.5]])
    built = pairs(corridor(), policy, gamma=0.9)
    tr = built.transitions
    assert tr.x.tolist() == [0, 1, 2, 3, 1, 3, 6]  # s · 2 + a, then the absorbing state
    assert tr.x_next.tolist() == [[0, 1], [2, 3], [2, 3], [6, 6], [2, 3], [6, 6], [6, 6]]
    assert tr.next_weight[0].tolist() == [0.25, 0.75]
    assert tr.next_weight[1].tolist() == [0.1, 0.9]
    assert built.rows.tolist() == [0, 1, 2, 3, 4, 5, -1]
    assert built.rewards.tolist() == [0, 0, 0, 1, 0, 1, 0]
    assert tr.x_initial.tolist() == [0, 1, 0, 1]
    assert tr.initial_weight.tolist() == [0.25, 0.75, 0.25, 0.75]
    assert built.ended == 2
    assert built.dropped == 0


def test_absorbed_value_is_the_hand_worked_one():
    # Always moving on: reward 1 at the second step, nothing after it: (1 - γ) · γ · 1.
    policy = as_policy([[0.0, 1.0]] * 3)
    built = pairs(corridor(), policy, gamma=0.9)
    law = counted_law(built, 0.9)
    assert law.sum() == pytest.approx(1.0)
    assert law[1] == pytest.approx(0.1)  # state 0, action 1, at time 0
    assert law[3] == pytest.approx(0.09)  # state 1, action 1, at time 1
    assert law[6] == pytest.approx(0.81)  # ended ever after
    assert value(built, 0.9) == pytest.approx(0.09)
    assert built.transitions.x_initial.tolist() == [1, 1]  # actions that are never taken are left out


def test_restarted_value_is_the_hand_worked_one():
    # Uniform policy: each state takes two steps on average, so one reward every four steps.
    built = pairs(corridor(), UNIFORM, gamma=1.0)
    assert not built.absorbs
    assert value(built, 1.0) == pytest.approx(0.25)
    # Always moving on: one reward every two steps.
    assert value(pairs(corridor(), as_policy([[0.0, 1.0]] * 3)), 1.0) == pytest.approx(0.5)


def test_restart_below_one_discounts_through_the_end():
    # 0, 1, 0, 1, ... for ever: (1 - γ)(γ + γ³ + ...) = γ / (1 + γ).
    built = pairs(corridor(), as_policy([[0.0, 1.0]] * 3), gamma=0.9, on_end="restart")
    assert value(built, 0.9) == pytest.approx(0.9 / 1.9)


def test_restarts_follow_the_empirical_initial_law():
    data = LoggedDataset.from_arrays(
        [0, 2, 0, 2, 1, 2, 0, 2], [0] * 8, [0.0] * 8, [2, 3] * 4, [False, True] * 4, [False] * 8
    )
    plan = steps(data, gamma=1.0)
    assert plan.ended == 4
    ends = data.terminated[plan.rows]
    assert np.bincount(plan.rows[ends]).tolist() == [0, 2, 0, 2, 0, 2, 0, 2]  # two copies of each end
    assert plan.weight[ends].tolist() == [0.5] * 8
    assert sorted(plan.next_observations[ends].tolist()) == [0] * 6 + [1] * 2  # three quarters begin in 0
    assert plan.weight.sum() == len(data)


def test_few_ends_are_spread_over_all_initial_states():
    data = LoggedDataset.from_arrays(
        np.arange(40) % 20, np.zeros(40, int), np.zeros(40), episode=np.repeat(range(4), 10), terminated=None
    )
    data = LoggedDataset.concatenate(
        [data, LoggedDataset.from_arrays([7, 8], [0, 0], [0.0, 0.0], [8, 9], [False, True])]
    )
    plan = steps(data, gamma=1.0)
    last = plan.rows == 41
    assert sorted(plan.next_observations[last].tolist()) == [0, 0, 7, 10, 10]
    assert plan.weight[last].sum() == pytest.approx(1.0)


@pytest.mark.parametrize("limit", ["continue", "restart"])
def test_time_limit_continues_or_restarts(limit):
    ends = [False, False, False, True, False, True]
    data = corridor(terminated=[False] * 6, truncated=ends)
    plan = steps(data, gamma=1.0, time_limit=limit)
    assert plan.ended == (2 if limit == "restart" else 0)
    last = plan.next_observations[plan.rows == 3]
    assert last.tolist() == ([0, 0] if limit == "restart" else [2])


def test_unknown_next_state_is_dropped_and_counted():
    data = LoggedDataset.from_arrays([0, 1, 0, 1], [0, 1, 1, 0], [0.0, 1.0, 2.0, 3.0], None, [0, 1, 0, 0], [0, 0, 0, 1])
    built = pairs(data, UNIFORM, gamma=0.9)
    assert built.dropped == 1  # the cut row 3; the terminated row 1 needs no next state
    assert built.rows.tolist() == [0, 1, 2, -1]
    # Where the limit belongs to the task, nothing needs to be dropped.
    assert pairs(data, UNIFORM, gamma=0.9, time_limit="restart").dropped == 0


def test_absorbing_weight_makes_the_ratio_one_on_policy():
    # Episodes of exactly two steps: the mass after them is γ².
    observations = [0, 1] * 50
    data = LoggedDataset.from_arrays(observations, [1] * 100, [0.0] * 100, [1, 2] * 50, [False, True] * 50)
    built = pairs(data, as_policy([[0.0, 1.0]] * 3), gamma=0.8)
    weight = built.transitions.row_weights
    assert weight[-1] / weight.sum() == pytest.approx(0.64)


def points(n=60, discrete=False, seed=0):
    rng = np.random.default_rng(seed)
    states = rng.normal(5.0, 3.0, (n, 2))
    actions = rng.integers(0, 3, n) if discrete else rng.normal(-2.0, 0.5, (n, 1))
    ends = np.arange(n) % 10 == 9
    return LoggedDataset.from_arrays(states, actions, rng.normal(size=n), states + 1, ends)


def test_continuous_pairs_are_standardised_and_drawn_k_times():
    data = points()
    policy = GaussianPolicy(lambda seen: (-2.0 + 0 * seen[:, :1], 0.5))
    built = pairs(data, policy, gamma=1.0, draws=4)
    tr = built.transitions
    assert tr.x_next.shape == (len(tr), 4, 3)
    np.testing.assert_allclose(tr.next_weight, 0.25)
    logged = built.encoder(data.observations, data.actions)
    np.testing.assert_allclose(logged.mean(axis=0), 0, atol=1e-12)
    np.testing.assert_allclose(logged.std(axis=0), 1, atol=1e-12)
    np.testing.assert_allclose(tr.x, logged[built.rows])
    np.testing.assert_allclose(built.encoder.observation_scale.whole.mean, data.observations.mean(axis=0))
    inner = ~data.terminated[built.rows]
    expected = built.encoder.states(data.next_observations[built.rows[inner]])
    np.testing.assert_allclose(tr.x_next[inner, 2, :2], expected)
    assert len(tr.x_initial) == 6 * 4
    assert tr.x_next[:, :, 2].std() == pytest.approx(1.0, abs=0.2)


def test_one_draw_is_an_ordinary_transition():
    tr = pairs(points(), DeterministicPolicy(lambda seen: seen[:, :1] - 7)).transitions
    assert tr.next_weight is None
    assert tr.x_next.shape == tr.x.shape


def test_points_with_discrete_actions_are_one_hot():
    data = points(discrete=True)
    policy = as_policy(lambda seen: np.tile([0.2, 0.3, 0.5], (len(seen), 1)), n_actions=3)
    built = pairs(data, policy, gamma=0.9)
    tr = built.transitions
    assert tr.x.shape == (61, 2 + 3 + 1)
    np.testing.assert_allclose(tr.x[:-1, 2:5], np.eye(3)[data.actions])
    np.testing.assert_allclose(tr.x_next[0, :, 2:5], np.eye(3))
    np.testing.assert_allclose(tr.next_weight[0], [0.2, 0.3, 0.5])
    # The absorbing point lies apart from all others and leads to itself.
    end = tr.x[-1]
    assert end[:-1].tolist() == [0] * 5
    assert end[-1] == pytest.approx(4 * np.sqrt(5))
    assert (tr.x[:-1, -1] == 0).all()
    np.testing.assert_allclose(tr.x_next[-1], np.tile(end, (3, 1)))
    np.testing.assert_allclose(tr.x_next[9], np.tile(end, (3, 1)))  # row 9 is terminated


def test_multi_discrete_states_are_numbered_row_major():
    data = LoggedDataset.from_arrays(
        [[0, 2], [1, 0]],
        [0, 1],
        [0.0, 0.0],
        [[1, 0], [1, 2]],
        [False, False],
        observation_space=spaces.MultiDiscrete([2, 3]),
    )
    policy = as_policy(np.full((2, 3, 2), 0.5))
    tr = pairs(data, policy).transitions
    assert tr.x.tolist() == [(0 * 3 + 2) * 2 + 0, (1 * 3 + 0) * 2 + 1]
    assert tr.x_next.tolist() == [[6, 7], [10, 11]]


def test_finite_states_with_continuous_actions_are_one_hot():
    data = LoggedDataset.from_arrays([0, 1, 2], [[0.5], [0.1], [0.3]], [0.0] * 3, [1, 2, 0], [False] * 3)
    tr = pairs(data, DeterministicPolicy(lambda seen: np.full((len(seen), 1), 0.3))).transitions
    np.testing.assert_allclose(tr.x[:, :3], np.eye(3))
    np.testing.assert_allclose(tr.x_next[:, 3], 0.0, atol=1e-12)


def test_too_many_finite_states_for_continuous_actions_are_refused():
    data = LoggedDataset.from_arrays([0, 5000], [[0.5], [0.1]], [0.0] * 2, [1, 2], [False] * 2)
    with pytest.raises(ValueError, match="5001 finite states with continuous actions are too many"):
        pairs(data, DeterministicPolicy(lambda seen: np.zeros((len(seen), 1))))


def test_same_seed_same_pairs():
    policy = GaussianPolicy(lambda seen: (seen[:, :1], 1.0))
    first, again, other = (pairs(points(), policy, seed=seed).transitions.x_next for seed in (1, 1, 2))
    assert (first == again).all()
    assert (first != other).any()


def test_no_initial_states():
    data = corridor().with_resets([False, False])
    with pytest.raises(ValueError, match="nowhere to go"):
        pairs(data, UNIFORM)
    with pytest.raises(ValueError, match="needs initial states"):
        pairs(data, UNIFORM, gamma=0.9)


@pytest.mark.parametrize(
    ("policy", "message"),
    [
        (as_policy([[1.0]] * 3), "chooses from 1 actions, the data have 2"),
        (DeterministicPolicy(lambda seen: seen, action_dimension=1), "continuous actions, the data discrete"),
        (as_policy(np.full((3, 3, 2), 0.5)), "takes observations of 2 numbers, the data have 1"),
    ],
)
def test_policy_of_another_space_is_refused(policy, message):
    with pytest.raises(ValueError, match=message):
        pairs(corridor(), policy)


def test_action_count_must_equal_the_space():
    data = corridor(action_space=spaces.Discrete(2))
    with pytest.raises(ValueError, match="chooses from 3 actions, the data have 2"):
        pairs(data, as_policy([[0.2, 0.3, 0.5]] * 3))


def test_continuous_data_refuse_other_policies():
    with pytest.raises(ValueError, match="discrete actions, the data continuous"):
        pairs(points(), as_policy(lambda seen: np.zeros(len(seen), int), n_actions=2))
    with pytest.raises(ValueError, match="have 2 coordinates, the data's 1"):
        pairs(points(), DeterministicPolicy(lambda seen: seen, action_dimension=2))
    with pytest.raises(ValueError, match=r"shape \(\d+, 2\), the data's"):
        pairs(points(), DeterministicPolicy(lambda seen: seen))


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"gamma": 1.5}, "gamma must be between 0 and 1"),
        ({"on_end": "stop"}, "on_end must be"),
        ({"time_limit": "ignore"}, "time_limit must be"),
        ({"gamma": 1.0, "on_end": "absorb"}, "takes all the mass"),
    ],
)
def test_wrong_choices_are_refused(options, message):
    with pytest.raises(ValueError, match=message):
        pairs(corridor(), UNIFORM, **options)


def test_nothing_known_is_refused():
    data = LoggedDataset.from_arrays([0, 1], [0, 1], [0.0, 1.0], episode=[0, 1])
    with pytest.raises(
        ValueError, match=r"no logged row has a next state.*or set terminated where a step ends the task"
    ):
        pairs(data, UNIFORM)


def test_actions_of_two_coordinates_must_fit():
    rng = np.random.default_rng(0)
    data = LoggedDataset.from_arrays(
        rng.standard_normal((6, 1)), rng.standard_normal((6, 2)), np.zeros(6), truncated=np.arange(6) == 5
    )
    built = pairs(data, DeterministicPolicy(lambda s: np.hstack([s, 2 * s])), draws=2)
    assert built.transitions.x_next.shape == (5, 2, 3)
    for wrong in (lambda s: s, lambda s: np.hstack([s, s, s])):
        with pytest.raises(ValueError, match="actions"):
            pairs(data, DeterministicPolicy(wrong))
