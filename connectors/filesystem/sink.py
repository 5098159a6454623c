"""Writes files in three steps: in progress, pending, finished.

A task writes hidden files, `.part-….inprogress`, and closes them when they are large enough: they
are pending then. The commit moves each to its name, `part-…`, at which readers see it. The files of
a stream's batch have names of the stream and the batch, so that a batch that is repeated finds
them, and adds none. An overwrite removes the files that were there when the new ones are.

A hidden file for each checkpoint, `.lakewright-stream-…`, says which batch was the last one. It is
written before the files of that batch appear, so a checkpoint that is behind them is known.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field

import numpy as np
import pyarrow as pa

from lakewright.connectors.filesystem.file_formats import FileFormat, RecordWriter
from lakewright.connectors.filesystem.place import Place
from lakewright.connectors.last_batch import LastBatch, check_follows
from lakewright.connectors.model.changelog_mode import ChangelogMode
from lakewright.connectors.runtime import Sink
from lakewright.connectors.sinks import DynamicTableSink
from lakewright.storage.codec.arrow_values import value_of
from lakewright.storage.errors import CorruptionError, StorageError
from lakewright.storage.operations.format_tables.partition_folders import (
    PartitionFolder,
    check_own_folders,
    folder_of,
    folders_on_disk,
    list_data_files,
    list_partitions,
)
from lakewright.storage.operations.running.delete_files import delete_files, discard_files
from lakewright.storage.secret_texts import shown_text
from lakewright.storage.spec.partition import Partition
from lakewright.storage.spec.rows import ROW_KIND_COLUMN

SUCCESS = "_SUCCESS"
_MARK = ".lakewright-stream-"


@dataclass(frozen=True, slots=True, kw_only=True)
class SinkOptions:
    """When a file is large enough, what files are called, and what marks a partition."""

    roll_bytes: int
    prefix: str
    success_file: bool


@dataclass(frozen=True, slots=True)
class Pending:
    """A hidden file that is whole: the folder of its partition, and its number in the task."""

    hidden: str
    partition: Partition
    folder: str
    number: int
    task: str


class FilesystemSink(DynamicTableSink):
    """Files in the folders of their partitions."""

    def __init__(self, place: Place, file_format: FileFormat, options: SinkOptions) -> None:
        self._place, self._format, self._options = place, file_format, options
        self._overwrite = False
        self._static: Mapping[str, object] = {}

    @property
    def summary(self) -> str:
        return shown_text(f"filesystem of {self._place.path}: {self._place.format}")

    def changelog_mode(self, requested: ChangelogMode) -> ChangelogMode:
        return self._format.changelog_mode()

    def apply_overwrite(self, overwrite: bool) -> None:
        self._overwrite = overwrite

    def apply_static_partition(self, partition: Mapping[str, object]) -> None:
        self._static = dict(partition)

    def truncate(self) -> None:
        place = self._place
        folders = folders_on_disk(place.files, place.spec)
        old = [status.path for _, status in list_data_files(place.files, place.spec, folders)]
        marks = [each for each in place.fs.list_dir(place.spec.location) if _is_mark(each.name)]
        delete_files(place.fs, [*old, *(mark.path for mark in marks)])

    def sink(self) -> Sink:
        stored = self._place.files.partitions.stored(self._static)
        return FilesystemWrites(
            self._place, self._format, self._options, stored, overwrite=self._overwrite
        )


class FilesystemWrites(Sink):
    """Writes of one statement or stream."""

    def __init__(
        self,
        place: Place,
        file_format: FileFormat,
        options: SinkOptions,
        static: Mapping[str, object],
        *,
        overwrite: bool,
        stream: str = "",
        checkpoint: str = "",
    ) -> None:
        self._place, self._format, self._options = place, file_format, options
        self._static, self._overwrite = static, overwrite
        self._stream, self._checkpoint = stream, checkpoint

    def of_stream(self, name: str, checkpoint: str) -> FilesystemWrites:
        """The same, whose files bear the name of the stream."""
        return FilesystemWrites(
            self._place,
            self._format,
            self._options,
            self._static,
            overwrite=self._overwrite,
            stream=name,
            checkpoint=checkpoint,
        )

    def write(self, batches: Iterator[pa.RecordBatch]) -> list[Pending]:
        task = _Task(self._place, self._format, self._options, self._static)
        try:
            for batch in batches:
                task.write(batch)
            return task.close()
        except BaseException:
            task.abandon()
            raise

    def commit(self, written: Sequence[list[Pending]], epoch: int | None = None) -> None:
        """Publish the files; those of a repeated batch that are there already stay alone."""
        place = self._place
        pending = [each for task in written for each in task]
        # Before the first file is published: the ones that an overwrite replaces.
        old = self._replaced(pending) if self._overwrite else []
        place.fs.make_durable([each.hidden for each in pending], below=place.spec.location)
        for at, each in enumerate(pending):
            name = each.task if epoch is None else f"{self._stream}-batch{epoch}-{at}"
            ending = self._format.extension
            shown = f"{each.folder}/{self._options.prefix}-{name}-{each.number}{ending}"
            if not place.fs.move_if_absent(each.hidden, shown):
                discard_files(place.fs, [each.hidden])
        delete_files(place.fs, old)
        if self._options.success_file:
            for folder in dict.fromkeys(each.folder for each in pending):
                place.fs.replace(f"{folder}/{SUCCESS}", b"")

    def commit_batch(self, written: Sequence[list[Pending]], number: int, span: str) -> None:
        """Publish the files of a batch, if it is the one that comes next, or the last one again."""
        fs = self._place.fs
        name = hashlib.sha256(self._checkpoint.encode()).hexdigest()[:32]
        mark = f"{self._place.spec.location}/{_MARK}{name}"
        if fs.exists(mark):
            self._check_follows(mark, number, span)
        said = {"stream": self._stream, "checkpoint": self._checkpoint}
        fs.make_dirs(self._place.spec.location)
        fs.replace(mark, json.dumps({**said, "batch": number, "span": span}).encode())
        self.commit(written, number)

    def _check_follows(self, mark: str, number: int, span: str) -> None:
        try:
            found = json.loads(self._place.fs.read_bytes(mark))
            last = LastBatch(found["stream"], found["batch"], found["span"])
        except (ValueError, KeyError, TypeError) as error:
            raise CorruptionError(
                f"{mark}, which says the last batch of the stream of {self._checkpoint}, cannot be "
                f"read: {error}; delete it if the checkpoint is the one of that batch",
                path=mark,
            ) from error
        check_follows(
            LastBatch(self._stream, number, span),
            last,
            sink=f"{self._place.table} ({self._place.path})",
            checkpoint=self._checkpoint,
            empty=f"take its files out of the folder and delete {mark}",
        )

    def abort(self, written: Sequence[list[Pending]]) -> None:
        with suppress(StorageError):
            discard_files(self._place.fs, [each.hidden for task in written for each in task])

    def _replaced(self, pending: Sequence[Pending]) -> list[str]:
        """The files of the partitions that are written, or that the statement names."""
        place, keys = self._place, self._place.schema.partition_keys
        touched = [PartitionFolder(each.partition, each.folder) for each in pending]
        if not keys or {*self._static} == {*keys}:
            there = list_partitions(place.files, place.spec)
            named = [each for each in there if each.partition.is_named(self._static)]  # type: ignore[arg-type]
        else:
            named = folders_on_disk(place.files, place.spec, [each.partition for each in pending])
        folders = {each.folder: each for each in (*touched, *named)}
        found = list_data_files(place.files, place.spec, list(folders.values()))
        return [status.path for _, status in found]


def _is_mark(name: str) -> bool:
    return name.startswith(_MARK)


@dataclass
class _Task:
    """The open files of a task, one for each partition, and those that are pending."""

    place: Place
    format: FileFormat
    options: SinkOptions
    static: Mapping[str, object]
    open_files: dict[str, tuple[Partition, str, RecordWriter]] = field(default_factory=dict)
    pending: list[Pending] = field(default_factory=list)

    def __post_init__(self) -> None:
        self.id = self.place.env.new_id()
        self.count = 0

    def write(self, batch: pa.RecordBatch) -> None:
        for partition, rows in self._parts(batch):
            folder = folder_of(self.place.files, self.place.spec, partition)
            if folder not in self.open_files:
                check_own_folders(
                    self.place.files, self.place.spec, [PartitionFolder(partition, folder)]
                )
                hidden = f"{folder}/.{self.options.prefix}-{self.id}-{self.count}.inprogress"
                self.count += 1
                self.place.fs.make_dirs(folder)
                writer = self.format.open_writer(self.place.fs, hidden)
                self.open_files[folder] = partition, hidden, writer
            writer = self.open_files[folder][2]
            writer.write(rows)
            if writer.size_bytes >= self.options.roll_bytes:
                self._end(folder)

    def close(self) -> list[Pending]:
        for folder in list(self.open_files):
            self._end(folder)
        return self.pending

    def abandon(self) -> None:
        for _, _, writer in self.open_files.values():
            writer.abandon()
        hidden = [hidden for _, hidden, _ in self.open_files.values()]
        with suppress(StorageError):
            discard_files(self.place.fs, [*hidden, *(each.hidden for each in self.pending)])

    def _end(self, folder: str) -> None:
        partition, hidden, writer = self.open_files[folder]
        writer.close()
        del self.open_files[folder]
        self.pending.append(Pending(hidden, partition, folder, len(self.pending), self.id))

    def _parts(self, batch: pa.RecordBatch) -> Iterator[tuple[Partition, pa.RecordBatch]]:
        """Rows by partition, in their order, without the columns of partitions."""
        keys = self.place.files.partitions.keys
        names = [data_field.name for data_field in self.place.data_fields]
        if not batch.num_rows:
            return
        dynamic = [each for each in keys.fields if each.name not in self.static]
        codes = np.zeros(batch.num_rows, dtype=np.int64)
        for each in dynamic:
            indices = batch.column(each.name).dictionary_encode(null_encoding="encode").indices
            numbers = indices.to_numpy()
            codes = np.unique(codes * (int(numbers.max()) + 1) + numbers, return_inverse=True)[1]
        for code in np.unique(codes):
            rows = batch.take(pa.array(np.flatnonzero(codes == code)))
            values = [
                self.static[each.name]
                if each.name in self.static
                else value_of(rows.column(each.name)[0], each.type)
                for each in keys.fields
            ]
            kinds = [name for name in rows.schema.names if name == ROW_KIND_COLUMN]
            yield self.place.files.partitions.of_values(values), rows.select([*names, *kinds])  # type: ignore[arg-type]
