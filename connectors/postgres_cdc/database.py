"""A table of a PostgreSQL server, its publication and its slot, by statements of SQL."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from importlib import import_module
from itertools import chain
from typing import Any, Self, TypeVar

import pyarrow as pa
from pyarrow import csv

from lakewright.connectors.capture.endpoint import Endpoint
from lakewright.connectors.postgres_cdc.pgoutput import Column
from lakewright.storage.env import Env
from lakewright.storage.errors import (
    AccessRefused,
    InvalidRequestError,
    StorageError,
    UnavailableError,
)
from lakewright.storage.extras import needed_for

PLUGIN = "pgoutput"
_CONNECT_SECONDS = 30
_PAUSE_MS = 100
_MESSAGES_AT_ONCE = 10_000
# How long another process may hold the slot: the server notices late that a killed one is gone.
_PATIENCE_MS = 60_000
# Texts of values depend on these settings; a batch may take long to write. A policy that hides rows
# is an error: changes come without it.
_SETTINGS = """
SET TimeZone = 'UTC'; SET DateStyle = 'ISO'; SET IntervalStyle = 'iso_8601';
SET extra_float_digits = 1; SET bytea_output = 'hex'; SET statement_timeout = 0;
SET idle_in_transaction_session_timeout = 0; SET row_security = off
"""
_KEY = """ARRAY(SELECT a.attname::text FROM pg_index i
        CROSS JOIN LATERAL unnest(i.indkey::int2[]) WITH ORDINALITY AS k(number, at)
        JOIN pg_attribute a ON a.attrelid = i.indrelid AND a.attnum = k.number
        WHERE i.indrelid = c.oid AND k.at <= i.indnkeyatts
          AND CASE c.relreplident WHEN 'i' THEN i.indisreplident ELSE i.indisprimary END
        ORDER BY k.at)"""
_TABLE = f"""
SELECT c.oid::bigint, c.relkind::text, c.relreplident::text,
  {_KEY},
  EXISTS(SELECT FROM pg_index i
         WHERE i.indrelid = c.oid AND i.indisprimary AND NOT i.indimmediate)
FROM pg_class c JOIN pg_namespace n ON n.oid = c.relnamespace
WHERE n.nspname = %s AND c.relname = %s
"""  # noqa: S608 - constants
_COLUMNS = """
SELECT attname::text, atttypid::bigint, atttypmod FROM pg_attribute
WHERE attrelid = %s::oid AND attnum > 0 AND NOT attisdropped AND attgenerated = ''
ORDER BY attnum
"""
_SERVER = """
SELECT system_identifier::text, timeline_id FROM pg_control_system(), pg_control_checkpoint()
"""
# What the rows and the changes of a table depend on. A publication has a table by itself or by an
# ancestor, by its schema (PostgreSQL 15), or as all tables; with its schema, no filter counts. Who
# moves a table to another schema, or to another parent, writes the rows of the catalog that say so.
# Texts of a column depend on its type, and on those of its elements, base, range and attributes.
_STATE = """
SELECT jsonb_build_object(
  'table', c.oid::bigint, 'file', pg_relation_filenode(c.oid)::bigint,
  'toast', nullif(c.reltoastrelid, 0)::bigint,
  'key', {key}, 'is_logged', c.relpersistence = 'p',
  'in_schema', (SELECT d.xmin::text FROM pg_depend d WHERE d.objid = c.oid AND d.objsubid = 0
    AND d.classid = 'pg_class'::regclass AND d.refclassid = 'pg_namespace'::regclass),
  'parents', (SELECT jsonb_agg(i.inhparent::regclass::text || ' since transaction '
      || i.xmin::text ORDER BY i.inhrelid) FROM pg_inherits i
    WHERE i.inhrelid IN (SELECT relid FROM pg_partition_ancestors(c.oid))),
  'columns', (SELECT jsonb_object_agg(a.attname, jsonb_build_object(
      'type', format_type(a.atttypid, a.atttypmod), 'place', a.attnum, 'version', a.xmin::text,
      'default', pg_get_expr(d.adbin, d.adrelid),
      'labels', t.labels, 'label_versions', t.versions, 'attributes', t.attributes))
    FROM pg_attribute a
    LEFT JOIN pg_attrdef d ON (d.adrelid, d.adnum) = (a.attrelid, a.attnum)
    LEFT JOIN (
      WITH RECURSIVE within(place, id) AS (
        SELECT w.attnum, w.atttypid FROM pg_attribute w
          WHERE w.attrelid = c.oid AND w.attnum > 0 AND NOT w.attisdropped
        UNION SELECT within.place, part.id FROM within
        JOIN pg_type t ON t.oid = within.id CROSS JOIN LATERAL (
          SELECT t.typelem UNION ALL SELECT t.typbasetype
          UNION ALL SELECT r.rngsubtype FROM pg_range r WHERE t.typtype IN ('r', 'm')
            AND (r.rngtypid = t.oid OR to_jsonb(r)->>'rngmultitypid' = t.oid::text)
          UNION ALL SELECT m.atttypid FROM pg_attribute m
            WHERE m.attrelid = t.typrelid AND m.attnum > 0 AND NOT m.attisdropped) part(id)
        WHERE part.id <> 0)
      SELECT within.place,
        jsonb_object_agg(e.oid::text, e.enumlabel) FILTER (WHERE e.oid > 0) AS labels,
        jsonb_object_agg(e.oid::text, e.xmin::text) FILTER (WHERE e.oid > 0) AS versions,
        jsonb_object_agg(k.oid::text, (SELECT jsonb_agg(m.attnum ORDER BY m.attnum)
            FROM pg_attribute m
            WHERE m.attrelid = k.typrelid AND m.attnum > 0 AND NOT m.attisdropped))
          FILTER (WHERE k.typtype = 'c') AS attributes
      FROM within JOIN pg_type k ON k.oid = within.id AND k.typtype IN ('e', 'c')
      LEFT JOIN pg_enum e ON e.enumtypid = k.oid
      GROUP BY within.place
    ) t ON t.place = a.attnum
    WHERE a.attrelid = c.oid AND a.attnum > 0 AND NOT a.attisdropped AND a.attgenerated = ''),
  'publication', (SELECT jsonb_build_object(
      'oid', p.oid::bigint, 'version', p.xmin::text, 'all', p.puballtables,
      'operations', array_remove(ARRAY[CASE WHEN p.pubinsert THEN 'insert' END,
        CASE WHEN p.pubupdate THEN 'update' END, CASE WHEN p.pubdelete THEN 'delete' END,
        CASE WHEN p.pubtruncate THEN 'truncate' END], NULL),
      'by_root', coalesce(to_jsonb(p)->>'pubviaroot' = 'true', false),
      'schemas', {schemas},
      'tables', (SELECT jsonb_agg(jsonb_build_object(
          'oid', r.oid::bigint, 'of', r.prrelid::bigint,
          'filter', to_jsonb(r)->'prqual' <> 'null',
          'columns', (SELECT jsonb_agg(l.attname) FROM pg_attribute l
            WHERE l.attrelid = r.prrelid
              AND to_jsonb(r)->'prattrs' @> to_jsonb(l.attnum)))
          ORDER BY r.oid)
        FROM pg_publication_rel r WHERE r.prpubid = p.oid AND (r.prrelid = c.oid
          OR r.prrelid IN (SELECT relid FROM pg_partition_ancestors(c.oid)))))
    FROM pg_publication p WHERE p.pubname = %s))
FROM pg_class c JOIN pg_namespace n ON n.oid = c.relnamespace
WHERE n.nspname = %s AND c.relname = %s
"""
_NO_SCHEMAS = "NULL::jsonb"
_SCHEMAS = """(SELECT jsonb_agg(s.oid::bigint) FROM pg_publication_namespace s
  WHERE s.pnpubid = p.oid AND s.pnnspid = c.relnamespace)"""
_PUBLISHES_SCHEMAS = 150_000
_SLOT = """
SELECT plugin::text, database::text, wal_status,
  coalesce((to_jsonb(slots) ->> 'two_phase')::bool, false), confirmed_flush_lsn - '0/0',
  pg_current_wal_insert_lsn() - '0/0', pg_current_wal_flush_lsn() - '0/0'
FROM pg_replication_slots AS slots WHERE slot_name = %s
"""
_PEEK = """
SELECT data FROM pg_logical_slot_peek_binary_changes(
  %s, %s::pg_lsn, %s, 'proto_version', '1', 'publication_names', %s)
"""
# The first byte of a message is its kind: I, U or D.
_COUNT = f"SELECT count(*) FROM ({_PEEK}) AS peeked WHERE get_byte(data, 0) IN (73, 85, 68)"  # noqa: S608
_WRITERS = """
SELECT pid, usename::text, xact_start::timestamp(0)::text FROM pg_stat_activity
WHERE backend_xid IS NOT NULL AND pid <> pg_backend_pid() ORDER BY xact_start LIMIT 10
"""
_ADVANCE = """
SELECT pg_replication_slot_advance(slot_name, %s::pg_lsn) FROM pg_replication_slots
WHERE slot_name = %s AND confirmed_flush_lsn < %s::pg_lsn
"""

# What does not pass by itself: an object that is not in the state that a statement needs, as with
# a wal_level that is too low, and a limit of the configuration, such as that of slots.
_NOT_PASSING = ("55000", "53400")
_REFUSED = (
    "authentication failed",
    "no password supplied",
    "pg_hba.conf",
    "does not exist",
    "not permitted to log in",
    "permission denied for database",
)

_T = TypeVar("_T")


class Server(Endpoint):
    """A database, and connections to it."""

    @contextmanager
    def told(self) -> Iterator[None]:
        """Failures of the client as errors that name the database.

        Raises:
            UnavailableError: the server cannot be reached.
            AccessRefused: it refuses the user or the password.
        InvalidRequestError: it refuses a statement.
        """
        psycopg = self._client()
        try:
            yield
        except psycopg.Error as error:
            kind: type[StorageError] = InvalidRequestError
            if isinstance(error, psycopg.OperationalError):
                kind = _kind_of(error)
            raise kind(
                f"database {self.database} at {self.hostname}:{self.port}, which {self.owner} "
                f"describes: {str(error).strip()}",
                table=self.owner,
            ) from error

    def connect(self) -> Connection:
        """A connection, for use within `told`."""
        psycopg = self._client()
        connection = psycopg.connect(
            host=self.hostname,
            port=self.port,
            dbname=self.database,
            user=self.username,
            password=self.password,
            client_encoding="utf8",
            connect_timeout=_CONNECT_SECONDS,
            autocommit=True,
        )
        connection.execute(_SETTINGS)
        return Connection(connection, psycopg)

    def _client(self) -> Any:
        with needed_for(f"connector postgres-cdc of {self.owner}"):
            return import_module("psycopg")


def _kind_of(error: Exception) -> type[StorageError]:
    """What to do about a failure to connect, or about one that passes.

    The client gives a refusal to connect as a text alone, in the language of the server.
    """
    state, said = getattr(error, "sqlstate", None), str(error)
    if state in _NOT_PASSING:
        return InvalidRequestError
    if state is None and any(each in said for each in _REFUSED):
        return AccessRefused
    return UnavailableError


@dataclass(frozen=True, slots=True)
class TableFacts:
    """What the catalog says of a table; `key` are the columns that identify its rows, in order."""

    oid: int
    kind: str
    identity: str
    key: tuple[str, ...]
    columns: tuple[Column, ...]
    # Of the key, as a cast names them.
    key_types: tuple[str, ...]
    # Whether the primary key is deferrable.
    is_deferrable: bool = False


@dataclass(frozen=True, slots=True)
class SlotFacts:
    """A slot, and how far the server's log goes: positions are numbers of bytes."""

    plugin: str
    database: str
    wal_status: str | None
    is_two_phase: bool
    confirmed: int
    inserted: int
    flushed: int


def lsn_text(lsn: int) -> str:
    """A position as PostgreSQL writes it."""
    return f"{lsn >> 32:X}/{lsn & 0xFFFFFFFF:X}"


def lsn_number(text: str) -> int:
    """The number of bytes that a position says."""
    high, _, low = text.partition("/")
    return (int(high, 16) << 32) + int(low, 16)


def quoted(name: str) -> str:
    """A name as SQL quotes it."""
    return '"' + name.replace('"', '""') + '"'


def marked(name: str) -> str:
    """A quoted name in a statement that has parameters."""
    return quoted(name).replace("%", "%%")


@dataclass(frozen=True)
class Connection:
    """A connection and the questions that the connector asks; every statement is a transaction."""

    client: Any
    psycopg: Any

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.client.close()

    def rows(self, statement: str, *values: object) -> list[Any]:
        found: list[Any] = self.client.execute(statement, values).fetchall()
        return found

    def run(self, statement: str, *values: object) -> bool:
        """Run a statement; False if the user lacks the right."""
        try:
            self.client.execute(statement, values or None)
        except self.psycopg.errors.InsufficientPrivilege:
            return False
        return True

    # --- the table ---

    def table(self, schema: str, name: str) -> TableFacts | None:
        found = self.rows(_TABLE, schema, name)
        if not found:
            return None
        oid, kind, identity, key, is_deferrable = found[0]
        columns = tuple(Column(*row) for row in self.rows(_COLUMNS, oid))
        types = {column.name: self.type_name(column) for column in columns if column.name in key}
        return TableFacts(
            oid,
            kind,
            identity,
            tuple(key),
            columns,
            tuple(types[name] for name in key),
            is_deferrable,
        )

    def type_name(self, column: Column) -> str:
        return str(
            self.rows("SELECT format_type(%s::oid, %s)", column.type_oid, column.modifier)[0][0]
        )

    def texts(self, query: str, values: Sequence[object], names: Sequence[str]) -> pa.Table:
        """The rows of a query as texts, as the server's output functions write them."""
        with self.client.cursor() as cursor:
            statement = f"COPY ({query}) TO STDOUT (FORMAT csv, FORCE_QUOTE *)"
            with cursor.copy(statement, values) as copy:
                data = b"".join(copy)
        schema = {name: pa.string() for name in names}
        if not data:
            return pa.schema(schema.items()).empty_table()
        return csv.read_csv(
            pa.BufferReader(data),
            # A block holds whole rows.
            csv.ReadOptions(column_names=list(names), block_size=len(data) + 1),
            csv.ParseOptions(newlines_in_values=True),
            csv.ConvertOptions(
                column_types=schema,
                null_values=[""],
                strings_can_be_null=True,
                quoted_strings_can_be_null=False,
            ),
        )

    # --- the log ---

    def server(self) -> tuple[str, int] | None:
        """The id of the database system and of its timeline; None if the user may not ask."""
        try:
            ((system, timeline),) = self.rows(_SERVER)
        except self.psycopg.errors.InsufficientPrivilege:
            return None
        return system, timeline

    def state(self, publication: str, schema: str, table: str) -> dict[str, Any] | None:
        """What rows and changes of a table depend on now; None if it is not there."""
        has_schemas = self.client.info.server_version >= _PUBLISHES_SCHEMAS
        schemas = _SCHEMAS if has_schemas else _NO_SCHEMAS
        asked = _STATE.replace("{schemas}", schemas).replace("{key}", _KEY)
        found = self.rows(asked, publication, schema, table)
        return dict(found[0][0]) if found else None

    def slot(self, name: str) -> SlotFacts | None:
        found = self.rows(_SLOT, name)
        if not found:
            return None
        plugin, database, status, is_two_phase, *positions = found[0]
        numbers = (int(position or 0) for position in positions)
        return SlotFacts(plugin, database, status, bool(is_two_phase), *numbers)

    @contextmanager
    def peek(
        self, slot: str, publication: str, env: Env, *, until: int | None, limit: int | None
    ) -> Iterator[Iterator[bytes]]:
        """Messages of whole transactions from the slot's position on, which stays.

        The server decodes and keeps them all before the first one comes, so the slot is free.
        """
        values = (slot, None if until is None else lsn_text(until), limit, quoted(publication))
        cursor: Any = None

        def ask() -> Any:
            nonlocal cursor
            # It reads in a transaction, in which each statement sees what was committed before it.
            self.client.execute("BEGIN")
            try:
                cursor = self.client.cursor("lakewright_peek", binary=True)
                cursor.itersize = _MESSAGES_AT_ONCE
                cursor.execute(_PEEK, values)
                return cursor.fetchmany(1)
            except BaseException:
                self.client.execute("ROLLBACK")
                raise

        first = self._patiently(ask, env)
        try:
            yield (data for (data,) in chain(first, cursor))
        finally:
            cursor.close()
            self.client.execute("ROLLBACK")

    def count_changes(self, slot: str, publication: str, env: Env, *, most: int) -> int:
        """About how many rows changed behind the slot's position, beyond `most` uncounted."""
        values = (slot, None, most, quoted(publication))
        ((count,),) = self._patiently(lambda: self.rows(_COUNT, *values), env)
        return int(count)

    def advance(self, slot: str, lsn: int, env: Env) -> None:
        """Let the server forget changes before a position."""
        text = lsn_text(lsn)
        self._patiently(lambda: self.rows(_ADVANCE, text, slot, text), env)

    def wait_for_flush(self, lsn: int, env: Env) -> None:
        """Wait until the log is on disk up to a position, beyond which decoding does not read."""
        self._until("SELECT pg_current_wal_flush_lsn() >= %s::pg_lsn", env, lsn_text(lsn))

    def make_slot(self, name: str) -> bool:
        """Make a slot, which waits for open transactions; False if the user lacks the right.

        Raises:
            UnavailableError: they stay open.
        """
        self.client.execute(f"SET lock_timeout = {_PATIENCE_MS}")
        try:
            return self.run("SELECT pg_create_logical_replication_slot(%s, %s)", name, PLUGIN)
        except self.psycopg.errors.LockNotAvailable as error:
            raise self._kept_waiting() from error
        finally:
            self.client.execute("SET lock_timeout = 0")

    def wait_for_writers(self, env: Env) -> None:
        """Wait until what every transaction wrote that runs now is visible, or was rolled back.

        Raises:
            UnavailableError: they stay open.
        """
        ((last,),) = self.rows("SELECT pg_snapshot_xmax(pg_current_snapshot())::text")
        ended = "SELECT pg_snapshot_xmin(pg_current_snapshot())::text::bigint >= %s::text::bigint"
        until = env.now_ms() + _PATIENCE_MS
        while self.rows(ended, last) == [(False,)]:
            if env.now_ms() > until:
                raise self._kept_waiting()
            env.sleep_ms(_PAUSE_MS)

    def _kept_waiting(self) -> UnavailableError:
        found = self.rows(_WRITERS)
        shown = ", ".join(f"process {pid} of {user} since {since}" for pid, user, since in found)
        return UnavailableError(
            f"a first start waits until transactions that wrote have ended, and after "
            f"{_PATIENCE_MS // 1000} seconds these are open: {shown or 'of processes unseen'}; end "
            "them (commit, or pg_terminate_backend), or start when they are over"
        )

    def wait_for_transaction(self, xid: int, env: Env) -> None:
        """Wait until what a decoded transaction wrote is visible.

        Its commit is in the log a moment before, or longer if replicas have to confirm it.
        """
        ((following,),) = self.rows("SELECT pg_snapshot_xmax(pg_current_snapshot())::text::bigint")
        # Messages have the lower half of the number.
        full = (following & ~0xFFFFFFFF) | xid
        full -= 0 if full < following else 1 << 32
        self._until("SELECT pg_xact_status(%s::text::xid8) <> 'in progress'", env, str(full))

    def _until(self, question: str, env: Env, *values: object) -> None:
        while self.rows(question, *values) == [(False,)]:
            env.sleep_ms(_PAUSE_MS)

    def _patiently(self, call: Callable[[], _T], env: Env) -> _T:
        until = env.now_ms() + _PATIENCE_MS
        while True:
            try:
                return call()
            except self.psycopg.errors.ObjectInUse:
                if env.now_ms() > until:
                    raise
                env.sleep_ms(_PAUSE_MS)
