"""Writers of one partition, of grouped rows and of rows in any order, and what they keep open."""

from __future__ import annotations

import datetime as dt
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pyarrow as pa
import pytest

from lakewright.storage import Catalog, Table, WriterKind
from lakewright.storage.errors import InvalidRows, UnavailableError
from lakewright.storage.operations.write import place_sorter
from tests.support.stores.watched_files import Fault, watched
from tests.support.tables.builders import content, new_table
from tests.support.tables.invariants import assert_only_reachable_files

_COLUMNS = {"id": "BIGINT", "part": "INT", "v": "STRING"}
_PARTITIONS = 90


def partitioned(catalog: Catalog, name: str = "db.t", *, keyed: bool = False) -> Table:
    """A table by `part`, with a primary key or without."""
    return new_table(
        catalog,
        {**_COLUMNS, "part": "INT NOT NULL", "id": "BIGINT NOT NULL"} if keyed else _COLUMNS,
        name=name,
        partitions=["part"],
        keys=["part", "id"] if keyed else [],
        options={"bucket": "1"} if keyed else None,
    )


def batches(*, grouped: bool, count: int = 6, rows: int = 300) -> Iterator[pa.Table]:
    """Rows of many partitions; each batch has rows of all of them, or follows on the last one."""
    ids = np.arange(count * rows)
    parts = ids * _PARTITIONS // len(ids) if grouped else ids * 7 % _PARTITIONS
    table = pa.table(
        {
            "id": ids,
            "part": pa.array(parts, pa.int32()),
            "v": pa.array([f"value {number}" for number in ids]),
        }
    )
    return (table.slice(start, rows) for start in range(0, len(ids), rows))


@pytest.fixture
def small_budget(monkeypatch: pytest.MonkeyPatch) -> None:
    """A task may hold a batch or two before it spills, and its pieces are small."""
    monkeypatch.setattr(place_sorter, "SORT_BUFFER_BYTES", 20_000)
    monkeypatch.setattr(place_sorter, "BATCH_BYTES", 2_000)


@pytest.mark.mission("PT47", "PT59")
def test_the_plan_chooses_the_writer_and_the_result_names_it(catalog: Catalog) -> None:
    table, plain = partitioned(catalog), new_table(catalog, _COLUMNS, name="db.plain")
    one = next(batches(grouped=False)).drop_columns(["part"])
    kinds = [
        table.write(one, partition={"part": 1}).writer,
        plain.write(batches(grouped=False)).writer,
        table.write(batches(grouped=True), grouped=True).writer,
        table.write(batches(grouped=False)).writer,
    ]
    assert [use.kind if use else None for use in kinds] == [
        WriterKind.SINGLE_PARTITION,
        WriterKind.SINGLE_PARTITION,
        WriterKind.GROUPED,
        WriterKind.UNGROUPED,
    ]
    assert str(kinds[2]).startswith("grouped, ")


@pytest.mark.mission("PT64")
def test_a_task_of_an_engine_learns_the_partition_columns_and_the_fixed_ones(
    catalog: Catalog,
) -> None:
    table = new_table(
        catalog, {**_COLUMNS, "day": "DATE", "hour": "INT"}, partitions=["day", "part"]
    )
    job = table.prepare_write(mode="append", partition={"day": "2026-01-02"}, grouped=True)
    assert job.partition_keys == ("day", "part")
    assert job.static_partition == {"day": dt.date(2026, 1, 2)}
    assert job.dynamic_partition_keys == ("part",)
    assert job.request.writer is WriterKind.GROUPED


@pytest.mark.mission("PT56", "PT63")
def test_grouped_rows_have_one_partition_open_at_a_time_and_a_file_each(catalog: Catalog) -> None:
    table = partitioned(catalog)
    use = table.write(batches(grouped=True), grouped=True).writer
    # The partition that goes on, and those that are closed at once, one for each core.
    assert use is not None
    assert use.most_open <= 1 + table.table_files.env.cores()
    assert len(table.at().files()) == _PARTITIONS
    assert table.read().num_rows == 1800


@pytest.mark.mission("PT57", "PT46", "PT58")
@pytest.mark.parametrize("keyed", [False, True])
@pytest.mark.usefixtures("small_budget")
def test_rows_of_many_partitions_are_spilled_and_written_one_partition_after_the_other(
    catalog: Catalog, keyed: bool
) -> None:
    table, held = partitioned(catalog, keyed=keyed), partitioned(catalog, "db.held", keyed=keyed)
    use = table.write(batches(grouped=False)).writer
    assert use is not None
    assert use.spilled_bytes > 20_000
    assert use.most_open <= 64
    assert len(table.at().files()) == _PARTITIONS
    held.write(pa.concat_tables(batches(grouped=False)))
    assert content(table) == content(held)


@pytest.mark.usefixtures("small_budget")
def test_rows_of_a_partition_stay_in_their_order_over_several_spills(
    catalog: Catalog, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(place_sorter, "MOST_RUNS", 3)
    table = partitioned(catalog)
    table.write(batches(grouped=False, count=20))
    for part in (0, 63, 64, 89):
        ids = table.read(f"part = {part}").column("id").to_pylist()
        assert ids == sorted(ids)
        assert len(ids) > 60


@pytest.mark.usefixtures("small_budget")
def test_of_a_key_the_row_that_came_last_stays_over_several_spills(catalog: Catalog) -> None:
    table = partitioned(catalog, keyed=True)
    parts = pa.array(np.arange(900) % _PARTITIONS, pa.int32())
    table.write(
        pa.table({"id": np.zeros(900, np.int64), "part": parts, "v": [f"{turn}"] * 900})
        for turn in range(8)
    )
    assert table.read().column("v").to_pylist() == ["7"] * _PARTITIONS


@pytest.mark.parametrize("keyed", [False, True])
def test_rows_that_were_announced_as_grouped_and_are_not_lose_nothing(
    catalog: Catalog, keyed: bool
) -> None:
    table, other = partitioned(catalog, keyed=keyed), partitioned(catalog, "db.o", keyed=keyed)
    turns = [*batches(grouped=True), *(each.slice(0, 20) for each in batches(grouped=True))]
    use = table.write(turns, grouped=True).writer
    other.write(turns)
    assert use is not None
    assert use.kind is WriterKind.UNGROUPED
    assert content(table) == content(other)
    # One file more for those that were finished, and not one for each batch.
    assert len(table.at().files()) <= 2 * _PARTITIONS


def test_a_few_partitions_are_written_side_by_side_without_a_sort(catalog: Catalog) -> None:
    table = partitioned(catalog)
    few = [each.filter(pa.compute.less(each["part"], 64)) for each in batches(grouped=False)]
    use = table.write(few).writer
    assert use is not None
    assert (use.most_open, use.spilled_bytes) == (64, 0)


@pytest.mark.parametrize("grouped", [False, True])
@pytest.mark.usefixtures("small_budget")
def test_a_row_that_does_not_fit_leaves_no_file_of_any_writer(
    catalog: Catalog, grouped: bool
) -> None:
    table = partitioned(catalog)
    good = list(batches(grouped=grouped))
    bad = pa.table({"id": pa.array(["x"]), "part": pa.array([1], pa.int32()), "v": ["x"]})
    with pytest.raises(InvalidRows):
        table.write([*good, bad], grouped=grouped)
    assert_only_reachable_files(table)
    assert not table.at().files()


@pytest.mark.usefixtures("small_budget")
def test_a_full_disk_for_spilled_rows_is_named_and_nothing_is_left(
    catalog: Catalog, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setattr("tempfile.tempdir", str(tmp_path / "gone"))
    table = partitioned(catalog)
    with pytest.raises(UnavailableError, match="TMPDIR"):
        table.write(batches(grouped=False))
    assert_only_reachable_files(table)
    assert not table.at().files()


@pytest.mark.usefixtures("small_budget")
def test_a_store_that_fails_while_sorted_rows_are_written_leaves_nothing(catalog: Catalog) -> None:
    table = partitioned(catalog)
    failing, files = watched(
        table, fail_at=70, fault=Fault.FAILS_BEFORE, counts=lambda call: call.name == "open_output"
    )
    with pytest.raises(UnavailableError):
        failing.write(batches(grouped=False))
    assert files.failed is not None
    assert_only_reachable_files(table)
    assert not table.at().files()
