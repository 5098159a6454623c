"""Stamps: whether a table is the one of before, with the same schemas and latest snapshot."""

from __future__ import annotations

from dataclasses import dataclass

from lakewright.storage.env import FileStatus, FileSystem
from lakewright.storage.files.metadata_stores import SchemaStore, SnapshotStore
from lakewright.storage.files.paths import TablePaths
from lakewright.storage.files.seen_files import is_settled


@dataclass(frozen=True, slots=True)
class TableStamp:
    """The schema files of a table as they are listed, and the file of its latest snapshot.

    A commit, a rollback, an alter, and a table that was dropped and created again give another one.
    """

    schemas: tuple[FileStatus, ...]
    snapshot: tuple[int, bytes] | None

    def is_settled(self, now_ms: int) -> bool:
        """Whether every other schema file of the same names would be listed otherwise."""
        return bool(self.schemas) and all(is_settled(schema, now_ms) for schema in self.schemas)


def table_stamp(fs: FileSystem, path: str) -> TableStamp:
    """The stamp of the table in a folder; a folder without schemas has none in it.

    Raises:
        StorageError: the store does not answer, or the latest snapshot is nowhere.
    """
    paths = TablePaths(path)
    schemas = tuple(SchemaStore(fs, paths).listed().values())
    return TableStamp(schemas, SnapshotStore(fs, paths).latest_file())
