"""What changed between two states of a table, row by row.

1. Turn the bounds into snapshots: two ids, two tags or two times, the first exclusive.
2. Choose the files. delta: those that APPEND snapshots of the range added. changelog:
   the changelog files of the range, also those that outlive their snapshots. diff: those
   in which the two states differ.
3. Deal them out to splits, which `change_read` reads: by bucket, for a difference by key
   range, or by partition where keys may have moved between buckets.

A diff of plain `deduplicate` tables leaves files alone that both states have, so a row
written again with equal values counts as changed; every other merge engine needs all
versions of a key, so whole key ranges are read wherever something differs.

Source: Paimon `IncrementalDeltaStartingScanner`, `IncrementalDiffStartingScanner`,
`IncrementalDiffSplitRead`, `AuditLogTable`.
"""

from __future__ import annotations

import datetime as dt
from collections.abc import Collection, Iterable, Iterator, Sequence
from dataclasses import dataclass
from enum import Enum
from itertools import groupby, pairwise

from lakewright.storage.errors import (
    CorruptionError,
    HistoryGap,
    InvalidRequestError,
    SnapshotNotFound,
    TagNotFound,
)
from lakewright.storage.files.table_files import TableFiles
from lakewright.storage.lsm.sections import sections_of
from lakewright.storage.operations.changes.change_read import ChangeSource, ChangeSplit
from lakewright.storage.operations.read.expired_reads import told_if_expired
from lakewright.storage.operations.read.scan import DataSplit, plan_scan
from lakewright.storage.operations.state.keys import key_decoder
from lakewright.storage.operations.state.live_files import (
    deletions_by_bucket,
    grouped_by_bucket,
    index_entries,
    live_entries,
    readable_entries,
)
from lakewright.storage.spec.index import DeletionVectorRange
from lakewright.storage.spec.manifest import DataFileMeta, EntryIdentity, FileKind, ManifestEntry
from lakewright.storage.spec.merge_spec import MergeEngine
from lakewright.storage.spec.option_values import MIB
from lakewright.storage.spec.options import BucketMode
from lakewright.storage.spec.predicate import Predicate, matches, only_on
from lakewright.storage.spec.snapshot import CommitKind, Snapshot
from lakewright.storage.spec.supported_options import Use, check_supported

# A snapshot by its id, a tag by its name (or an id as text), a time (UTC where it has no zone).
Bound = int | str | dt.datetime

_EPOCH = dt.datetime(1970, 1, 1, tzinfo=dt.UTC)
# Files that need not meet are read in tasks of about so many bytes.
_TASK_BYTES = 128 * MIB


class IncrementalMode(Enum):
    """Where changes come from; `auto` takes changelogs where the table writes them, else deltas.

    Between tags it is the difference of the two states.
    """

    AUTO = "auto"
    DELTA = "delta"
    CHANGELOG = "changelog"
    DIFF = "diff"


@dataclass(frozen=True, slots=True, kw_only=True)
class ChangePlan:
    """The files that hold the changes; `snapshot_ids` are those whose changes are read.

    For a difference they are the two that are compared, for a state the one.
    """

    table: str
    mode: IncrementalMode
    snapshot_ids: tuple[int, ...]
    splits: tuple[ChangeSplit, ...]

    @property
    def files(self) -> int:
        return sum(len(split.metas) for split in self.splits)

    @property
    def bytes(self) -> int:
        return sum(file.file_size for split in self.splits for file in split.metas)

    @property
    def rows(self) -> int:
        return sum(file.row_count for split in self.splits for file in split.metas)


# --- planning ---------------------------------------------------------------------------------


def incremental_mode(mode: str | IncrementalMode) -> IncrementalMode:
    """The mode a caller names.

    Raises:
        InvalidRequestError: it is none.
    """
    try:
        return IncrementalMode(mode)
    except ValueError:
        known = ", ".join(each.value for each in IncrementalMode)
        raise InvalidRequestError(f"incremental mode {mode!r} is none of {known}") from None


def plan_incremental(
    files: TableFiles,
    start: Bound,
    end: Bound,
    *,
    mode: IncrementalMode = IncrementalMode.AUTO,
    predicate: Predicate | None = None,
) -> ChangePlan:
    """Files with the changes after `start` up to and with `end`.

    Two texts name tags if both do, else snapshots by their ids.

    Raises:
        InvalidRequestError: the bounds are of two kinds or the wrong way round, or changelogs
            are asked for and there are none.
        SnapshotNotFound: one of the snapshots was never there, or is expired.
        HistoryGap: some between them are missing.
        TagNotFound: a text is neither a tag nor a number.
    """
    check_supported(files.schema, Use.READ, table=files.name)
    if isinstance(start, dt.datetime) and isinstance(end, dt.datetime):
        return _between_times(files, _millis(start), _millis(end), mode, predicate)
    if isinstance(start, dt.datetime) or isinstance(end, dt.datetime):
        raise InvalidRequestError(
            f"changes of {files.name} are read between two snapshots, two tags or two times, "
            f"not between {start} and {end}"
        )
    tags = set(files.references.tag_names())
    if isinstance(start, str) and isinstance(end, str) and {start, end} <= tags:
        return _between_tags(files, start, end, mode, predicate)
    first, last = _snapshot_ids(files, (start, end), tags)
    return _between_ids(files, first, last, mode, predicate)


def plan_audit_log(
    files: TableFiles, snapshot: Snapshot | None, predicate: Predicate | None = None
) -> ChangePlan:
    """The rows of one state, and the deletions that its files still hold."""
    check_supported(files.schema, Use.READ, table=files.name)
    plan = plan_scan(files, snapshot, predicate)
    splits = [
        ChangeSplit(
            source=ChangeSource.STATE if split.merge else ChangeSource.WRITTEN, after=(split,)
        )
        for split in plan.splits
    ]
    return ChangePlan(
        table=files.name,
        mode=IncrementalMode.AUTO,
        snapshot_ids=() if snapshot is None else (snapshot.id,),
        splits=tuple(splits),
    )


def _millis(time: dt.datetime) -> int:
    moment = time.replace(tzinfo=dt.UTC) if time.tzinfo is None else time
    return (moment - _EPOCH) // dt.timedelta(milliseconds=1)


def _snapshot_ids(files: TableFiles, bounds: Sequence[int | str], tags: set[str]) -> list[int]:
    """Bounds that are not both tags, as snapshot ids."""
    there = ", ".join(sorted(tags)) or "none"
    texts = [each for each in bounds if isinstance(each, str) and not each.isdecimal()]
    unknown = [each for each in texts if each not in tags]
    if unknown:
        raise TagNotFound(
            f"{files.name} has no tag {unknown[0]!r}, and it is no snapshot id; "
            f"tags there: {there}",
            table=files.name,
        )
    if texts:
        raise InvalidRequestError(
            f"{texts[0]} is a tag of {files.name} and the other bound is none; name two tags "
            f"(there are {there}) or two snapshots"
        )
    return [int(each) for each in bounds]


def _between_tags(
    files: TableFiles, start: str, end: str, mode: IncrementalMode, predicate: Predicate | None
) -> ChangePlan:
    before, after = files.references.tag(start).snapshot, files.references.tag(end).snapshot
    if after.id < before.id:
        raise InvalidRequestError(
            f"tag {end} of {files.name} is snapshot {after.id}, before tag {start}, which is "
            f"snapshot {before.id}; name the earlier one first"
        )
    if mode in (IncrementalMode.DELTA, IncrementalMode.CHANGELOG):
        return _between_ids(files, before.id, after.id, mode, predicate)
    if before.id == after.id:
        return _nothing(files, IncrementalMode.DIFF)
    return _difference(files, before, after, predicate)


def _between_ids(
    files: TableFiles, start: int, end: int, mode: IncrementalMode, predicate: Predicate | None
) -> ChangePlan:
    if end < start:
        raise InvalidRequestError(
            f"changes of {files.name} from snapshot {start} to {end}: name the earlier one first"
        )
    mode = _resolved(files, mode)
    earliest, latest = files.snapshots.earliest_id(), files.snapshots.latest_id()
    if earliest is None or latest is None or start == end:
        return _nothing(files, mode)
    if mode is IncrementalMode.DIFF:
        before, after = files.snapshots.read(start), files.snapshots.read(end)
        return _difference(files, before, after, predicate)
    kept = _kept_changelogs(files, mode)
    earliest = min([earliest, *kept])
    # The first bound is exclusive, so it may be the snapshot before the earliest.
    if start < earliest - 1 or end > latest:
        raise _expired(files, (start, end), earliest)
    there = {*kept, *files.snapshots.ids()}
    between = sorted(each for each in there if start < each <= end)
    _check_no_gap(files, between, (start, end), mode)
    snapshots = [kept.get(each) or files.snapshots.read(each) for each in range(start + 1, end + 1)]
    return _written(files, snapshots, mode, predicate)


def _expired(files: TableFiles, bounds: tuple[int, int], earliest: int) -> SnapshotNotFound:
    latest = files.snapshots.latest_id()
    return SnapshotNotFound(
        f"changes of {files.name} from snapshot {bounds[0]} to {bounds[1]} cannot be read: it has "
        f"snapshots {earliest} to {latest}, so changes from {earliest - 1} to {latest}",
        table=files.name,
    )


def _between_times(
    files: TableFiles,
    start_ms: int,
    end_ms: int,
    mode: IncrementalMode,
    predicate: Predicate | None,
) -> ChangePlan:
    if end_ms < start_ms:
        raise InvalidRequestError(
            f"changes of {files.name} from {start_ms} ms to {end_ms} ms since the epoch: name the "
            "earlier time first"
        )
    mode = _resolved(files, mode)
    snapshots = [
        *_kept_changelogs(files, mode).values(),
        *reversed(list(files.snapshots.newest_first())),
    ]
    if (
        not snapshots
        or start_ms == end_ms
        or start_ms > snapshots[-1].time_millis
        or end_ms < snapshots[0].time_millis
    ):
        return _nothing(files, mode)
    before, after = _not_after(snapshots, start_ms), _not_after(snapshots, end_ms)
    assert after is not None
    if mode is IncrementalMode.DIFF:
        if before is None and snapshots[0].id > 1:
            # What was there before the earliest snapshot is not known any more.
            before = snapshots[0]
        return _difference(files, before, after, predicate)
    first = 0 if before is None else before.id + 1
    told = [each for each in snapshots if first <= each.id <= after.id]
    start = told[0].id - 1 if before is None and told else first - 1
    _check_no_gap(files, [each.id for each in told], (start, after.id), mode)
    return _written(files, told, mode, predicate)


def _check_no_gap(
    files: TableFiles, ids: Sequence[int], bounds: tuple[int, int], mode: IncrementalMode
) -> None:
    """Whether the snapshots after the first bound, up to and with the last, are all there.

    Raises:
        HistoryGap: what some of them changed is not known.
        SnapshotNotFound: they expired since somebody looked.
    """
    start, end = bounds
    for before, following in pairwise([start, *ids, end + 1]):
        if following == before + 1:
            continue
        earliest = min(
            [*files.snapshots.ids()[:1], *_kept_changelogs(files, mode)], default=end + 1
        )
        if before + 1 < earliest:
            raise _expired(files, bounds, earliest)
        lost = f"{before + 1}" if following == before + 2 else f"{before + 1} to {following - 1}"
        raise HistoryGap(
            f"changes of {files.name} from snapshot {start} to {end} cannot be read: of the "
            f"snapshots between them {lost} is missing, and so is what changed there; read with "
            f"mode diff, or up to {before} and from {following} on",
            table=files.name,
            missing=(before + 1, following - 1),
        )


def _kept_changelogs(files: TableFiles, mode: IncrementalMode) -> dict[int, Snapshot]:
    """Changelogs that outlive their snapshots, oldest first; only their changes are left."""
    if mode is not IncrementalMode.CHANGELOG:
        return {}
    earliest = files.snapshots.earliest_id()
    found = files.references.changelogs()
    return {each.id: each for each in found if earliest is None or each.id < earliest}


def _not_after(snapshots: Sequence[Snapshot], time_ms: int) -> Snapshot | None:
    older = [each for each in snapshots if each.time_millis <= time_ms]
    return older[-1] if older else None


def _resolved(files: TableFiles, mode: IncrementalMode) -> IncrementalMode:
    if mode is not IncrementalMode.AUTO:
        return mode
    return IncrementalMode.CHANGELOG if _writes_changelogs(files) else IncrementalMode.DELTA


def _writes_changelogs(files: TableFiles) -> bool:
    return files.schema.options.get("changelog-producer", "none").lower() != "none"


def _nothing(files: TableFiles, mode: IncrementalMode) -> ChangePlan:
    return ChangePlan(table=files.name, mode=mode, snapshot_ids=(), splits=())


# --- files that were written ------------------------------------------------------------------


def _written(
    files: TableFiles,
    snapshots: Sequence[Snapshot],
    mode: IncrementalMode,
    predicate: Predicate | None,
) -> ChangePlan:
    """Files that the snapshots added, in the order of their commits."""
    entries: list[ManifestEntry] = []
    if mode is IncrementalMode.CHANGELOG:
        snapshots = [each for each in snapshots if each.commit_kind is not CommitKind.OVERWRITE]
        _check_changelogs(files, snapshots)
        lists = [(each.id, each.changelog_manifest_list) for each in snapshots]
    else:
        snapshots = [each for each in snapshots if each.commit_kind is CommitKind.APPEND]
        lists = [(each.id, each.delta_manifest_list) for each in snapshots]
    for snapshot_id, name in lists:
        if name is not None:
            with told_if_expired(files, snapshot_id, changes=True):
                found = list(files.manifests.entries(files.manifests.read_list(name)))
            _check_only_added(files, snapshot_id, found)
            entries += found
    wanted = _in_partitions(files, entries, predicate)
    # Rows in postponed buckets wait for the compaction that shows them to readers.
    wanted = [entry for entry in wanted if entry.bucket >= 0]
    return ChangePlan(
        table=files.name,
        mode=mode,
        snapshot_ids=tuple(each.id for each in snapshots),
        splits=tuple(_written_splits(wanted)),
    )


def _check_changelogs(files: TableFiles, snapshots: Sequence[Snapshot]) -> None:
    if _writes_changelogs(files) or any(each.changelog_manifest_list for each in snapshots):
        return
    raise InvalidRequestError(
        f"{files.name} writes no changelogs (option changelog-producer), and there are none "
        "between those snapshots; read with mode delta or diff"
    )


def _check_only_added(files: TableFiles, snapshot_id: int, found: Iterable[ManifestEntry]) -> None:
    removed = [entry.file.file_name for entry in found if entry.kind is not FileKind.ADD]
    if removed:
        raise CorruptionError(
            f"snapshot {snapshot_id} of {files.name} removes {removed[0]} where it should only "
            "add files; read with mode diff",
            table=files.name,
        )


def _in_partitions(
    files: TableFiles, entries: Iterable[ManifestEntry], predicate: Predicate | None
) -> list[ManifestEntry]:
    """Entries of the partitions that a filter leaves."""
    on_partition = only_on(predicate, frozenset(files.schema.partition_keys))
    if on_partition is None:
        return list(entries)
    keys = files.schema.partition_keys
    kept: dict[bytes, bool] = {}
    for entry in (entries := list(entries)):
        if entry.partition not in kept:
            row = dict(zip(keys, files.partition_values(entry.partition), strict=True))
            kept[entry.partition] = matches(on_partition, row) is True
    return [entry for entry in entries if kept[entry.partition]]


def _written_splits(entries: Iterable[ManifestEntry]) -> Iterator[ChangeSplit]:
    """Files of each bucket in tasks of some size, the files of a bucket in their order."""
    ordered = sorted(entries, key=lambda entry: (entry.partition, entry.bucket))
    for (partition, bucket), group in groupby(ordered, lambda each: (each.partition, each.bucket)):
        chosen: list[DataFileMeta] = []
        size = 0
        for entry in group:
            chosen.append(entry.file)
            size += entry.file.file_size
            if size >= _TASK_BYTES:
                yield _written_split(partition, bucket, chosen)
                chosen, size = [], 0
        if chosen:
            yield _written_split(partition, bucket, chosen)


def _written_split(partition: bytes, bucket: int, chosen: Sequence[DataFileMeta]) -> ChangeSplit:
    split = DataSplit(partition=partition, bucket=bucket, files=tuple(chosen), merge=False)
    return ChangeSplit(source=ChangeSource.WRITTEN, after=(split,))


# --- states that differ -----------------------------------------------------------------------

_Place = tuple[bytes, int]
_Deletions = tuple[tuple[str, DeletionVectorRange], ...]


@dataclass(frozen=True, slots=True)
class _State:
    """The files that a reader of one snapshot sees."""

    buckets: dict[_Place, list[ManifestEntry]]
    deletions: dict[_Place, _Deletions]
    # Where a file is among those of its bucket, and what is deleted from it, by its name.
    numbers: dict[_Place, dict[str, int]]
    gone: dict[_Place, dict[str, _Deletions]]

    @classmethod
    def of(
        cls, files: TableFiles, snapshot: Snapshot | None, predicate: Predicate | None
    ) -> _State:
        entries = readable_entries(files, live_entries(files, snapshot, predicate=predicate))
        buckets = grouped_by_bucket(entries)
        deletions = deletions_by_bucket(index_entries(files, snapshot))
        numbers = {
            place: {entry.file.file_name: number for number, entry in enumerate(found)}
            for place, found in buckets.items()
        }
        gone: dict[_Place, dict[str, _Deletions]] = {}
        for place, marks in deletions.items():
            by_name = gone.setdefault(place, {})
            for mark in marks:
                by_name[mark[1].data_file] = (*by_name.get(mark[1].data_file, ()), mark)
        return cls(buckets, deletions, numbers, gone)

    def split(self, place: _Place, names: Collection[str]) -> DataSplit:
        """Those files of a bucket whose names are wanted, with what is deleted from them."""
        numbers, gone = self.numbers.get(place, {}), self.gone.get(place, {})
        wanted = sorted(numbers[name] for name in names if name in numbers)
        metas = tuple(self.buckets[place][number].file for number in wanted)
        marks = tuple(mark for file in metas for mark in gone.get(file.file_name, ()))
        partition, bucket = place
        return DataSplit(
            partition=partition, bucket=bucket, files=metas, merge=True, deletions=marks
        )

    def versions(self, place: _Place) -> set[tuple[EntryIdentity, object]]:
        """Each file of a bucket with all that its rows depend on."""
        gone = {where.data_file: (name, where) for name, where in self.deletions.get(place, ())}
        return {
            (entry.identity, gone.get(entry.file.file_name))
            for entry in self.buckets.get(place, ())
        }


def _difference(
    files: TableFiles, before: Snapshot | None, after: Snapshot, predicate: Predicate | None
) -> ChangePlan:
    with told_if_expired(files, after.id, None if before is None else before.id):
        old, new = _State.of(files, before, predicate), _State.of(files, after, predicate)
    places = sorted(old.buckets.keys() | new.buckets.keys())
    moving = _partitions_with_moving_keys(files, old, new)
    splits: list[ChangeSplit] = []
    for partition, group in groupby(places, lambda place: place[0]):
        if partition in moving:
            splits += _partition_splits(files, list(group), old, new)
        else:
            for place in group:
                splits += _bucket_splits(files, place, old, new)
    return ChangePlan(
        table=files.name,
        mode=IncrementalMode.DIFF,
        snapshot_ids=tuple(each.id for each in (before, after) if each is not None),
        splits=tuple(splits),
    )


def _partitions_with_moving_keys(files: TableFiles, old: _State, new: _State) -> set[bytes]:
    """Partitions where a key may be in another bucket than before.

    Those are the rescaled ones, and all of dynamic buckets, which an overwrite deals out anew.
    """
    counts: dict[bytes, set[int]] = {}
    for state in (old, new):
        for (partition, _), entries in state.buckets.items():
            counts.setdefault(partition, set()).update(each.total_buckets for each in entries)
    dynamic = files.options.bucket_mode is BucketMode.DYNAMIC
    return {partition for partition, found in counts.items() if dynamic or len(found) > 1}


def _partition_splits(
    files: TableFiles, places: Sequence[_Place], old: _State, new: _State
) -> Iterator[ChangeSplit]:
    """One split of all buckets, for keys to meet wherever they are; none if nothing differs."""
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
    files: TableFiles, place: _Place, old: _State, new: _State
) -> Iterator[ChangeSplit]:
    """A split for each range of keys in which something differs."""
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
    place: _Place, old: _State, new: _State, names: Collection[str]
) -> ChangeSplit:
    return ChangeSplit(
        source=ChangeSource.DIFFERENCE,
        after=(new.split(place, names),),
        before=(old.split(place, names),),
    )


def _by_name(place: _Place, old: _State, new: _State) -> dict[str, DataFileMeta]:
    return {
        entry.file.file_name: entry.file
        for state in (old, new)
        for entry in state.buckets.get(place, ())
    }


def _differing(place: _Place, old: _State, new: _State) -> set[str]:
    """Files of a bucket that only one state has, or that hold other rows in the other."""
    common = old.versions(place) & new.versions(place)
    return set(_by_name(place, old, new)) - {identity.file_name for identity, _ in common}


def _later_rows_win(files: TableFiles) -> bool:
    """Whether a row is what its key holds, no matter which rows were there before it."""
    spec = files.merge_spec
    return (
        spec.engine is MergeEngine.DEDUPLICATE
        and not spec.sequence_fields
        and not files.options.deletion_vectors_enabled
    )
