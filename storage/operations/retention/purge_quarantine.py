"""Purge: deletes files that have been in quarantine for long enough.

1. Choose the quarantines that are older than a time to live, seven days by default, by the store's
   clock; or those that are named. A quarantine whose manifest is missing or unreadable stays.
2. Compute which of their files a root or a pending batch needs. Those are restored, not deleted.
3. Run: compute this again before each batch of files, delete the others, and the manifest last.
   After a crash the next purge goes on.
"""

from __future__ import annotations

from collections.abc import Collection, Sequence
from dataclasses import dataclass

from lakewright.storage.errors import (
    CorruptionError,
    InvalidRequestError,
    StalePlan,
    UnreadableManifest,
)
from lakewright.storage.files.table_files import TableFiles
from lakewright.storage.operations.references.stale_roots import stale_when_roots_go
from lakewright.storage.operations.retention.quarantine import (
    BATCH_FILES,
    Mover,
    Quarantine,
    References,
    batches,
    end_if_empty,
    list_quarantines,
    missing_of,
    read_quarantine,
    told_where_it_lies,
)
from lakewright.storage.operations.running.delete_files import delete_files
from lakewright.storage.operations.running.plan import DeletionPlan, UnreachableFile
from lakewright.storage.operations.state.store_clock import check_clock, read_store_clock
from lakewright.storage.operations.state.time_travel import moment_text
from lakewright.storage.spec.arguments import whole_or_none
from lakewright.storage.spec.shown import Shown
from lakewright.storage.spec.supported_options import Use, check_supported

TIME_TO_LIVE_MS = 7 * 86_400_000


@dataclass(frozen=True, slots=True, kw_only=True)
class PurgePlan(DeletionPlan["PurgeResult"]):
    """Quarantines to end, and the paths of their files to delete, in the quarantine folders.

    `wanted` are original paths below the table that a root or pending batch needs; these files are
    restored. `reasons` says why some quarantines stay. The quarantines are no younger than
    `older_than_ms`, by the store's clock; None if they were named.
    """

    quarantine_ids: tuple[str, ...]
    wanted: tuple[str, ...]
    reasons: tuple[str, ...]
    older_than_ms: int | None


@dataclass(frozen=True, slots=True, kw_only=True)
class PurgeResult(Shown):
    """What was deleted; `brought_back` are the restored files, which a root or batch needs."""

    files_deleted: int
    bytes_deleted: int
    brought_back: tuple[str, ...]
    duration_ms: int


@stale_when_roots_go
def plan_purge(
    files: TableFiles, *, ttl_ms: int | None = None, quarantine_ids: Collection[str] = ()
) -> PurgePlan:
    """Plan a purge of quarantines older than a time to live, or of the named ones at any age.

    Raises:
        NotFoundError: a named quarantine does not exist; the message lists all quarantines.
        UnreadableManifest: the manifest of a named quarantine cannot be read.
        ClockJumped: a quarantine is dated in the future, so ages are unknown.
    """
    check_supported(files.schema, Use.ORPHANS, table=files.name)
    ttl_ms = whole_or_none(ttl_ms, "ttl_ms")
    if ttl_ms is not None and ttl_ms < 0:
        raise InvalidRequestError(f"a time to live cannot be {ttl_ms} ms; give 0 or more")
    found = list_quarantines(files)
    older_than_ms: int | None = None
    if quarantine_ids:
        due = [_readable(files, read_quarantine(files, each)) for each in sorted({*quarantine_ids})]
    else:
        older_than_ms, due = _due(files, found, TIME_TO_LIVE_MS if ttl_ms is None else ttl_ms)
    where = {file.path: each.id for each in due for file in each.files}
    references = References(files, frozenset(where))
    try:
        kept = references.newly_kept()
    except CorruptionError as error:
        anywhere = {file.path: each.id for each in found for file in each.files}
        raise told_where_it_lies(error, files, anywhere) from error
    wanted = missing_of(files, kept)
    return PurgePlan(
        table=files.name,
        files=tuple(
            UnreachableFile(_copy(files, each.id, file.path), file.size_bytes)
            for each in due
            for file in each.files
            if file.path not in wanted
        ),
        quarantine_ids=tuple(each.id for each in due),
        wanted=tuple(sorted(wanted)),
        older_than_ms=older_than_ms,
        reasons=tuple(f"quarantine {each.id}: {each.problem}" for each in found if each.problem),
    )


def _readable(files: TableFiles, quarantine: Quarantine) -> Quarantine:
    if quarantine.problem:
        raise UnreadableManifest(
            f"quarantine {quarantine.id} of {files.name} stays: {quarantine.problem}; restore it, "
            "or delete its folder by hand",
            table=files.name,
        )
    return quarantine


def _due(
    files: TableFiles, found: Sequence[Quarantine], ttl_ms: int
) -> tuple[int, list[Quarantine]]:
    """The moment before which quarantines are due, and those quarantines."""
    dated = [(each, each.created_ms) for each in found if each.created_ms is not None]
    if not dated:
        return 0, []
    now = read_store_clock(files)
    made = [(files.paths.quarantine(each.id), created) for each, created in dated]
    check_clock(files, now, made, what="purged")
    return now - ttl_ms, [each for each, created in dated if created <= now - ttl_ms]


def _check_age(files: TableFiles, quarantine: Quarantine, older_than_ms: int | None) -> None:
    """Check the age of a quarantine that was not named, since a plan may be edited."""
    created = quarantine.created_ms
    if older_than_ms is not None and (created is None or created > older_than_ms):
        raise StalePlan(
            f"the plan purges the quarantines of {files.name} from before "
            f"{moment_text(older_than_ms)}, and {quarantine.id} is younger; plan again",
            table=files.name,
        )


def _copy(files: TableFiles, quarantine_id: str, path: str) -> str:
    copy = files.paths.quarantined(quarantine_id, path)
    return copy.removeprefix(f"{files.paths.root}/")


@stale_when_roots_go
def run_purge(files: TableFiles, plan: PurgePlan) -> PurgeResult:
    """Delete the files of a plan, except those that a root or pending batch needs by now.

    Raises:
        CorruptionError: the metadata of a root, or the manifest of a quarantine, cannot be read.
        StalePlan: a planned quarantine is younger than the plan says.
    """
    check_supported(files.schema, Use.ORPHANS, table=files.name)
    started = files.env.now_ms()
    there = [each for each in list_quarantines(files) if each.id in plan.quarantine_ids]
    due = [_readable(files, each) for each in there]
    for each in due:
        _check_age(files, each, plan.older_than_ms)
    planned = {file.path for file in plan.files}
    where = {file.path: each.id for each in due for file in each.files}
    mover = Mover(files, References(files, frozenset(where)), where)
    count, size = 0, 0
    for quarantine in due:
        for batch in batches(quarantine.files, BATCH_FILES):
            mover.look()
            # A restored file is no longer in quarantine. A needed file that could not be restored
            # stays there.
            needed = {*mover.brought_back, *missing_of(files, mover.kept)}
            going = [
                file
                for file in batch
                if file.path not in needed and _copy(files, quarantine.id, file.path) in planned
            ]
            copies = [files.paths.quarantined(quarantine.id, file.path) for file in going]
            count += delete_files(files.fs, copies)
            size += sum(file.size_bytes for file in going)
        end_if_empty(files, quarantine.id)
    return PurgeResult(
        files_deleted=count,
        bytes_deleted=size,
        brought_back=tuple(mover.brought_back),
        duration_ms=files.env.now_ms() - started,
    )
