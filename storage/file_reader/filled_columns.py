"""Columns that a source lacks, and whose rows got null or the default there."""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Iterable
from dataclasses import dataclass, field


@dataclass(slots=True)
class FilledColumns:
    """The declared columns that files, or rows of a function, lacked in one run.

    `rows` counts the rows of each, `sources` names the first source without it. A column that has
    no count was missing in files that Spark reads.
    """

    rows: Counter[str] = field(default_factory=Counter)
    sources: dict[str, str] = field(default_factory=dict)

    def add(self, columns: Iterable[str], rows: int | None, source: str) -> None:
        """Count rows of a source that has no such columns; None if they are not known."""
        for column in () if rows == 0 else columns:
            self.sources.setdefault(column, source)
            if rows is not None:
                self.rows[column] += rows

    def add_all(self, others: FilledColumns) -> None:
        """Add what was missing elsewhere."""
        self.rows += others.rows
        self.sources = {**others.sources, **self.sources}

    def without(self, columns: Collection[str]) -> FilledColumns:
        """The same without some columns."""
        return FilledColumns(
            Counter({each: rows for each, rows in self.rows.items() if each not in columns}),
            {each: source for each, source in self.sources.items() if each not in columns},
        )
