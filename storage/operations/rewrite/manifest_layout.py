"""Which manifests of a state a rewrite would improve, from what their list says of them.

1. Sort manifests by their bounds of partition values.
2. Mark those that hold deleted entries, those whose bounds overlap, small and very large ones.
3. Neighbours that are marked become one run, which is sorted and divided anew. A run that would
   stay small takes in a neighbour.

Bounds overlap where the first partition column on which manifests differ does. So a rewritten state
has none that overlap, at most one small manifest, and nothing to improve.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass
from enum import Enum
from itertools import groupby
from typing import Any

from lakewright.storage.codec.column_stats import stats_bounds
from lakewright.storage.files.table_files import TableFiles
from lakewright.storage.spec.manifest import ManifestFileMeta
from lakewright.storage.spec.predicate import Bounds
from lakewright.storage.spec.values import order_key

# So many times the target size a manifest never gets by a rewrite, whatever the last one takes in.
_TOO_LARGE = 3
# The first values of partition rows, as far as bounds know them.
Values = tuple[Any, ...]


class Fault(Enum):
    """Why a manifest is rewritten; the first that applies."""

    DELETED = "holds deleted entries"
    OVERLAPS = "shares partitions with other manifests"
    LARGE = "is larger than several should be"
    SMALL = "is small"
    NEIGHBOUR = "joins a small one"


@dataclass(frozen=True, slots=True)
class _Placed:
    """A manifest with the first and the last values of its partitions."""

    meta: ManifestFileMeta
    first: Values
    last: Values


def pick_manifests(
    files: TableFiles,
    metas: Sequence[ManifestFileMeta],
    *,
    deleted: Collection[str],
    live_bytes: Mapping[str, float],
    room: int,
) -> list[dict[str, Fault]]:
    """Runs of manifests to rewrite together, by name, each with its fault.

    `deleted` are manifests that hold deleted entries, and `live_bytes` estimates what each would
    take with its live entries alone; a manifest of the target size has `room` for so many bytes.
    """
    by_keys: dict[tuple[str, ...], list[_Placed]] = {}
    for meta in metas:
        keys = files.partitions.keys_of_manifest(meta)
        count = meta.num_added_files + meta.num_deleted_files
        bounds = stats_bounds(meta.partition_stats, keys.fields, count, first=True)
        placed = _Placed(meta, *_ends(bounds[name] for name in keys.names))
        by_keys.setdefault(keys.names, []).append(placed)
    target = files.options.manifest_target_file_size
    return [
        run
        for group in by_keys.values()
        for run in _runs(sorted(group, key=_order), deleted, target, live_bytes, room)
    ]


def _ends(bounds: Iterable[Bounds]) -> tuple[Values, Values]:
    """Values that all rows share, then the least and the greatest of the first other column."""
    shared: list[Any] = []
    for bound in bounds:
        null = (False, None)
        if bound.all_null:
            shared.append(null)
            continue
        if bound.minimum is None or bound.maximum is None:
            # Nothing can be told apart by a column without bounds.
            break
        low, high = (True, order_key(bound.minimum)), (True, order_key(bound.maximum))
        low = null if bound.null_count else low
        if low != high:
            return (*shared, low), (*shared, high)
        shared.append(low)
    return tuple(shared), tuple(shared)


def _order(placed: _Placed) -> tuple[Values, Values, str]:
    # The name makes the order one that each process finds.
    return placed.first, placed.last, placed.meta.file_name


def _runs(
    placed: Sequence[_Placed],
    deleted: Collection[str],
    target: int,
    live_bytes: Mapping[str, float],
    room: int,
) -> list[dict[str, Fault]]:
    faults: list[Fault | None] = [None] * len(placed)
    for at, each in enumerate(placed):
        # Twice as many manifests as could be are few enough.
        if len(placed) > 1 and each.meta.file_size < target / 2:
            faults[at] = Fault.SMALL
        many = each.meta.num_added_files > _TOO_LARGE
        if many and live_bytes[each.meta.file_name] > _TOO_LARGE * target:
            faults[at] = Fault.LARGE
    for at in _overlapping(placed):
        faults[at] = Fault.OVERLAPS
    for at, each in enumerate(placed):
        if each.meta.file_name in deleted:
            faults[at] = Fault.DELETED

    bytes_of = [live_bytes[each.meta.file_name] for each in placed]
    return [
        {placed[at].meta.file_name: fault for at in run if (fault := faults[at]) is not None}
        for run in _joined(faults, bytes_of, room)
    ]


def _joined(faults: list[Fault | None], bytes_of: Sequence[float], room: int) -> list[list[int]]:
    """Runs of marked manifests; those that would stay small have marked neighbours, too."""
    total, begin = 0.0, 0
    for at in range(len(faults)):
        if faults[at] is None and 0 < total < room:
            faults[at] = Fault.NEIGHBOUR
        if faults[at] is None:
            total, begin = 0.0, at + 1
        else:
            total += bytes_of[at]
    if 0 < total < room and begin > 0:
        faults[begin - 1] = Fault.NEIGHBOUR
    return _marked(faults)


def _marked(faults: Sequence[Fault | None]) -> list[list[int]]:
    """Neighbours with faults, run by run."""
    grouped = groupby(range(len(faults)), key=lambda at: faults[at] is not None)
    return [list(run) for is_marked, run in grouped if is_marked]


def _overlapping(placed: Sequence[_Placed]) -> set[int]:
    """Indexes of manifests that have partitions between those of others."""
    found: set[int] = set()
    # The manifest that ends last so far, by how many values its bounds have; and the first after
    # it that is not found yet.
    ends: dict[int, tuple[int, int]] = {}
    for at, each in enumerate(placed):
        for length, (last, begin) in ends.items():
            shared = min(length, len(each.first))
            if placed[last].last[:shared] > each.first[:shared]:
                found.update(range(begin, at + 1))
                ends[length] = last, at + 1
        length = len(each.last)
        if length not in ends or placed[ends[length][0]].last < each.last:
            ends[length] = at, at
    return found
