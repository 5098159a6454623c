"""Brings the names in a database or metastore in step with the tables that lie in the warehouse.

They differ after a death between the files of a table and its row, and after work without the
database. A table that was written a moment ago may be one whose row is on its way: it is left.
"""

from __future__ import annotations

from dataclasses import dataclass

from lakewright.storage.catalog_arguments import can_be_name
from lakewright.storage.catalog_places import KeptApart, Places
from lakewright.storage.env import Env
from lakewright.storage.errors import DatabaseNotFound, InvalidRequestError, StorageError
from lakewright.storage.files.catalog_names import FolderNames
from lakewright.storage.files.metadata_stores import SchemaStore
from lakewright.storage.files.paths import TablePaths
from lakewright.storage.operations.partitions.repair_partitions import RepairMode
from lakewright.storage.spec.schema import TableSchema

# A client lists a table within moments of writing its schema.
AGE_MS = 60_000
_NO_NAME = "cannot be opened by this name; rename its folder to letters, digits and underscores"


@dataclass(frozen=True, slots=True, kw_only=True)
class CatalogDrift:
    """How the names in a database and the tables in the warehouse differ."""

    # Folders of databases that are not listed.
    databases: tuple[str, ...] = ()
    # Tables that lie there and are not listed.
    unlisted: tuple[str, ...] = ()
    # Tables that are listed and do not lie there.
    gone: tuple[str, ...] = ()
    # Tables whose options or keys the database repeats from an older schema.
    outdated: tuple[str, ...] = ()
    # Tables and databases that no sync changes, with the reasons.
    left: tuple[tuple[str, str], ...] = ()

    @property
    def is_none(self) -> bool:
        """Whether there is nothing for a sync to do."""
        return not (self.databases or self.unlisted or self.gone or self.outdated)


@dataclass(frozen=True)
class CatalogSync:
    """A catalog's names, and where its tables lie."""

    places: Places
    env: Env
    names: KeptApart

    def drift(self, database: str | None, *, age_ms: int) -> CatalogDrift:
        """Compare; nothing is written.

        Raises:
            DatabaseNotFound: the database is neither listed nor a folder.
            InvalidRequestError: the warehouse is empty, as where its disk is not mounted, and the
                database lists tables of it.
        """
        lying = set(FolderNames(self.places.fs, self.places.root).databases())
        listed = set(self.names.databases())
        if listed and not lying and any(map(self.names.tables, listed)):
            self._check_mounted(listed)
        if database is not None and database not in lying | listed:
            have = ", ".join(sorted(lying | listed)) or "none"
            raise DatabaseNotFound(
                f"no database {database} is listed or lies in {self.places.root}; there are {have}"
            )
        asked = [database] if database is not None else sorted(lying | listed)
        found: dict[str, list[str]] = {"unlisted": [], "gone": [], "outdated": []}
        left = [(each, _NO_NAME) for each in asked if not self._can_be(each)]
        asked = [each for each in asked if self._can_be(each)]
        for each in asked:
            rows, there = set(self.names.tables(each)), set(self.places.lying(each))
            if self.places.hive is not None:
                # A metastore may place a table anywhere.
                there = there - rows | {it for it in rows if self.places.holds(each, it)}
            schemas: dict[str, TableSchema] = {}
            for table in sorted(there | rows):
                name = f"{each}.{table}"
                if table not in there:
                    if unseen := self._unseen(each, table):
                        left.append((name, unseen))
                    else:
                        found["gone"].append(name)
                    continue
                if not can_be_name(table, "table"):
                    left.append((name, _NO_NAME))
                    continue
                schema = self._schema(each, table)
                if isinstance(schema, str):
                    left.append((name, schema))
                elif table in rows:
                    schemas[table] = schema
                elif reason := self._unfit(each, table, age_ms):
                    left.append((name, reason))
                else:
                    found["unlisted"].append(name)
            outdated = self.names.outdated(each, schemas)
            found["outdated"] += [f"{each}.{table}" for table in sorted(outdated)]
        return CatalogDrift(
            databases=tuple(each for each in asked if each in lying - listed),
            left=tuple(left),
            **{kind: tuple(names) for kind, names in found.items()},
        )

    def run(self, drift: CatalogDrift, mode: RepairMode) -> None:
        """List what the drift found, take off the list what is gone, or both."""
        if mode is not RepairMode.DROP:
            for database in drift.databases:
                _, location = self.places.database(database)
                self.names.add_database(database, location=location)
            for name in (*drift.unlisted, *drift.outdated):
                database, table = _split(name)
                schema = self._schema(database, table)
                if not isinstance(schema, str):
                    self.names.add_table(database, table, schema)
        if mode is not RepairMode.ADD:
            for name in drift.gone:
                database, table = _split(name)
                # Another client may have made it anew.
                if not self.places.holds(database, table):
                    self.names.drop_table(database, table)

    def _check_mounted(self, listed: set[str]) -> None:
        """Refuse to take an empty warehouse for one whose tables are gone."""
        if any(self.places.holds(each, it) for each in listed for it in self.names.tables(each)):
            return
        raise InvalidRequestError(
            f"no database lies in {self.places.root}, and catalog {self.names.key!r} lists "
            f"{', '.join(sorted(listed))}; check the warehouse and the catalog-key"
        )

    def _unseen(self, database: str, table: str) -> str | None:
        """Why a table that does not lie in its place may still be there.

        A metastore names places that not every machine sees, and forgets them with the table.
        """
        if self.places.hive is None:
            return None
        fs, path = self.places.table(database, table)
        above = path.rpartition("/")[0] or "/"
        if fs.exists(above):
            return None
        return f"{above} is not there, as where its disk is not mounted; drop it if it is gone"

    def _can_be(self, database: str) -> bool:
        hive = self.places.hive
        return can_be_name(database, "database") and (hive is None or hive.fits(database))

    def _schema(self, database: str, table: str) -> TableSchema | str:
        """The latest schema, or why there is none."""
        fs, path = self.places.table(database, table)
        try:
            return SchemaStore(fs, TablePaths(path)).latest(table=f"{database}.{table}")
        except StorageError as error:
            return error.message

    def _unfit(self, database: str, table: str, age_ms: int) -> str | None:
        """Why a table that lies there is not listed yet, or cannot be."""
        fs, path = self.places.table(database, table)
        files = fs.list_dir(TablePaths(path).schema_dir)
        newest = max((file.modified_ms for file in files), default=0)
        if self.env.now_ms() - newest < age_ms:
            return f"was written within the last {age_ms / 1000:g} s"
        return None if self.places.hive is None else self.places.hive.unfit(database, table)


def _split(name: str) -> tuple[str, str]:
    # A table that is gone may have any name, and a database that is synced has no dot in its own.
    database, _, table = name.partition(".")
    return database, table
