"""Verbs of a table's history: deletion of tags and branches, fast-forward, rollback.

Their runs delete the files that a plan names. A saved plan may have been edited, so it is carried
out only if planning again gives the same plan.
"""

from __future__ import annotations

from dataclasses import dataclass

from lakewright.platform.upkeep.deletions import deletion_measures, deletion_report, with_files
from lakewright.platform.upkeep.expire import tags_measures, tags_report
from lakewright.platform.upkeep.options import COUNT, MOMENT, TEXT, grace, option, texts
from lakewright.platform.upkeep.verb import Command, Outcome, Report, Verb
from lakewright.platform.upkeep.words import counted, named, snapshots_text
from lakewright.storage import Table
from lakewright.storage.errors import InvalidRequestError, StorageError
from lakewright.storage.operations.references.branches import BranchResult
from lakewright.storage.operations.references.rollback import RollbackResult
from lakewright.storage.operations.references.tags import DeleteTagsResult
from lakewright.storage.plans import DeleteBranchPlan, DeleteTagsPlan, FastForwardPlan, RollbackPlan

# --- tags --------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True, kw_only=True)
class DeleteTagsOptions:
    """What a deletion of tags must be told."""

    names: tuple[str, ...] = option(texts(), (), "The tags to delete.", place="TAG…")
    grace_ms: int = grace()


def _plan_tags(table: Table, options: DeleteTagsOptions) -> DeleteTagsPlan:
    if not options.names:
        raise InvalidRequestError(f"say which tags of {table.name} are to go: no name is given")
    return table.history.plan_delete_tags(*options.names, grace_ms=options.grace_ms)


DELETE_TAGS: Verb[DeleteTagsOptions, DeleteTagsPlan, DeleteTagsResult] = Verb(
    name="delete_tags",
    summary="delete tags, and the files that they alone keep",
    not_undone="what it deleted was put back since, or is collected",
    command=Command(
        words="delete",
        examples="lakewright tag delete nyc.flights q3 q4 --dry-run",
    ),
    options=DeleteTagsOptions,
    plan_type=DeleteTagsPlan,
    plan=_plan_tags,
    run=lambda table, plan, options, work: table.history.run(plan),
    report=lambda table, done: tags_report(done.plan, done.result, "delete"),
    measures=lambda table, done: tags_measures(done.plan, done.result),
)


# --- branches ----------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True, kw_only=True)
class BranchOptions:
    """What a deletion or a fast-forward must be told."""

    branch: str | None = option(TEXT, None, "The branch.", place="BRANCH")
    grace_ms: int = grace()


def _branch(table: Table, options: BranchOptions) -> str:
    if options.branch is None:
        raise InvalidRequestError(f"name a branch of {table.name}: branch is not given")
    return options.branch


def _delete_report(
    _: Table, done: Outcome[BranchOptions, DeleteBranchPlan, BranchResult]
) -> Report:
    plan = done.plan
    which = f"branch {plan.branch} of {plan.table}"
    snapshots, tags = counted(len(plan.snapshot_ids), "snapshot"), counted(len(plan.tags), "tag")
    return deletion_report(
        plan,
        done.result,
        to_go=Report(summary=f"{which} to go: {snapshots}, {tags}, {with_files(plan)}", facts={}),
        done=f"{which} deleted",
        facts={"branch": plan.branch, "snapshots": len(plan.snapshot_ids)},
    )


DELETE_BRANCH = Verb(
    name="delete_branch",
    summary="delete a branch, and the files that it alone keeps",
    not_undone="what it deleted was put back since, or is collected",
    command=Command(
        words="delete",
        examples="lakewright branch delete nyc.flights trial --dry-run",
    ),
    options=BranchOptions,
    plan_type=DeleteBranchPlan,
    plan=lambda table, options: table.history.plan_delete_branch(
        _branch(table, options), grace_ms=options.grace_ms
    ),
    run=lambda table, plan, options, work: table.history.run(plan),
    report=_delete_report,
    measures=lambda table, done: deletion_measures(done.plan, done.result),
)


def _forward_report(
    _: Table, done: Outcome[BranchOptions, FastForwardPlan, BranchResult]
) -> Report:
    plan, last = done.plan, max(done.plan.new_snapshot_ids)
    notes = []
    if plan.lost_snapshot_ids:
        lost = snapshots_text(plan.lost_snapshot_ids)
        notes.append(f"{lost} of main to go, {with_files(plan)}")
    if plan.lost_tags:
        notes.append(f"{named('tag', plan.lost_tags)} of main to go")
    if plan.consumers:
        notes.append(f"{named('consumer', plan.consumers)} to read on from {plan.shared_id + 1}")
    return deletion_report(
        plan,
        done.result,
        to_go=Report(
            summary=f"main of {plan.table} to become branch {plan.branch}, snapshot {last}",
            facts={},
            notes=tuple(notes),
        ),
        done=f"main of {plan.table} is branch {plan.branch}, snapshot {last}",
        facts={
            "branch": plan.branch,
            "snapshot_id": last,
            "snapshots_deleted": list(plan.lost_snapshot_ids),
            "tags_deleted": list(plan.lost_tags),
        },
    )


FAST_FORWARD = Verb(
    name="fast_forward",
    summary="let the table become what a branch is",
    not_undone="the snapshots that a fast-forward replaces are gone for good",
    command=Command(
        words="fast-forward",
        notes="The table's own snapshots since the branch began go; all of them if it began empty.",
        examples="lakewright branch fast-forward nyc.flights trial --dry-run",
    ),
    options=BranchOptions,
    plan_type=FastForwardPlan,
    plan=lambda table, options: table.history.plan_fast_forward(
        _branch(table, options), grace_ms=options.grace_ms
    ),
    run=lambda table, plan, options, work: table.history.run(plan),
    report=_forward_report,
    measures=lambda table, done: deletion_measures(done.plan, done.result),
)


# --- rollback ----------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True, kw_only=True)
class RollbackOptions:
    """The state to go back to: one of these."""

    snapshot: int | None = option(COUNT, None, "The snapshot to go back to.")
    tag: str | None = option(TEXT, None, "The tag to go back to.")
    as_of: int | None = option(
        MOMENT,
        None,
        "Go back to the last snapshot not after this time (UTC, unless it has an offset).",
    )
    grace_ms: int = grace()


def _rollback_report(
    table: Table, done: Outcome[RollbackOptions, RollbackPlan, RollbackResult]
) -> Report:
    plan, result = done.plan, done.result
    back, target, tag = f"{plan.table} to go back", plan.target_id, plan.restored_tag
    to_go = []
    if tag is not None:
        to_go.append(f"snapshot {target} expired; tag {tag} holds it")
    if plan.snapshot_ids:
        to_go.append(f"{snapshots_text(plan.snapshot_ids)} to go")
    if plan.tags:
        to_go.append(f"{named('tag', plan.tags)} to go")
    if plan.changelog_ids:
        to_go.append(f"{counted(len(plan.changelog_ids), 'long-lived changelog')} to go")
    gone = [f"snapshot {target} is back, of tag {tag}"] if tag is not None else []
    if plan.tags:
        gone.append(f"{named('tag', plan.tags)} deleted")
    if plan.consumers:
        names = named("consumer", plan.consumers)
        to_go.append(f"{names} to read on from {target + 1}")
        gone.append(f"{names} set to read on from {target + 1}")
    if keys := _keys_of_then(table, plan):
        to_go.append(f"{keys}; undo does not bring this back")
        gone.append(keys)
    snapshots = counted(result.snapshots_deleted if result else 0, "snapshot")
    tags = counted(result.tags_deleted if result else 0, "tag")
    return deletion_report(
        plan,
        result,
        to_go=Report(
            summary=f"{back} from snapshot {plan.latest_id} to {target}, {with_files(plan)}",
            facts={},
            notes=tuple(to_go),
        ),
        done=f"{plan.table} is what it was at snapshot {target}: {snapshots}, {tags}",
        facts={
            "snapshot_id": target,
            "snapshots_deleted": list(plan.snapshot_ids),
            "tags_deleted": list(plan.tags),
            "restored_tag": tag,
            "consumers_reset": list(plan.consumers),
        },
        notes=gone,
        is_undone=not keys,
    )


def _keys_of_then(table: Table, plan: RollbackPlan) -> str:
    """That the partition keys change with a rollback; empty if they stay.

    The table was opened before the rollback.
    """
    try:
        target = None if plan.restored_tag else plan.target_id
        then = table.at(snapshot=target, tag=plan.restored_tag).schema.partition_keys
    except StorageError:
        return ""
    if then == table.schema.partition_keys:
        return ""
    return f"the partition keys are those of then: {', '.join(then) or 'none'}"


ROLLBACK = Verb(
    name="rollback",
    summary="return to an earlier snapshot; later ones are deleted",
    not_undone="the snapshots that a rollback deletes are gone for good once they are collected, "
    "or a commit followed",
    command=Command(
        purpose="References",
        examples="lakewright rollback nyc.flights --tag before-the-import --dry-run",
    ),
    options=RollbackOptions,
    plan_type=RollbackPlan,
    plan=lambda table, options: table.history.plan_rollback(
        snapshot=options.snapshot,
        tag=options.tag,
        time=options.as_of,
        grace_ms=options.grace_ms,
    ),
    run=lambda table, plan, options, work: table.history.run(plan),
    report=_rollback_report,
    measures=lambda table, done: deletion_measures(done.plan, done.result),
)
