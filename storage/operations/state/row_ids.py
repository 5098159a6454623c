"""Refuses what would give the rows of a table with row tracking other ids."""

from __future__ import annotations

from lakewright.storage.errors import UnsupportedError
from lakewright.storage.files.table_files import TableFiles


def refuse_row_ids(files: TableFiles, what: str) -> None:
    """Refuse an operation that does not keep the ids of rows.

    Raises:
        UnsupportedError: the table tracks rows.
    """
    if files.options.row_tracking_enabled:
        raise UnsupportedError(
            f"{files.name} sets row-tracking.enabled=true, and {what} would give its rows new ids, "
            "which is not implemented; write the rows to a new table"
        )
