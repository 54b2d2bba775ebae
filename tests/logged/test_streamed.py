"""The reader of logs in parts: what is refused, in one sentence that names the file."""

from __future__ import annotations

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import ope_vpm as ov
from ope_vpm.logged import page, streamed
from ope_vpm.logged.describe import Range
from ope_vpm.logged.facts import facts_of
from ope_vpm.logged.fingerprint import fingerprints, number_contents
from ope_vpm.logged.sums import ColumnSums
from ope_vpm.ope import log as logs
from ope_vpm.ope.log import Log


@pytest.fixture(autouse=True)
def short_parts(monkeypatch):
    monkeypatch.setattr(streamed, "PART_ROWS", 16)
    monkeypatch.setattr(logs, "SAMPLE_ROWS", 40)


def columns(rows=100, episode=7):
    """Episodes of seven steps, whose states count the rows."""
    number = np.arange(rows)
    return {
        "observation_0": number + 0.5,
        "action_0": np.sin(number),
        "reward": number % 5.0,
        "next_observation_0": number + 1.5,
        "terminated": number % episode == episode - 1,
        "truncated": np.zeros(rows, dtype=bool),
        "episode": number // episode,
    }


def write(folder, parts, table=None, **options):
    folder.mkdir(exist_ok=True)
    table = columns() if table is None else table
    for name, rows in parts.items():
        chosen = {key: column[rows] for key, column in table.items()}
        pq.write_table(pa.table(chosen), folder / f"{name}.parquet", row_group_size=9, **options)
    return folder


def whole(data):
    """All rows, by the parts."""
    return {name: np.concatenate([getattr(part, name) for part in data.parts()]) for name in ("observations", "time")}


def test_parts_know_their_episodes(tmp_path):
    data = ov.scan_dataset(write(tmp_path / "a", {"1": slice(0, 20), "2": slice(20, 21), "3": slice(21, 100)}))
    assert (len(data), data.n_episodes, data.count) == (100, 15, 7)
    np.testing.assert_array_equal(data.lengths, [7] * 14 + [2])
    np.testing.assert_array_equal(whole(data)["time"], np.arange(100) % 7)
    np.testing.assert_array_equal(whole(data)["observations"][:, 0], np.arange(100) + 0.5)
    second = list(data.parts())[1]
    assert (second.first_row, second.first_episode, second.earlier) == (16, 2, 2)
    np.testing.assert_array_equal(second.from_reset, [False, True, True])
    np.testing.assert_array_equal(second.ends_here, [True, True, False])
    np.testing.assert_array_equal(second.table.lengths, [7, 7, 7])


def test_facts_of_parts_are_those_of_all_rows(tmp_path):
    data = ov.scan_dataset(write(tmp_path / "a", {"1": slice(0, 33), "2": slice(33, 100)}))
    facts, memory = data.total(facts_of, ()), data.read()
    expected = memory.reward_facts
    found = facts.reward_facts
    assert (found.least, found.largest, found.inner) == (expected.least, expected.largest, expected.inner)
    assert found.deviation == pytest.approx(expected.deviation, rel=1e-14)
    np.testing.assert_array_equal(found.last, expected.last)
    np.testing.assert_array_equal(facts.episodes.prints, fingerprints(memory))
    assert facts.known == 100


def test_fingerprints_tell_order_and_time_apart():
    def made(states):
        ends = [False, False, True] * 2
        return ov.LoggedDataset.from_arrays(np.array(states)[:, None], np.zeros((6, 1)), np.zeros(6), truncated=ends)

    number = number_contents(fingerprints(made([1.0, 2.0, 3.0, 1.0, 2.0, 3.0])))
    assert number[0] == number[1]
    number = number_contents(fingerprints(made([1.0, 2.0, 3.0, 2.0, 1.0, 3.0])))
    assert number[0] != number[1]


def test_the_sample_is_that_of_the_log_in_memory(tmp_path):
    data = ov.scan_dataset(write(tmp_path / "a", {"1": slice(0, 33), "2": slice(33, 100)}))
    ignored = ("broken-chain", "rewards-out-of-line")
    parts, memory = Log.check(data, ignored).sample, Log.check(data.read(), ignored).sample
    assert 33 < len(memory.data) <= 40  # as many episodes of seven steps, or two, as fit
    for name in ("observations", "rewards", "starts", "next_observations"):
        np.testing.assert_array_equal(getattr(parts.data, name), getattr(memory.data, name))


def test_wrong_files_are_named(tmp_path):
    folder = write(tmp_path / "a", {"1": slice(0, 50), "2": slice(50, 100)})
    (folder / "3.parquet").write_bytes(b"")
    with pytest.raises(ValueError, match=r"3\.parquet is empty"):
        ov.scan_dataset(folder)
    (folder / "3.parquet").write_bytes(b"PAR1 and nothing more")
    with pytest.raises(ValueError, match=r"3\.parquet cannot be read as Parquet"):
        ov.scan_dataset(folder)


def test_a_table_without_rows_is_passed_over(tmp_path):
    folder = write(tmp_path / "a", {"1": slice(0, 50), "2": slice(50, 50), "3": slice(50, 100)})
    np.testing.assert_array_equal(whole(ov.scan_dataset(folder))["observations"][:, 0], np.arange(100) + 0.5)


def test_a_file_that_is_damaged_in_the_middle_is_named(tmp_path):
    folder = write(tmp_path / "a", {"1": slice(0, 50), "2": slice(50, 100)}, compression="zstd")
    file = folder / "2.parquet"
    content = bytearray(file.read_bytes())
    content[200:600] = bytes(400)
    file.write_bytes(content)
    with pytest.raises(ValueError, match=r"2\.parquet"):
        Log.check(ov.scan_dataset(folder))


def test_files_must_be_alike(tmp_path):
    table = columns()
    folder = write(tmp_path / "a", {"1": slice(0, 50)}, table)
    write(folder, {"2": slice(50, 100)}, {name: column for name, column in table.items() if name != "reward"})
    with pytest.raises(ValueError, match=r"2\.parquet has no column reward, which .*1\.parquet has"):
        ov.scan_dataset(folder)
    write(folder, {"2": slice(50, 100)}, table | {"reward": table["reward"].astype(np.float32)})
    with pytest.raises(ValueError, match=r"reward is float in .*2\.parquet and double in"):
        ov.scan_dataset(folder)


def test_a_missing_column_is_named(tmp_path):
    table = {name: column for name, column in columns().items() if name != "reward"}
    with pytest.raises(ValueError, match="lacks the columns rewards"):
        ov.scan_dataset(write(tmp_path / "a", {"1": slice(0, 50)}, table))
    table = {name: column for name, column in columns().items() if name not in ("terminated", "truncated", "episode")}
    with pytest.raises(ValueError, match="lacks the columns terminated"):
        ov.scan_dataset(write(tmp_path / "b", {"1": slice(0, 50)}, table))


def test_files_in_another_order_than_that_of_time(tmp_path):
    parts = {"1": slice(0, 30), "2": slice(30, 60), "3": slice(60, 100)}
    folder = write(tmp_path / "a", parts)
    files = [folder / f"{name}.parquet" for name in "132"]
    with pytest.raises(ValueError, match=r"episode 4 is left open in .*1\.parquet and goes on in .*2\.parquet"):
        ov.scan_dataset(files)
    for order in ("21", "321", "231"):
        with pytest.raises(ValueError, match=r"episode \d is left open in .*, which does not come next"):
            ov.scan_dataset([folder / f"{name}.parquet" for name in order])
    table = {name: column for name, column in columns().items() if name != "episode"}
    write(folder, parts, table)  # without labels, states that do not fit tell
    with pytest.raises(ValueError, match="not the following row's state"):
        Log.check(ov.scan_dataset(files), ignore=("rewards-out-of-line",))


def test_labels_that_are_counted_anew_in_each_file_may_end_open(tmp_path):
    table = columns()
    table["episode"][60:] = 0
    table["terminated"][59], table["terminated"][60:] = True, False
    folder = write(tmp_path / "a", {"1": slice(0, 60), "2": slice(60, 100)}, table)
    assert ov.scan_dataset(folder).n_episodes == 10


def in_turns(environments, steps):
    """What a vector of environments logs: one row of each, again and again, without an end."""
    table = columns(environments * steps)
    return table | {
        "episode": np.tile(np.arange(environments), steps),
        "terminated": np.zeros(len(table["reward"]), bool),
    }


@pytest.mark.parametrize("environments", [3, 20, 50])
@pytest.mark.parametrize("text", [False, True])
def test_episodes_that_take_turns_are_refused_as_in_memory(tmp_path, monkeypatch, environments, text):
    """More environments than a part, or the head, has rows: only all rows together show it."""
    monkeypatch.setattr(streamed, "HEAD_ROWS", 5)
    table = in_turns(environments, 4)
    if text:
        table["episode"] = np.array([f"run {number}" for number in table["episode"]])
    rows = environments * 4
    folder = write(
        tmp_path / "a", {"1": slice(0, 31), "2": slice(31, rows)} if rows > 31 else {"1": slice(0, rows)}, table
    )
    name = "run 0" if text else "0"
    said = f"rows of one episode must follow one another: episode {name} has row 0 and then row {environments} "
    for read in (ov.scan_dataset, ov.load_dataset):
        with pytest.raises(ValueError, match=said):
            read(folder)
    whole = write(tmp_path / "b", {"1": slice(0, rows)}, table)
    with pytest.raises(ValueError, match=said):
        ov.load_dataset(whole / "1.parquet")


def test_rows_in_turns_that_flags_end_or_that_are_followed_by_others_are_taken(tmp_path, monkeypatch):
    monkeypatch.setattr(streamed, "HEAD_ROWS", 5)
    single_steps = in_turns(3, 20)
    single_steps["terminated"][:] = True
    numbered_again = in_turns(3, 20)
    numbered_again["episode"][-2:] = 7  # one label goes on, so that labels are counted anew and not in turns
    for name, table, episodes in (("a", single_steps, 60), ("b", numbered_again, 59)):
        folder = write(tmp_path / name, {"1": slice(0, 60)}, table)
        data, whole = (
            ov.scan_dataset(folder),
            ov.LoggedDataset.from_arrays(
                **{kind: table[f"{kind[:-1]}_0"] for kind in ("observations", "actions")},
                rewards=table["reward"],
                terminated=table["terminated"],
                episode=table["episode"],
            ),
        )
        assert data.n_episodes == whole.n_episodes == episodes
        assert [len(part) for part in data.parts()] == [16, 16, 16, 12]
        np.testing.assert_array_equal(data.lengths, whole.lengths)


def test_numbers_that_are_none_are_found_in_any_part(tmp_path):
    table = columns()
    table["reward"] = np.where(np.arange(100) == 77, np.nan, table["reward"])
    with pytest.raises(ValueError, match="NaN"):
        Log.check(ov.scan_dataset(write(tmp_path / "a", {"1": slice(0, 100)}, table)))


def test_a_pattern_that_fits_nothing_and_files_of_other_kinds(tmp_path):
    with pytest.raises(FileNotFoundError, match="no file fits"):
        ov.scan_dataset(str(tmp_path / "*.parquet"))
    (tmp_path / "a.csv").write_text("a,b\n1,2\n")
    with pytest.raises(ValueError, match=r"a\.csv is no Parquet file"):
        ov.scan_dataset(str(tmp_path / "*.csv"))


def test_several_files_are_read_into_memory_by_load_dataset(tmp_path):
    folder = write(tmp_path / "a", {"1": slice(0, 31), "2": slice(31, 100)})
    files = [folder / "1.parquet", folder / "2.parquet"]
    for source in (folder, str(folder), f"{folder}/*.parquet", files, ov.scan_dataset(folder)):
        data = ov.load_dataset(source)
        assert isinstance(data, ov.LoggedDataset)
        np.testing.assert_array_equal(data.rewards, np.arange(100) % 5)
        assert data.n_episodes == 15
    assert len(ov.load_dataset(folder, format="parquet")) == 100
    assert len(ov.load_dataset(folder, columns={"rewards": "observation_0"})) == 100
    with pytest.raises(FileNotFoundError, match="no file fits"):
        ov.load_dataset(f"{folder}/x*.parquet")


def test_labels_may_be_texts_and_columns_renamed(tmp_path):
    table = columns()
    table["episode"] = np.array([f"run {number}" for number in table["episode"]])
    table["score"] = table.pop("reward")
    folder = write(tmp_path / "a", {"1": slice(0, 31), "2": slice(31, 100)}, table)
    data = ov.scan_dataset(folder, columns={"rewards": "score"})
    assert data.n_episodes == 15
    np.testing.assert_array_equal(next(data.parts()).rewards, np.arange(16) % 5)


def test_a_scanned_log_is_inspected_as_one_in_memory(tmp_path):
    data = ov.scan_dataset(write(tmp_path / "a", {"1": slice(0, 20), "2": slice(20, 100)}))
    assert str(ov.inspect(data)) == str(ov.inspect(data.read()))


def test_a_long_log_is_inspected_in_parts(tmp_path, monkeypatch):
    """As in memory, but for the sample that is named; numbers that are none are found in whichever part they are."""
    table = columns()
    table["observation_0"][70] = np.nan
    data = ov.scan_dataset(write(tmp_path / "a", {"1": slice(0, 20), "2": slice(20, 100)}, table))
    whole = ov.inspect(data)
    monkeypatch.setattr(page, "SAMPLE_ROWS", 40)
    in_parts, shown = page.looked_over(data)
    assert (whole.sampled, in_parts.sampled) == (None, len(shown))
    assert 0 < len(shown) <= 40
    assert str(in_parts.description) == str(whole.description)  # means are added up in another order
    assert in_parts.errors == whole.errors
    assert [(each.code, each.rows) for each in in_parts.errors] == [("not-finite", (70,))]
    assert f"some checks looked at {len(shown)} of them" in str(in_parts)


def test_sums_of_columns_leave_out_what_is_no_number():
    rows = np.array([[1.0, np.nan], [3.0, np.inf], [np.nan, np.nan]])
    both = ColumnSums.of(rows[:2]).merge(ColumnSums.of(rows[2:]))
    first, second = both.ranges()
    assert first == Range(1.0, 2.0, 3.0)
    assert np.isnan([second.smallest, second.mean, second.largest]).all()
