"""What a format table's schema says of its folders: place, format, names, and who knows them."""

from __future__ import annotations

from dataclasses import dataclass

from lakewright.storage.codec.text_rows import TEXT_FORMATS
from lakewright.storage.errors import InvalidOption, UnsupportedError
from lakewright.storage.files.external_files import path_in_store
from lakewright.storage.files.table_files import TableFiles
from lakewright.storage.spec.data_types import DataField
from lakewright.storage.spec.file_format import COMPRESSIONS
from lakewright.storage.spec.schema import TableSchema

TABLE_TYPE = "format-table"
# Paimon's file-system catalogs take the table's own folder for the location, whatever its options
# say. Where they would find other files there, or none, they refuse this type instead.
OWN_TYPE = "lakewright-format-table"
TABLE_TYPES = (TABLE_TYPE, OWN_TYPE)
TYPE_OPTION = "type"
PATH_OPTION = "path"
FORMAT_OPTION = "file.format"
ONLY_VALUES_OPTION = "format-table.partition-path-only-value"
REGISTERED_OPTION = "metastore.partitioned-table"
FORMATS = (*COMPRESSIONS, *TEXT_FORMATS)


@dataclass(frozen=True, slots=True)
class FormatSpec:
    """`location` is a path in the table's store.

    With `only_values`, folders are named by values alone. With `is_registered`, a partition exists
    if the table's registry has it; otherwise if its folder exists. With `holds_schema`, the table's
    schema lies in a folder beside its files.
    """

    location: str
    format: str
    only_values: bool
    is_registered: bool
    data_fields: tuple[DataField, ...]
    holds_schema: bool = False


def is_format_table(schema: TableSchema) -> bool:
    """Whether a table is one of plain files, and not one with snapshots."""
    return schema.options.get(TYPE_OPTION) in TABLE_TYPES


def format_spec(files: TableFiles) -> FormatSpec:
    """The specification of a format table.

    Raises:
        UnsupportedError: it is a table of another type.
        InvalidOption: an option is missing or has an unknown value.
    """
    options = files.schema.options
    if not is_format_table(files.schema):
        raise UnsupportedError(
            f"{files.name} is not a format table but a table with snapshots; open it as a table"
        )
    name = options.get(FORMAT_OPTION, "parquet").strip().lower()
    if name not in FORMATS:
        raise InvalidOption(
            f"option {FORMAT_OPTION} of {files.name} is {name!r}; format tables are of "
            f"{', '.join(FORMATS)}",
            option=FORMAT_OPTION,
        )
    root = files.paths.root
    location = options.get(PATH_OPTION)
    place = root
    if location is not None:
        place = path_in_store(files.fs, location, root=root, table=files.name)
    return FormatSpec(
        location=place,
        holds_schema=place == root,
        format=name,
        only_values=_flag(options.get(ONLY_VALUES_OPTION)),
        is_registered=_flag(options.get(REGISTERED_OPTION)),
        data_fields=tuple(
            field for field in files.schema.fields if field.name not in files.schema.partition_keys
        ),
    )


def _flag(text: str | None) -> bool:
    return text is not None and text.strip().lower() == "true"
