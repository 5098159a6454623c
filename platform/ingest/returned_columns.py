"""The columns of rows that a function returned, compared with the declared ones."""

from __future__ import annotations

from collections.abc import Sequence

from lakewright.storage.errors import InvalidRows
from lakewright.storage.file_reader.file_columns import near_misses


def check_returned_columns(
    given: Sequence[str], declared: Sequence[str], *, fixed: Sequence[str], table: str
) -> None:
    """Refuse a function's rows that lack a declared column, since its values would become null.

    `fixed` are partition columns whose value the run knows.

    Raises:
        InvalidRows: a declared column is missing.
    """
    missing = [name for name in declared if name not in given and name not in fixed]
    if missing:
        raise InvalidRows(
            f"the source of {table} returned rows that lack column {', '.join(missing)}"
            f"{near_misses(missing, given)}; the rows have {', '.join(given) or 'no column'}; the "
            f"table declares {', '.join(declared)}: return every declared column, with nulls where "
            "it has no value; nothing was written"
        )
