"""Upkeep: the verbs that keep a table healthy, each planned and then carried out.

The file is long since each verb stands here with its arguments, and with one call of its room.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Generator, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, overload

from lakewright.storage.at_once import AtOnce
from lakewright.storage.files.table_files import TableFiles
from lakewright.storage.operations.inspection.analyze import AnalyzePlan, plan_analyze, run_analyze
from lakewright.storage.operations.leases.leases import break_lease, list_leases
from lakewright.storage.operations.partitions.add_partitions import (
    AddPartitionsPlan,
    plan_add_partitions,
    run_add_partitions,
)
from lakewright.storage.operations.partitions.drop_partitions import (
    DropPartitionsPlan,
    plan_drop_partitions,
    run_drop_partitions,
)
from lakewright.storage.operations.partitions.exchange_partition import (
    ExchangePartitionPlan,
    plan_exchange_partition,
    run_exchange_partition,
)
from lakewright.storage.operations.partitions.expire_partitions import (
    ExpirePartitionsPlan,
    plan_expire_partitions,
    run_expire_partitions,
)
from lakewright.storage.operations.partitions.mark_done import (
    MarkDonePlan,
    MarkDoneResult,
    plan_mark_done,
    run_mark_done,
)
from lakewright.storage.operations.partitions.rename_partition import (
    RenamePartitionPlan,
    plan_rename_partition,
    run_rename_partition,
)
from lakewright.storage.operations.partitions.repair_partitions import (
    RepairMode,
    RepairPlan,
    plan_repair_partitions,
    run_repair_partitions,
)
from lakewright.storage.operations.references.tags import DeleteTagsPlan
from lakewright.storage.operations.respec.respec import plan_respec, run_respec
from lakewright.storage.operations.respec.respec_checks import wanted_keys
from lakewright.storage.operations.respec.respec_plan import MOST_FILES, MOST_PARTITIONS, RespecPlan
from lakewright.storage.operations.retention.expire_backlog import ExpireStep, expire_in_steps
from lakewright.storage.operations.retention.expire_changelogs import (
    ExpireChangelogsPlan,
    plan_expire_changelogs,
    run_expire_changelogs,
)
from lakewright.storage.operations.retention.expire_snapshots import (
    ExpirePlan,
    plan_expire_snapshots,
    run_expire_snapshots,
)
from lakewright.storage.operations.retention.expire_tags import plan_expire_tags, run_expire_tags
from lakewright.storage.operations.retention.purge_quarantine import (
    PurgePlan,
    plan_purge,
    run_purge,
)
from lakewright.storage.operations.retention.quarantine import (
    Quarantine,
    each_quarantine,
    list_quarantines,
)
from lakewright.storage.operations.retention.remove_orphans import (
    OrphanSearch,
    OrphansPlan,
    OrphansResult,
    orphan_steps,
    plan_remove_orphans,
    run_remove_orphans,
)
from lakewright.storage.operations.retention.restore_files import (
    RestorePlan,
    plan_restore,
    run_restore,
)
from lakewright.storage.operations.rewrite.compact import plan_compact, run_compact
from lakewright.storage.operations.rewrite.compact_written import (
    WriterCompaction,
    check_writer_may_compact,
    compact_written,
)
from lakewright.storage.operations.rewrite.compaction_plan import CompactionPlan
from lakewright.storage.operations.rewrite.postpone import (
    PostponePlan,
    plan_postpone_compact,
    run_postpone_compact,
)
from lakewright.storage.operations.rewrite.rescale import RescalePlan, plan_rescale, run_rescale
from lakewright.storage.operations.rewrite.rewrite_manifests import (
    RewriteManifestsPlan,
    plan_rewrite_manifests,
    run_rewrite_manifests,
)
from lakewright.storage.operations.rewrite.sort_compact import (
    SortCompactionPlan,
    plan_sort_compact,
    run_sort_compact,
    sort_order,
)
from lakewright.storage.operations.running.engine import Engine, LocalEngine
from lakewright.storage.operations.running.plan import Plan, ResultT, RewritePlan, Runs, find_run
from lakewright.storage.operations.schema.validate_rows import (
    ValidateRowsPlan,
    plan_validate_rows,
    run_validate_rows,
)
from lakewright.storage.operations.write.verify import VerifyLevel, verify_level
from lakewright.storage.rows import Where, predicate_of
from lakewright.storage.spec.arguments import (
    list_argument,
    list_or_none,
    listed_names,
    listed_partitions,
    mapping_argument,
    text_argument,
    whole_number,
)
from lakewright.storage.spec.lease import Lease

# What carries a plan out: on an engine, or in this process alone.
_ON_AN_ENGINE: Runs = {
    CompactionPlan: run_compact,
    SortCompactionPlan: run_sort_compact,
    PostponePlan: run_postpone_compact,
    RescalePlan: run_rescale,
    AnalyzePlan: run_analyze,
    ValidateRowsPlan: run_validate_rows,
    RespecPlan: run_respec,
    RenamePartitionPlan: run_rename_partition,
}
_HERE: Runs = {
    RewriteManifestsPlan: run_rewrite_manifests,
    ExpirePlan: run_expire_snapshots,
    DeleteTagsPlan: run_expire_tags,
    ExpireChangelogsPlan: run_expire_changelogs,
    OrphansPlan: run_remove_orphans,
    RestorePlan: run_restore,
    PurgePlan: run_purge,
    AddPartitionsPlan: run_add_partitions,
    RepairPlan: run_repair_partitions,
    DropPartitionsPlan: run_drop_partitions,
    ExpirePartitionsPlan: run_expire_partitions,
    ExchangePartitionPlan: run_exchange_partition,
    MarkDonePlan: run_mark_done,
}


@dataclass(frozen=True)
class Upkeep:
    """The verbs of upkeep: `compact()` does the work, `compact(dry_run=True)` returns its plan.

    `plan_compact` plans and changes nothing; `run` carries out any plan, or refuses it if the table
    has changed. Work runs in this process unless an engine is given.
    """

    table_files: TableFiles

    @overload
    def run(
        self,
        plan: OrphansPlan,
        *,
        quarantine: bool = True,
        looked: Callable[[int], object] | None = None,
    ) -> OrphansResult: ...

    @overload
    def run(
        self, plan: MarkDonePlan, *, then: Callable[[Mapping[str, object]], object] | None = None
    ) -> MarkDoneResult: ...

    @overload
    def run(
        self,
        plan: Plan[ResultT],
        engine: Engine | None = None,
        *,
        verify: str | VerifyLevel = VerifyLevel.CHECKSUMS,
        lease: Lease | None = None,
    ) -> ResultT: ...

    def run(self, plan: Plan[Any], engine: Engine | None = None, **how: Any) -> Any:
        """Carry a plan out.

        A rewrite verifies new files before it publishes them. `verify` is the level: counts,
        checksums, or full, which reads the new files back. With a lease, it rewrites only the part
        that the lease covers until the commit is done. Orphans go to `quarantine`, where they can
        be restored, or are deleted; `looked` is told how many were read. `then` is called for each
        partition that is marked as done.

        Raises:
            InvalidRequestError: the plan is for another table.
            StalePlan: the table has changed since the plan.
            VerificationFailed: new rows differ from the old rows; nothing was committed.
        """
        run = find_run({**_ON_AN_ENGINE, **_HERE}, self.table_files, plan)
        if "verify" in how:
            how["verify"] = verify_level(how["verify"])
        if type(plan) in _ON_AN_ENGINE:
            return run(self.table_files, plan, engine or self._local(), **how)
        return run(self.table_files, plan, **how)

    def plan_compact(
        self,
        partitions: Sequence[Mapping[str, object]] | None = None,
        buckets: Sequence[int] | None = None,
        *,
        full: bool = False,
        min_file_num: int | None = None,
        max_bytes: int | None = None,
    ) -> CompactionPlan:
        """Rewrite due files, or all with `full`, into fewer and larger; see `rewrite.compact`.

        With `max_bytes`, only the buckets that wait longest, up to so many bytes.
        """
        return plan_compact(
            self.table_files,
            partitions=listed_partitions(partitions, "partitions"),
            buckets=list_or_none(buckets, "buckets", whole_number),
            full=full,
            min_file_num=min_file_num,
            max_bytes=max_bytes,
        )

    compact = AtOnce(plan_compact)

    def plan_sort_compact(
        self,
        by: Sequence[str],
        *,
        order: str = "order",
        partitions: Sequence[Mapping[str, object]] | None = None,
    ) -> SortCompactionPlan:
        """Sort the rows of an append table by columns, in their order or along a curve.

        `order` is order, zorder or hilbert; see `rewrite.sort_compact`.

        Raises:
            InvalidRequestError: the table or a column cannot be sorted.
        """
        return plan_sort_compact(
            self.table_files,
            by=by,
            order=sort_order(order),
            partitions=listed_partitions(partitions, "partitions"),
        )

    sort_compact = AtOnce(plan_sort_compact)

    def plan_postpone_compact(
        self, partitions: Sequence[Mapping[str, object]] | None = None
    ) -> PostponePlan:
        """Assign buckets to postponed rows, so that readers see them; see `rewrite.postpone`."""
        return plan_postpone_compact(
            self.table_files, partitions=listed_partitions(partitions, "partitions")
        )

    postpone_compact = AtOnce(plan_postpone_compact)

    def plan_rescale(
        self, bucket_count: int, partitions: Sequence[Mapping[str, object]] | None = None
    ) -> RescalePlan:
        """Change the bucket count of the table or of some partitions; see `rewrite.rescale`.

        Reopen the table afterwards if the plan changes its option.
        """
        return plan_rescale(
            self.table_files, bucket_count, partitions=listed_partitions(partitions, "partitions")
        )

    rescale = AtOnce(plan_rescale)

    def plan_rewrite_manifests(self, *, min_count: int = 1) -> RewriteManifestsPlan:
        """Rewrite manifests into few, sorted by partition; see `rewrite.rewrite_manifests`."""
        return plan_rewrite_manifests(self.table_files, min_count=min_count)

    rewrite_manifests = AtOnce(plan_rewrite_manifests)

    def plan_respec(  # noqa: PLR0913 - `add` and `drop` stand for `keys`
        self,
        keys: Sequence[str] | None = None,
        partitions: Sequence[Mapping[str, object]] | None = None,
        *,
        add: Sequence[str] = (),
        drop: Sequence[str] = (),
        most_partitions: int = MOST_PARTITIONS,
        most_files: int = MOST_FILES,
        moved_from: str | None = None,
        primary_key: Sequence[str] | None = None,
        late_rows_win: bool = False,
        keep_staged: bool = False,
        engine: Engine | None = None,
    ) -> RespecPlan:
        """Change the partition keys of the table; see `respec.respec`.

        Give all `keys` in their order, or those to `drop`, and to `add` at the end. With
        `partitions`, only split the files of these, which a later change then restates. Reopen
        the table afterwards. With `moved_from` and the present keys, name the files of a table that
        was moved or copied from there where they lie now. With `primary_key`, columns that become
        partition keys join the primary key.
        """
        return plan_respec(
            self.table_files,
            wanted_keys(self.table_files, keys, add=add, drop=drop),
            partitions=listed_partitions(partitions, "partitions"),
            most_partitions=most_partitions,
            most_files=most_files,
            moved_from=moved_from,
            primary_key=primary_key,
            late_rows_win=late_rows_win,
            keep_staged=keep_staged,
            engine=engine,
        )

    respec = AtOnce(plan_respec)

    def plan_expire_snapshots(
        self,
        *,
        retain_min: int | None = None,
        retain_max: int | None = None,
        time_retained_ms: int | None = None,
        max_deletes: int | None = None,
    ) -> ExpirePlan:
        """Expire due snapshots in one step; see `retention.expire_snapshots`.

        `expire_in_steps` expires a whole backlog.
        """
        return plan_expire_snapshots(
            self.table_files,
            retain_min=retain_min,
            retain_max=retain_max,
            time_retained_ms=time_retained_ms,
            max_deletes=max_deletes,
        )

    expire_snapshots = AtOnce(plan_expire_snapshots)

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

    def plan_expire_tags(
        self, *, older_than_ms: int | None = None, spare: Sequence[str] = ()
    ) -> DeleteTagsPlan:
        """Delete expired tags; see `retention.expire_tags`."""
        return plan_expire_tags(
            self.table_files, older_than_ms=older_than_ms, spare=listed_names(spare, "spare")
        )

    expire_tags = AtOnce(plan_expire_tags)

    def plan_expire_changelogs(
        self,
        *,
        every: bool = False,
        retain_min: int | None = None,
        retain_max: int | None = None,
        time_retained_ms: int | None = None,
    ) -> ExpireChangelogsPlan:
        """Delete expired long-lived changelogs, or all with `every`."""
        return plan_expire_changelogs(
            self.table_files,
            every=every,
            retain_min=retain_min,
            retain_max=retain_max,
            time_retained_ms=time_retained_ms,
        )

    expire_changelogs = AtOnce(plan_expire_changelogs)

    def plan_remove_orphans(
        self,
        *,
        older_than_ms: int | None = None,
        age_ms: int | None = None,
        even_recent: bool = False,
        inventory: str | None = None,
        max_files: int | None = None,
        looked: Callable[[int], object] | None = None,
    ) -> OrphansPlan:
        """Move unreferenced files to quarantine; see `retention.remove_orphans.OrphanSearch`."""
        search = OrphanSearch(
            older_than_ms=older_than_ms,
            age_ms=age_ms,
            even_recent=even_recent,
            inventory=inventory,
            looked=looked,
        )
        return plan_remove_orphans(self.table_files, search, max_files=max_files)

    remove_orphans = AtOnce(plan_remove_orphans)

    def orphan_steps(
        self, search: OrphanSearch, *, max_files: int
    ) -> Generator[OrphansPlan, None, None]:
        """Plans of one listing, to be run one by one; see `retention.remove_orphans`."""
        return orphan_steps(self.table_files, search, max_files=max_files)

    def each_quarantine(self) -> Iterator[Quarantine]:
        """The quarantines, oldest first; memory holds one."""
        return each_quarantine(self.table_files)

    def quarantines(self) -> tuple[Quarantine, ...]:
        """The quarantines, oldest first."""
        return list_quarantines(self.table_files)

    def plan_restore(
        self, quarantine_id: str, *, paths: Collection[str] | None = None
    ) -> RestorePlan:
        """Restore files from a quarantine; see `retention.restore_files`."""
        return plan_restore(
            self.table_files, quarantine_id, paths=list_or_none(paths, "paths", text_argument)
        )

    restore = AtOnce(plan_restore)

    def plan_purge(
        self,
        *,
        ttl_ms: int | None = None,
        quarantine_ids: Collection[str] = (),
        max_files: int | None = None,
    ) -> PurgePlan:
        """Delete quarantines whose retention is over; see `retention.purge_quarantine`."""
        return plan_purge(
            self.table_files,
            ttl_ms=ttl_ms,
            quarantine_ids=listed_names(quarantine_ids, "quarantine_ids"),
            max_files=max_files,
        )

    purge = AtOnce(plan_purge)

    def plan_analyze(self, *, columns: Sequence[str] | None = None) -> AnalyzePlan:
        """Compute statistics of the rows and publish them; see `inspection.analyze`."""
        return plan_analyze(
            self.table_files, columns=list_or_none(columns, "columns", text_argument)
        )

    analyze = AtOnce(plan_analyze)

    def plan_validate_rows(
        self, *, files_per_version: int = 2, rows_per_file: int = 1000
    ) -> ValidateRowsPlan:
        """Read some rows of each schema version under the current schema; nothing is written.

        See `schema.validate_rows`.
        """
        return plan_validate_rows(
            self.table_files, files_per_version=files_per_version, rows_per_file=rows_per_file
        )

    validate_rows = AtOnce(plan_validate_rows)

    # --- whole partitions -----------------------------------------------------------------------

    def plan_drop_partitions(
        self,
        where: Where | None = None,
        *,
        partitions: Sequence[Mapping[str, object]] | None = None,
        if_exists: bool = False,
    ) -> DropPartitionsPlan:
        """Drop partitions, by a filter or by values of keys; see `partitions.drop_partitions`."""
        return plan_drop_partitions(
            self.table_files,
            where=predicate_of(where, self.table_files.schema),
            partitions=listed_partitions(partitions, "partitions"),
            if_exists=if_exists,
        )

    drop_partitions = AtOnce(plan_drop_partitions)

    def plan_expire_partitions(
        self,
        *,
        older_than_ms: int | None = None,
        strategy: str | None = None,
        pattern: str | None = None,
        formatter: str | None = None,
        max_partitions: int | None = None,
        spare_tagged: bool = False,
    ) -> ExpirePartitionsPlan:
        """Drop partitions past their time; see `partitions.expire_partitions`.

        What is not given, the table's options give (`partition.expiration-time` and its like).
        """
        return plan_expire_partitions(
            self.table_files,
            older_than_ms=older_than_ms,
            strategy=strategy,
            pattern=pattern,
            formatter=formatter,
            max_partitions=max_partitions,
            spare_tagged=spare_tagged,
        )

    expire_partitions = AtOnce(plan_expire_partitions)

    def plan_rename_partition(
        self, partition: Mapping[str, object], to: Mapping[str, object]
    ) -> RenamePartitionPlan:
        """Give the rows of a partition other values of its keys; see `rename_partition`."""
        return plan_rename_partition(self.table_files, partition, to)

    rename_partition = AtOnce(plan_rename_partition)

    def plan_exchange_partition(
        self, source: str, partitions: Sequence[Mapping[str, object]]
    ) -> ExchangePartitionPlan:
        """Move partitions of another table to this one; see `partitions.exchange_partition`."""
        return plan_exchange_partition(
            self.table_files, source, list_argument(partitions, "partitions", mapping_argument)
        )

    exchange_partition = AtOnce(plan_exchange_partition)

    def plan_mark_done(
        self,
        where: Where | None = None,
        *,
        partitions: Sequence[Mapping[str, object]] | None = None,
    ) -> MarkDonePlan:
        """Mark partitions as done; see `partitions.mark_done`. `run` takes `then=`, a callable."""
        where = predicate_of(where, self.table_files.schema)
        return plan_mark_done(
            self.table_files, where=where, partitions=listed_partitions(partitions, "partitions")
        )

    mark_done = AtOnce(plan_mark_done)

    def plan_add_partitions(
        self,
        folder: str,
        *,
        partition: Mapping[str, object] | None = None,
        keys: Sequence[str] | None = None,
        copy: bool = False,
        into_existing: bool = False,
        age_ms: int | None = None,
    ) -> AddPartitionsPlan:
        """Take over folders of files that other systems wrote; see `partitions.add_partitions`.

        Reopen the table afterwards if the plan allows it a new path.
        """
        return plan_add_partitions(
            self.table_files,
            folder,
            partition=partition,
            keys=list_or_none(keys, "keys", text_argument),
            copy=copy,
            into_existing=into_existing,
            age_ms=age_ms,
        )

    add_partitions = AtOnce(plan_add_partitions)

    def plan_repair_partitions(
        self,
        folder: str | None = None,
        *,
        partition: Mapping[str, object] | None = None,
        keys: Sequence[str] | None = None,
        mode: str | RepairMode = RepairMode.ADD,
        age_ms: int | None = None,
    ) -> RepairPlan:
        """Compare the table with the folders it took over; see `partitions.repair_partitions`.

        The plan shows all drift; `mode`, add, drop or sync, says what a run changes.
        """
        return plan_repair_partitions(
            self.table_files,
            folder,
            partition=partition,
            keys=list_or_none(keys, "keys", text_argument),
            mode=mode,
            age_ms=age_ms,
        )

    repair_partitions = AtOnce(plan_repair_partitions)

    # --- helpers of writers, leases -------------------------------------------------------------

    def compact_written(
        self,
        partitions: Sequence[Mapping[str, object]],
        engine_for: Callable[[RewritePlan[Any]], Engine] | None = None,
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
            list_argument(partitions, "partitions", mapping_argument),
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

    def _local(self) -> LocalEngine:
        return LocalEngine(env=self.table_files.env)
