"""DuckDB's SQL for the parser of conditions and queries."""

from __future__ import annotations

from typing import ClassVar

from sqlglot.dialects.duckdb import DuckDB


class DuckDbDialect(DuckDB):
    """The parser's DuckDB, with names in backticks, which DuckDB reads too."""

    class Tokenizer(DuckDB.Tokenizer):
        """Its words."""

        IDENTIFIERS: ClassVar[list[str | tuple[str, str]]] = ['"', "`"]
