"""Locks for stores that cannot create a file only if it is absent.

An open transaction holds the lock, so the lock is free again when its holder dies.
"""

from __future__ import annotations

import sqlite3
from collections.abc import Iterator
from contextlib import AbstractContextManager, closing, contextmanager
from dataclasses import dataclass
from hashlib import blake2b
from typing import Protocol

from lakewright.storage.errors import UnavailableError
from lakewright.storage.files.databases import (
    CONNECT_SECONDS,
    SqliteDatabase,
    open_database,
    psycopg,
)
from lakewright.storage.files.store_failures import harmless
from lakewright.storage.secret_texts import without_secrets

LOCK_VARIABLE = "LAKEWRIGHT_LOCK"
# A writer holds the lock while it checks whether a file exists and writes it.
_WAIT_SECONDS = 60


class Lock(Protocol):
    """A lock that one writer holds at a time; it pickles, and contains no secret."""

    def held(self, name: str) -> AbstractContextManager[None]:
        """Hold the lock of a name during the context.

        Raises:
            UnavailableError: other writers held the lock for too long, the lock could not be
            requested, or it was lost during the context, so that another writer may have worked at
            the same time.
        """
        ...


def open_lock(url: str) -> Lock:
    """The lock that a URL names: `sqlite:///path` or `postgresql://host/database`.

    Raises:
        InvalidRequestError: the URL names no lock, or holds a password.
        UnsupportedError: a package is missing; the message says how to install it.
    """
    database = open_database(url, use="lock")
    if isinstance(database, SqliteDatabase):
        return SqliteLock(database.path)
    return PostgresLock(database.url)


@dataclass(frozen=True)
class SqliteLock:
    """The write lock of an SQLite file: for writers on one machine, which share its local disk."""

    path: str
    wait_seconds: float = _WAIT_SECONDS

    @contextmanager
    def held(self, name: str) -> Iterator[None]:
        try:
            connection = sqlite3.connect(self.path, timeout=self.wait_seconds, isolation_level=None)
        except sqlite3.Error as error:
            raise self._unavailable(name, error) from error
        with closing(connection):
            try:
                connection.execute("BEGIN IMMEDIATE")
            except sqlite3.Error as error:
                raise self._unavailable(name, error) from error
            yield

    def _unavailable(self, name: str, error: sqlite3.Error) -> UnavailableError:
        return UnavailableError(
            f"the lock at {self.path} was not acquired within {self.wait_seconds:g} s for {name}: "
            f"{error}; check that its folder exists and which process holds it, and try again",
            path=name,
        )


@dataclass(frozen=True)
class PostgresLock:
    """An advisory lock for each name in PostgreSQL: for writers on any number of machines."""

    url: str
    wait_seconds: float = _WAIT_SECONDS

    @contextmanager
    def held(self, name: str) -> Iterator[None]:
        failures = psycopg().Error
        try:
            connection = psycopg().connect(self.url, connect_timeout=CONNECT_SECONDS)
        except failures as error:
            raise self._unavailable(name, error) from harmless(error)
        with closing(connection):
            try:
                connection.execute(f"SET LOCAL lock_timeout = '{int(self.wait_seconds * 1000)}ms'")
                connection.execute("SELECT pg_advisory_xact_lock(%s)", [_number(name)])
            except failures as error:
                raise self._unavailable(name, error) from harmless(error)
            yield
            try:
                # A writer that lost its session lost the lock too, possibly before its work was
                # done.
                connection.execute("SELECT 1")
            except failures as error:
                raise self._unavailable(name, error) from harmless(error)

    def _unavailable(self, name: str, error: Exception) -> UnavailableError:
        return UnavailableError(
            f"the lock at {without_secrets(self.url)} was not acquired, or was lost, within "
            f"{self.wait_seconds:g} s for {name}: {without_secrets(str(error)).strip()}; check "
            "that the database answers and which session holds the lock, and try again",
            path=name,
        )


def _number(name: str) -> int:
    return int.from_bytes(blake2b(name.encode(), digest_size=8).digest(), "big", signed=True)
