"""Data files in ORC and Avro, and formats by level: others read ours, we read theirs."""

from __future__ import annotations

import datetime as dt
import itertools
import json
from collections.abc import Iterator
from typing import Any

import pytest

from lakewright.storage import Catalog, Table
from lakewright.storage.errors import InvalidRows
from tests.interop.test_they_read_ours import as_read_by, assert_read_alike
from tests.interop.test_we_read_theirs import create_theirs
from tests.oracles.arrow_values import canonical_rows
from tests.oracles.client import JavaOracle, Oracle, OracleError, WritingOracle
from tests.support.tables.builders import EVENTS, compact, content, events, new_table, rows
from tests.support.values.every_type import ATOMS, NESTED, table_of

OTHER_FORMATS = ["orc", "avro"]


@pytest.fixture
def readers(pypaimon: Oracle, java: Oracle, rust: Oracle) -> list[Oracle]:
    """Every client that reads."""
    return [pypaimon, java, rust]


def orc_holds(value: Any) -> bool:
    """ORC files, as we write and read them: no far timestamps, and no fractions before 1970."""
    if not isinstance(value, dt.datetime):
        return True
    far = value.year > 2261
    return not far and (value.year >= 1970 or value.microsecond == 0)


# Types with the values that files of a format can hold. What is left out here is refused, which
# `tests/unit/storage/files/test_data_file_formats.py` shows.
def held_by(format_name: str, types: dict[str, list[Any]]) -> dict[str, list[Any]]:
    if format_name == "orc":
        return {name: [each for each in types[name] if orc_holds(each)] for name in types}
    return {name: values for name, values in types.items() if "`b c`" not in name}


def kinds_of_types() -> Iterator[Any]:
    for format_name, (group, types) in itertools.product(
        OTHER_FORMATS, {"atomic": ATOMS, "nested": NESTED}.items()
    ):
        yield pytest.param(format_name, held_by(format_name, types), id=f"{format_name}-{group}")


@pytest.mark.parametrize(("format_name", "types"), list(kinds_of_types()))
@pytest.mark.parametrize("keyed", [False, True], ids=["append", "keyed"])
@pytest.mark.mission("FS3", "FS17", "SE28", "SE29")
@pytest.mark.sampled(each="types")
def test_they_read_every_type_from_our_files(
    catalog: Catalog,
    readers: list[Oracle],
    format_name: str,
    types: dict[str, list[Any]],
    keyed: bool,
) -> None:
    columns, values = table_of(types)
    options = {"file.format": format_name} | ({"bucket": "2"} if keyed else {})
    table = new_table(catalog, columns, keys=["k"] if keyed else [], options=options)
    given = rows(table, values)
    table.write(given)
    table.write(given.slice(0, 2))
    expected = content(table)
    if keyed:
        assert expected == texts(canonical_rows(given))
    assert_read_alike(readers, catalog, table)
    compact(table, full=True)
    assert formats(table) == {format_name}
    assert content(table) == expected
    assert_read_alike(readers, catalog, table)


def texts(given: list[dict[str, Any]]) -> list[str]:
    return sorted(json.dumps(row, sort_keys=True) for row in given)


def formats(table: Table) -> set[str]:
    return {entry.file.file_name.rpartition(".")[2] for entry in table.at().files()}


# pypaimon writes no arrays of nullable values and no maps into Avro files.
_NOT_WRITTEN = {("released_pypaimon", "avro", "nested")}


@pytest.mark.parametrize("writer_name", ["java", "released_pypaimon"])
@pytest.mark.parametrize("format_name", OTHER_FORMATS)
@pytest.mark.parametrize("group", ["atomic", "nested"])
@pytest.mark.mission("FS3", "FS17")
@pytest.mark.sampled(each="group")
def test_we_read_and_keep_every_type_in_their_files(
    request: pytest.FixtureRequest, catalog: Catalog, writer_name: str, format_name: str, group: str
) -> None:
    if (writer_name, format_name, group) in _NOT_WRITTEN:
        return
    writer: WritingOracle = request.getfixturevalue(writer_name)
    columns, values = table_of(held_by(format_name, ATOMS if group == "atomic" else NESTED))
    table = create_theirs(catalog, writer, columns, options={"file.format": format_name})
    given = canonical_rows(rows(table, values))
    writer.write(catalog.root, table.name, given)
    writer.write(catalog.root, table.name, given[:2])
    assert formats(table) == {format_name}
    assert content(table) == texts(given + given[:2])
    assert content(table) == as_read_by(writer, catalog, table)
    compact(table, full=True)
    assert content(table) == as_read_by(writer, catalog, table)


def able_to_read_java_s(readers: list[Oracle], formats_used: set[str]) -> list[Oracle]:
    """Avro files of Java hold a union around each row, which makes them nulls for the Rust one."""
    return [each for each in readers if each.name != "rust" or "avro" not in formats_used]


@pytest.mark.sampled(1)
@pytest.mark.parametrize("format_name", OTHER_FORMATS)
def test_java_and_we_keep_each_other_s_keyed_tables(
    catalog: Catalog, java: JavaOracle, readers: list[Oracle], format_name: str
) -> None:
    options = {"bucket": "2", "file.format": format_name}
    table = create_theirs(catalog, java, dict(EVENTS), keys=("id",), options=options)
    able = able_to_read_java_s(readers, {format_name})
    java.write(catalog.root, table.name, events(0, 6))
    table.write(rows(table, events(3, 9, v="ours")))
    java.write(catalog.root, table.name, events(8, 9), kinds=["-D"])
    expected = texts(events(0, 3) + events(3, 8, v="ours"))
    assert content(table) == expected
    assert_read_alike(able, catalog, table)
    java.compact(catalog.root, table.name)
    assert content(table) == expected
    table.write(rows(table, events(0, 1, v="again")))
    compact(table, full=True)
    expected = texts(events(0, 1, v="again") + events(1, 3) + events(3, 8, v="ours"))
    assert content(table) == expected
    assert_read_alike(able, catalog, table)
    java.write(catalog.root, table.name, events(7, 8, v="java"))
    java.compact(catalog.root, table.name)
    assert content(table) == as_read_by(java, catalog, table)
    assert formats(table) == {format_name}


PER_LEVEL = [
    {"file.format": "parquet", "file.format.per.level": "0:avro"},
    {"file.format": "avro", "file.format.per.level": "0:orc,5:parquet"},
    {"file.format": "orc", "file.format.per.level": "0:parquet,5:avro"},
]


@pytest.mark.parametrize("options", PER_LEVEL, ids=lambda each: each["file.format.per.level"])
@pytest.mark.parametrize("theirs_first", [True, False])
@pytest.mark.mission("FS3", "FS17")
@pytest.mark.sampled(1)
def test_tables_of_several_formats_are_kept_by_java_and_us_in_turns(
    catalog: Catalog,
    java: JavaOracle,
    readers: list[Oracle],
    options: dict[str, str],
    theirs_first: bool,
) -> None:
    chosen = {"bucket": "1", "num-levels": "6", **options}
    table = create_theirs(catalog, java, dict(EVENTS), keys=("id",), options=chosen)
    per_level = dict(each.split(":") for each in options["file.format.per.level"].split(","))
    format_of_top = per_level.get("5", options["file.format"])
    able = able_to_read_java_s(readers, {format_of_top, per_level["0"]})
    expected: dict[int, dict[str, Any]] = {}
    for turn in range(3):
        ours = theirs_first is (turn % 2 == 1)
        new = events(turn, turn + 4, v=f"turn {turn} ")
        expected |= {row["id"]: row for row in new}
        if ours:
            table.write(rows(table, new))
        else:
            java.write(catalog.root, table.name, new)
        assert content(table) == texts(list(expected.values()))
        assert_read_alike(able, catalog, table)
        if ours:
            compact(table, full=True)
        else:
            java.compact(catalog.root, table.name)
        assert content(table) == texts(list(expected.values()))
        assert_read_alike(able, catalog, table)
        assert {entry.file.level for entry in table.at().files()} == {5}
        # A first file that nothing overlaps goes to the top as it is.
        if turn > 0:
            assert formats(table) == {format_of_top}


@pytest.mark.parametrize("format_name", ["parquet", *OTHER_FORMATS])
def test_they_read_files_whose_names_say_the_compression(
    catalog: Catalog, readers: list[Oracle], format_name: str
) -> None:
    options = {"file.format": format_name, "file.suffix.include.compression": "true"}
    table = new_table(catalog, options=options)
    table.write(rows(table, events(0, 3)))
    (entry,) = table.at().files()
    assert entry.file.file_name.endswith(f".zstd.{format_name}")
    assert_read_alike(readers, catalog, table)


def compressions() -> Iterator[Any]:
    for format_name, names in {
        "orc": ["none", "snappy", "zlib", "lz4"],
        # The others need libraries that are not in the jar.
        "avro": ["none", "deflate"],
    }.items():
        for name in names:
            yield pytest.param(format_name, name, id=f"{format_name}-{name}")


@pytest.mark.parametrize(("format_name", "compression"), list(compressions()))
def test_java_reads_every_compression(
    catalog: Catalog, java: JavaOracle, format_name: str, compression: str
) -> None:
    options = {"file.format": format_name, "file.compression": compression}
    table = new_table(catalog, options=options)
    table.write(rows(table, events(0, 500)))
    assert as_read_by(java, catalog, table) == content(table)


@pytest.mark.parametrize("format_name", ["parquet", *OTHER_FORMATS])
def test_files_of_thin_mode_are_read_by_clients_that_know_it(
    catalog: Catalog, readers: list[Oracle], format_name: str
) -> None:
    options = {"bucket": "1", "file.format": format_name, "data-file.thin-mode": "true"}
    table = new_table(catalog, keys=["id"], options=options)
    table.write(rows(table, events(0, 5)))
    table.write(rows(table, events(3, 7, v="new")))
    pypaimon, java, rust = readers
    assert content(table) == texts(events(0, 3) + events(3, 7, v="new"))
    # Java 0.9 is older than the option: merging, it misses the keys, in Parquet with an error.
    assert_read_alike([pypaimon, rust], catalog, table)
    if format_name == "parquet":
        with pytest.raises(OracleError, match="_KEY_id"):
            java.read(catalog.root, table.name)
    compact(table, full=True)
    assert_read_alike(readers, catalog, table)


LOCAL = "TIMESTAMP(6) WITH LOCAL TIME ZONE"
FAR_TIMES = [
    "9999-12-31T23:59:59.999999",
    "1600-01-01T00:00:00.000000",
    "2262-04-12T00:00:00.123456",
    "2024-01-02T03:04:05.120000",
    None,
    *["9999-12-31T00:00:00.000000"] * 20,
    "1500-02-03T04:05:06.000000",
]


@pytest.mark.parametrize("compression", ["zstd", "lz4", "zlib", "snappy", "none"])
@pytest.mark.parametrize("client", ["java", "java_latest"])
@pytest.mark.sampled(1)
def test_far_timestamps_in_orc_files_of_java_are_read(
    request: pytest.FixtureRequest, catalog: Catalog, client: str, compression: str
) -> None:
    java: JavaOracle = request.getfixturevalue(client)
    columns = {"k": "INT", "t": "TIMESTAMP(6)", "s": "STRING", "z": "TIMESTAMP(3)", "l": LOCAL}
    options = {"file.format": "orc", "file.compression": compression}
    table = create_theirs(catalog, java, columns, options=options)
    given = [
        {
            "k": number,
            "t": time,
            "s": f"{number}",
            "z": time and time[:23] + "000",
            "l": time and time + "Z",
        }
        for number, time in enumerate(FAR_TIMES)
    ]
    java.write(catalog.root, table.name, given)
    # Of dates before 1582 Java reads others than it wrote, since it counts them in two calendars.
    assert set(texts(given[:-1])) < set(content(table))
    assert content(table) == as_read_by(java, catalog, table)
    java.write(catalog.root, table.name, given[:1])
    before = table.at().files()
    # They could not be rewritten; nothing is lost.
    with pytest.raises(InvalidRows, match="outside of the years 1677 to 2262"):
        compact(table, full=True)
    assert table.at().files() == before


def test_columns_named_like_the_path_of_a_member_are_kept_apart_by_everybody(
    catalog: Catalog, java: JavaOracle, java_latest: JavaOracle
) -> None:
    # In ORC files; Java writes no Parquet file with such columns.
    columns = {"a.b": "INT", "a": "ROW<b INT, c INT>", "k": "INT"}
    options = {"bucket": "1", "file.format": "orc"}
    table = create_theirs(catalog, java, columns, keys=("a.b",), options=options)
    given = [{"a.b": number, "a": {"b": -number, "c": 0}, "k": number} for number in range(1, 5)]
    java.write(catalog.root, table.name, given[:3])
    table.write(rows(table, given[2:]))
    assert content(table) == texts(given)
    assert_read_alike([java, java_latest], catalog, table)
    compact(table, full=True)
    assert content(table) == texts(given)
    assert_read_alike([java, java_latest], catalog, table)
