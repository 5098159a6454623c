"""What a statement answers: rows, or what it did."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

import pyarrow as pa

from lakewright.storage.codec.arrow_types import to_arrow_schema
from lakewright.storage.spec.data_types import DataField, parse_data_type


@dataclass(frozen=True, slots=True, kw_only=True)
class StatementResult:
    """The answer to one statement.

    A query and a SHOW answer with `rows`, whose columns are `fields`. What changes something says
    so in `message`, with the same as `facts`. With `is_listing`, the rows are names and metadata,
    which are of use only whole.
    """

    statement: str = ""
    fields: tuple[DataField, ...] = ()
    rows: pa.Table | None = None
    is_listing: bool = False
    message: str = ""
    facts: Mapping[str, object] = field(default_factory=dict)


def table_of(columns: Mapping[str, str], rows: Sequence[Sequence[object]]) -> StatementResult:
    """Rows of names with types, such as `{"partition": "STRING"}`."""
    fields = tuple(
        DataField(at, name, parse_data_type(text))
        for at, (name, text) in enumerate(columns.items())
    )
    schema = to_arrow_schema(fields)
    values = zip(*rows, strict=True) if rows else ((),) * len(fields)
    arrays = [pa.array(list(each), kind.type) for each, kind in zip(values, schema, strict=True)]
    return StatementResult(fields=fields, rows=pa.table(arrays, schema=schema), is_listing=True)


def done(message: str, **facts: object) -> StatementResult:
    """What a statement did."""
    return StatementResult(message=message, facts=facts)


def counted(count: int, noun: str) -> str:
    """A number of things: `1 row`, `2 rows`."""
    return f"{count} {noun}{'' if count == 1 else 's'}"
