"""Finds the partitions that other systems wrote as folders of files.

1. List the files below the root folder.
2. Tell the layout of the folders: `key=value`, or values alone, whose keys the caller names.
3. Decode the names of the folders to partitions of the table, and tell the folders that are none.
4. Mark partitions that a process may still be writing.

Files whose names begin with `_` or `.` are no data, as in Hive and Spark.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from urllib.parse import unquote

from lakewright.storage.env import FileStatus
from lakewright.storage.errors import InvalidRequestError
from lakewright.storage.file_reader.path_pattern import HIVE_NULL_FOLDER, folder_value
from lakewright.storage.files.table_files import TableFiles
from lakewright.storage.operations.running.links import check_no_links
from lakewright.storage.operations.running.verb_options import (
    DURATION,
    PARTITION,
    TEXT,
    PartitionValues,
    names,
    option,
)
from lakewright.storage.spec.manifest import ManifestEntry
from lakewright.storage.spec.partition import Partition
from lakewright.storage.spec.values import Value

_TEMPORARY_FOLDERS = ("_temporary", ".hive-staging", ".spark-staging", "__magic", "_tmp")
_TEMPORARY_SUFFIXES = (".tmp", ".inprogress", "._copying_", ".part", ".crdownload", ".filepart")


@dataclass(frozen=True, slots=True, kw_only=True)
class FoundPartition:
    """A partition as folders show it; `busy` says why a process may be writing to it."""

    partition: Partition
    folder: str
    files: tuple[FileStatus, ...]
    busy: str | None = None


@dataclass(frozen=True)
class FolderOptions:
    """Which folder is looked at, and how its partitions are recognised."""

    folder: str | None = option(
        TEXT, None, "The folder of partition folders, by its path or URI.", place="FOLDER"
    )
    partition: PartitionValues | None = option(
        PARTITION,
        None,
        "Values that no folder's name gives; with all keys, the folder is one partition.",
    )
    keys: Sequence[str] | None = option(
        names(may_be_none=True),
        None,
        "The keys of folders that hold values alone, one for each level.",
    )
    age_ms: int | None = option(
        DURATION, None, "Refuse files that were written within this time; 1m by default."
    )


@dataclass(frozen=True, slots=True, kw_only=True)
class FolderQuestion:
    """Where to look, and how to read the names of folders.

    `given` fixes some keys, whose values are in no folder's name. `keys` names the keys of folders
    that hold values alone, one for each level. A file younger than `age_ms` at `now_ms` may still
    be written.
    """

    root: str
    given: Mapping[str, object]
    keys: Sequence[str] | None
    now_ms: int
    age_ms: int

    def decodes(self, files: TableFiles, path: str, entry: ManifestEntry) -> bool:
        """Whether the folders of a live file are read as its partition."""
        given = files.partitions.stored(self.given)
        folder = path.removeprefix(self.root.rstrip("/") + "/").rpartition("/")[0]
        try:
            return _Levels(files, given, self).partition(folder).row == entry.partition
        except InvalidRequestError:
            return False


@dataclass(frozen=True, slots=True, kw_only=True)
class StrayFolder:
    """A folder with files that is no partition of the table; `error` says why."""

    folder: str
    files: tuple[FileStatus, ...]
    error: InvalidRequestError


@dataclass(frozen=True, slots=True, kw_only=True)
class FoundFolders:
    """The partitions below a folder, and the folders that are none, in the order of their paths.

    Signs of running writers are by the path of the folder below the root: `young` has those of
    files that were written just now, `unfinished` those of staging folders and unfinished files.
    """

    partitions: tuple[FoundPartition, ...]
    strays: tuple[StrayFolder, ...]
    young: Mapping[str, str]
    unfinished: Mapping[str, str]

    def sign_at(self, folder: str) -> str | None:
        """The sign of a writer to a folder, by its path below the root."""
        return _sign_at(folder, self.young, self.unfinished)


def find_partitions(files: TableFiles, asked: FolderQuestion) -> FoundFolders:
    """The partitions below a folder.

    A folder is no partition if it has another number of levels than the table has keys, names
    another column, or a value that is not of its key's type.

    Raises:
        InvalidRequestError: `keys` are not those that the folders have to give.
        UnsupportedError: a folder or a file is a symbolic link, whose rows would be left out.
    """
    given = files.partitions.stored(asked.given)
    levels = _Levels(files, given, asked)
    _check_links(files, asked.root, levels)
    folders: dict[str, list[FileStatus]] = {}
    young: dict[str, str] = {}
    unfinished: dict[str, str] = {}
    below = asked.root.rstrip("/") + "/"
    for status in sorted(files.fs.list_tree(asked.root), key=lambda each: each.path):
        parts = status.path.removeprefix(below).split("/")
        folder = "/".join(parts[: _data_depth(parts, levels)])
        if (sign := _sign_of_staging(parts)) is not None:
            unfinished.setdefault(folder, sign)
        elif (sign := _sign_of_age(parts, status, asked)) is not None:
            is_hidden = any(levels.is_hidden(part, at) for at, part in enumerate(parts[:-1]))
            (unfinished if is_hidden else young).setdefault(levels.partition_folder(folder), sign)
        if not any(levels.is_hidden(part, depth) for depth, part in enumerate(parts)):
            folders.setdefault("/".join(parts[:-1]), []).append(status)
    partitions: list[FoundPartition] = []
    strays: list[StrayFolder] = []
    for folder, statuses in folders.items():
        place, held = f"{below}{folder}".rstrip("/"), tuple(statuses)
        try:
            partition = levels.partition(folder)
        except InvalidRequestError as error:
            strays.append(StrayFolder(folder=place, files=held, error=error))
            continue
        busy = _sign_at(folder, young, unfinished)
        partitions.append(FoundPartition(partition=partition, folder=place, files=held, busy=busy))
    return FoundFolders(
        partitions=tuple(partitions), strays=tuple(strays), young=young, unfinished=unfinished
    )


def _check_links(files: TableFiles, root: str, levels: _Levels) -> None:
    below = root.rstrip("/") + "/"
    for link in files.fs.list_links(root, at_any_depth=True):
        parts = link.removeprefix(below).split("/")
        if not any(levels.is_hidden(part, depth) for depth, part in enumerate(parts)):
            check_no_links([link], files.name)


def _data_depth(parts: Sequence[str], levels: _Levels) -> int:
    """How many folders lead to the first that is none of a partition."""
    for depth, part in enumerate(parts[:-1]):
        if levels.is_hidden(part, depth):
            return depth
    return len(parts) - 1


def _sign_at(folder: str, young: Mapping[str, str], unfinished: Mapping[str, str]) -> str | None:
    """The sign of a writer to a folder.

    A job with a staging folder, or with a young file in a hidden folder, may replace every folder
    below the place where that lies. A young file elsewhere, but below the folder, says nothing: a
    landing place may get files at all times.
    """
    if folder in young:
        return young[folder]
    at = folder
    while at and at not in unfinished:
        at = at.rpartition("/")[0]
    return unfinished.get(at)


def _sign_of_staging(parts: Sequence[str]) -> str | None:
    for part in parts[:-1]:
        if part.lower().startswith(_TEMPORARY_FOLDERS):
            return f"folder {part} is the staging folder of a running job"
    name = parts[-1].lower()
    if name.endswith(_TEMPORARY_SUFFIXES) or ".inprogress." in name:
        return f"file {parts[-1]} has the name of an unfinished file"
    return None


def _sign_of_age(parts: Sequence[str], status: FileStatus, asked: FolderQuestion) -> str | None:
    if parts[-1].startswith(("_", ".")):
        return None
    age_ms = asked.now_ms - status.modified_ms
    if asked.age_ms and age_ms < asked.age_ms:
        return (
            f"file {parts[-1]} was written {max(age_ms, 0) / 1000:.0f} s ago, within the "
            f"{asked.age_ms / 1000:g} s of --age (age_ms)"
        )
    return None


class _Levels:
    """Decodes the names of folders below a root."""

    def __init__(
        self, files: TableFiles, given: Mapping[str, Value], asked: FolderQuestion
    ) -> None:
        self._files = files
        self._given = given
        self._root = asked.root
        self._fields = {field.name: field for field in files.partitions.keys.fields}
        self._wanted = [name for name in self._fields if name not in given]
        self._keys = asked.keys
        if asked.keys is not None and sorted(asked.keys) != sorted(self._wanted):
            raise InvalidRequestError(
                f"keys are {', '.join(asked.keys) or 'none'}, and the folders below {asked.root} "
                f"have to give a value for each of {', '.join(self._wanted) or 'none'}: the "
                f"partition keys of {files.name} without those that are given; name each once"
            )
        self._nulls = (files.options.partition_default_name, HIVE_NULL_FOLDER)

    def is_hidden(self, part: str, depth: int) -> bool:
        """Whether a name is that of no data; the folder of null begins with `_` too."""
        is_null = depth < len(self._wanted) and part in self._nulls
        return part.startswith(("_", ".")) and not is_null

    def partition_folder(self, folder: str) -> str:
        """The folder of a partition in which a folder lies, or itself, by paths below the root."""
        return "/".join(folder.split("/")[: len(self._wanted)])

    def partition(self, folder: str) -> Partition:
        """The partition of a folder, by its path below the root.

        Raises:
            InvalidRequestError: the folder is not one of a partition of the table.
        """
        parts = folder.split("/") if folder else []
        if len(parts) != len(self._wanted):
            raise self._wrong(
                folder,
                f"it has {len(parts)} levels of folders, and the keys "
                f"{', '.join(self._wanted) or '(none)'} need {len(self._wanted)}",
            )
        values = dict(self._given)
        names = self._keys if self._keys is not None else [None] * len(parts)
        for part, name in zip(parts, names, strict=True):
            key, value = self._decoded(folder, part, name)
            if key in values:
                raise self._wrong(folder, f"it gives key {key} twice")
            values[key] = value
        return self._files.partitions.of_values([values[name] for name in self._fields])

    def _decoded(self, folder: str, part: str, key: str | None) -> tuple[str, Value]:
        name, equals, text = part.partition("=")
        if not equals or (key is not None and unquote(name) != key):
            if key is None:
                raise self._wrong(
                    folder,
                    f"{part} is not of the form key=value; if the folders hold values alone, name "
                    "their keys",
                )
            name, text = key, part
        name = unquote(name)
        if name not in self._fields:
            raise self._wrong(
                folder,
                f"{name!r} is not a partition key; the partition keys of {self._files.name} are "
                f"{', '.join(self._fields) or 'none, it is not partitioned'}",
            )
        try:
            return name, folder_value(text, self._fields[name], self._nulls)
        except InvalidRequestError as error:
            raise self._wrong(folder, f"{error}") from error

    def _wrong(self, folder: str, why: str) -> InvalidRequestError:
        return InvalidRequestError(
            f"folder {folder or '.'} below {self._root} is no partition of {self._files.name}: "
            f"{why}"
        )


def check_not_busy(table: str, root: str, found: FoundFolders) -> None:
    """Refuse folders that a process may be writing.

    Raises:
        InvalidRequestError: names the first of them, the sign, and the way out.
    """
    busy = {**found.young, **found.unfinished}
    for folder, sign in sorted(busy.items()):
        raise InvalidRequestError(
            f"{len(busy)} folders below {root} may be being written, and {table} would miss "
            f"what comes: in {folder or '.'}, {sign}; wait until the writer is done, or, if it "
            "is, give a smaller age and delete what it left behind"
        )


def check_no_strays(found: FoundFolders) -> None:
    """Refuse folders of which one is no partition.

    Raises:
        InvalidRequestError: says of the first such folder why.
    """
    for stray in found.strays:
        raise stray.error
