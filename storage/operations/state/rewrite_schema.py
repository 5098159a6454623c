"""Checks the schema that work was begun with against the present one, and those of files.

A rewrite reads files with the schema that its table was opened with. It would skip columns that
were added since, and their values would be lost with the old files.
"""

from __future__ import annotations

from collections.abc import Iterable

from lakewright.storage.errors import SchemaMoved
from lakewright.storage.files.table_files import TableFiles
from lakewright.storage.spec.manifest import DataFileMeta
from lakewright.storage.spec.schema import TableSchema


def check_current_schema(files: TableFiles) -> None:
    """Refuse to rewrite with an outdated schema.

    Raises:
        SchemaMoved: the schema changed since the table was opened.
        TableNotFound: it was dropped.
    """
    latest = (files.schemas.ids() or [files.schemas.latest(table=files.name).id])[-1]
    if latest != files.schema.id:
        raise SchemaMoved(
            f"{files.name} was opened with schema {files.schema.id}, and has schema {latest} now; "
            "open the table and plan again"
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
                "may lack its columns; open the table and plan again"
            )


def check_keys_stay(files: TableFiles, schema: TableSchema) -> None:
    """Check that rows of this version of the table have the keys of another version.

    Raises:
        SchemaMoved: the partition keys changed since the table was opened, or it got a primary key.
    """
    if schema.has_primary_key != files.schema.has_primary_key:
        raise SchemaMoved(
            f"{files.name} has {_key_text(schema)} now (schema {schema.id}), and had "
            f"{_key_text(files.schema)} when it was opened (schema {files.schema.id}); open the "
            "table, and stage the rows or plan again"
        )
    if schema.partition_keys != files.schema.partition_keys:
        before = ", ".join(files.schema.partition_keys) or "none"
        raise SchemaMoved(
            f"the partition keys of {files.name} were {before} when it was opened (schema "
            f"{files.schema.id}), and are {', '.join(schema.partition_keys) or 'none'} now (schema "
            f"{schema.id}); open the table, and stage the rows or plan again"
        )


def _key_text(schema: TableSchema) -> str:
    return f"the primary key {', '.join(schema.primary_keys)}" if schema.primary_keys else "no key"
