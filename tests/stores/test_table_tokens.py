"""Tables of a REST catalog on S3, into which the server's tokens let for a while."""

from __future__ import annotations

import re
import threading
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from lakewright.storage import Catalog
from lakewright.storage.env import SystemEnv
from lakewright.storage.errors import AccessRefused
from lakewright.storage.files.s3_files import S3Files
from tests.stores.conftest import settings
from tests.support.stores.faulty_proxy import FaultyProxy, Trouble
from tests.support.stores.rest_server import WAREHOUSE, RestCatalogServer
from tests.support.tables.builders import EVENTS, compact, content, events, new_table, rows
from tests.support.tables.invariants import assert_only_reachable_files

_KEY = re.compile(r"Credential=(?P<key>[^/,]+)/")


class ServerOnS3(RestCatalogServer):
    """A server that writes into a bucket, with rights of its own."""

    _own = S3Files(SystemEnv())

    def uri(self, path: str) -> str:
        return f"s3://{path}"

    def put(self, path: str, text: str) -> None:
        self._own.write_bytes(path, text.encode())

    def has(self, path: str) -> bool:
        return self._own.exists(path)

    def remove(self, path: str) -> None:
        self._own.delete_tree(path)


class Tokens:
    """Keys that expire; the store refuses one afterwards."""

    def __init__(self, life_ms: int) -> None:
        self.life_ms = life_ms
        self.ends: dict[str, int] = {}
        self.refused: list[str] = []
        self._lock = threading.Lock()

    def token(self, endpoint: str) -> tuple[dict[str, str], int]:
        with self._lock:
            name = f"key-{len(self.ends)}"
            self.ends[name] = time.time_ns() // 1_000_000 + self.life_ms
        given = {
            "fs.s3.accessKeyId": name,
            "fs.s3.accessKeySecret": "a-secret-of-a-table",
            "fs.s3.securityToken": "a-session-of-a-table",
            "fs.s3.endpoint": endpoint,
            "fs.s3.region": "us-east-1",
        }
        return given, self.ends[name]

    def admits(self, authorization: str) -> bool:
        found = _KEY.search(authorization)
        key = found["key"] if found else ""
        if self.ends.get(key, 0) > time.time_ns() // 1_000_000:
            return True
        self.refused.append(key)
        return False


@pytest.fixture
def tokens() -> Tokens:
    return Tokens(life_ms=6_000)


@pytest.fixture
def server(s3: str, proxy: FaultyProxy, s3_address: str, tokens: Tokens) -> Iterator[ServerOnS3]:
    bucket = s3.removeprefix("s3://").partition("/")[0]
    server = ServerOnS3(f"{bucket}/lake", config={"data-token.enabled": "true"})
    server.token = lambda: tokens.token(proxy.address)
    proxy.admits = tokens.admits
    # The server goes to the store itself; only clients take the way on which tokens count.
    with settings(AWS_ENDPOINT_URL=s3_address), server.running():
        yield server


def test_tokens_that_expire_during_a_compaction_are_renewed_before(
    server: ServerOnS3, tokens: Tokens, proxy: FaultyProxy
) -> None:
    catalog = Catalog.open(WAREHOUSE, options=server.options)
    table = new_table(catalog, EVENTS, keys=["id"], options={"bucket": "8"})
    for number in range(4):
        table.write(rows(table, events(number * 100, number * 100 + 100)))
    before = len(tokens.ends)
    # A second each.
    proxy.make(Trouble.SLOW, within="data-", times=8)
    compact(table, full=True)
    assert len(tokens.ends) >= before + 2
    assert not tokens.refused
    assert len(content(table)) == 400
    assert_only_reachable_files(table)


def test_a_file_that_is_open_for_longer_than_a_token_lasts_goes_on(
    server: ServerOnS3, tokens: Tokens
) -> None:
    catalog = Catalog.open(WAREHOUSE, options=server.options)
    files = new_table(catalog, EVENTS).table_files
    path = f"{files.paths.root}/data-large"
    piece = b"0123456789abcdef" * (1 << 19)
    output = files.fs.open_output(path)
    with output:
        output.write(piece)
        time.sleep(tokens.life_ms / 1000)
        output.write(piece)
    reading = files.fs.open_input(path)
    with reading:
        assert reading.read(len(piece)) == piece
        time.sleep(tokens.life_ms / 1000)
        assert reading.read() == piece
    assert not tokens.refused
    files.fs.delete(path)


def test_a_token_that_the_store_refuses_is_told_without_its_secret(
    server: ServerOnS3, tokens: Tokens, tmp_path: Path
) -> None:
    catalog = Catalog.open(WAREHOUSE, options=server.options)
    tokens.life_ms = 60_000
    table = new_table(catalog, EVENTS)
    table.write(rows(table, events(0, 3)))
    tokens.ends = dict.fromkeys(tokens.ends, 0)
    with pytest.raises(AccessRefused) as refused:
        content(table)
    assert "a-secret-of-a-table" not in repr(refused.value)
    assert "a-session-of-a-table" not in repr(refused.value)
