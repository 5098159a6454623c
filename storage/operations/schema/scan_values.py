"""Counts, in the rows of data files, the values that a cast loses and the nulls of columns.

1. Each task reads the columns in question of some files, batch by batch, as they were written.
2. Rows that a deletion vector names are left out, and rows that delete or take back another. Other
   rows of key-value files count before merging.
3. Of nested columns the values at the end of the path are counted, and nulls only where the row or
   the array around them is there.
"""

from __future__ import annotations

from collections.abc import Hashable, Iterator, Sequence
from dataclasses import dataclass

import pyarrow as pa
import pyarrow.compute as pc

from lakewright.storage.codec.cast_survival import lost_values
from lakewright.storage.files.table_files import TableFiles
from lakewright.storage.operations.read.file_rows import FileRows
from lakewright.storage.operations.read.scan import DataSplit
from lakewright.storage.operations.running.engine import Engine
from lakewright.storage.operations.schema.part_values import null_count, values_of
from lakewright.storage.operations.schema.stored_files import StoredFile
from lakewright.storage.spec.changed_parts import ChangedPart
from lakewright.storage.spec.rows import RowKind
from lakewright.storage.spec.schema import VALUE_KIND

_TASKS = 64
_STAYING_KINDS = (RowKind.INSERT, RowKind.UPDATE_AFTER)
_EXAMPLES = 3
_MOST_SHOWN = 40


@dataclass(frozen=True, slots=True, kw_only=True)
class Question:
    """How many values of a file's part a change loses, or how many nulls it refuses."""

    stored: StoredFile
    part: ChangedPart
    of_nulls: bool

    @property
    def key(self) -> Hashable:
        """What the answer depends on: the file with its deletion vector, and the part."""
        return self.stored.file.file_name, self.stored.deletions, self.part, self.of_nulls


@dataclass(frozen=True, slots=True)
class Count:
    """How many values, and some of them as text."""

    lost: int = 0
    examples: tuple[str, ...] = ()

    def plus(self, other: Count) -> Count:
        examples = tuple(dict.fromkeys((*self.examples, *other.examples)))
        return Count(self.lost + other.lost, examples[:_EXAMPLES])


def scanned(questions: Sequence[Question], engine: Engine) -> list[Count]:
    """The answers in the order of the questions; each file is read once."""
    by_file: dict[str, list[int]] = {}
    for number, question in enumerate(questions):
        by_file.setdefault(question.stored.file.file_name, []).append(number)
    tasks: list[list[int]] = [[] for _ in range(min(_TASKS, len(by_file)))]
    sizes = [0] * len(tasks)
    largest_first = sorted(by_file.values(), key=lambda each: -_size(questions[each[0]]))
    for numbers in largest_first:
        smallest = sizes.index(min(sizes))
        tasks[smallest] += numbers
        sizes[smallest] += _size(questions[numbers[0]])
    asked = [tuple(questions[number] for number in numbers) for numbers in tasks]
    answers = [Count()] * len(questions)
    for numbers, found in zip(tasks, engine.map(count_lost, asked), strict=True):
        for number, count in zip(numbers, found, strict=True):
            answers[number] = count
    return answers


def _size(question: Question) -> int:
    return question.stored.file.file_size


def count_lost(questions: Sequence[Question]) -> list[Count]:
    """The answers of one task."""
    counts = [Count()] * len(questions)
    branches: dict[str, TableFiles] = {}
    by_file: dict[str, list[int]] = {}
    for number, question in enumerate(questions):
        by_file.setdefault(question.stored.file.file_name, []).append(number)
    for numbers in by_file.values():
        names = {questions[number].part.steps[0] for number in numbers}
        stored = questions[numbers[0]].stored
        seen = branches.setdefault(stored.seen.paths.branch, stored.seen.reading_once())
        for rows in _batches(seen, stored, names):
            for number in numbers:
                found = _count(rows, questions[number])
                counts[number] = counts[number].plus(found)
    return counts


def _batches(seen: TableFiles, stored: StoredFile, names: set[str]) -> Iterator[pa.Table]:
    """Rows of a file under the schema that it was written with."""
    entry = stored.entry
    files = seen.at_schema(entry.file.schema_id)
    fields = [field for field in files.schema.fields if field.name in names]
    deletions = () if stored.deletions is None else (stored.deletions,)
    split = DataSplit(
        partition=entry.partition,
        bucket=entry.bucket,
        files=(entry.file,),
        merge=False,
        deletions=deletions,
    )
    read = FileRows(files, fields)
    if not files.schema.is_keyed:
        yield from read.batches(split, entry.file)
        return
    staying = pa.array(_STAYING_KINDS, pa.int8())
    batch_rows = read.batch_rows(split, entry.file)
    for rows in read.key_value_rows(split, entry.file, batch_rows=batch_rows, system=(VALUE_KIND,)):
        stays = pc.is_in(rows.column(VALUE_KIND), staying)
        yield rows.filter(stays).select([field.name for field in fields])


def _count(rows: pa.Table, question: Question) -> Count:
    part = question.part
    count = Count()
    for values in values_of(rows, part):
        nulls = question.of_nulls
        found = Count(null_count(values, part)) if nulls else _count_lost(values, part)
        count = count.plus(found)
    return count


def _count_lost(values: pa.Array, part: ChangedPart) -> Count:
    assert part.cast is not None
    gone = values.filter(lost_values(values, *part.cast))
    first = gone.slice(0, _EXAMPLES).to_pylist()
    return Count(len(gone), tuple(repr(each)[:_MOST_SHOWN] for each in first))
