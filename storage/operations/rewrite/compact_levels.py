"""Compacting one bucket of a primary-key table: a task's work, from files to a commit message.

1. Decide which files are merged and which only change their level.
2. Merge the other files window by window into the output level; drop deletions if no older
   rows remain.
3. If the table wants it, look up the visible row of each key that leaves level 0: write the
   change to a changelog file, mark the older row as deleted, or leave the key out.
4. Prove that data and changelog files hold the merged rows.
5. Rewrite the bucket's deletion vectors if they changed.

Sources: Paimon `MergeTreeCompactTask`, `ChangelogMergeTreeRewriter`,
`LookupMergeTreeCompactRewriter`, `FullChangelogMergeTreeCompactRewriter`.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import pyarrow as pa

from lakewright.storage.files.table_files import TableFiles
from lakewright.storage.lsm.changelog import KeyHistory, changelog_rows, merged_positions
from lakewright.storage.lsm.key_groups import KeyGroups
from lakewright.storage.lsm.levels import Levels
from lakewright.storage.lsm.lookup_merge import LookedUp, look_up, without_keys
from lakewright.storage.lsm.merge import retracting, without_deletions
from lakewright.storage.lsm.merge_engines import merge_function
from lakewright.storage.lsm.sections import sections_of
from lakewright.storage.lsm.universal_compaction import (
    CompactionUnit,
    Rewrite,
    Upgrade,
    may_drop_deletes,
    pick_steps,
)
from lakewright.storage.operations.read.file_rows import FileRows
from lakewright.storage.operations.read.merge_read import keeps_marks, key_windows, merged_windows
from lakewright.storage.operations.read.scan import DataSplit
from lakewright.storage.operations.read.unfit_values import UNFIT
from lakewright.storage.operations.rewrite.compact_outputs import (
    deletions_of,
    replace_deletion_vectors,
)
from lakewright.storage.operations.rewrite.expiring_records import record_expiry, with_past_rows
from lakewright.storage.operations.running.concurrency import ahead
from lakewright.storage.operations.state.keys import key_decoder
from lakewright.storage.operations.write.rolling_writer import BucketTarget, RollingWriter
from lakewright.storage.operations.write.verify import (
    Proof,
    ProvenFiles,
    VerifyLevel,
    rows_to_rewrite,
)
from lakewright.storage.spec.commit import CommitMessage
from lakewright.storage.spec.index import IndexFileMeta
from lakewright.storage.spec.lookup_strategy import lookup_strategy
from lakewright.storage.spec.manifest import DataFileMeta, FileSource
from lakewright.storage.spec.merge_spec import MergeEngine
from lakewright.storage.spec.options import ChangelogProducer
from lakewright.storage.spec.values import order_key


@dataclass(frozen=True, slots=True, kw_only=True)
class LevelsTask:
    """A compaction unit of a bucket, with all files of the bucket at the time of the plan check.

    `indexes` are its deletion vectors.
    """

    partition: bytes
    bucket: int
    total_buckets: int
    unit: CompactionUnit
    levels: Levels
    indexes: tuple[IndexFileMeta, ...] = ()


def rewrite_levels(
    files: TableFiles, write_id: str, task: LevelsTask, verify: VerifyLevel = VerifyLevel.CHECKSUMS
) -> CommitMessage:
    """Carry a unit out; deletes all new files on failure.

    Raises:
        VerificationFailed: rows written differ from rows merged.
        InvalidRows: the table's merge engine does not accept its rows.
    """
    return LevelsRewriting(files, write_id, task, verify).carry_out()


def steps_of(
    files: TableFiles, unit: CompactionUnit, levels: Levels
) -> tuple[Upgrade | Rewrite, ...]:
    """The steps for a unit's files, in key order."""
    options = files.options
    past = {file.file_name for file in with_past_rows(files, unit.files)}
    return pick_steps(
        unit,
        sections_of(unit.files, key_decoder(files.schema)),
        max_level=levels.max_level,
        small_below_bytes=int(options.target_file_size * options.compaction_small_file_ratio),
        rewritten=lambda file: options.compaction_force_rewrite_all_files or file.file_name in past,
    )


class LevelsRewriting:
    """The execution of one unit; used once."""

    def __init__(
        self, files: TableFiles, write_id: str, task: LevelsTask, verify: VerifyLevel
    ) -> None:
        self.files = files
        self.task = task
        self.output_level = task.unit.output_level
        self.at_top = self.output_level == task.levels.max_level
        self.lookups = lookup_strategy(files.options, files.merge_spec)
        self.tells_full = (
            files.options.changelog_producer is ChangelogProducer.FULL_COMPACTION and self.at_top
        )
        self.drops_deletes = may_drop_deletes(
            task.levels, self.output_level, deletion_vectors=self.lookups.deletion_vectors
        )
        self.function = merge_function(files.merge_spec, files.schema.fields)
        self.source = rows_to_rewrite(files, verify, record_expiry(files))
        self.write_id = write_id
        target = BucketTarget(
            partition=task.partition,
            bucket=task.bucket,
            level=self.output_level,
            source=FileSource.COMPACT,
        )
        self.proof, self.changes_proof = Proof(files, verify), Proof(files, verify)
        self.writer = self.open_writer(target, self.proof)
        told = replace(target, changelog=True, source=FileSource.APPEND)
        self.changelog = self.open_writer(told, self.changes_proof)
        self._is_told = files.tells_changes(task.partition)
        self.rows_due = 0
        self.changes_due = 0
        self.before: list[DataFileMeta] = []
        self.moved: list[DataFileMeta] = []
        self.marked: dict[str, list[np.ndarray]] = defaultdict(list)

    def open_writer(self, target: BucketTarget, proof: Proof) -> RollingWriter:
        """A writer of data or changelog files that adds its rows to the proof."""
        return RollingWriter(self.files, target, write_id=self.write_id, witness=proof.witness())

    def carry_out(self) -> CommitMessage:
        """Do the work; deletes all new files on failure."""
        try:
            return self._carry_out()
        except BaseException:
            self.writer.abandon()
            self.changelog.abandon()
            raise

    def _carry_out(self) -> CommitMessage:
        for step in steps_of(self.files, self.task.unit, self.task.levels):
            if isinstance(step, Upgrade):
                self._upgrade(step.file)
            else:
                self._rewrite(step.files)
        written, told = self.writer.close(), self.changelog.close()
        for writer, proof, made, due in (
            (self.writer, self.proof, written, self.rows_due),
            (self.changelog, self.changes_proof, told, self.changes_due),
        ):
            proof.check(ProvenFiles(writer.target, writer.witness, made, due))
        new_indexes, removed_indexes = self._indexes()
        return CommitMessage(
            partition=self.task.partition,
            bucket=self.task.bucket,
            total_buckets=self.task.total_buckets,
            compact_before=tuple(self.before),
            compact_after=(*self.moved, *written),
            compact_changelog=told,
            new_indexes=new_indexes,
            removed_indexes=removed_indexes,
            nulled_values=self.source.nulled.total,
        )

    # --- steps --------------------------------------------------------------------------------

    def _upgrade(self, file: DataFileMeta) -> None:
        """Move a file to the output level, or rewrite it if the lookup changes its rows.

        Writes the changelog if the table wants it.
        """
        leaves_level0 = self.lookups.needed and file.level == 0
        if leaves_level0 and self._changes_by_lookup(file):
            self._rewrite((file,))
            return
        if leaves_level0 and self.lookups.changelog:
            self._merge_with_older((file,), keep=False)
        elif leaves_level0 and self.lookups.deletion_vectors:
            self._mark_older((file,))
        elif self.tells_full:
            self._merge_telling((file,), keep=False)
        self.before.append(file)
        self.moved.append(replace(file, level=self.output_level))

    def _changes_by_lookup(self, file: DataFileMeta) -> bool:
        """Whether the lookup changes the rows of a file that leaves level 0."""
        if self.lookups.deletion_vectors and file.delete_row_count != 0:
            # A deletion is dropped after it marked the older row.
            return True
        options, spec = self.files.options, self.files.merge_spec
        if options.file_encoding(0).format != options.file_encoding(self.output_level).format:
            return True
        last_wins = spec.engine is MergeEngine.DEDUPLICATE and not spec.sequence_fields
        return not (self.at_top or last_wins)

    def _rewrite(self, metas: Sequence[DataFileMeta]) -> None:
        if self.lookups.needed and self.lookups.whole_rows:
            self._merge_with_older(metas)
        elif self.tells_full:
            self._merge_telling(metas)
        else:
            if self.lookups.deletion_vectors:
                self._mark_older(metas)
            for merged in merged_windows(self.source, self._split(metas)):
                self._keep(merged)
        # The next files may follow a file that is only moved.
        self.writer.end_file()
        self.before += metas

    def _keep(self, merged: pa.Table) -> None:
        kept, due = merged, merged.num_rows
        if self.drops_deletes:
            # Counted independently of the filter, so that the check covers the filter too.
            due -= int(np.count_nonzero(retracting(merged)))
            kept = without_deletions(merged)
        self.rows_due += due
        self.proof.expect(kept)
        self.writer.write(kept)

    # --- merging ------------------------------------------------------------------------------

    def _merge_telling(self, metas: Sequence[DataFileMeta], *, keep: bool = True) -> None:
        """Merge the whole bucket, and write the changes of the top level."""
        top = np.array([file.level == self.output_level for file in metas])
        split = self._split(metas)
        marked = keeps_marks(self.source, split, self.function)
        windows = key_windows(self.source, split, marked=marked)
        for groups in ahead(self.files.env, windows):
            after = self._merged(groups, split)
            counts = np.diff(groups.starts, append=groups.rows.num_rows)
            old = np.full(groups.key_count, -1, dtype=np.int64)
            rows = np.flatnonzero(top[groups.origins])
            old[np.searchsorted(groups.starts, rows, side="right") - 1] = rows
            self._tell(
                KeyHistory(
                    before=_unmarked(groups.rows),
                    old=old,
                    after=after,
                    new=merged_positions(groups, after),
                    # A row of the top level without newer rows stays unchanged.
                    told=(counts > 1) | (old == -1),
                )
            )
            if keep:
                self._keep(after)

    def _merge_with_older(self, metas: Sequence[DataFileMeta], *, keep: bool = True) -> None:
        """Merge with the older row of each key on any level, and write the changes."""
        split = self._with_older(metas)
        for window in self._looked_up(self.source, split, len(metas)):
            files, told = window, window.newer
            if self.lookups.first_row:
                files = without_keys(window, window.outside)
                # A key that existed keeps its row, so it has no change.
                told = files.newer & (files.older == -1)
            after = self._merged(files.groups, split)
            if self.lookups.changelog:
                self._tell(
                    KeyHistory(
                        before=_unmarked(files.groups.rows),
                        old=files.older,
                        after=after,
                        new=merged_positions(files.groups, after),
                        told=told,
                    )
                )
            if keep:
                self._keep(after)

    def _mark_older(self, metas: Sequence[DataFileMeta]) -> None:
        """Mark the older rows of keys that leave level 0 as deleted; reads only keys."""
        newest = [file for file in metas if file.level == 0]
        if newest and self._older_files(newest):
            split = self._with_older(newest)
            for _ in self._looked_up(FileRows(self.files, ()), split, len(newest)):
                pass

    def _with_older(self, metas: Sequence[DataFileMeta]) -> DataSplit:
        """The files, and after them those that may hold older rows of their newest keys."""
        newest = [file for file in metas if file.level == 0]
        return self._split((*metas, *self._older_files(newest)))

    def _looked_up(
        self, source: FileRows, split: DataSplit, merged_files: int
    ) -> Iterator[LookedUp]:
        """Windows of the first files' keys with the rows to merge; marks older rows as deleted."""
        levels = np.array([file.level for file in split.files], dtype=np.int64)
        merged = np.arange(len(split.files)) < merged_files
        marked = keeps_marks(source, split, self.function)
        for groups in ahead(self.files.env, key_windows(source, split, marked=marked)):
            found = look_up(groups, levels, merged)
            if found.groups.key_count:
                self._mark(found, split.files)
                yield found

    def _merged(self, groups: KeyGroups, split: DataSplit) -> pa.Table:
        """The merged rows; values that do not fit count in them alone, not in replaced rows."""
        return self.source.settled(self.function.merge(groups), split, deletions=False)

    def _older_files(self, newest: Sequence[DataFileMeta]) -> tuple[DataFileMeta, ...]:
        """Files below the output level that may hold keys of files of level 0."""
        decode = key_decoder(self.files.schema)

        def bound(key: bytes) -> tuple[Any, ...]:
            return tuple(order_key(value) for value in decode(key))

        ranges = [(bound(file.min_key), bound(file.max_key)) for file in newest]
        return tuple(
            file
            for run in self.task.levels.runs
            if run.level > self.output_level
            for file in run.files
            if any(
                bound(file.min_key) <= high and low <= bound(file.max_key) for low, high in ranges
            )
        )

    def _split(self, metas: Sequence[DataFileMeta]) -> DataSplit:
        names = {file.file_name for file in metas}
        return DataSplit(
            partition=self.task.partition,
            bucket=self.task.bucket,
            files=tuple(metas),
            merge=True,
            deletions=deletions_of(self.task.indexes, names),
        )

    # --- changelog ----------------------------------------------------------------------------

    def _tell(self, history: KeyHistory) -> None:
        if not self._is_told:
            return
        options = self.files.options
        compared = None
        if options.changelog_row_deduplicate:
            ignored = options.changelog_row_deduplicate_ignore_fields
            compared = [name for name in self.files.schema.field_names if name not in ignored]
        changes = changelog_rows(history, compared)
        self.changes_due += changes.num_rows
        self.changes_proof.expect(changes)
        if changes.num_rows:
            self.changelog.write(changes)

    # --- deletion vectors ---------------------------------------------------------------------

    def _mark(self, found: LookedUp, read: Sequence[DataFileMeta]) -> None:
        if not self.lookups.deletion_vectors:
            return
        rows = found.older[found.outside]
        origins, positions = found.groups.origins[rows], found.groups.positions[rows]
        for origin in np.unique(origins):
            self.marked[read[origin].file_name].append(positions[origins == origin])

    def _indexes(self) -> tuple[tuple[IndexFileMeta, ...], tuple[IndexFileMeta, ...]]:
        """The bucket's deletion vectors after the rewrite, and those before."""
        moved = {file.file_name for file in self.moved}
        gone = {file.file_name for file in self.before} - moved
        live = {file.file_name for file in self.task.levels.files} - gone
        return replace_deletion_vectors(
            self.files, self.task.indexes, live=live, marked=self.marked, write_id=self.write_id
        )


def _unmarked(rows: pa.Table) -> pa.Table:
    """Rows that readers saw until now; a changelog has null for values of them that do not fit."""
    return rows.drop_columns([UNFIT]) if UNFIT in rows.column_names else rows
