"""What a decision says of a table and a verb: do it, and what that costs and gains; or why not."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import Enum

from lakewright.platform.upkeep.measures import Benefit, Cost

__all__ = ["Benefit", "Cost", "Decision", "Declined", "Intent", "Why", "WhyNot"]


class Why(Enum):
    """Why a verb is due."""

    SMALL_FILES = "small_files"
    SORTED_RUNS = "sorted_runs"
    ROWS_WAIT = "rows_wait"
    WRITERS_WAIT = "writers_wait"
    SCHEDULED = "scheduled"
    MANIFESTS = "manifests"
    PARTITION_KEYS = "partition_keys"
    STOPPED_CHANGE = "stopped_change"
    FILES_AWAY = "files_away"
    ICEBERG_BEHIND = "iceberg_behind"


# Of these, compactions are worth any budget and come first.
URGENT = (Why.ROWS_WAIT, Why.WRITERS_WAIT)


class WhyNot(Enum):
    """Why a verb is not carried out now."""

    HEALTHY = "healthy"
    NOT_YET = "not_yet"
    DISABLED = "disabled"
    FROZEN = "frozen"
    UNDONE = "undone"
    OUT_OF_HOURS = "out_of_hours"
    STILL_WRITTEN = "still_written"
    TOO_LITTLE = "too_little"
    IN_FLIGHT = "in_flight"
    ASKED_BEFORE = "asked_before"
    OUT_OF_BYTES = "out_of_bytes"
    OUT_OF_TIME = "out_of_time"
    CAPPED = "capped"
    NOTHING_PLANNED = "nothing_planned"
    CONTRADICTION = "contradiction"
    DECLARED = "declared"
    UNSUPPORTED = "unsupported"
    BLOCKED = "blocked"
    READ_ONLY = "read_only"
    UNREADABLE = "unreadable"
    HINT = "hint"

    @property
    def waits(self) -> bool:
        """Whether the verb is due, and only something passing keeps it back."""
        return self in _WAITS


_WAITS = frozenset(
    {
        WhyNot.OUT_OF_HOURS,
        WhyNot.STILL_WRITTEN,
        WhyNot.TOO_LITTLE,
        WhyNot.IN_FLIGHT,
        WhyNot.ASKED_BEFORE,
        WhyNot.OUT_OF_BYTES,
        WhyNot.OUT_OF_TIME,
        WhyNot.CAPPED,
        WhyNot.BLOCKED,
    }
)


@dataclass(frozen=True, slots=True, kw_only=True)
class _Told:
    """The numbers that decided, as words, and what they are about: the table, or a partition."""

    told: str
    subject: str = ""

    @property
    def reason(self) -> str:
        """The whole sentence, for a place that names neither."""
        return f"{self.subject}: {self.told}" if self.subject else self.told


@dataclass(frozen=True, slots=True, kw_only=True)
class Intent(_Told):
    """A verb that is to be carried out on a table, most useful first.

    `partitions` are the keys of the partitions concerned, None for the whole table. `options` are
    those of the verb, as run config has them. `state` changes whenever the reason does, so that
    what was asked for is known again. `score` orders intents: benefit for each MiB rewritten.
    `policy` is the digest of the section of the policy that asks for it. `in_time` says that a
    schedule asks for it, and its time came only now: the table lacks nothing yet.
    """

    table: str
    verb: str
    why: Why
    partitions: tuple[str, ...] | None = None
    options: Mapping[str, object] = field(default_factory=dict)
    cost: Cost = Cost()
    benefit: Benefit = Benefit()
    state: str = ""
    score: float = 0.0
    table_uuid: str = ""
    policy: str = ""
    in_time: bool = False

    def waiting(self, why_not: WhyNot, told: str, again_ms: int | None = None) -> Declined:
        """The same work, which something passing keeps back."""
        return Declined(
            table=self.table,
            verb=self.verb,
            why_not=why_not,
            subject=self.subject,
            told=f"{self.told}: {told}",
            again_ms=again_ms,
            in_time=self.in_time,
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class Declined(_Told):
    """A verb that is not carried out on a table now, and why.

    `again_ms` is when the answer may change although nothing is written. `in_time` is that of the
    intent that waits.
    """

    table: str
    verb: str
    why_not: WhyNot
    partition: str | None = None
    again_ms: int | None = None
    in_time: bool = False


Decision = Intent | Declined
