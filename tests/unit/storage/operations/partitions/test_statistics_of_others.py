"""Statistics of files of other systems: those are taken that their writer gets right."""

from __future__ import annotations

from decimal import Decimal
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from lakewright.storage import Catalog, Table
from lakewright.storage.codec.column_stats import file_bounds
from lakewright.storage.errors import InvalidRequestError, InvalidSchema, UnsupportedError
from lakewright.storage.operations.state.live_files import live_entries
from lakewright.storage.spec.predicate import Bounds
from tests.support.tables.builders import compact, new_table
from tests.support.tables.footers import change_footer, sign_as, take_orders_away

DECIMALS = [Decimal(f"{number}.00") for number in range(1, 25)]
ONE, TWO = (100).to_bytes(11, "big"), (200).to_bytes(11, "big")
WRONG_WRITERS = [
    "parquet-mr version 1.8.1 (build 4a)",
    "parquet-mr version 1.6.0",
    "parquet-mr",
    "parquet-cpp version 1.5.1-SNAPSHOT",
    "parquet-cpp-arrow version 3.0.0",
    "impala version 2.9.0",
    "Polars",
    " ",
]


def landed(root: Path, rows: pa.Table) -> Path:
    path = root / "day=a" / "f.parquet"
    path.parent.mkdir(parents=True)
    pq.write_table(rows, path, use_dictionary=False)
    return path


def table_of(catalog: Catalog, columns: dict[str, str]) -> Table:
    return new_table(catalog, {**columns, "day": "STRING"}, partitions=["day"])


def bounds_of(table: Table) -> dict[str, Bounds]:
    files = table.table_files
    (entry,) = live_entries(files, files.snapshots.latest())
    return file_bounds(entry.file, table.schema)


@pytest.fixture
def decimals(tmp_path: Path) -> Path:
    """A file whose bounds of a decimal are wrong: 2.00 is its least value, and 1.00 is in it."""
    rows = pa.table({"v": pa.array(DECIMALS, pa.decimal128(25, 2)), "id": range(24)})
    path = landed(tmp_path / "landed", rows)
    change_footer(path, ONE, TWO)
    assert pq.read_metadata(path).row_group(0).column(0).statistics.min == Decimal(2)
    return path


def added(catalog: Catalog, root: Path, columns: dict[str, str], *, copy: bool = False) -> Table:
    table_of(catalog, columns).upkeep.add_partitions(str(root), copy_files=copy, age_ms=0)
    return catalog.table("db.t")


VALUES = {"v": "DECIMAL(25, 2)", "id": "BIGINT"}


@pytest.mark.parametrize("writer", WRONG_WRITERS)
def test_wrong_bounds_of_decimals_lose_no_row(
    catalog: Catalog, tmp_path: Path, decimals: Path, writer: str
) -> None:
    sign_as(decimals, writer)
    table = added(catalog, tmp_path / "landed", VALUES)
    assert table.read("v = 1.00").num_rows == 1
    assert table.read("v < 2").num_rows == 1
    known = bounds_of(table)
    assert (known["v"].minimum, known["v"].null_count) == (None, None)
    # Integers are compared alike by all writers.
    assert (known["id"].minimum, known["id"].maximum, known["id"].null_count) == (0, 23, None)
    assert table.read("id = 23").num_rows == 1
    assert table.read("id IS NULL").num_rows == 0


def test_bounds_without_an_order_of_their_column_lose_no_row(
    catalog: Catalog, tmp_path: Path, decimals: Path
) -> None:
    take_orders_away(decimals)
    table = added(catalog, tmp_path / "landed", VALUES)
    assert table.read("v = 1.00").num_rows == 1
    assert bounds_of(table)["v"].minimum is None


@pytest.mark.parametrize("writer", [None, "parquet-mr version 1.10.0", "parquet-mr version 2.0.0"])
@pytest.mark.parametrize("columns", [2, 14, 15, 130])
def test_bounds_of_writers_that_get_them_right_are_kept(
    catalog: Catalog, tmp_path: Path, writer: str | None, columns: int
) -> None:
    kinds = {"v": "DECIMAL(25, 2)", "t": "STRING"}
    rows = {"v": pa.array([Decimal("-1.50"), None], pa.decimal128(25, 2)), "t": ["a", "é"]}
    for number in range(columns - 2):
        kinds[f"c{number}"], rows[f"c{number}"] = "BIGINT", [number, number]
    path = landed(tmp_path / "landed", pa.table(rows))
    if writer is not None:
        sign_as(path, writer)
    known = bounds_of(added(catalog, tmp_path / "landed", kinds))
    assert (known["v"].minimum, known["v"].maximum, known["v"].null_count) == (
        Decimal("-1.50"),
        Decimal("-1.50"),
        1,
    )
    assert (known["t"].minimum, known["t"].maximum, known["t"].null_count) == ("a", "é", 0)


@pytest.fixture
def nulls(tmp_path: Path) -> Path:
    """A file that says to hold no null, and holds one."""
    path = landed(tmp_path / "landed", pa.table({"v": [None, "a"]}))
    change_footer(path, b"\x36\x02\x28", b"\x36\x00\x28")
    assert pq.read_metadata(path).row_group(0).column(0).statistics.null_count == 0
    return path


@pytest.mark.parametrize("writer", WRONG_WRITERS)
def test_wrong_counts_of_nulls_lose_no_row_and_fit_no_column_without_nulls(
    catalog: Catalog, tmp_path: Path, nulls: Path, writer: str
) -> None:
    sign_as(nulls, writer)
    table = table_of(catalog, {"v": "STRING NOT NULL"})
    with pytest.raises(InvalidRequestError, match="holds null in column v, which is NOT NULL"):
        table.upkeep.add_partitions(str(tmp_path / "landed"), age_ms=0)
    catalog.drop_table("db.t")
    table = added(catalog, tmp_path / "landed", {"v": "STRING"})
    assert table.read("v IS NULL").num_rows == 1
    assert bounds_of(table)["v"].null_count is None


@pytest.mark.parametrize("way", ["copy", "compaction"])
def test_a_copy_and_a_compaction_compute_what_the_writer_got_wrong(
    catalog: Catalog, tmp_path: Path, decimals: Path, way: str
) -> None:
    sign_as(decimals, WRONG_WRITERS[0])
    table = added(catalog, tmp_path / "landed", VALUES, copy=way == "copy")
    if way == "compaction":
        # One file alone is not rewritten.
        table.write([{"v": Decimal(3), "id": 3, "day": "a"}])
        compact(table, full=True)
        table = catalog.table("db.t")
    known = bounds_of(table)["v"]
    assert (known.minimum, known.maximum, known.null_count) == (
        Decimal("1.00"),
        Decimal("24.00"),
        0,
    )
    assert table.read("v = 1.00").num_rows == 1
    assert table.read("v > 24").num_rows == 0


def test_bounds_that_are_no_text_are_left_out(catalog: Catalog, tmp_path: Path) -> None:
    path = landed(tmp_path / "landed", pa.table({"v": ["é", "z"]}))
    change_footer(path, "é".encode(), b"\xc3(")
    table = added(catalog, tmp_path / "landed", {"v": "STRING"})
    assert bounds_of(table)["v"].minimum is None
    assert table.read("v = 'é'").num_rows == 1


def test_decimals_in_more_bytes_than_are_read_are_refused_by_their_column(
    catalog: Catalog, tmp_path: Path
) -> None:
    rows = pa.table({"v": pa.array(DECIMALS, pa.decimal256(50, 2))})
    path = tmp_path / "landed" / "day=a" / "f.parquet"
    path.parent.mkdir(parents=True)
    pq.write_table(rows, path, use_dictionary=False, store_schema=False)
    # From 50 digits to 25, in as many bytes.
    change_footer(path, b"\x15\x64", b"\x15\x32")
    table = table_of(catalog, {"v": "DECIMAL(25, 2)"})
    with pytest.raises(UnsupportedError, match=r"column v, DECIMAL\(25, 2\), in 21 bytes"):
        table.upkeep.add_partitions(str(tmp_path / "landed"), age_ms=0)


@pytest.mark.parametrize("kind", ["BINARY(3)", "BYTES", "STRING"])
def test_bytes_of_fixed_length_are_of_another_schema(
    catalog: Catalog, tmp_path: Path, kind: str
) -> None:
    landed(tmp_path / "landed", pa.table({"v": pa.array([b"a\xffc", None], pa.binary(3))}))
    table = table_of(catalog, {"v": kind})
    with pytest.raises(InvalidSchema, match=r"column v holds fixed_size_binary\[3\] there"):
        table.upkeep.add_partitions(str(tmp_path / "landed"), age_ms=0)
