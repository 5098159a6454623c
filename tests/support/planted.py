"""Faults planted on the way from a merge to the store, for checks that are to find them.

Rows are changed in memory where a rewrite hands them on, files on the store after they were
closed. Each fault leaves everything else as it is.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq

from lakewright.storage import Table
from lakewright.storage.files.table_files import TableFiles
from lakewright.storage.operations.read.file_rows import FileRows
from lakewright.storage.operations.rewrite.compact import BucketWork, run_buckets
from lakewright.storage.operations.rewrite.compact_append import (
    AppendTask,
    Part,
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
from tests.support.faults import WatchedFiles

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
    """Changes the first rows there are enough of, and no others."""

    def __init__(self, change: ChangeRows) -> None:
        self._change = change
        self.done = False

    def __call__(self, rows: pa.Table) -> pa.Table:
        if self.done or rows.num_rows < 3:
            return rows
        self.done = True
        return self._change(rows)


class FaultyWriter(RollingWriter):
    """Changes rows that it was given before it writes them."""

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

    plan = table.plan_compact(full=True)
    assert plan.tasks
    return run_buckets(table.files, plan, engine or LocalEngine(env=table.files.env), rewrite)


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
        return (write_append(files, write_id, work, [Part(work.files, [fault(rows)], proof)]),)

    plan = table.plan_compact(full=True)
    assert plan.tasks
    return run_buckets(table.files, plan, LocalEngine(env=table.files.env), rewrite)


def compact_and_sort(table: Table, fault: ChangeRows, level: VerifyLevel) -> object:
    return compact_append(table, fault, level, ordered=False)


@dataclass(frozen=True)
class FaultyEngine:
    """Does each task in a way of its own."""

    do: Callable[[Any], Any]
    name: str = "faulty"
    may_repeat: bool = True

    def map(self, function: Callable[[Task], Result], tasks: Sequence[Task]) -> list[Result]:
        return [self.do(task) for task in tasks]


# Rows of a bucket, perhaps others than those that belong there.
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
    """A rescale to three buckets that deals rows out wrongly."""
    # With partitions named the table's option stays, so that another try finds it as it was.
    plan = table.plan_rescale(3, [{}])
    assert plan.tasks

    def move(job: Job[Share]) -> object:
        write_id = f"{job.run_id}-faulty"
        return FaultyMove(table.files, write_id, job.work, level, deal=deal).carry_out()

    return table.run_rescale(plan, FaultyEngine(move))


class FaultySorting(BucketSorting):
    """Postponed rows that change, or come to another bucket, while they get theirs."""

    def __init__(self, *given: Any, deal: Deal) -> None:
        super().__init__(*given)
        self._deal = deal

    def give(self, bucket: int, rows: pa.Table) -> None:
        super().give(*self._deal(bucket, rows))


def settle(table: Table, deal: Deal, level: VerifyLevel) -> object:
    """Give postponed rows their buckets, wrongly."""
    plan = table.plan_postpone_compact()
    assert plan.tasks

    def sort(job: Job[Move]) -> object:
        write_id = f"{job.run_id}-faulty"
        return FaultySorting(table.files, write_id, job.work, level, deal=deal).carry_out()

    return table.run_postpone_compact(plan, FaultyEngine(sort))


# --- files that change on the store -------------------------------------------------------------

ChangeBytes = Callable[[bytes], bytes]


@dataclass
class DamagedFiles(WatchedFiles):
    """Implements `FileSystem`; the first data file that is closed is another one right after."""

    damage: ChangeBytes = lambda data: data
    done: bool = False
    before: int = 0
    after: int = 0

    def run(
        self,
        name: str,
        path: str,
        effect: Callable[[], Any],
        half: Callable[[], object] | None = None,
    ) -> Any:
        result = super().run(name, path, effect, half)
        if not self.done and name == "close" and path.endswith(".parquet"):
            self.done = True
            data = self.inner.read_bytes(path)
            other = self.damage(data)
            assert other != data
            self.before, self.after = len(data), len(other)
            self.inner.delete(path)
            self.inner.write_bytes(path, other)
        return result


def damaged(table: Table, damage: ChangeBytes) -> tuple[Table, DamagedFiles]:
    """The same table, on a store that spoils a file."""
    fs = DamagedFiles(table.files.fs, damage=damage)
    return Table(replace(table.files, fs=fs)), fs


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
    """What a rewrite that was refused must leave as it was."""
    snapshot = table.latest_snapshot()
    assert snapshot is not None
    files = [entry.file for entry in table.data_files()]
    rows = table.read().select(["id", "v"])
    text = str(rows.sort_by([("id", "ascending"), ("v", "ascending")]).to_pydict())
    return snapshot.id, text, files
