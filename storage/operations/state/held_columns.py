"""Which columns hold a value in some live file, from statistics alone."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence

from lakewright.storage.files.table_files import TableFiles
from lakewright.storage.operations.state.file_schemas import FileSchemas
from lakewright.storage.operations.state.live_files import live_entries


def held_columns(
    files: TableFiles,
    columns: Collection[str],
    partitions: Sequence[Mapping[str, object]] | None = None,
) -> frozenset[str]:
    """The columns of these that may hold a value, in all or some partitions.

    A file that predates a column holds null there. A file without statistics may hold values.
    """
    schemas = FileSchemas(files)
    rows = (
        None
        if partitions is None
        else [files.partitions.planned(partition).row for partition in partitions]
    )
    found: set[str] = set()
    left = set(columns)
    for entry in live_entries(files, files.snapshots.latest(), partitions=rows):
        file = entry.file
        bounds = schemas.mapping_of(file).bounds(schemas.bounds_of(file), file.row_count)
        found |= {name for name in left if name not in bounds or not bounds[name].all_null}
        left -= found
        if not left:
            break
    return frozenset(found)
