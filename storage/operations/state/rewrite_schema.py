"""Checks the schema of a rewrite: it must be the current one, and not older than the files'.

A rewrite reads files with the schema that its table was opened with. It would skip columns that
were added since, and their values would be lost with the old files.
"""

from __future__ import annotations

from collections.abc import Iterable

from lakewright.storage.errors import SchemaMoved
from lakewright.storage.files.table_files import TableFiles
from lakewright.storage.spec.manifest import DataFileMeta


def check_current_schema(files: TableFiles) -> None:
    """Refuse to rewrite with an outdated schema.

    Raises:
        SchemaMoved: the schema changed since the table was opened.
    """
    latest = files.schemas.ids()[-1]
    if latest != files.schema.id:
        raise SchemaMoved(
            f"{files.name} was opened with schema {files.schema.id}, and has schema {latest} now; "
            "open the table and plan again",
            table=files.name,
        )


def check_rewritable(files: TableFiles, metas: Iterable[DataFileMeta]) -> None:
    """Refuse to rewrite files that may have columns unknown to this schema.

    Raises:
        SchemaMoved: a file was written with a later schema.
    """
    for file in metas:
        if file.schema_id > files.schema.id:
            raise SchemaMoved(
                f"data file {file.file_name} of {files.name} was written with schema "
                f"{file.schema_id}, and the table was opened with schema {files.schema.id}, which "
                "may lack its columns; open the table and plan again",
                table=files.name,
            )
