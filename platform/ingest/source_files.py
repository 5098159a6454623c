"""The files of a declared source, each with the form that the declaration says."""

from __future__ import annotations

from lakewright.platform.tables.declarations import TableDeclaration
from lakewright.platform.tables.source_declarations import OnBadRow, SourceDeclaration
from lakewright.storage.codec.json_atoms import JsonLayout
from lakewright.storage.codec.text_values import TextLayout
from lakewright.storage.errors import InvalidRows, NotFoundError, StorageError
from lakewright.storage.file_reader.bad_rows import BadRows
from lakewright.storage.file_reader.file_form import FileForm
from lakewright.storage.file_reader.location import Location, wanted_values
from lakewright.storage.file_reader.path_pattern import PathPattern
from lakewright.storage.file_reader.reader import FileReader, Partitions, fields_with_kinds
from lakewright.storage.spec.csv_dialect import CsvDialect
from lakewright.storage.spec.missing_columns import MissingColumns
from lakewright.storage.spec.schema import new_schema


def file_form(source: SourceDeclaration) -> FileForm:
    """The form of the files of a source."""
    assert source.file_format is not None
    return FileForm(
        format=source.file_format,
        csv=CsvDialect(
            delimiter=source.delimiter,
            quote=source.quote,
            escape=source.escape,
            header=source.header,
            nulls=source.nulls,
        ),
        texts=TextLayout(
            nulls=source.nulls,
            date_format=source.date_format,
            timestamp_format=source.timestamp_format,
            decimal=source.decimal,
            thousands=source.thousands,
        ),
        json=JsonLayout(date_format=source.date_format, timestamp_format=source.timestamp_format),
        encoding=source.encoding,
        extra_columns=source.extra_columns,
        fills_missing=source.missing_columns is MissingColumns.FILL,
    )


def location_of(declaration: TableDeclaration) -> Location:
    """Where the files of a declared source are."""
    source = declaration.source
    assert source is not None
    assert source.file_format is not None
    return Location(
        table=declaration.table,
        file_format=source.file_format,
        path=PathPattern.parse(source.given[source.file_format]),
        columns=declaration.partition_columns,
    )


def source_files(declaration: TableDeclaration, wanted: Partitions | None) -> list[FileReader]:
    """The files of a source that may hold rows of the wanted partitions, None for all.

    There may be none only if the path says partitions, and there are files of others.

    Raises:
        NotFoundError: the path names no file.
        InvalidRows: a folder's name is no value of its partition column.
    """
    source = declaration.source
    assert source is not None
    location = location_of(declaration)
    try:
        is_wanted = None
        if wanted is not None and location.path.column_names:
            is_wanted = wanted_values(wanted, location.columns)
        found = list(location.files(is_wanted))
        if not found and not any(True for _ in location.files()):
            raise NotFoundError(
                f"the source of {declaration.table} is {location.path.text}, and no file matches "
                f"{location.shown()}; nothing was written"
            )
    except (OSError, ValueError) as err:
        if isinstance(err, StorageError):
            raise
        raise InvalidRows(f"the source of {declaration.table} is not a valid path: {err}") from err
    fields = fields_with_kinds(new_schema(declaration.schema_spec, time_millis=0))
    return [
        FileReader(
            file=file,
            form=file_form(source),
            fields=fields,
            partition_keys=declaration.partition_keys,
            units=declaration.units,
        )
        for file in found
    ]


def bad_rows_of(source: SourceDeclaration | None) -> BadRows | None:
    """What takes the bad rows of a run; None if the first one ends it."""
    if source is None or source.on_bad_row is OnBadRow.FAIL:
        return None
    return BadRows(source.max_bad_rows, keeps=source.on_bad_row is OnBadRow.QUARANTINE)
