"""The external tables of a warehouse: definitions with a connector, kept beside Paimon's tables.

    <warehouse>/.lakewright/external/<database>/<table>.json

Other Paimon clients list folders that end with `.db`, so they take none of this for a table. A
definition is made and dropped without a look at its options or its data; its package need not be
installed. Temporary ones lie in the temporary warehouse of a session.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field, replace
from functools import cached_property

from lakewright.connectors.factories import MANAGED, Context, connector_options
from lakewright.connectors.model.catalog_table import CatalogTable, ResolvedCatalogTable
from lakewright.connectors.model.written_options import check_no_secret, with_environment
from lakewright.connectors.registry import CONNECTORS, Registry, installed
from lakewright.storage.catalog import Catalog
from lakewright.storage.catalog_arguments import new_name, split_name
from lakewright.storage.errors import AlreadyExistsError, DatabaseNotFound, TableNotFound
from lakewright.storage.operations.running.delete_files import delete_files
from lakewright.storage.spec.flink_columns import unstored_columns
from lakewright.storage.spec.schema import Column

_FOLDER = ".lakewright/external"


@dataclass(frozen=True)
class ExternalTables:
    """Definitions of a catalog; `configuration` are settings of the session for factories."""

    catalog: Catalog
    configuration: Mapping[str, str] = field(default_factory=dict)

    @cached_property
    def registry(self) -> Registry:
        """The connectors of the catalog, and those that are installed."""
        return replace(installed(), extra=tuple(self.catalog.factories))

    def names(self, database: str) -> tuple[str, ...]:
        """The external tables of a database, temporary ones too."""
        found = {name for catalog in self._catalogs() for name in _names(catalog, database)}
        return tuple(sorted(found))

    def has(self, name: str) -> bool:
        return self._home(name) is not None

    def definition(self, name: str) -> CatalogTable:
        """The definition of a table.

        Raises:
            TableNotFound: there is none of this name.
        """
        home = self._home(name)
        if home is None:
            database, _ = split_name(name)
            have = ", ".join(self.names(database)) or "none"
            raise TableNotFound(f"no external table {name}; there are {have}")
        return CatalogTable.from_json(home.fs.read_bytes(_path(home, name)), name)

    def create(
        self,
        name: str,
        table: CatalogTable,
        *,
        if_not_exists: bool = False,
        temporary: bool = False,
    ) -> bool:
        """Keep a definition; whether it is new.

        Raises:
            InvalidSchema: its parts do not agree.
            AlreadyExistsError: there is a table of this name, and `if_not_exists` is False.
            DatabaseNotFound: there is no such database.
        """
        database, _ = new_name(name)
        table.resolve(name)
        check_no_secret(table.options, name)
        home = self.catalog
        if temporary:
            assert home.session is not None
            home = home.session
        elif database not in home.list_databases():
            have = ", ".join(home.list_databases()) or "none"
            raise DatabaseNotFound(f"no database {database}, there are {have}")
        is_free = not home.table_exists(name)
        if is_free and home.fs.put_if_absent(_path(home, name), _bytes(table)):
            return True
        if not if_not_exists:
            raise AlreadyExistsError(f"{name} exists already")
        return False

    def alter(self, name: str, options: Mapping[str, str]) -> None:
        """Give a table other options; what it has already is not judged again."""
        table, home = self.definition(name), self._home(name)
        assert home is not None
        check_no_secret(
            {each: text for each, text in options.items() if table.options.get(each) != text}, name
        )
        home.fs.replace(_path(home, name), _bytes(table.copy(options)))

    def rename(self, name: str, to: str) -> None:
        """Give a table another name."""
        table, home = self.definition(name), self._home(name)
        assert home is not None
        self.create(to, table, temporary=home is not self.catalog)
        delete_files(home.fs, [_path(home, name)])

    def drop(self, name: str) -> None:
        """Forget a definition; what it describes stays."""
        home = self._home(name)
        if home is None:
            self.definition(name)
        assert home is not None
        delete_files(home.fs, [_path(home, name)])

    def resolved(self, name: str) -> ResolvedCatalogTable:
        return self.definition(name).resolve(name)

    def context(self, name: str, table: ResolvedCatalogTable | None = None) -> Context:
        """What the factory of a table is called with, its options read.

        Raises:
            NotFoundError: its connector is not installed.
            InvalidOption: an option is missing, unknown or wrong.
        """
        resolved = self.resolved(name) if table is None else table
        resolved = replace(
            resolved, definition=resolved.definition.copy(with_environment(resolved.options, name))
        )
        identifier = resolved.definition.connector or MANAGED
        factory = self.registry.factory(CONNECTORS, identifier)
        return Context(
            table=resolved,
            options=connector_options(factory, resolved),
            registry=self.registry,
            env=self.catalog.env,
            configuration=self.configuration,
            is_temporary=self._home(name) is not self.catalog,
            catalog=self.catalog,
        )

    def managed_context(self, name: str) -> Context:
        """The same of a managed table."""
        schema = self.catalog.table(name).schema
        columns = (Column(each.name, each.type) for each in schema.fields)
        computed = (column for column in unstored_columns(schema.options) if column.expression)
        table = CatalogTable(
            columns=tuple(columns),
            unstored=tuple(computed),
            partition_keys=schema.partition_keys,
            primary_keys=schema.primary_keys,
        )
        return self.context(name, table.resolve(name))

    def _catalogs(self) -> Iterator[Catalog]:
        if self.catalog.session is not None:
            yield self.catalog.session
        yield self.catalog

    def _home(self, name: str) -> Catalog | None:
        """The catalog that keeps a definition: the session's hides the warehouse's."""
        if "$" in name or name.count(".") != 1:
            return None
        return next(
            (catalog for catalog in self._catalogs() if catalog.fs.exists(_path(catalog, name))),
            None,
        )


def _path(catalog: Catalog, name: str) -> str:
    database, table = split_name(name)
    return f"{_folder(catalog, database)}/{table}.json"


def _folder(catalog: Catalog, database: str) -> str:
    return f"{catalog.root.rstrip('/')}/{_FOLDER}/{database}"


def _names(catalog: Catalog, database: str) -> Iterator[str]:
    for each in catalog.fs.list_dir(_folder(catalog, database)):
        if each.name.endswith(".json"):
            yield each.name.removesuffix(".json")


def _bytes(table: CatalogTable) -> bytes:
    return json.dumps(table.to_json(), indent=2, ensure_ascii=False).encode()
