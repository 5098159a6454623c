"""Decides by bucket, keys and statistics which data files may hold rows that match a filter.

All files are judged at once, on columns of manifests. What columns cannot decide is decided file by
file, and only there data files become objects.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Sequence
from functools import cached_property

import numpy as np
import pyarrow as pa

from lakewright.storage.codec.arrow_types import to_arrow_schema
from lakewright.storage.codec.arrow_values import array_of
from lakewright.storage.codec.binary_row import decode_row
from lakewright.storage.codec.bounds_columns import (
    BoundsColumn,
    FindBounds,
    OpenQuestion,
    may_match_groups,
)
from lakewright.storage.codec.bucket_hash import buckets_of
from lakewright.storage.codec.char_blanks import is_char
from lakewright.storage.codec.column_stats import covered_fields
from lakewright.storage.codec.manifest_columns import EntryColumns
from lakewright.storage.codec.row_columns import SerialisedRows
from lakewright.storage.files.data_files import format_of_path
from lakewright.storage.files.table_files import TableFiles
from lakewright.storage.operations.read.blank_keys import first_key_read, hashed_with_blanks
from lakewright.storage.operations.state.file_schemas import FileSchemas
from lakewright.storage.operations.state.live_columns import LiveColumns
from lakewright.storage.spec.data_types import DataField
from lakewright.storage.spec.file_format import ORC
from lakewright.storage.spec.manifest import DataFileMeta
from lakewright.storage.spec.options import BucketMode
from lakewright.storage.spec.predicate import (
    Bounds,
    Leaf,
    Operator,
    Predicate,
    conjuncts,
    may_match,
    only_on,
)
from lakewright.storage.spec.schema_mapping import CastValues, SameValues
from lakewright.storage.spec.values import Value

_KEY_STATS = "_FILE._KEY_STATS"
_VALUE_STATS = "_FILE._VALUE_STATS"


class FilePruner:
    """Judges the live files of a snapshot by one filter."""

    def __init__(self, files: TableFiles, live: LiveColumns, predicate: Predicate | None) -> None:
        self._files = files
        self._live = live
        self._predicate = predicate
        self._on_keys = only_on(predicate, frozenset(files.schema.key_names))
        if files.options.pk_clustering_override:
            # Keys of files are of the columns by which their rows are sorted.
            self._on_keys = None
        self._schemas = FileSchemas(files)
        self._bucket_fields = files.schema.fields_of(files.options.bucket_keys)

    def takes_buckets(
        self, buckets: np.ndarray, total_buckets: np.ndarray, rows_of: Callable[[int], np.ndarray]
    ) -> np.ndarray:
        """Which buckets may hold matching rows; `rows_of` names the files of one of them."""
        taken = np.ones(len(buckets), bool)
        if self._predicate is None:
            return taken
        for total in np.unique(total_buckets).tolist():
            asked = self._buckets_asked_for(total) if total > 0 else None
            if asked is not None:
                taken &= (total_buckets != total) | np.isin(buckets, list(asked))
        if any(is_char(field.type) for field in self._bucket_fields):
            for place in np.flatnonzero(~taken).tolist():
                entries = [self._live.entry(row) for row in rows_of(place).tolist()]
                taken[place] = hashed_with_blanks(entries, self._bucket_fields)
        return taken

    def takes_keys(self, rows: np.ndarray) -> np.ndarray:
        """Which files may hold keys that match."""
        taken = np.ones(len(rows), bool)
        if self._on_keys is None:
            return taken
        fields = self._files.schema.key_fields
        for part, inner, there in self._live.by_part(rows):
            bounds = _KeyBounds(part, inner, fields)
            taken[there] = self._decided(
                self._on_keys, bounds.of, bounds.whole, rows[there], self._takes_keys
            )
        return taken

    def takes_values(self, rows: np.ndarray) -> np.ndarray:
        """Which files may hold rows that match, each taken for itself."""
        taken = np.ones(len(rows), bool)
        if self._predicate is None:
            return taken
        for part, inner, there in self._live.by_part(rows):
            for chosen in _alike(part, inner):
                bounds = _ValueBounds(part, inner[chosen], self._schemas)
                indexes = there[chosen]
                taken[indexes] = self._decided(
                    self._predicate, bounds.of, bounds.whole, rows[indexes], self._takes_values
                )
        return taken

    def _decided(
        self,
        predicate: Predicate,
        bounds: FindBounds,
        whole: Callable[[], np.ndarray],
        rows: np.ndarray,
        takes: Callable[[DataFileMeta], bool],
    ) -> np.ndarray:
        verdict = may_match_groups(predicate, bounds, len(rows))
        damaged = ~whole()
        taken: np.ndarray = verdict.may | damaged
        open_rows = np.flatnonzero(taken if not verdict.exact else damaged)
        for index in open_rows.tolist():
            taken[index] = takes(self._live.file(int(rows[index])))
        return taken

    def _takes_keys(self, file: DataFileMeta) -> bool:
        assert self._on_keys is not None
        fields = self._files.schema.key_fields
        types = [field.type for field in fields]
        low, high = decode_row(file.min_key, types), decode_row(file.max_key, types)
        low = first_key_read(file, low, fields)
        bounds: dict[str, Bounds] = {}
        if file.key_stats.null_counts:
            bounds = self._schemas.key_bounds_of(file)
        # A key range bounds only the first key column by itself.
        if low[0] is not None:
            bounds[fields[0].name] = Bounds(low[0], high[0], 0, file.row_count)
        return may_match(self._on_keys, bounds)

    def _takes_values(self, file: DataFileMeta) -> bool:
        assert self._predicate is not None
        known = self._schemas.bounds_of(file)
        bounds = self._schemas.mapping_of(file).bounds(known, file.row_count)
        return may_match(self._predicate, bounds)

    def _buckets_asked_for(self, total_buckets: int) -> frozenset[int] | None:
        """The buckets of the keys that the filter names by equality; None means all buckets."""
        options = self._files.options
        if options.bucket_mode not in (BucketMode.FIXED, BucketMode.POSTPONE):
            return None
        fields = self._bucket_fields
        literals: list[tuple[Value, ...]] = []
        for field in fields:
            for part in conjuncts(self._predicate):
                if (
                    isinstance(part, Leaf)
                    and part.column == field.name
                    and part.operator in (Operator.EQ, Operator.IN)
                    and None not in part.literals
                ):
                    asked = _all_bits(part.literals)
                    if asked is None:
                        return None
                    literals.append(asked)
                    break
            else:
                return None
        if len(fields) > 1 and any(len(values) > 1 for values in literals):
            return None
        arrays = [
            array_of(values, field.type) for field, values in zip(fields, literals, strict=True)
        ]
        rows = pa.table(arrays, schema=to_arrow_schema(fields))
        buckets = buckets_of(rows, fields, total_buckets, options.bucket_function)
        return frozenset(buckets.tolist())


def _alike(part: EntryColumns, rows: np.ndarray) -> Iterator[np.ndarray]:
    """Indexes of files with equal schemas, equal columns and one treatment of blanks."""
    keys = np.stack(
        [part.numbers("_FILE._SCHEMA_ID", rows), part.layouts(rows), _are_orc(part, rows)]
    )
    if (keys == keys[:, :1]).all():
        yield np.arange(len(rows))
        return
    kinds, of_kind = np.unique(keys, axis=1, return_inverse=True)
    for kind in range(kinds.shape[1]):
        yield np.flatnonzero(of_kind.reshape(-1) == kind)


class _StoredBounds:
    """The bounds that one kind of statistics of some files holds."""

    def __init__(
        self, part: EntryColumns, rows: np.ndarray, kind: str, fields: Sequence[DataField]
    ) -> None:
        self._part, self._rows, self._kind = part, rows, kind
        self._types = tuple(field.type for field in fields)

    @cached_property
    def row_counts(self) -> np.ndarray:
        return self._part.numbers("_FILE._ROW_COUNT", self._rows)

    @cached_property
    def low(self) -> SerialisedRows:
        return self._rows_of("_MIN_VALUES")

    @cached_property
    def high(self) -> SerialisedRows:
        return self._rows_of("_MAX_VALUES")

    def null_counts(self, index: int) -> np.ndarray:
        return self._part.null_counts(f"{self._kind}._NULL_COUNTS", index, self._rows)

    def column(self, index: int) -> BoundsColumn:
        low, high = self.low.column(index), self.high.column(index)
        if low is None or high is None:
            raise OpenQuestion
        return BoundsColumn(self.null_counts(index), self.row_counts, low, high)

    def _rows_of(self, side: str) -> SerialisedRows:
        return SerialisedRows(*self._part.spans(f"{self._kind}.{side}", self._rows), self._types)


class _ValueBounds:
    """The bounds of the columns that are read, of files with equal schemas and columns."""

    def __init__(self, part: EntryColumns, rows: np.ndarray, schemas: FileSchemas) -> None:
        first = part.entry(int(rows[0])).file
        self._columns = {
            column.field.name: column for column in schemas.mapping_of(first).columns.values()
        }
        self._fields = covered_fields(first, schemas.schema_of(first))
        self._names = [field.name for field in self._fields]
        self._keeps_blanks = format_of_path(first.file_name) != ORC
        self._stored = _StoredBounds(part, rows, _VALUE_STATS, self._fields)

    def whole(self) -> np.ndarray:
        if not self._fields:
            return np.ones(len(self._stored.row_counts), bool)
        whole: np.ndarray = self._stored.low.whole & self._stored.high.whole
        return whole

    def of(self, name: str) -> BoundsColumn | None:
        column = self._columns[name]
        if column.stored is None:
            # The files predate the column, so all their rows hold null there.
            return BoundsColumn(self._stored.row_counts, self._stored.row_counts)
        if column.stored.name not in self._names or isinstance(column.values, CastValues):
            return None
        index = self._names.index(column.stored.name)
        if not isinstance(column.values, SameValues):
            return BoundsColumn(self._stored.null_counts(index), self._stored.row_counts)
        if is_char(self._fields[index].type) and not self._keeps_blanks:
            raise OpenQuestion
        return self._stored.column(index)


class _KeyBounds:
    """The bounds of the primary key of files: of its first column by their range of keys."""

    def __init__(self, part: EntryColumns, rows: np.ndarray, fields: Sequence[DataField]) -> None:
        self._names = [field.name for field in fields]
        types = tuple(field.type for field in fields)
        self._low = SerialisedRows(*part.spans("_FILE._MIN_KEY", rows), types)
        self._high = SerialisedRows(*part.spans("_FILE._MAX_KEY", rows), types)
        self._stored = _StoredBounds(part, rows, _KEY_STATS, fields)
        self._has_blanks = any(is_char(field.type) for field in fields) and bool(
            _are_orc(part, rows).any()
        )

    def whole(self) -> np.ndarray:
        whole: np.ndarray = self._low.whole & self._high.whole
        return whole

    def of(self, name: str) -> BoundsColumn | None:
        index = self._names.index(name)
        if self._has_blanks:
            raise OpenQuestion
        if index == 0:
            low, high = self._low.column(0), self._high.column(0)
            if low is None or high is None or not (low.valid & high.valid).all():
                raise OpenQuestion
            none = np.zeros(len(low.valid), np.int64)
            return BoundsColumn(none, self._stored.row_counts, low, high)
        if (self._stored.null_counts(index) < 0).any():
            # Statistics without null counts are not used.
            raise OpenQuestion
        if not (self._stored.low.whole & self._stored.high.whole).all():
            raise OpenQuestion
        return self._stored.column(index)


def _are_orc(part: EntryColumns, rows: np.ndarray) -> np.ndarray:
    """Whether files are ORC files.

    Raises:
        UnsupportedError: a file is of a format that is not implemented.
    """
    found = np.zeros(len(rows), bool)
    others = np.flatnonzero(~part.are_parquet(rows))
    names = part.texts("_FILE._FILE_NAME", rows[others]).to_pylist()
    found[others] = [format_of_path(name.decode()) == ORC for name in names]
    return found


def _all_bits(literals: Sequence[Value]) -> tuple[Value, ...] | None:
    """The literals, with both zeros where one is given: they are equal but hash differently.

    None if a literal is NaN, which has too many bit patterns to list.
    """
    floats = [value for value in literals if isinstance(value, float)]
    if any(map(math.isnan, floats)):
        return None
    return (*literals, *(-value for value in floats if value == 0))
