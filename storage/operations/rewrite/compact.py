"""Compaction: fewer, larger files with the same rows.

1. Plan from metadata: per bucket, which files are worth rewriting and why. Append
   buckets are packed; of a primary-key bucket the tree says which runs are merged, at
   which level they go on, and which files only change their level.
2. Re-check the plan against the latest snapshot; buckets that moved on are left out.
3. Rewrite each bucket's files, in tasks of an engine.
4. Prove that nothing was lost: rows written, as the files' own footers say, are
   those that were read or merged.
5. Commit as COMPACT; a bucket that lost a race is dropped, its files deleted.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import partial

from lakewright.storage.errors import InvalidRequestError
from lakewright.storage.files.table_files import TableFiles
from lakewright.storage.lsm.universal_compaction import CompactionUnit
from lakewright.storage.operations.rewrite.compact_append import AppendTask, rewrite_append
from lakewright.storage.operations.rewrite.compact_levels import rewrite_levels
from lakewright.storage.operations.rewrite.compact_run import (
    BucketWork,
    carry_out,
    deletion_indexes,
)
from lakewright.storage.operations.rewrite.compaction_plan import (
    CompactionPlan,
    CompactionResult,
    CompactionTask,
    SkippedBucket,
)
from lakewright.storage.operations.rewrite.pick_units import (
    PickUnits,
    pick_append,
    pick_keyed,
    upgrades_of,
)
from lakewright.storage.operations.running.engine import Engine
from lakewright.storage.operations.state.keys import check_key_types
from lakewright.storage.operations.state.latest import read_latest
from lakewright.storage.operations.state.live_files import grouped_by_bucket, live_entries
from lakewright.storage.operations.state.named_partitions import is_named
from lakewright.storage.operations.write.verify import VerifyLevel
from lakewright.storage.operations.write.write import partition_spec_values
from lakewright.storage.spec.commit import CommitMessage
from lakewright.storage.spec.index import IndexFileMeta
from lakewright.storage.spec.lease import Lease
from lakewright.storage.spec.manifest import DataFileMeta
from lakewright.storage.spec.supported_options import Use, check_supported

# --- planning ---------------------------------------------------------------------------------


def plan_compact(
    files: TableFiles,
    *,
    partitions: Sequence[Mapping[str, object]] | None = None,
    buckets: Sequence[int] | None = None,
    full: bool = False,
    min_file_num: int | None = None,
) -> CompactionPlan:
    """What is worth compacting, from metadata alone.

    A partition may be named by some of its columns. `full` takes everything that is
    not yet as a full compaction leaves it; otherwise append buckets need `min_file_num`
    small files (option `compaction.min.file-num`), and of primary-key buckets
    universal compaction picks the runs, `min_file_num` standing for the option
    `num-sorted-run.compaction-trigger`.

    Raises:
        UnsupportedError: the table has an option that is not implemented.
        InvalidRequestError: a partition names no partition column.
    """
    check_supported(files.schema, Use.COMPACT, table=files.name)
    if min_file_num is not None and min_file_num < 2:
        raise InvalidRequestError(f"min_file_num is {min_file_num}; compaction needs at least 2")

    def pick(
        metas: Sequence[DataFileMeta], indexes: Sequence[IndexFileMeta]
    ) -> tuple[list[CompactionUnit], str]:
        if files.schema.is_keyed:
            return pick_keyed(files, metas, indexes, full=full, trigger=min_file_num)
        return pick_append(files, metas, indexes, full=full, least=min_file_num)

    return planned_buckets(files, pick, partitions=partitions, buckets=buckets)


def planned_buckets(
    files: TableFiles,
    pick: PickUnits,
    *,
    partitions: Sequence[Mapping[str, object]] | None,
    buckets: Sequence[int] | None = None,
) -> CompactionPlan:
    """A plan of what `pick` finds in each bucket asked for."""
    wanted = [dict(partition_spec_values(files, spec)) for spec in partitions or ()]
    snapshot, (deletions, live) = read_latest(
        files,
        lambda latest: (
            deletion_indexes(files, latest),
            grouped_by_bucket(live_entries(files, latest)),
        ),
    )
    check_key_types(files, {entry.file.schema_id for group in live.values() for entry in group})
    tasks: list[CompactionTask] = []
    skipped: list[SkippedBucket] = []
    for (partition, bucket), group in live.items():
        if partitions is not None and not is_named(files, partition, wanted):
            continue
        # Rows below bucket 0 have no bucket yet, and are not merged before they do.
        if bucket < 0 or (buckets is not None and bucket not in buckets):
            continue
        metas = [entry.file for entry in group]
        spec = files.partition_spec(partition)
        units, reason = pick(metas, deletions.get((partition, bucket), ()))
        if not units:
            skipped.append(
                SkippedBucket(partition=spec, bucket=bucket, files=len(metas), reason=reason)
            )
        tasks += [_task(files, spec, bucket, unit, metas) for unit in units]
    return CompactionPlan(
        table=files.name,
        snapshot_id=None if snapshot is None else snapshot.id,
        tasks=tuple(tasks),
        skipped=tuple(skipped),
    )


def _task(
    files: TableFiles,
    spec: dict[str, object],
    bucket: int,
    unit: CompactionUnit,
    metas: Sequence[DataFileMeta],
) -> CompactionTask:
    return CompactionTask(
        partition=spec,
        bucket=bucket,
        files=tuple(file.file_name for file in unit.files),
        file_sizes=tuple(file.file_size for file in unit.files),
        rows=sum(file.row_count for file in unit.files),
        output_level=unit.output_level,
        reason=unit.reason,
        upgrades=upgrades_of(files, unit, metas),
        file_by_file=unit.file_by_file,
    )


# --- running ----------------------------------------------------------------------------------


def run_compact(
    files: TableFiles,
    plan: CompactionPlan,
    engine: Engine,
    *,
    verify: VerifyLevel = VerifyLevel.CHECKSUMS,
    lease: Lease | None = None,
) -> CompactionResult:
    """Carry a plan out; with a lease as much of it as that is for, and stays for.

    Raises:
        StalePlan: none of the planned files is as it was; plan again.
        LeaseLost: the lease was, or all of it was taken away; nothing is published.
        SchemaMoved: the table's schema changed since it was opened.
        VerificationFailed: rows written differ from rows merged; nothing is committed.
    """
    return carry_out(files, plan, engine, partial(rewrite_bucket, verify=verify), lease)


def rewrite_bucket(
    files: TableFiles,
    write_id: str,
    work: BucketWork,
    verify: VerifyLevel = VerifyLevel.CHECKSUMS,
) -> CommitMessage:
    """Write the files of one bucket anew."""
    if isinstance(work, AppendTask):
        return rewrite_append(files, write_id, work, verify)
    return rewrite_levels(files, write_id, work, verify)
