"""Plans and results of compactions."""

from __future__ import annotations

from dataclasses import dataclass

from lakewright.storage.errors import InvalidRequestError
from lakewright.storage.operations.rewrite.runner import RewriteResult
from lakewright.storage.operations.running.plan import ResultT, RewritePlan
from lakewright.storage.spec.partition_words import name_partition
from lakewright.storage.spec.snapshot import Snapshot


@dataclass(frozen=True, slots=True, kw_only=True)
class CompactionTask:
    """One bucket's work: these files are rewritten at `output_level`.

    `upgrades` are the files that only change their level. With `file_by_file` each other file is
    rewritten by itself. `waits_since_ms` is when the oldest file was written that no compaction has
    rewritten.
    """

    partition: dict[str, object]
    bucket: int
    files: tuple[str, ...]
    file_sizes: tuple[int, ...]
    rows: int
    output_level: int
    reason: str
    upgrades: tuple[str, ...] = ()
    file_by_file: bool = False
    waits_since_ms: int = 0

    def __post_init__(self) -> None:
        if not self.files:
            raise InvalidRequestError(
                f"a task for bucket {self.bucket} of {name_partition(self.partition)} names no "
                "files; plan again"
            )
        if len(self.files) != len(self.file_sizes):
            raise InvalidRequestError(
                f"a task for bucket {self.bucket} of {name_partition(self.partition)} has "
                f"{len(self.files)} files and {len(self.file_sizes)} sizes; plan again"
            )

    @property
    def bytes(self) -> int:
        return sum(self.file_sizes)

    @property
    def rewritten_bytes(self) -> int:
        """Size of the files that do not only change their level."""
        sizes = zip(self.files, self.file_sizes, strict=True)
        return sum(size for name, size in sizes if name not in self.upgrades)


@dataclass(frozen=True, slots=True, kw_only=True)
class SkippedBucket:
    """A bucket that the plan leaves unchanged."""

    partition: dict[str, object]
    bucket: int
    files: int
    reason: str


@dataclass(frozen=True, slots=True, kw_only=True)
class BucketsPlan(RewritePlan[ResultT]):
    """What a verb would rewrite bucket by bucket; `bytes_left` wait for a later run."""

    tasks: tuple[CompactionTask, ...]
    skipped: tuple[SkippedBucket, ...]
    bytes_left: int = 0


@dataclass(frozen=True, slots=True, kw_only=True)
class CompactionPlan(BucketsPlan["CompactionResult"]):
    """What a compaction would do, as of one snapshot."""


@dataclass(frozen=True, slots=True, kw_only=True)
class CompactionResult(RewriteResult):
    """What a compaction did; `dropped_tasks` counts conflicts and tasks that lost their lease.

    `files_upgraded` files, counted both before and after, only changed their level.
    """

    snapshot: Snapshot | None
    file_sizes_before: tuple[int, ...]
    file_sizes_after: tuple[int, ...]
    files_upgraded: int
    dropped_tasks: int
