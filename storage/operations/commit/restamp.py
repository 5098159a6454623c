"""Numbering staged rows on from what their bucket holds by the time they are committed.

Of the rows of a key the one with the highest sequence number counts. A writer numbers its
rows on from what it finds when it begins, so of two writers that began alike the one that
commits later would not count as later. Before it does, its files are written again
with numbers beyond those that came meanwhile: the result is that of one write
after the other.
"""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import suppress
from dataclasses import replace

import pyarrow as pa
import pyarrow.compute as pc

from lakewright.storage.errors import StorageError
from lakewright.storage.files.table_files import TableFiles
from lakewright.storage.operations.read.file_rows import FileRows
from lakewright.storage.operations.read.scan import DataSplit
from lakewright.storage.operations.references.sweep import delete_unpublished
from lakewright.storage.operations.state.assign_buckets import next_sequences
from lakewright.storage.operations.state.live_files import LiveFiles
from lakewright.storage.operations.write.rolling_writer import BucketTarget, RollingWriter
from lakewright.storage.operations.write.verify import Proof, Written
from lakewright.storage.spec.commit import CommitMessage, StagedWrite, WriteMode
from lakewright.storage.spec.manifest import DataFileMeta, FileSource
from lakewright.storage.spec.options import BucketMode
from lakewright.storage.spec.schema import SEQUENCE_NUMBER
from lakewright.storage.spec.snapshot import Snapshot

# Stands between a file's name and what tells its renumbered versions apart.
_MARK = "-renumbered-"
# A write that is written again for a second time leaves room for what others commit meanwhile:
# writing takes time, in which those who need not write come first, again and again.
_NUMBERS_AHEAD = 1 << 20


class RestampedWrite:
    """A staged write, and the version of it that fits on top of what others committed."""

    def __init__(self, files: TableFiles, staged: StagedWrite) -> None:
        self._files = files
        self._staged = staged
        self._current = staged

    def on_top_of(self, latest: Snapshot | None, live_files: LiveFiles) -> StagedWrite:
        """The write with numbers beyond all that its buckets hold in a snapshot."""
        is_second = self._current is not self._staged
        ahead = _NUMBERS_AHEAD if is_second else 0
        renumbered = _renumbered(self._files, self._current, latest, live_files, ahead)
        if renumbered is not None:
            outdated, self._current = self._current, renumbered
            if outdated is not self._staged:
                self._delete(outdated)
        return self._current

    def give_up(self) -> None:
        """Delete what was written again; what was staged stays."""
        if self._current is not self._staged:
            self._delete(self._current)

    def settle(self) -> None:
        """Delete the versions that were not published."""
        if self._current is not self._staged:
            self._delete(self._staged)
            self._delete(self._current)

    def _delete(self, version: StagedWrite) -> None:
        others = [each for each in (self._staged, self._current) if each is not version]
        kept = [message for each in others for message in each.messages]
        messages = [each for each in version.messages if each not in kept]
        # What stays behind is an orphan; a store that fails must not hide how the commit ended.
        with suppress(StorageError):
            delete_unpublished(
                self._files, messages, since_snapshot_id=self._staged.base_snapshot_id
            )


def stem_of(file_name: str) -> str:
    """What the names of a file and of its renumbered versions begin with."""
    return file_name.split(".", 1)[0].split(_MARK, 1)[0]


def _renumbered(
    files: TableFiles,
    staged: StagedWrite,
    latest: Snapshot | None,
    live_files: LiveFiles,
    ahead: int,
) -> StagedWrite | None:
    """The write with other numbers; None if those it has will do.

    So many numbers `ahead` of what is needed are left free.
    When this fails, none of the new files is left.
    """
    if latest is None or latest.delta_manifest_list == staged.base_commit:
        return None
    # Postponed rows have no numbers yet, and a dynamic bucket that moved is a conflict anyway.
    fixed = files.options.bucket_mode is BucketMode.FIXED
    if not files.schema.is_keyed or not fixed or staged.mode is not WriteMode.APPEND:
        return None
    partitions = {message.partition for message in staged.messages}
    following = next_sequences(live_files.entries(latest, partitions=partitions))
    shifts = {
        message.place: following.get(message.place, 0) - _first_number(message)
        for message in staged.messages
    }
    if all(shift <= 0 for shift in shifts.values()):
        return None
    shifts = {place: shift + ahead for place, shift in shifts.items() if shift > 0}
    files = files.at_schema(staged.schema_id)
    messages: list[CommitMessage] = []
    writers: list[RollingWriter] = []
    try:
        for message in staged.messages:
            shift = shifts.get(message.place, 0)
            messages.append(_shifted(files, message, shift, writers) if shift > 0 else message)
    except BaseException:
        for writer in writers:
            writer.abandon()
        raise
    return replace(staged, messages=tuple(messages))


def _first_number(message: CommitMessage) -> int:
    return min(file.min_sequence_number for file in message.written_files)


def _shifted(
    files: TableFiles, message: CommitMessage, shift: int, writers: list[RollingWriter]
) -> CommitMessage:
    source = FileRows(files, files.schema.fields)

    def shifted(metas: Sequence[DataFileMeta], *, changelog: bool) -> tuple[DataFileMeta, ...]:
        split = DataSplit(
            partition=message.partition, bucket=message.bucket, files=tuple(metas), merge=False
        )
        found: list[DataFileMeta] = []
        for file in metas:
            proof = Proof(files)
            writer = _writer(files, split, file, proof, changelog=changelog)
            writers.append(writer)
            _copy(source, split, file, shift, writer, proof)
            written = writer.close()
            proof.check(Written(writer.target, writer.witness, written, file.row_count))
            found += written
        return tuple(found)

    return replace(
        message,
        new_files=shifted(message.new_files, changelog=False),
        changelog_files=shifted(message.changelog_files, changelog=True),
    )


def _writer(
    files: TableFiles, split: DataSplit, file: DataFileMeta, proof: Proof, *, changelog: bool
) -> RollingWriter:
    target = BucketTarget(
        partition=split.partition,
        bucket=split.bucket,
        level=file.level,
        source=file.file_source or FileSource.APPEND,
        changelog=changelog,
        name_prefix=stem_of(file.file_name) + _MARK,
    )
    write_id = files.env.new_id()[:8]
    return RollingWriter(files, target, write_id=write_id, witness=proof.witness())


def _copy(
    source: FileRows,
    split: DataSplit,
    file: DataFileMeta,
    shift: int,
    writer: RollingWriter,
    proof: Proof,
) -> None:
    for rows in source.key_value_rows(split, file, batch_rows=source.batch_rows(split, file)):
        place = rows.schema.get_field_index(SEQUENCE_NUMBER)
        numbers = pc.add(rows.column(place), pa.scalar(shift, pa.int64()))
        due = rows.set_column(place, rows.schema.field(place), numbers)
        proof.expect(due)
        writer.write(due)
