"""The tag by which a rollback holds its target, and tells everybody else that it is at work.

A rollback takes snapshots away, and puts them back if somebody has committed on top of them. While
that is open nobody can say what is unreachable. So a rollback sets its tag before it takes
anything, and whoever deletes files looks for the tag once its own mark is there to be seen.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator, Sequence

from lakewright.storage.errors import StalePlan
from lakewright.storage.files.rounds import Rounds
from lakewright.storage.files.table_files import TableFiles
from lakewright.storage.operations.references.roots import Root, RootKind, all_roots
from lakewright.storage.operations.running.local_clock import local_now
from lakewright.storage.operations.state.branch_files import on_branch
from lakewright.storage.operations.state.latest import ROLLBACK_PIN
from lakewright.storage.spec.tag import Tag


def check_no_rollback(files: TableFiles) -> None:
    """Whether no rollback is under way, on any branch.

    One that died tells so too, until somebody finishes it or its tag is due to expire.

    Raises:
        StalePlan: there is one.
    """
    for branch, tag in _pins(files):
        where = f" on branch {branch}" if branch else ""
        raise StalePlan(
            f"{files.name} is being rolled back to snapshot {tag.snapshot.id}{where}, or a "
            "rollback to it was stopped halfway: let it end, roll back to that snapshot "
            f"again, or delete tag {tag.name}; then plan again",
            table=files.name,
        )


def _pins(files: TableFiles) -> Iterator[tuple[str, Tag]]:
    for branch in ("", *files.references.branches()):
        seen = on_branch(files, branch)
        if not any(name.startswith(ROLLBACK_PIN) for name in seen.references.tag_names()):
            continue
        now = local_now(files)
        for tag in seen.references.tags().values():
            due = tag.expires_at
            if tag.name.startswith(ROLLBACK_PIN) and (due is None or now < due):
                yield branch, tag


def is_rollback_under_way(files: TableFiles) -> bool:
    """Whether `check_no_rollback` would say that there is one."""
    return next(_pins(files), None) is not None


def settled_roots(files: TableFiles) -> list[Root] | None:
    """Every root there is, with none held back by a rollback; None while one is under way."""
    rounds = Rounds(files.name, "what keeps files was listed")
    while not is_rollback_under_way(files):
        rounds.begin()
        roots = all_roots(files)
        if not is_rollback_under_way(files) and not are_back(files, roots):
            return roots
    return None


def are_back(files: TableFiles, roots: Sequence[Root]) -> bool:
    """Whether a rollback that is over put snapshots back that were not there to be read.

    To be asked once there is no rollback. Later snapshots than those read are no matter of it.
    """
    read: dict[str, set[int]] = defaultdict(set)
    for root in roots:
        if root.kind is RootKind.SNAPSHOT:
            read[root.branch].add(root.snapshot.id)
    return any(
        each < max(ids) and each not in ids
        for branch, ids in read.items()
        for each in on_branch(files, branch).snapshots.kept_ids()
    )
