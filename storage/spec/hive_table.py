"""A table as Hive's metastore knows it: columns in Hive's types, and parameters.

Paimon's clients read the schema file, and ask the metastore only whether a table is one of theirs
and where it lies. Hive itself compares the columns with those of the schema file.
"""

from __future__ import annotations

from dataclasses import dataclass

from lakewright.storage.spec.data_types import (
    ArrayType,
    AtomicType,
    DataField,
    DataType,
    MapType,
    MultisetType,
    OpaqueType,
    RowType,
    TypeRoot,
)
from lakewright.storage.spec.schema import TableSchema

INPUT_FORMAT = "org.apache.paimon.hive.mapred.PaimonInputFormat"
OUTPUT_FORMAT = "org.apache.paimon.hive.mapred.PaimonOutputFormat"
SERDE = "org.apache.paimon.hive.PaimonSerDe"
# By these a metastore, and Hive, tell Paimon's tables.
MARKS = {
    "table_type": "PAIMON",
    "storage_handler": "org.apache.paimon.hive.PaimonStorageHandler",
}
EXTERNAL_TYPE = "EXTERNAL_TABLE"
MANAGED_TYPE = "MANAGED_TABLE"
# The partition keys are Hive's partition keys too, and each commit would have to tell partitions.
PARTITIONS_ARE_TOLD = "metastore.partitioned-table"

_NAMES = {
    TypeRoot.BOOLEAN: "boolean",
    TypeRoot.TINYINT: "tinyint",
    TypeRoot.SMALLINT: "smallint",
    TypeRoot.INT: "int",
    TypeRoot.BIGINT: "bigint",
    TypeRoot.FLOAT: "float",
    TypeRoot.DOUBLE: "double",
    TypeRoot.BINARY: "binary",
    TypeRoot.VARBINARY: "binary",
    TypeRoot.DATE: "date",
    TypeRoot.TIME: "string",
    TypeRoot.TIMESTAMP: "timestamp",
    TypeRoot.TIMESTAMP_LTZ: "timestamp with local time zone",
}
_LONGEST_CHAR = 255
_LONGEST_VARCHAR = 65_535
_LONGEST_COMMENT = 255
_CUT = "..."


@dataclass(frozen=True, slots=True)
class HiveColumn:
    """A column as the metastore keeps it; its names are in lower case there."""

    name: str
    type: str
    comment: str | None


@dataclass(frozen=True, slots=True, kw_only=True)
class HiveTable:
    """What the metastore repeats of a schema."""

    columns: tuple[HiveColumn, ...]
    partition_columns: tuple[HiveColumn, ...]
    parameters: dict[str, str]


def hive_table(schema: TableSchema) -> HiveTable:
    """What Java's catalog tells the metastore of such a schema, all options included."""
    told = schema.options.get(PARTITIONS_ARE_TOLD, "").strip().lower() == "true"
    keys = schema.partition_keys if told else ()
    return HiveTable(
        columns=tuple(
            _column(field, _short_comment(field.description))
            for field in schema.fields
            if field.name not in keys
        ),
        partition_columns=tuple(
            _column(partition_field, partition_field.description)
            for partition_field in schema.partition_fields
            if told
        ),
        parameters=_parameters(schema),
    )


def hive_type(data_type: DataType) -> str:
    """The type of Hive that holds the values of a type."""
    match data_type:
        case AtomicType():
            return _atomic(data_type)
        case OpaqueType():
            return "binary"
        case ArrayType(element):
            return f"array<{hive_type(element)}>"
        case MapType(key, value):
            return f"map<{hive_type(key)},{hive_type(value)}>"
        case MultisetType(element):
            return f"map<{hive_type(element)},int>"
        case RowType(fields):
            return (
                f"struct<{','.join(f'{field.name}:{hive_type(field.type)}' for field in fields)}>"
            )


def _atomic(data_type: AtomicType) -> str:
    if data_type.root is TypeRoot.DECIMAL:
        return f"decimal({data_type.precision},{data_type.scale})"
    if data_type.root is TypeRoot.CHAR and data_type.length <= _LONGEST_CHAR:
        return f"char({data_type.length})"
    if data_type.root is TypeRoot.VARCHAR and data_type.length <= _LONGEST_VARCHAR:
        return f"varchar({data_type.length})"
    return _NAMES.get(data_type.root, "string")


def _column(field: DataField, comment: str | None) -> HiveColumn:
    return HiveColumn(field.name.lower(), hive_type(field.type), comment)


def _short_comment(comment: str | None) -> str | None:
    """A comment in one line, no longer than the metastore's column for it."""
    if comment is None:
        return None
    line = comment.replace("\n", " ").replace("\r", " ")
    too_long = len(line) > _LONGEST_COMMENT
    return line[: _LONGEST_COMMENT - len(_CUT)] + _CUT if too_long else line


def _parameters(schema: TableSchema) -> dict[str, str]:
    keys = {
        "primary-key": ",".join(schema.primary_keys),
        "partition": ",".join(schema.partition_keys),
        "bucket-key": schema.options.get("bucket-key") or ",".join(schema.trimmed_primary_keys),
        "comment": schema.comment,
    }
    return {**schema.options, **{name: value for name, value in keys.items() if value}, **MARKS}
