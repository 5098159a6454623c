"""Snapshot, schema, tag and consumer files of one table."""

from __future__ import annotations

import json
from collections.abc import Iterator
from dataclasses import dataclass, replace

from lakewright.storage.codec.schema_json import decode_schema, encode_schema
from lakewright.storage.codec.snapshot_json import decode_snapshot, encode_snapshot
from lakewright.storage.env import FileSystem
from lakewright.storage.errors import (
    CorruptionError,
    FileMissing,
    SchemaNotFound,
    SnapshotNotFound,
    TableNotFound,
)
from lakewright.storage.files.paths import TablePaths, numbered
from lakewright.storage.spec.schema import TableSchema
from lakewright.storage.spec.snapshot import FIRST_SNAPSHOT_ID, Snapshot


@dataclass(frozen=True, slots=True)
class SchemaStore:
    """Schema files: versions 0, 1, 2, … of which the highest is current."""

    fs: FileSystem
    paths: TablePaths

    def ids(self) -> list[int]:
        names = (status.name for status in self.fs.list_dir(self.paths.schema_dir))
        return sorted(number for name in names if (number := numbered(name, "schema-")) is not None)

    def latest(self, *, table: str) -> TableSchema:
        """The current schema.

        Raises:
            TableNotFound: there is no schema file, and so no table.
        """
        ids = self.ids()
        if not ids:
            raise TableNotFound(f"table {table} does not exist at {self.paths.root}", table=table)
        return self.read(ids[-1])

    def read(self, schema_id: int) -> TableSchema:
        """One version.

        Raises:
            SchemaNotFound: there is no such file.
        """
        path = self.paths.schema(schema_id)
        try:
            return decode_schema(self.fs.read_bytes(path), name=path)
        except FileMissing as error:
            raise SchemaNotFound(
                f"schema {schema_id} is missing at {path}; files written with it cannot be read"
            ) from error

    def put_schema(self, schema: TableSchema) -> bool:
        """Create the schema's file; False if that version exists already."""
        return self.fs.put_if_absent(self.paths.schema(schema.id), encode_schema(schema))


@dataclass(frozen=True, slots=True)
class SnapshotStore:
    """Snapshot files, and the hints that save listing them.

    A hint may be wrong: LATEST is believed only if no later snapshot exists,
    EARLIEST only if its snapshot does.
    """

    fs: FileSystem
    paths: TablePaths

    def ids(self) -> list[int]:
        """Every snapshot there is, in order."""
        names = (status.name for status in self.fs.list_dir(self.paths.snapshot_dir))
        found = (numbered(name, "snapshot-") for name in names)
        return sorted(number for number in found if number is not None)

    def latest_id(self) -> int | None:
        hint = self._hint(self.paths.latest_hint)
        if (
            hint is not None
            and not self.exists(hint + 1)
            and (hint >= FIRST_SNAPSHOT_ID and self.exists(hint))
        ):
            return hint
        ids = self.ids()
        return ids[-1] if ids else None

    def earliest_id(self) -> int | None:
        hint = self._hint(self.paths.earliest_hint)
        if hint is not None and self.exists(hint):
            return hint
        ids = self.ids()
        return ids[0] if ids else None

    def latest(self) -> Snapshot | None:
        """The current snapshot, None for a table nobody has committed to."""
        while True:
            latest_id = self.latest_id()
            if latest_id is None:
                return None
            try:
                return self.read(latest_id)
            except SnapshotNotFound:
                # It was expired between the listing and the read, so there is a later one.
                if self.latest_id() == latest_id:
                    raise

    def read(self, snapshot_id: int) -> Snapshot:
        """One snapshot.

        Raises:
            SnapshotNotFound: it is not there, or no more; the message says which there are.
        """
        path = self.paths.snapshot(snapshot_id)
        try:
            return decode_snapshot(self.fs.read_bytes(path), name=path)
        except FileMissing as error:
            ids = self.ids()
            there = f"there are {ids[0]} to {ids[-1]}" if ids else "the table has none"
            raise SnapshotNotFound(
                f"snapshot {snapshot_id} does not exist in {self.paths.root}; {there}",
                snapshot_id=snapshot_id,
            ) from error

    def exists(self, snapshot_id: int) -> bool:
        return self.fs.exists(self.paths.snapshot(snapshot_id))

    def put_snapshot(self, snapshot: Snapshot) -> bool:
        """Make the snapshot visible; False if another has taken its id."""
        return self.fs.put_if_absent(self.paths.snapshot(snapshot.id), encode_snapshot(snapshot))

    def newest_first(self) -> Iterator[Snapshot]:
        """Snapshots from the latest to the earliest; those that vanish meanwhile are left out."""
        for snapshot_id in reversed(self.ids()):
            try:
                yield self.read(snapshot_id)
            except SnapshotNotFound:
                continue

    def hint_latest(self, snapshot_id: int) -> None:
        self.fs.replace(self.paths.latest_hint, str(snapshot_id).encode())

    def hint_earliest(self, snapshot_id: int) -> None:
        self.fs.replace(self.paths.earliest_hint, str(snapshot_id).encode())

    def _hint(self, path: str) -> int | None:
        try:
            text = self.fs.read_bytes(path)
        except FileMissing:
            return None
        return int(text) if text.strip().isdigit() else None


@dataclass(frozen=True, slots=True)
class ReferenceStore:
    """What keeps snapshots alive besides being recent: tags, branches, consumers, changelogs."""

    fs: FileSystem
    paths: TablePaths

    def tags(self) -> dict[str, Snapshot]:
        """Tagged snapshots by tag name; every one must be readable, since expiry trusts this."""
        return {
            status.name.removeprefix("tag-"): decode_snapshot(
                self.fs.read_bytes(status.path), name=status.path
            )
            for status in self.fs.list_dir(self.paths.tag_dir)
            if status.name.startswith("tag-")
        }

    def consumers(self) -> dict[str, int]:
        """The next snapshot each consumer wants to read."""
        positions = {}
        for status in self.fs.list_dir(self.paths.consumer_dir):
            if status.name.startswith("consumer-"):
                data = self.fs.read_bytes(status.path)
                try:
                    position = int(json.loads(data)["nextSnapshot"])
                except (ValueError, KeyError, TypeError) as error:
                    raise CorruptionError(f"{status.path} is no consumer: {error!r}") from error
                positions[status.name.removeprefix("consumer-")] = position
        return positions

    def branches(self) -> dict[str, TablePaths]:
        """Paths of every branch, by its name."""
        names = self.fs.list_subdirs(self.paths.branch_dir)
        return {
            name.removeprefix("branch-"): replace(self.paths, branch=name.removeprefix("branch-"))
            for name in names
            if name.startswith("branch-")
        }

    def changelogs(self) -> list[Snapshot]:
        """Long-lived changelogs: snapshots that outlive expiry for their changes' sake."""
        return [
            decode_snapshot(self.fs.read_bytes(status.path), name=status.path)
            for status in self.fs.list_dir(self.paths.changelog_dir)
            if numbered(status.name, "changelog-") is not None
        ]
