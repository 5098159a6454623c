"""Files that a command or a declaration names: the first one, and its rows for a table."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pyarrow as pa

from lakewright.platform.tables.partition_keys import PartitionColumn
from lakewright.storage.errors import InvalidRequestError, NotFoundError
from lakewright.storage.file_reader.file_form import FileForm
from lakewright.storage.file_reader.location import FoundFile, Location, is_of_format
from lakewright.storage.file_reader.path_pattern import PathPattern
from lakewright.storage.file_reader.reader import FileReader
from lakewright.storage.merging import shared_columns
from lakewright.storage.spec.data_types import STRING
from lakewright.storage.spec.extra_columns import ExtraColumns
from lakewright.storage.spec.schema import TableSchema

_FORMATS = ("csv", "json", "parquet", "orc", "avro")


def files_at(path: PathPattern, file_format: str) -> Iterator[FoundFile]:
    """The files of a format at a path, whose columns are texts."""
    keys = tuple(PartitionColumn(name, STRING) for name in path.column_names)
    return Location(table="", file_format=file_format, path=path, columns=keys).files()


def first_file(path: PathPattern) -> tuple[str, FoundFile]:
    """The first file at a path, after the format that its name tells.

    Raises:
        NotFoundError: none is there, or its name tells no format.
    """
    for file_format in _FORMATS:
        for each in files_at(path, file_format):
            if is_of_format(each.path, file_format):
                return file_format, each
    raise NotFoundError(
        f"no file at {path.text} ends as one of {', '.join(_FORMATS)} does; name one"
    )


def rows_of_file(path: Path, schema: TableSchema) -> pa.Table:
    """The columns of a file that a table has, read as a source of the table reads them.

    Raises:
        NotFoundError: the file is not there, or its name tells no format.
        InvalidRequestError: no column of it is one of the table.
        UnsupportedError: two columns of it differ by case alone.
        InvalidRows: the file is not of its format, or a value does not fit its column.
    """
    if not path.is_file():
        raise NotFoundError(f"no file is at {path}; of a folder, name each file")
    file_format, found = first_file(PathPattern.parse(str(path)))
    form = FileForm(format=file_format, extra_columns=ExtraColumns.IGNORE)
    file = FileReader(file=found, form=form, fields=())
    names = dict.fromkeys(name for piece in file.pieces() for name in piece.column_names)
    shared = shared_columns(schema.field_names, tuple(names), str(path))
    if not shared:
        raise InvalidRequestError(
            f"{path} has none of the columns {', '.join(schema.field_names)}; it has "
            f"{', '.join(names) or 'no column'}"
        )
    fields = [replace(schema.field(name), name=given) for name, given in shared.items()]
    return pa.concat_tables(replace(file, fields=tuple(fields)).read())
