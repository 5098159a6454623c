"""Publishing: stages rows, validates them, and only then commits them.

1. If an earlier attempt of the same run has committed, do nothing again. If it committed without
   some partitions, only these are left.
2. Lease the partitions, and stage the rows in files that no reader sees.
3. Refuse rows of partitions that were not requested; they would replace other rows.
4. Evaluate the expectations on the staged rows.
5. Of a critical expectation that is not met, find the partitions whose own rows do not meet it, and
   go on without them. If there is none, or the others do not meet it either, delete the files.
   Skip the requested partitions whose rows are missing without a declaration.
6. If no rows came at all, or another client added values that the rows would replace, delete the
   files. Otherwise keep the bad rows that were left out, and commit.
7. If the writer also compacts, compact due files in the written partitions.

The file is long since these steps are one sequence, read from top to bottom.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field, replace
from functools import partial
from typing import Any

import pyarrow as pa

from lakewright.platform.ingest.broken_partitions import BrokenPartitions
from lakewright.platform.ingest.expectations import ValidationReport
from lakewright.platform.ingest.given_rows import given_rows
from lakewright.platform.ingest.judge_staged import (
    RejectedPartition,
    StagedJudge,
    parts_in,
    rejected_alone,
)
from lakewright.platform.ingest.missing_rows import missing_partitions
from lakewright.platform.ingest.publication import (
    AlreadyPublished,
    PartitionTotals,
    Published,
    Rejected,
    totals_of,
)
from lakewright.platform.ingest.rejects import Rejects
from lakewright.platform.ingest.row_expectations import meeting, row_expectations
from lakewright.platform.tables.declarations import TableDeclaration, WriteKind
from lakewright.platform.tables.partition_keys import partition_identity
from lakewright.platform.tables.schema_drift import Writing, check_other_columns
from lakewright.platform.tables.upkeep_policies import EngineChoice
from lakewright.platform.upkeep.compact import COMPACT, declared_compaction
from lakewright.platform.upkeep.engines import prefers_spark
from lakewright.platform.upkeep.leases import Warn, writing
from lakewright.platform.upkeep.postpone_compact import POSTPONE_COMPACT, PostponeRun
from lakewright.platform.upkeep.procedure import Work, carry_out
from lakewright.storage import Snapshot, StagedWrite, StorageError, Table, WriterCompaction
from lakewright.storage.env import Env, SystemEnv
from lakewright.storage.errors import (
    CommitOutcomeUnknownError,
    InvalidRequestError,
    InvalidRows,
    TableNotFound,
)
from lakewright.storage.file_reader.bad_rows import BadRows
from lakewright.storage.operations.commit.commits_of_user import (
    commits_of_user,
    partitions_of_commit,
)
from lakewright.storage.operations.rewrite.compact_written import check_writer_may_compact
from lakewright.storage.rows import arrow_tables, is_dataframe
from lakewright.storage.spec.commit import CommitResult
from lakewright.storage.spec.merge_spec import MergeEngine
from lakewright.storage.spec.options import BucketMode
from lakewright.storage.spec.partition_words import describe_partition

_LOG = logging.getLogger(__name__)
# The identifier of the commit that completes a write; commits before it have smaller ones.
LAST_COMMIT = 1_000_000_000
# The identifiers of commits that leave partitions out begin here: one for each attempt of the run.
_FIRST_PARTIAL = 999_000_000
# In place of the name of a check, where no rows came, or the files cannot be read.
ROWS = "rows"
SOURCE = "source"


def _no_table(name: str) -> Table:
    raise TableNotFound(f"table {name} is not known here")


@dataclass(frozen=True, kw_only=True)
class WriteOrder:
    """A write order: what to write, and under which commit user.

    `undeclared` are columns that the table has by `evolve: additive` alone.
    `partitions` are the requested partitions; None accepts any. `commit_user` is the same at every
    attempt of one run, so that a retry finds its earlier commit; `tried_since_ms` is when the first
    attempt began, None if this one is the first. Without `allow_empty` a partition
    that gets no rows is not emptied. `explain` raises the source's error for missing or unreadable
    rows. `find_table` finds the other tables that queries of expectations name. `bad_rows` gets the
    rows that are left out, and `rejects` keeps them; `broken` gets the partitions that cannot be
    read.
    """

    declaration: TableDeclaration
    partitions: tuple[Mapping[str, object], ...] | None
    commit_user: str
    undeclared: tuple[str, ...] = ()
    kind: WriteKind
    compact: bool = False
    allow_empty: bool = False
    upstream: Mapping[str, Table] = field(default_factory=dict, repr=False)
    tried_since_ms: int | None = None
    find_table: Callable[[str], Table] = field(default=_no_table, repr=False)
    bad_rows: BadRows | None = field(default=None, repr=False)
    broken: BrokenPartitions | None = field(default=None, repr=False)
    rejects: Rejects | None = field(default=None, repr=False)
    explain: Callable[[], None] = field(default=lambda: None, repr=False)
    session: Callable[[], Any] = field(repr=False)
    warn: Warn = field(default=_LOG.warning, repr=False)


def publish(
    table: Table, rows: Callable[[], Any], order: WriteOrder, *, env: Env | None = None
) -> Published | AlreadyPublished | Rejected:
    """Stage, validate and commit rows; `rows` is called only if they are needed.

    If an earlier attempt published and crashed before its compaction, the next write or the
    compaction sensor compacts.

    Raises:
        StorageError: staging or committing failed; staged files are deleted, unless it is unknown
            whether they were committed.
    """
    env = env or SystemEnv()
    started = env.now_ms()
    # Staging and commit share the manifests that they read.
    table = replace(table, table_files=table.table_files.reading_once())
    if order.compact:
        check_writer_may_compact(table.table_files)
    done = list(commits_of_user(table.table_files, order.commit_user))
    whole = next((each for each in done if each.commit_identifier == LAST_COMMIT), None)
    if whole is not None:
        _replace_rejects(order, ())
        return AlreadyPublished(snapshot=whole)
    _check_attempts(table, order)
    of_parts = range(_FIRST_PARTIAL, LAST_COMMIT)
    earlier_commits = [each for each in done if each.commit_identifier in of_parts]
    judge = _judge(table, order, env)
    expectations = order.declaration.expectations
    given = rows()
    pending: list[StagedWrite] = []
    left_out: list[StagedWrite] = []
    with writing(
        table, order.kind, order.partitions, commit_user=order.commit_user, warn=order.warn
    ):
        try:
            for each in _staged_in_turn(table, given, order):
                pending.append(each)  # noqa: PERF402  # what is staged is deleted if the next one fails
            left_out, pending = _broken(table, pending, order)
            _check_partitions(table, pending, order.partitions)
            earlier = _partitions_of(table, earlier_commits)
            came = [*earlier, *(total.spec for total in _totals(pending) if total.row_count)]
            if earlier:
                again, pending = parts_in(table, pending, earlier)
                left_out += again
            report = judge.report(pending, expectations)
            totals = _totals(pending)
            rejected: tuple[RejectedPartition, ...] = ()
            if report.blocking:
                rejected = _rejected(judge, pending, report, order)
                bad, good = parts_in(table, pending, [each.spec for each in rejected])
                if not rejected or judge.report(good, expectations).blocking:
                    took = env.now_ms() - started
                    return Rejected(report=report, partitions=totals, duration_ms=took)
                left_out, pending, totals = [*left_out, *bad], good, _totals(good)
            rejected += _missing(table, came, order)
            if rejected:
                number = _FIRST_PARTIAL + len(earlier_commits)
                pending[-1] = replace(pending[-1], commit_identifier=number)
            writes = Writing(kind=order.kind, partitions=order.partitions)
            check_other_columns(_declared_or_given(table, pending, order), table, writes)
            last = pending[-1].writer if pending else None
            snapshot, commits = _commit_all(table, pending, order)
            # Before a replay may lease the table: it would append them beside the new rows.
            _replace_rejects(order, rejected)
        finally:
            for left in (*pending, *left_out):
                # A second failure of the store must not hide the first error.
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
        writer=last,
        rejected=rejected,
        earlier=earlier,
        left_out=order.bad_rows,
        rejects=order.rejects.name if order.rejects is not None else None,
    )


def _declared_or_given(
    table: Table, staged: Sequence[StagedWrite], order: WriteOrder
) -> TableDeclaration:
    """The declaration without the columns that a run added, and of which no row has a value.

    A run must not replace by null what another client has put there.
    """
    if not order.undeclared:
        return order.declaration
    parts = [table.read_staged(each, columns=list(order.undeclared)) for each in staged]
    empty = {
        name
        for name in order.undeclared
        if all(part.column(name).null_count == part.num_rows for part in parts)
    }
    columns = tuple(column for column in order.declaration.columns if column.name not in empty)
    return order.declaration.model_copy(update={"columns": columns})


def _judge(table: Table, order: WriteOrder, env: Env) -> StagedJudge:
    engine = order.declaration.write.engine
    return StagedJudge(table, order.session, order.find_table, env, engine)


def _replace_rejects(order: WriteOrder, rejected: Sequence[RejectedPartition]) -> None:
    """Settle earlier rejects of the sources that were read again, unless rows were appended."""
    if order.rejects is None or order.kind is WriteKind.APPEND:
        return
    left_out = {describe_partition(each.spec) for each in rejected}
    asked = None
    if order.partitions is not None:
        asked = {describe_partition(partition) for partition in order.partitions}
    read = None if order.bad_rows is None else order.bad_rows.sources
    order.rejects.replace(
        order.commit_user,
        # An attempt that publishes nothing has read nothing.
        sources=read or None,
        written=lambda name: name not in left_out and (asked is None or name in asked),
    )


def _partitions_of(table: Table, commits: Sequence[Snapshot]) -> tuple[Mapping[str, object], ...]:
    """The partitions that some commits wrote."""
    files = table.table_files
    found = {each for commit in commits for each in partitions_of_commit(files, commit)}
    return tuple(each.spec for each in found)


def _rejected(
    judge: StagedJudge, staged: Sequence[StagedWrite], report: ValidationReport, order: WriteOrder
) -> tuple[RejectedPartition, ...]:
    """The partitions to leave out; none if the rows are published together or not at all."""
    if len(_totals(staged)) < 2:
        return ()
    found = rejected_alone(judge, staged, report, order.declaration.expectations)
    return () if len(found) == len(_totals(staged)) else found


def _broken(
    table: Table, staged: list[StagedWrite], order: WriteOrder
) -> tuple[list[StagedWrite], list[StagedWrite]]:
    """The parts of writes in partitions whose files cannot be read, and the others."""
    if order.broken is None or not order.broken.specs:
        return [], staged
    return parts_in(table, staged, order.broken.specs)


def _missing(
    table: Table, came: Sequence[Mapping[str, object]], order: WriteOrder
) -> tuple[RejectedPartition, ...]:
    """The partitions that must not go without rows, and got none.

    Raises:
        InvalidRows: none got rows.
    """
    broken, asked = order.broken, order.partitions
    left_out: tuple[RejectedPartition, ...] = ()
    if broken is not None and broken.specs:
        if not came:
            raise broken.first
        left_out = tuple(
            RejectedPartition(spec=spec, row_count=0, not_met={SOURCE: broken.why(spec)})
            for spec in broken.specs
        )
        asked = None if asked is None else tuple(each for each in asked if not broken.has(each))
    if order.allow_empty:
        return left_out
    found = missing_partitions(
        table,
        came,
        asked,
        replaces=order.kind is WriteKind.OVERWRITE,
        upstream=order.upstream,
        explain=order.explain,
    )
    return left_out + tuple(
        RejectedPartition(spec=spec, row_count=0, not_met={ROWS: why}) for spec, why in found
    )


def _compacted(
    table: Table, totals: Sequence[PartitionTotals], order: WriteOrder
) -> WriterCompaction:
    """Compact due files in the written partitions; the rows are already published."""
    if not totals:
        return WriterCompaction()
    touched = tuple(total.spec for total in totals) if table.schema.partition_keys else None
    declared = declared_compaction(order.declaration.maintenance.compaction)
    # Full compactions are for the job.
    options = replace(declared, full=False, partitions=touched)
    postponing = PostponeRun(partitions=touched, engine=options.engine, verify=options.verify)
    work = Work(run=order.commit_user, session=order.session)
    done = WriterCompaction()
    try:
        if table.options.bucket_mode is BucketMode.POSTPONE:
            postponed = carry_out(POSTPONE_COMPACT, table, postponing, work)
            done = replace(done, postponed=postponed.result)
        compacted = carry_out(COMPACT, table, options, work)
        if compacted.plan.tasks:
            done = replace(done, result=compacted.result)
    except Exception as error:  # noqa: BLE001  # engines raise their own errors
        return replace(done, failure=error)
    return done


def _commit_all(
    table: Table, pending: list[StagedWrite], order: WriteOrder
) -> tuple[Snapshot | None, int]:
    """Commit the writes, once the bad rows are kept; the last snapshot, and how many are new."""
    if order.rejects is not None and order.bad_rows is not None:
        # Rows of a partition that cannot be read are met again when it is.
        broken = () if order.broken is None else order.broken.specs
        unread = {describe_partition(spec) for spec in broken}
        kept = [row for row in order.bad_rows.rows if row.partition not in unread]
        order.rejects.keep(kept, order.commit_user)
    snapshot, commits = None, 0
    while pending:
        result = _commit_first(table, pending)
        snapshot = result.snapshot or snapshot
        commits += result.snapshot is not None
    return snapshot, commits


def _commit_first(table: Table, pending: list[StagedWrite]) -> CommitResult:
    """Commit the first write; remove it from the list once its files must not be deleted."""
    try:
        result = table.commit(pending[0])
    except CommitOutcomeUnknownError:
        # A snapshot may name these files.
        del pending[0]
        raise
    staged = pending.pop(0)
    if result.already_committed or result.snapshot is None:
        # The earlier commit stands, even if the deletion of this attempt's files fails.
        with suppress(StorageError):
            table.abort(staged)
    return result


def _check_attempts(table: Table, order: WriteOrder) -> None:
    """Check that commits of earlier attempts would be found; written again, their rows count twice.

    Raises:
        InvalidRequestError: snapshots that were made since the first attempt have expired.
    """
    merge = table.schema.options.get("merge-engine", MergeEngine.DEDUPLICATE.value)
    replaces = order.kind is WriteKind.OVERWRITE or (
        order.kind is WriteKind.UPSERT and merge == MergeEngine.DEDUPLICATE.value
    )
    if replaces or order.tried_since_ms is None:
        return
    snapshots = table.table_files.snapshots
    oldest = next((snapshots.read(each) for each in snapshots.ids()[:1]), None)
    if oldest is None or oldest.id == 1 or oldest.time_millis <= order.tried_since_ms:
        return
    raise InvalidRequestError(
        f"whether an earlier attempt of this run has written rows to {table.name} is not known: "
        f"snapshots since then have expired, and the oldest is {oldest.id}; nothing was written. "
        "Launch a new run for the partitions whose rows are missing, or write them with mode: "
        "overwrite"
    )


def _staged_in_turn(table: Table, rows: Any, order: WriteOrder) -> Iterator[StagedWrite]:
    try:
        yield from _stage(table, rows, order)
    except StorageError:
        raise
    except Exception as error:
        # Spark reports only a trace of a failed source read; the source can name the file.
        order.explain()
        error.add_note(f"while the source of {table.name} was read; nothing was published")
        raise


def _stage(table: Table, rows: Any, order: WriteOrder) -> Iterator[StagedWrite]:
    """Staged writes in the order in which they are to be committed."""
    bad, fixed = order.bad_rows, _fixed_partition(order) or {}
    rows = given_rows(
        rows,
        table=table,
        declaration=order.declaration,
        fixed=tuple(fixed),
        bad=bad,
        wanted=order.partitions,
    )
    judging = row_expectations(order.declaration.expectations)
    if bad is not None and judging and not is_dataframe(rows):
        keys = table.schema.partition_keys
        rows = meeting(arrow_tables(rows, ()), judging, bad, keys, fixed)
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
    partition = _fixed_partition(order)
    # If the table has partitions, only those with rows in this write are replaced.
    dynamic = overwrite and bool(table.schema.partition_keys) and partition is None
    stage = partial(table.stage, rows)
    if _goes_to_spark(rows, order):
        from lakewright.storage.spark import dataframe_of

        frame = rows if is_dataframe(rows) else dataframe_of(order.session(), rows)
        stage = partial(table.stage, frame)
    elif is_dataframe(rows):
        stage = partial(table.stage, rows.toArrow())
    return stage(
        mode="overwrite" if overwrite else "append",
        partition=partition,
        dynamic=dynamic,
        commit_user=order.commit_user,
        commit_identifier=LAST_COMMIT,
        on_duplicate=order.declaration.write.on_duplicate.value,
    )


def _fixed_partition(order: WriteOrder) -> Mapping[str, object] | None:
    """The one partition that an overwrite replaces; its rows may leave its columns out."""
    overwrite = order.kind is WriteKind.OVERWRITE
    if overwrite and order.partitions is not None and len(order.partitions) == 1:
        return order.partitions[0]
    return None


def _emptied(table: Table, main: StagedWrite, order: WriteOrder) -> Iterator[StagedWrite]:
    """Empty overwrites of requested partitions that have rows and get none, where that is meant."""
    if not order.allow_empty or order.kind is not WriteKind.OVERWRITE:
        return
    if len(order.partitions or ()) < 2:
        return
    written = {partition_identity(partition.spec) for partition in main.partitions}
    present = {partition_identity(stats.spec) for stats in table.at().partitions()}
    nothing = table.arrow_schema.empty_table()
    for at, spec in enumerate(order.partitions or ()):
        if order.broken is not None and order.broken.has(spec):
            continue
        if partition_identity(spec) in present - written:
            # The index among the requested partitions is the same at every attempt.
            yield table.stage(
                nothing,
                mode="overwrite",
                partition=spec,
                dynamic=False,
                commit_user=order.commit_user,
                commit_identifier=at,
            )


def _check_partitions(
    table: Table,
    staged: Sequence[StagedWrite],
    wanted: tuple[Mapping[str, object], ...] | None,
) -> None:
    if wanted is None:
        return
    asked = {partition_identity(spec) for spec in wanted}
    strange = [
        partition
        for write in staged
        for partition in write.partitions
        if partition_identity(partition.spec) not in asked
    ]
    if strange:
        rows = sum(each.row_count for each in strange)
        raise InvalidRows(
            f"the source of {table.name} returned {rows} rows of {len(strange)} partitions that "
            f"were not requested, such as {describe_partition(strange[0].spec)}; return rows of "
            "request.partitions only"
        )


def _totals(staged: Sequence[StagedWrite]) -> tuple[PartitionTotals, ...]:
    """The totals of each partition over all writes."""
    return totals_of(partition for write in staged for partition in write.partitions)


def _goes_to_spark(rows: Any, order: WriteOrder) -> bool:
    choice = order.declaration.write.engine
    if is_dataframe(rows):
        return choice is not EngineChoice.LOCAL
    # A stream is written as it comes.
    if not isinstance(rows, pa.Table) or not prefers_spark(choice, row_count=rows.num_rows):
        return False
    from lakewright.storage.spark import fits_spark

    return fits_spark(rows)
