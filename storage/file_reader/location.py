"""Finds the files that a path names, in the folders of the wanted partitions only.

A folder is read at any depth. Names that begin with `.` are left out, as in a shell. In a folder
that is read whole, and among folders that name partitions, those that begin with `_` are left out
too, as in Hive and Spark.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from io import SEEK_END
from pathlib import Path

from lakewright.storage.env import FileStatus, FileSystem
from lakewright.storage.errors import FileMissing, InvalidRequestError, InvalidRows
from lakewright.storage.file_reader.path_pattern import PathPart, PathPattern, Typed
from lakewright.storage.files.file_systems import open_file_system
from lakewright.storage.spec.values import Value, from_python, order_key

# Suffixes of the files of a format, in a folder that is read whole.
_SUFFIXES = {
    "parquet": (".parquet",),
    "orc": (".orc",),
    "avro": (".avro",),
    "csv": (".csv",),
    "json": (".json", ".jsonl", ".ndjson"),
}
# Suffixes of files of text that are unpacked as they are read.
PACKED = (".gz", ".bz2", ".zst")
_TEXTS = ("csv", "json")
Texts = Mapping[str, tuple[str, ...]]
Values = Mapping[str, Value]
# Whether partitions are wanted of which some values are known.
IsWanted = Callable[[Values], bool]


@dataclass(frozen=True, slots=True, kw_only=True)
class FoundFile:
    """A file, and the values of columns that its path says."""

    fs: FileSystem
    path: str
    size_bytes: int
    values: tuple[tuple[str, Value], ...] = ()
    modified_ms: int = 0

    @property
    def shown(self) -> str:
        """The path, or the URI of a store."""
        return self.path if self.fs.scheme == "file" else self.fs.uri(self.path)


def is_hidden(name: str) -> bool:
    """Whether readers pass over a file or a folder."""
    return name.startswith(("_", "."))


def is_of_format(name: str, file_format: str) -> bool:
    """Whether the name of a file ends as those of a format do."""
    packed = ("", *PACKED) if file_format in _TEXTS else ("",)
    return name.lower().endswith(
        tuple(f"{end}{pack}" for end in _SUFFIXES[file_format] for pack in packed)
    )


def wanted_values(wanted: Sequence[Mapping[str, object]], columns: Sequence[Typed]) -> IsWanted:
    """Whether partitions with some known values are among those that are wanted."""
    specs = [
        {column.name: _identity(from_python(spec[column.name], column.type)) for column in columns}
        for spec in wanted
    ]

    def is_wanted(values: Values) -> bool:
        known = {name: _identity(value) for name, value in values.items()}
        return any(all(spec[name] == value for name, value in known.items()) for spec in specs)

    return is_wanted


@dataclass(frozen=True, slots=True, kw_only=True)
class Location:
    """A file, a folder or a pattern, and the columns whose values its names say.

    Of a folder that is read whole, files of the format are taken; all files without one. Links of
    a local disk are followed, unless `refuse_link` gets them, which raises.
    """

    table: str
    file_format: str | None
    path: PathPattern
    columns: Sequence[Typed]
    refuse_link: Callable[[str], None] | None = None

    def shown(self) -> str:
        """What is looked for, as messages name it."""
        inside = "" if self.path.parts else f" (a file, or a folder with *.{self.file_format})"
        return f"{self.path.text}{inside}"

    def files(self, is_wanted: IsWanted | None = None) -> Iterator[FoundFile]:
        """The files that may hold rows of the wanted partitions, None for all, in their order.

        Raises:
            InvalidRows: a folder's name is no value of its partition column.
            AccessError, UnavailableError: the store cannot be listed.
        """
        whole = self._whole()
        if whole is not None:
            yield from whole
            return
        fs, root = open_file_system(self.path.base)
        yield from self.files_below(fs, root.rstrip("/") or "/", is_wanted)

    def files_below(
        self, fs: FileSystem, root: str, is_wanted: IsWanted | None = None
    ) -> Iterator[FoundFile]:
        """As `files` of a pattern, whose base is a folder of a store that is open."""
        walk = _Walk(self, Listing(fs, self.refuse_link), is_wanted)
        # `**` may lead to a file on two ways.
        seen: set[str] = set()
        for each in walk.below(root, self.path.parts, {}):
            if each.path not in seen:
                seen.add(each.path)
                yield each

    def folders_below(
        self, fs: FileSystem, root: str, is_wanted: IsWanted | None = None
    ) -> Iterator[tuple[str, Values]]:
        """The folders of the wanted partitions, with the values that their names say.

        Raises:
            InvalidRows: a folder's name is no value of its partition column.
        """
        walk = _Walk(self, Listing(fs, self.refuse_link), is_wanted)
        yield from walk.folders(root, self.path.parts, {})

    def _whole(self) -> Iterator[FoundFile] | None:
        """The files of a path that is a file or a folder, whatever letters are in its name."""
        if self.path.parts and (self.path.column_names or "://" in self.path.text):
            return None
        fs, path = open_file_system(self.path.text)
        listing = Listing(fs, self.refuse_link)
        found = listing.files(path)
        if [each.path for each in found] == [path]:
            return iter([_found(fs, found[0], {})])
        if found or listing.folders(path):
            return (_found(fs, each, {}) for each in listing.tree(path, self.is_of_format))
        if self.path.parts:
            return None
        alone = listing.file(path)
        return iter(() if alone is None else (_found(fs, alone, {}),))

    def is_of_format(self, name: str) -> bool:
        """Whether a file of a folder that is read whole is taken."""
        return self.file_format is None or is_of_format(name, self.file_format)


@dataclass(frozen=True, slots=True)
class _Walk:
    """A walk down the folders of a pattern."""

    search: Location
    listing: Listing
    is_wanted: IsWanted | None

    def below(self, folder: str, parts: Sequence[PathPart], texts: Texts) -> Iterator[FoundFile]:
        part, rest = parts[0], parts[1:]
        if part.is_any_depth:
            yield from self.below(folder, rest, texts) if rest else self._tree(folder, texts)
            for name in self.listing.folders(folder) if rest else ():
                if not name.startswith("."):
                    yield from self.below(_joined(folder, name), parts, texts)
            return
        if not rest:
            for status in self.listing.files(folder):
                for known in self._known(folder, status.name, part, texts):
                    yield _found(self.listing.fs, status, self._values(status.path, known))
        names = [part.text] if part.expression is None else self.listing.folders(folder)
        for name in names:
            for known in self._known(folder, name, part, texts):
                place = _joined(folder, name)
                yield from self.below(place, rest, known) if rest else self._tree(place, known)

    def folders(
        self, folder: str, parts: Sequence[PathPart], texts: Texts
    ) -> Iterator[tuple[str, Values]]:
        if not parts:
            yield folder, self._values(folder, texts)
            return
        for name in sorted(self.listing.folders(folder)):
            for known in self._known(folder, name, parts[0], texts):
                self.listing.check(folder, name)
                yield from self.folders(_joined(folder, name), parts[1:], known)

    def _tree(self, folder: str, texts: Texts) -> Iterator[FoundFile]:
        values = self._values(folder, texts)
        for status in self.listing.tree(folder, self.search.is_of_format):
            yield _found(self.listing.fs, status, values)

    def _known(self, folder: str, name: str, part: PathPart, texts: Texts) -> Iterator[Texts]:
        """What the path tells with a name; nothing if it does not match, or is not wanted."""
        held = part.matches(name)
        if held is None:
            return
        known = dict(texts)
        for (column, _), text in zip(part.columns, held, strict=True):
            known[column] = (*known.get(column, ()), text)
        values = self._values(_joined(folder, name), known) if part.columns else {}
        if self.is_wanted is None or self.is_wanted(values):
            yield known

    def _values(self, place: str, texts: Texts) -> dict[str, Value]:
        try:
            return self.search.path.values(texts, self.search.columns)
        except InvalidRequestError as error:
            names = ", ".join(f"{name}={'/'.join(each)}" for name, each in texts.items())
            raise InvalidRows(
                f"{place} is no place of a partition of {self.search.table}, whose source is "
                f"{self.search.path.text}: {names}: {error.message}; move it elsewhere, begin its "
                "name with an underscore, or correct the pattern; nothing was written"
            ) from error


@dataclass(frozen=True, slots=True)
class Listing:
    """Listings of a store, in the order of names; those of a local disk follow symbolic links.

    With `refuse_link`, it gets the links that are not hidden, and raises.
    """

    fs: FileSystem
    refuse_link: Callable[[str], None] | None = None

    @property
    def _follows(self) -> bool:
        return self.fs.scheme == "file" and self.refuse_link is None

    def check(self, folder: str, name: str) -> None:
        """Refuse a link, where links are not followed."""
        if self.refuse_link is not None and _joined(folder, name) in self.fs.list_links(folder):
            self.refuse_link(_joined(folder, name))

    def files(self, folder: str) -> list[FileStatus]:
        if self.refuse_link is not None:
            for link in self.fs.list_links(folder):
                if not is_hidden(link.rpartition("/")[2]):
                    self.refuse_link(link)
        if not self._follows:
            return sorted(self.fs.list_dir(folder), key=lambda each: each.path)
        if Path(folder).is_file():
            return [_status(folder, Path(folder).stat())]
        return [_status(entry.path, entry.stat()) for entry in _entries(folder) if entry.is_file()]

    def file(self, path: str) -> FileStatus | None:
        """A file by itself, which some stores list in no folder of its own name."""
        try:
            with self.fs.open_input(path) as source:
                return FileStatus(path, int(source.seek(0, SEEK_END)), 0)
        except FileMissing:
            return None

    def folders(self, folder: str) -> list[str]:
        if not self._follows:
            links = [] if self.refuse_link is None else self.fs.list_links(folder)
            return sorted({*self.fs.list_subdirs(folder), *(x.rpartition("/")[2] for x in links)})
        return [entry.name for entry in _entries(folder) if entry.is_dir() and not _leads_up(entry)]

    def tree(self, folder: str, is_wanted: Callable[[str], bool]) -> Iterator[FileStatus]:
        """The files of a format at any depth."""
        if self.fs.scheme != "file":
            below = folder.rstrip("/") + "/"
            for each in sorted(self.fs.list_tree(folder), key=lambda each: each.path):
                names = each.path.removeprefix(below).split("/")
                if is_wanted(names[-1]) and not any(map(is_hidden, names)):
                    yield each
            return
        for file in self.files(folder):
            if is_wanted(file.name) and not is_hidden(file.name):
                yield file
        for name in self.folders(folder):
            if not is_hidden(name):
                self.check(folder, name)
                yield from self.tree(_joined(folder, name), is_wanted)


def _status(path: str, stat: os.stat_result) -> FileStatus:
    return FileStatus(path, stat.st_size, stat.st_mtime_ns // 1_000_000)


def _entries(folder: str) -> list[os.DirEntry[str]]:
    try:
        with os.scandir(folder) as entries:
            return sorted(entries, key=lambda each: each.name)
    except (FileNotFoundError, NotADirectoryError):
        return []


def _leads_up(entry: os.DirEntry[str]) -> bool:
    """Whether a folder is a link to one above it, below which every file would be found again."""
    if not entry.is_symlink():
        return False
    here, there = Path(entry.path).parent.resolve(), Path(entry.path).resolve()
    return here == there or there in here.parents


def _found(fs: FileSystem, status: FileStatus, values: Mapping[str, Value]) -> FoundFile:
    return FoundFile(
        fs=fs,
        path=status.path,
        size_bytes=status.size,
        values=tuple(values.items()),
        modified_ms=status.modified_ms,
    )


def _joined(folder: str, name: str) -> str:
    return f"{folder.rstrip('/')}/{name}"


def _identity(value: Value) -> object:
    return order_key(value) if isinstance(value, float) else value
