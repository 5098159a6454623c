"""Checks that what snapshots did still stands, so that taking it back gives the right rows.

The result must be what the table would hold if the snapshots had never been made and all other
commits had. Files of an append table are independent of each other, so this is true if

* every file that the snapshots added is live, with the deletions that it had,
* no other commit between the snapshots built on such a file,
* no other commit overwrote the partitions that rows come back to,
* files of a partition agree on its bucket count, and
* no later file holds columns of rows that go or come back, where columns are updated alone.

In a bucket with keys, the files of different levels and their sequence numbers decide which row
wins. A file that goes leaves the order of the others as it is. Where files come back, other commits
may only have added files to level 0, whose sequence numbers are above those of all files that come
back, and none of these may have gone since. So each level holds what it held before, and level 0
more. These files are copied under new names too: a compaction under way that planned to lift them
above the older rows that come back then finds them gone, and leaves the bucket out.

In dynamic buckets, each key of the result belongs to one bucket (`hashes.py`).

A later commit and its revert are no other commits: together they did nothing (`taken_back.py`).
Files are compared by their first names (`copies.py`), since such a revert made copies of them.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace

import numpy as np

from lakewright.storage.errors import NotRevertible, UnsupportedError
from lakewright.storage.files.table_files import TableFiles
from lakewright.storage.operations.revert.copies import (
    Step,
    by_first,
    first_identity,
    indexes_by_first,
)
from lakewright.storage.operations.revert.hashes import shared_by, with_returned
from lakewright.storage.operations.revert.net_change import NetChange, named, without_hashes
from lakewright.storage.operations.revert.taken_back import cancelled, snapshots_since
from lakewright.storage.operations.rewrite.rescale import with_bucket_option
from lakewright.storage.operations.state.assign_buckets import hash_indexes, left_behind
from lakewright.storage.operations.state.file_schemas import FileSchemas
from lakewright.storage.operations.state.live_files import index_entries
from lakewright.storage.operations.state.table_state import TableState
from lakewright.storage.spec.file_names import first_name
from lakewright.storage.spec.index import IndexEntry
from lakewright.storage.spec.manifest import EntryIdentity, FileKind, ManifestEntry
from lakewright.storage.spec.options import BucketMode
from lakewright.storage.spec.partition import Place
from lakewright.storage.spec.snapshot import CommitKind, Snapshot

_Wanted = Callable[[ManifestEntry], bool]


@dataclass(frozen=True, kw_only=True)
class Standing:
    """The parts of a commit that takes a change back, on top of one snapshot; entries are ADDs.

    `to_copy` come back as copies, `to_rename` are live and become copies, `moved` come back at the
    level that they had. `hashes` are to be the hash indexes of buckets instead of
    `replaced_hashes`. `bucket_option` is what the option `bucket` must be set to first, since a
    rescale of the whole table changed it: writers refuse partitions that it leaves behind.
    """

    removed: tuple[ManifestEntry, ...]
    moved: tuple[ManifestEntry, ...]
    to_copy: tuple[ManifestEntry, ...]
    to_rename: tuple[ManifestEntry, ...]
    removed_indexes: tuple[IndexEntry, ...]
    indexes_to_copy: tuple[IndexEntry, ...]
    hashes: Mapping[Place, np.ndarray] = field(default_factory=dict)
    replaced_hashes: tuple[IndexEntry, ...] = ()
    bucket_option: int | None = None


def standing(state: TableState, net: NetChange) -> Standing:
    """What taking a change back does on top of a state that has a snapshot.

    Raises:
        NotRevertible: a later commit stands in the way; the message names it and the way out.
        UnsupportedError: a file to come back is not the table's own, or waits for its bucket.
    """
    return _Judge(state, net).standing()


class _Judge:
    """Compares a change with one snapshot; used once."""

    def __init__(self, state: TableState, net: NetChange) -> None:
        assert state.snapshot is not None
        self.state, self.files, self.latest = state, state.files, state.snapshot
        self.net = net
        live = state.entries_of(net.rows) if net.rows else []
        self.live = by_first(live)
        if len(self.live) < len(live):
            raise self._error(None, "added a file beside a copy of it")
        own = [index for index in state.indexes if index.partition in net.rows]
        self.hash_indexes = hash_indexes(own)
        self.indexes = indexes_by_first(without_hashes(own))
        self.to_copy = net.to_return

    def standing(self) -> Standing:
        net = self.net
        _check_own(self.files, self.to_copy)
        self._check_files()
        self._check_indexes()
        self._check_overwrites()
        self._check_bucket_counts()
        if self.files.options.data_evolution_enabled:
            self._check_columns()
        bucket_option = self._bucket_option()
        renamed = self._later_in_level_0() if self.files.schema.is_keyed else []
        self._check_history()
        self._check_deletions(renamed)
        hashes, replaced = self._hashes()
        return Standing(
            removed=tuple(self.live[at] for at in net.added),
            moved=tuple(self._moved()),
            to_copy=tuple(self.to_copy),
            to_rename=tuple(renamed),
            removed_indexes=tuple(self.indexes[at] for at in net.new_indexes),
            indexes_to_copy=tuple(self._indexes_to_copy()),
            hashes=hashes,
            replaced_hashes=tuple(replaced),
            bucket_option=bucket_option,
        )

    def _indexes_to_copy(self) -> Iterable[IndexEntry]:
        """Indexes to come back, with deletions of what their files became, if these are there."""
        there = [each for at, each in self.live.items() if at not in self.net.added]
        names = {
            (each.place, _first_name(each)): each.file.file_name for each in (*there, *self.to_copy)
        }
        for index in self.net.removed_indexes.values():
            vectors = index.file.deletion_vectors
            named = tuple(
                replace(each, data_file=names[index.place, first_name(each.data_file)])
                for each in vectors or ()
                if (index.place, first_name(each.data_file)) in names
            )
            if vectors and named:
                yield replace(index, file=replace(index.file, deletion_vectors=named))
            elif not vectors:
                yield index

    def _moved(self) -> Iterable[ManifestEntry]:
        """Live files that only changed their level, at the level of before."""
        live = {named(at): self.live[at].file for at in self.net.added}
        for at, entry in self.net.removed.items():
            if (file := live.get(named(at))) is not None:
                moved = replace(
                    entry.file,
                    file_name=file.file_name,
                    extra_files=file.extra_files,
                    external_path=file.external_path,
                )
                yield replace(entry, file=moved)

    # --- checks -------------------------------------------------------------------------------

    def _check_files(self) -> None:
        gone = [each for each in self.net.added if each not in self.live]
        if gone:
            names = {each.file_name for each in gone}
            raise self._blocked(
                lambda entry: entry.kind is FileKind.DELETE and _first_name(entry) in names,
                f"replaced or removed {_files(names)} of it",
            )
        back = {each.file_name for each in self.net.removed if each in self.live}
        if back:
            raise self._blocked(
                lambda entry: entry.kind is FileKind.ADD and _first_name(entry) in back,
                f"brought {_files(back)} back",
            )

    def _check_overwrites(self) -> None:
        """Check that no later commit replaced rows of a partition that rows come back to."""
        if self.net.keeps_rows or not self.net.removed:
            return
        rows = {entry.partition for entry in self.net.removed.values()}
        # Files that come back were live until then, so earlier overwrites left them in the table.
        after = min(
            snapshot.id
            for snapshot, step in zip(self.net.snapshots, self.net.steps, strict=True)
            if step.removed.keys() & self.net.removed.keys()
        )
        kinds = (CommitKind.OVERWRITE,)
        by = self._by(lambda entry: entry.partition in rows, kinds, after=after)
        if by is not None:
            which = self.files.partitions.of_row(min(rows)).named
            raise self._error(by, f"overwrote or deleted rows of {which}")
        # An overwrite of the whole table tells nothing of partitions that were empty then.
        by = self._by(lambda entry: entry.kind is FileKind.ADD, kinds, after=after)
        if by is not None:
            raise self._error(by, "overwrote rows, perhaps of the whole table")

    def _check_bucket_counts(self) -> None:
        counts = {
            entry.partition: entry.total_buckets
            for entry in self.net.removed.values()
            if entry.total_buckets > 0
        }
        others = [
            entry
            for at, entry in self.live.items()
            if at not in self.net.added
            and 0 < entry.total_buckets != counts.get(entry.partition, entry.total_buckets)
        ]
        if others:
            names = set(map(_first_name, others))
            raise self._blocked(
                lambda entry: entry.kind is FileKind.ADD and _first_name(entry) in names,
                f"wrote {_files(names)} in {others[0].total_buckets} buckets, and the files to "
                f"come back have {counts[others[0].partition]}",
            )

    def _check_columns(self) -> None:
        """Check that no later file holds columns of rows that go, or that come back.

        Such a file has values of all its rows, of those that its commit left alone as well.
        """
        columns = _Columns(self.files)
        stays = [each for at, each in self.live.items() if at not in self.net.added]
        by_partition: dict[bytes, list[ManifestEntry]] = {}
        for entry in stays:
            by_partition.setdefault(entry.partition, []).append(entry)
        back = {(each.partition, columns.rows_of(each)) for each in self.to_copy}
        turned = [self.live[at] for at in self.net.added]
        if not self.net.keeps_rows:
            turned += self.to_copy
        names = {
            later.file.file_name
            for entry in turned
            for later in by_partition.get(entry.partition, ())
            if columns.share_rows(entry, later)
            and (
                (entry.partition, columns.rows_of(later)) not in back
                if self.net.keeps_rows
                else columns.built_on(later, entry, by_partition[entry.partition])
            )
        }
        if names:
            firsts = set(map(first_name, names))
            raise self._blocked(
                lambda entry: entry.kind is FileKind.ADD and _first_name(entry) in firsts,
                f"wrote columns of the same rows to {_files(names)}",
            )

    def _bucket_option(self) -> int | None:
        """The option that the buckets to come back agreed with, if it has another value now."""
        files = self.files
        if files.options.bucket_mode is not BucketMode.FIXED or not self.to_copy:
            return None
        if not left_behind(files, self.to_copy):
            return None
        count = self.to_copy[0].total_buckets
        behind = left_behind(
            with_bucket_option(files, count),
            [
                *self.to_copy,
                *(
                    entry
                    for entry in self.state.entries
                    if first_identity(entry.identity) not in self.net.added
                ),
            ],
        )
        if behind:
            raise self._blocked(
                lambda entry: entry.kind is FileKind.ADD and entry.partition in behind,
                f"wrote {files.partitions.of_row(min(behind)).named} with another number "
                f"of buckets than {count}, which the option bucket was and would be again",
            )
        return count

    def _later_in_level_0(self) -> list[ManifestEntry]:
        """Check the levels of each bucket that files return to; its other files of level 0."""
        found: list[ManifestEntry] = []
        for place in sorted({entry.place for entry in self.net.removed.values()}):
            expected = _at(self.net.before, place) - _at(self.net.removed, place)
            expected |= _at(self.net.added, place)
            here = _at(self.live, place)
            lacking = {each.file_name for each in expected - here}
            if lacking:
                raise self._blocked(
                    lambda entry, names=lacking: (  # type: ignore[misc]
                        entry.kind is FileKind.DELETE and _first_name(entry) in names
                    ),
                    f"replaced {_files(lacking)}, which are in the same bucket",
                )
            self._check_later(here - expected, self._newest(place))
            stays = here - _at(self.net.added, place)
            found += (self.live[each] for each in sorted(stays, key=_name) if each.level == 0)
        return found

    def _check_history(self) -> None:
        """Check what is not live any more: the files of others, and files between the snapshots.

        No other commit may have built on files that the snapshots added. In a bucket with keys that
        files come back to, no later file may have gone since, for a compaction leaves out deletions
        that delete nothing; and a file that comes back must be newer than those before it.
        """
        others = {each.id: each for each in self._others()}
        steps = dict(
            zip((snapshot.id for snapshot in self.net.snapshots), self.net.steps, strict=True)
        )
        last = self.net.snapshots[-1].id
        keyed = self.files.schema.is_keyed
        ours: set[EntryIdentity] = set()
        newest: dict[Place, int] = {}
        for number in sorted(others.keys() | steps.keys()):
            if number in steps:
                step = steps[number]
                ours = (ours - step.removed.keys()) | step.added.keys()
                for at, entry in step.removed.items() if keyed else ():
                    if at in self.net.removed:
                        numbers = newest.get(entry.place, -1), entry.file.max_sequence_number
                        newest[entry.place] = max(numbers)
                continue
            by = others[number]
            if number > last and (not newest or by.commit_kind is CommitKind.APPEND):
                continue
            manifests = self.files.manifests
            step = Step.of(manifests.entries(manifests.read_delta_list(by)))
            if taken := ours & step.removed.keys():
                raise self._error(by, f"replaced or removed {_files(map(_name, taken))} of it")
            gone = {_name(at) for at, entry in step.removed.items() if entry.place in newest}
            if gone:
                raise self._error(by, f"replaced {_files(gone)}, which were in the same bucket")
            for at, entry in step.added.items():
                if at in self.net.removed and entry.place in newest:
                    self._check_newer({at}, {at: entry}, newest[entry.place])

    def _newest(self, place: Place) -> int:
        """The highest sequence number of files that come back to a bucket."""
        back = (each.file for each in self.net.removed.values() if each.place == place)
        return max((file.max_sequence_number for file in back), default=-1)

    def _check_later(self, later: Collection[EntryIdentity], newest: int) -> None:
        """Check files of a bucket that other commits added."""
        lifted = {each for each in later if each.level > 0}
        if lifted:
            raise self._blocked(
                lambda entry: (
                    entry.kind is FileKind.ADD and first_identity(entry.identity) in lifted
                ),
                f"compacted later rows of the same bucket, to {_files(map(_name, lifted))}",
            )
        self._check_newer(later, self.live, newest)

    def _check_newer(
        self,
        later: Collection[EntryIdentity],
        files: Mapping[EntryIdentity, ManifestEntry],
        newest: int,
    ) -> None:
        """Check that files that other commits added hold later rows than those that come back."""
        mixed = {each for each in later if files[each].file.min_sequence_number <= newest}
        if mixed:
            raise self._blocked(
                lambda entry: (
                    entry.kind is FileKind.ADD and first_identity(entry.identity) in mixed
                ),
                f"wrote {_files(map(_name, mixed))} to the same bucket, whose sequence numbers "
                f"begin at or below {newest}, the last number of the rows to come back, so which "
                "row of a key is newer is unknown",
            )

    # --- index files --------------------------------------------------------------------------

    def _check_indexes(self) -> None:
        """Check that index files that the snapshots wrote are there, and free their slots."""
        left = {entry.slot for entry in self.indexes.keys() - self.net.new_indexes.keys()}
        taken = any(entry.slot in left for entry in self.net.removed_indexes)
        if taken or not self.net.new_indexes.keys() <= self.indexes.keys():
            raise self._index_changed("changed the index files of the same buckets")

    def _check_deletions(self, renamed: Sequence[ManifestEntry]) -> None:
        """Check that no deletion of a row is lost, and that none came since."""
        stay = set(map(named, self.net.added))
        if _vectors(self.indexes, stay) != _vectors(self.net.indexes_after, stay):
            raise self._index_changed("deleted rows of files that it wrote")
        copied = set(map(named, by_first([*self.to_copy, *renamed])))
        known = {*self.net.indexes_before, *self.indexes} - self.net.removed_indexes.keys()
        if _vectors(known, copied):
            raise UnsupportedError(
                f"a deletion vector of {self.files.name} marks rows of files to come back, in an "
                "index file that stays as it is; compact the table, or roll back instead"
            )

    def _hashes(self) -> tuple[dict[Place, np.ndarray], list[IndexEntry]]:
        """The hash indexes of buckets to be written, and those that go.

        Raises:
            NotRevertible: a key would lie in two buckets.
        """
        new: dict[Place, np.ndarray] = {}
        gone: list[IndexEntry] = []
        for row, back in hash_indexes(self.net.hash_indexes).items():
            present = self.hash_indexes.get(row, ())
            if set(back) <= set(present):
                continue
            now = self._read_hashes(present)
            stay = [entry for at, entry in self.live.items() if at not in self.net.added]
            filled = {entry.bucket for entry in (*stay, *self._moved()) if entry.partition == row}
            hashes = with_returned(now, self._read_hashes(back), filled)
            if shared := shared_by(hashes):
                raise self._shared(row, shared)
            changed = {
                bucket
                for bucket, own in hashes.items()
                if not np.array_equal(own, np.unique(now.get(bucket, own[:0])))
            }
            gone += [entry for entry in present if entry.bucket in changed]
            new |= {Place(row, each): hashes[each] for each in changed if len(hashes[each])}
        return new, gone

    def _read_hashes(self, indexes: Iterable[IndexEntry]) -> dict[int, np.ndarray]:
        """The hashes of each bucket, of all its indexes."""
        found: dict[int, np.ndarray] = {}
        for index in indexes:
            hashes = self.files.indexes.read_hash_index(index.file)
            found[index.bucket] = np.append(found.get(index.bucket, hashes[:0]), hashes)
        return found

    def _shared(self, row: bytes, buckets: Collection[int]) -> NotRevertible:
        return self._blocked(
            lambda entry: (
                entry.kind is FileKind.ADD and entry.partition == row and entry.bucket in buckets
            ),
            f"put keys of {self.files.partitions.of_row(row).named} into bucket "
            f"{min(buckets)}, and rows of them may come back to another bucket",
        )

    def _index_changed(self, what: str) -> NotRevertible:
        places = {(place.partition, place.bucket) for place in self.net.places}
        known = _of_places(self.net.indexes_after, places)
        counted = {each.id for each in self._others()}
        later = snapshots_since(self.files, self.net.snapshots[-1].id, self.latest)
        for snapshot in reversed(later):
            entries = without_hashes(index_entries(self.files, snapshot))
            found = _of_places(indexes_by_first(entries), places)
            if found != known and snapshot.id in counted:
                return self._error(snapshot, what)
            known = found
        return self._error(None, what)

    # --- who did it ---------------------------------------------------------------------------

    def _blocked(self, wanted: _Wanted, what: str) -> NotRevertible:
        return self._error(self._by(wanted), what)

    def _by(
        self, wanted: _Wanted, kinds: Collection[CommitKind] = (), *, after: int = 0
    ) -> Snapshot | None:
        """The first other snapshot, after one, whose delta has a wanted entry."""
        manifests = self.files.manifests
        for snapshot in self._others():
            if snapshot.id <= after or (kinds and snapshot.commit_kind not in kinds):
                continue
            if any(map(wanted, manifests.entries(manifests.read_delta_list(snapshot)))):
                return snapshot
        return None

    def _others(self) -> list[Snapshot]:
        """The other snapshots since the first one that still count, oldest first."""
        later = snapshots_since(self.files, self.net.first.id, self.latest)
        apart = self.net.ids | cancelled(later, self.net.ids)
        return [each for each in reversed(later) if each.id not in apart]

    def _error(self, by: Snapshot | None, what: str) -> NotRevertible:
        files, first = self.files, self.net.first.id
        those = ", ".join(str(snapshot.id) for snapshot in self.net.snapshots)
        who, ways = "another commit", list[str]()
        if by is not None:
            who = f"snapshot {by.id} ({by.commit_kind.value} by {by.commit_user})"
            ways.append(
                f"take snapshot {by.id} back first (lakewright revert {files.name} "
                f"--snapshot {by.id})"
            )
        if first - 1 in files.snapshots.ids():
            lost = f"snapshots {first} to {self.latest.id}"
            ways.append(
                f"roll back to snapshot {first - 1} (lakewright rollback {files.name} --snapshot "
                f"{first - 1}), which loses all of {lost}"
            )
        return NotRevertible(
            f"snapshot{'s' * (len(self.net.snapshots) > 1)} {those} of {files.name} cannot be "
            f"taken back: {who} {what}; {', or '.join(ways) or 'nothing undoes it'}",
            snapshot=None if by is None else by.id,
        )


class _Columns:
    """Which rows and columns the files of a table with data evolution hold."""

    def __init__(self, files: TableFiles) -> None:
        self._schemas = FileSchemas(files)

    def rows_of(self, entry: ManifestEntry) -> tuple[int, int]:
        """The ids of the first row, and of the row after the last."""
        first = entry.file.first_row_id or 0
        return first, first + entry.file.row_count

    def share_rows(self, one: ManifestEntry, other: ManifestEntry) -> bool:
        (start, end), (first, last) = self.rows_of(one), self.rows_of(other)
        return start < last and first < end

    def built_on(
        self, later: ManifestEntry, entry: ManifestEntry, live: Iterable[ManifestEntry]
    ) -> bool:
        """Whether a file is newer, and has values of another, or needs it for other columns."""
        if not self._is_older(entry, later):
            return False
        others = (each for each in live if self.rows_of(each) == self.rows_of(entry))
        shared = self._ids_of(entry) & self._ids_of(later)
        return bool(shared) or not any(self._is_older(each, entry) for each in others)

    def _is_older(self, one: ManifestEntry, other: ManifestEntry) -> bool:
        return one.file.max_sequence_number < other.file.max_sequence_number

    def _ids_of(self, entry: ManifestEntry) -> set[int]:
        columns = self._schemas.mapping_of(entry.file).columns
        return {number for number, column in columns.items() if column.stored is not None}


def _check_own(files: TableFiles, entries: Iterable[ManifestEntry]) -> None:
    """Check that files can be copied into the table as they are."""
    for entry in entries:
        if files.is_foreign(entry.file):
            raise UnsupportedError(
                f"data file {entry.file.external_path} of {files.name} belongs to another system; "
                "take its folder over again (lakewright add-partitions)"
            )
        if entry.bucket < 0:
            raise UnsupportedError(
                f"data file {entry.file.file_name} of {files.name} waited for its bucket, and the "
                "names of such files order their rows, so copies of them cannot come back; roll "
                "back instead"
            )


def _at(identities: Iterable[EntryIdentity], place: Place) -> set[EntryIdentity]:
    return {identity for identity in identities if (identity.partition, identity.bucket) == place}


def _name(identity: EntryIdentity) -> str:
    return identity.file_name


def _first_name(entry: ManifestEntry) -> str:
    return first_name(entry.file.file_name)


def _of_places(
    indexes: Iterable[IndexEntry], places: Collection[tuple[bytes, int]]
) -> set[IndexEntry]:
    return {index for index in indexes if (index.partition, index.bucket) in places}


def _vectors(
    indexes: Iterable[IndexEntry], data_files: Collection[tuple[Place, str]]
) -> set[tuple[Place, str, object]]:
    return {
        (index.place, index.file.file_name, vector)
        for index in indexes
        for vector in index.file.deletion_vectors or ()
        if (index.place, vector.data_file) in data_files
    }


def _files(names: Iterable[str]) -> str:
    first, *others = sorted(names)
    return f"{first} and {len(others)} more files" if others else f"file {first}"
