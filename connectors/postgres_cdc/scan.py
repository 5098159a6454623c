"""The scan: rows of a table in chunks of its key, then changes, transaction by transaction.

    {"phase": "begin"}                                          nothing is read
    {"phase": "snapshot", "lsn": "0/15E8", "after": ["17"], …}  rows up to a key are read
    {"phase": "stream", "lsn": "0/2A40", "last": {…}, "rests on": {…}}  and transactions up to there

1. The slot is made before the first chunk, and its position, the `lsn` of the snapshot, stays until
   all chunks are read. Chunks are read each at its own moment, so they have some changes behind
   that position, and the stream gives all of those again, in order. By key that is right: of a row
   that changed, the last change counts, and a row that did not change is as its chunk had it. The
   table of the reader equals a state of the database from the first batch on that was asked for
   after the last chunk.
2. Before the first chunk the scan waits for transactions that write: one may have its commit in the
   log before the slot's position, and be visible a moment later.
3. Decoding gives whole transactions, in the order of their commits. The slot moves in `acknowledge`
   alone, so what was not acknowledged comes again. The position of a batch is the end of a
   transaction; where nothing came for a while, it is where the log ended before it was looked at.
4. An update leaves out large values that it did not change. They are taken from the old row, which
   REPLICA IDENTITY FULL has, from an earlier change of the same batch, or from the row as it is
   now. A value that changed in between comes again in a later change, as in (1); so does the end of
   a row that is gone.
5. A position has the last transaction before it. Where the slot is behind the position, which is so
   after a crash of the reader or of the server, that one comes again, and has to be the same one
   and the last one. If it is not, the server was restored from a copy of its disk, and its log went
   on with something else.
6. A position rests on facts of the server, the publication and the table (`state.py`), which are
   compared for every batch: where it is planned, and where it is read. They are asked for before
   messages are, so that what changes in between is seen with the next batch.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, contextmanager, nullcontext
from typing import Any

import pyarrow as pa

from lakewright.connectors.capture.scan import CapturingScan, Key, batch_with_kinds
from lakewright.connectors.postgres_cdc.captured import INITIAL, Captured
from lakewright.connectors.postgres_cdc.changed_rows import ChangedRows
from lakewright.connectors.postgres_cdc.columns import column_of_texts
from lakewright.connectors.postgres_cdc.database import (
    Connection,
    SlotFacts,
    TableFacts,
    lsn_number,
    lsn_text,
    marked,
)
from lakewright.connectors.postgres_cdc.pgoutput import Commit, LastTransaction, decoded
from lakewright.connectors.rests import RESTS
from lakewright.connectors.runtime import Backlog, Offset, Split
from lakewright.storage.spec.rows import RowKind

_ROWS_AT_ONCE = 1 << 14
_MOST_COUNTED = 100_000
# Messages that are kept between `latest` and `read`.
_MOST_HELD = 1 << 17
# How much the log grows by what does not concern the table, before the slot moves on.
_IDLE_BYTES = 4 << 20


class CaptureScan(CapturingScan):
    """Reads the table; a copy in another process connects for itself."""

    def __init__(self, captured: Captured, *, all_kinds: bool) -> None:
        self._of, self._all_kinds = captured, all_kinds
        self._connection: Connection | None = None
        self._facts: TableFacts | None = None
        # Whether the log is known to be the one of the position.
        self._is_same_log = False
        # New columns of which a warning told.
        self._told = set[str]()
        # What `latest` saw, for `read`: where it began and ended, and the messages.
        self._held: tuple[str, str, list[bytes]] | None = None
        # An end of a record, up to which the log may not be on disk yet.
        self._ahead = 0
        # Where changes begin; where a drain ends; whether that is still to be found, behind chunks.
        self._begin: Offset | None = None
        self._end: int | None = None
        self._is_to_end = False
        # How far the log went when nothing was found behind an offset.
        self._nothing_until: tuple[str, int] | None = None

    def __getstate__(self) -> Mapping[str, object]:
        gone = {"_connection": None, "_held": None, "_nothing_until": None}
        return {**self.__dict__, **gone}

    def latest(self, start: Offset, limit: int | None = None) -> Offset:
        with self._of.server.told():
            connection = self._opened()
            if start["phase"] == "begin":
                start = self._of.begun(connection)
                if start["phase"] == "stream":
                    self._begin = start
                    return start
            slot, rests = self._of.checked(connection, start, self._told)
            if start["phase"] == "snapshot":
                start = {**start, RESTS: rests}
                end = self._end_of_chunks(connection, start, limit)
                self._begin = end if end["phase"] == "stream" else None
                return end
            self._check_log(connection, start, slot)
            end = self._end_of_changes(connection, start, slot, limit)
            return start if end == start else {**end, RESTS: rests}

    def backlog(self, start: Offset) -> Backlog:
        """Of changes, about how many rows, up to a limit; nothing is known of a snapshot's."""
        if start["phase"] != "stream":
            return Backlog(end={"phase": "stream"})
        with self._of.server.told():
            connection, of = self._opened(), self._of
            slot, _ = of.checked(connection, start, self._told)
            with connection.peek(of.slot, of.publication, of.env, until=None, limit=1) as found:
                last = deque(found, maxlen=1)
            commit = decoded(last[0]) if last else None
            if not isinstance(commit, Commit):
                # Without a reader, the server would keep the log of other tables.
                is_idle = slot.inserted - lsn_number(start["lsn"]) <= _IDLE_BYTES
                end = start if is_idle else {**start, "lsn": lsn_text(slot.flushed)}
                return Backlog(end=end, rows={of.place: 0})
            count = connection.count_changes(of.slot, of.publication, of.env, most=_MOST_COUNTED)
        end = {**start, "lsn": lsn_text(slot.flushed)}
        return Backlog(end=end, rows={of.place: count}, since_ms=commit.time_ms)

    def end_at(self, offset: Offset) -> None:
        """What commits behind an offset is left to the next drain."""
        # A drain that begins before the changes ends where the log ends after the last chunk.
        self._is_to_end = offset == self._begin or "lsn" not in offset
        self._end = None if self._is_to_end else lsn_number(offset["lsn"])

    def plan(self, start: Offset, end: Offset) -> Sequence[Split]:
        if start == end or (start["phase"] == "begin" and self._of.startup != INITIAL):
            return []
        with self._of.server.told():
            connection = self._opened()
            _, rests = self._of.checked(connection, end, self._told)
            if start["phase"] == "stream":
                return [("changes", start["lsn"], end["lsn"], rests)]
            return self.chunks(start, end, rests)

    def read(self, split: Split) -> Iterator[pa.RecordBatch]:
        kind, begin, end, rests = split
        with self._of.server.told(), self._used() as connection:
            self._of.check(connection, rests, self._told)
            if kind == "chunk":
                yield from self._chunk(connection, begin, end)
            else:
                yield from self._changes(connection, begin, end)

    def acknowledge(self, end: Offset) -> None:
        if end["phase"] == "stream":
            with self._of.server.told():
                connection = self._opened()
                connection.advance(self._of.slot, lsn_number(end["lsn"]), self._of.env)
                self._held = None

    def close(self) -> None:
        if self._connection is not None:
            self._connection.client.close()
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
        with self._of.server.connect() as connection:
            self._facts = self._facts or self._of.facts(connection)
            yield connection

    # --- chunks ---

    def _end_of_chunks(self, connection: Connection, start: Offset, limit: int | None) -> Offset:
        of, keys = self._of, self._keys
        over = {"phase": "stream", "lsn": start["lsn"], RESTS: start[RESTS]}
        if limit is None:
            return over
        where, values = self._between(start["after"], None)
        # A name alone in ORDER BY would be that of an output, which is a text.
        found = connection.rows(
            f"SELECT {', '.join(f'{key}::text' for key in keys)} FROM {self._of.only} AS t "  # noqa: S608 - quoted
            f"WHERE {where} ORDER BY {', '.join(f't.{key}' for key in keys)} "
            f"OFFSET {max(limit, of.chunk_rows) - 1} LIMIT 1",
            *values,
        )
        return {**start, "after": list(found[0])} if found else over

    def edges(self, after: Key | None, until: Key | None) -> Sequence[Key]:
        connection = self._opened()
        keys = ", ".join(self._keys)
        texts = ", ".join(f"{key}::text" for key in self._keys)
        where, values = self._between(after, until)
        numbered = (
            f"SELECT {keys}, row_number() OVER (ORDER BY {keys}) AS lakewright_at "  # noqa: S608
            f"FROM {self._of.only} WHERE {where}"
        )
        found = connection.rows(
            f"SELECT {texts} FROM ({numbered}) AS numbered "  # noqa: S608 - quoted
            f"WHERE lakewright_at %% {self._of.chunk_rows} = 0 ORDER BY lakewright_at",
            *values,
        )
        return [list(each) for each in found]

    def _chunk(
        self, connection: Connection, after: Key | None, until: Key | None
    ) -> Iterator[pa.RecordBatch]:
        names = [field.name for field in self._of.fields]
        where, values = self._between(after, until)
        rows = connection.texts(
            f"SELECT {', '.join(map(marked, names))} FROM {self._of.only} "  # noqa: S608
            f"WHERE {where}",
            values,
            names,
        )
        for batch in rows.combine_chunks().to_batches():
            yield self._typed(batch.columns, [RowKind.INSERT.short] * batch.num_rows)

    def _between(self, after: Key | None, until: Key | None) -> tuple[str, list[str]]:
        """The condition of keys behind one, up to another, and its values."""
        marks = ", ".join(f"%s::text::{key_type}" for key_type in self._known.key_types)
        row, parts, values = f"({', '.join(self._keys)})", ["true"], list[str]()
        for sign, key in ((">", after), ("<=", until)):
            if key is not None:
                parts.append(f"{row} {sign} ({marks})")
                values += key
        return " AND ".join(parts), values

    # --- changes ---

    def _end_of_changes(
        self, connection: Connection, start: Offset, slot: SlotFacts, limit: int | None
    ) -> Offset:
        begin = lsn_number(start["lsn"])
        if self._is_to_end:
            self._end, self._is_to_end = slot.flushed, False
        is_over = self._end is not None and begin >= self._end
        if is_over or self._nothing_until == (start["lsn"], slot.flushed):
            return start
        end, last = self._peeked(connection, begin, limit)
        if end == begin and slot.inserted - begin > _IDLE_BYTES:
            # Decoding sees what is on disk. The end of a record is a position for the slot, which
            # would skip a transaction whose last record it cuts; where the disk is, is none.
            if self._ahead <= begin:
                self._ahead = slot.inserted
                if self._end is not None and self._ahead > slot.flushed:
                    # A drain looks once, and beside writers the disk is always behind.
                    connection.wait_for_flush(self._ahead, self._of.env)
                    now = self._of.slot_now(connection, start)
                    return self._end_of_changes(connection, start, now, limit)
            end = self._ahead if self._ahead <= slot.flushed else begin
            end = end if self._end is None else min(end, self._end)
        self._nothing_until = (start["lsn"], slot.flushed) if end == begin else None
        if last is not None:
            start = {**start, "last": last}
        return {**start, "lsn": lsn_text(end)}

    def _check_log(self, connection: Connection, start: Offset, slot: SlotFacts) -> None:
        """Check that what was read and is not acknowledged comes again, and nothing else."""
        known, until = start.get("last"), lsn_number(start["lsn"])
        if self._is_same_log or known is None:
            return
        if slot.confirmed < until:
            of, last = self._of, LastTransaction(until)
            with connection.peek(of.slot, of.publication, of.env, until=until, limit=None) as found:
                for message in found:
                    last.see(message)
            comes_again = slot.confirmed < lsn_number(known["lsn"])
            of.check_log(known if comes_again else None, _described(last), start["lsn"])
        self._is_same_log = True

    def _peeked(
        self, connection: Connection, begin: int, limit: int | None
    ) -> tuple[int, Mapping[str, Any] | None]:
        """Where the transactions end that there are, and the last one; their messages are held."""
        of = self._of
        while True:
            messages, count, last = list[bytes](), 0, LastTransaction()
            with connection.peek(
                of.slot, of.publication, of.env, until=self._end, limit=limit
            ) as found:
                for count, message in enumerate(found, 1):
                    last.see(message)
                    if count <= _MOST_HELD:
                        messages.append(message)
            end = max(begin, last.end_lsn)
            if end > begin or limit is None or count < limit:
                is_whole = count == len(messages)
                self._held = (lsn_text(begin), lsn_text(end), messages) if is_whole else None
                return end, _described(last) if end > begin else None
            # What is not acknowledged yet comes again, and took up the limit.
            limit *= 2

    def _changes(self, connection: Connection, begin: str, end: str) -> Iterator[pa.RecordBatch]:
        of = self._of
        rows = ChangedRows(of, self._known, connection, all_kinds=self._all_kinds)
        given: AbstractContextManager[Iterator[bytes]]
        if self._held is not None and self._held[:2] == (begin, end):
            given = nullcontext(iter(self._held[2]))
        else:
            given = connection.peek(
                of.slot, of.publication, of.env, until=lsn_number(end), limit=None
            )
        with given as messages:
            for kinds, values in rows.pieces(
                messages, lsn_number(begin), lsn_number(end), _ROWS_AT_ONCE
            ):
                texts = [
                    pa.array(column, pa.binary()).cast(pa.string())
                    for column in zip(*values, strict=True)
                ]
                yield self._typed(texts, kinds)

    def _typed(self, texts: Sequence[pa.Array], kinds: list[str]) -> pa.RecordBatch:
        of = self._of
        columns = [
            column_of_texts(column, field, owner=of.owner)
            for column, field in zip(texts, of.fields, strict=True)
        ]
        return batch_with_kinds(columns, kinds, of.fields)

    @property
    def _known(self) -> TableFacts:
        assert self._facts is not None
        return self._facts

    @property
    def _keys(self) -> list[str]:
        return [marked(each) for each in self._known.key]


def _described(last: LastTransaction) -> Mapping[str, Any] | None:
    """A transaction as a position has it."""
    begin = last.begin
    if begin is None:
        return None
    return {"xid": begin.xid, "micros": begin.micros, "lsn": lsn_text(last.end_lsn)}
