"""The clients that go on committing under partition keys that the table had before.

They opened the table before its keys changed, and do not ask for the schema again. What they commit
is brought to the present keys, by the upkeep or the next commit. Until then other clients may fail
on the table, at each of their commits, so an operator should restart them.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from itertools import islice

from lakewright.storage.files.table_files import TableFiles
from lakewright.storage.operations.state.keys_of_files import entries_of_other_keys, keys_since_ms
from lakewright.storage.operations.state.time_travel import moment_text
from lakewright.storage.spec.manifest import FileKind
from lakewright.storage.spec.snapshot import CommitKind, Snapshot

_OF_ROWS = (CommitKind.APPEND, CommitKind.OVERWRITE)
# So many of the newest snapshots are looked at.
_MOST_SNAPSHOTS = 1_000


@dataclass(frozen=True, slots=True, kw_only=True)
class LateWriter:
    """A commit user, and its commits under former keys in the snapshots that are kept.

    `first_ms` and `last_ms` are the times of the first and the last of them.
    """

    commit_user: str
    commits: int
    first_ms: int
    last_ms: int

    def __str__(self) -> str:
        commits = "1 commit" if self.commits == 1 else f"{self.commits:,} commits"
        return f"commit user {self.commit_user} ({commits} since {moment_text(self.first_ms)})"


def late_writers(files: TableFiles, latest: Snapshot | None) -> tuple[LateWriter, ...]:
    """The writers of rows with former keys since the keys changed, the latest one first."""
    if latest is None:
        return ()
    since_ms = keys_since_ms(files)
    found: dict[str, LateWriter] = {}
    for snapshot in islice(files.snapshots.back_from(latest), _MOST_SNAPSHOTS):
        if snapshot.time_millis <= since_ms:
            break
        # A compaction is one of Lakewright's, or follows other commits of its client.
        if snapshot.commit_kind not in _OF_ROWS:
            continue
        delta = files.manifests.entries(files.manifests.read_delta_list(snapshot))
        if entries_of_other_keys(files, (e for e in delta if e.kind is FileKind.ADD)):
            _count(found, snapshot)
    return tuple(sorted(found.values(), key=lambda each: -each.last_ms))


def late_writers_text(writers: Sequence[LateWriter]) -> str:
    """The writers to restart, as a clause; empty if none is known."""
    if not writers:
        return ""
    few = ", ".join(map(str, writers[:3]))
    more = f" and {len(writers) - 3} others" if len(writers) > 3 else ""
    return f"{few}{more} still commits under former partition keys: restart that writer"


def _count(found: dict[str, LateWriter], snapshot: Snapshot) -> None:
    user, time_ms = snapshot.commit_user, snapshot.time_millis
    known = found.get(user)
    if known is None:
        found[user] = LateWriter(commit_user=user, commits=1, first_ms=time_ms, last_ms=time_ms)
        return
    found[user] = replace(
        known,
        commits=known.commits + 1,
        first_ms=min(known.first_ms, time_ms),
        last_ms=max(known.last_ms, time_ms),
    )
