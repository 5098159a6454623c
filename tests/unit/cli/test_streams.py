"""The streams of a table: listed, and forgotten."""

from __future__ import annotations

from lakewright.storage import Catalog, Table
from lakewright.storage.operations.streams.batches import commit_batch
from lakewright.storage.spec.stream import StreamBatch
from tests.support.tables.builders import events, new_table, rows
from tests.unit.cli.conftest import Lakewright


def streamed(catalog: Catalog) -> Table:
    table: Table = new_table(catalog)
    for number in range(2):
        staged = table.stage(
            rows(table, events(number, number + 1)), commit_user="q1", commit_identifier=number
        )
        batch = StreamBatch(stream="q1", checkpoint="/checkpoint", number=number)
        commit_batch(table.table_files, batch, staged)
    return table


def test_streams_are_listed_and_forgotten(catalog: Catalog, lakewright: Lakewright) -> None:
    table = streamed(catalog)
    said = lakewright(catalog, "stream", "list", "db.t")
    assert said.lines[-1].split() == ["q1", "1", "0", "/checkpoint"]
    (listed,) = lakewright(catalog, "stream", "list", "db.t", "--format", "json").json
    assert (listed["stream"], listed["batch"]) == ("q1", 1)
    forgotten = lakewright(catalog, "stream", "forget", "db.t", "q1")
    assert forgotten.out == "stream q1 is forgotten; its last batch was 1\n"
    assert table.history.streams() == ()
    assert table.at().count() == 2
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
