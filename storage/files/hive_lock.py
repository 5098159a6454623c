"""The lock of a table in Hive's metastore, which Paimon's Hive catalog takes for its commits.

The metastore forgets a lock that is not asked about for some minutes, so that of a dead holder
ends by itself. A writer that held one for that long is told that it may have lost it.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass

from lakewright.storage.env import Env
from lakewright.storage.errors import NotWritten, StorageError, UnavailableError
from lakewright.storage.files.hive_client import HiveMetastore

_FIRST_SLEEP_MS = 50


@dataclass(frozen=True)
class HiveLock:
    """Implements `Lock` for the files of one table."""

    metastore: HiveMetastore
    database: str
    table: str
    env: Env
    longest_sleep_ms: int
    timeout_ms: int

    @contextmanager
    def held(self, name: str) -> Iterator[None]:
        lock = self._acquired(name)
        try:
            yield
        finally:
            is_ours = self.metastore.unlock(lock)
        if not is_ours:
            raise UnavailableError(
                f"lock {lock} of {self.database}.{self.table} was lost while {name} was written, "
                "so another writer may have worked at the same time; read the table, and raise "
                "metastore.txn.timeout in the metastore",
                path=name,
            )

    def _acquired(self, name: str) -> int:
        lock = None
        try:
            asked_ms, sleep_ms = self.env.now_ms(), _FIRST_SLEEP_MS
            lock, is_held = self.metastore.lock(self.database, self.table)
            while not is_held:
                if self.env.now_ms() - asked_ms > self.timeout_ms:
                    raise NotWritten(
                        f"the lock of {self.database}.{self.table} was not acquired within "
                        f"{self.timeout_ms / 1000:g} s for {name}; another writer holds it in the "
                        f"metastore at {self.metastore.url}",
                        path=name,
                    )
                sleep_ms = min(sleep_ms * 2, self.longest_sleep_ms)
                self.env.sleep_ms(sleep_ms)
                is_held = self.metastore.is_held(lock)
        except BaseException as error:
            if lock is not None:
                # A request that stays in the queue would block others until it is forgotten.
                with suppress(StorageError):
                    self.metastore.unlock(lock)
            if isinstance(error, StorageError) and not isinstance(error, NotWritten):
                raise NotWritten(
                    f"the lock of {self.database}.{self.table} was not acquired: {error.message}",
                    path=name,
                ) from error
            raise
        return lock
