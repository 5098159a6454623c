"""What callers hand over as rows and as filters, in the one form that verbs take."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from typing import TYPE_CHECKING, TypeAlias, TypeGuard

import pyarrow as pa

from lakewright.storage.errors import InvalidPredicate, InvalidRows
from lakewright.storage.spec.predicate import And, Leaf, Not, Or, Predicate
from lakewright.storage.spec.schema import TableSchema

if TYPE_CHECKING:
    from lakewright.storage.spark import DataFrame

ArrowRows: TypeAlias = pa.Table | pa.RecordBatch | Iterable[pa.Table | pa.RecordBatch]
Rows: TypeAlias = "ArrowRows | DataFrame"
# The text of a WHERE clause, or the filter that such a text stands for.
Where: TypeAlias = str | Predicate


def arrow_tables(rows: ArrowRows) -> Iterator[pa.Table]:
    """Rows as Arrow tables, one after the other.

    Raises:
        InvalidRows: they are neither tables nor batches.
    """
    if isinstance(rows, pa.Table):
        yield rows
    elif isinstance(rows, pa.RecordBatch):
        yield pa.Table.from_batches([rows])
    elif isinstance(rows, Iterable) and not isinstance(rows, (str, bytes, Mapping)):
        for part in rows:
            yield from arrow_tables(part)
    else:
        raise InvalidRows(
            f"{rows!r:.100} is not an Arrow table or batch; make one of rows with "
            "pa.Table.from_pylist(rows, schema=table.arrow_schema)"
        )


def is_dataframe(rows: object) -> TypeGuard[DataFrame]:
    """Whether rows are a DataFrame of Spark, classic or Connect; Spark is not imported for it."""
    return hasattr(rows, "mapInArrow")


def predicate_of(where: Where | None, schema: TableSchema) -> Predicate | None:
    """The filter that a text says of the columns of a schema; a filter stays what it is.

    Raises:
        InvalidPredicate: the text is not a filter of such columns.
    """
    if where is None or isinstance(where, (Leaf, And, Or, Not)):
        return where
    if not isinstance(where, str):
        raise InvalidPredicate(f"where is {where!r:.100}, which is not a filter; give it as text")
    # A process that filters by no text does not load the parser.
    from lakewright.storage.sql import parse_where  # noqa: PLC0415

    return parse_where(where, schema)
