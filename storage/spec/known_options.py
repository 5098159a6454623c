"""How Paimon's options are treated: each is honoured, ignored safely, or refused for some uses.

Each option has one description: name, type, Paimon's default, meaning, and the uses of a table that
it rules out. `honoured_options`, `ignored_options` and `refused_options` hold the descriptions.
"""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import dataclass, replace
from enum import Enum


class Use(Enum):
    """A use of a table; an option may rule out one use and allow the others.

    WRITE: add rows. COMPACT: rewrite existing rows. TAG: make tags, branches and statistics.
    EXPIRE: delete snapshots, tags, branches or changelogs, and the files that only they keep.
    ORPHANS: remove files that nothing references.
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
    """How an option is treated in uses that it allows."""

    HONOURED = "honoured"
    IGNORED = "ignored"
    REFUSED = "refused"


@dataclass(frozen=True, slots=True)
class Refusal:
    """The uses that an option rules out, unless its value is in `unless`.

    `reason` is a clause that names what would go wrong, `done` what the table cannot be, if that is
    less than the whole use.
    """

    uses: frozenset[Use]
    reason: str
    unless: frozenset[str] = frozenset()
    done: str | None = None

    def concerns(self, use: Use, value: str) -> bool:
        return use in self.uses and value.lower() not in self.unless


@dataclass(frozen=True, slots=True)
class Option:
    """One option of Paimon's. A `*` in its name stands for a column, an index or a class.

    An `immutable` option cannot change once its table has a snapshot.
    """

    name: str
    kind: Kind
    default: str | None = None
    older_names: tuple[str, ...] = ()
    meaning: str = ""
    handling: Handling = Handling.HONOURED
    refusals: tuple[Refusal, ...] = ()
    immutable: bool = False


def honoured(
    meaning: str, *options: Option, refusals: tuple[Refusal, ...] = ()
) -> tuple[Option, ...]:
    """Options that are read and obeyed; `meaning` names their subject."""
    return tuple(replace(each, meaning=meaning, refusals=refusals) for each in options)


def ignored(reason: str, *options: Option) -> tuple[Option, ...]:
    """Options that change no row and no guarantee; `reason` says why."""
    return tuple(replace(each, meaning=reason, handling=Handling.IGNORED) for each in options)


def refused(
    uses: Collection[Use],
    reason: str,
    *options: Option,
    unless: Collection[str] = (),
    done: str | None = None,
) -> tuple[Option, ...]:
    """Options that rule out `uses`, with every value that is not in `unless`."""
    refusal = Refusal(frozenset(uses), reason, frozenset(unless), done)
    return tuple(
        replace(each, meaning=reason, handling=Handling.REFUSED, refusals=(refusal,))
        for each in options
    )
