"""Makes splits of the buckets that differ between two states of a table."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Sequence
from dataclasses import dataclass, replace
from itertools import groupby

from lakewright.storage.files.table_files import TableFiles
from lakewright.storage.lsm.sections import sections_of
from lakewright.storage.operations.changes.across_keys import (
    have_other_keys,
    splits_across_keys,
    told_if_mixed,
    with_keys_of,
)
from lakewright.storage.operations.changes.change_plan import (
    ChangePlan,
    ChangeSource,
    ChangeSplit,
    IncrementalMode,
)
from lakewright.storage.operations.changes.written_files import check_key_stands
from lakewright.storage.operations.read.expired_reads import told_if_expired
from lakewright.storage.operations.read.scan import DataSplit
from lakewright.storage.operations.state.keys import key_decoder
from lakewright.storage.operations.state.live_files import (
    deletions_by_bucket,
    grouped_by_bucket,
    readable_entries,
)
from lakewright.storage.operations.state.table_state import ANY_KEYS, state_at
from lakewright.storage.spec.index import DeletionVectorRange
from lakewright.storage.spec.manifest import DataFileMeta, EntryIdentity, ManifestEntry
from lakewright.storage.spec.merge_spec import MergeEngine
from lakewright.storage.spec.options import BucketMode
from lakewright.storage.spec.partition import Place
from lakewright.storage.spec.predicate import Predicate
from lakewright.storage.spec.snapshot import Snapshot

# --- states that differ -----------------------------------------------------------------------


_Deletions = tuple[tuple[str, DeletionVectorRange], ...]


@dataclass(frozen=True, slots=True)
class _State:
    """The files of one snapshot that a reader sees."""

    buckets: dict[Place, list[ManifestEntry]]
    deletions: dict[Place, _Deletions]
    # By file name: the position in its bucket, and the deletion vector.
    numbers: dict[Place, dict[str, int]]
    gone: dict[Place, dict[str, _Deletions]]

    @classmethod
    def of(
        cls, files: TableFiles, snapshot: Snapshot | None, predicate: Predicate | None
    ) -> _State:
        state = state_at(files, snapshot, takes=ANY_KEYS)
        live = state.entries_of(predicate=predicate)
        if snapshot is not None:
            with told_if_mixed(files, snapshot):
                then = files.at_schema(snapshot.schema_id)
                state_at(then, snapshot, takes=ANY_KEYS).check_looked_up(live)
        entries = readable_entries(files, live)
        buckets = grouped_by_bucket(entries)
        deletions = deletions_by_bucket(state.indexes)
        numbers = {
            place: {entry.file.file_name: number for number, entry in enumerate(found)}
            for place, found in buckets.items()
        }
        gone: dict[Place, dict[str, _Deletions]] = {}
        for place, marks in deletions.items():
            by_name = gone.setdefault(place, {})
            for mark in marks:
                by_name[mark[1].data_file] = (*by_name.get(mark[1].data_file, ()), mark)
        return cls(buckets, deletions, numbers, gone)

    def split(self, place: Place, names: Collection[str]) -> DataSplit:
        """The named files of a bucket, with their deletion vectors."""
        numbers, gone = self.numbers.get(place, {}), self.gone.get(place, {})
        wanted = sorted(numbers[name] for name in names if name in numbers)
        metas = tuple(self.buckets[place][number].file for number in wanted)
        marks = tuple(mark for file in metas for mark in gone.get(file.file_name, ()))
        partition, bucket = place
        return DataSplit(
            partition=partition, bucket=bucket, files=metas, merge=True, deletions=marks
        )

    def versions(self, place: Place) -> set[tuple[EntryIdentity, object]]:
        """Each file of a bucket, with everything that its visible rows depend on."""
        gone = {where.data_file: (name, where) for name, where in self.deletions.get(place, ())}
        return {
            (entry.identity, gone.get(entry.file.file_name))
            for entry in self.buckets.get(place, ())
        }


def difference_plan(
    files: TableFiles, before: Snapshot | None, after: Snapshot, predicate: Predicate | None
) -> ChangePlan:
    """Plan the buckets or key ranges that differ between two states.

    Raises:
        UnsupportedError: the keys changed since, and a column of them was dropped; or a client
            wrote rows under former keys.
    """
    keyed = files.schema.has_primary_key
    check_key_stands(files, {each.schema_id for each in (before or after, after)})
    keys_of: tuple[int, ...] = ()
    with told_if_expired(files, after.id, None if before is None else before.id):
        if keyed and have_other_keys(files, before, after):
            across = list(splits_across_keys(files, before, after, predicate))
            return _plan(files, before, after, across)
        if keyed:
            then = with_keys_of(files, after.schema_id)
            keys_of = () if then is files else (after.schema_id,)
            files = then
        old, new = _State.of(files, before, predicate), _State.of(files, after, predicate)
    places = sorted(old.buckets.keys() | new.buckets.keys())
    if not keyed and before is not None and _keys_of(files, before) != _keys_of(files, after):
        return _plan(files, before, after, list(_split_across_keys(places, old, new)))
    moving = _partitions_with_moving_keys(files, old, new)
    splits: list[ChangeSplit] = []
    for partition, group in groupby(places, lambda place: place[0]):
        if partition in moving:
            splits += _partition_splits(files, list(group), old, new)
        else:
            for place in group:
                splits += _bucket_splits(files, place, old, new)
    if keys_of:
        splits = [replace(split, keys_of=keys_of) for split in splits]
    return _plan(files, before, after, splits)


def _plan(
    files: TableFiles, before: Snapshot | None, after: Snapshot, splits: Sequence[ChangeSplit]
) -> ChangePlan:
    return ChangePlan(
        table=files.name,
        mode=IncrementalMode.DIFF,
        snapshot_ids=tuple(each.id for each in (before, after) if each is not None),
        splits=tuple(splits),
    )


def _keys_of(files: TableFiles, snapshot: Snapshot) -> tuple[str, ...]:
    return files.at_schema(snapshot.schema_id).schema.partition_keys


def _split_across_keys(places: Sequence[Place], old: _State, new: _State) -> Iterator[ChangeSplit]:
    """One split of all files that only one state has, since partitions of other keys do not meet.

    A restated file keeps its name, and is in another place with the same rows.
    """
    known = [
        {
            (identity.file_name, marks)
            for place in places
            for identity, marks in each.versions(place)
        }
        for each in (old, new)
    ]
    alike = {name for name, _ in known[0] & known[1]}
    parts = [
        tuple(
            split
            for place in places
            if (split := state.split(place, set(state.numbers.get(place, {})) - alike)).files
        )
        for state in (old, new)
    ]
    if any(parts):
        yield ChangeSplit(source=ChangeSource.DIFFERENCE, after=parts[1], before=parts[0])


def _partitions_with_moving_keys(files: TableFiles, old: _State, new: _State) -> set[bytes]:
    """Partitions in which a key may have moved to another bucket.

    These are rescaled partitions, and every partition with dynamic buckets, because an overwrite
    assigns dynamic buckets again.
    """
    counts: dict[bytes, set[int]] = {}
    for state in (old, new):
        for (partition, _), entries in state.buckets.items():
            counts.setdefault(partition, set()).update(entry.total_buckets for entry in entries)
    dynamic = files.options.bucket_mode is BucketMode.DYNAMIC
    return {partition for partition, found in counts.items() if dynamic or len(found) > 1}


def _partition_splits(
    files: TableFiles, places: Sequence[Place], old: _State, new: _State
) -> Iterator[ChangeSplit]:
    """One split of all buckets, so that moved keys meet; none if nothing differs."""
    wanted = {place: _differing(place, old, new) for place in places}
    if not any(wanted.values()):
        return
    if files.schema.is_keyed and not _later_rows_win(files):
        wanted = {place: set(_by_name(place, old, new)) for place in places}
    parts = [
        tuple(split for place in places if (split := state.split(place, wanted[place])).files)
        for state in (old, new)
    ]
    yield ChangeSplit(source=ChangeSource.DIFFERENCE, after=parts[1], before=parts[0])


def _bucket_splits(
    files: TableFiles, place: Place, old: _State, new: _State
) -> Iterator[ChangeSplit]:
    """A split for each key range with a differing file."""
    by_name = _by_name(place, old, new)
    differing = _differing(place, old, new)
    if not differing:
        return
    if not files.schema.is_keyed:
        yield _difference_split(place, old, new, differing)
        return
    considered = differing if _later_rows_win(files) else by_name.keys()
    for section in sections_of((by_name[name] for name in considered), key_decoder(files.schema)):
        names = {file.file_name for file in section.files}
        if names & differing:
            yield _difference_split(place, old, new, names)


def _difference_split(
    place: Place, old: _State, new: _State, names: Collection[str]
) -> ChangeSplit:
    return ChangeSplit(
        source=ChangeSource.DIFFERENCE,
        after=(new.split(place, names),),
        before=(old.split(place, names),),
    )


def _by_name(place: Place, old: _State, new: _State) -> dict[str, DataFileMeta]:
    return {
        entry.file.file_name: entry.file
        for state in (old, new)
        for entry in state.buckets.get(place, ())
    }


def _differing(place: Place, old: _State, new: _State) -> set[str]:
    """Files of a bucket that only one state has, or whose visible rows differ."""
    common = old.versions(place) & new.versions(place)
    return set(_by_name(place, old, new)) - {identity.file_name for identity, _ in common}


def _later_rows_win(files: TableFiles) -> bool:
    """Whether the newest row of a key wins, independent of older rows."""
    spec = files.merge_spec
    return (
        spec.engine is MergeEngine.DEDUPLICATE
        and not spec.sequence_fields
        and not files.options.deletion_vectors_enabled
    )
