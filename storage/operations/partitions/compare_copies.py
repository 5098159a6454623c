"""Compares partitions of an exchange's target with those of its source.

A target has a partition already if an exchange was stopped between its two commits, or if others
wrote there. What is not proved to be the source's rows stays as it is.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable
from dataclasses import dataclass
from enum import Enum

from lakewright.storage.files.table_files import TableFiles
from lakewright.storage.operations.partitions.held_partitions import HeldNow
from lakewright.storage.operations.partitions.kept_rows import has_all_rows, is_untouched
from lakewright.storage.spec.file_names import is_copy, origin_of


class CopyReason(Enum):
    """Why a partition of the target stays as it is."""

    OWN = "rows of its own"
    DELETED = "copied rows were deleted"
    UNTOLD = "copied rows may have been deleted"


@dataclass(frozen=True, slots=True)
class Compared:
    """What is to be copied, in place of older copies; or a partition that bars the exchange."""

    lacking: frozenset[bytes] = frozenset()
    refusal: tuple[bytes, CopyReason] | None = None


def compare_copies(
    files: TableFiles, here: HeldNow, other: TableFiles, there: HeldNow, rows: Collection[bytes]
) -> Compared:
    """Compare partitions of the target with those of the source.

    An index file that is no copy, or the removal of one of the copies, deletes copied rows: another
    copy would bring them back. Indexes of the source may have changed since, and are copied again.
    """
    known = {(each.partition, origin_of(each.file.file_name)) for each in there.entries}
    own = {
        each.partition
        for each in here.entries
        if (each.partition, origin_of(each.file.file_name)) not in known
    }
    marked = {each.partition for each in here.indexes if not is_copy(each.file.file_name)}
    taken, due = here.names(rows), there.names(rows)
    lacking = set()
    for row in sorted(rows):
        if row in own | marked:
            if not has_all_rows(files, here.snapshot, other, there.snapshot, row):
                return Compared(refusal=(row, CopyReason.OWN if row in own else CopyReason.DELETED))
        elif _origins(taken[row]) != _origins(due[row]):
            untouched = is_untouched(files, here.snapshot, row) if taken[row] else True
            if not untouched:
                why = CopyReason.UNTOLD if untouched is None else CopyReason.DELETED
                return Compared(refusal=(row, why))
            lacking.add(row)
    return Compared(lacking=frozenset(lacking))


def advice_on(why: CopyReason, files: TableFiles, other: TableFiles) -> str:
    """Which rows are in the target, and a way out that neither doubles rows nor loses any."""
    here, there = files.name, other.name
    compare = (
        f"see that no exchange of it runs (lakewright lease list {here}), and compare the rows of "
        f"both tables: if {here} has all rows of {there}, drop the partition in {there}; if "
        f"{there} has all rows of {here}, drop it in {here} and exchange again; otherwise INSERT "
        f"into {here} only the rows that it lacks, and drop the partition in {there}; what you "
        "drop may be nowhere else"
    )
    match why:
        case CopyReason.OWN:
            return f"that are not of {there}, or were rewritten since it was copied; {compare}"
        case CopyReason.DELETED:
            return (
                f"deleted since they were copied from {there}; see that no exchange of it runs "
                f"(lakewright lease list {here}); then, to keep it as it is, INSERT here what "
                f"{there} got since, if anything, and drop it in {there}; to exchange again, with "
                f"the deleted rows, drop it here, if {there} has all of its other rows"
            )
        case CopyReason.UNTOLD:
            return (
                f"copied from {there}, which has other files by now, and the snapshot that copied "
                f"them expired, so that deleted rows could come back; {compare}"
            )


def _origins(names: Iterable[str]) -> frozenset[str]:
    return frozenset(map(origin_of, names))
