"""An external table as a query reads it."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace

import pyarrow as pa

from lakewright.connectors.external_tables import ExternalTables
from lakewright.connectors.planning.plan_source import (
    AggregateRequest,
    PlannedScan,
    ScanRequest,
    plan_aggregates,
    plan_scan,
)
from lakewright.session.query_source import Source
from lakewright.storage.errors import UnsupportedError
from lakewright.storage.spec.predicate import Predicate
from lakewright.storage.spec.schema import TableSchema
from lakewright.storage.sql.grammar.moments import Moment


def external_source(
    externals: ExternalTables,
    name: str,
    moment: Moment | None,
    *,
    where: Predicate | None = None,
    limit: int | None = None,
) -> Source:
    """An external table as a query reads it; its connector is called when rows are asked for.

    With a limit, at most so many rows that `where` takes, the whole filter of the query.

    Raises:
        UnsupportedError: a moment is asked for.
    """
    if moment is not None:
        raise UnsupportedError(f"{name} is an external table, whose history is not known here")
    context = externals.context(name)
    table = context.table
    fields = list(table.fields)
    places = {each.name: each.index for each in table.definition.unstored}
    for _, each in table.metadata:
        fields.insert(places[each.name], each)

    def planned(also: Predicate | None, columns: Sequence[str]) -> PlannedScan:
        taken = also if limit is None else where
        return plan_scan(context, ScanRequest(tuple(columns), taken, limit))

    def pieces(also: Predicate | None, columns: Sequence[str]) -> Iterator[pa.Table]:
        return planned(also, columns).rows()

    schema = replace(table.schema, fields=tuple(fields))
    return Source(name, schema, pieces, planned=planned)


def aggregated_source(
    externals: ExternalTables, name: str, request: AggregateRequest
) -> Source | None:
    """The groups of an external table, with aggregates; None if its source does not make them."""
    made = plan_aggregates(externals.context(name), request)
    if made is None:
        return None

    def planned(_: Predicate | None, __: Sequence[str]) -> PlannedScan:
        return made

    def pieces(_: Predicate | None, columns: Sequence[str]) -> Iterator[pa.Table]:
        return (row.select(list(columns)) for row in made.rows())

    schema = TableSchema(id=0, fields=made.fields, highest_field_id=len(made.fields))
    return Source(name, schema, pieces, planned=planned)
