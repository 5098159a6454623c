"""`lakewright read`: the rows as text, in each format, and what is refused."""

from __future__ import annotations

import csv
import datetime as dt
import json
import math
from decimal import Decimal
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from lakewright.storage import Catalog, Table
from lakewright.storage.codec import value_limits
from tests.support.tables.builders import EVENTS, events, new_table, rows
from tests.support.tables.environment import START_MS, FixedEnv
from tests.unit.cli.conftest import Lakewright

EVERY_TYPE = {
    "n": "INT",
    "big": "BIGINT",
    "flag": "BOOLEAN",
    "f4": "FLOAT",
    "f8": "DOUBLE",
    "price": "DECIMAL(20, 3)",
    "text": "STRING",
    "raw": "BYTES",
    "day": "DATE",
    "hour": "TIME(3)",
    "at": "TIMESTAMP(3)",
    "fine": "TIMESTAMP(9)",
    "moment": "TIMESTAMP(6) WITH LOCAL TIME ZONE",
    "list": "ARRAY<DECIMAL(5, 1)>",
    "named": "MAP<STRING, DOUBLE>",
    "numbered": "MAP<INT, DATE>",
    "counts": "MULTISET<STRING>",
    "inner": "ROW<a INT, b ROW<c BYTES>>",
}
FULL: dict[str, Any] = {
    "n": -1,
    "big": 2**60,
    "flag": True,
    "f4": 0.1,
    "f8": 1e300,
    "price": Decimal("12345678901234567.890"),
    "text": 'żółć, "quoted"\nnext line',
    "raw": b"\x00\xff",
    "day": dt.date(2024, 1, 31),
    "hour": dt.time(13, 45),
    "at": dt.datetime(2024, 1, 31, 13, 45, 0, 120000),
    "fine": dt.datetime(2024, 1, 31, 13, 45, 0, 123456),
    "moment": dt.datetime(2024, 1, 31, 13, 45, tzinfo=dt.UTC),
    "list": [Decimal("1.5"), None],
    "named": [("a", 1.5), ("b", math.nan)],
    "numbered": [(1, dt.date(2024, 1, 31)), (2, None)],
    "counts": [("x", 2)],
    "inner": {"a": 1, "b": {"c": b"\x01"}},
}
FULL_JSON: dict[str, Any] = {
    "n": -1,
    "big": 2**60,
    "flag": True,
    "f4": 0.1,
    "f8": 1e300,
    "price": "12345678901234567.890",
    "text": 'żółć, "quoted"\nnext line',
    "raw": "00ff",
    "day": "2024-01-31",
    "hour": "13:45:00",
    "at": "2024-01-31T13:45:00.120",
    "fine": "2024-01-31T13:45:00.123456000",
    "moment": "2024-01-31T13:45:00Z",
    "list": ["1.5", None],
    "named": {"a": 1.5, "b": "NaN"},
    "numbered": [[1, "2024-01-31"], [2, None]],
    "counts": {"x": 2},
    "inner": {"a": 1, "b": {"c": "01"}},
}


def every_type(catalog: Catalog) -> Table:
    table = new_table(catalog, EVERY_TYPE)
    table.write(rows(table, [FULL, {}, FULL]))
    return table


def events_table(catalog: Catalog, **options: Any) -> Table:
    return new_table(catalog, EVENTS, **options)


def test_an_option_of_one_value_is_not_given_twice(
    catalog: Catalog, lakewright: Lakewright
) -> None:
    new_table(catalog)
    twice = ("--where", "id = 3", "--where", "day = 'a'")
    refused = lakewright(catalog, "delete", "db.t", *twice, "--dry-run", code=2)
    assert "--where is given twice, and has one value" in refused.err


def test_json_keeps_every_type(catalog: Catalog, lakewright: Lakewright) -> None:
    every_type(catalog)
    ended = lakewright(catalog, "read", "db.t", "--format", "json")
    assert ended.json_lines == [FULL_JSON, dict.fromkeys(EVERY_TYPE), FULL_JSON]
    assert [list(row) for row in ended.json_lines] == [list(EVERY_TYPE)] * 3


def test_json_text_converts_back_to_what_was_written(
    catalog: Catalog, lakewright: Lakewright
) -> None:
    every_type(catalog)
    row = lakewright(catalog, "read", "db.t", "--format", "json").json_lines[0]
    assert Decimal(row["price"]) == FULL["price"]
    assert bytes.fromhex(row["raw"]) == FULL["raw"]
    assert dt.date.fromisoformat(row["day"]) == FULL["day"]
    assert dt.time.fromisoformat(row["hour"]) == FULL["hour"]
    assert dt.datetime.fromisoformat(row["at"]) == FULL["at"]
    assert dt.datetime.fromisoformat(row["moment"]) == FULL["moment"]
    assert math.isnan(float(row["named"]["b"]))


def test_json_holds_no_number_that_is_no_json(catalog: Catalog, lakewright: Lakewright) -> None:
    table = new_table(catalog, {"f4": "FLOAT", "f8": "DOUBLE"})
    special = [math.nan, math.inf, -math.inf, -0.0]
    table.write(rows(table, [{"f4": each, "f8": each} for each in special]))
    out = lakewright(catalog, "read", "db.t", "--format", "json").out

    def refuse(name: str) -> None:
        raise AssertionError(name)

    found = [json.loads(line, parse_constant=refuse) for line in out.splitlines()]
    assert [row["f8"] for row in found] == ["NaN", "Infinity", "-Infinity", -0.0]
    assert [row["f4"] for row in found] == [row["f8"] for row in found]


def test_dates_that_python_cannot_hold_are_printed(
    catalog: Catalog, lakewright: Lakewright, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Another writer may have stored them; no way in of ours takes them."""
    table = new_table(catalog, {"day": "DATE", "at": "TIMESTAMP(3)"})
    monkeypatch.setattr(value_limits, "unfit_moment", lambda *_: None)
    far = pa.array([3_000_000], pa.int32()).cast(pa.date32())
    late = pa.array([253_402_300_800_000], pa.int64()).cast(pa.timestamp("ms"))
    table.write(pa.table({"day": far, "at": late}))
    (found,) = lakewright(catalog, "read", "db.t", "--format", "json").json_lines
    assert found == {"day": "10183-09-21", "at": "10000-01-01T00:00:00"}


def test_slices_of_nested_columns_keep_their_values(
    catalog: Catalog, lakewright: Lakewright
) -> None:
    table = new_table(catalog, {"n": "INT", "list": "ARRAY<INT>", "map": "MAP<STRING, INT>"})
    count = 5000
    table.write(
        rows(
            table,
            [
                {"n": n, "list": None if n % 7 == 0 else [n] * (n % 3), "map": [(str(n), n)]}
                for n in range(count)
            ],
        )
    )
    found = lakewright(catalog, "read", "db.t", "--format", "json").json_lines
    assert len(found) == count
    for row in found:
        n = row["n"]
        assert row["list"] == (None if n % 7 == 0 else [n] * (n % 3))
        assert row["map"] == {str(n): n}


def test_csv_tells_null_from_empty_text_and_survives_a_csv_reader(
    catalog: Catalog, lakewright: Lakewright
) -> None:
    every_type(catalog)
    chosen = "n,text,list,price,flag"
    ended = lakewright(catalog, "read", "db.t", "--format", "csv", "--columns", chosen)
    header, full, empty, _ = csv.reader(ended.out.splitlines(keepends=True))
    assert header == chosen.split(",")
    assert full == ["-1", FULL["text"], '["1.5", null]', "12345678901234567.890", "true"]
    assert empty == [""] * 5

    table = new_table(catalog, {"a": "STRING", "b": "STRING"}, name="db.texts")
    table.write(rows(table, [{"a": "", "b": None}, {"a": "x,y", "b": 'q"'}]))
    ended = lakewright(catalog, "read", "db.texts", "--format", "csv")
    assert ended.lines == ["a,b", '"",', '"x,y","q"""']


def test_a_table_lines_up_and_cuts_long_values(catalog: Catalog, lakewright: Lakewright) -> None:
    table = new_table(catalog, {"n": "INT", "s": "STRING", "v": "INT"})
    texts = ["漢字", "a\nb\x1b[31m", "x" * 500, "null", None, ""]
    table.write(rows(table, [{"n": n * 1000, "s": text} for n, text in enumerate(texts)]))
    assert lakewright(catalog, "read", "db.t").lines == [
        "   n  s                                                                v",
        "----  ------------------------------------------------------------  ----",
        "   0  漢字                                                          null",
        "1000  a\\nb\\x1b[31m                                                  null",
        f"2000  {'x' * 59}…  null",
        "3000  'null'                                                        null",
        "4000  null                                                          null",
        "5000                                                                null",
        "(6 rows)",
    ]


def test_rows_of_several_files_line_up(catalog: Catalog, lakewright: Lakewright) -> None:
    table = new_table(catalog, {"n": "INT", "s": "STRING"}, options={"bucket": "-1"})
    for at in range(3):
        table.write(rows(table, [{"n": 10**at, "s": "x" * (at + 1)}]))
    assert lakewright(catalog, "read", "db.t").lines == [
        "  n  s",
        "---  ---",
        "  1  x",
        " 10  xx",
        "100  xxx",
        "(3 rows)",
    ]


def test_a_table_without_rows_still_shows_its_columns(
    catalog: Catalog, lakewright: Lakewright
) -> None:
    events_table(catalog)
    assert lakewright(catalog, "read", "db.t").lines == ["id  day  v", "--  ---  -", "(0 rows)"]
    assert lakewright(catalog, "read", "db.t", "--format", "csv").lines == ["id,day,v"]
    assert lakewright(catalog, "read", "db.t", "--format", "json").out == ""


def test_where_and_columns_choose_rows_and_columns(
    catalog: Catalog, lakewright: Lakewright
) -> None:
    table = events_table(catalog, partitions=["day"])
    table.write(rows(table, [*events(0, 4, day="a"), *events(4, 8, day="b")]))
    ended = lakewright(
        catalog,
        *("read", "db.t", "--format", "json", "--columns", "v,id"),
        *("--where", "day = 'b' AND id NOT IN (4, 5)"),
    )
    assert ended.json_lines == [{"v": "v6", "id": 6}, {"v": "v7", "id": 7}]


def test_upserts_are_merged(catalog: Catalog, lakewright: Lakewright) -> None:
    table = events_table(catalog, keys=["id"], options={"bucket": "1"})
    table.write(rows(table, events(0, 3, v="old")))
    table.write(rows(table, events(1, 3, v="new"), ["+U", "-D"]))
    found = lakewright(catalog, "read", "db.t", "--format", "json", "--columns", "v").json_lines
    assert [row["v"] for row in found] == ["old0", "new1"]


@pytest.mark.parametrize("limit", [0, 1, 3, 7, 100])
def test_limit_ends_the_read(catalog: Catalog, lakewright: Lakewright, limit: int) -> None:
    table = events_table(catalog)
    for start in (0, 3):
        table.write(rows(table, events(start, start + 3)))
    for form in ("json", "csv", "table"):
        ended = lakewright(catalog, "read", "db.t", "--limit", str(limit), "--format", form)
        around = {"json": 0, "csv": 1, "table": 3}[form]
        assert len(ended.lines) - around == min(limit, 6)


@pytest.mark.parametrize("limit", [(), ("--limit", "2"), ("--limit", "0")])
def test_a_parquet_file_holds_the_rows_with_their_types(
    catalog: Catalog, lakewright: Lakewright, tmp_path: Path, limit: tuple[str, ...]
) -> None:
    table, file = every_type(catalog), tmp_path / "rows.parquet"
    ended = lakewright(catalog, "read", "db.t", "--output", str(file), *limit)
    assert not ended.err
    wanted = table.read() if not limit else table.read().slice(0, int(limit[1]))
    # As text, in which NaN equals itself.
    assert repr(pq.read_table(file).to_pylist()) == repr(wanted.to_pylist())
    assert not list(tmp_path.glob(".*"))


@pytest.mark.parametrize(("name", "form"), [("a.csv", "csv"), ("a.json", "json"), ("a.x", "csv")])
def test_a_file_holds_what_would_be_printed(
    catalog: Catalog, lakewright: Lakewright, tmp_path: Path, name: str, form: str
) -> None:
    events_table(catalog)
    printed = lakewright(catalog, "read", "db.t", "--format", form)
    said = ["--format", form] if name == "a.x" else []
    lakewright(catalog, "read", "db.t", "--output", str(tmp_path / name), *said)
    assert (tmp_path / name).read_text(encoding="utf-8") == printed.out


@pytest.mark.parametrize(
    ("options", "told"),
    [
        (["--format", "parquet"], "--format parquet needs --output"),
        (["--output", "rows.xls"], "ends in none of .csv, .json and .parquet"),
        (["--output", "missing/rows.csv"], "missing/rows.csv cannot be written: No such file"),
    ],
)
def test_a_file_that_cannot_be_written_is_refused(
    catalog: Catalog, lakewright: Lakewright, options: list[str], told: str
) -> None:
    events_table(catalog)
    ended = lakewright(catalog, "read", "db.t", *options, code=2)
    assert told in ended.err


def test_earlier_states_are_read_by_snapshot_and_by_time(
    catalog: Catalog, env: FixedEnv, lakewright: Lakewright
) -> None:
    table = events_table(catalog)
    for start in range(3):
        table.write(rows(table, events(start, start + 1)))
        env.clock.advance(1000)

    def ids(*options: str) -> list[int]:
        ended = lakewright(catalog, "read", "db.t", "--format", "json", *options)
        return [row["id"] for row in ended.json_lines]

    assert ids("--snapshot", "1") == [0]
    assert ids("--snapshot", "2") == [0, 1]
    listed = lakewright(catalog, "snapshots", "db.t").lines[2:]
    for number, line in enumerate(listed, start=1):
        shown = " ".join(line.split()[1:3])
        assert ids("--as-of", shown) == list(range(number))
    assert ids("--as-of", "2024-01-01T02:00:00+01:00") == [0, 1, 2]


def test_a_time_before_the_first_snapshot_is_not_found(
    catalog: Catalog, lakewright: Lakewright
) -> None:
    table = events_table(catalog)
    table.write(rows(table, events(0, 1)))
    before = dt.datetime.fromtimestamp(START_MS / 1000 - 60, dt.UTC).isoformat()
    ended = lakewright(catalog, "read", "db.t", "--as-of", before, code=3)
    assert "no snapshot at or before" in ended.err


@pytest.mark.parametrize(
    ("options", "code", "said"),
    [
        (["--where", "idd = 1"], 2, "did you mean id?"),
        (["--where", "id ="], 2, "not understood"),
        (["--columns", "id,nope"], 2, "no column 'nope'; there are id, day, v"),
        (["--columns", "id,,v"], 2, "empty name"),
        (["--columns", "id,id"], 2, "names id more than once"),
        (["--limit", "-1"], 2, "not a whole number from 0 on"),
        (["--as-of", "yesterday"], 2, "is not a time such as"),
        (["--snapshot", "1", "--as-of", "2024-01-01"], 2, "not allowed with"),
        (["--snapshot", "9"], 3, "snapshot 9 does not exist"),
        (["--format", "xml"], 2, "is not one of 'table', 'json', 'csv'"),
    ],
)
def test_a_users_mistake_is_said_in_one_line_without_a_traceback(
    catalog: Catalog, lakewright: Lakewright, options: list[str], code: int, said: str
) -> None:
    table = events_table(catalog)
    table.write(rows(table, events(0, 1)))
    ended = lakewright(catalog, "read", "db.t", *options, code=code)
    assert ended.code == code
    assert said in ended.err
    assert "Traceback" not in ended.err
    assert ended.out == ""


def test_a_product_that_does_not_fit_says_how_to_read_the_rest(
    catalog: Catalog, lakewright: Lakewright
) -> None:
    table = new_table(
        catalog,
        {"k": "INT NOT NULL", "v": "TINYINT", "w": "INT"},
        keys=["k"],
        options={
            "bucket": "1",
            "merge-engine": "aggregation",
            "fields.v.aggregate-function": "product",
        },
    )
    for number in range(3):
        table.write(rows(table, [{"k": 1, "v": 10, "w": number}]))

    ended = lakewright(catalog, "read", "db.t", code=2)
    assert "choose columns without it, or read an earlier snapshot" in ended.err

    others = lakewright(catalog, "read", "db.t", "--columns", "k,w", "--format", "json")
    assert others.json_lines == [{"k": 1, "w": 2}]
    earlier = lakewright(catalog, "read", "db.t", "--snapshot", "2", "--format", "json")
    assert earlier.json_lines == [{"k": 1, "v": 100, "w": 1}]

    table.history.run(table.history.plan_rollback(snapshot=2, grace_ms=0))


@pytest.mark.parametrize("system_table", ["ro", "snapshots", "audit_log"])
@pytest.mark.parametrize("verb", [["read"], ["compact", "--dry-run"]], ids=" ".join)
def test_a_system_table_is_printed_by_another_subcommand(
    catalog: Catalog, lakewright: Lakewright, system_table: str, verb: list[str]
) -> None:
    table = new_table(catalog, EVENTS, partitions=["day"])
    table.write(rows(table, events(0, 1)))
    refused = lakewright(catalog, *verb, f"db.t${system_table}", code=2)
    assert f"print it with `lakewright inspect db.t {system_table}`" in refused.err
    lakewright(catalog, "inspect", "db.t", system_table)


def test_a_name_after_a_dollar_that_is_no_system_table_is_refused_with_those_there_are(
    catalog: Catalog, lakewright: Lakewright
) -> None:
    table = new_table(catalog, EVENTS, partitions=["day"])
    table.write(rows(table, events(0, 1)))
    table.history.create_branch("b")
    assert "no system table 'snapshot'" in lakewright(catalog, "read", "db.t$snapshot", code=2).err
    assert "no table db.u in" in lakewright(catalog, "read", "db.u$ro", code=3).err
    assert "no table db.u in" in lakewright(catalog, "read", "db.u$branch_b", code=3).err
    lakewright(catalog, "read", "db.t$branch_b")
    of_a_branch = lakewright(catalog, "read", "db.t$branch_b$ro", code=2).err
    assert "print it with `lakewright inspect 'db.t$branch_b' ro`" in of_a_branch
