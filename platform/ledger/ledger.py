"""The ledger: a table of the warehouse with a row for each action of upkeep.

It is an append table like any other, `lakewright.ledger`, partitioned by the month (UTC) in which
an action began. Columns that only a later version writes stay; those that this version needs are
added.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field

import pyarrow as pa

from lakewright.platform.ledger.action import Action, Verdict
from lakewright.platform.ledger.action_rows import (
    MONTH,
    actions_of,
    ledger_columns,
    month_of,
    row_of,
)
from lakewright.storage import AddColumn, Catalog, Table
from lakewright.storage.errors import InvalidRequestError, SchemaMoved, SnapshotNotFound
from lakewright.storage.spec.predicate import And, Leaf, Operator, Predicate

LEDGER = "lakewright.ledger"
# Without these a table of that name is another's.
_ITS_OWN = (MONTH, "id", "table_name", "verb", "verdict", "started_ms")
_COMMENT = "the actions of upkeep in this warehouse: what each cost and gained"
# Several processes of a new version may add columns at once.
_TRIES = 5
_LAST = ("table_name", "table_uuid", "verb", "verdict", "started_ms")


@dataclass(frozen=True, slots=True)
class LastActions:
    """When each verb last began on each table, by how it ended.

    `snapshot_id` is the snapshot of the ledger that was read, for the next reading.
    """

    uuid: str = ""
    snapshot_id: int | None = None
    started_ms: Mapping[tuple[str, str, str], Mapping[Verdict, int]] = field(default_factory=dict)

    def of(self, table: str, table_uuid: str, verb: str) -> Mapping[Verdict, int]:
        """The last beginnings; a table that was dropped and created again has none."""
        return self.started_ms.get((table, table_uuid, verb), {})

    def done_ms(self, table: str, table_uuid: str, verb: str) -> int | None:
        """The beginning of the last action that was done or had nothing to do."""
        found = self.of(table, table_uuid, verb)
        succeeded = (Verdict.DONE, Verdict.NOTHING_TO_DO)
        return max((found[each] for each in succeeded if each in found), default=None)


@dataclass(frozen=True, slots=True)
class Ledger:
    """The ledger of a warehouse; making this value reads nothing."""

    catalog: Catalog
    name: str = LEDGER

    def exists(self) -> bool:
        return self.catalog.table_exists(self.name)

    def create(self) -> Table:
        """The ledger's table with all columns of this version; it is made if it is missing.

        Raises:
            InvalidRequestError: a table of the name is no ledger.
        """
        columns = ledger_columns()
        for _ in range(_TRIES):
            table = self.catalog.create_table(
                self.name, columns, partition_keys=[MONTH], comment=_COMMENT, if_not_exists=True
            )
            _check_ledger(table)
            have = {each.name for each in table.schema.fields}
            missing = [AddColumn(name, of) for name, of in columns.items() if name not in have]
            if not missing:
                return table
            try:
                return table.alter(*missing)
            except SchemaMoved:
                continue
        raise SchemaMoved(
            f"the schema of {self.name} was changed {_TRIES} times meanwhile; try again"
        )

    def record(self, actions: Sequence[Action]) -> None:
        """Append actions in one commit; the ledger is made at its first use.

        Raises:
            StorageError: the ledger cannot be written, or a table of its name is no ledger.
        """
        if not actions:
            return
        table = self.create()
        names = table.arrow_schema.names
        rows = [{name: row.get(name) for name in names} for row in map(row_of, actions)]
        table.write(pa.Table.from_pylist(rows, schema=table.arrow_schema))

    def record_one(self, action: Action) -> None:
        """Append one action."""
        self.record([action])

    def actions(
        self,
        *,
        table: str | None = None,
        verb: str | None = None,
        run: str | None = None,
        since_ms: int | None = None,
        until_ms: int | None = None,
    ) -> tuple[Action, ...]:
        """The actions that began since a moment and before another, oldest first.

        Only the months between are read, and of their files only those that may hold such rows.
        """
        found = self._read(
            rows_where(
                "started_ms",
                table_name=table,
                verb=verb,
                run=run,
                since_ms=since_ms,
                until_ms=until_ms,
            )
        )
        return tuple(sorted(actions_of(found), key=lambda each: (each.started_ms, each.id)))

    def last(self, earlier: LastActions | None = None, *, since_ms: int = 0) -> LastActions:
        """The last beginnings for all tables at once.

        After an `earlier` answer, only what was recorded since is read. `since_ms` bounds a first
        reading.
        """
        if not self.exists():
            return LastActions()
        table = self._table()
        snapshot, uuid = table.history.latest_snapshot(), table.uuid
        if snapshot is None:
            return LastActions(uuid=uuid)
        known = earlier if earlier is not None and earlier.uuid == uuid else LastActions()
        if known.snapshot_id == snapshot.id:
            return known
        rows = None
        if known.snapshot_id is not None:
            try:
                rows = table.read_changes(
                    known.snapshot_id, snapshot.id, mode="delta", columns=_LAST
                )
            except (SnapshotNotFound, InvalidRequestError):
                # The snapshots between have expired, or the ledger was rolled back.
                known = LastActions()
        if rows is None:
            rows = table.at(snapshot=snapshot.id).read(
                rows_where("started_ms", since_ms=since_ms), _LAST
            )
        return LastActions(uuid, snapshot.id, _joined(known.started_ms, rows))

    def _read(self, where: Predicate | None) -> Iterator[Mapping[str, object]]:
        if self.exists():
            for batch in self._table().read(where).to_batches():
                yield from batch.to_pylist()

    def _table(self) -> Table:
        table = self.catalog.table(self.name)
        _check_ledger(table)
        return table


def _check_ledger(table: Table) -> None:
    """Check that a table of the ledger's name has the columns of a ledger.

    Raises:
        InvalidRequestError: it is another's.
    """
    columns = ledger_columns()
    have = {each.name: _bare(str(each.type)) for each in table.schema.fields}
    wrong = [name for name in _ITS_OWN if name not in have]
    wrong += [name for name, of in columns.items() if have.get(name, _bare(of)) != _bare(of)]
    if wrong or table.schema.primary_keys:
        what = f"column {wrong[0]}" if wrong else "its primary key"
        raise InvalidRequestError(
            f"{table.name} is not a ledger of Lakewright: {what} does not fit; rename that table, "
            "or switch the ledger off"
        )


def _bare(data_type: str) -> str:
    return data_type.removesuffix(" NOT NULL")


def rows_where(
    moment: str,
    *,
    since_ms: int | None = None,
    until_ms: int | None = None,
    **equal: str | None,
) -> Predicate | None:
    """The rows of a table by months whose column `moment` lies in a span, and that equal values."""
    parts: list[Predicate] = [
        Leaf(name, Operator.EQ, (value,)) for name, value in equal.items() if value is not None
    ]
    if since_ms:
        parts.append(Leaf(MONTH, Operator.GE, (month_of(since_ms),)))
        parts.append(Leaf(moment, Operator.GE, (since_ms,)))
    if until_ms is not None:
        parts.append(Leaf(MONTH, Operator.LE, (month_of(until_ms),)))
        parts.append(Leaf(moment, Operator.LT, (until_ms,)))
    return And(tuple(parts)) if parts else None


def _joined(
    known: Mapping[tuple[str, str, str], Mapping[Verdict, int]], rows: pa.Table
) -> dict[tuple[str, str, str], Mapping[Verdict, int]]:
    """The known beginnings, and the newer ones of rows."""
    verdicts = {each.value: each for each in Verdict}
    grouped = rows.group_by(list(_LAST[:-1])).aggregate([("started_ms", "max")])
    joined = {key: dict(value) for key, value in known.items()}
    for row in grouped.to_pylist():
        verdict = verdicts.get(row["verdict"])
        if verdict is None or None in row.values():
            continue
        of = joined.setdefault((row["table_name"], row["table_uuid"], row["verb"]), {})
        of[verdict] = max(of.get(verdict, 0), row["started_ms_max"])
    return {**joined}
