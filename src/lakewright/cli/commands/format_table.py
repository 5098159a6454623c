"""`lakewright format-table`: folders of plain files as tables."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

import click

from lakewright.cli.grammar.call import Call, named_partitions
from lakewright.cli.grammar.command import HowOption, command, group
from lakewright.cli.grammar.options import columns_option, limit_option, where_option
from lakewright.cli.grammar.values import names, partition
from lakewright.cli.output.answers import Answer, listed, said
from lakewright.cli.output.partitions import (
    partition_cells,
    partition_columns,
    plain_spec,
    typing_notes,
)
from lakewright.platform.upkeep.where_notes import WHERE_NOTES
from lakewright.platform.upkeep.words import counted

if TYPE_CHECKING:
    from collections.abc import Mapping

    from lakewright.storage import FormatTable

    Specs = Sequence[Mapping[str, object]]

_FORMATS = ("parquet", "orc", "avro", "csv", "json", "text")
_partition_option = click.option(
    "--partition",
    "partitions",
    metavar="K=V,…",
    type=partition,
    multiple=True,
    required=True,
    help="A partition, with all its keys. Null is __DEFAULT_PARTITION__; a JSON object does too.",
)


def _table(call: Call) -> FormatTable:
    return call.catalog().format_table(call.table_name)


@command(
    "create",
    notes="""
The files may be there before the table. Without --location they lie with the table, and other
Paimon clients read them if their folders are named key=value.
""",
    examples="""
lakewright format-table create shop.views --column "id BIGINT" --column "dt DATE"
lakewright format-table create shop.views --column "id BIGINT" --column "dt DATE" \\
    --partition-keys dt --file-format csv --location /landing/views
""",
)
@click.option(
    "--column", "columns", metavar="'NAME TYPE'", multiple=True, required=True, help="A column."
)
@click.option("--partition-keys", metavar="A,B", type=names, help="The columns of the folders.")
@click.option("--file-format", type=click.Choice(_FORMATS), default="parquet", show_default=True)
@click.option("--location", metavar="URI", help="The folder of the files.")
@click.option("--only-values", is_flag=True, help="Folders are named by values, without keys.")
@click.option("--registry", is_flag=True, help="A registry knows the partitions, not folders.")
def _create(
    call: Call,
    *,
    columns: Sequence[str],
    partition_keys: list[str] | None,
    file_format: str,
    location: str | None,
    only_values: bool,
    registry: bool,
) -> Answer:
    """Create a table of plain files."""
    from lakewright.storage.operations.format_tables.format_spec import (
        ONLY_VALUES_OPTION,
        REGISTERED_OPTION,
    )

    flags = {ONLY_VALUES_OPTION: only_values, REGISTERED_OPTION: registry}
    parts = [column.strip().partition(" ") for column in columns]
    table = call.catalog().create_format_table(
        call.table_name,
        {name: kind for name, _, kind in parts},
        file_format=file_format,
        partition_keys=partition_keys or (),
        location=location,
        options={name: "true" for name, wanted in flags.items() if wanted},
    )
    return said(f"{table.name} reads {table.location}", table=table.name, location=table.location)


@command(
    "read",
    notes=WHERE_NOTES,
    examples="lakewright format-table read shop.views --where \"dt = '2024-01-31'\"",
)
@where_option
@columns_option
@limit_option
def _read(call: Call, *, where: str | None, columns: list[str] | None, limit: int | None) -> None:
    """Print rows; only folders that the filter may match are listed."""
    from lakewright.cli.output.rows import print_rows

    table = _table(call)
    rows = table.read(where, columns)
    fields = table.schema.fields_of(rows.column_names)
    print_rows(call.form, fields, iter([rows]), limit=limit)


@command("partitions", examples="lakewright format-table partitions shop.views")
@where_option
def _partitions(call: Call, *, where: str | None) -> Answer:
    """List the partitions."""
    table = _table(call)
    found = table.partitions(where)
    return listed(
        found,
        partition_columns(table.schema),
        cells=partition_cells,
        record=lambda each: {"partition": plain_spec(each)},
        empty="no partitions",
        notes=lambda: typing_notes(found, table.schema),
    )


@command("add", examples="lakewright format-table add shop.views --partition dt=2024-01-31")
@_partition_option
@click.option("--if-not-exists", is_flag=True, help="Pass over partitions that exist.")
def _add(call: Call, *, partitions: Specs, if_not_exists: bool) -> Answer:
    """Add partitions: their folders, and their entries in the registry."""
    table = _table(call)
    table.add_partitions(*(named_partitions(table, partitions) or ()), if_not_exists=if_not_exists)
    return said(f"{table.name} has {counted(len(partitions), 'partition')} of these")


@command(
    "drop",
    examples="lakewright format-table drop shop.views --partition dt=2024-01-31 --delete-files",
)
@_partition_option
@click.option("--delete-files", is_flag=True, help="Delete their files, too.")
@click.option("--if-exists", is_flag=True, help="Pass over partitions that do not exist.")
def _drop(call: Call, *, partitions: Specs, delete_files: bool, if_exists: bool) -> Answer:
    """Drop partitions from the registry, and with --delete-files from the disk."""
    table = _table(call)
    specs = named_partitions(table, partitions) or ()
    table.drop_partitions(*specs, delete_files=delete_files, if_exists=if_exists)
    return said(f"{counted(len(partitions), 'partition')} of {table.name} dropped")


@command(
    "repair",
    examples="lakewright format-table repair shop.views --dry-run",
)
@click.option(
    "--mode",
    type=click.Choice(["add", "drop", "sync"]),
    default="add",
    show_default=True,
    help="Register folders that are found, drop entries whose folders are gone, or both.",
)
@click.option("--dry-run", "only_shows", is_flag=True, cls=HowOption, help="Print the drift alone.")
def _repair(call: Call, *, mode: str, only_shows: bool) -> Answer:
    """Compare the registry with the folders, and repair it."""
    table = _table(call)
    drift = table.drift() if only_shows else table.repair_partitions(mode)
    found, gone = ([each.text for each in part] for part in (drift.found, drift.gone))
    lines = [
        *(f"found: {text}" for text in found),
        *(f"gone: {text}" for text in gone),
        *(f"left: {folder}: {reason}" for folder, reason in drift.left),
    ]
    done = "dry run: nothing was written" if only_shows else f"{table.name} is repaired: {mode}"
    return said(
        *(lines or ["the registry and the folders agree"]),
        done,
        found=found,
        gone=gone,
        left=[{"folder": folder, "reason": reason} for folder, reason in drift.left],
    )


format_table = group(
    "format-table",
    "Keep folders of plain files as tables: csv, json, text, parquet, orc, avro.",
    [_create, _read, _partitions, _add, _drop, _repair],
    notes="Such a table has no snapshots: no time travel, tags, compaction or expiry.",
)
