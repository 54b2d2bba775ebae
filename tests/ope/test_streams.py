"""Logs that are read in parts: the answer of the same log in memory, whatever way its rows are split over files."""

from __future__ import annotations

from itertools import pairwise

import numpy as np
import pyarrow as pa
import pyarrow.dataset
import pyarrow.parquet as pq
import pytest

import ope_vpm as ov
from ope_vpm.logged import streamed
from ope_vpm.logged.formats.table import to_table
from ope_vpm.ope import log as logs
from ope_vpm.policy import GaussianPolicy

IGNORED = ("flags-confused", "one-row-off")
LONG = 150
"""Steps of an episode: 27 of them in a part of 4096 rows, and one across every border."""


@pytest.fixture(autouse=True)
def short_parts(monkeypatch):
    """Parts and samples so short that a log of 13 000 rows has four parts and a sample of a fifth."""
    monkeypatch.setattr(streamed, "PART_ROWS", 4096)
    monkeypatch.setattr(logs, "SAMPLE_ROWS", 2500)


def logged(episodes=90, seed=0, discrete=False, next_states=True):
    """Episodes of a linear system; every third one ends before its time."""
    rng = np.random.default_rng(seed)
    states = np.empty((episodes, LONG + 1, 3), dtype=np.float32)
    states[:, 0] = rng.standard_normal((episodes, 3))
    push = rng.standard_normal((2, 3)) / 3
    actions = np.empty((episodes, LONG, 2), dtype=np.float32)
    for t in range(LONG):
        actions[:, t] = 0.2 * states[:, t, :2] + 0.5 * rng.standard_normal((episodes, 2))
        noise = 0.3 * rng.standard_normal((episodes, 3))
        states[:, t + 1] = 0.8 * states[:, t] + actions[:, t] @ push + noise
    lengths = np.where(np.arange(episodes) % 3 == 0, 20 + np.arange(episodes), LONG)
    kept = np.arange(LONG) < lengths[:, None]
    last = np.arange(LONG) == lengths[:, None] - 1
    ends = last & (np.arange(episodes) % 3 == 0)[:, None]
    taken = (actions[..., 0] > 0).astype(np.int64)[kept] if discrete else actions[kept]
    return ov.LoggedDataset.from_arrays(
        states[:, :-1][kept],
        taken,
        states[:, 0:-1, 0][kept].astype(np.float64),
        states[:, 1:][kept] if next_states else None,
        ends[kept],
        (last & ~ends)[kept],
    )


def target(shift=0.1):
    return GaussianPolicy(lambda s: (0.2 * s[:, :2] + shift, 0.5), action_dimension=2)


def write(data, folder, cuts, columns=None, row_group=1000):
    """The rows of a log in several files, cut at some of them."""
    table = pa.table({name: np.ascontiguousarray(column) for name, column in to_table(data).items()})
    if columns is not None:
        table = table.select([name for name in table.column_names if not name.startswith(columns)])
    bounds = [0, *cuts, len(data)]
    folder.mkdir(exist_ok=True)
    for number, (first, last) in enumerate(pairwise(bounds)):
        pq.write_table(table.slice(first, last - first), folder / f"part-{number}.parquet", row_group_size=row_group)
    return folder


def agree(value, other):
    """Every number of two values, to 1e-8."""
    assert value.value == pytest.approx(other.value, rel=1e-8, abs=1e-10)
    assert value.standard_error == pytest.approx(other.standard_error, rel=1e-8)
    assert value.interval == pytest.approx(other.interval, rel=1e-8)
    assert value.effective_sample_size == pytest.approx(other.effective_sample_size, rel=1e-8)
    assert (value.verdict, value.reasons) == (other.verdict, other.reasons)
    numbers = {name: each for name, each in value.diagnostics.items() if isinstance(each, float)}
    assert numbers == pytest.approx({name: other.diagnostics[name] for name in numbers}, rel=1e-6, abs=1e-8)
    if value.episode_return is not None:
        assert value.episode_return.interval == pytest.approx(other.episode_return.interval, rel=1e-8)


ESTIMATORS = ["naive", "onestep", "vpm", "auto", "fqe"]


@pytest.mark.parametrize("name", ESTIMATORS)
@pytest.mark.parametrize("gamma", [1.0, 0.97])
def test_the_answer_is_that_of_the_log_in_memory(tmp_path, name, gamma):
    data = logged()
    assert len(data) > 3 * 2500
    folder = write(data, tmp_path / "logs", [1, 3999, 4000, 4100, 9000])
    options = {"solver": "linear"} if name == "fqe" else {}
    both = [ov.evaluate(each, target(), name, gamma=gamma, ignore=IGNORED, **options) for each in (folder, data)]
    agree(*both)
    assert both[0].weights is None
    assert both[1].weights is not None


@pytest.mark.parametrize("name", ["naive", "vpm"])
def test_a_time_limit_that_restarts_the_task_and_several_discounts(tmp_path, name):
    data, folder = logged(), tmp_path / "logs"
    write(data, folder, [5000])
    asked = {"gamma": [1.0, 0.9], "time_limit": "restart", "ignore": IGNORED}
    streamed_values, values = (
        ov.evaluate(each, {"a": target(), "b": target(0.0)}, name, **asked) for each in (folder, data)
    )
    for policy in ("a", "b"):
        for gamma in (1.0, 0.9):
            agree(streamed_values[policy][gamma], values[policy][gamma])


def test_discrete_actions(tmp_path):
    data = logged(discrete=True)
    policy = ov.as_policy(lambda s: np.full((len(s), 2), 0.5), n_actions=2)
    folder = write(data, tmp_path / "logs", [7000])
    agree(*(ov.evaluate(each, policy, "vpm", gamma=0.9, ignore=IGNORED) for each in (folder, data)))


def test_states_after_steps_are_those_of_the_next_row_or_file(tmp_path):
    data = logged(next_states=False)
    assert not data.next_known.all()
    folder = write(data, tmp_path / "logs", [4096, 4097, 6001], columns=("next_",))
    agree(*(ov.evaluate(each, target(), "vpm", gamma=0.9, ignore=IGNORED) for each in (folder, data)))


def test_one_endless_episode(tmp_path):
    """An episode across all parts, cut where the sample ends."""
    rng = np.random.default_rng(0)
    states = np.zeros((9001, 1))
    for t in range(9000):
        states[t + 1] = 0.7 * states[t] + rng.standard_normal()
    actions = 0.3 * states[:-1] + rng.standard_normal((9000, 1))
    data = ov.LoggedDataset.from_arrays(
        states[:-1], actions, states[:-1, 0], states[1:], truncated=np.arange(9000) == 8999
    )
    folder = write(data, tmp_path / "logs", [3000])
    policy = GaussianPolicy(lambda s: (0.3 * s, 1.0), action_dimension=1)
    found, expected = (ov.evaluate(each, policy, "vpm", ignore=IGNORED) for each in (folder, data))
    assert found.value == pytest.approx(expected.value, rel=1e-8)
    assert found.interval is None


def test_every_way_to_name_the_files(tmp_path):
    data, folder = logged(), tmp_path / "logs"
    write(data, folder, [2000 + 900 * k for k in range(11)])  # part-10 comes after part-2, not before it
    (folder / "README.txt").write_text("not a table")
    (folder / "_SUCCESS").write_text("")
    files = [folder / f"part-{number}.parquet" for number in range(12)]
    expected = ov.evaluate(data, target(), "naive", ignore=IGNORED).value
    dataset = pyarrow.dataset.dataset([str(file) for file in files])
    for source in (str(folder), f"{folder}/*.parquet", files, dataset, ov.scan_dataset(folder)):
        assert ov.evaluate(source, target(), "naive", ignore=IGNORED).value == pytest.approx(expected, rel=1e-12)


def test_a_short_log_is_read_into_memory(tmp_path):
    data = logged(episodes=12)
    folder = write(data, tmp_path / "logs", [100])
    found = ov.evaluate(folder, target(), "wist", ignore=IGNORED)
    assert found.value == ov.evaluate(data, target(), "wist", ignore=IGNORED).value


def test_estimators_that_need_all_rows_name_those_that_do_not(tmp_path):
    folder = write(logged(), tmp_path / "logs", [])
    for name in ("dr", "wist", "model", "fqe", "mwl"):
        with pytest.raises(ValueError, match=f"{name} .*read in parts: use vpm, auto, fqe with solver='linear'"):
            ov.evaluate(folder, target(), name, ignore=IGNORED)
    with pytest.raises(ValueError, match="vpm by solver 'kernel' needs all rows"):
        ov.evaluate(folder, target(), "vpm", solver="kernel", ignore=IGNORED)
    with pytest.raises(
        ValueError, match=r"actions without them: add a density with with_noise\(policy, std=...\), use auto"
    ):
        ov.evaluate(folder, lambda s: 0.2 * s[:, :2], "vpm", ignore=IGNORED)


def test_a_policy_without_densities(tmp_path):
    data = logged()
    folder = write(data, tmp_path / "logs", [5000])
    agree(*(ov.evaluate(each, lambda s: 0.2 * s[:, :2], "auto", gamma=0.9, ignore=IGNORED) for each in (folder, data)))
