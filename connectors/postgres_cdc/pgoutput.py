"""Messages of PostgreSQL's output plugin `pgoutput`, protocol version 1, as values.

Values of columns are the texts of the server, as bytes; what they mean is decided in `columns.py`.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from enum import Enum
from struct import Struct


class Unchanged(Enum):
    """Stands for a value that is stored out of line and that an update left as it was."""

    VALUE = "unchanged"


UNCHANGED = Unchanged.VALUE
Value = bytes | None | Unchanged
Values = list[Value]


@dataclass(frozen=True, slots=True)
class Begin:
    """The first message of a transaction; `commit_lsn` is where its commit record begins."""

    commit_lsn: int
    xid: int
    # When it was committed, in microseconds since 2000.
    micros: int


@dataclass(frozen=True, slots=True)
class Commit:
    """The last message of a transaction; `end_lsn` is where its commit record ends."""

    end_lsn: int
    time_ms: int


@dataclass(frozen=True, slots=True)
class Column:
    """A column as it was when rows were written: the type's oid and its modifier, -1 for none."""

    name: str
    type_oid: int
    modifier: int


@dataclass(frozen=True, slots=True)
class Relation:
    """A table as the messages behind this one have it; `identity` is its `relreplident`.

    `key` are the columns that identify a row: with FULL, all of them.
    """

    oid: int
    schema: str
    name: str
    identity: str
    key: tuple[str, ...]
    columns: tuple[Column, ...]


@dataclass(frozen=True, slots=True)
class Change:
    """A row that was inserted, updated or deleted: `kind` is I, U or D.

    `old` is the whole row before, or its key alone with nulls beside it. An update has it if the
    key changed, or if the table has REPLICA IDENTITY FULL.
    """

    kind: bytes
    relation: int
    old: Values | None
    new: Values | None


@dataclass(frozen=True, slots=True)
class Truncate:
    """Tables that lost all rows."""

    relations: tuple[int, ...]


Message = Begin | Commit | Relation | Change | Truncate

# Times count from the year 2000.
_EPOCH_MS = 946_684_800_000
_BEGIN, _COMMIT = Struct("!qqI"), Struct("!bqqq")
_UINT32, _INT16, _TYPE = Struct("!I"), Struct("!h"), Struct("!Ii")


def decoded(message: bytes) -> Message | None:
    """A message as a value; None for kinds that concern no row."""
    match message[:1]:
        case b"I" | b"U" | b"D":
            return _change(message)
        case b"B":
            commit_lsn, micros, xid = _BEGIN.unpack_from(message, 1)
            return Begin(commit_lsn, xid, micros)
        case b"C":
            _, _, end_lsn, micros = _COMMIT.unpack_from(message, 1)
            return Commit(end_lsn, micros // 1000 + _EPOCH_MS)
        case b"R":
            return _relation(message)
        case b"T":
            count = _UINT32.unpack_from(message, 1)[0]
            return Truncate(tuple(_UINT32.unpack_from(message, 6 + 4 * n)[0] for n in range(count)))
    return None


class LastTransaction:
    """The last whole transaction among messages that pass, up to an end of the log."""

    def __init__(self, until: int | None = None) -> None:
        self._until, self._begun = until, b""
        self._ended: tuple[bytes, bytes] | None = None

    def see(self, message: bytes) -> None:
        """Take notice of the next message."""
        match message[:1]:
            case b"B":
                self._begun = message
            case b"C":
                if self._until is None or _end_of(message) <= self._until:
                    self._ended = self._begun, message

    @property
    def end_lsn(self) -> int:
        """Where it ends; 0 if there was none."""
        return 0 if self._ended is None else _end_of(self._ended[1])

    @property
    def begin(self) -> Begin | None:
        """Its first message, if there was one."""
        found = None if self._ended is None else decoded(self._ended[0])
        return found if isinstance(found, Begin) else None


def _end_of(message: bytes) -> int:
    found = decoded(message)
    assert isinstance(found, Commit)
    return found.end_lsn


def _relation(message: bytes) -> Relation:
    schema, at = _text(message, 5)
    name, at = _text(message, at)
    identity, count = chr(message[at]), _INT16.unpack_from(message, at + 1)[0]
    at += 3
    columns, key = [], []
    for _ in range(count):
        is_key = message[at] & 1
        column, at = _text(message, at + 1)
        key += [column] if is_key else []
        columns.append(Column(column, *_TYPE.unpack_from(message, at)))
        at += _TYPE.size
    oid = _UINT32.unpack_from(message, 1)[0]
    return Relation(oid, schema or "pg_catalog", name, identity, tuple(key), tuple(columns))


def _text(message: bytes, at: int) -> tuple[str, int]:
    end = message.index(0, at)
    return message[at:end].decode(), end + 1


def _change(message: bytes) -> Change:
    tuples = dict(_tuples(message))
    old = tuples.get(b"K", tuples.get(b"O"))
    return Change(message[:1], _UINT32.unpack_from(message, 1)[0], old, tuples.get(b"N"))


def _tuples(message: bytes) -> Iterator[tuple[bytes, Values]]:
    """The rows in a message, each with its mark: N new, O old, K the key of the old."""
    at = 5
    while at < len(message):
        mark = message[at : at + 1]
        count = _INT16.unpack_from(message, at + 1)[0]
        at += 3
        values: Values = []
        for _ in range(count):
            kind = message[at]
            at += 1
            if kind == 0x74:  # t: a text
                end = at + 4 + _UINT32.unpack_from(message, at)[0]
                values.append(message[at + 4 : end])
                at = end
            else:  # n: null, u: unchanged
                values.append(None if kind == 0x6E else UNCHANGED)
        yield mark, values
