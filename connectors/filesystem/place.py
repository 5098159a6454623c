"""Where the files of a table are, and how their folders are named."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from functools import cached_property

from lakewright.connectors.factories import Context
from lakewright.storage.env import Env, FileStatus, FileSystem
from lakewright.storage.errors import InvalidOption
from lakewright.storage.file_reader.location import Location
from lakewright.storage.file_reader.path_pattern import PathPattern
from lakewright.storage.files.file_systems import open_file_system
from lakewright.storage.files.local_files import LocalFiles
from lakewright.storage.files.paths import TablePaths
from lakewright.storage.files.table_files import TableFiles
from lakewright.storage.operations.format_tables.format_spec import FormatSpec
from lakewright.storage.operations.format_tables.partition_folders import (
    PartitionFolder,
    list_data_files,
    list_partitions,
)
from lakewright.storage.spec.data_types import DataField
from lakewright.storage.spec.partition import Partition
from lakewright.storage.spec.predicate import Predicate
from lakewright.storage.spec.schema import TableSchema

_WILD = re.compile(r"[*?\[]")


@dataclass(frozen=True)
class Place:
    """A path, or a pattern of paths, and the partitions below it. It pickles."""

    path: str
    table: str
    schema: TableSchema
    format: str
    only_values: bool
    env: Env

    @classmethod
    def of(cls, context: Context) -> Place:
        """The place that the options of a table name.

        Raises:
            InvalidOption: a pattern has partitions.
        """
        options, schema = context.options, context.table.schema
        kept = {"partition.default-name": options["partition.default-name"]}
        bare = TableSchema(
            id=0,
            fields=schema.fields,
            highest_field_id=schema.highest_field_id,
            partition_keys=schema.partition_keys,
            options=kept,
        )
        path: str = options["path"]
        if _WILD.search(path) and schema.partition_keys:
            raise InvalidOption(
                f"path of {context.name} is a pattern, whose folders are no partitions; write the "
                "folder above them",
                option="path",
            )
        return cls(
            path,
            context.name,
            bare,
            context.table.options["format"].lower(),
            options["partition.path-only-value"],
            context.env,
        )

    @property
    def is_pattern(self) -> bool:
        return _WILD.search(self.path) is not None

    @cached_property
    def _opened(self) -> tuple[FileSystem, str]:
        fs, root = open_file_system(self.path, self.env)
        return fs, root.rstrip("/") or "/"

    @property
    def fs(self) -> FileSystem:
        return self._opened[0]

    @cached_property
    def files(self) -> TableFiles:
        fs, root = self._opened
        return TableFiles(self.table, fs, TablePaths(root), self.schema, self.env)

    @cached_property
    def spec(self) -> FormatSpec:
        return FormatSpec(
            location=self._opened[1],
            format=self.format,
            only_values=self.only_values,
            is_registered=False,
            data_fields=self.data_fields,
        )

    @property
    def data_fields(self) -> tuple[DataField, ...]:
        """The columns that files hold; the others are in the names of folders."""
        keys = self.schema.partition_keys
        return tuple(field for field in self.schema.fields if field.name not in keys)

    def partitions(self, where: Predicate | None = None) -> list[PartitionFolder]:
        return list_partitions(self.files, self.spec, where)

    def found(self, folders: list[PartitionFolder] | None = None) -> Iterator[Found]:
        """The files, of some partitions or all."""
        if self.is_pattern:
            nowhere = self.files.partitions.of_values(())
            yield from (Found(each, nowhere) for each in self._matching())
            return
        if not self.schema.partition_keys and self._is_file():
            fs, root = self._opened
            folder = root.rpartition("/")[0] or "/"
            nowhere = self.files.partitions.of_values(())
            yield from (Found(each, nowhere) for each in fs.list_dir(folder) if each.path == root)
            return
        folders = self.partitions() if folders is None else folders
        for partition, status in list_data_files(self.files, self.spec, folders):
            yield Found(status, partition)

    @property
    def is_missing(self) -> bool:
        """Whether a folder of the local disk is not there; other stores have none without files."""
        fs, root = self._opened
        folder, _, name = root.rpartition("/")
        is_local = isinstance(fs, LocalFiles) and not self.is_pattern
        return is_local and name not in fs.list_subdirs(folder or "/")

    def _is_file(self) -> bool:
        fs, root = self._opened
        folder = root.rpartition("/")[0] or "/"
        return not fs.list_dir(root) and any(each.path == root for each in fs.list_dir(folder))

    def _matching(self) -> Iterator[FileStatus]:
        path = PathPattern.parse(self.path, has_columns=False)
        fs, _ = self._opened
        _, base = open_file_system(path.base, self.env)
        location = Location(table=self.table, file_format=None, path=path, columns=())
        for each in location.files_below(fs, base.rstrip("/") or "/"):
            yield FileStatus(each.path, each.size_bytes, each.modified_ms)


@dataclass(frozen=True, slots=True)
class Found:
    """A file and the partition that its folder names."""

    status: FileStatus
    partition: Partition

    @property
    def values(self) -> Mapping[str, object]:
        return self.partition.stored
