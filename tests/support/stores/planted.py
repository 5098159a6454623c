"""Plants faults between a merge and the store, to test the checks that must find them.

Faults change rows in memory during a rewrite, or files on the store after their close. Each fault
changes nothing else.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq

from lakewright.storage import Table
from lakewright.storage.env import FileSystem
from lakewright.storage.files.table_files import TableFiles
from lakewright.storage.operations.read.file_rows import FileRows
from lakewright.storage.operations.rewrite.compact import BucketWork, rewrite_buckets
from lakewright.storage.operations.rewrite.compact_append import (
    AppendPart,
    AppendTask,
    split_of,
    write_append,
)
from lakewright.storage.operations.rewrite.compact_levels import LevelsRewriting
from lakewright.storage.operations.rewrite.give_buckets import BucketSorting, Move
from lakewright.storage.operations.rewrite.move_rows import Share, ShareMove
from lakewright.storage.operations.rewrite.runner import Job
from lakewright.storage.operations.running.engine import Engine, LocalEngine, Result, Task
from lakewright.storage.operations.write.rolling_writer import BucketTarget, RollingWriter
from lakewright.storage.operations.write.verify import Proof, VerifyLevel
from lakewright.storage.spec.commit import CommitMessage
from lakewright.storage.spec.manifest import DataFileMeta
from tests.support.stores.watched_files import Call, WatchedFiles, over

# --- rows that change in memory -----------------------------------------------------------------

ChangeRows = Callable[[pa.Table], pa.Table]


def lost(rows: pa.Table) -> pa.Table:
    """Without the first row."""
    return rows.slice(1)


def doubled(rows: pa.Table) -> pa.Table:
    """The first row twice."""
    return pa.concat_tables([rows.slice(0, 1), rows])


def lost_and_doubled(rows: pa.Table) -> pa.Table:
    """The first row in the place of the second."""
    return pa.concat_tables([rows.slice(0, 1), rows.slice(0, 1), rows.slice(2)])


def changed(rows: pa.Table) -> pa.Table:
    """Another text in the first row."""
    return _with_texts(rows, ["other", *rows.column("v").to_pylist()[1:]])


def swapped(rows: pa.Table) -> pa.Table:
    """The first two rows have each other's text."""
    first, second, *rest = rows.column("v").to_pylist()
    return _with_texts(rows, [second, first, *rest])


def nulled(rows: pa.Table) -> pa.Table:
    """No text in the first row."""
    return _with_texts(rows, [None, *rows.column("v").to_pylist()[1:]])


def _with_texts(rows: pa.Table, texts: Sequence[str | None]) -> pa.Table:
    place = rows.column_names.index("v")
    return rows.set_column(place, rows.schema.field(place), pa.array(texts, pa.string()))


ROW_FAULTS: dict[str, ChangeRows] = {
    "a lost row": lost,
    "a doubled row": doubled,
    "a row in the place of another": lost_and_doubled,
    "a changed value": changed,
    "values swapped between rows": swapped,
    "a value become null": nulled,
}


class Once:
    """Changes the first batch that has enough rows, and no other."""

    def __init__(self, change: ChangeRows) -> None:
        self._change = change
        self.done = False

    def __call__(self, rows: pa.Table) -> pa.Table:
        if self.done or rows.num_rows < 3:
            return rows
        self.done = True
        return self._change(rows)


class FaultyWriter(RollingWriter):
    """Changes rows before it writes them."""

    fault: ChangeRows | None = None

    def write(self, rows: pa.Table) -> None:
        super().write(rows if self.fault is None else self.fault(rows))


class FaultyLevels(LevelsRewriting):
    """A rewrite of a primary-key bucket whose rows change on the way to data or changelog."""

    def __init__(self, *given: Any, fault: ChangeRows, in_changelog: bool) -> None:
        self._fault, self._in_changelog = fault, in_changelog
        super().__init__(*given)

    def open_writer(self, target: BucketTarget, proof: Proof) -> RollingWriter:
        witness = proof.witness()
        writer = FaultyWriter(self.files, target, write_id=self.write_id, witness=witness)
        if target.changelog is self._in_changelog:
            writer.fault = self._fault
        return writer


def compact_levels(
    table: Table,
    fault: ChangeRows,
    level: VerifyLevel,
    *,
    in_changelog: bool = False,
    engine: Engine | None = None,
) -> object:
    """A full compaction of primary-key buckets that changes rows on the way."""

    def rewrite(files: TableFiles, write_id: str, work: BucketWork) -> tuple[CommitMessage, ...]:
        assert not isinstance(work, AppendTask)
        rewriting = FaultyLevels(
            files, write_id, work, level, fault=fault, in_changelog=in_changelog
        )
        return (rewriting.carry_out(),)

    plan = table.upkeep.plan_compact(full=True)
    assert plan.tasks
    return rewrite_buckets(
        table.table_files, plan, engine or LocalEngine(env=table.table_files.env), rewrite
    )


def compact_append(
    table: Table, fault: ChangeRows, level: VerifyLevel, *, ordered: bool = True
) -> object:
    """A compaction of append buckets that changes rows on the way, or also their order."""

    def rewrite(files: TableFiles, write_id: str, work: BucketWork) -> tuple[CommitMessage, ...]:
        assert isinstance(work, AppendTask)
        source, split = FileRows(files, files.schema.fields), split_of(work)
        proof = Proof(files, level, ordered=ordered)
        read = (rows for file in work.files for rows in source.batches(split, file))
        rows = pa.concat_tables(proof.expected(read))
        if not ordered:
            rows = rows.sort_by([("id", "descending")])
        part = AppendPart(work.files, [fault(rows)], proof)
        return (write_append(files, write_id, work, [part], source.nulled),)

    plan = table.upkeep.plan_compact(full=True)
    assert plan.tasks
    return rewrite_buckets(table.table_files, plan, LocalEngine(env=table.table_files.env), rewrite)


def compact_and_sort(table: Table, fault: ChangeRows, level: VerifyLevel) -> object:
    return compact_append(table, fault, level, ordered=False)


@dataclass(frozen=True)
class FaultyEngine:
    """Replaces the function of each task."""

    do: Callable[[Any], Any]
    name: str = "faulty"
    may_repeat: bool = True

    def map(self, function: Callable[[Task], Result], tasks: Sequence[Task]) -> list[Result]:
        return [self.do(task) for task in tasks]


# Rows of a bucket, possibly of another one.
Deal = Callable[[int, pa.Table], tuple[int, pa.Table]]


class FaultyMove(ShareMove):
    """A move between buckets that changes rows, or gives them to another bucket."""

    def __init__(self, *given: Any, deal: Deal, **named: Any) -> None:
        super().__init__(*given, **named)
        self._deal = deal

    def by_bucket(self, rows: pa.Table) -> Iterator[tuple[int, pa.Table]]:
        for bucket, part in super().by_bucket(rows):
            yield self._deal(bucket, part)


def rescale(table: Table, deal: Deal, level: VerifyLevel) -> object:
    """A rescale to three buckets that assigns rows to wrong buckets."""
    # A rescale of named partitions keeps the table's option, so a retry finds the same state.
    plan = table.upkeep.plan_rescale(3, [{}])
    assert plan.tasks

    def move(job: Job[Share]) -> object:
        write_id = f"{job.run_id}-faulty"
        return FaultyMove(table.table_files, write_id, job.work, level, deal=deal).carry_out()

    return table.upkeep.run(plan, FaultyEngine(move))


class FaultySorting(BucketSorting):
    """Changes postponed rows, or their bucket, during their assignment."""

    def __init__(self, *given: Any, deal: Deal) -> None:
        super().__init__(*given)
        self._deal = deal

    def give(self, bucket: int, rows: pa.Table) -> None:
        super().give(*self._deal(bucket, rows))


def settle(table: Table, deal: Deal, level: VerifyLevel) -> object:
    """Assign postponed rows to buckets with a fault."""
    plan = table.upkeep.plan_postpone_compact()
    assert plan.tasks

    def sort(job: Job[Move]) -> object:
        write_id = f"{job.run_id}-faulty"
        return FaultySorting(table.table_files, write_id, job.work, level, deal=deal).carry_out()

    return table.upkeep.run(plan, FaultyEngine(sort))


# --- files that change on the store -------------------------------------------------------------

ChangeBytes = Callable[[bytes], bytes]


@dataclass
class Damage:
    """A hook: the first data file that is closed is another one right after."""

    files: FileSystem
    change: ChangeBytes
    done: bool = False
    before: int = 0
    after: int = 0

    def __call__(self, call: Call) -> None:
        if not self.done and call.name == "close" and call.path.endswith(".parquet"):
            self.done = True
            data = self.files.read_bytes(call.path)
            other = self.change(data)
            assert other != data
            self.before, self.after = len(data), len(other)
            self.files.delete(call.path)
            self.files.write_bytes(call.path, other)


def damaged(table: Table, damage: ChangeBytes) -> tuple[Table, Damage]:
    """The same table, on a store that spoils a file."""
    hook = Damage(table.table_files.fs, damage)
    return over(table, WatchedFiles(table.table_files.fs, after=hook)), hook


def cut_short(data: bytes) -> bytes:
    """Without the last half."""
    return data[: len(data) // 2]


def cut_in_the_middle(data: bytes) -> bytes:
    """Some bytes of a column are missing; the footer is there."""
    return data[:60] + data[70:]


def flipped(data: bytes) -> bytes:
    """One bit of the first column."""
    place = len(data) // 4
    return data[:place] + bytes([data[place] ^ 1]) + data[place + 1 :]


def rewritten(change: ChangeRows) -> ChangeBytes:
    """The file as its writer would have written other rows, without compression."""

    def damage(data: bytes) -> bytes:
        old = pq.ParquetFile(pa.BufferReader(data))
        column = old.metadata.row_group(0).column(0)
        sink = pa.BufferOutputStream()
        with pq.ParquetWriter(
            sink,
            old.schema_arrow,
            compression="none",
            write_page_checksum=True,
            store_decimal_as_integer=True,
            use_dictionary=column.has_dictionary_page,
        ) as writer:
            writer.write_table(change(old.read()))
        return bytes(sink.getvalue())

    return damage


def other_number(rows: pa.Table) -> pa.Table:
    """Another number in the middle, within the bounds of its column."""
    place, values = rows.column_names.index("n"), rows.column("n").to_numpy().copy()
    values[rows.num_rows // 2] ^= 1
    return rows.set_column(place, rows.schema.field(place), pa.array(values))


def other_key(rows: pa.Table) -> pa.Table:
    """The greatest key is greater by one."""
    for name in ("_KEY_id", "id"):
        place, values = rows.column_names.index(name), rows.column(name).to_numpy().copy()
        values[-1] += 1
        rows = rows.set_column(place, rows.schema.field(place), pa.array(values))
    return rows


def untouched(table: Table) -> tuple[int, str, list[DataFileMeta]]:
    """The state that a refused rewrite must leave unchanged."""
    snapshot = table.history.latest_snapshot()
    assert snapshot is not None
    files = [entry.file for entry in table.at().files()]
    rows = table.read().select(["id", "v"])
    text = str(rows.sort_by([("id", "ascending"), ("v", "ascending")]).to_pydict())
    return snapshot.id, text, files
