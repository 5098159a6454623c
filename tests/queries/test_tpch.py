"""The queries of TPC-H over tables of every kind equal the same queries over the Parquet files."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import duckdb
import pytest
from benchmarks.tpch import all_tables

from lakewright.session import Session
from lakewright.storage import Catalog, SchemaSpec
from lakewright.storage.codec.arrow_types import columns_from_arrow

ROOT = Path(__file__).parents[2]
_TEXT = Path(__file__).with_name("tpch.sql").read_text()
QUERIES: Mapping[str, str] = dict(
    re.findall(r"^-- (q\d+)\n(.*?);$", _TEXT, re.MULTILINE | re.DOTALL)
)
# Orders are merged, line items are left out by row groups, parts by vectors and buckets.
KEYS = {"orders": ("o_orderkey",), "part": ("p_partkey",), "customer": ("c_custkey",)}
OPTIONS = {
    "orders": {"bucket": "2"},
    "part": {"bucket": "2", "deletion-vectors.enabled": "true"},
    "customer": {"bucket": "1", "file.format": "orc"},
    "lineitem": {"file.block-size": "256 kb"},
}


@pytest.fixture(
    scope="module", params=[1, pytest.param(10, marks=pytest.mark.deep)], ids=["0.01", "0.1"]
)
def both(
    request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[tuple[Session, duckdb.DuckDBPyConnection]]:
    """A session over tables, and DuckDB over the files that they were filled from."""
    folder = all_tables(tmp_path_factory.mktemp("tpch"), ROOT / ".oracles", request.param)
    catalog = Catalog.open(str(tmp_path_factory.mktemp("warehouse")))
    plain = duckdb.connect()
    for file in sorted(folder.glob("*.parquet")):
        name = file.stem
        plain.execute(f"CREATE VIEW {name} AS SELECT * FROM '{file}'")
        order = "ORDER BY l_shipdate" if name == "lineitem" else ""
        rows = plain.sql(f"FROM {name} {order}").to_arrow_table()
        table = catalog.create_table(
            f"h.{name}",
            SchemaSpec(
                columns=columns_from_arrow(rows.schema),
                primary_keys=KEYS.get(name, ()),
                options=OPTIONS.get(name, {}),
            ),
        )
        table.write(rows)
        if name in KEYS:
            # The second half again, so that files overlap.
            table.write(rows.slice(rows.num_rows // 2))
        if name == "part":
            # With deletion vectors, rows are visible once they are compacted.
            table.upkeep.compact()
    session = Session(catalog)
    session.sql("USE h")
    yield session, plain
    plain.close()


@pytest.mark.mission("MT19")
@pytest.mark.parametrize("query", QUERIES)
@pytest.mark.sampled(8)
def test_a_query_over_tables_equals_the_query_over_files(
    both: tuple[Session, duckdb.DuckDBPyConnection], query: str
) -> None:
    session, plain = both
    found = session.sql(QUERIES[query]).rows
    assert found is not None
    expected = plain.sql(QUERIES[query]).fetchall()
    assert len(QUERIES) == 22
    rows = [tuple(row.values()) for row in found.to_pylist()]
    assert _comparable(rows) == _comparable(expected)


def _comparable(rows: list[tuple[Any, ...]]) -> list[tuple[Any, ...]]:
    """Rows without the last bits of floating numbers, which depend on the order of a sum."""
    return [
        tuple(float(f"{each:.9g}") if isinstance(each, float) else each for each in row)
        for row in rows
    ]
