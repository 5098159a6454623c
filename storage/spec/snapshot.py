"""Snapshots: one committed state of a table.

Source: Paimon specification, chapter Snapshot (version 3).
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from enum import Enum

from lakewright.storage.errors import UnsupportedError

SNAPSHOT_VERSION = 3
FIRST_SNAPSHOT_ID = 1
# The identifier of commits that belong to no series: batch jobs use it.
BATCH_COMMIT_IDENTIFIER = 2**63 - 1
# The property of a snapshot with a restated base: the delta list of the snapshot that it follows.
FOLLOWS_PROPERTY = "lakewright.follows"
# In a snapshot of a process that changes the partition keys: for a moment, other committers of
# Lakewright wait. The value names the change.
KEYS_CHANGE_PROPERTY = "lakewright.keys-change"
# The property of a revert: the delta lists of the snapshots that it took back, joined by commas.
TAKES_BACK_PROPERTY = "lakewright.takes-back"
# Where the streams into the table stand. Later commits repeat it.
STREAMS_PROPERTY = "lakewright.streams"


class CommitKind(Enum):
    """What a commit did."""

    APPEND = "APPEND"
    COMPACT = "COMPACT"
    OVERWRITE = "OVERWRITE"
    ANALYZE = "ANALYZE"


@dataclass(frozen=True, slots=True, kw_only=True)
class Snapshot:
    """State of a table: entries of the base list, then those of the delta list.

    Attributes carry the names of the JSON file in snake case. `unknown_fields` are the names of
    fields that later versions of the format may have added.
    """

    id: int
    schema_id: int
    base_manifest_list: str
    delta_manifest_list: str
    commit_user: str
    commit_identifier: int
    commit_kind: CommitKind
    time_millis: int
    total_record_count: int
    delta_record_count: int
    base_manifest_list_size: int | None = None
    delta_manifest_list_size: int | None = None
    changelog_manifest_list: str | None = None
    changelog_manifest_list_size: int | None = None
    index_manifest: str | None = None
    changelog_record_count: int | None = None
    watermark: int | None = None
    statistics: str | None = None
    properties: Mapping[str, str] | None = None
    next_row_id: int | None = None
    operation: str | None = None
    writer_version: str | None = None
    # What tells a server of a REST catalog on which snapshot a commit is based.
    uuid: str | None = None
    version: int = SNAPSHOT_VERSION
    unknown_fields: tuple[str, ...] = ()

    @property
    def manifest_lists(self) -> tuple[str, ...]:
        """Every manifest list the snapshot names, base first."""
        lists = (self.base_manifest_list, self.delta_manifest_list, self.changelog_manifest_list)
        return tuple(name for name in lists if name)


def check_known_fields(snapshot: Snapshot, *, table: str) -> None:
    """Refuse to write or delete beside a snapshot with fields that are not known here.

    Such a field may name files, or may have to be carried into the next snapshot.

    Raises:
        UnsupportedError: names the fields.
    """
    if snapshot.unknown_fields:
        raise UnsupportedError(
            f"snapshot {snapshot.id} of {table} has fields of a later version of the format: "
            f"{', '.join(snapshot.unknown_fields)}; the table can be read, and nothing was "
            "written or deleted; upgrade lakewright"
        )
