"""The scan: rows of a table in chunks of its key, then changes, transaction by transaction.

    {"phase": "begin"}                                                    nothing is read
    {"phase": "snapshot", "file": "bin.07", "at": 42, "after": ["17"], …} rows up to a key are read
    {"phase": "stream", "file": "bin.07", "at": 1337, "rests on": {…}}       and the log up to there

1. The position is taken before the first chunk, at a moment when no transaction that wrote to the
   table is open, and stays until all chunks are read. Chunks are read each at its own moment, so
   they have some changes behind that position, and the log gives all of those again, in order. By
   key that is right: of a row that changed, the last change counts, and a row that did not change
   is as its chunk had it. The table of the reader equals a state of the database from the first
   batch on that was asked for after the last chunk.
2. A batch ends where a transaction ends. `latest` reads the log to find that place and keeps the
   changes for `read`, if there are few; many are read again, event by event.
3. A statement after which rows are not what the log told ends the batch before it, and is an error
   behind that. It is one in every drain, whatever else is in the log before it.
4. A transaction that a crash cut was rolled back by the server. Its rows may be in the log, so they
   are in a batch of their own, which is marked as void and gives no rows.
5. A position rests on the server, on the file of its log and on the columns (`captured.py`), which
   are compared for every batch.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass

import pyarrow as pa

from lakewright.connectors.capture.new_columns import tell_new_columns
from lakewright.connectors.capture.scan import CapturingScan, Key, batch_with_kinds
from lakewright.connectors.mysql_cdc.binlog import (
    Committed,
    Opened,
    Rotated,
    Rows,
    Statement,
    Unread,
    events,
)
from lakewright.connectors.mysql_cdc.captured import INITIAL, Captured
from lakewright.connectors.mysql_cdc.changed_rows import Change, ChangedRows
from lakewright.connectors.mysql_cdc.columns import SourceColumn, typed_column
from lakewright.connectors.mysql_cdc.database import (
    LOST_LOG,
    Connection,
    Position,
    Status,
    TableFacts,
    quoted,
)
from lakewright.connectors.mysql_cdc.row_values import Values
from lakewright.connectors.mysql_cdc.statements import effect
from lakewright.connectors.rests import RESTS, Facts, rests_of
from lakewright.connectors.runtime import Offset, Split
from lakewright.storage.errors import StorageError
from lakewright.storage.spec.rows import RowKind

_ROWS_AT_ONCE = 1 << 14
# Changes that are kept between `latest` and `read`.
_MOST_HELD_ROWS = 1 << 17
# How much the log grows by what does not concern the table, before the position moves on.
_IDLE_BYTES = 4 << 20
# Of an offset up to which there are no rows, whatever the log has.
_VOID = "void"


@dataclass(frozen=True, slots=True)
class _Void:
    """The rows of an open transaction were rolled back, up to a position."""

    end: Position


@dataclass(frozen=True, slots=True)
class _Stop:
    """Behind the last transaction the stream cannot go on."""

    error: StorageError


class CaptureScan(CapturingScan):
    """Reads the table; a copy in another process connects for itself."""

    def __init__(self, captured: Captured, *, all_kinds: bool) -> None:
        self._of, self._all_kinds = captured, all_kinds
        self._connection: Connection | None = None
        self._facts: TableFacts | None = None
        # New columns of which a warning told.
        self._told = set[str]()
        # What `latest` saw, for `read`: where it began and ended, and the changes.
        self._held: tuple[Position, Position, list[Change]] | None = None
        # Where changes begin; where a drain ends; whether that is still to be found, behind chunks.
        self._begin: Offset | None = None
        self._end: Position | None = None
        self._is_to_end = False
        # When files of the log were made; where a batch ended at rows that a crash cut, and where
        # those end.
        self._made: dict[str, int] = {}
        self._cut_at: Position | None = None
        self._void_until: Position | None = None
        # The server's id, and the file of the position that it was compared with.
        self._checked_server: tuple[str, str] | None = None
        # Where a batch has to end, and the error that is behind it.
        self._stop: tuple[Position, StorageError] | None = None
        # How far the log has nothing behind an offset.
        self._nothing_until: tuple[Position, Position] | None = None

    def __getstate__(self) -> Mapping[str, object]:
        return {**self.__dict__, "_connection": None, "_held": None, "_nothing_until": None}

    def latest(self, start: Offset, limit: int | None = None) -> Offset:
        with self._of.server.told():
            connection, of = self._opened(), self._of
            # What is changed behind this is in the log before its end.
            columns = of.columns(connection)
            status, server = of.checked_status(connection)
            if start["phase"] == "begin":
                start = of.begun(connection, status, server)
                if start["phase"] == "stream":
                    self._begin = start
                    return start
                status, server = of.checked_status(connection)
            self._check_log(connection, start, status, server)
            before = rests_of(start)
            if start["phase"] == "snapshot":
                of.check_definitions(before, columns)
                end = self._end_of_chunks(connection, start, limit)
                self._begin = end if end["phase"] == "stream" else None
                return end
            if self._is_to_end:
                self._end, self._is_to_end = status.end, False
            position = self._end_of_changes(connection, start, status.end, limit)
            if position is None:
                of.check_definitions(before, columns)
            self._raise_at(_position(start))
            if position is None or position == _position(start):
                return start
            made = self._made.get(position.file)
            rests = of.rests(server, position.file, made, columns)
            if made is None and position.file == start["file"]:
                rests = {**rests, "log": before.get("log")}
            told = {"owner": of.owner, "place": of.place}
            tell_new_columns(before, rests, self._told, columns.defaults, **told)
            void = {_VOID: True} if position == self._void_until else {}
            return {"phase": "stream", **position._asdict(), **void, RESTS: rests}

    def _check_log(
        self, connection: Connection, offset: Offset, status: Status, server: str
    ) -> None:
        self._of.check_position(connection, offset, status)
        place = (server, offset["file"])
        if self._checked_server != place:
            self._of.check_server(offset, server)
            self._checked_server = place

    def _raise_at(self, position: Position) -> None:
        if self._stop is not None and self._stop[0] == position:
            raise self._stop[1]

    def end_at(self, offset: Offset) -> None:
        """What commits behind an offset is left to the next drain."""
        # A drain that begins before the changes ends where the log ends after the last chunk; one
        # that meets a cut transaction, behind that.
        self._is_to_end = offset == self._begin or (
            self._cut_at is not None and _position(offset) == self._cut_at
        )
        self._end = None if self._is_to_end else _position(offset)

    def plan(self, start: Offset, end: Offset) -> Sequence[Split]:
        if start == end or (start["phase"] == "begin" and self._of.startup != INITIAL):
            return []
        with self._of.server.told():
            connection = self._opened()
            status, server = self._of.checked_status(connection)
            self._check_log(connection, end, status, server)
            if start["phase"] == "stream":
                split = ("changes", _position(start), _position(end), rests_of(start))
                return [] if end.get(_VOID) else [split]
            rests = rests_of(end)
            self._of.check_definitions(rests, self._of.columns(connection))
            return self.chunks(start, end, rests)

    def read(self, split: Split) -> Iterator[pa.RecordBatch]:
        kind, begin, end, rests = split
        with self._of.server.told(), self._used() as connection:
            if kind == "chunk":
                self._of.check_definitions(rests, self._of.columns(connection))
                yield from self._chunk(connection, begin, end)
            else:
                yield from self._changes(connection, Position(*begin), Position(*end), rests)

    def close(self) -> None:
        if self._connection is not None:
            self._connection.close()
            self._connection = None

    def _opened(self) -> Connection:
        if self._connection is None:
            self._connection = self._of.server.connect()
        if self._facts is None:
            self._facts = self._of.facts(self._connection)
        return self._connection

    @contextmanager
    def _used(self) -> Iterator[Connection]:
        """The connection of this scan, or one for a read in a task."""
        if self._connection is not None:
            yield self._connection
            return
        try:
            yield self._opened()
        finally:
            self.close()

    # --- chunks ---

    def _end_of_chunks(self, connection: Connection, start: Offset, limit: int | None) -> Offset:
        over = {name: value for name, value in start.items() if name != "after"}
        over["phase"] = "stream"
        if limit is None:
            return over
        where, values = self._between(start["after"], None)
        found = connection.rows(
            f"SELECT {self._key_texts} FROM {self._of.quoted_place} WHERE {where} "  # noqa: S608 - quoted
            f"ORDER BY {self._keys} LIMIT 1 OFFSET {max(limit, self._of.chunk_rows) - 1}",
            *values,
        )
        return {**start, "after": list(found[0])} if found else over

    def edges(self, after: Key | None, until: Key | None) -> Sequence[Key]:
        connection = self._opened()
        where, values = self._between(after, until)
        numbered = (
            f"SELECT {self._key_texts}, row_number() OVER (ORDER BY {self._keys}) AS lakewright_at "  # noqa: S608
            f"FROM {self._of.quoted_place} WHERE {where}"
        )
        found = connection.rows(
            f"SELECT * FROM ({numbered}) AS numbered "  # noqa: S608 - quoted
            f"WHERE lakewright_at %% {self._of.chunk_rows} = 0 ORDER BY lakewright_at",
            *values,
        )
        return [list(each[:-1]) for each in found]

    def _chunk(
        self, connection: Connection, after: Key | None, until: Key | None
    ) -> Iterator[pa.RecordBatch]:
        kinds = {column.name: column.kind for column in self._known.columns}
        # A FLOAT is printed with six digits, and as a DOUBLE with all.
        columns = ", ".join(
            f"{quoted(field.name)}{' * 1e0' if kinds[field.name] == 'float' else ''}"
            for field in self._of.fields
        )
        where, values = self._between(after, until)
        query = f"SELECT {columns} FROM {self._of.quoted_place} WHERE {where}"  # noqa: S608 - quoted
        for rows in connection.pieces(query, values, _ROWS_AT_ONCE):
            yield self._typed(rows, [RowKind.INSERT.short] * len(rows))

    @property
    def _keys(self) -> str:
        return ", ".join(quoted(each) for each in self._known.key)

    @property
    def _key_texts(self) -> str:
        """The key as it is kept in offsets: binary columns in hexadecimal digits."""
        return ", ".join(
            f"HEX({quoted(key_column.name)})" if _is_binary(key_column) else quoted(key_column.name)
            for key_column in self._key_columns
        )

    def _between(self, after: Key | None, until: Key | None) -> tuple[str, list[str]]:
        """The condition of keys behind one, up to another, and its values."""
        marks = [_mark(key_column) for key_column in self._key_columns]
        parts, values = ["true"], list[str]()
        for sign, key in ((">", after), ("<=", until)):
            if key is not None:
                # The first column alone tells the server which part of the index to read.
                first = quoted(self._known.key[0])
                parts.append(f"{first} {sign[0]}= {marks[0]}")
                parts.append(f"({self._keys}) {sign} ({', '.join(marks)})")
                values += [key[0], *key]
        return " AND ".join(parts), values

    @property
    def _key_columns(self) -> list[SourceColumn]:
        by_name = {column.name: column for column in self._known.columns}
        return [by_name[each] for each in self._known.key]

    # --- changes ---

    def _end_of_changes(
        self, connection: Connection, start: Offset, log_end: Position, limit: int | None
    ) -> Position | None:
        """Where a batch ends; where it begins, if there is nothing yet, or None if nothing is left.

        Raises:
            StorageError: what stops the stream is next.
        """
        begin, rests = _position(start), rests_of(start)
        scanned = begin
        if self._nothing_until is not None and self._nothing_until[0] == begin:
            scanned = self._nothing_until[1]
        if scanned.order >= log_end.order:
            return None
        last = log_end if self._end is None else self._end
        if scanned.order >= last.order:
            return begin
        end, changes = self._found(connection, scanned, last, limit, rests)
        if not changes and end != self._void_until:
            # The rows that are read are all that come before it.
            self._raise_at(end)
        is_far = end.file != begin.file or end.at - begin.at > _IDLE_BYTES
        if changes or is_far or end == self._void_until:
            self._nothing_until = None
            is_few = len(changes) <= _MOST_HELD_ROWS
            self._held = (begin, end, changes) if is_few else None
            return end
        self._nothing_until = (begin, end)
        return begin

    def _found(
        self,
        connection: Connection,
        begin: Position,
        last: Position,
        limit: int | None,
        rests: Facts,
    ) -> tuple[Position, list[Change]]:
        """Where the transactions end that are asked for, and their changes: all, or too many."""
        end, changes, open_ones = begin, list[Change](), list[Change]()
        for step in self._transactions(connection, begin, rests):
            match step:
                case list():
                    if len(changes) + len(open_ones) <= _MOST_HELD_ROWS:
                        open_ones += step
                case Committed(committed):
                    end, changes, open_ones = committed, changes + open_ones, []
                    is_enough = limit is not None and len(changes) >= limit
                    if is_enough or end.order >= last.order:
                        break
                case _Void(until):
                    if not changes:
                        end = self._void_until = until
                    self._cut_at = end
                    break
                case _Stop(error):
                    self._stop = (end, error)
        return end, changes

    def _transactions(
        self, connection: Connection, begin: Position, rests: Facts
    ) -> Iterator[list[Change] | Committed | _Void | _Stop]:
        """The changes of each event, the end of each transaction, and what stops the stream."""
        of = self._of
        reader = ChangedRows(of, self._known, all_kinds=self._all_kinds)
        names = [field.name for field in of.fields]
        table, end, is_open = (of.server.database, of.table), begin, False
        failures = of.server.client().err
        try:
            for event in events(of.server, connection, begin, of.table, of.new_server_id()):
                match event:
                    case Rows():
                        is_open = True
                        try:
                            rows = reader.read(event)
                        except StorageError as error:
                            yield _Stop(error)
                            return
                        yield rows
                    case Committed(end):
                        is_open = False
                        yield event
                    case Opened(file, made):
                        of.check_file(rests, file, made)
                        self._made[file] = made
                    case Rotated(now) if is_open and now.file != end.file:
                        end, is_open = now, False
                        yield _Void(end)
                    case Rotated(now) if not is_open:
                        end = now
                        yield Committed(end)
                    case Statement(text, database, behind):
                        what = effect(text, database, table, names)
                        if is_open and text.upper().startswith("ROLLBACK"):
                            what = "undoes rows that are in the log (of several engines)"
                        if what is not None:
                            yield _Stop(of.untold(text, what, behind))
                            return
                        if not is_open:
                            end = behind
                            yield Committed(end)
                    case Unread(what, is_always) if is_open or is_always:
                        yield _Stop(of.error(f"the log has {what}, which is not read; {of.anew}"))
                        return
        except failures.Error as error:
            if not error.args or error.args[0] != LOST_LOG:
                raise
            logs = connection.logs()
            if logs.get(end.file, -1) < end.at:
                raise of.lost(end) from error
            following = next(
                (log for log in logs if Position(log, 0).order > Position(end.file, 0).order),
                None,
            )
            yield _Stop(of.unread_log(str(error.args[-1]), end, following))

    def _changes(
        self, connection: Connection, begin: Position, end: Position, rests: Facts
    ) -> Iterator[pa.RecordBatch]:
        if self._held is not None and self._held[:2] == (begin, end):
            changes = self._held[2]
        else:
            changes = []
            for step in self._transactions(connection, begin, rests):
                match step:
                    case list():
                        changes += step
                    case Committed(committed) if committed == end:
                        break
                    case _Stop(error):
                        raise error
                if len(changes) >= _ROWS_AT_ONCE:
                    yield self._batch(changes)
                    changes = []
        for at in range(0, len(changes), _ROWS_AT_ONCE):
            yield self._batch(changes[at : at + _ROWS_AT_ONCE])

    def _batch(self, changes: Sequence[Change]) -> pa.RecordBatch:
        return self._typed([values for _, values in changes], [kind for kind, _ in changes])

    def _typed(self, rows: Sequence[Values], kinds: list[str]) -> pa.RecordBatch:
        of = self._of
        columns = [
            typed_column(list(values), field, zone=of.zone_of(field, self._known), owner=of.owner)
            for values, field in zip(zip(*rows, strict=True), of.fields, strict=True)
        ]
        return batch_with_kinds(columns, kinds, of.fields)

    @property
    def _known(self) -> TableFacts:
        assert self._facts is not None
        return self._facts


def _position(offset: Offset) -> Position:
    return Position(offset["file"], offset["at"])


def _mark(column: SourceColumn) -> str:
    """Where the text of a key stands in a statement; it is compared in the type of the column."""
    match column.kind:
        case "tinyint" | "smallint" | "mediumint" | "int" | "bigint" | "year":
            return f"CAST(%s AS {'UNSIGNED' if column.is_unsigned else 'SIGNED'})"
        case "decimal":
            return f"CAST(%s AS DECIMAL(65, {column.scale}))"
        case "date":
            return "CAST(%s AS DATE)"
        case "time":
            return "CAST(%s AS TIME(6))"
        case "datetime" | "timestamp":
            return "CAST(%s AS DATETIME(6))"
        case _:
            return "UNHEX(%s)" if _is_binary(column) else "%s"


def _is_binary(column: SourceColumn) -> bool:
    return column.kind in ("binary", "varbinary")
