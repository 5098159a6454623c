"""Where a catalog keeps the names of its databases and tables: in folders, or in a database.

In a database, the names are rows of the tables that Paimon's JDBC catalog makes, so its clients and
ours see the same names. The files of a table, schemas too, lie where they would lie without it.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from typing import Protocol

from lakewright.storage.env import FileSystem
from lakewright.storage.errors import AlreadyExistsError, InvalidRequestError
from lakewright.storage.files.databases import Database, DatabaseSession
from lakewright.storage.files.metadata_stores import SchemaStore
from lakewright.storage.files.paths import DATABASE_SUFFIX, TablePaths
from lakewright.storage.spec.schema import TableSchema

_TEXT = "VARCHAR(255) NOT NULL"
_LONGEST_NAME = 255
READ_ONLY = "{} is refused: the catalog is read only"
_LONGEST_VALUE = 1000
_TABLES = {
    "paimon_tables": f"""(
        catalog_key {_TEXT}, database_name {_TEXT}, table_name {_TEXT},
        PRIMARY KEY (catalog_key, database_name, table_name))""",
    "paimon_database_properties": f"""(
        catalog_key {_TEXT}, database_name {_TEXT}, property_key VARCHAR(255),
        property_value VARCHAR({_LONGEST_VALUE}),
        PRIMARY KEY (catalog_key, database_name, property_key))""",
    "paimon_table_properties": f"""(
        catalog_key {_TEXT}, database_name {_TEXT}, table_name {_TEXT}, property_key {_TEXT},
        property_value VARCHAR({_LONGEST_VALUE}),
        PRIMARY KEY (catalog_key, database_name, table_name, property_key))""",
}
_DATABASES = (
    "SELECT database_name FROM paimon_tables WHERE catalog_key = ? UNION "
    "SELECT database_name FROM paimon_database_properties WHERE catalog_key = ?"
)
_TABLES_OF = "SELECT table_name FROM paimon_tables WHERE catalog_key = ? AND database_name = ?"
_TABLE = f"{_TABLES_OF} AND table_name = ?"
_PROPERTIES_OF = (
    "SELECT table_name, property_key, property_value FROM paimon_table_properties "
    "WHERE catalog_key = ? AND database_name = ?"
)
_ADD_TABLE = (
    "INSERT INTO paimon_tables (catalog_key, database_name, table_name) VALUES (?, ?, ?) "
    "ON CONFLICT DO NOTHING"
)
_ADD_PROPERTY = (
    "INSERT INTO paimon_table_properties (catalog_key, database_name, table_name, property_key, "
    "property_value) VALUES (?, ?, ?, ?, ?) ON CONFLICT DO NOTHING"
)
_ADD_DATABASE = (
    "INSERT INTO paimon_database_properties (catalog_key, database_name, property_key, "
    "property_value) VALUES (?, ?, ?, ?) ON CONFLICT DO NOTHING"
)
# Rows of tables stay: another process may list a table at any moment. Where statements of a
# transaction see what others commit meanwhile, each asks anew.
_WITHOUT_TABLES = (
    "WHERE catalog_key = ? AND database_name = ? AND NOT EXISTS "
    "(SELECT 1 FROM paimon_tables WHERE catalog_key = ? AND database_name = ?)"
)
_DROP_DATABASE = tuple(
    f"{statement} {_WITHOUT_TABLES}"
    for statement in (
        "DELETE FROM paimon_table_properties",
        "DELETE FROM paimon_database_properties",
    )
)
_DROP_TABLE = (
    "DELETE FROM paimon_tables WHERE catalog_key = ? AND database_name = ? AND table_name = ?"
)
_DROP_PROPERTIES = (
    "DELETE FROM paimon_table_properties "
    "WHERE catalog_key = ? AND database_name = ? AND table_name = ?"
)


class Names(Protocol):
    """The names of a catalog; every change is atomic."""

    def databases(self) -> tuple[str, ...]: ...

    def tables(self, database: str) -> tuple[str, ...]: ...

    def has_table(self, database: str, table: str) -> bool: ...

    def add_database(self, database: str, *, location: str) -> None: ...

    def add_table(self, database: str, table: str, schema: TableSchema) -> None:
        """List a table whose schema is written; one that is listed stays so."""
        ...

    def drop_database(self, database: str, *, location: str) -> None:
        """Take a database off the list, but not its files.

        Raises:
            InvalidRequestError: a table of it is listed.
        """
        ...

    def drop_table(self, database: str, table: str) -> None:
        """Take a table off the list, but not its files."""
        ...


@dataclass(frozen=True)
class FolderNames:
    """Folders are the list: a database is a folder `name.db`, a table one with a schema in it."""

    fs: FileSystem
    root: str

    def databases(self) -> tuple[str, ...]:
        folders = self.fs.list_subdirs(self.root)
        return tuple(
            name.removesuffix(DATABASE_SUFFIX) for name in folders if name.endswith(DATABASE_SUFFIX)
        )

    def tables(self, database: str) -> tuple[str, ...]:
        names = self.fs.list_subdirs(f"{self.root}/{database}{DATABASE_SUFFIX}")
        return tuple(name for name in names if self.has_table(database, name))

    def has_table(self, database: str, table: str) -> bool:
        paths = TablePaths(f"{self.root}/{database}{DATABASE_SUFFIX}/{table}")
        return bool(SchemaStore(self.fs, paths).ids())

    def add_database(self, database: str, *, location: str) -> None:
        """Do nothing: the folder is the name."""

    def add_table(self, database: str, table: str, schema: TableSchema) -> None:
        """Do nothing: the schema file is the name."""

    def drop_database(self, database: str, *, location: str) -> None:
        """Do nothing: the name goes with the folder."""

    def drop_table(self, database: str, table: str) -> None:
        """Do nothing: the name goes with the schema files."""


@dataclass(frozen=True)
class DatabaseNames:
    """Rows of a database; `key` tells the catalogs apart that share it."""

    database: Database
    key: str
    can_write: bool = True

    @property
    def what(self) -> str:
        """The noun of messages."""
        return "the catalog's database"

    def outdated(self, database: str, schemas: Mapping[str, TableSchema]) -> set[str]:
        """Those of the tables whose options or keys the database repeats from another schema."""
        rows = self.properties(database) if schemas else {}
        return {
            table
            for table, schema in schemas.items()
            if properties_of(schema) != rows.get(table, {})
        }

    def read_only(self) -> DatabaseNames:
        return replace(self, can_write=False)

    def databases(self) -> tuple[str, ...]:
        return self._names(_DATABASES, self.key, self.key)

    def tables(self, database: str) -> tuple[str, ...]:
        return self._names(_TABLES_OF, self.key, database)

    def has_table(self, database: str, table: str) -> bool:
        return bool(self._names(_TABLE, self.key, database, table))

    def properties(self, database: str) -> dict[str, dict[str, str]]:
        """What the database repeats of each table's schema; only other tools read it."""
        found: dict[str, dict[str, str]] = {}
        with self.database.session() as session:
            for table, name, value in session.rows(_PROPERTIES_OF, self.key, database):
                found.setdefault(table, {})[name] = value
        return found

    def check_new(self, database: str, table: str) -> None:
        """Refuse what cannot be listed, before a file of it is written.

        Raises:
            InvalidRequestError: a name is too long, or the catalog is read only.
            AlreadyExistsError: the table is listed.
            UnavailableError: the database cannot be written.
        """
        with self._changing(f"create table {database}.{table}"):
            _check_length(database)
            _check_length(table)
        if self.has_table(database, table):
            raise AlreadyExistsError(
                f"table {database}.{table} exists already in catalog {self.key!r}"
            )

    def add_database(self, database: str, *, location: str) -> None:
        with self._changing(f"create database {database}") as session, session.transaction():
            for name, value in (("exists", "true"), ("location", location)):
                session.change(_ADD_DATABASE, self.key, database, name, value[:_LONGEST_VALUE])

    def add_table(self, database: str, table: str, schema: TableSchema) -> None:
        with self._changing(f"list table {database}.{table}") as session, session.transaction():
            session.change(_ADD_TABLE, self.key, database, table)
            session.change(_DROP_PROPERTIES, self.key, database, table)
            for name, value in properties_of(schema).items():
                session.change(_ADD_PROPERTY, self.key, database, table, name, value)

    def drop_database(self, database: str, *, location: str) -> None:
        with self._changing(f"drop database {database}") as session, session.transaction():
            for statement in _DROP_DATABASE:
                session.change(statement, *(self.key, database) * 2)
            tables = session.rows(_TABLES_OF, self.key, database)
            if tables:
                raise not_empty(database, location, [name for (name,) in tables])

    def drop_table(self, database: str, table: str) -> None:
        with self._changing(f"drop table {database}.{table}") as session, session.transaction():
            session.change(_DROP_TABLE, self.key, database, table)
            session.change(_DROP_PROPERTIES, self.key, database, table)

    def _names(self, sql: str, *values: str) -> tuple[str, ...]:
        if not self.database.exists():
            return ()
        with self.database.session() as session:
            if not all(self.database.has_table(session, name) for name in _TABLES):
                return ()
            return tuple(sorted({name for (name,) in session.rows(sql, *values)}))

    @contextmanager
    def _changing(self, what: str) -> Iterator[DatabaseSession]:
        """A connection to a database that has the tables."""
        if not self.can_write:
            raise InvalidRequestError(READ_ONLY.format(what))
        with self.database.session() as session:
            create_missing(self.database, session, _TABLES)
            yield session


def not_empty(database: str, location: str, within: Sequence[str]) -> InvalidRequestError:
    """The error for a database that cannot be dropped."""
    return InvalidRequestError(
        f"database {database} is not empty: {', '.join(sorted(within))}; drop its tables first, "
        f"and delete what else lies in {location}"
    )


def create_missing(database: Database, session: DatabaseSession, tables: dict[str, str]) -> None:
    """Create those of the tables, by name and columns, that the database lacks."""
    for name, columns in tables.items():
        if database.has_table(session, name):
            continue
        try:
            session.change(f"CREATE TABLE IF NOT EXISTS {name} {columns}")
        except database.failures:
            # Two sessions of PostgreSQL that create it at once: the loser gets an error.
            if not database.has_table(session, name):
                raise


def properties_of(schema: TableSchema) -> dict[str, str]:
    """What the database repeats of a schema; a value that its column cannot hold is left out."""
    bucket_keys = schema.options.get("bucket-key") or ",".join(schema.trimmed_primary_keys)
    found = {
        **schema.options,
        "primary-key": ",".join(schema.primary_keys),
        "partition": ",".join(schema.partition_keys),
        "bucket-key": bucket_keys,
    }
    return {
        name: value
        for name, value in found.items()
        if value and len(value) <= _LONGEST_VALUE and len(name) <= _LONGEST_NAME
    }


def _check_length(name: str) -> None:
    # SQLite would keep a longer name, and PostgreSQL refuse it after the files are written.
    if len(name) > _LONGEST_NAME:
        raise InvalidRequestError(
            f"name {name:.40}… has {len(name)} characters; a catalog in a database holds names of "
            f"at most {_LONGEST_NAME}"
        )
