"""The oracles agree with each other, so a disagreement with Lakewright is Lakewright's."""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import pytest

from tests.oracles.client import (
    DataType,
    JavaOracle,
    LatestJavaOracle,
    Oracle,
    OracleError,
    WritingOracle,
)

pytestmark = pytest.mark.interop

PARQUET = {"file.format": "parquet"}
UNAWARE = {**PARQUET, "bucket": "-1"}
FIXED = {**PARQUET, "bucket": "2"}
NAMED_ROW: DataType = {
    "type": "ROW",
    "fields": [{"name": "a", "type": "INT"}, {"name": "b", "type": "STRING"}],
}

EVERY_TYPE: dict[str, tuple[DataType, Any]] = {
    "a_boolean": ("BOOLEAN", True),
    "a_tinyint": ("TINYINT", -128),
    "a_smallint": ("SMALLINT", 32767),
    "an_int": ("INT", -(2**31)),
    "a_bigint": ("BIGINT", 2**63 - 1),
    "a_float": ("FLOAT", 0.5),
    "a_double": ("DOUBLE", "-Infinity"),
    "a_string": ("STRING", "héllo, longer than seven bytes"),
    "bytes_": ("BYTES", "00ff"),
    "a_wide_decimal": ("DECIMAL(38, 10)", "-1234567890123456789012345678.0123456789"),
    "a_date": ("DATE", "1969-12-31"),
    "a_time": ("TIME(3)", "01:02:03.004"),
    "millis": ("TIMESTAMP(3)", "1969-12-31T23:59:59.999000"),
    "micros": ("TIMESTAMP(6)", "1900-01-01T00:00:00.000001"),
    "instant": ("TIMESTAMP(6) WITH LOCAL TIME ZONE", "2024-01-02T03:04:05.678901Z"),
    "an_array": ({"type": "ARRAY", "element": "DECIMAL(20, 3)"}, ["1.000", None]),
    "a_map": ({"type": "MAP", "key": "INT NOT NULL", "value": "STRING"}, [[1, "one"], [2, None]]),
    "a_row": (NAMED_ROW, {"a": 1, "b": None}),
    "rows": ({"type": "ARRAY", "element": NAMED_ROW}, [{"a": None, "b": "x"}, None]),
}
# pypaimon writes these in a form that Java 0.9 cannot read; see README.md.
JAVA_ONLY_TYPES: dict[str, tuple[DataType, Any]] = {
    "a_decimal": ("DECIMAL(10, 2)", "-1.05"),
    "nanos": ("TIMESTAMP(9)", "2024-01-02T03:04:05.678901234"),
}
PARTITIONED: dict[str, DataType] = {"id": "INT", "dt": "DATE", "s": "STRING", "i": "INT"}
PARTITIONED_ROWS: list[dict[str, Any]] = [
    {"id": 1, "dt": "2024-01-02", "s": "a/b:c=d e%", "i": 5},
    {"id": 2, "dt": "2024-01-03", "s": "b", "i": -6},
    {"id": 3, "dt": None, "s": None, "i": None},
]


@pytest.fixture(params=["java", "pypaimon"])
def writer(request: pytest.FixtureRequest) -> WritingOracle:
    oracle = request.getfixturevalue(request.param)
    assert isinstance(oracle, WritingOracle)
    return oracle


@pytest.fixture
def readers(java: JavaOracle, pypaimon: WritingOracle, rust: Oracle) -> Sequence[Oracle]:
    return (java, pypaimon, rust)


def ordered(rows: Sequence[Mapping[str, Any]]) -> list[dict[str, Any]]:
    return sorted((dict(row) for row in rows), key=lambda row: str(list(row.values())))


def assert_all_read(
    readers: Sequence[Oracle],
    warehouse: Path,
    table: str,
    expected: Sequence[Mapping[str, Any]],
    **arguments: Any,
) -> None:
    for reader in readers:
        rows = reader.read(warehouse, table, **arguments)
        assert ordered(rows) == ordered(expected), reader.name


@pytest.mark.sampled(1)
def test_values_of_every_type_survive_the_way_through_any_writer_and_reader(
    tmp_path: Path, writer: WritingOracle, readers: Sequence[Oracle]
) -> None:
    types = EVERY_TYPE | (JAVA_ONLY_TYPES if writer.name == "java" else {})
    writer.create(
        tmp_path,
        "db.t",
        {name: data_type for name, (data_type, _) in types.items()},
        options=UNAWARE,
    )
    full = {name: value for name, (_, value) in types.items()}
    empty = dict.fromkeys(types)
    writer.write(tmp_path, "db.t", [full, empty])
    assert_all_read(readers, tmp_path, "db.t", [full, empty])


def test_conditions_and_time_travel_select_the_same_rows_for_every_reader(
    tmp_path: Path, java: JavaOracle, readers: Sequence[Oracle]
) -> None:
    fields = {"id": "BIGINT", "d": "DECIMAL(20, 2)", "dt": "DATE", "f": "FLOAT", "s": "STRING"}
    java.create(tmp_path, "db.t", fields, options=UNAWARE)
    rows = [
        {"id": n, "d": f"{n}.50", "dt": f"2024-01-0{n}", "f": n / 2, "s": "x" * n}
        for n in range(1, 6)
    ]
    for row in rows:
        java.write(tmp_path, "db.t", [row])
    java.create_tag(tmp_path, "db.t", "second", snapshot=2)
    third = rows[2]
    for column in fields:
        assert_all_read(readers, tmp_path, "db.t", [third], where=[(column, "=", third[column])])
        assert_all_read(readers, tmp_path, "db.t", rows[3:], where=[(column, ">", third[column])])
        assert_all_read(readers, tmp_path, "db.t", [], where=[(column, "is null")])
    assert_all_read(readers, tmp_path, "db.t", rows[:3], snapshot=3)
    assert_all_read(readers, tmp_path, "db.t", rows[:2], tag="second")


def test_partitions_are_found_and_overwritten_one_by_one(
    tmp_path: Path, writer: WritingOracle, readers: Sequence[Oracle]
) -> None:
    first, second, third = PARTITIONED_ROWS
    writer.create(tmp_path, "db.t", PARTITIONED, partition_keys=["dt", "s", "i"], options=UNAWARE)
    writer.write(tmp_path, "db.t", PARTITIONED_ROWS)
    assert_all_read(readers, tmp_path, "db.t", PARTITIONED_ROWS)

    replaced = {**second, "id": 20}
    writer.write(tmp_path, "db.t", [replaced], overwrite="dynamic")
    assert_all_read(readers, tmp_path, "db.t", [first, replaced, third])

    writer.write(tmp_path, "db.t", [], overwrite={"dt": "2024-01-02"})
    assert_all_read(readers, tmp_path, "db.t", [replaced, third])

    writer.write(tmp_path, "db.t", [first], overwrite="table")
    assert_all_read(readers, tmp_path, "db.t", [first])


def test_upserts_and_deletes_merge_alike_before_and_after_compaction(
    tmp_path: Path, java: JavaOracle, readers: Sequence[Oracle]
) -> None:
    java.create(
        tmp_path,
        "db.t",
        {"p": "STRING NOT NULL", "k": "BIGINT NOT NULL", "v": "STRING"},
        partition_keys=["p"],
        primary_keys=["p", "k"],
        options=FIXED,
    )
    java.write(tmp_path, "db.t", [{"p": "ab"[k % 2], "k": k, "v": "old"} for k in range(8)])
    java.write(
        tmp_path, "db.t", [{"p": "b", "k": 1}, {"p": "a", "k": 2, "v": "new"}], kinds=["-D", "+U"]
    )
    merged = [
        {"p": "ab"[k % 2], "k": k, "v": "new" if k == 2 else "old"} for k in range(8) if k != 1
    ]
    assert_all_read(readers, tmp_path, "db.t", merged)

    assert java.compact(tmp_path, "db.t", partition={"p": "a"}) == 3
    levels = {(entry["partition"], entry["level"]) for entry in java.read(tmp_path, "db.t$files")}
    assert levels == {("[a]", 5), ("[b]", 0)}
    assert_all_read(readers, tmp_path, "db.t", merged)

    assert java.compact(tmp_path, "db.t") == 4
    assert java.compact(tmp_path, "db.t") == 4, "nothing is left to compact"
    assert_all_read(readers, tmp_path, "db.t", merged)
    kinds = [snapshot["commitKind"] for snapshot in java.snapshots(tmp_path, "db.t")]
    assert kinds == ["APPEND", "APPEND", "COMPACT", "COMPACT"]


def test_java_maintains_what_pypaimon_wrote(
    tmp_path: Path, java: JavaOracle, pypaimon: WritingOracle, readers: Sequence[Oracle]
) -> None:
    pypaimon.create(
        tmp_path, "db.t", {"k": "BIGINT NOT NULL", "v": "STRING"}, primary_keys=["k"], options=FIXED
    )
    for v in ("old", "new"):
        pypaimon.write(tmp_path, "db.t", [{"k": k, "v": f"{v} {k}"} for k in range(5)])
    java.write(tmp_path, "db.t", [{"k": 0}], kinds=["-D"])
    java.compact(tmp_path, "db.t")
    expected = [{"k": k, "v": f"new {k}"} for k in range(1, 5)]
    assert_all_read(readers, tmp_path, "db.t", expected)
    assert java.expire_snapshots(tmp_path, "db.t", retain_max=1, retain_min=1) == 3
    assert [snapshot["id"] for snapshot in java.snapshots(tmp_path, "db.t")] == [4]
    assert_all_read(readers, tmp_path, "db.t", expected)


def test_an_unbucketed_append_table_is_compacted_to_one_file(
    tmp_path: Path, java: JavaOracle, readers: Sequence[Oracle]
) -> None:
    java.create(tmp_path, "db.t", {"id": "INT"}, options=UNAWARE)
    rows = [{"id": n} for n in range(3)]
    for row in rows:
        java.write(tmp_path, "db.t", [row])
    assert java.compact(tmp_path, "db.t") == 4
    assert len(java.read(tmp_path, "db.t$files")) == 1
    assert_all_read(readers, tmp_path, "db.t", rows)


def test_expiry_spares_the_young_the_tagged_and_the_retained(
    tmp_path: Path, java: JavaOracle, rust: Oracle
) -> None:
    java.create(tmp_path, "db.t", {"id": "INT"}, options=UNAWARE)
    for n in range(5):
        java.write(tmp_path, "db.t", [{"id": n}], overwrite="table")
    java.create_tag(tmp_path, "db.t", "kept", snapshot=2)
    minute_before = java.snapshots(tmp_path, "db.t")[0]["timeMillis"] - 60_000
    assert java.expire_snapshots(tmp_path, "db.t", retain_min=1, older_than_ms=minute_before) == 0
    assert java.expire_snapshots(tmp_path, "db.t", retain_min=2) == 3
    assert rust.read(tmp_path, "db.t", tag="kept") == [{"id": 1}]
    java.delete_tag(tmp_path, "db.t", "kept")
    assert [snapshot["id"] for snapshot in java.snapshots(tmp_path, "db.t")] == [4, 5]


def test_orphans_are_removed_once_they_are_old(tmp_path: Path, java: JavaOracle) -> None:
    java.create(tmp_path, "db.t", {"id": "INT"}, options=UNAWARE)
    java.write(tmp_path, "db.t", [{"id": 1}])
    orphan = tmp_path / "db.db" / "t" / "manifest" / "manifest-lost"
    orphan.write_text("")
    os.utime(orphan, (1e9, 1e9))
    assert not java.remove_orphan_files(tmp_path, "db.t", older_than="2001-01-01 00:00:00")
    removed = java.remove_orphan_files(tmp_path, "db.t", older_than="2020-01-01 00:00:00")
    assert [Path(path).name for path in removed] == [orphan.name]
    assert java.read(tmp_path, "db.t") == [{"id": 1}]


def test_old_files_are_read_under_the_new_schema(
    tmp_path: Path, writer: WritingOracle, readers: Sequence[Oracle]
) -> None:
    writer.create(tmp_path, "db.t", {"a": "INT", "b": "STRING"}, options=UNAWARE)
    writer.write(tmp_path, "db.t", [{"a": 1, "b": "x"}])
    writer.alter(
        tmp_path,
        "db.t",
        {"rename_column": "b", "to": "c"},
        {"add_column": "d", "type": "DATE"},
        {"update_type": "a", "type": "BIGINT"},
        {"set_option": "snapshot.num-retained.min", "value": "3"},
    )
    writer.write(tmp_path, "db.t", [{"a": 2**40, "c": "y", "d": "2024-01-01"}])
    assert_all_read(
        readers,
        tmp_path,
        "db.t",
        [{"a": 1, "c": "x", "d": None}, {"a": 2**40, "c": "y", "d": "2024-01-01"}],
    )


def test_branches_grow_apart_and_are_merged_by_fast_forward(
    tmp_path: Path, java: JavaOracle, readers: Sequence[Oracle]
) -> None:
    java.create(tmp_path, "db.t", {"id": "INT"}, options=UNAWARE)
    java.write(tmp_path, "db.t", [{"id": 1}])
    java.create_tag(tmp_path, "db.t", "base")
    java.create_branch(tmp_path, "db.t", "try_out", tag="base")
    java.write(tmp_path, "db.t$branch_try_out", [{"id": 2}])
    assert_all_read(readers, tmp_path, "db.t", [{"id": 1}])
    assert_all_read(readers, tmp_path, "db.t$branch_try_out", [{"id": 1}, {"id": 2}])
    java.fast_forward(tmp_path, "db.t", "try_out")
    assert_all_read(readers, tmp_path, "db.t", [{"id": 1}, {"id": 2}])
    java.rollback_to(tmp_path, "db.t", 1)
    assert_all_read(readers, tmp_path, "db.t", [{"id": 1}])
    java.delete_branch(tmp_path, "db.t", "try_out")
    with pytest.raises(OracleError):
        java.read(tmp_path, "db.t$branch_try_out")


def test_a_streaming_commit_carries_its_user_and_identifier(
    tmp_path: Path, java: JavaOracle
) -> None:
    java.create(tmp_path, "db.t", {"id": "INT"}, options=UNAWARE)
    java.write(tmp_path, "db.t", [{"id": 1}], commit_user="job", commit_identifier=7)
    (snapshot,) = java.snapshots(tmp_path, "db.t")
    assert (snapshot["commitUser"], snapshot["commitIdentifier"]) == ("job", 7)


@pytest.mark.parametrize(
    ("types", "values", "expected_hex", "expected_hash"),
    [
        (["BIGINT"], [1], "0000000100000000000000000100000000000000", 1465514398),
        (["STRING"], ["a"], "0000000100000000000000006100000000000081", 943281246),
        (["INT"], [None], "0000000100010000000000000000000000000000", -1748325344),
        (
            ["TIMESTAMP(6)"],
            ["2024-01-02T03:04:05.678901"],
            "00000001000000000000000088bf0d00100000002edb20c88c010000",
            828821739,
        ),
        (
            ["DECIMAL(30, 5)"],
            ["-1.00000"],
            "00000001000000000000000003000000" + "10000000fe7960" + "00" * 13,
            -1936344773,
        ),
    ],
)
def test_java_encodes_rows_as_the_format_says(
    java: JavaOracle,
    types: Sequence[DataType],
    values: Sequence[Any],
    expected_hex: str,
    expected_hash: int,
) -> None:
    row = java.binary_row(types, values)
    assert (row.hex, row.hash) == (expected_hex, expected_hash)


def test_released_pypaimon_cannot_read_manifests_of_java_0_9(
    tmp_path: Path, java: JavaOracle, released_pypaimon: WritingOracle
) -> None:
    java.create(tmp_path, "db.t", {"id": "INT"}, options=UNAWARE)
    java.write(tmp_path, "db.t", [{"id": 1}])
    with pytest.raises(OracleError, match="_VALUE_STATS_COLS") as failure:
        released_pypaimon.read(tmp_path, "db.t")
    assert failure.value.kind == "KeyError"


KEYED: dict[str, DataType] = {"k": "BIGINT NOT NULL", "v": "STRING"}


def test_java_follows_what_changed_with_row_kinds(tmp_path: Path, java: JavaOracle) -> None:
    options = {**PARQUET, "bucket": "1", "changelog-producer": "lookup", "write-only": "true"}
    java.create(tmp_path, "db.t", KEYED, primary_keys=["k"], options=options)
    java.write(tmp_path, "db.t", [{"k": 1, "v": "a"}, {"k": 2, "v": "b"}])
    first = java.compact(tmp_path, "db.t")
    java.write(tmp_path, "db.t", [{"k": 1, "v": "new"}, {"k": 2}], kinds=["+I", "-D"])
    second = java.compact(tmp_path, "db.t", full=False)
    assert first is not None
    assert second is not None
    told = [
        (change.snapshot, change.kind, change.row["v"])
        for change in java.changes(tmp_path, "db.t", 1, second)
    ]
    assert sorted(told[:2]) == [(first, "+I", "a"), (first, "+I", "b")]
    assert sorted(told[2:]) == [(second, "+U", "new"), (second, "-D", "b"), (second, "-U", "a")]
    assert java.changes(tmp_path, "db.t", first + 1, second - 1) == []


def test_java_writes_tables_with_dynamic_buckets(
    tmp_path: Path, java: JavaOracle, rust: Oracle
) -> None:
    options = {**PARQUET, "bucket": "-1", "dynamic-bucket.target-row-num": "2"}
    java.create(tmp_path, "db.t", KEYED, primary_keys=["k"], options=options)
    java.write(tmp_path, "db.t", [{"k": number, "v": "a"} for number in range(5)])
    java.write(tmp_path, "db.t", [{"k": 4, "v": "b"}, {"k": 9, "v": "b"}])
    found = rust.read(tmp_path, "db.t")
    assert sorted((row["k"], row["v"]) for row in found) == [
        *((number, "a") for number in range(4)),
        (4, "b"),
        (9, "b"),
    ]
    buckets = {row["bucket"] for row in java.read(tmp_path, "db.t$files")}
    assert buckets == {0, 1, 2}


def test_java_finds_single_keys_and_keeps_statistics(tmp_path: Path, java: JavaOracle) -> None:
    java.create(tmp_path, "db.t", KEYED, primary_keys=["k"], options=FIXED)
    java.write(tmp_path, "db.t", [{"k": 1, "v": "longer than seven"}, {"k": 2, "v": "b"}])
    java.write(tmp_path, "db.t", [{"k": 2}], kinds=["-D"])
    assert java.lookup(tmp_path, "db.t", [{"k": 1}, {"k": 2}, {"k": 3}]) == [
        {"k": 1, "v": "longer than seven"},
        None,
        None,
    ]
    assert java.statistics(tmp_path, "db.t") is None
    java.analyze(tmp_path, "db.t", merged_record_count=1, merged_record_size=25)
    statistics = java.statistics(tmp_path, "db.t")
    assert statistics is not None
    assert statistics["mergedRecordCount"] == 1


def test_an_error_leaves_the_oracle_running(
    tmp_path: Path, java: JavaOracle, pypaimon: WritingOracle, rust: Oracle
) -> None:
    java.create(tmp_path, "db.t", {"id": "INT"}, options=UNAWARE)
    java.write(tmp_path, "db.t", [{"id": 1}])
    for oracle in (java, pypaimon, rust):
        with pytest.raises(OracleError):
            oracle.read(tmp_path, "db.missing")
        assert oracle.read(tmp_path, "db.t") == [{"id": 1}]
    with pytest.raises(OracleError, match="no such columns: other"):
        java.write(tmp_path, "db.t", [{"other": 1}])


def test_a_lost_process_is_reported_with_its_last_words_and_replaced(
    tmp_path: Path, java: JavaOracle, rust: Oracle
) -> None:
    java.create(tmp_path, "db.t", {"id": "INT"}, options=UNAWARE)
    java.write(tmp_path, "db.t", [{"id": 1}])
    rust.read(tmp_path, "db.t")
    assert rust._process is not None
    rust._process.kill()
    with pytest.raises(OracleError, match="its last words") as failure:
        rust.read(tmp_path, "db.t")
    assert failure.value.kind == "died"
    assert rust.read(tmp_path, "db.t") == [{"id": 1}]


# --- Java 1.4.2 beside them ------------------------------------------------------------------


@pytest.fixture
def latest_readers(java_latest: LatestJavaOracle, pypaimon: WritingOracle) -> Sequence[Oracle]:
    return (java_latest, pypaimon)


def test_the_newest_java_and_0_9_read_each_other(
    tmp_path: Path, java: JavaOracle, java_latest: LatestJavaOracle, rust: Oracle
) -> None:
    types = EVERY_TYPE | JAVA_ONLY_TYPES
    full = {name: value for name, (_, value) in types.items()}
    empty = dict.fromkeys(types)
    for number, writer in enumerate((java, java_latest)):
        table = f"db.t{number}"
        fields = {name: data_type for name, (data_type, _) in types.items()}
        writer.create(tmp_path, table, fields, options=UNAWARE)
        writer.write(tmp_path, table, [full, empty])
        assert_all_read((java, java_latest, rust), tmp_path, table, [full, empty])


def test_conditions_and_time_travel_select_the_same_rows_for_the_newest_java(
    tmp_path: Path, java_latest: LatestJavaOracle, latest_readers: Sequence[Oracle]
) -> None:
    fields = {"id": "BIGINT", "d": "DECIMAL(20, 2)", "dt": "DATE", "s": "STRING"}
    java_latest.create(tmp_path, "db.t", fields, options=UNAWARE)
    rows = [{"id": n, "d": f"{n}.50", "dt": f"2024-01-0{n}", "s": "x" * n} for n in range(1, 6)]
    for row in rows:
        java_latest.write(tmp_path, "db.t", [row])
    java_latest.create_tag(tmp_path, "db.t", "second", snapshot=2)
    third = rows[2]
    for column in fields:
        condition: list[Any] = [(column, "=", third[column])]
        assert_all_read(latest_readers, tmp_path, "db.t", [third], where=condition)
        assert_all_read(latest_readers, tmp_path, "db.t", [], where=[(column, "is null")])
    assert_all_read(latest_readers, tmp_path, "db.t", rows[:2], tag="second")


def test_the_newest_java_merges_compacts_and_expires(
    tmp_path: Path, java_latest: LatestJavaOracle, latest_readers: Sequence[Oracle], rust: Oracle
) -> None:
    readers = (*latest_readers, rust)
    java_latest.create(tmp_path, "db.t", KEYED, primary_keys=["k"], options=FIXED)
    java_latest.write(tmp_path, "db.t", [{"k": k, "v": "old"} for k in range(8)])
    kinds: list[Any] = ["-D", "+U"]
    java_latest.write(tmp_path, "db.t", [{"k": 1}, {"k": 2, "v": "new"}], kinds=kinds)
    merged = [{"k": k, "v": "new" if k == 2 else "old"} for k in range(8) if k != 1]
    assert_all_read(readers, tmp_path, "db.t", merged)
    assert java_latest.compact(tmp_path, "db.t") == 3
    assert_all_read(readers, tmp_path, "db.t", merged)
    assert java_latest.expire_snapshots(tmp_path, "db.t", retain_max=1, retain_min=1) == 2
    assert [each["id"] for each in java_latest.snapshots(tmp_path, "db.t")] == [3]
    assert_all_read(readers, tmp_path, "db.t", merged)
    assert java_latest.lookup(tmp_path, "db.t", [{"k": 2}, {"k": 1}]) == [
        {"k": 2, "v": "new"},
        None,
    ]


def test_the_newest_java_compacts_tables_without_buckets_and_removes_orphans(
    tmp_path: Path, java_latest: LatestJavaOracle, latest_readers: Sequence[Oracle]
) -> None:
    java_latest.create(tmp_path, "db.t", {"id": "INT"}, options=UNAWARE)
    rows = [{"id": n} for n in range(3)]
    for row in rows:
        java_latest.write(tmp_path, "db.t", [row])
    assert java_latest.compact(tmp_path, "db.t") == 4
    assert len(java_latest.read(tmp_path, "db.t$files")) == 1
    assert_all_read(latest_readers, tmp_path, "db.t", rows)
    orphan = tmp_path / "db.db" / "t" / "manifest" / "manifest-lost"
    orphan.write_text("")
    os.utime(orphan, (1e9, 1e9))
    removed = java_latest.remove_orphan_files(tmp_path, "db.t", older_than="2020-01-01 00:00:00")
    assert [Path(path).name for path in removed] == [orphan.name]


def test_the_newest_java_writes_changelogs_dynamic_buckets_statistics_and_tags(
    tmp_path: Path, java_latest: LatestJavaOracle
) -> None:
    options = {**PARQUET, "bucket": "1", "changelog-producer": "lookup", "write-only": "true"}
    java_latest.create(tmp_path, "db.t", KEYED, primary_keys=["k"], options=options)
    java_latest.write(tmp_path, "db.t", [{"k": 1, "v": "a"}])
    last = java_latest.compact(tmp_path, "db.t")
    assert last is not None
    (change,) = java_latest.changes(tmp_path, "db.t", 1, last)
    assert (change.kind, change.row) == ("+I", {"k": 1, "v": "a"})
    assert java_latest.statistics(tmp_path, "db.t") is None
    java_latest.analyze(tmp_path, "db.t", merged_record_count=1, merged_record_size=25)
    statistics = java_latest.statistics(tmp_path, "db.t")
    assert statistics is not None
    assert statistics["mergedRecordCount"] == 1

    dynamic = {**PARQUET, "bucket": "-1", "dynamic-bucket.target-row-num": "2"}
    java_latest.create(tmp_path, "db.d", KEYED, primary_keys=["k"], options=dynamic)
    java_latest.write(tmp_path, "db.d", [{"k": number, "v": "a"} for number in range(5)])
    java_latest.write(tmp_path, "db.d", [{"k": 4, "v": "b"}], overwrite=None)
    found = java_latest.read(tmp_path, "db.d")
    assert sorted((row["k"], row["v"]) for row in found) == [
        *((number, "a") for number in range(4)),
        (4, "b"),
    ]
    daily = {"tag.automatic-creation": "process-time", "tag.creation-period": "daily"}
    java_latest.maintain_tags(tmp_path, "db.d", options=daily)
    assert len(java_latest.read(tmp_path, "db.d$tags")) == 1


def test_the_newest_java_alters_columns_at_the_top_and_within_rows(
    tmp_path: Path, java_latest: LatestJavaOracle, latest_readers: Sequence[Oracle]
) -> None:
    fields: dict[str, DataType] = {"a": "INT", "b": "STRING", "gone": "INT", "r": NAMED_ROW}
    java_latest.create(tmp_path, "db.t", fields, options=UNAWARE)
    old = {"a": 1, "b": "x", "gone": 1, "r": {"a": 1, "b": "x"}}
    java_latest.write(tmp_path, "db.t", [old])
    java_latest.alter(
        tmp_path,
        "db.t",
        {"rename_column": "b", "to": "c"},
        {"add_column": "d", "type": "DATE"},
        {"update_type": "a", "type": "BIGINT"},
        {"drop_column": "gone"},
        {"set_option": "snapshot.num-retained.min", "value": "3"},
    )
    java_latest.alter(
        tmp_path,
        "db.t",
        {"add_column": ["r", "n"], "type": "INT"},
        {"rename_column": ["r", "b"], "to": "t"},
        {"update_type": ["r", "a"], "type": "BIGINT"},
    )
    new = {"a": 2**40, "c": "y", "d": "2024-01-01", "r": {"a": 2**40, "t": "y", "n": 7}}
    java_latest.write(tmp_path, "db.t", [new])
    kept = {"a": 1, "c": "x", "d": None, "r": {"a": 1, "t": "x", "n": None}}
    assert ordered(java_latest.read(tmp_path, "db.t")) == ordered([kept, new])


def test_the_newest_java_branches_rolls_back_and_fast_forwards(
    tmp_path: Path, java_latest: LatestJavaOracle, latest_readers: Sequence[Oracle]
) -> None:
    java_latest.create(tmp_path, "db.t", {"id": "INT"}, options=UNAWARE)
    java_latest.write(tmp_path, "db.t", [{"id": 1}])
    java_latest.create_tag(tmp_path, "db.t", "base")
    java_latest.create_branch(tmp_path, "db.t", "try_out", tag="base")
    java_latest.write(tmp_path, "db.t$branch_try_out", [{"id": 2}])
    assert_all_read(latest_readers, tmp_path, "db.t", [{"id": 1}])
    java_latest.fast_forward(tmp_path, "db.t", "try_out")
    assert_all_read(latest_readers, tmp_path, "db.t", [{"id": 1}, {"id": 2}])
    java_latest.rollback_to(tmp_path, "db.t", 1)
    assert_all_read(latest_readers, tmp_path, "db.t", [{"id": 1}])
    java_latest.delete_branch(tmp_path, "db.t", "try_out")


def test_the_newest_java_hashes_rows_as_0_9_does(
    java: JavaOracle, java_latest: LatestJavaOracle
) -> None:
    types = ["BIGINT", "STRING", "TIMESTAMP(6)", "DECIMAL(30, 5)"]
    values = [1, "a", "2024-01-02T03:04:05.678901", "-1.00000"]
    assert java_latest.binary_row(types, values) == java.binary_row(types, values)


def test_the_newest_java_lists_its_options(java_latest: LatestJavaOracle) -> None:
    declared = {option.key: option for option in java_latest.declared_options()}
    assert declared["bucket"].declared_by == "CoreOptions"
    assert "warehouse" in declared
    assert declared["snapshot.num-retained.min"].default == "10"
