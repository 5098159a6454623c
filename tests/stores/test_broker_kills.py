"""A broker that is killed again and again: what streams carry through it is there once."""

from __future__ import annotations

import os
import random
import subprocess
import sys
import time
from pathlib import Path

import pytest

from lakewright.session import Session
from lakewright.storage import Catalog
from tests.stores.test_kafka import messages_of
from tests.support.stores.servers import ROOT, kafka_command, started

pytestmark = pytest.mark.servers

_COUNT = 40_000
# Sends the numbers, each once, however often the broker goes away.
_SEND = """
import sys
from confluent_kafka import Producer
producer = Producer({"bootstrap.servers": sys.argv[1], "enable.idempotence": True,
                     "message.timeout.ms": 300000})
for at in range(int(sys.argv[2])):
    producer.produce("given", b'{"id": %d}' % at)
    if at % 500 == 0:
        producer.poll(0.1)
producer.flush()
"""
# Carries them on, and begins again where the broker was away.
_CARRY = """
import sys, time
from lakewright.connectors import ExternalTables
from lakewright.connectors.planning.plan_sink import WriteRequest, plan_write
from lakewright.connectors.planning.plan_source import ScanRequest, plan_scan
from lakewright.connectors.stream import run_stream
from lakewright.storage import Catalog
from lakewright.storage.errors import StorageError
catalog = Catalog.open(sys.argv[1])
tables = ExternalTables(catalog)
name = sys.argv[3]
into = tables.context(name) if tables.has(name) else tables.managed_context(name)
while True:
    try:
        scan = plan_scan(tables.context("d.given"), ScanRequest())
        sink = plan_write(into, WriteRequest())
        for _ in run_stream(scan, sink, catalog.env, checkpoint=sys.argv[2], max_rows=1_000):
            pass
    except StorageError as error:
        print(error, flush=True)
        time.sleep(0.2)
"""


@pytest.mark.parametrize(
    "kills", [4, pytest.param(50, marks=pytest.mark.deep)], ids=["few", "many"]
)
def test_a_broker_that_is_killed_loses_and_doubles_nothing(tmp_path: Path, kills: int) -> None:
    from confluent_kafka.admin import AdminClient, NewTopic

    command, port = kafka_command(tmp_path)
    broker, server = f"127.0.0.1:{port}", started(command, port)
    admin = AdminClient({"bootstrap.servers": broker})
    for each in admin.create_topics([NewTopic("given", 2), NewTopic("carried", 2)]).values():
        each.result()
    catalog = Catalog.open(str(tmp_path / "warehouse"))
    kafka = f"'connector' = 'kafka', 'properties.bootstrap.servers' = '{broker}'"
    Session(catalog).sql(f"""
        CREATE DATABASE d; USE d;
        CREATE TABLE given (id BIGINT) WITH ({kafka}, 'topic' = 'given', 'format' = 'json');
        CREATE TABLE carried (id BIGINT) WITH ({kafka}, 'topic' = 'carried', 'format' = 'csv',
          'sink.delivery-guarantee' = 'exactly-once', 'sink.transactional-id-prefix' = 'carried');
        CREATE TABLE kept (id BIGINT)
    """)
    environment = {**os.environ, "PYTHONPATH": str(ROOT / "src")}
    programs = [
        ["-c", _SEND, broker, str(_COUNT)],
        *(
            ["-c", _CARRY, catalog.root, str(tmp_path / name), f"d.{name}"]
            for name in ("kept", "carried")
        ),
    ]
    processes = [subprocess.Popen([sys.executable, *each], env=environment) for each in programs]
    chance = random.Random(kills)
    try:
        for _ in range(kills):
            time.sleep(1 + chance.random() * 4)
            server.kill()
            server.wait()
            server = started(command, port)
        assert processes[0].wait(timeout=200) == 0
        kept: list[int] = []
        until = time.monotonic() + 120
        while len(kept) < _COUNT or len(messages_of(broker, "carried")) < _COUNT:
            assert time.monotonic() < until, (len(kept), len(messages_of(broker, "carried")))
            assert [each.poll() for each in processes[1:]] == [None, None]
            time.sleep(1)
            kept = catalog.table("d.kept").read().column("id").to_pylist()
        carried = [int(each.value()) for each in messages_of(broker, "carried")]
        assert sorted(kept) == list(range(_COUNT))
        assert sorted(carried) == list(range(_COUNT))
    finally:
        for each in processes:
            each.kill()
            each.wait()
        server.kill()
        server.wait()
