"""Java Paimon reads the format tables that its file-system catalogs can, and refuses the others."""

from __future__ import annotations

import datetime as dt
from decimal import Decimal
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

from lakewright.storage import Catalog
from tests.interop.test_they_read_ours import as_texts
from tests.oracles.client import LatestJavaOracle, Oracle, OracleError
from tests.support.tables.builders import comparable
from tests.support.tables.landed import LANDED, land_days, rows_of


@pytest.mark.parametrize("file_format", ["parquet", "orc", "csv", "json", "text"])
@pytest.mark.mission("PT14", "PT15", "PT67")
def test_java_reads_what_we_write(
    catalog: Catalog, java_latest: LatestJavaOracle, file_format: str
) -> None:
    columns = {"id": "BIGINT", "v": "STRING"} if file_format != "text" else {"v": "STRING"}
    table = catalog.create_format_table(
        "db.f",
        columns | {"day": "DATE", "country": "STRING"},
        file_format=file_format,
        partition_keys=["day", "country"],
    )
    rows = pa.Table.from_pylist(rows_of(0, 3)).select(list(columns))
    table.write(rows, partition={"day": "2024-01-31", "country": "de"})
    table.write(rows, partition={"day": "2024-01-31", "country": "a/b c"})
    table.write(rows, partition={"day": None, "country": "de"})
    assert table.read().num_rows == 9
    assert as_texts(java_latest.read(catalog.root, "db.f")) == comparable(table.read())


@pytest.mark.parametrize("file_format", ["csv", "json"])
@pytest.mark.mission("PT14")
def test_java_reads_texts_with_signs_and_values_of_every_type(
    catalog: Catalog, java_latest: LatestJavaOracle, file_format: str
) -> None:
    columns = {
        "v": "STRING", "a": "TIMESTAMP(6)", "b": "TIME(3)", "c": "DATE", "d": "BOOLEAN",
        "e": "DOUBLE", "f": "FLOAT", "g": "DECIMAL(20, 10)", "h": "TINYINT", "day": "STRING",
    }  # fmt: skip
    table = catalog.create_format_table(
        "db.f", columns, file_format=file_format, partition_keys=["day"]
    )
    texts = ['a"b', "\\", '\\"', "a\\", "a\\b", '"', '""', ",", 'a,b"c\\,d', " ", "\t", None]
    values = {
        "a": dt.datetime(2024, 1, 31, 10, 0, 0, 500), "b": dt.time(10, 0, 0, 123000),
        "c": dt.date(1, 1, 1), "d": True, "e": float("inf"), "f": 0.5, "g": Decimal("-1E-10"),
        "h": -128, "day": "x",
    }  # fmt: skip
    rows = [{"v": text, **values} for text in texts]
    rows.append({**dict.fromkeys(columns), "day": "x"})
    table.write(pa.Table.from_pylist(rows, schema=table.arrow_schema))

    assert as_texts(java_latest.read(catalog.root, "db.f")) == comparable(table.read())


@pytest.mark.mission("PT14")
def test_pypaimon_takes_a_format_table_for_an_empty_one(
    catalog: Catalog, released_pypaimon: Oracle
) -> None:
    """It knows format tables in REST catalogs alone."""
    table = catalog.create_format_table("db.f", LANDED, partition_keys=["day"])
    table.write(pa.Table.from_pylist(rows_of(0, 3)), partition={"day": "a"})
    assert released_pypaimon.read(catalog.root, "db.f") == []


@pytest.mark.parametrize(
    "how",
    [
        {"location": "landed", "partition_keys": ["day"]},
        {"partition_keys": []},
        {"partition_keys": ["day"], "options": {"format-table.partition-path-only-value": "true"}},
    ],
    ids=["elsewhere", "unpartitioned", "values alone"],
)
@pytest.mark.mission("PT14")
def test_java_refuses_what_it_would_read_wrongly(
    catalog: Catalog, java_latest: LatestJavaOracle, tmp_path: Path, how: dict[str, Any]
) -> None:
    """It takes the table's own folder for the location, and the schema's file for data."""
    if "location" in how:
        how = how | {"location": str(land_days(tmp_path / "landed"))}
    table = catalog.create_format_table("db.f", LANDED, **how)
    if "location" not in how:
        table.write(pa.Table.from_pylist([{**row, "day": "a"} for row in rows_of(0, 3)]))
    assert table.read().num_rows in (3, 12)
    with pytest.raises(OracleError, match="lakewright-format-table"):
        java_latest.read(catalog.root, "db.f")
