"""Snapshot and schema files of one table."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from collections.abc import Set as AbstractSet
from contextlib import suppress
from dataclasses import dataclass
from functools import partial
from operator import itemgetter

from lakewright.storage.codec.schema_json import decode_schema, encode_schema
from lakewright.storage.codec.snapshot_json import (
    decode_snapshot,
    encode_snapshot,
)
from lakewright.storage.env import FileStatus, FileSystem
from lakewright.storage.errors import (
    FileMissing,
    SchemaMoved,
    SchemaNotFound,
    SnapshotNotFound,
    TableNotFound,
    UnsupportedError,
)
from lakewright.storage.files.paths import TablePaths, numbered, whole_number
from lakewright.storage.files.put_files import put_new, set_content
from lakewright.storage.files.rounds import Rounds
from lakewright.storage.files.schema_registry import SchemaRegistry
from lakewright.storage.files.seen_files import SeenFiles
from lakewright.storage.files.table_server import PartitionDelta, TableServer
from lakewright.storage.spec.schema import TableSchema
from lakewright.storage.spec.schema_difference import differences
from lakewright.storage.spec.snapshot import FIRST_SNAPSHOT_ID, Snapshot


@dataclass(frozen=True, slots=True)
class SchemaStore:
    """Schema files: versions 0, 1, 2, …; the highest is current.

    A registry, such as Hive's metastore, repeats the current one for others. It may refuse a
    version, so it gets the schema before the file exists. A server makes all versions itself.
    """

    fs: FileSystem
    paths: TablePaths
    registry: SchemaRegistry | None = None
    server: TableServer | None = None

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
            SchemaNotFound: the file is listed, and cannot be found.
        """
        latest_id = self.latest_id(table=table)
        while True:
            try:
                return self.read(latest_id)
            except SchemaNotFound:
                # An alter takes its version back if a fast-forward replaced the one before it.
                listed_id, latest_id = latest_id, self.latest_id(table=table)
                if latest_id == listed_id:
                    raise

    def latest_id(self, *, table: str) -> int:
        """The id of the current schema.

        Raises:
            TableNotFound: no schema file exists, and so no table.
        """
        ids = self.ids()
        if not ids:
            raise TableNotFound(f"table {table} does not exist at {self.paths.root}")
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
            InvalidRequestError, UnsupportedError: the registry or the server refuses the schema,
                and no file is created.
            SchemaMoved: the server made another schema of the change.
        """
        if self.server is not None:
            return self._put_by(self.server, schema)
        known = self.ids() if self.registry is not None else []
        if self.registry is not None and known and schema.id > known[-1]:
            self.registry.tell(schema, self.read(known[-1]))
        try:
            return put_new(self.fs, self.paths.schema(schema.id), encode_schema(schema))
        finally:
            self.tell_latest()

    def _put_by(self, server: TableServer, schema: TableSchema) -> bool:
        if self.paths.branch:
            raise UnsupportedError(
                f"the schema of branch {self.paths.branch} is made by the server of a REST catalog,"
                " and to alter a branch there is not implemented"
            )
        former = self.latest(table=self.paths.root)
        if schema.id != former.id + 1 or not server.alter(former, schema):
            return False
        made = self.read(schema.id)
        if told := "; ".join(map(str, differences(schema, made))):
            raise SchemaMoved(
                f"schema {schema.id} at {self.paths.root} is not the one that was asked for: "
                f"{told}; another client altered the table at that moment, or the server does it "
                "in another way: open the table and look"
            )
        return True

    def tell_latest(self) -> None:
        """Let the registry, if there is one, repeat the latest version that is there now."""
        if self.registry is not None:
            self.registry.follow(lambda: self.latest(table=self.paths.root))

    def read_file(self, schema_id: int) -> bytes:
        """The bytes of one version's file."""
        return self.fs.read_bytes(self.paths.schema(schema_id))

    def restore(self, schema_id: int, schema_file: bytes) -> None:
        """Overwrite a version with the file of another branch."""
        set_content(self.fs, self.paths.schema(schema_id), schema_file)


@dataclass(frozen=True, slots=True)
class SnapshotStore:
    """Snapshot files, and the hints that save listing them.

    A hint may be wrong: LATEST counts only if no later snapshot exists, EARLIEST only if its
    snapshot exists. A server says itself which snapshot is the latest, and makes each.
    """

    fs: FileSystem
    paths: TablePaths
    # Its name, for what people are told.
    table: str = ""
    seen: SeenFiles | None = None
    server: TableServer | None = None

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
        if self.server is not None:
            found = self.latest_file()
            return None if found is None else found[0]
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

    def latest(self) -> Snapshot | None:
        """The current snapshot, None for a table without commits."""
        found = self.latest_file()
        return None if found is None else self._decode(*found)

    def latest_file(self) -> tuple[int, bytes] | None:
        """The id and the bytes of the current snapshot, None for a table without commits."""
        if self.server is not None:
            data = self.server.latest()
            name = f"the latest snapshot of {self.table}"
            return None if data is None else (decode_snapshot(data, name=name).id, data)
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

    def read_all(self, *, but: AbstractSet[FileStatus] = frozenset()) -> list[Snapshot]:
        """The snapshots in order, without some files and those deleted during the call."""
        found = []
        for snapshot_id, status in self.listed().items():
            if status in but:
                continue
            read = partial(self.read, snapshot_id)
            with suppress(SnapshotNotFound):
                found.append(read() if self.seen is None else self.seen.read(status, read))
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

    def put_snapshot(
        self, snapshot: Snapshot, base: Snapshot | None, deltas: Sequence[PartitionDelta]
    ) -> bool:
        """Make the snapshot visible; False if its id is taken, or a server has another base.

        Only a server looks at the base, and takes the deltas.
        """
        if self.server is not None:
            return self.server.commit(snapshot, base, deltas)
        return self.fs.put_if_absent(self.paths.snapshot(snapshot.id), encode_snapshot(snapshot))

    def restore(self, snapshot_id: int, snapshot_file: bytes) -> None:
        """Overwrite a snapshot with the file of a tag or of another branch."""
        set_content(self.fs, self.paths.snapshot(snapshot_id), snapshot_file)

    def put_back(self, snapshot_id: int, snapshot_file: bytes) -> bool:
        """Create a deleted snapshot's file again; False if another snapshot has its id."""
        path = self.paths.snapshot(snapshot_id)
        with suppress(FileMissing):
            created = self.fs.put_if_absent(path, snapshot_file)
            return created or self.fs.read_bytes(path) == snapshot_file
        return False

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

    def hinted_latest(self) -> int | None:
        """The content of the hint LATEST, unchecked."""
        return self._hint(self.paths.latest_hint)

    def hint_latest(self, snapshot_id: int) -> None:
        if self.server is not None:
            # The server gives the hint with the snapshot.
            return
        self.fs.replace(self.paths.latest_hint, str(snapshot_id).encode())

    def hint_earliest(self, snapshot_id: int) -> None:
        self.fs.replace(self.paths.earliest_hint, str(snapshot_id).encode())

    def _hint(self, path: str) -> int | None:
        try:
            text = self.fs.read_bytes(path)
        except FileMissing:
            return None
        return whole_number(text.strip().decode("ascii", errors="replace"))
