"""Random histories of a table: alters between writes, compactions, tags and expiry.

The model knows each row as values by the ids of columns, and casts them as the table of casts says.
What a filter keeps must be what the filter keeps of all rows, so no statistics of an older type or
name may hide a row.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Callable
from dataclasses import dataclass, field
from decimal import Decimal
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from lakewright.storage import (
    AddColumn,
    Catalog,
    ChangeType,
    DropColumn,
    MoveColumn,
    Position,
    RenameColumn,
    Side,
    Table,
)
from tests.support.tables.builders import ANY_LOSS, compact, expire, new_table, rows
from tests.support.tables.environment import FixedEnv
from tests.support.tables.invariants import assert_only_reachable_files

_NUMBERS = itertools.count()
NAMES = ("a", "b", "c", "d")
MEMBERS = ("x", "y", "z")
# The types of columns, values of them, and implicit casts with what they make of a value.
VALUES: dict[str, list[Any]] = {
    "SMALLINT": [0, -1, 7, 32767, -32768],
    "INT": [0, -1, 7, 2**31 - 1, -(2**31)],
    "BIGINT": [0, -1, 7, 2**40, -(2**63)],
    "DECIMAL(22, 2)": [Decimal("0.00"), Decimal("7.00"), Decimal("-0.05")],
    "DOUBLE": [0.0, -1.5, 7.0, 1e300],
    "VARCHAR(3)": ["", "a", "ab", "zzz"],
    "STRING": ["", "a", "ab", "zzzz"],
    "DATE": [],
}
CASTS: dict[str, dict[str, Callable[[Any], Any]]] = {
    "SMALLINT": {"INT": int, "BIGINT": int, "DOUBLE": float},
    "INT": {"BIGINT": int, "DOUBLE": float, "DECIMAL(22, 2)": Decimal},
    "BIGINT": {"DECIMAL(22, 2)": Decimal},
    "DECIMAL(22, 2)": {"DOUBLE": float},
    "DOUBLE": {},
    "VARCHAR(3)": {"STRING": str, "VARCHAR(2)": lambda text: text[:2]},
    "STRING": {"VARCHAR(3)": lambda text: text[:3]},
    "VARCHAR(2)": {"STRING": str},
}
VALUES["VARCHAR(2)"] = ["", "a", "zz"]
TYPES = tuple(each for each in VALUES if each in CASTS)


@dataclass
class Column:
    """A column of the model: its id in the model, and what it is called and typed."""

    number: int
    name: str
    type: str


@dataclass
class Model:
    """Rows by key, each its values by the numbers of columns; `members` are those of row `r`."""

    columns: list[Column]
    members: list[Column]
    rows: dict[int, dict[int, Any]] = field(default_factory=dict)
    count: int = 100

    def seen(self) -> list[dict[str, Any]]:
        """The rows as a reader sees them."""
        return [
            {
                "k": key,
                "r": {each.name: values.get(each.number) for each in self.members},
                **{each.name: values.get(each.number) for each in self.columns},
            }
            for key, values in sorted(self.rows.items())
        ]

    def next_number(self) -> int:
        self.count += 1
        return self.count


class History:
    """Does steps on a table and on the model beside each other."""

    def __init__(self, table: Table, model: Model, draw: Callable[[Any], Any]) -> None:
        self.table = table
        self.model = model
        self.draw = draw
        self.tags: dict[str, list[dict[str, Any]]] = {}
        # The latest snapshot, and its rows under the schema that it was committed with.
        self.latest: tuple[int, list[dict[str, Any]]] | None = None

    def write(self) -> None:
        model, draw = self.model, self.draw
        written = []
        for key in draw(st.lists(st.integers(0, 5), min_size=1, max_size=3, unique=True)):
            if not self.table.schema.has_primary_key and key in model.rows:
                continue
            values = {
                each.number: draw(st.sampled_from([None, *VALUES[each.type]]))
                for each in (*model.columns, *model.members)
            }
            model.rows[key] = values
            written.append(next(row for row in model.seen() if row["k"] == key))
        if written:
            self.table.write(rows(self.table, written))
        self._look()

    def compact(self) -> None:
        compact(self.table, full=True)
        self._look()

    def _look(self) -> None:
        snapshots = self.table.history.snapshots()
        if snapshots and (self.latest is None or self.latest[0] != snapshots[-1].id):
            self.latest = snapshots[-1].id, self.model.seen()

    def tag(self) -> None:
        if self.latest is not None:
            name = f"t{len(self.tags)}"
            self.table.history.create_tag(name)
            self.tags[name] = self.latest[1]

    def expire(self) -> None:
        expire(self.table, keep=1)

    def add(self) -> None:
        columns, path, names = self._some_row()
        free = [name for name in names if name not in [each.name for each in columns]]
        if not free:
            return
        name, kind = self.draw(st.sampled_from(free)), self.draw(st.sampled_from(TYPES))
        self._alter(AddColumn(path + name, kind))
        columns.append(Column(self.model.next_number(), name, kind))

    def drop(self) -> None:
        columns, path, _ = self._some_row()
        if len(columns) > 1:
            column = self.draw(st.sampled_from(columns))
            self._alter(DropColumn(path + column.name))
            columns.remove(column)
            for values in self.model.rows.values():
                values.pop(column.number, None)

    def rename(self) -> None:
        columns, path, names = self._some_row()
        free = [name for name in names if name not in [each.name for each in columns]]
        if free and columns:
            column, name = self.draw(st.sampled_from(columns)), self.draw(st.sampled_from(free))
            self._alter(RenameColumn(path + column.name, name))
            column.name = name

    def swap(self) -> None:
        columns, path, _ = self._some_row()
        if len(columns) < 2:
            return
        one, other = columns[0], columns[-1]
        self._alter(
            RenameColumn(path + one.name, "swapped"),
            RenameColumn(path + other.name, one.name),
            RenameColumn(path + "swapped", other.name),
        )
        one.name, other.name = other.name, one.name

    def retype(self) -> None:
        columns, path, _ = self._some_row()
        for column in columns:
            targets = CASTS[column.type]
            if targets:
                kind = self.draw(st.sampled_from(sorted(targets)))
                self._alter(ChangeType(path + column.name, kind))
                for values in self.model.rows.values():
                    if values.get(column.number) is not None:
                        values[column.number] = targets[kind](values[column.number])
                column.type = kind
                return

    def move(self) -> None:
        columns, path, _ = self._some_row()
        if len(columns) > 1:
            column = self.draw(st.sampled_from(columns))
            side = self.draw(st.sampled_from([Side.FIRST, Side.LAST]))
            self._alter(MoveColumn(path + column.name, Position(side)))

    def _some_row(self) -> tuple[list[Column], str, tuple[str, ...]]:
        if self.draw(st.booleans()):
            return self.model.columns, "", NAMES
        return self.model.members, "r.", MEMBERS

    def _alter(self, *changes: Any) -> None:
        # The model knows what values become; here no loss is a reason to refuse.
        self.table = self.table.alter(*changes, rules=ANY_LOSS)

    def check(self) -> None:
        """Compare all rows, what filters keep, and what tags keep."""
        due = self.model.seen()
        assert _sorted(self.table.read()) == due
        for column in self.model.columns:
            for operator in ("=", "<", ">="):
                value = self.draw(st.sampled_from(VALUES[column.type]))
                literal = f"'{value}'" if isinstance(value, str) else str(value)
                found = _sorted(self.table.read(f"{column.name} {operator} {literal}"))
                kept = [row for row in due if _holds(row[column.name], operator, value)]
                assert found == kept, (column, operator, value)
            found = _sorted(self.table.read(f"{column.name} IS NULL"))
            assert found == [row for row in due if row[column.name] is None]
        for name, rows_then in self.tags.items():
            assert _sorted(self.table.at(tag=name).read()) == rows_then


def _sorted(table: Any) -> list[dict[str, Any]]:
    return sorted(table.to_pylist(), key=lambda row: row["k"])


def _holds(value: Any, operator: str, literal: Any) -> bool:
    if value is None or (isinstance(value, float) and math.isnan(value)):
        return False
    return {
        "=": lambda: value == literal,
        "<": lambda: value < literal,
        ">=": lambda: value >= literal,
    }[operator]()


STEPS = ("write", "write", "compact", "tag", "expire", "add", "drop", "rename", "swap", "retype")


@pytest.mark.sampled(2)
@pytest.mark.parametrize("keys", [[], ["k"]], ids=["append", "keyed"])
@pytest.mark.parametrize("file_format", ["parquet", "orc", "avro"])
@pytest.mark.mission("SE1", "SE8", "SE11", "SE25", "SE36", "SE37")
@settings(max_examples=max(8, settings().max_examples // 10))
@given(data=st.data())
def test_rows_filters_and_tags_are_those_of_the_model_after_every_step(
    keys: list[str], file_format: str, data: st.DataObject
) -> None:
    catalog = Catalog.open(f"memory://schema-histories-{next(_NUMBERS)}", env=FixedEnv())
    options = {"file.format": file_format, **({"bucket": "1"} if keys else {})}
    columns = {"k": "INT", "r": "ROW<x INT, y STRING>", "a": "INT", "b": "STRING"}
    table = new_table(catalog, columns, keys=keys, options=options)
    model = Model(
        [Column(1, "a", "INT"), Column(2, "b", "STRING")],
        [Column(3, "x", "INT"), Column(4, "y", "STRING")],
    )

    def draw(strategy: Any) -> Any:
        return data.draw(strategy)

    history = History(table, model, draw)
    history.write()
    for name in data.draw(st.lists(st.sampled_from([*STEPS, "move"]), max_size=12)):
        getattr(history, name)()
    history.check()
    assert_only_reachable_files(history.table)
