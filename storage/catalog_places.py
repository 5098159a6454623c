"""The databases and tables of a catalog: what lists them, and where they lie."""

from __future__ import annotations

import logging
import shlex
from collections.abc import Iterator
from contextlib import suppress
from dataclasses import dataclass

from lakewright.storage.catalog_arguments import (
    can_be_name,
    folder_name,
    new_name,
    split_name,
)
from lakewright.storage.dropped_table import DroppedTable, folders_outside
from lakewright.storage.env import Env, FileSystem
from lakewright.storage.errors import (
    AlreadyExistsError,
    DatabaseNotFound,
    StorageError,
    TableNotFound,
    UnsupportedError,
)
from lakewright.storage.files.catalog_names import DatabaseNames, FolderNames, Names
from lakewright.storage.files.hive_client import was_answered
from lakewright.storage.files.hive_names import HiveNames
from lakewright.storage.files.local_files import LocalFiles
from lakewright.storage.files.metadata_stores import SchemaStore, SnapshotStore
from lakewright.storage.files.paths import DATABASE_SUFFIX, TablePaths
from lakewright.storage.files.rest_names import RestNames
from lakewright.storage.files.rest_table import RestTable
from lakewright.storage.files.table_files import TableFiles
from lakewright.storage.operations.leases.leases import list_leases
from lakewright.storage.operations.references.drop_table import (
    clear_place,
    collect_dropped,
    drop_records,
    drop_to_record,
    dropped_files,
    dropped_names,
    put_in_place,
    recoverable,
    recoverable_files,
    set_aside,
)
from lakewright.storage.operations.references.put_back import (
    PutBackOptions,
    PutBackResult,
    plan_put_back,
    run_put_back,
)
from lakewright.storage.operations.respec.moved_table import check_is_home
from lakewright.storage.operations.running.delete_files import (
    delete_files,
    drop_table_files,
    is_half_dropped,
    remove_empty_folders,
)
from lakewright.storage.operations.running.links import check_is_no_link
from lakewright.storage.spec.data_types import quote_parts
from lakewright.storage.spec.schema import TableSchema

_LOG = logging.getLogger(__name__)
# What keeps a list of names apart from the folders, so that the two may differ.
KeptApart = DatabaseNames | HiveNames
Listed = KeptApart | RestNames
Place = tuple[FileSystem, str]
_SYNC_HINT = "`lakewright sync` lists it, and then it can be read or dropped"


@dataclass(frozen=True)
class Places:
    """The folders of a warehouse; a metastore places them itself, in other stores too."""

    fs: FileSystem
    root: str
    listed: Listed | None

    @property
    def names(self) -> Names:
        return FolderNames(self.fs, self.root) if self.listed is None else self.listed

    @property
    def hive(self) -> HiveNames | None:
        """The metastore, if one keeps the names."""
        return self.listed if isinstance(self.listed, HiveNames) else None

    @property
    def rest(self) -> RestNames | None:
        """The server, if one keeps the names, and makes and drops the tables."""
        return self.listed if isinstance(self.listed, RestNames) else None

    def has(self, name: str) -> bool:
        """Whether a table is listed under this name."""
        database, table = split_name(name)
        folder_name(database, "database")
        return self.names.has_table(database, folder_name(table, "table"))

    def database(self, database: str) -> Place:
        """The store and folder of a database that exists, or could."""
        folder = folder_name(database, "database")
        if isinstance(self.listed, HiveNames):
            return self.listed.database_place(database)
        return self.fs, f"{self.root}/{folder}{DATABASE_SUFFIX}"

    def table(self, database: str, table: str) -> Place:
        """The store and folder of a table that exists, or could."""
        folder = folder_name(table, "table")
        if isinstance(self.listed, HiveNames):
            folder_name(database, "database")
            return self.listed.place(database, table)
        if isinstance(self.listed, RestNames):
            return self.listed.open(folder_name(database, "database"), folder)[:2]
        fs, path = self.database(database)
        return fs, f"{path}/{folder}"

    def holds(self, database: str, table: str) -> bool:
        """Whether the files of a table lie in its place, listed or not; a server lists all."""
        if self.rest is not None:
            return False
        fs, path = self.table(database, table)
        return bool(SchemaStore(fs, TablePaths(path)).ids())

    def lying(self, database: str) -> tuple[str, ...]:
        """Names of the tables whose files lie in the folder of a database."""
        fs, path = self.database(database)
        folders = fs.list_subdirs(path)
        return tuple(
            folder for folder in folders if SchemaStore(fs, TablePaths(f"{path}/{folder}")).ids()
        )

    def files(self, name: str, env: Env, run: str | None) -> TableFiles:
        """A listed table, with its latest schema.

        Raises:
            TableNotFound: its files do not lie where they should.
        """
        server: RestTable | None = None
        if self.rest is None:
            fs, path = self.table(*split_name(name))
        else:
            fs, path, server = self.rest.open(*split_name(name))
        paths = TablePaths(path)
        store = SchemaStore(fs, paths)
        if self.listed is not None and not store.ids():
            way_out = "`lakewright sync --mode drop` takes it off the list"
            if self.rest is not None:
                way_out = "check that this machine sees the store, or drop the table"
            raise TableNotFound(
                f"table {name} is listed in {self.listed.what}, and does not lie at {path}; "
                f"{way_out}"
            )
        schema = store.latest(table=name)
        registry = None if self.hive is None else self.hive.schema_registry(*split_name(name))
        return TableFiles(name, fs, paths, schema, env, run=run, registry=registry, server=server)

    def undo_unless_unknown(
        self, name: str, schema: TableSchema, place: Place, error: StorageError
    ) -> None:
        """Delete the schema of a new table of which a metastore answers that it does not take it.

        Where it does not answer, it may have listed the table.
        """
        if self.hive is not None and was_answered(error) and not self.has(name):
            fs, path = place
            paths = TablePaths(path)
            delete_files(fs, [paths.schema(schema.id)])
            remove_empty_folders(fs, [paths.schema_dir], below=path.rpartition("/")[0])

    def rename(
        self, listed: HiveNames | RestNames, name: str, to: str, env: Env, run: str | None
    ) -> None:
        """Give a table another name where it is kept, which may move its folder."""
        if self.has(name) and not listed.keeps_files(*split_name(name)):
            check_is_home(self.files(name, env, run))
        listed.rename_table(*split_name(name), *new_name(to))

    def rename_folder(self, name: str, to: str, env: Env, run: str | None) -> None:
        """Give a table another folder.

        Raises:
            UnsupportedError: the store does not move a folder in one step; a process works on the
                table.
            DatabaseNotFound, TableNotFound, AlreadyExistsError: a name does not fit.
        """
        database, table = new_name(to)
        former = self.files(name, env, run)
        if self.listed is not None or not isinstance(self.fs, LocalFiles):
            why = "its catalog keeps names in a database" if self.listed else "its store has files"
            raise UnsupportedError(
                f"{name} keeps its name: {why}, and no step moves all of them at once; create one "
                "LIKE it and INSERT INTO it"
            )
        if database not in self.names.databases():
            raise DatabaseNotFound(f"no database {database}; create it before")
        place = self.table(database, table)[1]
        if self.names.has_table(database, table) or self.fs.exists(place):
            raise AlreadyExistsError(f"{to} exists already at {place}; name another")
        held = list_leases(former)
        if held:
            raise UnsupportedError(f"{name} keeps its name for now: {held[0].holder} works on it")
        if drop_records(former.paths, self.fs):
            raise UnsupportedError(
                f"{name} keeps its name for now: a table of that name was dropped before, and its "
                f"files lie there until its grace is over; `lakewright condemned collect "
                f"{shlex.quote(name)} --now` deletes them"
            )
        check_is_home(former)
        self.fs.move_folder(former.paths.root, place)

    def drop(self, name: str, env: Env, run: str | None, grace_ms: int) -> DroppedTable | None:
        """Take a table off the list, and its files away; None if it is not there.

        Raises:
            UnsupportedError: its folder is a symbolic link; or it could not come back.
        """
        database, table = split_name(name)
        if self.rest is not None:
            return self._drop_by(self.rest, name, env)
        fs, path = self.table(database, table)
        dropped = drop_records(TablePaths(path), fs)
        stopped = next(self._dropped(name, env, run), None) if dropped else None
        is_stopped = stopped is not None and not recoverable(stopped).done
        # Where a metastore has a table of another format, what lies there may be its files.
        is_free = self.hive is None or self.hive.find(database, table) is None
        is_half = is_free and (is_half_dropped(fs, path) or is_stopped)
        if not self.has(name) and not is_half:
            return None
        if self.hive is not None and self.hive.keeps_files(database, table):
            self.hive.drop_table(database, table)
            return DroppedTable(stays=(fs.uri(path),))
        check_is_no_link(fs, path, name)
        stays = folders_outside(fs, path, env, table=name)
        files = stopped if is_stopped else None
        # A table of this name that was dropped before can still come back.
        if (grace_ms or dropped) and files is None and not is_half_dropped(fs, path):
            # Without a grace, a table that could not come back takes others of its place with it.
            with suppress(TableNotFound, *([] if grace_ms else [UnsupportedError])):
                files = recoverable_files(name, fs, path, env, run=run)
                self._check_usual_place(name, path)
        self.names.drop_table(database, table)
        if files is not None:
            drop_to_record(files, grace_ms)
            if not grace_ms:
                collect_dropped(files)
            elif isinstance(fs, LocalFiles):
                set_aside(files, fs)
        elif self.listed is None or fs.exists(path):
            drop_table_files(fs, path)
        return DroppedTable(stays=stays, grace_ms=0 if files is None else grace_ms)

    def _usual_place(self, name: str) -> Place:
        """Where a table of this name lies, unless a metastore placed it."""
        database, table = split_name(name)
        fs, path = self.database(database)
        return fs, f"{path}/{folder_name(table, 'table')}"

    def _check_usual_place(self, name: str, path: str) -> None:
        """Check that a table of this name would lie in this folder again."""
        usual = self._usual_place(name)[1]
        if path != usual:
            raise UnsupportedError(
                f"{name} could not come back after a drop, as {path} is not the usual place of its "
                f"name, {usual}; write DROP TABLE {quote_parts(name)} PURGE, or give grace_ms=0, "
                "to drop it permanently"
            )

    def _dropped(self, name: str, env: Env, run: str | None) -> Iterator[TableFiles]:
        """The dropped tables of a name, the latest first; a server keeps none."""
        if self.rest is None:
            fs, place = self._usual_place(name)
            yield from dropped_files(name, fs, place, env, run=run)

    def dropped(self, database: str, env: Env, run: str | None) -> tuple[TableFiles, ...]:
        """The dropped tables of a database that can come back, or wait to be collected."""
        if self.rest is not None:
            return ()
        found: list[TableFiles] = []
        for name in self._dropped_names(database):
            try:
                found += self._dropped(name, env, run)
            except StorageError as error:
                # One that is damaged hides none of the others.
                _LOG.warning("what was dropped of %s cannot be read: %s", name, error)
        return tuple(found)

    def _dropped_names(self, database: str) -> list[str]:
        """The names of dropped tables; what others left among them is none."""
        names = dropped_names(*self.database(database))
        return [f"{database}.{each}" for each in names if can_be_name(each, "table")]

    def collect_dropped(
        self, database: str, env: Env, run: str | None, *, early: bool
    ) -> tuple[str, ...]:
        """Delete the dropped tables of a database whose grace is over; their names.

        Raises:
            StorageError: one of them cannot be read; the others are deleted all the same.
        """
        collected, errors = [], []
        for name in () if self.rest is not None else self._dropped_names(database):
            try:
                for files in self._dropped(name, env, run):
                    collected += [name] if collect_dropped(files, early=early) else []
                fs, place = self._usual_place(name)
                clear_place(fs, TablePaths(place))
            except StorageError as error:
                errors.append(error)
        if errors:
            raise errors[0]
        return tuple(collected)

    def undrop(self, name: str, env: Env, run: str | None, record: str | None) -> PutBackResult:
        """Bring a dropped table back, and list it.

        Raises:
            TableNotFound: no dropped table has the name.
            AlreadyExistsError: a table has it.
            NotRevertible, StalePlan: it cannot come back; the message says why.
        """
        found = self._dropped(name, env, run)
        files = next((e for e in found if record in (None, recoverable(e).record)), None)
        # What a drop left that was stopped halfway can look like a table.
        if self.has(name) and (files is None or recoverable(files).done):
            raise AlreadyExistsError(
                f"{name} exists; rename it first, as what is dropped last comes back first"
            )
        if files is None:
            why = "it was never dropped, or permanently, or its files are collected"
            if self.rest is not None:
                why = f"{self.rest.what} drops tables permanently"
            raise TableNotFound(f"no dropped table {name} can come back: {why}")
        plan = plan_put_back(files, PutBackOptions(recoverable(files).record))
        files = put_in_place(files, self._usual_place(name)[1])
        done = run_put_back(files, plan)
        self.names.add_table(*split_name(name), files.schemas.latest(table=name))
        clear_place(files.fs, files.paths)
        return done

    def _drop_by(self, rest: RestNames, name: str, env: Env) -> DroppedTable | None:
        """Let a server drop a table and its files; it knows nothing of files outside of them."""
        database, table = split_name(name)
        if not self.has(name):
            return None
        stays: tuple[str, ...] = ()
        try:
            fs, path, _ = rest.open(database, table)
            is_external = rest.keeps_files(database, table)
            stays = (fs.uri(path),) if is_external else folders_outside(fs, path, env, table=name)
        except UnsupportedError:
            # A table of another kind, or in a store that is not reached from here.
            pass
        rest.drop_table(database, table)
        return DroppedTable(stays=stays)

    def taken(self, error: AlreadyExistsError, name: str) -> AlreadyExistsError:
        """The error for a table whose place has a schema already."""
        if self.listed is None or self.has(name):
            return error
        return AlreadyExistsError(
            f"{error.message}; {self.listed.what} does not list it: its creation or drop died "
            f"halfway, or goes on; {_SYNC_HINT}"
        )

    def lost_schema(self, name: str) -> str | None:
        """What is left of a table whose schema files are gone; None if there is no snapshot."""
        if self.rest is not None:
            # Only the server knows where it lay.
            return None
        fs, path = self.table(*split_name(name))
        ids = SnapshotStore(fs, TablePaths(path)).ids()
        if not ids or self.holds(*split_name(name)):
            return None
        return (
            f"its folder {path} holds {len(ids)} snapshot{'s' * (len(ids) != 1)} and no schema, so "
            "no client can read it; put its folder schema back, or delete the whole"
        )

    def why_not_listed(self, name: str) -> str | None:
        """What is known of a name that is not listed as a table."""
        if self.hive is not None and self.hive.find(*split_name(name)) is not None:
            return f"{self.hive.what} has it as a table of another format, which stays as it is"
        if self.listed is not None and self.holds(*split_name(name)):
            return f"its files lie there, and {self.listed.what} does not list it; {_SYNC_HINT}"
        return None


def names_in(fs: FileSystem, folder: str) -> list[str]:
    """Names of the folders in a folder, symbolic links too."""
    links = (link.rpartition("/")[2] for link in fs.list_links(folder))
    return sorted({*fs.list_subdirs(folder), *links})
