"""Inspection: a table's metadata as rows, one method for each system table."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

import pyarrow as pa

from lakewright.storage.files.table_files import TableFiles
from lakewright.storage.named_errors import names_errors
from lakewright.storage.operations.inspection.late_writers import LateWriter, late_writers
from lakewright.storage.operations.inspection.layout import (
    Layout,
    UnnamedFiles,
    read_layout,
    refused_uses,
    unnamed_files,
)
from lakewright.storage.operations.inspection.system_tables import (
    read_system_table,
    system_table_names,
    system_table_schema,
)
from lakewright.storage.operations.read.expired_reads import told_if_expired
from lakewright.storage.operations.state.live_files import snapshot_manifests
from lakewright.storage.operations.state.table_state import ANY_KEYS, state_at
from lakewright.storage.rows import Where, predicate_of
from lakewright.storage.spec.known_options import Use
from lakewright.storage.spec.manifest import ManifestFileMeta
from lakewright.storage.spec.schema import TableSchema
from lakewright.storage.spec.snapshot import Snapshot

if TYPE_CHECKING:
    from lakewright.storage.spark import DataFrame, SparkSession


@names_errors
@dataclass(frozen=True)
class Inspection:
    """System tables as Arrow, by the names, columns and order of the format.

    Rows about files are those of one snapshot; rows that depend on no snapshot are current.
    """

    table_files: TableFiles
    snapshot: Snapshot | None

    @property
    def names(self) -> tuple[str, ...]:
        """Every system table there is."""
        return system_table_names()

    def table(self, name: str, where: Where | None = None) -> pa.Table:
        """The system table of a name, such as `files`.

        Raises:
            InvalidRequestError: there is no system table of that name.
            InvalidPredicate: `where` is not a filter of its columns.
        """
        predicate = predicate_of(where, self.table_schema(name))
        return read_system_table(self.table_files, name, self.snapshot, predicate)

    def table_schema(self, name: str) -> TableSchema:
        """The columns of a system table: what a filter on it is read against."""
        return system_table_schema(self.table_files, name)

    def to_spark(self, spark: SparkSession, name: str, where: Where | None = None) -> DataFrame:
        """A system table as a DataFrame, as it is when this is called.

        Raises:
            InvalidRequestError: there is no system table of that name.
            UnsupportedError: `audit_log` of a table that executors cannot reach, or with a column
                that has no Spark type.
        """
        from lakewright.storage.spark.system_tables import system_table_dataframe

        predicate = predicate_of(where, self.table_schema(name))
        return system_table_dataframe(spark, self.table_files, name, self.snapshot, predicate)

    def snapshots(self, where: Where | None = None) -> pa.Table:
        """Snapshots: who committed what, when, with how many rows."""
        return self.table("snapshots", where)

    def schemas(self, where: Where | None = None) -> pa.Table:
        """Versions of the schema."""
        return self.table("schemas", where)

    def options(self, where: Where | None = None) -> pa.Table:
        """Options of the table."""
        return self.table("options", where)

    def files(self, where: Where | None = None) -> pa.Table:
        """Live data files with their statistics."""
        return self.table("files", where)

    def manifests(self, where: Where | None = None) -> pa.Table:
        """Manifests of the snapshot."""
        return self.table("manifests", where)

    def partitions(self, where: Where | None = None) -> pa.Table:
        """Partitions with their counts."""
        return self.table("partitions", where)

    def buckets(self, where: Where | None = None) -> pa.Table:
        """Buckets with their counts."""
        return self.table("buckets", where)

    def tags(self, where: Where | None = None) -> pa.Table:
        """Tags and the snapshots they hold."""
        return self.table("tags", where)

    def branches(self, where: Where | None = None) -> pa.Table:
        """Branches."""
        return self.table("branches", where)

    def consumers(self, where: Where | None = None) -> pa.Table:
        """Consumers and the snapshot each reads next."""
        return self.table("consumers", where)

    def statistics(self, where: Where | None = None) -> pa.Table:
        """What the last analysis found, one row; columns as JSON."""
        return self.table("statistics", where)

    def aggregation_fields(self, where: Where | None = None) -> pa.Table:
        """Columns and the functions that aggregate them."""
        return self.table("aggregation_fields", where)

    def table_indexes(self, where: Where | None = None) -> pa.Table:
        """Index files: hashes of dynamic buckets, deletion vectors."""
        return self.table("table_indexes", where)

    def audit_log(self, where: Where | None = None) -> pa.Table:
        """The table's rows with what each does to its key, deletions included."""
        return self.table("audit_log", where)

    def read_optimized(self, where: Where | None = None) -> pa.Table:
        """Rows that need no merging, named `ro` in the format."""
        return self.table("ro", where)

    def row_tracking(self, where: Where | None = None) -> pa.Table:
        """Rows with their ids and the snapshots that wrote them last, of a table that tracks them.

        Raises:
            InvalidRequestError: it does not.
        """
        return self.table("row_tracking", where)

    def file_count_on_disk(self) -> int:
        """Files of any kind below the table's folder, without those of upkeep; lists it whole."""
        paths = self.table_files.paths
        listed = self.table_files.fs.list_tree(paths.root)
        return sum(not each.path.startswith(paths.upkeep_dir + "/") for each in listed)

    def manifest_files(self) -> tuple[ManifestFileMeta, ...]:
        """The manifests of the snapshot's state, as their lists describe them."""
        if self.snapshot is None:
            return ()
        with told_if_expired(self.table_files, self.snapshot.id):
            return snapshot_manifests(self.table_files, self.snapshot)

    def files_fit(self, layout: Layout | None = None) -> bool:
        """Whether all live files have the table's partition keys.

        They do not during a change of the keys, after one that was stopped, and as long as there
        are files of a client that opened the table before its keys changed. `layout` is that of
        this snapshot, if the caller has it.
        """
        if layout is not None:
            return layout.buckets.is_settled(layout.files, layout.metas)
        snapshot_id = None if self.snapshot is None else self.snapshot.id
        with told_if_expired(self.table_files, snapshot_id):
            return state_at(self.table_files, self.snapshot, takes=ANY_KEYS).is_settled

    def late_writers(self) -> tuple[LateWriter, ...]:
        """Who commits under former partition keys: writers that opened the table before.

        Reads the snapshots that are kept; worth a look where `files_fit` is false.
        """
        return late_writers(self.table_files, self.snapshot)

    def layout(self, manifests: Sequence[ManifestFileMeta] | None = None) -> Layout:
        """The buckets and manifests of the snapshot, in memory that a few numbers a file take.

        `manifests` are those of `manifest_files`, if the caller has them.

        Raises:
            CorruptionError: the manifests contradict each other, or one is missing or damaged.
        """
        metas = self.manifest_files() if manifests is None else manifests
        with told_if_expired(self.table_files, None if self.snapshot is None else self.snapshot.id):
            return read_layout(self.table_files, self.snapshot, metas)

    def unnamed_files(
        self, layout: Layout, *, most_folders: int = 8, seed: int = 0
    ) -> UnnamedFiles:
        """What lies in some bucket folders of a layout without being named by its snapshot.

        The seed draws the folders: equal layouts are looked at in the same folders.
        """
        return unnamed_files(layout, most_folders=most_folders, seed=seed)

    def refused_uses(self) -> dict[Use, str]:
        """The uses that this release refuses for the table, each with the reason."""
        return refused_uses(self.table_files, self.snapshot)
