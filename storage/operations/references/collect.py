"""The collector: it alone deletes data files, manifests, lists, indexes and statistics.

1. Choose records whose grace is over by the store's clock. A record that is not done is that of a
   verb at work for at least an hour. Claim each, so that it cannot be undone any more.
2. Find which of their files are kept (`keepers.py`), by other records too, and delete the others:
   those of a list, then the list. A killed process goes on where it was.
3. Delete the record. If only another record keeps some files, this one stays until that one is
   collected.

A verb with a grace of 0 collects its own record in the same call. Files of failed writes, which no
root ever named, have no record: the same question is asked before they are deleted.

Memory: 32 bytes for each name of the records of a plan, the names of one list, and the roots.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from collections.abc import Set as AbstractSet
from dataclasses import dataclass, replace

from lakewright.storage.env import FileStatus
from lakewright.storage.errors import StalePlan
from lakewright.storage.files.condemned_store import RecordFiles
from lakewright.storage.files.table_files import TableFiles
from lakewright.storage.operations.iceberg.hooks import publish_after_change
from lakewright.storage.operations.references.condemn import (
    FLOOR_MS,
    Condemnation,
    delete_record,
    recorded_roots,
    records,
)
from lakewright.storage.operations.references.keepers import Keepers, Label
from lakewright.storage.operations.references.numbered import NumberedPaths
from lakewright.storage.operations.references.roots import RootKind
from lakewright.storage.operations.running.delete_files import delete_files, remove_empty_folders
from lakewright.storage.operations.running.plan import Plan
from lakewright.storage.operations.running.processes import is_dead
from lakewright.storage.operations.running.verb_options import FLAG, option
from lakewright.storage.operations.state.store_clock import read_store_clock
from lakewright.storage.spec.arguments import whole_or_none
from lakewright.storage.spec.condemned import DROP_TABLE, Condemned, CondemnedFile
from lakewright.storage.spec.shown import Summed
from lakewright.storage.spec.snapshot import Snapshot
from lakewright.storage.spec.supported_options import Use, check_supported

_COLLECTED = b"collect"


@dataclass(frozen=True, slots=True, kw_only=True)
class Deleted:
    """What a verb freed, and what it condemned for later."""

    files: int = 0
    bytes: int = 0
    condemned_files: int = 0
    condemned_bytes: int = 0

    def __add__(self, other: Deleted) -> Deleted:
        return Deleted(
            files=self.files + other.files,
            bytes=self.bytes + other.bytes,
            condemned_files=self.condemned_files + other.condemned_files,
            condemned_bytes=self.condemned_bytes + other.condemned_bytes,
        )


def carried_out(
    condemnation: Condemnation,
    *,
    known: Iterable[Label] = (),
    known_snapshots: AbstractSet[FileStatus] = frozenset(),
    with_staged: bool = False,
) -> Deleted:
    """End the record of a verb that has deleted its roots; with a grace of 0, collect it.

    The roots `known` and `known_snapshots` were found to keep none of its files. `with_staged` says
    that its files may be staged ones, which no root has named.
    """
    if condemnation.record.roots:
        # A publication that began before the record may have ended since.
        publish_after_change(condemnation.files)
    if condemnation.record.grace_ms:
        record = condemnation.end().record
        return Deleted(condemned_files=record.files, condemned_bytes=record.bytes)
    files, done = condemnation.files, condemnation
    listed = files.condemned.listed().get(done.id)
    if listed is None or not done.names:
        done.withdraw()
        return Deleted()
    keepers = Keepers(
        files,
        NumberedPaths.of(name.path for name in done.names),
        lambda: (name.path for name in done.names),
        going=[done.id],
        # They are known to keep none of the files of this run.
        known=set() if done.goes_on else set(known),
        known_snapshots=frozenset() if done.goes_on else known_snapshots,
        with_staged=with_staged,
    )
    # What keeps a file came since the plan, and may be taken back: a stray, or a tag.
    deleted, left = _collect(files, listed, keepers, drops_kept=False)
    if left:
        done.end()
    return deleted


def _collect(
    files: TableFiles, listed: RecordFiles, keepers: Keepers, *, drops_kept: bool = True
) -> tuple[Deleted, int]:
    """Collect a record; returns also how many of its files wait.

    They wait for other records that keep them, and for roots too unless it `drops_kept` names.
    """
    deleted, left = Deleted(), 0
    waiting = []
    for names_file in listed.lists:
        keepers.look()
        names = files.condemned.names(names_file)
        kept = keepers.kept | keepers.recorded
        deleted += _delete(files, [name for name in names if name.path not in kept])
        waiting_for = keepers.recorded - keepers.kept if drops_kept else kept
        count = sum(name.path in waiting_for for name in names)
        if count:
            waiting.append(names_file)
            left += count
        else:
            delete_files(files.fs, [names_file.path])
    listed.lists = waiting
    if not left:
        delete_record(files, listed)
    return deleted, left


def _delete(files: TableFiles, going: Sequence[CondemnedFile]) -> Deleted:
    paths = [files.paths.below(each.path) for each in going]
    count = delete_files(files.fs, paths)
    if files.options.snapshot_clean_empty_directories:
        folders = {path.rsplit("/", 1)[0] for path in paths if "/bucket-" in path}
        remove_empty_folders(files.fs, folders, below=files.paths.root)
    return Deleted(files=count, bytes=sum(each.size_bytes for each in going))


# --- what is due ----------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True, kw_only=True)
class CondemnedRun:
    """What one run of a verb condemned, and when its grace ends, by the store's clock."""

    id: str
    verb: str
    run: str
    branch: str
    files: int
    bytes: int
    condemned_ms: int
    due_ms: int
    done: bool
    # Its process is known to be dead, and nothing of what it deletes is collected yet.
    stopped: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class CollectPlan(Plan["CollectResult"]):
    """Records to collect, by their ids, and how many files they name.

    `early` takes records whose grace is not over, and `under_way` those of verbs that may be at
    work. `later` is the number of records beyond the most files.
    """

    table: str
    records: tuple[str, ...]
    files: int
    bytes: int
    later: int = 0
    early: bool = False
    under_way: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class CollectResult(Summed):
    """What was freed; `left` are files that other records still keep."""

    records: tuple[str, ...]
    files_deleted: int
    bytes_deleted: int
    left: int
    duration_ms: int


def condemned_runs(files: TableFiles) -> tuple[CondemnedRun, ...]:
    """What waits to be deleted, oldest first."""
    return tuple(_run_of(listed, record) for listed, record in records(files))


def condemned_snapshots(files: TableFiles, record_id: str) -> tuple[Snapshot, ...]:
    """The snapshots that a record holds because its verb deleted them, oldest first."""
    record = files.condemned.read(record_id)
    roots = [] if record is None else recorded_roots(files, replace(record, pins=()))
    found = [root.snapshot for root in roots if root.kind is RootKind.SNAPSHOT]
    return tuple(sorted(found, key=lambda each: each.id))


def _run_of(listed: RecordFiles, record: Condemned) -> CondemnedRun:
    since = listed.head.modified_ms if listed.head else 0
    grace = record.grace_ms if record.done else max(record.grace_ms, FLOOR_MS)
    return CondemnedRun(
        id=listed.id,
        verb=record.verb,
        run=record.run,
        branch=record.branch,
        files=record.files,
        bytes=record.bytes,
        condemned_ms=since,
        due_ms=since + grace,
        done=record.done,
        stopped=not record.done and is_dead(record.process),
    )


@dataclass(frozen=True)
class CollectOptions:
    """What is deleted: `max_files` at once; `under_way` also of runs that may not have ended."""

    max_files: int | None = None
    early: bool = option(
        FLAG,
        default=False,
        text="Delete also what can still be undone; it cannot be undone then.",
        flag="--now",
    )
    under_way: bool = False


def plan_collect(files: TableFiles, options: CollectOptions) -> CollectPlan:
    """Plan to delete what was condemned and can be undone no more.

    The plan holds whole records, of `max_files` together, or one. `early` ignores the grace.
    `under_way` takes also the records of verbs that have not ended, as if they were dead.

    Raises:
        CorruptionError: a record is damaged.
    """
    check_supported(files.schema, Use.EXPIRE, table=files.name)
    return plan_of_any_kind(files, options)


def plan_of_any_kind(files: TableFiles, options: CollectOptions) -> CollectPlan:
    """As `plan_collect`, also where an option of the table is not supported: a dropped one."""
    max_files = whole_or_none(options.max_files, "max_files", minimum=1)
    ids: list[str] = []
    count = size = later = 0
    for run in _due(files, early=options.early, under_way=options.under_way):
        if ids and max_files is not None and count + run.files > max_files:
            later += 1
            continue
        ids.append(run.id)
        count, size = count + run.files, size + run.bytes
    return CollectPlan(
        table=files.name,
        records=tuple(ids),
        files=count,
        bytes=size,
        later=later,
        early=options.early,
        under_way=options.under_way,
    )


def _due(files: TableFiles, *, early: bool, under_way: bool) -> list[CondemnedRun]:
    runs = condemned_runs(files)
    if not runs:
        return []
    now = read_store_clock(files)
    # A table whose drop was stopped halfway waits for its repetition, or comes back.
    return [
        run
        for run in runs
        if (run.due_ms <= now and (run.done or run.verb != DROP_TABLE))
        or (early and run.done)
        or (under_way and not run.done)
    ]


def run_collect(files: TableFiles, plan: CollectPlan) -> CollectResult:
    """Delete the files of the planned records that nothing keeps.

    Raises:
        StalePlan: a planned record is not due.
        CorruptionError: the metadata of a root, or a record, cannot be read.
    """
    check_supported(files.schema, Use.EXPIRE, table=files.name)
    return run_of_any_kind(files, plan)


def run_of_any_kind(files: TableFiles, plan: CollectPlan) -> CollectResult:
    """As `run_collect`, also where an option of the table is not supported: a dropped one."""
    started = files.env.now_ms()
    due = {e.id for e in _due(files, early=plan.early, under_way=plan.under_way)}
    there = files.condemned.listed()
    _check_due(files, [record for record in plan.records if record in there and record not in due])
    claimed = [
        there[record] for record in plan.records if record in there and _claim(files, there[record])
    ]

    def paths() -> Iterable[str]:
        for listed in claimed:
            for names_file in listed.lists:
                yield from (name.path for name in files.condemned.names(names_file))

    keepers = Keepers(files, NumberedPaths.of(paths()), paths, going={each.id for each in claimed})
    deleted, left, ended = Deleted(), 0, []
    for listed in claimed:
        some, waiting = _collect(files, listed, keepers)
        deleted, left = deleted + some, left + waiting
        ended += [] if waiting else [listed.id]
    return CollectResult(
        records=tuple(ended),
        files_deleted=deleted.files,
        bytes_deleted=deleted.bytes,
        left=left,
        duration_ms=files.env.now_ms() - started,
    )


def _check_due(files: TableFiles, early: Sequence[str]) -> None:
    if early:
        raise StalePlan(
            f"the plan collects {early[0]} of {files.name}, which can still be undone; plan again"
        )


def _claim(files: TableFiles, listed: RecordFiles) -> bool:
    """Claim a record; an undo that was stopped halfway keeps it until it is an hour old.

    A dropped table that was half back waits until that goes on: the record alone knows the rest.
    """
    if files.condemned.claim(listed.id, _COLLECTED):
        if listed.claim is None and listed.head is not None:
            path = files.paths.condemned(f"{listed.id}.claim")
            listed.claim = replace(listed.head, path=path)
        return True
    claim, record = listed.claim, files.condemned.read(listed.id)
    if record is None or record.verb == DROP_TABLE:
        return False
    if claim is not None and claim.modified_ms <= read_store_clock(files) - FLOOR_MS:
        delete_record(files, listed)
    return False
