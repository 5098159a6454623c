"""Publishing: rows are staged, then looked at, and only then committed.

1. If an earlier try of the same run has committed already, nothing is done again.
2. Lease the partitions, and stage the rows: files lie on disk and no reader sees them.
3. Refuse rows of partitions that were not asked for; they would replace others.
4. Ask the expectations about the staged rows.
5. A critical one is not met, or rows are missing and that is not declared: delete the files.
   Otherwise commit.
6. Where the writer is to compact as it goes, do what is due in the partitions written to.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from functools import partial, reduce
from typing import Any

import numpy as np
import pyarrow as pa

from lakewright.platform.declare.declarations import EngineChoice, TableDeclaration, WriteKind
from lakewright.platform.declare.partition_keys import describe_partition, partition_identity
from lakewright.platform.ingest.expectations import (
    ValidationReport,
    columns_needed,
    validate_arrow,
    validate_dataframe,
)
from lakewright.platform.ingest.missing_rows import check_rows_came
from lakewright.platform.upkeep.engines import compaction_engine, prefers_spark
from lakewright.platform.upkeep.leases import Warn, maintaining, partitions_scope, writing
from lakewright.storage import (
    CommitResult,
    Engine,
    LeaseKind,
    Snapshot,
    StagedWrite,
    StorageError,
    Table,
    WriterCompaction,
)
from lakewright.storage.env import Env, SystemEnv
from lakewright.storage.errors import CommitOutcomeUnknownError, InvalidRequestError, InvalidRows
from lakewright.storage.operations.rewrite.compact_written import check_writer_may_compact
from lakewright.storage.operations.running.plan import RewritePlan
from lakewright.storage.spec.options import BucketMode

_LOG = logging.getLogger(__name__)
# More rows than this are validated in Spark.
PANDAS_ROW_LIMIT = 2_000_000
# The identifier of the commit that completes a write; commits before it have smaller ones.
LAST_COMMIT = 1_000_000_000


@dataclass(frozen=True, kw_only=True)
class WriteOrder:
    """What is to be written, and in whose name.

    `partitions` are the partitions asked for, None for whatever turns up.
    `commit_user` is the same at every try of one run, so that a repeated try
    finds what it has committed already. Without `allow_empty` nothing is taken away
    that no rows come for; `explain` raises what it knows of rows that are missing
    or cannot be read.
    """

    declaration: TableDeclaration
    partitions: tuple[Mapping[str, object], ...] | None
    commit_user: str
    kind: WriteKind
    compact: bool = False
    micro_batches: int = 1
    allow_empty: bool = False
    upstream: Mapping[str, Table] = field(default_factory=dict, repr=False)
    explain: Callable[[], None] = field(default=lambda: None, repr=False)
    session: Callable[[], Any] = field(repr=False)
    warn: Warn = field(default=_LOG.warning, repr=False)


@dataclass(frozen=True, slots=True, kw_only=True)
class PartitionTotals:
    """What was put into one partition."""

    spec: Mapping[str, object]
    row_count: int
    file_count: int
    size_bytes: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Published:
    """Rows that readers see."""

    partitions: tuple[PartitionTotals, ...]
    report: ValidationReport
    snapshot: Snapshot | None
    commits: int
    engine: str
    duration_ms: int
    compaction: WriterCompaction | None = None

    @property
    def row_count(self) -> int:
        return sum(each.row_count for each in self.partitions)

    @property
    def file_count(self) -> int:
        return sum(each.file_count for each in self.partitions)

    @property
    def size_bytes(self) -> int:
        return sum(each.size_bytes for each in self.partitions)


@dataclass(frozen=True, slots=True, kw_only=True)
class AlreadyPublished:
    """An earlier try of the same run had committed everything."""

    snapshot: Snapshot


@dataclass(frozen=True, slots=True, kw_only=True)
class Rejected:
    """Rows that were not published; their files are gone."""

    report: ValidationReport
    partitions: tuple[PartitionTotals, ...]
    duration_ms: int


def publish(
    table: Table, rows: Callable[[], Any], order: WriteOrder, *, env: Env | None = None
) -> Published | AlreadyPublished | Rejected:
    """Write rows through the gate; `rows` is called only when they are needed.

    What an earlier try published and died before it compacted is left to the next write, or to
    the compaction sensor.

    Raises:
        StorageError: staging or committing failed; staged files are gone, unless it is
            unknown whether they were committed.
    """
    env = env or SystemEnv()
    started = env.now_ms()
    _check_order(table, order)
    done = table.find_committed(order.commit_user, LAST_COMMIT)
    if done is not None:
        return AlreadyPublished(snapshot=done)
    given = rows()
    pending: list[StagedWrite] = []
    with writing(
        table, order.kind, order.partitions, commit_user=order.commit_user, warn=order.warn
    ):
        try:
            for each in _staged_in_turn(table, given, order):
                pending.append(each)  # noqa: PERF402  # what is staged is deleted if the next one fails
            _check_partitions(table, pending, order.partitions)
            report = _validate(table, pending, order, env)
            totals = _totals(pending)
            if report.blocking:
                took = env.now_ms() - started
                return Rejected(report=report, partitions=totals, duration_ms=took)
            if not order.allow_empty:
                check_rows_came(
                    table,
                    [each.spec for each in totals if each.row_count],
                    order.partitions,
                    replaces=order.kind is WriteKind.OVERWRITE,
                    upstream=order.upstream,
                    explain=order.explain,
                )
            snapshot, commits = None, 0
            while pending:
                result = _commit_first(table, pending)
                snapshot = result.snapshot or snapshot
                commits += result.snapshot is not None
        finally:
            for left in pending:
                # A store that fails now too must not hide why the write failed.
                with suppress(StorageError):
                    table.abort(left)
    return Published(
        partitions=totals,
        report=report,
        snapshot=snapshot,
        commits=commits,
        engine="spark" if _goes_to_spark(given, order) else "local",
        duration_ms=env.now_ms() - started,
        compaction=_compacted(table, totals, order) if order.compact else None,
    )


def _compacted(
    table: Table, totals: Sequence[PartitionTotals], order: WriteOrder
) -> WriterCompaction:
    policy = order.declaration.maintenance.compaction
    touched = [each.spec for each in totals]

    def engine_for(plan: RewritePlan) -> Engine:
        return compaction_engine(policy.engine, size_bytes=plan.bytes_before, session=order.session)

    try:
        scope = partitions_scope(table, touched)
        with maintaining(table, LeaseKind.COMPACT, scope, run=order.commit_user) as lease:
            return table.compact_written(
                touched,
                engine_for,
                min_file_num=policy.small_files,
                verify=policy.verify,
                lease=lease,
            )
    except StorageError as error:
        # The rows are published, and somebody else is compacting them.
        return WriterCompaction(failure=error)


def _commit_first(table: Table, pending: list[StagedWrite]) -> CommitResult:
    """Commit the first one; it leaves the list once its files must not be deleted any more."""
    try:
        result = table.commit(pending[0])
    except CommitOutcomeUnknownError:
        # A snapshot may name these files.
        del pending[0]
        raise
    staged = pending.pop(0)
    if result.already_committed or result.snapshot is None:
        # The earlier commit stands, whatever becomes of what this try has staged.
        with suppress(StorageError):
            table.abort(staged)
    return result


def _check_order(table: Table, order: WriteOrder) -> None:
    if order.compact:
        check_writer_may_compact(table.files)
    if order.micro_batches < 1:
        raise InvalidRequestError(f"micro_batches is {order.micro_batches}; it is at least 1")
    if order.micro_batches == 1:
        return
    if order.kind is not WriteKind.APPEND or table.options.bucket_mode is not BucketMode.UNAWARE:
        raise InvalidRequestError(
            f"micro_batches is {order.micro_batches}, which is for appending to tables without "
            f"fixed buckets; the write to {table.name} is {order.kind.value}: leave it at 1, or "
            "set mode to append"
        )


def _staged_in_turn(table: Table, rows: Any, order: WriteOrder) -> Iterator[StagedWrite]:
    try:
        yield from _stage(table, rows, order)
    except StorageError:
        raise
    except Exception:
        # Of a task that read the source Spark tells a trace; the source says which file it was.
        order.explain()
        raise


def _stage(table: Table, rows: Any, order: WriteOrder) -> Iterator[StagedWrite]:
    """Staged writes in the order in which they are to be committed."""
    if not isinstance(rows, pa.Table) and not _is_dataframe(rows):
        raise InvalidRows(
            f"the source of {table.name} returned a {type(rows).__name__}; return a pyarrow.Table "
            "or a Spark DataFrame",
            table=table.name,
        )
    if order.micro_batches > 1:
        arrow = rows.toArrow() if _is_dataframe(rows) else rows
        batches = list(_sliced(arrow, table.schema.partition_keys, order.micro_batches))
        for at, batch in enumerate(batches):
            identifier = LAST_COMMIT if at == len(batches) - 1 else at
            yield table.stage(
                batch,
                mode="append",
                commit_user=order.commit_user,
                commit_identifier=identifier,
            )
        return
    main = _stage_whole(table, rows, order)
    try:
        emptied = list(_emptied(table, main, order))
    except BaseException:
        table.abort(main)
        raise
    yield from emptied
    yield main


def _stage_whole(table: Table, rows: Any, order: WriteOrder) -> StagedWrite:
    """All rows as one staged write."""
    overwrite = order.kind is WriteKind.OVERWRITE
    partition = None
    if overwrite and order.partitions is not None and len(order.partitions) == 1:
        partition = order.partitions[0]
    # Of several partitions, those that the rows touch are replaced.
    dynamic = overwrite and bool(table.schema.partition_keys) and partition is None
    stage = partial(table.stage, rows)
    if _goes_to_spark(rows, order):
        from lakewright.storage.spark import dataframe_of, stage_dataframe

        frame = rows if _is_dataframe(rows) else dataframe_of(order.session(), rows)
        stage = partial(stage_dataframe, table, frame)
    elif _is_dataframe(rows):
        stage = partial(table.stage, rows.toArrow())
    return stage(
        mode="overwrite" if overwrite else "append",
        partition=partition,
        dynamic=dynamic,
        commit_user=order.commit_user,
        commit_identifier=LAST_COMMIT,
    )


def _emptied(table: Table, main: StagedWrite, order: WriteOrder) -> Iterator[StagedWrite]:
    """Overwrites with nothing, for partitions asked for that have rows and get none."""
    if order.kind is not WriteKind.OVERWRITE or len(order.partitions or ()) < 2:
        return
    written = {partition_identity(each.spec) for each in main.partitions}
    present = {partition_identity(stats.spec) for stats in table.partitions()}
    nothing = table.arrow_schema.empty_table()
    for at, spec in enumerate(order.partitions or ()):
        if partition_identity(spec) in present - written:
            # Its place among the partitions asked for: the same at every try.
            yield table.stage(
                nothing,
                mode="overwrite",
                partition=spec,
                dynamic=False,
                commit_user=order.commit_user,
                commit_identifier=at,
            )


def _sliced(rows: pa.Table, partition_keys: Sequence[str], count: int) -> Iterator[pa.Table]:
    """Rows in `count` parts, each with its share of every partition; empty parts left out."""
    codes = np.zeros(rows.num_rows, dtype=np.int64)
    for name in partition_keys:
        encoded = rows.column(name).combine_chunks().dictionary_encode(null_encoding="encode")
        codes = codes * len(encoded.dictionary) + encoded.indices.to_numpy()
    _, groups, sizes = np.unique(codes, return_inverse=True, return_counts=True)
    order = np.argsort(groups, kind="stable")
    starts = np.cumsum(sizes) - sizes
    position = np.empty(rows.num_rows, dtype=np.int64)
    position[order] = np.arange(rows.num_rows) - np.repeat(starts, sizes)
    part = position * count // sizes[groups]
    for at in range(count):
        chosen = rows.filter(pa.array(part == at))
        if chosen.num_rows:
            yield chosen


def _check_partitions(
    table: Table,
    staged: Sequence[StagedWrite],
    wanted: tuple[Mapping[str, object], ...] | None,
) -> None:
    if wanted is None:
        return
    asked = {partition_identity(spec) for spec in wanted}
    strange = [
        each
        for write in staged
        for each in write.partitions
        if partition_identity(each.spec) not in asked
    ]
    if strange:
        rows = sum(each.row_count for each in strange)
        raise InvalidRows(
            f"the source of {table.name} returned {rows} rows of {len(strange)} partitions that "
            f"were not asked for, such as {describe_partition(strange[0].spec)}; return rows of "
            "request.partitions only",
            table=table.name,
        )


def _validate(
    table: Table, staged: Sequence[StagedWrite], order: WriteOrder, env: Env
) -> ValidationReport:
    expectations = order.declaration.expectations
    row_count = sum(each.row_count for each in staged)
    if not expectations:
        return ValidationReport(outcomes=(), row_count=row_count, engine="none", duration_ms=0)
    needed = columns_needed(expectations)
    keys = table.schema.partition_keys
    columns = None if needed is None else list(dict.fromkeys([*keys, *needed]))
    if columns is not None and not columns:
        # Rows are counted by some column.
        columns = [table.schema.field_names[0]]
    if row_count <= PANDAS_ROW_LIMIT:
        parts = [table.read_staged(each, columns=columns) for each in staged]
        # Of no rows at all it can still be said that there are too few.
        nothing = table.arrow_schema.empty_table()
        rows = pa.concat_tables(parts) if parts else nothing.select(columns or nothing.schema.names)
        return validate_arrow(rows, expectations, partition_keys=keys, env=env)
    from lakewright.storage.spark import read_staged_dataframe

    spark = order.session()
    frames = [read_staged_dataframe(spark, table, each, columns) for each in staged]
    frame = reduce(lambda left, right: left.unionByName(right), frames)
    return validate_dataframe(frame, expectations, row_count=row_count, env=env)


def _totals(staged: Sequence[StagedWrite]) -> tuple[PartitionTotals, ...]:
    """What all writes together put into each partition."""
    totals: dict[object, PartitionTotals] = {}
    for each in (partition for write in staged for partition in write.partitions):
        identity = partition_identity(each.spec)
        known = totals.get(identity)
        totals[identity] = PartitionTotals(
            spec=each.spec,
            row_count=each.row_count + (known.row_count if known else 0),
            file_count=each.file_count + (known.file_count if known else 0),
            size_bytes=each.size_bytes + (known.size_bytes if known else 0),
        )
    return tuple(totals.values())


def _goes_to_spark(rows: Any, order: WriteOrder) -> bool:
    if order.micro_batches > 1:
        return False
    choice = order.declaration.write.engine
    if _is_dataframe(rows):
        return choice is not EngineChoice.LOCAL
    if not prefers_spark(choice, row_count=rows.num_rows):
        return False
    from lakewright.storage.spark import fits_spark

    return fits_spark(rows)


def _is_dataframe(rows: Any) -> bool:
    """Whether rows are a DataFrame of Spark, classic or Connect."""
    return hasattr(rows, "mapInArrow")
