"""The logs of tables on a real broker: published after each commit, once, and read behind it."""

from __future__ import annotations

import itertools
import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from lakewright.connectors.external_tables import ExternalTables
from lakewright.connectors.log import relay
from lakewright.connectors.planning.plan_source import ScanRequest, plan_scan
from lakewright.session import Session
from lakewright.storage import Catalog, RenameColumn
from lakewright.storage.errors import (
    AlreadyExistsError,
    InvalidOption,
    StalePlan,
    StorageError,
    UnsupportedError,
)
from tests.stores.test_kafka import messages_of
from tests.support.stores.servers import kafka_server

pytestmark = pytest.mark.stores

_NUMBERS = itertools.count(1)
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


@pytest.mark.mission("LG1", "LG5", "CN53")
def test_a_stream_reads_the_rows_and_then_the_log(
    session: Session, broker: str, tmp_path: Path
) -> None:
    name = new_table(session, broker)
    session.sql(f"INSERT INTO {name} VALUES (1, 'a'), (2, 'b')")
    session.sql(f"INSERT INTO {name} VALUES (3, 'c')")
    at = tmp_path / "at"
    assert sorted(followed(session, name, at)) == [
        (1, "a", "+I"),
        (2, "b", "+I"),
        (3, "c", "+I"),
    ]
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
    table.upkeep.expire_snapshots(retain_max=1, retain_min=1)
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
    session.sql("DROP TABLE d.renamed")
    assert name not in topics(broker)


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
    table.history.rollback(snapshot=1)
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


def test_columns_are_added_and_not_renamed(session: Session, broker: str, tmp_path: Path) -> None:
    name, at = new_table(session, broker), tmp_path / "at"
    session.sql(f"INSERT INTO {name} VALUES (1, 'a')")
    session.sql(f"ALTER TABLE {name} ADD COLUMN more INT; INSERT INTO {name} VALUES (2, 'b', 7)")
    assert sorted(followed(session, name, at), key=str) == [(1, "a", None, "+I"), (2, "b", 7, "+I")]
    session.sql(f"INSERT INTO {name} VALUES (3, 'c', 8)")
    assert followed(session, name, at) == [(3, "c", 8, "+U")]
    table = session.catalog.table(name)
    table.alter(RenameColumn("name", "title"))
    session.catalog.table(name).write([{"id": 4, "title": "d", "more": 9}])
    with pytest.raises(StalePlan, match="column name of the log was dropped, renamed or given"):
        relay(session.catalog.table(name))
    relay(session.catalog.table(name), anew=True)
    assert state_of(broker, name)[b'{"id":1}'] == {"id": 1, "title": "a", "more": None}


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
