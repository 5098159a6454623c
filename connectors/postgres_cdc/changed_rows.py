"""From messages of `pgoutput` to rows with kinds, in the order of the changes."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence

from lakewright.connectors.postgres_cdc.captured import FULL, Captured
from lakewright.connectors.postgres_cdc.database import Connection, TableFacts, marked
from lakewright.connectors.postgres_cdc.pgoutput import (
    UNCHANGED,
    Begin,
    Change,
    Relation,
    Truncate,
    Values,
    decoded,
)
from lakewright.storage.spec.rows import RowKind

_INSERT, _DELETE = RowKind.INSERT.short, RowKind.DELETE.short
_BEFORE, _AFTER = RowKind.UPDATE_BEFORE.short, RowKind.UPDATE_AFTER.short


class ChangedRows:
    """The rows of some transactions: declared columns as texts, and the kind of each.

    An update whose key changed is a deletion and an insertion. `all_kinds` gives rows as they were
    before an update, too.
    """

    def __init__(
        self,
        captured: Captured,
        facts: TableFacts,
        connection: Connection,
        *,
        all_kinds: bool,
    ) -> None:
        self._of, self._facts, self._connection = captured, facts, connection
        self._all_kinds = all_kinds
        self._names = [field.name for field in captured.fields]
        self._key = [self._names.index(name) for name in facts.key]
        # Where the declared columns are among those of the relation.
        self._places: list[int] | None = None
        self._is_full = False
        # The last row of each key, for values that a later change leaves out.
        self._last: dict[tuple[object, ...], Values] = {}
        # Places of rows that still lack values, with their transactions.
        self._lacking: dict[int, int] = {}
        self._kinds: list[str] = []
        self._values: list[Values] = []

    def pieces(
        self, messages: Iterable[bytes], begin: int, end: int, size: int
    ) -> Iterator[tuple[list[str], list[Values]]]:
        """The changes of transactions that end behind one position, up to another, piece by piece.

        Raises:
            InvalidRequestError: the table was truncated, or its columns do not fit any more.
        """
        oid, is_asked, xid = self._facts.oid, False, 0
        relation: Relation | None = None
        for message in messages:
            # The rows of others need not be decoded.
            if not is_asked and message[:1] not in (b"B", b"R"):
                continue
            match decoded(message):
                case Begin(commit_lsn, xid):
                    # Both are ends of records: a record that begins between them ends there.
                    is_asked = begin <= commit_lsn < end
                case Relation(oid=found) as each if found == oid:
                    relation, self._places = each, None
                case Change(relation=found) as change if found == oid:
                    if self._places is None:
                        assert relation is not None
                        self._settle(relation)
                    self._add(change, xid)
                    if len(self._kinds) >= size:
                        yield from self._taken()
                case Truncate(relations) if oid in relations:
                    raise self._of.truncated()

        yield from self._taken()

    def _taken(self) -> Iterator[tuple[list[str], list[Values]]]:
        """The rows so far, if there are any; later updates do not find their values any more."""
        self._complete()
        if self._kinds:
            yield self._kinds, self._values
        self._kinds, self._values = [], []
        self._last.clear()
        self._lacking.clear()

    def _complete(self) -> None:
        """Fetch values that updates left out; a row that is gone is left out, too."""
        if not self._lacking:
            return
        for xid in set(self._lacking.values()):
            self._connection.wait_for_transaction(xid, self._of.env)
        rows = [self._values[at] for at in self._lacking]
        wanted = [at for at in range(len(self._names)) if any(row[at] is UNCHANGED for row in rows)]
        found = self._fetched([self._key_of(row) for row in rows], wanted)
        gone = set()
        for number, (at, row) in enumerate(zip(self._lacking, rows, strict=True)):
            values = found.get(number)
            if values is None:
                gone.add(at)
                continue
            for place, value in zip(wanted, values, strict=True):
                if row[place] is UNCHANGED:
                    row[place] = value
        self._kinds = [each for at, each in enumerate(self._kinds) if at not in gone]
        self._values = [each for at, each in enumerate(self._values) if at not in gone]

    def _settle(self, relation: Relation) -> None:
        self._is_full = relation.identity == FULL
        if not self._is_full and {*relation.key} != {*self._facts.key}:
            raise self._of.error(
                f"changes of {self._of.place} were written while its rows were identified by "
                f"({', '.join(relation.key) or 'nothing'}), and not by "
                f"({', '.join(self._facts.key)}): its REPLICA IDENTITY was another one then, or is "
                f"now; {self._of.anew}"
            )
        self._of.check_identity(relation.identity)
        self._of.check_columns(relation.columns, self._connection, logged=True)
        if self._all_kinds and not self._is_full:
            raise self._of.error(
                f"changes of {self._of.place} were written without REPLICA IDENTITY FULL, so they "
                "lack the rows before updates, with which the statement began; start it again, or "
                f"if it has FULL now, {self._of.anew}"
            )
        names = [column.name for column in relation.columns]
        self._places = [names.index(name) for name in self._names]
        now = [column.name for column in self._facts.columns if column.name in self._names]
        if (then := [name for name in names if name in self._names]) != now:
            raise self._of.error(
                f"changes of {self._of.place} were written while its columns were "
                f"({', '.join(then)}), which are ({', '.join(now)}) now: names were exchanged; "
                f"{self._of.anew}"
            )

    def _add(self, change: Change, xid: int) -> None:
        places = self._places
        assert places is not None
        old = None if change.old is None else [change.old[at] for at in places]
        if change.new is None:
            assert old is not None
            self._last.pop(self._key_of(old), None)
            self._put(_DELETE, old)
            return
        new = [change.new[at] for at in places]
        if old is not None:
            for at in range(len(new)) if self._is_full else self._key:
                if new[at] is UNCHANGED:
                    new[at] = old[at]
        key = self._key_of(new)
        before = key if old is None else self._key_of(old)
        if UNCHANGED in new:
            last = self._last.get(before, new)
            new = [last[at] if each is UNCHANGED else each for at, each in enumerate(new)]
        kind = _INSERT if change.kind == b"I" else _AFTER
        if old is not None and before != key:
            self._last.pop(before, None)
            self._put(_DELETE, old)
            kind = _INSERT
        elif old is not None and self._all_kinds:
            self._put(_BEFORE, old)
        if UNCHANGED in new:
            self._lacking[len(self._values)] = xid
        self._last[key] = new
        self._put(kind, new)

    def _put(self, kind: str, values: Values) -> None:
        self._kinds.append(kind)
        self._values.append(values)

    def _key_of(self, row: Values) -> tuple[object, ...]:
        return tuple(row[at] for at in self._key)

    def _fetched(
        self, keys: Sequence[tuple[object, ...]], wanted: Sequence[int]
    ) -> dict[int, list[bytes | None]]:
        """Columns of the rows of keys as they are now, by the place of the key."""
        numbers = range(len(self._key))
        columns = ", ".join(f"t.{marked(self._names[at])}" for at in wanted)
        same = " AND ".join(
            f"t.{marked(name)} = k.c{at}::{kind}"
            for at, name, kind in zip(numbers, self._facts.key, self._facts.key_types, strict=True)
        )
        texts = [[_text(key[at]) for key in keys] for at in numbers]
        rows = self._connection.texts(
            f"SELECT k.number - 1, {columns} FROM unnest({', '.join(['%s::text[]'] * len(texts))}) "  # noqa: S608 - quoted
            f"WITH ORDINALITY AS k({', '.join(f'c{at}' for at in numbers)}, number) "
            f"JOIN {self._of.only} AS t ON {same}",
            texts,
            ["number", *(f"c{at}" for at in wanted)],
        )
        values = zip(*(column.cast("binary").to_pylist() for column in rows.columns), strict=True)
        return {int(number): list(row) for number, *row in values}


def _text(value: object) -> str:
    assert isinstance(value, bytes)
    return value.decode()
