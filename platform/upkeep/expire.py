"""Expiry as verbs: snapshots, tags and changelogs by themselves, and all three in one run.

The run of all three goes from snapshots, step after step, to tags and then to changelogs: each is
planned when what went before it is gone, since that may be what kept a file.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace

from lakewright.platform.upkeep.deletions import counted, deletion_report, file_rows
from lakewright.platform.upkeep.verb import (
    Fact,
    InSteps,
    LeaseNeed,
    Outcome,
    Report,
    Verb,
    Work,
    option,
)
from lakewright.storage import (
    DeleteTagsPlan,
    ExpireChangelogsPlan,
    ExpirePlan,
    ExpireResult,
    LeaseKind,
    Table,
)
from lakewright.storage.operations.leases.leases import check_held, whole_table
from lakewright.storage.operations.references.tags import DeleteTagsResult
from lakewright.storage.operations.retention.expire_changelogs import ExpireChangelogsResult
from lakewright.storage.operations.running.plan import Plan, UnreachableFile


@dataclass(frozen=True, slots=True, kw_only=True)
class ExpireOptions:
    """What an expiry of snapshots may be told; the table's options say the rest."""

    retain_min: int | None = option(None, "Snapshots that stay in any case.")
    retain_max: int | None = option(None, "Snapshots that may stay at most.")
    time_retained_ms: int | None = option(None, "How long a snapshot stays: 1h, 7d or 0s.")
    max_deletes: int | None = option(None, "Snapshots that one run expires at most.")
    max_duration_ms: int | None = option(
        None, "Begin no further step after such a time; the next run goes on."
    )


@dataclass(frozen=True, slots=True, kw_only=True)
class ExpireTagsOptions:
    """What an expiry of tags may be told."""

    older_than_ms: int | None = option(
        None, "Delete tags of at least that age too, however long they were to be retained."
    )


@dataclass(frozen=True, slots=True, kw_only=True)
class ExpireChangelogsOptions:
    """What an expiry of changelogs may be told."""

    every: bool = option(
        default=False, text="Delete every changelog, whatever the table's options retain."
    )


# --- snapshots ---------------------------------------------------------------------------------


class ExpireSnapshots(InSteps[ExpireOptions, ExpirePlan, ExpireResult]):
    """Let old snapshots go, step after step."""

    name = "expire_snapshots"
    description = "delete old snapshots, and the files that only they need"
    options = ExpireOptions
    plan_type = ExpirePlan

    def plan(self, table: Table, options: ExpireOptions) -> ExpirePlan:
        """The first step."""
        return table.plan_expire_snapshots(
            retain_min=options.retain_min,
            retain_max=options.retain_max,
            time_retained_ms=options.time_retained_ms,
            max_deletes=options.max_deletes,
        )

    def lease(self, table: Table, plan: ExpirePlan | None) -> LeaseNeed:
        """The whole table."""
        return expiry_lease(table)

    def run(
        self, table: Table, plan: ExpirePlan, options: ExpireOptions, work: Work
    ) -> ExpireResult:
        """Delete what the plan names."""
        return table.run_expire_snapshots(plan)

    def steps(
        self, table: Table, options: ExpireOptions, work: Work
    ) -> Iterator[Outcome[ExpireOptions, ExpirePlan, ExpireResult]]:
        """Step after step, until no snapshot may go or the time is up."""
        done: Outcome[ExpireOptions, ExpirePlan, ExpireResult] | None = None
        for step in table.expire_in_steps(
            retain_min=options.retain_min,
            retain_max=options.retain_max,
            time_retained_ms=options.time_retained_ms,
            max_deletes=options.max_deletes,
            max_duration_ms=options.max_duration_ms,
        ):
            if done is None or done.result is None:
                done = Outcome(options=options, plan=step.plan, result=step.result)
            else:
                done = replace(done, result=done.result.and_then(step.result))
            yield done
            check_held(table.files, work.lease)

    def report(
        self, table: Table, outcome: Outcome[ExpireOptions, ExpirePlan, ExpireResult]
    ) -> Report:
        """The snapshots and files that go, or went."""
        plan, result = outcome.plan, outcome.result
        ids = plan.snapshot_ids if result is None else result.expired
        facts: dict[str, Fact] = {"snapshots": len(ids), **_range_fact(ids)}
        what = counted(len(ids), "snapshot")
        return deletion_report(what, facts, plan, result, notes=plan.reasons, is_empty=not ids)


# --- tags and changelogs -----------------------------------------------------------------------


class ExpireTags(Verb[ExpireTagsOptions, DeleteTagsPlan, DeleteTagsResult]):
    """Let tags go that are past their time."""

    name = "expire_tags"
    description = "delete tags past their time, and automatic ones beyond their number"
    options = ExpireTagsOptions
    plan_type = DeleteTagsPlan

    def plan(self, table: Table, options: ExpireTagsOptions) -> DeleteTagsPlan:
        """The tags that are past their time."""
        return table.plan_expire_tags(older_than_ms=options.older_than_ms)

    def lease(self, table: Table, plan: DeleteTagsPlan | None) -> LeaseNeed:
        """The whole table."""
        return expiry_lease(table)

    def run(
        self, table: Table, plan: DeleteTagsPlan, options: ExpireTagsOptions, work: Work
    ) -> DeleteTagsResult:
        """Delete what the plan names."""
        return table.run_expire_tags(plan)

    def report(
        self, table: Table, outcome: Outcome[ExpireTagsOptions, DeleteTagsPlan, DeleteTagsResult]
    ) -> Report:
        """The tags and files that go, or went."""
        plan = outcome.plan
        facts: dict[str, Fact] = {"tags": len(plan.tags)}
        what = counted(len(plan.tags), "tag")
        return deletion_report(
            what, facts, plan, outcome.result, notes=plan.reasons, is_empty=not plan.tags
        )


class ExpireChangelogs(Verb[ExpireChangelogsOptions, ExpireChangelogsPlan, ExpireChangelogsResult]):
    """Let changelogs go that outlived their snapshots."""

    name = "expire_changelogs"
    description = "delete changelogs beyond the number and the age that the table's options retain"
    options = ExpireChangelogsOptions
    plan_type = ExpireChangelogsPlan

    def plan(self, table: Table, options: ExpireChangelogsOptions) -> ExpireChangelogsPlan:
        """The changelogs that may go."""
        return table.plan_expire_changelogs(every=options.every)

    def lease(self, table: Table, plan: ExpireChangelogsPlan | None) -> LeaseNeed:
        """The whole table."""
        return expiry_lease(table)

    def run(
        self,
        table: Table,
        plan: ExpireChangelogsPlan,
        options: ExpireChangelogsOptions,
        work: Work,
    ) -> ExpireChangelogsResult:
        """Delete what the plan names."""
        return table.run_expire_changelogs(plan)

    def report(
        self,
        table: Table,
        outcome: Outcome[ExpireChangelogsOptions, ExpireChangelogsPlan, ExpireChangelogsResult],
    ) -> Report:
        """The changelogs and files that go, or went."""
        plan, result = outcome.plan, outcome.result
        ids = plan.changelog_ids if result is None else result.expired
        facts: dict[str, Fact] = {"changelogs": len(ids)}
        what = counted(len(ids), "changelog")
        return deletion_report(what, facts, plan, result, notes=plan.reasons, is_empty=not ids)


# --- all three ---------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True, kw_only=True)
class ExpiryPlan(Plan):
    """What one run of an expiry lets go, as far as it is planned.

    `files` names the files of the first step of snapshots, of tags and of the first changelogs;
    those of later steps are counted only.
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

    def and_snapshots(self, later: ExpirePlan) -> ExpiryPlan:
        """And one more step of snapshots."""
        ids = (*self.snapshots.snapshot_ids, *later.snapshot_ids)
        return self._and_files(
            replace(self, snapshots=replace(self.snapshots, snapshot_ids=ids)), later
        )

    def and_changelogs(self, later: ExpireChangelogsPlan) -> ExpiryPlan:
        """And one more step of changelogs."""
        if self.changelogs is None:
            return replace(self, changelogs=later)
        ids = (*self.changelogs.changelog_ids, *later.changelog_ids)
        return self._and_files(
            replace(self, changelogs=replace(self.changelogs, changelog_ids=ids)), later
        )

    def _and_files(
        self, joined: ExpiryPlan, later: ExpirePlan | ExpireChangelogsPlan
    ) -> ExpiryPlan:
        return replace(
            joined,
            later_files=self.later_files + len(later.files),
            later_bytes=self.later_bytes + later.bytes,
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class Expired:
    """What one run of an expiry has let go so far; None is what it has not come to."""

    snapshots: ExpireResult | None = None
    tags: DeleteTagsResult | None = None
    changelogs: ExpireChangelogsResult | None = None

    def and_snapshots(self, step: ExpireResult) -> Expired:
        """And what one more step deleted."""
        done = self.snapshots
        return replace(self, snapshots=step if done is None else done.and_then(step))

    def and_changelogs(self, step: ExpireChangelogsResult) -> Expired:
        """And what one more step deleted."""
        done = self.changelogs
        return replace(self, changelogs=step if done is None else done.and_then(step))

    @property
    def snapshot_count(self) -> int:
        return len(self.snapshots.expired) if self.snapshots else 0

    @property
    def tag_count(self) -> int:
        return len(self.tags.tags) if self.tags else 0

    @property
    def changelog_count(self) -> int:
        return len(self.changelogs.expired) if self.changelogs else 0

    @property
    def files_deleted(self) -> int:
        return sum(each.files_deleted for each in self._results)

    @property
    def bytes_deleted(self) -> int:
        return sum(each.bytes_deleted for each in self._results)

    @property
    def duration_ms(self) -> int:
        return sum(each.duration_ms for each in self._results)

    @property
    def _results(self) -> list[ExpireResult | DeleteTagsResult | ExpireChangelogsResult]:
        return [each for each in (self.snapshots, self.tags, self.changelogs) if each is not None]


class Expire(InSteps[ExpireOptions, ExpiryPlan, Expired]):
    """Let snapshots, tags and changelogs go."""

    name = "expire"
    description = "delete old snapshots, tags and changelogs, and the files that only they need"
    options = ExpireOptions
    plan_type = ExpiryPlan

    def plan(self, table: Table, options: ExpireOptions) -> ExpiryPlan:
        """The first step of snapshots, and the tags and changelogs that may go before it."""
        return ExpiryPlan(
            snapshots=EXPIRE_SNAPSHOTS.plan(table, options),
            tags=table.plan_expire_tags(),
            changelogs=table.plan_expire_changelogs(),
        )

    def lease(self, table: Table, plan: ExpiryPlan | None) -> LeaseNeed:
        """The whole table."""
        return expiry_lease(table)

    def run(self, table: Table, plan: ExpiryPlan, options: ExpireOptions, work: Work) -> Expired:
        """Delete what the plan names."""
        return Expired(
            snapshots=table.run_expire_snapshots(plan.snapshots),
            tags=table.run_expire_tags(plan.tags) if plan.tags else None,
            changelogs=table.run_expire_changelogs(plan.changelogs) if plan.changelogs else None,
        )

    def steps(
        self, table: Table, options: ExpireOptions, work: Work
    ) -> Iterator[Outcome[ExpireOptions, ExpiryPlan, Expired]]:
        """Snapshots until none may go or the time is up, then tags, then changelogs."""
        plan: ExpiryPlan | None = None
        expired, steps = Expired(), 0
        for step in table.expire_in_steps(
            retain_min=options.retain_min,
            retain_max=options.retain_max,
            time_retained_ms=options.time_retained_ms,
            max_deletes=options.max_deletes,
            max_duration_ms=options.max_duration_ms,
        ):
            steps += 1
            plan = (
                ExpiryPlan(snapshots=step.plan) if plan is None else plan.and_snapshots(step.plan)
            )
            expired = expired.and_snapshots(step.result)
            yield Outcome(options=options, plan=plan, result=expired)
            check_held(table.files, work.lease)
        if plan is None:
            return
        tags = table.plan_expire_tags()
        plan, expired = (
            replace(plan, tags=tags),
            replace(expired, tags=table.run_expire_tags(tags)),
        )
        yield Outcome(options=options, plan=plan, result=expired)
        # Each step of snapshots may have left changelogs for one step of their own.
        for _ in range(steps):
            check_held(table.files, work.lease)
            changelogs = table.plan_expire_changelogs()
            plan = plan.and_changelogs(changelogs)
            expired = expired.and_changelogs(table.run_expire_changelogs(changelogs))
            yield Outcome(options=options, plan=plan, result=expired)

    def report(self, table: Table, outcome: Outcome[ExpireOptions, ExpiryPlan, Expired]) -> Report:
        """What goes, or went, by number."""
        plan, expired = outcome.plan, outcome.result
        if expired is None:
            ids = plan.snapshots.snapshot_ids
            facts: dict[str, Fact] = {
                "snapshots": len(ids),
                "tags": plan.tag_count,
                "changelogs": plan.changelog_count,
                "files": plan.file_count,
                "bytes": plan.bytes,
                **_range_fact(ids),
            }
            counts = (len(ids), plan.tag_count, plan.changelog_count)
            return Report(
                summary=f"{_counts(*counts)} would go",
                facts=facts,
                tables={"plan": file_rows(plan.files)},
                notes=plan.reasons,
                is_empty=not any(counts),
            )
        counts = (expired.snapshot_count, expired.tag_count, expired.changelog_count)
        return Report(
            summary=f"expired {_counts(*counts)}",
            facts={
                "snapshots_expired": expired.snapshot_count,
                "snapshots_left": len(table.files.snapshots.ids()),
                "tags_expired": expired.tag_count,
                "tags_left": len(table.tags()),
                "changelogs_expired": expired.changelog_count,
                "files_deleted": expired.files_deleted,
                "bytes_deleted": expired.bytes_deleted,
                "seconds": round(expired.duration_ms / 1000, 3),
            },
            notes=plan.reasons,
            is_empty=not any(counts),
        )


EXPIRE_SNAPSHOTS = ExpireSnapshots()
EXPIRE_TAGS = ExpireTags()
EXPIRE_CHANGELOGS = ExpireChangelogs()
EXPIRE = Expire()


def expiry_lease(table: Table) -> LeaseNeed:
    """The whole table: two expiries at once would prove the same files unreachable."""
    return LeaseNeed(kind=LeaseKind.EXPIRE, scope=whole_table(table.files))


def _range_fact(ids: Sequence[int]) -> dict[str, Fact]:
    return {"snapshot_range": f"{ids[0]} to {ids[-1]}"} if ids else {}


def _counts(snapshots: int, tags: int, changelogs: int) -> str:
    """The numbers in words; tags and changelogs, which few tables have, only where some go."""
    told = [counted(snapshots, "snapshot")]
    told += [counted(tags, "tag")] if tags else []
    told += [counted(changelogs, "changelog")] if changelogs else []
    return ", ".join(told)
