"""Puts back what a verb condemned: its record holds the metadata files that it deleted.

1. Plan: what the record holds, and why it cannot come back: a file that its roots need is gone,
   or the table has gone on since. Nothing comes back in part.
2. Run: claim the record, so that no collector takes its files any more. Mark it as under way, with
   all of its roots pinned, so that no expiry goes beside it, and check again. Create the metadata
   files, then delete the record. If the process dies, the next call goes on.

Condemned orphans come back by the deletion of their record alone.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from contextlib import suppress
from dataclasses import dataclass, replace
from functools import partial
from itertools import chain

from lakewright.storage.codec.snapshot_json import decode_snapshot
from lakewright.storage.env import FileStatus
from lakewright.storage.errors import (
    CorruptionError,
    FileMissing,
    NotFoundError,
    NotRevertible,
    SnapshotNotFound,
    StalePlan,
)
from lakewright.storage.files.condemned_store import RecordFiles
from lakewright.storage.files.paths import numbered
from lakewright.storage.files.table_files import TableFiles
from lakewright.storage.operations.iceberg.hooks import publish_after_change
from lakewright.storage.operations.references.collect import CondemnedRun, condemned_runs
from lakewright.storage.operations.references.commit_standing import follows, trace_of
from lakewright.storage.operations.references.condemn import (
    FLOOR_MS,
    Condemnation,
    delete_record,
    held_roots,
    is_at_work,
    others_at_work,
    recorded_roots,
)
from lakewright.storage.operations.references.reachable import Reach
from lakewright.storage.operations.references.restore_table import is_other_file, restore_table
from lakewright.storage.operations.references.rollback import (
    delete_changelogs_from,
    put_back_later,
)
from lakewright.storage.operations.references.roots import RootKind
from lakewright.storage.operations.references.whole_snapshots import is_same
from lakewright.storage.operations.running.delete_files import delete_files
from lakewright.storage.operations.running.plan import Plan
from lakewright.storage.operations.running.processes import is_dead, this_process
from lakewright.storage.operations.running.verb_options import TEXT, needed, option
from lakewright.storage.operations.state.branch_files import (
    FIRST_SCHEMA_ID,
    is_whole_branch,
    on_branch,
)
from lakewright.storage.operations.state.store_clock import read_store_clock
from lakewright.storage.spec.arguments import text_argument
from lakewright.storage.spec.condemned import DROP_TABLE, Condemned
from lakewright.storage.spec.file_names import is_place_below
from lakewright.storage.spec.shown import Shown
from lakewright.storage.spec.snapshot import Snapshot
from lakewright.storage.spec.supported_options import Use, check_supported

_UNDONE = b"undo"


@dataclass(frozen=True, slots=True, kw_only=True)
class PutBackPlan(Plan["PutBackResult"]):
    """What a run of a verb condemned, and which metadata files come back, by their paths."""

    table: str
    record: str
    verb: str
    roots: tuple[str, ...]
    files: int
    bytes: int


@dataclass(frozen=True, slots=True, kw_only=True)
class PutBackResult(Shown):
    """What is back."""

    record: str
    verb: str
    roots: tuple[str, ...]
    files: int
    bytes: int
    duration_ms: int


@dataclass(frozen=True)
class PutBackOptions:
    """What comes back."""

    record: str | None = option(TEXT, None, "What is to come back, as list names it.", place="ID")


def plan_put_back(files: TableFiles, options: PutBackOptions) -> PutBackPlan:
    """Plan to put back what one run of a verb condemned.

    Raises:
        NotFoundError: no record has that id; the message lists all records.
        NotRevertible: it cannot come back; the message says why.
    """
    record_id = needed(
        options.record,
        f"record is not given; `lakewright condemned list {files.name}` shows them",
    )
    text_argument(record_id, "record")
    known = {each.id: each for each in condemned_runs(files)}
    run = known.get(record_id)
    if run is None or run.verb != DROP_TABLE:
        check_supported(files.schema, Use.EXPIRE, table=files.name)
    record = None if run is None else files.condemned.read(record_id)
    if run is None or record is None:
        raise NotFoundError(
            f"no run marked {record_id} of {files.name} for deletion, or it was collected; there "
            f"are {', '.join(known) or 'none'}"
        )
    listed = files.condemned.listed().get(record_id)
    if listed is not None and listed.claim is None and _may_run(files, listed, record):
        raise _refused(
            files,
            record,
            "it is in progress, or was stopped less than an hour ago; carry it out again, or wait",
        )
    if record.verb not in _KINDS:
        raise _refused(files, record, "no run of it can be taken back")
    if record.branch and not is_whole_branch(files, record.branch):
        raise _refused(files, record, f"branch {record.branch} was deleted since")
    check = partial(_KINDS[record.verb], on_branch(files, record.branch), record, False)
    if record.verb == DROP_TABLE:
        # The files of another table in its place are not read by its schemas.
        check()
    _check_whole(files, run, record, [] if listed is None else listed.lists)
    check()
    return PutBackPlan(
        table=files.name,
        record=record_id,
        verb=record.verb,
        roots=tuple(root.path for root in record.roots),
        files=run.files,
        bytes=run.bytes,
    )


def _may_run(files: TableFiles, listed: RecordFiles, record: Condemned) -> bool:
    # Most are done: the store's clock costs a request.
    return not record.done and is_at_work(listed, record, read_store_clock(files))


def run_put_back(files: TableFiles, plan: PutBackPlan) -> PutBackResult:
    """Carry a plan out.

    Raises:
        NotRevertible: as `plan_put_back`, which this calls.
        StalePlan: the record is being collected, or a commit came meanwhile.
    """
    started = files.env.now_ms()
    plan = plan_put_back(files, PutBackOptions(plan.record))
    claim = files.paths.condemned(f"{plan.record}.claim")
    is_ours = _claim(files, plan.record)
    record, listed = files.condemned.read(plan.record), files.condemned.listed()
    if not is_ours or record is None or plan.record not in listed:
        if is_ours:
            delete_files(files.fs, [claim])
        raise StalePlan(
            f"what {plan.record} of {files.name} marked for deletion is being deleted, or another "
            "process decided on it; it cannot be restored"
        )
    at_work = replace(
        record, done=False, pins=(*record.pins, *record.roots), process=this_process()
    )
    files.condemned.replace(plan.record, at_work)
    try:
        _check_alone(files, plan.record, at_work)
        put_back = _KINDS[record.verb]
        for creates in (False, True):
            put_back(on_branch(files, record.branch), record, creates)
    except (NotRevertible, StalePlan):
        files.condemned.replace(plan.record, record)
        delete_files(files.fs, [claim])
        raise
    delete_record(files, listed[plan.record])
    if record.roots:
        publish_after_change(on_branch(files, record.branch))
    return PutBackResult(
        record=plan.record,
        verb=plan.verb,
        roots=plan.roots,
        files=plan.files,
        bytes=plan.bytes,
        duration_ms=files.env.now_ms() - started,
    )


def _claim(files: TableFiles, record_id: str) -> bool:
    """Claim a record for this process; one that a dead process claimed to put it back goes on."""
    ours = _UNDONE + f" {this_process()}".encode()
    if files.condemned.claim(record_id, ours):
        return True
    path = files.paths.condemned(f"{record_id}.claim")
    with suppress(FileMissing):
        what, _, process = files.fs.read_bytes(path).decode(errors="replace").partition(" ")
        listed = files.condemned.listed().get(record_id)
        claimed = None if listed is None else listed.claim
        is_old = claimed is not None and claimed.modified_ms <= read_store_clock(files) - FLOOR_MS
        if what.encode() == _UNDONE and (is_dead(process) or is_old):
            files.fs.replace(path, ours)
            return files.fs.read_bytes(path) == ours
    return False


def _check_alone(files: TableFiles, record_id: str, record: Condemned) -> None:
    """Raise StalePlan if another verb deletes snapshots meanwhile; it sees this record, too."""
    for other in others_at_work(Condemnation(files, record_id, record, ())):
        raise StalePlan(
            f"{other.verb.replace('_', ' ')} of {files.name} is in progress, or was stopped "
            "halfway; wait until it ends, or carry it out again; after an hour it counts as dead"
        )


def _check_whole(
    files: TableFiles, run: CondemnedRun, record: Condemned, lists: Iterable[FileStatus]
) -> None:
    """Raise NotRevertible if a file of a record is gone; other clients may delete them.

    Other clients know no records, so they may also have deleted what other roots kept then.
    """
    roots, reach = held_roots(files, record), Reach()
    gone, first = _gone(files, ([e.path for e in files.condemned.names(each)] for each in lists))
    # Among the files of a dropped table are those of writers, which delete what they cannot commit.
    if gone and not (roots and record.verb == DROP_TABLE):
        raise NotRevertible(
            f"{gone} of the {run.files} files that {run.id} marked for deletion in {files.name} "
            f"are gone, {first} first: another client removed them as orphans, or they were "
            "collected"
        )
    try:
        gone, first = _gone(
            files, chain([reach.metadata_of_all(roots)], reach.data_in_parts(roots))
        )
    except CorruptionError as error:
        raise _refused(files, record, str(error)) from error
    if gone:
        raise _refused(files, record, f"{gone} files that it needs are gone, {first} first")


def _gone(files: TableFiles, parts: Iterable[Iterable[str]]) -> tuple[int, str]:
    """How many files of the table are gone, and the first; paths may be whole."""
    gone, first, root = 0, "", f"{files.paths.root}/"
    for part in parts:
        names = {
            each.removeprefix(root) for each in part if is_place_below(each.removeprefix(root))
        }
        missing = sorted(names - files.there(names).keys())
        gone, first = gone + len(missing), first or next(iter(missing), "")
    return gone, first


# --- by verb ------------------------------------------------------------------------------------

# Checks that a record can come back; then, if asked, creates its files.
_PutBack = Callable[[TableFiles, Condemned, bool], None]


def _refused(files: TableFiles, record: Condemned, why: str) -> NotRevertible:
    return NotRevertible(f"what {record.verb} deleted of {files.name} cannot come back: {why}")


def _orphans(files: TableFiles, record: Condemned, run: bool) -> None:
    """Nothing to create: what nothing refers to is an orphan again."""


def _snapshots(files: TableFiles, record: Condemned, run: bool) -> None:
    snapshot_files = _files_by_number(record, "snapshot/snapshot-")
    there = files.snapshots.ids()
    left = [each for each in there if each not in snapshot_files]
    if not snapshot_files or not left or left[0] != max(snapshot_files) + 1:
        first = left[0] if left else "none"
        raise _refused(
            files,
            record,
            f"snapshot {max(snapshot_files, default=0) + 1} must be the earliest, and {first} is; "
            "take a later expiry back first",
        )
    try:
        other = _of_another_history(files, record, there)
    except (CorruptionError, SnapshotNotFound) as error:
        raise _refused(files, record, str(error)) from error
    if other is not None:
        why = f"the table was rolled back since, and snapshot {other} is of another history"
        raise _refused(files, record, why)
    if run:
        # Without this hint, readers list the snapshots and take the lowest id.
        delete_files(files.fs, [files.paths.earliest_hint])
        for number in sorted(snapshot_files, reverse=True):
            files.snapshots.restore(number, snapshot_files[number])
        files.snapshots.hint_earliest(min(snapshot_files))
        # Their changelogs outlived them, and are theirs again.
        copies = [each for each in files.references.changelog_ids() if each in snapshot_files]
        delete_changelogs_from(files, tuple(copies))


def _of_another_history(files: TableFiles, record: Condemned, there: Iterable[int]) -> int | None:
    """The first snapshot that is there and does not go on from those of a record."""
    before: Snapshot | None = None
    then = {root.snapshot.id: root.snapshot for root in recorded_roots(files, record)}
    for snapshot_id in sorted({*there, *then}):
        if snapshot_id not in there:
            before = then[snapshot_id]
            continue
        snapshot = files.snapshots.read(snapshot_id)
        if snapshot_id in then:
            if not is_same(snapshot, then[snapshot_id]):
                return snapshot_id
        elif before is not None:
            return None if follows(files, snapshot, trace_of(files, before)) else snapshot_id
        before = snapshot
    return None


def _rollback(files: TableFiles, record: Condemned, run: bool) -> None:
    snapshot_files = _files_by_number(record, "snapshot/snapshot-")
    pins = _files_by_number(record, "snapshot/snapshot-", of_pins=True)
    if not snapshot_files or not pins:
        raise _refused(files, record, "it deleted no snapshot of the table's history")
    target_id = min(pins)
    # A put-back that died has restored the latest first; since then commits follow that.
    there = files.snapshots.ids()
    later = [each for each in there if target_id < each <= max(snapshot_files)]
    goes_on = max(snapshot_files) in later and all(
        each in snapshot_files and _is_there(files, each, snapshot_files[each]) for each in later
    )
    latest = max(there, default=None)
    is_latest = latest == target_id and _is_there(files, target_id, pins[target_id])
    if not is_latest and not goes_on:
        raise _refused(
            files,
            record,
            f"snapshot {target_id} must be the latest, and snapshot {latest} is; roll back to "
            f"snapshot {target_id} first",
        )
    _check_keys(files, record)
    for root in record.roots:
        path = files.paths.below(root.path)
        if "/tag/" in path and is_other_file(files, path, root.data):
            raise _refused(files, record, f"{root.path} exists anew")
    if run:
        if goes_on:
            for number, data in snapshot_files.items():
                files.snapshots.put_back(number, data)
        elif not put_back_later(files, target_id, snapshot_files):
            raise StalePlan(
                f"a commit followed snapshot {target_id} of {files.name} meanwhile, so what was "
                "rolled back cannot come back"
            )
        files.snapshots.hint_latest(files.snapshots.ids()[-1])
        _create(files, record, "/tag/", "/changelog/")
        if min(snapshot_files) > target_id + 1 and _is_tagged(files, target_id, pins[target_id]):
            # Only a tag held the target, which would be below a gap of ids.
            files.snapshots.hint_earliest(min(snapshot_files))
            delete_files(files.fs, [files.paths.snapshot(target_id)])


def _is_there(files: TableFiles, snapshot_id: int, data: bytes) -> bool:
    with suppress(SnapshotNotFound):
        return files.snapshots.read_file(snapshot_id) == data
    return False


def _is_tagged(files: TableFiles, snapshot_id: int, data: bytes) -> bool:
    then = decode_snapshot(data, name=files.paths.snapshot(snapshot_id), snapshot_id=snapshot_id)
    return any(is_same(tag.snapshot, then) for tag in files.references.tags().values())


def _check_keys(files: TableFiles, record: Condemned) -> None:
    for root in recorded_roots(files, record):
        if root.kind is RootKind.SNAPSHOT:
            then = files.at_schema(root.snapshot.schema_id).schema
            now = files.schemas.latest(table=files.name)
            if (then.partition_keys, then.primary_keys) != (now.partition_keys, now.primary_keys):
                raise _refused(
                    files, record, "the table has other partition keys or another primary key now"
                )


def _tags(files: TableFiles, record: Condemned, run: bool) -> None:
    for each in record.roots:
        path = files.paths.below(each.path)
        if is_other_file(files, path, each.data):
            raise _refused(files, record, f"{each.path} exists anew; rename or delete that tag")
    latest = files.snapshots.latest_id() or 0
    for root in recorded_roots(files, record):
        # Other clients take the tags of a table for those of one history, and delete files so.
        if root.snapshot.id > latest or not _is_of_history(files, root.snapshot):
            raise _refused(files, record, f"the table was rolled back before tag {root.label}")
    if run:
        _create(files, record, "/tag/")


def _is_of_history(files: TableFiles, snapshot: Snapshot) -> bool:
    """Whether no other snapshot has the id of one, which may have expired."""
    with suppress(SnapshotNotFound):
        return is_same(files.snapshots.read(snapshot.id), snapshot)
    return True


def _changelogs(files: TableFiles, record: Condemned, run: bool) -> None:
    changelog_files = _files_by_number(record, "changelog/changelog-")
    left = [each for each in files.references.changelog_ids() if each not in changelog_files]
    if not changelog_files or (left and min(left) < max(changelog_files)):
        raise _refused(files, record, "earlier changelogs exist")
    first = min(files.snapshots.ids(), default=max(changelog_files))
    paths = {files.paths.changelog(number): data for number, data in changelog_files.items()}
    if first <= max(changelog_files) or any(
        is_other_file(files, path, paths[path]) for path in paths
    ):
        raise _refused(files, record, "snapshots or changelogs have their ids since")
    if run:
        for number, data in changelog_files.items():
            files.references.put_changelog(number, data)
        files.references.hint_changelogs(
            earliest=min(changelog_files), latest=max([*left, *changelog_files])
        )


def _branch(files: TableFiles, record: Condemned, run: bool) -> None:
    held = {files.paths.below(root.path): root.data for root in record.roots}
    late = [each for each in held if each.endswith(f"/schema/schema-{FIRST_SCHEMA_ID}")]
    folder = "/".join(record.roots[0].path.split("/")[:2]) if record.roots else ""
    if not late:
        raise _refused(files, record, "its first schema is unknown")
    for each in files.fs.list_tree(files.paths.below(folder)):
        # An unfinished file has a hidden name.
        if each.name[0] != "." and is_other_file(files, each.path, held.get(each.path, b"")):
            raise _refused(files, record, f"there is another {folder} by now")
    if run:
        for path in [*(each for each in held if each not in late), *late]:
            files.fs.replace(path, held[path])


def _create(files: TableFiles, record: Condemned, *kinds: str) -> None:
    for root in record.roots:
        path = files.paths.below(root.path)
        if any(kind in path for kind in kinds):
            files.fs.replace(path, root.data)


def _files_by_number(
    record: Condemned, prefix: str, *, of_pins: bool = False
) -> Mapping[int, bytes]:
    """Files of snapshots or changelogs in a record, by their ids."""
    found = {}
    name = prefix.rpartition("/")[2]
    for each in record.pins if of_pins else record.roots:
        number = numbered(each.path.rpartition("/")[2], name)
        if number is not None:
            found[number] = each.data
    return dict(sorted(found.items()))


_KINDS: Mapping[str, _PutBack] = {
    "expire_snapshots": _snapshots,
    "rollback": _rollback,
    "delete_tags": _tags,
    "expire_tags": _tags,
    "expire_changelogs": _changelogs,
    "delete_branch": _branch,
    "remove_orphans": _orphans,
    DROP_TABLE: restore_table,
}


def can_come_back(verb: str) -> bool:
    """Whether what a verb condemns can be put back at all."""
    return verb in _KINDS
