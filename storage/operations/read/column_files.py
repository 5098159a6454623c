"""Rows of a table whose columns are updated alone: each column is read from its newest file.

Files with the same rows have the same row ids. The newest of them that has a column holds its
values, of all of the rows. Files of blobs and of vectors hold one column, of other ranges of rows;
they are no files of these rows here. Source: Paimon, `docs/append-table/data-evolution.md`;
`DataEvolutionSplitRead`.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import replace

import pyarrow as pa

from lakewright.storage.errors import CorruptionError
from lakewright.storage.spec.manifest import DataFileMeta, names_one_column


def with_newer_files(metas: Iterable[DataFileMeta], *, table: str) -> tuple[DataFileMeta, ...]:
    """One file for each range of row ids, the oldest, which names the newer ones.

    Raises:
        CorruptionError: a file has no row ids, or ranges overlap.
    """
    by_range: dict[tuple[int, int], list[DataFileMeta]] = {}
    for file in metas:
        if holds_one_column(file):
            continue
        if file.first_row_id is None:
            raise CorruptionError(
                f"data file {file.file_name} of {table}, which sets data-evolution.enabled=true, "
                "has no row ids"
            )
        by_range.setdefault((file.first_row_id, file.row_count), []).append(file)
    found: list[DataFileMeta] = []
    end = 0
    for (first, count), alike in sorted(by_range.items()):
        if first < end:
            raise CorruptionError(
                f"data file {alike[0].file_name} of {table} has rows {first} to "
                f"{first + count - 1}, and another file has some of them"
            )
        end = first + count
        newest, *others = sorted(alike, key=_age)
        oldest = others[-1] if others else newest
        newer = (newest, *others[:-1]) if others else ()
        found.append(replace(oldest, newer=newer))
    return tuple(found)


def _age(file: DataFileMeta) -> tuple[int, int]:
    """The newest first; of one commit, files of some columns were made from the others."""
    return -file.max_sequence_number, file.write_cols is None


def holds_one_column(file: DataFileMeta) -> bool:
    """Whether a file holds a column of blobs or of vectors, beside the files of the rows."""
    return names_one_column(file.file_name)


def files_of_rows(file: DataFileMeta) -> tuple[DataFileMeta, ...]:
    """All files of the rows of a file of `with_newer_files`, as the manifests have them."""
    return (replace(file, newer=None), *(file.newer or ()))


def beside_each_other(readers: Sequence[Iterator[pa.Table]]) -> Iterator[list[pa.Table]]:
    """The rows of several readers of equally many, in pieces of the same rows."""
    held = [next(reader, None) for reader in readers]
    while all(piece is not None for piece in held):
        pieces = [piece for piece in held if piece is not None]
        count = min(piece.num_rows for piece in pieces)
        if count:
            yield [piece.slice(0, count) for piece in pieces]
        held = [
            piece.slice(count) if piece.num_rows > count else next(reader, None)
            for piece, reader in zip(pieces, readers, strict=True)
        ]
    if any(piece is not None for piece in held):
        raise CorruptionError("files of the same row ids have different numbers of rows")
