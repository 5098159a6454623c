"""Table: one façade over the verbs; it delegates and decides nothing."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from typing import Any, Unpack

import pyarrow as pa

from lakewright.storage.codec.arrow_types import to_arrow_schema
from lakewright.storage.errors import (
    CommitOutcomeUnknownError,
    InvalidRequestError,
    InvalidRows,
    StorageError,
)
from lakewright.storage.files.table_files import TableFiles
from lakewright.storage.operations.changes.change_plan import ChangePlan, incremental_mode
from lakewright.storage.operations.changes.change_read import ChangeReader, collect_changes
from lakewright.storage.operations.changes.incremental import Bound, plan_incremental
from lakewright.storage.operations.commit.commit import commit_write
from lakewright.storage.operations.commit.commit_loop import find_committed
from lakewright.storage.operations.commit.pending import (
    abort_pending,
    commit_pending,
    keep_pending,
    pending_batches,
)
from lakewright.storage.operations.inspection.analyze import (
    AnalyzePlan,
    AnalyzeResult,
    plan_analyze,
    read_statistics,
    run_analyze,
)
from lakewright.storage.operations.inspection.system_tables import (
    check_system_table,
    read_system_table,
    system_table_schema,
)
from lakewright.storage.operations.leases.leases import break_lease, list_leases
from lakewright.storage.operations.read.expired_reads import told_if_expired
from lakewright.storage.operations.read.fallback_read import falls_back, scan_with_fallback
from lakewright.storage.operations.read.lookup import lookup
from lakewright.storage.operations.read.read import SplitReader
from lakewright.storage.operations.read.scan import DataSplit, ScanPlan, plan_scan
from lakewright.storage.operations.references.branches import (
    Branch,
    BranchResult,
    DeleteBranchPlan,
    at_branch,
    create_branch,
    list_branches,
    plan_delete_branch,
    run_delete_branch,
)
from lakewright.storage.operations.references.consumers import (
    Consumer,
    delete_consumer,
    list_consumers,
    plan_expire_consumers,
    run_expire_consumers,
    set_consumer,
)
from lakewright.storage.operations.references.fast_forward import (
    FastForwardPlan,
    plan_fast_forward,
    run_fast_forward,
)
from lakewright.storage.operations.references.rollback import (
    RollbackPlan,
    RollbackResult,
    plan_rollback,
    run_rollback,
)
from lakewright.storage.operations.references.tags import (
    DeleteTagsPlan,
    DeleteTagsResult,
    create_due_tags,
    create_tag,
    plan_delete_tags,
    rename_tag,
    replace_tag,
    run_delete_tags,
)
from lakewright.storage.operations.retention.expire_backlog import ExpireStep, expire_in_steps
from lakewright.storage.operations.retention.expire_changelogs import (
    ExpireChangelogsPlan,
    ExpireChangelogsResult,
    plan_expire_changelogs,
    run_expire_changelogs,
)
from lakewright.storage.operations.retention.expire_snapshots import (
    ExpirePlan,
    ExpireResult,
    plan_expire_snapshots,
    run_expire_snapshots,
)
from lakewright.storage.operations.retention.expire_tags import plan_expire_tags, run_expire_tags
from lakewright.storage.operations.retention.purge_quarantine import (
    PurgePlan,
    PurgeResult,
    plan_purge,
    run_purge,
)
from lakewright.storage.operations.retention.quarantine import Quarantine, list_quarantines
from lakewright.storage.operations.retention.remove_orphans import (
    OrphansPlan,
    OrphansResult,
    plan_remove_orphans,
    run_remove_orphans,
)
from lakewright.storage.operations.retention.restore_files import (
    RestorePlan,
    RestoreResult,
    plan_restore,
    run_restore,
)
from lakewright.storage.operations.rewrite.compact import plan_compact, run_compact
from lakewright.storage.operations.rewrite.compact_written import (
    WriterCompaction,
    WriteResult,
    check_writer_may_compact,
    compact_written,
)
from lakewright.storage.operations.rewrite.compaction_plan import CompactionPlan, CompactionResult
from lakewright.storage.operations.rewrite.postpone import (
    PostponePlan,
    PostponeResult,
    plan_postpone_compact,
    run_postpone_compact,
)
from lakewright.storage.operations.rewrite.rescale import (
    RescalePlan,
    RescaleResult,
    plan_rescale,
    run_rescale,
)
from lakewright.storage.operations.rewrite.sort_compact import (
    SortCompactionPlan,
    plan_sort_compact,
    run_sort_compact,
    sort_order,
)
from lakewright.storage.operations.running.concurrency import map_concurrently
from lakewright.storage.operations.running.engine import Engine, LocalEngine
from lakewright.storage.operations.running.plan import RewritePlan
from lakewright.storage.operations.running.task_memory import STREAMING, collecting
from lakewright.storage.operations.state.live_files import live_entries
from lakewright.storage.operations.state.table_stats import PartitionStats, partition_stats
from lakewright.storage.operations.state.time_travel import When, choose_snapshot, is_historic
from lakewright.storage.operations.write.verify import VerifyLevel, verify_level
from lakewright.storage.operations.write.write import StagingJob, prepare_write, stage_rows
from lakewright.storage.spec.commit import CommitResult, StagedWrite, WriteMode
from lakewright.storage.spec.lease import Lease
from lakewright.storage.spec.manifest import ManifestEntry
from lakewright.storage.spec.options import TableOptions
from lakewright.storage.spec.predicate import Predicate
from lakewright.storage.spec.schema import TableSchema
from lakewright.storage.spec.snapshot import Snapshot
from lakewright.storage.spec.supported_options import Use, check_supported
from lakewright.storage.spec.table_statistics import TableStatistics
from lakewright.storage.spec.tag import Tag

# A table, a record batch, or any number of them.
Rows = Any


@dataclass(frozen=True)
class Table:
    """A table with the schema it had when it was opened."""

    files: TableFiles

    @property
    def name(self) -> str:
        return self.files.name

    @property
    def location(self) -> str:
        return self.files.fs.uri(self.files.paths.root)

    @property
    def uuid(self) -> str:
        """The same as long as the table lives; another when it is dropped and created again."""
        created = self.files.schemas.read(self.files.schemas.ids()[0]).time_millis
        return f"{self.name}.{created}"

    @property
    def schema(self) -> TableSchema:
        return self.files.schema

    @property
    def options(self) -> TableOptions:
        return self.files.options

    @property
    def arrow_schema(self) -> pa.Schema:
        return to_arrow_schema(self.schema.fields)

    # --- history and health ---------------------------------------------------------------------

    def latest_snapshot(self) -> Snapshot | None:
        return self.files.snapshots.latest()

    def snapshots(self) -> tuple[Snapshot, ...]:
        """Snapshots there are, oldest first."""
        return tuple(reversed(list(self.files.snapshots.newest_first())))

    def find_committed(self, commit_user: str, commit_identifier: int) -> Snapshot | None:
        """What an earlier try of the same commit made, if it did."""
        return find_committed(self.files, commit_user, commit_identifier)

    def data_files(
        self, where: Predicate | None = None, **when: Unpack[When]
    ) -> tuple[ManifestEntry, ...]:
        """Live data files, of the partitions that a filter leaves."""
        snapshot = choose_snapshot(self.files, **when)
        return tuple(live_entries(self.files, snapshot, predicate=where))

    def partitions(
        self, where: Predicate | None = None, **when: Unpack[When]
    ) -> tuple[PartitionStats, ...]:
        """Partitions with their counts, from metadata alone."""
        return partition_stats(self.files, self.data_files(where, **when))

    def file_count_on_disk(self) -> int:
        """Files of any kind below the table's folder, without those of upkeep; lists it whole."""
        listed = self.files.fs.list_tree(self.files.paths.root)
        hidden = self.files.paths.upkeep_dir + "/"
        return sum(not each.path.startswith(hidden) for each in listed)

    # --- writing --------------------------------------------------------------------------------

    def stage(
        self,
        rows: Rows,
        *,
        mode: str = "append",
        partition: Mapping[str, object] | None = None,
        dynamic: bool | None = None,
        commit_user: str | None = None,
        commit_identifier: int | None = None,
    ) -> StagedWrite:
        """Write rows where no reader sees them yet; `commit` or `abort` comes next.

        `mode` is append (upsert on primary-key tables) or overwrite. `partition`
        fixes partition columns, which rows may then leave out. Rows may say what
        they do to their key in a column `_rowkind` ('+I', '-U', '+U', '-D').

        Raises:
            InvalidRequestError: mode, partition or rows do not fit; nothing is left on disk.
            UnsupportedError: the table has an option that is not implemented.
        """
        job = self.prepare_write(
            mode=mode,
            partition=partition,
            dynamic=dynamic,
            commit_user=commit_user,
            commit_identifier=commit_identifier,
        )
        return stage_rows(job, _tables(rows))

    def prepare_write(
        self,
        *,
        mode: str,
        partition: Mapping[str, object] | None = None,
        dynamic: bool | None = None,
        commit_user: str | None = None,
        commit_identifier: int | None = None,
    ) -> StagingJob:
        """What tasks of an engine need to stage their share of the rows."""
        return prepare_write(
            self.files,
            mode=write_mode(mode),
            partition=partition,
            dynamic=dynamic,
            commit_user=commit_user,
            commit_identifier=commit_identifier,
        )

    def read_staged(self, staged: StagedWrite, *, columns: Sequence[str] | None = None) -> pa.Table:
        """Rows of a staged write, as the table would hold them; deletions are left out."""
        reader = SplitReader(
            self.files.at_schema(staged.schema_id), columns=columns, predicate=None
        )
        splits = [
            DataSplit(
                partition=message.partition,
                bucket=message.bucket,
                files=message.new_files,
                merge=self.schema.is_keyed,
            )
            for message in staged.messages
        ]
        return _collected(reader, splits)

    def commit(self, staged: StagedWrite) -> CommitResult:
        """Publish a staged write, once: committing it again finds the first commit.

        Raises:
            CommitConflictError: the table changed so that the rows do not fit any more.
            CommitOutcomeUnknownError: the store failed at the decisive moment.
        """
        result = commit_write(self.files, staged)
        self._tag_what_is_due()
        return result

    def abort(self, staged: StagedWrite) -> int:
        """Delete the files of a staged write, unless it was committed; how many there were."""
        return abort_pending(self.files, staged)

    def keep_pending(self, staged: StagedWrite) -> StagedWrite:
        """Keep a staged batch beside the table until it is committed; the batch that counts.

        It outlives this process: `pending_batches` finds it. Of two batches of one user and
        identifier the first counts, and the files of the other are deleted.

        Raises:
            InvalidRequestError: it was staged without a `commit_identifier`.
        """
        return keep_pending(self.files, staged)

    def pending_batches(self, commit_user: str | None = None) -> tuple[StagedWrite, ...]:
        """All batches that are kept and not committed, by their user and identifier."""
        return pending_batches(self.files, commit_user)

    def commit_pending(
        self, commit_user: str, *, up_to: int | None = None
    ) -> tuple[CommitResult, ...]:
        """Publish a user's kept batches in order, each once: up to an identifier, or all.

        Raises:
            CommitConflictError: rows of a batch do not fit the table any more. Batches before it
                are published; it and those after it are kept, for `abort`.
            CommitOutcomeUnknownError: the store failed at a decisive moment; call it again.
        """
        results = commit_pending(self.files, commit_user, up_to=up_to)
        self._tag_what_is_due()
        return results

    def write(
        self,
        rows: Rows,
        *,
        mode: str = "append",
        partition: Mapping[str, object] | None = None,
        dynamic: bool | None = None,
        commit_user: str | None = None,
        commit_identifier: int | None = None,
        compact: bool = False,
    ) -> WriteResult:
        """Stage and commit; when the commit fails nothing is left on disk.

        Only where a store fails so that the snapshot may exist, the staged files stay. With
        `compact` partitions written to are compacted where that is due; the rows stay published
        whatever becomes of it.

        Raises:
            InvalidRequestError: `compact` where option `write-only` leaves that to others.
        """
        if compact:
            check_writer_may_compact(self.files)
        staged = self.stage(
            rows,
            mode=mode,
            partition=partition,
            dynamic=dynamic,
            commit_user=commit_user,
            commit_identifier=commit_identifier,
        )
        try:
            result = self.commit(staged)
        except CommitOutcomeUnknownError:
            raise
        except StorageError:
            # A store that fails now too must not hide why the commit failed.
            with suppress(StorageError):
                self.abort(staged)
            raise
        if result.already_committed or result.snapshot is None:
            # The earlier commit stands, whatever becomes of what this try has staged.
            with suppress(StorageError):
                self.abort(staged)
        touched = [dict(each.spec) for each in staged.partitions]
        return WriteResult(
            snapshot=result.snapshot,
            attempts=result.attempts,
            already_committed=result.already_committed,
            compaction=self.compact_written(touched) if compact else None,
        )

    def compact_written(
        self,
        partitions: Sequence[Mapping[str, object]],
        engine_for: Callable[[RewritePlan], Engine] | None = None,
        *,
        min_file_num: int | None = None,
        verify: str | VerifyLevel = VerifyLevel.CHECKSUMS,
        lease: Lease | None = None,
    ) -> WriterCompaction:
        """Compact what is due in partitions just written to; what fails is told, not raised.

        Raises:
            InvalidRequestError: option `write-only` leaves that to others.
        """
        check_writer_may_compact(self.files)

        def local(_: RewritePlan) -> Engine:
            return LocalEngine(env=self.files.env)

        return compact_written(
            self.files,
            partitions,
            engine_for or local,
            min_file_num=min_file_num,
            verify=verify_level(verify),
            lease=lease,
        )

    # --- reading --------------------------------------------------------------------------------

    def plan_scan(self, where: Predicate | None = None, **when: Unpack[When]) -> ScanPlan:
        """Files and splits a read touches; an earlier state is read with its own schema.

        Raises:
            SnapshotNotFound: there is no such snapshot, or none that old any more.
            TagNotFound: there is no such tag.
        """
        check_supported(self.schema, Use.READ, table=self.name)
        snapshot = choose_snapshot(self.files, **when)
        files = self.files
        if snapshot is not None and is_historic(when):
            files = files.at_schema(snapshot.schema_id)
        with told_if_expired(files, None if snapshot is None else snapshot.id):
            return plan_scan(files, snapshot, where)

    def reader(
        self,
        where: Predicate | None = None,
        columns: Sequence[str] | None = None,
        **when: Unpack[When],
    ) -> tuple[SplitReader, ScanPlan]:
        """A plan and what reads its splits; an engine may read them anywhere.

        Where an option names a branch for partitions that are missing here, its splits are in it.
        """
        if falls_back(self.files) and not is_historic(when):
            for name in columns or ():
                self.schema.field(name)
            return scan_with_fallback(self.files, where, columns)
        plan = self.plan_scan(where, **when)
        files = self.files
        if plan.snapshot is not None and is_historic(when):
            files = files.at_schema(plan.snapshot.schema_id)
        for name in columns or ():
            files.schema.field(name)
        snapshot_id = None if plan.snapshot is None else plan.snapshot.id
        reader = SplitReader(files, columns=columns, predicate=where, snapshot_id=snapshot_id)
        return reader, plan

    def read(
        self,
        where: Predicate | None = None,
        columns: Sequence[str] | None = None,
        *,
        limit: int | None = None,
        **when: Unpack[When],
    ) -> pa.Table:
        """Rows in memory, in no promised order; of the latest snapshot, or of another state."""
        reader, plan = self.reader(where, columns, **when)
        return _collected(reader, plan.splits, limit)

    def read_batches(
        self,
        where: Predicate | None = None,
        columns: Sequence[str] | None = None,
        **when: Unpack[When],
    ) -> Iterator[pa.Table]:
        """Rows piece by piece, for more than fits in memory."""
        reader, plan = self.reader(where, columns, **when)
        for split in plan.splits:
            yield from reader.read(split)

    def lookup(
        self, keys: Rows, *, columns: Sequence[str] | None = None, **when: Unpack[When]
    ) -> pa.Table:
        """Rows of single keys, found without reading the table; see `read.lookup`."""
        snapshot = choose_snapshot(self.files, **when)
        files = self.files
        if snapshot is not None and is_historic(when):
            files = files.at_schema(snapshot.schema_id)
        wanted = pa.concat_tables(list(_tables(keys)))
        with told_if_expired(files, None if snapshot is None else snapshot.id):
            return lookup(files, wanted, snapshot, columns=columns).rows

    def plan_incremental(
        self, start: Bound, end: Bound, *, mode: str = "auto", where: Predicate | None = None
    ) -> ChangePlan:
        """Files with the changes after `start` up to and with `end`.

        Bounds are two snapshot ids, two tag names or two times. `mode` is delta (rows that
        appends added), changelog (rows of changelog files), diff (the two states compared)
        or auto: between tags diff, else changelog where the table writes one, else delta.

        Raises:
            InvalidRequestError: the bounds are the wrong way round or of two kinds.
            SnapshotNotFound: there is no such snapshot, or not any more.
            TagNotFound: there is no such tag.
        """
        return plan_incremental(
            self.files, start, end, mode=incremental_mode(mode), predicate=where
        )

    def read_incremental(
        self,
        start: Bound,
        end: Bound,
        *,
        mode: str = "auto",
        where: Predicate | None = None,
        columns: Sequence[str] | None = None,
        limit: int | None = None,
    ) -> pa.Table:
        """Rows that changed, each with what was done to its key first, in `_rowkind`."""
        plan = self.plan_incremental(start, end, mode=mode, where=where)
        reader = ChangeReader(
            self.files, columns=columns, predicate=where, snapshot_ids=plan.snapshot_ids
        )
        return collect_changes(reader, plan.splits, limit=limit)

    def system_table(
        self, name: str, where: Predicate | None = None, **when: Unpack[When]
    ) -> pa.Table:
        """Metadata as rows, such as `snapshots` or `files`; see `inspection.system_tables`.

        Rows about files are those of one state, the latest unless another is meant.

        Raises:
            InvalidRequestError: there is no system table of that name.
        """
        check_system_table(self.files, name)
        snapshot = choose_snapshot(self.files, **when)
        files = self.files
        if snapshot is not None and is_historic(when):
            files = files.at_schema(snapshot.schema_id)
        return read_system_table(files, name, snapshot, where)

    def system_table_schema(self, name: str) -> TableSchema:
        """The columns of a system table: what a filter on it is read against."""
        return system_table_schema(self.files, name)

    # --- upkeep ---------------------------------------------------------------------------------

    def plan_compact(
        self,
        partitions: Sequence[Mapping[str, object]] | None = None,
        buckets: Sequence[int] | None = None,
        *,
        full: bool = False,
        min_file_num: int | None = None,
    ) -> CompactionPlan:
        """What is worth compacting; see `rewrite.compact`."""
        return plan_compact(
            self.files, partitions=partitions, buckets=buckets, full=full, min_file_num=min_file_num
        )

    def run_compact(
        self,
        plan: CompactionPlan,
        engine: Engine | None = None,
        *,
        verify: str | VerifyLevel = VerifyLevel.CHECKSUMS,
        lease: Lease | None = None,
    ) -> CompactionResult:
        """Carry a compaction plan out, in this process unless an engine is given.

        Nothing is published before it is proved to be what it replaces; `verify` says how much is
        proved: counts, checksums, or full, which reads the new files back. With a lease as much of
        the plan is done as that is for, and stays for.

        Raises:
            VerificationFailed: it is not; nothing was committed.
        """
        self._check_plan(plan.table)
        return run_compact(
            self.files,
            plan,
            engine or LocalEngine(env=self.files.env),
            verify=verify_level(verify),
            lease=lease,
        )

    def plan_sort_compact(
        self,
        by: Sequence[str],
        *,
        order: str = "order",
        partitions: Sequence[Mapping[str, object]] | None = None,
    ) -> SortCompactionPlan:
        """Rows of an append table, to be sorted by columns: one after the other, or by a curve.

        `order` is order, zorder or hilbert; see `rewrite.sort_compact`.

        Raises:
            InvalidRequestError: the table or a column cannot be sorted.
        """
        return plan_sort_compact(self.files, by=by, order=sort_order(order), partitions=partitions)

    def run_sort_compact(
        self,
        plan: SortCompactionPlan,
        engine: Engine | None = None,
        *,
        verify: str | VerifyLevel = VerifyLevel.CHECKSUMS,
        lease: Lease | None = None,
    ) -> CompactionResult:
        """Carry a sort compaction plan out, in this process unless an engine is given."""
        self._check_plan(plan.table)
        return run_sort_compact(
            self.files,
            plan,
            engine or LocalEngine(env=self.files.env),
            verify=verify_level(verify),
            lease=lease,
        )

    def plan_postpone_compact(
        self, partitions: Sequence[Mapping[str, object]] | None = None
    ) -> PostponePlan:
        """Which partitions have rows without a bucket; see `rewrite.postpone`."""
        return plan_postpone_compact(self.files, partitions=partitions)

    def run_postpone_compact(
        self,
        plan: PostponePlan,
        engine: Engine | None = None,
        *,
        verify: str | VerifyLevel = VerifyLevel.CHECKSUMS,
        lease: Lease | None = None,
    ) -> PostponeResult:
        """Give rows their buckets, so that readers see them."""
        self._check_plan(plan.table)
        return run_postpone_compact(
            self.files,
            plan,
            engine or LocalEngine(env=self.files.env),
            verify=verify_level(verify),
            lease=lease,
        )

    def plan_rescale(
        self, bucket_count: int, partitions: Sequence[Mapping[str, object]] | None = None
    ) -> RescalePlan:
        """Which partitions get another number of buckets; see `rewrite.rescale`."""
        return plan_rescale(self.files, bucket_count, partitions=partitions)

    def run_rescale(
        self,
        plan: RescalePlan,
        engine: Engine | None = None,
        *,
        verify: str | VerifyLevel = VerifyLevel.CHECKSUMS,
        lease: Lease | None = None,
    ) -> RescaleResult:
        """Carry a rescale plan out; open the table anew afterwards if it changed its option."""
        self._check_plan(plan.table)
        return run_rescale(
            self.files,
            plan,
            engine or LocalEngine(env=self.files.env),
            verify=verify_level(verify),
            lease=lease,
        )

    def plan_expire_snapshots(
        self,
        *,
        retain_min: int | None = None,
        retain_max: int | None = None,
        time_retained_ms: int | None = None,
        max_deletes: int | None = None,
    ) -> ExpirePlan:
        """Which snapshots may go, and which files with them; see `retention.expire_snapshots`."""
        return plan_expire_snapshots(
            self.files,
            retain_min=retain_min,
            retain_max=retain_max,
            time_retained_ms=time_retained_ms,
            max_deletes=max_deletes,
        )

    def run_expire_snapshots(self, plan: ExpirePlan) -> ExpireResult:
        """Carry an expiry plan out."""
        self._check_plan(plan.table)
        return run_expire_snapshots(self.files, plan)

    def expire_in_steps(
        self,
        *,
        retain_min: int | None = None,
        retain_max: int | None = None,
        time_retained_ms: int | None = None,
        max_deletes: int | None = None,
        max_duration_ms: int | None = None,
    ) -> Iterator[ExpireStep]:
        """Expire all that may go, step after step; see `retention.expire_backlog`."""
        return expire_in_steps(
            self.files,
            retain_min=retain_min,
            retain_max=retain_max,
            time_retained_ms=time_retained_ms,
            max_deletes=max_deletes,
            max_duration_ms=max_duration_ms,
        )

    def changelogs(self) -> tuple[Snapshot, ...]:
        """Snapshots whose changes outlived them, oldest first."""
        return tuple(self.files.references.changelogs())

    def plan_expire_changelogs(self, *, every: bool = False) -> ExpireChangelogsPlan:
        """Which long-lived changelogs may go; see `retention.expire_changelogs`."""
        return plan_expire_changelogs(self.files, every=every)

    def run_expire_changelogs(self, plan: ExpireChangelogsPlan) -> ExpireChangelogsResult:
        """Carry such a plan out."""
        self._check_plan(plan.table)
        return run_expire_changelogs(self.files, plan)

    def plan_remove_orphans(
        self,
        *,
        older_than_ms: int | None = None,
        age_ms: int | None = None,
        even_recent: bool = False,
    ) -> OrphansPlan:
        """Files that nothing refers to; see `retention.remove_orphans`."""
        return plan_remove_orphans(
            self.files, older_than_ms=older_than_ms, age_ms=age_ms, even_recent=even_recent
        )

    def run_remove_orphans(self, plan: OrphansPlan, *, quarantine: bool = True) -> OrphansResult:
        """Set the files of such a plan aside, from where they can be restored, or delete them."""
        self._check_plan(plan.table)
        return run_remove_orphans(self.files, plan, quarantine=quarantine)

    def quarantines(self) -> tuple[Quarantine, ...]:
        """Files that were set aside together, oldest first."""
        return list_quarantines(self.files)

    def plan_restore(
        self, quarantine_id: str, *, paths: Collection[str] | None = None
    ) -> RestorePlan:
        """What comes back from a quarantine; see `retention.restore_files`."""
        return plan_restore(self.files, quarantine_id, paths=paths)

    def run_restore(self, plan: RestorePlan) -> RestoreResult:
        """Carry such a plan out."""
        self._check_plan(plan.table)
        return run_restore(self.files, plan)

    def plan_purge(
        self, *, ttl_ms: int | None = None, quarantine_ids: Collection[str] = ()
    ) -> PurgePlan:
        """What has been in quarantine for long enough; see `retention.purge_quarantine`."""
        return plan_purge(self.files, ttl_ms=ttl_ms, quarantine_ids=quarantine_ids)

    def run_purge(self, plan: PurgePlan) -> PurgeResult:
        """Carry such a plan out."""
        self._check_plan(plan.table)
        return run_purge(self.files, plan)

    # --- tags -----------------------------------------------------------------------------------

    def tags(self) -> tuple[Tag, ...]:
        """Tags in the order of their snapshots."""
        return tuple(self.files.references.tags().values())

    def create_tag(
        self, name: str, *, snapshot_id: int | None = None, time_retained_ms: int | None = None
    ) -> Tag:
        """Name a snapshot, the latest by default; see `references.tags`."""
        return create_tag(
            self.files, name, snapshot_id=snapshot_id, time_retained_ms=time_retained_ms
        )

    def replace_tag(
        self, name: str, *, snapshot_id: int | None = None, time_retained_ms: int | None = None
    ) -> Tag:
        """Let a tag stand for another snapshot."""
        return replace_tag(
            self.files, name, snapshot_id=snapshot_id, time_retained_ms=time_retained_ms
        )

    def rename_tag(self, name: str, new_name: str) -> Tag:
        return rename_tag(self.files, name, new_name)

    def create_due_tags(self) -> tuple[str, ...]:
        """Make the automatic tags that are due, as every commit does too; their names."""
        return create_due_tags(self.files)

    def plan_delete_tags(self, *names: str) -> DeleteTagsPlan:
        """What goes with tags; see `references.tags`."""
        return plan_delete_tags(self.files, names)

    def run_delete_tags(self, plan: DeleteTagsPlan) -> DeleteTagsResult:
        """Carry such a plan out."""
        self._check_plan(plan.table)
        return run_delete_tags(self.files, plan)

    def plan_expire_tags(self, *, older_than_ms: int | None = None) -> DeleteTagsPlan:
        """Which tags may go; see `retention.expire_tags`."""
        return plan_expire_tags(self.files, older_than_ms=older_than_ms)

    def run_expire_tags(self, plan: DeleteTagsPlan) -> DeleteTagsResult:
        """Carry such a plan out."""
        self._check_plan(plan.table)
        return run_expire_tags(self.files, plan)

    def _tag_what_is_due(self) -> None:
        # The commit stands. A tag that was not made is made after the next one.
        with suppress(StorageError):
            create_due_tags(self.files)

    # --- branches and rollback ------------------------------------------------------------------

    def branches(self) -> tuple[Branch, ...]:
        """Branches by name, without main."""
        return list_branches(self.files)

    def at_branch(self, name: str) -> Table:
        """The table as it is on a branch, `main` or another."""
        return Table(at_branch(self.files, name))

    def create_branch(
        self, name: str, *, tag: str | None = None, snapshot_id: int | None = None
    ) -> Table:
        """Begin a branch, empty or where a tag or snapshot is; see `references.branches`."""
        return Table(create_branch(self.files, name, tag=tag, snapshot_id=snapshot_id))

    def plan_delete_branch(self, name: str) -> DeleteBranchPlan:
        """What goes with a branch."""
        return plan_delete_branch(self.files, name)

    def run_delete_branch(self, plan: DeleteBranchPlan) -> BranchResult:
        """Carry such a plan out."""
        self._check_plan(plan.table)
        return run_delete_branch(self.files, plan)

    def plan_fast_forward(self, name: str) -> FastForwardPlan:
        """What main gets from a branch, and what of its own goes."""
        return plan_fast_forward(self.files, name)

    def run_fast_forward(self, plan: FastForwardPlan) -> BranchResult:
        """Carry such a plan out."""
        self._check_plan(plan.table)
        return run_fast_forward(self.files, plan)

    def plan_rollback(
        self,
        *,
        snapshot_id: int | None = None,
        tag: str | None = None,
        as_of_ms: int | None = None,
    ) -> RollbackPlan:
        """What goes when the table becomes what it was; see `references.rollback`."""
        return plan_rollback(self.files, snapshot_id=snapshot_id, tag=tag, as_of_ms=as_of_ms)

    def run_rollback(self, plan: RollbackPlan) -> RollbackResult:
        """Carry such a plan out."""
        self._check_plan(plan.table)
        return run_rollback(self.files, plan)

    # --- consumers ------------------------------------------------------------------------------

    def consumers(self) -> tuple[Consumer, ...]:
        """Readers of changes by name, and how far they are."""
        return list_consumers(self.files)

    def set_consumer(self, name: str, next_snapshot_id: int) -> None:
        set_consumer(self.files, name, next_snapshot_id)

    def delete_consumer(self, name: str) -> None:
        delete_consumer(self.files, name)

    def expire_consumers(self, *, older_than_ms: int | None = None) -> tuple[str, ...]:
        """Delete consumers that have not moved since a time; see `references.consumers`."""
        plan = plan_expire_consumers(self.files, older_than_ms=older_than_ms)
        run_expire_consumers(self.files, plan)
        return tuple(each.name for each in plan)

    # --- leases ---------------------------------------------------------------------------------

    def leases(self) -> tuple[Lease, ...]:
        """Who works on which part of the table; see `leases.leases`."""
        return list_leases(self.files)

    def break_lease(self, lease_id: str) -> Lease:
        """Take a lease, whose id begins so, from whoever holds it."""
        return break_lease(self.files, lease_id)

    # --- statistics -----------------------------------------------------------------------------

    def statistics(self, **when: Unpack[When]) -> TableStatistics | None:
        """What the last analysis found; None when there was none since the schema changed."""
        return read_statistics(self.files, choose_snapshot(self.files, **when))

    def plan_analyze(self, *, columns: Sequence[str] | None = None) -> AnalyzePlan:
        """What computing statistics would read; see `inspection.analyze`."""
        return plan_analyze(self.files, columns=columns)

    def run_analyze(self, plan: AnalyzePlan, engine: Engine | None = None) -> AnalyzeResult:
        """Compute statistics and publish them."""
        self._check_plan(plan.table)
        return run_analyze(self.files, plan, engine or LocalEngine(env=self.files.env))

    def _check_plan(self, table: str) -> None:
        if table != self.name:
            raise InvalidRequestError(f"the plan is for {table}, and this is {self.name}")


def write_mode(mode: str) -> WriteMode:
    """The mode a caller names.

    Raises:
        InvalidRequestError: it is none.
    """
    if mode == "upsert":
        return WriteMode.APPEND
    try:
        return WriteMode(mode)
    except ValueError:
        raise InvalidRequestError(
            f"write mode {mode!r} is none of append, upsert, overwrite"
        ) from None


def _tables(rows: Rows) -> Iterator[pa.Table]:
    if isinstance(rows, pa.Table):
        yield rows
    elif isinstance(rows, pa.RecordBatch):
        yield pa.Table.from_batches([rows])
    elif isinstance(rows, Iterable) and not isinstance(rows, (str, bytes, Mapping)):
        for part in rows:
            yield from _tables(part)
    else:
        raise InvalidRows(
            f"{rows!r:.100} is no Arrow table or batch; make one of rows with "
            "pa.Table.from_pylist(rows, schema=table.arrow_schema)"
        )


def _collected(
    reader: SplitReader, splits: Sequence[DataSplit], limit: int | None = None
) -> pa.Table:
    if limit is None:
        env = reader.files.env
        # Of rows that are filtered most may be wanted by nobody.
        collects = reader.predicate is None
        memory = collecting(min(env.cores(), len(splits))) if collects else STREAMING
        read = map_concurrently(env, lambda split: list(reader.read(split, memory=memory)), splits)
        return _joined(reader, [rows for pieces in read for rows in pieces])
    parts: list[pa.Table] = []
    count = 0
    for split in splits:
        for rows in reader.read(split):
            if count + rows.num_rows >= limit:
                parts.append(rows.slice(0, limit - count))
                return _joined(reader, parts)
            parts.append(rows)
            count += rows.num_rows
    return _joined(reader, parts)


def _joined(reader: SplitReader, parts: list[pa.Table]) -> pa.Table:
    nullable = pa.schema([field.with_nullable(True) for field in reader.arrow_schema])
    if not parts:
        return nullable.empty_table()
    # A cast copies nothing here, but takes a look at every chunk.
    return pa.concat_tables(
        [part if part.schema.equals(nullable) else part.cast(nullable) for part in parts]
    )
