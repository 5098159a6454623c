"""A bucket of any number of files is read and compacted with few of them open at once."""

from __future__ import annotations

import random
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pytest

from lakewright.storage import Catalog, Table
from lakewright.storage.errors import CorruptionError
from lakewright.storage.operations.read.file_rows import FileRows
from lakewright.storage.operations.read.merge_read import key_windows, merged_rows, merged_windows
from lakewright.storage.operations.read.scan import DataSplit
from lakewright.storage.operations.running.task_memory import MergeMemory, free_memory
from tests.support.stores.open_files import at_most_more_open, open_below
from tests.support.tables.builders import compact, content, new_table, rows, spec, write_as_files
from tests.support.tables.environment import FixedEnv

COLUMNS = {"id": "INT", "g": "INT", "v": "STRING", "n": "BIGINT"}
RUNS = 90
# Less than half of the runs, and room for what else a verb has open.
LIMIT = 40

ENGINES = {
    "deduplicate": {},
    "by a sequence field": {"sequence.field": "g"},
    "partial-update": {"merge-engine": "partial-update", "fields.g.sequence-group": "v,n"},
    "aggregation": {
        "merge-engine": "aggregation",
        "fields.n.aggregate-function": "sum",
        "fields.v.aggregate-function": "listagg",
        "fields.v.ignore-retract": "true",
        "fields.g.aggregate-function": "max",
        "fields.g.ignore-retract": "true",
    },
    "first-row": {"merge-engine": "first-row"},
}
RETRACTING = {"deduplicate", "by a sequence field", "aggregation"}
# A run may hold anything, so each memory makes other passes.
SMALL = [
    MergeMemory(2_000, 0, streams=2),
    MergeMemory(5_000, 60_000, streams=4),
    MergeMemory(5_000, 400_000, streams=2),
]
LARGE = MergeMemory(1 << 30, 1 << 30)


def keyed(catalog: Catalog, **options: str) -> Table:
    return new_table(catalog, COLUMNS, keys=["id"], options={"bucket": "1", **options})


def drawn(chance: random.Random, number: int, *, count: int = 12) -> list[dict[str, Any]]:
    ids = chance.sample(range(60), count)
    return [
        {"id": each, "g": chance.randrange(9), "v": f"{number}-{each}", "n": chance.randrange(99)}
        for each in ids
    ]


def fill(table: Table, *, runs: int = RUNS, kinds: str = "+I") -> None:
    """So many files in each bucket, of rows that override each other; the first has all keys."""
    chance = random.Random(7)
    batches = []
    for number in range(runs):
        new = drawn(chance, number, count=60 if number == 0 else 12)
        batches.append(rows(table, new, [chance.choice(kinds.split()) for _ in new]))
    write_as_files(table, batches[: runs // 2])
    write_as_files(table, batches[runs // 2 :])


def merged_split(table: Table) -> DataSplit:
    first = table.at().files()[0]
    metas = tuple(entry.file for entry in table.at().files())
    return DataSplit(partition=first.partition, bucket=0, files=metas, merge=True)


@pytest.mark.mission("FS16")
@pytest.mark.parametrize("engine", ENGINES)
@pytest.mark.sampled(1)
def test_rows_merged_in_passes_are_those_merged_at_once(catalog: Catalog, engine: str) -> None:
    table = keyed(catalog, **ENGINES[engine])
    fill(table, runs=14, kinds="+I +I +U -D" if engine in RETRACTING else "+I")
    split = merged_split(table)
    source = FileRows(table.table_files, table.schema.fields)

    def merged(memory: MergeMemory) -> list[list[dict[str, Any]]]:
        read = merged_rows(source, split, table.schema.field_names, memory=memory)
        return [
            pa.concat_tables(merged_windows(source, split, memory=memory)).to_pylist(),
            sorted(pa.concat_tables(read).to_pylist(), key=lambda row: row["id"]),
        ]

    def places(memory: MergeMemory) -> list[list[int]]:
        windows = list(key_windows(source, split, memory=memory))
        named = ("origins", "positions")
        return [
            np.concatenate([getattr(each, name) for each in windows]).tolist() for name in named
        ]

    expected, lying = merged(LARGE), places(LARGE)
    for memory in SMALL:
        assert merged(memory) == expected
        assert places(memory) == lying


@pytest.mark.mission("FS16")
def test_rows_that_are_counted_are_counted_alike_in_passes(catalog: Catalog) -> None:
    table = new_table(catalog, COLUMNS, options={"bucket": "1", "merge-engine": "value-count"})
    row = {"id": 1, "g": 1, "v": "a", "n": 1}
    for _ in range(20):
        table.write(rows(table, [row, row, {**row, "id": 2}]))
    table.write(rows(table, [row] * 3, ["-D"] * 3))
    source, split = FileRows(table.table_files, table.schema.fields), merged_split(table)
    for memory in (LARGE, *SMALL):
        read = pa.concat_tables(merged_rows(source, split, ["id"], memory=memory))
        assert sorted(read.column("id").to_pylist()) == [1] * 37 + [2] * 20


def compacted(table: Table) -> None:
    assert compact(table, full=True).files_before >= RUNS


def looked_up(table: Table) -> None:
    found = table.lookup(pa.table({"id": pa.array([3, 59, 999], pa.int32())}))
    assert found.num_rows == 2


def compared(table: Table) -> None:
    last = table.history.latest_snapshot()
    assert last is not None
    assert table.read_changes(1, last.id, mode="diff").num_rows >= 60


def read(table: Table) -> None:
    assert table.read().num_rows == sum(rows.num_rows for rows in table.scan().batches())


VERBS: list[Callable[[Table], None]] = [
    read,
    compacted,
    looked_up,
    compared,
    lambda table: table.upkeep.run(table.upkeep.plan_analyze()) and None,
    lambda table: table.inspect.table("files") and None,
    lambda table: table.upkeep.run(table.upkeep.plan_remove_orphans()) and None,
]
NAMES = ["read", "compact", "lookup", "diff", "analyze", "files", "orphans"]


@pytest.mark.mission("FS16")
@pytest.mark.parametrize("verb", VERBS, ids=NAMES)
@pytest.mark.sampled(1)
def test_a_bucket_with_more_runs_than_files_may_be_open(
    catalog: Catalog, verb: Callable[[Table], None]
) -> None:
    table = keyed(catalog)
    fill(table)
    expected = content(table)
    with at_most_more_open(LIMIT):
        verb(table)
        assert content(table) == expected
        assert open_below(Path(table.table_files.paths.root)) == []


@pytest.mark.deep
@pytest.mark.mission("FS16")
def test_ten_thousand_runs_of_a_bucket_are_read_and_compacted(catalog: Catalog) -> None:
    table = keyed(catalog)
    fill(table, runs=10_000)
    with at_most_more_open(240):
        expected = content(table)
        assert len(expected) == 60
        assert compact(table, full=True).files_after == 1
        assert content(table) == expected


@pytest.mark.deep
@pytest.mark.mission("FS16")
def test_a_rescale_between_one_bucket_and_more_than_files_may_be_open(catalog: Catalog) -> None:
    table = keyed(catalog)
    fill(table)
    expected = content(table)
    for count in (RUNS, 1):
        with at_most_more_open(LIMIT):
            table.upkeep.run(table.upkeep.plan_rescale(count))
            table = catalog.table("db.t")
            # One state of many buckets beside one of another number.
            compared(table)
            assert content(table) == expected


@pytest.mark.mission("FS16")
@pytest.mark.parametrize("producer", ["input", "lookup", "full-compaction"])
@pytest.mark.sampled(1)
def test_changelogs_are_told_of_more_runs_than_files_may_be_open(
    catalog: Catalog, producer: str
) -> None:
    table = keyed(catalog, **{"changelog-producer": producer})
    fill(table, kinds="+I +I +U -D")
    expected = content(table)
    with at_most_more_open(LIMIT):
        compacted(table)
        last = table.history.latest_snapshot()
        assert last is not None
        assert table.read_changes(0, last.id, mode="changelog").num_rows > 0
        assert content(table) == expected


@pytest.mark.deep
@pytest.mark.mission("FS16")
def test_deletion_vectors_are_made_of_more_runs_than_files_may_be_open(catalog: Catalog) -> None:
    table = keyed(catalog, **{"deletion-vectors.enabled": "true"})
    fill(table, kinds="+I +I +U -D")
    with at_most_more_open(LIMIT):
        compacted(table)
        found = content(table)
    plain = new_table(catalog, COLUMNS, name="db.plain", keys=["id"], options={"bucket": "1"})
    fill(plain, kinds="+I +I +U -D")
    assert found == content(plain)


@pytest.mark.mission("FS16")
@pytest.mark.parametrize("verb", ["compact", "sort", "diff"])
@pytest.mark.sampled(1)
def test_an_append_table_with_more_files_than_may_be_open(catalog: Catalog, verb: str) -> None:
    table = new_table(catalog, COLUMNS)
    fill(table)
    expected = content(table)
    with at_most_more_open(LIMIT):
        if verb == "compact":
            assert compact(table, full=True).files_before == RUNS
        elif verb == "sort":
            table.upkeep.run(table.upkeep.plan_sort_compact(["id"], order="hilbert"))
        else:
            compared(table)
        assert content(table) == expected


@pytest.mark.deep
@pytest.mark.mission("FS16")
def test_rows_that_wait_for_a_bucket_in_more_files_than_may_be_open(catalog: Catalog) -> None:
    table = keyed(catalog, bucket="-2")
    fill(table)
    with at_most_more_open(LIMIT):
        table.upkeep.run(table.upkeep.plan_postpone_compact())
        found = content(table)
    plain = new_table(catalog, COLUMNS, name="db.plain", keys=["id"], options={"bucket": "1"})
    fill(plain)
    assert found == content(plain)


class Heap:
    """A writer whose file stays open when its rows are flushed."""

    def __init__(self) -> None:
        self.buffered_bytes = 10
        self.open_file_bytes: int | None = None
        self.ended = 0

    def flush(self) -> None:
        self.open_file_bytes = (self.open_file_bytes or 0) + self.buffered_bytes
        self.buffered_bytes = 0

    def end_file(self) -> None:
        self.flush()
        self.open_file_bytes, self.ended = None, self.ended + 1


def test_a_write_into_many_partitions_keeps_few_files_open() -> None:
    heaps = [Heap() for _ in range(2000)]
    free_memory(FixedEnv(), heaps, 10_000)
    assert sum(heap.open_file_bytes is not None for heap in heaps) <= 128
    assert sum(heap.buffered_bytes for heap in heaps) <= 10_000
    # What was finished is what memory was wanted of, and once.
    assert {heap.ended for heap in heaps} <= {0, 1}


@pytest.mark.mission("FS16")
def test_a_file_that_is_finished_early_loses_no_row(
    catalog: Catalog, monkeypatch: pytest.MonkeyPatch
) -> None:
    # Of so little memory every row is more than there is room for.
    monkeypatch.setattr(free_memory, "__defaults__", (1,))
    table = new_table(catalog, COLUMNS, partitions=["n"])
    expected = [{"id": each, "g": 0, "v": "a", "n": each % 200} for each in range(600)]
    with at_most_more_open(150):
        table.write(rows(table, expected))
    found = table.read().select(list(COLUMNS)).to_pylist()
    assert sorted(found, key=lambda row: row["id"]) == expected


# --- what stops halfway -------------------------------------------------------------------------


@pytest.mark.sampled(1)
@pytest.mark.mission("FS16")
@pytest.mark.parametrize("held", [0, 1 << 26])
def test_a_read_that_fails_has_closed_its_files(tmp_path: Path, held: int) -> None:
    table = Catalog.open(str(tmp_path)).create_table(
        "db.t", spec(COLUMNS, keys=["id"], options={"bucket": "1"})
    )
    fill(table, runs=12)
    split = merged_split(table)
    folder = Path(table.table_files.paths.root) / "bucket-0"
    (folder / split.files[6].file_name).write_bytes(b"PAR1 but not quite PAR1")
    source = FileRows(table.table_files, table.schema.fields)
    memory = MergeMemory(1_000, held)
    with at_most_more_open(LIMIT), pytest.raises(CorruptionError) as caught:
        pa.concat_tables(merged_windows(source, split, memory=memory))
    # As long as the error is referenced, what it refers to is not collected.
    assert open_below(Path(table.table_files.paths.root)) == []
    assert caught.value is not None


@pytest.mark.mission("FS16")
def test_a_read_that_nobody_goes_on_with_has_closed_its_files(tmp_path: Path) -> None:
    table = Catalog.open(str(tmp_path)).create_table(
        "db.t", spec(COLUMNS, keys=["id"], options={"bucket": "1"})
    )
    fill(table, runs=12)
    source, split = FileRows(table.table_files, table.schema.fields), merged_split(table)
    reading = merged_windows(source, split, memory=MergeMemory(1_000, 0))
    assert next(reading).num_rows > 0
    assert len(open_below(Path(table.table_files.paths.root))) > 2
    reading.close()
    assert open_below(Path(table.table_files.paths.root)) == []
