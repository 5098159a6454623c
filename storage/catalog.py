"""Catalog: maps names `database.table` of a warehouse folder to `Table`.

A database is a folder `name.db`, and a table is a folder inside it with a schema file. The names
are those of the folders, or the rows of a database that Paimon's JDBC catalog shares, or those that
Hive's metastore keeps, which also says where each lies, or those of a REST catalog, whose server
makes tables, schemas and snapshots as well. It is
long since it is the face of all names: what it does stands in the modules that it calls.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field, replace

import pyarrow as pa

from lakewright.storage.catalog_arguments import (
    check_name,
    merged,
    new_name,
    option_texts,
    schema_spec,
    split_name,
    with_defaults,
)
from lakewright.storage.catalog_places import Listed, Place, Places, names_in
from lakewright.storage.catalog_sync import AGE_MS, CatalogDrift, CatalogSync
from lakewright.storage.dropped_table import DroppedTable
from lakewright.storage.env import Env, FileSystem, SystemEnv
from lakewright.storage.errors import (
    AlreadyExistsError,
    DatabaseNotFound,
    InvalidRequestError,
    StorageError,
    TableNotFound,
    UnsupportedError,
)
from lakewright.storage.files.catalog_names import DatabaseNames, Names, not_empty
from lakewright.storage.files.catalog_options import FILESYSTEM, HIVE_SCHEME, catalog_options
from lakewright.storage.files.databases import open_database
from lakewright.storage.files.file_systems import local_path, open_file_system, with_lock
from lakewright.storage.files.hive_client import open_metastore
from lakewright.storage.files.hive_names import HiveNames, HiveStores, root_uri
from lakewright.storage.files.memory_files import MemoryFiles
from lakewright.storage.files.no_files import NoFiles
from lakewright.storage.files.read_only_files import ReadOnlyFiles
from lakewright.storage.files.rest_client import open_server
from lakewright.storage.files.rest_names import RestNames
from lakewright.storage.files.row_lock import RowLock
from lakewright.storage.files.table_stamp import TableStamp, table_stamp
from lakewright.storage.files.temporary_folder import temporary_folder
from lakewright.storage.format_table import FormatTable
from lakewright.storage.named_errors import naming
from lakewright.storage.operations.format_tables.create_format_table import create_format_table
from lakewright.storage.operations.format_tables.format_spec import format_spec, is_format_table
from lakewright.storage.operations.format_tables.keep_partitions import FolderDrift
from lakewright.storage.operations.partitions.repair_partitions import (
    RepairMode,
    RepairResult,
    repair_mode,
)
from lakewright.storage.operations.references.branches import BRANCH_MARK, branch_names
from lakewright.storage.operations.references.drop_table import (
    RecoverableTable,
    recoverable,
)
from lakewright.storage.operations.running.delete_files import remove_empty_folders
from lakewright.storage.operations.running.verb_options import GRACE_MS
from lakewright.storage.operations.schema.create_table import checked_schema, create_table
from lakewright.storage.rows import Where
from lakewright.storage.spec.arguments import listed_names, text_argument, whole_number
from lakewright.storage.spec.data_types import quote_name
from lakewright.storage.spec.kept_secrets import check_no_secret
from lakewright.storage.spec.schema import SchemaSpec, TableSchema
from lakewright.storage.spec.table_distribution import TableDistribution
from lakewright.storage.table import Table


@dataclass(frozen=True)
class Catalog:
    """Databases and tables of one warehouse."""

    fs: FileSystem
    root: str
    env: Env
    # None where the folders are the names.
    listed: Listed | None = None
    # Where the tables of a session lie, which hide others of their names.
    session: Catalog | None = None
    run: str | None = None  # See TableFiles.
    # Options that new tables get, unless theirs say otherwise.
    table_defaults: Mapping[str, str] = field(default_factory=dict)
    # Factories of connectors and formats that the catalog brings, before installed ones.
    factories: tuple[object, ...] = ()

    @classmethod
    def open(
        cls,
        warehouse: str,
        *,
        env: Env | None = None,
        lock: str | None = None,
        durable: bool | None = None,
        options: Mapping[str, str] | None = None,
    ) -> Catalog:
        """The warehouse at a path or URI (`s3://bucket/path`, …); it need not exist yet.

        `lock` names a lock service for a store without a conditional create, such as
        `sqlite:///path` or `postgresql://host/database`; LAKEWRIGHT_LOCK is its default.
        `durable=False`, or LAKEWRIGHT_DURABLE=false, skips the flushes that make a commit on a
        local disk outlive a power loss; a power loss may then destroy a table
        (docs/how-to/stores.md). `options` keep the names in a database (docs/how-to/catalogs.md):
        `{"metastore": "jdbc", "uri": "postgresql://host/database"}`, or in a metastore:
        `{"metastore": "hive", "uri": "thrift://host:9083"}`; LAKEWRIGHT_CATALOG_URI and others are
        their defaults. A metastore's address is a warehouse too. `{"metastore": "rest", "uri":
        "https://host", "token": "…"}` opens a warehouse of a REST catalog by its name there;
        LAKEWRIGHT_CATALOG_TOKEN is better for the token. `{"table-default.bucket": "1"}`,
        or LAKEWRIGHT_TABLE_DEFAULTS=bucket=1, gives new tables an option.

        Raises:
            UnsupportedError: the store is not implemented, or a package for it is missing.
            UnavailableError: the metastore that is the warehouse does not say where it lies.
            InvalidRequestError: the URI names no bucket, an option is invalid, or a URI holds a
                password.
        """
        env = env or SystemEnv()
        given = catalog_options(options, warehouse=warehouse)
        if given.is_rest and given.uri:
            server = open_server(given.uri, warehouse, env, token=given.token)
            rest = RestNames(server, lock, durable)
            defaults = {**rest.table_defaults, **given.table_defaults}
            return cls(NoFiles(MemoryFiles(), rest.uri), "", env, rest, table_defaults=defaults)
        metastore = open_metastore(given.uri) if given.is_hive and given.uri else None
        if metastore is not None and warehouse.startswith(HIVE_SCHEME):
            warehouse = local_path(metastore.warehouse())
        fs, root = open_file_system(warehouse, env, lock=lock, durable=durable)
        root = root.rstrip("/") or "/"
        if given.uri is None:
            return cls(fs, root, env, table_defaults=given.table_defaults)
        if metastore is not None:
            locks = (given.lock_enabled, given.longest_sleep_ms, given.lock_timeout_ms)
            stores = HiveStores(env, lock, durable, *locks)
            hive = HiveNames(metastore, stores, root_uri(warehouse, root))
            return cls(fs, root, env, hive, table_defaults=given.table_defaults)
        database = open_database(given.uri, use="catalog")
        row_lock = RowLock(
            database, given.key, root, env, given.longest_sleep_ms, given.lock_timeout_ms
        )
        fs = with_lock(fs, row_lock, always=given.lock_enabled)
        names = DatabaseNames(database, given.key)
        return cls(fs, root, env, names, table_defaults=given.table_defaults)

    @classmethod
    @contextmanager
    def temporary(cls, *, folder: str | None = None, env: Env | None = None) -> Iterator[Catalog]:
        """A warehouse of its own for one session, on the local disk; it goes with the `with` block.

        Its tables are like all others, partitions included, and local Spark tasks reach them. They
        are not made durable. `folder` is where the warehouse is made, by default the system's
        folder for temporary files. A process that is killed leaves it there.
        """
        with temporary_folder(folder) as root:
            yield cls.open(root, env=env, durable=False, options=FILESYSTEM)

    @contextmanager
    def with_temporary_tables(self, *, folder: str | None = None) -> Iterator[Catalog]:
        """This catalog and temporary tables of the caller, which no other session sees.

        `create_table(…, temporary=True)` makes one. Until the `with` block ends or `drop_table`
        drops it, it hides a table of the same name. See `temporary`.
        """
        with Catalog.temporary(folder=folder, env=self.env) as session:
            yield replace(self, session=session)

    def read_only(self) -> Catalog:
        """The same warehouse, in which nothing can be changed: every attempt raises.

        A plan that asks the store for its time, which takes a file, is such an attempt.
        """
        listed = None if self.listed is None else self.listed.read_only()
        return replace(self, fs=ReadOnlyFiles(self.fs), listed=listed)

    @property
    def uri(self) -> str:
        return self.fs.uri(self.root)

    @property
    def names(self) -> Names:
        return self._places.names

    def list_databases(self) -> tuple[str, ...]:
        own = self.names.databases()
        return own if self.session is None else merged(own, self.session.list_databases())

    def create_database(self, name: str, *, if_not_exists: bool = True) -> None:
        """Make a database.

        Raises:
            AlreadyExistsError: it exists, and `if_not_exists` is False.
        """
        check_name(name, "database")
        if name in self.names.databases():
            if not if_not_exists:
                raise AlreadyExistsError(f"database {name} exists already in {self.root}")
            return
        if isinstance(self.listed, RestNames):
            self.listed.add_database(name)
            return
        fs, path = self._places.database(name)
        if self._places.hive is not None:
            self._places.hive.check_name("database", name)
        fs.make_dirs(path)
        fs.make_durable([path], below="/")
        self.names.add_database(name, location=path)

    def drop_database(self, name: str) -> None:
        """Drop a database without tables.

        Raises:
            DatabaseNotFound: it does not exist.
            InvalidRequestError: it has tables, or dropped ones that can come back; or something
                else lies in its folder.
        """
        if isinstance(self.listed, RestNames):
            if name not in self.names.databases():
                raise self._no_database(name)
            self.listed.drop_database(name)
            return
        fs, path = self._places.database(name)
        within = merged(self.names.tables(name), names_in(fs, path))
        if within and (dropped := self.dropped_tables(name)):
            raise InvalidRequestError(
                f"{', '.join(each.table for each in dropped)} can still come back after a drop; "
                f"write DROP DATABASE {quote_name(name)} CASCADE, or call "
                f"collect_dropped_tables({name!r}, early=True), to delete them permanently"
            )
        if within:
            raise not_empty(name, path, within)
        if name not in self.names.databases():
            raise self._no_database(name)
        self.names.drop_database(name, location=path)
        # Another process may make a table there by now: then the folder stays, with it.
        remove_empty_folders(fs, [path], below=path.rpartition("/")[0])
        fs.make_durable([path])

    def list_tables(self, database: str) -> tuple[str, ...]:
        """Names of the tables of a database.

        Raises:
            DatabaseNotFound: the database does not exist.
        """
        if database not in self.list_databases():
            raise self._no_database(database)
        own = self.names.tables(database)
        return own if self.session is None else merged(own, self.session.names.tables(database))

    def list_table_folders(self, database: str) -> tuple[str, ...]:
        """Names of the folders of a database, without a look at which of them are tables."""
        if self.listed is not None:
            return self.listed.tables(database)
        names = self.fs.list_subdirs(self._places.database(database)[1])
        return tuple(name for name in names if not name.startswith("."))

    def create_table(  # noqa: PLR0913  # the parts of a CREATE TABLE
        self,
        name: str,
        schema: SchemaSpec | pa.Schema | Mapping[str, str],
        *,
        partition_keys: Sequence[str] = (),
        primary_keys: Sequence[str] = (),
        options: Mapping[str, str] | None = None,
        comment: str = "",
        distribution: TableDistribution | None = None,
        if_not_exists: bool = False,
        temporary: bool = False,
    ) -> Table:
        """Create `database.table`, and its database if it is missing.

        The columns are an Arrow schema, names with types as text (`{"id": "BIGINT", "amount":
        "DECIMAL(10, 2)"}`), or a `SchemaSpec`, which also has keys, options and comment. The
        `distribution` stands for the options `bucket` and `bucket-key`. A `temporary` table goes
        with the session (`with_temporary_tables`).

        Raises:
            InvalidSchema: the schema is invalid.
            InvalidRequestError: keys, options or the like are given with a `SchemaSpec`.
            UnsupportedError: an option is not implemented.
            AlreadyExistsError: it exists, and `if_not_exists` is False; or its files lie there, and
                the catalog's database does not list it.
        """
        if temporary:
            return self._of_session().create_table(
                name,
                schema,
                partition_keys=partition_keys,
                primary_keys=primary_keys,
                options=options,
                comment=comment,
                distribution=distribution,
                if_not_exists=if_not_exists,
            )
        spec = schema_spec(
            schema,
            partition_keys=listed_names(partition_keys, "partition_keys"),
            primary_keys=listed_names(primary_keys, "primary_keys"),
            options=option_texts(options),
            comment=comment,
            distribution=distribution,
        )
        spec = with_defaults(spec, self.table_defaults)
        database, table = new_name(name)
        if if_not_exists and self.names.has_table(database, table):
            return self._own_table(name)
        if isinstance(self.listed, RestNames):
            return self._create_by(self.listed, name, spec, if_not_exists=if_not_exists)
        if self.listed is not None:
            self.listed.check_new(database, table)
        fs, path = self._places.table(database, table)
        try:
            made = create_table(fs, path, spec, table=name, env=self.env)
        except AlreadyExistsError as error:
            if not if_not_exists or not self.names.has_table(database, table):
                raise self._places.taken(error, name) from error
        else:
            self._list(name, made, (fs, path))
        return self._own_table(name)

    def _create_by(
        self, rest: RestNames, name: str, spec: SchemaSpec, *, if_not_exists: bool
    ) -> Table:
        """Let a server make a table, of a schema that is checked here."""
        database, table = split_name(name)
        schema = checked_schema(spec, table=name, env=self.env)
        self.create_database(database)
        try:
            rest.add_table(database, table, schema)
        except AlreadyExistsError:
            if not if_not_exists:
                raise
        return self._own_table(name)

    def table_exists(self, name: str) -> bool:
        name, mark, branch = text_argument(name, "table name").partition(BRANCH_MARK)
        exists = self._places.has(name) or self._is_of_session(name)
        return exists and (not mark or branch in branch_names(self.table(name).table_files))

    def table(self, name: str) -> Table:
        """The table, with its latest schema; a branch of it is `database.table$branch_name`.

        Raises:
            TableNotFound, BranchNotFound: the name does not exist; the message lists the existing
                names.
        """
        name, mark, branch = text_argument(name, "table name").partition(BRANCH_MARK)
        with naming(name):
            if mark:
                return self.table(name).history.at_branch(branch)
            if self.session is not None and self._is_of_session(name):
                return self.session.table(name)
            return self._own_table(name)

    def _own_table(self, name: str) -> Table:
        """A table that is not one of the session."""
        if not self._places.has(name):
            raise self._no_table(name)
        return Table(self._places.files(name, self.env, self.run))

    def stamp(self, name: str) -> TableStamp:
        """Whether a table is the one of before, by little; see `TableStamp`."""
        return table_stamp(*self._places.table(*split_name(name)))

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
        spec = schema_spec(
            schema,
            partition_keys=listed_names(partition_keys, "partition_keys"),
            primary_keys=(),
            options=option_texts(options),
            comment=comment,
        )
        place = {} if location is None else {"path": location}
        check_no_secret({**spec.options, **place}, name, resolved=False)
        database, table = new_name(name)
        if isinstance(self.listed, RestNames):
            raise UnsupportedError(
                f"{name} cannot be a table of plain files in a REST catalog, which is not "
                "implemented; make it with a client of Paimon"
            )
        if self._places.hive is not None:
            raise UnsupportedError(
                f"{name} cannot be a table of plain files in a metastore, where such tables are "
                "Hive's own; make it by a statement of Hive or Spark"
            )
        if self.listed is not None:
            self.listed.check_new(database, table)
        fs, path = self._places.table(database, table)
        try:
            files = create_format_table(
                fs, path, spec, table=name, env=self.env, format_name=file_format, location=location
            )
        except AlreadyExistsError as error:
            raise self._places.taken(error, name) from error
        self._list(name, files.schema, (fs, path))
        return FormatTable(files)

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

    def drop_table(
        self, name: str, *, if_exists: bool = False, grace_ms: int = GRACE_MS
    ) -> DroppedTable:
        """Drop a table; until `grace_ms` are over, `undrop_table` brings it back with all it had.

        With a grace of 0 it is deleted permanently at once; a REST server and a session always do
        that. A second call continues a stopped drop.

        Raises:
            TableNotFound: it does not exist, and `if_exists` is False or its files lie there.
            InvalidRequestError: it is a branch.
            UnsupportedError: its folder is a symbolic link; or it could not come back, as its
                schema cannot be read, or a metastore placed it.
            StalePlan: another process drops it, or brings it back.
        """
        whole_number(grace_ms, "grace_ms", minimum=0)
        if BRANCH_MARK in text_argument(name, "table name"):
            table, _, branch = name.partition(BRANCH_MARK)
            raise InvalidRequestError(
                f"{name} is a branch, not a table: delete branch {branch} of {table}"
            )
        if self.session is not None and self._is_of_session(name):
            return self.session.drop_table(name, grace_ms=0)
        dropped = self._places.drop(name, self.env, self.run, grace_ms)
        if dropped is None and (not if_exists or self._places.holds(*split_name(name))):
            raise self._no_table(name)
        return dropped or DroppedTable(existed=False)

    def undrop_table(self, name: str, *, record: str | None = None) -> Table:
        """Bring a dropped table back, with its history, tags and branches.

        Of several of one name it is the latest, or the one of a record of `dropped_tables`.

        Raises:
            TableNotFound: no dropped table of this name can come back.
            AlreadyExistsError: a table has the name.
            NotRevertible, StalePlan: files of it are gone, or it is being deleted.
        """
        self._places.undrop(name, self.env, self.run, record)
        return self._own_table(name)

    def dropped_tables(self, database: str | None = None) -> tuple[RecoverableTable, ...]:
        """The dropped tables that can come back, of a database or of all."""
        found = []
        for each in self._databases(database):
            for files in self._places.dropped(each, self.env, self.run):
                # Another process may bring it back, or collect it.
                with suppress(TableNotFound):
                    found.append(recoverable(files))
        return tuple(found)

    def collect_dropped_tables(
        self, database: str | None = None, *, early: bool = False
    ) -> tuple[str, ...]:
        """Delete the dropped tables whose grace is over, or with `early` all; returns their names.

        Upkeep does it. Files of a dropped table in whose place another one was created are deleted
        by the upkeep of that.
        """
        return tuple(
            name
            for each in self._databases(database)
            for name in self._places.collect_dropped(each, self.env, self.run, early=early)
        )

    def _databases(self, database: str | None) -> Sequence[str]:
        return self.names.databases() if database is None else [database]

    def rename_table(self, name: str, to: str) -> Table:
        """Give a table another name, in another database too; returns the table under it.

        A server or a metastore moves the folder of a managed table; without one, the folder of a
        local disk moves. A writer that opened the table before has to open it again: its commits
        fail, as the files are not where they were.

        Raises:
            UnsupportedError: names are kept in a database, or the store is no local disk; or the
                partition keys are changing, or changed and a tag names files by their places; or a
                process works on the table.
            TableNotFound, AlreadyExistsError, DatabaseNotFound: a name does not fit.
        """
        placed = self._places.hive or self._places.rest
        if placed is None:
            if not self._places.has(name):
                raise self._no_table(name)
            self._places.rename_folder(name, to, self.env, self.run)
        else:
            self._places.rename(placed, name, to, self.env, self.run)
        return self._own_table(to)

    def plan_sync_tables(
        self, database: str | None = None, *, age_ms: int | None = None
    ) -> CatalogDrift:
        """How the tables in the warehouse and those in the catalog's database differ.

        A catalog of folders or of a server never differs. A table that changed within `age_ms`, by
        default a minute, is left, since a client may be about to list it.
        """
        if self.listed is None or isinstance(self.listed, RestNames):
            return CatalogDrift()
        age_ms = AGE_MS if age_ms is None else whole_number(age_ms, "age_ms", minimum=0)
        return CatalogSync(self._places, self.env, self.listed).drift(database, age_ms=age_ms)

    def sync_tables(
        self,
        database: str | None = None,
        *,
        mode: str | RepairMode = RepairMode.ADD,
        age_ms: int | None = None,
    ) -> CatalogDrift:
        """Bring the catalog's database in step with the warehouse; returns how they differed.

        The mode `add` lists tables that lie there, `drop` takes those off the list that do not,
        `sync` does both.
        """
        mode = repair_mode(mode)
        drift = self.plan_sync_tables(database, age_ms=age_ms)
        if self.listed is not None and not isinstance(self.listed, RestNames):
            CatalogSync(self._places, self.env, self.listed).run(drift, mode)
        return drift

    def sync_partitions(
        self, name: str, *, mode: str | RepairMode = RepairMode.ADD, age_ms: int | None = None
    ) -> RepairResult | FolderDrift:
        """Bring a table's partitions in step with the folders that it took over or registers.

        The same as `repair_partitions` of the table, which says more; `age_ms` is not one of
        format tables.
        """
        table = self.table(name)
        if is_format_table(table.schema):
            return FormatTable(table.table_files).repair_partitions(mode)
        return table.upkeep.repair_partitions(mode=mode, age_ms=age_ms)

    @property
    def _places(self) -> Places:
        return Places(self.fs, self.root, self.listed)

    def _list(self, name: str, schema: TableSchema, place: Place) -> None:
        """List a table whose schema is written: a table that was refused leaves no database."""
        if self.listed is None or isinstance(self.listed, RestNames):
            return
        database, table = split_name(name)
        try:
            self.create_database(database)
            self.listed.add_table(database, table, schema)
        except StorageError as error:
            self._places.undo_unless_unknown(name, schema, place, error)
            raise

    def _of_session(self) -> Catalog:
        if self.session is None:
            raise InvalidRequestError(
                "a temporary table needs a session; make it in `with "
                "catalog.with_temporary_tables() as session:`"
            )
        return self.session

    def _is_of_session(self, name: str) -> bool:
        return self.session is not None and self.session.table_exists(name)

    def _no_database(self, name: str) -> DatabaseNotFound:
        have = ", ".join(self.list_databases()) or "none"
        return DatabaseNotFound(f"no database {name} in {self.root}; there are {have}")

    def _no_table(self, name: str) -> TableNotFound:
        database, _ = split_name(name)
        there = f"databases there: {', '.join(self.list_databases()) or 'none'}"
        if database in self.list_databases():
            there = f"tables of {database}: {', '.join(self.list_tables(database)) or 'none'}"
            if any(each.table == name for each in self.dropped_tables(database)):
                there += f"; it was dropped, and UNDROP TABLE {name} brings it back"
        lost = self._places.lost_schema(name)
        there = lost or self._places.why_not_listed(name) or there
        return TableNotFound(f"no table {name} in {self.root}; {there}", lost=lost)
