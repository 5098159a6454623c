"""What a decision says of a table and a verb: do it, and what that costs and gains; or why not."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import Enum


class Why(Enum):
    """Why a verb is due."""

    SMALL_FILES = "small_files"
    SORTED_RUNS = "sorted_runs"
    ROWS_WAIT = "rows_wait"
    SCHEDULED = "scheduled"
    MANIFESTS = "manifests"


class WhyNot(Enum):
    """Why a verb is not carried out now."""

    HEALTHY = "healthy"
    NOT_YET = "not_yet"
    DISABLED = "disabled"
    FROZEN = "frozen"
    OUT_OF_HOURS = "out_of_hours"
    STILL_WRITTEN = "still_written"
    TOO_LITTLE = "too_little"
    IN_FLIGHT = "in_flight"
    ASKED_BEFORE = "asked_before"
    OUT_OF_BYTES = "out_of_bytes"
    OUT_OF_TIME = "out_of_time"
    CAPPED = "capped"
    NOTHING_PLANNED = "nothing_planned"
    READ_ONLY = "read_only"
    UNREADABLE = "unreadable"

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
    }
)


@dataclass(frozen=True, slots=True, kw_only=True)
class Cost:
    """What carrying out a verb takes."""

    bytes: int = 0
    files: int = 0
    milliseconds: int = 0


@dataclass(frozen=True, slots=True, kw_only=True)
class Benefit:
    """What is gained: files and bytes that no reader opens any more, and storage that is freed."""

    files_fewer: int = 0
    runs_fewer: int = 0
    snapshots_fewer: int = 0
    metadata_bytes_fewer: int = 0
    bytes_freed: int = 0
    rows_shown: int = 0


@dataclass(frozen=True, slots=True, kw_only=True)
class Intent:
    """A verb that is to be carried out on a table, most useful first.

    `partitions` are the keys of the partitions concerned, None for the whole table. `options` are
    those of the verb, as run config has them. `score` orders intents: benefit for each byte.
    """

    table: str
    verb: str
    why: Why
    reason: str
    partitions: tuple[str, ...] | None = None
    options: Mapping[str, object] = field(default_factory=dict)
    cost: Cost = Cost()
    benefit: Benefit = Benefit()
    score: float = 0.0


@dataclass(frozen=True, slots=True, kw_only=True)
class Declined:
    """A verb that is not carried out on a table now, and why.

    `again_ms` is when the answer may change although nothing is written.
    """

    table: str
    verb: str
    why_not: WhyNot
    reason: str
    partition: str | None = None
    again_ms: int | None = None


Decision = Intent | Declined
