"""The logs of tables on a real broker: published after each commit, once, and read behind it."""

from __future__ import annotations

import itertools
import json
import os
import random
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from functools import partial
from pathlib import Path
from typing import Any

import dagster as dg
import pytest

from lakewright.connectors.external_tables import ExternalTables
from lakewright.connectors.log import relay
from lakewright.connectors.log.publish import Relay
from lakewright.connectors.planning.plan_source import ScanRequest, plan_scan
from lakewright.platform.orchestration.resource_keys import ResourceKeys
from lakewright.session import Session
from lakewright.storage import Catalog, RenameColumn
from lakewright.storage.errors import (
    AlreadyExistsError,
    FileMissing,
    InvalidOption,
    InvalidRequestError,
    StalePlan,
    StorageError,
    UnsupportedError,
)
from tests.pipelines.lake import Lake
from tests.stores.test_kafka import messages_of
from tests.support.stores.servers import ROOT, kafka_server

pytestmark = pytest.mark.servers

_NUMBERS = itertools.count(1)
_ENVIRONMENT = {**os.environ, "PYTHONPATH": str(ROOT / "src")}
_KEYED = "id BIGINT NOT NULL, name STRING, PRIMARY KEY (id) NOT ENFORCED"


@pytest.fixture(scope="module")
def broker(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    with kafka_server(tmp_path_factory.mktemp("kafka")) as address:
        yield address


@pytest.fixture
def session(tmp_path: Path) -> Session:
    session = Session(Catalog.open(str(tmp_path / "warehouse")))
    session.sql("CREATE DATABASE d")
    return session


def new_table(session: Session, broker: str, columns: str = _KEYED, **options: str) -> str:
    """A table with a log, whose topic is called as it is."""
    name = f"d.t{next(_NUMBERS)}"
    given = {"bucket": "2", "log.system": "kafka", "log.bootstrap.servers": broker, **options}
    text = ", ".join(f"'{each}' = '{value}'" for each, value in given.items())
    session.sql(f"CREATE TABLE {name} ({columns}) WITH ({text})")
    return name


def headers(message: Any) -> dict[str, bytes]:
    return dict(message.headers())


def state_of(broker: str, topic: str) -> dict[Any, Any]:
    """The rows of an upsert log, by their keys."""
    rows = {}
    for each in messages_of(broker, topic):
        key = each.key()
        if each.value() is None:
            rows.pop(key, None)
        else:
            rows[key] = json.loads(each.value())
    return rows


@pytest.mark.mission("LG1", "LG2", "LG4", "LG6")
def test_each_commit_is_in_the_log_with_its_snapshot(session: Session, broker: str) -> None:
    name = new_table(session, broker)
    session.sql(f"INSERT INTO {name} VALUES (1, 'a'), (2, 'b')")
    session.sql(f"INSERT INTO {name} VALUES (1, 'c'); DELETE FROM {name} WHERE id = 2")
    told = messages_of(broker, name)
    assert state_of(broker, name) == {b'{"id":1}': {"id": 1, "name": "c"}}
    assert sorted(int(headers(each)["lakewright-snapshot"]) for each in told) == [1, 1, 2, 3]
    assert relay(session.catalog.table(name)).commits == 0


def followed(session: Session, name: str, checkpoint: Path) -> list[tuple[str, ...]]:
    """The changes that a stream gives now which goes on at its checkpoint, with their kinds."""
    externals = ExternalTables(session.catalog, {"execution.runtime-mode": "streaming"})
    planned = plan_scan(externals.managed_context(name), ScanRequest())
    scan = planned.runtime
    start = json.loads(checkpoint.read_text()) if checkpoint.exists() else scan.earliest()
    end = scan.latest(start)
    rows = [
        tuple(row.values()) for piece in planned.changes(start, end) for row in piece.to_pylist()
    ]
    checkpoint.write_text(json.dumps(end))
    return rows


@pytest.mark.mission("LG1", "CN53")
def test_a_stream_reads_the_rows_and_then_the_log(
    session: Session, broker: str, tmp_path: Path
) -> None:
    name = new_table(session, broker)
    session.sql(f"INSERT INTO {name} VALUES (1, 'a'), (2, 'b')")
    session.sql(f"INSERT INTO {name} VALUES (3, 'c')")
    at = tmp_path / "at"
    assert sorted(followed(session, name, at)) == [(1, "a", "+I"), (2, "b", "+I"), (3, "c", "+I")]
    assert followed(session, name, at) == []
    session.sql(f"INSERT INTO {name} VALUES (2, 'new'); DELETE FROM {name} WHERE id = 1")
    assert sorted(followed(session, name, at), key=str) == [(1, None, "-D"), (2, "new", "+U")]


def test_what_was_committed_and_not_yet_published_is_told_once(
    session: Session, broker: str, tmp_path: Path
) -> None:
    name, at = new_table(session, broker), tmp_path / "at"
    table = session.catalog.table(name)
    session.sql(f"INSERT INTO {name} VALUES (1, 'a')")
    table.write([{"id": 2, "name": "b"}])
    assert sorted(followed(session, name, at)) == [(1, "a", "+I"), (2, "b", "+I")]
    table.write([{"id": 3, "name": "c"}])
    assert followed(session, name, at) == []
    assert relay(table).commits == 2
    assert followed(session, name, at) == [(3, "c", "+U")]


@pytest.mark.mission("LG2", "LG3")
def test_without_a_key_the_log_has_events_of_debezium(
    session: Session, broker: str, tmp_path: Path
) -> None:
    name, at = new_table(session, broker, "id INT, name STRING", bucket="-1"), tmp_path / "at"
    session.sql(f"INSERT INTO {name} VALUES (1, 'a'), (2, 'b'), (2, 'b')")
    assert len(followed(session, name, at)) == 3
    session.sql(f"UPDATE {name} SET name = 'z' WHERE id = 1; INSERT INTO {name} VALUES (4, 'd')")
    session.sql(f"INSERT OVERWRITE {name} VALUES (4, 'd')")
    assert sorted(followed(session, name, at)) == [
        (1, "a", "-D"),
        (1, "z", "+I"),
        (1, "z", "-D"),
        (2, "b", "-D"),
        (2, "b", "-D"),
        (4, "d", "+I"),
    ]
    events = [json.loads(each.value()) for each in messages_of(broker, name)]
    assert [each["op"] for each in events] == [*"ccc", *"dc", *"c", *"ddd"]
    assert {each.partition() for each in messages_of(broker, name)} == {0}


def test_a_compaction_and_an_empty_commit_hold_nothing_up(session: Session, broker: str) -> None:
    name = new_table(session, broker)
    table = session.catalog.table(name)
    session.sql(f"INSERT INTO {name} VALUES (1, 'a'); INSERT INTO {name} VALUES (2, 'b')")
    table.upkeep.compact(full=True)
    assert relay(table).commits == 0
    assert table.history.consumers()[0].next_snapshot_id == 3
    table.upkeep.expire_snapshots(retain_max=1, retain_min=1, grace_ms=0)
    session.sql(f"INSERT INTO {name} VALUES (3, 'c')")
    assert relay(session.catalog.table(name)).commits == 0
    assert len(state_of(broker, name)) == 3


@pytest.mark.mission("MT16")
def test_tables_and_topics_come_and_go_together(session: Session, broker: str) -> None:
    name = new_table(session, broker)
    assert topics(broker)[name] == 2
    shown = session.sql(f"SHOW CREATE TABLE {name}").rows
    assert shown is not None
    text = shown.column("statement")[0].as_py()
    assert f"'log.bootstrap.servers' = '{broker}'" in text
    assert "lakewright." not in text
    with pytest.raises(AlreadyExistsError, match="may be the log of another table"):
        session.sql(
            f"CREATE TABLE d.other ({_KEYED}) WITH ('log.system' = 'kafka', "
            f"'log.bootstrap.servers' = '{broker}', 'log.topic' = '{name}')"
        )
    assert not session.catalog.table_exists("d.other")
    with pytest.raises(StorageError):
        session.sql(
            f"CREATE TABLE d.wrong ({_KEYED}) WITH ('log.system' = 'kafka', "
            f"'log.bootstrap.servers' = '{broker}', 'bucket' = 'many')"
        )
    assert "d.wrong" not in topics(broker)
    session.sql(f"ALTER TABLE {name} RENAME TO d.renamed")
    session.sql("INSERT INTO d.renamed VALUES (1, 'a')")
    assert len(state_of(broker, name)) == 1
    session.sql(f"""CREATE TABLE d.spread (id INT, name STRING) DISTRIBUTED BY HASH (id) INTO 3
        BUCKETS WITH ('log.system' = 'kafka', 'log.bootstrap.servers' = '{broker}')""")
    assert topics(broker)["d.spread"] == 3
    session.sql("INSERT INTO d.spread VALUES (1, 'a'); DELETE FROM d.spread WHERE id = 1")
    told = messages_of(broker, "d.spread")
    assert len(told) == 2
    assert len({(each.key(), each.partition()) for each in told}) == 1
    session.sql("DROP TABLE d.renamed PURGE")
    assert name not in topics(broker)
    with pytest.raises(StorageError):
        session.sql(f"""CREATE TABLE d.failed WITH ('log.system' = 'kafka',
            'log.bootstrap.servers' = '{broker}') AS SELECT CAST(name AS INT) AS n FROM d.spread
            UNION ALL SELECT CAST('x' AS INT)""")
    session.sql("DROP DATABASE d CASCADE")
    assert not {each for each in topics(broker) if each.startswith(("d.failed", "d.spread"))}


def topics(broker: str) -> dict[str, int]:
    from confluent_kafka.admin import AdminClient

    found = AdminClient({"bootstrap.servers": broker}).list_topics().topics
    return {name: len(each.partitions) for name, each in found.items()}


@pytest.mark.mission("MT16")
def test_a_log_is_made_for_a_table_with_rows_and_taken_away(
    session: Session, broker: str, tmp_path: Path
) -> None:
    session.sql("CREATE TABLE d.late (id INT, name STRING); INSERT INTO d.late VALUES (1, 'a')")
    session.sql("INSERT INTO d.late VALUES (2, 'b')")
    session.sql(
        f"ALTER TABLE d.late SET ('log.system' = 'kafka', 'log.bootstrap.servers' = '{broker}')"
    )
    at = tmp_path / "at"
    assert len(followed(session, "d.late", at)) == 2
    session.sql("INSERT INTO d.late VALUES (3, 'c')")
    assert followed(session, "d.late", at) == [(3, "c", "+I")]
    assert [
        int(headers(each)["lakewright-snapshot"]) for each in messages_of(broker, "d.late")
    ] == [2, 2, 3]
    with pytest.raises(UnsupportedError, match=r"d\.late has a log, .* RESET \('log\.system'\)"):
        session.catalog.table("d.late").upkeep.add_primary_key(["id"])
    with pytest.raises(InvalidOption, match=r"log\.format of d\.late is settled when"):
        session.sql("ALTER TABLE d.late SET ('log.format' = 'json')")
    session.sql("ALTER TABLE d.late RESET ('log.system')")
    assert "d.late" not in topics(broker)
    session.catalog.table("d.late").upkeep.add_primary_key(["id"])
    session.sql(
        f"ALTER TABLE d.late SET ('log.system' = 'kafka', 'log.bootstrap.servers' = '{broker}')"
    )
    session.sql("INSERT INTO d.late VALUES (1, 'new')")
    assert len(state_of(broker, "d.late")) == 3
    with pytest.raises(StalePlan, match="made anew or dropped since the stream began"):
        followed(session, "d.late", at)


def test_a_rolled_back_table_needs_its_log_anew(
    session: Session, broker: str, tmp_path: Path
) -> None:
    name, at = new_table(session, broker), tmp_path / "at"
    table = session.catalog.table(name)
    session.sql(f"INSERT INTO {name} VALUES (1, 'a'); INSERT INTO {name} VALUES (2, 'b')")
    assert len(followed(session, name, at)) == 2
    table.history.rollback(snapshot=1, grace_ms=0)
    table.write([{"id": 3, "name": "c"}])
    table.write([{"id": 4, "name": "d"}])
    with pytest.raises(StalePlan, match=rf"rolled back behind snapshot 2.* relay {name} --anew"):
        relay(table)
    assert relay(table, anew=True).commits == 1
    assert sorted(row["id"] for row in state_of(broker, name).values()) == [1, 3, 4]
    with pytest.raises(StalePlan, match="begin a new stream"):
        followed(session, name, at)
    (tmp_path / "at").unlink()
    assert len(followed(session, name, at)) == 3
    table.write([{"id": 5, "name": "e"}])
    assert relay(table).commits == 1
    assert followed(session, name, at) == [(5, "e", "+U")]


def test_a_rollback_of_the_snapshot_that_a_stream_began_with_is_noticed(
    session: Session, broker: str, tmp_path: Path
) -> None:
    name = new_table(session, broker)
    session.sql(f"INSERT INTO {name} VALUES (1, 'a')")
    table = session.catalog.table(name)
    # The log lacks this commit: the stream reads its row of the snapshot.
    table.write([{"id": 2, "name": "gone"}])
    at = tmp_path / "at"
    assert len(followed(session, name, at)) == 2
    table.history.rollback(snapshot=1, grace_ms=0)
    with pytest.raises(StalePlan, match=r"rolled back behind snapshot 2.*into an empty target"):
        followed(session, name, at)
    # The next commit gets the number of the one that is gone.
    session.catalog.table(name).write([{"id": 3, "name": "new"}])
    relay(session.catalog.table(name))
    with pytest.raises(StalePlan, match="rolled back behind snapshot 2"):
        followed(session, name, at)


def test_a_rollback_behind_a_compaction_alone_loses_no_later_commit(
    session: Session, broker: str
) -> None:
    name = new_table(session, broker)
    table = session.catalog.table(name)
    session.sql(f"INSERT INTO {name} VALUES (1, 'a'); INSERT INTO {name} VALUES (2, 'b')")
    table.upkeep.compact(full=True)
    relay(table)
    table.history.rollback(snapshot=2, grace_ms=0)
    table.write([{"id": 3, "name": "c"}])
    assert relay(table).commits == 1
    assert len(state_of(broker, name)) == 3


def test_columns_are_added_and_not_renamed(session: Session, broker: str, tmp_path: Path) -> None:
    name, at = new_table(session, broker), tmp_path / "at"
    session.sql(f"INSERT INTO {name} VALUES (1, 'a')")
    session.sql(f"ALTER TABLE {name} ADD COLUMN more INT; INSERT INTO {name} VALUES (2, 'b', 7)")
    assert sorted(followed(session, name, at), key=str) == [(1, "a", None, "+I"), (2, "b", 7, "+I")]
    session.sql(f"INSERT INTO {name} VALUES (3, 'c', 8)")
    assert followed(session, name, at) == [(3, "c", 8, "+U")]
    table = session.catalog.table(name)
    session.sql(f"ALTER TABLE {name} ADD COLUMN last INT")
    # It was opened before the column was there.
    session.catalog.table(name).write([{"id": 9, "name": "i", "more": 1, "last": 2}])
    assert relay(table).commits == 1
    assert state_of(broker, name)[b'{"id":9}']["last"] == 2
    table = session.catalog.table(name)
    table.alter(RenameColumn("name", "title"))
    session.catalog.table(name).write([{"id": 4, "title": "d", "more": 9, "last": None}])
    with pytest.raises(StalePlan, match="column name of the log was dropped, renamed or given"):
        relay(session.catalog.table(name))
    relay(session.catalog.table(name), anew=True)
    assert state_of(broker, name)[b'{"id":1}'] == {
        "id": 1,
        "title": "a",
        "more": None,
        "last": None,
    }


def test_rows_that_merging_makes_are_told_as_they_are_seen(
    session: Session, broker: str, tmp_path: Path
) -> None:
    columns = "id BIGINT NOT NULL, n INT, at INT, PRIMARY KEY (id) NOT ENFORCED"
    newest = new_table(session, broker, columns, **{"sequence.field": "at"})
    summed = new_table(
        session,
        broker,
        columns,
        **{"merge-engine": "aggregation", "fields.n.aggregate-function": "sum"},
    )
    for name in (newest, summed):
        session.sql(f"INSERT INTO {name} VALUES (1, 5, 9), (2, 1, 1)")
        session.sql(f"INSERT INTO {name} VALUES (1, 6, 8), (2, 2, 2)")
        table = session.catalog.table(name)
        seen = {row["id"]: row for row in table.read().to_pylist()}
        assert {row["id"]: row for row in state_of(broker, name).values()} == seen


def test_deletion_vectors_are_told_when_a_compaction_shows_the_rows(
    session: Session, broker: str
) -> None:
    name = new_table(session, broker, **{"deletion-vectors.enabled": "true"})
    session.sql(f"INSERT INTO {name} VALUES (1, 'a'), (2, 'b')")
    table = session.catalog.table(name)
    table.upkeep.compact(full=True)
    session.sql(f"INSERT INTO {name} VALUES (2, 'c'); DELETE FROM {name} WHERE id = 1")
    session.catalog.table(name).upkeep.compact(full=True)
    relay(session.catalog.table(name))
    seen = session.catalog.table(name).read().to_pylist()
    assert seen == list(state_of(broker, name).values())


def test_what_a_log_cannot_hold_is_refused_before_there_is_a_table(
    session: Session, broker: str
) -> None:
    given = f"'log.system' = 'kafka', 'log.bootstrap.servers' = '{broker}'"
    session.sql(
        f"CREATE TABLE d.wide (id INT NOT NULL, o INT NOT NULL, t STRING NOT NULL, "
        f"PRIMARY KEY (id) NOT ENFORCED) WITH ({given})"
    )
    session.sql("CREATE TABLE d.into LIKE d.wide; SET 'execution.runtime-mode' = 'streaming'")
    assert "d.into" not in topics(broker)
    assert "log" not in session.sql("SHOW CREATE TABLE d.into").rows.to_pylist()[0]["statement"]


# --- what SQL, Spark, Dagster and the command line do with it -------------------------------------


@pytest.mark.mission("LG6", "LG10")
def test_streams_of_sql_follow_the_log_and_go_on_at_their_checkpoint(
    session: Session, broker: str, tmp_path: Path
) -> None:
    columns = "id BIGINT NOT NULL, name STRING NOT NULL, PRIMARY KEY (id) NOT ENFORCED"
    name = new_table(session, broker, columns)
    writing = Session(session.catalog)
    writing.sql(f"INSERT INTO {name} VALUES (1, 'a'), (2, 'b')")
    session.sql(f"""
        CREATE TABLE d.copy ({columns}) WITH ('bucket' = '1');
        SET 'execution.runtime-mode' = 'streaming';
        SET 'stream.checkpoint' = '{tmp_path / "checkpoint"}'""")
    insert = f"INSERT INTO d.copy SELECT id, name FROM {name}"
    assert next(session.run(insert)).facts["rows"] == 2
    writing.sql(f"DELETE FROM {name} WHERE id = 1; INSERT INTO {name} VALUES (3, 'c')")
    after = session.run(insert)
    total = 0
    while total < 2:
        total += next(after).facts["rows"]
    copied = session.catalog.table("d.copy").read().to_pylist()
    assert copied == session.catalog.table(name).read().to_pylist()
    session.sql("RESET 'stream.checkpoint'")
    answers = session.run(f"SELECT count(*) AS n FROM {name}")
    assert next(answers).rows.to_pylist() == [{"n": 2}]
    writing.sql(f"INSERT INTO {name} VALUES (4, 'd')")
    assert next(answers).rows.to_pylist() == [{"n": 3}]


@pytest.mark.mission("CN53")
def test_the_factory_of_logs_refuses_a_batch_read_by_name(session: Session, broker: str) -> None:
    name = new_table(session, broker)
    context = ExternalTables(session.catalog).managed_context(name)
    with pytest.raises(UnsupportedError, match=rf"the log of {name} has changes without end"):
        context.registry.source("_default_log").create_source(context)
    assert session.sql(f"SELECT * FROM {name}").rows.num_rows == 0


@pytest.mark.mission("LG1", "LG10")
def test_spark_reads_the_snapshot_and_then_the_log(
    session: Session, broker: str, tmp_path: Path
) -> None:
    from lakewright.connectors.on_spark import read_stream_frame
    from lakewright.storage.spark import build_session

    name = new_table(session, broker)
    session.sql(f"INSERT INTO {name} VALUES (1, 'a'), (2, 'b')")
    spark = build_session("lakewright-tests", master="local[1]")
    externals = ExternalTables(session.catalog, {"execution.runtime-mode": "streaming"})
    found: list[tuple[Any, ...]] = []

    def drain() -> list[tuple[Any, ...]]:
        found.clear()
        planned = plan_scan(externals.managed_context(name), ScanRequest())
        writer = read_stream_frame(spark, planned).writeStream.foreachBatch(
            lambda rows, _: found.extend(tuple(each) for each in rows.collect())
        )
        query = writer.option("checkpointLocation", str(tmp_path / "spark"))
        query.trigger(availableNow=True).start().awaitTermination()
        return sorted(found, key=str)

    assert drain() == [(1, "a", "+I"), (2, "b", "+I")]
    session.sql(f"INSERT INTO {name} VALUES (3, 'c'); DELETE FROM {name} WHERE id = 1")
    assert drain() == [(1, None, "-D"), (3, "c", "+U")]
    assert drain() == []


def test_the_command_relays_what_others_commit(session: Session, broker: str) -> None:
    name = new_table(session, broker)
    table = session.catalog.table(name)
    table.write([{"id": 1, "name": "a"}])
    at = ["--warehouse", session.catalog.root]
    command = [sys.executable, "-m", "lakewright.cli", *at, "relay", name]
    run = partial(
        subprocess.run, command, env=_ENVIRONMENT, capture_output=True, text=True, check=True
    )
    assert run().stdout == f"{name}: 1 commit published, up to snapshot 1\n"
    assert run().stdout == f"{name}: 0 commits published, up to snapshot 1\n"
    with subprocess.Popen(
        [*command, "--follow"], env=_ENVIRONMENT, stdout=subprocess.PIPE, text=True
    ) as following:
        assert following.stdout is not None
        for number in (2, 3):
            table.write([{"id": number, "name": "b"}])
            told = following.stdout.readline()
            assert told == f"{name}: 1 commit published, up to snapshot {number}\n"
        following.send_signal(signal.SIGTERM)
    assert following.returncode == 143
    assert len(messages_of(broker, name)) == 3


@pytest.mark.mission("LG6")
def test_a_declared_table_is_relayed_by_the_sensor(broker: str, tmp_path: Path) -> None:
    with dg.instance_for_test() as instance:
        lake = Lake(tmp_path, instance)
        lake.declare(f"""
            table: shop.events
            columns:
              - {{name: id, type: BIGINT NOT NULL}}
              - {{name: amount, type: DOUBLE}}
            primary_key: [id]
            options: {{log.system: kafka, log.bootstrap.servers: "{broker}"}}
            source: {{python: "tests.pipelines.sources:rows"}}
            write: {{engine: local}}
            expectations:
              - {{expect: expect_column_values_to_be_between, column: amount, min_value: 0}}
        """)
        lake.give([{"id": 1, "amount": 2.0}])
        lake.materialize()
        lake.materialize()
        lake.give([{"id": 2, "amount": -2.0}])
        lake.materialize(fails=True)
        sensor = lake.definitions.get_repository_def().get_sensor_def("relay_sensor")

        def asked() -> Any:
            resources = {ResourceKeys().warehouse: lake.warehouse}
            context = dg.build_sensor_context(instance=instance, resources=resources)
            return sensor.evaluate_tick(context)

        (request,) = asked().run_requests
        assert request.run_config == {"ops": {"relay": {"config": {"tables": ["shop.events"]}}}}
        job = lake.definitions.resolve_job_def("relay")
        assert job.execute_in_process(run_config=request.run_config, instance=instance).success
        assert asked().skip_message == "each commit is in its table's log"
    rows = state_of(broker, "shop.events")
    assert rows == {b'{"id":1}': {"id": 1, "amount": 2.0}}


# --- what goes wrong ------------------------------------------------------------------------------


def test_messages_that_are_gone_are_told_and_the_relay_goes_on(
    session: Session, broker: str, tmp_path: Path
) -> None:
    name, at = new_table(session, broker, bucket="1"), tmp_path / "at"
    followed(session, name, at)
    for number in range(3):
        session.sql(f"INSERT INTO {name} VALUES ({number}, 'a')")
    forget(broker, name)
    with pytest.raises(FileMissing, match=r"offsets 0 to \d+ of partition 0 of topic .* are gone"):
        followed(session, name, at)
    again = Session(session.catalog)
    again.sql(f"INSERT INTO {name} VALUES (7, 'new')")
    assert [int(headers(each)["lakewright-snapshot"]) for each in messages_of(broker, name)] == [4]
    (tmp_path / "at").unlink()
    assert len(followed(session, name, at)) == 4


def forget(broker: str, topic: str) -> None:
    """Delete all messages, as their age would."""
    from confluent_kafka import TopicPartition
    from confluent_kafka.admin import AdminClient

    client = AdminClient({"bootstrap.servers": broker})
    places = [TopicPartition(topic, number, -1) for number in range(topics(broker)[topic])]
    for each in client.delete_records(places).values():
        each.result()


def test_a_commit_is_made_though_nothing_can_be_published(
    session: Session, broker: str, caplog: pytest.LogCaptureFixture
) -> None:
    from confluent_kafka.admin import AdminClient

    name = new_table(session, broker)
    client = AdminClient({"bootstrap.servers": broker})
    client.delete_topics([name])[name].result()
    session.sql(f"INSERT INTO {name} VALUES (1, 'a')")
    assert session.catalog.table(name).read().num_rows == 1
    assert f"topic {name} of the log of {name} is gone" in caplog.text
    assert f"`lakewright relay {name}`" in caplog.text
    assert relay(session.catalog.table(name), anew=True).commits == 1
    assert len(state_of(broker, name)) == 1


def test_snapshots_that_the_log_lacks_are_kept(session: Session, broker: str) -> None:
    name = new_table(session, broker)
    table = session.catalog.table(name)
    for number in range(5):
        table.write([{"id": number % 2, "name": str(number)}])
    table.upkeep.expire_snapshots(retain_max=1, retain_min=1, grace_ms=0)
    assert relay(table).commits == 5
    table.upkeep.expire_snapshots(retain_max=1, retain_min=1, grace_ms=0)
    assert table.history.snapshots()[0].id == 5


def test_of_two_relays_the_later_goes_on(session: Session, broker: str) -> None:
    name = new_table(session, broker)
    table = session.catalog.table(name)
    first, second = Relay(table), Relay(table)
    table.write([{"id": 1, "name": "a"}])
    first.run()
    second.run()
    table.write([{"id": 2, "name": "b"}])
    with pytest.raises(InvalidRequestError, match="another process writes"):
        first.run()
    assert second.run().commits == 1
    assert len(messages_of(broker, name)) == 2


_RELAY = """
import sys
from lakewright.connectors.log import follow
from lakewright.storage import Catalog
catalog = Catalog.open(sys.argv[1])
for _ in follow(lambda: catalog.table(sys.argv[2])):
    pass
"""
_READ = """
import json, os, sys
from pathlib import Path
from lakewright.session import Session
from lakewright.storage import Catalog
session = Session(Catalog.open(sys.argv[1]))
session.sql("SET 'execution.runtime-mode' = 'streaming'")
session.sql(f"SET 'stream.checkpoint' = '{sys.argv[3]}'")
for _ in session.run(f"INSERT INTO d.copy SELECT id, name FROM {sys.argv[2]}"):
    pass
"""


@pytest.mark.mission("LG1", "LG2")
def test_kills_of_relays_and_readers_lose_and_double_nothing(
    session: Session, broker: str, tmp_path: Path
) -> None:
    name = new_table(session, broker)
    session.sql(f"CREATE TABLE d.copy ({_KEYED}) WITH ('bucket' = '1')")
    chance, table = random.Random(3), session.catalog.table(name)
    model: dict[int, str] = {}
    wrote: list[tuple[int, int]] = []
    arguments = [session.catalog.root, name, str(tmp_path / "checkpoint")]
    programs = [_RELAY, _RELAY, _READ]
    running = [_started(each, arguments) for each in programs]
    until = time.monotonic() + 40
    round_ = 0
    while time.monotonic() < until:
        round_ += 1
        ids = chance.sample(range(60), 5)
        rows = [{"id": each, "name": f"{round_}"} for each in ids]
        snapshot = table.write(rows).snapshot
        assert snapshot is not None
        model |= dict.fromkeys(ids, f"{round_}")
        wrote += [(snapshot.id, each) for each in ids]
        if chance.random() < 0.3:
            gone = chance.choice(list(model))
            del model[gone]
            deleted = table.delete(f"id = {gone}").snapshot
            wrote.append((deleted.id, gone))
        if chance.random() < 0.1:
            table.upkeep.compact(full=True)
            # No consumer keeps the snapshot that the reader begins with.
            if session.catalog.table("d.copy").history.latest_snapshot() is not None:
                table.upkeep.expire_snapshots(retain_max=2, retain_min=1, grace_ms=0)
        time.sleep(chance.random() * 0.3)
        if chance.random() < 0.25:
            which = chance.randrange(len(running))
            running[which].kill()
            running[which].wait()
            running[which] = _started(programs[which], arguments)
    for each in running[:2]:
        each.kill()
        each.wait()
    relay(table)
    told = [
        (int(headers(each)["lakewright-snapshot"]), json.loads(each.key())["id"])
        for each in messages_of(broker, name)
    ]
    assert sorted(told) == sorted(wrote)
    assert {row["id"]: row["name"] for row in state_of(broker, name).values()} == model
    for _ in range(300):
        copied = session.catalog.table("d.copy").read().to_pylist()
        if {row["id"]: row["name"] for row in copied} == model:
            break
        assert running[2].poll() is None
        time.sleep(0.1)
    else:
        pytest.fail("the reader does not reach the table")
    running[2].kill()
    running[2].wait()


def _started(code: str, arguments: list[str]) -> subprocess.Popen[bytes]:
    return subprocess.Popen([sys.executable, "-c", code, *arguments], env=_ENVIRONMENT)
