"""`schema: infer`: the columns of a source's first file beside those that are declared."""

from __future__ import annotations

from lakewright.platform.tables.declarations import ColumnDeclaration, TableDeclaration
from lakewright.platform.tables.source_variables import values_hidden, with_source_variables
from lakewright.storage.errors import InvalidRequestError


def with_columns_of_source(declaration: TableDeclaration) -> TableDeclaration:
    """The declaration with the columns of its first file that it does not declare.

    Raises:
        InvalidRequestError: its source is none of files.
        NotFoundError: no file is there.
        InvalidRows: the file cannot be read.
    """
    source = declaration.source
    if source is None or source.file_format is None:
        raise InvalidRequestError(
            "columns are inferred of files only; write them, as `lakewright declare` proposes them"
        )
    if not source.header:
        raise InvalidRequestError("a CSV without a header names no columns; declare them")
    # Few declarations need it, and the others are read without Arrow.
    from lakewright.platform.ingest.declare import columns_of_files  # noqa: PLC0415

    here, values = with_source_variables(declaration)
    assert here.source is not None
    with values_hidden(values):
        found = columns_of_files(here.source)
    known = {column.name for column in declaration.columns}
    added = (
        ColumnDeclaration(name=each.name, type=each.type)
        for each in found
        if each.name not in known
    )
    return declaration.model_copy(update={"columns": (*declaration.columns, *added)})
