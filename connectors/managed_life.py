"""What is told of a managed table before it is made or dropped, to the factory of such tables.

Factories of connectors are told nothing: their tables are definitions alone.
"""

from __future__ import annotations

from dataclasses import replace

from lakewright.connectors.external_tables import ExternalTables
from lakewright.connectors.factories import MANAGED
from lakewright.connectors.model.catalog_table import CatalogTable
from lakewright.connectors.model.notification import (
    CreateTableListener,
    DropTableListener,
    TableNotification,
)
from lakewright.connectors.registry import CONNECTORS
from lakewright.storage.spec.schema import SchemaSpec


def before_creation(
    externals: ExternalTables, name: str, spec: SchemaSpec, *, temporary: bool
) -> SchemaSpec:
    """The table with the options that its factory gives it."""
    factory = externals.registry.factory(CONNECTORS, MANAGED)
    if not isinstance(factory, CreateTableListener):
        return spec
    table = CatalogTable(
        columns=spec.columns,
        partition_keys=spec.partition_keys,
        primary_keys=spec.primary_keys,
        options=dict(spec.options),
        comment=spec.comment,
        distribution=spec.distribution,
    )
    options = factory.on_table_creation(_notification(externals, name, table, temporary))
    return replace(spec, options=dict(options))


def before_drop(externals: ExternalTables, name: str) -> None:
    """Tell the factory; nothing is dropped if it raises."""
    factory = externals.registry.factory(CONNECTORS, MANAGED)
    catalog = externals.catalog
    if not isinstance(factory, DropTableListener) or not catalog.table_exists(name):
        return
    schema = catalog.table(name).schema
    table = CatalogTable(
        partition_keys=schema.partition_keys,
        primary_keys=schema.primary_keys,
        options=dict(schema.options),
        comment=schema.comment,
    )
    is_temporary = catalog.session is not None and catalog.session.table_exists(name)
    factory.on_table_drop(_notification(externals, name, table, is_temporary))


def _notification(
    externals: ExternalTables, name: str, table: CatalogTable, temporary: bool
) -> TableNotification:
    return TableNotification(
        name=name,
        table=table,
        configuration=externals.configuration,
        registry=externals.registry,
        is_temporary=temporary,
    )
