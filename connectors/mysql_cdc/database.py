"""A server of MySQL or MariaDB and a table of it, by statements of SQL."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from contextlib import closing, contextmanager
from dataclasses import dataclass
from importlib import import_module
from typing import Any, NamedTuple

from lakewright.connectors.capture.endpoint import Endpoint
from lakewright.connectors.mysql_cdc.columns import SourceColumn
from lakewright.storage.errors import (
    AccessRefused,
    InvalidRequestError,
    StorageError,
    UnavailableError,
)
from lakewright.storage.extras import needed_for

_CONNECT_SECONDS = 30
# What a server answers of a statement that it does not know, and of rights that a user lacks.
_UNKNOWN_STATEMENT = 1064
_DENIED = (1044, 1142, 1227)
# What it answers of a user or a password, of a database that is not there, of a lock that others
# keep.
_WRONG_USER, _NO_DATABASE, _LOCKED = 1045, 1049, 1205
# What it answers of a position that its log does not have.
LOST_LOG = 1236
# How values are printed, and how long to wait for writers, and for a reader that writes a batch.
_LOCK_SECONDS = 60
_SETTINGS = (
    f"SET time_zone = '+00:00', sql_mode = '', lock_wait_timeout = {_LOCK_SECONDS}, "
    "net_write_timeout = 3600"
)
_COLUMNS = """
SELECT column_name, data_type, column_type, numeric_precision, numeric_scale, datetime_precision,
  character_set_name, extra, column_default, is_nullable
FROM information_schema.columns WHERE table_schema = %s AND table_name = %s
ORDER BY ordinal_position
"""
_KEY = """
SELECT column_name FROM information_schema.statistics
WHERE table_schema = %s AND table_name = %s AND index_name = 'PRIMARY' ORDER BY seq_in_index
"""
_CASCADES = """
SELECT constraint_name FROM information_schema.referential_constraints
WHERE constraint_schema = %s AND table_name = %s
  AND NOT (delete_rule IN ('RESTRICT', 'NO ACTION') AND update_rule IN ('RESTRICT', 'NO ACTION'))
"""
_VARIABLES = (
    "log_bin",
    "binlog_format",
    "binlog_row_image",
    "binlog_row_metadata",
    "binlog_row_value_options",
    "binlog_transaction_compression",
    "log_bin_compress",
    # Of a replica, whether its log has what it replicates; one name is that of newer releases.
    "log_slave_updates",
    "log_replica_updates",
    "server_id",
    "server_uid",
    "server_uuid",
)
# MySQL's names of types that are one to the connector.
_KINDS = {f"{size}{kind}": kind for size in ("tiny", "medium", "long") for kind in ("text", "blob")}


class Position(NamedTuple):
    """A place in the log, where an event begins."""

    file: str
    at: int

    @property
    def order(self) -> tuple[int, str, int]:
        """What compares as places do: the number in the name of a file may get a digit more."""
        return len(self.file), self.file, self.at


class Status(NamedTuple):
    """The end of the log, and the databases that it has, or has not; none are all, or none."""

    end: Position
    databases: tuple[str, ...]
    ignored: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class TableFacts:
    """What the catalog says of a table."""

    kind: str
    engine: str
    key: tuple[str, ...]
    columns: tuple[SourceColumn, ...]
    # Columns that are computed when they are read.
    virtual: frozenset[str]
    # Foreign keys that change rows by themselves.
    cascades: tuple[str, ...]


class ColumnFacts(NamedTuple):
    """The columns of a table, those that are computed, and what older rows have in new ones."""

    columns: tuple[SourceColumn, ...]
    virtual: frozenset[str]
    defaults: Mapping[str, str]


class Server(Endpoint):
    """A database, and connections to it."""

    @contextmanager
    def told(self) -> Iterator[None]:
        """Failures of the client as errors that name the database.

        Raises:
            UnavailableError: the server cannot be reached.
            AccessRefused: it refuses the user or the password.
            InvalidRequestError: it refuses a statement, or the user lacks a right.
        """
        failures = self.client().err
        try:
            yield
        except failures.Error as error:
            code = error.args[0] if error.args else None
            is_passing = isinstance(error, failures.OperationalError)
            is_passing = is_passing and code not in (*_DENIED, _NO_DATABASE)
            kind: type[StorageError] = UnavailableError if is_passing else InvalidRequestError
            kind = AccessRefused if code == _WRONG_USER else kind
            grant = (
                f"; run GRANT SELECT, LOCK TABLES ON `{self.database}`.* TO '{self.username}'@'%' "
                "and GRANT REPLICATION SLAVE, REPLICATION CLIENT ON *.* TO it"
            )
            told = error.args[-1] if error.args else error
            raise kind(
                f"database {self.database} at {self.hostname}:{self.port}, which {self.owner} "
                f"describes: {told}{grant if code in _DENIED else ''}",
                table=self.owner,
            ) from error

    @property
    def settings(self) -> dict[str, Any]:
        """How the client connects; values come as texts, or bytes."""
        return {
            "host": self.hostname,
            "port": self.port,
            "user": self.username,
            "password": self.password,
            "charset": "utf8mb4",
            "connect_timeout": _CONNECT_SECONDS,
            "autocommit": True,
            "init_command": _SETTINGS,
        }

    def connect(self) -> Connection:
        """A connection, for use within `told`."""
        client = self.client().connect(**self.settings, conv={})
        return Connection(client, self.client())

    def client(self) -> Any:
        with needed_for(f"connector mysql-cdc of {self.owner}"):
            import_module("pymysqlreplication")
            return import_module("pymysql")


def quoted(name: str) -> str:
    """A name as SQL quotes it, in a statement that has parameters."""
    return "`" + name.replace("`", "``").replace("%", "%%") + "`"


@dataclass(frozen=True)
class Connection:
    """A connection and the questions that the connector asks; every statement is a transaction."""

    client: Any
    pymysql: Any

    def close(self) -> None:
        self.client.close()

    def rows(self, statement: str, *values: object) -> list[Any]:
        with closing(self.client.cursor()) as cursor:
            cursor.execute(statement, values)
            return list(cursor.fetchall())

    def pieces(self, statement: str, values: Sequence[object], size: int) -> Iterator[list[Any]]:
        """The rows of a query as they come from the server."""
        with closing(self.client.cursor(self.pymysql.cursors.SSCursor)) as cursor:
            cursor.execute(statement, values)
            while found := cursor.fetchmany(size):
                yield list(found)

    def table(self, database: str, name: str) -> TableFacts | None:
        found = self.rows(
            "SELECT table_type, engine FROM information_schema.tables "
            "WHERE table_schema = %s AND table_name = %s",
            database,
            name,
        )
        if not found:
            return None
        described = self.columns(database, name)
        return TableFacts(
            found[0][0],
            found[0][1] or "",
            tuple(each for (each,) in self.rows(_KEY, database, name)),
            described.columns,
            described.virtual,
            tuple(each for (each,) in self.rows(_CASCADES, database, name)),
        )

    def columns(self, database: str, name: str) -> ColumnFacts:
        """The columns of a table; none if it is not there."""
        found = self.rows(_COLUMNS, database, name)
        # MariaDB writes a default of null as a word.
        defaults = {
            each[0]: "NULL" if each[8] is None and each[9] == "YES" else each[8] or "of its type"
            for each in found
        }
        return ColumnFacts(
            tuple(_column(*each[:7]) for each in found),
            frozenset(each[0] for each in found if "VIRTUAL" in each[7].upper()),
            {name: default for name, default in defaults.items() if default.upper() != "NULL"},
        )

    def lock(self, place: str) -> None:
        """Lock a table against writers, as soon as no transaction that wrote to it is open.

        Raises:
            UnavailableError: one stays open.
        """
        try:
            self.rows(f"LOCK TABLES {place} READ")
        except self.pymysql.err.OperationalError as error:
            if error.args[0] != _LOCKED:
                raise
            raise UnavailableError(
                f"a first start waits until transactions that wrote to {place} have ended, and "
                f"after {_LOCK_SECONDS} seconds one is open; end it (SHOW PROCESSLIST, KILL), or "
                "start when it is over"
            ) from error

    def variables(self) -> dict[str, str]:
        """The server's settings of its log, and its ids."""
        names = ", ".join(f"'{each}'" for each in _VARIABLES)
        return dict(self.rows(f"SHOW GLOBAL VARIABLES WHERE variable_name IN ({names})"))

    def is_replica(self) -> bool:
        """Whether the server carries out changes of another one, as far as the user may see."""
        # MariaDB tells it everybody, while replication runs.
        running = self.rows(
            "SHOW GLOBAL STATUS WHERE variable_name IN ('Slave_running', 'Slaves_running')"
        )
        if any(value not in ("OFF", "0", "") for _, value in running):
            return True
        for statement in ("SHOW REPLICA STATUS", "SHOW SLAVE STATUS"):
            try:
                return bool(self.rows(statement))
            except self.pymysql.err.Error as error:
                if error.args[0] not in (_UNKNOWN_STATEMENT, *_DENIED):
                    raise
        return False

    def status(self) -> Status | None:
        """The end of the log; None if there is none."""
        try:
            found = self.rows("SHOW MASTER STATUS")
        except self.pymysql.err.ProgrammingError as error:
            if error.args[0] != _UNKNOWN_STATEMENT:
                raise
            found = self.rows("SHOW BINARY LOG STATUS")
        if not found:
            return None
        file, at, databases, ignored = found[0][:4]
        return Status(Position(file, int(at)), _names(databases), _names(ignored))

    def logs(self) -> dict[str, int]:
        """The files of the log, with their sizes."""
        return {row[0]: int(row[1]) for row in self.rows("SHOW BINARY LOGS")}

    def charsets(self) -> dict[int, str]:
        """The character set of each collation, by the number that the log has."""
        try:
            # In MariaDB, the numbers of collations that several character sets have.
            found = self.rows(
                "SELECT id, character_set_name "
                "FROM information_schema.collation_character_set_applicability"
            )
        except self.pymysql.err.Error:
            found = self.rows("SELECT id, character_set_name FROM information_schema.collations")
        return {int(number): charset for number, charset in found if number is not None}


def _names(text: str | None) -> tuple[str, ...]:
    return tuple(each.strip() for each in (text or "").split(",") if each.strip())


def _labels(text: str) -> tuple[str, ...]:
    """The labels of `enum('a','it''s')`."""
    found = re.findall(r"'((?:[^']|'')*)'", text)
    return tuple(each.replace("''", "'") for each in found)


def _column(
    name: str,
    kind: str,
    text: str,
    precision: str | None,
    scale: str | None,
    seconds: str | None,
    charset: str | None,
) -> SourceColumn:
    # Labels are distinguished in the log alone; here they say whether they are in ASCII.
    if kind in ("enum", "set") and text.isascii():
        charset = "ascii"
    return SourceColumn(
        name,
        _KINDS.get(kind, kind),
        is_unsigned=" unsigned" in text.lower() and kind not in ("enum", "set"),
        precision=int(precision or 0),
        scale=int((seconds if scale is None else scale) or 0),
        charset=charset,
        labels=_labels(text) if kind in ("enum", "set") else (),
        text=text,
    )
