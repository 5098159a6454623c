"""Reads files: of the partitions that are asked for, once, or again and again as new ones come."""

from __future__ import annotations

import datetime as dt
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace

import pyarrow as pa

from lakewright.connectors.filesystem.file_formats import FileFormat
from lakewright.connectors.filesystem.place import Found, Place
from lakewright.connectors.model.changelog_mode import ChangelogMode
from lakewright.connectors.runtime import Backlog, Offset, ReportBad, Scan, Split
from lakewright.connectors.sources import ScanTableSource
from lakewright.storage.codec.arrow_types import to_arrow_schema, to_arrow_type
from lakewright.storage.codec.arrow_values import scalar_of
from lakewright.storage.errors import NotFoundError, UnsupportedError
from lakewright.storage.file_reader.location import FoundFile
from lakewright.storage.operations.format_tables.partition_folders import PartitionFolder
from lakewright.storage.secret_texts import shown_text
from lakewright.storage.spec.data_types import AtomicType, DataField, DataType, TypeRoot
from lakewright.storage.spec.rows import ROW_KIND_COLUMN
from lakewright.storage.spec.values import to_python

# More files than this make an offset too large to keep for each batch.
_MOST_FILES = 100_000
_TEXT = AtomicType(TypeRoot.VARCHAR)
_METADATA: Mapping[str, DataType] = {
    "file.path": _TEXT,
    "file.name": _TEXT,
    "file.size": AtomicType(TypeRoot.BIGINT),
    "file.modification-time": AtomicType(TypeRoot.TIMESTAMP_LTZ, precision=3),
}


@dataclass(frozen=True)
class _Reading:
    """What is read of each file; `monitors` says that new files are waited for."""

    place: Place
    format: FileFormat
    columns: tuple[str, ...]
    metadata: tuple[tuple[str, DataField], ...] = ()
    partitions: tuple[Mapping[str, str | None], ...] | None = None
    monitors: bool = False


class FilesystemSource(ScanTableSource):
    """The rows of files."""

    def __init__(self, place: Place, file_format: FileFormat, *, monitors: bool) -> None:
        self._reading = _Reading(place, file_format, place.schema.field_names, monitors=monitors)

    @property
    def summary(self) -> str:
        place = self._reading.place
        return shown_text(f"filesystem of {place.path}: {place.format}")

    def changelog_mode(self) -> ChangelogMode:
        return self._reading.format.changelog_mode()

    def list_partitions(self) -> Sequence[Mapping[str, str | None]] | None:
        return [_texts(partition) for partition in self._reading.place.partitions()]

    def apply_partitions(self, remaining: Sequence[Mapping[str, str | None]]) -> None:
        self._reading = replace(self._reading, partitions=tuple(dict(each) for each in remaining))

    def apply_projection(self, columns: Sequence[str]) -> None:
        self._reading = replace(self._reading, columns=tuple(columns))

    def readable_metadata(self) -> Mapping[str, DataType]:
        return _METADATA

    def apply_readable_metadata(self, metadata: Sequence[tuple[str, DataField]]) -> None:
        self._reading = replace(self._reading, metadata=tuple(metadata))

    def scan(self) -> Scan:
        return FilesystemScan(self._reading)


class FilesystemScan(Scan):
    """An offset names the files that were read; a split is a file."""

    def __init__(self, reading: _Reading) -> None:
        self._reading = reading
        self.is_bounded = not reading.monitors
        self._last: frozenset[str] | None = None

    def earliest(self) -> Offset:
        return {"files": []}

    def latest(self, start: Offset, limit: int | None = None) -> Offset:
        known = {*start["files"]}
        new = [name for each in self._found() if (name := self._name(each)) not in known]
        if self._last is not None:
            new = [name for name in new if name in self._last]
        # Files without a word of how many rows they have: a batch takes some of them.
        taken = new if limit is None or not self._reading.monitors else new[: _files_of(limit)]
        if len(known) + len(taken) > _MOST_FILES and self._reading.monitors:
            raise UnsupportedError(
                f"{self._reading.place.table} follows {len(known) + len(taken)} files, and a "
                f"stream remembers {_MOST_FILES}; move files that were read elsewhere, and begin "
                "a new stream"
            )
        return {"files": [*start["files"], *taken]} if taken else start

    def backlog(self, start: Offset) -> Backlog:
        """The oldest file tells since when; the number of rows is in the files.

        Raises:
            NotFoundError: the folder is not there.
        """
        known, found = {*start["files"]}, {self._name(each): each for each in self._found()}
        place = self._reading.place
        if not found and place.is_missing:
            raise NotFoundError(
                f"{place.table} reads the folder {place.path}, which is not there; make it, or "
                "correct the path",
                path=place.path,
            )
        new = {name: each for name, each in found.items() if name not in known}
        if not new:
            return Backlog(end=start)
        since_ms = min(each.status.modified_ms for each in new.values())
        return Backlog(end={"files": [*start["files"], *new]}, since_ms=since_ms)

    def end_at(self, offset: Offset) -> None:
        """Files that come later are left to the next drain."""
        self._last = frozenset(offset["files"])

    def plan(self, start: Offset, end: Offset) -> Sequence[Split]:
        known, wanted = {*start["files"]}, {*end["files"]}
        found = {
            name: each
            for each in self._found()
            if (name := self._name(each)) in wanted and name not in known
        }
        gone = sorted(wanted - known - {*found})
        if gone:
            place = self._reading.place
            raise NotFoundError(
                f"{len(gone)} of {len(wanted - known)} files that {place.table} is to read are "
                f"gone, such as {gone[0]} of {place.path}; put them back, empty ones if their rows "
                "are not to come",
                path=gone[0],
            )
        return list(found.values())

    def read(self, split: Split) -> Iterator[pa.RecordBatch]:
        yield from self._rows(split, None)

    def read_reporting(self, split: Split, report: ReportBad) -> Iterator[pa.RecordBatch]:
        yield from self._rows(split, report)

    def _rows(self, split: Split, report: ReportBad | None) -> Iterator[pa.RecordBatch]:
        assert isinstance(split, Found)
        reading = self._reading
        by_name = {data_field.name: data_field for data_field in reading.place.data_fields}
        stored = [by_name[name] for name in reading.columns if name in by_name]
        status = split.status
        file = FoundFile(fs=reading.place.fs, path=status.path, size_bytes=status.size)
        for rows in reading.format.read(file, stored, report):
            yield from self._finished(rows, split).to_batches()

    def _finished(self, rows: pa.Table, split: Found) -> pa.Table:
        """The columns that were asked for: of the rows, of the folder, and of the file itself."""
        count, place = rows.num_rows, self._reading.place
        columns, fields = [], []
        for name in self._reading.columns:
            field = place.schema.field(name)
            if name in split.values:
                value = scalar_of(split.partition.stored[name], field.type)
                columns.append(pa.repeat(value, count).cast(to_arrow_type(field.type)))
            else:
                columns.append(rows.column(name))
            fields.append(field)
        known = _known(split)
        for key, field in self._reading.metadata:
            kind = to_arrow_type(field.type)
            columns.append(pa.array([known[key]] * count, to_arrow_type(_METADATA[key])).cast(kind))
            fields.append(field)
        schema = to_arrow_schema(fields)
        if ROW_KIND_COLUMN in rows.column_names:
            columns.append(rows.column(ROW_KIND_COLUMN))
            schema = schema.append(pa.field(ROW_KIND_COLUMN, pa.string()))
        if not columns:
            return rows.select([])
        return pa.table(columns, names=schema.names)

    def _found(self) -> Iterator[Found]:
        place, wanted = self._reading.place, self._reading.partitions
        if wanted is None:
            yield from place.found()
            return
        yield from place.found(
            [partition for partition in place.partitions() if _texts(partition) in wanted]
        )

    def _name(self, found: Found) -> str:
        root = self._reading.place.spec.location
        return found.status.path.removeprefix(root + "/")


def _files_of(limit: int) -> int:
    """How many files stand for some rows; one at least."""
    return max(1, limit // 10_000)


def _texts(folder: PartitionFolder) -> dict[str, str | None]:
    partition = folder.partition
    fields = {field.name: field for field in partition.keys.fields}
    return {
        name: None if value is None else str(to_python(value, fields[name].type))
        for name, value in partition.stored.items()
    }


def _known(split: Found) -> Mapping[str, object]:
    status = split.status
    moment = dt.datetime.fromtimestamp(status.modified_ms / 1000, dt.UTC)
    return {
        "file.path": status.path,
        "file.name": status.name,
        "file.size": status.size,
        "file.modification-time": moment,
    }
