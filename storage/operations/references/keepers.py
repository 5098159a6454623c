"""Which of some files something keeps: roots, records of what was condemned, staged writes.

A root moves: a verb records it and deletes its file, or puts it back and deletes the record. So
the roots that exist are read first, then the records, and last the roots that came meanwhile.
Staged files become those of a root, so pending batches and staged changes are read before, too.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Sequence
from collections.abc import Set as AbstractSet
from contextlib import suppress
from dataclasses import dataclass, field
from itertools import compress

from lakewright.storage.env import FileStatus
from lakewright.storage.errors import CorruptionError, FileMissing
from lakewright.storage.files.manifest_store import ReadManifests
from lakewright.storage.files.rounds import Rounds
from lakewright.storage.files.seen_files import SeenFiles
from lakewright.storage.files.table_files import TableFiles
from lakewright.storage.operations.references.condemn import recorded_roots, records
from lakewright.storage.operations.references.numbered import NumberedPaths
from lakewright.storage.operations.references.reachable import Reach
from lakewright.storage.operations.references.roots import Root, RootKind, all_roots
from lakewright.storage.operations.state.branch_files import on_branch
from lakewright.storage.operations.state.staged_changes import (
    keeps_files,
    paths_of,
    read_changes,
    read_partitions,
)

Label = tuple[str, RootKind, int | str, str]


@dataclass
class Keepers:
    """Finds which of some paths below the table are kept, repeatedly.

    Each root is read once, since the files that it keeps never change. `known` are the labels of
    roots, and `known_snapshots` the listed snapshots of this branch, of which it is proved that
    they keep none of the paths. Records in `going` keep nothing. What is kept is also given to
    `tell`. `texts` are the paths, for the few tables that need them.
    """

    files: TableFiles
    paths: NumberedPaths
    texts: Callable[[], Iterable[str]]
    going: Collection[str] = ()
    known: set[Label] = field(default_factory=set)
    known_snapshots: AbstractSet[FileStatus] = frozenset()
    # Whether the paths may be those of files that no root has named yet.
    with_staged: bool = True
    tell: Callable[[Sequence[str]], object] | None = None
    # What roots, pending batches and staged changes keep; and what only records keep.
    kept: set[str] = field(default_factory=set)
    recorded: set[str] = field(default_factory=set)
    # Names of files outside of the table. A table that was moved has them inside.
    elsewhere: set[str] = field(default_factory=set)
    _read: set[str] = field(default_factory=set)
    _seen: SeenFiles = field(default_factory=SeenFiles)

    def look(self) -> None:
        """Read what is new since the last call; the first call reads all."""
        self._look_at_roots()
        # Lists that follow each other repeat most of what is in them, and are asked for repeatedly.
        once = self._reading_once()
        for listed, record in records(self.files):
            if listed.id not in self.going and listed.id not in self._read:
                roots = recorded_roots(once, record)
                new = [root for root in roots if label_of(root) not in self.known]
                self.recorded |= self._kept_by(new, forgiving=True)
                self._read.add(listed.id)
        if self.with_staged:
            self._look_at_staged()
        self._look_at_roots()

    def _look_at_roots(self) -> None:
        rounds = Rounds(self.files.name, "its references were listed")
        while True:
            rounds.begin()
            once = self._reading_once()
            roots = all_roots(once, known=self.known_snapshots)
            new = [root for root in roots if label_of(root) not in self.known]
            try:
                self.kept |= self._kept_by(new)
            except CorruptionError:
                # An expiry may have deleted a root during the read; then the roots are read again.
                still = all_roots(self.files, known=self.known_snapshots)
                if {*map(label_of, new)} <= {*map(label_of, still)}:
                    raise
                continue
            self.known.update(map(label_of, new))
            return

    def _reading_once(self) -> TableFiles:
        read = self.files.read_manifests
        return self.files.reading_once(
            ReadManifests(seen=self._seen if read is None else read.seen)
        )

    def _look_at_staged(self) -> None:
        found: set[str] = set()
        for branch in ("", *self.files.references.branches()):
            seen = on_branch(self.files, branch)
            for path in seen.pending.files():
                if path not in self._read:
                    with suppress(FileMissing):
                        for message in seen.pending.read(path).messages:
                            found.update(seen.written_paths(message))
                    self._read.add(path)
            found.update(self._newly_staged(seen))
        self.kept |= self._wanted(found)

    def _newly_staged(self, files: TableFiles) -> set[str]:
        """Files that a change of partition keys has staged, if a run can go on from them."""
        store = files.staged_changes
        if not (changes := read_changes(files)):
            return set()
        stands = {number for number, each in changes.items() if keeps_files(files, each)}
        found: set[str] = set()
        for path, number in store.counted(changes).items():
            if number in stands and path not in self._read:
                some = read_partitions(files, path, changes[number])
                found.update(paths_of(files, changes[number], some))
                self._read.add(path)
        return found

    def _kept_by(self, roots: Sequence[Root], *, forgiving: bool = False) -> set[str]:
        if not roots or not (self.paths or self.tell):
            return set()
        reach = Reach(wanted=None if self.tell else self.paths.names, forgiving=forgiving)
        paths: set[str] = set()
        for data in reach.data_in_parts(roots):
            paths |= self._wanted(data)
        paths |= self._wanted(reach.metadata_of_all(roots))
        self.elsewhere |= reach.elsewhere
        if reach.elsewhere and self.paths:
            paths |= {text for text in self.texts() if text.rpartition("/")[2] in reach.elsewhere}
        return paths

    def _wanted(self, kept: Iterable[str]) -> set[str]:
        below = [path.removeprefix(f"{self.files.paths.root}/") for path in kept]
        if self.tell is not None:
            self.tell(below)
        return set(compress(below, self.paths.paths.mark(below)))


def label_of(root: Root) -> Label:
    """What tells a root from all others, also from a later one of its name."""
    return root.branch, root.kind, root.label, root.snapshot.delta_manifest_list
