"""`python -m benchmarks.topics --broker HOST:PORT`: messages a CPU second from Kafka into a table.

A topic of JSON messages of about 150 bytes is filled once. Ours carries them into a keyed table,
exactly once, in a stream with a checkpoint. Peers: Spark's own source of Kafka (jars by Maven),
which writes Parquet with a checkpoint, and a loop of the client, `json.loads` and pypaimon, which
commits each 100,000 messages and knows no offsets. The floor consumes and calls `json.loads` on
each, and keeps nothing. The broker is not counted, and of Java not its start.
"""

from __future__ import annotations

import argparse
import os
import resource
import subprocess
import sys
import tempfile
from pathlib import Path

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
_SPARK = """
import os
import sys
from pyspark.sql import SparkSession
from pyspark.sql.functions import col, from_json
broker, topic, place, jars = sys.argv[1:]
builder = SparkSession.builder.master("local[2]").config("spark.jars", jars)
spark = builder.config("spark.ui.enabled", "false").getOrCreate()
spark.sparkContext.setLogLevel("ERROR")
java = spark._jvm.java.lang.ProcessHandle.current().pid()

def seconds():
    parts = open(f"/proc/{java}/stat").read().rpartition(")")[2].split()
    return (int(parts[11]) + int(parts[12])) / os.sysconf("SC_CLK_TCK")

began = seconds()
source = spark.readStream.format("kafka").option("kafka.bootstrap.servers", broker)
rows = source.option("subscribe", topic).option("startingOffsets", "earliest").load()
kind = "id BIGINT, name STRING, price DECIMAL(12, 2), at TIMESTAMP, flag BOOLEAN, note STRING"
rows = rows.select(from_json(col("value").cast("string"), kind).alias("v")).select("v.*")
writer = rows.writeStream.format("parquet").option("path", place + "/rows")
writer = writer.option("checkpointLocation", place + "/checkpoint").trigger(availableNow=True)
writer.start().awaitTermination()
# No process waits for Java, so its time is not among that of the children.
open(place + "/java", "w").write(str(seconds() - began))
"""
_LOOP = """
import json, sys
from decimal import Decimal
import pyarrow as pa
import pypaimon
from confluent_kafka import Consumer, TopicPartition
broker, topic, place = sys.argv[1:]
kinds = [("id", pa.int64()), ("name", pa.string()), ("price", pa.decimal128(12, 2)),
         ("at", pa.timestamp("ms")), ("flag", pa.bool_()), ("note", pa.string())]
schema = pa.schema([pa.field("id", pa.int64(), nullable=False), *kinds[1:]])
catalog = pypaimon.CatalogFactory.create({"warehouse": place + "/warehouse"})
catalog.create_database("d", True)
options = {"bucket": "1"}
made = pypaimon.Schema.from_pyarrow_schema(schema, primary_keys=["id"], options=options)
catalog.create_table("d.target", made, False)
table = catalog.get_table("d.target")
client = Consumer({"bootstrap.servers": broker, "group.id": "loop", "enable.auto.commit": False,
                   "enable.partition.eof": True})
numbers = list(client.list_topics(topic).topics[topic].partitions)
client.assign([TopicPartition(topic, each, 0) for each in numbers])

def write(found):
    rows = pa.Table.from_pylist(found)
    columns = [rows[name] if name != "price" else rows[name].cast(pa.string()) for name, _ in kinds]
    rows = pa.table([each.cast(kind) for each, (_, kind) in zip(columns, kinds)], schema=schema)
    builder = table.new_batch_write_builder()
    writing, committing = builder.new_write(), builder.new_commit()
    writing.write_arrow(rows)
    committing.commit(writing.prepare_commit())
    writing.close(), committing.close()

ended, held = 0, []
while ended < len(numbers):
    for each in client.consume(20_000, 0.1):
        if each.error() is not None:
            ended += 1
        else:
            held.append(json.loads(each.value(), parse_float=Decimal))
    if len(held) >= 100_000:
        write(held)
        held = []
if held:
    write(held)
"""
_OF_SPARK = (
    "org.apache.spark:spark-sql-kafka-0-10_2.13:4.2.0",
    "org.apache.spark:spark-token-provider-kafka-0-10_2.13:4.0.0",
    "org.apache.kafka:kafka-clients:3.9.1",
    "org.apache.commons:commons-pool2:2.12.0",
)
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
    parser.add_argument("--oracles", type=Path, default=Path(".oracles"), metavar="FOLDER")
    asked = parser.parse_args()
    topic = f"lakewright-bench-{asked.rows}"
    filled = [sys.executable, "-c", _FILL, asked.broker, topic, str(asked.rows)]
    subprocess.run(filled, check=True)
    print(f"{asked.rows:,} messages\n\n| to | messages per CPU second |\n|---|---|")
    with tempfile.TemporaryDirectory(prefix="topics-") as folder:
        pypaimon = str(asked.oracles / "pypaimon/bin/python")
        client = {"PYTHONPATH": _only_the_client(Path(folder))}
        contestants = (
            ("keyed table, exactly once, ours", sys.executable, _OURS, [], {}),
            ("Parquet, exactly once, Spark", sys.executable, _SPARK, _jars(Path(folder)), {}),
            ("keyed table, pypaimon in a loop", pypaimon, _LOOP, [], client),
            ("nothing, floor", sys.executable, _FLOOR, [], {}),
        )
        for name, python, program, more, variables in contestants:
            place = tempfile.mkdtemp(dir=folder)
            before = resource.getrusage(resource.RUSAGE_CHILDREN)
            command = [python, "-c", program, asked.broker, topic, place, *more]
            subprocess.run(command, env={**os.environ, **variables}, check=True)
            after = resource.getrusage(resource.RUSAGE_CHILDREN)
            seconds = after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime
            if (of_java := Path(place, "java")).exists():
                seconds += float(of_java.read_text())
            print(f"| {name} | {asked.rows / seconds:,.0f} |")
            sys.stdout.flush()


def _jars(folder: Path) -> list[str]:
    """Spark's source of Kafka, which its Python package lacks."""
    for artifact in _OF_SPARK:
        copied = ["dependency:copy", f"-Dartifact={artifact}", f"-DoutputDirectory={folder}/jars"]
        subprocess.run(["mvn", "--batch-mode", "--quiet", *copied], check=True)
    return [",".join(str(each) for each in (folder / "jars").glob("*.jar"))]


def _only_the_client(folder: Path) -> str:
    """A path with the client of Kafka for pypaimon's environment, which lacks it."""
    import confluent_kafka  # noqa: PLC0415

    package = Path(confluent_kafka.__file__).parent
    found = folder / "client"
    found.mkdir()
    for each in package.parent.glob("confluent_kafka*"):
        (found / each.name).symlink_to(each)
    return str(found)


if __name__ == "__main__":
    main()
