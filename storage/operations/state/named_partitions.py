"""Partitions by the values that somebody names: which of those there are is meant."""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from lakewright.storage.files.table_files import TableFiles
from lakewright.storage.spec.values import Value, same_value


def is_named(files: TableFiles, partition: bytes, specs: Iterable[Mapping[str, Value]]) -> bool:
    """Whether one of some specs, each of all partition columns or of a few, means a partition."""
    values = dict(zip(files.schema.partition_keys, files.partition_values(partition), strict=True))
    return any(
        all(same_value(values[name], value) for name, value in spec.items()) for spec in specs
    )
