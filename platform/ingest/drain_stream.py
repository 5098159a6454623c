"""Draining: a run takes what is new in a stream, commits it batch by batch, and ends.

1. Open the stream: the files of a folder, the changes of a table, or a connector. The table says
   what was read before, or Spark's checkpoint.
2. Make batches of what is there now: of a connector in this process, unless the declaration says
   Spark, and of the others in Spark. Each is staged; the expectations are asked; only then it is
   committed. A batch that fails is not committed, and nothing is read beyond it: the next run
   repeats it.
3. Each batch is reported as soon as it is committed. One that an earlier run committed, and did
   not report, is reported and not written.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from typing import Any

from lakewright.connectors.external_tables import ExternalTables
from lakewright.connectors.managed_stream import StreamedTable, TableStream
from lakewright.connectors.planning.plan_sink import PlannedSink
from lakewright.connectors.stream import run_stream
from lakewright.platform.ingest.connector_source import columns_not_read, planned_stream
from lakewright.platform.ingest.expectations import (
    SAMPLE_ROWS,
    ExpectationOutcome,
    ValidationReport,
)
from lakewright.platform.ingest.judge_staged import StagedJudge
from lakewright.platform.ingest.publication import Published, Rejected, totals_of
from lakewright.platform.ingest.stream_files import stream_file_reader
from lakewright.platform.tables.declarations import TableDeclaration
from lakewright.platform.tables.schema_drift import Writing, check_other_columns
from lakewright.platform.tables.source_declarations import SourceDeclaration
from lakewright.platform.tables.source_variables import values_hidden, with_source_variables
from lakewright.platform.tables.stream_declarations import StreamDeclaration
from lakewright.platform.tables.upkeep_policies import EngineChoice
from lakewright.storage import Catalog, StagedWrite, Table
from lakewright.storage.env import Env, SystemEnv
from lakewright.storage.errors import InvalidRequestError, InvalidRows, StorageError
from lakewright.storage.operations.streams.batches import Watch
from lakewright.storage.operations.streams.partition_times import divided_keys
from lakewright.storage.spec.extra_columns import ExtraColumns
from lakewright.storage.spec.missing_columns import MissingColumns
from lakewright.storage.spec.partition_clock import EventTime
from lakewright.storage.spec.stream import CommittedBatch

_AVAILABLE_NOW = "available-now"
# About so many rows of a connector are one commit: they pass, and are not kept in memory.
_MOST_ROWS = 1_000_000
_NO_ROWS = ValidationReport(outcomes=(), row_count=0, engine="none", duration_ms=0)


@dataclass(kw_only=True)
class StreamDrain:
    """The run of one declared stream, and the batches that it has committed so far.

    `tell` is called with each batch, of Spark's in a thread of its own.
    """

    declaration: TableDeclaration
    table: Table
    session: Callable[[], Any]
    find_table: Callable[[str], Table]
    catalog: Catalog
    tell: Callable[[CommittedBatch], None]
    env: Env = field(default_factory=SystemEnv)
    batches: list[CommittedBatch] = field(default_factory=list)
    report: ValidationReport = _NO_ROWS
    rejected: Rejected | None = None
    # Columns that a connector's table has and the declaration lacks.
    columns_not_read: tuple[str, ...] = ()
    _started_ms: int = 0
    _judged: dict[int, ValidationReport] = field(default_factory=dict)

    @property
    def row_count(self) -> int:
        return sum(batch.row_count for batch in self.batches)

    @property
    def published(self) -> Published:
        """What was committed so far, in the time since the run began."""
        return Published(
            partitions=totals_of(
                partition for batch in self.batches for partition in batch.partitions
            ),
            report=self.report,
            snapshot=self.batches[-1].snapshot if self.batches else None,
            commits=len(self.batches),
            engine="spark" if is_drained_in_spark(self.declaration) else "local",
            duration_ms=self.env.now_ms() - self._started_ms,
        )

    def run(self) -> Published | Rejected:
        """Commit what is new; `Rejected` is the batch at which the stream stands.

        Raises:
            StorageError: a batch does not fit the table, or cannot be committed.
        """
        self._started_ms = self._started_ms or self.env.now_ms()
        here, values = with_source_variables(self.declaration)
        stream = here.stream
        assert stream is not None and here.source is not None
        with values_hidden(values):
            try:
                if is_drained_in_spark(self.declaration):
                    self._drain_in_spark(here.source, stream)
                else:
                    self._drain_here(stream)
            except InvalidRows:
                if self.rejected is None:
                    raise
                return self.rejected
            except StorageError:
                raise
            except Exception as error:
                error.add_note(
                    f"while the stream into {self.table.name} was read; the batch was not "
                    "committed, those before it are, and the next run repeats it"
                )
                raise
        return self.published

    def _drain_here(self, stream: StreamDeclaration) -> None:
        scan = planned_stream(self.declaration, self.catalog, stream)
        self.columns_not_read = columns_not_read(self.declaration, scan)
        fixed, clock = divided_keys(self.table.table_files, stream.partition_of_rows)
        watch = Watch(check_rows=self._check_rows, tell=self._told)
        runtime = TableStream(self.table, fixed=fixed, clock=clock, watch=watch)
        sink = PlannedSink(
            table=ExternalTables(self.catalog).managed_context(self.table.name).table,
            sink=StreamedTable(runtime),
            fields=scan.given.fields,
            mode=scan.mode,
        )
        for _ in run_stream(
            scan,
            sink,
            self.env,
            checkpoint=stream.checkpoint or checkpoint_of(self.table),
            max_rows=stream.rows_per_batch or _MOST_ROWS,
            available_now=True,
        ):
            pass

    def _drain_in_spark(self, source: SourceDeclaration, stream: StreamDeclaration) -> None:
        from lakewright.storage.spark.file_stream import file_stream
        from lakewright.storage.spark.streaming import run_stream as run_in_spark

        partition = stream.partition_of_rows
        if stream.table is not None:
            ignores = source.extra_columns is ExtraColumns.IGNORE
            refuses = source.missing_columns is MissingColumns.REFUSE
            rows = self._changes(stream, partition, ignores=ignores, refuses=refuses)
        elif stream.connector is not None:
            from lakewright.connectors.on_spark import read_stream_frame  # noqa: PLC0415

            planned = planned_stream(self.declaration, self.catalog, stream)
            self.columns_not_read = columns_not_read(self.declaration, planned)
            rows = read_stream_frame(
                self.session(),
                planned,
                max_rows=stream.rows_per_batch,
                ordered=self.table.schema.is_keyed,
            )
        else:
            ((_, folder),) = stream.files.items()
            units = self.declaration.units
            reader = stream_file_reader(self.table, source.of_files, partition, units)
            rows = file_stream(
                self.session(),
                folder,
                reader,
                reader.fields,
                ordered=self.table.schema.is_keyed,
                files_at_once=stream.files_per_batch,
            )
        run_in_spark(
            self.table.table_files,
            rows,
            checkpoint=stream.checkpoint or default_checkpoint(self.table),
            partition=partition,
            trigger=_AVAILABLE_NOW,
            watch=Watch(check_rows=self._check_rows, tell=self._told),
        )

    def _changes(
        self,
        stream: StreamDeclaration,
        partition: Mapping[str, object],
        *,
        ignores: bool,
        refuses: bool,
    ) -> Any:
        """The changes of the other table, without the columns that `partition` makes."""
        assert stream.table is not None
        source = self.find_table(stream.table)
        times = {each.column for each in partition.values() if isinstance(each, EventTime)}
        wanted = {*self.table.schema.field_names, *times}
        given = [name for name in source.schema.field_names if name not in partition]
        others = [name for name in given if name not in wanted]
        if others and not ignores:
            raise InvalidRequestError(
                f"{stream.table} has columns that {self.table.name} lacks: {', '.join(others)}; "
                "nothing was read; declare them, or write extra_columns: ignore in the source"
            )
        declared = [
            column.name for column in self.declaration.columns if column.name not in partition
        ]
        missing = [name for name in declared if name not in given]
        if missing and refuses:
            raise InvalidRequestError(
                f"{stream.table} lacks column {', '.join(missing)} of {self.table.name}, and "
                "missing_columns: refuse is declared; nothing was read"
            )
        return source.read_stream(
            self.session(),
            consumer=stream.consumer,
            after=stream.after,
            columns=[name for name in given if name in wanted],
        )

    def _check_rows(self, staged: StagedWrite) -> None:
        """Check staged rows before their commit; a batch that is not met ends the run."""
        declaration = self.declaration
        if not staged.messages:
            return
        check_other_columns(declaration, self.table, Writing(kind=declaration.write_kind))
        if not declaration.expectations:
            return
        engine = declaration.write.engine
        judge = StagedJudge(self.table, self.session, self.find_table, self.env, engine)
        report = judge.report([staged], declaration.expectations)
        if report.blocking:
            self.rejected = Rejected(
                report=report,
                partitions=totals_of(staged.partitions),
                duration_ms=report.duration_ms,
            )
            raise InvalidRows(
                f"batch {staged.commit_identifier} has failing rows, by the expectations of "
                f"{self.table.name}"
            )
        self._judged[staged.commit_identifier] = report

    def _told(self, batch: CommittedBatch) -> None:
        self.batches.append(batch)
        report = self._judged.pop(batch.number, None)
        # A batch that an earlier run committed was judged by it.
        if report is not None:
            self.report = merged(self.report, report)
        self.tell(batch)


def is_drained_in_spark(declaration: TableDeclaration) -> bool:
    """Whether Spark reads the rows of a stream, and stages them."""
    stream = declaration.stream
    by_connector = stream is not None and stream.connector is not None
    return not by_connector or declaration.write.engine is EngineChoice.SPARK


def checkpoint_of(table: Table) -> str:
    """Where a stream into a table is kept track of: below the table, and dropped with it."""
    return table.table_files.fs.uri(table.table_files.paths.checkpoint)


def default_checkpoint(table: Table) -> str:
    """The same as Spark's clients take it."""
    place = checkpoint_of(table)
    # They know the store by this name only.
    return f"s3a{place.removeprefix('s3')}" if place.startswith("s3://") else place


def merged(before: ValidationReport, after: ValidationReport) -> ValidationReport:
    """The results for the rows of several batches, each of which was judged by itself."""
    earlier = {outcome.check_name: outcome for outcome in before.outcomes}
    outcomes = [
        _merged(earlier[outcome.check_name], outcome) if outcome.check_name in earlier else outcome
        for outcome in after.outcomes
    ]
    return ValidationReport(
        outcomes=tuple(outcomes),
        row_count=before.row_count + after.row_count,
        engine=after.engine,
        duration_ms=before.duration_ms + after.duration_ms,
    )


def _merged(before: ExpectationOutcome, after: ExpectationOutcome) -> ExpectationOutcome:
    by_partition = Counter(before.unexpected_by_partition) + Counter(after.unexpected_by_partition)
    return replace(
        after,
        met=before.met and after.met,
        checked_count=_sum(before.checked_count, after.checked_count),
        unexpected_count=_sum(before.unexpected_count, after.unexpected_count),
        # The observed value is that of the failing batch.
        observed=after.observed if before.met else before.observed,
        unexpected_by_partition=dict(sorted(by_partition.items())),
        sample=(*before.sample, *after.sample)[:SAMPLE_ROWS],
        error=before.error or after.error,
    )


def _sum(one: int | None, other: int | None) -> int | None:
    return None if one is None or other is None else one + other
