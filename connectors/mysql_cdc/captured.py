"""The table that is captured: what it, the server and its log have to be, and ways out."""

from __future__ import annotations

import datetime as dt
import logging
import re
from collections.abc import Sequence
from dataclasses import dataclass

from lakewright.connectors.capture.logged_columns import or_anew
from lakewright.connectors.mysql_cdc.binlog import NOT_READ, time_made
from lakewright.connectors.mysql_cdc.columns import Declared, SourceColumn, check_columns
from lakewright.connectors.mysql_cdc.database import (
    ColumnFacts,
    Connection,
    Position,
    Server,
    Status,
    TableFacts,
    quoted,
)
from lakewright.connectors.rests import (
    COLUMNS,
    RESTS,
    UNDECLARED,
    Facts,
    check_facts,
    rests_of,
)
from lakewright.connectors.runtime import Offset
from lakewright.storage.env import Env
from lakewright.storage.errors import InvalidRequestError, NotFoundError
from lakewright.storage.spec.data_types import AtomicType, DataField, TypeRoot

_LOG = logging.getLogger(__name__)
INITIAL, LATEST, SPECIFIC = "initial", "latest-offset", "specific-offset"
_MOST_IDS = 1 << 31
# What the server's log has to be, for variables that it has.
_NEEDED = {
    "binlog_format": "ROW",
    "binlog_row_image": "FULL",
    "binlog_row_metadata": "FULL",
    "binlog_row_value_options": "",
    "binlog_transaction_compression": "OFF",
    "log_bin_compress": "OFF",
}
_REPLICATED = ("log_slave_updates", "log_replica_updates")
# Types whose order and equality are those of their texts as a key is compared with them.
_KEYS = (
    *("tinyint", "smallint", "mediumint", "int", "bigint", "decimal", "year"),
    *("char", "varchar", "binary", "varbinary", "date", "time", "datetime", "timestamp"),
)


# Types whose widths only say how numbers are shown, and are left out by some servers.
_NUMBERS = ("tinyint", "smallint", "mediumint", "int", "bigint", "year")


@dataclass(frozen=True)
class Captured:
    """The table that is read, and by what; it pickles."""

    server: Server
    table: str
    fields: tuple[DataField, ...]
    primary_keys: tuple[str, ...]
    startup: str
    # Where to begin with `specific-offset`.
    begin: Position | None
    server_id: int | None
    zone: str | None
    chunk_rows: int
    env: Env

    @property
    def owner(self) -> str:
        return self.server.owner

    @property
    def place(self) -> str:
        return f"{self.server.database}.{self.table}"

    @property
    def quoted_place(self) -> str:
        return f"{quoted(self.server.database)}.{quoted(self.table)}"

    def error(self, message: str) -> InvalidRequestError:
        return InvalidRequestError(f"{self.owner}: {message}")

    def new_server_id(self) -> int:
        """The id of a reader of the log; two with the same end each other."""
        return self.server_id or 1 + int(self.env.jitter() * (_MOST_IDS - 1))

    # --- the table ---

    def facts(self, connection: Connection) -> TableFacts:
        """What the catalog says of the table, if it can be captured.

        Raises:
            NotFoundError: there is no such table.
            InvalidRequestError: its kind, key or columns are not as they have to be.
        """
        described = connection.table(self.server.database, self.table)
        if described is None:
            raise NotFoundError(
                f"{self.owner}: database {self.server.database} has no table {self.table} that "
                f"user {self.server.username} sees"
            )
        if described.kind != "BASE TABLE" or described.engine.lower() != "innodb":
            raise self.error(
                f"{self.place} is a {described.kind.lower()} of engine "
                f"{described.engine or 'none'}; tables of InnoDB are captured"
            )
        self.check_key(described.key)
        self.check_columns(described.columns)
        self.check_readable(described.columns)
        by_name = {column.name: column for column in described.columns}
        if unusable := [
            by_name[each].shown for each in described.key if by_name[each].kind not in _KEYS
        ]:
            raise self.error(
                f"its key has a column of type {unusable[0]}, which chunks cannot be cut by; "
                "numbers, texts, bytes and times can be keys"
            )
        if virtual := [field.name for field in self.fields if field.name in described.virtual]:
            raise self.error(
                f"{', '.join(virtual)} of {self.place} is computed when it is read, so the log "
                "does not have it; leave it out"
            )
        if described.cascades:
            _LOG.warning(
                "%s: foreign keys (%s) change rows of %s when other tables change, and the log "
                "does not tell such changes; use RESTRICT, or triggers",
                self.owner,
                ", ".join(described.cascades),
                self.place,
            )
        return described

    def check_key(self, key: Sequence[str], *, logged: bool = False) -> None:
        if {*key} != {*self.primary_keys}:
            rows, way = f"rows of {self.place} are", "declare the same key"
            if logged:
                rows = f"the log has rows of {self.place} that were"
                way = f"it was another one when they were written; {self.anew}"
            raise self.error(
                f"its primary key is ({', '.join(self.primary_keys)}), and {rows} identified by "
                f"({', '.join(key) or 'nothing'}); {way}"
            )

    def check_readable(self, columns: Sequence[SourceColumn]) -> None:
        """Refuse columns, declared or not, behind which a row of the log cannot be read."""
        for column in columns:
            is_compressed = "COMPRESSED" in column.text.upper() and not column.labels
            if is_compressed or column.kind.startswith(NOT_READ):
                raise self.error(
                    f"column {column.name} of {self.place} is {column.shown}, whose form in the "
                    "log is not read, so rows with it are not, even if it is not declared; keep "
                    "it in another table, or without COMPRESSED"
                )

    def check_columns(self, columns: Sequence[SourceColumn], *, logged: bool = False) -> None:
        """Refuse columns that do not fit the declared ones: those of now, or of rows in the log."""
        with or_anew(self.anew, logged=logged):
            check_columns(self.fields, columns, Declared(self.owner, self.place, self.zone))

    def zone_of(self, field: DataField, facts: TableFacts) -> str | None:
        """The zone in which a column's moments are shown, if it has moments and they are."""
        assert isinstance(field.type, AtomicType)
        moments = [column.name for column in facts.columns if column.kind == "timestamp"]
        is_shown = field.name in moments and field.type.root is TypeRoot.TIMESTAMP
        return self.zone if is_shown else None

    # --- the log ---

    def checked_status(self, connection: Connection) -> tuple[Status, str]:
        """The end of the log, if it has the table's rows as they are read, and its server."""
        variables = connection.variables()
        status = connection.status()
        if status is None or variables.get("log_bin") != "ON":
            raise self.error("the server writes no binary log; start it with --log-bin")
        if "binlog_row_metadata" not in variables:
            raise self.error(
                "the server's log does not name columns; MySQL 8.0.14 and MariaDB 10.5 do"
            )
        wrong = [
            f"{name} = '{value}'"
            for name, value in _NEEDED.items()
            if variables.get(name, value) != value
        ]
        if wrong:
            raise self.error(
                f"the binary log lacks what is read; run SET GLOBAL {', GLOBAL '.join(wrong)}, "
                "have writers connect anew, and begin then"
            )
        database = self.server.database
        if (status.databases and database not in status.databases) or database in status.ignored:
            raise self.error(
                f"the binary log leaves out database {database} (binlog-do-db, binlog-ignore-db)"
            )
        if "OFF" in (variables.get(each) for each in _REPLICATED) and connection.is_replica():
            raise self.error(
                "the server is a replica, and its binary log leaves out what it replicates; start "
                "it with --log-slave-updates (--log-replica-updates), or capture from the server "
                f"that it replicates; {self.anew}"
            )
        ids = (variables.get(each) for each in ("server_uuid", "server_uid", "server_id"))
        server = next((each for each in ids if each), None)
        if server is None:
            raise self.error(
                "the server has no id (server_uuid, server_uid, server_id), so it is not known "
                "whether a position is one of its log; start it with --server-id"
            )
        return status, server

    def begun(self, connection: Connection, status: Status, server: str) -> Offset:
        """Where the stream begins."""
        if self.startup == INITIAL:
            # What a transaction wrote to the log may be visible a moment later, so the position is
            # taken where no transaction that wrote to the table is open.
            connection.lock(self.quoted_place)
            try:
                columns, locked = self.columns(connection), connection.status()
            finally:
                connection.rows("UNLOCK TABLES")
            assert locked is not None
            place = locked.end
            begin: Offset = {"phase": "snapshot", **place._asdict(), "after": None}
        else:
            columns = self.columns(connection)
            place = self.begin or status.end
            begin = {"phase": "stream", **place._asdict()}
        made = None
        if connection.logs().get(place.file, -1) >= place.at:
            made = time_made(self.server, place.file, self.new_server_id())
        return {**begin, RESTS: self.rests(server, place.file, made, columns)}

    # --- every batch ---

    def columns(self, connection: Connection) -> ColumnFacts:
        return connection.columns(self.server.database, self.table)

    def rests(self, server: str, file: str, made: int | None, columns: ColumnFacts) -> Facts:
        """What a position in a file of the log rests on; `made` is when the file was made."""
        by_name = {column.name: column for column in columns.columns}
        declared = [field.name for field in self.fields if field.name in by_name]
        return {
            "server": server,
            "log": None if made is None else f"{file} of {_moment(made)}",
            COLUMNS: {name: _definition(by_name[name]) for name in declared},
            UNDECLARED: sorted({*by_name} - {*declared}),
        }

    def check_position(self, connection: Connection, offset: Offset, status: Status) -> None:
        """Refuse a position that the log does not have any more."""
        position, end = Position(offset["file"], offset["at"]), status.end
        size = end.at if position.file == end.file else connection.logs().get(position.file, -1)
        if size < position.at:
            raise self.lost(position)

    def check_server(self, offset: Offset, server: str) -> None:
        """Refuse a position of another server.

        A server has another id after a change of its port or its folder: if the file of the
        position is the one that it was, the log is that log.
        """
        before, file = rests_of(offset), str(offset["file"])
        kept = before.get("server") or offset.get("server")
        if kept in (None, server):
            return
        made = time_made(self.server, file, self.new_server_id())
        now = self.rests(server, file, made, ColumnFacts((), frozenset(), {}))
        if before.get("log") is None or before["log"] != now["log"]:
            check_facts(self.owner, {"server": kept}, now, self._way)
        _LOG.warning(
            "%s: the server at %s has id %s now, and had %s; its log is the same, so the stream "
            "goes on",
            self.owner,
            self.server.hostname,
            server,
            kept,
        )

    def check_file(self, before: Facts, file: str, made: int) -> None:
        """Refuse a file of the log that was made anew, by a reset or on another server."""
        now = f"{file} of {_moment(made)}"
        if (before.get("log") or now).startswith(f"{file} of "):
            check_facts(self.owner, {"log": before.get("log")}, {"log": now}, self._way)

    def check_definitions(self, before: Facts, columns: ColumnFacts) -> None:
        """Refuse other columns than a position rests on, though the log told no change.

        It does not tell what a session with sql_log_bin = 0 does.
        """
        now = self.rests("", "", None, columns)[COLUMNS]
        missing = dict.fromkeys((field.name for field in self.fields), "not there")
        changes = {f"column {name}": value for name, value in before.get(COLUMNS, {}).items()}
        found = {f"column {name}": now.get(name, value) for name, value in missing.items()}
        check_facts(self.owner, changes, found, self._way)

    def _way(self, thing: str) -> str:
        """What a change of something that a position rests on means, and the way on."""
        match thing:
            case "server":
                return (
                    f"another server is at {self.server.hostname}:{self.server.port}, and its log "
                    f"has other positions; {self.anew}"
                )
            case "log":
                return f"the log was reset, and changes behind the position are lost; {self.anew}"
            case _:
                return (
                    "it was changed while chunks were read, or by a statement that the log does "
                    f"not tell (sql_log_bin = 0); {self.anew}"
                )

    def lost(self, position: Position) -> InvalidRequestError:
        return self.error(
            f"the server's log does not have {position.file} up to {position.at} any more (it was "
            f"purged or reset), so changes behind it are lost; {self.anew}, and keep the log "
            "longer (binlog_expire_logs_seconds)"
        )

    def unread_log(self, said: str, end: Position, following: str | None) -> InvalidRequestError:
        """The server does not give its log behind a position, and `said` why."""
        if "truncated" not in said:
            return self.error(
                f"the server does not give its log behind {end.file}:{end.at}: {said}; put that "
                f"right, or {self.anew}"
            )
        on = "" if following is None else f"; {self._behind(Position(following, 4))}"
        return self.error(
            f"{end.file} ends inside of an event, behind {end.at}: the server crashed while it "
            "wrote, and rolled that transaction back if it recovered; whether others are lost, the "
            f"log does not say; {self.anew}{on}"
        )

    def untold(self, statement: str, what: str, behind: Position) -> InvalidRequestError:
        """A statement changed rows, and the log does not tell which."""
        return self.error(
            f"a statement {what} of {self.place}: {' '.join(statement.split()):.200}; the log does "
            f"not tell what became of rows that were there; {self.anew}; {self._behind(behind)}"
        )

    def _behind(self, place: Position) -> str:
        return (
            "or if they all stayed as they were, go on behind it: with a new checkpoint and "
            f"'scan.startup.mode' = '{SPECIFIC}', 'scan.startup.specific-offset.file' = "
            f"'{place.file}', 'scan.startup.specific-offset.pos' = '{place.at}'"
        )

    @property
    def anew(self) -> str:
        return "begin anew: give the stream a new checkpoint, and empty the table that it fills"


def _definition(column: SourceColumn) -> str:
    """A column as releases of the servers agree to write it."""
    text = column.text.lower() if not column.labels else column.text
    if column.kind in _NUMBERS:
        text = re.sub(r"\(\d+\)", "", text)
    charset = "utf8mb3" if column.charset == "utf8" else column.charset
    return f"{text}{f' in {charset}' if charset else ''}"


def _moment(seconds: int) -> str:
    return f"{dt.datetime.fromtimestamp(seconds, dt.UTC):%Y-%m-%d %H:%M:%S}"
