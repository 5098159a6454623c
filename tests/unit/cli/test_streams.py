"""The streams of a table: listed, settled by a person, forgotten."""

from __future__ import annotations

from lakewright.storage import Catalog, StreamRecord, Table
from tests.support.tables.builders import new_table
from tests.unit.cli.conftest import Lakewright


def streamed(catalog: Catalog) -> Table:
    table: Table = new_table(catalog)
    table.table_files.streams.put(
        StreamRecord(
            stream="q1",
            checkpoint="/checkpoint",
            batch=7,
            committed=False,
            time_ms=0,
            waiting=("2024-01-01",),
        )
    )
    return table


def test_streams_are_listed_settled_and_forgotten(catalog: Catalog, lakewright: Lakewright) -> None:
    table = streamed(catalog)
    said = lakewright(catalog, "stream", "list", "db.t")
    assert said.lines[-1].split() == ["q1", "7", "in", "doubt", "1", "/checkpoint"]
    settled = lakewright(catalog, "stream", "settle", "db.t", "q1")
    assert settled.out == "batch 7 of stream q1 counts as committed\n"
    (listed,) = lakewright(catalog, "stream", "list", "db.t", "--format", "json").json
    assert (listed["batch"], listed["committed"]) == (7, True)
    lakewright(catalog, "stream", "forget", "db.t", "q1")
    assert table.history.streams() == ()
    again = lakewright(catalog, "stream", "forget", "db.t", "q1", code=3)
    assert "no stream q1 has written into db.t; there are none" in again.err


def test_a_stream_needs_one_folder_and_times_that_say_their_column(
    catalog: Catalog, lakewright: Lakewright
) -> None:
    streamed(catalog)
    none = lakewright(catalog, "stream", "run", "db.t", "--checkpoint", "c", code=2)
    assert "is needed" in none.err
    wrong = lakewright(
        catalog,
        *("stream", "run", "db.t", "--checkpoint", "c", "--json", "f", "--event-time", "dt"),
        code=2,
    )
    assert "'dt' is not K=COLUMN" in wrong.err
