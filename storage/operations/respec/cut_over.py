"""The cut-over: gives a table other partition keys, by metadata alone.

The new keys begin with the present ones, or the present ones with the new.

1. Write the manifests of the whole under the new keys; no snapshot names them yet (`prepared.py`).
   Writers go on, and what they commit is added in small manifests.
2. Commit the base with rows of the longer list, and with the place of each file. Every client
   reads these rows under either list, since it decodes the first values of a row.
3. If no other commit followed, create the schema with the new keys. From that moment the table has
   them.
4. Commit the base with rows of the new keys, in a snapshot of the new schema.
5. Compare the files of the last snapshot with those from before the first.

Lakewright's committers wait from 2 to 4: where keys come, rows tell them, and where keys go, a
property of the snapshot. That time does not depend on the number of files. Committers end a change
whose process died. Clients that opened the table before 3 may still commit rows of the former keys;
the next committer restates them.

In a data file that names its schema, Java Paimon takes the partition columns from the row, at
their places in the keys of that schema. So an entry whose schema has other first keys names a
schema with the new keys and the same columns.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

import pyarrow as pa
import pyarrow.compute as pc

from lakewright.storage.errors import (
    CommitConflictError,
    CorruptionError,
    SnapshotNotFound,
    VerificationFailed,
)
from lakewright.storage.files.table_files import TableFiles
from lakewright.storage.operations.commit.commit_loop import commit_bridging
from lakewright.storage.operations.respec.prepared import Prepared, SeveralValues
from lakewright.storage.operations.respec.schemas import Schemas, put_schemas
from lakewright.storage.operations.state.latest import is_latest, read_latest
from lakewright.storage.operations.state.live_columns import told_files
from lakewright.storage.operations.state.partition_filter import PartitionFilter
from lakewright.storage.operations.state.table_state import TableState
from lakewright.storage.spec.commit import Change, CommitResult
from lakewright.storage.spec.snapshot import Snapshot

# How often the first snapshot is made again because another commit followed it.
_MOST_ROUNDS = 20


@dataclass(frozen=True, slots=True)
class CutOver:
    """The table with its new keys, the snapshots made, and how many files were restated."""

    files_now: TableFiles
    snapshot_ids: tuple[int, ...]
    files: int


@dataclass(frozen=True, slots=True)
class _Step:
    """A snapshot of the cut-over, and the one that it followed."""

    before: Snapshot
    snapshot: Snapshot


def cut_over(prepared: Prepared) -> CutOver:
    """Give a table the keys for which its manifests are prepared.

    Raises:
        SeveralValues: a file must be split first; nothing has changed.
        SchemaMoved: another client changed the schema meanwhile.
        CommitConflictError: other clients commit faster than the cut-over.
        VerificationFailed: the new keys are there, and the files are not those of before.
    """
    files, keys = prepared.files, prepared.keys
    old = files.schema.partition_keys
    if files.snapshots.latest() is None:
        return CutOver(put_schemas(files, keys, Schemas.of(files, keys, ())), (), 0)
    prepared.catch_up()
    steps: list[_Step] = []
    now = _put_new_keys(prepared, steps)
    prepared.files = now
    try:
        steps.append(_publish(now, prepared, wide=False))
    except SeveralValues:
        # Rows of more keys are right under the former keys, too.
        put_schemas(now, old, Schemas.of(now, old, ()))
        raise
    _check_files_stayed(now, steps)
    return CutOver(now, tuple(step.snapshot.id for step in steps), prepared.file_count)


def _put_new_keys(prepared: Prepared, steps: list[_Step]) -> TableFiles:
    """Commit wide rows, until no other commit follows them, and create the schema."""
    files, keys = prepared.files, prepared.keys
    for _ in range(_MOST_ROUNDS):
        steps.append(_publish(files, prepared, wide=True))
        if is_latest(files, steps[-1].snapshot):
            return put_schemas(files, keys, prepared.schemas)
    raise CommitConflictError(
        f"other clients committed to {files.name} {_MOST_ROUNDS} times between the two "
        "steps of the change of its partition keys; run it again when fewer writers commit"
    )


def _publish(files: TableFiles, prepared: Prepared, *, wide: bool) -> _Step:
    """Commit prepared manifests, with what others commit until then."""
    followed: list[Snapshot] = []

    def build(state: TableState) -> Change | None:
        latest = state.snapshot
        if latest is None:
            return None
        followed[:] = [latest]
        change = prepared.wide_change if wide else prepared.exact_change
        return change(latest, state.indexes)

    change_id = files.env.new_id()
    if wide and len(prepared.keys) < len(files.schema.partition_keys):
        # Rows of keys that go tell no writer to wait.
        files = replace(files, holding=change_id)
    snapshot = commit_bridging(files, build, user=change_id).snapshot
    assert snapshot is not None
    prepared.published(snapshot, wide=wide)
    return _Step(followed[0], snapshot)


def _check_files_stayed(files: TableFiles, steps: list[_Step]) -> None:
    """Check that snapshots hold the files of those that they followed; writers wait no more."""
    first, last = steps[-2:] if len(steps) > 1 else (steps[-1], steps[-1])
    compared = [(first.before, last.snapshot)]
    if first.snapshot.id != last.before.id:
        # Another client committed in between.
        compared = [(each.before, each.snapshot) for each in (first, last)]
    for before, after in compared:
        try:
            due, found = (files_of(files, each) for each in (before, after))
            # What a client that knew the former keys removed is gone now.
            if due.num_rows > found.num_rows and (
                gone := TableState(files, before).removed_in_vain
            ):
                due = due.filter(pc.invert(pc.is_in(due[NAME], pa.array(sorted(gone)))))
        except (CorruptionError, SnapshotNotFound):
            # Expired or rolled back since. What was prepared was compared as it was written.
            continue
        if not due.equals(found):
            raise VerificationFailed(
                f"snapshot {after.id} of {files.name} holds {found.num_rows} files under the keys "
                f"{', '.join(files.schema.partition_keys) or 'none'} where snapshot {before.id} "
                f"held {due.num_rows}, or others; roll back (lakewright rollback {files.name} "
                f"--snapshot {before.id}), and report it"
            )


def files_of(files: TableFiles, snapshot: Snapshot) -> pa.Table:
    """What tells the files of a snapshot from others, in an order of their own."""
    live = TableState(files, snapshot).columns_of(PartitionFilter(files))
    return told_files(live, [NAME], _NUMBERS)


NAME = "_FILE._FILE_NAME"
_NUMBERS = ("_BUCKET", "_FILE._LEVEL", "_FILE._FILE_SIZE", "_FILE._ROW_COUNT")


def hold_writers(files: TableFiles) -> CommitResult:
    """Commit a snapshot of the same files after which other committers wait; see `holding`."""
    return commit_bridging(files, same_files)


def same_files(state: TableState) -> Change | None:
    """A change that leaves all files as they are."""
    if state.snapshot is None:
        return None
    return Change(manifests=state.manifests, statistics=state.snapshot.statistics)


def keys_stand(files: TableFiles) -> bool:
    """Whether the latest snapshot has the keys: its schema, each manifest and each live file."""
    return read_latest(files, lambda latest: stands(TableState(files, latest)))[1]


def stands(state: TableState) -> bool:
    """Whether a state has the keys."""
    files, latest = state.files, state.snapshot
    if latest is None:
        return True
    ids = {latest.schema_id, *(meta.schema_id for meta in state.manifests)}
    names = {files.at_schema(each).schema.partition_keys for each in ids}
    return names == {files.schema.partition_keys} and state.is_settled
