"""More limits of the doctor's checks: scales of actions, rewards, rounding, and the tests behind shuffled rows."""

import numpy as np
import pytest
from gymnasium import spaces
from scipy.stats import f_oneway, rankdata

from ope_vpm import LoggedDataset, inspect
from ope_vpm.logged import checks, order
from ope_vpm.logged.doctor import SHOWN


def pushed(size, rows=60, high=2.0, low=-2.0):
    """A log whose largest action is of this size, in a box."""
    actions = np.linspace(-size, size, rows)[:, None]
    space = spaces.Box(low, high, (1,), dtype=np.float64)
    return LoggedDataset.from_arrays(np.arange(rows)[:, None] / 7, actions, np.zeros(rows), action_space=space)


@pytest.mark.parametrize(
    ("data", "found"),
    [
        (pushed(1.0), True),
        (pushed(0.96), True),
        (pushed(0.94), False),  # does not fill [-1, 1]
        (pushed(1.01), False),  # goes beyond it
        (pushed(1.0, rows=50), True),
        (pushed(1.0, rows=49), False),  # too few to say that they fill it
        (pushed(1.0, high=1.4), False),  # the space itself is hardly wider
        (pushed(1.0, low=-1.4), False),
        (pushed(1.0, high=1.6, low=-1.6), True),
    ],
)
def test_actions_that_fill_the_unit_box_of_a_wider_space(data, found):
    assert (checks.actions_scaled(data) is not None) is found


def test_every_wide_coordinate_must_look_scaled():
    unit, whole = np.linspace(-1, 1, 60), np.linspace(-2, 2, 60)
    for second, found in ((unit, True), (whole, False)):
        data = LoggedDataset.from_arrays(
            np.zeros((60, 1)), np.column_stack([unit, second]), np.zeros(60),
            action_space=spaces.Box(-2.0, 2.0, (2,), dtype=np.float64),
        )  # fmt: skip
        assert (checks.actions_scaled(data) is not None) is found


def paying(rewards):
    return LoggedDataset.from_arrays(np.zeros((len(rewards), 1)), np.zeros((len(rewards), 1)), rewards)


@pytest.mark.parametrize(("far", "found"), [(19.0, False), (21.0, True), (-21.0, True)])
def test_rewards_are_out_of_line_beyond_twenty_times_the_usual_distance(far, found):
    """-1, 0 and 1 in turn: the median is 0, and 99.5 % are no farther than 1."""
    rewards = np.tile([-1.0, 0.0, 1.0], 300)
    rewards[4] = far
    assert (checks.rewards_out_of_line(paying(rewards)) is not None) is found


@pytest.mark.parametrize(
    ("rows", "far", "found"), [(2000, 2, True), (2000, 3, False), (1000, 2, False), (300, 1, True)]
)
def test_more_than_one_far_reward_in_a_thousand_is_no_accident(rows, far, found):
    rewards = np.tile([1.0, -1.0], rows // 2)
    rewards[:far] = 1e6
    assert (checks.rewards_out_of_line(paying(rewards)) is not None) is found


def test_a_goal_that_is_reached_in_every_hundredth_row_sets_the_scale():
    rewards = np.zeros(1000)
    rewards[::100] = 100.0
    assert checks.rewards_out_of_line(paying(rewards)) is None
    rare = np.full(1000, 3.0)
    rare[5] = 1000.0  # all others are equal: their size is the scale
    assert checks.rewards_out_of_line(paying(rare)).rows == (5,)
    rare[5] = 50.0
    assert checks.rewards_out_of_line(paying(rare)) is None
    assert checks.rewards_out_of_line(paying(np.zeros(10))) is None


@pytest.mark.parametrize(("gap", "found"), [(0.5e-5, False), (2e-4, True), (-2e-4, True)])
def test_chains_break_by_more_than_the_rounding_of_float32(gap, found):
    states = 1.0 + np.arange(5.0)[:, None]
    following = states + 1
    following[1] *= 1 + gap
    data = LoggedDataset.from_arrays(states, np.zeros(5, int), np.zeros(5), following)
    broken = checks.broken_chain(data)
    assert (broken is not None) is found
    assert broken is None or list(broken.rows) == [1]


def test_chains_of_finite_states_break_by_any_difference_and_only_inside_episodes():
    data = LoggedDataset.from_arrays(
        [0, 100_000_000, 5, 6], [0] * 4, np.zeros(4), [100_000_001, 3, 6, 7], [False, True, False, True]
    )
    assert list(checks.broken_chain(data).rows) == [0]


def test_numbers_that_cannot_be_computed_with():
    states = np.arange(12.0).reshape(6, 2)
    following, rewards, actions = states + 1, np.zeros(6), np.zeros((6, 1))
    known = np.array([True] * 5 + [False])
    states[0, 1], rewards[1], actions[2, 0], following[3, 0], following[5] = np.nan, np.inf, 1e76, -np.inf, np.nan
    data = LoggedDataset.from_arrays(states, actions, rewards, following, next_known=known)
    assert list(checks.not_finite(data).rows) == [0, 1, 2, 3]
    logged = LoggedDataset.from_arrays(
        np.ones((2, 1)), np.zeros((2, 1)), np.zeros(2), np.ones((2, 1)), behaviour_log_prob=np.array([-1.0, np.nan])
    )
    assert list(checks.not_finite(logged).rows) == [1]


def test_fillers_after_truncations_are_errors():
    """There the next state is needed; after a termination it is not."""
    data = LoggedDataset.from_arrays(
        np.ones((2, 2)), np.zeros(2, int), np.zeros(2), np.zeros((2, 2)), [True, False], [False, True]
    )
    assert checks.zero_next_states(data).level == "error"


def test_constant_columns_are_named_some_of_them():
    data = LoggedDataset.from_arrays(np.ones((3, SHOWN + 2)), np.arange(3.0)[:, None], np.zeros(3))
    found = checks.constant_columns(data)
    assert f"observation {SHOWN - 1} and 2 more" in found.message
    assert found.count == SHOWN + 2
    few = LoggedDataset.from_arrays(np.arange(6.0).reshape(3, 2), np.ones((3, 1)), np.zeros(3))
    assert checks.constant_columns(few).message == "columns that never change: action 0"
    one = LoggedDataset.from_arrays(np.ones((1, 2)), np.ones((1, 1)), np.zeros(1))
    assert checks.constant_columns(one) is None


def levels(shift, seed=0, coordinates=2):
    rng = np.random.default_rng(seed)
    episode = np.repeat(np.arange(6), [40, 50, 60, 40, 50, 60])
    return rng.standard_normal((300, coordinates)) + shift * (episode[:, None] % 2), episode


@pytest.mark.parametrize("shift", [0.0, 0.4, 0.6, 0.7, 0.8, 1.5])
def test_levels_are_compared_by_the_f_test(shift):
    """scipy's analysis of variance in each of two coordinates, at one in a million together."""
    states, episode = levels(shift)
    tails = [f_oneway(*(states[episode == k, c] for k in range(6))).pvalue for c in (0, 1)]
    assert order._differ_in_level(states, episode) is bool(2 * min(tails) < 1e-6)


def test_many_columns_are_ranked_and_projected():
    columns = np.random.default_rng(0).standard_normal((50, 9))
    assert order._directions(columns).shape == (50, order.DIRECTIONS)
    ranked = order._directions(columns[:, :8])
    np.testing.assert_allclose(ranked, rankdata(columns[:, :8], axis=0) / 50 - 0.5)
    assert order._directions(columns[:0]).shape == (0, 9)


def test_spreads_are_compared_with_rows_dealt_at_random():
    rng = np.random.default_rng(1)
    episode = np.repeat(np.arange(10), 30)
    even = rng.standard_normal((300, 2)) + 5 * episode[:, None]
    uneven = rng.standard_normal((300, 2)) * (1 + episode[:, None] % 3) + 5 * episode[:, None]
    assert not order._differ_in_spread(even, episode)
    assert order._differ_in_spread(uneven, episode)


def test_the_first_episodes_that_fit_are_looked_at(monkeypatch):
    states = np.zeros((30, 1))
    data = LoggedDataset.from_arrays(states, states, np.zeros(30), truncated=np.arange(30) % 10 == 9)
    for rows, expected in ((25, 20), (20, 20), (19, 10), (9, 0), (100, 30)):
        monkeypatch.setattr(order, "ROWS", rows)
        assert order._enough(data) == expected


def test_order_shows_in_a_walk_and_not_in_its_shuffle():
    rng = np.random.default_rng(2)
    episode = np.repeat(np.arange(8), 50)
    steps = rng.standard_normal((8, 50, 1))
    walk = np.cumsum(steps, axis=1).reshape(-1, 1)
    quiet = np.zeros((400, 1))
    assert order._know_their_place(walk, quiet, episode)
    mixed = np.concatenate([rng.permutation(walk[episode == k]) for k in range(8)])
    assert not order._know_their_place(mixed, quiet, episode)


def test_rewards_that_are_spread_out_are_known_without_their_median():
    """Where the shortcut says so, the median would: more than 1 % lie beyond a twentieth of the largest distance."""
    rng = np.random.default_rng(0)
    decided = 0
    for _ in range(200):
        rewards = rng.standard_normal(rng.integers(3, 3000)) ** rng.integers(1, 6) + rng.integers(2)
        rewards[: rng.integers(len(rewards))] = rng.integers(3)
        distance = np.abs(rewards - np.median(rewards))
        spread = np.count_nonzero(distance >= distance.max() / 20) > max(0.01 * len(rewards), 1)
        assert spread or not checks._spread_out(rewards)
        decided += checks._spread_out(rewards)
    assert decided > 50


@pytest.mark.parametrize("worst", [np.inf, -np.inf, np.nan, 1e300])
def test_rewards_that_are_no_numbers_are_found_without_a_warning_of_numpy(worst):
    data = LoggedDataset.from_arrays([0, 1] * 10, [0, 1] * 10, [worst, -worst] * 10)
    assert [found.code for found in inspect(data).errors] == ["not-finite"]
