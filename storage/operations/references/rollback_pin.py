"""The rollback pin: a tag that keeps the target and shows that a rollback is under way.

A rollback deletes snapshots, and restores them if another commit followed them. Until that is
decided, no process can know which files are unreachable. So a rollback writes its pin before it
deletes anything. A process that deletes files looks for the pin after it has made its own mark
visible.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator, Sequence

from lakewright.storage.codec.snapshot_json import encode_tag
from lakewright.storage.errors import StalePlan
from lakewright.storage.files.rounds import Rounds
from lakewright.storage.files.table_files import TableFiles
from lakewright.storage.operations.references.roots import Root, RootKind, all_roots
from lakewright.storage.operations.running.local_clock import local_now
from lakewright.storage.operations.state.branch_files import on_branch
from lakewright.storage.operations.state.latest import ROLLBACK_PIN
from lakewright.storage.spec.tag import Tag

_PIN_RETAINED_MS = 86_400_000


def put_pin(files: TableFiles, name: str, snapshot_file: bytes) -> None:
    """Keep a snapshot by a tag while a verb works; after a crash the tag expires as others do."""
    data = encode_tag(
        snapshot_file, create_time=local_now(files), time_retained_ms=_PIN_RETAINED_MS
    )
    files.references.replace_tag(name, data)


def check_no_rollback(files: TableFiles) -> None:
    """Check that no rollback is under way on any branch.

    A dead rollback counts too, until another rollback completes it or its pin is due to expire.

    Raises:
        StalePlan: a rollback is under way.
    """
    for branch, tag in _pins(files):
        where = f" on branch {branch}" if branch else ""
        raise StalePlan(
            f"{files.name} is being rolled back to snapshot {tag.snapshot.id}{where}, or a "
            "rollback to it was stopped halfway; wait until it ends, roll back to that snapshot "
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
    """Whether `check_no_rollback` would raise."""
    return next(_pins(files), None) is not None


def settled_roots(files: TableFiles) -> list[Root] | None:
    """Every root of every branch; None while a rollback is under way, which may restore others."""
    rounds = Rounds(files.name, "its references were listed")
    while not is_rollback_under_way(files):
        rounds.begin()
        roots = all_roots(files)
        if not is_rollback_under_way(files) and not are_back(files, roots):
            return roots
    return None


def are_back(files: TableFiles, roots: Sequence[Root]) -> bool:
    """Whether a finished rollback restored snapshots that are missing in `roots`.

    Call this when no rollback is under way. Snapshots later than those in `roots` do not count.
    """
    read: dict[str, set[int]] = defaultdict(set)
    for root in roots:
        if root.kind is RootKind.SNAPSHOT:
            read[root.branch].add(root.snapshot.id)
    for branch, ids in read.items():
        latest = max(ids)
        kept = on_branch(files, branch).snapshots.kept_ids()
        if any(each < latest and each not in ids for each in kept):
            return True
    return False
