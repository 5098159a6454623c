"""The primary keys of files, as bytes and as values."""

from __future__ import annotations

from collections.abc import Iterable

from lakewright.storage.codec.binary_row import decode_row
from lakewright.storage.errors import UnsupportedError
from lakewright.storage.files.table_files import TableFiles
from lakewright.storage.lsm.sections import DecodeKey, Key
from lakewright.storage.spec.data_types import AtomicType, DataType, TypeRoot, not_null
from lakewright.storage.spec.options import trimmed
from lakewright.storage.spec.schema import TableSchema


def check_key_types(files: TableFiles, schema_ids: Iterable[int]) -> None:
    """Refuse files that were written when a primary key had another type.

    Buckets and order of their rows follow the old type. A reader would look for keys in the wrong
    bucket and treat rows of one key as rows of two. Java Paimon 0.9 allows such a change, later
    releases refuse it.

    Raises:
        UnsupportedError: one of the schemas has another type for a primary key.
    """
    if not files.schema.has_primary_key:
        return
    keys = {field.id: field for field in files.schema.key_fields}
    for schema_id in set(schema_ids) - {files.schema.id}:
        for stored in files.schemas.read(schema_id).fields:
            field = keys.get(stored.id)
            if field is not None and not _kept(stored.type, field.type):
                raise UnsupportedError(
                    f"{files.name}: primary key {field.name!r} has the type {field.type}, and "
                    f"live files hold it as {stored.type} (schema {schema_id}); change the type "
                    "back, or copy the rows into a new table with a client that can read them",
                    column=field.name,
                )


def _kept(stored: DataType, read: DataType) -> bool:
    """Whether a key keeps its bytes under the new type, and so its bucket and its order."""
    if isinstance(stored, AtomicType) and isinstance(read, AtomicType):
        grown = stored.root is read.root and stored.length <= read.length
        if grown and read.root in (TypeRoot.VARCHAR, TypeRoot.VARBINARY):
            return True
    return not_null(stored) == not_null(read)


def key_decoder(schema: TableSchema) -> DecodeKey:
    """A decoder for the key bounds in the metadata of data files.

    Those of bridged files are longer, and hold nulls (`keys_of_files.py`). It raises
    `UnsupportedError` where files are sorted by other columns, of which their bounds are then.
    """
    types = [field.type for field in schema.key_fields]
    clustered = trimmed(schema.options).get("pk-clustering-override", "false").lower() == "true"

    def decode(data: bytes) -> Key:
        if clustered:
            raise UnsupportedError(
                "option pk-clustering-override sorts files by other columns than the key, so rows "
                "of a key are not looked up, merged or compared in them; read with a filter",
                option="pk-clustering-override",
            )
        return decode_row(data, types, first=True)

    return decode
