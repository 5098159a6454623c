"""Commits files that no process of the table wrote, and removes entries of files that are gone.

1. Leave out files that the latest snapshot has, by name or by the path outside of the table, and
   removed ones that it does not have.
2. Refuse partitions that got other files since the plan, as far as the plan rests on that.
3. Commit all of it as one snapshot: APPEND, or OVERWRITE if entries are removed.
"""

from __future__ import annotations

from collections.abc import Sequence
from enum import Enum

from lakewright.storage.errors import SchemaMoved, StalePlan
from lakewright.storage.files.table_files import TableFiles
from lakewright.storage.operations.commit.commit_loop import commit_change
from lakewright.storage.operations.state.table_state import TableState
from lakewright.storage.spec.commit import Change, CommitResult, Committable
from lakewright.storage.spec.manifest import ManifestEntry
from lakewright.storage.spec.snapshot import CommitKind


class Joins(Enum):
    """Which live files of their partition new files may join."""

    NONE = "none"
    FOREIGN = "foreign"
    ANY = "any"


def commit_registered(
    files: TableFiles,
    added: Sequence[ManifestEntry],
    removed: Sequence[ManifestEntry] = (),
    *,
    user: str,
    base_snapshot_id: int | None,
    joins: Joins,
) -> CommitResult:
    """Publish files of other systems; without anything to change, the result has no snapshot.

    Raises:
        SchemaMoved: the schema changed since the files were described.
        StalePlan: a partition got files meanwhile that the new files must not join.
    """

    def build(state: TableState) -> Change | None:
        if files.schemas.latest_id(table=files.name) != files.schema.id:
            raise SchemaMoved(
                f"the schema of {files.name} changed while files were registered; plan again"
            )
        live = state.entries_of(entry.partition for entry in (*added, *removed))
        known = {entry.identity for entry in live}
        gone = [entry.removed() for entry in removed if entry.identity in known]
        leaving = {entry.identity for entry in gone}
        # Each takeover names files anew, so one that another took meanwhile is known by its path.
        lies = {_place(entry) for entry in live if entry.identity not in leaving} - {None}
        new = [e for e in added if e.identity not in known and _place(e) not in lies]
        _check_joins(files, new, live, joins)
        return Change(entries=[*gone, *new])

    return commit_change(
        files,
        build,
        Committable(
            user=user,
            kind=CommitKind.OVERWRITE if removed else CommitKind.APPEND,
            base_id=base_snapshot_id,
        ),
    )


def _place(entry: ManifestEntry) -> tuple[bytes, str] | None:
    """Where an entry's file lies, if it lies where its own name does not say."""
    path = entry.file.external_path
    return None if path is None else (entry.partition, path)


def _check_joins(
    files: TableFiles, new: Sequence[ManifestEntry], live: Sequence[ManifestEntry], joins: Joins
) -> None:
    if joins is Joins.ANY:
        return
    against = {
        entry.partition for entry in live if joins is Joins.NONE or not files.is_foreign(entry.file)
    }
    taken = against & {entry.partition for entry in new}
    if taken:
        raise StalePlan(
            f"{files.partitions.of_row(min(taken)).named} of {files.name} got "
            "other files since it was planned; plan again"
        )
