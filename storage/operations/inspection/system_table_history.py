"""Rows of the system tables about a table's history, schema and statistics."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from lakewright.storage.codec.schema_json import field_to_json
from lakewright.storage.codec.statistics_json import column_statistics_text
from lakewright.storage.files.metadata_stores import SchemaStore
from lakewright.storage.files.table_files import TableFiles
from lakewright.storage.operations.inspection.analyze import read_statistics
from lakewright.storage.operations.inspection.system_table_text import flat_json
from lakewright.storage.secret_texts import shown_options
from lakewright.storage.spec.snapshot import Snapshot

Row = tuple[object, ...]


@dataclass(frozen=True, slots=True)
class View:
    """A table, and the snapshot for rows about its files."""

    files: TableFiles
    snapshot: Snapshot | None


def snapshot_rows(view: View) -> Iterator[Row]:
    """Snapshots, oldest first."""
    files = view.files
    for snapshot in reversed(list(files.snapshots.newest_first())):
        yield (
            snapshot.id,
            snapshot.schema_id,
            snapshot.commit_user,
            snapshot.commit_identifier,
            snapshot.commit_kind.value,
            snapshot.time_millis,
            snapshot.base_manifest_list,
            snapshot.delta_manifest_list,
            snapshot.changelog_manifest_list,
            snapshot.total_record_count,
            snapshot.delta_record_count,
            snapshot.changelog_record_count,
            snapshot.watermark,
            snapshot.next_row_id,
            snapshot.operation,
            snapshot.writer_version,
        )


def schema_rows(view: View) -> Iterator[Row]:
    """Versions of the schema, their parts as JSON."""
    files = view.files
    for schema_id in files.schemas.ids():
        schema = files.schemas.read(schema_id)
        yield (
            schema.id,
            flat_json([field_to_json(field) for field in schema.fields]),
            flat_json(schema.partition_keys),
            flat_json(schema.primary_keys),
            flat_json(shown_options(schema.options)),
            schema.comment or None,
            schema.time_millis,
        )


def option_rows(view: View) -> Iterator[Row]:
    """Options of the schema, without secrets."""
    yield from shown_options(view.files.schema.options).items()


def tag_rows(view: View) -> Iterator[Row]:
    """Tags by name, with their retention."""
    files = view.files
    for name, tag in sorted(files.references.tags().items()):
        yield (
            name,
            tag.snapshot.id,
            tag.snapshot.schema_id,
            tag.snapshot.time_millis,
            tag.snapshot.total_record_count,
            tag.create_time,
            None if tag.time_retained_ms is None else _duration_text(tag.time_retained_ms),
        )


def _duration_text(millis: int) -> str:
    """An ISO duration in hours, minutes and seconds: `PT72H`, `PT1M30.5S`."""
    seconds, fraction = divmod(millis, 1000)
    hours, minutes, seconds = seconds // 3600, seconds // 60 % 60, seconds % 60
    text = f"{hours}H" if hours else ""
    text += f"{minutes}M" if minutes else ""
    if fraction:
        text += f"{seconds}.{fraction:03d}".rstrip("0") + "S"
    elif seconds or not text:
        text += f"{seconds}S"
    return f"PT{text}"


def branch_rows(view: View) -> Iterator[Row]:
    """Branches by name."""
    files = view.files
    for name, paths in sorted(files.references.branches().items()):
        if SchemaStore(files.fs, paths).ids():
            # The copy of the first schema is the first file of a branch.
            yield name, min(each.modified_ms for each in files.fs.list_dir(paths.schema_dir))


def consumer_rows(view: View) -> Iterator[Row]:
    """Consumers by name, with their next snapshot."""
    yield from sorted(view.files.references.consumers().items())


def statistics_rows(view: View) -> Iterator[Row]:
    """The statistics of the state, if any."""
    statistics = read_statistics(view.files, view.snapshot)
    if statistics is None:
        return
    yield (
        statistics.snapshot_id,
        statistics.schema_id,
        statistics.merged_record_count,
        statistics.merged_record_size,
        column_statistics_text(statistics),
    )


def aggregation_field_rows(view: View) -> Iterator[Row]:
    """Columns, with the options that say how each is aggregated."""
    files = view.files
    functions: dict[str, list[tuple[str, str]]] = {}
    for option, value in files.schema.options.items():
        kind, *rest = option.split(".")
        if kind == "fields" and len(rest) > 1:
            functions.setdefault(rest[0], []).append((option, value))
    for field in files.schema.fields:
        found = functions.get(field.name, [])
        yield (
            field.name,
            str(field.type),
            "[" + ", ".join(value for _, value in found) + "]",
            "[" + ", ".join(option for option, _ in found) + "]",
            field.description,
        )
