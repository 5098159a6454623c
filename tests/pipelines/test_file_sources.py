"""Files as a source: read as the declaration says, and never an empty partition by mistake."""

from __future__ import annotations

import datetime as dt
from decimal import Decimal
from textwrap import dedent
from typing import Any

import dagster as dg
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from lakewright.platform.orchestration.names import TableNames
from tests.pipelines.lake import EVENTS, Lake, events

DAYS = """
    table: shop.sales
    columns:
      - {name: dt, type: DATE NOT NULL}
      - {name: code, type: STRING}
      - {name: amount, type: "DECIMAL(10, 2)"}
    partition_keys: [dt]
    partitions:
      daily: {column: dt, start: 2024-01-01, end: 2024-02-01}
    source: SOURCE
    write: {engine: local}
"""
FIRST, SECOND = dt.date(2024, 1, 1), dt.date(2024, 1, 2)


def declare(lake: Lake, source: str, text: str = DAYS) -> None:
    lake.declare(text.replace("SOURCE", source.replace("FOLDER", str(lake.folder))))


def put(lake: Lake, name: str, text: str, encoding: str = "utf-8") -> None:
    (lake.folder / name).parent.mkdir(exist_ok=True)
    (lake.folder / name).write_bytes(dedent(text).encode(encoding))


def sale(day: dt.date, code: str | None, amount: str) -> dict[str, Any]:
    return {"dt": day, "code": code, "amount": Decimal(amount)}


def sales(lake: Lake) -> list[dict[str, Any]]:
    return lake.rows("shop.sales")


def test_a_csv_is_read_as_the_columns_are_declared(lake: Lake) -> None:
    put(
        lake,
        "a.csv",
        """\
        amount,code,dt
        1.5,007,2024-01-01
        -3,"",2024-01-01
        20.25,,2024-01-01
        """,
    )
    declare(lake, '{csv: "FOLDER/*.csv"}')

    lake.materialize("shop.sales", partitions="2024-01-01")

    assert sales(lake) == [
        sale(FIRST, "", "-3.00"),
        sale(FIRST, "007", "1.50"),
        sale(FIRST, None, "20.25"),
    ]


def test_a_csv_may_be_written_in_another_way(lake: Lake) -> None:
    put(lake, "a.txt", "01.01.2024;Zürich;NULL\n02.01.2024;-;7\n", "latin-1")
    declare(
        lake,
        '{csv: "FOLDER/a.txt", delimiter: ";", header: false, encoding: latin-1, '
        'nulls: ["NULL", "-"], date_format: "%d.%m.%Y"}',
    )

    lake.materialize("shop.sales", partitions=("2024-01-01", "2024-01-02"))

    assert sales(lake) == [
        {"dt": FIRST, "code": "Zürich", "amount": None},
        sale(SECOND, None, "7.00"),
    ]


@pytest.mark.sampled(6)
@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("dt,code,amount\n2024-01-01,a,1\n2024/01/01,b,2\n", "row 2 holds '2024/01/01'"),
        ("dt,code,amount\n2024-01-01,a,1.555\n", "amount is DECIMAL(10, 2), and row 1 holds '1.5"),
        ("dt,code,amount\n2024-01-01,a,0x10\n", "row 1 holds '0x10'"),
        ("dt,code,amount\n2024-01-01,a,NULL\n", "if the text stands for null, name it in `nulls`"),
        (
            "code,amount\na,1\n",
            "the file lacks column dt (a partition column); the file has code, amount; the table d",
        ),
        ("dt\n2024-01-01\n", "the file lacks column code, amount; the file has dt"),
        ("dt,code,amount,more\n2024-01-01,a,1,2\n", "the file has unknown column more"),
        ("dt,code,amount,amount\n2024-01-01,a,1,2\n", "has column amount more than once"),
        ("dt;code;amount\n2024-01-01;a;1\n", 'declare `delimiter: ";"`'),
        ("dt;code;amount\n2024-01-01;a;1,5\n", 'declare `delimiter: ";"`'),
        ("dt\tcode\tamount\n2024-01-01\ta\t1\n", 'declare `delimiter: "\\t"`'),
        ("dt,Code ,amount\n2024-01-01,a,1\n", "did you mean 'code' by 'Code '? Case and blanks"),
        (
            'dt,code,amount\n2024-01-01,"a\nb",1\n\n2024-01-01,a,b,1\n',
            "row 2 has 4 values, and the header has 3 columns: '2024-01-01,a,b,1'\n",
        ),
        ("", "is empty, and a CSV begins"),
    ],
)
def test_a_csv_that_does_not_hold_what_is_declared_is_named(
    lake: Lake, text: str, said: str
) -> None:
    put(lake, "good.csv", "dt,code,amount\n2024-01-01,a,1\n")
    put(lake, "no good.csv", text)
    declare(lake, '{csv: "FOLDER/*.csv"}')

    outcome = lake.materialize("shop.sales", partitions="2024-01-01", fails=True)

    assert said in outcome.failure
    assert f"{lake.folder}/no good.csv" in outcome.failure
    assert not lake.table("shop.sales").history.snapshots()


def test_files_of_one_glob_may_hold_numbers_of_different_widths(lake: Lake) -> None:
    for name, kind in (("a", pa.int32()), ("b", pa.int64()), ("c", pa.uint8())):
        columns = {"dt": [FIRST], "code": [name], "amount": pa.array([7]).cast(kind)}
        pq.write_table(pa.table(columns), lake.folder / f"{name}.parquet")
    declare(lake, '{parquet: "FOLDER/*.parquet"}')

    lake.materialize("shop.sales", partitions="2024-01-01")

    assert sales(lake) == [sale(FIRST, name, "7.00") for name in ("a", "b", "c")]


def test_a_file_whose_values_do_not_fit_is_named_with_both_types(lake: Lake) -> None:
    for name, amount in (("a", 7), ("b", 7.5)):
        columns = {"dt": [FIRST], "code": [name], "amount": [amount]}
        pq.write_table(pa.table(columns), lake.folder / f"{name}.parquet")
    declare(lake, '{parquet: "FOLDER/*.parquet"}')

    outcome = lake.materialize("shop.sales", partitions="2024-01-01", fails=True)

    said = f"{lake.folder}/b.parquet: column amount is DECIMAL(10, 2), and the rows hold double"
    assert said in outcome.failure


@pytest.mark.sampled(6)
@pytest.mark.parametrize(
    "kind", [pa.string(), pa.large_string(), pa.dictionary(pa.int8(), pa.string())]
)
@pytest.mark.parametrize(
    ("column", "text"), [("amount", "7"), ("amount", ""), ("dt", "2024-01-01")]
)
def test_text_of_a_parquet_file_is_not_parsed(
    lake: Lake, column: str, text: str, kind: pa.DataType
) -> None:
    columns = {"dt": pa.array([FIRST]), "code": ["a"], "amount": pa.array([Decimal("1.00")])}
    columns[column] = pa.array([text]).cast(kind)
    pq.write_table(pa.table(columns), lake.folder / "a.parquet")
    declare(lake, '{parquet: "FOLDER/*.parquet"}')

    outcome = lake.materialize("shop.sales", partitions="2024-01-01", fails=True)

    assert f"{lake.folder}/a.parquet: column {column} is" in outcome.failure
    said = "string; declare the column STRING, or convert"
    assert any(f"the rows hold {size}{said}" in outcome.failure for size in ("", "large_"))
    assert "nulls" not in outcome.failure
    assert not lake.table("shop.sales").history.snapshots()


def test_moments_belong_to_the_partition_of_their_day(lake: Lake) -> None:
    moments = [dt.datetime(2024, 1, 1, 7, 30), dt.datetime(2024, 1, 2)]
    columns = {"dt": moments, "code": ["a", "b"], "amount": [Decimal("1.00"), Decimal("2.00")]}
    pq.write_table(pa.table(columns), lake.folder / "a.parquet")
    declare(lake, '{parquet: "FOLDER"}')

    lake.materialize("shop.sales", partitions="2024-01-01")

    assert sales(lake) == [sale(FIRST, "a", "1.00")]


def test_moments_are_compared_as_moments_and_not_as_text(lake: Lake) -> None:
    lake.declare(
        f"""
        table: shop.events
        columns:
          - {{name: at, type: TIMESTAMP(6) WITH LOCAL TIME ZONE NOT NULL}}
          - {{name: id, type: BIGINT}}
        partition_keys: [at]
        partitions: {{daily: {{column: at, start: 2024-01-01, end: 2024-02-01}}}}
        source: {{parquet: "{lake.folder}/a.parquet"}}
        """
    )
    berlin = pa.array([dt.datetime(2024, 1, 1)]).cast(pa.timestamp("ms", "UTC"))
    rows = pa.table({"at": berlin.cast(pa.timestamp("ms", "Europe/Berlin")), "id": [1]})
    pq.write_table(rows, lake.folder / "a.parquet")

    lake.materialize("shop.events", partitions="2024-01-01")

    assert lake.rows() == [{"at": dt.datetime(2024, 1, 1, tzinfo=dt.UTC), "id": 1}]


TEXT_DAYS = DAYS.replace("DATE NOT NULL", "STRING NOT NULL")


@pytest.fixture
def with_rows(lake: Lake) -> Lake:
    """A lake with two days of rows, from a file that is gone."""
    put(lake, "a.csv", "dt,code,amount\n2024-01-01,a,1\n2024-01-02,b,2\n")
    declare(lake, '{csv: "FOLDER/a.csv"}', TEXT_DAYS)
    lake.materialize("shop.sales", partitions=("2024-01-01", "2024-01-02"))
    (lake.folder / "a.csv").unlink()
    return lake


def test_rows_of_other_partitions_only_leave_the_table_as_it_is(with_rows: Lake) -> None:
    put(with_rows, "a.csv", "dt,code,amount\n2024/01/01,a,1\n2024/01/02,b,2\n")

    outcome = with_rows.materialize("shop.sales", partitions="2024-01-01", fails=True)

    assert "of 2 rows in 1 files" in outcome.failure
    assert "none is of the 1 requested partitions (dt=2024-01-01)" in outcome.failure
    assert "such as dt=2024/01/01; dt=2024/01/02" in outcome.failure
    assert "allow_empty: true" in outcome.failure
    assert len(sales(with_rows)) == 2
    assert len(with_rows.table("shop.sales").history.snapshots()) == 1


def test_a_partition_is_not_emptied_because_another_has_rows(with_rows: Lake) -> None:
    put(with_rows, "a.csv", "dt,code,amount\n2024-01-02,c,3\n")

    outcome = with_rows.materialize(
        "shop.sales", partitions=("2024-01-01", "2024-01-03"), fails=True
    )

    missed = "dt=2024-01-01 (rows: no rows came, and it has rows in the table)"
    assert missed in outcome.failure
    assert "`allow_empty: true`" in outcome.failure
    assert [row["code"] for row in sales(with_rows)] == ["a", "c"]
    assert set(outcome.materializations) == {"2024-01-02", "2024-01-03"}


@pytest.mark.sampled(1)
@pytest.mark.parametrize("way", ["declared", "asked for"])
def test_a_partition_is_emptied_where_that_is_meant(with_rows: Lake, way: str) -> None:
    put(with_rows, "a.csv", "dt,code,amount\n2024-01-02,c,3\n")
    config = {"allow_empty": True}
    if way == "declared":
        declare(with_rows, '{csv: "FOLDER/a.csv", allow_empty: true}', TEXT_DAYS)
        config = {}

    for partitions in ("2024-01-01", ("2024-01-01", "2024-01-02")):
        with_rows.materialize("shop.sales", partitions=partitions, config=config)

    assert [row["code"] for row in sales(with_rows)] == ["c"]


def test_a_path_that_names_no_file_empties_nothing_whatever_is_allowed(with_rows: Lake) -> None:
    declare(with_rows, '{csv: "FOLDER/b*.csv", allow_empty: true}', TEXT_DAYS)

    outcome = with_rows.materialize("shop.sales", partitions="2024-01-01", fails=True)

    assert "no file matches" in outcome.failure
    assert len(sales(with_rows)) == 2


def test_a_file_without_rows_empties_nothing(with_rows: Lake) -> None:
    put(with_rows, "a.csv", "dt,code,amount\n")

    outcome = with_rows.materialize("shop.sales", partitions="2024-01-01", fails=True)

    assert "the source of shop.sales returned no rows of dt=2024-01-01" in outcome.failure
    assert len(sales(with_rows)) == 2


def test_a_function_that_returns_no_rows_empties_nothing(with_rows: Lake) -> None:
    declare(with_rows, '{python: "tests.pipelines.sources:rows"}', TEXT_DAYS)
    nothing = with_rows.table("shop.sales").arrow_schema.empty_table()
    with_rows.give(nothing, "shop.sales")

    outcome = with_rows.materialize(
        "shop.sales", partitions=("2024-01-01", "2024-01-02"), fails=True
    )

    assert (
        "returned no rows of dt=2024-01-01; dt=2024-01-02; nothing was written" in outcome.failure
    )
    assert len(sales(with_rows)) == 2


def test_a_folder_may_have_letters_of_patterns_in_its_name(lake: Lake) -> None:
    put(lake, "in[1]/a.csv", "dt,code,amount\n2024-01-01,a,+1\n")
    declare(lake, '{csv: "FOLDER/in[1]"}')

    lake.materialize("shop.sales", partitions="2024-01-01")

    assert sales(lake) == [sale(FIRST, "a", "1.00")]


TOTALS = """
    table: shop.totals
    columns: [{name: dt, type: STRING NOT NULL}, {name: total, type: DOUBLE}]
    partition_keys: [dt]
    partitions: {daily: {column: dt, start: 2024-01-01, end: 2024-02-01}}
    source: {python: "tests.pipelines.sources:totals"}
    depends_on: [shop.events]
"""


@pytest.mark.parametrize("partitions", ["2024-01-02", ("2024-01-01", "2024-01-02")])
def test_a_derived_table_is_not_written_without_the_rows_of_its_upstream(
    lake: Lake, partitions: Any
) -> None:
    lake.declare(EVENTS, "events.yaml")
    lake.declare(TOTALS, "totals.yaml")
    lake.give(events("2024-01-01", 0, 3) + events("2024-01-02", 3, 5, amount=-1.0))
    lake.materialize(partitions="2024-01-01")
    lake.materialize(partitions="2024-01-02", fails=True)

    outcome = lake.materialize("shop.totals", partitions=partitions, fails=True)

    assert "its upstream shop.events has no rows of dt=2024-01-02" in outcome.failure
    others = [] if isinstance(partitions, str) else ["2024-01-01"]
    assert list(outcome.materializations) == others
    assert [row["dt"] for row in lake.rows("shop.totals")] == others


@pytest.mark.deep
@pytest.mark.spark
def test_spark_reads_files_as_this_process_does(lake: Lake) -> None:
    put(lake, "a.csv", "code,amount,dt\n007,1.5,2024-01-01\n008,2.5,2024-01-02\n")
    put(lake, "b.csv", "dt,code,amount\n2024-01-01,,3\n")
    declare(lake, '{csv: "FOLDER/*.csv"}', DAYS.replace("engine: local", "engine: spark"))

    lake.materialize("shop.sales", partitions="2024-01-01")

    assert sales(lake) == [sale(FIRST, "007", "1.50"), sale(FIRST, None, "3.00")]

    none_fits = lake.materialize("shop.sales", partitions="2024-01-03", fails=True)
    assert "of 3 rows in 2 files" in none_fits.failure
    assert "dt=2024-01-01; dt=2024-01-02" in none_fits.failure

    # The one file: a task of another could still write when the run cleans up.
    (lake.folder / "a.csv").unlink()
    put(lake, "b.csv", "dt,code,amount\n2024-01-01,,three\n")
    worse = lake.materialize("shop.sales", partitions="2024-01-01", fails=True)
    said = "b.csv: column amount is DECIMAL(10, 2), and row 1 holds 'three'"
    assert said in worse.failure
    assert len(sales(lake)) == 2

    pq.write_table(
        pa.table({"dt": [FIRST], "code": ["a"], "amount": ["7"]}), lake.folder / "c.parquet"
    )
    declare(lake, '{parquet: "FOLDER"}', DAYS.replace("engine: local", "engine: spark"))
    text = lake.materialize("shop.sales", partitions="2024-01-01", fails=True)
    assert "c.parquet: column amount is DECIMAL(10, 2), and the rows hold string" in text.failure


@pytest.mark.spark
def test_spark_cuts_nothing_off_moments_and_names_files_of_tables_without_partitions(
    lake: Lake,
) -> None:
    put(lake, "a.csv", "at\n2024-01-01T00:00:00.123456789\n")
    lake.declare(
        f"""
        table: shop.moments
        columns: [{{name: at, type: TIMESTAMP(9)}}]
        source: {{csv: "{lake.folder}/*.csv"}}
        write: {{engine: spark}}
        """,
        "moments.yaml",
    )
    lake.materialize("shop.moments")
    assert lake.table("shop.moments").read().column("at").cast(pa.int64()).to_pylist() == [
        1_704_067_200_123_456_789
    ]

    put(lake, "a.csv", "n\nx\n")
    lake.declare(
        f"""
        table: shop.numbers
        columns: [{{name: n, type: INT}}]
        source: {{csv: "{lake.folder}/*.csv"}}
        write: {{engine: spark}}
        """,
        "numbers.yaml",
    )
    worse = lake.materialize("shop.numbers", fails=True)
    assert "a.csv: column n is INT, and row 1 holds 'x'" in worse.failure


def test_an_upstream_may_name_its_days_in_another_type(lake: Lake) -> None:
    put(lake, "a.csv", "dt,code,amount\n2024-01-01,a,1\n2024-01-02,b,-1\n")
    declare(lake, '{csv: "FOLDER/*.csv"}')
    lake.materialize("shop.sales", partitions=("2024-01-01", "2024-01-02"))
    totals = TOTALS.replace("[shop.events]", "[shop.sales]").replace("shop.totals", "shop.kept")
    lake.declare(
        totals.replace(":totals", ":positive_sales") + "    write: {mode: append}\n", "kept.yaml"
    )

    lake.materialize("shop.kept", partitions=("2024-01-01", "2024-01-02"))

    assert lake.table("shop.kept").read().column("dt").to_pylist() == ["2024-01-01"]


def test_a_path_may_name_environment_variables_whose_values_are_never_shown(
    lake: Lake, monkeypatch: pytest.MonkeyPatch
) -> None:
    put(lake, "s3cret/a.csv", "dt,code,amount\n2024-01-01,x,1.50\n")
    declare(lake, '{csv: "${SALES_ROOT}/*.csv"}')
    key = dg.AssetKey(["shop", "sales"])
    spec = lake.definitions.get_repository_def().asset_graph.get(key)
    assert spec.metadata["lakewright/source"] == "csv ${SALES_ROOT}/*.csv"

    monkeypatch.delenv("SALES_ROOT", raising=False)
    unset = lake.materialize("shop.sales", partitions="2024-01-01", fails=True)
    assert (
        "csv ${SALES_ROOT}/*.csv, and the environment variable SALES_ROOT is not" in unset.failure
    )

    monkeypatch.setenv("SALES_ROOT", str(lake.folder / "s3cret"))
    lake.materialize("shop.sales", partitions="2024-01-01")
    assert sales(lake) == [sale(FIRST, "x", "1.50")]
    put(lake, "s3cret/a.csv", "dt,code,amount\n2024-01-01,x,much\n")
    wrong = lake.materialize("shop.sales", partitions="2024-01-01", fails=True)
    assert "${SALES_ROOT}/a.csv" in wrong.failure
    assert "s3cret" not in wrong.failure
    monkeypatch.setenv("SALES_ROOT", str(lake.folder / "s3cret" / "gone"))
    none = lake.materialize("shop.sales", partitions="2024-01-01", fails=True)
    assert "no file matches ${SALES_ROOT}/*.csv" in none.failure
    assert "s3cret" not in none.failure


VISITS = """
    table: shop.visits
    columns:
      - {name: dt, type: DATE NOT NULL}
      - {name: region, type: STRING}
      - {name: hour, type: INT}
      - {name: visitor, type: BIGINT}
    partition_keys: [dt, region, hour]
    source: SOURCE
    write: {engine: local}
"""


def test_folders_of_three_levels_are_registered_and_written_one_by_one(lake: Lake) -> None:
    for place, visitor in (("dt=2024-01-01/region=EU/7", 1), ("dt=2024-01-02/region=US/8", 2)):
        folder = lake.folder / "in" / place
        folder.mkdir(parents=True)
        (folder / "a.json").write_text(f'{{"visitor": {visitor}}}\n')
    declare(lake, '{json: "FOLDER/in/dt={dt}/region={region}/{hour}/*.json"}', VISITS)

    lake.materialize("shop.visits")
    registered_as = f"{TableNames('shop.visits').dynamic_partitions}/dt_region_hour"
    known = sorted(lake.instance.get_dynamic_partitions(registered_as))
    assert ["EU" in known[0], "US" in known[1], len(known)] == [True, True, 2]

    (lake.folder / "in/dt=2024-01-01/region=EU/7/a.json").write_text('{"visitor": 3}\n')
    (lake.folder / "in/dt=2024-01-02/region=US/8/a.json").write_text("broken")
    lake.materialize("shop.visits", partitions=known[0])
    assert sorted(row["visitor"] for row in lake.rows("shop.visits")) == [2, 3]

    broken = lake.materialize("shop.visits", partitions=known[1], fails=True)
    assert "a.json: line 1, column 1 is not JSON: Expecting value: 'broken'" in broken.failure

    (lake.folder / "in/dt=2024-01-02/region=US/8").rename(lake.folder / "in/dt=2024-01-02/gone")
    gone = lake.materialize("shop.visits", partitions=known[1], fails=True)
    assert "none of the 1 files of json" in gone.failure
    assert "their paths tell dt=2024-01-01,region=EU,hour=7; declare" in gone.failure
    assert sorted(row["visitor"] for row in lake.rows("shop.visits")) == [2, 3]
    lake.materialize("shop.visits", partitions=known[1], config={"allow_empty": True})
    assert [row["visitor"] for row in lake.rows("shop.visits")] == [3]


INFERRED = """
    table: shop.sales
    columns: [{name: dt, type: DATE NOT NULL}]
    schema: infer
    partition_keys: [dt]
    partitions:
      daily: {column: dt, start: 2024-01-01, end: 2024-02-01}
    source: SOURCE
"""


def test_columns_that_are_not_declared_come_from_the_first_file(lake: Lake) -> None:
    put(lake, "a.csv", "amount,code,dt\n1.5,007,2024-01-01\n2.5,b,2024-01-02\n")
    declare(lake, "{csv: FOLDER/a.csv}", INFERRED)
    lake.materialize("shop.sales", partitions="2024-01-01")
    assert sales(lake) == [{"dt": FIRST, "amount": 1.5, "code": "007"}]
    # The types are those of the table from here on; a file that says otherwise is told.
    put(lake, "a.csv", "amount,code,dt\nx,007,2024-01-01\n")
    lake.forget_what_was_read()
    outcome = lake.materialize("shop.sales", partitions="2024-01-01", fails=True)
    assert "is not as declared" in outcome.failure
    assert sales(lake) == [{"dt": FIRST, "amount": 1.5, "code": "007"}]


@pytest.mark.parametrize(
    ("source", "told"),
    [
        ('{python: "tests.pipelines.sources:rows"}', "columns are inferred of files only"),
        ("{csv: FOLDER/none.csv}", "no file is at"),
        ("{csv: FOLDER/a.csv, header: false}", "a CSV without a header names no columns"),
    ],
)
def test_columns_that_cannot_be_inferred_are_a_finding(lake: Lake, source: str, told: str) -> None:
    put(lake, "a.csv", "1,2\n")
    declare(lake, source, INFERRED)
    assert told in lake.wrong
