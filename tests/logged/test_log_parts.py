"""Small parts of reading and describing logs, each on numbers worked out by hand."""

from dataclasses import dataclass, fields, replace
from itertools import count, pairwise

import h5py
import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from gymnasium import spaces
from hypothesis import given
from hypothesis import strategies as st

import ope_vpm as ov
from ope_vpm import LoggedDataset
from ope_vpm.logged import columns, order, streamed
from ope_vpm.logged.describe import Range, _lines, describe
from ope_vpm.logged.doctor import SHOWN, Finding, finding, refuse_errors
from ope_vpm.logged.episode import split, take
from ope_vpm.logged.episode_marks import EpisodeMarks, EpisodeTable, RewardFacts, find_episodes
from ope_vpm.logged.facts import EpisodeFacts, Facts, _broken_seam, _together, episodes_of, facts_of
from ope_vpm.logged.fingerprint import fingerprints
from ope_vpm.logged.formats import hdf5, minari
from ope_vpm.logged.formats.csv import LONGEST_CELL, _parse, read_columns
from ope_vpm.logged.formats.files import Options
from ope_vpm.logged.formats.parquet import LONGEST_TEXT, _short, claimed
from ope_vpm.logged.formats.parquet_stream import in_order
from ope_vpm.logged.formats.table import from_table, names_of, to_table
from ope_vpm.logged.scan import BlockSource, _head, _run, _some
from ope_vpm.logged.spaces import simple_space
from ope_vpm.logged.sums import ColumnSums, merged, runs


def table(lengths, terminated, truncated, from_reset=None):
    resets = np.ones(len(lengths), dtype=bool) if from_reset is None else np.array(from_reset, dtype=bool)
    return EpisodeTable(np.array(lengths), resets, np.array(terminated, dtype=bool), np.array(truncated, dtype=bool))


# -- Episodes


@pytest.mark.parametrize(
    ("lengths", "terminated", "truncated", "from_reset", "limit"),
    [
        ([5, 5, 3], [0, 0, 1], [1, 1, 0], None, 5),
        ([5, 5, 3, 2], [0, 0, 0, 0], [1, 1, 1, 1], None, None),  # not more than half
        ([5, 5, 3], [0, 0, 0], [1, 1, 1], None, 5),
        ([5, 5, 6], [0, 0, 1], [1, 1, 0], None, None),  # one goes on for longer
        ([5, 5], [1, 1], [1, 1], None, None),  # they ended, too
        ([5, 3, 3], [0, 0, 0], [1, 1, 1], [1, 0, 0], 5),  # those without a beginning do not count
        ([5, 5], [1, 1], [0, 0], None, None),
    ],
)
def test_the_limit_that_a_log_shows(lengths, terminated, truncated, from_reset, limit):
    assert table(lengths, terminated, truncated, from_reset).limit == limit


def test_what_a_limit_ended():
    """A cut before the limit is where the log stopped, unless the beginning was not logged."""
    found = table([5, 3, 3, 4], [0, 0, 0, 1], [1, 1, 1, 0], [1, 1, 0, 1])
    assert found.ended("restart", 5).tolist() == [True, False, True, True]
    assert found.ended("restart", None).tolist() == [True] * 4
    assert found.ended("restart", 3).tolist() == [True] * 4
    assert found.ended("continue", 5).tolist() == [False, False, False, True]
    part = found.part(1, 3)
    assert (part.lengths.tolist(), part.from_reset.tolist(), len(part)) == ([3, 3], [True, False], 2)


def test_the_size_of_rewards():
    assert RewardFacts(-7.0, 3.0, 1.0, False, np.zeros(1)).size == 7
    assert RewardFacts(-2.0, 3.0, 1.0, False, np.zeros(1)).size == 3


def log(lengths=(2, 3), ended=(True, False), known=True, rewards=None, **more):
    size = sum(lengths)
    last = np.zeros(size, dtype=bool)
    last[np.cumsum(lengths) - 1] = True
    terminated = last & np.repeat(np.array(ended), lengths)
    states = np.arange(float(size))[:, None]
    return LoggedDataset.from_arrays(
        states, np.arange(size) % 2, np.arange(float(size)) if rewards is None else rewards,
        states + 1 if known else None, terminated, last & ~terminated, **more,
    )  # fmt: skip


def test_facts_about_rewards_and_what_leads_on():
    """Rewards 0 to 4 in episodes of two and three: the last ones pay 1 and 4, and one within pays 2."""
    facts = log().reward_facts
    assert (facts.least, facts.largest, facts.deviation, facts.inner) == (0, 4, pytest.approx(np.sqrt(2)), True)
    assert facts.last.tolist() == [1, 4]
    assert not log(rewards=[0.0, 5, 0, 0, 6]).reward_facts.inner
    assert log().leads_on("continue") == 5
    unknown = log(known=False)  # of the last rows one ended and the other was cut, at the only length there is
    assert (unknown.leads_on("continue"), unknown.leads_on("restart")) == (4, 5)
    assert unknown.states_seen.shape == (1,)


def test_episodes_are_taken_in_any_order_and_cut():
    data = log((2, 3, 4), (True, False, True))
    turned = take(data, np.array([2, 0]))
    assert turned.rewards.tolist() == [5, 6, 7, 8, 0, 1]
    assert turned.starts.tolist() == [0, 4]
    cut = take(data, np.array([1, 2]), longest=2)
    assert cut.rewards.tolist() == [2, 3, 5, 6]
    assert not (cut.terminated | cut.truncated).any()
    neighbours = take(data, np.array([1, 2]))
    assert np.shares_memory(neighbours.rewards, data.rewards)
    assert np.shares_memory(take(data, np.array([1, 2]), longest=4).rewards, data.rewards)
    assert not np.shares_memory(take(data, np.array([1, 2]), longest=3).rewards, data.rewards)
    with pytest.raises(ValueError, match="no episode is selected out of 3"):
        take(data, np.zeros(0, dtype=int))


def test_episodes_are_split_with_the_state_after_them_where_it_is_known():
    first, second = split(log())
    assert first.observations[:, 0].tolist() == [0, 1, 2]
    assert (first.terminated, first.truncated, second.terminated, second.truncated) == (True, False, False, True)
    assert [len(each.observations) for each in split(log(known=False))] == [2, 3]


def test_logs_are_joined_with_what_all_of_them_have():
    one = log(behaviour_log_prob=np.zeros(5), action_space=spaces.Discrete(2))
    both = LoggedDataset.concatenate([one, replace(one, behaviour_log_prob=None)])
    assert both.starts.tolist() == [0, 2, 5, 7]
    assert both.behaviour_log_prob is None
    assert both.action_space == spaces.Discrete(2)
    assert LoggedDataset.concatenate([one, log()]).action_space is None
    assert LoggedDataset.concatenate([one, one]).behaviour_log_prob is not None


def test_whole_episodes_must_be_alike():
    fine = {"observations": np.zeros((3, 2)), "actions": [0, 1], "rewards": [1.0, 2.0], "terminated": True}
    data = LoggedDataset.from_episodes([fine, fine])
    assert data.next_known.all()
    assert data.terminated.tolist() == [False, True] * 2
    cut = LoggedDataset.from_episodes([fine | {"observations": np.zeros((2, 2)), "terminated": False}])
    assert cut.next_known.tolist() == [True, False]
    with pytest.raises(ValueError, match="observations must be alike in every episode: episode 1"):
        LoggedDataset.from_episodes([fine, fine | {"observations": np.zeros((3, 1))}])
    with pytest.raises(ValueError, match="episode 1 has none"):
        LoggedDataset.from_episodes([fine | {"behaviour_log_prob": [0.0, 0.0]}, fine])
    with pytest.raises(ValueError, match="episode 0: actions are empty"):
        LoggedDataset.from_episodes([fine | {"actions": np.zeros(0, dtype=int), "rewards": []}])


def test_flags_may_only_stand_at_ends():
    data = log()
    with pytest.raises(ValueError, match="row 0 goes on"):
        replace(data, terminated=np.array([True, True, False, False, False]))
    with pytest.raises(ValueError, match="starts must rise from 0"):
        replace(data, starts=np.array([1, 2]))
    with pytest.raises(ValueError, match="starts must rise from 0"):
        replace(data, starts=np.array([0, 0]))
    with pytest.raises(ValueError, match="row 1 is -1"):
        LoggedDataset.from_arrays([0, -1], [0, 0], [0.0, 0.0])


# -- Descriptions and findings


def test_ranges_leave_out_what_is_no_number():
    found = describe(log(rewards=[1.0, np.nan, 5.0, np.inf, 3.0]))
    assert found.rewards == Range(1, 3, 5)
    assert (found.steps, found.episodes, found.terminated, found.truncated, found.next_unknown) == (5, 2, 1, 1, 0)
    assert found.lengths == Range(2, 2.5, 3)
    assert describe(log(known=False)).next_unknown == 2
    nothing = describe(log(rewards=np.full(5, np.nan))).rewards
    assert np.isnan([nothing.smallest, nothing.mean, nothing.largest]).all()
    both = log()
    flagged = replace(both, truncated=both.truncated | both.terminated)
    assert (describe(flagged).terminated, describe(flagged).truncated) == (1, 1)


def test_twelve_columns_are_listed():
    one = Range(0, 1, 2)
    assert len(_lines("observation", (one,) * 12)) == 12
    assert _lines("observation", (one,) * 14)[-1] == "… and 2 more columns"


def test_findings_list_ten_rows():
    found = finding("odd", "warning", "rows are odd", np.arange(12))
    assert (len(found.rows), found.count) == (SHOWN, 12)
    assert str(found).endswith("[12 rows: 0, 1, 2, 3, 4, 5, 6, 7, 8, 9, …]")
    ten = finding("odd", "warning", "rows are odd", np.arange(10) >= 0)
    assert str(ten).endswith("8, 9]")
    assert finding("odd", "warning", "none", np.zeros(3, dtype=bool)) is None
    error = Finding("bad", "error", "it is bad", (), 1)
    assert str(error) == "error bad: it is bad"
    with pytest.raises(ValueError, match=r"it is bad \(1 more error; see ov.inspect"):
        refuse_errors([found, error, error])
    with pytest.raises(ValueError, match=r"\(2 more errors; see"):
        refuse_errors([error, error, error])
    with pytest.raises(ValueError, match=r"it is bad \(see ov.inspect or ope-vpm inspect\)$"):
        refuse_errors([error])
    refuse_errors([found])


# -- Columns


@pytest.mark.parametrize(("largest", "kind"), [(1 << 24, np.float32), ((1 << 24) + 1, np.float64)])
def test_pixels_are_single_precision_while_that_is_exact(largest, kind):
    images = np.zeros((2, 2, 2), dtype=np.int64)
    for value in (largest, -largest):
        images[0, 0, 0] = value
        found = columns.observation_column("observations", images)
        assert found.dtype == kind
        assert found[0, 0] == value


def test_whole_numbers():
    assert columns.whole_numbers("a", np.array([1.0, 2.0**53 - 1])).tolist() == [1, 2**53 - 1]
    for wrong in (0.5, 2.0**53, np.nan):
        with pytest.raises(ValueError, match="must be whole numbers"):
            columns.whole_numbers("a", np.array([1.0, wrong]))


def test_labels_of_episodes():
    for missing in ([0.0, np.nan], ["a", ""]):
        with pytest.raises(ValueError, match="row 1 has none"):
            columns.episode_column(missing, 2)
    assert columns.episode_column(["a", "b"], 2).tolist() == ["a", "b"]
    with pytest.raises(TypeError, match="numbers or texts"):
        columns.episode_column(np.array([None, None]), 2)


def test_the_more_precise_of_two_types():
    narrow, wide = np.zeros(2, dtype=np.float32), np.zeros(2)
    assert [each.dtype for each in columns.as_precise(narrow, wide)] == [np.float64, np.float64]
    whole = np.zeros(2, dtype=int)
    assert columns.as_precise(whole, wide)[0] is whole
    assert columns.as_precise(narrow, narrow)[0].dtype == np.float32


def test_spaces_are_laid_flat():
    box = simple_space(spaces.Box(-1e300, 1e300, (2,), dtype=np.float64))
    assert box.dtype == np.float32
    assert np.isinf(box.high).all()
    exact = simple_space(spaces.Box(-0.1, 0.1, (2,), dtype=np.float64))
    assert exact.dtype == np.float64
    assert simple_space(spaces.MultiBinary(3)).nvec.tolist() == [2, 2, 2]
    both = spaces.Tuple([spaces.Discrete(3), spaces.MultiDiscrete([2, 4])])
    assert simple_space(both).nvec.tolist() == [3, 2, 4]
    assert simple_space(spaces.Tuple([spaces.Discrete(3), spaces.Box(0, 1, (1,))])) is None
    with pytest.raises(ValueError, match="must start at 0"):
        simple_space(spaces.Discrete(3, start=1))


# -- Facts of parts


def of_episodes(first, returns, last, known):
    prints = np.array([[value, 10 * value] for value in returns]).astype(np.uint64)
    sums = np.array(returns, float), np.array(last, float)
    return EpisodeFacts(first, prints, *sums, np.array(known, dtype=bool), np.zeros((len(returns), 0)))


def facts(episodes, rows, mean, squares, inner=False):
    column = ColumnSums.of(np.array([mean - 1, mean + 1]))
    return Facts(episodes, rows, rows - 1, mean, squares, inner, column, column, column, (), np.array(0), None)


def test_facts_of_two_parts_that_share_an_episode():
    """Rewards 1, 3 and 5, 7, 9: mean 5 and squares 16 + 4 + 0 + 4 + 16; the second episode goes on."""
    one = facts(of_episodes(4, [1, 3], [1, 0], [True, False]), 2, 2.0, 2.0)
    two = facts(of_episodes(5, [12, 9], [7, 9], [True, True]), 3, 7.0, 8.0, inner=True)
    both = one.merge(two)
    assert (both.rows, both.known, both.mean, both.squares) == (5, 3, 5, pytest.approx(40))
    of_rewards = both.reward_facts
    assert (of_rewards.least, of_rewards.largest, of_rewards.inner) == (1, 8, True)
    assert of_rewards.deviation == pytest.approx(np.sqrt(8))
    assert (both.actions.least.tolist(), both.actions.largest.tolist()) == ([1], [8])
    assert both.episodes.returns.tolist() == [1, 15, 9]
    assert both.episodes.last.tolist() == [1, 7, 9]
    assert both.episodes.known.tolist() == [True, True, True]
    assert both.episodes.prints.tolist() == [[1, 10], [15, 150], [9, 90]]
    apart = of_episodes(0, [1], [1], [True]).merge(of_episodes(1, [2], [2], [False]))
    assert apart.returns.tolist() == [1, 2]


def test_findings_of_one_kind_are_counted_together():
    one = Finding("a", "error", "m", tuple(range(8)), 8)
    two = Finding("a", "error", "m", (20, 21, 22), 5)
    other = Finding("b", "note", "n", (), 1)
    both = _together((one,), (two, other))
    assert [each.code for each in both] == ["a", "b"]
    assert (both[0].rows, both[0].count) == ((*range(8), 20, 21), 13)


def written(folder, data, cuts=(), group=3):
    content = pa.table({name: np.ascontiguousarray(column) for name, column in to_table(data).items()})
    folder.mkdir(exist_ok=True)
    bounds = [0, *cuts, len(data)]
    for number, (first, last) in enumerate(pairwise(bounds)):
        pq.write_table(content.slice(first, last - first), folder / f"part-{number}.parquet", row_group_size=group)
    return folder


@pytest.fixture
def in_parts(tmp_path, monkeypatch):
    """Episodes of 2, 3 and 4 rows in parts of four."""
    monkeypatch.setattr(streamed, "PART_ROWS", 4)
    data = log((2, 3, 4), (True, False, True))
    return data, ov.scan_dataset(written(tmp_path / "logs", data, cuts=(3,)))


def test_parts_of_four_rows(in_parts):
    data, stream = in_parts
    first, second, third = stream.parts()
    assert stream.count == 3
    assert [len(each) for each in (first, second, third)] == [4, 4, 1]
    assert second.time.tolist() == [2, 0, 1, 2]
    assert (second.first_row, second.first_episode, second.earlier) == (4, 1, 2)
    assert second.from_reset.tolist() == [False, True]
    assert [each.ends_here.tolist() for each in (first, second, third)] == [[True, False], [True, False], [True]]
    assert (float(first.beyond[0, 0]), float(second.beyond[0, 0]), third.beyond) == (4, 8, None)
    assert third.table.lengths.tolist() == [4]
    assert [part.first_row for part in stream.parts([0, 2])] == [0, 8]
    np.testing.assert_array_equal(stream.ends, data.ends)
    assert stream.read().rewards.tolist() == list(range(9))
    assert repr(stream).startswith("StreamedDataset(9 steps, 3 episodes")


def test_facts_of_a_stream(in_parts):
    data, stream = in_parts
    found = stream.total(facts_of, ())
    known = stream.of_facts(found)
    assert known.leads_on("continue") == data.leads_on("continue") == 9
    assert known.n_actions == 2
    np.testing.assert_array_equal(found.episodes.returns, data.returns)
    np.testing.assert_array_equal(found.episodes.prints, fingerprints(data))
    assert found.reward_facts.deviation == pytest.approx(data.rewards.std())
    assert found.inner


def test_progress_is_told_by_rows(in_parts):
    _, stream = in_parts
    told = []

    class Rows:
        def __init__(self, rows):
            self.rows = rows

        def merge(self, other):
            return Rows(self.rows + other.rows)

    total = merged(stream.parts(), lambda part, factor: Rows(factor * len(part)), (2,), told.append)
    assert total.rows == 18
    assert told == [4, 8, 9]
    assert _run(stream, (lambda part: Rows(len(part)), ()), [1, 2]).rows == 5
    with pytest.raises(ValueError, match="the log is empty"):
        merged(iter(()), len, (), None)


def test_a_seam_between_parts_is_looked_at(in_parts):
    data, stream = in_parts
    first, second, _ = stream.parts()
    assert _broken_seam(first) is None
    off = np.array([[0.0], [0], [0], [0.5]])
    wrong = replace(first, next_observations=first.next_observations + off)
    assert _broken_seam(wrong).rows == (3,)
    beyond = replace(second, next_observations=second.next_observations + off)
    assert facts_of(beyond, ()).findings[0].rows == (7,)
    unknown = replace(wrong, next_known=np.array([True, True, True, False]))
    assert _broken_seam(unknown) is None
    assert facts_of(wrong, ("broken-chain",)).findings == ()
    assert len(data) == 9


def test_a_sample_of_whole_episodes(in_parts):
    data, stream = in_parts
    found = episodes_of(stream, np.array([2, 0]), 3)
    assert found.rewards.tolist() == [5, 6, 7, 0, 1]
    assert found.starts.tolist() == [0, 3]
    whole = episodes_of(stream, np.array([1]), 100)
    np.testing.assert_array_equal(whole.rewards, data.select([1]).rewards)


def test_runs_of_numbers():
    assert list(runs([0, 1, 2, 5, 7, 8])) == [(0, 3), (5, 6), (7, 9)]
    assert list(runs([3, 1])) == [(1, 2), (3, 4)]
    assert list(runs([])) == []


class Rows:
    """A source of flags alone."""

    rows = 0

    def __init__(self, *chunks):
        self.chunks = chunks

    def flags(self, first, last):
        yield from self.chunks

    def read(self, *_):
        raise ValueError("no flags")


def test_episodes_by_flags_and_labels_across_chunks():
    ends = {"terminated": np.array([False, True, False]), "truncated": np.array([False, False, False])}
    more = {"terminated": np.array([False, False, False]), "truncated": np.array([False, True, False])}
    found = find_episodes(Rows(ends, more))
    assert found.lengths.tolist() == [2, 3, 1]
    assert (found.terminated.tolist(), found.truncated.tolist()) == ([True, False, False], [False, True, False])
    assert found.from_reset.all()
    labelled = find_episodes(Rows({"episode": np.array([4, 4, 5])}, {"episode": np.array([5, 6, 6])}))
    assert labelled.lengths.tolist() == [2, 2, 2]
    changed = find_episodes(Rows({"episode": np.array([4, 4])}, {"episode": np.array([5, 5])}))
    assert changed.lengths.tolist() == [2, 2]
    resets = find_episodes(Rows({"episode": np.array([4, 4, 5]), "from_reset": np.array([False, True, True])}))
    assert resets.from_reset.tolist() == [False, True]
    with pytest.raises(ValueError, match="no flags"):
        find_episodes(Rows())
    turns = ({"episode": np.array([4, 5])}, {"episode": np.array([6])}, {"episode": np.array([4, 5])})
    with pytest.raises(ValueError, match="episode 4 has row 0 and then row 3"):
        find_episodes(Rows(*turns))
    assert len(find_episodes(Rows(*turns[:2]))) == 3
    assert len(find_episodes(Rows({"episode": np.array([4])}, {"episode": np.array([4])}, turns[0]))) == 2


@given(
    st.lists(st.tuples(st.booleans(), st.booleans(), st.integers(0, 2), st.booleans()), min_size=1, max_size=12),
    st.lists(st.integers(1, 11), max_size=4),
    st.lists(st.integers(1, 11), max_size=2),
)
def test_runs_of_rows_tell_the_same_episodes_wherever_they_are_cut(rows, cuts, seams):
    """Rows in runs, and these in tasks that each join theirs, as the rows at once."""
    names = ("terminated", "truncated", "episode", "from_reset")
    columns = {name: np.array(values) for name, values in zip(names, zip(*rows, strict=True), strict=True)}
    bounds = sorted({0, len(rows), *(cut for cut in [*cuts, *seams] if cut < len(rows))})
    runs = [
        (first, EpisodeMarks.of({name: values[first:last] for name, values in columns.items()}))
        for first, last in pairwise(bounds)
    ]
    tasks = [[run for first, run in runs if sum(first >= seam for seam in seams) == k] for k in range(len(seams) + 1)]
    found = EpisodeMarks.joined([EpisodeMarks.joined(task) for task in tasks if task]).table()
    whole = EpisodeMarks.of(columns).table()
    for field in fields(whole):
        np.testing.assert_array_equal(getattr(found, field.name), getattr(whole, field.name))


@given(
    st.lists(st.tuples(st.booleans(), st.integers(0, 4)), min_size=1, max_size=9),
    st.lists(st.integers(1, 8), max_size=3),
)
def test_turns_are_refused_in_runs_as_in_arrays(rows, cuts):
    ended, label = (np.array(values) for values in zip(*rows, strict=True))
    bounds = sorted({0, len(rows), *(cut for cut in cuts if cut < len(rows))})
    runs = [{"terminated": ended[first:last], "episode": label[first:last]} for first, last in pairwise(bounds)]

    def said(read):
        try:
            read()
        except ValueError as error:
            return str(error)
        return None

    ones = np.ones(len(rows))
    whole = said(lambda: ov.LoggedDataset.from_arrays(ones, ones, ones, ones, ended, episode=label))
    assert said(lambda: find_episodes(Rows(*runs))) == whole


# -- Tables and files


def test_numbers_and_texts_of_csv():
    assert _parse(["1", "-2", "+3"]).dtype == np.int64
    assert _parse(["1", "2.5"]).tolist() == [1, 2.5]
    assert _parse(["true", "FALSE"]).tolist() == [1, 0]
    assert _parse(["1", "a"]).tolist() == ["1", "a"]
    assert _parse([str(2**70), "1"]).tolist() == [str(2**70), "1"]


def test_lines_of_csv_must_be_alike(tmp_path):
    file = tmp_path / "log.csv"
    file.write_text(f"a,b\n1,{'x' * LONGEST_CELL}\n")
    assert list(read_columns(file)) == ["a", "b"]
    for content, message in (
        (f"a,b\n1,{'x' * (LONGEST_CELL + 1)}\n", "line 2 of .* has a cell of 1001 characters"),
        ("a,b\n1,2\n3\n", "line 3 of .* must have as many cells as the header: 1 != 2"),
        ("a,b\n", "it has a header only"),
        ("", "it has no lines"),
        ("a,a\n1,2\n", "must have different names"),
    ):
        file.write_text(content)
        with pytest.raises(ValueError, match=message):
            read_columns(file)


def test_texts_are_at_most_a_thousand_characters():
    assert _short(["x" * LONGEST_TEXT]).shape == (1,)
    with pytest.raises(ValueError, match="one has 1001"):
        _short(["x" * (LONGEST_TEXT + 1)])


def test_what_a_table_claims(tmp_path):
    """Three groups of ten rows: eight bytes a value, or what a column takes unpacked, if that is more."""
    columns = {"a": np.zeros(30, np.int8), "b": [[1, 2, 3]] * 30, "c": [f"{row:0100d}" for row in range(30)]}
    pq.write_table(pa.table(columns), tmp_path / "log.parquet", row_group_size=10)
    notes = pq.ParquetFile(tmp_path / "log.parquet").metadata
    unpacked = sum(notes.row_group(number).column(2).total_uncompressed_size for number in range(3))
    assert unpacked > 30 * 100
    claims = claimed(notes)
    assert (claims["a"], claims["b"], claims["c"]) == (8 * 30, 8 * 90, unpacked)
    assert claims[""] == 8 * 30 + 8 * 90 + unpacked


def test_columns_by_number_and_by_name():
    held = {f"observation_{k}": np.array([float(k)]) for k in (10, 2, 0)}
    held |= {"action": np.array([0]), "reward": np.array([1.0]), "terminated": np.array([True])}
    data = from_table("log", held, Options())
    assert data.observations.tolist() == [[0, 2, 10]]
    assert names_of("log", list(held), Options(), ("rewards",)) == ["reward"]
    mapped = from_table("log", held | {"score": np.array([7.0])}, Options(columns={"rewards": "score"}))
    assert mapped.rewards.tolist() == [7]
    with pytest.raises(ValueError, match="columns maps nonsense, but only"):
        from_table("log", held, Options(columns={"nonsense": "score"}))
    resets = from_table("log", held | {"from_reset": np.array([False])}, Options())
    assert resets.from_reset.tolist() == [False]


def test_numbers_in_names_are_sorted_by_size(tmp_path):
    names = [tmp_path / f"part-{k}.parquet" for k in (10, 2, 1)]
    assert [path.name for path in in_order(names)] == ["part-1.parquet", "part-2.parquet", "part-10.parquet"]


def test_blocks_of_tables():
    block = pa.table({"a": [1, 2, 3, 4], "b": [5, 6, 7, 8]})
    assert _some(block, 1, 3, ["b"]).to_pydict() == {"b": [6, 7]}
    assert _head(block) == (4, block.schema)
    source = BlockSource((0, 3, 7), ("a",), Options(), (None, None))
    assert source.rows == 7
    assert [source.named(row).split()[1] for row in (0, 2, 3, 6)] == ["0", "0", "1", "1"]


def minari_folder(tmp_path, rows):
    """A file with one episode, whose rows may each be a packed image."""
    with h5py.File(tmp_path / "main_data.hdf5", "w") as file:
        file.create_group("episode_0").create_dataset("observations", data=np.zeros((rows, 10), dtype=np.uint8))
    return tmp_path


def test_packed_images_may_not_unpack_to_more_than_the_file_could_hold(tmp_path):
    """Four rows of at most 10⁹ numbers are 4 GB; of a thousand each they are nothing."""
    folder = minari_folder(tmp_path, 4)
    assert minari._check_data(folder, "hdf5", 1000) == 1
    with pytest.raises(PermissionError, match="unpacks to 4000000000"):
        minari._check_data(folder, "hdf5", 10**9)
    with pytest.raises(PermissionError, match="nobody checks"):
        minari._check_data(folder, "arrow", 1)


def test_the_largest_part_of_spaces():
    one = spaces.Box(0, 1, (3, 4))
    assert minari.largest_space(one, spaces.Discrete(9)) == 12
    assert minari.largest_space(spaces.Dict({"a": spaces.Tuple([one, spaces.Box(0, 1, (20,))])})) == 20
    assert minari.largest_space(spaces.Discrete(9)) == 1


@pytest.mark.parametrize(("distance", "found"), [(4.4, False), (4.8, True), (-4.8, True)])
def test_order_shows_beyond_four_and_a_half_deviations(monkeypatch, distance, found):
    """Forty shuffles give +1 and -1 in turn, with deviation √(40/39)."""
    given = iter([distance, *[1.0, -1.0] * 20])
    monkeypatch.setattr(order, "_of_time", lambda *_: np.array([next(given)]))
    assert order._know_their_place(np.zeros((4, 1)), np.zeros((4, 1)), np.array([0, 0, 1, 1])) is found


def heap(*objects):
    """A heap of texts: its head, objects by index and bytes, and what is left free, the head of which is 16 bytes."""
    held = b"".join(
        index.to_bytes(2, "little")
        + b"\1\0\0\0\0\0"
        + len(text).to_bytes(8, "little")
        + text.ljust(-len(text) % 8 + len(text), b"\0")
        for index, text in objects
    )
    free = b"\0" * 8 + (16).to_bytes(8, "little")
    size = 16 + len(held) + len(free)
    return b"GCOL\1\0\0\0" + size.to_bytes(8, "little") + held + free


def test_heaps_of_texts_by_hand(tmp_path):
    """Texts of 3, 8 and 0 bytes, and free room that is nothing but its own head."""
    path = tmp_path / "heap"
    path.write_bytes(b"before  " + heap((1, b"abc"), (2, b"abcdefgh"), (5, b"")))
    assert hdf5._objects(path, 8) == {1: 3, 2: 8, 5: 0, 0: 16}
    path.write_bytes(heap((1, b"abc"), (1, b"abc")))
    with pytest.raises(ValueError, match="must be whole"):
        hdf5._objects(path, 0)
    path.write_bytes(b"GCOM" + heap()[4:])
    with pytest.raises(ValueError, match="there is none at byte 0"):
        hdf5._objects(path, 0)


@pytest.mark.parametrize("parts", [1, 2, 3, 7, 64, 100])
def test_neighbours_of_equal_size_are_merged_first(in_parts, parts):
    """In order; n parts copy at most n·log₂(n) numbers, rounded up, where one after another would copy n²/2."""
    (_, stream), copied = in_parts, []
    part = next(iter(stream.parts()))

    @dataclass(frozen=True)
    class Numbers:
        kept: tuple[int, ...]

        def merge(self, other):
            copied.append(len(self.kept) + len(other.kept))
            return Numbers(self.kept + other.kept)

    turn = count()
    total = merged(iter([part] * parts), lambda _: Numbers((next(turn),)), (), None)
    assert total.kept == tuple(range(parts))
    assert sum(copied) <= parts * int(np.ceil(np.log2(parts)))
