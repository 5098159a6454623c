"""The partitions of a format table, by its registry or by its folders.

1. Take the partitions of the registry, or list the folders level by level.
2. Leave out what the filter excludes, level by level, before anything below is listed.
3. List the data files of what is left. Names that begin with `_` or `.` are no data.

Symbolic links below the location are refused, where a verb would reach what they lead to.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass
from urllib.parse import unquote

from lakewright.storage.env import FileStatus
from lakewright.storage.errors import CorruptionError, InvalidRequestError
from lakewright.storage.files.table_files import TableFiles
from lakewright.storage.operations.format_tables.format_spec import FormatSpec
from lakewright.storage.operations.format_tables.registry import read_registry
from lakewright.storage.operations.partitions.external_folders import HIVE_DEFAULT_PARTITION
from lakewright.storage.operations.running.concurrency import map_concurrently
from lakewright.storage.operations.running.links import check_no_links
from lakewright.storage.spec.data_types import DataField
from lakewright.storage.spec.partition import Partition, escape_path, partition_value_text
from lakewright.storage.spec.predicate import Bounds, Predicate, may_match, only_on
from lakewright.storage.spec.values import Value, from_python, order_key, same_value


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
    nulls = (files.options.partition_default_name, HIVE_DEFAULT_PARTITION)
    text = name if spec.only_values else _text_for(name, field.name)
    if text is None or (is_hidden(name) and name not in nulls):
        return []
    return [None if text in nulls else from_python(unquote(text), field.type)]


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
        return list(_found(files, spec, lambda known: _may_match(wanted, known), spec.location, {}))
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
        check_no_links([each for each in links if each in on_the_way], files.name)


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
        return list(_found(files, spec, lambda known: True, spec.location, {}))
    beginnings = {
        tuple(map(order_key, each.values[:depth]))
        for each in of
        for depth in range(1, len(each.values) + 1)
    }

    def leads_there(known: Mapping[str, Value]) -> bool:
        return tuple(map(order_key, known.values())) in beginnings

    return list(_found(files, spec, leads_there, spec.location, {}))


def _found(
    files: TableFiles,
    spec: FormatSpec,
    is_wanted: Callable[[Mapping[str, Value]], bool],
    folder: str,
    known: Mapping[str, Value],
) -> Iterator[PartitionFolder]:
    fields = files.partitions.keys.fields
    if len(known) == len(fields):
        yield PartitionFolder(files.partitions.of_values(tuple(known.values())), folder)
        return
    field = fields[len(known)]
    links = {link.rpartition("/")[2]: link for link in files.fs.list_links(folder)}
    for name in sorted({*files.fs.list_subdirs(folder), *links}):
        try:
            found = _values_in(files, spec, field, name)
        except InvalidRequestError as error:
            raise CorruptionError(
                f"folder {folder}/{name} of {files.name} is no partition: {error}; move it "
                "elsewhere, or begin its name with an underscore",
                path=f"{folder}/{name}",
            ) from error
        for value in found:
            below = {**known, field.name: value}
            if is_wanted(below):
                check_no_links([links[name]] if name in links else [], files.name)
                yield from _found(files, spec, is_wanted, f"{folder}/{name}", below)


def _text_for(name: str, key: str) -> str | None:
    own, equals, text = name.partition("=")
    return text if equals and unquote(own) == key else None


def _may_match(wanted: Predicate | None, known: Mapping[str, Value]) -> bool:
    if wanted is None:
        return True
    bounds = {name: Bounds(value, value, int(value is None), 1) for name, value in known.items()}
    return may_match(wanted, bounds)


def is_hidden(name: str) -> bool:
    """Whether readers pass over a file or a folder."""
    return name.startswith(("_", "."))


def list_data_files(
    files: TableFiles, folders: list[PartitionFolder]
) -> list[tuple[Partition, FileStatus]]:
    """The data files of partitions; a folder that is not there has none.

    Raises:
        UnsupportedError: one is a symbolic link.
    """

    def listed(each: PartitionFolder) -> list[tuple[Partition, FileStatus]]:
        links = files.fs.list_links(each.folder)
        check_no_links([x for x in links if not is_hidden(x.rpartition("/")[2])], files.name)
        found = sorted(files.fs.list_dir(each.folder), key=lambda status: status.path)
        return [(each.partition, status) for status in found if not is_hidden(status.name)]

    return [pair for part in map_concurrently(files.env, listed, folders) for pair in part]
