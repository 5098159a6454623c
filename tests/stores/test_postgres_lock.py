"""A lock in PostgreSQL: held by a session, free when it ends, its password never told."""

from __future__ import annotations

import importlib
import pickle
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pytest

from lakewright.storage import Catalog
from lakewright.storage.errors import UnavailableError
from lakewright.storage.files.locks import PostgresLock, open_lock
from tests.support.stores.servers import SECRET, ftp_server, postgres_server
from tests.support.tables.builders import EVENTS, events, new_table, rows
from tests.support.tables.invariants import assert_sound

pytestmark = pytest.mark.servers


@pytest.fixture(scope="module")
def url() -> Iterator[str]:
    with postgres_server() as url:
        yield url


@pytest.fixture(autouse=True)
def password(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PGPASSWORD", SECRET)


def test_a_name_is_locked_by_one_at_a_time_and_others_are_not(url: str) -> None:
    impatient = PostgresLock(url, wait_seconds=0.3)
    with open_lock(url).held("s3/table/snapshot-1"):
        with impatient.held("s3/table/snapshot-2"):
            pass
        with pytest.raises(UnavailableError, match="lock"), impatient.held("s3/table/snapshot-1"):
            pass
    with impatient.held("s3/table/snapshot-1"):
        pass


def test_who_loses_the_session_is_told_and_the_lock_is_free(url: str) -> None:
    lock = PostgresLock(url, wait_seconds=1)
    with pytest.raises(UnavailableError, match="or was lost"), lock.held("x"):
        end_every_session(url)
    with lock.held("x"):
        pass


def end_every_session(url: str) -> None:
    """As a database does that is restarted."""
    psycopg: Any = importlib.import_module("psycopg")
    with psycopg.connect(url, autocommit=True) as other:
        other.execute("SELECT pg_terminate_backend(pid) FROM pg_locks WHERE locktype = 'advisory'")


def test_the_password_is_in_no_error_and_in_nothing_that_travels(
    url: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert SECRET.encode() not in pickle.dumps(open_lock(url))
    monkeypatch.setenv("PGPASSWORD", "another-secret-that-is-wrong")
    with pytest.raises(UnavailableError) as caught, open_lock(url).held("x"):
        pass
    assert "another-secret" not in repr(caught.value) + repr(caught.value.__cause__)


def test_writers_of_a_plain_store_lose_no_commit(url: str, tmp_path: Path) -> None:
    with ftp_server(tmp_path) as address:
        warehouse = f"ftp://{address}/w"
        new_table(Catalog.open(warehouse, lock=url), EVENTS)

        def append(writer: int) -> None:
            table = Catalog.open(warehouse, lock=url).table("db.t")
            for number in range(3):
                first = 100 * writer + number
                table.write(rows(table, events(first, first + 1)))

        with ThreadPoolExecutor(3) as pool:
            list(pool.map(append, range(3)))
        table = Catalog.open(warehouse).table("db.t")
        assert sorted(table.read().column("id").to_pylist()) == [
            100 * writer + number for writer in range(3) for number in range(3)
        ]
        assert_sound(table)
