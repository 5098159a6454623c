"""Staging rows: from a table of rows to data files that no snapshot names yet.

1. Refuse what the table or the rows do not allow, before a byte is written.
2. Give every row its partition and bucket.
3. Write each bucket's rows, numbered on from what the bucket holds.
4. Return the files as commit messages; on failure delete them all.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field

import numpy as np
import pyarrow as pa

from lakewright.storage.codec.arrow_types import conform
from lakewright.storage.codec.arrow_values import scalar_of, value_of
from lakewright.storage.codec.bucket_hash import buckets_of
from lakewright.storage.errors import BucketCountChanged, InvalidRequestError, InvalidRows
from lakewright.storage.files.table_files import TableFiles
from lakewright.storage.operations.bucket_writer import BucketTarget, BucketWriter
from lakewright.storage.operations.scan import live_entries
from lakewright.storage.spec.commit import (
    CommitMessage,
    OverwriteScope,
    PartitionWrite,
    StagedWrite,
    WriteMode,
)
from lakewright.storage.spec.manifest import EMPTY_ROW
from lakewright.storage.spec.options import BucketMode, Use, check_supported
from lakewright.storage.spec.rows import RowKind
from lakewright.storage.spec.schema import VALUE_KIND
from lakewright.storage.spec.snapshot import BATCH_COMMIT_IDENTIFIER
from lakewright.storage.spec.values import Value, from_python, to_python

# The column in which rows say what they do to their key: '+I', '-U', '+U', '-D', or 0 to 3.
ROW_KIND_COLUMN = "_rowkind"

# Rows that one task holds in memory at most, over all buckets it writes.
_BUFFER_BYTES = 512 * 1024 * 1024


@dataclass(frozen=True, kw_only=True)
class WriteRequest:
    """What a caller wants written, checked against the table."""

    mode: WriteMode
    static: tuple[tuple[str, Value], ...]
    dynamic: bool
    commit_user: str
    commit_identifier: int


@dataclass(frozen=True, kw_only=True)
class BucketStates:
    """What buckets hold already: their count by partition, and the next sequence number of each."""

    bucket_counts: Mapping[bytes, int] = field(default_factory=dict)
    next_sequences: Mapping[tuple[bytes, int], int] = field(default_factory=dict)


@dataclass(frozen=True, kw_only=True)
class StagingJob:
    """Everything a task needs to write its share of the rows; it pickles."""

    files: TableFiles
    request: WriteRequest
    states: BucketStates
    base_snapshot_id: int | None
    write_id: str


def prepare_write(
    files: TableFiles,
    *,
    mode: WriteMode,
    partition: Mapping[str, object] | None = None,
    dynamic: bool | None = None,
    commit_user: str | None = None,
    commit_identifier: int | None = None,
) -> StagingJob:
    """Check a write before any row is looked at.

    `dynamic` None means what the table's option `dynamic-partition-overwrite` says.

    Raises:
        UnsupportedError: the table has an option that is not implemented.
        InvalidRequestError: the partition names no partition column, or a value is of no use.
    """
    check_supported(files.schema, Use.WRITE, table=files.name)
    static = partition_spec_values(files, partition or {})
    if partition and mode is WriteMode.APPEND:
        dynamic = False
    covers_all = len(static) == len(files.schema.partition_keys)
    if dynamic is None:
        dynamic = files.options.dynamic_partition_overwrite and not covers_all
    snapshot = files.snapshots.latest()
    states = BucketStates()
    if files.options.bucket_mode is BucketMode.FIXED and mode is WriteMode.APPEND:
        states = _bucket_states(files)
    return StagingJob(
        files=files,
        request=WriteRequest(
            mode=mode,
            static=static,
            dynamic=dynamic,
            commit_user=commit_user or files.env.new_id(),
            commit_identifier=(
                BATCH_COMMIT_IDENTIFIER if commit_identifier is None else commit_identifier
            ),
        ),
        states=states,
        base_snapshot_id=None if snapshot is None else snapshot.id,
        write_id=files.env.new_id(),
    )


def partition_spec_values(
    files: TableFiles, spec: Mapping[str, object]
) -> tuple[tuple[str, Value], ...]:
    """A partition somebody names, as stored values, in the order of the partition keys.

    Raises:
        InvalidRequestError: a name is no partition key, or a value is none of its type.
    """
    keys = files.schema.partition_keys
    for name in spec:
        if name not in keys:
            have = ", ".join(keys) or "none, it is not partitioned"
            raise InvalidRequestError(
                f"{name!r} is no partition key of {files.name}; its partition keys are {have}",
                table=files.name,
            )
    return tuple(
        (name, from_python(spec[name], files.schema.field(name).type))
        for name in keys
        if name in spec
    )


def _bucket_states(files: TableFiles) -> BucketStates:
    counts: dict[bytes, int] = {}
    sequences: dict[tuple[bytes, int], int] = {}
    for entry in live_entries(files, files.snapshots.latest()):
        counts[entry.partition] = entry.total_buckets
        place = (entry.partition, entry.bucket)
        following = entry.file.max_sequence_number + 1
        sequences[place] = max(sequences.get(place, 0), following)
    return BucketStates(bucket_counts=counts, next_sequences=sequences)


class StagingWriter:
    """Writes rows of any partitions and buckets; one per task."""

    def __init__(self, job: StagingJob) -> None:
        self.job = job
        self._files = job.files
        self._writers: dict[tuple[bytes, int], BucketWriter] = {}
        # Tasks share the write id, so each puts a name of its own behind it.
        self._task_id = f"{job.write_id}-{job.files.env.new_id()[:8]}"

    def write(self, rows: pa.Table) -> None:
        """Take rows with the table's columns; columns fixed by the partition may be left out.

        Raises:
            InvalidRows: a row does not fit the table or the partition.
            BucketCountChanged: a partition has another bucket count than the table's option.
        """
        conformed = self._conform(rows)
        for partition, bucket, part in self._split(conformed):
            self._writer(partition, bucket).write(part)
        self._free_memory()

    def close(self) -> tuple[CommitMessage, ...]:
        """Finish all files; on failure none of them is left."""
        messages = []
        try:
            for (partition, bucket), writer in self._writers.items():
                written = writer.close()
                if written:
                    messages.append(
                        CommitMessage(
                            partition=partition,
                            bucket=bucket,
                            total_buckets=self._files.options.bucket,
                            new_files=written,
                        )
                    )
        except BaseException:
            self.abandon()
            raise
        return tuple(messages)

    def abandon(self) -> None:
        """Delete what was written."""
        for writer in self._writers.values():
            writer.abandon()

    def _free_memory(self) -> None:
        """Flush the fullest writers, until half of what a task may buffer is free."""
        sizes = {place: writer.buffered_bytes for place, writer in self._writers.items()}
        total = sum(sizes.values())
        if total <= _BUFFER_BYTES:
            return
        for place in sorted(sizes, key=lambda each: -sizes[each]):
            self._writers[place].flush()
            total -= sizes[place]
            if total <= _BUFFER_BYTES // 2:
                return

    def _conform(self, rows: pa.Table) -> pa.Table:
        files = self._files
        kinds = None
        if ROW_KIND_COLUMN in rows.column_names:
            kinds = rows.column(ROW_KIND_COLUMN)
            rows = rows.drop_columns([ROW_KIND_COLUMN])
        rows = self._with_static_partition(rows)
        rows = conform(rows, files.schema.fields, table=files.name)
        if files.schema.has_primary_key:
            return rows.append_column(VALUE_KIND, _row_kinds(kinds, rows.num_rows, files.name))
        if kinds is not None and np.any(_row_kinds(kinds, rows.num_rows, files.name).to_numpy()):
            raise InvalidRows(
                f"{files.name} has no primary key and takes +I rows only; leave {ROW_KIND_COLUMN} "
                "out, or give the table a primary key",
                table=files.name,
            )
        return rows

    def _with_static_partition(self, rows: pa.Table) -> pa.Table:
        for name, value in self.job.request.static:
            data_type = self._files.schema.field(name).type
            scalar = scalar_of(value, data_type)
            if name not in rows.column_names:
                rows = rows.append_column(name, pa.repeat(scalar, rows.num_rows))
                continue
            field = self._files.schema.field(name)
            given = conform(rows.select([name]), [field], table=self._files.name)
            others = given.column(name).unique()
            if len(others) > 1 or (len(others) == 1 and others[0] != scalar):
                shown = to_python(value, data_type)
                raise InvalidRows(
                    f"the write to {self._files.name} is for partition {name}={shown}, and rows "
                    f"hold {[other.as_py() for other in others][:3]}; leave the column out or "
                    "filter the rows",
                    table=self._files.name,
                )
        return rows

    def _split(self, rows: pa.Table) -> Iterator[tuple[bytes, int, pa.Table]]:
        """Rows by (partition, bucket), their order kept within each."""
        if rows.num_rows == 0:
            return
        files = self._files
        codes = np.zeros(rows.num_rows, dtype=np.int64)
        for each in files.schema.partition_fields:
            encoded = (
                rows.column(each.name).combine_chunks().dictionary_encode(null_encoding="encode")
            )
            codes = codes * len(encoded.dictionary) + encoded.indices.to_numpy()
            # Codes stay small, however many partition columns there are.
            codes = np.unique(codes, return_inverse=True)[1].reshape(-1)
        buckets = np.zeros(rows.num_rows, dtype=np.int64)
        count = files.options.bucket
        if files.options.bucket_mode is BucketMode.FIXED:
            keys = files.schema.fields_of(files.options.bucket_keys)
            buckets = buckets_of(rows, keys, count).astype(np.int64)
        places = codes * max(count, 1) + buckets
        if places[0] == places[-1] and not np.any(places != places[0]):
            yield self._partition_of(rows, 0), int(buckets[0]), rows
            return
        order = np.argsort(places, kind="stable")
        ordered = rows.take(pa.array(order))
        starts = np.flatnonzero(np.diff(places[order], prepend=-1))
        ends = np.append(starts[1:], len(order))
        for start, end in zip(starts, ends, strict=True):
            part = ordered.slice(start, end - start)
            yield self._partition_of(part, 0), int(buckets[order[start]]), part

    def _partition_of(self, rows: pa.Table, index: int) -> bytes:
        fields = self._files.schema.partition_fields
        if not fields:
            return EMPTY_ROW
        return self._files.partition_bytes(
            [value_of(rows.column(each.name)[index], each.type) for each in fields]
        )

    def _writer(self, partition: bytes, bucket: int) -> BucketWriter:
        place = (partition, bucket)
        if place not in self._writers:
            self._check_bucket_count(partition)
            target = BucketTarget(
                partition=partition,
                bucket=bucket,
                next_sequence=self.job.states.next_sequences.get(place, 0),
            )
            name = f"{self._task_id}-{len(self._writers)}"
            self._writers[place] = BucketWriter(self._files, target, write_id=name)
        return self._writers[place]

    def _check_bucket_count(self, partition: bytes) -> None:
        present = self.job.states.bucket_counts.get(partition)
        wanted = self._files.options.bucket
        if present is not None and present > 0 and present != wanted:
            spec = self._files.partition_spec(partition)
            raise BucketCountChanged(
                f"partition {spec} of {self._files.name} has {present} buckets and the table's "
                f"option asks for {wanted}; rows would be doubled: set bucket back to {present}, "
                "or overwrite the partition",
                table=self._files.name,
            )


_KINDS = {kind.short: int(kind) for kind in RowKind}


def _row_kinds(kinds: pa.ChunkedArray | None, row_count: int, table: str) -> pa.Array:
    if kinds is None:
        return pa.array(np.zeros(row_count, dtype=np.int8))
    codes = []
    for kind in kinds.to_pylist():
        code = _KINDS.get(kind, kind)
        if code not in _KINDS.values():
            raise InvalidRows(
                f"{table}: {ROW_KIND_COLUMN} holds {kind!r}; write +I, -U, +U or -D", table=table
            )
        codes.append(code)
    return pa.array(codes, pa.int8())


def stage_rows(job: StagingJob, batches: Iterator[pa.Table] | Sequence[pa.Table]) -> StagedWrite:
    """Write rows in this process.

    Raises:
        InvalidRows: a row does not fit; nothing is left on disk.
    """
    writer = StagingWriter(job)
    try:
        for rows in batches:
            writer.write(rows)
    except BaseException:
        writer.abandon()
        raise
    return staged_write(job, writer.close())


def staged_write(job: StagingJob, messages: Sequence[CommitMessage]) -> StagedWrite:
    """The staged write that tasks' messages make up."""
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
        partitions=_partition_writes(files, messages),
        base_snapshot_id=job.base_snapshot_id,
        commit_user=request.commit_user,
        commit_identifier=request.commit_identifier,
        overwrite=overwrite,
    )


def _partition_writes(
    files: TableFiles, messages: Sequence[CommitMessage]
) -> tuple[PartitionWrite, ...]:
    written: dict[bytes, list[CommitMessage]] = {}
    for message in messages:
        written.setdefault(message.partition, []).append(message)
    result = []
    for partition, parts in written.items():
        metas = [file for part in parts for file in part.new_files]
        result.append(
            PartitionWrite(
                spec=files.partition_spec(partition),
                row_count=sum(file.row_count for file in metas),
                file_count=len(metas),
                size_bytes=sum(file.file_size for file in metas),
            )
        )
    return tuple(result)
