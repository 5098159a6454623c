"""Schemas, tables and rows in one line each, and rows in a form that compares."""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from typing import Any

import pyarrow as pa

from lakewright.storage import (
    Catalog,
    Column,
    Compatibility,
    GateRules,
    SchemaSpec,
    Table,
    parse_data_type,
)
from lakewright.storage.operations.retention.expire_snapshots import ExpireResult
from lakewright.storage.operations.retention.remove_orphans import OrphansResult
from lakewright.storage.operations.rewrite.compaction_plan import CompactionResult
from lakewright.storage.operations.write.write import StagingWriter, staged_write
from lakewright.storage.spec.rows import ROW_KIND_COLUMN
from lakewright.storage.table_at import TableAt
from tests.oracles.arrow_values import canonical_rows
from tests.support.tables.copied import copied

Values = Mapping[str, Any]

# Column sets that many tests use.
EVENTS = {"id": "BIGINT", "day": "STRING", "v": "STRING"}


def spec(
    columns: Mapping[str, str],
    *,
    partitions: Sequence[str] = (),
    keys: Sequence[str] = (),
    options: Mapping[str, str] | None = None,
) -> SchemaSpec:
    """A schema from column names and printed types."""
    return SchemaSpec(
        columns=tuple(Column(name, parse_data_type(text)) for name, text in columns.items()),
        partition_keys=tuple(partitions),
        primary_keys=tuple(keys),
        options=dict(options or {}),
    )


def new_table(
    catalog: Catalog,
    columns: Mapping[str, str] | None = None,
    *,
    name: str = "db.t",
    partitions: Sequence[str] = (),
    keys: Sequence[str] = (),
    options: Mapping[str, str] | None = None,
) -> Table:
    """Create a table; of `EVENTS` when no columns are given."""
    wanted = spec(columns or EVENTS, partitions=partitions, keys=keys, options=options)
    return catalog.create_table(name, wanted)


def with_options(table: Table, **options: str) -> Table:
    """The same table with other options (underscores stand for hyphens, `__` for dots)."""
    named = {key.replace("__", ".").replace("_", "-"): value for key, value in options.items()}
    schema = replace(table.schema, options={**table.schema.options, **named})
    return Table(replace(table.table_files, schema=schema))


def rows(table: Table, values: Iterable[Values], kinds: Sequence[str] | None = None) -> pa.Table:
    """Rows for a table from dicts; missing keys are null."""
    listed = list(values)
    schema = pa.schema([each.with_nullable(True) for each in table.arrow_schema])
    unknown = {name for row in listed for name in row} - set(schema.names)
    assert not unknown, f"no such columns: {unknown}"
    columns = [pa.array([row.get(each.name) for row in listed], each.type) for each in schema]
    result = pa.Table.from_arrays(columns, schema=schema)
    return result if kinds is None else result.append_column(ROW_KIND_COLUMN, pa.array(kinds))


def events(first: int, last: int, *, day: str | None = "a", v: str = "v") -> list[dict[str, Any]]:
    """Rows of `EVENTS` with ids from `first` to `last`, without `last`."""
    return [{"id": number, "day": day, "v": f"{v}{number}"} for number in range(first, last)]


def comparable(table: pa.Table) -> list[str]:
    """Rows as sorted JSON texts, which distinguish null, NaN, -0.0 and decimals."""
    return sorted(json.dumps(row, sort_keys=True) for row in canonical_rows(table))


# Judges a change of a schema without regard to the values that it loses.
ANY_LOSS = GateRules(compatibility=Compatibility.NONE)


def content(table: Table | TableAt, **read: Any) -> list[str]:
    """The rows of a read, in comparable form."""
    return comparable(table.read(**read))


def replacing(catalog: Catalog, versions: Iterable[str] = "abc", **options: str) -> Table:
    """A keyed table whose snapshots 1, 3, 5 each replace three rows, and 2, 4, 6 compact that.

    In names of options underscores stand for hyphens, `__` for dots.
    """
    named = {key.replace("__", ".").replace("_", "-"): value for key, value in options.items()}
    listed = tuple(versions)

    def make(place: Catalog) -> Table:
        table = new_table(place, keys=["id"], options={"bucket": "1", **named})
        for version in listed:
            replace_rows(table, version)
        return table

    return copied(catalog, make, listed, tuple(named.items()))


def replace_rows(table: Table, version: str) -> None:
    """Write the three rows once more, and compact."""
    table.write(rows(table, events(0, 3, v=version)))
    compact(table, full=True)


def values_of(table: Table, column: str, **read: Any) -> list[Any]:
    """One column of a table, sorted, nulls last."""
    found = table.read(columns=[column], **read).column(column).to_pylist()
    return sorted(found, key=lambda value: (value is None, value))


def compact(
    table: Table, partitions: Sequence[Mapping[str, object]] | None = None, **plan: Any
) -> CompactionResult:
    """Plan and run a compaction."""
    return table.upkeep.run(table.upkeep.plan_compact(partitions, **plan))


def expire(table: Table, *, keep: int = 1, **plan: Any) -> ExpireResult:
    """Plan and run an expiry that leaves the last `keep` snapshots of any age."""
    planned = table.upkeep.plan_expire_snapshots(
        **{"retain_min": keep, "retain_max": keep, "time_retained_ms": 0, "grace_ms": 0, **plan}
    )
    return table.upkeep.run(planned)


def remove_orphans(table: Table, *, age_ms: int = 0, grace_ms: int | None = 0) -> OrphansResult:
    """Delete unreferenced files of any age; without a grace they are condemned for a while."""
    grace: dict[str, Any] = {} if grace_ms is None else {"grace_ms": grace_ms}
    plan = table.upkeep.plan_remove_orphans(older_than_ms=age_ms, even_recent=True, **grace)
    return table.upkeep.run(plan)


class _FileByFile(StagingWriter):
    """Writes the rows of each call to a file of their own."""

    def write(self, rows: pa.Table) -> None:
        super().write(rows)
        self._writer.end_files()


def write_as_files(table: Table, batches: Iterable[pa.Table]) -> None:
    """Append each batch as a file of its own in each bucket, all in one commit."""
    job = table.prepare_write(mode="append")
    writer = _FileByFile(job)
    for batch in batches:
        writer.write(batch)
    table.commit(staged_write(job, writer.close()))
