"""Changelog modes: the kinds of rows that a source gives, a sink takes, or a format writes."""

from __future__ import annotations

from dataclasses import dataclass

from lakewright.storage.errors import UnsupportedError
from lakewright.storage.spec.rows import RowKind


@dataclass(frozen=True, slots=True)
class ChangelogMode:
    """A set of kinds of rows."""

    kinds: frozenset[RowKind]

    @classmethod
    def insert_only(cls) -> ChangelogMode:
        """New rows alone: what a file of rows gives."""
        return cls(frozenset({RowKind.INSERT}))

    @classmethod
    def upsert(cls) -> ChangelogMode:
        """New and changed rows and deletions by a key, without the rows as they were before."""
        return cls(frozenset({RowKind.INSERT, RowKind.UPDATE_AFTER, RowKind.DELETE}))

    @classmethod
    def all(cls) -> ChangelogMode:
        """Every kind: what a log of changes gives."""
        return cls(frozenset(RowKind))

    @classmethod
    def of(cls, *kinds: RowKind) -> ChangelogMode:
        return cls(frozenset(kinds))

    @property
    def is_insert_only(self) -> bool:
        return self.kinds == {RowKind.INSERT}

    def __str__(self) -> str:
        return " ".join(kind.short for kind in sorted(self.kinds))


def check_fits(
    source: ChangelogMode, sink: ChangelogMode, *, source_name: str, sink_name: str
) -> None:
    """Refuse a sink that does not take what a source gives.

    A sink without -U may still take a source with it, since -U before +U can be left out.

    Raises:
        UnsupportedError: names both sides and the kinds.
    """
    droppable = (
        {RowKind.UPDATE_BEFORE} if RowKind.UPDATE_AFTER in sink.kinds else frozenset[RowKind]()
    )
    lacking = source.kinds - sink.kinds - droppable
    if not lacking:
        return
    told = " ".join(kind.short for kind in sorted(lacking))
    raise UnsupportedError(
        f"{source_name} gives rows of kinds {source}, and {sink_name} takes {sink}: it has no "
        f"place for {told}; write into a table with a primary key, or aggregate the changes before"
    )
