"""Snapshots: one committed state of a table.

Source: Paimon specification, chapter Snapshot (version 3).
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from enum import Enum

SNAPSHOT_VERSION = 3
FIRST_SNAPSHOT_ID = 1
# The identifier of commits that belong to no series: batch jobs use it.
BATCH_COMMIT_IDENTIFIER = 2**63 - 1


class CommitKind(Enum):
    """What a commit did."""

    APPEND = "APPEND"
    COMPACT = "COMPACT"
    OVERWRITE = "OVERWRITE"
    ANALYZE = "ANALYZE"


@dataclass(frozen=True, slots=True, kw_only=True)
class Snapshot:
    """State of a table: entries of the base list, then those of the delta list.

    Attributes carry the names of the JSON file in snake case.
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
    version: int = SNAPSHOT_VERSION

    @property
    def manifest_lists(self) -> tuple[str, ...]:
        """Every manifest list the snapshot names, base first."""
        lists = (self.base_manifest_list, self.delta_manifest_list, self.changelog_manifest_list)
        return tuple(name for name in lists if name)
