"""Tags: created by hand or automatically, renamed, replaced, deleted.

1. A tag is a named copy of a snapshot file. Its snapshot may expire; the files it reaches stay.
2. Automatic tags: the first snapshot after the end of a period becomes the tag of that period. In
   batch mode the latest snapshot gets the tag of its day.
3. Delete: record the tag and the files that only it kept, and remove the tag's file. The
   collector deletes the files.

Source: Paimon specification, chapter Manage Tags; `TagManager`, `TagAutoCreation`.
"""

from __future__ import annotations

import datetime as dt
from collections.abc import Collection, Iterable, Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass

from lakewright.storage.codec.snapshot_json import encode_tag
from lakewright.storage.errors import (
    AlreadyExistsError,
    CorruptionError,
    InvalidRequestError,
    SnapshotNotFound,
    StalePlan,
    StorageError,
)
from lakewright.storage.files.table_files import TableFiles
from lakewright.storage.operations.iceberg.hooks import publish_after_change, publish_after_commit
from lakewright.storage.operations.references.collect import carried_out
from lakewright.storage.operations.references.condemn import condemn
from lakewright.storage.operations.references.planned_files import files_of_both
from lakewright.storage.operations.references.reachable import only_kept_by
from lakewright.storage.operations.references.roots import Root, RootKind, all_roots
from lakewright.storage.operations.references.stale_roots import stale_when_roots_go
from lakewright.storage.operations.references.whole_snapshots import check_beginning, is_same
from lakewright.storage.operations.running.delete_files import delete_files
from lakewright.storage.operations.running.local_clock import local_now, local_time
from lakewright.storage.operations.running.plan import DeletionPlan, UnreachableFile
from lakewright.storage.operations.running.verb_options import grace, option, texts
from lakewright.storage.spec.arguments import whole_number, whole_or_none
from lakewright.storage.spec.reference_names import check_reference_name
from lakewright.storage.spec.shown import Shown
from lakewright.storage.spec.snapshot import FIRST_SNAPSHOT_ID, Snapshot
from lakewright.storage.spec.supported_options import Use, check_supported
from lakewright.storage.spec.tag import Tag, TagCreation

_BATCH_TAG = "batch-write-"
_NO_WATERMARK = -(2**63)


# --- by hand ----------------------------------------------------------------------------------


def create_tag(
    files: TableFiles,
    name: str,
    *,
    snapshot_id: int | None = None,
    time_retained_ms: int | None = None,
) -> Tag:
    """Tag a snapshot, by default the latest, and by default for the time that the options say.

    Raises:
        InvalidRequestError: the name is invalid, or the snapshot already has an automatic tag.
        AlreadyExistsError: a tag of that name exists.
        SnapshotNotFound: the snapshot does not exist, and no tag holds it.
    """
    check_reference_name(name, "tag")
    snapshot_id = whole_or_none(snapshot_id, "snapshot")
    retained_ms = _retained(files, time_retained_ms)
    snapshot_file, snapshot = _snapshot_to_tag(files, snapshot_id)
    _check_automatic(files, name, snapshot)
    data = encode_tag(snapshot_file, create_time=local_now(files), time_retained_ms=retained_ms)
    if not files.references.put_tag(name, data):
        held = files.references.tag(name).snapshot.id
        raise AlreadyExistsError(
            f"tag {name} of {files.name} exists already, for snapshot {held}; replace it "
            "(replace_tag, or --replace on the command line) or delete it"
        )
    try:
        check_beginning(files, snapshot, f"tag {name}", "name it", beside=[name])
    except (CorruptionError, SnapshotNotFound):
        delete_files(files.fs, [files.paths.tag(name)])
        raise
    publish_after_commit(files)
    return files.references.tag(name)


def replace_tag(
    files: TableFiles,
    name: str,
    *,
    snapshot_id: int | None = None,
    time_retained_ms: int | None = None,
    grace_ms: int = 0,
) -> Tag:
    """Point a tag at another snapshot; files that only the old one kept are condemned.

    Raises:
        TagNotFound: no tag has that name.
        SnapshotNotFound: the snapshot does not exist.
    """
    snapshot_id = whole_or_none(snapshot_id, "snapshot")
    retained_ms = _retained(files, time_retained_ms)
    plan = plan_delete_tags(files, [name])
    old_file = files.references.read_tag_file(name)
    snapshot_file, snapshot = _snapshot_to_tag(files, snapshot_id)
    holds_it_already = is_same(files.references.tag(name).snapshot, snapshot)
    data = encode_tag(
        snapshot_file,
        create_time=local_now(files),
        time_retained_ms=retained_ms,
    )
    if holds_it_already:
        files.references.replace_tag(name, data)
        return files.references.tag(name)
    grace_ms = whole_number(grace_ms, "grace_ms", minimum=0)
    condemned = condemn(
        files, "replace_tag", plan.files, [files.paths.tag(name)], grace_ms=grace_ms
    )
    files.references.replace_tag(name, data)
    try:
        check_beginning(files, snapshot, f"tag {name}", "name it", beside=[name])
    except (CorruptionError, SnapshotNotFound):
        files.references.replace_tag(name, old_file)
        condemned.withdraw()
        raise
    carried_out(condemned)
    publish_after_change(files)
    return files.references.tag(name)


def rename_tag(files: TableFiles, name: str, new_name: str) -> Tag:
    """Rename a tag.

    Raises:
        TagNotFound: no tag has that name.
        AlreadyExistsError: another tag has the new name.
    """
    check_reference_name(new_name, "tag")
    tag_file = files.references.read_tag_file(name)
    is_new = name != new_name and files.references.put_tag(new_name, tag_file)
    # An interrupted attempt leaves the tag under both names.
    is_half_done = name != new_name and files.references.read_tag_file(new_name) == tag_file
    if not is_new and not is_half_done:
        held = files.references.tag(new_name).snapshot.id
        raise AlreadyExistsError(
            f"tag {new_name} of {files.name} exists already, for snapshot {held}; choose another "
            f"name for {name}, or delete {new_name} first"
        )
    delete_files(files.fs, [files.paths.tag(name)])
    publish_after_commit(files)
    return files.references.tag(new_name)


def _retained(files: TableFiles, time_retained_ms: int | None) -> int | None:
    time_retained_ms = whole_or_none(time_retained_ms, "time_retained_ms")
    if time_retained_ms is None:
        return files.options.tag_default_time_retained_ms
    if time_retained_ms < 1:
        raise InvalidRequestError(
            f"a tag cannot be retained for {time_retained_ms} ms; give 1 or more"
        )
    return time_retained_ms


def _snapshot_to_tag(files: TableFiles, snapshot_id: int | None) -> tuple[bytes, Snapshot]:
    """The file of a snapshot, or of the tag that holds it; and the decoded snapshot."""
    check_supported(files.schema, Use.TAG, table=files.name)
    if snapshot_id is None:
        latest = files.snapshots.latest()
        if latest is None:
            raise SnapshotNotFound(
                f"{files.name} has no snapshot to tag: nothing was committed yet"
            )
        return files.snapshots.read_file(latest.id), latest
    try:
        return files.snapshots.read_file(snapshot_id), files.snapshots.read(snapshot_id)
    except SnapshotNotFound:
        for tag in files.references.tags().values():
            if tag.snapshot.id == snapshot_id:
                return files.references.read_tagged_snapshot_file(tag.name), tag.snapshot
        raise


def _check_automatic(files: TableFiles, name: str, snapshot: Snapshot) -> None:
    """Check that a snapshot gets at most one automatic tag, as other writers expect."""
    options = files.options
    if options.tag_automatic_creation not in (TagCreation.PROCESS_TIME, TagCreation.WATERMARK):
        return
    if options.tag_period.time_of(name) is None:
        return
    for tag in files.references.tags().values():
        if tag.snapshot.id == snapshot.id and options.tag_period.time_of(tag.name) is not None:
            raise InvalidRequestError(
                f"tag name {name} has the pattern of automatic tags of {files.name}, and "
                f"snapshot {snapshot.id} has the automatic tag {tag.name} already; choose a name "
                f"that does not match {options.tag_period.pattern}"
            )


# --- when they are due ------------------------------------------------------------------------


def create_due_tags(files: TableFiles) -> tuple[str, ...]:
    """Create the automatic tags that are due, and delete those beyond the number to retain.

    Returns the names of the new tags. A second call creates nothing twice.
    """
    match files.options.tag_automatic_creation:
        case TagCreation.NONE:
            return ()
        case TagCreation.BATCH:
            made = _tag_batch(files)
        case _:
            made = tuple(_tag_periods(files))
    if made:
        plan = plan_delete_tags(files, surplus_tags(files))
        run_delete_tags(files, plan)
    return made


def tag_what_is_due(files: TableFiles) -> None:
    """Create the tags that are due after a commit; the commit stands even if this fails."""
    with suppress(StorageError):
        create_due_tags(files)


def surplus_tags(files: TableFiles) -> tuple[str, ...]:
    """Automatic tags beyond the number that the options retain, oldest first."""
    most = files.options.tag_num_retained_max
    if most is None:
        return ()
    automatic = [name for name in files.references.tags() if is_automatic(files, name)]
    return tuple(automatic[: max(0, len(automatic) - most)])


def is_automatic(files: TableFiles, name: str) -> bool:
    """Whether a tag's name is one of automatic tags under the present options."""
    match files.options.tag_automatic_creation:
        case TagCreation.NONE:
            return False
        case TagCreation.BATCH:
            return name == files.options.tag_batch_name or name.startswith(_BATCH_TAG)
        case _:
            return files.options.tag_period.time_of(name) is not None


def _tag_periods(files: TableFiles) -> Iterator[str]:
    period = files.options.tag_period
    found = [(period.time_of(name), name) for name in files.references.tag_names()]
    times = [(time, name) for time, name in found if time is not None]
    # The period of the next tag; unknown until a first automatic tag exists.
    due: dt.datetime | None = None
    first = FIRST_SNAPSHOT_ID
    if times:
        newest, name = max(times)
        due = newest + period.duration
        first = files.references.tag(name).snapshot.id + 1
    latest = files.snapshots.latest()
    if latest is None or not _is_due(files, latest, due):
        # Times increase from snapshot to snapshot, so no earlier snapshot is due either.
        return
    for snapshot in _from(files, first):
        time = _time_of(files, snapshot)
        if time is None or not _is_due(files, snapshot, due):
            continue
        closed = period.closed_before(time)
        if files.options.tag_automatic_completion and due is not None:
            closed = due
        name = period.name_of(closed)
        if _put_automatic(files, name, snapshot):
            yield name
        due = closed + period.duration


def _is_due(files: TableFiles, snapshot: Snapshot, due: dt.datetime | None) -> bool:
    """Whether the period that is due had ended when a snapshot was committed."""
    time = _time_of(files, snapshot)
    if time is None or due is None:
        return time is not None
    delay = dt.timedelta(milliseconds=files.options.tag_creation_delay_ms)
    return time - delay >= due + files.options.tag_period.duration


def _from(files: TableFiles, first: int) -> Iterator[Snapshot]:
    """Snapshots from an id on, oldest first; skips those that expire during the read."""
    for snapshot_id in files.snapshots.ids():
        if snapshot_id >= first:
            try:
                yield files.snapshots.read(snapshot_id)
            except SnapshotNotFound:
                continue


def _time_of(files: TableFiles, snapshot: Snapshot) -> dt.datetime | None:
    if files.options.tag_automatic_creation is TagCreation.PROCESS_TIME:
        return local_time(snapshot.time_millis, files.options.process_time_zone)
    if snapshot.watermark in (None, _NO_WATERMARK):
        return None
    try:
        return local_time(snapshot.watermark or 0, files.options.watermark_time_zone)
    except OverflowError:
        # Streams of other clients end with a watermark beyond the calendar.
        return None


def _put_automatic(files: TableFiles, name: str, snapshot: Snapshot) -> bool:
    try:
        create_tag(files, name, snapshot_id=snapshot.id)
    except (AlreadyExistsError, SnapshotNotFound):
        # Another process created the tag first, or expired the snapshot.
        return False
    return True


def _tag_batch(files: TableFiles) -> tuple[str, ...]:
    snapshot = files.snapshots.latest()
    if snapshot is None:
        return ()
    day = local_time(snapshot.time_millis, files.options.process_time_zone)
    name = files.options.tag_batch_name or f"{_BATCH_TAG}{day:%Y-%m-%d}"
    if name not in files.references.tag_names():
        return (name,) if _put_automatic(files, name, snapshot) else ()
    if files.references.tag(name).snapshot.id == snapshot.id:
        return ()
    replace_tag(files, name, snapshot_id=snapshot.id)
    return (name,)


# --- deletion ---------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True, kw_only=True)
class DeleteTagsPlan(DeletionPlan["DeleteTagsResult"]):
    """Tags to delete, their snapshots, and the files that only they keep.

    `older_than_ms` is the age from which an expiry planned them, without those whose names match
    a pattern of `spare`. For `grace_ms` the run can be undone.
    """

    tags: tuple[str, ...]
    snapshot_ids: tuple[int, ...]
    reasons: tuple[str, ...] = ()
    older_than_ms: int | None = None
    spare: tuple[str, ...] = ()
    grace_ms: int = 0

    def __post_init__(self) -> None:
        DeletionPlan.__post_init__(self)
        if len(self.tags) != len(self.snapshot_ids) or len(self.tags) != len(set(self.tags)):
            raise InvalidRequestError(
                f"a plan for {self.table} names {len(self.tags)} tags, {len(set(self.tags))} of "
                f"them different, and {len(self.snapshot_ids)} snapshots; plan again"
            )


@dataclass(frozen=True, slots=True, kw_only=True)
class DeleteTagsResult(Shown):
    """What a deletion of tags deleted, and which files it left to the collector."""

    tags: tuple[str, ...]
    files_deleted: int
    bytes_deleted: int
    duration_ms: int
    files_condemned: int = 0
    bytes_condemned: int = 0


@dataclass(frozen=True)
class DeleteTagsOptions:
    """Which tags go."""

    names: Sequence[str] = option(texts(), (), "The tags to delete.", place="TAG…")
    grace_ms: int = grace()


@stale_when_roots_go
def plan_delete_tags(
    files: TableFiles, names: Iterable[str], *, reasons: Iterable[str] = (), grace_ms: int = 0
) -> DeleteTagsPlan:
    """Plan the deletion of tags, which can be undone for `grace_ms`.

    Raises:
        TagNotFound: no tag has one of the names; the message lists all tags.
        CorruptionError: metadata that the plan depends on cannot be read.
    """
    check_supported(files.schema, Use.EXPIRE, table=files.name)
    tags = [files.references.tag(name) for name in dict.fromkeys(names)]
    # If the snapshot of a tag still exists, the tag alone keeps no file.
    alone = {tag.name for tag in tags if not _has_snapshot(files, tag)}
    found: tuple[UnreachableFile, ...] = ()
    if alone:
        roots = all_roots(files)
        going = [root for root in roots if _is_tag(files, root, alone)]
        staying = [root for root in roots if root not in going]
        found = only_kept_by(files, going, staying)
    return DeleteTagsPlan(
        table=files.name,
        tags=tuple(tag.name for tag in tags),
        snapshot_ids=tuple(tag.snapshot.id for tag in tags),
        files=found,
        reasons=tuple(reasons),
        grace_ms=whole_number(grace_ms, "grace_ms", minimum=0),
    )


def _has_snapshot(files: TableFiles, tag: Tag) -> bool:
    with suppress(SnapshotNotFound):
        return is_same(files.snapshots.read(tag.snapshot.id), tag.snapshot)
    return False


def _is_tag(files: TableFiles, root: Root, names: Collection[str]) -> bool:
    return root.kind is RootKind.TAG and root.branch == files.paths.branch and root.label in names


@stale_when_roots_go
def run_delete_tags(
    files: TableFiles, plan: DeleteTagsPlan, *, verb: str = "delete_tags"
) -> DeleteTagsResult:
    """Carry out a plan.

    Raises:
        StalePlan: a tag now points at another snapshot, or is deleted, or its deletion would
            delete other files than planned.
    """
    check_supported(files.schema, Use.EXPIRE, table=files.name)
    started = files.env.now_ms()
    for name, snapshot_id in zip(plan.tags, plan.snapshot_ids, strict=True):
        _check_still(files, name, snapshot_id)
    fresh = plan_delete_tags(files, plan.tags).files
    surplus = {file.path for file in fresh}.difference(file.path for file in plan.files)
    if surplus:
        raise StalePlan(
            f"snapshots of tags of {files.name} have expired since the plan was made: the "
            f"deletion of {', '.join(plan.tags)} would delete {len(surplus)} more files than "
            "planned; plan again"
        )
    paths = [files.paths.tag(name) for name in plan.tags]
    going = files_of_both(files, plan.files, fresh)
    condemned = condemn(files, verb, going, paths, grace_ms=plan.grace_ms)
    delete_files(files.fs, paths)
    deleted = carried_out(condemned)
    return DeleteTagsResult(
        tags=plan.tags,
        files_deleted=deleted.files,
        bytes_deleted=deleted.bytes,
        duration_ms=files.env.now_ms() - started,
        files_condemned=deleted.condemned_files,
        bytes_condemned=deleted.condemned_bytes,
    )


def _check_still(files: TableFiles, name: str, snapshot_id: int) -> None:
    try:
        held = files.references.tag(name).snapshot.id
    except StorageError as error:
        raise StalePlan(
            f"tag {name} of {files.name} was deleted after the plan was made; plan again"
        ) from error
    if held != snapshot_id:
        raise StalePlan(
            f"tag {name} of {files.name} names snapshot {held} now, and named {snapshot_id} when "
            "the plan was made; plan again"
        )
