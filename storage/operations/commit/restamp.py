"""Renumbers staged rows, so that their sequence numbers follow those in the bucket at commit time.

Among the rows of one key, the row with the highest sequence number wins. A writer continues
from the highest number that it finds when it starts. If two writers start from the same snapshot,
the second committer would reuse numbers of the first. So the second committer rewrites its files
with higher numbers before it commits. The result equals two writes, one after the other.
"""

from __future__ import annotations

from collections import defaultdict
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
from lakewright.storage.operations.state.table_state import TableState
from lakewright.storage.operations.write.rolling_writer import BucketTarget, RollingWriter
from lakewright.storage.operations.write.verify import Proof, ProvenFiles
from lakewright.storage.spec.commit import CommitMessage, StagedWrite, WriteMode
from lakewright.storage.spec.manifest import DataFileMeta, FileSource, ManifestEntry
from lakewright.storage.spec.options import BucketMode
from lakewright.storage.spec.partition import Place
from lakewright.storage.spec.schema import SEQUENCE_NUMBER

# Separates the original file name from the suffix of a renumbered version.
_MARK = "-renumbered-"
# The second and later rewrites of one write skip this many numbers. A rewrite takes time, and
# without the gap commits made during it would force another rewrite each time.
_NUMBERS_AHEAD = 1 << 20


class RestampedWrite:
    """A staged write and its current renumbered version, which fits the latest snapshot."""

    def __init__(self, files: TableFiles, staged: StagedWrite) -> None:
        self._files = files
        self._staged = staged
        self._current = staged

    def on_top_of(self, state: TableState) -> StagedWrite:
        """The write with sequence numbers above all those that its buckets hold in a state."""
        is_second = self._current is not self._staged
        ahead = _NUMBERS_AHEAD if is_second else 0
        renumbered = _renumbered(self._files, self._current, state, ahead)
        if renumbered is not None:
            outdated, self._current = self._current, renumbered
            if outdated is not self._staged:
                self._delete(outdated)
        return self._current

    def give_up(self) -> None:
        """Delete the renumbered files; the staged files remain."""
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
        # All versions have the indexes of the staged one.
        indexes = {index for message in kept for index in message.new_indexes}
        messages = [
            replace(each, new_indexes=tuple(i for i in each.new_indexes if i not in indexes))
            for each in version.messages
            if each not in kept
        ]
        # Files that remain are orphans. A store failure here must not hide the commit's outcome.
        with suppress(StorageError):
            delete_unpublished(
                self._files, messages, since_snapshot_id=self._staged.base_snapshot_id
            )


def stem_of(file_name: str) -> str:
    """The common prefix of the names of a file and its renumbered versions."""
    return file_name.split(".", 1)[0].split(_MARK, 1)[0]


def _renumbered(
    files: TableFiles, staged: StagedWrite, state: TableState, ahead: int
) -> StagedWrite | None:
    """The write with new sequence numbers; None if its present numbers are high enough.

    The new numbers leave a gap of `ahead` unused numbers. After a failure none of the new files
    remains.
    """
    latest = state.snapshot
    if latest is None or latest.delta_manifest_list == staged.base_commit:
        return None
    # Rows of postponed buckets have no numbers yet. A changed dynamic bucket is a conflict, but for
    # that of a table whose change of keys ended since: its files are in other buckets during it.
    numbered = files.options.bucket_mode in (BucketMode.FIXED, BucketMode.DYNAMIC)
    if not files.schema.is_keyed or not numbered or staged.mode is not WriteMode.APPEND:
        return None
    following = next_sequences(state.entries_of(each.partition for each in staged.messages))
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


def numbered_on_top(
    files: TableFiles, added: Sequence[ManifestEntry], base: Sequence[ManifestEntry]
) -> list[ManifestEntry]:
    """Entries of another client's files, with sequence numbers above those of a base.

    The client did not find the base in its buckets, so it began to count anew. Its files are
    written again where their numbers are not high enough; those of a bucket keep their order,
    also across schemas. Files of other partition keys stay.
    """
    following = next_sequences(base)
    first: dict[Place, int] = {}
    by_place: dict[tuple[Place, int], list[ManifestEntry]] = defaultdict(list)
    for each in added:
        by_place[each.place, each.file.schema_id].append(each)
        number = each.file.min_sequence_number
        first[each.place] = min(first.get(each.place, number), number)
    found: list[ManifestEntry] = []
    writers: list[RollingWriter] = []
    try:
        for (place, schema_id), entries in by_place.items():
            message = CommitMessage(
                partition=place.partition,
                bucket=place.bucket,
                total_buckets=entries[0].total_buckets,
                new_files=tuple(entry.file for entry in entries),
            )
            shift = following.get(place, 0) - first[place]
            of_files = files.at_schema(schema_id)
            if shift > 0 and of_files.schema.partition_keys == files.schema.partition_keys:
                message = _shifted(of_files, message, shift, writers)
            found += message.entries(message.new_files)
    except BaseException:
        for writer in writers:
            writer.abandon()
        raise
    return found


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
            proof.check(ProvenFiles(writer.target, writer.witness, written, file.row_count))
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
