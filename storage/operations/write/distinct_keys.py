"""Refuses rows of one write that share a primary key, where the caller wants no row to win.

1. Rows that a writer sorts together are counted by key before they are merged.
2. Files of a bucket that were sorted apart are read again where their key ranges meet: the keys
   alone, merged. Fewer rows than the files have means that a key is in two of them.
"""

from __future__ import annotations

from collections.abc import Sequence

import pyarrow as pa
import pyarrow.compute as pc

from lakewright.storage.errors import InvalidRequestError, InvalidRows, UnsupportedError
from lakewright.storage.files.table_files import TableFiles
from lakewright.storage.lsm.sections import sections_of
from lakewright.storage.operations.read.read import SplitReader
from lakewright.storage.operations.read.scan import DataSplit
from lakewright.storage.operations.state.keys import key_decoder
from lakewright.storage.spec.manifest import DataFileMeta
from lakewright.storage.spec.options import BucketMode
from lakewright.storage.spec.partition import Place
from lakewright.storage.spec.rows import ROW_KIND_COLUMN

_SHOWN = 3
_NO_KINDS = "on_duplicate=refuse tells no duplicates among rows of several kinds"
_WAY_OUT = (
    "remove them, or leave out on_duplicate: then the row with the greatest `sequence.field` wins, "
    "or without that option the last row that the writer happens to get"
)


def check_tells_duplicates(files: TableFiles) -> None:
    """Refuse a table whose writers do not see the rows of a key together.

    Raises:
        InvalidRequestError: it has no primary key.
        UnsupportedError: its rows get their buckets later, or a column tells their kinds.
    """
    if not files.schema.is_keyed:
        raise InvalidRequestError(
            f"on_duplicate refuses rows with the same primary key, and {files.name} has none"
        )
    if files.options.bucket_mode is BucketMode.POSTPONE:
        raise UnsupportedError(
            f"on_duplicate=refuse needs the buckets of rows, which {files.name} chooses later "
            "(bucket -2); check the rows for equal keys before they are written"
        )
    if files.merge_spec.rowkind_field is not None:
        raise UnsupportedError(
            f"{_NO_KINDS}, and {files.name} takes them from {files.merge_spec.rowkind_field} "
            "(rowkind.field); leave out on_duplicate"
        )


def check_no_kinds(files: TableFiles, columns: Sequence[str]) -> None:
    """Refuse rows with kinds: a deletion and a new row of a key are two changes of it.

    Raises:
        InvalidRequestError: the columns have kinds.
    """
    if ROW_KIND_COLUMN in columns:
        raise InvalidRequestError(
            f"{_NO_KINDS}, and rows for {files.name} have {ROW_KIND_COLUMN}; leave out one of them"
        )


def check_distinct(files: TableFiles, rows: pa.Table) -> None:
    """Refuse rows of which two have the same key.

    Raises:
        InvalidRows: there are such rows.
    """
    names = list(files.schema.primary_keys)
    numbered = [f"k{at}" for at in range(len(names))]
    keys = rows.select(names).rename_columns(numbered)
    counted = keys.group_by(numbered).aggregate([([], "count_all")])
    twice = rows.num_rows - counted.num_rows
    if not twice:
        return
    again = counted.filter(pc.greater(counted["count_all"], 1)).slice(0, _SHOWN).to_pylist()
    shown = "; ".join(
        ", ".join(f"{name}={key[at]!r}" for name, at in zip(names, numbered, strict=True))
        + f" in {key['count_all']} rows"
        for key in again
    )
    raise InvalidRows(
        f"{twice} of {rows.num_rows} rows that are written to {files.name} together have the "
        f"primary key of another one, such as {shown}; {_WAY_OUT}"
    )


def check_distinct_files(files: TableFiles, place: Place, written: Sequence[DataFileMeta]) -> None:
    """Refuse new files of a bucket if two of them have a row of the same key.

    Raises:
        InvalidRows: there are such files.
    """
    reader = SplitReader(files, columns=files.schema.primary_keys, predicate=None)
    for section in sections_of(written, key_decoder(files.schema)):
        if len(section.files) == 1:
            continue
        split = DataSplit(
            partition=place.partition, bucket=place.bucket, files=section.files, merge=True
        )
        due = sum(file.row_count for file in section.files)
        twice = due - sum(rows.num_rows for rows in reader.read(split))
        if twice:
            raise InvalidRows(
                f"{twice} of {due} rows that are written to bucket {place.bucket} of {files.name} "
                f"have the primary key of another one; {_WAY_OUT}"
            )
