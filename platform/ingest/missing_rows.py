"""Missing rows: a run must not publish silently if requested rows are missing.

A run without rows, a run that would empty a partition, and a run whose upstream lacks a partition
all look like a day without rows. The usual cause is a wrong path, a date in another layout, or a
failed upstream.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence

from lakewright.platform.declare.partition_keys import (
    describe_partition,
    first_few,
    partition_identity,
)
from lakewright.storage import Table
from lakewright.storage.errors import InvalidRows
from lakewright.storage.spec.data_types import DataType
from lakewright.storage.spec.values import from_python

Spec = Mapping[str, object]


def check_rows_came(
    table: Table,
    written: Sequence[Spec],
    asked: Sequence[Spec] | None,
    *,
    replaces: bool,
    upstream: Mapping[str, Table],
    explain: Callable[[], None],
) -> None:
    """Refuse to publish if requested partitions got no rows, unless that is plausible.

    `written` are the partitions that got rows. `replaces` says whether the others are emptied.
    `explain` raises the source's own error if there are no rows at all.

    Raises:
        InvalidRows: the source gave no row; or a partition that holds rows got none; or a partition
            got none and an upstream table has none for it.
    """
    got = {partition_identity(spec) for spec in written}
    missing = [spec for spec in asked or () if partition_identity(spec) not in got]
    found = f"the source of {table.name} returned no rows"
    if not written:
        explain()
        what = f" of {_named(missing)}" if missing else ""
        raise _refused(table, f"{found}{what}{_without_upstream(missing, upstream)}")
    if not missing:
        return
    held = _with_rows(table) if replaces else set()
    lost = [spec for spec in missing if partition_identity(spec) in held]
    if lost:
        raise _refused(
            table,
            f"{found} of {len(lost)} requested partitions that have rows in the table "
            f"({_named(lost)}){_without_upstream(lost, upstream)}",
        )
    why = _without_upstream(missing, upstream)
    if why:
        raise _refused(table, f"{found} of {_named(missing)}{why}")


def _refused(table: Table, what: str) -> InvalidRows:
    return InvalidRows(
        f"{what}; nothing was written; if this is intended, declare `allow_empty: true` in the "
        "source, or run with allow_empty: true",
        table=table.name,
    )


def _without_upstream(missing: Sequence[Spec], upstream: Mapping[str, Table]) -> str:
    """Upstream tables without rows for the partitions, as the end of a sentence."""
    for name, table in upstream.items():
        keys = table.schema.partition_keys
        if not keys or not missing or not set(keys) <= set(missing[0]):
            continue
        types = {each.name: each.type for each in table.schema.partition_fields}
        held = {_as_typed(each.spec, types) for each in table.at().partitions() if each.row_count}
        absent = [spec for spec in missing if _as_typed(spec, types) not in held]
        if absent:
            return f", and its upstream {name} has no rows of {_named(absent)}"
    return ""


def _as_typed(spec: Spec, types: Mapping[str, DataType]) -> tuple[tuple[str, object], ...]:
    """The values of some columns, cast to these types: an upstream may store a day as text."""
    return partition_identity({name: from_python(spec[name], kind) for name, kind in types.items()})


def _with_rows(table: Table) -> set[tuple[tuple[str, object], ...]]:
    return {partition_identity(each.spec) for each in table.at().partitions() if each.row_count}


def _named(specs: Sequence[Spec]) -> str:
    return first_few([describe_partition(spec) for spec in specs])
