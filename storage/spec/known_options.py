"""What Paimon's options mean here: each is honoured, ignored safely, or refused for a use.

An option is described once: its name, its type, Paimon's default, what it is about, and for
which uses of a table it stands in the way. `honoured_options`, `ignored_options` and
`refused_options` hold the descriptions.
"""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import dataclass, replace
from enum import Enum


class Use(Enum):
    """What a caller wants to do with a table; an option may stand in the way of one only.

    WRITE: new rows. COMPACT: the rows that are there, rewritten. TAG: tags, branches and
    statistics made of the rows that are there. EXPIRE: snapshots, tags, branches or changelogs
    taken away, with the files that only they keep. ORPHANS: files taken away that nothing reaches.
    """

    READ = "read"
    WRITE = "write"
    COMPACT = "compact"
    TAG = "tag"
    EXPIRE = "expire"
    ORPHANS = "orphans"


ROWS = frozenset({Use.READ, Use.WRITE, Use.COMPACT})
WRITES = frozenset({Use.WRITE, Use.COMPACT})
UPKEEP = frozenset(Use) - {Use.READ}
ALL = frozenset(Use)


class Kind(Enum):
    """The type of an option's value."""

    BOOLEAN = "true or false"
    INTEGER = "a whole number"
    NUMBER = "a number"
    SIZE = "a size such as 128 MB"
    DURATION = "a duration such as 1 h"
    CHOICE = "one of some names"
    MAP = "names and values such as 0:x,5:y"
    TEXT = "a text"


class Handling(Enum):
    """What is done about an option where it does not stand in the way."""

    HONOURED = "honoured"
    IGNORED = "ignored"
    REFUSED = "refused"


@dataclass(frozen=True, slots=True)
class Refusal:
    """Uses that an option stands in the way of, unless its value is one of those given.

    `reason` is a clause that says what would go wrong.
    """

    uses: frozenset[Use]
    reason: str
    unless: frozenset[str] = frozenset()

    def concerns(self, use: Use, value: str) -> bool:
        return use in self.uses and value.lower() not in self.unless


@dataclass(frozen=True, slots=True)
class Option:
    """One option of Paimon's. A `*` in its name stands for a column, an index or a class."""

    name: str
    kind: Kind
    default: str | None = None
    older_names: tuple[str, ...] = ()
    meaning: str = ""
    handling: Handling = Handling.HONOURED
    refusals: tuple[Refusal, ...] = ()


def honoured(
    meaning: str, *options: Option, refusals: tuple[Refusal, ...] = ()
) -> tuple[Option, ...]:
    """Options that are read and obeyed; `meaning` says what they are about."""
    return tuple(replace(each, meaning=meaning, refusals=refusals) for each in options)


def ignored(reason: str, *options: Option) -> tuple[Option, ...]:
    """Options that change no row and no promise; `reason` says why."""
    return tuple(replace(each, meaning=reason, handling=Handling.IGNORED) for each in options)


def refused(
    uses: Collection[Use], reason: str, *options: Option, unless: Collection[str] = ()
) -> tuple[Option, ...]:
    """Options that stand in the way of `uses`, with every value but those of `unless`."""
    refusal = Refusal(frozenset(uses), reason, frozenset(unless))
    return tuple(
        replace(each, meaning=reason, handling=Handling.REFUSED, refusals=(refusal,))
        for each in options
    )
