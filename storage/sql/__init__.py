"""SQL text → values that the verbs take, and what it uses; the only room that imports sqlglot."""

from lakewright.storage.sql.used_columns import ColumnUse, used_columns
from lakewright.storage.sql.where import parse_where

__all__ = ["ColumnUse", "parse_where", "used_columns"]
