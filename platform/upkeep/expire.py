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
from lakewright.platform.upkeep.effects import Effect
from lakewright.platform.upkeep.measures import Benefit, Cost, Measures
from lakewright.platform.upkeep.options import (
    COUNT,
    DURATION,
    FLAG,
    grace,
    names,
    option,
)
from lakewright.platform.upkeep.verb import (
    Command,
    Extent,
    Keeping,
    Outcome,
    Report,
    Steps,
    Verb,
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
from lakewright.storage.operations.references.tags import DeleteTagsResult
from lakewright.storage.operations.retention.expire_changelogs import ExpireChangelogsResult
from lakewright.storage.plans import (
    DeleteTagsPlan,
    ExpireChangelogsPlan,
    ExpirePlan,
    ExpireResult,
    ExpireStep,
)


@dataclass(frozen=True, slots=True, kw_only=True)
class ExpireOptions:
    """What an expiry of snapshots may be told; the table's options say the rest."""

    retain_min: int | None = option(COUNT, None, "Snapshots that stay in any case.")
    retain_max: int | None = option(COUNT, None, "Snapshots that may stay at most.")
    time_retained_ms: int | None = option(
        DURATION, None, "How long a snapshot stays: 1h, 7d or 0s.", flag="--older-than"
    )
    max_deletes: int | None = option(COUNT, None, "Snapshots that one run expires at most.")
    max_duration_ms: int | None = option(
        DURATION,
        None,
        "Start no further step after this time; the next run continues.",
        flag="--max-time",
    )
    grace_ms: int = grace()


# The next run goes on with what one does not get to.
_MAX_DURATION_MS = 3_600_000


def _kept_snapshots(policy: UpkeepPolicy) -> ExpireOptions:
    kept = policy.snapshots
    return ExpireOptions(
        retain_min=kept.retain_min,
        retain_max=kept.retain_max,
        time_retained_ms=kept.time_retained,
        max_deletes=kept.max_deletes,
        max_duration_ms=_MAX_DURATION_MS,
        grace_ms=policy.collect.grace,
    )


# --- snapshots ---------------------------------------------------------------------------------


def _plan_snapshots(table: Table, options: ExpireOptions) -> ExpirePlan:
    """The first step."""
    return table.upkeep.plan_expire_snapshots(
        retain_min=options.retain_min,
        retain_max=options.retain_max,
        time_retained_ms=options.time_retained_ms,
        max_deletes=options.max_deletes,
        grace_ms=options.grace_ms,
    )


def _steps(
    table: Table, options: ExpireOptions, work: Work
) -> Steps[ExpireOptions, ExpirePlan, ExpireResult]:
    done: Outcome[ExpireOptions, ExpirePlan, ExpireResult] | None = None
    collect_due(table)
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


def snapshots_measures(plan: ExpirePlan, options: ExpireOptions) -> Measures:
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
    _: Table, done: Outcome[ExpireOptions, ExpirePlan, ExpireResult]
) -> Measures:
    if done.result is None:
        return snapshots_measures(done.plan, done.options)
    expired = done.result
    gone = Benefit(
        snapshots_fewer=len(expired.expired),
        metadata_bytes_fewer=expired.metadata_bytes_deleted,
    )
    return deletion_measures(done.plan, expired, gone)


def snapshots_extent(plan: ExpirePlan, expired: int, options: ExpireOptions) -> Extent:
    """How far an expiry is; `plan` has the snapshots of the steps that were planned by now."""
    going = len(plan.snapshot_ids) + plan.waiting
    if options.max_deletes is not None:
        going = min(going, options.max_deletes)
    return Extent(done=expired, total=max(going, expired), of="snapshots")


EXPIRE_SNAPSHOTS = Verb(
    name="expire_snapshots",
    summary="delete old snapshots, and the files that only they need",
    effect=Effect.EXPIRES,
    not_undone="what an expiry deleted was put back since, or is collected",
    command=Command(
        purpose="Upkeep",
        notes="A plan is one step; without --plan there are as many steps as it takes.",
        examples="""
lakewright expire-snapshots nyc.flights --retain-min 5 --older-than 7d --dry-run
lakewright expire-snapshots nyc.flights --retain-max 100 --max-time 30min
""",
    ),
    keeping=Keeping(section=lambda policy: policy.snapshots, options=_kept_snapshots),
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
        DURATION,
        None,
        "Also delete tags of this age whose own retention is longer.",
    )
    spare: tuple[str, ...] = option(
        names(),
        (),
        "Patterns of tags that no age deletes, such as release-*; their own time to live still "
        "ends.",
    )
    grace_ms: int = grace()


def _expired_tags(
    table: Table, done: Outcome[ExpireTagsOptions, DeleteTagsPlan, DeleteTagsResult]
) -> Report:
    report = tags_report(done.plan, done.result, "expire")
    if done.result is None:
        return _with_counts(report, tags_to_go=len(done.plan.tags))
    left = len(table.table_files.references.tag_modified_ms())
    return _with_counts(report, tags_expired=len(done.result.tags), tags_left=left)


EXPIRE_TAGS: Verb[ExpireTagsOptions, DeleteTagsPlan, DeleteTagsResult] = Verb(
    name="expire_tags",
    summary="delete tags past their time, and automatic ones beyond their number",
    effect=Effect.EXPIRES,
    not_undone="what an expiry deleted was put back since, or is collected",
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
    options=ExpireTagsOptions,
    plan_type=DeleteTagsPlan,
    plan=lambda table, options: table.upkeep.plan_expire_tags(
        older_than_ms=options.older_than_ms, spare=options.spare, grace_ms=options.grace_ms
    ),
    run=lambda table, plan, options, work: table.upkeep.run(plan),
    report=_expired_tags,
    alone=LeaseKind.EXPIRE,
    measures=lambda table, done: tags_measures(done.plan, done.result),
)


@dataclass(frozen=True, slots=True, kw_only=True)
class ExpireChangelogsOptions:
    """What an expiry of changelogs may be told."""

    every: bool = option(
        FLAG,
        default=False,
        text="Delete every changelog, whatever the table's options retain.",
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


def _kept_changelogs(policy: UpkeepPolicy) -> ExpireChangelogsOptions:
    kept = policy.changelogs
    return ExpireChangelogsOptions(
        retain_min=kept.retain_min,
        retain_max=kept.retain_max,
        time_retained_ms=kept.time_retained,
        grace_ms=policy.collect.grace,
    )


ChangelogsDone = Outcome[ExpireChangelogsOptions, ExpireChangelogsPlan, ExpireChangelogsResult]


def _plan_changelogs(table: Table, options: ExpireChangelogsOptions) -> ExpireChangelogsPlan:
    """The first step."""
    return table.upkeep.plan_expire_changelogs(
        every=options.every,
        retain_min=options.retain_min,
        retain_max=options.retain_max,
        time_retained_ms=options.time_retained_ms,
        grace_ms=options.grace_ms,
    )


def _changelog_steps(
    table: Table, options: ExpireChangelogsOptions, work: Work
) -> Iterator[ChangelogsDone]:
    """Steps until one deletes nothing; a plan of one step names as many as the table's option."""
    plan = _plan_changelogs(table, options)
    result = table.upkeep.run(plan)
    yield Outcome(options=options, plan=plan, result=result)
    while result.expired:
        require_lease(table.table_files, work.lease)
        step = _plan_changelogs(table, options)
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


EXPIRE_CHANGELOGS = Verb(
    name="expire_changelogs",
    summary="delete changelogs beyond the number and the age to retain",
    effect=Effect.EXPIRES,
    not_undone="what an expiry deleted was put back since, or is collected",
    command=Command(
        words="expire",
        examples="lakewright changelog expire nyc.flights --dry-run",
    ),
    keeping=Keeping(section=lambda policy: policy.changelogs, options=_kept_changelogs),
    options=ExpireChangelogsOptions,
    plan_type=ExpireChangelogsPlan,
    plan=_plan_changelogs,
    run=lambda table, plan, options, work: table.upkeep.run(plan),
    report=_changelogs_report,
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


def snapshot_steps(table: Table, options: ExpireOptions) -> Iterator[ExpireStep]:
    """Snapshots as they go, step after step."""
    return table.upkeep.expire_in_steps(
        retain_min=options.retain_min,
        retain_max=options.retain_max,
        time_retained_ms=options.time_retained_ms,
        max_deletes=options.max_deletes,
        max_duration_ms=options.max_duration_ms,
        grace_ms=options.grace_ms,
    )
