"""Leases: holder, scope and deadline of work on a table, and which kinds of work exclude others."""

from __future__ import annotations

from dataclasses import dataclass, replace
from enum import Enum


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
        """Whether a writer takes its partitions from the lease."""
        return self in (LeaseKind.COMPACT, LeaseKind.RESCALE)

    @property
    def is_write(self) -> bool:
        return self in (LeaseKind.APPEND, LeaseKind.UPSERT, LeaseKind.OVERWRITE)

    def goes_with(self, other: LeaseKind) -> bool:
        """Whether both kinds of work may run on one partition at once without losing either."""
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
class LeaseScope:
    """Partitions of one branch, by their path texts: those named, or all but those named.

    Work on one branch does not change rows of another. An unpartitioned table is one scope.
    """

    branch: str = ""
    partitions: tuple[str, ...] = ()
    all_but: bool = True

    def __str__(self) -> str:
        named = "; ".join(self.partitions[:3])
        if len(self.partitions) > 3:
            named += f" and {len(self.partitions) - 3} more"
        if self.all_but:
            named = "all of the table" + (f" but {named}" if named else "")
        return f"{named}, on branch {self.branch}" if self.branch else named

    @property
    def is_empty(self) -> bool:
        return not self.partitions and not self.all_but

    def holds(self, partition: str) -> bool:
        """Whether the scope includes a partition."""
        return (partition in self.partitions) is not self.all_but

    def overlaps(self, other: LeaseScope) -> bool:
        """Whether both scopes may include a common partition."""
        return self.without(other) != self

    def without(self, other: LeaseScope) -> LeaseScope:
        """The partitions of this scope that the other does not include."""
        if self.branch != other.branch:
            return self
        mine, theirs = frozenset(self.partitions), frozenset(other.partitions)
        match self.all_but, other.all_but:
            case False, False:
                left = mine - theirs
            case False, True:
                left = mine & theirs
            case True, False:
                left = mine | theirs
            case _:
                left = theirs - mine
        all_but = self.all_but and not other.all_but
        return replace(self, partitions=tuple(sorted(left)), all_but=all_but)


@dataclass(frozen=True, slots=True, kw_only=True)
class Lease:
    """A holder's claim on a part of a table; times are by the clock of the holder.

    `owner` is the same in every attempt of one piece of work; a later attempt replaces the earlier
    ones. `given_up_to` names the writers that took partitions out of the scope. `process` tells
    others on the holder's machine when it is dead; empty if it does not.
    """

    id: str
    owner: str
    holder: str
    kind: LeaseKind
    scope: LeaseScope
    acquired_ms: int
    renewed_ms: int
    expires_ms: int
    given_up_to: tuple[str, ...] = ()
    process: str = ""

    @property
    def duration_ms(self) -> int:
        return self.expires_ms - self.renewed_ms

    def stands_against(self, kind: LeaseKind, scope: LeaseScope) -> bool:
        """Whether this lease excludes other work on a scope."""
        return not self.kind.goes_with(kind) and self.scope.overlaps(scope)

    def given_up(self, scope: LeaseScope, writer: str) -> Lease:
        """The lease after a writer took a scope from it."""
        writers = dict.fromkeys((*self.given_up_to, writer))
        return replace(self, scope=self.scope.without(scope), given_up_to=tuple(writers))

    def is_due(self, now_ms: int) -> bool:
        """Whether the holder should renew it: half of its duration has passed."""
        return now_ms >= self.renewed_ms + self.duration_ms // 2
