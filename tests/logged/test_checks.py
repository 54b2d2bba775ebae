"""Each check of the doctor at its limits, on logs of a few rows."""

import numpy as np
import pytest
from gymnasium import spaces

from ope_vpm import LoggedDataset
from ope_vpm.logged import checks, order
from ope_vpm.logged.spaces import check_space


def log(lengths, flag="terminated", states=None, actions=None, **more):
    """Episodes of the given lengths that all end by one flag, without next states unless they are given."""
    last = np.zeros(sum(lengths), dtype=bool)
    last[np.cumsum(lengths) - 1] = True
    states = np.random.default_rng(0).standard_normal((len(last), 2)) if states is None else states
    actions = np.zeros(len(last), dtype=int) if actions is None else actions
    return LoggedDataset.from_arrays(states, actions, np.zeros(len(last)), **{flag: last}, **more)


@pytest.mark.parametrize(
    ("lengths", "expected"),
    [
        ([20, 20, 20], [19, 39, 59]),
        ([20, 20], None),  # two of one length may be by chance
        ([19, 19, 19], None),  # short episodes end at one length of themselves
        ([20, 20, 20, 18, 18], None),  # as many near the longest as there would be without a limit
        ([20, 20, 20, 17, 17], [19, 39, 59]),
        ([20, 20, 20, 20, 18, 18], [19, 39, 59, 79]),
    ],
)
def test_terminations_that_look_like_a_time_limit(lengths, expected):
    found = checks.flags_confused(log(lengths))
    assert (found and list(found.rows)) == expected


def test_a_limit_that_is_marked_somewhere_is_not_confused():
    data = log([20, 20, 20, 5])
    cut = np.zeros(65, dtype=bool)
    cut[64] = True
    ends = np.array(data.terminated) & ~cut
    other = LoggedDataset.from_arrays(data.observations, data.actions, data.rewards, terminated=ends, truncated=cut)
    assert checks.flags_confused(data) is not None
    assert checks.flags_confused(other) is None


@pytest.mark.parametrize(
    ("lengths", "found"), [([1, 2, 3, 4, 5], True), ([1, 2, 3, 4], False), ([2, 2, 2, 4, 5], False), ([2, 2, 1], False)]
)
def test_truncations_at_many_lengths(lengths, found):
    assert (checks.flags_confused(log(lengths, "truncated")) is not None) == found


def walks(episodes, length, states=50, seed=0):
    """Random walks among some states."""
    rng = np.random.default_rng(seed)
    path = rng.integers(states, size=(episodes, length + 1))
    last = np.arange(episodes * length) % length == length - 1
    actions, rewards = rng.integers(2, size=last.size), rng.integers(2, size=last.size).astype(float)
    return LoggedDataset.from_arrays(path[:, :-1].ravel(), actions, rewards, path[:, 1:].ravel(), truncated=last)


@pytest.mark.parametrize("length", [2, 15, 19])
def test_a_whole_log_five_times_is_counted_once(length):
    data = walks(12, length)
    copied = checks.copied_episodes(LoggedDataset.concatenate([data] * 5))
    assert copied.tolist() == [False] * 12 + [True] * 48


def test_a_copy_in_single_precision_is_a_copy():
    rng = np.random.default_rng(0)
    states, last = rng.standard_normal((120, 3)), np.arange(120) % 10 == 9

    def stored(kind):
        seen, paid = states.astype(kind).astype(float), (states[:, 0] / 3).astype(kind).astype(float)
        return LoggedDataset.from_arrays(seen, seen[:, :1], paid, seen, truncated=last)

    both = LoggedDataset.concatenate([stored(np.float64), stored(np.float32)])
    assert checks.copied_episodes(both).tolist() == [False] * 12 + [True] * 12


def test_episodes_of_few_states_are_equal_by_nature():
    """Two states, two actions, two rewards: among 300 episodes of three steps many are equal, and none is a copy."""
    data = walks(300, 3, states=2)
    assert len({tuple(data.observations[first : first + 3]) for first in data.starts}) < 10
    assert not checks.copied_episodes(data).any()
    assert not checks.copied_episodes(walks(300, 1, states=2)).any()
    one = walks(1, 30)  # a controller without noise from one state repeats itself
    assert not checks.copied_episodes(LoggedDataset.concatenate([one] * 3)).any()


@pytest.mark.parametrize(("length", "shared", "found"), [(7, 3, False), (8, 3, True), (1, 0, False), (2, 0, True)])
def test_copies_are_more_than_twice_as_long_as_what_different_episodes_share(length, shared, found):
    number, lengths = np.array([0, 1, 2, 1]), np.full(4, length)
    assert checks.copies(number, lengths, shared).tolist() == [False, False, False, found]
    assert not checks.copies(np.array([0, 1, 1, 1, 1]), np.full(5, length), shared).any()  # five of two: by nature


def test_discrete_actions_outside():
    found = checks.actions_outside(log([4], actions=[0, 1, 2, 1], action_space=spaces.Discrete(2)))
    assert list(found.rows) == [2]
    assert checks.actions_outside(log([4], actions=[0, 1, 1, 1], action_space=spaces.Discrete(2))) is None


def test_continuous_actions_outside_by_more_than_rounding():
    """The space is 20 wide: rounding is 2e-4."""
    actions = np.array([[10.0001], [10.001], [-10.0001], [-10.001]])
    space = spaces.Box(-10, 10, (1,), dtype=np.float64)
    assert list(checks.actions_outside(log([4], actions=actions, action_space=space)).rows) == [1, 3]


@pytest.mark.parametrize(("zeros", "expected"), [(1, None), (2, [0, 1]), (4, [0, 1, 2, 3])])
def test_zeros_after_half_of_the_ends_are_fillers(zeros, expected):
    following = np.ones((4, 2))
    following[:zeros] = 0
    found = checks.zero_next_states(log([1] * 4, states=np.ones((4, 2)), next_observations=following))
    assert (found and list(found.rows)) == expected
    assert found is None or found.level == "warning"


def test_zeros_are_states_where_a_state_is_zero():
    assert checks.zero_next_states(log([1] * 2, states=np.eye(2) * 0, next_observations=np.zeros((2, 2)))) is None
    one_column = log([1] * 2, states=np.ones((2, 1)), next_observations=np.zeros((2, 1)))
    assert checks.zero_next_states(one_column) is None


def test_statistics_of_time_by_hand():
    """Episodes (0, 2) and (1, 5), centred -1, 1 and -2, 2; actions 1, 0 and 3, 0, centred 0 and 2 in the first rows.

    Products of neighbours -1 - 4, of squares 1 + 8, with actions 0 + 4; distances 4 + 16; with time ½(1 + 1 + 2 + 2).
    """
    states, actions = np.array([[0.0], [2.0], [1.0], [5.0]]), np.array([[1.0], [0.0], [3.0], [0.0]])
    np.testing.assert_allclose(order._of_time(states, actions, np.array([0, 0, 1, 1])), [-5, 9, 4, 20, 3])


def test_time_runs_from_the_first_to_the_last_row_of_an_episode():
    """Centred states -2, -1 and 3 at the places -½, 0 and ½: 2.5."""
    states = np.array([[0.0], [1.0], [5.0]])
    assert order._of_time(states, 0 * states, np.zeros(3, dtype=int))[-1] == pytest.approx(2.5)


@pytest.mark.parametrize(
    ("episodes", "length", "found"), [(5, 40, True), (4, 50, False), (5, 39, False), (100, 3, True), (200, 2, False)]
)
def test_how_much_is_needed_to_see_that_rows_are_shuffled(episodes, length, found):
    """Independent draws about a level and with a spread of their own in each episode: alike, and in no order."""
    rng = np.random.default_rng(0)
    level, spread = 10 * rng.standard_normal((episodes, 1, 2)), np.exp(2 * rng.standard_normal((episodes, 1, 1)))
    states = (level + spread * rng.standard_normal((episodes, length, 2))).reshape(-1, 2)
    data = log([length] * episodes, "truncated", states, rng.integers(2, size=len(states)))
    assert (order.rows_shuffled(data) is not None) == found


def test_goals_that_are_drawn_at_a_reset_say_nothing_about_order():
    states = np.column_stack([np.arange(6.0), [1.0, 1.0, 1.0, 2.0, 2.0, 2.0]])
    assert order._varying(log([3, 3], states=states), 6).tolist() == [True, False]


@pytest.mark.parametrize("column", [np.zeros((2, 2), dtype=int), np.zeros(2), np.zeros((2, 1))])
def test_discrete_spaces_are_of_one_column_of_integers(column):
    check_space("observations", np.zeros(2, dtype=int), spaces.Discrete(3))
    with pytest.raises(ValueError, match="observations do not fit their space"):
        check_space("observations", column, spaces.Discrete(3))


def test_a_reward_far_beyond_a_thousand_others():
    rewards = np.tile([1.0, -1.0], 500)
    states = np.zeros((1000, 1))
    assert checks.rewards_out_of_line(LoggedDataset.from_arrays(states, states, rewards)) is None
    rewards[7] = -999.0
    assert checks.rewards_out_of_line(LoggedDataset.from_arrays(states, states, rewards)).rows == (7,)
    rewards[8] = -999.0  # two in a thousand are no accident
    assert checks.rewards_out_of_line(LoggedDataset.from_arrays(states, states, rewards)) is None
