"""Declared streams: what is wrong with them, and what cannot stand beside one."""

from __future__ import annotations

import datetime as dt
from pathlib import Path

import pytest

from lakewright.platform.documents.yaml_files import DeclarationError
from lakewright.platform.orchestration.dagster_checks import check_for_dagster
from lakewright.platform.tables.declaration_files import load_declarations
from lakewright.platform.tables.declarations import TableDeclaration, WriteKind
from lakewright.platform.tables.source_variables import with_source_variables
from lakewright.storage import EventTime, ProcessingTime

COLUMNS = """\
table: logs.clicks
columns:
  - {name: dt, type: DATE NOT NULL}
  - {name: hour, type: INT NOT NULL}
  - {name: shop, type: INT NOT NULL}
  - {name: id, type: BIGINT}
partition_keys: [dt, hour, shop]
"""


def load(tmp_path: Path, text: str) -> TableDeclaration:
    (tmp_path / "clicks.yaml").write_text(COLUMNS + text)
    (declared,) = load_declarations([tmp_path], check=check_for_dagster)
    return declared.declaration


def problems(tmp_path: Path, text: str) -> list[str]:
    """What is wrong, without the name of the file."""
    with pytest.raises(DeclarationError) as raised:
        load(tmp_path, text)
    return [line.partition(".yaml:")[2] for line in str(raised.value).splitlines()]


def test_a_stream_is_read_with_the_times_and_values_of_its_partitions(tmp_path: Path) -> None:
    declared = load(
        tmp_path,
        """
source:
  stream:
    json: "${LANDING}/clicks"
    files_per_batch: 10
    partition:
      dt: {event_time: at, delay: 10min}
      hour: {event_time: at, layout: H, delay: 10min}
      shop: 7
""",
    )
    assert declared.stream is not None
    late = dt.timedelta(minutes=10)
    assert declared.stream.partition_of_rows == {
        "dt": EventTime("at", delay=late),
        "hour": EventTime("at", "H", delay=late),
        "shop": "7",
    }
    assert declared.write_kind is WriteKind.APPEND
    here, values = with_source_variables(declared, {"LANDING": "/landing"})
    assert here.stream is not None
    assert here.stream.files == {"json": "/landing/clicks"}
    assert values == {"LANDING": "/landing"}


def test_the_table_that_is_read_is_upstream(tmp_path: Path) -> None:
    declared = load(
        tmp_path,
        """
depends_on: [logs.raw]
source:
  stream: {table: logs.all, consumer: c, partition: {dt: {processing_time: true}}}
automation: eager
""",
    )
    assert declared.upstream == ("logs.raw", "logs.all")
    assert declared.stream is not None
    assert declared.stream.partition_of_rows == {"dt": ProcessingTime()}


def test_what_is_wrong_with_a_stream_is_said_with_its_line(tmp_path: Path) -> None:
    assert problems(tmp_path, "source: {stream: {jsn: in}}") == [
        "8: source.stream.jsn: unknown key 'jsn'; did you mean 'json'?"
    ]
    found = problems(
        tmp_path,
        """
source:
  allow_empty: true
  stream:
    json: "in/dt={dt}"
    consumer: c
    partition: {hours: {event_time: at}}
""",
    )
    no_part = "{dt} is no part of the path of a stream, whose partitions come with the rows or from"
    assert found == [
        "10: source.allow_empty: a stream empties no partition; leave allow_empty out",
        f"12: source.stream.json: {no_part} `partition`; leave it out",
        "13: source.stream.consumer: consumer goes with table; leave it out",
        "14: source.stream.partition.hours: 'hours' is not a partition key; did you mean 'hour'?",
    ]
    for text, said in (
        (
            "{json: in, orc: in}",
            "give exactly one of json, csv, parquet, orc, avro, table; given: json",
        ),
        ("{table: logs.all}", "needs a consumer"),
        ("{json: in}, delimiter: ';'", "delimiter describes csv files only"),
        ("{table: logs.all, consumer: c}, encoding: utf-8", "encoding describes csv and json"),
        ("{table: logs.clicks, consumer: c}", "cannot stream into itself"),
        ("{json: in, partition: {shop: many}}", "'many'"),
        ("{json: in, partition: {dt: {event_time: at, layout: HH}}}", "which needs no layout"),
        ("{json: in, partition: {hour: {event_time: at, layout: H}}}", "give no year"),
        ("{json: in, partition: {shop: {layout: H}}}", "write a value, {event_time: COLUMN}"),
        ("{json: in, partition: {dt: {event_time: at, zone: Mars}}}", "'Mars' is not a time zone"),
        ("{json: 's3://key:secret@host/in'}", "source.stream.json: "),
    ):
        (problem,) = problems(tmp_path, f"source: {{stream: {text}}}")
        assert said in problem
        assert "secret" not in problem


@pytest.mark.parametrize(
    ("beside", "said"),
    [
        ("backfill: multi_run", "a stream reads each row once and has no backfill"),
        ("write: {mode: overwrite}", "a stream adds rows and never replaces a partition"),
        ("write: {engine: local}", "streams of files and tables run in Spark"),
        ("write: {compact: true}", "leaves compaction to maintenance.compaction"),
        ("write: {on_duplicate: refuse}", "a stream may change a key several times in a batch"),
        ("automation: on_missing", "write eager, {continuous: 1m}, or a schedule"),
        ("automation: {continuous: 1m}", "continuous follows a connector or a table"),
        ("automation: eager", "eager follows the tables in depends_on, and there are none"),
        ('schedule: {cron: "0 5 * * *", partitions: 2}', "a tick writes all that is new"),
    ],
)
def test_what_only_runs_for_partitions_have_is_refused_with_the_way_out(
    tmp_path: Path, beside: str, said: str
) -> None:
    (problem,) = problems(tmp_path, f"source: {{stream: {{json: in}}}}\n{beside}")
    assert said in problem
