"""Partition clauses, and the statements on whole partitions."""

from __future__ import annotations

from lakewright.storage.sql.grammar.cursor import Cursor
from lakewright.storage.sql.grammar.statements import (
    AddPartitions,
    Compact,
    DropPartitions,
    ExchangePartitions,
    RenamePartition,
    RepairTable,
    Rescale,
    ShowPartitions,
    Spec,
    Statement,
    TrackChanges,
)

_FORM = "a partition is named by its values: PARTITION (dt='2024-01-01', hour=7)"


def partition_spec(cursor: Cursor) -> Spec:
    """`(column = value, …)`, each column once."""
    if not cursor.peek("("):
        cursor.refuse(f"expected (, found {cursor.shown()}; {_FORM}")
    seen: set[str] = set()
    return cursor.listed(lambda: _equality(cursor, seen))


def partition_clause(cursor: Cursor) -> Spec | None:
    """`PARTITION (…)`, if it comes next."""
    return partition_spec(cursor) if cursor.take("PARTITION") else None


def _equality(cursor: Cursor, seen: set[str]) -> tuple[str, object]:
    name = once(cursor, cursor.name("a partition column"), seen)
    if not cursor.take("="):
        if any(map(cursor.peek, ("<", ">", "<=", ">=", "<>", "!=", "IN", "LIKE", "BETWEEN"))):
            cursor.refuse(
                f"{cursor.shown()} is a filter, which no partition clause takes; `lakewright "
                "drop-partitions` and `lakewright partitions` take one by --where, and here "
                f"{_FORM}"
            )
        cursor.refuse(f"expected = and a value for {name}, found {cursor.shown()}; {_FORM}")
    return name, cursor.literal(f"the value of {name}")


def once(cursor: Cursor, name: str, seen: set[str]) -> str:
    """A name of a list in which none stands twice."""
    if name in seen:
        cursor.refuse(f"{name} is twice in the list; name it once", back=1)
    seen.add(name)
    return name


def show_partitions(cursor: Cursor) -> ShowPartitions:
    """`SHOW PARTITIONS t [PARTITION (…)]`, behind these two words."""
    return ShowPartitions(cursor.table_name(), partition_clause(cursor) or ())


def repair_table(cursor: Cursor) -> RepairTable:
    """`REPAIR TABLE t [ADD | DROP | SYNC PARTITIONS]`, behind MSCK or at the start."""
    cursor.take("MSCK")
    cursor.expect("REPAIR")
    cursor.expect("TABLE")
    table = cursor.table_name()
    mode = cursor.take_one("ADD", "DROP", "SYNC")
    if mode is not None:
        cursor.expect("PARTITIONS")
    return RepairTable(table, (mode or "ADD").lower())


def add_partitions(cursor: Cursor, table: str) -> AddPartitions:
    """`ADD [IF NOT EXISTS] PARTITION (…) [LOCATION '…'] [, …]`, behind ADD."""
    if_not_exists = cursor.take("IF", "NOT", "EXISTS")
    found = []
    while cursor.peek("PARTITION"):
        cursor.expect("PARTITION")
        spec = partition_spec(cursor)
        folder = cursor.text("a folder") if cursor.take("LOCATION") else None
        found.append((spec, folder))
        # Hive separates partitions by blanks alone.
        if cursor.take(",") and not cursor.peek("PARTITION"):
            cursor.refuse(f"expected PARTITION after the comma, found {cursor.shown()}")
    return AddPartitions(table, tuple(found), if_not_exists)


def drop_partitions(cursor: Cursor, table: str) -> DropPartitions:
    """`DROP [IF EXISTS] PARTITION (…) [, PARTITION (…)] [PURGE]`, behind DROP."""
    if_exists = cursor.take("IF", "EXISTS")

    def one() -> Spec:
        cursor.expect("PARTITION")
        return partition_spec(cursor)

    specs = cursor.separated(one)
    return DropPartitions(table, specs, if_exists, cursor.take("PURGE"))


def exchange_partitions(cursor: Cursor, table: str) -> ExchangePartitions:
    """`EXCHANGE PARTITION (…) WITH TABLE s`, behind EXCHANGE; of several, `((…), (…))`."""
    cursor.expect("PARTITION")
    if cursor.peek("(", "("):
        specs = cursor.listed(lambda: partition_spec(cursor))
    else:
        specs = (partition_spec(cursor),)
    cursor.expect("WITH")
    cursor.expect("TABLE")
    return ExchangePartitions(table, specs, cursor.table_name())


def of_partition(cursor: Cursor, table: str) -> Statement:
    """What follows `ALTER TABLE t PARTITION (…)`, or stands without the clause."""
    spec = partition_clause(cursor) or ()
    if spec and cursor.take("RENAME"):
        cursor.expect("TO")
        cursor.expect("PARTITION")
        return RenamePartition(table, spec, partition_spec(cursor))
    if cursor.take("COMPACT"):
        return _compact(cursor, table, spec)
    if cursor.take("CLUSTERED"):
        cursor.expect("INTO")
        return Rescale(table, spec, buckets(cursor))
    if spec and cursor.take("SET"):
        return _track(cursor, table, spec)
    cursor.refuse(
        f"expected RENAME TO PARTITION, COMPACT, SET 'change-tracking' or "
        f"CLUSTERED INTO n BUCKETS, found {cursor.shown()}"
    )


def _track(cursor: Cursor, table: str, spec: Spec) -> TrackChanges:
    """`'change-tracking' = 'false'`, behind SET, also in parentheses."""
    closes = cursor.take("(")
    if (cursor.take_text() or cursor.source_until("=").strip()) != "change-tracking":
        cursor.refuse(
            "options are those of the whole table, for every client of the format; leave the "
            "PARTITION clause out; of a partition, SET 'change-tracking' = 'false' alone is kept",
            back=1,
        )
    cursor.expect("=")
    value = str(cursor.value("true or false")).lower()
    if value not in ("true", "false"):
        cursor.refuse("write SET 'change-tracking' = 'false', or 'true' again", back=1)
    if closes:
        cursor.expect(")")
    return TrackChanges(table, spec, value == "true")


def _compact(cursor: Cursor, table: str, spec: Spec) -> Compact:
    kind = cursor.take_text() or ""
    if kind.lower() not in ("", "minor", "major"):
        cursor.refuse(f"{kind!r} is no kind of compaction; write 'minor' or 'major'", back=1)
    return Compact(table, spec, kind.lower() == "major" or cursor.take("FULL"))


def buckets(cursor: Cursor) -> int:
    """`n BUCKETS`."""
    count = cursor.whole_number("the number of buckets")
    cursor.expect("BUCKETS")
    return count
