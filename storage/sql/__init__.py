"""SQL text → values that the verbs take, and what it uses; the only room that imports sqlglot."""

from lakewright.storage.sql.row_queries import BATCH, COUNT_COLUMN, RowQuery, parse_row_query
from lakewright.storage.sql.used_columns import ColumnUse, used_columns
from lakewright.storage.sql.where import parse_where

__all__ = [
    "BATCH",
    "COUNT_COLUMN",
    "ColumnUse",
    "RowQuery",
    "parse_row_query",
    "parse_where",
    "used_columns",
]
