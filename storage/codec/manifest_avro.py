"""Manifests and manifest lists: Avro container files ↔ nouns.

Readers of the format find fields by name, so the field names are the contract
and the record names are not. Source: Paimon specification, chapter Manifest;
`ManifestFileMetaSerializer`, `ManifestEntrySerializer`, `DataFileMeta`.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from typing import Any

import fastavro

from lakewright.storage.codec.avro_records import (
    NAMESPACE,
    Record,
    SimilarRecords,
    check_types,
    decode_records,
    encode_records,
    nullable,
    record_fields,
)
from lakewright.storage.codec.json_values import as_moment_ms
from lakewright.storage.spec.file_names import plain_name
from lakewright.storage.spec.manifest import (
    MANIFEST_VERSION,
    DataFileMeta,
    FileKind,
    FileSource,
    ManifestEntry,
    ManifestFileMeta,
    SimpleStats,
)


def _stats_type(name: str) -> Record:
    counts = {"type": "array", "items": nullable("long")}
    return {
        "type": "record",
        "name": f"record_{name}",
        "fields": [
            *record_fields({"_MIN_VALUES": "bytes", "_MAX_VALUES": "bytes"}, {}),
            {"name": "_NULL_COUNTS", "type": nullable(counts), "default": None},
        ],
    }


_STRINGS = {"type": "array", "items": "string"}

_FILE_TYPE = {
    "type": "record",
    "name": "record__FILE",
    "fields": [
        *record_fields(
            {
                "_FILE_NAME": "string",
                "_FILE_SIZE": "long",
                "_ROW_COUNT": "long",
                "_MIN_KEY": "bytes",
                "_MAX_KEY": "bytes",
                "_KEY_STATS": _stats_type("_FILE_KEY_STATS"),
                "_VALUE_STATS": _stats_type("_FILE_VALUE_STATS"),
                "_MIN_SEQUENCE_NUMBER": "long",
                "_MAX_SEQUENCE_NUMBER": "long",
                "_SCHEMA_ID": "long",
                "_LEVEL": "int",
                "_EXTRA_FILES": _STRINGS,
            },
            {
                "_CREATION_TIME": {"type": "long", "logicalType": "timestamp-millis"},
                "_DELETE_ROW_COUNT": "long",
                "_EMBEDDED_FILE_INDEX": "bytes",
                "_FILE_SOURCE": "int",
                "_VALUE_STATS_COLS": _STRINGS,
                "_EXTERNAL_PATH": "string",
                "_FIRST_ROW_ID": "long",
                "_WRITE_COLS": _STRINGS,
            },
        )
    ],
}

MANIFEST_SCHEMA = fastavro.parse_schema(
    {
        "type": "record",
        "name": "record",
        "namespace": NAMESPACE,
        "fields": record_fields(
            {
                "_VERSION": "int",
                "_KIND": "int",
                "_PARTITION": "bytes",
                "_BUCKET": "int",
                "_TOTAL_BUCKETS": "int",
                "_FILE": _FILE_TYPE,
            },
            {},
        ),
    }
)

MANIFEST_LIST_SCHEMA = fastavro.parse_schema(
    {
        "type": "record",
        "name": "record",
        "namespace": NAMESPACE,
        "fields": record_fields(
            {
                "_VERSION": "int",
                "_FILE_NAME": "string",
                "_FILE_SIZE": "long",
                "_NUM_ADDED_FILES": "long",
                "_NUM_DELETED_FILES": "long",
                "_PARTITION_STATS": _stats_type("_PARTITION_STATS"),
                "_SCHEMA_ID": "long",
            },
            {
                "_MIN_BUCKET": "int",
                "_MAX_BUCKET": "int",
                "_MIN_LEVEL": "int",
                "_MAX_LEVEL": "int",
            },
        ),
    }
)


_STATS_TYPES = {"_MIN_VALUES": bytes, "_MAX_VALUES": bytes}
_FILE_TYPES = {
    "_FILE_SIZE": int,
    "_ROW_COUNT": int,
    "_MIN_KEY": bytes,
    "_MAX_KEY": bytes,
    "_MIN_SEQUENCE_NUMBER": int,
    "_MAX_SEQUENCE_NUMBER": int,
    "_SCHEMA_ID": int,
    "_LEVEL": int,
}
_FILE_OPTIONAL_TYPES = {
    "_DELETE_ROW_COUNT": int,
    "_EMBEDDED_FILE_INDEX": bytes,
    "_EXTERNAL_PATH": str,
    "_FIRST_ROW_ID": int,
}
_ENTRY_TYPES = {"_PARTITION": bytes, "_BUCKET": int, "_TOTAL_BUCKETS": int}
_META_TYPES = {
    "_FILE_SIZE": int,
    "_NUM_ADDED_FILES": int,
    "_NUM_DELETED_FILES": int,
    "_SCHEMA_ID": int,
}
_META_OPTIONAL_TYPES = {
    "_MIN_BUCKET": int,
    "_MAX_BUCKET": int,
    "_MIN_LEVEL": int,
    "_MAX_LEVEL": int,
}


def encode_manifest(entries: Iterable[ManifestEntry], *, compression: str) -> bytes:
    """A manifest of these entries, in their order."""
    return encode_records(MANIFEST_SCHEMA, map(_entry_to_record, entries), compression)


def decode_manifest(data: bytes, *, name: str) -> Iterator[ManifestEntry]:
    """Entries of a manifest, in order; error messages call the file `name`.

    Raises:
        UnreadableManifest: the file is not a manifest, or ends too early.
        UnsupportedError: it is of another version.
    """
    return decode_records(data, entry_from_record, version=MANIFEST_VERSION, name=name)


def encode_manifest_list(metas: Iterable[ManifestFileMeta], *, compression: str) -> bytes:
    """A manifest list, in order; an empty list is legal."""
    return encode_records(MANIFEST_LIST_SCHEMA, map(_meta_to_record, metas), compression)


def decode_manifest_list(data: bytes, *, name: str) -> tuple[ManifestFileMeta, ...]:
    """Manifests of a list, in order.

    Raises:
        UnreadableManifest: the file is not a manifest list, or ends too early.
        UnsupportedError: it is of another version.
    """
    return tuple(decode_records(data, _meta_from_record, version=MANIFEST_VERSION, name=name))


def similar_manifest_lists(
    share: Callable[[ManifestFileMeta], ManifestFileMeta],
) -> SimilarRecords[ManifestFileMeta]:
    """A decoder of manifest lists, most of which repeat the one before and add to it."""
    return SimilarRecords(lambda record: share(_meta_from_record(record)), MANIFEST_VERSION)


def _stats_to_record(stats: SimpleStats) -> Record:
    return {
        "_MIN_VALUES": stats.min_values,
        "_MAX_VALUES": stats.max_values,
        "_NULL_COUNTS": list(stats.null_counts),
    }


def _stats_from_record(record: Record) -> SimpleStats:
    check_types(record, _STATS_TYPES)
    counts = record.get("_NULL_COUNTS")
    return SimpleStats(record["_MIN_VALUES"], record["_MAX_VALUES"], tuple(counts or ()))


def _entry_to_record(entry: ManifestEntry) -> Record:
    return {
        "_VERSION": MANIFEST_VERSION,
        "_KIND": int(entry.kind),
        "_PARTITION": entry.partition,
        "_BUCKET": entry.bucket,
        "_TOTAL_BUCKETS": entry.total_buckets,
        "_FILE": file_to_record(entry.file),
    }


def entry_from_record(record: Record) -> ManifestEntry:
    """An entry of a decoded record."""
    check_types(record, _ENTRY_TYPES)
    return ManifestEntry(
        kind=FileKind(record["_KIND"]),
        partition=record["_PARTITION"],
        bucket=record["_BUCKET"],
        total_buckets=record["_TOTAL_BUCKETS"],
        file=file_from_record(record["_FILE"]),
    )


def file_to_record(file: DataFileMeta) -> Record:
    """A data file's metadata by the format's field names."""
    return {
        "_FILE_NAME": file.file_name,
        "_FILE_SIZE": file.file_size,
        "_ROW_COUNT": file.row_count,
        "_MIN_KEY": file.min_key,
        "_MAX_KEY": file.max_key,
        "_KEY_STATS": _stats_to_record(file.key_stats),
        "_VALUE_STATS": _stats_to_record(file.value_stats),
        "_MIN_SEQUENCE_NUMBER": file.min_sequence_number,
        "_MAX_SEQUENCE_NUMBER": file.max_sequence_number,
        "_SCHEMA_ID": file.schema_id,
        "_LEVEL": file.level,
        "_EXTRA_FILES": list(file.extra_files),
        "_CREATION_TIME": file.creation_time,
        "_DELETE_ROW_COUNT": file.delete_row_count,
        "_EMBEDDED_FILE_INDEX": file.embedded_file_index,
        "_FILE_SOURCE": None if file.file_source is None else int(file.file_source),
        "_VALUE_STATS_COLS": None if file.value_stats_cols is None else list(file.value_stats_cols),
        "_EXTERNAL_PATH": file.external_path,
        "_FIRST_ROW_ID": file.first_row_id,
        "_WRITE_COLS": None if file.write_cols is None else list(file.write_cols),
    }


def file_from_record(record: Record) -> DataFileMeta:
    """The inverse of `file_to_record`; fields that older writers leave out are None."""
    check_types(record, _FILE_TYPES, _FILE_OPTIONAL_TYPES)
    source = record.get("_FILE_SOURCE")
    return DataFileMeta(
        file_name=plain_name(record["_FILE_NAME"]),
        file_size=record["_FILE_SIZE"],
        row_count=record["_ROW_COUNT"],
        min_key=record["_MIN_KEY"],
        max_key=record["_MAX_KEY"],
        key_stats=_stats_from_record(record["_KEY_STATS"]),
        value_stats=_stats_from_record(record["_VALUE_STATS"]),
        min_sequence_number=record["_MIN_SEQUENCE_NUMBER"],
        max_sequence_number=record["_MAX_SEQUENCE_NUMBER"],
        schema_id=record["_SCHEMA_ID"],
        level=record["_LEVEL"],
        extra_files=tuple(map(plain_name, record.get("_EXTRA_FILES") or ())),
        creation_time=_epoch_ms(record.get("_CREATION_TIME")),
        delete_row_count=record.get("_DELETE_ROW_COUNT"),
        embedded_file_index=record.get("_EMBEDDED_FILE_INDEX"),
        file_source=None if source is None else FileSource(source),
        value_stats_cols=_names(record.get("_VALUE_STATS_COLS")),
        external_path=record.get("_EXTERNAL_PATH"),
        first_row_id=record.get("_FIRST_ROW_ID"),
        write_cols=_names(record.get("_WRITE_COLS")),
    )


def _names(value: list[str] | None) -> tuple[str, ...] | None:
    return None if value is None else tuple(value)


def _epoch_ms(value: Any) -> int | None:
    """Milliseconds since the epoch of a decoded logical timestamp."""
    if value is None:
        return None
    return as_moment_ms(value if isinstance(value, int) else round(value.timestamp() * 1000))


def _meta_to_record(meta: ManifestFileMeta) -> Record:
    return {
        "_VERSION": MANIFEST_VERSION,
        "_FILE_NAME": meta.file_name,
        "_FILE_SIZE": meta.file_size,
        "_NUM_ADDED_FILES": meta.num_added_files,
        "_NUM_DELETED_FILES": meta.num_deleted_files,
        "_PARTITION_STATS": _stats_to_record(meta.partition_stats),
        "_SCHEMA_ID": meta.schema_id,
        "_MIN_BUCKET": meta.min_bucket,
        "_MAX_BUCKET": meta.max_bucket,
        "_MIN_LEVEL": meta.min_level,
        "_MAX_LEVEL": meta.max_level,
    }


def _meta_from_record(record: Record) -> ManifestFileMeta:
    check_types(record, _META_TYPES, _META_OPTIONAL_TYPES)
    return ManifestFileMeta(
        file_name=plain_name(record["_FILE_NAME"]),
        file_size=record["_FILE_SIZE"],
        num_added_files=record["_NUM_ADDED_FILES"],
        num_deleted_files=record["_NUM_DELETED_FILES"],
        partition_stats=_stats_from_record(record["_PARTITION_STATS"]),
        schema_id=record["_SCHEMA_ID"],
        min_bucket=record.get("_MIN_BUCKET"),
        max_bucket=record.get("_MAX_BUCKET"),
        min_level=record.get("_MIN_LEVEL"),
        max_level=record.get("_MAX_LEVEL"),
    )
