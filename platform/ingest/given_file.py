"""The rows of a file that a command names, in the types of a table's columns."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pyarrow as pa

from lakewright.platform.ingest.find_files import FoundFile, is_of_format
from lakewright.platform.ingest.source_files import SourceFile
from lakewright.platform.tables.source_declarations import SourceDeclaration
from lakewright.storage.errors import InvalidRequestError, NotFoundError
from lakewright.storage.files.file_systems import open_file_system
from lakewright.storage.merging import shared_columns
from lakewright.storage.spec.schema import TableSchema

FORMATS = ("csv", "json", "parquet", "orc", "avro")


def rows_of_file(path: Path, schema: TableSchema) -> pa.Table:
    """The columns of a file that a table has, read as a source of the table reads them.

    Raises:
        InvalidRequestError: the name of the file tells no format, or no column is the table's.
        NotFoundError: the file is not there.
        InvalidRows: the file is not of its format, or a value does not fit its column.
    """
    file_format = next((each for each in FORMATS if is_of_format(path.name, each)), None)
    if file_format is None:
        raise InvalidRequestError(f"{path} does not end as {', '.join(FORMATS)} files do")
    if not path.is_file():
        raise NotFoundError(f"no file is at {path}")
    fs, place = open_file_system(str(path))
    file = SourceFile(
        file=FoundFile(fs=fs, path=place, size_bytes=path.stat().st_size, values=()),
        source=SourceDeclaration.model_validate(
            {file_format: str(path), "extra_columns": "ignore"}
        ),
        fields=(),
        partition_keys=(),
    )
    names = dict.fromkeys(name for piece in file.pieces() for name in piece.column_names)
    shared = shared_columns(schema.field_names, tuple(names))
    if not shared:
        raise InvalidRequestError(
            f"{path} has none of the columns {', '.join(schema.field_names)}; it has "
            f"{', '.join(names) or 'no column'}"
        )
    fields = [replace(schema.field(name), name=given) for name, given in shared.items()]
    return pa.concat_tables(replace(file, fields=tuple(fields)).read(None))
