"""The writers of a task: they take rows of any partitions and buckets, and write the files of each.

| writer | chosen for | open at once |
|---|---|---|
| `SinglePartitionWriter` | a table or a write of one partition | the buckets of the partition |
| `GroupedWriter` | rows of a partition that follow each other | the buckets of the partition |
| `UngroupedWriter` | any other rows | as many places as `PLACES_WRITTEN` |

Rows of more places than that are sorted by place, on the local disk beyond the memory budget, and
are then written a place at a time. So a place has few files however many places there are.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import ExitStack
from itertools import groupby
from typing import TypeAlias

from lakewright.storage.env import Env
from lakewright.storage.files.table_files import TableFiles
from lakewright.storage.operations.running.concurrency import map_concurrently
from lakewright.storage.operations.running.delete_files import discard_files
from lakewright.storage.operations.running.task_memory import (
    PLACES_WRITTEN,
    ROW_GROUP_BYTES,
    SORT_BUFFER_BYTES,
    free_memory,
)
from lakewright.storage.operations.write.bucket_writer import BucketWriter, PostponedWriter
from lakewright.storage.operations.write.place_sorter import PlaceSorter
from lakewright.storage.operations.write.placed_rows import PlacedRows
from lakewright.storage.operations.write.rolling_writer import WrittenFiles
from lakewright.storage.spec.commit import WriterKind, WriterUse
from lakewright.storage.spec.partition import Place

PlaceWriter: TypeAlias = BucketWriter | PostponedWriter
# Opens the writer of a place, given the sequence number after those of its earlier files, if any.
OpenWriter: TypeAlias = Callable[[Place, int | None], PlaceWriter]


class UngroupedWriter:
    """Writes rows in any order: few places side by side, further ones sorted at the end."""

    kind = WriterKind.UNGROUPED

    def __init__(self, files: TableFiles, open_writer: OpenWriter) -> None:
        self._files = files
        self._open_writer = open_writer
        self._open: dict[Place, PlaceWriter] = {}
        # Writers that get no more rows, until as many wait as are closed at once.
        self._complete: dict[Place, PlaceWriter] = {}
        self._written: dict[Place, WrittenFiles] = {}
        # The places of sorted rows, in the order in which they first came.
        self._numbers: dict[Place, int] = {}
        self._sorter: PlaceSorter | None = None
        self._ends = ExitStack()
        self._most_open = 0

    @property
    def use(self) -> WriterUse:
        """What it took so far."""
        spilled = 0 if self._sorter is None else self._sorter.spilled_bytes
        return WriterUse(self.kind, most_open=self._most_open, spilled_bytes=spilled)

    def write(self, rows: PlacedRows) -> None:
        """Take rows.

        Raises:
            UnavailableError: the disk for spilled rows is full or failed.
        """
        if self._sorter is None:
            new = sum(place not in self._open for place in rows.places)
            if len(self._open) + new <= PLACES_WRITTEN:
                self._write_side_by_side(rows)
                free_memory(self._env, self._open.values(), tasks=1)
                return
            # The open writers come first in the order, and get their other rows at the end.
            self._numbers = {place: number for number, place in enumerate(self._open)}
            self._sorter = self._ends.enter_context(PlaceSorter())
            free_memory(self._env, self._open.values(), SORT_BUFFER_BYTES, tasks=1)
        numbers = [self._numbers.setdefault(each, len(self._numbers)) for each in rows.places]
        self._sorter.add(rows.rows, rows.numbered(numbers))

    def end_files(self) -> None:
        """Finish the open files; later rows begin new ones."""
        for writer in self._open.values():
            writer.end_file()

    def close(self) -> dict[Place, WrittenFiles]:
        """Finish all files.

        Raises:
            InvalidRows: the table's merge engine does not accept the rows.
        """
        with self._ends:
            if self._sorter is not None:
                self._write_sorted(self._sorter.pieces())
        self._complete |= self._open
        self._open = {}
        self._close_complete()
        return self._written

    def abandon(self) -> None:
        """Delete what was written."""
        self._ends.close()
        for writer in (*self._open.values(), *self._complete.values()):
            writer.abandon()
        discard_files(
            self._files.fs,
            [
                f"{self._files.bucket_dir(place)}/{file.file_name}"
                for place, written in self._written.items()
                for file in (*written.data, *written.changelog)
            ],
        )

    @property
    def _env(self) -> Env:
        return self._files.env

    def _write_side_by_side(self, rows: PlacedRows) -> None:
        for index, place in enumerate(rows.places):
            self._writer(place).write(rows.part(index))

    def _write_sorted(self, pieces: Iterator[tuple[int, object]]) -> None:
        places = list(self._numbers)
        for number, parts in groupby(pieces, key=lambda piece: piece[0]):
            writer = self._writer(places[number])
            for _, rows in parts:
                writer.write(rows)
                free_memory(self._env, [writer], SORT_BUFFER_BYTES, tasks=1)
            self._finish(places[number])

    def _writer(self, place: Place) -> PlaceWriter:
        if place not in self._open:
            if place in self._complete:
                self._close_complete()
            before = self._written.get(place, WrittenFiles(()))
            self._open[place] = self._open_writer(place, before.next_sequence)
            self._most_open = max(self._most_open, len(self._open) + len(self._complete))
        return self._open[place]

    def _finish(self, place: Place) -> None:
        """Say that no more rows come for a place."""
        self._complete[place] = self._open.pop(place)
        waiting = sum(each.buffered_bytes for each in self._complete.values())
        if len(self._complete) >= self._env.cores() or waiting >= ROW_GROUP_BYTES:
            self._close_complete()

    def _close_complete(self) -> None:
        places, writers = list(self._complete), list(self._complete.values())
        written = map_concurrently(self._env, lambda writer: writer.close(), writers)
        for place, files in zip(places, written, strict=True):
            before = self._written.get(place, WrittenFiles(()))
            self._written[place] = before.with_later(files)
        self._complete = {}


class SinglePartitionWriter(UngroupedWriter):
    """Writes the rows of one partition, bucket by bucket."""

    kind = WriterKind.SINGLE_PARTITION


class GroupedWriter(UngroupedWriter):
    """Writes rows whose partitions follow each other: one partition is open at a time.

    A partition that comes back shows that the rows are not grouped. From then on they are written
    like ungrouped ones, so a wrong promise costs a few files and loses no row.
    """

    kind = WriterKind.GROUPED

    def __init__(self, files: TableFiles, open_writer: OpenWriter) -> None:
        super().__init__(files, open_writer)
        self._finished: set[bytes] = set()

    def write(self, rows: PlacedRows) -> None:
        """Take rows; what came for other partitions before is finished."""
        partitions = {place.partition for place in rows.places}
        if self.kind is WriterKind.UNGROUPED or not self._finished.isdisjoint(partitions):
            self.kind = WriterKind.UNGROUPED
            super().write(rows)
            return
        self._finish_partitions(except_for=partitions)
        numbered = enumerate(rows.places)
        for partition, places in groupby(numbered, key=lambda each: each[1].partition):
            for index, place in places:
                self._writer(place).write(rows.part(index))
            if partition != rows.last.partition:
                self._finish_partitions(except_for={rows.last.partition})
        free_memory(self._env, self._open.values(), tasks=1)

    def _finish_partitions(self, *, except_for: set[bytes]) -> None:
        for place in [each for each in self._open if each.partition not in except_for]:
            self._finished.add(place.partition)
            self._finish(place)


WRITERS = {each.kind: each for each in (SinglePartitionWriter, GroupedWriter, UngroupedWriter)}
