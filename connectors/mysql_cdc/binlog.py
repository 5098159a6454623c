"""The binary log as events that concern a table: its rows, ends of transactions, and statements."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import closing
from dataclasses import dataclass
from importlib import import_module
from typing import Any

from lakewright.connectors.mysql_cdc.columns import SourceColumn
from lakewright.connectors.mysql_cdc.database import Connection, Position, Server
from lakewright.connectors.mysql_cdc.row_values import decimal_size
from lakewright.storage.errors import UnsupportedError

# Types of columns in the log, with the sizes of those that are fixed.
_TYPES: Mapping[int, tuple[str, int]] = {
    1: ("tinyint", 1),
    2: ("smallint", 2),
    3: ("int", 4),
    4: ("float", 4),
    5: ("double", 8),
    8: ("bigint", 8),
    9: ("mediumint", 3),
    10: ("date", 3),
    13: ("year", 1),
    15: ("varchar", 0),
    16: ("bit", 0),
    17: ("timestamp", 4),
    18: ("datetime", 5),
    19: ("time", 3),
    245: ("json", 0),
    246: ("decimal", 0),
    247: ("enum", 0),
    248: ("set", 0),
    252: ("text", 0),
    253: ("varchar", 0),
    254: ("char", 0),
    255: ("geometry", 0),
}
_TEXTS = (15, 252, 253, 254)
_GEOMETRY = 255
_BINARY = {"char": "binary", "varchar": "varbinary", "text": "blob"}
_CHARSET_OF_BYTES = "binary"
# Events that are not read, by their types: of MariaDB, those of compressed rows and statements.
_UNREAD = {
    26: "an incident, so events are lost",
    40: "a compressed transaction",
    **dict.fromkeys(range(165, 172), "a compressed event"),
}
# Of a column whose type in the log is unknown, so that its size is.
NOT_READ = "type"
# Kinds of facts of a table in the log: columns of its key, or each with the size of its prefix.
_KEY, _KEY_OF_PREFIXES = 8, 9
_HAS_CHECKSUMS = "_BinLogStreamReader__use_checksum"
# Without this, a server whose setting is NONE does not send files that have checksums.
_KNOWS_CHECKSUMS = (
    "SET @master_binlog_checksum = @@global.binlog_checksum, "
    "@source_binlog_checksum = @@global.binlog_checksum"
)
INSERT, UPDATE, DELETE = "insert", "update", "delete"


@dataclass(frozen=True, slots=True)
class Rows:
    """Rows of one event: `data` has a row for each, or for an update the former and the new one."""

    kind: str
    columns: tuple[SourceColumn, ...]
    key: tuple[str, ...]
    data: bytes
    # Whether the log has all columns.
    is_whole: bool


@dataclass(frozen=True, slots=True)
class Committed:
    """A transaction ended, or nothing was in the log up to here."""

    end: Position


@dataclass(frozen=True, slots=True)
class Opened:
    """Events of a file follow; `made` is when the server made it, in seconds."""

    file: str
    made: int


@dataclass(frozen=True, slots=True)
class Rotated:
    """Events of a file are over, or the reader connected anew; `end` is where events go on.

    A transaction is in one file, so one that is open here was cut by a crash, and rolled back.
    """

    end: Position


@dataclass(frozen=True, slots=True)
class Statement:
    """A statement that is in the log as its text; `database` is that of its session."""

    text: str
    database: str
    end: Position


@dataclass(frozen=True, slots=True)
class Unread:
    """What is in the log and not read; without `is_always`, it matters behind rows of the table."""

    what: str
    is_always: bool = True


Event = Rows | Committed | Opened | Rotated | Statement | Unread


def events(
    server: Server, connection: Connection, begin: Position, table: str, server_id: int
) -> Iterator[Event]:
    """What the log has behind a position now; within `Server.told`."""
    event, row_event = (
        import_module(f"pymysqlreplication.{each}") for each in ("event", "row_event")
    )
    kinds = {
        row_event.WriteRowsEvent: INSERT,
        row_event.UpdateRowsEvent: UPDATE,
        row_event.DeleteRowsEvent: DELETE,
    }
    # Not asked for, so they stand for changes that would be lost.
    unread = {
        row_event.PartialUpdateRowsEvent: "a partial update (binlog_row_value_options is set)",
        event.ExecuteLoadQueryEvent: "LOAD DATA as a statement (binlog_format is not ROW)",
    }
    others = (
        *(event.QueryEvent, event.XidEvent, event.RotateEvent, event.XAPrepareEvent),
        event.FormatDescriptionEvent,
    )
    charsets = connection.charsets()
    columns: dict[int, tuple[tuple[SourceColumn, ...], tuple[str, ...]]] = {}
    asked = [*kinds, row_event.TableMapEvent, *others, *unread, event.NotImplementedEvent]
    log = _reader(
        server,
        begin,
        server_id,
        asked,
        only_schemas=[server.database],
        only_tables=[table],
        # Compressed changes are such events.
        filter_non_implemented_events=False,
    )
    before, has_checksums = begin, True
    with closing(log):
        for found in log:
            now = Position(log.log_file, log.log_pos)
            if isinstance(found, row_event.TableMapEvent):
                columns[found.table_id] = _described(found, charsets, has_checksums)
            elif isinstance(found, event.XidEvent):
                yield Committed(now)
            elif isinstance(found, event.RotateEvent):
                yield Rotated(now)
            elif isinstance(found, event.FormatDescriptionEvent):
                has_checksums = bool(found.checksum_algorithm)
                _settle_checksums(log, has_checksums)
                yield Opened(now.file, found.timestamp)
            elif isinstance(found, event.QueryEvent):
                word = found.query[:40].upper().split(None, 1)[:1]
                if word == ["COMMIT"]:
                    yield Committed(now)
                elif word != ["BEGIN"]:
                    yield Statement(found.query, found.schema.decode(), now)
            elif isinstance(found, event.XAPrepareEvent):
                yield (
                    Committed(now)
                    if found.one_phase
                    else Unread("a prepared XA transaction", is_always=False)
                )
            elif type(found) in kinds:
                whole = (1 << found.number_of_columns) - 1
                bitmaps = [found.columns_present_bitmap]
                if type(found) is row_event.UpdateRowsEvent:
                    bitmaps.append(found.columns_present_bitmap2)
                body = found.packet.read(found.event_size - found.packet.read_bytes)
                yield Rows(
                    kinds[type(found)],
                    *columns[found.table_id],
                    body,
                    all(int.from_bytes(bits, "little") & whole == whole for bits in bitmaps),
                )
            elif type(found) in unread:
                yield Unread(unread[type(found)])
            elif found.event_type in _UNREAD:
                yield Unread(_UNREAD[found.event_type])
            if now.file == before.file and now.at < before.at:
                # Positions have four bytes.
                yield Unread(f"events behind the first 4 GiB of {now.file}")
            before = now


def _settle_checksums(log: Any, has_checksums: bool) -> None:
    """Read the events of a file with or without checksums, as it was written.

    The client takes the server's setting for that of all files, and would cut the last bytes of
    events, which may be those of a value.
    """
    if not hasattr(log, _HAS_CHECKSUMS):
        raise UnsupportedError(
            "this release of mysql-replication keeps elsewhere whether events have checksums; "
            "install 1.0.17"
        )
    setattr(log, _HAS_CHECKSUMS, has_checksums)


def time_made(server: Server, file: str, server_id: int) -> int | None:
    """When the server made a file of its log, in seconds; within `Server.told`."""
    described = import_module("pymysqlreplication.event").FormatDescriptionEvent
    with closing(_reader(server, Position(file, 4), server_id, [described])) as log:
        return next((int(found.timestamp) for found in log), None)


def _reader(
    server: Server, begin: Position, server_id: int, asked: Sequence[Any], **only: Any
) -> Any:
    return import_module("pymysqlreplication").BinLogStreamReader(
        dict(server.settings),
        server_id=server_id,
        log_file=begin.file,
        log_pos=begin.at,
        resume_stream=True,
        only_events=list(asked),
        enable_logging=False,
        pymysql_wrapper=_connecting(server.client()),
        **only,
    )


def _connecting(client: Any) -> Callable[..., Any]:
    """How the reader of the log connects; it names the database by a parameter of old clients."""

    def connect(*, db: str | None = None, **settings: Any) -> Any:
        connection = client.connect(database=db, **settings)
        with connection.cursor() as cursor:
            cursor.execute(_KNOWS_CHECKSUMS)
        return connection

    return connect


def _described(
    found: Any, charsets: Mapping[int, str], has_checksums: bool
) -> tuple[tuple[SourceColumn, ...], tuple[str, ...]]:
    """The columns of a table, and its key, as an event says them before rows."""
    facts = found.optional_metadata
    numbers = iter(facts.charset_collation_list or ())
    columns = []
    for column in found.columns:
        has_charset = column.type in _TEXTS or (
            column.type == _GEOMETRY and found.dbms == "mariadb"
        )
        number = next(numbers, None) if has_charset else None
        charset = charsets.get(number, f"collation {number}") if number is not None else None
        columns.append(_column(column, charset))
    key = facts.simple_primary_key_list or list(facts.primary_keys_with_prefix)
    if not has_checksums:
        # The client takes the last four bytes for a checksum, in which a short key may be.
        kind, _, *numbers = found.packet.read(found.packet.bytes_to_read()) or (0, 0)
        key = {_KEY: numbers, _KEY_OF_PREFIXES: numbers[::2]}.get(kind, key)
    return tuple(columns), tuple(columns[at].name for at in key)


def _column(each: Any, charset: str | None) -> SourceColumn:
    kind, size = _TYPES.get(each.type, (f"{NOT_READ} {each.type}", 0))
    precision, scale, length = 0, 0, 0
    labels: Sequence[str | None] = ()
    if kind in ("char", "varchar"):
        length = each.max_length
        size = 2 if length > 255 else 1
    elif kind in ("text", "json", "geometry"):
        size = each.length_size
    elif kind in ("timestamp", "datetime", "time"):
        scale = each.fsp
        size += (scale + 1) // 2
    elif kind == "decimal":
        precision, scale = each.precision, each.decimals
        size = decimal_size(precision, scale)
    elif kind == "bit":
        precision, size = each.bits, each.bytes
    elif kind in ("enum", "set"):
        size = each.size
        found = (each.enum_values or ("",))[1:] if kind == "enum" else each.set_values or ()
        # The client leaves out labels that it cannot decode.
        labels = [label or None for label in found]
    if charset == _CHARSET_OF_BYTES:
        kind, charset = _BINARY.get(kind, kind), None
    return SourceColumn(
        each.name or "",
        kind,
        is_unsigned=each.unsigned and kind != "year",
        precision=precision,
        scale=scale,
        charset=charset,
        size=size,
        length=length,
        labels=tuple(labels),
    )
