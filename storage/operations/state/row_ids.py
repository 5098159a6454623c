"""Refuses what would give rows other ids, or would take a file for all columns of its rows."""

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


def refuse_columns_apart(files: TableFiles, what: str) -> None:
    """Refuse what takes a file for all columns of its rows.

    Raises:
        UnsupportedError: single columns of the table are updated in files of their own.
    """
    if files.options.data_evolution_enabled:
        raise UnsupportedError(
            f"{files.name} sets data-evolution.enabled=true, so that columns of a row may lie in "
            f"several files; {what} is not implemented for it"
        )
