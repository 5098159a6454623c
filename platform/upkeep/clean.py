"""Cleaning up as verbs: orphans set aside, brought back, and deleted for good.

None of them leases anything: what they touch, no commit refers to.
"""

from __future__ import annotations

import shlex
from collections.abc import Generator, Iterable
from contextlib import closing
from dataclasses import asdict, dataclass, replace

from lakewright.platform.upkeep.deletions import deletion_measures, deletion_report, plan_facts
from lakewright.platform.upkeep.effects import Effect
from lakewright.platform.upkeep.engines import Counts
from lakewright.platform.upkeep.measures import Benefit, Cost, Measures
from lakewright.platform.upkeep.options import DURATION, FLAG, TEXT, option, texts
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
from lakewright.platform.upkeep.words import counted, duration_text, size_text
from lakewright.storage import Table
from lakewright.storage.errors import InvalidRequestError
from lakewright.storage.operations.retention.purge_quarantine import PurgeResult
from lakewright.storage.operations.retention.remove_orphans import OrphanSearch, OrphansResult
from lakewright.storage.operations.retention.restore_files import RestoreResult
from lakewright.storage.plans import OrphansPlan, PurgePlan, RestorePlan

# --- orphans -----------------------------------------------------------------------------------

# A step of a removal; a plan holds about 1 KB for each file.
_STEP_FILES = 100_000


@dataclass(frozen=True, slots=True, kw_only=True)
class OrphansOptions:
    """What a removal of orphans may be told."""

    older_than_ms: int | None = option(
        DURATION,
        None,
        "Only files of at least that age by the clock of the store. Without one, 1d. A write that "
        "has been under way for longer loses its files.",
    )
    even_recent: bool = option(
        FLAG, default=False, text="Allow an age below an hour; only safe while no process writes."
    )
    at_once: bool = option(
        FLAG,
        default=False,
        text="Delete them at once, without quarantine; this cannot be undone.",
        at_run=True,
        flag="--delete",
    )
    inventory: str | None = option(
        TEXT,
        None,
        "Read this inventory of the store instead of listing the table: a file, or a folder of "
        "files, in CSV or Parquet with key, size and last_modified.",
    )


def _orphans_report(_: Table, done: Outcome[OrphansOptions, OrphansPlan, OrphansResult]) -> Report:
    plan, result = done.plan, done.result
    if result is None:
        return _orphans_plan_report(plan)
    facts = asdict(result)
    facts["quarantines"] = facts.pop("quarantine_ids")
    if not (plan.files or plan.wanted or plan.leftovers):
        return replace(_orphans_plan_report(plan), facts=facts)
    how, count, size = "set aside", result.files_moved, result.bytes_moved
    if result.files_deleted:
        how, count, size = "deleted", result.files_deleted, result.bytes_deleted
    # Quoted, since a shell would take what follows the dollar of a branch for a variable.
    table = shlex.quote(plan.table)
    restore = f"bring them back:  lakewright quarantine restore {table}"
    purge = f"delete them for good, after a week:  lakewright quarantine purge {table}"
    return Report(
        summary=f"orphans of {plan.table} {how}; {counted(count, 'file')}, {size_text(size)} in "
        f"{duration_text(result.duration_ms)}",
        facts=facts,
        notes=(
            *(f"{restore} {each}" for each in result.quarantine_ids),
            *([purge] if result.quarantine_ids else []),
            *_brought_back(result.brought_back),
        ),
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
            *_to_come_back(plan.wanted),
            *([unfinished] if plan.leftovers else []),
            *(file.path for file in plan.files),
        ),
        is_empty=not (plan.files or plan.wanted or plan.leftovers),
    )


def _orphans_measures(
    _: Table, done: Outcome[OrphansOptions, OrphansPlan, OrphansResult]
) -> Measures:
    """What lies in a quarantine is not freed before a purge."""
    plan, result = done.plan, done.result
    if result is None:
        freed = sum(file.size_bytes for file in plan.leftovers)
        freed += plan.bytes if done.options.at_once else 0
        files = len(plan.files) + plan.further + len(plan.leftovers)
        return Measures(cost=Cost(files=files), benefit=Benefit(bytes_freed=freed))
    return Measures(
        cost=Cost(files=result.files_moved + result.files_deleted),
        benefit=Benefit(bytes_freed=result.bytes_deleted),
        quarantines=result.quarantine_ids,
    )


def _plan_orphans(
    table: Table, options: OrphansOptions, counts: Counts | None = None
) -> OrphansPlan:
    with closing(_plans(table, options, counts)) as plans:
        return next(plans)


def _plans(
    table: Table, options: OrphansOptions, counts: Counts | None
) -> Generator[OrphansPlan, None, None]:
    search = OrphanSearch(
        age_ms=options.older_than_ms,
        even_recent=options.even_recent,
        inventory=options.inventory,
        looked=None if counts is None else lambda done: counts.reach(done, "files looked at"),
    )
    return table.upkeep.orphan_steps(search, max_files=_STEP_FILES)


def _run_orphans(
    table: Table, plan: OrphansPlan, options: OrphansOptions, work: Work
) -> OrphansResult:
    counts, total = work.counts, len(plan.files)
    looked = None if counts is None else lambda done: counts.reach(done, "files set aside", total)
    return table.upkeep.run(plan, quarantine=not options.at_once, looked=looked)


def _orphan_steps(
    table: Table, options: OrphansOptions, work: Work
) -> Steps[OrphansOptions, OrphansPlan, OrphansResult]:
    """Look once, and remove in steps, so that memory holds the files of one."""
    done: Outcome[OrphansOptions, OrphansPlan, OrphansResult] | None = None
    with closing(_plans(table, options, work.counts)) as plans:
        for plan in plans:
            result = _run_orphans(table, plan, options, work)
            if done is None or done.result is None:
                done = Outcome(options=options, plan=plan, result=result)
            else:
                done = replace(done, result=done.result.and_then(result))
            yield done


def _orphans_extent(done: Outcome[OrphansOptions, OrphansPlan, OrphansResult]) -> Extent:
    """How far the steps are; the first plan has counted all orphans."""
    gone = 0 if done.result is None else done.result.files_moved + done.result.files_deleted
    return Extent(done=gone, total=max(len(done.plan.files) + done.plan.further, gone), of="files")


REMOVE_ORPHANS = Verb(
    name="remove_orphans",
    summary="move unreferenced files to quarantine",
    effect=Effect.REMOVES,
    not_undone="its files were deleted at once, or have been restored or purged since",
    command=Command(
        purpose="Upkeep",
        notes="They are moved to a quarantine beside the table: see lakewright quarantine --help.",
        examples="lakewright remove-orphans nyc.flights --older-than 3d --dry-run",
    ),
    keeping=Keeping(
        section=lambda policy: policy.orphans,
        options=lambda policy: OrphansOptions(older_than_ms=policy.orphans.older_than),
    ),
    options=OrphansOptions,
    plan_type=OrphansPlan,
    plan=_plan_orphans,
    counting=_plan_orphans,
    run=_run_orphans,
    report=_orphans_report,
    steps=_orphan_steps,
    extent=_orphans_extent,
    measures=_orphans_measures,
)


# --- quarantine --------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True, kw_only=True)
class RestoreOptions:
    """What a restore must be told."""

    quarantine: str | None = option(
        TEXT, None, "The quarantine to bring files back from.", place="ID"
    )
    paths: tuple[str, ...] | None = option(
        texts(),
        None,
        "Only these files, by their paths below the table. Without any, all of them.",
        place="[PATH…]",
    )


def _plan_restore(table: Table, options: RestoreOptions) -> RestorePlan:
    if options.quarantine is None:
        raise InvalidRequestError(f"name a quarantine of {table.name}: quarantine is not given")
    return table.upkeep.plan_restore(options.quarantine, paths=options.paths)


def _restore_report(_: Table, done: Outcome[RestoreOptions, RestorePlan, RestoreResult]) -> Report:
    plan, result = done.plan, done.result
    if result is None:
        files = f"{counted(len(plan.files), 'file')} of {plan.table}"
        return Report(
            summary=f"{files} to come back, {size_text(plan.bytes)}",
            facts=plan_facts(plan),
            notes=tuple(file.path for file in plan.files),
            is_empty=not plan.files,
        )
    files, size = counted(result.files_restored, "file"), size_text(result.bytes_restored)
    return Report(
        summary=f"{files} of {plan.table} restored, {size} in {duration_text(result.duration_ms)}",
        facts={"quarantine": plan.quarantine_id, **asdict(result)},
        notes=(
            *(f"{path} is not in quarantine any more" for path in result.missing),
            "what nothing refers to is an orphan again, for the next remove-orphans",
        ),
        is_empty=not plan.files,
    )


def _restore_measures(
    _: Table, done: Outcome[RestoreOptions, RestorePlan, RestoreResult]
) -> Measures:
    """What comes back is a cost; it saves nothing that could be counted."""
    result = done.result
    if result is None:
        return Measures(cost=Cost(files=len(done.plan.files)))
    return Measures(cost=Cost(files=result.files_restored))


RESTORE = Verb(
    name="restore",
    summary="bring files back from a quarantine",
    not_undone="what came back is an orphan again, for the next remove-orphans",
    command=Command(
        words="restore",
        notes="""
ID is a quarantine, as list names it; PATH are files of it, by their paths below the table
(default: all).
""",
        examples="lakewright quarantine restore nyc.flights 20240131-134500-1f0c2d3e --dry-run",
    ),
    options=RestoreOptions,
    plan_type=RestorePlan,
    plan=_plan_restore,
    run=lambda table, plan, options, work: table.upkeep.run(plan),
    report=_restore_report,
    measures=_restore_measures,
)


@dataclass(frozen=True, slots=True, kw_only=True)
class PurgeOptions:
    """What a purge may be told."""

    older_than_ms: int | None = option(
        DURATION,
        None,
        "Quarantines of at least that age by the clock of the store. Without one, 7d.",
    )
    quarantines: tuple[str, ...] = option(
        texts(), (), "These quarantines, whatever their age.", place="[ID…]"
    )


def _plan_purge(table: Table, options: PurgeOptions) -> PurgePlan:
    if options.quarantines and options.older_than_ms is not None:
        raise InvalidRequestError("name quarantines, or an age, but not both")
    return table.upkeep.plan_purge(
        ttl_ms=options.older_than_ms, quarantine_ids=options.quarantines, max_files=_STEP_FILES
    )


def _purge_steps(
    table: Table, options: PurgeOptions, _: Work
) -> Steps[PurgeOptions, PurgePlan, PurgeResult]:
    """Purge some quarantines after others, so that memory holds the files of one step."""
    plan = _plan_purge(table, options)
    done = Outcome(options=options, plan=plan, result=table.upkeep.run(plan))
    yield done
    while later := [each for each in plan.later if table.table_files.quarantine.has_manifest(each)]:
        named = table.upkeep.plan_purge(quarantine_ids=later, max_files=_STEP_FILES)
        # Named quarantines have any age, and these were chosen by theirs.
        plan = replace(named, older_than_ms=done.plan.older_than_ms)
        result = table.upkeep.run(plan)
        done = replace(done, result=result if done.result is None else done.result.and_then(result))
        yield done


def _purge_extent(done: Outcome[PurgeOptions, PurgePlan, PurgeResult]) -> Extent:
    gone = 0 if done.result is None else done.result.files_deleted
    return Extent(
        done=gone, total=max(len(done.plan.files) + done.plan.later_files, gone), of="files"
    )


def _purge_report(_: Table, done: Outcome[PurgeOptions, PurgePlan, PurgeResult]) -> Report:
    plan, result = done.plan, done.result
    ids = (*plan.quarantine_ids, *plan.later)
    which = f"{counted(len(ids), 'quarantine')} of {plan.table}"
    count, size = len(plan.files) + plan.later_files, plan.bytes + plan.later_bytes
    files = f"{counted(count, 'file')}, {size_text(size)}"
    more = (
        [f"a saved plan holds {counted(len(plan.quarantine_ids), 'quarantine')} of them, one step"]
        if plan.later
        else []
    )
    back = () if result is None else result.brought_back
    return deletion_report(
        plan,
        result,
        to_go=Report(
            summary=f"{which} to go, {files}"
            if ids
            else f"nothing of {plan.table} has been in quarantine for long enough",
            facts={},
            notes=(*ids, *more, *_to_come_back(plan.wanted), *plan.reasons),
            is_empty=not ids,
        ),
        done=f"{which} purged",
        facts={"quarantines": list(ids), "brought_back": list(back)},
        notes=_brought_back(back),
    )


def _purge_measures(_: Table, done: Outcome[PurgeOptions, PurgePlan, PurgeResult]) -> Measures:
    found = deletion_measures(done.plan, done.result)
    if done.result is not None:
        return found
    later = done.plan
    return Measures(
        cost=Cost(files=len(later.files) + later.later_files),
        benefit=Benefit(bytes_freed=later.bytes + later.later_bytes),
    )


PURGE = Verb(
    name="purge",
    summary="delete what has been in quarantine for long enough",
    effect=Effect.PURGES,
    not_undone="what it deletes is gone for good",
    command=Command(
        words="purge",
        notes="""
ID are quarantines that go whatever their age. What something refers to by now is not deleted but
comes back.
""",
        examples="lakewright quarantine purge nyc.flights --older-than 30d --dry-run",
    ),
    keeping=Keeping(
        section=lambda policy: policy.quarantine,
        options=lambda policy: PurgeOptions(older_than_ms=policy.quarantine.keep),
    ),
    options=PurgeOptions,
    plan_type=PurgePlan,
    plan=_plan_purge,
    run=lambda table, plan, options, work: table.upkeep.run(plan),
    report=_purge_report,
    steps=_purge_steps,
    extent=_purge_extent,
    measures=_purge_measures,
)


def _to_come_back(paths: Iterable[str]) -> tuple[str, ...]:
    return tuple(f"{path} is to come back: something refers to it" for path in paths)


def _brought_back(paths: Iterable[str]) -> tuple[str, ...]:
    return tuple(f"{path} is back: something refers to it by now" for path in paths)
