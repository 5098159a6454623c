"""A catalog whose names are kept by Hive's metastore, as Paimon's Hive catalog keeps them.

The metastore says where databases and tables lie; schemas and snapshots are files there, as
everywhere. Tables of other formats, and views, are not seen and not touched.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

from lakewright.storage.env import Env, FileSystem
from lakewright.storage.errors import (
    AlreadyExistsError,
    DatabaseNotFound,
    InvalidRequestError,
    NotFoundError,
    TableNotFound,
    UnavailableError,
)
from lakewright.storage.files.catalog_names import READ_ONLY, not_empty
from lakewright.storage.files.file_systems import local_path, open_file_system, with_lock
from lakewright.storage.files.hive_client import HiveMetastore, current_user, idl
from lakewright.storage.files.hive_lock import HiveLock
from lakewright.storage.files.metadata_stores import SchemaStore
from lakewright.storage.files.paths import DATABASE_SUFFIX, TablePaths
from lakewright.storage.files.read_only_files import ReadOnlyFiles
from lakewright.storage.spec.hive_table import (
    EXTERNAL_TYPE,
    INPUT_FORMAT,
    MANAGED_TYPE,
    OUTPUT_FORMAT,
    SERDE,
    HiveColumn,
    hive_table,
)
from lakewright.storage.spec.schema import TableSchema

# What every metastore takes for a name; it turns others into lower case, or refuses them.
_NAME = re.compile(r"[a-z0-9_]{1,128}")
_NO_LIMIT = 2**31 - 1
_ZONED = "timestamp with local time zone"
# How often newer schemas of other writers are passed to the metastore.
_MOST_ROUNDS = 20


@dataclass(frozen=True)
class HiveStores:
    """How the places are opened that the metastore names."""

    env: Env
    lock: str | None = None
    durable: bool | None = None
    # What the caller says of locks for every create; None where the store decides.
    lock_enabled: bool | None = None
    longest_sleep_ms: int = 8_000
    lock_timeout_ms: int = 480_000

    def open(
        self, metastore: HiveMetastore, uri: str, database: str = "", table: str = ""
    ) -> tuple[FileSystem, str]:
        """The store and path of a location; writers of a table take the metastore's lock of it."""
        fs, path = open_file_system(local_path(uri), self.env, lock=self.lock, durable=self.durable)
        path = path.rstrip("/") or "/"
        if not table:
            return fs, path
        lock = HiveLock(
            metastore, database, table, self.env, self.longest_sleep_ms, self.lock_timeout_ms
        )
        return with_lock(fs, lock, always=self.lock_enabled), path


@dataclass(frozen=True)
class HiveNames:
    """Names in a metastore; `root` is where new databases are made."""

    metastore: HiveMetastore
    stores: HiveStores
    root: str
    can_write: bool = True

    @property
    def key(self) -> str:
        """What tells catalogs apart, in messages."""
        return self.metastore.url

    def outdated(self, database: str, schemas: Mapping[str, TableSchema]) -> set[str]:
        """Those of the tables whose columns or options the metastore repeats otherwise."""
        found = self.metastore.tables(database) if schemas else []
        return {
            each.tableName
            for each in found
            if each.tableName in schemas and not repeats(each, schemas[each.tableName])
        }

    def read_only(self) -> HiveNames:
        return replace(self, can_write=False)

    @property
    def what(self) -> str:
        """The noun of messages."""
        return f"the metastore at {self.metastore.url}"

    def databases(self) -> tuple[str, ...]:
        return self.metastore.databases()

    def tables(self, database: str) -> tuple[str, ...]:
        try:
            found = self.metastore.tables(database)
        except (NotFoundError, InvalidRequestError):
            return ()
        return tuple(sorted(each.tableName for each in found if is_paimon(each)))

    def has_table(self, database: str, table: str) -> bool:
        return self._paimon(database, table) is not None

    def find(self, database: str, table: str) -> Any | None:
        """What the metastore knows under that very name, of whatever kind."""
        if not (self.fits(database) and self.fits(table)):
            return None
        return self.metastore.table(database, table)

    def place(self, database: str, table: str) -> tuple[FileSystem, str]:
        """The store and the path of a table's files; of a new one, where it will lie."""
        uri = self._table_uri(self._paimon(database, table), database, table)
        fs, path = self.stores.open(self.metastore, uri, database, table)
        return (fs if self.can_write else ReadOnlyFiles(fs)), path

    def database_uri(self, database: str) -> str:
        """Where a database lies, or will lie."""
        found = self.metastore.database(database) if self.fits(database) else None
        if found is not None and found.locationUri:
            return str(found.locationUri)
        return f"{self.root.rstrip('/')}/{database}{DATABASE_SUFFIX}"

    def database_place(self, database: str) -> tuple[FileSystem, str]:
        fs, path = self.stores.open(self.metastore, self.database_uri(database))
        return (fs if self.can_write else ReadOnlyFiles(fs)), path

    def check_new(self, database: str, table: str) -> None:
        """Refuse a name that cannot be registered, before a file of it is written.

        Raises:
            InvalidRequestError: a name is none for a metastore, or the catalog is read only.
            AlreadyExistsError: the name is taken, by a table of whatever kind.
        """
        self._check_writable(f"create table {database}.{table}")
        for kind, name in (("database", database), ("table", table)):
            self.check_name(kind, name)
        found = self.metastore.table(database, table)
        if found is not None:
            kind = "" if is_paimon(found) else f", as {_kind(found)}"
            raise AlreadyExistsError(
                f"table {database}.{table} exists already in {self.what}{kind}"
            )

    def unfit(self, database: str, table: str) -> str | None:
        """Why a table whose files lie in a database's folder cannot be registered."""
        try:
            replace(self, can_write=True).check_new(database, table)
        except (InvalidRequestError, AlreadyExistsError) as error:
            return error.message
        return None

    def fits(self, name: str) -> bool:
        return _NAME.fullmatch(name) is not None

    def check_name(self, kind: str, name: str) -> None:
        if not self.fits(name):
            raise InvalidRequestError(
                f"{kind} name {name!r:.200} cannot be kept in a metastore; use lower case letters, "
                "digits and underscores, at most 128"
            )

    def add_database(self, database: str, *, location: str) -> None:
        self._check_writable(f"create database {database}")
        self.check_name("database", database)
        try:
            self.metastore.create_database(database, self.database_uri(database))
        except (AlreadyExistsError, UnavailableError):
            # Another client may have created it a moment ago; version 4 may call that a failure.
            if self.metastore.database(database) is None:
                raise

    def add_table(self, database: str, table: str, schema: TableSchema) -> None:
        """Register a table at its place; for one that is registered, repeat its latest schema."""
        self._check_writable(f"list table {database}.{table}")
        found = self._paimon(database, table)
        if found is not None:
            HiveRegistry(self.metastore, database, table).tell(schema)
            return
        fs, path = self.place(database, table)
        if not SchemaStore(fs, TablePaths(path)).ids():
            raise InvalidRequestError(
                f"no schema of table {database}.{table} lies at {path}, where database {database} "
                "is: another client made the database elsewhere a moment ago; try again"
            )
        now_s = self.stores.env.now_ms() // 1000
        told = hive_table(schema)
        made = idl().Table(
            tableName=table,
            dbName=database,
            owner=current_user(),
            createTime=now_s,
            lastAccessTime=now_s,
            retention=_NO_LIMIT,
            tableType=MANAGED_TYPE,
            partitionKeys=_fields(told.partition_columns),
            parameters=told.parameters,
            sd=idl().StorageDescriptor(
                cols=_fields(told.columns),
                location=self._table_uri(None, database, table),
                inputFormat=INPUT_FORMAT,
                outputFormat=OUTPUT_FORMAT,
                compressed=False,
                numBuckets=0,
                serdeInfo=idl().SerDeInfo(serializationLib=SERDE, parameters={}),
                bucketCols=[],
                sortCols=[],
                parameters={},
            ),
        )
        self.metastore.create_table(made)

    def drop_database(self, database: str, *, location: str) -> None:
        self._check_writable(f"drop database {database}")
        within = self.metastore.table_names(database)
        if within:
            raise not_empty(database, location, within)
        self.metastore.drop_database(database)

    def drop_table(self, database: str, table: str) -> None:
        self._check_writable(f"drop table {database}.{table}")
        self.metastore.drop_table(database, table)

    def rename_table(self, database: str, table: str, to_database: str, to_table: str) -> None:
        """Give a table another name; the metastore moves the folder of a managed table with it.

        Raises:
            TableNotFound: there is no such table of Paimon's.
            AlreadyExistsError, DatabaseNotFound: the other name is taken, or has no database.
        """
        self._check_writable(f"rename table {database}.{table}")
        found = self._paimon(database, table)
        if found is None:
            raise TableNotFound(f"no table {database}.{table} in {self.what}")
        self.check_new(to_database, to_table)
        if self.metastore.database(to_database) is None:
            raise DatabaseNotFound(f"no database {to_database} in {self.what}; create it first")
        found.dbName, found.tableName = to_database, to_table
        self.metastore.alter_table(database, table, found)

    def keeps_files(self, database: str, table: str) -> bool:
        """Whether the files outlive a drop of the table: it is external, or shares its folder."""
        found = self._paimon(database, table)
        if found is None:
            return False
        purged = str((found.parameters or {}).get("external.table.purge", "")).lower() == "true"
        if found.tableType == EXTERNAL_TYPE and not purged:
            return True
        mine = _bare(found.sd.location)
        others = [
            _bare(each.sd.location)
            for each in self.metastore.tables(database)
            if each.tableName != found.tableName and each.sd is not None and each.sd.location
        ]
        others += [_bare(self.database_uri(database)), _bare(self.root)]
        return any(f"{each}/".startswith(f"{mine}/") for each in others)

    def schema_registry(self, database: str, table: str) -> HiveRegistry | None:
        """What tells the metastore of the table's schemas; nothing does where all is only read."""
        return HiveRegistry(self.metastore, database, table) if self.can_write else None

    def _table_uri(self, found: Any | None, database: str, table: str) -> str:
        """Where a table lies, or will lie if the metastore has none."""
        if found is not None and found.sd.location:
            return str(found.sd.location)
        return f"{self.database_uri(database).rstrip('/')}/{table}"

    def _paimon(self, database: str, table: str) -> Any | None:
        found = self.find(database, table)
        return found if found is not None and is_paimon(found) else None

    def _check_writable(self, what: str) -> None:
        if not self.can_write:
            raise InvalidRequestError(READ_ONLY.format(what))


@dataclass(frozen=True)
class HiveRegistry:
    """What a metastore repeats of one table's schema, for Hive, which compares the two."""

    metastore: HiveMetastore
    database: str
    table: str

    def tell(self, schema: TableSchema, former: TableSchema | None = None) -> None:
        """Let the metastore repeat a schema; options that only `former` has are taken away.

        Raises:
            TableNotFound: the table is not in the metastore any more.
            InvalidRequestError, UnavailableError: the metastore refuses, or does not answer.
        """
        database = self._found()
        told = hive_table(schema)
        gone = set() if former is None else set(former.options) - set(told.parameters)
        parameters = {
            name: value for name, value in (database.parameters or {}).items() if name not in gone
        }
        if not gone & set(database.parameters or {}) and repeats(database, schema):
            return
        database.sd.cols = _fields(told.columns)
        database.partitionKeys = _fields(told.partition_columns)
        database.parameters = {**parameters, **told.parameters}
        self.metastore.alter_table(self.database, self.table, database)

    def follow(self, latest: Callable[[], TableSchema]) -> None:
        """Let the metastore repeat the latest schema, those too that others add meanwhile.

        Raises:
            UnavailableError: the metastore does not answer; the schema's file is there.
        """
        name = f"{self.database}.{self.table}"
        schema = latest()
        for _ in range(_MOST_ROUNDS):
            try:
                self.tell(schema)
            except (UnavailableError, InvalidRequestError) as error:
                raise UnavailableError(
                    f"schema {schema.id} of {name} is written, and the metastore may not repeat "
                    f"it: {error.message}; `lakewright sync` reports it"
                ) from error
            # Another writer that adds a schema tells of it, and then looks again as this one does.
            told, schema = schema, latest()
            if told == schema:
                return

    def _found(self) -> Any:
        found = self.metastore.table(self.database, self.table)
        if found is None or not is_paimon(found):
            name = f"{self.database}.{self.table}"
            raise TableNotFound(
                f"table {name} is not in the metastore at {self.metastore.url} any more: it was "
                "dropped or renamed; open the catalog again"
            )
        return found


def root_uri(warehouse: str, root: str) -> str:
    """The URI of a warehouse for a metastore, without encoded characters."""
    is_local = "://" not in warehouse or warehouse.startswith("file:")
    return f"file:{root}" if is_local else warehouse


def is_paimon(found: Any) -> bool:
    """Whether a table of the metastore is one of Paimon's, as Java's catalog tells them."""
    sd = found.sd
    return sd is not None and sd.inputFormat == INPUT_FORMAT and sd.outputFormat == OUTPUT_FORMAT


def repeats(found: Any, schema: TableSchema) -> bool:
    """Whether a metastore's table repeats the columns, keys and options of a schema."""
    told = hive_table(schema)
    has = found.parameters or {}
    return (
        _comparable(_columns(found.sd.cols)) == _comparable(told.columns)
        and _comparable(_columns(found.partitionKeys)) == _comparable(told.partition_columns)
        and all(has.get(name) == value for name, value in told.parameters.items())
    )


def _kind(found: Any) -> str:
    if found.tableType == "VIRTUAL_VIEW":
        return "a view"
    handler = (found.parameters or {}).get("table_type") or (
        found.sd.inputFormat if found.sd is not None else None
    )
    return f"a table of another format ({handler or 'unknown'})"


def _fields(columns: Sequence[HiveColumn]) -> list[Any]:
    return [
        idl().FieldSchema(name=column.name, type=column.type, comment=column.comment)
        for column in columns
    ]


def _columns(fields: Sequence[Any] | None) -> tuple[HiveColumn, ...]:
    return tuple(HiveColumn(each.name, each.type, each.comment) for each in fields or ())


def _comparable(columns: Sequence[HiveColumn]) -> list[HiveColumn]:
    """Columns in the types of Hive 2, whose clients tell of both timestamps alike."""
    return [replace(column, type=column.type.replace(_ZONED, "timestamp")) for column in columns]


def _bare(uri: str) -> str:
    """A location for comparison: without a scheme, since several name one store."""
    _, mark, rest = uri.partition("://")
    text = rest if mark else uri.removeprefix("file:")
    return "/" + text.strip("/")
