"""Which rows the compactions of a table drop, and which files hold such rows."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from lakewright.storage.files.table_files import TableFiles
from lakewright.storage.lsm.record_expiry import RecordExpiry
from lakewright.storage.lsm.universal_compaction import CompactionUnit
from lakewright.storage.operations.state.file_schemas import FileSchemas
from lakewright.storage.spec.manifest import DataFileMeta


def record_expiry(files: TableFiles) -> RecordExpiry | None:
    """The rows that compactions of a table drop now; None if it keeps all.

    Options of a table without a primary key drop nothing.
    """
    expire_ms = files.options.record_level_expire_ms
    if expire_ms is None or not files.schema.has_primary_key:
        return None
    # The check of options found the column.
    field = files.schema.field(files.options.record_level_time_field or "")
    return RecordExpiry(field, files.env.now_ms() // 1000 - expire_ms // 1000)


def with_past_rows(files: TableFiles, metas: Sequence[DataFileMeta]) -> list[DataFileMeta]:
    """Files that hold rows which a compaction would drop, as far as their statistics tell."""
    expiry, schemas = record_expiry(files), FileSchemas(files)
    if expiry is None:
        return []
    found = []
    for file in metas:
        known = schemas.mapping_of(file).bounds(schemas.bounds_of(file), file.row_count)
        bounds = known.get(expiry.field.name)
        if bounds is not None and expiry.is_past(bounds.minimum):
            found.append(file)
    return found


def told_past_rows(files: TableFiles, unit: CompactionUnit) -> CompactionUnit:
    """The unit, whose reason says how many of its rows may be dropped."""
    past = with_past_rows(files, unit.files)
    if not past:
        return unit
    rows = sum(file.row_count for file in past)
    told = f"{unit.reason}; drops rows past record-level.expire-time, at most {rows:,}"
    return replace(unit, reason=told)
