"""Opens a declared table: creates it if it is missing, and refuses it if it differs."""

from __future__ import annotations

from collections.abc import Iterator

from lakewright.platform.declare.declarations import TableDeclaration
from lakewright.storage import Catalog, Table
from lakewright.storage.errors import InvalidSchema
from lakewright.storage.spec.option_values import same_quantity
from lakewright.storage.spec.schema import TableSchema, new_schema


def open_declared(catalog: Catalog, declaration: TableDeclaration) -> Table:
    """The declared table, created if it is missing.

    Raises:
        InvalidSchema: the table exists and differs; the message names every difference.
    """
    table = catalog.create_table(declaration.table, declaration.schema_spec, if_not_exists=True)
    differences = list(schema_differences(declaration, table.schema))
    if differences:
        raise InvalidSchema(
            f"table {declaration.table} is not as declared: {'; '.join(differences)}; change the "
            "declaration to what the table has (a number of buckets is changed by "
            "`lakewright rescale`, columns and other options by another Paimon client)",
            table=declaration.table,
        )
    return table


def schema_differences(declaration: TableDeclaration, actual: TableSchema) -> Iterator[str]:
    """The differences, each in a few words.

    Comments are not compared. Options that only the table has are not compared either, because
    other engines set their own options.
    """
    declared = new_schema(declaration.schema_spec, time_millis=0)
    wanted = {each.name: each for each in declared.fields}
    present = {each.name: each for each in actual.fields}
    for name, field in wanted.items():
        if name not in present:
            yield f"column {name} {field.type} is declared and the table has no such column"
        elif str(field.type) != str(present[name].type):
            yield f"column {name} is declared {field.type} and is {present[name].type} in the table"
    for name, field in present.items():
        if name not in wanted:
            yield f"column {name} {field.type} is not declared"
    shared_order = [name for name in wanted if name in present]
    if shared_order != [name for name in present if name in wanted]:
        yield f"the columns of the table are in the order {', '.join(present)}"
    for what, left, right in (
        ("partition keys", declared.partition_keys, actual.partition_keys),
        ("primary key", declared.primary_keys, actual.primary_keys),
    ):
        if left != right:
            yield (
                f"the {what} are declared ({', '.join(left)}) and are ({', '.join(right)}) in "
                "the table"
            )
    for option, value in sorted(declared.options.items()):
        present_value = actual.options.get(option, "not set")
        if not _means(value, present_value):
            yield f"option {option} is declared {value} and is {present_value} in the table"


def _means(left: str, right: str) -> bool:
    """Whether two texts of an option have one value: `true` and `True`, `1 h` and `60 min`."""
    return left == right or (
        same_quantity(left, right)
        or (left.lower() == right.lower() and left.lower() in ("true", "false"))
    )
