"""Manifests in the formats beside Avro that option `manifest.format` has: as Avro, and back.

All else of the code knows manifests as Avro container files. Records are alike in all formats, and
readers find fields by name. Source: Paimon, `FileFormat.manifestFormat`.
"""

from __future__ import annotations

from datetime import UTC, datetime
from io import BytesIO
from typing import Any

import fastavro
import pyarrow as pa
import pyarrow.orc
import pyarrow.parquet

from lakewright.storage.codec.avro_records import Record, encode_records
from lakewright.storage.errors import UnreadableManifest
from lakewright.storage.spec.file_format import AVRO, ORC, PARQUET

# How files of a format begin.
_MARKS = {b"ORC": ORC, b"PAR1": PARQUET}
_PLAIN = {"int": pa.int32(), "long": pa.int64(), "string": pa.string(), "bytes": pa.binary()}
# Avro has no type for these small numbers; the other formats do.
_BYTES = {"_KIND", "_FILE_SOURCE"}
_CREATION_TIME = "_CREATION_TIME"


def as_avro(data: bytes, schema: Any, *, name: str) -> bytes:
    """A manifest of any format as Avro; error messages call the file `name`.

    Raises:
        UnreadableManifest: the file begins as one of another format, and cannot be read.
    """
    form = next((each for mark, each in _MARKS.items() if data.startswith(mark)), None)
    if form is None:
        return data
    try:
        if form == ORC:
            records = pa.orc.ORCFile(BytesIO(data)).read().to_pylist()
        else:
            records = pa.parquet.ParquetFile(BytesIO(data)).read().to_pylist()
        for record in records:
            _count_time(record)
        return encode_records(schema, records, "null")
    except Exception as error:
        # Arrow and Avro have errors of their own for each way in which a file may be damaged.
        raise UnreadableManifest(f"{name} cannot be read as {form}: {error!r}") from error


def from_avro(data: bytes, form: str) -> bytes:
    """An Avro file of ours in another format, with the same compression if that has it."""
    if form == AVRO:
        return data
    reader = fastavro.reader(BytesIO(data))
    fields = _arrow_fields(reader.writer_schema)
    rows = pa.Table.from_pylist(list(reader), pa.schema(fields))
    sink = BytesIO()
    is_packed = reader.codec != "null"
    if form == ORC:
        pa.orc.write_table(rows, sink, compression="zstd" if is_packed else "uncompressed")
    else:
        pa.parquet.write_table(rows, sink, compression="zstd" if is_packed else "none")
    return sink.getvalue()


def _count_time(record: Record) -> None:
    """Give the time of an entry's file as the number that Avro stores."""
    file = record.get("_FILE")
    moment = file.get(_CREATION_TIME) if isinstance(file, dict) else None
    if isinstance(file, dict) and isinstance(moment, datetime):
        file[_CREATION_TIME] = round(moment.replace(tzinfo=UTC).timestamp() * 1000)


def _arrow_fields(record: Any) -> list[pa.Field]:
    return [_arrow_field(each["name"], each["type"]) for each in record["fields"]]


def _arrow_field(name: str, kind: Any) -> pa.Field:
    is_nullable = isinstance(kind, list)
    inner = kind[1] if is_nullable else kind
    arrow_type = pa.int8() if name in _BYTES else _arrow_type(inner)
    return pa.field(name, arrow_type, is_nullable)


def _arrow_type(kind: Any) -> pa.DataType:
    if isinstance(kind, str):
        return _PLAIN[kind]
    if kind["type"] == "record":
        return pa.struct(_arrow_fields(kind))
    if kind["type"] == "array":
        return pa.list_(_arrow_field("element", kind["items"]))
    return pa.timestamp("ms")
