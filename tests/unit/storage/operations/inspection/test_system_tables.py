"""System tables: the metadata of a table as rows, as of any of its states."""

from __future__ import annotations

import datetime as dt
import json
from collections.abc import Mapping
from typing import Any

import pyarrow as pa
import pytest

from lakewright.storage import Catalog, Table
from lakewright.storage.errors import InvalidRequestError, SnapshotNotFound, TableNotFound
from lakewright.storage.operations.inspection.system_tables import system_table_names
from lakewright.storage.spec.manifest import FileSource
from lakewright.storage.sql import parse_where
from lakewright.storage.table_at import TableAt
from tests.support.tables.builders import compact, events, new_table, rows

Row = dict[str, Any]

KEYED: dict[str, Any] = {
    "columns": {"id": "BIGINT", "day": "STRING", "v": "STRING"},
    "partitions": ("day",),
    "keys": ("day", "id"),
    "options": {"bucket": "2"},
}


def system(table: Table | TableAt, name: str, **read: Any) -> list[Row]:
    found: list[Row] = table.inspect.table(name, **read).to_pylist()
    return found


def filled(catalog: Catalog, **settings: Any) -> Table:
    """Two partitions; one compacted, with an upsert and a deletion on top."""
    table = new_table(catalog, **{**KEYED, **settings})
    table.write(rows(table, [*events(0, 10), *events(0, 3, day="b")]))
    compact(table, full=True)
    table.write(rows(table, events(5, 7, v="new")))
    table.write(rows(table, [{"id": 0, "day": "b"}], ["-D"]))
    return table


@pytest.mark.mission("FS1")
def test_snapshots_are_listed_oldest_first(catalog: Catalog) -> None:
    table = filled(catalog)
    found = system(table, "snapshots")
    assert [row["snapshot_id"] for row in found] == [1, 2, 3, 4]
    assert [row["commit_kind"] for row in found] == ["APPEND", "COMPACT", "APPEND", "APPEND"]
    for row, snapshot in zip(found, table.history.snapshots(), strict=True):
        assert row["commit_user"] == snapshot.commit_user
        assert row["commit_identifier"] == snapshot.commit_identifier
        assert row["delta_manifest_list"] == snapshot.delta_manifest_list
        assert row["total_record_count"] == snapshot.total_record_count
        assert row["commit_time"].replace(tzinfo=dt.UTC).timestamp() * 1000 == pytest.approx(
            snapshot.time_millis
        )


def test_schemas_and_options_are_those_of_the_schema_files(catalog: Catalog) -> None:
    table = filled(catalog)
    (row,) = system(table, "schemas")
    assert json.loads(row["fields"]) == [
        {"id": 0, "name": "id", "type": "BIGINT NOT NULL"},
        {"id": 1, "name": "day", "type": "STRING NOT NULL"},
        {"id": 2, "name": "v", "type": "STRING"},
    ]
    assert row["partition_keys"] == '["day"]'
    assert row["primary_keys"] == '["day","id"]'
    assert json.loads(row["options"]) == dict(table.schema.options)
    assert row["comment"] is None
    options = {row["key"]: row["value"] for row in system(table, "options")}
    assert options == dict(table.schema.options)


@pytest.mark.mission("FS1")
def test_files_are_described_with_their_bounds(catalog: Catalog) -> None:
    table = filled(catalog)
    found = system(table, "files")
    entries = {entry.file.file_name: entry for entry in table.at().files()}
    assert len(found) == len(entries)
    for row in found:
        name = row["file_path"].rsplit("/", 1)[-1]
        entry = entries.pop(name)
        path = table.table_files.data_file_path(entry.place, entry.file)
        assert row["file_path"] == path
        assert row["partition"] == f"{{{table.table_files.partitions.of_entry(entry).spec['day']}}}"
        assert row["bucket"] == entry.bucket
        assert row["record_count"] == entry.file.row_count
        assert row["file_size_in_bytes"] == entry.file.file_size
        assert (row["level"], row["file_format"]) == (entry.file.level, "parquet")
        assert row["deleteRowCount"] == entry.file.delete_row_count
        assert isinstance(entry.file.file_source, FileSource)
        assert row["file_source"] == entry.file.file_source.name
        assert row["creation_time"] == dt.datetime(1970, 1, 1) + dt.timedelta(
            milliseconds=entry.file.creation_time or 0
        )
    (deletion,) = [row for row in found if row["deleteRowCount"]]
    assert (deletion["min_key"], deletion["max_key"]) == ("[0]", "[0]")
    assert deletion["null_value_counts"] == "{day=0, id=0, v=1}"
    assert deletion["min_value_stats"] == "{day=b, id=0, v=null}"
    assert deletion["max_value_stats"] == "{day=b, id=0, v=null}"


def test_a_file_older_than_a_column_holds_nulls_there(catalog: Catalog) -> None:
    from dataclasses import replace

    from lakewright.storage.spec.data_types import DataField, parse_data_type

    table = new_table(catalog, {"id": "INT", "v": "STRING"})
    table.write(rows(table, [{"id": 1, "v": "x"}, {"id": 2, "v": None}]))
    fields = (*table.schema.fields, DataField(2, "n", parse_data_type("DOUBLE")))
    later = replace(table.schema, id=1, fields=fields, highest_field_id=2)
    assert table.table_files.schemas.put_schema(later)
    (row,) = system(catalog.table(table.name), "files")
    assert row["null_value_counts"] == "{id=0, n=2, v=1}"
    assert row["max_value_stats"] == "{id=2, n=null, v=x}"
    # As of the snapshot, the table has the schema it had then.
    (then,) = system(catalog.table(table.name).at(snapshot=1), "files")
    assert then["null_value_counts"] == "{id=0, v=1}"


TYPES: Mapping[str, tuple[str, Any, str, str]] = {
    "DATE": ("DATE", dt.date(2024, 1, 2), "2024-01-02", "19724"),
    "TIME": ("TIME(3)", dt.time(1, 2, 3, 4000), "01:02:03.004", "3723004"),
    "TIMESTAMP": (
        "TIMESTAMP(3)",
        dt.datetime(2024, 1, 2, 3, 4, 5),
        "2024-01-02 03:04:05.000",
        "2024-01-02T03:04:05",
    ),
    "BOOLEAN": ("BOOLEAN", True, "true", "true"),
    "DOUBLE": ("DOUBLE", 1e10, "1.0E10", "1.0E10"),
    "STRING": ("STRING", "a b/c", "a b/c", "a b/c"),
    "null": ("INT", None, "null", "null"),
}


@pytest.mark.parametrize("kind", list(TYPES))
def test_values_are_printed_as_the_format_prints_them(catalog: Catalog, kind: str) -> None:
    type_name, value, as_text, stored = TYPES[kind]
    table = new_table(
        catalog,
        {"p": type_name, "c": type_name, "k": "INT"},
        partitions=("p",),
        options={"metadata.stats-mode": "full"},
    )
    table.write(rows(table, [{"p": value, "c": value, "k": 1}]))
    (file,) = system(table, "files")
    (bucket,) = system(table, "buckets")
    assert file["partition"] == bucket["partition"] == f"{{{as_text}}}"
    assert f"c={stored}," in file["min_value_stats"]
    (partition,) = system(table, "partitions")
    shown = "__DEFAULT_PARTITION__" if value is None else as_text
    assert partition["partition"] == f"p={shown}"


def test_manifests_are_those_that_the_snapshot_names(catalog: Catalog) -> None:
    table = filled(catalog)
    snapshot = table.history.latest_snapshot()
    assert snapshot is not None
    named = [
        meta
        for name in snapshot.manifest_lists
        for meta in table.table_files.manifests.read_list(name)
    ]
    found = system(table, "manifests")
    assert [row["file_name"] for row in found] == [meta.file_name for meta in named]
    assert [row["num_added_files"] for row in found] == [meta.num_added_files for meta in named]
    assert found[-1]["min_partition_stats"] == found[-1]["max_partition_stats"] == "{b}"


def test_partitions_and_buckets_add_up_to_the_files(catalog: Catalog) -> None:
    table = filled(catalog)
    files = system(table, "files")
    partitions = system(table, "partitions")
    assert [row["partition"] for row in partitions] == ["day=a", "day=b"]
    assert [row["total_buckets"] for row in partitions] == [2, 2]
    assert {row["done"] for row in partitions} == {False}
    buckets = system(table, "buckets")
    assert [(row["partition"], row["bucket"]) for row in buckets] == sorted(
        {(row["partition"], row["bucket"]) for row in files}
    )
    for found in (partitions, buckets):
        for sums, each in (
            ("record_count", "record_count"),
            ("file_size_in_bytes", "file_size_in_bytes"),
        ):
            assert sum(row[sums] for row in found) == sum(row[each] for row in files)
        assert sum(row["file_count"] for row in found) == len(files)
    newest = max(row["creation_time"] for row in files)
    assert max(row["last_update_time"] for row in partitions) == newest


def test_a_table_without_partitions_is_one_partition(catalog: Catalog) -> None:
    table = new_table(catalog)
    table.write(rows(table, events(0, 3)))
    (partition,) = system(table, "partitions")
    assert (partition["partition"], partition["record_count"]) == ("", 3)
    (file,) = system(table, "files")
    assert (file["partition"], file["min_key"]) == ("{}", None)


def test_tags_branches_and_consumers_are_listed(catalog: Catalog) -> None:
    table = filled(catalog)
    table.history.create_tag("kept", snapshot=1, time_retained_ms=90_000_500)
    table.history.create_tag("forever", snapshot=2)
    table.history.create_branch("trial", tag="kept")
    table.history.set_consumer("reader", 3)
    forever, kept = system(table, "tags")
    assert (kept["tag_name"], kept["snapshot_id"], kept["record_count"]) == ("kept", 1, 13)
    assert kept["time_retained"] == "PT25H0.5S"
    assert kept["create_time"] is not None
    assert (forever["tag_name"], forever["snapshot_id"]) == ("forever", 2)
    assert (forever["create_time"], forever["time_retained"]) == (None, None)
    (branch,) = system(table, "branches")
    assert branch["branch_name"] == "trial"
    assert branch["create_time"] > dt.datetime(2020, 1, 1)
    assert system(table, "consumers") == [{"consumer_id": "reader", "next_snapshot_id": 3}]
    # A branch has system tables of its own.
    listed = catalog.system_table("db.t$branch_trial$snapshots").column("snapshot_id")
    assert listed.to_pylist() == [1]


@pytest.mark.mission("FS1", "CN20")
def test_the_audit_log_holds_the_rows_and_the_deletions_still_in_files(catalog: Catalog) -> None:
    table = filled(catalog)
    found = system(table, "audit_log")
    assert list(found[0]) == ["rowkind", "id", "day", "v"]
    deleted = [row for row in found if row["rowkind"] == "-D"]
    assert [(row["day"], row["id"]) for row in deleted] == [("b", 0)]
    others = [{key: row[key] for key in ("id", "day", "v")} for row in found if row not in deleted]
    assert sorted(others, key=str) == sorted(table.read().to_pylist(), key=str)
    compact(table, full=True)
    assert {row["rowkind"] for row in system(table, "audit_log")} == {"+I"}


def test_the_audit_log_of_an_append_table_inserts_every_row(catalog: Catalog) -> None:
    table = new_table(catalog)
    table.write(rows(table, events(0, 3)))
    assert {row["rowkind"] for row in system(table, "audit_log")} == {"+I"}
    assert len(system(table, "audit_log")) == 3


def test_statistics_are_those_that_the_state_carries(catalog: Catalog) -> None:
    table = filled(catalog)
    assert system(table, "statistics") == []
    result = table.upkeep.run(table.upkeep.plan_analyze(columns=["id"]))
    assert result.statistics is not None
    (row,) = system(table, "statistics")
    assert (row["snapshot_id"], row["schema_id"], row["mergedRecordCount"]) == (4, 0, 12)
    assert row["mergedRecordSize"] == result.statistics.merged_record_size
    assert json.loads(row["colstat"])["id"] == {
        "colId": 0,
        "distinctCount": 10,
        "min": "0",
        "max": "9",
        "nullCount": 0,
        "avgLen": 8,
        "maxLen": 8,
    }
    assert system(table.at(snapshot=4), "statistics") == []


def test_index_files_are_listed_with_the_rows_they_take_away(catalog: Catalog) -> None:
    options = {"bucket": "1", "deletion-vectors.enabled": "true"}
    table = new_table(catalog, **{**KEYED, "options": options})
    table.write(rows(table, [*events(0, 100), *events(0, 100, day="b")]))
    compact(table, full=True)
    table.write(rows(table, events(3, 5, v="new")))
    compact(table)
    snapshot = table.history.latest_snapshot()
    assert snapshot is not None
    assert snapshot.index_manifest is not None
    entries = table.table_files.manifests.read_index_manifest(snapshot.index_manifest)
    found = system(table, "table_indexes")
    assert [row["file_name"] for row in found] == [entry.file.file_name for entry in entries]
    deleted = 0
    for row, entry in zip(found, entries, strict=True):
        assert row["index_type"] == "DELETION_VECTORS"
        assert row["partition"] == "{a}"
        vectors = entry.file.deletion_vectors or ()
        assert [each["f0"] for each in row["dv_ranges"]] == [each.data_file for each in vectors]
        deleted += sum(each["_CARDINALITY"] for each in row["dv_ranges"])
    assert deleted == 2
    by_partition = {row["partition"]: row for row in system(table, "partitions")}
    assert by_partition["day=a"]["deleted_record_count"] == 2
    assert by_partition["day=b"]["deleted_record_count"] == 0


def test_aggregation_fields_say_what_the_options_say(catalog: Catalog) -> None:
    from dataclasses import replace

    table = new_table(catalog)
    options = {
        "fields.v.aggregate-function": "listagg",
        "fields.v.list-agg-delimiter": ";",
        "fields.default-aggregate-function": "max",
    }
    seen = Table(replace(table.table_files, schema=replace(table.schema, options=options)))
    assert [tuple(row.values()) for row in system(seen, "aggregation_fields")] == [
        ("id", "BIGINT", "[]", "[]", None),
        ("day", "STRING", "[]", "[]", None),
        (
            "v",
            "STRING",
            "[listagg, ;]",
            "[fields.v.aggregate-function, fields.v.list-agg-delimiter]",
            None,
        ),
    ]


@pytest.mark.mission("FS19")
def test_an_earlier_state_is_described_as_it_was(catalog: Catalog) -> None:
    table = filled(catalog)
    table.history.create_tag("first", snapshot=1)
    for earlier in (table.at(snapshot=1), table.at(tag="first")):
        levels = {row["level"] for row in system(earlier, "files")}
        assert levels == {0}
        assert sum(row["record_count"] for row in system(earlier, "partitions")) == 13
        assert len(system(earlier, "audit_log")) == 13
    with pytest.raises(SnapshotNotFound, match="there are 1 to 4"):
        table.at(snapshot=9).inspect.table("files")


@pytest.mark.parametrize("name", system_table_names())
def test_a_table_without_snapshots_has_every_system_table(catalog: Catalog, name: str) -> None:
    tracked = {"options": {"bucket": "-1", "row-tracking.enabled": "true"}}
    table = new_table(catalog, **(tracked if name == "row_tracking" else KEYED))
    found = table.inspect.table(name)
    schema = table.inspect.table_schema(name)
    assert tuple(found.column_names) == schema.field_names
    always = {"schemas": 1, "options": len(table.schema.options), "aggregation_fields": 3}
    assert found.num_rows == always.get(name, 0)


def test_rows_are_filtered_by_any_column(catalog: Catalog) -> None:
    table = filled(catalog)

    def where(name: str, text: str) -> pa.Table:
        return table.inspect.table(name, parse_where(text, table.inspect.table_schema(name)))

    found = where("snapshots", "commit_kind = 'APPEND' AND snapshot_id > 1")
    assert found.column("snapshot_id").to_pylist() == [3, 4]
    assert where("audit_log", "rowkind = '-D' AND day = 'b'").num_rows == 1
    assert where("files", "partition = '{b}' AND level = 0").num_rows == 1


def test_the_catalog_reads_them_by_name(catalog: Catalog) -> None:
    table = filled(catalog)
    assert catalog.system_table("db.t$files").equals(table.inspect.table("files"))
    with pytest.raises(TableNotFound, match=r"no table db\.x"):
        catalog.system_table("db.x$files")
    with pytest.raises(InvalidRequestError, match=r"write db\.t\$snapshots"):
        catalog.system_table("db.t")


def test_an_unknown_name_is_refused_with_those_there_are(catalog: Catalog) -> None:
    table = new_table(catalog)
    with pytest.raises(InvalidRequestError, match="no system table 'file'; there are aggregation_"):
        table.inspect.table("file")
    with pytest.raises(InvalidRequestError, match="audit_log, branches, buckets, consumers, files"):
        table.inspect.table_schema("")
