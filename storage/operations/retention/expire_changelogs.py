"""Expiry of long-lived changelogs, which outlive their snapshots, and of their files.

1. Choose the range [earliest, end): beyond the changelogs' retention by count, from the latest
   snapshot, and by age, and before the position of each consumer.
2. Find the files that these changelogs name and no snapshot, tag, branch or later changelog
   reaches. Of the snapshots, read the first that stays, and each that is not proved to follow the
   one before it: the others reach no more of these files (`state/lineage.py`).
3. Run: write the record, point EARLIEST at the first changelog that stays, and delete the
   changelogs, oldest first. The collector deletes the files that no root reaches.

Source: Paimon `ExpireChangelogImpl`, `ChangelogDeletion`.
"""

from __future__ import annotations

import math
from collections.abc import Collection
from dataclasses import dataclass

from lakewright.storage.errors import InvalidRequestError, StalePlan
from lakewright.storage.files.table_files import TableFiles
from lakewright.storage.operations.references.collect import carried_out
from lakewright.storage.operations.references.condemn import condemn
from lakewright.storage.operations.references.planned_files import files_of_both
from lakewright.storage.operations.references.reachable import only_kept_by
from lakewright.storage.operations.references.roots import (
    Root,
    RootKind,
    other_roots,
    snapshot_root,
)
from lakewright.storage.operations.references.stale_roots import stale_when_roots_go
from lakewright.storage.operations.running.delete_files import delete_files
from lakewright.storage.operations.running.plan import DeletionPlan, UnreachableFile, check_ids
from lakewright.storage.operations.running.verb_options import (
    COUNT,
    DURATION,
    FLAG,
    grace,
    option,
)
from lakewright.storage.operations.state.lineage import Lineage
from lakewright.storage.operations.state.store_clock import check_machine_clock, check_not_ahead
from lakewright.storage.spec.arguments import whole_number, whole_or_none
from lakewright.storage.spec.option_values import duration_of_ms
from lakewright.storage.spec.shown import Summed
from lakewright.storage.spec.snapshot import Snapshot
from lakewright.storage.spec.supported_options import Use, check_supported


@dataclass(frozen=True, slots=True, kw_only=True)
class ExpireChangelogsPlan(DeletionPlan["ExpireChangelogsResult"]):
    """Changelogs to expire and the files that go with them; `reasons` says what bounds them.

    `waiting` is the number of changelogs that may expire in later steps. `by_age` says that some
    are chosen by their age. For `grace_ms` the run can be undone.
    """

    changelog_ids: tuple[int, ...]
    reasons: tuple[str, ...]
    waiting: int = 0
    by_age: bool = False
    grace_ms: int = 0

    def __post_init__(self) -> None:
        DeletionPlan.__post_init__(self)
        check_ids(self.changelog_ids, self.table)


@dataclass(frozen=True, slots=True, kw_only=True)
class ExpireChangelogsResult(Summed):
    """What an expiry of changelogs deleted, and which files it left to the collector."""

    expired: tuple[int, ...]
    files_deleted: int
    bytes_deleted: int
    duration_ms: int
    files_condemned: int = 0
    bytes_condemned: int = 0


@dataclass(frozen=True)
class ExpireChangelogsOptions:
    """What an expiry of changelogs retains; the table's options say the rest."""

    every: bool = option(
        FLAG,
        default=False,
        text="Delete every changelog, regardless of what the table's options retain.",
        flag="--all",
    )
    retain_min: int | None = option(
        COUNT,
        None,
        "Minimum number of latest commits whose changes stay.",
    )
    retain_max: int | None = option(
        COUNT, None, "Maximum number of latest commits whose changes stay."
    )
    time_retained_ms: int | None = option(DURATION, None, "How long changes stay: 1h, 7d or 0s.")
    grace_ms: int = grace()


@stale_when_roots_go
def plan_expire_changelogs(
    files: TableFiles, options: ExpireChangelogsOptions
) -> ExpireChangelogsPlan:
    """Plan the expiry of long-lived changelogs, or with `every` of all; undone for `grace_ms`.

    The table's options give the retention that is left out. It is counted in commits, from the
    latest snapshot back.

    Raises:
        InvalidRequestError: the retention is invalid, or given beside `every`.
        ClockJumped: the latest snapshot is dated in the future, so ages are unknown.
        CorruptionError: metadata that the plan depends on cannot be read.
    """
    check_supported(files.schema, Use.EXPIRE, table=files.name)
    changelogs = files.references.changelogs()
    kept = _retention_of(files, options.retain_min, options.retain_max, options.time_retained_ms)
    if options.every and (options.retain_min, options.retain_max, options.time_retained_ms) != (
        None,
        None,
        None,
    ):
        raise InvalidRequestError(
            f"every changelog of {files.name} is to be deleted, and a retention is given; leave "
            "one of them out"
        )
    if options.every:
        due, reasons, beyond = changelogs, ["all changelogs are to be deleted"], math.inf
        expired = due
    else:
        due, reasons, beyond = _range(files, changelogs, kept)
        step = files.options.snapshot_expire_limit
        expired = [each for each in due if each.id < due[0].id + step]
    ids = {each.id for each in expired}
    return ExpireChangelogsPlan(
        table=files.name,
        changelog_ids=tuple(sorted(ids)),
        files=_files_of(files, ids),
        reasons=tuple(reasons),
        waiting=len(due) - len(expired),
        by_age=any(beyond <= each.id for each in expired),
        grace_ms=whole_number(options.grace_ms, "grace_ms", minimum=0),
    )


def _files_of(files: TableFiles, changelog_ids: Collection[int]) -> tuple[UnreachableFile, ...]:
    """The files that only these changelogs keep."""
    if not changelog_ids:
        return ()
    roots = _roots(files, changelog_ids)
    going = [
        root
        for root in roots
        if root.kind is RootKind.CHANGELOG
        and root.branch == files.paths.branch
        and root.snapshot.id in changelog_ids
    ]
    gone = set(going)
    return only_kept_by(files, going, [root for root in roots if root not in gone])


def _roots(files: TableFiles, changelog_ids: Collection[int]) -> list[Root]:
    """The roots that may keep files of changelogs, including the changelogs themselves."""
    listed = files.snapshots.listed()
    kept = list(listed)
    asked = {*kept[:1], *changelog_ids} & set(kept)
    asked.update(Lineage().breaks(files, listed, kept[0]) if kept else ())
    mine = [snapshot_root(files, files.snapshots.read(each)) for each in sorted(asked)]
    return [*mine, *other_roots(files)]


@dataclass(frozen=True, slots=True, kw_only=True)
class _Retention:
    """Of how many commits, and of which time, the changes are kept."""

    least: int
    most: int
    time_ms: int


def _retention_of(
    files: TableFiles,
    retain_min: int | None,
    retain_max: int | None,
    time_retained_ms: int | None,
) -> _Retention:
    """The requested retention, completed from the table's options; refuses invalid values."""
    options = files.options
    least = whole_or_none(retain_min, "retain_min", minimum=1)
    most = whole_or_none(retain_max, "retain_max", minimum=1)
    time_ms = whole_or_none(time_retained_ms, "time_retained_ms", minimum=0)
    kept = _Retention(
        least=options.changelog_num_retained_min if least is None else least,
        most=options.changelog_num_retained_max if most is None else most,
        time_ms=options.changelog_time_retained_ms if time_ms is None else time_ms,
    )
    if kept.most < kept.least and (least, most) != (None, None):
        raise InvalidRequestError(
            f"retain_max ({kept.most}) of the changelogs of {files.name} is below retain_min "
            f"({kept.least}); give both"
        )
    return kept


def _range(
    files: TableFiles, changelogs: list[Snapshot], retention: _Retention
) -> tuple[list[Snapshot], list[str], float]:
    """The changelogs before the first one that stays, and the reasons for that limit.

    From the third value on, a changelog goes by its age, and not by its number.
    """
    latest = files.snapshots.latest_id()
    if latest is None or not changelogs:
        return [], ["the table has no long-lived changelog"], math.inf
    kept = retention.least
    end = latest - kept + 1
    reasons = [f"of {latest} commits the changes of at least {kept} are retained"]
    for name, position in files.references.consumers().items():
        if position < end:
            end = position
            reasons.append(f"consumer {name} wants to read from snapshot {position}")
    # Changelogs beyond the maximum count expire at any age.
    beyond = latest - retention.most + 1
    if beyond < end:
        check_machine_clock(files, files.snapshots.read(latest))
    oldest_kept = files.env.now_ms() - retention.time_ms
    for changelog in changelogs:
        if beyond <= changelog.id < end and changelog.time_millis >= oldest_kept:
            end = changelog.id
            reasons.append(
                f"changelog {changelog.id} is of the last {duration_of_ms(retention.time_ms)}"
            )
            break
    return [each for each in changelogs if each.id < end], reasons, beyond


@stale_when_roots_go
def run_expire_changelogs(files: TableFiles, plan: ExpireChangelogsPlan) -> ExpireChangelogsResult:
    """Carry out a plan.

    Raises:
        StalePlan: the planned changelogs are no longer the earliest, or a new plan for them would
            not delete a planned file.
        ClockJumped: the clock of this machine is ahead of the store's, so ages are unknown.
    """
    check_supported(files.schema, Use.EXPIRE, table=files.name)
    started = files.env.now_ms()
    if not plan.changelog_ids:
        return ExpireChangelogsResult(expired=(), files_deleted=0, bytes_deleted=0, duration_ms=0)
    if plan.by_age:
        check_not_ahead(files)
    there = [changelog.id for changelog in files.references.changelogs()]
    last = max(plan.changelog_ids)
    if any(each <= last and each not in plan.changelog_ids for each in there):
        raise StalePlan(
            f"the plan expires changelogs up to {last} of {files.name}, which has different "
            "changelogs now; plan again"
        )
    listed = files.snapshots.listed()
    going = files_of_both(files, plan.files, _files_of(files, plan.changelog_ids))
    left = [each for each in there if each > last]
    # Another expiry may have deleted some. One that comes after the listing is not planned.
    expired = tuple(each for each in there if each <= last)
    paths = [files.paths.changelog(each) for each in expired]
    condemned = condemn(files, "expire_changelogs", going, paths, grace_ms=plan.grace_ms)
    if left:
        files.references.hint_changelogs(earliest=min(left))
    else:
        paths += [files.paths.changelog_latest_hint, files.paths.changelog_earliest_hint]
    delete_files(files.fs, paths)
    deleted = carried_out(condemned, known_snapshots=frozenset(listed.values()))
    return ExpireChangelogsResult(
        expired=expired,
        files_deleted=deleted.files,
        bytes_deleted=deleted.bytes,
        duration_ms=files.env.now_ms() - started,
        files_condemned=deleted.condemned_files,
        bytes_condemned=deleted.condemned_bytes,
    )
