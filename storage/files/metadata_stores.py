"""Snapshot, schema, tag, branch, consumer and changelog files of one table."""

from __future__ import annotations

import json
from collections.abc import Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from operator import itemgetter

from lakewright.storage.codec.json_values import as_whole, read_object
from lakewright.storage.codec.schema_json import decode_schema, encode_schema
from lakewright.storage.codec.snapshot_json import (
    decode_snapshot,
    decode_tag,
    encode_snapshot,
    snapshot_file_of_tag,
)
from lakewright.storage.env import FileStatus, FileSystem
from lakewright.storage.errors import (
    CorruptionError,
    FileMissing,
    SchemaNotFound,
    SnapshotNotFound,
    TableNotFound,
    TagNotFound,
)
from lakewright.storage.files.paths import TablePaths, numbered, whole_number
from lakewright.storage.files.rounds import Rounds
from lakewright.storage.spec.schema import TableSchema
from lakewright.storage.spec.snapshot import FIRST_SNAPSHOT_ID, Snapshot
from lakewright.storage.spec.tag import Tag


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
            return decode_schema(self.fs.read_bytes(path), name=path, schema_id=schema_id)
        except FileMissing as error:
            raise SchemaNotFound(
                f"schema {schema_id} is missing at {path}; files written with it cannot be read"
            ) from error

    def put_schema(self, schema: TableSchema) -> bool:
        """Create the schema's file; False if that version exists already."""
        return _put_new(self.fs, self.paths.schema(schema.id), encode_schema(schema))

    def read_file(self, schema_id: int) -> bytes:
        """The file of one version, as it is."""
        return self.fs.read_bytes(self.paths.schema(schema_id))

    def restore(self, schema_id: int, schema_file: bytes) -> None:
        """Make a version what another branch has under its number."""
        _set_content(self.fs, self.paths.schema(schema_id), schema_file)


@dataclass(frozen=True, slots=True)
class SnapshotStore:
    """Snapshot files, and the hints that save listing them.

    A hint may be wrong: LATEST is believed only if no later snapshot exists,
    EARLIEST only if its snapshot does.
    """

    fs: FileSystem
    paths: TablePaths
    # Its name, for what people are told.
    table: str = ""

    def ids(self) -> list[int]:
        """Every snapshot there is, in order."""
        return list(self.listed())

    def listed(self) -> dict[int, FileStatus]:
        """The files of every snapshot there is, in the order of their ids."""
        found = [
            (number, status)
            for status in self.fs.list_dir(self.paths.snapshot_dir)
            if (number := numbered(status.name, "snapshot-")) is not None
        ]
        return dict(sorted(found, key=itemgetter(0)))

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

    def kept_ids(self) -> list[int]:
        """Every snapshot that no expiry has begun to take: those from EARLIEST on, in order.

        An expiry points EARLIEST at the first that stays before it deletes anything, so those
        before it may have lost files already.
        """
        return self.kept_of(self.ids())

    def kept_of(self, ids: Sequence[int]) -> list[int]:
        """Those of the snapshots there are that no expiry has begun to take, in order."""
        hint = self._hint(self.paths.earliest_hint)
        first = hint if hint in ids else None
        return list(ids) if first is None else [each for each in ids if each >= first]

    def latest(self) -> Snapshot | None:
        """The current snapshot, None for a table nobody has committed to."""
        missing: int | None = None
        rounds = Rounds(self.table or self.paths.root, "its latest snapshot was read")
        while True:
            rounds.begin()
            latest_id = self.latest_id()
            if latest_id is None:
                return None
            try:
                return self.read(latest_id)
            except SnapshotNotFound:
                # An expiry took it, so there is a later one; or a rollback, so there is an earlier
                # one, or it is back by now.
                if latest_id == missing and not self.exists(latest_id):
                    raise
                missing = latest_id

    def read(self, snapshot_id: int) -> Snapshot:
        """One snapshot.

        Raises:
            SnapshotNotFound: it is not there, or no more; the message says which there are.
        """
        return decode_snapshot(
            self.read_file(snapshot_id),
            name=self.paths.snapshot(snapshot_id),
            snapshot_id=snapshot_id,
        )

    def read_file(self, snapshot_id: int) -> bytes:
        """The file of one snapshot, as it is.

        Raises:
            SnapshotNotFound: it is not there, or no more; the message says which there are.
        """
        try:
            return self.fs.read_bytes(self.paths.snapshot(snapshot_id))
        except FileMissing as error:
            ids = self.ids()
            there = f"there are {ids[0]} to {ids[-1]}" if ids else "the table has none"
            where = self.table or self.paths.root
            raise SnapshotNotFound(
                f"snapshot {snapshot_id} does not exist in {where}; {there}",
                snapshot_id=snapshot_id,
            ) from error

    def exists(self, snapshot_id: int) -> bool:
        return self.fs.exists(self.paths.snapshot(snapshot_id))

    def put_snapshot(self, snapshot: Snapshot) -> bool:
        """Make the snapshot visible; False if another has taken its id."""
        return self.fs.put_if_absent(self.paths.snapshot(snapshot.id), encode_snapshot(snapshot))

    def restore(self, snapshot_id: int, snapshot_file: bytes) -> None:
        """Make a snapshot what a tag or another branch has under its id."""
        _set_content(self.fs, self.paths.snapshot(snapshot_id), snapshot_file)

    def put_back(self, snapshot_id: int, snapshot_file: bytes) -> bool:
        """Let a snapshot that was taken away be there again; False if another has its id."""
        return self.fs.put_if_absent(self.paths.snapshot(snapshot_id), snapshot_file)

    def newest_first(self) -> Iterator[Snapshot]:
        """Snapshots from the latest to the earliest; those that vanish meanwhile are left out."""
        for snapshot_id in reversed(self.ids()):
            try:
                yield self.read(snapshot_id)
            except SnapshotNotFound:
                continue

    def back_from(self, latest: Snapshot) -> Iterator[Snapshot]:
        """A snapshot and those before it, the last first; ids that are missing are left out."""
        yield latest
        snapshot_id = latest.id - 1
        while snapshot_id >= FIRST_SNAPSHOT_ID:
            try:
                snapshot = self.read(snapshot_id)
            except SnapshotNotFound:
                snapshot_id = max((each for each in self.ids() if each < snapshot_id), default=0)
                continue
            yield snapshot
            snapshot_id -= 1

    def hinted_earliest(self) -> int | None:
        """What EARLIEST says, be it true or not."""
        return self._hint(self.paths.earliest_hint)

    def hinted_latest(self) -> int | None:
        """What LATEST says, be it true or not."""
        return self._hint(self.paths.latest_hint)

    def hint_latest(self, snapshot_id: int) -> None:
        self.fs.replace(self.paths.latest_hint, str(snapshot_id).encode())

    def hint_earliest(self, snapshot_id: int) -> None:
        self.fs.replace(self.paths.earliest_hint, str(snapshot_id).encode())

    def _hint(self, path: str) -> int | None:
        try:
            text = self.fs.read_bytes(path)
        except FileMissing:
            return None
        return whole_number(text.strip().decode("ascii", errors="replace"))


@dataclass(frozen=True, slots=True)
class ReferenceStore:
    """What keeps snapshots alive besides being recent: tags, branches, consumers, changelogs."""

    fs: FileSystem
    paths: TablePaths
    # Its name, for what people are told.
    table: str = ""

    def tags(self) -> dict[str, Tag]:
        """Tags by name, in the order of their snapshots.

        Every one must be readable, since expiry trusts this; one that somebody deletes meanwhile
        is left out.
        """
        found = []
        for name in self.tag_names():
            try:
                found.append(self._decode_tag(name, self.read_tag_file(name)))
            except TagNotFound:
                continue
        found.sort(key=lambda tag: (tag.snapshot.id, tag.name))
        return {tag.name: tag for tag in found}

    def tag_names(self) -> list[str]:
        names = (status.name for status in self.fs.list_dir(self.paths.tag_dir))
        return sorted(name.removeprefix("tag-") for name in names if name.startswith("tag-"))

    def tag_modified_ms(self) -> dict[str, int]:
        """When each tag's file was written, by the store's clock."""
        return _modified_ms(self.fs, self.paths.tag_dir, "tag-")

    def tag(self, name: str) -> Tag:
        """One tag.

        Raises:
            TagNotFound: there is none of that name; the message lists those there are.
        """
        return self._decode_tag(name, self.read_tag_file(name))

    def read_tag_file(self, name: str) -> bytes:
        """The file of one tag, as it is.

        Raises:
            TagNotFound: there is none of that name; the message lists those there are.
        """
        try:
            return self.fs.read_bytes(self.paths.tag(name))
        except FileMissing as error:
            raise TagNotFound(
                f"no tag {name} in {self.table or self.paths.metadata_root}; "
                f"{_those_there(self.tag_names())}"
            ) from error

    def read_tagged_snapshot_file(self, name: str) -> bytes:
        """The snapshot file that a tag holds, fit to be a snapshot again.

        Raises:
            TagNotFound: there is none of that name.
        """
        tag_file = self.read_tag_file(name)
        changelog = self._decode_tag(name, tag_file).snapshot.changelog_manifest_list
        # It went when the snapshot expired.
        there = changelog is not None and self.fs.exists(self.paths.manifest(changelog))
        return snapshot_file_of_tag(tag_file, has_changelog=there)

    def put_tag(self, name: str, tag_file: bytes) -> bool:
        """Create a tag; False if there is one of that name."""
        return _put_new(self.fs, self.paths.tag(name), tag_file)

    def replace_tag(self, name: str, tag_file: bytes) -> None:
        """Let a name stand for another snapshot from now on."""
        _set_content(self.fs, self.paths.tag(name), tag_file)

    def _decode_tag(self, name: str, data: bytes) -> Tag:
        return decode_tag(data, tag_name=name, name=self.paths.tag(name))

    def consumers(self) -> dict[str, int]:
        """The next snapshot each consumer wants to read; without those deleted meanwhile."""
        positions = {}
        for status in self.fs.list_dir(self.paths.consumer_dir):
            if status.name.startswith("consumer-"):
                try:
                    data = self.fs.read_bytes(status.path)
                except FileMissing:
                    continue
                try:
                    position = as_whole(read_object(data)["nextSnapshot"])
                except (ValueError, KeyError) as error:
                    raise CorruptionError(
                        f"{status.path} is no consumer: {error!r}; delete the consumer, or let it "
                        "say again where it is",
                        path=status.path,
                    ) from error
                positions[status.name.removeprefix("consumer-")] = position
        return positions

    def consumer_modified_ms(self) -> dict[str, int]:
        """When each consumer moved last, by the store's clock."""
        return _modified_ms(self.fs, self.paths.consumer_dir, "consumer-")

    def set_consumer(self, name: str, next_snapshot_id: int) -> None:
        data = json.dumps({"nextSnapshot": next_snapshot_id}, indent=2).encode()
        self.fs.replace(self.paths.consumer(name), data)

    def branches(self) -> dict[str, TablePaths]:
        """Paths of every branch, by its name; also of one that is half made or half deleted."""
        names = self.fs.list_subdirs(self.paths.branch_dir)
        return {
            name.removeprefix("branch-"): replace(self.paths, branch=name.removeprefix("branch-"))
            for name in names
            if name.startswith("branch-")
        }

    def changelog_ids(self) -> list[int]:
        """Of which snapshots there are long-lived changelogs, in order."""
        names = (status.name for status in self.fs.list_dir(self.paths.changelog_dir))
        found = (numbered(name, "changelog-") for name in names)
        return sorted(number for number in found if number is not None)

    def changelogs(self) -> list[Snapshot]:
        """Long-lived changelogs, oldest first: snapshots that outlive expiry for their changes.

        One that somebody expires meanwhile is left out.
        """
        found = []
        for status in self.fs.list_dir(self.paths.changelog_dir):
            snapshot_id = numbered(status.name, "changelog-")
            if snapshot_id is None:
                continue
            with suppress(FileMissing):
                data = self.fs.read_bytes(status.path)
                found.append(decode_snapshot(data, name=status.path, snapshot_id=snapshot_id))
        return sorted(found, key=lambda changelog: changelog.id)

    def put_changelog(self, snapshot_id: int, snapshot_file: bytes) -> None:
        """Let the changes of a snapshot outlive it."""
        _set_content(self.fs, self.paths.changelog(snapshot_id), snapshot_file)

    def hint_changelogs(self, *, earliest: int | None = None, latest: int | None = None) -> None:
        if earliest is not None:
            self.fs.replace(self.paths.changelog_earliest_hint, str(earliest).encode())
        if latest is not None:
            self.fs.replace(self.paths.changelog_latest_hint, str(latest).encode())


def _put_new(fs: FileSystem, path: str, data: bytes) -> bool:
    """Create a file; False if there was one.

    One that appears just then and is what we wrote is ours: its answer was lost, and the request
    was sent again.
    """
    if fs.exists(path):
        return False
    return fs.put_if_absent(path, data) or fs.read_bytes(path) == data


def _set_content(fs: FileSystem, path: str, data: bytes) -> None:
    """Write a file unless it is what it should be already."""
    if not fs.exists(path) or fs.read_bytes(path) != data:
        fs.replace(path, data)


def _modified_ms(fs: FileSystem, folder: str, prefix: str) -> dict[str, int]:
    return {
        status.name.removeprefix(prefix): status.modified_ms
        for status in fs.list_dir(folder)
        if status.name.startswith(prefix)
    }


def _those_there(names: Sequence[str]) -> str:
    return f"there are {', '.join(names)}" if names else "there are none"
