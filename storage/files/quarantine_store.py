"""Quarantines of one table: one folder each, with a manifest and the files at their old paths.

    <table>/.lakewright/quarantine/<id>/manifest.json
    <table>/.lakewright/quarantine/<id>/files/<path below the table>

Readers and orphan removals of other clients skip these hidden folders.
"""

from __future__ import annotations

import re
import zlib
from collections.abc import Collection, Iterable, Iterator
from contextlib import closing
from dataclasses import dataclass
from itertools import zip_longest

from lakewright.storage.codec.quarantine_json import decode_quarantine, encode_quarantine
from lakewright.storage.env import FileStatus, FileSystem
from lakewright.storage.errors import FileMissing
from lakewright.storage.files.paths import TablePaths
from lakewright.storage.spec.quarantine import QuarantineManifest

_PIECE_BYTES = 1 << 20
_FILES = "files/"
# The suffix of temporary files that a store renames when they are finished.
UNFINISHED = re.compile(r"\.[^/]+\.tmp")


@dataclass(frozen=True, slots=True)
class Listed:
    """The contents of the folder of one quarantine.

    `files` are keyed by path below the table; `unfinished` are temporary files that were never
    renamed.
    """

    files: dict[str, FileStatus]
    manifest: FileStatus | None
    unfinished: tuple[FileStatus, ...]

    @property
    def is_there(self) -> bool:
        return bool(self.files) or self.manifest is not None


@dataclass(frozen=True, slots=True)
class QuarantineStore:
    """Reads and writes manifests, and moves files into quarantine and back."""

    fs: FileSystem
    paths: TablePaths

    def ids(self) -> list[str]:
        """Names of the folders of quarantines, oldest first; a folder may be empty."""
        return self.fs.list_subdirs(self.paths.quarantine_dir)

    def listed(self, quarantine_id: str) -> Listed:
        """List one quarantine."""
        folder = self.paths.quarantine(quarantine_id)
        files: dict[str, FileStatus] = {}
        manifest = None
        unfinished = []
        for status in self.fs.list_tree(folder):
            name = status.path.removeprefix(f"{folder}/")
            if name.startswith(_FILES):
                files[name.removeprefix(_FILES)] = status
            elif name == "manifest.json":
                manifest = status
            elif UNFINISHED.fullmatch(status.name):
                unfinished.append(status)
        return Listed(files, manifest, tuple(unfinished))

    def unfinished_elsewhere(self) -> Iterator[FileStatus]:
        """Temporary files that were never renamed, in the hidden folder beside the quarantines."""
        hidden, quarantines = self.paths.upkeep_dir, self.paths.quarantine_dir
        others = [f"{hidden}/{name}" for name in self.fs.list_subdirs(hidden)]
        listed = [self.fs.list_dir(hidden), self.fs.list_dir(quarantines)]
        listed += [self.fs.list_tree(folder) for folder in others if folder != quarantines]
        return (each for some in listed for each in some if UNFINISHED.fullmatch(each.name))

    def folders(self, quarantine_id: str) -> list[str]:
        """The folders of a quarantine, on stores with folders."""
        found = [self.paths.quarantine(quarantine_id)]
        # The list grows during the loop, so that nested folders are visited too.
        for folder in found:
            found += [f"{folder}/{name}" for name in self.fs.list_subdirs(folder)]
        return found

    def put_manifest(self, quarantine_id: str, manifest: QuarantineManifest) -> bool:
        """Begin a quarantine; False if the id is taken."""
        path = self.paths.quarantine_manifest(quarantine_id)
        if self.fs.put_if_absent(path, encode_quarantine(manifest)):
            return True
        # Ids are unique: an equal manifest is ours, and the store's answer was lost.
        return self.read_manifest(quarantine_id) == manifest

    def read_manifest(self, quarantine_id: str) -> QuarantineManifest | None:
        """The manifest of a quarantine, None without a manifest.

        Raises:
            UnreadableManifest: the file exists and is not a manifest.
        """
        path = self.paths.quarantine_manifest(quarantine_id)
        try:
            return decode_quarantine(self.fs.read_bytes(path), name=path)
        except FileMissing:
            return None

    def has_manifest(self, quarantine_id: str) -> bool:
        return self.fs.exists(self.paths.quarantine_manifest(quarantine_id))

    def set_aside(self, quarantine_id: str, path: str) -> bool:
        """Move a file of the table into quarantine; False if it did not exist."""
        target = self.paths.quarantined(quarantine_id, path)
        try:
            return self.fs.move_if_absent(self.paths.below(path), target)
        except FileMissing:
            # If two processes move a file at once, both may succeed with copies, and the original
            # is gone.
            return self.fs.exists(target)

    def put_back(self, quarantine_id: str, path: str) -> bool:
        """Move a file back; False if its place is taken.

        Raises:
            FileMissing: the file is no longer in quarantine.
        """
        source = self.paths.quarantined(quarantine_id, path)
        try:
            return self.fs.move_if_absent(source, self.paths.below(path))
        except FileMissing:
            if not self.fs.exists(source):
                raise
        # Another process removed the empty folder meanwhile.
        return self.fs.move_if_absent(source, self.paths.below(path))

    def size_and_crc32(self, path: str) -> tuple[int, int]:
        """A file's size in bytes and its checksum.

        Raises:
            FileMissing: the file does not exist.
        """
        size, value = 0, 0
        for piece in self._pieces(path):
            size, value = size + len(piece), zlib.crc32(piece, value)
        return size, value

    def is_same(self, one: str, other: str) -> bool:
        """Whether two files hold the same bytes.

        Raises:
            FileMissing: one file does not exist.
        """
        pairs = zip_longest(self._pieces(one), self._pieces(other))
        return all(left == right for left, right in pairs)

    def there(self, paths: Iterable[str]) -> dict[str, FileStatus]:
        """Of some paths below the table, those with a file; lists their folders."""
        wanted: dict[str, set[str]] = {}
        for path in paths:
            folder, _, name = self.paths.below(path).rpartition("/")
            wanted.setdefault(folder, set()).add(name)
        below = f"{self.paths.root}/"
        return {
            status.path.removeprefix(below): status
            for folder, names in wanted.items()
            for status in self._named(folder, names)
        }

    def _named(self, folder: str, names: Collection[str]) -> list[FileStatus]:
        return [status for status in self.fs.list_dir(folder) if status.name in names]

    def _pieces(self, path: str) -> Iterator[bytes]:
        with closing(self.fs.open_input(path)) as source:
            while piece := source.read(_PIECE_BYTES):
                yield piece
