"""Analyze: statistics of the merged rows, for query planners.

1. Plan from metadata: the snapshot, the columns, and the amount to read.
2. Read the merged rows of that snapshot in tasks of an engine. Collect per column the nulls,
   bounds, lengths and distinct values, in bounded memory.
3. Join the parts, write the statistics file.
4. Commit it as ANALYZE, a snapshot that changes no data. It is valid until the next analysis or a
   change of the schema. If the commit fails, delete the file.

Source: Paimon `Statistics`; lengths are counted as in Spark's ANALYZE TABLE.
"""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import suppress
from dataclasses import dataclass
from functools import partial

import pyarrow as pa
import pyarrow.compute as pc

from lakewright.storage.codec.column_stats import ColumnStats
from lakewright.storage.codec.distinct_count import DistinctCount
from lakewright.storage.codec.statistics_json import encode_bound
from lakewright.storage.errors import (
    CommitOutcomeUnknownError,
    InvalidRequestError,
    StalePlan,
    StorageError,
)
from lakewright.storage.files.statistics_store import StatisticsStore
from lakewright.storage.files.table_files import TableFiles
from lakewright.storage.operations.commit.commit import commit_statistics
from lakewright.storage.operations.read.read import SplitReader
from lakewright.storage.operations.read.scan import DataSplit, plan_scan
from lakewright.storage.operations.running.delete_files import discard_files
from lakewright.storage.operations.running.engine import Engine
from lakewright.storage.operations.running.plan import Plan
from lakewright.storage.operations.running.verb_options import names, option
from lakewright.storage.operations.state.latest import is_latest, planned_snapshot
from lakewright.storage.spec.arguments import list_or_none, text_argument
from lakewright.storage.spec.data_types import AtomicType, DataField, TypeRoot
from lakewright.storage.spec.shown import Shown
from lakewright.storage.spec.snapshot import CommitKind, Snapshot
from lakewright.storage.spec.supported_options import Use, check_supported
from lakewright.storage.spec.table_statistics import ColumnStatistics, TableStatistics
from lakewright.storage.spec.values import Value, order_key

# The task limit: each task returns a sketch of every column.
_TASKS = 64
# Longer texts are not stored as bounds.
_BOUND_CHARACTERS = 256
_FIXED_LENGTHS = {
    TypeRoot.BOOLEAN: 1,
    TypeRoot.TINYINT: 1,
    TypeRoot.SMALLINT: 2,
    TypeRoot.INT: 4,
    TypeRoot.BIGINT: 8,
    TypeRoot.FLOAT: 4,
    TypeRoot.DOUBLE: 8,
    TypeRoot.DATE: 4,
    TypeRoot.TIME: 4,
    TypeRoot.TIMESTAMP: 8,
    TypeRoot.TIMESTAMP_LTZ: 8,
}


@dataclass(frozen=True, slots=True, kw_only=True)
class AnalyzePlan(Plan["AnalyzeResult"]):
    """What an analysis would read; `rows` counts rows in files, before merging.

    If the latest snapshot `has_statistics` of these columns, a run does nothing.
    """

    table: str
    snapshot_id: int | None
    schema_id: int
    columns: tuple[str, ...]
    files: int
    bytes: int
    rows: int
    reason: str
    has_statistics: bool = False

    @property
    def work_bytes(self) -> int | None:
        return self.bytes


@dataclass(frozen=True, slots=True, kw_only=True)
class AnalyzeResult(Shown):
    """The result of an analysis; `exact_columns` have an exact count of distinct values.

    Other columns have more than 16,384 distinct values; their count is an estimate (0.8 % standard
    error).
    """

    snapshot: Snapshot | None
    statistics: TableStatistics | None
    exact_columns: tuple[str, ...]
    duration_ms: int


@dataclass(frozen=True)
class AnalyzeOptions:
    """What is described."""

    columns: Sequence[str] | None = option(
        names(may_be_none=True),
        None,
        "The columns to describe. Without any, all; an empty list only counts rows.",
    )


def plan_analyze(files: TableFiles, options: AnalyzeOptions) -> AnalyzePlan:
    """Plan the reads: by default all columns that are decoded, no column for `()`.

    Raises:
        InvalidRequestError: a named column does not exist, or is named twice.
        UnsupportedError: the table has an option that is not implemented.
    """
    columns = list_or_none(options.columns, "columns", text_argument)
    for use in (Use.READ, Use.TAG):
        check_supported(files.schema, use, table=files.name)
    all_known = [field.name for field in files.schema.known_fields]
    names = files.schema.names_of(all_known if columns is None else columns)
    _check_columns(files, names)
    snapshot = files.snapshots.latest()
    splits = plan_scan(files, snapshot).splits
    metas = [file for split in splits for file in split.files]
    known = read_statistics(files, snapshot)
    is_known = _describes(known, snapshot, files, names)
    if snapshot is None:
        reason = "the table has no snapshot, so there is nothing to analyze"
    elif known is None:
        reason = f"snapshot {snapshot.id} has no statistics"
    else:
        reason = f"the statistics are those of snapshot {known.snapshot_id}"
    return AnalyzePlan(
        table=files.name,
        snapshot_id=None if snapshot is None else snapshot.id,
        schema_id=files.schema.id,
        columns=names,
        files=len(metas),
        bytes=sum(file.file_size for file in metas),
        rows=sum(file.row_count for file in metas),
        reason=f"{reason}, which no commit followed" if is_known else reason,
        has_statistics=is_known,
    )


def _describes(
    known: TableStatistics | None,
    snapshot: Snapshot | None,
    files: TableFiles,
    columns: Sequence[str],
) -> bool:
    """Whether these statistics are of the rows of a snapshot, and of these columns."""
    if known is None or snapshot is None or snapshot.commit_kind is not CommitKind.ANALYZE:
        return False
    is_next = snapshot.id == known.snapshot_id + 1
    described = {column.name for column in known.columns}
    return is_next and known.schema_id == files.schema.id and described == set(columns)


def _check_columns(files: TableFiles, names: Sequence[str]) -> None:
    for name in names:
        files.schema.field(name)
    if len(set(names)) != len(names):
        raise InvalidRequestError(
            f"columns {', '.join(names)} of {files.name} are to be analyzed, and one is named "
            "twice; name each once"
        )


def run_analyze(files: TableFiles, plan: AnalyzePlan, engine: Engine) -> AnalyzeResult:
    """Carry a plan out; does nothing without a snapshot, or if that has these statistics.

    Raises:
        InvalidRequestError: a planned column does not exist, or is named twice.
        StalePlan: the planned snapshot is not the latest any more, or the table's schema changed.
        CommitConflictError: the schema changed during the run; the file is deleted.
    """
    started = files.env.now_ms()
    if plan.schema_id != files.schema.id:
        raise StalePlan(
            f"the plan for {files.name} was made with schema {plan.schema_id}, and the table has "
            f"schema {files.schema.id}; plan again"
        )
    _check_columns(files, plan.columns)
    if plan.snapshot_id is None or plan.has_statistics:
        return AnalyzeResult(snapshot=None, statistics=None, exact_columns=(), duration_ms=0)
    snapshot = planned_snapshot(files, plan.snapshot_id)
    if not is_latest(files, snapshot):
        raise StalePlan(
            f"{files.name} was committed to since its snapshot {snapshot.id}, which the plan was "
            "made for, and readers would take its statistics for those of the latest; plan again"
        )
    splits = plan_scan(files, snapshot).splits
    parts = engine.map(partial(profile_rows, files, plan.columns), _tasks(splits))
    profile = TableProfile.of(files, plan.columns)
    for part in parts:
        profile.merge(part)
    statistics = _statistics(snapshot, files, profile, splits)
    store = StatisticsStore(files.fs, files.paths, files.env)
    name = store.new_name()
    try:
        store.write(name, statistics)
        result = commit_statistics(
            files, name, user=files.env.new_id(), base_snapshot_id=snapshot.id
        )
    except CommitOutcomeUnknownError:
        raise
    except StorageError:
        # Any other failure may follow the snapshot's creation, so the file stays.
        with suppress(StorageError):
            discard_files(files.fs, [files.paths.statistics(name)])
        raise
    return AnalyzeResult(
        snapshot=result.snapshot,
        statistics=statistics,
        exact_columns=tuple(
            name for name, column in profile.columns.items() if column.counts_exactly
        ),
        duration_ms=files.env.now_ms() - started,
    )


def read_statistics(files: TableFiles, snapshot: Snapshot | None) -> TableStatistics | None:
    """The statistics of a snapshot, or of an earlier one with the same schema.

    Raises:
        CorruptionError: the statistics file is missing or unreadable.
    """
    if snapshot is None or snapshot.statistics is None:
        return None
    return StatisticsStore(files.fs, files.paths, files.env).read(snapshot.statistics)


def _tasks(splits: Sequence[DataSplit]) -> list[tuple[DataSplit, ...]]:
    """Splits distributed to a bounded number of tasks, largest first."""
    tasks: list[list[DataSplit]] = [[] for _ in range(min(_TASKS, len(splits)))]
    sizes = [0] * len(tasks)
    for split in sorted(splits, key=_split_bytes, reverse=True):
        smallest = sizes.index(min(sizes))
        tasks[smallest].append(split)
        sizes[smallest] += _split_bytes(split)
    return [tuple(task) for task in tasks]


def _split_bytes(split: DataSplit) -> int:
    return sum(file.file_size for file in split.files)


def _statistics(
    snapshot: Snapshot, files: TableFiles, profile: TableProfile, splits: Sequence[DataSplit]
) -> TableStatistics:
    metas = [file for split in splits for file in split.files]
    in_files = sum(file.row_count for file in metas)
    size = sum(file.file_size for file in metas)
    return TableStatistics(
        snapshot_id=snapshot.id,
        schema_id=files.schema.id,
        merged_record_count=profile.row_count,
        merged_record_size=size * profile.row_count // in_files if in_files else 0,
        columns=tuple(
            column.statistics(files.schema.field(name)) for name, column in profile.columns.items()
        ),
    )


# --- the rows ---------------------------------------------------------------------------------


def profile_rows(
    files: TableFiles, columns: Sequence[str], splits: Sequence[DataSplit]
) -> TableProfile:
    """The profile of the rows of some splits: the work of one task."""
    profile = TableProfile.of(files, columns)
    reader = SplitReader(files, columns=columns or files.schema.counting_names, predicate=None)
    for split in splits:
        for rows in reader.read(split):
            profile.add(rows)
    return profile


@dataclass
class TableProfile:
    """Rows counted, and a profile of each column."""

    columns: dict[str, ColumnProfile]
    row_count: int = 0

    @classmethod
    def of(cls, files: TableFiles, columns: Sequence[str]) -> TableProfile:
        return cls({name: ColumnProfile(files.schema.field(name)) for name in columns})

    def add(self, rows: pa.Table) -> None:
        self.row_count += rows.num_rows
        for name, column in self.columns.items():
            column.add(rows.column(name))

    def merge(self, other: TableProfile) -> None:
        self.row_count += other.row_count
        for name, column in self.columns.items():
            column.merge(other.columns[name])


class ColumnProfile:
    """The profile of one column over the rows seen so far."""

    def __init__(self, field: DataField) -> None:
        self.bounds = ColumnStats(field.type)
        self.distinct = DistinctCount()
        self.value_count = 0
        self.total_length = 0
        self.max_length = 0
        self._atomic = isinstance(field.type, AtomicType)

    def add(self, column: pa.ChunkedArray) -> None:
        self.bounds.add(column)
        self.value_count += len(column) - column.null_count
        if not self._atomic:
            return
        self.distinct.add(column)
        lengths = _lengths(column)
        if lengths is not None and len(column) > column.null_count:
            self.total_length += pc.sum(lengths).as_py()
            self.max_length = max(self.max_length, pc.max(lengths).as_py())

    def merge(self, other: ColumnProfile) -> None:
        bounds = self.bounds
        bounds.null_count += other.bounds.null_count
        bounds.bounded = bounds.bounded and other.bounds.bounded
        bounds.minimum = min(
            _known(bounds.minimum, other.bounds.minimum), key=order_key, default=None
        )
        bounds.maximum = max(
            _known(bounds.maximum, other.bounds.maximum), key=order_key, default=None
        )
        self.distinct.merge(other.distinct)
        self.value_count += other.value_count
        self.total_length += other.total_length
        self.max_length = max(self.max_length, other.max_length)

    @property
    def counts_exactly(self) -> bool:
        return self._atomic and self.distinct.exact

    def statistics(self, field: DataField) -> ColumnStatistics:
        """The statistics; long texts, bytes, and floats with NaN have no bounds."""
        low, high = map(_with_one_zero, self.bounds.bounds("full"))
        if any(isinstance(each, str) and len(each) > _BOUND_CHARACTERS for each in (low, high)):
            low = high = None
        avg_len, max_len = self._length(field)
        return ColumnStatistics(
            name=field.name,
            field_id=field.id,
            distinct_count=self.distinct.value if self._atomic else None,
            minimum=encode_bound(low, field),
            maximum=encode_bound(high, field),
            null_count=self.bounds.null_count,
            avg_len=avg_len,
            max_len=max_len,
        )

    def _length(self, field: DataField) -> tuple[int | None, int | None]:
        if not isinstance(field.type, AtomicType):
            return None, None
        if field.type.root is TypeRoot.DECIMAL:
            fixed = 8 if field.type.precision <= 18 else 16
            return fixed, fixed
        if field.type.root in _FIXED_LENGTHS:
            fixed = _FIXED_LENGTHS[field.type.root]
            return fixed, fixed
        if self.value_count == 0:
            return None, None
        return -(-self.total_length // self.value_count), self.max_length


def _with_one_zero(value: Value) -> Value:
    return 0.0 if isinstance(value, float) and value == 0 else value


def _known(*values: Value) -> list[Value]:
    return [value for value in values if value is not None]


def _lengths(column: pa.ChunkedArray) -> pa.ChunkedArray | None:
    """Lengths in characters of text or in bytes; None for types of fixed length."""
    if pa.types.is_string(column.type):
        return pc.utf8_length(column)
    return pc.binary_length(column) if pa.types.is_binary(column.type) else None
