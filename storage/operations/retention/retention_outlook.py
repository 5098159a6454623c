"""What expiries of snapshots by other ages would free, from metadata alone; writes nothing.

1. For each age, choose the snapshots that would go, as the expiry does, without its limit.
2. Walk once over the snapshots that the shortest age lets go, in stretches that end where an age
   ends. The files that only a stretch keeps are those that its expiry would delete after the
   stretches before it, so their sums are exact for each age.
3. For tags of snapshots that go, and for branches, sum up the files that they keep, and that no
   snapshot that stays names.

Memory: the removed files of one stretch, at most a thousand snapshots.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from lakewright.storage.env import FileStatus
from lakewright.storage.files.table_files import TableFiles
from lakewright.storage.operations.references.consumers import (
    ExpireConsumersOptions,
    plan_expire_consumers,
)
from lakewright.storage.operations.references.reachable import Reach
from lakewright.storage.operations.references.roots import (
    Root,
    RootKind,
    other_roots,
    snapshot_root,
)
from lakewright.storage.operations.retention.expiring_files import ExpiringRange
from lakewright.storage.operations.retention.expiry_range import (
    ExpiryStep,
    expiry_step,
    retention_of,
)
from lakewright.storage.operations.state.lineage import Lineage
from lakewright.storage.spec.supported_options import Use, check_supported

_MOST_SNAPSHOTS = 1000
# Each tag costs a read of the manifests of its snapshot.
_MOST_HOLDERS = 20


@dataclass(frozen=True, slots=True, kw_only=True)
class Holder:
    """A tag, branch or consumer that keeps what an expiry would otherwise free.

    `files` and `bytes` are the data files that it keeps and no snapshot that stays names; files
    that two tags keep count for both. They are None if there are too many holders to ask, and of a
    consumer, which holds `snapshots` back.
    """

    kind: str
    name: str
    snapshot_id: int
    files: int | None = None
    bytes: int | None = None
    snapshots: int = 0


@dataclass(frozen=True, slots=True, kw_only=True)
class RetentionOutlook:
    """What an expiry would do that keeps what is younger than an age.

    `gone` snapshots can no longer be travelled to, from `first_gone` to `last_gone`; `back_to_ms`
    is the moment from which on the table can still be read as it was. `reasons` are those of the
    expiry. `held_by` is what keeps files of the snapshots that go, or the snapshots themselves.
    """

    time_retained_ms: int
    gone: int
    left: int
    files: int
    bytes: int
    first_gone: int | None = None
    last_gone: int | None = None
    back_to_ms: int | None = None
    reasons: tuple[str, ...] = ()
    held_by: tuple[Holder, ...] = ()


def retention_outlook(
    files: TableFiles,
    ages_ms: Sequence[int],
    *,
    retain_min: int | None = None,
    retain_max: int | None = None,
) -> tuple[RetentionOutlook, ...]:
    """What each age would free, in the order given; other values are those of the table's options.

    Raises:
        InvalidRequestError: a value is invalid.
        ClockJumped: the latest snapshot is dated in the future, so ages are unknown.
        CorruptionError: metadata that the outlook depends on cannot be read.
    """
    check_supported(files.schema, Use.EXPIRE, table=files.name)
    listed = files.snapshots.listed()
    if not listed:
        return tuple(
            RetentionOutlook(time_retained_ms=each, gone=0, left=0, files=0, bytes=0)
            for each in ages_ms
        )
    ids = list(listed)
    stale = [
        consumer.name
        for consumer in plan_expire_consumers(files, ExpireConsumersOptions()).consumers
    ]
    consumers = [*files.references.consumers()]

    def step_of(age_ms: int, ignored: Sequence[str]) -> ExpiryStep:
        retention = retention_of(files, retain_min, retain_max, age_ms, max(len(ids), 1))
        return expiry_step(files, ids, retention, ignored)

    steps = {age_ms: step_of(age_ms, stale) for age_ms in ages_ms}
    ends = {age_ms: len(step.expired) for age_ms, step in steps.items()}
    freed = _freed(files, listed, sorted(set(ends.values())))
    roots = [root for root in other_roots(files) if root.kind is not RootKind.CHANGELOG]
    found = []
    for age_ms in ages_ms:
        step, end = steps[age_ms], ends[age_ms]
        would_go = len(step_of(age_ms, consumers).expired)
        count, size = freed[end]
        found.append(
            RetentionOutlook(
                time_retained_ms=age_ms,
                gone=end,
                left=len(ids) - end,
                files=count,
                bytes=size,
                first_gone=ids[0] if end else None,
                last_gone=ids[end - 1] if end else None,
                back_to_ms=files.snapshots.read(ids[end]).time_millis,
                reasons=tuple(step.reasons),
                held_by=(
                    *(_held_back(files, ids, end, would_go) if would_go > end else ()),
                    *(_holders(files, ids[end], roots, listed) if end else ()),
                ),
            )
        )
    return tuple(found)


def _freed(
    files: TableFiles, listed: dict[int, FileStatus], ends: Sequence[int]
) -> dict[int, tuple[int, int]]:
    """By the number of snapshots that go, the files and bytes that go with them."""
    ids, lineage = list(listed), Lineage()
    sums, count, size = {0: (0, 0)}, 0, 0
    for begin, end in _stretches(ends):
        going = [files.snapshots.read(each) for each in ids[begin:end]]
        outliving = ids[begin:end] if files.options.changelog_outlives_snapshots else ()
        expiring = ExpiringRange(files, going, ids[end], outliving)
        found, _ = expiring.files_of(listed, lineage)
        count += len(found)
        size += sum(each.size_bytes for each in found)
        sums[end] = (count, size)
    return sums


def _stretches(ends: Sequence[int]) -> Iterator[tuple[int, int]]:
    begin = 0
    for end in ends:
        while begin < end:
            until = min(begin + _MOST_SNAPSHOTS, end)
            yield begin, until
            begin = until


def _held_back(files: TableFiles, ids: Sequence[int], end: int, would_go: int) -> Iterator[Holder]:
    """The consumers that have not read snapshots which would otherwise go."""
    for name, position in files.references.consumers().items():
        waiting = sum(each >= position for each in ids[end:would_go])
        if waiting:
            yield Holder(kind="consumer", name=name, snapshot_id=position, snapshots=waiting)


def _holders(
    files: TableFiles, first_id: int, roots: Sequence[Root], listed: dict[int, FileStatus]
) -> Iterator[Holder]:
    """The tags of snapshots that go, and the branches, with what they alone keep."""
    named = {
        (each.branch, each.label if each.kind is RootKind.TAG else None): each
        for each in roots
        if each.branch != files.paths.branch
        or (each.kind is RootKind.TAG and each.snapshot.id < first_id)
    }
    staying = [first_id, *Lineage().breaks(files, listed, first_id)]
    mine = [snapshot_root(files, files.snapshots.read(each)) for each in staying]
    for root in named.values():
        is_tag = root.kind is RootKind.TAG
        where = f" of branch {root.branch}" if is_tag and root.branch != files.paths.branch else ""
        count: int | None = None
        size: int | None = None
        if len(named) <= _MOST_HOLDERS:
            state = Reach().state(root)
            kept = Reach(wanted=state.keys()).data_of_all(mine)
            own = [each for path, each in state.items() if path not in kept]
            count, size = len(own), sum(own)
        yield Holder(
            kind="tag" if is_tag else "branch",
            name=f"{root.label}{where}" if is_tag else root.branch,
            snapshot_id=root.snapshot.id,
            files=count,
            bytes=size,
        )
