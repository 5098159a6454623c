"""The columns of rows that a function returned, compared with the declared ones."""

from __future__ import annotations

from collections.abc import Sequence

from lakewright.storage.errors import InvalidRows
from lakewright.storage.file_reader.file_columns import DECLARE_IT, near_misses
from lakewright.storage.spec.extra_columns import ExtraColumns
from lakewright.storage.spec.missing_columns import MissingColumns, wrongly_missing
from lakewright.storage.spec.rows import ROW_KIND_COLUMN
from lakewright.storage.spec.schema import TableSchema


def check_returned_columns(
    given: Sequence[str],
    declared: Sequence[str],
    *,
    fixed: Sequence[str],
    schema: TableSchema,
    table: str,
    missing_columns: MissingColumns = MissingColumns.FILL,
    extra_columns: ExtraColumns = ExtraColumns.IGNORE,
) -> None:
    """Refuse a function's rows that lack a column which must be given, or have an unknown one.

    `fixed` are partition columns whose value the run knows.

    Raises:
        InvalidRows: a column is missing or unknown; `details` has the unknown ones, and as `new`
            those that are not known by another spelling.
    """
    refused = [name for name in declared if name not in given and name not in fixed]
    hint = near_misses(refused, given)
    if missing_columns is MissingColumns.FILL and not hint:
        fields = [field for field in schema.fields if field.name in declared]
        refused = wrongly_missing(fields, (*given, *fixed), schema.partition_keys)
    if refused:
        raise InvalidRows(
            f"the source of {table} returned rows that lack column {', '.join(refused)}"
            f"{hint}; the rows have {', '.join(given) or 'no column'}; the "
            f"table declares {', '.join(declared)}: return every column that the table needs; "
            "nothing was written"
        )
    known = (*schema.field_names, ROW_KIND_COLUMN)
    unknown = [name for name in given if name not in known]
    if unknown and extra_columns is ExtraColumns.REFUSE:
        raise InvalidRows(
            f"the source of {table} returned rows with unknown column {', '.join(unknown)}{hint}; "
            f"the table has {', '.join(schema.field_names)}: {DECLARE_IT}, or leave it out by "
            "`extra_columns: ignore` in the source; nothing was written",
            unknown=tuple(unknown),
            new=() if near_misses(schema.field_names, unknown) else tuple(unknown),
        )
