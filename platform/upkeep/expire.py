"""Expiry as verbs: snapshots, tags and changelogs, each by itself."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace

from lakewright.platform.upkeep.deletions import counted, deletion_report
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
    ExpireStep,
    LeaseKind,
    Table,
)
from lakewright.storage.operations.leases.leases import check_held, whole_table
from lakewright.storage.operations.references.tags import DeleteTagsResult
from lakewright.storage.operations.retention.expire_changelogs import ExpireChangelogsResult


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
        return table.upkeep.plan_expire_snapshots(
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
        return table.upkeep.run(plan)

    def steps(
        self, table: Table, options: ExpireOptions, work: Work
    ) -> Iterator[Outcome[ExpireOptions, ExpirePlan, ExpireResult]]:
        """Step after step, until no snapshot may go or the time is up."""
        done: Outcome[ExpireOptions, ExpirePlan, ExpireResult] | None = None
        for step in snapshot_steps(table, options):
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
        facts: dict[str, Fact] = {"snapshots": len(ids), **range_fact(ids)}
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
        return table.upkeep.plan_expire_tags(older_than_ms=options.older_than_ms)

    def lease(self, table: Table, plan: DeleteTagsPlan | None) -> LeaseNeed:
        """The whole table."""
        return expiry_lease(table)

    def run(
        self, table: Table, plan: DeleteTagsPlan, options: ExpireTagsOptions, work: Work
    ) -> DeleteTagsResult:
        """Delete what the plan names."""
        return table.upkeep.run(plan)

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
        return table.upkeep.plan_expire_changelogs(every=options.every)

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
        return table.upkeep.run(plan)

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


EXPIRE_SNAPSHOTS = ExpireSnapshots()
EXPIRE_TAGS = ExpireTags()
EXPIRE_CHANGELOGS = ExpireChangelogs()


def expiry_lease(table: Table) -> LeaseNeed:
    """A lease on the whole table: two concurrent expiries would compute the same files."""
    return LeaseNeed(kind=LeaseKind.EXPIRE, scope=whole_table(table.files))


def range_fact(ids: Sequence[int]) -> dict[str, Fact]:
    """The first and the last of some snapshots, where there are any."""
    return {"snapshot_range": f"{ids[0]} to {ids[-1]}"} if ids else {}


def snapshot_steps(table: Table, options: ExpireOptions) -> Iterator[ExpireStep]:
    """Snapshots as they go, step after step."""
    return table.upkeep.expire_in_steps(
        retain_min=options.retain_min,
        retain_max=options.retain_max,
        time_retained_ms=options.time_retained_ms,
        max_deletes=options.max_deletes,
        max_duration_ms=options.max_duration_ms,
    )
