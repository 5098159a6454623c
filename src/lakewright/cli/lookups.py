"""`lakewright lookup`: the rows of single keys, as `read` prints them."""

from __future__ import annotations

import argparse

import pyarrow as pa

from lakewright.cli.row_printing import print_rows
from lakewright.cli.warehouse import open_table
from lakewright.storage.codec.arrow_types import to_arrow_schema
from lakewright.storage.codec.arrow_values import scalar_of
from lakewright.storage.errors import InvalidRequestError
from lakewright.storage.spec.data_types import DataField
from lakewright.storage.spec.values import from_python


def run_lookup(parsed: argparse.Namespace) -> int:
    """Print the rows of the keys named; a key that is not there has none."""
    table = open_table(parsed)
    at = table.at(snapshot=parsed.snapshot, tag=parsed.tag)
    keys = _keys(table.name, at.schema.fields_of(at.schema.primary_keys), parsed.keys)
    rows = at.lookup(keys, columns=parsed.columns)
    shown = at.schema.fields_of(rows.column_names)
    print_rows(parsed.format, shown, [rows], limit=parsed.limit)
    return 0


def _keys(table: str, fields: tuple[DataField, ...], named: list[dict[str, object]]) -> pa.Table:
    """The keys as rows of the primary key's columns.

    Raises:
        InvalidRequestError: a key names other columns, or a value is none of its type.
    """
    names = [field.name for field in fields]
    for key in named:
        if set(key) != set(names):
            raise InvalidRequestError(
                f"key {key} of {table} names {', '.join(key)}; a key is a value for each of "
                f"{', '.join(names) or 'no column, the table has no primary key'}"
            )
    columns = [
        pa.array([scalar_of(from_python(key[each.name], each.type), each.type) for key in named])
        for each in fields
    ]
    return pa.table(columns, schema=to_arrow_schema(fields))
