"""Columns that are not stored, and the watermark of a table, as Flink keeps them in its options.

`schema.2.name`, `schema.2.data-type` and `schema.2.expr` say that the third column of a table is
computed; `schema.2.metadata` and `schema.2.virtual` stand for a column of metadata, and
`schema.watermark.0.…` for the watermark. Other engines keep them, and see the stored columns alone.

Source: Paimon `FlinkCatalogPropertiesUtil`.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass

_PREFIX = "schema."
_WATERMARK = "schema.watermark.0."
_NUMBERED = re.compile(r"schema\.(\d+)\.name")
_WITH_EXPRESSION = re.compile(r"schema\.\d+\.expr|schema\.watermark\.0\.(rowtime|strategy\.expr)")
_OWN = re.compile(r"SOURCE_WATERMARK\s*\(\s*\)", re.IGNORECASE)
_DELAYED = re.compile(
    r"(?P<column>`[^`]+`|\w+)(\s*-\s*INTERVAL\s*'(?P<number>\d+)'\s*"
    r"(?P<unit>SECOND|MINUTE|HOUR|DAY)S?)?",
    re.IGNORECASE,
)
_UNITS_MS = {"second": 1000, "minute": 60_000, "hour": 3_600_000, "day": 86_400_000}
_WORD = re.compile(r"[^\W\d]\w*")


@dataclass(frozen=True, slots=True, kw_only=True)
class UnstoredColumn:
    """A column at a place among all columns: computed by an expression, or of metadata."""

    index: int
    name: str
    type: str
    expression: str | None = None
    metadata: str | None = None
    virtual: bool = False

    def options(self) -> Iterator[tuple[str, str]]:
        place = f"{_PREFIX}{self.index}"
        yield f"{place}.name", self.name
        yield f"{place}.data-type", self.type
        if self.expression is not None:
            yield f"{place}.expr", self.expression
        if self.metadata is not None:
            yield f"{place}.metadata", self.metadata
            yield f"{place}.virtual", str(self.virtual).lower()


@dataclass(frozen=True, slots=True)
class Watermark:
    """How far event time has come, by a column; `type` is that of the expression."""

    column: str
    expression: str
    type: str

    @property
    def is_own(self) -> bool:
        """Whether the source has watermarks of its own."""
        return _OWN.fullmatch(self.expression.strip()) is not None

    @property
    def delay_ms(self) -> int | None:
        """How late rows may come; None if the expression is none of those that are understood."""
        if self.is_own:
            return 0
        found = _DELAYED.fullmatch(self.expression.strip())
        if found is None or found["column"].strip("`") != self.column:
            return None
        return int(found["number"] or 0) * _UNITS_MS[(found["unit"] or "second").lower()]

    def options(self) -> Iterator[tuple[str, str]]:
        yield f"{_WATERMARK}rowtime", self.column
        yield f"{_WATERMARK}strategy.expr", self.expression
        yield f"{_WATERMARK}strategy.data-type", self.type


def unstored_columns(options: Mapping[str, str]) -> tuple[UnstoredColumn, ...]:
    """The columns of a table that are not stored, by their places."""
    numbers = sorted(int(found[1]) for name in options if (found := _NUMBERED.fullmatch(name)))
    columns = []
    for number in numbers:
        place = f"{_PREFIX}{number}"
        expression, metadata = options.get(f"{place}.expr"), options.get(f"{place}.metadata")
        if expression is not None or metadata is not None:
            columns.append(
                UnstoredColumn(
                    index=number,
                    name=options[f"{place}.name"],
                    type=options.get(f"{place}.data-type", ""),
                    expression=expression,
                    metadata=metadata,
                    virtual=options.get(f"{place}.virtual") == "true",
                )
            )
    return tuple(columns)


def watermark(options: Mapping[str, str]) -> Watermark | None:
    """The watermark of a table."""
    column = options.get(f"{_WATERMARK}rowtime")
    if column is None:
        return None
    return Watermark(
        column,
        options.get(f"{_WATERMARK}strategy.expr", column),
        options.get(f"{_WATERMARK}strategy.data-type", ""),
    )


def without_unstored(options: Mapping[str, str]) -> dict[str, str]:
    """The options that say nothing of such columns."""
    places = tuple(f"{_PREFIX}{column.index}." for column in unstored_columns(options))
    return {
        name: value
        for name, value in options.items()
        if not name.startswith((*places, "schema.watermark."))
    }


def words_of_expression(option: str, value: str) -> tuple[str, ...]:
    """The words of an expression, among them the columns that it names; none of other options."""
    return tuple(_WORD.findall(value)) if _WITH_EXPRESSION.fullmatch(option) else ()


def renamed_in_expression(value: str, old: str, new: str) -> str:
    """The expression with another name of a column."""
    return re.sub(rf"(?<!\w){re.escape(old)}(?!\w)", lambda _: new, value)
