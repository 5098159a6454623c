"""The partitions of a format table, by its registry or by its folders.

1. Take the partitions of the registry, or list the folders level by level.
2. Leave out what the filter excludes, level by level, before anything below is listed.
3. List the data files of what is left. Names that begin with `_` or `.` are no data.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from urllib.parse import unquote

from lakewright.storage.env import FileStatus
from lakewright.storage.errors import CorruptionError, InvalidRequestError
from lakewright.storage.files.table_files import TableFiles
from lakewright.storage.operations.format_tables.format_spec import FormatSpec
from lakewright.storage.operations.format_tables.registry import read_registry
from lakewright.storage.operations.partitions.external_folders import HIVE_DEFAULT_PARTITION
from lakewright.storage.operations.running.concurrency import map_concurrently
from lakewright.storage.spec.partition import (
    Partition,
    escape_path,
    partition_path,
    partition_value_text,
)
from lakewright.storage.spec.predicate import Bounds, Predicate, may_match, only_on
from lakewright.storage.spec.values import Value, from_python


@dataclass(frozen=True, slots=True)
class PartitionFolder:
    """A partition and its folder."""

    partition: Partition
    folder: str


def folder_of(files: TableFiles, spec: FormatSpec, partition: Partition) -> str:
    """The folder that a writer gives a partition; names of dates are dates, as Hive's."""
    default = files.options.partition_default_name
    fields = partition.keys.fields
    if spec.only_values:
        texts = [
            partition_value_text(value, field, legacy_name=False)
            for value, field in zip(partition.values, fields, strict=True)
        ]
        names = [escape_path(text) if text and text.strip() else default for text in texts]
        path = "/".join(names)
    else:
        path = partition_path(fields, partition.values, default_name=default, legacy_name=False)
    return f"{spec.location}/{path}".rstrip("/")


def list_partitions(
    files: TableFiles, spec: FormatSpec, predicate: Predicate | None = None
) -> list[PartitionFolder]:
    """The partitions that a filter may match, in the order of their folders.

    An unpartitioned table is one partition, whose folder is the location.

    Raises:
        CorruptionError: a folder's name is no value of its key.
    """
    keys = files.partitions.keys
    if not keys.fields:
        return [PartitionFolder(files.partitions.of_values(()), spec.location)]
    wanted = only_on(predicate, frozenset(keys.names))
    if not spec.is_registered:
        return list(_found(files, spec, wanted, spec.location, {}))
    return [
        PartitionFolder(partition, folder_of(files, spec, partition))
        for partition in read_registry(files).partitions
        if _may_match(wanted, partition.stored)
    ]


def folders_on_disk(files: TableFiles, spec: FormatSpec) -> list[PartitionFolder]:
    """The partitions by their folders, whatever the registry says."""
    return list(_found(files, spec, None, spec.location, {}))


def _found(
    files: TableFiles,
    spec: FormatSpec,
    wanted: Predicate | None,
    folder: str,
    known: Mapping[str, Value],
) -> Iterator[PartitionFolder]:
    fields = files.partitions.keys.fields
    if len(known) == len(fields):
        yield PartitionFolder(files.partitions.of_values(tuple(known.values())), folder)
        return
    field = fields[len(known)]
    nulls = (files.options.partition_default_name, HIVE_DEFAULT_PARTITION)
    for name in sorted(files.fs.list_subdirs(folder)):
        text = name if spec.only_values else _value_of(name, field.name)
        if text is None or (name.startswith(("_", ".")) and name not in nulls):
            # Other readers pass over such folders too.
            continue
        try:
            value = None if text in nulls else from_python(unquote(text), field.type)
        except InvalidRequestError as error:
            raise CorruptionError(
                f"folder {folder}/{name} of {files.name} is no partition: {error}; move it "
                "elsewhere, or begin its name with an underscore",
                path=f"{folder}/{name}",
            ) from error
        below = {**known, field.name: value}
        if _may_match(wanted, below):
            yield from _found(files, spec, wanted, f"{folder}/{name}", below)


def _value_of(name: str, key: str) -> str | None:
    own, equals, text = name.partition("=")
    return text if equals and unquote(own) == key else None


def _may_match(wanted: Predicate | None, known: Mapping[str, Value]) -> bool:
    if wanted is None:
        return True
    bounds = {name: Bounds(value, value, int(value is None), 1) for name, value in known.items()}
    return may_match(wanted, bounds)


def is_data_file(name: str) -> bool:
    """Whether readers take a file for data."""
    return not name.startswith(("_", "."))


def list_data_files(
    files: TableFiles, folders: list[PartitionFolder]
) -> list[tuple[Partition, FileStatus]]:
    """The data files of partitions; a folder that is not there has none."""

    def listed(each: PartitionFolder) -> list[tuple[Partition, FileStatus]]:
        found = sorted(files.fs.list_dir(each.folder), key=lambda status: status.path)
        return [(each.partition, status) for status in found if is_data_file(status.name)]

    return [pair for part in map_concurrently(files.env, listed, folders) for pair in part]
