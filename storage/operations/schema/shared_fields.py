"""Which fields two branches of a table share: those of the last schema version that both have.

After that version, each branch counts ids on its own, so one id may mean two fields.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace

from lakewright.storage.files.table_files import TableFiles
from lakewright.storage.spec.data_types import (
    ArrayType,
    DataField,
    DataType,
    MapType,
    MultisetType,
    RowType,
)


def highest_shared_id(files: TableFiles, other: TableFiles) -> int:
    """The highest id of a field that two branches share; -1 if they share no schema."""
    for schema_id in sorted({*files.schemas.ids()} & {*other.schemas.ids()}, reverse=True):
        schema = files.schemas.read(schema_id)
        if schema == other.schemas.read(schema_id):
            return schema.highest_field_id
    return -1


def fields_up_to(fields: Iterable[DataField], highest: int) -> tuple[DataField, ...]:
    """The fields with an id up to a highest one, at every depth."""
    return tuple(
        replace(field, type=_type_up_to(field.type, highest))
        for field in fields
        if field.id <= highest
    )


def _type_up_to(data_type: DataType, highest: int) -> DataType:
    match data_type:
        case RowType(fields=fields):
            return replace(data_type, fields=fields_up_to(fields, highest))
        case ArrayType(element=element) | MultisetType(element=element):
            return replace(data_type, element=_type_up_to(element, highest))
        case MapType(key=key, value=value):
            return replace(
                data_type, key=_type_up_to(key, highest), value=_type_up_to(value, highest)
            )
    return data_type
