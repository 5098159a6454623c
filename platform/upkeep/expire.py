"""Expiry as verbs: snapshots, tags and changelogs, each by itself."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import asdict, dataclass, replace

from lakewright.platform.tables.upkeep_policies import UpkeepPolicy
from lakewright.platform.upkeep.clean import collect_due
from lakewright.platform.upkeep.deletions import (
    deletion_measures,
    deletion_report,
    gone_text,
    grace_notes,
    plan_facts,
    with_files,
)
from lakewright.platform.upkeep.measures import Benefit, Cost, Measures
from lakewright.platform.upkeep.procedure import (
    Command,
    Extent,
    Keeping,
    Outcome,
    Procedure,
    Report,
    Steps,
    Work,
)
from lakewright.platform.upkeep.words import (
    counted,
    duration_text,
    named,
    size_text,
    snapshots_text,
)
from lakewright.storage import LeaseKind, Table
from lakewright.storage.operations.leases.leases import require_lease
from lakewright.storage.operations.references.tags import DeleteTagsPlan, DeleteTagsResult
from lakewright.storage.operations.retention.expire_changelogs import (
    ExpireChangelogsOptions,
    ExpireChangelogsPlan,
    ExpireChangelogsResult,
)
from lakewright.storage.operations.retention.expire_snapshots import (
    ExpirePlan,
    ExpireResult,
    ExpireSnapshotsOptions,
)
from lakewright.storage.operations.retention.expire_tags import ExpireTagsOptions
from lakewright.storage.operations.running.verb_options import (
    DURATION,
    option,
)
from lakewright.storage.upkeep import Upkeep


@dataclass(frozen=True, kw_only=True)
class ExpireSnapshotsRun(ExpireSnapshotsOptions):
    """What an expiry of snapshots takes, in all of its steps."""

    max_duration_ms: int | None = option(
        DURATION,
        None,
        "Start no further step after this time; the next run continues.",
        flag="--max-time",
    )


# The next run goes on with what one does not get to.
_MAX_DURATION_MS = 3_600_000


def _kept_snapshots(policy: UpkeepPolicy) -> ExpireSnapshotsRun:
    kept = policy.snapshots
    return ExpireSnapshotsRun(
        retain_min=kept.retain_min,
        retain_max=kept.retain_max,
        time_retained_ms=kept.time_retained,
        max_deletes=kept.max_deletes,
        max_duration_ms=_MAX_DURATION_MS,
        grace_ms=policy.collect.grace,
    )


# --- snapshots ---------------------------------------------------------------------------------


def _steps(
    table: Table, options: ExpireSnapshotsRun, work: Work
) -> Steps[ExpireSnapshotsRun, ExpirePlan, ExpireResult]:
    done: Outcome[ExpireSnapshotsRun, ExpirePlan, ExpireResult] | None = None
    collect_due(table)
    for step in table.upkeep.expire_in_steps(options, max_duration_ms=options.max_duration_ms):
        if done is None or done.result is None:
            done = Outcome(options=options, plan=step.plan, result=step.result)
        else:
            done = replace(done, result=done.result.and_then(step.result))
        yield done
        require_lease(table.table_files, work.lease)


def _snapshots_report(
    table: Table, done: Outcome[ExpireSnapshotsRun, ExpirePlan, ExpireResult]
) -> Report:
    plan, result = done.plan, done.result
    if result is None:
        return _snapshots_plan_report(plan)
    left, gone = len(table.table_files.snapshots.ids()), len(result.expired)
    report = _snapshots_plan_report(plan)
    if gone:
        summary = (
            f"{snapshots_text(result.expired)} of {plan.table} expired: {gone_text(result)} in "
            f"{duration_text(result.duration_ms)}"
        )
        report = replace(report, summary=summary, notes=grace_notes(plan.grace_ms))
    record = {**asdict(result), "snapshots_before": left + gone, "snapshots_after": left}
    report = replace(report, facts=record, record=record, is_empty=not gone)
    return _with_counts(report, snapshots_expired=gone)


def _with_counts(report: Report, **counts: int) -> Report:
    """The report with numbers before its facts, where single values are shown; JSON stays."""
    return replace(report, facts={**counts, **report.facts}, record=report.record or report.facts)


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
    record = {"snapshots": len(ids), **plan_facts(plan)}
    return Report(
        summary=summary,
        facts={**record, **({"snapshot_range": f"{ids[0]} to {ids[-1]}"} if ids else {})},
        record=record,
        notes=(
            *([more] if ids and plan.waiting else []),
            *plan.reasons,
            *grace_notes(plan.grace_ms if ids else 0),
        ),
        is_empty=not ids,
    )


def snapshots_measures(plan: ExpirePlan, options: ExpireSnapshotsRun) -> Measures:
    """What an expiry is expected to free in all its steps, if they are like the first one."""
    planned = len(plan.snapshot_ids)
    going = planned + plan.waiting
    if options.max_deletes is not None:
        going = min(going, max(planned, options.max_deletes))
    share = going / planned if planned else 0
    return Measures(
        cost=Cost(files=round(len(plan.files) * share)),
        benefit=Benefit(
            snapshots_fewer=going,
            bytes_freed=0 if plan.grace_ms else round(plan.bytes * share),
            metadata_bytes_fewer=round(plan.metadata_bytes * share),
        ),
    )


def _snapshots_measures(
    _: Table, done: Outcome[ExpireSnapshotsRun, ExpirePlan, ExpireResult]
) -> Measures:
    if done.result is None:
        return snapshots_measures(done.plan, done.options)
    expired = done.result
    gone = Benefit(
        snapshots_fewer=len(expired.expired),
        metadata_bytes_fewer=expired.metadata_bytes_deleted,
    )
    return deletion_measures(done.plan, expired, gone)


def snapshots_extent(plan: ExpirePlan, expired: int, options: ExpireSnapshotsRun) -> Extent:
    """How far an expiry is; `plan` has the snapshots of the steps that were planned by now."""
    going = len(plan.snapshot_ids) + plan.waiting
    if options.max_deletes is not None:
        going = min(going, options.max_deletes)
    return Extent(done=expired, total=max(going, expired), of="snapshots")


EXPIRE_SNAPSHOTS = Procedure(
    verb=Upkeep.expire_snapshots,
    options=ExpireSnapshotsRun,
    report=_snapshots_report,
    command=Command(
        purpose="Upkeep",
        notes="A plan is one step; without --plan there are as many steps as it takes.",
        examples="""
lakewright expire-snapshots nyc.flights --retain-min 5 --older-than 7d --dry-run
lakewright expire-snapshots nyc.flights --retain-max 100 --max-time 30min
""",
    ),
    keeping=Keeping(section=lambda policy: policy.snapshots, options=_kept_snapshots),
    alone=LeaseKind.EXPIRE,
    steps=_steps,
    measures=_snapshots_measures,
    extent=lambda done: snapshots_extent(
        done.plan, 0 if done.result is None else len(done.result.expired), done.options
    ),
)


# --- tags and changelogs -----------------------------------------------------------------------


def _expired_tags(
    table: Table, done: Outcome[ExpireTagsOptions, DeleteTagsPlan, DeleteTagsResult]
) -> Report:
    report = tags_report(done.plan, done.result, "expire")
    if done.result is None:
        return _with_counts(report, tags_to_go=len(done.plan.tags))
    left = len(table.table_files.references.tag_modified_ms())
    return _with_counts(report, tags_expired=len(done.result.tags), tags_left=left)


EXPIRE_TAGS: Procedure[ExpireTagsOptions, DeleteTagsPlan, DeleteTagsResult] = Procedure(
    verb=Upkeep.expire_tags,
    options=ExpireTagsOptions,
    report=_expired_tags,
    command=Command(
        words="expire",
        examples="lakewright tag expire nyc.flights --dry-run",
    ),
    keeping=Keeping(
        section=lambda policy: policy.tags,
        options=lambda policy: ExpireTagsOptions(
            older_than_ms=policy.tags.older_than,
            spare=policy.tags.spare,
            grace_ms=policy.collect.grace,
        ),
    ),
    alone=LeaseKind.EXPIRE,
    measures=lambda table, done: tags_measures(done.plan, done.result),
)


def _kept_changelogs(policy: UpkeepPolicy) -> ExpireChangelogsOptions:
    kept = policy.changelogs
    return ExpireChangelogsOptions(
        retain_min=kept.retain_min,
        retain_max=kept.retain_max,
        time_retained_ms=kept.time_retained,
        grace_ms=policy.collect.grace,
    )


ChangelogsDone = Outcome[ExpireChangelogsOptions, ExpireChangelogsPlan, ExpireChangelogsResult]


def _changelog_steps(
    table: Table, options: ExpireChangelogsOptions, work: Work
) -> Iterator[ChangelogsDone]:
    """Steps until one deletes nothing; a plan of one step names as many as the table's option."""
    plan = EXPIRE_CHANGELOGS.planned(table, options)
    result = table.upkeep.run(plan)
    yield Outcome(options=options, plan=plan, result=result)
    while result.expired:
        require_lease(table.table_files, work.lease)
        step = EXPIRE_CHANGELOGS.planned(table, options)
        if not step.changelog_ids:
            return
        done = table.upkeep.run(step)
        plan, result = _joined(plan, step), result.and_then(done)
        yield Outcome(options=options, plan=plan, result=result)
        if not done.expired:
            return


def _joined(plan: ExpireChangelogsPlan, later: ExpireChangelogsPlan) -> ExpireChangelogsPlan:
    """Both steps; a file that the first left to the second is named once."""
    files = {each.path: each for each in (*plan.files, *later.files)}
    return replace(
        later,
        changelog_ids=(*plan.changelog_ids, *later.changelog_ids),
        files=tuple(files.values()),
    )


def _changelogs_report(_: Table, done: ChangelogsDone) -> Report:
    plan, result = done.plan, done.result
    ids = plan.changelog_ids
    which = f"changelogs of {snapshots_text(ids)} of {plan.table}"
    more = (
        f"this is one step; {counted(plan.waiting, 'more changelog')} may go after it, in further "
        "steps of the same call"
    )
    report = deletion_report(
        plan,
        result,
        to_go=Report(
            summary=f"{which} to go, {with_files(plan)}"
            if ids
            else f"no changelog of {plan.table} to expire",
            facts={},
            notes=(*([more] if ids and plan.waiting else []), *plan.reasons),
            is_empty=not ids,
        ),
        done=f"{which} expired",
        facts={"expired": [] if result is None else list(result.expired)},
    )
    if result is None:
        return _with_counts(report, changelogs_to_go=len(ids))
    return _with_counts(report, changelogs_expired=len(result.expired))


def _changelogs_measures(_: Table, done: ChangelogsDone) -> Measures:
    """Of a plan, what an expiry frees in all its steps, if they are like the first one."""
    plan = done.plan
    if done.result is not None:
        gone = Benefit(changelogs_fewer=len(done.result.expired))
        return deletion_measures(plan, done.result, gone)
    planned = len(plan.changelog_ids)
    going = planned + plan.waiting
    share = going / planned if planned else 0
    return Measures(
        cost=Cost(files=round(len(plan.files) * share)),
        benefit=Benefit(
            changelogs_fewer=going,
            bytes_freed=0 if plan.grace_ms else round(plan.bytes * share),
        ),
    )


def _changelogs_extent(done: ChangelogsDone) -> Extent:
    gone = 0 if done.result is None else len(done.result.expired)
    total = max(len(done.plan.changelog_ids) + done.plan.waiting, gone)
    return Extent(done=gone, total=total, of="changelogs")


EXPIRE_CHANGELOGS = Procedure(
    verb=Upkeep.expire_changelogs,
    options=ExpireChangelogsOptions,
    report=_changelogs_report,
    command=Command(
        words="expire",
        examples="lakewright changelog expire nyc.flights --dry-run",
    ),
    keeping=Keeping(section=lambda policy: policy.changelogs, options=_kept_changelogs),
    alone=LeaseKind.EXPIRE,
    steps=_changelog_steps,
    measures=_changelogs_measures,
    extent=_changelogs_extent,
)


def tags_measures(plan: DeleteTagsPlan, result: DeleteTagsResult | None) -> Measures:
    """The tags and files that go, or went."""
    gone = plan.tags if result is None else result.tags
    return deletion_measures(plan, result, Benefit(tags_fewer=len(gone)))


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
