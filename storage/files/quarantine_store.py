"""Quarantines of one table: a folder each, with a manifest and the files at their old paths.

    <table>/.lakewright/quarantine/<id>/manifest.json
    <table>/.lakewright/quarantine/<id>/files/<path below the table>

Readers of the format, their removals of orphans among them, look into no such folder.
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
_SET_ASIDE = re.compile(r"([^/]+)/files/(.+)")
_MANIFEST = re.compile(r"([^/]+)/manifest\.json")
# What a store writes before it gives a file its name.
UNFINISHED = re.compile(r"\.[^/]+\.tmp")


@dataclass(frozen=True, slots=True)
class Listed:
    """What lies below the folder of quarantines.

    `files` are by their quarantine and by their path below the table; `unfinished` are what a
    store had not given its name yet, anywhere beside the table.
    """

    files: dict[str, dict[str, FileStatus]]
    manifests: dict[str, FileStatus]
    unfinished: tuple[FileStatus, ...]


@dataclass(frozen=True, slots=True)
class QuarantineStore:
    """Manifests, and files on their way in and out."""

    fs: FileSystem
    paths: TablePaths

    def listed(self, quarantine_id: str | None = None) -> Listed:
        """What there is: of one quarantine, or of all and whatever else lies beside the table."""
        files: dict[str, dict[str, FileStatus]] = {}
        manifests: dict[str, FileStatus] = {}
        unfinished = []
        paths = self.paths
        folder = paths.upkeep_dir if quarantine_id is None else paths.quarantine(quarantine_id)
        for status in self.fs.list_tree(folder):
            name = status.path.removeprefix(f"{paths.quarantine_dir}/")
            if (found := _SET_ASIDE.fullmatch(name)) is not None:
                files.setdefault(found[1], {})[found[2]] = status
            elif (found := _MANIFEST.fullmatch(name)) is not None:
                manifests[found[1]] = status
            elif UNFINISHED.fullmatch(status.name):
                unfinished.append(status)
        return Listed(files, manifests, tuple(unfinished))

    def folders(self, quarantine_id: str) -> list[str]:
        """Folders of a quarantine, on stores that have any."""
        found = [self.paths.quarantine(quarantine_id)]
        # Grows while it is looked at: folders within folders are looked into too.
        for folder in found:
            found += [f"{folder}/{name}" for name in self.fs.list_subdirs(folder)]
        return found

    def put_manifest(self, quarantine_id: str, manifest: QuarantineManifest) -> bool:
        """Begin a quarantine; False if there is one of that id."""
        path = self.paths.quarantine_manifest(quarantine_id)
        if self.fs.put_if_absent(path, encode_quarantine(manifest)):
            return True
        # Nobody else draws this id: what says the same is ours, and the answer to it was lost.
        return self.read_manifest(quarantine_id) == manifest

    def read_manifest(self, quarantine_id: str) -> QuarantineManifest | None:
        """What was to be set aside, None where nothing says.

        Raises:
            UnreadableManifest: the file is there and holds something else.
        """
        path = self.paths.quarantine_manifest(quarantine_id)
        try:
            return decode_quarantine(self.fs.read_bytes(path), name=path)
        except FileMissing:
            return None

    def has_manifest(self, quarantine_id: str) -> bool:
        return self.fs.exists(self.paths.quarantine_manifest(quarantine_id))

    def set_aside(self, quarantine_id: str, path: str) -> bool:
        """Move a file of the table in; False if it was gone already."""
        target = self.paths.quarantined(quarantine_id, path)
        try:
            return self.fs.move_if_absent(self.paths.below(path), target)
        except FileMissing:
            # Where two move a file at once, each may end with one, and neither with the first.
            return self.fs.exists(target)

    def put_back(self, quarantine_id: str, path: str) -> bool:
        """Move a file back; False if there is one in its place.

        Raises:
            FileMissing: it is not in quarantine any more.
        """
        source = self.paths.quarantined(quarantine_id, path)
        try:
            return self.fs.move_if_absent(source, self.paths.below(path))
        except FileMissing:
            if not self.fs.exists(source):
                raise
        # Its folder was taken away as empty on the way.
        return self.fs.move_if_absent(source, self.paths.below(path))

    def size_and_crc32(self, path: str) -> tuple[int, int]:
        """How many bytes a file holds, and their checksum.

        Raises:
            FileMissing: it is not there.
        """
        size, value = 0, 0
        for piece in self._pieces(path):
            size, value = size + len(piece), zlib.crc32(piece, value)
        return size, value

    def is_same(self, one: str, other: str) -> bool:
        """Whether two files hold the same bytes.

        Raises:
            FileMissing: one is not there.
        """
        pairs = zip_longest(self._pieces(one), self._pieces(other))
        return all(left == right for left, right in pairs)

    def there(self, paths: Iterable[str]) -> dict[str, FileStatus]:
        """Of some paths below the table those where there is a file; lists their folders."""
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
