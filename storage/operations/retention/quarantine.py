"""Quarantine: moves files of a table to a folder from which they can be restored.

1. Write a manifest before the first file moves: path, size, time and checksum of each file. The
   manifest never changes. A file is in quarantine if it is in the quarantine's folder.
2. Move the files in batches. Before the first and after each batch, read the new roots and
   pending batches, and restore the files that they need.
3. If a root cannot be read, restore the batch. If the process dies, the next orphan removal or
   purge restores needed files: both first check the files in quarantine.
4. A quarantine without files is over: its manifest is deleted last.

Memory: 32 bytes per file in quarantine, about 1 KB per file of a plan and of one quarantine, plus
the roots.
"""

from __future__ import annotations

import datetime as dt
from collections.abc import Callable, Collection, Iterable, Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from itertools import compress
from typing import TypeVar

from lakewright.storage.env import FileStatus
from lakewright.storage.errors import (
    CorruptionError,
    FileMissing,
    NotFoundError,
    StorageError,
    UnreadableManifest,
    UnsupportedError,
)
from lakewright.storage.files.manifest_store import ReadManifests
from lakewright.storage.files.quarantine_store import Listed
from lakewright.storage.files.rounds import Rounds
from lakewright.storage.files.seen_files import SeenFiles
from lakewright.storage.files.table_files import TableFiles
from lakewright.storage.operations.references.numbered import NumberedPaths
from lakewright.storage.operations.references.reachable import Reach
from lakewright.storage.operations.references.rollback_pin import are_back, check_no_rollback
from lakewright.storage.operations.references.roots import Root, RootKind, all_roots
from lakewright.storage.operations.retention.orphan_candidates import OrphanCandidates
from lakewright.storage.operations.running.delete_files import delete_files, remove_empty_folders
from lakewright.storage.operations.running.plan import UnreachableFile
from lakewright.storage.operations.state.branch_files import on_branch
from lakewright.storage.operations.state.staged_changes import (
    keeps_files,
    paths_of,
    read_changes,
    read_partitions,
)
from lakewright.storage.spec.arguments import text_argument
from lakewright.storage.spec.file_names import is_place_below
from lakewright.storage.spec.quarantine import QuarantinedFile, QuarantineManifest

# How many files move between two checks of the roots.
BATCH_FILES = 1_000
# The most files of one manifest: it is held in memory, and its files are read before they move.
_MOST_FILES = 10_000

_Label = tuple[str, RootKind, int | str, str]
_T = TypeVar("_T")


@dataclass(frozen=True, slots=True, kw_only=True)
class Quarantine:
    """Files that were quarantined together and are still in quarantine.

    `created_ms` is by the store's clock; None if it is unknown, and then `problem` says why.
    """

    id: str
    created_ms: int | None
    reason: str
    files: tuple[QuarantinedFile, ...]
    problem: str = ""

    @property
    def bytes(self) -> int:
        return sum(file.size_bytes for file in self.files)


@dataclass(frozen=True, slots=True)
class OrphanFile(UnreachableFile):
    """A file that no root keeps; `modified_ms` is by the store's clock."""

    modified_ms: int


# --- what there is ----------------------------------------------------------------------------


def each_quarantine(files: TableFiles, only: Collection[str] | None = None) -> Iterator[Quarantine]:
    """Quarantines of a table in the order of their creation, with the files in each."""
    for quarantine_id in files.quarantine.ids():
        if only is not None and quarantine_id not in only:
            continue
        listed = files.quarantine.listed(quarantine_id)
        if listed.is_there:
            yield _described(files, quarantine_id, listed)


def list_quarantines(files: TableFiles) -> tuple[Quarantine, ...]:
    """All of them at once."""
    return tuple(each_quarantine(files))


def read_quarantine(files: TableFiles, quarantine_id: str) -> Quarantine:
    """One quarantine.

    Raises:
        InvalidRequestError: the id is no text.
        NotFoundError: no quarantine has that name; the message lists all quarantines.
        UnreadableManifest: its manifest cannot be read.
    """
    text_argument(quarantine_id, "quarantine id")
    is_name = quarantine_id and "/" not in quarantine_id and not quarantine_id.startswith(".")
    listed = files.quarantine.listed(quarantine_id) if is_name else Listed({}, None, ())
    if not listed.is_there:
        ids = [each.id for each in each_quarantine(files)]
        there = f"there are {', '.join(ids)}" if ids else "there are none"
        raise NotFoundError(f"no quarantine {quarantine_id} of {files.name}; {there}")
    found = _described(files, quarantine_id, listed)
    if found.problem:
        # This raises the manifest's error, unless the manifest is missing.
        files.quarantine.read_manifest(quarantine_id)
    return found


def _described(files: TableFiles, quarantine_id: str, listed: Listed) -> Quarantine:
    there = listed.files
    unknown = tuple(
        QuarantinedFile(path=path, size_bytes=status.size, modified_ms=status.modified_ms)
        for path, status in sorted(there.items())
    )
    problem = "its manifest is missing, so the age of its files is unknown"
    try:
        manifest = files.quarantine.read_manifest(quarantine_id)
    except (UnreadableManifest, UnsupportedError) as error:
        manifest, problem = None, error.message
    if manifest is None:
        return Quarantine(
            id=quarantine_id, created_ms=None, reason="", files=unknown, problem=problem
        )
    written = listed.manifest
    return Quarantine(
        id=quarantine_id,
        # If the manifest was written again, its age counts from then on.
        created_ms=max(manifest.created_ms, written.modified_ms if written else 0),
        reason=manifest.reason,
        files=tuple(file for file in manifest.files if file.path in there),
    )


@dataclass
class Aside:
    """Where the files in quarantine lie, by numbers of their paths.

    `unfinished` are temporary files in the folders of the quarantines.
    """

    files: TableFiles
    by_id: dict[str, NumberedPaths] = field(default_factory=dict)
    unfinished: list[FileStatus] = field(default_factory=list)

    @classmethod
    def listed(cls, files: TableFiles) -> Aside:
        found = cls(files)
        for quarantine_id in files.quarantine.ids():
            listed = files.quarantine.listed(quarantine_id)
            found.add(quarantine_id, listed.files)
            found.unfinished += listed.unfinished
        return found

    def add(self, quarantine_id: str, paths: Iterable[str]) -> None:
        self.by_id[quarantine_id] = NumberedPaths.of(paths)

    def __contains__(self, path: object) -> bool:
        return any(path in numbers.paths for numbers in self.by_id.values())

    def ids_of(self, path: str) -> list[str]:
        """The quarantines that may hold a path, the latest first."""
        return [each for each in sorted(self.by_id, reverse=True) if path in self.by_id[each].paths]

    def sought(self) -> NumberedPaths:
        return NumberedPaths.all(self.by_id.values())

    def paths(self) -> Iterator[str]:
        """The paths that lie in these quarantines by now."""
        for quarantine_id in self.by_id:
            yield from self.files.quarantine.listed(quarantine_id).files


# --- what refers to files -----------------------------------------------------------------------


@dataclass
class References:
    """Finds which of some paths below the table roots and pending batches keep, repeatedly.

    Each root is read once, since the files that it keeps never change. What it keeps is also taken
    out of `candidates`.
    """

    files: TableFiles
    paths: NumberedPaths
    # The same as texts, for the few tables that need them.
    texts: Callable[[], Iterable[str]]
    candidates: OrphanCandidates | None = None
    # Names of files outside of the table. A table that was moved has them inside.
    elsewhere: set[str] = field(default_factory=set)
    _read: set[_Label] = field(default_factory=set)
    _read_batches: set[str] = field(default_factory=set)
    _seen: SeenFiles = field(default_factory=SeenFiles)

    def newly_kept(self, bring_back: Callable[[str], bool] | None = None) -> set[str]:
        """Paths kept by roots and pending batches that are new since the last call.

        The first call reads all of them. If a metadata file is missing, `bring_back` is called with
        its path, to restore it.
        """
        # Pending batches come first: a batch that is committed afterwards is a root.
        pending = self._newly_pending()
        rounds = Rounds(self.files.name, "its references were listed")
        while True:
            rounds.begin()
            roots = all_roots(self._once())
            # A rollback may restore snapshots that it deleted while the roots were read.
            check_no_rollback(self.files)
            if are_back(self.files, roots):
                continue
            new = [root for root in roots if _label(root) not in self._read]
            try:
                kept = self._kept(new)
            except CorruptionError as error:
                missing = self._below(str(error.details.get("path", "")))
                if missing in self.paths.paths and bring_back is not None and bring_back(missing):
                    continue
                # An expiry may have deleted a root during the read; then the roots are read again.
                if _labels(all_roots(self.files)) == _labels(roots):
                    raise
                continue
            self._read |= _labels(new)
            return kept | pending

    def _once(self) -> TableFiles:
        """The table, which reads the manifests of a call once.

        Manifests are read again by the next call, which restores those that lie in quarantine.
        """
        return self.files.reading_once(ReadManifests(seen=self._seen))

    def _newly_pending(self) -> set[str]:
        kept: set[str] = set()
        for branch in ("", *self.files.references.branches()):
            seen = on_branch(self.files, branch)
            new = [path for path in seen.pending.files() if path not in self._read_batches]
            for path in new:
                with suppress(FileMissing):
                    for message in seen.pending.read(path).messages:
                        kept.update(seen.written_paths(message))
            self._read_batches.update(new)
            kept.update(self._newly_staged(seen))
        return self._wanted(kept)

    def _newly_staged(self, files: TableFiles) -> set[str]:
        """Files that a change of partition keys has staged, if a run can go on from them."""
        store = files.staged_changes
        if not (changes := read_changes(files)):
            return set()
        stands = {number for number, each in changes.items() if keeps_files(files, each)}
        kept: set[str] = set()
        for path, number in store.counted(changes).items():
            if number in stands and path not in self._read_batches:
                found = read_partitions(files, path, changes[number])
                kept.update(paths_of(files, changes[number], found))
                self._read_batches.add(path)
        return kept

    def _kept(self, roots: Sequence[Root]) -> set[str]:
        if not roots or not (self.paths or self.candidates):
            return set()
        reach = Reach(wanted=self.paths.names if self.candidates is None else None)
        kept: set[str] = set()
        for data in reach.data_in_parts(roots):
            kept |= self._wanted(data)
        kept |= self._wanted(reach.metadata_of_all(roots))
        self.elsewhere |= reach.elsewhere
        if reach.elsewhere and self.paths:
            kept |= {each for each in self.texts() if each.rpartition("/")[2] in reach.elsewhere}
        return kept

    def _wanted(self, kept: Iterable[str]) -> set[str]:
        below = [self._below(path) for path in kept]
        if self.candidates is not None:
            self.candidates.keep(below)
        return set(compress(below, self.paths.paths.mark(below)))

    def _below(self, path: str) -> str:
        return path.removeprefix(f"{self.files.paths.root}/")


def _labels(roots: Iterable[Root]) -> set[_Label]:
    return {_label(root) for root in roots}


def _label(root: Root) -> _Label:
    return root.branch, root.kind, root.label, root.snapshot.delta_manifest_list


# --- in and out ---------------------------------------------------------------------------------


def untold(_: int) -> None:
    """A count that is of no use."""


@dataclass
class Mover:
    """Moves files of a table into quarantine, and back if a root or pending batch needs them.

    `where` says in which quarantine a path lies; it starts with the quarantines of earlier runs.
    `looked` is told how many files were read to set them aside.
    """

    files: TableFiles
    references: References
    where: Aside
    looked: Callable[[int], object] = untold
    kept: set[str] = field(default_factory=set)
    moved: dict[str, int] = field(default_factory=dict)
    brought_back: list[str] = field(default_factory=list)
    quarantine_ids: list[str] = field(default_factory=list)
    _left: set[str] = field(default_factory=set)

    def look(self) -> None:
        """Read the new roots and pending batches, and restore quarantined files that they need."""
        new = self.references.newly_kept(self.bring_back)
        self.kept |= new
        for path in sorted(missing_of(self.files, (each for each in new if each in self.where))):
            self.bring_back(path)

    def bring_back(self, path: str) -> bool:
        """Move a file back to its original path; False if that is impossible."""
        for quarantine_id in self.where.ids_of(path):
            with suppress(FileMissing):
                if not self.files.quarantine.put_back(quarantine_id, path):
                    return False
                self.brought_back.append(path)
                self.moved.pop(path, None)
                self._left.add(quarantine_id)
                return True
        return False

    def end_emptied(self) -> None:
        """End the quarantines that are empty after the restores."""
        for quarantine_id in sorted(self._left):
            end_if_empty(self.files, quarantine_id)

    def set_aside(self, orphans: Sequence[OrphanFile], *, reason: str, now_ms: int) -> None:
        """Move files to quarantine, except those that changed or that a root or batch needs."""
        read = 0
        for some in batches(orphans, _MOST_FILES):
            entries = []
            for each in self.unchanged(some):
                entry = self._entry(each)
                entries += [] if entry is None else [entry]
                read += 1
                self.looked(read)
            if entries:
                manifest = QuarantineManifest(
                    table=self.files.name, created_ms=now_ms, reason=reason, files=tuple(entries)
                )
                self._fill(manifest)

    def unchanged(self, orphans: Sequence[OrphanFile]) -> Iterator[OrphanFile]:
        """Files that still have their size and time, and that no root or batch needs."""
        there = self.files.quarantine.there(file.path for file in orphans)
        for orphan in orphans:
            status = there.get(orphan.path)
            if status is None or orphan.path in self.kept:
                continue
            if (status.size, status.modified_ms) == (orphan.size_bytes, orphan.modified_ms):
                yield orphan

    def _entry(self, orphan: OrphanFile) -> QuarantinedFile | None:
        try:
            size, crc32 = self.files.quarantine.size_and_crc32(self.files.paths.below(orphan.path))
        except FileMissing:
            return None
        if size != orphan.size_bytes:
            return None
        return QuarantinedFile(
            path=orphan.path,
            size_bytes=orphan.size_bytes,
            modified_ms=orphan.modified_ms,
            crc32=crc32,
        )

    def _fill(self, manifest: QuarantineManifest) -> None:
        store = self.files.quarantine
        quarantine_id = self._new_id(manifest.created_ms)
        rounds = Rounds(self.files.name, "a new quarantine was named")
        while not store.put_manifest(quarantine_id, manifest):
            rounds.begin()
            quarantine_id = self._new_id(manifest.created_ms)
        self.quarantine_ids.append(quarantine_id)
        self.where.add(quarantine_id, (file.path for file in manifest.files))
        try:
            # Reading the files for their checksums may have taken long.
            self.look()
            for batch in batches(manifest.files, BATCH_FILES):
                self._move(quarantine_id, batch)
                # Another process may have found the quarantine empty, and ended it.
                if not store.has_manifest(quarantine_id):
                    store.put_manifest(quarantine_id, manifest)
        finally:
            # A store failure here must not hide the first failure.
            with suppress(StorageError):
                if end_if_empty(self.files, quarantine_id):
                    self.quarantine_ids.remove(quarantine_id)

    def _move(self, quarantine_id: str, batch: Sequence[QuarantinedFile]) -> None:
        try:
            for file in batch:
                if file.path in self.kept:
                    continue
                if self.files.quarantine.set_aside(quarantine_id, file.path):
                    self.moved[file.path] = file.size_bytes
            self.look()
        except StorageError:
            # Files that are not proved to be unreachable must not stay in quarantine.
            for file in batch:
                with suppress(StorageError):
                    self.bring_back(file.path)
            raise

    def _new_id(self, now_ms: int) -> str:
        moment = dt.datetime(1970, 1, 1) + dt.timedelta(milliseconds=now_ms)
        return f"{moment:%Y%m%d-%H%M%S}-{self.files.env.new_id()[:8]}"


def missing_of(files: TableFiles, paths: Iterable[str]) -> set[str]:
    """The given paths below the table at which no file exists."""
    wanted = set(paths)
    return wanted - files.quarantine.there(wanted).keys()


def end_if_empty(files: TableFiles, quarantine_id: str) -> bool:
    """Delete the manifest and folders of a quarantine if it holds no file; return whether it did.

    Besides the manifest, such a quarantine may hold only unfinished files of the store.
    """
    listed = files.quarantine.listed(quarantine_id)
    if listed.files:
        return False
    delete_files(files.fs, [each.path for each in listed.unfinished])
    delete_files(files.fs, [files.paths.quarantine_manifest(quarantine_id)])
    folders = files.quarantine.folders(quarantine_id)
    remove_empty_folders(files.fs, folders, below=files.paths.root)
    return True


def batches(items: Sequence[_T], size: int) -> Iterator[Sequence[_T]]:
    """Split items into parts of at most `size`."""
    for first in range(0, len(items), size):
        yield items[first : first + size]


def told_where_it_lies(error: CorruptionError, files: TableFiles) -> CorruptionError:
    """The error with a hint, if the missing file can be restored from a quarantine."""
    path = str(error.details.get("path", "")).removeprefix(f"{files.paths.root}/")
    if not is_place_below(path):
        return error
    for quarantine_id in reversed(files.quarantine.ids()):
        if files.fs.exists(files.paths.quarantined(quarantine_id, path)):
            way_out = f"it lies in quarantine {quarantine_id}: restore {path} from there"
            return type(error)(f"{error.message}; {way_out}", table=error.table, **error.details)
    return error
