"""A format table: folders of plain files as a table, without snapshots.

Paimon's clients know such tables as `type = format-table`. What several processes see while one
writes, `operations/format_tables/write_folders.py` says.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import pyarrow as pa

from lakewright.storage.codec.arrow_types import to_arrow_schema
from lakewright.storage.files.table_files import TableFiles
from lakewright.storage.operations.format_tables.format_spec import FormatSpec, format_spec
from lakewright.storage.operations.format_tables.keep_partitions import (
    FolderDrift,
    add_format_partitions,
    drop_format_partitions,
    folder_drift,
    repair_format_partitions,
)
from lakewright.storage.operations.format_tables.named_writes import NamedWrite, written_by
from lakewright.storage.operations.format_tables.partition_folders import list_partitions
from lakewright.storage.operations.format_tables.read_folders import (
    FolderScan,
    read_folders,
    scan_folders,
)
from lakewright.storage.operations.format_tables.write_folders import FolderWrite, write_folders
from lakewright.storage.operations.partitions.repair_partitions import RepairMode, repair_mode
from lakewright.storage.rows import LocalRows, Where, arrow_tables, predicate_of
from lakewright.storage.spec.commit import WriteMode
from lakewright.storage.spec.schema import TableSchema
from lakewright.storage.table import write_mode


@dataclass(frozen=True)
class FormatTable:
    """A table of plain files; columns and options are those of its schema file."""

    table_files: TableFiles

    @property
    def name(self) -> str:
        return self.table_files.name

    @property
    def schema(self) -> TableSchema:
        return self.table_files.schema

    @property
    def arrow_schema(self) -> pa.Schema:
        return to_arrow_schema(self.schema.fields)

    @property
    def spec(self) -> FormatSpec:
        return format_spec(self.table_files)

    @property
    def location(self) -> str:
        return self.table_files.fs.uri(self.spec.location)

    # --- reading --------------------------------------------------------------------------------

    def partitions(self, where: Where | None = None) -> tuple[dict[str, object], ...]:
        """The partitions that a filter on their keys may match."""
        predicate = predicate_of(where, self.schema)
        found = list_partitions(self.table_files, self.spec, predicate)
        # Other systems may have named several folders for one partition.
        distinct = dict.fromkeys(each.partition for each in found if self.schema.partition_keys)
        return tuple(each.spec for each in distinct)

    def scan(self, where: Where | None = None) -> FolderScan:
        """The files that a read opens; only folders that the filter may match are listed."""
        return scan_folders(self.table_files, self.spec, predicate_of(where, self.schema))

    def read(self, where: Where | None = None, columns: Sequence[str] | None = None) -> pa.Table:
        """The matching rows, in the projected columns.

        Raises:
            CorruptionError: a file is not of the table's format or types.
        """
        return read_folders(self.table_files, self.spec, self.scan(where), columns)

    # --- writing --------------------------------------------------------------------------------

    def write(
        self,
        rows: LocalRows,
        *,
        mode: str = "append",
        partition: Mapping[str, object] | None = None,
        dynamic: bool = True,
        commit_user: str | None = None,
        commit_identifier: int | None = None,
    ) -> FolderWrite:
        """Write rows into the folders of their partitions.

        `partition` gives partition columns a value, which rows then leave out. An overwrite
        replaces the partitions that the rows touch; without `dynamic`, all that `partition` names.
        An append with a user and an identifier is made once, however often it is called.

        Raises:
            InvalidRows: a row does not fit.
        """
        tables = list(arrow_tables(rows, self.schema.fields))
        chosen = write_mode(mode)
        static = partition is not None and set(partition) == set(self.schema.partition_keys)
        return write_folders(
            self.table_files,
            self.spec,
            pa.concat_tables(tables),
            mode=chosen,
            partition=partition,
            dynamic=dynamic and not static and chosen is WriteMode.OVERWRITE,
            name=None
            if commit_user is None or commit_identifier is None
            else NamedWrite(commit_user, commit_identifier),
        )

    def writes_of(self, commit_user: str) -> frozenset[int]:
        """The identifiers of a user's appends of which files are published."""
        return written_by(self.table_files, self.spec, commit_user)

    # --- partitions -----------------------------------------------------------------------------

    def add_partitions(self, *specs: Mapping[str, object], if_not_exists: bool = False) -> None:
        """Make partitions, and register them if the table has a registry.

        Raises:
            PartitionExists: one exists already.
        """
        add_format_partitions(self.table_files, self.spec, specs, if_not_exists=if_not_exists)

    def drop_partitions(
        self, *specs: Mapping[str, object], delete_files: bool = False, if_exists: bool = False
    ) -> None:
        """Drop partitions from the registry; with `delete_files` their files go too.

        Raises:
            PartitionNotFound: one does not exist.
        """
        drop_format_partitions(
            self.table_files,
            self.spec,
            specs,
            delete_files_too=delete_files,
            if_exists=if_exists,
        )

    def drift(self) -> FolderDrift:
        """How the registry and the folders differ."""
        return folder_drift(self.table_files, self.spec)

    def repair_partitions(self, mode: str | RepairMode = RepairMode.ADD) -> FolderDrift:
        """Register folders that are found, drop partitions that are gone, or sync: both."""
        return repair_format_partitions(self.table_files, self.spec, repair_mode(mode))
