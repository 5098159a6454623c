"""Expectations that judge each row by itself: the rows that do not meet one are bad rows."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass

import pyarrow as pa
import pyarrow.compute as pc

from lakewright.platform.documents.expectation_catalog import EXPECTATION_KINDS
from lakewright.platform.ingest.expectations import validate_arrow
from lakewright.platform.tables.declarations import (
    ExpectationDeclaration,
    ExpectationSeverity,
)
from lakewright.storage.file_reader.bad_rows import BadRow, BadRows, Lines, RowForm
from lakewright.storage.file_reader.row_texts import row_texts
from lakewright.storage.spec.partition_words import describe_partition
from lakewright.storage.spec.rows import ROW_KIND_COLUMN

# So many rows are judged at once.
_ROWS_AT_ONCE = 500_000
# What these find of a row depends on the others.
_OF_ALL_ROWS = (
    "to_be_unique",
    "to_be_increasing",
    "to_be_decreasing",
    "z_scores",
    "outliers",
    "of_type",
    "in_type_list",
)
_DELETED = ("-D", "-U")


def row_expectations(
    expectations: Sequence[ExpectationDeclaration],
) -> list[ExpectationDeclaration]:
    """The critical expectations that judge a row by itself, and allow no row that fails."""
    return [
        expectation
        for expectation in expectations
        if expectation.severity is ExpectationSeverity.CRITICAL
        and expectation.sql is None
        and "mostly" in EXPECTATION_KINDS[expectation.kind].arguments
        and expectation.arguments.get("mostly", 1) == 1
        and not any(word in expectation.kind for word in _OF_ALL_ROWS)
    ]


@dataclass(frozen=True, slots=True)
class Unmet:
    """The expectation that a row does not meet."""

    check_name: str
    reason: str


def unmet(rows: pa.Table, expectations: Sequence[ExpectationDeclaration]) -> dict[int, Unmet]:
    """By position, what the rows do not meet; a row that deletes a key has nothing to meet."""
    if not expectations or not rows.num_rows:
        return {}
    places = pa.array(range(rows.num_rows))
    if ROW_KIND_COLUMN in rows.column_names:
        is_deleted = pc.is_in(rows.column(ROW_KIND_COLUMN), pa.array(_DELETED))
        places = places.filter(pc.invert(is_deleted).combine_chunks())
    found: dict[int, Unmet] = {}
    for outcome in validate_arrow(rows.take(places), expectations).outcomes:
        for at in outcome.positions:
            why = Unmet(outcome.check_name, f"{outcome.expectation} is not met")
            found.setdefault(places[at].as_py(), why)
    return found


def meeting(
    parts: Iterator[pa.Table],
    expectations: Sequence[ExpectationDeclaration],
    bad: BadRows,
    partition_keys: Sequence[str],
    fixed: Mapping[str, object],
) -> Iterator[pa.Table]:
    """The rows that meet the expectations; the others are bad rows.

    `fixed` are the partition columns whose value the run knows, which rows may leave out.
    """
    waiting: list[tuple[str, Lines, pa.Table]] = []
    count = 0
    for part in parts:
        waiting.append((bad.reading, bad.lines, part))
        count += part.num_rows
        if count >= _ROWS_AT_ONCE:
            yield _judged(waiting, expectations, bad, partition_keys, fixed)
            waiting, count = [], 0
    if waiting:
        yield _judged(waiting, expectations, bad, partition_keys, fixed)


def _judged(
    parts: Sequence[tuple[str, Lines, pa.Table]],
    expectations: Sequence[ExpectationDeclaration],
    bad: BadRows,
    partition_keys: Sequence[str],
    fixed: Mapping[str, object],
) -> pa.Table:
    rows = pa.concat_tables([part for *_, part in parts])
    reasons = unmet(rows, expectations)
    if not reasons:
        return rows
    places = sorted(reasons)
    sources, lines = _origins(parts, places)
    failing = rows.take(pa.array(places))
    held = [name for name in partition_keys if name in rows.column_names]
    told = {name: value for name, value in fixed.items() if name not in held}
    is_known = bool(partition_keys) and len(held) + len(told) == len(partition_keys)
    specs = failing.select(held).to_pylist() if held else [{}] * len(places)
    texts = row_texts(failing)
    for at, text, spec, source, line in zip(places, texts, specs, sources, lines, strict=True):
        bad.add(
            BadRow(
                source=source,
                line=line,
                text=text,
                reason=reasons[at].reason,
                check=reasons[at].check_name,
                form=RowForm.TYPED,
                told={name: None if each is None else str(each) for name, each in told.items()},
                partition=describe_partition({**told, **spec}) if is_known else None,
            )
        )
    kept = pa.array([at not in reasons for at in range(rows.num_rows)])
    return rows.filter(kept)


def _origins(
    parts: Sequence[tuple[str, Lines, pa.Table]], places: Sequence[int]
) -> tuple[list[str], list[int | None]]:
    """The files of rows at ascending places, and their lines in these."""
    sources: list[str] = []
    lines: list[int | None] = []
    first = 0
    for source, lines_of, part in parts:
        own = [at - first for at in places if first <= at < first + part.num_rows]
        sources += [source] * len(own)
        lines += lines_of(own)
        first += part.num_rows
    return sources, lines
