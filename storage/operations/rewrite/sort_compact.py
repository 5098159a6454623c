"""Sort compaction: sorts the rows of an append table's partitions so that filters can prune.

1. Plan from metadata: the live files of each partition, and the columns to sort by.
2. Carry the plan out (`runner.py`). Per partition, sample the rows and choose the layout. Rows
   that fit in memory are sorted at once. Otherwise the task spills them in parts, each a range of
   the order, and sorts the parts in turn.
3. Prove that the new files hold the rows of the old ones.
4. Commit as COMPACT, which removes exactly the planned files. Rows appended meanwhile are in
   other files and stay.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import partial
from typing import ClassVar

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from lakewright.storage.errors import InvalidRequestError
from lakewright.storage.files.spill import Spill
from lakewright.storage.files.table_files import TableFiles
from lakewright.storage.lsm.sort_layout import (
    SortLayout,
    SortOrder,
    part_of,
    sort_layout,
    split_points,
)
from lakewright.storage.lsm.universal_compaction import CompactionUnit
from lakewright.storage.operations.read.file_rows import FileRows
from lakewright.storage.operations.rewrite.compact import (
    BucketWork,
    planned_buckets,
    rewrite_buckets,
)
from lakewright.storage.operations.rewrite.compact_append import (
    AppendPart,
    AppendTask,
    split_of,
    write_append,
)
from lakewright.storage.operations.rewrite.compaction_plan import BucketsPlan, CompactionResult
from lakewright.storage.operations.rewrite.sorted_files import are_sorted, sorted_write_id
from lakewright.storage.operations.running.engine import Engine
from lakewright.storage.operations.running.verb_options import (
    PARTITIONS,
    Partitions,
    choice,
    names,
    option,
)
from lakewright.storage.operations.state.row_ids import refuse_columns_apart
from lakewright.storage.operations.write.verify import Proof, VerifyLevel, rows_to_rewrite
from lakewright.storage.spec.arguments import listed_names, listed_partitions
from lakewright.storage.spec.commit import CommitMessage
from lakewright.storage.spec.data_types import AtomicType, not_decoded
from lakewright.storage.spec.index import IndexFileMeta
from lakewright.storage.spec.lease import Lease
from lakewright.storage.spec.manifest import DataFileMeta
from lakewright.storage.spec.options import BucketMode
from lakewright.storage.spec.supported_options import Use, check_supported, without_clustering

# The target memory of one part; sorting takes about as much again.
PART_BYTES = 256 * 1024 * 1024
_SAMPLED_ROWS = 100_000
# Each part is an open file.
_MOST_PARTS = 512
# How many first rows of each file are sampled for their size.
_WEIGHED_ROWS = 4096


@dataclass(frozen=True, slots=True, kw_only=True)
class SortCompactionPlan(BucketsPlan[CompactionResult]):
    """Which files are sorted, and how."""

    sorts: ClassVar[bool] = True

    order: SortOrder
    by: tuple[str, ...]


def sort_order(name: str) -> SortOrder:
    """The order that a caller names.

    Raises:
        InvalidRequestError: the order does not exist.
    """
    try:
        return SortOrder(name)
    except ValueError:
        names = ", ".join(each.value for each in SortOrder)
        raise InvalidRequestError(f"sort order {name!r} is not one of {names}") from None


@dataclass(frozen=True)
class SortCompactOptions:
    """What is sorted, and how."""

    by: Sequence[str] = option(names(), (), "The columns to sort by (default: clustering.columns).")
    order: str | SortOrder = option(
        choice(SortOrder),
        SortOrder.ORDER,
        "One column after the other (order), or along a curve on which rows near each other in "
        "every column lie together (zorder, hilbert).",
    )
    partitions: Partitions | None = option(
        PARTITIONS, None, "Partitions to process, by all or some of their columns (default: all)."
    )


def plan_sort_compact(files: TableFiles, options: SortCompactOptions) -> SortCompactionPlan:
    """Sort the rows of an append table by columns, in their order or along a curve.

    `order` is order, zorder or hilbert. Planned are all files of the partitions that
    have other files than their last sorting wrote.

    A partition may be named by some of its columns; None means all of them. Without columns to sort
    by, those of the option `clustering.columns` are taken.

    Raises:
        UnsupportedError: the table has an option that is not implemented.
        InvalidRequestError: the table's rows already have the order of a key or a bucket, or they
            cannot be sorted by a column.
    """
    partitions = listed_partitions(options.partitions, "partitions")
    order = options.order if isinstance(options.order, SortOrder) else sort_order(options.order)
    check_supported(without_clustering(files.schema), Use.COMPACT, table=files.name)
    by = listed_names(options.by, "by") or files.options.clustering_columns
    _check_sortable(files, by)
    columns = files.schema.fields_of(by)

    def pick(
        metas: Sequence[DataFileMeta], _: Sequence[IndexFileMeta]
    ) -> tuple[list[CompactionUnit], str]:
        reason = f"sorted by {', '.join(by)}, {order.value}"
        if are_sorted(metas, order, columns):
            return [], f"{reason} already, and no file came since"
        ordered = sorted(metas, key=lambda file: (file.creation_time or 0, file.file_name))
        return [CompactionUnit(files=tuple(ordered), output_level=0, reason=reason)], reason

    plan = planned_buckets(files, pick, partitions=partitions)
    return SortCompactionPlan(
        table=plan.table,
        snapshot_id=plan.snapshot_id,
        tasks=plan.tasks,
        skipped=plan.skipped,
        order=order,
        by=by,
    )


def _check_sortable(files: TableFiles, by: Sequence[str]) -> None:
    refuse_columns_apart(files, "a sort of its rows")
    if files.schema.is_keyed or files.options.bucket_mode is not BucketMode.UNAWARE:
        kept = (
            "the order of its key"
            if files.schema.is_keyed
            else "the order in which they came to a bucket"
        )
        raise InvalidRequestError(
            f"rows of {files.name} lie in {kept}, which readers rely on; only append tables with "
            "bucket=-1 can be sorted"
        )
    for field in files.schema.opaque_fields:
        raise not_decoded(field.type, field.name)
    if not by:
        raise InvalidRequestError(
            f"the columns to sort {files.name} by are missing (--by COLUMN,… on the command "
            f"line); name some of {', '.join(files.schema.field_names)}"
        )
    if len(set(by)) < len(by):
        raise InvalidRequestError(
            f"{files.name} is to be sorted by {', '.join(by)}, and one is named twice; name each "
            "once"
        )
    for name in by:
        if name not in files.schema.field_names:
            raise InvalidRequestError(
                f"{name!r} is not a column of {files.name}; there are "
                f"{', '.join(files.schema.field_names)}"
            )
        data_type = files.schema.field(name).type
        if not isinstance(data_type, AtomicType):
            raise InvalidRequestError(
                f"{files.name} cannot be sorted by {name}, which is {data_type}; take columns of "
                "primitive types"
            )


def run_sort_compact(
    files: TableFiles,
    plan: SortCompactionPlan,
    engine: Engine,
    *,
    part_bytes: int = PART_BYTES,
    verify: VerifyLevel = VerifyLevel.CHECKSUMS,
    lease: Lease | None = None,
) -> CompactionResult:
    """Carry a plan out; a task holds about twice `part_bytes` in memory, and the rest on disk.

    With a lease, only the part that the lease covers until the commit is done.

    Raises:
        StalePlan: other commits changed all planned files; plan again.
        LeaseLost: the lease was lost, or all its partitions were taken; nothing is published.
        SchemaMoved: the table's schema changed since it was opened.
        VerificationFailed: rows written differ from rows read; nothing is committed.
    """
    _check_sortable(files, plan.by)
    rewrite = partial(_rewrite_sorted, plan.order, plan.by, part_bytes, verify)
    return rewrite_buckets(files, plan, engine, rewrite, lease)


def _rewrite_sorted(
    order: SortOrder,
    by: Sequence[str],
    part_bytes: int,
    verify: VerifyLevel,
    files: TableFiles,
    write_id: str,
    work: BucketWork,
) -> tuple[CommitMessage, ...]:
    assert isinstance(work, AppendTask)
    source = rows_to_rewrite(files, verify)
    proof = Proof(files, verify, ordered=False)
    rows = rows_in_order(source, work, order, by, part_bytes, proof)
    part = AppendPart(work.files, rows, proof)
    write_id = sorted_write_id(write_id, order, files.schema.fields_of(by))
    return (write_append(files, write_id, work, [part], source.nulled),)


def rows_in_order(
    source: FileRows,
    work: AppendTask,
    order: SortOrder,
    by: Sequence[str],
    part_bytes: int,
    proof: Proof,
) -> Iterator[pa.Table]:
    """The rows of a task in an order, of which the proof expects each; ties keep their order."""
    layout, sample = _look(source.files, order, by, work)
    parts = min(_MOST_PARTS, math.ceil(_bytes_in_memory(source.files, work) / part_bytes))
    points = split_points(layout.words(sample), parts)
    return _sorted_parts(source, work, layout, points, proof)


def _look(
    files: TableFiles, order: SortOrder, by: Sequence[str], work: AppendTask
) -> tuple[SortLayout, pa.Table]:
    """The layout, and a sample of rows that includes the extremes of each column."""
    source = FileRows(files, files.schema.fields_of(by))
    split = split_of(work)
    every = max(1, sum(file.row_count for file in work.files) // _SAMPLED_ROWS)
    sampled: list[pa.Table] = []
    seen = 0
    for file in work.files:
        for rows in source.batches(split, file):
            # Every n-th row, counted over all files.
            places = np.arange(-seen % every, rows.num_rows, every)
            sampled += [rows.take(pa.array(places)), *_extremes(rows, by)]
            seen += rows.num_rows
    sample = pa.concat_tables(sampled).select(list(by))
    return sort_layout(order, by, sample), sample


def _bytes_in_memory(files: TableFiles, work: AppendTask) -> float:
    """The estimated memory of all rows; metadata has only the compressed size."""
    source, split = FileRows(files, files.schema.fields), split_of(work)
    total = 0.0
    for file in work.files:
        first = next(source.rows(split, file, batch_rows=_WEIGHED_ROWS), None)
        if first is not None and first.num_rows:
            total += file.row_count * first.nbytes / first.num_rows
    return total


def _extremes(rows: pa.Table, by: Sequence[str]) -> Iterator[pa.Table]:
    """For each column a row with its least value, and a row with its greatest."""
    for name in by:
        values = rows.column(name).combine_chunks()
        bounds = pc.min_max(values)
        for bound in (bounds["min"], bounds["max"]):
            if bound.is_valid:
                yield rows.slice(pc.index(values, bound).as_py(), 1)


def _sorted_parts(
    source: FileRows, work: AppendTask, layout: SortLayout, points: np.ndarray, proof: Proof
) -> Iterator[pa.Table]:
    """The rows, part by part; several parts are spilled to disk, a single part is not."""
    split = split_of(work)
    read = (rows for file in work.files for rows in source.batches(split, file))
    batches = proof.expected(read)
    if not len(points):
        yield layout.sorted_rows(pa.concat_tables(batches))
        return
    parts = len(points) + 1
    with Spill() as spill:
        for rows in batches:
            part = part_of(layout.words(rows), points)
            order = np.argsort(part, kind="stable")
            grouped, sizes = rows.take(pa.array(order)), np.bincount(part, minlength=parts)
            for each, start in enumerate(np.cumsum(sizes) - sizes):
                if sizes[each]:
                    spill.put(each, grouped.slice(start, sizes[each]))
        for each in range(parts):
            held = spill.take(each)
            if held is not None:
                yield layout.sorted_rows(held)
