"""What a read of changes opens."""

from __future__ import annotations

from dataclasses import dataclass
from enum import Enum

from lakewright.storage.errors import InvalidRequestError
from lakewright.storage.operations.read.scan import DataSplit
from lakewright.storage.spec.manifest import DataFileMeta
from lakewright.storage.spec.shown import Shown


class ChangeSource(Enum):
    """What a split's rows are: as written, merged with deletions kept, or a difference."""

    WRITTEN = "written"
    STATE = "state"
    DIFFERENCE = "difference"


@dataclass(frozen=True, slots=True, kw_only=True)
class ChangeSplit:
    """Files whose changes one reader takes; `before` is there for differences only.

    There is a split for each bucket: one, unless the partition was rescaled in between.
    """

    source: ChangeSource
    after: tuple[DataSplit, ...]
    before: tuple[DataSplit, ...] = ()

    @property
    def metas(self) -> tuple[DataFileMeta, ...]:
        return tuple(file for split in (*self.before, *self.after) for file in split.files)


class IncrementalMode(Enum):
    """Where changes come from; `auto` takes changelogs where the table writes them, else deltas.

    Between tags it is the difference of the two states.
    """

    AUTO = "auto"
    DELTA = "delta"
    CHANGELOG = "changelog"
    DIFF = "diff"


@dataclass(frozen=True, slots=True, kw_only=True)
class ChangePlan(Shown):
    """The files that hold the changes; `snapshot_ids` are those whose changes are read.

    For a difference they are the two that are compared, for a state the one.
    """

    table: str
    mode: IncrementalMode
    snapshot_ids: tuple[int, ...]
    splits: tuple[ChangeSplit, ...]

    @property
    def files(self) -> int:
        return sum(len(split.metas) for split in self.splits)

    @property
    def bytes(self) -> int:
        return sum(file.file_size for split in self.splits for file in split.metas)

    @property
    def rows(self) -> int:
        return sum(file.row_count for split in self.splits for file in split.metas)


def incremental_mode(mode: str | IncrementalMode) -> IncrementalMode:
    """The mode a caller names.

    Raises:
        InvalidRequestError: it is none.
    """
    try:
        return IncrementalMode(mode)
    except ValueError:
        known = ", ".join(each.value for each in IncrementalMode)
        raise InvalidRequestError(f"incremental mode {mode!r} is none of {known}") from None
