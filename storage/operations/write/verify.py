"""Proves that new files hold the expected rows, before a commit names them.

1. Read the length, the row count and the bounds of keys and sequence numbers of every new file
   from the store. They must equal its metadata; the row count must equal the expected count.
2. Checksum rows after merging, and again when they enter a file, after casts, rolling, sorting,
   spills and moves between buckets. Both checksums must be equal.
3. If the level wants it, read the files back. Their checksum must be equal too.
4. Compare rows of files of an older schema with the mapped rows, member by member, before they
   are rewritten.

Each level includes the checks of the level before.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from enum import Enum
from functools import cached_property
from typing import NoReturn

import numpy as np
import pyarrow as pa

from lakewright.storage.codec.arrow_cast import cast_column
from lakewright.storage.codec.bucket_hash import buckets_of
from lakewright.storage.errors import (
    CorruptionError,
    FileMissing,
    InvalidRequestError,
    VerificationFailed,
)
from lakewright.storage.files.data_file import Reading
from lakewright.storage.files.data_files import Footer, read_footer, read_rows
from lakewright.storage.files.table_files import TableFiles
from lakewright.storage.lsm.checksum import Checksum, OrderedChecksum, Sums, UnorderedChecksum
from lakewright.storage.lsm.record_expiry import RecordExpiry
from lakewright.storage.operations.read.file_rows import FileRows
from lakewright.storage.operations.read.scan import DataSplit
from lakewright.storage.operations.state.keys import key_decoder
from lakewright.storage.operations.write.rolling_writer import BucketTarget
from lakewright.storage.operations.write.stored_rows import stored_schema
from lakewright.storage.spec.data_types import AtomicType, DataField, TypeRoot
from lakewright.storage.spec.manifest import DataFileMeta
from lakewright.storage.spec.partition_words import name_partition
from lakewright.storage.spec.schema import KEY_PREFIX, SEQUENCE_NUMBER
from lakewright.storage.spec.values import from_python

# Key types whose bounds in file footers compare with the bounds of the metadata.
_BOUNDED = {
    TypeRoot.TINYINT,
    TypeRoot.SMALLINT,
    TypeRoot.INT,
    TypeRoot.BIGINT,
    TypeRoot.DATE,
    TypeRoot.CHAR,
    TypeRoot.VARCHAR,
    TypeRoot.BINARY,
    TypeRoot.VARBINARY,
}


class VerifyLevel(Enum):
    """How much is checked of a rewrite before it is published."""

    # Compare row counts, and file footers with metadata.
    COUNTS = "counts"
    # Compare checksums of the merged rows and the written rows.
    CHECKSUMS = "checksums"
    # Read the written files back from the store, and compare checksums.
    FULL = "full"


def verify_level(name: str | VerifyLevel) -> VerifyLevel:
    """The level that a caller names.

    Raises:
        InvalidRequestError: the level does not exist.
    """
    try:
        return VerifyLevel(name)
    except ValueError:
        names = ", ".join(each.value for each in VerifyLevel)
        raise InvalidRequestError(f"verify level {name!r} is not one of {names}") from None


def rows_to_rewrite(
    files: TableFiles, level: VerifyLevel, expiry: RecordExpiry | None = None
) -> FileRows:
    """A reader for the files that a rewrite replaces; it compares stored with mapped values.

    A `Proof` sees only mapped rows, so no checksum would detect an error of the schema mapping.
    """
    is_proved = level is not VerifyLevel.COUNTS
    return FileRows(files, files.schema.fields, proved=is_proved, expiry=expiry)


@dataclass(frozen=True, slots=True)
class ProvenFiles:
    """New files with their bucket, their witness, and their expected row count."""

    target: BucketTarget
    witness: Checksum | None
    files: Sequence[DataFileMeta]
    due: int


class Proof:
    """Compares the rows expected in new files with the rows written to them.

    `ordered` is for rows that one writer writes in the expected order. If rows move between files
    or buckets, one proof covers all files.
    """

    def __init__(
        self, files: TableFiles, level: VerifyLevel = VerifyLevel.CHECKSUMS, *, ordered: bool = True
    ) -> None:
        self._files = files
        self.level = level
        self._ordered = ordered
        self._due = self._checksum()

    @cached_property
    def _stored(self) -> pa.Schema:
        return stored_schema(self._files)

    def expect(self, rows: pa.Table) -> None:
        """Expect these rows in the files; they have at least the columns of data files."""
        if self.level is not VerifyLevel.COUNTS:
            self._due.add(_as_stored(rows, self._stored))

    def expected(self, batches: Iterable[pa.Table]) -> Iterator[pa.Table]:
        """Pass rows through, and expect each batch."""
        for rows in batches:
            self.expect(rows)
            yield rows

    def witness(self) -> Checksum | None:
        """The checksum that one writer of the files adds its rows to."""
        return None if self.level is VerifyLevel.COUNTS else self._checksum()

    def witness_of_bucket(self, target: BucketTarget, total_buckets: int) -> Checksum | None:
        """A checksum for rows that move to a bucket; it also checks each row's bucket."""
        if self.level is VerifyLevel.COUNTS:
            return None
        return _PlacedRows(self._files, self._checksum(), target, total_buckets)

    def check(self, *written: ProvenFiles) -> None:
        """Check that files agree with their metadata and hold exactly the expected rows.

        Raises:
            VerificationFailed: a file or the rows differ.
        """
        for each in written:
            _check_files(self._files, each)
        if self.level is VerifyLevel.COUNTS:
            return
        targets = [each.target for each in written]
        arrived = Sums(0, ())
        for each in written:
            if isinstance(each.witness, _PlacedRows):
                each.witness.check()
            if each.witness is not None:
                arrived = arrived.plus(each.witness.sums())
        self._compare(targets, arrived, "written")
        if self.level is VerifyLevel.FULL:
            read = self._checksum()
            for each in written:
                for rows in self._read_back(each.target, each.files):
                    read.add(rows)
            self._compare(targets, read.sums(), "read back")

    def _checksum(self) -> Checksum:
        if self._ordered:
            return OrderedChecksum()
        every, keys = self._stored.names, self._files.schema.key_names
        return UnorderedChecksum([*([("keys", keys)] if keys else []), ("values", every)])

    def _compare(self, targets: Sequence[BucketTarget], found: Sums, how: str) -> None:
        due = self._due.sums()
        if found.rows == due.rows and not due.differences(found):
            return
        if found.rows != due.rows:
            what, numbers = "rows", (f"{due.rows} rows", f"{found.rows}")
        else:
            names = due.differences(found)
            sums, others = dict(due.parts), dict(found.parts)
            what = ", ".join(names)
            first = names[0]
            numbers = (f"checksum {sums.get(first, 0):016x}", f"{others.get(first, 0):016x}")
        refuse_written(
            self._files,
            targets,
            f"{what} differ: {numbers[0]} expected, {numbers[1]} {how}",
            differs=what,
            due=numbers[0],
            found=numbers[1],
        )

    def _read_back(self, target: BucketTarget, metas: Sequence[DataFileMeta]) -> Iterator[pa.Table]:
        source = FileRows(self._files, self._files.schema.fields)
        for file in metas:
            split = DataSplit(
                partition=target.partition, bucket=target.bucket, files=(file,), merge=False
            )
            path = self._files.data_file_path(target.place, file)
            try:
                # Read the stored columns: files also hold copies of the keys.
                for rows in read_rows(
                    self._files.fs,
                    path,
                    self._stored.names,
                    expected_rows=file.row_count,
                    batch_rows=source.batch_rows(split, file),
                    reading=Reading(of_table=True),
                ):
                    yield _as_stored(rows, self._stored)
            except (CorruptionError, FileMissing, pa.ArrowException) as error:
                refuse_written(self._files, [target], f"{error}", differs="file", cause=error)


class _PlacedRows:
    """A checksum of rows for one bucket that checks the bucket of every row's hash."""

    def __init__(
        self, files: TableFiles, arrived: Checksum, target: BucketTarget, total_buckets: int
    ) -> None:
        self._files = files
        self._arrived = arrived
        self._target = target
        self._total_buckets = total_buckets
        self._fields = files.schema.fields_of(files.options.bucket_keys)
        self._function = files.options.bucket_function
        self._misplaced = 0

    def add(self, rows: pa.Table) -> None:
        buckets = buckets_of(rows, self._fields, self._total_buckets, self._function)
        self._misplaced += int(np.count_nonzero(buckets != self._target.bucket))
        self._arrived.add(rows)

    def sums(self) -> Sums:
        return self._arrived.sums()

    def check(self) -> None:
        if self._misplaced:
            refuse_written(
                self._files,
                [self._target],
                f"{self._misplaced} rows belong to another of {self._total_buckets} buckets",
                differs="bucket",
                found=self._misplaced,
                due=0,
            )


def _check_files(files: TableFiles, made: ProvenFiles) -> None:
    """Check files on the store against their metadata and the expected row count."""
    target, due = made.target, made.due
    bounded = _bounded_columns(files)
    row_count = 0
    for file in made.files:
        path = files.data_file_path(target.place, file)
        try:
            footer = read_footer(files.fs, path, list(bounded))
        except (CorruptionError, FileMissing) as error:
            refuse_written(files, [target], f"{error}", differs="file", cause=error)
        _check_footer(files, target, file, footer, bounded)
        row_count += footer.row_count
    if row_count != due:
        refuse_written(
            files,
            [target],
            f"the files hold {row_count} rows, and {due} were expected",
            differs="rows",
            due=due,
            found=row_count,
        )


def _check_footer(
    files: TableFiles,
    target: BucketTarget,
    file: DataFileMeta,
    footer: Footer,
    bounded: dict[str, DataField | None],
) -> None:
    said: dict[str, object] = {"bytes": file.file_size, "rows": file.row_count}
    seen: dict[str, object] = {"bytes": footer.file_size, "rows": footer.row_count}
    decode = key_decoder(files.schema)
    for name, (low, high) in footer.bounds.items():
        field = bounded[name]
        if field is None:
            said[name] = file.min_sequence_number, file.max_sequence_number
            seen[name] = low, high
        else:
            said[name] = decode(file.min_key)[0], decode(file.max_key)[0]
            seen[name] = from_python(low, field.type), from_python(high, field.type)
    for what, value in said.items():
        if seen[what] != value:
            refuse_written(
                files,
                [target],
                f"{file.file_name} has {what} {seen[what]!r} on the store, and its metadata says "
                f"{value!r}",
                differs=what,
                due=value,
                found=seen[what],
            )


def _bounded_columns(files: TableFiles) -> dict[str, DataField | None]:
    """Columns with bounds in the metadata: the sequence number and the first key column."""
    if not files.schema.is_keyed:
        return {}
    found: dict[str, DataField | None] = {SEQUENCE_NUMBER: None}
    first = files.schema.key_fields[0]
    # Counted rows use whole rows as keys; these may begin with null, which has no bound.
    has_bounds = isinstance(first.type, AtomicType) and first.type.root in _BOUNDED
    if has_bounds and not files.schema.counts_rows:
        thin = files.options.data_file_thin_mode
        found[first.name if thin else f"{KEY_PREFIX}{first.name}"] = first
    return found


def refuse_rows(
    files: TableFiles, partition: bytes, what: str, *, due: object, found: object
) -> NoReturn:
    """Raise that new files are not what they should be."""
    """Refuse a rewrite that would change the rows of a partition.

    Raises:
        VerificationFailed: always.
    """
    target = BucketTarget(partition=partition, bucket=-1)
    refuse_written(files, [target], what, differs="rows", due=due, found=found)


def refuse_written(
    files: TableFiles,
    targets: Sequence[BucketTarget],
    what: str,
    *,
    differs: str,
    due: object = None,
    found: object = None,
    cause: Exception | None = None,
) -> NoReturn:
    """Raise that new files are not what they should be."""
    partition = files.partitions.of_row(targets[0].partition).spec if targets else {}
    named = name_partition(partition)
    buckets = sorted({target.bucket for target in targets if target.bucket >= 0})
    told = ("changelog of " if any(target.changelog for target in targets) else "") + (
        f"bucket {', '.join(map(str, buckets))}" if buckets else "rows"
    )
    raise VerificationFailed(
        f"{told} in {named} of {files.name} would differ from the rows it "
        f"replaces: {what}; nothing was committed, and the new files are deleted; try again with "
        "verify=full; if this comes back, check the memory and the disk of the machine, and "
        "report it",
        partition=partition,
        buckets=buckets,
        differs=differs,
        due=due,
        found=found,
    ) from cause


def _as_stored(rows: pa.Table, schema: pa.Schema) -> pa.Table:
    columns = [cast_column(rows.column(field.name), field.type) for field in schema]
    return pa.table(columns, names=schema.names)
