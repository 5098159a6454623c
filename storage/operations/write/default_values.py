"""Fills column defaults into written rows, as Java Paimon does (`DefaultValueRow`).

A missing column gets its default, or null. A given null also becomes the default. Reads,
compactions and later added columns do not use defaults.
"""

from __future__ import annotations

import pyarrow as pa

from lakewright.storage.codec.arrow_types import to_arrow_type
from lakewright.storage.codec.default_values import default_value
from lakewright.storage.files.table_files import TableFiles
from lakewright.storage.spec.missing_columns import may_be_left_out


def with_left_out_columns(rows: pa.Table, files: TableFiles) -> pa.Table:
    """Add the missing columns that may be left out.

    A column without a default must be given if it is NOT NULL or a partition key. Rows with an
    unknown column stay unchanged, because the column may be misspelt.

    Raises:
        UnsupportedError: a default cannot be read.
    """
    given = set(rows.column_names)
    if not given or given - set(files.schema.field_names):
        return rows
    for field in files.schema.fields:
        if field.name in given:
            continue
        if field.default_value is not None:
            rows = rows.append_column(
                field.name, pa.repeat(default_value(field, files.name), rows.num_rows)
            )
        elif may_be_left_out(field, files.schema.partition_keys):
            nulls = pa.nulls(rows.num_rows, to_arrow_type(field.type))
            rows = rows.append_column(field.name, nulls)
    return rows


def with_defaults(rows: pa.Table, files: TableFiles) -> pa.Table:
    """Replace nulls by the defaults of their columns; rows have all columns of the table.

    Raises:
        UnsupportedError: a default that is needed cannot be read.
    """
    for index, field in enumerate(files.schema.fields):
        if field.default_value is not None and rows.column(index).null_count:
            filled = rows.column(index).fill_null(default_value(field, files.name))
            rows = rows.set_column(index, rows.schema.field(index), filled)
    return rows
