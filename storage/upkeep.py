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
    """What keeps a table healthy: `compact()` does it, `compact(dry_run=True)` returns its plan.

    Beneath each verb are its `plan_`, which changes nothing, and its `run_`, which carries a plan
    out as it stands or refuses it where the table has changed. Run in this process unless an
    engine is given.
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
        """Rewrite files into fewer and larger ones, where that is due or all with `full`."""
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
        """What is worth compacting; see `rewrite.compact`."""
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

        Nothing is published before it is proved to be what it replaces; `verify` says how much is
        proved: counts, checksums, or full, which reads the new files back. With a lease as much of
        the plan is done as that is for, and stays for.

        Raises:
            VerificationFailed: it is not; nothing was committed.
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
        """Rows of an append table, to be sorted by columns: one after the other, or by a curve.

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
        """Give rows of postponed buckets their buckets, so that readers see them."""
        plan = self.plan_postpone_compact(partitions)
        return plan if dry_run else self.run_postpone_compact(plan, engine, verify=verify)

    def plan_postpone_compact(
        self, partitions: Sequence[Mapping[str, object]] | None = None
    ) -> PostponePlan:
        """Which partitions have rows without a bucket; see `rewrite.postpone`."""
        return plan_postpone_compact(self.table_files, partitions=partitions)

    def run_postpone_compact(
        self,
        plan: PostponePlan,
        engine: Engine | None = None,
        *,
        verify: str | VerifyLevel = VerifyLevel.CHECKSUMS,
        lease: Lease | None = None,
    ) -> PostponeResult:
        """Give rows their buckets, so that readers see them."""
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
        """Give the table, or some partitions, another number of buckets."""
        plan = self.plan_rescale(bucket_count, partitions)
        return plan if dry_run else self.run_rescale(plan, engine, verify=verify)

    def plan_rescale(
        self, bucket_count: int, partitions: Sequence[Mapping[str, object]] | None = None
    ) -> RescalePlan:
        """Which partitions get another number of buckets; see `rewrite.rescale`."""
        return plan_rescale(self.table_files, bucket_count, partitions=partitions)

    def run_rescale(
        self,
        plan: RescalePlan,
        engine: Engine | None = None,
        *,
        verify: str | VerifyLevel = VerifyLevel.CHECKSUMS,
        lease: Lease | None = None,
    ) -> RescaleResult:
        """Carry a rescale plan out; open the table anew afterwards if it changed its option."""
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
        """Expire snapshots that may go, in one step; `expire_in_steps` takes all of a backlog."""
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
        """Which snapshots may go, and which files with them; see `retention.expire_snapshots`."""
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
        """Expire all that may go, step after step; see `retention.expire_backlog`."""
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
        """Delete tags whose time is over."""
        plan = self.plan_expire_tags(older_than_ms=older_than_ms)
        return plan if dry_run else self.run_expire_tags(plan)

    def plan_expire_tags(self, *, older_than_ms: int | None = None) -> DeleteTagsPlan:
        """Which tags may go; see `retention.expire_tags`."""
        return plan_expire_tags(self.table_files, older_than_ms=older_than_ms)

    def run_expire_tags(self, plan: DeleteTagsPlan) -> DeleteTagsResult:
        """Carry such a plan out."""
        return run_expire_tags(self._files_of(plan.table), plan)

    def expire_changelogs(
        self,
        *,
        every: bool = False,
        dry_run: bool = False,
    ) -> ExpireChangelogsPlan | ExpireChangelogsResult:
        """Delete long-lived changelogs whose time is over, or each of them with `every`."""
        plan = self.plan_expire_changelogs(every=every)
        return plan if dry_run else self.run_expire_changelogs(plan)

    def plan_expire_changelogs(self, *, every: bool = False) -> ExpireChangelogsPlan:
        """Which long-lived changelogs may go; see `retention.expire_changelogs`."""
        return plan_expire_changelogs(self.table_files, every=every)

    def run_expire_changelogs(self, plan: ExpireChangelogsPlan) -> ExpireChangelogsResult:
        """Carry such a plan out."""
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
        """Set files aside that nothing refers to, or delete them without `quarantine`."""
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
        """Files that nothing refers to; see `retention.remove_orphans`."""
        return plan_remove_orphans(
            self.table_files, older_than_ms=older_than_ms, age_ms=age_ms, even_recent=even_recent
        )

    def run_remove_orphans(self, plan: OrphansPlan, *, quarantine: bool = True) -> OrphansResult:
        """Set the files of such a plan aside, from where they can be restored, or delete them."""
        return run_remove_orphans(self._files_of(plan.table), plan, quarantine=quarantine)

    def quarantines(self) -> tuple[Quarantine, ...]:
        """Files that were set aside together, oldest first."""
        return list_quarantines(self.table_files)

    def restore(
        self,
        quarantine_id: str,
        *,
        paths: Collection[str] | None = None,
        dry_run: bool = False,
    ) -> RestorePlan | RestoreResult:
        """Put files back that were set aside together."""
        plan = self.plan_restore(quarantine_id, paths=paths)
        return plan if dry_run else self.run_restore(plan)

    def plan_restore(
        self, quarantine_id: str, *, paths: Collection[str] | None = None
    ) -> RestorePlan:
        """What comes back from a quarantine; see `retention.restore_files`."""
        return plan_restore(self.table_files, quarantine_id, paths=paths)

    def run_restore(self, plan: RestorePlan) -> RestoreResult:
        """Carry such a plan out."""
        return run_restore(self._files_of(plan.table), plan)

    def purge(
        self,
        *,
        ttl_ms: int | None = None,
        quarantine_ids: Collection[str] = (),
        dry_run: bool = False,
    ) -> PurgePlan | PurgeResult:
        """Delete what has been in quarantine for long enough."""
        plan = self.plan_purge(ttl_ms=ttl_ms, quarantine_ids=quarantine_ids)
        return plan if dry_run else self.run_purge(plan)

    def plan_purge(
        self, *, ttl_ms: int | None = None, quarantine_ids: Collection[str] = ()
    ) -> PurgePlan:
        """What has been in quarantine for long enough; see `retention.purge_quarantine`."""
        return plan_purge(self.table_files, ttl_ms=ttl_ms, quarantine_ids=quarantine_ids)

    def run_purge(self, plan: PurgePlan) -> PurgeResult:
        """Carry such a plan out."""
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
        """What computing statistics would read; see `inspection.analyze`."""
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
        """Compact what is due in partitions just written to; what fails is told, not raised.

        Raises:
            InvalidRequestError: option `write-only` leaves that to others.
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
        """Who works on which part of the table; see `leases.leases`."""
        return list_leases(self.table_files)

    def break_lease(self, lease_id: str) -> Lease:
        """Take a lease, whose id begins so, from whoever holds it."""
        return break_lease(self.table_files, lease_id)

    def _files_of(self, planned: str) -> TableFiles:
        check_plan(self.table_files, planned)
        return self.table_files

    def _local(self) -> LocalEngine:
        return LocalEngine(env=self.table_files.env)
