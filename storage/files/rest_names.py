"""A catalog whose names, snapshots and schemas are kept by a server of Paimon's REST protocol.

The server says where tables lie, makes and deletes them, and writes their snapshots and schemas
there. Their other files are written and read as everywhere.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import suppress
from dataclasses import dataclass, replace
from typing import Any

from lakewright.storage.codec.json_values import as_object, as_text
from lakewright.storage.codec.rest_json import schema_to_rest
from lakewright.storage.env import FileSystem
from lakewright.storage.errors import (
    AlreadyExistsError,
    DatabaseNotFound,
    InvalidRequestError,
    NotFoundError,
    TableNotFound,
    UnavailableError,
    UnsupportedError,
)
from lakewright.storage.files.catalog_names import READ_ONLY, not_empty
from lakewright.storage.files.catalog_options import TABLE_DEFAULT
from lakewright.storage.files.file_systems import local_path, open_file_system
from lakewright.storage.files.read_only_files import ReadOnlyFiles
from lakewright.storage.files.rest_client import MOVE_SECONDS, RestServer
from lakewright.storage.files.rest_table import RestTable
from lakewright.storage.files.rest_tokens import TableTokens, with_tokens
from lakewright.storage.spec.schema import TableSchema

_TYPE = "type"
# The kinds of tables that have snapshots of their own.
_PAIMON = ("table", "materialized-table")


@dataclass(frozen=True)
class RestNames:
    """Names at a server; each question is a request, so other clients' changes are seen at once."""

    server: RestServer
    lock: str | None = None
    durable: bool | None = None
    can_write: bool = True

    @property
    def key(self) -> str:
        """What tells catalogs apart, in messages."""
        return self.server.uri

    @property
    def what(self) -> str:
        """The noun of messages."""
        return f"the REST catalog at {self.server.uri}"

    @property
    def uri(self) -> str:
        """The warehouse as messages name it."""
        return f"{self.server.uri}/{self.server.warehouse}"

    @property
    def table_defaults(self) -> dict[str, str]:
        """Options of new tables that the server asks for."""
        return {
            name.removeprefix(TABLE_DEFAULT): value
            for name, value in self.server.config.items()
            if name.startswith(TABLE_DEFAULT)
        }

    def read_only(self) -> RestNames:
        return replace(self, can_write=False)

    def databases(self) -> tuple[str, ...]:
        return tuple(sorted(self.server.listed("databases", "databases")))

    def tables(self, database: str) -> tuple[str, ...]:
        """Names of Paimon's tables; a server also lists tables of plain files and others."""
        found: set[str] = set()
        for kind in _PAIMON:
            found.update(self._listed(database, kind))
        return tuple(sorted(found))

    def has_table(self, database: str, table: str) -> bool:
        return self._found(database, table) is not None

    def open(self, database: str, table: str) -> tuple[FileSystem, str, RestTable | None]:
        """The store and path of a table, and its server; None if its files are its only truth.

        Raises:
            TableNotFound: there is no such table.
            UnsupportedError: it is no table with snapshots, or its store is not implemented.
        """
        found = self._found(database, table)
        name = f"{database}.{table}"
        if found is None:
            raise TableNotFound(f"no table {name} in {self.what}")
        options = as_object(as_object(found.get("schema") or {}).get("options") or {})
        kind = str(options.get(_TYPE) or _PAIMON[0]).lower()
        if kind not in _PAIMON:
            raise UnsupportedError(
                f"{name} is a {kind} in {self.what}, without snapshots; only tables of Paimon can "
                "be opened there"
            )
        is_external = found.get("isExternal") is True
        try:
            uri = as_text(found.get("path") or options.get("path"))
            served = RestTable(
                self.server, database, table, as_text(found.get("id")), self.can_write
            )
        except ValueError as error:
            raise UnavailableError(
                f"{self.what} does not say where {name} lies, or which table it is: {error}"
            ) from error
        fs, path = open_file_system(
            local_path(uri), self.server.env, lock=self.lock, durable=self.durable
        )
        if self.server.config.get("data-token.enabled", "").lower() == "true" and not is_external:
            fs = with_tokens(fs, TableTokens(self.server, database, table), name)
        fs = fs if self.can_write else ReadOnlyFiles(fs)
        return fs, path.rstrip("/") or "/", None if is_external else served

    def add_database(self, database: str, *, location: str = "") -> None:
        """Make a database; `location` is the server's own choice."""
        self._check_writable(f"create database {database}")
        try:
            self.server.post("databases", body={"name": database, "options": {}})
        except AlreadyExistsError:
            return

    def add_table(self, database: str, table: str, schema: TableSchema) -> None:
        """Let the server make a table.

        Raises:
            AlreadyExistsError, DatabaseNotFound: the name is taken, or has no database.
            InvalidRequestError, UnsupportedError: the server refuses the schema.
            UnavailableError: it failed, and may have made the table.
        """
        self._check_writable(f"create table {database}.{table}")
        body = {"identifier": _identifier(database, table), "schema": schema_to_rest(schema)}
        self.server.post("databases", database, "tables", body=body)

    def drop_database(self, database: str, *, location: str = "") -> None:
        """Drop a database without tables and views of any kind.

        Raises:
            DatabaseNotFound, InvalidRequestError: it does not exist, or is not empty.
        """
        self._check_writable(f"drop database {database}")
        # The server drops what is in it, too.
        within = list(self.server.listed("tables", "databases", database, "tables"))
        with suppress(NotFoundError, UnsupportedError):
            within += self.server.listed("views", "databases", database, "views")
        if within:
            raise not_empty(database, "it", within)
        self.server.drop("databases", database)

    def drop_table(self, database: str, table: str) -> None:
        """Drop a table with its files, which stay if it is an external one."""
        self._check_writable(f"drop table {database}.{table}")
        self.server.drop("databases", database, "tables", table)

    def rename_table(self, database: str, table: str, to_database: str, to_table: str) -> None:
        """Give a table another name; the server may move its files.

        Raises:
            TableNotFound: there is no such table.
            AlreadyExistsError, DatabaseNotFound: the other name is taken, or has no database.
        """
        self._check_writable(f"rename table {database}.{table}")
        if self._found(database, table) is None:
            raise TableNotFound(f"no table {database}.{table} in {self.what}")
        if self._found(to_database, to_table) is not None:
            raise AlreadyExistsError(f"table {to_database}.{to_table} exists in {self.what}")
        if to_database not in self.databases():
            raise DatabaseNotFound(f"no database {to_database} in {self.what}; create it first")
        body = {
            "source": _identifier(database, table),
            "destination": _identifier(to_database, to_table),
        }
        self.server.post("tables", "rename", body=body, seconds=MOVE_SECONDS)

    def keeps_files(self, database: str, table: str) -> bool:
        """Whether the files outlive a drop of the table, and stay where they are in a rename."""
        found = self._found(database, table)
        return found is not None and found.get("isExternal") is True

    def _found(self, database: str, table: str) -> dict[str, Any] | None:
        """What the server says of a table, of whatever kind."""
        try:
            return self.server.get("databases", database, "tables", table)
        except (DatabaseNotFound, TableNotFound):
            return None

    def _listed(self, database: str, kind: str) -> Iterator[str]:
        try:
            yield from self.server.listed("tables", "databases", database, "tables", tableType=kind)
        except DatabaseNotFound:
            return

    def _check_writable(self, what: str) -> None:
        if not self.can_write:
            raise InvalidRequestError(READ_ONLY.format(what))


def _identifier(database: str, table: str) -> dict[str, str]:
    return {"database": database, "object": table}
