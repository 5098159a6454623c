"""What a commit adds to each partition, for servers that show it to people."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace

from lakewright.storage.files.table_files import TableFiles
from lakewright.storage.files.table_server import PartitionDelta
from lakewright.storage.spec.manifest import FileKind, ManifestEntry
from lakewright.storage.spec.partition import partition_value_text


def partition_deltas(files: TableFiles, entries: Iterable[ManifestEntry]) -> list[PartitionDelta]:
    """The sums of the entries by partition, in the order in which the partitions come."""
    found: dict[tuple[tuple[str, str], ...], PartitionDelta] = {}
    for entry in entries:
        partition = files.partitions.of_entry(entry)
        keys = partition.keys
        texts = (
            partition_value_text(value, field, legacy_name=keys.legacy_name)
            for field, value in zip(keys.fields, partition.values, strict=True)
        )
        spec = tuple(
            (name, keys.default_name if text is None or not text.strip() else text)
            for name, text in zip(keys.names, texts, strict=True)
        )
        sign = 1 if entry.kind is FileKind.ADD else -1
        before = found.get(spec) or PartitionDelta(spec=dict(spec))
        found[spec] = replace(
            before,
            rows=before.rows + sign * entry.file.row_count,
            size_bytes=before.size_bytes + sign * entry.file.file_size,
            files=before.files + sign,
            last_created_ms=max(before.last_created_ms, entry.file.creation_time or 0),
            buckets=entry.total_buckets,
        )
    return list(found.values())
