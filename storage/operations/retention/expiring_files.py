"""The files that only a range of expiring snapshots keeps."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from itertools import pairwise

from lakewright.storage.env import FileStatus
from lakewright.storage.errors import FileMissing
from lakewright.storage.files.table_files import TableFiles
from lakewright.storage.operations.references.reachable import Reach, unreachable
from lakewright.storage.operations.references.roots import (
    Root,
    RootKind,
    changelog_root,
    other_roots,
    snapshot_root,
)
from lakewright.storage.operations.running.plan import UnreachableFile
from lakewright.storage.operations.state.lineage import Lineage
from lakewright.storage.spec.snapshot import Snapshot


@dataclass(frozen=True, slots=True)
class ExpiringRange:
    """Snapshots that expire; `end` is the next id, `changelogs` the ids whose changelogs stay."""

    files: TableFiles
    expired: Sequence[Snapshot]
    end: int
    changelogs: Collection[int]

    def files_of(
        self, listed: Mapping[int, FileStatus], lineage: Lineage | None
    ) -> tuple[tuple[UnreachableFile, ...], set[str]]:
        """The files that go with the range, and the paths of metadata files that are unreadable."""
        files = self.files
        going = [snapshot_root(files, each) for each in self.expired]
        lost = Reach(forgiving=True)
        staying = self._staying(listed, lineage or Lineage())
        data: dict[str, int] = {}
        end = snapshot_root(files, files.snapshots.read(self.end))
        # The delta of a snapshot removes files that the snapshot before it still needs. So the
        # deltas are read one snapshot later than the range.
        for before, root in pairwise([*going, end]):
            # An expiry of another client may have been interrupted after it deleted manifests. It
            # deleted the data files that they name before.
            data |= (Reach() if root is end else lost).removed(root)
            if before.snapshot.id + 1 != root.snapshot.id:
                # After a rollback to an old tag no delta covers the gap, so the state is read.
                data |= lost.state(before)
        for root in going:
            data |= lost.changelog(root)
        metadata = lost.metadata_of_all(going)
        outliving = [
            changelog_root(files, each) for each in self.expired if each.id in self.changelogs
        ]
        found = unreachable(files, data, metadata, [*staying, *outliving], lost.sizes)
        return _present(files, found, lost.sizes), lost.unreadable

    def _staying(self, listed: Mapping[int, FileStatus], lineage: Lineage) -> list[Root]:
        """The roots that may reach files of the range, without those that keep no other of them.

        See step 3 in `expire_snapshots.py`.
        """
        files = self.files
        asked = [self.end, *lineage.breaks(files, listed, self.end)]
        mine = [snapshot_root(files, files.snapshots.read(each)) for each in asked]
        others, own = other_roots(files), files.paths.branch
        tagged = [each.snapshot for each in others if each.is_tag_of(own)]
        implied = lineage.implied(tagged, self.expired)
        commits = {each.delta_manifest_list for each in self.expired}
        reach = Reach()

        def is_apart(root: Root) -> bool:
            if root.is_tag_of(own):
                return root.snapshot.delta_manifest_list in implied
            # Changelog files belong to one commit. Without a producer a changelog keeps data files
            # instead, which a snapshot of the range may have removed.
            is_changelog = root.kind is RootKind.CHANGELOG
            is_expiring = root.snapshot.delta_manifest_list in commits
            return is_changelog and not is_expiring and reach.has_producer(root)

        return [*mine, *(root for root in others if not is_apart(root))]


def _present(
    files: TableFiles, found: Sequence[UnreachableFile], sizes: Mapping[str, int]
) -> tuple[UnreachableFile, ...]:
    """The files that exist, with their sizes; reads only files whose size is unknown."""
    present = []
    for each in found:
        path = files.paths.below(each.path)
        if each.size_bytes or path in sizes:
            present.append(each)
            continue
        with suppress(FileMissing):
            present.append(UnreachableFile(each.path, len(files.fs.read_bytes(path))))
    return tuple(present)


def about_unreadable(files: TableFiles, paths: Collection[str]) -> str:
    """A line for operators about unreadable metadata."""
    below = f"{files.paths.root}/"
    first = min(paths).removeprefix(below)
    more = f" and {len(paths) - 1} more" if len(paths) > 1 else ""
    return f"{first}{more} cannot be read, so files that only it names stay, as orphans"
