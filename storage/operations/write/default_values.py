"""Defaults of columns, as Java Paimon puts them into rows that are written (`DefaultValueRow`).

A column that rows leave out has its default, or null. A null that is given becomes the default,
too; reading, compaction and columns added later know of no defaults.
"""

from __future__ import annotations

import pyarrow as pa

from lakewright.storage.codec.arrow_types import to_arrow_type
from lakewright.storage.codec.evolved_values import evolved
from lakewright.storage.errors import UnsupportedError
from lakewright.storage.files.table_files import TableFiles
from lakewright.storage.spec.data_types import STRING, AtomicType, DataField


def with_left_out_columns(rows: pa.Table, files: TableFiles) -> pa.Table:
    """The rows with the columns that they leave out, as far as those need not be given.

    Given must be what has no default and is NOT NULL or a partition key, which says where a row
    belongs. Rows with a column that the table does not have stay as they are: it may be misspelt.

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
            rows = rows.append_column(field.name, pa.repeat(_default(field, files), rows.num_rows))
        elif field.type.nullable and field.name not in files.schema.partition_keys:
            nulls = pa.nulls(rows.num_rows, to_arrow_type(field.type))
            rows = rows.append_column(field.name, nulls)
    return rows


def with_defaults(rows: pa.Table, files: TableFiles) -> pa.Table:
    """Rows with all columns of the table, and no null where a column has a default.

    Raises:
        UnsupportedError: a default that is needed cannot be read.
    """
    for index, field in enumerate(files.schema.fields):
        if field.default_value is not None and rows.column(index).null_count:
            filled = rows.column(index).fill_null(_default(field, files))
            rows = rows.set_column(index, rows.schema.field(index), filled)
    return rows


def _default(field: DataField, files: TableFiles) -> pa.Scalar:
    text = field.default_value or ""
    if len(text) > 1 and text.startswith("'") and text.endswith("'"):
        text = text[1:-1]
    try:
        if isinstance(field.type, AtomicType):
            return evolved(pa.array([text], pa.string()), STRING, field.type)[0]
        reason = "defaults of types with parts are not implemented"
    except (pa.ArrowException, UnicodeError) as error:
        reason = str(error)
    raise UnsupportedError(
        f"{files.name}: column {field.name} is {field.type} and has the default "
        f"{field.default_value!r}: {reason}; give the column a value in every row",
        table=files.name,
        column=field.name,
    )
