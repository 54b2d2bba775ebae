"""Any table as named columns: of pandas, polars and pyarrow, dicts, records, CSV, Parquet and JSON lines."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass
from datetime import UTC, date, datetime, timedelta
from decimal import Decimal
from importlib.util import find_spec
from numbers import Integral, Real
from pathlib import Path
from typing import Any, Literal

import numpy as np

from ope_vpm.arrays import Array, Bools
from ope_vpm.logged.formats.table import check_unique
from ope_vpm.logged.table_files import of_records, read_file
from ope_vpm.optional import library

Kind = Literal["number", "flag", "label", "date"]
FRAMES = ("pandas", "polars", "pyarrow")
"""Kinds of data frames, the first that is installed being given to policies where the table was none itself."""
DATE = re.compile(r"\d{4}-\d\d-\d\d([ T]\d\d:\d\d.*)?")
"""How text begins that is read as a date: ISO 8601."""
DAY = np.timedelta64(1, "D")
MOST_WHOLE = 1 << 63
"""Whole numbers from here on do not fit into 64 bits, and become floats."""
MOST_ROWS_NAMED = 5
"""Rows that an error names: enough to find the others by."""


@dataclass(frozen=True, eq=False)
class Column:
    """One column of a table, its kind found out."""

    name: str
    kind: Kind
    values: Array
    """(n,): int64 or float64 for numbers, 0 and 1 for flags, texts for labels, datetime64[us] (UTC) for dates."""
    missing: Bools
    """(n,): where there is no value."""
    declared: tuple[str, ...] = ()
    """Labels that a categorical column declares, whether or not they occur."""

    @property
    def whole(self) -> bool:
        """Whether it holds integers, which may be amounts or names."""
        return self.kind == "number" and self.values.dtype.kind == "i"

    @property
    def levels(self) -> tuple[Any, ...]:
        """The different values in order: those that occur or are declared, and False and True of flags."""
        if self.kind == "flag":
            return (False, True)
        known = self.values[~self.missing].tolist()
        return tuple(sorted({*known, *self.declared}))

    def require(self, role: str) -> Column:
        """The column itself, unless a value is missing that its role needs."""
        if self.missing.any():
            raise ValueError(
                f"{role} must be given in every row: {self.name!r} is missing in {rows_of(self.missing)} "
                "(leave these rows out, or fill them)"
            )
        return self

    def numbers(self, role: str) -> Array:
        """Its numbers as float64, none of them missing."""
        if self.kind not in ("number", "flag"):
            raise TypeError(f"{role} must be numbers: {self.name!r} holds {self.kind}s, such as {self._example()!r}")
        return self.require(role).values.astype(np.float64)

    def _example(self) -> str:
        return str(self.values[np.argmin(self.missing)])


def rows_of(mask: Bools) -> str:
    """The rows where a mask is set, in words; rows are counted from 0."""
    rows = np.flatnonzero(mask)
    named = ", ".join(map(str, rows[:MOST_ROWS_NAMED]))
    more = f" and {len(rows) - MOST_ROWS_NAMED} more" if len(rows) > MOST_ROWS_NAMED else ""
    return f"row{'s' * (len(rows) > 1)} {named}{more}"


def read_table(table: Any) -> tuple[dict[str, Column], str | None]:
    """The columns of a table by name, and which kind of data frame it is, or may be given back as.

    Args:
        table: a pandas, polars or pyarrow table, whatever offers the Arrow stream protocol, a mapping from names to
            columns, a list of records, or the path of a .csv, .parquet or .jsonl file.
    """
    frame = next((name for name in FRAMES if find_spec(name) is not None), None)
    if isinstance(table, str | Path):
        table = read_file(Path(table).expanduser())
    if isinstance(table, list) and table and all(isinstance(record, Mapping) for record in table):
        table = of_records(table)
    if isinstance(table, Mapping):
        arrays = {str(name): _as_array(values) for name, values in table.items()}
        columns = {
            name: _column(name, each) for whole, array in arrays.items() for name, each in _entries(whole, array)
        }
        return _checked(columns), frame
    return _of_frame(table)


def _checked(columns: dict[str, Column]) -> dict[str, Column]:
    lengths = {name: len(column.values) for name, column in columns.items()}
    if len(set(lengths.values())) > 1:
        raise ValueError(f"columns of a table must have the same length: got {lengths}")
    if not any(lengths.values()):
        raise ValueError("the table has no rows: a dataset needs at least one step")
    return columns


def _of_frame(table: Any) -> tuple[dict[str, Column], str]:
    import narwhals.stable.v1 as nw

    lazy = hasattr(table, "collect")  # whose names would have to be worked out
    names = None if lazy else getattr(table, "column_names", None) or getattr(table, "columns", None)
    if names is not None:
        check_unique("the table", [str(name) for name in names])
        if not all(isinstance(name, str) for name in names):
            raise TypeError(
                f"names of columns must be texts: got {names[0]!r} (df.columns = [str(each) for each in …])"
            )
    streams = hasattr(table, "__arrow_c_stream__") and not nw.dependencies.is_into_series(table)
    if streams and not nw.dependencies.is_into_dataframe(table):
        table = library("pyarrow", "parquet").table(table)
    try:
        found: Any = nw.from_native(table)
    except TypeError as error:
        raise TypeError(
            "a table must be a pandas, polars or pyarrow table, a dict of columns, or the path of a .csv, .parquet or "
            f".jsonl file: got a {type(table).__name__}"
        ) from error
    frame = found.collect() if isinstance(found, nw.LazyFrame) else found
    columns: dict[str, Column] = {}
    for name in frame.columns:
        series = frame[name]
        declared: tuple[str, ...] = ()
        if isinstance(series.dtype, nw.Categorical | nw.Enum):
            declared = tuple(str(level) for level in series.cat.get_categories().to_list())
            series = series.cast(nw.String)
        columns |= {part: _column(part, each, declared) for part, each in _entries(str(name), series.to_numpy())}
    return _checked(columns), frame.implementation.value


def _as_array(values: Any) -> Array:
    """A column of a mapping; lists may mix what NumPy would turn into texts."""
    if not isinstance(values, list | tuple):
        return np.asarray(values)
    array: Array = np.empty(len(values), dtype=object)
    array[:] = values
    return array


def _entries(name: str, values: Array) -> list[tuple[str, Array]]:
    """A column of lists, such as an embedding, as one column an entry: `name[0]`, `name[1]`, …; others as they are."""
    lists = (list, tuple, np.ndarray)
    lengths = {len(each) if isinstance(each, lists) else None for each in values if values.dtype == object}
    if len(lengths) > 1:
        raise ValueError(f"lists of a column must be there in all rows, and of one length: those of {name!r} are not")
    if lengths - {None}:
        values = np.array([list(each) for each in values])
    return [(name, values)] if values.ndim != 2 else [(f"{name}[{k}]", values[:, k]) for k in range(values.shape[1])]


def _column(name: str, values: Array, declared: tuple[str, ...] = ()) -> Column:
    """A column from an array of any type."""
    if values.ndim != 1:
        raise ValueError(f"a column must hold one value a row: {name!r} has shape {values.shape}")
    kind = values.dtype.kind
    none = np.zeros(len(values), dtype=np.bool_)
    if kind == "b":
        return Column(name, "flag", values.astype(np.float64), none)
    if kind in "iu":
        return Column(name, "number", values.astype(np.int64), none)
    if kind == "f":
        return Column(name, "number", values.astype(np.float64), np.isnan(values))
    if kind == "M":
        return Column(name, "date", values.astype("datetime64[us]"), np.isnat(values))
    if kind == "m":
        return Column(name, "number", values / DAY, np.isnat(values))
    return _of_objects(name, values.astype(object), declared)


def _of_objects(name: str, values: Array, declared: tuple[str, ...]) -> Column:
    """A column of Python's own objects, which must be of one kind."""
    missing = np.array([is_missing(value) for value in values], dtype=np.bool_)
    known = values[~missing].tolist()

    def filled(converted: list[Any], filler: Any, dtype: Any) -> Array:
        array: Array = np.full(len(values), filler, dtype=dtype)
        array[~missing] = converted
        return array

    if all(isinstance(value, bool | np.bool_) for value in known) and known:
        return Column(name, "flag", filled(known, np.nan, np.float64), missing)
    if all(isinstance(value, Integral) and abs(int(value)) < MOST_WHOLE for value in known) and not missing.any():
        return Column(name, "number", filled(known, 0, np.int64), missing)
    if all(isinstance(value, Real | Decimal) and not isinstance(value, bool) for value in known):
        return Column(name, "number", filled([_float(value) for value in known], np.nan, np.float64), missing)
    if all(isinstance(value, timedelta) for value in known):
        return Column(name, "number", filled([value / timedelta(days=1) for value in known], np.nan, float), missing)
    dates = known if not all(isinstance(value, str) for value in known) else _dates(known)
    if dates is not None and all(isinstance(value, date | np.datetime64) for value in dates):
        return Column(name, "date", filled([_utc(value) for value in dates], "NaT", "datetime64[us]"), missing)
    if all(isinstance(value, str) for value in known):
        return Column(name, "label", filled(known, "", object), missing, declared)
    kinds = sorted({type(value).__name__ for value in known})
    raise TypeError(
        f"a column must hold numbers, texts, dates, or true and false, all of one kind: {name!r} holds "
        f"{' and '.join(kinds)} (convert it, or leave it out with drop=[{name!r}])"
    )


def _float(value: Any) -> float:
    try:
        return float(value)
    except OverflowError:
        return float("inf")  # which the doctor refuses by its row


def is_missing(value: Any) -> bool:
    """Whether a value is None, NaN, NaT or the NA of pandas."""
    return (
        value is None or type(value).__name__ in ("NAType", "NaTType") or (isinstance(value, Real) and value != value)
    )


def _dates(texts: list[str]) -> list[datetime] | None:
    """Texts as dates, where all of them are."""
    if not all(DATE.fullmatch(text) for text in texts):
        return None
    try:
        return [datetime.fromisoformat(text) for text in texts]
    except ValueError:
        return None


def _utc(value: Any) -> Any:
    """A date without a time zone: that of UTC, where it had another."""
    if isinstance(value, datetime) and value.tzinfo is not None:
        value = value.astimezone(UTC).replace(tzinfo=None)
    return np.datetime64(value, "us")
