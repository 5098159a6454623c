"""Purge: deletes files that have been in quarantine for long enough.

1. Choose the quarantines that are older than a time to live, seven days by default, by the store's
   clock; or those that are named. A quarantine whose manifest is missing or unreadable stays.
2. Compute which of their files a root or a pending batch needs. Those are restored, not deleted.
3. Run: compute this again before each batch of files, delete the others, and the manifest last.
   After a crash the next purge goes on.

Memory: about 1 KB per file of the plan, plus the roots. A plan may hold some of the quarantines,
and name the others, for later plans.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator
from dataclasses import dataclass, field

from lakewright.storage.errors import (
    CorruptionError,
    InvalidRequestError,
    StalePlan,
    UnreadableManifest,
)
from lakewright.storage.files.table_files import TableFiles
from lakewright.storage.operations.references.numbered import NumberedPaths
from lakewright.storage.operations.references.stale_roots import stale_when_roots_go
from lakewright.storage.operations.retention.quarantine import (
    BATCH_FILES,
    Aside,
    Mover,
    Quarantine,
    References,
    batches,
    each_quarantine,
    end_if_empty,
    missing_of,
    read_quarantine,
    told_where_it_lies,
)
from lakewright.storage.operations.running.delete_files import delete_files
from lakewright.storage.operations.running.plan import DeletionPlan, UnreachableFile
from lakewright.storage.operations.state.store_clock import check_clock, read_store_clock
from lakewright.storage.operations.state.time_travel import moment_text
from lakewright.storage.spec.arguments import listed_names, whole_or_none
from lakewright.storage.spec.quarantine import QuarantinedFile
from lakewright.storage.spec.shown import Shown
from lakewright.storage.spec.supported_options import Use, check_supported

TIME_TO_LIVE_MS = 7 * 86_400_000


@dataclass(frozen=True, slots=True, kw_only=True)
class PurgePlan(DeletionPlan["PurgeResult"]):
    """Quarantines to end, and the paths of their files to delete, in the quarantine folders.

    `wanted` are original paths below the table that a root or pending batch needs; these files are
    restored. `reasons` says why some quarantines stay. The quarantines are no younger than
    `older_than_ms`, by the store's clock; None if they were named. `later` are the quarantines
    beyond the most files that the plan was to hold, with `later_files` and `later_bytes`.
    """

    quarantine_ids: tuple[str, ...]
    wanted: tuple[str, ...]
    reasons: tuple[str, ...]
    older_than_ms: int | None
    later: tuple[str, ...] = ()
    later_files: int = 0
    later_bytes: int = 0


@dataclass(frozen=True, slots=True, kw_only=True)
class PurgeResult(Shown):
    """What was deleted; `brought_back` are the restored files, which a root or batch needs."""

    files_deleted: int
    bytes_deleted: int
    brought_back: tuple[str, ...]
    duration_ms: int

    def and_then(self, later: PurgeResult) -> PurgeResult:
        """The result of both."""
        return PurgeResult(
            files_deleted=self.files_deleted + later.files_deleted,
            bytes_deleted=self.bytes_deleted + later.bytes_deleted,
            brought_back=(*self.brought_back, *later.brought_back),
            duration_ms=self.duration_ms + later.duration_ms,
        )


@stale_when_roots_go
def plan_purge(
    files: TableFiles,
    *,
    ttl_ms: int | None = None,
    quarantine_ids: Collection[str] = (),
    max_files: int | None = None,
) -> PurgePlan:
    """Plan a purge of quarantines older than a time to live, or of the named ones at any age.

    The plan holds whole quarantines, of `max_files` together, or one.

    Raises:
        NotFoundError: a named quarantine does not exist; the message lists all quarantines.
        UnreadableManifest: the manifest of a named quarantine cannot be read.
        ClockJumped: a quarantine is dated in the future, so ages are unknown.
    """
    quarantine_ids = listed_names(quarantine_ids, "quarantine_ids")
    check_supported(files.schema, Use.ORPHANS, table=files.name)
    ttl_ms = whole_or_none(ttl_ms, "ttl_ms")
    if ttl_ms is not None and ttl_ms < 0:
        raise InvalidRequestError(f"a time to live cannot be {ttl_ms} ms; give 0 or more")
    due = _Due(files, max_files)
    if quarantine_ids:
        for quarantine_id in sorted({*quarantine_ids}):
            due.add(_readable(files, read_quarantine(files, quarantine_id)))
    else:
        due.add_old(TIME_TO_LIVE_MS if ttl_ms is None else ttl_ms)
    references = References(files, NumberedPaths.of(due.paths()), due.paths)
    try:
        kept = references.newly_kept()
    except CorruptionError as error:
        raise told_where_it_lies(error, files) from error
    wanted = missing_of(files, kept & {*due.paths()})
    return PurgePlan(
        table=files.name,
        files=tuple(
            UnreachableFile(_copy(files, quarantine_id, file.path), file.size_bytes)
            for quarantine_id, some in due.files_by_id.items()
            for file in some
            if file.path not in wanted
        ),
        quarantine_ids=tuple(due.files_by_id),
        wanted=tuple(sorted(wanted)),
        older_than_ms=due.older_than_ms,
        reasons=tuple(due.reasons),
        later=tuple(due.later),
        later_files=due.later_files,
        later_bytes=due.later_bytes,
    )


@dataclass
class _Due:
    """The quarantines to purge, and those beyond the most files, of which memory holds one."""

    files: TableFiles
    max_files: int | None
    files_by_id: dict[str, tuple[QuarantinedFile, ...]] = field(default_factory=dict)
    older_than_ms: int | None = None
    reasons: list[str] = field(default_factory=list)
    later: list[str] = field(default_factory=list)
    later_files: int = 0
    later_bytes: int = 0
    _count: int = 0

    def add(self, quarantine: Quarantine) -> None:
        count = self._count + len(quarantine.files)
        is_over = self.max_files is not None and count > self.max_files
        if self.later or (is_over and self.files_by_id):
            self.later.append(quarantine.id)
            self.later_files += len(quarantine.files)
            self.later_bytes += quarantine.bytes
            return
        self.files_by_id[quarantine.id], self._count = quarantine.files, count

    def add_old(self, ttl_ms: int) -> None:
        """Add the quarantines of an age, and say why others stay."""
        self.older_than_ms, now, made = 0, None, []
        for quarantine in each_quarantine(self.files):
            created = quarantine.created_ms
            if quarantine.problem:
                self.reasons.append(f"quarantine {quarantine.id}: {quarantine.problem}")
            if created is None:
                continue
            if now is None:
                now = read_store_clock(self.files)
                self.older_than_ms = now - ttl_ms
            made.append((self.files.paths.quarantine(quarantine.id), created))
            if created <= self.older_than_ms:
                self.add(quarantine)
        if now is not None and max(each for _, each in made) > now:
            # It was made during the listing, or is dated in the future.
            check_clock(self.files, read_store_clock(self.files), made, what="purged")

    def paths(self) -> Iterator[str]:
        return (file.path for some in self.files_by_id.values() for file in some)


def _readable(files: TableFiles, quarantine: Quarantine) -> Quarantine:
    if quarantine.problem:
        raise UnreadableManifest(
            f"quarantine {quarantine.id} of {files.name} stays: {quarantine.problem}; restore it, "
            "or delete its folder by hand",
            table=files.name,
        )
    return quarantine


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
    due = [_readable(files, each) for each in each_quarantine(files, only=plan.quarantine_ids)]
    for each in due:
        _check_age(files, each, plan.older_than_ms)
    planned = {file.path for file in plan.files}
    where = Aside(files)
    for each in due:
        where.add(each.id, (file.path for file in each.files))
    mover = Mover(files, References(files, where.sought(), where.paths), where)
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
