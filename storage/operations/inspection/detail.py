"""What a table holds, down to its partitions, buckets and files, from metadata alone."""

from __future__ import annotations

import datetime as dt
from collections.abc import Callable, Iterator, Mapping, Sequence

import pyarrow as pa

from lakewright.storage.operations.state.table_stats import PartitionStats
from lakewright.storage.spec.manifest import ManifestEntry
from lakewright.storage.spec.partition import Partition
from lakewright.storage.spec.partition_words import describe_partition

_COLUMNS = pa.schema(
    [
        ("partition", pa.string()),
        ("bucket", pa.int64()),
        ("file", pa.string()),
        ("buckets", pa.int64()),
        ("files", pa.int64()),
        ("small_files", pa.int64()),
        ("rows_in_files", pa.int64()),
        ("bytes", pa.int64()),
        ("last_file", pa.string()),
    ]
)
_Row = tuple[object, ...]


def detail(
    partitions: Sequence[PartitionStats],
    files: Sequence[tuple[Partition, ManifestEntry]],
    name: Callable[[Mapping[str, object]], str] = describe_partition,
) -> pa.Table:
    """A row of each partition, followed by those of its buckets, followed by those of their files.

    A row of a bucket has its number, and one of a file its name; the other columns count. `name`
    makes the text of a partition.
    """
    held: dict[tuple[Partition, int], list[ManifestEntry]] = {}
    for partition, entry in files:
        held.setdefault((partition, entry.bucket), []).append(entry)
    rows = [row for each in partitions for row in _rows(name(each.spec), each, held)]
    columns = zip(*rows, strict=True) if rows else ((),) * len(_COLUMNS)
    arrays = [pa.array(list(each), kind.type) for each, kind in zip(columns, _COLUMNS, strict=True)]
    return pa.table(arrays, schema=_COLUMNS)


def _rows(
    name: str, stats: PartitionStats, held: dict[tuple[Partition, int], list[ManifestEntry]]
) -> Iterator[_Row]:
    yield (
        *(name, None, None, len(stats.buckets), stats.file_count, stats.small_file_count),
        *(stats.row_count, stats.size_bytes, _time(stats.last_file_creation_ms)),
    )
    for bucket in sorted(stats.buckets, key=lambda each: each.bucket):
        yield (
            *(name, bucket.bucket, None, None, bucket.file_count, bucket.small_file_count),
            *(bucket.row_count, bucket.size_bytes, None),
        )
        for entry in held.get((stats.partition, bucket.bucket), ()):
            file = entry.file
            yield (
                *(name, bucket.bucket, file.file_name, None, None, None),
                *(file.row_count, file.file_size, _time(file.creation_time)),
            )


def _time(millis: int | None) -> str | None:
    if not millis:
        return None
    return dt.datetime.fromtimestamp(millis / 1000, dt.UTC).isoformat(" ", "seconds")
