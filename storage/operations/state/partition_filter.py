"""Which partitions a filter keeps."""

from __future__ import annotations

from collections.abc import Iterable

from lakewright.storage.codec.column_stats import stats_bounds
from lakewright.storage.files.table_files import TableFiles
from lakewright.storage.spec.manifest import ManifestEntry, ManifestFileMeta
from lakewright.storage.spec.predicate import Leaf, Operator, Predicate, matches, may_match, only_on


class PartitionPicker:
    """Decides by partition which manifests and entries matter, and remembers what it decided."""

    # With more partitions than this, manifests are not pruned one value at a time.
    _MANY = 64

    def __init__(
        self, files: TableFiles, partitions: Iterable[bytes] | None, predicate: Predicate | None
    ) -> None:
        self._files = files
        self._fields = files.schema.partition_fields
        self._chosen = None if partitions is None else frozenset(partitions)
        self._predicate = only_on(predicate, frozenset(files.schema.partition_keys))
        self._decided: dict[bytes, bool] = {}
        self._values = (
            [files.partition_values(each) for each in self._chosen]
            if self._chosen is not None and len(self._chosen) <= self._MANY
            else None
        )

    def may_hold(self, meta: ManifestFileMeta) -> bool:
        if not self._fields or (self._predicate is None and self._values is None):
            return True
        rows = meta.num_added_files + meta.num_deleted_files
        bounds = stats_bounds(meta.partition_stats, self._fields, rows)
        if self._predicate is not None and not may_match(self._predicate, bounds):
            return False
        if self._values is None:
            return True
        return any(
            all(
                may_match(_equals(field.name, value), bounds)
                for field, value in zip(self._fields, values, strict=True)
            )
            for values in self._values
        )

    def takes(self, entry: ManifestEntry) -> bool:
        decided = self._decided.get(entry.partition)
        if decided is None:
            decided = self._decided[entry.partition] = self._decide(entry.partition)
        return decided

    def _decide(self, partition: bytes) -> bool:
        if self._chosen is not None and partition not in self._chosen:
            return False
        if self._predicate is None:
            return True
        values = self._files.partition_values(partition)
        row = {field.name: value for field, value in zip(self._fields, values, strict=True)}
        return matches(self._predicate, row) is True


def _equals(column: str, value: object) -> Leaf:
    if value is None:
        return Leaf(column, Operator.IS_NULL)
    return Leaf(column, Operator.EQ, (value,))  # type: ignore[arg-type]
