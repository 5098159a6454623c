"""`lakewright ls`: the tables of a warehouse."""

from __future__ import annotations

import sys
from dataclasses import asdict, dataclass
from typing import TYPE_CHECKING

import click

from lakewright.cli.grammar.call import Call
from lakewright.cli.grammar.command import command
from lakewright.cli.output.answers import Answer
from lakewright.cli.output.tables import Block, TextColumn, TextTable
from lakewright.cli.output.text import Cell, iso_time, time_text

if TYPE_CHECKING:
    from lakewright.connectors.external_tables import ExternalTables
    from lakewright.storage import Catalog


@dataclass(frozen=True, slots=True)
class _Found:
    """A table, or what is wrong with it.

    Format tables and external tables, which have a connector, have neither counted rows nor
    snapshots.
    """

    table: str
    primary_key: tuple[str, ...] = ()
    partition_keys: tuple[str, ...] = ()
    rows_in_files: int | None = None
    snapshot_id: int | None = None
    committed_ms: int | None = None
    connector: str | None = None
    error: str | None = None


@command("ls", of_table=False, examples="lakewright ls\nlakewright ls nyc --format json")
@click.argument("database", metavar="[DB]", required=False)
def ls(call: Call, *, database: str | None) -> Answer:
    """List the tables of the warehouse, or of one database."""
    from lakewright.connectors.external_tables import ExternalTables

    catalog = call.catalog()
    externals = ExternalTables(catalog)
    databases = catalog.list_databases() if database is None else (database,)
    found: list[_Found] = []
    for home in databases:
        kept = [_look_at(catalog, f"{home}.{name}") for name in catalog.list_tables(home)]
        defined = [_defined(externals, f"{home}.{name}") for name in externals.names(home)]
        found += sorted([*kept, *defined], key=lambda table: table.table)
    place = catalog.uri if database is None else f"database {database}"
    if call.form == "table":
        for each in found:
            if each.error is not None:
                sys.stderr.write(f"lakewright: warning: {each.table}: {each.error}\n")
    return Answer(
        text=lambda: _text(found) if found else [f"no tables in {place}"],
        value=lambda: [_record(each) for each in found],
    )


def _look_at(catalog: Catalog, name: str) -> _Found:
    """One table; one that cannot be opened hides none of the others."""
    from lakewright.storage import StorageError
    from lakewright.storage.operations.format_tables.format_spec import is_format_table

    try:
        table = catalog.table(name)
        if is_format_table(table.schema):
            return _Found(name, partition_keys=table.schema.partition_keys)
        snapshot = table.history.latest_snapshot()
    except StorageError as error:
        return _Found(name, error=error.message)
    return _Found(
        name,
        primary_key=table.schema.primary_keys,
        partition_keys=table.schema.partition_keys,
        rows_in_files=snapshot.total_record_count if snapshot else 0,
        snapshot_id=snapshot.id if snapshot else None,
        committed_ms=snapshot.time_millis if snapshot else None,
    )


def _defined(externals: ExternalTables, name: str) -> _Found:
    """An external table, by its definition alone."""
    from lakewright.storage import StorageError

    try:
        table = externals.definition(name)
    except StorageError as error:
        return _Found(name, error=error.message)
    return _Found(
        name,
        primary_key=table.primary_keys,
        partition_keys=table.partition_keys,
        connector=table.connector,
    )


def _text(found: list[_Found]) -> list[Block]:
    columns = [
        TextColumn("table"),
        TextColumn("primary key"),
        TextColumn("partitioned by"),
        TextColumn("rows in files", right=True),
        TextColumn("snapshot", right=True),
        TextColumn("last commit (UTC)"),
    ]
    return [TextTable(columns, [_cells(each) for each in found])]


def _cells(found: _Found) -> list[Cell]:
    if found.error is not None:
        return [found.table, "(cannot be read)", "", "", "", ""]
    uncounted = "(format table)" if found.connector is None else f"(connector {found.connector})"
    return [
        found.table,
        ", ".join(found.primary_key) or "-",
        ", ".join(found.partition_keys) or "-",
        uncounted if found.rows_in_files is None else found.rows_in_files,
        "-" if found.snapshot_id is None else str(found.snapshot_id),
        "-" if found.committed_ms is None else time_text(found.committed_ms),
    ]


def _record(found: _Found) -> dict[str, object]:
    record = asdict(found)
    committed_ms = record.pop("committed_ms")
    record["last_commit"] = None if committed_ms is None else iso_time(committed_ms)
    if found.error is not None:
        return {"table": found.table, "error": found.error}
    del record["error"]
    return record
