"""Cast modes on random rows: what is read, counted and refused is what plain Python says.

Rows are written under up to three types of each column. The model keeps each value with the type
that it was written in, and casts it once, from that type to the last one.
"""

from __future__ import annotations

import itertools
import re
from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass, field
from decimal import ROUND_HALF_UP, Decimal
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from lakewright.storage import Catalog, ChangeType, Table
from lakewright.storage.errors import UnfitValues
from lakewright.storage.spec.cast_mode import CAST_MODE
from tests.support.tables.builders import ANY_LOSS, compact, new_table, rows
from tests.support.tables.environment import FixedEnv
from tests.support.tables.invariants import assert_only_reachable_files

_NUMBERS = itertools.count()

VALUES: dict[str, list[Any]] = {
    "TINYINT": [0, -1, 127],
    "INT": [0, -1, 127, 128, 2**31 - 1],
    "BIGINT": [0, -1, 127, -129, 2**40, -(2**63)],
    "DOUBLE": [0.0, -1.5, 127.9, 128.0, 1e300, float("inf"), float("nan")],
    "DECIMAL(6, 2)": [Decimal("0.00"), Decimal("99.95"), Decimal("-9999.99")],
    "DECIMAL(3, 1)": [Decimal("0.0"), Decimal("-99.9")],
    "STRING": ["", "7", "-1.9", "abc", "128", "99999999999", "12.34", "x  "],
    "VARCHAR(2)": ["", "7", "ab"],
}
# A value that does not fit: no value of the new type has this meaning.
NONE = object()


def whole(bits: int) -> Callable[[Any], Any]:
    def cast(value: Any) -> Any:
        if isinstance(value, str):
            if re.fullmatch(r"[+-]?\d+(\.\d*)?", value) is None:
                return NONE
            value = Decimal(value)
        if value != value or value in (float("inf"), float("-inf")):  # noqa: PLR0124 - NaN
            return NONE
        return int(value) if -(1 << bits - 1) <= int(value) < 1 << bits - 1 else NONE

    return cast


def decimal(precision: int, scale: int) -> Callable[[Any], Any]:
    def cast(value: Any) -> Any:
        if isinstance(value, str) and re.fullmatch(r"[+-]?\d+(\.\d*)?", value) is None:
            return NONE
        exact = Decimal(repr(value) if isinstance(value, float) else value)
        if not exact.is_finite() or abs(exact) >= 10 ** (precision - scale + 1):
            return NONE
        rounded = exact.quantize(Decimal(1).scaleb(-scale), ROUND_HALF_UP)
        return rounded if abs(rounded) < 10 ** (precision - scale) else NONE

    return cast


def text(length: int) -> Callable[[Any], Any]:
    def cast(value: Any) -> Any:
        shown = format(value, "f") if isinstance(value, Decimal) else str(value)
        return shown[:length] if len(shown.rstrip(" ")) <= length else NONE

    return cast


CASTS: dict[str, Callable[[Any], Any]] = {
    "TINYINT": whole(8),
    "INT": whole(32),
    "DECIMAL(6, 2)": decimal(6, 2),
    "DECIMAL(3, 1)": decimal(3, 1),
    "STRING": text(2**31),
    "VARCHAR(2)": text(2),
}
# Texts of DOUBLE are those of Java, which another test compares.
TARGETS = {
    old: [new for new in CASTS if new != old and not (old == "DOUBLE" and "R" in new)]
    for old in VALUES
}
TARGETS["DOUBLE"] = ["TINYINT", "INT", "DECIMAL(6, 2)"]


@dataclass
class Model:
    """The type of each column now, and each row's values with the types they were written in."""

    types: dict[str, str]
    rows: dict[int, dict[str, tuple[str, Any]]] = field(default_factory=dict)

    def cast(self, name: str, stored: tuple[str, Any]) -> Any:
        kind, value = stored
        now = self.types[name]
        return value if value is None or kind == now else CASTS[now](value)

    def seen(self) -> list[dict[str, Any]]:
        """The rows under the types of today; `NONE` stands for values that do not fit."""
        return [
            {"k": key, **{name: self.cast(name, values[name]) for name in self.types}}
            for key, values in sorted(self.rows.items())
        ]

    def unfit(self) -> Counter[str]:
        return Counter(
            PATHS[name] for row in self.seen() for name, value in row.items() if value is NONE
        )


# Where the values of the model's columns lie in the table: a column, a member, an element.
PATHS = {"a": "a", "m": "r.m", "e": "l.element"}


def as_row(values: dict[str, Any]) -> dict[str, Any]:
    return {"k": values["k"], "a": values["a"], "r": {"m": values["m"]}, "l": [values["e"], None]}


def write(table: Table, model: Model, draw: Callable[[Any], Any]) -> None:
    keyed = table.schema.has_primary_key
    keys = draw(st.lists(st.integers(0, 6), min_size=1, max_size=4, unique=True))
    keys = keys if keyed else [key for key in keys if key not in model.rows]
    written = []
    for key in keys:
        held = {
            name: draw(st.sampled_from([None, *VALUES[kind]])) for name, kind in model.types.items()
        }
        model.rows[key] = {name: (model.types[name], value) for name, value in held.items()}
        written.append(as_row({"k": key, **held}))
    if written:
        table.write(rows(table, written))
    gone = draw(st.sampled_from([None, *sorted(model.rows)]))
    if keyed and gone is not None:
        row = next(each for each in model.seen() if each["k"] == gone)
        fitting = {name: None if value is NONE else value for name, value in row.items()}
        table.write(rows(table, [as_row(fitting)], kinds=["-D"]))
        del model.rows[gone]


def history(
    mode: str, keys: list[str], draw: Callable[[Any], Any], file_format: str
) -> tuple[Table, Model]:
    """A table that was written and altered by turns, and its model."""
    model = Model({name: draw(st.sampled_from(sorted(TARGETS))) for name in PATHS})
    catalog = Catalog.open(f"memory://cast-modes-{next(_NUMBERS)}", env=FixedEnv())
    options = {"file.format": file_format, CAST_MODE: mode, "bucket": "1" if keys else "-1"}
    columns = {
        "k": "INT",
        "a": model.types["a"],
        "r": f"ROW<m {model.types['m']}>",
        "l": f"ARRAY<{model.types['e']}>",
    }
    table = new_table(catalog, columns, keys=keys, options=options)
    write(table, model, draw)
    for _ in range(draw(st.integers(1, 2))):
        for name in draw(st.lists(st.sampled_from(sorted(PATHS)), min_size=1, unique=True)):
            known = {model.types[name], *(row[name][0] for row in model.rows.values())}
            # Each stored type is cast to the new one.
            chosen = [
                new
                for new in TARGETS[model.types[name]]
                if all(new == old or new in TARGETS[old] for old in known)
            ]
            if chosen:
                kind = draw(st.sampled_from(chosen))
                table = table.alter(ChangeType(PATHS[name], kind), rules=ANY_LOSS)
                model.types[name] = kind
        write(table, model, draw)
    return table, model


def found(table: Table, where: str | None = None) -> list[dict[str, Any]]:
    return sorted(table.read(where).to_pylist(), key=lambda row: row["k"])


def nulled(row: dict[str, Any]) -> dict[str, Any]:
    return as_row({name: None if value is NONE else value for name, value in row.items()})


def compared(row: dict[str, Any]) -> str:
    return repr(row)


keys_of_tables = pytest.mark.parametrize("keys", [[], ["k"]], ids=["append", "keyed"])
formats = st.sampled_from(["parquet", "orc", "avro"])


@pytest.mark.sampled(1)
@keys_of_tables
@pytest.mark.mission("SE41")
@settings(max_examples=max(10, settings().max_examples // 4))
@given(data=st.data())
def test_what_does_not_fit_is_null_and_counted_and_filters_see_it(
    keys: list[str], data: st.DataObject
) -> None:
    table, model = history("explicit-null", keys, data.draw, data.draw(formats))
    due = [nulled(row) for row in model.seen()]
    scan = table.scan()
    read = sorted(scan.read().to_pylist(), key=lambda row: row["k"])
    assert list(map(compared, read)) == list(map(compared, due))
    assert scan.nulled_values == dict(model.unfit())
    # Filtering with all pruning on equals filtering all rows.
    assert found(table, "a IS NULL") == [row for row in found(table) if row["a"] is None]
    for value in [row["a"] for row in due if row["a"] is not None and row["a"] == row["a"]][:3]:
        literal = f"'{value}'" if isinstance(value, str) else str(value)
        for operator, keeps in (("=", value.__eq__), ("<>", value.__ne__)):
            kept = [row for row in due if row["a"] is not None and keeps(row["a"])]
            assert list(map(compared, found(table, f"a {operator} {literal}"))) == list(
                map(compared, kept)
            )
    result = compact(table, full=True, min_files=2)
    assert result.nulled_values <= sum(model.unfit().values())
    assert list(map(compared, found(table))) == list(map(compared, due))
    again = table.scan()
    again.read()
    assert sum(again.nulled_values.values()) + result.nulled_values == sum(model.unfit().values())
    assert_only_reachable_files(table)


@pytest.mark.sampled(1)
@keys_of_tables
@pytest.mark.mission("SE40")
@settings(max_examples=max(10, settings().max_examples // 4))
@given(data=st.data())
def test_a_read_fails_exactly_if_a_row_holds_what_does_not_fit(
    keys: list[str], data: st.DataObject
) -> None:
    table, model = history("explicit-fail", keys, data.draw, data.draw(formats))
    before = table.history.latest_snapshot()
    if not model.unfit():
        compact(table, full=True, min_files=2)
        due = [nulled(row) for row in model.seen()]
        assert list(map(compared, found(table))) == list(map(compared, due))
        return
    with pytest.raises(UnfitValues) as caught:
        table.read()
    assert caught.value.details["column"] in model.unfit()
    try:
        compact(table, full=True, min_files=2)
    except UnfitValues:
        assert table.history.latest_snapshot() == before
    assert_only_reachable_files(table)
