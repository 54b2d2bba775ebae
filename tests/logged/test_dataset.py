"""LoggedDataset: the door, episodes, selection, concatenation."""

from dataclasses import replace

import numpy as np
import pytest
import torch
from gymnasium import spaces
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.extra import numpy as hnp

from ope_vpm import LoggedDataset
from ope_vpm.logged import Episode


def small(**more):
    columns = {
        "observations": [[0.0, 1.0], [1.0, 2.0], [5.0, 6.0]],
        "actions": [0, 1, 1],
        "rewards": [1, 2, 3],
        "next_observations": [[1.0, 2.0], [2.0, 3.0], [6.0, 7.0]],
        "terminated": [False, True, False],
        "truncated": [False, False, False],
    }
    return LoggedDataset.from_arrays(**(columns | more))


def test_episodes_end_at_flags_and_at_the_last_row():
    data = small()
    assert len(data) == 3
    assert data.n_episodes == 2
    assert data.lengths.tolist() == [2, 1]
    assert data.ends.tolist() == [1, 2]
    assert data.episode.tolist() == [0, 0, 1]
    assert data.time.tolist() == [0, 1, 0]
    assert data.initial_observations.tolist() == [[0, 1], [5, 6]]
    assert data.returns.tolist() == [3, 3]
    assert data.truncated.tolist() == [False] * 3  # flags stay as they came
    assert repr(data) == "LoggedDataset(3 steps, 2 episodes, 2-dimensional states, 2 actions)"


def test_columns_are_read_only_and_not_copied():
    observations = np.zeros((3, 2), np.float32)
    data = small(observations=observations, next_observations=observations)
    assert np.shares_memory(data.observations, observations)
    with pytest.raises(ValueError, match="read-only"):
        data.observations[0, 0] = 1.0


def test_memory_maps_stay_on_disk(tmp_path):
    mapped = np.memmap(tmp_path / "states", np.float32, "w+", shape=(3, 2))
    data = small(observations=mapped, next_observations=mapped)
    assert np.shares_memory(data.observations, mapped)
    assert np.shares_memory(data.select(slice(0, 1)).observations, mapped)


def test_without_next_observations_the_following_row_is_taken():
    data = small(next_observations=None)
    assert data.next_known.tolist() == [True, False, False]
    assert data.next_observations[0].tolist() == [1.0, 2.0]
    assert np.isnan(data.next_observations[1:]).all()
    assert LoggedDataset.from_arrays([3, 4], [0, 0], [0, 0]).next_observations.tolist() == [4, -1]


def test_dictionaries_and_tuples_are_laid_side_by_side():
    parts = {"b": np.arange(6.0).reshape(3, 2), "a": np.array([7, 8, 9])}
    data = LoggedDataset.from_arrays(parts, [0, 0, 0], [0, 0, 0])
    assert data.observations.tolist() == [[7, 0, 1], [8, 2, 3], [9, 4, 5]]
    data = LoggedDataset.from_arrays((np.array([1, 2]), np.array([3, 4])), [0, 0], [0, 0])
    assert data.finite  # multi-discrete: all parts are integers
    assert data.observations.tolist() == [[1, 3], [2, 4]]


def test_spaces_are_laid_flat_like_their_columns():
    box = spaces.Box(-1, 1, (2,), dtype=np.float64)
    nested = spaces.Dict({"b": box, "a": spaces.Box(0, 1e300, (1,), dtype=np.float64)})
    parts = {"a": np.ones(3), "b": np.ones((3, 2))}
    data = LoggedDataset.from_arrays(parts, [0] * 3, [0] * 3, observation_space=nested)
    assert data.observation_space == spaces.Box(np.float32([0, -1, -1]), np.float32([np.inf, 1, 1]))
    pair = spaces.Tuple([spaces.Discrete(4), spaces.MultiBinary(2)])
    columns = (np.array([0, 3]), np.array([[0, 1], [1, 1]]))
    data = LoggedDataset.from_arrays(columns, [0, 0], [0, 0], observation_space=pair)
    assert data.observation_space == spaces.MultiDiscrete([4, 2, 2])
    mixed = spaces.Tuple([spaces.Discrete(4), box])
    columns = (np.array([0, 3]), np.ones((2, 2)))
    assert LoggedDataset.from_arrays(columns, [0, 0], [0, 0], observation_space=mixed).observation_space is None


def test_bounds_that_single_precision_cannot_hold_stay_double():
    for bound, precision in ((0.1, np.float64), (0.5, np.float32)):
        nested = spaces.Dict({"a": spaces.Box(-bound, 1.0, (1,), dtype=np.float64)})
        data = LoggedDataset.from_arrays({"a": np.zeros(2)}, [0, 0], [0, 0], observation_space=nested)
        assert data.observation_space.dtype == precision
        assert data.observation_space.low.tolist() == [-bound]


def test_datasets_keep_the_space_that_they_share():
    parts = [
        LoggedDataset.from_arrays([0, 1], [0, 1], [0, 0], action_space=spaces.Discrete(actions))
        for actions in (2, 2, 3)
    ]
    assert LoggedDataset.concatenate(parts[:2]).action_space == spaces.Discrete(2)
    assert LoggedDataset.concatenate(parts).action_space is None


def test_columns_of_another_width_or_kind_are_not_joined():
    one = LoggedDataset.from_arrays([[0.0]], [0], [0])
    for other in (LoggedDataset.from_arrays([[0.0, 1.0]], [0], [0]), LoggedDataset.from_arrays([0], [0], [0])):
        with pytest.raises(ValueError, match="observations must be alike in every dataset: dataset 1"):
            LoggedDataset.concatenate([one, other])
    with pytest.raises(ValueError, match="actions must be alike in every episode: episode 1"):
        LoggedDataset.from_episodes([Episode([[0.0]], [0], [0]), Episode([[0.0]], [[0.5]], [0])])


def test_images_are_flattened():
    data = LoggedDataset.from_arrays(np.ones((2, 3, 4, 4), np.uint8), [0, 1], [0, 0])
    assert data.observations.shape == (2, 48)
    assert data.observations.dtype == np.float32


def test_select_and_concatenate(same):
    data = small(behaviour_log_prob=[-0.1, -0.2, -0.3])
    both = LoggedDataset.concatenate([data.select(1), data.select([0])])
    assert both.rewards.tolist() == [3, 1, 2]
    assert both.behaviour_log_prob.tolist() == [-0.3, -0.1, -0.2]
    assert both.starts.tolist() == [0, 1]  # the unflagged end of the first stays an end
    same(LoggedDataset.concatenate([both.select(1), both.select(0)]), data)
    assert data.select(np.array([False, True])).rewards.tolist() == [3]
    assert data.select([1, 1]).rewards.tolist() == [3, 3]
    mixed = LoggedDataset.concatenate([data, small()])
    assert mixed.behaviour_log_prob is None


def test_episodes_that_take_turns_row_by_row_are_refused():
    turns = np.tile([7, 3], 3)
    message = "rows of one episode must follow one another: episode 7 has row 0 and then row 2"
    with pytest.raises(ValueError, match=message):
        LoggedDataset.from_arrays(np.arange(6), np.zeros(6, int), np.ones(6), np.arange(6), episode=turns)
    single_steps = LoggedDataset.from_arrays(
        np.arange(6), np.zeros(6, int), np.ones(6), terminated=np.ones(6, bool), episode=turns
    )
    assert single_steps.n_episodes == 6  # flags say so
    numbered_again = LoggedDataset.from_arrays(np.arange(6), np.zeros(6, int), np.ones(6), episode=[0, 0, 1, 0, 1, 1])
    assert numbered_again.lengths.tolist() == [2, 1, 1, 2]


def test_from_episodes_takes_t_or_t_plus_one_states():
    data = LoggedDataset.from_episodes(
        [
            Episode([[0.0], [1.0], [2.0]], [0, 1], [1.0, 2.0], terminated=True),
            {"observations": [[5.0], [6.0]], "actions": [1, 0], "rewards": [0, 0], "truncated": True},
        ]
    )
    assert data.next_known.tolist() == [True, True, True, False]
    assert data.next_observations[:3, 0].tolist() == [1, 2, 6]
    assert data.terminated.tolist() == [False, True, False, False]
    assert data.truncated.tolist() == [False, False, False, True]


def test_describe_counts_and_measures():
    summary = small().describe()
    assert (summary.steps, summary.episodes, summary.terminated, summary.truncated) == (3, 2, 1, 0)
    assert (summary.rewards.smallest, summary.rewards.mean, summary.rewards.largest) == (1, 2, 3)
    assert summary.observations[1].largest == 6
    assert summary.n_actions == 2
    assert "3 steps in 2 episodes" in str(summary)


@pytest.mark.parametrize(
    ("columns", "error", "message"),
    [
        ({"actions": [0, 1]}, ValueError, "observations and actions must have the same length: 3 != 2"),
        ({"rewards": [1, 2]}, ValueError, "observations and rewards must have the same length: 3 != 2"),
        ({"rewards": ["1", "b", "c"]}, TypeError, "rewards must be numbers: row 1 is 'b'"),
        ({"rewards": ["1", "2", "3"]}, TypeError, "rewards must be numbers: got dtype <U1"),
        ({"rewards": [None] * 3}, TypeError, "rewards must be numbers: got dtype object"),
        ({"rewards": [[1, 2]] * 3}, ValueError, "rewards must hold one value a row"),
        ({"terminated": [0, 2, 0]}, ValueError, "terminated must hold only true or false, 1 or 0: row 1 is '2'"),
        ({"terminated": ["no"] * 3}, ValueError, "terminated must hold only true or false, 1 or 0: row 0 is 'no'"),
        ({"actions": [0, -1, 0]}, ValueError, "counted from 0: row 1 is -1"),
        ({"actions": [[0, 1]] * 3}, ValueError, "ravel_multi_index"),
        ({"observations": np.ma.masked_array([0, 1, 2], mask=[0, 0, 1])}, TypeError, "must not be a masked array"),
        ({"rewards": np.ma.masked_array([0, 1, 2], mask=[0, 0, 1])}, TypeError, "must not be a masked array"),
        ({"observations": np.zeros((3, 0))}, ValueError, r"must have at least one column: got shape \(3, 0\)"),
        ({"observations": [[0.0], [1.0, 2.0], [3.0]]}, ValueError, r"different shapes \(ragged\)"),
        ({"observations": 3.0}, ValueError, "must hold one row a step"),
        ({"observations": [], "next_observations": []}, ValueError, "are empty"),
        ({"observations": [0, 1, 2]}, ValueError, "observations and next_observations must be alike"),
        ({"observations": [-1, 0, 1], "next_observations": None}, ValueError, "row 0 is -1"),
        ({"observations": ["0", "b", "c"]}, TypeError, "must be an array of integers or floats: row 1 is 'b'"),
        ({"observations": [["0", "1"], ["2", "b"], ["c", "3"]]}, TypeError, "floats: row 1 is 'b'"),
        ({"action_space": spaces.Box(-1, 1, (2,))}, ValueError, "actions do not fit their space"),
        ({"action_space": spaces.Text(3)}, TypeError, "spaces must be Discrete, MultiDiscrete, Box"),
        ({"action_space": spaces.Discrete(2, start=1)}, ValueError, r"must start at 0: .* \(subtract 1\)"),
    ],
)
def test_the_door_says_what_is_wrong(columns, error, message):
    with pytest.raises(error, match=message):
        small(**columns)


@pytest.mark.parametrize(
    ("episodes", "message"),
    [
        ([], "there are no episodes"),
        ([Episode([[0.0]] * 4, [0, 1], [0, 0])], "episode 0: observations and actions"),
        ([Episode([[0.0]] * 2, [0, 1], [0])], "episode 0: observations and rewards"),
        ([{"obs": 1}], "episode 0 must have some of the fields"),
        ([Episode([[0.0]], [0], [0]), Episode([[0.0, 1.0]], [0], [0])], "alike in every episode: episode 1"),
        ([Episode([[0.0]], [0], [0], behaviour_log_prob=[0.0]), Episode([[0.0]], [0], [0])], "episode 1 has none"),
        ([Episode([[0.0]], [], [])], "an episode needs at least one step"),
    ],
)
def test_ragged_episodes_are_named(episodes, message):
    with pytest.raises(ValueError, match=message):
        LoggedDataset.from_episodes(episodes)


def test_the_constructor_checks_what_it_is_given():
    with pytest.raises(ValueError, match="starts must rise from 0"):
        replace(small(), starts=np.array([1, 2]))
    with pytest.raises(ValueError, match="from_reset hold one value an episode"):
        small().with_resets([True])
    with pytest.raises(ValueError, match="must end where terminated or truncated is set: row 1 goes on"):
        replace(small(), starts=np.array([0]), from_reset=np.array([True]))
    with pytest.raises(ValueError, match="behaviour_log_prob must have the same length: 3 != 1"):
        replace(small(), behaviour_log_prob=np.zeros(1))


def test_joining_and_choosing_nothing_is_refused():
    with pytest.raises(ValueError, match="nothing to concatenate"):
        LoggedDataset.concatenate([])
    with pytest.raises(ValueError, match="no episode is selected out of 2"):
        small().select([])
    with pytest.raises(ValueError, match="alike in every dataset: dataset 1"):
        LoggedDataset.concatenate([small(), LoggedDataset.from_arrays([0], [0], [0])])


FLOATS = st.floats(-1e6, 1e6, width=32)


@st.composite
def arrays(draw):
    """Columns of any allowed kind, with any flags."""
    n = draw(st.integers(1, 12))
    width = draw(st.integers(1, 3))
    kinds = {
        "points": hnp.arrays(np.float32, (n, width), elements=FLOATS),
        "line": hnp.arrays(np.float64, (n,), elements=FLOATS),
        "states": hnp.arrays(np.int64, (n,), elements=st.integers(0, 9)),
        "multi": hnp.arrays(np.uint8, (n, 2), elements=st.integers(0, 9)),
    }
    kind = kinds[draw(st.sampled_from(sorted(kinds)))]
    discrete = draw(st.booleans())
    actions = (
        hnp.arrays(np.int32, (n,), elements=st.integers(0, 4))
        if discrete
        else hnp.arrays(np.float64, (n, 2), elements=FLOATS)
    )
    flags = hnp.arrays(np.bool_, (n,))
    rewards = hnp.arrays(np.float32, (n,), elements=FLOATS)
    following = draw(st.one_of(st.none(), kind))
    return draw(kind), draw(actions), draw(rewards), following, draw(flags), draw(flags)


@settings(max_examples=1000, deadline=None)
@given(arrays())
def test_from_arrays_keeps_every_value_and_cuts_at_every_flag(columns):
    observations, actions, rewards, following, terminated, truncated = columns
    data = LoggedDataset.from_arrays(*columns)
    n = len(rewards)
    np.testing.assert_array_equal(data.observations.reshape(observations.shape), observations)
    np.testing.assert_array_equal(data.actions, actions)
    np.testing.assert_array_equal(data.rewards, rewards)
    np.testing.assert_array_equal(data.terminated, terminated)
    np.testing.assert_array_equal(data.truncated, truncated)
    ends = {row for row in range(n) if terminated[row] or truncated[row] or row == n - 1}
    assert set(data.ends.tolist()) == ends
    assert data.lengths.sum() == n
    assert data.n_episodes == len(ends) == len(data.initial_observations)
    for row in range(n):
        if row > 0:
            assert data.episode[row] == data.episode[row - 1] + (row - 1 in ends)
        assert data.time[row] == row - data.starts[data.episode[row]]
        assert data.next_known[row] == (following is not None or row not in ends)
        if following is not None:
            np.testing.assert_array_equal(data.next_observations[row].ravel(), following[row].ravel())
        elif row not in ends:
            np.testing.assert_array_equal(data.next_observations[row], data.observations[row + 1])
    pieces = [data.select(number) for number in range(data.n_episodes)]
    again = LoggedDataset.concatenate(pieces)
    np.testing.assert_array_equal(again.observations, data.observations)
    np.testing.assert_array_equal(again.starts, data.starts)
    assert data.returns.sum() == pytest.approx(data.rewards.sum(), rel=1e-6, abs=1e-3)


def test_nan_after_a_last_step_is_a_state_that_was_not_logged():
    """As tables store it: a column of integers with a missing one becomes floats."""
    nan = float("nan")
    data = small(observations=[3, 4, 5], next_observations=[4.0, nan, nan])
    assert data.next_observations.tolist() == [4, -1, -1]
    assert data.next_known.tolist() == [True, False, False]
    pairs = small(observations=[[3, 0], [4, 0], [5, 1]], next_observations=[[4.0, 0.0], [nan, nan], [5.0, 0.0]])
    assert pairs.next_observations.tolist() == [[4, 0], [-1, -1], [5, 0]]
    assert pairs.next_known.tolist() == [True, False, True]
    points = small(next_observations=[[nan, nan], [nan, 3.0], [nan, nan]])
    assert points.next_known.tolist() == [True, True, False]  # elsewhere NaN is an error, which the doctor finds
    with pytest.raises(ValueError, match="observations and next_observations must be alike"):
        small(observations=[3, 4, 5], next_observations=[4.5, nan, nan])


def test_a_discrete_space_makes_numbers_discrete_however_they_are_stored():
    two = spaces.Discrete(2)
    data = small(
        actions=[0.0, 1.0, 1.0],
        action_space=two,
        observations=[[0.0], [1.0], [0.0]],
        next_observations=[1.0, 0.0, 0.0],
        observation_space=two,
    )
    assert (data.actions.dtype.kind, data.actions.tolist()) == ("i", [0, 1, 1])
    assert (data.observations.dtype.kind, data.observations.tolist()) == ("i", [0, 1, 0])
    assert data.next_observations.tolist() == [1, 0, 0]
    with pytest.raises(ValueError, match="actions must be whole numbers"):
        small(actions=[0.0, 1.0, 0.5], action_space=two)


def test_tensors_that_ask_for_gradients_are_taken():
    states = torch.arange(6.0).reshape(3, 2).requires_grad_()
    data = LoggedDataset.from_arrays(states, [0, 1, 0], states.sum(axis=1))
    assert data.observations.tolist() == [[0, 1], [2, 3], [4, 5]]
    assert data.rewards.tolist() == [1, 5, 9]
