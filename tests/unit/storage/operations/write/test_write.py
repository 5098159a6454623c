"""Writing: modes, partitions, numbering, rolling, and rows that do not fit."""

from __future__ import annotations

import datetime as dt
import warnings
from decimal import Decimal
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from lakewright.storage import Catalog, Table
from lakewright.storage.errors import InvalidRequestError, InvalidRows
from tests.support.stores.watched_files import watched
from tests.support.tables.builders import (
    EVENTS,
    compact,
    content,
    events,
    expire,
    new_table,
    rows,
    values_of,
    with_options,
)
from tests.support.tables.invariants import assert_only_reachable_files
from tests.support.values.every_type import ATOMS, NESTED, table_of


def days_of(table: Table) -> dict[Any, int]:
    """Rows by partition, from metadata alone."""
    return {each.spec["day"]: each.row_count for each in table.at().partitions()}


@pytest.mark.mission("PT28")
def test_appended_rows_are_added_to_those_there(any_catalog: Catalog) -> None:
    table = new_table(any_catalog)
    table.write(rows(table, events(0, 3)))
    table.write(rows(table, events(2, 5)))
    assert values_of(table, "id") == [0, 1, 2, 2, 3, 4]
    before = content(table)
    compact(table, full=True)
    expire(table)
    assert content(table) == before


@pytest.mark.mission("PT10", "PT12", "PT9", "PT21", "RS2", "RS4")
def test_partitions_appear_by_being_written(any_catalog: Catalog) -> None:
    table = new_table(any_catalog, partitions=["day"])
    staged = table.stage(rows(table, [*events(0, 3, day="a"), *events(0, 1, day=None)]))
    assert {each.spec["day"]: each.row_count for each in staged.partitions} == {"a": 3, None: 1}
    table.commit(staged)
    table.write(rows(table, events(5, 7, day="b")))
    assert days_of(table) == {None: 1, "a": 3, "b": 2}
    assert table.read().column_names == ["id", "day", "v"]
    # The column lies in the files too.
    entry = table.at().files()[0]
    path = table.table_files.data_file_path(entry.place, entry.file)
    with table.table_files.fs.open_input(path) as source:
        assert "day" in pq.ParquetFile(source).schema_arrow.names


@pytest.mark.mission("PT11", "PT25", "PT26", "PT35", "RS12")
def test_a_static_partition_fills_the_column_that_rows_leave_out(catalog: Catalog) -> None:
    table = new_table(catalog, partitions=["day"])
    table.write(rows(table, events(0, 2)).drop_columns(["day"]), partition={"day": "x"})
    assert days_of(table) == {"x": 2}
    # Rows that carry the column must agree.
    table.write(rows(table, events(5, 6, day="x")), partition={"day": "x"})
    with pytest.raises(InvalidRows, match=r"for partition day=x, and rows hold \['y'\]"):
        table.write(rows(table, events(5, 6, day="y")), partition={"day": "x"})
    table.write(rows(table, events(8, 9)).drop_columns(["day"]), partition={"day": None})
    assert days_of(table) == {None: 1, "x": 3}


@pytest.mark.parametrize(
    ("given", "stored"), [("2024-01-02", dt.date(2024, 1, 2)), (dt.date(2024, 1, 2),) * 2]
)
def test_partition_values_are_taken_as_text_or_as_themselves(
    catalog: Catalog, given: object, stored: object
) -> None:
    table = new_table(catalog, {"id": "INT", "day": "DATE"}, partitions=["day"])
    table.write(pa.table({"id": [1]}), partition={"day": given})
    assert list(days_of(table)) == [stored]


def test_a_partition_that_is_none_is_refused(catalog: Catalog) -> None:
    table = new_table(catalog, {"id": "INT", "day": "DATE"}, partitions=["day"])
    for mode in ("append", "overwrite"):
        with pytest.raises(InvalidRequestError, match="its partition keys are day"):
            table.write(pa.table({"id": [1]}), mode=mode, partition={"id": 1})
        with pytest.raises(InvalidRequestError, match="is not a valid DATE"):
            table.write(pa.table({"id": [1]}), mode=mode, partition={"day": "yesterday"})
    with pytest.raises(InvalidRows, match="convert"):
        table.write(pa.table({"id": [1], "day": ["x"]}), partition={"day": "2024-01-02"})
    assert table.history.latest_snapshot() is None


def two_days(catalog: Catalog, **settings: Any) -> Table:
    table = new_table(catalog, partitions=["day"], **settings)
    table.write(rows(table, [*events(0, 3, day="a"), *events(0, 3, day="b")]))
    return table


@pytest.mark.mission("PT27", "PT36")
def test_a_dynamic_overwrite_replaces_the_partitions_that_rows_touch(catalog: Catalog) -> None:
    table = two_days(catalog)
    table.write(rows(table, events(7, 8, day="b")), mode="overwrite")
    assert days_of(table) == {"a": 3, "b": 1}
    # No rows, no partitions, nothing to do.
    result = table.write(rows(table, []), mode="overwrite")
    assert result.snapshot is None
    assert days_of(table) == {"a": 3, "b": 1}


@pytest.mark.mission("PT36")
def test_an_overwrite_of_everything_is_asked_for_by_call_or_by_option(catalog: Catalog) -> None:
    table = two_days(catalog)
    table.write(rows(table, events(7, 8, day="b")), mode="overwrite", dynamic=False)
    assert days_of(table) == {"b": 1}
    fixed = with_options(table, dynamic_partition_overwrite="false")
    fixed.write(rows(table, events(7, 9, day="c")), mode="overwrite")
    assert days_of(table) == {"c": 2}
    fixed.write(rows(table, events(0, 1, day="a")), mode="overwrite", dynamic=True)
    assert days_of(table) == {"a": 1, "c": 2}


@pytest.mark.mission("PT27", "PT29")
def test_a_static_overwrite_replaces_its_partition_even_by_nothing(catalog: Catalog) -> None:
    table = two_days(catalog)
    new = rows(table, events(7, 8)).drop_columns(["day"])
    table.write(new, mode="overwrite", partition={"day": "a"})
    assert days_of(table) == {"a": 1, "b": 3}
    table.write(new, mode="overwrite", partition={"day": "new"})
    assert days_of(table) == {"a": 1, "b": 3, "new": 1}
    table.write(new.slice(0, 0), mode="overwrite", partition={"day": "a"})
    assert days_of(table) == {"b": 3, "new": 1}


@pytest.mark.mission("PT31", "PT34", "RS5")
def test_a_partly_static_overwrite_stays_within_what_is_fixed(catalog: Catalog) -> None:
    columns = {"day": "STRING", "hour": "INT", "id": "INT"}

    def filled(name: str) -> Table:
        table = new_table(catalog, columns, name=name, partitions=["day", "hour"])
        table.write(rows(table, [{"day": d, "hour": h, "id": 0} for d in "ab" for h in (1, 2)]))
        return table

    new = pa.table({"hour": pa.array([2, 3], pa.int32()), "id": pa.array([9, 9], pa.int32())})
    for dynamic, places in (
        (True, [("a", 1, 0), ("a", 2, 9), ("a", 3, 9), ("b", 1, 0), ("b", 2, 0)]),
        (False, [("a", 2, 9), ("a", 3, 9), ("b", 1, 0), ("b", 2, 0)]),
    ):
        table = filled(f"db.t{dynamic}")
        table.write(new, mode="overwrite", partition={"day": "a"}, dynamic=dynamic)
        assert sorted(tuple(row.values()) for row in table.read().to_pylist()) == places


def test_an_unpartitioned_table_is_overwritten_whole(catalog: Catalog) -> None:
    table = new_table(catalog)
    table.write(rows(table, events(0, 3)))
    table.write(rows(table, events(7, 8)), mode="overwrite")
    assert values_of(table, "id") == [7]
    table.write(rows(table, []), mode="overwrite")
    assert table.read().num_rows == 0


@pytest.mark.parametrize("mode", ["", "insert", "OVERWRITE"])
def test_an_unknown_mode_is_refused(catalog: Catalog, mode: str) -> None:
    table = new_table(catalog)
    with pytest.raises(InvalidRequestError, match="not one of append, upsert, overwrite"):
        table.write(rows(table, []), mode=mode)


@pytest.mark.mission("FS5", "FS6", "LG7")
def test_the_last_row_of_a_key_counts_within_and_between_writes(any_catalog: Catalog) -> None:
    table = new_table(any_catalog, keys=["id"], options={"bucket": "2"})
    table.write(rows(table, [*events(0, 3, v="a"), *events(1, 3, v="b")]), mode="upsert")
    assert values_of(table, "v") == ["a0", "b1", "b2"]
    table.write(rows(table, events(2, 4, v="c")))
    assert values_of(table, "v") == ["a0", "b1", "c2", "c3"]


@pytest.mark.mission("FS5")
def test_sequence_numbers_go_on_from_those_in_the_bucket(catalog: Catalog) -> None:
    table = new_table(catalog, keys=["id"], options={"bucket": "1"})
    for _ in range(3):
        table.write(rows(table, events(0, 4)))
    spans = sorted(
        (each.file.min_sequence_number, each.file.max_sequence_number)
        for each in table.at().files()
    )
    assert spans == [(0, 3), (4, 7), (8, 11)]
    compact(table, full=True)
    (entry,) = table.at().files()
    # Rows keep their numbers when they are compacted.
    assert (entry.file.min_sequence_number, entry.file.max_sequence_number) == (8, 11)
    table.write(rows(table, events(0, 1)))
    assert max(each.file.min_sequence_number for each in table.at().files()) == 12


def test_row_kinds_are_taken_by_name_and_by_number(catalog: Catalog) -> None:
    table = new_table(catalog, keys=["id"], options={"bucket": "1"})
    table.write(rows(table, events(0, 4)))
    table.write(rows(table, events(0, 3, v="new"), ["-D", "+U", "-U"]))
    assert values_of(table, "v") == ["new1", "v3"]
    numbered = rows(table, events(1, 4, v="x")).append_column(
        "_rowkind", pa.array([3, 2, 0], pa.int8())
    )
    table.write(numbered)
    assert values_of(table, "v") == ["x2", "x3"]
    # A key deleted and written again in one go is there.
    table.write(rows(table, [*events(2, 3), *events(2, 3, v="back")], ["-D", "+I"]))
    assert values_of(table, "v") == ["back2", "x3"]
    (file, *_) = [each.file for each in table.at().files()]
    assert file.delete_row_count is not None


def test_deletions_are_counted_in_the_metadata_of_files(catalog: Catalog) -> None:
    table = new_table(catalog, keys=["id"], options={"bucket": "1"})
    table.write(rows(table, events(0, 4), ["+I", "-D", "-U", "+U"]))
    (entry,) = table.at().files()
    assert (entry.file.row_count, entry.file.delete_row_count) == (4, 2)
    assert values_of(table, "id") == [0, 3]


@pytest.mark.parametrize("kind", ["insert", "", None, "4"])
def test_an_unknown_row_kind_is_refused(catalog: Catalog, kind: str | None) -> None:
    table = new_table(catalog, keys=["id"], options={"bucket": "1"})
    bad = rows(table, events(0, 1)).append_column("_rowkind", pa.array([kind], pa.string()))
    with pytest.raises(InvalidRows, match=r"write \+I, -U, \+U or -D"):
        table.write(bad)
    assert_only_reachable_files(table)


def test_a_table_without_keys_takes_insertions_only(catalog: Catalog) -> None:
    table = new_table(catalog)
    table.write(rows(table, events(0, 1), ["+I"]))
    with pytest.raises(InvalidRows, match=r"takes \+I rows only"):
        table.write(rows(table, events(0, 1), ["-D"]))
    assert values_of(table, "id") == [0]


def test_files_are_rolled_at_the_target_size_and_keys_stay_in_order(catalog: Catalog) -> None:
    table = new_table(catalog, keys=["id"], options={"bucket": "1", "target-file-size": "2 kb"})
    table.write(rows(table, [{"id": i, "day": "a", "v": "x" * 100} for i in range(100)]))
    files = [entry.file for entry in table.at().files()]
    assert len(files) > 2
    assert sum(file.row_count for file in files) == 100
    assert table.read().num_rows == 100
    # Files of one write do not overlap, so they are read without merging.
    assert all(not split.merge for split in table.scan().plan.splits)


def test_data_files_are_parquet_as_every_reader_wants_it(catalog: Catalog) -> None:
    columns, values = table_of(ATOMS)
    table = new_table(catalog, columns)
    table.write(rows(table, values))
    (entry,) = table.at().files()
    path = table.table_files.data_file_path(entry.place, entry.file)
    schema = pq.ParquetFile(path).schema
    physical = {
        schema.column(index).name: (schema.column(index).physical_type)
        for index in range(len(schema.names))
    }
    by_type = {name: physical[f"c{index}"] for index, name in enumerate(ATOMS)}
    assert by_type["DECIMAL(5, 2)"] == "INT32"
    assert by_type["DECIMAL(15, 3)"] == "INT64"
    assert by_type["DECIMAL(38, 10)"] == "FIXED_LEN_BYTE_ARRAY"
    assert by_type["TIMESTAMP(3)"] == by_type["TIMESTAMP(6)"] == "INT64"
    assert by_type["TINYINT"] == by_type["DATE"] == by_type["TIME(3)"] == "INT32"
    assert pq.ParquetFile(path).metadata.row_group(0).column(0).compression == "ZSTD"


# --- merge engines -------------------------------------------------------------------------------


def merging(
    catalog: Catalog, columns: dict[str, str], *, name: str = "db.t", **options: str
) -> Table:
    named = {key.replace("__", ".").replace("_", "-"): value for key, value in options.items()}
    return new_table(catalog, columns, name=name, keys=["id"], options={"bucket": "1", **named})


@pytest.mark.mission("FS2", "FS6")
def test_rows_of_one_flush_are_merged_by_the_tables_engine(catalog: Catalog) -> None:
    columns = {"id": "INT", "a": "INT", "b": "STRING"}
    given = [{"id": 1, "a": 1}, {"id": 1, "b": "x"}, {"id": 2, "a": 5}, {"id": 1, "a": 3}]
    expected = {
        "deduplicate": {"id": 1, "a": 3, "b": None},
        "partial-update": {"id": 1, "a": 3, "b": "x"},
        "aggregation": {"id": 1, "a": 4, "b": "x"},
    }
    for engine, row in expected.items():
        more = {"fields.a.aggregate-function": "sum"} if engine == "aggregation" else {}
        options = {"bucket": "1", "merge-engine": engine, **more}
        table = new_table(catalog, columns, name=f"db.{engine}", keys=["id"], options=options)
        table.write(rows(table, given))
        (entry,) = table.at().files()
        # The file holds one row of each key already.
        assert entry.file.row_count == 2
        assert table.read().sort_by("id").to_pylist() == [row, {"id": 2, "a": 5, "b": None}]


def test_of_a_flush_the_row_with_the_highest_sequence_counts(catalog: Catalog) -> None:
    columns = {"id": "INT", "at": "INT", "v": "STRING"}
    table = merging(catalog, columns, sequence__field="at")
    given = [(1, 5, "five"), (1, 3, "three"), (1, None, "none"), (1, 5, "five again")]
    table.write(rows(table, [{"id": i, "at": at, "v": v} for i, at, v in given]))
    assert values_of(table, "v") == ["five again"]
    table.write(rows(table, [{"id": 1, "at": 4, "v": "late"}]))
    assert values_of(table, "v") == ["five again"]
    other = merging(
        catalog,
        columns,
        name="db.descending",
        sequence__field="at",
        sequence__field__sort_order="descending",
    )
    other.write(rows(other, [{"id": i, "at": at, "v": v} for i, at, v in given]))
    assert values_of(other, "v") == ["three"]


def test_row_kinds_come_from_a_column_where_the_table_says_so(catalog: Catalog) -> None:
    table = merging(catalog, {"id": "INT", "op": "STRING", "v": "STRING"}, rowkind__field="op")
    kinds = ["+I", "+I", "-D", "+U"]
    given = [{"id": i, "op": op, "v": op} for i, op in zip([1, 2, 1, 3], kinds, strict=True)]
    table.write(rows(table, given))
    assert table.read().sort_by("id").to_pylist() == [
        {"id": 2, "op": "+I", "v": "+I"},
        {"id": 3, "op": "+U", "v": "+U"},
    ]
    for bad, words in (
        (["+I", "delete", None], r"column op holds 'delete' in row 1, and 2 of 3 rows hold no row"),
        (["+I", None, "+I"], r"column op holds None in row 1, and 1 of 3 rows"),
    ):
        with pytest.raises(InvalidRows, match=words):
            table.write(rows(table, [{"id": n, "op": op} for n, op in enumerate(bad)]))
    with pytest.raises(InvalidRows, match="takes row kinds from its column op"):
        table.write(rows(table, [{"id": 1, "op": "+I"}], ["+I"]))
    assert_only_reachable_files(table)


@pytest.mark.parametrize(
    ("option", "left"),
    [("ignore-delete", ["v0", "v1", "v2"]), ("ignore-update-before", ["v1", "v2"])],
)
def test_rows_that_the_table_ignores_are_left_out(
    catalog: Catalog, option: str, left: list[str]
) -> None:
    table = new_table(catalog, keys=["id"], options={"bucket": "1", option: "true"})
    table.write(rows(table, events(0, 3)))
    result = table.write(rows(table, events(0, 2), ["-D", "-U"]))
    assert values_of(table, "v") == left
    if option == "ignore-delete":
        # Nothing was left to write, and no number was used up.
        assert result.snapshot is None
        table.write(rows(table, events(5, 6)))
        assert max(each.file.max_sequence_number for each in table.at().files()) == 3


REFUSED_DELETIONS: dict[str, tuple[dict[str, str], str]] = {
    "first-row": ({}, "a first row cannot be retracted; set ignore-delete=true"),
    "partial-update": ({}, "a partial update cannot be retracted; set ignore-delete=true"),
    "aggregation": (
        {"fields.v.aggregate-function": "max"},
        "column v aggregates by max, which cannot be retracted",
    ),
}


@pytest.mark.parametrize("engine", list(REFUSED_DELETIONS))
@pytest.mark.parametrize("kind", ["-D", "-U"])
def test_deletions_that_an_engine_can_make_nothing_of_are_refused_before_they_are_written(
    catalog: Catalog, engine: str, kind: str
) -> None:
    more, words = REFUSED_DELETIONS[engine]
    columns = {"id": "INT", "v": "INT"}
    options = {"bucket": "1", "merge-engine": engine, **more}
    table = new_table(catalog, columns, keys=["id"], options=options)
    new = rows(table, [{"id": 1, "v": 1}, {"id": 2, "v": 2}], ["+I", kind])
    with pytest.raises(
        InvalidRows, match=f"merge-engine={engine}, and 1 of 2 rows are {kind}: {words}"
    ):
        table.write(new)
    assert table.history.latest_snapshot() is None
    ignoring = new_table(
        catalog, columns, name="db.i", keys=["id"], options={**options, "ignore-delete": "true"}
    )
    ignoring.write(new)
    assert [entry.file.row_count for entry in ignoring.at().files()] == [1]


def test_deletions_that_an_engine_can_take_back_are_written(catalog: Catalog) -> None:
    table = merging(
        catalog,
        {"id": "INT", "n": "INT"},
        merge_engine="aggregation",
        fields__n__aggregate_function="sum",
    )
    table.write(rows(table, [{"id": 1, "n": 10}, {"id": 1, "n": 3}], ["+I", "-U"]))
    table.write(rows(table, [{"id": 1, "n": 2}], ["-D"]))
    assert values_of(table, "n") == [5]


@pytest.mark.parametrize("table_keys", [["id"], []])
def test_many_kinds_are_told_apart_and_the_first_that_is_none_is_named(
    catalog: Catalog, table_keys: list[str]
) -> None:
    options = {"bucket": "1"} if table_keys else {}
    table = new_table(catalog, keys=table_keys, options=options)
    kinds = ["+I"] * 5 + ["gone", "+I", "lost"]
    with pytest.raises(
        InvalidRows, match="_rowkind holds 'gone' in row 5, and 2 of 8 rows hold no row kind"
    ):
        table.write(rows(table, events(0, 8), kinds))
    assert_only_reachable_files(table)


# --- rows that do not fit -----------------------------------------------------------------------

COLUMNS = {
    "k": "INT NOT NULL",
    "s": "VARCHAR(3)",
    "b": "BINARY(2)",
    "d": "DECIMAL(5, 2)",
    "f": "FLOAT",
    "t": "TIMESTAMP(3)",
    "z": "TIMESTAMP(6) WITH LOCAL TIME ZONE",
    "a": "ARRAY<INT NOT NULL>",
    "m": "MAP<STRING, VARCHAR(2)>",
    "r": "ROW<x INT NOT NULL, y DECIMAL(3, 1)>",
}
UTC = dt.UTC
BAD: dict[str, tuple[str, pa.Array, str]] = {
    "null in a required column": ("k", pa.array([1, None], pa.int32()), "k is NOT NULL, and 1 of"),
    "a number out of range": ("k", pa.array([1, 2**40]), "does not fit"),
    "a fraction for a whole number": ("k", pa.array([1.0, 2.5]), "convert them first"),
    "text for a number": ("k", pa.array(["1", "2"]), "convert the text first"),
    "text too long": (
        "s",
        pa.array(["abc", "abcd"]),
        r"s is VARCHAR\(3\), and a value is 4 long: 1 of 2 do not fit, first 'abcd'",
    ),
    "bytes too long": ("b", pa.array([b"ab", b"abc"]), "a value is 3 long: 1 of 2 do not fit"),
    "a decimal with too many digits": (
        "d",
        pa.array([Decimal("1.00"), Decimal("1000.00")]),
        "does not fit",
    ),
    "a decimal with too fine a scale": (
        "d",
        pa.array([Decimal("1.000"), Decimal("1.005")]),
        "does not fit",
    ),
    "a float that is infinite only here": ("f", pa.array([1.0, 1e300]), "does not fit"),
    "a timestamp too fine": ("t", pa.array([0, 1], pa.timestamp("us")), "does not fit"),
    "a moment for a local time": (
        "t",
        pa.array([0, 0], pa.timestamp("ms", "UTC")),
        "convert them first",
    ),
    "a local time for a moment": ("z", pa.array([0, 0], pa.timestamp("us")), "convert them first"),
    "null in a list": ("a", pa.array([[1], [None]], pa.list_(pa.int32())), r"null|null in a\[\]"),
    "text in a list of numbers": ("a", pa.array([["1"], []]), "convert"),
    "text too long in a map": (
        "m",
        pa.array([[("k", "abc")], []], pa.map_(pa.string(), pa.string())),
        "3 long",
    ),
    "null in a member": (
        "r",
        pa.array(
            [{"x": None, "y": None}] * 2, pa.struct([("x", pa.int32()), ("y", pa.decimal128(3, 1))])
        ),
        "field 'x' of type int32 has nulls",
    ),
    "a decimal too large in a member": (
        "r",
        pa.array(
            [{"x": 1, "y": Decimal("100.0")}] * 2,
            pa.struct([("x", pa.int32()), ("y", pa.decimal128(5, 1))]),
        ),
        "does not fit",
    ),
    "a member that is not there": (
        "r",
        pa.array([{"x": 1}] * 2, pa.struct([("x", pa.int32())])),
        "convert",
    ),
    "a member too many": (
        "r",
        pa.array(
            [{"x": 1, "y": None, "w": 1}] * 2,
            pa.struct([("x", pa.int32()), ("y", pa.decimal128(3, 1)), ("w", pa.int32())]),
        ),
        "convert",
    ),
}


@pytest.mark.parametrize(
    ("name", "column"),
    [
        ("k", pa.chunked_array([pa.array([1, 2]), pa.array([3, None, None])])),
        ("s", pa.chunked_array([["a", "b"], [None, "long", "long"]])),
        ("d", pa.chunked_array([pa.array([1, 2, 3, 1000, 4])])),
        ("d", pa.chunked_array([pa.array([Decimal("1.000")] * 3 + [Decimal("1.005")] * 2)])),
        ("a", pa.chunked_array([pa.array([[1], [], None, [2, None], [None]])])),
    ],
)
def test_the_first_row_that_does_not_fit_is_shown(
    catalog: Catalog, name: str, column: pa.ChunkedArray
) -> None:
    table = new_table(catalog, COLUMNS)
    good = rows(table, [{"k": at, "s": f"r{at}"} for at in range(5)])
    bad = good.set_column(good.column_names.index(name), name, column)
    key = "k=None, s='r3'" if name == "k" else "k=3, s="
    with pytest.raises(InvalidRows, match=f"; the first such row: {key}.*, …$"):
        table.write(bad)


@pytest.mark.parametrize("case", list(BAD))
@pytest.mark.parametrize("keys", [[], ["k"]], ids=["append", "keyed"])
def test_a_row_that_does_not_fit_is_refused_and_leaves_nothing(
    catalog: Catalog, keys: list[str], case: str
) -> None:
    table = new_table(catalog, COLUMNS, keys=keys, options={"bucket": "2"} if keys else {})
    good = rows(table, [{"k": 1}, {"k": 2}])
    name, column, words = BAD[case]
    index = good.column_names.index(name)
    bad = good.set_column(index, name, pa.chunked_array([column]))
    watching, fs = watched(table)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        with pytest.raises(InvalidRows, match=words) as caught:
            # Good rows first: what they wrote must go again.
            watching.write([good, bad])
    assert caught.value.table == "db.t"
    assert table.history.latest_snapshot() is None
    assert_only_reachable_files(table)
    assert fs.changes == [] or any(call.name in ("delete", "open_output") for call in fs.changes)


BAD_COLUMNS: dict[str, tuple[list[str], str]] = {
    "missing": (["day", "v"], "lack column id"),
    "unknown": (["id", "day", "v", "w"], "have unknown column w"),
    "both": (["id", "v", "w"], "lack column day and have unknown column w"),
    "twice": (["id", "day", "v", "v"], "column v more than once"),
}


@pytest.mark.parametrize("case", list(BAD_COLUMNS))
def test_columns_must_be_those_of_the_table(catalog: Catalog, case: str) -> None:
    table = new_table(catalog, {**EVENTS, "id": "STRING NOT NULL"})
    names, words = BAD_COLUMNS[case]
    given = pa.Table.from_arrays([pa.array(["1"])] * len(names), names)
    with pytest.raises(InvalidRows, match=f"{words}; the rows have .*; the table has id, day, v"):
        table.write(given)
    assert_only_reachable_files(table)


@pytest.mark.mission("PT32")
def test_columns_are_found_by_name_and_widened_where_nothing_is_lost(catalog: Catalog) -> None:
    columns = {
        "i": "BIGINT",
        "f": "DOUBLE",
        "s": "STRING",
        "d": "DECIMAL(10, 3)",
        "t": "TIMESTAMP(6)",
    }
    table = new_table(catalog, columns)
    table.write(
        pa.table(
            {
                "t": pa.array([1], pa.timestamp("s")),
                "d": pa.array([Decimal("1.5")]),
                "s": pa.array(["x"]).dictionary_encode(),
                "f": pa.array([1], pa.int16()),
                "i": pa.array([1], pa.uint8()),
            }
        )
    )
    (row,) = table.read().to_pylist()
    assert row == {
        "i": 1,
        "f": 1.0,
        "s": "x",
        "d": Decimal("1.500"),
        "t": dt.datetime(1970, 1, 1, 0, 0, 1),
    }


def test_batches_and_readers_are_rows_too(catalog: Catalog) -> None:
    table = new_table(catalog)
    new = rows(table, events(0, 6))
    table.write(new.to_batches()[0])
    table.write(iter(new.to_batches(max_chunksize=2)))
    table.write(pa.RecordBatchReader.from_batches(new.schema, new.to_batches()))
    assert table.read().num_rows == 18


def test_timestamps_that_int96_cannot_hold_are_refused_at_any_depth(catalog: Catalog) -> None:
    columns = {"n": "TIMESTAMP(9)", "t": "TIMESTAMP(6)", "r": "ROW<t TIMESTAMP(6)>"}
    table = new_table(catalog, columns)
    good = {"n": 1, "t": 1_000_000, "r": {"t": 5}}
    table.write(rows(table, [good]))
    assert table.read().num_rows == 1
    before = content(table)
    ancient = dt.datetime(1000, 1, 1)
    for bad in ({"t": ancient}, {"r": {"t": ancient}}):
        with warnings.catch_warnings():
            warnings.simplefilter("error")
            with pytest.raises(InvalidRows, match="1677 to 2262"):
                table.write(rows(table, [{**good, **bad}]))
    assert content(table) == before


def test_nanoseconds_are_kept(catalog: Catalog) -> None:
    columns = {"k": "INT", "n": "TIMESTAMP(9)", "z": "TIMESTAMP(9) WITH LOCAL TIME ZONE"}
    for keys in ([], ["n"]):
        table = new_table(
            catalog,
            columns,
            name=f"db.t{len(keys)}",
            keys=keys,
            options={"bucket": "1"} if keys else {},
        )
        table.write(rows(table, [{"k": 1, "n": -1, "z": 1}, {"k": 2, "n": 10**18 + 1}]))
        found = table.read().sort_by("k")
        assert [each.value for each in found.column("n")] == [-1, 10**18 + 1]
        compact(table, full=True)
        assert [each.value for each in table.read().sort_by("k").column("n")] == [-1, 10**18 + 1]


def test_a_disk_that_fails_while_rows_are_written_leaves_nothing(catalog: Catalog) -> None:
    from lakewright.storage.errors import UnavailableError

    table = new_table(catalog, partitions=["day"])
    broken, _ = watched(table, fail_at=2, counts=lambda call: call.name == "open_output")
    new = rows(table, [*events(0, 2, day="a"), *events(0, 2, day="b")])
    with pytest.raises(UnavailableError):
        broken.write(new)
    assert_only_reachable_files(table)


def test_a_table_in_an_awkward_folder_is_like_any_other(tmp_path: Path) -> None:
    catalog = Catalog.open(str(tmp_path / "a b%20#?{}[]*"))
    columns, values = table_of(NESTED)
    table = new_table(catalog, columns)
    table.write(rows(table, values))
    assert table.read().num_rows == len(values)
