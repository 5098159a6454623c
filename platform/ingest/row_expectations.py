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
from lakewright.storage.file_reader.bad_rows import BadRow, BadRows, RowForm
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
    waiting: list[tuple[str, pa.Table]] = []
    count = 0
    for part in parts:
        waiting.append((bad.reading, part))
        count += part.num_rows
        if count >= _ROWS_AT_ONCE:
            yield _judged(waiting, expectations, bad, partition_keys, fixed)
            waiting, count = [], 0
    if waiting:
        yield _judged(waiting, expectations, bad, partition_keys, fixed)


def _judged(
    parts: Sequence[tuple[str, pa.Table]],
    expectations: Sequence[ExpectationDeclaration],
    bad: BadRows,
    partition_keys: Sequence[str],
    fixed: Mapping[str, object],
) -> pa.Table:
    rows = pa.concat_tables([part for _, part in parts])
    reasons = unmet(rows, expectations)
    if not reasons:
        return rows
    sources = [source for source, part in parts for _ in range(part.num_rows)]
    places = sorted(reasons)
    failing = rows.take(pa.array(places))
    held = [name for name in partition_keys if name in rows.column_names]
    told = {name: value for name, value in fixed.items() if name not in held}
    is_known = bool(partition_keys) and len(held) + len(told) == len(partition_keys)
    specs = failing.select(held).to_pylist() if held else [{}] * len(places)
    for at, text, spec in zip(places, row_texts(failing), specs, strict=True):
        bad.add(
            BadRow(
                source=sources[at],
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
