"""A filter that leaves out row groups keeps the rows that a filter of all rows keeps."""

from __future__ import annotations

import datetime as dt
from decimal import Decimal
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from lakewright.storage import AddColumn, Catalog, ChangeType, DropColumn, Table
from lakewright.storage.codec.arrow_values import keep_matching
from tests.property.test_columnar_planning import predicates
from tests.support.tables.builders import ANY_LOSS, compact, comparable, rows, spec
from tests.support.tables.environment import FixedEnv
from tests.support.tables.fixtures import empty_memory, memory_uri

COLUMNS = {
    "k": "INT",
    "i": "INT",
    "s": "STRING",
    "c": "CHAR(3)",
    "b": "BYTES",
    "d": "DATE",
    "t": "TIMESTAMP(3)",
    "z": "TIMESTAMP_LTZ(6)",
    "n": "DECIMAL(9, 2)",
    "m": "DECIMAL(30, 2)",
    "f": "DOUBLE",
    "o": "BOOLEAN",
}
# Files of ORC hold no fractions of seconds before 1970.
_MICROS = (-2_000_000, -1_000_000, 0, 1, 2, 1_000_000)
_DAY = dt.datetime(2024, 1, 31)
VALUES: dict[str, st.SearchStrategy[Any]] = {
    "k": st.integers(0, 9),
    "i": st.integers(-3, 3),
    "s": st.sampled_from(["", "a", "ab", "é", "z"]),
    "c": st.sampled_from(["", "a", "a ", "ab"]),
    "b": st.sampled_from([b"", b"\x00", b"\x7f", b"\x80", b"\xff"]),
    "d": st.integers(0, 3).map(lambda day: (_DAY + dt.timedelta(days=day)).date()),
    "t": st.integers(-3, 3).map(lambda ms: dt.datetime(1970, 1, 1) + dt.timedelta(seconds=ms)),
    "z": st.sampled_from(_MICROS).map(
        lambda us: dt.datetime(1970, 1, 1, tzinfo=dt.UTC) + dt.timedelta(microseconds=us)
    ),
    "n": st.integers(-3, 3).map(lambda each: Decimal(each).scaleb(-2)),
    "m": st.integers(-3, 3).map(lambda each: Decimal(each).scaleb(-2)),
    "f": st.sampled_from([float("nan"), -0.0, 0.0, 1.5, float("inf")]),
    "o": st.booleans(),
}
# Literals as metadata holds them.
LITERALS = {
    **VALUES,
    "d": st.integers(19753, 19758),
    "t": st.integers(-3, 3).map(lambda each: each * 1_000_000_000),
    "z": st.sampled_from(_MICROS).map(lambda each: each * 1000),
}
KINDS: dict[str, dict[str, str] | None] = {
    "append": None,
    "latest": {},
    "vectors": {"deletion-vectors.enabled": "true"},
    "partial": {"merge-engine": "partial-update"},
    "sums": {"merge-engine": "aggregation", "fields.i.aggregate-function": "sum"},
}


@pytest.fixture(autouse=True)
def _empty_memory() -> Any:
    yield
    empty_memory()


@st.composite
def steps(draw: st.DrawFn, *, deletes: bool) -> list[tuple[str, Any]]:
    row = st.fixed_dictionaries(
        {"k": VALUES["k"]}, optional={name: VALUES[name] for name in COLUMNS if name != "k"}
    )
    written = st.lists(row, min_size=1, max_size=8).map(
        lambda found: sorted(found, key=lambda each: each["k"])
    )
    write = st.tuples(st.just("write"), written)
    others = [st.tuples(st.just(name), st.just(None)) for name in ("compact", "widen", "replace")]
    if deletes:
        others.append(st.tuples(st.just("delete"), written))
    return [draw(write), *draw(st.lists(st.one_of(write, write, *others), max_size=5))]


@pytest.mark.sampled(each="kind")
@pytest.mark.parametrize("file_format", ["parquet", "orc"])
@pytest.mark.parametrize("kind", KINDS)
@given(data=st.data())
@pytest.mark.sampled(2)
def test_a_filter_reads_what_a_filter_of_all_rows_keeps(
    data: st.DataObject, kind: str, file_format: str
) -> None:
    options = KINDS[kind]
    keyed = options is not None
    table = Catalog.open(memory_uri(), env=FixedEnv()).create_table(
        "db.t",
        spec(
            COLUMNS,
            keys=["k"] if keyed else [],
            # A row group for each row.
            options={"file.format": file_format, "file.block-size": "1 b"}
            | ({"bucket": "1", **options} if options is not None else {}),
        ),
    )
    altered: list[str] = []
    for step, given_rows in data.draw(steps(deletes=kind in ("latest", "vectors"))):
        match step:
            case "write":
                table.write(rows(table, _known(table, given_rows)))
            case "delete":
                marks = ["-D"] * len(given_rows)
                table.write(rows(table, _known(table, given_rows), marks))
            case "compact":
                compact(table, full=data.draw(st.booleans()), min_files=2)
            case _ if step not in altered:
                # Values of the old schema are cast, or are those of another column.
                altered.append(step)
                table = _altered(table, step)
    everything = table.read()
    names = [name for name in COLUMNS if name in table.schema.field_names]
    for _ in range(3):
        where = data.draw(predicates(names, LITERALS))
        columns = data.draw(st.none() | st.lists(st.sampled_from(names), min_size=1, unique=True))
        kept = keep_matching(everything, where, table.schema)
        kept = kept if columns is None else kept.select(columns)
        assert comparable(table.read(where, columns)) == comparable(kept), where


def _known(table: Table, given_rows: list[dict[str, Any]]) -> list[dict[str, Any]]:
    names = table.schema.field_names
    return [{key: value for key, value in row.items() if key in names} for row in given_rows]


def _altered(table: Table, step: str) -> Table:
    if step == "widen":
        return table.alter(ChangeType("i", "BIGINT"), rules=ANY_LOSS)
    changes = (DropColumn("s"), AddColumn("s", "STRING"))
    return table.alter(*changes, rules=ANY_LOSS)
