"""Columns whose type was changed: what is read of older files, and kept by a compaction, is Java's.

Every cast between atomic types that Java's `ALTER TABLE` allows is a column of one table.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from operator import eq, ge, gt, le, lt, ne
from typing import Any

import pytest

from lakewright.storage import Catalog, Table
from lakewright.storage.errors import UnsupportedError
from lakewright.storage.sql.where import parse_where
from tests.interop.test_they_read_ours import as_read_by
from tests.interop.test_we_read_theirs import create_theirs
from tests.oracles.client import JavaOracle
from tests.support.tables.builders import compact, content, new_table, rows
from tests.support.tables.invariants import assert_only_reachable_files
from tests.support.tables.zones import machine_in

# Left out is where the two releases of Java differ from the newest source: the time of the day
# before 1970 (negative there), and texts of numbers for which Java before 19 writes a digit more.
VALUES: dict[str, list[Any]] = {
    "BOOLEAN": [True, False],
    "TINYINT": [0, -1, 127, -128],
    "SMALLINT": [-1, 300, -32768, 32767],
    "INT": [0, -1, 70000, 2**31 - 1, -(2**31)],
    "BIGINT": [0, -1, 2**53 + 1, 2**63 - 1, -(2**63) + 1],
    "FLOAT": [0.0, 1.0, -0.0, 0.1, 1e20, -1e-5, 9999999.0, "NaN", "-Infinity", 127.5, -3e9],
    "DOUBLE": [1.0, 0.1, 1e20, -1e-5, 1e7, 0.001, "NaN", "Infinity", -300.7, 9.3e18, 1.005],
    "DECIMAL(5, 2)": ["0.00", "1.50", "-1.05", "999.99", "-0.01"],
    "DECIMAL(18, 6)": ["0.000000", "123456789012.345678", "-0.000001"],
    "DECIMAL(38, 10)": [
        "1234567890123456789012345678.0123456789",
        "9223372036854775808.5000000000",
    ],
    "CHAR(5)": ["ab", "abcde"],
    "VARCHAR(4)": ["", "abcd", "ä中b"],
    "STRING": ["", "hello world", "\U0001f600é"],
    "BINARY(3)": ["616263", "c3a462"],
    "BYTES": ["", "616263", "c3a4"],
    "DATE": ["2024-01-02", "1969-12-31", "0001-01-01", "9999-12-31"],
    "TIME(0)": ["00:00:00.000", "23:59:59.000"],
    "TIME(3)": ["23:59:59.999", "12:00:00.120", "12:00:00.005"],
    "TIMESTAMP(0)": ["2024-01-02T03:04:05", "1969-12-31T00:00:00"],
    "TIMESTAMP(3)": ["2024-01-02T03:04:05.120", "1969-12-31T12:00:00", "2024-01-01T00:00:00"],
    "TIMESTAMP(6)": ["2024-01-02T03:04:05.123456", "1969-12-31T12:00:00", "2024-01-01T00:00:00"],
    "TIMESTAMP(9)": ["2024-01-02T03:04:05.123456789", "2024-01-01T00:00:00"],
    "TIMESTAMP(3) WITH LOCAL TIME ZONE": ["2024-01-02T03:04:05.120Z", "1969-12-31T12:00:00Z"],
    "TIMESTAMP(6) WITH LOCAL TIME ZONE": ["2024-07-02T03:04:05.123456Z", "1969-12-31T12:00:00Z"],
}
WHOLE = ["TINYINT", "SMALLINT", "INT", "BIGINT"]
NUMBERS = [*WHOLE, "FLOAT", "DOUBLE", "DECIMAL(3, 1)", "DECIMAL(18, 6)", "DECIMAL(38, 18)"]
TEXTS = ["CHAR(3)", "VARCHAR(2)", "STRING"]
BINARIES = ["BINARY(5)", "VARBINARY(2)", "BYTES"]
TIMESTAMPS = [
    *(f"TIMESTAMP({precision})" for precision in (0, 1, 3, 6, 7)),
    *(f"TIMESTAMP({precision}) WITH LOCAL TIME ZONE" for precision in (3, 6)),
]


def targets(old: str) -> list[str]:
    match old.partition("(")[0]:
        case "BOOLEAN":
            return [*NUMBERS, *TEXTS]
        case "INT" | "BIGINT":
            return [*NUMBERS, *TEXTS, "BOOLEAN", "TIMESTAMP(3)"]
        case "TINYINT" | "SMALLINT":
            return [*NUMBERS, *TEXTS, "BOOLEAN"]
        case "FLOAT" | "DOUBLE" | "DECIMAL":
            return [*NUMBERS, *TEXTS]
        case "CHAR" | "VARCHAR" | "STRING":
            return [*TEXTS, *BINARIES]
        case "BINARY" | "BYTES":
            return [*BINARIES, *TEXTS]
        case "DATE" | "TIME":
            return ["STRING", *TIMESTAMPS]
        case _:
            return ["INT", "BIGINT", "STRING", "DATE", "TIME(3)", *TIMESTAMPS]


def fits(old: str, new: str, value: Any) -> bool:
    """Whether Java casts the value, and every format and Arrow's nanoseconds hold what it was."""
    if new.startswith("DECIMAL") and isinstance(value, str):
        return value not in ("NaN", "Infinity", "-Infinity")
    if new.startswith("TIME(") or (old == "DATE" and new != "STRING"):
        return not str(value).startswith(("0001", "1969", "9999"))
    if new.startswith("TIMESTAMP") and old in WHOLE:
        return abs(value) < 2**31
    return True


def casts() -> Iterator[tuple[str, str, list[Any]]]:
    for old, values in VALUES.items():
        for new in targets(old):
            if new != old:
                yield old, new, [each for each in values if fits(old, new, each)]
    yield from ((("STRING"), new, values) for new, values in READ_FROM_TEXTS.items())


READ_FROM_TEXTS: dict[str, list[Any]] = {
    "BOOLEAN": ["t", "TRUE", "Yes", "1", "f", "0", "No"],
    "TINYINT": ["1", "-128", "+5", "1.9", ".", "-1."],
    "BIGINT": ["9223372036854775807", "-9223372036854775808", "3.", "007"],
    "FLOAT": ["1", "NaN", "-Infinity", " 1.5e3 ", "0x1p3", "1e400", "1f", "-.5", "1e-50"],
    "DOUBLE": ["1", "+NaN", "+Infinity", "\t1.5e3 ", "0x1.8p3", "-1e400", "1d"],
    "DECIMAL(5, 2)": ["1.005", "-1.005", "999.995", "1e2", "1e-9", "12345", ".5", "5."],
    "DATE": ["2024-1-2", "2024-01-02 03:04:05", "19000", " 2024", "2024-02"],
    "TIME(0)": [
        "1:2:3",
        "12:30",
        "12:00:00.1235",
        "1000",
        "12:00:00+01:00",
        "12:00:00-01:30",
        " 5 ",
    ],
    "TIMESTAMP(3)": ["2024-1-2 3:4:5", "2024-02-31", "2024-01-01 24:00:00", "2024-01-01 00:00:00."],
    "TIMESTAMP(6)": ["2024-01-02", "2024-01-02 03:04:05.123456789"],
    "TIMESTAMP(6) WITH LOCAL TIME ZONE": ["2024-01-02", "2024-01-02 03:04:05.123456789"],
}


def held(java: JavaOracle, format_name: str, old: str, new: str) -> bool:
    """Whether Java reads the values from a file of the format, before and after a compaction."""
    fine = {old, new} & {"TIMESTAMP(7)", "TIMESTAMP(9)"}
    match format_name:
        case "parquet":
            # Java 0.9 reads no files in which timestamps have nanoseconds, not even its own.
            return java.name != "java" or not fine
        case "avro":
            return not fine
        case _:
            # ORC cuts what casts leave longer than a VARCHAR, and the blanks of what they fill up.
            return new not in ("CHAR(3)", "VARCHAR(2)")


def evolved_by(java: JavaOracle, catalog: Catalog, format_name: str) -> Table:
    """A table of Java's with a row group of every cast, each column altered since."""
    pairs = [
        (old, new, values) for old, new, values in casts() if held(java, format_name, old, new)
    ]
    columns = {f"c{number}": old for number, (old, _, _) in enumerate(pairs)}
    table = create_theirs(
        catalog, java, {"k": "INT", **columns}, options={"file.format": format_name}
    )
    longest = max(len(values) for _, _, values in pairs)
    given = [
        {"k": row}
        | {f"c{i}": values[row] for i, (_, _, values) in enumerate(pairs) if row < len(values)}
        for row in range(longest + 1)
    ]
    # One file alone would not be compacted.
    java.write(catalog.root, table.name, given[:2])
    java.write(catalog.root, table.name, given[2:])
    changes = [{"update_type": f"c{i}", "type": new} for i, (_, new, _) in enumerate(pairs)]
    java.alter(catalog.root, table.name, *changes)
    return catalog.table(table.name)


def assert_alike(found: list[str], expected: list[str]) -> None:
    """Row by row, so that a failure shows the columns that differ and no others."""
    for mine, theirs in zip(found, expected, strict=True):
        assert json.loads(mine) == json.loads(theirs)


@pytest.mark.parametrize(
    ("client", "format_name"),
    [
        ("java", "parquet"),
        ("java_latest", "parquet"),
        ("java_latest", "orc"),
        ("java_latest", "avro"),
    ],
)
@pytest.mark.sampled(1)
def test_older_files_read_as_java_reads_them_and_stay_so_when_they_are_compacted(
    request: pytest.FixtureRequest, catalog: Catalog, client: str, format_name: str
) -> None:
    java: JavaOracle = request.getfixturevalue(client)
    # The clients' machines are in UTC.
    with machine_in("UTC"):
        table = evolved_by(java, catalog, format_name)
        expected = as_read_by(java, catalog, table)
        assert_alike(content(table), expected)
        compact(table, full=True)
        assert {entry.file.schema_id for entry in table.at().files()} == {table.schema.id}
        assert_alike(content(table), expected)
        assert_alike(as_read_by(java, catalog, table), expected)


@pytest.mark.parametrize("format_name", ["parquet", "orc", "avro"])
def test_char_of_a_file_is_read_as_java_reads_it(
    catalog: Catalog, java_latest: JavaOracle, format_name: str
) -> None:
    options = {"file.format": format_name}
    table = create_theirs(catalog, java_latest, {"k": "INT", "c": "CHAR(5)"}, options=options)
    given = [{"k": number, "c": text} for number, text in enumerate(["ab", "ab   ", "  ab", ""])]
    java_latest.write(catalog.root, table.name, given)
    table.write(rows(table, given))
    assert content(table) == as_read_by(java_latest, catalog, table)
    compact(table, full=True)
    assert content(table) == as_read_by(java_latest, catalog, table)


@pytest.mark.parametrize("ours", [True, False])
@pytest.mark.parametrize("format_name", ["parquet", "orc"])
@pytest.mark.sampled(1)
def test_filters_of_char_keep_the_rows_whose_values_that_are_read_match(
    catalog: Catalog, java_latest: JavaOracle, format_name: str, *, ours: bool
) -> None:
    options = {"file.format": format_name}
    table = create_theirs(catalog, java_latest, {"k": "INT", "c": "CHAR(5)"}, options=options)
    for number, text in enumerate(CHARS):
        given = [{"k": number, "c": text}]
        if ours:
            table.write(rows(table, given))
        else:
            java_latest.write(catalog.root, table.name, given)
    assert_filters_keep_what_is_read(table, "c")
    # Java compares what it reads with the literal as it is, blanks included.
    compact(table, full=True, min_files=2)
    for literal in ("ab", "ab   "):
        theirs = java_latest.read(catalog.root, table.name, where=[("c", "=", literal)])
        mine = table.read(where=parse_where(f"c = '{literal}'", table.schema))
        assert sorted(mine.column("k").to_pylist()) == sorted(row["k"] for row in theirs)
    assert_filters_keep_what_is_read(table, "c")


@pytest.mark.parametrize("bucket", ["1", "4"])
@pytest.mark.sampled(1)
def test_filters_and_lookups_of_char_keys_in_orc_files_find_the_keys_that_are_read(
    catalog: Catalog, java_latest: JavaOracle, bucket: str
) -> None:
    options = {"file.format": "orc", "bucket": bucket}
    columns = {"a": "CHAR(5)", "b": "CHAR(5)", "n": "INT"}
    table = create_theirs(catalog, java_latest, columns, keys=("a", "b"), options=options)
    for number, text in enumerate(["ab", "abc", "x  ", "y\t", "z \t"]):
        row = {"a": text, "b": f"{text} ", "n": number}
        java_latest.write(catalog.root, table.name, [row])
    assert_filters_keep_what_is_read(table, "a", "b")
    held = table.read()
    assert table.lookup(held.select(["a", "b"])).sort_by("n") == held.sort_by("n")


def test_filters_of_char_bucket_keys_in_orc_files_find_rows_whose_blanks_were_hashed(
    catalog: Catalog,
) -> None:
    table = new_table(
        catalog,
        {"c": "CHAR(5)", "n": "INT"},
        options={"file.format": "orc", "bucket": "8", "bucket-key": "c"},
    )
    for number, text in enumerate(CHARS):
        table.write(rows(table, [{"c": text, "n": number}]))
    assert_filters_keep_what_is_read(table, "c")


CHARS = ["ab", "ab  ", "ab\t", "abc", " ", "", "ab   ", "ab \t"]
_COMPARE = {"=": eq, "<>": ne, "<": lt, "<=": le, ">": gt, ">=": ge}


def assert_filters_keep_what_is_read(table: Table, *columns: str) -> None:
    held = table.read().to_pylist()
    for column in columns:
        for literal in {row[column] for row in held} | set(CHARS):
            for sign, compare in _COMPARE.items():
                where = parse_where(f"{column} {sign} '{literal}'", table.schema)
                found = table.read(where=where).to_pylist()
                due = [row for row in held if compare(row[column], literal)]
                assert sorted(map(str, found)) == sorted(map(str, due)), where
            where = parse_where(f"{column} IN ('{literal}', 'zz')", table.schema)
            found = table.read(where=where).to_pylist()
            assert len(found) == sum(row[column] == literal for row in held), where


@pytest.mark.parametrize("format_name", ["parquet", "orc", "avro"])
def test_char_inside_of_rows_arrays_and_maps_is_read_as_java_reads_it(
    catalog: Catalog, java_latest: JavaOracle, format_name: str
) -> None:
    columns = {
        "k": "INT",
        "r": "ROW<a CHAR(4), b ARRAY<CHAR(3)>, s STRING>",
        "ar": "ARRAY<CHAR(4)>",
        "m": "MAP<CHAR(4), CHAR(4)>",
    }
    table = create_theirs(catalog, java_latest, columns, options={"file.format": format_name})
    given: list[dict[str, Any]] = [
        {
            "k": 1,
            "r": {"a": "ab", "b": ["x", None, "y "], "s": "s "},
            "ar": ["x", "y ", ""],
            "m": [["q", "z "]],
        },
        {"k": 2, "r": None, "ar": None, "m": None},
        {"k": 3, "r": {"a": None, "b": None, "s": None}, "ar": [None, "  a "], "m": [["p", None]]},
    ]
    java_latest.write(catalog.root, table.name, given)
    table.write(rows(table, [{**row, "m": row["m"] and [*map(tuple, row["m"])]} for row in given]))
    theirs = as_read_by(java_latest, catalog, table)
    assert content(table) == theirs
    compact(table, full=True, min_files=2)
    assert content(table) == as_read_by(java_latest, catalog, table) == theirs


def test_java_reads_char_keys_of_orc_files_as_we_do(
    catalog: Catalog, java_latest: JavaOracle
) -> None:
    columns = {"k": "CHAR(4)", "n": "INT"}
    options = {"bucket": "1", "file.format": "orc"}
    table = create_theirs(catalog, java_latest, columns, keys=("k",), options=options)
    java_latest.write(catalog.root, table.name, [{"k": "ab", "n": 1}, {"k": "ac", "n": 2}])
    table.write(rows(table, [{"k": "ab", "n": 3}, {"k": "ab\t", "n": 4}]))
    due = as_read_by(java_latest, catalog, table)
    assert content(table) == due
    assert len(due) == 3
    compact(table, full=True)
    assert content(table) == as_read_by(java_latest, catalog, table) == due


@pytest.mark.parametrize("ours", [True, False])
@pytest.mark.sampled(1)
def test_char_partitions_of_orc_files_keep_their_blanks(
    catalog: Catalog, java_latest: JavaOracle, *, ours: bool
) -> None:
    columns = {"p": "CHAR(4)", "k": "CHAR(4)", "n": "INT"}
    table = create_theirs(
        catalog,
        java_latest,
        columns,
        partitions=("p",),
        keys=("p", "k"),
        options={"bucket": "1", "file.format": "orc"},
    )
    given = [{"p": "ab", "k": "x", "n": 1}, {"p": "ab ", "k": "x", "n": 2}]
    for _ in range(2):
        if ours:
            table.write(rows(table, given))
        else:
            java_latest.write(catalog.root, table.name, given)
    due = as_read_by(java_latest, catalog, table)
    assert content(table) == due
    found = table.lookup(rows(table, given[1:]).select(["p", "k"]))
    assert found.to_pylist() == given[1:]
    assert_filters_keep_what_is_read(table, "p", "k")
    compact(table, full=True)
    assert_filters_keep_what_is_read(table, "p", "k")
    assert content(table) == as_read_by(java_latest, catalog, table) == due


@pytest.mark.parametrize("second", ["ab ", "ab\t"])
def test_char_keys_that_orc_files_do_not_tell_apart_are_shown_and_never_merged(
    catalog: Catalog, java_latest: JavaOracle, second: str
) -> None:
    columns = {"k": "CHAR(4)", "n": "INT"}
    options = {"bucket": "1", "file.format": "orc"}
    table = create_theirs(catalog, java_latest, columns, keys=("k",), options=options)
    keys = ["ab" if second == "ab " else "ab  ", second, "ac"]
    given = [{"k": key, "n": number} for number, key in enumerate(keys)]
    java_latest.write(catalog.root, table.name, given)
    assert content(table) == as_read_by(java_latest, catalog, table)
    assert len(content(table)) == 3
    java_latest.write(catalog.root, table.name, given)
    before = table.at().files()
    with pytest.raises(UnsupportedError, match=r"twice or out of order.*make the key VARCHAR"):
        compact(table, full=True)
    with pytest.raises(UnsupportedError, match="twice or out of order"):
        table.read()
    assert table.at().files() == before
    assert_only_reachable_files(table)
    # Of every table that a test leaves all snapshots are read.
    catalog.drop_table(table.name)


@pytest.mark.parametrize("old", ["BYTES", "BINARY(3)"])
def test_bytes_that_are_no_text_are_shown_and_never_written_anew(
    catalog: Catalog, java_latest: JavaOracle, old: str
) -> None:
    table = create_theirs(catalog, java_latest, {"k": "INT", "c": old})
    for number in range(2):
        java_latest.write(catalog.root, table.name, [{"k": number, "c": "61ff62"}])
    java_latest.alter(catalog.root, table.name, {"update_type": "c", "type": "STRING"})
    table = catalog.table(table.name)
    assert table.read(columns=["c"]).column("c").to_pylist() == ["a\ufffdb"] * 2
    before = table.at().files()
    with pytest.raises(UnsupportedError, match=r"column c .*alter the column back to BYTES"):
        compact(table, full=True)
    assert table.at().files() == before
