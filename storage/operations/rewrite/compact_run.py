"""Carrying a compaction plan out: the same for every way of writing files anew.

1. Re-check the plan against the latest snapshot; what others changed is left out.
2. Map the rest over an engine; under a lease each task looks first whether it still holds.
3. Commit as COMPACT; what lost a race or was given up is left out, its files deleted, and so are
   those of tasks that an engine ran more than once.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from contextlib import suppress
from functools import partial
from typing import TypeAlias

from lakewright.storage.errors import (
    CommitOutcomeUnknownError,
    FileMissing,
    StalePlan,
    StorageError,
)
from lakewright.storage.files.table_files import TableFiles
from lakewright.storage.lsm.levels import levels_of
from lakewright.storage.lsm.universal_compaction import CompactionUnit
from lakewright.storage.operations.commit.commit import commit_compaction
from lakewright.storage.operations.leases.leases import check_not_all_given_up, given_up
from lakewright.storage.operations.references.sweep import (
    delete_unpublished,
    sweep_after_failure,
    sweep_repeated,
)
from lakewright.storage.operations.rewrite.compact_append import AppendTask, stretches_of
from lakewright.storage.operations.rewrite.compact_levels import LevelsTask
from lakewright.storage.operations.rewrite.compaction_plan import (
    CompactionPlan,
    CompactionResult,
    CompactionTask,
)
from lakewright.storage.operations.running.engine import Engine
from lakewright.storage.operations.state.latest import is_latest, read_latest
from lakewright.storage.operations.state.live_files import (
    grouped_by_bucket,
    index_entries,
    live_entries,
)
from lakewright.storage.operations.state.rewrite_schema import (
    check_current_schema,
    check_rewritable,
)
from lakewright.storage.spec.commit import CommitMessage
from lakewright.storage.spec.index import DELETION_VECTORS_INDEX, IndexFileMeta
from lakewright.storage.spec.lease import Lease
from lakewright.storage.spec.manifest import ManifestEntry
from lakewright.storage.spec.options import BucketMode
from lakewright.storage.spec.partition import Place
from lakewright.storage.spec.snapshot import Snapshot
from lakewright.storage.spec.supported_options import Use, check_supported

BucketWork: TypeAlias = AppendTask | LevelsTask
# From a table, the name that new files begin with and a bucket's work to what is committed of it.
Rewrite: TypeAlias = Callable[[TableFiles, str, BucketWork], CommitMessage]


def carry_out(
    files: TableFiles,
    plan: CompactionPlan,
    engine: Engine,
    rewrite: Rewrite,
    lease: Lease | None = None,
) -> CompactionResult:
    """Do what a plan says; `rewrite` does one bucket and is sent to wherever the engine works.

    With a lease only what that is for, as long as nobody takes it away.

    Raises:
        StalePlan: none of the planned files is as it was; plan again.
        LeaseLost: the lease was, or all of it was taken away; nothing is published.
        SchemaMoved: the table's schema changed since it was opened.
        VerificationFailed: rows written differ from rows merged; nothing is committed.
    """
    check_supported(files.schema, Use.COMPACT, table=files.name)
    check_current_schema(files)
    started = files.env.now_ms()
    snapshot, work = read_latest(files, lambda latest: _live_work(files, plan, latest))
    if plan.tasks and not work:
        raise StalePlan(
            f"the plan for {files.name} was made at snapshot {plan.snapshot_id}, and none of its "
            f"{plan.files_before} files is live at snapshot {snapshot.id if snapshot else 'none'}; "
            "plan again",
            table=files.name,
        )
    dropped = len(plan.tasks) - len(work)
    if not work or snapshot is None:
        return _result(files, (), None, dropped, started)
    run_id = files.env.new_id()
    try:
        done = engine.map(partial(_rewrite_bucket, files, run_id, rewrite, lease), work)
        messages = [message for message in done if message is not None]
        result, lost = commit_compaction(
            files,
            messages,
            user=run_id,
            base_snapshot_id=snapshot.id,
            given_up=partial(given_up, files, lease),
        )
    except CommitOutcomeUnknownError:
        raise
    except BaseException as error:
        sweep_after_failure(files, [run_id], since_snapshot_id=snapshot.id)
        if isinstance(error, FileMissing) and not is_latest(files, snapshot):
            raise StalePlan(
                f"files of snapshot {snapshot.id} of {files.name} went while they were compacted, "
                "since it is the latest no more; plan again",
                table=files.name,
            ) from error
        raise
    # The commit stands, and what was rewritten in vain stays behind as orphans at worst.
    with suppress(StorageError):
        delete_unpublished(files, lost, since_snapshot_id=snapshot.id)
    if engine.may_repeat:
        sweep_repeated(files, run_id, messages, since_snapshot_id=snapshot.id)
    if result.snapshot is None:
        check_not_all_given_up(files, lease, [Place(each.partition, each.bucket) for each in work])
    published = [message for message in messages if message not in lost]
    dropped += len(work) - len(published)
    return _result(files, published, result.snapshot, dropped, started)


def _rewrite_bucket(
    files: TableFiles, run_id: str, rewrite: Rewrite, lease: Lease | None, work: BucketWork
) -> CommitMessage | None:
    """New files begin with the run's id, so that a failed run's are found; None if given up."""
    if given_up(files, lease, [Place(work.partition, work.bucket)]):
        return None
    return rewrite(files, f"{run_id}-{files.env.new_id()[:8]}", work)


def deletion_indexes(
    files: TableFiles, snapshot: Snapshot | None
) -> dict[Place, tuple[IndexFileMeta, ...]]:
    """Index files with deletion vectors, by partition and bucket."""
    found: dict[Place, tuple[IndexFileMeta, ...]] = {}
    for entry in index_entries(files, snapshot):
        if entry.file.index_type == DELETION_VECTORS_INDEX:
            found[entry.place] = (*found.get(entry.place, ()), entry.file)
    return found


def _result(
    files: TableFiles,
    published: Sequence[CommitMessage],
    snapshot: Snapshot | None,
    dropped: int,
    started_ms: int,
) -> CompactionResult:
    before = [file for message in published for file in message.compact_before]
    after = [file for message in published for file in message.compact_after]
    sizes_before = tuple(file.file_size for file in before)
    sizes_after = tuple(file.file_size for file in after)
    upgraded = {file.file_name for file in before} & {file.file_name for file in after}
    return CompactionResult(
        snapshot=snapshot,
        files_before=len(before),
        files_after=len(after),
        bytes_before=sum(sizes_before),
        bytes_after=sum(sizes_after),
        rows_before=sum(file.row_count for file in before),
        rows_after=sum(file.row_count for file in after),
        file_sizes_before=sizes_before,
        file_sizes_after=sizes_after,
        files_upgraded=len(upgraded),
        dropped_tasks=dropped,
        duration_ms=files.env.now_ms() - started_ms,
    )


def _live_work(
    files: TableFiles, plan: CompactionPlan, snapshot: Snapshot | None
) -> list[BucketWork]:
    """What is left to do of a plan, with all that tasks need to know of their buckets."""
    live = grouped_by_bucket(live_entries(files, snapshot))
    indexes = deletion_indexes(files, snapshot)
    work: list[BucketWork] = []
    for task in plan.tasks:
        partition = files.partitions.planned(task.partition).row
        place = Place(partition, task.bucket)
        held = {entry.file.file_name: entry for entry in live.get(place, ())}
        if held.keys() >= set(task.files):
            # Lookups read the rest of the bucket too.
            check_rewritable(files, (entry.file for entry in held.values()))
            entries = [held.pop(name) for name in task.files]
            found = _with_bucket(files, task, entries, list(held.values()), indexes.get(place, ()))
            work += [] if found is None else [found]
    return work


def _with_bucket(
    files: TableFiles,
    task: CompactionTask,
    entries: Sequence[ManifestEntry],
    others: Sequence[ManifestEntry],
    indexes: tuple[IndexFileMeta, ...],
) -> BucketWork | None:
    first = entries[0]
    metas = tuple(entry.file for entry in entries)
    rest = [entry.file for entry in others]
    if not files.schema.is_keyed:
        in_order = files.options.bucket_mode is BucketMode.FIXED
        return AppendTask(
            partition=first.partition,
            bucket=first.bucket,
            total_buckets=first.total_buckets,
            stretches=stretches_of(metas, rest) if in_order else (metas,),
            others=frozenset(file.file_name for file in rest),
            indexes=indexes,
        )
    if not task.file_by_file and any(0 < file.level <= task.output_level for file in rest):
        # Somebody put files where the merged ones would go, or above them.
        return None
    return LevelsTask(
        partition=first.partition,
        bucket=first.bucket,
        total_buckets=first.total_buckets,
        unit=CompactionUnit(
            files=metas,
            output_level=task.output_level,
            reason=task.reason,
            file_by_file=task.file_by_file,
        ),
        levels=levels_of([*metas, *rest], files.options.num_levels),
        indexes=indexes,
    )
