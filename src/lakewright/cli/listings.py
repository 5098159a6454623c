"""What there is: `ls`, `show`, `snapshots`, `files`, `partitions`."""

from __future__ import annotations

import argparse
import sys
from collections.abc import Mapping
from dataclasses import asdict

from lakewright.cli.layout import Cell, TextColumn, iso_time, size_text, table_lines, time_text
from lakewright.cli.output import (
    partition_cells,
    partition_columns,
    plain_spec,
    print_json,
    print_lines,
    print_table,
)
from lakewright.cli.table_report import report_json, report_table, report_text
from lakewright.cli.warehouse import filter_of, open_catalog, open_table
from lakewright.storage import Catalog, StorageError, Table
from lakewright.storage.errors import InvalidPredicate
from lakewright.storage.spec.manifest import DataFileMeta
from lakewright.storage.spec.options import BucketMode
from lakewright.storage.spec.partition import Place
from lakewright.storage.spec.predicate import columns_of


def run_listing(parsed: argparse.Namespace) -> int:
    """Print one of the listings."""
    match parsed.command:
        case "ls":
            _list_tables(parsed)
        case "show":
            report = report_table(open_table(parsed))
            if parsed.json:
                print_json(report_json(report))
            else:
                print_lines(report_text(report))
        case "snapshots":
            _list_snapshots(parsed)
        case "files":
            _list_files(parsed)
        case _:
            _list_partitions(parsed)
    return 0


# --- tables ------------------------------------------------------------------------------------


def _list_tables(parsed: argparse.Namespace) -> None:
    catalog = open_catalog(parsed)
    databases = catalog.list_databases() if parsed.database is None else (parsed.database,)
    names = [f"{each}.{name}" for each in databases for name in catalog.list_tables(each)]
    found = [_table_summary(catalog, name) for name in names]
    if parsed.json:
        print_json(found)
        return
    if not found:
        place = catalog.uri if parsed.database is None else f"database {parsed.database}"
        print_lines([f"no tables in {place}"])
        return
    columns = [
        TextColumn("table"),
        TextColumn("primary key"),
        TextColumn("partitioned by"),
        TextColumn("rows in files", right=True),
        TextColumn("snapshot", right=True),
        TextColumn("last commit (UTC)"),
    ]
    print_lines(table_lines(columns, [_table_cells(each) for each in found]))
    for each in found:
        if "error" in each:
            sys.stderr.write(f"lakewright: warning: {each['table']}: {each['error']}\n")


def _table_summary(catalog: Catalog, name: str) -> dict[str, object]:
    """One table; one that cannot be opened hides none of the others."""
    try:
        table = catalog.table(name)
        snapshot = table.latest_snapshot()
    except StorageError as error:
        return {"table": name, "error": error.message}
    return {
        "table": name,
        "primary_key": list(table.schema.primary_keys),
        "partition_keys": list(table.schema.partition_keys),
        "rows_in_files": snapshot.total_record_count if snapshot else 0,
        "snapshot_id": snapshot.id if snapshot else None,
        "last_commit": iso_time(snapshot.time_millis) if snapshot else None,
    }


def _table_cells(summary: Mapping[str, object]) -> list[Cell]:
    if "error" in summary:
        return [str(summary["table"]), "(cannot be read)", "", "", "", ""]
    keys, partition_keys = summary["primary_key"], summary["partition_keys"]
    rows, snapshot_id, committed = (
        summary[name] for name in ("rows_in_files", "snapshot_id", "last_commit")
    )
    assert isinstance(keys, list)
    assert isinstance(partition_keys, list)
    assert isinstance(rows, int)
    assert committed is None or isinstance(committed, str)
    return [
        str(summary["table"]),
        ", ".join(keys) or "-",
        ", ".join(partition_keys) or "-",
        rows,
        "-" if snapshot_id is None else str(snapshot_id),
        "-" if committed is None else committed.replace("T", " ").removesuffix("Z"),
    ]


# --- one table ---------------------------------------------------------------------------------


def _list_snapshots(parsed: argparse.Namespace) -> None:
    table = open_table(parsed)
    snapshots = table.snapshots()
    if parsed.json:
        print_json(
            [
                {
                    **asdict(each),
                    "commit_kind": each.commit_kind.value,
                    "time": iso_time(each.time_millis),
                }
                for each in snapshots
            ]
        )
        return
    columns = [
        TextColumn("snapshot", right=True),
        TextColumn("committed (UTC)"),
        TextColumn("kind"),
        TextColumn("rows in files" if table.schema.has_primary_key else "rows", right=True),
        TextColumn("change", right=True),
        TextColumn("schema", right=True),
        TextColumn("commit user"),
    ]
    rows: list[list[Cell]] = [
        [
            str(each.id),
            time_text(each.time_millis),
            each.commit_kind.value,
            each.total_record_count,
            f"{each.delta_record_count:+,}",
            str(each.schema_id),
            each.commit_user,
        ]
        for each in snapshots
    ]
    print_table(columns, rows, empty=f"{table.name} has no snapshot: nothing was committed yet")


def _list_files(parsed: argparse.Namespace) -> None:
    table = open_table(parsed)
    found = _files(parsed, table)
    if parsed.json:
        print_json([_file_json(table, *each) for each in found])
        return
    columns = [
        *partition_columns(table.schema),
        TextColumn("bucket", right=True),
        TextColumn("level", right=True),
        TextColumn("rows", right=True),
        TextColumn("size", right=True),
        TextColumn("created (UTC)"),
        TextColumn("file"),
    ]
    rows: list[list[Cell]] = [
        [
            *partition_cells(table.files.partitions.of_row(partition).spec),
            str(bucket),
            str(file.level),
            file.row_count,
            size_text(file.file_size),
            "-" if file.creation_time is None else time_text(file.creation_time),
            file.file_name,
        ]
        for partition, bucket, file in found
    ]
    print_table(columns, rows, empty="no data files")


# Partition, bucket, file.
_File = tuple[bytes, int, DataFileMeta]


def _files(parsed: argparse.Namespace, table: Table) -> list[_File]:
    where = filter_of(parsed, table.schema)
    if where is None:
        entries = table.data_files(snapshot_id=parsed.snapshot)
        found = [(entry.partition, entry.bucket, entry.file) for entry in entries]
    else:
        splits = table.plan_scan(where, snapshot_id=parsed.snapshot).splits
        found = [(each.partition, each.bucket, file) for each in splits for file in each.files]
    return sorted(found, key=lambda file: _place(table, *file))


def _place(table: Table, partition: bytes, bucket: int, file: DataFileMeta) -> tuple[object, ...]:
    values = table.files.partitions.of_row(partition).values
    ordered = tuple((value is not None, value) for value in values)
    age = (file.min_sequence_number, file.creation_time or 0)
    return ordered, bucket, file.level, *age, file.file_name


def _file_json(
    table: Table, partition: bytes, bucket: int, file: DataFileMeta
) -> dict[str, object]:
    path = table.files.data_file_path(Place(partition, bucket), file)
    return {
        "partition": plain_spec(table.files.partitions.of_row(partition).spec),
        "bucket": bucket,
        "path": path.removeprefix(table.files.paths.root + "/"),
        "uri": table.files.fs.uri(path),
        "file_name": file.file_name,
        "size_bytes": file.file_size,
        "row_count": file.row_count,
        "delete_row_count": file.delete_row_count,
        "level": file.level,
        "schema_id": file.schema_id,
        "min_sequence_number": file.min_sequence_number,
        "max_sequence_number": file.max_sequence_number,
        "source": None if file.file_source is None else file.file_source.name,
        "created": None if file.creation_time is None else iso_time(file.creation_time),
    }


def _list_partitions(parsed: argparse.Namespace) -> None:
    table = open_table(parsed)
    where = filter_of(parsed, table.schema)
    keys = table.schema.partition_keys
    others = sorted(columns_of(where) - set(keys)) if where is not None else []
    if others:
        have = ", ".join(keys) or "none, it is not partitioned"
        raise InvalidPredicate(
            f"the filter looks at {', '.join(others)}, and partitions are chosen by partition "
            f"keys alone; those of {table.name} are {have}"
        )
    found = table.partitions(where, snapshot_id=parsed.snapshot)
    if parsed.json:
        print_json(
            [
                {
                    "partition": plain_spec(each.spec),
                    "row_count": each.row_count,
                    "file_count": each.file_count,
                    "small_file_count": each.small_file_count,
                    "size_bytes": each.size_bytes,
                    "last_file_created": (
                        None
                        if each.last_file_creation_ms is None
                        else iso_time(each.last_file_creation_ms)
                    ),
                    "buckets": [asdict(bucket) for bucket in each.buckets],
                }
                for each in found
            ]
        )
        return
    keyed = table.schema.has_primary_key
    bucketed = table.options.bucket_mode is BucketMode.FIXED
    columns = [
        *partition_columns(table.schema),
        TextColumn("rows in files" if keyed else "rows", right=True),
        TextColumn("files", right=True),
        TextColumn("small", right=True),
        *([TextColumn("buckets", right=True)] if bucketed else []),
        *([TextColumn("most runs", right=True)] if keyed else []),
        TextColumn("size", right=True),
        TextColumn("last file (UTC)"),
    ]
    rows: list[list[Cell]] = [
        [
            *partition_cells(each.spec),
            each.row_count,
            each.file_count,
            each.small_file_count,
            *([len(each.buckets)] if bucketed else []),
            *([max(bucket.sorted_run_count for bucket in each.buckets)] if keyed else []),
            size_text(each.size_bytes),
            "-" if each.last_file_creation_ms is None else time_text(each.last_file_creation_ms),
        ]
        for each in found
    ]
    print_table(columns, rows, empty="no partitions")
