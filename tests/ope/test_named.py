"""Policies in the words of a table are the policies of numbers that they stand for."""

from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pyarrow as pa
import pytest
from sklearn.compose import make_column_transformer
from sklearn.linear_model import LogisticRegression
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import OneHotEncoder

import ope_vpm as ov
from ope_vpm.ope.adapter.given import target_of
from ope_vpm.ope.adapter.named import is_one_policy

NORTH_SOUTH = {"north": "none", "south": "free"}


def _shop(rows: int = 400) -> pd.DataFrame:
    """Customers of three visits each, in an order of their own: offers by a coin, and what a rule would have done."""
    rng = np.random.default_rng(0)
    frame = pd.DataFrame(
        {
            "customer": np.repeat(np.arange(rows // 4), 4),
            "date": np.tile([3, 1, 2, 0], rows // 4),
            "region": rng.choice(["north", "south"], rows),
            "age": rng.integers(20, 60, rows) + 0.5,
            "offer": rng.choice(["discount", "free", "none"], rows),
        }
    )
    frame["revenue"] = rng.normal(size=rows) + (frame["offer"] == "free") * (frame["region"] == "south")
    frame["rule"] = frame["region"].map(NORTH_SOUTH)
    return frame


@pytest.fixture(scope="module")
def frame() -> pd.DataFrame:
    return _shop()


@pytest.fixture(scope="module")
def data(frame: pd.DataFrame) -> ov.LoggedDataset:
    return ov.from_table(frame, state=["region", "age"], verbose=False)


def _by_region(frame: Any) -> Any:
    return np.where(frame["region"] == "south", "free", "none")


def _columns(frame: pd.DataFrame) -> dict[str, Any]:
    south = (frame["region"] == "south").to_numpy()
    return {"free": south * 1.0, "none": 1.0 - south}


def _classifier(frame: pd.DataFrame) -> Any:
    model = make_pipeline(make_column_transformer((OneHotEncoder(), ["region"])), LogisticRegression(C=1e12, tol=1e-10))
    return model.fit(frame[["age", "region"]], frame["rule"])


@pytest.mark.parametrize("kind", ["function", "series", "column", "dict", "probabilities", "frame", "of the function"])
def test_every_way_to_say_it_is_the_same_policy(kind: str, frame: pd.DataFrame, data: ov.LoggedDataset) -> None:
    said: Any = {
        "function": _by_region,
        "series": frame["rule"],
        "column": "rule",
        "dict": NORTH_SOUTH,
        "probabilities": _columns(frame),
        "frame": pd.DataFrame(_columns(frame)),
        "of the function": _columns,
    }[kind]
    south = data.observations[:, 1] == 1
    expected = np.column_stack([np.zeros(len(data)), south, ~south])
    np.testing.assert_array_equal(target_of(data, said).probabilities(data.observations), expected)
    by_numbers = ov.as_policy(lambda seen: np.where(seen[:, 1] == 1, 1, 2), n_actions=3)
    for name in ("vpm", "dr"):
        value, same = (ov.evaluate(data, each, name, gamma=0.9) for each in (said, by_numbers))
        assert value.value == pytest.approx(same.value, rel=1e-12)


def test_a_fitted_classifier_takes_the_columns_it_was_fitted_on(frame: pd.DataFrame, data: ov.LoggedDataset) -> None:
    model = _classifier(frame)
    asked = target_of(data, model).probabilities(data.observations)
    seen = pd.DataFrame(
        {"age": data.observations[:, 2], "region": np.where(data.observations[:, 1] == 1, "south", "north")}
    )
    assert model.classes_.tolist() == ["free", "none"]
    np.testing.assert_allclose(asked[:, 1:], model.predict_proba(seen), rtol=1e-12)
    assert not asked[:, 0].any()  # it never learned of discounts
    arrays = LogisticRegression().fit(data.observations, data.actions)  # without names: the encoded features
    named = LogisticRegression().fit(data.observations, np.array(["discount", "free", "none"])[data.actions])
    np.testing.assert_allclose(
        target_of(data, named).probabilities(data.observations), arrays.predict_proba(data.observations)
    )


def test_one_name_stands_for_all_rows(data: ov.LoggedDataset) -> None:
    assert target_of(data, lambda _: "discount").probabilities(data.observations)[:, 0].all()


def test_a_rule_that_looks_elsewhere_becomes_fractions() -> None:
    table = {"x": ["a", "a", "a", "b"], "action": ["l", "r", "l", "r"], "reward": [1, 0, 1, 0], "rule": list("llrr")}
    data = ov.from_table(table, state="x", verbose=False)
    with pytest.warns(UserWarning, match=r"rule says different things of rows with the same state \(75% of the rows\)"):
        policy = target_of(data, "rule")
    np.testing.assert_allclose(policy.probabilities(np.array([0, 1])), [[2 / 3, 1 / 3], [0, 1]])


def test_doses_are_numbers_by_a_function_or_a_column() -> None:
    table = {"weight": [50.0, 60.0, 70.0], "action": [1.5, 2.5, 3.5], "reward": [1, 0, 1], "rule": [1.0, 1.2, 1.4]}
    data = ov.from_table(table, state="weight", verbose=False)
    rng = np.random.default_rng(0)
    for said in (lambda frame: frame["weight"] / 50, "rule"):
        np.testing.assert_allclose(target_of(data, said).sample(data.observations, rng)[:, 0], [1, 1.2, 1.4])


@pytest.mark.parametrize("unit", [1e-13, 1.0, 1e12])
def test_doses_of_any_unit_are_equal_but_for_rounding(unit: float) -> None:
    """Three rows with one state and 0.1: their mean is 0.10000000000000002; and one of two doses is twice the other."""
    table: dict[str, Any] = {"weight": [50.0] * 3 + [60.0] * 2, "action": [1.5] * 5, "reward": [1, 0, 1, 0, 1]}
    data = ov.from_table(table | {"rule": unit * np.array([0.1, 0.1, 0.1, 0.2, 0.2])}, state="weight", verbose=False)
    sampled = target_of(data, "rule").sample(data.observations, np.random.default_rng(0))
    np.testing.assert_allclose(sampled[:, 0], unit * np.array([0.1, 0.1, 0.1, 0.2, 0.2]))
    data = ov.from_table(table | {"rule": unit * np.array([1.0, 1.0, 1.0, 1.0, 2.0])}, state="weight", verbose=False)
    with pytest.warns(UserWarning, match=r"different things of rows with the same state \(40% of the rows\)"):
        target_of(data, "rule")


def test_a_function_gets_a_frame_of_the_table_s_own_kind() -> None:
    table = {"x": ["a", "b"], "action": ["l", "r"], "reward": [1, 0]}
    kinds = []

    def rule(frame: Any) -> list[str]:
        kinds.append(type(frame))
        return ["l"] * len(frame)

    for each in (pd.DataFrame(table), pa.table(table)):
        data = ov.from_table(each, verbose=False)
        target_of(data, rule).probabilities(data.observations)
    assert kinds == [pd.DataFrame, pa.Table]


def test_a_dict_of_policies_is_several(data: ov.LoggedDataset) -> None:
    assert is_one_policy(data, NORTH_SOUTH)
    assert not is_one_policy(data, {"a": _by_region, "b": "rule"})
    values = ov.evaluate(data, {"a": _by_region, "b": "rule", "c": NORTH_SOUTH}, "naive")
    assert list(values) == ["a", "b", "c"]


@pytest.mark.parametrize(
    ("policy", "said"),
    [
        (lambda _: "free_shipping", r"<lambda> names the action 'free_shipping', which 'offer' does not have: "),
        (lambda frame: ["free"] * (len(frame) + 1), r"<lambda> must say one action per row, or one for all: got "),
        (
            lambda frame: pd.DataFrame({"fre": np.ones(len(frame))}),
            r"column 'fre', which is no action: did you mean 'free'",
        ),
        (
            lambda frame: frame["region"].map({"south": "free"}),
            r"must name an action in every row: it names none in row",
        ),
        ("rules", r"a policy that is a text names a column of the table: got 'rules', did you mean 'rule'\?"),
        ({"north": "none"}, r"a dict from groups to actions must name every region: 'south' is missing"),
        (
            LogisticRegression(),
            r"a classifier must be fitted before it is a policy: LogisticRegression has no classes_",
        ),
    ],
)
def test_errors_say_what_to_do(policy: Any, said: str, data: ov.LoggedDataset) -> None:
    with pytest.raises(ValueError, match=said):
        target_of(data, policy).probabilities(data.observations)


def test_the_doctor_and_the_page_speak_in_names(data: ov.LoggedDataset, tmp_path: Path) -> None:
    seen = str(ov.inspect(data))
    assert "region = south: 0 … 1" in seen
    assert "actions: 3 discrete (discount, free, none)" in seen
    value = ov.evaluate(data, _by_region, "vpm", gamma=0.9)
    value.report(tmp_path / "page.html", data)
    assert value.weights is not None
    row = int(np.argmax(value.weights))
    region = "south" if data.observations[row, 1] == 1 else "north"
    assert f"region = {region}, age = {data.observations[row, 2]}" in (tmp_path / "page.html").read_text()
