"""Which snapshots later ones have taken back.

A revert names the delta lists of what it took back: ids repeat after a rollback, and names of
lists never do. A snapshot is taken back if a later one took it back that was not taken back itself.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Sequence

from lakewright.storage.files.table_files import TableFiles
from lakewright.storage.spec.snapshot import TAKES_BACK_PROPERTY, Snapshot


def takes_back_property(snapshots: Iterable[Snapshot]) -> dict[str, str]:
    """What the snapshot says of itself that takes these back."""
    return {TAKES_BACK_PROPERTY: ",".join(snapshot.delta_manifest_list for snapshot in snapshots)}


def snapshots_since(files: TableFiles, first_id: int, latest: Snapshot) -> list[Snapshot]:
    """The snapshots after one, newest first."""
    found = []
    for snapshot in files.snapshots.back_from(latest):
        if snapshot.id <= first_id:
            break
        found.append(snapshot)
    return found


def taken_back_by(later: Sequence[Snapshot], ids: Collection[int]) -> dict[str, int]:
    """Delta lists of what later snapshots took back, with the ids of these; newest come first.

    What the snapshots with `ids` took back is as if they had never been made.
    """
    found: dict[str, int] = {}
    for snapshot, targets in _reverts(later, ids):
        found |= dict.fromkeys(targets, snapshot.id)
    return found


def cancelled(later: Sequence[Snapshot], ids: Collection[int]) -> frozenset[int]:
    """The ids of later snapshots that together did nothing: a revert, and all that it took back.

    Newest come first. A revert checks that the table is as if what it takes back had never been
    made. So the later snapshots are a history without both, if all of it is later than what is
    taken back now.
    """
    others = {each.delta_manifest_list: each.id for each in later if each.id not in ids}
    found: set[int] = set()
    for snapshot, targets in _reverts(later, ids):
        if targets <= others.keys():
            found |= {snapshot.id, *(others[target] for target in targets)}
    return frozenset(found)


def _reverts(
    later: Sequence[Snapshot], ids: Collection[int]
) -> Iterator[tuple[Snapshot, frozenset[str]]]:
    """Reverts that were not taken back themselves, with what they took back."""
    gone: set[str] = set()
    for snapshot in later:
        told = (snapshot.properties or {}).get(TAKES_BACK_PROPERTY)
        if told and snapshot.id not in ids and snapshot.delta_manifest_list not in gone:
            targets = frozenset(told.split(","))
            gone |= targets
            yield snapshot, targets
