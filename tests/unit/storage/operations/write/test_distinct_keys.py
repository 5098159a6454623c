"""A write refuses rows of one key on request, however they are sorted and split into files."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import pyarrow as pa
import pytest

from lakewright.storage import Catalog, Table
from lakewright.storage.errors import InvalidRequestError, InvalidRows, UnsupportedError
from lakewright.storage.operations.write import partition_writers
from tests.support.tables.builders import content, new_table
from tests.support.tables.invariants import assert_only_reachable_files


def keyed(catalog: Catalog, name: str = "db.t", **options: str) -> Table:
    return new_table(
        catalog,
        name=name,
        partitions=["day"],
        keys=["day", "id"],
        options={"bucket": "1", **options},
    )


def rows_of(ids: Sequence[int], day: str = "a", **more: Any) -> pa.Table:
    return pa.table({"id": ids, "day": [day] * len(ids), "v": [f"v{number}" for number in ids]})


@pytest.fixture
def small_buffers(monkeypatch: pytest.MonkeyPatch) -> None:
    """A writer sorts each table that it gets into a file of its own."""

    def free_memory(_: object, writers: Any, *__: object, **___: object) -> None:
        for writer in writers:
            writer.end_file()

    monkeypatch.setattr(partition_writers, "free_memory", free_memory)


def test_rows_of_one_key_are_named_and_nothing_is_written(catalog: Catalog) -> None:
    table = keyed(catalog)
    given = pa.concat_tables([rows_of([1, 2, 3, 2, 3, 3]), rows_of([1], day="b")])
    with pytest.raises(InvalidRows, match=r"3 of 6 rows .*day='a', id=2 in 2 rows; day='a', id=3"):
        table.write(given, on_duplicate="refuse")
    assert_only_reachable_files(table)
    assert content(table) == []
    # The same id in another partition is another key.
    distinct = pa.concat_tables([rows_of([1, 2, 3]), rows_of([1], day="b")])
    table.write(distinct, on_duplicate="refuse")
    table.write(distinct, on_duplicate="refuse")
    assert len(content(table)) == 4
    table.write(given)
    assert len(content(table)) == 4


@pytest.mark.usefixtures("small_buffers")
def test_rows_of_one_key_in_files_that_were_sorted_apart_are_refused(catalog: Catalog) -> None:
    table = keyed(catalog)
    apart = [rows_of(range(0, 100, 2)), rows_of(range(1, 100, 2)), rows_of(range(200, 300))]
    table.write(apart, on_duplicate="refuse")
    assert len(table.at().files()) == 3
    with pytest.raises(InvalidRows, match="2 of 102 rows that are written to bucket 0"):
        table.write([rows_of(range(100)), rows_of([50, 99])], on_duplicate="refuse")
    assert_only_reachable_files(table)
    assert len(content(table)) == 200


@pytest.mark.parametrize("apart", [True, False])
def test_rows_with_kinds_are_refused_however_they_are_split_into_files(
    catalog: Catalog, request: pytest.FixtureRequest, apart: bool
) -> None:
    if apart:
        request.getfixturevalue("small_buffers")
    table = keyed(catalog)
    gone = rows_of([1]).append_column("_rowkind", pa.array(["-D"]))
    new = rows_of([1]).append_column("_rowkind", pa.array(["+I"]))
    with pytest.raises(InvalidRequestError, match=r"rows of several kinds, .* have _rowkind"):
        table.write([gone, new], on_duplicate="refuse")
    assert_only_reachable_files(table)
    named = keyed(catalog, name="db.named", **{"rowkind.field": "v"})
    with pytest.raises(UnsupportedError, match=r"takes them from v \(rowkind\.field\)"):
        named.write(rows_of([1]), on_duplicate="refuse")


def test_tables_that_cannot_tell_and_other_words_are_refused(catalog: Catalog) -> None:
    plain = new_table(catalog, name="db.plain")
    with pytest.raises(InvalidRequestError, match=r"db\.plain has none"):
        plain.write(rows_of([1]), on_duplicate="refuse")
    later = new_table(catalog, name="db.later", keys=["id"], options={"bucket": "-2"})
    with pytest.raises(UnsupportedError, match="chooses later"):
        later.write(rows_of([1]), on_duplicate="refuse")
    with pytest.raises(InvalidRequestError, match="'first' is not one of merge, refuse"):
        later.write(rows_of([1]), on_duplicate="first")


def test_a_key_column_may_have_the_name_of_a_count(catalog: Catalog) -> None:
    columns = {"count_all": "BIGINT NOT NULL", "v": "STRING"}
    table = catalog.create_table(
        "db.counts", columns, primary_keys=["count_all"], options={"bucket": "1"}
    )
    with pytest.raises(InvalidRows, match="count_all=1 in 2 rows"):
        table.write(pa.table({"count_all": [1, 1], "v": ["a", "b"]}), on_duplicate="refuse")
