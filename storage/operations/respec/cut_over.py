"""The cut-over: gives a table other partition keys, by metadata alone.

The new keys begin with the present ones, or the present ones with the new.

1. Commit the base with rows of the longer list, and with the place of each file. Every client
   reads these rows under either list, since it decodes the first values of a row.
2. If no other commit followed, create the schema with the new keys. From that moment the table has
   them.
3. Commit the base with rows of the new keys, in a snapshot of the new schema.

Lakewright's committers wait from 1 to 3, and end a change whose process died. Clients that opened
the table before 2 may still commit rows of the former keys; the next committer restates them.

In a data file that names its schema, Java Paimon takes the partition columns from the row, at
their places in the keys of that schema. So an entry whose schema has other first keys names a
schema with the new keys and the same columns.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import partial

from lakewright.storage.errors import CommitConflictError, VerificationFailed
from lakewright.storage.files.table_files import TableFiles
from lakewright.storage.operations.commit.commit_loop import restate
from lakewright.storage.operations.commit.restated_base import (
    Restatement,
    has_rows_of,
    schemas_with_keys,
)
from lakewright.storage.operations.read.key_values import KeyValues
from lakewright.storage.operations.respec.schemas import Schemas, schema_ids, with_keys
from lakewright.storage.operations.running.engine import Engine
from lakewright.storage.operations.state.latest import is_latest, read_latest
from lakewright.storage.operations.state.live_files import live_entries, snapshot_manifests
from lakewright.storage.spec.manifest import ManifestEntry
from lakewright.storage.spec.partition import PartitionKeys
from lakewright.storage.spec.snapshot import Snapshot
from lakewright.storage.spec.values import Value

# How often the first snapshot is made again because another commit followed it.
_MOST_ROUNDS = 20


class SeveralValues(CommitConflictError):
    """A live file holds several values of the new keys; it must be split first."""


@dataclass(frozen=True, slots=True)
class CutOver:
    """The table with its new keys, the snapshots made, and how many files were restated."""

    files_now: TableFiles
    snapshot_ids: tuple[int, ...]
    files: int


def cut_over(
    files: TableFiles, keys: tuple[str, ...], values: KeyValues, engine: Engine
) -> CutOver:
    """Give a table the keys.

    Raises:
        SeveralValues: a file must be split first; nothing has changed.
        SchemaMoved: another client changed the schema meanwhile.
        CommitConflictError: other clients commit faster than the cut-over.
    """
    old = files.schema.partition_keys
    if files.snapshots.latest() is None:
        return CutOver(with_keys(files, keys, Schemas.of(files, keys, ())), (), 0)
    made: list[int] = []
    now = files
    if keys != old:
        # Rows of keys that go are the longer ones already, and those of other clients are theirs.
        wide = _keys_of(files, keys) if len(keys) > len(old) else None
        for _ in range(_MOST_ROUNDS):
            snapshot, entries = _restate(files, wide, values, engine, {})
            made.append(snapshot.id)
            schemas = Schemas.of(files, keys, entries)
            if is_latest(files, snapshot):
                now = with_keys(files, keys, schemas)
                break
        else:
            raise CommitConflictError(
                f"other clients committed to {files.name} {_MOST_ROUNDS} times between the two "
                "steps of the change of its partition keys; run it again when fewer writers commit",
                table=files.name,
            )
        ids = schemas.ids
    else:
        _, entries = read_latest(files, partial(live_entries, files))
        found = schemas_with_keys(files, schema_ids(entries))
        ids = {each: alike for each, alike in found.items() if alike is not None}
    if not ids and keys_stand(now):
        return CutOver(now, tuple(made), len(entries))
    try:
        snapshot, entries = _restate(now, now.partitions.keys, values, engine, ids)
    except SeveralValues:
        if keys != old:
            # Rows of more keys are right under the former keys, too.
            with_keys(now, old, Schemas.of(now, old, ()))
        raise
    made.append(snapshot.id)
    return CutOver(now, tuple(made), len(entries))


def keys_stand(files: TableFiles) -> bool:
    """Whether the latest snapshot has the keys: its schema, and each manifest's rows.

    A row tells how many keys it has, and the schema of its manifest which ones.
    """
    _, stand = read_latest(files, partial(_stand, files))
    return stand


def _stand(files: TableFiles, latest: Snapshot | None) -> bool:
    if latest is None:
        return True
    keys = files.partitions.keys
    metas = snapshot_manifests(files, latest)
    ids = {latest.schema_id, *(meta.schema_id for meta in metas)}
    names = {files.at_schema(each).schema.partition_keys for each in ids}
    return names == {keys.names} and has_rows_of(metas, keys)


def _keys_of(files: TableFiles, names: Sequence[str]) -> PartitionKeys:
    """Keys that the present schema does not have yet."""
    return replace(files.partitions.keys, fields=files.schema.fields_of(names))


def _restate(
    files: TableFiles,
    keys: PartitionKeys | None,
    values: KeyValues,
    engine: Engine,
    schemas: dict[int, int],
) -> tuple[Snapshot, list[ManifestEntry]]:
    """Commit the latest state with rows of the keys; returns the snapshot and its entries."""
    known = _Known(files, values if keys is not None else None, engine)
    result = restate(
        files,
        Restatement(
            files=files,
            keys=keys,
            values_of=known.of,
            schemas=schemas,
            run_id=files.env.new_id(),
        ),
    )
    assert result.snapshot is not None
    entries = live_entries(files, result.snapshot)
    known.check(entries, files, result.snapshot)
    return result.snapshot, entries


class _Known:
    """The values that rows of entries do not tell, and what the entries were before."""

    def __init__(self, files: TableFiles, values: KeyValues | None, engine: Engine) -> None:
        self._files = files
        self._values = values
        self._engine = engine
        self._before: list[ManifestEntry] = []

    def of(self, entries: Sequence[ManifestEntry]) -> dict[str, dict[str, Value]]:
        """The values by file name and column.

        Raises:
            SeveralValues: a file holds several.
        """
        self._before = list(entries)
        if self._values is None:
            return {}
        self._values.look(entries, self._engine)
        found: dict[str, dict[str, Value]] = {}
        for entry in entries:
            single = self._values.single(entry.file)
            if single is None:
                names = ", ".join(each.name for each in self._values.fields)
                raise SeveralValues(
                    f"data file {entry.file.file_name} of {self._files.name} holds several values "
                    f"of {names}",
                    table=self._files.name,
                )
            found[entry.file.file_name] = dict(single)
        return found

    def check(self, after: Sequence[ManifestEntry], files: TableFiles, snapshot: Snapshot) -> None:
        """Check that the snapshot, as it is read back, holds the same files, each once."""
        before = sorted(map(_told, self._before))
        if sorted(map(_told, after)) != before:
            raise VerificationFailed(
                f"snapshot {snapshot.id} of {files.name} holds {len(after)} files where "
                f"{len(before)} were restated, or others; roll back to snapshot {snapshot.id - 1}",
                table=files.name,
            )


def _told(entry: ManifestEntry) -> tuple[str, int, int, int]:
    file = entry.file
    return file.file_name, entry.bucket, file.file_size, file.row_count
