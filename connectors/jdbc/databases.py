"""The databases: SQLite by the standard library, PostgreSQL through ADBC.

SQLite gives each value a type of its own, so its rows come as Python values and are read as the
declared types. PostgreSQL gives Arrow. The file is long since each database has
all of its SQL here: what it lists, reads, pushes down and writes.
"""

from __future__ import annotations

import re
import sqlite3
from abc import ABC, abstractmethod
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from decimal import Decimal
from functools import cached_property
from typing import Any, Protocol
from urllib.parse import parse_qsl, quote, unquote, urlsplit, urlunsplit

import pyarrow as pa
import pyarrow.compute as pc

from lakewright.connectors.fitted import batches_of, fitted
from lakewright.connectors.jdbc.postgres_columns import (
    NARROW,
    Kind,
    Selected,
    can_aggregate,
    can_find,
    grouped_by,
    is_text_of,
    kinds,
    means_alike,
    selected,
)
from lakewright.storage.errors import (
    InvalidOption,
    InvalidRequestError,
    InvalidRows,
    UnavailableError,
    UnsupportedError,
)
from lakewright.storage.extras import needed_for
from lakewright.storage.files.store_failures import harmless
from lakewright.storage.secret_texts import MASK, is_secret, shown_text
from lakewright.storage.spec.data_types import (
    INTEGER_BITS,
    AtomicType,
    DataField,
    DataType,
    TypeRoot,
)
from lakewright.storage.spec.rows import RowKind

_ROWS_AT_ONCE = 1 << 14
_STAGED = "lakewright_rows"
# Moments without a zone would be those of the server's, and texts as it writes them.
_SETTINGS = """
SELECT set_config('TimeZone', 'UTC', false), set_config('datestyle', 'ISO, YMD', false),
  set_config('intervalstyle', 'iso_8601', false), set_config('extra_float_digits', '3', false)
"""
# What SQLite calls the number of a row, though no table lists it.
_ROW_IDS = ("rowid", "oid", "_rowid_")
# Texts that SQLite takes for numbers.
_DIGITS = re.compile(r"\s*[+-]?(?:\d+\.?\d*|\.\d+)(?:[eE][+-]?\d+)?\s*", re.ASCII)
# The columns whose staged type is not that of the table, with both.
_OTHER_TYPES = """
SELECT t.attname::text, format_type(t.atttypid, t.atttypmod), format_type(s.atttypid, NULL)
FROM pg_catalog.pg_attribute AS s JOIN pg_catalog.pg_attribute AS t ON t.attname = s.attname
WHERE s.attrelid = '{staged}'::regclass AND t.attrelid = {relation}
  AND s.attnum > 0 AND t.attnum > 0 AND NOT t.attisdropped
  AND (t.atttypid, t.atttypmod) <> (s.atttypid, s.atttypmod)
ORDER BY t.attnum
"""


class Query(Protocol):
    """What is asked of a database."""

    @property
    def is_computed(self) -> bool:
        """Whether expressions of whole numbers are selected, and no columns."""
        ...

    def text(self, columns: Sequence[str]) -> str:
        """The statement that selects the columns of the query, as these texts do."""
        ...


@dataclass(frozen=True)
class Database(ABC):
    """A database and a table in it; it pickles, and connects where it is used."""

    # It may have a password.
    url: str = field(repr=False)
    table: str
    # The name of the table in the warehouse, for errors.
    owner: str
    keys: tuple[str, ...] = ()

    @abstractmethod
    def read(
        self, query: Query, fields: Sequence[DataField], fetch_size: int
    ) -> Iterator[pa.RecordBatch]:
        """The rows of a query, its columns by place as the fields."""

    @abstractmethod
    def columns(self) -> Sequence[str]:
        """The columns that the table has now."""

    @abstractmethod
    def write(self, batches: Iterator[Change], creating: Sequence[DataField] = ()) -> int:
        """Carry out changes in one transaction; how many rows they had.

        With columns in `creating`, the table is made in it first.
        """

    @abstractmethod
    def truncate(self) -> None:
        """Remove all rows."""

    @abstractmethod
    def can_compare(self, column: str, data_type: AtomicType) -> bool:
        """Whether the database compares a column, in an order too, as one of the declared type."""

    @abstractmethod
    def can_find(self, field: DataField) -> bool:
        """Whether `=` finds every row whose value in a column is read as a given one."""

    @abstractmethod
    def key_literal(self, field: DataField, value: object) -> str | None:
        """A value of such a column as a statement has it; None if no row has it."""

    @abstractmethod
    def can_aggregate(self, function: str, field: DataField) -> bool:
        """Whether count, min, max or sum of a column is that of the values which are read."""

    @abstractmethod
    def group_text(self, field: DataField) -> str | None:
        """A column by which the database has the groups of the values that are read; or None."""

    def unfit(self, field: DataField) -> str | None:
        """Which values of a column are no values of its type; None if its type there says it."""
        return None

    @abstractmethod
    def type_of(self, data_type: DataType) -> str:
        """A column's type there.

        Raises:
            UnsupportedError: it has none.
        """

    def creation(self, fields: Sequence[DataField], keys: Sequence[str]) -> str:
        """The statement that makes the table."""
        columns = [f"{quoted(each.name)} {self.type_of(each.type)}" for each in fields]
        key = [f"PRIMARY KEY ({_list(keys)})"] if keys else []
        return f"CREATE TABLE {self.name} ({', '.join([*columns, *key])})"

    @property
    def name(self) -> str:
        """The table, quoted; a name with a dot is one of a schema."""
        return ".".join(quoted(part) for part in self.table.split("."))

    @property
    def _nothing(self) -> str:
        return f"SELECT * FROM {self.name} LIMIT 0"  # noqa: S608 - quoted

    def failed(self, error: Exception) -> UnavailableError | InvalidRequestError:
        """What the database says, without the address, which may hold a password."""
        text = str(error).replace(self.url, "the database")
        for secret in _secrets(self.url):
            text = text.replace(secret, MASK)
        where = f"table {self.table} of {shown_url(self.url)}, which {self.owner} describes"
        return InvalidRequestError(f"{where}: {text.strip()}")


def _names(cursor: Any) -> list[str]:
    return [each[0] for each in cursor.description]


@dataclass(frozen=True, slots=True)
class Change:
    """Rows to insert, or by a key to upsert and to delete; `keys` is empty without a key."""

    rows: pa.Table
    keys: tuple[str, ...]
    kind: RowKind


_OF_POSTGRES = {
    TypeRoot.TINYINT: "SMALLINT",
    TypeRoot.FLOAT: "REAL",
    TypeRoot.DOUBLE: "DOUBLE PRECISION",
    TypeRoot.TIMESTAMP: "TIMESTAMP",
    TypeRoot.TIMESTAMP_LTZ: "TIMESTAMPTZ",
}
_WHOLE = {TypeRoot.TINYINT, TypeRoot.SMALLINT, TypeRoot.INT, TypeRoot.BIGINT}


@dataclass(frozen=True)
class Sqlite(Database):
    """A file, or memory."""

    @contextmanager
    def _connected(self, mode: str = "rw") -> Iterator[sqlite3.Connection]:
        path = quote(self.url.removeprefix("sqlite:///"))
        try:
            connection = sqlite3.connect(
                # Another thread of DuckDB may go on where one stopped.
                f"file:{path}?mode={mode}",
                uri=True,
                check_same_thread=False,
            )
            try:
                yield connection
            finally:
                connection.close()
        except sqlite3.Error as error:
            raise self.failed(error) from error

    def read(
        self, query: Query, fields: Sequence[DataField], fetch_size: int
    ) -> Iterator[pa.RecordBatch]:
        with self._connected() as connection:
            if not query.is_computed:
                self._check_columns(connection, fields)
            cursor = connection.execute(query.text([quoted(each.name) for each in fields]))
            cursor.arraysize = fetch_size
            yield from batches_of(self._values(cursor, fields), fields, table=self.owner)

    def _check_columns(self, connection: sqlite3.Connection, fields: Sequence[DataField]) -> None:
        """Refuse columns that the table lacks: SQLite takes an unknown quoted name for a text.

        Raises:
            InvalidRequestError: there are such; the message names those of the table.
        """
        held = _names(connection.execute(self._nothing))
        known = {*map(str.lower, held), *_ROW_IDS}
        unknown = [each.name for each in fields if each.name.lower() not in known]
        if unknown:
            raise InvalidRequestError(
                f"table {self.table}, which {self.owner} describes, has no column "
                f"{', '.join(unknown)}; it has {', '.join(held)}: define {self.owner} with these"
            )

    def _values(
        self, rows: Iterable[Sequence[object]], fields: Sequence[DataField]
    ) -> Iterator[list[object]]:
        """Rows in which 0 and 1 are false and true: SQLite has no other booleans.

        Raises:
            InvalidRows: a text is where bytes are declared.
        """
        roots = [each.type.root if isinstance(each.type, AtomicType) else None for each in fields]
        flags = [at for at, root in enumerate(roots) if root is TypeRoot.BOOLEAN]
        binary = [at for at, root in enumerate(roots) if root is not None and root.is_bytes]
        for row in rows:
            values = list(row)
            for at in flags:
                if values[at] in (0, 1):
                    values[at] = bool(values[at])
            for at in binary:
                if isinstance(values[at], str):
                    raise InvalidRows(
                        f"{self.owner}: column {fields[at].name} is {fields[at].type}, and the "
                        f"database has the text {values[at]!r:.80}; declare the column as STRING",
                        column=fields[at].name,
                    )
            yield values

    def columns(self) -> Sequence[str]:
        with self._connected() as connection:
            return _names(connection.execute(self._nothing))

    def can_compare(self, column: str, data_type: AtomicType) -> bool:
        is_exact = data_type.root in _WHOLE or data_type.root is TypeRoot.BOOLEAN
        return is_exact and column in self._whole_columns

    def can_find(self, field: DataField) -> bool:
        if not isinstance(field.type, AtomicType):
            return False
        if field.type.root is TypeRoot.VARCHAR:
            # Elsewhere numbers, too, are read as texts, and equal none there.
            return field.name in self._columns_of("CHAR", "CLOB", "TEXT") - self._whole_columns
        return self.can_compare(field.name, field.type)

    def key_literal(self, field: DataField, value: object) -> str | None:
        if not isinstance(value, str):
            return plain_literal(value)
        # A statement ends at the character that is none.
        return " || char(0) || ".join(plain_literal(part) for part in value.split("\0"))

    def can_aggregate(self, function: str, field: DataField) -> bool:
        # A sum beyond 64 bits is an error there.
        is_short = not isinstance(field.type, AtomicType) or field.type.root is not TypeRoot.BIGINT
        return self.unfit(field) is not None and (function != "sum" or is_short)

    def group_text(self, field: DataField) -> str | None:
        if not isinstance(field.type, AtomicType):
            return None
        if field.type.root is TypeRoot.VARCHAR and self.can_find(field):
            return f"{quoted(field.name)} COLLATE BINARY"
        return quoted(field.name) if self.can_compare(field.name, field.type) else None

    def unfit(self, field: DataField) -> str | None:
        bits = INTEGER_BITS.get(field.type.root) if isinstance(field.type, AtomicType) else None
        if bits is None or field.name not in self._whole_columns:
            return None
        name, least = quoted(field.name), -(1 << bits - 1)
        fits = f"typeof({name}) = 'integer' AND {name} BETWEEN {least} AND {-least - 1}"
        return f"{name} IS NOT NULL AND NOT ({fits})"

    @property
    def _whole_columns(self) -> frozenset[str]:
        """Columns of whole numbers; in others SQLite keeps texts as texts, and compares them so."""
        return self._columns_of("INT")

    def _columns_of(self, *words: str) -> frozenset[str]:
        """Columns whose type has one of some words, by which SQLite knows what it keeps there."""
        return frozenset(
            name for name, kind in self._types.items() if any(word in kind for word in words)
        )

    @cached_property
    def _types(self) -> dict[str, str]:
        with self._connected() as connection:
            table = self.table.rpartition(".")[2]
            found = connection.execute("SELECT name, type FROM pragma_table_info(?)", (table,))
            return {name: kind.upper() for name, kind in found}

    def type_of(self, data_type: DataType) -> str:
        root = _root_of(data_type, self.owner)
        if root.is_bytes:
            return "BLOB"
        if root in _WHOLE or root is TypeRoot.BOOLEAN:
            return "INTEGER"
        # A number with more digits than a double has is a text there, and stays exact.
        return "REAL" if root in (TypeRoot.FLOAT, TypeRoot.DOUBLE) else "TEXT"

    def write(self, batches: Iterator[Change], creating: Sequence[DataField] = ()) -> int:
        count = 0
        with self._connected("rwc" if creating else "rw") as connection, connection:
            if creating:
                # Python begins no transaction before a CREATE by itself.
                connection.execute("BEGIN")
                connection.execute(self.creation(creating, self.keys))
            affinities = self._affinities(connection)
            for change in batches:
                self._check_kept(change.rows, affinities)
                rows = zip(*(_kept(column) for column in change.rows.columns), strict=True)
                connection.executemany(self._statement(change), rows)
                count += change.rows.num_rows
        return count

    def _affinities(self, connection: sqlite3.Connection) -> dict[str, str]:
        """What SQLite makes of values, by column: `REAL` a number with a fraction, `NUMERIC` any.

        Chapter "Determination Of Column Affinity" of its documentation; others keep a value.
        """
        table = self.table.rpartition(".")[2]
        found = connection.execute("SELECT name, type FROM pragma_table_info(?)", (table,))
        # SQLite finds a column by its name in any case.
        return {name.lower(): _affinity(kind.upper()) for name, kind in found}

    def _check_kept(self, rows: pa.Table, affinities: Mapping[str, str]) -> None:
        """Refuse what SQLite would keep as something else; the transaction then leaves no row."""
        for name, column in zip(rows.column_names, rows.columns, strict=True):
            if pa.types.is_floating(column.type) and pc.any(pc.is_nan(column)).as_py():
                raise InvalidRows(
                    f"{self.owner}: column {name} has NaN, which SQLite would keep as null; write "
                    "null, or leave such rows out",
                    column=name,
                )
            if pa.types.is_nested(column.type) and column.null_count < len(column):
                raise InvalidRows(
                    f"{self.owner}: column {name} holds {column.type}, of which SQLite has no "
                    "values; write its text, such as JSON, into a column STRING, or leave it out",
                    column=name,
                )
            affinity = affinities.get(name.lower(), "")
            other = _changed(column, affinity) if affinity else None
            if other is not None:
                raise InvalidRows(
                    f"{self.owner}: column {name} has {affinity} numbers in SQLite, which would "
                    f"keep {other!r} as {_number(other, affinity)!r}; make the column TEXT there",
                    column=name,
                )

    def _statement(self, change: Change) -> str:
        names = change.rows.column_names
        if change.kind is RowKind.DELETE:
            return f"DELETE FROM {self.name} WHERE {_pairs(names)}"  # noqa: S608 - quoted
        marks = ", ".join("?" * len(names))
        values = f"INSERT INTO {self.name} ({_list(names)}) VALUES ({marks})"  # noqa: S608 - quoted
        return values + on_conflict(names, change.keys)

    def truncate(self) -> None:
        with self._connected() as connection, connection:
            connection.execute(f"DELETE FROM {self.name}")  # noqa: S608 - quoted


@dataclass(frozen=True)
class Postgres(Database):
    """A server."""

    def can_compare(self, column: str, data_type: AtomicType) -> bool:
        # Texts are ordered by a locale there.
        return means_alike(data_type, self._kinds.get(column))

    def can_find(self, field: DataField) -> bool:
        return can_find(field.type, self._kinds.get(field.name))

    def key_literal(self, field: DataField, value: object) -> str | None:
        if isinstance(value, bytes):
            return f"decode('{value.hex()}', 'hex')"
        if not isinstance(value, str):
            return plain_literal(value)
        kind = self._kinds.get(field.name)
        if "\0" in value or (kind is not None and not is_text_of(value, kind)):
            return None
        # What a backslash means in a plain literal is a setting of the server.
        escaped = value.replace("\\", "\\\\")
        return ("E" if escaped != value else "") + plain_literal(escaped)

    def can_aggregate(self, function: str, field: DataField) -> bool:
        return can_aggregate(function, field.type, self._kinds.get(field.name))

    def group_text(self, field: DataField) -> str | None:
        collation = grouped_by(field.type, self._kinds.get(field.name))
        return None if collation is None else f"{quoted(field.name)}{collation}"

    @cached_property
    def _kinds(self) -> dict[str, Kind]:
        with self._connected() as cursor:
            return self._kinds_by(cursor)

    def _kinds_by(self, cursor: Any) -> dict[str, Kind]:
        def rows(statement: str) -> Sequence[Sequence[object]]:
            cursor.execute(statement)
            return list(cursor.fetchall())

        return kinds(rows, self.name)

    @contextmanager
    def _connected(self) -> Iterator[Any]:
        with needed_for(f"connector jdbc of {self.owner}"):
            import adbc_driver_postgresql.dbapi as adbc  # noqa: PLC0415 - of an extra

        try:
            with adbc.connect(self.url) as connection, connection.cursor() as cursor:
                cursor.execute(_SETTINGS)
                cursor.fetchall()
                yield cursor
        except adbc.Error as error:
            failed = self.failed(error)
            raise failed from harmless(error)

    def read(
        self, query: Query, fields: Sequence[DataField], fetch_size: int
    ) -> Iterator[pa.RecordBatch]:
        with self._connected() as cursor:
            columns = self._selected(cursor, query, fields)
            guarded = [at for at, each in enumerate(columns) if each.guard is not None]
            guards = [columns[at].guard or "" for at in guarded]
            cursor.execute(query.text([*(column.expression for column in columns), *guards]))
            for batch in cursor.fetch_record_batch():
                if not batch.num_rows:
                    continue
                for at, flags in zip(guarded, batch.columns[len(fields) :], strict=True):
                    if pc.any(flags).as_py():
                        raise self._nested_array(fields[at])
                own = pa.RecordBatch.from_arrays(
                    batch.columns[: len(fields)], [each.name for each in fields]
                )
                yield fitted(own, fields, table=self.owner)

    def _selected(
        self, cursor: Any, query: Query, fields: Sequence[DataField]
    ) -> Sequence[Selected]:
        if query.is_computed:
            return [Selected(quoted(each.name)) for each in fields]
        known = self._kinds_by(cursor)
        return [
            selected(quoted(each.name), each, known.get(each.name), self.owner) for each in fields
        ]

    def _nested_array(self, column: DataField) -> InvalidRows:
        return InvalidRows(
            f"{self.owner}: column {column.name} is {column.type}, and the database has an array "
            "of several dimensions there; declare the column as STRING, or make a view there that "
            "selects its parts",
            column=column.name,
        )

    def columns(self) -> Sequence[str]:
        with self._connected() as cursor:
            cursor.execute(self._nothing)
            return _names(cursor)

    def type_of(self, data_type: DataType) -> str:
        root = _root_of(data_type, self.owner)
        if root.is_bytes:
            return "BYTEA"
        if root.is_text:
            return "TEXT"
        return _OF_POSTGRES.get(root) or str(data_type).removesuffix(" NOT NULL")

    def write(self, batches: Iterator[Change], creating: Sequence[DataField] = ()) -> int:
        count = 0
        with self._connected() as cursor:
            if creating:
                cursor.execute(self.creation(creating, self.keys))
            for change in batches:
                count += change.rows.num_rows
                self._check_no_finer(change.rows)
                self._carry_out(cursor, change)
            cursor.connection.commit()
        return count

    def _carry_out(self, cursor: Any, change: Change) -> None:
        """Copy the rows into a temporary table, and from there by one statement."""
        names = change.rows.column_names
        cursor.adbc_ingest(_STAGED, change.rows, mode="create", temporary=True)
        if change.kind is RowKind.DELETE:
            same = " AND ".join(f"o.{quoted(name)} = n.{quoted(name)}" for name in names)
            cursor.execute(
                f"DELETE FROM {self.name} AS o USING {_STAGED} AS n WHERE {same}"  # noqa: S608
            )
        else:
            self._check_kept(cursor)
            cursor.execute(
                f"INSERT INTO {self.name} ({_list(names)}) SELECT {_list(names)} "  # noqa: S608
                f"FROM {_STAGED}{on_conflict(names, change.keys)}"
            )
        cursor.execute(f"DROP TABLE {_STAGED}")

    def _check_no_finer(self, rows: pa.Table) -> None:
        """Refuse nanoseconds, which the driver would cut."""
        for name, column in zip(rows.column_names, rows.columns, strict=True):
            for chunk in column.chunks:
                finer = _finer_than_micros(chunk)
                if finer is not None:
                    raise InvalidRows(
                        f"{self.owner}: column {name} holds {finer}, and PostgreSQL has "
                        "microseconds; round the values first, such as by a cast to TIMESTAMP(6)",
                        column=name,
                    )

    def _check_kept(self, cursor: Any) -> None:
        """Refuse staged rows that the columns of the table would round or cut without a word."""
        known = self._kinds_by(cursor)
        relation = "'" + self.name.replace("'", "''") + "'::regclass"
        cursor.execute(_OTHER_TYPES.format(relation=relation, staged=_STAGED))
        for name, kind, staged in cursor.fetchall():
            own = known[name]
            if (own.element or own.name) not in NARROW:
                continue
            column = quoted(name)
            cursor.execute(
                f"SELECT {column}::text, {column}::{kind}::text FROM {_STAGED} "  # noqa: S608
                f"WHERE {column}::{kind}::{staged} IS DISTINCT FROM {column} LIMIT 1"
            )
            for value, kept in cursor.fetchall():
                raise InvalidRows(
                    f"{self.owner}: column {name} is {kind} in the database, which would keep "
                    f"{value} as {kept}; convert the values first, or change the column there",
                    column=name,
                )

    def truncate(self) -> None:
        with self._connected() as cursor:
            cursor.execute(f"TRUNCATE TABLE {self.name}")
            cursor.connection.commit()


def open_database(
    url: str,
    table: str,
    owner: str,
    *,
    user: str | None,
    password: str | None,
    keys: tuple[str, ...] = (),
) -> Database:
    """The database of an address; `jdbc:` may stand before it.

    Raises:
        InvalidOption: no such database is known.
    """
    url = url.removeprefix("jdbc:")
    if url.startswith("sqlite:"):
        path = url.removeprefix("sqlite:")
        return Sqlite("sqlite:///" + path.removeprefix("///"), table, owner, keys)
    if url.startswith(("postgresql:", "postgres:")):
        return Postgres(_with_user(url, user, password), table, owner, keys)
    raise InvalidOption(
        f"url of {owner} is {shown_url(url)!r}; write sqlite:///path or "
        "postgresql://host:port/database",
        option="url",
    )


def _root_of(data_type: DataType, owner: str) -> TypeRoot:
    if not isinstance(data_type, AtomicType):
        raise UnsupportedError(
            f"{owner} would have a column of {data_type}, which no table of a database is made "
            "with here; make the table there, and describe it"
        )
    return data_type.root


def quoted(name: str) -> str:
    """A name as both databases quote it."""
    return '"' + name.replace('"', '""') + '"'


def plain_literal(value: object) -> str:
    """A number, truth value or text as both databases write it."""
    if isinstance(value, bool):
        return str(value).upper()
    return str(value) if isinstance(value, int) else "'" + str(value).replace("'", "''") + "'"


def _secrets(url: str) -> Iterator[str]:
    """The password of an address, and secret parameters, in both ways to write them."""
    address, _, query = url.partition("?")
    password = address.partition("://")[2].rpartition("@")[0].partition(":")[2]
    parameters = (value for name, value in parse_qsl(query) if is_secret(name))
    yield from filter(None, (password, unquote(password), *parameters))


def shown_url(url: str) -> str:
    """An address without its password, and without parameters, which may hold one."""
    return shown_text(url).partition("?")[0]


def on_conflict(names: Sequence[str], keys: Sequence[str]) -> str:
    """What an INSERT does where a key is there."""
    if not keys:
        return ""
    others = [name for name in names if name not in keys]
    sets = ", ".join(f"{quoted(name)} = excluded.{quoted(name)}" for name in others)
    return f" ON CONFLICT ({_list(keys)}) DO " + (f"UPDATE SET {sets}" if sets else "NOTHING")


def _with_user(url: str, user: str | None, password: str | None) -> str:
    if user is None and password is None:
        return url
    parts = urlsplit(url)
    host = parts.netloc.rpartition("@")[2]
    name = quote(user or parts.username or "", safe="")
    secret = "" if password is None else ":" + quote(password, safe="")
    return urlunsplit(parts._replace(netloc=f"{name}{secret}@{host}"))


def _list(names: Sequence[str]) -> str:
    return ", ".join(map(quoted, names))


def _pairs(names: Sequence[str]) -> str:
    return " AND ".join(f"{quoted(name)} = ?" for name in names)


def _affinity(kind: str) -> str:
    """`REAL` or `NUMERIC` for a declared type by which SQLite converts values, else empty."""
    if "INT" in kind:
        return "NUMERIC"
    if not kind or any(part in kind for part in ("CHAR", "CLOB", "TEXT", "BLOB")):
        return ""
    return "REAL" if any(part in kind for part in ("REAL", "FLOA", "DOUB")) else "NUMERIC"


def _number(value: int | str, affinity: str) -> float | int:
    """The number that SQLite keeps of a whole one, or of a text of digits."""
    exact = Decimal(value)
    is_whole = affinity == "NUMERIC" and abs(exact) < 2**63 and exact == int(exact)
    return int(exact) if is_whole else float(exact)


def _changed(column: pa.ChunkedArray, affinity: str) -> int | str | None:
    """A value of which SQLite makes another number, or another text of digits."""
    is_text, is_whole = pa.types.is_string(column.type), pa.types.is_integer(column.type)
    if not (is_text or pa.types.is_decimal(column.type) or (is_whole and affinity == "REAL")):
        return None
    for value in _kept(column):
        is_number = isinstance(value, int) or (
            isinstance(value, str) and _DIGITS.fullmatch(value) is not None
        )
        if not is_number:
            continue
        assert isinstance(value, int | str)
        kept = repr(_number(value, affinity))
        if kept != value if is_text else Decimal(kept) != Decimal(value):
            return value
    return None


def _finer_than_micros(array: pa.Array) -> pa.Scalar | None:
    """A timestamp, at any depth, that microseconds do not hold."""
    if pa.types.is_list(array.type):
        return _finer_than_micros(array.flatten())
    if not pa.types.is_timestamp(array.type) or array.type.unit != "ns":
        return None
    numbers = array.cast(pa.int64()).drop_null()
    finer = numbers.filter(pa.array(numbers.to_numpy() % 1_000 != 0))
    plain = pa.timestamp("ns")
    return finer[:1].cast(plain).cast(pa.string())[0] if len(finer) else None


def _kept(column: pa.ChunkedArray) -> list[object]:
    """Values as SQLite keeps them: moments and exact numbers as texts."""
    kind = column.type
    plain = pa.types.is_integer(kind) or pa.types.is_floating(kind) or pa.types.is_boolean(kind)
    values = column.to_pylist()
    if plain or pa.types.is_string(kind) or pa.types.is_binary(kind):
        return list(values)
    return [None if value is None else str(value) for value in values]
