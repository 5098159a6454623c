"""Expiry as verbs: snapshots, tags and changelogs, each by itself."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import asdict, dataclass, replace

from lakewright.platform.upkeep.deletions import (
    deletion_measures,
    deletion_report,
    plan_facts,
    with_files,
)
from lakewright.platform.upkeep.measures import Benefit, Cost, Measures
from lakewright.platform.upkeep.verb import Extent, Outcome, Report, Steps, Verb, Work, option
from lakewright.platform.upkeep.words import (
    counted,
    duration_text,
    named,
    size_text,
    snapshots_text,
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
from lakewright.storage.operations.leases.leases import require_lease
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


# --- snapshots ---------------------------------------------------------------------------------


def _plan_snapshots(table: Table, options: ExpireOptions) -> ExpirePlan:
    """The first step."""
    return table.upkeep.plan_expire_snapshots(
        retain_min=options.retain_min,
        retain_max=options.retain_max,
        time_retained_ms=options.time_retained_ms,
        max_deletes=options.max_deletes,
    )


def _steps(
    table: Table, options: ExpireOptions, work: Work
) -> Steps[ExpireOptions, ExpirePlan, ExpireResult]:
    done: Outcome[ExpireOptions, ExpirePlan, ExpireResult] | None = None
    for step in snapshot_steps(table, options):
        if done is None or done.result is None:
            done = Outcome(options=options, plan=step.plan, result=step.result)
        else:
            done = replace(done, result=done.result.and_then(step.result))
        yield done
        require_lease(table.table_files, work.lease)


def _snapshots_report(
    table: Table, done: Outcome[ExpireOptions, ExpirePlan, ExpireResult]
) -> Report:
    plan, result = done.plan, done.result
    if result is None:
        return _snapshots_plan_report(plan)
    left = len(table.table_files.snapshots.ids())
    facts = {
        **asdict(result),
        "snapshots_before": left + len(result.expired),
        "snapshots_after": left,
    }
    if not result.expired:
        return replace(_snapshots_plan_report(plan), facts=facts, is_empty=True)
    files, size = counted(result.files_deleted, "file"), size_text(result.bytes_deleted)
    return Report(
        summary=f"{snapshots_text(result.expired)} of {plan.table} expired: {files}, {size} "
        f"deleted in {duration_text(result.duration_ms)}",
        facts=facts,
    )


def _snapshots_plan_report(plan: ExpirePlan) -> Report:
    ids = plan.snapshot_ids
    summary = f"no snapshot of {plan.table} to expire"
    if ids:
        files, size = counted(len(plan.files), "file"), size_text(plan.bytes)
        summary = (
            f"expiry of {plan.table}: {snapshots_text(ids)} to go, and with them {files}, {size}; "
            f"snapshot {plan.end_id} becomes the earliest"
        )
    more = (
        f"this is one step; about {counted(plan.waiting, 'more snapshot')} may go after it, in "
        "further steps of the same call"
    )
    return Report(
        summary=summary,
        facts={"snapshots": len(ids), **plan_facts(plan)},
        notes=(*([more] if ids and plan.waiting else []), *plan.reasons),
        is_empty=not ids,
    )


def snapshots_measures(plan: ExpirePlan, options: ExpireOptions) -> Measures:
    """What an expiry is expected to free in all its steps, if they are like the first one."""
    planned = len(plan.snapshot_ids)
    going = planned + plan.waiting
    if options.max_deletes is not None:
        going = min(going, max(planned, options.max_deletes))
    share = going / planned if planned else 0
    return Measures(
        cost=Cost(files=round(len(plan.files) * share)),
        benefit=Benefit(snapshots_fewer=going, bytes_freed=round(plan.bytes * share)),
    )


def _snapshots_measures(
    _: Table, done: Outcome[ExpireOptions, ExpirePlan, ExpireResult]
) -> Measures:
    if done.result is None:
        return snapshots_measures(done.plan, done.options)
    return deletion_measures(done.plan, done.result, snapshots=len(done.result.expired))


def snapshots_extent(plan: ExpirePlan, expired: int, options: ExpireOptions) -> Extent:
    """How far an expiry is; `plan` has the snapshots of the steps that were planned by now."""
    going = len(plan.snapshot_ids) + plan.waiting
    if options.max_deletes is not None:
        going = min(going, options.max_deletes)
    return Extent(done=expired, total=max(going, expired), of="snapshots")


EXPIRE_SNAPSHOTS = Verb(
    name="expire_snapshots",
    description="delete old snapshots, and the files that only they need",
    options=ExpireOptions,
    plan_type=ExpirePlan,
    plan=_plan_snapshots,
    run=lambda table, plan, options, work: table.upkeep.run(plan),
    report=_snapshots_report,
    alone=LeaseKind.EXPIRE,
    steps=_steps,
    measures=_snapshots_measures,
    extent=lambda done: snapshots_extent(
        done.plan, 0 if done.result is None else len(done.result.expired), done.options
    ),
)


# --- tags and changelogs -----------------------------------------------------------------------


@dataclass(frozen=True, slots=True, kw_only=True)
class ExpireTagsOptions:
    """What an expiry of tags may be told."""

    older_than_ms: int | None = option(
        None, "Delete tags of at least that age too, however long they were to be retained."
    )


EXPIRE_TAGS: Verb[ExpireTagsOptions, DeleteTagsPlan, DeleteTagsResult] = Verb(
    name="expire_tags",
    description="delete tags past their time, and automatic ones beyond their number",
    options=ExpireTagsOptions,
    plan_type=DeleteTagsPlan,
    plan=lambda table, options: table.upkeep.plan_expire_tags(older_than_ms=options.older_than_ms),
    run=lambda table, plan, options, work: table.upkeep.run(plan),
    report=lambda table, done: tags_report(done.plan, done.result, "expire"),
    alone=LeaseKind.EXPIRE,
    measures=lambda table, done: deletion_measures(done.plan, done.result),
)


@dataclass(frozen=True, slots=True, kw_only=True)
class ExpireChangelogsOptions:
    """What an expiry of changelogs may be told."""

    every: bool = option(
        default=False, text="Delete every changelog, whatever the table's options retain."
    )


def _changelogs_report(
    _: Table,
    done: Outcome[ExpireChangelogsOptions, ExpireChangelogsPlan, ExpireChangelogsResult],
) -> Report:
    plan, result = done.plan, done.result
    ids = plan.changelog_ids
    which = f"changelogs of {snapshots_text(ids)} of {plan.table}"
    return deletion_report(
        plan,
        result,
        to_go=Report(
            summary=f"{which} to go, {with_files(plan)}"
            if ids
            else f"no changelog of {plan.table} to expire",
            facts={},
            notes=plan.reasons,
            is_empty=not ids,
        ),
        done=f"{which} expired",
        facts={"expired": [] if result is None else list(result.expired)},
    )


EXPIRE_CHANGELOGS = Verb(
    name="expire_changelogs",
    description="delete changelogs beyond the number and the age that the table's options retain",
    options=ExpireChangelogsOptions,
    plan_type=ExpireChangelogsPlan,
    plan=lambda table, options: table.upkeep.plan_expire_changelogs(every=options.every),
    run=lambda table, plan, options, work: table.upkeep.run(plan),
    report=_changelogs_report,
    alone=LeaseKind.EXPIRE,
    measures=lambda table, done: deletion_measures(done.plan, done.result),
)


def tags_report(plan: DeleteTagsPlan, result: DeleteTagsResult | None, verb: str) -> Report:
    """The tags and files that go, or went; `verb` says what there is none to do with."""
    which = f"{named('tag', plan.tags)} of {plan.table}"
    return deletion_report(
        plan,
        result,
        to_go=Report(
            summary=f"{which} to go, {with_files(plan)}"
            if plan.tags
            else f"no tag of {plan.table} to {verb}",
            facts={},
            notes=plan.reasons,
            is_empty=not plan.tags,
        ),
        done=f"{which} deleted",
        facts={"tags": list(plan.tags)},
    )


def snapshot_steps(table: Table, options: ExpireOptions) -> Iterator[ExpireStep]:
    """Snapshots as they go, step after step."""
    return table.upkeep.expire_in_steps(
        retain_min=options.retain_min,
        retain_max=options.retain_max,
        time_retained_ms=options.time_retained_ms,
        max_deletes=options.max_deletes,
        max_duration_ms=options.max_duration_ms,
    )
