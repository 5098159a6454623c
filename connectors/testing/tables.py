"""What suites share: the table of a connector, and rows that can be compared."""

from __future__ import annotations

import datetime as dt
import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from typing import Any

import pyarrow as pa

from lakewright.connectors.factories import Context, connector_options
from lakewright.connectors.model.catalog_table import CONNECTOR, CatalogTable
from lakewright.connectors.registry import installed

NAME = "suite.table"


def context_of(
    factory: Any,
    columns: Mapping[str, str],
    options: Mapping[str, str],
    *,
    primary_key: Sequence[str] = (),
    partitioned_by: Sequence[str] = (),
) -> Context:
    """What the factory of a table is called with."""
    builder = CatalogTable.builder().options({CONNECTOR: factory.identifier, **options})
    for name, kind in columns.items():
        builder = builder.column(name, kind)
    table = builder.primary_key(*primary_key).partitioned_by(*partitioned_by).build()
    resolved = table.resolve(NAME)
    registry = replace(installed(), extra=(factory,))
    return Context(table=resolved, options=connector_options(factory, resolved), registry=registry)


def comparable(rows: pa.Table | Iterable[Mapping[str, Any]]) -> list[str]:
    """Rows in no order, as texts."""
    given = rows.to_pylist() if isinstance(rows, pa.Table) else rows
    return sorted(repr({name: _plain(value) for name, value in row.items()}) for row in given)


def _plain(value: Any) -> Any:
    if isinstance(value, float) and math.isnan(value):
        return "NaN"
    is_zoned = isinstance(value, dt.datetime) and value.tzinfo is not None
    # One moment has many zones.
    return value.astimezone(dt.UTC).isoformat() if is_zoned else value
