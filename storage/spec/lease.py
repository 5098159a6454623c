"""Leases: holder, scope and deadline of work on a table, and which kinds of work exclude others."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass, replace
from enum import Enum

# A book is read and written whole, so a scope with more partitions counts as the whole table.
_MOST_PARTS = 1000


class LeaseKind(Enum):
    """The kind of work under a lease.

    `APPEND` adds rows that need no order among writers, `UPSERT` rows that are numbered or indexed
    in their bucket. `OVERWRITE` and `RESCALE` need the rows of their scope unchanged.
    """

    APPEND = "append"
    UPSERT = "upsert"
    OVERWRITE = "overwrite"
    COMPACT = "compact"
    RESCALE = "rescale"
    EXPIRE = "expire"

    @property
    def gives_way(self) -> bool:
        """Whether a writer may take over parts of the lease."""
        return self in (LeaseKind.COMPACT, LeaseKind.RESCALE)

    @property
    def is_write(self) -> bool:
        return self in (LeaseKind.APPEND, LeaseKind.UPSERT, LeaseKind.OVERWRITE)

    def goes_with(self, other: LeaseKind) -> bool:
        """Whether both kinds of work may run on one bucket at once without losing either."""
        return frozenset((self, other)) in _SIDE_BY_SIDE


# Rows added meanwhile do not disturb a compaction; an expiry only deletes past snapshots.
_SIDE_BY_SIDE = frozenset(
    [
        frozenset([LeaseKind.APPEND]),
        frozenset([LeaseKind.APPEND, LeaseKind.UPSERT]),
        frozenset([LeaseKind.APPEND, LeaseKind.COMPACT]),
        frozenset([LeaseKind.UPSERT, LeaseKind.COMPACT]),
        *(
            frozenset([LeaseKind.EXPIRE, kind])
            for kind in LeaseKind
            if kind is not LeaseKind.EXPIRE
        ),
    ]
)


@dataclass(frozen=True, slots=True, kw_only=True)
class LeasedPart:
    """A partition by its path text, empty for unpartitioned tables; some of its buckets, or all."""

    partition: str
    buckets: tuple[int, ...] | None = None

    def __str__(self) -> str:
        where = self.partition or "the table"
        if self.buckets is None:
            return where
        one = len(self.buckets) == 1
        return f"bucket{'' if one else 's'} {', '.join(map(str, self.buckets))} of {where}"


@dataclass(frozen=True, slots=True, kw_only=True)
class LeaseScope:
    """The part of a table that a lease covers; without `parts`, the whole table.

    Work on one branch does not change rows of another, so a scope belongs to a single branch.
    """

    branch: str = ""
    parts: tuple[LeasedPart, ...] | None = None

    def __str__(self) -> str:
        parts = ["all of the table"] if self.parts is None else [str(each) for each in self.parts]
        shown = "; ".join(parts[:3]) + (f" and {len(parts) - 3} more" if len(parts) > 3 else "")
        return f"{shown}, on branch {self.branch}" if self.branch else shown

    @property
    def is_empty(self) -> bool:
        return self.parts is not None and not self.parts

    def holds(self, partition: str, bucket: int) -> bool:
        """Whether the scope includes a bucket."""
        if self.parts is None:
            return True
        return any(
            part.partition == partition and (part.buckets is None or bucket in part.buckets)
            for part in self.parts
        )

    def overlaps(self, other: LeaseScope) -> bool:
        """Whether both scopes may include a common bucket."""
        if self.branch != other.branch or self.is_empty or other.is_empty:
            return False
        if self.parts is None or other.parts is None:
            return True
        mine = self._buckets()
        return any(
            part.partition in mine and _meet(mine[part.partition], part.buckets)
            for part in other.parts
        )

    def contains(self, other: LeaseScope) -> bool:
        """Whether the scope includes every bucket of the other."""
        if self.branch != other.branch:
            return False
        if self.parts is None:
            return True
        if other.parts is None:
            return False
        mine = self._buckets()
        return all(
            part.partition in mine and _includes(mine[part.partition], part.buckets)
            for part in other.parts
        )

    def pieces(self) -> Iterator[LeaseScope]:
        """The smallest scopes in it, which can be leased or given up one by one."""
        if self.parts is None:
            yield self
            return
        for part in self.parts:
            for buckets in [None] if part.buckets is None else [(each,) for each in part.buckets]:
                yield replace(self, parts=(replace(part, buckets=buckets),))

    def _buckets(self) -> dict[str, tuple[int, ...] | None]:
        """The buckets of each partition, None for all."""
        found: dict[str, tuple[int, ...] | None] = {}
        for part in self.parts or ():
            known = found.get(part.partition, ())
            if known is None or part.buckets is None:
                found[part.partition] = None
            else:
                found[part.partition] = (*known, *part.buckets)
        return found


def _meet(left: tuple[int, ...] | None, right: tuple[int, ...] | None) -> bool:
    return left is None or right is None or not set(left).isdisjoint(right)


def _includes(outer: tuple[int, ...] | None, inner: tuple[int, ...] | None) -> bool:
    return outer is None or (inner is not None and set(outer) >= set(inner))


def joined_scope(branch: str, pieces: Iterable[tuple[str, int | None]]) -> LeaseScope:
    """The scope of pairs of a partition's path text and a bucket, or None for all its buckets."""
    found: dict[str, set[int] | None] = {}
    for partition, bucket in pieces:
        known = found.setdefault(partition, set())
        if bucket is None:
            found[partition] = None
        elif known is not None:
            known.add(bucket)
    if len(found) > _MOST_PARTS:
        return LeaseScope(branch=branch)
    parts = (
        LeasedPart(partition=partition, buckets=None if buckets is None else tuple(sorted(buckets)))
        for partition, buckets in sorted(found.items())
    )
    return LeaseScope(branch=branch, parts=tuple(parts))


def joined_pieces(branch: str, pieces: Iterable[LeaseScope]) -> LeaseScope:
    """The union of pieces of scopes."""
    parts = [part for piece in pieces for part in piece.parts or ()]
    return joined_scope(
        branch, [(part.partition, bucket) for part in parts for bucket in part.buckets or [None]]
    )


@dataclass(frozen=True, slots=True, kw_only=True)
class Want:
    """A writer's claim on part of another holder's lease, which that holder gives up."""

    holder: str
    scope: LeaseScope


@dataclass(frozen=True, slots=True, kw_only=True)
class Lease:
    """A holder's claim on a part of a table; times are by the clock of the holder.

    `owner` is the same in every attempt of one piece of work; a later attempt replaces the earlier
    ones. `wanted` lists the parts that writers took over.
    """

    id: str
    owner: str
    holder: str
    kind: LeaseKind
    scope: LeaseScope
    acquired_ms: int
    renewed_ms: int
    expires_ms: int
    wanted: tuple[Want, ...] = ()

    @property
    def duration_ms(self) -> int:
        return self.expires_ms - self.renewed_ms

    def covers(self, partition: str, bucket: int) -> bool:
        """Whether the holder still holds a bucket."""
        return self.scope.holds(partition, bucket) and not any(
            want.scope.holds(partition, bucket) for want in self.wanted
        )

    @property
    def left(self) -> LeaseScope:
        """The scope without the pieces that writers took over entirely."""
        pieces = [
            piece
            for piece in self.scope.pieces()
            if not any(want.scope.contains(piece) for want in self.wanted)
        ]
        if len(pieces) == 1 and pieces[0].parts is None:
            return self.scope
        return joined_pieces(self.scope.branch, pieces)

    def stands_against(self, kind: LeaseKind, scope: LeaseScope) -> bool:
        """Whether this lease excludes other work on a scope."""
        if self.kind.goes_with(kind) or not self.scope.overlaps(scope):
            return False
        if not self.wanted:
            return True
        if scope.parts is None:
            return not self.left.is_empty
        # Pieces that writers took over are free for others.
        return any(
            self.scope.overlaps(piece)
            and not any(want.scope.contains(piece) for want in self.wanted)
            for piece in scope.pieces()
        )

    def is_over(self, now_ms: int, margin_ms: int) -> bool:
        """Whether the lease has expired, by a clock that may differ by the margin."""
        return now_ms > self.expires_ms + margin_ms

    def is_due(self, now_ms: int) -> bool:
        """Whether the holder should renew it: half of its duration has passed."""
        return now_ms >= self.renewed_ms + self.duration_ms // 2


@dataclass(frozen=True, slots=True, kw_only=True)
class LeaseBook:
    """All leases of a table at one moment; each change creates the book with the next number."""

    number: int = 0
    leases: tuple[Lease, ...] = ()
