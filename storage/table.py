"""Table: one façade over the verbs; it delegates and decides nothing."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from typing import TYPE_CHECKING

import pyarrow as pa

from lakewright.storage.codec.arrow_types import to_arrow_schema
from lakewright.storage.errors import (
    CommitOutcomeUnknownError,
    InvalidRequestError,
    StorageError,
)
from lakewright.storage.files.table_files import TableFiles
from lakewright.storage.history import History
from lakewright.storage.inspection import Inspection
from lakewright.storage.operations.changes.change_plan import incremental_mode
from lakewright.storage.operations.changes.change_read import ChangeReader
from lakewright.storage.operations.changes.incremental import Bound, plan_incremental
from lakewright.storage.operations.commit.commit import commit_write
from lakewright.storage.operations.commit.commit_loop import find_committed
from lakewright.storage.operations.commit.pending import (
    abort_pending,
    commit_pending,
    keep_pending,
    pending_batches,
)
from lakewright.storage.operations.references.tags import (
    tag_what_is_due,
)
from lakewright.storage.operations.rewrite.compact_written import (
    WriteResult,
    check_writer_may_compact,
)
from lakewright.storage.operations.state.time_travel import Time, choose_snapshot, time_ms
from lakewright.storage.operations.write.write import StagingJob, prepare_write, stage_rows
from lakewright.storage.rows import ArrowRows, Rows, Where, arrow_tables, is_dataframe, predicate_of
from lakewright.storage.scan import ChangeScan, Scan, scan_staged
from lakewright.storage.spec.commit import CommitResult, StagedWrite, WriteMode
from lakewright.storage.spec.options import TableOptions
from lakewright.storage.spec.schema import TableSchema
from lakewright.storage.spec.shown import html_table
from lakewright.storage.spec.snapshot import Snapshot
from lakewright.storage.table_at import TableAt
from lakewright.storage.upkeep import Upkeep

if TYPE_CHECKING:
    from lakewright.storage.spark import DataFrame, SparkSession


@dataclass(frozen=True, repr=False)
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

    def find_committed(self, commit_user: str, commit_identifier: int) -> Snapshot | None:
        """What an earlier try of the same commit made, if it did."""
        return find_committed(self.files, commit_user, commit_identifier)

    def __repr__(self) -> str:
        columns = ", ".join(f"{each.name} {each.type}" for each in self.schema.fields)
        keys = {"partitioned by": self.schema.partition_keys, "key": self.schema.primary_keys}
        layout = "".join(f"; {what} {', '.join(names)}" for what, names in keys.items() if names)
        return f"<Table {self.name}: {columns}{layout}; {self.location}>"

    def _repr_html_(self) -> str:
        fields, schema = self.schema.fields, self.schema
        rows = [
            (
                each.name,
                each.type,
                "yes" if each.name in schema.primary_keys else "",
                "yes" if each.name in schema.partition_keys else "",
                each.description or "",
            )
            for each in fields
        ]
        shown = html_table(
            ("column", "type", "key", "partition", "comment"),
            rows,
            caption=f"{self.name}, {self.location}",
        )
        return shown + html_table(("option", "value"), sorted(schema.options.items()))

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
        if is_dataframe(rows):
            from lakewright.storage.spark.write import stage_dataframe

            return stage_dataframe(job, rows)
        return stage_rows(job, arrow_tables(rows))

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
        return self.scan_staged(staged, columns=columns).read()

    def scan_staged(self, staged: StagedWrite, *, columns: Sequence[str] | None = None) -> Scan:
        """The files of a staged write, to be read as Arrow or in Spark."""
        return scan_staged(self.files, staged, columns)

    def commit(self, staged: StagedWrite) -> CommitResult:
        """Publish a staged write, once: committing it again finds the first commit.

        Raises:
            CommitConflictError: the table changed so that the rows do not fit any more.
            CommitOutcomeUnknownError: the store failed at the decisive moment.
        """
        result = commit_write(self.files, staged)
        tag_what_is_due(self.files)
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
        tag_what_is_due(self.files)
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
            compaction=self.upkeep.compact_written(touched) if compact else None,
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
        """The table as it is at one snapshot, the latest unless one is named.

        `time` means the last snapshot that is not after it, `watermark` the first whose watermark
        has reached it. `version` is a tag's name, `watermark-` and a number, or a snapshot's id.
        An earlier state has the schema of its time. What is committed later is not seen.

        Raises:
            InvalidRequestError: more than one of them is given.
            SnapshotNotFound: there is no such snapshot, or none that old any more.
            TagNotFound: there is no such tag.
        """
        found = choose_snapshot(
            self.files,
            snapshot_id=snapshot,
            tag=tag,
            as_of_ms=None if time is None else time_ms(time),
            watermark_ms=None if watermark is None else time_ms(watermark),
            version=version,
        )
        is_latest = (snapshot, tag, time, watermark, version) == (None,) * 5
        files = self.files
        if found is not None and not is_latest:
            files = files.at_schema(found.schema_id)
        return TableAt(files, found, is_latest)

    def scan(self, where: Where | None = None, columns: Sequence[str] | None = None) -> Scan:
        """The files that a read of the latest snapshot touches; see `TableAt.scan`."""
        return self.at().scan(where, columns)

    def read(
        self,
        where: Where | None = None,
        columns: Sequence[str] | None = None,
        *,
        limit: int | None = None,
    ) -> pa.Table:
        """Rows of the latest snapshot in memory, in no promised order.

        `where` is text (`"dt = '2024-01-01' AND amount > 10"`) or a filter made of such.

        Raises:
            InvalidPredicate: `where` is no filter of the table's columns.
            UnsupportedError: the table has an option that is not implemented.
        """
        return self.at().read(where, columns, limit=limit)

    def to_spark(
        self,
        spark: SparkSession,
        where: Where | None = None,
        columns: Sequence[str] | None = None,
    ) -> DataFrame:
        """Rows of the latest snapshot as a DataFrame; see `TableAt.to_spark`."""
        return self.at().to_spark(spark, where, columns)

    def lookup(self, keys: ArrowRows, *, columns: Sequence[str] | None = None) -> pa.Table:
        """Rows of single keys, found without reading the table; see `read.lookup`."""
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
        """Files with the changes after `start` up to and with `end`.

        Bounds are two snapshot ids, two tag names or two times. `mode` is delta (rows that
        appends added), changelog (rows of changelog files), diff (the two states compared)
        or auto: between tags diff, else changelog where the table writes one, else delta.

        Raises:
            InvalidRequestError: the bounds are the wrong way round or of two kinds.
            SnapshotNotFound: there is no such snapshot, or not any more.
            TagNotFound: there is no such tag.
        """
        predicate = predicate_of(where, self.schema)
        plan = plan_incremental(
            self.files, start, end, mode=incremental_mode(mode), predicate=predicate
        )
        reader = ChangeReader(
            self.files, columns=columns, predicate=predicate, snapshot_ids=plan.snapshot_ids
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
        """Rows that changed, each with what was done to its key first, in `_rowkind`."""
        return self.scan_changes(start, end, mode=mode, where=where, columns=columns).read(limit)

    # --- the other faces ------------------------------------------------------------------------

    @property
    def upkeep(self) -> Upkeep:
        """Compaction, expiry and what else keeps the table healthy."""
        return Upkeep(self.files)

    @property
    def history(self) -> History:
        """Snapshots, tags, branches, rollback, consumers, changelogs."""
        return History(self)

    @property
    def inspect(self) -> Inspection:
        """System tables as Arrow, of the latest snapshot."""
        return self.at().inspect


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
