"""Row tracking: each row of an append table has an id and the snapshot that wrote it last.

Rows of new files have neither column: the commit gives a file the id of its first row and its
snapshot, and a row's id follows from its position. Rows that move to other files take their id
along, and the snapshot unless they change. Source: Paimon, `docs/append-table/row-tracking.md`;
`SpecialFields`; `RowTrackingCommitUtils`.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace

from lakewright.storage.spec.data_types import AtomicType, DataField, TypeRoot
from lakewright.storage.spec.manifest import DataFileMeta, FileKind, ManifestEntry
from lakewright.storage.spec.schema import ROW_ID, SEQUENCE_NUMBER, TableSchema

ROW_ID_FIELD = DataField(2**31 - 6, ROW_ID, AtomicType(TypeRoot.BIGINT, nullable=False))
# Null is for rows that changed: they are of the snapshot that publishes their file.
VERSION_FIELD = DataField(2**31 - 2, SEQUENCE_NUMBER, AtomicType(TypeRoot.BIGINT))
TRACKING_FIELDS = (ROW_ID_FIELD, VERSION_FIELD)
_IDS = frozenset(field.id for field in TRACKING_FIELDS)
# What a file says of its least or greatest snapshot until the commit knows it.
UNKNOWN_VERSION = 0


def with_row_ids(schema: TableSchema) -> TableSchema:
    """The schema of files that rows of a table with row tracking move to."""
    if holds_row_ids(schema):
        return schema
    return replace(schema, fields=(*schema.fields, *TRACKING_FIELDS))


def without_row_ids(schema: TableSchema) -> TableSchema:
    """The schema of the table itself."""
    return replace(schema, fields=tuple(each for each in schema.fields if each.id not in _IDS))


def holds_row_ids(schema: TableSchema) -> bool:
    """Whether the schema is one of `with_row_ids`."""
    return schema.fields[-1].id == VERSION_FIELD.id


def tracked_entries(
    entries: Iterable[ManifestEntry], *, snapshot_id: int, next_row_id: int
) -> tuple[list[ManifestEntry], int]:
    """The entries of a commit with the ids and the snapshot of their rows, and the next free id.

    Files that were in the table before keep what they have.
    """
    found: list[ManifestEntry] = []
    for entry in entries:
        file = entry.file
        if entry.kind is FileKind.ADD:
            if file.first_row_id is None and not _has_ids(file):
                file = replace(
                    file,
                    first_row_id=next_row_id,
                    min_sequence_number=snapshot_id,
                    max_sequence_number=snapshot_id,
                )
                next_row_id += file.row_count
            elif UNKNOWN_VERSION in (file.min_sequence_number, file.max_sequence_number):
                file = replace(
                    file,
                    min_sequence_number=file.min_sequence_number or snapshot_id,
                    max_sequence_number=snapshot_id,
                )
        found.append(entry if file is entry.file else replace(entry, file=file))
    return found, next_row_id


def count_rows(files: Iterable[DataFileMeta]) -> int:
    """How many rows files have: those that hold columns of the same rows count once."""
    alone, by_id = 0, dict[int, int]()
    for file in files:
        if file.first_row_id is None:
            alone += file.row_count
        else:
            by_id[file.first_row_id] = file.row_count
    return alone + sum(by_id.values())


def _has_ids(file: DataFileMeta) -> bool:
    return file.write_cols is not None and ROW_ID in file.write_cols
