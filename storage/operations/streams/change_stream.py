"""Follows a table: all its rows, then the changes of later snapshots, from position to position.

1. A position is a snapshot that was read. A stream begins with all rows of the table, or with the
   changes after a snapshot, or where its consumer stands.
2. A consumer keeps the snapshots that the stream still needs, and moves when rows are safe. Until
   its first move it says that all rows come first, since its position does not.
3. If the snapshot of a position is not the one that was read, a rollback came in between, or the
   table is another one of that name: the stream fails, since it has told rows that are gone.

Source: Paimon specification, chapter Consumer ID.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from lakewright.storage.errors import (
    InvalidRequestError,
    SnapshotNotFound,
    StalePlan,
    UnsupportedError,
)
from lakewright.storage.files.table_files import TableFiles
from lakewright.storage.operations.changes.change_plan import ChangePlan
from lakewright.storage.operations.changes.change_read import CHANGE_ORDER_COLUMN, ChangeReader
from lakewright.storage.operations.changes.stream_plan import (
    check_streamable,
    first_needed,
    plan_stream,
)
from lakewright.storage.operations.references.consumers import set_consumer
from lakewright.storage.spec.arguments import whole_or_none
from lakewright.storage.spec.snapshot import FIRST_SNAPSHOT_ID

_SNAPSHOT, _COMMIT, _TABLE = "snapshot", "commit", "table"
_BEGIN_ANEW = (
    "begin a new stream, with a new checkpoint (and a new consumer, if it has one), into an empty "
    "target, which would keep rows that are gone"
)
# A snapshot with the commit that made it and the table's time, as JSON.
Position = Mapping[str, Any]


@dataclass(frozen=True)
class ChangeStream:
    """What a stream reads: columns of a table, after a snapshot (None: all rows first)."""

    files: TableFiles
    columns: tuple[str, ...]
    after: int | None
    consumer: str | None

    @property
    def beginning(self) -> dict[str, Any]:
        """The position before the first batch."""
        after = self.after or 0
        try:
            if after > 0:
                return position_at(self.files, after)
        except SnapshotNotFound:
            # A consumer keeps the snapshot after this one.
            pass
        return {_SNAPSHOT: after, _COMMIT: "", _TABLE: _table_id(self.files)}

    def reached(self, start: Position, until: int | None = None) -> Position:
        """The position of the latest snapshot, or of `until`; `start` if nothing came.

        Raises:
            StalePlan: the table was rolled back behind the position, or made anew.
        """
        latest = self.files.snapshots.latest_id() or 0
        check_position(self.files, start, latest)
        latest = latest if until is None else min(latest, until)
        return position_at(self.files, latest) if latest > snapshot_of(start) else start

    def plan(self, start: Position, end: Position) -> ChangePlan | None:
        """The changes between two positions, None if they are one.

        Raises:
            SnapshotNotFound: a snapshot that is needed expired.
        """
        first, last = snapshot_of(start), snapshot_of(end)
        return None if first == last else plan_stream(self.files, first, last)

    def reader(self, snapshot_ids: Sequence[int], *, ordered: bool) -> ChangeReader:
        """What reads the splits of a plan; `ordered` rows have their order last."""
        return ChangeReader(
            self.files,
            columns=self.columns,
            predicate=None,
            snapshot_ids=snapshot_ids,
            ordered=ordered,
        )

    def move_consumer(self, end: Position) -> None:
        """Let go of the snapshots before a position, whose rows are safe."""
        if self.consumer is not None:
            needed = first_needed(self.files, snapshot_of(end))
            self.files.references.set_consumer(self.consumer, needed)


def position_at(files: TableFiles, snapshot_id: int) -> dict[str, Any]:
    """The position of a snapshot, with what it rests on; 0 is before all of them."""
    commit = ""
    if snapshot_id:
        commit = files.snapshots.read(snapshot_id).delta_manifest_list
    return {_SNAPSHOT: snapshot_id, _COMMIT: commit, _TABLE: _table_id(files)}


def check_position(files: TableFiles, start: Position, latest: int) -> None:
    """Check that the history that a position was read from is still the table's.

    Raises:
        StalePlan: the table was rolled back behind the position, or made anew.
    """
    read, table = snapshot_of(start), _table_id(files)
    # Checkpoints of earlier releases do not tell the table.
    if start.get(_TABLE, table) != table:
        raise StalePlan(
            f"{files.name} was dropped and created again since the stream began, so rows that "
            "it delivered are gone, and the first rows of the table would be skipped; "
            f"{_BEGIN_ANEW}"
        )
    try:
        is_same = not start.get(_COMMIT) or (
            files.snapshots.read(read).delta_manifest_list == start[_COMMIT]
        )
    except SnapshotNotFound:
        # An expired snapshot was read, and later ones follow it.
        is_same = latest >= read
    if not is_same:
        raise StalePlan(
            f"{files.name} was rolled back behind snapshot {read}, which the stream has read, so "
            f"rows that it delivered are gone; {_BEGIN_ANEW}"
        )


def _table_id(files: TableFiles) -> int:
    """When the table was created: one that is dropped and created again has another time."""
    return files.schemas.read(files.schemas.ids()[0]).time_millis


def open_stream(
    files: TableFiles,
    *,
    after: int | None = None,
    consumer: str | None = None,
    columns: Sequence[str] | None = None,
) -> ChangeStream:
    """What a stream reads, and from where; a new consumer holds its snapshots from now on.

    Raises:
        InvalidRequestError: `after` is beyond the latest snapshot.
        UnsupportedError: a stream cannot tell what the options of the table want.
    """
    check_streamable(files)
    names = tuple(files.schema.names_of(columns))
    if CHANGE_ORDER_COLUMN in names:
        raise UnsupportedError(
            f"{files.name} has a column {CHANGE_ORDER_COLUMN}, and a stream of it a column of that "
            "name with the order of the changes; name the columns to read without it, or rename it"
        )
    after, latest = whole_or_none(after, "after", minimum=0), files.snapshots.latest_id() or 0
    if after is not None and after > latest:
        raise InvalidRequestError(
            f"a stream of {files.name} cannot begin after snapshot {after}; the latest is {latest}"
        )
    if consumer is not None:
        position = files.references.consumers().get(consumer)
        if position is None:
            earliest = files.snapshots.earliest_id() or FIRST_SNAPSHOT_ID
            begins = earliest if after is None else first_needed(files, after)
            set_consumer(files, consumer, begins, without_rows=after is None)
        elif after is None and consumer not in files.references.consumers_without_rows():
            after = position - 1
    return ChangeStream(files, names, after, consumer)


def snapshot_of(position: Position) -> int:
    """The snapshot of a position."""
    found = position[_SNAPSHOT]
    assert isinstance(found, int)
    return found
