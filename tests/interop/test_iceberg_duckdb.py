"""DuckDB reads our Iceberg metadata: every type, deleted rows, changed columns, partitions."""

from __future__ import annotations

import datetime as dt
import subprocess
from decimal import Decimal
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from lakewright.storage import AddColumn, Catalog, ChangeType, RenameColumn, Table
from lakewright.storage.operations.iceberg.metadata_files import MetadataFiles
from tests.oracles.fixtures import oracle_home
from tests.support.tables.builders import ANY_LOSS, compact, events, expire, new_table, rows
from tests.support.tables.iceberg import comparable_rows, shown_rows

PUBLISHED = {"metadata.iceberg.storage": "table-location"}
DRIVER = Path(__file__).resolve().parents[1] / "oracles" / "duckdb_iceberg.py"


def duckdb_rows(table: Table, folder: Path) -> pa.Table:
    python = oracle_home() / "duckdb_iceberg" / "bin" / "python"
    if not python.exists():
        pytest.fail(f"no oracle at {python}; run tests/oracles/install.py {oracle_home()}")
    own = MetadataFiles.of(table.table_files)
    output = folder / "rows.parquet"
    command = [str(python), str(DRIVER), own.version_path(own.hint() or 0), str(output)]
    ran = subprocess.run(command, capture_output=True, text=True, check=False)
    assert ran.returncode == 0, ran.stderr
    return pq.read_table(output)


def assert_alike(table: Table, folder: Path) -> None:
    expected = shown_rows(table)
    found = duckdb_rows(table, folder).select(expected.column_names)
    # DuckDB's files have units of their own.
    types = pa.schema([pa.field(each.name, each.type) for each in expected.schema])
    assert comparable_rows(found.cast(types)) == comparable_rows(expected)


TYPES = {
    "i": "INT",
    "b": "BOOLEAN",
    "t": "TINYINT",
    "l": "BIGINT",
    "f": "FLOAT",
    "x": "DOUBLE",
    "c": "CHAR(3)",
    "v": "STRING",
    "by": "BYTES",
    "d": "DECIMAL(5, 2)",
    "d2": "DECIMAL(30, 3)",
    "day": "DATE",
    "tm": "TIME(3)",
    "ts3": "TIMESTAMP(3)",
    "ts": "TIMESTAMP(6)",
    "tz": "TIMESTAMP(6) WITH LOCAL TIME ZONE",
    "a": "ARRAY<INT>",
    "m": "MAP<STRING, ARRAY<INT>>",
    "r": "ROW<a INT, b ROW<c STRING>>",
}


def row(at: int) -> dict[str, Any]:
    moment = dt.datetime(2024, 1, 1, 0, 0, at)
    return {
        "i": at,
        "b": at % 2 == 0,
        "t": at,
        "l": at << 40,
        "f": [0.5, -0.0, 1.5][at % 3],
        "x": at / 3,
        "c": "abc",
        "v": f"v{at}",
        "by": b"\x00" * at,
        "d": Decimal("1.25") * at,
        "d2": Decimal("123456789012345.123") * at,
        "day": dt.date(2024, 1, 1 + at),
        "tm": dt.time(1, 2, at),
        "ts3": moment,
        "ts": moment.replace(microsecond=5),
        "tz": moment.replace(microsecond=7, tzinfo=dt.UTC),
        "a": [1, at],
        "m": {"x": [at]},
        "r": {"a": at, "b": {"c": "q"}},
    }


def test_duckdb_reads_every_type_deleted_rows_and_changed_columns(
    catalog: Catalog, tmp_path: Path
) -> None:
    options = {**PUBLISHED, "deletion-vectors.enabled": "true"}
    table = new_table(catalog, TYPES, options=options)
    table.write([row(at) for at in range(8)])
    table.write([dict.fromkeys(TYPES)])
    table.delete("i in (3, 5)")
    table = table.alter(
        RenameColumn("v", "w"), AddColumn("v", "INT"), ChangeType("i", "BIGINT"), rules=ANY_LOSS
    )
    table.write([{"i": 1 << 40, "w": "new", "v": 7}])
    assert_alike(table, tmp_path)


@pytest.mark.parametrize("key", ["d", "d2", "day", "b", "ts", "tz", "v", "t", "f"])
@pytest.mark.sampled(3)
def test_duckdb_reads_partitions_of_every_type(catalog: Catalog, tmp_path: Path, key: str) -> None:
    types = {"i": "INT", key: TYPES[key]}
    table = new_table(catalog, types, partitions=[key], options=PUBLISHED)
    table.write([{"i": at, key: row(at)[key]} for at in range(4)] + [{"i": 9, key: None}])
    table.write([{"i": 10, key: row(1)[key]}])
    compact(table, full=True)
    assert_alike(table, tmp_path)


def test_duckdb_reads_a_primary_key_table_after_upserts_expiry_and_rollback(
    catalog: Catalog, tmp_path: Path
) -> None:
    options = {**PUBLISHED, "bucket": "1", "deletion-vectors.enabled": "true"}
    table = new_table(catalog, keys=["id"], options=options)
    for number in range(3):
        table.write(rows(table, events(number, number + 4, v=f"{number}")))
        compact(table)
    expire(table, keep=4)
    assert_alike(table, tmp_path)
    table.history.rollback(snapshot=4, grace_ms=0)
    assert_alike(table, tmp_path)
