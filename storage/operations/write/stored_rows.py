"""The columns of data files; primary-key tables store more columns than the table has."""

from __future__ import annotations

import numpy as np
import pyarrow as pa

from lakewright.storage.codec.arrow_types import to_arrow_field, to_arrow_schema
from lakewright.storage.files.table_files import TableFiles
from lakewright.storage.lsm.merge import retracting
from lakewright.storage.spec.schema import COUNT, KEY_PREFIX, SEQUENCE_NUMBER, VALUE_KIND

# Field ids of the additional columns of key-value files (Paimon SpecialFields).
_KEY_FIELD_ID_START = 2**30 - 1


_SEQUENCE_FIELD_ID = 2**31 - 1 - 1


_KIND_FIELD_ID = 2**31 - 1 - 2


def file_schema(files: TableFiles) -> pa.Schema:
    """Columns of the table's data files, in order."""
    own = to_arrow_schema(files.schema.fields)
    if not files.schema.is_keyed:
        return own
    keys = []
    for field in files.schema.key_fields:
        arrow = to_arrow_field(field)
        number = str(_KEY_FIELD_ID_START + field.id).encode()
        keys.append(
            arrow.with_name(f"{KEY_PREFIX}{field.name}").with_metadata(
                {b"PARQUET:field_id": number}
            )
        )
    system = [
        _system_field(SEQUENCE_NUMBER, pa.int64(), _SEQUENCE_FIELD_ID),
        _system_field(VALUE_KIND, pa.int8(), _KIND_FIELD_ID),
    ]
    if files.schema.counts_rows:
        system.append(pa.field(COUNT, pa.int64(), nullable=False))
    return pa.schema([*keys, *system, *own])


def stored_schema(files: TableFiles) -> pa.Schema:
    """The columns that are stored in data files; thin files leave out the key copies."""
    columns = file_schema(files)
    if not files.options.data_file_thin_mode:
        return columns
    return pa.schema([column for column in columns if not column.name.startswith(KEY_PREFIX)])


def _system_field(name: str, arrow_type: pa.DataType, number: int) -> pa.Field:
    return pa.field(
        name, arrow_type, nullable=False, metadata={b"PARQUET:field_id": str(number).encode()}
    )


def key_value_table(files: TableFiles, rows: pa.Table, sequence: pa.Array) -> pa.Table:
    """Rows of a primary-key table in the layout of its data files."""
    columns: list[object] = [rows.column(name) for name in files.schema.key_names]
    if files.schema.counts_rows:
        # A retraction of a counted row is a negative count, so no row is stored as a deletion.
        counts = np.where(retracting(rows), -1, 1)
        columns += [sequence, pa.array(np.zeros(rows.num_rows, dtype=np.int8)), pa.array(counts)]
    else:
        columns += [sequence, rows.column(VALUE_KIND)]
    columns += [rows.column(name) for name in files.schema.field_names]
    return pa.table(columns, schema=file_schema(files))
