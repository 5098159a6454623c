"""CREATE TABLE, with partition columns by name or with types, and CREATE DATABASE."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field

from lakewright.storage.spec.bucketing import BUCKET_OPTIONS
from lakewright.storage.spec.schema import Column
from lakewright.storage.spec.table_distribution import TableDistribution
from lakewright.storage.sql.grammar.columns import (
    ColumnText,
    column_text,
    options,
    primary_key,
)
from lakewright.storage.sql.grammar.cursor import Cursor
from lakewright.storage.sql.grammar.distribution import distribution
from lakewright.storage.sql.grammar.query import Query, parse_query
from lakewright.storage.sql.grammar.statements import CreateDatabase, CreateTable, Statement
from lakewright.storage.sql.grammar.unstored_columns import (
    UnstoredText,
    kept_column,
    kept_watermark,
    unstored_column,
    watermark,
)

# Parts of a table that LIKE takes over, or not.
LIKE_PARTS = ("CONSTRAINTS", "DISTRIBUTION", "OPTIONS", "PARTITIONS")
_UNSTORED_PARTS = ("GENERATED", "METADATA", "WATERMARKS")
_VENDORS = ("LIST", "RANGE", "HASH", "KEY")
_NO_RULES = (
    "a partition is one value of each partition column, and exists once rows with it are written: "
    "write PARTITIONED BY (column); for ranges, write a column with the range of each row; instead "
    "of hash partitions, DISTRIBUTED BY (column) INTO n BUCKETS"
)


def create(cursor: Cursor) -> Statement:
    """`CREATE TABLE …` or `CREATE DATABASE …`."""
    cursor.expect("CREATE")
    if cursor.take_one("DATABASE", "SCHEMA"):
        if_not_exists = cursor.take("IF", "NOT", "EXISTS")
        return CreateDatabase(cursor.name("a database"), if_not_exists)
    temporary = cursor.take_one("TEMPORARY", "TEMP") is not None
    if cursor.peek("VIEW") or cursor.peek("OR", "REPLACE"):
        cursor.refuse(
            "catalogs of folders and of databases keep no views; write the query in WITH v AS (…) "
            "SELECT, or its rows as a table: CREATE TABLE t AS SELECT …"
        )
    if cursor.take("EXTERNAL"):
        cursor.refuse(
            "folders of files of others are a format table: CREATE TABLE … WITH ('type' = "
            "'format-table', 'path' = '…', 'file.format' = 'csv'), or they are taken over by ALTER "
            "TABLE … ADD PARTITION (…) LOCATION '…'"
        )
    cursor.expect("TABLE", way_out="tables and databases can be created")
    if_not_exists = cursor.take("IF", "NOT", "EXISTS")
    table = cursor.table_name()
    parts = _Found()
    if cursor.peek("("):
        cursor.listed(lambda: _element(cursor, parts))
    while not cursor.is_at_end:
        _clause(cursor, parts)
    if parts.like is not None and (parts.query is not None or parts.unstored or parts.watermark):
        cursor.refuse(
            f"a table LIKE {parts.like} has its computed columns and its watermark, and no query; "
            "leave LIKE out, and write all columns"
        )
    if parts.query is None and parts.like is None and not parts.columns:
        cursor.refuse(
            f"expected the columns in parentheses, LIKE or AS, found {cursor.shown()}: write "
            f"CREATE TABLE {table} (id BIGINT, …), or CREATE TABLE {table} AS SELECT …"
        )
    if parts.query is not None and (parts.columns or parts.unstored):
        cursor.refuse(
            "AS gives the table the columns of its query; leave the columns out, or create the "
            "table first and INSERT INTO it"
        )
    return CreateTable(
        table=table,
        if_not_exists=if_not_exists,
        temporary=temporary,
        columns=tuple(parts.columns),
        partition_keys=parts.partition_keys,
        primary_keys=parts.primary_keys,
        options=_all_options(cursor, parts),
        comment=parts.comment,
        distribution=parts.distribution,
        like=parts.like,
        excluding=parts.excluding,
        query=parts.query,
    )


@dataclass(slots=True)
class _Found:
    """What has been read of a statement."""

    columns: list[Column] = field(default_factory=list)
    # By the place among all columns.
    unstored: dict[int, UnstoredText] = field(default_factory=dict)
    watermark: tuple[int, tuple[str, str]] | None = None
    partition_keys: tuple[str, ...] = ()
    primary_keys: tuple[str, ...] = ()
    options: tuple[tuple[str, str], ...] = ()
    distribution: TableDistribution | None = None
    comment: str = ""
    like: str | None = None
    excluding: frozenset[str] = frozenset()
    query: Query | None = None
    clauses: set[str] = field(default_factory=set)


def _element(cursor: Cursor, found: _Found) -> None:
    """One element of the list of columns."""
    if cursor.peek("CONSTRAINT") or cursor.peek("PRIMARY", "KEY"):
        _set_key(cursor, found, primary_key(cursor))
        return
    if cursor.peek("WATERMARK", "FOR"):
        start = cursor.mark()
        cursor.expect("WATERMARK")
        if found.watermark is not None:
            cursor.refuse_at(start, "a table has one watermark")
        found.watermark = start, watermark(cursor)
        return
    name = cursor.name("a column")
    unstored = unstored_column(cursor, name)
    if unstored is None:
        _add_column(cursor, found, column_text(cursor, name))
    else:
        _check_new(cursor, found, name)
        found.unstored[len(found.columns) + len(found.unstored)] = unstored


def _add_column(cursor: Cursor, found: _Found, column: ColumnText) -> None:
    _check_new(cursor, found, column.name)
    found.columns.append(column.column)
    if column.is_key:
        _set_key(cursor, found, (column.name,))


def _check_new(cursor: Cursor, found: _Found, name: str) -> None:
    names = {column.name for column in found.columns}
    if name in names or name in {each.name for each in found.unstored.values()}:
        cursor.refuse(f"column {name} is declared more than once; rename one", back=1)


def _set_key(cursor: Cursor, found: _Found, names: tuple[str, ...]) -> None:
    if found.primary_keys:
        cursor.refuse("the table has two primary keys; write one, PRIMARY KEY (a, b)", back=1)
    found.primary_keys = names


def _clause(cursor: Cursor, found: _Found) -> None:
    """One clause behind the columns; their order is free."""
    word = cursor.take_one(
        "COMMENT",
        "DISTRIBUTED",
        "CLUSTERED",
        "PARTITIONED",
        "PARTITION",
        "WITH",
        "TBLPROPERTIES",
        "OPTIONS",
        "USING",
        "STORED",
        "LIKE",
        "LOCATION",
        "AS",
    )
    clause = {"CLUSTERED": "DISTRIBUTED", "TBLPROPERTIES": "WITH", "OPTIONS": "WITH"}.get(
        word or "", word
    )
    if word is None or clause is None:
        cursor.refuse(
            f"{cursor.shown()} begins no clause of CREATE TABLE; there are COMMENT, DISTRIBUTED, "
            "PARTITIONED BY, WITH, AS"
        )
    if clause in found.clauses:
        cursor.refuse(f"clause {word} is given twice; write it once", back=1)
    found.clauses.add(clause)
    match word:
        case "COMMENT":
            found.comment = cursor.text("a comment")
        case "DISTRIBUTED" | "CLUSTERED":
            found.distribution = distribution(cursor)
        case "PARTITIONED" | "PARTITION":
            _partitions(cursor, found, word)
        case "WITH" | "TBLPROPERTIES" | "OPTIONS":
            found.options = options(cursor)
        case "USING":
            if not cursor.take("PAIMON"):
                cursor.refuse(f"{cursor.shown()} is not a kind of table here; write USING paimon")
        case "STORED":
            cursor.refuse("the format of files is an option: WITH ('file.format' = 'orc')", back=1)
        case "LIKE":
            found.like = cursor.table_name()
            found.excluding = _excluded(cursor)
        case "LOCATION":
            cursor.refuse(
                "a table lies in the warehouse; folders elsewhere are a format table: WITH "
                "('type' = 'format-table', 'path' = '…')",
                back=1,
            )
        case _:
            found.query = parse_query(cursor)


def _partitions(cursor: Cursor, found: _Found, word: str) -> None:
    cursor.expect("BY")
    if any(cursor.peek(kind, "(") for kind in _VENDORS) or any(
        cursor.peek(kind, "COLUMNS") for kind in _VENDORS
    ):
        cursor.refuse(f"{word} BY {cursor.shown().strip(chr(39))} is not supported: {_NO_RULES}")
    if word == "PARTITION":
        cursor.refuse("write PARTITIONED BY (…)", back=2)
    if cursor.peek("(", ")"):
        cursor.refuse(
            "PARTITIONED BY names no column; leave it out for a table without partitions, and take "
            'the keys of a table away later with `lakewright respec TABLE --keys ""`'
        )
    typed: list[bool] = []
    keys = []
    for name, column in cursor.listed(lambda: _partition_column(cursor, typed)):
        if column is not None:
            if any(each.name == name for each in found.columns):
                cursor.refuse(
                    f"column {name} is declared twice, among the columns and with a type in "
                    f"PARTITIONED BY; write PARTITIONED BY ({name}), or take it from the columns",
                    back=1,
                )
            _add_column(cursor, found, column)
        keys.append(name)
    found.partition_keys = tuple(keys)


def _partition_column(cursor: Cursor, typed: list[bool]) -> tuple[str, ColumnText | None]:
    name = cursor.name("a partition column")
    if cursor.peek("("):
        cursor.refuse(
            f"{name}(…) is a rule that computes partitions, which is not supported: {_NO_RULES}",
            back=1,
        )
    has_type = not (cursor.peek(",") or cursor.peek(")"))
    if typed and typed[0] != has_type:
        cursor.refuse(
            f"partition column {name} has {'a' if has_type else 'no'} type, and the one before has "
            f"{'none' if has_type else 'one'}; declare all by name, or all with a type",
            back=1,
        )
    typed.append(has_type)
    return name, column_text(cursor, name) if has_type else None


def _excluded(cursor: Cursor) -> frozenset[str]:
    """`({INCLUDING | EXCLUDING | OVERWRITING} part …)` behind LIKE: what is not taken over."""
    found: frozenset[str] = frozenset()
    if not cursor.take("("):
        return found
    while not cursor.take(")"):
        how = cursor.take_one("INCLUDING", "EXCLUDING", "OVERWRITING")
        part = cursor.take_one(*LIKE_PARTS, *_UNSTORED_PARTS, "ALL")
        if how is None or part is None:
            cursor.refuse(
                f"expected INCLUDING or EXCLUDING with one of {', '.join(LIKE_PARTS)} or ALL, "
                f"found {cursor.shown()}"
            )
        parts = frozenset((*LIKE_PARTS, *_UNSTORED_PARTS) if part == "ALL" else (part,))
        if how == "EXCLUDING" and part in _UNSTORED_PARTS:
            cursor.refuse(f"{part} goes with EXCLUDING ALL alone; or write the columns", back=1)
        found = found | parts if how == "EXCLUDING" else found - parts
    return found


def _all_options(cursor: Cursor, found: _Found) -> tuple[tuple[str, str], ...]:
    both = dict(found.options).keys() & BUCKET_OPTIONS
    if found.distribution is not None and both:
        cursor.refuse(
            f"option {min(both)} and the clause DISTRIBUTED say the same; write one of them"
        )
    return (*found.options, *_unstored_options(cursor, found))


def _unstored_options(cursor: Cursor, found: _Found) -> Iterator[tuple[str, str]]:
    types = {each.name: str(each.type) for each in found.columns}
    for index, column in found.unstored.items():
        kept = kept_column(cursor, column, index, types)
        types[kept.name] = kept.type
        yield from kept.options()
    if found.watermark is not None:
        yield from kept_watermark(cursor, *found.watermark, types).options()
