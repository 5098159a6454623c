"""Finds the rows of a table that a filter selects, and counts them by file.

1. Plan a scan: bounds and buckets leave out files without a matching row.
2. Files whose every row matches by their metadata are not opened.
3. Count the rows of the other files, reading the columns of the filter alone.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from functools import partial

from lakewright.storage.errors import FileMissing, SnapshotNotFound
from lakewright.storage.files.table_files import TableFiles
from lakewright.storage.operations.read.read import SplitReader
from lakewright.storage.operations.read.scan import DataSplit, plan_scan
from lakewright.storage.operations.running.engine import Engine
from lakewright.storage.operations.state.file_schemas import FileSchemas
from lakewright.storage.operations.state.latest import read_latest
from lakewright.storage.operations.state.rewrite_schema import check_rewritable
from lakewright.storage.spec.data_types import AtomicType, TypeRoot
from lakewright.storage.spec.manifest import DataFileMeta
from lakewright.storage.spec.predicate import Not, Predicate, columns_of, may_match
from lakewright.storage.spec.snapshot import Snapshot

# Bounds leave out NaN, which is above every number.
_WITH_NAN = (TypeRoot.FLOAT, TypeRoot.DOUBLE)

_READ_AGAIN = 4


@dataclass(frozen=True, slots=True)
class Match:
    """A split with rows that match: of an append table it is a single file.

    `whole` says that all rows of the file match, so that it need not be read.
    """

    split: DataSplit
    rows: int
    whole: bool

    @property
    def bytes(self) -> int:
        return sum(file.file_size for file in self.split.files)

    @property
    def all_rows(self) -> int:
        """The rows of the files, without those that were deleted."""
        return sum(file.row_count for file in self.split.files) - sum(
            vector.cardinality or 0 for _, vector in self.split.deletions
        )


@dataclass(frozen=True, slots=True)
class Matches:
    """The matching rows of a snapshot; `opened` are the splits that were read to count them."""

    snapshot: Snapshot | None
    found: tuple[Match, ...]
    opened: tuple[DataSplit, ...]

    @property
    def rows(self) -> int:
        return sum(each.rows for each in self.found)


def find_matches(files: TableFiles, predicate: Predicate | None, engine: Engine) -> Matches:
    """The rows of the latest snapshot that a filter selects; all rows without one.

    Raises:
        SnapshotNotFound: snapshots went again and again while their files were read.
        SchemaMoved: a file may have columns that this schema does not know.
    """
    for _ in range(_READ_AGAIN):
        # It may expire or be rolled back meanwhile; the next one is read then.
        with suppress(SnapshotNotFound, FileMissing):
            return _find_matches(files, predicate, engine)
    return _find_matches(files, predicate, engine)


def _find_matches(files: TableFiles, predicate: Predicate | None, engine: Engine) -> Matches:
    snapshot, plan = read_latest(files, partial(_splits, files, predicate))
    # A plan decodes the metadata of a file each time that it is asked for.
    splits = [replace(each, files=tuple(each.files)) for each in plan]
    check_rewritable(files, (file for each in splits for file in each.files))
    if not files.schema.is_keyed:
        splits = [single for each in splits for single in singles(each)]
    certain = _Certain(files, predicate)
    known = [certain.covers(each) for each in splits]
    opened = [each for each, is_known in zip(splits, known, strict=True) if not is_known]
    snapshot_id = None if snapshot is None else snapshot.id
    counts = iter(engine.map(partial(_count, files, predicate, snapshot_id), opened))
    found = []
    for split, is_known in zip(splits, known, strict=True):
        whole = Match(split, 0, whole=True)
        count = whole.all_rows if is_known else next(counts)
        if count:
            is_whole = not files.schema.is_keyed and count == whole.all_rows
            found.append(Match(split, count, whole=is_whole))
    return Matches(snapshot, tuple(found), tuple(opened))


def singles(split: DataSplit) -> Iterator[DataSplit]:
    """A split of an append table as one of each file."""
    for file in split.files:
        deletions = tuple(
            deletion for deletion in split.deletions if deletion[1].data_file == file.file_name
        )
        yield replace(split, files=(file,), deletions=deletions)


def _splits(
    files: TableFiles, predicate: Predicate | None, snapshot: Snapshot | None
) -> Sequence[DataSplit]:
    return plan_scan(files, snapshot, predicate).splits


def _count(
    files: TableFiles, predicate: Predicate | None, snapshot_id: int | None, split: DataSplit
) -> int:
    column = min(columns_of(predicate)) if predicate else files.schema.field_names[0]
    reader = SplitReader(files, columns=[column], predicate=predicate, snapshot_id=snapshot_id)
    return sum(rows.num_rows for rows in reader.read(split))


class _Certain:
    """Decides by metadata alone whether every row of an append table's file matches."""

    def __init__(self, files: TableFiles, predicate: Predicate | None) -> None:
        self._predicate = predicate
        self._schemas = FileSchemas(files)
        fields = files.schema.fields_of(columns_of(predicate)) if predicate else ()
        self._columns = tuple(field.name for field in fields)
        self._is_open = files.schema.is_keyed or any(
            isinstance(field.type, AtomicType) and field.type.root in _WITH_NAN for field in fields
        )

    def covers(self, split: DataSplit) -> bool:
        if self._is_open or any(vector.cardinality is None for _, vector in split.deletions):
            return False
        return self._predicate is None or all(map(self._matches_whole, split.files))

    def _matches_whole(self, file: DataFileMeta) -> bool:
        assert self._predicate is not None
        mapping = self._schemas.mapping_of(file)
        bounds = mapping.bounds(self._schemas.bounds_of(file), file.row_count)
        # A comparison with null is unknown, and neither the filter nor its negation.
        if not all(name in bounds and bounds[name].no_null for name in self._columns):
            return False
        return not may_match(Not(self._predicate), bounds)
