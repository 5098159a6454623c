"""Plans what a stream tells of a table: its rows first, then the changes of later snapshots.

1. The rows of a state. Of a table whose compactions record the changes, only those that a
   compaction has taken up, since its changelog tells the others. Of other tables, rows that wait
   for a compaction and are not visible yet are told too, as they were written.
2. The changes are those of the changelogs, or else the rows that appends wrote.
3. An overwrite is told if an option of the table wants it: of primary keys as the difference that
   it made, else by the rows that it added. Without the option it is passed over with a warning.

Source: Paimon `DataTableStreamScan`, `DeltaFollowUpScanner`, `ChangelogFollowUpScanner`.
"""

from __future__ import annotations

import logging
from collections.abc import Sequence
from dataclasses import replace

from lakewright.storage.errors import UnsupportedError
from lakewright.storage.files.table_files import TableFiles
from lakewright.storage.operations.changes.change_plan import ChangePlan, IncrementalMode
from lakewright.storage.operations.changes.incremental import plan_audit_log, snapshots_between
from lakewright.storage.operations.changes.state_difference import difference_plan
from lakewright.storage.operations.changes.written_files import (
    warn_of_untold,
    writes_changelogs,
    written_plan,
    written_splits,
)
from lakewright.storage.operations.read.expired_reads import told_if_expired
from lakewright.storage.operations.state.live_files import (
    level_0_waits,
    live_entries,
    readable_entries,
)
from lakewright.storage.spec.manifest import ManifestEntry
from lakewright.storage.spec.options import BucketMode, ChangelogProducer
from lakewright.storage.spec.partition_words import describe_partition
from lakewright.storage.spec.snapshot import CommitKind, Snapshot
from lakewright.storage.spec.supported_options import Use, check_supported
from lakewright.storage.spec.untold_partitions import is_untold, untold_partitions

_LOG = logging.getLogger(__name__)
_COMPACTIONS_TELL = (ChangelogProducer.LOOKUP, ChangelogProducer.FULL_COMPACTION)


def check_streamable(files: TableFiles) -> None:
    """Check that a stream can tell what the options of a table want.

    Raises:
        UnsupportedError: overwrites are to be told, and compactions show or tell their rows later.
    """
    check_supported(files.schema, Use.READ, table=files.name)
    if not tells_differences(files):
        return
    options = files.options
    reason = None
    if options.changelog_producer in _COMPACTIONS_TELL:
        reason = f"changelog-producer={options.changelog_producer.value} reports rows of overwrites"
    elif options.bucket_mode is BucketMode.POSTPONE:
        reason = "rows of postponed buckets are visible after a compaction only"
    elif level_0_waits(files):
        reason = "rows of level 0 are visible after a compaction only"
    if reason is not None:
        raise UnsupportedError(
            f"{files.name} has streaming-read-overwrite=true, which a stream cannot follow, since "
            f"{reason}; set the option to false"
        )


def plan_stream(files: TableFiles, read: int, last: int) -> ChangePlan:
    """Plan what a stream tells that has read up to a snapshot (0: nothing), up to another one.

    Raises:
        SnapshotNotFound: a snapshot that is needed expired.
        HistoryGap: snapshots between them are missing.
    """
    if read == 0:
        return _all_rows(files, files.snapshots.read(last))
    mode = IncrementalMode.CHANGELOG if writes_changelogs(files) else IncrementalMode.DELTA
    snapshots = snapshots_between(files, read, last, mode)
    overwrites = [
        snapshot for snapshot in snapshots if snapshot.commit_kind is CommitKind.OVERWRITE
    ]
    if overwrites and tells_differences(files):
        before, after = files.snapshots.read(read), files.snapshots.read(last)
        return _told(files, difference_plan(files, before, after, None))
    plan = written_plan(files, snapshots, mode, None, streamed=True)
    _warn_of(files, [overwrite for overwrite in overwrites if not _is_told(overwrite, plan)])
    return plan


def _is_told(overwrite: Snapshot, plan: ChangePlan) -> bool:
    """Whether a plan of written files has what an overwrite changed."""
    if plan.mode is IncrementalMode.CHANGELOG:
        return overwrite.changelog_manifest_list is not None
    return overwrite.id in plan.snapshot_ids


def _told(files: TableFiles, plan: ChangePlan) -> ChangePlan:
    """A difference without the partitions whose changes are not tracked."""
    off = untold_partitions(files.schema.options, table=files.name)
    if not off:
        return plan
    told, gone = [], set()
    for split in plan.splits:
        first = (*split.after, *split.before)[0]
        partition = files.partitions.as_named(first.partition, first.files[0].schema_id)
        if is_untold(partition, off):
            gone.add(describe_partition(partition.spec))
        else:
            told.append(split)
    warn_of_untold(files, gone)
    return replace(plan, splits=tuple(told))


def first_needed(files: TableFiles, read: int) -> int:
    """The first snapshot that a stream still needs that has read up to one."""
    # A difference begins at the state that was read.
    return max(1, read) if tells_differences(files) else read + 1


def tells_differences(files: TableFiles) -> bool:
    """Whether overwrites of a table with keys are told as what they changed."""
    return files.schema.is_keyed and files.options.streaming_read_overwrite


def _all_rows(files: TableFiles, snapshot: Snapshot) -> ChangePlan:
    levels = None
    if files.schema.is_keyed:
        match files.options.changelog_producer:
            case ChangelogProducer.LOOKUP:
                levels = range(1, files.options.num_levels)
            case ChangelogProducer.FULL_COMPACTION:
                levels = range(files.options.max_level, files.options.num_levels)
    plan = plan_audit_log(files, snapshot, levels=levels)
    if levels is not None:
        return plan
    with told_if_expired(files, snapshot.id):
        waiting = _waiting_entries(files, snapshot)
    return replace(plan, splits=(*plan.splits, *written_splits(waiting)))


def _waiting_entries(files: TableFiles, snapshot: Snapshot) -> list[ManifestEntry]:
    """Files whose rows no reader sees and no changelog will tell, in the order of writing."""
    if not level_0_waits(files) and files.options.bucket_mode is not BucketMode.POSTPONE:
        return []
    live = live_entries(files, snapshot)
    seen = {entry.identity for entry in readable_entries(files, live)}
    waiting = [entry for entry in live if entry.identity not in seen]
    if writes_changelogs(files):
        # The changelog of postponed rows is written when they get their buckets.
        waiting = [entry for entry in waiting if entry.bucket >= 0]
    return sorted(
        waiting, key=lambda entry: (entry.file.creation_time or 0, entry.file.min_sequence_number)
    )


def _warn_of(files: TableFiles, untold: Sequence[Snapshot]) -> None:
    if not untold:
        return
    option = "streaming-read-overwrite"
    if not files.schema.is_keyed:
        option = "streaming-read-append-overwrite"
    way = f"set {option}=true if it should"
    if files.options.changelog_producer in _COMPACTIONS_TELL:
        # That option is refused there.
        way = "to have it, empty what the stream fills, and begin a new stream"
    _LOG.warning(
        "the stream of %s does not report what overwrites changed: snapshots %s; %s",
        files.name,
        ", ".join(str(each.id) for each in untold),
        way,
    )
