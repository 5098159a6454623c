"""Rows that do not fit: left out, kept beside the table, and tried again."""

from __future__ import annotations

import json
from decimal import Decimal
from typing import Any

import dagster as dg
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import lakewright
from lakewright.cli import main
from lakewright.platform.ingest import replay_rejects as replays
from lakewright.platform.ingest.rejects import Rejects
from lakewright.platform.orchestration.check_events import last_evaluation
from lakewright.platform.orchestration.names import TableNames
from lakewright.platform.upkeep import leases
from lakewright.storage import ChangeType
from lakewright.storage.errors import LeaseHeld
from tests.pipelines import sources
from tests.pipelines.lake import EVENTS, Lake
from tests.pipelines.test_file_sources import DAYS, FIRST, declare, put, sale, sales

REJECTS = "shop.sales__rejects"
REJECTS_KEY = dg.AssetKey(["shop", "sales", "rejects"])
CSV = """\
amount,code,dt
1.5,a,2024-01-01
x,b,2024-01-01
2.5,c,2024-01-01,more
y,d,2024-01-02
3.5,"e
f",2024-01-01
z,"g
h",2024-01-01
4.5,i,soon
"""
KEPT = "{csv: FOLDER/a.csv, on_bad_row: quarantine}"


def rejects(lake: Lake) -> list[dict[str, Any]]:
    return sorted(lake.rows(REJECTS), key=lambda row: row["line"] or 0)


def test_rows_that_do_not_fit_are_kept_with_their_line_and_reason(lake: Lake) -> None:
    put(lake, "a.csv", CSV)
    declare(lake, KEPT)
    lake.materialize("shop.sales", partitions="2024-01-01")
    assert sales(lake) == [sale(FIRST, "a", "1.5"), sale(FIRST, "e\nf", "3.5")]
    found = [(row["line"], row["text"], row["column_name"]) for row in rejects(lake)]
    assert found == [
        (3, "x,b,2024-01-01", "amount"),
        (4, "2.5,c,2024-01-01,more", None),
        (8, 'z,"g\nh",2024-01-01', "amount"),
        (10, "4.5,i,soon", "dt"),
    ]
    assert {row["state"] for row in rejects(lake)} == {"open"}
    assert "DECIMAL" in rejects(lake)[0]["reason"]


def test_a_backfill_tells_partitions_of_bad_rows_alone_from_those_without_rows(lake: Lake) -> None:
    put(lake, "a.csv", "amount,code,dt\nx,b,2024-01-01\n1.5,a,2024-01-02\n")
    declare(lake, KEPT)
    days = ["2024-01-01", "2024-01-02", "2024-01-03"]
    config = {"ops": {"backfill": {"config": {"tables": {"shop.sales": {"partitions": days}}}}}}
    done = lake.run_job("backfill", config)
    (table,) = [
        entry.step_output_data.metadata["shop.sales"]
        for entry in done.result.all_events
        if entry.event_type_value == "STEP_OUTPUT"
    ]
    assert {each.data["partition"]: each.data["result"] for each in table.records} == {
        "2024-01-01": "no good row; 1 bad row left out",
        "2024-01-02": "published",
        "2024-01-03": "no rows in the source",
    }


def states(lake: Lake) -> dict[str, str]:
    return {row["text"]: row["state"] for row in rejects(lake)}


def test_rows_that_fit_a_changed_declaration_are_replayed_once(lake: Lake) -> None:
    put(lake, "a.csv", CSV)
    declare(lake, KEPT)
    lake.materialize("shop.sales", partitions="2024-01-01")
    declare(lake, '{csv: FOLDER/a.csv, on_bad_row: quarantine, nulls: [x, ""]}')
    for _ in range(2):
        lake.run_job("replay_rejects", config(table="shop.sales"))
        assert len(sales(lake)) == 3
    assert {"dt": FIRST, "code": "b", "amount": None} in sales(lake)
    assert states(lake) == {
        "x,b,2024-01-01": "replayed",
        "2.5,c,2024-01-01,more": "open",
        'z,"g\nh",2024-01-01': "open",
        "4.5,i,soon": "open",
    }


def config(**given: Any) -> dict[str, Any]:
    return {"ops": {"replay_rejects": {"config": given}}}


@pytest.mark.parametrize(
    ("last_state", "appended"),
    [
        pytest.param(replays.REPLAYING, 2, id="before its commit"),
        pytest.param(replays.REPLAYED, 3, id="after its commit"),
    ],
)
def test_a_replay_that_died_is_done_by_the_next_one_and_appends_nothing_again(
    lake: Lake, monkeypatch: pytest.MonkeyPatch, last_state: str, appended: int
) -> None:
    put(lake, "a.csv", CSV)
    declare(lake, KEPT)
    lake.materialize("shop.sales", partitions="2024-01-01")
    declare(lake, '{csv: FOLDER/a.csv, on_bad_row: quarantine, nulls: [x, ""]}')
    settle = Rejects.settle

    def dying(self: Rejects, rows: Any, state: str, by: str | None) -> None:
        if state == replays.REPLAYING:
            settle(self, rows, state, by)
        if state == last_state:
            raise OSError("the machine died")

    with monkeypatch.context() as broken:
        broken.setattr(Rejects, "settle", dying)
        lake.run_job("replay_rejects", config(table="shop.sales"), fails=True)
    assert states(lake)["x,b,2024-01-01"] == "replaying"
    assert len(sales(lake)) == appended
    lake.run_job("replay_rejects", config(table="shop.sales"))
    assert len(sales(lake)) == 3
    assert states(lake)["x,b,2024-01-01"] == "replayed"


def test_a_later_run_replaces_the_rejects_of_the_partitions_that_it_writes(lake: Lake) -> None:
    put(lake, "a.csv", CSV)
    declare(lake, KEPT)
    lake.materialize("shop.sales", partitions="2024-01-01")
    lake.materialize("shop.sales", partitions=("2024-01-01", "2024-01-02"))
    put(lake, "a.csv", CSV.replace("x,b", "7,b").replace("soon", "2024-01-01"))
    lake.materialize("shop.sales", partitions="2024-01-01")
    found = sorted((row["text"], row["state"]) for row in rejects(lake) if row["state"] == "open")
    assert found == [
        ("2.5,c,2024-01-01,more", "open"),
        ("y,d,2024-01-02", "open"),
        ('z,"g\nh",2024-01-01', "open"),
    ]
    lake.run_job("replay_rejects", config(table="shop.sales"))
    assert len(sales(lake)) == 4


def test_a_replay_beside_a_run_that_overwrites_appends_no_row_twice(
    lake: Lake, monkeypatch: pytest.MonkeyPatch
) -> None:
    put(lake, "a.csv", CSV)
    declare(lake, KEPT)
    lake.materialize("shop.sales", partitions="2024-01-01")
    declare(lake, '{csv: FOLDER/a.csv, on_bad_row: quarantine, nulls: [x, ""]}')
    monkeypatch.setattr(leases, "WRITER_WAITS_MS", 0)
    replace = Rejects.replace

    def replayed_meanwhile(self: Rejects, run: str, **given: Any) -> None:
        with pytest.raises(LeaseHeld):
            lakewright.replay_rejects(lake.catalog, "shop.sales", tables=[lake.folder / "tables"])
        replace(self, run, **given)

    with monkeypatch.context() as beside:
        beside.setattr(Rejects, "replace", replayed_meanwhile)
        lake.materialize("shop.sales", partitions="2024-01-01")
    lake.run_job("replay_rejects", config(table="shop.sales"))
    assert [row["code"] for row in sales(lake)].count("b") == 1
    assert len(sales(lake)) == 3


def test_a_retry_of_a_run_keeps_each_bad_row_once(
    lake: Lake, monkeypatch: pytest.MonkeyPatch
) -> None:
    put(lake, "a.csv", CSV)
    declare(lake, KEPT)
    keep, tries = Rejects.keep, []

    def dying(self: Rejects, rows: Any, run: str) -> None:
        keep(self, rows, run)
        tries.append(run)
        if len(tries) == 1:
            keep(self, rows, run)

    monkeypatch.setattr(Rejects, "keep", dying)
    lake.materialize("shop.sales", partitions="2024-01-01")
    assert len(rejects(lake)) == 4
    assert len(lake.table(REJECTS).history.snapshots()) == 2


JSON = """\
{"dt": "2024-01-01", "code": "a", "amount": 1.5}
{"dt": "2024-01-01", "code": "b", "amount": "x"}
{"dt": "2024-01-02", "code": "c", "amount": "y"}
{"dt": "2024-01-01", "code":
7
{"dt": "2024-01-01", "code": "d", "amount": 2.5}
"""


def test_lines_of_json_that_do_not_parse_or_fit_are_kept(lake: Lake) -> None:
    put(lake, "a.json", JSON)
    declare(lake, "{json: FOLDER/a.json, on_bad_row: quarantine}")
    lake.materialize("shop.sales", partitions="2024-01-01")
    assert sales(lake) == [sale(FIRST, "a", "1.5"), sale(FIRST, "d", "2.5")]
    lines = JSON.splitlines()
    assert [(row["line"], row["text"]) for row in rejects(lake)] == [
        (2, lines[1]),
        (4, lines[3]),
        (5, lines[4]),
    ]


def test_values_of_parquet_that_do_not_fit_are_kept_and_replayed(lake: Lake) -> None:
    amounts = [Decimal("1.500"), Decimal("2.125"), Decimal("3.500")]
    rows = {"dt": [FIRST] * 3, "code": ["a", "b", "c"], "amount": amounts}
    pq.write_table(pa.table(rows), lake.folder / "a.parquet")
    declare(lake, "{parquet: FOLDER/a.parquet, on_bad_row: quarantine}")
    lake.materialize("shop.sales", partitions="2024-01-01")
    assert sales(lake) == [sale(FIRST, "a", "1.5"), sale(FIRST, "c", "3.5")]
    (kept,) = rejects(lake)
    assert kept["text"] == '{"dt": "2024-01-01", "code": "b", "amount": "2.125"}'
    assert kept["partition_name"] == "dt=2024-01-01"
    lake.table("shop.sales").alter(ChangeType("amount", "DECIMAL(10, 3)"))
    source = "{parquet: FOLDER/a.parquet, on_bad_row: quarantine}"
    declare(lake, source, DAYS.replace("(10, 2)", "(10, 3)"))
    lake.run_job("replay_rejects", config(table="shop.sales"))
    assert sorted(str(row["amount"]) for row in sales(lake)) == ["1.500", "2.125", "3.500"]


FUNCTION = EVENTS.replace(
    '{python: "tests.pipelines.sources:rows"}',
    '{python: "tests.pipelines.sources:all_rows", on_bad_row: HOW}',
)


@pytest.mark.parametrize("as_arrow", [True, False])
def test_rows_of_a_function_that_fail_or_were_not_asked_for_are_kept(
    lake: Lake, *, as_arrow: bool
) -> None:
    given = [
        {"dt": "2024-01-01", "id": 1, "amount": 1.0},
        {"dt": "2024-01-02", "id": 2, "amount": 1.0},
        {"dt": "2024-01-01", "id": None, "amount": 1.0},
        {"dt": "2024-01-01", "id": 4, "amount": -1.0},
    ]
    lake.declare(FUNCTION.replace("HOW", "quarantine"))
    rows = pa.Table.from_pylist(given) if as_arrow else given
    sources.give("shop.events", lambda _: rows)
    outcome = lake.materialize(partitions="2024-01-01")
    assert [row["id"] for row in lake.rows()] == [1]
    found = {row["text"]: row["reason"] for row in lake.rows("shop.events__rejects")}
    assert len(found) == 3
    assert any("was not requested" in reason for reason in found.values())
    assert any("is NOT NULL" in reason or "null" in reason for reason in found.values())
    assert any("expect_column_values_to_be_between" in reason for reason in found.values())
    (told,) = outcome.materializations.values()
    assert told["lakewright/rows_left_out"] == 3
    assert told["lakewright/rejects"] == "shop.events__rejects"


@pytest.mark.parametrize("as_arrow", [True, False])
def test_a_function_whose_rows_are_all_bad_fails_and_keeps_nothing(
    lake: Lake, *, as_arrow: bool
) -> None:
    given = [{"dt": "2024-01-01", "id": None, "amount": 1.0}]
    lake.declare(FUNCTION.replace("HOW", "quarantine"))
    rows = pa.Table.from_pylist(given) if as_arrow else given
    sources.give("shop.events", lambda _: rows)
    outcome = lake.materialize(partitions="2024-01-01", fails=True)
    assert "no row of the source of shop.events fits: 1 are bad: " in outcome.failure
    assert not lake.catalog.table_exists("shop.events__rejects")


def test_a_file_whose_rows_are_all_bad_names_several_of_them(lake: Lake) -> None:
    put(lake, "a.csv", "amount,code,dt\nx,a,2024-01-01\ny,b,2024-01-01\nz,c,2024-01-01\n")
    declare(lake, KEPT)
    outcome = lake.materialize("shop.sales", partitions="2024-01-01", fails=True)
    assert "3 are bad" in outcome.failure
    assert all(f"holds {value!r}" in outcome.failure for value in "xyz")


def test_a_row_that_fails_an_expectation_is_kept_with_its_line(lake: Lake) -> None:
    lines = ["dt,id,amount", "2024-01-01,1,1", "2024-01-01,2,x", "2024-01-02,3,1", ""]
    put(lake, "a.csv", "\n".join([*lines, "2024-01-01,4,-1", "2024-01-01,5,-2", ""]))
    source = f"{{csv: {lake.folder}/a.csv, on_bad_row: quarantine}}"
    lake.declare(EVENTS.replace('{python: "tests.pipelines.sources:rows"}', source))
    lake.materialize(partitions="2024-01-01")
    found = lake.rows("shop.events__rejects")
    assert sorted(row["line"] for row in found) == [3, 6, 7]
    assert {row["line"]: json.loads(row["text"])["id"] for row in found if row["line"] > 3} == {
        6: 4,
        7: 5,
    }


def test_skipped_rows_are_counted_and_not_kept(lake: Lake) -> None:
    put(lake, "a.csv", CSV)
    declare(lake, "{csv: FOLDER/a.csv, on_bad_row: skip}")
    outcome = lake.materialize("shop.sales", partitions="2024-01-01")
    assert len(sales(lake)) == 2
    (told,) = outcome.materializations.values()
    assert told["lakewright/rows_left_out"] == 4
    assert not lake.catalog.table_exists(REJECTS)


def test_more_bad_rows_than_allowed_end_the_run_and_leave_everything(lake: Lake) -> None:
    put(lake, "a.csv", CSV)
    declare(lake, "{csv: FOLDER/a.csv, on_bad_row: quarantine, max_bad_rows: 3}")
    outcome = lake.materialize("shop.sales", partitions="2024-01-01", fails=True)
    assert "more than 3 rows are bad" in outcome.failure
    assert sales(lake) == []
    assert not lake.catalog.table_exists(REJECTS)


def test_the_value_of_a_variable_is_not_kept_with_a_bad_row(
    lake: Lake, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("SECRET_PART", "hidden")
    put(lake, "hidden/a.csv", CSV)
    declare(lake, "{csv: 'FOLDER/${SECRET_PART}/a.csv', on_bad_row: quarantine}")
    lake.materialize("shop.sales", partitions="2024-01-01")
    assert "${SECRET_PART}" in rejects(lake)[0]["source"]
    assert not any("hidden" in str(row) for row in rejects(lake))


def test_the_command_tells_what_it_appends_and_what_is_left(
    lake: Lake, capsys: pytest.CaptureFixture[str]
) -> None:
    put(lake, "a.csv", CSV)
    declare(lake, KEPT)
    where = ["--warehouse", lake.warehouse.location]
    tables = ["shop.sales", "--tables", str(lake.folder / "tables")]
    assert main([*where, "backfill", *tables, "--partitions", "2024-01-01"]) == 0
    assert "4 bad rows left out" in capsys.readouterr().out
    declare(lake, '{csv: FOLDER/a.csv, on_bad_row: quarantine, nulls: [x, ""]}')
    assert main([*where, "replay-rejects", *tables, "--dry-run"]) == 0
    told = capsys.readouterr().out
    assert "dry run: 1 row of shop.sales__rejects appended to shop.sales, 3 left" in told
    assert len(sales(lake)) == 2
    assert main([*where, "replay-rejects", *tables, "--format", "json"]) == 0
    found = json.loads(capsys.readouterr().out)
    assert found["appended"] == 1
    assert any("the row has 4 values, and the file 3 columns" in e["why"] for e in found["left"])
    assert not any("/tmp" in each["why"] for each in found["left"])
    assert len(sales(lake)) == 3
    assert lakewright.replay_rejects(lake.catalog, "shop.sales", tables=tables[2:]).appended == 0


def test_undo_of_a_run_takes_its_rejects_back(lake: Lake) -> None:
    put(lake, "a.csv", CSV)
    declare(lake, KEPT)
    outcome = lake.materialize("shop.sales", partitions="2024-01-01")
    run_undo = {"ops": {"undo": {"config": {"run": outcome.run_id}}}}
    lake.run_job("undo", run_undo)
    assert sales(lake) == []
    assert rejects(lake) == []
    told = lake.instance.get_latest_materialization_event(REJECTS_KEY)
    assert told is not None
    assert told.asset_materialization is not None
    assert told.asset_materialization.metadata["dagster/row_count"].value == 0


def test_an_undo_by_command_shows_on_the_pages_of_the_assets(
    stored: Lake, monkeypatch: pytest.MonkeyPatch
) -> None:
    lake = stored
    put(lake, "a.csv", CSV)
    declare(lake, KEPT)
    outcome = lake.materialize("shop.sales", partitions="2024-01-01")
    monkeypatch.setenv("DAGSTER_HOME", lake.instance.root_directory)
    monkeypatch.setenv("LAKEWRIGHT_TABLES", str(lake.folder / "tables"))

    assert main(["--warehouse", lake.warehouse.location, "undo", outcome.run_id]) == 0

    key = TableNames("shop.sales").asset_key
    (told, *_) = lake.instance.fetch_observations(key, limit=1).records
    assert told.asset_observation is not None
    assert f"run {outcome.run_id} undone" in str(told.asset_observation.description)
    assert not lake.instance.get_materialized_partitions(key)
    rejected = lake.instance.get_latest_materialization_event(REJECTS_KEY)
    assert rejected is not None
    assert rejected.asset_materialization is not None
    assert rejected.asset_materialization.metadata["dagster/row_count"].value == 0


def test_a_replay_is_taken_back_by_the_name_that_it_tells(
    lake: Lake, capsys: pytest.CaptureFixture[str]
) -> None:
    put(lake, "a.csv", CSV)
    declare(lake, KEPT)
    lake.materialize("shop.sales", partitions="2024-01-01")
    declare(lake, '{csv: FOLDER/a.csv, on_bad_row: quarantine, nulls: [x, ""]}')
    tables = ["shop.sales", "--tables", str(lake.folder / "tables"), "--format", "json"]
    where = ["--warehouse", lake.warehouse.location]
    assert main([*where, "replay-rejects", *tables]) == 0
    run = json.loads(capsys.readouterr().out)["run"]
    assert main([*where, "undo", run]) == 0
    assert len(sales(lake)) == 2
    assert states(lake)["x,b,2024-01-01"] == "open"
    assert lakewright.replay_rejects(lake.catalog, "shop.sales", tables=tables[2:3]).appended == 1
    assert len(sales(lake)) == 3


def test_what_the_path_tells_of_a_row_is_kept_with_it(lake: Lake) -> None:
    put(lake, "dt=2024-01-01/a.csv", "a,1.5\nb,x\n")
    source = "csv: 'FOLDER/dt={dt}/*.csv', header: false, on_bad_row: quarantine"
    declare(lake, f"{{{source}}}", DAYS)
    lake.materialize("shop.sales", partitions="2024-01-01")
    (kept,) = rejects(lake)
    assert (kept["text"], kept["line"]) == ("b,x", 2)
    assert kept["partition_name"] == "dt=2024-01-01"
    declare(lake, f"{{{source}, nulls: [x]}}", DAYS)
    lake.run_job("replay_rejects", config(table="shop.sales"))
    assert sales(lake) == [sale(FIRST, "a", "1.5"), {"dt": FIRST, "code": "b", "amount": None}]


def test_rows_of_a_function_without_the_partition_are_replayed_into_it(lake: Lake) -> None:
    lake.declare(FUNCTION.replace("HOW", "quarantine"))
    given = [{"id": 1, "amount": 1.0}, {"id": 2, "amount": -1.0}, {"id": "x", "amount": 1.0}]
    sources.give("shop.events", lambda _: iter(given))
    lake.materialize(partitions="2024-01-01")
    assert [row["id"] for row in lake.rows()] == [1]
    lake.declare(FUNCTION.replace("HOW", "quarantine").replace("min_value: 0", "min_value: -9"))
    lake.run_job("replay_rejects", config(table="shop.events"))
    assert sorted((row["dt"], row["id"]) for row in lake.rows()) == [
        ("2024-01-01", 1),
        ("2024-01-01", 2),
    ]


KEYED = """
    table: shop.keyed
    columns:
      - {name: id, type: BIGINT NOT NULL}
      - {name: at, type: TIMESTAMP(3)}
      - {name: raw, type: BYTES}
      - {name: tags, type: "MAP<STRING, INT>"}
      - {name: amount, type: "DECIMAL(6, 2)"}
    primary_key: [id]
    source: {parquet: FOLDER/a.parquet, on_bad_row: quarantine}
    expectations:
      - {expect: expect_column_values_to_not_be_null, column: amount}
"""


def test_deletions_need_no_values_and_every_type_comes_back_from_its_text(lake: Lake) -> None:
    rows = pa.table(
        {
            "id": pa.array([1, 2, 3, 2], pa.int64()),
            "at": pa.array([1, None, 3, None], pa.timestamp("us")),
            "raw": [b"\x00\xff", None, b"b", None],
            "tags": pa.array([[("a", 1)], None, [], None], pa.map_(pa.string(), pa.int32())),
            "amount": [Decimal("1.25"), Decimal("2.25"), Decimal("1.125"), None],
            "_rowkind": ["+I", "+I", "+I", "-D"],
        }
    )
    pq.write_table(rows, lake.folder / "a.parquet")
    lake.declare(KEYED.replace("FOLDER", str(lake.folder)))
    lake.materialize("shop.keyed")
    assert len(lake.rows("shop.keyed__rejects")) == 2
    assert lake.rows("shop.keyed") == []
    wider = KEYED.replace("TIMESTAMP(3)", "TIMESTAMP(6)").replace("(6, 2)", "(7, 3)")
    changes = [ChangeType("at", "TIMESTAMP(6)"), ChangeType("amount", "DECIMAL(7, 3)")]
    lake.table("shop.keyed").alter(*changes)
    lake.declare(wider.replace("FOLDER", str(lake.folder)))
    lake.run_job("replay_rejects", config(table="shop.keyed"))
    kept = [row for row in rows.to_pylist() if row.pop("_rowkind") and row["id"] != 2]
    assert [{**row, "tags": dict(row["tags"])} for row in lake.rows("shop.keyed")] == [
        {**row, "tags": dict(row["tags"])} for row in kept
    ]


LEFT_OUT = """
    table: shop.sales
    columns:
      - {name: day, type: STRING NOT NULL}
      - {name: id, type: BIGINT NOT NULL}
      - {name: amount, type: INT}
    partition_keys: [day]
    partitions: {daily: {column: day, start: 2024-01-01, end: 2024-02-01}}
    source: {csv: "FOLDER/in/{day}.csv", on_bad_row: MODE}
    write: {engine: local}
    expectations:
      - {expect: expect_column_values_to_be_between, column: amount, min_value: 0, name: positive}
"""


def left_out(lake: Lake, mode: str) -> Any:
    lake.declare(LEFT_OUT.replace("FOLDER", str(lake.folder)).replace("MODE", mode))
    (lake.folder / "in").mkdir(exist_ok=True)
    for day, text in ((1, "1,5\n2,-1\n3,x\n4,-2\n"), (2, "5,5\n6,-3\n")):
        (lake.folder / "in" / f"2024-01-0{day}.csv").write_text(f"id,amount\n{text}")
    return lake.materialize("shop.sales", partitions=("2024-01-01", "2024-01-02"))


@pytest.mark.parametrize("mode", ["skip", "quarantine"])
def test_rows_left_out_are_a_warning_with_their_number_a_sample_and_the_way_to_replay(
    lake: Lake, mode: str
) -> None:
    outcome = left_out(lake, mode)

    positive, every = outcome.checks["positive"], outcome.checks["no_rows_left_out"]
    for check, count in ((positive, 3), (every, 4)):
        assert not check.passed
        assert check.severity is dg.AssetCheckSeverity.WARN
        assert check.metadata["rows_left_out"].value == count
        assert len(check.metadata["sample_of_rows_left_out"].value.records) == count
        assert f"{count} bad rows were left out" in check.description
        told = "`lakewright replay-rejects shop.sales`" in check.description
        assert told is (mode == "quarantine")
    days = outcome.materializations
    own = {day: days[day]["lakewright/rows_left_out"] for day in days}
    assert own["2024-01-01"] == 3
    assert own["2024-01-02"] == 1


def test_a_run_that_leaves_nothing_out_passes_the_check_again(lake: Lake) -> None:
    left_out(lake, "quarantine")
    (lake.folder / "in" / "2024-01-02.csv").write_text("id,amount\n5,5\n")
    outcome = lake.materialize("shop.sales", partitions="2024-01-02")
    assert outcome.checks["no_rows_left_out"].passed
    assert outcome.checks["positive"].passed


def test_rejects_are_an_asset_under_their_table_and_are_kept_by_the_same_policy(
    lake: Lake,
) -> None:
    outcome = left_out(lake, "quarantine")
    key = dg.AssetKey(["shop", "sales", "rejects"])
    written = [
        event.event_specific_data.materialization
        for event in outcome.result.all_events
        if event.event_type_value == "ASSET_MATERIALIZATION"
        and event.event_specific_data.materialization.asset_key == key
    ]
    (told,) = written
    assert told.metadata["dagster/row_count"].value == 4
    assert "4 open" in (told.description or "")
    graph = lake.definitions.resolve_asset_graph()
    spec = graph.get(key)
    assert spec.parent_keys == {dg.AssetKey(["shop", "sales"])}
    assert "replay-rejects shop.sales" in (spec.description or "")
    lake.tick()
    healthy = dg.AssetCheckKey(key, "healthy")
    assert healthy in graph.asset_check_keys
    # The upkeep sensor looks at them as at every kept table.
    assert last_evaluation(lake.instance, healthy) is not None
