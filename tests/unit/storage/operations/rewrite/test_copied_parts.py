"""Compaction that copies row groups: the same rows and statistics, and not a byte decoded."""

from __future__ import annotations

import base64
import random
from collections.abc import Callable
from pathlib import Path
from typing import Any

import duckdb
import pyarrow.parquet as pq
import pytest

from lakewright.storage import AddColumn, Catalog, Table, VerifyLevel
from lakewright.storage.codec.column_stats import file_bounds
from lakewright.storage.errors import CorruptionError, VerificationFailed
from lakewright.storage.files import parquet_copies
from lakewright.storage.files.local_files import LocalFiles
from lakewright.storage.operations.rewrite.compaction_plan import CompactionResult
from tests.support.tables.builders import compact, content, new_table, rows, with_options
from tests.support.tables.invariants import assert_only_reachable_files
from tests.support.values.every_type import ATOMS, NESTED

_COLUMNS = {f"c{number}": text for number, text in enumerate([*ATOMS, *NESTED])}
_VALUES = {name: {**ATOMS, **NESTED}[text] for name, text in _COLUMNS.items()}
COLUMNS = {"id": "BIGINT", "v": "STRING", **_COLUMNS}
# Bytes of texts that a compression leaves large, so that a row group is worth copying.
_FILLING = 110_000


def filled(first: int, count: int = 50) -> list[dict[str, Any]]:
    rng = random.Random(first)
    return [
        {
            "id": number,
            "v": base64.b85encode(rng.randbytes(_FILLING * 4 // 5)).decode(),
            **{name: rng.choice([None, *values]) for name, values in _VALUES.items()},
        }
        for number in range(first, first + count)
    ]


def large_appends(table: Table, count: int) -> None:
    for number in range(count):
        table.write(rows(table, [{**each} for each in filled(100 * number)]))


def groups_of(table: Table) -> list[int]:
    """The rows of each row group of each live file, in order."""
    found = []
    for entry in table.at().files():
        path = table.table_files.data_file_path(entry.place, entry.file)
        metadata = pq.read_metadata(path)
        found += [metadata.row_group(each).num_rows for each in range(metadata.num_row_groups)]
    return found


@pytest.fixture
def table(catalog: Catalog) -> Table:
    return new_table(catalog, COLUMNS, options={"target-file-size": "64 mb"})


@pytest.mark.mission("FS7")
@pytest.mark.parametrize("verify", [VerifyLevel.COUNTS, VerifyLevel.FULL])
@pytest.mark.sampled(1)
def test_large_row_groups_are_copied_with_all_that_is_known_of_them(
    table: Table, verify: VerifyLevel
) -> None:
    large_appends(table, 3)
    before = content(table)
    bounds = [file_bounds(each.file, table.schema) for each in table.at().files()]
    result = table.upkeep.run(table.upkeep.plan_compact(full=True), verify=verify)
    assert (result.files_before, result.files_after, result.rows_after) == (3, 1, 150)
    assert content(table) == before
    assert groups_of(table) == [50, 50, 50]
    (entry,) = table.at().files()
    joined = file_bounds(entry.file, table.schema)
    for name in COLUMNS:
        assert joined[name].null_count == sum(each[name].null_count or 0 for each in bounds)
    assert (joined["id"].minimum, joined["id"].maximum) == (0, 249)
    assert (entry.file.min_sequence_number, entry.file.max_sequence_number) == (0, 149)
    assert_only_reachable_files(table)
    # What was copied once is whole: nothing is left to do.
    assert table.upkeep.plan_compact(full=True).tasks == ()


def another_compression(table: Table) -> Table:
    return with_options(table, **{"file.compression": "snappy"})


def another_column(table: Table) -> Table:
    return table.alter(AddColumn("later", "INT"))


def larger_row_groups(table: Table) -> Table:
    return with_options(table, **{"parquet.block.size": "128 mb"})


@pytest.mark.parametrize("change", [another_compression, another_column, larger_row_groups])
@pytest.mark.sampled(1)
def test_files_that_differ_from_new_ones_are_decoded(
    table: Table, change: Callable[[Table], Table]
) -> None:
    large_appends(table, 2)
    before = content(table, columns=list(COLUMNS))
    changed = change(table)
    compact(changed, full=True)
    assert len(groups_of(changed)) == 1
    assert content(changed, columns=list(COLUMNS)) == before
    assert_only_reachable_files(changed)


def test_small_files_among_large_ones_are_decoded_and_the_others_copied(table: Table) -> None:
    large_appends(table, 2)
    for number in range(2):
        table.write(rows(table, filled(900 + number, 1)))
    before = content(table)
    result = compact(table, full=True)
    assert result.files_after == 2
    assert groups_of(table) == [50, 50, 2]
    assert content(table) == before


def damaged(table: Table, place: int) -> Path:
    entry = table.at().files()[0]
    path = Path(table.table_files.data_file_path(entry.place, entry.file))
    data = bytearray(path.read_bytes())
    data[place] ^= 0xFF
    path.write_bytes(data)
    return path


def run(table: Table) -> CompactionResult:
    return compact(table, full=True)


@pytest.mark.parametrize("place", [-1, -6, -40, -900], ids="at {}".format)
@pytest.mark.sampled(1)
def test_a_file_with_a_damaged_footer_is_refused(unchecked_catalog: Catalog, place: int) -> None:
    table = new_table(unchecked_catalog, COLUMNS)
    large_appends(table, 2)
    snapshot = table.history.latest_snapshot()
    damaged(table, place)
    with pytest.raises((CorruptionError, VerificationFailed)):
        run(table)
    assert table.history.latest_snapshot() == snapshot
    assert_only_reachable_files(table)


def test_bytes_that_change_on_their_way_are_refused(
    table: Table, monkeypatch: pytest.MonkeyPatch
) -> None:
    large_appends(table, 2)
    copy = parquet_copies.copy_row_groups

    def on_bad_memory(fs: Any, sources: Any, path: str) -> tuple[int, int]:
        copied = copy(fs, sources, path)
        data = bytearray(Path(path).read_bytes())
        data[1000] ^= 1
        Path(path).write_bytes(data)
        return copied

    monkeypatch.setattr(
        "lakewright.storage.operations.rewrite.copied_parts.copy_row_groups", on_bad_memory
    )
    with pytest.raises(VerificationFailed, match="checksum"):
        table.upkeep.run(table.upkeep.plan_compact(full=True), verify=VerifyLevel.FULL)
    assert_only_reachable_files(table)


def test_files_with_bloom_filters_are_joined_without_them(tmp_path: Path) -> None:
    """DuckDB writes Bloom filters of columns that it encodes by a dictionary."""
    files, paths = LocalFiles(), [str(tmp_path / f"{number}.parquet") for number in range(3)]
    for path in paths[:2]:
        duckdb.sql("SELECT i % 7 AS a FROM range(500) t(i)").write_parquet(path)
        assert pq.read_metadata(path).row_group(0).column(0).to_dict()["bloom_filter_offset"]
    footers = [
        parquet_copies.read_footer_to_copy(files, path, Path(path).stat().st_size)
        for path in paths[:2]
    ]
    parquet_copies.copy_row_groups(files, list(zip(paths, footers, strict=False)), paths[2])
    assert parquet_copies.first_difference(files, paths[:2], paths[2]) is None
    assert pq.read_table(paths[2]).num_rows == 1000
    assert duckdb.sql(f"SELECT count(*) FROM '{paths[2]}' WHERE a = 3").fetchall() == [(142,)]
