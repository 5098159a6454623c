"""Which column of a table each column of a query fills: the rules of INSERT.

* By position: first the table's columns without its partition columns, then the partition columns
  that the clause gives no value, in the order of the table's definition. Paimon's Spark and Flink
  leave partition columns where they are declared: where that is elsewhere, only names count.
* By a list of columns, or BY NAME: as named.
* Columns that the clause gives a value come from the clause alone.
"""

from __future__ import annotations

from collections.abc import Sequence

from lakewright.storage.errors import InvalidStatement
from lakewright.storage.spec.schema import TableSchema
from lakewright.storage.sql.grammar.statements import Insert


def filled_columns(
    insert: Insert, schema: TableSchema, table: str, count: int, names: Sequence[str] | None
) -> tuple[str, ...]:
    """The columns that the `count` columns of the query fill; `names` are theirs if they have any.

    Raises:
        InvalidStatement: a column is missing, unknown, given twice, or out of order.
    """
    fixed = [name for name, _ in insert.static]
    _check_clause(insert, schema, table, fixed)
    dynamic = [key for key in schema.partition_keys if key not in fixed]
    if insert.by_name:
        if names is None:
            raise InvalidStatement(
                "BY NAME needs a query with names: SELECT; write (columns) before VALUES"
            )
        return _named(tuple(names), "the query", schema, table, fixed, dynamic)
    if insert.columns is not None:
        filled = _named(insert.columns, "the list of columns", schema, table, fixed, dynamic)
        if count != len(filled):
            raise InvalidStatement(
                f"the query gives {count} columns, and the list of {table} names {len(filled)}: "
                f"{', '.join(filled)}"
            )
        return filled
    filled = (
        *(name for name in schema.field_names if name not in schema.partition_keys),
        *dynamic,
    )
    _check_count(count, filled, table, fixed, dynamic)
    if names is not None:
        _check_order(names, filled, table, fixed)
    declared = tuple(name for name in schema.field_names if name not in fixed)
    if filled != declared and tuple(names or ()) != filled:
        raise InvalidStatement(
            f"by position, partition columns come last in Hive ({', '.join(filled)}), and as "
            f"declared in Spark and Flink ({', '.join(declared)}); list the columns in the order "
            f"of the values, such as INSERT INTO {table} ({', '.join(declared)}) …, or write BY "
            "NAME with a SELECT that names them"
        )
    return filled


def _check_clause(insert: Insert, schema: TableSchema, table: str, fixed: Sequence[str]) -> None:
    keys = schema.partition_keys
    for name in (*fixed, *insert.dynamic):
        if name not in keys:
            have = ", ".join(keys) or "none, it is not partitioned"
            raise InvalidStatement(
                f"{name} is not a partition column of {table}; its partition columns are {have}"
            )
    first = next((key for key in keys if key not in fixed), None)
    late = [key for key in keys[keys.index(first) :] if key in fixed] if first else []
    if first and late:
        raise InvalidStatement(
            f"the clause gives {late[0]} a value and leaves {first} open, which comes before it in "
            f"{table}; give {first} a value too, or leave {late[0]} out of the clause and give its "
            "value in the query"
        )
    named = [key for key in keys if key in insert.dynamic]
    if list(insert.dynamic) != named:
        raise InvalidStatement(
            f"the clause names {', '.join(insert.dynamic)}; open partition columns come in the "
            f"order of {table}: {', '.join(named)}"
        )


def _named(
    names: tuple[str, ...],
    where: str,
    schema: TableSchema,
    table: str,
    fixed: Sequence[str],
    dynamic: Sequence[str],
) -> tuple[str, ...]:
    for name in names:
        if name not in schema.field_names:
            raise InvalidStatement(
                f"{where} names {name}, and {table} has no such column; there are "
                f"{', '.join(schema.field_names)}"
            )
        if name in fixed:
            raise InvalidStatement(
                f"{where} names {name}, which the PARTITION clause gives a value; leave it out of "
                "one of them"
            )
    if len(set(names)) < len(names):
        twice = next(name for name in names if names.count(name) > 1)
        raise InvalidStatement(f"{where} names {twice} twice; name it once")
    missing = [key for key in dynamic if key not in names]
    if missing:
        raise InvalidStatement(
            f"{where} lacks partition column {missing[0]} of {table}; add it there, or give it a "
            f"value: PARTITION ({missing[0]}='…')"
        )
    return names


def _check_count(
    count: int, filled: Sequence[str], table: str, fixed: Sequence[str], dynamic: Sequence[str]
) -> None:
    if count == len(filled):
        return
    message = f"the query gives {count} columns, and {table} needs {len(filled)}: "
    message += ", ".join(filled)
    if fixed and count == len(filled) + len(fixed):
        message += f"; leave out {', '.join(fixed)}, which the PARTITION clause gives a value"
    elif dynamic and count == len(filled) - len(dynamic):
        message += (
            f"; give {', '.join(dynamic)} a value in the PARTITION clause, or last in the query"
        )
    else:
        message += "; or name the columns that it gives: INSERT INTO t (a, b) …"
    raise InvalidStatement(message)


def _check_order(
    names: Sequence[str], filled: Sequence[str], table: str, fixed: Sequence[str]
) -> None:
    """Refuse what would put values into the columns of others without a word."""
    for name in names:
        if name in fixed and name not in filled:
            raise InvalidStatement(
                f"the query returns {name}, which the PARTITION clause gives a value; leave it "
                "out, or rename it by AS"
            )
    if tuple(names) != tuple(filled) and sorted(names) == sorted(filled):
        raise InvalidStatement(
            f"the query returns {', '.join(names)}, and positions in {table} are "
            f"{', '.join(filled)}: partition columns come last; write INSERT INTO {table} BY NAME "
            f"…, or the list ({', '.join(names)}) after the table"
        )
