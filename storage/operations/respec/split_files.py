"""Splits files by the values of the columns that become partition keys.

Each file with several values is replaced by a file for each value, under the present keys: an
ordinary COMPACT, which every client reads. Rows of equal values keep their order. The files of a
few partitions are committed together, so a run that is stopped keeps what it has committed, and
the next run splits the rest.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import replace
from functools import partial

from lakewright.storage.errors import StalePlan
from lakewright.storage.files.table_files import TableFiles
from lakewright.storage.lsm.bin_packing import pack_in_order
from lakewright.storage.lsm.sort_layout import SortOrder
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
    write_append,
)
from lakewright.storage.operations.rewrite.compaction_plan import CompactionPlan, CompactionResult
from lakewright.storage.operations.rewrite.sort_compact import PART_BYTES, rows_in_order
from lakewright.storage.operations.running.engine import Engine
from lakewright.storage.operations.state.table_state import ANY_KEYS
from lakewright.storage.operations.write.verify import Proof, VerifyLevel, rows_to_rewrite
from lakewright.storage.spec.commit import CommitMessage
from lakewright.storage.spec.index import IndexFileMeta
from lakewright.storage.spec.manifest import DataFileMeta

# Tasks of about this size are committed together.
_BYTES_A_COMMIT = 1 << 30


def planned_splits(
    files: TableFiles,
    names: Collection[str],
    by: Sequence[str],
    partitions: Sequence[Mapping[str, object]] | None = None,
) -> CompactionPlan:
    """A plan to split the named files, bucket by bucket."""

    def pick(
        metas: Sequence[DataFileMeta], _: Sequence[IndexFileMeta]
    ) -> tuple[list[CompactionUnit], str]:
        reason = f"split by {', '.join(by)}"
        several = tuple(file for file in metas if file.file_name in names)
        if not several:
            return [], "each file holds one value"
        return [CompactionUnit(files=several, output_level=0, reason=reason)], reason

    return planned_buckets(files, pick, partitions=partitions, takes=ANY_KEYS)


def split_files(
    files: TableFiles,
    plan: CompactionPlan,
    by: Sequence[str],
    engine: Engine,
    verify: VerifyLevel = VerifyLevel.CHECKSUMS,
) -> Iterator[CompactionResult]:
    """Carry a plan out, a commit for every few buckets; files that changed meanwhile are left.

    Raises:
        SchemaMoved: the table's schema changed since it was opened.
        VerificationFailed: rows written differ from rows read; they are not committed.
    """
    rewrite = partial(_rewrite_split, tuple(by), verify)
    for tasks in pack_in_order(plan.tasks, (lambda each: each.bytes, _BYTES_A_COMMIT)):
        try:
            yield rewrite_buckets(files, replace(plan, tasks=tasks), engine, rewrite)
        except StalePlan:
            # Other commits replaced the files; the next plan names the new ones.
            continue


def _rewrite_split(
    by: tuple[str, ...], verify: VerifyLevel, files: TableFiles, write_id: str, work: BucketWork
) -> tuple[CommitMessage, ...]:
    assert isinstance(work, AppendTask)
    source = rows_to_rewrite(files, verify)
    parts = (
        _part(source, replace(work, stretches=(stretch,)), by, verify) for stretch in work.stretches
    )
    return (write_append(files, write_id, work, parts, source.nulled),)


def _part(
    source: FileRows, stretch: AppendTask, by: tuple[str, ...], verify: VerifyLevel
) -> AppendPart:
    proof = Proof(source.files, verify, ordered=False)
    rows = rows_in_order(source, stretch, SortOrder.ORDER, by, PART_BYTES, proof)
    return AppendPart(stretch.files, rows, proof, cut_by=by)
