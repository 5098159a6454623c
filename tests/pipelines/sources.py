"""Sources that the tests' declarations name; they return what a test has given them."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc

from lakewright.platform.ingest.sources import SourceRequest

_GIVEN: dict[str, Any] = {}
REQUESTS: list[SourceRequest] = []


def forget() -> None:
    """Start a test without rows of another."""
    _GIVEN.clear()
    REQUESTS.clear()


def give(table: str, rows: Sequence[Mapping[str, Any]] | pa.Table | Callable[..., Any]) -> None:
    """What `rows` returns for a table from here on."""
    _GIVEN[table] = rows


def rows(request: SourceRequest) -> Any:
    """What was given, of the partitions asked for."""
    REQUESTS.append(request)
    found = _given(request)
    if request.partitions is None or not isinstance(found, pa.Table):
        return found
    for name in request.partitions[0]:
        values = pa.array(request.values(name), found.schema.field(name).type)
        found = found.filter(pc.is_in(found.column(name), values))
    return found


def all_rows(request: SourceRequest) -> Any:
    """What was given, whatever was asked for."""
    REQUESTS.append(request)
    return _given(request)


def totals(request: SourceRequest) -> pa.Table:
    """Sums by day of the upstream table shop.events."""
    REQUESTS.append(request)
    found = request.upstream_rows("shop.events", ["dt", "amount"])
    summed = found.group_by("dt").aggregate([("amount", "sum")])
    return summed.rename_columns(["dt", "total"])


def _given(request: SourceRequest) -> Any:
    found = _GIVEN.get(request.table, [])
    if callable(found):
        return found(request)
    return found if isinstance(found, pa.Table) else pa.Table.from_pylist(list(found))
