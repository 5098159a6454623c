"""Cleaning up as verbs: orphans condemned; what is condemned collected, or put back.

None of them leases anything: what they touch, no commit refers to.
"""

from __future__ import annotations

from collections.abc import Callable, Generator
from contextlib import closing
from dataclasses import asdict, replace

from lakewright.platform.upkeep.deletions import (
    deletion_measures,
    deletion_report,
    grace_notes,
    plan_facts,
)
from lakewright.platform.upkeep.engines import Counts
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
from lakewright.platform.upkeep.words import counted, duration_text, size_text
from lakewright.storage import Catalog, Table
from lakewright.storage.errors import StorageError
from lakewright.storage.operations.references.collect import (
    CollectOptions,
    CollectPlan,
    CollectResult,
)
from lakewright.storage.operations.references.put_back import (
    PutBackOptions,
    PutBackPlan,
    PutBackResult,
)
from lakewright.storage.operations.retention.remove_orphans import (
    OrphansOptions,
    OrphansPlan,
    OrphansResult,
)
from lakewright.storage.upkeep import Upkeep

# --- orphans -----------------------------------------------------------------------------------

# A step of a removal; a plan holds about 1 KB for each file.
_STEP_FILES = 100_000


def _orphans_report(_: Table, done: Outcome[OrphansOptions, OrphansPlan, OrphansResult]) -> Report:
    plan = done.plan
    to_go = _orphans_plan_report(plan)
    return deletion_report(
        plan, done.result, to_go=to_go, done=f"orphans of {plan.table} removed", facts={}
    )


def _orphans_plan_report(plan: OrphansPlan) -> Report:
    summary = f"no file of {plan.table} is an orphan"
    if plan.files:
        count, size = counted(len(plan.files), "file"), size_text(plan.bytes)
        summary = f"{count} of {plan.table} that nothing refers to, {size}"
    unfinished = f"{counted(len(plan.leftovers), 'file')} that upkeep did not finish, to go"
    more = (
        f"this is one step; {counted(plan.further, 'more file')} in further steps of the same call"
    )
    return Report(
        summary=summary,
        facts=plan_facts(plan),
        notes=(
            *([more] if plan.further else []),
            *([unfinished] if plan.leftovers else []),
            *(file.path for file in plan.files),
            *grace_notes(plan.grace_ms if plan.files else 0),
        ),
        is_empty=not (plan.files or plan.leftovers),
    )


def _orphans_measures(
    _: Table, done: Outcome[OrphansOptions, OrphansPlan, OrphansResult]
) -> Measures:
    """What is condemned is not freed before it is collected."""
    plan, result = done.plan, done.result
    if result is None:
        freed = sum(file.size_bytes for file in plan.leftovers)
        freed += plan.bytes if not plan.grace_ms else 0
        files = len(plan.files) + plan.further + len(plan.leftovers)
        return Measures(cost=Cost(files=files), benefit=Benefit(bytes_freed=freed))
    return deletion_measures(plan, result)


def _plan_orphans(
    table: Table, options: OrphansOptions, counts: Counts | None = None
) -> OrphansPlan:
    with closing(_plans(table, options, counts)) as plans:
        return next(plans)


def _plans(
    table: Table, options: OrphansOptions, counts: Counts | None
) -> Generator[OrphansPlan, None, None]:
    options = replace(options, max_files=_STEP_FILES)
    if counts is None:
        return table.upkeep.orphan_steps(options)
    return table.upkeep.orphan_steps(
        options, looked=lambda done: counts.reach(done, "files looked at")
    )


def _orphan_steps(
    table: Table, options: OrphansOptions, work: Work
) -> Steps[OrphansOptions, OrphansPlan, OrphansResult]:
    """Look once, and remove in steps, so that memory holds the files of one."""
    done: Outcome[OrphansOptions, OrphansPlan, OrphansResult] | None = None
    collect_due(table)
    with closing(_plans(table, options, work.counts)) as plans:
        for plan in plans:
            result = table.upkeep.run(plan)
            if done is None or done.result is None:
                done = Outcome(options=options, plan=plan, result=result)
            else:
                done = replace(done, result=done.result.and_then(result))
            yield done


def _orphans_extent(done: Outcome[OrphansOptions, OrphansPlan, OrphansResult]) -> Extent:
    """How far the steps are; the first plan has counted all orphans."""
    gone = 0 if done.result is None else done.result.files_condemned + done.result.files_deleted
    return Extent(done=gone, total=max(len(done.plan.files) + done.plan.further, gone), of="files")


REMOVE_ORPHANS = Procedure(
    verb=Upkeep.remove_orphans,
    options=OrphansOptions,
    plan=_plan_orphans,
    report=_orphans_report,
    command=Command(
        purpose="Upkeep",
        notes="They stay where they are until they are collected: see lakewright condemned --help.",
        examples="lakewright remove-orphans nyc.flights --older-than 3d --dry-run",
    ),
    keeping=Keeping(
        section=lambda policy: policy.orphans,
        options=lambda policy: OrphansOptions(
            older_than_ms=policy.orphans.older_than, grace_ms=policy.collect.orphans
        ),
    ),
    counting=_plan_orphans,
    steps=_orphan_steps,
    extent=_orphans_extent,
    measures=_orphans_measures,
)


# --- marked for deletion -------------------------------------------------------------------------


def collect_due(table: Table) -> None:
    """Delete what was marked for deletion and can no longer be restored."""
    while (plan := table.upkeep.plan_collect(max_files=_STEP_FILES)).records:
        table.upkeep.run(plan)
        if not plan.later:
            return


def _plan_collect(table: Table, options: CollectOptions) -> CollectPlan:
    return COLLECT.verb.planned(table.table_files, replace(options, max_files=_STEP_FILES))


def _collect_steps(
    table: Table, options: CollectOptions, _: Work
) -> Steps[CollectOptions, CollectPlan, CollectResult]:
    """Collect some records after others, so that memory holds the names of one step."""
    plan = _plan_collect(table, options)
    done = Outcome(options=options, plan=plan, result=table.upkeep.run(plan))
    yield done
    while plan.later:
        plan = _plan_collect(table, options)
        result = table.upkeep.run(plan)
        done = replace(done, result=result if done.result is None else done.result.and_then(result))
        yield done


def _collect_report(_: Table, done: Outcome[CollectOptions, CollectPlan, CollectResult]) -> Report:
    plan, result = done.plan, done.result
    ids = plan.records
    if result is None:
        files = f"{counted(plan.files, 'file')}, {size_text(plan.bytes)}"
        more = f"this is one step; {counted(plan.later, 'more run')} in further steps"
        return Report(
            summary=f"{files} of {plan.table} to delete, marked by {counted(len(ids), 'run')}"
            if ids
            else f"no file of {plan.table} that is marked for deletion is due",
            facts={"records": list(ids), "files": plan.files, "size_bytes": plan.bytes},
            notes=(more,) if plan.later else (),
            is_empty=not ids,
        )
    files = f"{counted(result.files_deleted, 'file')}, {size_text(result.bytes_deleted)}"
    left = f"{counted(result.left, 'file')} stay until other runs that need them are collected"
    return Report(
        summary=f"deleted what was marked for deletion in {plan.table}; {files} in "
        f"{duration_text(result.duration_ms)}"
        if ids
        else f"no file of {plan.table} that is marked for deletion is due",
        facts=asdict(result),
        notes=(left,) if result.left else (),
        is_empty=not ids,
    )


def _collect_measures(
    _: Table, done: Outcome[CollectOptions, CollectPlan, CollectResult]
) -> Measures:
    plan, result = done.plan, done.result
    files = plan.files if result is None else result.files_deleted
    freed = plan.bytes if result is None else result.bytes_deleted
    return Measures(cost=Cost(files=files), benefit=Benefit(bytes_freed=freed))


COLLECT = Procedure(
    verb=Upkeep.collect,
    options=CollectOptions,
    plan=_plan_collect,
    report=_collect_report,
    command=Command(
        words="collect",
        notes="What something refers to by now is not deleted.",
        examples="lakewright condemned collect nyc.flights --dry-run",
    ),
    keeping=Keeping(
        section=lambda policy: policy.collect,
        options=lambda _: CollectOptions(),
    ),
    steps=_collect_steps,
    measures=_collect_measures,
)


def _put_back_report(_: Table, done: Outcome[PutBackOptions, PutBackPlan, PutBackResult]) -> Report:
    plan, result = done.plan, done.result
    verb, files = plan.verb.replace("_", " "), f"{counted(plan.files, 'file')}"
    what = f"what {verb} took from {plan.table}: {counted(len(plan.roots), 'reference')}, {files}"
    size = size_text(plan.bytes)
    orphans = "what nothing refers to is an orphan again, for the next remove-orphans"
    notes = (*plan.roots, *([orphans] if plan.verb == REMOVE_ORPHANS.name else []))
    if result is None:
        facts = {"record": plan.record, "verb": plan.verb, "roots": list(plan.roots)}
        return Report(
            summary=f"{what}, {size}, to come back",
            facts={**facts, "files": plan.files, "size_bytes": plan.bytes},
            notes=notes,
        )
    return Report(
        summary=f"{what}, {size}, is back after {duration_text(result.duration_ms)}",
        facts=asdict(result),
        notes=notes,
    )


PUT_BACK = Procedure(
    verb=Upkeep.put_back,
    options=PutBackOptions,
    report=_put_back_report,
    command=Command(
        words="put-back",
        notes="ID is that of a run of a verb, as list names it; undo takes a whole run back.",
        examples="lakewright condemned put-back nyc.flights 20240131-134500-123-1f0c2d3e --dry-run",
    ),
    measures=lambda table, done: Measures(cost=Cost(files=done.plan.files)),
)


def collect_dropped_tables(catalog: Catalog, warn: Callable[[str], object]) -> None:
    """Delete dropped tables whose grace is over; what cannot be read is a warning."""
    try:
        catalog.collect_dropped_tables()
    except StorageError as error:
        warn(f"dropped tables of {catalog.uri} are not collected: {error}")
