"""`lakewright stream`: rows that arrive in a folder, written batch by batch, each once."""

from __future__ import annotations

import datetime as dt
from typing import TYPE_CHECKING

import click

from lakewright.cli.grammar.call import Call, check_one_of
from lakewright.cli.grammar.command import command, group
from lakewright.cli.grammar.options import FROM_1
from lakewright.cli.grammar.values import age_ms, partition
from lakewright.cli.output.answers import Answer, listed, said
from lakewright.cli.output.tables import TextColumn
from lakewright.cli.output.text import Cell
from lakewright.platform.upkeep.words import counted

if TYPE_CHECKING:
    from lakewright.storage import EventTime, StreamRecord, Table


@command(
    "run",
    notes="""
Each new file becomes rows once, read as the files of a declared source are. CHECKPOINT is a folder
in which Spark keeps what it has read; after a crash the same command goes on. Files have the
columns of the table, without those of --partition, and with those of --event-time. A column that
the table has not, or a row that does not fit, ends the stream.
Without --every, the command ends when all is written.
Partition values come with the rows, or from --partition or --event-time; of K=COLUMN:LAYOUT the
layout says how the time is written, such as yyyy-MM-dd or HH. Partitions by time are marked as
done once rows are later than they are, and later than --delay.
""",
    examples="""
lakewright stream run shop.orders --json incoming/orders --checkpoint checkpoints/orders
lakewright stream run shop.orders --csv incoming/late --checkpoint checkpoints/late \\
    --partition dt=2024-01-01
lakewright stream run logs.clicks --json s3a://landing/clicks --checkpoint s3a://landing/.clicks \\
    --event-time dt=at --event-time hour=at:HH --delay 10min --every "30 seconds"
""",
)
@click.option(
    "--json",
    "json_folder",
    metavar="FOLDER",
    help="JSON files, an object on each line, or arrays of objects.",
)
@click.option("--csv", "csv_folder", metavar="FOLDER", help="CSV files with a header.")
@click.option("--parquet", "parquet_folder", metavar="FOLDER", help="Parquet files.")
@click.option("--orc", "orc_folder", metavar="FOLDER", help="ORC files.")
@click.option("--avro", "avro_folder", metavar="FOLDER", help="Avro files.")
@click.option("--checkpoint", metavar="CHECKPOINT", required=True, help="Where Spark keeps track.")
@click.option(
    "--partition", "fixed", metavar="K=V,…", type=partition, help="The partition of all rows."
)
@click.option(
    "--event-time",
    "event_times",
    metavar="K=COLUMN[:LAYOUT]",
    multiple=True,
    help="Partition key K is the time in a column.",
)
@click.option("--zone", metavar="ZONE", default="UTC", help="The clock of the partitions.")
@click.option("--delay", metavar="AGE", type=age_ms, help="How late rows may come.")
@click.option("--every", metavar="INTERVAL", help="Go on, with a batch each interval.")
@click.option("--files", metavar="N", type=FROM_1, help="At most this many files in a batch.")
@click.option(
    "--ignore-extra-columns",
    "ignore_others",
    is_flag=True,
    help="Ignore columns that the table lacks.",
)
def _run(
    call: Call,
    *,
    json_folder: str | None,
    csv_folder: str | None,
    parquet_folder: str | None,
    orc_folder: str | None,
    avro_folder: str | None,
    checkpoint: str,
    fixed: dict[str, object] | None,
    event_times: tuple[str, ...],
    zone: str,
    delay: int | None,
    every: str | None,
    files: int | None,
    ignore_others: bool,
) -> Answer:
    """Write the files of a folder, and those that arrive."""
    given = {
        "json": json_folder,
        "csv": csv_folder,
        "parquet": parquet_folder,
        "orc": orc_folder,
        "avro": avro_folder,
    }
    check_one_of(needed=True, **given)
    times = dict(_event_time(event_time, zone, delay or 0) for event_time in event_times)
    from lakewright.platform.ingest.stream_files import stream_file_reader
    from lakewright.platform.tables.source_declarations import SourceDeclaration
    from lakewright.storage.spark import build_session
    from lakewright.storage.spark.file_stream import file_stream
    from lakewright.storage.spark.streaming import run_stream
    from lakewright.storage.spec.extra_columns import ExtraColumns

    table = call.table()
    ((file_format, folder),) = ((name, each) for name, each in given.items() if each is not None)
    partition_of = {**(fixed or {}), **times}
    before = table.history.latest_snapshot()
    others = ExtraColumns.IGNORE if ignore_others else ExtraColumns.REFUSE
    source = SourceDeclaration.model_validate({file_format: folder, "extra_columns": others})
    reader = stream_file_reader(table, source, partition_of)
    session = build_session("lakewright-stream")
    run_stream(
        table.table_files,
        file_stream(
            session,
            folder,
            reader,
            reader.fields,
            ordered=table.schema.is_keyed,
            files_at_once=files,
        ),
        checkpoint=checkpoint,
        partition=partition_of,
        trigger=every or "available-now",
    )
    return _written(table, 0 if before is None else before.id)


def _written(table: Table, before: int) -> Answer:
    streams = table.history.streams()
    mine = {each.stream for each in streams[:1]}
    new = [
        snapshot
        for snapshot in table.history.snapshots()
        if snapshot.id > before and snapshot.commit_user in mine
    ]
    batches = [each.commit_identifier for each in new]
    rows = sum(each.delta_record_count for each in new)
    if not new:
        return said(f"{table.name}: no new rows", batches=[], rows=0)
    many = "1 batch" if len(new) == 1 else f"{len(new):,} batches"
    return said(
        f"{table.name}: {counted(rows, 'row')} in {many}, up to batch "
        f"{max(batches)} of stream {streams[0].stream}",
        stream=streams[0].stream,
        batches=batches,
        rows=rows,
    )


def _event_time(text: str, zone: str, delay_ms: int) -> tuple[str, EventTime]:
    from lakewright.storage import EventTime

    key, mark, rest = text.partition("=")
    column, _, layout = rest.partition(":")
    if not mark or not key or not column:
        raise click.BadParameter(f"{text!r} is not K=COLUMN or K=COLUMN:LAYOUT")
    delay = dt.timedelta(milliseconds=delay_ms)
    return key, EventTime(column, layout or None, zone=zone, delay=delay)


@command("list", examples="lakewright stream list shop.orders")
def _list(call: Call) -> Answer:
    """List the streams that write into a table."""
    table = call.table()
    return listed(
        table.history.streams(),
        [
            TextColumn("stream"),
            TextColumn("batch", right=True),
            TextColumn("waiting", right=True),
            TextColumn("checkpoint"),
        ],
        cells=_cells,
        record=_record,
        empty=f"no stream has written into {table.name}",
    )


def _cells(record: StreamRecord) -> list[Cell]:
    return [record.stream, record.batch, len(record.waiting), record.checkpoint]


def _record(record: StreamRecord) -> dict[str, object]:
    return {
        "stream": record.stream,
        "batch": record.batch,
        "checkpoint": record.checkpoint,
        "time_ms": record.time_ms,
        "watermark": record.watermark,
        "waiting": list(record.waiting),
    }


@command(
    "forget",
    notes="""
For a stream that is over. A stream that begins again with its checkpoint reads its source from the
beginning.
""",
    examples="lakewright stream forget shop.orders STREAM",
)
@click.argument("stream", metavar="STREAM")
def _forget(call: Call, *, stream: str) -> Answer:
    """Let the table forget a stream that is over; its rows stay."""
    record = call.table().history.forget_stream(stream)
    return said(
        f"stream {stream} is forgotten; its last batch was {record.batch}",
        stream=stream,
        batch=record.batch,
    )


stream = group(
    "stream",
    "Write rows that arrive, each once, and see the streams of a table.",
    [_run, _list, _forget],
)
