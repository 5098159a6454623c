"""ALTER TABLE: columns, options, buckets, partition keys; partitions are in `partitions.py`."""

from __future__ import annotations

from lakewright.storage.spec.schema_change import (
    AddColumn,
    ChangeComment,
    ChangeDefault,
    ChangeNullability,
    ChangeType,
    DropColumn,
    MoveColumn,
    RenameColumn,
    ResetOption,
    SchemaChange,
    SetOption,
)
from lakewright.storage.sql.grammar.columns import (
    ColumnText,
    column_text,
    data_type,
    default_of,
    option,
    option_name,
    options,
    place,
    primary_key,
)
from lakewright.storage.sql.grammar.cursor import Cursor
from lakewright.storage.sql.grammar.distribution import distribution
from lakewright.storage.sql.grammar.partitions import (
    add_partitions,
    drop_partitions,
    exchange_partitions,
    of_partition,
)
from lakewright.storage.sql.grammar.statements import (
    AddPrimaryKey,
    AlterDistribution,
    AlterTable,
    RenameTable,
    Respec,
    Statement,
)

_VERBS = "ADD, DROP, RENAME, ALTER COLUMN, MODIFY, SET, RESET, PARTITION, EXCHANGE, COMPACT"
_KEYS_STAY = (
    "a primary key stays, since files are sorted by it; create a table without it, or with another "
    "key, and INSERT INTO it"
)


def alter(cursor: Cursor) -> Statement:
    """`ALTER TABLE t …`."""
    cursor.expect("ALTER")
    cursor.expect("TABLE", way_out="tables can be altered")
    cursor.take("IF", "EXISTS")
    table = cursor.table_name()
    if any(map(cursor.peek, ("PARTITION", "COMPACT", "CLUSTERED"))):
        return of_partition(cursor, table)
    if cursor.take("PARTITIONED"):
        cursor.expect("BY")
        if cursor.peek("(", ")"):
            cursor.refuse(
                "PARTITIONED BY names no column; all partition keys are taken away with "
                '`lakewright respec TABLE --keys ""`'
            )
        return Respec(table, cursor.names("a column"))
    match cursor.take_one(
        "EXCHANGE", "ADD", "DROP", "RENAME", "ALTER", "CHANGE", "MODIFY", "SET", "RESET", "UNSET"
    ):
        case "EXCHANGE":
            return exchange_partitions(cursor, table)
        case "ADD":
            return _add(cursor, table)
        case "DROP":
            return _drop(cursor, table)
        case "RENAME":
            return _rename(cursor, table)
        case "ALTER":
            cursor.expect("COLUMN")
            return _of_column(cursor, table, cursor.path())
        case "CHANGE":
            return _change(cursor, table)
        case "MODIFY":
            return _modify(cursor, table)
        case "SET":
            return AlterTable(table, _set(cursor))
        case "RESET":
            return AlterTable(table, _reset(cursor))
        case "UNSET":
            cursor.expect("TBLPROPERTIES")
            cursor.take("IF", "EXISTS")
            return AlterTable(table, _reset(cursor))
        case _:
            cursor.refuse(f"{cursor.shown()} is no change of a table; there are {_VERBS}")


def _add(cursor: Cursor, table: str) -> Statement:
    if cursor.peek("PARTITION") or cursor.peek("IF", "NOT", "EXISTS", "PARTITION"):
        return add_partitions(cursor, table)
    if cursor.peek("PRIMARY", "KEY") or cursor.peek("CONSTRAINT"):
        keys = primary_key(cursor)
        return AddPrimaryKey(table, keys)
    if cursor.take("DISTRIBUTION"):
        return AlterDistribution(table, "ADD", distribution(cursor))
    cursor.take_one("COLUMN", "COLUMNS")
    return AlterTable(table, tuple(map(_added, _columns(cursor))))


def _columns(cursor: Cursor) -> tuple[ColumnText, ...]:
    def one() -> ColumnText:
        return column_text(cursor, cursor.path())

    return cursor.listed(one) if cursor.peek("(") else cursor.separated(one)


def _added(column: ColumnText) -> AddColumn:
    return AddColumn(column.name, column.full_type, column.comment, column.default, column.position)


def _drop(cursor: Cursor, table: str) -> Statement:
    if cursor.peek("PARTITION") or cursor.peek("IF", "EXISTS", "PARTITION"):
        return drop_partitions(cursor, table)
    if cursor.peek("PRIMARY", "KEY") or cursor.peek("CONSTRAINT"):
        cursor.refuse(_KEYS_STAY)
    if cursor.take("DISTRIBUTION"):
        return AlterDistribution(table, "DROP")
    cursor.take_one("COLUMN", "COLUMNS")
    names = cursor.listed(cursor.path) if cursor.peek("(") else cursor.separated(cursor.path)
    return AlterTable(table, tuple(map(DropColumn, names)))


def _rename(cursor: Cursor, table: str) -> AlterTable | RenameTable:
    if cursor.take("TO"):
        return RenameTable(table, cursor.table_name())
    cursor.take("COLUMN")
    column = cursor.path()
    cursor.expect("TO")
    return AlterTable(table, (RenameColumn(column, cursor.name("the new name")),))


def _of_column(cursor: Cursor, table: str, column: str) -> AlterTable:
    if cursor.take("SET", "DEFAULT"):
        value, text = default_of(cursor, None)
        return AlterTable(table, (ChangeDefault(column, text),), ((column, value),))
    return AlterTable(table, _changed_column(cursor, column))


def _changed_column(cursor: Cursor, column: str) -> tuple[SchemaChange, ...]:
    if cursor.take("TYPE") or cursor.take("SET", "DATA", "TYPE"):
        return (ChangeType(column, data_type(cursor, column)),)
    if cursor.take("SET", "NOT", "NULL"):
        return (ChangeNullability(column, nullable=False),)
    if cursor.take("DROP", "NOT", "NULL"):
        return (ChangeNullability(column, nullable=True),)
    if cursor.take("DROP", "DEFAULT"):
        return (ChangeDefault(column, None),)
    if cursor.take("COMMENT"):
        return (ChangeComment(column, cursor.text("a comment")),)
    return (MoveColumn(column, place(cursor)),)


def _change(cursor: Cursor, table: str) -> AlterTable:
    """Spark's `CHANGE COLUMN c TYPE t`, or Hive's `CHANGE old new type`."""
    cursor.take("COLUMN")
    old = cursor.path()
    if any(map(cursor.peek, ("TYPE", "SET", "DROP", "COMMENT", "FIRST", "AFTER"))):
        return _of_column(cursor, table, old)
    new = cursor.name("the new name")
    changed = _modified(column_text(cursor, new if old == new else old))
    return AlterTable(table, changed if old == new else (*changed, RenameColumn(old, new)))


def _modify(cursor: Cursor, table: str) -> Statement:
    if cursor.take("DISTRIBUTION"):
        return AlterDistribution(table, "MODIFY", distribution(cursor))
    cursor.take("COLUMN")
    return AlterTable(
        table, tuple(change for column in _columns(cursor) for change in _modified(column))
    )


def _modified(column: ColumnText) -> tuple[SchemaChange, ...]:
    """Another type, and what else is said of a column; what is not said stays."""
    changes: list[SchemaChange] = [ChangeType(column.name, column.type)]
    if column.not_null:
        changes.append(ChangeNullability(column.name, nullable=False))
    if column.says_default:
        changes.append(ChangeDefault(column.name, column.default))
    if column.comment is not None:
        changes.append(ChangeComment(column.name, column.comment))
    if column.position is not None:
        changes.append(MoveColumn(column.name, column.position))
    return tuple(changes)


def _set(cursor: Cursor) -> tuple[SchemaChange, ...]:
    if cursor.take("TBLPROPERTIES") or cursor.peek("("):
        given = options(cursor)
    else:
        given = (option(cursor, set()),)
    return tuple(_set_option(cursor, *each) for each in given)


def _set_option(cursor: Cursor, name: str, value: str) -> SetOption:
    if name != "change-tracking":
        return SetOption(name, value)
    if value.strip().lower() != "false":
        cursor.refuse(
            "say who writes the changelog: SET 'changelog-producer' = 'input', 'lookup' or "
            "'full-compaction'",
            back=1,
        )
    return SetOption("changelog-producer", "none")


def _reset(cursor: Cursor) -> tuple[SchemaChange, ...]:
    names = (
        cursor.listed(lambda: option_name(cursor)) if cursor.peek("(") else (option_name(cursor),)
    )
    return tuple(map(ResetOption, names))
