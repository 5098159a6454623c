"""The data files that hold a table's values: of its latest snapshot, its tags and its branches."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import suppress
from dataclasses import dataclass, field
from functools import cached_property

from lakewright.storage.errors import SnapshotNotFound
from lakewright.storage.files.table_files import TableFiles
from lakewright.storage.operations.state.branch_files import whole_branches
from lakewright.storage.operations.state.file_schemas import FileSchemas
from lakewright.storage.operations.state.live_files import (
    deletions_by_bucket,
    index_entries,
    live_entries,
)
from lakewright.storage.spec.index import DeletionVectorRange
from lakewright.storage.spec.manifest import DataFileMeta, ManifestEntry
from lakewright.storage.spec.reference_names import MAIN_BRANCH
from lakewright.storage.spec.snapshot import Snapshot


@dataclass
class StoredFile:
    """A data file, the branch that sees it, and what holds it.

    `is_live` if the latest snapshot of the own branch holds it. `deletions` is the place of its
    deletion vector: of the latest snapshot, else of the first tag or branch that holds it.
    """

    seen: TableFiles
    entry: ManifestEntry
    deletions: tuple[str, DeletionVectorRange] | None
    is_live: bool
    tags: list[str] = field(default_factory=list)
    branches: list[str] = field(default_factory=list)

    @property
    def file(self) -> DataFileMeta:
        return self.entry.file

    @property
    def partition(self) -> str:
        """Its folder, empty in a table without partition keys."""
        return self.seen.partitions.of_entry(self.entry).path


class StoredFiles:
    """All files that hold values of a table; each manifest is read once.

    Tags of other branches are left out: what only they hold is not read through this schema.
    """

    def __init__(self, files: TableFiles) -> None:
        self._files = files.reading_once()
        self._schemas: dict[str, FileSchemas] = {}

    @cached_property
    def _latest(self) -> Snapshot | None:
        return self._files.snapshots.latest()

    def is_outdated(self) -> bool:
        """Whether the files were read, and there is another snapshot now."""
        return "_latest" in vars(self) and self._files.snapshots.latest() != self._latest

    @cached_property
    def live(self) -> list[ManifestEntry]:
        """The files of the latest snapshot."""
        return live_entries(self._files, self._latest)

    @cached_property
    def of_latest(self) -> list[StoredFile]:
        """The files of the latest snapshot, with their deletion vectors."""
        return list(_held(self._files, self._latest, self.live))

    @cached_property
    def all(self) -> list[StoredFile]:
        """The files of the latest snapshot, then those that only tags or branches hold."""
        found = {each.file.file_name: each for each in self.of_latest}
        for tag in self._files.references.tags().values():
            self._add(found, self._files, tag.snapshot, tag=tag.name)
        for seen in whole_branches(self._files):
            name = seen.paths.branch
            if name != self._files.paths.branch:
                with suppress(SnapshotNotFound):
                    self._add(found, seen, seen.snapshots.latest(), branch=name or MAIN_BRANCH)
        return list(found.values())

    def _add(
        self,
        found: dict[str, StoredFile],
        seen: TableFiles,
        snapshot: Snapshot | None,
        *,
        tag: str | None = None,
        branch: str | None = None,
    ) -> None:
        for each in _held(seen, snapshot, live_entries(seen, snapshot), is_live=False):
            known = found.setdefault(each.file.file_name, each)
            known.tags += [] if tag is None else [tag]
            known.branches += [] if branch is None else [branch]

    def schemas_of(self, stored: StoredFile) -> FileSchemas:
        """The schemas of the branch that sees a file, and the bounds in its statistics."""
        branch = stored.seen.paths.branch
        if branch not in self._schemas:
            self._schemas[branch] = FileSchemas(stored.seen)
        return self._schemas[branch]


def _held(
    seen: TableFiles,
    snapshot: Snapshot | None,
    entries: list[ManifestEntry],
    *,
    is_live: bool = True,
) -> Iterator[StoredFile]:
    vectors = {
        where.data_file: (name, where)
        for of_bucket in deletions_by_bucket(index_entries(seen, snapshot)).values()
        for name, where in of_bucket
    }
    for entry in entries:
        vector = vectors.get(entry.file.file_name)
        yield StoredFile(seen=seen, entry=entry, deletions=vector, is_live=is_live)
