"""SQL text → statements, and values that verbs take; the only room that imports sqlglot.

New statement: a value in `grammar/statements.py`, its words in a module beside it and in
`_FAMILIES` of `parse.py`; words of other systems in `grammar/other_habits.py`. What it calls is in
`session/`.
What a query says of its table: `query_columns.py`. Queries that judge rows: `row_queries.py`.
"""

from lakewright.storage.sql.grammar.parse import Parsed, parse_statements
from lakewright.storage.sql.row_queries import (
    BATCH,
    COUNT_COLUMN,
    RowQuery,
    in_duckdb,
    parse_row_query,
)
from lakewright.storage.sql.used_columns import ColumnUse, used_columns
from lakewright.storage.sql.where import duckdb_filters, parse_where

__all__ = [
    "BATCH",
    "COUNT_COLUMN",
    "ColumnUse",
    "Parsed",
    "RowQuery",
    "duckdb_filters",
    "in_duckdb",
    "parse_row_query",
    "parse_statements",
    "parse_where",
    "used_columns",
]
