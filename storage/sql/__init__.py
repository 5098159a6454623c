"""SQL text → values that the verbs take; the only room that imports sqlglot."""

from lakewright.storage.sql.where import parse_where

__all__ = ["parse_where"]
