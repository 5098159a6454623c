"""What a table keeps of its past, from listings and a few files, however long it is.

1. List the folders of snapshots, tags, changelogs and schemas: their names are counted.
2. Read the first snapshot, and the oldest files among the tags.
3. Read the consumers: each file holds a position.
"""

from __future__ import annotations

from contextlib import suppress
from dataclasses import dataclass

from lakewright.storage.errors import SnapshotNotFound, TagNotFound
from lakewright.storage.files.table_files import TableFiles
from lakewright.storage.operations.references.branches import branch_names

# So many tags are read: those whose files are the oldest.
_MOST_TAGS_READ = 16


@dataclass(frozen=True, slots=True, kw_only=True)
class HistorySpan:
    """Counts and ends of a table's history; times are those of commits.

    `oldest_tag_ms` is that of the oldest snapshot among the 16 tags that were written first.
    """

    snapshots: int
    earliest_snapshot: int | None
    latest_snapshot: int | None
    earliest_ms: int | None
    tags: int
    oldest_tag_ms: int | None
    branches: int
    changelogs: int
    consumers: int
    oldest_consumer_snapshot: int | None
    schemas: int


def history_span(files: TableFiles) -> HistorySpan:
    """The span of a table's history.

    Raises:
        CorruptionError: a snapshot, tag or consumer that is read is damaged.
    """
    ids = files.snapshots.ids()
    written = files.references.tag_modified_ms()
    positions = files.references.consumers().values()
    return HistorySpan(
        snapshots=len(ids),
        earliest_snapshot=ids[0] if ids else None,
        latest_snapshot=ids[-1] if ids else None,
        earliest_ms=_earliest_ms(files, ids),
        tags=len(written),
        oldest_tag_ms=_oldest_tag_ms(files, written),
        branches=len(branch_names(files)),
        changelogs=len(files.references.changelog_ids()),
        consumers=len(positions),
        oldest_consumer_snapshot=min(positions, default=None),
        schemas=len(files.schemas.ids()),
    )


def _earliest_ms(files: TableFiles, ids: list[int]) -> int | None:
    """The time of the first snapshot; an expiry at work may take some meanwhile."""
    for each in ids:
        with suppress(SnapshotNotFound):
            return files.snapshots.read(each).time_millis
    return None


def _oldest_tag_ms(files: TableFiles, written: dict[str, int]) -> int | None:
    times = []
    for name in sorted(written, key=lambda each: (written[each], each))[:_MOST_TAGS_READ]:
        with suppress(TagNotFound):
            times.append(files.references.tag(name).snapshot.time_millis)
    return min(times, default=None)
