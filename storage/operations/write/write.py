"""Stages rows: writes data files that no snapshot names yet.

1. Refuse invalid requests and rows before the first byte is written.
2. Give every row its kind, and leave out kinds that the table ignores.
3. Give every row its partition and bucket.
4. Write each bucket's rows by the writer that the plan chose (`partition_writers.py`); sequence
   numbers continue from those of the bucket.
5. Index the hashes of new keys of dynamic buckets.
6. Return the files as commit messages; on failure delete them all.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import count

import pyarrow as pa

from lakewright.storage.codec.arrow_values import scalar_of, value_of
from lakewright.storage.codec.conform import conform
from lakewright.storage.errors import InvalidRows
from lakewright.storage.files.table_files import TableFiles
from lakewright.storage.operations.read.blank_keys import refuse_blank_keys
from lakewright.storage.operations.read.row_kinds import with_row_kinds
from lakewright.storage.operations.running.delete_files import discard_files
from lakewright.storage.operations.running.task_memory import detached, slices
from lakewright.storage.operations.state.assign_buckets import (
    BucketChooser,
    BucketStates,
    bucket_states,
)
from lakewright.storage.operations.state.latest import read_latest
from lakewright.storage.operations.write.bucket_writer import BucketWriter, PostponedWriter
from lakewright.storage.operations.write.default_values import with_defaults, with_left_out_columns
from lakewright.storage.operations.write.distinct_keys import (
    check_distinct_files,
    check_no_kinds,
    check_tells_duplicates,
)
from lakewright.storage.operations.write.partition_writers import WRITERS, PlaceWriter
from lakewright.storage.operations.write.placed_rows import placed_rows
from lakewright.storage.operations.write.rolling_writer import BucketTarget, WrittenFiles
from lakewright.storage.spec.arguments import text_argument, whole_number
from lakewright.storage.spec.commit import (
    CommitMessage,
    OnDuplicate,
    OverwriteScope,
    PartitionWrite,
    StagedWrite,
    WriteMode,
    WriterKind,
    WriterUse,
)
from lakewright.storage.spec.index import IndexFileMeta
from lakewright.storage.spec.options import POSTPONE_BUCKET, BucketMode
from lakewright.storage.spec.partition import Place
from lakewright.storage.spec.rows import ROW_KIND_COLUMN
from lakewright.storage.spec.snapshot import BATCH_COMMIT_IDENTIFIER, Snapshot
from lakewright.storage.spec.supported_options import Use, check_supported
from lakewright.storage.spec.values import Value, same_value, to_python


@dataclass(frozen=True, kw_only=True)
class WriteRequest:
    """A caller's write request, checked against the table."""

    mode: WriteMode
    static: tuple[tuple[str, Value], ...]
    dynamic: bool
    writer: WriterKind
    commit_user: str
    commit_identifier: int
    on_duplicate: OnDuplicate = OnDuplicate.MERGE


@dataclass(frozen=True, kw_only=True)
class StagingJob:
    """Everything that a task needs to write its share of the rows; picklable.

    Nulls become the defaults of their columns, unless the job `keeps_nulls`: rows that a table held
    keep theirs.
    """

    files: TableFiles
    request: WriteRequest
    states: BucketStates
    base_snapshot_id: int | None
    base_commit: str | None
    write_id: str
    keeps_nulls: bool = False

    @property
    def partition_keys(self) -> tuple[str, ...]:
        """The partition columns of the table, in their order."""
        return self.files.schema.partition_keys

    @property
    def static_partition(self) -> dict[str, object]:
        """The partition columns that the request fixes; rows may leave them out."""
        stored = dict(self.request.static)
        fields = self.files.schema.fields_of(stored)
        return {field.name: to_python(stored[field.name], field.type) for field in fields}

    @property
    def dynamic_partition_keys(self) -> tuple[str, ...]:
        """The partition columns whose values come with the rows."""
        fixed = dict(self.request.static)
        return tuple(name for name in self.partition_keys if name not in fixed)


def prepare_write(
    files: TableFiles,
    *,
    mode: WriteMode,
    partition: Mapping[str, object] | None = None,
    dynamic: bool | None = None,
    grouped: bool = False,
    commit_user: str | None = None,
    commit_identifier: int | None = None,
    on_duplicate: OnDuplicate = OnDuplicate.MERGE,
) -> StagingJob:
    """Check a write before any row is looked at.

    `dynamic` None takes the table's option `dynamic-partition-overwrite`. `grouped` says that the
    rows of each partition follow each other.

    Raises:
        UnsupportedError: the table has an option that is not implemented.
        InvalidRequestError: the partition names an unknown column, or a value does not fit; the
            user is no text, or the identifier no whole number of 64 bits.
    """
    user = None if commit_user is None else text_argument(commit_user, "commit_user")
    identifier = BATCH_COMMIT_IDENTIFIER
    if commit_identifier is not None:
        identifier = whole_number(commit_identifier, "commit_identifier")
    check_supported(files.schema, Use.WRITE, table=files.name)
    if on_duplicate is OnDuplicate.REFUSE:
        check_tells_duplicates(files)
    static = tuple(files.partitions.stored(partition or {}).items())
    if partition and mode is WriteMode.APPEND:
        dynamic = False
    covers_all = len(static) == len(files.schema.partition_keys)
    if dynamic is None:
        dynamic = files.options.dynamic_partition_overwrite and not covers_all

    def states_in(snapshot: Snapshot | None) -> BucketStates:
        return bucket_states(files, snapshot) if mode is WriteMode.APPEND else BucketStates()

    snapshot, states = read_latest(files, states_in)
    return StagingJob(
        files=files,
        request=WriteRequest(
            mode=mode,
            static=static,
            dynamic=dynamic,
            writer=_writer_kind(files, one_partition=covers_all, grouped=grouped),
            commit_user=user or files.env.new_id(),
            commit_identifier=identifier,
            on_duplicate=on_duplicate,
        ),
        states=states,
        base_snapshot_id=None if snapshot is None else snapshot.id,
        base_commit=None if snapshot is None else snapshot.delta_manifest_list,
        write_id=files.env.new_id(),
    )


def _writer_kind(files: TableFiles, *, one_partition: bool, grouped: bool) -> WriterKind:
    if one_partition:
        return WriterKind.SINGLE_PARTITION
    # Of two writers of a partition, a compaction of postponed rows does not know the order.
    if grouped and files.options.bucket_mode is not BucketMode.POSTPONE:
        return WriterKind.GROUPED
    return WriterKind.UNGROUPED


class StagingWriter:
    """Writes rows of any partitions and buckets; a task has one."""

    def __init__(self, job: StagingJob) -> None:
        self.job = job
        self._files = job.files
        self._chooser = BucketChooser(job.files, job.states)
        self._writer = WRITERS[job.request.writer](job.files, self._open_writer)
        self._opened = count()
        self._index_names: list[str] = []
        # Tasks share the write id, so each task appends its own name.
        self._task_id = f"{job.write_id}-{job.files.env.new_id()[:8]}"

    def write(self, rows: pa.Table) -> None:
        """Take rows with the table's columns.

        Rows may leave out columns that the request's partition fixes. They may also leave out
        nullable columns and columns with a default, except partition keys.

        Raises:
            UnsupportedError: a default that is needed cannot be read.
            InvalidRows: a row does not fit the table or the partition.
            BucketCountChanged: the option `bucket` was changed since a partition was written.
        """
        for piece in slices(rows):
            conformed = self._conform(detached(piece))
            if conformed.num_rows:
                self._writer.write(placed_rows(conformed, self._chooser.choose(conformed)))

    @property
    def use(self) -> WriterUse:
        """How the rows became files."""
        return self._writer.use

    def close(self) -> tuple[CommitMessage, ...]:
        """Finish all files; deletes them all on failure.

        Raises:
            InvalidRows: the table's merge engine does not accept the rows.
        """
        try:
            written = self._writer.close()
            if self.job.request.on_duplicate is OnDuplicate.REFUSE:
                for place, new in written.items():
                    check_distinct_files(self._files, place, new.data)
            messages = (self._message(place, files) for place, files in written.items())
            return tuple(message for message in messages if message is not None)
        except BaseException:
            self.abandon()
            raise

    def abandon(self) -> None:
        """Delete what was written."""
        self._writer.abandon()
        discard_files(self._files.fs, [self._files.paths.index(name) for name in self._index_names])

    def _message(self, place: Place, written: WrittenFiles) -> CommitMessage | None:
        partition, bucket = place
        if not written.data and not written.changelog:
            return None
        new_indexes, removed_indexes = self._index_changes(partition, bucket)
        return CommitMessage(
            partition=partition,
            bucket=bucket,
            total_buckets=self._chooser.total_buckets(partition),
            new_files=written.data,
            changelog_files=written.changelog,
            new_indexes=new_indexes,
            removed_indexes=removed_indexes,
        )

    def _index_changes(
        self, partition: bytes, bucket: int
    ) -> tuple[tuple[IndexFileMeta, ...], tuple[IndexFileMeta, ...]]:
        """The new hash index of a dynamic bucket, and the index that it replaces.

        An unchanged index replaces itself. The commit then detects a conflict if another writer
        changed the index, and with it the buckets of keys.
        """
        dynamic = self._chooser.dynamic.get(partition)
        if dynamic is None:
            return (), ()
        entries = self.job.states.hash_indexes.get(partition, ())
        before = tuple(entry.file for entry in entries if entry.bucket == bucket)
        if bucket not in dynamic.grown:
            return before, before
        name = f"index-{self._task_id}-{len(self._index_names)}"
        self._index_names.append(name)
        index = self._files.indexes.write_hash_index(dynamic.hashes_of_bucket(bucket), name=name)
        return (index,), before

    def _conform(self, rows: pa.Table) -> pa.Table:
        files = self._files
        kinds = None
        if self.job.request.on_duplicate is OnDuplicate.REFUSE:
            check_no_kinds(files, rows.column_names)
        if ROW_KIND_COLUMN in rows.column_names:
            kinds = rows.column(ROW_KIND_COLUMN)
            rows = rows.drop_columns([ROW_KIND_COLUMN])
        rows = with_left_out_columns(self._with_static_partition(rows), files)
        rows = conform(rows, files.schema.fields, table=files.name)
        if not self.job.keeps_nulls:
            rows = with_defaults(rows, files)
        refuse_blank_keys(rows, files)
        return with_row_kinds(files, rows, kinds)

    def _with_static_partition(self, rows: pa.Table) -> pa.Table:
        for name, value in self.job.request.static:
            default = self._files.schema.field(name).default_value
            if value is None and default is not None and rows.num_rows:
                raise InvalidRows(
                    f"the write to {self._files.name} is for partition {name}=null, and column "
                    f"{name} has the default {default!r}, so no row can be in that partition; "
                    "write the rows to the partition of the default, or of another value"
                )
            data_type = self._files.schema.field(name).type
            scalar = scalar_of(value, data_type)
            if name not in rows.column_names:
                rows = rows.append_column(name, pa.repeat(scalar, rows.num_rows))
                continue
            field = self._files.schema.field(name)
            given = conform(rows.select([name]), [field], table=self._files.name)
            others = [value_of(other, data_type) for other in given.column(name).unique()]
            strange = [each for each in others if not same_value(each, value)]
            if strange:
                shown = to_python(value, data_type)
                held = [to_python(each, data_type) for each in strange[:3]]
                raise InvalidRows(
                    f"the write to {self._files.name} is for partition {name}={shown}, and rows "
                    f"hold {held}; leave the column out or filter the rows"
                )
        return rows

    def _open_writer(self, place: Place, next_sequence: int | None) -> PlaceWriter:
        name = f"{self._task_id}-{next(self._opened)}"
        if next_sequence is None:
            next_sequence = self.job.states.next_sequences.get(place, 0)
        target = BucketTarget(
            partition=place.partition, bucket=place.bucket, next_sequence=next_sequence
        )
        if place.bucket == POSTPONE_BUCKET:
            user = self.job.request.commit_user
            return PostponedWriter(self._files, target, commit_user=user, write_id=name)
        return BucketWriter(
            self._files,
            target,
            write_id=name,
            tells_changes=self.job.request.mode is WriteMode.APPEND,
            on_duplicate=self.job.request.on_duplicate,
        )


def stage_rows(job: StagingJob, batches: Iterator[pa.Table] | Sequence[pa.Table]) -> StagedWrite:
    """Write rows in this process.

    Raises:
        InvalidRows: a row does not fit; all files are deleted.
    """
    writer = StagingWriter(job)
    try:
        for rows in batches:
            writer.write(rows)
    except BaseException:
        writer.abandon()
        raise
    return staged_write(job, writer.close(), writer.use)


def staged_write(
    job: StagingJob, messages: Sequence[CommitMessage], writer: WriterUse | None = None
) -> StagedWrite:
    """The staged write of all messages of the tasks."""
    files, request = job.files, job.request
    overwrite = None
    if request.mode is WriteMode.OVERWRITE:
        overwrite = OverwriteScope(request.static, request.dynamic)
    return StagedWrite(
        table=files.name,
        write_id=job.write_id,
        mode=request.mode,
        schema_id=files.schema.id,
        messages=tuple(messages),
        partitions=partition_writes(files, messages),
        base_snapshot_id=job.base_snapshot_id,
        base_commit=job.base_commit,
        commit_user=request.commit_user,
        commit_identifier=request.commit_identifier,
        overwrite=overwrite,
        writer=writer,
    )


def use_of_tasks(planned: WriterKind, tasks: Sequence[WriterUse]) -> WriterUse:
    """How all tasks of a write wrote together, of which the plan chose one writer."""
    kinds = {task.kind for task in tasks}
    return WriterUse(
        WriterKind.UNGROUPED if WriterKind.UNGROUPED in kinds else planned,
        most_open=max((task.most_open for task in tasks), default=0),
        spilled_bytes=sum(task.spilled_bytes for task in tasks),
    )


def partition_writes(
    files: TableFiles, messages: Sequence[CommitMessage]
) -> tuple[PartitionWrite, ...]:
    """The totals of a write's messages for each partition."""
    written: dict[bytes, list[CommitMessage]] = {}
    for message in messages:
        written.setdefault(message.partition, []).append(message)
    result = []
    for partition, parts in written.items():
        metas = [file for part in parts for file in part.new_files]
        result.append(
            PartitionWrite(
                spec=files.partitions.of_row(partition).spec,
                row_count=sum(file.row_count for file in metas),
                file_count=len(metas),
                size_bytes=sum(file.file_size for file in metas),
            )
        )
    return tuple(result)
