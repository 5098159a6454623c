"""Table: a facade over the verbs; it only delegates."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Literal, overload

import pyarrow as pa

from lakewright.storage.errors import InvalidRequestError
from lakewright.storage.inspection import Inspection
from lakewright.storage.named_errors import names_errors
from lakewright.storage.operations.changes.change_plan import incremental_mode
from lakewright.storage.operations.changes.change_read import ChangeReader
from lakewright.storage.operations.changes.incremental import Bound, plan_incremental
from lakewright.storage.operations.commit.commit import commit_write
from lakewright.storage.operations.commit.commit_loop import find_committed
from lakewright.storage.operations.commit.pending import (
    abort_pending,
    commit_or_abort,
    commit_pending,
    keep_pending,
    pending_batches,
)
from lakewright.storage.operations.references.tags import tag_what_is_due
from lakewright.storage.operations.rewrite.compact_written import (
    WriteResult,
    check_writer_may_compact,
)
from lakewright.storage.operations.running.engine import Engine, engine_or_local
from lakewright.storage.operations.running.plan import check_table
from lakewright.storage.operations.running.work_name import working_on
from lakewright.storage.operations.state.branch_files import FIRST_SCHEMA_ID
from lakewright.storage.operations.state.time_travel import Time, choose_snapshot, time_ms
from lakewright.storage.operations.write.write import StagingJob, prepare_write, stage_rows
from lakewright.storage.rows import LocalRows, Rows, Where, arrow_tables, is_dataframe, predicate_of
from lakewright.storage.scan import ChangeScan, Scan, scan_staged
from lakewright.storage.spec.bucketing import distribution_of
from lakewright.storage.spec.commit import CommitResult, OnDuplicate, StagedWrite, WriteMode
from lakewright.storage.spec.options import TableOptions
from lakewright.storage.spec.schema_change import SchemaChange
from lakewright.storage.spec.schema_gate import GateRules
from lakewright.storage.spec.shown import html_table
from lakewright.storage.spec.snapshot import Snapshot
from lakewright.storage.spec.table_distribution import TableDistribution
from lakewright.storage.table_at import Readable, TableAt

# Verbs are imported by those who call them: most programs that open a table read or write it.
if TYPE_CHECKING:
    from lakewright.storage.history import History
    from lakewright.storage.merging import Action, On
    from lakewright.storage.operations.row_changes.delete_rows import DeleteRowsPlan
    from lakewright.storage.operations.row_changes.merge_rows import MergeRowsPlan
    from lakewright.storage.operations.row_changes.statement import RowChangeResult
    from lakewright.storage.operations.row_changes.update_rows import UpdateRowsPlan
    from lakewright.storage.operations.schema.alter import AlterPlan, AlterResult
    from lakewright.storage.operations.streams.change_stream import Position
    from lakewright.storage.operations.streams.follow import Followed
    from lakewright.storage.spark import DataFrame, SparkSession, StreamingQuery
    from lakewright.storage.upkeep import Upkeep


@names_errors
@dataclass(frozen=True, repr=False)
class Table(Readable):
    """A table with the schema it had when it was opened."""

    @property
    def location(self) -> str:
        return self.table_files.fs.uri(self.table_files.paths.root)

    @property
    def uuid(self) -> str:
        """The id of the table; a table that is dropped and created again has a new id."""
        schemas, first = self.table_files.schemas, self.schema
        if first.id != FIRST_SCHEMA_ID:
            first = schemas.read(schemas.ids()[0])
        return f"{self.name}.{first.time_millis}"

    @property
    def options(self) -> TableOptions:
        return self.table_files.options

    @property
    def distribution(self) -> TableDistribution | None:
        """How rows are distributed over buckets; None where the store's default holds.

        The default is one bucket for a table with a primary key, and none for others.
        """
        return distribution_of(self.schema)

    def refresh(self) -> Table:
        """The table with its latest schema, after a verb or another client changed it."""
        files = self.table_files.refreshed()
        return self if files is self.table_files else replace(self, table_files=files)

    def for_run(self, run: str) -> Table:
        """The table as a run works on it: the users of its commits begin with the run's name."""
        return replace(self, table_files=replace(self.table_files, run=run))

    def find_committed(self, commit_user: str, commit_identifier: int) -> Snapshot | None:
        """The snapshot that an earlier attempt of the same commit made, if any."""
        return find_committed(self.table_files, commit_user, commit_identifier)

    def __repr__(self) -> str:
        columns = ", ".join(f"{field.name} {field.type}" for field in self.schema.fields)
        keys = {"partitioned by": self.schema.partition_keys, "key": self.schema.primary_keys}
        layout = "".join(f"; {what} {', '.join(names)}" for what, names in keys.items() if names)
        return f"<Table {self.name}: {columns}{layout}; {self.location}>"

    def _repr_html_(self) -> str:
        fields, schema = self.schema.fields, self.schema
        rows = [
            (
                field.name,
                field.type,
                "yes" if field.name in schema.primary_keys else "",
                "yes" if field.name in schema.partition_keys else "",
                field.description or "",
            )
            for field in fields
        ]
        shown = html_table(
            ("column", "type", "key", "partition", "comment"),
            rows,
            caption=f"{self.name}, {self.location}",
        )
        return shown + html_table(("option", "value"), sorted(schema.options.items()))

    # --- schema ---------------------------------------------------------------------------------

    def alter(self, *changes: SchemaChange, rules: GateRules | None = None) -> Table:
        """Change the schema, by all changes at once; returns the table with its new schema.

        Only one schema file is written. This table keeps the schema that it was opened with. The
        gate judges the changes by `rules`.

        Raises:
            InvalidSchema: a column or type does not exist, exists already, or does not fit.
            ColumnInUse: a key, an option or an older partitioning uses a column.
            InvalidOption: an option cannot change, or its value is invalid.
            SchemaDenied: the change breaks values, readers or users; the message has all findings.
            SchemaMoved: another client changed the schema since the table was opened.
        """
        result = self.run_alter(self.plan_alter(*changes, rules=rules))
        return replace(self, table_files=replace(self.table_files, schema=result.schema))

    def distribute(
        self, distribution: TableDistribution | None, engine: Engine | None = None
    ) -> Table:
        """Distribute rows over buckets as asked, or with None by the default; returns the table.

        Rows that are there move to their new buckets. Other bucket keys are for tables whose rows
        lie in one bucket, in every snapshot and tag that is kept.

        Raises:
            InvalidSchema: a bucket key is no stored column, or not in the primary key.
            UnsupportedError: Paimon tables have no such distribution, or the rows that are there
                cannot change to it.
            SchemaMoved: another client changed the schema since the table was opened.
            CommitConflictError: other clients wrote at the same time.
        """
        from lakewright.storage.operations.schema.distribute import (  # noqa: PLC0415  # a verb
            distribute,
        )

        files = self.table_files
        with working_on("distribute", self.name):
            schema = distribute(files, distribution, engine_or_local(engine, files.env))
        return replace(self, table_files=replace(files, schema=schema))

    def plan_alter(
        self,
        *changes: SchemaChange,
        rules: GateRules | None = None,
        engine: Engine | None = None,
    ) -> AlterPlan:
        """What the changes would change and break; writes nothing.

        The plan has the verdict and all findings, those of refused changes too. `engine` reads
        values if the rules ask for a scan.

        Raises:
            SchemaMoved: another client changed the schema since the table was opened.
        """
        from lakewright.storage.operations.schema.alter import plan_alter  # noqa: PLC0415  # a verb

        with working_on("plan alter", self.name):
            return plan_alter(self.table_files, changes, rules, engine)

    def run_alter(self, plan: AlterPlan, engine: Engine | None = None) -> AlterResult:
        """Carry out a plan of `plan_alter`; see `alter`. `engine` reads values if it has a scan."""
        from lakewright.storage.operations.schema.alter import run_alter  # noqa: PLC0415  # a verb

        check_table(plan, self.table_files)
        with working_on("alter", self.name):
            return run_alter(self.table_files, plan, engine)

    # --- writing --------------------------------------------------------------------------------

    def stage(
        self,
        rows: Rows,
        *,
        mode: str = "append",
        partition: Mapping[str, object] | None = None,
        dynamic: bool | None = None,
        grouped: bool | None = None,
        commit_user: str | None = None,
        commit_identifier: int | None = None,
        on_duplicate: str = OnDuplicate.MERGE.value,
    ) -> StagedWrite:
        """Write rows that no reader sees yet; call `commit` or `abort` next.

        `rows` are Arrow (a table, a batch, a reader), a DataFrame of pandas or Spark, dicts, or an
        iterable of these, which is read once and never collected. `mode` is append (upsert on
        primary-key tables) or overwrite. `partition` fixes partition columns, which rows may then
        leave out. A column `_rowkind` may hold the kind of each row ('+I', '-U', '+U', '-D'). With
        `grouped`, the rows of a partition follow each other, so that one partition is open at a
        time; Spark sorts its rows so unless `grouped` is False. Of rows with the same primary key
        the one with the greatest `sequence.field` wins, else the last one that comes, which the
        rows of a DataFrame leave open; `on_duplicate="refuse"` refuses them.

        Raises:
            InvalidRequestError: mode, partition or rows do not fit; all files are deleted.
            UnsupportedError: the table has an option that is not implemented.
        """
        job = self.prepare_write(
            mode=mode,
            partition=partition,
            dynamic=dynamic,
            grouped=is_dataframe(rows) if grouped is None else grouped,
            commit_user=commit_user,
            commit_identifier=commit_identifier,
            on_duplicate=on_duplicate,
        )
        if is_dataframe(rows):
            from lakewright.storage.spark.write import stage_dataframe

            return stage_dataframe(job, rows)
        return stage_rows(job, arrow_tables(rows, self.schema.fields))

    def prepare_write(
        self,
        *,
        mode: str,
        partition: Mapping[str, object] | None = None,
        dynamic: bool | None = None,
        grouped: bool = False,
        commit_user: str | None = None,
        commit_identifier: int | None = None,
        on_duplicate: str = OnDuplicate.MERGE.value,
    ) -> StagingJob:
        """A job with which an engine's tasks stage their shares of the rows.

        With `grouped`, the rows of a partition follow each other in the share of a task.
        """
        return prepare_write(
            self.table_files,
            mode=write_mode(mode),
            partition=partition,
            dynamic=dynamic,
            grouped=grouped,
            commit_user=commit_user,
            commit_identifier=commit_identifier,
            on_duplicate=duplicates_choice(on_duplicate),
        )

    def read_staged(self, staged: StagedWrite, *, columns: Sequence[str] | None = None) -> pa.Table:
        """Rows of a staged write as the table would hold them, without deletions."""
        return self.scan_staged(staged, columns=columns).read()

    def scan_staged(self, staged: StagedWrite, *, columns: Sequence[str] | None = None) -> Scan:
        """The files of a staged write, for reading as Arrow or in Spark."""
        return scan_staged(self.table_files, staged, columns)

    def commit(self, staged: StagedWrite) -> CommitResult:
        """Publish a staged write once; a second call finds the first commit.

        Raises:
            CommitConflictError: a concurrent change of the table conflicts with the rows.
            CommitOutcomeUnknownError: the store failed while the snapshot was created.
        """
        result = commit_write(self.table_files, staged)
        tag_what_is_due(self.table_files)
        return result

    def abort(self, staged: StagedWrite) -> int:
        """Delete the files of an uncommitted staged write; returns how many existed."""
        return abort_pending(self.table_files, staged)

    def keep_pending(self, staged: StagedWrite) -> StagedWrite:
        """Keep a staged batch beside the table until its commit; returns the kept batch.

        The batch outlives this process; `pending_batches` lists it. If a batch with the same user
        and identifier exists, that batch is kept and the files of the new one are deleted.

        Raises:
            InvalidRequestError: the batch was staged without a `commit_identifier`.
        """
        return keep_pending(self.table_files, staged)

    def pending_batches(self, commit_user: str | None = None) -> tuple[StagedWrite, ...]:
        """All kept and uncommitted batches, by user and identifier."""
        return pending_batches(self.table_files, commit_user)

    def commit_pending(
        self, commit_user: str, *, up_to: int | None = None
    ) -> tuple[CommitResult, ...]:
        """Publish a user's kept batches once, in order: all, or up to an identifier.

        Raises:
            CommitConflictError: a batch conflicts with the table. Batches before it are published;
                this batch and later ones stay kept, for `abort`.
            CommitOutcomeUnknownError: the store failed during a commit; call again.
        """
        results = commit_pending(self.table_files, commit_user, up_to=up_to)
        tag_what_is_due(self.table_files)
        return results

    def write(  # noqa: PLR0913  # each is a choice of its own
        self,
        rows: Rows,
        *,
        mode: str = "append",
        partition: Mapping[str, object] | None = None,
        dynamic: bool | None = None,
        grouped: bool | None = None,
        commit_user: str | None = None,
        commit_identifier: int | None = None,
        on_duplicate: str = OnDuplicate.MERGE.value,
        compact: bool = False,
    ) -> WriteResult:
        """Stage and commit; a failed commit deletes the staged files.

        The staged files stay only if the snapshot may exist after a failure of the store. With
        `compact`, the writer also compacts the written partitions if that is due. A failure of that
        compaction does not affect the published rows.

        Raises:
            InvalidRequestError: `compact` is given, and option `write-only` forbids it.
        """
        if compact:
            check_writer_may_compact(self.table_files)
        once = replace(self, table_files=self.table_files.reading_once())
        staged = once.stage(
            rows,
            mode=mode,
            partition=partition,
            dynamic=dynamic,
            grouped=grouped,
            commit_user=commit_user,
            commit_identifier=commit_identifier,
            on_duplicate=on_duplicate,
        )
        result = commit_or_abort(once.table_files, staged)
        touched = [dict(each.spec) for each in staged.partitions]
        return WriteResult(
            snapshot=result.snapshot,
            attempts=result.attempts,
            already_committed=result.already_committed,
            compaction=self.upkeep.compact_written(touched) if compact else None,
            writer=staged.writer,
        )

    # --- rows that change -----------------------------------------------------------------------

    @overload
    def delete(self, where: Where, *, dry_run: Literal[True]) -> DeleteRowsPlan: ...

    @overload
    def delete(
        self, where: Where, *, dry_run: Literal[False] = False, engine: Engine | None = None
    ) -> RowChangeResult: ...

    def delete(
        self, where: Where, *, dry_run: bool = False, engine: Engine | None = None
    ) -> DeleteRowsPlan | RowChangeResult:
        """Delete the rows for which a filter is true, in one snapshot.

        Append tables lose them by deletion vectors if the table has these, else the files with a
        match are written again. Primary-key tables get rows of the kind -D. With `dry_run` the
        result is the plan. `engine` runs the tasks elsewhere, as `SparkEngine` does.

        Raises:
            UnsupportedError: the merge engine cannot delete rows.
            CommitConflictError: others changed the same rows in each of five attempts.
        """
        plan = self.upkeep.plan_delete_rows(where, engine=engine)
        return plan if dry_run else self.upkeep.run(plan, engine)

    @overload
    def update(
        self, values: Mapping[str, object], where: Where | None = None, *, dry_run: Literal[True]
    ) -> UpdateRowsPlan: ...

    @overload
    def update(
        self,
        values: Mapping[str, object],
        where: Where | None = None,
        *,
        dry_run: Literal[False] = False,
        engine: Engine | None = None,
    ) -> RowChangeResult: ...

    def update(
        self,
        values: Mapping[str, object],
        where: Where | None = None,
        *,
        dry_run: bool = False,
        engine: Engine | None = None,
    ) -> UpdateRowsPlan | RowChangeResult:
        """Give the rows for which a filter is true, or all, new values, in one snapshot.

        A value that is a text is an expression of DuckDB's SQL over the columns of the row, such as
        `{"price": "round(price * 1.1, 2)", "note": "'sale'"}`; others are constants. The result is
        judged as that of `INSERT … SELECT` is: what does not fit exactly is refused.

        Raises:
            InvalidRequestError: an expression is wrong, or a primary key would change.
            InvalidRows: a value does not fit its column; nothing is written.
            UnsupportedError: the merge engine does not take new values in place of old ones.
            CommitConflictError: others changed the same rows in each of five attempts.
        """
        plan = self.upkeep.plan_update_rows(values, where, engine=engine)
        return plan if dry_run else self.upkeep.run(plan, engine)

    @overload
    def merge(
        self,
        rows: LocalRows,
        *,
        on: On,
        when_matched: Action | None = None,
        when_not_matched: Action | None = None,
        when_not_matched_by_source: Action | None = None,
        dry_run: Literal[True],
    ) -> MergeRowsPlan: ...

    @overload
    def merge(
        self,
        rows: LocalRows,
        *,
        on: On,
        when_matched: Action | None = None,
        when_not_matched: Action | None = None,
        when_not_matched_by_source: Action | None = None,
        dry_run: Literal[False] = False,
    ) -> RowChangeResult: ...

    def merge(
        self,
        rows: LocalRows,
        *,
        on: On,
        when_matched: Action | None = None,
        when_not_matched: Action | None = None,
        when_not_matched_by_source: Action | None = None,
        dry_run: bool = False,
    ) -> MergeRowsPlan | RowChangeResult:
        """Change rows of the table by those of a source that match, in one snapshot.

        `on` is a column of both, several, or columns of the table by those of the source. An action
        is "update", "insert" (all columns of the source by name), "delete", or expressions by
        column, in which `t` is the table and `s` the source. A list of pairs of a condition and an
        action gives several: `[("s.gone", "delete"), (None, "update")]`. The source is held in
        memory.

        Raises:
            InvalidRequestError: an action or an expression is wrong.
            InvalidRows: a row of the table matches several of the source, or a value does not fit.
            UnsupportedError: the merge engine does not carry out an action.
            CommitConflictError: others changed rows in each of five attempts.
        """
        plan = self.upkeep.plan_merge_rows(
            rows,
            on=on,
            when_matched=when_matched,
            when_not_matched=when_not_matched,
            when_not_matched_by_source=when_not_matched_by_source,
            counts=dry_run,
        )
        return plan if dry_run else self.upkeep.run(plan)

    def write_stream(
        self,
        rows: DataFrame,
        *,
        checkpoint: str,
        partition: Mapping[str, object] | None = None,
        trigger: str | None = None,
        output: str = "append",
        name: str | None = None,
    ) -> StreamingQuery:
        """Start a query of Spark that commits each batch of a streaming DataFrame once.

        `partition` fixes columns, or makes them of a time by `EventTime` or `ProcessingTime`; then
        partitions that are over are marked as done. `trigger` is an interval such as "10 seconds",
        or "available-now", to end when all that is there is written. `output` is append, update
        (upserts), or complete, which replaces the table or the fixed partition.

        Raises:
            InvalidRequestError: the rows are no stream, or rows, partition and table do not fit.
            UnsupportedError: the table is in memory, or the session is one of Spark Connect.
        """
        from lakewright.storage.spark.streaming import start_stream  # needs Spark

        return start_stream(
            self.table_files,
            rows,
            checkpoint=checkpoint,
            partition=partition,
            trigger=trigger,
            output=output,
            name=name,
        )

    # --- reading --------------------------------------------------------------------------------

    def at(
        self,
        *,
        snapshot: int | None = None,
        tag: str | None = None,
        time: Time | None = None,
        watermark: Time | None = None,
        version: str | None = None,
    ) -> TableAt:
        """The table at one snapshot, the latest by default.

        `time` chooses the last snapshot not later than it. `watermark` chooses the first snapshot
        whose watermark has reached it. `version` is a tag's name, `watermark-` and a number, or a
        snapshot's id. An earlier state has the schema of its time. Later commits are not visible.

        Raises:
            InvalidRequestError: more than one choice is given.
            SnapshotNotFound: the snapshot does not exist, or history does not reach that far back.
            TagNotFound: the tag does not exist.
        """
        found = choose_snapshot(
            self.table_files,
            snapshot_id=snapshot,
            tag=tag,
            as_of_ms=None if time is None else time_ms(time),
            watermark_ms=None if watermark is None else time_ms(watermark),
            version=version,
        )
        is_latest = (snapshot, tag, time, watermark, version) == (None,) * 5
        files = self.table_files
        if found is not None and not is_latest:
            files = files.at_schema(found.schema_id)
        return TableAt(files, found, is_latest)

    def scan(self, where: Where | None = None, columns: Sequence[str] | None = None) -> Scan:
        """Plan a read of the latest snapshot; see `TableAt.scan`."""
        return self.at().scan(where, columns)

    def lookup(self, keys: LocalRows, *, columns: Sequence[str] | None = None) -> pa.Table:
        """Look up single keys without reading the whole table; see `read.lookup`."""
        return self.at().lookup(keys, columns=columns)

    def scan_changes(
        self,
        start: Bound,
        end: Bound,
        *,
        mode: str = "auto",
        where: Where | None = None,
        columns: Sequence[str] | None = None,
    ) -> ChangeScan:
        """Files with the changes after `start`, up to and including `end`.

        Bounds are two snapshot ids, two tag names or two times. `mode` is delta (rows that appends
        added), changelog (rows of changelog files), diff (the two states compared) or auto: diff
        between tags, else changelog if the table writes changelogs, else delta.

        Raises:
            InvalidRequestError: the bounds are reversed or differ in kind.
            SnapshotNotFound: the snapshot does not exist or expired.
            TagNotFound: the tag does not exist.
        """
        predicate = predicate_of(where, self.schema)
        plan = plan_incremental(
            self.table_files, start, end, mode=incremental_mode(mode), predicate=predicate
        )
        reader = ChangeReader(
            self.table_files, columns=columns, predicate=predicate, snapshot_ids=plan.snapshot_ids
        )
        return ChangeScan(plan, reader)

    def read_changes(
        self,
        start: Bound,
        end: Bound,
        *,
        mode: str = "auto",
        where: Where | None = None,
        columns: Sequence[str] | None = None,
        limit: int | None = None,
    ) -> pa.Table:
        """Rows that changed, with their kinds in the first column `_rowkind`."""
        return self.scan_changes(start, end, mode=mode, where=where, columns=columns).read(limit)

    def read_stream(
        self,
        spark: SparkSession,
        *,
        after: int | None = None,
        consumer: str | None = None,
        columns: Sequence[str] | None = None,
    ) -> DataFrame:
        """The rows and then their changes as a streaming DataFrame, with kinds in `_rowkind`.

        `after` leaves out what the table held at that snapshot. `consumer` names a position that
        keeps snapshots until a batch with them is done, and from which a new stream goes on; a
        stream that has not ended its first batch begins again.

        Raises:
            InvalidRequestError: `after` is beyond the latest snapshot, or the changes after it,
                which a new consumer would keep, have expired.
            UnsupportedError: executors cannot reach the table, or a column has no Spark type.
        """
        from lakewright.storage.spark.stream_source import stream_changes

        return stream_changes(
            spark, self.table_files, after=after, consumer=consumer, columns=columns
        )

    def follow(
        self,
        *,
        after: int | None = None,
        consumer: str | None = None,
        columns: Sequence[str] | None = None,
        position: Position | None = None,
        available_now: bool = False,
    ) -> Iterator[Followed]:
        """The rows and then their changes, as Arrow with kinds in `_rowkind`, without an end.

        It waits where nothing new is there; with `available_now` it ends. `after` and `consumer`
        are those of `read_stream`; `position` is that of an earlier answer, behind which it goes
        on. A consumer moves when the next answer is asked for: then the rows before are safe.

        Raises:
            StalePlan: the table was rolled back behind the position, or made anew.
            SnapshotNotFound: a snapshot that is needed expired.
        """
        from lakewright.storage.operations.streams.change_stream import open_stream  # noqa: PLC0415
        from lakewright.storage.operations.streams.follow import followed  # noqa: PLC0415

        stream = open_stream(self.table_files, after=after, consumer=consumer, columns=columns)
        return followed(stream, position, available_now=available_now)

    # --- the other faces ------------------------------------------------------------------------

    @property
    def upkeep(self) -> Upkeep:
        """Compaction, expiry and the other verbs of upkeep."""
        from lakewright.storage.upkeep import Upkeep  # noqa: PLC0415  # verbs

        return Upkeep(self.table_files)

    @property
    def history(self) -> History:
        """Snapshots, tags, branches, rollback, consumers, changelogs."""
        from lakewright.storage.history import History  # noqa: PLC0415  # verbs

        return History(self)

    @property
    def inspect(self) -> Inspection:
        """System tables as Arrow, of the latest snapshot."""
        return self.at().inspect


def duplicates_choice(named: str) -> OnDuplicate:
    """What a caller wants of rows with the same key.

    Raises:
        InvalidRequestError: there is no such choice.
    """
    try:
        return OnDuplicate(named)
    except ValueError:
        raise InvalidRequestError(f"on_duplicate {named!r} is not one of merge, refuse") from None


def write_mode(mode: str) -> WriteMode:
    """The mode that a caller names.

    Raises:
        InvalidRequestError: the mode does not exist.
    """
    if mode == "upsert":
        return WriteMode.APPEND
    try:
        return WriteMode(mode)
    except ValueError:
        raise InvalidRequestError(
            f"write mode {mode!r} is not one of append, upsert, overwrite"
        ) from None
