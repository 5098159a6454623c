"""Declarations: what is wrong is said with file, line and place, and with what would be right."""

from __future__ import annotations

import datetime as dt
import os
from pathlib import Path
from textwrap import dedent

import pytest

from lakewright.platform.documents.yaml_files import DeclarationError
from lakewright.platform.orchestration.dagster_checks import check_for_dagster
from lakewright.platform.tables.declaration_files import load_declarations, read_files
from lakewright.platform.tables.declarations import ExpectationSeverity, TableDeclaration, WriteKind
from lakewright.platform.tables.open_declared import open_declared
from lakewright.platform.tables.partition_schemes import StaticDimension
from lakewright.storage import Catalog

GOOD = """\
table: nyc.flights
columns:
  - {name: dt, type: STRING}
  - {name: carrier, type: STRING, comment: airline}
  - {name: delay, type: DOUBLE}
partition_keys: [dt]
partitions:
  daily: {column: dt, start: 2013-01-01, end: 2014-01-01}
source: {python: "a.b:c"}
expectations:
  - {expect: expect_column_values_to_not_be_null, column: carrier}
"""

OLD_EXPECTATION = "{expect: expect_column_values_to_not_be_null, column: carrier}"


def load(tmp_path: Path, text: str, name: str = "flights.yaml") -> tuple[TableDeclaration, ...]:
    folder = tmp_path / "tables"
    folder.mkdir(exist_ok=True)
    (folder / name).write_text(dedent(text), encoding="utf-8")
    declared = load_declarations([folder], check=check_for_dagster)
    return tuple(each.declaration for each in declared)


def problems(tmp_path: Path, text: str, monkeypatch: pytest.MonkeyPatch) -> list[str]:
    monkeypatch.chdir(tmp_path)
    with pytest.raises(DeclarationError) as raised:
        load(tmp_path, text)
    return str(raised.value).splitlines()


def test_a_declaration_is_read(tmp_path: Path) -> None:
    (declaration,) = load(tmp_path, GOOD)
    assert declaration.table == "nyc.flights"
    assert declaration.write_kind is WriteKind.OVERWRITE
    assert declaration.scheme.column_names == ("dt",)
    assert declaration.expectations[0].check_name == "carrier_not_null"
    assert declaration.expectations[0].severity is ExpectationSeverity.CRITICAL
    assert declaration.maintenance.compaction.small_files == 5


def test_what_a_declaration_describes_can_be_created(tmp_path: Path) -> None:
    text = GOOD.replace("source:", "primary_key: [dt, carrier]\nsource:")
    (declaration,) = load(tmp_path, text)
    catalog = Catalog.open(str(tmp_path / "warehouse"))
    table = catalog.create_table(declaration.table, declaration.schema_spec)
    assert table.schema.primary_keys == ("dt", "carrier")
    assert table.options.bucket == 1
    assert declaration.write_kind is WriteKind.UPSERT


def test_one_file_holds_several_tables_in_a_list_or_as_documents(tmp_path: Path) -> None:
    loaded = load(
        tmp_path,
        """
        tables:
          - table: a.one
          - table: a.two
        ---
        table: a.three
        ---
        table: a.four
        """,
    )
    assert [each.table for each in loaded] == ["a.four", "a.one", "a.three", "a.two"]


def test_parts_may_be_shared_with_anchors(tmp_path: Path) -> None:
    loaded = load(
        tmp_path,
        """
        tables:
          - table: a.one
            maintenance: &often
              compaction: {small_files: 3}
          - table: a.two
            maintenance: *often
          - table: a.three
            maintenance:
              <<: *often
              snapshots: {retain_min: 2}
        """,
    )
    assert [each.maintenance.compaction.small_files for each in loaded] == [3, 3, 3]


def test_words_that_yaml_reads_as_something_else_stay_words(tmp_path: Path) -> None:
    text = GOOD.replace("source:", "options: {bucket: -1, write-only: true}\nsource:")
    (declaration,) = load(tmp_path, text)
    assert declaration.options == {"bucket": "-1", "write-only": "true"}


WORDS = """\
table: a.b
tags: {on: yes, size: 1_000}
comment: 2024
columns:
  - {name: no, type: STRING}
  - {name: 12:30, type: INT, comment: 0o7}
  - {name: day, type: DATE}
partition_keys: [no]
partitions:
  static: {column: no, values: [01, 02, 1_000, yes, OFF, 2024-01-01, 1e3, 0o7, 12:30, 1.50, "x"]}
options: {bucket-key: 12:30, bucket: 04}
source: {csv: data.csv, nulls: [no, 0, -]}
write: {compact: on}
expectations:
  - {expect: expect_column_values_to_be_in_set, column: no, value_set: [01, 1, yes, 2024-01-01]}
  - {expect: expect_column_values_to_be_in_set, column: 12:30, name: m, value_set: [1, 1e3, 4:5]}
  - {expect: expect_column_values_to_be_between, column: day, min_value: 2024-01-01, mostly: .5}
  - {expect: expect_column_value_lengths_to_be_between, column: no, min_value: 1}
  - {expect: expect_column_values_to_match_regex, column: no, regex: 12}
maintenance: {compaction: {small_files: 010, full: yes}}
"""


def test_a_word_is_taken_as_it_is_typed_wherever_text_is_wanted(tmp_path: Path) -> None:
    (declared,) = load(tmp_path, WORDS)

    assert declared.tags == {"on": "yes", "size": "1_000"}
    assert declared.comment == "2024"
    assert type(declared.comment) is str
    assert [each.name for each in declared.columns] == ["no", "12:30", "day"]
    assert declared.options == {"bucket-key": "12:30", "bucket": "04"}
    assert declared.source is not None
    assert declared.source.nulls == ("no", "0", "-")
    keys = ["01", "02", "1_000", "yes", "OFF", "2024-01-01", "1e3", "0o7", "12:30", "1.50", "x"]
    assert [declared.scheme.spec_of(key) for key in keys] == [{"no": key} for key in keys]
    (dimension,) = declared.scheme.dimensions
    assert isinstance(dimension, StaticDimension)
    assert list(dimension.keys) == keys


def test_a_word_is_read_as_what_its_place_takes(tmp_path: Path) -> None:
    (declared,) = load(tmp_path, WORDS)

    assert declared.write.compact is True
    assert declared.maintenance.compaction.full is True
    assert declared.maintenance.compaction.small_files == 10
    in_texts, in_numbers, from_day, lengths, regex = declared.expectations
    assert in_texts.arguments["value_set"] == ["01", "1", "yes", "2024-01-01"]
    assert in_numbers.arguments == {"column": "12:30", "value_set": [1, 1000.0, "4:5"]}
    assert from_day.arguments == {"column": "day", "min_value": dt.date(2024, 1, 1), "mostly": 0.5}
    assert lengths.arguments["min_value"] == 1
    assert regex.arguments["regex"] == "12"
    assert {type(each) for each in in_texts.arguments["value_set"]} == {str}


@pytest.mark.parametrize(
    ("old", "new", "problem"),
    [
        ("[01, 02, 1_000", "[null, 02, 1_000", "10: partitions.static.values[0]: null is not text"),
        (
            "bucket: 04",
            "bucket: 1_000",
            "11: options.bucket: a.b: bucket=1_000 is not a whole number",
        ),
        ("small_files: 010", "small_files: 1e3", "20: maintenance.compaction.small_files: 1e3"),
        ("full: yes", "full: 12:30", "20: maintenance.compaction.full: '12:30'"),
    ],
)
def test_a_word_that_is_not_what_its_place_takes_is_refused(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, old: str, new: str, problem: str
) -> None:
    assert old in WORDS
    found = problems(tmp_path, WORDS.replace(old, new), monkeypatch)
    assert any(problem in each for each in found), found


@pytest.mark.parametrize(
    ("old", "new", "problem"),
    [
        (
            "table: nyc.flights",
            "table: flights",
            "1: table: 'flights' is not a table name; write database.table",
        ),
        (
            "table: nyc.flights",
            "tabel: nyc.flights",
            "1: tabel: unknown key 'tabel'; did you mean 'table'?",
        ),
        (
            "{name: carrier,",
            "{nam: carrier,",
            "4: columns[1].nam: unknown key 'nam'; did you mean 'name'?",
        ),
        ("type: DOUBLE", "type: DUBLE", "5: columns[2].type: type 'DUBLE' is not understood"),
        ("name: delay", "name: dt", "5: columns[2].name: column 'dt' is declared twice"),
        (
            "partition_keys: [dt]",
            "partition_keys: [day]",
            "6: partition_keys[0]: 'day' is not a column; did you mean",
        ),
        ("partition_keys: [dt]", "partition_keys: dt", "6: partition_keys: 'dt' is not a list"),
        (
            "column: dt,",
            "column: carrier,",
            "8: partitions.daily.column: 'carrier' is not one of the partition_keys; there are dt",
        ),
        (
            "start: 2013-01-01",
            "start: soon",
            "8: partitions.daily.start: 'soon' is not a date; write for example 2013-01-01",
        ),
        ("end: 2014-01-01", "end: 2013-01-01", "8: partitions.daily.end: end"),
        (
            "end: 2014-01-01",
            "timezone: Mars",
            "8: partitions.daily.timezone: 'Mars' is not a time zone",
        ),
        (
            "end: 2014-01-01",
            "timezone: Europe",
            "8: partitions.daily.timezone: 'Europe' is not a time zone",
        ),
        (
            "start: 2013-01-01",
            "start: 2013-01-01T00:00+01:00",
            "2013-01-01T00:00+01:00 has a time zone; give the zone as `timezone` instead",
        ),
        ("start: 2013-01-01", "start: 0999-01-01", "is not within the years 1000 to 9000"),
        ("end: 2014-01-01", "end: 9999-12-31", "is not within the years 1000 to 9000"),
        ('{python: "a.b:c"}', '{csv: ""}', "9: source.csv: it is empty"),
        ('{python: "a.b:c"}', "{csv: a.csv, delimiter: €}", "not one ASCII character"),
        ('{python: "a.b:c"}', "{csv: a.csv, encoding: rot13}", "'rot13' is not an encoding"),
        ('{python: "a.b:c"}', "{csv: a.csv, date_format: '%d.%m.'}", "is not a strptime layout"),
        ('{python: "a.b:c"}', "{csv: a.csv, timestamp_format: '%Q'}", "is not a strptime layout"),
        ('{python: "a.b:c"}', "{json: a, delimiter: ;}", "delimiter describes csv files only"),
        ('{python: "a.b:c"}', "{orc: a, encoding: latin-1}", "describes csv and json files only"),
        (
            '{python: "a.b:c"}',
            "{csv: a, json: b}",
            "9: source: give exactly one of python, sql, parquet",
        ),
        ('{python: "a.b:c"}', '{csv: "/a/{d}/b.csv"}', "9: source.csv: {d} is not a partition key"),
        (
            '{python: "a.b:c"}',
            "{csv: a, extra_columns: drop}",
            "9: source.extra_columns: drop is not one of refuse or ignore",
        ),
        (
            '{python: "a.b:c"}',
            "{csv: a, max_bad_rows: 3}",
            "9: source.max_bad_rows: a run leaves out no rows",
        ),
        (
            '{python: "a.b:c"}',
            "{stream: {csv: /a}, on_bad_row: skip}",
            "9: source.on_bad_row: a stream stops at a bad row",
        ),
        (OLD_EXPECTATION, "{sql: SELECT * FROM batch}", "a query needs a name for its asset check"),
        (
            OLD_EXPECTATION,
            "{sql: SELECT * FRM batch, name: x}",
            "11: expectations[0].sql: the query cannot be parsed: line 1, column 18",
        ),
        (
            OLD_EXPECTATION,
            "{sql: SELECT * FROM batch, name: x, mostly: 0.9}",
            "11: expectations[0].mostly: a query has no argument 'mostly'",
        ),
        (OLD_EXPECTATION, "{name: x}", "11: expectations[0]: give either expect, an expectation"),
        ("column: carrier}", "column: carrier, show: 3}", "show is for the rows that a query"),
        (OLD_EXPECTATION, "{sql: SELECT * FROM batch, name: x, show: 0}", "greater than or equal"),
        ("column: carrier}", "column: [carrier, [dt]]}", "names no column"),
        ("column: carrier}", "column: {a: 1}}", "names no column"),
        ("end: 2014-01-01", "format: '%Y-%m'", "8: partitions.daily.format: format %Y-%m does not"),
        ("daily:", "dayly:", "8: partitions.dayly: unknown key 'dayly'; did you mean 'daily'?"),
        (
            '{python: "a.b:c"}',
            '{python: "a.b"}',
            "9: source.python: 'a.b' is not the path of a function; write module.path:function",
        ),
        (
            '{python: "a.b:c"}',
            "{}",
            "9: source: give exactly one of python, sql, parquet, orc, avro",
        ),
        (
            "column: carrier}",
            "column: carier}",
            "11: expectations[0]: 'carier' is not a column of nyc.flights; did you mean 'carrier'?",
        ),
        (
            "to_not_be_null",
            "to_not_be_nul",
            (
                "11: expectations[0].expect: there is no expectation "
                "'expect_column_values_to_not_be_nul'; "
                "did you mean 'expect_column_values_to_not_be_null'?"
            ),
        ),
        (
            "column: carrier}",
            "column: carrier, mostly: 95}",
            "11: expectations[0].mostly: mostly is 95",
        ),
        (
            "column: carrier}",
            "column: carrier, most: 0.9}",
            (
                "11: expectations[0].most: "
                "expect_column_values_to_not_be_null has no argument 'most'; did you mean 'mostly'?"
            ),
        ),
        ("column: carrier}", "severity: warning}", "needs the argument 'column'"),
        (
            "column: carrier}",
            "column: carrier, severity: bad}",
            "11: expectations[0].severity: bad is not one of critical, warning or info",
        ),
    ],
)
def test_what_is_wrong_is_said_with_its_line(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, old: str, new: str, problem: str
) -> None:
    assert old in GOOD
    found = problems(tmp_path, GOOD.replace(old, new), monkeypatch)
    assert any(problem in each for each in found), found
    assert all(each.startswith("tables/flights.yaml:") for each in found)


@pytest.mark.parametrize(
    ("old", "new", "meant"),
    [
        (
            "dt, type: STRING",
            "dt, type: varchar",
            "VARCHAR has no length; write STRING or VARCHAR(n)",
        ),
        ("dt, type: STRING", 'dt, type: "ARRAY<BINARY>"', "write BYTES or BINARY(n)"),
        ("dt, type: STRING", "dt, type: bool", "BOOL is not a type; did you mean BOOLEAN?"),
        ("dt, type: STRING", "dt, type: TEXT", "did you mean STRING?"),
        ("dt, type: STRING", "dt, type: LONG", "did you mean BIGINT?"),
        ("dt, type: STRING", "dt, type: DATETIME", "did you mean TIMESTAMP?"),
        ("dt, type: STRING", "dt, type: DUOBLE", "did you mean DOUBLE?"),
        ("column: dt, start", "column: dt, format: YYYY-MM-DD, start", "write %Y-%m-%d"),
        ("column: dt, start", "column: dt, format: yyyyMMdd, start", "write %Y%m%d"),
        (
            '{python: "a.b:c"}',
            "/tmp/x.csv",
            "'/tmp/x.csv' does not say what kind it is; write csv: ",
        ),
        ('{python: "a.b:c"}', "x/y.parquet", "write parquet: x/y.parquet"),
        ('{python: "a.b:c"}', '"a.b:c"', "write python: a.b:c"),
        ('{python: "a.b:c"}', "folder", "one of python: module:function, parquet: path, orc:"),
    ],
)
def test_what_is_written_as_elsewhere_is_told_as_it_is_written_here(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, old: str, new: str, meant: str
) -> None:
    (problem,) = problems(tmp_path, GOOD.replace(old, new), monkeypatch)
    assert meant in problem


def test_columns_as_a_mapping_are_shown_as_a_list(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    text = 'table: a.b\ncolumns: {dt: STRING, n: "DECIMAL(10, 2)"}\nsource: {csv: x}\n'
    (problem,) = problems(tmp_path, text, monkeypatch)
    assert problem.endswith(
        'write each on a line of its own as - {name: dt, type: "STRING"}; '
        '- {name: n, type: "DECIMAL(10, 2)"}'
    )


@pytest.mark.parametrize("key", ["primary_key", "columns", "comment", "source", "options.x"])
def test_what_a_misspelt_key_says_is_not_shown(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, key: str
) -> None:
    value = "[{secert: hunter2}]" if key == "source" else "{secert: hunter2}"
    name, _, below = key.partition(".")
    lines = {"table": "a.b", "columns": "[{name: id, type: INT}]", "source": "{csv: x}"}
    lines[name] = f"{{{below}: {value}}}" if below else value
    said = problems(tmp_path, "".join(f"{k}: {v}\n" for k, v in lines.items()), monkeypatch)
    assert "secert" in str(said)
    assert "hunter" not in str(said)


def test_a_path_that_is_not_there_has_no_line(tmp_path: Path) -> None:
    with pytest.raises(DeclarationError, match=r"/nope: no such file or folder"):
        load_declarations([tmp_path / "nope"], check=check_for_dagster)


@pytest.mark.parametrize(
    ("more", "problem"),
    [
        ("write: {mode: upsert}", "12: write.mode: upsert needs a primary_key"),
        ("write: {mode: apend}", "12: write.mode: apend is not one of append, overwrite or upsert"),
        (
            "primary_key: [dt, carrier]\nwrite: {mode: append}",
            "13: write.mode: a table with a primary_key replaces rows",
        ),
        ("primary_key: [carrier]", "partition key 'dt' is not in the primary key"),
        ("options: {file.format: csv}", "12: options.file.format: nyc.flights sets option"),
        ("options: {bukcet: 1}", "12: options.bukcet: nyc.flights: bukcet=1 is not an option"),
        (
            "maintenance: {compaction: {small_files: 1}}",
            "12: maintenance.compaction.small_files: 1",
        ),
        (
            "maintenance: {compaction: {quiet_for: 5}}",
            "12: maintenance.compaction.quiet_for: 5 has no unit; write 5d, 5h or 5min",
        ),
        (
            "maintenance: {compaction: {quiet_for: soon}}",
            "12: maintenance.compaction.quiet_for: 'soon' is not a duration",
        ),
        (
            "maintenance: {compaction: {interval: '30000'}}",
            "12: maintenance.compaction.interval: '30000' has no unit",
        ),
        (
            'maintenance: {snapshots: {time_retained: "7"}}',
            "12: maintenance.snapshots.time_retained: '7' has no unit; write 7d, 7h or 7min",
        ),
        (
            "options: {snapshot.time-retained: 7}",
            (
                "12: options.snapshot.time-retained: nyc.flights: snapshot.time-retained=7 has no "
                "unit"
            ),
        ),
        (
            "options: {target-file-size: 128}",
            "12: options.target-file-size: nyc.flights: target-file-size=128 has no unit",
        ),
        (
            "maintenance: {compaction: {interval: 1s}}",
            "12: maintenance.compaction.interval: the interval is at least 5s",
        ),
        (
            "maintenance: {snapshots: {schedule: daily}}",
            "12: maintenance.snapshots.schedule: 'daily' is not a cron schedule",
        ),
        (
            "maintenance: {snapshots: {retain_min: 9, retain_max: 3}}",
            "12: maintenance.snapshots.retain_max: retain_max is 3, below retain_min, which is 9",
        ),
        (
            "options: {partition.timestamp-pattern: $dt_hours}",
            "12: options.partition.timestamp-pattern: no partition of nyc.flights, whose keys are",
        ),
        (
            "maintenance: {partitions: {older_than: 7d, pattern: $dt_hours}}",
            "12: maintenance.partitions.pattern: no partition of nyc.flights, whose keys are dt ",
        ),
        ("depends_on: [nyc.flights]", "12: depends_on[0]: a table cannot depend on itself"),
        ("depends_on: [a b]", "12: depends_on[0]: 'a b' is neither a table, written"),
        (
            "schema: {readers: [java-0.9.0, jva-1.4.2]}",
            "12: schema.readers[1]: what 'jva-1.4.2' can read is not known; did you mean 'java-1",
        ),
        ("group: a b", "12: group: 'a b' may hold letters, digits and _ only"),
        ("tags: {'a b': c}", "12: tags: "),
        ("table: nyc.other", "12: key 'table' is given twice, first on line 1; keep one"),
    ],
)
def test_what_is_wrong_with_further_keys_is_said(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, more: str, problem: str
) -> None:
    found = problems(tmp_path, f"{GOOD}{more}\n", monkeypatch)
    assert any(problem in each for each in found), found


KEYED = """\
table: shop.orders
columns:
  - {name: id, type: BIGINT}
  - {name: amount, type: DOUBLE}
  - {name: at, type: TIMESTAMP(9)}
primary_key: [id]
source: {python: "a.b:c"}
options:
  target-file-size: 8 MB
"""


@pytest.mark.parametrize(
    "options",
    [
        "  merge-engine: first-row\n  changelog-producer: lookup\n",
        "  merge-engine: aggregation\n  fields.amount.aggregate-function: sum\n",
        "  merge-engine: partial-update\n  sequence.field: at\n",
        "  deletion-vectors.enabled: true\n  bucket: -2\n",
        "  changelog-producer: full-compaction\n  bucket: -1\n",
        "  file.format: orc\n  file.format.per.level: '0:parquet'\n",
        "  tag.automatic-creation: process-time\n  tag.num-retained-max: 7\n",
    ],
)
def test_a_table_can_be_created_with_the_options_of_its_declaration(
    tmp_path: Path, options: str
) -> None:
    (declaration,) = load(tmp_path, KEYED + options)
    catalog = Catalog.open(str(tmp_path / "warehouse"))
    table = catalog.create_table(declaration.table, declaration.schema_spec)
    for line in options.splitlines():
        name, value = line.strip().split(": ", 1)
        assert table.schema.options[name] == value.strip("'")


@pytest.mark.parametrize(
    ("options", "problem"),
    [
        ("merge-engine: first-rwo", "10: options.merge-engine: shop.orders sets option"),
        ("deletion-vectors.enabled: 1", "10: options.deletion-vectors.enabled: shop.orders: "),
        ("changelog-producer: all", "10: options.changelog-producer: shop.orders: changelog-"),
        ("bucket: -3", "10: options.bucket: shop.orders: bucket=-3; write -1 or a positive number"),
        ("bucket: many", "10: options.bucket: shop.orders: bucket=many is not a whole number"),
        (
            "bucket: -1\n  bucket-key: id",
            "11: options.bucket-key: shop.orders: a bucket-key needs a fixed number of buckets",
        ),
        ("file.format: avro", "10: options.file.format: shop.orders: column at cannot be in"),
        ("file.compression: lz5", "10: options.file.compression: shop.orders: file.compression="),
        (
            "file.format: avro\n  file.compression: lz4",
            "11: options.file.compression: shop.orders: avro files are not compressed with lz4",
        ),
        (
            "snapshot.time-retained: soon",
            "10: options.snapshot.time-retained: shop.orders: snapshot.time-retained='soon' is not",
        ),
        ("tag.num-retained-max: 0", "10: options.tag.num-retained-max: shop.orders: tag.num-"),
        ("tag.creation-delay: 2d", "10: options.tag.creation-delay: shop.orders: tag.creation-"),
        (
            "merge-engine: first-row\n  deletion-vectors.enabled: true",
            "11: options.deletion-vectors.enabled: shop.orders: deletion-vectors.enabled=true does",
        ),
        (
            "fields.price.aggregate-function: sum",
            "10: options.fields.price.aggregate-function: shop.orders: ",
        ),
    ],
)
def test_a_refused_option_is_pointed_at(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, options: str, problem: str
) -> None:
    found = problems(tmp_path, f"{KEYED}  {options}\n", monkeypatch)
    assert [each.startswith(f"tables/flights.yaml:{problem}") for each in found] == [True], found


@pytest.mark.mission("BK4", "BK13")
@pytest.mark.parametrize(
    ("said", "options"),
    [
        ("{by: [id], buckets: 6}", {"bucket": "6", "bucket-key": "id"}),
        ("{buckets: 6}", {"bucket": "6"}),
        ("{by: [id]}", {"bucket": "-1"}),
    ],
)
def test_a_table_is_distributed_as_declared(
    tmp_path: Path, said: str, options: dict[str, str]
) -> None:
    text = KEYED.partition("options:")[0] + f"distribution: {said}\n"
    (declaration,) = load(tmp_path, text)
    catalog = Catalog.open(str(tmp_path / "warehouse"))
    table, drift = open_declared(catalog, declaration)
    found = {name: table.schema.options.get(name) for name in ("bucket", "bucket-key")}
    assert found == {"bucket-key": None, **options}
    assert not drift


@pytest.mark.mission("BK11", "BK16", "BK30")
@pytest.mark.parametrize(
    ("said", "problem"),
    [
        ("{by: [id], buckets: 0}", "distribution: 0 buckets hold no rows; write 1 or more"),
        ("{}", "distribution: a distribution without bucket keys says how many buckets"),
        (
            "{by: [x], buckets: 2}",
            "distribution: shop.orders cannot be distributed by x, which is no",
        ),
        ("{by: [amount], buckets: 2}", "distribution: shop.orders cannot be distributed by amount"),
        (
            "{by: [id]}\noptions: {bucket: 2}",
            "distribution: shop.orders: DISTRIBUTED BY HASH (id) and",
        ),
    ],
)
def test_a_distribution_that_cannot_be_is_pointed_at(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, said: str, problem: str
) -> None:
    text = KEYED.partition("options:")[0] + f"distribution: {said}\n"
    (found,) = problems(tmp_path, text, monkeypatch)
    assert problem in found


def test_all_that_is_wrong_is_said_at_once(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    text = GOOD.replace("type: DOUBLE", "type: DUBLE").replace("a.b:c", "a.b")
    found = problems(tmp_path, text, monkeypatch)
    assert [each.split(":")[1] for each in found] == ["5", "9"]


def test_a_table_declared_twice_names_both_places(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    load(tmp_path, "# the first\ntable: a.b\n", "one.yaml")
    with pytest.raises(DeclarationError) as raised:
        load(tmp_path, "table: a.b\n", "two.yaml")
    assert str(raised.value) == (
        "tables/two.yaml:1: table: table a.b is declared in tables/one.yaml:2 too; keep one"
    )


def test_tables_that_dagster_could_not_tell_apart_are_refused(tmp_path: Path) -> None:
    with pytest.raises(DeclarationError, match="would share the name a__b_c in Dagster"):
        load(tmp_path, "tables: [{table: a.b-c}, {table: a.b_c}]")


def test_a_misspelled_upstream_is_noticed_and_a_foreign_one_is_not(tmp_path: Path) -> None:
    weather = "table: nyc.weather\ncolumns: [{name: a, type: INT}]\nsource: {python: 'a:b'}\n"
    load(tmp_path, GOOD)
    load(tmp_path, weather + "depends_on: [sales.orders]\n", "weather.yaml")
    with pytest.raises(DeclarationError, match=r"did you mean 'nyc\.flights'"):
        load(tmp_path, weather + "depends_on: [nyc.fligths]\n", "weather.yaml")
    query = "expectations: [{name: q, sql: 'SELECT * FROM batch ANTI JOIN nyc.fligths USING (a)'}]"
    with pytest.raises(DeclarationError, match=r"\[0\]\.sql: no table 'nyc\.fligths' is decl"):
        load(tmp_path, weather + query, "weather.yaml")


def test_tables_that_depend_in_a_ring_are_refused(tmp_path: Path) -> None:
    one = (
        "{table: a.one, columns: [{name: x, type: INT}], source: {python: 'a:b'}, depends_on: [%s]}"
    )
    two = one.replace("a.one", "a.two")
    with pytest.raises(
        DeclarationError, match=r"depend on each other in a circle: a\.one → a\.two → a\.one"
    ):
        load(tmp_path, f"tables: [{one % 'a.two'}, {two % 'a.one'}]")


MISTAKES = [
    # What is in the folder beside `a.right`, the tables that are wrong, and how many problems.
    ({"one.yaml": "table: a.one\ncolums: []\n"}, ["a.one"], 1),
    ({"one.yaml": "tables: [{table: a.one}, {table: a.two, colums: []}]\n"}, ["a.two"], 1),
    # What stands at the top may be meant for each of them.
    (
        {"one.yaml": "maintenance: {}\ntables: [{table: a.one}, {table: a.two}]\n"},
        ["a.one", "a.two"],
        1,
    ),
    ({"one.yaml": "table: a.one\n", "two.yaml": "table: a.one\n"}, ["a.one", "a.one"], 1),
    # Which of them is meant is as unknown if one of them is wrong.
    (
        {"one.yaml": "table: a.one\n", "two.yaml": "table: a.one\ncolums: []\n"},
        ["a.one", "a.one"],
        2,
    ),
    ({"one.yaml": "tabel: a.one\n"}, [None], 1),
    ({"one.yaml": "table: [a.one]\n"}, [None], 1),
    ({"one.yaml": "table: one\n"}, [None], 1),
    ({"one.yaml": "table: a.one\ncolumns: [\n---\ntable: a.two\n"}, [None], 1),
    ({"one.yaml": "warehouse: {mode: live}\n"}, [None], 1),
]


@pytest.mark.parametrize(("files", "tables", "problems"), MISTAKES)
def test_a_wrong_declaration_leaves_the_others_right(
    tmp_path: Path, files: dict[str, str], tables: list[str | None], problems: int
) -> None:
    for name, text in {**files, "right.yaml": "table: a.right\n"}.items():
        (tmp_path / name).write_text(text)
    read = read_files([tmp_path], check=check_for_dagster)
    right = {each.declaration.table for each in read.right}
    assert "a.right" in right
    assert [each.table for each in read.wrong] == tables
    assert len(read.problems) == problems
    assert not right & {*tables}


def test_two_checks_of_one_name_are_refused(tmp_path: Path) -> None:
    more = "  - {expect: expect_column_values_to_not_be_null, column: carrier, mostly: 0.5}\n"
    with pytest.raises(DeclarationError, match=r"12: expectations\[1\]: a second check would be"):
        load(tmp_path, GOOD + more)
    named = more.replace("mostly: 0.5", "mostly: 0.5, name: carrier_mostly_there")
    assert load(tmp_path, GOOD + named)[0].expectations[1].check_name == "carrier_mostly_there"


def test_a_place_that_does_not_exist_is_named_and_an_empty_folder_has_no_tables(
    tmp_path: Path,
) -> None:
    (tmp_path / "empty").mkdir()
    assert load_declarations([tmp_path / "empty"], check=check_for_dagster) == ()
    with pytest.raises(DeclarationError) as raised:
        load_declarations([tmp_path / "nowhere", tmp_path / "empty"], check=check_for_dagster)
    assert "no such file or folder" in str(raised.value)
    assert "empty" not in str(raised.value)


@pytest.mark.parametrize(
    ("path", "read"),
    [
        ("rows.csv", "HERE/rows.csv"),
        ("./in/dt={dt}/*.csv", "HERE/in/dt={dt}/*.csv"),
        ("../rows", "HERE/../rows"),
        ("/data/rows.csv", "/data/rows.csv"),
        ("~/rows.csv", "~/rows.csv"),
        ("file:///data/rows.csv", "file:///data/rows.csv"),
        ("s3://bucket/rows", "s3://bucket/rows"),
        ("${ROWS}/rows.csv", "${ROWS}/rows.csv"),
        ("in/${ROWS}.csv", "HERE/in/${ROWS}.csv"),
    ],
)
def test_paths_in_a_declaration_are_relative_to_its_file(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, path: str, read: str
) -> None:
    folder, elsewhere = tmp_path / "tables" / "shop", tmp_path / "elsewhere"
    folder.mkdir(parents=True)
    elsewhere.mkdir()
    keys = "columns: [{name: id, type: INT}, {name: dt, type: STRING}]\npartition_keys: [dt]\n"
    for name, source in {
        "files": f'{{csv: "{path}"}}',
        "many": f'{{stream: {{csv: "{path}"}}}}',
    }.items():
        text = f"table: shop.{name}\n{keys}source: {source}\n"
        if name == "files" or "{dt}" not in path:
            (folder / f"{name}.yaml").write_text(text)
    for place in (tmp_path, elsewhere):
        monkeypatch.chdir(place)
        for each in load_declarations([tmp_path / "tables"], check=lambda _: ()):
            source = each.declaration.source
            assert source is not None
            assert source.paths == {"csv": read.replace("HERE", str(folder))}


@pytest.mark.parametrize(
    "text",
    [
        "- a\n",
        "just text\n",
        "a: [1\n",
        "a: &x [*x]\n",
        "? [a]\n: b\n",
        "table: !!python/object:a.b {}\n",
        "tables: {a: b}\n",
        "tables: []\nother: 1\n",
        "table: 2013-02-30\n",
        "tables: [1]\n",
    ],
)
def test_text_that_is_no_declaration_is_refused_with_a_line(tmp_path: Path, text: str) -> None:
    with pytest.raises(DeclarationError, match=r"flights\.yaml:\d+: "):
        load(tmp_path, text)


@pytest.mark.parametrize(
    ("partitions", "type_", "key", "value"),
    [
        (
            "hourly: {column: dt, start: 2013-01-01T05:00}",
            "STRING",
            "2013-01-01-07:00",
            "2013-01-01 07",
        ),
        ("daily: {column: dt, start: 2013-01-01}", "INT", "2013-12-03", 20131203),
        (
            "daily: {column: dt, start: 2013-01-01, format: '%d.%m.%Y'}",
            "STRING",
            "2013-12-03",
            "03.12.2013",
        ),
        ("weekly: {column: dt, start: 2013-01-07}", "STRING", "W2013-01-14", "2013-01-14"),
        ("monthly: {column: dt, start: 2013-01}", "STRING", "2013-05", "2013-05"),
    ],
)
@pytest.mark.mission("PT18")
def test_partitions_by_time_hold_moments_in_the_columns_format(
    tmp_path: Path, partitions: str, type_: str, key: str, value: object
) -> None:
    text = GOOD.replace("{name: dt, type: STRING}", f"{{name: dt, type: {type_}}}")
    text = text.replace("daily: {column: dt, start: 2013-01-01, end: 2014-01-01}", partitions)
    (declaration,) = load(tmp_path, text)
    assert declaration.scheme.spec_of(key) == {"dt": value}
    assert declaration.scheme.key_of({"dt": value}) == key


def test_a_pipe_among_declarations_is_named_and_not_waited_for(tmp_path: Path) -> None:
    (tmp_path / "good.yaml").write_text(GOOD)
    os.mkfifo(tmp_path / "pipe.yaml")
    with pytest.raises(DeclarationError, match=r"pipe\.yaml: the file is a pipe, a socket or a"):
        load_declarations([tmp_path], check=check_for_dagster)
