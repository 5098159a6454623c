"""Upkeep: the verbs that keep a table healthy, each planned and then carried out."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass

from lakewright.storage.files.table_files import TableFiles
from lakewright.storage.operations.inspection.analyze import (
    AnalyzePlan,
    AnalyzeResult,
    plan_analyze,
    run_analyze,
)
from lakewright.storage.operations.leases.leases import break_lease, list_leases
from lakewright.storage.operations.references.tags import (
    DeleteTagsPlan,
    DeleteTagsResult,
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
from lakewright.storage.operations.running.engine import Engine, LocalEngine
from lakewright.storage.operations.running.plan import RewritePlan, check_plan
from lakewright.storage.operations.write.verify import VerifyLevel, verify_level
from lakewright.storage.spec.lease import Lease


@dataclass(frozen=True)
class Upkeep:
    """The verbs of upkeep: `compact()` does the work, `compact(dry_run=True)` returns its plan.

    Each verb has a `plan_` method, which changes nothing, and a `run_` method, which carries a plan
    out or refuses it if the table has changed. Work runs in this process unless an engine is given.
    """

    table_files: TableFiles

    def compact(
        self,
        partitions: Sequence[Mapping[str, object]] | None = None,
        buckets: Sequence[int] | None = None,
        *,
        full: bool = False,
        min_file_num: int | None = None,
        engine: Engine | None = None,
        verify: str | VerifyLevel = VerifyLevel.CHECKSUMS,
        dry_run: bool = False,
    ) -> CompactionPlan | CompactionResult:
        """Rewrite due files, or all with `full`, into fewer and larger ones."""
        plan = self.plan_compact(partitions, buckets, full=full, min_file_num=min_file_num)
        return plan if dry_run else self.run_compact(plan, engine, verify=verify)

    def plan_compact(
        self,
        partitions: Sequence[Mapping[str, object]] | None = None,
        buckets: Sequence[int] | None = None,
        *,
        full: bool = False,
        min_file_num: int | None = None,
    ) -> CompactionPlan:
        """Plan a compaction; see `rewrite.compact`."""
        return plan_compact(
            self.table_files,
            partitions=partitions,
            buckets=buckets,
            full=full,
            min_file_num=min_file_num,
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

        New files are verified before they are published. `verify` is the level: counts, checksums,
        or full, which reads the new files back. With a lease, only the part that the lease covers
        until the commit is done.

        Raises:
            VerificationFailed: new rows differ from the old rows; nothing was committed.
        """
        files, runs = self._files_of(plan.table), engine or self._local()
        return run_compact(files, plan, runs, verify=verify_level(verify), lease=lease)

    def sort_compact(
        self,
        by: Sequence[str],
        *,
        order: str = "order",
        partitions: Sequence[Mapping[str, object]] | None = None,
        engine: Engine | None = None,
        verify: str | VerifyLevel = VerifyLevel.CHECKSUMS,
        dry_run: bool = False,
    ) -> SortCompactionPlan | CompactionResult:
        """Sort the rows of an append table by columns or along a curve."""
        plan = self.plan_sort_compact(by, order=order, partitions=partitions)
        return plan if dry_run else self.run_sort_compact(plan, engine, verify=verify)

    def plan_sort_compact(
        self,
        by: Sequence[str],
        *,
        order: str = "order",
        partitions: Sequence[Mapping[str, object]] | None = None,
    ) -> SortCompactionPlan:
        """Plan to sort an append table by columns, in their order or along a curve.

        `order` is order, zorder or hilbert; see `rewrite.sort_compact`.

        Raises:
            InvalidRequestError: the table or a column cannot be sorted.
        """
        return plan_sort_compact(
            self.table_files, by=by, order=sort_order(order), partitions=partitions
        )

    def run_sort_compact(
        self,
        plan: SortCompactionPlan,
        engine: Engine | None = None,
        *,
        verify: str | VerifyLevel = VerifyLevel.CHECKSUMS,
        lease: Lease | None = None,
    ) -> CompactionResult:
        """Carry a sort compaction plan out, in this process unless an engine is given."""
        files, runs = self._files_of(plan.table), engine or self._local()
        return run_sort_compact(files, plan, runs, verify=verify_level(verify), lease=lease)

    def postpone_compact(
        self,
        partitions: Sequence[Mapping[str, object]] | None = None,
        *,
        engine: Engine | None = None,
        verify: str | VerifyLevel = VerifyLevel.CHECKSUMS,
        dry_run: bool = False,
    ) -> PostponePlan | PostponeResult:
        """Assign buckets to postponed rows, so that readers see them."""
        plan = self.plan_postpone_compact(partitions)
        return plan if dry_run else self.run_postpone_compact(plan, engine, verify=verify)

    def plan_postpone_compact(
        self, partitions: Sequence[Mapping[str, object]] | None = None
    ) -> PostponePlan:
        """Plan the partitions with postponed rows; see `rewrite.postpone`."""
        return plan_postpone_compact(self.table_files, partitions=partitions)

    def run_postpone_compact(
        self,
        plan: PostponePlan,
        engine: Engine | None = None,
        *,
        verify: str | VerifyLevel = VerifyLevel.CHECKSUMS,
        lease: Lease | None = None,
    ) -> PostponeResult:
        """Carry the plan out."""
        files, runs = self._files_of(plan.table), engine or self._local()
        return run_postpone_compact(files, plan, runs, verify=verify_level(verify), lease=lease)

    def rescale(
        self,
        bucket_count: int,
        partitions: Sequence[Mapping[str, object]] | None = None,
        *,
        engine: Engine | None = None,
        verify: str | VerifyLevel = VerifyLevel.CHECKSUMS,
        dry_run: bool = False,
    ) -> RescalePlan | RescaleResult:
        """Change the bucket count of the table or of some partitions."""
        plan = self.plan_rescale(bucket_count, partitions)
        return plan if dry_run else self.run_rescale(plan, engine, verify=verify)

    def plan_rescale(
        self, bucket_count: int, partitions: Sequence[Mapping[str, object]] | None = None
    ) -> RescalePlan:
        """Plan the partitions that get another bucket count; see `rewrite.rescale`."""
        return plan_rescale(self.table_files, bucket_count, partitions=partitions)

    def run_rescale(
        self,
        plan: RescalePlan,
        engine: Engine | None = None,
        *,
        verify: str | VerifyLevel = VerifyLevel.CHECKSUMS,
        lease: Lease | None = None,
    ) -> RescaleResult:
        """Carry a rescale plan out; reopen the table afterwards if the plan changes its option."""
        files, runs = self._files_of(plan.table), engine or self._local()
        return run_rescale(files, plan, runs, verify=verify_level(verify), lease=lease)

    def expire_snapshots(
        self,
        *,
        retain_min: int | None = None,
        retain_max: int | None = None,
        time_retained_ms: int | None = None,
        max_deletes: int | None = None,
        dry_run: bool = False,
    ) -> ExpirePlan | ExpireResult:
        """Expire due snapshots in one step; `expire_in_steps` expires a whole backlog."""
        plan = self.plan_expire_snapshots(
            retain_min=retain_min,
            retain_max=retain_max,
            time_retained_ms=time_retained_ms,
            max_deletes=max_deletes,
        )
        return plan if dry_run else self.run_expire_snapshots(plan)

    def plan_expire_snapshots(
        self,
        *,
        retain_min: int | None = None,
        retain_max: int | None = None,
        time_retained_ms: int | None = None,
        max_deletes: int | None = None,
    ) -> ExpirePlan:
        """Plan the snapshots to expire and their files; see `retention.expire_snapshots`."""
        return plan_expire_snapshots(
            self.table_files,
            retain_min=retain_min,
            retain_max=retain_max,
            time_retained_ms=time_retained_ms,
            max_deletes=max_deletes,
        )

    def run_expire_snapshots(self, plan: ExpirePlan) -> ExpireResult:
        """Carry an expiry plan out."""
        return run_expire_snapshots(self._files_of(plan.table), plan)

    def expire_in_steps(
        self,
        *,
        retain_min: int | None = None,
        retain_max: int | None = None,
        time_retained_ms: int | None = None,
        max_deletes: int | None = None,
        max_duration_ms: int | None = None,
    ) -> Iterator[ExpireStep]:
        """Expire all due snapshots, step by step; see `retention.expire_backlog`."""
        return expire_in_steps(
            self.table_files,
            retain_min=retain_min,
            retain_max=retain_max,
            time_retained_ms=time_retained_ms,
            max_deletes=max_deletes,
            max_duration_ms=max_duration_ms,
        )

    def expire_tags(
        self,
        *,
        older_than_ms: int | None = None,
        dry_run: bool = False,
    ) -> DeleteTagsPlan | DeleteTagsResult:
        """Delete expired tags."""
        plan = self.plan_expire_tags(older_than_ms=older_than_ms)
        return plan if dry_run else self.run_expire_tags(plan)

    def plan_expire_tags(self, *, older_than_ms: int | None = None) -> DeleteTagsPlan:
        """Plan the tags to delete; see `retention.expire_tags`."""
        return plan_expire_tags(self.table_files, older_than_ms=older_than_ms)

    def run_expire_tags(self, plan: DeleteTagsPlan) -> DeleteTagsResult:
        """Carry the plan out."""
        return run_expire_tags(self._files_of(plan.table), plan)

    def expire_changelogs(
        self,
        *,
        every: bool = False,
        dry_run: bool = False,
    ) -> ExpireChangelogsPlan | ExpireChangelogsResult:
        """Delete expired long-lived changelogs, or all with `every`."""
        plan = self.plan_expire_changelogs(every=every)
        return plan if dry_run else self.run_expire_changelogs(plan)

    def plan_expire_changelogs(self, *, every: bool = False) -> ExpireChangelogsPlan:
        """Plan the long-lived changelogs to delete; see `retention.expire_changelogs`."""
        return plan_expire_changelogs(self.table_files, every=every)

    def run_expire_changelogs(self, plan: ExpireChangelogsPlan) -> ExpireChangelogsResult:
        """Carry the plan out."""
        return run_expire_changelogs(self._files_of(plan.table), plan)

    def remove_orphans(
        self,
        *,
        older_than_ms: int | None = None,
        age_ms: int | None = None,
        even_recent: bool = False,
        quarantine: bool = True,
        dry_run: bool = False,
    ) -> OrphansPlan | OrphansResult:
        """Move unreferenced files to quarantine, or delete them without `quarantine`."""
        plan = self.plan_remove_orphans(
            older_than_ms=older_than_ms, age_ms=age_ms, even_recent=even_recent
        )
        return plan if dry_run else self.run_remove_orphans(plan, quarantine=quarantine)

    def plan_remove_orphans(
        self,
        *,
        older_than_ms: int | None = None,
        age_ms: int | None = None,
        even_recent: bool = False,
    ) -> OrphansPlan:
        """Plan the unreferenced files to remove; see `retention.remove_orphans`."""
        return plan_remove_orphans(
            self.table_files, older_than_ms=older_than_ms, age_ms=age_ms, even_recent=even_recent
        )

    def run_remove_orphans(self, plan: OrphansPlan, *, quarantine: bool = True) -> OrphansResult:
        """Move the plan's files to quarantine, where they can be restored, or delete them."""
        return run_remove_orphans(self._files_of(plan.table), plan, quarantine=quarantine)

    def quarantines(self) -> tuple[Quarantine, ...]:
        """The quarantines, oldest first."""
        return list_quarantines(self.table_files)

    def restore(
        self,
        quarantine_id: str,
        *,
        paths: Collection[str] | None = None,
        dry_run: bool = False,
    ) -> RestorePlan | RestoreResult:
        """Restore files from a quarantine."""
        plan = self.plan_restore(quarantine_id, paths=paths)
        return plan if dry_run else self.run_restore(plan)

    def plan_restore(
        self, quarantine_id: str, *, paths: Collection[str] | None = None
    ) -> RestorePlan:
        """Plan the files to restore; see `retention.restore_files`."""
        return plan_restore(self.table_files, quarantine_id, paths=paths)

    def run_restore(self, plan: RestorePlan) -> RestoreResult:
        """Carry the plan out."""
        return run_restore(self._files_of(plan.table), plan)

    def purge(
        self,
        *,
        ttl_ms: int | None = None,
        quarantine_ids: Collection[str] = (),
        dry_run: bool = False,
    ) -> PurgePlan | PurgeResult:
        """Delete quarantines whose retention is over."""
        plan = self.plan_purge(ttl_ms=ttl_ms, quarantine_ids=quarantine_ids)
        return plan if dry_run else self.run_purge(plan)

    def plan_purge(
        self, *, ttl_ms: int | None = None, quarantine_ids: Collection[str] = ()
    ) -> PurgePlan:
        """Plan the quarantines to delete; see `retention.purge_quarantine`."""
        return plan_purge(self.table_files, ttl_ms=ttl_ms, quarantine_ids=quarantine_ids)

    def run_purge(self, plan: PurgePlan) -> PurgeResult:
        """Carry the plan out."""
        return run_purge(self._files_of(plan.table), plan)

    def analyze(
        self,
        *,
        columns: Sequence[str] | None = None,
        engine: Engine | None = None,
        dry_run: bool = False,
    ) -> AnalyzePlan | AnalyzeResult:
        """Compute statistics of the rows and publish them."""
        plan = self.plan_analyze(columns=columns)
        return plan if dry_run else self.run_analyze(plan, engine)

    def plan_analyze(self, *, columns: Sequence[str] | None = None) -> AnalyzePlan:
        """Plan the reads of an analysis; see `inspection.analyze`."""
        return plan_analyze(self.table_files, columns=columns)

    def run_analyze(self, plan: AnalyzePlan, engine: Engine | None = None) -> AnalyzeResult:
        """Compute statistics and publish them."""
        return run_analyze(self._files_of(plan.table), plan, engine or self._local())

    def compact_written(
        self,
        partitions: Sequence[Mapping[str, object]],
        engine_for: Callable[[RewritePlan], Engine] | None = None,
        *,
        min_file_num: int | None = None,
        verify: str | VerifyLevel = VerifyLevel.CHECKSUMS,
        lease: Lease | None = None,
    ) -> WriterCompaction:
        """Compact due files in just written partitions; the result reports failures.

        Raises:
            InvalidRequestError: option `write-only` forbids it.
        """
        check_writer_may_compact(self.table_files)
        return compact_written(
            self.table_files,
            partitions,
            engine_for or (lambda _: self._local()),
            min_file_num=min_file_num,
            verify=verify_level(verify),
            lease=lease,
        )

    def leases(self) -> tuple[Lease, ...]:
        """The leases on parts of the table; see `leases.leases`."""
        return list_leases(self.table_files)

    def break_lease(self, lease_id: str) -> Lease:
        """Take a lease, named by a prefix of its id, away from its holder."""
        return break_lease(self.table_files, lease_id)

    def _files_of(self, planned: str) -> TableFiles:
        check_plan(self.table_files, planned)
        return self.table_files

    def _local(self) -> LocalEngine:
        return LocalEngine(env=self.table_files.env)
