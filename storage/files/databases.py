"""SQL databases that writers share: an SQLite file, or PostgreSQL."""

from __future__ import annotations

import importlib
import re
import sqlite3
from collections.abc import Iterator
from contextlib import closing, contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any
from urllib.parse import unquote

from lakewright.storage.errors import InvalidRequestError, UnavailableError
from lakewright.storage.extras import needed_for
from lakewright.storage.files.store_failures import harmless
from lakewright.storage.secret_texts import without_secrets

CONNECT_SECONDS = 10
_SQLITE = re.compile(r"sqlite:(?:///+|/)(?P<path>[^/?#][^?#]*)")
_HOST = r"(?:\[[0-9A-Fa-f:.%]+\]|[^\[\]:@/?#,\s]*)(?::\d*)?"
_POSTGRES = re.compile(
    r"postgres(?:ql)?://(?!\?|$)(?:(?P<user>[^:@/?#\s]*)@)?"
    rf"{_HOST}(?:,{_HOST})*(?:/[^@/?#\s]*)?"
    r"(?:\?(?P<given>[A-Za-z_]+=[^@#&\s]*(?:&[A-Za-z_]+=[^@#&\s]*)*)?)?"
)
_SECRET_KEY = re.compile(r"(?i)(?:pass|pwd|secret|token|credential|scram)\w*\s*=")
_ADVICE = "leave a password out, and put it into PGPASSWORD, or into a file that PGPASSFILE names"
# Each statement of ours is short, so a file that is busy for longer is stuck.
_BUSY_SECONDS = 60


class DatabaseSession:
    """One connection, on which each statement commits unless a transaction is open."""

    def __init__(self, connection: Any, *, mark: str, begin: str) -> None:
        self._connection = connection
        self._mark = mark
        self._begin = begin

    def rows(self, sql: str, *values: object) -> list[tuple[Any, ...]]:
        """The rows of a query with `?` for its values."""
        return list(self._run(sql, values).fetchall())

    def change(self, sql: str, *values: object) -> int:
        """Run a statement with `?` for its values; returns how many rows it changed."""
        return int(self._run(sql, values).rowcount)

    @contextmanager
    def transaction(self) -> Iterator[None]:
        """All statements within the context take effect together, or none does."""
        self._run(self._begin, ())
        try:
            yield
        except BaseException:
            self._run("ROLLBACK", ())
            raise
        self._run("COMMIT", ())

    def _run(self, sql: str, values: tuple[object, ...]) -> Any:
        return self._connection.execute(sql.replace("?", self._mark), values)


@dataclass(frozen=True)
class SqliteDatabase:
    """A file on a local disk: for processes of one machine; it pickles, as the other does."""

    path: str

    @property
    def failures(self) -> type[Exception]:
        return sqlite3.Error

    @property
    def url(self) -> str:
        return f"sqlite://{self.path}"

    @contextmanager
    def session(self) -> Iterator[DatabaseSession]:
        """A connection during the context.

        Raises:
            UnavailableError: the database cannot be reached, or a statement failed.
        """
        try:
            connection = sqlite3.connect(self.path, timeout=_BUSY_SECONDS, isolation_level=None)
            with closing(connection):
                yield DatabaseSession(connection, mark="?", begin="BEGIN IMMEDIATE")
        except sqlite3.Error as error:
            raise UnavailableError(
                f"the database at {self.path} failed: {error}; check that its folder exists and "
                "which process holds it",
                path=self.path,
            ) from error

    def has_table(self, session: DatabaseSession, name: str) -> bool:
        """Whether the database has a table of that name."""
        found = session.rows("SELECT 1 FROM sqlite_master WHERE type = 'table' AND name = ?", name)
        return bool(found)

    def exists(self) -> bool:
        """Whether the file is there; the first connection makes it, but not its folder.

        Raises:
            UnavailableError: the folder is not there, so the path is wrong, or its disk is gone.
        """
        file = Path(self.path)
        if not file.parent.is_dir():
            raise UnavailableError(
                f"there is no folder {file.parent} for the database at {self.path}; check the path "
                "and whether its disk is mounted, or make the folder",
                path=self.path,
            )
        return file.exists()


@dataclass(frozen=True)
class PostgresDatabase:
    """A database of a PostgreSQL server: for processes on any number of machines.

    Its URL holds no secret.
    """

    url: str

    @property
    def failures(self) -> type[Exception]:
        return psycopg().Error  # type: ignore[no-any-return]

    @contextmanager
    def session(self) -> Iterator[DatabaseSession]:
        """A connection during the context.

        Raises:
            UnavailableError: the database cannot be reached, or a statement failed.
        """
        try:
            connection = psycopg().connect(
                self.url,
                connect_timeout=CONNECT_SECONDS,
                autocommit=True,
            )
            with closing(connection):
                # Times without a zone are compared with the server's clock in the session's zone.
                connection.execute("SET TIME ZONE 'UTC'")
                yield DatabaseSession(connection, mark="%s", begin="BEGIN")
        except self.failures as error:
            raise UnavailableError(
                f"the database at {without_secrets(self.url)} failed: "
                f"{without_secrets(str(error)).strip()}; check that it answers, and PGPASSWORD or "
                "the file that PGPASSFILE names"
            ) from harmless(error)

    def has_table(self, session: DatabaseSession, name: str) -> bool:
        """Whether the database has a table of that name."""
        return session.rows("SELECT to_regclass(?)", name) != [(None,)]

    def exists(self) -> bool:
        """Whether it is there: a server says so itself when it is asked."""
        return True


Database = SqliteDatabase | PostgresDatabase


def open_database(url: str, *, use: str) -> Database:
    """The database that a URL names; it is not connected yet.

    `sqlite:///path` or `postgresql://host/database`, as they are or with `jdbc:` in front. `use`
    is the noun of errors, such as "lock".

    No message repeats more of a URL than its scheme, since the rest may hold a secret.

    Raises:
        InvalidRequestError: the URL names no database, or may hold a password.
        UnsupportedError: a package is missing; the message says how to install it.
    """
    url = url.removeprefix("jdbc:")
    scheme = url.partition(":")[0] if ":" in url else ""
    if (file := _SQLITE.fullmatch(url)) is not None:
        return SqliteDatabase(f"/{file['path']}")
    if scheme.strip().lower() in ("postgresql", "postgres"):
        _check_postgres(url, use)
        psycopg()
        return PostgresDatabase(url)
    raise InvalidRequestError(
        # A relative path would mean different files for writers in different folders.
        f"the {use}'s URL {f'{scheme}:…' if scheme.isalnum() else 'without a scheme'} is of an "
        "unknown kind; write sqlite:///path, with an absolute path, or postgresql://host/database"
    )


def _check_postgres(url: str, use: str) -> None:
    """Refuse a URL in which the client could find a password, or show one as a part of it.

    The client takes all up to an `@` for user and password, with a `#` or `?` too. So each part
    has to be written in the one way that all readers of URLs read alike.
    """
    parts = _POSTGRES.fullmatch(url)
    if parts is None or ":" in unquote(parts["user"] or ""):
        raise InvalidRequestError(
            f"the {use}'s URL holds a password, or is not of the form "
            "postgresql://user@host:port/database?key=value, with other characters as %XX; "
            f"{_ADVICE}"
        )
    if _SECRET_KEY.search(unquote(parts["given"] or "")):
        raise InvalidRequestError(
            f"the {use}'s URL holds a password or another secret after its ?; {_ADVICE}"
        )


def psycopg() -> Any:
    """The client of PostgreSQL."""
    with needed_for("a lock or a catalog in PostgreSQL"):
        return importlib.import_module("psycopg")
