"""`lakewright partitions`: the partitions of a state, and what lies in them."""

from __future__ import annotations

from dataclasses import asdict
from typing import TYPE_CHECKING

import click

from lakewright.cli.grammar.call import Call, named_partitions
from lakewright.cli.grammar.command import command
from lakewright.cli.grammar.options import partitions_option, snapshot_option, where_option
from lakewright.cli.output.answers import Answer, listed
from lakewright.cli.output.partitions import (
    partition_cells,
    partition_columns,
    plain_spec,
    plain_value,
    rows_title,
    typing_notes,
)
from lakewright.cli.output.tables import TextColumn
from lakewright.cli.output.text import Cell, iso_time, time_text
from lakewright.platform.upkeep.where_notes import WHERE_NOTES
from lakewright.platform.upkeep.words import size_text

if TYPE_CHECKING:
    from collections.abc import Mapping

    from lakewright.storage import PartitionProperties, PartitionStats, Snapshot


@command(
    "partitions",
    notes="EXPR may look at partition columns only.\n" + WHERE_NOTES,
    examples="""
lakewright partitions nyc.flights --where "dt >= '2013-12-01'"
lakewright partitions nyc.flights --partition dt=2013-12-24 --last-update
""",
)
@where_option
@partitions_option("Only partitions with these values; some columns may be left out.")
@click.option(
    "--last-update",
    is_flag=True,
    help="Also the last commit that changed the rows of each; reads the retained history.",
)
@click.option(
    "--properties",
    is_flag=True,
    help="Also where the files of each lie, and their formats; in JSON also bounds of columns.",
)
@snapshot_option
def partitions(
    call: Call,
    *,
    where: str | None,
    partitions: tuple[Mapping[str, str], ...],
    last_update: bool,
    properties: bool,
    snapshot: int | None,
) -> Answer:
    """List a table's partitions."""
    from lakewright.storage.spec.options import BucketMode

    table = call.table()
    # A state of the past has the partition keys of its time.
    state = table.at(snapshot=snapshot)
    named = named_partitions(state, partitions)
    keyed = state.schema.has_primary_key
    bucketed = state.table_files.options.bucket_mode is BucketMode.FIXED
    found = state.partitions(where, named=named, last_update=last_update)
    held: dict[int, PartitionProperties] = {}
    if properties:
        every = state.partition_properties(where, named=named)
        held = {id(stats): each for stats, (_, each) in zip(found, every, strict=True)}
    return listed(
        found,
        [
            *partition_columns(state.schema),
            TextColumn(rows_title(state.table_files), right=True),
            TextColumn("files", right=True),
            TextColumn("small", right=True),
            *([TextColumn("buckets", right=True)] if bucketed else []),
            *([TextColumn("most runs", right=True)] if keyed else []),
            TextColumn("size", right=True),
            TextColumn("last file (UTC)"),
            *([TextColumn("last update")] if last_update else []),
            *([TextColumn("formats"), TextColumn("location")] if properties else []),
        ],
        cells=lambda each: [
            *_cells(each, keyed=keyed, bucketed=bucketed),
            *([_update_text(each)] if last_update else []),
            *_property_cells(held.get(id(each))),
        ],
        record=lambda each: _record(each, held.get(id(each))),
        empty="no partitions",
        notes=lambda: typing_notes((each.spec for each in found), state.schema),
    )


def _cells(stats: PartitionStats, *, keyed: bool, bucketed: bool) -> list[Cell]:
    last_ms = stats.last_file_creation_ms
    return [
        *partition_cells(stats.spec),
        stats.row_count,
        stats.file_count,
        stats.small_file_count,
        *([len(stats.buckets)] if bucketed else []),
        *([max(bucket.sorted_run_count for bucket in stats.buckets)] if keyed else []),
        size_text(stats.size_bytes),
        "-" if last_ms is None else time_text(last_ms),
    ]


def _update_text(stats: PartitionStats) -> str:
    snapshot = stats.last_update
    if snapshot is None:
        return "not known" if stats.last_update_unknown else "expired"
    kind = snapshot.commit_kind.value
    return f"{time_text(snapshot.time_millis)}, snapshot {snapshot.id} ({kind})"


def _property_cells(properties: PartitionProperties | None) -> list[Cell]:
    if properties is None:
        return []
    return [", ".join(properties.formats), properties.location]


def _record(
    stats: PartitionStats, properties: PartitionProperties | None = None
) -> dict[str, object]:
    last_ms = stats.last_file_creation_ms
    more = {} if properties is None else {"properties": _property_record(properties)}
    return {
        "partition": plain_spec(stats.spec),
        "row_count": stats.row_count,
        "merged_row_count": stats.merged_row_count,
        "file_count": stats.file_count,
        "small_file_count": stats.small_file_count,
        "size_bytes": stats.size_bytes,
        "last_file_created": None if last_ms is None else iso_time(last_ms),
        "last_update": _update_record(stats.last_update),
        "last_update_unknown": stats.last_update_unknown,
        "buckets": [asdict(bucket) for bucket in stats.buckets],
        **more,
    }


def _property_record(properties: PartitionProperties) -> dict[str, object]:
    columns = [
        {
            **asdict(column),
            "minimum": plain_value(column.minimum),
            "maximum": plain_value(column.maximum),
        }
        for column in properties.columns
    ]
    return {**asdict(properties), "columns": columns}


def _update_record(snapshot: Snapshot | None) -> dict[str, object] | None:
    if snapshot is None:
        return None
    return {
        "snapshot": snapshot.id,
        "time": iso_time(snapshot.time_millis),
        "kind": snapshot.commit_kind.value,
        "user": snapshot.commit_user,
    }
