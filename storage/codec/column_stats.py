"""Column statistics of data files, as manifests hold them.

Modes (Paimon option `metadata.stats-mode`): none, counts, truncate(n), full.
Truncated bounds stay true bounds: an upper one is rounded up.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

import pyarrow as pa
import pyarrow.compute as pc

from lakewright.storage.codec.arrow_values import value_of
from lakewright.storage.codec.binary_row import decode_row, encode_row, row_arity
from lakewright.storage.spec.data_types import AtomicType, DataField, DataType, TypeRoot, is_opaque
from lakewright.storage.spec.manifest import DataFileMeta, SimpleStats
from lakewright.storage.spec.predicate import Bounds
from lakewright.storage.spec.row_tracking import TRACKING_FIELDS
from lakewright.storage.spec.schema import TableSchema
from lakewright.storage.spec.values import Value, order_key

FULL = "full"
_NONE = "none"


@dataclass
class ColumnStats:
    """Bounds and null count of one column, widened batch by batch."""

    type: DataType
    minimum: Value = None
    maximum: Value = None
    null_count: int = 0
    bounded: bool = True

    def add(self, column: pa.ChunkedArray) -> None:
        self.null_count += column.null_count
        if not self.bounded:
            return
        if not _has_bounds(self.type) or _holds_nan(column):
            self.bounded = False
            return
        bounds = pc.min_max(column)
        low, high = value_of(bounds["min"], self.type), value_of(bounds["max"], self.type)
        if low is None or high is None:
            return
        self._widen(low, high)

    def add_bounds(self, known: Bounds) -> None:
        """Add rows that have these bounds and a known number of nulls."""
        self.null_count += known.null_count or 0
        if known.null_count == known.row_count:
            return
        if known.minimum is None or known.maximum is None:
            self.bounded = False
            return
        self._widen(known.minimum, known.maximum)

    def _widen(self, low: Value, high: Value) -> None:
        if self.minimum is None or order_key(low) < order_key(self.minimum):
            self.minimum = low
        if self.maximum is None or order_key(high) > order_key(self.maximum):
            self.maximum = high

    def bounds(self, mode: str) -> tuple[Value, Value]:
        """The bounds that a mode stores, (None, None) for none."""
        if not self.bounded or mode == "counts" or self.minimum is None:
            return None, None
        if isinstance(self.minimum, float):
            return _with_both_zeros(self.minimum, self.maximum)
        width = re.fullmatch(r"truncate\((\d+)\)", mode)
        if width is None or not isinstance(self.minimum, str):
            return self.minimum, self.maximum
        assert isinstance(self.maximum, str)
        upper = truncated_upper(self.maximum, int(width.group(1)))
        return (None, None) if upper is None else (self.minimum[: int(width.group(1))], upper)


def _with_both_zeros(low: float, high: Value) -> tuple[Value, Value]:
    """Widen bounds at zero to cover 0.0 and -0.0: SQL takes them for equal, Java does not.

    Arrow's minimum and maximum return either of them.
    """
    return -0.0 if low == 0 else low, 0.0 if high == 0 else high


def truncated_upper(text: str, width: int) -> str | None:
    """The least text of at most `width` characters that is not below `text`, None without one."""
    if len(text) <= width:
        return text
    for index in range(width - 1, -1, -1):
        following = ord(text[index]) + 1
        if following == 0xD800:
            # Surrogates are no characters of their own.
            following = 0xE000
        if following <= 0x10FFFF:
            return text[:index] + chr(following)
    return None


def _has_bounds(data_type: DataType) -> bool:
    return isinstance(data_type, AtomicType) and not data_type.root.is_bytes


def _always_has_bounds(data_type: DataType) -> bool:
    """Whether values always have bounds, unless their files were written without."""
    return isinstance(data_type, AtomicType) and data_type.root not in _UNBOUNDED


def _holds_nan(column: pa.ChunkedArray) -> bool:
    return pa.types.is_floating(column.type) and bool(pc.any(pc.is_nan(column)).as_py())


class StatsCollector:
    """Statistics of the columns of one data file, gathered as its batches are written."""

    def __init__(
        self, fields: Sequence[DataField], *, mode: str, column_modes: Mapping[str, str]
    ) -> None:
        self._modes = {
            field.name: _NONE if is_opaque(field.type) else column_modes.get(field.name, mode)
            for field in fields
        }
        self._all = len(fields)
        self._columns = {
            field.name: ColumnStats(field.type)
            for field in fields
            if self._modes[field.name] != _NONE
        }

    def add(self, rows: pa.Table) -> None:
        for name, stats in self._columns.items():
            stats.add(rows.column(name))

    def add_bounds(self, bounds: Mapping[str, Bounds]) -> bool:
        """Add the rows of a file by its bounds; False if they lack a column, or say too little."""
        for name, stats in self._columns.items():
            known = bounds.get(name)
            if known is None or known.row_count is None:
                return False
            # Java writes -1 where it does not know the number.
            if known.null_count is None or known.null_count < 0:
                return False
            stats.add_bounds(known)
            if not stats.bounded and _always_has_bounds(stats.type):
                return False
        return True

    def result(self) -> tuple[SimpleStats, tuple[str, ...] | None]:
        """The statistics, and the columns they cover (None: all)."""
        types = [stats.type for stats in self._columns.values()]
        bounds = [stats.bounds(self._modes[name]) for name, stats in self._columns.items()]
        stats = SimpleStats(
            encode_row([low for low, _ in bounds], types),
            encode_row([high for _, high in bounds], types),
            tuple(column.null_count for column in self._columns.values()),
        )
        return stats, None if len(types) == self._all else tuple(self._columns)


def joined_stats(
    metas: Sequence[DataFileMeta],
    schema: TableSchema,
    *,
    mode: str,
    column_modes: Mapping[str, str],
) -> tuple[SimpleStats, tuple[str, ...] | None] | None:
    """The statistics of a file with the rows of several, which are all of one schema.

    None if those of a file lack a column that the modes ask for, or if nulls are where none may be.
    """
    collector = StatsCollector(schema.fields, mode=mode, column_modes=column_modes)
    required = [
        field.name
        for field in schema.fields
        if not field.type.nullable and not is_opaque(field.type)
    ]
    for meta in metas:
        bounds = file_bounds(meta, schema)
        has_nulls = (bounds[name].null_count != 0 for name in required if name in bounds)
        if not collector.add_bounds(bounds) or any(has_nulls):
            return None
    return collector.result()


def covered_fields(file: DataFileMeta, schema: TableSchema) -> Sequence[DataField]:
    """The fields that a file's statistics are of, none if its schema does not have them all."""
    covered: Sequence[str]
    if file.value_stats_cols is not None:
        covered = file.value_stats_cols
    else:
        covered = file.write_cols if file.write_cols is not None else schema.field_names
    known = {field.name: field for field in (*TRACKING_FIELDS, *schema.fields)}
    fields = tuple(known[name] for name in covered if name in known)
    return fields if len(fields) == len(covered) else ()


def file_bounds(file: DataFileMeta, schema: TableSchema) -> dict[str, Bounds]:
    """Bounds of a file's columns from its statistics, by the column names in the file's schema."""
    fields = covered_fields(file, schema)
    if not fields:
        return {}
    if file.value_stats_cols is None and row_arity(file.value_stats.min_values) != len(fields):
        # Java 0.9 rewrites manifests without the names of the columns that statistics cover.
        return {}
    return stats_bounds(file.value_stats, fields, file.row_count)


def stats_bounds(
    stats: SimpleStats, fields: Sequence[DataField], row_count: int | None, *, first: bool = False
) -> dict[str, Bounds]:
    """Bounds by column name; with `first` the fields may be the first of those in the rows."""
    types = [field.type for field in fields]
    low = decode_row(stats.min_values, types, first=first)
    high = decode_row(stats.max_values, types, first=first)
    counts = stats.null_counts or (None,) * len(fields)
    return {
        field.name: Bounds(low[index], high[index], counts[index], row_count)
        for index, field in enumerate(fields)
    }


def partition_stats(
    partitions: Iterable[bytes] | Mapping[bytes, int], fields: Sequence[DataField]
) -> SimpleStats:
    """True bounds over the partitions of a manifest's entries: each, or how many each has."""
    types = [field.type for field in fields]
    counted = Counter(partitions)
    rows = [decode_row(partition, types) for partition in counted]
    low: list[Value] = []
    high: list[Value] = []
    for index, field in enumerate(fields):
        known = [row[index] for row in rows if row[index] is not None]
        # Readers compare bounds of NaN and of bytes differently, so there are none.
        usable = known and not (
            isinstance(field.type, AtomicType) and field.type.root in _UNBOUNDED
        )
        low.append(min(known, key=order_key) if usable else None)
        high.append(max(known, key=order_key) if usable else None)
    counts = tuple(
        sum(count for row, count in zip(rows, counted.values(), strict=True) if row[index] is None)
        for index in range(len(fields))
    )
    return SimpleStats(encode_row(low, types), encode_row(high, types), counts)


_UNBOUNDED = {TypeRoot.FLOAT, TypeRoot.DOUBLE, TypeRoot.BINARY, TypeRoot.VARBINARY}
