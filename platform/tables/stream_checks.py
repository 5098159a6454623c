"""Checks of a source that is a stream, and of what cannot stand beside one."""

from __future__ import annotations

import re
from collections.abc import Iterator

from lakewright.platform.documents.marked_yaml import Place
from lakewright.platform.documents.wrong_places import Finding, did_you_mean
from lakewright.platform.tables.declarations import TableDeclaration, WriteKind
from lakewright.platform.tables.refresh import AutomationKind
from lakewright.platform.tables.stream_declarations import StreamDeclaration
from lakewright.platform.tables.upkeep_policies import EngineChoice
from lakewright.storage.errors import StorageError
from lakewright.storage.file_reader.path_pattern import PathPattern
from lakewright.storage.spec.partition_clock import EventTime, ProcessingTime, partition_clock
from lakewright.storage.spec.partition_expiry import PartitionExpiry
from lakewright.storage.spec.schema import TableSchema, new_schema
from lakewright.storage.spec.values import from_python

_STREAM: Place = ("source", "stream")
_KINDS = ("json", "csv", "parquet", "orc", "avro", "table")
_NAME = r"[A-Za-z0-9][A-Za-z0-9_-]*"
_TABLE_NAME = re.compile(rf"{_NAME}\.{_NAME}")


def check_stream(declaration: TableDeclaration) -> Iterator[Finding]:
    """Problems of a stream, of a declaration that has one."""
    source = declaration.source
    assert source is not None
    stream = source.stream
    assert stream is not None
    if len(stream.given) != 1:
        given = ", ".join(stream.given) or "none"
        yield _STREAM, f"give exactly one of {', '.join(_KINDS)}; given: {given}"
    yield from _check_table(declaration, stream)
    if stream.connector is None:
        for name in sorted(stream.model_fields_set & {"options", "rows_per_batch"}):
            yield (*_STREAM, name), f"{name} goes with connector; leave it out"
    elif stream.files_per_batch is not None:
        yield (*_STREAM, "files_per_batch"), "files_per_batch goes with files; write rows_per_batch"
    yield from _check_files(stream)
    yield from _check_beside(declaration)
    if "allow_empty" in source.model_fields_set:
        message = "a stream empties no partition; leave allow_empty out"
        yield ("source", "allow_empty"), message
    yield from _check_partition(declaration, stream)


def _check_table(declaration: TableDeclaration, stream: StreamDeclaration) -> Iterator[Finding]:
    place: Place = (*_STREAM, "table")
    if stream.table is None:
        for name in ("consumer", "after"):
            if name in stream.model_fields_set:
                yield (*_STREAM, name), f"{name} goes with table; leave it out"
        return
    if _TABLE_NAME.fullmatch(stream.table) is None:
        yield place, f"{stream.table!r} is not a table name; write database.table"
    if stream.table == declaration.table:
        yield place, "a table cannot stream into itself"
    if not stream.consumer:
        message = (
            "a stream of a table needs a consumer, or snapshots would expire before they are read; "
            f"write such as consumer: {declaration.table.partition('.')[2] or 'reader'}"
        )
        yield _STREAM, message
    if stream.files_per_batch is not None:
        yield (*_STREAM, "files_per_batch"), "files_per_batch goes with files; leave it out"


def _check_files(stream: StreamDeclaration) -> Iterator[Finding]:
    for kind, path in stream.paths.items():
        place: Place = (*_STREAM, kind)
        if not path.strip():
            yield place, "it is empty; name a folder"
        for name in PathPattern.parse(path).column_names:
            message = (
                f"{{{name}}} is no part of the path of a stream, whose partitions come with the "
                "rows or from `partition`; leave it out"
            )
            yield place, message
        if "://" in path and "${" not in path:
            # What opens stores needs libraries that local paths do without.
            from lakewright.storage.files.file_systems import open_file_system  # noqa: PLC0415

            try:
                open_file_system(PathPattern.parse(path).base)
            except StorageError as err:
                yield place, str(err)


def _check_beside(declaration: TableDeclaration) -> Iterator[Finding]:
    """What only runs for partitions have."""
    write, fitting = declaration.write, "upsert" if declaration.primary_key else "append"
    if write.mode is WriteKind.OVERWRITE:
        message = f"a stream adds rows and never replaces a partition; write {fitting}"
        yield ("write", "mode"), message
    stream = declaration.stream
    if write.engine is EngineChoice.LOCAL and (stream is None or stream.connector is None):
        message = "streams of files and tables run in Spark; write spark, or leave it out"
        yield ("write", "engine"), message
    if write.compact:
        message = "a stream leaves compaction to maintenance.compaction; leave it out"
        yield ("write", "compact"), message
    if "backfill" in declaration.model_fields_set:
        message = (
            "a stream reads each row once and has no backfill; leave it out, and give the stream "
            "another checkpoint to read all again"
        )
        yield ("backfill",), message
    schedule, automation = declaration.schedule, declaration.automation
    if schedule is not None and schedule.partitions > 1:
        yield ("schedule", "partitions"), "a tick writes all that is new; leave it out"
    if automation is not None and (
        automation.on_cron is not None or automation.when is AutomationKind.ON_MISSING
    ):
        message = (
            "a stream has no partition that is missing, and no tick to wait for; write eager, "
            "{continuous: 1m}, or a schedule"
        )
        yield ("automation",), message


def _check_partition(declaration: TableDeclaration, stream: StreamDeclaration) -> Iterator[Finding]:
    place: Place = (*_STREAM, "partition")
    keys = declaration.partition_keys
    unknown = [name for name in stream.partition if name not in keys]
    for name in unknown:
        near = did_you_mean(name, keys) if keys else "the table has no partition_keys"
        yield (*place, name), f"{name!r} is not a partition key; {near}"
    schema = _schema(declaration)
    if unknown or schema is None:
        return
    fields = {field.name: field for field in schema.partition_fields}
    times: dict[str, EventTime | ProcessingTime] = {}
    for name, value in stream.partition_of_rows.items():
        if isinstance(value, (EventTime, ProcessingTime)):
            times[name] = value
            continue
        try:
            from_python(value, fields[name].type)
        except StorageError as err:
            yield (*place, name), err.message
    if not times:
        return
    try:
        formatter = PartitionExpiry(schema, declaration.table).times.formatter
        partition_clock(fields, times, table=declaration.table, formatter=formatter)
    except StorageError as err:
        yield (*place, next(iter(times))), err.message


def _schema(declaration: TableDeclaration) -> TableSchema | None:
    """The schema of the declaration; None if its own problems, told elsewhere, leave it without."""
    try:
        return new_schema(declaration.schema_spec, time_millis=0)
    except StorageError:
        return None
