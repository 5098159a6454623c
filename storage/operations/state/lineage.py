"""Lineage: which snapshots were made on top of the one before them.

In an unbroken lineage each state is the previous state plus the commit's delta. File names are
never reused. A data file that a commit removed is therefore in no later state. A manifest or index
file of a later snapshot is either in the earlier one or newer than it. So files that the first
retained snapshot does not reach are unreachable from every later one, and an expiry need not read
them all.

Snapshots do not name their parent. The proof uses their lists: the base list names the manifests
of the previous snapshot, or manifests that merge them, with at least one entry that only the
previous commit made. Where the proof fails (missing ids, a branch fast-forwarded into main, a
restored snapshot) the snapshot counts as a break, and the caller reads it by itself.

A tag keeps the state of its snapshot, so that the proofs serve for tags too.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import pairwise

from lakewright.storage.env import FileStatus
from lakewright.storage.errors import CorruptionError
from lakewright.storage.files.manifest_store import ManifestStore
from lakewright.storage.files.table_files import TableFiles
from lakewright.storage.spec.manifest import FileKind, ManifestFileMeta, fold_entries
from lakewright.storage.spec.snapshot import Snapshot

# A file replaced within this time may look the same in a listing.
_SAME_MOMENT_MS = 2_000


@dataclass(frozen=True, slots=True)
class _Seen:
    """A snapshot and the manifests in its lists."""

    snapshot: Snapshot
    base: tuple[ManifestFileMeta, ...]
    delta: tuple[ManifestFileMeta, ...]


@dataclass
class Chain:
    """Checks a sequence of snapshots: was each made on top of the previous one?"""

    manifests: ManifestStore
    _last: _Seen | None = None

    def goes_on(self, snapshot: Snapshot) -> bool:
        """Whether `snapshot` provably follows the snapshot of the previous call; False at first.

        An unreadable list gives False.
        """
        before, self._last = self._last, None
        try:
            self._last = seen = _seen(self.manifests, snapshot)
            return before is not None and _is_built_on(self.manifests, before, seen)
        except CorruptionError:
            return False


@dataclass(frozen=True, slots=True)
class _Proof:
    """Whether a snapshot was made on top of the one before, and how both were listed then."""

    before: FileStatus
    status: FileStatus
    is_break: bool
    delta_list: str


@dataclass
class Lineage:
    """Finds the breaks in the history of one branch, and caches the proofs.

    A proof holds while both files look the same in a listing, so repeated calls read each snapshot
    once. Snapshots are known again by their delta lists, whose names are used once.
    """

    # By the id of the later snapshot.
    _proofs: dict[int, _Proof] = field(default_factory=dict)
    # The delta lists of snapshots that follow each other without a break, by their ids. The last
    # one is the first snapshot of the last call; the others have expired since.
    _past: dict[int, str] = field(default_factory=dict)

    def breaks(
        self, files: TableFiles, listed: Mapping[int, FileStatus], first: int
    ) -> tuple[int, ...]:
        """Snapshots after `first` that are not proved to be made on top of the previous one.

        `listed` are the existing snapshots, in order.
        """
        self._go_on_to(files.snapshots.read(first))
        now_ms, pairs = files.env.now_ms(), _Pairs(files)
        proofs: dict[int, _Proof] = {}
        found: list[int] = []
        for before, each in pairwise(each for each in listed if each >= first):
            proof = self._proofs.get(each)
            if proof is None or (proof.before, proof.status) != (listed[before], listed[each]):
                is_break = not (each == before + 1 and pairs.follow(before, each))
                delta_list = files.snapshots.read(each).delta_manifest_list
                proof = _Proof(listed[before], listed[each], is_break, delta_list)
            newest = max(proof.before.modified_ms, proof.status.modified_ms)
            if abs(now_ms - newest) > _SAME_MOMENT_MS:
                proofs[each] = proof
            if proof.is_break:
                found.append(each)
        self._proofs = proofs
        return tuple(found)

    def _go_on_to(self, first: Snapshot) -> None:
        past = self._past
        for snapshot_id in range(max(past, default=first.id) + 1, first.id + 1):
            proof = self._proofs.get(snapshot_id)
            if proof is None or proof.is_break:
                past.clear()
            if proof is not None:
                past[snapshot_id] = proof.delta_list
        if max(past, default=None) != first.id or past[first.id] != first.delta_manifest_list:
            self._past = {first.id: first.delta_manifest_list}

    def implied(self, tagged: Iterable[Snapshot], expiring: Sequence[Snapshot]) -> set[str]:
        """Delta lists of tagged snapshots that an expiry need not read, after a call of `breaks`.

        It reads the first snapshot that stays, the breaks after it, and the other tagged snapshots.
        A file of the expiring range that a tagged snapshot after the range keeps, one of the former
        keeps too. A file that a tagged snapshot before the range keeps, the last tagged snapshot
        before the range keeps too: the file was in each state between.
        """
        first, begin = max(self._past), expiring[0].id
        implied: set[str] = set()
        before: dict[int, str] = {}
        for each in tagged:
            known = self._proofs.get(each.id)
            delta_list = known.delta_list if known else self._past.get(each.id)
            if delta_list != each.delta_manifest_list:
                continue
            if each.id >= first:
                implied.add(delta_list)
            elif each.id < begin:
                before[each.id] = delta_list
        if before:
            del before[max(before)]
        return implied.union(before.values())


@dataclass
class _Pairs:
    """Reads a snapshot once, which is the later one of a pair and the earlier one of the next."""

    files: TableFiles
    _chain: Chain | None = None
    _last: int | None = None

    def follow(self, before: int, each: int) -> bool:
        """Whether a snapshot provably follows another one."""
        if self._chain is None or self._last != before:
            self._chain = Chain(self.files.manifests)
            self._chain.goes_on(self.files.snapshots.read(before))
        self._last = each
        return self._chain.goes_on(self.files.snapshots.read(each))


def _seen(manifests: ManifestStore, snapshot: Snapshot) -> _Seen:
    base = manifests.read_list(snapshot.base_manifest_list, size=snapshot.base_manifest_list_size)
    return _Seen(snapshot, base, manifests.read_delta_list(snapshot))


def _is_built_on(manifests: ManifestStore, before: _Seen, after: _Seen) -> bool:
    there = before.base + before.delta
    if after.base == there:
        return bool(before.delta) or _names_the_same(before.snapshot, after.snapshot)
    names_before = {meta.file_name for meta in there}
    names_after = {meta.file_name for meta in after.base}
    merged = [meta for meta in there if meta.file_name not in names_after]
    written = [meta for meta in after.base if meta.file_name not in names_before]
    if not merged and not written:
        # A commit that changed no file adds nothing to the lists: compare what else it names.
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
    """Files that a commit added; files that it only moved to another level are older."""
    entries = list(manifests.entries(delta))
    removed = {entry.file.file_name for entry in entries if entry.kind is FileKind.DELETE}
    added = {entry.file.file_name for entry in entries if entry.kind is FileKind.ADD}
    return added - removed
