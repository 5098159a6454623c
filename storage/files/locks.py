"""Locks for stores that cannot create a file only if it is absent.

Each is held by an open transaction, so that it is free again when whoever holds it dies.
"""

from __future__ import annotations

import importlib
import sqlite3
from collections.abc import Iterator
from contextlib import AbstractContextManager, closing, contextmanager
from dataclasses import dataclass
from hashlib import blake2b
from typing import Any, Protocol
from urllib.parse import parse_qsl, urlsplit

from lakewright.storage.errors import InvalidRequestError, UnavailableError, UnsupportedError
from lakewright.storage.files.store_failures import harmless, without_secrets

LOCK_VARIABLE = "LAKEWRIGHT_LOCK"
# A lock is held for as long as it takes to look whether a file is there and to write it.
_WAIT_SECONDS = 60
_CONNECT_SECONDS = 10


class Lock(Protocol):
    """What only one of all writers holds at a time; it pickles, and holds nothing secret."""

    def held(self, name: str) -> AbstractContextManager[None]:
        """Hold the lock of a name for as long as the context lasts.

        Raises:
            UnavailableError: others held it for too long, or it cannot be asked for, or it was
                lost meanwhile, so that what was done under it may have been done beside another.
        """
        ...


def open_lock(url: str) -> Lock:
    """The lock that a URL names: `sqlite:///path` or `postgresql://host/database`.

    Raises:
        InvalidRequestError: it names none, or holds a password.
        UnsupportedError: a package is missing; the message says how to install it.
    """
    parts = urlsplit(url)
    if parts.scheme == "sqlite" and not parts.netloc and parts.path.strip("/"):
        # Never a relative path: writers in other folders would hold other locks.
        return SqliteLock("/" + parts.path.lstrip("/"))
    if parts.scheme in ("postgresql", "postgres") and parts.netloc + parts.path:
        if parts.password is not None or any("pass" in key for key, _ in parse_qsl(parts.query)):
            raise InvalidRequestError(
                f"the lock at {parts.scheme}://{parts.hostname} is given with a password; leave it "
                "out, and put it into PGPASSWORD, or into a file that PGPASSFILE names"
            )
        _psycopg()
        return PostgresLock(url)
    raise InvalidRequestError(
        f"lock {without_secrets(url)!r} is of no kind that is known; write sqlite:///path or "
        "postgresql://host/database"
    )


@dataclass(frozen=True)
class SqliteLock:
    """A file's one write lock: for writers on one machine, which share its local disk."""

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
            f"the lock at {self.path} was not had within {self.wait_seconds:g} s for {name}: "
            f"{error}; see that its folder is there and who holds it, and try again",
            path=name,
        )


@dataclass(frozen=True)
class PostgresLock:
    """An advisory lock for each name: for writers on any machines."""

    url: str
    wait_seconds: float = _WAIT_SECONDS

    @contextmanager
    def held(self, name: str) -> Iterator[None]:
        failures = _psycopg().Error
        try:
            connection = _psycopg().connect(self.url, connect_timeout=_CONNECT_SECONDS)
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
                # Whoever lost the session lost the lock with it, maybe before the work was done.
                connection.execute("SELECT 1")
            except failures as error:
                raise self._unavailable(name, error) from harmless(error)

    def _unavailable(self, name: str, error: Exception) -> UnavailableError:
        return UnavailableError(
            f"the lock at {without_secrets(self.url)} was not had, or not kept, within "
            f"{self.wait_seconds:g} s for {name}: {without_secrets(str(error)).strip()}; see that "
            "the database answers and who holds it, and try again",
            path=name,
        )


def _number(name: str) -> int:
    return int.from_bytes(blake2b(name.encode(), digest_size=8).digest(), "big", signed=True)


def _psycopg() -> Any:
    try:
        return importlib.import_module("psycopg")
    except ImportError as error:
        raise UnsupportedError(
            "a lock in PostgreSQL needs a package that is not installed; "
            "pip install 'lakewright[postgres]'"
        ) from error
