"""`lakewright lookup`: the rows of single keys, as `read` prints them."""

from __future__ import annotations

from typing import TYPE_CHECKING

import click

from lakewright.cli.grammar.call import Call, check_one_of
from lakewright.cli.grammar.command import command
from lakewright.cli.grammar.options import (
    ROW_NOTES,
    columns_option,
    limit_option,
    snapshot_option,
    tag_option,
)
from lakewright.cli.grammar.values import partition

if TYPE_CHECKING:
    import pyarrow as pa

    from lakewright.storage.spec.data_types import DataField


@command(
    "lookup",
    notes="A key is a value for each column of the primary key: K=V,K2=V2, or JSON.\n" + ROW_NOTES,
    examples="""
lakewright lookup shop.orders dt=2024-01-01,id=17 dt=2024-01-01,id=18
lakewright lookup shop.orders '{"dt": "2024-01-01", "id": 17}' --format json
""",
)
@click.argument("keys", metavar="KEY…", nargs=-1, required=True)
@columns_option
@limit_option
@snapshot_option
@tag_option
def lookup(
    call: Call,
    *,
    keys: tuple[str, ...],
    columns: list[str] | None,
    limit: int | None,
    snapshot: int | None,
    tag: str | None,
) -> None:
    """Print the rows of single keys, found without reading the table."""
    from lakewright.cli.output.rows import print_rows

    check_one_of(snapshot=snapshot, tag=tag)
    at = call.table().at(snapshot=snapshot, tag=tag)
    key_fields = at.schema.fields_of(at.schema.primary_keys)
    named = tuple(_named(at.name, at.schema.primary_keys, key) for key in keys)
    rows = at.lookup(_keys(at.name, key_fields, named), columns=columns)
    print_rows(call.form, at.schema.fields_of(rows.column_names), [rows], limit=limit)


def _named(table: str, names: tuple[str, ...], text: str) -> dict[str, object]:
    """A key's values by column."""
    try:
        return partition(text)
    except click.BadParameter as error:
        form = ",".join(f"{name}=…" for name in names)
        raise click.BadParameter(
            f"{error.message}; a key of {table} is {form or 'none: it has no primary key'}"
        ) from None


def _keys(
    table: str, fields: tuple[DataField, ...], named: tuple[dict[str, object], ...]
) -> pa.Table:
    """The keys as rows of the primary key's columns.

    Raises:
        InvalidRequestError: a key names other columns, or a value is none of its type.
    """
    import pyarrow as pa

    from lakewright.storage.codec.arrow_types import to_arrow_schema
    from lakewright.storage.codec.arrow_values import scalar_of
    from lakewright.storage.errors import InvalidRequestError
    from lakewright.storage.spec.values import from_python

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
