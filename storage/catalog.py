"""Catalog: maps names `database.table` of a warehouse folder to `Table`.

The filesystem catalog of the format: a database is a folder `name.db`, and a table is a folder
inside it with a schema file. The catalog stores nothing else.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace

import pyarrow as pa

from lakewright.storage.codec.arrow_types import columns_from_arrow
from lakewright.storage.env import Env, FileSystem, SystemEnv
from lakewright.storage.errors import (
    AlreadyExistsError,
    DatabaseNotFound,
    InvalidRequestError,
    TableNotFound,
)
from lakewright.storage.files.file_systems import open_file_system
from lakewright.storage.files.metadata_stores import SchemaStore
from lakewright.storage.files.paths import DATABASE_SUFFIX, TablePaths
from lakewright.storage.files.read_only_files import ReadOnlyFiles
from lakewright.storage.files.table_files import TableFiles
from lakewright.storage.files.temporary_folder import temporary_folder
from lakewright.storage.format_table import FormatTable
from lakewright.storage.operations.format_tables.create_format_table import create_format_table
from lakewright.storage.operations.format_tables.format_spec import format_spec
from lakewright.storage.operations.references.branches import BRANCH_MARK, branch_names
from lakewright.storage.operations.running.delete_files import drop_table_files, is_half_dropped
from lakewright.storage.operations.schema.create_table import create_table
from lakewright.storage.rows import Where
from lakewright.storage.spec.arguments import text_argument
from lakewright.storage.spec.data_types import parse_data_type
from lakewright.storage.spec.file_names import is_place_below
from lakewright.storage.spec.schema import Column, SchemaSpec, listed_names
from lakewright.storage.table import Table


@dataclass(frozen=True)
class Catalog:
    """Databases and tables of one warehouse."""

    fs: FileSystem
    root: str
    env: Env

    @classmethod
    def open(
        cls,
        warehouse: str,
        *,
        env: Env | None = None,
        lock: str | None = None,
        durable: bool | None = None,
    ) -> Catalog:
        """The warehouse at a path or URI (`s3://bucket/path`, …); it need not exist yet.

        `lock` names a lock service for a store without a conditional create, such as
        `sqlite:///path` or `postgresql://host/database`; LAKEWRIGHT_LOCK is its default.
        `durable=False`, or LAKEWRIGHT_DURABLE=false, skips the flushes that make a commit on a
        local disk outlive a power loss; a power loss may then destroy a table (docs/stores.md).

        Raises:
            UnsupportedError: the store is not implemented, or a package for it is missing.
            InvalidRequestError: the URI names no bucket, or it or the lock holds a password.
        """
        env = env or SystemEnv()
        fs, root = open_file_system(warehouse, env, lock=lock, durable=durable)
        return cls(fs, root.rstrip("/") or "/", env)

    @classmethod
    @contextmanager
    def temporary(cls, *, folder: str | None = None, env: Env | None = None) -> Iterator[Catalog]:
        """A warehouse of its own for one session, on the local disk; it goes with the `with` block.

        Its tables are like all others, partitions included, and local Spark tasks reach them. They
        are not made durable. `folder` is where the warehouse is made, by default the system's
        folder for temporary files. A process that is killed leaves it there.
        """
        with temporary_folder(folder) as root:
            yield cls.open(root, env=env, durable=False)

    def read_only(self) -> Catalog:
        """The same warehouse, in which nothing can be changed: every attempt raises.

        A plan that asks the store for its time, which takes a file, is such an attempt.
        """
        return replace(self, fs=ReadOnlyFiles(self.fs))

    @property
    def uri(self) -> str:
        return self.fs.uri(self.root)

    def list_databases(self) -> tuple[str, ...]:
        folders = self.fs.list_subdirs(self.root)
        return tuple(
            name.removesuffix(DATABASE_SUFFIX) for name in folders if name.endswith(DATABASE_SUFFIX)
        )

    def create_database(self, name: str, *, if_not_exists: bool = True) -> None:
        """Make a database.

        Raises:
            AlreadyExistsError: it exists, and `if_not_exists` is False.
        """
        _check_name(name, "database")
        if name in self.list_databases():
            if not if_not_exists:
                raise AlreadyExistsError(f"database {name} exists already in {self.root}")
            return
        path = self._database_path(name)
        self.fs.make_dirs(path)
        self.fs.make_durable([path], below="/")

    def list_tables(self, database: str) -> tuple[str, ...]:
        """Names of the tables of a database.

        Raises:
            DatabaseNotFound: the database does not exist.
        """
        if database not in self.list_databases():
            have = ", ".join(self.list_databases()) or "none"
            raise DatabaseNotFound(f"no database {database} in {self.root}; there are {have}")
        folder = self._database_path(database)
        names = self.fs.list_subdirs(folder)
        return tuple(name for name in names if self._has_schema(f"{folder}/{name}"))

    def list_table_folders(self, database: str) -> tuple[str, ...]:
        """Names of the folders of a database, without a look at which of them are tables."""
        names = self.fs.list_subdirs(self._database_path(database))
        return tuple(name for name in names if not name.startswith("."))

    def create_table(
        self,
        name: str,
        schema: SchemaSpec | pa.Schema | Mapping[str, str],
        *,
        partition_keys: Sequence[str] = (),
        primary_keys: Sequence[str] = (),
        options: Mapping[str, str] | None = None,
        comment: str = "",
        if_not_exists: bool = False,
    ) -> Table:
        """Create `database.table`, and its database if it is missing.

        The columns are an Arrow schema, names with types as text (`{"id": "BIGINT", "amount":
        "DECIMAL(10, 2)"}`), or a `SchemaSpec`, which also has keys, options and comment.

        Raises:
            InvalidSchema: the schema is invalid.
            InvalidRequestError: keys, options or a comment are given with a `SchemaSpec`.
            UnsupportedError: an option is not implemented.
            AlreadyExistsError: it exists, and `if_not_exists` is False.
        """
        spec = _schema_spec(
            schema,
            partition_keys=listed_names(partition_keys, "partition_keys"),
            primary_keys=listed_names(primary_keys, "primary_keys"),
            options=_option_texts(options),
            comment=comment,
        )
        database, table = split_name(name)
        _check_name(database, "database")
        _check_name(table, "table")
        if if_not_exists and self.table_exists(name):
            return self.table(name)
        try:
            create_table(self.fs, self._table_path(name), spec, table=name, env=self.env)
        except AlreadyExistsError:
            if not if_not_exists or not self.table_exists(name):
                raise
        return self.table(name)

    def table_exists(self, name: str) -> bool:
        name, mark, branch = text_argument(name, "table name").partition(BRANCH_MARK)
        exists = self._has_schema(self._table_path(name))
        return exists and (not mark or branch in branch_names(self.table(name).table_files))

    def table(self, name: str) -> Table:
        """The table, with its latest schema; a branch of it is `database.table$branch_name`.

        Raises:
            TableNotFound, BranchNotFound: the name does not exist; the message lists the existing
                names.
        """
        name, mark, branch = text_argument(name, "table name").partition(BRANCH_MARK)
        if mark:
            return self.table(name).history.at_branch(branch)
        path = self._table_path(name)
        if not self._has_schema(path):
            raise self._no_table(name)
        paths = TablePaths(path)
        schema = SchemaStore(self.fs, paths).latest(table=name)
        return Table(TableFiles(name, self.fs, paths, schema, self.env))

    def create_format_table(
        self,
        name: str,
        schema: SchemaSpec | pa.Schema | Mapping[str, str],
        *,
        file_format: str = "parquet",
        partition_keys: Sequence[str] = (),
        location: str | None = None,
        options: Mapping[str, str] | None = None,
        comment: str = "",
    ) -> FormatTable:
        """Create a table of plain files: csv, json, text, parquet, orc or avro.

        `location` may be a folder with files in it, which then are the table's rows. Without one,
        the files lie with the table. Option `format-table.partition-path-only-value` says that
        folders are named by values alone, `metastore.partitioned-table` that a registry of the
        table knows the partitions, and not their folders.

        Raises:
            InvalidSchema: the schema is invalid; a partition key is declared twice.
            InvalidRequestError: files of the format do not hold a column.
            AlreadyExistsError: the table exists.
        """
        spec = _schema_spec(
            schema,
            partition_keys=listed_names(partition_keys, "partition_keys"),
            primary_keys=(),
            options=_option_texts(options),
            comment=comment,
        )
        database, table = split_name(name)
        _check_name(database, "database")
        _check_name(table, "table")
        return FormatTable(
            create_format_table(
                self.fs,
                self._table_path(name),
                spec,
                table=name,
                env=self.env,
                format_name=file_format,
                location=location,
            )
        )

    def format_table(self, name: str) -> FormatTable:
        """A table of plain files.

        Raises:
            TableNotFound: the name does not exist.
            UnsupportedError: it is a table with snapshots.
        """
        found = FormatTable(self.table(name).table_files)
        format_spec(found.table_files)
        return found

    def system_table(self, name: str, where: Where | None = None) -> pa.Table:
        """The rows of a system table `database.table$name`, such as `db.orders$snapshots`.

        Raises:
            TableNotFound: the table does not exist.
            InvalidRequestError: the name has no `$`, or the system table does not exist.
        """
        table, separator, system_table = text_argument(name, "table name").rpartition("$")
        if not separator:
            raise InvalidRequestError(
                f"{name!r} is not the name of a system table; write {name}$snapshots"
            )
        return self.table(table).inspect.table(system_table, where)

    def drop_table(self, name: str) -> None:
        """Delete a table with everything in it; a second call continues a stopped drop.

        Raises:
            TableNotFound: the table does not exist.
            InvalidRequestError: the name is that of a branch.
        """
        if BRANCH_MARK in text_argument(name, "table name"):
            table, _, branch = name.partition(BRANCH_MARK)
            raise InvalidRequestError(
                f"{name} is a branch, not a table: delete branch {branch} of {table}"
            )
        path = self._table_path(name)
        # A table whose schema cannot be read can be dropped too.
        if not is_half_dropped(self.fs, path) and not self._has_schema(path):
            raise self._no_table(name)
        drop_table_files(self.fs, path)

    def _no_table(self, name: str) -> TableNotFound:
        database, _ = split_name(name)
        there = f"databases there: {', '.join(self.list_databases()) or 'none'}"
        if database in self.list_databases():
            there = f"tables of {database}: {', '.join(self.list_tables(database)) or 'none'}"
        return TableNotFound(f"no table {name} in {self.root}; {there}", table=name)

    def _database_path(self, database: str) -> str:
        return f"{self.root}/{_folder_name(database, 'database')}{DATABASE_SUFFIX}"

    def _table_path(self, name: str) -> str:
        database, table = split_name(name)
        return f"{self._database_path(database)}/{_folder_name(table, 'table')}"

    def _has_schema(self, path: str) -> bool:
        return bool(SchemaStore(self.fs, TablePaths(path)).ids())


def _schema_spec(
    schema: SchemaSpec | pa.Schema | Mapping[str, str],
    *,
    partition_keys: tuple[str, ...],
    primary_keys: tuple[str, ...],
    options: dict[str, str],
    comment: str,
) -> SchemaSpec:
    if isinstance(schema, SchemaSpec):
        if partition_keys or primary_keys or options or comment:
            raise InvalidRequestError(
                "a SchemaSpec holds keys, options and comment itself; put them into it"
            )
        return schema
    if isinstance(schema, pa.Schema):
        columns = columns_from_arrow(schema)
    elif isinstance(schema, Mapping):
        columns = tuple(
            Column(
                text_argument(name, "column name"),
                parse_data_type(text_argument(text, f"the type of column {name}")),
            )
            for name, text in schema.items()
        )
    else:
        raise InvalidRequestError(
            f"{schema!r:.100} is not a schema; give a SchemaSpec, a pyarrow schema, or names with "
            "types as text, such as {'id': 'BIGINT'}"
        )
    return SchemaSpec(
        columns=columns,
        partition_keys=partition_keys,
        primary_keys=primary_keys,
        options=options,
        comment=text_argument(comment, "comment"),
    )


def _option_texts(options: Mapping[str, str] | None) -> dict[str, str]:
    if options is None:
        return {}
    if not isinstance(options, Mapping):
        raise InvalidRequestError(
            f"options are {options!r:.100}; give names with values, as a dict"
        )
    return {text_argument(name, "option name"): value for name, value in options.items()}


def split_name(name: str) -> tuple[str, str]:
    """Split `database.table` into its parts.

    Raises:
        InvalidRequestError: it is no text, has no dot, more than one, or an empty part.
    """
    parts = text_argument(name, "table name").split(".")
    if len(parts) != 2 or not all(parts):
        raise InvalidRequestError(f"table name {name!r} is not of the form database.table")
    return parts[0], parts[1]


def _folder_name(name: str, kind: str) -> str:
    """The folder name for an existing name; checks that it can be a folder's name."""
    text_argument(name, f"{kind} name")
    if not is_place_below(name) or "/" in name:
        raise InvalidRequestError(f"{kind} name {name!r} cannot be the name of a folder")
    return name


def _check_name(name: str, kind: str) -> None:
    """Check the name of a new database or table."""
    _folder_name(name, kind)
    if not name.strip() or name.startswith(".") or "$" in name:
        raise InvalidRequestError(
            f"{kind} name {name!r} cannot be the name of a folder; leave out slashes, $ and "
            "leading dots"
        )
