"""TableAt: a table at one fixed snapshot."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

import pyarrow as pa

from lakewright.storage.codec.arrow_types import to_arrow_schema
from lakewright.storage.files.table_files import TableFiles
from lakewright.storage.inspection import Inspection
from lakewright.storage.named_errors import names_errors
from lakewright.storage.operations.inspection.analyze import read_statistics
from lakewright.storage.operations.inspection.detail import detail
from lakewright.storage.operations.partitions.list_partitions import list_partitions
from lakewright.storage.operations.partitions.partition_properties import (
    PartitionProperties,
    partition_properties,
)
from lakewright.storage.operations.partitions.select_partitions import selection
from lakewright.storage.operations.read.expired_reads import told_if_expired
from lakewright.storage.operations.read.fallback_read import falls_back, scan_with_fallback
from lakewright.storage.operations.read.lookup import lookup
from lakewright.storage.operations.read.read import SplitReader
from lakewright.storage.operations.read.scan import plan_scan
from lakewright.storage.operations.state.live_files import live_entries
from lakewright.storage.operations.state.table_stats import PartitionStats
from lakewright.storage.rows import LocalRows, Where, arrow_tables, predicate_of
from lakewright.storage.scan import Scan
from lakewright.storage.spec.arguments import listed_partitions
from lakewright.storage.spec.manifest import ManifestEntry
from lakewright.storage.spec.partition_words import describe_partition
from lakewright.storage.spec.schema import TableSchema
from lakewright.storage.spec.snapshot import Snapshot
from lakewright.storage.spec.supported_options import Use, check_supported
from lakewright.storage.spec.table_statistics import TableStatistics

if TYPE_CHECKING:
    import pandas as pd
    import polars as pl
    from duckdb import DuckDBPyConnection, DuckDBPyRelation

    from lakewright.storage.spark import DataFrame, SparkSession


@names_errors
@dataclass(frozen=True, repr=False)
class Readable(ABC):
    """What is read alike: a table, whose reads see the latest snapshot, and a table at one."""

    table_files: TableFiles

    @abstractmethod
    def scan(self, where: Where | None = None, columns: Sequence[str] | None = None) -> Scan:
        """Plan a read from metadata; the scan reads the files as Arrow or in Spark."""

    @property
    def name(self) -> str:
        return self.table_files.name

    @property
    def schema(self) -> TableSchema:
        return self.table_files.schema

    @property
    def arrow_schema(self) -> pa.Schema:
        return to_arrow_schema(self.schema.fields)

    def read(
        self,
        where: Where | None = None,
        columns: Sequence[str] | None = None,
        *,
        limit: int | None = None,
    ) -> pa.Table:
        """Rows in memory, in no defined order.

        `where` is text (`"dt = '2024-01-01' AND amount > 10"`) or a parsed filter.

        Raises:
            InvalidPredicate: `where` is not a valid filter on the table's columns.
            UnsupportedError: the table has an option that is not implemented.
        """
        return self.scan(where, columns).read(limit)

    def count(self, where: Where | None = None) -> int:
        """How many rows there are, by metadata alone where it tells."""
        return self.scan(where, self.schema.field_names[:1]).count()

    def to_batches(
        self, where: Where | None = None, columns: Sequence[str] | None = None
    ) -> pa.RecordBatchReader:
        """Rows as a stream of Arrow batches, read once."""
        return self.scan(where, columns).to_batches()

    def __arrow_c_stream__(self, requested_schema: object = None) -> object:
        """The rows for every library that reads streams of Arrow: Polars, DuckDB, pandas."""
        return self.scan().__arrow_c_stream__(requested_schema)

    def to_pandas(
        self, where: Where | None = None, columns: Sequence[str] | None = None
    ) -> pd.DataFrame:
        """Rows in memory as a DataFrame of pandas; see `Scan.to_pandas`."""
        return self.scan(where, columns).to_pandas()

    def to_polars(
        self, where: Where | None = None, columns: Sequence[str] | None = None
    ) -> pl.DataFrame:
        """Rows in memory as a DataFrame of Polars; see `Scan.to_polars`."""
        return self.scan(where, columns).to_polars()

    def to_duckdb(
        self,
        connection: DuckDBPyConnection | None = None,
        where: Where | None = None,
        columns: Sequence[str] | None = None,
    ) -> DuckDBPyRelation:
        """Rows as a relation of DuckDB; see `Scan.to_duckdb`."""
        return self.scan(where, columns).to_duckdb(connection)

    def to_spark(
        self,
        spark: SparkSession,
        where: Where | None = None,
        columns: Sequence[str] | None = None,
    ) -> DataFrame:
        """Rows as a DataFrame; the files are fixed when this returns.

        Raises:
            UnsupportedError: the table lies where executors cannot reach it, or a column has no
                Spark type.
        """
        return self.scan(where, columns).to_spark(spark)


@names_errors
@dataclass(frozen=True)
class TableAt(Readable):
    """A table at one snapshot with its schema; the snapshot is None before the first commit.

    `is_latest` means that the caller wants the latest state; then a fallback branch is read too.
    """

    snapshot: Snapshot | None
    is_latest: bool

    @property
    def inspect(self) -> Inspection:
        """System tables as Arrow."""
        return Inspection(self.table_files, self.snapshot)

    def scan(self, where: Where | None = None, columns: Sequence[str] | None = None) -> Scan:
        """Plan a read from metadata; the scan reads the files as Arrow or in Spark.

        If an option names a fallback branch, the scan includes its splits for missing partitions.

        Raises:
            InvalidPredicate: `where` is not a valid filter on the table's columns.
            UnsupportedError: the table has an option that is not implemented.
        """
        files = self.table_files
        predicate = predicate_of(where, files.schema)
        files.schema.fields_of(files.schema.names_of(columns))
        if self.is_latest and falls_back(files):
            reader, plan = scan_with_fallback(files, self.snapshot, predicate, columns)
            return Scan(files, plan, reader)
        check_supported(files.schema, Use.READ, table=files.name)
        with told_if_expired(files, self._snapshot_id):
            plan = plan_scan(files, self.snapshot, predicate)
        return Scan(
            files,
            plan,
            SplitReader(files, columns=columns, predicate=predicate, snapshot_id=self._snapshot_id),
        )

    def lookup(self, keys: LocalRows, *, columns: Sequence[str] | None = None) -> pa.Table:
        """Look up single keys without reading the whole table; see `read.lookup`."""
        given = list(arrow_tables(keys, self.schema.fields))
        fields = self.schema.fields_of(self.schema.primary_keys)
        wanted = pa.concat_tables(given) if given else to_arrow_schema(fields).empty_table()
        with told_if_expired(self.table_files, self._snapshot_id):
            return lookup(self.table_files, wanted, self.snapshot, columns=columns).rows

    def files(self, where: Where | None = None) -> tuple[ManifestEntry, ...]:
        """Live data files of the partitions that match a filter."""
        predicate = predicate_of(where, self.schema)
        return tuple(live_entries(self.table_files, self.snapshot, predicate=predicate))

    def partitions(
        self,
        where: Where | None = None,
        *,
        named: Sequence[Mapping[str, object]] | None = None,
        last_update: bool = False,
    ) -> tuple[PartitionStats, ...]:
        """Partitions with their counts, from metadata alone.

        `where` compares partition keys; `named` gives values of some or all keys, a dict for each
        wanted partition. `last_update` reads the retained history, back to the last commit that
        changed each partition.

        Raises:
            InvalidPredicate: `where` compares other columns than partition keys.
            InvalidRequestError: a name is not a partition key, or a value does not fit its type.
        """
        return list_partitions(
            self.table_files,
            self.snapshot,
            selection(
                self.table_files,
                where=predicate_of(where, self.schema),
                partitions=listed_partitions(named, "named"),
            ),
            last_update=last_update,
        )

    def detail(
        self,
        where: Where | None = None,
        *,
        named: Sequence[Mapping[str, object]] | None = None,
        files: bool = True,
        name: Callable[[Mapping[str, object]], str] = describe_partition,
    ) -> pa.Table:
        """Partitions, their buckets and the files of these, a row each, chosen as in `partitions`.

        Without `files`, partitions and buckets alone. `name` makes the text of a partition.
        """
        stats = self.partitions(where, named=named)
        of, chosen = self.table_files.partitions, {each.partition for each in stats}
        held = [
            (of.as_named(each.partition, each.file.schema_id), each)
            for each in (self.files(where) if files else ())
        ]
        return detail(stats, [each for each in held if each[0] in chosen], name)

    def partition_properties(
        self,
        where: Where | None = None,
        *,
        named: Sequence[Mapping[str, object]] | None = None,
    ) -> tuple[tuple[dict[str, object], PartitionProperties], ...]:
        """The values and the properties of partitions, chosen as in `partitions`.

        Raises:
            UnsupportedError: a file lies where the table's options allow no reading.
        """
        chosen = [each.partition for each in self.partitions(where, named=named)]
        found = partition_properties(self.table_files, self.snapshot, chosen)
        return tuple((partition.spec, found[partition]) for partition in chosen)

    def statistics(self) -> TableStatistics | None:
        """The statistics of the last analysis; None if there is none for this schema."""
        return read_statistics(self.table_files, self.snapshot)

    @property
    def _snapshot_id(self) -> int | None:
        return None if self.snapshot is None else self.snapshot.id
