"""Roots: the snapshots, tags and changelogs of a table and its branches, which keep files."""

from __future__ import annotations

from collections.abc import Iterable
from collections.abc import Set as AbstractSet
from dataclasses import dataclass
from enum import Enum

from lakewright.storage.env import FileStatus
from lakewright.storage.files.table_files import TableFiles
from lakewright.storage.operations.state.branch_files import whole_branches
from lakewright.storage.spec.snapshot import Snapshot, check_known_fields


class RootKind(Enum):
    """The kind of a root."""

    SNAPSHOT = "snapshot"
    TAG = "tag"
    CHANGELOG = "changelog"


@dataclass(frozen=True, kw_only=True, eq=False)
class Root:
    """A snapshot, tag or changelog that keeps files; `files` is the table seen from its branch.

    `label` is the id of a snapshot or changelog, or the name of a tag. Deletions depend on what a
    root keeps, so each field of its snapshot must be known.
    """

    files: TableFiles
    kind: RootKind
    label: int | str
    snapshot: Snapshot

    def __post_init__(self) -> None:
        check_known_fields(self.snapshot, table=self.files.name)

    @property
    def branch(self) -> str:
        return self.files.paths.branch

    def is_tag_of(self, branch: str) -> bool:
        return self.kind is RootKind.TAG and self.branch == branch


def all_roots(files: TableFiles, *, known: AbstractSet[FileStatus] = frozenset()) -> list[Root]:
    """Every root of main and of all branches, without the snapshots whose files are `known`.

    A branch without its first schema is incomplete, and keeps nothing. The process that creates a
    branch checks, after it has written that schema, that the branch's snapshot is still kept.
    """
    return [root for seen in whole_branches(files) for root in branch_roots(seen, known=known)]


def other_roots(files: TableFiles) -> list[Root]:
    """Every root except the snapshots of the branch that `files` sees."""
    found: list[Root] = []
    for seen in whole_branches(files):
        is_own = seen.paths.branch == files.paths.branch
        found += _lasting_roots(seen) if is_own else branch_roots(seen)
    return found


def branch_roots(files: TableFiles, *, known: AbstractSet[FileStatus] = frozenset()) -> list[Root]:
    """The roots of one branch: its snapshots in order, its tags, its changelogs.

    A snapshot that is deleted during the read is not among them.
    """
    snapshots = [snapshot_root(files, each) for each in files.snapshots.read_all(but=known)]
    return [*snapshots, *_lasting_roots(files)]


def _lasting_roots(files: TableFiles) -> list[Root]:
    """Tags and changelogs of one branch, which outlive the expiry of snapshots."""
    return [
        *(tag_root(files, tag.name, tag.snapshot) for tag in files.references.tags().values()),
        *(changelog_root(files, changelog) for changelog in files.references.changelogs()),
    ]


def snapshot_root(files: TableFiles, snapshot: Snapshot) -> Root:
    """A snapshot as a root."""
    return Root(files=files, kind=RootKind.SNAPSHOT, label=snapshot.id, snapshot=snapshot)


def tag_root(files: TableFiles, name: str, snapshot: Snapshot) -> Root:
    """A tag as a root."""
    return Root(files=files, kind=RootKind.TAG, label=name, snapshot=snapshot)


def changelog_root(files: TableFiles, snapshot: Snapshot) -> Root:
    """A long-lived changelog as a root."""
    return Root(files=files, kind=RootKind.CHANGELOG, label=snapshot.id, snapshot=snapshot)


def root_ids(roots: Iterable[Root], kind: RootKind) -> list[int]:
    """Ids of the snapshots or changelogs among roots."""
    return [root.snapshot.id for root in roots if root.kind is kind]


def tag_labels(roots: Iterable[Root]) -> list[str]:
    """Names of the tags among roots."""
    return [str(root.label) for root in roots if root.kind is RootKind.TAG]
