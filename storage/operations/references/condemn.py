"""Condemning: a verb records which files it leaves unreachable, and deletes only what kept them.

1. Write a record (`spec/condemned.py`): the names of the files, and the metadata files that the
   verb is about to delete, its roots, with their bytes.
2. The verb deletes its roots. It holds that a root is in a record before its file goes, and that a
   root that exists is whole, since files go after their roots.
3. Mark the record as done. After its grace, `collect.py` deletes the files that nothing keeps. The
   roots of a record keep their files until then, so that they can be put back.
4. A verb that puts its roots back deletes its record afterwards.

A verb whose process died halfway leaves a record that is not done. The next run of the verb takes
its roots and names into its own record, so that both are undone as one.

An expiry of snapshots and a rollback to one of them exclude each other: each writes its record,
then looks for that of the other.
"""

from __future__ import annotations

import datetime as dt
import re
from collections.abc import Collection, Iterable, Iterator, Mapping
from contextlib import suppress
from dataclasses import dataclass, field, replace
from itertools import chain

from lakewright.storage.codec.snapshot_json import decode_snapshot, decode_tag
from lakewright.storage.env import FileStatus
from lakewright.storage.errors import CorruptionError, FileMissing, StalePlan
from lakewright.storage.files.condemned_store import RecordFiles
from lakewright.storage.files.recorded_files import RecordedFiles
from lakewright.storage.files.table_files import TableFiles
from lakewright.storage.operations.iceberg.hooks import leave_metadata, publish_after_change
from lakewright.storage.operations.references.roots import (
    Root,
    changelog_root,
    snapshot_root,
    tag_root,
)
from lakewright.storage.operations.running.delete_files import delete_files, remove_empty_folders
from lakewright.storage.operations.running.plan import UnreachableFile
from lakewright.storage.operations.running.processes import (
    is_alive_beside,
    is_dead,
    this_process,
)
from lakewright.storage.operations.state.branch_files import on_branch
from lakewright.storage.operations.state.store_clock import read_store_clock
from lakewright.storage.spec.condemned import DROP_TABLE, Condemned, CondemnedFile, HeldFile

# For so long a record that is not done is that of a verb at work, unless its process is dead; and
# longer, while another process of this machine lives that wrote it.
FLOOR_MS = 3_600_000
_ROOT = re.compile(
    r"(?:branch/branch-(?P<branch>[^/]+)/)?"
    r"(?:snapshot/snapshot-(?P<snapshot>\d+)|tag/tag-(?P<tag>[^/]+)"
    r"|changelog/changelog-(?P<changelog>\d+))"
)


@dataclass(frozen=True, slots=True)
class Condemnation:
    """A record under way, and the names in its lists; it may go on with one of a run that died.

    `seen` are the records that were read before it was written, by their files.
    """

    files: TableFiles
    id: str
    record: Condemned
    names: tuple[CondemnedFile, ...]
    goes_on: bool = False
    seen: Mapping[FileStatus, Condemned] = field(default_factory=dict)

    def withdraw(self) -> None:
        """Delete the record: the verb deletes nothing, or has put everything back."""
        listed = self.files.condemned.listed().get(self.id)
        delete_record(self.files, listed or RecordFiles(self.id))
        if self.record.roots:
            publish_after_change(self.files)

    def end(self) -> Condemnation:
        """Mark the record as done."""
        done = replace(self.record, done=True)
        self.files.condemned.replace(self.id, done)
        return replace(self, record=done)

    def after_commits(self, snapshot_ids: Collection[int]) -> Condemnation:
        """The same, with a grace of an hour at least if a snapshot is younger by the store's clock.

        The committer of such a snapshot may look for it in vain, and publish its files once more.
        """
        head = self.files.condemned.listed()[self.id].head
        listed = self.files.snapshots.listed()
        made = (
            listed[snapshot_id].modified_ms for snapshot_id in snapshot_ids if snapshot_id in listed
        )
        if head is None or max(made, default=0) <= head.modified_ms - FLOOR_MS:
            return self
        grace_ms = max(self.record.grace_ms, FLOOR_MS)
        return replace(self, record=replace(self.record, grace_ms=grace_ms))


def condemn(
    files: TableFiles,
    verb: str,
    names: Iterable[UnreachableFile],
    roots: Iterable[str],
    *,
    pins: Iterable[HeldFile] = (),
    grace_ms: int = 0,
) -> Condemnation:
    """Write the record of a verb, before it deletes its roots, which are given by their paths.

    Iceberg metadata names the roots no more when this returns.

    Raises:
        UnsupportedError: Iceberg readers see a root, and nothing else can be published.
    """
    roots = list(roots)
    held = {each.path: each for each in _held(files, roots)}
    named = {name.path: CondemnedFile(name.path, name.size_bytes) for name in names}
    found = list(records(files))
    stopped = _stopped(files, verb, held, found)
    for _, before in stopped:
        held = {each.path: each for each in before.roots} | held
    for listed, _ in stopped:
        earlier = chain.from_iterable(map(files.condemned.names, listed.lists))
        named = {name.path: name for name in earlier} | named
    condemned = tuple(named.values())
    record = Condemned(
        verb=verb,
        run=files.run or "",
        branch=files.paths.branch,
        grace_ms=grace_ms,
        roots=tuple(held.values()),
        pins=tuple(pins),
        files=len(condemned),
        bytes=sum(each.size_bytes for each in condemned),
        done=False,
        process=this_process(),
    )
    record_id = new_record_id(files)
    files.condemned.put(record_id, record, condemned)
    for listed, _ in stopped:
        delete_record(files, listed)
    seen = {listed.head: other for listed, other in found if listed.head}
    made = Condemnation(files, record_id, record, condemned, goes_on=bool(stopped), seen=seen)
    try:
        leave_metadata(files, roots)
    except BaseException:
        # What a run that died has deleted stays in a record.
        if not made.goes_on:
            made.withdraw()
        raise
    return made


def _stopped(
    files: TableFiles,
    verb: str,
    held: Mapping[str, HeldFile],
    known: Iterable[tuple[RecordFiles, Condemned]],
) -> list[tuple[RecordFiles, Condemned]]:
    """The records of runs of a verb that died, which this one ends: both are undone as one.

    A run is not gone on with if the table has: if something else has the name of one of its roots.
    """
    found = [
        (listed, record)
        for listed, record in known
        if not record.done
        and (record.verb, record.branch) == (verb, files.paths.branch)
        and listed.claim is None
        and all(_is_gone_or(files, root, held.get(root.path)) for root in record.roots)
    ]
    if not found:
        return []
    now_ms = read_store_clock(files)
    return [(listed, record) for listed, record in found if not is_at_work(listed, record, now_ms)]


def _is_gone_or(files: TableFiles, root: HeldFile, same: HeldFile | None) -> bool:
    return root == same or not files.fs.exists(files.paths.below(root.path))


def _held(files: TableFiles, paths: Iterable[str]) -> Iterator[HeldFile]:
    for path in paths:
        # Another process may have deleted it since the plan.
        with suppress(FileMissing):
            data = files.fs.read_bytes(path)
            yield held_file(files, path, data)


def new_record_id(files: TableFiles) -> str:
    """The name of a record; later ones sort after it."""
    moment = dt.datetime(1970, 1, 1) + dt.timedelta(milliseconds=files.env.now_ms())
    # Records are put back in the reverse order of their names: a second may make several.
    return f"{moment:%Y%m%d-%H%M%S-%f}"[:-3] + f"-{files.env.new_id()}"


def delete_record(files: TableFiles, listed: RecordFiles) -> None:
    """Delete a record, and the folder of records if it is the last."""
    delete_files(files.fs, listed.paths)
    remove_empty_folders(files.fs, [files.paths.condemned_dir], below=files.paths.root)


def records(
    files: TableFiles, *, seen: Mapping[FileStatus, Condemned] | None = None
) -> Iterator[tuple[RecordFiles, Condemned]]:
    """The complete records, oldest first; `seen` are not read again if they are as they were.

    Raises:
        CorruptionError: a record is damaged.
        UnsupportedError: a later version of lakewright wrote a record.
    """
    for record_id, listed in files.condemned.listed().items():
        if listed.head is not None:
            # A put-back, which changes a record that is done, claims it before.
            known = None if seen is None or listed.claim else seen.get(listed.head)
            record = known or files.condemned.read(record_id)
            if record is not None:
                yield listed, record


def check_no_rollback_before(condemnation: Condemnation, end_id: int) -> None:
    """Check that no other verb under way needs a snapshot of the branch before an id.

    Raises:
        StalePlan: a rollback or fast-forward does; the record is withdrawn.
    """
    for record in others_at_work(condemnation):
        needed = [each for each in map(_snapshot_id, record.pins) if each and each < end_id]
        if needed:
            condemnation.withdraw()
            table = condemnation.files.name
            raise StalePlan(
                f"{record.verb.replace('_', ' ')} of {table} needs snapshot {needed[0]}, and "
                "is in progress or was stopped halfway; wait until it ends, or carry it out again, "
                "and plan again; after an hour it counts as dead, and where its process ran, once "
                "that has ended"
            )


def check_pins_stay(condemnation: Condemnation) -> None:
    """Check that no other verb under way deletes what the record pins, or puts snapshots back.

    Raises:
        StalePlan: an expiry or a put-back does; the record is withdrawn.
    """
    pinned = {pin.path for pin in condemnation.record.pins}
    for record in others_at_work(condemnation):
        if not {*record.roots}.isdisjoint(record.pins):
            condemnation.withdraw()
            table = condemnation.files.name
            raise StalePlan(
                f"what a {record.verb} deleted of {table} is being put back, or that was stopped "
                "halfway; wait until it ends, or carry it out again, and plan again; after an "
                "hour it counts as dead"
            )
        going = [root.path for root in record.roots if root.path in pinned]
        if going and record.verb != condemnation.record.verb:
            condemnation.withdraw()
            table = condemnation.files.name
            raise StalePlan(
                f"{going[0]} of {table} has expired since the plan was made, or is expiring: a "
                f"{record.verb} deletes it; plan again"
            )


def others_at_work(condemnation: Condemnation) -> Iterator[Condemned]:
    """The records that other verbs on this branch have not ended."""
    found = list(records(condemnation.files, seen=condemnation.seen))
    own = [each.head for each, _ in found if each.id == condemnation.id]
    # The store's own clock: the record was written a moment ago.
    now_ms = max((each.modified_ms for each in own if each), default=0)
    for listed, record in found:
        is_other = listed.id != condemnation.id and record.branch == condemnation.record.branch
        if is_other and is_at_work(listed, record, now_ms):
            yield record


def is_at_work(listed: RecordFiles, record: Condemned, now_ms: int) -> bool:
    """Whether the verb of a record may still run, by the store's clock.

    The process of one that is not done may be known to be dead, or to live; else it counts as dead
    after an hour.
    """
    is_young = listed.head is None or listed.head.modified_ms > now_ms - FLOOR_MS
    if record.done or is_dead(record.process):
        return False
    return is_young or is_alive_beside(record.process)


def is_being_rolled_back(files: TableFiles) -> bool:
    """Whether a rollback of the branch is running, or was stopped within the last hour."""
    begun = [
        (listed.head.modified_ms, record.process)
        for listed, record in records(files)
        if listed.head and record.pins and not record.done and record.branch == files.paths.branch
    ]
    if any(is_alive_beside(process) for _, process in begun):
        return True
    return bool(begun) and max(begun)[0] > read_store_clock(files) - FLOOR_MS


def _snapshot_id(held: HeldFile) -> int | None:
    found = _ROOT.fullmatch(held.path)
    return int(found["snapshot"]) if found and found["snapshot"] else None


# --- roots of records ---------------------------------------------------------------------------


def recorded_roots(files: TableFiles, record: Condemned) -> list[Root]:
    """What keeps files in a record; a damaged snapshot, tag or changelog keeps none.

    A dropped table keeps none: one in its place has other schemas, by which its files are not read.
    """
    return [] if record.verb == DROP_TABLE else held_roots(files, record)


def held_roots(files: TableFiles, record: Condemned) -> list[Root]:
    """The roots in a record, by the schemas that it holds or that are there."""
    held = (*record.roots, *record.pins)
    below = {files.paths.below(each.path): each.data for each in held}
    seen = replace(files, fs=RecordedFiles(files.fs, below), registry=None)
    found = []
    for each in held:
        with suppress(CorruptionError):
            root = _root(seen, each)
            found += [root] if root is not None else []
    return found


def _root(files: TableFiles, held: HeldFile) -> Root | None:
    match = _ROOT.fullmatch(held.path)
    if match is None:
        return None
    seen = on_branch(files, match["branch"] or "")
    if match["tag"]:
        tag = decode_tag(held.data, tag_name=match["tag"], name=held.path)
        return tag_root(seen, tag.name, tag.snapshot)
    number = int(match["snapshot"] or match["changelog"])
    snapshot = decode_snapshot(held.data, name=held.path, snapshot_id=number)
    make = snapshot_root if match["snapshot"] else changelog_root
    return make(seen, snapshot)


def held_file(files: TableFiles, path: str, data: bytes) -> HeldFile:
    """A metadata file of the table, given its whole path."""
    return HeldFile(path.removeprefix(f"{files.paths.root}/"), data)
