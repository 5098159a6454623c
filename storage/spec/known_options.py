"""How Paimon's options are treated: each is honoured, ignored safely, or refused for some uses.

Each option has one description: name, type, Paimon's default, meaning, and the uses of a table that
it rules out. `options`, `ignored_options` and `refused_options` hold the descriptions.
"""

from __future__ import annotations

from collections.abc import Callable, Collection
from dataclasses import dataclass, replace
from enum import Enum
from typing import Any, Generic, Self, TypeVar, overload

from lakewright.storage.spec.option_values import Kind

T_co = TypeVar("T_co", covariant=True)


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


@dataclass(frozen=True, slots=True)
class Refusal:
    """The uses that an option rules out, unless its value is in `unless`.

    `reason` is a clause that names what would go wrong, `done` what the table cannot be, if that is
    less than the whole use.
    """

    uses: Collection[Use]
    reason: str
    unless: Collection[str] = ()
    done: str | None = None

    def concerns(self, use: Use, value: str) -> bool:
        return use in self.uses and value.lower() not in self.unless


@dataclass(frozen=True, slots=True)
class Option(Generic[T_co]):
    """One option of Paimon's. A `*` in its name stands for a column, an index or a class.

    An `immutable` option cannot change once its table has a snapshot. `unset` gives the value where
    a table does not set the option, if that is not `default`; its argument has the schema and the
    values of the options above. An attribute of a class is the option; of an instance, its value
    (`OptionReader.read_into`).
    """

    name: str
    kind: Kind[T_co]
    default: str | None = None
    older_names: tuple[str, ...] = ()
    meaning: str = ""
    refusals: tuple[Refusal, ...] = ()
    immutable: bool = False
    unset: Callable[[Any], T_co] | None = None

    def of(self, column: str) -> str:
        """The name of the option of a column."""
        return self.name.replace("*", column)

    @overload
    def __get__(self, values: None, owner: type) -> Self: ...
    @overload
    def __get__(self, values: object, owner: type) -> T_co: ...
    def __get__(self, values: object, owner: type) -> Self | T_co:
        return self


def optional(option: Option[T_co]) -> Option[T_co | None]:
    """The option, whose value is None where a table does not set it."""
    nullable: Option[T_co | None] = option
    return replace(nullable, unset=lambda _: None)


@dataclass(frozen=True, slots=True)
class Heading:
    """The meaning of the options below it: their subject, or why they change nothing."""

    meaning: str


def options_under(*rows: object) -> tuple[Option[object], ...]:
    """The options of a table with headings, which may hold other tables.

    A refusal is the heading of options that it concerns, except for their defaults.
    """
    found: list[Option[object]] = []
    heading: Heading | Refusal = Heading("")
    for row in rows:
        if isinstance(row, Heading | Refusal):
            heading = row
        elif isinstance(row, tuple):
            found += row
        elif isinstance(row, Option):
            found.append(_under(heading, row))
    return tuple(found)


def _under(heading: Heading | Refusal, option: Option[object]) -> Option[object]:
    if isinstance(heading, Heading):
        return replace(option, meaning=heading.meaning)
    unless = heading.unless or ({option.default} if option.default is not None else ())
    return replace(option, meaning=heading.reason, refusals=(replace(heading, unless=unless),))
