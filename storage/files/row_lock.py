"""The lock of a table in a catalog's database: a row that its holder inserts and deletes.

It is the lock of Paimon's JDBC catalog, row for row, so Java's commits and ours exclude each other.
The row of a dead holder counts until it expires. A holder that works for longer than that may
have lost the lock to another, so it is told, and leaves the row alone.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from hashlib import blake2b

from lakewright.storage.env import Env
from lakewright.storage.errors import NotWritten, UnavailableError
from lakewright.storage.files.catalog_names import create_missing
from lakewright.storage.files.databases import Database, SqliteDatabase
from lakewright.storage.files.paths import DATABASE_SUFFIX

_LONGEST_ID = 255
_FIRST_SLEEP_MS = 100
_TABLE = {
    "paimon_distributed_locks": f"""(
        lock_id VARCHAR({_LONGEST_ID}) NOT NULL,
        acquired_at TIMESTAMP DEFAULT CURRENT_TIMESTAMP NOT NULL,
        expire_time_seconds BIGINT DEFAULT 0 NOT NULL,
        PRIMARY KEY (lock_id))"""
}
_INSERT = (
    "INSERT INTO paimon_distributed_locks (lock_id, expire_time_seconds) VALUES (?, ?) "
    "ON CONFLICT DO NOTHING"
)
_DELETE = "DELETE FROM paimon_distributed_locks WHERE lock_id = ?"
_EXPIRED_IN_SQLITE = "strftime('%s', 'now') - strftime('%s', acquired_at) > expire_time_seconds"
_EXPIRED_IN_POSTGRES = "EXTRACT(EPOCH FROM AGE(NOW(), acquired_at)) > expire_time_seconds"


@dataclass(frozen=True)
class RowLock:
    """Implements `Lock` for files below the root of a warehouse."""

    database: Database
    key: str
    root: str
    env: Env
    longest_sleep_ms: int
    timeout_ms: int

    @contextmanager
    def held(self, name: str) -> Iterator[None]:
        lock_id = self.lock_id(name)
        asked_ms = self.env.now_ms()
        sleep_ms = _FIRST_SLEEP_MS
        while not self._acquired(lock_id, name):
            if self.env.now_ms() - asked_ms > self.timeout_ms:
                raise NotWritten(
                    f"lock {lock_id} was not acquired within {self.timeout_ms / 1000:g} s for "
                    f"{name}; if its holder died, its row in paimon_distributed_locks expires",
                    path=name,
                )
            self.env.sleep_ms(min(sleep_ms, self.longest_sleep_ms))
            sleep_ms *= 2
        since_ms = self.env.now_ms()
        try:
            yield
        finally:
            is_ours = self.env.now_ms() - since_ms < self._expires_in_s() * 1000
            if is_ours:
                with self.database.session() as session:
                    is_ours = session.change(_DELETE, lock_id) == 1
        if not is_ours:
            raise UnavailableError(
                f"lock {lock_id} expired while {name} was written, so another writer may have "
                "worked at the same time; read the table, and give lock-acquire-timeout a larger "
                "value for all writers",
                path=name,
            )

    def lock_id(self, name: str) -> str:
        """The id of the table that a file belongs to, as `key.database.table`."""
        inside = name.removeprefix(f"{self.root.rstrip('/')}/")
        folder, *rest = inside.split("/")
        if inside != name and folder.endswith(DATABASE_SUFFIX) and len(rest) > 1:
            inside = f"{folder.removesuffix(DATABASE_SUFFIX)}.{rest[0]}"
        found = f"{self.key}.{inside}"
        if len(found) > _LONGEST_ID:
            found = f"{self.key[:64]}.{blake2b(found.encode(), digest_size=16).hexdigest()}"
        return found

    def _acquired(self, lock_id: str, name: str) -> bool:
        in_sqlite = isinstance(self.database, SqliteDatabase)
        expired = _EXPIRED_IN_SQLITE if in_sqlite else _EXPIRED_IN_POSTGRES
        try:
            with self.database.session() as session:
                create_missing(self.database, session, _TABLE)
                session.change(f"{_DELETE} AND {expired}", lock_id)
                return session.change(_INSERT, lock_id, self._expires_in_s()) == 1
        except UnavailableError as error:
            raise NotWritten(
                f"lock {lock_id} was not asked for: {error.message}", path=name
            ) from error

    def _expires_in_s(self) -> int:
        return self.timeout_ms // 1000
