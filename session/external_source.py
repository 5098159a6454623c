"""An external table as a query reads it."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace

import pyarrow as pa

from lakewright.connectors.external_tables import ExternalTables
from lakewright.connectors.planning.plan_source import ScanRequest, plan_scan
from lakewright.session.query_source import Source
from lakewright.storage.errors import UnsupportedError
from lakewright.storage.spec.predicate import Predicate
from lakewright.storage.sql.grammar.moments import Moment


def external_source(externals: ExternalTables, name: str, moment: Moment | None) -> Source:
    """An external table as a query reads it; its connector is called when rows are asked for.

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

    def pieces(where: Predicate | None, columns: Sequence[str]) -> Iterator[pa.Table]:
        planned = plan_scan(context, ScanRequest(tuple(columns), where))
        return planned.rows()

    def told(where: Predicate | None, columns: Sequence[str]) -> list[str]:
        return plan_scan(context, ScanRequest(tuple(columns), where)).explained()

    return Source(name, replace(table.schema, fields=tuple(fields)), pieces, told=told)
