"""`python -m benchmarks.topics --broker HOST:PORT`: messages a CPU second from Kafka into a table.

A topic of JSON messages of about 150 bytes is filled once. Ours carries them into a keyed table,
exactly once, in a stream with a checkpoint. The floor consumes them by the client alone and calls
`json.loads` on each, and keeps nothing. The broker is not counted.
"""

from __future__ import annotations

import argparse
import os
import resource
import subprocess
import sys
import tempfile

_FILL = """
import sys
from confluent_kafka import Producer
from confluent_kafka.admin import AdminClient, NewTopic
broker, topic, rows = sys.argv[1], sys.argv[2], int(sys.argv[3])
client = AdminClient({"bootstrap.servers": broker})
if topic in client.list_topics().topics:
    sys.exit()
client.create_topics([NewTopic(topic, 4)])[topic].result()
producer = Producer({"bootstrap.servers": broker})
for at in range(rows):
    value = (f'{{"id":{at},"name":"name {at % 1000}","price":{at % 1000}.25,'
             f'"at":"2024-01-{at % 28 + 1:02} 00:00:{at % 60:02}","flag":true,'
             f'"note":"{"x" * 60}"}}')
    if at % 50_000 == 0:
        producer.flush()
    producer.produce(topic, value, str(at))
producer.flush()
"""
_OURS = """
import sys
from lakewright.connectors import ExternalTables
from lakewright.connectors.planning.plan_sink import WriteRequest, plan_write
from lakewright.connectors.planning.plan_source import ScanRequest, plan_scan
from lakewright.connectors.stream import run_stream
from lakewright.session import Session
from lakewright.storage import Catalog
broker, topic, place = sys.argv[1:]
catalog = Catalog.open(place + "/warehouse")
columns = "id BIGINT, name STRING, price DECIMAL(12, 2), `at` TIMESTAMP(3), flag BOOLEAN, "
columns += "note STRING"
Session(catalog).sql(f'''
    CREATE DATABASE d; USE d;
    CREATE TABLE source ({columns}) WITH ('connector' = 'kafka', 'topic' = '{topic}',
      'properties.bootstrap.servers' = '{broker}', 'format' = 'json');
    CREATE TABLE target ({columns}, PRIMARY KEY (id) NOT ENFORCED)
''')
tables = ExternalTables(catalog)
scan = plan_scan(tables.context("d.source"), ScanRequest())
sink = plan_write(tables.managed_context("d.target"), WriteRequest())
for _ in run_stream(scan, sink, catalog.env, checkpoint=place + "/checkpoint", available_now=True):
    pass
"""
_FLOOR = """
import json, sys
from confluent_kafka import Consumer, TopicPartition
broker, topic, _ = sys.argv[1:]
client = Consumer({"bootstrap.servers": broker, "group.id": "floor", "enable.auto.commit": False,
                   "enable.partition.eof": True})
numbers = list(client.list_topics(topic).topics[topic].partitions)
client.assign([TopicPartition(topic, each, 0) for each in numbers])
ended = 0
while ended < len(numbers):
    for each in client.consume(20_000, 0.1):
        if each.error() is not None:
            ended += 1
        else:
            json.loads(each.value())
"""


def main() -> None:
    """Print a table of messages a CPU second."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--rows", type=int, default=1_000_000)
    parser.add_argument("--broker", metavar="HOST:PORT", required=True)
    asked = parser.parse_args()
    topic = f"lakewright-bench-{asked.rows}"
    filled = [sys.executable, "-c", _FILL, asked.broker, topic, str(asked.rows)]
    subprocess.run(filled, check=True)
    print(f"{asked.rows:,} messages\n\n| to | messages per CPU second |\n|---|---|")
    for name, program in (("keyed table, exactly once, ours", _OURS), ("nothing, floor", _FLOOR)):
        with tempfile.TemporaryDirectory(prefix="topics-") as place:
            before = resource.getrusage(resource.RUSAGE_CHILDREN)
            command = [sys.executable, "-c", program, asked.broker, topic, place]
            subprocess.run(command, env=os.environ, check=True)
            after = resource.getrusage(resource.RUSAGE_CHILDREN)
        seconds = after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime
        print(f"| {name} | {asked.rows / seconds:,.0f} |")
        sys.stdout.flush()


if __name__ == "__main__":
    main()
