"""Index manifests, which list every index file of a snapshot: Avro container files ↔ nouns.

Source: Paimon specification, chapter Manifest; `IndexManifestEntry`.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import fastavro

from lakewright.storage.codec.avro_records import (
    NAMESPACE,
    Record,
    check_types,
    decode_records,
    encode_records,
    nullable,
    record_fields,
)
from lakewright.storage.errors import UnsupportedError
from lakewright.storage.spec.file_names import plain_name
from lakewright.storage.spec.index import (
    INDEX_MANIFEST_VERSION,
    KNOWN_INDEXES,
    DeletionVectorRange,
    IndexEntry,
    IndexFileMeta,
)
from lakewright.storage.spec.manifest import FileKind

_RANGE = {
    "type": "record",
    "name": "record__DELETIONS_VECTORS_RANGES",
    "fields": record_fields({"f0": "string", "f1": "int", "f2": "int"}, {"_CARDINALITY": "long"}),
}

INDEX_MANIFEST_SCHEMA = fastavro.parse_schema(
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
                "_INDEX_TYPE": "string",
                "_FILE_NAME": "string",
                "_FILE_SIZE": "long",
                "_ROW_COUNT": "long",
            },
            {
                "_DELETIONS_VECTORS_RANGES": {"type": "array", "items": nullable(_RANGE)},
                "_EXTERNAL_PATH": "string",
            },
        ),
    }
)


_TYPES = {
    "_PARTITION": bytes,
    "_BUCKET": int,
    "_INDEX_TYPE": str,
    "_FILE_SIZE": int,
    "_ROW_COUNT": int,
}
_OPTIONAL_TYPES = {"_DELETIONS_VECTORS_RANGES": list, "_EXTERNAL_PATH": str}
_RANGE_TYPES = {"f1": int, "f2": int}


def encode_index_manifest(entries: Iterable[IndexEntry], *, compression: str) -> bytes:
    """An index manifest, entries in order."""
    return encode_records(INDEX_MANIFEST_SCHEMA, map(_to_record, entries), compression)


def decode_index_manifest(data: bytes, *, name: str) -> tuple[IndexEntry, ...]:
    """Entries of an index manifest, in order.

    Raises:
        UnreadableManifest: the file is not an index manifest, or ends too early.
        UnsupportedError: the file has another version, or lists a global index of a known kind.
    """

    def decode(record: Record) -> IndexEntry:
        return _from_record(record, name)

    return tuple(decode_records(data, decode, version=INDEX_MANIFEST_VERSION, name=name))


def _to_record(entry: IndexEntry) -> Record:
    file = entry.file
    vectors = file.deletion_vectors
    return {
        "_VERSION": INDEX_MANIFEST_VERSION,
        "_KIND": int(entry.kind),
        "_PARTITION": entry.partition,
        "_BUCKET": entry.bucket,
        "_INDEX_TYPE": file.index_type,
        "_FILE_NAME": file.file_name,
        "_FILE_SIZE": file.file_size,
        "_ROW_COUNT": file.row_count,
        "_DELETIONS_VECTORS_RANGES": None if vectors is None else [_range(v) for v in vectors],
        "_EXTERNAL_PATH": file.external_path,
    }


def _range(vector: DeletionVectorRange) -> Record:
    return {
        "f0": vector.data_file,
        "f1": vector.offset,
        "f2": vector.length,
        "_CARDINALITY": vector.cardinality,
    }


def _from_record(record: Record, name: str) -> IndexEntry:
    check_types(record, _TYPES, _OPTIONAL_TYPES)
    if record.get("_GLOBAL_INDEX") is not None and record["_INDEX_TYPE"] in KNOWN_INDEXES:
        # Those of other kinds are kept, and committers refuse them.
        raise UnsupportedError(
            f"{name} lists the global index {record['_FILE_NAME']} of kind "
            f"{record['_INDEX_TYPE']}, which is not implemented"
        )
    ranges: list[Any] | None = record.get("_DELETIONS_VECTORS_RANGES")
    return IndexEntry(
        kind=FileKind(record["_KIND"]),
        partition=record["_PARTITION"],
        bucket=record["_BUCKET"],
        file=IndexFileMeta(
            index_type=record["_INDEX_TYPE"],
            file_name=plain_name(record["_FILE_NAME"]),
            file_size=record["_FILE_SIZE"],
            row_count=record["_ROW_COUNT"],
            deletion_vectors=(None if ranges is None else tuple(map(_range_from_record, ranges))),
            external_path=record.get("_EXTERNAL_PATH"),
        ),
    )


def _range_from_record(record: Record) -> DeletionVectorRange:
    check_types(record, _RANGE_TYPES, {"_CARDINALITY": int})
    return DeletionVectorRange(
        data_file=plain_name(record["f0"]),
        offset=record["f1"],
        length=record["f2"],
        cardinality=record.get("_CARDINALITY"),
    )
