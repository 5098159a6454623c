"""Expiry of snapshots, tags and changelogs as one verb.

It expires snapshots in steps, then tags, then changelogs. Each is planned after the deletion of the
one before, because that may have kept a file.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import overload

from lakewright.platform.upkeep.expire import (
    EXPIRE_SNAPSHOTS,
    ExpireOptions,
    snapshot_steps,
    snapshots_extent,
    snapshots_measures,
)
from lakewright.platform.upkeep.measures import Benefit, Cost, Measures
from lakewright.platform.upkeep.verb import Outcome, Report, Steps, Verb, Work
from lakewright.platform.upkeep.words import counted
from lakewright.storage import (
    DeleteTagsPlan,
    ExpireChangelogsPlan,
    ExpirePlan,
    ExpireResult,
    LeaseKind,
    Table,
)
from lakewright.storage.operations.leases.leases import require_lease
from lakewright.storage.operations.references.tags import DeleteTagsResult
from lakewright.storage.operations.retention.expire_changelogs import ExpireChangelogsResult
from lakewright.storage.operations.running.plan import Plan, UnreachableFile


@dataclass(frozen=True, slots=True, kw_only=True)
class ExpiryPlan(Plan["Expired"]):
    """What one run of an expiry would delete, as far as it is planned.

    `files` names the files of the first step of snapshots, of tags and of the first changelogs.
    Files of later steps are only counted.
    """

    snapshots: ExpirePlan
    tags: DeleteTagsPlan | None = None
    changelogs: ExpireChangelogsPlan | None = None
    later_files: int = 0
    later_bytes: int = 0

    @property
    def table(self) -> str:
        return self.snapshots.table

    @property
    def reasons(self) -> tuple[str, ...]:
        return tuple(reason for each in self._parts for reason in each.reasons)

    @property
    def files(self) -> tuple[UnreachableFile, ...]:
        return tuple(file for each in self._parts for file in each.files)

    @property
    def file_count(self) -> int:
        return len(self.files) + self.later_files

    @property
    def bytes(self) -> int:
        return sum(each.bytes for each in self._parts) + self.later_bytes

    @property
    def tag_count(self) -> int:
        return len(self.tags.tags) if self.tags else 0

    @property
    def changelog_count(self) -> int:
        return len(self.changelogs.changelog_ids) if self.changelogs else 0

    @property
    def _parts(self) -> list[ExpirePlan | DeleteTagsPlan | ExpireChangelogsPlan]:
        parts = (self.snapshots, self.tags, self.changelogs)
        return [each for each in parts if each is not None]

    def and_then(self, later: ExpirePlan | ExpireChangelogsPlan) -> ExpiryPlan:
        """Add one more step."""
        joined = replace(
            self,
            later_files=self.later_files + len(later.files),
            later_bytes=self.later_bytes + later.bytes,
        )
        if isinstance(later, ExpirePlan):
            ids = (*self.snapshots.snapshot_ids, *later.snapshot_ids)
            snapshots = replace(
                self.snapshots, snapshot_ids=ids, end_id=later.end_id, waiting=later.waiting
            )
            return replace(joined, snapshots=snapshots)
        if self.changelogs is None:
            return replace(self, changelogs=later)
        ids = (*self.changelogs.changelog_ids, *later.changelog_ids)
        return replace(joined, changelogs=replace(self.changelogs, changelog_ids=ids))


@dataclass(frozen=True, slots=True, kw_only=True)
class Expired:
    """What one run of an expiry has deleted so far."""

    snapshots: tuple[int, ...] = ()
    tags: tuple[str, ...] = ()
    changelogs: tuple[int, ...] = ()
    files_deleted: int = 0
    bytes_deleted: int = 0
    duration_ms: int = 0

    def and_then(self, step: ExpireResult | DeleteTagsResult | ExpireChangelogsResult) -> Expired:
        """Add the result of one more step."""
        joined = replace(
            self,
            files_deleted=self.files_deleted + step.files_deleted,
            bytes_deleted=self.bytes_deleted + step.bytes_deleted,
            duration_ms=self.duration_ms + step.duration_ms,
        )
        match step:
            case ExpireResult():
                return replace(joined, snapshots=(*self.snapshots, *step.expired))
            case DeleteTagsResult():
                return replace(joined, tags=(*self.tags, *step.tags))
            case ExpireChangelogsResult():
                return replace(joined, changelogs=(*self.changelogs, *step.expired))


def _plan(table: Table, options: ExpireOptions) -> ExpiryPlan:
    """The first step of snapshots, and the tags and changelogs that may go before it."""
    return ExpiryPlan(
        snapshots=EXPIRE_SNAPSHOTS.plan(table, options),
        tags=table.upkeep.plan_expire_tags(),
        changelogs=table.upkeep.plan_expire_changelogs(),
    )


def _run(table: Table, plan: ExpiryPlan, _: ExpireOptions, __: Work) -> Expired:
    """Delete what the plan names; with its tags go the files that only its snapshots kept."""
    expired = Expired().and_then(table.upkeep.run(plan.snapshots))
    if plan.tags is not None:
        # A tag that stands for another snapshot than planned is still refused.
        tags = replace(plan.tags, files=table.history.plan_delete_tags(*plan.tags.tags).files)
        expired = expired.and_then(table.upkeep.run(tags))
    if plan.changelogs is not None:
        expired = expired.and_then(table.upkeep.run(plan.changelogs))
    return expired


def _steps(
    table: Table, options: ExpireOptions, work: Work
) -> Steps[ExpireOptions, ExpiryPlan, Expired]:
    """Snapshots until none may go or the time is up, then tags, then changelogs."""
    plan: ExpiryPlan | None = None
    expired, steps = Expired(), 0
    for step in snapshot_steps(table, options):
        steps += 1 + len(step.plan.snapshot_ids) // table.options.snapshot_expire_limit
        plan = ExpiryPlan(snapshots=step.plan) if plan is None else plan.and_then(step.plan)
        expired = expired.and_then(step.result)
        yield Outcome(options=options, plan=plan, result=expired)
        require_lease(table.table_files, work.lease)
    if plan is None:
        return
    tags = table.upkeep.plan_expire_tags()
    plan = replace(plan, tags=tags)
    expired = expired.and_then(table.upkeep.run(tags))
    yield Outcome(options=options, plan=plan, result=expired)
    # Snapshots may have left as many changelogs, which go by the option's number in a step.
    for _ in range(steps):
        require_lease(table.table_files, work.lease)
        changelogs = table.upkeep.plan_expire_changelogs()
        plan = plan.and_then(changelogs)
        expired = expired.and_then(table.upkeep.run(changelogs))
        yield Outcome(options=options, plan=plan, result=expired)


def _measures(_: Table, done: Outcome[ExpireOptions, ExpiryPlan, Expired]) -> Measures:
    plan, expired = done.plan, done.result
    if expired is not None:
        return Measures(
            cost=Cost(files=expired.files_deleted),
            benefit=Benefit(
                snapshots_fewer=len(expired.snapshots), bytes_freed=expired.bytes_deleted
            ),
        )
    first = snapshots_measures(plan.snapshots, done.options)
    own = (len(plan.snapshots.files), plan.snapshots.bytes)
    return Measures(
        cost=Cost(files=first.cost.files + plan.file_count - own[0]),
        benefit=Benefit(
            snapshots_fewer=first.benefit.snapshots_fewer,
            bytes_freed=first.benefit.bytes_freed + plan.bytes - own[1],
        ),
    )


def _report(table: Table, done: Outcome[ExpireOptions, ExpiryPlan, Expired]) -> Report:
    """What goes, or went, by number."""
    plan, expired = done.plan, done.result
    if expired is None:
        ids = plan.snapshots.snapshot_ids
        counts = (len(ids), plan.tag_count, plan.changelog_count)
        return Report(
            summary=f"{_counts(*counts)} to go",
            facts={
                "snapshots": len(ids),
                "tags": plan.tag_count,
                "changelogs": plan.changelog_count,
                "files": plan.file_count,
                "bytes": plan.bytes,
                **({"snapshot_range": f"{ids[0]} to {ids[-1]}"} if ids else {}),
            },
            tables={"plan": FileRows(plan.files)},
            notes=plan.reasons,
            is_empty=not any(counts),
        )
    counts = (len(expired.snapshots), len(expired.tags), len(expired.changelogs))
    return Report(
        summary=f"expired {_counts(*counts)}",
        facts={
            "snapshots_expired": len(expired.snapshots),
            "snapshots_left": len(table.table_files.snapshots.ids()),
            "tags_expired": len(expired.tags),
            "tags_left": len(table.history.tags()),
            "changelogs_expired": len(expired.changelogs),
            "files_deleted": expired.files_deleted,
            "bytes_deleted": expired.bytes_deleted,
            "seconds": round(expired.duration_ms / 1000, 3),
        },
        notes=plan.reasons,
        is_empty=not any(counts),
    )


def _counts(snapshots: int, tags: int, changelogs: int) -> str:
    """The numbers in words; tags and changelogs, which few tables have, only where some go."""
    told = [counted(snapshots, "snapshot")]
    told += [counted(tags, "tag")] if tags else []
    told += [counted(changelogs, "changelog")] if changelogs else []
    return ", ".join(told)


@dataclass(frozen=True, slots=True)
class FileRows(Sequence[Mapping[str, object]]):
    """A row for each file, made when it is read."""

    files: Sequence[UnreachableFile]

    def __len__(self) -> int:
        return len(self.files)

    @overload
    def __getitem__(self, at: int) -> Mapping[str, object]: ...

    @overload
    def __getitem__(self, at: slice) -> FileRows: ...

    def __getitem__(self, at: int | slice) -> Mapping[str, object] | FileRows:
        if isinstance(at, slice):
            return FileRows(self.files[at])
        return {"file": self.files[at].path, "bytes": self.files[at].size_bytes}


EXPIRE = Verb(
    name="expire",
    description="delete old snapshots, tags and changelogs, and the files that only they need",
    options=ExpireOptions,
    plan_type=ExpiryPlan,
    plan=_plan,
    run=_run,
    report=_report,
    alone=LeaseKind.EXPIRE,
    steps=_steps,
    measures=_measures,
    extent=lambda done: snapshots_extent(
        done.plan.snapshots, 0 if done.result is None else len(done.result.snapshots), done.options
    ),
    recorded_as=EXPIRE_SNAPSHOTS.name,
)
