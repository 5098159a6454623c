"""Upkeep: the verbs that keep a table healthy, each planned and then carried out."""

from __future__ import annotations

from collections.abc import Callable, Generator, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, overload

from lakewright.storage.files.table_files import TableFiles
from lakewright.storage.merging import Action, On, merge_statement
from lakewright.storage.named_errors import names_errors
from lakewright.storage.operations.inspection.analyze import plan_analyze, run_analyze
from lakewright.storage.operations.leases.leases import break_lease, list_leases
from lakewright.storage.operations.partitions.add_partitions import (
    plan_add_partitions,
    run_add_partitions,
)
from lakewright.storage.operations.partitions.drop_partitions import (
    DropPartitionsPlan,
    plan_drop_partitions,
    run_drop_partitions,
)
from lakewright.storage.operations.partitions.exchange_partition import (
    plan_exchange_partition,
    run_exchange_partition,
)
from lakewright.storage.operations.partitions.expire_partitions import (
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
    plan_rename_partition,
    run_rename_partition,
)
from lakewright.storage.operations.partitions.repair_partitions import (
    plan_repair_partitions,
    run_repair_partitions,
)
from lakewright.storage.operations.references.collect import (
    CondemnedRun,
    condemned_runs,
    condemned_snapshots,
    plan_collect,
    run_collect,
)
from lakewright.storage.operations.references.put_back import plan_put_back, run_put_back
from lakewright.storage.operations.respec.add_primary_key import (
    plan_add_primary_key,
    run_add_primary_key,
)
from lakewright.storage.operations.respec.respec import plan_respec, run_respec
from lakewright.storage.operations.retention.expire_backlog import ExpireStep, expire_in_steps
from lakewright.storage.operations.retention.expire_changelogs import (
    plan_expire_changelogs,
    run_expire_changelogs,
)
from lakewright.storage.operations.retention.expire_snapshots import (
    plan_expire_snapshots,
    run_expire_snapshots,
)
from lakewright.storage.operations.retention.expire_tags import plan_expire_tags, run_expire_tags
from lakewright.storage.operations.retention.remove_orphans import (
    USUAL_GRACE_MS,
    OrphanSearch,
    OrphansPlan,
    orphan_steps,
    plan_remove_orphans,
    run_remove_orphans,
)
from lakewright.storage.operations.rewrite.compact import plan_compact, run_compact
from lakewright.storage.operations.rewrite.compact_written import (
    WriterCompaction,
    check_writer_may_compact,
    compact_written,
)
from lakewright.storage.operations.rewrite.postpone import (
    plan_postpone_compact,
    run_postpone_compact,
)
from lakewright.storage.operations.rewrite.rescale import plan_rescale, run_rescale
from lakewright.storage.operations.rewrite.rewrite_manifests import (
    plan_rewrite_manifests,
    run_rewrite_manifests,
)
from lakewright.storage.operations.rewrite.settle import plan_settle, run_settle
from lakewright.storage.operations.rewrite.sort_compact import (
    plan_sort_compact,
    run_sort_compact,
)
from lakewright.storage.operations.row_changes.delete_rows import (
    DeleteRowsPlan,
    plan_delete_rows,
    run_delete_rows,
)
from lakewright.storage.operations.row_changes.expressions import Assignments
from lakewright.storage.operations.row_changes.merge_rows import (
    MergeRowsPlan,
    plan_merge_rows,
    run_merge_rows,
)
from lakewright.storage.operations.row_changes.statement import RowChangeResult
from lakewright.storage.operations.row_changes.update_rows import (
    UpdateRowsPlan,
    plan_update_rows,
    run_update_rows,
)
from lakewright.storage.operations.running.engine import Engine, engine_or_local
from lakewright.storage.operations.running.plan import Plan, ResultT, RewritePlan, find_run
from lakewright.storage.operations.schema.validate_rows import (
    plan_validate_rows,
    run_validate_rows,
)
from lakewright.storage.operations.write.verify import VerifyLevel, verify_level
from lakewright.storage.rows import LocalRows, Where, filter_text, predicate_of
from lakewright.storage.spec.arguments import (
    list_argument,
    listed_partitions,
    mapping_argument,
)
from lakewright.storage.spec.lease import Lease
from lakewright.storage.spec.snapshot import Snapshot
from lakewright.storage.verb import Verb, runs_of, takes_engine


def _plan_delete_rows(
    files: TableFiles, where: Where | None = None, *, engine: Engine | None = None
) -> DeleteRowsPlan:
    """Delete the rows for which a filter is true, or all; see `row_changes.delete_rows`."""
    predicate = predicate_of(where, files.schema)
    text = filter_text(where, files.schema)
    return plan_delete_rows(files, predicate, text, engine_or_local(engine, files.env))


def _run_delete_rows(files: TableFiles, plan: DeleteRowsPlan, engine: Engine) -> RowChangeResult:
    return run_delete_rows(files, plan, predicate_of(plan.where, files.schema), engine)


def _plan_update_rows(
    files: TableFiles,
    values: Mapping[str, object],
    where: Where | None = None,
    *,
    engine: Engine | None = None,
) -> UpdateRowsPlan:
    """Give the rows for which a filter is true, or all, new values; see `row_changes.update_rows`.

    A value that is a text is an expression of SQL over the columns; others are constants.
    """
    predicate = predicate_of(where, files.schema)
    text = filter_text(where, files.schema)
    assignments = Assignments.of(values, files)
    engine = engine_or_local(engine, files.env)
    return plan_update_rows(files, assignments, predicate, text, engine)


def _run_update_rows(files: TableFiles, plan: UpdateRowsPlan, engine: Engine) -> RowChangeResult:
    return run_update_rows(files, plan, predicate_of(plan.where, files.schema), engine)


def _plan_merge_rows(
    files: TableFiles,
    rows: LocalRows,
    *,
    on: On,
    when_matched: Action | None = None,
    when_not_matched: Action | None = None,
    when_not_matched_by_source: Action | None = None,
    counts: bool = True,
) -> MergeRowsPlan:
    """Change rows by those of a source; see `Table.merge`, and `row_changes.merge_rows`."""
    statement = merge_statement(
        files,
        rows,
        on=on,
        when_matched=when_matched,
        when_not_matched=when_not_matched,
        when_not_matched_by_source=when_not_matched_by_source,
    )
    return plan_merge_rows(files, statement, counts=counts)


def _plan_remove_orphans(
    files: TableFiles,
    *,
    older_than_ms: int | None = None,
    age_ms: int | None = None,
    even_recent: bool = False,
    inventory: str | None = None,
    max_files: int | None = None,
    looked: Callable[[int], object] | None = None,
    grace_ms: int = USUAL_GRACE_MS,
) -> OrphansPlan:
    """Condemn unreferenced files; see `retention.remove_orphans.OrphanSearch`."""
    search = OrphanSearch(
        older_than_ms=older_than_ms,
        age_ms=age_ms,
        even_recent=even_recent,
        inventory=inventory,
        looked=looked,
        grace_ms=grace_ms,
    )
    return plan_remove_orphans(files, search, max_files=max_files)


def _plan_drop_partitions(
    files: TableFiles,
    where: Where | None = None,
    *,
    partitions: Sequence[Mapping[str, object]] | None = None,
    if_exists: bool = False,
) -> DropPartitionsPlan:
    """Drop partitions, by a filter or by values of keys; see `partitions.drop_partitions`."""
    return plan_drop_partitions(
        files,
        where=predicate_of(where, files.schema),
        partitions=listed_partitions(partitions, "partitions"),
        if_exists=if_exists,
    )


def _plan_mark_done(
    files: TableFiles,
    where: Where | None = None,
    *,
    partitions: Sequence[Mapping[str, object]] | None = None,
) -> MarkDonePlan:
    """Mark partitions as done; see `partitions.mark_done`. `run` takes `then=`, a callable."""
    return plan_mark_done(
        files,
        where=predicate_of(where, files.schema),
        partitions=listed_partitions(partitions, "partitions"),
    )


@names_errors
@dataclass(frozen=True)
class Upkeep:
    """The verbs of upkeep: `compact()` does the work, `compact(dry_run=True)` returns its plan.

    `plan_compact` plans and changes nothing; `run` carries out any plan, or refuses it if the table
    has changed. Work runs in this process unless an engine is given. What a verb takes stands in
    the room of its planning function.
    """

    table_files: TableFiles

    compact = Verb(plan_compact, run_compact)
    plan_compact = compact.planning()
    sort_compact = Verb(plan_sort_compact, run_sort_compact)
    plan_sort_compact = sort_compact.planning()
    postpone_compact = Verb(plan_postpone_compact, run_postpone_compact)
    plan_postpone_compact = postpone_compact.planning()
    rescale = Verb(plan_rescale, run_rescale)
    plan_rescale = rescale.planning()
    rewrite_manifests = Verb(plan_rewrite_manifests, run_rewrite_manifests)
    plan_rewrite_manifests = rewrite_manifests.planning()
    analyze = Verb(plan_analyze, run_analyze)
    plan_analyze = analyze.planning()
    validate_rows = Verb(plan_validate_rows, run_validate_rows)
    plan_validate_rows = validate_rows.planning()
    respec = Verb(plan_respec, run_respec)
    plan_respec = respec.planning()
    settle = Verb(plan_settle, run_settle)
    plan_settle = settle.planning()
    add_primary_key = Verb(plan_add_primary_key, run_add_primary_key)
    plan_add_primary_key = add_primary_key.planning()
    expire_snapshots = Verb(plan_expire_snapshots, run_expire_snapshots)
    plan_expire_snapshots = expire_snapshots.planning()
    expire_tags = Verb(plan_expire_tags, run_expire_tags)
    plan_expire_tags = expire_tags.planning()
    expire_changelogs = Verb(plan_expire_changelogs, run_expire_changelogs)
    plan_expire_changelogs = expire_changelogs.planning()
    remove_orphans = Verb(_plan_remove_orphans, run_remove_orphans)
    plan_remove_orphans = remove_orphans.planning()
    collect = Verb(plan_collect, run_collect)
    plan_collect = collect.planning()
    put_back = Verb(plan_put_back, run_put_back)
    plan_put_back = put_back.planning()
    drop_partitions = Verb(_plan_drop_partitions, run_drop_partitions)
    plan_drop_partitions = drop_partitions.planning()
    expire_partitions = Verb(plan_expire_partitions, run_expire_partitions)
    plan_expire_partitions = expire_partitions.planning()
    rename_partition = Verb(plan_rename_partition, run_rename_partition)
    plan_rename_partition = rename_partition.planning()
    exchange_partition = Verb(plan_exchange_partition, run_exchange_partition)
    plan_exchange_partition = exchange_partition.planning()
    mark_done = Verb(_plan_mark_done, run_mark_done)
    plan_mark_done = mark_done.planning()
    add_partitions = Verb(plan_add_partitions, run_add_partitions)
    plan_add_partitions = add_partitions.planning()
    repair_partitions = Verb(plan_repair_partitions, run_repair_partitions)
    plan_repair_partitions = repair_partitions.planning()
    delete_rows = Verb(_plan_delete_rows, _run_delete_rows)
    plan_delete_rows = delete_rows.planning()
    update_rows = Verb(_plan_update_rows, _run_update_rows)
    plan_update_rows = update_rows.planning()
    merge_rows = Verb(_plan_merge_rows, run_merge_rows)
    plan_merge_rows = merge_rows.planning()

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
        that the lease covers until the commit is done. `then` is called for each partition that is
        marked as done.

        Raises:
            InvalidRequestError: the plan is for another table.
            StalePlan: the table has changed since the plan.
            VerificationFailed: new rows differ from the old rows; nothing was committed.
        """
        files = self.table_files
        run = find_run(runs_of(Upkeep), files, plan)
        if "verify" in how:
            how["verify"] = verify_level(how["verify"])
        if takes_engine(run):
            return run(files, plan, engine_or_local(engine, files.env), **how)
        return run(files, plan, **how)

    def expire_in_steps(
        self,
        *,
        retain_min: int | None = None,
        retain_max: int | None = None,
        time_retained_ms: int | None = None,
        max_deletes: int | None = None,
        max_duration_ms: int | None = None,
        grace_ms: int = 0,
    ) -> Iterator[ExpireStep]:
        """Expire all due snapshots, step by step; see `retention.expire_backlog`."""
        return expire_in_steps(
            self.table_files,
            retain_min=retain_min,
            retain_max=retain_max,
            time_retained_ms=time_retained_ms,
            max_deletes=max_deletes,
            max_duration_ms=max_duration_ms,
            grace_ms=grace_ms,
        )

    def orphan_steps(
        self, search: OrphanSearch, *, max_files: int
    ) -> Generator[OrphansPlan, None, None]:
        """Plans of one listing, to be run one by one; see `retention.remove_orphans`."""
        return orphan_steps(self.table_files, search, max_files=max_files)

    def condemned(self) -> tuple[CondemnedRun, ...]:
        """What waits to be deleted, oldest first, and until when it can be put back."""
        return condemned_runs(self.table_files)

    def condemned_snapshots(self, record: str) -> tuple[Snapshot, ...]:
        """The snapshots that a verb deleted and whose record waits, oldest first."""
        return condemned_snapshots(self.table_files, record)

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
            engine_for or (lambda _: engine_or_local(None, self.table_files.env)),
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
