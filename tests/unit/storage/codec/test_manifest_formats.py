"""Manifests in ORC and Parquet: what is written as one of them is read back as it was."""

from __future__ import annotations

import pytest

from lakewright.storage.codec.index_manifest import (
    INDEX_MANIFEST_SCHEMA,
    decode_index_manifest,
    encode_index_manifest,
)
from lakewright.storage.codec.manifest_avro import (
    MANIFEST_LIST_SCHEMA,
    MANIFEST_SCHEMA,
    decode_manifest,
    decode_manifest_list,
    encode_manifest,
    encode_manifest_list,
)
from lakewright.storage.codec.manifest_formats import as_avro, from_avro
from lakewright.storage.errors import UnreadableManifest
from lakewright.storage.spec.index import DeletionVectorRange, IndexEntry, IndexFileMeta
from lakewright.storage.spec.manifest import ManifestFileMeta, SimpleStats
from tests.unit.storage.codec.test_manifest_columns import entry

MARKS = {"avro": b"Obj", "orc": b"ORC", "parquet": b"PAR1"}
ENTRIES = [
    entry(1),
    entry(2, creation_time=1_795_876_510_268, delete_row_count=3, value_stats_cols=("a",)),
    entry(3, creation_time=-1, extra_files=("f.index",), embedded_file_index=b"\0\xff"),
    entry(4, external_path="file:/x/y", first_row_id=7, write_cols=()),
]


@pytest.mark.parametrize("form", MARKS)
@pytest.mark.parametrize("compression", ["zstandard", "null", "deflate"])
def test_what_is_written_in_a_format_is_read_back(form: str, compression: str) -> None:
    written = from_avro(encode_manifest(ENTRIES, compression=compression), form)
    assert written.startswith(MARKS[form])
    read = as_avro(written, MANIFEST_SCHEMA, name="m")
    assert list(decode_manifest(read, name="m")) == ENTRIES


@pytest.mark.parametrize("form", ["orc", "parquet"])
def test_lists_and_index_manifests_are_read_back_and_damage_is_named(form: str) -> None:
    metas = (
        ManifestFileMeta(
            file_name="manifest-a-0",
            file_size=2,
            num_added_files=1,
            num_deleted_files=0,
            partition_stats=SimpleStats(b"\0", b"\1", (None, 0)),
            schema_id=0,
            min_bucket=0,
        ),
    )
    for held in ((), metas):
        stored = from_avro(encode_manifest_list(held, compression="zstandard"), form)
        read = as_avro(stored, MANIFEST_LIST_SCHEMA, name="l")
        assert decode_manifest_list(read, name="l") == held
    vector = DeletionVectorRange(data_file="data-0", offset=1, length=24, cardinality=None)
    files = [
        IndexFileMeta(index_type="HASH", file_name="index-0", file_size=4, row_count=1),
        IndexFileMeta(
            index_type="DELETION_VECTORS",
            file_name="index-1",
            file_size=33,
            row_count=1,
            deletion_vectors=(vector,),
        ),
    ]
    entries = tuple(IndexEntry(partition=b"p", bucket=1, file=file) for file in files)
    stored = from_avro(encode_index_manifest(entries, compression="zstandard"), form)
    read = as_avro(stored, INDEX_MANIFEST_SCHEMA, name="i")
    assert decode_index_manifest(read, name="i") == entries
    for damaged in (stored[:-9], stored[: len(stored) // 2], MARKS[form]):
        with pytest.raises(UnreadableManifest, match=f"i cannot be read as {form}"):
            as_avro(damaged, INDEX_MANIFEST_SCHEMA, name="i")
