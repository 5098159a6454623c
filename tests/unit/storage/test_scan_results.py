"""A read hands its rows to other libraries, as streams and as frames, and counts them."""

from __future__ import annotations

import duckdb
import polars as pl
import pyarrow as pa
import pytest

from lakewright.storage import Catalog, Table
from lakewright.storage.spec.rows import ROW_KIND_COLUMN
from tests.support.stores.watched_files import watched
from tests.support.tables.builders import compact, events, new_table, rows


@pytest.fixture
def table(catalog: Catalog) -> Table:
    table = new_table(catalog, partitions=["day"])
    table.write(rows(table, [*events(0, 3), *events(3, 5, day="b")]))
    return table


@pytest.mark.mission("MT19")
def test_other_libraries_take_the_rows_of_a_table_a_state_and_a_scan(table: Table) -> None:
    table.write(rows(table, events(9, 10)))
    for readable, count in ((table, 6), (table.at(snapshot=1), 5), (table.scan("day = 'b'"), 2)):
        assert pa.table(readable).num_rows == count
        assert pl.DataFrame(readable)["id"].len() == count
        assert duckdb.connect().from_arrow(readable).count("*").fetchall() == [(count,)]
        assert readable.to_batches().read_all().num_rows == count
        assert len(readable.to_pandas()) == readable.to_polars().height == count
        relation = readable.to_duckdb()
        # A relation reads its rows each time that it runs.
        assert relation.count("*").fetchall() == relation.count("*").fetchall() == [(count,)]
        assert readable.count() == count
    assert table.to_pandas("id = 4", ["id"]).to_dict("list") == {"id": [4]}
    assert table.to_duckdb(where="id > 3", columns=["id"]).order("id").fetchall() == [(4,), (9,)]


def test_rows_of_a_table_are_written_to_another(table: Table, catalog: Catalog) -> None:
    other = new_table(catalog, name="db.other", partitions=["day"])
    other.write(table)
    assert other.count() == 5


def test_rows_are_counted_by_metadata_unless_they_merge(catalog: Catalog) -> None:
    plain = new_table(catalog)
    plain.write(rows(plain, events(0, 7)))
    watching, fs = watched(plain)
    assert watching.count() == 7
    assert [call for call in fs.calls if "bucket-" in call.path] == []
    assert watching.count("id >= 5") == 2
    for options in ({}, {"deletion-vectors.enabled": "true"}):
        name = f"db.keyed{len(options)}"
        keyed = new_table(catalog, name=name, keys=["id"], options={"bucket": "1", **options})
        keyed.write(rows(keyed, events(0, 7)))
        keyed.write(rows(keyed, events(3, 9)))
        gone = rows(keyed, events(0, 2)).append_column(ROW_KIND_COLUMN, pa.array(["-D", "-D"]))
        keyed.write(gone)
        assert keyed.count() == keyed.read().num_rows
        compact(keyed)
        assert keyed.count() == keyed.read().num_rows == 7
