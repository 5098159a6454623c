"""Selects partitions by their rows, by values that a caller names, or by a predicate."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Self

import numpy as np
import pyarrow as pa

from lakewright.storage.codec.binary_row import row_arity
from lakewright.storage.codec.bounds_columns import BoundsColumn, OpenQuestion, may_match_groups
from lakewright.storage.codec.column_stats import stats_bounds
from lakewright.storage.codec.row_columns import SerialisedRows
from lakewright.storage.files.table_files import TableFiles
from lakewright.storage.spec.manifest import ManifestEntry, ManifestFileMeta
from lakewright.storage.spec.partition import Partition, PartitionKeys
from lakewright.storage.spec.predicate import Leaf, Operator, Predicate, matches, may_match, only_on
from lakewright.storage.spec.values import Value

# With more partitions than this, manifests are not pruned by each partition.
_MANY = 64


class PartitionFilter:
    """Selects manifests and entries by partition, and caches the decisions.

    A condition that is not given restricts nothing. `named` are partitions by stored values of
    some or all keys. Only the part of `predicate` on partition keys is applied. An entry of a
    schema with other partition keys is judged by that schema's keys.
    """

    def __init__(
        self,
        files: TableFiles,
        *,
        rows: Iterable[bytes] | None = None,
        named: Sequence[Mapping[str, Value]] | None = None,
        predicate: Predicate | None = None,
    ) -> None:
        self._partitions = files.partitions
        self._rows = None if rows is None else frozenset(rows)
        self._named = named
        self._predicate = predicate
        self._on_keys: dict[tuple[str, ...], Predicate | None] = {}
        self._decided: dict[int, dict[bytes, bool]] = {}
        on_keys = self._predicate_on(files.partitions.keys)
        self._by_values = named is not None or on_keys is not None
        self.takes_all = self._rows is None and not self._by_values
        self._asked = self._few_rows()

    @classmethod
    def of_specs(cls, files: TableFiles, specs: Sequence[Mapping[str, object]] | None) -> Self:
        """Partitions that a caller names by some or all of their keys; None means all partitions.

        Raises:
            InvalidRequestError: a name is not a partition key, or a value does not fit its type.
        """
        named = None if specs is None else [files.partitions.stored(spec) for spec in specs]
        return cls(files, named=named)

    def may_hold(self, meta: ManifestFileMeta) -> bool:
        """Whether a manifest may hold selected entries, by its bounds."""
        if self._asked is None and not self._by_values:
            return True
        keys = self._partitions.keys_of_manifest(meta)
        if not keys.fields:
            return True
        count = meta.num_added_files + meta.num_deleted_files
        bounds = stats_bounds(meta.partition_stats, keys.fields, count, first=True)
        predicate = self._predicate_on(keys)
        if predicate is not None and not may_match(predicate, bounds):
            return False
        if self._asked is None:
            return True
        return any(
            each.keys.names != keys.names
            or all(may_match(_equals(*named), bounds) for named in each.stored.items())
            for each in self._asked
        )

    def takes(self, entry: ManifestEntry) -> bool:
        """Whether an entry belongs to a selected partition."""
        return self.takes_row(entry.partition, entry.file.schema_id)

    def takes_row(self, row: bytes, schema_id: int) -> bool:
        """Whether a partition row, read with the keys of a schema, is selected."""
        if self._rows is not None and row not in self._rows:
            return False
        if not self._by_values:
            return True
        decided = self._decided.setdefault(schema_id, {})
        taken = decided.get(row)
        if taken is None:
            taken = decided[row] = self._takes_values(self._partitions.of_row(row, schema_id))
        return taken

    def takes_rows(self, rows: pa.LargeBinaryArray, schema_id: int) -> np.ndarray:
        """Which of many partition rows, read with the keys of a schema, are selected."""
        taken = np.ones(len(rows), bool)
        if self._by_values and len(rows) > _MANY:
            taken = self._may_take_rows(rows, schema_id)
        chosen = np.flatnonzero(taken)
        few = rows.take(pa.array(chosen)).to_pylist()
        taken[chosen] = [self.takes_row(row, schema_id) for row in few]
        return taken

    def _may_take_rows(self, rows: pa.LargeBinaryArray, schema_id: int) -> np.ndarray:
        """Which rows the predicate may select, without decoding each of them."""
        keys = self._partitions.keys_of_row(rows[0].as_py(), schema_id)
        predicate = self._predicate_on(keys)
        if predicate is None or not keys.fields:
            return np.ones(len(rows), bool)
        serialised = SerialisedRows.of_array(rows, keys.types)
        one = np.ones(len(rows), np.int64)

        def bounds(name: str) -> BoundsColumn:
            may_take = serialised.column(keys.names.index(name))
            if may_take is None:
                raise OpenQuestion
            return BoundsColumn((~may_take.valid).astype(np.int64), one, may_take, may_take)

        may = may_match_groups(predicate, bounds, len(rows)).may
        may_take: np.ndarray = may | ~serialised.whole
        return may_take

    def _takes_values(self, partition: Partition) -> bool:
        if self._named is not None and not any(map(partition.is_named, self._named)):
            return False
        predicate = self._predicate_on(partition.keys)
        return predicate is None or matches(predicate, partition.stored) is True

    def _predicate_on(self, keys: PartitionKeys) -> Predicate | None:
        """The part of the predicate that uses only these partition keys."""
        if keys.names not in self._on_keys:
            self._on_keys[keys.names] = only_on(self._predicate, frozenset(keys.names))
        return self._on_keys[keys.names]

    def _few_rows(self) -> list[Partition] | None:
        """The partitions of the rows, for pruning manifests; None if there are too many."""
        if self._rows is None or len(self._rows) > _MANY:
            return None
        keys = self._partitions.keys
        if any(row_arity(row) != len(keys.fields) for row in self._rows):
            # Some rows are of an older schema, and a row does not name its schema.
            return None
        return [self._partitions.of_row(row) for row in self._rows]


def _equals(column: str, value: Value) -> Leaf:
    if value is None:
        return Leaf(column, Operator.IS_NULL)
    return Leaf(column, Operator.EQ, (value,))
