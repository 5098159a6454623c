"""`lakewright files`: the data files of a state, or those that a read with a filter opens."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

from lakewright.cli.grammar.call import Call, filter_of
from lakewright.cli.grammar.command import command
from lakewright.cli.grammar.options import snapshot_option, where_option
from lakewright.cli.output.answers import Answer, listed
from lakewright.cli.output.partitions import partition_cells, partition_columns, plain_spec
from lakewright.cli.output.tables import TextColumn
from lakewright.cli.output.text import Cell, iso_time, time_text
from lakewright.platform.upkeep.where_notes import WHERE_NOTES
from lakewright.platform.upkeep.words import size_text

if TYPE_CHECKING:
    from lakewright.storage.files.table_files import TableFiles
    from lakewright.storage.spec.manifest import DataFileMeta
    from lakewright.storage.table_at import TableAt

    # Partition, bucket, file.
    _File = tuple[bytes, int, DataFileMeta]


@command(
    "files",
    notes="With --where: the files that a read with this filter opens.\n" + WHERE_NOTES,
    examples="""
lakewright files nyc.flights --where "dt = '2013-01-31' AND distance > 2000"
lakewright files nyc.flights --snapshot 12 --format csv
""",
)
@where_option
@snapshot_option
def files(call: Call, *, where: str | None, snapshot: int | None) -> Answer:
    """List a table's data files."""
    table = call.table()
    # A state of the past has the partition keys of its time.
    state = table.at(snapshot=snapshot)
    at = state.table_files
    found = sorted(_files(state, where), key=lambda file: _place(at, *file))
    return listed(
        found,
        [
            *partition_columns(state.schema),
            TextColumn("bucket", right=True),
            TextColumn("level", right=True),
            TextColumn("rows", right=True),
            TextColumn("size", right=True),
            TextColumn("created (UTC)"),
            TextColumn("file"),
        ],
        cells=lambda file: _cells(at, *file),
        record=lambda file: _record(at, *file),
        empty="no data files",
    )


def _files(state: TableAt, where: str | None) -> Iterator[_File]:
    wanted = filter_of(where, state.schema)
    if wanted is None:
        for entry in state.files():
            yield entry.partition, entry.bucket, entry.file
        return
    for split in state.scan(wanted).plan.splits:
        for file in split.files:
            yield split.partition, split.bucket, file


def _place(
    files: TableFiles, partition: bytes, bucket: int, file: DataFileMeta
) -> tuple[object, ...]:
    values = files.partitions.of_row(partition).values
    ordered = tuple((value is not None, value) for value in values)
    age = (file.min_sequence_number, file.creation_time or 0)
    return ordered, bucket, file.level, *age, file.file_name


def _cells(files: TableFiles, partition: bytes, bucket: int, file: DataFileMeta) -> list[Cell]:
    return [
        *partition_cells(files.partitions.of_row(partition).spec),
        str(bucket),
        str(file.level),
        file.row_count,
        size_text(file.file_size),
        "-" if file.creation_time is None else time_text(file.creation_time),
        file.file_name,
    ]


def _record(
    files: TableFiles, partition: bytes, bucket: int, file: DataFileMeta
) -> dict[str, object]:
    from lakewright.storage.spec.partition import Place

    path = files.readable_path(Place(partition, bucket), file)
    return {
        "partition": plain_spec(files.partitions.of_row(partition).spec),
        "bucket": bucket,
        "path": path.removeprefix(files.paths.root + "/"),
        "uri": files.fs.uri(path),
        "file_name": file.file_name,
        "size_bytes": file.file_size,
        "row_count": file.row_count,
        "delete_row_count": file.delete_row_count,
        "level": file.level,
        "schema_id": file.schema_id,
        "min_sequence_number": file.min_sequence_number,
        "max_sequence_number": file.max_sequence_number,
        "source": None if file.file_source is None else file.file_source.name,
        "created": None if file.creation_time is None else iso_time(file.creation_time),
    }
