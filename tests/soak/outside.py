"""What stands outside of the warehouse: servers that go away for a while, and what fills them."""

from __future__ import annotations

import json
import shutil
import subprocess
import tempfile
import time
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, ExitStack, closing, contextmanager
from dataclasses import dataclass, field
from importlib.util import find_spec
from pathlib import Path
from typing import Any, Self

import pytest

from tests.soak.model import COLUMNS, Row
from tests.stores.test_log import state_of
from tests.support.stores import servers
from tests.support.stores.servers import SECRET, free_port, kafka_command, postgres_server, running

PASSWORD_VARIABLE = "LAKEWRIGHT_SOAK_PASSWORD"
TOPIC = "soak"
_START_SECONDS, _SLOT_SECONDS = 60, 15
_DECLARED = """
table: soak.{name}
columns:
{columns}
{more}
source:
  stream:
    connector: {connector}
    options: {options}
automation: {{continuous: 30s}}
"""


@dataclass
class Server:
    """A server whose data outlive it, so that it can be away for a while; a context.

    It ends with the thread that started it, so one thread alone starts it.
    """

    name: str
    start: Callable[[], AbstractContextManager[Any]]
    # When it was away, in seconds of the soak.
    away: list[tuple[float, float]] = field(default_factory=list)
    # Since when it is away.
    since: float | None = None
    _running: ExitStack = field(default_factory=ExitStack)

    def __enter__(self) -> Self:
        self._running.enter_context(self.start())
        return self

    def __exit__(self, *_: object) -> None:
        self._running.close()

    def go_away(self, now: float) -> None:
        self.since = now
        self._running.close()

    def come_back(self, now: Callable[[], float]) -> None:
        if self.since is not None:
            self._running.enter_context(self.start())
            self.away.append((self.since, now()))
            self.since = None


def why_not(client: str, oracles: Path, flink: Path) -> str | None:
    """Why a writer cannot take part on this machine."""
    match client:
        case "java":
            return _lacks(oracles / "java_latest", "make oracles, where Maven is")
        case "pypaimon":
            return _lacks(oracles / "pypaimon", "make oracles")
        case "postgres":
            if find_spec("psycopg") is None:
                return "psycopg is not installed: make test-servers installs it"
            try:
                servers._database_program("postgres", "initdb")
            except pytest.skip.Exception as skipped:
                return str(skipped)
        case "kafka":
            if find_spec("confluent_kafka") is None:
                return "confluent_kafka is not installed: make test-servers installs it"
            return _lacks(servers.INSTALLED / "kafka", "make test-servers, where Maven is")
        case "flink":
            if not any(flink.rglob("paimon-flink-*.jar")):
                return f"Flink is not at {flink}: make test-flink installs it"
        case "spark":
            return None if find_spec("pyspark") else "pyspark is not installed"
    return None if client != "flink" or shutil.which("java") else "java is not on the path"


def _lacks(folder: Path, way: str) -> str | None:
    return None if folder.exists() else f"it is not at {folder}: {way}"


# --- PostgreSQL ----------------------------------------------------------------------------------


class Postgres:
    """A database with a table that is captured."""

    def __init__(self) -> None:
        # Its user may not enter the folders of ours.
        self._folder = Path(tempfile.mkdtemp(prefix="soak-postgres-", dir="/tmp"))
        self.port = free_port()
        self.server = Server("PostgreSQL", self._start)

    @contextmanager
    def _start(self) -> Iterator[None]:
        place = {"data": self._folder / "data", "port": self.port}
        with postgres_server("wal_level=logical", **place) as url:  # type: ignore[arg-type]
            self._url = url
            until = time.monotonic() + _START_SECONDS
            while subprocess.run(["pg_isready", "-q", "-d", url], check=False).returncode:
                assert time.monotonic() < until, "PostgreSQL does not answer"
                time.sleep(0.2)
            yield

    def remove(self) -> None:
        shutil.rmtree(self._folder, ignore_errors=True)

    def _connect(self) -> Any:
        import psycopg

        return psycopg.connect(self._url, password=SECRET, autocommit=True, connect_timeout=5)

    def create(self) -> None:
        with closing(self._connect()) as client:
            client.execute(
                "CREATE TABLE soak (day TEXT NOT NULL, w INT NOT NULL, id BIGINT NOT NULL, "
                "n BIGINT, a BIGINT, b BIGINT, PRIMARY KEY (day, w, id))"
            )

    def is_followed(self) -> bool:
        """Whether a capture has begun; what is written before would come in pieces."""
        with closing(self._connect()) as client:
            found = client.execute("SELECT 1 FROM pg_replication_slots").fetchone()
        if found is not None:
            time.sleep(_SLOT_SECONDS)
        return found is not None

    def write(self, rows: list[Row], over: Callable[[], bool]) -> None:
        """A batch as a transaction, which may be repeated."""
        with closing(self._connect()) as client, client.transaction(), client.cursor() as cursor:
            cursor.executemany(
                "INSERT INTO soak VALUES (%(day)s, %(w)s, %(id)s, %(n)s, %(a)s, %(b)s) "
                "ON CONFLICT (day, w, id) DO UPDATE SET n = excluded.n, a = excluded.a, "
                "b = excluded.b",
                rows,
            )

    def declaration(self, broker: str | None) -> str:
        """The table that captures it, whose commits go to a log where there is a broker."""
        log = f", log.system: kafka, log.bootstrap.servers: '{broker}'" if broker else ""
        options = {
            "hostname": "127.0.0.1",
            "port": str(self.port),
            "username": "keeper",
            "password": f"${{env:{PASSWORD_VARIABLE}}}",
            "database-name": "postgres",
            "schema-name": "public",
            "table-name": "soak",
            "slot.name": "soak",
        }
        more = "primary_key: [day, w, id]\npartition_keys: [day]\noptions: "
        more += f"{{bucket: 2{log}}}"
        return _declared("captured", "postgres-cdc", options, more)


# --- Kafka ---------------------------------------------------------------------------------------


class Kafka:
    """A broker with a topic of one partition, whose order is that of the batches."""

    def __init__(self, folder: Path) -> None:
        folder.mkdir()
        self._command, self._port = kafka_command(folder)
        self.address = f"127.0.0.1:{self._port}"
        self.server = Server("Kafka", lambda: running(self._command, self._port))

    def create(self) -> None:
        from confluent_kafka import Producer
        from confluent_kafka.admin import AdminClient, NewTopic

        client = AdminClient({"bootstrap.servers": self.address})
        client.create_topics([NewTopic(TOPIC, 1)])[TOPIC].result(_START_SECONDS)
        # It sends each message once, however long the broker is away.
        settings = {"enable.idempotence": True, "message.timeout.ms": 0, "linger.ms": 5}
        # It says of each second that the broker is away.
        settings["log_level"] = 2
        self._producer = Producer({"bootstrap.servers": self.address, **settings})

    def is_followed(self) -> bool:
        return True

    def write(self, rows: list[Row], over: Callable[[], bool]) -> None:
        for row in rows:
            self._producer.produce(TOPIC, json.dumps(row).encode(), partition=0)
        until = None
        while self._producer.flush(1):
            if over() and until is None:
                until = time.monotonic() + _START_SECONDS
            assert until is None or time.monotonic() < until, "Kafka does not take the last rows"

    def log_faults(self, table: str, rows: list[Row]) -> list[str]:
        """What is wrong with the log of a table that has these rows."""
        found = [
            json.dumps(each, sort_keys=True) for each in state_of(self.address, table).values()
        ]
        expected = [json.dumps(each, sort_keys=True) for each in rows]
        lacks, extra = Counter(expected) - Counter(found), Counter(found) - Counter(expected)
        return [
            f"the log of {table} {what} {many.total()} rows, such as {min(many)}"
            for what, many in (("lacks", lacks), ("has", extra))
            if many
        ]

    def declaration(self, broker: str | None) -> str:
        """The table that follows it."""
        assert broker == self.address
        options = {
            "properties.bootstrap.servers": self.address,
            "topic": TOPIC,
            "format": "json",
        }
        return _declared("topic", "kafka", options, "partition_keys: [day]")


def _declared(name: str, connector: str, options: dict[str, str], more: str) -> str:
    columns = "\n".join(f"  - {{name: {each}, type: {kind}}}" for each, kind in COLUMNS.items())
    return _DECLARED.format(
        name=name, columns=columns, more=more, connector=connector, options=json.dumps(options)
    )
