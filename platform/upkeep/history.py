"""Verbs of a table's history: deletion of tags and branches, fast-forward, rollback.

Their runs delete the files that a plan names. A saved plan may have been edited, so it is carried
out only if planning again gives the same plan.
"""

from __future__ import annotations

from lakewright.platform.upkeep.deletions import deletion_measures, deletion_report, with_files
from lakewright.platform.upkeep.expire import tags_measures, tags_report
from lakewright.platform.upkeep.procedure import Command, Outcome, Procedure, Report
from lakewright.platform.upkeep.words import counted, named, snapshots_text
from lakewright.storage import Table
from lakewright.storage.errors import StorageError
from lakewright.storage.history import History
from lakewright.storage.operations.references.branches import (
    BranchResult,
    DeleteBranchOptions,
    DeleteBranchPlan,
)
from lakewright.storage.operations.references.fast_forward import (
    FastForwardOptions,
    FastForwardPlan,
)
from lakewright.storage.operations.references.rollback import (
    RollbackOptions,
    RollbackPlan,
    RollbackResult,
)
from lakewright.storage.operations.references.tags import (
    DeleteTagsOptions,
    DeleteTagsPlan,
    DeleteTagsResult,
)

# --- tags --------------------------------------------------------------------------------------


DELETE_TAGS: Procedure[DeleteTagsOptions, DeleteTagsPlan, DeleteTagsResult] = Procedure(
    verb=History.delete_tags,
    options=DeleteTagsOptions,
    report=lambda table, done: tags_report(done.plan, done.result, "delete"),
    command=Command(
        words="delete",
        examples="lakewright tag delete nyc.flights q3 q4 --dry-run",
    ),
    measures=lambda table, done: tags_measures(done.plan, done.result),
)


# --- branches ----------------------------------------------------------------------------------


def _delete_report(
    _: Table, done: Outcome[DeleteBranchOptions, DeleteBranchPlan, BranchResult]
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


DELETE_BRANCH = Procedure(
    verb=History.delete_branch,
    options=DeleteBranchOptions,
    report=_delete_report,
    command=Command(
        words="delete",
        examples="lakewright branch delete nyc.flights trial --dry-run",
    ),
    measures=lambda table, done: deletion_measures(done.plan, done.result),
)


def _forward_report(
    _: Table, done: Outcome[FastForwardOptions, FastForwardPlan, BranchResult]
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


FAST_FORWARD = Procedure(
    verb=History.fast_forward,
    options=FastForwardOptions,
    report=_forward_report,
    command=Command(
        words="fast-forward",
        notes="The table's own snapshots since the branch began go; all of them if it began empty.",
        examples="lakewright branch fast-forward nyc.flights trial --dry-run",
    ),
    measures=lambda table, done: deletion_measures(done.plan, done.result),
)


# --- rollback ----------------------------------------------------------------------------------


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
    if plan.snapshot_ids:
        way_out = (
            f"undo works until the next commit to {plan.table}: stop its writers first; after a "
            f"commit, roll back to snapshot {target} again, which loses the commit, and undo"
        )
        to_go.append(way_out)
        gone.append(way_out)
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


ROLLBACK = Procedure(
    verb=History.rollback,
    options=RollbackOptions,
    report=_rollback_report,
    command=Command(
        purpose="References",
        examples="lakewright rollback nyc.flights --tag before-the-import --dry-run",
    ),
    measures=lambda table, done: deletion_measures(done.plan, done.result),
)
