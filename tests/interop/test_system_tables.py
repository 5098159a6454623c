"""Our system tables hold what Java Paimon's hold on the same table, and our changes its changes.

Java 0.9 has fewer columns than the format by now; those that both have are compared. Where it
prints a partition as `[v]`, or a file by its name alone, the same is made of ours.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from typing import Any

import pyarrow as pa
import pytest

from lakewright.storage import Catalog, Table
from lakewright.storage.spec.predicate import Leaf, Operator
from tests.interop.test_they_read_ours import as_texts
from tests.interop.test_we_read_theirs import create_theirs
from tests.oracles.arrow_values import canonical_rows
from tests.oracles.client import JavaOracle, LatestJavaOracle, Row
from tests.support.histories.actors import Ours
from tests.support.histories.drawing import Expire, Rescale, Setting, draw
from tests.support.histories.settings import SETTINGS
from tests.support.tables.builders import compact, events, new_table, rows
from tests.support.values.every_type import ATOMS, table_of

KEYED: dict[str, Any] = {
    "columns": {"id": "BIGINT", "day": "STRING", "v": "STRING"},
    "partitions": ("day",),
    "keys": ("day", "id"),
    "options": {"bucket": "2", "metadata.stats-mode": "full", "manifest.format": "avro"},
}
APPEND: dict[str, Any] = {
    "columns": {"id": "BIGINT", "day": "STRING", "v": "STRING"},
    "partitions": ("day",),
    "options": {"bucket": "-1", "metadata.stats-mode": "full"},
}
SYSTEM_TABLES = [
    "snapshots",
    "schemas",
    "options",
    "files",
    "manifests",
    "partitions",
    "tags",
    "branches",
    "consumers",
    "audit_log",
    "aggregation_fields",
]


def ours_keyed(catalog: Catalog, java: JavaOracle) -> Table:
    table = new_table(catalog, **KEYED)
    table.write(rows(table, [*events(0, 10), *events(0, 3, day="b")]))
    compact(table, full=True)
    table.history.create_tag("compacted")
    table.write(rows(table, events(5, 12, v="new")))
    table.write(rows(table, [{"id": 0, "day": "b"}], ["-D"]))
    table.history.set_consumer("reader", 2)
    table.history.create_branch("trial", tag="compacted")
    return table


def ours_append(catalog: Catalog, java: JavaOracle) -> Table:
    table = new_table(catalog, **APPEND)
    for first, day in ((0, "a"), (3, "b"), (6, None)):
        table.write(rows(table, events(first, first + 3, day=day)))
    table.write(rows(table, [{"id": 9, "day": "a"}]))
    table.history.create_tag("all", time_retained_ms=3_600_000)
    return table


def theirs_keyed(catalog: Catalog, java: JavaOracle) -> Table:
    table = create_theirs(catalog, java, **{**KEYED, "columns": dict(KEYED["columns"])})
    java.write(catalog.root, "db.t", [*events(0, 10), *events(0, 3, day="b")])
    java.compact(catalog.root, "db.t")
    java.create_tag(catalog.root, "db.t", "compacted")
    java.write(catalog.root, "db.t", events(5, 12, v="new"))
    java.write(catalog.root, "db.t", [{"id": 0, "day": "b"}], kinds=["-D"])
    java.create_branch(catalog.root, "db.t", "trial", tag="compacted")
    return table


def theirs_evolved(catalog: Catalog, java: JavaOracle) -> Table:
    theirs_keyed(catalog, java)
    java.alter(catalog.root, "db.t", {"add_column": "n", "type": "INT"})
    java.write(catalog.root, "db.t", [{"id": 40, "day": "c", "v": "x", "n": 1}])
    java.alter(catalog.root, "db.t", {"rename_column": "v", "to": "w"})
    return catalog.table("db.t")


TABLES: dict[str, Callable[[Catalog, JavaOracle], Table]] = {
    "ours, keyed": ours_keyed,
    "ours, append": ours_append,
    "theirs, keyed": theirs_keyed,
    "theirs, evolved": theirs_evolved,
}


def comparable(found: Sequence[Row], columns: Sequence[str], name: str) -> list[str]:
    """Rows of a system table as sorted texts, in the columns that both have."""
    return sorted(
        json.dumps({each: shown(row[each], each, name) for each in columns}, sort_keys=True)
        for row in found
    )


def shown(value: Any, column: str, name: str) -> Any:
    if value is None:
        return None
    if column == "partition":
        # `[v]` of Java 0.9, `{v}` and `k=v` of the format by now.
        inner = value.strip("[]{}").removeprefix("day=")
        return "null" if inner == "__DEFAULT_PARTITION__" else inner
    if column == "file_path":
        return value.rsplit("/", 1)[-1]
    if column == "comment" and name == "schemas":
        # A schema without a comment holds null or nothing, which are read alike.
        return value or None
    if column == "create_time" and name == "branches":
        # They look at the folder, we at the first file in it: a moment apart.
        return value[:-9]
    if column in ("fields", "options", "partition_keys", "primary_keys") and name == "schemas":
        return json.loads(value)
    return value


@pytest.mark.parametrize("kind", list(TABLES))
@pytest.mark.mission("FS1")
def test_system_tables_hold_what_theirs_hold(catalog: Catalog, java: JavaOracle, kind: str) -> None:
    table = TABLES[kind](catalog, java)
    compared = 0
    for name in SYSTEM_TABLES:
        theirs = java.read(catalog.root, f"db.t${name}")
        found = table.inspect.table(name)
        ours = canonical_rows(found)
        common = [each for each in found.column_names if not theirs or each in theirs[0]]
        # Java's columns come in our order, none is unknown here but those it has dropped since.
        dropped = {"created_from_tag", "created_from_snapshot"}
        assert [each for each in (theirs[0] if theirs else ()) if each not in dropped] == (
            common if theirs else []
        )
        assert comparable(ours, common, name) == comparable(theirs, common, name), name
        compared += len(theirs)
    assert compared > 20


@pytest.mark.parametrize("kind", ["ours, keyed", "theirs, keyed", "ours, append"])
def test_an_earlier_state_is_described_alike(catalog: Catalog, java: JavaOracle, kind: str) -> None:
    table = TABLES[kind](catalog, java)
    for snapshot in table.history.snapshots():
        for name in ("files", "manifests", "audit_log"):
            theirs = java.read(catalog.root, f"db.t${name}", snapshot=snapshot.id)
            ours = canonical_rows(table.at(snapshot=snapshot.id).inspect.table(name))
            common = [each for each in theirs[0] if each in ours[0]]
            assert comparable(ours, common, name) == comparable(theirs, common, name)


@pytest.mark.parametrize("kind", list(TABLES))
def test_rows_that_are_merged_already_are_those_that_the_newest_java_shows(
    catalog: Catalog, java: JavaOracle, java_latest: LatestJavaOracle, kind: str
) -> None:
    table = TABLES[kind](catalog, java)
    for snapshot in table.history.snapshots():
        theirs = java_latest.read(catalog.root, "db.t$ro", snapshot=snapshot.id)
        ours = canonical_rows(table.at(snapshot=snapshot.id).inspect.table("ro"))
        assert as_texts(ours) == as_texts(theirs)
    where = Leaf("id", Operator.EQ, (1,))
    found = canonical_rows(table.inspect.table("ro", where))
    theirs = java_latest.read(catalog.root, "db.t$ro", where=[("id", "=", 1)])
    assert as_texts(found) == as_texts(theirs)


def test_rows_that_deletion_vectors_take_out_are_not_among_those_merged_already(
    catalog: Catalog, java_latest: LatestJavaOracle
) -> None:
    options = {**KEYED["options"], "deletion-vectors.enabled": "true"}
    table = new_table(catalog, **{**KEYED, "options": options})
    table.write(rows(table, events(0, 10)))
    compact(table, full=True)
    table.write(rows(table, events(5, 12, v="new")))
    compact(table)
    ours = canonical_rows(table.inspect.table("ro"))
    assert as_texts(ours) == as_texts(java_latest.read(catalog.root, "db.t$ro"))


@pytest.mark.parametrize("kind", list(TABLES))
def test_files_are_named_as_the_newest_java_names_them(
    catalog: Catalog, java: JavaOracle, java_latest: LatestJavaOracle, kind: str
) -> None:
    table = TABLES[kind](catalog, java)
    theirs = java_latest.read(catalog.root, "db.t$files")
    ours = table.inspect.table("files").to_pylist()
    assert sorted(row["file_path"] for row in ours) == sorted(row["file_path"] for row in theirs)


# --- changes ----------------------------------------------------------------------------------


def changing(catalog: Catalog, java: JavaOracle, writer: str, **options: str) -> Table:
    """Snapshots of appends, a deletion, a compaction, an update before and after, an overwrite."""
    settings = {**KEYED, "options": {**KEYED["options"], **options}}
    if writer == "ours":
        table = new_table(catalog, **settings)
    else:
        table = create_theirs(catalog, java, **{**settings, "columns": dict(KEYED["columns"])})

    def write(values: Sequence[Mapping[str, Any]], kinds: Sequence[Any] | None = None) -> None:
        if writer == "ours":
            table.write(rows(table, values, kinds))
        else:
            java.write(catalog.root, "db.t", values, kinds=kinds)

    def compact_all() -> None:
        if writer == "ours":
            compact(table, full=True)
        else:
            java.compact(catalog.root, "db.t")

    write([*events(0, 8), *events(0, 3, day="b")])
    write(events(4, 10, v="second"))
    write([*events(0, 2), *events(20, 21)], ["-D", "-D", "+I"])
    compact_all()
    write([*events(4, 5, v="second"), *events(4, 5, v="third")], ["-U", "+U"])
    write(events(0, 1, v="back"))
    write([{"id": 1, "day": "b", "v": "v1"}], ["-D"])
    compact_all()
    return table


def as_changes(found: pa.Table) -> list[tuple[Any, ...]]:
    return sorted(
        (row["_rowkind"], row["day"], row["id"], row["v"] or "") for row in found.to_pylist()
    )


@pytest.mark.sampled(each="producer")
@pytest.mark.parametrize("writer", ["ours", "theirs"])
@pytest.mark.parametrize("producer", ["none", "input", "full-compaction"])
@pytest.mark.mission("FS1", "CN20", "CN21")
def test_deltas_and_changelogs_are_what_their_streaming_reader_gets(
    catalog: Catalog, java: JavaOracle, writer: str, producer: str
) -> None:
    table = changing(catalog, java, writer, **{"changelog-producer": producer})
    last = len(table.history.snapshots())
    mode = "delta" if producer == "none" else "auto"
    seen = 0
    for first in range(last):
        ours = as_changes(table.read_changes(first, last, mode=mode))
        theirs = sorted(
            (each.kind, each.row["day"], each.row["id"], each.row["v"] or "")
            for each in java.changes(catalog.root, "db.t", first + 1, last)
        )
        assert ours == theirs
        seen += len(ours)
    assert seen > 20


STREAMED = [
    replace(each, formats=("parquet",))
    for each in SETTINGS
    if not each.lags and each.buckets == "fixed" and "format per level" not in each.name
]


@pytest.mark.parametrize("setting", STREAMED, ids=lambda setting: setting.name)
@pytest.mark.parametrize("seed", [3, pytest.param(4, marks=pytest.mark.deep)])
@pytest.mark.mission("CN20", "CN21")
@pytest.mark.sampled(3)
def test_of_any_history_we_tell_the_changes_that_they_tell(
    catalog: Catalog, java: JavaOracle, setting: Setting, seed: int
) -> None:
    history = draw(setting, seed, length=7, write_only=True)
    ours = Ours(catalog)
    ours.create("db.t", history)
    for step in history.steps:
        if not isinstance(step, Expire | Rescale):
            ours.do("db.t", history, step)
    table = catalog.table("db.t")
    last = len(table.history.snapshots())
    for first in range(last):
        found = canonical_rows(table.read_changes(first, last))
        theirs = [
            {"_rowkind": each.kind, **each.row}
            for each in java.changes(catalog.root, "db.t", first + 1, last)
        ]
        assert as_texts(found) == as_texts(theirs), f"after {first}: {history}"


def last_of_each_key(found: Sequence[Row]) -> dict[tuple[Any, Any], tuple[str, Any]]:
    return {(row["day"], row["id"]): (row["rowkind"], row["v"]) for row in found}


@pytest.mark.parametrize("writer", ["ours", "theirs"])
def test_their_batch_reader_sees_the_last_change_of_each_key(
    catalog: Catalog, java: JavaOracle, writer: str
) -> None:
    # Java 0.9 merges what it reads between snapshots; later versions, and we, hand on every row.
    table = changing(catalog, java, writer)
    # Not across a compaction, where a row may get a sequence number that a deletion had before.
    for first, last in ((0, 3), (1, 3), (4, 7), (4, 8), (5, 7)):
        options = {"incremental-between": f"{first},{last}"}
        theirs = java.read(catalog.root, "db.t$audit_log", options=options)
        found = table.read_changes(first, last, mode="delta").rename_columns(
            ["rowkind", "id", "day", "v"]
        )
        assert last_of_each_key(found.to_pylist()) == last_of_each_key(theirs)


@pytest.mark.parametrize("writer", ["ours", "theirs"])
@pytest.mark.mission("FS19")
def test_between_tags_the_difference_is_theirs(
    catalog: Catalog, java: JavaOracle, writer: str
) -> None:
    table = changing(catalog, java, writer)
    for number in (1, 2, 4, 8):
        java.create_tag(catalog.root, "db.t", f"at{number}", snapshot=number)
    for first, last in ((1, 4), (1, 8), (2, 4), (2, 8), (4, 8)):
        options = {"incremental-between": f"at{first},at{last}"}
        theirs = java.read(catalog.root, "db.t$audit_log", options=options)
        ours = as_changes(table.read_changes(f"at{first}", f"at{last}"))
        assert ours == sorted(
            (row["rowkind"], row["day"], row["id"], row["v"] or "") for row in theirs
        )


# --- statistics -------------------------------------------------------------------------------


@pytest.mark.mission("FS1", "FS19")
def test_they_read_the_statistics_that_we_compute(catalog: Catalog, java: JavaOracle) -> None:
    columns, values = table_of(ATOMS)
    table = new_table(catalog, columns, keys=("k",), options={"bucket": "1"})
    table.write(rows(table, values))
    result = table.upkeep.run(table.upkeep.plan_analyze())
    assert result.statistics is not None
    theirs = java.statistics(catalog.root, "db.t")
    assert theirs is not None
    (listed,) = java.read(catalog.root, "db.t$statistics")
    (ours,) = table.inspect.table("statistics").to_pylist()
    assert (listed["snapshot_id"], listed["schema_id"]) == (1, 0)
    assert {key: listed[key] for key in ours if key != "colstat"} == {
        key: ours[key] for key in ours if key != "colstat"
    }
    assert json.loads(listed["colstat"]) == json.loads(ours["colstat"]) == theirs["colStats"]
    assert theirs["colStats"].keys() == columns.keys()


def test_we_read_the_statistics_that_they_publish(catalog: Catalog, java: JavaOracle) -> None:
    table = create_theirs(catalog, java, {"k": "INT", "at": "TIMESTAMP(3)"}, keys=("k",))
    java.write(catalog.root, "db.t", [{"k": 1, "at": "2024-01-02T03:04:05.006000"}])
    described = {
        "k": {"colId": 0, "distinctCount": 1, "min": "1", "max": "1", "nullCount": 0},
        "at": {"colId": 1, "min": "2024-01-02 03:04:05.006", "avgLen": 8, "maxLen": 8},
    }
    java.analyze(
        catalog.root, "db.t", merged_record_count=1, merged_record_size=25, columns=described
    )
    (row,) = table.inspect.table("statistics").to_pylist()
    (theirs,) = java.read(catalog.root, "db.t$statistics")
    assert row == theirs
    assert json.loads(row["colstat"]) == described
    assert table.upkeep.plan_analyze().reason.startswith("the statistics are those of snapshot 1")


def test_a_table_that_we_analyzed_is_written_and_kept_by_them(
    catalog: Catalog, java: JavaOracle
) -> None:
    table = ours_keyed(catalog, java)
    result = table.upkeep.run(table.upkeep.plan_analyze())
    java.write(catalog.root, "db.t", events(50, 52))
    java.compact(catalog.root, "db.t")
    (row,) = table.inspect.table("statistics").to_pylist()
    assert result.statistics is not None
    assert row["mergedRecordCount"] == result.statistics.merged_record_count == 14
    again = table.upkeep.run(table.upkeep.plan_analyze()).statistics
    assert again is not None
    assert again.merged_record_count == 16
