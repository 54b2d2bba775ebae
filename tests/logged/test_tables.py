"""A table with names becomes a log: every library's tables alike, roles by name, nothing guessed in silence."""

import json
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pyarrow as pa
import pyarrow.csv as pa_csv
import pyarrow.parquet as pa_parquet
import pytest

import ope_vpm as ov

SHOP: dict[str, list[Any]] = {
    "customer": ["b", "a", "b", "a", "b"],
    "date": ["2024-01-02", "2024-01-01", "2024-01-01", "2024-01-04", "2024-01-05"],
    "region": ["south", "north", "south", "north", "north"],
    "age": [30.0, None, 30.0, 41.0, 30.0],
    "member": [True, False, True, None, False],
    "offer": ["none", "free", "none", "discount", "none"],
    "revenue": [1.0, 2.0, 3.0, 4.0, 5.0],
    "p": [0.5, 0.2, 0.5, 0.25, 0.5],
}
LINE = (
    "5 rows, 2 episodes: state region, age, member (6 features); action offer (discount, free, none); reward revenue; "
    "episode customer; time date; propensity p; the last row of an episode is taken for terminated "
    "(ends='truncated' for the other)\n"
)


def _written(kind: str, folder: Path) -> Any:
    """The shop's table as each library, or each kind of file, holds it."""
    records = [dict(zip(SHOP, row, strict=True)) for row in zip(*SHOP.values(), strict=True)]
    if kind == "dict":
        return SHOP
    if kind == "records":
        return records
    if kind == "pandas":
        return pd.DataFrame(SHOP)
    if kind == "pandas with its own types":
        frame = pd.DataFrame(SHOP).astype({"region": "category", "member": "boolean", "offer": "string"})
        frame["date"] = pd.to_datetime(frame["date"])
        return frame
    if kind == "pyarrow":
        return pa.table(SHOP)
    path = folder / f"shop.{kind}"
    if kind == "jsonl":
        path.write_text("".join(json.dumps(record) + "\n" for record in records))
    elif kind == "csv":
        pa_csv.write_csv(pa.table(SHOP), path)
    else:
        pa_parquet.write_table(pa.table(SHOP), path)
    return str(path)


@pytest.mark.parametrize(
    "kind", ["dict", "records", "pandas", "pandas with its own types", "pyarrow", "csv", "parquet", "jsonl"]
)
def test_every_kind_of_table_gives_the_same_log(kind: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    data = ov.from_table(_written(kind, tmp_path))
    assert capsys.readouterr().out == LINE
    encoding = data.encoding
    assert encoding is not None
    assert encoding.features == (
        "region = north",
        "region = south",
        "age",
        "age is missing",
        "member",
        "member is missing",
    )
    assert encoding.actions == ("discount", "free", "none")
    # Customer b comes first in the table, her second row first in time; the mean age is (30 + 30 + 41 + 30)/4.
    assert data.observations.tolist() == [
        [0, 1, 30, 0, 1, 0],
        [0, 1, 30, 0, 1, 0],
        [1, 0, 30, 0, 0, 0],
        [1, 0, 32.75, 1, 0, 0],
        [1, 0, 41, 0, 0, 1],
    ]
    assert data.actions.tolist() == [2, 2, 2, 1, 0]
    assert data.rewards.tolist() == [3, 1, 5, 2, 4]
    assert data.starts.tolist() == [0, 3]
    assert data.terminated.tolist() == [False, False, True, False, True]
    assert data.behaviour_log_prob is not None
    np.testing.assert_allclose(np.exp(data.behaviour_log_prob), [0.5, 0.5, 0.5, 0.2, 0.25])


def test_the_encoding_gives_the_table_back() -> None:
    data = ov.from_table(pd.DataFrame(SHOP), verbose=False)
    assert data.encoding is not None
    frame = data.encoding.frame(data.observations)
    assert isinstance(frame, pd.DataFrame)
    assert frame["region"].tolist() == ["south", "south", "north", "north", "north"]
    assert frame["age"].tolist()[:3] == [30, 30, 30]
    assert np.isnan(frame["age"][3])
    assert frame["member"].tolist() == [True, True, False, False, None]
    assert data.select([1]).encoding is data.encoding


def test_dates_are_days_since_the_episode_s_start() -> None:
    seen = ["2024-01-01T12:00", "2024-01-02T00:00", "2024-01-09T00:00"]
    table = {"who": [1, 1, 2], "seen": seen, "action": ["a", "b", "a"], "reward": [0, 1, 0]}
    data = ov.from_table(table, episode="who", time=False, verbose=False)
    assert data.observations.tolist() == [[0], [0.5], [0]]
    zoned = {**table, "seen": [datetime.fromisoformat(each).replace(tzinfo=UTC) for each in seen]}
    assert ov.from_table(zoned, episode="who", verbose=False).observations.tolist() == [[0], [0.5], [0]]


def test_missing_values_can_be_refused_with_their_rows() -> None:
    with pytest.raises(ValueError, match=r"'age' is missing in row 1$"):
        ov.from_table(SHOP, missing="refuse")
    with pytest.raises(ValueError, match=r"reward must be given in every row: 'revenue' is missing in row 0 "):
        ov.from_table({**SHOP, "revenue": [None, 1, 2, 3, 4]})


def test_a_missing_name_is_a_level_of_its_own() -> None:
    table = {"region": ["south", None, "north"], "age": [1.0, 2.0, 3.0], "action": ["a", "b", "a"], "reward": [0, 1, 0]}
    data = ov.from_table(table, verbose=False)
    assert data.encoding is not None
    assert data.encoding.features == ("region = north", "region = south", "region is missing", "age")
    assert data.observations[1].tolist() == [0, 0, 1, 2]


def test_one_column_of_names_gives_finite_states() -> None:
    table = {"ward": ["icu", "home", "icu"], "episode": [1, 1, 2], "action": [True, False, True], "reward": [0, 1, 0]}
    data = ov.from_table(table, verbose=False)
    assert data.observations.tolist() == [1, 0, 1]
    assert data.encoding is not None
    assert data.encoding.finite
    assert data.encoding.state_name(1) == "ward = icu"
    assert data.encoding.actions == (False, True)
    assert data.actions.tolist() == [1, 0, 1]


def test_few_whole_numbers_are_asked_about_in_one_sentence() -> None:
    table = {"shop": [1, 2, 1], "age": [30.5, 20.5, 10.5], "action": ["a", "b", "a"], "reward": [0, 1, 0]}
    with pytest.warns(
        UserWarning, match=r"shop are taken for amounts: say labels=\['shop'\] if they are names"
    ) as seen:
        data = ov.from_table(table, verbose=False)
    assert len(seen) == 1
    assert data.observations[:, 0].tolist() == [1, 2, 1]
    named = ov.from_table(table, labels="shop", verbose=False)
    assert named.encoding is not None
    assert named.encoding.features == ("shop = 0", "shop = 1", "shop = 2", "age")
    ov.from_table(table, numbers=["shop"], verbose=False)  # said: no warning
    alone = {name: table[name] * 2 for name in ("shop", "action", "reward")}
    with pytest.warns(UserWarning, match=r"names of states: say numbers=\['shop'\]"):
        assert ov.from_table(alone, verbose=False).observations.tolist() == [1, 2, 1, 1, 2, 1]


ROUTER = {"length": [0.5, 1.5, 2.5], "action": ["small", "large", "small"], "reward": [1, 0, 1]}


def test_rows_are_episodes_where_nothing_orders_them(capsys: pytest.CaptureFixture[str]) -> None:
    data = ov.from_table(ROUTER)
    assert data.n_episodes == 3
    assert data.terminated.all()
    assert capsys.readouterr().out.endswith("; each row is an episode of one step\n")


def test_a_time_without_episodes_is_asked_about() -> None:
    timed = {**ROUTER, "timestamp": [3, 1, 2]}
    with pytest.raises(ValueError, match=r"'timestamp' puts the rows in order.*one_step=True if each row"):
        ov.from_table(timed)
    assert ov.from_table(timed, one_step=True, verbose=False).n_episodes == 3
    whole = ov.from_table(timed, one_step=False, verbose=False)
    assert whole.n_episodes == 1
    assert whole.observations[:, 0].tolist() == [1.5, 2.5, 0.5]  # in the order of time
    assert whole.truncated.tolist() == [False, False, True]
    assert not whole.terminated.any()
    with pytest.raises(ValueError, match=r"one_step=True makes each row an episode, and who says"):
        ov.from_table({**timed, "who": [1, 1, 2]}, episode="who", one_step=True)


def test_ends_and_cuts_by_their_columns() -> None:
    table = {"x": [0.5] * 5, "action": list("ababa"), "reward": [1.0] * 5}
    ended = ov.from_table({**table, "done": [0, 1, 0, 0, 0]}, verbose=False)
    assert ended.starts.tolist() == [0, 2]
    assert ended.terminated.tolist() == [False, True, False, False, False]
    assert ended.truncated.tolist() == [False, False, False, False, True]
    cut = ov.from_table({**table, "truncated": [False, True, False, False, False]}, verbose=False)
    assert cut.starts.tolist() == [0, 2]
    assert cut.truncated.tolist() == [False, True, False, False, False]
    assert cut.terminated.tolist() == [False, False, False, False, True]
    both = ov.from_table({**table, "done": [0, 1, 0, 0, 0], "truncated": [0, 0, 0, 1, 0]}, verbose=False)
    assert both.starts.tolist() == [0, 2, 4]
    with pytest.raises(ValueError, match=r"terminal must hold only true or false, 1 or 0: 'done' is 2 in row 3"):
        ov.from_table({**table, "done": [0, 1, 0, 2, 0]})


def test_several_columns_of_numbers_are_one_continuous_action() -> None:
    table = {"x": [0.5, 1.5], "fluid": [1.0, 2.0], "drug": [0.1, 0.2], "reward": [1, 0]}
    data = ov.from_table(table, action=["fluid", "drug"], verbose=False)
    assert data.actions.tolist() == [[1, 0.1], [2, 0.2]]
    assert data.encoding is not None
    assert data.encoding.actions is None


@pytest.mark.parametrize(
    ("change", "options", "said"),
    [
        ({}, {"reward": "revenu"}, "reward names the column 'revenu', which the table does not have"),
        ({}, {"action": "offer", "state": ["age", "offer"]}, "before the action: offer cannot be part of it"),
        ({"p": [0.5, 0, 0.5, 0.2, 0.5]}, {}, "propensity must be the probability .* 'p' is 0 in row 1"),
        ({"p": [0.5, 2, 0.5, 0.2, 0.5]}, {}, "propensity must be the probability .* 'p' is 2 in row 1"),
        ({"age": [1, "two", 3, 4, 5]}, {}, "all of one kind: 'age' holds int and str"),
        ({"age": [1, 2]}, {}, "columns of a table must have the same length"),
        ({}, {"missing": "flag"}, "missing must be 'fill' or 'refuse'"),
        ({}, {"drop": ["revenue"]}, "the column of the reward must be named, as in reward='customer'"),
    ],
)
def test_errors_say_the_rule_what_came_and_what_to_do(
    change: dict[str, list[Any]], options: dict[str, Any], said: str
) -> None:
    with pytest.raises((ValueError, TypeError), match=said):
        ov.from_table({**SHOP, **change}, **options)


def test_what_is_no_table_is_refused() -> None:
    with pytest.raises(TypeError, match="a table must be a pandas, polars or pyarrow table, a dict of columns"):
        ov.from_table(3)
    with pytest.raises(ValueError, match="the table has no rows"):
        ov.from_table({"a": []})


def test_sorting_rows_does_not_change_the_log() -> None:
    rng = np.random.default_rng(0)
    frame = pd.DataFrame(
        {
            "episode": np.repeat(np.arange(6), [1, 4, 2, 3, 5, 2]),
            "step": np.concatenate([np.arange(n) for n in (1, 4, 2, 3, 5, 2)]),
            "x": rng.normal(size=17),
            "action": rng.choice(["a", "b"], 17),
            "reward": rng.normal(size=17),
        }
    )
    in_order = ov.from_table(frame, verbose=False)
    mixed = frame.sample(frac=1, random_state=1).sort_values("episode", kind="stable")
    data = ov.from_table(mixed, verbose=False)
    for name in ("observations", "actions", "rewards", "starts", "terminated"):
        np.testing.assert_array_equal(getattr(data, name), getattr(in_order, name))


RECORDS = [
    {"session": s, "features": [0.1 * s, 1.0 * t], "model": "small" if (s + t) % 2 else "large", "reward": t}
    for s in range(4)
    for t in range(3)
]


@pytest.mark.parametrize("kind", ["records", "jsonl", "pandas", "pyarrow", "parquet", "arrays"])
def test_a_column_of_lists_is_one_feature_an_entry(kind, tmp_path):
    """As embeddings of requests are logged: the entries have names, and the whole column is named by its own."""
    arrow = pa.Table.from_pylist(RECORDS)
    if kind == "jsonl":
        (tmp_path / "log.jsonl").write_text("\n".join(map(json.dumps, RECORDS)))
    if kind == "parquet":
        pa_parquet.write_table(arrow, tmp_path / "log.parquet")
    columns = {name: [each[name] for each in RECORDS] for name in RECORDS[0]}
    table = {
        "records": RECORDS,
        "jsonl": tmp_path / "log.jsonl",
        "pandas": pd.DataFrame(RECORDS),
        "pyarrow": arrow,
        "parquet": tmp_path / "log.parquet",
        "arrays": {**columns, "features": np.array(columns["features"])},
    }[kind]
    data = ov.from_table(table, state="features", verbose=False)
    assert data.encoding.features == ("features[0]", "features[1]")
    np.testing.assert_allclose(data.observations, columns["features"])
    assert data.encoding.actions == ("large", "small")
    assert data.n_episodes == 4


def test_lists_of_several_lengths_are_refused():
    with pytest.raises(ValueError, match="'features' are not"):
        ov.from_table([*RECORDS, {**RECORDS[0], "features": [1.0]}], verbose=False)


@pytest.mark.parametrize(
    ("table", "said"),
    [
        (pd.DataFrame(np.ones((3, 2))), "names of columns must be texts: got 0"),
        (pd.DataFrame({("a", "b"): [1.0], ("a", "c"): [2.0]}), "names of columns must be texts"),
        (pd.Series([1.0, 2.0], name="reward"), "a table must be a pandas, polars or pyarrow table"),
    ],
)
def test_frames_without_names_are_refused_in_one_sentence(table: Any, said: str) -> None:
    with pytest.raises(TypeError, match=said) as refused:
        ov.from_table(table)
    assert "\n" not in str(refused.value)


@pytest.mark.parametrize(
    ("name", "text", "said"),
    [
        ("log.jsonl", '{"action": "x", "reward": 1}\n[1, 2]\n', "line 2 of .*log.jsonl must be an object"),
        ("log.jsonl", "\n", "log.jsonl has no lines"),
        ("log.csv", "state,action,reward\n1_0.5,x,1\n2.5,y,0\n", None),
        ("log.csv", "state,action,reward\n1_0,x,1\n20,y,0\n", None),
        ("log.csv", "state,action,reward\n１.5,x,1\n2.5,y,0\n", None),
    ],
)
def test_files_hold_what_they_say(name: str, text: str, said: str | None, tmp_path: Path) -> None:
    """Python's `float` and `int` take `1_0` and digits of any script, which are no numbers but labels."""
    (tmp_path / name).write_text(text, encoding="utf-8")
    if said is None:
        assert ov.from_table(tmp_path / name, verbose=False).observations.dtype == np.int64
        return
    with pytest.raises(ValueError, match=said):
        ov.from_table(tmp_path / name)


def test_a_line_of_json_may_hold_marks_of_lines(tmp_path: Path) -> None:
    """U+2028 and U+0085 end a line for Python's `splitlines`, and not for JSON."""
    records = [{"text": "one\u2028two\x85three", "action": "x", "reward": n % 2} for n in range(4)]
    lines = "\n".join(json.dumps(each, ensure_ascii=False) for each in records)
    (tmp_path / "log.jsonl").write_text(lines + "\n", encoding="utf-8")
    assert len(ov.from_table(tmp_path / "log.jsonl", verbose=False)) == 4


@pytest.mark.parametrize("large", [10**30, 10**400])
def test_whole_numbers_beyond_64_bits(large: int) -> None:
    """They are floats; what no float holds is found by the doctor."""
    data = ov.from_table({"x": [0.5] * 4, "action": list("abab"), "reward": [1, 2, 3, large]}, verbose=False)
    assert data.rewards[:3].tolist() == [1, 2, 3]
    assert data.rewards[3] == (1e30 if large == 10**30 else np.inf)


def test_rows_at_one_time_of_an_episode_are_told() -> None:
    table = {"x": [0.5, 1.5, 2.5, 3.5], "action": list("abab"), "reward": [1.0, 2, 3, 4]}
    with pytest.warns(UserWarning, match="day does not order all rows .* 1 have the time .* such as rows 0 and 2"):
        data = ov.from_table({**table, "visit": [7, 8, 7, 8], "day": [1, 1, 1, 2]}, episode="visit", time="day")
    assert data.rewards.tolist() == [1, 3, 2, 4]


def test_commands_to_the_terminal_do_not_reach_it() -> None:
    table = {"place": ["a\x1b[2J", "b"] * 4, "action": ["x\x07", "y"] * 4, "reward": [1.0, 0.0] * 4}
    data = ov.from_table(table, verbose=False)
    assert "\x1b" not in str(ov.inspect(data))
    assert "\x07" not in str(ov.inspect(data))
