"""Scan and ChangeScan: the files that a read was planned to touch, and the ways to read them."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

import pyarrow as pa

from lakewright.storage.errors import UnsupportedError
from lakewright.storage.extras import needed_for
from lakewright.storage.files.table_files import TableFiles
from lakewright.storage.named_errors import names_errors
from lakewright.storage.operations.changes.change_plan import ChangePlan
from lakewright.storage.operations.changes.change_read import ChangeReader, collect_changes
from lakewright.storage.operations.read.fallback_read import falls_back
from lakewright.storage.operations.read.read import SplitReader
from lakewright.storage.operations.read.scan import DataSplit, ScanPlan
from lakewright.storage.operations.read.unfit_values import logged
from lakewright.storage.operations.running.concurrency import map_concurrently
from lakewright.storage.operations.running.task_memory import STREAMING, collecting
from lakewright.storage.spec.arguments import whole_or_none
from lakewright.storage.spec.commit import StagedWrite
from lakewright.storage.spec.snapshot import Snapshot
from lakewright.storage.spec.supported_options import Use, check_supported

if TYPE_CHECKING:
    import pandas as pd
    import polars as pl
    from duckdb import DuckDBPyConnection, DuckDBPyRelation

    from lakewright.storage.spark import DataFrame, SparkSession


@names_errors
@dataclass(frozen=True)
class Scan:
    """Rows of one state of a table: planned, and read as often as asked.

    The files are fixed; what is committed later is not seen. `reader` reads single splits of the
    plan, in any process.
    """

    table_files: TableFiles
    plan: ScanPlan
    reader: SplitReader

    @property
    def snapshot(self) -> Snapshot | None:
        return self.plan.snapshot

    @property
    def splits(self) -> tuple[DataSplit, ...]:
        return self.plan.splits

    def read(self, limit: int | None = None) -> pa.Table:
        """All rows in memory, or `limit` of them, in no defined order."""
        with logged(self.reader.nulled, self.table_files.name):
            return _collected(self.reader, self.plan.splits, limit)

    def batches(self) -> Iterator[pa.Table]:
        """Rows piece by piece, for more than fits in memory."""
        with logged(self.reader.nulled, self.table_files.name):
            for split in self.plan.splits:
                yield from self.reader.read(split)

    def to_batches(self) -> pa.RecordBatchReader:
        """Rows as a stream of Arrow batches, read once; each call begins a new one."""
        schema = _nullable(self.reader)
        batches = (
            batch
            for rows in self.batches()
            for batch in (rows if rows.schema.equals(schema) else rows.cast(schema)).to_batches()
        )
        return pa.RecordBatchReader.from_batches(schema, batches)

    def __arrow_c_stream__(self, requested_schema: object = None) -> object:
        """The rows for every library that reads streams of Arrow: Polars, DuckDB, pandas."""
        return self.to_batches().__arrow_c_stream__(requested_schema)

    def to_pandas(self) -> pd.DataFrame:
        """All rows in memory as a DataFrame of pandas.

        Raises:
            UnsupportedError: pandas is not installed.
        """
        with needed_for("to_pandas"):
            import pandas as pd  # noqa: F401, PLC0415
        found: pd.DataFrame = self.read().to_pandas()
        return found

    def to_polars(self) -> pl.DataFrame:
        """All rows in memory as a DataFrame of Polars.

        Raises:
            UnsupportedError: Polars is not installed.
        """
        try:
            import polars as pl  # noqa: PLC0415
        except ImportError as error:
            raise UnsupportedError("to_polars needs polars: pip install polars") from error
        return pl.DataFrame(self.read())

    def to_duckdb(self, connection: DuckDBPyConnection | None = None) -> DuckDBPyRelation:
        """The rows as a relation of DuckDB, which reads them each time that it runs."""
        with needed_for("to_duckdb"):
            import duckdb  # noqa: PLC0415  # a large library

        return (connection or duckdb.connect()).from_arrow(self)

    def count(self) -> int:
        """How many rows there are: without a filter, by metadata alone where no rows are merged."""
        count = 0
        for split in self.splits:
            told = self._told_count(split)
            if told is None:
                told = sum(rows.num_rows for rows in self.reader.read(split))
            count += told
        return count

    def _told_count(self, split: DataSplit) -> int | None:
        """The rows of a split by its metadata, None if it does not tell."""
        gone = [where.cardinality for _, where in split.deletions]
        if self.reader.predicate is not None or split.merge or None in gone:
            return None
        return sum(file.row_count for file in split.files) - sum(each or 0 for each in gone)

    @property
    def nulled_values(self) -> dict[str, int]:
        """By column, how many values reads of this scan made null because they do not fit.

        Only tables with `lakewright.cast-mode=explicit-null` have such values. A filter or a limit
        may have dropped some of their rows. What Spark reads counts once an action on the DataFrame
        has ended, and again with each action and each repeated task; not with Spark Connect.
        """
        return self.reader.nulled.since()

    def to_spark(self, spark: SparkSession) -> DataFrame:
        """Rows as a DataFrame, read in Spark's tasks.

        Raises:
            UnsupportedError: the table lies where executors cannot reach it, or a column has no
                Spark type.
        """
        from lakewright.storage.spark.read import splits_dataframe

        if falls_back(self.table_files):
            # Only reads in this process support the option; Spark reads refuse it.
            check_supported(self.table_files.schema, Use.READ, table=self.table_files.name)
        return splits_dataframe(spark, self.reader, self.plan.splits)


@dataclass(frozen=True)
class ChangeScan:
    """Rows that changed between two states, each with its kind in `_rowkind`."""

    plan: ChangePlan
    reader: ChangeReader

    @property
    def nulled_values(self) -> dict[str, int]:
        """By column, how many values reads of these changes made null; see `Scan`."""
        return self.reader.nulled.since()

    def read(self, limit: int | None = None) -> pa.Table:
        """All changes in memory, or `limit` of them."""
        return collect_changes(self.reader, self.plan.splits, limit=limit)

    def to_spark(self, spark: SparkSession) -> DataFrame:
        """Changes as a DataFrame, read in Spark's tasks.

        Raises:
            UnsupportedError: the table lies where executors cannot reach it, or a column has no
                Spark type.
        """
        from lakewright.storage.spark.system_tables import changes_dataframe

        return changes_dataframe(spark, self.reader, self.plan)


def scan_staged(files: TableFiles, staged: StagedWrite, columns: Sequence[str] | None) -> Scan:
    """Rows of a staged write, as the table would hold them; deletions are left out."""
    reader = SplitReader(files.at_schema(staged.schema_id), columns=columns, predicate=None)
    splits = tuple(
        DataSplit(
            partition=message.partition,
            bucket=message.bucket,
            files=message.new_files,
            merge=files.schema.is_keyed,
        )
        for message in staged.messages
    )
    plan = ScanPlan(
        snapshot=None,
        predicate=None,
        splits=splits,
        manifests_read=0,
        manifests_total=0,
        files_live=sum(len(split.files) for split in splits),
    )
    return Scan(reader.files, plan, reader)


def _collected(
    reader: SplitReader, splits: Sequence[DataSplit], limit: int | None = None
) -> pa.Table:
    limit = whole_or_none(limit, "limit", minimum=0)
    if limit is None:
        env = reader.files.env
        # A filter may drop most of the rows.
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


def _nullable(reader: SplitReader) -> pa.Schema:
    return pa.schema([field.with_nullable(True) for field in reader.arrow_schema])


def _joined(reader: SplitReader, parts: list[pa.Table]) -> pa.Table:
    nullable = _nullable(reader)
    if not parts:
        return nullable.empty_table()
    # The cast copies nothing here, but visits every chunk.
    return pa.concat_tables(
        [part if part.schema.equals(nullable) else part.cast(nullable) for part in parts]
    )
