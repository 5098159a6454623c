"""A catalog in PostgreSQL: one list for all machines, its password never told."""

from __future__ import annotations

import importlib
import pickle
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from lakewright.storage import Catalog
from lakewright.storage.errors import (
    AlreadyExistsError,
    DatabaseNotFound,
    InvalidRequestError,
    NotWritten,
    UnavailableError,
)
from lakewright.storage.files.remote_files import RemoteFiles
from lakewright.storage.files.row_lock import RowLock
from tests.support.stores.servers import SECRET, ftp_server, postgres_server
from tests.support.tables.builders import EVENTS, content, events, new_table, rows

pytestmark = pytest.mark.servers


@pytest.fixture(scope="module")
def url() -> Iterator[str]:
    with postgres_server() as url:
        yield url


@pytest.fixture(autouse=True)
def password(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PGPASSWORD", SECRET)


def options(url: str, key: str) -> dict[str, str]:
    return {"metastore": "jdbc", "uri": f"jdbc:{url}", "catalog-key": key}


@pytest.mark.mission("CT11")
def test_creators_and_readers_share_one_list(url: str, tmp_path: Path) -> None:
    def opened() -> Catalog:
        return Catalog.open(str(tmp_path), options=options(url, "shared"), durable=False)

    def create(name: str) -> bool:
        try:
            new_table(opened(), EVENTS, name=name)
        except AlreadyExistsError:
            return False
        return True

    with ThreadPoolExecutor(4) as pool:
        made = list(pool.map(create, ["db.a", "db.b"] * 4))
    assert sum(made) == 2
    catalog = opened()
    assert catalog.list_tables("db") == ("a", "b")
    assert catalog.plan_sync_tables(age_ms=0).is_none
    catalog.drop_table("db.a")
    assert opened().list_tables("db") == ("b",)
    assert Catalog.open(str(tmp_path), options=options(url, "other")).list_databases() == ()


@pytest.mark.mission("CT11")
def test_a_table_that_is_made_beside_the_drop_of_its_database_stays_listed(
    url: str, tmp_path: Path
) -> None:
    def opened() -> Catalog:
        return Catalog.open(str(tmp_path), options=options(url, "beside"), durable=False)

    def drop(database: str) -> None:
        with suppress(InvalidRequestError, DatabaseNotFound):
            opened().drop_database(database)

    for number in range(20):
        database = f"db{number}"
        opened().create_database(database)
        with ThreadPoolExecutor(3) as pool:
            made = pool.submit(new_table, opened(), EVENTS, name=f"{database}.t")
            for each in [pool.submit(drop, database) for _ in range(2)]:
                each.result()
            made.result()
        assert opened().list_tables(database) == ("t",)
        assert content(opened().table(f"{database}.t")) == []


def test_a_store_without_conditional_creates_is_locked_by_rows(url: str, tmp_path: Path) -> None:
    with ftp_server(tmp_path) as address:
        warehouse = f"ftp://{address}/w"
        catalog = Catalog.open(warehouse, options=options(url, "ftp"))
        assert isinstance(catalog.fs, RemoteFiles)
        assert isinstance(catalog.fs.lock, RowLock)
        new_table(catalog, EVENTS)

        def append(writer: int) -> None:
            table = Catalog.open(warehouse, options=options(url, "ftp")).table("db.t")
            for number in range(2):
                first = 100 * writer + number
                table.write(rows(table, events(first, first + 1)))

        with ThreadPoolExecutor(3) as pool:
            list(pool.map(append, range(3)))
        assert len(content(catalog.table("db.t"))) == 6


def test_the_row_of_a_dead_holder_expires(url: str, tmp_path: Path) -> None:
    catalog = Catalog.open(str(tmp_path), options={**options(url, "dead"), "lock.enabled": "true"})
    lock: Any = catalog.fs.lock  # type: ignore[attr-defined]
    path = f"{catalog.root}/db.db/t/snapshot/snapshot-1"
    dead = lock.held(path)
    dead.__enter__()
    psycopg: Any = importlib.import_module("psycopg")
    with pytest.raises(NotWritten), replace(lock, timeout_ms=0).held(path):
        pass
    with psycopg.connect(url, autocommit=True) as session:
        session.execute(
            "UPDATE paimon_distributed_locks SET acquired_at = acquired_at - interval '1 hour'"
        )
    with lock.held(path):
        pass


def test_the_password_is_in_no_error_and_in_nothing_that_travels(
    url: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    catalog = Catalog.open(str(tmp_path), options=options(url, "secret"))
    assert SECRET.encode() not in pickle.dumps(catalog)
    monkeypatch.setenv("PGPASSWORD", "another-secret-that-is-wrong")
    with pytest.raises(UnavailableError) as caught:
        catalog.list_databases()
    assert "another-secret" not in repr(caught.value) + repr(caught.value.__cause__)
