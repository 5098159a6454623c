"""Cleaning up as verbs: orphans set aside, brought back, and deleted for good.

None of them leases anything: what they touch, no commit refers to.
"""

from __future__ import annotations

from dataclasses import dataclass

from lakewright.platform.upkeep.deletions import FileRows, counted, deletion_report
from lakewright.platform.upkeep.verb import Fact, Outcome, Report, Verb, Work, option
from lakewright.storage import OrphansPlan, PurgePlan, RestorePlan, Table
from lakewright.storage.errors import InvalidRequestError
from lakewright.storage.operations.retention.purge_quarantine import PurgeResult
from lakewright.storage.operations.retention.remove_orphans import OrphansResult
from lakewright.storage.operations.retention.restore_files import RestoreResult

# --- orphans -----------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True, kw_only=True)
class OrphansOptions:
    """What a removal of orphans may be told."""

    older_than_ms: int | None = option(
        None,
        "Only files of at least that age by the clock of the store. Without one, 1d. A write that "
        "has been under way for longer loses its files.",
    )
    even_recent: bool = option(
        default=False, text="Let the age be less than an hour: nothing writes to the table."
    )
    at_once: bool = option(
        default=False, text="Delete them at once, with no way back.", at_run=True
    )


class RemoveOrphans(Verb[OrphansOptions, OrphansPlan, OrphansResult]):
    """Set files aside that nothing refers to."""

    name = "remove_orphans"
    description = "set aside files that nothing refers to, left behind by processes that died"
    options = OrphansOptions
    plan_type = OrphansPlan

    def plan(self, table: Table, options: OrphansOptions) -> OrphansPlan:
        """The files that nothing refers to."""
        return table.upkeep.plan_remove_orphans(
            age_ms=options.older_than_ms, even_recent=options.even_recent
        )

    def run(
        self, table: Table, plan: OrphansPlan, options: OrphansOptions, work: Work
    ) -> OrphansResult:
        """Set aside, or delete, what the plan names."""
        return table.upkeep.run(plan, quarantine=not options.at_once)

    def report(
        self, table: Table, outcome: Outcome[OrphansOptions, OrphansPlan, OrphansResult]
    ) -> Report:
        """The files that go, or went, and those that came back."""
        plan, result = outcome.plan, outcome.result
        is_empty = not (plan.files or plan.wanted or plan.leftovers)
        if result is None:
            return Report(
                summary=f"{counted(len(plan.files), 'file')} that nothing refers to would go",
                facts={
                    "files": len(plan.files),
                    "bytes": plan.bytes,
                    "wanted_files": len(plan.wanted),
                    "leftover_files": len(plan.leftovers),
                },
                tables={"plan": FileRows(plan.files)},
                notes=tuple(
                    f"{path} is to come back: something refers to it" for path in plan.wanted
                ),
                is_empty=is_empty,
            )
        return Report(
            summary=(
                f"{counted(result.files_moved, 'file')} set aside, "
                f"{counted(result.files_deleted, 'file')} deleted"
            ),
            facts={
                "files_moved": result.files_moved,
                "bytes_moved": result.bytes_moved,
                "files_deleted": result.files_deleted,
                "bytes_deleted": result.bytes_deleted,
                "files_brought_back": len(result.brought_back),
                "quarantines": ", ".join(result.quarantine_ids),
                "seconds": round(result.duration_ms / 1000, 3),
            },
            notes=_brought_back(result.brought_back),
            is_empty=is_empty,
        )


# --- quarantine --------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True, kw_only=True)
class RestoreOptions:
    """What a restore must be told."""

    quarantine: str | None = option(None, "The quarantine to bring files back from.")
    paths: tuple[str, ...] | None = option(
        None, "Only these files, by their paths below the table. Without any, all of them."
    )


class Restore(Verb[RestoreOptions, RestorePlan, RestoreResult]):
    """Bring files back from a quarantine."""

    name = "restore"
    description = "bring files back from a quarantine to where they were"
    options = RestoreOptions
    plan_type = RestorePlan

    def plan(self, table: Table, options: RestoreOptions) -> RestorePlan:
        """The files to bring back.

        Raises:
            InvalidRequestError: no quarantine is named.
            NotFoundError: there is no such quarantine, or no such file in it.
        """
        if options.quarantine is None:
            raise InvalidRequestError(f"name a quarantine of {table.name}: quarantine is not given")
        return table.upkeep.plan_restore(options.quarantine, paths=options.paths)

    def run(
        self, table: Table, plan: RestorePlan, options: RestoreOptions, work: Work
    ) -> RestoreResult:
        """Bring back what the plan names."""
        return table.upkeep.run(plan)

    def report(
        self, table: Table, outcome: Outcome[RestoreOptions, RestorePlan, RestoreResult]
    ) -> Report:
        """The files that come back, or came."""
        plan, result = outcome.plan, outcome.result
        facts: dict[str, Fact] = {"quarantine": plan.quarantine_id}
        if result is None:
            return Report(
                summary=f"{counted(len(plan.files), 'file')} would come back",
                facts={**facts, "files": len(plan.files), "bytes": plan.bytes},
                tables={"plan": FileRows(plan.files)},
                is_empty=not plan.files,
            )
        return Report(
            summary=f"{counted(result.files_restored, 'file')} restored",
            facts={
                **facts,
                "files_restored": result.files_restored,
                "bytes_restored": result.bytes_restored,
                "seconds": round(result.duration_ms / 1000, 3),
            },
            notes=tuple(f"{path} is not in quarantine any more" for path in result.missing),
            is_empty=not plan.files,
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class PurgeOptions:
    """What a purge may be told."""

    older_than_ms: int | None = option(
        None, "Quarantines of at least that age by the clock of the store. Without one, 7d."
    )
    quarantines: tuple[str, ...] = option((), "These quarantines, whatever their age.")


class Purge(Verb[PurgeOptions, PurgePlan, PurgeResult]):
    """Delete quarantines for good."""

    name = "purge"
    description = "delete what has been in quarantine for long enough"
    options = PurgeOptions
    plan_type = PurgePlan

    def plan(self, table: Table, options: PurgeOptions) -> PurgePlan:
        """The quarantines to end.

        Raises:
            InvalidRequestError: quarantines are named, and an age is given.
            NotFoundError: there is no such quarantine.
        """
        if options.quarantines and options.older_than_ms is not None:
            raise InvalidRequestError("name quarantines, or an age, but not both")
        return table.upkeep.plan_purge(
            ttl_ms=options.older_than_ms, quarantine_ids=options.quarantines
        )

    def run(self, table: Table, plan: PurgePlan, options: PurgeOptions, work: Work) -> PurgeResult:
        """Delete what the plan names."""
        return table.upkeep.run(plan)

    def report(
        self, table: Table, outcome: Outcome[PurgeOptions, PurgePlan, PurgeResult]
    ) -> Report:
        """The quarantines and files that go, or went, and the files that came back."""
        plan, result = outcome.plan, outcome.result
        back = _to_come_back(plan.wanted) if result is None else _brought_back(result.brought_back)
        return deletion_report(
            counted(len(plan.quarantine_ids), "quarantine"),
            {"quarantines": len(plan.quarantine_ids)},
            plan,
            result,
            notes=(*plan.reasons, *back),
            is_empty=not plan.quarantine_ids,
        )


def _to_come_back(paths: tuple[str, ...]) -> tuple[str, ...]:
    return tuple(f"{path} is to come back: something refers to it" for path in paths)


def _brought_back(paths: tuple[str, ...]) -> tuple[str, ...]:
    return tuple(f"{path} is back: something refers to it" for path in paths)


REMOVE_ORPHANS = RemoveOrphans()
RESTORE = Restore()
PURGE = Purge()
