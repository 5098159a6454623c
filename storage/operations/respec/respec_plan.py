"""What a change of partition keys would do, and what it did."""

from __future__ import annotations

from dataclasses import dataclass

from lakewright.storage.operations.rewrite.compaction_plan import CompactionPlan
from lakewright.storage.operations.running.plan import Plan
from lakewright.storage.spec.schema import TableSchema
from lakewright.storage.spec.shown import Shown

# More than these make a table slow to plan; a caller may raise them.
MOST_PARTITIONS = 10_000
MOST_FILES = 100_000


@dataclass(frozen=True, slots=True, kw_only=True)
class Layout:
    """The files that are restated where they lie, or that are split first."""

    files: int
    bytes: int
    rows: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Becoming:
    """A present partition, and the partitions that its rows come to, by their paths."""

    partition: str
    becomes: tuple[str, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class RespecPlan(Plan["RespecResult"]):
    """What a change of the partition keys would do, as of one snapshot.

    `steps` are the keys after each cut-over; none if the table has the keys already. `becomes`
    names the new partitions of each present one. `splits` has the files to split, by bucket. Of a
    primary-key table it has all files, which are written anew (`is_keyed`), or those that a client
    committed under former keys. `primary_key` is the new one, if it changes, too.
    """

    table: str
    schema_id: int
    snapshot_id: int | None
    keys: tuple[str, ...]
    former_keys: tuple[str, ...]
    steps: tuple[tuple[str, ...], ...]
    restate: Layout
    split: Layout
    splits: CompactionPlan
    files_after: int
    becomes: tuple[Becoming, ...]
    most_partitions: int = MOST_PARTITIONS
    most_files: int = MOST_FILES
    is_keyed: bool = False
    moved_from: str | None = None
    primary_key: tuple[str, ...] | None = None

    @property
    def partitions_before(self) -> int:
        return len(self.becomes)

    @property
    def partitions_after(self) -> int:
        return len({each for found in self.becomes for each in found.becomes})

    @property
    def changes_nothing(self) -> bool:
        """Whether the table has the keys, and no file of another layout."""
        return not self.steps and not self.restate.files and not self.split.files


@dataclass(frozen=True, slots=True, kw_only=True)
class RespecResult(Shown):
    """What a change of the partition keys did; `schema` is the current one."""

    schema: TableSchema
    former_keys: tuple[str, ...]
    snapshot_ids: tuple[int, ...]
    files_restated: int
    files_split: int
    bytes_rewritten: int
    duration_ms: int
