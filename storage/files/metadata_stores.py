"""Snapshot, schema, tag, branch, consumer and changelog files of one table."""

from __future__ import annotations

import json
from collections.abc import Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from functools import partial
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
from lakewright.storage.files.schema_registry import SchemaRegistry
from lakewright.storage.files.seen_files import SeenFiles
from lakewright.storage.spec.schema import TableSchema
from lakewright.storage.spec.snapshot import FIRST_SNAPSHOT_ID, Snapshot
from lakewright.storage.spec.tag import Tag

# What Paimon's clients do not know in a consumer's file, they pass over.
_WITHOUT_ROWS = "withoutRows"


@dataclass(frozen=True, slots=True)
class SchemaStore:
    """Schema files: versions 0, 1, 2, …; the highest is current.

    A registry, such as Hive's metastore, repeats the current one for others. It may refuse a
    version, so it is told before the file exists.
    """

    fs: FileSystem
    paths: TablePaths
    registry: SchemaRegistry | None = None

    def ids(self) -> list[int]:
        return list(self.listed())

    def listed(self) -> dict[int, FileStatus]:
        """All versions, in the order of their ids."""
        found = {
            number: status
            for status in self.fs.list_dir(self.paths.schema_dir)
            if (number := numbered(status.name, "schema-")) is not None
        }
        return dict(sorted(found.items()))

    def latest(self, *, table: str) -> TableSchema:
        """The current schema.

        Raises:
            TableNotFound: no schema file exists, and so no table.
        """
        return self.read(self.latest_id(table=table))

    def latest_id(self, *, table: str) -> int:
        """The id of the current schema.

        Raises:
            TableNotFound: no schema file exists, and so no table.
        """
        ids = self.ids()
        if not ids:
            raise TableNotFound(f"table {table} does not exist at {self.paths.root}", table=table)
        return ids[-1]

    def read(self, schema_id: int) -> TableSchema:
        """One version.

        Raises:
            SchemaNotFound: no such file exists.
        """
        path = self.paths.schema(schema_id)
        try:
            return decode_schema(self.fs.read_bytes(path), name=path, schema_id=schema_id)
        except FileMissing as error:
            raise SchemaNotFound(
                f"schema {schema_id} is missing at {path}; files written with it cannot be read"
            ) from error

    def exists(self, schema_id: int) -> bool:
        return self.fs.exists(self.paths.schema(schema_id))

    def put_schema(self, schema: TableSchema) -> bool:
        """Create the schema's file; False if that version exists.

        Raises:
            InvalidRequestError: the registry refuses the schema, and no file is created.
        """
        known = self.ids() if self.registry is not None else []
        if self.registry is not None and known and schema.id > known[-1]:
            self.registry.tell(schema, self.read(known[-1]))
        try:
            return _put_new(self.fs, self.paths.schema(schema.id), encode_schema(schema))
        finally:
            self.tell_latest()

    def tell_latest(self) -> None:
        """Let the registry, if there is one, repeat the latest version that is there now."""
        if self.registry is not None:
            self.registry.follow(lambda: self.latest(table=self.paths.root))

    def read_file(self, schema_id: int) -> bytes:
        """The bytes of one version's file."""
        return self.fs.read_bytes(self.paths.schema(schema_id))

    def restore(self, schema_id: int, schema_file: bytes) -> None:
        """Overwrite a version with the file of another branch."""
        _set_content(self.fs, self.paths.schema(schema_id), schema_file)


@dataclass(frozen=True, slots=True)
class SnapshotStore:
    """Snapshot files, and the hints that save listing them.

    A hint may be wrong: LATEST counts only if no later snapshot exists, EARLIEST only if its
    snapshot exists.
    """

    fs: FileSystem
    paths: TablePaths
    # Its name, for what people are told.
    table: str = ""
    seen: SeenFiles | None = None

    def ids(self) -> list[int]:
        """The ids of all snapshot files, in order."""
        return list(self.listed())

    def listed(self) -> dict[int, FileStatus]:
        """All snapshot files, in the order of their ids."""
        found = [
            (number, status)
            for status in self.fs.list_dir(self.paths.snapshot_dir)
            if (number := numbered(status.name, "snapshot-")) is not None
        ]
        return dict(sorted(found, key=itemgetter(0)))

    def latest_id(self) -> int | None:
        hint = self._last_hinted()
        if hint is not None and self.exists(hint):
            return hint
        ids = self.ids()
        return ids[-1] if ids else None

    def _last_hinted(self) -> int | None:
        """The id that LATEST holds if no later snapshot exists; its own may not exist either."""
        hint = self._hint(self.paths.latest_hint)
        is_last = hint is not None and hint >= FIRST_SNAPSHOT_ID and not self.exists(hint + 1)
        return hint if is_last else None

    def earliest_id(self) -> int | None:
        hint = self._hint(self.paths.earliest_hint)
        if hint is not None and self.exists(hint):
            return hint
        ids = self.ids()
        return ids[0] if ids else None

    def kept_ids(self) -> list[int]:
        """The ids of snapshots from EARLIEST on, in order: no expiry has begun to delete these.

        An expiring process sets EARLIEST to the first snapshot that stays before it deletes
        anything, so earlier snapshots may have lost files.
        """
        return self.kept_of(self.ids())

    def kept_of(self, ids: Sequence[int]) -> list[int]:
        """Of existing snapshots, the ones from EARLIEST on, in order."""
        hint = self._hint(self.paths.earliest_hint)
        first = hint if hint in ids else None
        return list(ids) if first is None else [each for each in ids if each >= first]

    def latest(self) -> Snapshot | None:
        """The current snapshot, None for a table without commits."""
        found = self.latest_file()
        return None if found is None else self._decode(*found)

    def latest_file(self) -> tuple[int, bytes] | None:
        """The id and the bytes of the current snapshot, None for a table without commits."""
        missing: int | None = None
        rounds = Rounds(self.table or self.paths.root, "its latest snapshot was read")
        while True:
            rounds.begin()
            with suppress(SnapshotNotFound):
                if (hint := self._last_hinted()) is not None:
                    return hint, self.read_file(hint)
            ids = self.ids()
            if not ids:
                return None
            latest_id = ids[-1]
            try:
                return latest_id, self.read_file(latest_id)
            except SnapshotNotFound:
                # An expiry deleted it, so a later snapshot exists; or a rollback did, so an earlier
                # one exists, or the rollback was undone.
                if latest_id == missing and not self.exists(latest_id):
                    raise
                missing = latest_id

    def read(self, snapshot_id: int) -> Snapshot:
        """One snapshot.

        Raises:
            SnapshotNotFound: the snapshot does not exist; the message lists the existing ids.
        """
        return self._decode(snapshot_id, self.read_file(snapshot_id))

    def _decode(self, snapshot_id: int, data: bytes) -> Snapshot:
        return decode_snapshot(data, name=self.paths.snapshot(snapshot_id), snapshot_id=snapshot_id)

    def read_kept(self) -> list[Snapshot]:
        """The snapshots from EARLIEST on, in order, without those deleted during the call."""
        listed, found = self.listed(), []
        for snapshot_id in self.kept_of(list(listed)):
            read = partial(self.read, snapshot_id)
            with suppress(SnapshotNotFound):
                found.append(
                    read() if self.seen is None else self.seen.read(listed[snapshot_id], read)
                )
        return found

    def read_file(self, snapshot_id: int) -> bytes:
        """The bytes of one snapshot's file.

        Raises:
            SnapshotNotFound: the snapshot does not exist; the message lists the existing ids.
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
        """Make the snapshot visible; False if its id is taken."""
        return self.fs.put_if_absent(self.paths.snapshot(snapshot.id), encode_snapshot(snapshot))

    def restore(self, snapshot_id: int, snapshot_file: bytes) -> None:
        """Overwrite a snapshot with the file of a tag or of another branch."""
        _set_content(self.fs, self.paths.snapshot(snapshot_id), snapshot_file)

    def put_back(self, snapshot_id: int, snapshot_file: bytes) -> bool:
        """Create a deleted snapshot's file again; False if its id is taken."""
        return self.fs.put_if_absent(self.paths.snapshot(snapshot_id), snapshot_file)

    def newest_first(self) -> Iterator[Snapshot]:
        """Snapshots from the latest to the earliest, without those deleted during the iteration."""
        for snapshot_id in reversed(self.ids()):
            try:
                yield self.read(snapshot_id)
            except SnapshotNotFound:
                continue

    def back_from(self, latest: Snapshot) -> Iterator[Snapshot]:
        """A snapshot and its predecessors, newest first; missing ids are skipped."""
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
        """The content of the hint EARLIEST, unchecked."""
        return self._hint(self.paths.earliest_hint)

    def hinted_latest(self) -> int | None:
        """The content of the hint LATEST, unchecked."""
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
    """References that keep snapshots or their changes: tags, branches, consumers, changelogs."""

    fs: FileSystem
    paths: TablePaths
    # Its name, for what people are told.
    table: str = ""
    seen: SeenFiles | None = None

    def tags(self) -> dict[str, Tag]:
        """Tags by name, in the order of their snapshots.

        Every tag must be readable, since expiry relies on this list; tags deleted during the call
        are left out.
        """
        found = []
        for status in self.fs.list_dir(self.paths.tag_dir):
            if not status.name.startswith("tag-"):
                continue
            read = partial(self.tag, status.name.removeprefix("tag-"))
            with suppress(TagNotFound):
                found.append(read() if self.seen is None else self.seen.read(status, read))
        found.sort(key=lambda tag: (tag.snapshot.id, tag.name))
        return {tag.name: tag for tag in found}

    def tag_names(self) -> list[str]:
        names = (status.name for status in self.fs.list_dir(self.paths.tag_dir))
        return sorted(name.removeprefix("tag-") for name in names if name.startswith("tag-"))

    def tag_modified_ms(self) -> dict[str, int]:
        """The time of the last write of each tag's file, by the store's clock."""
        return _modified_ms(self.fs, self.paths.tag_dir, "tag-")

    def tag(self, name: str) -> Tag:
        """One tag.

        Raises:
            TagNotFound: no tag has that name; the message lists the existing tags.
        """
        return self._decode_tag(name, self.read_tag_file(name))

    def read_tag_file(self, name: str) -> bytes:
        """The bytes of one tag's file.

        Raises:
            TagNotFound: no tag has that name; the message lists the existing tags.
        """
        try:
            return self.fs.read_bytes(self.paths.tag(name))
        except FileMissing as error:
            raise TagNotFound(
                f"no tag {name} in {self.table or self.paths.metadata_root}; "
                f"{_those_there(self.tag_names())}"
            ) from error

    def read_tagged_snapshot_file(self, name: str) -> bytes:
        """The snapshot file in a tag, in a form that can become a snapshot again.

        Raises:
            TagNotFound: no tag has that name.
        """
        tag_file = self.read_tag_file(name)
        changelog = self._decode_tag(name, tag_file).snapshot.changelog_manifest_list
        # The changelog was deleted when the snapshot expired.
        there = changelog is not None and self.fs.exists(self.paths.manifest(changelog))
        return snapshot_file_of_tag(tag_file, has_changelog=there)

    def put_tag(self, name: str, tag_file: bytes) -> bool:
        """Create a tag; False if the name is taken."""
        return _put_new(self.fs, self.paths.tag(name), tag_file)

    def replace_tag(self, name: str, tag_file: bytes) -> None:
        """Point an existing tag at another snapshot."""
        _set_content(self.fs, self.paths.tag(name), tag_file)

    def _decode_tag(self, name: str, data: bytes) -> Tag:
        return decode_tag(data, tag_name=name, name=self.paths.tag(name))

    def consumers(self) -> dict[str, int]:
        """The next snapshot of each consumer, without consumers deleted during the call."""
        return {name: position for name, (position, _) in self._consumers().items()}

    def consumers_without_rows(self) -> frozenset[str]:
        """Consumers whose reader begins with all rows of the table, and has not read them."""
        return frozenset(name for name, (_, has_none) in self._consumers().items() if has_none)

    def _consumers(self) -> dict[str, tuple[int, bool]]:
        found = {}
        for status in self.fs.list_dir(self.paths.consumer_dir):
            if status.name.startswith("consumer-"):
                try:
                    data = self.fs.read_bytes(status.path)
                except FileMissing:
                    continue
                try:
                    read = read_object(data)
                    position = as_whole(read["nextSnapshot"])
                except (ValueError, KeyError) as error:
                    raise CorruptionError(
                        f"{status.path} is not a consumer: {error!r}; delete the consumer, or let "
                        "it write its position again",
                        path=status.path,
                    ) from error
                has_none = read.get(_WITHOUT_ROWS) is True
                found[status.name.removeprefix("consumer-")] = position, has_none
        return found

    def consumer_modified_ms(self) -> dict[str, int]:
        """The time of each consumer's last progress, by the store's clock."""
        return _modified_ms(self.fs, self.paths.consumer_dir, "consumer-")

    def set_consumer(self, name: str, next_snapshot_id: int, *, without_rows: bool = False) -> None:
        """Set a position; `without_rows` says that the reader lacks all rows before it as well."""
        content: dict[str, object] = {"nextSnapshot": next_snapshot_id}
        if without_rows:
            content[_WITHOUT_ROWS] = True
        data = json.dumps(content, indent=2).encode()
        self.fs.replace(self.paths.consumer(name), data)

    def set_back_consumers(self, names: Sequence[str], next_snapshot_id: int) -> None:
        """Set consumers to an earlier snapshot; the rows that they lack, they lack still."""
        without_rows = self.consumers_without_rows() if names else frozenset()
        for name in names:
            self.set_consumer(name, next_snapshot_id, without_rows=name in without_rows)

    def branches(self) -> dict[str, TablePaths]:
        """The paths of every branch by name, including half-made and half-deleted branches."""
        names = self.fs.list_subdirs(self.paths.branch_dir)
        return {
            name.removeprefix("branch-"): replace(self.paths, branch=name.removeprefix("branch-"))
            for name in names
            if name.startswith("branch-")
        }

    def changelog_ids(self) -> list[int]:
        """The ids of snapshots with a long-lived changelog, in order."""
        names = (status.name for status in self.fs.list_dir(self.paths.changelog_dir))
        found = (numbered(name, "changelog-") for name in names)
        return sorted(number for number in found if number is not None)

    def changelogs(self) -> list[Snapshot]:
        """Long-lived changelogs, oldest first: snapshots whose changes outlive their expiry.

        Changelogs expired during the call are left out.
        """
        found = []
        for status in self.fs.list_dir(self.paths.changelog_dir):
            snapshot_id = numbered(status.name, "changelog-")
            if snapshot_id is None:
                continue
            read = partial(self._changelog, status.path, snapshot_id)
            with suppress(FileMissing):
                found.append(read() if self.seen is None else self.seen.read(status, read))
        return sorted(found, key=lambda changelog: changelog.id)

    def _changelog(self, path: str, snapshot_id: int) -> Snapshot:
        return decode_snapshot(self.fs.read_bytes(path), name=path, snapshot_id=snapshot_id)

    def put_changelog(self, snapshot_id: int, snapshot_file: bytes) -> None:
        """Keep the changes of a snapshot beyond its expiry."""
        _set_content(self.fs, self.paths.changelog(snapshot_id), snapshot_file)

    def hint_changelogs(self, *, earliest: int | None = None, latest: int | None = None) -> None:
        if earliest is not None:
            self.fs.replace(self.paths.changelog_earliest_hint, str(earliest).encode())
        if latest is not None:
            self.fs.replace(self.paths.changelog_latest_hint, str(latest).encode())


def _put_new(fs: FileSystem, path: str, data: bytes) -> bool:
    """Create a file; False if it exists.

    A file that appears meanwhile with the same bytes is ours: the store's answer was lost, and the
    client sent the request again.
    """
    if fs.exists(path):
        return False
    return fs.put_if_absent(path, data) or fs.read_bytes(path) == data


def _set_content(fs: FileSystem, path: str, data: bytes) -> None:
    """Write a file unless it has that content."""
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
