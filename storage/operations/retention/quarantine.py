"""Quarantine: files of a table are set aside where they can come back from.

1. What is to be set aside is written down before the first file moves: its place, size, age and
   checksum. That manifest never changes; a file is in quarantine when it lies there.
2. Files move in batches. Before and after each of them whatever refers to files is asked again,
   of which only what is new need be read: a file that is referred to by now comes back at once.
3. Where that cannot be known, the batch comes back. Where the process dies, the next removal of
   orphans or purge brings back what is referred to: both look at what lies in quarantine first.
4. A quarantine without files is over: its manifest goes last.

Memory: some 300 bytes for each file that is asked about, and what roots there are.
"""

from __future__ import annotations

import datetime as dt
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from typing import TypeVar

from lakewright.storage.errors import (
    CorruptionError,
    FileMissing,
    NotFoundError,
    StorageError,
    UnreadableManifest,
    UnsupportedError,
)
from lakewright.storage.files.quarantine_store import Listed
from lakewright.storage.files.rounds import Rounds
from lakewright.storage.files.table_files import TableFiles
from lakewright.storage.operations.references.reachable import Reach
from lakewright.storage.operations.references.rollback_pin import are_back, check_no_rollback
from lakewright.storage.operations.references.roots import Root, RootKind, all_roots
from lakewright.storage.operations.running.delete_files import delete_files, remove_empty_folders
from lakewright.storage.operations.running.plan import UnreachableFile
from lakewright.storage.operations.state.branch_files import on_branch
from lakewright.storage.spec.quarantine import QuarantinedFile, QuarantineManifest

# How many files move between two looks at what refers to files.
BATCH_FILES = 1_000
# How many one manifest names: it is held in memory, and its files are read before they move.
_MOST_FILES = 10_000

_Label = tuple[str, RootKind, int | str, str]
_T = TypeVar("_T")


@dataclass(frozen=True, slots=True, kw_only=True)
class Quarantine:
    """Files that were set aside together and lie there still.

    `created_ms` is by the store's clock, None where nothing says it; then `problem` says why.
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
    """A file that nothing refers to, and when the store says it was written."""

    modified_ms: int


# --- what there is ----------------------------------------------------------------------------


def list_quarantines(files: TableFiles) -> tuple[Quarantine, ...]:
    """Quarantines of a table in the order they were made, what lies in each by its path."""
    listed = files.quarantine.listed()
    ids = sorted(listed.files.keys() | listed.manifests.keys())
    return tuple(_described(files, each, listed) for each in ids)


def read_quarantine(files: TableFiles, quarantine_id: str) -> Quarantine:
    """One of them.

    Raises:
        NotFoundError: there is none of that name; the message lists those there are.
        UnreadableManifest: what was written of its files cannot be read.
    """
    is_name = quarantine_id and "/" not in quarantine_id and not quarantine_id.startswith(".")
    listed = files.quarantine.listed(quarantine_id) if is_name else Listed({}, {}, ())
    if not (listed.files or listed.manifests):
        ids = [each.id for each in list_quarantines(files)]
        there = f"there are {', '.join(ids)}" if ids else "there are none"
        raise NotFoundError(f"no quarantine {quarantine_id} of {files.name}; {there}")
    found = _described(files, quarantine_id, listed)
    if found.problem:
        # Says what is wrong with its manifest, unless there is none.
        files.quarantine.read_manifest(quarantine_id)
    return found


def _described(files: TableFiles, quarantine_id: str, listed: Listed) -> Quarantine:
    there = listed.files.get(quarantine_id, {})
    unknown = tuple(
        QuarantinedFile(path=path, size_bytes=status.size, modified_ms=status.modified_ms)
        for path, status in sorted(there.items())
    )
    problem = "its manifest is missing: nothing says since when its files lie there"
    try:
        manifest = files.quarantine.read_manifest(quarantine_id)
    except (UnreadableManifest, UnsupportedError) as error:
        manifest, problem = None, error.message
    if manifest is None:
        return Quarantine(
            id=quarantine_id, created_ms=None, reason="", files=unknown, problem=problem
        )
    written = listed.manifests.get(quarantine_id)
    return Quarantine(
        id=quarantine_id,
        # Written down again, it counts from then on.
        created_ms=max(manifest.created_ms, written.modified_ms if written else 0),
        reason=manifest.reason,
        files=tuple(file for file in manifest.files if file.path in there),
    )


def places(listed: Listed) -> dict[str, str]:
    """In which quarantine a file lies, by its path below the table; the last one counts."""
    return {path: each for each in sorted(listed.files) for path in listed.files[each]}


# --- what refers to files -----------------------------------------------------------------------


@dataclass
class References:
    """Which of some paths below the table anything refers to, asked again and again.

    A root is read once: what it refers to never changes.
    """

    files: TableFiles
    paths: frozenset[str]
    _read: set[_Label] = field(default_factory=set)
    _read_batches: set[str] = field(default_factory=set)

    def newly_kept(self, bring_back: Callable[[str], bool] | None = None) -> set[str]:
        """Paths that a root made since the last time keeps; the first time, that any root keeps.

        So do batches that wait for their commit. `bring_back` is tried with a path that cannot be
        read because it is not there.
        """
        # Asked first: what is committed from then on is a root.
        pending = self._newly_pending()
        rounds = Rounds(self.files.name, "what refers to files was asked")
        while True:
            rounds.begin()
            roots = all_roots(self.files)
            # What one takes away while roots are read, it may put back.
            check_no_rollback(self.files)
            if are_back(self.files, roots):
                continue
            new = [root for root in roots if _label(root) not in self._read]
            try:
                kept = self._kept(new)
            except CorruptionError as error:
                missing = self._below(str(error.details.get("path", "")))
                if missing in self.paths and bring_back is not None and bring_back(missing):
                    continue
                # What an expiry takes meanwhile is no root any more.
                if _labels(all_roots(self.files)) == _labels(roots):
                    raise
                continue
            self._read |= _labels(new)
            return kept | pending

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
        return {below for path in kept if (below := self._below(path)) in self.paths}

    def _kept(self, roots: Sequence[Root]) -> set[str]:
        if not roots or not self.paths:
            return set()
        reach = Reach(wanted={self.files.paths.below(path) for path in self.paths})
        kept = reach.data_of_all(roots).keys() | reach.metadata_of_all(roots)
        return {below for path in kept if (below := self._below(path)) in self.paths}

    def _below(self, path: str) -> str:
        return path.removeprefix(f"{self.files.paths.root}/")


def _labels(roots: Iterable[Root]) -> set[_Label]:
    return {_label(root) for root in roots}


def _label(root: Root) -> _Label:
    return root.branch, root.kind, root.label, root.snapshot.delta_manifest_list


# --- in and out ---------------------------------------------------------------------------------


@dataclass
class Mover:
    """Moves files of a table into quarantine, and back when something refers to them.

    `where` says in which quarantine a file lies; it begins with those of earlier runs.
    """

    files: TableFiles
    references: References
    where: dict[str, str]
    kept: set[str] = field(default_factory=set)
    moved: dict[str, int] = field(default_factory=dict)
    brought_back: list[str] = field(default_factory=list)
    quarantine_ids: list[str] = field(default_factory=list)

    def look(self) -> None:
        """Ask what refers to files by now, and bring back what lies in quarantine of that."""
        new = self.references.newly_kept(self.bring_back)
        self.kept |= new
        for path in sorted(missing_of(self.files, new & self.where.keys())):
            self.bring_back(path)

    def bring_back(self, path: str) -> bool:
        """Put a file back where it was; False if it cannot be."""
        if path not in self.where:
            return False
        try:
            is_back = self.files.quarantine.put_back(self.where[path], path)
        except FileMissing:
            return False
        if is_back:
            self.brought_back.append(path)
            self.moved.pop(path, None)
        return is_back

    def end_emptied(self) -> None:
        """End the quarantines that what came back has left without a file."""
        for quarantine_id in sorted({self.where[path] for path in self.brought_back}):
            end_if_empty(self.files, quarantine_id)

    def set_aside(self, orphans: Sequence[OrphanFile], *, reason: str, now_ms: int) -> None:
        """Move files, except those that are another by now or that something refers to."""
        for some in batches(orphans, _MOST_FILES):
            entries = [entry for each in self._unchanged(some) if (entry := self._entry(each))]
            if entries:
                manifest = QuarantineManifest(
                    table=self.files.name, created_ms=now_ms, reason=reason, files=tuple(entries)
                )
                self._fill(manifest)

    def _unchanged(self, orphans: Sequence[OrphanFile]) -> Iterator[OrphanFile]:
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
        try:
            # Reading the files took its time.
            self.look()
            for batch in batches(manifest.files, BATCH_FILES):
                self._move(quarantine_id, batch)
                # Whoever found the quarantine empty before has ended it.
                if not store.has_manifest(quarantine_id):
                    store.put_manifest(quarantine_id, manifest)
        finally:
            # A store that fails must not hide why the rest has failed.
            with suppress(StorageError):
                if end_if_empty(self.files, quarantine_id):
                    self.quarantine_ids.remove(quarantine_id)

    def _move(self, quarantine_id: str, batch: Sequence[QuarantinedFile]) -> None:
        try:
            for file in batch:
                if file.path in self.kept:
                    continue
                self.where[file.path] = quarantine_id
                if self.files.quarantine.set_aside(quarantine_id, file.path):
                    self.moved[file.path] = file.size_bytes
            self.look()
        except StorageError:
            # What cannot be proved to be unreferenced does not stay away.
            for file in batch:
                with suppress(StorageError):
                    self.bring_back(file.path)
            raise

    def _new_id(self, now_ms: int) -> str:
        moment = dt.datetime(1970, 1, 1) + dt.timedelta(milliseconds=now_ms)
        return f"{moment:%Y%m%d-%H%M%S}-{self.files.env.new_id()[:8]}"


def missing_of(files: TableFiles, paths: Iterable[str]) -> set[str]:
    """Of some paths below the table those where there is no file."""
    wanted = set(paths)
    return wanted - files.quarantine.there(wanted).keys()


def end_if_empty(files: TableFiles, quarantine_id: str) -> bool:
    """Delete the manifest of a quarantine that holds no file, and its folders; whether it is over.

    Beside the manifest only what the store was about to write may lie there.
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
    """Items in parts of at most that many."""
    for first in range(0, len(items), size):
        yield items[first : first + size]


def told_where_it_lies(
    error: CorruptionError, files: TableFiles, where: Mapping[str, str]
) -> CorruptionError:
    """The error that a file is missing, saying from which quarantine it can be restored."""
    path = str(error.details.get("path", "")).removeprefix(f"{files.paths.root}/")
    if path not in where:
        return error
    way_out = f"it lies in quarantine {where[path]}: restore {path} from there"
    return type(error)(f"{error.message}; {way_out}", table=error.table, **error.details)
