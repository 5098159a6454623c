"""Brings late files of tables without a primary key to the present partition keys.

A client that opened the table before its keys changed does not ask for the schema when it
commits, and may go on for as long as it lives. Its files are called late here.

1. Find the late files that cannot stay as they are: those with several values of the present keys,
   and those with columns that no schema with these keys has.
2. Write their rows to the present partitions.
3. Commit one snapshot, without a schema: its base states all live files under the present keys,
   and its delta replaces the late files by the new ones. In that base a replaced file has the
   partition of one of its rows, so that each client decodes its removal.

Late files with one value of each key are restated where they lie.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial
from itertools import accumulate

from lakewright.storage.errors import FilesGone
from lakewright.storage.files.table_files import TableFiles
from lakewright.storage.operations.commit.commit_loop import commit_bridging
from lakewright.storage.operations.commit.restated_base import Restatement, schemas_with_keys
from lakewright.storage.operations.read.key_values import KeyValues
from lakewright.storage.operations.read.scan import DataSplit
from lakewright.storage.operations.references.sweep import sweep_after_failure, swept_after_failure
from lakewright.storage.operations.respec.cut_over import stands
from lakewright.storage.operations.respec.respec_plan import Rewritten
from lakewright.storage.operations.running.engine import Engine
from lakewright.storage.operations.state.assign_buckets import BucketChooser, BucketStates
from lakewright.storage.operations.state.keys_of_files import entries_of_other_keys
from lakewright.storage.operations.state.live_files import deletions_by_bucket
from lakewright.storage.operations.state.table_state import ANY_KEYS, TableState, latest_state
from lakewright.storage.operations.write.dealt_files import DealtFiles
from lakewright.storage.operations.write.placed_rows import placed_rows
from lakewright.storage.operations.write.verify import VerifyLevel, rows_to_rewrite
from lakewright.storage.spec.commit import Change
from lakewright.storage.spec.index import DeletionVectorRange
from lakewright.storage.spec.manifest import FileKind, ManifestEntry
from lakewright.storage.spec.snapshot import Snapshot
from lakewright.storage.spec.values import Value

# How often files that others commit meanwhile are rewritten, too, before a run gives up.
_MOST_ROUNDS = 10

# The deletions of a file, by the index file that holds them.
_Deletions = tuple[tuple[str, DeletionVectorRange], ...]


def unfit_entries(
    files: TableFiles, entries: Sequence[ManifestEntry], values: KeyValues
) -> list[ManifestEntry]:
    """The late files whose rows must be rewritten; `values` knows those of the present keys."""
    late = entries_of_other_keys(files, entries)
    alike = schemas_with_keys(files, {each.file.schema_id for each in late})
    return [
        each
        for each in late
        if values.single(each.file) is None or alike.get(each.file.schema_id, 0) is None
    ]


@dataclass(frozen=True, slots=True)
class _Work:
    """A file to write anew, its deletions, and the first sequence number of its rows."""

    entry: ManifestEntry
    deletions: _Deletions
    first_number: int


@dataclass(frozen=True, slots=True)
class _Moved:
    """The entries of files with the rows of a late one, which had these deletions."""

    deletions: _Deletions
    staged: tuple[ManifestEntry, ...]
    nulled_values: int


@dataclass
class LateAppends:
    """The late files of an append table whose rows are rewritten; used once.

    `values` are those of the present keys.
    """

    files: TableFiles
    values: KeyValues
    engine: Engine
    verify: VerifyLevel
    rewritten: Rewritten = field(default_factory=Rewritten)
    restated: int = 0
    _run_id: str = ""
    _moved: dict[str, _Moved] = field(default_factory=dict)
    _used: frozenset[str] = frozenset()

    def restate(self) -> Snapshot | None:
        """Commit all files under the present keys, if they do not stand.

        Raises:
            FilesGone: other clients commit faster than their files are rewritten.
            VerificationFailed: rows written differ from rows read.
        """
        files = self.files
        base_id = files.snapshots.latest_id()
        self._run_id = files.env.new_id()
        with swept_after_failure(files, [self._run_id], base_id):
            snapshot = self._restated()
        if self._moved.keys() - self._used:
            # Another client replaced a late file, whose rows were written in vain.
            sweep_after_failure(files, [self._run_id], since_snapshot_id=base_id)
        return snapshot

    def _restated(self) -> Snapshot | None:
        for number in range(_MOST_ROUNDS):
            state = latest_state(self.files, takes=ANY_KEYS)
            if stands(state):
                return None
            self._write_anew(state)
            try:
                return commit_bridging(self.files, self._change, user=self._run_id).snapshot
            except FilesGone:
                if number + 1 == _MOST_ROUNDS:
                    raise
        return None

    def _write_anew(self, state: TableState) -> None:
        """Write the rows of late files that were not written before."""
        standing = state.standing
        self.values.look(standing, self.engine)
        unfit = unfit_entries(self.files, standing, self.values)
        deletions = _deletions(state)
        new = [each for each in unfit if not self._is_written(each, deletions)]
        following = max((each.file.max_sequence_number + 1 for each in state.entries), default=0)
        starts = accumulate((each.file.row_count for each in new), initial=following)
        work = [
            _Work(entry, deletions.get(entry.file.file_name, ()), first)
            for entry, first in zip(new, starts, strict=False)
        ]
        late = {key.identity for key in entries_of_other_keys(self.files, standing)}
        counts = {
            each.partition: each.total_buckets for each in standing if each.identity not in late
        }
        write = partial(_moved, self.files, self._run_id, self.verify, counts)
        for each, moved in zip(work, self.engine.map(write, work), strict=True):
            self._moved[each.entry.file.file_name] = moved

    def _is_written(self, entry: ManifestEntry, deletions: Mapping[str, _Deletions]) -> bool:
        name = entry.file.file_name
        known = self._moved.get(name)
        return known is not None and known.deletions == deletions.get(name, ())

    def _change(self, state: TableState) -> Change | None:
        """The base under the present keys, and the new files in place of the late ones.

        Raises:
            FilesGone: another client committed late files that are not rewritten yet.
        """
        if state.snapshot is None or stands(state):
            return None
        files, live = self.files, state.standing
        if any(each.file.file_name not in self.values.found for each in live):
            raise self._more_came()
        unfit = unfit_entries(files, live, self.values)
        deletions = _deletions(state)
        if not all(self._is_written(each, deletions) for each in unfit):
            raise self._more_came()
        names = frozenset(each.file.file_name for each in unfit)
        late_schemas = schemas_with_keys(files, {each.file.schema_id for each in live})
        how = Restatement(
            files=files,
            keys=files.partitions.keys,
            values_of=self._values_of,
            schemas={each: alike for each, alike in late_schemas.items() if alike is not None},
            run_id=self._run_id,
        )
        base = how.base(state, leaving=names)
        going = [each.removed() for each in base.entries if each.file.file_name in names]
        moved = [self._moved[name] for name in sorted(names)]
        staged = [entry for each in moved for entry in each.staged]
        self._used, self.rewritten = names, Rewritten()
        self.restated = len(base.entries) - len(going)
        self.rewritten.read(each.file for each in going)
        self.rewritten.wrote(
            (each.file for each in staged), sum(each.nulled_values for each in moved)
        )
        return Change(base=base, entries=[*going, *staged], statistics=state.snapshot.statistics)

    def _more_came(self) -> FilesGone:
        return FilesGone(
            f"clients that opened {self.files.name} before its partition keys changed committed "
            "to it while their files were rewritten; stop them, or let them open the table "
            "again, and run it again"
        )

    def _values_of(self, entries: Sequence[ManifestEntry]) -> dict[str, Mapping[str, Value]]:
        """The values of the keys in a row of each file; all rows of a file that stays have them."""
        names = [each.name for each in self.values.fields]
        found: dict[str, Mapping[str, Value]] = {}
        for name in {entry.file.file_name for entry in entries}:
            rows = self.values.found[name]
            found[name] = dict(zip(names, next(iter(rows)), strict=True)) if rows else {}
        return found


def _deletions(state: TableState) -> dict[str, _Deletions]:
    found: dict[str, _Deletions] = {}
    for marks in deletions_by_bucket(state.indexes).values():
        for index_name, vector in marks:
            found[vector.data_file] = (*found.get(vector.data_file, ()), (index_name, vector))
    return found


def _moved(
    files: TableFiles,
    run_id: str,
    verify: VerifyLevel,
    bucket_counts: Mapping[bytes, int],
    work: _Work,
) -> _Moved:
    """Write the rows of a file to their present partitions; deletes all new files on failure.

    Raises:
        VerificationFailed: rows written differ from rows read.
    """
    entry = work.entry
    source = rows_to_rewrite(files, verify)
    chooser = BucketChooser(files, BucketStates(bucket_counts=bucket_counts))
    split = DataSplit(
        partition=entry.partition,
        bucket=entry.bucket,
        files=(entry.file,),
        merge=False,
        deletions=work.deletions,
    )
    write_id = f"{run_id}-{files.env.new_id()[:8]}"
    with DealtFiles(files, write_id, verify, next_sequence=work.first_number) as dealt:
        for batch in dealt.proof.expected(source.batches(split, entry.file)):
            if batch.num_rows:
                placed = placed_rows(batch, chooser.choose(batch))
                dealt.write((each, placed.part(i)) for i, each in enumerate(placed.places))
        made = dealt.close()
    staged = tuple(
        ManifestEntry(
            kind=FileKind.ADD,
            partition=each.target.partition,
            bucket=each.target.bucket,
            total_buckets=chooser.total_buckets(each.target.partition),
            file=meta,
        )
        for each in made
        for meta in each.files
    )
    return _Moved(work.deletions, staged, source.nulled.total)
