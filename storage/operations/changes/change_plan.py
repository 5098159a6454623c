"""The plan of a read of changes: its splits and their sources."""

from __future__ import annotations

from dataclasses import dataclass
from enum import Enum

from lakewright.storage.errors import InvalidRequestError
from lakewright.storage.operations.read.scan import DataSplit
from lakewright.storage.spec.manifest import DataFileMeta
from lakewright.storage.spec.shown import Shown


class ChangeSource(Enum):
    """How a split's rows are made: as written, merged with deletions, or a difference."""

    WRITTEN = "written"
    STATE = "state"
    DIFFERENCE = "difference"


@dataclass(frozen=True, slots=True, kw_only=True)
class ChangeSplit:
    """Files of one bucket for one reader of changes; only differences have `before`.

    Each bucket has its own split. A partition that was rescaled in between has one split. `turns`
    says of each file how many of the plan were written before it; a state has none. `keys_of` are
    the schemas whose keys the files have, if these are not the table's: one, or one of each state.
    """

    source: ChangeSource
    after: tuple[DataSplit, ...]
    before: tuple[DataSplit, ...] = ()
    turns: tuple[int, ...] = ()
    keys_of: tuple[int, ...] = ()

    @property
    def metas(self) -> tuple[DataFileMeta, ...]:
        return tuple(file for split in (*self.before, *self.after) for file in split.files)


class IncrementalMode(Enum):
    """The source of changes; `auto` takes changelogs if the table writes them, else deltas.

    Between two tags, `auto` takes the difference of the two states.
    """

    AUTO = "auto"
    DELTA = "delta"
    CHANGELOG = "changelog"
    DIFF = "diff"


@dataclass(frozen=True, slots=True, kw_only=True)
class ChangePlan(Shown):
    """The files with the changes; `snapshot_ids` are the snapshots whose changes are read.

    A difference has the two compared snapshots; a state has one.
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
    """The mode that a caller names.

    Raises:
        InvalidRequestError: the mode does not exist.
    """
    try:
        return IncrementalMode(mode)
    except ValueError:
        known = ", ".join(each.value for each in IncrementalMode)
        raise InvalidRequestError(f"incremental mode {mode!r} is not one of {known}") from None
