"""Bad rows: those of a source that do not parse, do not fit the table, or were not asked for.

The first one ends a read, unless they are left out and counted here, and kept for quarantine.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from enum import Enum

import pyarrow as pa

from lakewright.storage.errors import InvalidRows

Lines = Callable[[Sequence[int]], list[int | None]]
_NOTHING_WRITTEN = "; nothing was written"
# How many rows are shown for each reason to leave them out, and how much of one.
_MOST_SAMPLED = 10
_MOST_SHOWN = 200
_MOST_NAMED = 3


class RowForm(Enum):
    """What the text of a bad row is: as the file has it, as it was read, or of declared types."""

    ORIGINAL = "original"
    READ = "read"
    TYPED = "typed"


@dataclass(frozen=True, slots=True, kw_only=True)
class BadRow:
    """A row that is left out, as the source has it.

    `text` is a row of CSV with the columns `header`, or without them an object of JSON. `told` are
    the columns that the path says, as text. `partition` is the row's, where its partition columns
    can be read. `check` is the expectation that it does not meet.
    """

    source: str
    text: str
    reason: str
    line: int | None = None
    column: str | None = None
    header: tuple[str, ...] | None = None
    form: RowForm = RowForm.ORIGINAL
    told: Mapping[str, str | None] = field(default_factory=dict)
    partition: str | None = None
    check: str | None = None


@dataclass(frozen=True, slots=True)
class LeftOutRow:
    """A row of a sample of those that a run left out; without a text, the reason says where."""

    source: str
    text: str
    reason: str
    check: str | None


def _no_lines(places: Sequence[int]) -> list[int | None]:
    return [None] * len(places)


@dataclass(slots=True)
class BadRows:
    """The bad rows of one run, counted, and kept for quarantine.

    `sources` are the files that the run has read, by which earlier bad rows of them are replaced;
    `reading` is that of the rows which came last, and `lines` finds their lines in it by position.
    `by_partition` counts the rows whose partition is
    known, `by_check` those that do not meet an expectation; `sample` has some reasons.
    """

    most: int
    keeps: bool
    count: int = 0
    rows: list[BadRow] = field(default_factory=list)
    sources: set[str] = field(default_factory=set)
    reading: str = ""
    lines: Lines = _no_lines
    first: str = ""
    by_partition: Counter[str] = field(default_factory=Counter)
    by_check: Counter[str] = field(default_factory=Counter)
    sample: list[LeftOutRow] = field(default_factory=list)

    def begin(self, source: str) -> None:
        """The rows that come next are of this file or function."""
        self.sources.add(source)
        self.reading = source
        self.lines = _no_lines

    def count_one(
        self, reason: str, partition: str | None, *, check: str | None = None, text: str = ""
    ) -> None:
        """Count a row of a partition, if that is known; `check` is the expectation it fails.

        Raises:
            InvalidRows: there are too many.
        """
        self.count += 1
        self.first = self.first or reason
        if partition is not None:
            self.by_partition[partition] += 1
        if check is not None:
            self.by_check[check] += 1
        # Each check has its own sample.
        alike = sum(each.check == check for each in self.sample)
        if alike < _MOST_SAMPLED:
            self.sample.append(LeftOutRow(self.reading, text[:_MOST_SHOWN], reason, check))
        if self.count > self.most:
            raise TooManyBadRows(
                f"more than {self.most:,} rows are bad, the first: {self.first}; nothing was "
                "written; correct the source or the declaration, or raise `max_bad_rows`"
            )

    def check_some_fit(self, table: str) -> None:
        """Refuse a source of which no row fits.

        Raises:
            InvalidRows: rows were left out; the message has some of the reasons.
        """
        if not self.count:
            return
        # The way out that follows a reason is that of the first.
        others = dict.fromkeys(each.reason.partition("; ")[0] for each in self.sample[1:])
        others.pop(self.first.partition("; ")[0], None)
        told = [self.first, *(f"then {each}" for each in [*others][:_MOST_NAMED])]
        raise InvalidRows(
            f"no row of the source of {table} fits: {self.count:,} are bad: {'; '.join(told)}; "
            "nothing was written, and no row is kept; correct the source or the declaration"
        )

    def add(self, row: BadRow) -> None:
        """Count a row, and keep it if rows are kept.

        Raises:
            InvalidRows: there are too many.
        """
        self.count_one(row.reason, row.partition, check=row.check, text=row.text)
        self.keep(row)

    def keep(self, row: BadRow) -> None:
        """Keep a row that was counted before."""
        if self.keeps:
            self.rows.append(row)


class TooManyBadRows(InvalidRows):
    """More rows are bad than the declaration allows."""


def fitting(
    count: int,
    fit: Callable[[int, int], pa.Table],
    reject: Callable[[int, InvalidRows], None],
) -> pa.Table:
    """The rows that fit; `reject` gets the position of each other row, and why.

    `fit` makes the rows of a part, by its start and length. What fails without rows is wrong with
    the columns, and is raised.
    """
    found = [fit(0, 0)]
    waiting = [(0, count)] if count else []
    while waiting:
        start, length = waiting.pop()
        try:
            found.append(fit(start, length))
        except InvalidRows as error:
            if length == 1:
                reject(start, error)
                continue
            half = length // 2
            waiting += [(start + half, length - half), (start, half)]
    # The columns of no rows may be those of no table.
    return pa.concat_tables(found[1:] or found)


def reason_of(error: InvalidRows) -> str:
    """Why a row is bad, without what an error says of the run."""
    return error.message.removesuffix(_NOTHING_WRITTEN)


def column_of(error: InvalidRows) -> str | None:
    """The column whose value does not fit."""
    column = error.details.get("column")
    return column if isinstance(column, str) else None
