"""What of a table's log needs no broker: its options, its messages, and what is refused."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pyarrow as pa
import pytest

from lakewright.connectors.log import relay
from lakewright.connectors.log.factory import whole_rows
from lakewright.connectors.log.table_log import TableLog
from lakewright.connectors.log.topic import SNAPSHOT, snapshot_of
from lakewright.connectors.registry import installed
from lakewright.session import Session
from lakewright.storage import Catalog
from lakewright.storage.codec.arrow_types import to_arrow_schema
from lakewright.storage.errors import InvalidOption, InvalidRequestError, UnsupportedError
from lakewright.storage.spec.data_types import parse_data_type
from lakewright.storage.spec.schema import Column, SchemaSpec, TableSchema, new_schema

_GIVEN = {"lakewright.log.system": "kafka", "lakewright.log.bootstrap.servers": "127.0.0.1:1"}


@pytest.fixture
def session(tmp_path: Path) -> Session:
    session = Session(Catalog.open(str(tmp_path / "warehouse")))
    session.sql("CREATE DATABASE d")
    return session


def schema_of(columns: dict[str, str], *keys: str, **options: str) -> TableSchema:
    spec = SchemaSpec(
        columns=tuple(Column(name, parse_data_type(kind)) for name, kind in columns.items()),
        primary_keys=keys,
        options={**_GIVEN, **{name.replace("__", "."): text for name, text in options.items()}},
    )
    return new_schema(spec, time_millis=0)


def log_of(schema: TableSchema) -> TableLog:
    log = TableLog.of("d.t", schema)
    assert log is not None
    return log


@pytest.mark.mission("LG2")
def test_a_primary_key_decides_the_form_of_messages() -> None:
    keyed = log_of(schema_of({"id": "BIGINT", "v": "INT"}, "id", bucket="4"))
    assert (keyed.topic, keyed.partition_count) == ("d.t", 4)
    context = keyed.context(installed())
    assert context.connector == "upsert-kafka"
    plain = log_of(schema_of({"id": "BIGINT", "v": "INT"}))
    assert plain.partition_count == 1
    options = plain.context(installed()).table.options
    assert (options["connector"], options["value.format"]) == ("kafka", "debezium-json")
    assert "key.fields" not in options
    spread = log_of(schema_of({"id": "BIGINT"}, bucket="2", **{"bucket-key": "id"}))
    assert spread.context(installed()).table.options["key.fields"] == "id"


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"lakewright.log.system": "pulsar"}, "pulsar"),
        ({"lakewright.log.topik": "t"}, "topik"),
        ({"lakewright.log.topic": "a/b"}, "topic 'a/b', which Kafka does not allow"),
        ({"lakewright.log.format": "debezium-json"}, "with a primary key has the format json"),
    ],
)
def test_options_that_are_wrong_are_named(options: dict[str, str], message: str) -> None:
    schema = schema_of({"id": "BIGINT"}, "id", bucket="1")
    with pytest.raises(InvalidOption, match=message):
        log_of(replace(schema, options={**schema.options, **options}))


def test_a_secret_of_a_log_is_refused_before_anything_is_made(session: Session) -> None:
    given = "'log.system' = 'kafka', 'log.bootstrap.servers' = '127.0.0.1:1'"
    secret = "'log.properties.sasl.password' = 'hunter2'"
    for statement in (
        f"CREATE TABLE d.t (id INT) WITH ({given}, {secret})",
        f"CREATE TABLE d.u (id INT); ALTER TABLE d.u SET ({given}, {secret})",
    ):
        with pytest.raises(InvalidOption, match=r"LOG_PROPERTIES_SASL_PASSWORD\}") as refused:
            session.sql(statement)
        assert "hunter2" not in refused.value.message
    assert session.catalog.list_tables("d") == ("u",)


def test_a_secret_is_one_of_the_environment(monkeypatch: pytest.MonkeyPatch) -> None:
    schema = schema_of(
        {"id": "BIGINT"}, lakewright__log__properties__sasl__password="${env:SECRET}"
    )
    monkeypatch.setenv("SECRET", "s3cret")
    log = log_of(schema)
    assert log.cluster.properties["sasl.password"] == "s3cret"
    assert "s3cret" not in repr(log)


def test_rows_that_move_between_partitions_have_no_log() -> None:
    columns = {"id": "BIGINT", "day": "STRING"}
    with pytest.raises(UnsupportedError, match="lacks partition keys"):
        log_of(replace(schema_of(columns, "id"), partition_keys=("day",))).context(installed())


@pytest.mark.parametrize(
    "kind",
    [
        *("BOOLEAN", "INT", "BIGINT", "DOUBLE", "DECIMAL(9, 2)", "STRING", "BYTES", "DATE"),
        *("TIME(3)", "TIMESTAMP(6)", "TIMESTAMP_LTZ(3)", "ARRAY<INT>", "MAP<STRING, INT>"),
        "ROW<a INT>",
    ],
)
def test_a_deletion_has_a_value_in_columns_without_nulls(kind: str) -> None:
    schema = schema_of({"id": "INT", "v": f"{kind} NOT NULL"}, "id")
    (field,) = to_arrow_schema(schema.fields_of(["v"])).types
    rows = pa.table({"id": [1, 2], "v": pa.nulls(2, field)})
    assert whole_rows(rows, schema).column("v").null_count == 0


def test_statements_refuse_what_has_no_log(session: Session) -> None:
    log = "'log.system' = 'kafka', 'log.bootstrap.servers' = '127.0.0.1:1'"
    with pytest.raises(UnsupportedError, match="is temporary, and a log is for other processes"):
        session.sql(f"CREATE TEMPORARY TABLE d.t (id INT) WITH ({log})")
    with pytest.raises(InvalidOption, match=r"write log\.system"):
        session.sql("CREATE TABLE d.t (id INT) WITH ('lakewright.log.system' = 'kafka')")
    with pytest.raises(InvalidOption, match=r"log\.bootstrap\.servers"):
        session.sql("CREATE TABLE d.t (id INT) WITH ('log.system' = 'kafka')")
    assert not session.catalog.table_exists("d.t")
    session.sql("CREATE TABLE d.t (id INT)")
    with pytest.raises(InvalidRequestError, match=r"d\.t has no log; give it one with ALTER TABLE"):
        relay(session.catalog.table("d.t"))
    with pytest.raises(InvalidOption, match=r"log\.format of d\.t is settled when the log is made"):
        session.sql("ALTER TABLE d.t RESET ('log.format')")


def test_brokers_that_do_not_answer_hold_up_no_commit_for_long(
    session: Session, caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("lakewright.connectors.kafka.sink.ANSWER_SECONDS", 0.5)
    session.catalog.create_table("d.t", {"id": "INT"}, options=_GIVEN)
    for _ in range(3):
        session.sql("INSERT INTO d.t VALUES (1)")
    assert session.catalog.table("d.t").read().num_rows == 3
    (record,) = caplog.records
    assert "d.t is committed, and its log lacks it" in record.getMessage()
    assert "`lakewright relay d.t` publishes it" in record.getMessage()


def test_the_storage_library_alone_makes_no_table_with_a_log(session: Session) -> None:
    with pytest.raises(UnsupportedError, match="a table gets a log that follows its commits"):
        session.catalog.create_table("d.t", {"id": "INT"}, options={"log.system": "kafka"})


def test_a_table_like_another_has_no_log_of_it(session: Session) -> None:
    session.catalog.create_table("d.t", {"id": "INT"}, options=_GIVEN)
    session.sql("CREATE TABLE d.other LIKE d.t")
    assert not any("log." in each for each in session.catalog.table("d.other").schema.options)
    shown = session.sql("SHOW CREATE TABLE d.t").rows
    assert shown is not None
    assert "'log.system' = 'kafka'" in shown.column("statement")[0].as_py()


@pytest.mark.parametrize(
    ("header", "snapshot_id"), [(b"17", 17), (b"", 0), (b"x", 0), (b"9" * 5_000, 0), (b"\xb2", 0)]
)
def test_messages_with_headers_that_no_relay_wrote_are_of_no_snapshot(
    header: bytes, snapshot_id: int
) -> None:
    assert snapshot_of({SNAPSHOT: header}) == snapshot_id
