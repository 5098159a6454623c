"""What Iceberg readers see of a table, as pyiceberg reads it, and what its metadata names."""

from __future__ import annotations

import json
import os
from contextlib import suppress
from pathlib import Path

import pyarrow as pa
from pyiceberg.table import StaticTable

from lakewright.storage import Table
from lakewright.storage.operations.iceberg.metadata_files import MetadataFiles, versions_of
from lakewright.storage.operations.inspection.system_tables import (
    READ_OPTIMIZED,
    read_system_table,
)
from tests.support.tables.builders import comparable

_HOUR_S = 3_600


def opened(table: Table) -> StaticTable:
    """The table as Iceberg readers find it: by the hint, or a later version beside it."""
    own = MetadataFiles.of(table.table_files)
    version = own.hint()
    assert version is not None, f"{table.name} has no Iceberg metadata"
    # Readers of files look for later versions, which must not be there.
    assert max(versions_of(own.listed())) == version
    return StaticTable.from_metadata(own.version_path(version))


def iceberg_rows(table: Table, snapshot: int | None = None) -> pa.Table:
    """The rows of a snapshot, by default of the current one, under the present schema."""
    found = opened(table)
    names = tuple(table.refresh().schema.field_names)
    scan = (
        found.scan(selected_fields=names) if snapshot is None else found.scan(snapshot_id=snapshot)
    )
    return scan.to_arrow()


def shown_rows(table: Table, snapshot: int | None = None) -> pa.Table:
    """The rows that Iceberg readers should see."""
    if table.schema.has_primary_key and not table.options.deletion_vectors_enabled:
        number = snapshot if snapshot is not None else table.table_files.snapshots.latest_id()
        at = table.table_files.snapshots.read(number or 0)
        files = table.table_files if snapshot is None else table.table_files.at_schema(at.schema_id)
        return read_system_table(files, READ_OPTIMIZED, at)
    return table.read() if snapshot is None else table.at(snapshot=snapshot).read()


def comparable_rows(rows: pa.Table) -> list[str]:
    """Rows in comparable form, whatever widths their texts and integers have."""
    wide = {pa.int8(): pa.int32(), pa.int16(): pa.int32()}
    fields = []
    for field in rows.schema:
        kind = wide.get(field.type, field.type)
        if pa.types.is_large_string(kind) or pa.types.is_string(kind):
            kind = pa.string()
        if pa.types.is_large_binary(kind):
            kind = pa.binary()
        if pa.types.is_timestamp(kind):
            kind = pa.timestamp("us", tz=kind.tz)
        fields.append(pa.field(field.name, kind))
    return comparable(rows.cast(pa.schema(fields)))


def assert_seen_alike(table: Table, *, history: bool = True) -> None:
    """Check that pyiceberg reads the current rows, and with `history` those of each snapshot.

    What it lists are the tags, and snapshots that are kept.
    """
    found, latest = opened(table), table.history.latest_snapshot()
    current = found.current_snapshot()
    assert current is not None
    assert latest is not None
    assert current.snapshot_id == latest.id
    assert comparable_rows(iceberg_rows(table)) == comparable_rows(shown_rows(table))
    tags = {tag.name: tag.snapshot.id for tag in table.history.tags()}
    refs = {name: ref.snapshot_id for name, ref in found.refs().items() if name != "main"}
    assert refs == tags
    there = {each.id for each in table.history.snapshots()}
    for each in found.snapshots():
        assert each.snapshot_id in there | set(tags.values())
        if each.snapshot_id in there and history:
            seen = iceberg_rows(table, each.snapshot_id)
            assert comparable_rows(seen) == comparable_rows(shown_rows(table, each.snapshot_id))


def grow_older(table: Table, hours: float) -> None:
    """Make all files of metadata older, and what they say of times."""
    folder = Path(MetadataFiles.of(table.table_files).folder)
    for path in folder.iterdir():
        at = path.stat().st_mtime - hours * _HOUR_S
        # A test may have damaged it.
        with suppress(ValueError):
            _retire_earlier(path, hours)
        os.utime(path, (at, at))


def _retire_earlier(path: Path, hours: float) -> None:
    told = json.loads(path.read_text()) if path.name.endswith(".metadata.json") else {}
    retired = json.loads(told.get("properties", {}).get("lakewright.retired", "{}"))
    if retired:
        past = {name: ms - int(hours * _HOUR_S * 1000) for name, ms in retired.items()}
        told["properties"]["lakewright.retired"] = json.dumps(past)
        path.write_text(json.dumps(told))
