"""Upkeep: the verbs that keep a table healthy, each planned and then carried out."""

from __future__ import annotations

from collections.abc import Callable, Generator, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from lakewright.storage.files.table_files import TableFiles
from lakewright.storage.merging import Action, On, merge_statement
from lakewright.storage.named_errors import names_errors
from lakewright.storage.operations.iceberg.publish_iceberg import (
    PublishIcebergOptions,
    plan_publish_iceberg,
    run_publish_iceberg,
)
from lakewright.storage.operations.inspection.analyze import (
    AnalyzeOptions,
    plan_analyze,
    run_analyze,
)
from lakewright.storage.operations.leases.leases import break_lease, list_leases
from lakewright.storage.operations.partitions.add_partitions import (
    AddPartitionsOptions,
    plan_add_partitions,
    run_add_partitions,
)
from lakewright.storage.operations.partitions.drop_partitions import (
    DropPartitionsPlan,
    plan_drop_partitions,
    run_drop_partitions,
)
from lakewright.storage.operations.partitions.exchange_partition import (
    ExchangePartitionOptions,
    plan_exchange_partition,
    run_exchange_partition,
)
from lakewright.storage.operations.partitions.expire_partitions import (
    ExpirePartitionsOptions,
    plan_expire_partitions,
    run_expire_partitions,
)
from lakewright.storage.operations.partitions.mark_done import (
    MarkDonePlan,
    plan_mark_done,
    run_mark_done,
)
from lakewright.storage.operations.partitions.rename_partition import (
    RenamePartitionOptions,
    plan_rename_partition,
    run_rename_partition,
)
from lakewright.storage.operations.partitions.repair_partitions import (
    RepairOptions,
    plan_repair_partitions,
    run_repair_partitions,
)
from lakewright.storage.operations.references.collect import (
    CollectOptions,
    CondemnedRun,
    condemned_runs,
    condemned_snapshots,
    plan_collect,
    run_collect,
)
from lakewright.storage.operations.references.put_back import (
    PutBackOptions,
    plan_put_back,
    run_put_back,
)
from lakewright.storage.operations.respec.add_primary_key import (
    AddPrimaryKeyOptions,
    plan_add_primary_key,
    run_add_primary_key,
)
from lakewright.storage.operations.respec.respec import RespecOptions, plan_respec, run_respec
from lakewright.storage.operations.retention.expire_backlog import ExpireStep, expire_in_steps
from lakewright.storage.operations.retention.expire_changelogs import (
    ExpireChangelogsOptions,
    plan_expire_changelogs,
    run_expire_changelogs,
)
from lakewright.storage.operations.retention.expire_snapshots import (
    ExpireSnapshotsOptions,
    plan_expire_snapshots,
    run_expire_snapshots,
)
from lakewright.storage.operations.retention.expire_tags import (
    ExpireTagsOptions,
    plan_expire_tags,
    run_expire_tags,
)
from lakewright.storage.operations.retention.remove_orphans import (
    Looked,
    OrphansOptions,
    OrphansPlan,
    orphan_steps,
    plan_remove_orphans,
    run_remove_orphans,
)
from lakewright.storage.operations.rewrite.compact import CompactOptions, plan_compact, run_compact
from lakewright.storage.operations.rewrite.compact_written import (
    WriterCompaction,
    check_writer_may_compact,
    compact_written,
)
from lakewright.storage.operations.rewrite.postpone import (
    PostponeOptions,
    plan_postpone_compact,
    run_postpone_compact,
)
from lakewright.storage.operations.rewrite.rescale import RescaleOptions, plan_rescale, run_rescale
from lakewright.storage.operations.rewrite.rewrite_manifests import (
    RewriteManifestsOptions,
    plan_rewrite_manifests,
    run_rewrite_manifests,
)
from lakewright.storage.operations.rewrite.settle import SettleOptions, plan_settle, run_settle
from lakewright.storage.operations.rewrite.sort_compact import (
    SortCompactOptions,
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
from lakewright.storage.operations.running.effects import Effect
from lakewright.storage.operations.running.engine import Engine, engine_or_local
from lakewright.storage.operations.running.plan import Plan, ResultT, RewritePlan
from lakewright.storage.operations.running.verb_options import (
    ASSIGNMENTS,
    FLAG,
    PARTITIONS,
    WHERE,
    Partitions,
    option,
)
from lakewright.storage.operations.schema.validate_rows import (
    ValidateRowsOptions,
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
from lakewright.storage.verb import Verb, verb_of


@dataclass(frozen=True)
class DropPartitionsOptions:
    """Which partitions go."""

    where: Where | None = option(WHERE, None, "Drop the partitions whose keys match this filter.")
    partitions: Partitions | None = option(
        PARTITIONS, None, "Partitions to drop, by all or some of their columns."
    )
    if_exists: bool = option(FLAG, default=False, text="Do not fail if there is no such partition.")


def _plan_drop_partitions(files: TableFiles, options: DropPartitionsOptions) -> DropPartitionsPlan:
    """Drop partitions, by a filter or by values of keys; see `partitions.drop_partitions`."""
    return plan_drop_partitions(
        files,
        where=predicate_of(options.where, files.schema),
        partitions=listed_partitions(options.partitions, "partitions"),
        if_exists=options.if_exists,
    )


@dataclass(frozen=True)
class MarkDoneOptions:
    """Which partitions are done."""

    where: Where | None = option(WHERE, None, "Mark the partitions whose keys match this filter.")
    partitions: Partitions | None = option(
        PARTITIONS, None, "Partitions that are done, by all or some of their columns."
    )


def _plan_mark_done(files: TableFiles, options: MarkDoneOptions) -> MarkDonePlan:
    """Mark partitions as done; see `partitions.mark_done`. `run` takes `then=`, a callable."""
    return plan_mark_done(
        files,
        where=predicate_of(options.where, files.schema),
        partitions=listed_partitions(options.partitions, "partitions"),
    )


@dataclass(frozen=True)
class DeleteRowsOptions:
    """Which rows go: those that match a filter, or all."""

    where: Where | None = option(WHERE, None, "The rows that match this filter.")


def _plan_delete_rows(
    files: TableFiles, options: DeleteRowsOptions, *, engine: Engine | None = None
) -> DeleteRowsPlan:
    """Delete the rows for which a filter is true, or all; see `row_changes.delete_rows`."""
    predicate = predicate_of(options.where, files.schema)
    text = filter_text(options.where, files.schema)
    return plan_delete_rows(files, predicate, text, engine_or_local(engine, files.env))


def _run_delete_rows(files: TableFiles, plan: DeleteRowsPlan, engine: Engine) -> RowChangeResult:
    return run_delete_rows(files, plan, predicate_of(plan.where, files.schema), engine)


@dataclass(frozen=True)
class UpdateRowsOptions:
    """Which rows get which new values: those that match a filter, or all."""

    values: Mapping[str, object] | None = option(
        ASSIGNMENTS,
        None,
        "A column and its new value, an expression of DuckDB's SQL over the row.",
        flag="--set",
    )
    where: Where | None = option(WHERE, None, "The rows that match this filter.")


def _plan_update_rows(
    files: TableFiles, options: UpdateRowsOptions, *, engine: Engine | None = None
) -> UpdateRowsPlan:
    """Give the rows for which a filter is true, or all, new values; see `row_changes.update_rows`.

    A value that is a text is an expression of SQL over the columns; others are constants.
    """
    predicate = predicate_of(options.where, files.schema)
    text = filter_text(options.where, files.schema)
    assignments = Assignments.of(options.values or {}, files)
    engine = engine_or_local(engine, files.env)
    return plan_update_rows(files, assignments, predicate, text, engine)


def _run_update_rows(files: TableFiles, plan: UpdateRowsPlan, engine: Engine) -> RowChangeResult:
    return run_update_rows(files, plan, predicate_of(plan.where, files.schema), engine)


@dataclass(frozen=True)
class MergeRowsOptions:
    """The rows of a source, and what they change; see `Table.merge`."""

    rows: LocalRows
    on: On
    when_matched: Action | None = None
    when_not_matched: Action | None = None
    when_not_matched_by_source: Action | None = None
    counts: bool = True


def _plan_merge_rows(files: TableFiles, options: MergeRowsOptions) -> MergeRowsPlan:
    """Change rows by those of a source; see `Table.merge`, and `row_changes.merge_rows`."""
    statement = merge_statement(
        files,
        options.rows,
        on=options.on,
        when_matched=options.when_matched,
        when_not_matched=options.when_not_matched,
        when_not_matched_by_source=options.when_not_matched_by_source,
    )
    return plan_merge_rows(files, statement, counts=options.counts)


@names_errors
@dataclass(frozen=True)
class Upkeep:
    """The verbs of upkeep: `compact()` does the work, `compact(dry_run=True)` returns its plan.

    `plan_compact` plans and changes nothing; `run` carries out any plan, or refuses it if the table
    has changed. Work runs in this process unless an engine is given. What a verb takes is its class
    of options.
    """

    table_files: TableFiles

    compact = Verb(
        "compact",
        "merge small files into fewer, larger ones",
        CompactOptions,
        plan_compact,
        run_compact,
        effect=Effect.REWRITES,
    )
    plan_compact = compact.planning()
    sort_compact = Verb(
        "sort_compact",
        "sort rows, so that filters skip files",
        SortCompactOptions,
        plan_sort_compact,
        run_sort_compact,
        effect=Effect.REWRITES,
    )
    plan_sort_compact = sort_compact.planning()
    postpone_compact = Verb(
        "postpone_compact",
        "assign postponed rows to buckets",
        PostponeOptions,
        plan_postpone_compact,
        run_postpone_compact,
    )
    plan_postpone_compact = postpone_compact.planning()
    rescale = Verb(
        "rescale",
        "change the number of buckets",
        RescaleOptions,
        plan_rescale,
        run_rescale,
    )
    plan_rescale = rescale.planning()
    rewrite_manifests = Verb(
        "rewrite_manifests",
        "merge manifests, so that plans of reads open fewer",
        RewriteManifestsOptions,
        plan_rewrite_manifests,
        run_rewrite_manifests,
        effect=Effect.REWRITES,
    )
    plan_rewrite_manifests = rewrite_manifests.planning()
    analyze = Verb(
        "analyze",
        "compute and publish statistics of columns",
        AnalyzeOptions,
        plan_analyze,
        run_analyze,
        effect=Effect.ANALYZES,
    )
    plan_analyze = analyze.planning()
    validate_rows = Verb(
        "validate_schema",
        "read samples of old rows under the current schema",
        ValidateRowsOptions,
        plan_validate_rows,
        run_validate_rows,
        effect=Effect.READS,
    )
    plan_validate_rows = validate_rows.planning()
    respec = Verb(
        "respec",
        "change the partition keys of a live table",
        RespecOptions,
        plan_respec,
        run_respec,
        effect=Effect.CHANGES_KEYS,
        not_undone="the partition keys changed with the schema: change them back with another "
        "respec",
    )
    plan_respec = respec.planning()
    settle = Verb(
        "settle",
        "bring files into the folders of changed partition keys",
        SettleOptions,
        plan_settle,
        run_settle,
        effect=Effect.REWRITES,
        not_undone="the table has the same rows and files; only their places are others",
    )
    plan_settle = settle.planning()
    add_primary_key = Verb(
        "add_primary_key",
        "give a table without a primary key one",
        AddPrimaryKeyOptions,
        plan_add_primary_key,
        run_add_primary_key,
        effect=Effect.CHANGES_KEYS,
        not_undone="its files have the key; no verb takes a primary key away: INSERT the rows into "
        "a table without one",
    )
    plan_add_primary_key = add_primary_key.planning()
    expire_snapshots = Verb(
        "expire_snapshots",
        "delete old snapshots, and the files that only they need",
        ExpireSnapshotsOptions,
        plan_expire_snapshots,
        run_expire_snapshots,
        effect=Effect.EXPIRES,
        not_undone="what an expiry deleted was put back since, or is collected",
    )
    plan_expire_snapshots = expire_snapshots.planning()
    expire_tags = Verb(
        "expire_tags",
        "delete tags past their time, and automatic ones beyond their number",
        ExpireTagsOptions,
        plan_expire_tags,
        run_expire_tags,
        effect=Effect.EXPIRES,
        not_undone="what an expiry deleted was put back since, or is collected",
    )
    plan_expire_tags = expire_tags.planning()
    expire_changelogs = Verb(
        "expire_changelogs",
        "delete changelogs beyond the number and the age to retain",
        ExpireChangelogsOptions,
        plan_expire_changelogs,
        run_expire_changelogs,
        effect=Effect.EXPIRES,
        not_undone="what an expiry deleted was put back since, or is collected",
    )
    plan_expire_changelogs = expire_changelogs.planning()
    remove_orphans = Verb(
        "remove_orphans",
        "condemn unreferenced files, to be deleted after a while",
        OrphansOptions,
        plan_remove_orphans,
        run_remove_orphans,
        effect=Effect.REMOVES,
        not_undone="its files were deleted at once, or have been collected or put back since",
    )
    plan_remove_orphans = remove_orphans.planning()
    collect = Verb(
        "collect",
        "delete what is marked for deletion and can no longer be restored",
        CollectOptions,
        plan_collect,
        run_collect,
        effect=Effect.COLLECTS,
        not_undone="what it deletes cannot be restored",
    )
    plan_collect = collect.planning()
    put_back = Verb(
        "put_back",
        "restore what a verb marked for deletion, until it is collected",
        PutBackOptions,
        plan_put_back,
        run_put_back,
        not_undone="what came back can be deleted by the same verb again",
    )
    plan_put_back = put_back.planning()
    publish_iceberg = Verb(
        "publish_iceberg",
        "bring Iceberg metadata up to the table's snapshots",
        PublishIcebergOptions,
        plan_publish_iceberg,
        run_publish_iceberg,
        effect=Effect.PUBLISHES,
        not_undone="Iceberg metadata follows the table: change the table, and publish again",
    )
    plan_publish_iceberg = publish_iceberg.planning()
    drop_partitions = Verb(
        "drop_partitions",
        "drop whole partitions",
        DropPartitionsOptions,
        _plan_drop_partitions,
        run_drop_partitions,
    )
    plan_drop_partitions = drop_partitions.planning()
    expire_partitions = Verb(
        "expire_partitions",
        "drop the partitions that are past their time",
        ExpirePartitionsOptions,
        plan_expire_partitions,
        run_expire_partitions,
        effect=Effect.REWRITES,
    )
    plan_expire_partitions = expire_partitions.planning()
    rename_partition = Verb(
        "rename_partition",
        "give the rows of a partition other values of its keys",
        RenamePartitionOptions,
        plan_rename_partition,
        run_rename_partition,
    )
    plan_rename_partition = rename_partition.planning()
    exchange_partition = Verb(
        "exchange_partition",
        "move partitions of another table to this one",
        ExchangePartitionOptions,
        plan_exchange_partition,
        run_exchange_partition,
    )
    plan_exchange_partition = exchange_partition.planning()
    mark_done = Verb(
        "mark_done",
        "mark partitions as done, by a success file",
        MarkDoneOptions,
        _plan_mark_done,
        run_mark_done,
        not_undone="success files stay: mark the partitions again once they are done",
    )
    plan_mark_done = mark_done.planning()
    add_partitions = Verb(
        "add_partitions",
        "take over folders of files of other systems",
        AddPartitionsOptions,
        plan_add_partitions,
        run_add_partitions,
    )
    plan_add_partitions = add_partitions.planning()
    repair_partitions = Verb(
        "repair_partitions",
        "compare with the folders that were taken over",
        RepairOptions,
        plan_repair_partitions,
        run_repair_partitions,
    )
    plan_repair_partitions = repair_partitions.planning()
    delete_rows = Verb(
        "delete",
        "delete rows that match a filter",
        DeleteRowsOptions,
        _plan_delete_rows,
        _run_delete_rows,
        effect=Effect.WRITES,
    )
    plan_delete_rows = delete_rows.planning()
    update_rows = Verb(
        "update",
        "give rows that match a filter new values",
        UpdateRowsOptions,
        _plan_update_rows,
        _run_update_rows,
        effect=Effect.WRITES,
    )
    plan_update_rows = update_rows.planning()
    merge_rows = Verb(
        "merge",
        "change rows by those of a file that match",
        MergeRowsOptions,
        _plan_merge_rows,
        run_merge_rows,
        effect=Effect.WRITES,
    )
    plan_merge_rows = merge_rows.planning()

    def run(self, plan: Plan[ResultT], engine: Engine | None = None, **how: Any) -> ResultT:
        """Carry a plan out.

        A rewrite verifies new files before it publishes them. `verify` is the level: counts,
        checksums, or full, which reads the new files back. With a `lease`, it rewrites only the
        part that the lease covers until the commit is done. `then` is called for each partition
        that is marked as done.

        Raises:
            InvalidRequestError: the plan is for another table.
            StalePlan: the table has changed since the plan.
            VerificationFailed: new rows differ from the old rows; nothing was committed.
        """
        done: ResultT = verb_of(Upkeep, plan).carry_out(
            self.table_files, plan, engine=engine, **how
        )
        return done

    def expire_in_steps(
        self,
        options: ExpireSnapshotsOptions | None = None,
        *,
        max_duration_ms: int | None = None,
        **retention: Any,
    ) -> Iterator[ExpireStep]:
        """Expire all due snapshots, step by step; see `retention.expire_backlog`.

        `retention` are fields of the options, if these are not given.
        """
        options = options or ExpireSnapshotsOptions(**retention)
        return expire_in_steps(self.table_files, options, max_duration_ms=max_duration_ms)

    def orphan_steps(
        self, options: OrphansOptions, *, looked: Looked = id
    ) -> Generator[OrphansPlan, None, None]:
        """Plans of one listing, to be run one by one; see `retention.remove_orphans`."""
        return orphan_steps(self.table_files, options, looked=looked)

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
        min_files: int | None = None,
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
            min_files=min_files,
            verify=verify_level(verify),
            lease=lease,
        )

    def leases(self) -> tuple[Lease, ...]:
        """The leases on parts of the table; see `leases.leases`."""
        return list_leases(self.table_files)

    def break_lease(self, lease_id: str) -> Lease:
        """Take a lease, named by a prefix of its id, away from its holder."""
        return break_lease(self.table_files, lease_id)
