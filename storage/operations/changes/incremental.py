"""Plans the row changes between two states of a table.

1. Turn the bounds into snapshots: two ids, two tags or two times; the first is exclusive.
2. Choose the files. delta: files that APPEND snapshots of the range added. changelog: the
   changelog files of the range, including those that outlive their snapshots. diff: files
   that differ between the two states.
3. Make splits for `change_read`: by bucket; for a difference by key range, or by partition
   if keys may have moved between buckets.

A diff of plain `deduplicate` tables skips files that both states have, so a row that was written
again with equal values counts as changed. Every other merge engine needs all versions of a key, so
the diff reads every key range that has a differing file.

Source: Paimon `IncrementalDeltaStartingScanner`, `IncrementalDiffStartingScanner`,
`IncrementalDiffSplitRead`, `AuditLogTable`.
"""

from __future__ import annotations

import datetime as dt
from collections.abc import Sequence
from itertools import pairwise

from lakewright.storage.errors import HistoryGap, InvalidRequestError, SnapshotNotFound, TagNotFound
from lakewright.storage.files.table_files import TableFiles
from lakewright.storage.operations.changes.change_plan import (
    ChangePlan,
    ChangeSource,
    ChangeSplit,
    IncrementalMode,
)
from lakewright.storage.operations.changes.state_difference import difference_plan
from lakewright.storage.operations.changes.written_files import writes_changelogs, written_plan
from lakewright.storage.operations.read.scan import plan_scan
from lakewright.storage.operations.state.time_travel import is_number, time_ms
from lakewright.storage.spec.arguments import text_argument, whole_number
from lakewright.storage.spec.predicate import Predicate
from lakewright.storage.spec.snapshot import Snapshot
from lakewright.storage.spec.supported_options import Use, check_supported

# A snapshot id, a tag name (or an id as text), or a time (UTC if it has no zone).
Bound = int | str | dt.datetime


# --- planning ---------------------------------------------------------------------------------


def plan_incremental(
    files: TableFiles,
    start: Bound,
    end: Bound,
    *,
    mode: IncrementalMode = IncrementalMode.AUTO,
    predicate: Predicate | None = None,
) -> ChangePlan:
    """Files with the changes after `start`, up to and including `end`.

    Two texts name tags if both tags exist, else they are snapshot ids.

    Raises:
        InvalidRequestError: the bounds differ in kind or are reversed, or the mode wants
            changelogs and the table has none.
        SnapshotNotFound: one of the snapshots never existed, or expired.
        HistoryGap: snapshots between them are missing.
        TagNotFound: a text is neither a tag nor a number.
    """
    check_supported(files.schema, Use.READ, table=files.name)
    start, end = _checked(start, "start"), _checked(end, "end")
    if isinstance(start, dt.datetime) and isinstance(end, dt.datetime):
        return _between_times(files, time_ms(start), time_ms(end), mode, predicate)
    if isinstance(start, dt.datetime) or isinstance(end, dt.datetime):
        raise InvalidRequestError(
            f"changes of {files.name} are read between two snapshots, two tags or two times, "
            f"not between {start} and {end}"
        )
    tags = set(files.references.tag_names())
    if isinstance(start, str) and isinstance(end, str) and {start, end} <= tags:
        return _between_tags(files, start, end, mode, predicate)
    first, last = _snapshot_ids(files, (start, end), tags)
    return _between_ids(files, first, last, mode, predicate)


def _checked(bound: Bound, name: str) -> Bound:
    if isinstance(bound, dt.datetime):
        return bound
    return text_argument(bound, name) if isinstance(bound, str) else whole_number(bound, name)


def plan_audit_log(
    files: TableFiles,
    snapshot: Snapshot | None,
    predicate: Predicate | None = None,
    *,
    levels: range | None = None,
) -> ChangePlan:
    """Plan the rows of one state, or of some levels, with the deletions that files still hold."""
    check_supported(files.schema, Use.READ, table=files.name)
    plan = plan_scan(files, snapshot, predicate, levels=levels)
    splits = [
        ChangeSplit(
            source=ChangeSource.STATE if split.merge else ChangeSource.WRITTEN, after=(split,)
        )
        for split in plan.splits
    ]
    return ChangePlan(
        table=files.name,
        mode=IncrementalMode.AUTO,
        snapshot_ids=() if snapshot is None else (snapshot.id,),
        splits=tuple(splits),
    )


def _snapshot_ids(files: TableFiles, bounds: Sequence[int | str], tags: set[str]) -> list[int]:
    """The bounds as snapshot ids, if they are not two tags."""
    there = ", ".join(sorted(tags)) or "none"
    texts = [bound for bound in bounds if isinstance(bound, str) and not is_number(bound)]
    unknown = [text for text in texts if text not in tags]
    if unknown:
        raise TagNotFound(
            f"{files.name} has no tag {unknown[0]!r}, and it is not a snapshot id; "
            f"tags there: {there}"
        )
    if texts:
        raise InvalidRequestError(
            f"{texts[0]} is a tag of {files.name} and the other bound is not a tag; name two "
            f"tags (there are {there}) or two snapshots"
        )
    return [int(bound) for bound in bounds]


def _between_tags(
    files: TableFiles, start: str, end: str, mode: IncrementalMode, predicate: Predicate | None
) -> ChangePlan:
    before, after = files.references.tag(start).snapshot, files.references.tag(end).snapshot
    if after.id < before.id:
        raise InvalidRequestError(
            f"tag {end} of {files.name} is snapshot {after.id}, before tag {start}, which is "
            f"snapshot {before.id}; name the earlier one first"
        )
    if mode in (IncrementalMode.DELTA, IncrementalMode.CHANGELOG):
        return _between_ids(files, before.id, after.id, mode, predicate)
    if before.id == after.id:
        return _nothing(files, IncrementalMode.DIFF)
    return difference_plan(files, before, after, predicate)


def _between_ids(
    files: TableFiles, start: int, end: int, mode: IncrementalMode, predicate: Predicate | None
) -> ChangePlan:
    if end < start:
        raise InvalidRequestError(
            f"changes of {files.name} from snapshot {start} to {end} cannot be read: name the "
            "earlier one first"
        )
    mode = _resolved(files, mode)
    earliest, latest = files.snapshots.earliest_id(), files.snapshots.latest_id()
    if earliest is None or latest is None or start == end:
        return _nothing(files, mode)
    if mode is IncrementalMode.DIFF:
        before, after = files.snapshots.read(start), files.snapshots.read(end)
        return difference_plan(files, before, after, predicate)
    return written_plan(files, snapshots_between(files, start, end, mode), mode, predicate)


def snapshots_between(
    files: TableFiles, start: int, end: int, mode: IncrementalMode
) -> list[Snapshot]:
    """The snapshots after `start` up to `end`, or their changelogs, all of them.

    Raises:
        SnapshotNotFound: one of them never existed, or expired.
        HistoryGap: snapshots between them are missing.
    """
    kept = _kept_changelogs(files, mode)
    earliest = min([files.snapshots.earliest_id() or end + 1, *kept])
    # The first bound is exclusive, so it may be the snapshot before the earliest.
    if start < earliest - 1 or end > (files.snapshots.latest_id() or 0):
        raise _expired(files, (start, end), earliest)
    there = {*kept, *files.snapshots.ids()}
    between = sorted(each for each in there if start < each <= end)
    _check_no_gap(files, between, (start, end), mode)
    return [kept.get(each) or files.snapshots.read(each) for each in range(start + 1, end + 1)]


def _expired(files: TableFiles, bounds: tuple[int, int], earliest: int) -> SnapshotNotFound:
    latest = files.snapshots.latest_id()
    return SnapshotNotFound(
        f"changes of {files.name} from snapshot {bounds[0]} to {bounds[1]} cannot be read: it "
        f"has snapshots {earliest} to {latest}; name bounds from {earliest - 1} to {latest}"
    )


def _between_times(
    files: TableFiles,
    start_ms: int,
    end_ms: int,
    mode: IncrementalMode,
    predicate: Predicate | None,
) -> ChangePlan:
    if end_ms < start_ms:
        raise InvalidRequestError(
            f"changes of {files.name} from {start_ms} ms to {end_ms} ms since the epoch cannot "
            "be read: name the earlier time first"
        )
    mode = _resolved(files, mode)
    snapshots = [
        *_kept_changelogs(files, mode).values(),
        *reversed(list(files.snapshots.newest_first())),
    ]
    if (
        not snapshots
        or start_ms == end_ms
        or start_ms > snapshots[-1].time_millis
        or end_ms < snapshots[0].time_millis
    ):
        return _nothing(files, mode)
    before, after = _not_after(snapshots, start_ms), _not_after(snapshots, end_ms)
    assert after is not None
    if mode is IncrementalMode.DIFF:
        if before is None and snapshots[0].id > 1:
            # The state before the earliest snapshot is unknown.
            before = snapshots[0]
        return difference_plan(files, before, after, predicate)
    first = 0 if before is None else before.id + 1
    told = [snapshot for snapshot in snapshots if first <= snapshot.id <= after.id]
    start = told[0].id - 1 if before is None and told else first - 1
    _check_no_gap(files, [each.id for each in told], (start, after.id), mode)
    return written_plan(files, told, mode, predicate)


def _check_no_gap(
    files: TableFiles, ids: Sequence[int], bounds: tuple[int, int], mode: IncrementalMode
) -> None:
    """Check that every snapshot after the first bound, up to and including the last, exists.

    Raises:
        HistoryGap: the changes of some snapshots are unknown.
        SnapshotNotFound: a snapshot expired during the planning.
    """
    start, end = bounds
    for before, following in pairwise([start, *ids, end + 1]):
        if following == before + 1:
            continue
        earliest = min(
            [*files.snapshots.ids()[:1], *_kept_changelogs(files, mode)], default=end + 1
        )
        if before + 1 < earliest:
            raise _expired(files, bounds, earliest)
        lost = (
            f"snapshot {before + 1}"
            if following == before + 2
            else f"snapshots {before + 1} to {following - 1}"
        )
        raise HistoryGap(
            f"changes of {files.name} from snapshot {start} to {end} cannot be read: the changes "
            f"of {lost} are missing; read with mode diff, or read up to {before} and "
            f"from {following} on",
            missing=(before + 1, following - 1),
        )


def _kept_changelogs(files: TableFiles, mode: IncrementalMode) -> dict[int, Snapshot]:
    """Changelogs that outlive their snapshots, oldest first; only their changes remain."""
    if mode is not IncrementalMode.CHANGELOG:
        return {}
    earliest = files.snapshots.earliest_id()
    found = files.references.changelogs()
    return {each.id: each for each in found if earliest is None or each.id < earliest}


def _not_after(snapshots: Sequence[Snapshot], time_ms: int) -> Snapshot | None:
    older = [snapshot for snapshot in snapshots if snapshot.time_millis <= time_ms]
    return older[-1] if older else None


def _resolved(files: TableFiles, mode: IncrementalMode) -> IncrementalMode:
    if mode is not IncrementalMode.AUTO:
        return mode
    return IncrementalMode.CHANGELOG if writes_changelogs(files) else IncrementalMode.DELTA


def _nothing(files: TableFiles, mode: IncrementalMode) -> ChangePlan:
    return ChangePlan(table=files.name, mode=mode, snapshot_ids=(), splits=())
