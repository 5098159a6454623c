"""Missing rows: a run must not empty or skip a partition silently if requested rows are missing.

A run without rows, a run that would empty a partition, and a run whose upstream lacks a partition
all look like a day without rows. The usual cause is a wrong path, a date in another layout, or a
failed upstream.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence

from lakewright.platform.tables.partition_keys import first_few, partition_identity
from lakewright.storage import Table
from lakewright.storage.errors import InvalidRows
from lakewright.storage.spec.data_types import DataType
from lakewright.storage.spec.partition_words import describe_partition
from lakewright.storage.spec.values import from_python

Spec = Mapping[str, object]
INTENDED = (
    "if this is intended, declare `allow_empty: true` in the source, or run with --allow-empty "
    "(`allow_empty: true` in run config)"
)


def missing_partitions(
    table: Table,
    written: Sequence[Spec],
    asked: Sequence[Spec] | None,
    *,
    replaces: bool,
    upstream: Mapping[str, Table],
    explain: Callable[[], None],
) -> tuple[tuple[Spec, str], ...]:
    """The requested partitions that got no rows though that is not plausible, each with the reason.

    `written` are the partitions that got rows. `replaces` says whether the others would be emptied.
    `explain` raises the source's own error if there are no rows at all. A partition without rows is
    plausible if it has none in the table, and none in an upstream table is missing.

    Raises:
        InvalidRows: the source gave no row.
    """
    got = {partition_identity(spec) for spec in written}
    missing = [spec for spec in asked or () if partition_identity(spec) not in got]
    absent = _absent_upstream(missing, upstream)
    if not written:
        explain()
        what = f" of {_named(missing)}" if missing else ""
        for name, specs in absent.items():
            what += f", and its upstream {name} has no rows of {_named(specs)}"
        raise InvalidRows(
            f"the source of {table.name} returned no rows{what}; nothing was written; {INTENDED}"
        )
    held = _with_rows(table) if replaces and missing else set()
    found: list[tuple[Spec, str]] = []
    for spec in missing:
        why = [
            f"its upstream {name} has no rows of {describe_partition(spec)}"
            for name, specs in absent.items()
            if spec in specs
        ]
        if partition_identity(spec) in held:
            why.insert(0, "it has rows in the table")
        if why:
            found.append((spec, f"no rows came, and {' and '.join(why)}"))
    return tuple(found)


def _absent_upstream(
    missing: Sequence[Spec], upstream: Mapping[str, Table]
) -> dict[str, list[Spec]]:
    """By upstream table with the same partition columns, the partitions that it has no rows of."""
    found: dict[str, list[Spec]] = {}
    for name, table in upstream.items():
        keys = table.schema.partition_keys
        if not keys or not missing or not set(keys) <= set(missing[0]):
            continue
        types = {
            partition_field.name: partition_field.type
            for partition_field in table.schema.partition_fields
        }
        held = {
            _as_typed(partition.spec, types)
            for partition in table.at().partitions()
            if partition.row_count
        }
        absent = [spec for spec in missing if _as_typed(spec, types) not in held]
        if absent:
            found[name] = absent
    return found


def _as_typed(spec: Spec, types: Mapping[str, DataType]) -> tuple[tuple[str, object], ...]:
    """The values of some columns, cast to these types: an upstream may store a day as text."""
    return partition_identity({name: from_python(spec[name], kind) for name, kind in types.items()})


def _with_rows(table: Table) -> set[tuple[tuple[str, object], ...]]:
    return {
        partition_identity(partition.spec)
        for partition in table.at().partitions()
        if partition.row_count
    }


def _named(specs: Sequence[Spec]) -> str:
    return first_few([describe_partition(spec) for spec in specs])
