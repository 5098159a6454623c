"""What a task holds in memory follows from what rows weigh, not from how many there are."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pyarrow as pa
import pytest

from lakewright.storage import Catalog
from lakewright.storage.operations.running.task_memory import (
    BATCH_BYTES,
    TASK_MEMORY_BYTES,
    detached,
    files_of_a_task,
    free_memory,
    slices,
)
from lakewright.storage.operations.write.write import stage_rows
from tests.support.tables.builders import EVENTS, new_table
from tests.support.tables.environment import FixedEnv

pytestmark = pytest.mark.mission("FS16")

_MIB = 2**20
# Rows of 20 kB, of which files hold next to nothing since they repeat each other.
_WIDE = """
import sys
import numpy as np
import pyarrow as pa
from lakewright.storage import Catalog, Column, SchemaSpec, parse_data_type
texts = pa.array([str(n) * 20_000 for n in range(10)])
def wide(first, count):
    ids = np.arange(first, first + count)
    return pa.table({"id": ids, "v": texts.take(pa.array(ids % 10))})
columns = (Column("id", parse_data_type("BIGINT NOT NULL")), Column("v", parse_data_type("STRING")))
catalog = Catalog.open(sys.argv[1])
"""


def peak_bytes(warehouse: Path, work: str) -> int:
    """The most that Arrow held at once in a process that does some work."""
    told = "\nprint(pa.default_memory_pool().max_memory())"
    ran = subprocess.run(
        [sys.executable, "-c", _WIDE + work + told, str(warehouse)],
        capture_output=True,
        text=True,
        check=True,
    )
    return int(ran.stdout)


def write_wide(warehouse: Path, schema: str) -> None:
    """A table with 600 MB of rows, in two commits."""
    peak_bytes(
        warehouse,
        f"""
table = catalog.create_table("db.t", SchemaSpec(columns=columns, {schema}))
for first in (0, 15_000):
    table.write(wide(first + n, 1_000) for n in range(0, 15_000, 1_000))
""",
    )


@pytest.mark.deep
def test_compacting_wide_rows_of_an_append_table_takes_no_more_than_its_share(
    tmp_path: Path,
) -> None:
    write_wide(tmp_path, "")
    peak = peak_bytes(
        tmp_path,
        """
table = catalog.table("db.t")
assert table.upkeep.run(table.upkeep.plan_compact(full=True)).rows_after == 30_000
""",
    )
    assert peak < TASK_MEMORY_BYTES // 2


@pytest.mark.deep
def test_a_rescale_into_many_buckets_shares_one_limit(tmp_path: Path) -> None:
    write_wide(tmp_path, 'primary_keys=("id",), options={"bucket": "1"}')
    peak = peak_bytes(
        tmp_path,
        """
table = catalog.table("db.t")
assert table.upkeep.run(table.upkeep.plan_rescale(32)).rows_after == 30_000
""",
    )
    assert peak < TASK_MEMORY_BYTES * 3 // 4


def test_wide_rows_are_read_in_small_batches(catalog: Catalog) -> None:
    table = new_table(catalog, {"id": "BIGINT", "v": "STRING"})
    texts = pa.array([str(n) * 20_000 for n in range(10)])
    for first in (0, 4_000):
        ids = np.arange(first, first + 4_000)
        table.write(pa.table({"id": ids, "v": texts.take(pa.array(ids % 10))}))
    batches = [(rows.num_rows, rows.nbytes) for rows in table.scan().batches()]
    assert sum(count for count, _ in batches) == 8_000
    assert max(size for _, size in batches) <= BATCH_BYTES


@pytest.mark.sampled(1)
@pytest.mark.parametrize("keyed", [False, True])
def test_a_partition_of_few_rows_does_not_keep_those_of_the_others(
    catalog: Catalog, keyed: bool
) -> None:
    table = new_table(
        catalog,
        EVENTS,
        partitions=["day"],
        keys=["id", "day"] if keyed else [],
        options={"target-file-size": "1 mb", "bucket": "1" if keyed else "-1"},
    )
    before = pa.total_allocated_bytes()
    held = []

    def batches() -> Iterator[pa.Table]:
        for first in range(0, 40_000, 1_000):
            ids = np.arange(first, first + 1_000)
            days = pa.array(["all"] * 995 + ["few"] * 5)
            yield pa.table({"id": ids, "day": days, "v": pa.array([f"{n:08}" * 1250 for n in ids])})
            held.append(pa.total_allocated_bytes() - before)

    table.write(batches())
    # Rows with keys are gathered until a task may hold no more, which 400 MB are not below.
    limit = TASK_MEMORY_BYTES // 2 + 40 * _MIB if keyed else 40 * _MIB
    assert max(held) < limit
    assert sum(rows.num_rows for rows in table.scan().batches()) == 40_000


def test_tables_are_cut_by_what_rows_weigh_and_not_by_their_number() -> None:
    texts = ["x"] * 1_000 + ["y" * 10_000] * 100
    rows = pa.table({"v": pa.array(texts)})
    parts = list(slices(rows, 50_000))
    assert [text for part in parts for text in part.column("v").to_pylist()] == texts
    assert max(part.nbytes for part in parts) <= 50_000
    assert max(part.num_rows for part in parts) > 500


def test_a_row_that_is_too_large_is_a_part_of_its_own() -> None:
    rows = pa.table({"v": pa.array(["y" * 1_000] * 3)})
    assert [part.num_rows for part in slices(rows, 10)] == [1, 1, 1]


def test_rows_of_a_dictionary_weigh_what_they_are_without_it() -> None:
    values = pa.array(["y" * 10_000, "z" * 10_000]).dictionary_encode()
    rows = pa.table({"v": values.take(pa.array([0, 1] * 500))})
    parts = list(slices(rows, 1_000_000))
    assert 10 <= len(parts) <= 32


def test_a_small_part_lets_go_of_its_table_and_a_large_one_is_not_copied() -> None:
    rows = pa.table({"v": pa.array(["y" * 1_000] * 1_000)})
    small = detached(rows.slice(10, 5))
    assert small.get_total_buffer_size() < 10_000
    assert small.equals(rows.slice(10, 5))
    assert detached(rows.slice(100)).get_total_buffer_size() == rows.get_total_buffer_size()


class Heap:
    """A writer that has gathered some bytes."""

    open_file_bytes = None

    def __init__(self, size: int) -> None:
        self.buffered_bytes = size

    def flush(self) -> None:
        self.buffered_bytes = 0


def test_the_fullest_writers_are_flushed_until_half_is_free() -> None:
    heaps = [Heap(size) for size in (1, 40, 5, 60, 3)]
    free_memory(FixedEnv(), heaps, 109)
    assert [heap.buffered_bytes for heap in heaps] == [1, 40, 5, 60, 3]
    free_memory(FixedEnv(), heaps, 100)
    assert [heap.buffered_bytes for heap in heaps] == [1, 40, 5, 0, 3]


def test_cores_that_have_nothing_else_to_do_flush_writers_too() -> None:
    class ThreeCores(FixedEnv):
        def cores(self) -> int:
            return 3

    heaps = [Heap(size) for size in (1, 40, 5, 60, 3)]
    free_memory(ThreeCores(), heaps, 100)
    assert [heap.buffered_bytes for heap in heaps] == [1, 0, 0, 0, 3]


class ManyCores(FixedEnv):
    def cores(self) -> int:
        return 64


def test_a_writer_that_is_alone_finishes_no_file_early_however_many_cores_there_are(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(free_memory, "__defaults__", (20_000,))
    catalog = Catalog.open(str(tmp_path), env=ManyCores())
    table = new_table(catalog, {"id": "INT", "p": "INT"}, partitions=["p"])
    ids = [pa.array(range(start, start + 1000), pa.int32()) for start in range(0, 20_000, 1000)]
    batches = [pa.table({"id": each, "p": [n % 40 for n in each.to_pylist()]}) for each in ids]
    table.commit(stage_rows(table.prepare_write(mode="append"), batches))
    assert len(table.at().files()) == 40
    assert table.read().num_rows == 20_000


@pytest.mark.parametrize(("cores", "most"), [(1, 512), (16, 32), (32, 16), (64, 8), (1000, 4)])
def test_tasks_of_machines_with_many_cores_may_still_read_several_files(
    cores: int, most: int
) -> None:
    class Cores(FixedEnv):
        def cores(self) -> int:
            return cores

    assert files_of_a_task(Cores()) == most
