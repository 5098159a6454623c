"""Carries out rewrite plans, in the same way for every verb.

1. Check the plan against the latest snapshot; leave out tasks that other commits changed.
2. Map the jobs of the remaining tasks over an engine. Under a lease each job first checks and
   renews the lease.
3. Commit all tasks at once, or each partition by itself, round by round. The commit leaves out
   tasks with a conflict and tasks that lost their lease.
4. Delete new files that were not committed, and files of jobs that an engine repeated.
5. Make the automatic tags that are due.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass
from functools import partial
from itertools import chain
from typing import Any, Generic, TypeVar

from lakewright.storage.errors import (
    CommitConflictError,
    CommitOutcomeUnknownError,
    FileMissing,
    InvalidRequestError,
    RetriesExhausted,
    StalePlan,
    StorageError,
)
from lakewright.storage.files.table_files import TableFiles
from lakewright.storage.lsm.bin_packing import pack_in_order
from lakewright.storage.operations.commit.commit import commit_compaction
from lakewright.storage.operations.leases.leases import check_not_all_given_up, given_up
from lakewright.storage.operations.references.sweep import (
    delete_unpublished,
    sweep_after_failure,
    sweep_repeated,
)
from lakewright.storage.operations.references.tags import create_due_tags
from lakewright.storage.operations.rewrite.held_files import HeldPartition, held_partitions
from lakewright.storage.operations.running.engine import Engine
from lakewright.storage.operations.running.plan import RewritePlan, RewriteTask, check_bucket_count
from lakewright.storage.operations.state.latest import is_latest
from lakewright.storage.operations.state.rewrite_schema import (
    check_current_schema,
    check_rewritable,
)
from lakewright.storage.operations.state.table_state import ANY_KEYS, TableState, latest_state
from lakewright.storage.spec.commit import CommitMessage
from lakewright.storage.spec.lease import Lease
from lakewright.storage.spec.manifest import DataFileMeta
from lakewright.storage.spec.partition import Place
from lakewright.storage.spec.row_tracking import count_rows
from lakewright.storage.spec.shown import Shown
from lakewright.storage.spec.snapshot import CommitKind, Snapshot
from lakewright.storage.spec.supported_options import Use, check_supported, without_clustering

Task = TypeVar("Task", bound=RewriteTask)
Work = TypeVar("Work")

# Partitions with separate commits are written in one round of at least this many jobs.
_JOBS_AT_ONCE = 64


@dataclass(frozen=True, slots=True, kw_only=True)
class Part(Generic[Work]):
    """The remaining work of a planned task: jobs for an engine, committed together.

    `places` are the buckets that the task replaces, `reads` the files it reads, and `removals` the
    messages that are committed with those of its jobs.
    """

    task: RewriteTask
    places: frozenset[Place]
    reads: tuple[DataFileMeta, ...]
    work: tuple[Work, ...]
    removals: tuple[CommitMessage, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class Rewrite(Generic[Task, Work]):
    """The parts of a rewrite that differ by verb.

    `part_of` finds a task in its partition's files; None if another commit changed them. `write`
    does one job on the engine; its files' names begin with the given prefix, and it deletes them on
    failure. With `by_partition` each task is a whole partition with its own commit.
    """

    plan: RewritePlan[Any]
    tasks: Sequence[Task]
    part_of: Callable[[Task, HeldPartition], Part[Work] | None]
    write: Callable[[TableFiles, str, Work], Sequence[CommitMessage]]
    by_partition: bool = False
    kind: CommitKind = CommitKind.COMPACT


@dataclass(frozen=True, slots=True, kw_only=True)
class LiveWork(Generic[Task, Work]):
    """The remaining work of a plan, as of the snapshot it was checked against."""

    rewrite: Rewrite[Task, Work]
    snapshot: Snapshot | None
    parts: tuple[Part[Work], ...]
    started_ms: int


@dataclass(frozen=True, slots=True)
class PublishedRewrite:
    """The tasks that one commit published, and its messages."""

    snapshot: Snapshot
    tasks: tuple[RewriteTask, ...]
    messages: tuple[CommitMessage, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class RewriteResult(Shown):
    """The totals of a rewrite: files, rows, bytes, duration."""

    files_before: int
    files_after: int
    bytes_before: int
    bytes_after: int
    rows_before: int
    rows_after: int
    # Values that are null for good now, because they did not fit their columns' types.
    nulled_values: int
    duration_ms: int


@dataclass(frozen=True, slots=True, kw_only=True)
class MoveTask:
    """One partition's work: the rows of these files move to `bucket_count` buckets."""

    partition: dict[str, object]
    bucket_count: int
    files: tuple[str, ...]
    bytes: int
    rows: int

    def __post_init__(self) -> None:
        check_bucket_count(self.bucket_count)


@dataclass(frozen=True, slots=True, kw_only=True)
class MoveResult(RewriteResult):
    """What moved between buckets; `dropped` are partitions with a conflict, or without a lease."""

    snapshots: tuple[Snapshot, ...]
    partitions: int
    dropped: tuple[dict[str, object], ...]


@dataclass(frozen=True, slots=True)
class TaskOutcome:
    """The outcome of a plan; `dropped` are tasks with a conflict, or without their lease."""

    published: tuple[PublishedRewrite, ...]
    dropped: tuple[RewriteTask, ...]
    duration_ms: int

    @property
    def snapshots(self) -> tuple[Snapshot, ...]:
        return tuple(each.snapshot for each in self.published)

    @property
    def before(self) -> tuple[DataFileMeta, ...]:
        messages = chain.from_iterable(each.messages for each in self.published)
        return tuple(file for message in messages for file in message.compact_before)

    @property
    def after(self) -> tuple[DataFileMeta, ...]:
        messages = chain.from_iterable(each.messages for each in self.published)
        return tuple(file for message in messages for file in message.compact_after)

    def totals(self) -> dict[str, int]:
        """The totals under the field names of `RewriteResult`."""
        before, after = self.before, self.after
        messages = chain.from_iterable(each.messages for each in self.published)
        return {
            "files_before": len(before),
            "files_after": len(after),
            "bytes_before": sum(file.file_size for file in before),
            "bytes_after": sum(file.file_size for file in after),
            "rows_before": count_rows(before),
            "rows_after": count_rows(after),
            "nulled_values": sum(message.nulled_values for message in messages),
            "duration_ms": self.duration_ms,
        }

    def moved(self) -> dict[str, Any]:
        """The outcome under the field names of `MoveResult`."""
        return {
            **self.totals(),
            "snapshots": self.snapshots,
            "partitions": len(self.published),
            "dropped": tuple(task.partition for task in self.dropped),
        }


# --- checking ---------------------------------------------------------------------------------


def check_plan(files: TableFiles, rewrite: Rewrite[Task, Work]) -> LiveWork[Task, Work]:
    """The remaining work of a plan, by the latest snapshot.

    Raises:
        InvalidRequestError: the plan replaces a file twice.
        StalePlan: other commits changed all planned files; plan again.
        SchemaMoved: the table's schema changed since it was opened, or files have other partition
            keys than the table.
        UnsupportedError: the table has an option that is not implemented.
    """
    schema = without_clustering(files.schema) if rewrite.plan.sorts else files.schema
    check_supported(schema, Use.COMPACT, table=files.name)
    _check_once(rewrite.plan)
    check_current_schema(files)
    started_ms = files.env.now_ms()
    # Parts whose files have the table's keys are rewritten, and their commit ends what is left of
    # a change.
    state = latest_state(files, lambda state: (state.entries, state.indexes), takes=ANY_KEYS)
    snapshot = state.snapshot
    try:
        parts = _live_parts(state, rewrite)
    except InvalidRequestError:
        state.check_settled()
        raise
    state.check_keys_of(file for part in parts for file in part.reads)
    if rewrite.tasks and not parts:
        state.check_settled()
        plan, latest_id = rewrite.plan, snapshot.id if snapshot else "none"
        raise StalePlan(
            f"the plan for {files.name} was made at snapshot {plan.snapshot_id}, and other "
            f"commits up to snapshot {latest_id} changed all {plan.files_before} files that its "
            "tasks would replace; plan again"
        )
    return LiveWork(rewrite=rewrite, snapshot=snapshot, parts=parts, started_ms=started_ms)


def _check_once(plan: RewritePlan[Any]) -> None:
    """Check that tasks share no file: the rows of a shared file would be written twice."""
    seen: set[str] = set()
    for name in chain.from_iterable(task.files for task in plan.tasks):
        if name in seen:
            raise InvalidRequestError(
                f"the plan for {plan.table} replaces data file {name} twice; plan again"
            )
        seen.add(name)


def _live_parts(state: TableState, rewrite: Rewrite[Task, Work]) -> tuple[Part[Work], ...]:
    if not rewrite.tasks:
        return ()
    files, held = state.files, held_partitions(state)
    found = (
        rewrite.part_of(task, held.get(files.partitions.planned(task.partition).row, {}))
        for task in rewrite.tasks
    )
    parts = tuple(part for part in found if part is not None)
    check_rewritable(files, (file for part in parts for file in part.reads))
    return parts


# --- running ----------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class Job(Generic[Work]):
    """Work for an engine, and the id that prefixes the new files of its commit."""

    run_id: str
    places: frozenset[Place]
    work: Work


def carry_out(
    files: TableFiles, live: LiveWork[Task, Work], engine: Engine, lease: Lease | None = None
) -> TaskOutcome:
    """Carry out the remaining work; with a lease, only what it covers until the commit.

    Raises:
        StalePlan: another process replaced and deleted files while they were read; plan again.
        LeaseLost: the lease was lost, or all its partitions were taken; nothing is published.
        VerificationFailed: rows written differ from rows expected; they are not committed.
        RetriesExhausted: other processes committed too often; committed partitions stay.
    """
    published: list[PublishedRewrite] = []
    for together in _rounds(live):
        latest = published[-1].snapshot if published else live.snapshot
        published += _round(files, live, together, latest, engine, lease)
    if live.parts and not published:
        places = {place for part in live.parts for place in part.places}
        check_not_all_given_up(files, lease, places)
    if published:
        # The commits stand. The next commit makes a missing tag.
        with suppress(StorageError):
            create_due_tags(files)
    done = {id(task) for each in published for task in each.tasks}
    return TaskOutcome(
        published=tuple(published),
        dropped=tuple(task for task in live.rewrite.tasks if id(task) not in done),
        duration_ms=files.env.now_ms() - live.started_ms,
    )


def _rounds(live: LiveWork[Task, Work]) -> Iterator[list[tuple[Part[Work], ...]]]:
    """Rounds of parts, grouped by commit; a round is written before its first commit."""
    if not live.rewrite.by_partition:
        yield from [[live.parts]] if live.parts else []
        return
    for together in pack_in_order(live.parts, (lambda part: len(part.work), _JOBS_AT_ONCE)):
        yield [(part,) for part in together]


def _round(
    files: TableFiles,
    live: LiveWork[Task, Work],
    together: Sequence[tuple[Part[Work], ...]],
    latest: Snapshot | None,
    engine: Engine,
    lease: Lease | None,
) -> list[PublishedRewrite]:
    """Write and commit a round; on failure delete the uncommitted files."""
    base_id = live.snapshot.id if live.snapshot else None
    published: list[PublishedRewrite] = []
    commits = {files.env.new_id(): parts for parts in together}
    unfinished = list(commits)
    try:
        jobs = [
            Job(run_id, part.places, work)
            for run_id, parts in commits.items()
            for part in parts
            for work in part.work
        ]
        made = iter(engine.map(partial(_write, files, live.rewrite.write, lease), jobs))
        for run_id, parts in commits.items():
            written = [(part, [next(made) for _ in part.work]) for part in parts]
            try:
                published += _commit(files, live, run_id, written, engine, lease)
            except CommitOutcomeUnknownError:
                # The failed commit may be published; the commits after it never are.
                unfinished.remove(run_id)
                raise
            unfinished.remove(run_id)
    except BaseException as error:
        sweep_after_failure(files, unfinished, since_snapshot_id=base_id)
        if isinstance(error, FileMissing) and not is_latest(files, latest):
            raise StalePlan(
                f"files of snapshot {base_id} of {files.name} were deleted while they were read, "
                "since other processes have committed on top of it; plan again"
            ) from error
        raise
    return published


def _write(
    files: TableFiles,
    write: Callable[[TableFiles, str, Work], Sequence[CommitMessage]],
    lease: Lease | None,
    job: Job[Work],
) -> tuple[CommitMessage, ...] | None:
    """Do one job; None if the lease no longer covers it."""
    if given_up(files, lease, job.places):
        return None
    if not files.options.data_evolution_enabled:
        files = files.with_row_ids()
    return tuple(write(files, f"{job.run_id}-{files.env.new_id()[:8]}", job.work))


def _commit(
    files: TableFiles,
    live: LiveWork[Task, Work],
    run_id: str,
    written: Sequence[tuple[Part[Work], Sequence[tuple[CommitMessage, ...] | None]]],
    engine: Engine,
    lease: Lease | None,
) -> list[PublishedRewrite]:
    """Publish the tasks without a conflict, and delete the files of the others."""
    assert live.snapshot is not None
    base_id = live.snapshot.id
    offered: list[tuple[RewriteTask, list[CommitMessage]]] = []
    in_vain: list[CommitMessage] = []
    for part, made in written:
        messages = [message for each in made if each is not None for message in each]
        if None in made:
            in_vain += messages
        else:
            offered.append((part.task, [*part.removals, *messages]))
    every = [message for _, messages in offered for message in messages]
    snapshot, lost = None, tuple(every)
    try:
        if every:
            result, lost = commit_compaction(
                files,
                every,
                user=run_id,
                base_snapshot_id=base_id,
                whole_partitions=live.rewrite.by_partition,
                kind=live.rewrite.kind,
                given_up=partial(given_up, files, lease),
            )
            snapshot = result.snapshot
    except CommitConflictError as error:
        # A conflict drops the partition. Exhausted retries are an error, not a conflict.
        if isinstance(error, RetriesExhausted) or not live.rewrite.by_partition:
            raise
    # The commit stands. The removal of orphans deletes files that cannot be deleted here.
    with suppress(StorageError):
        delete_unpublished(files, [*in_vain, *lost], since_snapshot_id=base_id)
    if engine.may_repeat:
        sweep_repeated(files, run_id, [*every, *in_vain], since_snapshot_id=base_id)
    if snapshot is None:
        return []
    beaten = {message.place for message in lost}
    kept = [each for each in offered if not any(message.place in beaten for message in each[1])]
    tasks, of_tasks = [task for task, _ in kept], [messages for _, messages in kept]
    return [PublishedRewrite(snapshot, tuple(tasks), tuple(chain.from_iterable(of_tasks)))]
