"""Lineage: which snapshots were made on top of the one before them.

In an unbroken lineage each state is the one before it, changed by the commit's own delta. Names
of files are never used twice, so there

* a data file that a commit has removed is in no later state,
* a manifest or index file that a later snapshot names is named by the earlier one, or was written
  since.

What the first snapshot to stay does not reach, no later one does, therefore, and whoever expires
need not read them all. Snapshots do not name their parent, so it is proved from their lists: the
base list names the manifests of the snapshot before, or such as say the same of the same files,
among them something that only the commit before has made. Where that fails (ids that are missing,
a branch put in the place of main, a snapshot put back) the snapshot counts as a break, and is to
be asked by itself.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from hashlib import blake2b
from itertools import groupby, pairwise

from lakewright.storage.env import FileStatus
from lakewright.storage.errors import CorruptionError
from lakewright.storage.files.manifest_store import ManifestStore
from lakewright.storage.files.table_files import TableFiles
from lakewright.storage.spec.manifest import FileKind, ManifestFileMeta, fold_entries
from lakewright.storage.spec.snapshot import Snapshot

# Snapshots whose proof is remembered together.
_STRETCH = 64
# Within this time a file may be replaced and look the same in a listing.
_SAME_MOMENT_MS = 2_000


@dataclass(frozen=True, slots=True)
class _Seen:
    """A snapshot with the manifests of its lists."""

    snapshot: Snapshot
    base: tuple[ManifestFileMeta, ...]
    delta: tuple[ManifestFileMeta, ...]


@dataclass
class Chain:
    """Says of snapshots, one after the other, whether each was made on top of the one before."""

    manifests: ManifestStore
    _last: _Seen | None = None

    def goes_on(self, snapshot: Snapshot) -> bool:
        """Whether `snapshot` is proved to follow the one asked for before it; the first does not.

        Lists that cannot be read prove nothing.
        """
        before, self._last = self._last, None
        try:
            self._last = seen = _seen(self.manifests, snapshot)
            return before is not None and _is_built_on(self.manifests, before, seen)
        except CorruptionError:
            return False


@dataclass
class Lineage:
    """Finds the breaks in the history of one branch, and remembers what it has proved.

    What was proved holds while the files look the same in a listing, so a loop of steps reads
    each snapshot once.
    """

    _breaks: dict[bytes, tuple[int, ...]] = field(default_factory=dict)

    def breaks(
        self, files: TableFiles, listed: Mapping[int, FileStatus], first: int
    ) -> tuple[int, ...]:
        """Snapshots after `first` that are not proved to be made on top of the one before them.

        `listed` are the snapshots there are, in order.
        """
        known: dict[bytes, tuple[int, ...]] = {}
        found: list[int] = []
        for stretch in _stretches([each for each in listed if each >= first]):
            statuses = [listed[each] for each in stretch]
            look = _look(statuses)
            breaks = self._breaks.get(look)
            if breaks is None:
                breaks = tuple(_breaks_of(files, stretch))
            newest = max(each.modified_ms for each in statuses)
            if abs(files.env.now_ms() - newest) > _SAME_MOMENT_MS:
                known[look] = breaks
            found += breaks
        self._breaks = known
        return tuple(found)


def _stretches(ids: Sequence[int]) -> Iterator[list[int]]:
    """Ids in groups that stay the same as the first ones go, each after the last id before it."""
    groups = groupby(pairwise(ids), key=lambda pair: pair[1] // _STRETCH)
    for _, group in groups:
        pairs = list(group)
        yield [pairs[0][0], *(following for _, following in pairs)]


def _look(statuses: Iterable[FileStatus]) -> bytes:
    """What a listing says of some files, in few bytes."""
    digest = blake2b(digest_size=16)
    for each in statuses:
        digest.update(f"{each.name}/{each.size}/{each.modified_ms};".encode())
    return digest.digest()


def _breaks_of(files: TableFiles, ids: Sequence[int]) -> Iterator[int]:
    chain = Chain(files.manifests)
    before: int | None = None
    for each in ids:
        goes_on = chain.goes_on(files.snapshots.read(each))
        if before is not None and not (each == before + 1 and goes_on):
            yield each
        before = each


def _seen(manifests: ManifestStore, snapshot: Snapshot) -> _Seen:
    base = manifests.read_list(snapshot.base_manifest_list, size=snapshot.base_manifest_list_size)
    return _Seen(snapshot, base, manifests.read_delta_list(snapshot))


def _is_built_on(manifests: ManifestStore, before: _Seen, after: _Seen) -> bool:
    there = (*before.base, *before.delta)
    names_before = {meta.file_name for meta in there}
    names_after = {meta.file_name for meta in after.base}
    merged = [meta for meta in there if meta.file_name not in names_after]
    written = [meta for meta in after.base if meta.file_name not in names_before]
    if not merged and not written:
        # Of a commit that changed no file nothing is in the lists: what else it names tells.
        return bool(before.delta) or _names_the_same(before.snapshot, after.snapshot)
    old, new = (fold_entries(manifests.entries(metas)) for metas in (merged, written))
    if {(each, entry.kind) for each, entry in old.items()} != {
        (each, entry.kind) for each, entry in new.items()
    }:
        return False
    if any(meta.file_name in names_after for meta in before.delta):
        return True
    own = _added_first(manifests, before.delta)
    return any(each.kind is FileKind.ADD and each.file.file_name in own for each in new.values())


def _names_the_same(before: Snapshot, after: Snapshot) -> bool:
    same_index = after.index_manifest == before.index_manifest
    return same_index and after.statistics in (None, before.statistics)


def _added_first(manifests: ManifestStore, delta: Iterable[ManifestFileMeta]) -> set[str]:
    """Files that a commit made: those that it only moved to another level are older."""
    entries = list(manifests.entries(delta))
    removed = {each.file.file_name for each in entries if each.kind is FileKind.DELETE}
    added = {each.file.file_name for each in entries if each.kind is FileKind.ADD}
    return added - removed
