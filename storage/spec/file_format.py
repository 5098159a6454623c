"""Formats of data files: their names, compressions and limits."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import NamedTuple

from lakewright.storage.errors import InvalidOption, UnsupportedError
from lakewright.storage.spec.data_types import (
    ArrayType,
    AtomicType,
    DataField,
    DataType,
    MapType,
    MultisetType,
    RowType,
    TypeRoot,
)

PARQUET = "parquet"
ORC = "orc"
AVRO = "avro"

# The compressions of each format, by their names in table options.
COMPRESSIONS: Mapping[str, tuple[str, ...]] = {
    PARQUET: ("zstd", "none", "snappy", "gzip", "lz4"),
    ORC: ("zstd", "none", "snappy", "zlib", "lz4"),
    AVRO: ("zstd", "none", "snappy", "deflate", "bzip2", "xz"),
}
_AVRO_NAME = re.compile(r"[A-Za-z_][A-Za-z0-9_]*", re.ASCII)


# The suffix of Parquet files with counted rows, which other readers must not take for plain rows.
COUNTED = "value-count"


# What a file has beside its rows, and for each column: header, footer, statistics.
# Measured with four rows, of which each costs more than one among many.
_EMPTY_BYTES = {PARQUET: (200, 420), ORC: (40, 150), AVRO: (100, 84)}


def empty_file_bytes(format_name: str, columns: int) -> int:
    """About how large a file without rows is; files of few rows consist of little else."""
    of_file, of_column = _EMPTY_BYTES.get(format_name, (0, 0))
    return of_file + of_column * columns


class FileEncoding(NamedTuple):
    """Format and compression of a new file, and the suffix that tells readers the format."""

    format: str
    compression: str
    suffix: str


@dataclass(frozen=True, slots=True, kw_only=True)
class FormatTuning:
    """Sizes inside files; for None, the library that writes the format decides."""

    zstd_level: int = 1
    parquet_zstd_level: int | None = None
    parquet_row_group_bytes: int | None = None
    parquet_page_bytes: int | None = None
    parquet_dictionary: bool = True
    orc_stripe_bytes: int | None = None
    orc_compress_block_bytes: int | None = None
    orc_row_index_stride: int | None = None
    orc_dictionary_threshold: float = 0.0


def file_encoding(
    format_name: str, compression: str, *, suffix_has_compression: bool
) -> FileEncoding:
    """The encoding that the options request.

    Raises:
        UnsupportedError: the format is not implemented.
        InvalidOption: the format does not have that compression.
    """
    if format_name not in COMPRESSIONS:
        raise UnsupportedError(
            f"option file.format or file.format.per.level asks for {format_name}, which is not "
            f"implemented; implemented are {', '.join(COMPRESSIONS)}",
            option="file.format",
        )
    known = COMPRESSIONS[format_name]
    if compression not in known:
        raise InvalidOption(
            f"{format_name} files are not compressed with {compression}; set file.compression, or "
            f"file.compression.per.level, to one of {', '.join(known)}",
            option="file.compression",
        )
    named = suffix_has_compression and compression != "none"
    suffix = f".{compression}.{format_name}" if named else f".{format_name}"
    return FileEncoding(format_name, compression, suffix)


def check_holds(format_name: str, fields: Sequence[DataField], *, table: str) -> None:
    """Refuse columns that files of a format cannot hold.

    Parquet and ORC hold every type. Avro names are ASCII words, its timestamps end at
    microseconds and its times at milliseconds.

    Raises:
        UnsupportedError: names the column and why.
    """
    if format_name != AVRO:
        return
    for field in fields:
        for problem in _avro_problems(field):
            raise UnsupportedError(
                f"{table}: column {field.name} cannot be in an Avro file: {problem}; choose "
                "parquet or orc (options file.format, file.format.per.level)",
                column=field.name,
                option="file.format",
            )


def _avro_problems(field: DataField) -> Iterator[str]:
    if _AVRO_NAME.fullmatch(field.name) is None:
        yield f"{field.name!r} is not an Avro name, which has ASCII letters, digits and underscores"
    yield from _avro_type_problems(field.type)


def _avro_type_problems(data_type: DataType) -> Iterator[str]:
    match data_type:
        case ArrayType(element=element) | MultisetType(element=element):
            yield from _avro_type_problems(element)
        case MapType(key=key, value=value):
            yield from _avro_type_problems(key)
            yield from _avro_type_problems(value)
        case RowType(fields=fields):
            for field in fields:
                yield from _avro_problems(field)
        case AtomicType(root=TypeRoot.TIMESTAMP | TypeRoot.TIMESTAMP_LTZ, precision=precision):
            if precision > 6:
                yield f"{data_type} is finer than microseconds"
        case AtomicType(root=TypeRoot.TIME, precision=precision):
            if precision > 3:
                yield f"{data_type} is finer than milliseconds"
        case AtomicType():
            return
