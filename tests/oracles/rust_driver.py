"""pypaimon-rust behind JSON lines, as a reader: `client.start_rust` runs it in its environment."""

# mypy: disable-error-code="import-not-found, import-untyped"

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import pyarrow as pa
from pypaimon_rust.datafusion import PaimonCatalog

from . import wire
from .arrow_values import canonical_rows, native_literal
from .canonical import parse_type

PREDICATES = {
    "=": "equal",
    "!=": "notEqual",
    "<": "lessThan",
    "<=": "lessOrEqual",
    ">": "greaterThan",
    ">=": "greaterOrEqual",
    "is null": "isNull",
    "is not null": "isNotNull",
}


def read(
    warehouse: str,
    table: str,
    snapshot: int | None = None,
    tag: str | None = None,
    where: Sequence[Sequence[Any]] = (),
    options: Mapping[str, str] | None = None,
) -> list[dict[str, Any]]:
    travel = dict(options or {})
    if snapshot is not None:
        travel["scan.snapshot-id"] = str(snapshot)
    if tag is not None:
        travel["scan.tag-name"] = tag
    source = PaimonCatalog({"warehouse": warehouse}).get_table(tuple(table.split(".", 1)))
    builder = source.new_read_builder(travel or None)
    if where:
        builder = builder.with_filter(predicate(source.schema().fields(), where))
    batches = builder.new_read().read(builder.new_scan().plan().splits())
    return canonical_rows(pa.Table.from_batches(batches)) if batches else []


def literal_type(declared: str) -> pa.DataType | None:
    """The Arrow type whose Python values the client wants, where canonical ones will not do."""
    column_type = parse_type(declared)
    match column_type.root:
        case "DECIMAL":
            return pa.decimal128(column_type.precision, column_type.scale)
        case "FLOAT" | "DOUBLE":
            return pa.float64()
        case "BYTES" | "VARBINARY" | "BINARY":
            return pa.binary()
        case "DATE":
            return pa.date32()
        case "TIME":
            return pa.time32("ms")
        case "TIMESTAMP":
            return pa.timestamp("us")
        case "TIMESTAMP_LTZ":
            return pa.timestamp("us", tz="UTC")
        case _:
            return None


def predicate(fields: Sequence[Any], where: Sequence[Sequence[Any]]) -> dict[str, Any]:
    types = {field.name(): literal_type(field.field_type()) for field in fields}
    leaves = [
        {
            "method": PREDICATES[operator],
            "field": column,
            "literals": [literal_of(types[column], literal) for literal in literals],
        }
        for column, operator, *literals in where
    ]
    return leaves[0] if len(leaves) == 1 else {"method": "and", "children": leaves}


def literal_of(arrow_type: pa.DataType | None, literal: Any) -> Any:
    return literal if arrow_type is None else native_literal(literal, arrow_type)


def main() -> None:
    wire.serve({"read": read}, wire.take_over_stdout())


if __name__ == "__main__":
    main()
