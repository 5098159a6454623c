"""The table that is captured: what it, the server and its log have to be, and ways out."""

from __future__ import annotations

import logging
from collections.abc import Sequence
from dataclasses import dataclass

from lakewright.connectors.mysql_cdc.columns import Declared, SourceColumn, check_columns
from lakewright.connectors.mysql_cdc.database import (
    Connection,
    Position,
    Server,
    Status,
    TableFacts,
    quoted,
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
# Types whose order and equality are those of their texts as a key is compared with them.
_KEYS = (
    *("tinyint", "smallint", "mediumint", "int", "bigint", "decimal", "year"),
    *("char", "varchar", "binary", "varbinary", "date", "time", "datetime", "timestamp"),
)


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
        found = connection.table(self.server.database, self.table)
        if found is None:
            raise NotFoundError(
                f"{self.owner}: database {self.server.database} has no table {self.table} that "
                f"user {self.server.username} sees"
            )
        if found.kind != "BASE TABLE" or found.engine.lower() != "innodb":
            raise self.error(
                f"{self.place} is a {found.kind.lower()} of engine {found.engine or 'none'}; "
                "tables of InnoDB are captured"
            )
        self.check_key(found.key)
        self.check_columns(found.columns)
        by_name = {each.name: each for each in found.columns}
        if unusable := [
            by_name[each].shown for each in found.key if by_name[each].kind not in _KEYS
        ]:
            raise self.error(
                f"its key has a column of type {unusable[0]}, which chunks cannot be cut by; "
                "numbers, texts, bytes and times can be keys"
            )
        if virtual := [each.name for each in self.fields if each.name in found.virtual]:
            raise self.error(
                f"{', '.join(virtual)} of {self.place} is computed when it is read, so the log "
                "does not have it; leave it out"
            )
        if found.cascades:
            _LOG.warning(
                "%s: foreign keys (%s) change rows of %s when other tables change, and the log "
                "does not tell such changes; use RESTRICT, or triggers",
                self.owner,
                ", ".join(found.cascades),
                self.place,
            )
        return found

    def check_key(self, key: Sequence[str]) -> None:
        if {*key} != {*self.primary_keys}:
            raise self.error(
                f"its primary key is ({', '.join(self.primary_keys)}), and rows of {self.place} "
                f"are identified by ({', '.join(key) or 'nothing'}); declare the same key"
            )

    def check_columns(self, columns: Sequence[SourceColumn]) -> None:
        check_columns(self.fields, columns, Declared(self.owner, self.place, self.zone))

    def zone_of(self, field: DataField, facts: TableFacts) -> str | None:
        """The zone in which a column's moments are shown, if it has moments and they are."""
        assert isinstance(field.type, AtomicType)
        moments = [each.name for each in facts.columns if each.kind == "timestamp"]
        is_shown = field.name in moments and field.type.root is TypeRoot.TIMESTAMP
        return self.zone if is_shown else None

    # --- the log ---

    def checked_status(self, connection: Connection) -> tuple[Status, str]:
        """The end of the log, if it has the table's rows as they are read, and its server."""
        found = connection.variables()
        status = connection.status()
        if status is None or found.get("log_bin") != "ON":
            raise self.error("the server writes no binary log; start it with --log-bin")
        if "binlog_row_metadata" not in found:
            raise self.error(
                "the server's log does not name columns; MySQL 8.0.14 and MariaDB 10.5 do"
            )
        wrong = [
            f"{name} = '{value}'"
            for name, value in _NEEDED.items()
            if found.get(name, value) != value
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
        ids = (found.get(each) for each in ("server_uuid", "server_uid", "server_id"))
        server = next((each for each in ids if each), None)
        if server is None:
            raise self.error(
                "the server has no id (server_uuid, server_uid, server_id), so it is not known "
                "whether a position is one of its log; start it with --server-id"
            )
        return status, server

    def begun(self, connection: Connection, status: Status, server: str) -> Offset:
        """Where the stream begins."""
        if self.startup == SPECIFIC:
            assert self.begin is not None
            return {"phase": "stream", **self.begin._asdict(), "server": server}
        if self.startup == LATEST:
            return {"phase": "stream", **status.end._asdict(), "server": server}
        # What a transaction wrote to the log may be visible a moment later, so the position is
        # taken where no transaction that wrote to the table is open.
        connection.rows(f"LOCK TABLES {self.quoted_place} READ")
        try:
            locked = connection.status()
        finally:
            connection.rows("UNLOCK TABLES")
        assert locked is not None
        return {"phase": "snapshot", **locked.end._asdict(), "server": server, "after": None}

    def check_server(self, offset: Offset, server: str) -> None:
        """Refuse a position in the log of another server."""
        if offset["server"] != server:
            raise self.error(
                f"the position is of server {offset['server']}, and {self.server.hostname} is "
                f"server {server} now, whose log has other positions; {self.anew}"
            )

    def check_position(self, connection: Connection, position: Position) -> None:
        """Refuse a position that the log does not have any more."""
        if connection.logs().get(position.file, -1) < position.at:
            raise self.lost(position)

    def lost(self, position: Position) -> InvalidRequestError:
        return self.error(
            f"the server's log does not have {position.file} up to {position.at} any more (it was "
            f"purged or reset), so changes behind it are lost; {self.anew}, and keep the log "
            "longer (binlog_expire_logs_seconds)"
        )

    def untold(self, statement: str, what: str, behind: Position) -> InvalidRequestError:
        """A statement changed rows, and the log does not tell which."""
        return self.error(
            f"a statement {what} of {self.place}: {' '.join(statement.split()):.200}; the log does "
            f"not tell what became of rows that were there; {self.anew}; or if they all stayed as "
            f"they were, go on behind it: with a new checkpoint and 'scan.startup.mode' = "
            f"'{SPECIFIC}', 'scan.startup.specific-offset.file' = '{behind.file}', "
            f"'scan.startup.specific-offset.pos' = '{behind.at}'"
        )

    @property
    def anew(self) -> str:
        return "begin anew: give the stream a new checkpoint, and empty the table that it fills"
