"""The partitions of a format table, by its registry or by its folders.

1. Take the partitions of the registry, or list the folders level by level.
2. Leave out what the filter excludes, level by level, before anything below is listed.
3. List the data files of what is left, at any depth. Names that begin with `_` or `.` are no data.

Symbolic links below the location are refused, where a verb would reach what they lead to.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass

from lakewright.storage.env import FileStatus
from lakewright.storage.errors import CorruptionError, InvalidRequestError, InvalidRows
from lakewright.storage.file_reader.location import Listing, Location, is_hidden
from lakewright.storage.file_reader.path_pattern import (
    HIVE_NULL_FOLDER,
    PathPattern,
    folder_value,
)
from lakewright.storage.files.table_files import TableFiles
from lakewright.storage.operations.format_tables.format_spec import FormatSpec
from lakewright.storage.operations.format_tables.registry import read_registry
from lakewright.storage.operations.running.concurrency import map_concurrently
from lakewright.storage.operations.running.links import check_no_links
from lakewright.storage.spec.data_types import DataField
from lakewright.storage.spec.partition import Partition, escape_path, partition_value_text
from lakewright.storage.spec.predicate import Bounds, Predicate, may_match, only_on
from lakewright.storage.spec.values import Value, order_key, same_value


@dataclass(frozen=True, slots=True)
class PartitionFolder:
    """A partition and its folder."""

    partition: Partition
    folder: str


def folder_of(files: TableFiles, spec: FormatSpec, partition: Partition) -> str:
    """The folder that a writer gives a partition; names of dates are dates, as Hive's.

    Raises:
        InvalidRequestError: readers do not find the partition by the name of that folder. They find
            another partition, or pass over the folder, or it lies elsewhere.
    """
    folder = spec.location
    for field, value in zip(partition.keys.fields, partition.values, strict=True):
        name = _name_of(files, spec, field, value)
        found = _values_in(files, spec, field, name)
        if not found or not same_value(found[0], value):
            why, way_out = _misread(spec, field, is_read=bool(found))
            raise InvalidRequestError(
                f"{files.name} cannot hold partition {field.name} = {value!r:.100}: its folder "
                f"would be {name}, {why}; {way_out}",
                column=field.name,
            )
        folder = f"{folder}/{name}"
    return folder


def _name_of(files: TableFiles, spec: FormatSpec, field: DataField, value: Value) -> str:
    text = partition_value_text(value, field, legacy_name=False)
    default = files.options.partition_default_name
    name = escape_path(text) if text and text.strip() else default
    return name if spec.only_values else f"{escape_path(field.name)}={name}"


def _values_in(files: TableFiles, spec: FormatSpec, field: DataField, name: str) -> list[Value]:
    """The value that readers find in a folder's name; none if they pass over the folder.

    Raises:
        InvalidRequestError: the name holds a text that is not of the key's type.
    """
    path = _path(files, spec, [field.name])
    (part,) = path.parts
    texts = part.matches(name)
    return [] if texts is None else [folder_value(texts[0], field, path.nulls)]


def _path(files: TableFiles, spec: FormatSpec, keys: Sequence[str]) -> PathPattern:
    nulls = (files.options.partition_default_name, HIVE_NULL_FOLDER)
    return PathPattern.of_keys(spec.location, keys, only_values=spec.only_values, nulls=nulls)


def _misread(spec: FormatSpec, field: DataField, *, is_read: bool) -> tuple[str, str]:
    """Why readers do not find a value in its folder's name, and the way out."""
    if is_read:
        return "which is the folder of null", "write null, or another value"
    passed_over = "which readers pass over, as all names that begin with _ or ."
    if spec.only_values:
        return passed_over, "write another value, or make a table whose folders are key=value"
    return passed_over, f"make a table whose key is not named {field.name}"


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
        return list(_found(files, spec, lambda known: _may_match(wanted, known)))
    registered = [
        PartitionFolder(partition, _registered_folder(files, spec, partition))
        for partition in read_registry(files)
        if _may_match(wanted, partition.stored)
    ]
    check_own_folders(files, spec, registered)
    return registered


def check_own_folders(
    files: TableFiles, spec: FormatSpec, folders: Iterable[PartitionFolder]
) -> None:
    """Refuse folders to which a symbolic link below the location leads.

    Raises:
        UnsupportedError: one is a link, or lies below one.
    """
    on_the_way = set()
    for each in folders:
        folder = each.folder
        while folder.startswith(f"{spec.location}/"):
            on_the_way.add(folder)
            folder = folder.rpartition("/")[0]
    for above in sorted({each.rpartition("/")[0] for each in on_the_way}):
        links = files.fs.list_links(above)
        check_no_links([link for link in links if link in on_the_way], files.name)


def _registered_folder(files: TableFiles, spec: FormatSpec, partition: Partition) -> str:
    try:
        return folder_of(files, spec, partition)
    except InvalidRequestError as error:
        raise CorruptionError(
            f"the registry of {files.name} has a partition without a folder of its own: "
            f"{error.message}; a repair of the partitions in mode sync takes it off the registry"
        ) from error


def folders_on_disk(
    files: TableFiles, spec: FormatSpec, of: Iterable[Partition] | None = None
) -> list[PartitionFolder]:
    """The folders of all partitions or of some, whatever the registry says.

    Other systems may have named several folders for one partition, such as `hour=1` and `hour=01`.
    """
    if of is None:
        return list(_found(files, spec, lambda _: True))
    beginnings = {
        tuple(map(order_key, each.values[:depth]))
        for each in of
        for depth in range(1, len(each.values) + 1)
    }

    def leads_there(known: Mapping[str, Value]) -> bool:
        return tuple(map(order_key, known.values())) in beginnings

    return list(_found(files, spec, leads_there))


def _found(
    files: TableFiles, spec: FormatSpec, is_wanted: Callable[[Mapping[str, Value]], bool]
) -> Iterator[PartitionFolder]:
    keys = files.partitions.keys
    location = Location(
        table=files.name,
        file_format=None,
        path=_path(files, spec, keys.names),
        columns=keys.fields,
        refuse_link=lambda link: check_no_links([link], files.name),
    )
    try:
        for folder, values in location.folders_below(files.fs, spec.location, is_wanted):
            ordered = tuple(values[name] for name in keys.names)
            yield PartitionFolder(files.partitions.of_values(ordered), folder)
    except InvalidRows as error:
        raise CorruptionError(error.message) from error


def _may_match(wanted: Predicate | None, known: Mapping[str, Value]) -> bool:
    if wanted is None:
        return True
    bounds = {name: Bounds(value, value, int(value is None), 1) for name, value in known.items()}
    return may_match(wanted, bounds)


def list_data_files(
    files: TableFiles, spec: FormatSpec, folders: list[PartitionFolder]
) -> list[tuple[Partition, FileStatus]]:
    """The data files of partitions, at any depth; a folder that is not there has none.

    Raises:
        UnsupportedError: one is a symbolic link.
    """
    listing = Listing(files.fs, lambda link: check_no_links([link], files.name))

    def listed(each: PartitionFolder) -> list[tuple[Partition, FileStatus]]:
        if spec.holds_schema and each.folder == spec.location:
            found = [status for status in listing.files(each.folder) if not is_hidden(status.name)]
        else:
            found = list(listing.tree(each.folder, lambda _: True))
        return [(each.partition, status) for status in found]

    return [pair for part in map_concurrently(files.env, listed, folders) for pair in part]
