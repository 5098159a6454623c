"""`lakewright partitions`: the partitions of a state, and what lies in them."""

from __future__ import annotations

from dataclasses import asdict
from typing import TYPE_CHECKING

from lakewright.cli.grammar.call import Call, filter_of
from lakewright.cli.grammar.command import command
from lakewright.cli.grammar.options import WHERE_NOTES, snapshot_option, where_option
from lakewright.cli.output.answers import Answer, listed
from lakewright.cli.output.partitions import partition_cells, partition_columns, plain_spec
from lakewright.cli.output.tables import TextColumn
from lakewright.cli.output.text import Cell, iso_time, time_text
from lakewright.platform.upkeep.words import size_text

if TYPE_CHECKING:
    from lakewright.storage import PartitionStats


@command(
    "partitions",
    notes="EXPR may look at partition columns only.\n" + WHERE_NOTES,
    examples="lakewright partitions nyc.flights --where \"dt >= '2013-12-01'\"",
)
@where_option
@snapshot_option
def partitions(call: Call, *, where: str | None, snapshot: int | None) -> Answer:
    """List a table's partitions."""
    from lakewright.storage.errors import InvalidPredicate
    from lakewright.storage.spec.options import BucketMode
    from lakewright.storage.spec.predicate import columns_of

    table = call.table()
    wanted = filter_of(where, table.schema)
    keys = table.schema.partition_keys
    others = sorted(columns_of(wanted) - set(keys)) if wanted is not None else []
    if others:
        have = ", ".join(keys) or "none, it is not partitioned"
        raise InvalidPredicate(
            f"the filter looks at {', '.join(others)}, and partitions are chosen by partition "
            f"keys alone; those of {table.name} are {have}"
        )
    keyed = table.schema.has_primary_key
    bucketed = table.options.bucket_mode is BucketMode.FIXED
    return listed(
        table.at(snapshot=snapshot).partitions(wanted),
        [
            *partition_columns(table.schema),
            TextColumn("rows in files" if keyed else "rows", right=True),
            TextColumn("files", right=True),
            TextColumn("small", right=True),
            *([TextColumn("buckets", right=True)] if bucketed else []),
            *([TextColumn("most runs", right=True)] if keyed else []),
            TextColumn("size", right=True),
            TextColumn("last file (UTC)"),
        ],
        cells=lambda each: _cells(each, keyed=keyed, bucketed=bucketed),
        record=_record,
        empty="no partitions",
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


def _record(stats: PartitionStats) -> dict[str, object]:
    last_ms = stats.last_file_creation_ms
    return {
        "partition": plain_spec(stats.spec),
        "row_count": stats.row_count,
        "file_count": stats.file_count,
        "small_file_count": stats.small_file_count,
        "size_bytes": stats.size_bytes,
        "last_file_created": None if last_ms is None else iso_time(last_ms),
        "buckets": [asdict(bucket) for bucket in stats.buckets],
    }
