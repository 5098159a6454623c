"""CHAR keys with trailing blanks, which ORC files lose.

Readers strip trailing blanks from CHAR values of ORC files. Two keys that differ only in these
blanks become equal to the reader, and a merge would keep only one of the rows.

1. Writers refuse rows with such keys before they reach an ORC file.
2. The merge refuses files of other writers that hold two keys with equal stripped values.
3. Buckets and key ranges are computed with the blanks, so reads must not prune by them alone.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from lakewright.storage.codec.char_blanks import is_char, lower_without_blanks
from lakewright.storage.errors import InvalidRows, UnsupportedError
from lakewright.storage.files.data_files import format_of_path
from lakewright.storage.files.table_files import TableFiles
from lakewright.storage.spec.data_types import DataField
from lakewright.storage.spec.file_format import ORC
from lakewright.storage.spec.manifest import DataFileMeta, ManifestEntry
from lakewright.storage.spec.schema import KEY_PREFIX, TableSchema
from lakewright.storage.spec.values import Value

_WAY_OUT = "make the key VARCHAR or the table's files Parquet to keep them apart"


def refuse_blank_keys(rows: pa.Table, files: TableFiles) -> None:
    """Refuse such keys in rows for a table that writes ORC files at some level.

    Raises:
        InvalidRows: a CHAR of a primary key ends in blanks.
    """
    options = files.options
    formats = {options.file_format, options.changelog_file_format}
    if ORC in formats or ORC in options.file_format_per_level.values():
        refuse_blank_keys_in_orc(rows, files)


def refuse_blank_keys_in_orc(rows: pa.Table, files: TableFiles) -> None:
    """Refuse such keys in rows for an ORC file; the rows may come from a caller or from files.

    Raises:
        InvalidRows: a CHAR of a primary key ends in blanks.
    """
    for name in _char_keys(files.schema):
        column = rows.column(name)
        blank = pc.ends_with(column, " ")
        count = pc.sum(blank).as_py()
        if count:
            first = column.filter(blank)[0].as_py()
            raise InvalidRows(
                f"{files.name}: key column {name} is CHAR, and {count} of {rows.num_rows} rows "
                f"have a key that ends in blanks, first {first!r}; readers of ORC files strip "
                f"trailing blanks, so it would equal the key {first.rstrip(' ')!r}; strip the "
                f"blanks, or {_WAY_OUT}",
                column=name,
            )


def with_keys_apart(pieces: Iterable[pa.Table], files: TableFiles, path: str) -> Iterator[pa.Table]:
    """Pieces of a sorted file for a merge; checks that every key differs from the one before.

    Raises:
        UnsupportedError: CHAR keys of an ORC file are equal or out of order after their trailing
            blanks are stripped.
    """
    if not _char_keys(files.schema) or format_of_path(path) != ORC:
        yield from pieces
        return
    last: pa.Table | None = None
    names = [f"{KEY_PREFIX}{key.name}" for key in files.schema.key_fields]
    for rows in pieces:
        keys = rows.select(names)
        around = keys if last is None else pa.concat_tables([last, keys])
        wrong = _first_not_after_its_neighbour(around, files.schema)
        if wrong is not None:
            shown = ", ".join(
                f"{name.removeprefix(KEY_PREFIX)}={around[name][wrong].as_py()!r}" for name in names
            )
            raise UnsupportedError(
                f"data file {path} of {files.name} holds the key {shown} twice or out of order: "
                "a writer wrote CHAR keys that end in blanks, and ORC files do not keep these "
                "blanks, so a merge could lose rows; nothing was changed; copy the rows with "
                f"the writer that made the file, and {_WAY_OUT}",
                path=path,
            )
        if keys.num_rows:
            last = keys.slice(keys.num_rows - 1)
        yield rows


def hashed_with_blanks(entries: Sequence[ManifestEntry], fields: Iterable[DataField]) -> bool:
    """Whether rows may lie in another bucket than the hash of their stripped values gives."""
    return any(is_char(field.type) for field in fields) and any(
        format_of_path(entry.file.file_name) == ORC for entry in entries
    )


def first_key_read(
    file: DataFileMeta, low: Sequence[Value], fields: Sequence[DataField]
) -> tuple[Value, ...]:
    """A prefix of a key that is a lower bound for all keys read from a file.

    `low` is the least key as it was written. The prefix ends at a CHAR with stripped blanks.
    """
    if format_of_path(file.file_name) == ORC:
        for index, field in enumerate(fields):
            value = low[index]
            if is_char(field.type) and isinstance(value, str):
                return (*low[:index], lower_without_blanks(value))
    return tuple(low)


def _first_not_after_its_neighbour(keys: pa.Table, schema: TableSchema) -> int | None:
    """The first row whose key is not greater than the previous key, compared up to the CHARs."""
    count = max(0, keys.num_rows - 1)
    alike, wrong = np.ones(count, dtype=bool), np.zeros(count, dtype=bool)
    chars = _char_keys(schema)
    for key in schema.key_fields:
        column = keys.column(f"{KEY_PREFIX}{key.name}")
        before, after = column.slice(0, count), column.slice(1)
        if key.name in chars:
            wrong |= alike & pc.greater(before, after).to_numpy()
        alike &= pc.equal(before, after).to_numpy()
    found = np.flatnonzero(wrong | alike)
    return int(found[0]) + 1 if len(found) else None


def _char_keys(schema: TableSchema) -> list[str]:
    if not schema.has_primary_key:
        return []
    return [field.name for field in schema.key_fields if is_char(field.type)]
