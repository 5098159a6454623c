"""What is known of earlier and present work on tables, from which decisions are made."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from lakewright.platform.ledger.calibrate import Calibration
from lakewright.platform.ledger.intents import Cost
from lakewright.platform.ledger.reads import DailyReads
from lakewright.platform.ledger.taken_back import TakenBack

# The longest delay before a verb is asked for again in an unchanged state.
LONGEST_DELAY_MS = 86_400_000


@dataclass(frozen=True, slots=True, kw_only=True)
class Try:
    """The last time that a verb was asked for on a table, in which state, and how often in it.

    `policy` is the digest of the section that asked for it, empty if that is not known. `times`
    counts the runs in this state by this policy; it is 0 if the only one was killed. `error` is
    that of the last one, where the ledger tells it; `beaten` if other processes were in its way.
    """

    state: str
    ended_ms: int
    policy: str = ""
    times: int = 1
    error: str = ""
    beaten: bool = False

    def is_like(self, other: Try) -> bool:
        """Whether both were asked for in one state, by one policy."""
        return (self.state, self.policy) == (other.state, other.policy)


@dataclass(frozen=True, slots=True)
class Running:
    """Work on a table that is under way or will be soon, and a few words that say which it is."""

    verb: str
    told: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Past:
    """What is known of earlier work, by table and verb.

    `done_ms` is the start of the last run that ended well, also if it found nothing to do.
    `in_flight` has the runs on each table. `spent` is by table what its upkeep took since the
    day of the warehouse began. `learned` is what earlier runs say of predictions, `taken_back` what
    was undone, and `reads` how often tables are read a day, where that is known.
    """

    tries: Mapping[tuple[str, str], Try] = field(default_factory=dict)
    done_ms: Mapping[tuple[str, str], int] = field(default_factory=dict)
    in_flight: Mapping[str, Sequence[Running]] = field(default_factory=dict)
    spent: Mapping[str, Cost] = field(default_factory=dict)
    learned: Calibration = field(default_factory=Calibration)
    taken_back: Mapping[tuple[str, str], TakenBack] = field(default_factory=dict)
    reads: Mapping[str, DailyReads] = field(default_factory=dict)
