"""Takes rows out of the files of an append table.

1. A file whose every row goes leaves the table.
2. Of a table with deletion vectors, the rows are marked: its files stay as they are.
3. Of others, each file is written again without the rows, and the new file is proved to hold
   exactly those that stay.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import partial

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from lakewright.storage.codec.arrow_values import matching
from lakewright.storage.files.table_files import TableFiles
from lakewright.storage.lsm.merge import POSITION
from lakewright.storage.operations.read.file_rows import FileRows
from lakewright.storage.operations.read.scan import DataSplit
from lakewright.storage.operations.rewrite.compact_outputs import replace_deletion_vectors
from lakewright.storage.operations.rewrite.held_files import HeldBucket, held_partitions
from lakewright.storage.operations.running.engine import Engine
from lakewright.storage.operations.state.table_state import ANY_KEYS, state_at
from lakewright.storage.operations.write.rolling_writer import BucketTarget, RollingWriter
from lakewright.storage.operations.write.verify import (
    Proof,
    ProvenFiles,
    VerifyLevel,
    rows_to_rewrite,
)
from lakewright.storage.spec.commit import CommitMessage
from lakewright.storage.spec.manifest import DataFileMeta
from lakewright.storage.spec.predicate import Predicate, columns_of
from lakewright.storage.spec.snapshot import Snapshot


@dataclass(frozen=True, slots=True)
class Removal:
    """Rows that go from one file: all, those at positions, or those that match the filter."""

    split: DataSplit
    whole: bool = False
    positions: np.ndarray | None = None
    predicate: Predicate | None = None

    @property
    def file(self) -> DataFileMeta:
        return self.split.files[0]

    def goes(self, files: TableFiles, rows: pa.Table) -> pa.ChunkedArray:
        """For each row whether it goes; the rows have their positions."""
        if self.positions is not None:
            return pc.is_in(rows.column(POSITION), value_set=pa.array(self.positions))
        return matching(rows, self.predicate, files.schema)


@dataclass(frozen=True, slots=True)
class _Remains:
    """What a file becomes: others with its remaining rows, or positions to mark in it."""

    files: tuple[DataFileMeta, ...] = ()
    marked: np.ndarray | None = None
    nulled: int = 0


def remove_rows(
    files: TableFiles,
    snapshot: Snapshot | None,
    removals: Sequence[Removal],
    engine: Engine,
    write_id: str,
) -> list[CommitMessage]:
    """A commit message for each bucket that loses rows; new files have the id in their names.

    Raises:
        VerificationFailed: rows written differ from rows that stay.
    """
    partial_ones = [removal for removal in removals if not removal.whole]
    marks = files.options.deletion_vectors_enabled
    job = partial(_mark, files) if marks else partial(_rewrite, files, write_id)
    remains = iter(engine.map(job, partial_ones))
    by_bucket: dict[tuple[bytes, int], list[tuple[Removal, _Remains]]] = defaultdict(list)
    for removal in removals:
        after = _Remains() if removal.whole else next(remains)
        by_bucket[removal.split.partition, removal.split.bucket].append((removal, after))
    # During a change of the keys the commit waits, and is refused if they became others.
    held = held_partitions(state_at(files, snapshot, takes=ANY_KEYS)) if by_bucket else {}
    return [
        _message(files, held[partition][bucket], changed, f"{write_id}-{number}")
        for number, ((partition, bucket), changed) in enumerate(by_bucket.items())
    ]


def _message(
    files: TableFiles,
    bucket: HeldBucket,
    changed: Sequence[tuple[Removal, _Remains]],
    write_id: str,
) -> CommitMessage:
    replaced = {each.file.file_name for each, after in changed if after.marked is None}
    marked: Mapping[str, list[np.ndarray]] = {
        each.file.file_name: [after.marked] for each, after in changed if after.marked is not None
    }
    live = {file.file_name for file in bucket.files} - replaced
    new_indexes, removed_indexes = replace_deletion_vectors(
        files, bucket.indexes, live=live, marked=marked, write_id=write_id
    )
    return CommitMessage(
        partition=bucket.partition,
        bucket=bucket.bucket,
        total_buckets=bucket.entries[0].total_buckets,
        compact_before=tuple(file for file in bucket.files if file.file_name in replaced),
        compact_after=tuple(file for _, after in changed for file in after.files),
        new_indexes=new_indexes,
        removed_indexes=removed_indexes,
        nulled_values=sum(after.nulled for _, after in changed),
    )


def _mark(files: TableFiles, removal: Removal) -> _Remains:
    if removal.positions is not None:
        return _Remains(marked=removal.positions)
    assert removal.predicate is not None
    source = FileRows(files, files.schema.fields_of(columns_of(removal.predicate)), shown=True)
    found = [np.empty(0, np.int64)]
    for rows in _placed(source, removal.split):
        positions = rows.filter(removal.goes(files, rows)).column(POSITION)
        found.append(positions.to_numpy().astype(np.int64))
    return _Remains(marked=np.concatenate(found))


def _rewrite(files: TableFiles, write_id: str, removal: Removal) -> _Remains:
    file = removal.file
    source = rows_to_rewrite(files, VerifyLevel.CHECKSUMS)
    target = BucketTarget(
        partition=removal.split.partition,
        bucket=removal.split.bucket,
        # Rows of a bucket keep their order.
        next_sequence=file.min_sequence_number,
    )
    proof = Proof(files)
    writer = RollingWriter(
        files, target, write_id=f"{write_id}-{files.env.new_id()[:8]}", witness=proof.witness()
    )
    stayed = 0
    try:
        for rows in _placed(source, removal.split):
            kept = rows.filter(pc.invert(removal.goes(files, rows)))
            kept = kept.select(list(files.schema.field_names))
            proof.expect(kept)
            writer.write(kept)
            stayed += kept.num_rows
        written = writer.close()
        proof.check(ProvenFiles(target, writer.witness, written, stayed))
    except BaseException:
        writer.abandon()
        raise
    return _Remains(files=written, nulled=source.nulled.total)


def _placed(source: FileRows, split: DataSplit) -> Iterator[pa.Table]:
    (file,) = split.files
    batch_rows = source.batch_rows(split, file)
    yield from source.key_value_rows(split, file, batch_rows=batch_rows, placed=True, system=())
