"""Bridges a primary-key table from one list of partition keys to another.

The rows lie in new files, sorted and in buckets by the new keys. Schema and snapshot are two files,
so for a moment readers know the new schema and the old snapshot. In that moment the entries of the
new files must be right under both schemas. They are, if

* each file holds one value of the old and of the new keys, and its partition row has the longer
  list of both, with one more value, which tells such rows from others;
* the entry names the place of its file (`_EXTERNAL_PATH`);
* all entries lie in bucket 0 of 1, which no filter on keys rules out;
* all entries have the deepest level, so readers merge no rows, and decode no keys;
* bounds of keys are rows of nulls, longer than both lists of keys: unknown to every reader;
* the schema of the entries has the partition keys that both lists begin with, so its files have all
  keys of both.

A table with dynamic buckets has, in that moment, the hash indexes of both layouts: their rows have
different numbers of values, and a writer looks up those of its own keys.

Source: Paimon `MergeTreeSplitGenerator`, `KeyValueFileStoreScan`, `BucketSelector`; pypaimon
`primary_key_table_split_generator`, `bucket_select_converter`.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

from lakewright.storage.codec.binary_row import encode_row
from lakewright.storage.files.external_files import external_uri
from lakewright.storage.files.table_files import TableFiles
from lakewright.storage.spec.data_types import AtomicType, TypeRoot
from lakewright.storage.spec.manifest import ManifestEntry, SimpleStats
from lakewright.storage.spec.partition import PartitionKeys
from lakewright.storage.spec.values import Value


@dataclass(frozen=True, slots=True, kw_only=True)
class Staged:
    """A new file: its entry under the new keys, and the row of its partition under the old keys."""

    entry: ManifestEntry
    old_row: bytes


def bridged_entries(
    files: TableFiles, now: TableFiles, staged: Sequence[Staged], schema_id: int
) -> tuple[PartitionKeys, tuple[ManifestEntry, ...]]:
    """The entries of new files that are right under the old keys and the new, with their keys.

    `files` is the table under the old keys, `now` under the new. The entries name the schema with
    this id, whose keys both lists begin with.
    """
    old, new = files.partitions.keys, now.partitions.keys
    longer = old if len(old.fields) >= len(new.fields) else new
    # One value more than either list has.
    more = (longer.fields or files.schema.key_fields)[0]
    row_keys = replace(old, fields=(*longer.fields, more))
    bounds = _unknown(1 + max(len(files.schema.key_fields), len(now.schema.key_fields)))
    found: list[tuple[tuple[Value, ...], ManifestEntry]] = []
    for each in staged:
        entry = each.entry
        if longer is old:
            values = files.partitions.of_row(each.old_row).values
        else:
            values = now.partitions.of_row(entry.partition).values
        file = replace(
            entry.file,
            external_path=external_uri(files.fs, now.data_file_path(entry.place, entry.file)),
            schema_id=schema_id,
            level=files.options.max_level,
            min_key=bounds.min_values,
            max_key=bounds.max_values,
            key_stats=bounds,
        )
        row = encode_row((*values, None), row_keys.types)
        bridged = replace(entry, partition=row, bucket=0, total_buckets=1, file=file)
        found.append((values, bridged))
    found.sort(key=lambda each: each[1].partition)
    return row_keys, tuple(entry for _, entry in found)


def _unknown(count: int) -> SimpleStats:
    """Bounds of so many columns without statistics."""
    row = encode_row((None,) * count, (AtomicType(TypeRoot.INT),) * count)
    return SimpleStats(row, row, (None,) * count)
