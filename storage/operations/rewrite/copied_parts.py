"""Compaction of append files without decoding: row groups are copied into larger files.

Files of a table's present schema, format and compression whose row groups are large gain nothing
from being decoded and encoded again. Their column chunks are copied byte by byte, with the
statistics of the files joined. Files with a column of an opaque type are always copied.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Sequence
from dataclasses import dataclass
from itertools import groupby
from typing import TypeAlias

from lakewright.storage.codec.column_stats import joined_stats
from lakewright.storage.codec.parquet_footer import CODECS, FileFooter, NotCopied
from lakewright.storage.errors import UnsupportedError
from lakewright.storage.files.data_files import format_of_path
from lakewright.storage.files.parquet_copies import (
    checksum_of_groups,
    copy_row_groups,
    first_difference,
    read_footer_to_copy,
)
from lakewright.storage.files.table_files import TableFiles
from lakewright.storage.operations.running.delete_files import discard_files
from lakewright.storage.operations.write.rolling_writer import BucketTarget
from lakewright.storage.operations.write.verify import (
    Proof,
    ProvenFiles,
    VerifyLevel,
    refuse_written,
)
from lakewright.storage.spec.file_format import PARQUET
from lakewright.storage.spec.manifest import DataFileMeta, SimpleStats
from lakewright.storage.spec.partition import Place
from lakewright.storage.spec.row_tracking import holds_row_ids

# Readers decide by row group what they read, and each costs a request: below this average, in
# bytes of a file, rows are decoded and written in larger row groups.
_LEAST_GROUP_BYTES = 4 << 20
# An option for larger row groups counts uncompressed bytes.
_COMPRESSED_TO = 8

Stats: TypeAlias = tuple[SimpleStats, tuple[str, ...] | None]


@dataclass(frozen=True, slots=True)
class CopiedPart:
    """Files that become one file, as their row groups are."""

    replaced: tuple[DataFileMeta, ...]
    footers: tuple[FileFooter, ...]
    stats: Stats


def divided(
    files: TableFiles, place: Place, stretch: Sequence[DataFileMeta], deleted: Collection[str]
) -> list[CopiedPart | tuple[DataFileMeta, ...]]:
    """The files of a stretch in order: those whose row groups are copied, and those to decode.

    Raises:
        UnsupportedError: the table has columns whose values are not decoded, and files that cannot
            be joined by copies.
    """
    footers = {
        file.file_name: footer
        for file in stretch
        if (footer := _footer(files, place, file, deleted)) is not None
    }
    pieces: list[CopiedPart | tuple[DataFileMeta, ...]] = []
    together = groupby(stretch, key=lambda file: _alike(footers.get(file.file_name)))
    for alike, run in together:
        for some in _of_target_size(files, list(run)):
            part = None
            if alike is not None:
                part = _copied(files, some, [footers[file.file_name] for file in some])
            last = pieces[-1] if pieces else None
            if part is not None:
                pieces.append(part)
            elif isinstance(last, tuple):
                pieces[-1] = (*last, *some)
            else:
                pieces.append(tuple(some))
    for field in files.schema.opaque_fields:
        decoded = [each.file_name for piece in pieces if isinstance(piece, tuple) for each in piece]
        if decoded or len(pieces) == len(stretch) > 1:
            raise UnsupportedError(
                f"{files.name}: values of column {field.name} ({field.type}) are not decoded, so "
                f"files are joined as they are, and {len(decoded) or len(stretch)} of "
                f"{len(stretch)} files have deleted rows, or another schema, format, compression "
                f"or layout than the others, such as {(decoded or [stretch[0].file_name])[0]}; "
                "nothing was written",
                column=field.name,
            )
    return pieces


def _footer(
    files: TableFiles, place: Place, file: DataFileMeta, deleted: Collection[str]
) -> FileFooter | None:
    """The footer of a file whose row groups may be copied."""
    encoding = files.options.file_encoding(level=0)
    is_like_new = (
        (file.file_size >= _LEAST_GROUP_BYTES or files.schema.opaque_fields)
        and file.schema_id == files.schema.id
        and file.write_cols is None
        and not file.newer
        and file.file_name not in deleted
        and encoding.format == PARQUET
        and not files.schema.is_keyed
        # Without these columns a file cannot hold rows of several others.
        and not holds_row_ids(files.schema)
        and files.holds_partition_columns(file)
    )
    if not is_like_new:
        return None
    path = files.readable_path(place, file)
    if format_of_path(path) != PARQUET:
        return None
    try:
        footer = read_footer_to_copy(files.fs, path, file.file_size)
    except NotCopied:
        return None
    is_same = footer.row_count == file.row_count and footer.codecs == {CODECS[encoding.compression]}
    return footer if is_same else None


def _alike(footer: FileFooter | None) -> tuple[tuple[int, int, bytes], ...] | None:
    return None if footer is None else footer.rest


def _of_target_size(files: TableFiles, run: Sequence[DataFileMeta]) -> Iterator[list[DataFileMeta]]:
    """Files divided so that each division is a file of about the target size, and none is small."""
    target = files.options.target_file_size
    least = int(target * files.options.compaction_small_file_ratio)
    left = sum(file.file_size for file in run)
    some: list[DataFileMeta] = []
    size = 0
    for file in run:
        if some and size + file.file_size > target and left >= least:
            yield some
            some, size = [], 0
        some.append(file)
        size += file.file_size
        left -= file.file_size
    yield some


def _copied(
    files: TableFiles, some: Sequence[DataFileMeta], footers: Sequence[FileFooter]
) -> CopiedPart | None:
    groups = sum(len(footer.groups) for footer in footers)
    tuned = files.options.format_tuning.parquet_row_group_bytes or 0
    least = max(_LEAST_GROUP_BYTES, tuned // _COMPRESSED_TO)
    is_worth_it = len(some) > 1 and sum(footer.end for footer in footers) >= least * groups
    if not (is_worth_it or files.schema.opaque_fields):
        return None
    options = files.options
    stats = joined_stats(
        some, files.schema, mode=options.stats_mode, column_modes=options.column_stats_modes
    )
    return None if stats is None else CopiedPart(tuple(some), tuple(footers), stats)


def write_copied(
    files: TableFiles, target: BucketTarget, part: CopiedPart, write_id: str, verify: VerifyLevel
) -> DataFileMeta:
    """Write the file of a part and prove it; deletes it on failure.

    Raises:
        VerificationFailed: the new file is not what its parts are.
    """
    options = files.options
    name = f"{options.data_file_prefix}{write_id}-0{options.file_encoding(target.level).suffix}"
    path = f"{files.bucket_dir(target.place)}/{name}"
    sources = [files.readable_path(target.place, file) for file in part.replaced]
    try:
        size, checksum = copy_row_groups(
            files.fs, list(zip(sources, part.footers, strict=True)), path
        )
        rows = sum(file.row_count for file in part.replaced)
        stats, covered = part.stats
        made = DataFileMeta(
            file_name=name,
            file_size=size,
            row_count=rows,
            value_stats=stats,
            value_stats_cols=covered,
            min_sequence_number=target.next_sequence,
            max_sequence_number=target.next_sequence + rows - 1,
            schema_id=files.schema.id,
            level=target.level,
            creation_time=files.env.now_ms(),
            delete_row_count=0,
            file_source=target.source,
        )
        Proof(files, VerifyLevel.COUNTS).check(ProvenFiles(target, None, (made,), rows))
        difference = first_difference(files.fs, sources, path)
        if difference is not None:
            refuse_written(files, [target], f"{name} differs in {difference}", differs="footer")
        if verify is VerifyLevel.FULL:
            found = checksum_of_groups(files.fs, path, size)
            if found != checksum:
                refuse_written(
                    files,
                    [target],
                    f"{name} has checksum {found:08x} on the store, and {checksum:08x} was copied",
                    differs="bytes",
                    due=checksum,
                    found=found,
                )
    except BaseException:
        discard_files(files.fs, [path])
        raise
    return made
